/* command.h - Slurm's commands: found by PATH, from argv, with a deadline, in an environment
 * without what an outer job or the user's settings would change them by. */
#ifndef HRF_ORCHESTRATOR_EXECUTOR_SLURM_COMMAND_H
#define HRF_ORCHESTRATOR_EXECUTOR_SLURM_COMMAND_H

#include "base/process.h"

#include <stdbool.h>

/* SUBMIT: sbatch sleeps up to 120 s by itself when told to come again (sbatch.c, MAX_RETRIES);
 * what it was at when it is ended is looked for. */
enum { HRF_SLURM_DEADLINE_MS = 30000, HRF_SLURM_SUBMIT_DEADLINE_MS = 45000 };

/* A wait of this folder; for tests all are in proportion ($HRF_SLURM_WAIT_PERCENT). */
int64_t hrf_slurm_wait_ms(int64_t ms);

struct hrf_slurm_output {
    struct hrf_strbuf output, errors;
    struct hrf_process_result result;
};
void hrf_slurm_output_release(struct hrf_slurm_output *output);
static inline bool hrf_slurm_is_well(const struct hrf_slurm_output *o)
{
    return o->result.exited && o->result.exit_code == 0 && !o->result.timed_out;
}

/* `out` is emptied first. HRF_E_EXTERNAL: the command could not be started. */
HRF_CHECKED enum hrf_status hrf_slurm_run(const char *const argv[], int64_t deadline_ms,
                                          struct hrf_slurm_output *out, struct hrf_error *err);

/* True when it ran and ended well: *out is then the caller's. */
bool hrf_slurm_ask(const char *const argv[], struct hrf_slurm_output *out);

/* One command at a time beside us, so that nothing waits for a controller that does not answer. */
struct hrf_slurm_query;
HRF_CHECKED enum hrf_status hrf_slurm_query_create(struct hrf_slurm_query **out,
                                                   struct hrf_error *err);
/* Ends a command that still runs. NULL is fine. */
void hrf_slurm_query_destroy(struct hrf_slurm_query *query);
bool hrf_slurm_query_is_busy(const struct hrf_slurm_query *query);
/* argv is copied. Not while busy. */
HRF_CHECKED enum hrf_status hrf_slurm_query_start(struct hrf_slurm_query *query,
                                                  const char *const argv[], struct hrf_error *err);
/* True once, when it has ended: *out is then filled (and released by the caller); *status is how
 * running it went. */
bool hrf_slurm_query_take(struct hrf_slurm_query *query, struct hrf_slurm_output *out,
                          enum hrf_status *status, struct hrf_error *err);

#endif
