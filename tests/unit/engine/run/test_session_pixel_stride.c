/* Networks with images wide enough for a pixel stride: the bits are those of dense ones, however
 * steps are paired and pixels are shared out, and ranks and bands give what one session gives. */
#include "tests/unit/unit.h"

#include "engine/backend/cpu/instructions.h"
#include "engine/plan/bands.h"
#include "engine/run/planner.h"
#include "engine/run/session_private.h"
#include "tests/ops/build.h"

#include <string.h>

enum { N_NETWORKS = 16, N_BLOCKS = 3 };

/* Blocks of a residual network, some with their activation before the convolution; then half the
 * pixels of twice as many channels, and a pool over them or one more convolution. */
static struct hrf_graph *network(uint64_t seed)
{
    struct build b = build_start(seed);
    const int64_t narrow = 16 * build_pick(&b, 1, 4), wide = 1024, rows = build_pick(&b, 4, 9);
    const bool acts_first = build_pick(&b, 0, 2) == 0;
    int32_t x = build_input(&b, SHAPE(build_pick(&b, 1, 3), narrow, rows, build_pick(&b, 4, 9)));
    x = build_plain_conv(&b, x, narrow, wide, 1, 1, true);
    for (int i = 0; i < N_BLOCKS; i++) {
        int32_t y = acts_first ? build_unary(&b, HRF_OP_RELU, x) : x;
        y = build_unary(&b, HRF_OP_RELU, build_plain_conv(&b, y, wide, narrow, 1, 1, true));
        if (build_pick(&b, 0, 1) == 0)
            y = build_plain_conv(&b, y, narrow, narrow, 3, 1, true);
        y = build_binary(&b, HRF_OP_ADD, build_plain_conv(&b, y, narrow, wide, 1, 1, true), x);
        x = acts_first ? y : build_unary(&b, HRF_OP_RELU, y);
    }
    const int64_t end = build_pick(&b, 0, 2);
    x = build_plain_conv(&b, x, wide, 2 * wide, 1, 2, true);
    if (end == 0)
        x = build_plain_conv(&b, x, 2 * wide, narrow, 1, 1, true);
    else
        x = build_unary(&b, end == 1 ? HRF_OP_GLOBAL_AVERAGE_POOL : HRF_OP_GLOBAL_MAX_POOL, x);
    return build_finish(&b, &x, 1);
}

/* The output, heap; *n_strided: images that have one. */
static float *run(const struct hrf_graph *graph, int32_t n_threads, bool is_dense, size_t *n_bytes,
                  int32_t *n_strided)
{
    const struct hrf_session_config config = {
        .device = "cpu", .precision = HRF_FP32, .n_threads = n_threads, .every_tensor = is_dense
    };
    HRF_AUTO(hrf_session) session = NULL;
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_random random = hrf_random_init(7);
    if (hrf_session_create(graph, &config, &session, &err) != HRF_OK)
        fail_msg("%s", err.text);
    const int64_t n = hrf_shape_count(hrf_session_input_shape(session, 0));
    for (int64_t i = 0; i < n; i++)
        hrf_session_input(session, 0)[i] = (float)(2 * hrf_random_unit(&random) - 1);
    assert_int_equal(hrf_session_run(session, &err), HRF_OK);
    *n_bytes = (size_t)hrf_shape_count(hrf_session_output_shape(session, 0)) * sizeof(float);
    float *out = hrf_alloc(*n_bytes);
    assert_non_null(out);
    memcpy(out, hrf_session_output(session, 0), *n_bytes);
    *n_strided = 0;
    for (int32_t v = 0; v < session->graph->n_values; v++)
        *n_strided += session->graph->values[v].pixel_stride > 0;
    return out;
}

static void a_pixel_stride_changes_no_bit(void **state)
{
    (void)state;
    int32_t all = 0;
    for (uint64_t seed = 0; seed < N_NETWORKS; seed++) {
        size_t n, n_dense;
        int32_t n_strided, none;
        HRF_AUTO(hrf_graph) graph = network(seed);
        HRF_AUTO_FREE float *strided = run(graph, 1 + (int32_t)(seed % 4), false, &n, &n_strided);
        HRF_AUTO_FREE float *dense = run(graph, 1, true, &n_dense, &none);
        assert_int_equal(none, 0);
        assert_int_equal(n, n_dense);
        assert_memory_equal(strided, dense, n);
        all += n_strided;
    }
    if (hrf_cpu_has_avx512()) /* of all but the pixels of half the image, which may leave */
        assert_true(all >= N_NETWORKS * (N_BLOCKS + 1));
}

static void ranks_and_bands_give_what_one_session_gives(void **state)
{
    (void)state;
    static const char *const layouts[] = { "spatial=2", "spatial=2x2,halos=overlap",
                                           "stages=3,microbatches=1", "spatial=3,stages=2" };
    enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };
    for (uint64_t seed = 0; seed < 2 * N_LAYOUTS; seed++) {
        int64_t n, n_shared, n_banded;
        HRF_AUTO(hrf_graph) graph = network(seed);
        HRF_AUTO_FREE float *alone = run_graph(graph, "cpu", 1, seed, 2, &n);
        HRF_AUTO_FREE float *shared = run_layout_in(
            graph, "cpu", HRF_FP32, layouts[seed % N_LAYOUTS], NULL, seed, &n_shared);
        HRF_AUTO_FREE float *banded = run_bands_in(graph, "cpu", HRF_FP32, 2, HRF_BANDS_AUTO, seed,
                                                   &n_banded);
        assert_int_equal(n, n_shared);
        assert_true(relative_difference(shared, alone, n) <= 1e-5);
        assert_non_null(banded);
        assert_int_equal(n, n_banded);
        assert_true(relative_difference(banded, alone, n) <= 1e-5);
    }
}

/* The gaps are in the plan of the whole network, before there is a session. */
static void a_prediction_counts_the_gaps(void **state)
{
    (void)state;
    const struct hrf_machine machine = { .name = "m",
                                         .ranks_per_node = 1,
                                         .ports_per_node = 1,
                                         .rates = { .operations = { 1e11, 1e11, 1e11, 1e11 },
                                                    .bytes = 1e10 } };
    const struct hrf_cost_table costs = { .rates = machine.rates };
    const struct hrf_layout_plan single = hrf_layout_single();
    const struct hrf_session_config config = { .device = "cpu", .precision = HRF_FP32 };
    HRF_AUTO(hrf_graph) graph = network(1);
    const struct hrf_planner_config planning = {
        .graph = graph, .precision = HRF_FP32, .costs = &costs, .machine = &machine
    };
    HRF_AUTO(hrf_planner) planner = NULL;
    HRF_AUTO(hrf_prediction) prediction = NULL;
    HRF_AUTO(hrf_session) session = NULL;
    assert_int_equal(hrf_planner_create(&planning, &planner, NULL), HRF_OK);
    assert_int_equal(hrf_planner_predict(planner, &single, &prediction, NULL), HRF_OK);
    assert_int_equal(hrf_session_create(graph, &config, &session, NULL), HRF_OK);
    assert_int_equal(prediction->ranks[0].activation_bytes,
                     hrf_session_memory(session).activation_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pixel_stride_changes_no_bit),
        cmocka_unit_test(a_prediction_counts_the_gaps),
        cmocka_unit_test(ranks_and_bands_give_what_one_session_gives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
