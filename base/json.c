/* json.c - typed reading of jansson values, and JSON files (json.h). */
#include "base/json.h"

#include "base/file.h"
#include "base/strbuf.h"

#include <math.h>
#include <string.h>

/* Our documents are small; this bounds what a damaged or hostile file can ask for. */
#define JSON_FILE_LIMIT ((size_t)256 << 20)

enum hrf_status hrf_json_parse(const char *text, size_t n_bytes, const char *where, json_t **out,
                               struct hrf_error *err)
{
    json_error_t error;
    json_t *value = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, &error);
    if (value == NULL)
        return hrf_error_set(err, HRF_E_USER, "%s:%d:%d: not valid JSON: %s", where, error.line,
                             error.column, error.text);
    *out = value;
    return HRF_OK;
}

enum hrf_status hrf_json_read_file(const char *path, json_t **out, struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = NULL;
    size_t n_bytes = 0;
    HRF_TRY(hrf_file_read(path, JSON_FILE_LIMIT, &text, &n_bytes, err));
    return hrf_json_parse(text, n_bytes, path, out, err);
}

static char *dump(const json_t *value, size_t flags)
{
    char *text = json_dumps(value,
                            flags | JSON_SORT_KEYS | JSON_REAL_PRECISION(17) | JSON_ENCODE_ANY);
    char *copy = hrf_strdup(text);
    free(text); /* ci-allow: jansson's own */
    return copy;
}

char *hrf_json_text(const json_t *value)
{
    return dump(value, JSON_COMPACT);
}

enum hrf_status hrf_json_write_file(const char *path, const json_t *value, struct hrf_error *err)
{
    struct hrf_strbuf line = HRF_STRBUF_INIT;
    HRF_AUTO_FREE char *text = dump(value, JSON_INDENT(2));
    if (text != NULL)
        hrf_strbuf_addf(&line, "%s\n", text);
    enum hrf_status status = text != NULL
                                 ? hrf_strbuf_status(&line, err)
                                 : hrf_error_set(err, HRF_E_NOMEM, "no memory to write '%s'", path);
    if (status == HRF_OK)
        status = hrf_file_write_atomic(path, line.text, line.length, err);
    hrf_strbuf_release(&line);
    return status;
}

static const char *type_name(const json_t *value)
{
    static const char *const names[] = { "an object", "an array", "a string", "an integer",
                                         "a number",  "true",     "false",    "null" };
    return value != NULL ? names[json_typeof(value)] : "missing";
}

static enum hrf_status wrong(const json_t *value, const char *key, const char *where,
                             const char *expected, struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_USER, "%s: '%s' must be %s, it is %s", where, key, expected,
                         type_name(value));
}

enum hrf_status hrf_json_get_text(const json_t *object, const char *key, const char *where,
                                  const char **out, struct hrf_error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value))
        return wrong(value, key, where, "a string", err);
    *out = json_string_value(value);
    return HRF_OK;
}

enum hrf_status hrf_json_get_int(const json_t *object, const char *key, const char *where,
                                 int64_t *out, struct hrf_error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        return wrong(value, key, where, "an integer", err);
    *out = json_integer_value(value);
    return HRF_OK;
}

enum hrf_status hrf_json_get_number(const json_t *object, const char *key, const char *where,
                                    double *out, struct hrf_error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        return wrong(value, key, where, "a number", err);
    *out = json_number_value(value);
    return HRF_OK;
}

enum hrf_status hrf_json_get_bool(const json_t *object, const char *key, const char *where,
                                  bool *out, struct hrf_error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_boolean(value))
        return wrong(value, key, where, "true or false", err);
    *out = json_is_true(value);
    return HRF_OK;
}

enum hrf_status hrf_json_get_array(const json_t *object, const char *key, const char *where,
                                   json_t **out, struct hrf_error *err)
{
    json_t *value = json_object_get(object, key);
    if (!json_is_array(value))
        return wrong(value, key, where, "an array", err);
    *out = value;
    return HRF_OK;
}

enum hrf_status hrf_json_get_object(const json_t *object, const char *key, const char *where,
                                    json_t **out, struct hrf_error *err)
{
    json_t *value = json_object_get(object, key);
    if (!json_is_object(value))
        return wrong(value, key, where, "an object", err);
    *out = value;
    return HRF_OK;
}

json_t *hrf_json_string(const char *text)
{
    json_t *value = json_string(text);
    if (value != NULL)
        return value;
    struct hrf_strbuf clean = HRF_STRBUF_INIT;
    for (const char *s = text; *s != '\0'; s++) {
        if ((unsigned char)*s < 0x80)
            hrf_strbuf_addc(&clean, *s);
        else
            hrf_strbuf_adds(&clean, "\xef\xbf\xbd");
    }
    value = json_string(clean.text);
    hrf_strbuf_release(&clean);
    return value;
}

json_t *hrf_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}
