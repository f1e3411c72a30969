/* The line of time of a run's jobs: pauses are cut out, jobs tell their own times. */
#include "aggregate/report/page_timeline.h"

#include "tests/unit/unit.h"

static void pauses_are_cut_out(void **state)
{
    (void)state;
    char a[] = "tile-0001", b[] = "tile-0002", c[] = "infer-0003", d[] = "infer-0004";
    struct hrf_cohort_job jobs[] = {
        { .job_id = c, .submitted_ms = 900000, .ended_ms = 910000, .has_ended = true },
        { .job_id = a,
          .submitted_ms = 100000,
          .ended_ms = 130000,
          .has_ended = true,
          .usage = { .started_ms = 105000, .finished_ms = 129000 } },
        { .job_id = b, .submitted_ms = 110000, .ended_ms = 115000, .has_ended = true },
        { .job_id = d, .submitted_ms = 905000 }, /* it runs */
    };
    const struct hrf_cohort cohort = { .jobs = jobs, .n_jobs = 4 };
    struct hrf_timeline t = hrf_timeline_make(&cohort);
    assert_int_equal(t.n, 3);
    assert_string_equal(t.jobs[0]->job_id, "tile-0001");
    assert_string_equal(t.jobs[2]->job_id, "infer-0003");
    assert_true(t.from_ms == 100000 && t.to_ms == 910000);
    assert_int_equal(t.n_gaps, 1);
    assert_true(t.gaps[0].from_ms == 129000 && t.gaps[0].to_ms == 900000);
    assert_true(hrf_timeline_at(&t, 105000) == 5000 && hrf_timeline_at(&t, 129000) == 29000);
    assert_true(hrf_timeline_at(&t, 500000) == 29000 && hrf_timeline_at(&t, 900000) == 29000);
    assert_true(hrf_timeline_at(&t, 910000) == 39000);
    assert_true(hrf_cohort_job_start(t.jobs[0]) == 105000 &&
                hrf_cohort_job_end(t.jobs[0]) == 129000);
    assert_true(hrf_cohort_job_start(t.jobs[1]) == 110000 &&
                hrf_cohort_job_end(t.jobs[1]) == 115000);
    hrf_timeline_release(&t);
    const struct hrf_cohort none = { .n_jobs = 0 };
    t = hrf_timeline_make(&none);
    assert_true(t.n == 0 && t.n_gaps == 0);
    hrf_timeline_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(pauses_are_cut_out) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
