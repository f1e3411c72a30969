/* narrow_tokens.c - stores in 16 bits what passes between the operators of a transformer in INT8.
 */
#include "engine/ir/op.h"
#include "engine/ir/readers.h"
#include "engine/passes/lower.h"

struct narrowing {
    struct hrf_graph *graph;
    struct hrf_readers readers;
    bool *is_narrow; /* [n_values] */
};

/* Moves of one value, whose type is that of what they give. */
static bool is_move_of_one(const struct hrf_node *node)
{
    return hrf_op_is_move(node->op) && node->op != HRF_OP_CONCAT && node->op != HRF_OP_PAD;
}

/* True for an attention that has all keys at once. If ranks added keys part by part, in float32,
 * the bytes would differ from those of one device. */
static bool is_attention_at_once(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return hrf_op_is_attention(node->op) && !hrf_attention_is_long(graph, node);
}

static bool gives_tokens(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return node->op == HRF_OP_LAYER_NORM || node->op == HRF_OP_RMS_NORM ||
           node->op == HRF_OP_SWIGLU || node->op == HRF_OP_TOKEN_PRODUCT || is_move_of_one(node) ||
           is_attention_at_once(graph, node);
}

static bool takes_tokens(const struct hrf_graph *graph, const struct hrf_node *node, int32_t input)
{
    if (is_attention_at_once(graph, node))
        return input <= HRF_ATTENTION_V;
    return input == 0 &&
           (node->op == HRF_OP_SWIGLU || node->op == HRF_OP_TOKEN_PRODUCT || is_move_of_one(node));
}

static bool may_be_narrow(const struct narrowing *n, int32_t value)
{
    const struct hrf_value *v = &n->graph->values[value];
    if (v->data != NULL || v->dtype != HRF_F32 || v->producer < 0 ||
        !gives_tokens(n->graph, &n->graph->nodes[v->producer]) ||
        hrf_readers_count(&n->readers, value) == 0 || n->readers.is_output[value])
        return false;
    for (int32_t i = n->readers.first[value]; i < n->readers.first[value + 1]; i++) {
        const struct hrf_node *node = &n->graph->nodes[n->readers.nodes[i]];
        for (int32_t k = 0; k < node->n_inputs; k++)
            if (node->inputs[k] == value && !takes_tokens(n->graph, node, k))
                return false;
    }
    return true;
}

/* Values of which all are narrow or none: a move's two, an attention's queries, keys and values. */
static int32_t find_group(const struct hrf_node *node, int32_t group[3])
{
    if (is_move_of_one(node)) {
        group[0] = node->inputs[0];
        group[1] = node->outputs[0];
        return 2;
    }
    for (int32_t i = 0; i < 3 && hrf_op_is_attention(node->op); i++)
        group[i] = node->inputs[i];
    return hrf_op_is_attention(node->op) ? 3 : 0;
}

static void keep_groups_together(struct narrowing *n)
{
    bool has_changed = true;
    while (has_changed) {
        has_changed = false;
        for (int32_t i = 0; i < n->graph->n_nodes; i++) {
            int32_t group[3], n_narrow = 0;
            const int32_t size = find_group(&n->graph->nodes[i], group);
            for (int32_t k = 0; k < size; k++)
                n_narrow += n->is_narrow[group[k]];
            for (int32_t k = 0; k < size && n_narrow < size; k++) {
                has_changed |= n->is_narrow[group[k]];
                n->is_narrow[group[k]] = false;
            }
        }
    }
}

void hrf_pass_narrow_tokens(struct hrf_graph *graph, enum hrf_dtype type)
{
    struct narrowing n = { .graph = graph };
    HRF_AUTO_FREE bool *is_narrow = hrf_calloc((size_t)graph->n_values + 1, sizeof *is_narrow);
    hrf_readers_init(graph, &n.readers);
    n.is_narrow = is_narrow;
    for (int32_t v = 0; v < graph->n_values; v++)
        is_narrow[v] = may_be_narrow(&n, v);
    keep_groups_together(&n);
    for (int32_t v = 0; v < graph->n_values; v++)
        if (is_narrow[v])
            graph->values[v].dtype = type;
    hrf_readers_release(&n.readers);
}
