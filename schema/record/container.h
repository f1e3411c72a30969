/* container.h - the one binary form of records: a JSON header, named sections, a checksum.
 *
 * Layout, all integers little-endian:
 *   "HRFREC\r\n"  u32 version  u32 header bytes  header (JSON)  sections  SHA-256 of all before
 * The header holds "kind", "version" (of that kind), "identity" (identity.h; from version 2 of
 * every kind on) and "sections": [[name, bytes], ...] beside the record's own keys; sections follow
 * each other without gaps. The \r\n shows a file that went through a text conversion. Readers check
 * every bound before they look.
 */
#ifndef HRF_SCHEMA_RECORD_CONTAINER_H
#define HRF_SCHEMA_RECORD_CONTAINER_H

#include "base/json.h"
#include "schema/record/identity.h"

struct hrf_bytes {
    unsigned char *data; /* heap */
    size_t n_bytes;
};
void hrf_bytes_release(struct hrf_bytes *bytes);

enum { HRF_RECORD_MAX_SECTIONS = 8 };

struct hrf_section {
    const char *name;
    const void *data;
    size_t n_bytes;
};

/* `header`: the record's own keys; "kind", "version", "identity" and "sections" are added to it. */
HRF_CHECKED enum hrf_status hrf_container_encode(const char *kind, int64_t version,
                                                 const struct hrf_record_identity *identity,
                                                 json_t *header, const struct hrf_section *sections,
                                                 size_t n_sections, struct hrf_bytes *out,
                                                 struct hrf_error *err);

/* A decoded container; the sections point into the caller's bytes. */
struct hrf_container {
    json_t *header;
    struct hrf_record_identity identity;
    struct hrf_section sections[HRF_RECORD_MAX_SECTIONS];
    size_t n_sections;
};
/* Refuses what is damaged, truncated, of another kind, newer than `max_version`, or not what is
 * `expected` (NULL: anything will do). `where` names the bytes in messages. */
HRF_CHECKED enum hrf_status hrf_container_decode(const void *bytes, size_t n_bytes,
                                                 const char *kind, int64_t max_version,
                                                 const struct hrf_record_identity *expected,
                                                 const char *where, struct hrf_container *out,
                                                 struct hrf_error *err);
/* The same for one whose contents are not looked at yet, of any version. */
HRF_CHECKED enum hrf_status hrf_record_check(const void *bytes, size_t n_bytes, const char *kind,
                                             const struct hrf_record_identity *expected,
                                             const char *where, struct hrf_error *err);
/* Records that are one text: observations, as calibrate/ writes them. */
#define HRF_OBSERVATIONS_KIND "observations"
HRF_CHECKED enum hrf_status hrf_text_record_encode(const char *kind,
                                                   const struct hrf_record_identity *identity,
                                                   const char *text, struct hrf_bytes *out,
                                                   struct hrf_error *err);
/* *text points into `bytes` and has no NUL at its end. */
HRF_CHECKED enum hrf_status hrf_text_record_decode(const void *bytes, size_t n_bytes,
                                                   const char *kind,
                                                   const struct hrf_record_identity *expected,
                                                   const char *where, const char **text,
                                                   size_t *n_text, struct hrf_error *err);
void hrf_container_release(struct hrf_container *container);
/* The section of that name with exactly n_bytes (SIZE_MAX: any); HRF_E_USER when it is not so. */
HRF_CHECKED enum hrf_status hrf_container_section(const struct hrf_container *container,
                                                  const char *name, size_t n_bytes,
                                                  const char *where, struct hrf_section *out,
                                                  struct hrf_error *err);

/* Paths and names are bytes, JSON strings are UTF-8: a text that is not valid UTF-8 is written
 * as {"base16": "..."} and read back to the same bytes. */
json_t *hrf_json_bytes(const char *text); /* new reference; NULL text gives null */
HRF_CHECKED enum hrf_status hrf_json_get_bytes(const json_t *object, const char *key,
                                               const char *where, char **out,
                                               struct hrf_error *err); /* heap; NULL for null */
/* A hash, or a key of another form that is no longer than one. */
HRF_CHECKED enum hrf_status hrf_json_get_hash(const json_t *object, const char *key,
                                              const char *where, char out[HRF_HASH_HEX],
                                              struct hrf_error *err);

#endif
