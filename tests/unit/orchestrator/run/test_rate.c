/* The rate of this moment, against a plain scan of everything that was counted. */
#include "orchestrator/run/rate.h"

#include "base/random.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdbool.h>

static void it_is_of_the_last_half_minute(void **state)
{
    (void)state;
    struct hrf_rate rate = { .n = 0 };
    assert_true(hrf_rate_now(&rate) == 0);
    int64_t count = 1000000; /* an earlier driver's: not of this moment */
    double t = 5;
    hrf_rate_add(&rate, t, count);
    assert_true(hrf_rate_now(&rate) == 0);
    for (int i = 0; i < 600; i++) /* 100 a second for a minute */
        hrf_rate_add(&rate, t += 0.1, count += 10);
    assert_true(fabs(hrf_rate_now(&rate) - 100) < 0.001);
    for (int i = 0; i < 400; i++) /* then it stands still for 40 s */
        hrf_rate_add(&rate, t += 0.1, count);
    assert_true(hrf_rate_now(&rate) == 0);
    for (int i = 0; i < 150; i++) /* and goes on for half of the window */
        hrf_rate_add(&rate, t += 0.1, count += 10);
    assert_true(fabs(hrf_rate_now(&rate) - 50) < 4);
    hrf_rate_add(&rate, t += 1, 7); /* results were lost: from here */
    assert_true(hrf_rate_now(&rate) == 0);
}

static void it_is_what_a_plain_scan_finds(void **state)
{
    (void)state;
    enum { N = 2000 };
    static double at[N];
    static int64_t counts[N];
    struct hrf_random random = hrf_random_init(7);
    for (int trial = 0; trial < 20; trial++) {
        struct hrf_rate rate = { .n = 0 };
        double t = 0, highest = 0;
        int64_t count = 0;
        for (int i = 0; i < N; i++) {
            at[i] = t += 2 * hrf_random_unit(&random);
            counts[i] = count += (int64_t)(hrf_random_u64(&random) % 50);
            hrf_rate_add(&rate, t, count);
            /* Some sample between a half and the whole window back gives the same rate. */
            const double now = hrf_rate_now(&rate);
            bool found = now == 0 && i < 4;
            for (int k = i - 1; k >= 0 && at[k] > t - HRF_RATE_WINDOW_S - 2 && !found; k--)
                found = fabs(now - (double)(count - counts[k]) / (t - at[k])) < 1e-9;
            assert_true(found);
            highest = now > highest ? now : highest;
        }
        assert_true(highest > 10 && highest < 120);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_of_the_last_half_minute),
        cmocka_unit_test(it_is_what_a_plain_scan_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
