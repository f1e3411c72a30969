#include "aggregate/study/reading.h"

#include <math.h>

static double rate_of(double n, double seconds)
{
    return n > 0.0 && seconds > 0.0 ? n / seconds : NAN;
}

struct hrf_reading hrf_cohort_reading(const struct hrf_cohort *cohort)
{
    struct hrf_reading out = { .n_scored = 0 };
    struct hrf_timing sum = { .build = 0 };
    int32_t n_readers = 0;
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        hrf_timing_add(&sum, &p->timing);
        out.n_scored += p->n_patches;
        n_readers = p->n_readers > n_readers ? p->n_readers : n_readers;
    }
    out.n_read = sum.reads;
    out.decode = sum.decode;
    out.prepare = sum.prepare;
    out.wait = sum.wait;
    out.readers_rate = rate_of(sum.fed * n_readers, sum.decode + sum.prepare);
    out.network_rate = isnan(sum.fed) ? NAN : rate_of(sum.reads, sum.compute);
    if (!isnan(out.readers_rate) && !isnan(out.network_rate))
        out.waiter = out.readers_rate < out.network_rate ? "network" : "readers";
    return out;
}
