/* adam.c - Kingma and Ba 2015; Loshchilov and Hutter 2019. Betas 0.9 and 0.999, epsilon 1e-8. */
#include "heads/train/adam.h"

#include <math.h>
#include <string.h>

static const double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;

void hrf_adam_init(struct hrf_adam *adam, const struct hrf_head *head)
{
    const size_t n = (size_t)head->n_values;
    adam->first = hrf_calloc(n, sizeof *adam->first);
    adam->second = hrf_calloc(n, sizeof *adam->second);
    memset(adam->steps, 0, sizeof adam->steps);
}

void hrf_adam_release(struct hrf_adam *adam)
{
    hrf_free(adam->first);
    hrf_free(adam->second);
    adam->first = adam->second = NULL;
}

static void step(const struct hrf_adam *adam, struct hrf_tensor *p, int64_t at, int64_t n_steps)
{
    const double lr = adam->learning_rate, decay = adam->weight_decay;
    const float decoupled = adam->is_decoupled ? (float)(1 - lr * decay) : 1.0F;
    const float coupled = adam->is_decoupled ? 0.0F : (float)decay;
    const float rate = (float)(lr / (1 - pow(beta1, (double)n_steps)));
    const float root = (float)sqrt(1 - pow(beta2, (double)n_steps));
    const float b1 = (float)(1 - beta1), b2 = (float)beta2, rest = (float)(1 - beta2);
    const float eps = (float)epsilon;
    float *m = adam->first + at, *v = adam->second + at;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < hrf_tensor_count(p); i++) {
        float w = p->data[i] * decoupled;
        const float g = p->grad[i] + coupled * w;
        m[i] += (g - m[i]) * b1;
        v[i] = v[i] * b2 + rest * g * g;
        w -= rate * m[i] / (sqrtf(v[i]) / root + eps);
        p->data[i] = w;
    }
}

void hrf_adam_step(struct hrf_adam *adam, struct hrf_head *head)
{
    int64_t at = 0;
    for (int32_t i = 0; i < head->n_parameters; i++) {
        struct hrf_tensor *p = &head->parameters[i];
        if (p->has_grad)
            step(adam, p, at, ++adam->steps[i]);
        at += hrf_tensor_count(p);
    }
}
