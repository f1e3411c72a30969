/* byte_sums.h - weighted sums of rows of bytes, in whole numbers: the inner loop of image_resize.c.
 */
#ifndef HRF_ENGINE_INPUT_BYTE_SUMS_H
#define HRF_ENGINE_INPUT_BYTE_SUMS_H

#include <stddef.h>
#include <stdint.h>

enum {
    HRF_BYTE_SUMS_BLOCK = 32, /* bytes that are made at once */
    HRF_BYTE_SUMS_BITS = 22,  /* a weight of 1 is 1 << 22 */
    HRF_BYTE_SUMS_LOW = 11    /* a weight is high << 11 plus low, 0 <= low < 1 << 11 */
};

/* The weights of two rows, in the halves that 16-bit products take. */
struct hrf_byte_weights {
    int16_t high[2], low[2];
};

/* out[i] is the sum of weight r times rows[r * stride + i] over 2 * n_pairs rows, rounded and
 * clipped to 0..255; n is a multiple of HRF_BYTE_SUMS_BLOCK. */
typedef void hrf_make_byte_sums(const unsigned char *rows, ptrdiff_t stride,
                                const struct hrf_byte_weights *weights, int32_t n_pairs, int64_t n,
                                unsigned char *out);
hrf_make_byte_sums hrf_byte_sums_plain;
hrf_make_byte_sums hrf_byte_sums_avx2;
/* The fastest that the processor has; all give the same bytes. */
hrf_make_byte_sums *hrf_byte_sums_choose(void);

#endif
