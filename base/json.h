/* json.h - typed reading of jansson values with errors that name the path, and file I/O.
 *
 * `where` is the name of the document in messages ("spec.json"). Readers refuse wrong types;
 * texts they return are borrowed from the value. Numbers are written with 17 digits so that
 * they read back exactly; keys are written sorted, so that equal values are equal bytes.
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
/* Atomic (hrf_file_write_atomic). Indented by 2, sorted keys, a newline at the end. */
HRF_CHECKED enum hrf_status hrf_json_write_file(const char *path, const json_t *value,
                                                struct hrf_error *err);
/* Compact heap text (hrf_free), sorted keys; NULL when memory ran out. */
char *hrf_json_text(const json_t *value);

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

/* Any bytes as a JSON string: bytes that are not UTF-8 become U+FFFD. New reference. */
json_t *hrf_json_string(const char *text);
/* A finite number, else null. New reference. */
json_t *hrf_json_number(double value);

static inline void hrf_json_cleanup(json_t **value)
{
    json_decref(*value);
}
#define HRF_AUTO_JSON __attribute__((cleanup(hrf_json_cleanup))) json_t *

#endif
