/* settings.c - walks over the rows of settings: values, content keys, what workers are told, names
 * in messages; and what follows from several settings (settings.h). */
#include "schema/settings/settings.h"

#include "base/fields.h"
#include "base/message.h"
#include "base/quantity.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct hrf_setting *hrf_setting_find(const char *key)
{
    for (size_t i = 0; i < hrf_n_settings; i++)
        if (strcmp(hrf_settings[i].key, key) == 0)
            return &hrf_settings[i];
    return NULL;
}

bool hrf_setting_counts(const struct hrf_setting *setting, const struct hrf_workflow *workflow)
{
    return setting->when == NULL || setting->when->holds(workflow);
}

/* ---- one value ---- */

/* The setting as a field of its struct. */
static struct hrf_field setting_field(const struct hrf_setting *setting)
{
    static const enum hrf_field_type types[] = {
        [HRF_SETTING_WORD] = HRF_FIELD_WORD,        [HRF_SETTING_INT] = HRF_FIELD_INT,
        [HRF_SETTING_REAL] = HRF_FIELD_REAL,        [HRF_SETTING_BOOL] = HRF_FIELD_BOOL,
        [HRF_SETTING_TEXT] = HRF_FIELD_TEXT,        [HRF_SETTING_PATH] = HRF_FIELD_TEXT,
        [HRF_SETTING_TEXTS] = HRF_FIELD_TEXTS,      [HRF_SETTING_PATHS] = HRF_FIELD_TEXTS,
        [HRF_SETTING_SIZE] = HRF_FIELD_INT,         [HRF_SETTING_TRIPLE] = HRF_FIELD_REALS,
        [HRF_SETTING_PRECISIONS] = HRF_FIELD_WORDS, [HRF_SETTING_DURATION] = HRF_FIELD_TEXT,
    };
    struct hrf_field field = { .key = setting->key,
                               .type = types[setting->type],
                               .offset = setting->at,
                               .words = setting->words,
                               .count_size = sizeof(size_t) };
    switch (field.type) {
    case HRF_FIELD_TEXTS:
        field.element = sizeof(char *);
        field.count = setting->at + offsetof(struct hrf_text_list, n_items);
        break;
    case HRF_FIELD_WORDS:
        field.element = sizeof(enum hrf_precision);
        field.size = HRF_N_PRECISIONS * field.element;
        field.count = offsetof(struct hrf_workflow, n_precisions);
        break;
    default:
        field.count_size = 0;
        field.size = 3 * sizeof(double); /* of a triple */
    }
    return field;
}

json_t *hrf_setting_value(const struct hrf_setting *setting, const void *record)
{
    const struct hrf_field field = setting_field(setting);
    return hrf_field_json(&field, record);
}

void hrf_setting_release(const struct hrf_setting *setting, void *record)
{
    const struct hrf_field field = setting_field(setting);
    hrf_field_release(&field, record);
}

bool hrf_setting_takes(const struct hrf_setting *setting, double number)
{
    return isfinite(number) && number >= setting->min && number <= setting->max;
}

bool hrf_setting_is_set(const struct hrf_setting *setting, const struct hrf_workflow *workflow)
{
    HRF_AUTO_JSON value = hrf_setting_value(setting, workflow);
    if (json_is_number(value))
        return setting->initial != NULL || setting->type == HRF_SETTING_INT ||
               json_number_value(value) > 0;
    const bool is_list = setting->type == HRF_SETTING_TEXTS || setting->type == HRF_SETTING_PATHS;
    return !json_is_null(value) && !(is_list && json_array_size(value) == 0);
}

void hrf_workflow_destroy(struct hrf_workflow *workflow)
{
    if (workflow == NULL)
        return;
    for (size_t i = 0; i < hrf_n_settings; i++)
        hrf_setting_release(&hrf_settings[i], workflow);
    hrf_free(workflow->path);
    hrf_free(workflow);
}

/* ---- content keys ---- */

void hrf_settings_hash(const struct hrf_workflow *workflow, unsigned phases, struct hrf_hash *hash)
{
    for (size_t i = 0; i < hrf_n_settings; i++) {
        const struct hrf_setting *setting = &hrf_settings[i];
        if ((setting->phases & phases) == 0 || (setting->flags & HRF_SETTING_BY_TASK) != 0 ||
            !hrf_setting_counts(setting, workflow))
            continue;
        hrf_hash_text(hash, setting->key);
        if (setting->type == HRF_SETTING_PATH || setting->type == HRF_SETTING_PATHS)
            continue; /* the files' contents count */
        HRF_AUTO_JSON value = hrf_setting_value(setting, workflow);
        HRF_AUTO_FREE char *text = hrf_json_text(value);
        hrf_hash_text(hash, text);
    }
}

void hrf_settings_of_phase(struct hrf_setting_table table, const void *recipe, unsigned phase,
                           struct hrf_strbuf *out)
{
    for (size_t i = 0; i < table.n; i++) {
        const struct hrf_setting *setting = &table.rows[i];
        const unsigned phases = setting->phases == 0 ? HRF_FOR_TRAINING : setting->phases;
        if ((phases & phase) == 0)
            continue;
        HRF_AUTO_JSON value = hrf_setting_value(setting, recipe);
        HRF_AUTO_JSON pair = json_array();
        hrf_json_add(pair, json_incref(value));
        HRF_AUTO_FREE char *text = hrf_json_text(pair);
        hrf_strbuf_addf(out, "%s %s\n", setting->key, text);
    }
}

/* ---- what workers are told ---- */

json_t *hrf_settings_json(const struct hrf_workflow *workflow)
{
    json_t *object = json_object();
    for (size_t i = 0; i < hrf_n_settings; i++)
        if ((hrf_settings[i].flags & HRF_SETTING_FOR_WORKERS) != 0)
            hrf_json_put(object, hrf_settings[i].key,
                         hrf_setting_value(&hrf_settings[i], workflow));
    return object;
}

/* 0 may stand for "not given" and need not lie in the range; the least size guards against typing
 * errors, which are not made here. */
static bool is_in_range(const struct hrf_setting *setting, const json_t *value)
{
    if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++)
            if (!is_in_range(setting, json_array_get(value, i)))
                return false;
        return true;
    }
    const double number = json_number_value(value);
    if (setting->type == HRF_SETTING_SIZE)
        return number >= 0 && number <= setting->max;
    return !json_is_number(value) || hrf_setting_takes(setting, number) ||
           (setting->initial == NULL && number == 0);
}

enum hrf_status hrf_settings_from_json(const json_t *object, const char *where,
                                       struct hrf_workflow **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_workflow) workflow = hrf_calloc(1, sizeof *workflow);
    size_t n = 0;
    for (size_t i = 0; i < hrf_n_settings; i++) {
        const struct hrf_setting *setting = &hrf_settings[i];
        const struct hrf_field field = setting_field(setting);
        if ((setting->flags & HRF_SETTING_FOR_WORKERS) == 0)
            continue;
        const json_t *value = json_object_get(object, setting->key);
        if (value == NULL)
            return hrf_error_set(err, HRF_E_USER, "%s: '%s' is missing", where, setting->key);
        if (!is_in_range(setting, value) ||
            hrf_field_read(&field, object, where, workflow, NULL) != HRF_OK)
            return hrf_error_set(err, HRF_E_USER,
                                 "%s: '%s' is out of its range, or of another type", where,
                                 setting->key);
        n++;
    }
    if (json_object_size(object) != n)
        return hrf_error_set(err, HRF_E_USER, "%s: %zu settings that this build does not know",
                             where, json_object_size(object) - n);
    HRF_MOVE(*out, workflow);
    return HRF_OK;
}

/* ---- what a setting takes, for people ---- */

void hrf_setting_add_type(const struct hrf_setting *key, struct hrf_strbuf *out)
{
    static const char *const kinds[] = {
        [HRF_SETTING_INT] = "whole number",
        [HRF_SETTING_REAL] = "number",
        [HRF_SETTING_BOOL] = "true or false",
        [HRF_SETTING_TEXT] = "text",
        [HRF_SETTING_PATH] = "path",
        [HRF_SETTING_TEXTS] = "list of texts",
        [HRF_SETTING_PATHS] = "list of paths",
        [HRF_SETTING_SIZE] = "bytes",
        [HRF_SETTING_TRIPLE] = "three numbers",
        [HRF_SETTING_DURATION] = "duration",
    };
    if (key->type == HRF_SETTING_WORD || key->type == HRF_SETTING_PRECISIONS) {
        hrf_strbuf_adds(out, key->type == HRF_SETTING_PRECISIONS ? "list of " : "");
        for (size_t i = 0; key->words[i] != NULL; i++)
            hrf_strbuf_addf(out, "%s%s", i > 0 ? ", " : "", key->words[i]);
        return;
    }
    hrf_strbuf_adds(out, kinds[key->type]);
    if (key->type == HRF_SETTING_INT || key->type == HRF_SETTING_REAL ||
        key->type == HRF_SETTING_TRIPLE)
        hrf_strbuf_addf(out, ", %s", hrf_range_text(key->min, key->max).text);
}

static bool describe(const char *name, char *out, size_t size)
{
    HRF_AUTO_RELEASE(hrf_strbuf) type = HRF_STRBUF_INIT;
    const struct hrf_setting *setting = hrf_setting_find(name);
    if (setting == NULL)
        return false;
    hrf_setting_add_type(setting, &type);
    snprintf(out, size, "%s%s%s: %s", type.text, setting->initial != NULL ? ", default " : "",
             setting->initial != NULL ? setting->initial : "", setting->help);
    return true;
}

void hrf_settings_describe_in_errors(void)
{
    hrf_message_set_describer(describe);
}

/* ---- names in messages ---- */

static enum hrf_setting_names names_are;
static const char names_variable[] = "HRF_SETTING_NAMES";

/* By options: those of the command line that sets what the key does. */
static bool name_option(const char *name, const char *value, char *out, size_t size)
{
    const struct hrf_setting *setting = hrf_setting_find(name);
    if (setting != NULL && setting->option == NULL && setting->argument != NULL)
        snprintf(out, size, "%s", setting->argument);
    else if (setting == NULL || setting->option == NULL)
        snprintf(out, size, "--set %s%s%s", name, value != NULL ? "=" : "",
                 value != NULL ? value : "");
    else if (value == NULL || setting->argument == NULL)
        snprintf(out, size, "--%s", setting->option);
    else
        snprintf(out, size, "--%s %s", setting->option, value);
    return true;
}

void hrf_settings_name_by(enum hrf_setting_names names)
{
    names_are = names;
    hrf_message_set_namer(names == HRF_NAMES_ARE_OPTIONS ? name_option : NULL);
    if (names == HRF_NAMES_ARE_OPTIONS)
        setenv(names_variable, "options", 1);
    else
        unsetenv(names_variable);
}

void hrf_settings_name_as_caller(void)
{
    const char *words = getenv(names_variable);
    if (words != NULL && strcmp(words, "options") == 0)
        hrf_settings_name_by(HRF_NAMES_ARE_OPTIONS);
}

enum hrf_setting_names hrf_settings_names(void)
{
    return names_are;
}

/* ---- what follows from several settings ---- */

bool hrf_dataset_is_given(const struct hrf_workflow_dataset *d)
{
    return d->root != NULL || d->csv != NULL || d->files.n_items > 0;
}

bool hrf_slide_head_is_given(const struct hrf_workflow_slide_head *head)
{
    return head->file != NULL || head->train != HRF_TRAIN_NONE;
}

bool hrf_workflow_has_budget(const struct hrf_workflow *workflow)
{
    return workflow->calibrate.budget.cosine > 0 || workflow->calibrate.budget.agreement > 0;
}

bool hrf_workflow_compares_margins(const struct hrf_workflow *w)
{
    const bool is_one_number = w->model.output != HRF_OUTPUT_EMBEDDING &&
                               w->model.output != HRF_OUTPUT_SEGMENTATION &&
                               w->model.classes.n_items == 1; /* which has no direction */
    return w->calibrate.budget.agreement > 0 ||
           (!(w->calibrate.budget.cosine > 0) && is_one_number);
}

char *hrf_workflow_layout(const struct hrf_workflow *w)
{
    char text[128] = "auto";
    const struct hrf_layout_plan layout = {
        .data = (int32_t)w->engine.parallel.data,
        .rows = (int32_t)w->engine.parallel.spatial_rows,
        .columns = (int32_t)w->engine.parallel.spatial_cols,
        .tensor = (int32_t)w->engine.parallel.tensor,
        .stages = (int32_t)w->engine.parallel.stages,
        .microbatches = (int32_t)w->engine.parallel.microbatches,
        .bidirectional = w->engine.parallel.is_bidirectional,
        .halos = w->engine.parallel.halos,
        .bands = w->engine.parallel.bands,
        .attention = w->engine.parallel.attention
    };
    if (!w->engine.parallel.is_auto)
        hrf_layout_text(&layout, text);
    return hrf_strdup(text);
}

int64_t hrf_workflow_seconds(const char *duration)
{
    const char *dash = strchr(duration, '-'), *at = dash != NULL ? dash + 1 : duration;
    int64_t seconds = dash != NULL ? 24 * strtoll(duration, NULL, 10) : 0; /* hours so far */
    for (int i = 0; i < 3; i++) {
        char *end;
        const int64_t part = strtoll(at, &end, 10);
        seconds = i == 0 ? seconds + part : seconds * 60 + part;
        at = *end == ':' ? end + 1 : end;
    }
    return seconds;
}

bool hrf_workflow_has_precision(const struct hrf_workflow *w, enum hrf_precision precision)
{
    for (size_t i = 0; i < w->n_precisions; i++)
        if (w->precision[i] == precision)
            return true;
    return false;
}

size_t hrf_workflow_n_variants(const struct hrf_workflow *w)
{
    return w->n_precisions + (w->study.stain_jitter > 0);
}

bool hrf_workflow_is_jitter(const struct hrf_workflow *w, size_t index)
{
    return index >= w->n_precisions;
}

enum hrf_precision hrf_workflow_variant(const struct hrf_workflow *w, size_t index)
{
    return w->precision[hrf_workflow_is_jitter(w, index) ? 0 : index];
}

const char *hrf_workflow_variant_name(const struct hrf_workflow *w, size_t index)
{
    return hrf_workflow_is_jitter(w, index) ? HRF_JITTER
                                            : hrf_precision_name(hrf_workflow_variant(w, index));
}

size_t hrf_workflow_find_variant(const struct hrf_workflow *w, const char *name)
{
    for (size_t i = 0; i < hrf_workflow_n_variants(w); i++)
        if (strcmp(hrf_workflow_variant_name(w, i), name) == 0)
            return i;
    return HRF_MOST_VARIANTS;
}

struct hrf_preparation hrf_workflow_preparation(const struct hrf_workflow *w)
{
    return (struct hrf_preparation){ .size = w->model.input.size,
                                     .resize = w->model.input.resize,
                                     .interpolation = w->model.input.interpolation };
}

int64_t hrf_workflow_image_size(const struct hrf_workflow *w)
{
    if (w->tiler.mode == HRF_TILER_SLIDE)
        return w->tiler.slide.size;
    return w->model.input.size > 0 ? w->model.input.size : w->tiler.patch.size;
}

char *hrf_workflow_preparation_text(const struct hrf_workflow *w)
{
    const struct hrf_preparation p = hrf_workflow_preparation(w);
    const long long patch = w->tiler.patch.size, resize = p.resize, size = p.size;
    const char *by = hrf_interpolation_names[p.interpolation];
    if (size == 0)
        return NULL;
    if (resize == patch)
        return hrf_format("patches of %lld px, of which the middle %lld are used", patch, size);
    if (resize == size)
        return hrf_format("patches of %lld px, resized to %lld (%s)", patch, size, by);
    return hrf_format("patches of %lld px, resized to %lld (%s), of which the middle %lld are used",
                      patch, resize, by, size);
}

const char *hrf_model_activation(const struct hrf_workflow_model *model)
{
    const bool is_asked_for = model->output != HRF_OUTPUT_PROBABILITIES &&
                              model->output != HRF_OUTPUT_EMBEDDING;
    return is_asked_for ? hrf_words_output[model->output] : NULL;
}

const char *hrf_score_method_name(enum hrf_score_method method)
{
    return hrf_words_score[method];
}

const char *hrf_head_choice_name(enum hrf_head_choice choice)
{
    return hrf_words_heads[choice];
}

const char *hrf_edge_name(enum hrf_edge edge)
{
    return hrf_words_edge[edge];
}

const char *hrf_tissue_method_name(enum hrf_tissue_method method)
{
    return hrf_words_tissue[method];
}

const char *hrf_device_name(enum hrf_device device)
{
    return hrf_words_device[device];
}

int64_t hrf_workflow_n_scores(const struct hrf_workflow *w)
{
    return w->model.output == HRF_OUTPUT_EMBEDDING ? 0 : (int64_t)w->model.classes.n_items;
}

bool hrf_workflow_is_slides(const struct hrf_workflow *w)
{
    return w->tiler.mode == HRF_TILER_SLIDE;
}

struct hrf_tile_region hrf_tiler_region(const struct hrf_workflow_tiler *t)
{
    if (t->mode == HRF_TILER_SLIDE)
        return (struct hrf_tile_region){ t->slide.size, t->slide.size, t->slide.mpp };
    return (struct hrf_tile_region){ t->patch.size, t->patch.stride, t->patch.mpp };
}

const char *hrf_fit_method_name(enum hrf_fit_method method)
{
    return hrf_words_fit[method];
}
