/* overlaps.h - checks that no two buffers of a plan share memory while both are held.
 *
 * Private to the plan. The check does not depend on how arena.c found the offsets. It takes n log n
 * time in the number of buffers.
 */
#ifndef HRF_ENGINE_PLAN_OVERLAPS_H
#define HRF_ENGINE_PLAN_OVERLAPS_H

#include "engine/plan/plan.h"

/* HRF_E_BUG: a buffer lies outside the arena, or two that are held together overlap. */
HRF_CHECKED enum hrf_status hrf_plan_check_overlaps(const struct hrf_plan *plan,
                                                    struct hrf_error *err);

#endif
