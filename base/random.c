/* random.c - a small seeded random number generator (random.h). */
#include "base/random.h"

#include <assert.h>
#include <math.h>

uint64_t hrf_random_u64(struct hrf_random *random)
{
    uint64_t z = (random->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double hrf_random_unit(struct hrf_random *random)
{
    return (double)(hrf_random_u64(random) >> 11) * 0x1p-53;
}

int64_t hrf_random_below(struct hrf_random *random, int64_t bound)
{
    assert(bound >= 1);
    uint64_t n = (uint64_t)bound;
    uint64_t limit = UINT64_MAX - UINT64_MAX % n; /* rejection keeps it uniform */
    uint64_t value;
    do
        value = hrf_random_u64(random);
    while (value >= limit);
    return (int64_t)(value % n);
}

double hrf_random_normal(struct hrf_random *random)
{
    double u = 1.0 - hrf_random_unit(random); /* (0, 1]: the logarithm stays finite */
    double v = hrf_random_unit(random);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

static void swap(int64_t *items, int64_t a, int64_t b)
{
    const int64_t kept = items[a];
    items[a] = items[b];
    items[b] = kept;
}

void hrf_random_shuffle(struct hrf_random *random, int64_t *items, int64_t n)
{
    for (int64_t i = n; i > 1; i--)
        swap(items, i - 1, hrf_random_below(random, i));
}

void hrf_random_draw(struct hrf_random *random, int64_t *items, int64_t n, int64_t n_drawn)
{
    for (int64_t i = 0; i < n_drawn; i++)
        swap(items, i, i + hrf_random_below(random, n - i));
}
