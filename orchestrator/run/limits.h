/* limits.h - how many jobs may exist at a time, which users may change while a driver runs, and how
 * fast jobs may be submitted. */
#ifndef HRF_ORCHESTRATOR_RUN_LIMITS_H
#define HRF_ORCHESTRATOR_RUN_LIMITS_H

#include "orchestrator/run/jobs.h"

struct run_limits {
    int64_t submit_after_ms, submit_delay_ms; /* back-off after the executor was full */
    int64_t submit_due_ms;                    /* monotonic, for run_limits_take_submission() */
    int64_t max_in_submission;                /* jobs in one submission; 0 = the executor's limit */
    int64_t throttle, next_throttle_ms;       /* from throttle.json, and when to read it again */
    bool is_throttled;
    char throttle_trouble[300]; /* last warning about throttle.json; "" = none */
};

/* Returns how many jobs may exist at a time, waiting or running. */
int64_t run_limits_max_jobs(const struct run_limits *limits, const struct run_setup *setup);
/* True while the executor was full a short time ago. */
bool run_limits_is_waiting(const struct run_limits *limits);
/* Rate limit (token bucket): returns true, and takes a token, if another submission is allowed now.
 * On average one is allowed every executor->submit_ms, with short bursts. */
bool run_limits_take_submission(struct run_limits *limits, const struct run_setup *setup);
/* To be called if the executor had no room for n_jobs: the next submission is later, and of fewer
 * jobs. */
void run_limits_back_off(struct run_limits *limits, const struct run_setup *setup, size_t n_jobs,
                         const char *why, struct hrf_random *random);
/* To be called once per loop iteration. Reads throttle.json, which `hires-flow throttle` writes,
 * and withdraws waiting jobs that exceed the limit. */
void run_limits_apply(struct run_limits *limits, const struct run_setup *setup,
                      struct run_jobs *jobs);

#endif
