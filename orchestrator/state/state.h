/* state.h - the retry policy: how the end of a job is classified, which of its tasks are tried
 * again, when, with how much time and memory, and which nodes are excluded.
 *
 * Pure functions: they use no clock and do no I/O. Times are passed in.
 */
#ifndef HRF_ORCHESTRATOR_STATE_STATE_H
#define HRF_ORCHESTRATOR_STATE_STATE_H

#include "base/random.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why a job ended, as the scheduler reports it. */
enum hrf_cause {
    HRF_CAUSE_NONE,       /* the scheduler says nothing, or that the job succeeded */
    HRF_CAUSE_FAILED,     /* the job exited with an error, or could not be started */
    HRF_CAUSE_NODE,       /* the machine failed */
    HRF_CAUSE_PREEMPTED,  /* the job was preempted */
    HRF_CAUSE_TIME_LIMIT, /* the job reached its time limit */
    HRF_CAUSE_MEMORY,     /* the job exceeded its memory */
    HRF_CAUSE_CANCELLED   /* somebody cancelled the job */
};

/* How an attempt ended, for those of its tasks that have no result. hrf_state_rule() says what
 * follows from each. */
enum hrf_end {
    HRF_END_NO_RESULT,  /* exit code 0 and yet no result: the worker is broken */
    HRF_END_FAILED,     /* the task failed, and its worker says that another try may help */
    HRF_END_CRASH,      /* a signal caused by the program itself: SIGSEGV, SIGABRT, SIGFPE */
    HRF_END_MEMORY,     /* killed because it exceeded its memory, or HRF_EXIT_NO_MEMORY */
    HRF_END_ERROR,      /* any other exit code: another try would fail in the same way */
    HRF_END_TRY_AGAIN,  /* HRF_EXIT_TRY_AGAIN: disk full, or a peer is gone */
    HRF_END_TIME_LIMIT, /* time limit reached: tried again with more time */
    HRF_END_DAMAGED,    /* its record does not match its checksum */
    HRF_END_HUNG,       /* it showed no sign of life for too long, and this run ended it */
    HRF_END_KILLED,     /* somebody sent a signal: SIGKILL, SIGTERM, SIGINT */
    HRF_END_LOST,       /* no record and no process: the machine or the launcher died */
    HRF_END_PREEMPTED,  /* preempted by the scheduler */
    HRF_END_CANCELLED,  /* cancelled by somebody else: not tried again unless the user asks */
    HRF_END_NOT_BEGUN,  /* its script ended with an error before the launcher began: the node lacks
                           the program, the run directory, a module */
    HRF_END_NODE_LACKS, /* its node cannot open a file that this machine can: a slide or model */
    HRF_END_WITHDRAWN,  /* ended by this run (`hires-flow cancel`, a throttle), or never begun */
    HRF_N_ENDS
};

enum hrf_cost {
    HRF_COST_TRY,  /* uses up one of the task's 1 + executor.retries tries */
    HRF_COST_NONE, /* not the task's fault: uses up no try, but see `limit` */
    HRF_COST_ALL   /* the task is not tried again in this run */
};

/* What follows from one way of ending. */
struct hrf_end_rule {
    const char *said; /* text for users that precedes the worker's last line; NULL: none */
    enum hrf_cost cost;
    /* HRF_COST_NONE: after this many ends of this kind in a row without progress the task is given
     * up. The limit used is at least executor.retries; 0: no limit. */
    int64_t limit;
    bool is_at_once;             /* the next try starts without a delay */
    bool free_if_further;        /* HRF_COST_TRY: uses up no try if the attempt made progress */
    bool counts_against_node;    /* recorded in hrf_node_exclusion */
    bool is_of_job;              /* the job's tasks that had not begun share this end */
    bool may_be_ours;            /* a job that this run asked to end may end like this */
    bool more_time, more_memory; /* the next try asks for more */
};
const struct hrf_end_rule *hrf_state_rule(enum hrf_end end);

/* All evidence about the end of a job: its sentinel done.json and the scheduler. The sentinel has
 * priority, except that any sign of too little memory decides: the kernel may kill one rank while
 * the rank's parent still exits normally. */
struct hrf_end_evidence {
    bool node_lacks;        /* the worker named a file that only its node cannot open */
    bool has_begun;         /* start.json exists */
    bool has_sentinel;      /* done.json exists; the next fields come from it */
    bool exited;            /* the worker exited with exit_code; otherwise `signal` ended it (0: not
                               known) */
    bool was_asked;         /* the launcher had passed on a signal from outside */
    bool was_warned;        /* the scheduler had warned that the time limit is near */
    bool was_out_of_memory; /* from done.json, or the log has the kernel's or scheduler's message */
    int64_t exit_code, signal;
    enum hrf_cause cause; /* from the scheduler */
};
enum hrf_end hrf_state_judge(const struct hrf_end_evidence *evidence);

struct hrf_retry_policy {
    int64_t retries; /* tries per task after the first */
    int64_t base_ms; /* first delay */
    int64_t max_ms;  /* longest delay */
    bool can_grow;   /* the executor can be asked for more time and memory */
};

/* How often in a row a task ended in each way without progress. Counts HRF_COST_NONE only. */
struct hrf_end_counts {
    uint16_t n[HRF_N_ENDS];
};

struct hrf_retry {
    bool again;
    int64_t delay_ms;           /* exponential with full jitter (AWS architecture blog, 2015) */
    int64_t n_tries;            /* tries that the task has used up, including this one */
    int64_t n_in_a_row, limit;  /* HRF_COST_NONE: ends of this kind in a row; limit 0: no limit */
    int more_time, more_memory; /* levels to add; each level adds half (hrf_state_grow) */
};

/* n_tries: tries that this task has used up before this end. `counts` belongs to the same task and
 * is updated. `progress`: the attempt finished another of its tasks, or scored patches of this one
 * that are kept; then what is missing is a remainder and not a failure. */
struct hrf_retry hrf_state_retry(const struct hrf_retry_policy *policy, enum hrf_end end,
                                 int64_t n_tries, bool progress, struct hrf_end_counts *counts,
                                 struct hrf_random *random);
/* `value` times 1.5 for each level, at most `limit` (0 = no limit), but never less than `value`. */
int64_t hrf_state_grow(int64_t value, int64_t level, int64_t limit);

/* Circuit breaker: the run stops if HRF_BREAKER_LIMIT jobs in a row fail with the same message,
 * each within HRF_BREAKER_WINDOW_MS of its start. The fault then lies in the run, not in one task.
 */
enum { HRF_BREAKER_LIMIT = 3, HRF_BREAKER_WINDOW_MS = 60000 };
struct hrf_breaker {
    uint64_t last_message; /* hash of the last message */
    int n_in_a_row;
};
/* Records a failure after `ran_ms`. Returns true if the breaker trips. */
bool hrf_breaker_failed(struct hrf_breaker *breaker, const char *message, int64_t ran_ms);
void hrf_breaker_succeeded(struct hrf_breaker *breaker);

/* The same for jobs that failed because of their node. A single bad node that takes one job after
 * another is excluded (below) and does not end the run. The breaker therefore trips only if the
 * jobs in a row ran on two or more nodes, or if there were 2 * HRF_BREAKER_LIMIT of them. */
struct hrf_node_breaker {
    struct hrf_breaker failures;
    char node[64]; /* the node of the first job in the row */
    bool is_on_several;
};
/* Returns true if the breaker trips. node "": not known. */
bool hrf_node_breaker_failed(struct hrf_node_breaker *breaker, const char *message,
                             const char *node);

/* Node exclusion: a node on which HRF_EXCLUSION_FAILURES jobs were lost is not used for new jobs
 * until HRF_EXCLUSION_MS have passed since its last loss. Earlier losses are then forgotten. */
enum { HRF_EXCLUSION_MAX_NODES = 64, HRF_EXCLUSION_FAILURES = 2, HRF_EXCLUSION_MS = 3600000 };
struct hrf_node_failures {
    char node[64];
    int count;
    int64_t last_ms; /* monotonic */
};
struct hrf_node_exclusion {
    struct hrf_node_failures items[HRF_EXCLUSION_MAX_NODES];
    size_t n_items;
};
/* Records a lost job. An empty or overlong node name is ignored. */
void hrf_node_exclusion_add_failure(struct hrf_node_exclusion *exclusion, const char *node,
                                    int64_t now_ms);
/* Writes the excluded nodes to `out` as "n3,n7"; "" if there are none. */
void hrf_node_exclusion_list(const struct hrf_node_exclusion *exclusion, int64_t now_ms, char *out,
                             size_t size);

#endif
