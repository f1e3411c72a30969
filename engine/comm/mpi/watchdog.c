/* watchdog.c - the thread that ends the process when a blocking call of MPI takes too long
 * (watchdog.h). */
#include "engine/comm/mpi/watchdog.h"

#include "base/clock.h"

#include <stdio.h>
#include <unistd.h>

static void *watch(void *context)
{
    struct hrf_mpi_watchdog *w = context;
    const struct hrf_mpi_config *config = w->config;
    const int64_t deadline = hrf_clock_ns() + config->deadline_ms * 1000000;
    while (!atomic_load(&w->is_over)) {
        if (hrf_clock_ns() > deadline) {
            char why[128];
            snprintf(why, sizeof why, "another rank did not %s within %lld s", w->what,
                     (long long)config->deadline_ms / 1000);
            fprintf(stderr, "a rank on %s ends: %s\n", w->host, why);
            if (config->on_abort != NULL)
                config->on_abort(config->context, why);
            _exit(config->abort_code);
        }
        hrf_clock_sleep_ms(5);
    }
    return NULL;
}

void hrf_mpi_watchdog_begin(struct hrf_mpi_watchdog *watchdog, const struct hrf_mpi_config *config,
                            const char *host, const char *what)
{
    *watchdog = (struct hrf_mpi_watchdog){ .config = config, .host = host, .what = what };
    watchdog->is_watching = pthread_create(&watchdog->thread, NULL, watch, watchdog) == 0;
}

void hrf_mpi_watchdog_end(struct hrf_mpi_watchdog *watchdog)
{
    atomic_store(&watchdog->is_over, true);
    if (watchdog->is_watching)
        pthread_join(watchdog->thread, NULL);
}
