/* rate.h - how fast something grows at this moment: over the last half minute, not since the start.
 * Pure: the caller brings the time. */
#ifndef HRF_ORCHESTRATOR_RUN_RATE_H
#define HRF_ORCHESTRATOR_RUN_RATE_H

#include <stdint.h>

enum { HRF_RATE_SAMPLES = 32, HRF_RATE_WINDOW_S = 30 };

/* All zero is empty. */
struct hrf_rate {
    struct {
        double at; /* seconds of any clock that goes forward */
        int64_t count;
    } samples[HRF_RATE_SAMPLES]; /* a ring; at least a second apart, but for the newest */
    int n, newest;
};

/* The count is `count` at the time `at`, which is not before the last one. A count that shrinks
 * (work is done again) begins anew. */
void hrf_rate_add(struct hrf_rate *rate, double at, int64_t count);
/* Units per second over the window; 0 while it holds less than a second. */
double hrf_rate_now(const struct hrf_rate *rate);

#endif
