/* performer.h - linear attention over the tokens of one head of one image. One thread; knows
 * nothing of tensors. The formulas are graph.h's (PERFORMER). */
#ifndef HRF_ENGINE_BACKEND_CPU_TRANSFORMER_PERFORMER_H
#define HRF_ENGINE_BACKEND_CPU_TRANSFORMER_PERFORMER_H

#include "engine/ir/graph.h"

struct hrf_performer {
    const double *projection;   /* [d][m], divided by d^(1/4) */
    int64_t d, m, token_stride; /* token_stride: floats from one token to the next */
    double epsilon;
    bool exponential;
};

/* For each instruction set NAME: hrf_performer_max_NAME() returns the largest feature before the
 * exponential. hrf_performer_state_NAME() computes sums [d + 1][m]; `high` is the result of
 * hrf_performer_max_NAME(), or NULL. hrf_performer_apply_NAME() takes the state transposed, as
 * [m][d + 1]. */
#define HRF_PERFORMER_DECLARE(name)                                                                \
    float hrf_performer_max_##name(const struct hrf_performer *a, const float *k,                  \
                                   int64_t n_tokens);                                              \
    void hrf_performer_state_##name(const struct hrf_performer *a, const float *k, const float *v, \
                                    const float *high, int64_t n_tokens, double *sums);            \
    void hrf_performer_apply_##name(const struct hrf_performer *a, const float *q,                 \
                                    const double *transposed, int64_t n_tokens, float *y);
HRF_PERFORMER_DECLARE(plain)
HRF_PERFORMER_DECLARE(avx512)

#endif
