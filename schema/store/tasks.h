/* tasks.h - the part of the run store that the run loop lives on: tasks and their results, jobs
 * and attempts, the writer's lease, events.
 *
 * A task is a place in the plan: (phase, slide, precision, first patch). Its content key names
 * what its result depends on. Results are kept by key, so that a plan made again finds what is
 * done already, whatever run made it and in whatever order; two places with one key share one
 * result. Call these inside one hrf_store_begin/commit a tick (outside, each is a transaction
 * of its own). Times are wall clock milliseconds since 1970.
 */
#ifndef HRF_SCHEMA_STORE_TASKS_H
#define HRF_SCHEMA_STORE_TASKS_H

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "schema/record/job.h"
#include "schema/store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hrf_phase {
    HRF_PHASE_INGEST,
    HRF_PHASE_TILE,
    HRF_PHASE_CALIBRATE,
    HRF_PHASE_INFER,
    HRF_PHASE_AGGREGATE,
    HRF_PHASE_REPORT
};
#define HRF_N_PHASES 6
const char *hrf_phase_name(enum hrf_phase phase);

enum hrf_task_state {
    HRF_TASK_STATE_PENDING, /* may be put into a job (when not_before_ms has passed) */
    HRF_TASK_STATE_ACTIVE,  /* belongs to a live attempt: job_id, attempt */
    HRF_TASK_STATE_DONE,    /* its key has a result */
    HRF_TASK_STATE_FAILED,  /* reason; retryable says whether `run` again may help */
    HRF_TASK_STATE_CANCELLED
};
#define HRF_N_TASK_STATES 5
const char *hrf_task_state_name(enum hrf_task_state state);

struct hrf_task_row {
    int64_t id;             /* given by the store; 0 in hrf_store_put_tasks */
    char key[HRF_HASH_HEX]; /* content key, 64 hex digits */
    enum hrf_phase phase;
    int64_t slide_id;  /* 0 = none (calibrate, report) */
    char precision[8]; /* "" = none */
    int64_t first_patch, n_patches;
    enum hrf_task_state state;
    bool cached;           /* done before this plan was made */
    bool retryable;        /* meaningful when failed */
    int64_t tries;         /* attempts that counted against it */
    int64_t not_before_ms; /* back-off; 0 = at once */
    char *reason;          /* heap; NULL = none */
    char *job_id;          /* heap; NULL = never in a job; else the last one */
    int64_t attempt;
};
void hrf_task_row_release(struct hrf_task_row *row);
struct hrf_task_rows {
    struct hrf_task_row *items;
    size_t n_items;
};
void hrf_task_rows_release(struct hrf_task_rows *rows);

/* ---- the plan ---- */

/* Takes every task of a phase out of the plan (all phases: HRF_N_PHASES); results stay. Tasks put
 * again afterwards keep their history. Tasks out of the plan are seen by no query below. */
HRF_CHECKED enum hrf_status hrf_store_clear_plan(struct hrf_store *store, int phase,
                                                 struct hrf_error *err);
/* Puts tasks into the plan. A new place, or one whose key changed, begins as DONE and cached when
 * its key has a result, else PENDING; the same place with the same key keeps its state, tries and
 * reason. Of each item only key, phase, slide_id, precision, first_patch, n_patches are read.
 * *n_cached (nullable): how many of them are done already. */
HRF_CHECKED enum hrf_status hrf_store_put_tasks(struct hrf_store *store,
                                                const struct hrf_task_row *items, size_t n_items,
                                                size_t *n_cached, struct hrf_error *err);
/* Writes state, retryable, tries, not_before_ms, reason, job_id and attempt of the task row->id. */
HRF_CHECKED enum hrf_status
hrf_store_set_task(struct hrf_store *store, const struct hrf_task_row *row, struct hrf_error *err);
/* Failed and cancelled tasks begin anew: PENDING, tries 0, no reason. For `run` again.
 * *n_reset is nullable. */
HRF_CHECKED enum hrf_status hrf_store_reset_failed(struct hrf_store *store, int64_t *n_reset,
                                                   struct hrf_error *err);

struct hrf_task_filter {
    int phase;             /* -1 = any */
    int state;             /* -1 = any */
    int64_t slide_id;      /* 0 = any */
    const char *precision; /* NULL = any */
    int64_t ready_at_ms;   /* 0 = any; else only those with not_before_ms <= it */
    int64_t limit;         /* 0 = all */
};
#define HRF_TASK_FILTER_ANY                                                                        \
    {                                                                                              \
        .phase = -1, .state = -1                                                                   \
    }
/* In (phase, precision, slide, first patch) order. */
HRF_CHECKED enum hrf_status hrf_store_get_tasks(struct hrf_store *store,
                                                const struct hrf_task_filter *filter,
                                                struct hrf_task_rows *out, struct hrf_error *err);
/* HRF_E_USER when there is none with this id. */
HRF_CHECKED enum hrf_status hrf_store_get_task(struct hrf_store *store, int64_t task_id,
                                               struct hrf_task_row *out, struct hrf_error *err);

struct hrf_task_counts {
    struct {
        int64_t n_tasks, n_patches, n_cached;
    } at[HRF_N_PHASES][HRF_N_TASK_STATES];
    int64_t next_ready_ms; /* earliest not_before_ms of a pending task; 0 = none waits */
};
HRF_CHECKED enum hrf_status
hrf_store_count_tasks(struct hrf_store *store, struct hrf_task_counts *out, struct hrf_error *err);

/* ---- results ---- */

struct hrf_result_info {
    char key[HRF_HASH_HEX];
    enum hrf_phase phase;
    enum hrf_task_outcome outcome;    /* HRF_TASK_DONE or HRF_TASK_NO_TISSUE */
    char record_sha256[HRF_HASH_HEX]; /* "" = no record */
    int64_t record_bytes;
    double seconds;
    char *job_id; /* heap; NULL = made by the orchestrator itself */
    int64_t attempt;
    int64_t recorded_ms;
};
void hrf_result_info_release(struct hrf_result_info *info);

/* Keeps a result and makes every task of the plan with this key DONE, in one step. record may be
 * NULL. A key that has a result already keeps it and *was_new (nullable) is false: a second
 * import of the same record changes nothing. info->record_sha256 must be the record's (it is
 * checked); recorded_ms is filled in by the store. */
HRF_CHECKED enum hrf_status hrf_store_put_result(struct hrf_store *store,
                                                 const struct hrf_result_info *info,
                                                 const void *record, size_t n_bytes, bool *was_new,
                                                 struct hrf_error *err);
/* *found false: no result. record and n_bytes may be NULL; *record is heap, NULL when none. The
 * record's hash is checked on the way out. */
HRF_CHECKED enum hrf_status hrf_store_get_result(struct hrf_store *store, const char *key,
                                                 bool *found, struct hrf_result_info *info,
                                                 char **record, size_t *n_bytes,
                                                 struct hrf_error *err);
/* Forgets a result (its tasks become PENDING): it turned out to be unusable. */
HRF_CHECKED enum hrf_status hrf_store_drop_result(struct hrf_store *store, const char *key,
                                                  const char *why, struct hrf_error *err);

/* ---- jobs and attempts ---- */

enum hrf_attempt_state {
    HRF_ATTEMPT_INTENDED,  /* written before anything is started; nothing may run yet */
    HRF_ATTEMPT_SUBMITTED, /* handed to the executor */
    HRF_ATTEMPT_RUNNING,   /* its start sentinel was seen */
    HRF_ATTEMPT_CANCELLING,
    HRF_ATTEMPT_DONE, /* its done sentinel was seen, or every record imported */
    HRF_ATTEMPT_LOST, /* it ended without a word */
    HRF_ATTEMPT_CANCELLED
};
#define HRF_N_ATTEMPT_STATES 7
const char *hrf_attempt_state_name(enum hrf_attempt_state state);
static inline bool hrf_attempt_state_is_live(enum hrf_attempt_state state)
{
    return state <= HRF_ATTEMPT_CANCELLING;
}

struct hrf_attempt_row {
    char *job_id;    /* heap */
    int64_t attempt; /* from 1 */
    enum hrf_job_kind kind;
    char *directory; /* heap; of this attempt, relative to the run directory: "jobs/x.a1" */
    enum hrf_attempt_state state;
    char *executor; /* heap; "local", "slurm" */
    char *handle;   /* heap; the executor's own name for it (Slurm job id); NULL = none */
    int64_t pid;    /* local: of the launcher; 0 = unknown */
    uint64_t pid_start;
    char boot_id[40];
    char *host;                          /* heap; NULL = unknown */
    int64_t submit_ms, start_ms, end_ms; /* 0 = not yet */
    int64_t exit_code, signal;           /* -1 = none */
    char *reason;                        /* heap; NULL = none */
    int64_t n_tasks;                     /* filled in by the store */
};
void hrf_attempt_row_release(struct hrf_attempt_row *row);
struct hrf_attempt_rows {
    struct hrf_attempt_row *items;
    size_t n_items;
};
void hrf_attempt_rows_release(struct hrf_attempt_rows *rows);

/* A task of an attempt: the store's id and the name that its files have in the directory. */
struct hrf_attempt_task {
    int64_t task_id;
    char name[24];          /* "t0001" */
    char key[HRF_HASH_HEX]; /* filled in by the store: as it was when the attempt was made */
};

/* The intent: the attempt (HRF_ATTEMPT_INTENDED) and its tasks, which become ACTIVE in it. */
HRF_CHECKED enum hrf_status hrf_store_put_attempt(struct hrf_store *store,
                                                  const struct hrf_attempt_row *row,
                                                  const struct hrf_attempt_task *tasks,
                                                  size_t n_tasks, struct hrf_error *err);
/* Everything but job_id, attempt and kind. HRF_E_USER when there is no such attempt. */
HRF_CHECKED enum hrf_status hrf_store_set_attempt(struct hrf_store *store,
                                                  const struct hrf_attempt_row *row,
                                                  struct hrf_error *err);
enum hrf_attempt_filter { HRF_ATTEMPTS_ALL, HRF_ATTEMPTS_LIVE };
/* In order of their making. */
HRF_CHECKED enum hrf_status hrf_store_get_attempts(struct hrf_store *store,
                                                   enum hrf_attempt_filter filter,
                                                   struct hrf_attempt_rows *out,
                                                   struct hrf_error *err);
/* The attempts that had this task, in order. */
HRF_CHECKED enum hrf_status hrf_store_get_task_attempts(struct hrf_store *store, int64_t task_id,
                                                        struct hrf_attempt_rows *out,
                                                        struct hrf_error *err);
/* *out is heap, in order of name. */
HRF_CHECKED enum hrf_status hrf_store_get_attempt_tasks(struct hrf_store *store, const char *job_id,
                                                        int64_t attempt,
                                                        struct hrf_attempt_task **out,
                                                        size_t *n_items, struct hrf_error *err);
/* 1 + the number of jobs ever made: the next job's number. */
HRF_CHECKED enum hrf_status hrf_store_next_job(struct hrf_store *store, int64_t *out,
                                               struct hrf_error *err);

/* ---- the writer's lease ---- */

struct hrf_lease {
    char host[256];
    char boot_id[40];
    char pid_space[64]; /* pids of another space (container) say nothing to us */
    int64_t pid;
    uint64_t pid_start;
    int64_t taken_ms, beat_ms;
};
#define HRF_LEASE_BEAT_MS  5000  /* the owner beats at least this often */
#define HRF_LEASE_STALE_MS 90000 /* an owner that we cannot see is asked after this silence */

/* Makes this process the writer. A dead owner is followed without a word: one of this host whose
 * process is gone or whose boot is over; one of another host that was silent for
 * HRF_LEASE_STALE_MS and leaves a written challenge unanswered for a further HRF_LEASE_STALE_MS
 * / 3 (this call waits for it). A living one: HRF_E_USER, the text names its process and host.
 * Once taken, every hrf_store_begin checks that it is still ours. */
HRF_CHECKED enum hrf_status hrf_store_take_lease(struct hrf_store *store, struct hrf_error *err);
/* Answers challenges; HRF_E_AGAIN when another process has taken over. */
HRF_CHECKED enum hrf_status hrf_store_beat_lease(struct hrf_store *store, struct hrf_error *err);
/* Gives it back; nothing when it is not ours. */
void hrf_store_drop_lease(struct hrf_store *store);
/* Who holds it: *held false = nobody; *alive: as far as can be told from here. */
HRF_CHECKED enum hrf_status hrf_store_get_lease(struct hrf_store *store, bool *held, bool *alive,
                                                struct hrf_lease *out, struct hrf_error *err);

/* ---- events: what happened, for `why`; only ever added ---- */

struct hrf_event {
    int64_t id;
    int64_t wall_ms;
    char *kind;    /* heap; "task.failed", "attempt.lost", ... */
    char *subject; /* heap; "task 12", "job tile-3.a1", "slide 4", "run" */
    char *text;    /* heap; one line for people */
};
struct hrf_events {
    struct hrf_event *items;
    size_t n_items;
};
void hrf_events_release(struct hrf_events *events);
HRF_CHECKED enum hrf_status hrf_store_add_event(struct hrf_store *store, const char *kind,
                                                const char *subject, const char *text,
                                                struct hrf_error *err);
/* subject NULL = all; the latest `limit` of them (0 = all), oldest first. */
HRF_CHECKED enum hrf_status hrf_store_get_events(struct hrf_store *store, const char *subject,
                                                 int64_t limit, struct hrf_events *out,
                                                 struct hrf_error *err);

#endif
