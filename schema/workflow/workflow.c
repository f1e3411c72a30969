/* workflow.c - a workflow file into the typed struct: defaults, the file, --set, then the checks
 * of check.c. */
#include "schema/workflow/workflow.h"

#include "base/args.h"
#include "base/file.h"
#include "base/path.h"
#include "base/precision.h"
#include "base/text.h"
#include "schema/workflow/reader.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKFLOW_VERSION = 1, PATH_SIZE = 256 };

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

const char *hrf_precision_name(enum hrf_precision precision)
{
    return hrf_precision_names[precision];
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

const char *hrf_on_bad_tile_name(enum hrf_on_bad_tile choice)
{
    return hrf_words_on_bad_tile[choice];
}

const char *hrf_tissue_method_name(enum hrf_tissue_method method)
{
    return hrf_words_tissue[method];
}

const char *hrf_device_name(enum hrf_device device)
{
    return hrf_words_device[device];
}

const char *hrf_decode_name(enum hrf_decode decode)
{
    return hrf_words_decode[decode];
}

void hrf_findings_release(struct hrf_findings *findings)
{
    for (size_t i = 0; i < findings->n_items; i++) {
        hrf_free(findings->items[i].where);
        hrf_free(findings->items[i].message);
    }
    hrf_free(findings->items);
    hrf_strbuf_release(&findings->text);
    *findings = (struct hrf_findings)HRF_FINDINGS_INIT;
}

void hrf_workflow_destroy(struct hrf_workflow *workflow)
{
    if (workflow == NULL)
        return;
    for (size_t i = 0; i < hrf_n_keys; i++) {
        void *place = hrf_key_place(workflow, &hrf_keys[i]);
        struct hrf_text_list *list = place;
        switch (hrf_keys[i].type) {
        case HRF_KEY_TEXT:
        case HRF_KEY_PATH:
        case HRF_KEY_DURATION:
            hrf_free(*(char **)place);
            break;
        case HRF_KEY_TEXTS:
        case HRF_KEY_PATHS:
            for (size_t k = 0; k < list->n_items; k++)
                hrf_free(list->items[k]);
            hrf_free(list->items);
            break;
        default:
            break;
        }
    }
    hrf_free(workflow->path);
    hrf_free(workflow);
}

/* The words that are allowed at one place: the next part of the path of every key under `prefix`.
 */
static size_t words_under(const char *prefix, char words[64][48], const char *pointers[66])
{
    size_t n = 0, length = strlen(prefix);
    for (size_t i = 0; i < hrf_n_keys; i++) {
        const char *path = hrf_keys[i].path;
        if (length > 0 && (strncmp(path, prefix, length) != 0 || path[length] != '.'))
            continue;
        const char *part = path + length + (length > 0);
        char word[48];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(part, "."), part);
        bool known = false;
        for (size_t k = 0; k < n; k++)
            known |= strcmp(words[k], word) == 0;
        if (!known && n < 64)
            snprintf(words[n++], sizeof words[0], "%s", word);
    }
    for (size_t k = 0; k < n; k++)
        pointers[k] = words[k];
    if (length == 0)
        pointers[n++] = "version";
    pointers[n] = NULL;
    return n;
}

static void unknown_key(struct hrf_reader *r, const char *prefix, const char *name, int line,
                        int column)
{
    char words[64][48];
    const char *pointers[66];
    struct hrf_strbuf list = HRF_STRBUF_INIT;
    size_t n = words_under(prefix, words, pointers);
    const char *near = hrf_nearest_word(name, pointers);
    for (size_t i = 0; i < n; i++)
        hrf_strbuf_addf(&list, "%s%s", i > 0 ? ", " : "", pointers[i]);
    HRF_AUTO_FREE char *shown = hrf_text_printable(name);
    hrf_reader_find(r, line, column, "unknown key '%s'%s%s%s%s%s%s; allowed here: %s",
                    shown != NULL ? shown : "", prefix[0] != '\0' ? " in '" : "", prefix,
                    prefix[0] != '\0' ? "'" : "", near != NULL ? ", did you mean '" : "",
                    near != NULL ? near : "", near != NULL ? "'?" : "", list.text);
    hrf_strbuf_release(&list);
}

static bool is_prefix(const char *path)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < hrf_n_keys; i++)
        if (strncmp(hrf_keys[i].path, path, n) == 0 && hrf_keys[i].path[n] == '.')
            return true;
    return false;
}

/* The two short forms: `spatial: N` stands for N rows, `parallel: auto` lets the plan choose. */
static bool read_short_form(struct hrf_reader *r, const char *path,
                            const struct hrf_yaml_node *node)
{
    if (node->kind != HRF_YAML_SCALAR)
        return false;
    if (strcmp(path, "engine.parallel.spatial") == 0) {
        hrf_reader_value(r, hrf_key_index("engine.parallel.spatial.rows"), node);
        return true;
    }
    if (strcmp(path, "engine.parallel") == 0 && strcmp(node->text, "auto") == 0) {
        r->workflow->engine.parallel.is_auto = true;
        return true;
    }
    return false;
}

static void read_node(struct hrf_reader *r, const char *path, const struct hrf_yaml_node *node);

static void read_map(struct hrf_reader *r, const char *prefix, const struct hrf_yaml_node *map)
{
    for (size_t i = 0; i < map->n_items; i++) {
        const struct hrf_yaml_node *key = map->items[i].key;
        char path[PATH_SIZE];
        if (map->items[i].duplicate_of > 0) {
            hrf_reader_find(r, key->line, key->column,
                            "the key '%s' stands here a second time (first in line %d); keep one",
                            key->text, map->items[i].duplicate_of);
            continue;
        }
        if (prefix[0] == '\0' && strcmp(key->text, "version") == 0)
            continue;
        int n = snprintf(path, sizeof path, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "",
                         key->text);
        bool known = n > 0 && n < PATH_SIZE && strchr(key->text, '.') == NULL &&
                     (hrf_key_index(path) < hrf_n_keys || is_prefix(path));
        if (!known)
            unknown_key(r, prefix, key->text, key->line, key->column);
        else
            read_node(r, path, map->items[i].value);
    }
}

static void read_node(struct hrf_reader *r, const char *path, const struct hrf_yaml_node *node)
{
    size_t index = hrf_key_index(path);
    if (index < hrf_n_keys)
        hrf_reader_value(r, index, node);
    else if (read_short_form(r, path, node))
        return;
    else if (node->kind == HRF_YAML_MAP)
        read_map(r, path, node);
    else
        hrf_reader_find(r, node->line, node->column, "'%s' must be a map of keys, not '%s'", path,
                        node->kind == HRF_YAML_SCALAR ? node->text : "a list");
}

static enum hrf_status read_defaults(struct hrf_reader *r, struct hrf_error *err)
{
    for (size_t i = 0; i < hrf_n_keys; i++) {
        if (hrf_keys[i].initial == NULL)
            continue;
        HRF_AUTO(hrf_yaml) yaml = NULL;
        HRF_TRY(hrf_yaml_parse(hrf_keys[i].initial, strlen(hrf_keys[i].initial), "default", &yaml,
                               err));
        hrf_reader_value(r, i, hrf_yaml_root(yaml));
        r->lines[i] = 0;
    }
    return HRF_OK;
}

static void check_version(struct hrf_reader *r, const struct hrf_yaml_node *root)
{
    const struct hrf_yaml_node *version = hrf_yaml_find(root, "version");
    if (version == NULL)
        hrf_reader_find(r, 0, 0, "'version' is missing; begin the file with 'version: 1'");
    else if (version->kind != HRF_YAML_SCALAR || strcmp(version->text, "1") != 0)
        hrf_reader_find(r, version->line, version->column,
                        "version '%s' is not known; this build reads version: %d",
                        version->kind == HRF_YAML_SCALAR ? version->text : "(not a number)",
                        WORKFLOW_VERSION);
}

/* Reports the first part of the path that is unknown there. */
static void unknown_path(struct hrf_reader *r, const char *path)
{
    char prefix[PATH_SIZE] = "", longer[PATH_SIZE];
    for (const char *part = path;;) {
        size_t n = strcspn(part, ".");
        snprintf(longer, sizeof longer, "%.*s", (int)(part - path + (ptrdiff_t)n), path);
        if (part[n] == '\0' || !is_prefix(longer)) {
            const char *name = prefix[0] != '\0' ? longer + strlen(prefix) + 1 : longer;
            unknown_key(r, prefix, name, 0, 0);
            return;
        }
        memcpy(prefix, longer, sizeof prefix);
        part += n + 1;
    }
}

static void read_override(struct hrf_reader *r, const char *text, const char *file)
{
    const char *equal = strchr(text, '=');
    char path[PATH_SIZE], where[PATH_SIZE + 16];
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_yaml) yaml = NULL;
    snprintf(path, sizeof path, "%.*s", equal != NULL ? (int)(equal - text) : 0, text);
    snprintf(where, sizeof where, "--set %s", equal != NULL ? path : text);
    r->where = where;
    r->is_override = true;
    if (equal == NULL)
        hrf_reader_find(r, 0, 0, "'%s' is not KEY=VALUE, e.g. engine.batch=64", text);
    else if (hrf_yaml_parse(equal + 1, strlen(equal + 1), where, &yaml, &err) != HRF_OK)
        hrf_reader_find(r, 0, 0, "%s", err.text);
    else if (hrf_key_index(path) >= hrf_n_keys && !is_prefix(path))
        unknown_path(r, path);
    else
        read_node(r, path, hrf_yaml_root(yaml));
    r->where = file;
    r->is_override = false;
}

/* Sorts by position in the file; findings without a position come last. */
static int compare_findings(const void *a, const void *b)
{
    const struct hrf_finding *u = a, *v = b;
    if (u->line != v->line)
        return u->line != 0 && (v->line == 0 || u->line < v->line) ? -1 : 1;
    return u->column < v->column ? -1 : u->column > v->column;
}

static void show_findings(struct hrf_findings *findings)
{
    for (size_t i = 0; i < findings->n_items; i++) {
        const struct hrf_finding *f = &findings->items[i];
        hrf_strbuf_adds(&findings->text, f->where);
        if (f->line > 0)
            hrf_strbuf_addf(&findings->text, ":%d:%d", f->line, f->column);
        hrf_strbuf_addf(&findings->text, ": %s\n", f->message);
    }
}

static enum hrf_status finish(struct hrf_reader *r, struct hrf_findings *findings,
                              struct hrf_error *err)
{
    if (r->n_findings > 1)
        qsort(r->findings, r->n_findings, sizeof r->findings[0], compare_findings);
    findings->items = r->findings;
    findings->n_items = r->n_findings;
    show_findings(findings);
    if (r->out_of_memory)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the workflow '%s'", r->where);
    size_t n_set = 0;
    for (size_t i = 0; i < r->n_findings; i++)
        n_set += strncmp(r->findings[i].where, "--set", 5) == 0;
    if (n_set > 0 && n_set == r->n_findings) /* the file is not at fault */
        return hrf_error_set(err, HRF_E_USER, "%zu value%s of --set cannot be used", n_set,
                             n_set == 1 ? "" : "s");
    if (r->n_findings > 0)
        return hrf_error_set(err, HRF_E_USER, "'%s' has %zu error%s", r->where, r->n_findings,
                             r->n_findings == 1 ? "" : "s");
    return HRF_OK;
}

/* The profile that the overrides or the file name; NULL: none. */
static const char *profile_name(const struct hrf_yaml_node *root, const char *const overrides[],
                                size_t n_overrides)
{
    static const char key[] = "executor.slurm.profile=";
    for (size_t i = n_overrides; i > 0; i--)
        if (strncmp(overrides[i - 1], key, strlen(key)) == 0)
            return overrides[i - 1] + strlen(key);
    const struct hrf_yaml_node *node = hrf_yaml_find(root, "executor");
    node = node != NULL && node->kind == HRF_YAML_MAP ? hrf_yaml_find(node, "slurm") : NULL;
    node = node != NULL && node->kind == HRF_YAML_MAP ? hrf_yaml_find(node, "profile") : NULL;
    return node != NULL && node->kind == HRF_YAML_SCALAR ? node->text : NULL;
}

/* A site's file has keys of executor.slurm. It is read first, so that the workflow's keys override
 * it. Its errors are findings with their own position. */
static enum hrf_status read_profile(struct hrf_reader *r, const char *name, struct hrf_error *err)
{
    static const char section[] = "executor.slurm.";
    const char *where = r->where;
    HRF_AUTO_FREE char *path = hrf_path_join(r->anchor, name);
    HRF_AUTO_FREE char *text = NULL;
    HRF_AUTO(hrf_yaml) yaml = NULL;
    struct hrf_error cause = { .status = HRF_OK };
    size_t n_bytes = 0;
    HRF_CHECK_MEMORY(path != NULL, err, "no memory for a path");
    if (hrf_file_read(path, HRF_YAML_MAX_BYTES, &text, &n_bytes, &cause) != HRF_OK ||
        hrf_yaml_parse(text, n_bytes, path, &yaml, &cause) != HRF_OK) {
        hrf_reader_find(r, 0, 0, "the profile cannot be read: %s", cause.text);
        return HRF_OK;
    }
    const struct hrf_yaml_node *root = hrf_yaml_root(yaml);
    r->where = path;
    if (root->kind != HRF_YAML_MAP)
        hrf_reader_find(r, root->line, root->column,
                        "a profile is a map of the keys of executor.slurm, e.g. 'partition: gpu'");
    else if (hrf_yaml_find(root, "profile") != NULL)
        hrf_reader_find(r, root->line, root->column, "a profile cannot name another profile");
    else
        read_map(r, "executor.slurm", root);
    r->where = where;
    for (size_t i = 0; i < hrf_n_keys; i++) /* the value was set by the profile, not here */
        if (strncmp(hrf_keys[i].path, section, strlen(section)) == 0)
            r->lines[i] = 0;
    return HRF_OK;
}

static enum hrf_status read_all(struct hrf_reader *r, const char *text, size_t n_bytes,
                                const char *path, const char *const overrides[], size_t n_overrides,
                                struct hrf_error *err)
{
    HRF_AUTO(hrf_yaml) yaml = NULL;
    struct hrf_error cause = { .status = HRF_OK };
    HRF_TRY(read_defaults(r, err));
    enum hrf_status status = hrf_yaml_parse(text, n_bytes, path, &yaml, &cause);
    if (status == HRF_E_USER) { /* the text already contains the position */
        size_t n = strlen(path);
        char *rest = cause.text, *end = rest;
        bool own = strncmp(rest, path, n) == 0 && rest[n] == ':';
        long line = own ? strtol(rest + n + 1, &end, 10) : 0, column = 0;
        if (line > 0 && *end == ':')
            column = strtol(end + 1, &end, 10);
        rest = line > 0 && end[0] == ':' && end[1] == ' ' ? end + 2 : rest;
        hrf_reader_find(r, (int)line, (int)column, "%s", rest);
        return HRF_OK;
    }
    if (status != HRF_OK) {
        if (err != NULL)
            *err = cause;
        return status;
    }
    const struct hrf_yaml_node *root = hrf_yaml_root(yaml);
    if (root->kind != HRF_YAML_MAP) {
        hrf_reader_find(r, root->line, root->column,
                        "a workflow is a map of keys; begin with 'version: 1'");
        return HRF_OK;
    }
    const char *profile = profile_name(root, overrides, n_overrides);
    check_version(r, root);
    if (profile != NULL && profile[0] != '\0')
        HRF_TRY(read_profile(r, profile, err));
    read_map(r, "", root);
    for (size_t i = 0; i < n_overrides; i++)
        read_override(r, overrides[i], path);
    hrf_reader_check(r);
    return HRF_OK;
}

static enum hrf_status parse(const char *text, size_t n_bytes, const char *path,
                             const char *const overrides[], size_t n_overrides, bool is_of_a_run,
                             struct hrf_workflow **out, struct hrf_findings *findings,
                             struct hrf_error *err)
{
    HRF_AUTO(hrf_workflow) workflow = hrf_calloc(1, sizeof *workflow);
    HRF_AUTO_FREE char *absolute = NULL, *anchor = NULL;
    HRF_AUTO_FREE int *lines = hrf_calloc(2 * hrf_n_keys + 1, sizeof *lines);
    HRF_TRY(hrf_path_absolute(path, &absolute, err));
    anchor = hrf_path_directory(absolute);
    HRF_CHECK_MEMORY(workflow != NULL && lines != NULL && anchor != NULL, err,
                     "no memory for the workflow '%s'", path);
    HRF_MOVE(workflow->path, absolute);
    struct hrf_reader reader = { .workflow = workflow,
                                 .where = path,
                                 .anchor = anchor,
                                 .is_of_a_run = is_of_a_run,
                                 .lines = lines,
                                 .columns = lines + hrf_n_keys };
    enum hrf_status status = read_all(&reader, text, n_bytes, path, overrides, n_overrides, err);
    enum hrf_status end = finish(&reader, findings, status == HRF_OK ? err : NULL);
    HRF_TRY(status);
    HRF_TRY(end);
    HRF_MOVE(*out, workflow);
    return HRF_OK;
}

enum hrf_status hrf_workflow_parse(const char *text, size_t n_bytes, const char *path,
                                   const char *const overrides[], size_t n_overrides,
                                   struct hrf_workflow **out, struct hrf_findings *findings,
                                   struct hrf_error *err)
{
    return parse(text, n_bytes, path, overrides, n_overrides, false, out, findings, err);
}

static enum hrf_status load(const char *path, const char *const overrides[], size_t n_overrides,
                            bool is_of_a_run, struct hrf_workflow **out,
                            struct hrf_findings *findings, struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = NULL;
    size_t n_bytes = 0;
    HRF_TRY(hrf_file_read(path, HRF_YAML_MAX_BYTES, &text, &n_bytes, err));
    return parse(text, n_bytes, path, overrides, n_overrides, is_of_a_run, out, findings, err);
}

enum hrf_status hrf_workflow_load(const char *path, const char *const overrides[],
                                  size_t n_overrides, struct hrf_workflow **out,
                                  struct hrf_findings *findings, struct hrf_error *err)
{
    return load(path, overrides, n_overrides, false, out, findings, err);
}

enum hrf_status hrf_workflow_load_of_run(const char *path, const char *const overrides[],
                                         size_t n_overrides, struct hrf_workflow **out,
                                         struct hrf_findings *findings, struct hrf_error *err)
{
    return load(path, overrides, n_overrides, true, out, findings, err);
}
