/* fields.h - records as structs and JSON objects: one table says which keys there are.
 *
 * A record's writer and reader both walk its table, so that a new field is one line:
 *
 *     static const struct hrf_field fields[] = {
 *         HRF_FIELD(struct hrf_thing, "width", width, HRF_FIELD_INT),
 *     };
 *     hrf_fields_write(fields, 1, &thing, object);
 *     HRF_TRY(hrf_fields_read(fields, 1, object, where, &thing, err));
 */
#ifndef HRF_SCHEMA_RECORD_FIELDS_H
#define HRF_SCHEMA_RECORD_FIELDS_H

#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>

enum hrf_field_type {
    HRF_FIELD_TEXT,   /* char *, heap, any bytes, NULL allowed */
    HRF_FIELD_NEEDED, /* the same; null is refused */
    HRF_FIELD_CHARS,  /* char[]: a longer text is refused */
    HRF_FIELD_NOTE,   /* char[], for people to read: a longer text is cut */
    HRF_FIELD_HASH,   /* char[HRF_HASH_HEX] */
    HRF_FIELD_WORD,   /* an enum, as one of `words` */
    HRF_FIELD_INT,    /* int64_t */
    HRF_FIELD_INT32,
    HRF_FIELD_UINT64,
    HRF_FIELD_FLOAT,
    HRF_FIELD_REAL,   /* double */
    HRF_FIELD_REALS,  /* double[]: as many numbers as it has elements */
    HRF_FIELD_NUMBER, /* double; NaN where the record has null or lacks it */
    HRF_FIELD_BOOL
};

struct hrf_field {
    const char *key;
    enum hrf_field_type type;
    size_t offset, size;
    bool may_lack; /* records of earlier versions do not have it: it stays as it was, 0 */
    const char *const *words; /* of each value of the enum from 0 on, and NULL */
};
#define HRF_FIELD(of, key, member, type)                                                           \
    {                                                                                              \
        key, type, offsetof(of, member), sizeof((of *)NULL)->member, false, NULL                   \
    }
#define HRF_FIELD_NEW(of, key, member, type)                                                       \
    {                                                                                              \
        key, type, offsetof(of, member), sizeof((of *)NULL)->member, true, NULL                    \
    }
#define HRF_FIELD_ENUM(of, key, member, words)                                                     \
    {                                                                                              \
        key, HRF_FIELD_WORD, offsetof(of, member), sizeof((of *)NULL)->member, false, words        \
    }
/* A table and its length, as the functions below take them. */
#define HRF_FIELDS(table) table, sizeof(table) / sizeof(table)[0]

/* Puts the fields of `record` into `object`; false when memory ran out. */
HRF_CHECKED bool hrf_fields_write(const struct hrf_field *fields, size_t n_fields,
                                  const void *record, json_t *object);
/* A new object of the fields of `record`, with the key "version" unless that is 0; NULL when memory
 * ran out. */
json_t *hrf_fields_json(const struct hrf_field *fields, size_t n_fields, const void *record,
                        int64_t version);
/* `where` names the object in messages. On failure, too, heap texts read so far are the record's.
 */
HRF_CHECKED enum hrf_status hrf_fields_read(const struct hrf_field *fields, size_t n_fields,
                                            const json_t *object, const char *where, void *record,
                                            struct hrf_error *err);
/* Refuses an object whose key "version" is not that of this build. `what`: "status of a task". */
HRF_CHECKED enum hrf_status hrf_fields_check_version(const json_t *object, int64_t version,
                                                     const char *what, const char *where,
                                                     struct hrf_error *err);
/* Adds the key "sha256", the checksum of all other keys. */
HRF_CHECKED enum hrf_status hrf_fields_seal(json_t *object, const char *where,
                                            struct hrf_error *err);
/* Removes that key. HRF_E_USER: the object does not fit it, or has none. */
HRF_CHECKED enum hrf_status hrf_fields_unseal(json_t *object, const char *where,
                                              struct hrf_error *err);
/* Frees the heap texts of `record`. */
void hrf_fields_release(const struct hrf_field *fields, size_t n_fields, void *record);

#endif
