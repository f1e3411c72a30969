/* Steps that run together, part by part: the bits are those of one after the other, and nothing is
 * written over what the first still reads. */
#include "tests/unit/unit.h"

#include "engine/backend/cpu/instructions.h"
#include "engine/run/session_private.h"
#include "tests/ops/build.h"

#include <string.h>

enum { N_NETWORKS = 60, N_BLOCKS = 3 };

/* Blocks of a residual network, each of which leads over to the next one: 1x1, sometimes 3x3, 1x1
 * and the sum with what came in. Without the 3x3 the next block's first output gets the place of
 * what the last convolution reads. */
static struct hrf_graph *bottlenecks(uint64_t seed)
{
    struct build b = build_start(seed);
    const int64_t wide = 16 * build_pick(&b, 2, 12), side = build_pick(&b, 5, 23);
    int32_t x = build_input(&b, SHAPE(build_pick(&b, 1, 3), wide, side, side));
    for (int i = 0; i < N_BLOCKS; i++) {
        const int64_t narrow = 16 * build_pick(&b, 1, 5);
        int32_t y = build_unary(&b, HRF_OP_RELU, build_plain_conv(&b, x, wide, narrow, 1, 1, true));
        if (build_pick(&b, 0, 1) == 0)
            y = build_unary(&b, HRF_OP_RELU, build_plain_conv(&b, y, narrow, narrow, 3, 1, true));
        if (build_pick(&b, 0, 1) == 0) /* its own input is its residual */
            y = build_binary(&b, HRF_OP_ADD, build_plain_conv(&b, y, narrow, narrow, 1, 1, true),
                             y);
        y = build_plain_conv(&b, y, narrow, wide, 1, 1, true);
        x = build_unary(&b, HRF_OP_RELU, build_binary(&b, HRF_OP_ADD, y, x));
    }
    return build_finish(&b, &x, 1);
}

/* Blocks whose second branch is a convolution, often one that leaves out pixels: it adds to what
 * the last of the first branch made. */
static struct hrf_graph *entrances(uint64_t seed)
{
    struct build b = build_start(seed);
    int64_t in = 16 * build_pick(&b, 1, 6);
    int32_t x = build_input(
        &b, SHAPE(build_pick(&b, 1, 3), in, build_pick(&b, 9, 31), build_pick(&b, 9, 31)));
    for (int i = 0; i < 2; i++) {
        const int64_t stride = build_pick(&b, 1, 2), narrow = build_pick(&b, 8, 40);
        const int64_t out = build_pick(&b, 20, 120), window = 1 + 2 * build_pick(&b, 0, 1);
        int32_t y = build_plain_conv(&b, x, in, narrow, window, stride, true);
        y = build_plain_conv(&b, build_unary(&b, HRF_OP_RELU, y), narrow, out, 1, 1, true);
        if (build_pick(&b, 0, 3) == 0)
            y = build_unary(&b, HRF_OP_RELU, y);
        x = build_binary(&b, HRF_OP_ADD, y, build_plain_conv(&b, x, in, out, 1, stride, true));
        x = build_unary(&b, HRF_OP_RELU, x);
        in = out;
    }
    return build_finish(&b, &x, 1);
}

static int32_t depthwise(struct build *b, int32_t x, int64_t channels)
{
    struct hrf_attributes a = hrf_attributes_default();
    for (int i = 0; i < 2; i++) {
        a.window.kernel[i] = build_pick(b, 1, 5);
        a.window.stride[i] = build_pick(b, 1, 3);
        a.window.dilation[i] = build_pick(b, 0, 3) == 0 ? 2 : 1;
        const int64_t span = (a.window.kernel[i] - 1) * a.window.dilation[i];
        a.window.pad_begin[i] = build_pick(b, 0, span);
        a.window.pad_end[i] = span; /* images may have become small */
    }
    return build_conv(b, x, channels, channels, channels, true, &a);
}

/* Squeeze-and-excite. */
static int32_t gated(struct build *b, int32_t x, int64_t channels)
{
    const int64_t n = build_pick(b, 4, 20);
    const int32_t mean = build_unary(b, HRF_OP_GLOBAL_AVERAGE_POOL, x);
    const int32_t y = build_unary(b, HRF_OP_RELU,
                                  build_plain_conv(b, mean, channels, n, 1, 1, true));
    const int32_t gate = build_unary(b, HRF_OP_SIGMOID,
                                     build_plain_conv(b, y, n, channels, 1, 1, true));
    return build_pick(b, 0, 1) == 0 ? build_binary(b, HRF_OP_MUL, gate, x)
                                    : build_binary(b, HRF_OP_MUL, x, gate);
}

/* Blocks of MobileNets: 1x1 to more channels, depth-wise, 1x1 to fewer; now and then wider than a
 * strip of columns, with gates or without. */
static struct hrf_graph *inverted(uint64_t seed)
{
    static const enum hrf_op functions[] = { HRF_OP_RELU, HRF_OP_HARD_SWISH, HRF_OP_SIGMOID };
    struct build b = build_start(seed);
    int64_t narrow = build_pick(&b, 3, 40);
    const bool is_wide = build_pick(&b, 0, 5) == 0;
    const struct hrf_shape shape = SHAPE(
        build_pick(&b, 1, 3), narrow, is_wide ? build_pick(&b, 5, 9) : build_pick(&b, 9, 40),
        is_wide ? build_pick(&b, 129, 400) : build_pick(&b, 5, 40));
    int32_t x = build_input(&b, shape);
    for (int i = 0; i < 2; i++) {
        const int64_t wide = build_pick(&b, 8, 150), out = build_pick(&b, 8, 40);
        const enum hrf_op function = functions[build_pick(&b, 0, 2)];
        int32_t y = build_unary(&b, function, build_plain_conv(&b, x, narrow, wide, 1, 1, true));
        y = build_unary(&b, function, depthwise(&b, y, wide));
        const bool gates = build_pick(&b, 0, 1) == 0;
        if (gates)
            y = gated(&b, y, wide);
        y = build_plain_conv(&b, y, wide, out, 1, 1, true);
        if (gates && build_pick(&b, 0, 2) == 0)
            y = build_binary(&b, HRF_OP_ADD, y, build_plain_conv(&b, y, out, out, 1, 1, false));
        x = y;
        narrow = out;
    }
    return build_finish(&b, &x, 1);
}

static void fill(struct hrf_session *session, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    float *x = hrf_session_input(session, 0);
    const int64_t n = hrf_shape_count(hrf_session_input_shape(session, 0));
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(2 * hrf_random_unit(&random) - 1);
}

/* The step after step i adds to what that made. */
static bool adds(const struct hrf_session *session, int32_t i)
{
    const struct hrf_node *nodes = session->graph->nodes;
    const struct hrf_step *steps = session->plan->steps;
    const struct hrf_node *second = &nodes[steps[i + 1].node];
    return second->n_inputs > HRF_CONV_RESIDUAL &&
           second->inputs[HRF_CONV_X] != nodes[steps[i].node].outputs[0] &&
           second->inputs[HRF_CONV_RESIDUAL] == nodes[steps[i].node].outputs[0];
}

struct pairs {
    int32_t n, n_adding;
};

static void count_pairs(const struct hrf_session *session, struct pairs *pairs)
{
    for (int32_t i = 0; i < session->plan->n_steps; i++)
        if (session->plan->steps[i].is_fused) {
            pairs->n++;
            pairs->n_adding += adds(session, i);
        }
}

/* Adds to *pairs those that there were. */
static void check(const struct hrf_graph *graph, enum hrf_precision precision, int32_t n_threads,
                  uint64_t seed, struct pairs *pairs)
{
    const struct hrf_session_config config = { .device = "cpu",
                                               .precision = precision,
                                               .n_threads = n_threads };
    HRF_AUTO(hrf_session) session = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_session_create(graph, &config, &session, &err) != HRF_OK)
        fail_msg("%s: %s", hrf_precision_name(precision), err.text);
    fill(session, seed);
    assert_int_equal(hrf_session_run(session, &err), HRF_OK);
    const size_t n_bytes = (size_t)hrf_shape_count(hrf_session_output_shape(session, 0)) *
                           sizeof(float);
    HRF_AUTO_FREE float *together = hrf_alloc(n_bytes);
    memcpy(together, hrf_session_output(session, 0), n_bytes);
    fill(session, seed);
    for (int32_t i = 0; i < session->plan->n_steps; i++)
        assert_int_equal(hrf_session_time_step(session, i, &err), HRF_OK);
    assert_memory_equal(hrf_session_output(session, 0), together, n_bytes);
    count_pairs(session, pairs);
}

/* In every precision that pairs, with 1 to 4 threads. */
static struct pairs check_networks(struct hrf_graph *(*make)(uint64_t seed))
{
    static const enum hrf_precision precisions[] = { HRF_FP32, HRF_BF16, HRF_FP16 };
    struct pairs pairs = { .n = 0 };
    for (uint64_t seed = 0; seed < N_NETWORKS; seed++) {
        struct hrf_graph *graph = make(seed);
        check(graph, precisions[seed % 3], 1 + (int32_t)(seed % 4), seed, &pairs);
        hrf_graph_destroy(graph);
    }
    print_message("%d pairs in %d networks, %d of which add\n", pairs.n, N_NETWORKS,
                  pairs.n_adding);
    return pairs;
}

static void steps_that_run_together_give_the_bits_of_one_after_the_other(void **state)
{
    (void)state;
    const struct pairs pairs = check_networks(bottlenecks);
    /* A third of them is bf16, which oneDNN may compute where the processor multiplies it. */
    const int32_t n_own = hrf_cpu_has_avx512_bf16() ? N_NETWORKS * 2 / 3 : N_NETWORKS;
    if (hrf_cpu_has_avx512())
        assert_true(pairs.n > n_own / 3);
}

static void a_branch_is_added_to_what_is_still_in_the_caches(void **state)
{
    (void)state;
    const struct pairs pairs = check_networks(entrances);
    if (hrf_cpu_has_avx512())
        assert_true(pairs.n_adding > N_NETWORKS / 3);
}

static void windows_and_products_read_what_is_never_stored(void **state)
{
    (void)state;
    const struct pairs pairs = check_networks(inverted);
    if (hrf_cpu_has_avx512())
        assert_true(pairs.n > N_NETWORKS * 3 / 2); /* 80 without the gates */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_that_run_together_give_the_bits_of_one_after_the_other),
        cmocka_unit_test(a_branch_is_added_to_what_is_still_in_the_caches),
        cmocka_unit_test(windows_and_products_read_what_is_never_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
