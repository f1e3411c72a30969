/* What a graph costs, counted from its shapes; and that as a table or as JSON. */
#include "engine/model/model.h"

#include "base/json.h"

static int64_t value_bytes(const struct hrf_value *value)
{
    int64_t count = hrf_shape_count(&value->shape);
    return count < 0 ? 0 : count * (int64_t)hrf_dtype_size(value->dtype);
}

/* Constants are counted with the first node that uses them. */
static void count_parameters(const struct hrf_graph *graph, const struct hrf_node *node,
                             bool *counted, struct hrf_model_summary *summary,
                             struct hrf_model_layer *layer)
{
    for (int32_t k = 0; k < node->n_inputs; k++) {
        int32_t v = node->inputs[k];
        if (v == HRF_NO_VALUE || counted[v] || graph->values[v].data == NULL ||
            graph->values[v].producer >= 0 || graph->values[v].dtype != HRF_F32)
            continue;
        counted[v] = true;
        layer->n_parameters += hrf_shape_count(&graph->values[v].shape);
        summary->weight_bytes += value_bytes(&graph->values[v]);
    }
    summary->n_parameters += layer->n_parameters;
}

/* Shape arithmetic is not a layer, nor are weights in 8 bits: the result is known, nothing runs. */
static bool is_layer(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const bool is_weights = node->op == HRF_OP_DEQUANTIZE &&
                            graph->values[node->inputs[HRF_QUANTIZE_X]].data != NULL;
    return graph->values[node->outputs[0]].data == NULL && !is_weights;
}

enum hrf_status hrf_model_inspect(const struct hrf_graph *graph, struct hrf_model_summary *out,
                                  struct hrf_error *err)
{
    struct hrf_model_summary summary = { .batch = 1 };
    HRF_AUTO_FREE bool *counted = hrf_calloc((size_t)graph->n_values, sizeof *counted);
    HRF_AUTO_FREE struct hrf_model_layer *layers = hrf_calloc((size_t)graph->n_nodes,
                                                              sizeof *layers);
    if (graph->n_inputs > 0 && graph->values[graph->inputs[0]].shape.rank > 0)
        summary.batch = graph->values[graph->inputs[0]].shape.dims[0];
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const struct hrf_node *node = &graph->nodes[i];
        const struct hrf_value *value = &graph->values[node->outputs[0]];
        if (hrf_shape_count(&value->shape) < 0)
            return hrf_error_set(err, HRF_E_BUG, "node '%s' has no shape: infer shapes first",
                                 node->name);
        if (!is_layer(graph, node))
            continue;
        struct hrf_model_layer *layer = &layers[summary.n_layers++];
        *layer = (struct hrf_model_layer){ .name = node->name,
                                           .op = node->op,
                                           .shape = value->shape,
                                           .operations = hrf_node_operations(graph, node),
                                           .activation_bytes = value_bytes(value) };
        count_parameters(graph, node, counted, &summary, layer);
        summary.operations += layer->operations;
        summary.activation_bytes += layer->activation_bytes;
        if (layer->activation_bytes > summary.largest_layer_bytes)
            summary.largest_layer_bytes = layer->activation_bytes;
    }
    summary.gop_per_image = summary.operations / (double)summary.batch / 1e9;
    HRF_MOVE(summary.layers, layers);
    *out = summary;
    return HRF_OK;
}

void hrf_model_summary_release(struct hrf_model_summary *summary)
{
    hrf_free(summary->layers);
    *summary = (struct hrf_model_summary){ 0 };
}

static json_t *values_json(const struct hrf_graph *graph, const int32_t *indices, int32_t n)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < n; i++) {
        const struct hrf_value *value = &graph->values[indices[i]];
        json_t *entry = json_object();
        hrf_json_put_text(entry, "name", value->name);
        hrf_json_put_text(entry, "type", hrf_dtype_name(value->dtype));
        hrf_json_put(entry, "shape", hrf_json_ints(value->shape.dims, (size_t)value->shape.rank));
        hrf_json_add(array, entry);
    }
    return array;
}

static enum hrf_status print_json(const struct hrf_graph *graph, const struct hrf_model_summary *s,
                                  const char *note, FILE *out, struct hrf_error *err)
{
    json_t *layers = json_array();
    for (int32_t i = 0; i < s->n_layers; i++) {
        const struct hrf_model_layer *l = &s->layers[i];
        json_t *entry = json_object();
        hrf_json_put_text(entry, "name", l->name);
        hrf_json_put_text(entry, "op", hrf_op_name(l->op));
        hrf_json_put(entry, "shape", hrf_json_ints(l->shape.dims, (size_t)l->shape.rank));
        hrf_json_put_int(entry, "parameters", l->n_parameters);
        hrf_json_put_number(entry, "gop", l->operations / 1e9);
        hrf_json_put_int(entry, "activation_bytes", l->activation_bytes);
        hrf_json_add(layers, entry);
    }
    HRF_AUTO_JSON root = hrf_json_document();
    hrf_json_put_text(root, "name", graph->name);
    hrf_json_put(root, "inputs", values_json(graph, graph->inputs, graph->n_inputs));
    hrf_json_put(root, "outputs", values_json(graph, graph->outputs, graph->n_outputs));
    hrf_json_put(root, "layers", layers);
    hrf_json_put_int(root, "parameters", s->n_parameters);
    hrf_json_put_number(root, "gop_per_image", s->gop_per_image);
    hrf_json_put_int(root, "activation_bytes", s->activation_bytes);
    hrf_json_put_int(root, "largest_layer_bytes", s->largest_layer_bytes);
    hrf_json_put_int(root, "weight_bytes", s->weight_bytes);
    hrf_json_put_text(root, "note", note);
    if (json_dumpf(root, out, JSON_INDENT(2) | JSON_SORT_KEYS) != 0 || fputc('\n', out) == EOF)
        return hrf_error_set(err, HRF_E_EXTERNAL, "the summary of '%s' cannot be written",
                             graph->name);
    return HRF_OK;
}

static void print_values(const struct hrf_graph *graph, const char *kind, const int32_t *indices,
                         int32_t n, FILE *out)
{
    for (int32_t i = 0; i < n; i++) {
        char shape[128];
        hrf_shape_text(&graph->values[indices[i]].shape, shape);
        fprintf(out, "%-8s %s  %s %s\n", kind, graph->values[indices[i]].name,
                hrf_dtype_name(graph->values[indices[i]].dtype), shape);
    }
}

static enum hrf_status print_table(const struct hrf_graph *graph, const struct hrf_model_summary *s,
                                   const char *note, FILE *out, struct hrf_error *err)
{
    fprintf(out, "%-40s %-20s %-18s %12s %10s %12s\n", "layer", "operator", "output", "parameters",
            "GOP", "output bytes");
    for (int32_t i = 0; i < s->n_layers; i++) {
        const struct hrf_model_layer *l = &s->layers[i];
        char shape[128];
        hrf_shape_text(&l->shape, shape);
        fprintf(out, "%-40s %-20s %-18s %12lld %10.4f %12lld\n", l->name, hrf_op_name(l->op), shape,
                (long long)l->n_parameters, l->operations / 1e9, (long long)l->activation_bytes);
    }
    fprintf(out, "\n");
    fprintf(out, "model    %s\n", graph->name);
    print_values(graph, "input", graph->inputs, graph->n_inputs, out);
    print_values(graph, "output", graph->outputs, graph->n_outputs, out);
    fprintf(out, "layers   %d\n", (int)s->n_layers);
    fprintf(out, "weights  %lld parameters, %.1f MB\n", (long long)s->n_parameters,
            (double)s->weight_bytes / 1e6);
    fprintf(out, "compute  %.3f GOP per image (%.3f GMAC)\n", s->gop_per_image,
            s->gop_per_image / 2);
    fprintf(out, "memory   %.1f MB in all layers' outputs, %.1f MB in the largest\n",
            (double)s->activation_bytes / 1e6, (double)s->largest_layer_bytes / 1e6);
    if (note[0] != '\0')
        fprintf(out, "note     %s\n", note);
    return ferror(out) ? hrf_error_set(err, HRF_E_EXTERNAL, "the summary of '%s' cannot be written",
                                       graph->name)
                       : HRF_OK;
}

enum hrf_status hrf_model_inspect_print(const struct hrf_graph *graph, bool json, FILE *out,
                                        struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) copy = NULL;
    HRF_TRY(hrf_graph_copy(graph, &copy, err));
    bool batch_open = false, size_open = false;
    for (int32_t i = 0; i < copy->n_inputs; i++) {
        struct hrf_shape *shape = &copy->values[copy->inputs[i]].shape;
        for (int32_t k = 0; k < shape->rank; k++)
            if (shape->dims[k] < 0) {
                *(k == 0 ? &batch_open : &size_open) = true;
                shape->dims[k] = k == 0 ? 1 : 224;
            }
    }
    const char *note = size_open    ? "the model leaves the image size open: 224 was taken"
                       : batch_open ? "the model leaves the batch open: 1 was taken"
                                    : "";
    HRF_TRY(hrf_graph_infer_shapes(copy, err));
    __attribute__((cleanup(hrf_model_summary_release))) struct hrf_model_summary summary = { 0 };
    HRF_TRY(hrf_model_inspect(copy, &summary, err));
    return json ? print_json(copy, &summary, note, out, err)
                : print_table(copy, &summary, note, out, err);
}
