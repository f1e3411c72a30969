/* byte_sums_avx2.c - two rows at a time in 16-bit products (byte_sums.h). */
#include "engine/input/byte_sums.h"

#include <immintrin.h>
#include <string.h>

/* The sums of 16 bytes: of high halves, and of low halves. */
struct sums {
    __m256i high[2], low[2];
};

static __m256i broadcast(const int16_t pair[2])
{
    int32_t both;
    memcpy(&both, pair, sizeof both);
    return _mm256_set1_epi32(both);
}

static void byte_sums_avx2_add(struct sums *sums, const unsigned char *row, ptrdiff_t stride,
                               __m256i high, __m256i low)
{
    const __m128i a = _mm_loadu_si128((const void *)row);
    const __m128i b = _mm_loadu_si128((const void *)(row + stride));
    const __m256i pairs[2] = { _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b)),
                               _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b)) };
    for (int i = 0; i < 2; i++) {
        sums->high[i] = _mm256_add_epi32(sums->high[i], _mm256_madd_epi16(pairs[i], high));
        sums->low[i] = _mm256_add_epi32(sums->low[i], _mm256_madd_epi16(pairs[i], low));
    }
}

static __m256i value(const struct sums *sums, int i)
{
    const __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(sums->high[i], HRF_BYTE_SUMS_LOW),
                                         sums->low[i]);
    const __m256i half = _mm256_set1_epi32(1 << (HRF_BYTE_SUMS_BITS - 1));
    return _mm256_srai_epi32(_mm256_add_epi32(sum, half), HRF_BYTE_SUMS_BITS);
}

static void store(const struct sums *sums, unsigned char *out)
{
    const __m256i words = _mm256_permute4x64_epi64(
        _mm256_packs_epi32(value(sums, 0), value(sums, 1)), _MM_SHUFFLE(3, 1, 2, 0));
    _mm_storeu_si128((void *)out, _mm_packus_epi16(_mm256_castsi256_si128(words),
                                                   _mm256_extracti128_si256(words, 1)));
}

void hrf_byte_sums_avx2(const unsigned char *rows, ptrdiff_t stride,
                        const struct hrf_byte_weights *weights, int32_t n_pairs, int64_t n,
                        unsigned char *out)
{
    const __m256i zero = _mm256_setzero_si256();
    for (int64_t at = 0; at < n; at += HRF_BYTE_SUMS_BLOCK) {
        struct sums first = { { zero, zero }, { zero, zero } }, second = first;
        const unsigned char *row = rows + at;
        for (int32_t p = 0; p < n_pairs; p++, row += 2 * stride) {
            const __m256i high = broadcast(weights[p].high), low = broadcast(weights[p].low);
            byte_sums_avx2_add(&first, row, stride, high, low);
            byte_sums_avx2_add(&second, row + 16, stride, high, low);
        }
        store(&first, out + at);
        store(&second, out + at + 16);
    }
}
