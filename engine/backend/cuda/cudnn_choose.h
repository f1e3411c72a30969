/* cudnn_choose.h - a CONV or GEMM of the graph, or the gradient of one (CONV_TRANSPOSE,
 * CONV_WEIGHT_GRADIENT), as a cuDNN convolution that has an engine.
 *
 * Needs no GPU: the device may be a description (hrf_cudnn_device_parse). Where no engine takes the
 * channels as they are, they are widened with zeros to the next multiple that one takes.
 */
#ifndef HRF_ENGINE_BACKEND_CUDA_CUDNN_CHOOSE_H
#define HRF_ENGINE_BACKEND_CUDA_CUDNN_CHOOSE_H

#include "engine/backend/cuda/cudnn_conv.h"

/* False: not a convolution of one pixel or more that cuDNN is asked for (unsigned 8-bit values,
 * zero points, a matrix that is computed or lies the other way round, no elements). */
bool hrf_cudnn_conv_describe(const struct hrf_graph *graph, const struct hrf_node *node,
                             bool allow_tf32, struct hrf_cudnn_conv *out);
/* The same with `norm`, a BATCH_NORM of its output, as a second output. False: nor is it such a
 * convolution, or its results or channels are of other kinds than an engine is asked for. */
bool hrf_cudnn_conv_describe_both(const struct hrf_graph *graph, const struct hrf_node *node,
                                  const struct hrf_node *norm, bool allow_tf32,
                                  struct hrf_cudnn_conv *out);
/* Whether engines are asked for one with a prologue at all: they compute it on tensor cores alone
 * (cuDNN 9.19), and `fp32` keeps off those. */
bool hrf_cudnn_conv_takes_prologue(const struct hrf_cudnn_conv *conv);
/* What an engine may take beside the tensors, on a GPU with that much memory: one that copies an
 * image into another layout wants as much as the image. */
int64_t hrf_cudnn_most_workspace(int64_t memory_bytes);
/* The engines for `conv`, best first, and the graph they are for (`handle`:
 * hrf_cudnn_graph_finish()); `conv` gets its channels widened. No engine is no error. Release both
 * in any case. */
HRF_CHECKED enum hrf_status hrf_cudnn_conv_choose(struct hrf_cudnn_conv *conv, cudnnHandle_t handle,
                                                  const struct hrf_cudnn_device *device,
                                                  int64_t most_workspace,
                                                  struct hrf_cudnn_graph *graph,
                                                  struct hrf_cudnn_engines *engines,
                                                  struct hrf_error *err);
/* Sets the channels to what the engines take: `conv` as it was asked, not in groups where they
 * differ. */
void hrf_cudnn_conv_widen(struct hrf_cudnn_conv *conv, int64_t in_channels, int64_t out_channels);
/* What a strip or a part of the batch has in common with the whole: no sizes and no pads. */
struct hrf_cudnn_conv hrf_cudnn_conv_kind(const struct hrf_cudnn_conv *conv);
/* All that decides what a plan does, as text: equal convolutions have equal texts. `size`: 512 at
 * least. */
void hrf_cudnn_conv_text(const struct hrf_cudnn_conv *conv, char *text, size_t size);

#endif
