/* Convolutions that are computed in strips: with a prologue on the emulated GPU, whose engines know
 * one on tensor cores alone: in one graph there, in strips of the image in fp32. The same networks
 * on ref, which has none. */
#include "tests/unit/unit.h"

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
static void expect_kernel(const struct hrf_graph *graph, const char *precision, bool has_prologue,
                          const char *words)
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
            fail_msg("%s: computed by '%s'", precision, session->kernels[i]->implementation);
    hrf_session_destroy(session);
}

static void check(const struct hrf_graph *graph, const char *precision, double limit, int kind,
                  int act)
{
    int64_t n, n_truth;
    float *truth = run_graph(graph, "ref", 1, 3, 1, &n_truth);
    float *y = run_graph_in(graph, "cuda", precision, 1, 3, 3, &n, NULL);
    assert_int_equal(n, n_truth);
    const double difference = relative_difference(y, truth, n);
    if (!(difference <= limit))
        fail_msg("kind %d, activation %d, %s: %g of the largest output apart", kind, act, precision,
                 difference);
    hrf_free(truth);
    hrf_free(y);
}

static void on_tensor_cores_it_is_part_of_the_graph_that_cudnn_runs(void **state)
{
    static const struct {
        const char *precision;
        double limit;
    } rows[] = { { "tf32", 1e-5 }, { "fp16", 2e-3 }, { "bf16", 2e-2 } };
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
            expect_kernel(graph, "fp32", true, "strips of cudnn engine 8");
            check(graph, "fp32", 1e-5, kind, act);
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
            expect_kernel(graph, "fp32", false, "strips of cudnn engine 8");
            check(graph, "fp32", 1e-5, kind, 3);
            hrf_graph_destroy(graph);
        }
    unsetenv("HRF_EMULATED_CUDA");
    unsetenv("HRF_EMULATED_ELEMENTS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_tensor_cores_it_is_part_of_the_graph_that_cudnn_runs),
        cmocka_unit_test(an_image_that_is_too_large_for_any_engine_is_computed_in_strips),
        cmocka_unit_test(in_fp32_strips_of_the_image_give_the_same_numbers),
    };
    return cmocka_run_group_tests(tests, put_it_in_place, tidy_up);
}
