/* Random networks by random layouts: the loss and the gradients that ranks give together are those
 * that one gives alone. */

#include "engine/ir/op.h"
#include "engine/passes/gradient/gradient.h"
#include "engine/run/network.h"
#include "tests/ops/nets.h"
#include "tests/ops/odd_nets.h"
#include "tests/ops/pixel_nets.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
enum { NETS = 8, ODD_NETS = 20 };
#else
enum { NETS = 30, ODD_NETS = 100 };
#endif

typedef struct hrf_graph *make_graph(uint64_t seed);

/* Of the whole batch, in the order of a network's inputs; all images count. */
struct arrays {
    struct hrf_array_source inputs[3];
};

static enum hrf_status read_arrays(void *context, int32_t input, int64_t first, int64_t n,
                                   const struct hrf_box *box, float *out, struct hrf_error *err)
{
    struct arrays *arrays = context;
    return hrf_read_array(&arrays->inputs[input], input, first, n, box, out, err);
}

static float *random_numbers(const struct hrf_shape *shape, uint64_t seed, double low, double high)
{
    struct hrf_random random = hrf_random_init(seed);
    const int64_t n = hrf_shape_count(shape);
    float *x = hrf_alloc_array((size_t)n + 1, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(low + hrf_random_unit(&random) * (high - low));
    return x;
}

/* What a network is trained by. */
struct training {
    enum hrf_loss loss;
    bool uses_batch; /* BatchNormalization by the statistics of the batch, which are outputs, too */
};

/* Replaces BatchNormalization, if there is any. */
static void use_batch(struct hrf_graph *graph, struct hrf_batch_norms *norms)
{
    struct hrf_error err = { .status = HRF_OK };
    bool has_norms = false;
    for (int32_t n = 0; n < graph->n_nodes; n++)
        has_norms |= graph->nodes[n].op == HRF_OP_BATCH_NORM;
    if (has_norms && (hrf_pass_batch_statistics(graph, norms, &err) != HRF_OK ||
                      hrf_graph_infer_shapes(graph, &err) != HRF_OK))
        fail_msg("%s", err.text);
}

/* Appends the statistics that the loss depends on to the graph's outputs. */
static void give_statistics(struct hrf_graph *graph, const struct hrf_batch_norms *norms)
{
    struct hrf_error err = { .status = HRF_OK };
    const size_t most = (size_t)(graph->n_outputs + 2 * norms->n);
    HRF_AUTO_FREE int32_t *outputs = hrf_alloc_array(most + 1, sizeof *outputs);
    int32_t n = graph->n_outputs;
    memcpy(outputs, graph->outputs, (size_t)n * sizeof *outputs);
    for (int32_t i = 0; i < norms->n; i++) {
        outputs[n++] = norms->items[i].mean;
        outputs[n++] = norms->items[i].variance;
    }
    assert_int_equal(hrf_graph_set_io(graph, graph->inputs, graph->n_inputs, outputs, n, &err),
                     HRF_OK);
}

/* The gradients of a network's first output for a part of a batch of n_images; 0: for the whole
 * batch. NULL: an operator of it has no gradient, or its loss depends on no weights. */
static struct hrf_graph *make_gradients(const struct hrf_graph *network,
                                        const struct training *training, int64_t per_microbatch,
                                        int64_t n_images, struct hrf_shape *y)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_graph *graph = NULL;
    struct hrf_gradients gradients = { .n = 0 };
    HRF_AUTO_RELEASE(hrf_batch_norms) norms = { .n = 0 };
    assert_int_equal(hrf_graph_copy(network, &graph, &err), HRF_OK);
    graph->n_outputs = 1;
    for (int32_t v = 0; v < graph->n_values; v++)
        graph->values[v].is_initializer = graph->values[v].data != NULL &&
                                          graph->values[v].producer < 0;
    struct hrf_shape part = graph->values[graph->inputs[0]].shape;
    part.dims[0] = per_microbatch;
    graph->n_images = n_images;
    if (hrf_graph_set_input_shape(graph, 0, &part, &err) != HRF_OK ||
        hrf_graph_infer_shapes(graph, &err) != HRF_OK)
        fail_msg("%s", err.text);
    *y = graph->values[graph->outputs[0]].shape;
    if (training->uses_batch)
        use_batch(graph, &norms);
    const enum hrf_status status = hrf_pass_gradient(graph, training->loss, &gradients, &err);
    hrf_gradients_release(&gradients);
    if (status != HRF_OK) {
        hrf_graph_destroy(graph);
        return NULL;
    }
    give_statistics(graph, &norms);
    if (hrf_graph_infer_shapes(graph, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return graph;
}

/* All outputs, one after the other. */
static float *run_in(const struct hrf_graph *graph, const char *device, const char *layout,
                     struct arrays *arrays, int64_t *n, struct hrf_error *err)
{
    struct hrf_layout_plan plan;
    HRF_AUTO(hrf_network) network = NULL;
    if (hrf_layout_parse(layout, &plan, err) != HRF_OK)
        fail_msg("%s", err->text);
    const struct hrf_network_config config = {
        .session = { .device = device, .precision = HRF_FP32, .n_threads = 1 }, .layout = &plan
    };
    if (hrf_network_create(graph, &config, &network, err) != HRF_OK)
        return NULL;
    for (int i = 0; i < 2; i++) /* the second run finds everything used */
        if (hrf_network_run(network, read_arrays, arrays, err) != HRF_OK)
            return NULL;
    *n = 0;
    for (int32_t i = 0; i < graph->n_outputs; i++)
        *n += hrf_shape_count(&graph->values[graph->outputs[i]].shape);
    float *result = hrf_alloc_array((size_t)*n + 1, sizeof *result), *at = result;
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        const struct hrf_shape shape = hrf_network_output_shape(network, i);
        assert_true(hrf_shape_equal(&shape, &graph->values[graph->outputs[i]].shape));
        memcpy(at, hrf_network_output(network, i), (size_t)hrf_shape_count(&shape) * sizeof *at);
        at += hrf_shape_count(&shape);
    }
    return result;
}

/* What differs most among the outputs, each over its own largest number, or a hundredth of the
 * largest of all: a gradient that is 0 is a sum that cancels. */
static double most_apart(const struct hrf_graph *graph, const float *a, const float *b, int64_t n)
{
    double most = 0, largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)b[i]));
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        const int64_t count = hrf_shape_count(&graph->values[graph->outputs[i]].shape);
        double own = 1e-2 * largest + 1e-30, apart = 0;
        for (int64_t k = 0; k < count; k++) {
            if (!isfinite(a[k]) && !isfinite(b[k]))
                continue;
            own = fmax(own, fabs((double)b[k]));
            apart = fmax(apart, fabs((double)a[k] - (double)b[k]));
            apart = isfinite(a[k]) && isfinite(b[k]) ? apart : INFINITY;
        }
        most = fmax(most, apart / own);
        a += count;
        b += count;
    }
    return most;
}

/* A network, what is fed to it, and its gradients by one rank. */
struct alone {
    struct hrf_graph *network;
    struct arrays arrays;
    float *numbers[3];
    struct training training;
    struct hrf_shape images;
    float *gradients; /* NULL: it has none */
    int64_t n;
};

static void release_alone(struct alone *alone)
{
    for (int i = 0; i < 3; i++)
        hrf_free(alone->numbers[i]);
    hrf_free(alone->gradients);
    hrf_graph_destroy(alone->network);
}

/* Replaces functions with kinks: a number that is rounded across one changes a gradient as a whole.
 * The reference, whose sums are the same to the bit in nearly all layouts, has them as they are. */
static void smooth(struct hrf_graph *network)
{
    static const enum hrf_op kinked[] = { HRF_OP_RELU,         HRF_OP_LEAKY_RELU, HRF_OP_CLIP,
                                          HRF_OP_HARD_SIGMOID, HRF_OP_HARD_SWISH, HRF_OP_SELU,
                                          HRF_OP_SHRINK,       HRF_OP_ABS };
    for (int32_t n = 0; n < network->n_nodes; n++)
        for (size_t i = 0; i < sizeof kinked / sizeof kinked[0]; i++)
            if (network->nodes[n].op == kinked[i]) {
                network->nodes[n].op = HRF_OP_SIGMOID;
                network->nodes[n].n_inputs = 1;
                network->nodes[n].attributes = hrf_attributes_of(HRF_OP_SIGMOID);
            }
}

static struct alone run_alone(struct hrf_graph *network, bool uses_batch, uint64_t seed,
                              const char *device)
{
    struct hrf_error err = { .status = HRF_OK };
    struct alone a = { .network = network,
                       .training = { .loss = seed % 2 == 0 ? HRF_LOSS_MSE : HRF_LOSS_BCE,
                                     .uses_batch = uses_batch } };
    struct hrf_shape y;
    if (strcmp(device, "cpu") == 0)
        smooth(network);
    a.images = network->values[network->inputs[0]].shape;
    const struct hrf_shape counts = { 1, { a.images.dims[0] } };
    struct hrf_graph *graph = network->n_inputs == 1
                                  ? make_gradients(network, &a.training, a.images.dims[0], 0, &y)
                                  : NULL;
    if (graph == NULL)
        return a;
    a.numbers[0] = random_numbers(&a.images, seed, -2, 2);
    a.numbers[1] = random_numbers(&y, seed + 1, 0, 1);
    a.numbers[2] = random_numbers(&counts, seed, 1, 1);
    a.arrays.inputs[0] = (struct hrf_array_source){ a.numbers[0], a.images };
    a.arrays.inputs[1] = (struct hrf_array_source){ a.numbers[1], y };
    a.arrays.inputs[2] = (struct hrf_array_source){ a.numbers[2], counts };
    a.gradients = run_in(graph, device, "single", &a.arrays, &a.n, &err);
    if (a.gradients == NULL && err.status != HRF_E_UNSUPPORTED)
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    hrf_graph_destroy(graph);
    return a;
}

/* How far the gradients of one rank are from the reference's: the terms of some sums nearly cancel,
 * and parts of images are summed in another order. */
static double error_of(struct alone *a)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_shape y;
    int64_t n;
    struct hrf_graph *graph = make_gradients(a->network, &a->training, a->images.dims[0], 0, &y);
    float *truth = run_in(graph, "ref", "single", &a->arrays, &n, &err);
    assert_non_null(truth);
    const double apart = most_apart(graph, a->gradients, truth, a->n);
    hrf_free(truth);
    hrf_graph_destroy(graph);
    return apart;
}

/* The same by the ranks of a layout; NULL: the layout is refused. */
static float *run_together(struct alone *a, const char *device, const char *layout,
                           struct hrf_graph **graph, struct hrf_error *err)
{
    struct hrf_layout_plan plan;
    struct hrf_batch_split shares = { .per_microbatch = a->images.dims[0] };
    struct hrf_shape y;
    int64_t n = 0;
    if (hrf_layout_parse(layout, &plan, err) != HRF_OK)
        return NULL;
    const bool is_shared = plan.data * plan.microbatches > 1;
    if (is_shared && hrf_layout_share(&plan, a->images.dims[0], &shares, err) != HRF_OK)
        return NULL;
    *graph = make_gradients(a->network, &a->training, shares.per_microbatch,
                            is_shared ? a->images.dims[0] : 0, &y);
    if (*graph == NULL)
        return NULL;
    float *together = run_in(*graph, device, layout, &a->arrays, &n, err);
    assert_true(together == NULL || n == a->n);
    return together;
}

typedef void pick(struct build *b, int64_t n_images, char out[128]);

/* A layout that fits a batch of n images, of 12 ranks at most. */
static void pick_layout(struct build *b, int64_t n_images, char out[128])
{
    static const char *const halos[] = { "plain", "overlap", "auto" };
    int64_t data = n_images > 1 && build_pick(b, 0, 1) == 0 ? build_pick(b, 2, n_images) : 1;
    data = data > 4 ? 4 : data;
    int64_t rows = build_pick(b, 1, 4), columns = build_pick(b, 0, 2) == 0 ? 2 : 1;
    int64_t stages = build_pick(b, 1, 3);
    while (data * rows * columns * stages > 12)
        *(rows > 1 ? &rows : stages > 1 ? &stages : columns > 1 ? &columns : &data) -= 1;
    const int64_t micro = data * rows * columns * stages == 1 ? 1
                                                              : build_pick(b, 1, n_images / data);
    const bool both_ways = stages > 1 && n_images / data > 1 && build_pick(b, 0, 1) == 0;
    snprintf(out, 128, "data=%d,spatial=%dx%d,stages=%d,microbatches=%d%s,halos=%s", (int)data,
             (int)rows, (int)columns, (int)stages, (int)(both_ways ? micro + micro % 2 : micro),
             both_ways ? ",bidirectional" : "", halos[build_pick(b, 0, 2)]);
}

/* The shapes within say how many images there are: these are not divided. */
static void pick_layout_of_images(struct build *b, int64_t n_images, char out[128])
{
    (void)n_images;
    pick_layout(b, 1, out);
}

/* The statistics of the batch are those of equal shares, and not of micro-batches. */
static void pick_layout_of_batch(struct build *b, int64_t n_images, char out[128])
{
    const int64_t data = n_images % 4 == 0 && build_pick(b, 0, 1) == 0   ? 4
                         : n_images % 2 == 0 && build_pick(b, 0, 3) != 0 ? 2
                         : n_images % 3 == 0                             ? 3
                                                                         : 1;
    const int64_t rows = build_pick(b, 1, 2);
    const int64_t columns = data < 4 && build_pick(b, 0, 2) == 0 ? 2 : 1;
    const int64_t stages = build_pick(b, 1, data < 4 && columns == 1 ? 3 : 1);
    snprintf(out, 128, "data=%d,spatial=%dx%d,stages=%d", (int)data, (int)rows, (int)columns,
             (int)stages);
}

/* One network of any number, to look into it or for a longer search; 0: those of every day. */
static uint64_t only_net(void)
{
    const char *only = getenv("HRF_TEST_NET");
    return only != NULL ? strtoull(only, NULL, 10) : 0;
}

/* 1: it has gradients, and was divided. */
static int check_net(make_graph *make, pick *layout_of, uint64_t seed, const char *device,
                     double limit)
{
    struct alone alone = run_alone(make(seed), layout_of == pick_layout_of_batch, seed, device);
    struct build b = { .random = hrf_random_init(seed * 7919) };
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_graph *graph = NULL;
    char layout[128];
    if (alone.gradients == NULL) {
        release_alone(&alone);
        return 0;
    }
    layout_of(&b, alone.images.dims[0], layout);
    if (only_net() != 0)
        fprintf(stderr, "network %llu: %s\n", (unsigned long long)seed, layout);
    float *together = run_together(&alone, device, layout, &graph, &err);
    const bool is_refused = together == NULL && (err.status == HRF_E_USER || graph == NULL);
    if (together == NULL && !is_refused)
        fail_msg("network %llu on %s, layout %s: %s", (unsigned long long)seed, device, layout,
                 err.text);
    const double apart = is_refused ? 0 : most_apart(graph, together, alone.gradients, alone.n);
    if (!(apart <= limit) && !(apart <= 4 * error_of(&alone)))
        fail_msg("network %llu on %s, layout %s: gradients %g of the largest apart",
                 (unsigned long long)seed, device, layout, apart);
    hrf_free(together);
    hrf_graph_destroy(graph);
    release_alone(&alone);
    return !is_refused;
}

static void check_nets(make_graph *make, pick *layout_of, uint64_t n, int least, const char *device,
                       double limit)
{
    const uint64_t only = only_net();
    int n_divided = 0;
    for (uint64_t seed = only != 0 ? only : 1; seed <= (only != 0 ? only : n); seed++)
        n_divided += check_net(make, layout_of, seed, device, limit);
    if (only == 0 && n_divided < least)
        fail_msg("of %d networks only %d were divided", (int)n, n_divided);
}

static void ranks_give_the_gradients_that_one_gives(void **state)
{
    (void)state;
    check_nets(make_net, pick_layout, NETS / 2, NETS / 4, "ref", 1e-5);
    check_nets(make_net, pick_layout, NETS, NETS / 2, "cpu", 1e-5);
}

static void ranks_compute_with_the_statistics_of_the_batch(void **state)
{
    (void)state;
    check_nets(make_net, pick_layout_of_batch, NETS / 2, NETS / 4, "ref", 1e-5);
    check_nets(make_net, pick_layout_of_batch, NETS, NETS / 2, "cpu", 1e-5);
}

static void ranks_share_the_tokens_of_a_transformer(void **state)
{
    (void)state;
    check_nets(make_exported_transformer, pick_layout, NETS, NETS / 2, "cpu", 1e-5);
}

static struct hrf_graph *make_pixels(uint64_t seed)
{
    return make_pixel_net(seed, (enum pixel_net)(seed % N_PIXEL_NETS));
}

static void ranks_share_the_pixels_of_an_image(void **state)
{
    (void)state;
    check_nets(make_pixels, pick_layout_of_images, NETS, 1, "cpu", 1e-5);
    /* A part that an exchange has cut out of a value lies in it while another exchange goes on. */
    assert_int_equal(check_net(make_pixels, pick_layout_of_images, 257, "cpu", 1e-5), 1);
}

/* Convolutions, a pool, a branch, a resize of twice the size, and BatchNormalization by the batch.
 */
static struct hrf_graph *make_images(bool uses_batch)
{
    struct build b = build_start(3);
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_batch_norms norms = { .n = 0 };
    struct hrf_attributes pool = hrf_attributes_default();
    struct hrf_attributes up = hrf_attributes_of(HRF_OP_CONV_TRANSPOSE);
    for (int i = 0; i < HRF_MAX_SPATIAL; i++) {
        pool.window.kernel[i] = 3;
        pool.window.stride[i] = up.window.stride[i] = up.window.kernel[i] = 2;
        pool.window.pad_begin[i] = pool.window.pad_end[i] = 1;
    }
    const int32_t x = build_input(&b, SHAPE(2, 3, 30, 29));
    int32_t y = build_batch_norm(&b, build_plain_conv(&b, x, 3, 8, 7, 2, false), 8);
    y = build_unary(&b, HRF_OP_RELU, y);
    y = build_node(&b, HRF_OP_MAX_POOL, &y, 1, &pool);
    const int32_t inner = build_plain_conv(&b, y, 8, 8, 3, 1, true);
    y = build_binary(&b, HRF_OP_ADD, build_batch_norm(&b, inner, 8), y);
    const int32_t spread[] = { build_unary(&b, HRF_OP_SIGMOID, y),
                               build_constant(&b, SHAPE(8, 4, 2, 2), -1, 1) };
    y = build_node(&b, HRF_OP_CONV_TRANSPOSE, spread, 2, &up);
    y = build_node(&b, HRF_OP_GLOBAL_AVERAGE_POOL, &y, 1, NULL);
    struct hrf_graph *graph = build_finish(&b, &y, 1);
    if (uses_batch && (hrf_pass_batch_statistics(graph, &norms, &err) != HRF_OK ||
                       hrf_graph_infer_shapes(graph, &err) != HRF_OK))
        fail_msg("%s", err.text);
    hrf_batch_norms_release(&norms);
    return graph;
}

/* No rank computes more of an image, or of a sum over its pixels, than its own part. */
static void check_all_is_divided(const struct hrf_graph *graph)
{
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_work) work = NULL;
    struct hrf_layout_plan layout;
    const struct hrf_session_config config = { .device = "cpu", .precision = HRF_FP32 };
    int n_sums = 0;
    if (hrf_layout_parse("spatial=2x2", &layout, &err) != HRF_OK ||
        hrf_work_create(graph, &config, &layout, &work, &err) != HRF_OK)
        fail_msg("%s", err.text);
    for (int32_t n = 0; n < work->graph->n_nodes; n++) {
        const struct hrf_node *node = &work->graph->nodes[n];
        const struct hrf_shape *y = &work->graph->values[node->outputs[0]].shape;
        bool is_of_image = false;
        for (int32_t k = 0; k < node->n_inputs; k++)
            is_of_image |= hrf_graph_is_variable(work->graph, node->inputs[k]) &&
                           work->partition->is_split[node->inputs[k]] &&
                           work->graph->values[node->inputs[k]].shape.dims[2] > 1;
        if (y->rank == 4 && y->dims[2] > 1 && y->dims[0] == 2 &&
            !work->partition->is_split[node->outputs[0]])
            fail_msg("node '%s' is computed whole", node->name);
        if (is_of_image && !work->partition->is_split[node->outputs[0]] &&
            work->partition->reduce_of[n] < 0)
            fail_msg("node '%s' is a sum of whole images", node->name);
        n_sums += work->partition->reduce_of[n] >= 0;
    }
    assert_true(n_sums >= 6);
}

static void ranks_divide_the_backward_pass_of_images(void **state)
{
    (void)state;
    for (int uses_batch = 0; uses_batch < 2; uses_batch++) {
        struct hrf_error err = { .status = HRF_OK };
        struct alone alone = run_alone(make_images(uses_batch), false, 1, "cpu");
        struct hrf_graph *graph = NULL;
        float *together = run_together(&alone, "cpu", "spatial=2x2", &graph, &err);
        if (together == NULL)
            fail_msg("%s", err.text);
        assert_true(most_apart(graph, together, alone.gradients, alone.n) < 2e-5);
        check_all_is_divided(graph);
        hrf_free(together);
        hrf_graph_destroy(graph);
        release_alone(&alone);
    }
}

/* Micro-batches of the same images, by groups, by stages, or both: sums are in their order. */
static void sums_over_the_batch_have_the_same_bits_in_any_groups(void **state)
{
    (void)state;
    static const char *const layouts[] = { "data=4",
                                           "data=2,stages=2,microbatches=2",
                                           "stages=3,microbatches=4",
                                           "stages=3,microbatches=4,bidirectional",
                                           "data=2,stages=3,microbatches=2,bidirectional",
                                           "stages=2,microbatches=4,bidirectional" };
    struct build b = build_start(5);
    struct hrf_error err = { .status = HRF_OK };
    const int32_t x = build_input(&b, SHAPE(8, 3, 12, 11));
    const int32_t seen = build_plain_conv(&b, x, 3, 8, 3, 2, true);
    const int32_t again = build_plain_conv(&b, build_unary(&b, HRF_OP_RELU, seen), 8, 5, 3, 1,
                                           true);
    const int32_t pooled = build_node(&b, HRF_OP_GLOBAL_AVERAGE_POOL, &again, 1, NULL);
    struct alone alone = run_alone(build_finish(&b, &pooled, 1), false, 1, "cpu");
    float *first = NULL;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        struct hrf_graph *graph = NULL;
        float *together = run_together(&alone, "cpu", layouts[i], &graph, &err);
        if (together == NULL)
            fail_msg("%s: %s", layouts[i], err.text);
        assert_true(most_apart(graph, together, alone.gradients, alone.n) < 1e-5);
        if (first != NULL)
            assert_memory_equal(first, together, (size_t)alone.n * sizeof *first);
        if (first == NULL)
            first = together;
        else
            hrf_free(together);
        hrf_graph_destroy(graph);
    }
    hrf_free(first);
    release_alone(&alone);
}

static void what_ranks_cannot_do_is_refused(void **state)
{
    (void)state;
    struct hrf_error err = { .status = HRF_OK };
    struct build b = build_start(5);
    const int32_t x = build_input(&b, SHAPE(4, 3, 8, 8));
    const int32_t y = build_plain_conv(&b, x, 3, 4, 3, 1, true);
    struct alone alone = run_alone(build_finish(&b, &y, 1), false, 1, "cpu");
    struct hrf_graph *graph = NULL;
    assert_null(run_together(&alone, "cpu", "tensor=2", &graph, &err));
    assert_int_equal(err.status, HRF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "gradients are not computed with tensor="));
    hrf_graph_destroy(graph);
    release_alone(&alone);
}

static void ranks_divide_at_the_worst_places(void **state)
{
    (void)state;
    check_nets(make_odd_net, pick_layout, ODD_NETS / 2, ODD_NETS / 8, "ref", 1e-5);
    check_nets(make_odd_net, pick_layout, ODD_NETS, ODD_NETS / 4, "cpu", 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_give_the_gradients_that_one_gives),
        cmocka_unit_test(ranks_compute_with_the_statistics_of_the_batch),
        cmocka_unit_test(ranks_share_the_tokens_of_a_transformer),
        cmocka_unit_test(ranks_share_the_pixels_of_an_image),
        cmocka_unit_test(ranks_divide_at_the_worst_places),
        cmocka_unit_test(ranks_divide_the_backward_pass_of_images),
        cmocka_unit_test(sums_over_the_batch_have_the_same_bits_in_any_groups),
        cmocka_unit_test(what_ranks_cannot_do_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
