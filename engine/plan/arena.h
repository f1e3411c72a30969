/* arena.h - offsets of buffers in one arena: greedy by size, lowest gap that fits.
 *
 * Private to the plan. Pure arithmetic. It takes n log n time in the number of buffers, even if all
 * of them are held at the same time, as long as the memory held at one time has few holes.
 */
#ifndef HRF_ENGINE_PLAN_ARENA_H
#define HRF_ENGINE_PLAN_ARENA_H

#include "engine/plan/plan.h"

/* Sets the offset of every buffer so that no two that are held together overlap. Returns the end of
 * the last. */
int64_t hrf_buffers_place(struct hrf_buffer *buffers, int32_t n);

#endif
