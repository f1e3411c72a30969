/* json.c - typed reading of jansson values, and JSON files (json.h). */
#include "base/json.h"

#include "base/file.h"
#include "base/strbuf.h"

#include <math.h>
#include <stdio.h>
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
    if (text == NULL) /* `value` is NULL, too, where its making ran out of memory */
        hrf_out_of_memory(0);
    char *copy = hrf_strdup(text);
    free(text); /* ci-allow: jansson's own */
    return copy;
}

char *hrf_json_text(const json_t *value)
{
    return dump(value, JSON_COMPACT);
}

void hrf_json_print(const json_t *value)
{
    HRF_AUTO_FREE char *text = hrf_json_text(value);
    puts(text);
}

enum hrf_status hrf_json_write_file(const char *path, const json_t *value, struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = dump(value, JSON_INDENT(2));
    HRF_AUTO_RELEASE(hrf_strbuf) line = HRF_STRBUF_INIT;
    hrf_strbuf_addf(&line, "%s\n", text);
    return hrf_file_write_atomic(path, line.text, line.length, err);
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

/* jansson fails only when memory is out. */
static void json_check(int failed)
{
    if (failed)
        hrf_out_of_memory(0);
}

void hrf_json_put(json_t *object, const char *key, json_t *value)
{
    if (json_object_set(object, key, value) != 0) { /* ci-allow: the one place */
        HRF_AUTO_JSON name = hrf_json_string(key);
        json_check(
            json_object_set(object, json_string_value(name), value)); /* ci-allow: likewise */
    }
    json_decref(value);
}

void hrf_json_put_text(json_t *object, const char *key, const char *text)
{
    hrf_json_put(object, key, text != NULL ? hrf_json_string(text) : json_null());
}

void hrf_json_put_int(json_t *object, const char *key, int64_t value)
{
    hrf_json_put(object, key, json_integer(value));
}

void hrf_json_put_number(json_t *object, const char *key, double value)
{
    hrf_json_put(object, key, hrf_json_number(value));
}

void hrf_json_put_bool(json_t *object, const char *key, bool value)
{
    hrf_json_put(object, key, json_boolean(value));
}

json_t *hrf_json_document(void)
{
    json_t *document = json_object();
    hrf_json_put_int(document, "version", 1);
    return document;
}

void hrf_json_add(json_t *array, json_t *value)
{
    json_check(json_array_append_new(array, value)); /* ci-allow: the one place */
}

json_t *hrf_json_string(const char *text)
{
    json_t *value = json_string(text);
    if (value != NULL)
        return value;
    HRF_AUTO_RELEASE(hrf_strbuf) clean = HRF_STRBUF_INIT;
    for (const char *s = text; *s != '\0'; s++) {
        if ((unsigned char)*s < 0x80)
            hrf_strbuf_addc(&clean, *s);
        else
            hrf_strbuf_adds(&clean, "\xef\xbf\xbd");
    }
    value = json_string(clean.text);
    return value;
}

json_t *hrf_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *hrf_json_numbers(const double *values, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        hrf_json_add(array, hrf_json_number(values[i]));
    return array;
}

json_t *hrf_json_ints(const int64_t *values, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        hrf_json_add(array, json_integer(values[i]));
    return array;
}

json_t *hrf_json_lines(const char *text)
{
    json_t *array = json_array();
    while (*text != '\0') {
        const size_t n = strcspn(text, "\n");
        HRF_AUTO_FREE char *line = hrf_strndup(text, n);
        hrf_json_add(array, hrf_json_string(line));
        text += n + (text[n] != '\0');
    }
    return array;
}

json_t *hrf_json_bytes(const char *text)
{
    if (text == NULL)
        return json_null();
    json_t *value = json_string(text); /* NULL when it is not UTF-8 */
    if (value != NULL)
        return value;
    HRF_AUTO_RELEASE(hrf_strbuf) hex = HRF_STRBUF_INIT;
    for (const char *s = text; *s != '\0'; s++)
        hrf_strbuf_addf(&hex, "%02x", (unsigned char)*s);
    value = json_object();
    hrf_json_put_text(value, "base16", hex.text);
    return value;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum hrf_status from_base16(const char *hex, const char *key, const char *where, char *out,
                                   struct hrf_error *err)
{
    size_t n = strlen(hex);
    for (size_t i = 0; i < n; i += 2) {
        int high = hex_digit(hex[i]), low = high >= 0 ? hex_digit(hex[i + 1]) : -1;
        if (low < 0 || (high | low) == 0)
            return hrf_error_set(err, HRF_E_USER, "%s: '%s' is not base 16", where, key);
        out[i / 2] = (char)(high * 16 + low);
    }
    out[n / 2] = '\0';
    return HRF_OK;
}

enum hrf_status hrf_json_to_bytes(const json_t *value, const char *key, const char *where,
                                  char **out, struct hrf_error *err)
{
    const char *hex = json_string_value(json_object_get(value, "base16"));
    const char *text = hex != NULL ? hex : json_string_value(value);
    if (json_is_null(value)) {
        *out = NULL;
        return HRF_OK;
    }
    if (text == NULL)
        return hrf_error_set(err, HRF_E_USER, "%s: '%s' is %s", where, key,
                             value == NULL ? "missing" : "not a text");
    HRF_AUTO_FREE char *copy = hrf_strdup(text);
    if (hex != NULL)
        HRF_TRY(from_base16(hex, key, where, copy, err));
    HRF_MOVE(*out, copy);
    return HRF_OK;
}

enum hrf_status hrf_json_get_bytes(const json_t *object, const char *key, const char *where,
                                   char **out, struct hrf_error *err)
{
    return hrf_json_to_bytes(json_object_get(object, key), key, where, out, err);
}
