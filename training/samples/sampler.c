/* sampler.c - permutations by seed and epoch. */
#include "training/samples/sampler.h"

#include "base/alloc.h"
#include "training/samples/draw.h"

static bool is_of(const struct hrf_training_set *set, size_t i, size_t k, size_t n_classes)
{
    if (set->kind == HRF_LABEL_CLASS || k == n_classes) /* the group of none (training_set.h) */
        return set->items[i].label == (int64_t)k;
    return set->truths[i * n_classes + k] > 0.5F;
}

/* The pictures of a class, or of all; shuffled anew each time that they have all been taken. */
struct pool {
    int64_t *items, n, taken;
    struct hrf_random random;
};

static int64_t take(struct pool *pool)
{
    if (pool->taken % pool->n == 0)
        hrf_random_shuffle(&pool->random, pool->items, pool->n);
    return pool->items[pool->taken++ % pool->n];
}

void hrf_sampler_draw(const struct hrf_training_set *set, const enum hrf_training_part *parts,
                      size_t n_classes, enum hrf_sampling sampling, int64_t seed, int64_t epoch,
                      int64_t n, int64_t *order)
{
    const bool is_balanced = sampling == HRF_SAMPLING_BALANCED && set->kind != HRF_LABEL_NUMBERS;
    const size_t n_pools = is_balanced ? n_classes + (set->kind == HRF_LABEL_SEVERAL) : 1;
    HRF_AUTO_FREE struct pool *pools = hrf_calloc(n_pools, sizeof *pools);
    HRF_AUTO_FREE int64_t *items = hrf_alloc_array(set->n_items * n_pools + 1, sizeof *items);
    HRF_AUTO_FREE int64_t *turns = hrf_alloc_array(n_pools, sizeof *turns);
    int64_t n_items = 0, n_turns = 0;
    for (size_t k = 0; k < n_pools; k++) {
        pools[k] = (struct pool){ .items = items + n_items,
                                  .random = hrf_draw(seed, HRF_DRAW_ORDER, epoch, (int64_t)k) };
        for (size_t i = 0; i < set->n_items; i++)
            if (parts[i] == HRF_PART_TRAINING && (!is_balanced || is_of(set, i, k, n_classes)))
                items[n_items + pools[k].n++] = (int64_t)i;
        n_items += pools[k].n;
        if (pools[k].n > 0)
            turns[n_turns++] = (int64_t)k;
    }
    /* Each round of the classes has an order of its own. */
    struct hrf_random random = hrf_draw(seed, HRF_DRAW_ORDER, epoch, -1);
    for (int64_t i = 0; i < n; i++) {
        if (i % n_turns == 0)
            hrf_random_shuffle(&random, turns, n_turns);
        order[i] = take(&pools[turns[i % n_turns]]);
    }
}
