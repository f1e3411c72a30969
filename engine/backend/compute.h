/* compute.h - what the CPU and the CUDA back end compute with: memory layout, walks over tensors,
 * and what a kernel keeps of its node. The reference uses none of it, because it judges both of
 * them.
 */
#ifndef HRF_ENGINE_BACKEND_COMPUTE_H
#define HRF_ENGINE_BACKEND_COMPUTE_H

#include "engine/backend/backend.h"
#include "engine/ir/resize.h"

/* ---- layout ---- */

/* Elements between neighbours along each axis of the shape, in the layout above. */
void hrf_layout_strides(const struct hrf_shape *shape, int64_t strides[HRF_MAX_RANK]);
/* out[c * out_step + r] = in[r * in_step + c], of elements of 1, 2, 4 or 8 bytes. One thread. */
void hrf_transpose(size_t element_size, int64_t rows, int64_t columns, const void *in,
                   int64_t in_step, void *out, int64_t out_step);
/* Between ONNX order and the layout above; the same bytes unless rank is 4. Elements of
 * 1, 2, 4 or 8 bytes. */
void hrf_layout_from_onnx(const struct hrf_shape *shape, size_t element_size, const void *onnx,
                          void *out);
void hrf_layout_to_onnx(const struct hrf_shape *shape, size_t element_size, const void *in,
                        void *onnx);
/* True when reading the elements in order gives the same numbers in both orders. */
bool hrf_layout_is_onnx(const struct hrf_shape *shape);

/* A walk over a box of up to HRF_MAX_RANK axes in output order, neighbouring axes merged where
 * all operands allow: strides in elements, the innermost axis last. */
#define HRF_WALK_MAX_OPERANDS 4
struct hrf_walk {
    int32_t rank; /* 1 at least */
    int64_t dims[HRF_MAX_RANK];
    int64_t strides[HRF_WALK_MAX_OPERANDS][HRF_MAX_RANK];
    int32_t n_operands;
};
/* `strides[k]` gives operand k's strides per axis of `shape` (0: broadcast). Operand 0
 * must lie in memory as `shape` does: it is walked through in memory order. */
void hrf_walk_init(struct hrf_walk *walk, const struct hrf_shape *shape, int32_t n_operands,
                   const int64_t strides[][HRF_MAX_RANK]);
/* The same strides for a numpy-like broadcast of `operand` to `to`. */
void hrf_layout_broadcast_strides(const struct hrf_shape *operand, const struct hrf_shape *to,
                                  int64_t strides[HRF_MAX_RANK]);
/* Offsets of the operands at row `row` of the walk: a row is one run along the last axis. */
void hrf_walk_seek(const struct hrf_walk *walk, int64_t row,
                   int64_t offsets[HRF_WALK_MAX_OPERANDS]);
int64_t hrf_walk_rows(const struct hrf_walk *walk);

/* ---- what a kernel keeps of its node ---- */

struct hrf_operand {
    bool present;
    enum hrf_dtype dtype;
    struct hrf_shape shape;
    int64_t pixel_stride; /* hrf_value_pixel_stride() */
    struct hrf_quantization quantization;
    void *constant; /* heap copy in the layout above (a convolution's weights: ONNX order); NULL
                       when it comes at run time */
};

struct hrf_spec {
    enum hrf_op op;
    char *name;
    struct hrf_attributes attributes;
    int32_t n_inputs;
    struct hrf_operand *inputs;
    struct hrf_operand output;
};
HRF_CHECKED enum hrf_status hrf_spec_create(const struct hrf_graph *graph,
                                            const struct hrf_node *node, struct hrf_spec **out,
                                            struct hrf_error *err);
/* Copies the node's constants again, which may have changed since. */
HRF_CHECKED enum hrf_status hrf_spec_refresh(struct hrf_spec *spec, const struct hrf_graph *graph,
                                             const struct hrf_node *node, struct hrf_error *err);
void hrf_spec_destroy(struct hrf_spec *spec);
HRF_DEFINE_AUTO(hrf_spec)
static inline bool hrf_spec_has(const struct hrf_spec *spec, int32_t input)
{
    return input < spec->n_inputs && spec->inputs[input].present;
}
static inline const void *hrf_spec_data(const struct hrf_spec *spec,
                                        const struct hrf_kernel_call *call, int32_t input)
{
    if (!hrf_spec_has(spec, input))
        return NULL;
    const void *constant = spec->inputs[input].constant;
    return constant != NULL ? constant : call->inputs[input];
}
/* The output as floats, for kernels that compute in float32. */
static inline float *hrf_floats(const struct hrf_kernel_call *call)
{
    return call->output;
}
/* DEPTH_TO_SPACE and SPACE_TO_DEPTH as the copy of one box, of an axis for each of image, row of
 * blocks, row in a block, column of blocks, column in one, channel: strides in elements. The output
 * of DEPTH_TO_SPACE is whole blocks, not a part of them. */
struct hrf_blocks {
    struct hrf_shape box;
    int64_t in[HRF_MAX_RANK], out[HRF_MAX_RANK];
};
struct hrf_blocks hrf_blocks_of(const struct hrf_spec *spec);
/* GATHER as n copies of one box, one for each index: strides in elements. */
struct hrf_gather {
    struct hrf_shape box;
    int64_t in[HRF_MAX_RANK], out[HRF_MAX_RANK];
    int64_t n;
    int64_t step;                /* in the input, from one index of the axis to the next */
    int64_t steps[HRF_MAX_RANK]; /* in the output, along each axis of the indices */
};
struct hrf_gather hrf_gather_of(const struct hrf_spec *spec);
/* Where copy i begins in the input (0) and in the output (1). */
void hrf_gather_seek(const struct hrf_spec *spec, const struct hrf_gather *gather, int64_t i,
                     int64_t offsets[2]);
/* A MATMUL as n products of [rows][depth] and [depth][columns]. Strides in elements, along rows (of
 * b: depth) and columns (of a: depth). */
struct hrf_matmul {
    int64_t n, rows, columns, depth;
    int64_t a[2], b[2], y[2];
    int32_t n_batch;
    int64_t batch[HRF_MAX_RANK], batch_strides[3][HRF_MAX_RANK]; /* of a, b, y */
};
void hrf_matmul_view(const struct hrf_spec *spec, struct hrf_matmul *out);
/* Where product m begins in a, b and y. */
void hrf_matmul_seek(const struct hrf_matmul *view, int64_t m, int64_t offsets[3]);

size_t hrf_spec_constant_bytes(const struct hrf_spec *spec);
/* RESIZE (engine/ir/resize.h): one for each output row (axis 0) or column (1). */
void hrf_resize_taps(const struct hrf_spec *spec, int axis, struct hrf_resize_tap *taps);

/* ---- 8-bit integers ---- */

/* What becomes of the exact integer sum of a CONV or GEMM:
 *   t = ((float)sum + bias[c]) * multiplier[c]
 *   t = fma(residual - residual's zero point, residual_scale, t)
 *   t = activation(t), clipped to [low, high]
 *   y = round half to even(t) + y's zero point, saturated; float outputs are t itself.
 * With s the scales: multiplier = s_x * s_w[c] / s_y, bias = b[c] / (s_x * s_w[c]),
 * residual_scale = s_r / s_y; s_y is 1 for float outputs. Each product in float, in this order:
 * the same bits from every implementation (oneDNN's among them; the tests hold it to that). */
struct hrf_requantize {
    int64_t n_channels;
    float *multiplier, *bias;
    float residual_scale;
    int32_t residual_zero_point;
    enum hrf_activation activation;
    float low, high; /* CLIP, in y's steps */
    float slope;     /* LEAKY_RELU */
};
/* The caller owns what it returns. */
struct hrf_requantize *hrf_requantize_create(const struct hrf_spec *spec);
void hrf_requantize_destroy(struct hrf_requantize *requantize);
HRF_DEFINE_AUTO(hrf_requantize)

#endif
