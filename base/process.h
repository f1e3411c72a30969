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

struct hrf_process_stat {
    char state; /* proc(5): 'R' runs, 'S' sleeps, 'D' waits for a disk, 'T' is stopped */
    pid_t session;
    int64_t cpu_ticks;   /* processor time that it has used, in sysconf(_SC_CLK_TCK) */
    uint64_t start_time; /* in the same ticks, since boot */
};
/* False: there is no such process, or it is a zombie. */
bool hrf_process_stat_read(pid_t pid, struct hrf_process_stat *out);
/* Start time of a process in clock ticks since boot, 0 when there is no such process (or it is
 * a zombie): pid + start time identify a process for its life on one boot. */
uint64_t hrf_process_start_time(pid_t pid);
/* Identity of this boot, "" when unknown; out holds 40 bytes. */
void hrf_process_boot_id(char out[40]);
void hrf_process_host_name(char *out, size_t size);
int64_t hrf_process_peak_memory(void); /* of this process, bytes */
int hrf_process_cpu_count(void);       /* processors that this process may use, >= 1 */
/* Which they are, "0-3,8"; "" when that is not told. What does not fit is left out behind "...". */
void hrf_process_cpu_list(char *out, size_t size);
/* All threads of this process, and those to come, keep to these processors. HRF_E_USER: not such a
 * list, or none of them may be used. */
HRF_CHECKED enum hrf_status hrf_process_set_cpus(const char *list, struct hrf_error *err);
/* The model of the machine's processors, "" when that is not told. */
void hrf_process_processor(char *out, size_t size);
/* Absolute path of the running program (heap): what starts it anew. */
HRF_CHECKED enum hrf_status hrf_process_self(char **out, struct hrf_error *err);
struct hrf_process_result hrf_process_decode(int wait_status);

#endif
