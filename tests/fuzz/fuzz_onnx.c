/* fuzz_onnx.c - model files of any bytes are read or refused; what is read can be inferred,
 * hashed and compacted without harm. */
#include "engine/onnx/onnx.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(struct hrf_graph *graph)
{
    static const struct hrf_shape image = { .rank = 4, .dims = { 1, 2, 5, 7 } };
    struct hrf_error err;
    char hash[65];
    for (int32_t i = 0; i < graph->n_inputs; i++)
        if (hrf_graph_set_input_shape(graph, i, &image, &err) != HRF_OK)
            break;
    if (hrf_graph_infer_shapes(graph, &err) == HRF_OK)
        for (int32_t i = 0; i < graph->n_nodes; i++)
            (void)hrf_node_operations(graph, &graph->nodes[i]);
    if (hrf_graph_hash(graph, hash, &err) != HRF_OK || hrf_graph_compact(graph, &err) != HRF_OK ||
        hrf_graph_check(graph, &err) != HRF_OK)
        __builtin_trap(); /* what was read must stay sound */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hrf_graph *graph = NULL;
    struct hrf_error err;
    if (hrf_onnx_parse(data, size, "fuzz.onnx", &graph, &err) == HRF_OK)
        use(graph);
    hrf_graph_destroy(graph);
    return 0;
}
