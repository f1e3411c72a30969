/* external.h - weights in files beside the model.
 *
 * A location is a path relative to the model's folder. It is refused if it is absolute, has a `..`,
 * or leads out of the folder through a link, and if the part that a tensor names is not in the
 * file. One file is open at a time. Not thread-safe.
 */
#ifndef HRF_ENGINE_ONNX_EXTERNAL_H
#define HRF_ENGINE_ONNX_EXTERNAL_H

#include "base/error.h"
#include "base/hash.h"

#include <stddef.h>
#include <stdint.h>

struct Onnx__TensorProto;

struct hrf_onnx_external {
    const char *folder; /* of the model; NULL: there is none, so external data is refused */
    char *location;     /* of the open file; NULL: none is open */
    int fd;
    int64_t file_bytes;
    struct hrf_hash *hash;         /* of all that was read, in order; NULL: it is not wanted */
    int64_t read_bytes, max_bytes; /* of all tensors together: what was read, and the limit */
};

/* Reads the n_bytes of `tensor`'s data into `out`, which has that size. */
HRF_CHECKED enum hrf_status hrf_onnx_external_read(struct hrf_onnx_external *external,
                                                   const struct Onnx__TensorProto *tensor,
                                                   const char *name, void *out, size_t n_bytes,
                                                   struct hrf_error *err);
/* The same checks, before memory is taken. */
HRF_CHECKED enum hrf_status hrf_onnx_external_check(struct hrf_onnx_external *external,
                                                    const struct Onnx__TensorProto *tensor,
                                                    const char *name, size_t n_bytes,
                                                    struct hrf_error *err);
void hrf_onnx_external_release(struct hrf_onnx_external *external);

#endif
