#include "orchestrator/state/state.h"

enum hrf_end hrf_state_end(bool has_word, bool exited, int64_t exit_code)
{
    if (!has_word)
        return HRF_END_LOST;
    if (!exited)
        return HRF_END_SIGNAL;
    return exit_code == 0 ? HRF_END_CLEAN : exit_code == 75 ? HRF_END_TRY_AGAIN : HRF_END_ERROR;
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
                                 int64_t n_attempts, struct hrf_random *random)
{
    struct hrf_retry retry = { .n_attempts = n_attempts + 1 };
    /* Lost machines and requests to come back are not the task's fault: a wider limit. */
    int64_t limit = end == HRF_END_LOST || end == HRF_END_TRY_AGAIN ? policy->lost_limit
                                                                    : policy->retries;
    retry.again = end != HRF_END_ERROR && n_attempts < limit;
    if (retry.again)
        retry.delay_ms = delay(policy, n_attempts, random);
    return retry;
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
