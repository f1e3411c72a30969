/* write_external.h - puts the weights of a model that is being written into a file beside it. */
#ifndef HRF_ENGINE_ONNX_WRITE_EXTERNAL_H
#define HRF_ENGINE_ONNX_WRITE_EXTERNAL_H

#include "base/error.h"

struct Onnx__GraphProto;

/* Writes the raw data of the graph's larger initializers into PATH.data, atomically, and makes the
 * initializers name it. *memory (heap, the caller's) has what they name then. */
HRF_CHECKED enum hrf_status hrf_onnx_write_external(struct Onnx__GraphProto *graph,
                                                    const char *path, void **memory,
                                                    struct hrf_error *err);

#endif
