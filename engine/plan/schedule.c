#include "engine/plan/schedule.h"

#include "base/alloc.h"

/* done[m]: stages that micro-batch m has passed. The second half runs mirrored. */
static bool runs_mirrored(const struct hrf_layout_plan *l, int32_t microbatch)
{
    return l->bidirectional && microbatch >= l->microbatches / 2;
}

static int32_t worker_of(const struct hrf_layout_plan *l, int32_t microbatch, int32_t stage)
{
    return runs_mirrored(l, microbatch) ? l->stages - 1 - stage : stage;
}

/* The micro-batch that the worker takes next, -1: none is ready. */
static int32_t choose(const struct hrf_layout_plan *l, const int32_t *done, int32_t worker)
{
    int32_t best = -1;
    for (int32_t m = 0; m < l->microbatches; m++)
        if (done[m] < l->stages && worker_of(l, m, done[m]) == worker &&
            (best < 0 || done[m] > done[best]))
            best = m;
    return best;
}

enum hrf_status hrf_schedule(const struct hrf_layout_plan *l, int32_t position,
                             struct hrf_turn *turns, struct hrf_error *err)
{
    HRF_AUTO_FREE int32_t *done = hrf_calloc((size_t)l->microbatches, sizeof *done);
    HRF_AUTO_FREE int32_t *chosen = hrf_calloc((size_t)l->stages, sizeof *chosen);
    if (done == NULL || chosen == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to schedule %d micro-batches",
                             l->microbatches);
    for (int32_t n = 0; n < l->microbatches;) {
        for (int32_t w = 0; w < l->stages; w++)
            chosen[w] = choose(l, done, w);
        for (int32_t w = 0; w < l->stages; w++) {
            if (chosen[w] < 0)
                continue;
            if (w == position)
                turns[n++] = (struct hrf_turn){ chosen[w], runs_mirrored(l, chosen[w]) };
            done[chosen[w]]++;
        }
    }
    return HRF_OK;
}
