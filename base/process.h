/* process.h - child processes: from argv, never through a shell.
 *
 * A child runs in its own process group, so that a deadline ends its children too. Only detached
 * children (jobs of the local executor, which a later `run` adopts) outlive the process that starts
 * them; all others are killed by the kernel when it dies, also by SIGKILL.
 */
#ifndef HRF_BASE_PROCESS_H
#define HRF_BASE_PROCESS_H

#include "base/error.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct hrf_process_result {
    bool exited;   /* false: ended by a signal */
    int exit_code; /* when exited */
    int signal;    /* when not */
    bool timed_out;
};

/* Runs argv to its end. `input` (may be NULL) is fed to stdin; stdout and stderr are collected
 * up to `limit` bytes each (NULL: thrown away). After `timeout_ms` the group gets SIGTERM and
 * 2 s later SIGKILL; timed_out tells. `environment` NULL = ours. A child that ran and failed is
 * HRF_OK with the result saying so; HRF_E_EXTERNAL is "could not be started". */
HRF_CHECKED enum hrf_status
hrf_process_run(const char *const argv[], const char *const environment[], const char *input,
                int64_t timeout_ms, size_t limit, struct hrf_strbuf *standard_output,
                struct hrf_strbuf *standard_error, struct hrf_process_result *result,
                struct hrf_error *err);

/* Starts argv and returns at once. A detached child gets a session of its own and outlives us;
 * an attached one is killed when the calling thread's process dies. stdout and stderr go to
 * `log_path`, appended (NULL: inherited). The caller reaps *pid. */
HRF_CHECKED enum hrf_status hrf_process_start(const char *const argv[], const char *log_path,
                                              bool detached, pid_t *pid, struct hrf_error *err);

/* Decodes the status that waitpid() gave. */
struct hrf_process_result hrf_process_decode(int wait_status);

#endif
