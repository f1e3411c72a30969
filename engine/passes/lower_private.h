/* lower_private.h - how lowering treats weights, and the scales of a model that was quantised
 * elsewhere; for this folder only. */
#ifndef HRF_ENGINE_PASSES_LOWER_PRIVATE_H
#define HRF_ENGINE_PASSES_LOWER_PRIVATE_H

#include "engine/passes/lower.h"

/* Adds the S8 weights, their scales and the corrected bias of a CONV, CONV_TRANSPOSE or GEMM to
 * `to` and sets inputs[HRF_CONV_WEIGHTS], [HRF_CONV_SCALES] and [HRF_CONV_BIAS]. The weights of a
 * GEMM become [N][K], those of a CONV_TRANSPOSE [M][C/group][kh][kw]. `range` is that of the node's
 * input; NULL: the bias is not corrected. `smoothing`: the divisors of the input's channels, which
 * a GEMM's weights are multiplied by; NULL: none. */
HRF_CHECKED enum hrf_status hrf_lower_integer_weights(const struct hrf_graph *from,
                                                      const struct hrf_node *node,
                                                      const struct hrf_range *range,
                                                      const float *smoothing, struct hrf_graph *to,
                                                      int32_t *inputs, struct hrf_error *err);
/* Adds the weights in float32, rounded to values that `type` can represent. The bias is
 * unchanged. */
HRF_CHECKED enum hrf_status hrf_lower_rounded_weights(const struct hrf_graph *from,
                                                      const struct hrf_node *node,
                                                      enum hrf_dtype type, struct hrf_graph *to,
                                                      int32_t *inputs, struct hrf_error *err);

/* For a model that was quantised elsewhere: out[v] is an 8-bit value with the type, scale and zero
 * point that the model gives to value v, because every reader of v quantises it that way. Negative:
 * the model gives none. *out: heap, [n_values]. */
HRF_CHECKED enum hrf_status hrf_lower_own_forms(const struct hrf_graph *graph, int32_t **out,
                                                struct hrf_error *err);
/* True if two values have the same type, scale and zero point. */
bool hrf_lower_same_form(const struct hrf_value *a, const struct hrf_value *b);

#endif
