/* comm.h - `--comm`: whether the ranks of a layout are threads of this process or processes that
 * an MPI starter (mpirun, srun --mpi=pmix) has started, of which this is one. */
#ifndef HRF_ENGINE_CLI_COMM_H
#define HRF_ENGINE_CLI_COMM_H

#include "engine/comm/mpi/mpi.h"

#include <stdbool.h>

struct hrf_joined {
    const struct hrf_mpi_module *mpi; /* NULL: threads */
    struct hrf_comm *comm;            /* likewise */
};
/* Runs `work` as one of the ranks that were started, or alone; where it fails, the other ranks are
 * told. `name`: "loop" or NULL for threads, "mpi", with which there must be as many ranks as in
 * `layout`. */
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
