/* Which images get a pixel stride, what they take then, and that they lose it where others look
 * into them. */
#include "tests/unit/unit.h"

#include "engine/passes/passes.h"
#include "engine/plan/halves.h"
#include "engine/plan/partition.h"
#include "engine/plan/pixel_stride.h"
#include "engine/plan/plan.h"
#include "tests/ops/build.h"

enum { WIDE = 1024, NARROW = 8, STRIDE = WIDE + 16 };

/* Images of convolutions of one pixel, anything of theirs, or outputs only. */
static const char *misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return node->inputs[HRF_CONV_WEIGHTS] >= 0 &&
                   graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape.dims[2] == 1
               ? NULL
               : "large windows";
}

#define ROW(kinds)                                                                                 \
    &(const struct hrf_kernel_row)                                                                 \
    {                                                                                              \
        .name = "conv", HRF_ROW_OPS(HRF_OP_CONV), .forms = HRF_FORM_ANY, .isa = HRF_ISA_ANY,       \
        .extras = (kinds), .misfit = misfit                                                        \
    }
static const struct hrf_kernel_table takes = {
    .device = "test",
    .rows = (const struct hrf_kernel_row *const[]){ ROW(HRF_STRIDED), NULL },
};
static const struct hrf_kernel_table takes_outputs_only = {
    .device = "test",
    .rows = (const struct hrf_kernel_row *const[]){ ROW(HRF_STRIDED_OUTPUT), NULL },
};

static int32_t conv(struct build *b, int32_t x, int64_t in, int64_t out)
{
    return build_plain_conv(b, x, in, out, 1, 1, false);
}

/* Two bottlenecks, fused: three images that are one chain of residuals, and one more beside them;
 * or the chain alone, with what takes no pixel stride at its end. */
static struct hrf_graph *bottlenecks(bool ends_in_sigmoid)
{
    struct build b = build_start(3);
    int32_t y = conv(&b, build_input(&b, SHAPE(2, NARROW, 8, 6)), NARROW, WIDE);
    for (int i = 0; i < 2; i++) {
        const int32_t narrow = build_plain_conv(&b, conv(&b, y, WIDE, NARROW), NARROW, NARROW, 3, 1,
                                                true);
        y = build_binary(&b, HRF_OP_ADD, conv(&b, narrow, NARROW, WIDE), y);
    }
    if (ends_in_sigmoid)
        y = build_unary(&b, HRF_OP_SIGMOID, y);
    else
        y = conv(&b, conv(&b, conv(&b, y, WIDE, NARROW), NARROW, WIDE), WIDE, NARROW);
    struct hrf_graph *graph = build_finish(&b, &y, 1);
    assert_int_equal(hrf_passes_run(graph, NULL), HRF_OK);
    return graph;
}

static void all_dense(const struct hrf_graph *graph, const int32_t *values, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        assert_int_equal(graph->values[values[i]].pixel_stride, 0);
}

static void residuals_match(const struct hrf_graph *graph)
{
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const struct hrf_node *node = &graph->nodes[n];
        if (node->op == HRF_OP_EXCHANGE) {
            all_dense(graph, node->inputs, node->n_inputs);
            all_dense(graph, node->outputs, 1);
        } else if (node->op == HRF_OP_CONV && node->n_inputs > HRF_CONV_RESIDUAL &&
                   node->inputs[HRF_CONV_RESIDUAL] >= 0) {
            assert_int_equal(graph->values[node->inputs[HRF_CONV_RESIDUAL]].pixel_stride,
                             graph->values[node->outputs[0]].pixel_stride);
        }
    }
}

/* Of a graph whose pixel strides are settled. */
static int32_t count_strided(const struct hrf_graph *graph)
{
    int32_t n = 0;
    all_dense(graph, graph->inputs, graph->n_inputs);
    all_dense(graph, graph->outputs, graph->n_outputs);
    residuals_match(graph);
    for (int32_t v = 0; v < graph->n_values; v++) {
        const struct hrf_value *value = &graph->values[v];
        if (value->pixel_stride == 0)
            continue;
        n++;
        assert_int_equal(value->shape.dims[1], WIDE);
        assert_int_equal(value->pixel_stride, STRIDE);
        assert_int_equal(hrf_value_bytes(value), value->shape.dims[0] * value->shape.dims[2] *
                                                     value->shape.dims[3] * STRIDE * 4);
    }
    return n;
}

static void images_between_nodes_that_take_it_get_a_pixel_stride(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) graph = bottlenecks(false);
    assert_int_equal(hrf_pixel_stride_set(graph, &takes_outputs_only, NULL), HRF_OK);
    assert_int_equal(count_strided(graph), 0);
    assert_int_equal(hrf_pixel_stride_set(graph, &takes, NULL), HRF_OK);
    assert_int_equal(count_strided(graph), 4);
    hrf_pixel_stride_settle(graph);
    assert_int_equal(count_strided(graph), 4);
}

/* The whole chain of residuals is dense as its last one is: each is summed in the place of the one
 * before. */
static void residuals_go_with_their_outputs(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) graph = bottlenecks(true);
    assert_int_equal(hrf_pixel_stride_set(graph, &takes, NULL), HRF_OK);
    assert_int_equal(count_strided(graph), 0);
}

static void what_would_not_gain_stays_dense(void **state)
{
    (void)state;
    struct build b = build_start(4);
    int32_t y = build_input(&b, SHAPE(1, WIDE, 4, 4)); /* enters */
    y = conv(&b, y, WIDE, WIDE - 16);
    y = conv(&b, y, WIDE - 16, 2 * WIDE);
    const int32_t half = y;
    y = conv(&b, y, 2 * WIDE, WIDE / 2);
    y = conv(&b, y, WIDE / 2, WIDE); /* leaves */
    HRF_AUTO(hrf_graph) graph = build_finish(&b, &y, 1);
    graph->values[half].dtype = HRF_F16;
    assert_int_equal(hrf_pixel_stride_set(graph, &takes, NULL), HRF_OK);
    assert_int_equal(count_strided(graph), 0);
}

static int64_t arena_of(const struct hrf_graph *graph, const struct hrf_rank_map *map)
{
    HRF_AUTO(hrf_plan) plan = NULL;
    assert_int_equal(hrf_plan_create(graph, map, &plan, NULL), HRF_OK);
    assert_int_equal(hrf_plan_check(plan, graph, NULL), HRF_OK);
    return plan->arena_bytes;
}

/* Residuals are summed in place as before, so that nothing but the gaps comes to it. */
static void a_plan_counts_the_gaps(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) graph = bottlenecks(false);
    const int64_t dense = arena_of(graph, NULL);
    assert_int_equal(hrf_pixel_stride_set(graph, &takes, NULL), HRF_OK);
    assert_int_equal(arena_of(graph, NULL), dense + 2 * 8 * 6 * (STRIDE - WIDE) * 4);
    graph->values[graph->nodes[0].outputs[0]].pixel_stride = 0; /* so the next one lies elsewhere */
    assert_true(arena_of(graph, NULL) > 2 * (2 * 8 * 6 * WIDE * 4));
}

/* The 3x3 convolutions alone exchange rows. What goes from stage to stage is dense, and the chain
 * of residuals with it. */
static void a_ranks_graph_has_the_pixel_strides_that_are_its_alone(void **state)
{
    (void)state;
    static const struct {
        const char *layout;
        int32_t least, most; /* on all ranks */
    } cases[] = { { "spatial=2", 8, 8 },
                  { "spatial=2x2,halos=overlap", 16, 16 },
                  { "stages=2", 0, 3 },
                  { "stages=8", 0, 0 } };
    HRF_AUTO(hrf_graph) graph = bottlenecks(false);
    assert_int_equal(hrf_pixel_stride_set(graph, &takes, NULL), HRF_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hrf_layout_plan layout;
        HRF_AUTO(hrf_partition) p = NULL;
        int32_t n = 0;
        assert_int_equal(hrf_layout_parse(cases[i].layout, &layout, NULL), HRF_OK);
        assert_int_equal(hrf_partition_create(graph, &layout, NULL, &p, NULL), HRF_OK);
        for (int32_t rank = 0; rank < p->n_ranks; rank++) {
            HRF_AUTO(hrf_graph) part = NULL;
            HRF_AUTO(hrf_rank_map) map = NULL;
            assert_int_equal(hrf_partition_graph(p, rank, &part, &map, NULL), HRF_OK);
            n += count_strided(part);
            arena_of(part, map);
        }
        assert_in_range(n, cases[i].least, cases[i].most);
    }
}

/* What crosses is dense, and the chain of residuals on both sides if it is one of them. */
static void halves_have_the_pixel_strides_that_are_theirs_alone(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) graph = bottlenecks(false);
    struct hrf_halves halves;
    assert_int_equal(hrf_pixel_stride_set(graph, &takes, NULL), HRF_OK);
    assert_int_equal(graph->n_nodes, 10);
    for (int32_t cut = 1; cut < graph->n_nodes; cut++) {
        assert_int_equal(hrf_halves_create(graph, cut, false, &halves, NULL), HRF_OK);
        assert_int_equal(count_strided(halves.head), cut < 8 ? 0 : 3);
        assert_int_equal(count_strided(halves.tail), cut < 9 ? 1 : 0);
        hrf_halves_release(&halves);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_between_nodes_that_take_it_get_a_pixel_stride),
        cmocka_unit_test(residuals_go_with_their_outputs),
        cmocka_unit_test(what_would_not_gain_stays_dense),
        cmocka_unit_test(a_plan_counts_the_gaps),
        cmocka_unit_test(a_ranks_graph_has_the_pixel_strides_that_are_its_alone),
        cmocka_unit_test(halves_have_the_pixel_strides_that_are_theirs_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
