/* Steps of training: a trainer whose kernels were made with older weights computes the bits of one
 * that is made with the new ones, for every operator that has a gradient, and on ranks; tiles. */
#include "engine/train/trainer.h"

#include "engine/ir/op.h"
#include "tests/ops/cases.h"
#include "tests/ops/nets.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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
        hrf_value_set_data(value, numbers);
    }
    graph->n_inputs = graph->n_inputs > 1 ? 1 : graph->n_inputs;
}

static void fill(struct hrf_trainer *trainer, const struct hrf_shape *image, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    struct hrf_train_step *step = hrf_trainer_next(trainer);
    float *images = hrf_train_step_images(step), *targets = hrf_train_step_targets(step);
    for (int64_t k = 0; k < hrf_shape_count(image); k++)
        images[k] = (float)(hrf_random_unit(&random) + 0.25);
    for (int64_t k = 0; k < hrf_shape_count(hrf_train_step_target_shape(step)); k++)
        targets[k] = (float)hrf_random_unit(&random);
}

static double run_step(struct hrf_trainer *trainer, const struct hrf_shape *image, uint64_t seed,
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
    if (status != HRF_OK && status != HRF_E_UNSUPPORTED &&
        hrf_op_gradient(row->op) != HRF_GRADIENT_ZERO)
        fail_msg("%s: %s", row->name, err.text);
    return trainer;
}

static void same_weights(struct hrf_trainer *a, const struct hrf_trainer *b, const char *name)
{
    struct hrf_strbuf of_a = HRF_STRBUF_INIT, of_b = HRF_STRBUF_INIT;
    hrf_trainer_append_state(a, &of_a);
    hrf_trainer_append_state(b, &of_b);
    assert_int_equal(of_a.length, of_b.length);
    /* The last numbers are those of steps. */
    const int32_t n = hrf_train_step_n_weights(hrf_trainer_next(a));
    if (memcmp(of_a.text, of_b.text, of_a.length - (size_t)n * sizeof(int64_t)) != 0)
        fail_msg("%s: other weights after the second step", name);
    hrf_strbuf_release(&of_a);
    hrf_strbuf_release(&of_b);
}

/* *op's steps: by one trainer, and by two of which the second is made with the weights that the
 * first leaves. False: it is not trained through. */
static bool check_steps(const struct op_case *row, uint64_t seed, enum hrf_precision precision,
                        enum hrf_op *op)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_trainer_config config = {
        .step = { .device = "cpu", .precision = precision, .loss = HRF_LOSS_MSE, .n_threads = 2 }
    };
    struct build b = build_start(seed);
    b.between_products = precision == HRF_BF16;
    const int32_t output = row->make(&b);
    struct hrf_graph *graph = build_finish(&b, &output, 1), *trained = NULL;
    *op = graph->nodes[graph->values[graph->outputs[0]].producer].op;
    config.optimizer.kind = HRF_OPTIMIZER_SGD; /* without moments: the weights are all of it */
    keep_one_input(graph, seed);
    build_make_weights(graph);
    const struct hrf_shape image = graph->n_inputs > 0 ? graph->values[graph->inputs[0]].shape
                                                       : (struct hrf_shape){ .rank = 0 };
    struct hrf_trainer *whole = graph->n_inputs > 0 ? create(graph, row, &config) : NULL;
    struct hrf_trainer *second = NULL;
    if (whole != NULL) {
        run_step(whole, &image, seed, row->name);
        if (hrf_trainer_network(whole, &trained, &err) != HRF_OK)
            fail_msg("%s: %s", row->name, err.text);
        config.step.n_threads = 1;
        second = create(trained, row, &config);
        assert_non_null(second);
        const double expected = run_step(second, &image, seed + 1, row->name);
        const double loss = run_step(whole, &image, seed + 1, row->name);
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
            if (check_steps(&op_cases[i], (uint64_t)(1000 * i + k), HRF_FP32, &op))
                n_tried[hrf_op_gradient(op)]++;
            if (k == 0)
                check_steps(&op_cases[i], (uint64_t)(1000 * i), HRF_BF16, &op);
        }
    int n = 0;
    for (int rule = 0; rule < HRF_N_GRADIENTS; rule++)
        n += n_tried[rule] > 0;
    assert_true(n > HRF_N_GRADIENTS / 2);
}

/* ---- tiles and ranks ---- */

/* `layout` NULL: on one rank. */
static struct hrf_train_step *create_step(const struct hrf_graph *graph,
                                          enum hrf_precision precision, uint64_t seed,
                                          const int32_t tiles[2],
                                          const struct hrf_layout_plan *layout)
{
    const struct hrf_train_step_config config = { .device = "cpu",
                                                  .precision = precision,
                                                  .loss = HRF_LOSS_MSE,
                                                  .n_threads = 2,
                                                  .layout = layout,
                                                  .tiles = { tiles[0], tiles[1] } };
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_train_step *step = NULL;
    const enum hrf_status status = hrf_train_step_create(graph, &config, &step, &err);
    if (status != HRF_OK && status != HRF_E_UNSUPPORTED && status != HRF_E_USER)
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    return step;
}

static double run_filled(struct hrf_train_step *step, const struct hrf_shape *image, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    struct hrf_error err = { .status = HRF_OK };
    double loss = NAN;
    for (int64_t k = 0; k < hrf_shape_count(image); k++)
        hrf_train_step_images(step)[k] = (float)(hrf_random_unit(&random) - 0.5);
    for (int64_t k = 0; k < hrf_shape_count(hrf_train_step_target_shape(step)); k++)
        hrf_train_step_targets(step)[k] = (float)hrf_random_unit(&random);
    if (hrf_train_step_run(step, &loss, &err) != HRF_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    return loss;
}

/* The largest difference of two steps' gradients over the largest gradient of the network. */
static double gradients_apart(struct hrf_train_step *a, struct hrf_train_step *b)
{
    double most = 0, apart = 0;
    assert_int_equal(hrf_train_step_n_weights(a), hrf_train_step_n_weights(b));
    for (int32_t i = 0; i < hrf_train_step_n_weights(a); i++) {
        const float *u = hrf_train_step_gradient(a, i), *v = hrf_train_step_gradient(b, i);
        for (int64_t k = 0; k < hrf_shape_count(&hrf_train_step_weights(a)[i].shape); k++) {
            most = fmax(most, fabs((double)u[k]));
            apart = fmax(apart, fabs((double)u[k] - (double)v[k]));
        }
    }
    return most > 0 ? apart / most : apart;
}

static void mark_weights(struct hrf_graph *graph)
{
    for (int32_t v = 0; v < graph->n_values; v++) {
        struct hrf_value *value = &graph->values[v];
        char name[32];
        value->is_initializer = value->data != NULL && value->producer < 0 &&
                                value->dtype == HRF_F32;
        snprintf(name, sizeof name, "value %d", (int)v); /* each has its own */
        hrf_free(value->name);
        value->name = hrf_strdup(name);
    }
}

/* False: the network is not trained through, or not in tiles. */
static bool check_tiles(uint64_t seed)
{
    const int32_t one[2] = { 1, 1 };
    struct hrf_random random = hrf_random_init(seed + 77);
    const int32_t tiles[2] = { 1 + (int32_t)(hrf_random_unit(&random) * 4),
                               2 + (int32_t)(hrf_random_unit(&random) * 3) };
    struct hrf_graph *graph = make_net(seed);
    struct hrf_train_step *whole = NULL, *tiled = NULL;
    mark_weights(graph);
    const struct hrf_shape image = graph->values[graph->inputs[0]].shape;
    if (graph->n_inputs == 1 && graph->n_outputs == 1)
        whole = create_step(graph, HRF_FP32, seed, one, NULL);
    if (whole != NULL)
        tiled = create_step(graph, HRF_FP32, seed, tiles, NULL);
    if (tiled != NULL) {
        const double a = run_filled(whole, &image, seed), b = run_filled(tiled, &image, seed);
        const double apart = gradients_apart(whole, tiled);
        if (!(fabs(a - b) <= 1e-5 * fabs(a)) || !(apart <= 2e-5))
            fail_msg("seed %llu, %d x %d tiles: loss %.9g in one piece and %.9g, gradients %g "
                     "apart (%s)",
                     (unsigned long long)seed, (int)tiles[0], (int)tiles[1], a, b, apart,
                     hrf_train_step_text(tiled));
    }
    const bool is_tried = tiled != NULL;
    hrf_train_step_destroy(whole);
    hrf_train_step_destroy(tiled);
    hrf_graph_destroy(graph);
    return is_tried;
}

static void tiles_give_the_gradients_of_the_whole(void **state)
{
    (void)state;
    enum { NETS = 60 };
    const char *from = getenv("HRF_TEST_TILES"); /* for a long search: the first seed */
    const uint64_t first = from != NULL ? strtoull(from, NULL, 10) : 0;
    int n_tried = 0;
    for (uint64_t seed = first; seed < first + NETS; seed++)
        n_tried += check_tiles(seed);
    print_message("%d networks in tiles\n", n_tried);
    assert_true(n_tried > NETS / 3);
}

static void change_weights(struct hrf_train_step *step)
{
    for (int32_t i = 0; i < hrf_train_step_n_weights(step); i++) {
        const struct hrf_trained_tensor *w = &hrf_train_step_weights(step)[i];
        for (int64_t k = 0; k < hrf_shape_count(&w->shape); k++)
            w->numbers[k] = 0.75f * w->numbers[k] + 0.125f;
    }
    hrf_train_step_set_changed(step);
}

/* False: the network is not trained through, or not by these ranks. */
static bool check_ranks(struct hrf_graph *graph, enum hrf_precision precision, uint64_t seed,
                        const char *text)
{
    const int32_t one[2] = { 1, 1 };
    /* In BF16 a number that lies between two is rounded either way. */
    const double limit = precision == HRF_BF16 ? 0.02 : 2e-5;
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_layout_plan layout;
    struct hrf_train_step *alone = NULL, *ranked = NULL;
    assert_int_equal(hrf_layout_parse(text, &layout, &err), HRF_OK);
    mark_weights(graph);
    const struct hrf_shape image = graph->values[graph->inputs[0]].shape;
    if (graph->n_inputs == 1 && graph->n_outputs == 1)
        alone = create_step(graph, precision, seed, one, NULL);
    if (alone != NULL)
        ranked = create_step(graph, precision, seed, one, &layout);
    for (int run = 0; run < 2 && ranked != NULL; run++) {
        const double a = run_filled(alone, &image, seed), b = run_filled(ranked, &image, seed);
        const double apart = gradients_apart(alone, ranked);
        if (!(fabs(a - b) <= limit / 2 * fabs(a)) || !(apart <= limit))
            fail_msg("seed %llu, %s, run %d: loss %.9g on one rank and %.9g, gradients %g apart",
                     (unsigned long long)seed, text, run, a, b, apart);
        change_weights(alone);
        change_weights(ranked);
    }
    const bool is_tried = ranked != NULL;
    hrf_train_step_destroy(alone);
    hrf_train_step_destroy(ranked);
    hrf_graph_destroy(graph);
    return is_tried;
}

/* Each has a piece of the memory in which the numbers of the tokens' places change. */
static void ranks_that_share_tokens_have_the_changed_weights(void **state)
{
    (void)state;
    enum { NETS = 20 };
    int n_tried = 0;
    for (uint64_t seed = 0; seed < NETS; seed++)
        n_tried += check_ranks(make_exported_transformer(seed), HRF_FP32, seed,
                               seed % 2 == 0 ? "spatial=2" : "spatial=3,stages=2");
    print_message("%d networks on ranks\n", n_tried);
    assert_true(n_tried > NETS / 3);
}

static void ranks_compute_bf16_as_one_does(void **state)
{
    (void)state;
    enum { NETS = 12 };
    int n_tried = 0;
    for (uint64_t seed = 0; seed < NETS; seed++)
        n_tried += check_ranks(seed % 4 == 0 ? make_exported_transformer(seed) : make_net(seed),
                               HRF_BF16, seed, seed % 3 == 0 ? "spatial=2,stages=2" : "spatial=2");
    print_message("%d networks on ranks\n", n_tried);
    assert_true(n_tried > NETS / 3);
}

/* ---- numbers that are not finite ---- */

static void weights_that_are_not_finite_end_a_step(void **state)
{
    (void)state;
    struct hrf_trainer_config config = {
        .step = { .device = "cpu", .loss = HRF_LOSS_MSE, .n_threads = 2 }
    };
    struct hrf_error err = { .status = HRF_OK };
    struct build b = build_start(1);
    const int32_t output = op_cases[0].make(&b);
    struct hrf_graph *graph = build_finish(&b, &output, 1);
    config.optimizer.kind = HRF_OPTIMIZER_SGD;
    keep_one_input(graph, 1);
    build_make_weights(graph);
    struct hrf_trainer *trainer = NULL;
    double loss = NAN;
    assert_int_equal(hrf_trainer_create(graph, &config, &trainer, &err), HRF_OK);
    fill(trainer, &graph->values[graph->inputs[0]].shape, 1);
    assert_int_equal(hrf_trainer_step(trainer, 1e300, &loss, &err), HRF_E_USER);
    assert_true(isfinite(loss));
    assert_non_null(strstr(err.text, "step 1 makes the weights '"));
    hrf_trainer_destroy(trainer);
    hrf_graph_destroy(graph);
}

/* ---- statistics of the batch ---- */

/* Two norms, of which the second has inputs that depend on the first. */
static struct hrf_graph *make_normalised(void)
{
    struct build b = build_start(11);
    const int32_t x = build_input(&b, SHAPE(4, 3, 9, 8));
    int32_t y = build_batch_norm(&b, build_plain_conv(&b, x, 3, 6, 3, 1, false), 6);
    y = build_plain_conv(&b, build_unary(&b, HRF_OP_SIGMOID, y), 6, 4, 3, 2, true);
    y = build_unary(&b, HRF_OP_GLOBAL_AVERAGE_POOL, build_batch_norm(&b, y, 4));
    struct hrf_graph *graph = build_finish(&b, &y, 1);
    mark_weights(graph);
    return graph;
}

static struct hrf_train_step *create_ranks(const struct hrf_graph *graph, const char *layout,
                                           struct hrf_error *err)
{
    struct hrf_layout_plan plan;
    struct hrf_train_step *step = NULL;
    if (hrf_layout_parse(layout, &plan, err) != HRF_OK)
        fail_msg("%s", err->text);
    const struct hrf_train_step_config config = {
        .device = "cpu", .loss = HRF_LOSS_MSE, .uses_batch = true, .n_threads = 1, .layout = &plan
    };
    return hrf_train_step_create(graph, &config, &step, err) == HRF_OK ? step : NULL;
}

static void groups_compute_with_the_statistics_of_the_batch(void **state)
{
    (void)state;
    static const char *const layouts[] = { "data=2", "data=4", "data=2,spatial=2",
                                           "data=2,stages=2" };
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_graph) graph = make_normalised();
    const struct hrf_shape image = graph->values[graph->inputs[0]].shape;
    HRF_AUTO(hrf_train_step) one = create_ranks(graph, "single", &err);
    assert_non_null(one);
    const double loss = run_filled(one, &image, 3);
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        HRF_AUTO(hrf_train_step) groups = create_ranks(graph, layouts[i], &err);
        if (groups == NULL)
            fail_msg("%s: %s", layouts[i], err.text);
        assert_true(fabs(run_filled(groups, &image, 3) - loss) <= 1e-6 * fabs(loss));
        assert_true(gradients_apart(one, groups) <= 1e-5);
        assert_int_equal(hrf_train_step_n_statistics(groups), 4);
        for (int32_t k = 0; k < 4; k++) {
            const struct hrf_shape *shape = &hrf_train_step_statistics(one)[k].shape;
            assert_int_equal(hrf_train_step_statistics_count(groups, k),
                             hrf_train_step_statistics_count(one, k));
            for (int64_t c = 0; c < hrf_shape_count(shape); c++)
                assert_true(fabs((double)hrf_train_step_batch_statistics(groups, k)[c] -
                                 (double)hrf_train_step_batch_statistics(one, k)[c]) < 1e-6);
        }
    }
    assert_null(create_ranks(graph, "data=3", &err));
    assert_non_null(strstr(err.text, "a batch of 6 would do"));
    assert_null(create_ranks(graph, "stages=2,microbatches=2", &err));
    assert_non_null(strstr(err.text, "pass a layer one after the other"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changed_weights_are_those_of_a_new_session),
        cmocka_unit_test(tiles_give_the_gradients_of_the_whole),
        cmocka_unit_test(ranks_that_share_tokens_have_the_changed_weights),
        cmocka_unit_test(ranks_compute_bf16_as_one_does),
        cmocka_unit_test(weights_that_are_not_finite_end_a_step),
        cmocka_unit_test(groups_compute_with_the_statistics_of_the_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
