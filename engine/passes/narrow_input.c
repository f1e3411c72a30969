/* narrow_input.c - gives the network's input the type that the network computes in, so that the
 * reader of the pixels rounds them and no float32 copy of a batch is needed. */
#include "engine/ir/op.h"
#include "engine/passes/lower.h"

/* The only node that reads the value; NULL if there is none or more than one. */
static struct hrf_node *only_reader(const struct hrf_graph *graph, int32_t value)
{
    struct hrf_node *found = NULL;
    int32_t n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        for (int32_t k = 0; k < graph->nodes[i].n_inputs; k++)
            if (graph->nodes[i].inputs[k] == value) {
                found = &graph->nodes[i];
                n++;
            }
    return n == 1 ? found : NULL;
}

static bool is_output(const struct hrf_graph *graph, int32_t value)
{
    for (int32_t i = 0; i < graph->n_outputs; i++)
        if (graph->outputs[i] == value)
            return true;
    return false;
}

/* Only one scale for all channels can become the quantization of the input. */
static bool narrows(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    if (node->op == HRF_OP_CAST)
        return hrf_dtype_is_half(y->dtype);
    return node->op == HRF_OP_QUANTIZE && hrf_dtype_is_byte(y->dtype) && y->quantization.scale > 0;
}

enum hrf_status hrf_pass_narrow_input(struct hrf_graph *graph, struct hrf_error *err)
{
    int32_t unused;
    if (graph->n_inputs != 1 || graph->values[graph->inputs[0]].dtype != HRF_F32 ||
        is_output(graph, graph->inputs[0]))
        return HRF_OK;
    struct hrf_node *reader = only_reader(graph, graph->inputs[0]);
    if (reader == NULL || !narrows(graph, reader) || is_output(graph, reader->outputs[0]))
        return HRF_OK;
    const int32_t narrow = reader->outputs[0];
    const struct hrf_shape shape = graph->values[narrow].shape;
    HRF_AUTO_FREE char *name = hrf_format("%s.unused", graph->values[narrow].name);
    HRF_TRY(
        hrf_graph_add_value(graph, name, graph->values[narrow].dtype, &shape, NULL, &unused, err));
    reader->outputs[0] = unused; /* unread, so that compaction removes the node */
    graph->inputs[0] = narrow;
    return hrf_graph_compact(graph, err);
}
