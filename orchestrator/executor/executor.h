/* executor.h - where jobs run. `local` starts them as processes of this machine; Slurm joins. */
#ifndef HRF_ORCHESTRATOR_EXECUTOR_EXECUTOR_H
#define HRF_ORCHESTRATOR_EXECUTOR_EXECUTOR_H

#include "base/error.h"

#include <stdint.h>

struct hrf_job_handle {
    int64_t pid;         /* local: of the launcher, which leads its process group */
    uint64_t start_time; /* local: tells the process from a later one of the same number */
};

enum hrf_job_sight { HRF_JOB_SEEN, HRF_JOB_GONE };

struct hrf_executor_ops {
    const char *name;
    /* Starts the job of `spec_path`; it outlives us. Does not wait. */
    enum hrf_status (*submit)(const char *spec_path, struct hrf_job_handle *out,
                              struct hrf_error *err);
    /* Whether the job is still there: the second witness, after the sentinels. */
    enum hrf_job_sight (*look)(const struct hrf_job_handle *handle);
    /* Asks it to end (hard: at once). Confirmed by look() only. */
    void (*cancel)(const struct hrf_job_handle *handle, int hard);
};

extern const struct hrf_executor_ops hrf_executor_local;

#endif
