/* Parts of a resize: what they need of the input and what they make of it, against the whole; and
 * the rules of all kinds of regions. */
#include "base/random.h"
#include "engine/ir/op.h"
#include "engine/ir/resize.h"
#include "engine/plan/region.h"
#include "tests/ops/cases.h"
#include "tests/ops/odd_nets.h"
#include "tests/unit/unit.h"

static int64_t pick(struct hrf_random *random, int64_t lo, int64_t hi)
{
    return lo + hrf_random_below(random, hi - lo + 1);
}

struct resized {
    struct hrf_graph *graph;
    struct hrf_node *node;
    struct hrf_shape in, out;
};

static struct resized make(struct hrf_random *random)
{
    struct hrf_attributes a = hrf_attributes_default();
    struct build b = build_start(1);
    struct resized r = { .in = { 4, { 1, 1, pick(random, 1, 20), pick(random, 1, 20) } } };
    const bool by_scales = pick(random, 0, 1) == 0;
    a.resize.mode = (enum hrf_resize_mode)pick(random, 0, 2);
    a.resize.coordinates = (enum hrf_resize_coordinates)pick(random, 0, 3);
    a.resize.rounding = (enum hrf_resize_rounding)pick(random, 0, 3);
    a.resize.cubic_a = -0.75f;
    a.resize.exclude_outside = pick(random, 0, 1) == 0;
    for (int i = 0; i < 4; i++) {
        a.resize.scales[i] = !by_scales ? 0 : i < 2 ? 1 : 1 + 0.3f * (float)pick(random, 0, 7);
        a.resize.sizes[i] = i < 2 ? 0 : pick(random, 1, 50);
    }
    const int32_t x = build_input(&b, r.in);
    const int32_t y = build_node(&b, HRF_OP_RESIZE, &x, 1, &a);
    r.graph = build_finish(&b, &y, 1);
    r.node = &r.graph->nodes[0];
    r.out = r.graph->values[r.node->outputs[0]].shape;
    return r;
}

/* Each row of the part by the part's attributes is that row of the whole, of rows that it has. */
static void compare(const struct hrf_resize *whole, const struct hrf_resize *part, int axis,
                    const struct resized *r, const struct hrf_box *need, const struct hrf_box *out)
{
    const int64_t n_in = need->hi[axis] - need->lo[axis], n_out = out->hi[axis] - out->lo[axis];
    int64_t least = n_in, most = -1;
    for (int64_t i = 0; i < n_out; i++) {
        const struct hrf_resize_tap a = hrf_resize_tap_at(whole, axis, r->in.dims[2 + axis],
                                                          r->out.dims[2 + axis], out->lo[axis] + i);
        const struct hrf_resize_tap b = hrf_resize_tap_at(part, axis, n_in, n_out, i);
        for (int t = 0; t < hrf_resize_n(whole); t++) {
            assert_int_equal(b.index[t] + need->lo[axis], a.index[t]);
            assert_true(b.weight[t] == a.weight[t]);
            least = b.index[t] < least ? b.index[t] : least;
            most = b.index[t] > most ? b.index[t] : most;
        }
    }
    assert_int_equal(least, 0); /* no more than is needed */
    assert_int_equal(most, n_in - 1);
}

static void a_part_of_a_resize_needs_and_makes_what_the_whole_does(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(17);
    for (int k = 0; k < 3000; k++) {
        const struct resized r = make(&random);
        struct hrf_box out;
        assert_true(hrf_region_can_split(r.graph, r.node) || r.out.dims[2] * r.out.dims[3] <= 1);
        for (int i = 0; i < 2; i++) {
            out.lo[i] = pick(&random, 0, r.out.dims[2 + i] - 1);
            out.hi[i] = pick(&random, out.lo[i] + 1, r.out.dims[2 + i]);
        }
        const struct hrf_box need = hrf_region_needed(r.graph, r.node, 0, &out);
        const struct hrf_attributes part = hrf_region_attributes(r.graph, r.node, &out);
        for (int axis = 0; axis < 2; axis++)
            compare(&r.node->attributes.resize, &part.resize, axis, &r, &need, &out);
        hrf_graph_destroy(r.graph);
    }
}

static void every_operator_says_what_its_regions_are(void **state)
{
    (void)state;
    for (int op = 0; op < HRF_N_OPS; op++) {
        const enum hrf_region region = hrf_op_info((enum hrf_op)op)->region;
        const struct hrf_op_info *row = hrf_op_info((enum hrf_op)op);
        assert_in_range(row->op_class, HRF_CLASS_UNARY, HRF_N_CLASSES - 1); /* 0: not stated */
        assert_in_range(row->tokens, HRF_TOKENS_WHOLE, HRF_N_TOKEN_RULES - 1);
        assert_in_range(hrf_op_precision(row->op), HRF_PRECISION_FLOAT, HRF_N_PRECISION_RULES - 1);
        assert_in_range(hrf_op_rows(row->op), HRF_ROWS_WHOLE, HRF_N_ROW_RULES - 1);
        assert_in_range(hrf_op_sizes(row->op), HRF_SIZE_FIXED, HRF_N_SIZE_RULES - 1);
        assert_in_range(row->joining, HRF_JOIN_NONE, HRF_N_JOININGS - 1);
        assert_true(row->n_roles <= row->max_inputs);
        if (region < HRF_REGION_WHOLE || region >= HRF_N_REGIONS)
            fail_msg("%s states no region (engine/ir/op.c)", hrf_op_name((enum hrf_op)op));
    }
}

/* The need of some rows holds that of each of them, is never empty and never goes back. */
static void check_rows(const struct hrf_graph *graph, const struct hrf_node *node, int32_t k)
{
    const struct hrf_box image = hrf_box_whole(&graph->values[node->outputs[0]].shape);
    const struct hrf_box input = hrf_box_whole(&graph->values[node->inputs[k]].shape);
    struct hrf_box before = input;
    before.hi[0] = 0;
    for (int64_t y = 0; y < image.hi[0]; y++) {
        struct hrf_box row = image, rows = image;
        row.lo[0] = y;
        row.hi[0] = rows.hi[0] = y + 1;
        const struct hrf_box need = hrf_region_needed(graph, node, k, &row);
        const struct hrf_box all = hrf_region_needed(graph, node, k, &rows);
        assert_false(hrf_box_is_empty(&need));
        assert_true(hrf_box_contains(&input, &need) && hrf_box_contains(&all, &need));
        assert_true(need.lo[0] >= before.lo[0] && need.hi[0] >= before.hi[0]);
        before = need;
    }
    assert_true(hrf_region_is_there(graph, node, &image));
}

static void check_nodes(const struct hrf_graph *graph, bool *is_met)
{
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const struct hrf_node *node = &graph->nodes[n];
        is_met[hrf_op_info(node->op)->region] = true;
        for (int32_t k = 0; k < node->n_inputs && hrf_region_can_split(graph, node); k++)
            if (node->inputs[k] >= 0 && graph->values[node->inputs[k]].data == NULL)
                check_rows(graph, node, k);
    }
}

static void needs_lie_in_the_image_and_never_go_back(void **state)
{
    (void)state;
    bool is_met[HRF_N_REGIONS] = { false };
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct hrf_graph *graph = make_odd_net(seed);
        check_nodes(graph, is_met);
        hrf_graph_destroy(graph);
    }
    for (int i = 0; i < n_op_cases; i++) /* what passes make; networks have the others */
        for (uint64_t seed = 1; seed <= 50 && (op_cases[i].op == HRF_OP_MAX_POOL_GRADIENT ||
                                               op_cases[i].op == HRF_OP_CONV_WEIGHT_GRADIENT);
             seed++) {
            struct build b = build_start(seed);
            const int32_t output = op_cases[i].make(&b);
            struct hrf_graph *graph = build_finish(&b, &output, 1);
            check_nodes(graph, is_met);
            hrf_graph_destroy(graph);
        }
    for (int region = HRF_REGION_WHOLE; region < HRF_N_REGIONS; region++)
        assert_true(is_met[region] || region == HRF_REGION_PIXEL); /* made by passes */
}

/* 3 rows through windows of 2 with 4 rows of padding above and 3 below: of 9 rows, the first three
 * and the last two see padding alone. */
static void windows_in_padding_alone_need_the_row_nearest_to_them(void **state)
{
    (void)state;
    static const int64_t first[] = { 0, 0, 0, 0, 0, 1, 2, 2, 2 };
    struct build b = build_start(1);
    struct hrf_attributes a = hrf_attributes_default();
    a.window.kernel[0] = 2;
    a.window.kernel[1] = 1;
    a.window.pad_begin[0] = 4;
    a.window.pad_end[0] = 3;
    const int32_t x = build_input(&b, SHAPE(1, 1, 3, 1));
    const int32_t y = build_conv(&b, x, 1, 1, 1, true, &a);
    struct hrf_graph *graph = build_finish(&b, &y, 1);
    for (int64_t row = 0; row < 9; row++) {
        const struct hrf_box out = { { row, 0 }, { row + 1, 1 } };
        const struct hrf_box need = hrf_region_needed(graph, &graph->nodes[0], 0, &out);
        const bool is_alone = row < 3 || row > 6;
        int64_t n[2];
        assert_int_equal(need.lo[0], first[row]);
        assert_true(hrf_region_padding(graph, &graph->nodes[0], &out, n) == is_alone);
        assert_int_equal(n[0], is_alone ? 2 : 0);
        assert_int_equal(n[1], 0);
    }
    hrf_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_of_a_resize_needs_and_makes_what_the_whole_does),
        cmocka_unit_test(every_operator_says_what_its_regions_are),
        cmocka_unit_test(needs_lie_in_the_image_and_never_go_back),
        cmocka_unit_test(windows_in_padding_alone_need_the_row_nearest_to_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
