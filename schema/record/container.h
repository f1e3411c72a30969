/* container.h - the binary form of records: a JSON header, named sections, a checksum.
 *
 * Layout, all integers little-endian:
 *   "HRFREC\r\n"  u32 version  u32 header bytes  header (JSON)  sections  SHA-256 of all before
 * The version is HRF_FORMAT_VERSION; the header holds "kind", "identity" (identity.h) and
 * "sections": [[name, bytes], ...] beside the record's own keys; sections follow each other
 * without gaps. The \r\n shows a file that went through a text conversion. Readers check
 * every bound before they look.
 */
#ifndef HRF_SCHEMA_RECORD_CONTAINER_H
#define HRF_SCHEMA_RECORD_CONTAINER_H

#include "base/fields.h"
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

/* `header`: the record's own keys; "kind", "identity" and "sections" are added to it. */
HRF_CHECKED enum hrf_status hrf_container_encode(const char *kind,
                                                 const struct hrf_record_identity *identity,
                                                 json_t *header, const struct hrf_section *sections,
                                                 size_t n_sections, struct hrf_bytes *out,
                                                 struct hrf_error *err);

/* A decoded container; the sections point into the caller's bytes. */
struct hrf_container {
    json_t *header;
    const char *where; /* borrowed */
    struct hrf_record_identity identity;
    struct hrf_section sections[HRF_RECORD_MAX_SECTIONS];
    size_t n_sections;
};
/* Decodes a container. It is refused if it is damaged, truncated, of another kind or version, or of
 * another identity than `expected` (NULL: any). `where` names the bytes in messages. */
HRF_CHECKED enum hrf_status hrf_container_decode(const void *bytes, size_t n_bytes,
                                                 const char *kind,
                                                 const struct hrf_record_identity *expected,
                                                 const char *where, struct hrf_container *out,
                                                 struct hrf_error *err);
void hrf_container_release(struct hrf_container *container);
/* Finds the section of that name. HRF_E_USER: there is none, or it has not exactly n_bytes
 * (SIZE_MAX: any number). */
HRF_CHECKED enum hrf_status hrf_container_section(const struct hrf_container *container,
                                                  const char *name, size_t n_bytes,
                                                  struct hrf_section *out, struct hrf_error *err);
/* A copy of that section on the heap, with a NUL behind it. `out`: the address of a pointer. */
HRF_CHECKED enum hrf_status hrf_container_copy(const struct hrf_container *container,
                                               const char *name, size_t n_bytes, void *out,
                                               struct hrf_error *err);
/* The same of any size. */
HRF_CHECKED enum hrf_status hrf_container_bytes(const struct hrf_container *container,
                                                const char *name, struct hrf_bytes *out,
                                                struct hrf_error *err);
/* Makes the same checks without decoding the record's contents. */
HRF_CHECKED enum hrf_status hrf_record_check(const void *bytes, size_t n_bytes, const char *kind,
                                             const struct hrf_record_identity *expected,
                                             const char *where, struct hrf_error *err);
/* Encodes a record that consists of one text, such as observations, which calibrate/ writes. */
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

#endif
