/* Every operator in the lower precisions, over random shapes: in INT8 cpu and the integer reference
 * give the same bits (unless a node had to stay in float32); every precision stays near what
 * float32 gives. */

#include "tests/ops/cases.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

/* A sanitizer looks at the same code in fewer cases as well as in more, and takes five times as
 * long. */
#if defined(__SANITIZE_ADDRESS__)
enum { CASES = 3, ENOUGH = 12 }; /* for one of them to go low from end to end */
#else
enum { CASES = 8, ENOUGH = 8 };
#endif

struct totals {
    double worst, sum;
    int n, n_between, n_pure; /* between products; pure: nothing stayed in float32 */
};

/* Every input has a product behind it, and the output one before: build.h gives ranks 2 and 4. */
static bool is_between_products(const struct hrf_graph *graph)
{
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        const int32_t rank = graph->values[graph->inputs[i]].shape.rank;
        if (rank != 2 && rank != 4)
            return false;
    }
    return true;
}

/* The others are computed in float32 between products: near the reference, not equal to it. */
static bool goes_low(enum hrf_op op)
{
    return op != HRF_OP_SOFTMAX && op != HRF_OP_LOG_SOFTMAX && op != HRF_OP_LRN &&
           op != HRF_OP_REDUCE_MEAN && op != HRF_OP_LOG && op != HRF_OP_RESIZE && op != HRF_OP_MAX;
}

static void check_case(const struct op_case *row, uint64_t seed, enum hrf_precision precision,
                       struct totals *totals)
{
    struct build b = build_start(seed);
    b.between_products = true;
    const int32_t output = row->make(&b);
    struct hrf_graph *graph = build_finish(&b, &output, 1);
    int64_t n, n_ref, n_one;
    bool is_pure;
    float *full = run_graph(graph, "ref", 1, seed, 1, &n);
    float *truth = run_graph_fixed(graph, "ref", precision, 2, seed, 1, &n_ref, &is_pure);
    float *two = run_graph_fixed(graph, "cpu", precision, 2, seed, 2, &n, NULL);
    float *one = run_graph_fixed(graph, "cpu", precision, 1, seed, 1, &n_one, NULL);
    const double difference = relative_difference(two, full, n);
    totals->n_between += is_between_products(graph);
    is_pure &= is_between_products(graph) && goes_low(row->op);
    totals->n_pure += is_pure;
    if (precision == HRF_INT8 && is_pure &&
        (memcmp(two, truth, (size_t)n * sizeof *two) != 0 ||
         memcmp(one, truth, (size_t)n * sizeof *one) != 0))
        fail_msg("%s, seed %llu: other bits than the reference, %g of the largest output apart",
                 row->name, (unsigned long long)seed, relative_difference(two, truth, n));
    totals->worst = difference > totals->worst ? difference : totals->worst;
    totals->sum += difference;
    totals->n++;
    hrf_free(full);
    hrf_free(truth);
    hrf_free(one);
    hrf_free(two);
    hrf_graph_destroy(graph);
}

/* A quotient by a number near zero is as far off as one likes, a gradient goes elsewhere where
 * rounding decides which of two numbers is greater, and MATMUL's ranks have no product around them.
 */
static bool is_comparable(const struct op_case *row)
{
    return row->op != HRF_OP_DIV && row->op != HRF_OP_MATMUL && row->op != HRF_OP_REDUCE_SUM &&
           row->op != HRF_OP_FLOOR && row->op != HRF_OP_MAX_POOL_GRADIENT &&
           row->op != HRF_OP_FUNCTION_GRADIENT;
}

static void check_precision(enum hrf_precision precision, double limit)
{
    for (int i = 0; i < n_op_cases; i++) {
        struct totals totals = { .worst = 0 };
        if (!is_comparable(&op_cases[i]))
            continue;
        for (int k = 0; k < CASES; k++)
            check_case(&op_cases[i], (uint64_t)(1000 * i + k), precision, &totals);
        printf("%-5s %-20s %d cases, %d pure, from float32 on average %.1e, at most "
               "%.1e\n",
               hrf_precision_name(precision), op_cases[i].name, totals.n, totals.n_pure,
               totals.sum / totals.n, totals.worst);
        assert_true(totals.n_pure > 0 || totals.n_between == 0 || !goes_low(op_cases[i].op) ||
                    CASES < ENOUGH);
        if (totals.sum / totals.n > limit)
            fail_msg("%s in %s: %g of the largest output from float32 on average, at most %g is "
                     "right",
                     op_cases[i].name, hrf_precision_name(precision), totals.sum / totals.n, limit);
    }
}

static void int8_has_the_bits_of_the_integer_reference(void **state)
{
    (void)state;
    check_precision(HRF_INT8, 0.06);
}

static void bf16_is_near_float32(void **state)
{
    (void)state;
    check_precision(HRF_BF16, 0.02);
}

static void fp16_is_near_float32(void **state)
{
    (void)state;
    check_precision(HRF_FP16, 0.003);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(int8_has_the_bits_of_the_integer_reference),
        cmocka_unit_test(bf16_is_near_float32),
        cmocka_unit_test(fp16_is_near_float32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
