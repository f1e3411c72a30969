/* own_pairs.c - simplifies what lies between pairs of QUANTIZE and DEQUANTIZE in a model that was
 * quantised elsewhere, without changing a result: pairs that round nothing, and functions of one
 * 8-bit value, which are tables of 256 results. */
#include "engine/passes/lower_private.h"
#include "engine/passes/match.h"
#include "engine/passes/passes.h"

#include "engine/ir/op.h"

#include <string.h>

/* ---- pairs that round nothing ---- */

/* True for a node each element of whose result is one of its inputs', or 0. */
static bool selects(const struct hrf_node *node)
{
    return node->op == HRF_OP_CONCAT ||
           (hrf_lower_keeps_scale(node->op) &&
            (node->op != HRF_OP_PAD || node->attributes.pad.value == 0));
}

/* The 8-bit value whose form describes the result exactly; -1. holds[v] is that of value v. */
static int32_t form_held(const struct hrf_graph *graph, const struct hrf_node *node,
                         const int32_t *holds)
{
    const int32_t n = node->op == HRF_OP_CONCAT ? node->n_inputs : 1;
    if (!selects(node))
        return -1;
    for (int32_t k = 0; k < n; k++)
        if (holds[node->inputs[k]] < 0 ||
            !hrf_lower_same_form(&graph->values[holds[node->inputs[k]]],
                                 &graph->values[holds[node->inputs[0]]]))
            return -1;
    return holds[node->inputs[0]];
}

/* The value that the pair of the DEQUANTIZE rounds, if rounding does not change it; -1
 * otherwise. */
static int32_t find_unrounded(const struct hrf_graph *graph, const struct hrf_node *node,
                              const int32_t *holds)
{
    const struct hrf_value *narrow = &graph->values[node->inputs[HRF_QUANTIZE_X]];
    const struct hrf_node *quantize = narrow->producer >= 0 ? &graph->nodes[narrow->producer]
                                                            : NULL;
    if (quantize == NULL || quantize->op != HRF_OP_QUANTIZE ||
        !(narrow->quantization.scale >= 0x1p-100f && narrow->quantization.scale <= 0x1p100f))
        return -1;
    const int32_t x = quantize->inputs[HRF_QUANTIZE_X];
    return holds[x] >= 0 && hrf_lower_same_form(&graph->values[holds[x]], narrow) ? x : -1;
}

enum hrf_status hrf_pass_drop_pairs(struct hrf_graph *graph, struct hrf_error *err)
{
    HRF_AUTO_FREE int32_t *holds = hrf_alloc_array((size_t)graph->n_values + 1, sizeof *holds);
    const struct hrf_attributes plain = hrf_attributes_default();
    for (int32_t v = 0; v < graph->n_values; v++)
        holds[v] = -1;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_node *node = &graph->nodes[i];
        if (node->op != HRF_OP_DEQUANTIZE) {
            holds[node->outputs[0]] = node->n_outputs == 1 ? form_held(graph, node, holds) : -1;
            continue;
        }
        const int32_t same = find_unrounded(graph, node, holds);
        holds[node->outputs[0]] = same >= 0 ? holds[same] : node->inputs[HRF_QUANTIZE_X];
        if (same >= 0)
            hrf_match_become(node, HRF_OP_IDENTITY, &same, 1, &plain);
    }
    return hrf_pass_fold_constants(graph, err);
}

/* ---- functions of one 8-bit value ---- */

enum { MOST_NODES = 32 };

/* The nodes, in order, that make a value of the 8-bit value `base` alone. */
struct function {
    const struct hrf_graph *graph;
    int32_t base; /* -1: none met yet */
    int32_t nodes[MOST_NODES], n_nodes;
};

static const struct hrf_node *producer_of(const struct hrf_graph *graph, int32_t value)
{
    const struct hrf_value *v = &graph->values[value];
    return v->producer >= 0 && v->data == NULL ? &graph->nodes[v->producer] : NULL;
}

/* The value by which the LOOKUP that computes `value` is indexed, or the value itself. */
static int32_t base_of(const struct hrf_graph *graph, int32_t value)
{
    const struct hrf_node *lookup = producer_of(graph, value);
    return lookup != NULL && lookup->op == HRF_OP_LOOKUP ? lookup->inputs[0] : value;
}

static bool add_node(struct function *f, int32_t node)
{
    if (f->n_nodes == MOST_NODES)
        return false;
    f->nodes[f->n_nodes++] = node;
    return true;
}

static bool is_of_each_number(enum hrf_op op)
{
    return (hrf_op_is_unary(op) && op != HRF_OP_LOOKUP) || hrf_op_is_binary(op);
}

/* Adds the nodes that make the value, which are `most` deep at most; false: there are more, or it
 * is not made of one 8-bit value alone. */
static bool collect(struct function *f, int32_t value, int32_t most)
{
    const struct hrf_value *v = &f->graph->values[value];
    const struct hrf_node *node = producer_of(f->graph, value);
    if (v->data != NULL)
        return v->dtype == HRF_F32 && hrf_shape_count(&v->shape) == 1;
    if (node == NULL || node->n_outputs != 1 || most == 0)
        return false;
    for (int32_t i = 0; i < f->n_nodes; i++)
        if (f->nodes[i] == v->producer)
            return true;
    if (node->op == HRF_OP_DEQUANTIZE) {
        const int32_t base = base_of(f->graph, node->inputs[HRF_QUANTIZE_X]);
        f->base = f->base < 0 ? base : f->base;
        return f->base == base && hrf_shape_equal(&v->shape, &f->graph->values[base].shape) &&
               add_node(f, v->producer);
    }
    if (!is_of_each_number(node->op))
        return false;
    for (int32_t k = 0; k < node->n_inputs; k++)
        if (node->inputs[k] >= 0 && !collect(f, node->inputs[k], most - 1))
            return false;
    return f->base >= 0 && hrf_shape_equal(&v->shape, &f->graph->values[f->base].shape) &&
           add_node(f, v->producer);
}

/* A constant of the function's graph: one of the model, or all 256 results of what is there. */
static enum hrf_status add_known(const struct function *f, int32_t value, struct hrf_graph *to,
                                 int32_t *out, struct hrf_error *err)
{
    const struct hrf_value *v = &f->graph->values[value];
    const struct hrf_shape all = { .rank = 1, .dims = { 256 } };
    uint8_t bytes[256];
    if (v->data != NULL)
        return hrf_graph_share_value(to, v, v->name, out, err);
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    if (value != f->base)
        memcpy(bytes, f->graph->values[producer_of(f->graph, value)->inputs[1]].data, 256);
    return hrf_graph_add_value(to, v->name, v->dtype, &all, bytes, out, err);
}

static enum hrf_status copy_node(const struct function *f, const struct hrf_node *node,
                                 struct hrf_graph *to, int32_t *values, struct hrf_error *err)
{
    const struct hrf_shape unknown = { .rank = -1 };
    const int32_t y = node->outputs[0];
    HRF_AUTO_FREE int32_t *inputs = hrf_alloc_array((size_t)node->n_inputs + 1, sizeof *inputs);
    for (int32_t k = 0; k < node->n_inputs; k++) {
        inputs[k] = node->inputs[k];
        if (inputs[k] >= 0 && values[inputs[k]] < 0)
            HRF_TRY(add_known(f, inputs[k], to, &values[inputs[k]], err));
        inputs[k] = inputs[k] >= 0 ? values[inputs[k]] : HRF_NO_VALUE;
    }
    HRF_TRY(hrf_graph_add_value(to, f->graph->values[y].name, f->graph->values[y].dtype, &unknown,
                                NULL, &values[y], err));
    return hrf_graph_add_node(to, node->op, node->name, inputs, node->n_inputs, &values[y], 1,
                              &node->attributes, err);
}

/* Fills in all results, by the rules that compute a model's constants. has[0] is false if there is
 * no rule for one of the operators. */
static enum hrf_status fill_table(const struct function *f, const struct hrf_node *quantize,
                                  uint8_t table[256], bool *has, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) to = NULL;
    HRF_AUTO_FREE int32_t *values = hrf_alloc_array((size_t)f->graph->n_values + 1, sizeof *values);
    for (int32_t v = 0; v < f->graph->n_values; v++)
        values[v] = -1;
    HRF_TRY(hrf_graph_create(quantize->name, &to, err));
    for (int32_t i = 0; i < f->n_nodes; i++)
        HRF_TRY(copy_node(f, &f->graph->nodes[f->nodes[i]], to, values, err));
    HRF_TRY(copy_node(f, quantize, to, values, err));
    HRF_TRY(hrf_graph_set_io(to, NULL, 0, &values[quantize->outputs[0]], 1, err));
    HRF_TRY(hrf_graph_infer_shapes(to, err));
    const struct hrf_value *y = &to->values[values[quantize->outputs[0]]];
    *has = y->data != NULL && hrf_shape_count(&y->shape) == 256;
    if (*has)
        memcpy(table, y->data, 256);
    return HRF_OK;
}

static enum hrf_status make_lookup(struct hrf_graph *graph, struct hrf_node *quantize,
                                   struct hrf_error *err)
{
    struct function f = { .graph = graph, .base = -1 };
    const struct hrf_value *y = &graph->values[quantize->outputs[0]];
    const int32_t x = quantize->inputs[HRF_QUANTIZE_X];
    if (y->data != NULL || !(y->quantization.scale > 0) || graph->values[x].data != NULL ||
        !collect(&f, x, MOST_NODES))
        return HRF_OK;
    if (f.n_nodes == 1 && hrf_lower_same_form(&graph->values[f.base], y))
        return HRF_OK; /* nothing but a pair, which hrf_pass_drop_pairs() drops */
    uint8_t table[256];
    bool has = false;
    HRF_TRY(fill_table(&f, quantize, table, &has, err));
    if (!has)
        return HRF_OK;
    const struct hrf_shape all = { .rank = 1, .dims = { 256 } };
    const struct hrf_attributes plain = hrf_attributes_default();
    int32_t inputs[2] = { f.base };
    HRF_AUTO_FREE char *name = hrf_format("%s.table", quantize->name);
    HRF_TRY(hrf_graph_add_value(graph, name, y->dtype, &all, table, &inputs[1], err));
    hrf_match_become(quantize, HRF_OP_LOOKUP, inputs, 2, &plain);
    return HRF_OK;
}

enum hrf_status hrf_pass_make_lookups(struct hrf_graph *graph, struct hrf_error *err)
{
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op == HRF_OP_QUANTIZE)
            HRF_TRY(make_lookup(graph, &graph->nodes[i], err));
    return hrf_graph_compact(graph, err);
}
