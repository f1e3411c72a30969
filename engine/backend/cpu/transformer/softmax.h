/* softmax.h - turns scores of queries into weights; compiled for each instruction set. One thread;
 * the result of a row depends on that row alone. */
#ifndef HRF_ENGINE_BACKEND_CPU_TRANSFORMER_SOFTMAX_H
#define HRF_ENGINE_BACKEND_CPU_TRANSFORMER_SOFTMAX_H

#include "engine/backend/cpu/transformer/attention.h"

/* For each instruction set NAME, for scores that are already scaled: hrf_softmax_rows_NAME()
 * computes the softmax over all keys; it is 0 for keys that a query does not see, and everywhere if
 * it sees none. hrf_softmax_block_NAME() computes the exponentials of a block of keys (struct
 * hrf_score_row). hrf_softmax_back_NAME() turns the gradient to a row of weights into that to its
 * scores. */
#define HRF_SOFTMAX_DECLARE(name)                                                                  \
    void hrf_softmax_rows_##name(struct hrf_score_row *rows, int64_t n_rows, int64_t n_keys);      \
    void hrf_softmax_block_##name(struct hrf_score_row *rows, int64_t n_rows, int64_t n_keys);     \
    void hrf_softmax_back_##name(const float *weights, float *gradient, int64_t n_keys);
HRF_SOFTMAX_DECLARE(plain)
HRF_SOFTMAX_DECLARE(avx2)

#endif
