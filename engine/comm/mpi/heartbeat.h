/* heartbeat.h - a thread on each rank sends the rank's step count to the others and records when
 * the count of each of them last changed. The count of a rank that hangs stays the same; a rank
 * that died sends nothing. Either way it shows no progress. This header does not need mpi.h. */
#ifndef HRF_ENGINE_COMM_MPI_HEARTBEAT_H
#define HRF_ENGINE_COMM_MPI_HEARTBEAT_H

#include "base/error.h"

#include <stdint.h>

struct hrf_mpi_heartbeat; /* opaque */

/* Collective: waits for all ranks. The heartbeat thread calls steps(context) for this rank's step
 * count. */
HRF_CHECKED enum hrf_status hrf_mpi_heartbeat_create(long long (*steps)(void *context),
                                                     void *context, struct hrf_mpi_heartbeat **out,
                                                     struct hrf_error *err);
/* Starts the thread; a single rank needs none. */
HRF_CHECKED enum hrf_status hrf_mpi_heartbeat_start(struct hrf_mpi_heartbeat *heartbeat,
                                                    struct hrf_error *err);
/* When the step count of `rank` last changed, by this rank's clock. Any thread may ask, after
 * start(). */
int64_t hrf_mpi_heartbeat_seen_ns(const struct hrf_mpi_heartbeat *heartbeat, int32_t rank);
/* Ends the thread. NULL and a second call are fine. */
void hrf_mpi_heartbeat_stop(struct hrf_mpi_heartbeat *heartbeat);
/* Call it after MPI has ended, because MPI reads the memory of messages in flight until then. NULL
 * is fine. */
void hrf_mpi_heartbeat_destroy(struct hrf_mpi_heartbeat *heartbeat);

#endif
