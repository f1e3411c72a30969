/* script.h - what is given to sbatch and srun, as text. Pure: golden files hold it.
 *
 * Nothing that a user names reaches a shell unquoted: paths stand in single quotes, job names and
 * array indices are ours. Resources are always said in full; a site's defaults are not relied on.
 */
#ifndef HRF_ORCHESTRATOR_EXECUTOR_SLURM_SCRIPT_H
#define HRF_ORCHESTRATOR_EXECUTOR_SLURM_SCRIPT_H

#include "base/strbuf.h"
#include "orchestrator/executor/executor.h"

struct hrf_slurm_job {
    const struct hrf_workflow_executor *settings;
    const struct hrf_submission *submission;
    const char *program;      /* hires-flow, absolute */
    int64_t max_minutes;      /* of the partition; 0 = no limit */
    int64_t max_memory_bytes; /* of a node; 0 = no limit */
    int64_t at_once;          /* array elements; 0 = no limit */
};

/* "hf-<run id>-<number>": unique for ever. */
void hrf_slurm_name(const char *run_id, int64_t number, char out[96]);
/* Of the workflow's text; 60 when it has none. */
int64_t hrf_slurm_minutes(const char *duration);
int64_t hrf_slurm_ranks(const struct hrf_workflow_executor *settings, const char *kind);
/* Relative to the run directory: where a submission's script and its elements' own output are. */
char *hrf_slurm_directory(int64_t number);                  /* heap */
char *hrf_slurm_output_path(int64_t number, int64_t place); /* heap */

/* The batch script. */
void hrf_slurm_script(const struct hrf_slurm_job *job, struct hrf_strbuf *out);
/* sbatch's command line, the script's path (relative to the run directory) last. */
HRF_CHECKED enum hrf_status hrf_slurm_sbatch(const struct hrf_slurm_job *job,
                                             struct hrf_text_list *out, struct hrf_error *err);
/* What stands before a worker: srun for more than one rank, the site's container. */
HRF_CHECKED enum hrf_status hrf_slurm_wrap(const struct hrf_workflow_executor *settings,
                                           const char *kind, struct hrf_text_list *out,
                                           struct hrf_error *err);
/* `text` in single quotes, for bash. */
void hrf_slurm_quote(const char *text, struct hrf_strbuf *out);

#endif
