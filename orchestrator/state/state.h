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

/* How an attempt ended, for the tasks of it that have no result. What follows from each is one row
 * of hrf_state_rule's table. */
enum hrf_end {
    HRF_END_NO_RESULT,  /* exit 0, and still no result: a broken worker */
    HRF_END_FAILED,     /* the task failed, and its worker says that another try may help */
    HRF_END_CRASH,      /* a signal that a program brings upon itself: SIGSEGV, SIGABRT, SIGFPE */
    HRF_END_MEMORY,     /* killed for want of memory */
    HRF_END_ERROR,      /* any other exit code: the same again would fail again */
    HRF_END_TRY_AGAIN,  /* exit 75: a full disk, no memory to be had, a peer that is gone */
    HRF_END_TIME_LIMIT, /* again with more time */
    HRF_END_DAMAGED,    /* its record does not fit its checksum */
    HRF_END_HUNG,       /* it showed no sign of life for too long, and this run ended it */
    HRF_END_KILLED,     /* somebody sent a signal: SIGKILL, SIGTERM, SIGINT */
    HRF_END_LOST,       /* no record and no process: the machine or the launcher died */
    HRF_END_PREEMPTED,  /* made room for others */
    HRF_END_CANCELLED,  /* by somebody else: not again unless asked */
    HRF_END_WITHDRAWN,  /* by this run: `hires-flow cancel`, a throttle; or it had not begun */
    HRF_N_ENDS
};

enum hrf_cost {
    HRF_COST_TRY,  /* one of the task's tries: 1 + executor.retries, shared by all such ends */
    HRF_COST_NONE, /* not the task's fault: no try, but see `limit` */
    HRF_COST_ALL   /* the task is not tried again in this run */
};

struct hrf_end_rule {
    const char *said; /* for people, before the worker's own last line; NULL: nothing */
    enum hrf_cost cost;
    /* HRF_COST_NONE: so many ends of this kind in a row without progress give the task up, so that
     * nothing goes on for ever; at least executor.retries of them; 0: any number. */
    int64_t limit;
    bool is_at_once;             /* again without a delay */
    bool free_if_further;        /* HRF_COST_TRY: none is taken if the attempt made progress */
    bool strikes_node;           /* counts against the machine, see hrf_strikes */
    bool is_of_job;              /* tasks of the job that had not begun share this end */
    bool may_be_ours;            /* what may become of a job that this run asked to end */
    bool more_time, more_memory; /* to be asked for next time */
};
const struct hrf_end_rule *hrf_state_rule(enum hrf_end end);

/* Both sources. The job's own record counts first; a mark of too little memory beats it, for the
 * kernel may take a rank while its parent ends well. */
struct hrf_witness {
    bool has_word;          /* the job wrote how it ended: */
    bool exited;            /*   by itself, with exit_code; otherwise by `signal` (0: not known) */
    bool was_asked;         /*   after a signal from outside that its launcher passed on */
    bool was_warned;        /*   after the scheduler's warning that its time is over */
    bool was_out_of_memory; /* the log has the kernel's or the scheduler's mark */
    int64_t exit_code, signal;
    enum hrf_cause cause; /* the scheduler's */
};
enum hrf_end hrf_state_judge(const struct hrf_witness *witness);

struct hrf_retry_policy {
    int64_t retries; /* attempts beyond the first, per task */
    int64_t base_ms; /* first delay */
    int64_t max_ms;
    bool can_grow; /* the executor can be asked for more time and memory */
};

/* How often a task ended in each way in a row without progress; of HRF_COST_NONE only. */
struct hrf_end_counts {
    uint16_t n[HRF_N_ENDS];
};

struct hrf_retry {
    bool again;
    int64_t delay_ms;           /* exponential with full jitter (AWS architecture blog, 2015) */
    int64_t n_tries;            /* the task's new count of tries that it used up */
    int64_t n_in_a_row, limit;  /* HRF_COST_NONE: of ends of this kind; limit 0: any number */
    int more_time, more_memory; /* levels to add: each is half as much again */
};

/* n_tries: that this task has used up, without this end. `counts` are of the same task, and are
 * brought up to date. `progress`: the attempt finished another of its tasks, or scored patches of
 * this one that are kept, so that what is left of it is a remainder and not a failure. */
struct hrf_retry hrf_state_retry(const struct hrf_retry_policy *policy, enum hrf_end end,
                                 int64_t n_tries, bool progress, struct hrf_end_counts *counts,
                                 struct hrf_random *random);
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
