/* Slide heads against PyTorch: tests/golden/heads/KIND.bin are losses, scores, attention and
 * gradients that tools/reference/head_goldens.py computed in double precision, on weights and bags
 * that both sides draw by the same numbers. */
#include "tests/unit/heads/model/golden.h"

#include "engine/run/session.h"
#include "engine/train/trainer.h"

#include <string.h>

static struct hrf_graph *step_network(const struct hrf_head *head, int64_t n, int64_t label)
{
    const struct hrf_head_step made = { .n = n, .label = label };
    struct hrf_graph *network = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_head_step_network(head, &made, &network, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return network;
}

/* A step on a bag, with dropout drawn by key 9 where the head has it. */
static struct hrf_train_step *run_step(const struct hrf_head *head, const float *bag, int64_t n,
                                       int64_t label, double class_weight, int n_threads,
                                       double *loss)
{
    const struct hrf_train_step_config config = {
        .device = "cpu", .loss = HRF_LOSS_LINEAR, .n_threads = n_threads, .tiles = { 1, 1 }
    };
    const struct hrf_head_step made = { .n = n, .label = label };
    struct hrf_train_step *step = NULL;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_graph) network = step_network(head, n, label);
    if (hrf_train_step_create(network, &config, &step, &err) != HRF_OK)
        fail_msg("%s", err.text);
    memcpy(hrf_train_step_images(step), bag, (size_t)(n * head->form.width) * sizeof *bag);
    for (int32_t i = 1; i < network->n_inputs; i++) {
        const struct hrf_shape *shape = &network->values[network->inputs[i]].shape;
        hrf_head_draw_dropout(head->form.dropout, 9, shape->dims[0], shape->dims[1],
                              hrf_train_step_input(step, i));
    }
    hrf_head_step_factors(head, &made, class_weight, hrf_train_step_targets(step));
    if (hrf_train_step_run(step, loss, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return step;
}

/* All gradients in the order of the parameters; 0 where the step has none. */
static float *gradients_of(const struct hrf_head *head, struct hrf_train_step *step)
{
    float *all = hrf_calloc((size_t)head->n_values, sizeof *all), *at = all;
    for (int32_t i = 0; i < head->n_parameters; i++) {
        const struct hrf_head_parameter *p = &head->parameters[i];
        const size_t n = (size_t)hrf_shape_count(&p->shape);
        for (int32_t k = 0; k < hrf_train_step_n_weights(step); k++)
            if (strcmp(hrf_train_step_weights(step)[k].name, p->name) == 0)
                memcpy(at, hrf_train_step_gradient(step, k), n * sizeof *at);
        at += n;
    }
    return all;
}

/* Scores and attention of the network of a file; the values of a golden after them. */
static const float *compare_outputs(const struct hrf_head *head, const float *bag, int64_t n,
                                    const float *v)
{
    const struct hrf_shape shape = { 2, { n, head->form.width } };
    const struct hrf_session_config config = { .device = "cpu", .precision = HRF_FP32 };
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_graph) network = NULL;
    HRF_AUTO(hrf_session) session = NULL;
    assert_int_equal(hrf_head_network(head, &network, NULL), HRF_OK);
    assert_int_equal(hrf_graph_set_input_shape(network, 0, &shape, NULL), HRF_OK);
    if (hrf_session_create(network, &config, &session, &err) != HRF_OK)
        fail_msg("%s", err.text);
    memcpy(hrf_session_input(session, 0), bag, (size_t)hrf_shape_count(&shape) * sizeof *bag);
    assert_int_equal(hrf_session_run(session, NULL), HRF_OK);
    for (int32_t i = 0; i < network->n_outputs; i++) {
        const size_t count = (size_t)hrf_shape_count(hrf_session_output_shape(session, i));
        assert_true(difference(hrf_session_output(session, i), v, count,
                               i == 0 ? 1 : largest(v, count)) < 1e-5F);
        v += count;
    }
    return v;
}

static void compare(const char *kind)
{
    struct golden g = load(kind);
    HRF_AUTO(hrf_head) head = make_head(g.head);
    const int64_t n = g.head[1], d = g.head[2];
    double loss = 0;
    float *bag = hrf_alloc((size_t)(n * d) * sizeof *bag);
    fill(bag, n * d, 5, 1);
    HRF_AUTO(hrf_train_step) step = run_step(head, bag, n, g.head[9], 1.5, 2, &loss);
    const float *v = g.values;
    assert_true(fabs(loss - (double)v[0]) < 1e-5 * fmax(1, fabs((double)v[0])));
    v = compare_outputs(head, bag, n, v + 1);
    assert_int_equal(g.n_values, v - g.values + head->n_values);
    HRF_AUTO_FREE float *all = gradients_of(head, step);
    const float *at = all;
    const float of_all = largest(v, (size_t)head->n_values);
    float worst = 0;
    for (int32_t i = 0; i < head->n_parameters; i++) {
        const size_t count = (size_t)hrf_shape_count(&head->parameters[i].shape);
        const float scale = fmaxf(largest(v, count), 1e-2F * of_all);
        const float error = difference(at, v, count, scale);
        if (error >= 1e-5F)
            print_message("%s: %s differs by %g of %g\n", kind, head->parameters[i].name,
                          (double)error, (double)scale);
        worst = fmaxf(worst, error);
        v += count;
        at += count;
    }
    print_message("%s: gradients differ by %.2g at most\n", kind, (double)worst);
    assert_true(worst < 1e-5F);
    hrf_free(bag);
    hrf_free(g.bytes);
}

static void gradients_are_pytorchs(void **state)
{
    (void)state;
    for (int i = 0; i < HRF_N_HEADS; i++)
        compare(hrf_head_kind_names[i]);
}

/* Gradients of a bag long enough for every way of cutting the work. */
static float *run_threads(enum hrf_head_kind kind, int n_threads, size_t *n)
{
    const struct hrf_head_form form = { .kind = kind,
                                        .width = 48,
                                        .n_classes = 2,
                                        .hidden = 64,
                                        .attention = 32,
                                        .landmarks = 16,
                                        .dropout = 0.25,
                                        .instance_weight = 0.3 };
    enum { BAG = 9000 };
    HRF_AUTO(hrf_head) head = NULL;
    double loss = 0;
    float *bag = hrf_alloc(BAG * 48 * sizeof *bag);
    fill(bag, BAG * 48, 3, 1);
    assert_int_equal(hrf_head_create(&form, 7, &head, NULL), HRF_OK);
    HRF_AUTO(hrf_train_step) step = run_step(head, bag, BAG, 0, 1, n_threads, &loss);
    *n = (size_t)head->n_values;
    hrf_free(bag);
    return gradients_of(head, step);
}

static void bits_do_not_depend_on_the_threads(void **state)
{
    (void)state;
    for (int kind = 0; kind < HRF_N_HEADS; kind++) {
        size_t n = 0;
        float *one = run_threads((enum hrf_head_kind)kind, 1, &n);
        float *three = run_threads((enum hrf_head_kind)kind, 3, &n);
        assert_true(largest(one, n) > 0);
        if (memcmp(one, three, n * sizeof *one) != 0)
            fail_msg("%s: other bits by three threads", hrf_head_kind_names[kind]);
        hrf_free(one);
        hrf_free(three);
    }
}

/* One trainer on bags of several lengths: the bits of trainers that begin with these weights and
 * this length; the instance classifier of the other class stays as it is. */
static void bags_of_other_lengths_are_trained_on(void **state)
{
    (void)state;
    const struct hrf_head_form form = { .kind = HRF_HEAD_CLAM_SB,
                                        .width = 20,
                                        .n_classes = 2,
                                        .hidden = 16,
                                        .attention = 8,
                                        .instance_weight = 0.3 };
    static const int64_t lengths[] = { 30, 7, 200 };
    struct hrf_trainer_config config = {
        .step = { .device = "cpu", .loss = HRF_LOSS_LINEAR, .n_threads = 2, .tiles = { 1, 1 } },
        .optimizer = hrf_optimizer_default(HRF_OPTIMIZER_ADAMW)
    };
    HRF_AUTO(hrf_head) head = NULL;
    HRF_AUTO(hrf_trainer) trainer = NULL;
    float bag[200 * 20];
    double loss = 0, alone = 0;
    fill(bag, 200 * 20, 3, 1);
    config.optimizer.decays_all = true;
    assert_int_equal(hrf_head_create(&form, 7, &head, NULL), HRF_OK);
    HRF_AUTO(hrf_graph) any = step_network(head, 1, -1);
    assert_int_equal(hrf_trainer_create(any, &config, &trainer, NULL), HRF_OK);
    struct hrf_train_step *step = hrf_trainer_next(trainer);
    assert_int_equal(hrf_train_step_n_weights(step), head->n_parameters);
    for (int i = 0; i < 3; i++) {
        const struct hrf_head_step made = { .n = lengths[i], .label = 1 };
        HRF_AUTO(hrf_graph) network = step_network(head, lengths[i], 1);
        HRF_AUTO(hrf_train_step) other = run_step(head, bag, lengths[i], 1, 1, 2, &alone);
        assert_int_equal(hrf_train_step_change(step, network, NULL), HRF_OK);
        memcpy(hrf_train_step_images(step), bag, (size_t)lengths[i] * 20 * sizeof *bag);
        hrf_head_step_factors(head, &made, 1, hrf_train_step_targets(step));
        assert_int_equal(hrf_trainer_step(trainer, 0.01, &loss, NULL), HRF_OK);
        assert_true(loss == alone);
        for (int32_t k = 0; k < head->n_parameters; k++) {
            const struct hrf_trained_tensor *w = &hrf_train_step_weights(step)[k];
            const size_t n_bytes = (size_t)hrf_shape_count(&w->shape) * sizeof(float);
            const bool is_other = strncmp(w->name, "instance_classifiers.0", 22) == 0;
            assert_string_equal(w->name, head->parameters[k].name);
            assert_int_equal(hrf_train_step_gradient(step, k) == NULL, is_other);
            assert_int_equal(memcmp(w->numbers, head->parameters[k].numbers, n_bytes) == 0,
                             is_other);
            memcpy(head->parameters[k].numbers, w->numbers, n_bytes);
        }
    }
}

static void dropout_is_a_function_of_its_key(void **state)
{
    (void)state;
    enum { ROWS = 100, COLUMNS = 70 };
    float all[ROWS * COLUMNS], some[10 * COLUMNS], other[ROWS * COLUMNS];
    int n_dropped = 0;
    hrf_head_draw_dropout(0.25, 5, ROWS, COLUMNS, all);
    hrf_head_draw_dropout(0.25, 5, 10, COLUMNS, some);
    hrf_head_draw_dropout(0.25, 6, ROWS, COLUMNS, other);
    assert_memory_equal(all, some, sizeof some);
    assert_memory_not_equal(all, other, sizeof all);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        assert_true(all[i] == 0 || fabsf(all[i] - 4.0F / 3) < 1e-6F);
        n_dropped += all[i] == 0;
    }
    assert_in_range(n_dropped, ROWS * COLUMNS / 5, ROWS * COLUMNS * 3 / 10);
}

static void sizes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct hrf_head *head = NULL;
    struct hrf_error err;
    struct hrf_head_form form = { .kind = HRF_HEAD_TRANSMIL, .width = 8, .n_classes = 2 };
    form.hidden = 12;
    assert_int_equal(hrf_head_create(&form, 1, &head, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "multiple of its heads (8)"));
    form = (struct hrf_head_form){ .kind = HRF_HEAD_ABMIL, .width = 8, .n_classes = 1 };
    assert_int_equal(hrf_head_create(&form, 1, &head, &err), HRF_E_USER);
    assert_null(head);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_pytorchs),
        cmocka_unit_test(bits_do_not_depend_on_the_threads),
        cmocka_unit_test(bags_of_other_lengths_are_trained_on),
        cmocka_unit_test(dropout_is_a_function_of_its_key),
        cmocka_unit_test(sizes_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
