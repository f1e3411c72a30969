/* gradient_move.c - gradients of operators that copy elements: the copies of each are added up. */
#include "engine/ir/pad_source.h"
#include "engine/passes/gradient/gradient_private.h"

void hrf_gradient_view(struct hrf_backward *b)
{
    const struct hrf_shape shape = hrf_backward_input_shape(b, 0);
    hrf_backward_give(b, 0, hrf_backward_reshape(b, b->dy, &shape));
}

void hrf_gradient_concat(struct hrf_backward *b)
{
    const int64_t axis = b->node.attributes.axis;
    int64_t begin = 0;
    for (int32_t k = 0; k < b->node.n_inputs; k++) {
        const struct hrf_shape shape = hrf_backward_input_shape(b, k);
        const struct hrf_attributes a = hrf_attributes_slice(axis, begin, begin + shape.dims[axis]);
        begin += shape.dims[axis];
        if (hrf_backward_wants(b, k))
            hrf_backward_give(b, k, HRF_APPLY(b, HRF_OP_SLICE, &a, &shape, b->dy));
    }
}

/* The transpose of dy if that is a product of matrices: (U V)' = V' U'. Exporters write the weights
 * of a linear layer as the transpose of a constant, whose gradient is such a product.
 * HRF_NO_VALUE: it is none. */
static int32_t transposed_product(struct hrf_backward *b)
{
    const int32_t producer = b->graph->values[b->dy].producer;
    const struct hrf_node *node = producer >= 0 ? &b->graph->nodes[producer] : NULL;
    if (node == NULL || node->op != HRF_OP_GEMM || node->n_inputs != 2)
        return HRF_NO_VALUE;
    const struct hrf_shape from = hrf_backward_shape(b, b->dy);
    const struct hrf_shape shape = { 2, { from.dims[1], from.dims[0] } };
    struct hrf_attributes a = node->attributes;
    a.gemm.transpose_a = !node->attributes.gemm.transpose_b;
    a.gemm.transpose_b = !node->attributes.gemm.transpose_a;
    return HRF_APPLY(b, HRF_OP_GEMM, &a, &shape, node->inputs[1], node->inputs[0]);
}

void hrf_gradient_transpose(struct hrf_backward *b)
{
    int64_t inverse[HRF_MAX_RANK] = { 0 };
    const bool is_matrix = b->node.attributes.n_axes == 2;
    for (int32_t i = 0; i < b->node.attributes.n_axes; i++)
        inverse[b->node.attributes.axes[i]] = i;
    const bool swaps = is_matrix && inverse[0] == 1;
    const int32_t product = swaps ? transposed_product(b) : HRF_NO_VALUE;
    hrf_backward_give(
        b, 0, product != HRF_NO_VALUE ? product : hrf_backward_transpose(b, b->dy, inverse));
}

/* Along each axis: a border of a constant is cut off, other borders are copies. */
void hrf_gradient_pad(struct hrf_backward *b)
{
    const struct hrf_attributes *a = &b->node.attributes;
    const struct hrf_shape shape = hrf_backward_input_shape(b, 0);
    int32_t dx = b->dy;
    if (a->pad.mode == HRF_PAD_CONSTANT) {
        struct hrf_attributes back = hrf_attributes_of(HRF_OP_PAD);
        back.n_axes = a->n_axes;
        for (int32_t i = 0; i < a->n_axes; i++)
            back.axes[i] = a->axes[i];
        for (int32_t i = 0; i < 2 * a->n_axes; i++)
            back.pad.sizes[i] = -a->pad.sizes[i];
        hrf_backward_give(b, 0, HRF_APPLY(b, HRF_OP_PAD, &back, &shape, dx));
        return;
    }
    for (int32_t i = 0; i < a->n_axes; i++) {
        const int64_t axis = a->axes[i], size = shape.dims[axis];
        const int64_t n = hrf_backward_shape(b, b->dy).dims[axis];
        if (n == size)
            continue;
        HRF_AUTO_FREE int64_t *indices = hrf_alloc_array((size_t)n, sizeof *indices);
        for (int64_t at = 0; at < n; at++)
            indices[at] = hrf_pad_source(a->pad.mode, at - a->pad.sizes[i], size);
        dx = hrf_backward_scatter(b, dx, axis, indices, n, size);
    }
    hrf_backward_give(b, 0, dx);
}

void hrf_gradient_gather(struct hrf_backward *b)
{
    const struct hrf_value *indices = &b->graph->values[b->node.inputs[1]];
    const struct hrf_shape shape = hrf_backward_input_shape(b, 0);
    const int64_t axis = b->node.attributes.axis, n = hrf_shape_count(&indices->shape);
    const int64_t length = shape.dims[axis];
    struct hrf_shape rows = shape; /* the axes of the indices as one */
    HRF_AUTO_FREE int64_t *wanted = hrf_alloc_array((size_t)n + 1, sizeof *wanted);
    for (int64_t i = 0; i < n; i++) {
        const int64_t index = indices->dtype == HRF_S64 ? ((const int64_t *)indices->data)[i]
                                                        : ((const int32_t *)indices->data)[i];
        wanted[i] = index < 0 ? index + length : index;
    }
    rows.dims[axis] = n;
    const int32_t dy = hrf_backward_reshape(b, b->dy, &rows);
    hrf_backward_give(b, 0, hrf_backward_scatter(b, dy, axis, wanted, n, length));
}

/* dx = M dy, where M [N][C] has a 1 at the row that each column of the scores chooses. */
void hrf_gradient_select_max(struct hrf_backward *b)
{
    if (!hrf_backward_wants(b, 0))
        return;
    struct hrf_attributes a = hrf_attributes_of(HRF_OP_TOP_K_MASK);
    a.greatest = 1;
    const int32_t columns = hrf_backward_swap_last(b, b->node.inputs[1]);
    const struct hrf_shape shape = hrf_backward_shape(b, columns);
    const int32_t mask = HRF_APPLY(b, HRF_OP_TOP_K_MASK, &a, &shape, columns);
    hrf_backward_give(b, 0, hrf_backward_matmul(b, hrf_backward_swap_last(b, mask), b->dy));
}

void hrf_gradient_slice(struct hrf_backward *b)
{
    const struct hrf_attributes *a = &b->node.attributes;
    const struct hrf_shape shape = hrf_backward_input_shape(b, 0);
    int32_t dx = b->dy;
    for (int32_t i = 0; i < a->n_axes; i++) {
        const int64_t axis = a->axes[i], n = hrf_backward_shape(b, b->dy).dims[axis];
        struct hrf_shape partly = hrf_backward_shape(b, dx);
        partly.dims[axis] = shape.dims[axis];
        if (a->slice.steps[i] == 1) {
            struct hrf_attributes pad = hrf_attributes_of(HRF_OP_PAD);
            pad.n_axes = 1;
            pad.axes[0] = axis;
            pad.pad.sizes[0] = a->slice.starts[i];
            pad.pad.sizes[1] = shape.dims[axis] - a->slice.starts[i] - n;
            dx = HRF_APPLY(b, HRF_OP_PAD, &pad, &partly, dx);
            continue;
        }
        HRF_AUTO_FREE int64_t *indices = hrf_alloc_array((size_t)n, sizeof *indices);
        for (int64_t at = 0; at < n; at++)
            indices[at] = a->slice.starts[i] + at * a->slice.steps[i];
        dx = hrf_backward_scatter(b, dx, axis, indices, n, shape.dims[axis]);
    }
    hrf_backward_give(b, 0, dx);
}

void hrf_gradient_expand(struct hrf_backward *b)
{
    const struct hrf_shape shape = hrf_backward_input_shape(b, 0);
    hrf_backward_give(b, 0, hrf_backward_sum_to(b, b->dy, &shape));
}

void hrf_gradient_tile(struct hrf_backward *b)
{
    const struct hrf_shape shape = hrf_backward_input_shape(b, 0);
    int32_t dx = b->dy;
    for (int32_t i = 0; i < shape.rank; i++) {
        const int64_t n = hrf_backward_shape(b, b->dy).dims[i];
        if (n == shape.dims[i])
            continue;
        HRF_AUTO_FREE int64_t *indices = hrf_alloc_array((size_t)n, sizeof *indices);
        for (int64_t at = 0; at < n; at++)
            indices[at] = at % shape.dims[i];
        dx = hrf_backward_scatter(b, dx, i, indices, n, shape.dims[i]);
    }
    hrf_backward_give(b, 0, dx);
}

/* SPACE_TO_DEPTH puts a block's place before the channel; DEPTH_TO_SPACE of mode CRD took it from
 * behind the channel. */
void hrf_gradient_depth_to_space(struct hrf_backward *b)
{
    const struct hrf_shape shape = hrf_backward_input_shape(b, 0);
    const int64_t size = b->node.attributes.block.size, places = size * size;
    struct hrf_attributes a = hrf_attributes_of(HRF_OP_SPACE_TO_DEPTH);
    a.block.size = size;
    int32_t dx = HRF_APPLY(b, HRF_OP_SPACE_TO_DEPTH, &a, &shape, b->dy);
    if (b->node.attributes.block.column_row_depth) {
        const int64_t n = shape.dims[1], channels = n / places;
        HRF_AUTO_FREE int64_t *to = hrf_alloc_array((size_t)n, sizeof *to);
        for (int64_t i = 0; i < n; i++)
            to[i] = i % channels * places + i / channels;
        dx = hrf_backward_scatter(b, dx, 1, to, n, n);
    }
    hrf_backward_give(b, 0, dx);
}

void hrf_gradient_space_to_depth(struct hrf_backward *b)
{
    const struct hrf_shape shape = hrf_backward_input_shape(b, 0);
    struct hrf_attributes a = hrf_attributes_of(HRF_OP_DEPTH_TO_SPACE);
    a.block.size = b->node.attributes.block.size;
    hrf_backward_give(b, 0, HRF_APPLY(b, HRF_OP_DEPTH_TO_SPACE, &a, &shape, b->dy));
}
