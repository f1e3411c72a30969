/* What exporters write over [N][H][W][C] becomes nodes of images: the numbers stay those of the
 * graph as it was written, in every precision and over every layout. */
#include "tests/unit/unit.h"

#include "engine/passes/passes.h"
#include "tests/ops/pixel_nets.h"

static void no_product_and_no_turn_is_left(void **state)
{
    int n_joined = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++)
        for (int net = 0; net < N_PIXEL_NETS; net++) {
            struct hrf_error err = { .status = HRF_OK };
            struct hrf_graph *graph = make_pixel_net(seed, (enum pixel_net)net);
            if (hrf_passes_run(graph, &err) != HRF_OK ||
                hrf_pass_fuse_transformer(graph, &err) != HRF_OK ||
                hrf_pass_attention_of_tokens(graph, &err) != HRF_OK ||
                hrf_pass_channels_first(graph, &err) != HRF_OK ||
                hrf_pass_fuse_channels(graph, &err) != HRF_OK ||
                hrf_pass_fuse_product(graph, &err) != HRF_OK ||
                hrf_pass_join_moves(graph, &err) != HRF_OK)
                fail_msg("%s", err.text);
            assert_int_equal(build_count(graph, HRF_OP_MATMUL), 0);
            assert_int_equal(build_count(graph, HRF_OP_SOFTMAX), 0);
            /* To windows and back, twice; the result in the order of the model. */
            assert_in_range(build_count(graph, HRF_OP_TRANSPOSE), 0, net == WINDOWS ? 5 : 0);
            n_joined += build_count(graph, HRF_OP_GATHER);
            hrf_graph_destroy(graph);
        }
    assert_true(n_joined > 0);
}

static void the_numbers_stay(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++)
        for (int net = 0; net < N_PIXEL_NETS; net++) {
            struct hrf_graph *graph = make_pixel_net(seed, (enum pixel_net)net);
            int64_t n[4];
            float *truth = run_unchanged(graph, seed, &n[0]);
            float *ref = run_graph(graph, "ref", 1, seed, 1, &n[1]);
            float *one = run_graph(graph, "cpu", 1, seed, 1, &n[2]);
            float *two = run_graph(graph, "cpu", 2, seed, 2, &n[3]);
            assert_int_equal(n[0], n[1]);
            assert_true(relative_difference(ref, truth, n[0]) <= 1e-5);
            assert_true(relative_difference(one, truth, n[0]) <= 1e-5);
            assert_memory_equal(one, two, (size_t)n[0] * sizeof *one);
            hrf_free(truth);
            hrf_free(ref);
            hrf_free(one);
            hrf_free(two);
            hrf_graph_destroy(graph);
        }
}

static void fewer_bits_are_near_the_reference(void **state)
{
    (void)state;
    static const enum hrf_precision precisions[] = { HRF_FP16, HRF_BF16, HRF_INT8 };
    static const double limits[] = { 8e-3, 6e-2, 6e-2 };
    for (uint64_t seed = 0; seed < 8; seed++)
        for (int p = 0; p < 3; p++)
            for (int net = 0; net < N_PIXEL_NETS; net++) {
                struct hrf_graph *graph = make_pixel_net(seed, (enum pixel_net)net);
                int64_t n, n_one, n_two;
                float *ref = run_graph_in(graph, "ref", precisions[p], 1, 5, 1, &n, NULL);
                float *one = run_graph_in(graph, "cpu", precisions[p], 1, 5, 1, &n_one, NULL);
                float *two = run_graph_in(graph, "cpu", precisions[p], 2, 5, 1, &n_two, NULL);
                const double difference = relative_difference(one, ref, n);
                if (!(difference <= limits[p]))
                    fail_msg("%s, net %d, seed %d: off by %g", hrf_precision_name(precisions[p]),
                             net, (int)seed, difference);
                assert_memory_equal(one, two, (size_t)n * sizeof *one);
                hrf_free(ref);
                hrf_free(one);
                hrf_free(two);
                hrf_graph_destroy(graph);
            }
}

/* Images are split over ranks and into bands; so are norms and products that have become theirs. */
static void layouts_give_the_same_bytes(void **state)
{
    (void)state;
    static const char *const layouts[] = { "spatial=2", "spatial=2x2", "stages=2" };
    for (uint64_t seed = 0; seed < 6; seed++)
        for (int net = 0; net < N_PIXEL_NETS; net++)
            for (int i = 0; i < 3; i++) {
                struct hrf_graph *graph = make_pixel_net(seed, (enum pixel_net)net);
                int64_t n, n_ranks;
                float *one = run_graph_in(graph, "cpu", HRF_INT8, 1, 3, 1, &n, NULL);
                float *ranks = run_layout_in(graph, "cpu", HRF_INT8, layouts[i], NULL, 3, &n_ranks);
                assert_int_equal(n, n_ranks);
                assert_memory_equal(one, ranks, (size_t)n * sizeof *one);
                hrf_free(one);
                hrf_free(ranks);
                hrf_graph_destroy(graph);
            }
}

static void bands_give_the_same_bytes(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct hrf_graph *graph = make_pixel_net(seed, CONVOLUTIONS);
        int64_t n, n_bands;
        float *one = run_graph_in(graph, "cpu", HRF_INT8, 1, 3, 1, &n, NULL);
        float *bands = run_bands_in(graph, "cpu", HRF_INT8, 2,
                                    (enum hrf_bands_rows)(seed % HRF_N_BANDS_ROWS), 3, &n_bands);
        if (bands != NULL)
            assert_memory_equal(one, bands, (size_t)n * sizeof *one);
        hrf_free(one);
        hrf_free(bands);
        hrf_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_product_and_no_turn_is_left),
        cmocka_unit_test(the_numbers_stay),
        cmocka_unit_test(fewer_bits_are_near_the_reference),
        cmocka_unit_test(layouts_give_the_same_bytes),
        cmocka_unit_test(bands_give_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
