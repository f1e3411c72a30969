/* safetensors.h - weights in a safetensors file: a JSON header, then the tensors' bytes.
 *
 * Files are not trusted. The header is refused if it is longer than the file or than 100 MB, names
 * a tensor twice, or places tensors so that they overlap, leave bytes out or lie outside the file;
 * so are types that are no floats when they are read, and weights that are NaN or infinite.
 * Source: https://huggingface.co/docs/safetensors (format). One thread at a time.
 */
#ifndef HRF_ENGINE_ENCODER_SAFETENSORS_H
#define HRF_ENGINE_ENCODER_SAFETENSORS_H

#include "engine/ir/graph.h"

struct hrf_safetensor {
    char *name;
    char dtype[8];          /* "F32", "F16", "BF16", "F64", "I64" ... */
    struct hrf_shape shape; /* ranks above HRF_MAX_RANK are refused when the tensor is read */
    int fd;                 /* of its file; -1: none, as for hrf_safetensors_parse() */
    int64_t begin, end;     /* bytes of that file; of hrf_safetensors_parse(), after the header */
    bool is_used;           /* it has been read, or ignored */
};

struct hrf_safetensors {
    char *path;
    int *fds; /* of the files that are open */
    size_t n_fds;
    struct hrf_safetensor *items;
    size_t n_items;
};

/* A file, or the index of several beside it: "model.safetensors.index.json", whose names of files
 * have no folder. */
HRF_CHECKED enum hrf_status hrf_safetensors_open(const char *path, struct hrf_safetensors **out,
                                                 struct hrf_error *err);
void hrf_safetensors_destroy(struct hrf_safetensors *file);
HRF_DEFINE_AUTO(hrf_safetensors)
/* The header alone, of a file with n_data bytes after it. */
HRF_CHECKED enum hrf_status hrf_safetensors_parse(const char *header, size_t n_bytes,
                                                  int64_t n_data, const char *where,
                                                  struct hrf_safetensors **out,
                                                  struct hrf_error *err);

/* NULL: the file has none of that name. */
struct hrf_safetensor *hrf_safetensors_find(struct hrf_safetensors *file, const char *name);
/* The tensor's numbers as float32, *out (heap), in the order of its shape; it counts as used. */
HRF_CHECKED enum hrf_status hrf_safetensors_read(struct hrf_safetensors *file,
                                                 struct hrf_safetensor *tensor, float **out,
                                                 struct hrf_error *err);

#endif
