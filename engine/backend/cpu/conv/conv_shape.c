#include "engine/backend/cpu/conv/conv_shape.h"

/* A matrix as images of one pixel each, one per row. */
static struct hrf_shape as_images(const struct hrf_shape *shape)
{
    const int64_t columns = hrf_shape_last(shape);
    return (struct hrf_shape){ .rank = 4,
                               .dims = { hrf_shape_count(shape) / columns, columns, 1, 1 } };
}

struct hrf_conv_shape hrf_conv_shape_of(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const struct hrf_shape *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    const bool is_gemm = node->op == HRF_OP_GEMM;
    const struct hrf_shape in = is_gemm ? as_images(&x->shape) : x->shape;
    const struct hrf_shape out = is_gemm ? as_images(&y->shape) : y->shape;
    struct hrf_conv_shape s = {
        .n_images = out.dims[0],
        .channels = in.dims[1],
        .rows = in.dims[2],
        .columns = in.dims[3],
        .out_channels = out.dims[1],
        .out_rows = out.dims[2],
        .out_columns = out.dims[3],
        .n_groups = is_gemm ? 1 : node->attributes.group,
        .x_stride = is_gemm ? in.dims[1] : hrf_value_pixel_stride(x),
        .y_stride = is_gemm ? out.dims[1] : hrf_value_pixel_stride(y),
        .x_type = x->dtype,
        .y_type = y->dtype,
        .has_residual = hrf_node_has_input(node, HRF_CONV_RESIDUAL),
        .window = is_gemm ? hrf_attributes_default().window : node->attributes.window,
    };
    for (int i = 0; i < HRF_MAX_SPATIAL; i++)
        s.window.kernel[i] = is_gemm ? 1 : w->dims[2 + i];
    return s;
}
