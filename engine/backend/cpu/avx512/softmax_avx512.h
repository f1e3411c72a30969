/* softmax_avx512.h - computes weights from scores (attention.h, struct hrf_score_row), with
 * AVX-512, in float32. A row is summed in an order that depends on its length alone. Rows of scores
 * are whole cache lines.
 *
 * For the first n_seen keys, weight = exp(scale * score + mask - the row's largest) / the row's sum
 * of these. The other weights up to n_keys become 0, and so do all weights of a row of -INFINITY.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_AVX512_SOFTMAX_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_AVX512_SOFTMAX_AVX512_H

#include "engine/backend/cpu/transformer/attention.h"

/* Writes the weights over the scores. */
void hrf_rows_softmax_avx512(struct hrf_score_row *rows, int64_t n_rows, int64_t n_keys);
/* Writes the weights as bfloat16 over the scores, contiguous from the beginning of the row, with
 * zeros up to the next multiple of 16. They are rounded from values with an error below 2^-13. Only
 * where hrf_cpu_has_avx512_bf16() says so. */
void hrf_rows_softmax_b16_avx512(struct hrf_score_row *rows, int64_t n_rows, int64_t n_keys);
/* Writes the weights as 16-bit integers in rows of whole registers; their scale sets `factor`
 * (fixed_attention_avx512.c). */
void hrf_rows_softmax_i16_avx512(struct hrf_score_row *rows, int64_t n_rows, int64_t n_keys);
/* For a block of keys: updates `largest`, writes exp(score - largest) over the scores, and sets
 * their `sum`. */
void hrf_rows_exponentials_avx512(struct hrf_score_row *rows, int64_t n_rows, int64_t n_keys);

#endif
