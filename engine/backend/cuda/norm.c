/* norm.c - LAYER_NORM, RMS_NORM and GROUP_NORM as one launch each; the first two, and SWIGLU, write
 * the rounded rows of the product behind them where nothing else reads theirs. */
#include "engine/backend/cuda/cuda_private.h"

#include <assert.h>

/* The strides of scale and bias along the output's axes from `axis` on; both have those axes. */
static void parameter_strides(const struct hrf_spec *spec, int64_t strides[HRF_MAX_RANK])
{
    int64_t own[HRF_MAX_RANK] = { 0 };
    const int32_t k = hrf_spec_has(spec, 1) ? 1 : 2, axis = (int32_t)spec->attributes.axis;
    if (spec->attributes.of_each_pixel) {
        strides[1] = 1;
        return;
    }
    if (!hrf_spec_has(spec, k))
        return;
    hrf_layout_strides(&spec->inputs[k].shape, own);
    for (int32_t i = axis; i < spec->output.shape.rank; i++)
        strides[i] = own[i - axis];
}

/* The axes before `axis` count the groups, the others their terms; of pixels, the channels are the
 * terms of each. */
static struct hrf_k_norm_form layers_of(const struct hrf_spec *spec, const int64_t y[HRF_MAX_RANK],
                                        const int64_t x[HRF_MAX_RANK])
{
    const struct hrf_shape *shape = &spec->output.shape;
    struct hrf_k_norm_form form = { .n_groups = 1 };
    int64_t parameter[HRF_MAX_RANK] = { 0 };
    parameter_strides(spec, parameter);
    for (int32_t i = 0; i < shape->rank; i++) {
        const bool is_term = spec->attributes.of_each_pixel ? i == 1 : i >= spec->attributes.axis;
        hrf_cuda_walk_add(is_term ? &form.terms : &form.groups, shape->dims[i], y[i], x[i],
                          parameter[i]);
    }
    return form;
}

/* A group is an image's channels next to each other, with all their pixels. */
static struct hrf_k_norm_form groups_of(const struct hrf_spec *spec, const int64_t y[HRF_MAX_RANK],
                                        const int64_t x[HRF_MAX_RANK])
{
    const struct hrf_shape *shape = &spec->output.shape;
    const int64_t channels = shape->dims[1];
    const int64_t n_groups = spec->attributes.n_groups > 0 ? spec->attributes.n_groups : channels;
    const int64_t own = channels / n_groups;
    struct hrf_k_norm_form form = { .n_groups = n_groups, .group_parameters = own };
    hrf_cuda_walk_add(&form.groups, shape->dims[0], y[0], x[0], 0);
    hrf_cuda_walk_add(&form.groups, n_groups, own * y[1], own * x[1], 0);
    hrf_cuda_walk_add(&form.terms, own, y[1], x[1], 1);
    for (int32_t i = 2; i < shape->rank; i++)
        hrf_cuda_walk_add(&form.terms, shape->dims[i], y[i], x[i], 0);
    return form;
}

/* ---- together with a product that rounds the rows ---- */

/* The rows of numbers that lie next to each other, as products read them. */
static bool are_rows(const struct hrf_spec *spec, const struct hrf_cuda_rows *rows)
{
    const struct hrf_shape *shape = &spec->output.shape;
    if (spec->op == HRF_OP_SWIGLU)
        return shape->rank != 4 && hrf_shape_last(shape) == rows->depth &&
               hrf_shape_count(shape) == rows->n_rows * rows->depth;
    const int64_t depth = spec->attributes.of_each_pixel ? shape->dims[1] : hrf_shape_last(shape);
    const bool is_last = spec->attributes.of_each_pixel ||
                         (shape->rank != 4 && spec->attributes.axis == shape->rank - 1);
    for (int32_t i = 1; i <= 2; i++)
        if (hrf_spec_has(spec, i) &&
            (spec->inputs[i].dtype != HRF_F32 || hrf_shape_count(&spec->inputs[i].shape) != depth))
            return false;
    return is_last && depth == rows->depth && hrf_shape_count(shape) == rows->n_rows * depth;
}

static bool can_fuse(const struct hrf_kernel *base, const struct hrf_kernel *next,
                     const struct hrf_fused_pair *pair)
{
    const struct hrf_cuda_kernel *kernel = (const struct hrf_cuda_kernel *)base;
    struct hrf_cuda_rows rows;
    return pair->is_sole_reader && !pair->is_residual && hrf_cuda_conv_rows(next, &rows) &&
           are_rows(kernel->spec, &rows);
}

static cudaError_t put_rows(const struct hrf_cuda_kernel *kernel,
                            const struct hrf_kernel_call *call, const struct hrf_cuda_rows *rows,
                            char *work)
{
    const struct hrf_k_array x = hrf_cuda_input(kernel, call, 0);
    const enum hrf_k_type between = hrf_cuda_output(kernel, call).type;
    cudaStream_t stream = kernel->backend->device->stream;
    int8_t *q = (int8_t *)work + rows->rows_at;
    float *scales = (float *)(void *)(work + rows->scales_at);
    if (kernel->spec->op == HRF_OP_SWIGLU) {
        const struct hrf_k_swiglu_rows_form form = { rows->depth, rows->wide, between,
                                                     rows->factors };
        return hrf_k_swiglu_rows(q, scales, x, &form, rows->n_rows, stream);
    }
    const struct hrf_k_norm_rows_form form = {
        .depth = rows->depth,
        .wide = rows->wide,
        .epsilon = kernel->spec->attributes.epsilon,
        .centred = kernel->spec->op != HRF_OP_RMS_NORM,
        .between = between,
        .scale = hrf_cuda_input(kernel, call, 1).data,
        .bias = hrf_cuda_input(kernel, call, 2).data,
        .factors = rows->factors,
    };
    return hrf_k_norm_rows(q, scales, x, &form, rows->n_rows, stream);
}

static enum hrf_status run_fused(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                 struct hrf_kernel *next, const struct hrf_kernel_call *next_call,
                                 struct hrf_error *err)
{
    const struct hrf_cuda_kernel *kernel = (const struct hrf_cuda_kernel *)base;
    struct hrf_cuda_rows rows;
    const bool takes_rows = hrf_cuda_conv_rows(next, &rows);
    assert(takes_rows);
    (void)takes_rows;
    HRF_TRY_CUDA(put_rows(kernel, call, &rows, next_call->workspace),
                 "rounding rows where they are made");
    return hrf_cuda_conv_run_rounded(next, next_call, err);
}

void hrf_cuda_rows_fuse(struct hrf_cuda_kernel *kernel)
{
    const enum hrf_op op = kernel->spec->op;
    if (op != HRF_OP_LAYER_NORM && op != HRF_OP_RMS_NORM && op != HRF_OP_SWIGLU)
        return;
    kernel->base.can_fuse = can_fuse;
    kernel->base.run_fused = run_fused;
}

cudaError_t hrf_cuda_launch_norm(const struct hrf_cuda_kernel *kernel,
                                 const struct hrf_kernel_call *call)
{
    const struct hrf_spec *spec = kernel->spec;
    int64_t y[HRF_MAX_RANK], x[HRF_MAX_RANK];
    assert(spec->op == HRF_OP_LAYER_NORM || spec->op == HRF_OP_RMS_NORM ||
           spec->op == HRF_OP_GROUP_NORM);
    hrf_layout_strides(&spec->output.shape, y);
    hrf_layout_strides(&spec->inputs[0].shape, x);
    struct hrf_k_norm_form form = spec->op == HRF_OP_GROUP_NORM ? groups_of(spec, y, x)
                                                                : layers_of(spec, y, x);
    form.epsilon = spec->attributes.epsilon;
    form.centred = spec->op != HRF_OP_RMS_NORM;
    return hrf_k_norm(hrf_cuda_output(kernel, call), hrf_cuda_input(kernel, call, 0),
                      hrf_cuda_input(kernel, call, 1), hrf_cuda_input(kernel, call, 2), &form,
                      kernel->backend->device->stream);
}
