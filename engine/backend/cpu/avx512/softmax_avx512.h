/* softmax_avx512.h - from scores to weights, where there is AVX-512 (attention.h, struct
 * hrf_score_row). All is computed in float32; a row is summed in an order that depends on its
 * length alone. Scores of rows are whole lines.
 *
 * weight = exp(scale * score + mask - the row's largest) / the row's sum of these, of the first
 * n_seen keys; those up to n_keys become 0, and so do all of a row of -INFINITY.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_AVX512_SOFTMAX_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_AVX512_SOFTMAX_AVX512_H

#include "engine/backend/cpu/transformer/attention.h"

/* In place. */
void hrf_rows_softmax_avx512(struct hrf_score_row *rows, int64_t n_rows, int64_t n_keys);
/* In place as numbers of bfloat16, which follow each other from where a row begins, and zeros up to
 * the next multiple of 16: to the nearest of what is off by less than 2^-13. Only where
 * hrf_cpu_has_avx512_bf16(). */
void hrf_rows_softmax_b16_avx512(struct hrf_score_row *rows, int64_t n_rows, int64_t n_keys);
/* As integers of 16 bits, each times what sets `factor` (fixed_attention_avx512.c), in rows of
 * whole registers. */
void hrf_rows_softmax_i16_avx512(struct hrf_score_row *rows, int64_t n_rows, int64_t n_keys);
/* In place, of a block of keys: exp(score - largest), where `largest` is brought up to date, and
 * their `sum`. */
void hrf_rows_exponentials_avx512(struct hrf_score_row *rows, int64_t n_rows, int64_t n_keys);

#endif
