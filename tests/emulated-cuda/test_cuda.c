/* The CUDA back end on the emulated GPU: every operator against ref, three runs of each: queued,
 * recorded, replayed. What a real GPU adds is speed and its own rounding; order of work, memory,
 * packing of weights, graphs handed to cuDNN and own kernels are these. */
#include "tests/unit/unit.h"

#include "base/path.h"
#include "engine/run/session.h"
#include "tests/ops/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int put_it_in_place(void **state)
{
    (void)state;
    const char *bin = getenv("HRF_BIN_DIR");
    static char directory[4096];
    static char cache[] = "/tmp/hrf-cuda-XXXXXX";
    if (bin == NULL || mkdtemp(cache) == NULL)
        return -1;
    snprintf(directory, sizeof directory, "%s/../tests/emulated-cuda", bin);
    *state = cache;
    return setenv("HRF_MODULE_DIR", directory, 1) + setenv("XDG_CACHE_HOME", cache, 1);
}

static int tidy_up(void **state)
{
    return hrf_path_remove_tree(*state, NULL) == HRF_OK ? 0 : -1;
}

/* Sums are in float here and in double there: up to a few thousand terms. */
static double tolerance_of(const struct op_case *row)
{
    return row->tolerance > 2e-5 ? row->tolerance : 2e-5;
}

/* The emulation is slow; the same generator makes the cases, so fewer of them do. */
enum { MOST_CASES = 8, MOST_LOW_CASES = 3 };

static void every_operator_agrees_with_the_reference(void **state)
{
    (void)state;
    for (int i = 0; i < n_op_cases; i++) {
        double worst = 0;
        for (int k = 0; k < op_cases[i].n_cases && k < MOST_CASES; k++) {
            const uint64_t seed = (uint64_t)(1000 * i + k);
            struct build b = build_start(seed);
            const int32_t output = op_cases[i].make(&b);
            struct hrf_graph *graph = build_finish(&b, &output, 1);
            int64_t n, n_ref;
            float *truth = run_graph(graph, "ref", 1, seed, 1, &n_ref);
            float *ours = run_graph(graph, "cuda", 1, seed, 3, &n);
            assert_int_equal(n, n_ref);
            const double difference = relative_difference(ours, truth, n);
            if (!(difference <= tolerance_of(&op_cases[i])))
                fail_msg("%s, seed %llu: %g of the largest output, at most %g is right",
                         op_cases[i].name, (unsigned long long)seed, difference,
                         tolerance_of(&op_cases[i]));
            worst = difference > worst ? difference : worst;
            hrf_free(truth);
            hrf_free(ours);
            hrf_graph_destroy(graph);
        }
        printf("%-20s worst %.1e\n", op_cases[i].name, worst);
    }
}

/* A quotient by a number near zero is as far off as one likes. */
static void check_precision(const char *precision, double limit)
{
    for (int i = 0; i < n_op_cases; i++) {
        double sum = 0;
        if (op_cases[i].op == HRF_OP_DIV || op_cases[i].op == HRF_OP_MATMUL)
            continue;
        for (int k = 0; k < MOST_LOW_CASES; k++) {
            const uint64_t seed = (uint64_t)(1000 * i + k);
            struct build b = build_start(seed);
            b.between_products = true;
            const int32_t output = op_cases[i].make(&b);
            struct hrf_graph *graph = build_finish(&b, &output, 1);
            int64_t n, n_full;
            float *full = run_graph(graph, "ref", 1, seed, 1, &n_full);
            float *ours = run_graph_in(graph, "cuda", precision, 1, seed, 3, &n, NULL);
            sum += relative_difference(ours, full, n_full);
            hrf_free(full);
            hrf_free(ours);
            hrf_graph_destroy(graph);
        }
        printf("%-5s %-20s on average %.1e from float32\n", precision, op_cases[i].name,
               sum / MOST_LOW_CASES);
        if (sum / MOST_LOW_CASES > limit)
            fail_msg("%s in %s: %g of the largest output from float32 on average, at most %g is "
                     "right",
                     op_cases[i].name, precision, sum / MOST_LOW_CASES, limit);
    }
}

static void int8_is_near_float32(void **state)
{
    (void)state;
    check_precision("int8", 0.08);
}

static void bf16_is_near_float32(void **state)
{
    (void)state;
    check_precision("bf16", 0.02);
}

static void fp16_is_near_float32(void **state)
{
    (void)state;
    check_precision("fp16", 0.003);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_agrees_with_the_reference),
        cmocka_unit_test(int8_is_near_float32),
        cmocka_unit_test(bf16_is_near_float32),
        cmocka_unit_test(fp16_is_near_float32),
    };
    return cmocka_run_group_tests(tests, put_it_in_place, tidy_up);
}
