/* Steps of training: a trainer whose kernels were made with older weights computes the bits of one
 * that is made with the new ones, for every operator that has a gradient; batch statistics; the
 * state; threads. */
#include "engine/train/trainer.h"

#include "engine/ir/op.h"
#include "tests/ops/cases.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CASES = 2 };

/* Every input but the first becomes a constant. */
static void keep_one_input(struct hrf_graph *graph, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    for (int32_t i = 1; i < graph->n_inputs; i++) {
        struct hrf_value *value = &graph->values[graph->inputs[i]];
        const int64_t n = hrf_shape_count(&value->shape);
        float *numbers = hrf_alloc_aligned((size_t)n * sizeof *numbers + 1, sizeof(void *));
        for (int64_t k = 0; k < n; k++)
            numbers[k] = (float)(hrf_random_unit(&random) + 0.25);
        value->data = numbers;
        hrf_value_own_data(value);
    }
    graph->n_inputs = 1;
}

static void fill(struct hrf_trainer *trainer, const struct hrf_shape *image, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    float *images = hrf_trainer_images(trainer), *targets = hrf_trainer_targets(trainer);
    for (int64_t k = 0; k < hrf_shape_count(image); k++)
        images[k] = (float)(hrf_random_unit(&random) + 0.25);
    for (int64_t k = 0; k < hrf_shape_count(hrf_trainer_target_shape(trainer)); k++)
        targets[k] = (float)hrf_random_unit(&random);
}

static double step(struct hrf_trainer *trainer, const struct hrf_shape *image, uint64_t seed,
                   const char *name)
{
    struct hrf_error err = { .status = HRF_OK };
    double loss = NAN;
    fill(trainer, image, seed);
    if (hrf_trainer_step(trainer, 0.01, &loss, &err) != HRF_OK)
        fail_msg("%s: %s", name, err.text);
    return loss;
}

static struct hrf_trainer *create(const struct hrf_graph *graph, const struct op_case *row,
                                  const struct hrf_trainer_config *config)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_trainer *trainer = NULL;
    const enum hrf_status status = hrf_trainer_create(graph, config, &trainer, &err);
    if (status != HRF_OK && status != HRF_E_UNSUPPORTED)
        fail_msg("%s: %s", row->name, err.text);
    return trainer;
}

static void same_weights(const struct hrf_trainer *a, const struct hrf_trainer *b, const char *name)
{
    struct hrf_strbuf of_a = HRF_STRBUF_INIT, of_b = HRF_STRBUF_INIT;
    hrf_trainer_append_state(a, &of_a);
    hrf_trainer_append_state(b, &of_b);
    assert_int_equal(of_a.length, of_b.length);
    /* The last eight bytes are the number of steps. */
    if (memcmp(of_a.text, of_b.text, of_a.length - sizeof(int64_t)) != 0)
        fail_msg("%s: other weights after the second step", name);
    hrf_strbuf_release(&of_a);
    hrf_strbuf_release(&of_b);
}

/* *op's steps: by one trainer, and by two of which the second is made with the weights that the
 * first leaves. False: it is not trained through. */
static bool check_steps(const struct op_case *row, uint64_t seed, enum hrf_op *op)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_trainer_config config = { .device = "cpu", .loss = HRF_LOSS_MSE, .n_threads = 2 };
    struct build b = build_start(seed);
    const int32_t output = row->make(&b);
    struct hrf_graph *graph = build_finish(&b, &output, 1), *trained = NULL;
    *op = graph->nodes[graph->values[graph->outputs[0]].producer].op;
    config.optimizer.kind = HRF_OPTIMIZER_SGD; /* without moments: the weights are all of it */
    keep_one_input(graph, seed);
    build_make_weights(graph);
    const struct hrf_shape image = graph->values[graph->inputs[0]].shape;
    struct hrf_trainer *whole = create(graph, row, &config), *second = NULL;
    if (whole != NULL) {
        step(whole, &image, seed, row->name);
        if (hrf_trainer_network(whole, &trained, &err) != HRF_OK)
            fail_msg("%s: %s", row->name, err.text);
        config.n_threads = 1;
        second = create(trained, row, &config);
        assert_non_null(second);
        const double expected = step(second, &image, seed + 1, row->name);
        const double loss = step(whole, &image, seed + 1, row->name);
        if (memcmp(&loss, &expected, sizeof loss) != 0)
            fail_msg("%s, seed %llu: the loss of the second step is %.9g, and %.9g by a trainer "
                     "that is made with these weights",
                     row->name, (unsigned long long)seed, loss, expected);
        same_weights(whole, second, row->name);
    }
    const bool is_trained = whole != NULL;
    hrf_trainer_destroy(whole);
    hrf_trainer_destroy(second);
    hrf_graph_destroy(trained);
    hrf_graph_destroy(graph);
    return is_trained;
}

static void changed_weights_are_those_of_a_new_session(void **state)
{
    (void)state;
    int n_tried[HRF_N_GRADIENTS] = { 0 };
    for (int i = 0; i < n_op_cases; i++)
        for (int k = 0; k < op_cases[i].n_cases && k < CASES; k++) {
            enum hrf_op op;
            if (check_steps(&op_cases[i], (uint64_t)(1000 * i + k), &op))
                n_tried[hrf_op_gradient(op)]++;
        }
    int n = 0;
    for (int rule = 0; rule < HRF_N_GRADIENTS; rule++)
        n += n_tried[rule] > 0;
    assert_true(n > HRF_N_GRADIENTS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changed_weights_are_those_of_a_new_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
