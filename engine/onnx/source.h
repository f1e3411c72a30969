/* source.h - the bytes of a model: in memory, or in a file that is read where they are wanted, so
 * that weights are never held as the file and as tensors at once. Files are not mapped: one that is
 * cut short meanwhile is an error, not a signal. Not thread-safe.
 */
#ifndef HRF_ENGINE_ONNX_SOURCE_H
#define HRF_ENGINE_ONNX_SOURCE_H

#include "base/error.h"
#include "base/hash.h"

#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum { HRF_ONNX_WINDOW = 4096 };

struct hrf_onnx_source {
    uint64_t n_bytes;
    const uint8_t *bytes; /* NULL: in the file */
    char *owned;          /* `bytes` of a file that does not tell its size (/proc); else NULL */
    int fd;
    struct timespec changed; /* when the file was last written, as it was opened */
    uint8_t window[HRF_ONNX_WINDOW];
    uint64_t window_at; /* of the file */
    size_t window_bytes;
};

void hrf_onnx_source_of_bytes(const void *bytes, size_t n_bytes, struct hrf_onnx_source *out);
/* Refuses files as hrf_file_read() does. */
HRF_CHECKED enum hrf_status hrf_onnx_source_open(const char *path, size_t limit,
                                                 struct hrf_onnx_source *out,
                                                 struct hrf_error *err);
void hrf_onnx_source_release(struct hrf_onnx_source *source); /* of a zeroed one, too */
/* Some of the bytes from `at`, which is below n_bytes, on: *have of them, at least 1, until the
 * next call. */
HRF_CHECKED enum hrf_status hrf_onnx_source_see(struct hrf_onnx_source *source, uint64_t at,
                                                const uint8_t **out, size_t *have,
                                                struct hrf_error *err);
/* HRF_E_USER: there are not so many. */
HRF_CHECKED enum hrf_status hrf_onnx_source_read(const struct hrf_onnx_source *source, uint64_t at,
                                                 void *out, size_t n_bytes, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_onnx_source_hash(const struct hrf_onnx_source *source,
                                                 char out[HRF_HASH_HEX], struct hrf_error *err);
/* HRF_E_EXTERNAL: somebody has written to the file since it was opened. */
HRF_CHECKED enum hrf_status hrf_onnx_source_check(const struct hrf_onnx_source *source,
                                                  struct hrf_error *err);

#endif
