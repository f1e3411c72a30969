/* script.h - the batch script and the command lines for sbatch and srun. Pure functions; the tests
 * compare their output with golden files.
 *
 * No text of the user reaches a shell unquoted: paths stand in single quotes, and job names and
 * array indices are made by this program. All resources are requested explicitly, so that a site's
 * defaults do not matter.
 */
#ifndef HRF_ORCHESTRATOR_EXECUTOR_SLURM_SCRIPT_H
#define HRF_ORCHESTRATOR_EXECUTOR_SLURM_SCRIPT_H

#include "base/strbuf.h"
#include "orchestrator/executor/executor.h"

struct hrf_slurm_job {
    const struct hrf_workflow_executor *settings;
    const struct hrf_submission *submission;
    const char *program; /* hires-flow, absolute */
    /* What the partition gives at most, of time and of a node's memory; 0 = no limit. Keys that the
     * workflow does not set are cut to it, and so is what a later attempt gets more. */
    int64_t max_minutes, max_memory_bytes;
    int64_t at_once; /* array elements that may run at the same time; 0 = no limit */
};

/* The job name "hf-<run id>-<number>", which is never used twice. */
void hrf_slurm_name(const char *run_id, int64_t number, char out[96]);
/* Minutes of a duration in the workflow's notation, rounded up; 60 for NULL. */
int64_t hrf_slurm_minutes(const char *duration);
int64_t hrf_slurm_ranks(const struct hrf_workflow_executor *settings, const char *kind);
/* The directory of a submission's script and of its elements' output, and the output file of one
 * element; both relative to the run directory. */
char *hrf_slurm_directory(int64_t number);                        /* heap */
char *hrf_slurm_output_path(int64_t number, int64_t array_index); /* heap */

/* The batch script. */
void hrf_slurm_script(const struct hrf_slurm_job *job, struct hrf_strbuf *out);
/* The command line of sbatch; its last word is the path of the script. *out is released with
 * hrf_text_list_release(). */
void hrf_slurm_sbatch(const struct hrf_slurm_job *job, struct hrf_text_list *out);
/* The words before the worker's command line: srun if there is more than one rank, then the site's
 * container. *out as above. */
void hrf_slurm_wrap(const struct hrf_workflow_executor *settings, const char *kind,
                    struct hrf_text_list *out);

#endif
