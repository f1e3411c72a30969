/* site.h - shows and tests what a workflow would submit to Slurm, without submitting it. */
#ifndef HRF_ORCHESTRATOR_EXECUTOR_SLURM_SITE_H
#define HRF_ORCHESTRATOR_EXECUTOR_SLURM_SITE_H

#include "base/strbuf.h"
#include "schema/workflow/workflow.h"

/* Appends the sbatch command lines for n_jobs jobs of a kind ("tile", "infer", "calibrate") to
 * *out, quoted for a shell: one line per array of at most `max` elements. *number is the number of
 * the first submission, and is advanced by n_jobs. */
void hrf_slurm_describe(const struct hrf_workflow_executor *settings, const char *kind,
                        int64_t n_jobs, int64_t max, const char *directory, int64_t *number,
                        struct hrf_strbuf *out);
/* Largest number of elements in one array on this site; 1000 if the controller does not answer. */
int64_t hrf_slurm_array_limit(void);
/* Runs `sbatch --test-only` for one job of a kind; *out gets Slurm's answer. HRF_E_USER: the job
 * would be refused, or accepted and never run. HRF_E_AGAIN: the controller does not answer. */
HRF_CHECKED enum hrf_status hrf_slurm_try(const struct hrf_workflow_executor *settings,
                                          const char *kind, struct hrf_strbuf *out,
                                          struct hrf_error *err);

#endif
