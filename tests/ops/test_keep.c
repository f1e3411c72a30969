/* What stays in float32 of an INT8 network: by a node's name, by a tensor's, with the reason. */
#include "engine/passes/lower.h"
#include "engine/passes/passes.h"
#include "engine/run/bench.h"
#include "engine/run/session.h"
#include "tests/ops/build.h"
#include "tests/unit/unit.h"

#include <string.h>

enum { CHANNELS = 8, MOST_VALUES = 64 };

/* Three convolutions, the second's result and its input added before the third. */
static struct hrf_graph *make_graph(void)
{
    struct build b = build_start(3);
    const int32_t x = build_input(&b, SHAPE(1, CHANNELS, 9, 9));
    const int32_t first = build_plain_conv(&b, x, CHANNELS, CHANNELS, 3, 1, true);
    const int32_t second = build_plain_conv(&b, first, CHANNELS, CHANNELS, 3, 1, true);
    const int32_t sum = build_binary(&b, HRF_OP_ADD, build_unary(&b, HRF_OP_RELU, second), first);
    const int32_t third = build_plain_conv(&b, sum, CHANNELS, CHANNELS, 1, 1, true);
    return build_finish(&b, &third, 1);
}

struct lowered {
    struct hrf_graph *fused, *low;
    struct hrf_strbuf notes;
};

/* The graph is the result's. */
static enum hrf_status lower_graph(struct hrf_graph *graph, const char *const *keep,
                                   const char *const *reasons, int32_t n_keep, struct lowered *out,
                                   struct hrf_error *err)
{
    struct hrf_range ranges[MOST_VALUES];
    *out = (struct lowered){ .fused = graph, .notes = HRF_STRBUF_INIT };
    assert_int_equal(hrf_passes_run(out->fused, NULL), HRF_OK);
    assert_true(out->fused->n_values <= MOST_VALUES);
    for (int32_t v = 0; v < out->fused->n_values; v++)
        ranges[v] = (struct hrf_range){ .value = out->fused->values[v].name, .low = -4, .high = 4 };
    const struct hrf_lowering how = { .type = HRF_S8,
                                      .ranges = ranges,
                                      .n_ranges = out->fused->n_values,
                                      .keep = keep,
                                      .keep_reasons = reasons,
                                      .n_keep = n_keep };
    return hrf_pass_lower(out->fused, &how, &out->low, &out->notes, err);
}

static enum hrf_status lower(const char *const *keep, const char *const *reasons, int32_t n_keep,
                             struct lowered *out, struct hrf_error *err)
{
    return lower_graph(make_graph(), keep, reasons, n_keep, out, err);
}

static void release(struct lowered *l)
{
    hrf_graph_destroy(l->fused);
    hrf_graph_destroy(l->low);
    hrf_strbuf_release(&l->notes);
}

/* The i-th convolution. */
static const struct hrf_node *convolution(const struct hrf_graph *graph, int i)
{
    for (int32_t n = 0; n < graph->n_nodes; n++)
        if (graph->nodes[n].op == HRF_OP_CONV && i-- == 0)
            return &graph->nodes[n];
    fail_msg("the graph has too few convolutions");
    return NULL;
}

static enum hrf_dtype type_of(const struct hrf_graph *graph, int32_t value)
{
    return graph->values[value].dtype;
}

static void a_node_is_kept_by_its_name(void **state)
{
    (void)state;
    struct lowered l;
    HRF_AUTO(hrf_graph) graph = make_graph();
    assert_int_equal(hrf_passes_run(graph, NULL), HRF_OK);
    const char *const keep[] = { convolution(graph, 1)->name };
    assert_int_equal(lower(keep, NULL, 1, &l, NULL), HRF_OK);
    const struct hrf_node *first = convolution(l.low, 0), *second = convolution(l.low, 1);
    assert_int_equal(type_of(l.low, first->inputs[HRF_CONV_X]), HRF_S8);
    assert_int_equal(type_of(l.low, second->inputs[HRF_CONV_X]), HRF_F32);
    assert_int_equal(type_of(l.low, convolution(l.low, 2)->inputs[HRF_CONV_X]), HRF_S8);
    assert_non_null(strstr(l.notes.text, "stays in float32: asked for"));
    release(&l);
}

/* The first convolution's result is read by the second and the sum: both stay in float32, while it
 * is itself still computed in 8 bits. */
static void a_tensor_is_kept_by_its_name_with_a_reason(void **state)
{
    (void)state;
    struct lowered l;
    HRF_AUTO(hrf_graph) graph = make_graph();
    assert_int_equal(hrf_passes_run(graph, NULL), HRF_OK);
    const char *const keep[] = { graph->values[convolution(graph, 0)->outputs[0]].name };
    const char *const reasons[] = { "3 dB are too few" };
    assert_int_equal(lower(keep, reasons, 1, &l, NULL), HRF_OK);
    const struct hrf_node *first = convolution(l.low, 0), *second = convolution(l.low, 1);
    assert_int_equal(type_of(l.low, first->inputs[HRF_CONV_X]), HRF_S8);
    assert_int_equal(type_of(l.low, first->outputs[0]), HRF_F32);
    assert_int_equal(type_of(l.low, second->inputs[HRF_CONV_X]), HRF_F32);
    assert_int_equal(type_of(l.low, convolution(l.low, 2)->inputs[HRF_CONV_X]), HRF_S8);
    assert_non_null(strstr(l.notes.text, "stays in float32: 3 dB are too few"));
    release(&l);
}

/* A depth-wise convolution that is added to tokens, and one that is not: only the first's sum goes
 * on, through all later layers, and stays in float32. */
static void sums_of_tokens_are_not_rounded(void **state)
{
    (void)state;
    for (int adds = 0; adds < 2; adds++) {
        struct build b = build_start(4);
        struct hrf_attributes same = hrf_attributes_default();
        for (int i = 0; i < HRF_MAX_SPATIAL; i++) {
            same.window.kernel[i] = 3;
            same.window.pad_begin[i] = same.window.pad_end[i] = 1;
        }
        struct hrf_attributes of_pixels = hrf_attributes_default();
        of_pixels.of_each_pixel = true;
        of_pixels.axis = 1;
        const int32_t norm[] = { build_input(&b, SHAPE(1, CHANNELS, 9, 9)),
                                 build_constant(&b, SHAPE(CHANNELS), 0.5, 1.5),
                                 build_constant(&b, SHAPE(CHANNELS), -1, 1) };
        const int32_t tokens = build_node(&b, HRF_OP_LAYER_NORM, norm, 3, &of_pixels);
        int32_t y = build_conv(&b, tokens, CHANNELS, CHANNELS, CHANNELS, true, &same);
        y = adds ? build_binary(&b, HRF_OP_ADD, y, tokens) : y;
        y = build_plain_conv(&b, y, CHANNELS, CHANNELS, 3, 1, true);
        HRF_AUTO(hrf_graph) graph = build_finish(&b, &y, 1);
        struct hrf_range ranges[MOST_VALUES];
        struct hrf_strbuf notes = HRF_STRBUF_INIT;
        HRF_AUTO(hrf_graph) low = NULL;
        assert_int_equal(hrf_passes_run(graph, NULL), HRF_OK);
        for (int32_t v = 0; v < graph->n_values; v++)
            ranges[v] = (struct hrf_range){ graph->values[v].name, .low = -4, .high = 4 };
        const struct hrf_lowering how = {
            .type = HRF_S8, .ranges = ranges, .n_ranges = graph->n_values, .rounds_rows = true
        };
        assert_int_equal(hrf_pass_lower(graph, &how, &low, &notes, NULL), HRF_OK);
        assert_int_equal(type_of(low, convolution(low, 0)->inputs[HRF_CONV_X]),
                         adds ? HRF_F32 : HRF_S8);
        assert_int_equal(type_of(low, convolution(low, 1)->inputs[HRF_CONV_X]), HRF_S8);
        assert_int_equal(strstr(notes.text, "adds to tokens") != NULL, adds);
        hrf_strbuf_release(&notes);
    }
}

static void a_name_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct lowered l;
    struct hrf_error err = { .status = HRF_OK };
    const char *const keep[] = { "layer9.conv2" };
    assert_int_equal(lower(keep, NULL, 1, &l, &err), HRF_E_USER);
    assert_non_null(
        strstr(err.text, "'layer9.conv2' is to stay in float32, but no node or tensor"));
    assert_null(l.low);
    release(&l);
    HRF_AUTO(hrf_graph) graph = make_graph();
    HRF_AUTO_FREE char *near = hrf_format("%s2", convolution(graph, 1)->name);
    const char *const misspelt[] = { convolution(graph, 0)->name, near };
    assert_int_equal(hrf_lower_check_keep(graph, misspelt, 1, &err), HRF_OK);
    assert_int_equal(hrf_lower_check_keep(graph, misspelt, 2, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "has that name; did you mean '"));
    assert_non_null(strstr(err.text, convolution(graph, 1)->name));
}

/* All of it kept: INT8 by name, float32 by every bit. */
static void a_network_that_is_kept_whole_gives_float32(void **state)
{
    (void)state;
    struct lowered l;
    const char *keep[MOST_VALUES];
    HRF_AUTO(hrf_graph) graph = make_graph();
    assert_int_equal(hrf_passes_run(graph, NULL), HRF_OK);
    for (int32_t v = 0; v < graph->n_values; v++)
        keep[v] = graph->values[v].name;
    assert_int_equal(lower(keep, NULL, graph->n_values, &l, NULL), HRF_OK);
    for (int32_t v = 0; v < l.low->n_values; v++)
        assert_true(type_of(l.low, v) != HRF_S8 && type_of(l.low, v) != HRF_U8);
    int64_t n, n_low;
    HRF_AUTO_FREE float *want = run_graph(graph, "cpu", 1, 7, 1, &n);
    HRF_AUTO_FREE float *got = run_graph(l.low, "cpu", 1, 7, 1, &n_low);
    assert_int_equal(n, n_low);
    assert_memory_equal(got, want, (size_t)n * sizeof *got);
    release(&l);
}

/* A convolution, and one with the first's result added: 8-bit numbers in, float32 out. */
static struct hrf_graph *make_residual(void)
{
    struct build b = build_start(5);
    const int32_t x = build_input(&b, SHAPE(2, CHANNELS, 9, 9));
    const int32_t first = build_plain_conv(&b, x, CHANNELS, CHANNELS, 3, 1, true);
    const int32_t second = build_plain_conv(&b, first, CHANNELS, CHANNELS, 3, 1, true);
    const int32_t sum = build_unary(&b, HRF_OP_RELU, build_binary(&b, HRF_OP_ADD, second, first));
    return build_finish(&b, &sum, 1);
}

static void no_convolution_runs_in_plain_loops(struct hrf_graph *graph)
{
    const struct hrf_network_config config = {
        .session = { .device = "cpu", .precision = HRF_INT8, .n_threads = 1 }
    };
    struct hrf_bench bench = { .n_layers = 0 };
    struct hrf_error err = { .status = HRF_OK };
    int32_t n_convolutions = 0;
    if (hrf_bench_run(graph, &config, 1, true, &bench, &err) != HRF_OK)
        fail_msg("%s", err.text);
    for (int32_t i = 0; i < bench.n_layers; i++) {
        n_convolutions += bench.layers[i].op == HRF_OP_CONV;
        if (bench.layers[i].op == HRF_OP_CONV)
            assert_string_not_equal(bench.layers[i].implementation, "integer");
    }
    assert_int_equal(n_convolutions, 2);
    hrf_bench_release(&bench);
}

static void a_sum_wanted_in_float32_has_the_bits_of_the_reference_and_a_fast_kernel(void **state)
{
    (void)state;
    struct lowered l;
    assert_int_equal(lower_graph(make_residual(), NULL, NULL, 0, &l, NULL), HRF_OK);
    const struct hrf_node *sum = convolution(l.low, 1);
    assert_int_equal(type_of(l.low, sum->inputs[HRF_CONV_RESIDUAL]), HRF_S8);
    assert_int_equal(type_of(l.low, sum->outputs[0]), HRF_F32);
    int64_t n, n_ref;
    bool is_pure;
    HRF_AUTO_FREE float *want = run_graph_in(l.fused, "ref", HRF_INT8, 1, 7, 1, &n_ref, &is_pure);
    HRF_AUTO_FREE float *got = run_graph_in(l.fused, "cpu", HRF_INT8, 2, 7, 2, &n, NULL);
    assert_true(is_pure);
    assert_int_equal(n, n_ref);
    assert_memory_equal(got, want, (size_t)n * sizeof *got);
    no_convolution_runs_in_plain_loops(l.fused);
    release(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_is_kept_by_its_name),
        cmocka_unit_test(a_tensor_is_kept_by_its_name_with_a_reason),
        cmocka_unit_test(sums_of_tokens_are_not_rounded),
        cmocka_unit_test(a_name_that_is_not_there_is_named),
        cmocka_unit_test(a_network_that_is_kept_whole_gives_float32),
        cmocka_unit_test(a_sum_wanted_in_float32_has_the_bits_of_the_reference_and_a_fast_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
