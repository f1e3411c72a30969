/* Random networks by random layouts: what the ranks give together is what one gives alone. In INT8
 * the bits are the same. */

#include "engine/onnx/onnx.h"
#include "engine/run/bench.h"
#include "engine/run/parallel.h"
#include "engine/run/rank.h"
#include "schema/settings/layout.h"
#include "tests/ops/nets.h"
#include "tests/ops/odd_nets.h"
#include "tests/ops/pixel_nets.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* AddressSanitizer looks for what is read and written beside arrays: all of them are compared
 * without it. */
#ifdef __SANITIZE_ADDRESS__
enum { IS_SANITIZED = true, NETS = 10, ODD_NETS = 50 };
#else
enum { IS_SANITIZED = false, NETS = 40, ODD_NETS = 300 };
#endif

/* A layout that fits a batch of n images, of 16 ranks at most. */
static void pick_layout(struct build *b, int64_t n_images, const char *halos, char out[128])
{
    const int64_t data = n_images > 1 && build_pick(b, 0, 3) == 0 ? 2 : 1;
    const int64_t rows = build_pick(b, 1, 5),
                  columns = build_pick(b, 0, 1) == 0 ? 1 : build_pick(b, 1, 3);
    int64_t stages = build_pick(b, 1, 3), micro = build_pick(b, 1, n_images / data);
    while (data * rows * columns * stages > 16)
        stages--;
    stages = stages < 1 ? 1 : stages;
    micro = data * rows * columns * stages == 1 ? 1 : micro; /* one rank has none */
    const bool both_ways = stages > 1 && micro % 2 == 0 && build_pick(b, 0, 1) == 0;
    snprintf(out, 128, "data=%d,spatial=%dx%d,stages=%d,microbatches=%d%s,halos=%s",
             data * rows * columns > 16 ? 1 : (int)data, (int)rows, (int)columns, (int)stages,
             (int)micro, both_ways ? ",bidirectional" : "", halos);
}

/* One whose ranks divide heads and channels, alone and in any mix; of 16 ranks at most. */
static void pick_tensor_layout(struct build *b, int64_t n_images, const char *halos, char out[128])
{
    const int64_t tensor = build_pick(b, 2, 5);
    const int64_t data = n_images > 1 && build_pick(b, 0, 2) == 0 ? 2 : 1;
    int64_t rows = build_pick(b, 1, 3), columns = build_pick(b, 0, 3) == 0 ? 2 : 1;
    int64_t stages = build_pick(b, 1, 3);
    while (tensor * data * rows * columns * stages > 16)
        *(stages > 1 ? &stages : columns > 1 ? &columns : &rows) -= 1;
    const int64_t micro = build_pick(b, 1, n_images / data);
    const bool both_ways = stages > 1 && micro % 2 == 0 && build_pick(b, 0, 1) == 0;
    snprintf(out, 128, "data=%d,spatial=%dx%d,tensor=%d,stages=%d,microbatches=%d%s,halos=%s",
             (int)data, (int)rows, (int)columns, (int)tensor, (int)stages, (int)micro,
             both_ways ? ",bidirectional" : "", halos);
}

/* A machine on which a message takes so long that no arithmetic is too much to save one: halos are
 * fused, and what is left of exchanges is overlapped. */
static struct hrf_machine far_apart(void)
{
    struct hrf_machine m = { .name = "far apart",
                             .ranks_per_node = 64,
                             .ports_per_node = 1,
                             .rates = { .operations = { 1e12, 1e12, 1e12, 1e12 }, .bytes = 1e12 } };
    m.links[m.n_links++] = hrf_link_simple("loop", HRF_PLACEMENT_NODE, 1, 1e12);
    return m;
}

typedef struct hrf_graph *make_graph(uint64_t seed);
typedef void pick(struct build *b, int64_t n_images, const char *halos, char out[128]);

/* Each network with one of three ways to come by halos. */
static void check_net(make_graph *make, pick *layout_of, uint64_t seed, const char *device,
                      enum hrf_precision precision, double limit)
{
    const struct hrf_machine machine = far_apart();
    const struct hrf_cost_table costs = { .rates = machine.rates };
    const struct hrf_cutting cutting = { &costs, &machine };
    struct hrf_graph *graph = make(seed);
    struct build b = { .random = hrf_random_init(seed * 7919) };
    int64_t n, n_ranks;
    char layout[128];
    layout_of(&b, graph->values[graph->inputs[0]].shape.dims[0], seed % 3 == 1 ? "overlap" : "auto",
              layout);
    float *alone = run_graph_in(graph, device, precision, 1, seed, 1, &n, NULL);
    float *together = run_layout_in(graph, device, precision, layout,
                                    seed % 3 == 2 ? &cutting : NULL, seed, &n_ranks);
    assert_int_equal(n, n_ranks);
    const double difference = relative_difference(together, alone, n);
    if (difference > limit)
        fail_msg("network %llu, %s on %s, layout %s: %g of the largest output apart",
                 (unsigned long long)seed, hrf_precision_name(precision), device, layout,
                 difference);
    hrf_free(alone);
    hrf_free(together);
    hrf_graph_destroy(graph);
}

/* One network of any number, to look into it or for a longer search; 0: the NETS of every day. */
static uint64_t only_net(void)
{
    const char *only = getenv("HRF_TEST_NET");
    return only != NULL ? strtoull(only, NULL, 10) : 0;
}

/* Half of them for the reference, which is slow: what its ranks share is what the CPU's do. */
static uint64_t last_net(const char *device)
{
    return only_net() != 0 ? only_net() : strcmp(device, "ref") == 0 ? NETS / 2 : NETS;
}

static void check_nets(make_graph *make, const char *device, enum hrf_precision precision,
                       double limit)
{
    for (uint64_t seed = only_net() != 0 ? only_net() : 1; seed <= last_net(device); seed++)
        check_net(make, pick_layout, seed, device, precision, limit);
}

/* Every other network is one of those with images. */
static void check_tensors(const char *device, enum hrf_precision precision, double limit)
{
    for (uint64_t seed = only_net() != 0 ? only_net() : 1; seed <= last_net(device); seed++)
        check_net(seed % 2 == 0 ? make_net : make_sequence_net, pick_tensor_layout, seed, device,
                  precision, limit);
}

static void ranks_give_what_one_gives_in_fp32(void **state)
{
    (void)state;
    check_nets(make_net, "ref", HRF_FP32, 1e-6);
    check_nets(make_net, "cpu", HRF_FP32, 1e-5);
}

static void ranks_give_the_same_bits_in_int8(void **state)
{
    (void)state;
    check_nets(make_net, "cpu", HRF_INT8, 0);
}

static void ranks_give_what_one_gives_in_bf16(void **state)
{
    (void)state;
    check_nets(make_net, "cpu", HRF_BF16, 0.03);
}

static void ranks_share_the_tokens_of_a_sequence(void **state)
{
    (void)state;
    check_nets(make_sequence_net, "ref", HRF_FP32, 0);
    check_nets(make_sequence_net, "cpu", HRF_FP32, 1e-6);
    check_nets(make_sequence_net, "cpu", HRF_INT8, 0);
    check_nets(make_sequence_net, "cpu", HRF_BF16, 0.03);
}

static void ranks_divide_heads_and_channels(void **state)
{
    (void)state;
    check_tensors("ref", HRF_FP32, 1e-6);
    check_tensors("cpu", HRF_FP32, 1e-5);
    check_tensors("cpu", HRF_INT8, 0);
    check_tensors("cpu", HRF_BF16, 0.03);
}

static struct hrf_graph *make_window_net(uint64_t seed)
{
    return make_pixel_net(seed, WINDOWS);
}

/* The shapes within say how many images there are: they are neither shared nor cut. */
static void pick_window_layout(struct build *b, int64_t n_images, const char *halos, char out[128])
{
    (void)n_images;
    if (build_pick(b, 0, 3) == 0)
        pick_tensor_layout(b, 1, halos, out);
    else
        pick_layout(b, 1, halos, out);
}

static void check_windows(const char *device, enum hrf_precision precision, double limit)
{
    const uint64_t only = only_net();
    for (uint64_t seed = only != 0 ? only : 1; seed <= (only != 0 ? only : NETS / 2); seed++)
        check_net(make_window_net, pick_window_layout, seed, device, precision, limit);
}

/* Windows, shifted or not, and pixels that are merged. */
static void ranks_share_the_windows_of_an_image(void **state)
{
    (void)state;
    check_windows("ref", HRF_FP32, 1e-6);
    check_windows("cpu", HRF_FP32, 1e-5);
    check_windows("cpu", HRF_INT8, 0);
    check_windows("cpu", HRF_BF16, 0.03);
}

/* The nodes of an operator in a network that is divided over ranks, if their output has several
 * rows, and those of them that each rank computes a part of. */
static void count_split(const struct hrf_graph *graph, const char *text, enum hrf_op op, int *n,
                        int *n_split)
{
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_graph) prepared = NULL;
    HRF_AUTO(hrf_partition) partition = NULL;
    struct hrf_strbuf notes = HRF_STRBUF_INIT;
    struct hrf_layout_plan layout;
    struct hrf_batch_split shares;
    const struct hrf_session_config config = { .device = "cpu", .precision = HRF_FP32 };
    double operations;
    const int64_t n_images = graph->values[graph->inputs[0]].shape.dims[0];
    if (hrf_layout_parse(text, &layout, &err) != HRF_OK ||
        hrf_layout_share(&layout, n_images, &shares, &err) != HRF_OK ||
        hrf_work_prepare(&layout, &shares, graph, &config, &prepared, &operations, &notes, &err) !=
            HRF_OK ||
        hrf_work_partition(prepared, &layout, NULL, &partition, &err) != HRF_OK)
        fail_msg("%s", err.text);
    for (int32_t i = 0; i < prepared->n_nodes; i++) {
        const int32_t y = prepared->nodes[i].outputs[0];
        if (prepared->nodes[i].op != op || hrf_box_whole(&prepared->values[y].shape).hi[0] == 1)
            continue;
        *n += 1;
        *n_split += partition->is_split[y] || prepared->nodes[i].owner >= 0;
    }
    hrf_strbuf_release(&notes);
}

/* All attention of such networks is divided, and all copies to windows, if rows are long enough for
 * a copy of rows. */
static void no_rank_computes_windows_for_others(void **state)
{
    (void)state;
    int n = 0, n_split = 0, n_copies = 0, n_copies_split = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct hrf_graph *graph = make_window_net(seed);
        const struct hrf_shape *x = &graph->values[graph->inputs[0]].shape;
        if (x->dims[1] >= 16) {
            count_split(graph, "spatial=2", HRF_OP_TOKEN_ATTENTION, &n, &n_split);
            count_split(graph, "spatial=2", HRF_OP_GATHER, &n_copies, &n_copies_split);
        }
        hrf_graph_destroy(graph);
    }
    assert_true(n >= 20 && n_copies >= 40);
    assert_int_equal(n, n_split);
    assert_int_equal(n_copies, n_copies_split);
}

/* Keys and values all at once and part by part, in all precisions, against one rank and against the
 * reference on one rank and on several; under AddressSanitizer each layout in one precision,
 * against one rank. */
static void keys_in_a_ring_give_what_all_at_once_do(void **state)
{
    (void)state;
    static const char *const layouts[] = { "spatial=3,attention=ring", "spatial=2,attention=gather",
                                           "spatial=2x2,attention=ring" };
    static const enum hrf_precision precisions[] = { HRF_FP32, HRF_INT8, HRF_BF16 };
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct hrf_graph *graph = make_long_net(seed);
        int64_t n, n_together;
        float *shared = seed > 0
                            ? NULL
                            : run_layout_in(graph, "ref", HRF_FP32, layouts[seed], NULL, seed, &n);
        float *whole = IS_SANITIZED ? NULL : run_graph(graph, "ref", 1, seed, 1, &n);
        const float *truth = whole != NULL ? whole : shared;
        assert_true(shared == NULL || relative_difference(shared, truth, n) < 1e-6);
        for (uint64_t i = 0; i < (IS_SANITIZED ? 1 : 3); i++) {
            const enum hrf_precision precision = precisions[(seed + i) % 3];
            const double limit = precision == HRF_FP32 ? 1e-5 : 0.05;
            float *alone = run_graph_in(graph, "cpu", precision, 1, seed, 1, &n, NULL);
            float *together = run_layout_in(graph, "cpu", precision, layouts[seed], NULL, seed,
                                            &n_together);
            assert_int_equal(n, n_together);
            assert_memory_equal(alone, together, (size_t)n * sizeof *alone);
            assert_true(truth == NULL || relative_difference(together, truth, n) < limit);
            hrf_free(alone);
            hrf_free(together);
        }
        hrf_free(shared);
        hrf_free(whole);
        hrf_graph_destroy(graph);
    }
}

/* Of 8 MB of tokens each rank has room for its own alone. */
static void bench_gives_each_rank_its_own_tokens(void **state)
{
    (void)state;
    struct build b = build_start(1);
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_bench bench = { .n_layers = 0 };
    struct hrf_layout_plan layout;
    const struct hrf_network_config config = {
        .session = { .device = "cpu", .precision = HRF_FP32, .n_threads = 1 }, .layout = &layout
    };
    const int32_t x = build_input(&b, SHAPE(1, 4000, 512));
    const int32_t w = build_constant(&b, SHAPE(512, 1), -1, 1);
    const int32_t y = build_binary(&b, HRF_OP_MATMUL, x, w);
    struct hrf_graph *graph = build_finish(&b, &y, 1);
    if (hrf_layout_parse("spatial=3", &layout, &err) != HRF_OK ||
        hrf_bench_run(graph, &config, 1, false, &bench, &err) != HRF_OK)
        fail_msg("%s", err.text);
    hrf_bench_release(&bench);
    hrf_graph_destroy(graph);
}

static int check_bands(uint64_t seed, enum hrf_precision precision, enum hrf_bands_rows rows,
                       double limit)
{
    struct hrf_graph *graph = make_net(seed);
    struct build b = { .random = hrf_random_init(seed * 104729) };
    int64_t n, n_banded;
    const int32_t n_bands = (int32_t)build_pick(&b, 2, 9);
    float *banded = run_bands_in(graph, "cpu", precision, n_bands, rows, seed, &n_banded);
    if (banded != NULL) {
        float *alone = run_graph_in(graph, "cpu", precision, 1, seed, 1, &n, NULL);
        assert_int_equal(n, n_banded);
        const double difference = relative_difference(banded, alone, n);
        if (difference > limit)
            fail_msg("network %llu, %s in %d bands%s: %g of the largest output apart",
                     (unsigned long long)seed, hrf_precision_name(precision), n_bands,
                     rows == HRF_BANDS_KEEP ? " that keep rows" : "", difference);
        hrf_free(alone);
    }
    hrf_graph_destroy(graph);
    hrf_free(banded);
    return banded != NULL;
}

static void bands_give_what_the_whole_image_gives(void **state)
{
    (void)state;
    const uint64_t only = only_net();
    int n_run = 0;
    for (uint64_t seed = only != 0 ? only : 1; seed <= (only != 0 ? only : NETS); seed++)
        for (int i = 0; i < 2; i++) {
            const enum hrf_bands_rows rows = i == 0 ? HRF_BANDS_RECOMPUTE : HRF_BANDS_KEEP;
            if (only != 0 || seed % 2 == (uint64_t)i) /* the bits of INT8 tell more */
                n_run += check_bands(seed, HRF_FP32, rows, 1e-5);
            n_run += check_bands(seed, HRF_INT8, rows, 0);
        }
    assert_true(only != 0 || 2 * n_run > 3 * NETS); /* more than half of them can be run so */
}

/* 8 rows to 13: each band's come from other places, although all bands are as high. */
static void bands_of_a_resize_are_not_taken_for_one_another(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const enum hrf_bands_rows rows = i == 0 ? HRF_BANDS_RECOMPUTE : HRF_BANDS_KEEP;
        assert_true(check_bands(61, HRF_FP32, rows, 1e-5));
        assert_true(check_bands(61, HRF_INT8, rows, 0));
    }
}

/* ---- networks that are divided at the worst places ---- */

/* In a search, what is about to run, if it should not come back. */
static void say_odd(uint64_t seed, enum hrf_precision precision, const char *how)
{
    if (getenv("HRF_TEST_ODD") == NULL)
        return;
    fprintf(stderr, "\rnetwork %llu, %s, %s          ", (unsigned long long)seed,
            hrf_precision_name(precision), how);
    fflush(stderr);
}

static void check_odd_layout(const struct hrf_graph *graph, uint64_t seed,
                             enum hrf_precision precision, const char *layout, const float *alone,
                             int64_t n, double limit)
{
    int64_t n_ranks;
    say_odd(seed, precision, layout);
    float *together = run_layout_in(graph, "cpu", precision, layout, NULL, seed, &n_ranks);
    assert_int_equal(n, n_ranks);
    const double difference = relative_difference(together, alone, n);
    if (difference > limit)
        fail_msg("odd network %llu, %s, layout %s: %g of the largest output apart",
                 (unsigned long long)seed, hrf_precision_name(precision), layout, difference);
    hrf_free(together);
}

/* 1: it can be run so. */
static int check_odd_bands(const struct hrf_graph *graph, uint64_t seed,
                           enum hrf_precision precision, int32_t n_bands, enum hrf_bands_rows rows,
                           const float *alone, int64_t n, double limit)
{
    int64_t n_banded;
    say_odd(seed, precision, rows == HRF_BANDS_KEEP ? "bands that keep rows" : "bands");
    float *banded = run_bands_in(graph, "cpu", precision, n_bands, rows, seed, &n_banded);
    if (banded == NULL)
        return 0;
    assert_int_equal(n, n_banded);
    const double difference = relative_difference(banded, alone, n);
    if (difference > limit)
        fail_msg("odd network %llu, %s in %d bands%s: %g of the largest output apart",
                 (unsigned long long)seed, hrf_precision_name(precision), n_bands,
                 rows == HRF_BANDS_KEEP ? " that keep rows" : "", difference);
    hrf_free(banded);
    return 1;
}

/* The nodes that are left of a network when it is made ready, which stages divide. */
static int32_t count_prepared(const struct hrf_graph *graph, enum hrf_precision precision,
                              uint64_t seed)
{
    struct hrf_graph *prepared = prepare_graph_in(graph, precision, seed);
    const int32_t n_nodes = prepared->n_nodes;
    hrf_graph_destroy(prepared);
    return n_nodes;
}

/* A layout of up to as many strips as there are rows, and what else divides. */
static void pick_odd_layout(struct build *b, const struct hrf_shape *image, int32_t n_nodes,
                            char out[128])
{
    static const char *const halos[] = { "plain", "overlap", "overlap", "auto" };
    const int64_t most = image->dims[2] > 8 ? 8 : image->dims[2];
    const int64_t columns = build_pick(b, 0, 2) == 0 ? build_pick(b, 2, 3) : 1;
    const int64_t rows = build_pick(b, columns > 1 ? 1 : 2, most < 2 ? 3 : most);
    const int64_t stages = n_nodes > 1 && rows * columns <= 8 && build_pick(b, 0, 3) == 0 ? 2 : 1;
    const int64_t data = image->dims[0] > 1 && rows * columns * stages <= 8 &&
                                 build_pick(b, 0, 3) == 0
                             ? 2
                             : 1;
    const int64_t share = image->dims[0] / data;
    snprintf(out, 128, "data=%d,spatial=%dx%d,stages=%d,microbatches=%d,halos=%s", (int)data,
             (int)rows, (int)columns, (int)stages, stages > 1 ? (int)build_pick(b, 1, share) : 1,
             halos[build_pick(b, 0, 3)]);
}

/* The network and one rank's answer as files, for tools that compare with other programs. */
static void write_odd(const char *folder, uint64_t seed, const struct hrf_graph *graph,
                      const float *alone, int64_t n)
{
    struct hrf_error err = { .status = HRF_OK };
    char path[512];
    snprintf(path, sizeof path, "%s/%llu.onnx", folder, (unsigned long long)seed);
    if (hrf_onnx_write(graph, path, &err) != HRF_OK) {
        printf("network %llu is not written: %s\n", (unsigned long long)seed, err.text);
        return;
    }
    snprintf(path, sizeof path, "%s/%llu.y", folder, (unsigned long long)seed);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(alone, sizeof *alone, (size_t)n, file), n);
    assert_int_equal(fclose(file), 0);
    const struct hrf_shape *x = &graph->values[graph->inputs[0]].shape;
    struct hrf_random random = hrf_random_init(seed);
    snprintf(path, sizeof path, "%s/%llu.x", folder, (unsigned long long)seed);
    file = fopen(path, "wb");
    assert_non_null(file);
    for (int64_t i = 0; i < hrf_shape_count(x); i++) {
        const float number = (float)(hrf_random_unit(&random) * 4 - 2);
        assert_int_equal(fwrite(&number, sizeof number, 1, file), 1);
    }
    assert_int_equal(fclose(file), 0);
}

/* How many of its bands could be run. */
static int check_odd_net(uint64_t seed)
{
    struct hrf_graph *graph = make_odd_net(seed);
    struct build b = { .random = hrf_random_init(seed * 15485863) };
    const struct hrf_shape image = graph->values[graph->inputs[0]].shape;
    int64_t n;
    int n_banded = 0;
    float *truth = run_graph(graph, "ref", 1, seed, 1, &n);
    if (getenv("HRF_TEST_WRITE") != NULL)
        write_odd(getenv("HRF_TEST_WRITE"), seed, graph, truth, n);
    for (int i = 0; i < 2; i++) {
        enum hrf_precision precision = i == 0 ? HRF_FP32 : HRF_INT8;
        const double limit = i == 0 ? 2e-5 : 0;
        float *alone = run_graph_in(graph, "cpu", precision, 1, seed, 1, &n, NULL);
        if (i == 0 && relative_difference(alone, truth, n) > 1e-4)
            fail_msg("odd network %llu: cpu and ref are %g apart", (unsigned long long)seed,
                     relative_difference(alone, truth, n));
        const int32_t n_nodes = count_prepared(graph, precision, seed);
        for (int k = 0; k < 3; k++) {
            char layout[128];
            pick_odd_layout(&b, &image, n_nodes, layout);
            check_odd_layout(graph, seed, precision, layout, alone, n, limit);
        }
        for (int k = 0; k < 2 && image.dims[2] > 1; k++)
            n_banded += check_odd_bands(
                graph, seed, precision, (int32_t)build_pick(&b, 2, image.dims[2]),
                k == 0 ? HRF_BANDS_RECOMPUTE : HRF_BANDS_KEEP, alone, n, limit);
        hrf_free(alone);
    }
    hrf_free(truth);
    hrf_graph_destroy(graph);
    return n_banded;
}

/* HRF_TEST_ODD=FIRST:LAST: these networks alone, for a longer search. */
static void odd_networks_are_divided_without_a_trace(void **state)
{
    (void)state;
    /* Found by long searches: oneDNN's kernels for AMX read beside images in padding alone, 8 taps
     * of 8 channels were packed in a wrong order, and making a kernel for AMX read beside an array
     * (a crash in one of ten runs under AddressSanitizer). */
    static const uint64_t found[] = { 299, 3573, 208478 };
    const char *text = getenv("HRF_TEST_ODD");
    for (size_t i = 0; i < sizeof found / sizeof found[0] && text == NULL; i++)
        (void)check_odd_net(found[i]);
    unsigned long long first = only_net() != 0 ? only_net() : 1;
    unsigned long long last = only_net() != 0 ? only_net() : ODD_NETS;
    if (text != NULL) {
        char *end;
        first = strtoull(text, &end, 10);
        assert_int_equal(*end, ':');
        last = strtoull(end + 1, &end, 10);
    }
    int n_nets = 0, n_banded = 0;
    for (; first <= last; first++, n_nets++)
        n_banded += check_odd_net(first);
    assert_true(n_nets < 100 || n_banded > n_nets); /* of 4 attempts at each */
}

/* Pads of a row, windows that reach beyond both borders, and a norm over what comes of it. */
static struct hrf_graph *make_padded_norm(int64_t rows)
{
    struct build b = build_start(1);
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t pads[] = { 0, 0, 1, 0, 0, 0, 1, 0 };
    int32_t x = build_input(&b, SHAPE(1, 3, rows, 5));
    const int32_t padded[] = { x, build_integers(&b, 8, pads) };
    x = build_node(&b, HRF_OP_PAD, padded, 2, &a);
    a.window.kernel[0] = a.window.kernel[1] = 2;
    a.window.auto_pad = HRF_PAD_SAME_LOWER;
    x = build_conv(&b, x, 3, 4, 1, true, &a);
    a.window.kernel[0] = 1;
    a.window.auto_pad = HRF_PAD_EXPLICIT;
    x = build_conv(&b, x, 4, 4, 1, false, &a);
    a = hrf_attributes_default();
    a.window.kernel[0] = 3;
    a.window.kernel[1] = 2;
    a.window.stride[0] = 2;
    a.window.pad_begin[0] = 2;
    a.window.pad_end[1] = 1;
    a.window.ceil_mode = true;
    x = build_node(&b, HRF_OP_AVERAGE_POOL, &x, 1, &a);
    a = hrf_attributes_default();
    a.n_groups = 1;
    const int32_t normed[] = { x, build_constant(&b, SHAPE(4), 0.5, 1.5),
                               build_constant(&b, SHAPE(4), -0.5, 0.5) };
    x = build_node(&b, HRF_OP_GROUP_NORM, normed, 3, &a);
    return build_finish(&b, &x, 1);
}

static void a_norm_behind_padded_windows_is_that_of_the_whole(void **state)
{
    (void)state;
    for (int64_t rows = 3; rows < 14; rows++) {
        struct hrf_graph *graph = make_padded_norm(rows);
        int64_t n;
        float *alone = run_graph_in(graph, "cpu", HRF_FP32, 1, 1, 1, &n, NULL);
        for (int32_t n_bands = 2; n_bands <= rows; n_bands++)
            for (int i = 0; i < 2; i++)
                (void)check_odd_bands(graph, 1, HRF_FP32, n_bands,
                                      i == 0 ? HRF_BANDS_RECOMPUTE : HRF_BANDS_KEEP, alone, n,
                                      1e-5);
        check_odd_layout(graph, 1, HRF_FP32, "spatial=5,halos=overlap", alone, n, 1e-5);
        hrf_free(alone);
        hrf_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest odd[] = { cmocka_unit_test(odd_networks_are_divided_without_a_trace) };
    if (getenv("HRF_TEST_ODD") != NULL)
        return cmocka_run_group_tests(odd, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_give_what_one_gives_in_fp32),
        cmocka_unit_test(ranks_give_the_same_bits_in_int8),
        cmocka_unit_test(ranks_give_what_one_gives_in_bf16),
        cmocka_unit_test(ranks_share_the_tokens_of_a_sequence),
        cmocka_unit_test(ranks_divide_heads_and_channels),
        cmocka_unit_test(ranks_share_the_windows_of_an_image),
        cmocka_unit_test(no_rank_computes_windows_for_others),
        cmocka_unit_test(keys_in_a_ring_give_what_all_at_once_do),
        cmocka_unit_test(bench_gives_each_rank_its_own_tokens),
        cmocka_unit_test(bands_give_what_the_whole_image_gives),
        cmocka_unit_test(bands_of_a_resize_are_not_taken_for_one_another),
        cmocka_unit_test(odd_networks_are_divided_without_a_trace),
        cmocka_unit_test(a_norm_behind_padded_windows_is_that_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
