/* float_outputs.c - replaces 8-bit outputs of a model by the float32 values that its QUANTIZE
 * rounds, so that outputs have the same type on every device and in every layout and precision.
 * hrf_graph_output_from_float() converts them back to integers. */
#include "engine/passes/passes.h"

static enum hrf_status add_float(struct hrf_graph *graph, int32_t output, int32_t x,
                                 struct hrf_error *err)
{
    const struct hrf_value *value = &graph->values[graph->outputs[output]];
    const struct hrf_shape shape = value->shape;
    HRF_AUTO_FREE char *name = hrf_format("%s.float32", value->name);
    int32_t y;
    HRF_TRY(hrf_graph_add_value(graph, name, HRF_F32, &shape, NULL, &y, err));
    HRF_TRY(hrf_graph_add_node(graph, HRF_OP_IDENTITY, name, &x, 1, &y, 1, NULL, err));
    graph->outputs[output] = y;
    return HRF_OK;
}

enum hrf_status hrf_pass_float_outputs(struct hrf_graph *graph, struct hrf_error *err)
{
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        const struct hrf_value *value = &graph->values[graph->outputs[i]];
        if (value->data != NULL || value->dtype == HRF_F32)
            continue;
        const struct hrf_node *node = value->producer >= 0 ? &graph->nodes[value->producer] : NULL;
        if (node == NULL || node->op != HRF_OP_QUANTIZE)
            return hrf_error_set(
                err, HRF_E_UNSUPPORTED,
                "output %d of the model is %s, from %s%s%s%s%s: outputs are float32, "
                "or int8 or uint8 from a QuantizeLinear; export the model without it",
                (int)i, hrf_dtype_name(value->dtype), node != NULL ? "node '" : "its input",
                node != NULL ? node->name : "", node != NULL ? "' (" : "",
                node != NULL ? hrf_op_name(node->op) : "", node != NULL ? ")" : "");
        HRF_TRY(add_float(graph, i, node->inputs[HRF_QUANTIZE_X], err));
    }
    return HRF_OK;
}
