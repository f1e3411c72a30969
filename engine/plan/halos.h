/* halos.h - whether a window's rows from other ranks are waited for, fetched while the interior is
 * computed, or computed here too: by costs.
 *
 * Fused halos: between two values that everything passes through (no branch goes around them) a
 * rank either exchanges before each window, or fetches a wider halo once and computes the values
 * between on more rows than its share. A run of such sections costs its nodes' and its exchanges'
 * seconds, of the rank that takes longest; the cheapest division of the network into runs is found
 * by dynamic programming, exact in that cost for runs of up to HRF_HALOS_MOST_SECTIONS sections,
 * longer ones being tried while shorter ones still gain (what is computed twice grows with the
 * square of a run's length, what is saved in proportion to it).
 *
 * Overlap: of a window the interior, then the edges, cost more than the whole at once (kernels'
 * starts); where the message takes longer than that, its way is hidden.
 *
 * A choice is only taken when the simulator finds it sooner than none, and fused halos only while
 * ranks do not do most of the work several times. Pure arithmetic.
 */
#ifndef HRF_ENGINE_PLAN_HALOS_H
#define HRF_ENGINE_PLAN_HALOS_H

#include "engine/plan/machine.h"
#include "engine/plan/partition.h"

enum { HRF_HALOS_MOST_SECTIONS = 16 };

/* By layout->halos. `plain`: the partition without any of it; replaced by one that is sooner, if
 * there is. `costs` and `machine` are needed for AUTO only. */
HRF_CHECKED enum hrf_status hrf_halos_choose(const struct hrf_cost_table *costs,
                                             const struct hrf_machine *machine,
                                             struct hrf_partition **plain, struct hrf_error *err);

#endif
