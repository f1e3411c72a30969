/* write.c - the resolved workflow, its JSON Schema, and what this build cannot run. */
#include "base/json.h"
#include "schema/workflow/keys.h"
#include "schema/yaml/tree.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void add_quoted(struct hrf_strbuf *out, const char *text)
{
    HRF_AUTO_FREE char *quoted = hrf_yaml_quote(text);
    hrf_strbuf_adds(out, quoted != NULL ? quoted : "");
    out->failed |= quoted == NULL;
}

static void add_list(struct hrf_strbuf *out, const struct hrf_text_list *list)
{
    hrf_strbuf_addc(out, '[');
    for (size_t i = 0; i < list->n_items; i++) {
        hrf_strbuf_adds(out, i > 0 ? ", " : "");
        add_quoted(out, list->items[i]);
    }
    hrf_strbuf_addc(out, ']');
}

static void add_precisions(struct hrf_strbuf *out, const struct hrf_workflow *w)
{
    for (size_t i = 0; i < w->n_precisions; i++)
        hrf_strbuf_addf(out, "%s%s", i > 0 ? ", " : "[", hrf_precision_name(w->precision[i]));
    hrf_strbuf_addc(out, ']');
}

/* False if the key is not set; it is then left out. */
static bool is_set(const struct hrf_key *key, const void *place)
{
    switch (key->type) {
    case HRF_KEY_TEXT:
    case HRF_KEY_PATH:
    case HRF_KEY_DURATION:
        return *(char *const *)place != NULL;
    case HRF_KEY_TEXTS:
    case HRF_KEY_PATHS:
        return ((const struct hrf_text_list *)place)->n_items > 0;
    case HRF_KEY_SIZE:
        return *(const int64_t *)place > 0;
    case HRF_KEY_REAL:
        return key->initial != NULL || *(const double *)place > 0;
    default:
        return true;
    }
}

static void add_value(struct hrf_strbuf *out, const struct hrf_workflow *w,
                      const struct hrf_key *key, const void *place)
{
    const double *numbers = place;
    switch (key->type) {
    case HRF_KEY_WORD:
        hrf_strbuf_adds(out, key->words[*(const int *)place]);
        break;
    case HRF_KEY_INT:
    case HRF_KEY_SIZE:
        hrf_strbuf_addf(out, "%lld", (long long)*(const int64_t *)place);
        break;
    case HRF_KEY_REAL:
        hrf_strbuf_addf(out, "%.17g", numbers[0]);
        break;
    case HRF_KEY_BOOL:
        hrf_strbuf_adds(out, *(const bool *)place ? "true" : "false");
        break;
    case HRF_KEY_TEXT:
    case HRF_KEY_PATH:
    case HRF_KEY_DURATION:
        add_quoted(out, *(char *const *)place);
        break;
    case HRF_KEY_TEXTS:
    case HRF_KEY_PATHS:
        add_list(out, place);
        break;
    case HRF_KEY_TRIPLE:
        hrf_strbuf_addf(out, "[%.17g, %.17g, %.17g]", numbers[0], numbers[1], numbers[2]);
        break;
    case HRF_KEY_PRECISIONS:
        add_precisions(out, w);
        break;
    }
}

/* Prints the maps that lead to `path`, except those that the previous key has opened. */
static void open_maps(struct hrf_strbuf *out, const char *path, const char *before)
{
    int depth = 0;
    for (const char *part = path; strchr(part, '.') != NULL; depth++) {
        const char *dot = strchr(part, '.');
        size_t n = (size_t)(dot - path);
        if (strncmp(before, path, n + 1) != 0)
            hrf_strbuf_addf(out, "%*s%.*s:\n", 2 * depth, "", (int)(dot - part), part);
        part = dot + 1;
    }
    const char *leaf = strrchr(path, '.');
    hrf_strbuf_addf(out, "%*s%s: ", 2 * depth, "", leaf != NULL ? leaf + 1 : path);
}

/* Keys that belong to another layout or method would be refused when the file is read again. */
static bool belongs(const struct hrf_workflow *w, const struct hrf_key *key)
{
    if (strcmp(key->path, "calibrate.slides.layout") == 0)
        return hrf_dataset_is_given(&w->calibrate.slides);
    if (strcmp(key->path, "calibrate.slides.split") == 0)
        return w->calibrate.slides.root != NULL;
    if (strcmp(key->path, "calibrate.slides.recursive") == 0)
        return w->calibrate.slides.files.n_items > 0;
    if (strcmp(key->path, "dataset.recursive") == 0)
        return w->dataset.layout == HRF_LAYOUT_FILES;
    for (size_t i = 0; hrf_tissue_network_keys[i] != NULL; i++)
        if (strcmp(key->path, hrf_tissue_network_keys[i]) == 0)
            return w->tiler.tissue.method == HRF_TISSUE_ONNX;
    return (strcmp(key->path, "dataset.split") != 0 &&
            strcmp(key->path, "dataset.known_exclusions") != 0) ||
           w->dataset.layout == HRF_LAYOUT_CAMELYON16;
}

void hrf_workflow_write(const struct hrf_workflow *workflow, struct hrf_strbuf *out)
{
    const char *before = "";
    hrf_strbuf_adds(out, "version: 1\n");
    for (size_t i = 0; i < hrf_n_keys; i++) {
        const struct hrf_key *key = &hrf_keys[i];
        const void *place = (const char *)workflow + key->offset;
        if (!is_set(key, place) || !belongs(workflow, key))
            continue;
        if (workflow->engine.parallel.is_auto && strncmp(key->path, "engine.parallel.", 16) == 0) {
            if (strcmp(key->path, "engine.parallel.data") == 0)
                hrf_strbuf_adds(out, "  parallel: auto\n");
            continue;
        }
        open_maps(out, key->path, before);
        add_value(out, workflow, key, place);
        hrf_strbuf_addc(out, '\n');
        before = key->path;
    }
}

static void add_or_none(struct hrf_strbuf *out, const struct hrf_workflow *w,
                        const struct hrf_key *key)
{
    const void *place = (const char *)w + key->offset;
    if (is_set(key, place) && belongs(w, key))
        add_value(out, w, key, place);
    else
        hrf_strbuf_adds(out, "not given");
}

void hrf_workflow_differences(const struct hrf_workflow *now, const struct hrf_workflow *before,
                              struct hrf_strbuf *out)
{
    for (size_t i = 0; i < hrf_n_keys; i++) {
        struct hrf_strbuf a = HRF_STRBUF_INIT, b = HRF_STRBUF_INIT;
        add_or_none(&a, now, &hrf_keys[i]);
        add_or_none(&b, before, &hrf_keys[i]);
        if (strcmp(a.text, b.text) != 0)
            hrf_strbuf_addf(out, "%s: %s, was %s\n", hrf_keys[i].path, a.text, b.text);
        out->failed |= a.failed || b.failed;
        hrf_strbuf_release(&a);
        hrf_strbuf_release(&b);
    }
}

static json_t *words_json(const char *const words[])
{
    json_t *list = json_array();
    for (size_t i = 0; words[i] != NULL; i++)
        json_array_append_new(list, json_string(words[i]));
    return list;
}

static json_t *number_json(const struct hrf_key *key, const char *type)
{
    json_t *value = json_pack("{ss}", "type", type);
    json_object_set_new(value, "minimum", json_real(key->min));
    if (key->max < 1e15)
        json_object_set_new(value, "maximum", json_real(key->max));
    return value;
}

static json_t *key_json(const struct hrf_key *key)
{
    json_t *value = NULL;
    switch (key->type) {
    case HRF_KEY_WORD:
        value = json_pack("{so}", "enum", words_json(key->words));
        break;
    case HRF_KEY_INT:
        value = number_json(key, "integer");
        break;
    case HRF_KEY_REAL:
        value = number_json(key, "number");
        break;
    case HRF_KEY_BOOL:
        value = json_pack("{ss}", "type", "boolean");
        break;
    case HRF_KEY_TEXT:
    case HRF_KEY_PATH:
    case HRF_KEY_DURATION:
        value = json_pack("{sssi}", "type", "string", "minLength", 1);
        break;
    case HRF_KEY_SIZE:
        value = json_pack("{s[ss]ss}", "type", "integer", "string", "pattern",
                          "^[0-9.]+([KMGT](i?B)?)?$");
        break;
    case HRF_KEY_TEXTS:
    case HRF_KEY_PATHS:
        value = json_pack("{sss{ss}}", "type", "array", "items", "type", "string");
        break;
    case HRF_KEY_TRIPLE:
        value = json_pack("{ssso sisi}", "type", "array", "items", number_json(key, "number"),
                          "minItems", 3, "maxItems", 3);
        break;
    case HRF_KEY_PRECISIONS:
        value = json_pack("{sss{so} sb si}", "type", "array", "items", "enum",
                          words_json(key->words), "uniqueItems", 1, "minItems", 1);
        break;
    }
    if (key->help[0] != '\0')
        json_object_set_new(value, "description", json_string(key->help));
    if (key->initial != NULL)
        json_object_set_new(value, "x-default", json_string(key->initial));
    return value;
}

/* Allows `parallel: auto` and `spatial: 4`. The pattern and the minimum do not apply to objects. */
static void allow_short_form(json_t *object, const char *name)
{
    if (strcmp(name, "parallel") == 0)
        json_object_update_new(
            object, json_pack("{s[ss]ss}", "type", "object", "string", "pattern", "^auto$"));
    if (strcmp(name, "spatial") == 0)
        json_object_update_new(object,
                               json_pack("{s[ss]si}", "type", "object", "integer", "minimum", 1));
}

/* The schema of the object at `path`; creates the objects on the way. */
static json_t *object_at(json_t *root, const char *path)
{
    json_t *at = root;
    for (const char *part = path; strchr(part, '.') != NULL;) {
        const char *dot = strchr(part, '.');
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(dot - part), part);
        json_t *properties = json_object_get(at, "properties");
        json_t *next = json_object_get(properties, name);
        if (next == NULL) {
            next = json_pack("{sss{}sb}", "type", "object", "properties", "additionalProperties",
                             0);
            allow_short_form(next, name);
            json_object_set_new(properties, name, next);
        }
        at = next;
        part = dot + 1;
    }
    return at;
}

enum hrf_status hrf_workflow_json_schema(struct hrf_strbuf *out, struct hrf_error *err)
{
    HRF_AUTO_JSON root = json_pack(
        "{sssssss{s{si}}sbs[sss]}", "$schema", "https://json-schema.org/draft/2020-12/schema",
        "title", "hires-flow workflow", "type", "object", "properties", "version", "const", 1,
        "additionalProperties", 0, "required", "version", "dataset", "model");
    for (size_t i = 0; i < hrf_n_keys && root != NULL; i++) {
        const char *leaf = strrchr(hrf_keys[i].path, '.');
        json_t *object = object_at(root, hrf_keys[i].path);
        json_object_set_new(json_object_get(object, "properties"),
                            leaf != NULL ? leaf + 1 : hrf_keys[i].path, key_json(&hrf_keys[i]));
    }
    HRF_AUTO_FREE char *text = root != NULL ? hrf_json_text(root) : NULL;
    HRF_CHECK_MEMORY(text != NULL, err, "no memory for the JSON Schema");
    hrf_strbuf_addf(out, "%s\n", text);
    return hrf_strbuf_status(out, err);
}

char *hrf_workflow_layout(const struct hrf_workflow *w)
{
    if (w->engine.parallel.is_auto)
        return hrf_strdup("auto");
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    if (w->engine.parallel.data > 1)
        hrf_strbuf_addf(&text, "data=%lld,", (long long)w->engine.parallel.data);
    if (w->engine.parallel.spatial_rows * w->engine.parallel.spatial_cols > 1)
        hrf_strbuf_addf(&text, "spatial=%lldx%lld,", (long long)w->engine.parallel.spatial_rows,
                        (long long)w->engine.parallel.spatial_cols);
    if (w->engine.parallel.tensor > 1)
        hrf_strbuf_addf(&text, "tensor=%lld,", (long long)w->engine.parallel.tensor);
    if (w->engine.parallel.stages > 1)
        hrf_strbuf_addf(&text, "stages=%lld,microbatches=%lld,",
                        (long long)w->engine.parallel.stages,
                        (long long)w->engine.parallel.microbatches);
    if (w->engine.parallel.is_bidirectional)
        hrf_strbuf_adds(&text, "bidirectional,");
    if (w->engine.parallel.halos != HRF_HALO_AUTO)
        hrf_strbuf_addf(&text, "halos=%s,", hrf_words_halos[w->engine.parallel.halos]);
    if (w->engine.parallel.bands != HRF_BANDS_OF_AUTO)
        hrf_strbuf_addf(&text, "bands=%s,", hrf_words_bands[w->engine.parallel.bands]);
    if (w->engine.parallel.attention != HRF_ATTENTION_OF_AUTO)
        hrf_strbuf_addf(&text, "attention=%s,", hrf_words_attention[w->engine.parallel.attention]);
    if (text.length == 0)
        return hrf_strdup("single");
    text.text[text.length - 1] = '\0'; /* the last comma */
    return hrf_strbuf_detach(&text);
}

void hrf_workflow_unsupported(const struct hrf_workflow *w, struct hrf_strbuf *out)
{
    for (size_t i = 0; i < w->n_precisions; i++)
        if (w->precision[i] == HRF_TF32 && w->engine.device != HRF_DEVICE_CUDA)
            hrf_strbuf_adds(out,
                            "precision: tf32 belongs to GPUs: set engine.device to cuda, or use "
                            "fp32, fp16, bf16 or int8\n");
}
