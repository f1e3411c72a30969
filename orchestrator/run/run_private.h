/* run_private.h - the driver's state, shared by the files of this folder. */
#ifndef HRF_ORCHESTRATOR_RUN_RUN_PRIVATE_H
#define HRF_ORCHESTRATOR_RUN_RUN_PRIVATE_H

#include "base/hash.h"
#include "base/random.h"
#include "orchestrator/executor/executor.h"
#include "orchestrator/run/progress.h"
#include "orchestrator/run/run.h"
#include "orchestrator/state/state.h"
#include "schema/record/calibration.h"
#include "schema/record/sentinel.h"
#include "schema/store/tasks.h"

struct run_phase {
    double first, last; /* monotonic seconds of the first submit and the last result; 0 = none */
};

/* A job that has not ended, as far as is known. */
struct run_job {
    struct hrf_attempt_row row;
    struct hrf_job_handle handle;
    struct hrf_job_view view;    /* as the executor said last */
    const int64_t *task_ids;     /* the row's */
    size_t n_tasks, n_collected; /* tasks come in order: the first so many have ended */
    int64_t n_results;           /* of those, with a result */
    int64_t unsure_since_ms;     /* monotonic: its submission is not confirmed; 0 = it is */
    int64_t silent_since_ms;     /* the executor says that it ended, and it left no word */
    int n_starts;                /* that are known of (start.h); the newest works in its place */
    int64_t starts_ms;           /* monotonic: when the newest was found */
    struct {
        int64_t n_beats, since_ms; /* its last beat, and when it was first seen (monotonic) */
        int64_t next_look_ms;
        char silence[160]; /* why it is taken to be hung, "" = it is not */
        bool was_ended;    /* for that, by this driver */
    } life;
    bool revoked, has_ended;
};

/* Tasks that go into one job, by their place in run.tasks. */
struct run_batch {
    size_t *tasks;
    size_t n, capacity;
    int64_t n_patches;
};

struct run_task_place {
    int64_t id;
    size_t place; /* in run.tasks */
};

/* What this driver knows of a task beyond its row; `run` again begins anew. */
struct run_task_state {
    int64_t not_before_ms; /* monotonic */
    struct hrf_end_counts ends;
};

struct run {
    const struct hrf_workflow *workflow;
    char *directory; /* absolute */
    struct hrf_store *store;
    struct hrf_executor *executor;
    struct hrf_slide_rows slides;
    struct hrf_task_rows tasks;         /* as the store has them */
    struct run_task_state *task_states; /* [tasks.n_items] */
    struct run_task_place *task_places; /* [tasks.n_items], by id: run_find_task */
    bool needs_reload;                  /* the store has other tasks than `tasks` */
    struct run_job *live;
    size_t n_live, live_capacity;
    size_t next_look; /* in live: where the next tick begins to look for words */
    struct hrf_strikes strikes;
    char queue[1024];                         /* as told last */
    int64_t submit_after_ms, submit_delay_ms; /* the executor was full */
    int64_t submit_due_ms;                    /* monotonic: run_take_submission */
    int64_t throttle, next_throttle_ms;       /* throttle.json: run_most_jobs */
    bool is_throttled;
    char throttle_trouble[300];
    int64_t submit_most; /* jobs in one submission; 0 = its limit */
    char run_id[40];
    char model_sha256[65];
    struct hrf_random random;
    struct hrf_retry_policy policy;
    struct hrf_breaker breaker;
    struct run_phase phases[HRF_N_TASK_KINDS]; /* by hrf_task_kind */
    struct hrf_calibration *calibration;       /* int8's; NULL: not asked for, or not there yet */
    char *calibration_path;                    /* its record, for jobs */
    char *calibration_failure; /* why there is none in this run; NULL: none failed */
    bool calibration_planned, calibration_cached;
    /* The key that this run has claimed and makes, or, `awaited`, that another run makes; "" =
     * none. Looked after, or looked for, when the time has come (monotonic seconds). */
    char calibration_claim[65];
    bool calibration_awaited;
    double calibration_look;
    bool calibrate_only;
    bool is_planned; /* what the store knew before this driver has been taken in */
    struct hrf_progress *progress;
    int64_t next_show_ms;
    int64_t next_job;
    int64_t patches_done; /* by this driver, for the rate */
    struct hrf_run_summary summary;
};

/* prepare.c */
/* What the tiler cuts, in either mode: px, px, um/px. */
struct run_region {
    const char *mode;
    int64_t size, stride;
    double mpp;
};
struct run_region run_region(const struct hrf_workflow *workflow);
/* um/px of a slide that carries none; 0 = it is not said. */
double run_fallback_mpp(const struct hrf_workflow *workflow, const struct hrf_slide_row *slide);
/* The content key of a slide's tile task. */
HRF_CHECKED enum hrf_status run_tile_key(const struct hrf_workflow *workflow,
                                         const struct hrf_slide_row *slide, char out[HRF_HASH_HEX],
                                         struct hrf_error *err);
/* The infer tasks of a tiled slide, all precisions: *out is heap. `scales`: key of the calibration;
 * NULL: it is not known yet, and int8 is left out. */
HRF_CHECKED enum hrf_status
run_infer_tasks(const struct hrf_workflow *workflow, const char *model_sha256, const char *scales,
                const struct hrf_slide_row *slide, const struct hrf_tile_plan *plan,
                struct hrf_task_row **out, size_t *n, struct hrf_error *err);
HRF_CHECKED enum hrf_status run_ingest(struct run *run, struct hrf_error *err);
HRF_CHECKED enum hrf_status run_plan_infer(struct run *run, int64_t slide_id,
                                           struct hrf_error *err);
/* What an infer, tile or calibrate task's record must say of itself. */
HRF_CHECKED enum hrf_status run_expect(struct run *run, const struct hrf_task_row *task,
                                       struct hrf_record_identity *out, struct hrf_error *err);
/* Warns of results in the store that are no good and will be made again. */
void run_tell_dropped(struct run *run);
/* Reads the tasks again after the plan changed; keeps their states. */
HRF_CHECKED enum hrf_status run_reload_tasks(struct run *run, struct hrf_error *err);
struct hrf_task_row *run_find_task(struct run *run, int64_t task_id);
struct hrf_slide_row *run_find_slide(struct run *run, int64_t slide_id);

/* Plans the infer tasks of every tiled slide anew. */
HRF_CHECKED enum hrf_status run_plan_all_infer(struct run *run, struct hrf_error *err);

/* calibrate.c */
bool run_wants_int8(const struct run *run);
/* Asked for int8, and its calibration is neither there nor failed. */
bool run_waits_for_calibration(const struct run *run);
/* Goes on with the calibration as far as the tasks allow: plans it, or fits and keeps it. A
 * calibration that fails is a failure of every slide's int8 tasks; with calibrate_only an error. */
HRF_CHECKED enum hrf_status run_calibrate(struct run *run, struct hrf_error *err);
/* To be called on every turn: tells others that this run makes its calibration, or looks whether
 * the other that makes it is ready (or gone). */
HRF_CHECKED enum hrf_status run_tend_calibration(struct run *run, struct hrf_error *err);
/* Others may make it then. */
void run_give_up_calibration(struct run *run);

/* spec.c */
/* DIR/plans/<key>.rec: heap. */
char *run_plan_path(const struct run *run, const char *key);
/* DIR/parts/<key>.rec, what attempts that were cut short have of a task: heap. */
char *run_part_path(const struct run *run, const char *key);
/* Whether that file is the tile plan that is expected. */
bool run_has_plan(const char *path, const struct hrf_record_identity *expected);
HRF_CHECKED enum hrf_status run_write_spec(struct run *run, const struct run_batch *batch,
                                           const struct hrf_attempt_row *attempt, const char *path,
                                           struct hrf_error *err);

/* jobs.c */
int64_t run_now_ms(void); /* monotonic */
char *run_job_path(const struct run *run, const struct run_job *job,
                   const char *name); /* heap; name NULL = the directory */
/* A new one at the end of run->live, from its row; the row's texts become its. */
HRF_CHECKED enum hrf_status run_add_job(struct run *run, struct hrf_attempt_row *row,
                                        struct run_job **out, struct hrf_error *err);
void run_job_release(struct run_job *job);
void run_forget_ended(struct run *run);
/* The folder of a job's k-th start by its scheduler: heap. */
char *run_start_path(const struct run *run, const struct run_job *job, int k);
static inline int run_newest_start(const struct run_job *job)
{
    return job->n_starts > 0 ? job->n_starts - 1 : 0;
}
/* Counts the starts that there were since. */
void run_find_starts(const struct run *run, struct run_job *job);
/* Nothing that this job still does counts: its workers see the file and stop. */
void run_revoke(const struct run *run, struct run_job *job);
HRF_CHECKED enum hrf_status run_end_job(struct run *run, struct run_job *job, const char *reason,
                                        struct hrf_error *err);
HRF_CHECKED enum hrf_status run_recover(struct run *run, struct hrf_error *err);
/* Ends the jobs that live, and waits for that; the store is left as it is. */
HRF_CHECKED enum hrf_status run_end_jobs(struct run *run, struct hrf_error *err);
HRF_CHECKED enum hrf_status run_cancel_all(struct run *run, struct hrf_error *err);

/* submit.c */
/* How many jobs the tasks of a kind among `rows` would become; those that are not PENDING count for
 * nothing. */
HRF_CHECKED enum hrf_status run_count_jobs(const struct hrf_workflow *workflow,
                                           struct hrf_task_row *rows, size_t n_rows,
                                           enum hrf_task_kind kind, int64_t *out,
                                           struct hrf_error *err);
HRF_CHECKED enum hrf_status run_submit(struct run *run, bool *submitted, struct hrf_error *err);

/* throttle.c */
/* That may be there at a time, waiting or running. */
int64_t run_most_jobs(const struct run *run);
/* Whether there may be one submission more by now: one each executor->submit_ms in the long run, a
 * few at once. */
bool run_take_submission(struct run *run);
/* To be called on every turn: looks what somebody says beside us, and takes jobs that are too many
 * back from the queue. */
HRF_CHECKED enum hrf_status run_heed_throttle(struct run *run, struct hrf_error *err);

/* queue.c */
/* The fact "queue": where the jobs stand with their scheduler; within a transaction. */
HRF_CHECKED enum hrf_status run_tell_queue(struct run *run, bool *changed, struct hrf_error *err);

/* silence.c */
/* Looks whether a job shows signs of life; one that does not is named, and after a time ended:
 * *changed. */
HRF_CHECKED enum hrf_status run_look_for_life(struct run *run, struct run_job *job, bool *changed,
                                              struct hrf_error *err);

/* observe.c */
/* What the newest start of a job says of itself: "start", "beat" or "done"; false: nothing yet. */
bool run_read_sentinel(const struct run *run, const struct run_job *job, const char *name,
                       struct hrf_sentinel *out);
HRF_CHECKED enum hrf_status run_observe(struct run *run, bool *changed, struct hrf_error *err);

#endif
