/* norm.c - LAYER_NORM, RMS_NORM and GROUP_NORM as one launch each. */
#include "engine/backend/cuda/cuda_private.h"

#include <assert.h>

/* The strides of scale and bias along the output's axes from `axis` on; both have those axes. */
static void parameter_strides(const struct hrf_spec *spec, int64_t strides[HRF_MAX_RANK])
{
    int64_t own[HRF_MAX_RANK] = { 0 };
    const int32_t k = hrf_spec_has(spec, 1) ? 1 : 2, axis = (int32_t)spec->attributes.axis;
    if (spec->attributes.of_pixels) {
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
        const bool is_term = spec->attributes.of_pixels ? i == 1 : i >= spec->attributes.axis;
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
    const int64_t n_groups = spec->attributes.group > 0 ? spec->attributes.group : channels;
    const int64_t own = channels / n_groups;
    struct hrf_k_norm_form form = { .n_groups = n_groups, .group_parameters = own };
    hrf_cuda_walk_add(&form.groups, shape->dims[0], y[0], x[0], 0);
    hrf_cuda_walk_add(&form.groups, n_groups, own * y[1], own * x[1], 0);
    hrf_cuda_walk_add(&form.terms, own, y[1], x[1], 1);
    for (int32_t i = 2; i < shape->rank; i++)
        hrf_cuda_walk_add(&form.terms, shape->dims[i], y[i], x[i], 0);
    return form;
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
