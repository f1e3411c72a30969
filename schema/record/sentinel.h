/* sentinel.h - what a job says about its own start, life and end, by files in its directory.
 *
 * The launcher writes start.json, then beat.json every 30 s, then done.json; the orchestrator
 * reads them and believes them before any scheduler. Each is JSON with a SHA-256 over the rest,
 * made under a temporary name, synced and renamed. done.json goes into a block that was set
 * aside at the start, so that a full disk cannot hide how a job ended.
 * Times are wall clock milliseconds since 1970 of the job's host: for people, never for order.
 */
#ifndef HRF_SCHEMA_RECORD_SENTINEL_H
#define HRF_SCHEMA_RECORD_SENTINEL_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Which attempt speaks, and the process that speaks for it. A reader must compare run_id, job_id
 * and attempt with its own (hrf_sentinel_is). */
struct hrf_sentinel_id {
    char run_id[64];
    char job_id[64];
    int64_t attempt;
    char host[256];
    char boot_id[40];
    int64_t pid;        /* of the launcher */
    uint64_t pid_start; /* its start time in ticks since boot (hrf_process_start_time) */
};

struct hrf_sentinel_start {
    struct hrf_sentinel_id id;
    int64_t start_ms;
    int64_t n_tasks;
};

struct hrf_sentinel_beat {
    struct hrf_sentinel_id id;
    int64_t count; /* beats so far, from 1 */
    int64_t beat_ms;
    int64_t n_ended; /* tasks that have a status */
};

/* How the worker ended. */
enum hrf_job_end {
    HRF_END_EXITED,     /* exit_code */
    HRF_END_SIGNALLED,  /* signal */
    HRF_END_REVOKED,    /* the fence file was there: this attempt was given up, worker killed */
    HRF_END_NOT_STARTED /* reason says why the worker could not be started */
};

struct hrf_sentinel_done {
    struct hrf_sentinel_id id;
    enum hrf_job_end end;
    int64_t exit_code; /* 0: every task has a status; 75: try again; HRF_END_EXITED only */
    int64_t signal;    /* HRF_END_SIGNALLED only, else 0 */
    bool was_asked;    /* a SIGTERM, SIGINT or SIGUSR1 was forwarded before the end */
    int64_t start_ms, end_ms;
    int64_t peak_memory_bytes; /* the largest of the worker's processes; 0 = unknown */
    int64_t n_done, n_no_tissue, n_failed, n_missing; /* tasks by their status files */
    char reason[512]; /* "" unless NOT_STARTED or signalled; one line */
};

#define HRF_FENCE_NAME      "revoked"
#define HRF_EXIT_TRY_AGAIN  75 /* EX_TEMPFAIL of sysexits.h */
#define HRF_BEAT_DEFAULT_MS 30000

/* Fills host, boot, pid and start time with those of this process. */
void hrf_sentinel_id_init(struct hrf_sentinel_id *id, const char *run_id, const char *job_id,
                          int64_t attempt);
bool hrf_sentinel_is(const struct hrf_sentinel_id *id, const char *run_id, const char *job_id,
                     int64_t attempt);

HRF_CHECKED enum hrf_status hrf_sentinel_write_start(const char *directory,
                                                     const struct hrf_sentinel_start *start,
                                                     struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_sentinel_write_beat(const char *directory,
                                                    const struct hrf_sentinel_beat *beat,
                                                    struct hrf_error *err);
/* Sets aside the block that hrf_sentinel_write_done() needs; call it before work begins. */
HRF_CHECKED enum hrf_status hrf_sentinel_reserve(const char *directory, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_sentinel_write_done(const char *directory,
                                                    const struct hrf_sentinel_done *done,
                                                    struct hrf_error *err);

/* All readers: HRF_E_AGAIN when there is no such sentinel (yet), HRF_E_USER when it is damaged
 * or of a newer version. *out is written only on success. */
HRF_CHECKED enum hrf_status hrf_sentinel_read_start(const char *directory,
                                                    struct hrf_sentinel_start *out,
                                                    struct hrf_error *err);
HRF_CHECKED enum hrf_status
hrf_sentinel_read_beat(const char *directory, struct hrf_sentinel_beat *out, struct hrf_error *err);
HRF_CHECKED enum hrf_status
hrf_sentinel_read_done(const char *directory, struct hrf_sentinel_done *out, struct hrf_error *err);

/* The fence: from then on this attempt commits nothing (hrf_task_commit refuses) and its
 * launcher ends the worker. Idempotent. */
HRF_CHECKED enum hrf_status hrf_fence_set(const char *directory, struct hrf_error *err);
bool hrf_fence_is_set(const char *directory);

#endif
