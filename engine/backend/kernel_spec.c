/* kernel_spec.c - what a kernel keeps of its node. */
#include "engine/backend/compute.h"

#include <string.h>

static enum hrf_status copy_constant(const struct hrf_value *value, bool keep_order,
                                     struct hrf_operand *operand, struct hrf_error *err)
{
    const size_t n_bytes = (size_t)hrf_value_bytes(value);
    operand->constant = hrf_alloc_aligned(n_bytes > 0 ? n_bytes : 1, HRF_BUFFER_ALIGNMENT);
    HRF_CHECK_MEMORY(operand->constant != NULL, err, "no memory for constant '%s' of %zu bytes",
                     value->name, n_bytes);
    if (!keep_order && n_bytes > 0 && value->shape.rank == 4)
        hrf_layout_from_onnx(&value->shape, hrf_dtype_size(value->dtype), value->data,
                             operand->constant);
    else
        memcpy(operand->constant, value->data, n_bytes);
    return HRF_OK;
}

static enum hrf_status copy_operands(const struct hrf_graph *graph, const struct hrf_node *node,
                                     struct hrf_spec *spec, struct hrf_error *err)
{
    for (int32_t i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i] == HRF_NO_VALUE)
            continue;
        const struct hrf_value *value = &graph->values[node->inputs[i]];
        struct hrf_operand *operand = &spec->inputs[i];
        operand->present = true;
        operand->dtype = value->dtype;
        operand->shape = value->shape;
        operand->pixel_stride = hrf_value_pixel_stride(value);
        operand->quantization = value->quantization;
        const bool is_kernel = (node->op == HRF_OP_CONV || node->op == HRF_OP_CONV_TRANSPOSE) &&
                               i == HRF_CONV_WEIGHTS;
        if (value->data != NULL)
            HRF_TRY(copy_constant(value, is_kernel, operand, err));
    }
    return HRF_OK;
}

enum hrf_status hrf_spec_create(const struct hrf_graph *graph, const struct hrf_node *node,
                                struct hrf_spec **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_spec) spec = hrf_calloc(1, sizeof *spec);
    spec->op = node->op;
    spec->attributes = node->attributes;
    spec->name = hrf_strdup(node->name);
    spec->inputs = hrf_calloc((size_t)node->n_inputs + 1, sizeof *spec->inputs);
    spec->n_inputs = node->n_inputs;
    HRF_TRY(copy_operands(graph, node, spec, err));
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    spec->output = (struct hrf_operand){ .present = true,
                                         .dtype = y->dtype,
                                         .shape = y->shape,
                                         .pixel_stride = hrf_value_pixel_stride(y),
                                         .quantization = y->quantization };
    HRF_MOVE(*out, spec);
    return HRF_OK;
}

enum hrf_status hrf_spec_refresh(struct hrf_spec *spec, const struct hrf_graph *graph,
                                 const struct hrf_node *node, struct hrf_error *err)
{
    HRF_AUTO(hrf_spec) present = NULL;
    HRF_TRY(hrf_spec_create(graph, node, &present, err));
    for (int32_t i = 0; i < spec->n_inputs; i++) {
        hrf_free(spec->inputs[i].constant);
        spec->inputs[i].constant = present->inputs[i].constant;
        present->inputs[i].constant = NULL;
    }
    return HRF_OK;
}

void hrf_spec_destroy(struct hrf_spec *spec)
{
    if (spec == NULL)
        return;
    for (int32_t i = 0; i < spec->n_inputs; i++)
        hrf_free(spec->inputs[i].constant);
    hrf_free(spec->inputs);
    hrf_free(spec->name);
    hrf_free(spec);
}

size_t hrf_spec_constant_bytes(const struct hrf_spec *spec)
{
    size_t n_bytes = 0;
    for (int32_t i = 0; i < spec->n_inputs; i++)
        if (spec->inputs[i].constant != NULL)
            n_bytes += (size_t)hrf_shape_count(&spec->inputs[i].shape) *
                       hrf_dtype_size(spec->inputs[i].dtype);
    return n_bytes;
}

void hrf_resize_taps(const struct hrf_spec *spec, int axis, struct hrf_resize_tap *taps)
{
    const int64_t n_in = spec->inputs[0].shape.dims[2 + axis];
    const int64_t n_out = spec->output.shape.dims[2 + axis];
    for (int64_t i = 0; i < n_out; i++)
        taps[i] = hrf_resize_tap_at(&spec->attributes.resize, axis, n_in, n_out, i);
}
