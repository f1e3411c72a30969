/* passes.h - rewriting a graph for execution: the same function, fewer nodes.
 *
 * A consumer takes over its producer: BatchNormalization after a convolution becomes that
 * convolution with other weights, Add becomes it with a residual, Relu becomes it with an
 * activation. The consumer's place in the order is kept, so that every input is there. A
 * BatchNormalization before a convolution (pre-activation nets) is not folded: it would be wrong
 * where the convolution pads. It takes its activation in instead. Shapes must be known.
 */
#ifndef HRF_ENGINE_PASSES_PASSES_H
#define HRF_ENGINE_PASSES_PASSES_H

#include "engine/ir/graph.h"

/* CONV and GEMM get the scales of weights that a DEQUANTIZE gives as a further input, so that
 * lowering finds the integers again. */
HRF_CHECKED enum hrf_status hrf_pass_take_weight_scales(struct hrf_graph *graph,
                                                        struct hrf_error *err);
/* That and all of the below, in order. */
HRF_CHECKED enum hrf_status hrf_passes_run(struct hrf_graph *graph, struct hrf_error *err);

/* Outputs of 8 bits become the float32 that their QUANTIZE rounds. Not among hrf_passes_run():
 * before it, by those who run a model. HRF_E_UNSUPPORTED names an output of another type. */
HRF_CHECKED enum hrf_status hrf_pass_float_outputs(struct hrf_graph *graph, struct hrf_error *err);

/* Nodes whose values shape inference has already computed, and Identity, go. */
HRF_CHECKED enum hrf_status hrf_pass_fold_constants(struct hrf_graph *graph, struct hrf_error *err);
/* REDUCE_MEAN over rows and columns as GLOBAL_AVERAGE_POOL (and FLATTEN). */
HRF_CHECKED enum hrf_status hrf_pass_pool_means(struct hrf_graph *graph, struct hrf_error *err);
/* BatchNormalization into the CONV or CONV_TRANSPOSE before it. */
HRF_CHECKED enum hrf_status hrf_pass_fold_batch_norm(struct hrf_graph *graph,
                                                     struct hrf_error *err);
/* Add into the CONV that feeds it (as its residual), when the other side has the same shape. */
HRF_CHECKED enum hrf_status hrf_pass_fuse_residual(struct hrf_graph *graph, struct hrf_error *err);
/* Relu, Clip and LeakyRelu into CONV, CONV_TRANSPOSE, GEMM (not LeakyRelu) and BATCH_NORM. */
HRF_CHECKED enum hrf_status hrf_pass_fuse_activation(struct hrf_graph *graph,
                                                     struct hrf_error *err);
/* Whether a back end computes this CONV with a prologue (graph.h), and is not slower for it. */
typedef bool hrf_takes_prologue(const struct hrf_graph *graph, const struct hrf_node *conv);
/* BATCH_NORM (with its activation), Relu, Clip and LeakyRelu into all the CONVs that read them, as
 * their prologue, where `takes` says yes for each: the result between is no tensor any more. For
 * the graph as it will be computed, after lowering; not among hrf_passes_run(). */
HRF_CHECKED enum hrf_status
hrf_pass_fuse_prologue(struct hrf_graph *graph, hrf_takes_prologue *takes, struct hrf_error *err);
/* CONV_TRANSPOSE whose windows lie side by side (kernel = stride, no pads, one group) as a 1x1 CONV
 * and DEPTH_TO_SPACE: the same sums, by the fastest kernels there are and in every precision. */
HRF_CHECKED enum hrf_status hrf_pass_split_conv_transpose(struct hrf_graph *graph,
                                                          struct hrf_error *err);
/* PERFORMER as PERFORMER_MAX (softmax kernel only), _STATE and _APPLY: between them is all that
 * ranks which share an image must tell each other. */
HRF_CHECKED enum hrf_status hrf_pass_split_attention(struct hrf_graph *graph,
                                                     struct hrf_error *err);

#endif
