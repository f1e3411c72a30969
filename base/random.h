/* random.h - a seeded generator with the same numbers on every machine (splitmix64).
 *
 * Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
 * Not for secrets. One object per thread.
 */
#ifndef HRF_BASE_RANDOM_H
#define HRF_BASE_RANDOM_H

#include <stdint.h>

struct hrf_random {
    uint64_t state;
};

static inline struct hrf_random hrf_random_init(uint64_t seed)
{
    return (struct hrf_random){ .state = seed };
}
uint64_t hrf_random_u64(struct hrf_random *random);
double hrf_random_unit(struct hrf_random *random);                  /* [0, 1) */
int64_t hrf_random_below(struct hrf_random *random, int64_t bound); /* [0, bound), bound >= 1 */
double hrf_random_normal(struct hrf_random *random);                /* mean 0, deviation 1 */
/* Puts the items into a drawn order; draw: n_drawn of them, which come first. */
void hrf_random_shuffle(struct hrf_random *random, int64_t *items, int64_t n);
void hrf_random_draw(struct hrf_random *random, int64_t *items, int64_t n, int64_t n_drawn);

#endif
