/* witness.h - what Slurm's other commands know of a job that squeue no longer shows. */
#ifndef HRF_ORCHESTRATOR_EXECUTOR_SLURM_WITNESS_H
#define HRF_ORCHESTRATOR_EXECUTOR_SLURM_WITNESS_H

#include "orchestrator/executor/executor.h"
#include "orchestrator/executor/slurm/parse.h"

/* The controller may know it (scontrol), also that it is there after all; accounting knows all
 * (sacct); the log of ended jobs, where a site keeps one, knows those that began (sacct -c): these
 * are asked for ends only. The first that knows fills *view; false: none does, and it is as it was.
 * Slow: each is a command. */
bool hrf_slurm_witness(const struct hrf_slurm_limits *limits, const char *run_id,
                       const struct hrf_job_handle *handle, struct hrf_job_view *view);

#endif
