/* tune.h - measures the cost of messages between two ranks, as a link for planning.
 *
 * Both ranks call hrf_tune_link() on a comm of two ranks. For each size it measures the processor
 * time of sending and that of receiving a message that has already arrived (medians), and half of a
 * round trip. The rest of the half round trip is the transit, which includes waking up a sleeping
 * receiver.
 */
#ifndef HRF_ENGINE_RUN_TUNE_H
#define HRF_ENGINE_RUN_TUNE_H

#include "engine/comm/comm.h"
#include "engine/plan/machine.h"

/* Collective over both ranks; only rank 0 gets *link. Message sizes are 64 bytes and powers of 4
 * above, up to `largest_bytes`. */
HRF_CHECKED enum hrf_status hrf_tune_link(struct hrf_comm *comm, enum hrf_placement placement,
                                          int64_t largest_bytes, struct hrf_link *link,
                                          struct hrf_error *err);
/* Measures the same between two threads of this process. */
HRF_CHECKED enum hrf_status hrf_tune_loop(int64_t largest_bytes, struct hrf_link *link,
                                          struct hrf_error *err);
/* Bytes per second of a copy in memory that is larger than any cache; 0: not enough memory to
 * measure. */
double hrf_tune_copy_rate(void);

#endif
