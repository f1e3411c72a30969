/* task_table.h - the run's copy of the store's tasks: found by id, counted by state, read again.
 *
 * With 100,000 slides the copy has as many rows and more, and the loop turns as often: it does not
 * walk over all tasks, nor read them all again, for each job that ends. */
#ifndef HRF_ORCHESTRATOR_RUN_TASK_TABLE_H
#define HRF_ORCHESTRATOR_RUN_TASK_TABLE_H

#include "orchestrator/run/setup.h"
#include "orchestrator/state/state.h"
#include "schema/store/tasks.h"

/* What this driver knows of a task beyond its row. It is not stored: another driver starts afresh.
 */
struct run_task_state {
    int64_t not_before_ms; /* monotonic */
    struct hrf_end_counts ends;
    double share; /* of a training: the most that an attempt has told to be done, 0 to 1 */
};

struct run_task_index {
    int64_t id;
    size_t index; /* into the rows */
};

/* How many tasks there are of each kind in each state; of infer tasks also their patches. */
struct run_task_counts {
    int64_t n[HRF_N_TASK_KINDS][HRF_N_TASK_STATES], patches[HRF_N_TASK_STATES];
};

struct run_slide_note {
    bool is_unread;    /* it was tiled, and its infer tasks are not in the rows yet */
    bool is_unsettled; /* a task of it has ended since its state was looked at */
};

struct run_tasks {
    struct hrf_task_rows rows;     /* those of a kind stand side by side, and within it by slide */
    struct run_task_state *states; /* [rows.n_items] */
    struct run_task_index *by_id;  /* [rows.n_items], sorted by id */
    struct run_task_counts counts; /* of the rows */
    size_t first_pending[HRF_N_TASK_KINDS]; /* no task of the kind before this one is PENDING */
    bool needs_reload;                      /* the store has tasks that the rows lack */
    int64_t n_new;                          /* how often such were planned since they were read */
    bool are_planned; /* the store's tasks from before this driver have been planned */
    struct run_slide_note *slide_notes; /* by slide id; [0] is for tasks of no slide */
    int64_t *unsettled;                 /* ids of the slides that are: [n_unsettled] */
    size_t n_unsettled;
    bool all_unsettled; /* every slide may be */
};

void run_tasks_release(struct run_tasks *tasks);
/* Reads the tasks again after new ones were planned; keeps their states. Rows move. HRF_E_USER: a
 * task belongs to a slide that does not exist. */
HRF_CHECKED enum hrf_status run_tasks_reload(struct run_tasks *tasks, const struct run_setup *setup,
                                             const struct hrf_slide_rows *slides,
                                             struct hrf_error *err);
/* To be called when tasks were planned that the rows lack. */
void run_tasks_note_new(struct run_tasks *tasks);
/* True if so many tasks are new that reading all of them again is worth its time. */
bool run_tasks_is_reload_due(const struct run_tasks *tasks);
struct hrf_task_row *run_tasks_find(const struct run_tasks *tasks, int64_t task_id);
/* The index behind the last task of a kind. */
size_t run_tasks_kind_end(const struct run_tasks *tasks, enum hrf_task_kind kind);
/* The only way to change a task's state: counts and indices are kept up. Not in the store. */
void run_tasks_set_state(struct run_tasks *tasks, struct hrf_task_row *task,
                         enum hrf_task_state state);
/* Makes a RUNNING task PENDING, here and in the store; `reason` may be NULL. */
HRF_CHECKED enum hrf_status run_tasks_free(struct run_tasks *tasks, struct hrf_store *store,
                                           struct hrf_task_row *task, const char *reason,
                                           struct hrf_error *err);
/* How many tasks of a kind are PENDING or RUNNING. */
int64_t run_tasks_count_open(const struct run_tasks *tasks, enum hrf_task_kind kind);

#endif
