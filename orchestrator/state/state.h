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

/* What a scheduler says of an end: the second witness. */
enum hrf_cause {
    HRF_CAUSE_NONE,       /* it says nothing, or that all went well */
    HRF_CAUSE_FAILED,     /* the job's own exit code, or it could not be started */
    HRF_CAUSE_NODE,       /* the machine, not the job */
    HRF_CAUSE_PREEMPTED,  /* it had to make room */
    HRF_CAUSE_TIME_LIMIT, /* it was given too little time */
    HRF_CAUSE_MEMORY,     /* it was given too little memory */
    HRF_CAUSE_CANCELLED   /* somebody ended it */
};

/* How an attempt ended, for the tasks of it that have no result. */
enum hrf_end {
    HRF_END_CLEAN,      /* exit 0, and still no result: a broken worker */
    HRF_END_TRY_AGAIN,  /* exit 75: asked to stop, disk full, no memory */
    HRF_END_SIGNAL,     /* killed: a crash, the kernel short of memory, somebody */
    HRF_END_ERROR,      /* any other exit code: the same again would fail again */
    HRF_END_LOST,       /* no word and no process: the machine or the launcher died */
    HRF_END_PREEMPTED,  /* made room for others: nobody's fault */
    HRF_END_TIME_LIMIT, /* again with more time */
    HRF_END_MEMORY,     /* again with more memory */
    HRF_END_CANCELLED   /* by somebody else's hand: not again unless asked */
};

/* Both witnesses. The job's own word counts first; a mark of too little memory beats it, for the
 * kernel may take a rank while its parent ends well. */
struct hrf_witness {
    bool has_word;          /* the job wrote how it ended: */
    bool exited;            /*   by itself, with exit_code */
    bool was_warned;        /*   after the scheduler's warning that its time is over */
    bool was_out_of_memory; /* the log has the kernel's or the scheduler's mark */
    int64_t exit_code;
    enum hrf_cause cause; /* the scheduler's */
};
enum hrf_end hrf_state_judge(const struct hrf_witness *witness);

struct hrf_retry_policy {
    int64_t retries; /* attempts beyond the first, per task */
    int64_t base_ms; /* first delay */
    int64_t max_ms;
    int64_t lost_limit; /* attempts that may be lost before a task gives up */
};

struct hrf_retry {
    bool again;
    int64_t delay_ms;           /* exponential with full jitter (AWS architecture blog, 2015) */
    int64_t n_attempts;         /* the task's new count */
    int more_time, more_memory; /* levels to add: each is half as much again */
};

/* n_attempts: ends of this task so far, this one not counted. `progress`: the attempt finished
 * another of its tasks, so that what is left of it is a remainder and not a failure. */
struct hrf_retry hrf_state_retry(const struct hrf_retry_policy *policy, enum hrf_end end,
                                 int64_t n_attempts, bool progress, struct hrf_random *random);
/* `value` at a level: half as much again for each, at most `limit` (0 = none) but never less than
 * `value`, which is what was asked for. */
int64_t hrf_state_grow(int64_t value, int64_t level, int64_t limit);

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

/* Machines on which jobs were lost: after two of them within the hour a machine is left out of
 * new jobs until the hour is over. */
enum { HRF_STRIKES_MAX = 64, HRF_STRIKES_LIMIT = 2, HRF_STRIKES_MS = 3600000 };
struct hrf_strike {
    char node[64];
    int count;
    int64_t last_ms; /* monotonic */
};
struct hrf_strikes {
    struct hrf_strike items[HRF_STRIKES_MAX];
    size_t n_items;
};
void hrf_strikes_add(struct hrf_strikes *strikes, const char *node, int64_t now_ms);
/* "n3,n7" into out; "" when none is left out. */
void hrf_strikes_list(const struct hrf_strikes *strikes, int64_t now_ms, char *out, size_t size);

#endif
