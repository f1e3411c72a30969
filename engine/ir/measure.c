/* measure.c - operation counts of nodes and the content hash of a graph. */
#include "engine/ir/op.h"
#include "engine/ir/resize.h"

#include "base/hash.h"

#include <string.h>

/* Multiply-adds to compute the features of n tokens and multiply them by the values and by ones. */
static double performer_operations(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const bool whole = node->op == HRF_OP_PERFORMER;
    const struct hrf_shape *x = &graph->values[node->inputs[0]].shape;
    const struct hrf_shape *k = &graph->values[node->inputs[whole ? HRF_PERFORMER_K : 0]].shape;
    const struct hrf_shape *p =
        &graph
             ->values[node->inputs[whole                              ? HRF_PERFORMER_PROJECTION
                                   : node->op == HRF_OP_PERFORMER_MAX ? 1
                                                                      : HRF_STATE_PROJECTION]]
             .shape;
    if (p->rank != 2 || x->rank != 4 || k->rank != 4)
        return 0;
    const double m = (double)p->dims[0], d = (double)p->dims[1];
    const double per_head = node->op == HRF_OP_PERFORMER_MAX ? m * d : m * (2 * d + 1);
    const double tokens = (double)hrf_shape_count(x) + (whole ? (double)hrf_shape_count(k) : 0);
    return 2 * tokens / d * per_head; /* a token of one head is d channels */
}

static double positive_count(const struct hrf_shape *shape)
{
    const int64_t n = hrf_shape_count(shape);
    return n > 0 ? (double)n : 0;
}

/* Two products: of queries and keys, and of the scores and values. */
static double attention_operations(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_shape *q = &graph->values[node->inputs[HRF_ATTENTION_Q]].shape;
    const struct hrf_shape *v = &graph->values[node->inputs[HRF_ATTENTION_V]].shape;
    if (q->rank < 2 || v->rank < 2)
        return 0;
    const int64_t window = graph->values[node->outputs[0]].grain;
    if (hrf_attention_is_of_tokens(&node->attributes) && v->rank == 3) /* heads in the channels */
        return 4 * positive_count(q) / (double)q->dims[2] *
               (double)(window > 0 ? window : v->dims[1]) *
               (double)(node->attributes.group * node->attributes.size);
    const double d = (double)q->dims[q->rank - 1], e = (double)v->dims[v->rank - 1];
    const double count = (double)hrf_shape_count(q);
    return count > 0 && d > 0 ? 2 * count / d * (double)v->dims[v->rank - 2] * (d + e) : 0;
}

double hrf_node_operations(const struct hrf_graph *graph, const struct hrf_node *node)
{
    if (hrf_op_info(node->op)->uses & HRF_USE_HEADS)
        return performer_operations(graph, node);
    if (node->op == HRF_OP_ATTENTION || node->op == HRF_OP_ATTENTION_PART)
        return attention_operations(graph, node);
    if (node->op != HRF_OP_CONV && node->op != HRF_OP_CONV_TRANSPOSE && node->op != HRF_OP_GEMM &&
        node->op != HRF_OP_MATMUL)
        return 0;
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    const struct hrf_shape *a = &graph->values[node->inputs[0]].shape;
    const struct hrf_shape *w = &graph->values[node->inputs[1]].shape;
    double count = (double)hrf_shape_count(y), inner = 1;
    if (count < 0 || a->rank < 1 || w->rank < 1)
        return 0;
    if (node->op == HRF_OP_CONV_TRANSPOSE) /* every input pixel meets every weight */
        return 2 * (double)hrf_shape_count(a) * (double)w->dims[1] * (double)w->dims[2] *
               (double)w->dims[3];
    if (node->op == HRF_OP_CONV)
        inner = (double)w->dims[1] * (double)w->dims[2] * (double)w->dims[3];
    else if (node->op == HRF_OP_GEMM)
        inner = (double)a->dims[node->attributes.transpose_a ? 0 : a->rank - 1];
    else
        inner = (double)a->dims[a->rank - 1];
    return 2 * count * inner;
}

/* Packs a number from the file and a flag into one integer. The number may be anything, so the
 * product may wrap around. */
static int64_t twice_and(int64_t number, bool flag)
{
    return (int64_t)((uint64_t)number * 2 + flag);
}

/* Input elements that one element of the result depends on. */
static double numbers_per_result(const struct hrf_node *node, const struct hrf_shape *x)
{
    const struct hrf_attributes *a = &node->attributes;
    if (node->op == HRF_OP_MAX_POOL || node->op == HRF_OP_AVERAGE_POOL)
        return (double)a->window.kernel[0] * (double)a->window.kernel[1];
    if (node->op == HRF_OP_LRN && x->rank > 1)
        return (double)(a->size < x->dims[1] ? a->size : x->dims[1]);
    return node->op == HRF_OP_RESIZE ? HRF_RESIZE_TAPS * HRF_RESIZE_TAPS : 1;
}

double hrf_node_work(const struct hrf_graph *graph, const struct hrf_node *node)
{
    double work = positive_count(&graph->values[node->outputs[0]].shape);
    if (node->op == HRF_OP_SHAPE || node->op == HRF_OP_SIZE || node->op == HRF_OP_EYE_LIKE)
        return work; /* their input's elements are not read */
    if (node->n_inputs > 0 && node->inputs[0] >= 0)
        work *= numbers_per_result(node, &graph->values[node->inputs[0]].shape);
    for (int32_t k = 0; k < node->n_inputs; k++)
        if (node->inputs[k] >= 0)
            work += positive_count(&graph->values[node->inputs[k]].shape);
    const double products = hrf_node_operations(graph, node);
    return products > work ? products : work;
}

static void hash_window(struct hrf_hash *hash, const struct hrf_window *w)
{
    for (int i = 0; i < HRF_MAX_SPATIAL; i++) {
        hrf_hash_int(hash, w->stride[i]);
        hrf_hash_int(hash, w->dilation[i]);
        if (w->auto_pad != HRF_PAD_EXPLICIT)
            continue;
        hrf_hash_int(hash, w->pad_begin[i]);
        hrf_hash_int(hash, w->pad_end[i]);
    }
    hrf_hash_int(hash, w->auto_pad);
    hrf_hash_int(hash, w->ceil_mode);
    hrf_hash_int(hash, w->count_include_pad);
}

/* Hashes the used attributes in the order of the bits of `uses`, so that equal attributes give
 * equal bytes. Left out are the kernel of a convolution, which the shape of its weights gives, and
 * the starts of a slice that has them as inputs. */
static void hash_attributes(struct hrf_hash *hash, const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    uint32_t uses = hrf_op_info(node->op)->uses;
    bool in_inputs = node->op == HRF_OP_SLICE && node->n_inputs > 1;
    if (uses & HRF_USE_WINDOW)
        hash_window(hash, &a->window);
    if ((uses & HRF_USE_WINDOW) && node->op != HRF_OP_CONV && node->op != HRF_OP_CONV_TRANSPOSE) {
        hrf_hash_int(hash, a->window.kernel[0]);
        hrf_hash_int(hash, a->window.kernel[1]);
    }
    if (uses & HRF_USE_GROUP)
        hrf_hash_int(hash, a->group);
    if (uses & HRF_USE_ACTIVATION)
        hrf_hash_int(hash, a->activation);
    if ((uses & HRF_USE_BOUNDS) || a->activation == HRF_ACT_CLIP) {
        hrf_hash_double(hash, (double)a->activation_min);
        hrf_hash_double(hash, (double)a->activation_max);
    }
    if ((uses & HRF_USE_ALPHA) || a->activation == HRF_ACT_LEAKY_RELU ||
        a->activation == HRF_ACT_HARD_SIGMOID)
        hrf_hash_double(hash, (double)a->alpha);
    if (hrf_node_has_prologue(node)) {
        hrf_hash_int(hash, a->prologue.activation);
        hrf_hash_double(hash, (double)a->prologue.low);
        hrf_hash_double(hash, (double)a->prologue.high);
        hrf_hash_double(hash, (double)a->prologue.slope);
    }
    if ((uses & HRF_USE_BETA) || a->activation == HRF_ACT_HARD_SIGMOID)
        hrf_hash_double(hash, (double)a->beta);
    if (uses & HRF_USE_EPSILON)
        hrf_hash_double(hash, (double)a->epsilon);
    if (uses & HRF_USE_BIAS)
        hrf_hash_double(hash, (double)a->bias);
    if (uses & HRF_USE_SIZE)
        hrf_hash_int(hash, a->size);
    if (node->op == HRF_OP_ATTENTION && hrf_attention_is_of_tokens(a)) {
        hrf_hash_int(hash, a->size);
        hrf_hash_int(hash, a->group);
        hrf_hash_bytes(hash, a->starts, 3 * sizeof a->starts[0]);
        hrf_hash_bytes(hash, a->steps, 3 * sizeof a->steps[0]);
    }
    if (uses & HRF_USE_TRANSPOSE)
        hrf_hash_int(hash, a->transpose_a + 2 * a->transpose_b);
    if (uses & HRF_USE_AXIS)
        hrf_hash_int(hash, twice_and(a->axis, a->legacy_axis));
    if (((uses & HRF_USE_AXES) || (uses & HRF_USE_SLICE)) && !in_inputs) {
        hrf_hash_int(hash, a->n_axes);
        hrf_hash_bytes(hash, a->axes, (size_t)a->n_axes * sizeof a->axes[0]);
    }
    if ((uses & HRF_USE_SLICE) && !in_inputs) {
        hrf_hash_bytes(hash, a->starts, (size_t)a->n_axes * sizeof a->starts[0]);
        hrf_hash_bytes(hash, a->ends, (size_t)a->n_axes * sizeof a->ends[0]);
        hrf_hash_bytes(hash, a->steps, (size_t)a->n_axes * sizeof a->steps[0]);
    }
    if ((uses & HRF_USE_SLICE) && a->n_parts > 0) {
        hrf_hash_int(hash, a->part);
        hrf_hash_int(hash, a->n_parts);
    }
    if (uses & HRF_USE_PADS) {
        hrf_hash_bytes(hash, a->pads, 2 * (size_t)a->n_axes * sizeof a->pads[0]);
        hrf_hash_double(hash, (double)a->value);
        if (a->pad_mode != HRF_PAD_CONSTANT)
            hrf_hash_int(hash, a->pad_mode);
    }
    if (uses & HRF_USE_KEEP_DIMS)
        hrf_hash_int(hash, a->keep_dims);
    if (uses & HRF_USE_ALLOW_ZERO)
        hrf_hash_int(hash, a->allow_zero);
    if (uses & HRF_USE_TO)
        hrf_hash_int(hash, a->to);
    if (uses & HRF_USE_FILL)
        hrf_hash_int(hash, a->fill);
    if ((uses & HRF_USE_FILL) && a->to == HRF_F32)
        hrf_hash_double(hash, (double)a->value);
    for (int i = 0; i < HRF_MAX_SPATIAL && (uses & HRF_USE_OUTPUT_SIZE); i++) {
        hrf_hash_int(hash, a->output_padding[i]);
        hrf_hash_int(hash, a->output_size[i]);
    }
    if (uses & HRF_USE_RESIZE) {
        const struct hrf_resize *r = &a->resize;
        hrf_hash_int(hash, (int64_t)r->mode + 8 * (int64_t)r->coordinates +
                               64 * (int64_t)r->rounding + 512 * (int64_t)r->policy);
        hrf_hash_double(hash, (double)r->cubic_a);
        hrf_hash_int(hash, r->exclude_outside + 2 * (int64_t)r->antialias);
        for (int32_t i = 0; i < a->n_axes && node->n_inputs > 1; i++)
            hrf_hash_int(hash, a->axes[i]);
        for (int i = 0; i < 4 && node->n_inputs == 1; i++) {
            hrf_hash_double(hash, r->scales[0] > 0 ? (double)r->scales[i] : 0);
            hrf_hash_int(hash, r->scales[0] > 0 ? 0 : r->sizes[i]);
        }
    }
    if (uses & HRF_USE_HEADS) {
        hrf_hash_int(hash, twice_and(a->group, a->exponential));
        hrf_hash_double(hash, (double)a->epsilon);
    }
    if (uses & HRF_USE_COLUMN_ROW_DEPTH)
        hrf_hash_int(hash, a->column_row_depth);
    if (uses & HRF_USE_SCALE) {
        hrf_hash_double(hash, (double)a->scale);
        hrf_hash_int(hash, a->causal);
    }
    if (uses & HRF_USE_FLAGS)
        hrf_hash_int(hash, a->exclusive + 2 * a->reverse + 4 * a->upper + 8 * a->truncated);
}

static void hash_value(struct hrf_hash *hash, const struct hrf_graph *graph, int32_t index,
                       const int32_t *position)
{
    if (index == HRF_NO_VALUE) {
        hrf_hash_text(hash, "none");
        return;
    }
    const struct hrf_value *value = &graph->values[index];
    if (value->data == NULL || value->producer >= 0) { /* identified by its producer */
        hrf_hash_int(hash, position[index]);
        return;
    }
    hrf_hash_text(hash, "constant");
    hrf_hash_int(hash, value->dtype);
    hrf_hash_int(hash, value->shape.rank);
    for (int32_t i = 0; i < value->shape.rank; i++)
        hrf_hash_int(hash, value->shape.dims[i]);
    hrf_hash_field(hash, value->data, (size_t)hrf_value_bytes(value));
}

enum hrf_status hrf_graph_hash(const struct hrf_graph *graph, char out[65], struct hrf_error *err)
{
    _Static_assert(HRF_HASH_HEX == 65, "the length in graph.h");
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_AUTO_FREE int32_t *position = hrf_calloc((size_t)graph->n_values, sizeof *position);
    HRF_CHECK_MEMORY(position != NULL, err, "out of memory for hashing '%s'", graph->name);
    HRF_TRY(hrf_hash_create(&hash, err));
    int32_t next = 0;
    hrf_hash_text(hash, "hires-flow graph 1");
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        const struct hrf_value *value = &graph->values[graph->inputs[i]];
        position[graph->inputs[i]] = ++next;
        hrf_hash_int(hash, value->dtype);
        hrf_hash_int(hash, value->shape.rank);
    }
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const struct hrf_node *node = &graph->nodes[i];
        hrf_hash_text(hash, hrf_op_name(node->op));
        hash_attributes(hash, node);
        hrf_hash_int(hash, node->n_inputs);
        for (int32_t k = 0; k < node->n_inputs; k++)
            hash_value(hash, graph, node->inputs[k], position);
        hrf_hash_int(hash, node->n_outputs);
        for (int32_t k = 0; k < node->n_outputs; k++)
            position[node->outputs[k]] = ++next;
    }
    for (int32_t i = 0; i < graph->n_outputs; i++)
        hash_value(hash, graph, graph->outputs[i], position);
    hrf_hash_hex(hash, out);
    return HRF_OK;
}
