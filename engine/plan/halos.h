/* halos.h - chooses by costs how a rank gets the halo rows of a window: wait for them, fetch them
 * while the interior is computed (overlap), or compute them redundantly (fused halos).
 *
 * Fused halos: the network is divided into sections at values that everything passes through, with
 * no branch around them. In a run of sections a rank either exchanges halos before each window, or
 * fetches one wider halo and computes the values between on more rows than its share. The cost of a
 * run is the time of its nodes and exchanges on the slowest rank. Dynamic programming finds the
 * cheapest division of the network into runs, exact in that cost for runs of up to
 * HRF_HALOS_MOST_SECTIONS sections. Longer runs are tried only while shorter ones still gain,
 * because redundant work grows with the square of the length of a run and the saving only with the
 * length.
 *
 * Overlap: computing the interior and then the edges takes longer than computing the whole at once,
 * because more kernels start. It pays if the message takes longer than that.
 *
 * A choice is taken only if the simulator finds it faster than plain exchanges, and fused halos
 * only if the ranks do not repeat most of the work. Pure arithmetic.
 */
#ifndef HRF_ENGINE_PLAN_HALOS_H
#define HRF_ENGINE_PLAN_HALOS_H

#include "engine/plan/machine.h"
#include "engine/plan/partition.h"

enum { HRF_HALOS_MOST_SECTIONS = 16 };

/* Chooses as layout->halos says. *plain is the partition with plain exchanges; a faster one
 * replaces it if there is one. Only AUTO needs `costs` and `machine`. */
HRF_CHECKED enum hrf_status hrf_halos_choose(const struct hrf_cost_table *costs,
                                             const struct hrf_machine *machine,
                                             struct hrf_partition **plain, struct hrf_error *err);

#endif
