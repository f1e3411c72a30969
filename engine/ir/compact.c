/* compact.c - removes unused nodes and values from a graph and renumbers the rest; checks the
 * invariants of a graph. */
#include "engine/ir/op.h"

/* The new index of each old one; HRF_NO_VALUE if it was removed. */
struct renumbering {
    bool *node_used, *value_used;
    int32_t *new_node, *new_value;
};

static void renumbering_release(struct renumbering *r)
{
    hrf_free(r->node_used);
    hrf_free(r->value_used);
    hrf_free(r->new_node);
    hrf_free(r->new_value);
}

static enum hrf_status renumbering_init(const struct hrf_graph *graph, struct renumbering *r,
                                        struct hrf_error *err)
{
    size_t n_nodes = (size_t)graph->n_nodes, n_values = (size_t)graph->n_values;
    r->node_used = hrf_calloc(n_nodes, sizeof *r->node_used);
    r->value_used = hrf_try_calloc(n_values, sizeof *r->value_used);
    r->new_node = hrf_alloc_array(n_nodes, sizeof *r->new_node);
    r->new_value = hrf_try_alloc_array(n_values, sizeof *r->new_value);
    HRF_CHECK_MEMORY(r->value_used != NULL && r->new_value != NULL, err,
                     "out of memory for compacting graph '%s'", graph->name);
    return HRF_OK;
}

static bool all_outputs_known(const struct hrf_graph *graph, const struct hrf_node *node)
{
    for (int32_t k = 0; k < node->n_outputs; k++)
        if (graph->values[node->outputs[k]].data == NULL)
            return false;
    return node->n_outputs > 0;
}

/* Removes inputs that carry attributes once all of them are constants, because shape inference or
 * the importer has read them. */
static void drop_attribute_inputs(const struct hrf_graph *graph, struct hrf_node *node)
{
    int32_t first = hrf_op_info(node->op)->first_attribute_input;
    if (first == 0 || node->n_inputs <= first)
        return;
    for (int32_t k = first; k < node->n_inputs; k++)
        if (node->inputs[k] != HRF_NO_VALUE && graph->values[node->inputs[k]].data == NULL)
            return;
    node->n_inputs = first;
}

/* Walks backwards, so that a node's users have been seen before it. */
static void mark_used(const struct hrf_graph *graph, struct renumbering *r)
{
    for (int32_t i = 0; i < graph->n_inputs; i++)
        r->value_used[graph->inputs[i]] = true;
    for (int32_t i = 0; i < graph->n_outputs; i++)
        r->value_used[graph->outputs[i]] = true;
    for (int32_t i = graph->n_nodes - 1; i >= 0; i--) {
        const struct hrf_node *node = &graph->nodes[i];
        bool used = false;
        for (int32_t k = 0; k < node->n_outputs; k++)
            used = used || r->value_used[node->outputs[k]];
        if (!used || all_outputs_known(graph, node))
            continue;
        r->node_used[i] = true;
        for (int32_t k = 0; k < node->n_outputs; k++)
            r->value_used[node->outputs[k]] = true;
        for (int32_t k = 0; k < node->n_inputs; k++)
            if (node->inputs[k] != HRF_NO_VALUE)
                r->value_used[node->inputs[k]] = true;
    }
}

static void move_nodes(struct hrf_graph *graph, const struct renumbering *r)
{
    int32_t n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_node *node = &graph->nodes[i];
        r->new_node[i] = r->node_used[i] ? n : -1;
        if (!r->node_used[i]) {
            hrf_free(node->name);
            hrf_free(node->inputs);
            hrf_free(node->outputs);
            continue;
        }
        for (int32_t k = 0; k < node->n_inputs; k++)
            if (node->inputs[k] != HRF_NO_VALUE)
                node->inputs[k] = r->new_value[node->inputs[k]];
        for (int32_t k = 0; k < node->n_outputs; k++)
            node->outputs[k] = r->new_value[node->outputs[k]];
        graph->nodes[n++] = *node;
    }
    graph->n_nodes = n;
}

static void number_values(const struct hrf_graph *graph, const struct renumbering *r)
{
    int32_t n = 0;
    for (int32_t i = 0; i < graph->n_values; i++)
        r->new_value[i] = r->value_used[i] ? n++ : HRF_NO_VALUE;
}

static void move_values(struct hrf_graph *graph, const struct renumbering *r)
{
    int32_t n = 0;
    for (int32_t i = 0; i < graph->n_values; i++) {
        struct hrf_value value = graph->values[i];
        if (!r->value_used[i]) {
            hrf_free(value.name);
            hrf_value_release_data(&value);
            continue;
        }
        value.producer = value.producer < 0 ? -1 : r->new_node[value.producer];
        if (value.producer < 0)
            hrf_value_own_data(&value);
        graph->values[n++] = value;
    }
    graph->n_values = n;
}

enum hrf_status hrf_graph_compact(struct hrf_graph *graph, struct hrf_error *err)
{
    for (int32_t i = 0; i < graph->n_nodes; i++)
        drop_attribute_inputs(graph, &graph->nodes[i]);
    return hrf_graph_remove_unused(graph, err);
}

enum hrf_status hrf_graph_remove_unused(struct hrf_graph *graph, struct hrf_error *err)
{
    __attribute__((cleanup(renumbering_release))) struct renumbering r = { 0 };
    HRF_TRY(renumbering_init(graph, &r, err));
    mark_used(graph, &r);
    number_values(graph, &r);
    move_nodes(graph, &r);
    move_values(graph, &r);
    for (int32_t i = 0; i < graph->n_inputs; i++)
        graph->inputs[i] = r.new_value[graph->inputs[i]];
    for (int32_t i = 0; i < graph->n_outputs; i++)
        graph->outputs[i] = r.new_value[graph->outputs[i]];
    return HRF_OK;
}

static enum hrf_status check_counts(const struct hrf_graph *graph, const struct hrf_node *node,
                                    struct hrf_error *err)
{
    (void)graph;
    if (node->op < 0 || node->op >= HRF_N_OPS)
        return hrf_error_set(err, HRF_E_BUG, "node '%s' has operator number %d", node->name,
                             (int)node->op);
    const struct hrf_op_info *info = hrf_op_info(node->op);
    if (node->n_inputs < info->min_inputs || node->n_inputs > info->max_inputs)
        return hrf_error_set(err, HRF_E_USER, "node '%s' (%s) has %d inputs; it takes %d to %d",
                             node->name, info->name, (int)node->n_inputs, (int)info->min_inputs,
                             (int)info->max_inputs);
    if (node->n_outputs < 1 || node->n_outputs > info->max_outputs)
        return hrf_error_set(err, HRF_E_USER, "node '%s' (%s) has %d outputs; it gives 1 to %d",
                             node->name, info->name, (int)node->n_outputs, (int)info->max_outputs);
    return HRF_OK;
}

/* `ready[v]`: value v is an input, a constant or the output of a node seen before. */
static enum hrf_status check_node(const struct hrf_graph *graph, int32_t index, bool *ready,
                                  struct hrf_error *err)
{
    const struct hrf_node *node = &graph->nodes[index];
    HRF_TRY(check_counts(graph, node, err));
    const struct hrf_op_info *info = hrf_op_info(node->op);
    for (int32_t k = 0; k < node->n_inputs; k++) {
        int32_t v = node->inputs[k];
        if (v == HRF_NO_VALUE && k >= info->min_inputs)
            continue;
        if (v < 0 || v >= graph->n_values)
            return hrf_error_set(err, HRF_E_USER, "node '%s' (%s) lacks its input %d", node->name,
                                 info->name, (int)k);
        if (!ready[v])
            return hrf_error_set(err, HRF_E_USER,
                                 "node '%s' (%s) uses '%s', which nothing before it produces",
                                 node->name, info->name, graph->values[v].name);
    }
    for (int32_t k = 0; k < node->n_outputs; k++) {
        int32_t v = node->outputs[k];
        if (v < 0 || v >= graph->n_values || graph->values[v].producer != index)
            return hrf_error_set(err, HRF_E_BUG, "node '%s' (%s) does not own its output %d",
                                 node->name, info->name, (int)k);
        if (ready[v])
            return hrf_error_set(err, HRF_E_USER, "value '%s' is produced twice",
                                 graph->values[v].name);
        ready[v] = true;
    }
    return HRF_OK;
}

enum hrf_status hrf_graph_check(const struct hrf_graph *graph, struct hrf_error *err)
{
    HRF_AUTO_FREE bool *ready = hrf_calloc((size_t)graph->n_values, sizeof *ready);
    for (int32_t i = 0; i < graph->n_values; i++) {
        int32_t producer = graph->values[i].producer;
        if (producer < -1 || producer >= graph->n_nodes)
            return hrf_error_set(err, HRF_E_BUG, "value '%s' has the producer %d of %d nodes",
                                 graph->values[i].name, (int)producer, (int)graph->n_nodes);
        ready[i] = producer < 0 && graph->values[i].data != NULL;
    }
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        int32_t v = graph->inputs[i];
        if (v < 0 || v >= graph->n_values || graph->values[v].producer >= 0 || ready[v])
            return hrf_error_set(err, HRF_E_USER, "graph input %d of '%s' is not one", (int)i,
                                 graph->name);
        ready[v] = true;
    }
    for (int32_t i = 0; i < graph->n_nodes; i++)
        HRF_TRY(check_node(graph, i, ready, err));
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        int32_t v = graph->outputs[i];
        if (v < 0 || v >= graph->n_values || !ready[v])
            return hrf_error_set(err, HRF_E_USER, "graph output %d of '%s' is never computed",
                                 (int)i, graph->name);
    }
    return HRF_OK;
}
