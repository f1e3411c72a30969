/* fuzz_session.c - model files of any bytes that can be read are made ready and run on the
 * reference and on the processor, or refused. */
#include "engine/onnx/onnx.h"
#include "engine/run/session.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(const struct hrf_graph *graph, const char *device, enum hrf_precision precision)
{
    HRF_AUTO(hrf_session) session = NULL;
    struct hrf_error err;
    const struct hrf_session_config config = {
        .device = device, .precision = precision, .n_threads = 1, .memory_limit_bytes = 64 << 20
    };
    if (hrf_session_create(graph, &config, &session, &err) != HRF_OK)
        return;
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        const int64_t n = hrf_shape_count(hrf_session_input_shape(session, i));
        float *in = hrf_session_input(session, i);
        for (int64_t k = 0; k < n; k++)
            in[k] = (float)((k * 7 + 3) % 17 - 8) / 4;
    }
    if (hrf_session_run(session, &err) != HRF_OK)
        return; /* said no */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct hrf_shape image = { .rank = 4, .dims = { 1, 3, 9, 7 } };
    static const enum hrf_precision precisions[] = { HRF_FP32, HRF_BF16, HRF_FP16, HRF_FP32 };
    HRF_AUTO(hrf_graph) graph = NULL;
    struct hrf_error err;
    if (size == 0 || hrf_onnx_parse(data, size, "fuzz.onnx", &graph, &err) != HRF_OK)
        return 0;
    for (int32_t i = 0; i < graph->n_inputs; i++)
        if (hrf_graph_set_input_shape(graph, i, &image, &err) != HRF_OK)
            continue; /* it has its own */
    graph->bounds = (struct hrf_bounds){ .memory_bytes = 64 << 20, .operations = 3e6 };
    if (hrf_graph_infer_shapes(graph, &err) != HRF_OK)
        return 0;
    for (int32_t i = 0; i < graph->n_inputs; i++) /* the bounds are those of one image */
        if (graph->values[graph->inputs[i]].shape.dims[0] > 2)
            return 0;
    run(graph, "ref", precisions[data[size - 1] & 3]);
    run(graph, "cpu", precisions[data[size - 1] & 3]);
    return 0;
}
