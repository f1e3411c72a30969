/* join_moves.c - several moves in a row as one: the shifted windows of Swin, and the pixels that
 * its stages merge, are slices, concatenations, reshapes and transposes that each copy a whole
 * tensor.
 *
 * All of them move whole rows: as many neighbours in memory as stay together from the first to the
 * last of these moves, usually the channels of a pixel or token. One GATHER of rows (graph.h) does
 * the same. Reshapes that keep the order in memory are marked (of_pixels) and joined: a plan lets
 * the result lie where the input does.
 */
#include "base/min_max.h"
#include "engine/passes/match.h"
#include "engine/passes/passes.h"

#include <string.h>

enum {
    MOST_LOOKS = 256,    /* nodes of a chain; one that is reached in two ways counts twice */
    LEAST_RUN = 16,      /* elements of a row, below which a gather is no faster */
    MOST_ROWS = 1 << 26, /* of a value */
    LEAST_COPIES = 2,    /* moves that copy, below which a gather is no faster */
};

/* Axes in the order of memory: N, H, W, C for rank 4. */
struct rows {
    int32_t rank;
    int64_t dims[HRF_MAX_RANK]; /* the last one in rows */
    int32_t *at;                /* heap: the row of the root that each row is a copy of */
};

struct chain {
    const struct hrf_graph *graph;
    int32_t root; /* value */
    int64_t run;  /* elements of a row */
    int32_t looks, copies;
};

static void rows_release(struct rows *rows)
{
    hrf_free(rows->at);
    rows->at = NULL;
}

static int32_t memory_axis(int32_t rank, int64_t axis)
{
    static const int32_t of_image[4] = { 0, 3, 1, 2 };
    return rank == 4 ? of_image[axis] : (int32_t)axis;
}

static void memory_dims(const struct hrf_shape *shape, struct rows *out)
{
    out->rank = shape->rank;
    for (int32_t i = 0; i < shape->rank; i++)
        out->dims[memory_axis(shape->rank, i)] = shape->dims[i];
}

/* ---- which moves ---- */

static bool keeps_order(const struct hrf_node *node)
{
    return node->op == HRF_OP_RESHAPE || node->op == HRF_OP_FLATTEN || node->op == HRF_OP_SQUEEZE ||
           node->op == HRF_OP_UNSQUEEZE;
}

static bool is_reshape(const struct hrf_node *node)
{
    return keeps_order(node) && node->attributes.channels_last;
}

static bool copies(const struct hrf_node *node)
{
    return node->op == HRF_OP_TRANSPOSE || node->op == HRF_OP_SLICE || node->op == HRF_OP_CONCAT;
}

/* The move of rows that computes the value; NULL. */
static const struct hrf_node *find_move(const struct hrf_graph *graph, int32_t value)
{
    const struct hrf_value *v = &graph->values[value];
    if (v->data != NULL || v->producer < 0 || v->shape.rank < 1)
        return NULL;
    const struct hrf_node *node = &graph->nodes[v->producer];
    return is_reshape(node) || copies(node) ? node : NULL;
}

/* Walks up from `value`: the one root of all it is made of, and what stays together. */
static bool look(struct chain *c, int32_t value)
{
    const struct hrf_node *node = find_move(c->graph, value);
    const struct hrf_shape *y = &c->graph->values[value].shape;
    c->run = hrf_gcd(hrf_shape_innermost(y), c->run);
    if (c->run < LEAST_RUN || c->looks++ >= MOST_LOOKS || hrf_shape_count(y) / c->run > MOST_ROWS)
        return false;
    if (node == NULL) {
        c->root = c->root < 0 ? value : c->root;
        return c->graph->values[value].data == NULL && c->root == value;
    }
    const struct hrf_attributes *a = &node->attributes;
    c->copies += copies(node);
    if (node->op == HRF_OP_TRANSPOSE &&
        memory_axis(y->rank, a->axes[y->rank == 4 ? 1 : y->rank - 1]) != y->rank - 1)
        return false;
    for (int32_t i = 0; i < a->n_axes && node->op == HRF_OP_SLICE; i++)
        if (memory_axis(y->rank, a->axes[i]) == y->rank - 1) {
            if (a->slice.steps[i] != 1)
                return false;
            c->run = hrf_gcd(a->slice.starts[i], c->run);
        }
    const int32_t n = node->op == HRF_OP_CONCAT ? node->n_inputs : 1;
    for (int32_t k = 0; k < n; k++)
        if (!look(c, node->inputs[k]))
            return false;
    return true;
}

/* ---- where the rows come from ---- */

static void allocate(struct rows *rows)
{
    int64_t n = 1;
    for (int32_t i = 0; i < rows->rank; i++)
        n *= rows->dims[i];
    rows->at = hrf_alloc_array((size_t)n + 1, sizeof *rows->at);
}

/* out[i] = in[first + i . steps]: `steps` in rows, for each axis of out. */
static void copy_rows(const struct rows *out, const int64_t *steps, int64_t first,
                      const struct rows *in)
{
    int64_t n = 1, at = first, index[HRF_MAX_RANK] = { 0 };
    for (int32_t i = 0; i < out->rank; i++)
        n *= out->dims[i];
    for (int64_t k = 0; k < n; k++) {
        out->at[k] = in->at[at];
        for (int32_t i = out->rank - 1; i >= 0; i--) {
            at += steps[i];
            if (++index[i] < out->dims[i])
                break;
            at -= index[i] * steps[i];
            index[i] = 0;
        }
    }
}

static void dense_steps(const struct rows *rows, int64_t *steps)
{
    int64_t step = 1;
    for (int32_t i = rows->rank - 1; i >= 0; i--) {
        steps[i] = step;
        step *= rows->dims[i];
    }
}

static enum hrf_status find_rows(const struct chain *c, int32_t value, struct rows *out,
                                 struct hrf_error *err);

static void transpose_rows(const struct hrf_node *node, const struct rows *in, struct rows *out)
{
    int64_t own[HRF_MAX_RANK], steps[HRF_MAX_RANK];
    dense_steps(in, own);
    for (int32_t i = 0; i < out->rank; i++)
        steps[memory_axis(out->rank, i)] = own[memory_axis(out->rank, node->attributes.axes[i])];
    copy_rows(out, steps, 0, in);
}

static void slice_rows(const struct chain *c, const struct hrf_node *node, const struct rows *in,
                       struct rows *out)
{
    const struct hrf_attributes *a = &node->attributes;
    int64_t steps[HRF_MAX_RANK], first = 0;
    dense_steps(in, steps);
    for (int32_t i = 0; i < a->n_axes; i++) {
        const int32_t axis = memory_axis(out->rank, a->axes[i]);
        const bool is_last = axis == out->rank - 1;
        first += a->slice.starts[i] / (is_last ? c->run : 1) * steps[axis];
        steps[axis] *= a->slice.steps[i];
    }
    copy_rows(out, steps, first, in);
}

static enum hrf_status concat_rows(const struct chain *c, const struct hrf_node *node,
                                   struct rows *out, struct hrf_error *err)
{
    const int32_t axis = memory_axis(out->rank, node->attributes.axis);
    int64_t inner = 1, first = 0;
    for (int32_t i = axis + 1; i < out->rank; i++)
        inner *= out->dims[i];
    for (int32_t k = 0; k < node->n_inputs; k++) {
        HRF_AUTO_RELEASE(rows) in = { 0 };
        HRF_TRY(find_rows(c, node->inputs[k], &in, err));
        int64_t outer = 1;
        for (int32_t i = 0; i < axis; i++)
            outer *= in.dims[i];
        const int64_t each = in.dims[axis] * inner;
        for (int64_t i = 0; i < outer; i++)
            memcpy(out->at + i * out->dims[axis] * inner + first, in.at + i * each,
                   (size_t)each * sizeof *in.at);
        first += each;
    }
    return HRF_OK;
}

static enum hrf_status find_rows(const struct chain *c, int32_t value, struct rows *out,
                                 struct hrf_error *err)
{
    const struct hrf_node *node = value == c->root ? NULL : find_move(c->graph, value);
    memory_dims(&c->graph->values[value].shape, out);
    out->dims[out->rank - 1] /= c->run;
    allocate(out);
    if (node == NULL) {
        const int64_t n = hrf_shape_count(&c->graph->values[value].shape) / c->run;
        for (int64_t i = 0; i < n; i++)
            out->at[i] = (int32_t)i;
        return HRF_OK;
    }
    if (node->op == HRF_OP_CONCAT)
        return concat_rows(c, node, out, err);
    HRF_AUTO_RELEASE(rows) in = { 0 };
    HRF_TRY(find_rows(c, node->inputs[0], &in, err));
    if (node->op == HRF_OP_TRANSPOSE) {
        transpose_rows(node, &in, out);
    } else if (node->op == HRF_OP_SLICE) {
        slice_rows(c, node, &in, out);
    } else {
        hrf_free(out->at);
        out->at = in.at;
        in.at = NULL;
    }
    return HRF_OK;
}

/* ---- the pass ---- */

static enum hrf_status gather(struct hrf_match *m, int32_t n, const struct chain *c,
                              struct hrf_error *err)
{
    struct hrf_graph *graph = m->graph;
    const int32_t y = graph->nodes[n].outputs[0];
    const struct hrf_shape shape = {
        .rank = 1, .dims = { hrf_shape_count(&graph->values[y].shape) / c->run }
    };
    struct hrf_attributes a = hrf_attributes_default();
    int32_t inputs[2] = { c->root };
    HRF_AUTO_RELEASE(rows) rows = { 0 };
    HRF_TRY(find_rows(c, y, &rows, err));
    HRF_AUTO_FREE char *name = hrf_format("%s.rows", graph->nodes[n].name);
    HRF_TRY(hrf_graph_add_value(graph, name, HRF_S32, &shape, rows.at, &inputs[1], err));
    a.channels_last = true;
    a.row_size = c->run;
    hrf_match_become(&graph->nodes[n], HRF_OP_GATHER, inputs, 2, &a);
    return HRF_OK;
}

/* True if something but a move of rows reads the value. */
static bool ends_here(const struct hrf_match *m, int32_t value)
{
    if (m->readers.is_output[value])
        return true;
    for (int32_t i = m->readers.first[value]; i < m->readers.first[value + 1]; i++) {
        const struct hrf_node *reader = &m->graph->nodes[m->readers.nodes[i]];
        const bool is_joined = reader->op == HRF_OP_GATHER && reader->attributes.channels_last;
        if (!is_reshape(reader) && !copies(reader) && !is_joined)
            return true;
    }
    return false;
}

static enum hrf_status join(struct hrf_match *m, int32_t n, int32_t least, struct hrf_error *err)
{
    const struct hrf_graph *graph = m->graph;
    struct chain c = { .graph = graph, .root = -1 };
    const int32_t y = graph->nodes[n].outputs[0];
    if (find_move(graph, y) == NULL || !ends_here(m, y) || !look(&c, y) || c.copies < least)
        return HRF_OK;
    return gather(m, n, &c, err);
}

static bool has_one_order(const struct hrf_shape *shape)
{
    return shape->rank != 4 || shape->dims[1] == 1 || shape->dims[2] * shape->dims[3] == 1;
}

/* Reads what the reshape of the same kind before this one reads, and marks one that keeps the order
 * in memory. */
static void join_reshapes(struct hrf_graph *graph, struct hrf_node *node)
{
    if (!keeps_order(node) || graph->values[node->inputs[0]].data != NULL)
        return;
    const int32_t producer = graph->values[node->inputs[0]].producer;
    if (producer >= 0 && keeps_order(&graph->nodes[producer]) &&
        !graph->nodes[producer].attributes.channels_last && !node->attributes.channels_last)
        node->inputs[0] = graph->nodes[producer].inputs[0];
    if (has_one_order(&graph->values[node->inputs[0]].shape) &&
        has_one_order(&graph->values[node->outputs[0]].shape))
        node->attributes.channels_last = true;
    const struct hrf_node *before = find_move(graph, node->inputs[0]);
    if (node->attributes.channels_last && before != NULL && is_reshape(before))
        node->inputs[0] = before->inputs[0];
}

enum hrf_status hrf_pass_join_moves(struct hrf_graph *graph, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_match) match = { 0 };
    for (int32_t n = 0; n < graph->n_nodes; n++)
        join_reshapes(graph, &graph->nodes[n]);
    HRF_TRY(hrf_pass_fold_constants(graph, err));
    hrf_match_init(graph, &match);
    for (int32_t n = graph->n_nodes - 1; n >= 0; n--)
        HRF_TRY(join(&match, n, LEAST_COPIES, err));
    return hrf_graph_compact(graph, err);
}

enum hrf_status hrf_pass_join_windows(struct hrf_graph *graph, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_match) match = { 0 };
    hrf_match_init(graph, &match);
    for (int32_t n = graph->n_nodes - 1; n >= 0; n--)
        HRF_TRY(join(&match, n, 1, err));
    return hrf_graph_compact(graph, err);
}
