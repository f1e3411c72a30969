/* region.c - needed input regions, operator by operator (region.h). */
#include "engine/plan/region.h"

#include "base/min_max.h"
#include "engine/ir/resize.h"
#include "engine/plan/region_rows.h"
#include "engine/plan/region_tokens.h"

/* ---- boxes ---- */

bool hrf_box_equal(const struct hrf_box *a, const struct hrf_box *b)
{
    if (hrf_box_is_empty(a) || hrf_box_is_empty(b))
        return hrf_box_is_empty(a) && hrf_box_is_empty(b);
    return a->lo[0] == b->lo[0] && a->lo[1] == b->lo[1] && a->hi[0] == b->hi[0] &&
           a->hi[1] == b->hi[1];
}

bool hrf_box_contains(const struct hrf_box *outer, const struct hrf_box *inner)
{
    return hrf_box_is_empty(inner) ||
           (outer->lo[0] <= inner->lo[0] && outer->lo[1] <= inner->lo[1] &&
            outer->hi[0] >= inner->hi[0] && outer->hi[1] >= inner->hi[1]);
}

struct hrf_box hrf_box_intersect(const struct hrf_box *a, const struct hrf_box *b)
{
    return (struct hrf_box){ { hrf_max(a->lo[0], b->lo[0]), hrf_max(a->lo[1], b->lo[1]) },
                             { hrf_min(a->hi[0], b->hi[0]), hrf_min(a->hi[1], b->hi[1]) } };
}

struct hrf_box hrf_box_hull(const struct hrf_box *a, const struct hrf_box *b)
{
    if (hrf_box_is_empty(a))
        return *b;
    if (hrf_box_is_empty(b))
        return *a;
    return (struct hrf_box){ { hrf_min(a->lo[0], b->lo[0]), hrf_min(a->lo[1], b->lo[1]) },
                             { hrf_max(a->hi[0], b->hi[0]), hrf_max(a->hi[1], b->hi[1]) } };
}

struct hrf_box hrf_box_whole(const struct hrf_shape *shape)
{
    if (shape->rank == 3)
        return (struct hrf_box){ { 0, 0 }, { shape->dims[1], 1 } };
    if (shape->rank != 4)
        return (struct hrf_box){ { 0, 0 }, { 1, 1 } };
    return (struct hrf_box){ { 0, 0 }, { shape->dims[2], shape->dims[3] } };
}

struct hrf_shape hrf_box_shape(const struct hrf_shape *shape, const struct hrf_box *box)
{
    struct hrf_shape part = *shape;
    if (hrf_box_is_empty(box))
        return (struct hrf_shape){ .rank = 1 };
    if (shape->rank == 3)
        part.dims[1] = box->hi[0] - box->lo[0];
    for (int i = 0; i < 2 && shape->rank == 4; i++)
        part.dims[2 + i] = box->hi[i] - box->lo[i];
    return part;
}

enum hrf_dtype hrf_region_sum_type(enum hrf_dtype dtype)
{
    return dtype == HRF_S8 || dtype == HRF_U8 ? HRF_S32 : HRF_F64;
}

/* ---- windows ---- */

/* One axis of an operator that reads its input through a window. The pads of PAD count as a window;
 * a SLICE reads one pixel for every step. */
struct view {
    int64_t size; /* of the input */
    int64_t stride, extent, pad_begin, pad_end;
};

static bool has_window(enum hrf_op op)
{
    return op == HRF_OP_CONV || op == HRF_OP_MAX_POOL || op == HRF_OP_AVERAGE_POOL;
}

/* Where along an axis a SLICE begins, and its step. */
static void slice_along(const struct hrf_attributes *a, int axis, int64_t *start, int64_t *step)
{
    *start = 0;
    *step = 1;
    for (int32_t i = 0; i < a->n_axes; i++)
        if (a->axes[i] == 2 + axis) {
            *start = a->starts[i];
            *step = a->steps[i];
        }
}

static bool is_view(enum hrf_op op)
{
    return has_window(op) || op == HRF_OP_PAD || op == HRF_OP_SLICE || op == HRF_OP_SPACE_TO_DEPTH;
}

static struct view view_of(const struct hrf_graph *graph, const struct hrf_node *node, int axis)
{
    const struct hrf_attributes *a = &node->attributes;
    const struct hrf_window *w = &a->window;
    const int64_t size = graph->values[node->inputs[0]].shape.dims[2 + axis];
    if (has_window(node->op))
        return (struct view){ size, w->stride[axis], w->dilation[axis] * (w->kernel[axis] - 1) + 1,
                              w->pad_begin[axis], w->pad_end[axis] };
    if (node->op == HRF_OP_PAD)
        return (struct view){ size, 1, 1, a->pads[2 + axis], a->pads[a->n_axes + 2 + axis] };
    int64_t start = 0, step = 1;
    if (node->op == HRF_OP_SPACE_TO_DEPTH)
        return (struct view){ size, a->size, a->size, 0, 0 };
    if (node->op == HRF_OP_SLICE)
        slice_along(a, axis, &start, &step);
    return (struct view){ size, step, 1, -start, 0 };
}

/* The input positions that outputs [lo, hi) read, padding included. */
static void look(const struct view *v, int64_t lo, int64_t hi, int64_t *first, int64_t *end)
{
    *first = lo * v->stride - v->pad_begin;
    *end = (hi - 1) * v->stride - v->pad_begin + v->extent;
}

/* ---- operators whose outputs grow: DEPTH_TO_SPACE and transposed windows ---- */

static bool spreads(enum hrf_op op)
{
    return op == HRF_OP_CONV_TRANSPOSE || op == HRF_OP_DEPTH_TO_SPACE;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}

/* The input positions that outputs [lo, hi) get something of. Output y gets of i where
 * y = s*i - p + d*k; the first is never after the one that begins at lo, so that what is left of
 * the padding is not negative. */
static void spread_from(const struct hrf_graph *graph, const struct hrf_node *node, int axis,
                        int64_t lo, int64_t hi, int64_t *first, int64_t *end)
{
    const struct hrf_attributes *a = &node->attributes;
    const struct hrf_window *w = &a->window;
    const int64_t size = graph->values[node->inputs[0]].shape.dims[2 + axis];
    if (node->op == HRF_OP_DEPTH_TO_SPACE) {
        *first = lo / a->size;
        *end = (hi - 1) / a->size + 1;
        return;
    }
    const int64_t reach = w->dilation[axis] * (w->kernel[axis] - 1), s = w->stride[axis];
    const int64_t earliest = floor_div(lo + w->pad_begin[axis] - reach + s - 1, s);
    *first = hrf_max(hrf_min(earliest, floor_div(lo + w->pad_begin[axis], s)), 0);
    *first = hrf_min(*first, size - 1);
    *end = hrf_max(hrf_min(floor_div(hi - 1 + w->pad_begin[axis], s) + 1, size), *first + 1);
}

static void cut_spread(const struct hrf_graph *graph, const struct hrf_node *node,
                       const struct hrf_box *out, struct hrf_attributes *a)
{
    for (int i = 0; i < 2; i++) {
        int64_t first, end;
        spread_from(graph, node, i, out->lo[i], out->hi[i], &first, &end);
        if (node->op == HRF_OP_DEPTH_TO_SPACE) {
            a->window.pad_begin[i] = out->lo[i] - first * a->size;
            continue;
        }
        a->window.auto_pad = HRF_PAD_EXPLICIT;
        a->window.pad_begin[i] += out->lo[i] - first * a->window.stride[i];
        a->output_size[i] = out->hi[i] - out->lo[i];
    }
}

/* ---- resizing ---- */

/* The input rows (or columns) that outputs [lo, hi) are computed from. */
static void resize_from(const struct hrf_graph *graph, const struct hrf_node *node, int axis,
                        int64_t lo, int64_t hi, int64_t *first, int64_t *end)
{
    const struct hrf_resize *r = &node->attributes.resize;
    const int64_t n_in = graph->values[node->inputs[0]].shape.dims[2 + axis];
    const int64_t n_out = graph->values[node->outputs[0]].shape.dims[2 + axis];
    const struct hrf_resize_tap low = hrf_resize_tap_at(r, axis, n_in, n_out, lo);
    const struct hrf_resize_tap high = hrf_resize_tap_at(r, axis, n_in, n_out, hi - 1);
    *first = low.index[0];
    *end = high.index[0] + 1;
    for (int t = 1; t < hrf_resize_n(r); t++) {
        *first = hrf_min(*first, low.index[t]);
        *end = hrf_max(*end, high.index[t] + 1);
    }
}

static void cut_resize(const struct hrf_graph *graph, const struct hrf_node *node,
                       const struct hrf_box *out, struct hrf_resize *r)
{
    for (int i = 0; i < 2; i++) {
        struct hrf_resize_part *part = &r->part[i];
        int64_t first, end;
        resize_from(graph, node, i, out->lo[i], out->hi[i], &first, &end);
        if (part->n_in == 0) {
            part->n_in = graph->values[node->inputs[0]].shape.dims[2 + i];
            part->n_out = graph->values[node->outputs[0]].shape.dims[2 + i];
        }
        part->first_in += first;
        part->first_out += out->lo[i];
    }
}

struct hrf_attributes hrf_region_attributes(const struct hrf_graph *graph,
                                            const struct hrf_node *node, const struct hrf_box *out)
{
    struct hrf_attributes a = node->attributes;
    if (hrf_tokens_concern(graph, node)) {
        hrf_tokens_cut(node, &a);
        return a;
    }
    if (spreads(node->op))
        cut_spread(graph, node, out, &a);
    if (node->op == HRF_OP_RESIZE)
        cut_resize(graph, node, out, &a.resize);
    for (int32_t i = 0; i < a.n_axes && node->op == HRF_OP_SLICE; i++)
        if (a.axes[i] > 1) { /* the input of a part begins where the slice does */
            a.starts[i] = 0;
            a.ends[i] = INT64_MAX;
        }
    if (!has_window(node->op) && node->op != HRF_OP_PAD)
        return a;
    a.window.auto_pad = HRF_PAD_EXPLICIT;
    for (int i = 0; i < 2; i++) {
        const struct view v = view_of(graph, node, i);
        int64_t first, end;
        look(&v, out->lo[i], out->hi[i], &first, &end);
        const int64_t begin = hrf_max(-first, 0);
        /* Positions that ceil_mode adds beyond the padding do not count as padding. */
        const int64_t after = hrf_min(hrf_max(end - v.size, 0), v.pad_end);
        if (node->op == HRF_OP_PAD) {
            a.pads[2 + i] = begin;
            a.pads[a.n_axes + 2 + i] = after;
        } else {
            a.window.pad_begin[i] = begin;
            a.window.pad_end[i] = after;
        }
    }
    return a;
}

/* ---- operators ---- */

static bool is_pointwise(enum hrf_op op)
{
    switch (op) {
    case HRF_OP_BATCH_NORM:
    case HRF_OP_LRN:
    case HRF_OP_IDENTITY:
    case HRF_OP_CAST:
    case HRF_OP_PERFORMER_APPLY: /* the state is not an image, and every pixel reads it */
        return true;
    default:
        return hrf_op_is_unary(op) || hrf_op_is_binary(op);
    }
}

/* Rows and columns keep their positions: the operator works along images or channels. */
static bool keeps_pixels(const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    switch (node->op) {
    case HRF_OP_LAYER_NORM:
    case HRF_OP_RMS_NORM:
        return a->of_pixels;
    case HRF_OP_GATHER:
        return a->axis <= 1 && !a->of_pixels;
    case HRF_OP_SOFTMAX:
    case HRF_OP_LOG_SOFTMAX:
    case HRF_OP_CONCAT:
    case HRF_OP_QUANTIZE: /* with a scale for each place along the axis, maybe */
    case HRF_OP_DEQUANTIZE:
        return a->axis <= 1;
    default:
        return is_pointwise(node->op);
    }
}

/* In reverse order, a part would need rows from the other end. */
static bool steps_forwards(const struct hrf_attributes *a)
{
    for (int32_t i = 0; i < a->n_axes; i++)
        if (a->axes[i] > 1 && a->steps[i] < 1)
            return false;
    return true;
}

/* A constant that differs between pixels would have to be cut as well. */
static bool varies_by_pixel(const struct hrf_value *constant)
{
    const struct hrf_shape *s = &constant->shape;
    return constant->data != NULL && ((s->rank >= 1 && s->dims[s->rank - 1] > 1) ||
                                      (s->rank >= 2 && s->dims[s->rank - 2] > 1));
}

bool hrf_region_can_split(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    if (y->rank != 4 || y->dims[2] * y->dims[3] <= 1 || node->n_outputs != 1)
        return false;
    if (node->op == HRF_OP_SLICE && !steps_forwards(&node->attributes))
        return false;
    for (int32_t i = 0; i < 2 * node->attributes.n_axes && node->op == HRF_OP_PAD; i++)
        if (node->attributes.pads[i] < 0 || node->attributes.pad_mode != HRF_PAD_CONSTANT)
            return false;
    if (is_view(node->op) || spreads(node->op) || node->op == HRF_OP_RESIZE)
        return graph->values[node->inputs[0]].data == NULL;
    if (!keeps_pixels(node))
        return false;
    const bool is_binary = hrf_op_is_binary(node->op) || node->op == HRF_OP_CONCAT;
    for (int32_t k = 0; k < node->n_inputs; k++) {
        if (node->inputs[k] < 0 || (k > 0 && !is_binary))
            continue;
        const struct hrf_value *x = &graph->values[node->inputs[k]];
        if (varies_by_pixel(x) || (x->data == NULL && x->shape.rank != 4))
            return false;
    }
    return true;
}

struct hrf_box hrf_region_needed(const struct hrf_graph *graph, const struct hrf_node *node,
                                 int32_t k, const struct hrf_box *out)
{
    const struct hrf_shape *x = &graph->values[node->inputs[k]].shape;
    struct hrf_box need = hrf_box_whole(x);
    const bool is_window = is_view(node->op);
    if (hrf_box_is_empty(out))
        return *out;
    if (hrf_rows_concern(graph, node))
        return hrf_rows_needed(graph, node, out);
    if (hrf_tokens_concern(graph, node))
        return hrf_tokens_needed(graph, node, k, out);
    if (x->rank != 4 || ((is_window || spreads(node->op)) && k != 0 && k != HRF_CONV_RESIDUAL))
        return need;
    for (int i = 0; i < 2; i++) {
        if (is_window && k == 0) {
            const struct view v = view_of(graph, node, i);
            int64_t first, end;
            look(&v, out->lo[i], out->hi[i], &first, &end);
            need.lo[i] = hrf_max(first, 0);
            need.hi[i] = hrf_min(end, v.size);
        } else if (spreads(node->op)) {
            spread_from(graph, node, i, out->lo[i], out->hi[i], &need.lo[i], &need.hi[i]);
        } else if (node->op == HRF_OP_RESIZE) {
            resize_from(graph, node, i, out->lo[i], out->hi[i], &need.lo[i], &need.hi[i]);
        } else if (x->dims[2 + i] > 1) { /* 1: read for every pixel */
            need.lo[i] = out->lo[i];
            need.hi[i] = out->hi[i];
        }
    }
    return need;
}

bool hrf_region_suits(const struct hrf_node *node, int32_t k, const struct hrf_box *have,
                      const struct hrf_box *need)
{
    if (hrf_box_equal(have, need))
        return true;
    if (!has_window(node->op) || k != 0 || hrf_box_is_empty(have) || hrf_box_is_empty(need))
        return false;
    for (int i = 0; i < 2; i++)
        if (have->lo[i] != need->lo[i] || have->hi[i] < need->hi[i] ||
            have->hi[i] - need->hi[i] >= node->attributes.window.stride[i])
            return false;
    return true;
}

/* The rows come from the same positions of each part's own rows. */
static bool are_resized_alike(const struct hrf_resize *a, const struct hrf_resize *b,
                              int64_t n_rows)
{
    for (int64_t i = 0; i < n_rows; i++) {
        const struct hrf_resize_tap u = hrf_resize_tap_at(a, 0, 0, 0, i);
        const struct hrf_resize_tap v = hrf_resize_tap_at(b, 0, 0, 0, i);
        for (int32_t t = 0; t < hrf_resize_n(a); t++)
            if (u.index[t] != v.index[t] || u.weight[t] != v.weight[t])
                return false;
    }
    return true;
}

bool hrf_region_are_alike(const struct hrf_graph *graph, const struct hrf_node *node,
                          const struct hrf_box *a, const struct hrf_box *b)
{
    const struct hrf_attributes x = hrf_region_attributes(graph, node, a);
    const struct hrf_attributes y = hrf_region_attributes(graph, node, b);
    return x.window.pad_begin[0] == y.window.pad_begin[0] &&
           x.window.pad_end[0] == y.window.pad_end[0] && x.pads[2] == y.pads[2] &&
           x.pads[6] == y.pads[6] &&
           (node->op != HRF_OP_RESIZE ||
            are_resized_alike(&x.resize, &y.resize, a->hi[0] - a->lo[0]));
}
