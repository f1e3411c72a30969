/* The optimisers against their formulas in double, written out for one number at a time. */
#include "engine/train/optimizer.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

enum { N = 40000, STEPS = 5 };

static float gradient_at(int64_t i, int step)
{
    return (float)sin(0.37 * (double)i + step) * (i % 7 == 0 ? 0 : 1);
}

struct expected {
    double w, first, second;
};

static void move_expected(const struct hrf_optimizer_config *c, struct expected *e, double g,
                          int step, double rate, double decay, double trust)
{
    if (c->kind == HRF_OPTIMIZER_SGD) {
        g += decay * e->w;
        e->first = step == 1 ? g : c->momentum * e->first + g;
        e->w -= rate * (c->uses_nesterov ? g + c->momentum * e->first : e->first);
        return;
    }
    if (c->couples_decay) {
        g += decay * e->w;
        decay = 0;
    }
    e->first = c->beta1 * e->first + (1 - c->beta1) * g;
    e->second = c->beta2 * e->second + (1 - c->beta2) * g * g;
    const double m = e->first / (1 - pow(c->beta1, step)),
                 v = e->second / (1 - pow(c->beta2, step));
    const double direction = m / (sqrt(v) + c->epsilon);
    if (c->kind == HRF_OPTIMIZER_ADAMW)
        e->w = e->w * (1 - rate * decay) - rate * direction;
    else
        e->w -= rate * trust * (direction + decay * e->w);
}

/* LAMB's ratio of norms, from the moments before the step. */
static double trust_of(const struct hrf_optimizer_config *c, const struct expected *all, int step,
                       double decay)
{
    double of_w = 0, of_update = 0;
    if (c->kind != HRF_OPTIMIZER_LAMB || decay == 0)
        return 1;
    for (int64_t i = 0; i < N; i++) {
        struct expected e = all[i];
        const double before = e.w;
        move_expected(c, &e, (double)gradient_at(i, step), step, 1, decay, 1);
        of_w += before * before;
        of_update += (before - e.w) * (before - e.w);
    }
    return sqrt(of_w / of_update);
}

static void check(struct hrf_optimizer_config config, int32_t n_axes)
{
    struct hrf_optimizer *optimizer = NULL;
    config.weight_decay = 0.1;
    config.average = 0.5;
    float *w = hrf_alloc_array(N, sizeof *w), *g = hrf_alloc_array(N, sizeof *g);
    double *average = hrf_alloc_array(N, sizeof *average);
    struct expected *all = hrf_calloc(N, sizeof *all);
    const double decay = n_axes > 1 || config.decays_all ? config.weight_decay : 0;
    for (int64_t i = 0; i < N; i++) {
        w[i] = (float)cos(0.11 * (double)i);
        all[i].w = average[i] = (double)w[i];
    }
    const struct hrf_trained_weights weights = { .numbers = w, .n = N, .n_axes = n_axes };
    assert_int_equal(hrf_optimizer_create(&config, &weights, 1, &optimizer, NULL), HRF_OK);
    for (int step = 1; step <= STEPS; step++) {
        const double trust = trust_of(&config, all, step, decay);
        for (int64_t i = 0; i < N; i++)
            g[i] = gradient_at(i, step);
        hrf_optimizer_begin(optimizer, 0.01, sqrt(hrf_sum_of_squares(g, N)));
        hrf_optimizer_update(optimizer, 0, g);
        for (int64_t i = 0; i < N; i++) {
            move_expected(&config, &all[i], (double)g[i], step, 0.01, decay, trust);
            average[i] += (all[i].w - average[i]) * 0.5;
        }
    }
    for (int64_t i = 0; i < N; i++) {
        assert_true(fabs((double)w[i] - all[i].w) <= 2e-6);
        assert_true(fabs((double)hrf_optimizer_average(optimizer, 0)[i] - average[i]) <= 2e-6);
    }
    hrf_optimizer_destroy(optimizer);
    hrf_free(w);
    hrf_free(g);
    hrf_free(average);
    hrf_free(all);
}

static void steps_are_those_of_the_formulas(void **state)
{
    (void)state;
    for (int kind = 0; kind <= HRF_OPTIMIZER_LAMB; kind++) {
        struct hrf_optimizer_config config = hrf_optimizer_default(kind);
        check(config, 2);
        check(config, 1);
        config.decays_all = true;
        check(config, 1);
    }
    struct hrf_optimizer_config adam = hrf_optimizer_default(HRF_OPTIMIZER_ADAMW);
    adam.couples_decay = true;
    check(adam, 2);
}

/* They decay no more than they move, and their count of steps stands still: the first gradient is
 * corrected as a first one. */
static void weights_without_a_gradient_stay_as_they_are(void **state)
{
    (void)state;
    struct hrf_optimizer_config config = hrf_optimizer_default(HRF_OPTIMIZER_ADAMW);
    struct hrf_optimizer *optimizer = NULL;
    float w[2][2] = { { 1, 1 }, { 1, 1 } };
    const float g[2] = { 0.01F, -0.01F };
    const struct hrf_trained_weights weights[2] = { { .numbers = w[0], .n = 2, .n_axes = 2 },
                                                    { .numbers = w[1], .n = 2, .n_axes = 2 } };
    config.weight_decay = 0.5;
    assert_int_equal(hrf_optimizer_create(&config, weights, 2, &optimizer, NULL), HRF_OK);
    for (int step = 0; step < 2; step++) {
        hrf_optimizer_begin(optimizer, 0.125, 1);
        hrf_optimizer_update(optimizer, 0, g);
    }
    assert_true(w[1][0] == 1 && w[1][1] == 1);
    hrf_optimizer_begin(optimizer, 0.125, 1);
    hrf_optimizer_update(optimizer, 1, g);
    assert_true(fabs((double)w[1][0] - (0.9375 - 0.125)) < 1e-5);
    assert_true(fabs((double)w[1][1] - (0.9375 + 0.125)) < 1e-5);
    assert_int_equal(hrf_optimizer_steps(optimizer), 2);
    hrf_optimizer_destroy(optimizer);
}

/* A norm of 5 is cut to 1: the step of the clipped gradient. */
static void gradients_are_clipped(void **state)
{
    (void)state;
    struct hrf_optimizer_config config = { .kind = HRF_OPTIMIZER_SGD, .clip_norm = 1 };
    struct hrf_optimizer *optimizer = NULL;
    float w[2] = { 0, 0 };
    const float g[2] = { 3, 4 };
    const struct hrf_trained_weights weights = { .numbers = w, .n = 2, .n_axes = 1 };
    assert_int_equal(hrf_optimizer_create(&config, &weights, 1, &optimizer, NULL), HRF_OK);
    hrf_optimizer_begin(optimizer, 1, sqrt(hrf_sum_of_squares(g, 2)));
    hrf_optimizer_update(optimizer, 0, g);
    assert_true(fabs((double)w[0] + 0.6) < 1e-6 && fabs((double)w[1] + 0.8) < 1e-6);
    hrf_optimizer_destroy(optimizer);
}

static void numbers_that_are_not_finite_show_in_the_sum(void **state)
{
    (void)state;
    const float numbers[3] = { 1, NAN, 2 };
    assert_true(isnan(hrf_sum_of_squares(numbers, 3)) != 0);
    assert_true(hrf_sum_of_squares(numbers, 1) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_the_formulas),
        cmocka_unit_test(weights_without_a_gradient_stay_as_they_are),
        cmocka_unit_test(gradients_are_clipped),
        cmocka_unit_test(numbers_that_are_not_finite_show_in_the_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
