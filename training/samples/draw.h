/* draw.h - random numbers of a training: a function of its seed, the epoch, a number and a purpose,
 * and of nothing else, so that a training that goes on needs no generator's state, and threads no
 * order. */
#ifndef HRF_TRAINING_SAMPLES_DRAW_H
#define HRF_TRAINING_SAMPLES_DRAW_H

#include "base/random.h"

enum hrf_draw_purpose { HRF_DRAW_ORDER = 1, HRF_DRAW_PICTURE, HRF_DRAW_WEIGHTS, HRF_DRAW_BAG };

static inline struct hrf_random hrf_draw(int64_t seed, enum hrf_draw_purpose purpose, int64_t epoch,
                                         int64_t number)
{
    const uint64_t numbers[] = { (uint64_t)purpose, (uint64_t)epoch, (uint64_t)number };
    struct hrf_random random = hrf_random_init((uint64_t)seed);
    for (int i = 0; i < 3; i++)
        random = hrf_random_init(hrf_random_u64(&random) ^ numbers[i]);
    return hrf_random_init(hrf_random_u64(&random));
}

#endif
