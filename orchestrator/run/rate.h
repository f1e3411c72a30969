/* rate.h - the current rate of a counter, over the last half minute and not since the start. Pure:
 * the caller passes the time. */
#ifndef HRF_ORCHESTRATOR_RUN_RATE_H
#define HRF_ORCHESTRATOR_RUN_RATE_H

#include <stdint.h>

enum { HRF_RATE_SAMPLES = 32, HRF_RATE_WINDOW_S = 30 };

/* An object of zeros is empty. */
struct hrf_rate {
    struct {
        double at; /* seconds of any clock that goes forward */
        int64_t count;
    } samples[HRF_RATE_SAMPLES]; /* a ring; at least a second apart, but for the newest */
    int n, newest;
};

/* Adds a sample: the counter is `count` at the time `at`, which must not be before the last sample.
 * If the counter has become smaller (work is repeated), earlier samples are dropped. */
void hrf_rate_add(struct hrf_rate *rate, double at, int64_t count);
/* Returns the units per second over the window; 0 while it spans less than a second. */
double hrf_rate_now(const struct hrf_rate *rate);

#endif
