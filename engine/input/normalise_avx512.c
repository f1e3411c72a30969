/* normalise_avx512.c - normalise.h for AVX-512: only to be called where the processor has it.
 *
 * Computed in double and rounded once to float, so that the result is that of the table; the
 * caller has compared all 256 bytes of each channel. Whole lines go past the caches: nobody reads a
 * batch before it is full, and the decoder's tiles should stay in them.
 */
#include "engine/input/normalise.h"

#include <immintrin.h>

enum { LANES = 16, PERIOD = 3 * LANES }; /* bytes after which the channels repeat by lane */

static inline __m512 sixteen(const unsigned char *rgb, const __m512d scale[2],
                             const __m512d shift[2])
{
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)rgb));
    const __m512d low = _mm512_cvtepi32_pd(_mm512_castsi512_si256(bytes));
    const __m512d high = _mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(bytes, 1));
    const __m256 a = _mm512_cvtpd_ps(_mm512_fmadd_pd(low, scale[0], shift[0]));
    const __m256 b = _mm512_cvtpd_ps(_mm512_fmadd_pd(high, scale[1], shift[1]));
    return _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1);
}

int64_t hrf_normalise_avx512(const struct hrf_normaliser *normaliser, const unsigned char *rgb,
                             int64_t n, float *out)
{
    __m512d scales[6], shifts[6];
    const bool is_aligned = (uintptr_t)out % 64 == 0;
    int64_t done = 0;
    for (int i = 0; i < 6; i++) {
        scales[i] = _mm512_loadu_pd(normaliser->scale + 8 * i);
        shifts[i] = _mm512_loadu_pd(normaliser->shift + 8 * i);
    }
    for (; done + PERIOD <= n; done += PERIOD)
        for (int k = 0; k < 3; k++) {
            const __m512 values = sixteen(rgb + done + k * LANES, scales + 2 * k, shifts + 2 * k);
            if (is_aligned)
                _mm512_stream_ps(out + done + k * LANES, values);
            else
                _mm512_storeu_ps(out + done + k * LANES, values);
        }
    return done;
}

void hrf_normalise_fence_avx512(void)
{
    _mm_sfence();
}
