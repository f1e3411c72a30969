/* profile.h - measures the cost of every node of a network on this machine.
 *
 * The whole network runs, so that each node finds the caches in their usual state, and each step is
 * timed. With `n_at_once` above 1 that many copies run at the same time in their own threads, as
 * ranks would, because they share memory bandwidth. Steps with one thread are timed in processor
 * time, which other programs do not lengthen; steps with more threads by the clock. Every figure is
 * a median over the runs; nodes of the same kind and size are averaged.
 */
#ifndef HRF_ENGINE_RUN_PROFILE_H
#define HRF_ENGINE_RUN_PROFILE_H

#include "engine/plan/cost.h"
#include "engine/run/session.h"

/* Adds the costs to `table`. The input shapes of `graph` must be set. INT8 needs no ranges. */
HRF_CHECKED enum hrf_status hrf_profile_run(const struct hrf_graph *graph,
                                            const struct hrf_session_config *config, int64_t n_runs,
                                            int32_t n_at_once, struct hrf_cost_table *table,
                                            struct hrf_error *err);

#endif
