/* ref_private.h - what the reference computes with; for this folder only.
 *
 * Every tensor is an array of doubles in the order of its logical shape (an image: N, C, H, W),
 * whatever its type and its place in memory are, so that an operator is its ONNX formula over
 * logical indices. Nothing that computes is shared with other back ends: the reference judges them.
 */
#ifndef HRF_ENGINE_BACKEND_REF_REF_PRIVATE_H
#define HRF_ENGINE_BACKEND_REF_REF_PRIVATE_H

#include "engine/backend/backend.h"

struct hrf_ref_tensor {
    enum hrf_dtype dtype;
    struct hrf_shape shape;
    struct hrf_quantization quantization;
    /* An input's numbers: of 8 bits, q - zero point. NULL: the node has no such input. */
    const double *numbers;
    double *constant; /* heap; `numbers` is this, or made anew for each run */
};

struct hrf_ref_node {
    struct hrf_kernel base;
    enum hrf_op op;
    struct hrf_attributes attributes;
    int32_t n_inputs;
    struct hrf_ref_tensor *inputs, output;
    void *result;    /* the output's memory during a run */
    double *scratch; /* as many numbers as the output has, during a run */
    void (*compute)(const struct hrf_ref_node *node);
};
typedef void hrf_ref_function(const struct hrf_ref_node *node);

hrf_ref_function hrf_ref_unary, hrf_ref_binary, hrf_ref_copy, hrf_ref_quantize, hrf_ref_batch_norm,
    hrf_ref_lrn;
hrf_ref_function hrf_ref_conv, hrf_ref_pool, hrf_ref_pool_sum, hrf_ref_pool_finish;
hrf_ref_function hrf_ref_gemm, hrf_ref_token_product, hrf_ref_matmul, hrf_ref_softmax,
    hrf_ref_reduction;
hrf_ref_function hrf_ref_move, hrf_ref_resize, hrf_ref_where, hrf_ref_select_max,
    hrf_ref_top_k_mask;
hrf_ref_function hrf_ref_layer_norm, hrf_ref_group_norm, hrf_ref_attention, hrf_ref_attention_part,
    hrf_ref_swiglu;
hrf_ref_function hrf_ref_function_gradient, hrf_ref_conv_weight_gradient, hrf_ref_max_pool_gradient,
    hrf_ref_gather_gradient, hrf_ref_attention_gradient;
hrf_ref_function hrf_ref_performer_max, hrf_ref_performer_state, hrf_ref_performer_apply;

/* ---- tensors ---- */

/* n_elements numbers of `tensor`'s type, dense: in logical order (`is_constant`) or as values lie
 * in memory (backend.h). */
void hrf_ref_load(const struct hrf_ref_tensor *tensor, const void *data, bool is_constant,
                  double *out);
static inline bool hrf_ref_is_8_bit(const struct hrf_ref_tensor *tensor)
{
    return tensor->dtype == HRF_S8 || tensor->dtype == HRF_U8;
}
/* NULL: the node has no such input. */
const double *hrf_ref_numbers(const struct hrf_ref_node *node, int32_t input);
/* Number i of an input as a real one: of 8 bits, times the scale in float. */
double hrf_ref_real(const struct hrf_ref_node *node, int32_t input, int64_t i);
/* Element i of the output, rounded half to even to its type. `steps` is in units of the scale of an
 * 8-bit output, and the number itself for any other type. */
void hrf_ref_put(const struct hrf_ref_node *node, int64_t i, double real);
void hrf_ref_put_steps(const struct hrf_ref_node *node, int64_t i, float steps);
/* What is fused into CONV, GEMM, BATCH_NORM and ADD: on real numbers, and on an 8-bit output's
 * steps. */
/* The operator of one number, without rounding. */
double hrf_ref_value_of(enum hrf_op op, const struct hrf_attributes *attributes, double x);
double hrf_ref_activate(const struct hrf_attributes *attributes, double x);
float hrf_ref_activate_steps(const struct hrf_ref_node *node, float steps);
/* The output's unit: its scale in 8 bits, else 1. */
float hrf_ref_output_scale(const struct hrf_ref_node *node);

/* ---- indices ---- */

/* Position along each axis of element i, and back. */
void hrf_ref_position(const struct hrf_shape *shape, int64_t i, int64_t position[HRF_MAX_RANK]);
int64_t hrf_ref_index(const struct hrf_shape *shape, const int64_t *position);
/* The element of `shape` that numpy's broadcast puts at `position` of `to`. */
int64_t hrf_ref_broadcast(const struct hrf_shape *shape, const struct hrf_shape *to,
                          const int64_t *position);

#endif
