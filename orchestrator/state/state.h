/* state.h - what to do when a job has ended, and where a slide stands: pure decisions.
 *
 * No clock, no I/O: facts in, decision out.
 */
#ifndef HRF_ORCHESTRATOR_STATE_STATE_H
#define HRF_ORCHESTRATOR_STATE_STATE_H

#include "base/random.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How an attempt ended, for the tasks of it that have no result. */
enum hrf_end {
    HRF_END_CLEAN,     /* exit 0, and still no result: a broken worker */
    HRF_END_TRY_AGAIN, /* exit 75: asked to stop, disk full, no memory */
    HRF_END_SIGNAL,    /* killed: a crash, the kernel short of memory, somebody */
    HRF_END_ERROR,     /* any other exit code: the same again would fail again */
    HRF_END_LOST       /* no word and no process: the machine or the launcher died */
};

struct hrf_retry_policy {
    int64_t retries; /* attempts beyond the first, per task */
    int64_t base_ms; /* first delay */
    int64_t max_ms;
    int64_t lost_limit; /* attempts that may be lost before a task gives up */
};

struct hrf_retry {
    bool again;
    int64_t delay_ms;   /* exponential with full jitter (AWS architecture blog, 2015) */
    int64_t n_attempts; /* the task's new count */
};

/* n_attempts: ends of this task so far, this one not counted. */
struct hrf_retry hrf_state_retry(const struct hrf_retry_policy *policy, enum hrf_end end,
                                 int64_t n_attempts, struct hrf_random *random);
enum hrf_end hrf_state_end(bool has_word, bool exited, int64_t exit_code);

/* The stage stops when this many different tasks fail in a row within `window_ms` of their start
 * with the same message: the fault is the run's, not theirs. */
enum { HRF_BREAKER_LIMIT = 3, HRF_BREAKER_WINDOW_MS = 60000 };
struct hrf_breaker {
    uint64_t last_message; /* hash of it */
    int n_in_a_row;
};
/* True when it trips. */
bool hrf_breaker_failed(struct hrf_breaker *breaker, const char *message, int64_t ran_ms);
void hrf_breaker_succeeded(struct hrf_breaker *breaker);

#endif
