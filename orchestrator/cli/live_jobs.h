/* live_jobs.h - what the jobs that have not been imported say of themselves: their sentinels, the
 * results that they have written and their progress. Read beside a driver, or without one. */
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
const char *hrf_live_state_name(enum hrf_live_state state);

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
    int64_t n_unread; /* further jobs, which were not looked at */
    /* Of the tasks that the store calls RUNNING, by kind and by the state of their job: those
     * without a result; `n_written`: those with one, which no driver has imported yet. */
    int64_t tasks[HRF_N_TASK_KINDS][HRF_N_LIVE_STATES], n_written[HRF_N_TASK_KINDS];
    int64_t n_patches_written; /* scored, and not imported yet */
    double patches_per_second; /* of the jobs that run */
};

/* Looks at the jobs that have not ended as far as the store knows. `tasks` are the store's. */
HRF_CHECKED enum hrf_status hrf_live_jobs_read(struct hrf_store *store, const char *directory,
                                               const struct hrf_task_rows *tasks,
                                               struct hrf_live_jobs *out, struct hrf_error *err);
void hrf_live_jobs_release(struct hrf_live_jobs *jobs);
/* Jobs in that state. */
int64_t hrf_live_jobs_count(const struct hrf_live_jobs *jobs, enum hrf_live_state state);
/* One line for each job; returns the number of lines. */
int hrf_live_jobs_print(const struct hrf_live_jobs *jobs);
/* New reference. */
json_t *hrf_live_jobs_json(const struct hrf_live_jobs *jobs);

#endif
