/* byte_sums.c - the sums in plain C, and the choice of the fastest version (byte_sums.h). */
#include "engine/input/byte_sums.h"

#include "base/processor.h"

void hrf_byte_sums_plain(const unsigned char *rows, ptrdiff_t stride,
                         const struct hrf_byte_weights *weights, int32_t n_pairs, int64_t n,
                         unsigned char *out)
{
    enum { HALF = 1 << (HRF_BYTE_SUMS_BITS - 1), ONE = 1 << HRF_BYTE_SUMS_LOW };
    for (int64_t at = 0; at < n; at += HRF_BYTE_SUMS_BLOCK) {
        int32_t sums[HRF_BYTE_SUMS_BLOCK];
        for (int i = 0; i < HRF_BYTE_SUMS_BLOCK; i++)
            sums[i] = HALF;
        for (int32_t r = 0; r < 2 * n_pairs; r++) {
            const struct hrf_byte_weights *pair = &weights[r / 2];
            const int32_t weight = pair->high[r % 2] * ONE + pair->low[r % 2];
            const unsigned char *row = rows + r * stride + at;
            for (int i = 0; i < HRF_BYTE_SUMS_BLOCK; i++)
                sums[i] += weight * row[i];
        }
        for (int i = 0; i < HRF_BYTE_SUMS_BLOCK; i++) {
            const int32_t value = sums[i] >> HRF_BYTE_SUMS_BITS;
            out[at + i] = (unsigned char)(value < 0 ? 0 : value > 255 ? 255 : value);
        }
    }
}

hrf_make_byte_sums *hrf_byte_sums_choose(void)
{
#ifdef HRF_BUILD_AVX2
    if (hrf_processor_has_avx2())
        return hrf_byte_sums_avx2;
#endif
    return hrf_byte_sums_plain;
}
