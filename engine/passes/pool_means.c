/* pool_means.c - replaces a mean over rows and columns, as PyTorch exports x.mean((2, 3)), by a
 * global average pool, which every precision and layout supports. A reduction would stay in float32
 * and could not be split over ranks. */
#include "engine/passes/match.h"
#include "engine/passes/passes.h"

static bool is_pool(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    if (node->op != HRF_OP_REDUCE_MEAN || graph->values[node->inputs[0]].shape.rank != 4 ||
        graph->values[node->inputs[0]].dtype != HRF_F32 || a->n_axes != 2)
        return false;
    return a->axes[0] + a->axes[1] == 5 && (a->axes[0] == 2 || a->axes[1] == 2);
}

/* Inserts the pool before node `at`, which becomes the operator that removes the axes of size 1. */
static enum hrf_status flatten(struct hrf_graph *graph, int32_t at, struct hrf_error *err)
{
    const struct hrf_attributes pool = hrf_attributes_default();
    const struct hrf_value *y = &graph->values[graph->nodes[at].outputs[0]];
    const struct hrf_shape shape = { .rank = 4,
                                     .dims = { y->shape.dims[0], y->shape.dims[1], 1, 1 } };
    HRF_AUTO_FREE char *name = hrf_format("%s.pool", graph->nodes[at].name);
    const int32_t input = graph->nodes[at].inputs[0];
    int32_t middle;
    HRF_TRY(hrf_match_insert(graph, at, HRF_OP_GLOBAL_AVERAGE_POOL, name, &input, 1, &shape, &pool,
                             &middle, err));
    struct hrf_node *node = &graph->nodes[at];
    node->op = HRF_OP_FLATTEN;
    node->attributes = hrf_attributes_default();
    node->attributes.axis = 1;
    node->inputs[0] = middle;
    return HRF_OK;
}

enum hrf_status hrf_pass_pool_means(struct hrf_graph *graph, struct hrf_error *err)
{
    const int32_t n_nodes = graph->n_nodes;
    for (int32_t n = 0; n < n_nodes; n++) {
        struct hrf_node *node = &graph->nodes[n];
        if (!is_pool(graph, node))
            continue;
        node->n_inputs = 1; /* newer opsets give the axes as an input */
        if (graph->values[node->outputs[0]].shape.rank == 4) {
            node->op = HRF_OP_GLOBAL_AVERAGE_POOL;
            node->attributes = hrf_attributes_default();
        } else {
            HRF_TRY(flatten(graph, n, err));
        }
    }
    hrf_graph_place_nodes(graph);
    return HRF_OK;
}

/* The mean of the tokens of [N][T][C] in a lowered graph. */
static bool is_mean_of_tokens(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    const struct hrf_value *x = &graph->values[node->inputs[0]];
    const bool is_float = hrf_dtype_is_float(x->dtype);
    return node->op == HRF_OP_REDUCE_MEAN && x->data == NULL && x->shape.rank == 3 && is_float &&
           x->shape.dims[1] > 1 && graph->values[node->outputs[0]].dtype == x->dtype &&
           a->n_axes == 1 && a->axes[0] == 1;
}

/* The second input of a RESHAPE. */
static enum hrf_status add_sizes(struct hrf_graph *graph, const struct hrf_shape *to, int32_t *out,
                                 struct hrf_error *err)
{
    const struct hrf_shape shape = { 1, { to->rank } };
    return hrf_graph_add_value(graph, "sizes", HRF_S64, &shape, to->dims, out, err);
}

/* The tokens as an image of one column: nothing moves in memory. */
static enum hrf_status pool_tokens(struct hrf_graph *graph, int32_t at, struct hrf_error *err)
{
    HRF_AUTO_FREE char *name = hrf_format("%s.pool", graph->nodes[at].name);
    const int32_t x = graph->nodes[at].inputs[0];
    const int64_t *dims = graph->values[x].shape.dims;
    const struct hrf_shape image = { 4, { dims[0], dims[2], dims[1], 1 } };
    const struct hrf_shape pooled = { 4, { dims[0], dims[2], 1, 1 } };
    const struct hrf_shape mean = graph->values[graph->nodes[at].outputs[0]].shape;
    const struct hrf_attributes plain = hrf_attributes_default();
    struct hrf_attributes as_pixels = plain;
    int32_t tokens[2] = { x }, pool[2], pixels;
    as_pixels.channels_last = true;
    HRF_TRY(add_sizes(graph, &image, &tokens[1], err));
    HRF_TRY(hrf_match_insert(graph, at, HRF_OP_RESHAPE, name, tokens, 2, &image, &as_pixels,
                             &pixels, err));
    HRF_TRY(hrf_match_insert(graph, at, HRF_OP_GLOBAL_AVERAGE_POOL, name, &pixels, 1, &pooled,
                             &plain, &pool[0], err));
    HRF_TRY(add_sizes(graph, &mean, &pool[1], err));
    hrf_match_become(&graph->nodes[at], HRF_OP_RESHAPE, pool, 2, &as_pixels);
    return HRF_OK;
}

enum hrf_status hrf_pass_pool_tokens(struct hrf_graph *graph, struct hrf_error *err)
{
    const int32_t n_nodes = graph->n_nodes;
    for (int32_t n = 0; n < n_nodes; n++)
        if (is_mean_of_tokens(graph, &graph->nodes[n]))
            HRF_TRY(pool_tokens(graph, n, err));
    hrf_graph_place_nodes(graph);
    return HRF_OK;
}
