/* lower_private.h - the weights' half of lowering; for this folder only. */
#ifndef HRF_ENGINE_PASSES_LOWER_PRIVATE_H
#define HRF_ENGINE_PASSES_LOWER_PRIVATE_H

#include "engine/passes/lower.h"

/* Adds the S8 weights, their scales and the (corrected) bias of a CONV or GEMM to `to` and sets
 * inputs[HRF_CONV_WEIGHTS], [HRF_CONV_SCALES] and [HRF_CONV_BIAS]. A GEMM's become [N][K], a
 * CONV_TRANSPOSE's [M][C/group][kh][kw].
 * `range` of x may be NULL. */
HRF_CHECKED enum hrf_status hrf_lower_integer_weights(const struct hrf_graph *from,
                                                      const struct hrf_node *node,
                                                      const struct hrf_range *range,
                                                      struct hrf_graph *to, int32_t *inputs,
                                                      struct hrf_error *err);
/* The same in float32, rounded to what `type` can hold; the bias stays as it is. */
HRF_CHECKED enum hrf_status hrf_lower_rounded_weights(const struct hrf_graph *from,
                                                      const struct hrf_node *node,
                                                      enum hrf_dtype type, struct hrf_graph *to,
                                                      int32_t *inputs, struct hrf_error *err);

/* For each value the 8-bit value whose type, scale and zero point the model gives to what it holds:
 * all that is done with it is to quantise it so. Negative: the model does not say. *out: heap,
 * [n_values]. */
HRF_CHECKED enum hrf_status hrf_lower_own_forms(const struct hrf_graph *graph, int32_t **out,
                                                struct hrf_error *err);
bool hrf_lower_same_form(const struct hrf_value *a, const struct hrf_value *b);

#endif
