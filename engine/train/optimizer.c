/* optimizer.c - the updates of optimizer.h. */
#include "engine/train/optimizer.h"

#include <math.h>
#include <string.h>

const char *const hrf_optimizer_names[] = { "sgd", "adamw", "lamb", NULL };

/* Norms are sums over blocks of this many numbers, each by one thread, added in order. */
enum { BLOCK = 16384 };

struct moments {
    float *first, *second, *average; /* NULL: the optimiser has none */
    int64_t n_steps;                 /* updates of these weights */
};

struct hrf_optimizer {
    struct hrf_optimizer_config config;
    struct hrf_trained_weights *weights; /* [n] */
    struct moments *moments;             /* [n] */
    int32_t n;
    float *update;              /* LAMB: of one tensor, before its norm is known */
    double learning_rate, clip; /* of the present step */
};

struct hrf_optimizer_config hrf_optimizer_default(enum hrf_optimizer_kind kind)
{
    return (struct hrf_optimizer_config){ .kind = kind,
                                          .momentum = 0.9,
                                          .uses_nesterov = true,
                                          .beta1 = 0.9,
                                          .beta2 = 0.999,
                                          .epsilon = kind == HRF_OPTIMIZER_LAMB ? 1e-6 : 1e-8,
                                          .weight_decay = 2e-5 };
}

static float *create_zeros(int64_t n, bool is_needed, bool *is_short)
{
    float *numbers = is_needed ? hrf_try_calloc((size_t)n + 1, sizeof *numbers) : NULL;
    *is_short |= is_needed && numbers == NULL;
    return numbers;
}

enum hrf_status hrf_optimizer_create(const struct hrf_optimizer_config *config,
                                     const struct hrf_trained_weights *weights, int32_t n,
                                     struct hrf_optimizer **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_optimizer) o = hrf_calloc(1, sizeof *o);
    const bool is_sgd = config->kind == HRF_OPTIMIZER_SGD;
    bool is_short = false;
    int64_t most = 0;
    o->config = *config;
    o->n = n;
    o->weights = hrf_alloc_array((size_t)n + 1, sizeof *o->weights);
    o->moments = hrf_calloc((size_t)n + 1, sizeof *o->moments);
    for (int32_t i = 0; i < n; i++) {
        const int64_t size = weights[i].n;
        o->weights[i] = weights[i];
        o->moments[i].first = create_zeros(size, !is_sgd || config->momentum > 0, &is_short);
        o->moments[i].second = create_zeros(size, !is_sgd, &is_short);
        o->moments[i].average = create_zeros(size, config->average > 0, &is_short);
        if (o->moments[i].average != NULL)
            memcpy(o->moments[i].average, weights[i].numbers, (size_t)size * sizeof(float));
        most = size > most ? size : most;
    }
    o->update = create_zeros(most, config->kind == HRF_OPTIMIZER_LAMB, &is_short);
    HRF_CHECK_MEMORY(!is_short, err, "no memory for the state of %s",
                     hrf_optimizer_names[config->kind]);
    HRF_MOVE(*out, o);
    return HRF_OK;
}

void hrf_optimizer_destroy(struct hrf_optimizer *o)
{
    if (o == NULL)
        return;
    for (int32_t i = 0; i < o->n; i++) {
        hrf_free(o->moments[i].first);
        hrf_free(o->moments[i].second);
        hrf_free(o->moments[i].average);
    }
    hrf_free(o->moments);
    hrf_free(o->weights);
    hrf_free(o->update);
    hrf_free(o);
}

double hrf_sum_of_squares(const float *numbers, int64_t n)
{
    const int64_t n_blocks = (n + BLOCK - 1) / BLOCK;
    HRF_AUTO_FREE double *sums = hrf_calloc((size_t)n_blocks + 1, sizeof *sums);
    double sum = 0;
#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < n_blocks; b++) {
        const int64_t end = (b + 1) * BLOCK < n ? (b + 1) * BLOCK : n;
        for (int64_t i = b * BLOCK; i < end; i++)
            sums[b] += (double)numbers[i] * (double)numbers[i];
    }
    for (int64_t b = 0; b < n_blocks; b++)
        sum += sums[b];
    return sum;
}

void hrf_optimizer_begin(struct hrf_optimizer *o, double learning_rate, double norm)
{
    o->learning_rate = learning_rate;
    o->clip = 1;
    if (o->config.clip_norm > 0)
        o->clip = fmin(o->config.clip_norm / (norm + 1e-6), 1);
}

/* ---- the updates, of weights w by the gradient g ---- */

static void step_sgd(const struct hrf_optimizer *o, const struct hrf_trained_weights *t,
                     const struct moments *m, const float *g, double weight_decay)
{
    const float clip = (float)o->clip, decay = (float)weight_decay;
    const float rate = (float)o->learning_rate, momentum = (float)o->config.momentum;
    const bool is_first = m->n_steps == 1, ahead = o->config.uses_nesterov;
    float *w = t->numbers, *first = m->first;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < t->n; i++) {
        float d = g[i] * clip + decay * w[i];
        if (first != NULL) {
            first[i] = is_first ? d : momentum * first[i] + d;
            d = ahead ? d + momentum * first[i] : first[i];
        }
        w[i] -= rate * d;
    }
}

/* Adam's constants of one step: by_first and by_second correct the bias of the moments, which begin
 * with 0. */
struct adam {
    float b1, b2, by_first, by_second, epsilon, clip;
};

static struct adam adam_of(const struct hrf_optimizer *o, const struct moments *m)
{
    const struct hrf_optimizer_config *c = &o->config;
    return (struct adam){ .b1 = (float)c->beta1,
                          .b2 = (float)c->beta2,
                          .by_first = (float)(1 / (1 - pow(c->beta1, (double)m->n_steps))),
                          .by_second = (float)(1 / sqrt(1 - pow(c->beta2, (double)m->n_steps))),
                          .epsilon = (float)c->epsilon,
                          .clip = (float)o->clip };
}

/* Advances the moments of number i, and returns first / (sqrt(second) + epsilon) of the corrected
 * ones. */
static inline float adam_direction(const struct adam *a, const struct moments *m, int64_t i,
                                   float gradient)
{
    const float g = gradient * a->clip;
    m->first[i] += (g - m->first[i]) * (1 - a->b1);
    m->second[i] = m->second[i] * a->b2 + g * g * (1 - a->b2);
    return m->first[i] * a->by_first / (sqrtf(m->second[i]) * a->by_second + a->epsilon);
}

static void step_adamw(const struct hrf_optimizer *o, const struct hrf_trained_weights *t,
                       const struct moments *m, const float *g, double weight_decay)
{
    const struct adam a = adam_of(o, m);
    const float rate = (float)o->learning_rate;
    const bool is_coupled = o->config.couples_decay;
    const float kept = is_coupled ? 1 : (float)(1 - o->learning_rate * weight_decay);
    const float coupled = is_coupled ? (float)weight_decay : 0;
    float *w = t->numbers;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < t->n; i++)
        w[i] = w[i] * kept - rate * adam_direction(&a, m, i, g[i] + coupled * w[i]);
}

static void step_lamb(const struct hrf_optimizer *o, const struct hrf_trained_weights *t,
                      const struct moments *m, const float *g, double weight_decay)
{
    const struct adam a = adam_of(o, m);
    const float decay = (float)weight_decay;
    float *w = t->numbers, *update = o->update;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < t->n; i++)
        update[i] = adam_direction(&a, m, i, g[i]) + decay * w[i];
    double trust = 1;
    if (weight_decay != 0) { /* what does not decay is not adapted either */
        const double of_w = sqrt(hrf_sum_of_squares(w, t->n));
        const double of_update = sqrt(hrf_sum_of_squares(update, t->n));
        if (of_w > 0 && of_update > 0)
            trust = of_w / of_update;
    }
    const float rate = (float)(o->learning_rate * trust);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < t->n; i++)
        w[i] -= rate * update[i];
}

static void move_average(const struct hrf_optimizer *o, int32_t i)
{
    const float kept = (float)o->config.average;
    const float *w = o->weights[i].numbers;
    float *average = o->moments[i].average;
#pragma omp parallel for schedule(static)
    for (int64_t k = 0; k < o->weights[i].n; k++)
        average[k] += (w[k] - average[k]) * (1 - kept);
}

void hrf_optimizer_update(struct hrf_optimizer *o, int32_t i, const float *gradient)
{
    static void (*const steps[])(const struct hrf_optimizer *, const struct hrf_trained_weights *,
                                 const struct moments *, const float *, double) = {
        [HRF_OPTIMIZER_SGD] = step_sgd,
        [HRF_OPTIMIZER_ADAMW] = step_adamw,
        [HRF_OPTIMIZER_LAMB] = step_lamb,
    };
    const bool decays = o->config.decays_all || o->weights[i].n_axes > 1;
    const double decay = decays ? o->config.weight_decay : 0;
    o->moments[i].n_steps++;
    steps[o->config.kind](o, &o->weights[i], &o->moments[i], gradient, decay);
    if (o->moments[i].average != NULL)
        move_average(o, i);
}

int64_t hrf_optimizer_steps(const struct hrf_optimizer *o)
{
    int64_t most = 0;
    for (int32_t i = 0; i < o->n; i++)
        most = o->moments[i].n_steps > most ? o->moments[i].n_steps : most;
    return most;
}

const float *hrf_optimizer_average(const struct hrf_optimizer *o, int32_t i)
{
    return o->moments[i].average != NULL ? o->moments[i].average : o->weights[i].numbers;
}

/* ---- the state as bytes: of each tensor the moments, then of each its number of steps ---- */

/* Copies n_bytes of the state from or to `bytes`; returns what follows. */
static char *copy_part(char *bytes, void *part, size_t n_bytes, bool is_set)
{
    if (part == NULL)
        return bytes;
    if (is_set)
        memcpy(part, bytes, n_bytes);
    else
        memcpy(bytes, part, n_bytes);
    return bytes + n_bytes;
}

static void copy_state(const struct hrf_optimizer *o, char *bytes, bool is_set)
{
    for (int32_t i = 0; i < o->n; i++) {
        const size_t n_bytes = (size_t)o->weights[i].n * sizeof(float);
        bytes = copy_part(bytes, o->moments[i].first, n_bytes, is_set);
        bytes = copy_part(bytes, o->moments[i].second, n_bytes, is_set);
        bytes = copy_part(bytes, o->moments[i].average, n_bytes, is_set);
    }
    for (int32_t i = 0; i < o->n; i++)
        bytes = copy_part(bytes, &o->moments[i].n_steps, sizeof(int64_t), is_set);
}

int64_t hrf_optimizer_state_bytes(const struct hrf_optimizer *o)
{
    int64_t n_bytes = 0;
    for (int32_t i = 0; i < o->n; i++) {
        const struct moments *m = &o->moments[i];
        const int64_t n_arrays = (m->first != NULL) + (m->second != NULL) + (m->average != NULL);
        n_bytes += n_arrays * o->weights[i].n * (int64_t)sizeof(float) + (int64_t)sizeof m->n_steps;
    }
    return n_bytes;
}

void hrf_optimizer_get_state(const struct hrf_optimizer *o, void *bytes)
{
    copy_state(o, bytes, false);
}

void hrf_optimizer_set_state(struct hrf_optimizer *o, const void *bytes)
{
    copy_state(o, (char *)(uintptr_t)bytes, true); /* it is only read */
}
