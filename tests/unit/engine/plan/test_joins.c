/* Which inputs of concatenations are computed inside of the output, and that the plan of it is
 * proven. */
#include "tests/unit/unit.h"

#include "engine/plan/joins.h"
#include "engine/plan/pixel_stride.h"
#include "engine/plan/plan.h"
#include "tests/ops/build.h"

enum { C = 32, MOST = 8 };

static const struct hrf_kernel_row strided = {
    .name = "strided",
    HRF_ROW_OPS(HRF_OP_CONV, HRF_OP_CONCAT, HRF_OP_MAX_POOL),
    .forms = HRF_FORM_ANY,
    .isa = HRF_ISA_ANY,
    .extras = HRF_STRIDED,
};
static const struct hrf_kernel_table takes = {
    .device = "test",
    .rows = (const struct hrf_kernel_row *const[]){ &strided, NULL },
};

static int32_t conv(struct build *b, int32_t x, int64_t in, int64_t out)
{
    return build_plain_conv(b, x, in, out, 1, 1, true);
}

static int32_t concat(struct build *b, const int32_t *parts, int32_t n)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.axis = 1;
    return build_node(b, HRF_OP_CONCAT, parts, n, &a);
}

static struct build start(int32_t *x)
{
    struct build b = build_start(1);
    *x = conv(&b, build_input(&b, SHAPE(2, C, 5, 6)), C, C);
    return b;
}

/* Bytes of the plan, which is proven, with all strides set. */
static int64_t set_and_plan(struct hrf_graph *graph)
{
    HRF_AUTO(hrf_plan) plan = NULL;
    assert_int_equal(hrf_pixel_stride_set(graph, &takes, NULL), HRF_OK);
    assert_int_equal(hrf_plan_create(graph, NULL, &plan, NULL), HRF_OK);
    assert_int_equal(hrf_plan_check(plan, graph, NULL), HRF_OK);
    struct hrf_join *joins = hrf_alloc_array((size_t)graph->n_values, sizeof *joins);
    assert_non_null(joins);
    hrf_joins_of_strides(graph, joins);
    for (int32_t v = 0; v < graph->n_values; v++)
        if (joins[v].host >= 0)
            assert_int_equal(hrf_plan_offset(plan, v),
                             hrf_plan_offset(plan, joins[v].host) +
                                 joins[v].channel * (int64_t)sizeof(float));
    hrf_free(joins);
    return plan->arena_bytes;
}

/* Of the values, in order: the channel of `host` where each begins; -1: elsewhere. */
static void assert_joined(const struct hrf_graph *graph, int32_t host, const int32_t *values,
                          const int64_t *channels, int32_t n)
{
    struct hrf_join *joins = hrf_alloc_array((size_t)graph->n_values, sizeof *joins);
    assert_non_null(joins);
    hrf_joins_of_strides(graph, joins);
    for (int32_t i = 0; i < n; i++) {
        const struct hrf_value *v = &graph->values[values[i]];
        assert_int_equal(joins[values[i]].host, channels[i] < 0 ? -1 : host);
        if (channels[i] >= 0)
            assert_int_equal(joins[values[i]].channel, channels[i]);
        assert_int_equal(v->pixel_stride, channels[i] < 0 ? 0 : graph->values[host].shape.dims[1]);
    }
    hrf_free(joins);
}

static void branches_lie_side_by_side(void **state)
{
    (void)state;
    int32_t x, parts[MOST];
    struct build b = start(&x);
    for (int i = 0; i < 3; i++)
        parts[i] = conv(&b, x, C, (i + 1) * C);
    const int32_t all = concat(&b, parts, 3);
    const int32_t y = conv(&b, all, 6 * C, C);
    HRF_AUTO(hrf_graph) graph = build_finish(&b, &y, 1);
    set_and_plan(graph);
    assert_joined(graph, all, parts, (const int64_t[]){ 0, C, 3 * C }, 3);
}

/* Each concatenation has one more input than the one before: all are the beginning of the last. */
static void a_dense_block_is_one_buffer(void **state)
{
    (void)state;
    int32_t x, parts[MOST], joined[MOST];
    struct build b = start(&x);
    parts[0] = x;
    for (int i = 1; i < MOST; i++) {
        const int32_t seen = i > 1 ? concat(&b, parts, i) : x;
        joined[i - 1] = seen;
        parts[i] = conv(&b, seen, i * C, C);
    }
    const int32_t all = concat(&b, parts, MOST);
    const int32_t y = conv(&b, all, MOST * C, C);
    HRF_AUTO(hrf_graph) graph = build_finish(&b, &y, 1);
    set_and_plan(graph);
    int64_t channels[MOST], zeros[MOST] = { 0 };
    for (int i = 0; i < MOST; i++)
        channels[i] = i * C;
    assert_joined(graph, all, parts, channels, MOST);
    assert_joined(graph, all, joined, zeros, MOST - 1);
}

static void a_concatenation_lies_in_another(void **state)
{
    (void)state;
    int32_t x, inner[2], outer[2];
    struct build b = start(&x);
    for (int i = 0; i < 2; i++)
        inner[i] = conv(&b, x, C, C);
    outer[0] = conv(&b, x, C, C);
    outer[1] = concat(&b, inner, 2);
    const int32_t all = concat(&b, outer, 2);
    const int32_t y = conv(&b, all, 3 * C, C);
    HRF_AUTO(hrf_graph) graph = build_finish(&b, &y, 1);
    set_and_plan(graph);
    assert_joined(graph, all, outer, (const int64_t[]){ 0, C }, 2);
    assert_joined(graph, all, inner, (const int64_t[]){ C, 2 * C }, 2);
}

/* Inputs of the graph, the same input again, what is summed with a residual, what an operator reads
 * that takes no pixel stride, and channels that do not fill lines of the cache. */
static void others_are_copied(void **state)
{
    (void)state;
    int32_t parts[MOST];
    struct build b = build_start(2);
    const int32_t x = build_input(&b, SHAPE(1, C, 5, 6));
    parts[0] = x;
    parts[1] = parts[2] = conv(&b, x, C, C);
    parts[3] = build_binary(&b, HRF_OP_ADD, conv(&b, x, C, C), conv(&b, x, C, C));
    parts[4] = conv(&b, x, C, C);
    parts[5] = conv(&b, x, C, C / 2 + 4);
    parts[6] = conv(&b, x, C, C - 4);
    const int32_t all = concat(&b, parts, 7);
    int32_t ends[2];
    ends[0] = conv(&b, all, 6 * C + C / 2, C);
    ends[1] = build_unary(&b, HRF_OP_SIGMOID, parts[4]);
    HRF_AUTO(hrf_graph) graph = build_finish(&b, ends, 2);
    set_and_plan(graph);
    assert_joined(graph, all, parts, (const int64_t[]){ -1, C, C, -1, -1, -1, -1 }, 7);
}

static void an_output_of_the_graph_has_its_own_memory(void **state)
{
    (void)state;
    int32_t x, parts[2];
    struct build b = start(&x);
    for (int i = 0; i < 2; i++)
        parts[i] = conv(&b, x, C, C);
    const int32_t all = concat(&b, parts, 2);
    HRF_AUTO(hrf_graph) graph = build_finish(&b, &all, 1);
    set_and_plan(graph);
    assert_joined(graph, all, parts, (const int64_t[]){ -1, -1 }, 2);
}

/* The first input, which is made early, would hold the output's memory while the largest image is
 * computed. The concatenation behind it takes no more. */
static void nothing_is_joined_that_takes_more_memory(void **state)
{
    (void)state;
    int32_t x, parts[2], small[2];
    struct build b = start(&x);
    parts[0] = conv(&b, x, C, C);
    const int32_t wide = conv(&b, conv(&b, x, C, 8 * C), 8 * C, 8 * C);
    parts[1] = conv(&b, wide, 8 * C, 3 * C);
    const int32_t all = concat(&b, parts, 2);
    for (int i = 0; i < 2; i++)
        small[i] = conv(&b, all, 4 * C, C);
    const int32_t last = concat(&b, small, 2), y = conv(&b, last, 2 * C, C);
    HRF_AUTO(hrf_graph) graph = build_finish(&b, &y, 1);
    HRF_AUTO(hrf_plan) dense = NULL;
    assert_int_equal(hrf_plan_create(graph, NULL, &dense, NULL), HRF_OK);
    assert_int_equal(set_and_plan(graph), dense->arena_bytes);
    assert_joined(graph, all, parts, (const int64_t[]){ -1, -1 }, 2);
    assert_joined(graph, last, small, (const int64_t[]){ 0, C }, 2);
}

/* A plan in which a concatenation overwrites what is read later is refused. */
static void a_wrong_place_is_found(void **state)
{
    (void)state;
    int32_t x, parts[2];
    struct build b = start(&x);
    for (int i = 0; i < 2; i++)
        parts[i] = conv(&b, x, C, C);
    const int32_t all = concat(&b, parts, 2);
    const int32_t y = conv(&b, all, 2 * C, C);
    HRF_AUTO(hrf_graph) graph = build_finish(&b, &y, 1);
    HRF_AUTO(hrf_plan) plan = NULL;
    assert_int_equal(hrf_pixel_stride_set(graph, &takes, NULL), HRF_OK);
    assert_int_equal(hrf_plan_create(graph, NULL, &plan, NULL), HRF_OK);
    plan->offset_in_buffer[parts[1]] = 0; /* over the first one */
    assert_int_equal(hrf_plan_check(plan, graph, NULL), HRF_E_BUG);
    plan->offset_in_buffer[parts[1]] = C * sizeof(float);
    assert_int_equal(hrf_plan_check(plan, graph, NULL), HRF_OK);
    plan->offset_in_buffer[parts[0]] = C * sizeof(float); /* the two exchanged */
    plan->offset_in_buffer[parts[1]] = 0;
    assert_int_equal(hrf_plan_check(plan, graph, NULL), HRF_E_BUG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches_lie_side_by_side),
        cmocka_unit_test(a_dense_block_is_one_buffer),
        cmocka_unit_test(a_concatenation_lies_in_another),
        cmocka_unit_test(others_are_copied),
        cmocka_unit_test(an_output_of_the_graph_has_its_own_memory),
        cmocka_unit_test(nothing_is_joined_that_takes_more_memory),
        cmocka_unit_test(a_wrong_place_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
