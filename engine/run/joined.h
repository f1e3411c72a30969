/* joined.h - `--comm`: whether the ranks of a layout are threads of this process or processes that
 * an MPI starter (mpirun, srun --mpi=pmix) has started, of which this is one; and how processes
 * carry what lies on GPUs. */
#ifndef HRF_ENGINE_RUN_JOINED_H
#define HRF_ENGINE_RUN_JOINED_H

#include "engine/comm/mpi/mpi.h"
#include "engine/run/device_peers.h"

#include <stdbool.h>

struct hrf_joined {
    const struct hrf_mpi_module *mpi; /* NULL: threads */
    struct hrf_comm *comm;            /* likewise */
    enum hrf_carrier carrier;         /* between GPUs */
};
/* What --help says of it. */
#define HRF_COMM_HELP                                                                              \
    "ranks are threads (loop, default) or processes under mpirun (mpi; between GPUs: ipc, nccl); " \
    "auto: what they were started as, by the quickest way"
/* Runs `work` as one of the ranks that were started, or alone; where it fails, the other ranks are
 * told. `name`: "loop" or NULL for threads; "mpi", "ipc" and "nccl", with which there must be as
 * many ranks as in `layout`; "auto": processes where a starter of ranks has started this one. */
typedef enum hrf_status hrf_joined_work(const void *context, const struct hrf_joined *joined,
                                        struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_joined_run(const char *name, const char *layout,
                                           hrf_joined_work *work, const void *context,
                                           struct hrf_error *err);
/* The one that prints and writes. */
static inline bool hrf_joined_is_first(const struct hrf_joined *joined)
{
    return joined->comm == NULL || joined->comm->rank == 0;
}

#endif
