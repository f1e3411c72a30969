/* passes.h - passes that rewrite a graph for execution: the same function with fewer nodes.
 *
 * Fusing turns the consumer into its producer: a BatchNormalization after a convolution becomes
 * that convolution with other weights, an Add becomes it with a residual, a Relu becomes it with an
 * activation. The fused node takes the position of the consumer, so that all its inputs are
 * computed before it. A BatchNormalization before a convolution (pre-activation networks) is not
 * folded into it, because the result would be wrong where the convolution pads; it is fused with
 * its activation instead. Shapes must be known.
 */
#ifndef HRF_ENGINE_PASSES_PASSES_H
#define HRF_ENGINE_PASSES_PASSES_H

#include "engine/backend/kernel_rows.h"
#include "engine/ir/graph.h"

/* If a DEQUANTIZE computes the weights of a CONV or GEMM, adds their scales as a further input,
 * from which lowering recovers the integers. Computes these weights, and those of MATMULs, in
 * float32 if shape inference has not done so. */
HRF_CHECKED enum hrf_status hrf_pass_take_weight_scales(struct hrf_graph *graph,
                                                        struct hrf_error *err);
/* The same, but the node reads the integers themselves: an S8 constant and its scales beside an F32
 * input. A MATMUL whose input the model quantises, too, becomes a GEMM, or, of values of rank 4,
 * a CONV between two TRANSPOSEs. Other constants keep the scale of their DEQUANTIZE. For
 * graphs that are lowered to S8, before hrf_passes_run(); lowering makes float32 of the weights of
 * those nodes that stay in it. */
HRF_CHECKED enum hrf_status hrf_pass_take_integer_weights(struct hrf_graph *graph,
                                                          struct hrf_error *err);
/* For the same graphs, after hrf_passes_run(), on back ends that look up (struct hrf_backend_ops):
 * replaces all operators between an 8-bit value and another one that is an elementwise function of
 * it alone by one LOOKUP. The table is computed by these operators. */
HRF_CHECKED enum hrf_status hrf_pass_make_lookups(struct hrf_graph *graph, struct hrf_error *err);
/* For the same graphs, after the pass above: removes pairs of QUANTIZE and DEQUANTIZE that change
 * nothing, because their input was computed by moves or maxima from another such pair. */
HRF_CHECKED enum hrf_status hrf_pass_drop_pairs(struct hrf_graph *graph, struct hrf_error *err);
/* For the same graphs and back ends, before hrf_pass_join_moves(): fuses the products and the
 * softmax of a model that rounds each of their results to 8 bits into one ATTENTION of tokens. */
HRF_CHECKED enum hrf_status hrf_pass_fuse_own_attention(struct hrf_graph *graph,
                                                        struct hrf_error *err);
/* Runs hrf_pass_take_weight_scales() and the passes that follow here, except where noted. */
HRF_CHECKED enum hrf_status hrf_passes_run(struct hrf_graph *graph, struct hrf_error *err);

/* Replaces each 8-bit graph output by the float32 value that its QUANTIZE rounds. Not part of
 * hrf_passes_run(): whoever runs a model calls it first. HRF_E_UNSUPPORTED names an output of
 * another type. */
HRF_CHECKED enum hrf_status hrf_pass_float_outputs(struct hrf_graph *graph, struct hrf_error *err);

/* Removes Identity, moves that move nothing, and nodes whose values shape inference has computed.
 */
HRF_CHECKED enum hrf_status hrf_pass_fold_constants(struct hrf_graph *graph, struct hrf_error *err);
/* Replaces REDUCE_MEAN over rows and columns by GLOBAL_AVERAGE_POOL (and FLATTEN). */
HRF_CHECKED enum hrf_status hrf_pass_pool_means(struct hrf_graph *graph, struct hrf_error *err);
/* Does the same for means over the tokens of [N][T][C]. Of a lowered graph whose tokens ranks are
 * to divide, so that none of them needs all tokens. */
HRF_CHECKED enum hrf_status hrf_pass_pool_tokens(struct hrf_graph *graph, struct hrf_error *err);
/* Recovers GELU, GELU_TANH and SWISH from the operators that exporters write for them. */
HRF_CHECKED enum hrf_status hrf_pass_fuse_functions(struct hrf_graph *graph, struct hrf_error *err);
/* The same, but nodes whose results are not read any more stay, as do those that shape inference
 * has computed: for graphs whose constants are trained. */
void hrf_pass_recover_functions(struct hrf_graph *graph);
/* Recovers ATTENTION whose gradient is one operator. It leaves nodes that nobody reads. */
void hrf_pass_recover_attention(struct hrf_graph *graph);
/* Recovers LAYER_NORM, ATTENTION and SWIGLU likewise. Not part of hrf_passes_run(): for back ends
 * with kernels for them (struct hrf_backend_ops). Runs after it and before lowering. */
HRF_CHECKED enum hrf_status hrf_pass_fuse_transformer(struct hrf_graph *graph,
                                                      struct hrf_error *err);
/* Folds BATCH_NORM into the CONV or CONV_TRANSPOSE before it. */
HRF_CHECKED enum hrf_status hrf_pass_fold_batch_norm(struct hrf_graph *graph,
                                                     struct hrf_error *err);
/* Fuses ADD into the CONV that feeds it; the other operand, of the same shape, becomes the
 * residual. */
HRF_CHECKED enum hrf_status hrf_pass_fuse_residual(struct hrf_graph *graph, struct hrf_error *err);
/* Makes the products of PyTorch's MultiheadAttention, which computes on [T][N][C], work on
 * [N][T][C], so that only moves of heads are left around its ATTENTION. For the same back ends,
 * after hrf_pass_fuse_transformer(). */
HRF_CHECKED enum hrf_status hrf_pass_batch_first(struct hrf_graph *graph, struct hrf_error *err);
/* Makes ATTENTION read and write the heads in the channels of tokens (graph.h), without the moves
 * around it. For the same back ends, after the pass above. */
HRF_CHECKED enum hrf_status hrf_pass_attention_of_tokens(struct hrf_graph *graph,
                                                         struct hrf_error *err);
/* Turns values [N][H][W][C] that are normalised over C or multiplied by a constant matrix, and what
 * follows them, into images [N][C][H][W]: such a product becomes a 1x1 CONV. Removes the TRANSPOSEs
 * around them. For the same back ends, after the pass above. */
HRF_CHECKED enum hrf_status hrf_pass_channels_first(struct hrf_graph *graph, struct hrf_error *err);
/* Fuses an ADD or a MUL by a constant for each channel into the CONV before it, as its bias or as
 * factors of its weights (LayerScale). After the pass above. */
HRF_CHECKED enum hrf_status hrf_pass_fuse_channels(struct hrf_graph *graph, struct hrf_error *err);
/* Makes one GATHER of rows of several moves that follow each other, if whole rows stay together,
 * and marks RESHAPEs that keep the order in memory (of_pixels). For the same back ends, after the
 * passes above and below. */
HRF_CHECKED enum hrf_status hrf_pass_join_moves(struct hrf_graph *graph, struct hrf_error *err);
/* Makes such a GATHER of a single move, too: windows that are not shifted. Of a lowered graph that
 * ranks are to divide, which can be done with copies of rows alone. */
HRF_CHECKED enum hrf_status hrf_pass_join_windows(struct hrf_graph *graph, struct hrf_error *err);
/* Fuses a MATMUL with a constant matrix, and the bias and LayerScale factors after it, into one
 * GEMM, whose rows may have several axes. For the same back ends, after the pass above. */
HRF_CHECKED enum hrf_status hrf_pass_fuse_product(struct hrf_graph *graph, struct hrf_error *err);
/* Fuses the other summand of an ADD into a GEMM or CONV of floats as its residual. Runs after
 * lowering: after a product of 8 bits the sum stays in float32. */
HRF_CHECKED enum hrf_status hrf_pass_fuse_product_residual(struct hrf_graph *graph,
                                                           struct hrf_error *err);
/* Fuses RELU, CLIP and LEAKY_RELU into CONV, CONV_TRANSPOSE, GEMM (not LEAKY_RELU) and
 * BATCH_NORM. */
HRF_CHECKED enum hrf_status hrf_pass_fuse_activation(struct hrf_graph *graph,
                                                     struct hrf_error *err);
/* Fuses SIGMOID, HARD_SIGMOID, SWISH, HARD_SWISH, GELU and GELU_TANH into the CONV or GEMM before
 * them if its kernel takes them (hrf_kernels_take_activation()). Runs after lowering: an operator
 * of 8 bits between them keeps its own scale and is not fused. Not part of hrf_passes_run(). */
HRF_CHECKED enum hrf_status hrf_pass_fuse_epilogue(struct hrf_graph *graph,
                                                   const struct hrf_kernel_table *kernels,
                                                   struct hrf_error *err);
/* Moves BATCH_NORM (with its activation), RELU, CLIP or LEAKY_RELU into the CONVs that read it, as
 * their prologue, if the kernels of all of them take one (hrf_kernels_take_prologue()). The tensor
 * between them is then never stored. Runs after lowering, on the graph that will be computed; not
 * part of hrf_passes_run(). */
HRF_CHECKED enum hrf_status hrf_pass_fuse_prologue(struct hrf_graph *graph,
                                                   const struct hrf_kernel_table *kernels,
                                                   struct hrf_error *err);
/* Puts a BATCH_NORM whose input others read too (pre-activation networks) right after the CONV that
 * computes that input, and marks it as that CONV's second output (hrf_graph_second_of()), if one
 * kernel computes both (hrf_kernels_take_norm()). Runs after hrf_pass_fuse_prologue(), which leaves
 * nothing to be stored; not part of hrf_passes_run(). */
void hrf_pass_mark_second_outputs(struct hrf_graph *graph, const struct hrf_kernel_table *kernels);
/* Replaces a CONV_TRANSPOSE whose windows do not overlap (kernel = stride, no pads, one group) by a
 * 1x1 CONV and DEPTH_TO_SPACE. The sums are the same, 1x1 CONV has the fastest kernels, and every
 * precision supports it. */
HRF_CHECKED enum hrf_status hrf_pass_split_conv_transpose(struct hrf_graph *graph,
                                                          struct hrf_error *err);
/* Splits PERFORMER into PERFORMER_MAX (softmax kernel only), PERFORMER_STATE and PERFORMER_APPLY.
 * Ranks that share an image need to exchange only the outputs of the first two. */
HRF_CHECKED enum hrf_status hrf_pass_split_attention(struct hrf_graph *graph,
                                                     struct hrf_error *err);

#endif
