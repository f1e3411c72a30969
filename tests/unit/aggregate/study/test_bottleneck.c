/* What a run spent its time on, by value. */
#include "aggregate/study/bottleneck.h"

#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

static struct hrf_cohort_precision precision(double build, double wait, double compute)
{
    return (struct hrf_cohort_precision){ .jobs.timing = { .build = build,
                                                           .wait = wait,
                                                           .compute = compute,
                                                           .total = build + wait + compute } };
}

static void the_longest_part_of_the_longest_phase(void **state)
{
    (void)state;
    struct hrf_phase_row phases[] = { { .name = "tile", .seconds = 3 },
                                      { .name = "infer", .seconds = 7 } };
    struct hrf_cohort_precision p[] = { precision(1, 5, 2), precision(1, 1, 0) };
    struct hrf_cohort cohort = {
        .phases = phases, .n_phases = 2, .precisions = p, .n_precisions = 2
    };
    struct hrf_bottleneck b = hrf_cohort_bottleneck(&cohort);
    assert_int_equal(b.kind, HRF_BOTTLENECK_READING);
    assert_true(fabs(b.share - 0.6) < 1e-12);
    assert_string_equal(b.key, "executor.max_jobs");
    assert_non_null(strstr(b.sentence, "60 % of the time of its inference jobs went into reading"));
    cohort.is_slurm = true;
    assert_string_equal(hrf_cohort_bottleneck(&cohort).key, "executor.slurm.cpus_per_rank");
    phases[0].seconds = 21;
    b = hrf_cohort_bottleneck(&cohort);
    assert_int_equal(b.kind, HRF_BOTTLENECK_TILING);
    assert_string_equal(b.sentence, "75 % of the time of its phases went into tiling slides; more "
                                    "jobs tile more slides at once: executor.max_jobs.");
}

static void a_queue_counts_under_a_scheduler_only(void **state)
{
    (void)state;
    struct hrf_cohort_precision p = precision(0, 0, 5);
    struct hrf_cohort_job jobs[] = {
        { .submitted_ms = 1000, .usage = { .started_ms = 9000, .finished_ms = 10000 } },
        { .submitted_ms = 1000, .usage = { .started_ms = 2000, .finished_ms = 3000 } },
        { .submitted_ms = 1000 } /* told nothing */
    };
    struct hrf_cohort cohort = {
        .jobs = jobs, .n_jobs = 3, .is_slurm = true, .precisions = &p, .n_precisions = 1
    };
    const struct hrf_bottleneck b = hrf_cohort_bottleneck(&cohort);
    assert_int_equal(b.kind, HRF_BOTTLENECK_QUEUE);
    assert_true(fabs(b.share - 9.0 / 11.0) < 1e-12);
    cohort.is_slurm = false;
    assert_int_equal(hrf_cohort_bottleneck(&cohort).kind, HRF_BOTTLENECK_COMPUTE);
    /* Four ranks for two seconds each. */
    p.jobs.timing = (struct hrf_timing){ .build = 2, .compute = 8, .total = 4 };
    assert_true(fabs(hrf_cohort_bottleneck(&cohort).share - 0.8) < 1e-12);
    p.jobs.timing = (struct hrf_timing){ .total = 0 };
    assert_int_equal(hrf_cohort_bottleneck(&cohort).kind, HRF_BOTTLENECK_UNKNOWN);
    assert_string_equal(hrf_cohort_bottleneck(&cohort).sentence, "");
}

static void the_faster_of_readers_and_network_waits(void **state)
{
    (void)state;
    /* 100 patches in two precisions, in halves; 4 readers, each 2 s with them, of two ranks of
     * which the first read 40; the network of each 6 s a precision. */
    struct hrf_cohort_precision p[2] = {
        { .jobs.n_patches = 100,
          .jobs.n_readers = 4,
          .jobs.timing = { .decode = 3, .prepare = 1, .compute = 6, .reads = 50, .fed = 20 } },
    };
    p[1] = p[0];
    const struct hrf_cohort cohort = { .precisions = p, .n_precisions = 2 };
    struct hrf_reading r = hrf_cohort_reading(&cohort);
    assert_int_equal(r.n_scored, 200);
    assert_true(r.n_read == 100.0 && r.decode == 6.0 && r.prepare == 2.0);
    assert_true(fabs(r.readers_rate - 20.0) < 1e-12); /* 40 patches in 8 s of 4 threads */
    assert_true(fabs(r.network_rate - 100.0 / 12.0) < 1e-12);
    assert_string_equal(r.waiter, "readers");
    const double read[] = { 377.0 / 3, 377.0 / 3 + 1e-13, 377.0 / 3 }; /* shares of whole patches */
    struct hrf_cohort_precision thirds[3] = { p[0], p[0], p[0] };
    for (size_t i = 0; i < 3; i++)
        thirds[i].jobs.timing.reads = read[i];
    const struct hrf_cohort three = { .precisions = thirds, .n_precisions = 3 };
    assert_true(hrf_cohort_reading(&three).n_read == 377);
    p[0].jobs.timing.decode = p[1].jobs.timing.decode = 20;
    assert_string_equal(hrf_cohort_reading(&cohort).waiter, "network");
    p[1].jobs.timing.fed = (double)NAN; /* a slide that was read as one image */
    r = hrf_cohort_reading(&cohort);
    assert_true(isnan(r.readers_rate) && isnan(r.network_rate) && r.waiter == NULL);
}

static void what_keeps_a_job_from_its_networks_gain(void **state)
{
    (void)state;
    struct hrf_cohort_precision p = precision(1, 3, 2);
    p.speed.compute_speedup.value = 4.0;
    p.speed.speedup.value = 1.6;
    assert_int_equal(hrf_gain_limit(&p), HRF_BOTTLENECK_READING);
    p.jobs.timing.build = 4;
    assert_int_equal(hrf_gain_limit(&p), HRF_BOTTLENECK_STARTING);
    p.jobs.timing.compute = 77; /* which is most of the time, so that nothing else is the limit */
    assert_int_equal(hrf_gain_limit(&p), HRF_BOTTLENECK_COMPUTE);
    struct hrf_job_part parts[HRF_JOB_PARTS];
    p.jobs.timing = (struct hrf_timing){
        .build = 15, .wait = 5, .compute = 77, .write = 3, .total = 99
    };
    hrf_job_parts(&p.jobs.timing, parts);
    assert_true(parts[0].kind == HRF_BOTTLENECK_COMPUTE && parts[0].share == 0.77);
    assert_true(parts[1].kind == HRF_BOTTLENECK_STARTING && parts[1].share == 0.15);
    assert_true(parts[3].kind == HRF_BOTTLENECK_WRITING && parts[3].share == 0.03);
    p.speed.speedup.value = 3.7;
    assert_int_equal(hrf_gain_limit(&p), HRF_BOTTLENECK_UNKNOWN);
    p.speed.speedup.value = NAN;
    assert_int_equal(hrf_gain_limit(&p), HRF_BOTTLENECK_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_part_of_the_longest_phase),
        cmocka_unit_test(a_queue_counts_under_a_scheduler_only),
        cmocka_unit_test(the_faster_of_readers_and_network_waits),
        cmocka_unit_test(what_keeps_a_job_from_its_networks_gain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
