/* fields.h - structs as JSON objects: one table says which keys there are.
 *
 * Writing, reading and releasing walk the table, so that a new field is one line:
 *
 *     static const struct hrf_field fields[] = {
 *         HRF_FIELD(struct hrf_thing, "width", width, HRF_FIELD_INT),
 *     };
 *     json_t *object = hrf_fields_json(HRF_FIELDS(fields), &thing);
 *     HRF_TRY(hrf_fields_read(HRF_FIELDS(fields), object, where, &thing, err));
 *
 * An object has every key of its table, or it is refused.
 */
#ifndef HRF_BASE_FIELDS_H
#define HRF_BASE_FIELDS_H

#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>

/* The version of everything that is written for a later process: records, job specs, sentinels.
 * It is raised when any of them changes, and no other version is read. */
enum { HRF_FORMAT_VERSION = 1 };

enum hrf_field_type {
    HRF_FIELD_TEXT,   /* char *, heap, any bytes, NULL allowed */
    HRF_FIELD_NEEDED, /* the same; null is refused */
    HRF_FIELD_CHARS,  /* char[]: a longer text is refused */
    HRF_FIELD_NOTE,   /* char[], for people to read: a longer text is cut */
    HRF_FIELD_HASH,   /* char[HRF_HASH_HEX] */
    HRF_FIELD_WORD,   /* an enum, as one of `words` */
    HRF_FIELD_CHOICE, /* the same; null stands for the number of words */
    HRF_FIELD_INT,    /* int64_t */
    HRF_FIELD_INT32,
    HRF_FIELD_UINT64,
    HRF_FIELD_FLOAT,
    HRF_FIELD_REAL,   /* double */
    HRF_FIELD_REALS,  /* double[]: as many numbers as it has elements */
    HRF_FIELD_NUMBER, /* double; null stands for NaN */
    HRF_FIELD_BOOL,
    HRF_FIELD_OBJECT, /* a struct, as an object of `fields` */
    HRF_FIELD_LIST,   /* heap array of such structs, and their number */
    HRF_FIELD_FEW,    /* struct[] within the record, and how many of them are used */
    HRF_FIELD_INTS,   /* int64_t[] within the record, and how many of them are used */
    HRF_FIELD_WORDS,  /* enum[] within the record, and how many of them are used */
    HRF_FIELD_TEXTS,  /* char **, heap, of heap texts, and their number */
    HRF_FIELD_FLOATS, /* float * or double *, heap, finite, and their number, NULL as null. Of two
                         arrays that have one number the second must be as long as the first. */
};

struct hrf_field {
    const char *key;
    enum hrf_field_type type;
    size_t offset, size;            /* of the member */
    const char *const *words;       /* of each value of the enum from 0 on, and NULL */
    const struct hrf_field *fields; /* of the struct, or of each element */
    size_t n_fields, element;       /* bytes of an element */
    size_t count, count_size;       /* offset and size of the number of elements: 4 or 8 bytes */
};

#define HRF_FIELD(of, name, member, form)                                                          \
    {                                                                                              \
        .key = name, .type = form, .offset = offsetof(of, member),                                 \
        .size = sizeof((of *)NULL)->member                                                         \
    }
#define HRF_FIELD_ENUM(of, name, member, list)                                                     \
    {                                                                                              \
        .key = name, .type = HRF_FIELD_WORD, .offset = offsetof(of, member),                       \
        .size = sizeof((of *)NULL)->member, .words = list                                          \
    }
#define HRF_FIELD_ENUM_OR_NULL(of, name, member, list)                                             \
    {                                                                                              \
        .key = name, .type = HRF_FIELD_CHOICE, .offset = offsetof(of, member),                     \
        .size = sizeof((of *)NULL)->member, .words = list                                          \
    }
#define HRF_FIELD_STRUCT(of, name, member, table)                                                  \
    {                                                                                              \
        .key = name, .type = HRF_FIELD_OBJECT, .offset = offsetof(of, member),                     \
        .size = sizeof((of *)NULL)->member, .fields = table,                                       \
        .n_fields = sizeof(table) / sizeof(table)[0]                                               \
    }
/* `form`: LIST, FEW, TEXTS or FLOATS. */
#define HRF_FIELD_COUNTED(of, name, member, number, form)                                          \
    {                                                                                              \
        .key = name, .type = form, .offset = offsetof(of, member),                                 \
        .size = sizeof((of *)NULL)->member, .element = sizeof((of *)NULL)->member[0],              \
        .count = offsetof(of, number), .count_size = sizeof((of *)NULL)->number                    \
    }
#define HRF_FIELD_STRUCTS(of, name, member, number, form, table)                                   \
    {                                                                                              \
        .key = name, .type = form, .offset = offsetof(of, member),                                 \
        .size = sizeof((of *)NULL)->member, .element = sizeof((of *)NULL)->member[0],              \
        .count = offsetof(of, number), .count_size = sizeof((of *)NULL)->number, .fields = table,  \
        .n_fields = sizeof(table) / sizeof(table)[0]                                               \
    }
/* A table and its length, as the functions below take them. */
#define HRF_FIELDS(table) table, sizeof(table) / sizeof(table)[0]

/* Returns the value of one field of `record`; a new reference. */
json_t *hrf_field_json(const struct hrf_field *field, const void *record);
/* Reads one field of `record` from its key in `object`. */
HRF_CHECKED enum hrf_status hrf_field_read(const struct hrf_field *field, const json_t *object,
                                           const char *where, void *record, struct hrf_error *err);
/* Frees the heap memory of a field. */
void hrf_field_release(const struct hrf_field *field, void *record);

/* Returns a new object with the fields of `record`. */
json_t *hrf_fields_json(const struct hrf_field *fields, size_t n_fields, const void *record);
/* Returns such an object with the key "version". */
json_t *hrf_fields_document(const struct hrf_field *fields, size_t n_fields, const void *record);
/* Reads all fields; `where` names the object in messages. The caller has zeroed `record`. On
 * failure, too, fields that were read belong to the record. */
HRF_CHECKED enum hrf_status hrf_fields_read(const struct hrf_field *fields, size_t n_fields,
                                            const json_t *object, const char *where, void *record,
                                            struct hrf_error *err);
void hrf_fields_release(const struct hrf_field *fields, size_t n_fields, void *record);

/* Refuses an object whose key "version" is not HRF_FORMAT_VERSION. `what`: "status of a task". */
HRF_CHECKED enum hrf_status hrf_fields_check_version(const json_t *object, const char *what,
                                                     const char *where, struct hrf_error *err);
/* Refuses a version that was read from elsewhere, if it is not HRF_FORMAT_VERSION. */
HRF_CHECKED enum hrf_status hrf_format_check_version(int64_t version, const char *what,
                                                     const char *where, struct hrf_error *err);
/* Adds the key "sha256", the checksum of all other keys. */
HRF_CHECKED enum hrf_status hrf_fields_seal(json_t *object, struct hrf_error *err);
/* Removes the key "sha256". HRF_E_USER: the object does not match its checksum, or has none. */
HRF_CHECKED enum hrf_status hrf_fields_unseal(json_t *object, const char *where,
                                              struct hrf_error *err);

#endif
