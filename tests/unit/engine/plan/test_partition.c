/* Layouts, what a part needs, and who gets it from whom, by value; and that faults are found. */
#include "tests/unit/refusal_text.h"
#include "tests/unit/unit.h"

#include "engine/plan/bands.h"
#include "engine/plan/line_cache.h"
#include "engine/plan/partition.h"
#include "engine/plan/plan.h"
#include "engine/plan/schedule.h"
#include "tests/ops/build.h"

#include <math.h>
#include <string.h>

static struct hrf_box rows(int64_t lo, int64_t hi, int64_t columns)
{
    return (struct hrf_box){ { lo, 0 }, { hi, columns } };
}

static void check_box(struct hrf_box a, struct hrf_box b)
{
    if (!hrf_box_equal(&a, &b))
        fail_msg("rows %d..%d, columns %d..%d, not rows %d..%d, columns %d..%d", (int)a.lo[0],
                 (int)a.hi[0], (int)a.lo[1], (int)a.hi[1], (int)b.lo[0], (int)b.hi[0], (int)b.lo[1],
                 (int)b.hi[1]);
}

/* ---- layouts ---- */

static void refused(const char *layout, const char *said)
{
    struct hrf_layout_plan plan;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_layout_parse(layout, &plan, &err), HRF_E_USER);
    if (strstr(err.text, said) == NULL)
        fail_msg("of '%s' it says '%s'", layout, err.text);
}

static void a_layout_is_read_and_what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct hrf_layout_plan l;
    assert_int_equal(
        hrf_layout_parse("data=2,spatial=3x4,stages=5,microbatches=6,bidirectional", &l, NULL),
        HRF_OK);
    assert_int_equal(hrf_layout_ranks(&l), 2 * 3 * 4 * 5);
    assert_true(l.bidirectional && l.microbatches == 6);
    assert_int_equal(hrf_layout_parse("single", &l, NULL), HRF_OK);
    assert_int_equal(hrf_layout_ranks(&l), 1);
    assert_int_equal(hrf_layout_parse("spatial=2,halos=overlap", &l, NULL), HRF_OK);
    char text[128];
    hrf_layout_text(&l, text);
    assert_string_equal(text, "spatial=2,halos=overlap");
    assert_int_equal(hrf_layout_parse("bands=keep", &l, NULL), HRF_OK);
    hrf_layout_text(&l, text);
    assert_string_equal(text, "bands=keep");
    assert_int_equal(l.bands, HRF_BANDS_KEEP);
    refused("bands=all", "bands=auto, keep or recompute");
    refused("spatial=2,bands=keep", "has 2 ranks, and bands are for one");
    refused("halos=wide", "halos=auto, plain or overlap");
    refused("spatial=2,attention=star", "attention=auto, gather or ring");
    refused("stages=2,attention=ring", "needs spatial=2 or more");
    refused("spatial=0", "'spatial=0' is not a part");
    refused("rows=2", "'rows=2' is not a part");
    refused("spatial=2x", "'spatial=2x' is not a part");
    refused("data=1024,stages=2", "1024 are the most");
    refused("tensor=0", "tensor=N");
    refused("spatial=64,tensor=32", "has 2048 ranks");
    assert_int_equal(hrf_layout_parse("tensor=3,stages=2,data=2", &l, NULL), HRF_OK);
    assert_int_equal(hrf_layout_ranks(&l), 12);
    hrf_layout_text(&l, text);
    assert_string_equal(text, "data=2,tensor=3,stages=2");
    refused("spatial=2,data=2,spatial=3", "'spatial' is given twice");
    refused("bidirectional,microbatches=2", "needs stages=2");
    refused("stages=2,microbatches=3,bidirectional", "4 would be right");
    refused("microbatches=8", "add stages=4");
}

/* ---- needs ---- */

/* y of a 3x3 window with stride 2 and padding 1 over 10 rows: 5 rows. */
static struct hrf_graph *strided(void)
{
    struct build b = build_start(1);
    int32_t y = build_input(&b, SHAPE(1, 2, 10, 6));
    y = build_plain_conv(&b, y, 2, 4, 3, 2, true);
    return build_finish(&b, &y, 1);
}

static void a_window_needs_the_rows_under_it_and_pads_only_at_the_border(void **state)
{
    (void)state;
    struct hrf_graph *graph = strided();
    const struct hrf_node *node = &graph->nodes[0];
    const struct hrf_box first = rows(0, 2, 3), middle = rows(2, 4, 3), last = rows(4, 5, 3);
    check_box(hrf_region_needed(graph, node, 0, &first), rows(0, 4, 6));  /* -1 .. 3 */
    check_box(hrf_region_needed(graph, node, 0, &middle), rows(3, 8, 6)); /* 3 .. 7 */
    check_box(hrf_region_needed(graph, node, 0, &last), rows(7, 10, 6));  /* 7 .. 9 */
    assert_int_equal(hrf_region_attributes(graph, node, &first).window.pad_begin[0], 1);
    assert_int_equal(hrf_region_attributes(graph, node, &first).window.pad_end[0], 0);
    assert_int_equal(hrf_region_attributes(graph, node, &middle).window.pad_begin[0], 0);
    assert_int_equal(hrf_region_attributes(graph, node, &last).window.pad_end[0], 0);
    const struct hrf_box more = rows(3, 9, 6), need = rows(3, 8, 6);
    assert_true(hrf_region_suits(node, 0, &more, &need)); /* the stride steps over row 8 */
    const struct hrf_box too_many = rows(3, 10, 6);
    assert_false(hrf_region_suits(node, 0, &too_many, &need));
    hrf_graph_destroy(graph);
}

/* ---- partitions ---- */

static struct hrf_graph *two_convolutions(void)
{
    struct build b = build_start(1);
    int32_t y = build_input(&b, SHAPE(1, 2, 8, 5));
    y = build_plain_conv(&b, y, 2, 4, 3, 1, true);
    y = build_plain_conv(&b, y, 4, 4, 3, 1, true);
    y = build_unary(&b, HRF_OP_GLOBAL_AVERAGE_POOL, y);
    return build_finish(&b, &y, 1);
}

static struct hrf_partition *cut(const struct hrf_graph *graph, const char *text)
{
    struct hrf_layout_plan layout;
    struct hrf_partition *p = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_layout_parse(text, &layout, &err), HRF_OK);
    if (hrf_partition_create(graph, &layout, NULL, &p, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return p;
}

static void two_ranks_swap_one_row_and_add_up_their_sums(void **state)
{
    (void)state;
    struct hrf_graph *graph = two_convolutions();
    struct hrf_partition *p = cut(graph, "spatial=2");
    check_box(*hrf_partition_box(p, graph->inputs[0], 0), rows(0, 5, 5)); /* fed with the halo */
    check_box(*hrf_partition_box(p, graph->inputs[0], 1), rows(3, 8, 5));
    assert_int_equal(p->n_exchanges, 1); /* between the convolutions */
    check_box(hrf_exchange_sent(&p->exchanges[0], 0, 1), rows(3, 4, 5));
    check_box(hrf_exchange_sent(&p->exchanges[0], 1, 0), rows(4, 5, 5));
    const struct hrf_box row = rows(3, 4, 5);
    assert_int_equal(hrf_exchange_bytes(&p->exchanges[0], &row), 5 * 4 * (int)sizeof(float));
    assert_int_equal(p->n_reduces, 1);
    assert_true(p->reduces[0].gives[0] && p->reduces[0].gives[1]);
    assert_int_equal(p->output_rank, 0);
    hrf_partition_destroy(p);
    hrf_graph_destroy(graph);
}

/* The rows that a rank owns are computed where the exchange wants them. */
static void an_exchange_costs_its_own_rows_only(void **state)
{
    (void)state;
    struct hrf_graph *graph = two_convolutions(), *part = NULL;
    struct hrf_partition *p = cut(graph, "spatial=2");
    struct hrf_plan *plan = NULL;
    HRF_AUTO(hrf_rank_map) map = NULL;
    assert_int_equal(hrf_partition_graph(p, 1, &part, &map, NULL), HRF_OK);
    assert_int_equal(hrf_plan_create(part, map, &plan, NULL), HRF_OK);
    assert_int_equal(hrf_plan_check(plan, part, NULL), HRF_OK);
    for (int32_t n = 0; n < part->n_nodes; n++) {
        const struct hrf_node *node = &part->nodes[n];
        if (node->op != HRF_OP_EXCHANGE)
            continue;
        assert_int_equal(plan->buffer_of[node->inputs[0]], plan->buffer_of[node->outputs[0]]);
        assert_int_equal(plan->offset_in_buffer[node->inputs[0]], 5 * 4 * (int)sizeof(float));
    }
    hrf_plan_destroy(plan);
    hrf_graph_destroy(part);
    hrf_partition_destroy(p);
    hrf_graph_destroy(graph);
}

static void planted_faults_are_found(void **state)
{
    (void)state;
    struct hrf_graph *graph = two_convolutions();
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_partition *p = cut(graph, "spatial=2");
    struct hrf_exchange *x = &p->exchanges[0];
    x->have[1].lo[0]++; /* a halo that is one row short */
    assert_int_equal(hrf_partition_check(p, &err), HRF_E_BUG);
    assert_non_null(strstr(err.text, "needs"));
    x->have[1].lo[0] -= 2; /* a row that two ranks give */
    assert_int_equal(hrf_partition_check(p, &err), HRF_E_BUG);
    x->have[1].lo[0]++;
    assert_int_equal(hrf_partition_check(p, &err), HRF_OK);
    p->reduces[0].n = 3; /* a rank that is not there */
    assert_int_equal(hrf_partition_check(p, &err), HRF_E_BUG);
    hrf_partition_destroy(p);
    hrf_graph_destroy(graph);
}

static void more_stages_than_nodes_are_refused_with_what_would_do(void **state)
{
    (void)state;
    struct hrf_graph *graph = two_convolutions();
    struct hrf_layout_plan layout = hrf_layout_single();
    struct hrf_partition *p = NULL;
    struct hrf_error err = { .status = HRF_OK };
    layout.stages = 9;
    assert_int_equal(hrf_partition_create(graph, &layout, NULL, &p, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "stages=3"));
    hrf_graph_destroy(graph);
}

static void a_ring_without_long_attention_is_refused(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) graph = two_convolutions();
    HRF_AUTO(hrf_partition) p = NULL;
    struct hrf_layout_plan layout;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_layout_parse("spatial=2,attention=ring", &layout, NULL), HRF_OK);
    assert_int_equal(hrf_partition_create(graph, &layout, NULL, &p, &err), HRF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "more than 4096 tokens"));
}

/* ---- pipeline slots ---- */

static void both_directions_keep_both_ranks_busy(void **state)
{
    (void)state;
    struct hrf_layout_plan both;
    struct hrf_pipeline_slot slots[4];
    assert_int_equal(hrf_layout_parse("stages=2,microbatches=4,bidirectional", &both, NULL),
                     HRF_OK);
    hrf_schedule(&both, 0, slots);
    int n_mirrored = 0;
    for (int i = 0; i < 4; i++)
        n_mirrored += slots[i].is_mirrored;
    assert_int_equal(n_mirrored, 2);
    assert_false(slots[0].is_mirrored); /* the first rank begins its own pipeline ... */
    hrf_schedule(&both, 1, slots);
    assert_true(slots[0].is_mirrored); /* ... and the last one the other */
}

/* Every backward pass follows its forward pass, in the same arena of its pipeline, which no other
 * micro-batch has in between; as few are in flight as there are stages from this one on, and each
 * pipeline keeps the order of its micro-batches. */
static void check_training(const struct hrf_layout_plan *l, int32_t position)
{
    struct hrf_pipeline_slot slots[2 * 9];
    int32_t n_arenas[2], holder[2][9] = { { 0 } }, n_forward[2] = { 0 }, n_backward[2] = { 0 };
    const int32_t n = hrf_schedule_training(l, position, slots, n_arenas);
    const int32_t of_pipeline = l->bidirectional ? l->microbatches / 2 : l->microbatches;
    const int32_t left[2] = { l->stages - position, position + 1 };
    assert_int_equal(n, 2 * l->microbatches);
    for (int i = 0; i < 1 + l->bidirectional; i++)
        assert_int_equal(n_arenas[i], left[i] < of_pipeline ? left[i] : of_pipeline);
    n_forward[1] = n_backward[1] = of_pipeline;
    for (int32_t i = 0; i < n; i++) {
        const struct hrf_pipeline_slot *s = &slots[i];
        const int of = s->is_mirrored;
        assert_true(l->bidirectional || !of);
        assert_true(s->arena >= 0 && s->arena < n_arenas[of]);
        if (s->part == HRF_SLOT_FORWARD) {
            assert_int_equal(s->microbatch, n_forward[of]++);
            assert_int_equal(holder[of][s->arena], 0);
            holder[of][s->arena] = 1 + s->microbatch;
        } else {
            assert_int_equal(s->part, HRF_SLOT_BACKWARD);
            assert_int_equal(s->microbatch, n_backward[of]++);
            assert_int_equal(holder[of][s->arena], 1 + s->microbatch);
            holder[of][s->arena] = 0;
        }
    }
}

static void no_stage_holds_more_micro_batches_than_there_are_stages(void **state)
{
    (void)state;
    for (int32_t stages = 2; stages <= 5; stages++)
        for (int32_t microbatches = 2; microbatches <= 9; microbatches++)
            for (int32_t position = 0; position < stages; position++) {
                struct hrf_layout_plan l = hrf_layout_single();
                l.stages = stages;
                l.microbatches = microbatches;
                check_training(&l, position);
                l.bidirectional = true;
                if (microbatches % 2 == 0)
                    check_training(&l, position);
            }
}

/* ---- bands ---- */

static void bands_take_less_memory_and_say_what_they_compute_twice(void **state)
{
    (void)state;
    struct build b = build_start(1);
    int32_t y = build_input(&b, SHAPE(1, 3, 256, 64));
    for (int i = 0; i < 4; i++)
        y = build_plain_conv(&b, y, i == 0 ? 3 : 16, 16, 3, 1, true);
    y = build_unary(&b, HRF_OP_GLOBAL_AVERAGE_POOL, y);
    struct hrf_graph *graph = build_finish(&b, &y, 1);
    struct hrf_plan *whole = NULL;
    struct hrf_bands_plan plan;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_plan_create(graph, NULL, &whole, NULL), HRF_OK);
    struct hrf_bands_options options = { .limit_bytes = whole->arena_bytes / 4,
                                         .rows = HRF_BANDS_RECOMPUTE };
    assert_int_equal(hrf_bands_choose(graph, &options, &plan, &err), HRF_OK);
    assert_true(plan.activation_bytes <= whole->arena_bytes / 4);
    assert_true(plan.n_bands > 4 && plan.recomputed > 1 && plan.recomputed < 1.5);
    assert_int_equal(plan.cut, 4); /* of the last convolution only sums cross */
    options.limit_bytes = 1000;
    assert_int_equal(hrf_bands_choose(graph, &options, &plan, &err), HRF_E_NOMEM);
    assert_true(check_has_remedy(err.text));
    assert_non_null(strstr(err.text, "even"));
    hrf_plan_destroy(whole);
    hrf_graph_destroy(graph);
}

/* A graph that is broken is no reason to look for another cut. */
static void an_error_ends_the_search_for_bands(void **state)
{
    (void)state;
    struct build b = build_start(1);
    int32_t y = build_input(&b, SHAPE(1, 3, 256, 64));
    for (int i = 0; i < 4; i++)
        y = build_plain_conv(&b, y, i == 0 ? 3 : 16, 16, 3, 1, true);
    y = build_unary(&b, HRF_OP_GLOBAL_AVERAGE_POOL, y);
    HRF_AUTO(hrf_graph) graph = build_finish(&b, &y, 1);
    const struct hrf_bands_options options = { .rows = HRF_BANDS_RECOMPUTE };
    struct hrf_bands_plan plan;
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_value *weights = &graph->values[graph->nodes[3].inputs[HRF_CONV_WEIGHTS]];
    const enum hrf_dtype type = weights->dtype;
    weights->dtype = HRF_DTYPE_NONE;
    assert_int_equal(hrf_bands_choose(graph, &options, &plan, &err), HRF_E_BUG);
    assert_non_null(strstr(err.text, "has no type"));
    weights->dtype = type;
    assert_int_equal(hrf_bands_choose(graph, &options, &plan, &err), HRF_OK);
}

/* 256 rows of 64 pixels and 16 channels; 2 * 64 * 16 * 16 * 9 operations a row and convolution. */
static struct hrf_graph *three_convolutions(void)
{
    struct build b = build_start(1);
    int32_t y = build_input(&b, SHAPE(1, 16, 256, 64));
    for (int i = 0; i < 3; i++)
        y = build_plain_conv(&b, y, 16, 16, 3, 1, true);
    y = build_unary(&b, HRF_OP_GLOBAL_AVERAGE_POOL, y);
    return build_finish(&b, &y, 1);
}

/* A reduction over rows is the first node: there is no cut before it. */
static void a_network_without_a_cut_is_refused_by_node(void **state)
{
    (void)state;
    struct build b = build_start(3);
    struct hrf_attributes a = hrf_attributes_default();
    const int32_t x = build_input(&b, SHAPE(1, 4, 16, 8));
    a.keep_dims = true;
    a.n_axes = 1;
    a.axes[0] = 2;
    const int32_t most = build_node(&b, HRF_OP_REDUCE_MAX, &x, 1, &a);
    const int32_t y = build_unary(&b, HRF_OP_RELU, most);
    struct hrf_graph *graph = build_finish(&b, &y, 1);
    const struct hrf_bands_options options = { .limit_bytes = 1000 };
    struct hrf_bands_plan plan;
    struct hrf_error err = { .status = HRF_OK };
    const enum hrf_status status = hrf_bands_choose(graph, &options, &plan, &err);
    assert_int_equal(status, HRF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "(ReduceMax), which needs all of its input"));
    check_refusal_text("bands", status, graph, err.text);
    hrf_graph_destroy(graph);
}

/* 256 rows in 4 bands, two convolutions of 3x3 before the one whose rows are shared out: a band in
 * the middle computes 68, 66 and 64 rows of them, one at an end 66, 65 and 64. */
static void bands_are_predicted_to_the_row(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) graph = three_convolutions();
    struct hrf_cost_table costs = { .rates = { .operations = { 1e9 }, .bytes = 1e18 } };
    struct hrf_bands_prediction p;
    struct hrf_bands_plan plan;
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_bands_options options = { .n_bands = 4,
                                         .rows = HRF_BANDS_RECOMPUTE,
                                         .costs = &costs };
    assert_int_equal(hrf_bands_predict(graph, &options, &p, &err), HRF_OK);
    assert_int_equal(hrf_bands_choose(graph, &options, &plan, &err), HRF_OK);
    assert_true(plan.cut == p.plan.cut && plan.n_bands == p.plan.n_bands &&
                plan.activation_bytes == p.plan.activation_bytes);
    assert_int_equal(p.plan.cut, 3); /* of the last convolution only sums cross */
    assert_int_equal(p.memory.n_kinds, 3);
    const double a_row = 2.0 * 64 * 16 * 16 * 9;
    const double rows = 2 * (68 + 66 + 64) + 2 * (66 + 65 + 64);
    assert_true(fabs(p.plan.recomputed - rows / (3 * 256)) < 1e-9);
    assert_true(fabs(p.seconds - rows * a_row / 1e9) < 1e-9);
    /* The image's 70 rows and two results; later rows fit where earlier ones were. */
    const int64_t row = 64 * 16 * (int64_t)sizeof(float);
    assert_true(p.memory.activation_bytes >= (70 + 68) * row &&
                p.memory.activation_bytes < (70 + 68 + 2) * row);
    assert_int_equal(p.memory.weight_bytes, 3 * 3 * (16 * 16 * 9 + 16) * (int64_t)sizeof(float));
    /* What weights take, activations do not get: more bands than for activations alone. */
    const int64_t limit = p.memory.activation_bytes + p.memory.weight_bytes - 1;
    options.limit_bytes = limit;
    options.n_bands = 0;
    assert_int_equal(hrf_bands_predict(graph, &options, &p, &err), HRF_OK);
    assert_true(p.plan.n_bands > 4);
    assert_true(p.memory.activation_bytes + p.memory.weight_bytes + p.memory.workspace_bytes <=
                limit);
    options.limit_bytes = p.memory.weight_bytes;
    options.n_bands = 4;
    assert_int_equal(hrf_bands_predict(graph, &options, &p, &err), HRF_E_NOMEM);
    options.costs = &(struct hrf_cost_table){ .entries = NULL };
    options.limit_bytes = 0;
    assert_int_equal(hrf_bands_predict(graph, &options, &p, &err), HRF_E_USER); /* no rates */
}

/* The same in 4 bands that keep rows: of each convolution's input the last two rows, once. Bands
 * are fed 64 rows each; the first one makes a row less of every value after another window, the
 * last one what is left. */
static void bands_that_keep_rows_are_predicted_to_the_row(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) graph = three_convolutions();
    struct hrf_cost_table costs = { .rates = { .operations = { 1e9 }, .bytes = 1e18 } };
    struct hrf_bands_options options = { .n_bands = 4, .rows = HRF_BANDS_KEEP, .costs = &costs };
    struct hrf_bands_prediction p;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_bands_predict(graph, &options, &p, &err), HRF_OK);
    assert_true(p.plan.keeps && p.plan.cut == 3 && p.memory.n_kinds == 3);
    const int64_t row = 64 * 16 * (int64_t)sizeof(float);
    assert_int_equal(p.plan.line_cache_bytes, 3 * 2 * row);
    assert_true(fabs(p.plan.recomputed - 1) < 1e-12);
    assert_true(fabs(p.seconds - 2.0 * 64 * 16 * 16 * 9 * 3 * 256 / 1e9) < 1e-9);
    /* Two rows and 64 before a convolution, 64 after it, which the last band has 67 of. */
    assert_true(p.memory.activation_bytes >= p.plan.line_cache_bytes + (66 + 66) * row &&
                p.memory.activation_bytes <= p.plan.line_cache_bytes + (69 + 69) * row);
    /* What is free is taken where costs do not tell them apart; where rows are many, those kept. */
    options.rows = HRF_BANDS_AUTO;
    assert_int_equal(hrf_bands_predict(graph, &options, &p, &err), HRF_OK);
    assert_true(p.plan.keeps);
    costs.rates.bytes = 1e3; /* to copy a row takes longer than to compute it */
    assert_int_equal(hrf_bands_predict(graph, &options, &p, &err), HRF_OK);
    assert_false(p.plan.keeps);
}

static struct hrf_partition *keep_rows(const struct hrf_graph *head, int32_t n_bands)
{
    struct hrf_partition *p = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_bands_partition(head, n_bands, true, &p, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return p;
}

/* A sum of a value and of two windows of it: the value is two rows ahead. */
static void faults_of_kept_rows_are_found(void **state)
{
    (void)state;
    struct build b = build_start(1);
    const int32_t x = build_input(&b, SHAPE(1, 16, 64, 16));
    const int32_t u = build_plain_conv(&b, x, 16, 16, 3, 1, true);
    int32_t y = build_plain_conv(&b, build_plain_conv(&b, u, 16, 16, 3, 1, true), 16, 16, 3, 1,
                                 true);
    y = build_binary(&b, HRF_OP_ADD, u, y);
    HRF_AUTO(hrf_graph) graph = build_finish(&b, &y, 1);
    HRF_AUTO(hrf_partition) p = keep_rows(graph, 4);
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(p->n_cached, 3);
    assert_int_equal(hrf_line_cache_check(p, &err), HRF_OK);
    for (int32_t i = 0; i < p->n_cached; i++) {
        p->cached[i].lo[1]++; /* a kept row too few */
        assert_int_equal(hrf_line_cache_check(p, &err), HRF_E_BUG);
        assert_non_null(strstr(err.text, "was not kept"));
        p->cached[i].lo[1]--;
        p->cached[i].n_rows--; /* room for a row less */
        assert_int_equal(hrf_line_cache_check(p, &err), HRF_E_BUG);
        assert_non_null(strstr(err.text, "room for"));
        p->cached[i].n_rows++;
    }
    p->cached[1].offset -= HRF_LINE_CACHE_ALIGNMENT; /* into the one before it */
    assert_int_equal(hrf_line_cache_check(p, &err), HRF_E_BUG);
    assert_non_null(strstr(err.text, "run over others"));
    p->cached[1].offset += HRF_LINE_CACHE_ALIGNMENT;
    assert_int_equal(hrf_partition_check(p, &err), HRF_OK);
}

static struct hrf_plan *plan_of_band(const struct hrf_partition *p, int32_t band,
                                     struct hrf_graph **graph, struct hrf_rank_map **map)
{
    struct hrf_plan *plan = NULL;
    assert_int_equal(hrf_partition_graph(p, band, graph, map, NULL), HRF_OK);
    assert_int_equal(hrf_plan_create(*graph, *map, &plan, NULL), HRF_OK);
    assert_int_equal(hrf_plan_check(plan, *graph, NULL), HRF_OK);
    return plan;
}

static bool is_same_area(const struct hrf_area *a, const struct hrf_area *b)
{
    return a->memory == b->memory && a->offset == b->offset && a->n_images == b->n_images &&
           a->n_rows == b->n_rows && a->row_bytes == b->row_bytes &&
           a->image_stride == b->image_stride && a->row_stride == b->row_stride;
}

/* One session serves bands that are alike, so what it copies may not depend on the band. */
static void bands_that_are_alike_copy_the_same_bytes(void **state)
{
    (void)state;
    struct build b = build_start(1);
    const int32_t x = build_input(&b, SHAPE(2, 16, 128, 16));
    const int32_t u = build_plain_conv(&b, x, 16, 16, 3, 1, true);
    int32_t y = build_plain_conv(&b, build_plain_conv(&b, u, 16, 16, 5, 1, true), 16, 16, 3, 1,
                                 true);
    y = build_plain_conv(&b, build_binary(&b, HRF_OP_ADD, u, y), 16, 16, 3, 2, true);
    HRF_AUTO(hrf_graph) graph = build_finish(&b, &y, 1);
    HRF_AUTO(hrf_partition) p = keep_rows(graph, 16);
    int32_t n_alike = 0, n_copies = 0, n_kinds, kind_of[16], first_of[16];
    hrf_bands_find_kinds(p, kind_of, first_of, &n_kinds);
    for (int32_t band = 1; band < p->n_ranks; band++) {
        HRF_AUTO(hrf_graph) of_one = NULL;
        HRF_AUTO(hrf_graph) of_other = NULL;
        HRF_AUTO(hrf_rank_map) map_of_one = NULL;
        HRF_AUTO(hrf_rank_map) map_of_other = NULL;
        if (kind_of[band - 1] != kind_of[band])
            continue;
        HRF_AUTO(hrf_plan) one = plan_of_band(p, band - 1, &of_one, &map_of_one);
        HRF_AUTO(hrf_plan) other = plan_of_band(p, band, &of_other, &map_of_other);
        n_alike++;
        assert_int_equal(one->n_transfers, other->n_transfers);
        for (int32_t i = 0; i < one->n_transfers; i++, n_copies++) {
            const struct hrf_transfer *s = &one->transfers[i], *t = &other->transfers[i];
            assert_int_equal(s->kind, HRF_TRANSFER_COPY);
            assert_int_equal(t->kind, HRF_TRANSFER_COPY);
            assert_true(is_same_area(&s->from, &t->from) && is_same_area(&s->to, &t->to));
        }
    }
    assert_true(n_alike > 8 && n_copies > 2 * n_alike);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layout_is_read_and_what_cannot_be_is_refused),
        cmocka_unit_test(a_window_needs_the_rows_under_it_and_pads_only_at_the_border),
        cmocka_unit_test(two_ranks_swap_one_row_and_add_up_their_sums),
        cmocka_unit_test(an_exchange_costs_its_own_rows_only),
        cmocka_unit_test(planted_faults_are_found),
        cmocka_unit_test(bands_that_keep_rows_are_predicted_to_the_row),
        cmocka_unit_test(faults_of_kept_rows_are_found),
        cmocka_unit_test(bands_that_are_alike_copy_the_same_bytes),
        cmocka_unit_test(a_ring_without_long_attention_is_refused),
        cmocka_unit_test(more_stages_than_nodes_are_refused_with_what_would_do),
        cmocka_unit_test(both_directions_keep_both_ranks_busy),
        cmocka_unit_test(no_stage_holds_more_micro_batches_than_there_are_stages),
        cmocka_unit_test(an_error_ends_the_search_for_bands),
        cmocka_unit_test(bands_are_predicted_to_the_row),
        cmocka_unit_test(bands_take_less_memory_and_say_what_they_compute_twice),
        cmocka_unit_test(a_network_without_a_cut_is_refused_by_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
