/* The plan of one rank: who shares a buffer with whom, where buffers lie, and what the checker
 * refuses. Buffers here are multiples of the alignment, so that sizes add up. */
#include "tests/unit/unit.h"

#include "engine/passes/passes.h"
#include "engine/plan/plan.h"
#include "tests/ops/build.h"

#include <stdio.h>
#include <string.h>

enum { UNIT = 4 * 16 * 4 * 4 }; /* bytes of 1x4x16x4 float32 */

static struct build start(int32_t *x)
{
    struct build b = build_start(5);
    *x = build_input(&b, SHAPE(1, 4, 16, 4));
    return b;
}

static int32_t conv(struct build *b, int32_t x)
{
    return build_plain_conv(b, x, 4, 4, 3, 1, false);
}

static struct hrf_plan *plan_of(const struct hrf_graph *graph)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_plan *plan = NULL;
    if (hrf_plan_create(graph, NULL, &plan, &err) != HRF_OK ||
        hrf_plan_check(plan, graph, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return plan;
}

/* Bytes of the arena for what was built. */
static int64_t arena(struct build *b, const int32_t *outputs, int32_t n)
{
    struct hrf_graph *graph = build_finish(b, outputs, n);
    struct hrf_plan *plan = plan_of(graph);
    const int64_t bytes = plan->arena_bytes;
    hrf_plan_destroy(plan);
    hrf_graph_destroy(graph);
    return bytes;
}

static void a_chain_of_convolutions_takes_turns_in_two_buffers(void **state)
{
    (void)state;
    int32_t x;
    struct build b = start(&x);
    int32_t y = x;
    for (int i = 0; i < 6; i++)
        y = conv(&b, y);
    assert_int_equal(arena(&b, &y, 1), 2 * UNIT);
}

/* The chain above has no room for it. */
static void the_second_step_keeps_clear_of_the_images_where_there_is_room(void **state)
{
    (void)state;
    int32_t x;
    struct build b = start(&x);
    const int32_t a = build_plain_conv(&b, x, 4, 16, 3, 1, false);
    const int32_t c = build_plain_conv(&b, a, 16, 8, 3, 1, false);
    const int32_t d = build_plain_conv(&b, c, 8, 16, 3, 1, false);
    int32_t y = build_binary(&b, HRF_OP_ADD, build_plain_conv(&b, d, 16, 16, 3, 1, false), d);
    y = build_plain_conv(&b, y, 16, 4, 3, 1, false);
    struct hrf_graph *graph = build_finish(&b, &y, 1);
    struct hrf_plan *plan = plan_of(graph);
    assert_int_equal(plan->arena_bytes, 8 * UNIT);
    const int64_t apart = hrf_plan_offset(plan, c) - hrf_plan_offset(plan, x);
    assert_true(apart >= UNIT || apart <= -2 * UNIT);
    assert_int_equal(plan->buffers[plan->buffer_of[x]].last, 0);
    hrf_plan_destroy(plan);
    hrf_graph_destroy(graph);
}

static void pointwise_operators_write_over_their_input(void **state)
{
    (void)state;
    int32_t x;
    struct build b = start(&x);
    const int32_t c = conv(&b, x);
    int32_t y = build_unary(&b, HRF_OP_SIGMOID, build_unary(&b, HRF_OP_RELU, c));
    struct hrf_graph *graph = build_finish(&b, (int32_t[]){ conv(&b, y) }, 1);
    struct hrf_plan *plan = plan_of(graph);
    assert_int_equal(plan->buffer_of[c], plan->buffer_of[y]);
    assert_int_not_equal(plan->buffer_of[c], plan->buffer_of[x]);
    assert_int_equal(plan->arena_bytes, 2 * UNIT);
    hrf_plan_destroy(plan);
    hrf_graph_destroy(graph);
}

static void what_is_read_later_is_not_written_over(void **state)
{
    (void)state;
    int32_t x;
    struct build b = start(&x);
    const int32_t c = conv(&b, x), r = build_unary(&b, HRF_OP_RELU, c);
    const int32_t sum = build_binary(&b, HRF_OP_MUL, r, c); /* c lives on past r */
    const int32_t y = conv(&b, sum);
    struct hrf_graph *graph = build_finish(&b, &y, 1);
    struct hrf_plan *plan = plan_of(graph);
    assert_int_not_equal(plan->buffer_of[c], plan->buffer_of[r]);
    assert_true(plan->buffer_of[sum] == plan->buffer_of[c] ||
                plan->buffer_of[sum] == plan->buffer_of[r]);
    hrf_plan_destroy(plan);
    hrf_graph_destroy(graph);
}

static void a_residual_is_summed_in_place(void **state)
{
    (void)state;
    int32_t x;
    struct build b = start(&x);
    const int32_t skip = conv(&b, x);
    int32_t y = build_binary(&b, HRF_OP_ADD, conv(&b, conv(&b, skip)), skip);
    y = conv(&b, build_unary(&b, HRF_OP_RELU, y));
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_graph *graph = build_finish(&b, &y, 1);
    assert_int_equal(hrf_passes_run(graph, &err), HRF_OK);
    assert_int_equal(graph->n_nodes, 4);
    struct hrf_plan *plan = plan_of(graph);
    const struct hrf_node *block = &graph->nodes[2];
    assert_int_equal(plan->buffer_of[block->inputs[HRF_CONV_RESIDUAL]],
                     plan->buffer_of[block->outputs[0]]);
    assert_int_not_equal(plan->buffer_of[block->inputs[HRF_CONV_X]],
                         plan->buffer_of[block->outputs[0]]);
    assert_int_equal(plan->arena_bytes, 2 * UNIT);
    hrf_plan_destroy(plan);
    hrf_graph_destroy(graph);
}

static void outputs_keep_their_buffers_to_the_end(void **state)
{
    (void)state;
    int32_t x;
    struct build b = start(&x);
    int32_t outputs[3] = { conv(&b, x) };
    outputs[1] = build_unary(&b, HRF_OP_RELU, outputs[0]);
    outputs[2] = build_unary(&b, HRF_OP_RELU, outputs[1]);
    assert_int_equal(arena(&b, outputs, 3), 3 * UNIT); /* the second lies where the input was */
    b = start(&x);
    outputs[0] = conv(&b, conv(&b, x));
    outputs[1] = conv(&b, conv(&b, outputs[0]));
    assert_int_equal(arena(&b, outputs, 2), 3 * UNIT);
}

static void a_stretched_operand_is_not_written_over(void **state)
{
    (void)state;
    struct build b = build_start(2);
    const int32_t row = conv(&b, build_input(&b, SHAPE(1, 4, 1, 4)));
    const int32_t full = conv(&b, build_input(&b, SHAPE(1, 4, 16, 4)));
    const int32_t sum = build_binary(&b, HRF_OP_ADD, row, full);
    const int32_t y = conv(&b, sum);
    struct hrf_graph *graph = build_finish(&b, &y, 1);
    struct hrf_plan *plan = plan_of(graph);
    assert_int_equal(plan->buffer_of[sum], plan->buffer_of[full]);
    assert_false(hrf_plan_may_overwrite(graph, NULL, 2, 0)); /* the sum */
    assert_true(hrf_plan_may_overwrite(graph, NULL, 2, 1));
    hrf_plan_destroy(plan);
    hrf_graph_destroy(graph);
}

/* ---- the checker ---- */

/* x -> conv c -> conv d -> relu r, c is read again by the sum at the end. */
struct scene {
    struct hrf_graph *graph;
    struct hrf_plan *plan;
    int32_t x, c, d, r;
};

static struct scene make_scene(void)
{
    struct scene s;
    struct build b = start(&s.x);
    s.c = conv(&b, s.x);
    s.d = conv(&b, s.c);
    s.r = build_unary(&b, HRF_OP_RELU, s.d);
    const int32_t y = build_binary(&b, HRF_OP_ADD, s.r, s.c);
    s.graph = build_finish(&b, &y, 1);
    s.plan = plan_of(s.graph);
    return s;
}

/* The checker's word on a plan that was spoilt. */
static void refused(struct scene *s, const char *said)
{
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_plan_check(s->plan, s->graph, &err), HRF_E_BUG);
    if (strstr(err.text, said) == NULL)
        fail_msg("'%s' was said, not '%s'", err.text, said);
    hrf_plan_destroy(s->plan);
    hrf_graph_destroy(s->graph);
}

static void the_checker_refuses_what_would_not_run(void **state)
{
    (void)state;
    struct scene s = make_scene();
    s.plan->buffers[s.plan->buffer_of[s.d]].offset =
        s.plan->buffers[s.plan->buffer_of[s.c]].offset + HRF_PLAN_ALIGNMENT;
    refused(&s, "overlap");
    s = make_scene();
    s.plan->buffers[s.plan->buffer_of[s.d]].offset += 4;
    refused(&s, "outside the arena");
    s = make_scene();
    s.plan->arena_bytes -= HRF_PLAN_ALIGNMENT;
    refused(&s, "outside the arena");
    s = make_scene(); /* c is gone when the sum reads it */
    s.plan->buffer_of[s.d] = s.plan->buffer_of[s.c];
    refused(&s, "overwrites");
    s = make_scene(); /* a convolution may not write over what it reads */
    s.plan->buffer_of[s.c] = s.plan->buffer_of[s.x];
    refused(&s, "overwrites");
    s = make_scene();
    s.plan->buffers[s.plan->buffer_of[s.c]].last = 1;
    refused(&s, "outside its life");
    s = make_scene();
    s.plan->steps[0].node = 1; /* d before c */
    s.plan->steps[1].node = 0;
    refused(&s, "which is gone");
}

static bool accept(void *context, int32_t first, const struct hrf_fused_pair *pair)
{
    (void)first;
    (void)pair;
    ++*(int *)context;
    return true;
}

/* x -> conv c -> conv d -> relu r -> sum of r and c: what c makes is read again. */
static void the_checker_refuses_fused_steps_whose_kernels_were_misled(void **state)
{
    (void)state;
    int n_asked = 0;
    struct scene s = make_scene();
    hrf_plan_fuse(s.plan, s.graph, accept, &n_asked);
    assert_int_equal(n_asked, 1); /* d reads c alone; the sum reads two */
    assert_true(s.plan->steps[0].is_fused);
    assert_false(s.plan->steps[0].pair.overlaps);
    assert_int_equal(hrf_plan_check(s.plan, s.graph, NULL), HRF_OK);
    s.plan->steps[0].pair.overlaps = true; /* there is room: d lies clear of x */
    refused(&s, "were told something else");
    s = make_scene();
    hrf_plan_fuse(s.plan, s.graph, accept, &n_asked);
    s.plan->steps[0].pair.is_residual = true; /* d reads nothing but c */
    refused(&s, "were told something else");
    s = make_scene();
    hrf_plan_fuse(s.plan, s.graph, accept, &n_asked);
    s.plan->steps[0].pair.reads_residual = true; /* likewise */
    refused(&s, "were told something else");
    s = make_scene();
    s.plan->steps[2].is_fused = true; /* the sum reads c, too, and adds to r as no convolution */
    refused(&s, "steps 2 and 3 cannot be fused");
}

/* ---- random graphs ---- */

static struct hrf_graph *random_graph(uint64_t seed)
{
    enum { N = 24 };
    struct build b = build_start(seed);
    int32_t values[N + 1] = { build_input(&b, SHAPE(1, 4, 16, 4)) };
    int n = 1;
    for (; n <= N; n++) {
        const int32_t a = values[build_pick(&b, n > 4 ? n - 4 : 0, n - 1)];
        const int32_t c = values[build_pick(&b, 0, n - 1)];
        switch (build_pick(&b, 0, 3)) {
        case 0:
            values[n] = conv(&b, a);
            break;
        case 1:
            values[n] = build_unary(&b, HRF_OP_RELU, a);
            break;
        case 2:
            values[n] = build_binary(&b, HRF_OP_ADD, a, c);
            break;
        default:
            values[n] = build_unary(&b, HRF_OP_SIGMOID, conv(&b, a));
            break;
        }
    }
    const int32_t outputs[] = { values[N], values[build_pick(&b, 1, N - 1)] };
    return build_finish(&b, outputs, 2);
}

/* No plan can do with less than what is held at the fullest step, when a step may write over one
 * of its inputs. */
static int64_t lower_bound(const struct hrf_graph *graph)
{
    int64_t most = 0;
    for (int32_t step = 0; step < graph->n_nodes; step++) {
        int64_t held = 0;
        for (int32_t v = 0; v < graph->n_values; v++) {
            const struct hrf_value *value = &graph->values[v];
            int32_t last = -1;
            if (value->data != NULL || value->producer >= step)
                continue;
            for (int32_t n = 0; n < graph->n_nodes; n++)
                for (int32_t k = 0; k < graph->nodes[n].n_inputs; k++)
                    last = graph->nodes[n].inputs[k] == v ? n : last;
            for (int32_t i = 0; i < graph->n_outputs; i++)
                last = graph->outputs[i] == v ? graph->n_nodes : last;
            held += last >= step ? UNIT : 0;
        }
        most = held > most ? held : most;
    }
    return most;
}

static void random_plans_pass_the_checker_and_stay_small(void **state)
{
    (void)state;
    int64_t bytes = 0, bound = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct hrf_error err = { .status = HRF_OK };
        struct hrf_graph *graph = random_graph(seed);
        if (seed % 2 == 0)
            assert_int_equal(hrf_passes_run(graph, &err), HRF_OK);
        struct hrf_plan *plan = plan_of(graph);
        const int64_t least = lower_bound(graph);
        assert_true(plan->arena_bytes >= least);
        bytes += plan->arena_bytes;
        bound += least;
        hrf_plan_destroy(plan);
        hrf_graph_destroy(graph);
    }
    printf("200 plans: %.3f of the lower bound\n", (double)bytes / (double)bound);
    assert_true((double)bytes < 1.2 * (double)bound);
}

static void no_allocation_may_fail_unseen(void **state)
{
    (void)state;
    struct hrf_graph *graph = random_graph(4);
    for (int64_t n = 1;; n++) {
        struct hrf_error err = { .status = HRF_OK };
        struct hrf_plan *plan = NULL;
        hrf_alloc_fail_after(n);
        enum hrf_status status = hrf_plan_create(graph, NULL, &plan, &err);
        if (status == HRF_OK)
            status = hrf_plan_check(plan, graph, &err);
        const bool failed = hrf_alloc_count() >= n;
        hrf_alloc_fail_after(0);
        hrf_plan_destroy(plan);
        assert_int_equal(status, failed ? HRF_E_NOMEM : HRF_OK);
        if (!failed)
            break;
    }
    hrf_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_of_convolutions_takes_turns_in_two_buffers),
        cmocka_unit_test(the_second_step_keeps_clear_of_the_images_where_there_is_room),
        cmocka_unit_test(pointwise_operators_write_over_their_input),
        cmocka_unit_test(what_is_read_later_is_not_written_over),
        cmocka_unit_test(a_residual_is_summed_in_place),
        cmocka_unit_test(outputs_keep_their_buffers_to_the_end),
        cmocka_unit_test(a_stretched_operand_is_not_written_over),
        cmocka_unit_test(the_checker_refuses_what_would_not_run),
        cmocka_unit_test(the_checker_refuses_fused_steps_whose_kernels_were_misled),
        cmocka_unit_test(random_plans_pass_the_checker_and_stay_small),
        cmocka_unit_test(no_allocation_may_fail_unseen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
