/* tasks.h - the part of the run store that the run loop uses: tasks, attempts, events, lease.
 *
 * A task is one unit of work of a phase. Its content key is a hash of everything that its result
 * depends on. Results are stored by key, so a task whose key has a result is done as soon as it is
 * planned, even if an earlier run made the result. An attempt is one job given to an executor.
 */
#ifndef HRF_SCHEMA_STORE_TASKS_H
#define HRF_SCHEMA_STORE_TASKS_H

#include "schema/store/store.h"

/* The kinds of tasks. A train task belongs to no slide: its slide_id is 0. */
enum hrf_task_kind {
    HRF_TASK_TILE,
    HRF_TASK_INFER,
    HRF_TASK_CALIBRATE,
    HRF_TASK_HEAD,
    HRF_TASK_TRAIN
};
enum { HRF_N_TASK_KINDS = 5 };
/* "tile", "infer", "calibrate", "head", "train" */
/* first_patch of a head task is the number of its head. Heads that were trained on the first
 * precision's features are numbered from 0, heads trained on the features of the task's own
 * precision from HRF_HEAD_OWN. */
enum { HRF_HEAD_OWN = 1 << 20 };
const char *hrf_task_kind_name(enum hrf_task_kind kind);
enum hrf_task_state {
    HRF_TASK_PENDING,
    HRF_TASK_RUNNING,
    HRF_TASK_FINISHED, /* its result is in the store */
    HRF_TASK_BROKEN    /* failed for good in this run; `reason` says why */
};
enum { HRF_N_TASK_STATES = 4, HRF_TASK_MAX_LEVEL = 1000 };
const char *hrf_task_state_name(enum hrf_task_state state);

struct hrf_task_row {
    int64_t id;
    enum hrf_task_kind kind;
    char key[65];
    int64_t slide_id;
    char precision[8]; /* "" for tile */
    int64_t first_patch, n_patches;
    enum hrf_task_state state;
    int64_t n_attempts;               /* tries used up; ends that cost no try do not count */
    bool cached;                      /* its result was in the store when it was planned */
    int64_t time_level, memory_level; /* how often more was requested: hrf_state_grow() */
    char *reason;                     /* NULL = none */
};
struct hrf_task_rows {
    struct hrf_task_row *items;
    size_t n_items;
};
void hrf_task_rows_release(struct hrf_task_rows *rows);

/* Replaces the tasks of (slide, kind) by the given ones. A task with a stored result that passes
 * its check (hrf_store_get_record) is FINISHED and cached at once. A result that does not pass is
 * removed, and hrf_store_take_dropped() reports it. A task that was planned before with the same
 * key keeps its state. `rows` need kind, key, slide_id, precision, first_patch and n_patches;
 * `cached` is true if they are planned again within one run, so that a task which that run did
 * itself is not called cached. */
HRF_CHECKED enum hrf_status hrf_store_plan_tasks(struct hrf_store *store, int64_t slide_id,
                                                 enum hrf_task_kind kind,
                                                 const struct hrf_task_row *rows, size_t n_rows,
                                                 struct hrf_error *err);
/* Reads all tasks in (kind, slide, precision, first patch) order. */
HRF_CHECKED enum hrf_status hrf_store_get_tasks(struct hrf_store *store, struct hrf_task_rows *out,
                                                struct hrf_error *err);
/* Returns how many tasks of a kind a slide has in rows of that order, and the index of the first.
 */
size_t hrf_task_rows_of(const struct hrf_task_rows *rows, enum hrf_task_kind kind, int64_t slide_id,
                        size_t *first);
/* The state of a slide that follows from its tasks: PENDING while a task is open (with a
 * `precision`, also while no infer task is planned), otherwise FAILED if a task failed for good,
 * otherwise DONE. `precision` NULL means all precisions; a reason that only some of them have is
 * preceded by their names ("fp16: ..."). *reason is heap if FAILED, otherwise NULL. */
HRF_CHECKED enum hrf_status hrf_store_slide_outcome(struct hrf_store *store, int64_t slide_id,
                                                    const char *precision,
                                                    enum hrf_slide_state *state, char **reason,
                                                    struct hrf_error *err);
/* Sets the levels of a task that reached its time limit or exceeded its memory. */
HRF_CHECKED enum hrf_status hrf_store_set_task_levels(struct hrf_store *store, int64_t task_id,
                                                      int64_t time_level, int64_t memory_level,
                                                      struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_store_set_task(struct hrf_store *store, int64_t task_id,
                                               enum hrf_task_state state, int64_t n_attempts,
                                               const char *reason, struct hrf_error *err);
/* Stores the result and marks the task FINISHED. If the key already has a result, the new one is
 * ignored (equal keys have equal results) and *is_new is false. */
HRF_CHECKED enum hrf_status hrf_store_finish_task(struct hrf_store *store, int64_t task_id,
                                                  const char *key, const void *record,
                                                  size_t n_bytes, bool *is_new,
                                                  struct hrf_error *err);
/* Returns the identity that the record of a slide's task must have, derived from the key and the
 * slide's row. Its tile plan is slide->tile_plan_hash, or "" for calibrate tasks, whose plan is a
 * sample of it. */
struct hrf_record_identity hrf_slide_expect(const struct hrf_slide_row *slide,
                                            enum hrf_task_kind kind, const char *key);
/* Returns the same for a slide of the store. If the store does not have the slide, the identity is
 * empty and nothing is compared. */
HRF_CHECKED enum hrf_status hrf_store_expect(struct hrf_store *store, int64_t slide_id,
                                             enum hrf_task_kind kind,
                                             struct hrf_record_identity *out,
                                             struct hrf_error *err);
/* Returns the kind of record of such a task. */
const char *hrf_task_record_kind(enum hrf_task_kind kind);
/* Reads the result that is stored under the key expected->task (heap). HRF_E_AGAIN: there is none.
 * HRF_E_USER: it is damaged or has another identity. */
HRF_CHECKED enum hrf_status hrf_store_get_record(struct hrf_store *store, enum hrf_task_kind kind,
                                                 const struct hrf_record_identity *expected,
                                                 struct hrf_bytes *out, struct hrf_error *err);
/* *found: the task has a valid result. An invalid result is removed. */
HRF_CHECKED enum hrf_status hrf_store_find_result(struct hrf_store *store,
                                                  const struct hrf_task_row *task, bool *found,
                                                  struct hrf_error *err);
/* Removes the result under the task's key, if there is one: what it tells of is gone. */
HRF_CHECKED enum hrf_status hrf_store_forget_result(struct hrf_store *store,
                                                    const struct hrf_task_row *task,
                                                    const char *why, struct hrf_error *err);
/* Returns the results that were removed since the last call, one line each ("slide: why"), heap, or
 * NULL if there are none. The store has an event for each of them. */
char *hrf_store_take_dropped(struct hrf_store *store);

enum hrf_attempt_state {
    HRF_ATTEMPT_INTENT, /* written before the job is started */
    HRF_ATTEMPT_LIVE,
    HRF_ATTEMPT_ENDED
};
enum { HRF_N_ATTEMPT_STATES = 3 };
/* What a job's sentinels and tasks say of it; 0 and "": not known. */
struct hrf_job_usage {
    char host[128];
    int64_t started_ms, finished_ms; /* wall clock of its host */
    int64_t cpu_ms;                  /* of all its processes together */
    int64_t peak_bytes;              /* the largest resident size of one of its processes */
    /* infer: how long its network waited for patches, and computed, in its finished tasks */
    int64_t wait_ms, compute_ms;
};
struct hrf_attempt_row {
    int64_t id;
    char *job_id;    /* "infer-0003" */
    int64_t attempt; /* of that job, from 1 */
    char *directory; /* of the attempt, relative to the run directory */
    enum hrf_task_kind kind;
    enum hrf_attempt_state state;
    int64_t pid;         /* local: of the launcher; slurm: the array's job ID; 0 = unknown */
    uint64_t start_time; /* local: of the process, hrf_process_start_time() */
    int64_t submission, array_index; /* the submission's number in the run, and the index in it */
    int64_t submitted_ms, ended_ms;  /* wall clock */
    int64_t *task_ids;               /* heap */
    size_t n_task_ids;
    char *reason; /* how it ended; NULL = successfully, or not yet */
    struct hrf_job_usage usage;
};
struct hrf_attempt_rows {
    struct hrf_attempt_row *items;
    size_t n_items;
};
void hrf_attempt_row_release(struct hrf_attempt_row *row);
void hrf_attempt_rows_release(struct hrf_attempt_rows *rows);
bool hrf_attempt_has_task(const struct hrf_attempt_row *row, int64_t task_id);
/* Inserts the row if row->id is 0, which is then set, and updates it otherwise. */
HRF_CHECKED enum hrf_status
hrf_store_put_attempt(struct hrf_store *store, struct hrf_attempt_row *row, struct hrf_error *err);
/* Reads the attempts in id order; with only_open, those that have not ended. */
HRF_CHECKED enum hrf_status hrf_store_get_attempts(struct hrf_store *store, bool only_open,
                                                   struct hrf_attempt_rows *out,
                                                   struct hrf_error *err);

/* Finds the highest number in an attempt's job_id, 0 if there is none. */
HRF_CHECKED enum hrf_status hrf_store_last_job(struct hrf_store *store, int64_t *out,
                                               struct hrf_error *err);

/* An event, shown by `hires-flow why`. */
struct hrf_event_row {
    int64_t at_ms; /* wall */
    char *subject, *text;
};
struct hrf_event_rows {
    struct hrf_event_row *items;
    size_t n_items;
};
void hrf_event_rows_release(struct hrf_event_rows *rows);
HRF_CHECKED enum hrf_status hrf_store_add_event(struct hrf_store *store, const char *subject,
                                                const char *text, struct hrf_error *err);
/* Reads the events in order of time; subject NULL stands for all. */
HRF_CHECKED enum hrf_status hrf_store_get_events(struct hrf_store *store, const char *subject,
                                                 struct hrf_event_rows *out, struct hrf_error *err);

/* Takes the lease of the one writer. If the owner is alive, the result is HRF_E_AGAIN with its PID
 * and host. If it is dead (its process is gone on this host and boot), the file is checked and the
 * lease is taken over. An owner that cannot be seen from here (another host or container) counts as
 * alive until its heartbeat is 90 s old; this call then watches it for another 15 s. Once the lease
 * is taken, every hrf_store_begin() checks that it is still ours, and fails with HRF_E_AGAIN if
 * not. The owner must call hrf_store_beat_lease() every 5 s. */
HRF_CHECKED enum hrf_status hrf_store_take_lease(struct hrf_store *store, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_store_beat_lease(struct hrf_store *store, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_store_release_lease(struct hrf_store *store, struct hrf_error *err);
/* Finds the live process that holds the lease, for `status` and `cancel`; *pid is 0 if there is
 * none on this host. */
HRF_CHECKED enum hrf_status hrf_store_lease_owner(struct hrf_store *store, int64_t *pid,
                                                  struct hrf_error *err);

#endif
