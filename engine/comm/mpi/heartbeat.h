/* heartbeat.h - a thread of each rank tells the others how many steps the rank has done, and notes
 * when each of them moved last. A rank that hangs says the same number again and again, one that is
 * gone or stopped says nothing: neither is seen to move. Needs no mpi.h to be read. */
#ifndef HRF_ENGINE_COMM_MPI_HEARTBEAT_H
#define HRF_ENGINE_COMM_MPI_HEARTBEAT_H

#include "base/error.h"

#include <stdint.h>

struct hrf_mpi_heartbeat; /* opaque */

/* Every rank calls it: waits for all. steps(context): what this rank has done so far, asked by the
 * heartbeat's thread. */
HRF_CHECKED enum hrf_status hrf_mpi_heartbeat_create(long long (*steps)(void *context),
                                                     void *context, struct hrf_mpi_heartbeat **out,
                                                     struct hrf_error *err);
/* From now on; a rank that is alone starts no thread. */
HRF_CHECKED enum hrf_status hrf_mpi_heartbeat_start(struct hrf_mpi_heartbeat *heartbeat,
                                                    struct hrf_error *err);
/* When the rank was seen to move last, by our clock. Any thread, after start(). */
int64_t hrf_mpi_heartbeat_seen_ns(const struct hrf_mpi_heartbeat *heartbeat, int32_t rank);
/* The thread's end; NULL and a second time are fine. */
void hrf_mpi_heartbeat_stop(struct hrf_mpi_heartbeat *heartbeat);
/* After MPI's end, until which messages on their way are read from it. NULL is fine. */
void hrf_mpi_heartbeat_destroy(struct hrf_mpi_heartbeat *heartbeat);

#endif
