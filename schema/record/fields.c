/* fields.c - writes and reads structs by tables of their fields (fields.h). */
#include "schema/record/fields.h"

#include "base/alloc.h"
#include "schema/record/container.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static json_t *reals_json(const double *values, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        if (json_array_append_new(array, hrf_json_number(values[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

static json_t *value_of(const struct hrf_field *field, const void *at)
{
    switch (field->type) {
    case HRF_FIELD_TEXT:
    case HRF_FIELD_NEEDED:
        return hrf_json_bytes(*(char *const *)at);
    case HRF_FIELD_CHARS:
    case HRF_FIELD_NOTE:
    case HRF_FIELD_HASH:
        return hrf_json_string(at);
    case HRF_FIELD_WORD:
        return json_string(field->words[*(const unsigned *)at]);
    case HRF_FIELD_INT:
        return json_integer(*(const int64_t *)at);
    case HRF_FIELD_INT32:
        return json_integer(*(const int32_t *)at);
    case HRF_FIELD_UINT64:
        return json_integer((json_int_t) * (const uint64_t *)at);
    case HRF_FIELD_FLOAT:
        return hrf_json_number((double)*(const float *)at);
    case HRF_FIELD_REAL:
    case HRF_FIELD_NUMBER:
        return hrf_json_number(*(const double *)at);
    case HRF_FIELD_REALS:
        return reals_json(at, field->size / sizeof(double));
    case HRF_FIELD_BOOL:
        return json_boolean(*(const bool *)at);
    }
    return NULL;
}

bool hrf_fields_write(const struct hrf_field *fields, size_t n_fields, const void *record,
                      json_t *object)
{
    bool failed = object == NULL;
    for (size_t i = 0; i < n_fields && !failed; i++)
        failed = json_object_set_new(
                     object, fields[i].key,
                     value_of(&fields[i], (const char *)record + fields[i].offset)) != 0;
    return !failed;
}

json_t *hrf_fields_json(const struct hrf_field *fields, size_t n_fields, const void *record,
                        int64_t version)
{
    json_t *object = json_object();
    if (hrf_fields_write(fields, n_fields, record, object) &&
        (version == 0 || json_object_set_new(object, "version", json_integer(version)) == 0))
        return object;
    json_decref(object);
    return NULL;
}

static enum hrf_status read_needed(const struct hrf_field *field, const json_t *object,
                                   const char *where, char **out, struct hrf_error *err)
{
    HRF_TRY(hrf_json_get_bytes(object, field->key, where, out, err));
    return *out != NULL ? HRF_OK
                        : hrf_error_set(err, HRF_E_USER, "%s: '%s' is null", where, field->key);
}

static enum hrf_status read_chars(const struct hrf_field *field, const json_t *object,
                                  const char *where, char *out, struct hrf_error *err)
{
    const char *text;
    HRF_TRY(hrf_json_get_text(object, field->key, where, &text, err));
    if (field->type == HRF_FIELD_NOTE) {
        snprintf(out, field->size, "%s", text);
        return HRF_OK;
    }
    if (strlen(text) >= field->size)
        return hrf_error_set(err, HRF_E_USER, "'%s': '%s' has more than %zu bytes", where,
                             field->key, field->size - 1);
    memcpy(out, text, strlen(text) + 1);
    return HRF_OK;
}

static enum hrf_status read_word(const struct hrf_field *field, const json_t *object,
                                 const char *where, unsigned *out, struct hrf_error *err)
{
    const char *text;
    HRF_TRY(hrf_json_get_text(object, field->key, where, &text, err));
    for (unsigned i = 0; field->words[i] != NULL; i++)
        if (strcmp(field->words[i], text) == 0) {
            *out = i;
            return HRF_OK;
        }
    return hrf_error_set(err, HRF_E_USER, "%s: unknown %s '%.80s'", where, field->key, text);
}

static enum hrf_status read_reals(const struct hrf_field *field, const json_t *object,
                                  const char *where, double *out, struct hrf_error *err)
{
    const size_t n = field->size / sizeof *out;
    json_t *array;
    HRF_TRY(hrf_json_get_array(object, field->key, where, &array, err));
    bool is_right = json_array_size(array) == n;
    for (size_t i = 0; i < n && is_right; i++) {
        is_right = json_is_number(json_array_get(array, i));
        out[i] = json_number_value(json_array_get(array, i));
    }
    return is_right ? HRF_OK
                    : hrf_error_set(err, HRF_E_USER, "%s: '%s' must be %zu numbers", where,
                                    field->key, n);
}

static enum hrf_status read_int32(const struct hrf_field *field, const json_t *object,
                                  const char *where, int32_t *out, struct hrf_error *err)
{
    int64_t number;
    HRF_TRY(hrf_json_get_int(object, field->key, where, &number, err));
    if (number < INT32_MIN || number > INT32_MAX)
        return hrf_error_set(err, HRF_E_USER, "%s: '%s' is out of range", where, field->key);
    *out = (int32_t)number;
    return HRF_OK;
}

static enum hrf_status read_float(const struct hrf_field *field, const json_t *object,
                                  const char *where, float *out, struct hrf_error *err)
{
    double number = 0;
    HRF_TRY(hrf_json_get_number(object, field->key, where, &number, err));
    *out = (float)number;
    return HRF_OK;
}

static enum hrf_status read_one(const struct hrf_field *field, const json_t *object,
                                const char *where, void *at, struct hrf_error *err)
{
    const json_t *value = json_object_get(object, field->key);
    switch (field->type) {
    case HRF_FIELD_TEXT:
        return hrf_json_get_bytes(object, field->key, where, at, err);
    case HRF_FIELD_NEEDED:
        return read_needed(field, object, where, at, err);
    case HRF_FIELD_CHARS:
    case HRF_FIELD_NOTE:
        return read_chars(field, object, where, at, err);
    case HRF_FIELD_HASH:
        return hrf_json_get_hash(object, field->key, where, at, err);
    case HRF_FIELD_WORD:
        return read_word(field, object, where, at, err);
    case HRF_FIELD_INT:
    case HRF_FIELD_UINT64: /* stored as a signed number with the same bits */
        return hrf_json_get_int(object, field->key, where, at, err);
    case HRF_FIELD_INT32:
        return read_int32(field, object, where, at, err);
    case HRF_FIELD_FLOAT:
        return read_float(field, object, where, at, err);
    case HRF_FIELD_REALS:
        return read_reals(field, object, where, at, err);
    case HRF_FIELD_REAL:
        return hrf_json_get_number(object, field->key, where, at, err);
    case HRF_FIELD_NUMBER:
        *(double *)at = json_is_number(value) ? json_number_value(value) : (double)NAN;
        return HRF_OK;
    case HRF_FIELD_BOOL:
        return hrf_json_get_bool(object, field->key, where, at, err);
    }
    return hrf_error_set(err, HRF_E_BUG, "unknown type of field '%s'", field->key);
}

enum hrf_status hrf_fields_read(const struct hrf_field *fields, size_t n_fields,
                                const json_t *object, const char *where, void *record,
                                struct hrf_error *err)
{
    for (size_t i = 0; i < n_fields; i++)
        if (!fields[i].may_lack || json_object_get(object, fields[i].key) != NULL)
            HRF_TRY(read_one(&fields[i], object, where, (char *)record + fields[i].offset, err));
    return HRF_OK;
}

enum hrf_status hrf_fields_check_version(const json_t *object, int64_t version, const char *what,
                                         const char *where, struct hrf_error *err)
{
    int64_t found;
    HRF_TRY(hrf_json_get_int(object, "version", where, &found, err));
    if (found != version)
        return hrf_error_set(err, HRF_E_USER, "%s: version %lld of the %s, this build reads %lld",
                             where, (long long)found, what, (long long)version);
    return HRF_OK;
}

static enum hrf_status checksum(const json_t *object, const char *where, char sha256[HRF_HASH_HEX],
                                struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = hrf_json_text(object);
    HRF_CHECK_MEMORY(text != NULL, err, "%s: no memory for a checksum", where);
    return hrf_hash_buffer(text, strlen(text), sha256, err);
}

enum hrf_status hrf_fields_seal(json_t *object, const char *where, struct hrf_error *err)
{
    char sha256[HRF_HASH_HEX];
    HRF_TRY(checksum(object, where, sha256, err));
    const bool is_set = json_object_set_new(object, "sha256", json_string(sha256)) == 0;
    HRF_CHECK_MEMORY(is_set, err, "%s: no memory for a checksum", where);
    return HRF_OK;
}

enum hrf_status hrf_fields_unseal(json_t *object, const char *where, struct hrf_error *err)
{
    const char *text;
    char told[HRF_HASH_HEX], sum[HRF_HASH_HEX];
    HRF_TRY(hrf_json_get_text(object, "sha256", where, &text, err));
    snprintf(told, sizeof told, "%s", text);
    json_object_del(object, "sha256");
    HRF_TRY(checksum(object, where, sum, err));
    if (strcmp(sum, told) != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' is damaged: its checksum is %.12s... and should be %.12s...",
                             where, sum, told);
    return HRF_OK;
}

void hrf_fields_release(const struct hrf_field *fields, size_t n_fields, void *record)
{
    for (size_t i = 0; i < n_fields; i++) {
        char **text = (char **)((char *)record + fields[i].offset);
        if (fields[i].type == HRF_FIELD_TEXT || fields[i].type == HRF_FIELD_NEEDED) {
            hrf_free(*text);
            *text = NULL;
        }
    }
}
