/* tune.h - what messages between two ranks cost, measured, as a link for planning.
 *
 * Both ranks call hrf_tune_link() on their ends of one group. For each size: what sending keeps the
 * sender busy and what taking a message that is already there costs (medians of processor time),
 * and half of a round trip, of which the rest is transit (a sleeping receiver's waking up among
 * it).
 */
#ifndef HRF_ENGINE_RUN_TUNE_H
#define HRF_ENGINE_RUN_TUNE_H

#include "engine/comm/comm.h"
#include "engine/plan/machine.h"

/* Rank 0 gets *link; the other end (rank 1) returns when it has played its part. `largest_bytes`:
 * of a message; sizes are 64 bytes and up by factors of 4. */
HRF_CHECKED enum hrf_status hrf_tune_link(struct hrf_comm *comm, enum hrf_placement placement,
                                          int64_t largest_bytes, struct hrf_link *link,
                                          struct hrf_error *err);
/* Between two threads of this process. */
HRF_CHECKED enum hrf_status hrf_tune_loop(int64_t largest_bytes, struct hrf_link *link,
                                          struct hrf_error *err);
/* Bytes per second of a copy in memory larger than any cache; 0 = no memory to find out. */
double hrf_tune_copy_rate(void);

#endif
