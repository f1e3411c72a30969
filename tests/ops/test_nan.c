/* A NaN in an image is one in every output whose window or line it lies in, whatever computes the
 * operator and whatever is fused behind it; and what FP16 cannot hold stays infinite. */
#include "tests/unit/unit.h"

#include "tests/ops/build.h"

#include <math.h>

enum { SIDE = 9, CHANNELS = 32 };

static const enum hrf_precision precisions[] = { HRF_FP32, HRF_BF16, HRF_FP16 };

/* An image with one pixel of NaN. */
static int32_t add_image(struct build *b)
{
    const int32_t x = build_input(b, SHAPE(2, CHANNELS, SIDE, SIDE));
    const int32_t spot = build_constant(b, SHAPE(1, 1, SIDE, SIDE), 0, 0);
    ((float *)b->graph->values[spot].data)[4 * SIDE + 4] = NAN;
    return build_binary(b, HRF_OP_ADD, x, spot);
}

/* The outputs that are NaN are those of the reference, some but not all. */
static void check(struct build *b, int32_t y, const char *what)
{
    HRF_AUTO(hrf_graph) graph = build_finish(b, &y, 1);
    int64_t n = 0, n_found = 0;
    HRF_AUTO_FREE float *truth = run_graph(graph, "ref", 1, 7, 1, &n);
    for (int64_t i = 0; i < n; i++)
        n_found += isnan(truth[i]);
    if (n_found == 0)
        fail_msg("%s: the reference has no NaN", what);
    for (int p = 0; p < 3; p++) {
        int64_t n_own;
        HRF_AUTO_FREE float *own = run_graph_in(graph, "cpu", precisions[p], 1 + p % 2, 7, 1,
                                                &n_own, NULL);
        assert_int_equal(n, n_own);
        for (int64_t i = 0; i < n; i++)
            if (!isnan(own[i]) != !isnan(truth[i]))
                fail_msg("%s in %s, output %lld: %g, not %g", what,
                         hrf_precision_name(precisions[p]), (long long)i, (double)own[i],
                         (double)truth[i]);
    }
}

/* ---- convolutions ---- */

struct conv {
    const char *name;
    int64_t out, kernel, stride, group;
    bool is_transposed;
};

static const struct conv convs[] = {
    { "1x1", 64, 1, 1, 1, false },
    { "1x1 of stride 2", 33, 1, 2, 1, false },
    { "3x3", 64, 3, 1, 1, false },
    { "3x3 to 8 channels", 8, 3, 1, 1, false },
    { "5x5 of stride 2", 48, 5, 2, 1, false },
    { "grouped 3x3", 32, 3, 1, 4, false },
    { "depthwise 3x3", 32, 3, 1, CHANNELS, false },
    { "transposed", 16, 2, 2, 1, true },
};

static int32_t add_conv(struct build *b, int32_t x, const struct conv *c)
{
    struct hrf_attributes a = hrf_attributes_default();
    for (int i = 0; i < HRF_MAX_SPATIAL; i++) {
        a.window.kernel[i] = c->kernel;
        a.window.stride[i] = c->stride;
        a.window.pad_begin[i] = a.window.pad_end[i] = c->is_transposed ? 0 : c->kernel / 2;
    }
    a.group = c->group;
    if (!c->is_transposed)
        return build_conv(b, x, CHANNELS, c->out, c->group, true, &a);
    const int32_t inputs[] = { x, build_constant(b, SHAPE(CHANNELS, c->out, c->kernel, c->kernel),
                                                 -1, 1) };
    return build_node(b, HRF_OP_CONV_TRANSPOSE, inputs, 2, &a);
}

static int32_t add_activation(struct build *b, enum hrf_op op, int32_t x)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.activation_min = -0.5f;
    a.activation_max = 0.75f;
    a.alpha = 0.1f;
    return build_node(b, op, &x, 1, &a);
}

static void an_activation_behind_a_convolution_keeps_it(void **state)
{
    (void)state;
    static const enum hrf_op activations[] = { HRF_OP_RELU, HRF_OP_CLIP, HRF_OP_LEAKY_RELU };
    for (size_t i = 0; i < sizeof convs / sizeof convs[0]; i++)
        for (int k = 0; k < 3; k++) {
            struct build b = build_start(i);
            const int32_t x = add_image(&b);
            check(&b, add_activation(&b, activations[k], add_conv(&b, x, &convs[i])),
                  convs[i].name);
        }
}

static void an_activation_before_a_convolution_keeps_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof convs / sizeof convs[0]; i++) {
        struct build b = build_start(i);
        const int32_t x = build_batch_norm(&b, add_image(&b), CHANNELS);
        check(&b, add_conv(&b, build_unary(&b, HRF_OP_RELU, x), &convs[i]), convs[i].name);
    }
}

/* ---- other operators ---- */

static void functions_of_a_number_keep_it(void **state)
{
    (void)state;
    static const enum hrf_op ops[] = { HRF_OP_RELU,         HRF_OP_CLIP,    HRF_OP_LEAKY_RELU,
                                       HRF_OP_HARD_SWISH,   HRF_OP_SIGMOID, HRF_OP_TANH,
                                       HRF_OP_HARD_SIGMOID, HRF_OP_SOFTMAX };
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        struct build b = build_start(i);
        check(&b, add_activation(&b, ops[i], add_image(&b)), hrf_op_name(ops[i]));
    }
}

static void larger_and_smaller_numbers_keep_it(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct build b = build_start((uint64_t)i);
        const int32_t x = add_image(&b), c = build_constant(&b, SHAPE(CHANNELS, 1, 1), -1, 1);
        const enum hrf_op op = i < 2 ? HRF_OP_MAX : HRF_OP_MIN;
        check(&b, build_binary(&b, op, i % 2 == 0 ? x : c, i % 2 == 0 ? c : x), hrf_op_name(op));
    }
}

static void pools_keep_it(void **state)
{
    (void)state;
    static const enum hrf_op ops[] = { HRF_OP_MAX_POOL, HRF_OP_AVERAGE_POOL, HRF_OP_GLOBAL_MAX_POOL,
                                       HRF_OP_GLOBAL_AVERAGE_POOL };
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        struct build b = build_start(i);
        struct hrf_attributes a = hrf_attributes_default();
        for (int k = 0; k < HRF_MAX_SPATIAL; k++) {
            a.window.kernel[k] = 3;
            a.window.pad_begin[k] = a.window.pad_end[k] = 1;
        }
        const int32_t x = add_image(&b);
        check(&b, build_node(&b, ops[i], &x, 1, &a), hrf_op_name(ops[i]));
    }
}

/* In a query, a key or a value; with products of floats and of integers. */
static void attention_keeps_it(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct build b = build_start((uint64_t)i);
        struct hrf_attributes a = hrf_attributes_default();
        const int32_t spot = build_constant(&b, SHAPE(1, SIDE, SIDE), 0, 0);
        int32_t inputs[3];
        ((float *)b.graph->values[spot].data)[4 * SIDE + 4] = NAN;
        for (int k = 0; k < 3; k++)
            inputs[k] = build_input(&b, SHAPE(2, SIDE, SIDE));
        inputs[i % 3] = build_binary(&b, HRF_OP_ADD, inputs[i % 3], spot);
        a.attention.fixed_point = i >= 3;
        check(&b, build_node(&b, HRF_OP_ATTENTION, inputs, 3, &a), "attention");
    }
}

/* Over rows, over columns, and of a constant, which is computed before anything runs. */
static void reductions_keep_it(void **state)
{
    (void)state;
    static const enum hrf_op ops[] = { HRF_OP_REDUCE_MEAN,       HRF_OP_REDUCE_SUM,
                                       HRF_OP_REDUCE_MAX,        HRF_OP_REDUCE_MIN,
                                       HRF_OP_REDUCE_PROD,       HRF_OP_REDUCE_L1,
                                       HRF_OP_REDUCE_L2,         HRF_OP_REDUCE_LOG_SUM,
                                       HRF_OP_REDUCE_SUM_SQUARE, HRF_OP_REDUCE_LOG_SUM_EXP };
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        for (int32_t axis = 2; axis < 4; axis++) {
            struct build b = build_start(i);
            struct hrf_attributes a = hrf_attributes_default();
            a.axes[a.n_axes++] = axis;
            const int32_t x = add_image(&b);
            check(&b, build_node(&b, ops[i], &x, 1, &a), hrf_op_name(ops[i]));
        }
    for (size_t i = 0; i < 4; i++) {
        struct build b = build_start(i);
        struct hrf_attributes a = hrf_attributes_default();
        a.axes[a.n_axes++] = 3;
        const int32_t x = build_input(&b, SHAPE(2, CHANNELS, SIDE, SIDE));
        const int32_t spot = build_constant(&b, SHAPE(1, 1, SIDE, SIDE), 0, 1);
        ((float *)b.graph->values[spot].data)[4 * SIDE + 4] = NAN;
        check(&b, build_binary(&b, HRF_OP_ADD, x, build_node(&b, ops[i], &spot, 1, &a)),
              "a reduced constant");
    }
}

/* What is added up is infinite, not NaN, where a number is. */
static void a_log_of_sums_of_infinite_numbers_is_infinite(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const float infinite = i == 0 ? INFINITY : -INFINITY;
        struct build b = build_start((uint64_t)i);
        struct hrf_attributes a = hrf_attributes_default();
        a.axes[a.n_axes++] = 3;
        const int32_t x = build_input(&b, SHAPE(1, 2, SIDE, SIDE));
        const int32_t row = build_constant(&b, SHAPE(1, 1, SIDE, SIDE), 0, 0);
        for (int k = 0; k < SIDE; k++)
            ((float *)b.graph->values[row].data)[4 * SIDE + k] = infinite;
        const int32_t both = build_binary(&b, HRF_OP_ADD, x, row);
        const int32_t y = build_node(&b, HRF_OP_REDUCE_LOG_SUM_EXP, &both, 1, &a);
        HRF_AUTO(hrf_graph) graph = build_finish(&b, &y, 1);
        int64_t n;
        HRF_AUTO_FREE float *truth = run_graph(graph, "ref", 1, 7, 1, &n);
        HRF_AUTO_FREE float *own = run_graph(graph, "cpu", 1, 7, 1, &n);
        for (int64_t k = 0; k < n; k++)
            if (isinf(truth[k]) ? own[k] != truth[k] : !isfinite(own[k]))
                fail_msg("output %lld: %g, not %g", (long long)k, (double)own[k], (double)truth[k]);
        assert_true(own[4] == infinite && isfinite(own[3]));
    }
}

/* ---- numbers that 16 bits do not hold ---- */

/* The convolution with ReLU, and behind it (`next`) another, so that what is between them has 16
 * bits. */
static struct hrf_graph *make_large(const struct conv *conv, uint64_t seed, bool next)
{
    static const struct conv other = { "1x1", 16, 1, 1, 1, false };
    struct build b = build_start(seed);
    const int32_t x = build_input(&b, SHAPE(2, CHANNELS, SIDE, SIDE));
    const int32_t large = build_binary(&b, HRF_OP_ADD, x,
                                       build_constant(&b, SHAPE(1, 1, 1, 1), 60000, 60000));
    int32_t y = add_activation(&b, HRF_OP_RELU, add_conv(&b, large, conv));
    if (next) {
        const int32_t weights = build_constant(&b, SHAPE(other.out, conv->out, 1, 1), 0.5, 1);
        struct hrf_attributes a = hrf_attributes_default();
        a.window.kernel[0] = a.window.kernel[1] = 1;
        const int32_t inputs[] = { y, weights };
        y = build_node(&b, HRF_OP_CONV, inputs, 2, &a);
    }
    return build_finish(&b, &y, 1);
}

/* Behind it all weights are positive: a pixel with an infinite channel is infinite. */
static void what_fp16_does_not_hold_is_infinite_behind_relu(void **state)
{
    (void)state;
    enum { N_SEEDS = 4 };
    int64_t n_large = 0;
    for (size_t at = 0; at < N_SEEDS * sizeof convs / sizeof convs[0]; at++) {
        const size_t i = at / N_SEEDS;
        HRF_AUTO(hrf_graph) large = make_large(&convs[i], at, false);
        HRF_AUTO(hrf_graph) both = make_large(&convs[i], at, true);
        int64_t n_between, n;
        n_large = at % N_SEEDS == 0 ? 0 : n_large;
        HRF_AUTO_FREE float *between = run_graph(large, "ref", 1, 7, 1, &n_between);
        HRF_AUTO_FREE float *own = run_graph_in(both, "cpu", HRF_FP16, 1, 7, 1, &n, NULL);
        const int64_t channels = n * convs[i].out / n_between; /* behind it; pixel by pixel */
        for (int64_t k = 0; k < n_between; k++) {
            if (!(between[k] > 1.01f * 65520))
                continue;
            const float *pixel = own + k / convs[i].out * channels;
            n_large++;
            for (int64_t c = 0; c < channels; c++)
                if (!isinf(pixel[c]))
                    fail_msg("%s, output %lld: %g behind %g", convs[i].name, (long long)k,
                             (double)pixel[c], (double)between[k]);
        }
        if (at % N_SEEDS == N_SEEDS - 1 && n_large == 0)
            fail_msg("%s: nothing beyond the range", convs[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_activation_behind_a_convolution_keeps_it),
        cmocka_unit_test(an_activation_before_a_convolution_keeps_it),
        cmocka_unit_test(functions_of_a_number_keep_it),
        cmocka_unit_test(larger_and_smaller_numbers_keep_it),
        cmocka_unit_test(pools_keep_it),
        cmocka_unit_test(attention_keeps_it),
        cmocka_unit_test(reductions_keep_it),
        cmocka_unit_test(a_log_of_sums_of_infinite_numbers_is_infinite),
        cmocka_unit_test(what_fp16_does_not_hold_is_infinite_behind_relu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
