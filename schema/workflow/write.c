/* write.c - the resolved workflow, its JSON Schema, and what this build cannot run. */
#include "base/json.h"
#include "schema/workflow/workflow.h"
#include "schema/yaml/tree.h"

#include <stdio.h>
#include <string.h>

/* A value as YAML; words of an enumeration need no quotes. */
static void add_value(struct hrf_strbuf *out, const json_t *value, bool is_word)
{
    HRF_AUTO_FREE char *text = NULL;
    switch (json_typeof(value)) {
    case JSON_ARRAY:
        for (size_t i = 0; i < json_array_size(value); i++) {
            hrf_strbuf_adds(out, i > 0 ? ", " : "[");
            add_value(out, json_array_get(value, i), is_word);
        }
        hrf_strbuf_adds(out, json_array_size(value) > 0 ? "]" : "[]");
        break;
    case JSON_INTEGER:
        hrf_strbuf_addf(out, "%lld", (long long)json_integer_value(value));
        break;
    case JSON_REAL:
        hrf_strbuf_addf(out, "%.17g", json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        hrf_strbuf_adds(out, json_is_true(value) ? "true" : "false");
        break;
    case JSON_NULL:
        break;
    case JSON_STRING:
    case JSON_OBJECT: /* a text that is not UTF-8 */
        if (is_word)
            hrf_strbuf_adds(out, json_string_value(value));
        else if (hrf_json_to_bytes(value, "", "", &text, NULL) == HRF_OK)
            hrf_yaml_add_quoted(out, text);
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

static void add_or_none(struct hrf_strbuf *out, const struct hrf_workflow *w,
                        const struct hrf_setting *key)
{
    HRF_AUTO_JSON value = hrf_setting_value(key, w);
    if (hrf_setting_is_set(key, w) && hrf_setting_counts(key, w))
        add_value(out, value, key->words != NULL);
    else
        hrf_strbuf_adds(out, "not given");
}

void hrf_workflow_write_changes(const struct hrf_workflow *workflow,
                                const struct hrf_workflow *defaults, struct hrf_strbuf *out)
{
    const char *before = "";
    hrf_strbuf_adds(out, "version: 1\n");
    for (size_t i = 0; i < hrf_n_settings; i++) {
        const struct hrf_setting *key = &hrf_settings[i];
        struct hrf_strbuf now = HRF_STRBUF_INIT, initial = HRF_STRBUF_INIT;
        add_or_none(&now, workflow, key);
        if (defaults != NULL)
            add_or_none(&initial, defaults, key);
        if (hrf_setting_is_set(key, workflow) && hrf_setting_counts(key, workflow) &&
            strcmp(now.text, initial.text) != 0) {
            open_maps(out, key->key, before);
            hrf_strbuf_addf(out, "%s\n", now.text);
            before = key->key;
        }
        hrf_strbuf_release(&now);
        hrf_strbuf_release(&initial);
    }
}

void hrf_workflow_write(const struct hrf_workflow *workflow, struct hrf_strbuf *out)
{
    hrf_workflow_write_changes(workflow, NULL, out);
}

void hrf_workflow_differences(const struct hrf_workflow *now, const struct hrf_workflow *before,
                              struct hrf_strbuf *out)
{
    for (size_t i = 0; i < hrf_n_settings; i++) {
        struct hrf_strbuf a = HRF_STRBUF_INIT, b = HRF_STRBUF_INIT;
        add_or_none(&a, now, &hrf_settings[i]);
        add_or_none(&b, before, &hrf_settings[i]);
        if (strcmp(a.text, b.text) != 0)
            hrf_strbuf_addf(out, "%s: %s, was %s\n", hrf_settings[i].key, a.text, b.text);
        hrf_strbuf_release(&a);
        hrf_strbuf_release(&b);
    }
}

/* A list of words that NULL ends. */
static json_t *words_json(const char *const words[])
{
    json_t *list = json_array();
    for (size_t i = 0; words[i] != NULL; i++)
        hrf_json_add(list, json_string(words[i]));
    return list;
}

static json_t *type_json(const char *type)
{
    json_t *value = json_object();
    hrf_json_put_text(value, "type", type);
    return value;
}

static json_t *list_json(json_t *items)
{
    json_t *value = type_json("array");
    hrf_json_put(value, "items", items);
    return value;
}

static json_t *enum_json(const char *const words[])
{
    json_t *value = json_object();
    hrf_json_put(value, "enum", words_json(words));
    return value;
}

static json_t *number_json(const struct hrf_setting *key, const char *type)
{
    json_t *value = type_json(type);
    hrf_json_put_number(value, "minimum", key->min);
    if (key->max < 1e15)
        hrf_json_put_number(value, "maximum", key->max);
    return value;
}

static json_t *key_json(const struct hrf_setting *key)
{
    json_t *value = NULL;
    switch (key->type) {
    case HRF_SETTING_WORD:
        value = enum_json(key->words);
        break;
    case HRF_SETTING_INT:
        value = number_json(key, "integer");
        break;
    case HRF_SETTING_REAL:
        value = number_json(key, "number");
        break;
    case HRF_SETTING_BOOL:
        value = type_json("boolean");
        break;
    case HRF_SETTING_TEXT:
    case HRF_SETTING_PATH:
    case HRF_SETTING_DURATION:
        value = type_json("string");
        hrf_json_put_int(value, "minLength", 1);
        break;
    case HRF_SETTING_SIZE:
        value = json_object();
        hrf_json_put(value, "type", words_json((const char *const[]){ "integer", "string", NULL }));
        hrf_json_put_text(value, "pattern", "^[0-9.]+([KMGT](i?B)?)?$");
        break;
    case HRF_SETTING_TEXTS:
    case HRF_SETTING_PATHS:
        value = list_json(type_json("string"));
        break;
    case HRF_SETTING_TRIPLE:
        value = list_json(number_json(key, "number"));
        hrf_json_put_int(value, "minItems", 3);
        hrf_json_put_int(value, "maxItems", 3);
        break;
    case HRF_SETTING_PRECISIONS:
        value = list_json(enum_json(key->words));
        hrf_json_put_bool(value, "uniqueItems", true);
        hrf_json_put_int(value, "minItems", 1);
        break;
    }
    if (key->help[0] != '\0')
        hrf_json_put_text(value, "description", key->help);
    if (key->initial != NULL)
        hrf_json_put_text(value, "x-default", key->initial);
    return value;
}

/* Allows `parallel: auto` and `spatial: 4`. The pattern and the minimum do not apply to objects. */
static void allow_short_form(json_t *object, const char *name)
{
    if (strcmp(name, "parallel") == 0) {
        hrf_json_put(object, "type", words_json((const char *const[]){ "object", "string", NULL }));
        hrf_json_put_text(object, "pattern", "^auto$");
    }
    if (strcmp(name, "spatial") == 0) {
        hrf_json_put(object, "type",
                     words_json((const char *const[]){ "object", "integer", NULL }));
        hrf_json_put_int(object, "minimum", 1);
    }
}

/* An object that has no members yet and allows no others than those that are put into it. */
static json_t *object_json(void)
{
    json_t *object = type_json("object");
    hrf_json_put(object, "properties", json_object());
    hrf_json_put_bool(object, "additionalProperties", false);
    return object;
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
            next = object_json();
            allow_short_form(next, name);
            hrf_json_put(properties, name, next);
        }
        at = next;
        part = dot + 1;
    }
    return at;
}

void hrf_workflow_json_schema(struct hrf_strbuf *out)
{
    HRF_AUTO_JSON root = object_json();
    json_t *version = json_object();
    hrf_json_put_int(version, "const", 1);
    hrf_json_put(json_object_get(root, "properties"), "version", version);
    hrf_json_put_text(root, "$schema", "https://json-schema.org/draft/2020-12/schema");
    hrf_json_put_text(root, "title", "hires-flow workflow");
    hrf_json_put(root, "required",
                 words_json((const char *const[]){ "version", "dataset", "model", NULL }));
    for (size_t i = 0; i < hrf_n_settings; i++) {
        const char *leaf = strrchr(hrf_settings[i].key, '.');
        json_t *object = object_at(root, hrf_settings[i].key);
        hrf_json_put(json_object_get(object, "properties"),
                     leaf != NULL ? leaf + 1 : hrf_settings[i].key, key_json(&hrf_settings[i]));
    }
    HRF_AUTO_FREE char *text = hrf_json_text(root);
    hrf_strbuf_addf(out, "%s\n", text);
}

void hrf_workflow_unsupported(const struct hrf_workflow *w, struct hrf_strbuf *out)
{
    for (size_t i = 0; i < w->n_precisions; i++)
        if (w->precision[i] == HRF_TF32 && w->engine.device != HRF_DEVICE_CUDA)
            hrf_strbuf_adds(out,
                            "precision: tf32 belongs to GPUs: set engine.device to cuda, or use "
                            "fp32, fp16, bf16 or int8\n");
}
