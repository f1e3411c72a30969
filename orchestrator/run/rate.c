/* rate.c - a ring of samples, one a second (rate.h). */
#include "orchestrator/run/rate.h"

#include <stdbool.h>

static int before(const struct hrf_rate *rate, int back)
{
    return (rate->newest - back + HRF_RATE_SAMPLES) % HRF_RATE_SAMPLES;
}

void hrf_rate_add(struct hrf_rate *rate, double at, int64_t count)
{
    if (rate->n > 0 && count < rate->samples[rate->newest].count)
        rate->n = 0;
    /* The newest sample moves until it is a second behind the one before it. */
    const bool moves = rate->n > 1 && at - rate->samples[before(rate, 1)].at < 1;
    if (!moves) {
        rate->newest = rate->n > 0 ? (rate->newest + 1) % HRF_RATE_SAMPLES : 0;
        rate->n += rate->n < HRF_RATE_SAMPLES;
    }
    rate->samples[rate->newest].at = at;
    rate->samples[rate->newest].count = count;
}

double hrf_rate_now(const struct hrf_rate *rate)
{
    int k = rate->n - 1;
    if (rate->n < 2)
        return 0;
    const int newest = rate->newest;
    while (k > 1 &&
           rate->samples[newest].at - rate->samples[before(rate, k)].at > HRF_RATE_WINDOW_S)
        k--;
    const int oldest = before(rate, k);
    const double seconds = rate->samples[newest].at - rate->samples[oldest].at;
    return seconds >= 1
               ? (double)(rate->samples[newest].count - rate->samples[oldest].count) / seconds
               : 0;
}
