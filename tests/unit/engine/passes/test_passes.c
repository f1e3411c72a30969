/* The passes by value: what a small graph looks like before and after; then random whole graphs,
 * which must give the same numbers with and without them. */
#include "tests/unit/unit.h"

#include "engine/passes/lower.h"
#include "engine/passes/passes.h"
#include "tests/ops/build.h"
#include "tests/unit/refusal_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* "Conv+relu Conv+residual+relu Add": one word a node, in order. */
static const char *words(const struct hrf_graph *graph)
{
    static char text[2048];
    static const char *const activations[] = { "", "+relu", "+clip", "+leaky" };
    size_t at = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const struct hrf_node *node = &graph->nodes[i];
        const bool has_residual = (node->op == HRF_OP_CONV || node->op == HRF_OP_GEMM) &&
                                  node->n_inputs > HRF_CONV_RESIDUAL &&
                                  node->inputs[HRF_CONV_RESIDUAL] >= 0;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s%s%s%s", i > 0 ? " " : "",
                               hrf_node_has_prologue(node) ? "prologue+" : "",
                               hrf_op_name(node->op), has_residual ? "+residual" : "",
                               activations[node->attributes.activation]);
    }
    return text;
}

/* Runs the passes over the graph of `b`, which they end. */
static const char *passed(struct build *b, const int32_t *outputs, int32_t n)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_graph *graph = build_finish(b, outputs, n);
    if (hrf_passes_run(graph, &err) != HRF_OK)
        fail_msg("%s", err.text);
    const char *text = words(graph);
    hrf_graph_destroy(graph);
    return text;
}

static struct build start(int32_t *x)
{
    struct build b = build_start(7);
    *x = build_input(&b, SHAPE(1, 4, 6, 5));
    return b;
}

static int32_t conv(struct build *b, int32_t x)
{
    return build_plain_conv(b, x, 4, 4, 3, 1, true);
}

static void a_convolution_takes_in_what_follows(void **state)
{
    (void)state;
    int32_t x;
    struct build b = start(&x);
    int32_t y = build_unary(&b, HRF_OP_RELU, build_batch_norm(&b, conv(&b, x), 4));
    assert_string_equal(passed(&b, &y, 1), "Conv+relu");
    b = start(&x);
    y = build_unary(&b, HRF_OP_LEAKY_RELU, conv(&b, x));
    assert_string_equal(passed(&b, &y, 1), "Conv+leaky");
    b = start(&x); /* the basic block of a residual net, and the one of a bottleneck */
    y = build_binary(&b, HRF_OP_ADD, build_batch_norm(&b, conv(&b, x), 4), x);
    y = build_unary(&b, HRF_OP_RELU, y);
    assert_string_equal(passed(&b, &y, 1), "Conv+residual+relu");
    b = start(&x);
    y = build_binary(&b, HRF_OP_ADD, x, conv(&b, x));
    assert_string_equal(passed(&b, &y, 1), "Conv+residual");
}

static void an_activation_before_the_sum_stays_before_it(void **state)
{
    (void)state;
    int32_t x;
    struct build b = start(&x);
    int32_t y = build_binary(&b, HRF_OP_ADD, build_unary(&b, HRF_OP_RELU, conv(&b, x)), x);
    y = build_unary(&b, HRF_OP_RELU, y);
    assert_string_equal(passed(&b, &y, 1), "Conv+relu Add Relu");
}

static void of_two_convolutions_the_later_one_sums(void **state)
{
    (void)state;
    int32_t x;
    struct build b = start(&x);
    const int32_t first = conv(&b, x), second = conv(&b, x);
    const int32_t y = build_binary(&b, HRF_OP_ADD, second, first);
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_graph *graph = build_finish(&b, &y, 1);
    char weights[32]; /* values are renumbered, names stay */
    const struct hrf_node *late = &graph->nodes[graph->values[second].producer];
    snprintf(weights, sizeof weights, "%s", graph->values[late->inputs[HRF_CONV_WEIGHTS]].name);
    assert_int_equal(hrf_passes_run(graph, &err), HRF_OK);
    assert_string_equal(words(graph), "Conv Conv+residual");
    const int32_t *inputs = graph->nodes[1].inputs;
    assert_string_equal(graph->values[inputs[HRF_CONV_WEIGHTS]].name, weights);
    assert_int_equal(graph->values[inputs[HRF_CONV_RESIDUAL]].producer, 0);
    hrf_graph_destroy(graph);
}

static void a_norm_before_the_convolution_is_not_folded(void **state)
{
    (void)state;
    int32_t x;
    struct build b = start(&x);
    int32_t y = build_unary(&b, HRF_OP_RELU, build_batch_norm(&b, x, 4));
    y = build_binary(&b, HRF_OP_ADD, conv(&b, y), x);
    assert_string_equal(passed(&b, &y, 1), "BatchNormalization+relu Conv+residual");
}

/* A back end whose only kernel takes prologues before windows that it takes. */
#define TABLE(table, ...)                                                                          \
    static const struct hrf_kernel_row table##_row = { .name = "conv",                             \
                                                       HRF_ROW_OPS(HRF_OP_CONV),                   \
                                                       .forms = HRF_FORM_ANY,                      \
                                                       .isa = HRF_ISA_ANY,                         \
                                                       .extras = HRF_TAKES_PROLOGUE,               \
                                                       __VA_ARGS__ };                              \
    static const struct hrf_kernel_table table = {                                                 \
        .device = "test",                                                                          \
        .rows = (const struct hrf_kernel_row *const[]){ &table##_row, NULL },                      \
    }

static const char *pointwise_misfit(const struct hrf_graph *graph, const struct hrf_node *conv)
{
    return graph->values[conv->inputs[HRF_CONV_WEIGHTS]].shape.dims[2] == 1 ? NULL
                                                                            : "large windows";
}

TABLE(takes_any, .misfit = NULL);
TABLE(takes_pointwise, .misfit = pointwise_misfit);

/* The passes, and then the prologues. */
static const char *prefixed(struct build *b, int32_t y, const struct hrf_kernel_table *takes)
{
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_graph) graph = build_finish(b, &y, 1);
    if (hrf_passes_run(graph, &err) != HRF_OK ||
        hrf_pass_fuse_prologue(graph, takes, &err) != HRF_OK)
        fail_msg("%s", err.text);
    assert_int_equal(hrf_graph_check(graph, &err), HRF_OK);
    assert_int_equal(hrf_graph_infer_shapes(graph, &err), HRF_OK);
    return words(graph);
}

static void a_convolution_takes_in_what_stands_before_it(void **state)
{
    (void)state;
    int32_t x;
    struct build b = start(&x); /* a pre-activation block */
    int32_t y = build_unary(&b, HRF_OP_RELU, build_batch_norm(&b, x, 4));
    y = build_binary(&b, HRF_OP_ADD, conv(&b, y), x);
    assert_string_equal(prefixed(&b, y, &takes_any), "prologue+Conv+residual");
    b = start(&x); /* two that read it: its first and its shortcut */
    y = build_unary(&b, HRF_OP_RELU, build_batch_norm(&b, x, 4));
    y = build_binary(&b, HRF_OP_ADD, conv(&b, y), conv(&b, y));
    assert_string_equal(prefixed(&b, y, &takes_any), "prologue+Conv prologue+Conv+residual");
    b = start(&x); /* an activation alone */
    y = conv(&b, build_unary(&b, HRF_OP_LEAKY_RELU, x));
    assert_string_equal(prefixed(&b, y, &takes_any), "prologue+Conv");
    b = start(&x); /* one of each is enough: the sum's Relu stays a tensor for the last sum */
    y = build_unary(&b, HRF_OP_RELU, build_binary(&b, HRF_OP_ADD, x, x));
    y = build_binary(&b, HRF_OP_ADD, conv(&b, y), y);
    assert_string_equal(prefixed(&b, y, &takes_any), "Add Relu Conv+residual");
}

static void a_tensor_that_one_reader_needs_is_there_for_all(void **state)
{
    (void)state;
    int32_t x;
    struct build b = start(&x); /* one of two back ends' convolutions cannot */
    int32_t y = build_unary(&b, HRF_OP_RELU, build_batch_norm(&b, x, 4));
    y = build_binary(&b, HRF_OP_ADD, conv(&b, y), build_plain_conv(&b, y, 4, 4, 1, 1, true));
    assert_string_equal(prefixed(&b, y, &takes_pointwise),
                        "BatchNormalization+relu Conv Conv+residual");
    b = start(&x); /* a pool, and the end */
    y = build_unary(&b, HRF_OP_GLOBAL_AVERAGE_POOL, build_batch_norm(&b, x, 4));
    assert_string_equal(prefixed(&b, y, &takes_any), "BatchNormalization GlobalAveragePool");
    b = start(&x);
    y = build_batch_norm(&b, x, 4);
    assert_string_equal(prefixed(&b, y, &takes_any), "BatchNormalization");
}

static bool takes_other_names(const struct hrf_graph *graph, const struct hrf_node *conv,
                              const struct hrf_node *norm)
{
    (void)graph;
    return strcmp(conv->name, norm->name) != 0;
}

TABLE(takes_both, .takes_norm = takes_other_names);

/* Two convolutions; the norm of the first one's stands behind the second, until it is marked. */
static void a_norm_that_others_read_around_is_a_second_output(void **state)
{
    (void)state;
    int32_t x;
    struct build b = start(&x);
    const int32_t raw = conv(&b, x), other = conv(&b, x);
    const int32_t norm = build_batch_norm(&b, raw, 4);
    int32_t y = build_binary(&b, HRF_OP_MUL, build_binary(&b, HRF_OP_MUL, norm, other), raw);
    HRF_AUTO(hrf_graph) graph = build_finish(&b, &y, 1);
    hrf_pass_mark_second_outputs(graph, &takes_both);
    assert_string_equal(words(graph), "Conv BatchNormalization Conv Mul Mul");
    assert_ptr_equal(hrf_graph_second_of(graph, &graph->nodes[0]), &graph->nodes[1]);
    assert_true(hrf_graph_is_second(graph, &graph->nodes[1]));
    assert_null(hrf_graph_second_of(graph, &graph->nodes[2]));
    b = start(&x); /* nobody else reads what is before the norm: it need not be stored */
    y = build_batch_norm(&b, conv(&b, x), 4);
    HRF_AUTO(hrf_graph) alone = build_finish(&b, &y, 1);
    hrf_pass_mark_second_outputs(alone, &takes_both);
    assert_null(hrf_graph_second_of(alone, &alone->nodes[0]));
}

static void the_prologue_s_numbers_are_those_of_the_norm(void **state)
{
    (void)state;
    struct hrf_error err = { .status = HRF_OK };
    const float scale[] = { 2, -1 }, bias[] = { 0.5F, 3 }, mean[] = { 1, -2 },
                variance[] = { 3, 0 };
    const float *const numbers[] = { scale, bias, mean, variance };
    struct build b = build_start(1);
    struct hrf_attributes a = hrf_attributes_default();
    int32_t inputs[5] = { build_input(&b, SHAPE(1, 2, 3, 3)) };
    for (int i = 0; i < 4; i++) {
        inputs[1 + i] = build_constant(&b, SHAPE(2), 0, 1);
        memcpy(b.graph->values[inputs[1 + i]].data, numbers[i], sizeof scale);
    }
    a.epsilon = 1;
    const int32_t norm = build_node(&b, HRF_OP_BATCH_NORM, inputs, 5, &a);
    const int32_t y = build_plain_conv(&b, norm, 2, 2, 1, 1, true);
    HRF_AUTO(hrf_graph) graph = build_finish(&b, &y, 1);
    assert_int_equal(hrf_pass_fuse_prologue(graph, &takes_any, &err), HRF_OK);
    assert_int_equal(graph->n_nodes, 1);
    const float *factors = graph->values[graph->nodes[0].inputs[HRF_CONV_FACTORS]].data;
    const float *shifts = graph->values[graph->nodes[0].inputs[HRF_CONV_SHIFTS]].data;
    assert_true(factors[0] == 1 && factors[1] == -1);  /* scale / sqrt(variance + 1) */
    assert_true(shifts[0] == -0.5F && shifts[1] == 1); /* bias - mean * factor */
    assert_int_equal(graph->nodes[0].attributes.prologue.activation, HRF_ACT_NONE);
}

static void what_others_read_is_kept(void **state)
{
    (void)state;
    int32_t x;
    struct build b = start(&x);
    int32_t c = conv(&b, x); /* read by the norm and by the sum */
    int32_t y = build_binary(&b, HRF_OP_ADD, build_batch_norm(&b, c, 4), c);
    assert_string_equal(passed(&b, &y, 1), "Conv BatchNormalization Add");
    b = start(&x);
    const int32_t both[] = { conv(&b, x), 0 }; /* an output of the graph */
    int32_t outputs[] = { both[0], build_unary(&b, HRF_OP_RELU, both[0]) };
    assert_string_equal(passed(&b, outputs, 2), "Conv Relu");
    b = start(&x); /* one producer, twice the same side */
    c = conv(&b, x);
    y = build_binary(&b, HRF_OP_ADD, c, c);
    assert_string_equal(passed(&b, &y, 1), "Conv Add");
}

static void a_sum_that_stretches_a_side_is_no_residual(void **state)
{
    (void)state;
    int32_t x;
    struct build b = start(&x);
    const int32_t row = build_input(&b, SHAPE(1, 4, 1, 1));
    int32_t y = build_binary(&b, HRF_OP_ADD, conv(&b, x), row);
    assert_string_equal(passed(&b, &y, 1), "Conv Add");
    b = start(&x);
    y = build_binary(&b, HRF_OP_ADD, conv(&b, x), build_constant(&b, SHAPE(1, 4, 6, 5), -1, 1));
    assert_string_equal(passed(&b, &y, 1), "Conv Add"); /* a constant has no buffer */
}

static void a_residual_is_taken_once(void **state)
{
    (void)state;
    int32_t x;
    struct build b = start(&x);
    int32_t y = build_binary(&b, HRF_OP_ADD, build_binary(&b, HRF_OP_ADD, conv(&b, x), x), x);
    assert_string_equal(passed(&b, &y, 1), "Conv+residual Add");
    b = start(&x); /* a norm after the sum is another function */
    y = build_batch_norm(&b, build_binary(&b, HRF_OP_ADD, conv(&b, x), x), 4);
    assert_string_equal(passed(&b, &y, 1), "Conv+residual BatchNormalization");
}

static void a_product_takes_in_relu_and_clip_but_not_leaky(void **state)
{
    (void)state;
    static const struct {
        enum hrf_op op;
        const char *after;
    } cases[] = { { HRF_OP_RELU, "Gemm+relu" },
                  { HRF_OP_CLIP, "Gemm+clip" },
                  { HRF_OP_LEAKY_RELU, "Gemm LeakyRelu" },
                  { HRF_OP_SIGMOID, "Gemm Sigmoid" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct build b = build_start(3);
        const int32_t x = build_input(&b, SHAPE(2, 5));
        const int32_t w = build_constant(&b, SHAPE(5, 3), -1, 1);
        const int32_t y = build_unary(&b, cases[i].op, build_binary(&b, HRF_OP_GEMM, x, w));
        assert_string_equal(passed(&b, &y, 1), cases[i].after);
    }
}

static void identity_goes_unless_the_graph_ends_there(void **state)
{
    (void)state;
    int32_t x;
    struct build b = start(&x);
    int32_t y = build_unary(&b, HRF_OP_IDENTITY, conv(&b, x));
    y = build_unary(&b, HRF_OP_RELU, y);
    assert_string_equal(passed(&b, &y, 1), "Conv+relu");
    b = start(&x);
    y = build_unary(&b, HRF_OP_IDENTITY, x);
    assert_string_equal(passed(&b, &y, 1), "Identity");
}

/* One channel in, one out, 1x1: weight 2, bias 3; scale 4, shift 5, mean 6, variance 15.75 and
 * epsilon 0.25 make the factor 1, so w = 2 * 1 and b = (3 - 6) * 1 + 5. */
static void folded_numbers_are_these(void **state)
{
    (void)state;
    static const float parts[] = { 4, 5, 6, 15.75F };
    struct hrf_error err = { .status = HRF_OK };
    struct build b = build_start(1);
    const struct hrf_shape one = SHAPE(1), kernel = SHAPE(1, 1, 1, 1);
    int32_t inputs[5] = { build_input(&b, SHAPE(1, 1, 2, 2)) }, index[6];
    const float weight = 2, bias = 3;
    assert_int_equal(hrf_graph_add_value(b.graph, "w", HRF_F32, &kernel, &weight, &index[0], &err),
                     HRF_OK);
    assert_int_equal(hrf_graph_add_value(b.graph, "b", HRF_F32, &one, &bias, &index[1], &err),
                     HRF_OK);
    inputs[1] = index[0];
    inputs[2] = index[1];
    inputs[0] = build_node(&b, HRF_OP_CONV, inputs, 3, NULL);
    for (int i = 0; i < 4; i++) {
        char name[2] = { (char)('p' + i), '\0' };
        assert_int_equal(
            hrf_graph_add_value(b.graph, name, HRF_F32, &one, &parts[i], &inputs[1 + i], &err),
            HRF_OK);
    }
    struct hrf_attributes a = hrf_attributes_default();
    a.epsilon = 0.25F;
    const int32_t y = build_node(&b, HRF_OP_BATCH_NORM, inputs, 5, &a);
    struct hrf_graph *graph = build_finish(&b, &y, 1);
    assert_int_equal(hrf_passes_run(graph, &err), HRF_OK);
    assert_string_equal(words(graph), "Conv");
    const float *w = graph->values[graph->nodes[0].inputs[HRF_CONV_WEIGHTS]].data;
    const float *shift = graph->values[graph->nodes[0].inputs[HRF_CONV_BIAS]].data;
    assert_float_equal(w[0], 2, 0);
    assert_float_equal(shift[0], 2, 0);
    hrf_graph_destroy(graph);
}

/* ---- random graphs ---- */

enum { N_GRAPHS = 150, N_STEPS = 14 };

/* One more node over the values so far, all of one shape; rarely one of another kind. */
static int32_t grow(struct build *b, const int32_t *values, int n)
{
    static const enum hrf_op unary[] = { HRF_OP_RELU,    HRF_OP_RELU,       HRF_OP_CLIP,
                                         HRF_OP_SIGMOID, HRF_OP_LEAKY_RELU, HRF_OP_IDENTITY };
    const int32_t recent = values[build_pick(b, n > 2 ? n - 3 : 0, n - 1)];
    const int32_t any = values[build_pick(b, 0, n - 1)];
    struct hrf_attributes a = hrf_attributes_default();
    switch (build_pick(b, 0, 9)) {
    case 0:
    case 1:
    case 2:
        return build_plain_conv(b, recent, 3, 3, build_pick(b, 0, 1) * 2 + 1, 1,
                                build_pick(b, 0, 1) == 1);
    case 3:
    case 4:
        return build_batch_norm(b, recent, 3);
    case 5:
    case 6:
        return build_binary(b, HRF_OP_ADD, recent, any);
    case 7:
        return build_binary(b, build_pick(b, 0, 1) == 1 ? HRF_OP_SUB : HRF_OP_MUL, recent, any);
    default:
        a.activation_min = -0.5F;
        a.activation_max = 0.75F;
        a.alpha = 0.1F;
        return build_node(b, unary[build_pick(b, 0, 5)], &recent, 1, &a);
    }
}

/* *last: the value that everything ends in; *all: every value, for a graph in which nothing may
 * go because each is an output. */
static struct hrf_graph *random_graph(uint64_t seed, bool keep_all)
{
    struct build b = build_start(seed);
    int32_t values[N_STEPS + 2] = { build_input(&b, SHAPE(1, 3, 5, 4)) };
    int n = 1;
    for (; n <= N_STEPS; n++) {
        values[n] = grow(&b, values, n);
        /* Bounded, so that products of products stay numbers. */
        if (n % 5 == 0)
            values[n] = build_unary(&b, HRF_OP_TANH, values[n]);
    }
    int32_t outputs[N_STEPS + 1] = { values[N_STEPS] };
    for (int i = 1; i < N_STEPS && keep_all; i++)
        outputs[i] = values[i];
    return build_finish(&b, outputs, keep_all ? N_STEPS : 1);
}

static void random_graphs_compute_the_same_with_and_without(void **state)
{
    (void)state;
    int64_t n_before = 0, n_after = 0;
    double worst = 0;
    for (uint64_t seed = 1; seed <= N_GRAPHS; seed++) {
        struct hrf_error err = { .status = HRF_OK };
        struct hrf_graph *fused = random_graph(seed, false), *kept = random_graph(seed, true);
        int64_t n, n_kept;
        float *without = run_graph(kept, "ref", 1, seed, 1, &n_kept);
        float *with = run_graph(fused, "ref", 1, seed, 1, &n);
        float *on_cpu = run_graph(fused, "cpu", 1, seed, 1, &n); /* with prologues, too */
        const double difference = relative_difference(with, without, n);
        assert_true(relative_difference(on_cpu, without, n) <= 1e-4);
        hrf_free(on_cpu);
        if (!(difference <= 1e-5))
            fail_msg("seed %d: %g apart: %s", (int)seed, difference, words(fused));
        worst = fmax(worst, difference);
        n_before += fused->n_nodes;
        assert_int_equal(hrf_passes_run(fused, &err), HRF_OK);
        n_after += fused->n_nodes;
        hrf_graph_destroy(fused);
        hrf_graph_destroy(kept);
        hrf_free(with);
        hrf_free(without);
    }
    printf("%d graphs, %d nodes become %d, worst difference %.1e\n", N_GRAPHS, (int)n_before,
           (int)n_after, worst);
    assert_true(n_after < n_before * 2 / 3);
}

static void no_allocation_may_fail_unseen(void **state)
{
    (void)state;
    for (int64_t n = 1;; n++) {
        struct hrf_error err = { .status = HRF_OK };
        struct hrf_graph *graph = random_graph(11, false);
        hrf_alloc_fail_after(n);
        enum hrf_status status = hrf_passes_run(graph, &err);
        if (status == HRF_OK)
            status = hrf_pass_fuse_prologue(graph, &takes_any, &err);
        const bool failed = hrf_alloc_count() >= n;
        hrf_alloc_fail_after(0);
        hrf_graph_destroy(graph);
        assert_int_equal(status, failed ? HRF_E_NOMEM : HRF_OK);
        if (!failed) {
            assert_true(n > 5);
            return;
        }
    }
}

static void windows_side_by_side_become_a_convolution_and_a_move(void **state)
{
    (void)state;
    int32_t x;
    struct build b = start(&x);
    struct hrf_attributes a = hrf_attributes_default();
    int32_t inputs[3] = { x, build_constant(&b, SHAPE(4, 3, 2, 2), -1, 1),
                          build_constant(&b, SHAPE(3), -1, 1) };
    for (int i = 0; i < 2; i++)
        a.window.kernel[i] = a.window.stride[i] = 2;
    int32_t y = build_node(&b, HRF_OP_CONV_TRANSPOSE, inputs, 3, &a);
    y = build_unary(&b, HRF_OP_RELU, build_batch_norm(&b, y, 3));
    assert_string_equal(passed(&b, &y, 1), "Conv+relu DepthToSpace");
    b = start(&x);
    inputs[0] = x;
    inputs[1] = build_constant(&b, SHAPE(4, 3, 2, 2), -1, 1);
    a.window.pad_begin[0] = 1; /* windows reach over the border */
    y = build_node(&b, HRF_OP_CONV_TRANSPOSE, inputs, 2, &a);
    y = build_unary(&b, HRF_OP_RELU, build_batch_norm(&b, y, 3));
    assert_string_equal(passed(&b, &y, 1), "ConvTranspose+relu");
}

static int32_t reduce(struct build *b, enum hrf_op op, int32_t x, int64_t a, int64_t c, bool keep)
{
    struct hrf_attributes how = hrf_attributes_default();
    how.n_axes = 2;
    how.axes[0] = a;
    how.axes[1] = c;
    how.keep_dims = keep;
    return build_node(b, op, &x, 1, &how);
}

static void a_mean_over_rows_and_columns_becomes_a_pool(void **state)
{
    (void)state;
    int32_t x;
    struct build b = start(&x);
    int32_t y = reduce(&b, HRF_OP_REDUCE_MEAN, conv(&b, x), 2, 3, false);
    assert_string_equal(passed(&b, &y, 1), "Conv GlobalAveragePool Flatten");
    b = start(&x);
    y = reduce(&b, HRF_OP_REDUCE_MEAN, conv(&b, x), -1, -2, true);
    assert_string_equal(passed(&b, &y, 1), "Conv GlobalAveragePool");
    b = start(&x);
    y = reduce(&b, HRF_OP_REDUCE_MEAN, conv(&b, x), 1, 3, true);
    assert_string_equal(passed(&b, &y, 1), "Conv ReduceMean");
    /* Its numbers are the sums over 6 x 5 pixels by 30. */
    b = start(&x);
    int32_t ends[2] = { reduce(&b, HRF_OP_REDUCE_MEAN, x, 3, 2, false) };
    ends[1] = build_binary(&b, HRF_OP_MUL, reduce(&b, HRF_OP_REDUCE_SUM, x, 2, 3, false),
                           build_constant(&b, SHAPE(1), 1.0 / 30, 1.0 / 30));
    struct hrf_graph *graph = build_finish(&b, ends, 2);
    int64_t n;
    float *both = run_graph(graph, "cpu", 1, 3, 1, &n);
    assert_int_equal(n, 8);
    assert_true(relative_difference(both, both + 4, 4) <= 1e-5);
    hrf_free(both);
    hrf_graph_destroy(graph);
}

static void attention_becomes_a_sum_over_pixels_and_what_pixels_make_of_it(void **state)
{
    (void)state;
    for (int exponential = 0; exponential < 2; exponential++) {
        int32_t x;
        struct build b = start(&x);
        struct hrf_attributes a = hrf_attributes_default();
        a.performer.heads = 2;
        a.performer.exponential = exponential != 0;
        const int32_t p = build_constant(&b, SHAPE(5, 2), -1, 1), inputs[] = { x, x, x, p };
        const int32_t y = build_node(&b, HRF_OP_PERFORMER, inputs, 4, &a);
        assert_string_equal(passed(&b, &y, 1), exponential
                                                   ? "PerformerMax PerformerState PerformerApply"
                                                   : "PerformerState PerformerApply");
    }
}

/* ---- what exporters write for one operator ---- */

static int32_t number(struct build *b, double value)
{
    return build_constant(b, SHAPE(1), value, value);
}

static int32_t scaled(struct build *b, int32_t x, double by)
{
    return build_binary(b, HRF_OP_MUL, x, number(b, by));
}

/* `form` 0: PyTorch's; 1: with the half first and a product instead of the division; 2, 3: tanh. */
static int32_t gelu(struct build *b, int32_t x, int form, int32_t *inside)
{
    const int32_t cube = form == 2
                             ? build_binary(b, HRF_OP_POW, x, number(b, 3))
                             : build_binary(b, HRF_OP_MUL, build_binary(b, HRF_OP_MUL, x, x), x);
    if (form == 0)
        *inside = build_unary(b, HRF_OP_ERF,
                              build_binary(b, HRF_OP_DIV, x, number(b, 1.4142135623730951)));
    else if (form == 1)
        *inside = build_unary(b, HRF_OP_ERF, scaled(b, x, 0.7071067811865476));
    else
        *inside = build_unary(b, HRF_OP_TANH,
                              scaled(b, build_binary(b, HRF_OP_ADD, x, scaled(b, cube, 0.044715)),
                                     0.7978845608028654));
    const int32_t sum = build_binary(b, HRF_OP_ADD, *inside, number(b, 1));
    if (form % 2 == 0)
        return scaled(b, build_binary(b, HRF_OP_MUL, x, sum), 0.5);
    return build_binary(b, HRF_OP_MUL, scaled(b, x, 0.5), sum);
}

static int32_t mean_of(struct build *b, int32_t x)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.keep_dims = true;
    a.n_axes = 1;
    a.axes[0] = -1;
    return build_node(b, HRF_OP_REDUCE_MEAN, &x, 1, &a);
}

static int32_t layer_norm(struct build *b, int32_t x, int form, int32_t *inside)
{
    const int32_t d = build_binary(b, HRF_OP_SUB, x, mean_of(b, x));
    const int32_t e = form == 0 ? d : build_binary(b, HRF_OP_SUB, x, mean_of(b, x));
    const int32_t squared = form == 0 ? build_binary(b, HRF_OP_POW, d, number(b, 2))
                                      : build_binary(b, HRF_OP_MUL, e, e);
    *inside = build_binary(b, HRF_OP_ADD, mean_of(b, squared), number(b, 1e-5));
    const int32_t y = build_binary(b, HRF_OP_DIV, d, build_unary(b, HRF_OP_SQRT, *inside));
    const int32_t scale = build_constant(b, SHAPE(8), -1, 1),
                  bias = build_constant(b, SHAPE(8), -1, 1);
    return build_binary(b, HRF_OP_ADD, build_binary(b, HRF_OP_MUL, y, scale), bias);
}

/* `form` 0: the scale as roots on both sides, keys turned; 1: one scale behind the product, a mask.
 */
static int32_t attention(struct build *b, int32_t x, int form, int32_t *inside)
{
    struct hrf_attributes transpose = hrf_attributes_default(), softmax = hrf_attributes_default();
    const int32_t v = build_binary(b, HRF_OP_ADD, x, number(b, 0.5));
    transpose.n_axes = 3;
    transpose.axes[1] = 2;
    transpose.axes[2] = 1;
    softmax.axis = -1;
    int32_t q = build_unary(b, HRF_OP_TANH, x), k = build_unary(b, HRF_OP_SIN, x);
    if (form == 0)
        q = scaled(b, q, 0.5);
    k = build_node(b, HRF_OP_TRANSPOSE, &k, 1, &transpose);
    if (form == 0)
        k = scaled(b, k, 0.5);
    int32_t scores = build_binary(b, HRF_OP_MATMUL, q, k);
    if (form == 1)
        scores = build_binary(b, HRF_OP_ADD, build_binary(b, HRF_OP_DIV, scores, number(b, 4)),
                              build_constant(b, SHAPE(5, 5), -1, 1));
    *inside = build_node(b, HRF_OP_SOFTMAX, &scores, 1, &softmax);
    return build_binary(b, HRF_OP_MATMUL, *inside, v);
}

static int32_t half(struct build *b, int32_t x, int64_t from)
{
    const struct hrf_attributes a = hrf_attributes_slice(2, from, from + 4);
    return build_node(b, HRF_OP_SLICE, &x, 1, &a);
}

static int32_t swiglu(struct build *b, int32_t x, int form, int32_t *inside)
{
    const int32_t gate = half(b, x, 0), second = half(b, x, 4);
    *inside = build_unary(b, HRF_OP_SIGMOID, gate);
    const int32_t swish = build_binary(b, HRF_OP_MUL, form == 0 ? gate : *inside,
                                       form == 0 ? *inside : gate);
    return build_binary(b, HRF_OP_MUL, swish, second);
}

static const struct {
    int32_t (*make)(struct build *b, int32_t x, int form, int32_t *inside);
    int form;
    const char *words;
} forms[] = {
    { gelu, 0, "Gelu" },
    { gelu, 1, "Gelu" },
    { gelu, 2, "GeluTanh" },
    { gelu, 3, "GeluTanh" },
    { layer_norm, 0, "LayerNormalization" },
    { layer_norm, 1, "LayerNormalization" },
    { attention, 0, "Add Tanh Sin Attention" },
    { attention, 1, "Add Tanh Sin Attention" },
    { swiglu, 0, "SwiGLU" },
    { swiglu, 1, "SwiGLU" },
};

/* With a value inside the pattern as a further output, nothing is fused: the same numbers. */
static void what_exporters_write_becomes_one_operator(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        float *y[2];
        int64_t n[2];
        for (int is_open = 0; is_open < 2; is_open++) {
            struct build b = build_start(i);
            struct hrf_error err = { .status = HRF_OK };
            int32_t outputs[2];
            const int32_t x = build_input(&b, SHAPE(2, 5, 8));
            outputs[0] = forms[i].make(&b, x, forms[i].form, &outputs[1]);
            struct hrf_graph *graph = build_finish(&b, outputs, 1 + is_open);
            y[is_open] = run_graph(graph, "ref", 1, 3, 1, &n[is_open]);
            if (hrf_passes_run(graph, &err) != HRF_OK ||
                hrf_pass_fuse_transformer(graph, &err) != HRF_OK)
                fail_msg("%s", err.text);
            if ((strcmp(words(graph), forms[i].words) == 0) != (is_open == 0))
                fail_msg("form %zu: %s", i, words(graph));
            hrf_graph_destroy(graph);
        }
        assert_true(n[0] <= n[1]);
        assert_true(relative_difference(y[0], y[1], n[0]) <= 1e-6);
        hrf_free(y[0]);
        hrf_free(y[1]);
    }
}

/* ---- refusals ---- */

static void refuses(const struct hrf_graph *graph, enum hrf_status status,
                    const struct hrf_error *err, const char *text)
{
    if (status == HRF_OK || strstr(err->text, text) == NULL || !check_has_remedy(err->text))
        fail_msg("'%s' expected, with a way out: %s", text, status == HRF_OK ? "ok" : err->text);
    check_refusal_text(text, status, graph, err->text);
}

/* Shape inference lets through what is no node's result, and graphs that passes made. */
static void outputs_of_other_types_are_refused_by_node(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) g = NULL;
    struct hrf_error err = { .status = HRF_OK };
    const struct hrf_shape shape = SHAPE(1, 4);
    int32_t x, y;
    assert_int_equal(hrf_graph_create("g", &g, NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_value(g, "x", HRF_U8, &shape, NULL, &x, NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_value(g, "made up", HRF_S8, &shape, NULL, &y, NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_node(g, HRF_OP_RELU, "act", &x, 1, &y, 1, NULL, NULL), HRF_OK);
    assert_int_equal(hrf_graph_set_io(g, &x, 1, &x, 1, NULL), HRF_OK);
    enum hrf_status status = hrf_pass_float_outputs(g, &err);
    assert_int_equal(status, HRF_E_UNSUPPORTED);
    refuses(g, status, &err, "output 0 of the model is uint8, from its input");
    assert_int_equal(hrf_graph_set_io(g, &x, 1, &y, 1, NULL), HRF_OK);
    status = hrf_pass_float_outputs(g, &err);
    assert_int_equal(status, HRF_E_UNSUPPORTED);
    refuses(g, status, &err, "output 0 of the model is int8, from node 'act' (Relu)");
}

static void lowering_refuses_by_node(void **state)
{
    (void)state;
    int32_t x;
    struct build b = start(&x);
    const int32_t inner = conv(&b, x), y = conv(&b, inner);
    struct hrf_graph *graph = build_finish(&b, &y, 1);
    struct hrf_graph *low = NULL;
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_range ranges[] = { { .value = graph->values[x].name, .low = -1, .high = 1 },
                                  { .value = graph->values[inner].name, .low = -1, .high = NAN } };
    struct hrf_lowering how = { .type = HRF_S8, .ranges = ranges };
    HRF_AUTO_FREE char *node = hrf_format("what node '%s' (Conv) gives", graph->nodes[0].name);
    refuses(graph, hrf_pass_lower(graph, &how, &low, NULL, &err), &err,
            "the INT8 scales have no range for input 'v");
    how.n_ranges = 1;
    HRF_AUTO_FREE char *none = hrf_format("the INT8 scales have no range for %s", node);
    refuses(graph, hrf_pass_lower(graph, &how, &low, NULL, &err), &err, none);
    how.n_ranges = 2;
    HRF_AUTO_FREE char *wild = hrf_format("%s was seen to reach from -1 to nan", node);
    refuses(graph, hrf_pass_lower(graph, &how, &low, NULL, &err), &err, wild);
    how.keep = (const char *const[]){ "nothing like it" };
    how.n_keep = 1;
    refuses(graph, hrf_pass_lower(graph, &how, &low, NULL, &err), &err,
            "'nothing like it' is to stay in float32");
    assert_null(low);
    /* The way out of the second and third: another precision. */
    how = (struct hrf_lowering){ .type = HRF_B16 };
    assert_int_equal(hrf_pass_lower(graph, &how, &low, NULL, &err), HRF_OK);
    hrf_graph_destroy(low);
    hrf_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_exporters_write_becomes_one_operator),
        cmocka_unit_test(a_convolution_takes_in_what_follows),
        cmocka_unit_test(an_activation_before_the_sum_stays_before_it),
        cmocka_unit_test(of_two_convolutions_the_later_one_sums),
        cmocka_unit_test(a_norm_before_the_convolution_is_not_folded),
        cmocka_unit_test(a_convolution_takes_in_what_stands_before_it),
        cmocka_unit_test(a_tensor_that_one_reader_needs_is_there_for_all),
        cmocka_unit_test(the_prologue_s_numbers_are_those_of_the_norm),
        cmocka_unit_test(a_norm_that_others_read_around_is_a_second_output),
        cmocka_unit_test(what_others_read_is_kept),
        cmocka_unit_test(a_sum_that_stretches_a_side_is_no_residual),
        cmocka_unit_test(a_residual_is_taken_once),
        cmocka_unit_test(a_product_takes_in_relu_and_clip_but_not_leaky),
        cmocka_unit_test(identity_goes_unless_the_graph_ends_there),
        cmocka_unit_test(folded_numbers_are_these),
        cmocka_unit_test(random_graphs_compute_the_same_with_and_without),
        cmocka_unit_test(no_allocation_may_fail_unseen),
        cmocka_unit_test(windows_side_by_side_become_a_convolution_and_a_move),
        cmocka_unit_test(a_mean_over_rows_and_columns_becomes_a_pool),
        cmocka_unit_test(attention_becomes_a_sum_over_pixels_and_what_pixels_make_of_it),
        cmocka_unit_test(outputs_of_other_types_are_refused_by_node),
        cmocka_unit_test(lowering_refuses_by_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
