/* sentinel.h - what a job says of itself: start.json, beat.json and done.json in its attempt's
 * directory, written by the launcher through temporary names and renames.
 *
 * done.json is the primary truth of how a job ended; the scheduler is the second source. It is
 * written into a block that was reserved at the start, so that a full disk cannot silence it.
 * Each is one JSON object whose key "sha256" is over the rest of it (compact, keys sorted).
 */
#ifndef HRF_SCHEMA_RECORD_SENTINEL_H
#define HRF_SCHEMA_RECORD_SENTINEL_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The tasks of the job by their status files. */
struct hrf_task_tally {
    int64_t n_done, n_no_tissue, n_failed, n_missing;
};

struct hrf_sentinel {
    char run_id[40];
    char job_id[64];
    int64_t attempt;
    int64_t scheduler_job; /* the scheduler's own number of this one start; 0 = there is none */
    char host[128], boot[40];
    int64_t pid;
    uint64_t start_time;      /* of the launcher's process */
    int64_t start_ms, end_ms; /* wall, of its host: for people; end 0 while it runs */
    /* beat.json: the k-th beat, when it was written (wall), how far apart they are (0: by an older
     * launcher), how long the worker had done nothing by then, and how many of its processes were
     * stopped. */
    int64_t n_beats, beat_ms, period_ms, idle_ms, n_stopped;
    bool exited; /* of the worker: by itself */
    int64_t exit_code, signal;
    bool was_asked;              /* a signal to end was passed on to the worker */
    bool was_warned;             /* ... and it was the scheduler's warning that time is over */
    bool was_revoked;            /* the fence file was there: this attempt was given up */
    bool was_out_of_memory;      /* the system's killer was at work when the worker was killed */
    int64_t peak_memory_bytes;   /* of the largest process of the worker's tree */
    struct hrf_task_tally tasks; /* done.json */
    char reason[256];            /* "" = none; why no worker was started, or what killed it */
};

#define HRF_FENCE_NAME "revoked"

/* name: "start", "beat" or "done". */
HRF_CHECKED enum hrf_status hrf_sentinel_write(const char *directory, const char *name,
                                               const struct hrf_sentinel *sentinel,
                                               struct hrf_error *err);
/* HRF_E_AGAIN when it is not there (yet); HRF_E_USER when it is damaged or of a newer version.
 * Whose it is (run_id, job_id, attempt) is for the caller to compare. */
HRF_CHECKED enum hrf_status hrf_sentinel_read(const char *directory, const char *name,
                                              struct hrf_sentinel *out, struct hrf_error *err);
/* How long a job has shown no sign of life, if that is two beats or more; otherwise 0. `age_ms`:
 * for how long `beat`, its last one, has been there (before the first: since it began, with
 * period_ms set). What it is that is silent goes to `out`, as a sentence. */
int64_t hrf_sentinel_silence(const struct hrf_sentinel *beat, int64_t age_ms, char *out,
                             size_t size);
/* Two of them: its launcher, not only its worker, shows no sign of life. */
bool hrf_sentinel_has_missed_beats(const struct hrf_sentinel *beat, int64_t age_ms);
/* The time between two beats: 30 s, or HRF_BEAT_MS. */
int64_t hrf_sentinel_period_ms(void);
/* Reserves the space for done.json; hrf_sentinel_write("done") uses it. */
HRF_CHECKED enum hrf_status hrf_sentinel_reserve(const char *directory, struct hrf_error *err);

/* The fence: from then on this attempt commits nothing (hrf_task_commit refuses) and its launcher
 * ends the worker. May be set twice. */
HRF_CHECKED enum hrf_status hrf_fence_set(const char *directory, struct hrf_error *err);
bool hrf_fence_is_set(const char *directory);

#endif
