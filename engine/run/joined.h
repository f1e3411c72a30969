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
    enum hrf_transport transport;     /* between GPUs */
};
/* The text of --help. */
#define HRF_COMM_HELP                                                                              \
    "ranks are threads (loop, default) or processes under mpirun (mpi; between GPUs: ipc, nccl); " \
    "auto: what they were started as, by the quickest way"
/* Runs `work` as one of the MPI ranks or alone; if it fails, the other ranks are aborted. `name`:
 * "loop" or NULL for threads; "mpi", "ipc" or "nccl" for processes, of which there must be as many
 * as ranks in `layout`; "auto": processes if an MPI starter has started this one, else threads. */
typedef enum hrf_status hrf_joined_work(const void *context, const struct hrf_joined *joined,
                                        struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_joined_run(const char *name, const char *layout,
                                           hrf_joined_work *work, const void *context,
                                           struct hrf_error *err);
/* True for the rank that prints and writes files. */
static inline bool hrf_joined_is_first(const struct hrf_joined *joined)
{
    return joined->comm == NULL || joined->comm->rank == 0;
}

#endif
