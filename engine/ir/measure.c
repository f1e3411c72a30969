/* measure.c - operation counts of nodes and the content hash of a graph. */
#include "engine/ir/op.h"
#include "engine/ir/resize.h"

#include "base/hash.h"

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
    if (node->op != HRF_OP_ATTENTION && v->rank == 3) /* heads in the channels */
        return 4 * positive_count(q) / (double)q->dims[2] *
               (double)(window > 0 ? window : v->dims[1]) *
               (double)(node->attributes.attention.heads * node->attributes.attention.head_size);
    const double d = (double)q->dims[q->rank - 1], e = (double)v->dims[v->rank - 1];
    const double count = (double)hrf_shape_count(q);
    return count > 0 && d > 0 ? 2 * count / d * (double)v->dims[v->rank - 2] * (d + e) : 0;
}

double hrf_node_operations(const struct hrf_graph *graph, const struct hrf_node *node)
{
    if (HRF_OP_HAS(node->op, performer.heads))
        return performer_operations(graph, node);
    if (hrf_op_is_attention(node->op) || node->op == HRF_OP_ATTENTION_PART)
        return attention_operations(graph, node);
    if (node->op == HRF_OP_ATTENTION_GRADIENT) /* five products */
        return 10 * positive_count(&graph->values[node->inputs[HRF_ATTENTION_Q]].shape) *
               (double)graph->values[node->inputs[HRF_ATTENTION_V]]
                   .shape.dims[graph->values[node->inputs[HRF_ATTENTION_V]].shape.rank - 2];
    if (node->op == HRF_OP_CONV_WEIGHT_GRADIENT)
        return 2 * positive_count(&graph->values[node->inputs[1]].shape) *
               positive_count(&graph->values[node->outputs[0]].shape) /
               (double)graph->values[node->outputs[0]].shape.dims[0];
    if (hrf_op_info(node->op)->op_class != HRF_CLASS_PRODUCT)
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
    else if (node->op == HRF_OP_TOKEN_PRODUCT)
        inner = (double)w->dims[1];
    else if (node->op == HRF_OP_GEMM)
        inner = (double)a->dims[node->attributes.gemm.transpose_a ? 0 : a->rank - 1];
    else
        inner = (double)a->dims[a->rank - 1];
    return 2 * count * inner;
}

/* Input elements that one element of the result depends on. */
static double numbers_per_result(const struct hrf_node *node, const struct hrf_shape *x)
{
    const struct hrf_attributes *a = &node->attributes;
    const bool is_pool = hrf_op_info(node->op)->op_class == HRF_CLASS_POOL ||
                         node->op == HRF_OP_MAX_POOL_GRADIENT;
    if (is_pool && HRF_OP_HAS(node->op, window.kernel))
        return (double)a->window.kernel[0] * (double)a->window.kernel[1];
    if (node->op == HRF_OP_LRN && x->rank > 1)
        return (double)(a->lrn.size < x->dims[1] ? a->lrn.size : x->dims[1]);
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

/* Hashes the attributes that were read and those that passes have set. It leaves out the kernel of
 * a convolution, which is the shape of its weights, and attributes that inputs carry. */
static void hash_attributes(struct hrf_hash *hash, const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    const struct hrf_op_info *info = hrf_op_info(node->op);
    const bool in_inputs = info->first_attribute_input > 0 &&
                           node->n_inputs > info->first_attribute_input;
    for (int32_t i = 0; i < info->n_attributes; i++) {
        const struct hrf_attribute *row = &info->attributes[i];
        if (row->is_derived || (row->input > 0 && in_inputs) || (row->is_of_inputs && !in_inputs) ||
            (row->type == HRF_ATTRIBUTE_PADS && a->window.auto_pad != HRF_PAD_EXPLICIT))
            continue;
        hrf_hash_field(hash, hrf_attribute_of(a, row), hrf_attribute_bytes(a, row));
    }
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
