/* zip.h - reads the files of a ZIP archive, stored or deflated (APPNOTE 6.3.10; ZIP64 too).
 *
 * Safe against hostile archives: sizes are checked against the archive and a limit before memory is
 * taken, checksums after reading. Encrypted archives and those in several parts are refused. The
 * archive is read into memory: meant for annotations, not for slides.
 */
#ifndef HRF_AGGREGATE_CAMELYON16_ZIP_H
#define HRF_AGGREGATE_CAMELYON16_ZIP_H

#include "base/alloc.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct hrf_zip_entry {
    char *name; /* with its folders, as in the archive; never used as a path */
    uint64_t offset, n_packed, n_bytes; /* of the local header; packed; unpacked */
    uint32_t crc;
    uint16_t method;
};

struct hrf_zip {
    unsigned char *bytes;
    size_t n_bytes;
    char *where;                 /* for messages */
    struct hrf_zip_entry *items; /* files, not folders, in the order of the archive */
    size_t n_items;
};

HRF_CHECKED enum hrf_status hrf_zip_read(const char *path, struct hrf_zip **out,
                                         struct hrf_error *err);
/* Parses an archive in memory; `bytes` are copied. */
HRF_CHECKED enum hrf_status hrf_zip_parse(const void *bytes, size_t n_bytes, const char *where,
                                          struct hrf_zip **out, struct hrf_error *err);
void hrf_zip_destroy(struct hrf_zip *zip);
HRF_DEFINE_AUTO(hrf_zip)

/* Extracts one file of at most `limit` bytes; *out is heap, with a NUL behind it. */
HRF_CHECKED enum hrf_status hrf_zip_extract(const struct hrf_zip *zip,
                                            const struct hrf_zip_entry *entry, size_t limit,
                                            char **out, size_t *n_bytes, struct hrf_error *err);

#endif
