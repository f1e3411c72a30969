/* Signal to noise of every layer: known numbers, and a network in every precision. */
#include "engine/run/noise.h"

#include "tests/ops/build.h"
#include "tests/unit/unit.h"

#include <math.h>

static struct hrf_graph *make_graph(void)
{
    struct build b = build_start(4);
    const int32_t x = build_input(&b, SHAPE(1, 8, 12, 12));
    const int32_t first = build_unary(&b, HRF_OP_RELU, build_plain_conv(&b, x, 8, 16, 3, 1, true));
    const int32_t second = build_plain_conv(&b, first, 16, 8, 1, 1, true);
    return build_finish(&b, &second, 1);
}

static struct hrf_session *open(const struct hrf_graph *graph, enum hrf_precision precision)
{
    /* More ranges than there are values, by the names that build.h and the passes give. */
    struct hrf_session_config config = { .device = "ref", .precision = precision, .n_threads = 1 };
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_session *session = NULL;
    struct hrf_range ranges[64];
    assert_true(graph->n_values <= 64);
    for (int32_t i = 0; i < graph->n_values; i++)
        ranges[i] = (struct hrf_range){ .value = graph->values[i].name, .low = -4, .high = 4 };
    config.ranges = ranges;
    config.n_ranges = graph->n_values;
    if (hrf_session_create(graph, &config, &session, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return session;
}

static void run(struct hrf_session *session)
{
    struct hrf_random random = hrf_random_init(9);
    float *x = hrf_session_input(session, 0);
    const int64_t n = hrf_shape_count(hrf_session_input_shape(session, 0));
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(hrf_random_unit(&random) * 4 - 2);
    assert_int_equal(hrf_session_run(session, NULL), HRF_OK);
}

/* The least of all tensors' but the input's; fails when one has not been compared. */
static double least_sqnr(enum hrf_precision precision, int32_t *n)
{
    HRF_AUTO(hrf_graph) graph = make_graph();
    struct hrf_noise noise = { .items = NULL };
    HRF_AUTO(hrf_session) full = open(graph, HRF_FP32);
    HRF_AUTO(hrf_session) low = open(graph, precision);
    hrf_noise_record(full, &noise);
    run(full);
    hrf_noise_compare(low, &noise);
    run(low);
    double least = INFINITY;
    *n = noise.n_items;
    for (int32_t i = 0; i < noise.n_items; i++) {
        assert_true(noise.items[i].is_compared);
        least = fmin(least, noise.items[i].sqnr_db);
    }
    hrf_noise_release(&noise);
    return least;
}

/* 11, 8 and about 8 bits of precision; a bit is 6 dB. */
static void fewer_bits_make_more_noise(void **state)
{
    (void)state;
    int32_t n;
    const double fp16 = least_sqnr(HRF_FP16, &n), bf16 = least_sqnr(HRF_BF16, &n);
    const double int8 = least_sqnr(HRF_INT8, &n);
    assert_int_equal(n, 3); /* the input and two fused convolutions */
    assert_true(fp16 > 60 && fp16 < 85);
    assert_true(bf16 > 42 && bf16 < 65);
    assert_true(int8 > 20 && int8 < 45);
}

static void the_same_precision_makes_none(void **state)
{
    (void)state;
    int32_t n;
    assert_true(isinf(least_sqnr(HRF_FP32, &n)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fewer_bits_make_more_noise),
        cmocka_unit_test(the_same_precision_makes_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
