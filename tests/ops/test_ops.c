/* Every operator that computes or moves, over random shapes: cpu against ref, twice the same bits,
 * one thread and two. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/ops/cases.h"

#include <stdio.h>
#include <string.h>

static void describe(const struct hrf_graph *graph, char *text, size_t size)
{
    const struct hrf_node *node = &graph->nodes[0];
    char shape[128];
    size_t at = 0;
    for (int32_t i = 0; i < node->n_inputs && at < size; i++) {
        if (node->inputs[i] < 0)
            continue;
        hrf_shape_text(&graph->values[node->inputs[i]].shape, shape);
        at += (size_t)snprintf(text + at, size - at, "%s%s", at > 0 ? ", " : "", shape);
    }
}

static void check_case(const struct op_case *row, uint64_t seed, double *worst)
{
    char shapes[512] = "";
    struct build b = build_start(seed);
    const int32_t output = row->make(&b);
    struct hrf_graph *graph = build_finish(&b, &output, 1);
    describe(graph, shapes, sizeof shapes);
    int64_t n, n_ref, n_one;
    float *truth = run_graph(graph, "ref", 1, seed, 1, &n_ref);
    float *two = run_graph(graph, "cpu", 2, seed, 2, &n);
    float *one = run_graph(graph, "cpu", 1, seed, 1, &n_one);
    const double difference = relative_difference(two, truth, n_ref);
    if (n != n_ref || !(difference <= row->tolerance))
        fail_msg("%s, seed %llu (%s): %g of the largest output, at most %g is right", row->name,
                 (unsigned long long)seed, shapes, difference, row->tolerance);
    if (row->same_on_any_threads && memcmp(one, two, (size_t)n * sizeof *one) != 0)
        fail_msg("%s, seed %llu (%s): other bits on one thread", row->name,
                 (unsigned long long)seed, shapes);
    assert_true(relative_difference(one, truth, n_ref) <= row->tolerance);
    *worst = difference > *worst ? difference : *worst;
    hrf_free(truth);
    hrf_free(one);
    hrf_free(two);
    hrf_graph_destroy(graph);
}

static void cpu_agrees_with_the_reference_on_every_operator(void **state)
{
    (void)state;
    for (int i = 0; i < n_op_cases; i++) {
        double worst = 0;
        for (int k = 0; k < op_cases[i].n_cases; k++)
            check_case(&op_cases[i], (uint64_t)(1000 * i + k), &worst);
        printf("%-20s %3d cases, worst %.1e (limit %.1e)\n", op_cases[i].name, op_cases[i].n_cases,
               worst, op_cases[i].tolerance);
    }
}

static void the_table_names_every_operator_that_computes(void **state)
{
    (void)state;
    static const enum hrf_op others[] = {
        HRF_OP_FLATTEN,
        HRF_OP_SQUEEZE,
        HRF_OP_UNSQUEEZE,
        HRF_OP_IDENTITY,
        HRF_OP_CAST,
        HRF_OP_QUANTIZE,
        HRF_OP_DEQUANTIZE,
        HRF_OP_EXCHANGE,
        HRF_OP_ALL_REDUCE,
        HRF_OP_POOL_SUM,
        HRF_OP_POOL_FINISH,
        HRF_OP_ATTENTION_PART, /* test_parallel.c */
        HRF_OP_PERFORMER_MAX,
        HRF_OP_PERFORMER_STATE,
        HRF_OP_PERFORMER_APPLY,
        HRF_OP_SPACE_TO_DEPTH,
        HRF_OP_TOP_K,
    };
    for (int op = 0; op < HRF_N_OPS; op++) {
        bool found = false;
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
            found |= (int)others[i] == op;
        for (int i = 0; i < n_op_cases; i++)
            found |= (int)op_cases[i].op == op;
        found |= hrf_op_is_foldable_only((enum hrf_op)op); /* no back end sees them */
        /* Rows that draw among several. */
        found |= hrf_op_is_unary((enum hrf_op)op) || hrf_op_is_binary((enum hrf_op)op) ||
                 hrf_op_is_reduction((enum hrf_op)op);
        if (!found)
            fail_msg("no case for operator %s", hrf_op_name((enum hrf_op)op));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_agrees_with_the_reference_on_every_operator),
        cmocka_unit_test(the_table_names_every_operator_that_computes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
