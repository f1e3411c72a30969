#include "engine/backend/backend.h"

#include <string.h>

struct move_kernel {
    struct hrf_kernel base;
    struct hrf_spec *spec;
};

bool hrf_is_move(enum hrf_op op)
{
    switch (op) {
    case HRF_OP_CONCAT:
    case HRF_OP_FLATTEN:
    case HRF_OP_RESHAPE:
    case HRF_OP_TRANSPOSE:
    case HRF_OP_SQUEEZE:
    case HRF_OP_UNSQUEEZE:
    case HRF_OP_IDENTITY:
    case HRF_OP_PAD:
    case HRF_OP_GATHER:
    case HRF_OP_SLICE:
        return true;
    default:
        return false;
    }
}

/* Copies a box: element i of `shape` goes from in + i . in_strides to out + i . out_strides. */
static void copy_box(const struct hrf_shape *shape, const float *in,
                     const int64_t in_strides[HRF_MAX_RANK], float *out,
                     const int64_t out_strides[HRF_MAX_RANK])
{
    int64_t strides[2][HRF_MAX_RANK];
    memcpy(strides[0], out_strides, sizeof strides[0]);
    memcpy(strides[1], in_strides, sizeof strides[1]);
    struct hrf_walk walk;
    hrf_walk_init(&walk, shape, 2, (const int64_t(*)[HRF_MAX_RANK])strides);
    int32_t last = walk.rank - 1;
    int64_t n = walk.dims[last], to = walk.strides[0][last], from = walk.strides[1][last];
    for (int64_t row = 0; row < hrf_walk_rows(&walk); row++) {
        int64_t at[HRF_WALK_MAX_OPERANDS];
        hrf_walk_seek(&walk, row, at);
        if (to == 1 && from == 1) {
            memcpy(out + at[0], in + at[1], (size_t)n * sizeof *out);
            continue;
        }
        for (int64_t i = 0; i < n; i++)
            out[at[0] + i * to] = in[at[1] + i * from];
    }
}

static void run_concat(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    int64_t out_strides[HRF_MAX_RANK], in_strides[HRF_MAX_RANK];
    hrf_layout_strides(&spec->output.shape, out_strides);
    float *out = call->output;
    for (int32_t i = 0; i < spec->n_inputs; i++) {
        const struct hrf_shape *shape = &spec->inputs[i].shape;
        if (hrf_shape_count(shape) == 0)
            continue;
        hrf_layout_strides(shape, in_strides);
        copy_box(shape, hrf_spec_data(spec, call, i), in_strides, out, out_strides);
        out += shape->dims[spec->attributes.axis] * out_strides[spec->attributes.axis];
    }
}

/* Shape changes keep ONNX's order of elements, which is not the memory's when a side has rank
 * 4: through the workspace where both sides have. */
static void run_reshape(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct hrf_shape *in = &spec->inputs[0].shape, *out = &spec->output.shape;
    const float *x = hrf_spec_data(spec, call, 0);
    if (hrf_layout_is_onnx(in)) {
        hrf_layout_from_onnx(out, x, call->output);
    } else if (hrf_layout_is_onnx(out)) {
        hrf_layout_to_onnx(in, x, call->output);
    } else {
        hrf_layout_to_onnx(in, x, call->workspace);
        hrf_layout_from_onnx(out, call->workspace, call->output);
    }
}

static void run_transpose(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    int64_t own[HRF_MAX_RANK], in[HRF_MAX_RANK], out[HRF_MAX_RANK];
    hrf_layout_strides(&spec->inputs[0].shape, own);
    hrf_layout_strides(&spec->output.shape, out);
    for (int32_t i = 0; i < spec->output.shape.rank; i++)
        in[i] = own[spec->attributes.axes[i]];
    copy_box(&spec->output.shape, hrf_spec_data(spec, call, 0), in, call->output, out);
}

static void run_slice(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    int64_t in[HRF_MAX_RANK], out[HRF_MAX_RANK], first = 0;
    struct hrf_slice_axis axes[HRF_MAX_RANK];
    const struct hrf_attributes *attributes = &spec->attributes;
    hrf_layout_strides(&spec->inputs[0].shape, in);
    hrf_layout_strides(&spec->output.shape, out);
    for (int32_t i = 0; i < spec->output.shape.rank; i++)
        axes[i] = (struct hrf_slice_axis){ .step = 1 };
    for (int32_t i = 0; i < attributes->n_axes; i++)
        axes[attributes->axes[i]] = (struct hrf_slice_axis){ .start = attributes->starts[i],
                                                             .step = attributes->steps[i] != 0
                                                                         ? attributes->steps[i]
                                                                         : 1 };
    for (int32_t i = 0; i < spec->output.shape.rank; i++) {
        first += axes[i].start * in[i];
        in[i] *= axes[i].step;
    }
    if (hrf_shape_count(&spec->output.shape) > 0)
        copy_box(&spec->output.shape, hrf_spec_data(spec, call, 0) + first, in, call->output, out);
}

static int64_t gather_index(const struct hrf_operand *indices, int64_t i, int64_t size)
{
    int64_t index;
    if (indices->dtype == HRF_S32) {
        int32_t narrow;
        memcpy(&narrow, (const char *)indices->constant + i * 4, sizeof narrow);
        index = narrow;
    } else {
        memcpy(&index, (const char *)indices->constant + i * 8, sizeof index);
    }
    return index < 0 ? index + size : index;
}

static void run_gather(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    int64_t in[HRF_MAX_RANK], own[HRF_MAX_RANK], out[HRF_MAX_RANK] = { 0 };
    const struct hrf_operand *indices = &spec->inputs[1];
    struct hrf_shape slab = spec->inputs[0].shape;
    int64_t axis = spec->attributes.axis, size = slab.dims[axis];
    int32_t added = indices->shape.rank; /* axes that stand in the place of one */
    hrf_layout_strides(&slab, in);
    hrf_layout_strides(&spec->output.shape, own);
    slab.dims[axis] = 1;
    for (int32_t i = 0; i < slab.rank; i++)
        if (i != axis)
            out[i] = own[i < axis ? i : i + added - 1];
    int64_t n = hrf_shape_count(&indices->shape);
    for (int64_t i = 0; i < n; i++) {
        int64_t offset = 0, rest = i;
        for (int32_t k = added - 1; k >= 0; k--) {
            offset += rest % indices->shape.dims[k] * own[axis + k];
            rest /= indices->shape.dims[k];
        }
        copy_box(&slab, hrf_spec_data(spec, call, 0) + gather_index(indices, i, size) * in[axis],
                 in, call->output + offset, out);
    }
}

static void run_pad(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    int64_t in[HRF_MAX_RANK], out[HRF_MAX_RANK], first = 0;
    const struct hrf_attributes *attributes = &spec->attributes;
    int64_t n = hrf_shape_count(&spec->output.shape);
    hrf_layout_strides(&spec->inputs[0].shape, in);
    hrf_layout_strides(&spec->output.shape, out);
    for (int64_t i = 0; i < n; i++)
        call->output[i] = attributes->value;
    for (int32_t i = 0; i < attributes->n_axes; i++)
        first += attributes->pads[i] *
                 out[attributes->n_axes == spec->output.shape.rank ? i : attributes->axes[i]];
    copy_box(&spec->inputs[0].shape, hrf_spec_data(spec, call, 0), in, call->output + first, out);
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    const struct hrf_spec *spec = ((struct move_kernel *)base)->spec;
    switch (spec->op) {
    case HRF_OP_CONCAT:
        run_concat(spec, call);
        return HRF_OK;
    case HRF_OP_TRANSPOSE:
        run_transpose(spec, call);
        return HRF_OK;
    case HRF_OP_SLICE:
        run_slice(spec, call);
        return HRF_OK;
    case HRF_OP_GATHER:
        run_gather(spec, call);
        return HRF_OK;
    case HRF_OP_PAD:
        run_pad(spec, call);
        return HRF_OK;
    case HRF_OP_FLATTEN:
    case HRF_OP_RESHAPE:
    case HRF_OP_SQUEEZE:
    case HRF_OP_UNSQUEEZE:
    case HRF_OP_IDENTITY:
        run_reshape(spec, call);
        return HRF_OK;
    default:
        return hrf_error_set(err, HRF_E_BUG, "node '%s' does not only move", spec->name);
    }
}

static void destroy(struct hrf_kernel *base)
{
    hrf_spec_destroy(((struct move_kernel *)base)->spec);
    hrf_free(base);
}

enum hrf_status hrf_move_compile(const struct hrf_graph *graph, const struct hrf_node *node,
                                 struct hrf_kernel **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_spec) spec = NULL;
    HRF_TRY(hrf_spec_create(graph, node, &spec, err));
    struct move_kernel *kernel = hrf_calloc(1, sizeof *kernel);
    if (kernel == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "kernel of node '%s'", node->name);
    kernel->base = (struct hrf_kernel){ .run = run,
                                        .destroy = destroy,
                                        .implementation = "move",
                                        .weight_bytes = hrf_spec_constant_bytes(spec) };
    if (!hrf_layout_is_onnx(&spec->inputs[0].shape) && !hrf_layout_is_onnx(&spec->output.shape))
        kernel->base.workspace_bytes = (size_t)hrf_shape_count(&spec->output.shape) * sizeof(float);
    kernel->spec = spec;
    spec = NULL;
    *out = &kernel->base;
    return HRF_OK;
}
