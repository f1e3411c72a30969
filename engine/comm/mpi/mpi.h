/* mpi.h - ranks that are processes, on one machine or many: what the module hrf_mpi.so offers.
 *
 * Loaded by hrf_module_load("mpi", ...), so that programs start where there is no MPI. MPI is
 * started once a process and ended with the last of it. Messages go by MPI_Isend and MPI_Improbe;
 * a thread of each rank tells the others how far it is, so that one that hangs or has died is
 * named by those that wait for it instead of waiting for ever. abort() ends every rank (MPI_Abort)
 * after its reason was written.
 */
#ifndef HRF_ENGINE_COMM_MPI_MPI_H
#define HRF_ENGINE_COMM_MPI_MPI_H

#include "engine/comm/comm.h"

struct hrf_mpi_config {
    int64_t deadline_ms; /* how long a rank may show no progress while another waits for it */
    int32_t n_ranks;     /* that there must be; 0 = any number */
    int abort_code;      /* exit code of a rank that aborts */
    int64_t part_bytes;  /* longer messages go in parts of so many bytes; 0: 1 GiB */
    /* Told before the ranks end; NULL: stderr only. */
    void (*on_abort)(void *context, const char *why);
    void *context;
};

struct hrf_mpi_module {
    /* Every rank's first call. HRF_E_UNSUPPORTED with the way out when the ranks do not find each
     * other. Once a process. */
    enum hrf_status (*create)(const struct hrf_mpi_config *config, struct hrf_comm **out,
                              struct hrf_error *err);
    /* Waits for all ranks. NULL is fine. Destroys the groups that were made of it, too. */
    void (*destroy)(struct hrf_comm *comm);
    /* A comm of its own for all ranks that say the same `group` >= 0, in their order; *out NULL for
     * those that say -1. Every rank of `comm` (of create()) calls it. Its messages never meet those
     * of another comm; its progress is that of the rank; its abort ends all. A comm of its own for
     * another thread of each rank is made so too. Belongs to `comm`. */
    enum hrf_status (*group)(struct hrf_comm *comm, int32_t group, struct hrf_comm **out,
                             struct hrf_error *err);
    /* A rank of which a message of this tag waits, -1: there is none. */
    int32_t (*waiting)(struct hrf_comm *comm, int64_t tag);
    /* "Open MPI v4.1.4 ..." */
    void (*version)(char *out, size_t size);
};

#endif
