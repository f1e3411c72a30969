/* Ranks whose tensors lie on emulated GPUs: threads of this process on one or several of them. */
#include "tests/unit/unit.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/own_process.h"
#include "base/random.h"
#include "engine/run/made_ranges.h"
#include "engine/run/parallel.h"
#include "tests/emulated-cuda/cuda_runtime_api.h"
#include "tests/emulated-cuda/in_place.h"
#include "tests/ops/build.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A network, a batch of images and what calibrating it gave. */
struct work {
    struct hrf_graph *graph;
    struct hrf_made_ranges made;
    struct hrf_array_source source;
    float *images;
};

enum { BATCH = 4 };

/* What exchanges and reductions come in, as small as can be: windows with and without stride, a
 * residual, a pool, an output of its own size, a global pool and a product. */
static struct hrf_graph *make_graph(void)
{
    struct build b = build_start(11);
    struct hrf_attributes pool = hrf_attributes_default();
    for (int i = 0; i < 2; i++) {
        pool.window.kernel[i] = 3;
        pool.window.stride[i] = 2;
        pool.window.pad_begin[i] = pool.window.pad_end[i] = 1;
    }
    int32_t x = build_input(&b, SHAPE(BATCH, 3, 22, 18));
    x = build_unary(&b, HRF_OP_RELU, build_plain_conv(&b, x, 3, 8, 5, 1, true));
    x = build_node(&b, HRF_OP_MAX_POOL, &x, 1, &pool);
    const int32_t y = build_unary(&b, HRF_OP_RELU, build_plain_conv(&b, x, 8, 8, 3, 1, true));
    x = build_binary(&b, HRF_OP_ADD, build_plain_conv(&b, y, 8, 8, 3, 1, true), x);
    x = build_unary(&b, HRF_OP_RELU, build_plain_conv(&b, x, 8, 16, 3, 2, true));
    const int32_t pooled = build_unary(&b, HRF_OP_GLOBAL_AVERAGE_POOL, x);
    const int32_t outputs[] = { pooled, build_plain_conv(&b, x, 16, 4, 1, 1, true) };
    return build_finish(&b, outputs, 2);
}

static struct work make_work(void)
{
    struct work w = { .graph = make_graph() };
    struct hrf_error err = { .text = "" };
    struct hrf_random random = hrf_random_init(3);
    w.source.shape = w.graph->values[w.graph->inputs[0]].shape;
    assert_int_equal(hrf_made_ranges_init(w.graph, &w.made, &err), HRF_OK);
    const int64_t n = hrf_shape_count(&w.source.shape);
    w.images = hrf_alloc_array((size_t)n, sizeof *w.images);
    assert_non_null(w.images);
    for (int64_t i = 0; i < n; i++)
        w.images[i] = (float)(hrf_random_unit(&random) * 4 - 2);
    w.source.data = w.images;
    return w;
}

static void release_work(struct work *w)
{
    hrf_made_ranges_release(&w->made);
    hrf_free(w->images);
    hrf_graph_destroy(w->graph);
}

/* What tune-comm has found; NULL: nothing. */
static const struct hrf_machine *known_links;

static struct hrf_parallel *start(struct work *w, enum hrf_precision precision, const char *layout,
                                  enum hrf_transport transport, struct hrf_error *err)
{
    const struct hrf_session_config config = { .device = "cuda",
                                               .precision = precision,
                                               .n_threads = 1,
                                               .ranges = w->made.ranges,
                                               .n_ranges = w->made.n_ranges,
                                               .transport = transport,
                                               .gpu_links = known_links };
    struct hrf_layout_plan plan;
    struct hrf_parallel *parallel = NULL;
    if (hrf_layout_parse(layout, &plan, err) != HRF_OK ||
        hrf_parallel_create(w->graph, &config, &plan, 600000, &parallel, err) != HRF_OK)
        return NULL;
    return parallel;
}

/* Both outputs after the third batch: slots are used again, nothing is left of earlier ones. Heap.
 */
static float *result_of(struct work *w, enum hrf_precision precision, const char *layout,
                        enum hrf_transport transport, int64_t *n)
{
    struct hrf_error err = { .text = "" };
    struct hrf_parallel *parallel = start(w, precision, layout, transport, &err);
    for (int i = 0; i < 3; i++)
        if (parallel == NULL ||
            hrf_parallel_run(parallel, hrf_read_array, &w->source, &err) != HRF_OK)
            fail_msg("%s: %s", layout != NULL ? layout : "one rank", err.text);
    float *out = NULL;
    *n = 0;
    for (int32_t i = 0; i < 2; i++) {
        const struct hrf_shape shape = hrf_work_output_shape(hrf_parallel_work(parallel), i);
        const int64_t count = hrf_shape_count(&shape);
        out = hrf_realloc_array(out, (size_t)(*n + count), sizeof *out);
        assert_non_null(out);
        memcpy(out + *n, hrf_parallel_output(parallel, i), (size_t)count * sizeof *out);
        *n += count;
    }
    hrf_parallel_destroy(parallel);
    return out;
}

static void check_layouts(struct work *w, const char *const *layouts, size_t n_layouts,
                          enum hrf_transport transport)
{
    int64_t n = 0, n_one = 0;
    float *one_int8 = result_of(w, HRF_INT8, NULL, transport, &n_one);
    float *one_fp32 = result_of(w, HRF_FP32, NULL, transport, &n_one);
    double largest = 0;
    for (int64_t i = 0; i < n_one; i++)
        largest = fmax(largest, fabs((double)one_fp32[i]));
    for (size_t k = 0; k < n_layouts; k++) {
        float *int8 = result_of(w, HRF_INT8, layouts[k], transport, &n);
        assert_int_equal(n, n_one);
        if (memcmp(int8, one_int8, (size_t)n * sizeof *int8) != 0)
            fail_msg("%s: not one rank's bytes in int8", layouts[k]);
        float *fp32 = result_of(w, HRF_FP32, layouts[k], transport, &n);
        for (int64_t i = 0; i < n; i++)
            if (fabs((double)(fp32[i] - one_fp32[i])) > 1e-5 * largest)
                fail_msg("%s: %g instead of %g", layouts[k], (double)fp32[i], (double)one_fp32[i]);
        hrf_free(int8);
        hrf_free(fp32);
    }
    hrf_free(one_int8);
    hrf_free(one_fp32);
}

static const char *const layouts[] = { "spatial=3", "spatial=2x2,microbatches=2",
                                       "data=2,stages=2,microbatches=2",
                                       "spatial=2,stages=2,microbatches=4",
                                       "stages=2,microbatches=4,bidirectional" };
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

static void parts_taken_from_another_ranks_memory_give_one_ranks_results(void **state)
{
    struct work w = make_work();
    (void)state;
    check_layouts(&w, layouts, N_LAYOUTS, HRF_TRANSPORT_IPC);
    release_work(&w);
}

static void parts_that_go_through_the_host_give_one_ranks_results(void **state)
{
    struct work w = make_work();
    (void)state;
    check_layouts(&w, layouts, N_LAYOUTS, HRF_TRANSPORT_HOST);
    release_work(&w);
}

/* A folder for tuned plans that nothing is in, for a test with a cuDNN of its own. */
static void use_library(void *const *state, const char *library, const char *folder)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", (const char *)*state, folder);
    assert_int_equal(setenv("XDG_CACHE_HOME", path, 1), 0);
    assert_int_equal(setenv("HRF_EMULATED_CUDNN", library, 1), 0);
}

static void use_first_library(void *const *state)
{
    unsetenv("HRF_EMULATED_CUDNN");
    assert_int_equal(setenv("XDG_CACHE_HOME", *state, 1), 0);
}

/* One engine is the quickest for the image and another one for a strip, and they round otherwise.
 */
static void int8_engines_that_are_chosen_by_size_give_one_ranks_bytes(void **state)
{
    struct work w = make_work();
    use_library(state, "lists-a=7+8,prefers=9,nudges=8", "by-size");
    check_layouts(&w, layouts, 2, HRF_TRANSPORT_IPC);
    use_first_library(state);
    release_work(&w);
}

/* The plans that were built while `layout` ran in int8 with nothing tuned yet, which must give
 * `expected`; *most: how often one of them was. */
static int count_plans(void *const *state, struct work *w, const char *layout,
                       const float *expected, int *most)
{
    static int n_calls;
    char folder[32], told[300], library[400], *text = NULL, *lines[512], *rest = NULL;
    int n = 0;
    size_t n_bytes;
    int64_t count;
    snprintf(folder, sizeof folder, "tuning-%d", n_calls++);
    snprintf(told, sizeof told, "%s/%s.txt", (const char *)*state, folder);
    snprintf(library, sizeof library, "lists-a=7+8,told=%s", told);
    use_library(state, library, folder);
    float *result = result_of(w, HRF_INT8, layout, HRF_TRANSPORT_HOST, &count);
    use_first_library(state);
    if (memcmp(result, expected, (size_t)count * sizeof *result) != 0)
        fail_msg("%s: not one rank's bytes in int8", layout);
    hrf_free(result);
    assert_int_equal(hrf_file_read(told, 1 << 24, &text, &n_bytes, NULL), HRF_OK);
    for (char *line = strtok_r(text, "\n", &rest); line != NULL && n < 512;
         line = strtok_r(NULL, "\n", &rest))
        lines[n++] = line;
    *most = 0;
    for (int i = 0; i < n; i++) {
        int n_same = 0;
        for (int k = 0; k < n; k++)
            n_same += strcmp(lines[i], lines[k]) == 0;
        *most = n_same > *most ? n_same : *most;
    }
    hrf_free(text);
    return n;
}

static void one_rank_tunes_for_all_that_have_its_kind_of_gpu(void **state)
{
    struct work w = make_work();
    int64_t n;
    int most;
    float *one = result_of(&w, HRF_INT8, NULL, HRF_TRANSPORT_HOST, &n);
    for (size_t i = 0; i < N_LAYOUTS; i++) {
        assert_true(count_plans(state, &w, layouts[i], one, &most) > 0);
        if (most != 1)
            fail_msg("%s: a plan was built %d times", layouts[i], most);
    }
    const int n_one_kind = count_plans(state, &w, "data=4", one, &most);
    assert_int_equal(most, 1);
    assert_int_equal(setenv("HRF_EMULATED_CUDA", "two-kinds", 1), 0);
    assert_int_equal(count_plans(state, &w, "data=4", one, &most), 2 * n_one_kind);
    assert_int_equal(most, 2);
    unsetenv("HRF_EMULATED_CUDA");
    hrf_free(one);
    release_work(&w);
}

/* Ranks that wait for the one that tunes see that it gets on. On one processor, two of the 13 plans
 * are built at a time. */
static void a_tuning_may_take_longer_than_ranks_wait_for_each_other(void **state)
{
    const struct hrf_session_config config = { .device = "cuda", .precision = HRF_FP32 };
    struct work w = make_work();
    struct hrf_layout_plan plan;
    struct hrf_parallel *parallel = NULL;
    struct hrf_error err = { .text = "" };
    char all[256], first[32];
    hrf_process_cpu_list(all, sizeof all);
    snprintf(first, sizeof first, "%ld", strtol(all, NULL, 10));
    assert_int_equal(hrf_process_set_cpus(first, &err), HRF_OK);
    use_library(state, "builds-ms=700", "slow");
    const double start = hrf_clock_seconds();
    assert_int_equal(hrf_layout_parse("spatial=3", &plan, &err), HRF_OK);
    if (hrf_parallel_create(w.graph, &config, &plan, 4000, &parallel, &err) != HRF_OK)
        fail_msg("%s", err.text);
    assert_true(hrf_clock_seconds() - start > 4.0);
    assert_int_equal(hrf_process_set_cpus(all, &err), HRF_OK);
    hrf_parallel_destroy(parallel);
    use_first_library(state);
    release_work(&w);
}

static void ranks_share_out_the_gpus_of_a_machine(void **state)
{
    struct work w = make_work();
    (void)state;
    assert_int_equal(setenv("HRF_EMULATED_CUDA", "devices=2", 1), 0);
    check_layouts(&w, layouts, 1, HRF_TRANSPORT_IPC);
    unsetenv("HRF_EMULATED_CUDA");
    release_work(&w);
}

static void gpus_that_do_not_reach_each_other_are_named_and_auto_goes_through_the_host(void **state)
{
    struct work w = make_work();
    struct hrf_error err = { .text = "" };
    (void)state;
    assert_int_equal(setenv("HRF_EMULATED_CUDA", "no-peer", 1), 0);
    assert_null(start(&w, HRF_FP32, "spatial=2", HRF_TRANSPORT_IPC, &err));
    if (err.status != HRF_E_UNSUPPORTED || strstr(err.text, "no peer access") == NULL ||
        strstr(err.text, "use --comm mpi") == NULL)
        fail_msg("'%s'", err.text);
    check_layouts(&w, layouts, 1, HRF_TRANSPORT_AUTO);
    unsetenv("HRF_EMULATED_CUDA");
    release_work(&w);
}

/* ---- parts written into another rank's memory: a GPU each, or a process ---- */

static struct hrf_emulated_counts counted(void)
{
    hrf_emulated_counts_function *count = NULL;
    void *found = dlsym(RTLD_DEFAULT, "hrf_emulated_counted");
    assert_non_null(found); /* the back end's module is there from the first network on */
    memcpy(&count, &found, sizeof count);
    return count();
}

/* Flags taken while a layout ran three batches in int8, which gave `expected`; *of_graphs: of them
 * by replayed graphs. */
static long count_flags(struct work *w, const char *gpus, const char *layout, const float *expected,
                        long *of_graphs)
{
    int64_t n;
    assert_int_equal(setenv("HRF_EMULATED_CUDA", gpus, 1), 0);
    const struct hrf_emulated_counts before = counted();
    float *result = result_of(w, HRF_INT8, layout, HRF_TRANSPORT_IPC, &n);
    const struct hrf_emulated_counts after = counted();
    unsetenv("HRF_EMULATED_CUDA");
    if (memcmp(result, expected, (size_t)n * sizeof *result) != 0)
        fail_msg("%s on %s: not one rank's bytes in int8", layout, gpus);
    hrf_free(result);
    *of_graphs = after.flags_taken_replayed - before.flags_taken_replayed;
    return after.flags_taken - before.flags_taken;
}

static void a_batch_of_ranks_with_a_gpu_each_is_one_graph_exchanges_included(void **state)
{
    static const char *const recorded[] = { "spatial=3", "spatial=2x2,microbatches=2",
                                            "spatial=2,stages=2,microbatches=4,halos=overlap" };
    struct work w = make_work();
    int64_t n;
    long of_graphs;
    (void)state;
    float *one = result_of(&w, HRF_INT8, NULL, HRF_TRANSPORT_IPC, &n);
    for (size_t i = 0; i < sizeof recorded / sizeof recorded[0]; i++) {
        const long all = count_flags(&w, "devices=4,harsh", recorded[i], one, &of_graphs);
        if (all == 0 || of_graphs < all / 2) /* not the first run, nor trying them out */
            fail_msg("%s: %ld of %ld flags in graphs", recorded[i], of_graphs, all);
    }
    /* Ranks of one process on one GPU (which try flags out, twice each), mirrored pipelines, and
     * GPUs without flags tell each other by the host. */
    assert_int_equal(count_flags(&w, "devices=1", "spatial=3", one, &of_graphs), 6);
    assert_int_equal(count_flags(&w, "devices=4", layouts[4], one, &of_graphs), 0);
    assert_int_equal(count_flags(&w, "devices=4,no-flags", "spatial=3", one, &of_graphs), 0);
    hrf_free(one);
    release_work(&w);
}

/* ---- exchanges beside kernels ---- */

static const char *const overlapped[] = { "spatial=3,halos=overlap",
                                          "spatial=2x2,microbatches=2,halos=overlap",
                                          "spatial=2,stages=2,microbatches=4,halos=overlap" };
enum { N_OVERLAPPED = sizeof overlapped / sizeof overlapped[0] };

static void exchanges_beside_kernels_give_one_ranks_results(void **state)
{
    struct work w = make_work();
    (void)state;
    assert_int_equal(setenv("HRF_EMULATED_CUDA", "devices=4", 1), 0);
    check_layouts(&w, overlapped, N_OVERLAPPED, HRF_TRANSPORT_IPC);
    check_layouts(&w, overlapped, N_OVERLAPPED, HRF_TRANSPORT_HOST);
    check_layouts(&w, overlapped, N_OVERLAPPED, HRF_TRANSPORT_NCCL);
    unsetenv("HRF_EMULATED_CUDA");
    release_work(&w);
}

/* ---- NCCL: a GPU each ---- */

static void choose(const char *gpus, const char *nccl)
{
    assert_int_equal(setenv("HRF_EMULATED_CUDA", gpus, 1), 0);
    assert_int_equal(
        nccl != NULL ? setenv("HRF_EMULATED_NCCL", nccl, 1) : unsetenv("HRF_EMULATED_NCCL"), 0);
}

static void unchoose(void)
{
    unsetenv("HRF_EMULATED_CUDA");
    unsetenv("HRF_EMULATED_NCCL");
}

static void parts_carried_by_nccl_give_one_ranks_results(void **state)
{
    static const char *const without_mirrors[] = { "spatial=3", "spatial=2x2,microbatches=2",
                                                   "data=2,stages=2,microbatches=2",
                                                   "spatial=2,stages=2,microbatches=4",
                                                   "stages=4,microbatches=4" };
    struct work w = make_work();
    (void)state;
    choose("devices=4", NULL);
    check_layouts(&w, without_mirrors, sizeof without_mirrors / sizeof without_mirrors[0],
                  HRF_TRANSPORT_NCCL);
    unchoose();
    release_work(&w);
}

static void what_nccl_cannot_carry_is_told_with_the_reason_and_the_way_out(void **state)
{
    static const struct {
        const char *gpus, *nccl, *layout, *why;
    } cases[] = {
        { "devices=2", NULL, "spatial=3", "ranks 0 and 2 share the GPU 0000:3b:00.0" },
        { "devices=2", NULL, "stages=2,microbatches=2,bidirectional", "two mirrored pipelines" },
        { "devices=2", "version=21205", "spatial=2", "libnccl.so.2 is NCCL 2.12.5" },
        { "devices=2", "version=30001", "spatial=2", "libnccl.so.2 is NCCL 3.0.1" },
    };
    struct work w = make_work();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hrf_error err = { .text = "" };
        choose(cases[i].gpus, cases[i].nccl);
        assert_null(start(&w, HRF_FP32, cases[i].layout, HRF_TRANSPORT_NCCL, &err));
        if (err.status != HRF_E_UNSUPPORTED || strstr(err.text, cases[i].why) == NULL ||
            strstr(err.text, "use --comm ipc") == NULL)
            fail_msg("%s: '%s'", cases[i].why, err.text);
    }
    unchoose();
    release_work(&w);
}

/* Messages up to about 1000 bytes are quicker by IPC, larger ones by NCCL, or by `other` all of
 * them. */
static struct hrf_machine make_links(const char *other)
{
    struct hrf_machine m = { .n_links = 0 };
    m.links[m.n_links++] = hrf_link_simple("ipc", HRF_PLACEMENT_NODE, 2e-6, 1e8);
    m.links[m.n_links++] = hrf_link_simple("nccl", HRF_PLACEMENT_NODE, 12e-6, 1e11);
    m.links[m.n_links++] = hrf_link_simple("loop", HRF_PLACEMENT_NODE, 50e-6, 1e9);
    if (other != NULL)
        m.links[m.n_links++] = hrf_link_simple(other, HRF_PLACEMENT_NODE, 1e-6, 1e12);
    for (int32_t i = 0; i < m.n_links; i++)
        m.links[i].is_gpus = true;
    return m;
}

/* Whether a batch goes through although what NCCL carries breaks. */
static bool does_without_nccl(struct work *w)
{
    struct hrf_error err = { .text = "" };
    struct hrf_parallel *parallel = start(w, HRF_FP32, "spatial=3", HRF_TRANSPORT_AUTO, &err);
    assert_non_null(parallel);
    const bool goes = hrf_parallel_run(parallel, hrf_read_array, &w->source, &err) == HRF_OK;
    if (!goes && strstr(err.text, "NCCL") == NULL)
        fail_msg("'%s'", err.text);
    hrf_parallel_destroy(parallel);
    return goes;
}

/* What carries rank 0's messages of a layout. */
static void expect_transports(struct work *w, enum hrf_transport transport, const char *expected)
{
    struct hrf_error err = { .text = "" };
    struct hrf_parallel *parallel = start(w, HRF_FP32, "spatial=3", transport, &err);
    if (parallel == NULL)
        fail_msg("%s", err.text);
    assert_string_equal(hrf_parallel_transports(parallel), expected);
    hrf_parallel_destroy(parallel);
}

static void
each_message_goes_by_the_transport_that_was_measured_as_the_quickest_for_it(void **state)
{
    static const char *const mixed[] = { "spatial=3", "spatial=2x2,microbatches=2,halos=overlap",
                                         "spatial=2,stages=2,microbatches=4" };
    struct work w = make_work();
    const struct hrf_machine by_size = make_links(NULL), by_ipc = make_links("ipc"),
                             by_host = make_links("loop");
    (void)state;
    known_links = &by_size;
    choose("devices=4", NULL);
    check_layouts(&w, mixed, 3, HRF_TRANSPORT_AUTO);
    expect_transports(&w, HRF_TRANSPORT_AUTO, "ipc+nccl");
    expect_transports(&w, HRF_TRANSPORT_NCCL, "nccl");
    expect_transports(&w, HRF_TRANSPORT_HOST, "loop");
    choose("devices=4", "breaks=0:1"); /* the first is its warm-up */
    assert_false(does_without_nccl(&w));
    known_links = &by_ipc;
    assert_true(does_without_nccl(&w));
    known_links = &by_host;
    assert_true(does_without_nccl(&w));
    /* Where it cannot be, what was measured for the others counts. */
    known_links = &by_size;
    choose("devices=2", NULL);
    check_layouts(&w, mixed, 1, HRF_TRANSPORT_AUTO);
    expect_transports(&w, HRF_TRANSPORT_AUTO, "ipc");
    known_links = NULL;
    unchoose();
    release_work(&w);
}

static void a_rank_that_cannot_join_nccl_ends_all_with_its_reason(void **state)
{
    struct work w = make_work();
    struct hrf_error err = { .text = "" };
    (void)state;
    choose("devices=3", "init-fails=1");
    assert_null(start(&w, HRF_FP32, "spatial=3", HRF_TRANSPORT_NCCL, &err));
    if (strstr(err.text, "NCCL, joining a group of ranks") == NULL)
        fail_msg("'%s'", err.text);
    unchoose();
    release_work(&w);
}

/* A layout on as many GPUs, until it fails; the reason. `nccl` NULL: without NCCL. */
static struct hrf_error failure_of(struct work *w, const char *gpus, const char *nccl,
                                   int64_t deadline_ms, hrf_source *source)
{
    const struct hrf_session_config config = { .device = "cuda",
                                               .precision = HRF_FP32,
                                               .n_threads = 1,
                                               .transport = nccl != NULL ? HRF_TRANSPORT_NCCL
                                                                         : HRF_TRANSPORT_IPC };
    struct hrf_layout_plan plan;
    struct hrf_error err = { .text = "" };
    struct hrf_parallel *parallel = NULL;
    choose(gpus, nccl);
    assert_int_equal(hrf_layout_parse("spatial=3", &plan, &err), HRF_OK);
    if (hrf_parallel_create(w->graph, &config, &plan, deadline_ms, &parallel, &err) != HRF_OK)
        fail_msg("%s", err.text);
    enum hrf_status status = HRF_OK;
    for (int i = 0; i < 4 && status == HRF_OK; i++) /* queued, recorded, replayed */
        status = hrf_parallel_run(parallel, source, &w->source, &err);
    assert_int_not_equal(status, HRF_OK);
    hrf_parallel_destroy(parallel);
    unchoose();
    return err;
}

static void what_nccl_reports_ends_all_ranks_with_its_words(void **state)
{
    struct work w = make_work();
    (void)state;
    /* In the first batch and, the warm-up being one group, in a replayed one. */
    static const char *const when[] = { "breaks=1:2", "breaks=1:9", "breaks=1:20" };
    for (size_t i = 0; i < sizeof when / sizeof when[0]; i++) {
        const struct hrf_error err = failure_of(&w, "devices=3", when[i], 600000, hrf_read_array);
        if (strstr(err.text, "rank 1 of 3") == NULL ||
            strstr(err.text, "socket closed by rank 7") == NULL)
            fail_msg("%s: '%s'", when[i], err.text);
    }
    release_work(&w);
}

static void an_exchange_that_stands_still_is_ended_after_the_deadline(void **state)
{
    struct work w = make_work();
    (void)state;
    /* Longer than a rank that gets no processor looks as if it had died. */
    enum { DEADLINE_MS = 15000 };
    struct hrf_error err = failure_of(&w, "devices=3", "stands-still=2:4", DEADLINE_MS,
                                      hrf_read_array);
    if (strstr(err.text, "NCCL stands still") == NULL || strstr(err.text, "--comm ipc") == NULL)
        fail_msg("'%s'", err.text);
    err = failure_of(&w, "devices=3,harsh,loses=40", NULL, DEADLINE_MS, hrf_read_array);
    if (strstr(err.text, "write into the memory of another") == NULL ||
        strstr(err.text, "--comm mpi") == NULL)
        fail_msg("'%s'", err.text);
    release_work(&w);
}

static int n_read;
static enum hrf_status read_but_once(void *context, int32_t input, int64_t first, int64_t n,
                                     const struct hrf_box *box, float *out, struct hrf_error *err)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    const bool fails = ++n_read == 8; /* one of the three of the third batch */
    pthread_mutex_unlock(&mutex);
    return fails ? hrf_error_set(err, HRF_E_EXTERNAL, "the slide is gone")
                 : hrf_read_array(context, input, first, n, box, out, err);
}

static void a_rank_that_fails_ends_those_whose_gpus_wait_for_it(void **state)
{
    struct work w = make_work();
    (void)state;
    for (int i = 0; i < 2; i++) {
        n_read = 0;
        const struct hrf_error err = failure_of(&w, "devices=3", i == 0 ? "" : NULL, 600000,
                                                read_but_once);
        if (strstr(err.text, "the slide is gone") == NULL)
            fail_msg("'%s'", err.text);
    }
    release_work(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_taken_from_another_ranks_memory_give_one_ranks_results),
        cmocka_unit_test(parts_that_go_through_the_host_give_one_ranks_results),
        cmocka_unit_test(int8_engines_that_are_chosen_by_size_give_one_ranks_bytes),
        cmocka_unit_test(one_rank_tunes_for_all_that_have_its_kind_of_gpu),
        cmocka_unit_test(a_tuning_may_take_longer_than_ranks_wait_for_each_other),
        cmocka_unit_test(ranks_share_out_the_gpus_of_a_machine),
        cmocka_unit_test(
            gpus_that_do_not_reach_each_other_are_named_and_auto_goes_through_the_host),
        cmocka_unit_test(a_batch_of_ranks_with_a_gpu_each_is_one_graph_exchanges_included),
        cmocka_unit_test(exchanges_beside_kernels_give_one_ranks_results),
        cmocka_unit_test(parts_carried_by_nccl_give_one_ranks_results),
        cmocka_unit_test(what_nccl_cannot_carry_is_told_with_the_reason_and_the_way_out),
        cmocka_unit_test(
            each_message_goes_by_the_transport_that_was_measured_as_the_quickest_for_it),
        cmocka_unit_test(a_rank_that_cannot_join_nccl_ends_all_with_its_reason),
        cmocka_unit_test(what_nccl_reports_ends_all_ranks_with_its_words),
        cmocka_unit_test(an_exchange_that_stands_still_is_ended_after_the_deadline),
        cmocka_unit_test(a_rank_that_fails_ends_those_whose_gpus_wait_for_it),
    };
    return cmocka_run_group_tests(tests, put_it_in_place, tidy_up);
}
