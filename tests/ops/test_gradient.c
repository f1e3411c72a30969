/* Gradients of every operator that has one: those of the reference against differences of the loss,
 * and those of the CPU, or of the emulated GPU, against the reference's, in float32 and in BF16. */

#include "engine/ir/op.h"
#include "engine/passes/gradient/gradient.h"
#include "engine/run/nchw.h"
#include "engine/train/step.h"
#include "tests/emulated-cuda/in_place.h"
#include "tests/ops/cases.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of each row of the table, and more until each rule has one: some rows draw among operators. */
enum { CASES = 3 };

/* A case's graph of loss and gradients; NULL: its operator is one that is not trained through. */
static struct hrf_graph *make_case(const struct op_case *row, uint64_t seed, enum hrf_op *op,
                                   struct hrf_gradients *gradients)
{
    struct hrf_error err = { .status = HRF_OK };
    struct build b = build_start(seed);
    const int32_t output = row->make(&b);
    struct hrf_graph *graph = build_finish(&b, &output, 1);
    *op = graph->nodes[graph->values[graph->outputs[0]].producer].op;
    build_make_weights(graph);
    if (hrf_graph_infer_shapes(graph, &err) != HRF_OK)
        fail_msg("%s, seed %llu: %s", row->name, (unsigned long long)seed, err.text);
    const enum hrf_status status = hrf_pass_gradient(graph, HRF_LOSS_MSE, gradients, &err);
    if (status == HRF_OK && hrf_graph_infer_shapes(graph, &err) == HRF_OK)
        return graph;
    if (status != HRF_E_UNSUPPORTED && hrf_op_gradient(*op) != HRF_GRADIENT_ZERO)
        fail_msg("%s, seed %llu: %s", row->name, (unsigned long long)seed, err.text);
    hrf_graph_destroy(graph);
    return NULL;
}

/* Moves each weight by its gradient times its factor times `step`, and back with -step. */
static void move_weights(struct hrf_graph *graph, const struct hrf_gradients *gradients,
                         const float *numbers, const float *factors, double step)
{
    const float *gradient = numbers + 1;
    const float *factor = factors;
    for (int32_t i = 0; i < gradients->n; i++) {
        struct hrf_value *weight = &graph->values[hrf_graph_find_value(graph, gradients->names[i])];
        const int64_t n = hrf_shape_count(&weight->shape);
        float *to = weight->data, *as_onnx = hrf_alloc_array((size_t)n, sizeof *as_onnx);
        hrf_nchw_from_output(gradient, &weight->shape, as_onnx);
        for (int64_t k = 0; k < n; k++)
            to[k] += (float)(step * (double)factor[k] * (double)as_onnx[k]);
        hrf_free(as_onnx);
        gradient += n;
        factor += n;
    }
}

static double loss_of(struct hrf_graph *graph, uint64_t seed)
{
    const int32_t n_outputs = graph->n_outputs;
    int64_t n;
    graph->n_outputs = 1; /* nothing is computed for the gradients */
    float *numbers = run_graph(graph, "ref", 1, seed, 1, &n);
    const double loss = (double)numbers[0];
    hrf_free(numbers);
    graph->n_outputs = n_outputs;
    return loss;
}

/* The slope of the loss where every weight moves along its gradient, each number with a factor of
 * its own, against what the gradient says of it. */
static void check_slope(struct hrf_graph *graph, const struct op_case *row, uint64_t seed,
                        const struct hrf_gradients *gradients, const float *numbers, int64_t n)
{
    struct hrf_random random = hrf_random_init(seed);
    float *factors = hrf_alloc_array((size_t)n, sizeof *factors);
    double said = 0;
    const float *gradient = numbers + 1;
    int64_t at = 0;
    for (int32_t i = 0; i < gradients->n; i++) {
        const struct hrf_value *weight =
            &graph->values[hrf_graph_find_value(graph, gradients->names[i])];
        const int64_t count = hrf_shape_count(&weight->shape);
        float *as_onnx = hrf_alloc_array((size_t)count, sizeof *as_onnx);
        hrf_nchw_from_output(gradient + at, &weight->shape, as_onnx);
        for (int64_t k = 0; k < count; k++) {
            factors[at + k] = (float)hrf_random_unit(&random);
            said += (double)factors[at + k] * (double)as_onnx[k] * (double)as_onnx[k];
        }
        hrf_free(as_onnx);
        at += count;
    }
    const double loss = (double)numbers[0], step = 0.0005 * loss / said;
    move_weights(graph, gradients, numbers, factors, step);
    const double above = loss_of(graph, seed);
    move_weights(graph, gradients, numbers, factors, -2 * step);
    const double below = loss_of(graph, seed);
    const double seen = (above - below) / (2 * step);
    if (!(fabs(seen - said) <= 0.02 * said))
        fail_msg("%s, seed %llu: the loss rises by %g, the gradient says %g", row->name,
                 (unsigned long long)seed, seen, said);
    hrf_free(factors);
}

/* All gradients are 0: the loss stays where weights move a little. */
static void check_flat(struct hrf_graph *graph, const struct op_case *row, uint64_t seed,
                       const struct hrf_gradients *gradients, double loss)
{
    struct hrf_random random = hrf_random_init(seed);
    for (int32_t i = 0; i < gradients->n; i++) {
        struct hrf_value *weight = &graph->values[hrf_graph_find_value(graph, gradients->names[i])];
        float *numbers = weight->data;
        for (int64_t k = 0; k < hrf_shape_count(&weight->shape); k++)
            numbers[k] += (float)(0.01 * hrf_random_unit(&random));
    }
    const double moved = loss_of(graph, seed);
    if (!(fabs(moved - loss) <= 1e-5 * loss))
        fail_msg("%s, seed %llu: the gradient is 0, and the loss changes from %g to %g", row->name,
                 (unsigned long long)seed, loss, moved);
}

/* Of a function with steps: no small change of the input changes the output. */
static bool is_flat(enum hrf_op op)
{
    return op == HRF_OP_FLOOR || op == HRF_OP_CEIL || op == HRF_OP_ROUND || op == HRF_OP_SIGN;
}

static void gradients_are_the_slopes_of_the_loss(void **state)
{
    (void)state;
    int n_tried[HRF_N_GRADIENTS] = { 0 };
    for (int i = 0; i < n_op_cases; i++)
        for (int k = 0; k < op_cases[i].n_cases; k++) {
            const uint64_t seed = (uint64_t)(1000 * i + k);
            struct hrf_gradients gradients;
            enum hrf_op op;
            int64_t n, n_cpu;
            struct hrf_graph *graph = make_case(&op_cases[i], seed, &op, &gradients);
            if (graph == NULL)
                continue;
            if (k >= CASES && n_tried[hrf_op_gradient(op)] > 0) {
                hrf_gradients_release(&gradients);
                hrf_graph_destroy(graph);
                continue;
            }
            float *truth = run_graph(graph, "ref", 1, seed, 1, &n);
            float *two = run_graph(graph, "cpu", 2, seed, 2, &n_cpu);
            float *one = run_graph(graph, "cpu", 1, seed, 1, &n_cpu);
            const double apart = relative_difference(two + 1, truth + 1, n - 1);
            if (!(apart <= 2e-5))
                fail_msg("%s, seed %llu: the CPU's gradients are %g apart", op_cases[i].name,
                         (unsigned long long)seed, apart);
            assert_int_equal(n, n_cpu);
            assert_true(relative_difference(one + 1, truth + 1, n - 1) <= 2e-5);
            double most = 0;
            for (int64_t m = 1; m < n; m++)
                most = fmax(most, fabs((double)truth[m]));
            if (is_flat(op))
                assert_true(most == 0);
            else if (most < 1e-7)
                check_flat(graph, &op_cases[i], seed, &gradients, (double)truth[0]);
            else
                check_slope(graph, &op_cases[i], seed, &gradients, truth, n);
            n_tried[hrf_op_gradient(op)]++;
            hrf_free(truth);
            hrf_free(two);
            hrf_free(one);
            hrf_gradients_release(&gradients);
            hrf_graph_destroy(graph);
        }
    for (int rule = HRF_GRADIENT_FUNCTION; rule < HRF_N_GRADIENTS; rule++)
        if (n_tried[rule] == 0 && rule != HRF_GRADIENT_ALL_REDUCE) /* that is between ranks */
            fail_msg("no case of gradient rule %d", rule);
}

/* ---- steps ---- */

/* Between products, so that its values and their gradients go low; the gradients to them are those
 * to weights. */
static struct hrf_graph *make_between_products(const struct op_case *row, uint64_t seed)
{
    struct hrf_error err = { .status = HRF_OK };
    struct build b = build_start(seed);
    b.between_products = true;
    const int32_t output = row->make(&b);
    struct hrf_graph *graph = build_finish(&b, &output, 1);
    build_make_weights(graph);
    assert_int_equal(hrf_graph_infer_shapes(graph, &err), HRF_OK);
    return graph;
}

static void fill(struct hrf_random *random, float *numbers, const struct hrf_shape *shape)
{
    for (int64_t i = 0; i < hrf_shape_count(shape); i++)
        numbers[i] = (float)(hrf_random_unit(random) * 2 - 1);
}

static void run_once(struct hrf_train_step *step, const struct hrf_graph *network, uint64_t seed)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_random random = hrf_random_init(seed);
    double loss;
    for (int32_t i = 0; i < network->n_inputs; i++)
        fill(&random, hrf_train_step_input(step, i), &network->values[network->inputs[i]].shape);
    fill(&random, hrf_train_step_targets(step), hrf_train_step_target_shape(step));
    if (hrf_train_step_run(step, &loss, &err) != HRF_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
}

static void copy_gradients(struct hrf_train_step *step, float *to)
{
    for (int32_t i = 0; i < hrf_train_step_n_weights(step); i++) {
        const int64_t count = hrf_shape_count(&hrf_train_step_weights(step)[i].shape);
        memcpy(to, hrf_train_step_gradient(step, i), (size_t)count * sizeof *to);
        to += count;
    }
}

/* The gradients to all weights, one after the other, after a run and a change of the weights; a
 * device records its kernels then, and replays them in a third run, with the same bits. NULL: the
 * network is not trained through. Heap. */
static float *run_step(const struct hrf_graph *network, const char *device,
                       enum hrf_precision precision, int32_t n_threads, uint64_t seed, int64_t *n)
{
    const struct hrf_train_step_config config = {
        .device = device, .precision = precision, .loss = HRF_LOSS_MSE, .n_threads = n_threads
    };
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_train_step *step = NULL;
    const enum hrf_status status = hrf_train_step_create(network, &config, &step, &err);
    *n = 0;
    if (status == HRF_E_UNSUPPORTED || status == HRF_E_USER) /* the loss depends on no weights */
        return NULL;
    if (status != HRF_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    run_once(step, network, seed + 1);
    for (int32_t i = 0; i < hrf_train_step_n_weights(step); i++) {
        const struct hrf_trained_tensor *weights = &hrf_train_step_weights(step)[i];
        const int64_t count = hrf_shape_count(&weights->shape);
        for (int64_t k = 0; k < count; k++)
            weights->numbers[k] *= 1.03f;
        *n += count;
    }
    hrf_train_step_set_changed(step);
    float *gradients = hrf_calloc((size_t)*n + 1, sizeof *gradients);
    run_once(step, network, seed);
    copy_gradients(step, gradients);
    if (strcmp(device, "cuda") == 0) {
        float *again = hrf_calloc((size_t)*n + 1, sizeof *again);
        run_once(step, network, seed);
        copy_gradients(step, again);
        assert_memory_equal(again, gradients, (size_t)*n * sizeof *again);
        hrf_free(again);
    }
    hrf_train_step_destroy(step);
    return gradients;
}

/* Rounding decides which number is the greatest, or on which side of a step it lies. */
static bool is_stable(const struct op_case *row)
{
    return row->op != HRF_OP_MAX_POOL && row->op != HRF_OP_GLOBAL_MAX_POOL &&
           row->op != HRF_OP_FLOOR && row->op != HRF_OP_MAX && row->op != HRF_OP_REDUCE_MAX &&
           row->op != HRF_OP_DIV;
}

/* Whether the device has no kernel of a node for the gradients of this network: it names it. */
static bool is_refused(const struct hrf_graph *network)
{
    const struct hrf_train_step_config config = { .device = tested_device(), .loss = HRF_LOSS_MSE };
    struct hrf_train_step *step = NULL;
    struct hrf_error err = { .text = "" };
    if (hrf_train_step_create(network, &config, &step, &err) == HRF_OK) {
        hrf_train_step_destroy(step);
        return false;
    }
    return strstr(err.text, ": run it with --device cpu") != NULL;
}

static void steps_of_weights_that_change_are_those_of_the_reference(void **state)
{
    (void)state;
    int n_tried[HRF_N_GRADIENTS] = { 0 };
    for (int i = 0; i < n_op_cases; i++) {
        double worst = 0;
        int n_run = 0;
        for (int k = 0; k < op_cases[i].n_cases; k++) {
            const uint64_t seed = (uint64_t)(1000 * i + k);
            struct hrf_error err = { .status = HRF_OK };
            struct build b = build_start(seed);
            const int32_t output = op_cases[i].make(&b);
            struct hrf_graph *network = build_finish(&b, &output, 1);
            const enum hrf_op op = network->nodes[network->values[network->outputs[0]].producer].op;
            const enum hrf_gradient_rule rule = hrf_op_gradient(op);
            int64_t n, n_ours;
            build_make_weights(network);
            assert_int_equal(hrf_graph_infer_shapes(network, &err), HRF_OK);
            float *truth = network->n_inputs > 0 && (n_run < CASES || n_tried[rule] == 0)
                               ? run_step(network, "ref", HRF_FP32, 1, seed, &n)
                               : NULL;
            if (truth == NULL || is_refused(network)) {
                hrf_free(truth);
                hrf_graph_destroy(network);
                continue;
            }
            float *ours = run_step(network, tested_device(), HRF_FP32, 1, seed, &n_ours);
            assert_int_equal(n, n_ours);
            const double apart = relative_difference(ours, truth, n);
            if (!(apart <= 2e-5))
                fail_msg("%s, seed %llu: gradients on device %s are %g apart", op_cases[i].name,
                         (unsigned long long)seed, tested_device(), apart);
            worst = fmax(worst, apart);
            n_run++;
            n_tried[rule]++;
            hrf_free(truth);
            hrf_free(ours);
            hrf_graph_destroy(network);
        }
        if (n_run > 0)
            printf("%-20s %d cases, worst %.1e\n", op_cases[i].name, n_run, worst);
    }
    for (int rule = HRF_GRADIENT_FUNCTION; rule < HRF_N_GRADIENTS; rule++)
        if (n_tried[rule] == 0 && rule != HRF_GRADIENT_ALL_REDUCE) /* that is between ranks */
            fail_msg("no case of gradient rule %d has kernels on device %s", rule, tested_device());
}

static void bf16_gradients_are_those_of_the_reference(void **state)
{
    (void)state;
    for (int i = 0; i < n_op_cases; i++) {
        double sum = 0;
        int n_run = 0;
        for (int k = 0; k < op_cases[i].n_cases && n_run < 2; k++) {
            const uint64_t seed = (uint64_t)(1000 * i + k);
            int64_t n, n_one;
            struct hrf_graph *network = make_between_products(&op_cases[i], seed);
            float *truth = network->n_inputs > 0 ? run_step(network, "ref", HRF_BF16, 1, seed, &n)
                                                 : NULL;
            if (truth == NULL) {
                hrf_graph_destroy(network);
                continue;
            }
            float *full = run_step(network, "cpu", HRF_FP32, 1, seed, &n);
            float *two = run_step(network, tested_device(), HRF_BF16, 2, seed, &n);
            float *one = run_step(network, tested_device(), HRF_BF16, 1, seed, &n_one);
            const double apart = relative_difference(two, truth, n);
            if (is_stable(&op_cases[i]) && !(apart <= 0x1p-5))
                fail_msg("%s, seed %llu: gradients on device %s are %g apart", op_cases[i].name,
                         (unsigned long long)seed, tested_device(), apart);
            assert_int_equal(n, n_one);
            if (op_cases[i].same_on_any_threads)
                assert_memory_equal(one, two, (size_t)n * sizeof *one);
            sum += relative_difference(two, full, n);
            n_run++;
            hrf_free(truth);
            hrf_free(full);
            hrf_free(two);
            hrf_free(one);
            hrf_graph_destroy(network);
        }
        if (n_run > 0)
            printf("bf16 %-20s %d cases, from float32 on average %.1e\n", op_cases[i].name, n_run,
                   sum / n_run);
        if (n_run > 0 && is_stable(&op_cases[i]) && sum / n_run > 0.05)
            fail_msg("%s: %g of the largest gradient from float32 on average", op_cases[i].name,
                     sum / n_run);
    }
}

int main(void)
{
    const struct CMUnitTest of_reference[] = {
        cmocka_unit_test(gradients_are_the_slopes_of_the_loss),
    };
    const struct CMUnitTest of_device[] = {
        cmocka_unit_test(steps_of_weights_that_change_are_those_of_the_reference),
        cmocka_unit_test(bf16_gradients_are_those_of_the_reference),
    };
    const int failed = is_emulated() ? 0 : cmocka_run_group_tests(of_reference, NULL, NULL);
    return failed + cmocka_run_group_tests(of_device, put_device_in_place, tidy_up_device);
}
