/* setting_options.c - see setting_options.h. */
#include "orchestrator/cli/setting_options.h"

#include "base/path.h"
#include "schema/yaml/tree.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static void add_help(char out[512], const struct hrf_setting *s)
{
    const bool has_range = s->type == HRF_SETTING_INT || s->type == HRF_SETTING_REAL;
    const bool shows_default = s->initial != NULL && s->argument != NULL;
    const size_t used = strlen(out);
    snprintf(out + used, 512 - used, "%s%s%s%s%s%s", used > 0 ? "; " : "", s->help,
             has_range ? "; " : "", has_range ? hrf_range_text(s->min, s->max).text : "",
             !shows_default ? ""
             : has_range    ? ", default "
                            : "; default ",
             shows_default ? s->initial : "");
}

static size_t find_option(const struct hrf_setting_options *o, const char *name)
{
    size_t i = 0;
    while (i < o->n && strcmp(o->table[i].name, name) != 0)
        i++;
    return i;
}

void hrf_setting_options_init(struct hrf_setting_options *o, unsigned phases,
                              const struct hrf_option *more)
{
    *o = (struct hrf_setting_options){ .n = 0 };
    for (size_t i = 0; i < hrf_n_settings; i++) {
        const struct hrf_setting *s = &hrf_settings[i];
        if (s->option == NULL || (phases != 0 && (s->phases & phases) == 0))
            continue;
        assert(o->n < HRF_MAX_OPTIONS);
        const size_t same = find_option(o, s->option);
        add_help(o->help[same], s);
        if (same < o->n) {
            o->twins[same] = s;
            continue;
        }
        o->settings[o->n] = s;
        o->table[o->n] = (struct hrf_option){
            .name = s->option,
            .argument = s->argument,
            .help = o->help[o->n],
            .type = s->argument != NULL ? HRF_OPTION_TEXT : HRF_OPTION_FLAG,
            .value = s->argument != NULL ? (void *)&o->values[o->n] : (void *)&o->flags[o->n]
        };
        o->n++;
    }
    size_t n = o->n;
    for (; more->name != NULL; more++) {
        assert(n < HRF_MAX_OPTIONS);
        o->table[n++] = *more;
    }
    hrf_settings_name_by(HRF_NAMES_ARE_OPTIONS);
}

/* Adds the items of "a, b" as a YAML list, in quotes or as they are. */
static void add_list(struct hrf_strbuf *out, const char *list, bool in_quotes)
{
    hrf_strbuf_addc(out, '[');
    for (const char *at = list;; at++) {
        at += strspn(at, " ");
        size_t n = strcspn(at, ",");
        const char *end = at + n;
        while (n > 0 && at[n - 1] == ' ')
            n--;
        HRF_AUTO_FREE char *item = hrf_strndup(at, n);
        if (in_quotes)
            hrf_yaml_add_quoted(out, item);
        else
            hrf_strbuf_adds(out, item);
        if (*(at = end) == '\0')
            break;
        hrf_strbuf_adds(out, ", ");
    }
    hrf_strbuf_addc(out, ']');
}

static enum hrf_status add_value(const struct hrf_setting *setting, const char *value,
                                 struct hrf_strbuf *out, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = NULL;
    switch (setting->type) {
    case HRF_SETTING_PATH:
        HRF_TRY(hrf_path_absolute(value, &path, err));
        hrf_yaml_add_quoted(out, path);
        break;
    case HRF_SETTING_TEXT:
    case HRF_SETTING_WORD:
        hrf_yaml_add_quoted(out, value);
        break;
    case HRF_SETTING_TEXTS:
    case HRF_SETTING_PATHS:
    case HRF_SETTING_PRECISIONS:
        add_list(out, value, true);
        break;
    case HRF_SETTING_TRIPLE:
        add_list(out, value, false);
        break;
    default:
        hrf_strbuf_adds(out, value);
    }
    return HRF_OK;
}

enum hrf_status hrf_setting_options_given(const struct hrf_setting_options *o,
                                          struct hrf_text_list *out, struct hrf_error *err)
{
    out->items = hrf_calloc(o->n + 1, sizeof out->items[0]);
    const size_t mode = find_option(o, "mode");
    const char *const asked = mode < o->n ? o->values[mode] : NULL;
    const bool is_slides = asked != NULL && strcmp(asked, hrf_words_mode[HRF_TILER_SLIDE]) == 0;
    const struct hrf_workflow scene = { .tiler.mode = is_slides ? HRF_TILER_SLIDE
                                                                : HRF_TILER_PATCH };
    for (size_t i = 0; i < o->n; i++) {
        HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
        const bool is_twin = o->twins[i] != NULL && hrf_setting_counts(o->twins[i], &scene);
        const struct hrf_setting *setting = is_twin ? o->twins[i] : o->settings[i];
        if (o->values[i] == NULL && !o->flags[i])
            continue;
        hrf_strbuf_addf(&text, "%s=", setting->key);
        HRF_TRY(add_value(setting, o->flags[i] ? "true" : o->values[i], &text, err));
        out->items[out->n_items++] = hrf_strbuf_detach(&text);
    }
    return HRF_OK;
}
