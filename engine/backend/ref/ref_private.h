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

/* The operators that the reference computes, and the function of each; functions of one and of two
 * numbers, moves and reductions have one function a class. ROW(operator, function). */
#define HRF_REF_OPS_OF_ANY_TYPE(ROW)                                                               \
    ROW(CONV, conv)                                                                                \
    ROW(CONV_TRANSPOSE, conv)                                                                      \
    ROW(GEMM, gemm)                                                                                \
    ROW(BATCH_NORM, batch_norm)                                                                    \
    ROW(ADD, binary)                                                                               \
    ROW(SUB, binary)                                                                               \
    ROW(MUL, binary)                                                                               \
    ROW(MAX_POOL, pool)                                                                            \
    ROW(AVERAGE_POOL, pool)                                                                        \
    ROW(GLOBAL_AVERAGE_POOL, pool)                                                                 \
    ROW(GLOBAL_MAX_POOL, pool)                                                                     \
    ROW(POOL_SUM, pool_sum)                                                                        \
    ROW(POOL_FINISH, pool_finish)                                                                  \
    ROW(QUANTIZE, quantize)                                                                        \
    ROW(DEQUANTIZE, copy)
/* And those of floats alone. */
#define HRF_REF_OPS_OF_FLOATS(ROW)                                                                 \
    ROW(CAST, copy)                                                                                \
    ROW(TOKEN_PRODUCT, token_product)                                                              \
    ROW(MATMUL, matmul)                                                                            \
    ROW(SOFTMAX, softmax)                                                                          \
    ROW(LOG_SOFTMAX, softmax)                                                                      \
    ROW(LRN, lrn)                                                                                  \
    ROW(RESIZE, resize)                                                                            \
    ROW(LAYER_NORM, layer_norm)                                                                    \
    ROW(RMS_NORM, layer_norm)                                                                      \
    ROW(GROUP_NORM, group_norm)                                                                    \
    ROW(ATTENTION, attention)                                                                      \
    ROW(TOKEN_ATTENTION, attention)                                                                \
    ROW(ATTENTION_PART, attention_part)                                                            \
    ROW(SWIGLU, swiglu)                                                                            \
    ROW(WHERE, where)                                                                              \
    ROW(SELECT_MAX, select_max)                                                                    \
    ROW(TOP_K_MASK, top_k_mask)                                                                    \
    ROW(PERFORMER_MAX, performer_max)                                                              \
    ROW(PERFORMER_STATE, performer_state)                                                          \
    ROW(PERFORMER_APPLY, performer_apply)                                                          \
    ROW(FUNCTION_GRADIENT, function_gradient)                                                      \
    ROW(CONV_WEIGHT_GRADIENT, conv_weight_gradient)                                                \
    ROW(MAX_POOL_GRADIENT, max_pool_gradient)                                                      \
    ROW(GATHER_GRADIENT, gather_gradient)                                                          \
    ROW(ATTENTION_GRADIENT, attention_gradient)
#define HRF_REF_DECLARE(OP, function) hrf_ref_function hrf_ref_##function;
HRF_REF_OPS_OF_ANY_TYPE(HRF_REF_DECLARE)
HRF_REF_OPS_OF_FLOATS(HRF_REF_DECLARE)
#undef HRF_REF_DECLARE
hrf_ref_function hrf_ref_unary, hrf_ref_binary, hrf_ref_reduction, hrf_ref_move;

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
/* The operator of one number, without rounding. */
double hrf_ref_value_of(enum hrf_op op, const struct hrf_attributes *attributes, double x);
/* What is fused into CONV, GEMM, BATCH_NORM and ADD: on real numbers, and on an 8-bit output's
 * steps. */
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
