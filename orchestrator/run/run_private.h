/* run_private.h - the state of a running driver, and the functions that the files of this folder
 * offer to each other. All of it is used by one thread. */
#ifndef HRF_ORCHESTRATOR_RUN_RUN_PRIVATE_H
#define HRF_ORCHESTRATOR_RUN_RUN_PRIVATE_H

#include "base/hash.h"
#include "base/random.h"
#include "orchestrator/dag/dag.h"
#include "orchestrator/executor/executor.h"
#include "orchestrator/run/forecast.h"
#include "orchestrator/run/preview.h"
#include "orchestrator/run/progress.h"
#include "orchestrator/run/rate.h"
#include "orchestrator/run/run.h"
#include "orchestrator/state/state.h"
#include "schema/record/calibration.h"
#include "schema/record/job.h"
#include "schema/record/sentinel.h"
#include "schema/store/tasks.h"

struct run_phase {
    double first, last; /* monotonic seconds of the first submit and the last result; 0 = none */
};

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
        char silence[160];         /* why the job is considered hung; "" = it is not */
        bool was_ended;            /* this driver ended the job because it hung */
    } life;
    bool revoked, has_ended;
};

/* Tasks that go into one job, as indices into run.tasks; those that read the same patches stand
 * next to each other (a group). */
struct run_batch {
    size_t *tasks;
    size_t n, capacity, n_groups;
    unsigned precisions; /* of each group, a bit each; 0: not of an infer job */
    int64_t n_patches;   /* that are read, by all groups together */
};
struct run_batches {
    struct run_batch *items;
    size_t n, capacity;
};

struct run_task_place {
    int64_t id;
    size_t place; /* index into run.tasks */
};

/* What this driver knows of a task beyond its row. It is not stored: another driver starts afresh.
 */
struct run_task_state {
    int64_t not_before_ms; /* monotonic */
    struct hrf_end_counts ends;
};

/* A slide head of the run. */
struct run_head {
    char *path;       /* of its file; heap */
    char sha256[65];  /* of the file */
    size_t precision; /* index: of the features that it was trained on */
    int64_t index;    /* among those of a precision: seed by seed, fold by fold */
    /* Of one that the run trained: the file's bytes, and the slides that test it, by the names of
     * their files of embeddings. */
    struct hrf_bytes onnx;
    char **testing;
    size_t n_testing;
};

/* The embeddings of a slide at one precision, as a file that refers to them. */
struct run_bag {
    const struct hrf_slide_row *slide;
    const char *precision;
    char made_of[65]; /* hash of the keys of its infer tasks */
    char *path;       /* heap; NULL: they are not complete */
    char sha256[65];  /* of the file */
};

/* How many tasks there are of each kind in each state; of infer tasks also their patches. */
struct run_counts {
    int64_t n[HRF_N_TASK_KINDS][HRF_N_TASK_STATES], patches[HRF_N_TASK_STATES];
};

struct run_slide_note {
    bool is_unread;    /* it was tiled, and its infer tasks are not in run.tasks yet */
    bool is_unsettled; /* a task of it has ended since its state was looked at */
};

struct run {
    const struct hrf_workflow *workflow;
    char *directory; /* absolute */
    struct hrf_store *store;
    struct hrf_executor *executor;
    struct hrf_slide_rows slides;
    struct hrf_task_rows tasks;             /* copy of the store's rows */
    struct run_task_state *task_states;     /* [tasks.n_items] */
    struct run_task_place *task_places;     /* [tasks.n_items], sorted by id: run_find_task */
    struct run_counts counts;               /* of `tasks` */
    size_t first_pending[HRF_N_TASK_KINDS]; /* no task of the kind before this one is PENDING */
    bool needs_reload;                      /* the store has tasks that `tasks` lacks */
    int64_t n_new;                          /* how often such were planned since it was read */
    struct run_slide_note *slide_notes;     /* by slide id; [0] is for tasks of no slide */
    int64_t *unsettled;                     /* ids of the slides that are: [n_unsettled] */
    size_t n_unsettled;
    bool all_unsettled; /* every slide may be */
    struct run_job *live;
    size_t n_live, live_capacity;
    size_t next_look; /* index into `live`: where the next iteration begins to read sentinels */
    struct hrf_node_exclusion exclusion;
    char queue[1024];                         /* last value of the fact "queue" */
    int64_t submit_after_ms, submit_delay_ms; /* back-off after the executor was full */
    int64_t submit_due_ms;                    /* monotonic, for the rate: run_take_submission */
    int64_t throttle, next_throttle_ms;       /* limit from throttle.json: run_most_jobs */
    bool is_throttled;
    char throttle_trouble[300]; /* last warning about throttle.json; "" = none */
    int64_t submit_most;        /* jobs in one submission; 0 = the executor's limit */
    char run_id[40];
    char model_sha256[65], tissue_sha256[65]; /* the latter "": no network finds tissue */
    struct run_head *heads; /* that score slides: slide_head.file, or those that were trained */
    size_t n_heads;
    bool trainings_planned; /* slide_head.train: and no head is known yet */
    bool heads_known;
    struct hrf_random random;
    struct hrf_retry_policy policy;
    struct hrf_breaker breaker;
    struct run_phase phases[HRF_N_TASK_KINDS]; /* by hrf_task_kind */
    struct hrf_calibration *calibration;       /* for int8; NULL: not needed, or not made yet */
    char *calibration_path;                    /* file of its record, which jobs read */
    char *calibration_failure;                 /* why it failed in this run; NULL: it did not */
    bool brings_scales; /* the model has INT8 scales of its own, and none are wanted besides */
    bool calibration_planned, calibration_cached;
    /* Key of the calibration that this run has claimed and makes, or, if calibration_awaited, that
     * another run makes; "" = none. */
    char calibration_claim[65];
    bool calibration_awaited;
    double calibration_look; /* monotonic seconds, when to renew the claim or to check again */
    bool calibrate_only;
    bool is_planned; /* the store's tasks from before this driver have been planned */
    struct hrf_progress *progress;
    int64_t next_show_ms, next_metrics_ms;
    bool has_metrics_trouble; /* the file cannot be written, and that was said */
    int64_t next_job;         /* number of the next job */
    struct hrf_rate rate;     /* of scored patches */
    struct hrf_run_summary summary;
};

/* prepare.c */
/* The regions that the tiler cuts: size and stride in px, resolution in um/px. */
struct run_region {
    const char *mode;
    int64_t size, stride;
    double mpp;
};
struct hrf_slide_identity run_slide_identity(const struct hrf_slide_row *slide);
struct run_region run_region(const struct hrf_workflow *workflow);
/* um/px to use for a slide whose file names no resolution; 0 = the user gave none. */
double run_fallback_mpp(const struct hrf_workflow *workflow, const struct hrf_slide_row *slide);
/* The content key of a slide's tile task. tissue_sha256: of the network that finds tissue; ""
 * without one. */
HRF_CHECKED enum hrf_status run_tile_key(const struct hrf_workflow *workflow,
                                         const char *tissue_sha256,
                                         const struct hrf_slide_row *slide, char out[HRF_HASH_HEX],
                                         struct hrf_error *err);
/* The infer tasks of a tiled slide for all precisions; *out is heap. `scales` is the key of the
 * calibration, or RUN_OWN_SCALES; NULL: not known yet, so that int8 is left out. */
#define RUN_OWN_SCALES "own"
HRF_CHECKED enum hrf_status
run_infer_tasks(const struct hrf_workflow *workflow, const char *model_sha256, const char *scales,
                const struct hrf_slide_row *slide, const struct hrf_tile_plan *plan,
                struct hrf_task_row **out, size_t *n, struct hrf_error *err);
/* The hash of the network that finds tissue; "" without one. */
/* tiler.tissue.classes, a line each; heap, NULL without them or without memory. */
char *run_outline_classes(const struct hrf_workflow *workflow);
HRF_CHECKED enum hrf_status run_tissue_hash(const struct hrf_workflow *workflow,
                                            char out[HRF_HASH_HEX], struct hrf_error *err);
HRF_CHECKED enum hrf_status run_ingest(struct run *run, struct hrf_error *err);
HRF_CHECKED enum hrf_status run_plan_infer(struct run *run, int64_t slide_id,
                                           struct hrf_error *err);
/* The identity that the record of an infer, tile or calibrate task must have. */
HRF_CHECKED enum hrf_status run_expect(struct run *run, const struct hrf_task_row *task,
                                       struct hrf_record_identity *out, struct hrf_error *err);
/* Warns about results in the store that are invalid and will be computed again. */
void run_warn_dropped(struct run *run);
struct hrf_slide_row *run_find_slide(struct run *run, int64_t slide_id);

/* Plans the infer tasks of every tiled slide anew, and the head tasks of all slides. */
HRF_CHECKED enum hrf_status run_plan_all_infer(struct run *run, struct hrf_error *err);

/* task_table.c */
/* Reads the tasks again after new ones were planned; keeps their task_states. Rows move. */
HRF_CHECKED enum hrf_status run_reload_tasks(struct run *run, struct hrf_error *err);
/* To be called when tasks were planned that run.tasks lacks. */
void run_note_new(struct run *run);
/* True if so many tasks are new that reading all of them again is worth its time. */
bool run_is_reload_due(const struct run *run);
struct hrf_task_row *run_find_task(struct run *run, int64_t task_id);
/* The tasks of a kind stand side by side: the place behind the last one. */
size_t run_kind_end(const struct run *run, enum hrf_task_kind kind);
/* The only way to change a task's state: counts and places are kept up. Not in the store. */
void run_set_state(struct run *run, struct hrf_task_row *task, enum hrf_task_state state);
/* How many tasks of a kind are PENDING or RUNNING. */
int64_t run_count_open(const struct run *run, enum hrf_task_kind kind);
/* A task of the slide has ended: its state is to be looked at. Slide 0: nothing. */
void run_unsettle(struct run *run, int64_t slide_id);

/* heads.c */
/* The hash of the slide head's file, if the workflow names one. */
HRF_CHECKED enum hrf_status run_open_head(struct run *run, struct hrf_error *err);
void run_heads_release(struct run *run);
/* Finds the bag of a slide, or makes it. */
HRF_CHECKED enum hrf_status run_find_bag(struct run *run, const struct hrf_slide_row *slide,
                                         const char *precision, struct run_bag *bag,
                                         struct hrf_error *err);
/* Makes its file again if it is gone or has other bytes. HRF_E_USER: embeddings that it refers to
 * are gone or have other bytes; the next run computes them again. */
HRF_CHECKED enum hrf_status run_restore_bag(struct run *run, struct run_bag *bag,
                                            struct hrf_error *err);
/* Plans the head tasks of a slide: of each precision whose embeddings are complete, one for each
 * head that may score it. Must be called in a transaction. */
HRF_CHECKED enum hrf_status run_plan_head(struct run *run, int64_t slide_id, struct hrf_error *err);
/* Those of every slide anew; a transaction of its own. */
HRF_CHECKED enum hrf_status run_plan_all_heads(struct run *run, struct hrf_error *err);
/* What a head task needs; the file of embeddings is made again if it is lost. */
HRF_CHECKED enum hrf_status run_fill_bag(struct run *run, const struct hrf_task_row *row,
                                         struct hrf_job_bag *out, struct hrf_error *err);

/* trainings.c */
/* The class of a slide's truth, an index into model.classes; -1: it has none. */
int32_t run_class_of(const struct hrf_workflow *workflow, const struct hrf_slide_row *slide);
/* True if heads are to be trained and are not known yet: slides wait for them. */
bool run_waits_for_heads(const struct run *run);
/* How many heads a precision's features train, and how many precisions do: the first ones. */
int64_t run_n_trainings(const struct hrf_workflow *workflow);
size_t run_training_precisions(const struct hrf_workflow *workflow);
/* Goes on with slide_head.train as far as the tasks allow: plans the trainings once all embeddings
 * are there, and the head tasks once all trainings have ended. */
HRF_CHECKED enum hrf_status run_tend_trainings(struct run *run, struct hrf_error *err);
/* What a train task needs; its files of embeddings are made again if they are lost. */
HRF_CHECKED enum hrf_status run_fill_training(struct run *run, const struct hrf_task_row *row,
                                              struct hrf_job_training *out, struct hrf_error *err);

/* calibrate.c */
bool run_wants_calibration(const struct run *run);
/* True if INT8 runs with the scales that the model brings: it has some, and the workflow asks for
 * nothing that only a calibration tells (calibrate.keep). The engine is asked if the workflow has
 * int8. */
HRF_CHECKED enum hrf_status run_find_own_scales(const struct hrf_workflow *workflow, bool *out,
                                                struct hrf_error *err);
/* True if int8 is wanted and its calibration has neither been made nor failed. */
bool run_waits_for_calibration(const struct run *run);
/* Continues the calibration as far as the tasks allow: plans it, or fits and stores it. If it
 * fails, the int8 tasks of every slide fail; with calibrate_only, the run fails. */
HRF_CHECKED enum hrf_status run_calibrate(struct run *run, struct hrf_error *err);
/* To be called once per loop iteration. Renews this run's claim on the calibration that it makes,
 * or checks whether the run that makes it has finished or is gone. */
HRF_CHECKED enum hrf_status run_tend_calibration(struct run *run, struct hrf_error *err);
/* True if INT8 is calibrated on the cohort's slides for training alone: a CAMELYON16 cohort of both
 * parts, without calibrate.slides. */
bool run_samples_training_part(const struct hrf_workflow *workflow,
                               const struct hrf_slide_rows *slides);
/* The run's last calibration: from its database, or, in a run of an earlier version, from the file
 * in the run directory. *out stays NULL if there is none. */
HRF_CHECKED enum hrf_status run_read_calibration(struct hrf_store *store, const char *directory,
                                                 struct hrf_calibration **out,
                                                 struct hrf_error *err);
/* Gives up the claim, so that another run may make the calibration. */
void run_give_up_calibration(struct run *run);

/* spec.c */
/* The settings of tiling, but for the network that finds tissue; the texts are the caller's. */
HRF_CHECKED enum hrf_status run_fill_tiler(const struct hrf_workflow *workflow,
                                           struct hrf_job_tiler *out, struct hrf_error *err);
/* What executors call tasks of this kind: hrf_task_kind_name(), or "tissue" for tile tasks whose
 * tissue a network finds. */
const char *run_kind_name(const struct run *run, enum hrf_task_kind kind);
/* DIR/plans/<key>.rec, the tile plan with that key. Heap. */
char *run_plan_path(const struct run *run, const char *key);
/* DIR/parts/<key>.rec, the partial result that interrupted attempts left of a task. Heap. */
char *run_part_path(const struct run *run, const char *key);
/* True if the file holds the expected tile plan. */
bool run_has_plan(const char *path, const struct hrf_record_identity *expected);
HRF_CHECKED enum hrf_status run_write_spec(struct run *run, const struct run_batch *batch,
                                           const struct hrf_attempt_row *attempt, const char *path,
                                           struct hrf_error *err);

/* jobs.c */
char *run_job_path(const struct run *run, const struct run_job *job,
                   const char *name); /* heap; name NULL = the directory */
/* Appends a job made from its row to run->live, and takes over what the row owns. *out is valid
 * until the next call. */
HRF_CHECKED enum hrf_status run_add_job(struct run *run, struct hrf_attempt_row *row,
                                        struct run_job **out, struct hrf_error *err);
void run_job_release(struct run_job *job);
void run_forget_ended(struct run *run);
/* The directory of the k-th time that the scheduler started the job. Heap. */
char *run_start_path(const struct run *run, const struct run_job *job, int k);
static inline int run_newest_start(const struct run_job *job)
{
    return job->n_starts > 0 ? job->n_starts - 1 : 0;
}
/* Updates job->n_starts. */
void run_find_starts(const struct run *run, struct run_job *job);
/* Revokes the attempt: its workers see the fence file and stop, and nothing that they still write
 * is accepted. */
void run_revoke(const struct run *run, struct run_job *job);
HRF_CHECKED enum hrf_status run_end_job(struct run *run, struct run_job *job, const char *reason,
                                        struct hrf_error *err);
HRF_CHECKED enum hrf_status run_recover(struct run *run, struct hrf_error *err);
/* Ends all live jobs and waits until they have ended. Does not change the store. */
HRF_CHECKED enum hrf_status run_end_jobs(struct run *run, struct hrf_error *err);
HRF_CHECKED enum hrf_status run_cancel_all(struct run *run, struct hrf_error *err);

/* batches.c */
void run_batches_release(struct run_batches *batches);
/* Makes at most `most` batches of the PENDING tasks of one kind that may be tried now. *out begins
 * zeroed and is the caller's to release, also on failure. */
HRF_CHECKED enum hrf_status run_gather(const struct run *run, enum hrf_task_kind kind, size_t most,
                                       struct run_batches *out, struct hrf_error *err);
/* How many jobs the PENDING tasks of a kind among `rows` would become. */
HRF_CHECKED enum hrf_status run_count_jobs(const struct hrf_workflow *workflow,
                                           struct hrf_task_row *rows, size_t n_rows,
                                           enum hrf_task_kind kind, int64_t *out,
                                           struct hrf_error *err);

/* submit.c */
HRF_CHECKED enum hrf_status run_submit(struct run *run, bool *submitted, struct hrf_error *err);

/* open_metrics.c */
/* Writes the workflow's file of metrics, if it names one. What goes wrong is a warning. */
void run_write_metrics(struct run *run, const struct hrf_progress_facts *facts, bool is_driven);

/* forecast_cost.c: parts of hrf_forecast_make() (forecast.h). */
HRF_CHECKED enum hrf_status run_forecast_time(const struct hrf_workflow *w, const char *directory,
                                              const struct hrf_preview *preview,
                                              const struct hrf_forecast_rates *rates,
                                              struct hrf_forecast *f, struct hrf_error *err);
void run_forecast_bytes(const struct hrf_workflow *w, const struct hrf_preview *preview,
                        const struct hrf_forecast_rates *rates, struct hrf_forecast *f);

/* phases.c */
struct run_span {
    int64_t from, to; /* ms */
};
/* Length of the union, in seconds. Sorts the spans. */
double run_union_seconds(struct run_span *spans, size_t n);
/* Stores how long each phase took and how much of it was cached. Must be called in a transaction.
 */
HRF_CHECKED enum hrf_status run_record_phases(struct run *run, double ingest_seconds,
                                              struct hrf_error *err);

/* throttle.c */
/* How many jobs may exist at a time, waiting or running. */
int64_t run_most_jobs(const struct run *run);
/* Rate limit (token bucket): returns true, and takes a token, if another submission is allowed now.
 * On average one is allowed every executor->submit_ms, with short bursts. */
bool run_take_submission(struct run *run);
/* To be called once per loop iteration. Reads throttle.json, which `hires-flow throttle` writes,
 * and withdraws waiting jobs that exceed the limit. */
HRF_CHECKED enum hrf_status run_apply_throttle(struct run *run, struct hrf_error *err);

/* queue.c */
/* Stores the fact "queue": how many jobs run and wait, and why. Must be called in a transaction. */
HRF_CHECKED enum hrf_status run_record_queue(struct run *run, bool *changed, struct hrf_error *err);

/* liveness.c */
/* Checks whether a job shows signs of life. A job that does not is reported, which sets *changed;
 * on this machine it is also ended after a time. */
HRF_CHECKED enum hrf_status run_check_liveness(struct run *run, struct run_job *job, bool *changed,
                                               struct hrf_error *err);

/* task_output.c */
/* What a job has left of a task. */
struct run_found {
    bool has_status;
    struct hrf_task_status status;
    char *record; /* heap; NULL: none */
    size_t n_bytes;
    char *embeddings; /* heap; the path that its file of embeddings would have */
};
void run_found_release(struct run_found *found);
/* `id`: of the task within the job. HRF_E_AGAIN: the task has not ended. `out` begins zeroed and is
 * the caller's to release, also on failure. */
HRF_CHECKED enum hrf_status run_find_record(const struct run *run, const struct run_job *job,
                                            const char *id, struct run_found *out,
                                            struct hrf_error *err);
/* Checks that the status and the record that were found belong to this task. */
HRF_CHECKED enum hrf_status run_check_result(struct run *run, const struct hrf_task_row *task,
                                             const char *id, const struct run_found *found,
                                             struct hrf_error *err);
/* Moves the file of embeddings that a record names, once its bytes are checked, to where the store
 * looks for it; the record is to be committed after that. A driver that dies in between finds the
 * file there the next time. HRF_E_AGAIN: the file is not there, or not all of it. */
HRF_CHECKED enum hrf_status run_take_embeddings(struct run *run, const struct hrf_task_row *task,
                                                const struct run_found *found,
                                                struct hrf_error *err);
/* Moves the partial result of a task that the job did not finish to where the next attempt finds
 * it. Returns true if there was one. */
bool run_take_part(const struct run *run, const struct run_job *job, size_t index,
                   const struct hrf_task_row *task);
/* Nobody needs the part of a task that has a result. */
void run_remove_part(const struct run *run, const struct hrf_task_row *task);

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

/* job_end.c */
struct run_verdict {
    enum hrf_end end;
    char *reason;  /* heap: text for users */
    char *message; /* heap: the same without what differs between jobs with the same fault */
};
/* Classifies the end of a job that left tasks without a result. `done` counts only with
 * has_sentinel; its reason is filled in for a job that fell silent. The caller frees both texts,
 * also after an error. An end that is the node's fault is counted against the node. */
HRF_CHECKED enum hrf_status run_judge_end(struct run *run, struct run_job *job,
                                          struct hrf_sentinel *done, bool has_sentinel,
                                          struct run_verdict *out, struct hrf_error *err);

/* observe.c */
/* Reads the sentinel "start", "beat" or "done" of a job's newest start. Returns false if it is not
 * there yet. */
bool run_read_sentinel(const struct run *run, const struct run_job *job, const char *name,
                       struct hrf_sentinel *out);
HRF_CHECKED enum hrf_status run_observe(struct run *run, bool *changed, struct hrf_error *err);

#endif
