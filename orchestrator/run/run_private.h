/* run_private.h - the state of a running driver, put together of its parts, and the functions that
 * need more than one or two of them. All of it is used by one thread. */
#ifndef HRF_ORCHESTRATOR_RUN_RUN_PRIVATE_H
#define HRF_ORCHESTRATOR_RUN_RUN_PRIVATE_H

#include "orchestrator/run/batches.h"
#include "orchestrator/run/display.h"
#include "orchestrator/run/faults.h"
#include "orchestrator/run/heads.h"
#include "orchestrator/run/int8_calibration.h"
#include "orchestrator/run/jobs.h"
#include "orchestrator/run/limits.h"
#include "orchestrator/run/prepare.h"
#include "orchestrator/run/run.h"
#include "orchestrator/run/setup.h"
#include "orchestrator/run/task_table.h"

struct run {
    struct run_setup setup;
    struct hrf_slide_rows slides;
    struct run_tasks tasks;
    struct run_jobs jobs;
    struct run_limits limits;
    struct run_faults faults;
    struct run_calibration calibration;
    struct run_heads heads;
    struct run_display display;
    struct hrf_random random; /* for jitter */
    struct hrf_run_summary summary;
};

/* prepare.c */
HRF_CHECKED enum hrf_status run_ingest(struct run *run, struct hrf_error *err);
HRF_CHECKED enum hrf_status run_plan_infer(struct run *run, int64_t slide_id,
                                           struct hrf_error *err);
/* Plans the infer tasks of every tiled slide anew, and the head tasks of all slides. */
HRF_CHECKED enum hrf_status run_plan_all_infer(struct run *run, struct hrf_error *err);
/* Commits tasks that were planned: warns about results in the store that are invalid and will be
 * computed again, and reads the tasks. */
HRF_CHECKED enum hrf_status run_commit_plan(struct run *run, struct hrf_error *err);
/* Tasks that failed in an earlier run are tried again, and tasks that have used up some tries get
 * all of them back. Jobs that are still running keep their tasks. */
HRF_CHECKED enum hrf_status run_revive(struct run *run, struct hrf_error *err);
/* The identity that the record of an infer, tile or calibrate task must have. */
struct hrf_record_identity run_expect(const struct run *run, const struct hrf_task_row *task);

/* network_trainings.c: plans a task for each training of setup.trainings. */
HRF_CHECKED enum hrf_status run_plan_networks(struct run *run, struct hrf_error *err);
HRF_CHECKED enum hrf_status run_fill_network(struct run *run, const struct hrf_task_row *row,
                                             struct hrf_job_training *out, struct hrf_error *err);
/* Returns what people call the task's slide or training; heap. */
char *run_task_subject(const struct run *run, const struct hrf_task_row *task);
/* How far the job's task is, 0 to 1, as its worker reports; 0: nothing is known. */
double run_task_share(const struct run *run, const struct run_job *job, size_t index);

/* spec.c */
/* Returns what executors call tasks of this kind: hrf_task_kind_name(), "tissue" for tile tasks
 * whose tissue a network finds, or "network" for trainings of networks. */
const char *run_kind_name(const struct run_setup *setup, enum hrf_task_kind kind);
/* Returns DIR/plans/<key>.rec, the path of the tile plan with that key. Heap. */
char *run_plan_path(const struct run_setup *setup, const char *key);
/* True if the file holds the expected tile plan. */
bool run_has_plan(const char *path, const struct hrf_record_identity *expected);
HRF_CHECKED enum hrf_status run_write_spec(struct run *run, const struct run_batch *batch,
                                           const struct hrf_attempt_row *attempt, const char *path,
                                           struct hrf_error *err);

/* submit.c */
HRF_CHECKED enum hrf_status run_submit(struct run *run, bool *submitted, struct hrf_error *err);

/* observe.c */
HRF_CHECKED enum hrf_status run_observe(struct run *run, bool *changed, struct hrf_error *err);

/* collect.c */
/* Decides whether a task that ended without a result is tried again. `progress`: the attempt left
 * something that the next one continues from. `reason`: a sentence for users. */
HRF_CHECKED enum hrf_status run_judge_task(struct run *run, struct hrf_task_row *task,
                                           enum hrf_end end, bool progress, const char *reason,
                                           struct hrf_error *err);
/* Collects the task at `index` of the job. *ended: it has a result, or its worker reported a
 * failure. is_last: the task is not looked at again. */
HRF_CHECKED enum hrf_status run_collect_task(struct run *run, struct run_job *job, size_t index,
                                             struct hrf_task_row *task, bool is_last, bool *ended,
                                             struct hrf_error *err);
/* Collects the job's next tasks up to the first that has not ended; tasks end in order. */
HRF_CHECKED enum hrf_status run_collect(struct run *run, struct run_job *job, bool *changed,
                                        struct hrf_error *err);
/* Moves the partial result of a task that the job did not finish to where the next attempt finds
 * it. Returns true if there was one. */
bool run_take_part(const struct run_setup *setup, const struct run_job *job, size_t index,
                   const struct hrf_task_row *task);

/* phases.c */
struct run_span {
    int64_t from, to; /* ms */
};
/* Returns the length of the union of the spans in seconds, and sorts them. */
double run_union_seconds(struct run_span *spans, size_t n);
/* Stores how long each phase took and how much of it was cached. Must be called in a transaction.
 */
HRF_CHECKED enum hrf_status run_record_phases(struct run *run, double ingest_seconds,
                                              struct hrf_error *err);

/* report_key.c: tells whether the files of the last report are those that a report would write now;
 * forgets them, before a report is written; and remembers those that were written. */
HRF_CHECKED enum hrf_status run_report_is_kept(const struct run_setup *setup, bool *out,
                                               struct hrf_error *err);
HRF_CHECKED enum hrf_status run_report_forget(struct hrf_store *store, struct hrf_error *err);
HRF_CHECKED enum hrf_status run_report_remember(const struct run_setup *setup,
                                                struct hrf_error *err);

#endif
