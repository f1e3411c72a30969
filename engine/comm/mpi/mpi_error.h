/* mpi_error.h - turns MPI's error codes into statuses with MPI's own text. This header does not
 * need mpi.h. */
#ifndef HRF_ENGINE_COMM_MPI_MPI_ERROR_H
#define HRF_ENGINE_COMM_MPI_MPI_ERROR_H

#include "base/error.h"

enum hrf_status hrf_mpi_fail(struct hrf_error *err, int code, const char *what);

#define TRY_MPI(call, what)                                                                        \
    do {                                                                                           \
        int try_mpi_code_ = (call);                                                                \
        if (try_mpi_code_ != MPI_SUCCESS)                                                          \
            return hrf_mpi_fail(err, try_mpi_code_, what);                                         \
    } while (0)

#endif
