/* watchdog.h - MPI's first and last calls wait for every rank without a time limit. The watchdog
 * ends this process, with a reason, if a rank never arrives. One thread calls begin() and end(). */
#ifndef HRF_ENGINE_COMM_MPI_WATCHDOG_H
#define HRF_ENGINE_COMM_MPI_WATCHDOG_H

#include "engine/comm/mpi/mpi.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct hrf_mpi_watchdog {
    const struct hrf_mpi_config *config;
    const char *host, *what;
    pthread_t thread;
    bool is_watching; /* false: the thread could not start, so the call is not watched */
    atomic_bool is_over;
};

/* `what` is the verb for the message, what another rank does not do: "begin" or "end". All
 * arguments are borrowed until end(). */
void hrf_mpi_watchdog_begin(struct hrf_mpi_watchdog *watchdog, const struct hrf_mpi_config *config,
                            const char *host, const char *what);
void hrf_mpi_watchdog_end(struct hrf_mpi_watchdog *watchdog);

#endif
