/* tiled_step.c - where a network is cut, how large tiles may be, and the three phases of a step
 * (tiled_step.h). Sessions are made when their tiles are due and destroyed after them: at any time
 * memory holds one tile, and no weights packed for another. */
#include "engine/train/tiled_step.h"

#include "engine/backend/compute.h"
#include "engine/ir/op.h"
#include "engine/ir/window_span.h"
#include "engine/plan/bands.h"
#include "engine/run/nchw.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct hrf_tiled_step {
    struct hrf_train_step_config config;
    const struct hrf_trained_list *trained;
    struct hrf_graph *network; /* with shapes; the halves borrow its constants */
    struct hrf_halves halves;
    bool is_summed; /* the tail reads the mean of the features only */
    bool is_head_trained;
    struct hrf_partition *partition; /* of the head: a rank is a tile */
    int32_t *kind_of, *first_of, n_kinds;
    struct hrf_weighted_session tail; /* inputs: features or their mean, targets */
    int32_t of_features;              /* the tail's output that is the gradient to its input */
    struct hrf_weighted_session
        plain_tail; /* with has_forward: from the same input to the output */
    struct hrf_shape image, features;
    float *images;      /* N, H, W, C */
    double *sums;       /* [N][C] of the features */
    float **gradients;  /* [trained] in ONNX order */
    int64_t kept_bytes; /* of all that is there beside the session of a tile */
    char text[96];
};

/* ---- the cut ---- */

/* True for an operator a part of which is a node like any other. Parts of the others have
 * attributes that rules of gradients and inference of shapes know nothing of. */
static bool can_tile(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const enum hrf_region region = hrf_op_info(node->op)->region;
    const bool is_plain = region == HRF_REGION_POINT || region == HRF_REGION_CHANNELS ||
                          region == HRF_REGION_PIXEL || region == HRF_REGION_WINDOW ||
                          region == HRF_REGION_SPREAD || region == HRF_REGION_BLOCK;
    return is_plain && hrf_region_can_split(graph, node);
}

/* The last place where the network can be cut in two, so that the head can be computed in tiles;
 * 0: none. */
static int32_t find_cut(const struct hrf_graph *graph)
{
    HRF_AUTO_FREE int32_t *last = hrf_alloc_array((size_t)graph->n_values + 1, sizeof *last);
    int32_t best = 0;
    hrf_graph_find_last_readers(graph, last);
    for (int32_t cut = 1; cut < graph->n_nodes; cut++) {
        if (!can_tile(graph, &graph->nodes[cut - 1]))
            break;
        if (hrf_halves_is_single(graph, last, cut))
            best = cut;
    }
    return best;
}

/* In the place of sums that are divided, the tail reads the mean. */
static enum hrf_status read_mean(struct hrf_graph *tail, struct hrf_error *err)
{
    int32_t mean;
    for (int32_t n = 0; n < tail->n_nodes; n++) {
        const struct hrf_node *finish = &tail->nodes[n];
        if (finish->op != HRF_OP_POOL_FINISH)
            continue;
        const struct hrf_value *y = &tail->values[finish->outputs[0]];
        const int32_t old = finish->outputs[0];
        HRF_AUTO_FREE char *name = hrf_format("%s.mean", y->name);
        const struct hrf_shape shape = y->shape;
        HRF_TRY(hrf_graph_add_value(tail, name, HRF_F32, &shape, NULL, &mean, err));
        for (int32_t i = 0; i < tail->n_nodes; i++)
            for (int32_t k = 0; k < tail->nodes[i].n_inputs; k++)
                if (tail->nodes[i].inputs[k] == old)
                    tail->nodes[i].inputs[k] = mean;
        HRF_TRY(hrf_graph_set_io(tail, &mean, 1, tail->outputs, tail->n_outputs, err));
        return hrf_graph_remove_unused(tail, err);
    }
    return HRF_OK;
}

static enum hrf_status cut_network(struct hrf_tiled_step *t, const struct hrf_graph *network,
                                   struct hrf_error *err)
{
    HRF_TRY(hrf_graph_copy(network, &t->network, err));
    HRF_TRY(hrf_graph_infer_shapes(t->network, err));
    HRF_TRY(hrf_graph_compact(t->network, err));
    const int32_t cut = find_cut(t->network);
    if (cut == 0)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "node '%s' (%s), where the network begins, cannot be computed in "
                             "tiles: give more memory, or smaller images",
                             t->network->nodes[0].name, hrf_op_name(t->network->nodes[0].op));
    HRF_TRY(hrf_halves_create(t->network, cut, true, &t->halves, err));
    t->is_summed = t->halves.crossings[0].is_summed;
    t->image = t->network->values[t->network->inputs[0]].shape;
    t->features = t->halves.head->values[t->halves.crossings[0].in_head].shape;
    if (t->is_summed)
        HRF_TRY(read_mean(t->halves.tail, err));
    hrf_trained_mark(t->trained, t->halves.head);
    for (int32_t v = 0; v < t->halves.head->n_values; v++)
        t->is_head_trained |= t->halves.head->values[v].is_initializer;
    return HRF_OK;
}

/* The tail with its loss, its gradients, and the gradient to what it reads. */
static enum hrf_status create_tail(struct hrf_tiled_step *t, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) tail = NULL;
    HRF_AUTO_RELEASE(hrf_gradients) gradients = { .n = 0 };
    HRF_TRY(hrf_graph_copy(t->halves.tail, &tail, err));
    hrf_trained_mark(t->trained, tail);
    tail->values[tail->inputs[0]].is_initializer = t->is_head_trained;
    HRF_AUTO_FREE char *features = hrf_strdup(tail->values[tail->inputs[0]].name);
    HRF_TRY(hrf_graph_infer_shapes(tail, err));
    HRF_TRY(hrf_pass_gradient(tail, t->config.loss, &gradients, err));
    for (int32_t i = 0; i < gradients.n; i++)
        if (strcmp(gradients.names[i], features) == 0)
            t->of_features = 1 + i;
    HRF_TRY(hrf_weighted_session_create(tail, t->trained, &gradients, &t->config, false,
                                        t->kept_bytes, &t->tail, err));
    const struct hrf_session_memory memory = hrf_session_memory(t->tail.session);
    t->kept_bytes += hrf_session_memory_total(&memory);
    return HRF_OK;
}

static enum hrf_status create_plain_tail(struct hrf_tiled_step *t, struct hrf_error *err)
{
    struct hrf_train_step_config how = t->config;
    HRF_AUTO(hrf_graph) tail = NULL;
    if (!t->config.has_forward)
        return HRF_OK;
    how.precision = HRF_FP32;
    HRF_TRY(hrf_graph_copy(t->halves.tail, &tail, err));
    hrf_trained_mark(t->trained, tail);
    HRF_TRY(hrf_graph_infer_shapes(tail, err));
    HRF_TRY(hrf_weighted_session_create(tail, t->trained, NULL, &how, false, t->kept_bytes,
                                        &t->plain_tail, err));
    const struct hrf_session_memory memory = hrf_session_memory(t->plain_tail.session);
    t->kept_bytes += hrf_session_memory_total(&memory);
    return HRF_OK;
}

/* ---- tiles ---- */

static enum hrf_status divide(const struct hrf_graph *head, const int32_t tiles[2],
                              struct hrf_partition **out, struct hrf_error *err)
{
    struct hrf_layout_plan layout = hrf_layout_single();
    HRF_AUTO(hrf_partition) p = NULL;
    HRF_AUTO_FREE bool *recompute = hrf_calloc((size_t)head->n_values + 1, sizeof *recompute);
    const struct hrf_partition_options options = { .recompute = recompute, .keep_outputs = true };
    layout.rows = tiles[0];
    layout.columns = tiles[1];
    for (int32_t v = 0; v < head->n_values; v++)
        recompute[v] = true;
    HRF_TRY(hrf_partition_create(head, &layout, &options, &p, err));
    for (int32_t n = 0; n < head->n_nodes; n++)
        if (!p->is_split[head->nodes[n].outputs[0]])
            return hrf_error_set(
                err, HRF_E_UNSUPPORTED, "node '%s' (%s) cannot be computed in %d x %d tiles",
                head->nodes[n].name, hrf_op_name(head->nodes[n].op), (int)tiles[0], (int)tiles[1]);
    HRF_MOVE(*out, p);
    return HRF_OK;
}

/* Where ranks would exchange, a tile has more than it needs and takes a part. */
static void cut_exchanges(const struct hrf_partition *p, int32_t tile, struct hrf_graph *graph,
                          const struct hrf_rank_map *map)
{
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        struct hrf_node *node = &graph->nodes[n];
        if (node->op != HRF_OP_EXCHANGE)
            continue;
        const struct hrf_exchange *x = &p->exchanges[hrf_rank_map_node(map, n)->row];
        const struct hrf_box *has = &x->local[tile], *need = &x->need[tile];
        const struct hrf_box taken = hrf_box_within(need, has);
        node->op = HRF_OP_SLICE;
        node->attributes = hrf_region_slice(&taken);
    }
}

/* A part of a CONV_TRANSPOSE has the size of its output as an attribute, out of which inference
 * would find other pads: the pads say it instead. */
static void settle_spreads(struct hrf_graph *graph)
{
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        struct hrf_node *node = &graph->nodes[n];
        struct hrf_attributes *a = &node->attributes;
        const struct hrf_value *x = &graph->values[node->inputs[0]];
        if (node->op != HRF_OP_CONV_TRANSPOSE)
            continue;
        for (int i = 0; i < HRF_MAX_SPATIAL; i++) {
            const int64_t wanted = graph->values[node->outputs[0]].shape.dims[2 + i];
            const int64_t less = hrf_window_span(&a->window, i, x->shape.dims[2 + i]) -
                                 a->window.pad_begin[i] - wanted;
            a->output.size[i] = 0;
            a->window.pad_end[i] = less > 0 ? less : 0;
            a->output.padding[i] = less < 0 ? -less : 0;
        }
    }
}

/* Infers the shapes of a tile. HRF_E_UNSUPPORTED: a node's attributes are those of the part alone,
 * so that inference makes others of them. */
static enum hrf_status infer_tile(struct hrf_graph *graph, struct hrf_error *err)
{
    const size_t n = (size_t)graph->n_nodes;
    HRF_AUTO_FREE struct hrf_attributes *before = hrf_alloc_array(n + 1, sizeof *before);
    for (size_t i = 0; i < n; i++)
        memcpy(&before[i], &graph->nodes[i].attributes, sizeof before[i]);
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    for (size_t i = 0; i < n; i++)
        if (memcmp(&before[i], &graph->nodes[i].attributes, sizeof before[i]) != 0)
            return hrf_error_set(err, HRF_E_UNSUPPORTED,
                                 "node '%s' (%s) is not trained through in tiles: give more "
                                 "memory, or smaller images",
                                 graph->nodes[i].name, hrf_op_name(graph->nodes[i].op));
    return HRF_OK;
}

/* The head for one tile as a graph like any other; its output is the tile of the features. */
static enum hrf_status make_tile(const struct hrf_tiled_step *t, const struct hrf_partition *p,
                                 int32_t tile, struct hrf_graph **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_rank_map) map = NULL;
    HRF_TRY(hrf_partition_graph(p, tile, &graph, &map, err));
    cut_exchanges(p, tile, graph, map);
    hrf_trained_mark(t->trained, graph);
    settle_spreads(graph);
    HRF_TRY(infer_tile(graph, err));
    HRF_MOVE(*out, graph);
    return HRF_OK;
}

/* What a tile is computed for: the features of a step, their gradient, or the features of a
 * forward, which is in FP32. */
enum pass { STEP_FORWARD, STEP_BACK, PLAIN_FORWARD };

/* The session of a kind of tiles. */
static enum hrf_status create_session(const struct hrf_tiled_step *t, const struct hrf_partition *p,
                                      int32_t tile, enum pass pass,
                                      struct hrf_weighted_session *out, struct hrf_error *err)
{
    const bool is_back = pass == STEP_BACK;
    struct hrf_train_step_config how = t->config;
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO_RELEASE(hrf_gradients) gradients = { .n = 0 };
    HRF_TRY(make_tile(t, p, tile, &graph, err));
    if (is_back)
        HRF_TRY(hrf_pass_gradient(graph, HRF_LOSS_LINEAR, &gradients, err));
    how.precision = pass == PLAIN_FORWARD ? HRF_FP32 : how.precision;
    return hrf_weighted_session_create(graph, t->trained, is_back ? &gradients : NULL, &how, false,
                                       t->kept_bytes, out, err);
}

static double area(const struct hrf_box *box)
{
    return hrf_box_is_empty(box)
               ? 0
               : (double)(box->hi[0] - box->lo[0]) * (double)(box->hi[1] - box->lo[1]);
}

static void describe(struct hrf_tiled_step *t, const int32_t tiles[2])
{
    const struct hrf_partition *p = t->partition;
    double once = 0, computed = 0;
    for (int32_t n = 0; n < p->graph->n_nodes; n++) {
        const struct hrf_node *node = &p->graph->nodes[n];
        const struct hrf_box whole = hrf_box_whole(&p->graph->values[node->outputs[0]].shape);
        const double operations = hrf_node_operations(p->graph, node);
        once += operations;
        for (int32_t tile = 0; tile < p->n_ranks; tile++)
            computed += operations * area(hrf_partition_box(p, node->outputs[0], tile)) /
                        area(&whole);
    }
    snprintf(t->text, sizeof t->text, "in %d x %d tiles, %.1f %% computed twice", (int)tiles[0],
             (int)tiles[1], once > 0 ? 100 * (computed / once - 1) : 0);
}

/* Finds the kinds of tiles, and whether each can be computed. */
static enum hrf_status find_kinds(struct hrf_tiled_step *t, struct hrf_error *err)
{
    const size_t n = (size_t)t->partition->n_ranks;
    t->kind_of = hrf_alloc_array(n, sizeof *t->kind_of);
    t->first_of = hrf_alloc_array(n, sizeof *t->first_of);
    hrf_bands_find_kinds(t->partition, t->kind_of, t->first_of, &t->n_kinds);
    for (int32_t kind = 0; kind < t->n_kinds; kind++) {
        HRF_AUTO(hrf_graph) graph = NULL;
        HRF_TRY(make_tile(t, t->partition, t->first_of[kind], &graph, err));
    }
    return HRF_OK;
}

/* Takes the tiles if the largest, one with neighbours on all sides, fits. */
static enum hrf_status try_tiles(struct hrf_tiled_step *t, const int32_t tiles[2],
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_partition) p = NULL;
    HRF_AUTO_RELEASE(hrf_weighted_session) largest = { .n_gradients = 0 };
    if (tiles[0] > t->features.dims[2] || tiles[1] > t->features.dims[3])
        return hrf_error_set(
            err, HRF_E_USER,
            "the features are %" PRId64 " x %" PRId64 " pixels, which are not %d x %d tiles",
            t->features.dims[2], t->features.dims[3], (int)tiles[0], (int)tiles[1]);
    HRF_TRY(divide(t->halves.head, tiles, &p, err));
    const int32_t middle = tiles[0] / 2 * tiles[1] + tiles[1] / 2;
    HRF_TRY(
        create_session(t, p, middle, t->is_head_trained ? STEP_BACK : STEP_FORWARD, &largest, err));
    HRF_MOVE(t->partition, p);
    describe(t, tiles);
    return find_kinds(t, err);
}

/* The fewest tiles that fit, about as wide as high. */
static enum hrf_status choose_tiles(struct hrf_tiled_step *t, struct hrf_error *err)
{
    const int64_t rows = t->features.dims[2], columns = t->features.dims[3];
    const int64_t most = rows > columns ? rows : columns;
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_status status = HRF_E_NOMEM;
    if (t->config.tiles[0] > 0)
        return try_tiles(t, t->config.tiles, err);
    for (int64_t n = 2; n <= most && status == HRF_E_NOMEM; n += 1 + n / 8) {
        const int64_t edge = (most + n - 1) / n;
        const int32_t tiles[2] = { (int32_t)((rows + edge - 1) / edge),
                                   (int32_t)((columns + edge - 1) / edge) };
        status = try_tiles(t, tiles, &why);
    }
    if (status == HRF_E_NOMEM)
        return hrf_error_set(err, HRF_E_NOMEM,
                             "a step on images of %" PRId64 " x %" PRId64
                             " px needs more than the memory allows, in the smallest tiles, too: "
                             "%.160s",
                             t->image.dims[2], t->image.dims[3], why.text);
    return status == HRF_OK ? HRF_OK : hrf_error_pass(err, &why);
}

/* ---- made ready ---- */

static enum hrf_status allocate(struct hrf_tiled_step *t, struct hrf_error *err)
{
    const size_t image = (size_t)hrf_shape_count(&t->image);
    const size_t sums = (size_t)(t->features.dims[0] * t->features.dims[1]);
    bool is_short = false;
    t->images = hrf_try_calloc(image + 1, sizeof *t->images);
    t->sums = hrf_try_calloc(sums + 1, sizeof *t->sums);
    t->gradients = hrf_calloc((size_t)t->trained->n + 1, sizeof *t->gradients);
    t->kept_bytes = t->config.memory_kept_bytes + (int64_t)(image * sizeof(float));
    for (int32_t i = 0; i < t->trained->n; i++) {
        const size_t n = (size_t)hrf_shape_count(&t->trained->items[i].shape);
        t->gradients[i] = hrf_try_calloc(n + 1, sizeof(float));
        is_short |= t->gradients[i] == NULL;
        t->kept_bytes += 2 * (int64_t)(n * sizeof(float)); /* and the weights themselves */
    }
    for (int32_t v = 0; v < t->network->n_values; v++)
        if (t->network->values[v].data != NULL)
            t->kept_bytes += hrf_value_bytes(&t->network->values[v]);
    HRF_CHECK_MEMORY(!is_short && t->images != NULL && t->sums != NULL, err,
                     "no memory for an image and the gradients");
    return HRF_OK;
}

enum hrf_status hrf_tiled_step_create(const struct hrf_graph *network,
                                      const struct hrf_trained_list *trained,
                                      const struct hrf_train_step_config *config,
                                      struct hrf_tiled_step **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_tiled_step) t = hrf_calloc(1, sizeof *t);
    t->config = *config;
    t->trained = trained;
    if (network->n_inputs != 1)
        return hrf_error_set(err, HRF_E_UNSUPPORTED, "the network has %d inputs",
                             (int)network->n_inputs);
    if (config->uses_batch)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "the statistics of a batch are those of whole images, which are "
                             "computed in tiles here: train with frozen statistics, or give more "
                             "memory");
    HRF_TRY(cut_network(t, network, err));
    HRF_TRY(allocate(t, err));
    HRF_TRY(create_tail(t, err));
    HRF_TRY(create_plain_tail(t, err));
    HRF_TRY(choose_tiles(t, err));
    HRF_MOVE(*out, t);
    return HRF_OK;
}

void hrf_tiled_step_destroy(struct hrf_tiled_step *t)
{
    if (t == NULL)
        return;
    for (int32_t i = 0; i < t->trained->n && t->gradients != NULL; i++)
        hrf_free(t->gradients[i]);
    hrf_weighted_session_release(&t->tail);
    hrf_weighted_session_release(&t->plain_tail);
    hrf_partition_destroy(t->partition);
    hrf_halves_release(&t->halves);
    hrf_graph_destroy(t->network);
    hrf_free(t->gradients);
    hrf_free(t->kind_of);
    hrf_free(t->first_of);
    hrf_free(t->images);
    hrf_free(t->sums);
    hrf_free(t);
}

float *hrf_tiled_step_images(struct hrf_tiled_step *t)
{
    return t->images;
}

float *hrf_tiled_step_targets(struct hrf_tiled_step *t)
{
    return hrf_session_input(t->tail.session, 1);
}

const struct hrf_shape *hrf_tiled_step_target_shape(const struct hrf_tiled_step *t)
{
    return hrf_session_input_shape(t->tail.session, 1);
}

const char *hrf_tiled_step_text(const struct hrf_tiled_step *t)
{
    return t->text;
}

/* ---- a run ---- */

/* Copies a box of every image between a whole array, N, H, W, C, and a dense one. */
static void copy_box(const struct hrf_shape *shape, const struct hrf_box *box, float *whole,
                     float *part, bool is_out)
{
    const int64_t c = shape->dims[1], rows = box->hi[0] - box->lo[0];
    const int64_t n = (box->hi[1] - box->lo[1]) * c;
    for (int64_t i = 0; i < shape->dims[0] * rows; i++) {
        const int64_t row = i / rows * shape->dims[2] + box->lo[0] + i % rows;
        float *at = whole + (row * shape->dims[3] + box->lo[1]) * c;
        memcpy(is_out ? at : part + i * n, is_out ? part + i * n : at, (size_t)n * sizeof *at);
    }
}

static const struct hrf_box *image_box(const struct hrf_tiled_step *t, int32_t tile)
{
    return hrf_partition_box(t->partition, t->halves.head->inputs[0], tile);
}

static const struct hrf_box *feature_box(const struct hrf_tiled_step *t, int32_t tile)
{
    return hrf_partition_box(t->partition, t->halves.crossings[0].in_head, tile);
}

/* Adds a tile of the features, [N][pixels][C], to the sums. */
static void add_sums(struct hrf_tiled_step *t, const float *features, int64_t n_pixels)
{
    const int64_t channels = t->features.dims[1];
    for (int64_t i = 0; i < t->features.dims[0]; i++)
        for (int64_t p = 0; p < n_pixels; p++)
            for (int64_t c = 0; c < channels; c++)
                t->sums[i * channels + c] += (double)features[(i * n_pixels + p) * channels + c];
}

/* `tail` reads the features. */
static enum hrf_status run_forward(struct hrf_tiled_step *t, struct hrf_session *session,
                                   int32_t tile, struct hrf_session *tail, struct hrf_error *err)
{
    const struct hrf_box *box = feature_box(t, tile);
    copy_box(&t->image, image_box(t, tile), t->images, hrf_session_input(session, 0), false);
    HRF_TRY(hrf_session_run(session, err));
    float *features = (float *)(uintptr_t)hrf_session_output(session, 0); /* it is only read */
    if (t->is_summed)
        add_sums(t, features, (int64_t)area(box));
    else
        copy_box(&t->features, box, hrf_session_input(tail, 0), features, true);
    return HRF_OK;
}

/* The gradient to the tile's features: its part of them, or of each pixel the mean's share. */
static void fill_seed(const struct hrf_tiled_step *t, int32_t tile, float *seed)
{
    const float *gradient = hrf_session_output(t->tail.session, t->of_features);
    const struct hrf_box *box = feature_box(t, tile);
    const int64_t channels = t->features.dims[1], n_pixels = (int64_t)area(box);
    const double each = 1 / (double)(t->features.dims[2] * t->features.dims[3]);
    if (!t->is_summed) {
        copy_box(&t->features, box, (float *)(uintptr_t)gradient, seed, false);
        return;
    }
    for (int64_t i = 0; i < t->features.dims[0] * n_pixels; i++)
        for (int64_t c = 0; c < channels; c++)
            seed[i * channels + c] = (float)((double)gradient[i / n_pixels * channels + c] * each);
}

static void add_gradients(struct hrf_tiled_step *t, const struct hrf_weighted_session *from)
{
    for (int32_t k = 0; k < from->n_gradients; k++) {
        const int32_t w = from->weights[k];
        if (w < 0)
            continue;
        const struct hrf_shape *shape = &t->trained->items[w].shape;
        const float *gradient = hrf_session_output(from->session, 1 + k);
        const int64_t n = hrf_shape_count(shape);
        HRF_AUTO_FREE float *as_onnx = hrf_alloc_array((size_t)n + 1, sizeof *as_onnx);
        hrf_nchw_from_output(gradient, shape, as_onnx);
        for (int64_t i = 0; i < n; i++)
            t->gradients[w][i] += as_onnx[i];
    }
}

static enum hrf_status run_back(struct hrf_tiled_step *t, const struct hrf_weighted_session *back,
                                int32_t tile, struct hrf_error *err)
{
    copy_box(&t->image, image_box(t, tile), t->images, hrf_session_input(back->session, 0), false);
    fill_seed(t, tile, hrf_session_input(back->session, 1));
    HRF_TRY(hrf_session_run(back->session, err));
    add_gradients(t, back);
    return HRF_OK;
}

/* All tiles forward, or back, kind by kind. */
static enum hrf_status run_tiles(struct hrf_tiled_step *t, enum pass pass, struct hrf_error *err)
{
    struct hrf_session *tail = (pass == PLAIN_FORWARD ? &t->plain_tail : &t->tail)->session;
    for (int32_t kind = 0; kind < t->n_kinds; kind++) {
        HRF_AUTO_RELEASE(hrf_weighted_session) session = { .n_gradients = 0 };
        HRF_TRY(create_session(t, t->partition, t->first_of[kind], pass, &session, err));
        for (int32_t tile = t->first_of[kind]; tile < t->partition->n_ranks; tile++)
            if (t->kind_of[tile] == kind)
                HRF_TRY(pass == STEP_BACK ? run_back(t, &session, tile, err)
                                          : run_forward(t, session.session, tile, tail, err));
    }
    return HRF_OK;
}

/* What the tail reads of the features, if it is their mean. */
static void feed_mean(const struct hrf_tiled_step *t, struct hrf_session *tail)
{
    float *to = hrf_session_input(tail, 0);
    const int64_t n_pixels = t->features.dims[2] * t->features.dims[3];
    for (int64_t i = 0; i < t->features.dims[0] * t->features.dims[1]; i++)
        to[i] = (float)(t->sums[i] / (double)n_pixels);
}

/* All tiles forward, and the tail. */
static enum hrf_status run_all_forward(struct hrf_tiled_step *t, enum pass pass,
                                       struct hrf_error *err)
{
    struct hrf_session *tail = (pass == PLAIN_FORWARD ? &t->plain_tail : &t->tail)->session;
    const int64_t n_sums = t->features.dims[0] * t->features.dims[1];
    memset(t->sums, 0, (size_t)n_sums * sizeof *t->sums);
    HRF_TRY(run_tiles(t, pass, err));
    if (t->is_summed)
        feed_mean(t, tail);
    return hrf_session_run(tail, err);
}

enum hrf_status hrf_tiled_step_run(struct hrf_tiled_step *t, bool is_changed, double *loss,
                                   struct hrf_error *err)
{
    if (is_changed)
        HRF_TRY(hrf_session_refresh(t->tail.session, err));
    for (int32_t i = 0; i < t->trained->n; i++)
        memset(t->gradients[i], 0,
               (size_t)hrf_shape_count(&t->trained->items[i].shape) * sizeof(float));
    HRF_TRY(run_all_forward(t, STEP_FORWARD, err));
    *loss = (double)hrf_session_output(t->tail.session, 0)[0];
    add_gradients(t, &t->tail);
    return t->is_head_trained ? run_tiles(t, STEP_BACK, err) : HRF_OK;
}

enum hrf_status hrf_tiled_step_forward(struct hrf_tiled_step *t, bool is_changed, float *output,
                                       struct hrf_error *err)
{
    const struct hrf_session *tail = t->plain_tail.session;
    if (is_changed)
        HRF_TRY(hrf_session_refresh(t->plain_tail.session, err));
    HRF_TRY(run_all_forward(t, PLAIN_FORWARD, err));
    memcpy(output, hrf_session_output(tail, 0),
           (size_t)hrf_shape_count(hrf_tiled_step_target_shape(t)) * sizeof *output);
    return HRF_OK;
}

const float *hrf_tiled_step_gradient(const struct hrf_tiled_step *t, int32_t i)
{
    return t->gradients[i];
}
