/* conv_strips.h - a convolution that no engine of cuDNN computes as a whole, in strips. */
#ifndef HRF_ENGINE_BACKEND_CUDA_CONV_STRIPS_H
#define HRF_ENGINE_BACKEND_CUDA_CONV_STRIPS_H

#include "engine/backend/cuda/cudnn_conv.h"
#include "engine/backend/strips.h"

/* Of a strip, on a GPU with that much memory. */
int64_t hrf_cuda_strip_bytes(int64_t memory_bytes);
/* Whether strips are worth asking for where there is no engine for all of `conv`: it has a
 * prologue, or its image is more than one strip. */
bool hrf_cuda_strips_help(const struct hrf_cudnn_conv *conv, int64_t strip_bytes);
HRF_CHECKED enum hrf_status hrf_cuda_strips_graph(const struct hrf_graph *graph,
                                                  const struct hrf_node *node, int64_t strip_bytes,
                                                  struct hrf_strips *at, struct hrf_graph **out,
                                                  struct hrf_error *err);
/* The convolution of one strip; `is_one` as hrf_cudnn_conv_describe() gives it. */
HRF_CHECKED enum hrf_status hrf_cuda_strips_describe(const struct hrf_graph *graph,
                                                     const struct hrf_node *node,
                                                     int64_t strip_bytes, bool allow_tf32,
                                                     struct hrf_cudnn_conv *out, bool *is_one,
                                                     struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_cuda_strips_compile(struct hrf_backend *backend,
                                                    const struct hrf_graph *graph,
                                                    const struct hrf_node *node,
                                                    struct hrf_kernel **out, struct hrf_error *err);

#endif
