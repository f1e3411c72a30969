/* executor.h - the interface of executors, which run jobs: `local` starts processes on this
 * machine, `slurm` submits array jobs.
 *
 * One submission is one or more jobs of the same kind with the same resources. A job is identified
 * by the submission's number and its index in the submission. Both are decided before the job is
 * submitted, so that a submission whose outcome is not known can be found later. The scheduler is
 * asked by poll(), at most once per iteration of the run loop; look() answers from memory. Not
 * thread-safe.
 */
#ifndef HRF_ORCHESTRATOR_EXECUTOR_EXECUTOR_H
#define HRF_ORCHESTRATOR_EXECUTOR_EXECUTOR_H

#include "base/error.h"
#include "orchestrator/state/state.h"
#include "schema/workflow/workflow.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_job_handle {
    int64_t id;          /* local: PID of the launcher, which leads its process group; slurm: the
                            array's job ID, which the scheduler may reuse; 0 = not known */
    uint64_t start_time; /* local: distinguishes the process from a later one with the same PID */
    int64_t submission;  /* number of the submission, unique in the run, from 1 */
    int64_t array_index; /* position in the submission, from 0 */
    int64_t since_ms;    /* monotonic, when it was submitted; 0 = by an earlier driver */
    int64_t own_id;      /* slurm: job ID of this array element, from its sentinel; 0 = not known */
};

/* The content of one submission; resources are the same for all of its jobs. */
struct hrf_submission {
    const char *run_directory; /* absolute */
    const char *run_id;
    int64_t number;
    const char *kind; /* "tile", "tissue" (tile jobs with a network), "infer", "calibrate",
                       "head", "train", "network" (trainings of networks) */
    const char *const *spec_paths; /* absolute; one per job */
    size_t n_jobs;
    int64_t time_level, memory_level; /* see hrf_state_grow() */
    const char *exclude;              /* nodes that must not be used, "n1,n2"; "" = none */
};

enum hrf_submit_outcome {
    HRF_SUBMIT_TAKEN,
    HRF_SUBMIT_FULL,   /* no room now: try later, or with fewer jobs; err says why */
    HRF_SUBMIT_UNSURE, /* the jobs may have been submitted and must be looked for; err says why */
};

/* What is known of a job's existence. */
enum hrf_job_observation {
    HRF_JOB_UNKNOWN, /* no reliable answer yet: what was known before still holds */
    HRF_JOB_WAITING,
    HRF_JOB_RUNNING,
    HRF_JOB_ENDED, /* in a final state */
    HRF_JOB_GONE   /* a reliable answer does not show it */
};

struct hrf_job_view {
    enum hrf_job_observation observed;
    enum hrf_cause cause; /* valid if ended */
    int64_t id;           /* job ID or PID, as the executor knows it now */
    int64_t asked_ms;     /* monotonic, when the scheduler was asked for this; 0 = not known */
    char state[32];       /* the scheduler's name of the state, "" for local */
    char reason[64];      /* the scheduler's reason why it waits, or how it ended; "" = none */
    char node[64];        /* the node of a job that runs on one node; "" = none or several */
};

struct hrf_executor {
    const struct hrf_executor_ops *ops;
    int64_t quiet_ms;  /* how long answers must have come without showing an unsure submission
                          before it is given up; 0: this executor has no unsure submissions and no
                          scheduler that may restart a job */
    int64_t grace_ms;  /* how long after a job's end its sentinel may become visible; more on file
                          systems that show changes late */
    int64_t full_ms;   /* first wait after HRF_SUBMIT_FULL */
    int64_t tick_ms;   /* how long the run loop sleeps if nothing happened */
    int64_t submit_ms; /* average time between two submissions; 0 = no limit */
    bool can_grow;     /* a job can get more time and memory than the one before */
};

struct hrf_executor_ops {
    const char *name;
    void (*destroy)(struct hrf_executor *executor);
    /* Largest number of jobs in one submission. The first call may ask the scheduler. */
    int64_t (*limit)(struct hrf_executor *executor);
    /* The words before the worker's own command line, such as srun or mpirun. NULL: none. The
     * caller releases *out with hrf_text_list_release(). */
    void (*wrap)(struct hrf_executor *executor, const char *kind, struct hrf_text_list *out);
    /* Cores of one worker process, given that at most `max_jobs` jobs of this kind run at a time.
     */
    int64_t (*threads)(const struct hrf_executor *executor, const char *kind, int64_t max_jobs);
    /* Number of worker processes in one job. NULL: one. */
    int64_t (*ranks)(const struct hrf_executor *executor, const char *kind);
    /* Starts the jobs; they continue if the driver ends. With HRF_OK, *outcome is set, and the ids
     * in `handles` (one per job) if the jobs were taken. Any other status is a refusal that would
     * be repeated. */
    enum hrf_status (*submit)(struct hrf_executor *executor,
                              const struct hrf_submission *submission,
                              struct hrf_job_handle *handles, enum hrf_submit_outcome *outcome,
                              struct hrf_error *err);
    /* To be called once per loop iteration. Asks the scheduler if a question is due, without
     * waiting for the answer. *is_new: look() or trouble() may now return something else than
     * before. Never fails: if the scheduler cannot be asked, everything stays as it was. */
    void (*poll)(struct hrf_executor *executor, bool *is_new);
    void (*look)(struct hrf_executor *executor, const struct hrf_job_handle *handle,
                 struct hrf_job_view *out);
    /* Asks all other sources (accounting records) about a job that is gone; it may exist after all.
     * Slow. NULL: there are no other sources. */
    void (*explain)(struct hrf_executor *executor, const struct hrf_job_handle *handle,
                    struct hrf_job_view *view);
    /* Asks jobs to end (hard: kills them). Only look() shows whether they did. */
    void (*cancel)(struct hrf_executor *executor, const struct hrf_job_handle *handles, size_t n,
                   bool hard);
    /* Path of the file into which the scheduler writes a job's output; heap. NULL: there is none.
     */
    char *(*output_path)(struct hrf_executor *executor, const char *run_directory,
                         const struct hrf_job_handle *handle);
    /* True if the scheduler shows the node as one that does not respond or is down; `state` is then
     * its word for it. Slow. NULL: nobody watches over nodes here. */
    bool (*node_is_silent)(struct hrf_executor *executor, const char *node, char *state,
                           size_t size);
    /* True if the end of a job's log or of its output file holds a message of the scheduler about
     * too little memory. NULL: this one leaves none. */
    bool (*says_out_of_memory)(const char *text);
    /* Why a job waits, as text for users that follows "waiting ". *never is set to true if the job
     * will not run unless somebody changes something. NULL: jobs do not wait here. */
    const char *(*waiting_reason)(const struct hrf_job_view *view, bool *never);
    /* Why the scheduler cannot be asked at present; "" if it can. Only poll() notices that it can
     * be asked again. NULL: it always can. */
    const char *(*trouble)(const struct hrf_executor *executor);
};

/* Creates the executor that the settings name. `settings` is borrowed and must outlive it. */
HRF_CHECKED enum hrf_status hrf_executor_create(const struct hrf_workflow_executor *settings,
                                                const char *run_id, struct hrf_executor **out,
                                                struct hrf_error *err);
/* For the table in executor.c. */
HRF_CHECKED enum hrf_status hrf_executor_local_create(const struct hrf_workflow_executor *settings,
                                                      const char *run_id, struct hrf_executor **out,
                                                      struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_executor_slurm_create(const struct hrf_workflow_executor *settings,
                                                      const char *run_id, struct hrf_executor **out,
                                                      struct hrf_error *err);
static inline void hrf_executor_destroy(struct hrf_executor *executor)
{
    if (executor != NULL)
        executor->ops->destroy(executor);
}
static inline const char *hrf_executor_trouble(const struct hrf_executor *executor)
{
    return executor->ops->trouble != NULL ? executor->ops->trouble(executor) : "";
}

#endif
