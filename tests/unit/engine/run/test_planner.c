/* Predictions against real runs: what every rank holds and sends is predicted exactly. And choices.
 */
#include "engine/run/planner.h"

#include "engine/model/model.h"
#include "engine/passes/gradient/gradient.h"
#include "engine/run/made_ranges.h"
#include "engine/run/parallel.h"
#include "engine/run/profile.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

static struct hrf_machine machine_of(double bandwidth)
{
    struct hrf_machine m = { .name = "m",
                             .ranks_per_node = 64,
                             .ports_per_node = 1,
                             .copy_rate = 1e10,
                             .rates = { .operations = { 1e11, 1e11, 1e11, 1e11 }, .bytes = 1e10 } };
    m.links[m.n_links++] = hrf_link_simple("loop", HRF_PLACEMENT_NODE, 1e-6, bandwidth);
    return m;
}

static struct hrf_graph *network(int64_t batch, int64_t size)
{
    struct hrf_graph *graph = NULL;
    const struct hrf_shape shape = { 4, { batch, 3, size, size } };
    assert_int_equal(hrf_model_make("resnet18", 10, size, 1, &graph, NULL), HRF_OK);
    assert_int_equal(hrf_graph_set_input_shape(graph, 0, &shape, NULL), HRF_OK);
    return graph;
}

static enum hrf_status read_zeros(void *context, int32_t input, int64_t first, int64_t n,
                                  const struct hrf_box *box, float *out, struct hrf_error *err)
{
    const struct hrf_graph *graph = context;
    const struct hrf_shape *s = &graph->values[graph->inputs[input]].shape;
    const int64_t area = (box->hi[0] - box->lo[0]) * (box->hi[1] - box->lo[1]);
    const int64_t count = s->rank == 4 ? area * s->dims[1] : hrf_shape_count(s) / s->dims[0];
    (void)first;
    (void)err;
    memset(out, 0, (size_t)(n * count) * sizeof *out);
    return HRF_OK;
}

/* Runs the layout once on threads and holds each rank's facts against the prediction. */
static void compare(struct hrf_graph *graph, const struct hrf_session_config *config,
                    const struct hrf_layout_plan *layout, const struct hrf_prediction *prediction)
{
    HRF_AUTO(hrf_parallel) parallel = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_parallel_create(graph, config, layout, 60000, &parallel, &err) != HRF_OK ||
        hrf_parallel_run(parallel, read_zeros, graph, &err) != HRF_OK)
        fail_msg("%s", err.text);
    for (int32_t r = 0; r < prediction->n_ranks; r++) {
        const struct hrf_rank_facts facts = hrf_parallel_facts(parallel, r);
        const struct hrf_sim_rank *sim = &prediction->simulation->ranks[r];
        const struct hrf_predicted_rank *p = &prediction->ranks[r];
        assert_int_equal(sim->n_sent, facts.n_messages);
        assert_int_equal(sim->sent_bytes, facts.sent_bytes);
        assert_int_equal(p->activation_bytes, facts.memory.activation_bytes);
        /* Kernels pack weights differently, and a part may have another kernel than the whole. */
        assert_true(p->weight_bytes <= 4 * facts.memory.weight_bytes);
        assert_true(facts.memory.weight_bytes <= 4 * p->weight_bytes);
    }
}

static void check(const char *text, enum hrf_precision precision, int64_t batch)
{
    const struct hrf_machine machine = machine_of(1e9);
    struct hrf_cost_table costs = { .rates = machine.rates };
    const struct hrf_cutting cutting = { &costs, &machine };
    struct hrf_made_ranges made = { .fused = NULL };
    struct hrf_layout_plan layout;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_graph) graph = network(batch, 64);
    HRF_AUTO(hrf_planner) planner = NULL;
    HRF_AUTO(hrf_prediction) prediction = NULL;
    assert_int_equal(hrf_made_ranges_init(graph, &made, NULL), HRF_OK);
    struct hrf_session_config config = { .device = "cpu",
                                         .precision = precision,
                                         .ranges = made.ranges,
                                         .n_ranges = made.n_ranges,
                                         .n_threads = 1,
                                         .cutting = &cutting };
    /* So that weights are known as the kernels pack them. */
    assert_int_equal(hrf_profile_run(graph, &config, 1, 1, &costs, NULL), HRF_OK);
    const struct hrf_planner_config planning = {
        .graph = graph, .precision = precision, .costs = &costs, .machine = &machine
    };
    assert_int_equal(hrf_layout_parse(text, &layout, NULL), HRF_OK);
    assert_int_equal(hrf_planner_create(&planning, &planner, NULL), HRF_OK);
    if (hrf_planner_predict(planner, &layout, &prediction, &err) != HRF_OK)
        fail_msg("%s: %s", text, err.text);
    compare(graph, &config, &layout, prediction);
    hrf_cost_table_release(&costs);
    hrf_made_ranges_release(&made);
}

static void what_ranks_hold_and_send_is_predicted_exactly(void **state)
{
    (void)state;
    check("spatial=3", HRF_FP32, 1);
    check("spatial=2x2", HRF_FP32, 2);
    check("stages=3,microbatches=4", HRF_FP32, 4);
    check("stages=2,microbatches=4,bidirectional", HRF_FP32, 5);
    check("data=2,spatial=2,stages=2,microbatches=2", HRF_FP32, 4);
    check("spatial=2", HRF_INT8, 1);
    check("spatial=3,halos=overlap", HRF_INT8, 1);
    check("spatial=2,stages=2,halos=overlap", HRF_FP32, 1);
    check("spatial=2x2,halos=overlap", HRF_INT8, 2);
    check("spatial=2,halos=overlap", HRF_FP32, 2);
    check("spatial=2,stages=2", HRF_INT8, 1);
    check("tensor=3", HRF_INT8, 1);
    check("spatial=2,tensor=2", HRF_FP32, 1);
}

static void check_step(const char *text, int64_t batch, int64_t per_microbatch)
{
    struct hrf_machine machine = machine_of(1e9);
    struct hrf_cost_table costs = { .rates = machine.rates };
    const struct hrf_cutting cutting = { &costs, &machine };
    const struct hrf_session_config config = {
        .device = "cpu", .precision = HRF_FP32, .n_threads = 1, .cutting = &cutting
    };
    struct hrf_layout_plan layout;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_graph) graph = network(batch, 32);
    HRF_AUTO(hrf_planner) planner = NULL;
    HRF_AUTO(hrf_prediction) prediction = NULL;
    HRF_AUTO_RELEASE(hrf_gradients) gradients = { .n = 0 };
    const struct hrf_planner_config planning = {
        .graph = graph, .is_step = true, .precision = HRF_FP32, .costs = &costs, .machine = &machine
    };
    machine.is_one_process = true;
    assert_int_equal(hrf_layout_parse(text, &layout, NULL), HRF_OK);
    assert_int_equal(hrf_planner_create(&planning, &planner, NULL), HRF_OK);
    if (hrf_planner_predict(planner, &layout, &prediction, &err) != HRF_OK)
        fail_msg("%s: %s", text, err.text);
    struct hrf_shape part = graph->values[graph->inputs[0]].shape;
    part.dims[0] = per_microbatch;
    graph->n_images = per_microbatch < batch ? batch : 0;
    for (int32_t v = 0; v < graph->n_values; v++)
        graph->values[v].is_initializer = graph->values[v].data != NULL;
    if (hrf_graph_set_input_shape(graph, 0, &part, &err) != HRF_OK ||
        hrf_pass_training_step(graph, HRF_LOSS_MSE, NULL, &gradients, &err) != HRF_OK ||
        hrf_graph_infer_shapes(graph, &err) != HRF_OK)
        fail_msg("%s: %s", text, err.text);
    compare(graph, &config, &layout, prediction);
}

/* Forward and backward passes in turn, and sums that have owners. */
static void what_a_step_of_training_holds_and_sends_is_predicted_exactly(void **state)
{
    (void)state;
    check_step("spatial=2", 1, 1);
    check_step("spatial=3", 1, 1);
    check_step("spatial=2x2", 2, 2);
    check_step("data=2,spatial=2,stages=2", 4, 2);
    check_step("data=3", 3, 1);
    check_step("stages=3,microbatches=4", 4, 1);
    check_step("stages=3,microbatches=8,bidirectional", 8, 1);
    check_step("spatial=2,stages=2,microbatches=4,bidirectional", 8, 2);
    check_step("data=2,stages=2,microbatches=2", 8, 2);
}

/* The gradients of ranks that are processes: each sends its shares of all sums but its own to their
 * owners, and gets the others': about 2 (n - 1) / n of their bytes, whatever n is. */
static void no_rank_sends_more_than_its_share_of_the_gradients(void **state)
{
    static const char *const layouts[] = { "spatial=4", "spatial=4x4", "data=4",
                                           "data=4,spatial=4" };
    (void)state;
    const struct hrf_machine machine = machine_of(1e9);
    const struct hrf_cost_table costs = { .rates = machine.rates };
    HRF_AUTO(hrf_graph) graph = network(4, 128);
    int64_t weights = 0;
    for (int32_t v = 0; v < graph->n_values; v++)
        if (graph->values[v].data != NULL && graph->values[v].dtype == HRF_F32)
            weights += hrf_value_bytes(&graph->values[v]);
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        HRF_AUTO(hrf_planner) planner = NULL;
        HRF_AUTO(hrf_prediction) prediction = NULL;
        struct hrf_layout_plan layout;
        struct hrf_error err = { .status = HRF_OK };
        const struct hrf_planner_config planning = { .graph = graph,
                                                     .is_step = true,
                                                     .precision = HRF_FP32,
                                                     .costs = &costs,
                                                     .machine = &machine };
        assert_int_equal(hrf_layout_parse(layouts[i], &layout, NULL), HRF_OK);
        assert_int_equal(hrf_planner_create(&planning, &planner, NULL), HRF_OK);
        if (hrf_planner_predict(planner, &layout, &prediction, &err) != HRF_OK)
            fail_msg("%s: %s", layouts[i], err.text);
        const double n = prediction->n_ranks;
        for (int32_t r = 0; r < prediction->n_ranks; r++) {
            const double share = (double)prediction->simulation->ranks[r].sent_bytes /
                                 ((double)weights * 2 * (n - 1) / n);
            if (share < 0.8 || share > 1.2) /* halos and tensors that are not cut */
                fail_msg("%s: rank %d sends %.2f times its share", layouts[i], (int)r, share);
        }
    }
}

/* Nothing was measured: the back end is asked. */
static void weights_are_counted_as_kernels_hold_them_without_a_profile(void **state)
{
    static const enum hrf_precision precisions[] = { HRF_FP32, HRF_INT8 };
    (void)state;
    const struct hrf_machine machine = machine_of(1e9);
    const struct hrf_cost_table costs = { .rates = machine.rates };
    const struct hrf_layout_plan single = hrf_layout_single();
    HRF_AUTO(hrf_graph) graph = network(1, 64);
    struct hrf_made_ranges made = { .fused = NULL };
    assert_int_equal(hrf_made_ranges_init(graph, &made, NULL), HRF_OK);
    for (int i = 0; i < 2; i++) {
        HRF_AUTO(hrf_planner) planner = NULL;
        HRF_AUTO(hrf_prediction) prediction = NULL;
        HRF_AUTO(hrf_session) session = NULL;
        const struct hrf_planner_config planning = { .graph = graph,
                                                     .precision = precisions[i],
                                                     .costs = &costs,
                                                     .machine = &machine,
                                                     .device = "cpu" };
        const struct hrf_session_config config = { .device = "cpu",
                                                   .precision = precisions[i],
                                                   .ranges = made.ranges,
                                                   .n_ranges = made.n_ranges,
                                                   .n_threads = 1 };
        assert_int_equal(hrf_planner_create(&planning, &planner, NULL), HRF_OK);
        assert_int_equal(hrf_planner_predict(planner, &single, &prediction, NULL), HRF_OK);
        assert_int_equal(hrf_session_create(graph, &config, &session, NULL), HRF_OK);
        assert_int_equal(prediction->ranks[0].weight_bytes,
                         hrf_session_memory(session).weight_bytes);
    }
    hrf_made_ranges_release(&made);
}

/* Times of layouts of one network on a machine where computing is all that takes time. */
static double seconds_of(struct hrf_planner *planner, const char *text)
{
    struct hrf_layout_plan layout;
    HRF_AUTO(hrf_prediction) prediction = NULL;
    assert_int_equal(hrf_layout_parse(text, &layout, NULL), HRF_OK);
    assert_int_equal(hrf_planner_predict(planner, &layout, &prediction, NULL), HRF_OK);
    return prediction->seconds;
}

static void free_messages_give_the_speed_up_that_arithmetic_allows(void **state)
{
    (void)state;
    struct hrf_machine machine = machine_of(1e18);
    struct hrf_cost_table costs = { .rates = { .operations = { 1e11 }, .bytes = 1e18 } };
    HRF_AUTO(hrf_graph) graph = network(8, 256);
    HRF_AUTO(hrf_planner) planner = NULL;
    machine.copy_rate = 1e18;
    machine.links[0] = hrf_link_simple("loop", HRF_PLACEMENT_NODE, 0, 1e18);
    const struct hrf_planner_config planning = {
        .graph = graph, .precision = HRF_FP32, .costs = &costs, .machine = &machine
    };
    assert_int_equal(hrf_planner_create(&planning, &planner, NULL), HRF_OK);
    const double one = seconds_of(planner, "single");
    assert_true(fabs(one - hrf_planner_operations(planner) / 1e11) < 1e-6 * one);
    assert_true(fabs(one / seconds_of(planner, "data=4") - 4) < 1e-6);
    /* Rows divide evenly down to 8 at the end; the last layer is computed by both. */
    assert_true(fabs(one / seconds_of(planner, "spatial=2") - 2) < 1e-3);
    /* Halves of equal cost do not exist; the cut is within a node of it. */
    const double pipeline = one / seconds_of(planner, "stages=2,microbatches=8");
    assert_true(pipeline > 1.6 && pipeline < 16.0 / 9);
    /* Both ways, no rank waits for the first micro-batch. */
    assert_true(seconds_of(planner, "stages=2,microbatches=2,bidirectional") <
                0.85 * seconds_of(planner, "stages=2,microbatches=2"));
}

static void the_fastest_layout_that_fits_is_chosen(void **state)
{
    (void)state;
    const struct hrf_machine machine = machine_of(1e10);
    struct hrf_cost_table costs = { .rates = machine.rates };
    HRF_AUTO(hrf_graph) graph = network(8, 64);
    HRF_AUTO(hrf_graph) one = network(1, 64);
    HRF_AUTO(hrf_planner) planner = NULL;
    HRF_AUTO(hrf_planner) tight = NULL;
    HRF_AUTO(hrf_planner) single = NULL;
    HRF_AUTO(hrf_prediction) best = NULL;
    HRF_AUTO(hrf_prediction) small = NULL;
    HRF_AUTO(hrf_prediction) image = NULL;
    struct hrf_planner_config planning = {
        .graph = graph, .precision = HRF_FP32, .costs = &costs, .machine = &machine
    };
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_planner_create(&planning, &planner, NULL), HRF_OK);
    assert_int_equal(hrf_planner_choose(planner, 4, &best, NULL), HRF_OK);
    assert_int_equal(best->layout.data, 4); /* nothing to say to each other */
    /* Every rank of it holds all weights: 45 MB. */
    planning.memory_bytes = 30 << 20;
    assert_int_equal(hrf_planner_create(&planning, &tight, NULL), HRF_OK);
    assert_int_equal(hrf_planner_choose(tight, 4, &small, NULL), HRF_OK);
    assert_true(small->layout.stages > 1);
    assert_true(hrf_prediction_peak_bytes(small) <= 30 << 20);
    assert_true(small->seconds > best->seconds);
    planning.memory_bytes = 1 << 20;
    planning.graph = one;
    assert_int_equal(hrf_planner_create(&planning, &single, NULL), HRF_OK);
    assert_int_equal(hrf_planner_choose(single, 2, &image, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "no layout of 2 ranks keeps below 0.00 GiB a rank; stages=2"));
}

static void a_machine_with_too_few_ranks_is_named(void **state)
{
    (void)state;
    struct hrf_machine machine = machine_of(1e10);
    struct hrf_cost_table costs = { .rates = machine.rates };
    HRF_AUTO(hrf_graph) graph = network(1, 64);
    HRF_AUTO(hrf_planner) planner = NULL;
    HRF_AUTO(hrf_prediction) none = NULL;
    struct hrf_error err = { .status = HRF_OK };
    machine.n_nodes = 1;
    machine.ranks_per_node = 2;
    const struct hrf_planner_config planning = {
        .graph = graph, .precision = HRF_FP32, .costs = &costs, .machine = &machine
    };
    assert_int_equal(hrf_planner_create(&planning, &planner, NULL), HRF_OK);
    assert_int_equal(hrf_planner_choose(planner, 4, &none, &err), HRF_E_USER);
    assert_string_equal(err.text,
                        "4 ranks on machine 'm', which has room for 2 (1 nodes of 2): use fewer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ranks_hold_and_send_is_predicted_exactly),
        cmocka_unit_test(what_a_step_of_training_holds_and_sends_is_predicted_exactly),
        cmocka_unit_test(no_rank_sends_more_than_its_share_of_the_gradients),
        cmocka_unit_test(weights_are_counted_as_kernels_hold_them_without_a_profile),
        cmocka_unit_test(free_messages_give_the_speed_up_that_arithmetic_allows),
        cmocka_unit_test(the_fastest_layout_that_fits_is_chosen),
        cmocka_unit_test(a_machine_with_too_few_ranks_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
