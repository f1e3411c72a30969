/* byte_attention.h - attention (attention.h) on 8-bit queries, keys and values, with scores and
 * weights rounded to 8 bits. Sums of integers are exact, so every instruction set gives the same
 * bytes.
 *
 * The left matrix of a product has unsigned bytes. The right matrix has signed bytes and is packed
 * with 4 rows together for each of 16 columns: [columns / 16][rows / 4][16][4].
 */
#ifndef HRF_ENGINE_BACKEND_CPU_TRANSFORMER_BYTE_ATTENTION_H
#define HRF_ENGINE_BACKEND_CPU_TRANSFORMER_BYTE_ATTENTION_H

#include "engine/backend/byte_steps.h"
#include "engine/backend/cpu/transformer/attention.h"

enum { HRF_BYTE_QUERIES = 8 }; /* multiplied together */

/* A matrix of bytes; XOR with `flip` turns signed bytes into unsigned ones, or the reverse. */
struct hrf_byte_matrix {
    uint8_t flip; /* 0 or 128 */
    int32_t zero; /* zero point, once flipped */
};

/* The constants of a kernel. */
struct hrf_byte_attention {
    struct hrf_byte_matrix q, k, v;
    struct hrf_attention_steps steps;
};

void *hrf_byte_attention_prepare(const struct hrf_spec *spec);
extern const struct hrf_attention_form hrf_byte_attention_plain, hrf_byte_attention_avx2,
    hrf_byte_attention_avx512;

#endif
