/* schedule.h - in which order a rank works on micro-batches. */
#ifndef HRF_ENGINE_PLAN_SCHEDULE_H
#define HRF_ENGINE_PLAN_SCHEDULE_H

#include "base/error.h"
#include "engine/plan/layout.h"

struct hrf_turn {
    int32_t microbatch;
    bool is_mirrored; /* in the pipeline that runs from the last rank to the first */
};

/* The turns of the ranks at `position` (0 = the first stage's) in a pipeline of layout->stages: all
 * micro-batches of the layout, each once. Source: list scheduling with turns of equal length, the
 * stage that is furthest on first; in this order no rank waits for a turn that waits for it. */
HRF_CHECKED enum hrf_status hrf_schedule(const struct hrf_layout_plan *layout, int32_t position,
                                         struct hrf_turn *turns, struct hrf_error *err);

#endif
