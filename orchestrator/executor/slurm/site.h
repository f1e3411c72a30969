/* site.h - what a workflow would ask of Slurm, shown and tried without submitting anything. */
#ifndef HRF_ORCHESTRATOR_EXECUTOR_SLURM_SITE_H
#define HRF_ORCHESTRATOR_EXECUTOR_SLURM_SITE_H

#include "base/strbuf.h"
#include "schema/workflow/workflow.h"

/* The sbatch lines for n_jobs jobs of a kind ("tile", "infer", "calibrate"), a line an array, as a
 * shell would take them. `most`: elements of one array. */
HRF_CHECKED enum hrf_status hrf_slurm_describe(const struct hrf_workflow_executor *settings,
                                               const char *kind, int64_t n_jobs, int64_t most,
                                               const char *directory, int64_t *number,
                                               struct hrf_strbuf *out, struct hrf_error *err);
/* Elements of one array on this site, as far as the controller tells; 1000 otherwise. */
int64_t hrf_slurm_array_limit(void);
/* `sbatch --test-only` of one job of a kind: *out says what Slurm would do with it. HRF_E_USER: it
 * would be refused, or taken and never run; HRF_E_AGAIN: the controller does not answer. */
HRF_CHECKED enum hrf_status hrf_slurm_try(const struct hrf_workflow_executor *settings,
                                          const char *kind, struct hrf_strbuf *out,
                                          struct hrf_error *err);

#endif
