#include "engine/ir/fixed_input.h"

#include "engine/ir/op.h"

/* The same graph for two input shapes, the file's and another one. */
struct pair {
    struct hrf_graph *of[2];
};

static const struct hrf_shape *shape_of(const struct pair *p, int side, int32_t value)
{
    return &p->of[side]->values[value].shape;
}

/* Axis counted from the last one. */
static bool is_open_from_last(const struct pair *p, int32_t value, int32_t from_last)
{
    const struct hrf_shape *a = shape_of(p, 0, value), *b = shape_of(p, 1, value);
    return from_last < a->rank && from_last < b->rank &&
           a->dims[a->rank - 1 - from_last] != b->dims[b->rank - 1 - from_last];
}

static bool is_open(const struct pair *p, int32_t value, int32_t axis)
{
    return is_open_from_last(p, value, shape_of(p, 0, value)->rank - 1 - axis);
}

static bool has_open_axis(const struct pair *p, int32_t value)
{
    return value >= 0 && p->of[0]->values[value].data == NULL &&
           !hrf_shape_equal(shape_of(p, 0, value), shape_of(p, 1, value));
}

/* ---- rows and columns ---- */

static bool axes_stay(const struct pair *p, const struct hrf_node *node)
{
    for (int32_t k = 0; k < node->n_inputs; k++)
        for (int32_t i = 0; node->inputs[k] >= 0 && i < HRF_MAX_RANK; i++)
            if (has_open_axis(p, node->inputs[k]) && is_open_from_last(p, node->inputs[k], i) &&
                !is_open_from_last(p, node->outputs[0], i))
                return false;
    return true;
}

/* True if windows whose outputs have the same size for both shapes (for example one row) read all
 * of both inputs. Patches of a transformer that leave out a margin of the other one do not. */
static bool windows_read_all(const struct pair *p, const struct hrf_node *node, int32_t axis)
{
    const struct hrf_window *w = &node->attributes.window;
    if (w->kernel[axis] < w->stride[axis]) /* they leave rows out everywhere */
        return true;
    for (int side = 0; side < 2; side++) {
        const int64_t n_in = shape_of(p, side, node->inputs[0])->dims[2 + axis];
        const int64_t n_out = shape_of(p, side, node->outputs[0])->dims[2 + axis];
        if ((n_out - 1) * w->stride[axis] + w->dilation[axis] * (w->kernel[axis] - 1) -
                w->pad_begin[axis] <
            n_in - 1)
            return false;
    }
    return true;
}

/* Uneven pads make a fixed size a multiple of something ("same" padding of an even one), and
 * average windows that lie side by side and cover all are what an adaptive pooling is exported as.
 * Averages of 2 and 3 px a side are as common in networks of any size. */
static bool window_is_free(const struct pair *p, const struct hrf_node *node)
{
    enum { MAX_PLAIN = 3 };
    const struct hrf_window *w = &node->attributes.window;
    const struct hrf_shape *x = shape_of(p, 0, node->inputs[0]);
    const int32_t rank = x->rank;
    if (node->op == HRF_OP_PAD) {
        for (int32_t i = 0; i < rank; i++)
            if (is_open(p, node->inputs[0], i) &&
                node->attributes.pad.sizes[i] != node->attributes.pad.sizes[rank + i])
                return false;
        return true;
    }
    for (int32_t i = 0; i < 2; i++) {
        if (!is_open(p, node->inputs[0], 2 + i))
            continue;
        if (!is_open(p, node->outputs[0], 2 + i) && !windows_read_all(p, node, i))
            return false;
        if (w->auto_pad == HRF_PAD_EXPLICIT && w->kernel[i] > 1 && w->pad_begin[i] != w->pad_end[i])
            return false;
        if (node->op == HRF_OP_AVERAGE_POOL && w->kernel[i] > MAX_PLAIN &&
            w->stride[i] == w->kernel[i] && x->dims[2 + i] % w->kernel[i] == 0)
            return false;
    }
    return rank == 4 && !is_open(p, node->inputs[0], 1) && !is_open(p, node->inputs[0], 0);
}

/* The input or the output of a VIEW, whose axes are consumed one after the other. */
struct view_end {
    int32_t value, next; /* axis */
    int64_t count[2];    /* elements of the axes taken, for each shape */
    int32_t n, n_open;   /* of them, without those of one element */
};

static bool take_axis(const struct pair *p, struct view_end *e)
{
    if (e->next >= shape_of(p, 0, e->value)->rank)
        return false;
    const bool is_axis_open = is_open(p, e->value, e->next);
    e->n += is_axis_open || shape_of(p, 0, e->value)->dims[e->next] != 1;
    e->n_open += is_axis_open;
    for (int side = 0; side < 2; side++)
        e->count[side] *= shape_of(p, side, e->value)->dims[e->next];
    e->next++;
    return true;
}

/* Group by group of axes that hold the same elements: an open axis may become one with its
 * neighbours, but not be cut at a number. */
static bool view_is_free(const struct pair *p, const struct hrf_node *node)
{
    struct view_end x = { .value = node->inputs[0] }, y = { .value = node->outputs[0] };
    for (;;) {
        x = (struct view_end){ .value = x.value, .next = x.next, .count = { 1, 1 } };
        y = (struct view_end){ .value = y.value, .next = y.next, .count = { 1, 1 } };
        const bool has_x = take_axis(p, &x), has_y = take_axis(p, &y);
        if (!has_x && !has_y)
            return true;
        while (x.count[0] != y.count[0])
            if (!take_axis(p, x.count[0] < y.count[0] ? &x : &y))
                return false;
        if (x.n_open + y.n_open > 0 && (x.count[1] != y.count[1] || (y.n != 1 && y.n_open != y.n)))
            return false;
    }
}

/* True if a slice takes an open axis from its first or second element on, or every `step`th element
 * of it. */
static bool parts_are_free(const struct pair *p, const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    for (int32_t i = 0; i < a->n_axes; i++) {
        if (!is_open(p, node->inputs[0], (int32_t)a->axes[i]))
            continue;
        if (a->slice.steps[i] < 1 || a->slice.starts[i] < 0 ||
            a->slice.starts[i] > a->slice.steps[i])
            return false;
        for (int side = 0; side < 2; side++) {
            const int64_t left = shape_of(p, side, node->inputs[0])->dims[a->axes[i]] -
                                 a->slice.starts[i];
            if (shape_of(p, side, node->outputs[0])->dims[a->axes[i]] !=
                (left + a->slice.steps[i] - 1) / a->slice.steps[i])
                return false;
        }
    }
    return true;
}

static bool product_is_free(const struct pair *p, const struct hrf_node *node)
{
    const bool is_gemm = node->op == HRF_OP_GEMM;
    const struct hrf_attributes *a = &node->attributes;
    const int32_t inner[] = { is_gemm && a->gemm.transpose_a ? 1 : 0,
                              is_gemm && a->gemm.transpose_b ? 0 : 1 };
    return !is_open_from_last(p, node->inputs[0], inner[0]) &&
           !is_open_from_last(p, node->inputs[1], inner[1]);
}

static bool is_free_of_size(const struct pair *p, const struct hrf_node *node)
{
    switch (hrf_op_sizes(node->op)) {
    case HRF_SIZE_STAYS:
        return axes_stay(p, node);
    case HRF_SIZE_WINDOW: /* the two may meet here, e.g. at one row */
        return window_is_free(p, node);
    case HRF_SIZE_VIEW:
        return view_is_free(p, node);
    case HRF_SIZE_SLICE:
        return axes_stay(p, node) && parts_are_free(p, node);
    case HRF_SIZE_PRODUCT:
        return product_is_free(p, node);
    case HRF_SIZE_ANY:
        return true;
    case HRF_SIZE_FIXED:
    case HRF_SIZE_UNMET:
    case HRF_N_SIZE_RULES:
        return false;
    }
    return false;
}

/* ---- the batch ---- */

/* Axis 0 is the batch, and nothing else follows it. */
static bool is_of_images(const struct pair *p, int32_t value)
{
    const struct hrf_shape *a = shape_of(p, 0, value), *b = shape_of(p, 1, value);
    const struct hrf_shape *x[] = { shape_of(p, 0, p->of[0]->inputs[0]),
                                    shape_of(p, 1, p->of[1]->inputs[0]) };
    if (a->rank < 1 || a->rank != b->rank || a->dims[0] != x[0]->dims[0] ||
        b->dims[0] != x[1]->dims[0])
        return false;
    for (int32_t i = 1; i < a->rank; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

static bool is_free_of_batch(const struct pair *p, const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    if (hrf_op_sizes(node->op) == HRF_SIZE_UNMET)
        return false;
    if (HRF_OP_HAS(node->op, axis) && a->axis == 0 &&
        hrf_op_info(node->op)->op_class != HRF_CLASS_CONVERT)
        return false;
    for (int32_t i = 0; hrf_op_sizes(node->op) == HRF_SIZE_SLICE && i < a->n_axes; i++)
        if (a->axes[i] == 0)
            return false;
    for (int32_t k = 0; k < node->n_inputs; k++)
        if (has_open_axis(p, node->inputs[k]) && !is_of_images(p, node->inputs[k]))
            return false;
    return is_of_images(p, node->outputs[0]);
}

/* ---- both ---- */

static void pair_release(struct pair *p)
{
    hrf_graph_destroy(p->of[0]);
    hrf_graph_destroy(p->of[1]);
}

/* `from`: the file's shape; `to` has another batch, or other rows and columns. */
static enum hrf_status check_change(const struct hrf_graph *graph, const struct hrf_shape *from,
                                    const struct hrf_shape *to, struct hrf_error *err)
{
    __attribute__((cleanup(pair_release))) struct pair p = { { NULL, NULL } };
    const bool is_batch = from->dims[0] != to->dims[0];
    for (int side = 0; side < 2; side++) {
        HRF_TRY(hrf_graph_copy(graph, &p.of[side], err));
        p.of[side]->values[graph->inputs[0]].shape = side == 0 ? *from : *to;
        HRF_TRY(hrf_graph_infer_shapes(p.of[side], err));
    }
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const struct hrf_node *node = &p.of[0]->nodes[n];
        bool is_concerned = false;
        for (int32_t k = 0; k < node->n_inputs; k++)
            is_concerned = is_concerned || has_open_axis(&p, node->inputs[k]);
        if (!is_concerned || p.of[0]->values[node->outputs[0]].data != NULL)
            continue;
        char have[128];
        hrf_shape_text(shape_of(&p, 0, node->inputs[0] >= 0 ? node->inputs[0] : node->outputs[0]),
                       have);
        if (is_batch ? !is_free_of_batch(&p, node) : !is_free_of_size(&p, node))
            return hrf_error_set(err, HRF_E_USER, "node '%s' (%s) may be made for %s alone",
                                 node->name, hrf_op_name(node->op), have);
    }
    return HRF_OK;
}

/* The rows and columns of `shape` go with the file's batch. */
static struct hrf_shape with_batch(const struct hrf_shape *shape, int64_t batch)
{
    struct hrf_shape other = *shape;
    other.dims[0] = batch;
    return other;
}

static enum hrf_status check_batch(const struct hrf_graph *graph, const struct hrf_shape *shape,
                                   struct hrf_error *err)
{
    const struct hrf_shape *file = &graph->file_shape;
    if (file->rank != shape->rank || file->rank < 3 || file->dims[0] <= 0 ||
        file->dims[0] == shape->dims[0])
        return HRF_OK;
    const struct hrf_shape from = with_batch(shape, file->dims[0]);
    return check_change(graph, &from, shape, err);
}

enum hrf_status hrf_fixed_input_check_size(const struct hrf_graph *graph,
                                           const struct hrf_shape *shape, struct hrf_error *err)
{
    const struct hrf_shape *file = &graph->file_shape;
    if (file->rank != 4 || shape->rank != 4)
        return HRF_OK;
    const struct hrf_shape to = with_batch(shape,
                                           file->dims[0] > 0 ? file->dims[0] : shape->dims[0]);
    struct hrf_shape from = to;
    for (int i = 2; i < 4; i++)
        from.dims[i] = file->dims[i] > 0 ? file->dims[i] : to.dims[i];
    return hrf_shape_equal(&from, &to) ? HRF_OK : check_change(graph, &from, &to, err);
}

enum hrf_status hrf_fixed_input_check(const struct hrf_graph *graph, const struct hrf_shape *shape,
                                      struct hrf_error *err)
{
    struct hrf_error why = { .status = HRF_OK };
    const struct hrf_shape *file = &graph->file_shape;
    const char *name = graph->n_inputs > 0 ? graph->values[graph->inputs[0]].name : "";
    char text[128];
    hrf_shape_text(file, text);
    if (hrf_fixed_input_check_size(graph, shape, &why) != HRF_OK)
        return hrf_error_set(err, HRF_E_USER,
                             "the model's input '%s' is %s; it cannot take images of %lldx%lld px: "
                             "give it images of its own size, or export it with open rows and "
                             "columns (%s)",
                             name, text, (long long)shape->dims[2], (long long)shape->dims[3],
                             why.text);
    if (check_batch(graph, shape, &why) != HRF_OK)
        return hrf_error_set(err, HRF_E_USER,
                             "the model's input '%s' is %s; it takes %lld images at a time and not "
                             "%lld: set the batch to %lld, or export it with an open batch (%s)",
                             name, text, (long long)file->dims[0], (long long)shape->dims[0],
                             (long long)file->dims[0], why.text);
    return HRF_OK;
}

int64_t hrf_graph_fixed_batch(const struct hrf_graph *graph, const struct hrf_shape *shape)
{
    const struct hrf_shape other = with_batch(shape, graph->file_shape.dims[0] + 1);
    return check_batch(graph, &other, NULL) == HRF_OK ? 0 : graph->file_shape.dims[0];
}

int64_t hrf_graph_images(const struct hrf_graph *graph, const struct hrf_shape *shape)
{
    const int64_t fixed = hrf_graph_fixed_batch(graph, shape);
    return fixed > 0 ? fixed : shape->dims[0];
}
