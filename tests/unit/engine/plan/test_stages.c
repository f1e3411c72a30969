/* Cuts into stages against every possible cut, on random graphs with skips. */
#include "engine/plan/stages.h"

#include "base/random.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

enum { MOST_NODES = 9 };

struct scene {
    struct hrf_graph *graph;
    double seconds[MOST_NODES];
    struct hrf_stage_costs costs;
};

/* Nodes that each add two earlier values of random sizes; one of them has a constant. */
static struct scene make_scene(uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    struct scene s = { .graph = NULL };
    int32_t values[MOST_NODES + 1], constant, n = 3 + (int32_t)hrf_random_below(&random, 7);
    const struct hrf_attributes attributes = hrf_attributes_default();
    const struct hrf_shape weights = { 1, { 50 } };
    static const float data[50] = { 1 };
    assert_int_equal(hrf_graph_create("g", &s.graph, NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_value(s.graph, "w", HRF_F32, &weights, data, &constant, NULL),
                     HRF_OK);
    for (int32_t i = 0; i <= n; i++) {
        const struct hrf_shape shape = { 1, { 1 + hrf_random_below(&random, 100) } };
        assert_int_equal(hrf_graph_add_value(s.graph, "v", HRF_F32, &shape, NULL, &values[i], NULL),
                         HRF_OK);
    }
    for (int32_t i = 0; i < n; i++) {
        const int32_t inputs[] = { values[i], i == n / 2
                                                  ? constant
                                                  : values[hrf_random_below(&random, i + 1)] };
        assert_int_equal(hrf_graph_add_node(s.graph, HRF_OP_ADD, "n", inputs, 2, &values[i + 1], 1,
                                            &attributes, NULL),
                         HRF_OK);
        s.seconds[i] = (double)hrf_random_below(&random, 20);
    }
    s.costs.seconds_per_byte = 0.01 * (double)hrf_random_below(&random, 3);
    s.costs.seconds_per_message = (double)hrf_random_below(&random, 2);
    s.costs.transit_seconds_per_byte = 0.02 * (double)hrf_random_below(&random, 4);
    return s;
}

/* Straight from the definition, value by value. */
static double cost_of(const struct scene *s, int32_t begin, int32_t end)
{
    double sum = 0, transit = 0;
    for (int32_t n = begin; n < end; n++)
        sum += s->seconds[n];
    for (int32_t v = 0; v < s->graph->n_values; v++) {
        const int32_t made = s->graph->values[v].producer;
        bool used_in = false, used_after = false;
        if (made < 0)
            continue;
        for (int32_t n = 0; n < s->graph->n_nodes; n++)
            for (int32_t k = 0; k < 2; k++) {
                const bool uses = s->graph->nodes[n].inputs[k] == v;
                used_in |= uses && n >= begin && n < end;
                used_after |= uses && n >= end;
            }
        const double bytes = 4.0 * (double)s->graph->values[v].shape.dims[0];
        const bool crosses = (made < begin && used_in) ||
                             (made >= begin && made < end && used_after);
        sum += crosses ? s->costs.seconds_per_message + s->costs.seconds_per_byte * bytes : 0;
        transit += crosses && made >= begin ? s->costs.transit_seconds_per_byte * bytes : 0;
    }
    return fmax(sum, transit);
}

static double slowest(const struct scene *s, const int32_t *stage_of, int32_t n_stages)
{
    double most = 0;
    int32_t begin = 0;
    for (int32_t stage = 0; stage < n_stages; stage++) {
        int32_t end = begin;
        while (end < s->graph->n_nodes && stage_of[end] == stage)
            end++;
        assert_true(end > begin);
        most = fmax(most, cost_of(s, begin, end));
        begin = end;
    }
    assert_int_equal(begin, s->graph->n_nodes);
    return most;
}

/* Every way to cut: bit i of `cuts` is a cut after node i. */
static double best_of_all(const struct scene *s, int32_t n_stages)
{
    double best = INFINITY;
    for (int32_t cuts = 0; cuts < 1 << (s->graph->n_nodes - 1); cuts++) {
        int32_t stage_of[MOST_NODES] = { 0 }, stage = 0;
        for (int32_t n = 0; n + 1 < s->graph->n_nodes; n++) {
            stage += cuts >> n & 1;
            stage_of[n + 1] = stage;
        }
        if (stage + 1 == n_stages)
            best = fmin(best, slowest(s, stage_of, n_stages));
    }
    return best;
}

static void the_cut_is_the_best_of_all_cuts(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct scene s = make_scene(seed);
        s.costs.seconds = s.seconds;
        for (int32_t n_stages = 1; n_stages <= s.graph->n_nodes && n_stages <= 4; n_stages++) {
            int32_t stage_of[MOST_NODES];
            assert_int_equal(hrf_stages_cut(s.graph, &s.costs, n_stages, stage_of, NULL), HRF_OK);
            const double got = slowest(&s, stage_of, n_stages);
            if (fabs(got - best_of_all(&s, n_stages)) > 1e-9)
                fail_msg("seed %d, %d stages: %g instead of %g", (int)seed, n_stages, got,
                         best_of_all(&s, n_stages));
        }
        hrf_graph_destroy(s.graph);
    }
}

/* Four nodes in a row, values of 400, 400, 800, 400 and 400 bytes. */
static struct scene make_row(double *seconds)
{
    static const int64_t sizes[] = { 100, 100, 200, 100, 100 };
    struct scene s = { .graph = NULL, .costs = { .seconds = seconds } };
    const struct hrf_attributes attributes = hrf_attributes_default();
    int32_t values[5];
    assert_int_equal(hrf_graph_create("row", &s.graph, NULL), HRF_OK);
    for (int i = 0; i < 5; i++) {
        const struct hrf_shape shape = { 1, { sizes[i] } };
        assert_int_equal(hrf_graph_add_value(s.graph, "v", HRF_F32, &shape, NULL, &values[i], NULL),
                         HRF_OK);
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(hrf_graph_add_node(s.graph, HRF_OP_RELU, "n", &values[i], 1,
                                            &values[i + 1], 1, &attributes, NULL),
                         HRF_OK);
    return s;
}

/* So many that the square of their number would take minutes: each stage gets a share whose time
 * is within one node's of every other's. */
static void a_long_chain_is_cut_into_equal_times(void **state)
{
    (void)state;
    enum { N = 100000, N_STAGES = 6 };
    const struct hrf_attributes attributes = hrf_attributes_default();
    const struct hrf_shape shape = { 1, { 10 } };
    struct hrf_random random = hrf_random_init(3);
    struct scene s = { .graph = NULL };
    HRF_AUTO_FREE double *seconds = hrf_alloc_array(N, sizeof *seconds);
    HRF_AUTO_FREE int32_t *stage_of = hrf_alloc_array(N, sizeof *stage_of);
    int32_t value, next;
    assert_true(seconds != NULL && stage_of != NULL);
    assert_int_equal(hrf_graph_create("chain", &s.graph, NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_value(s.graph, "v", HRF_F32, &shape, NULL, &value, NULL),
                     HRF_OK);
    double all = 0, each[N_STAGES] = { 0 };
    for (int i = 0; i < N; i++, value = next) {
        assert_int_equal(hrf_graph_add_value(s.graph, "v", HRF_F32, &shape, NULL, &next, NULL),
                         HRF_OK);
        assert_int_equal(
            hrf_graph_add_node(s.graph, HRF_OP_RELU, "n", &value, 1, &next, 1, &attributes, NULL),
            HRF_OK);
        seconds[i] = (double)(1 + hrf_random_below(&random, 9));
        all += seconds[i];
    }
    s.costs = (struct hrf_stage_costs){ .seconds = seconds, .seconds_per_message = 0.5 };
    assert_int_equal(hrf_stages_cut(s.graph, &s.costs, N_STAGES, stage_of, NULL), HRF_OK);
    for (int i = 0; i < N; i++)
        each[stage_of[i]] += seconds[i];
    for (int k = 0; k < N_STAGES; k++)
        if (each[k] > all / N_STAGES + 10)
            fail_msg("stage %d takes %g of %g s", k, each[k], all);
    hrf_graph_destroy(s.graph);
}

static void a_wide_value_is_not_cut_where_a_narrow_one_costs_less(void **state)
{
    (void)state;
    double seconds[] = { 5, 5, 5, 5 };
    struct scene s = make_row(seconds);
    int32_t stage_of[4];
    assert_int_equal(hrf_stages_cut(s.graph, &s.costs, 2, stage_of, NULL), HRF_OK);
    assert_int_equal(stage_of[1], 0); /* in the middle: 10 and 10 */
    assert_int_equal(stage_of[2], 1);
    s.costs.seconds_per_byte = 0.02; /* 16 s for the value in the middle, 8 s elsewhere */
    assert_int_equal(hrf_stages_cut(s.graph, &s.costs, 2, stage_of, NULL), HRF_OK);
    assert_int_equal(stage_of[2] == stage_of[1], 1);
    hrf_graph_destroy(s.graph);
}

static void stages_that_cannot_be_are_refused_with_what_would_do(void **state)
{
    (void)state;
    double seconds[] = { 5, 5, 5, 5 };
    struct scene s = make_row(seconds);
    struct hrf_error err = { .status = HRF_OK };
    int32_t stage_of[4];
    assert_int_equal(hrf_stages_cut(s.graph, &s.costs, 5, stage_of, &err), HRF_E_USER);
    assert_string_equal(err.text, "5 stages for a network of 4 nodes; at most stages=4 would work");
    s.costs.memory_bytes = 1200; /* nodes 1 and 2 hold as much */
    assert_int_equal(hrf_stages_cut(s.graph, &s.costs, 2, stage_of, &err), HRF_OK);
    s.costs.memory_bytes = 1199;
    assert_int_equal(hrf_stages_cut(s.graph, &s.costs, 2, stage_of, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "no cut into 2 stages keeps each below"));
    hrf_graph_destroy(s.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cut_is_the_best_of_all_cuts),
        cmocka_unit_test(a_long_chain_is_cut_into_equal_times),
        cmocka_unit_test(a_wide_value_is_not_cut_where_a_narrow_one_costs_less),
        cmocka_unit_test(stages_that_cannot_be_are_refused_with_what_would_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
