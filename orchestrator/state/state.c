/* state.c - the table of ways in which an attempt ends, the retry policy, the circuit breaker and
 * node exclusion. */
#include "orchestrator/state/state.h"

#include "base/hash.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* The whole retry policy. Reasons for the limits: somebody who kills a task's worker 20 times means
 * it, or the kernel's OOM killer does it unnoticed; a task whose machine dies 10 times may be the
 * cause; a scheduler may preempt a job for days. */
static const struct hrf_end_rule rules[HRF_N_ENDS] = {
    [HRF_END_NO_RESULT] = { .cost = HRF_COST_TRY },
    [HRF_END_FAILED] = { .cost = HRF_COST_TRY },
    [HRF_END_CRASH] = { .cost = HRF_COST_TRY, .free_if_further = true, .may_be_ours = true },
    [HRF_END_MEMORY] = { .said = "it needed more memory than it had: ",
                         .cost = HRF_COST_TRY,
                         .more_memory = true },
    [HRF_END_ERROR] = { .cost = HRF_COST_ALL, .is_of_job = true },
    [HRF_END_TRY_AGAIN] = { .cost = HRF_COST_NONE, .limit = 5, .may_be_ours = true },
    [HRF_END_TIME_LIMIT] = { .said = "its time was over: ",
                             .cost = HRF_COST_NONE,
                             .limit = 5,
                             .more_time = true },
    [HRF_END_DAMAGED] = { .cost = HRF_COST_NONE, .limit = 5 },
    [HRF_END_HUNG] = { .said = "it showed no sign of life and was ended: ",
                       .cost = HRF_COST_NONE,
                       .limit = 5,
                       .counts_against_node = true },
    [HRF_END_KILLED] = { .cost = HRF_COST_NONE, .limit = 20, .may_be_ours = true },
    [HRF_END_LOST] = { .cost = HRF_COST_NONE,
                       .limit = 10,
                       .counts_against_node = true,
                       .may_be_ours = true },
    [HRF_END_PREEMPTED] = { .said = "it was preempted: ",
                            .cost = HRF_COST_NONE,
                            .limit = 100,
                            .is_at_once = true },
    [HRF_END_CANCELLED] = { .said = "it was cancelled by somebody else; run again to try it "
                                    "again: ",
                            .cost = HRF_COST_ALL,
                            .is_of_job = true,
                            .may_be_ours = true },
    [HRF_END_NOT_BEGUN] = { .said = "it ended before it began: ",
                            .cost = HRF_COST_NONE,
                            .limit = 5,
                            .counts_against_node = true,
                            .may_be_ours = true },
    [HRF_END_NODE_LACKS] = { .cost = HRF_COST_NONE, .limit = 5, .counts_against_node = true },
    [HRF_END_WITHDRAWN] = { .said = "it was cancelled: ",
                            .cost = HRF_COST_NONE,
                            .is_at_once = true },
};

const struct hrf_end_rule *hrf_state_rule(enum hrf_end end)
{
    assert(end >= 0 && end < HRF_N_ENDS);
    return &rules[end];
}

/* Returns how a job ended that left no sentinel. */
static enum hrf_end judge_silent(enum hrf_cause cause, bool has_begun)
{
    switch (cause) {
    case HRF_CAUSE_PREEMPTED:
        return HRF_END_PREEMPTED;
    case HRF_CAUSE_TIME_LIMIT:
        return HRF_END_TIME_LIMIT;
    case HRF_CAUSE_MEMORY:
        return HRF_END_MEMORY;
    case HRF_CAUSE_CANCELLED:
        return HRF_END_CANCELLED;
    case HRF_CAUSE_FAILED:
        return has_begun ? HRF_END_LOST : HRF_END_NOT_BEGUN;
    case HRF_CAUSE_NONE:
    case HRF_CAUSE_NODE:
        break;
    }
    return HRF_END_LOST;
}

/* True for signals that a person, a script or the system sends. All others are caused by the
 * program itself. */
static bool is_from_outside(int64_t number)
{
    return number == SIGKILL || number == SIGTERM || number == SIGINT || number == SIGHUP ||
           number == SIGQUIT || number == SIGUSR1 || number == SIGUSR2;
}

enum hrf_end hrf_state_judge(const struct hrf_end_evidence *w)
{
    if (w->cause == HRF_CAUSE_MEMORY || w->was_out_of_memory ||
        (w->has_sentinel && w->exited && w->exit_code == HRF_EXIT_NO_MEMORY))
        return HRF_END_MEMORY;
    if (w->node_lacks)
        return HRF_END_NODE_LACKS;
    if (!w->has_sentinel)
        return judge_silent(w->cause, w->has_begun);
    if (w->exited && w->exit_code == 0)
        return HRF_END_NO_RESULT;
    if (w->exited && w->exit_code != HRF_EXIT_TRY_AGAIN)
        return HRF_END_ERROR;
    /* The worker saved its work, or was killed. The scheduler knows the cause best. */
    if (w->was_warned || w->cause == HRF_CAUSE_TIME_LIMIT)
        return HRF_END_TIME_LIMIT;
    if (w->cause == HRF_CAUSE_PREEMPTED || w->cause == HRF_CAUSE_CANCELLED)
        return judge_silent(w->cause, true);
    if (w->cause == HRF_CAUSE_NODE)
        return HRF_END_LOST;
    if (w->was_asked || (!w->exited && is_from_outside(w->signal)))
        return HRF_END_KILLED;
    return w->exited ? HRF_END_TRY_AGAIN : HRF_END_CRASH;
}

static int64_t delay(const struct hrf_retry_policy *policy, int64_t n, struct hrf_random *random)
{
    int64_t ceiling = policy->base_ms;
    for (int64_t i = 0; i < n && ceiling < policy->max_ms; i++)
        ceiling *= 2;
    ceiling = ceiling < policy->max_ms ? ceiling : policy->max_ms;
    return ceiling > 0 ? hrf_random_below(random, ceiling + 1) : 0;
}

struct hrf_retry hrf_state_retry(const struct hrf_retry_policy *policy, enum hrf_end end,
                                 int64_t n_tries, bool progress, struct hrf_end_counts *counts,
                                 struct hrf_random *random)
{
    const struct hrf_end_rule *rule = &rules[end];
    const bool takes_a_try = rule->cost == HRF_COST_TRY && !(progress && rule->free_if_further);
    struct hrf_retry retry = { .n_tries = n_tries + (takes_a_try || rule->cost == HRF_COST_ALL) };
    assert(n_tries >= 0 && policy->retries >= 0);
    if (progress)
        *counts = (struct hrf_end_counts){ { 0 } };
    int64_t n = n_tries; /* earlier ends of this kind in the same task; they determine the delay */
    if (takes_a_try) {
        retry.again = n_tries < policy->retries;
    } else if (rule->cost == HRF_COST_NONE) {
        n = counts->n[end];
        retry.limit = rule->limit > 0 && rule->limit < policy->retries ? policy->retries
                                                                       : rule->limit;
        retry.again = progress || retry.limit == 0 || n < retry.limit;
        counts->n[end] = (uint16_t)(n + (!progress && n < UINT16_MAX));
        retry.n_in_a_row = counts->n[end];
    } else {
        retry.again = rule->cost != HRF_COST_ALL;
    }
    if (!retry.again)
        return retry;
    retry.delay_ms = rule->is_at_once || (progress && !takes_a_try) ? 0 : delay(policy, n, random);
    retry.more_time = policy->can_grow && rule->more_time && !progress;
    retry.more_memory = policy->can_grow && rule->more_memory;
    return retry;
}

int64_t hrf_state_grow(int64_t value, int64_t level, int64_t limit)
{
    const int64_t asked = value;
    for (int64_t i = 0; i < level && value < INT64_MAX / 2; i++)
        value += value > 1 ? value / 2 : 1;
    if (limit > 0 && value > limit)
        value = limit > asked ? limit : asked;
    return value;
}

static bool is_current(const struct hrf_node_failures *node, int64_t now_ms)
{
    return now_ms - node->last_ms < HRF_EXCLUSION_MS;
}

void hrf_node_exclusion_add_failure(struct hrf_node_exclusion *exclusion, const char *node,
                                    int64_t now_ms)
{
    struct hrf_node_failures *entry = NULL;
    if (node[0] == '\0' || strlen(node) >= sizeof entry->node)
        return;
    for (size_t i = 0; i < exclusion->n_items && entry == NULL; i++)
        if (strcmp(exclusion->items[i].node, node) == 0)
            entry = &exclusion->items[i];
    for (size_t i = 0; i < exclusion->n_items && entry == NULL; i++)
        if (!is_current(&exclusion->items[i], now_ms))
            entry = &exclusion->items[i];
    if (entry == NULL && exclusion->n_items < HRF_EXCLUSION_MAX_NODES)
        entry = &exclusion->items[exclusion->n_items++];
    if (entry == NULL)
        return;
    if (strcmp(entry->node, node) != 0 || !is_current(entry, now_ms))
        entry->count = 0;
    snprintf(entry->node, sizeof entry->node, "%s", node);
    entry->count++;
    entry->last_ms = now_ms;
}

void hrf_node_exclusion_list(const struct hrf_node_exclusion *exclusion, int64_t now_ms, char *out,
                             size_t size)
{
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < exclusion->n_items; i++) {
        const struct hrf_node_failures *s = &exclusion->items[i];
        if (s->count < HRF_EXCLUSION_FAILURES || !is_current(s, now_ms) ||
            n + strlen(s->node) + 2 > size)
            continue;
        n += (size_t)snprintf(out + n, size - n, "%s%s", n > 0 ? "," : "", s->node);
    }
}

bool hrf_breaker_failed(struct hrf_breaker *breaker, const char *message, int64_t ran_ms)
{
    uint64_t hash = hrf_hash_fnv(message, strlen(message));
    if (ran_ms > HRF_BREAKER_WINDOW_MS || hash != breaker->last_message)
        breaker->n_in_a_row = 0;
    breaker->last_message = hash;
    return ++breaker->n_in_a_row >= HRF_BREAKER_LIMIT;
}

void hrf_breaker_succeeded(struct hrf_breaker *breaker)
{
    breaker->n_in_a_row = 0;
}

bool hrf_node_breaker_failed(struct hrf_node_breaker *breaker, const char *message,
                             const char *node)
{
    const bool trips = hrf_breaker_failed(&breaker->failures, message, 0);
    if (breaker->failures.n_in_a_row == 1) {
        snprintf(breaker->node, sizeof breaker->node, "%s", node);
        breaker->is_on_several = node[0] == '\0';
    }
    breaker->is_on_several |= strcmp(breaker->node, node) != 0;
    return trips &&
           (breaker->is_on_several || breaker->failures.n_in_a_row >= 2 * HRF_BREAKER_LIMIT);
}
