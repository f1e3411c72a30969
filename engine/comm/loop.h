/* loop.h - the comm of ranks that are threads of one process: messages go through queues in memory.
 */
#ifndef HRF_ENGINE_COMM_LOOP_H
#define HRF_ENGINE_COMM_LOOP_H

#include "base/alloc.h"
#include "engine/comm/comm.h"

struct hrf_loop; /* the group; opaque */

void hrf_loop_create(int32_t n_ranks, int64_t deadline_ms, struct hrf_loop **out);
/* Call it after the threads of all ranks have ended. */
void hrf_loop_destroy(struct hrf_loop *loop);
HRF_DEFINE_AUTO(hrf_loop)
/* The comm of rank `rank`; it belongs to the group. */
struct hrf_comm *hrf_loop_comm(struct hrf_loop *loop, int32_t rank);
/* A rank from which a message with this tag waits for `comm`; -1: none. */
int32_t hrf_loop_waiting(struct hrf_comm *comm, int64_t tag);

#endif
