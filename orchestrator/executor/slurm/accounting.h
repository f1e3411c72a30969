/* accounting.h - what Slurm knows of one job that squeue no longer shows. */
#ifndef HRF_ORCHESTRATOR_EXECUTOR_SLURM_ACCOUNTING_H
#define HRF_ORCHESTRATOR_EXECUTOR_SLURM_ACCOUNTING_H

#include "orchestrator/executor/executor.h"
#include "orchestrator/executor/slurm/parse.h"

/* Asks three sources in turn and fills *view from the first one that knows the job:
 *   scontrol  the controller; it may also say that the job still exists
 *   sacct     the accounting database; only believed if it says that the job has ended
 *   sacct -c  the log of ended jobs, if the site keeps one; it knows jobs that had started
 * Returns false, and leaves *view as it was, if no source knows the job. Each source costs one
 * command, so this is slow. */
bool hrf_slurm_accounting_find(const struct hrf_slurm_limits *limits, const char *run_id,
                               const struct hrf_job_handle *handle, struct hrf_job_view *view);

#endif
