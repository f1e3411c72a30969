/* profile.h - what every node of a network costs on this machine, measured where it stands.
 *
 * The whole network is run, so that each node finds the caches as they are in a run, and each step
 * is timed. With `n_at_once` above 1 as many copies run side by side in threads of their own, as
 * ranks would, because they share the machine's memory. A step of one thread is timed by the
 * processor time it took, which other programs on the machine do not lengthen; of more threads by
 * the clock. Every figure is a median over the runs; nodes of the same kind and size are averaged.
 */
#ifndef HRF_ENGINE_RUN_PROFILE_H
#define HRF_ENGINE_RUN_PROFILE_H

#include "engine/plan/cost.h"
#include "engine/run/session.h"

/* Adds to `table`. `graph` with its input shapes set; INT8 needs no ranges. */
HRF_CHECKED enum hrf_status hrf_profile_run(const struct hrf_graph *graph,
                                            const struct hrf_session_config *config, int64_t n_runs,
                                            int32_t n_at_once, struct hrf_cost_table *table,
                                            struct hrf_error *err);

#endif
