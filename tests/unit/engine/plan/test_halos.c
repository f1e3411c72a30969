/* Halos by costs: where messages are dear they become fewer, where they are free nothing is
 * computed twice, and where they merely take their time the interior is computed meanwhile. */
#include "tests/unit/unit.h"

#include "engine/passes/passes.h"
#include "engine/plan/halos.h"
#include "engine/plan/plan.h"
#include "engine/plan/predict.h"
#include "tests/ops/build.h"

#include <math.h>
#include <string.h>

enum { CONVOLUTIONS = 5 };

/* 3x3 convolutions one after the other, of n images of `rows` rows. */
static struct hrf_graph *chain_of(int64_t n_images, int64_t rows)
{
    struct build b = build_start(1);
    int32_t y = build_input(&b, SHAPE(n_images, 3, rows, 16));
    for (int i = 0; i < CONVOLUTIONS; i++)
        y = build_plain_conv(&b, y, i == 0 ? 3 : 8, 8, 3, 1, true);
    y = build_unary(&b, HRF_OP_GLOBAL_AVERAGE_POOL, y);
    return build_finish(&b, &y, 1);
}

static struct hrf_graph *chain(int64_t rows)
{
    return chain_of(1, rows);
}

/* 10 MFLOPS: a row of 16 px of a convolution from 8 to 8 channels takes about 1.8 ms. */
static struct hrf_machine machine_of(double latency)
{
    struct hrf_machine m = {
        .name = "m",
        .ranks_per_node = 64,
        .ports_per_node = 1,
        .rates = { .operations = { 1e7, 1e7, 1e7, 1e7 }, .bytes = 1e12, .overhead = 1e-6 }
    };
    m.links[m.n_links++] = hrf_link_simple("loop", HRF_PLACEMENT_NODE, latency, 1e12);
    return m;
}

static struct hrf_partition *cut(const struct hrf_graph *graph, const char *text,
                                 const struct hrf_partition_options *options)
{
    struct hrf_layout_plan layout;
    struct hrf_partition *p = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_layout_parse(text, &layout, NULL), HRF_OK);
    if (hrf_partition_create(graph, &layout, options, &p, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return p;
}

static struct hrf_partition *choose(const struct hrf_graph *graph, const char *text, double latency)
{
    const struct hrf_machine machine = machine_of(latency);
    const struct hrf_cost_table costs = { .rates = machine.rates };
    struct hrf_partition *p = cut(graph, text, NULL);
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_halos_choose(&costs, &machine, &p, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return p;
}

static struct hrf_predicted_halos halos_of(const struct hrf_partition *p)
{
    const struct hrf_machine machine = machine_of(0);
    const struct hrf_cost_table costs = { .rates = machine.rates };
    HRF_AUTO(hrf_prediction) prediction = NULL;
    assert_int_equal(hrf_predict(p, 1, &costs, &machine, &prediction, NULL), HRF_OK);
    return prediction->halos;
}

static double seconds_of(const struct hrf_partition *p, double latency)
{
    const struct hrf_machine machine = machine_of(latency);
    const struct hrf_cost_table costs = { .rates = machine.rates };
    HRF_AUTO(hrf_prediction) prediction = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_predict(p, 1, &costs, &machine, &prediction, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return prediction->seconds;
}

static int32_t count_exchanges(const struct hrf_partition *p)
{
    return halos_of(p).n_exchanges;
}

static void free_messages_fuse_and_overlap_nothing(void **state)
{
    (void)state;
    struct hrf_graph *graph = chain(64);
    HRF_AUTO(hrf_partition) p = choose(graph, "spatial=4", 0);
    assert_int_equal(count_exchanges(p),
                     CONVOLUTIONS - 1); /* the first convolution is fed its halo */
    assert_int_equal(halos_of(p).n_fused, 0);
    assert_int_equal(halos_of(p).n_overlapped, 0);
    hrf_graph_destroy(graph);
}

static void dear_messages_become_fewer_and_then_none(void **state)
{
    (void)state;
    struct hrf_graph *graph = chain(64);
    int32_t n = CONVOLUTIONS - 1;
    for (double latency = 1e-4; latency < 100; latency *= 4) {
        HRF_AUTO(hrf_partition) p = choose(graph, "spatial=4", latency);
        assert_true(count_exchanges(p) <= n);
        n = count_exchanges(p);
    }
    assert_int_equal(n, 0);
    hrf_graph_destroy(graph);
}

static void slow_messages_are_hidden_behind_the_interior(void **state)
{
    (void)state;
    struct hrf_graph *graph = chain(64);
    const double latency = 3e-3; /* less than two rows take */
    HRF_AUTO(hrf_partition) p = choose(graph, "spatial=4", latency);
    HRF_AUTO(hrf_partition) plain = cut(graph, "spatial=4", NULL);
    assert_int_equal(halos_of(p).n_fused, 0);
    assert_int_equal(halos_of(p).n_overlapped, CONVOLUTIONS - 1);
    /* All of the waits but those of the sum at the end. */
    assert_true(seconds_of(plain, latency) - seconds_of(p, latency) >
                0.99 * (CONVOLUTIONS - 1) * latency);
    hrf_graph_destroy(graph);
}

/* A grid's ranks wait for columns, too, and a micro-batch's images lie one after the other. */
static void waits_are_hidden_in_grids_and_in_batches(void **state)
{
    (void)state;
    static const struct {
        const char *layout;
        int64_t n_images;
        double latency;
    } cases[] = { { "spatial=2x2", 1, 0.02 },
                  { "spatial=1x2", 1, 0.02 },
                  { "spatial=4", 3, 0.05 },
                  { "spatial=2x2", 2, 0.03 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hrf_graph *graph = chain_of(cases[i].n_images, 64);
        const double latency = cases[i].latency;
        HRF_AUTO(hrf_partition) plain = cut(graph, cases[i].layout, NULL);
        HRF_AUTO(hrf_partition) p = choose(graph, cases[i].layout, latency);
        assert_true(halos_of(p).n_overlapped > 0);
        const double hidden = seconds_of(plain, latency) - seconds_of(p, latency);
        if (hidden < 0.5 * (CONVOLUTIONS - 1) * latency)
            fail_msg("%s: %g of %g s hidden", cases[i].layout, hidden,
                     (CONVOLUTIONS - 1) * latency);
        hrf_graph_destroy(graph);
    }
}

/* Every set of values that could be computed twice, overlapped wherever there is an interior or
 * nowhere: none is predicted to be sooner than what was chosen. */
static void the_choice_is_as_good_as_the_best_of_all(void **state)
{
    (void)state;
    struct hrf_graph *graph = chain(40);
    bool recompute[64] = { false }, overlap[64];
    assert_true(graph->n_values <= 64 && graph->n_nodes <= 64);
    memset(overlap, true, sizeof overlap);
    for (double latency = 1e-3; latency < 1; latency *= 3) {
        HRF_AUTO(hrf_partition) chosen = choose(graph, "spatial=4", latency);
        double best = INFINITY;
        for (int set = 0; set < 1 << CONVOLUTIONS; set++) {
            for (int i = 0; i < CONVOLUTIONS; i++)
                recompute[graph->nodes[i].outputs[0]] = (set >> i & 1) != 0;
            for (int with = 0; with < 2; with++) {
                const struct hrf_partition_options options = { .recompute = recompute,
                                                               .overlap = with ? overlap : NULL };
                HRF_AUTO(hrf_partition) p = cut(graph, "spatial=4", &options);
                best = fmin(best, seconds_of(p, latency));
            }
        }
        assert_true(seconds_of(chosen, latency) <= 1.002 * best);
    }
    hrf_graph_destroy(graph);
}

/* Residual blocks are fused whole: what goes around them needs the wider halo too. */
static void halos_serve_more_than_one_residual_block(void **state)
{
    (void)state;
    struct build b = build_start(1);
    int32_t y = build_input(&b, SHAPE(1, 8, 64, 16));
    for (int i = 0; i < 3; i++) {
        int32_t z = build_plain_conv(&b, y, 8, 8, 3, 1, true);
        z = build_plain_conv(&b, z, 8, 8, 3, 1, true);
        y = build_binary(&b, HRF_OP_ADD, z, y);
    }
    y = build_unary(&b, HRF_OP_GLOBAL_AVERAGE_POOL, y);
    struct hrf_graph *graph = build_finish(&b, &y, 1);
    HRF_AUTO(hrf_partition) plain = cut(graph, "spatial=4", NULL);
    HRF_AUTO(hrf_partition) near = choose(graph, "spatial=4", 0.032);
    HRF_AUTO(hrf_partition) far = choose(graph, "spatial=4", 10);
    assert_int_equal(count_exchanges(plain), 5);
    assert_true(count_exchanges(near) < 5 && count_exchanges(near) > 0);
    assert_int_equal(count_exchanges(far), 0);
    hrf_graph_destroy(graph);
}

/* ---- plans ---- */

/* A rank of the chain, all of whose exchanges are overlapped. */
static struct hrf_plan *plan_of_rank(const char *layout, int32_t rank, struct hrf_graph *whole,
                                     struct hrf_graph **out, struct hrf_rank_map **map)
{
    struct hrf_plan *plan = NULL;
    HRF_AUTO(hrf_partition) p = cut(whole, layout, NULL);
    assert_int_equal(hrf_halos_choose(NULL, NULL, &p, NULL), HRF_OK);
    assert_int_equal(hrf_partition_graph(p, rank, out, map, NULL), HRF_OK);
    assert_int_equal(hrf_plan_create(*out, *map, &plan, NULL), HRF_OK);
    return plan;
}

static struct hrf_plan *plan_overlapped(struct hrf_graph *whole, struct hrf_graph **out,
                                        struct hrf_rank_map **map)
{
    return plan_of_rank("spatial=4,halos=overlap", 1, whole, out, map);
}

static void the_interior_comes_between_an_exchanges_begin_and_end(void **state)
{
    (void)state;
    struct hrf_graph *whole = chain(64), *graph = NULL;
    HRF_AUTO(hrf_rank_map) map = NULL;
    HRF_AUTO(hrf_plan) plan = plan_overlapped(whole, &graph, &map);
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_plan_check(plan, graph, &err) != HRF_OK)
        fail_msg("%s", err.text);
    static const struct hrf_step want[] = {
        { .kind = HRF_STEP_KERNEL, .node = 0, .part = HRF_PART_WHOLE },
        { .kind = HRF_STEP_BEGIN, .node = 1, .part = HRF_PART_WHOLE },
        { .kind = HRF_STEP_KERNEL, .node = 2, .part = HRF_PART_INTERIOR },
        { .kind = HRF_STEP_END, .node = 1, .part = HRF_PART_WHOLE },
        { .kind = HRF_STEP_KERNEL, .node = 2, .part = HRF_PART_FIRST },
        { .kind = HRF_STEP_KERNEL, .node = 2, .part = HRF_PART_LAST }
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        assert_int_equal(plan->steps[i].kind, want[i].kind);
        assert_int_equal(plan->steps[i].node, want[i].node);
        assert_int_equal(plan->steps[i].part, want[i].part);
    }
    const struct hrf_node *node = &graph->nodes[2]; /* 16 rows, one at each border waits */
    assert_int_equal(map->nodes[2].own.lo[0], 1);
    assert_int_equal(map->nodes[2].own.hi[0], 15);
    const struct hrf_box last = hrf_region_needed(graph, node, 0, &plan->steps[5].box);
    assert_int_equal(last.lo[0], 15); /* of 18: two own rows and the halo */
    assert_int_equal(last.hi[0], 18);
    assert_true(hrf_plan_is_as_before(plan, graph, 5));
    hrf_graph_destroy(graph);
    hrf_graph_destroy(whole);
}

static void refuses(const struct hrf_plan *plan, const struct hrf_graph *graph, const char *said)
{
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_plan_check(plan, graph, &err), HRF_E_BUG);
    if (strstr(err.text, said) == NULL)
        fail_msg("it says '%s'", err.text);
}

static void swap(struct hrf_plan *plan, int a, int b)
{
    const struct hrf_step step = plan->steps[a];
    plan->steps[a] = plan->steps[b];
    plan->steps[b] = step;
}

static void a_halo_that_is_read_before_its_exchange_ends_is_found(void **state)
{
    (void)state;
    struct hrf_graph *whole = chain(64), *graph = NULL;
    HRF_AUTO(hrf_rank_map) map = NULL;
    HRF_AUTO(hrf_plan) plan = plan_overlapped(whole, &graph, &map);
    swap(plan, 3, 4); /* an edge before the end */
    refuses(plan, graph, "still under way");
    swap(plan, 3, 4);
    plan->steps[2].box.hi[0]++; /* an interior one row too high */
    refuses(plan, graph, "still under way");
    plan->steps[2].box.hi[0]--;
    swap(plan, 1, 3); /* the end before the beginning */
    refuses(plan, graph, "not under way");
    swap(plan, 1, 3);
    assert_int_equal(hrf_plan_check(plan, graph, NULL), HRF_OK);
    hrf_graph_destroy(graph);
    hrf_graph_destroy(whole);
}

/* The middle one of 3 x 3 ranks: it waits on every side. */
static void an_interior_with_sides_is_covered_by_four_edges(void **state)
{
    (void)state;
    struct hrf_graph *whole = chain_of(2, 48), *graph = NULL;
    HRF_AUTO(hrf_rank_map) map = NULL;
    HRF_AUTO(hrf_plan) plan = plan_of_rank("spatial=3x3,halos=overlap", 4, whole, &graph, &map);
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_plan_check(plan, graph, &err) != HRF_OK)
        fail_msg("%s", err.text);
    static const enum hrf_part parts[] = { HRF_PART_FIRST, HRF_PART_LAST, HRF_PART_LEFT,
                                           HRF_PART_RIGHT };
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(plan->steps[4 + i].part, parts[i]);
    const struct hrf_node *node = &graph->nodes[2];
    struct hrf_box *own = &map->nodes[2].own;
    assert_int_equal(own->lo[0], 1); /* of 16 rows and, as columns do not divide, 5 columns */
    assert_int_equal(own->hi[0], 15);
    assert_int_equal(own->lo[1], 1);
    assert_int_equal(own->hi[1], 4);
    const struct hrf_box left = hrf_region_needed(graph, node, 0, &plan->steps[6].box);
    assert_int_equal(left.lo[0], 1); /* of 18 x 7 */
    assert_int_equal(left.hi[0], 17);
    assert_int_equal(left.lo[1], 0);
    assert_int_equal(left.hi[1], 3);
    assert_true(hrf_plan_is_as_before(plan, graph, 7));
    /* 16 x 3 pixels of 8 channels in, 14 x 1 out, of two images. */
    int64_t copied;
    assert_true(hrf_part_copies(graph, node, HRF_PART_LEFT, &plan->steps[6].box, &copied) <=
                plan->copy_bytes);
    assert_int_equal(copied, 2 * (16 * 3 + 14) * 8 * 4);
    /* Planted: a column that is not there yet, and an edge that nobody computes. */
    own->hi[1]++;
    refuses(plan, graph, "still under way");
    own->hi[1]--;
    plan->steps[7].part = HRF_PART_LEFT;
    refuses(plan, graph, "which is gone");
    hrf_graph_destroy(graph);
    hrf_graph_destroy(whole);
}

/* What the interior writes beside itself, the sides compute again: their residual must last. */
static void a_residual_outlives_an_interior_with_sides(void **state)
{
    (void)state;
    struct build b = build_start(1);
    int32_t y = build_input(&b, SHAPE(1, 8, 32, 32));
    y = build_plain_conv(&b, y, 8, 8, 3, 1, true);
    const int32_t z = build_plain_conv(&b, build_plain_conv(&b, y, 8, 8, 3, 1, true), 8, 8, 3, 1,
                                       true);
    y = build_unary(&b, HRF_OP_RELU, build_binary(&b, HRF_OP_ADD, z, y));
    y = build_unary(&b, HRF_OP_GLOBAL_AVERAGE_POOL, y);
    struct hrf_graph *whole = build_finish(&b, &y, 1);
    assert_int_equal(hrf_passes_run(whole, NULL), HRF_OK);
    static const char *const layouts[] = { "spatial=2,halos=overlap", "spatial=1x2,halos=overlap" };
    for (int i = 0; i < 2; i++) {
        struct hrf_graph *graph = NULL;
        HRF_AUTO(hrf_rank_map) map = NULL;
        HRF_AUTO(hrf_plan) plan = plan_of_rank(layouts[i], 0, whole, &graph, &map);
        assert_int_equal(hrf_plan_check(plan, graph, NULL), HRF_OK);
        int n_found = 0;
        for (int32_t n = 0; n < graph->n_nodes; n++) {
            const struct hrf_node *node = &graph->nodes[n];
            if (node->op != HRF_OP_CONV || node->n_inputs <= HRF_CONV_RESIDUAL ||
                node->inputs[HRF_CONV_RESIDUAL] < 0)
                continue;
            n_found++;
            const struct hrf_box all = hrf_box_whole(&graph->values[node->outputs[0]].shape);
            assert_false(hrf_box_is_empty(&map->nodes[n].own));
            assert_int_equal(hrf_part_has_sides(&all, &map->nodes[n].own), i == 1);
            assert_int_equal(hrf_plan_may_overwrite(graph, map, n, HRF_CONV_RESIDUAL), i == 0);
        }
        assert_int_equal(n_found, 1);
        hrf_graph_destroy(graph);
    }
    hrf_graph_destroy(whole);
}

/* ---- the messages of all ranks ---- */

struct ranks {
    struct hrf_graph *graphs[4];
    struct hrf_rank_map *maps[4];
    struct hrf_plan *plans[4];
};

static struct ranks plan_all(const char *layout, struct hrf_graph *whole)
{
    struct ranks all = { .plans = { NULL } };
    for (int32_t r = 0; r < 4; r++)
        all.plans[r] = plan_of_rank(layout, r, whole, &all.graphs[r], &all.maps[r]);
    return all;
}

static void release_all(struct ranks *all)
{
    for (int r = 0; r < 4; r++) {
        hrf_plan_destroy(all->plans[r]);
        hrf_rank_map_destroy(all->maps[r]);
        hrf_graph_destroy(all->graphs[r]);
    }
}

/* The transfer of that kind, `n` of them further on, of rank 1. */
static struct hrf_transfer *find(struct ranks *all, enum hrf_transfer_kind kind, int n)
{
    struct hrf_plan *plan = all->plans[1];
    for (int32_t i = 0; i < plan->n_transfers; i++)
        if (plan->transfers[i].kind == kind && n-- == 0)
            return &plan->transfers[i];
    fail_msg("rank 1 has too few transfers of kind %d", kind);
    return NULL;
}

static void messages_refused(struct ranks *all, const char *said)
{
    struct hrf_error err = { .status = HRF_OK };
    const struct hrf_plan *plans[4];
    for (int r = 0; r < 4; r++)
        plans[r] = all->plans[r];
    assert_int_equal(hrf_transfers_check(plans, 4, &err), said != NULL ? HRF_E_BUG : HRF_OK);
    if (said != NULL && strstr(err.text, said) == NULL)
        fail_msg("it says '%s'", err.text);
}

static void a_wrong_tag_size_or_order_of_a_message_is_named(void **state)
{
    (void)state;
    static const char *const layouts[] = { "spatial=4,halos=overlap", "spatial=2x2,halos=plain" };
    struct hrf_graph *whole = chain(64);
    for (int i = 0; i < 2; i++) {
        struct ranks all = plan_all(layouts[i], whole);
        messages_refused(&all, NULL);
        struct hrf_transfer *t = find(&all, HRF_TRANSFER_SEND, 0);
        t->tag += 2; /* of another exchange */
        messages_refused(&all, "that nobody sends");
        t->tag -= 2;
        t->peer ^= 2; /* to another rank, which takes another message for it or leaves it */
        messages_refused(&all, "rank ");
        t->peer ^= 2;
        t->from.n_rows++;
        messages_refused(&all, " sends ");
        t->from.n_rows += 99;
        refuses(all.plans[1], all.graphs[1], "is not of its tensors");
        t->from.n_rows -= 100;
        /* Rank 1 waits for its second exchange before it gives what the first one needs. */
        struct hrf_transfer *later = find(&all, HRF_TRANSFER_RECEIVE, 4), first = *t;
        *t = *later;
        *later = first;
        messages_refused(&all, "that nobody sends");
        *later = *t;
        *t = first;
        t = find(&all, HRF_TRANSFER_RECEIVE, 0);
        first = *t;
        t->kind = HRF_TRANSFER_EXPECT; /* and never receives it */
        messages_refused(&all, "never takes a message");
        refuses(all.plans[1], all.graphs[1], i == 0 ? "bytes of" : "is not of its tensors");
        *t = first;
        assert_int_equal(hrf_plan_check(all.plans[1], all.graphs[1], NULL), HRF_OK);
        messages_refused(&all, NULL);
        release_all(&all);
    }
    hrf_graph_destroy(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_are_hidden_in_grids_and_in_batches),
        cmocka_unit_test(an_interior_with_sides_is_covered_by_four_edges),
        cmocka_unit_test(a_residual_outlives_an_interior_with_sides),
        cmocka_unit_test(free_messages_fuse_and_overlap_nothing),
        cmocka_unit_test(dear_messages_become_fewer_and_then_none),
        cmocka_unit_test(slow_messages_are_hidden_behind_the_interior),
        cmocka_unit_test(the_choice_is_as_good_as_the_best_of_all),
        cmocka_unit_test(halos_serve_more_than_one_residual_block),
        cmocka_unit_test(the_interior_comes_between_an_exchanges_begin_and_end),
        cmocka_unit_test(a_halo_that_is_read_before_its_exchange_ends_is_found),
        cmocka_unit_test(a_wrong_tag_size_or_order_of_a_message_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
