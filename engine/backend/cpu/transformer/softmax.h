/* softmax.h - scores of queries become weights, compiled for each instruction set. One thread; what
 * becomes of a row depends on that row alone. */
#ifndef HRF_ENGINE_BACKEND_CPU_TRANSFORMER_SOFTMAX_H
#define HRF_ENGINE_BACKEND_CPU_TRANSFORMER_SOFTMAX_H

#include "engine/backend/cpu/transformer/attention.h"

/* For each instruction set NAME, of scores that are scaled already:
 * hrf_softmax_rows_NAME(): the softmax of all keys, 0 for those that a query does not see, and
 * everywhere if it sees none.
 * hrf_softmax_block_NAME(): the exponentials of a block of keys (struct hrf_score_row). */
#define HRF_SOFTMAX_DECLARE(name)                                                                  \
    void hrf_softmax_rows_##name(struct hrf_score_row *rows, int64_t n_rows, int64_t n_keys);      \
    void hrf_softmax_block_##name(struct hrf_score_row *rows, int64_t n_rows, int64_t n_keys);
HRF_SOFTMAX_DECLARE(plain)
HRF_SOFTMAX_DECLARE(avx2)

#endif
