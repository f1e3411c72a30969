/* command.h - runs Slurm's commands.
 *
 * A command is found by PATH, started from argv without a shell, and ended at a deadline. Its
 * environment is filtered, so that an enclosing job or the user's settings do not change what it
 * does or prints.
 */
#ifndef HRF_ORCHESTRATOR_EXECUTOR_SLURM_COMMAND_H
#define HRF_ORCHESTRATOR_EXECUTOR_SLURM_COMMAND_H

#include "base/process.h"

#include <stdbool.h>

/* sbatch has a deadline of its own: it retries for up to 120 s when the controller is busy
 * (sbatch.c, MAX_RETRIES). If it is ended at the deadline, the jobs may have been submitted; the
 * caller then looks for them in the queue. */
enum { HRF_SLURM_DEADLINE_MS = 30000, HRF_SLURM_SUBMIT_DEADLINE_MS = 45000 };

/* `ms` scaled by $HRF_SLURM_WAIT_PERCENT (default 100). All waits of this folder pass through here,
 * so that tests can shorten them. */
int64_t hrf_slurm_wait_ms(int64_t ms);

struct hrf_slurm_output {
    struct hrf_strbuf output, errors;
    struct hrf_process_result result;
};
void hrf_slurm_output_release(struct hrf_slurm_output *output);
static inline bool hrf_slurm_succeeded(const struct hrf_slurm_output *o)
{
    return o->result.exited && o->result.exit_code == 0 && !o->result.timed_out;
}

/* Runs the command and waits for it. *out is overwritten; the caller releases it after HRF_OK,
 * which only says that the command ran: see hrf_slurm_succeeded(). HRF_E_EXTERNAL: it could not be
 * started. */
HRF_CHECKED enum hrf_status hrf_slurm_run(const char *const argv[], int64_t deadline_ms,
                                          struct hrf_slurm_output *out, struct hrf_error *err);

/* The same with HRF_SLURM_DEADLINE_MS, for callers that need no reason. Returns true if the command
 * succeeded; only then does the caller own *out. */
bool hrf_slurm_ask(const char *const argv[], struct hrf_slurm_output *out);

/* Runs one command at a time in a thread, so that the caller never waits for a controller that does
 * not answer. Not thread-safe itself. */
struct hrf_slurm_query;
struct hrf_slurm_query *hrf_slurm_query_create(void);
/* Waits for a command that still runs, at most until its deadline. NULL is fine. */
void hrf_slurm_query_destroy(struct hrf_slurm_query *query);
bool hrf_slurm_query_is_busy(const struct hrf_slurm_query *query);
/* Must not be called while busy. argv is copied. */
HRF_CHECKED enum hrf_status hrf_slurm_query_start(struct hrf_slurm_query *query,
                                                  const char *const argv[], struct hrf_error *err);
/* Returns true once after the command has ended. *status is then the result of hrf_slurm_run();
 * with HRF_OK the caller owns *out. */
bool hrf_slurm_query_take(struct hrf_slurm_query *query, struct hrf_slurm_output *out,
                          enum hrf_status *status, struct hrf_error *err);

#endif
