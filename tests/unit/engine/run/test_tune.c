/* Links as they are measured between two threads: whole tables in which larger takes longer. */
#include "engine/run/tune.h"

#include "tests/unit/unit.h"

static void a_loop_is_measured_over_all_sizes(void **state)
{
    (void)state;
    struct hrf_link link;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_tune_loop(1 << 20, &link, &err) != HRF_OK)
        fail_msg("%s", err.text);
    assert_string_equal(link.comm, "loop");
    assert_int_equal(link.placement, HRF_PLACEMENT_PROCESS);
    assert_int_equal(link.n_points, 8); /* 64 bytes to 1 MiB by 4 */
    for (int32_t i = 0; i < link.n_points; i++) {
        const struct hrf_link_point *p = &link.points[i];
        assert_true(p->send > 0 && p->transit >= 0 && p->receive > 0);
        assert_true(i == 0 || p->bytes == 4 * p[-1].bytes);
    }
    /* A copy of 1 MiB takes longer than one of 64 bytes on any machine. */
    assert_true(link.points[7].send > link.points[0].send);
    assert_true(link.points[7].receive > link.points[0].receive);
}

static void no_memory_ends_both_sides(void **state)
{
    (void)state;
    struct hrf_link link = { .n_points = -1 };
    struct hrf_error err = { .status = HRF_OK };
    /* Both sides take the same steps, so whichever allocation fails first tells the other. */
    for (int n = 1; n < 9; n++) {
        hrf_alloc_fail_after(n);
        const enum hrf_status status = hrf_tune_loop(4096, &link, &err);
        hrf_alloc_fail_after(0);
        assert_true(status == HRF_E_NOMEM || status == HRF_E_AGAIN);
        assert_int_equal(link.n_points, -1);
    }
}

static void copies_have_a_rate(void **state)
{
    (void)state;
    assert_true(hrf_tune_copy_rate() > 1e6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_is_measured_over_all_sizes),
        cmocka_unit_test(no_memory_ends_both_sides),
        cmocka_unit_test(copies_have_a_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
