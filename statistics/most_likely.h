/* most_likely.h - the class that scores speak for. */
#ifndef HRF_STATISTICS_MOST_LIKELY_H
#define HRF_STATISTICS_MOST_LIKELY_H

#include <stdint.h>

/* The class of the highest score, the first of equal ones. */
static inline int64_t hrf_most_likely(const float *scores, int64_t n_classes)
{
    int64_t best = 0;
    for (int64_t k = 1; k < n_classes; k++)
        best = scores[k] > scores[best] ? k : best;
    return best;
}

/* The same of probabilities; of one alone (a sigmoid): 1 if it is likely, else 0. */
static inline int64_t hrf_most_probable(const float *p, int64_t n_classes)
{
    return n_classes == 1 ? p[0] >= 0.5f : hrf_most_likely(p, n_classes);
}

#endif
