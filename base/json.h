/* json.h - JSON documents: read with errors that name the path, built member by member, and
 * written.
 *
 * Reading: `where` is the name of the document in messages ("spec.json"). Readers refuse wrong
 * types; texts they return are borrowed from the value.
 * Building: hrf_json_put() and its relatives are the one way to fill an object. A struct that has a
 * table of fields is written by hrf_fields_json() (fields.h).
 * Writing: numbers have 17 digits, so that they read back exactly; keys are sorted, so that equal
 * values are equal bytes.
 */
#ifndef HRF_BASE_JSON_H
#define HRF_BASE_JSON_H

#include "base/alloc.h"
#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

HRF_CHECKED enum hrf_status hrf_json_parse(const char *text, size_t n_bytes, const char *where,
                                           json_t **out, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_json_read_file(const char *path, json_t **out,
                                               struct hrf_error *err);
/* Writes the value by hrf_file_write_atomic(), indented by 2, with sorted keys and a newline at the
 * end. */
HRF_CHECKED enum hrf_status hrf_json_write_file(const char *path, const json_t *value,
                                                struct hrf_error *err);
/* Compact heap text (hrf_free), sorted keys. */
char *hrf_json_text(const json_t *value);
/* Prints that text as a line on standard output. */
void hrf_json_print(const json_t *value);

HRF_CHECKED enum hrf_status hrf_json_get_text(const json_t *object, const char *key,
                                              const char *where, const char **out,
                                              struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_json_get_int(const json_t *object, const char *key,
                                             const char *where, int64_t *out,
                                             struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_json_get_number(const json_t *object, const char *key,
                                                const char *where, double *out,
                                                struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_json_get_bool(const json_t *object, const char *key,
                                              const char *where, bool *out, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_json_get_array(const json_t *object, const char *key,
                                               const char *where, json_t **out,
                                               struct hrf_error *err); /* borrowed */
HRF_CHECKED enum hrf_status hrf_json_get_object(const json_t *object, const char *key,
                                                const char *where, json_t **out,
                                                struct hrf_error *err); /* borrowed */

/* Sets a member of an object, and takes `value`. The key is any bytes, as by hrf_json_string(). */
void hrf_json_put(json_t *object, const char *key, json_t *value);
/* Any bytes, as by hrf_json_string(); a text of NULL gives null. */
void hrf_json_put_text(json_t *object, const char *key, const char *text);
void hrf_json_put_int(json_t *object, const char *key, int64_t value);
/* A value that is not finite gives null. */
void hrf_json_put_number(json_t *object, const char *key, double value);
void hrf_json_put_bool(json_t *object, const char *key, bool value);
/* Appends to an array, and takes `value`. */
void hrf_json_add(json_t *array, json_t *value);

/* Returns an object with "version": 1, with which the programs' documents begin. New reference. */
json_t *hrf_json_document(void);
/* Returns any bytes as a JSON string, with U+FFFD for bytes that are not UTF-8. New reference. */
json_t *hrf_json_string(const char *text);
/* Returns a JSON number, or null if the value is not finite. New reference. */
json_t *hrf_json_number(double value);
/* Return an array of such numbers, or of integers. New reference. */
json_t *hrf_json_numbers(const double *values, size_t n);
json_t *hrf_json_ints(const int64_t *values, size_t n);
/* Returns the lines of a text, without their ends, as an array of strings. New reference. */
json_t *hrf_json_lines(const char *text);

/* Paths and names are bytes, JSON strings are UTF-8: a text that is not valid UTF-8 is written
 * as {"base16": "..."} and read back to the same bytes. */
json_t *hrf_json_bytes(const char *text); /* new reference; NULL text gives null */
HRF_CHECKED enum hrf_status hrf_json_get_bytes(const json_t *object, const char *key,
                                               const char *where, char **out,
                                               struct hrf_error *err); /* heap; NULL for null */
/* Reads such a value that is not a member of an object; `key` names it in messages. A value of NULL
 * counts as missing. */
HRF_CHECKED enum hrf_status hrf_json_to_bytes(const json_t *value, const char *key,
                                              const char *where, char **out, struct hrf_error *err);

static inline void hrf_json_cleanup(json_t **value)
{
    json_decref(*value);
}
#define HRF_AUTO_JSON __attribute__((cleanup(hrf_json_cleanup))) json_t *

#endif
