/* integer_weights.h - weights that a model file holds as 8-bit integers.
 *
 * Shape inference does not compute the DEQUANTIZE of such weights, so that a network that computes
 * in INT8 never has them as float32. Passes either give a product the integers and their scales, or
 * compute the DEQUANTIZE (hrf_pass_take_weight_scales).
 */
#ifndef HRF_ENGINE_IR_INTEGER_WEIGHTS_H
#define HRF_ENGINE_IR_INTEGER_WEIGHTS_H

#include "engine/ir/graph.h"
#include "engine/ir/readers.h"

/* True if a QUANTIZE or DEQUANTIZE has one scale, not one for each index along an axis. */
bool hrf_quantization_is_one(const struct hrf_graph *graph, const struct hrf_node *node);
/* Scale and zero point by which a QUANTIZE or DEQUANTIZE of the model, whose input has `shape`,
 * converts the input's element `i`. */
struct hrf_quantization hrf_quantization_at(const struct hrf_graph *graph,
                                            const struct hrf_node *node,
                                            const struct hrf_shape *shape, int64_t i);

/* True if the node is a DEQUANTIZE of a constant of 8 bits that only CONVs, GEMMs and MATMULs read,
 * as their weights, and an 8-bit CONV or GEMM can use it as it is: one scale for all, or one for
 * each output, and integers that fit into S8 once their zero points are subtracted. The node's rule
 * of shape inference has checked its inputs. */
bool hrf_has_integer_weights(const struct hrf_graph *graph, const struct hrf_readers *readers,
                             const struct hrf_node *node);
/* *index: that constant as S8, with zero points of 0; added to the graph if it is not. */
HRF_CHECKED enum hrf_status hrf_take_integer_weights(struct hrf_graph *graph,
                                                     const struct hrf_node *node, int32_t *index,
                                                     struct hrf_error *err);
/* The numbers that a DEQUANTIZE of a constant gives (heap); NULL: no memory. */
float *hrf_dequantize_constant(const struct hrf_graph *graph, const struct hrf_node *node);

#endif
