#include "engine/ir/readers.h"

void hrf_readers_release(struct hrf_readers *readers)
{
    hrf_free(readers->first);
    hrf_free(readers->nodes);
    hrf_free(readers->is_output);
    *readers = (struct hrf_readers){ 0 };
}

/* Computes where the readers of each value begin; returns the total number of readers. */
static int32_t find_firsts(const struct hrf_graph *graph, int32_t *first)
{
    int32_t n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        for (int32_t k = 0; k < graph->nodes[i].n_inputs; k++)
            if (graph->nodes[i].inputs[k] >= 0)
                first[graph->nodes[i].inputs[k]]++;
    for (int32_t v = 0; v <= graph->n_values; v++) {
        const int32_t count = first[v];
        first[v] = n;
        n += count;
    }
    return n;
}

void hrf_readers_init(const struct hrf_graph *graph, struct hrf_readers *out)
{
    const size_t n_values = (size_t)graph->n_values;
    struct hrf_readers r = {
        .n_values = graph->n_values,
        .first = hrf_calloc(n_values + 1, sizeof *r.first),
        .is_output = hrf_calloc(n_values + 1, sizeof *r.is_output),
    };
    HRF_AUTO_FREE int32_t *next = hrf_calloc(n_values + 1, sizeof *next);
    const int32_t n = find_firsts(graph, r.first);
    r.nodes = hrf_alloc_array((size_t)n + 1, sizeof *r.nodes);
    for (int32_t i = 0; i < graph->n_nodes; i++)
        for (int32_t k = 0; k < graph->nodes[i].n_inputs; k++) {
            const int32_t v = graph->nodes[i].inputs[k];
            if (v >= 0)
                r.nodes[r.first[v] + next[v]++] = i;
        }
    for (int32_t i = 0; i < graph->n_outputs; i++)
        r.is_output[graph->outputs[i]] = true;
    *out = r;
}

void hrf_readers_drop_constant(const struct hrf_readers *readers, struct hrf_graph *graph,
                               int32_t value)
{
    if (value < readers->n_values && hrf_readers_is_one(readers, value))
        hrf_graph_drop_constant(graph, value);
}
