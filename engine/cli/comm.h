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
/* `name`: "loop" or NULL for threads, "mpi". With MPI there must be as many ranks as in `layout`.
 */
HRF_CHECKED enum hrf_status hrf_joined_init(const char *name, const char *layout,
                                            struct hrf_joined *joined, struct hrf_error *err);
/* Tells the other ranks, when this one cannot go on. */
void hrf_joined_abort(struct hrf_joined *joined, const char *why);
void hrf_joined_release(struct hrf_joined *joined);
/* The one that prints and writes. */
static inline bool hrf_joined_is_first(const struct hrf_joined *joined)
{
    return joined->comm == NULL || joined->comm->rank == 0;
}

#endif
