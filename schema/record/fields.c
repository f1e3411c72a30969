#include "schema/record/fields.h"

#include "schema/record/container.h"

#include <math.h>
#include <string.h>

static json_t *value_of(const struct hrf_field *field, const void *at)
{
    switch (field->type) {
    case HRF_FIELD_TEXT:
        return hrf_json_bytes(*(char *const *)at);
    case HRF_FIELD_CHARS:
        return hrf_json_string(at);
    case HRF_FIELD_INT:
        return json_integer(*(const int64_t *)at);
    case HRF_FIELD_INT32:
        return json_integer(*(const int32_t *)at);
    case HRF_FIELD_UINT64:
        return json_integer((json_int_t) * (const uint64_t *)at);
    case HRF_FIELD_REAL:
    case HRF_FIELD_NUMBER:
        return hrf_json_number(*(const double *)at);
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

static enum hrf_status read_chars(const struct hrf_field *field, const json_t *object,
                                  const char *where, char *out, struct hrf_error *err)
{
    const char *text;
    HRF_TRY(hrf_json_get_text(object, field->key, where, &text, err));
    if (strlen(text) >= field->size)
        return hrf_error_set(err, HRF_E_USER, "'%s': '%s' has more than %zu bytes", where,
                             field->key, field->size - 1);
    memcpy(out, text, strlen(text) + 1);
    return HRF_OK;
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

static enum hrf_status read_one(const struct hrf_field *field, const json_t *object,
                                const char *where, void *at, struct hrf_error *err)
{
    const json_t *value = json_object_get(object, field->key);
    switch (field->type) {
    case HRF_FIELD_TEXT:
        return hrf_json_get_bytes(object, field->key, where, at, err);
    case HRF_FIELD_CHARS:
        return read_chars(field, object, where, at, err);
    case HRF_FIELD_INT:
    case HRF_FIELD_UINT64: /* stored as the signed number of the same bits */
        return hrf_json_get_int(object, field->key, where, at, err);
    case HRF_FIELD_INT32:
        return read_int32(field, object, where, at, err);
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
