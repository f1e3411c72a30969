/* attention_view.c - where the matrices of a head lie (attention.h). */
#include "engine/backend/cpu/transformer/attention.h"

static struct hrf_head_matrix last_axes(const struct hrf_shape *shape)
{
    int64_t strides[HRF_MAX_RANK];
    hrf_layout_strides(shape, strides);
    const int32_t last = shape->rank - 1;
    return (struct hrf_head_matrix){ shape->dims[last - 1], shape->dims[last], strides[last - 1],
                                     strides[last] };
}

static struct hrf_head_matrix mask_matrix(const struct hrf_shape *mask, int64_t queries,
                                          int64_t keys)
{
    int64_t strides[HRF_MAX_RANK];
    hrf_layout_strides(mask, strides);
    struct hrf_head_matrix m = { queries, keys, 0, 0 };
    if (mask->rank > 0 && mask->dims[mask->rank - 1] > 1)
        m.column = strides[mask->rank - 1];
    if (mask->rank > 1 && mask->dims[mask->rank - 2] > 1)
        m.row = strides[mask->rank - 2];
    return m;
}

/* The leading axes of a tensor are those of the view. If an axis is shorter, each of its heads
 * serves several of the view; masks of windows repeat for each image instead. */
static void find_axes(struct hrf_head_view *view, int which, const struct hrf_shape *shape,
                      bool repeats)
{
    int64_t strides[HRF_MAX_RANK];
    const int32_t n_missing = view->n_axes + 2 - shape->rank;
    hrf_layout_strides(shape, strides);
    for (int32_t i = 0; i < view->n_axes; i++) {
        struct hrf_head_axis *axis = &view->axes[which][i];
        *axis = (struct hrf_head_axis){ 1, 1, 0 };
        if (i < n_missing || shape->dims[i - n_missing] == 0)
            continue;
        axis->size = shape->dims[i - n_missing];
        axis->step = strides[i - n_missing];
        axis->divisor = repeats && i == 0 ? 1 : view->dims[i] / axis->size;
    }
}

/* Describes a Q, K, V or Y whose heads lie in the channels of [N][T][C]. */
static void find_tokens(const struct hrf_attributes *a, int which, const struct hrf_shape *shape,
                        struct hrf_head_view *view)
{
    const bool is_y = which == HRF_HEAD_Y;
    view->of[which] = (struct hrf_head_matrix){ shape->dims[1], a->attention.head_size,
                                                shape->dims[2], 1 };
    view->first[which] = is_y ? 0 : a->attention.first[which];
    view->axes[which][0] = (struct hrf_head_axis){ 1, shape->dims[0],
                                                   shape->dims[1] * shape->dims[2] };
    view->axes[which][1] = (struct hrf_head_axis){ 1, a->attention.heads,
                                                   is_y ? a->attention.head_size
                                                        : a->attention.stride[which] };
}

void hrf_head_view(const struct hrf_graph *graph, const struct hrf_node *node,
                   struct hrf_head_view *out)
{
    const struct hrf_attributes *a = &node->attributes;
    const bool of_tokens = node->op != HRF_OP_ATTENTION;
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    struct hrf_shape axes = *y;
    axes.rank -= 2;
    if (of_tokens)
        axes = (struct hrf_shape){ .rank = 2, .dims = { y->dims[0], a->attention.heads } };
    *out = (struct hrf_head_view){ .n_heads = hrf_shape_count(&axes), .n_axes = axes.rank };
    for (int32_t i = 0; i < axes.rank; i++)
        out->dims[i] = axes.dims[i];
    for (int which = HRF_HEAD_Q; which <= HRF_HEAD_Y; which++) {
        const struct hrf_shape *shape = which == HRF_HEAD_Y
                                            ? y
                                            : &graph->values[node->inputs[which]].shape;
        if (of_tokens) {
            find_tokens(a, which, shape, out);
            continue;
        }
        out->of[which] = last_axes(shape);
        find_axes(out, which, shape, false);
    }
    struct hrf_head_matrix *k = &out->of[HRF_HEAD_K];
    if (a->attention.transpose_k)
        *k = (struct hrf_head_matrix){ k->columns, k->rows, k->column, k->row };
    const int32_t mask = hrf_node_input(node, HRF_ATTENTION_MASK);
    if (mask != HRF_NO_VALUE) {
        const struct hrf_shape *shape = &graph->values[mask].shape;
        out->of[HRF_HEAD_MASK] = mask_matrix(shape, out->of[HRF_HEAD_Q].rows, k->rows);
        find_axes(out, HRF_HEAD_MASK, shape, a->attention.mask_repeats);
    }
}

int64_t hrf_head_begin(const struct hrf_head_view *view, int which, int64_t head)
{
    int64_t at = view->first[which];
    for (int32_t i = view->n_axes - 1; i >= 0; i--) {
        const struct hrf_head_axis *axis = &view->axes[which][i];
        at += head % view->dims[i] / axis->divisor % axis->size * axis->step;
        head /= view->dims[i];
    }
    return at;
}
