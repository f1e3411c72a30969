/* watchdog.h - MPI's first and last calls wait for every rank, without end: the watchdog ends this
 * process, with its reason, when one of them never comes. begin() and end() by the same thread. */
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
    bool is_watching; /* without a thread the call is not watched */
    atomic_bool is_over;
};

/* `what` another rank does not: "begin", "end". All is borrowed until end(). */
void hrf_mpi_watchdog_begin(struct hrf_mpi_watchdog *watchdog, const struct hrf_mpi_config *config,
                            const char *host, const char *what);
void hrf_mpi_watchdog_end(struct hrf_mpi_watchdog *watchdog);

#endif
