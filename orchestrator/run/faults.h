/* faults.h - how a job ended that left tasks without a result, whose fault that was, and when so
 * many faults are of one kind that the run ends. */
#ifndef HRF_ORCHESTRATOR_RUN_FAULTS_H
#define HRF_ORCHESTRATOR_RUN_FAULTS_H

#include "orchestrator/run/jobs.h"
#include "schema/record/job.h"

struct run_faults {
    struct hrf_retry_policy policy;
    struct hrf_breaker breaker;       /* jobs that failed at once */
    struct hrf_node_breaker launches; /* jobs whose node lacked what they need */
    char *lacking;                    /* why the last of them failed; NULL: there was none */
    struct hrf_node_exclusion exclusion;
};
void run_faults_release(struct run_faults *faults);

struct run_verdict {
    enum hrf_end end;
    char *reason;  /* heap: text for users */
    char *message; /* heap: the same without what differs between jobs with the same fault */
    char *lacks;   /* heap: the file that the job's node lacks; NULL: none */
};
/* Classifies the end of a job that left tasks without a result. `done` counts only with
 * has_sentinel; its reason is filled in for a job that fell silent. The caller frees the texts. An
 * end that is the node's fault is counted against the node. */
void run_faults_judge_end(struct run_faults *faults, const struct run_setup *setup,
                          struct run_job *job, struct hrf_sentinel *done, bool has_sentinel,
                          struct run_verdict *out);
/* True if the worker's node lacks a file that this machine sees. Never where jobs run on this
 * machine. */
bool run_faults_is_lacking(const struct run_setup *setup, const struct hrf_failure *failure);
/* Returns what the worker said of its failure, and, if its node lacks something, what each machine
 * sees. Heap. */
char *run_faults_explain(const struct run_setup *setup, const struct hrf_failure *failure);
/* Counts a failure against the job's node, if it ran on one. */
void run_faults_blame_node(struct run_faults *faults, const struct run_job *job);
/* Notes that a job failed `ran_ms` after it began. HRF_E_EXTERNAL: several in a row failed at once
 * with this message, so the run ends. */
HRF_CHECKED enum hrf_status run_faults_trip(struct run_faults *faults, const char *message,
                                            int64_t ran_ms, struct hrf_error *err);
/* Reports a job whose node lacks what this machine has; `lacks` "": it ended before it began.
 * HRF_E_EXTERNAL: several in a row, and no other job that has begun, so the run ends: to try on
 * would exclude one node after the other. */
HRF_CHECKED enum hrf_status run_faults_trip_node(struct run_faults *faults,
                                                 const struct run_setup *setup,
                                                 const struct run_jobs *jobs,
                                                 const struct run_job *job, const char *lacks,
                                                 const char *reason, struct hrf_error *err);

#endif
