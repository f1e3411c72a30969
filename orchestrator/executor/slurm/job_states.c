/* job_states.c - the meaning of Slurm's job states and reasons. Source: squeue(1), "JOB STATE
 * CODES" and "JOB REASON CODES", Slurm 21.08 to 26.05. */
#include "orchestrator/executor/slurm/parse.h"

#include <stdio.h>
#include <string.h>

static const struct state {
    const char *word;
    enum hrf_job_observation observed;
    enum hrf_cause cause;
} states[] = {
    { "PENDING", HRF_JOB_WAITING, HRF_CAUSE_NONE },
    { "REQUEUED", HRF_JOB_WAITING, HRF_CAUSE_NONE },
    { "REQUEUE_FED", HRF_JOB_WAITING, HRF_CAUSE_NONE },
    { "REQUEUE_HOLD", HRF_JOB_WAITING, HRF_CAUSE_NONE },
    { "SPECIAL_EXIT", HRF_JOB_WAITING, HRF_CAUSE_NONE },
    { "RESV_DEL_HOLD", HRF_JOB_WAITING, HRF_CAUSE_NONE },
    { "CONFIGURING", HRF_JOB_RUNNING, HRF_CAUSE_NONE },
    { "POWER_UP_NODE", HRF_JOB_RUNNING, HRF_CAUSE_NONE },
    { "RUNNING", HRF_JOB_RUNNING, HRF_CAUSE_NONE },
    { "COMPLETING", HRF_JOB_RUNNING, HRF_CAUSE_NONE },
    { "SUSPENDED", HRF_JOB_RUNNING, HRF_CAUSE_NONE },
    { "STOPPED", HRF_JOB_RUNNING, HRF_CAUSE_NONE },
    { "RESIZING", HRF_JOB_RUNNING, HRF_CAUSE_NONE },
    { "SIGNALING", HRF_JOB_RUNNING, HRF_CAUSE_NONE },
    { "STAGE_OUT", HRF_JOB_RUNNING, HRF_CAUSE_NONE },
    { "EXPEDITING", HRF_JOB_RUNNING, HRF_CAUSE_NONE },
    { "COMPLETED", HRF_JOB_ENDED, HRF_CAUSE_NONE },
    { "FAILED", HRF_JOB_ENDED, HRF_CAUSE_FAILED },
    { "DEADLINE", HRF_JOB_ENDED, HRF_CAUSE_CANCELLED },
    { "CANCELLED", HRF_JOB_ENDED, HRF_CAUSE_CANCELLED },
    { "TIMEOUT", HRF_JOB_ENDED, HRF_CAUSE_TIME_LIMIT },
    { "OUT_OF_MEMORY", HRF_JOB_ENDED, HRF_CAUSE_MEMORY },
    { "PREEMPTED", HRF_JOB_ENDED, HRF_CAUSE_PREEMPTED },
    { "NODE_FAIL", HRF_JOB_ENDED, HRF_CAUSE_NODE },
    { "BOOT_FAIL", HRF_JOB_ENDED, HRF_CAUSE_NODE },
    { "LAUNCH_FAILED", HRF_JOB_ENDED, HRF_CAUSE_NODE },
    { "RECONFIG_FAIL", HRF_JOB_ENDED, HRF_CAUSE_NODE },
    { "REVOKED", HRF_JOB_ENDED, HRF_CAUSE_NODE },
};

bool hrf_slurm_state(const char *word, enum hrf_job_observation *observed, enum hrf_cause *cause)
{
    const size_t n = strcspn(word, " +"); /* "CANCELLED by 123", "CANCELLED+" of sacct */
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        if (strlen(states[i].word) != n || strncmp(states[i].word, word, n) != 0)
            continue;
        *observed = states[i].observed;
        *cause = states[i].cause;
        return true;
    }
    *observed = HRF_JOB_UNKNOWN;
    *cause = HRF_CAUSE_NONE;
    return false;
}

/* A '*' matches any characters. The first entry that matches counts. */
static const struct reason {
    const char *word;
    bool never;
    const char *text;
} reasons[] = {
    { "None", false, "for its turn" },
    { "Priority", false, "for its turn: jobs of higher priority go first" },
    { "Resources", false, "for machines that are busy" },
    { "BeginTime", false, "for a moment: it was requeued or begins later" },
    { "JobArrayTaskLimit", false, "for another job of this run to end" },
    { "Dependency", false, "for another job" },
    { "DependencyNeverSatisfied", true, "for a job that failed: it will never run" },
    { "Licenses", false, "for a licence" },
    { "Reservation", false, "for its reservation to begin" },
    { "ReservationDeleted", true, "for a reservation that no longer exists" },
    { "ReqNodeNotAvail*", false, "for machines that are down, reserved or busy for long" },
    { "Nodes_required_for_job_are_DOWN*", false, "for machines that are down or drained" },
    { "Cleaning", false, "for what is left of its last start to be cleared away" },
    { "Prolog", false, "for its machines to be made ready" },
    { "JobHeldAdmin", true, "because an administrator holds it: ask the site" },
    { "JobHeldUser", true, "because it was held: `scontrol release` lets it go" },
    { "job_requeued_in_held_state", true,
      "because it was requeued and is held: `scontrol release` lets it go" },
    { "launch_failed_requeued_held", true,
      "because its start failed, and it is held: `scontrol release` lets it go" },
    { "PartitionConfig", true, "for more than its partition has" },
    { "PartitionNodeLimit", true, "for more machines than its partition allows" },
    { "PartitionTimeLimit", true,
      "for more time than its partition allows: lower "
      "executor.slurm.time" },
    { "PartitionDown", true, "for a partition that is down" },
    { "PartitionInactive", true, "for a partition that is inactive" },
    { "BadConstraints", true, "for machines that do not exist: see executor.slurm.constraint" },
    { "AccountNotAllowed", true, "for a partition that its account may not use" },
    { "InvalidAccount", true, "for an account that does not exist" },
    { "InvalidQOS", true, "for a QOS that does not exist" },
    { "QOSNotAllowed", true, "for a QOS that its account or partition may not use" },
    { "AssocMaxJobsLimit", false, "for jobs of its account to end: the account's limit" },
    { "QOSMaxJobsPerUserLimit", false, "for your other jobs to end: the QOS's limit" },
    { "QOSMax*PerUser*", false, "for your other jobs to end: the QOS's limit" },
    { "AssocMax*PerJob*", true, "for more than its account allows a job" },
    { "QOSMax*PerJob*", true, "for more than its QOS allows a job" },
    { "AssocGrp*", false, "for jobs of its account to end: the account's limit" },
    { "QOSGrp*", false, "for jobs of its QOS to end: the QOS's limit" },
    { "Assoc*", false, "for a limit of its account" },
    { "QOS*", false, "for a limit of its QOS" },
    { "NodeDown", false, "for machines that are down" },
    { "FrontEndDown", false, "for a front end that is down" },
    { "BurstBuffer*", false, "for the burst buffer" },
    { "SchedDefer", false, "for the scheduler's next round" },
    { "InactiveLimit", false, "because of the site's inactivity limit" },
};

static bool job_states_fits(const char *pattern, const char *word)
{
    const char *star = strchr(pattern, '*');
    if (star == NULL)
        return strcmp(pattern, word) == 0;
    const size_t head = (size_t)(star - pattern);
    if (strncmp(pattern, word, head) != 0)
        return false;
    const char *rest = star + 1;
    const size_t n = strcspn(rest, "*");
    if (n == 0)
        return true;
    for (const char *at = word + head; *at != '\0'; at++)
        if (strncmp(at, rest, n) == 0)
            return true;
    return false;
}

const char *hrf_slurm_reason(const char *reason, bool *never)
{
    char word[128]; /* depending on the version, Slurm separates words with ' ' or with '_' */
    snprintf(word, sizeof word, "%s", reason);
    for (char *at = word; *at != '\0'; at++)
        if (*at == ' ')
            *at = '_';
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (!job_states_fits(reasons[i].word, word))
            continue;
        *never = reasons[i].never;
        return reasons[i].text;
    }
    *never = false;
    return NULL;
}
