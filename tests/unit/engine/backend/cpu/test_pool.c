/* Pooling over more channels than the CPU's loops take at a time, on the CPU and on ref. */
#include "tests/unit/unit.h"

#include "tests/ops/build.h"

/* The largest number is the same one; means are rounded once. */
static void check(const struct hrf_graph *graph, double limit)
{
    int64_t n, n_truth;
    HRF_AUTO_FREE float *truth = run_graph(graph, "ref", 1, 3, 1, &n_truth);
    for (int32_t n_threads = 1; n_threads <= 3; n_threads++) {
        HRF_AUTO_FREE float *y = run_graph(graph, "cpu", n_threads, 3, 2, &n);
        assert_int_equal(n, n_truth);
        assert_true(relative_difference(y, truth, n) <= limit);
    }
}

static void whole_images(enum hrf_op op, double limit)
{
    static const int64_t channels[] = { 1, 511, 512, 513, 1100 };
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
        struct build b = build_start(i);
        const int32_t x = build_input(&b, SHAPE(2, channels[i], 3, 5));
        const int32_t y = build_unary(&b, op, x);
        HRF_AUTO(hrf_graph) graph = build_finish(&b, &y, 1);
        check(graph, limit);
    }
}

static void whole_images_of_any_number_of_channels_are_pooled(void **state)
{
    (void)state;
    whole_images(HRF_OP_GLOBAL_MAX_POOL, 0);
    whole_images(HRF_OP_GLOBAL_AVERAGE_POOL, 1e-6);
}

static void windows_over_any_number_of_channels_are_pooled(void **state)
{
    (void)state;
    static const int64_t channels[] = { 15, 16, 17, 63, 64, 65, 150 };
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
        struct build b = build_start(i);
        struct hrf_attributes a = hrf_attributes_default();
        for (int axis = 0; axis < 2; axis++) {
            a.window.kernel[axis] = 3;
            a.window.stride[axis] = 1 + (int64_t)i % 3;
            a.window.dilation[axis] = 1 + axis;
            a.window.pad_begin[axis] = 1;
            a.window.pad_end[axis] = (int64_t)i % 2;
        }
        const int32_t x = build_input(&b, SHAPE(2, channels[i], 9, 11));
        const int32_t y = build_node(&b, HRF_OP_MAX_POOL, &x, 1, &a);
        HRF_AUTO(hrf_graph) graph = build_finish(&b, &y, 1);
        check(graph, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_images_of_any_number_of_channels_are_pooled),
        cmocka_unit_test(windows_over_any_number_of_channels_are_pooled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
