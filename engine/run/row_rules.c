/* row_rules.c - follows the rows of the bag through the network, node by node (row_rules.h), with a
 * rule for each kind in the operator table. */
#include "engine/run/row_rules.h"

#include "base/min_max.h"

#include <stdio.h>
#include <string.h>

/* Two numbers of rows. Comparing the shapes for both tells an axis of rows from other axes, and
 * constants that depend on the number from others. */
static const int64_t probes[2] = { 1009, 1013 };

void hrf_row_rules_destroy(struct hrf_row_rules *rules)
{
    if (rules == NULL)
        return;
    hrf_graph_destroy(rules->probe);
    hrf_free(rules->values);
    hrf_free(rules->softmaxes);
    hrf_free(rules->joints);
    hrf_free(rules);
}

struct hrf_row_layout hrf_row_layout_of(const struct hrf_shape *shape, int32_t axis)
{
    struct hrf_row_layout l = { 1, axis >= 0 ? shape->dims[axis] : 1, 1 };
    for (int32_t i = 0; i < shape->rank; i++)
        if (i < axis)
            l.outer *= shape->dims[i];
        else if (i > axis)
            l.inner *= shape->dims[i];
    return l;
}

enum hrf_status hrf_row_input_set(struct hrf_graph *graph, int64_t n, int64_t width,
                                  struct hrf_error *err)
{
    const int32_t rank = graph->values[graph->inputs[0]].shape.rank;
    struct hrf_shape shape = { .rank = rank, .dims = { 1, n, width } };
    if (rank == 2)
        shape = (struct hrf_shape){ .rank = 2, .dims = { n, width } };
    return hrf_graph_set_input_shape(graph, 0, &shape, err);
}

/* ---- one node ---- */

struct walk {
    struct hrf_row_rules *rules;
    const struct hrf_node *node; /* of the probe: shape inference has completed its attributes */
    struct hrf_row_value *out;
};

static const struct hrf_shape *shape_of(const struct walk *w, int32_t value)
{
    return &w->rules->probe->values[value].shape;
}

static const struct hrf_row_value *input(const struct walk *w, int32_t k)
{
    static const struct hrf_row_value none = { .axis = -1, .softmax = -1, .branch = -1 };
    const int32_t value = hrf_node_input(w->node, k);
    return value >= 0 ? &w->rules->values[value] : &none;
}

static int32_t rank_of(const struct walk *w, int32_t k)
{
    return shape_of(w, w->node->inputs[k])->rank;
}

/* The output's axis of an axis of input 0, for operators that keep both; -1: there is none. */
typedef int32_t kept_axis(const struct walk *w, int32_t axis);

static int32_t kept_in_view(const struct walk *w, int32_t axis)
{
    const struct hrf_shape *to = shape_of(w, w->node->outputs[0]);
    const struct hrf_row_layout l = hrf_row_layout_of(shape_of(w, w->node->inputs[0]), axis);
    for (int32_t i = 0; i < to->rank; i++) {
        const struct hrf_row_layout m = hrf_row_layout_of(to, i);
        if (m.outer == l.outer && m.size == l.size && m.inner == l.inner)
            return i;
    }
    return -1;
}

static int32_t kept_in_transpose(const struct walk *w, int32_t axis)
{
    const struct hrf_attributes *a = &w->node->attributes;
    for (int32_t i = 0; i < a->n_axes; i++)
        if (a->axes[i] == axis)
            return i;
    return -1;
}

/* An average by weights: the branches have to lie along one axis that is followed. */
static bool keep_branches(const struct walk *w, const struct hrf_row_value *from, int32_t axis)
{
    w->out->softmax = from->softmax;
    w->out->branch = from->branch < 0 ? -1 : axis;
    return from->branch < 0 || axis >= 0;
}

static bool is_rearranged(const struct walk *w, kept_axis *kept)
{
    const struct hrf_row_value *x = input(w, 0);
    w->out->axis = kept(w, x->axis);
    return w->out->axis >= 0 &&
           (x->softmax < 0 || keep_branches(w, x, x->branch < 0 ? -1 : kept(w, x->branch)));
}

static bool is_view(const struct walk *w)
{
    return is_rearranged(w, kept_in_view);
}

static bool is_transposed(const struct walk *w)
{
    return is_rearranged(w, kept_in_transpose);
}

/* Rows that meet the same rows, or what broadcasts over them. */
static bool is_pointwise(const struct walk *w)
{
    const int32_t rank = shape_of(w, w->node->outputs[0])->rank;
    int32_t axis = -1;
    for (int32_t k = 0; k < w->node->n_inputs; k++) {
        const struct hrf_row_value *x = input(w, k);
        if (x->axis < 0)
            continue;
        const int32_t at = x->axis + rank - rank_of(w, k);
        if (axis >= 0 && at != axis)
            return false;
        axis = at;
        if (x->softmax < 0)
            continue;
        if (w->out->softmax >= 0 || !hrf_op_is_linear(w->node->op, k) ||
            !keep_branches(w, x, x->branch + rank - rank_of(w, k)))
            return false;
    }
    w->out->axis = axis;
    return true;
}

/* Axis `kept` of the input, after those that are reduced. */
static int32_t axis_after_reduction(const struct hrf_attributes *a, int32_t kept)
{
    int32_t axis = kept;
    for (int32_t i = 0; i < kept && !a->keep_dims; i++)
        axis -= hrf_attributes_name_axis(a, i);
    return axis;
}

static bool join(const struct walk *w, enum hrf_joining how, int32_t scores)
{
    struct hrf_row_rules *r = w->rules;
    const struct hrf_value *v = &r->probe->values[w->node->outputs[0]];
    w->out->joint = r->n_joints;
    w->out->level++;
    r->joints[r->n_joints++] = (struct hrf_row_joint){ w->node->outputs[0], how, w->out->softmax,
                                                       scores };
    w->out->softmax = -1; /* what is made of it is not made of rows any more */
    return v->dtype == HRF_F32 && v->shape.rank < 4;
}

static bool is_reduction(const struct walk *w)
{
    const enum hrf_joining joining = hrf_op_info(w->node->op)->joining;
    const struct hrf_attributes *a = &w->node->attributes;
    const struct hrf_row_value *x = input(w, 0);
    if (!hrf_attributes_name_axis(a, x->axis)) {
        w->out->axis = axis_after_reduction(a, x->axis);
        return x->softmax < 0;
    }
    if (x->softmax < 0)
        return joining != HRF_JOIN_NONE && join(w, joining, -1);
    return joining == HRF_JOIN_SUM && hrf_op_is_linear(w->node->op, 0) &&
           (x->branch < 0 || !hrf_attributes_name_axis(a, x->branch)) &&
           keep_branches(w, x, x->branch < 0 ? -1 : axis_after_reduction(a, x->branch)) &&
           join(w, HRF_JOIN_SOFTMAX, -1);
}

/* A product of matrices: rows of the bag are rows of the first, columns of the second, or what is
 * summed up. */
static bool is_product(const struct walk *w)
{
    const struct hrf_attributes *at = &w->node->attributes;
    const struct hrf_row_value *a = input(w, 0), *b = input(w, 1);
    const bool transposed_a = at->gemm.transpose_a, transposed_b = at->gemm.transpose_b;
    const int32_t rank_a = rank_of(w, 0), rank_b = rank_of(w, 1);
    const int32_t rank = shape_of(w, w->node->outputs[0])->rank;
    if (rank_a < 2 || rank_b < 2 || input(w, 2)->axis >= 0)
        return false;
    const int32_t row_a = rank_a - (transposed_a ? 1 : 2), sum_a = rank_a - (transposed_a ? 2 : 1);
    const int32_t sum_b = rank_b - (transposed_b ? 1 : 2),
                  column_b = rank_b - (transposed_b ? 2 : 1);
    if (a->axis >= 0 && b->axis >= 0) {
        if (a->axis != sum_a || b->axis != sum_b || hrf_node_has_input(w->node, 2) ||
            (a->softmax >= 0 && b->softmax >= 0))
            return false;
        if (a->softmax < 0 && b->softmax < 0)
            return join(w, HRF_JOIN_SUM, -1);
        const bool is_first = a->softmax >= 0;
        const struct hrf_row_value *weights = is_first ? a : b;
        return (weights->branch < 0 || weights->branch == (is_first ? row_a : column_b)) &&
               keep_branches(w, weights, is_first ? rank - 2 : rank - 1) &&
               join(w, HRF_JOIN_SOFTMAX, -1);
    }
    const bool is_rows = a->axis >= 0;
    w->out->axis = is_rows ? rank - 2 : rank - 1;
    return (is_rows ? a->axis == row_a : b->axis == column_b) && a->softmax < 0 && b->softmax < 0;
}

/* Operators whose first input alone has rows, which the output keeps where they are: true if the
 * node does not work along them. */
static bool keeps_rows(const struct walk *w)
{
    w->out->axis = input(w, 0)->axis;
    for (int32_t k = 0; k < w->node->n_inputs; k++)
        if (input(w, k)->softmax >= 0 || (k > 0 && input(w, k)->axis >= 0))
            return false;
    return w->out->axis >= 0;
}

static bool is_over_another_axis(const struct walk *w)
{
    return keeps_rows(w) && w->node->attributes.axis != w->out->axis;
}

static bool is_over_later_axes(const struct walk *w)
{
    return keeps_rows(w) && w->node->attributes.axis > w->out->axis;
}

static bool is_over_channels(const struct walk *w)
{
    return keeps_rows(w) && w->out->axis != 1;
}

static bool is_over_last_axis(const struct walk *w)
{
    return keeps_rows(w) && w->out->axis < rank_of(w, 0) - 1;
}

static bool is_slice(const struct walk *w)
{
    return keeps_rows(w) && w->node->attributes.n_axes > 0 &&
           !hrf_attributes_name_axis(&w->node->attributes, w->out->axis);
}

static bool is_concat(const struct walk *w)
{
    w->out->axis = input(w, 0)->axis;
    for (int32_t k = 0; k < w->node->n_inputs; k++)
        if (input(w, k)->axis != w->out->axis || input(w, k)->softmax >= 0)
            return false;
    return w->node->attributes.axis != w->out->axis;
}

/* Over another axis, or weights of the rows. */
static bool is_softmax(const struct walk *w)
{
    struct hrf_row_rules *r = w->rules;
    const struct hrf_row_value *x = input(w, 0);
    const struct hrf_shape *shape = shape_of(w, w->node->inputs[0]);
    int64_t n_branches = 1;
    if (w->node->attributes.axis != x->axis)
        return is_over_another_axis(w);
    w->out->axis = x->axis;
    if (x->softmax >= 0 || shape->rank > 3 ||
        r->probe->values[w->node->inputs[0]].dtype != HRF_F32 ||
        r->probe->values[w->node->inputs[0]].producer < 0)
        return false;
    for (int32_t i = 0; i < shape->rank; i++)
        if (i != x->axis && shape->dims[i] != 1) {
            if (n_branches > 1)
                return false;
            n_branches = shape->dims[i];
            w->out->branch = i;
        }
    w->out->softmax = r->n_softmaxes;
    r->softmaxes[r->n_softmaxes++] = (struct hrf_row_softmax){ w->node->inputs[0], w->out->level,
                                                               n_branches };
    return true;
}

static bool is_selection(const struct walk *w)
{
    const int32_t scores = w->node->inputs[1];
    return input(w, 0)->axis == 0 && input(w, 1)->axis == 0 && input(w, 0)->softmax < 0 &&
           input(w, 1)->softmax < 0 && w->rules->probe->values[scores].producer >= 0 &&
           join(w, hrf_op_info(w->node->op)->joining, scores);
}

typedef bool row_rule(const struct walk *w);
static row_rule *const rules[HRF_N_ROW_RULES] = {
    [HRF_ROWS_POINT] = is_pointwise,
    [HRF_ROWS_VIEW] = is_view,
    [HRF_ROWS_TRANSPOSE] = is_transposed,
    [HRF_ROWS_REDUCE] = is_reduction,
    [HRF_ROWS_PRODUCT] = is_product,
    [HRF_ROWS_SOFTMAX] = is_softmax,
    [HRF_ROWS_AXIS] = is_over_another_axis,
    [HRF_ROWS_LATER] = is_over_later_axes,
    [HRF_ROWS_CHANNELS] = is_over_channels,
    [HRF_ROWS_LAST] = is_over_last_axis,
    [HRF_ROWS_SLICE] = is_slice,
    [HRF_ROWS_CONCAT] = is_concat,
    [HRF_ROWS_SELECT] = is_selection,
};

/* ---- the network ---- */

/* Compares the two probes of a value: finds its axis of rows, or that its elements are made of N.
 * False: it depends on N in another way. */
static bool compare_probes(const struct hrf_value *a, const struct hrf_value *b,
                           struct hrf_row_value *out)
{
    *out = (struct hrf_row_value){ .axis = -1, .softmax = -1, .branch = -1, .joint = -1 };
    if (a->data != NULL || b->data != NULL) { /* constants, and what is known once shapes are */
        out->varies = a->data == NULL || b->data == NULL || a->dtype != b->dtype ||
                      !hrf_shape_equal(&a->shape, &b->shape) ||
                      (a->data != b->data &&
                       memcmp(a->data, b->data, (size_t)hrf_value_bytes(a)) != 0);
        return true;
    }
    if (a->shape.rank != b->shape.rank)
        return false;
    for (int32_t i = 0; i < a->shape.rank; i++) {
        if (a->shape.dims[i] == b->shape.dims[i])
            continue;
        if (out->axis >= 0 || a->shape.dims[i] != probes[0] || b->shape.dims[i] != probes[1])
            return false;
        out->axis = i;
    }
    return true;
}

/* False: the node needs all rows at once. `other` is the second probe. */
static bool walk_node(struct hrf_row_rules *r, const struct hrf_graph *other,
                      const struct hrf_node *node)
{
    bool has_rows = false;
    struct hrf_row_value found = { .axis = -1 };
    const int32_t y = node->outputs[0];
    struct hrf_row_value *out = &r->values[y];
    const struct walk w = { r, node, out };
    const bool is_like = compare_probes(&r->probe->values[y], &other->values[y], &found);
    *out = found;
    if (r->probe->values[y].data != NULL)
        return is_like;
    out->axis = -1;
    for (int32_t k = 0; k < node->n_inputs; k++) {
        if (!hrf_node_has_input(node, k) || hrf_op_role(node->op, k) == HRF_INPUT_KNOWN)
            continue;
        const struct hrf_row_value *x = input(&w, k);
        if (x->varies)
            return false;
        has_rows = has_rows || x->axis >= 0;
        out->level = (int32_t)hrf_max(out->level, x->level);
    }
    row_rule *const rule = rules[hrf_op_rows(node->op)];
    if (has_rows && (rule == NULL || !rule(&w)))
        return false;
    return is_like && out->axis == found.axis; /* the rule and the shapes say the same */
}

static enum hrf_status make_probe(const struct hrf_graph *graph, int64_t n, int64_t width,
                                  struct hrf_graph **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) copy = NULL;
    HRF_TRY(hrf_graph_copy(graph, &copy, err));
    HRF_TRY(hrf_row_input_set(copy, n, width, err));
    HRF_TRY(hrf_graph_infer_shapes(copy, err));
    HRF_MOVE(*out, copy);
    return HRF_OK;
}

enum hrf_status hrf_row_rules_create(const struct hrf_graph *graph, int64_t width,
                                     struct hrf_row_rules **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_row_rules) r = hrf_calloc(1, sizeof *r);
    HRF_AUTO(hrf_graph) other = NULL;
    HRF_TRY(make_probe(graph, probes[0], width, &r->probe, err));
    HRF_TRY(make_probe(graph, probes[1], width, &other, err));
    const struct hrf_graph *g = r->probe;
    r->values = hrf_calloc((size_t)g->n_values + 1, sizeof *r->values);
    r->softmaxes = hrf_calloc((size_t)g->n_nodes + 1, sizeof *r->softmaxes);
    r->joints = hrf_calloc((size_t)g->n_nodes + 1, sizeof *r->joints);
    for (int32_t i = 0; i < g->n_values; i++)
        if (g->values[i].producer < 0)
            compare_probes(&g->values[i], &other->values[i], &r->values[i]);
    for (int32_t i = 0; i < g->n_nodes && r->why_not[0] == '\0'; i++)
        if (!walk_node(r, other, &g->nodes[i]))
            snprintf(r->why_not, sizeof r->why_not,
                     "node '%.160s' (%s) needs all embeddings at once", g->nodes[i].name,
                     hrf_op_name(g->nodes[i].op));
    for (int32_t i = 0; i < r->n_joints; i++)
        r->n_passes = (int32_t)hrf_max(r->n_passes, r->values[r->joints[i].value].level);
    for (int32_t i = 0; i < g->n_outputs && r->why_not[0] == '\0'; i++) {
        const struct hrf_value *v = &g->values[g->outputs[i]];
        const struct hrf_row_value *rows = &r->values[g->outputs[i]];
        if (rows->axis >= 0)
            r->n_passes = (int32_t)hrf_max(r->n_passes, rows->level + 1);
        if (v->dtype != HRF_F32 || v->shape.rank > 3 || v->producer < 0)
            snprintf(r->why_not, sizeof r->why_not, "output '%.160s' is no table of numbers",
                     v->name);
    }
    HRF_MOVE(*out, r);
    return HRF_OK;
}
