/* loop.h - ranks that are threads of one process: messages through queues in memory. */
#ifndef HRF_ENGINE_COMM_LOOP_H
#define HRF_ENGINE_COMM_LOOP_H

#include "base/alloc.h"
#include "engine/comm/comm.h"

struct hrf_loop; /* the group; opaque */

HRF_CHECKED enum hrf_status hrf_loop_create(int32_t n_ranks, int64_t deadline_ms,
                                            struct hrf_loop **out, struct hrf_error *err);
/* After every rank's thread has ended. */
void hrf_loop_destroy(struct hrf_loop *loop);
HRF_DEFINE_AUTO(hrf_loop)
/* Rank `rank`'s end; belongs to the group. */
struct hrf_comm *hrf_loop_comm(struct hrf_loop *loop, int32_t rank);
/* A rank of which a message of this tag waits for `comm`, -1: there is none. */
int32_t hrf_loop_waiting(struct hrf_comm *comm, int64_t tag);
/* Forgets an abort and every message, when no rank runs. */
void hrf_loop_reset(struct hrf_loop *loop);

#endif
