/* pixel_stride.c - which values get a pixel stride, and which must be dense (pixel_stride.h). */
#include "engine/plan/pixel_stride.h"

enum {
    BAD_BYTES = 4096, /* from pixel to pixel: a first-level cache of 64 lines a way */
    SLACK = 16,       /* floats: one line of the caches */
};

static bool would_gain(const struct hrf_value *value)
{
    return value->dtype == HRF_F32 && value->data == NULL && value->producer >= 0 &&
           value->shape.rank == 4 && hrf_shape_count(&value->shape) > 0 &&
           value->shape.dims[1] * (int64_t)sizeof(float) % BAD_BYTES == 0;
}

/* Whoever writes or reads a value with a pixel stride must take it, or it has none. */
static void drop_refused(struct hrf_graph *graph, const struct hrf_node *node,
                         hrf_accepts_pixel_stride *takes)
{
    for (int32_t k = -1; k < node->n_inputs; k++) {
        const int32_t value = k < 0 ? node->outputs[0] : node->inputs[k];
        if (value >= 0 && graph->values[value].pixel_stride > 0 && !takes(graph, node, k))
            graph->values[value].pixel_stride = 0;
    }
}

void hrf_pixel_stride_set(struct hrf_graph *graph, hrf_accepts_pixel_stride *takes)
{
    for (int32_t v = 0; v < graph->n_values; v++)
        if (would_gain(&graph->values[v]))
            graph->values[v].pixel_stride = graph->values[v].shape.dims[1] + SLACK;
    for (int32_t n = 0; n < graph->n_nodes; n++)
        drop_refused(graph, &graph->nodes[n], takes);
    hrf_pixel_stride_settle(graph);
}

static void make_dense(struct hrf_graph *graph, const int32_t *values, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (values[i] >= 0)
            graph->values[values[i]].pixel_stride = 0;
}

/* Put in for the ranks: images are looked into at places that are not the kernel's choice. */
static bool wants_dense(const struct hrf_node *node)
{
    return node->op >= HRF_OP_EXCHANGE;
}

/* Whether there was nothing to do. */
static bool match_residuals(struct hrf_graph *graph)
{
    bool matched = true;
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const struct hrf_node *node = &graph->nodes[n];
        if (node->op != HRF_OP_CONV || node->n_inputs <= HRF_CONV_RESIDUAL ||
            node->inputs[HRF_CONV_RESIDUAL] < 0)
            continue;
        struct hrf_value *residual = &graph->values[node->inputs[HRF_CONV_RESIDUAL]];
        struct hrf_value *y = &graph->values[node->outputs[0]];
        if (residual->pixel_stride == y->pixel_stride)
            continue;
        residual->pixel_stride = y->pixel_stride = 0;
        matched = false;
    }
    return matched;
}

void hrf_pixel_stride_settle(struct hrf_graph *graph)
{
    make_dense(graph, graph->inputs, graph->n_inputs);
    make_dense(graph, graph->outputs, graph->n_outputs);
    for (int32_t n = 0; n < graph->n_nodes; n++)
        if (wants_dense(&graph->nodes[n])) {
            make_dense(graph, graph->nodes[n].inputs, graph->nodes[n].n_inputs);
            make_dense(graph, graph->nodes[n].outputs, graph->nodes[n].n_outputs);
        }
    while (!match_residuals(graph))
        ;
}
