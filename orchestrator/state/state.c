#include "orchestrator/state/state.h"

#include <stdio.h>
#include <string.h>

enum { EXIT_TRY_AGAIN = 75 }; /* EX_TEMPFAIL of sysexits.h */

/* Of a job that left no word. */
static enum hrf_end judge_silent(enum hrf_cause cause)
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
    case HRF_CAUSE_NONE:
    case HRF_CAUSE_FAILED:
    case HRF_CAUSE_NODE:
        break;
    }
    return HRF_END_LOST;
}

enum hrf_end hrf_state_judge(const struct hrf_witness *w)
{
    if (w->cause == HRF_CAUSE_MEMORY || w->was_out_of_memory)
        return HRF_END_MEMORY;
    if (!w->has_word)
        return judge_silent(w->cause);
    if (w->exited && w->exit_code == 0)
        return HRF_END_CLEAN;
    if (w->exited && w->exit_code != EXIT_TRY_AGAIN)
        return HRF_END_ERROR;
    /* It handed back what it had, or was killed: why, the scheduler knows better. */
    if (w->was_warned || w->cause == HRF_CAUSE_TIME_LIMIT)
        return HRF_END_TIME_LIMIT;
    if (w->cause == HRF_CAUSE_PREEMPTED || w->cause == HRF_CAUSE_CANCELLED)
        return judge_silent(w->cause);
    if (w->cause == HRF_CAUSE_NODE)
        return HRF_END_LOST;
    return w->exited ? HRF_END_TRY_AGAIN : HRF_END_SIGNAL;
}

static int64_t delay(const struct hrf_retry_policy *policy, int64_t n, struct hrf_random *random)
{
    int64_t ceiling = policy->base_ms;
    for (int64_t i = 0; i < n && ceiling < policy->max_ms; i++)
        ceiling *= 2;
    ceiling = ceiling < policy->max_ms ? ceiling : policy->max_ms;
    return ceiling > 0 ? hrf_random_below(random, ceiling + 1) : 0;
}

static int64_t limit_of(const struct hrf_retry_policy *policy, enum hrf_end end)
{
    switch (end) {
    case HRF_END_ERROR:
    case HRF_END_CANCELLED:
        return 0;
    case HRF_END_LOST:
    case HRF_END_TRY_AGAIN:
    case HRF_END_TIME_LIMIT: /* not the task's fault: a wider limit */
        return policy->lost_limit;
    case HRF_END_PREEMPTED:
        return INT64_MAX;
    case HRF_END_CLEAN:
    case HRF_END_SIGNAL:
    case HRF_END_MEMORY:
        break;
    }
    return policy->retries;
}

struct hrf_retry hrf_state_retry(const struct hrf_retry_policy *policy, enum hrf_end end,
                                 int64_t n_attempts, bool progress, struct hrf_random *random)
{
    const bool is_free = end == HRF_END_PREEMPTED ||
                         (progress && (end == HRF_END_TIME_LIMIT || end == HRF_END_TRY_AGAIN ||
                                       end == HRF_END_SIGNAL || end == HRF_END_LOST));
    struct hrf_retry retry = { .n_attempts = n_attempts + !is_free };
    retry.again = (is_free || n_attempts < limit_of(policy, end)) && end != HRF_END_ERROR &&
                  end != HRF_END_CANCELLED;
    if (!retry.again)
        return retry;
    retry.delay_ms = is_free ? 0 : delay(policy, n_attempts, random);
    retry.more_time = end == HRF_END_TIME_LIMIT && !progress;
    retry.more_memory = end == HRF_END_MEMORY;
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

static bool is_current(const struct hrf_strike *strike, int64_t now_ms)
{
    return now_ms - strike->last_ms < HRF_STRIKES_MS;
}

void hrf_strikes_add(struct hrf_strikes *strikes, const char *node, int64_t now_ms)
{
    struct hrf_strike *place = NULL;
    if (node[0] == '\0' || strlen(node) >= sizeof place->node)
        return;
    for (size_t i = 0; i < strikes->n_items && place == NULL; i++)
        if (strcmp(strikes->items[i].node, node) == 0)
            place = &strikes->items[i];
    for (size_t i = 0; i < strikes->n_items && place == NULL; i++)
        if (!is_current(&strikes->items[i], now_ms))
            place = &strikes->items[i];
    if (place == NULL && strikes->n_items < HRF_STRIKES_MAX)
        place = &strikes->items[strikes->n_items++];
    if (place == NULL)
        return;
    if (strcmp(place->node, node) != 0 || !is_current(place, now_ms))
        place->count = 0;
    snprintf(place->node, sizeof place->node, "%s", node);
    place->count++;
    place->last_ms = now_ms;
}

void hrf_strikes_list(const struct hrf_strikes *strikes, int64_t now_ms, char *out, size_t size)
{
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < strikes->n_items; i++) {
        const struct hrf_strike *s = &strikes->items[i];
        if (s->count < HRF_STRIKES_LIMIT || !is_current(s, now_ms) ||
            n + strlen(s->node) + 2 > size)
            continue;
        n += (size_t)snprintf(out + n, size - n, "%s%s", n > 0 ? "," : "", s->node);
    }
}

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash;
}

bool hrf_breaker_failed(struct hrf_breaker *breaker, const char *message, int64_t ran_ms)
{
    uint64_t hash = hash_text(message);
    if (ran_ms > HRF_BREAKER_WINDOW_MS || hash != breaker->last_message)
        breaker->n_in_a_row = 0;
    breaker->last_message = hash;
    return ++breaker->n_in_a_row >= HRF_BREAKER_LIMIT;
}

void hrf_breaker_succeeded(struct hrf_breaker *breaker)
{
    breaker->n_in_a_row = 0;
}
