/* fields.c - writes, reads and releases structs by tables of their fields (fields.h). */
#include "base/fields.h"

#include "base/alloc.h"
#include "base/hash.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- arrays and their numbers ---- */

static size_t count_of(const struct hrf_field *field, const void *record)
{
    const void *at = (const char *)record + field->count;
    return field->count_size == sizeof(int32_t) ? (size_t) * (const uint32_t *)at
                                                : (size_t) * (const uint64_t *)at;
}

static void set_count(const struct hrf_field *field, void *record, size_t n)
{
    void *at = (char *)record + field->count;
    if (field->count_size == sizeof(int32_t))
        *(uint32_t *)at = (uint32_t)n;
    else
        *(uint64_t *)at = n;
}

static bool is_within(const struct hrf_field *field)
{
    return field->type == HRF_FIELD_FEW || field->type == HRF_FIELD_INTS ||
           field->type == HRF_FIELD_WORDS;
}

/* The first element: within the record, or on the heap. */
static char *elements_of(const struct hrf_field *field, const void *record)
{
    char *at = (char *)(uintptr_t)record + field->offset;
    return is_within(field) ? at : *(char **)(void *)at;
}

/* ---- writing ---- */

static json_t *element_json(const struct hrf_field *field, const char *element)
{
    switch (field->type) {
    case HRF_FIELD_LIST:
    case HRF_FIELD_FEW:
        return hrf_fields_json(field->fields, field->n_fields, element);
    case HRF_FIELD_WORDS:
        return json_string(field->words[*(const unsigned *)(const void *)element]);
    case HRF_FIELD_INTS:
        return json_integer(*(const int64_t *)(const void *)element);
    case HRF_FIELD_TEXTS:
        return hrf_json_bytes(*(char *const *)(const void *)element);
    case HRF_FIELD_FLOATS:
        if (field->element == sizeof(float))
            return hrf_json_number((double)*(const float *)(const void *)element);
        return hrf_json_number(*(const double *)(const void *)element);
    default:
        return hrf_json_number(*(const double *)(const void *)element);
    }
}

static json_t *array_json(const struct hrf_field *field, const char *elements, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        hrf_json_add(array, element_json(field, elements + i * field->element));
    return array;
}

json_t *hrf_field_json(const struct hrf_field *field, const void *record)
{
    const void *at = (const char *)record + field->offset;
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
    case HRF_FIELD_CHOICE: {
        const char *word = field->words[*(const unsigned *)at];
        return word != NULL ? json_string(word) : json_null();
    }
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
    case HRF_FIELD_BOOL:
        return json_boolean(*(const bool *)at);
    case HRF_FIELD_OBJECT:
        return hrf_fields_json(field->fields, field->n_fields, at);
    case HRF_FIELD_REALS: {
        struct hrf_field element = *field;
        element.element = sizeof(double);
        return array_json(&element, at, field->size / sizeof(double));
    }
    case HRF_FIELD_FLOATS:
        if (*(float *const *)at == NULL)
            return json_null();
        return array_json(field, elements_of(field, record), count_of(field, record));
    case HRF_FIELD_LIST:
    case HRF_FIELD_FEW:
    case HRF_FIELD_INTS:
    case HRF_FIELD_WORDS:
    case HRF_FIELD_TEXTS:
        return array_json(field, elements_of(field, record), count_of(field, record));
    }
    return NULL;
}

json_t *hrf_fields_json(const struct hrf_field *fields, size_t n_fields, const void *record)
{
    json_t *object = json_object();
    for (size_t i = 0; i < n_fields; i++)
        hrf_json_put(object, fields[i].key, hrf_field_json(&fields[i], record));
    return object;
}

json_t *hrf_fields_document(const struct hrf_field *fields, size_t n_fields, const void *record)
{
    json_t *object = hrf_fields_json(fields, n_fields, record);
    hrf_json_put_int(object, "version", HRF_FORMAT_VERSION);
    return object;
}

/* ---- reading ---- */

static enum hrf_status read_chars(const struct hrf_field *field, const json_t *object,
                                  const char *where, char *out, struct hrf_error *err)
{
    const char *text;
    HRF_TRY(hrf_json_get_text(object, field->key, where, &text, err));
    if (field->type != HRF_FIELD_NOTE && strlen(text) >= field->size)
        return hrf_error_set(err, HRF_E_USER, "'%s': '%s' has more than %zu bytes", where,
                             field->key, field->size - 1);
    snprintf(out, field->size, "%s", text);
    return HRF_OK;
}

static enum hrf_status read_word(const struct hrf_field *field, const json_t *value,
                                 const char *where, unsigned *out, struct hrf_error *err)
{
    const char *text = json_string_value(value);
    if (text == NULL)
        return hrf_error_set(err, HRF_E_USER, "%s: '%s' is not a text", where, field->key);
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

static enum hrf_status read_element(const struct hrf_field *field, const json_t *value,
                                    const char *where, void *out, struct hrf_error *err)
{
    char **text = out;
    const double number = json_number_value(value);
    bool is_finite = false;
    switch (field->type) {
    case HRF_FIELD_WORDS:
        return read_word(field, value, where, out, err);
    case HRF_FIELD_INTS:
        *(int64_t *)out = json_integer_value(value);
        return json_is_integer(value)
                   ? HRF_OK
                   : hrf_error_set(err, HRF_E_USER, "%s: an entry of '%s' is not a whole number",
                                   where, field->key);
    case HRF_FIELD_TEXTS:
        HRF_TRY(hrf_json_to_bytes(value, field->key, where, text, err));
        return *text != NULL ? HRF_OK
                             : hrf_error_set(err, HRF_E_USER, "%s: an entry of '%s' is null", where,
                                             field->key);
    case HRF_FIELD_FLOATS:
        if (field->element == sizeof(float)) {
            *(float *)out = (float)number;
            is_finite = isfinite((float)number);
        } else {
            *(double *)out = number;
            is_finite = isfinite(number);
        }
        return json_is_number(value) && is_finite
                   ? HRF_OK
                   : hrf_error_set(err, HRF_E_USER, "%s: an entry of '%s' is not a number", where,
                                   field->key);
    default:
        return hrf_fields_read(field->fields, field->n_fields, value, where, out, err);
    }
}

static enum hrf_status read_array(const struct hrf_field *field, const json_t *object,
                                  const char *where, void *record, struct hrf_error *err)
{
    json_t *array;
    if (field->type == HRF_FIELD_FLOATS && json_is_null(json_object_get(object, field->key)))
        return HRF_OK;
    HRF_TRY(hrf_json_get_array(object, field->key, where, &array, err));
    const size_t n = json_array_size(array), counted = count_of(field, record);
    if (is_within(field) && n > field->size / field->element)
        return hrf_error_set(err, HRF_E_USER, "%s: '%s' has %zu entries, and at most %zu can be",
                             where, field->key, n, field->size / field->element);
    if (field->type == HRF_FIELD_FLOATS && counted != 0 && counted != n)
        return hrf_error_set(err, HRF_E_USER, "%s: '%s' has %zu numbers, not %zu", where,
                             field->key, n, counted);
    if (!is_within(field))
        *(void **)(void *)((char *)record + field->offset) = hrf_calloc(n + 1, field->element);
    set_count(field, record, n); /* the rest is zero, so that a half-read record can be released */
    for (size_t i = 0; i < n; i++)
        HRF_TRY(read_element(field, json_array_get(array, i), where,
                             elements_of(field, record) + i * field->element, err));
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

enum hrf_status hrf_field_read(const struct hrf_field *field, const json_t *object,
                               const char *where, void *record, struct hrf_error *err)
{
    void *at = (char *)record + field->offset;
    const json_t *value = json_object_get(object, field->key);
    const char *text;
    double number = 0;
    json_t *inner;
    switch (field->type) {
    case HRF_FIELD_TEXT:
        return hrf_json_get_bytes(object, field->key, where, at, err);
    case HRF_FIELD_NEEDED:
        HRF_TRY(hrf_json_get_bytes(object, field->key, where, at, err));
        return *(char **)at != NULL
                   ? HRF_OK
                   : hrf_error_set(err, HRF_E_USER, "%s: '%s' is null", where, field->key);
    case HRF_FIELD_CHARS:
    case HRF_FIELD_NOTE:
    case HRF_FIELD_HASH:
        return read_chars(field, object, where, at, err);
    case HRF_FIELD_CHOICE:
        if (json_is_null(value)) {
            unsigned *n = at;
            for (*n = 0; field->words[*n] != NULL;)
                (*n)++;
            return HRF_OK;
        }
        HRF_TRY(hrf_json_get_text(object, field->key, where, &text, err));
        return read_word(field, value, where, at, err);
    case HRF_FIELD_WORD:
        HRF_TRY(hrf_json_get_text(object, field->key, where, &text, err));
        return read_word(field, value, where, at, err);
    case HRF_FIELD_INT:
    case HRF_FIELD_UINT64: /* stored as a signed number with the same bits */
        return hrf_json_get_int(object, field->key, where, at, err);
    case HRF_FIELD_INT32:
        return read_int32(field, object, where, at, err);
    case HRF_FIELD_FLOAT:
        HRF_TRY(hrf_json_get_number(object, field->key, where, &number, err));
        *(float *)at = (float)number;
        return HRF_OK;
    case HRF_FIELD_REALS:
        return read_reals(field, object, where, at, err);
    case HRF_FIELD_REAL:
        return hrf_json_get_number(object, field->key, where, at, err);
    case HRF_FIELD_NUMBER:
        if (!json_is_null(value))
            return hrf_json_get_number(object, field->key, where, at, err);
        *(double *)at = (double)NAN;
        return HRF_OK;
    case HRF_FIELD_BOOL:
        return hrf_json_get_bool(object, field->key, where, at, err);
    case HRF_FIELD_OBJECT:
        HRF_TRY(hrf_json_get_object(object, field->key, where, &inner, err));
        return hrf_fields_read(field->fields, field->n_fields, inner, where, at, err);
    case HRF_FIELD_LIST:
    case HRF_FIELD_FEW:
    case HRF_FIELD_INTS:
    case HRF_FIELD_WORDS:
    case HRF_FIELD_TEXTS:
    case HRF_FIELD_FLOATS:
        return read_array(field, object, where, record, err);
    }
    return hrf_error_set(err, HRF_E_BUG, "unknown type of field '%s'", field->key);
}

enum hrf_status hrf_fields_read(const struct hrf_field *fields, size_t n_fields,
                                const json_t *object, const char *where, void *record,
                                struct hrf_error *err)
{
    for (size_t i = 0; i < n_fields; i++)
        HRF_TRY(hrf_field_read(&fields[i], object, where, record, err));
    return HRF_OK;
}

/* ---- releasing ---- */

void hrf_field_release(const struct hrf_field *field, void *record)
{
    char *at = (char *)record + field->offset;
    char **heap = (char **)(void *)at;
    const bool is_array = field->type == HRF_FIELD_LIST || field->type == HRF_FIELD_FEW ||
                          field->type == HRF_FIELD_TEXTS;
    if (field->type == HRF_FIELD_OBJECT)
        hrf_fields_release(field->fields, field->n_fields, at);
    char *elements = is_array ? elements_of(field, record) : NULL;
    for (size_t i = 0; elements != NULL && i < count_of(field, record); i++)
        if (field->type == HRF_FIELD_TEXTS)
            hrf_free(((char **)heap[0])[i]);
        else
            hrf_fields_release(field->fields, field->n_fields, elements + i * field->element);
    if (field->count_size > 0)
        set_count(field, record, 0);
    if (field->type == HRF_FIELD_TEXT || field->type == HRF_FIELD_NEEDED ||
        field->type == HRF_FIELD_LIST || field->type == HRF_FIELD_TEXTS ||
        field->type == HRF_FIELD_FLOATS) {
        hrf_free(*heap);
        *heap = NULL;
    }
}

void hrf_fields_release(const struct hrf_field *fields, size_t n_fields, void *record)
{
    for (size_t i = 0; i < n_fields; i++)
        hrf_field_release(&fields[i], record);
}

/* ---- version and checksum ---- */

enum hrf_status hrf_format_check_version(int64_t version, const char *what, const char *where,
                                         struct hrf_error *err)
{
    if (version != HRF_FORMAT_VERSION)
        return hrf_error_set(err, HRF_E_USER,
                             "%s: a %s of version %lld, and this hires-flow reads version %d; use "
                             "the hires-flow that wrote it, or have it made again",
                             where, what, (long long)version, HRF_FORMAT_VERSION);
    return HRF_OK;
}

enum hrf_status hrf_fields_check_version(const json_t *object, const char *what, const char *where,
                                         struct hrf_error *err)
{
    int64_t found;
    HRF_TRY(hrf_json_get_int(object, "version", where, &found, err));
    return hrf_format_check_version(found, what, where, err);
}

static enum hrf_status checksum(const json_t *object, char sha256[HRF_HASH_HEX],
                                struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = hrf_json_text(object);
    return hrf_hash_buffer(text, strlen(text), sha256, err);
}

enum hrf_status hrf_fields_seal(json_t *object, struct hrf_error *err)
{
    char sha256[HRF_HASH_HEX];
    HRF_TRY(checksum(object, sha256, err));
    hrf_json_put_text(object, "sha256", sha256);
    return HRF_OK;
}

enum hrf_status hrf_fields_unseal(json_t *object, const char *where, struct hrf_error *err)
{
    const char *text;
    char stated[HRF_HASH_HEX], sum[HRF_HASH_HEX];
    HRF_TRY(hrf_json_get_text(object, "sha256", where, &text, err));
    snprintf(stated, sizeof stated, "%s", text);
    json_object_del(object, "sha256");
    HRF_TRY(checksum(object, sum, err));
    if (strcmp(sum, stated) != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' is damaged: its checksum is %.12s... and should be %.12s...",
                             where, sum, stated);
    return HRF_OK;
}
