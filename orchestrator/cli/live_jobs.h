/* live_jobs.h - the state of the jobs that have not been imported, from their sentinels, results
 * and progress files. It can be read while a driver runs, or without one. */
#ifndef HRF_ORCHESTRATOR_CLI_LIVE_JOBS_H
#define HRF_ORCHESTRATOR_CLI_LIVE_JOBS_H

#include "base/json.h"
#include "schema/store/tasks.h"

enum hrf_live_state {
    HRF_LIVE_WAITING,  /* it has not begun */
    HRF_LIVE_RUNNING,  /* its last sign of life is recent */
    HRF_LIVE_SILENT,   /* it shows no sign of life, and may still run */
    HRF_LIVE_ENDED,    /* it has reported its end; a driver will import its results */
    HRF_LIVE_GONE,     /* its process is gone without a report */
    HRF_LIVE_WITHDRAWN /* it was revoked before it began */
};
enum { HRF_N_LIVE_STATES = 6 };

struct hrf_live_job {
    char *id, *host,
        *text; /* heap; host NULL: not known; text: why it is silent or gone, or NULL */
    enum hrf_task_kind kind;
    enum hrf_live_state state;
    int64_t n_tasks, n_done; /* tasks of the job, and those that have a result or a failure */
    int64_t n_patches, n_patches_done;
    double age_s;              /* since its last sign of life */
    double patches_per_second; /* since it began; 0: it does not run, or has scored nothing yet */
};

struct hrf_live_jobs {
    struct hrf_live_job *items;
    size_t n_items;
    int64_t n_unread; /* further jobs, which were not read */
    /* Tasks that are RUNNING in the store and have no result, by kind and by the state of their
     * job; n_written: tasks with a result that no driver has imported yet. */
    int64_t tasks[HRF_N_TASK_KINDS][HRF_N_LIVE_STATES], n_written[HRF_N_TASK_KINDS];
    int64_t n_patches_written; /* patches that are scored and not imported yet */
    double patches_per_second; /* sum over the running jobs */
};

/* Reads the jobs that have not ended according to the store. `tasks` are the store's. */
HRF_CHECKED enum hrf_status hrf_live_jobs_read(struct hrf_store *store, const char *directory,
                                               const struct hrf_task_rows *tasks,
                                               struct hrf_live_jobs *out, struct hrf_error *err);
void hrf_live_jobs_release(struct hrf_live_jobs *jobs);
/* Returns the number of jobs that run or wait, as far as their files tell. */
int64_t hrf_live_jobs_alive(const struct hrf_live_jobs *jobs);
/* Prints one line for each job and returns the number of lines. */
int hrf_live_jobs_print(const struct hrf_live_jobs *jobs);
/* New reference. */
json_t *hrf_live_jobs_json(const struct hrf_live_jobs *jobs);

#endif
