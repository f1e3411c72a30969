/* mark_second_outputs.c - marks the BatchNormalization of pre-activation networks as a second
 * output of the convolution before it. That convolution's own output is the residual stream, which
 * must be stored in any case; writing the normalised form in the same pass saves a pass over
 * memory.
 */
#include "engine/passes/passes.h"

#include "engine/ir/readers.h"

static bool has_constants(const struct hrf_graph *graph, const struct hrf_node *norm)
{
    for (int32_t i = 1; i <= 4; i++)
        if (graph->values[norm->inputs[i]].data == NULL ||
            graph->values[norm->inputs[i]].dtype != HRF_F32)
            return false;
    return true;
}

/* The CONV that the node may be a second output of; NULL: none. A value that nobody else reads
 * would not have to be stored, and has no second one. */
static const struct hrf_node *first_of(const struct hrf_graph *graph,
                                       const struct hrf_readers *readers,
                                       const struct hrf_node *norm)
{
    if (norm->op != HRF_OP_BATCH_NORM || !has_constants(graph, norm))
        return NULL;
    const struct hrf_value *x = &graph->values[norm->inputs[0]];
    if (x->producer < 0 || x->data != NULL || x->shape.rank != 4 ||
        hrf_readers_is_one(readers, norm->inputs[0]))
        return NULL;
    const struct hrf_node *conv = &graph->nodes[x->producer];
    return conv->op == HRF_OP_CONV ? conv : NULL;
}

void hrf_pass_mark_second_outputs(struct hrf_graph *graph, const struct hrf_kernel_table *kernels)
{
    HRF_AUTO_RELEASE(hrf_readers) readers = { 0 };
    HRF_AUTO_FREE bool *has_second = hrf_calloc((size_t)graph->n_nodes + 1, sizeof *has_second);
    hrf_readers_init(graph, &readers);
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        struct hrf_node *norm = &graph->nodes[n];
        const struct hrf_node *conv = first_of(graph, &readers, norm);
        const int32_t at = conv != NULL ? graph->values[conv->outputs[0]].producer : -1;
        if (conv == NULL || has_second[at] || !hrf_kernels_take_norm(kernels, graph, conv, norm))
            continue;
        has_second[at] = true;
        norm->attributes.is_second = true;
        if (n != at + 1)
            norm->before = at + 1;
    }
    hrf_graph_place_nodes(graph);
}
