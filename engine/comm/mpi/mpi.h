/* mpi.h - the comm of ranks that are processes on one or several nodes: the interface of the module
 * hrf_mpi.so.
 *
 * hrf_module_load("mpi", ...) loads it, so that programs start on machines without MPI. MPI is
 * initialised once in a process and finalised at its end. Messages go by MPI_Isend and MPI_Improbe.
 * A thread on each rank sends its progress to the others, so that a rank that waits for one that
 * hangs or has died fails with its name instead of waiting for ever. abort() writes the reason and
 * then ends every rank (MPI_Abort).
 */
#ifndef HRF_ENGINE_COMM_MPI_MPI_H
#define HRF_ENGINE_COMM_MPI_MPI_H

#include "engine/comm/comm.h"

struct hrf_mpi_config {
    int64_t deadline_ms; /* how long a rank may show no progress while another waits for it */
    int32_t n_ranks;     /* required number of ranks; 0: any */
    int abort_code;      /* exit code of ranks after an abort */
    int64_t part_bytes;  /* longer messages are sent in parts of this size; 0: 1 GiB */
    /* Called with the reason before the ranks end; NULL: the reason only goes to stderr. */
    void (*on_abort)(void *context, const char *why);
    void *context;
};

struct hrf_mpi_module {
    /* The first call of every rank, once in a process. HRF_E_UNSUPPORTED, with advice, if the ranks
     * do not find each other. */
    enum hrf_status (*create)(const struct hrf_mpi_config *config, struct hrf_comm **out,
                              struct hrf_error *err);
    /* Collective: waits for all ranks. Destroys the groups made by group(), too. NULL is fine. */
    void (*destroy)(struct hrf_comm *comm);
    /* Collective over `comm` (of create()): makes one comm for all ranks that pass the same `group`
     * >= 0, in rank order; *out is NULL for ranks that pass -1. Messages of different comms never
     * mix. Progress counts for the whole rank, and an abort ends all ranks. A second thread of each
     * rank gets its comm this way, too. The new comm belongs to `comm`. */
    enum hrf_status (*group)(struct hrf_comm *comm, int32_t group, struct hrf_comm **out,
                             struct hrf_error *err);
    /* A rank from which a message with this tag has arrived; -1: none. */
    int32_t (*waiting)(struct hrf_comm *comm, int64_t tag);
    /* "Open MPI v4.1.4 ..." */
    void (*version)(char *out, size_t size);
};

#endif
