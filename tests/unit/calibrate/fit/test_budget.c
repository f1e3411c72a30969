/* Which layers leave INT8, computed by hand; and what their measurements look like when written and
 * read back. */
#include "base/strbuf.h"
#include "calibrate/fit/budget.h"
#include "calibrate/observe/observations.h"
#include "tests/unit/must.h"

#include <math.h>
#include <string.h>

/* A layer that was measured once on one image; times in ms. bf16_loss < 0: not measured. */
static void add(struct hrf_observations *o, const char *name, double loss, double bf16_loss,
                double int8, double fp32, double bf16)
{
    struct hrf_observed_layer *layer = hrf_observations_layer(o, name);
    layer->loss = loss;
    layer->n_images = layer->n_timed = 1;
    layer->bf16_loss = bf16_loss > 0 ? bf16_loss : 0;
    layer->n_bf16_images = bf16_loss >= 0;
    const double ms[] = { int8, fp32, bf16 };
    for (int k = 0; k < HRF_OBSERVE_TIMES; k++) {
        layer->seconds[k] = ms[k] / 1e3;
        o->seconds[k] += ms[k] / 1e3;
    }
    o->n_timed = 1;
}

static struct hrf_calibration *fit(const struct hrf_observations *o, double min)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_calibration *c = hrf_calloc(1, sizeof *c);
    assert_non_null(c);
    must(hrf_fit_budget(o, min, c, &err), &err);
    return c;
}

/* "NAME:PRECISION " of everything that left INT8. */
static void expect_kept(const struct hrf_calibration *c, const char *wanted)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    for (size_t i = 0; i < c->n_keep; i++)
        hrf_strbuf_addf(&text, "%s:%s ", c->keep[i].name, hrf_precision_name(c->keep[i].precision));
    assert_string_equal(text.text != NULL ? text.text : "", wanted);
}

static void what_loses_most_for_its_time_leaves_first(void **state)
{
    (void)state;
    struct hrf_observations o = { .loss = HRF_LOSS_COSINE };
    add(&o, "cheap", 1e-3, -1, 1, 2, 2);   /* 1 ms for 1e-3 */
    add(&o, "dear", 1e-3, -1, 1, 11, 11);  /* 10 ms for 1e-3 */
    add(&o, "slower", 1e-9, -1, 3, 2, 3);  /* INT8 loses time */
    add(&o, "harmless", 0, -1, 1, 1.5, 2); /* nothing to win */
    struct hrf_calibration *loose = fit(&o, 0.99), *middle = fit(&o, 0.9985), *strict = fit(&o, 1);
    expect_kept(loose, "slower:fp32 ");
    expect_kept(middle, "cheap:fp32 slower:fp32 ");
    expect_kept(strict, "cheap:fp32 dear:fp32 slower:fp32 ");
    assert_true(fabs(loose->budget.loss - 2e-3) < 1e-12 &&
                fabs(middle->budget.loss - 1e-3) < 1e-12 && strict->budget.loss == 0);
    assert_true(fabs(loose->budget.times.int8_ms - 5) < 1e-9); /* 6 less the 1 that it lost */
    assert_true(fabs(strict->budget.times.int8_ms - 16) < 1e-9);
    assert_non_null(strstr(loose->keep[0].reason, "INT8 is not faster here"));
    assert_non_null(strstr(middle->keep[0].reason, "over calibrate.budget: alone in INT8 it turns "
                                                   "the output by 1.00e-03"));
    assert_true(middle->keep[0].loss == 1e-3 && middle->keep[0].times.int8_ms == 1 &&
                middle->keep[0].times.fp32_ms == 2);
    HRF_AUTO_FREE char *few = hrf_fit_budget_text(loose), *all = hrf_fit_budget_text(strict);
    assert_null(strstr(few, "not faster"));
    assert_non_null(strstr(few, "a cosine of 0.99 allows"));
    struct hrf_observations other = { .loss = HRF_LOSS_COSINE };
    add(&other, "slow", 0, -1, 2, 1, 1);
    struct hrf_calibration *slow = fit(&other, 0.9);
    HRF_AUTO_FREE char *words = hrf_fit_budget_text(slow);
    assert_non_null(strstr(words, "INT8 is not faster than fp32 on this machine"));
    hrf_calibration_destroy(slow);
    hrf_observations_release(&other);
    hrf_calibration_destroy(loose);
    hrf_calibration_destroy(middle);
    hrf_calibration_destroy(strict);
    hrf_observations_release(&o);
}

static void bf16_is_taken_where_it_is_faster_and_within_the_budget(void **state)
{
    (void)state;
    struct hrf_observations o = { .loss = HRF_LOSS_COSINE };
    add(&o, "a", 1e-3, 1e-6, 1, 4, 2);
    add(&o, "b", 1e-3, 1e-6, 1, 4, 3.9); /* not clearly faster than FP32 */
    add(&o, "c", 1e-3, 2e-3, 1, 4, 2);   /* BF16 loses more than INT8 */
    struct hrf_calibration *max = fit(&o, 0.999998), *all = fit(&o, 0.9999999);
    expect_kept(max, "a:bf16 b:fp32 c:fp32 ");
    assert_true(fabs(max->budget.loss - 1e-6) < 1e-12);
    assert_int_equal(max->keep[0].precision, HRF_BF16);
    expect_kept(all, "a:fp32 b:fp32 c:fp32 "); /* BF16's own loss counts */
    hrf_calibration_destroy(max);
    hrf_calibration_destroy(all);
    hrf_observations_release(&o);
}

/* Margins of 1, 1, 1 and 3, moved by a normal distribution: with a deviation of 0.5 the share of
 * moves beyond 1 is 0.02275, with the root of 0.5 it is 0.07865, beyond 3 next to nothing. */
static void agreement_counts_the_margins_that_are_overcome(void **state)
{
    (void)state;
    struct hrf_observations o = { .loss = HRF_LOSS_MARGIN };
    for (int i = 0; i < 4; i++)
        hrf_observations_margin(&o, i < 3 ? 1 : 3);
    add(&o, "a", 0.25, -1, 1, 2, 3);
    add(&o, "b", 0.25, -1, 1, 3, 3);
    struct hrf_calibration *both = fit(&o, 0.94), *one = fit(&o, 0.98), *none = fit(&o, 0.99);
    expect_kept(both, "");
    assert_true(fabs(both->budget.loss - 0.75 * 0.07865) < 1e-4);
    expect_kept(one, "a:fp32 ");
    assert_true(fabs(one->budget.loss - 0.75 * 0.02275) < 1e-4);
    assert_true(fabs(one->keep[0].loss - 0.75 * 0.02275) < 1e-4);
    expect_kept(none, "a:fp32 b:fp32 ");
    assert_string_equal(none->budget.measure, "agreement");
    hrf_calibration_destroy(both);
    hrf_calibration_destroy(one);
    hrf_calibration_destroy(none);
    hrf_observations_release(&o);
}

static void a_budget_without_measurements_is_an_error(void **state)
{
    (void)state;
    struct hrf_observations o = { .loss = HRF_LOSS_COSINE };
    struct hrf_calibration c = { .n_keep = 0 };
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_fit_budget(&o, 0.9, &c, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "no layer was measured"));
}

static void measurements_and_choices_are_read_as_they_were_written(void **state)
{
    (void)state;
    struct hrf_observations o = { .loss = HRF_LOSS_MARGIN }, back = { .items = NULL };
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_FREE char *record = NULL;
    HRF_AUTO(hrf_calibration) read = NULL;
    hrf_observations_margin(&o, 1.25);
    add(&o, "a", 0.25, 0.0625, 1, 4, 2);
    o.lost = (struct hrf_observed_loss){ 2, 4, 0.5, 1.5, 2, 1 };
    HRF_AUTO_FREE char *text = hrf_observations_encode(&o);
    must(hrf_observations_decode(text, strlen(text), "test", &back, &err), &err);
    assert_true(back.loss == HRF_LOSS_MARGIN && back.n_margins == 1 && back.margins[0] == 1.25);
    assert_true(back.n_layers == 1 && back.layers[0].bf16_loss == 0.0625 &&
                back.layers[0].n_bf16_images == 1 && back.layers[0].seconds[2] == 2e-3);
    must(hrf_observations_merge(&back, &o, &err), &err);
    assert_true(back.lost.n_images == 4 && back.lost.signal == 8 && back.lost.noise == 1 &&
                back.lost.cosine == 3 && back.lost.n_labels == 4 && back.lost.n_changed == 2);
    assert_true(back.n_margins == 2 && back.layers[0].loss == 0.5 && back.n_timed == 2);

    struct hrf_calibration *c = fit(&back, 0.999);
    char hash[] = "00", *const texts[] = { hash, hash, hash, hash, hash, hash };
    c->key = hrf_strdup(texts[0]);
    c->method = hrf_strdup(texts[1]);
    c->graph = hrf_strdup(texts[2]);
    c->sample = hrf_strdup(texts[3]);
    c->engine = hrf_strdup(texts[4]);
    c->created = hrf_strdup(texts[5]);
    must(hrf_calibration_encode(c, &record, &err), &err);
    must(hrf_calibration_decode(record, strlen(record), "test", &read, &err), &err);
    assert_true(read->n_keep == 1 && read->keep[0].loss == c->keep[0].loss &&
                read->keep[0].precision == c->keep[0].precision &&
                read->keep[0].times.bf16_ms == c->keep[0].times.bf16_ms);
    assert_true(strcmp(read->budget.measure, "agreement") == 0 &&
                read->budget.loss == c->budget.loss && read->budget.min == 0.999);
    hrf_calibration_destroy(c);
    hrf_observations_release(&o);
    hrf_observations_release(&back);
}

/* Of 200 images: noise is a hundredth of the signal at 20 dB. */
static struct hrf_calibration *fit_lost(struct hrf_observations *o, double noise, int64_t changed)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_calibration *c = hrf_calloc(1, sizeof *c);
    o->lost = (struct hrf_observed_loss){ .n_images = 200,
                                          .signal = 1000,
                                          .noise = noise,
                                          .cosine = 150,
                                          .n_labels = 200,
                                          .n_changed = changed };
    must(hrf_fit_loss(o, c, &err), &err);
    return c;
}

static void a_loss_below_20_db_or_of_over_a_percent_of_labels_is_much(void **state)
{
    (void)state;
    static const struct {
        double noise;
        int64_t changed;
        bool is_much;
        const char *words;
    } cases[] = {
        { 0, 0, false, "INT8's output is FP32's" },
        { 9.9, 2, false, "20.0 dB of signal to noise and a mean cosine of 0.75000" },
        { 10.1, 0, true, "0 of 200 labels changed (0 %). That is much" },
        { 1, 3, true, "3 of 200 labels changed (1.5 %). That is much" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hrf_observations o = { .loss = HRF_LOSS_COSINE };
        HRF_AUTO(hrf_calibration) c = fit_lost(&o, cases[i].noise, cases[i].changed);
        HRF_AUTO_FREE char *words = hrf_fit_loss_text(c);
        assert_int_equal(hrf_fit_loss_is_large(c), cases[i].is_much);
        assert_non_null(strstr(words, cases[i].words));
        assert_true((strstr(words, "set calibrate.budget") != NULL) == cases[i].is_much);
    }
}

static void a_large_loss_says_what_a_budget_would_give(void **state)
{
    (void)state;
    struct hrf_observations o = { .loss = HRF_LOSS_COSINE };
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_FREE char *record = NULL;
    HRF_AUTO(hrf_calibration) read = NULL;
    add(&o, "bad", 0.5, 0, 1, 4, 5);
    add(&o, "good", 0.001, 0, 1, 4, 5);
    HRF_AUTO(hrf_calibration) c = fit_lost(&o, 500, 40);
    HRF_AUTO_FREE char *words = hrf_fit_loss_text(c);
    assert_non_null(strstr(words, "estimated with calibrate.budget: {cosine: 0.995}: "));
    assert_true(c->lost.n_left == 1 && c->n_keep == 0 && c->budget.measure == NULL);
    assert_true(c->lost.with_budget.loss > 0 && c->lost.with_budget.loss <= 0.005);
    char **texts[] = { &c->key, &c->method, &c->graph, &c->sample, &c->engine, &c->created };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        *texts[i] = hrf_strdup("00");
    must(hrf_calibration_encode(c, &record, &err), &err);
    must(hrf_calibration_decode(record, strlen(record), "test", &read, &err), &err);
    HRF_AUTO_FREE char *again = hrf_fit_loss_text(read);
    assert_string_equal(words, again);
    hrf_observations_release(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_loses_most_for_its_time_leaves_first),
        cmocka_unit_test(bf16_is_taken_where_it_is_faster_and_within_the_budget),
        cmocka_unit_test(agreement_counts_the_margins_that_are_overcome),
        cmocka_unit_test(a_budget_without_measurements_is_an_error),
        cmocka_unit_test(measurements_and_choices_are_read_as_they_were_written),
        cmocka_unit_test(a_loss_below_20_db_or_of_over_a_percent_of_labels_is_much),
        cmocka_unit_test(a_large_loss_says_what_a_budget_would_give),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
