/* region.c - needed input regions, operator by operator (region.h). */
#include "engine/plan/region.h"

#include "base/min_max.h"
#include "engine/ir/op.h"
#include "engine/ir/resize.h"
#include "engine/ir/window_span.h"
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
    return hrf_dtype_is_byte(dtype) ? HRF_S32 : HRF_F64;
}

/* ---- rules ---- */

/* Positions [first, end) along an axis (0: rows, 1: columns). */
struct span {
    int64_t first, end;
};

/* What the driver has found about one axis of a part. */
struct cut {
    struct span out;        /* the part */
    struct span need;       /* of the input, within it */
    int64_t before, behind; /* how far beyond the input's borders the part asked for positions */
    bool is_padding;        /* the part needs padding alone; `need` is then the nearest position */
};

/* The rule of a kind of region (enum hrf_region in engine/ir/op.h). A rule describes one axis and
 * does not clip; the driver below clips, and what it clips is the padding of the part. If nothing
 * is left, the nearest input position is needed, so that later outputs never need earlier
 * positions, and no part is without an input. */
struct region_rule {
    /* True if the node is of its operator's kind; NULL: always. */
    bool (*fits)(const struct hrf_graph *graph, const struct hrf_node *node);
    /* The positions of input 0 that outputs [first, end) need; NULL: the same positions of every
     * input. */
    struct span (*needed)(const struct hrf_graph *graph, const struct hrf_node *node, int axis,
                          struct span out);
    /* In place of `needed`, where every input k has a rule of its own: positions within it. */
    struct span (*needed_of)(const struct hrf_graph *graph, const struct hrf_node *node, int32_t k,
                             int axis, struct span out);
    /* Changes the attributes to those of the part; NULL: they stay. */
    void (*cut)(const struct hrf_graph *graph, const struct hrf_node *node, int axis,
                const struct cut *c, struct hrf_attributes *a);
    /* For every *down rows of the input the output has *up rows; NULL: one for one. */
    void (*pace)(const struct hrf_graph *graph, const struct hrf_node *node, int64_t *down,
                 int64_t *up);
    /* How many positions beyond its input's border the node may ask for; NULL: none. */
    void (*margins)(const struct hrf_node *node, int axis, int64_t *before, int64_t *behind);
    bool is_divisible; /* parts of the output can be computed alone */
};

static int64_t side(const struct hrf_graph *graph, int32_t value, int axis)
{
    return graph->values[value].shape.dims[2 + axis];
}

/* ---- windows ---- */

static struct span window_needed(const struct hrf_graph *graph, const struct hrf_node *node,
                                 int axis, struct span out)
{
    const struct hrf_window *w = &node->attributes.window;
    const int64_t first = hrf_window_first(w, axis, out.first);
    (void)graph;
    return (struct span){ first, first + hrf_window_span(w, axis, out.end - out.first) };
}

/* A part in nothing but padding reads padding that the partition makes (hrf_region_padding()).
 * Positions that ceil_mode adds beyond the padding do not count as padding. */
static void window_cut(const struct hrf_graph *graph, const struct hrf_node *node, int axis,
                       const struct cut *c, struct hrf_attributes *a)
{
    (void)graph;
    a->window.auto_pad = HRF_PAD_EXPLICIT;
    a->window.pad_begin[axis] = c->is_padding ? 0 : c->before;
    a->window.pad_end[axis] = c->is_padding
                                  ? 0
                                  : hrf_min(c->behind, node->attributes.window.pad_end[axis]);
}

static void window_pace(const struct hrf_graph *graph, const struct hrf_node *node, int64_t *down,
                        int64_t *up)
{
    (void)graph;
    (void)up;
    *down = node->attributes.window.stride[0];
}

/* ceil_mode adds less than a stride. */
static void window_margins(const struct hrf_node *node, int axis, int64_t *before, int64_t *behind)
{
    const struct hrf_window *w = &node->attributes.window;
    *before = w->pad_begin[axis];
    *behind = w->pad_end[axis] + (w->ceil_mode ? w->stride[axis] - 1 : 0);
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}

/* Output y receives from input i if y = s*i - p + d*k. The first position is never after the one
 * whose window begins at the part, so that the remaining padding is not negative. */
static struct span spread_needed(const struct hrf_graph *graph, const struct hrf_node *node,
                                 int axis, struct span out)
{
    const struct hrf_window *w = &node->attributes.window;
    const int64_t reach = w->dilation[axis] * (w->kernel[axis] - 1), s = w->stride[axis];
    const int64_t earliest = floor_div(out.first + w->pad_begin[axis] - reach + s - 1, s);
    const int64_t first = hrf_min(earliest, floor_div(out.first + w->pad_begin[axis], s));
    (void)graph;
    return (struct span){ first,
                          hrf_max(floor_div(out.end - 1 + w->pad_begin[axis], s), first) + 1 };
}

static void spread_cut(const struct hrf_graph *graph, const struct hrf_node *node, int axis,
                       const struct cut *c, struct hrf_attributes *a)
{
    (void)graph;
    a->window.auto_pad = HRF_PAD_EXPLICIT;
    a->window.pad_begin[axis] += c->out.first -
                                 c->need.first * node->attributes.window.stride[axis];
    a->output.size[axis] = c->out.end - c->out.first;
}

static void spread_pace(const struct hrf_graph *graph, const struct hrf_node *node, int64_t *down,
                        int64_t *up)
{
    (void)graph;
    (void)down;
    *up = node->attributes.window.stride[0];
}

/* An output that no window reaches is the bias. */
static void spread_margins(const struct hrf_node *node, int axis, int64_t *before, int64_t *behind)
{
    (void)node;
    (void)axis;
    *before = *behind = INT64_MAX;
}

/* ---- the way back through windows ---- */

/* The outputs of a window, gradients to which go to positions [first, end) of its input. */
static struct span windows_reaching(const struct hrf_graph *graph, const struct hrf_node *node,
                                    int axis, struct span out)
{
    const int64_t n = side(graph, node->inputs[1], axis);
    const struct span asked = spread_needed(graph, node, axis, out);
    const int64_t first = hrf_min(hrf_max(asked.first, 0), n - 1);
    return (struct span){ first, hrf_max(hrf_min(asked.end, n), first + 1) };
}

/* Input 0: all that these windows see, so that each finds what it is the gradient of; and the part
 * itself, since no window may reach it. */
static struct span window_back_needed(const struct hrf_graph *graph, const struct hrf_node *node,
                                      int32_t k, int axis, struct span out)
{
    const struct span windows = windows_reaching(graph, node, axis, out);
    const struct span seen = window_needed(graph, node, axis, windows);
    if (k == 1)
        return windows;
    return (struct span){ hrf_max(hrf_min(seen.first, out.first), 0),
                          hrf_min(hrf_max(seen.end, out.end), side(graph, node->inputs[0], axis)) };
}

static void window_back_cut(const struct hrf_graph *graph, const struct hrf_node *node, int axis,
                            const struct cut *c, struct hrf_attributes *a)
{
    const struct span windows = windows_reaching(graph, node, axis, c->out);
    a->window.pad_begin[axis] += c->need.first - windows.first * a->window.stride[axis];
}

static bool window_back_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *dy = &graph->values[node->inputs[1]];
    return dy->shape.rank == 4 && dy->data == NULL;
}

/* ---- blocks ---- */

static struct span block_needed(const struct hrf_graph *graph, const struct hrf_node *node,
                                int axis, struct span out)
{
    (void)graph;
    (void)axis;
    return (struct span){ out.first * node->attributes.block.size,
                          out.end * node->attributes.block.size };
}

static void block_pace(const struct hrf_graph *graph, const struct hrf_node *node, int64_t *down,
                       int64_t *up)
{
    (void)graph;
    (void)up;
    *down = node->attributes.block.size;
}

static struct span unblock_needed(const struct hrf_graph *graph, const struct hrf_node *node,
                                  int axis, struct span out)
{
    (void)graph;
    (void)axis;
    return (struct span){ out.first / node->attributes.block.size,
                          (out.end - 1) / node->attributes.block.size + 1 };
}

static void unblock_cut(const struct hrf_graph *graph, const struct hrf_node *node, int axis,
                        const struct cut *c, struct hrf_attributes *a)
{
    (void)graph;
    a->block.skip[axis] = c->out.first - c->need.first * node->attributes.block.size;
}

static void unblock_pace(const struct hrf_graph *graph, const struct hrf_node *node, int64_t *down,
                         int64_t *up)
{
    (void)graph;
    (void)down;
    *up = node->attributes.block.size;
}

/* ---- moves ---- */

/* Modes other than constant pad with pixels from within the image, in another order. */
static bool pad_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    (void)graph;
    return node->attributes.pad.mode == HRF_PAD_CONSTANT;
}

static struct span pad_needed(const struct hrf_graph *graph, const struct hrf_node *node, int axis,
                              struct span out)
{
    const int64_t begin = node->attributes.pad.sizes[2 + axis];
    (void)graph;
    return (struct span){ out.first - begin, out.end - begin };
}

/* For a part that is padding alone, a negative pad cuts off the input. */
static void pad_cut(const struct hrf_graph *graph, const struct hrf_node *node, int axis,
                    const struct cut *c, struct hrf_attributes *a)
{
    (void)graph;
    (void)node;
    a->pad.sizes[2 + axis] = c->is_padding ? c->out.end - c->out.first : c->before;
    a->pad.sizes[a->n_axes + 2 + axis] = c->is_padding ? c->need.first - c->need.end : c->behind;
}

static void pad_margins(const struct hrf_node *node, int axis, int64_t *before, int64_t *behind)
{
    const struct hrf_attributes *a = &node->attributes;
    *before = hrf_max(a->pad.sizes[2 + axis], 0);
    *behind = hrf_max(a->pad.sizes[a->n_axes + 2 + axis], 0);
}

/* A reversed slice does not fit: a part would need rows from the other end. */
static bool slice_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    (void)graph;
    for (int32_t i = 0; i < a->n_axes; i++)
        if (a->axes[i] > 1 && a->slice.steps[i] < 1)
            return false;
    return true;
}

/* The index of `axis` among the SLICE's axes; -1: none. */
static int32_t slice_along(const struct hrf_attributes *a, int axis)
{
    for (int32_t i = 0; i < a->n_axes; i++)
        if (a->axes[i] == 2 + axis)
            return i;
    return -1;
}

static struct span slice_needed(const struct hrf_graph *graph, const struct hrf_node *node,
                                int axis, struct span out)
{
    const struct hrf_attributes *a = &node->attributes;
    const int32_t i = slice_along(a, axis);
    (void)graph;
    if (i < 0)
        return out;
    return (struct span){ a->slice.starts[i] + out.first * a->slice.steps[i],
                          a->slice.starts[i] + (out.end - 1) * a->slice.steps[i] + 1 };
}

/* The input of a part begins where the slice does. */
static void slice_cut(const struct hrf_graph *graph, const struct hrf_node *node, int axis,
                      const struct cut *c, struct hrf_attributes *a)
{
    const int32_t i = slice_along(a, axis);
    (void)graph;
    (void)node;
    (void)c;
    if (i < 0)
        return;
    a->slice.starts[i] = 0;
    a->slice.ends[i] = INT64_MAX;
}

static void slice_pace(const struct hrf_graph *graph, const struct hrf_node *node, int64_t *down,
                       int64_t *up)
{
    const int32_t i = slice_along(&node->attributes, 0);
    (void)graph;
    (void)up;
    *down = i >= 0 ? node->attributes.slice.steps[i] : 1;
}

/* ---- resizing ---- */

static struct span resize_needed(const struct hrf_graph *graph, const struct hrf_node *node,
                                 int axis, struct span out)
{
    const struct hrf_resize *r = &node->attributes.resize;
    const int64_t n_in = side(graph, node->inputs[0], axis);
    const int64_t n_out = side(graph, node->outputs[0], axis);
    const struct hrf_resize_tap low = hrf_resize_tap_at(r, axis, n_in, n_out, out.first);
    const struct hrf_resize_tap high = hrf_resize_tap_at(r, axis, n_in, n_out, out.end - 1);
    struct span need = { low.index[0], high.index[0] + 1 };
    for (int t = 1; t < hrf_resize_n(r); t++) {
        need.first = hrf_min(need.first, low.index[t]);
        need.end = hrf_max(need.end, high.index[t] + 1);
    }
    return need;
}

static void resize_cut(const struct hrf_graph *graph, const struct hrf_node *node, int axis,
                       const struct cut *c, struct hrf_attributes *a)
{
    struct hrf_resize_part *part = &a->resize.part[axis];
    if (part->n_in == 0) {
        part->n_in = side(graph, node->inputs[0], axis);
        part->n_out = side(graph, node->outputs[0], axis);
    }
    part->first_in += c->need.first;
    part->first_out += c->out.first;
}

static void resize_pace(const struct hrf_graph *graph, const struct hrf_node *node, int64_t *down,
                        int64_t *up)
{
    *down = side(graph, node->inputs[0], 0);
    *up = side(graph, node->outputs[0], 0);
}

/* ---- pixels by themselves ---- */

/* A constant that differs between pixels would have to be cut as well. */
static bool varies_by_pixel(const struct hrf_value *constant)
{
    const struct hrf_shape *s = &constant->shape;
    return constant->data != NULL && ((s->rank >= 1 && s->dims[s->rank - 1] > 1) ||
                                      (s->rank >= 2 && s->dims[s->rank - 2] > 1));
}

static bool point_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    for (int32_t k = 0; k < node->n_inputs; k++) {
        if (node->inputs[k] < 0 || (k > 0 && hrf_op_role(node->op, k) != HRF_INPUT_DATA))
            continue;
        const struct hrf_value *x = &graph->values[node->inputs[k]];
        if (varies_by_pixel(x) || (x->data == NULL && x->shape.rank != 4))
            return false;
    }
    return true;
}

static bool channels_fit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return node->attributes.axis <= 1 && !node->attributes.channels_last && point_fits(graph, node);
}

static bool pixel_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return node->attributes.of_each_pixel && point_fits(graph, node);
}

/* ---- sums over pixels ---- */

/* A network alone keeps such sums whole: in INT8 its ranks give the bits of one rank. */
static bool reduce_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const enum hrf_joining joining = hrf_op_info(node->op)->joining;
    uint32_t axes = 0;
    for (int32_t i = 0; i < node->attributes.n_axes; i++)
        axes |= 1u << node->attributes.axes[i];
    return node->origin > 0 && (joining == HRF_JOIN_SUM || joining == HRF_JOIN_MEAN) &&
           graph->values[node->inputs[0]].shape.rank == 4 && (axes == 0 || (axes & 12) == 12);
}

/* ---- the table ---- */

static const struct region_rule rules[HRF_N_REGIONS] = {
    [HRF_REGION_WHOLE] = { .is_divisible = false },
    [HRF_REGION_POINT] = { .is_divisible = true, .fits = point_fits },
    [HRF_REGION_CHANNELS] = { .is_divisible = true, .fits = channels_fit },
    [HRF_REGION_PIXEL] = { .is_divisible = true, .fits = pixel_fits },
    [HRF_REGION_WINDOW] = { .is_divisible = true,
                            .needed = window_needed,
                            .cut = window_cut,
                            .pace = window_pace,
                            .margins = window_margins },
    [HRF_REGION_SPREAD] = { .is_divisible = true,
                            .needed = spread_needed,
                            .cut = spread_cut,
                            .pace = spread_pace,
                            .margins = spread_margins },
    [HRF_REGION_BLOCK] = { .is_divisible = true, .needed = block_needed, .pace = block_pace },
    [HRF_REGION_UNBLOCK] = { .is_divisible = true,
                             .needed = unblock_needed,
                             .cut = unblock_cut,
                             .pace = unblock_pace },
    [HRF_REGION_PAD] = { .is_divisible = true,
                         .fits = pad_fits,
                         .needed = pad_needed,
                         .cut = pad_cut,
                         .margins = pad_margins },
    [HRF_REGION_SLICE] = { .is_divisible = true,
                           .fits = slice_fits,
                           .needed = slice_needed,
                           .cut = slice_cut,
                           .pace = slice_pace },
    [HRF_REGION_RESIZE] = { .is_divisible = true,
                            .needed = resize_needed,
                            .cut = resize_cut,
                            .pace = resize_pace },
    [HRF_REGION_SUM] = { .is_divisible = false },
    [HRF_REGION_REDUCE] = { .is_divisible = false, .fits = reduce_fits },
    [HRF_REGION_WINDOW_SUM] = { .is_divisible = false, .needed = window_needed, .cut = window_cut },
    [HRF_REGION_WINDOW_BACK] = { .is_divisible = true,
                                 .fits = window_back_fits,
                                 .needed_of = window_back_needed,
                                 .cut = window_back_cut },
};

static const struct region_rule *rule_of(const struct hrf_node *node)
{
    return &rules[hrf_op_info(node->op)->region];
}

/* ---- the driver ---- */

static struct cut cut_axis(const struct hrf_graph *graph, const struct hrf_node *node, int axis,
                           const struct hrf_box *out)
{
    const int64_t size = side(graph, node->inputs[0], axis);
    struct cut c = { .out = { out->lo[axis], out->hi[axis] } };
    if (rule_of(node)->needed_of != NULL) {
        c.need = rule_of(node)->needed_of(graph, node, 0, axis, c.out);
        return c;
    }
    const struct span asked = rule_of(node)->needed(graph, node, axis, c.out);
    c.need = (struct span){ hrf_max(asked.first, 0), hrf_min(asked.end, size) };
    c.is_padding = c.need.first >= c.need.end;
    if (c.is_padding)
        c.need.first = hrf_max(hrf_min(asked.first, size - 1), 0);
    if (c.is_padding)
        c.need.end = c.need.first + 1;
    c.before = hrf_max(-asked.first, 0);
    c.behind = hrf_max(asked.end - size, 0);
    return c;
}

static bool is_image(const struct hrf_graph *graph, int32_t value)
{
    return value >= 0 && graph->values[value].shape.rank == 4;
}

bool hrf_region_can_split(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    const struct region_rule *rule = rule_of(node);
    if (!rule->is_divisible || y->rank != 4 || y->dims[2] * y->dims[3] <= 1 || node->n_outputs != 1)
        return false;
    if ((rule->needed != NULL || rule->needed_of != NULL) &&
        (!is_image(graph, node->inputs[0]) || graph->values[node->inputs[0]].data != NULL))
        return false;
    return rule->fits == NULL || rule->fits(graph, node);
}

bool hrf_region_is_window(const struct hrf_node *node)
{
    return hrf_op_info(node->op)->region == HRF_REGION_WINDOW;
}

bool hrf_region_is_wider(const struct hrf_node *node)
{
    return hrf_op_info(node->op)->region == HRF_REGION_WINDOW_BACK;
}

bool hrf_region_is_sum(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const enum hrf_region region = hrf_op_info(node->op)->region;
    return region == HRF_REGION_SUM || region == HRF_REGION_WINDOW_SUM ||
           (region == HRF_REGION_REDUCE && rule_of(node)->fits(graph, node));
}

int32_t hrf_region_summed(const struct hrf_node *node)
{
    return hrf_op_info(node->op)->region == HRF_REGION_WINDOW_SUM ? 1 : 0;
}

struct hrf_box hrf_region_for_sum(const struct hrf_graph *graph, const struct hrf_node *node,
                                  int32_t k, const struct hrf_box *part)
{
    struct hrf_box need = *part;
    for (int axis = 0; axis < 2 && k != hrf_region_summed(node) && rule_of(node)->needed != NULL &&
                       !hrf_box_is_empty(part);
         axis++) {
        const struct cut c = cut_axis(graph, node, axis, part);
        need.lo[axis] = c.need.first;
        need.hi[axis] = c.is_padding ? c.need.first : c.need.end;
    }
    return need;
}

void hrf_region_pace(const struct hrf_graph *graph, const struct hrf_node *node, int64_t *down,
                     int64_t *up)
{
    *down = *up = 1;
    if (rule_of(node)->pace != NULL && is_image(graph, node->inputs[0]))
        rule_of(node)->pace(graph, node, down, up);
}

bool hrf_region_padding(const struct hrf_graph *graph, const struct hrf_node *node,
                        const struct hrf_box *out, int64_t n[2])
{
    n[0] = n[1] = 0;
    if (!hrf_region_is_window(node) || hrf_box_is_empty(out) || !is_image(graph, node->inputs[0]))
        return false;
    for (int axis = 0; axis < 2; axis++) {
        const struct span part = { out->lo[axis], out->hi[axis] };
        const struct span asked = window_needed(graph, node, axis, part);
        if (cut_axis(graph, node, axis, out).is_padding)
            n[axis] = asked.end - asked.first;
    }
    return n[0] > 0 || n[1] > 0;
}

bool hrf_region_is_there(const struct hrf_graph *graph, const struct hrf_node *node,
                         const struct hrf_box *out)
{
    const struct region_rule *rule = rule_of(node);
    if (rule->needed == NULL || hrf_box_is_empty(out) || !hrf_region_can_split(graph, node))
        return true;
    for (int axis = 0; axis < 2; axis++) {
        const struct cut c = cut_axis(graph, node, axis, out);
        int64_t before = 0, behind = 0;
        if (rule->margins != NULL)
            rule->margins(node, axis, &before, &behind);
        if (c.before > before || c.behind > behind)
            return false;
    }
    return true;
}

struct hrf_attributes hrf_region_attributes(const struct hrf_graph *graph,
                                            const struct hrf_node *node, const struct hrf_box *out)
{
    struct hrf_attributes a = node->attributes;
    const struct region_rule *rule = rule_of(node);
    if (hrf_tokens_concern(graph, node)) {
        hrf_tokens_cut(node, &a);
        return a;
    }
    for (int axis = 0; axis < 2 && rule->cut != NULL; axis++) {
        const struct cut c = cut_axis(graph, node, axis, out);
        rule->cut(graph, node, axis, &c, &a);
    }
    return a;
}

struct hrf_box hrf_box_within(const struct hrf_box *box, const struct hrf_box *whole)
{
    return (struct hrf_box){ { box->lo[0] - whole->lo[0], box->lo[1] - whole->lo[1] },
                             { box->hi[0] - whole->lo[0], box->hi[1] - whole->lo[1] } };
}

struct hrf_attributes hrf_region_slice(const struct hrf_box *box)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.n_axes = 2;
    for (int i = 0; i < 2; i++) {
        a.axes[i] = 2 + i;
        a.slice.starts[i] = box->lo[i];
        a.slice.ends[i] = box->hi[i];
        a.slice.steps[i] = 1;
    }
    return a;
}

struct hrf_box hrf_region_needed(const struct hrf_graph *graph, const struct hrf_node *node,
                                 int32_t k, const struct hrf_box *out)
{
    const struct region_rule *rule = rule_of(node);
    const struct hrf_shape *x = &graph->values[node->inputs[k]].shape;
    struct hrf_box need = hrf_box_whole(x);
    if (hrf_box_is_empty(out))
        return *out;
    if (hrf_rows_concern(graph, node))
        return hrf_rows_needed(graph, node, out);
    if (hrf_tokens_concern(graph, node))
        return hrf_tokens_needed(graph, node, k, out);
    if (x->rank != 4 || !rule->is_divisible)
        return need;
    if (rule->needed != NULL && k != 0 && hrf_op_role(node->op, k) != HRF_INPUT_DATA)
        return need;
    for (int axis = 0; axis < 2; axis++) {
        if (rule->needed_of != NULL) {
            const struct span part = { out->lo[axis], out->hi[axis] };
            const struct span span = rule->needed_of(graph, node, k, axis, part);
            need.lo[axis] = span.first;
            need.hi[axis] = span.end;
        } else if (rule->needed != NULL && k == 0) {
            const struct cut c = cut_axis(graph, node, axis, out);
            need.lo[axis] = c.need.first;
            need.hi[axis] = c.need.end;
        } else if (x->dims[2 + axis] > 1) { /* a size of 1 is broadcast */
            need.lo[axis] = out->lo[axis];
            need.hi[axis] = out->hi[axis];
        }
    }
    return need;
}

bool hrf_region_suits(const struct hrf_node *node, int32_t k, const struct hrf_box *have,
                      const struct hrf_box *need)
{
    if (hrf_box_equal(have, need))
        return true;
    if (!hrf_region_is_window(node) || k != 0 || hrf_box_is_empty(have) || hrf_box_is_empty(need))
        return false;
    for (int i = 0; i < 2; i++)
        if (have->lo[i] != need->lo[i] || have->hi[i] < need->hi[i] ||
            have->hi[i] - need->hi[i] >= node->attributes.window.stride[i])
            return false;
    return true;
}

/* The rows (axis 0) or columns come from the same positions of each part's own ones. */
static bool are_resized_alike(const struct hrf_resize *a, const struct hrf_resize *b, int axis,
                              int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const struct hrf_resize_tap u = hrf_resize_tap_at(a, axis, 0, 0, i);
        const struct hrf_resize_tap v = hrf_resize_tap_at(b, axis, 0, 0, i);
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
    int64_t of_a[2], of_b[2];
    (void)hrf_region_padding(graph, node, a, of_a);
    (void)hrf_region_padding(graph, node, b, of_b);
    for (int i = 0; i < 2; i++)
        if (of_a[i] != of_b[i] || x.window.pad_begin[i] != y.window.pad_begin[i] ||
            x.window.pad_end[i] != y.window.pad_end[i] ||
            x.pad.sizes[2 + i] != y.pad.sizes[2 + i] || x.pad.sizes[6 + i] != y.pad.sizes[6 + i] ||
            x.block.skip[i] != y.block.skip[i] ||
            (node->op == HRF_OP_RESIZE &&
             !are_resized_alike(&x.resize, &y.resize, i, a->hi[i] - a->lo[i])))
            return false;
    return true;
}
