/* Costs of nodes: measured, scaled from their like, modelled; and kept as JSON. */
#include "engine/plan/cost.h"

#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

/* One convolution 8 -> 16, 3x3, on rows x 10 px. */
static struct hrf_graph *convolution(enum hrf_dtype dtype, int64_t rows, bool relu)
{
    struct hrf_graph *g = NULL;
    int32_t x, w, y;
    const struct hrf_shape in = { 4, { 1, 8, rows, 10 } }, weights = { 4, { 16, 8, 3, 3 } };
    const struct hrf_shape out = { 4, { 1, 16, rows, 10 } };
    assert_int_equal(hrf_graph_create("g", &g, NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_value(g, "x", dtype, &in, NULL, &x, NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_value(g, "w", HRF_F32, &weights, NULL, &w, NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_value(g, "y", dtype, &out, NULL, &y, NULL), HRF_OK);
    struct hrf_attributes a = hrf_attributes_default();
    a.activation = relu ? HRF_ACT_RELU : HRF_ACT_NONE;
    assert_int_equal(
        hrf_graph_add_node(g, HRF_OP_CONV, "conv", (const int32_t[]){ x, w }, 2, &y, 1, &a, NULL),
        HRF_OK);
    return g;
}

/* Its norm, which it may write too. */
static void add_second(struct hrf_graph *g)
{
    struct hrf_attributes a = hrf_attributes_default();
    const struct hrf_shape out = g->values[2].shape;
    int32_t y;
    a.is_second = true;
    a.activation = HRF_ACT_RELU;
    assert_int_equal(hrf_graph_add_value(g, "norm", HRF_F32, &out, NULL, &y, NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_node(g, HRF_OP_BATCH_NORM, "norm",
                                        (const int32_t[]){ 2, 1, 1, 1, 1 }, 5, &y, 1, &a, NULL),
                     HRF_OK);
}

static double seconds_of(const struct hrf_cost_table *table, enum hrf_dtype dtype, int64_t rows,
                         enum hrf_cost_origin origin)
{
    HRF_AUTO(hrf_graph) g = convolution(dtype, rows, false);
    struct hrf_cost cost;
    assert_int_equal(hrf_cost_of(table, g, &g->nodes[0], &cost, NULL), HRF_OK);
    assert_int_equal(cost.origin, origin);
    return cost.seconds;
}

static void measure(struct hrf_cost_table *table, int64_t rows, double seconds)
{
    HRF_AUTO(hrf_graph) g = convolution(HRF_F32, rows, false);
    hrf_cost_add(table, g, &g->nodes[0], seconds, rows * 100, 7);
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b));
}

static void the_key_says_what_the_speed_depends_on_and_not_how_much_there_is(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) a = convolution(HRF_F32, 10, false);
    HRF_AUTO(hrf_graph) b = convolution(HRF_F32, 99, true);
    HRF_AUTO_FREE char *plain = hrf_cost_key(a, &a->nodes[0]);
    HRF_AUTO_FREE char *relu = hrf_cost_key(b, &b->nodes[0]);
    assert_string_equal(plain, "Conv float32>float32 c8>16 k3x3 s1x1 d1x1 g1");
    assert_string_equal(relu, "Conv float32>float32 c8>16 k3x3 s1x1 d1x1 g1 relu");
    assert_true(hrf_cost_work(a, &a->nodes[0]) == 100);
    assert_true(hrf_cost_bytes(a, &a->nodes[0]) == 4.0 * (800 + 1600 + 16 * 8 * 9));
    add_second(a);
    HRF_AUTO_FREE char *both = hrf_cost_key(a, &a->nodes[0]);
    assert_string_equal(both, "Conv float32>float32 c8>16 k3x3 s1x1 d1x1 g1 and: relu");
    assert_true(hrf_cost_bytes(a, &a->nodes[0]) == 4.0 * (800 + 2 * 1600 + 16 * 8 * 9));
    assert_true(hrf_cost_bytes(a, &a->nodes[1]) == 0);
}

static void what_was_measured_is_taken_and_its_like_is_scaled(void **state)
{
    (void)state;
    struct hrf_cost_table table = { .entries = NULL };
    measure(&table, 10, 3);
    assert_true(near(seconds_of(&table, HRF_F32, 10, HRF_COST_MEASURED), 3));
    assert_true(near(seconds_of(&table, HRF_F32, 20, HRF_COST_SCALED), 6));
    measure(&table, 30, 5);
    assert_true(near(seconds_of(&table, HRF_F32, 20, HRF_COST_SCALED), 4));
    assert_true(near(seconds_of(&table, HRF_F32, 50, HRF_COST_SCALED), 7));
    assert_true(near(seconds_of(&table, HRF_F32, 5, HRF_COST_SCALED), 2.5));
    measure(&table, 20, 9); /* slower than its neighbour above: noise */
    assert_true(near(seconds_of(&table, HRF_F32, 60, HRF_COST_SCALED), 10));
    measure(&table, 10, 4); /* again */
    assert_int_equal(table.n_entries, 3);
    assert_true(near(seconds_of(&table, HRF_F32, 10, HRF_COST_MEASURED), 4));
    hrf_cost_table_release(&table);
}

static void what_was_never_measured_is_modelled_by_the_slower_of_two_limits(void **state)
{
    (void)state;
    struct hrf_cost_table table = { .rates = { .bytes = 1e6, .overhead = 0.5 } };
    HRF_AUTO(hrf_graph) g = convolution(HRF_F32, 10, false);
    const double operations = 2.0 * 1600 * 72, bytes = 4.0 * (800 + 1600 + 1152);
    table.rates.operations[HRF_RATE_FP32] = 1e9;
    assert_true(near(seconds_of(&table, HRF_F32, 10, HRF_COST_MODELLED), 0.5 + bytes / 1e6));
    table.rates.operations[HRF_RATE_FP32] = 1e6;
    assert_true(near(seconds_of(&table, HRF_F32, 10, HRF_COST_MODELLED), 0.5 + operations / 1e6));
    assert_true(
        near(seconds_of(&table, HRF_F32, 0, HRF_COST_MEASURED), 0)); /* a rank without rows */
}

static void a_cost_that_cannot_be_known_says_what_is_missing(void **state)
{
    (void)state;
    struct hrf_cost_table table = { .rates = { .bytes = 1e6 } };
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_cost cost;
    HRF_AUTO(hrf_graph) g = convolution(HRF_S8, 10, false);
    assert_int_equal(hrf_cost_of(&table, g, &g->nodes[0], &cost, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "no cost of node 'conv' (Conv int8>int8 c8>16"));
    assert_non_null(strstr(err.text, "give device.tops.int8 and device.gb_per_s"));
}

static void rates_follow_from_what_was_measured(void **state)
{
    (void)state;
    struct hrf_cost_table table = { .rates = { .operations = { 1, 2, 3, 4 } } };
    measure(&table, 10, 2);
    measure(&table, 30, 3);
    hrf_cost_fit_rates(&table);
    assert_true(near(table.rates.operations[HRF_RATE_FP32], 2.0 * 16 * 72 * (100 + 300) / 5));
    assert_true(table.rates.operations[HRF_RATE_INT8] == 4); /* none measured: as it was */
    hrf_cost_table_release(&table);
}

static void a_table_comes_back_and_a_false_one_is_refused(void **state)
{
    (void)state;
    struct hrf_cost_table table = { .entries = NULL }, back = { .entries = NULL };
    struct hrf_error err = { .status = HRF_OK };
    measure(&table, 10, 0.1);
    measure(&table, 30, 0.3);
    HRF_AUTO_JSON json = hrf_cost_encode(&table);
    assert_int_equal(hrf_cost_decode(json, "costs", &back, NULL), HRF_OK);
    assert_int_equal(back.n_entries, 2);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(back.entries[i].key, table.entries[i].key);
        assert_true(back.entries[i].seconds == table.entries[i].seconds);
        assert_int_equal(back.entries[i].workspace_bytes, table.entries[i].workspace_bytes);
        assert_int_equal(back.entries[i].weight_bytes, 7);
    }
    json_t *first = json_array_get(json_object_get(json, "entries"), 0);
    hrf_json_put_text(first, "rate", "fp8");
    assert_int_equal(hrf_cost_decode(json, "costs", &back, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "costs: the cost of 'Conv float32>float32 c8>16"));
    hrf_cost_table_release(&table);
    hrf_cost_table_release(&back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_key_says_what_the_speed_depends_on_and_not_how_much_there_is),
        cmocka_unit_test(what_was_measured_is_taken_and_its_like_is_scaled),
        cmocka_unit_test(what_was_never_measured_is_modelled_by_the_slower_of_two_limits),
        cmocka_unit_test(a_cost_that_cannot_be_known_says_what_is_missing),
        cmocka_unit_test(rates_follow_from_what_was_measured),
        cmocka_unit_test(a_table_comes_back_and_a_false_one_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
