/* executor.h - where jobs run: `local` as processes of this machine, `slurm` as array jobs.
 *
 * One submission is one or more jobs of the same kind with the same resources. A job's identity
 * (the submission's number and its place in it) is decided before it is submitted, so that a
 * submission whose outcome is not known can be looked for. A scheduler is asked at most once a
 * tick (poll); look() answers from that. Not thread-safe.
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
    int64_t id;          /* local: pid of the launcher, which leads its process group; slurm: the
                            array's job ID, which the scheduler may use again; 0 = not known */
    uint64_t start_time; /* local: tells the process from a later one of the same number */
    int64_t submission;  /* unique in the run, from 1 */
    int64_t place;       /* in the submission, from 0 */
    int64_t since_ms;    /* monotonic, when it was submitted; 0 = by an earlier driver */
    int64_t own_id;      /* slurm: of this one element, as its record says; 0 = not known */
};

/* What one submission asks for; the same for all of its jobs. */
struct hrf_submission {
    const char *run_directory; /* absolute */
    const char *run_id;
    int64_t number;
    const char *kind;              /* "tile", "infer", "calibrate" */
    const char *const *spec_paths; /* absolute; one a job */
    size_t n_jobs;
    int64_t time_level, memory_level; /* see hrf_state_grow() */
    const char *exclude;              /* machines to leave out, "n1,n2"; "" = none */
};

enum hrf_submit_outcome {
    HRF_SUBMIT_TAKEN,
    HRF_SUBMIT_FULL,   /* refused for now: later, or fewer; err says why */
    HRF_SUBMIT_UNSURE, /* may have been taken: look for it before it is given up; err says why */
};

enum hrf_job_sight {
    HRF_JOB_UNKNOWN, /* no answer yet that can be trusted: believe what was known */
    HRF_JOB_WAITING,
    HRF_JOB_RUNNING,
    HRF_JOB_ENDED, /* in a state that is final */
    HRF_JOB_GONE   /* not there, by an answer that can be trusted */
};

struct hrf_job_view {
    enum hrf_job_sight sight;
    enum hrf_cause cause; /* when ended */
    int64_t id;           /* as the executor has it now */
    int64_t asked_ms;     /* monotonic, when the scheduler was asked for this; 0 = not known */
    char state[32];       /* the scheduler's word, "" for local */
    char reason[64];      /* its word for why it waits, or how it ended; "" = none */
    char node[64];        /* of a job on one machine; "" = none or many */
};

struct hrf_executor {
    const struct hrf_executor_ops *ops;
    /* quiet_ms: for how long answers without it must have come before a submission that is not
     * sure is given up; 0: nothing is ever unsure here, and nothing starts again by itself.
     * grace_ms: how late a job's own word may come after its end (longer where files are seen
     * late). full_ms: the first wait when it
     * is full. tick_ms: how long to sleep when nothing happens. submit_ms: between two submissions
     * in the long run; 0: any number. */
    int64_t quiet_ms, grace_ms, full_ms, tick_ms, submit_ms;
};

struct hrf_executor_ops {
    const char *name;
    void (*destroy)(struct hrf_executor *executor);
    /* Most jobs of one submission. May ask the scheduler, once. */
    int64_t (*limit)(struct hrf_executor *executor);
    /* The words before the worker's own command line; NULL: none. *out is emptied by
     * hrf_words_release. */
    enum hrf_status (*wrap)(struct hrf_executor *executor, const char *kind,
                            struct hrf_text_list *out, struct hrf_error *err);
    /* Cores of one worker process, of whose kind there are never more than `most_jobs` at a time;
     * and how many workers there are in one job. */
    int64_t (*threads)(const struct hrf_executor *executor, const char *kind, int64_t most_jobs);
    int64_t (*ranks)(const struct hrf_executor *executor, const char *kind); /* NULL: one */
    /* Starts the jobs; they outlive us. HRF_OK with *outcome and, when taken, the handles' ids; or
     * the refusal that trying again would not change. */
    enum hrf_status (*submit)(struct hrf_executor *executor,
                              const struct hrf_submission *submission,
                              struct hrf_job_handle *handles, enum hrf_submit_outcome *outcome,
                              struct hrf_error *err);
    /* Once a tick; asks the scheduler when that is due, without waiting for the answer. *is_new:
     * look() or trouble() may say otherwise than before. Never fails: what cannot be asked stays as
     * it was. */
    void (*poll)(struct hrf_executor *executor, bool *is_new);
    void (*look)(struct hrf_executor *executor, const struct hrf_job_handle *handle,
                 struct hrf_job_view *out);
    /* Asks every other witness about one job that is gone: slow. It may be there after all. NULL:
     * there is none. */
    void (*explain)(struct hrf_executor *executor, const struct hrf_job_handle *handle,
                    struct hrf_job_view *view);
    /* Asks jobs to end (hard: at once). Confirmed by look() only. */
    void (*cancel)(struct hrf_executor *executor, const struct hrf_job_handle *handles, size_t n,
                   bool hard);
    /* What the scheduler left of a job's own output, "" when nothing; heap. NULL: there is none. */
    char *(*output_path)(struct hrf_executor *executor, const char *run_directory,
                         const struct hrf_job_handle *handle);
    /* Why a job waits, for people: what goes after "waiting ". *never: it will not run unless
     * something is changed. NULL: jobs do not wait here. */
    const char *(*say)(const struct hrf_job_view *view, bool *never);
    /* Why the scheduler cannot be asked at present, "" when it can; only poll() finds out that it
     * can again. NULL: it always can. */
    const char *(*trouble)(const struct hrf_executor *executor);
};

HRF_CHECKED enum hrf_status hrf_executor_local_create(const struct hrf_workflow_executor *settings,
                                                      struct hrf_executor **out,
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

/* Adds a copy of `word`. */
static inline enum hrf_status hrf_words_add(struct hrf_text_list *list, const char *word,
                                            struct hrf_error *err)
{
    char **items = hrf_realloc_array(list->items, list->n_items + 1, sizeof *items);
    if (items != NULL)
        list->items = items;
    char *copy = items != NULL ? hrf_strdup(word) : NULL;
    if (copy == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a command line");
    list->items[list->n_items++] = copy;
    return HRF_OK;
}
static inline void hrf_words_release(struct hrf_text_list *list)
{
    for (size_t i = 0; i < list->n_items; i++)
        hrf_free(list->items[i]);
    hrf_free(list->items);
    *list = (struct hrf_text_list){ NULL, 0 };
}

#endif
