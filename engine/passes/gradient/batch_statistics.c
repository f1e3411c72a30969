/* batch_statistics.c - BATCH_NORM by the statistics of the batch, as while a network is trained
 * (gradient.h). Its gradient is that of the operators it is made of, so that it is exact however
 * these are divided. */
#include "engine/passes/gradient/gradient.h"
#include "engine/passes/match.h"

/* What is inserted before one node. */
struct insertion {
    struct hrf_graph *graph;
    int32_t at;
    enum hrf_status status;
    struct hrf_error *err;
};

static int32_t insert(struct insertion *i, enum hrf_op op, const struct hrf_attributes *attributes,
                      const struct hrf_shape *shape, int32_t u, int32_t v)
{
    const int32_t inputs[2] = { u, v };
    int32_t y = HRF_NO_VALUE;
    if (i->status != HRF_OK)
        return y;
    HRF_AUTO_FREE char *name = hrf_format("%s.batch_%d", i->graph->nodes[i->at].name,
                                          (int)i->graph->n_nodes);
    const struct hrf_attributes plain = hrf_attributes_default();
    i->status = hrf_match_insert(i->graph, i->at, op, name, inputs, v >= 0 ? 2 : 1, shape,
                                 attributes != NULL ? attributes : &plain, &y, i->err);
    return y;
}

static int32_t constant(struct insertion *i, enum hrf_dtype dtype, const struct hrf_shape *shape,
                        const void *data)
{
    int32_t index = HRF_NO_VALUE;
    if (i->status == HRF_OK)
        i->status = hrf_graph_add_value(i->graph, "batch.constant", dtype, shape, data, &index,
                                        i->err);
    return index;
}

/* The mean over all axes but the channels. Of a graph that computes with a part of the batch, the
 * parts add up over the groups that have the others: `count` numbers a channel in all. */
static int32_t mean_of(struct insertion *i, int32_t x, const struct hrf_shape *of_channels,
                       int64_t count)
{
    const struct hrf_shape scalar = { .rank = 0 };
    const float share = (float)(1 / (double)count);
    struct hrf_attributes all = hrf_attributes_default();
    all.keep_dims = true;
    for (int32_t k = 0; k < of_channels->rank; k++)
        if (k != 1)
            all.axes[all.n_axes++] = k;
    if (i->graph->n_images == 0)
        return insert(i, HRF_OP_REDUCE_MEAN, &all, of_channels, x, HRF_NO_VALUE);
    const int32_t own = insert(i, HRF_OP_REDUCE_SUM, &all, of_channels, x, HRF_NO_VALUE);
    const int32_t sum = insert(i, HRF_OP_ALL_REDUCE, NULL, of_channels, own, HRF_NO_VALUE);
    return insert(i, HRF_OP_MUL, NULL, of_channels, sum, constant(i, HRF_F32, &scalar, &share));
}

/* y = scale (x - mean) / sqrt(variance + epsilon) + bias, with mean and variance over all axes but
 * the channels. The variance is the biased one, as in PyTorch. */
static enum hrf_status use_batch(struct hrf_graph *graph, int32_t at, struct hrf_batch_norm *out,
                                 struct hrf_error *err)
{
    struct insertion i = { .graph = graph, .at = at, .err = err };
    const struct hrf_node norm = graph->nodes[at];
    const int32_t x = norm.inputs[0];
    const struct hrf_shape shape = graph->values[x].shape, scalar = { .rank = 0 };
    const float epsilon = norm.attributes.epsilon;
    const int64_t n_here = hrf_shape_count(&shape) / shape.dims[1];
    const int64_t count = graph->n_images == 0 ? n_here : n_here / shape.dims[0] * graph->n_images;
    struct hrf_shape of_channels = { .rank = shape.rank };
    for (int32_t k = 0; k < shape.rank; k++)
        of_channels.dims[k] = k == 1 ? shape.dims[1] : 1;
    const struct hrf_shape of_sizes = { 1, { shape.rank } };
    const int32_t sizes = constant(&i, HRF_S64, &of_sizes, of_channels.dims);
    const int32_t scale = insert(&i, HRF_OP_RESHAPE, NULL, &of_channels, norm.inputs[1], sizes);
    const int32_t bias = insert(&i, HRF_OP_RESHAPE, NULL, &of_channels, norm.inputs[2], sizes);
    const int32_t mean = mean_of(&i, x, &of_channels, count);
    const int32_t centre = insert(&i, HRF_OP_SUB, NULL, &shape, x, mean);
    const int32_t square = insert(&i, HRF_OP_MUL, NULL, &shape, centre, centre);
    const int32_t variance = mean_of(&i, square, &of_channels, count);
    const int32_t sum = insert(&i, HRF_OP_ADD, NULL, &of_channels, variance,
                               constant(&i, HRF_F32, &scalar, &epsilon));
    const int32_t root = insert(&i, HRF_OP_SQRT, NULL, &of_channels, sum, HRF_NO_VALUE);
    const int32_t factor = insert(&i, HRF_OP_DIV, NULL, &of_channels, scale, root);
    const int32_t scaled = insert(&i, HRF_OP_MUL, NULL, &shape, centre, factor);
    HRF_TRY(i.status);
    const int32_t inputs[2] = { scaled, bias };
    const struct hrf_attributes plain = hrf_attributes_default();
    *out = (struct hrf_batch_norm){ .mean = mean,
                                    .variance = variance,
                                    .file_mean = norm.inputs[3],
                                    .file_variance = norm.inputs[4],
                                    .count = count };
    graph->values[mean].is_of_batch = graph->values[variance].is_of_batch = true;
    hrf_match_become(&graph->nodes[at], HRF_OP_ADD, inputs, 2, &plain);
    return HRF_OK;
}

void hrf_batch_norms_release(struct hrf_batch_norms *norms)
{
    hrf_free(norms->items);
    *norms = (struct hrf_batch_norms){ .n = 0 };
}

enum hrf_status hrf_pass_batch_statistics(struct hrf_graph *graph, struct hrf_batch_norms *norms,
                                          struct hrf_error *err)
{
    const int32_t n_nodes = graph->n_nodes;
    norms->n = 0;
    norms->items = hrf_calloc((size_t)n_nodes + 1, sizeof *norms->items);
    for (int32_t n = 0; n < n_nodes; n++)
        if (graph->nodes[n].op == HRF_OP_BATCH_NORM)
            HRF_TRY(use_batch(graph, n, &norms->items[norms->n++], err));
    hrf_graph_place_nodes(graph);
    if (norms->n == 0)
        return hrf_error_set(err, HRF_E_USER,
                             "the network has no BatchNormalization, perhaps because its exporter "
                             "folded them into convolutions: train it with frozen statistics, "
                             "which takes them as they are, or export it in training mode");
    return HRF_OK;
}
