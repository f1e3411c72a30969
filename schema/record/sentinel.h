/* sentinel.h - the sentinels of a job: start.json, beat.json and done.json in its attempt's folder,
 * in which the launcher records the job's start, signs of life and end.
 *
 * What done.json says about the end of a job takes precedence over what the scheduler says. Each
 * file is replaced as a whole (temporary name, then rename). done.json is written into a block that
 * was reserved at the start, so that it can be written on a full disk. A sentinel is a JSON object;
 * its key "sha256" is the hash of the object without that key (compact, keys sorted).
 */
#ifndef HRF_SCHEMA_RECORD_SENTINEL_H
#define HRF_SCHEMA_RECORD_SENTINEL_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The job's tasks, counted by their status files. */
struct hrf_task_tally {
    int64_t n_done, n_no_tissue, n_failed, n_missing;
};

struct hrf_sentinel {
    char run_id[40];
    char job_id[64];
    int64_t attempt;
    int64_t scheduler_job; /* the scheduler's job ID of this start; 0: no scheduler */
    char host[128], boot[40];
    int64_t pid;
    uint64_t start_time;      /* of the launcher's process */
    int64_t start_ms, end_ms; /* wall clock of its host, for users; end 0: it runs */
    /* beat.json: number and time (wall clock) of the beat, time between beats (0: written by an
     * older launcher), time for which the worker has done nothing, and how many of its processes
     * are stopped. */
    int64_t n_beats, beat_ms, period_ms, idle_ms, n_stopped;
    bool exited; /* the worker ended by itself, with exit_code */
    int64_t exit_code, signal;
    bool was_asked;            /* the worker was sent a signal to end */
    bool was_warned;           /* ... because the scheduler warned that time is almost over */
    bool was_revoked;          /* the attempt was fenced */
    bool was_out_of_memory;    /* the kernel killed a process for lack of memory meanwhile */
    int64_t peak_memory_bytes; /* of the worker's largest process */
    /* done.json: processor time of the worker and all its processes; 0: not known (written by an
     * older launcher, or the scheduler started ranks that are no children of the launcher). */
    int64_t cpu_ms;
    struct hrf_task_tally tasks; /* done.json */
    char reason[256];            /* why no worker was started, or what ended it; "": none */
};

#define HRF_FENCE_NAME "revoked"

/* name: "start", "beat" or "done". */
HRF_CHECKED enum hrf_status hrf_sentinel_write(const char *directory, const char *name,
                                               const struct hrf_sentinel *sentinel,
                                               struct hrf_error *err);
/* HRF_E_AGAIN: it does not exist (yet). HRF_E_USER: it is damaged or of a newer version. The caller
 * must check that it belongs to the job (run_id, job_id, attempt). */
HRF_CHECKED enum hrf_status hrf_sentinel_read(const char *directory, const char *name,
                                              struct hrf_sentinel *out, struct hrf_error *err);
/* How long a job has shown no sign of life, in ms; 0 if that is less than two periods of its beats.
 * `age_ms`: the age of `beat`, its last one (before the first beat: the age of the start, with
 * period_ms set). `out`: a sentence that says what is silent, the launcher or the worker. */
int64_t hrf_sentinel_silence(const struct hrf_sentinel *beat, int64_t age_ms, char *out,
                             size_t size);
/* True if at least two beats are missing: the launcher shows no sign of life. */
bool hrf_sentinel_has_missed_beats(const struct hrf_sentinel *beat, int64_t age_ms);
/* The time between two beats: 30 s, or HRF_BEAT_MS. */
int64_t hrf_sentinel_period_ms(void);
/* Reserves the space for done.json; hrf_sentinel_write("done") uses it. */
HRF_CHECKED enum hrf_status hrf_sentinel_reserve(const char *directory, struct hrf_error *err);

/* Fences an attempt: from then on it commits nothing (hrf_task_commit() refuses) and its launcher
 * ends the worker. A fence may be set twice. */
HRF_CHECKED enum hrf_status hrf_fence_set(const char *directory, struct hrf_error *err);
bool hrf_fence_is_set(const char *directory);

#endif
