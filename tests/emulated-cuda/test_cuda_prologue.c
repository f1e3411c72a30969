/* Convolutions that are computed in strips: with a prologue on the emulated GPU, whose engines know
 * one on tensor cores alone: in one graph there, in strips of the image in fp32. The same networks
 * on ref, which has none. */
#include "tests/unit/unit.h"

#include "base/path.h"
#include "base/random.h"
#include "engine/run/made_ranges.h"
#include "engine/run/session.h"
#include "engine/run/session_private.h"
#include "tests/emulated-cuda/in_place.h"
#include "tests/ops/nets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A shift beside the pads would show: shifts are not 0, pads must be. On a GPU of 64 MiB strips
 * are of 256 KiB: some of these images are more than one, and some batches. */
static const struct conv_kind kinds[] = {
    { 2, 24, 9, 7, 32, 1, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 0, 0 } },
    { 1, 20, 13, 11, 24, 1, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
    { 1, 5, 9, 9, 7, 1, { 5, 3 }, { 1, 1 }, { 1, 2 }, { 2, 2 }, { 2, 2 } },
    { 3, 12, 10, 8, 24, 4, { 3, 3 }, { 1, 2 }, { 1, 1 }, { 1, 0 }, { 0, 1 } },
    { 1, 16, 101, 90, 4, 1, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
    { 1, 48, 67, 41, 3, 1, { 5, 1 }, { 1, 1 }, { 3, 1 }, { 7, 0 }, { 9, 0 } },
    { 7, 24, 33, 31, 3, 1, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

/* Tuned plans are known no more. */
static void put_away_plans(void)
{
    HRF_AUTO_FREE char *folder = hrf_path_join(getenv("XDG_CACHE_HOME"), "hires-flow");
    assert_non_null(folder);
    assert_int_equal(hrf_path_remove_tree(folder, NULL), HRF_OK);
}

/* Before it all a sum of two (of products, where it is to be in 16 bits). */
static struct hrf_graph *make(const struct conv_kind *k, int act, bool has_norm, bool has_sum,
                              bool is_low)
{
    struct build b = build_start((uint64_t)(act + 10 * has_norm + 20 * has_sum));
    const struct hrf_shape shape = SHAPE(k->n, k->channels, k->rows, k->columns);
    b.between_products = is_low;
    const int32_t x = build_input(&b, shape);
    return finish_prologue_net(&b, build_binary(&b, HRF_OP_ADD, x, build_input(&b, shape)), k, act,
                               has_norm, has_sum);
}

/* The last convolution has all that is there, and its kernel's name begins with these words. */
static void expect_kernel(const struct hrf_graph *graph, enum hrf_precision precision,
                          bool has_prologue, const char *words)
{
    const struct hrf_session_config config = { .device = "cuda", .precision = precision };
    struct hrf_session *session = NULL;
    struct hrf_error err = { .text = "" };
    int32_t n = 0;
    if (hrf_session_create(graph, &config, &session, &err) != HRF_OK)
        fail_msg("%s", err.text);
    for (int32_t i = 0; i < session->graph->n_nodes; i++) {
        const struct hrf_node *node = &session->graph->nodes[i];
        n += hrf_node_has_prologue(node);
    }
    assert_int_equal(n, has_prologue);
    for (int32_t i = 0; i < session->n_kernels; i++)
        if (session->graph->nodes[session->plan->steps[i].node].op == HRF_OP_CONV &&
            hrf_node_has_prologue(&session->graph->nodes[session->plan->steps[i].node]) ==
                has_prologue &&
            strncmp(session->kernels[i]->implementation, words, strlen(words)) != 0)
            fail_msg("%s: computed by '%s'", hrf_precision_name(precision),
                     session->kernels[i]->implementation);
    hrf_session_destroy(session);
}

static void check(const struct hrf_graph *graph, enum hrf_precision precision, double limit,
                  int kind, int act)
{
    int64_t n, n_truth;
    float *truth = run_graph(graph, "ref", 1, 3, 1, &n_truth);
    float *y = run_graph_in(graph, "cuda", precision, 1, 3, 3, &n, NULL);
    assert_int_equal(n, n_truth);
    const double difference = relative_difference(y, truth, n);
    if (!(difference <= limit))
        fail_msg("kind %d, activation %d, %s: %g of the largest output apart", kind, act,
                 hrf_precision_name(precision), difference);
    hrf_free(truth);
    hrf_free(y);
}

static void on_tensor_cores_it_is_part_of_the_graph_that_cudnn_runs(void **state)
{
    static const struct {
        enum hrf_precision precision;
        double limit;
    } rows[] = { { HRF_TF32, 1e-5 }, { HRF_FP16, 2e-3 }, { HRF_BF16, 2e-2 } };
    (void)state;
    for (int kind = 0; kind < 4; kind++)
        for (int act = 0; act < 4; act++) {
            const int k = (kind + act) % 3;
            const bool has_norm = k > 0 || act == 3;
            struct hrf_graph *graph = make(&kinds[kind], act, has_norm, (kind + act) % 2 == 0,
                                           k > 0);
            expect_kernel(graph, rows[k].precision, true, "cudnn engine 7");
            check(graph, rows[k].precision, rows[k].limit, kind, act);
            hrf_graph_destroy(graph);
        }
}

static void in_fp32_strips_of_the_image_give_the_same_numbers(void **state)
{
    (void)state;
    assert_int_equal(setenv("HRF_EMULATED_CUDA", "memory=67108864", 1), 0);
    for (int kind = 0; kind < N_KINDS; kind++)
        for (int act = kind % 2; act < 4; act += 2) {
            struct hrf_graph *graph = make(&kinds[kind], act, act == 3 || act == 0, act < 2, false);
            expect_kernel(graph, HRF_FP32, true, "strips of cudnn engine 8");
            check(graph, HRF_FP32, 1e-5, kind, act);
            hrf_graph_destroy(graph);
        }
    unsetenv("HRF_EMULATED_CUDA");
}

/* act 3 and no norm: nothing stands before the convolution. */
static void an_image_that_is_too_large_for_any_engine_is_computed_in_strips(void **state)
{
    (void)state;
    assert_int_equal(setenv("HRF_EMULATED_CUDA", "memory=67108864", 1), 0);
    assert_int_equal(setenv("HRF_EMULATED_ELEMENTS", "70000", 1), 0);
    for (int kind = 4; kind < N_KINDS; kind++)
        for (int has_sum = 0; has_sum < 2; has_sum++) {
            struct hrf_graph *graph = make(&kinds[kind], 3, false, has_sum != 0, false);
            expect_kernel(graph, HRF_FP32, false, "strips of cudnn engine 8");
            check(graph, HRF_FP32, 1e-5, kind, 3);
            hrf_graph_destroy(graph);
        }
    unsetenv("HRF_EMULATED_CUDA");
    unsetenv("HRF_EMULATED_ELEMENTS");
}

/* ---- a second output ---- */

/* A pre-activation block: the sum of a convolution and a residual goes on by itself and, through
 * BatchNormalization and an activation, into the next convolution and out (or that would be the
 * convolution's prologue). */
static struct hrf_graph *make_block(const struct conv_kind *k, int act, bool has_sum)
{
    static const enum hrf_op acts[] = { HRF_OP_RELU, HRF_OP_CLIP, HRF_OP_LEAKY_RELU };
    struct build b = build_start((uint64_t)(act + 10 * has_sum));
    struct hrf_attributes a = hrf_attributes_default();
    memcpy(a.window.kernel, k->kernel, sizeof k->kernel);
    memcpy(a.window.stride, k->stride, sizeof k->stride);
    memcpy(a.window.dilation, k->dilation, sizeof k->dilation);
    memcpy(a.window.pad_begin, k->pad_begin, sizeof k->pad_begin);
    memcpy(a.window.pad_end, k->pad_end, sizeof k->pad_end);
    const struct hrf_shape sum = SHAPE(k->n, k->out, hrf_window_output(&a.window, 0, k->rows),
                                       hrf_window_output(&a.window, 1, k->columns));
    const int32_t x = build_input(&b, SHAPE(k->n, k->channels, k->rows, k->columns));
    int32_t raw = build_conv(&b, x, k->channels, k->out, k->group, true, &a);
    if (has_sum)
        raw = build_binary(&b, HRF_OP_ADD, raw, build_input(&b, sum));
    int32_t y = build_batch_norm(&b, raw, k->out);
    a = hrf_attributes_default();
    a.activation_min = -0.5F;
    a.activation_max = 0.75F;
    a.alpha = 0.125F;
    if (act < 3)
        y = build_node(&b, acts[act], &y, 1, &a);
    a = hrf_attributes_default();
    a.window.kernel[0] = a.window.kernel[1] = 1;
    const int32_t next = build_conv(&b, y, k->out, k->out, 1, true, &a);
    const int32_t ends[] = { build_binary(&b, HRF_OP_ADD, next, raw), y };
    return build_finish(&b, ends, 2);
}

/* How many steps write two outputs; `notes`: what the session says, with these words or without. */
static int n_fused(const struct hrf_graph *graph, enum hrf_precision precision, const char *words)
{
    struct hrf_made_ranges made = { .fused = NULL };
    struct hrf_session_config config = { .device = "cuda", .precision = precision };
    HRF_AUTO(hrf_session) session = NULL;
    struct hrf_error err = { .text = "" };
    int n = 0;
    assert_int_equal(hrf_made_ranges_init(graph, &made, NULL), HRF_OK);
    config.ranges = made.ranges;
    config.n_ranges = made.n_ranges;
    if (hrf_session_create(graph, &config, &session, &err) != HRF_OK)
        fail_msg("%s", err.text);
    for (int32_t i = 0; i < session->plan->n_steps; i++)
        n += session->plan->steps[i].is_fused;
    if (words != NULL && strstr(hrf_session_notes(session), words) == NULL)
        fail_msg("%s: not said in '%s'", words, hrf_session_notes(session));
    hrf_made_ranges_release(&made);
    return n;
}

static void set_cudnn(const char *how)
{
    assert_int_equal(
        how != NULL ? setenv("HRF_EMULATED_CUDNN", how, 1) : unsetenv("HRF_EMULATED_CUDNN"), 0);
}

/* By two passes, by one, and by the reference; in INT8 one and two give the same bytes, though
 * engine 7 rounds its products and sums otherwise. */
static void check_second(const struct conv_kind *kind, int act, bool has_sum,
                         enum hrf_precision precision, double limit)
{
    struct hrf_graph *graph = make_block(kind, act, has_sum);
    const bool is_int8 = precision == HRF_INT8;
    int64_t n, n_two;
    set_cudnn(is_int8 && act % 2 == 1 ? "contracts" : NULL);
    assert_int_equal(n_fused(graph, precision, NULL), 1);
    float *truth = run_graph(graph, "ref", 1, 3, 1, &n);
    float *one = run_graph_in(graph, "cuda", precision, 1, 3, 3, &n, NULL);
    set_cudnn(is_int8 && act % 2 == 1 ? "contracts,refuses-seconds" : "refuses-seconds");
    put_away_plans();
    float *two = run_graph_in(graph, "cuda", precision, 1, 3, 3, &n_two, NULL);
    assert_int_equal(n, n_two);
    assert_int_equal(n_fused(graph, precision, "is a pass of its own, not a second output"), 0);
    put_away_plans();
    const double difference = relative_difference(one, truth, n);
    if (!(difference <= limit))
        fail_msg("%s, activation %d: %g of the largest output apart", hrf_precision_name(precision),
                 act, difference);
    if (is_int8)
        assert_memory_equal(one, two, (size_t)n * sizeof *one);
    hrf_free(truth);
    hrf_free(one);
    hrf_free(two);
    hrf_graph_destroy(graph);
    set_cudnn(NULL);
}

static void a_norm_is_written_by_the_convolution_before_it(void **state)
{
    static const struct {
        enum hrf_precision precision;
        double limit;
    } rows[] = { { HRF_FP32, 1e-5 }, { HRF_TF32, 1e-5 }, { HRF_FP16, 2e-3 }, { HRF_BF16, 2e-2 } };
    struct hrf_random random = hrf_random_init(9);
    (void)state;
    for (int i = 0; i < 12; i++) {
        const int64_t k = 1 + 2 * (int64_t)hrf_random_below(&random, 2);
        const int64_t stride = 1 + (int64_t)hrf_random_below(&random, 2);
        const struct conv_kind kind = { .n = 1 + (int64_t)hrf_random_below(&random, 3),
                                        .channels = 1 + (int64_t)hrf_random_below(&random, 40),
                                        .rows = 3 + (int64_t)hrf_random_below(&random, 12),
                                        .columns = 3 + (int64_t)hrf_random_below(&random, 12),
                                        .out = 4 + 4 * (int64_t)hrf_random_below(&random, 8),
                                        .group = 1,
                                        .kernel = { k, k },
                                        .stride = { stride, stride },
                                        .dilation = { 1, 1 },
                                        .pad_begin = { k / 2, k / 2 },
                                        .pad_end = { k / 2, k / 2 } };
        check_second(&kind, i % 4, i % 3 != 0, HRF_INT8, 0.1);
        check_second(&kind, i % 4, i % 3 != 0, rows[i % 4].precision, rows[i % 4].limit);
    }
}

static void an_engine_whose_second_output_is_wrong_is_not_used(void **state)
{
    struct hrf_graph *graph = make_block(&kinds[0], 0, true);
    (void)state;
    set_cudnn("skews-second=7");
    put_away_plans();
    assert_int_equal(n_fused(graph, HRF_INT8, "of its second output are wrong"), 0);
    hrf_graph_destroy(graph);
    set_cudnn(NULL);
    put_away_plans();
}

/* Known by the times of the tuning, which the next start reads. */
static void two_outputs_that_take_longer_than_two_passes_are_not_used(void **state)
{
    struct hrf_graph *graph = make_block(&kinds[0], 0, true);
    (void)state;
    put_away_plans();
    set_cudnn("slow-seconds");
    assert_int_equal(n_fused(graph, HRF_INT8, "take less time than both at once"), 0);
    set_cudnn(NULL);
    assert_int_equal(n_fused(graph, HRF_INT8, "take less time than both at once"), 0);
    put_away_plans();
    assert_int_equal(n_fused(graph, HRF_INT8, NULL), 1);
    hrf_graph_destroy(graph);
    put_away_plans();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_tensor_cores_it_is_part_of_the_graph_that_cudnn_runs),
        cmocka_unit_test(an_image_that_is_too_large_for_any_engine_is_computed_in_strips),
        cmocka_unit_test(a_norm_is_written_by_the_convolution_before_it),
        cmocka_unit_test(an_engine_whose_second_output_is_wrong_is_not_used),
        cmocka_unit_test(two_outputs_that_take_longer_than_two_passes_are_not_used),
        cmocka_unit_test(in_fp32_strips_of_the_image_give_the_same_numbers),
    };
    return cmocka_run_group_tests(tests, put_it_in_place, tidy_up);
}
