/* jobs.h - the live jobs of a run: adding, revoking and ending them, recovering them from the store
 * after a restart, and cancelling all of them. */
#ifndef HRF_ORCHESTRATOR_RUN_JOBS_H
#define HRF_ORCHESTRATOR_RUN_JOBS_H

#include "orchestrator/run/task_table.h"
#include "schema/record/sentinel.h"

/* A job that, as far as is known, has not ended. */
struct run_job {
    struct hrf_attempt_row row;
    struct hrf_job_handle handle;
    struct hrf_job_view view;    /* the executor's last answer */
    const int64_t *task_ids;     /* borrowed from the row */
    size_t n_tasks, n_collected; /* tasks end in order: the first n_collected have ended */
    int64_t n_results;           /* how many of those have a result */
    int64_t unsure_since_ms;     /* monotonic; 0 = its submission is confirmed */
    int64_t silent_since_ms;     /* monotonic, since when the executor says that it ended, while its
                                    sentinel or results are missing; 0 = not so */
    int n_starts;                /* starts known so far (start.h); only the newest one counts */
    int64_t starts_ms;           /* monotonic, when the newest start was found */
    struct {
        int64_t n_beats, since_ms; /* number of its last beat, and when that was first seen
                                      (monotonic) */
        int64_t next_look_ms;      /* monotonic, when to check again */
        int64_t next_node_ms;      /* monotonic, when to ask about its node again */
        char silence[160];         /* why the job is considered hung; "" = it is not */
        bool was_ended;            /* this driver ended the job because it hung */
    } life;
    bool revoked, has_ended;
    bool is_lacking; /* a task of it failed because its node lacks a file */
};

struct run_jobs {
    struct run_job *live;
    size_t n, capacity;
    size_t next_look;    /* index into `live`: where the next iteration begins to read sentinels */
    int64_t next_number; /* of the next job */
    char queue[1024];    /* last value of the fact "queue" */
};
void run_jobs_release(struct run_jobs *jobs);

/* Appends a job made from its row, and takes over what the row owns. Returns the job; it is valid
 * until the next call. */
struct run_job *run_jobs_add(struct run_jobs *jobs, struct hrf_attempt_row *row);
void run_jobs_forget_ended(struct run_jobs *jobs);
/* Numbers the next job, and takes up the jobs that an earlier driver of the directory has left. */
HRF_CHECKED enum hrf_status run_jobs_recover(struct run_jobs *jobs, const struct run_setup *setup,
                                             struct run_tasks *tasks, struct hrf_error *err);
/* Ends all live jobs and waits until they have ended. Does not change the store. */
void run_jobs_end_all(struct run_jobs *jobs, const struct run_setup *setup);
/* Ends all live jobs, and makes their tasks PENDING again in the store. */
HRF_CHECKED enum hrf_status run_jobs_cancel_all(struct run_jobs *jobs,
                                                const struct run_setup *setup,
                                                const struct run_tasks *tasks,
                                                struct hrf_error *err);

/* Returns the path of a file of the job's directory; name NULL: of the directory. Heap. */
char *run_job_path(const struct run_setup *setup, const struct run_job *job, const char *name);
/* Returns the directory of the job's newest start: a scheduler may start a job several times. Heap.
 */
char *run_job_start_path(const struct run_setup *setup, const struct run_job *job);
/* Returns the directory of its k-th start. Heap. */
char *run_job_kth_start_path(const struct run_setup *setup, const struct run_job *job, int k);
static inline int run_job_newest_start(const struct run_job *job)
{
    return job->n_starts > 0 ? job->n_starts - 1 : 0;
}
/* Updates job->n_starts. */
void run_job_find_starts(struct run_job *job, const struct run_setup *setup);
/* Reads the sentinel "start", "beat" or "done" of a job's newest start. Returns false if it is not
 * there yet. */
bool run_job_read_sentinel(const struct run_setup *setup, const struct run_job *job,
                           const char *name, struct hrf_sentinel *out);
bool run_job_has_begun(const struct run_setup *setup, const struct run_job *job);
/* Revokes the attempt: its workers see the fence file and stop, and nothing that they still write
 * is accepted. */
void run_job_revoke(struct run_job *job, const struct run_setup *setup);
HRF_CHECKED enum hrf_status run_job_end(struct run_job *job, const struct run_setup *setup,
                                        const char *reason, struct hrf_error *err);
/* Makes the job's RUNNING tasks PENDING; `reason` may be NULL. */
HRF_CHECKED enum hrf_status run_job_free_tasks(const struct run_job *job,
                                               const struct run_setup *setup,
                                               struct run_tasks *tasks, const char *reason,
                                               struct hrf_error *err);

/* liveness.c */
/* Checks whether a job shows signs of life. A job that does not is reported, which sets *changed;
 * on this machine it is also ended after a time. */
HRF_CHECKED enum hrf_status run_job_check_life(struct run_job *job, const struct run_setup *setup,
                                               bool *changed, struct hrf_error *err);

/* queue.c */
/* Stores the fact "queue": how many jobs run and wait, and why. Must be called in a transaction. */
HRF_CHECKED enum hrf_status run_jobs_record_queue(struct run_jobs *jobs,
                                                  const struct run_setup *setup, bool *changed,
                                                  struct hrf_error *err);

#endif
