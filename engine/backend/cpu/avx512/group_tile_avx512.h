/* group_tile_avx512.h - the inner loops of a convolution in groups: some outputs of a row, 16
 * channels of each, in registers.
 *
 * Windows are 3 columns wide. An input is broadcast once and multiplied for all outputs of the row
 * whose windows it lies in: a matrix product of 16 columns would broadcast it for each of them, and
 * loads are its limit. Products are added one after the other, by fused multiply-adds, in the order
 * of the weights; then follow bias, residual and activation. An output is off by at most
 * n u / (1 - n u) times the sum of its products' magnitudes, with n the number of products plus one
 * for a bias and one for a residual, u = 2^-24.
 *
 * One thread; knows nothing of tensors. Only to be called where hrf_cpu_has_avx512() says so.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_AVX512_GROUP_TILE_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_AVX512_GROUP_TILE_AVX512_H

#include "engine/backend/cpu/product.h"

enum {
    HRF_GROUP_LANES = 16,   /* channels of a plane: of the input, and of an output register */
    HRF_GROUP_COLUMNS = 3,  /* of a window */
    HRF_GROUP_OUTPUTS = 14, /* of a row, at most, in one call */
};

/* An input plane is [line][pixel][HRF_GROUP_LANES]. */
struct hrf_group_tile {
    const float *x; /* of the first output: its window's first pixel, first_row */
    int64_t line_words;
    int64_t first_row, end_row; /* of the window that the image has: others are all zeros */
    const float *weights;       /* [rows of the window][16 inputs][3 columns][16 outputs] */
    const float *bias;          /* [16] */
    uint16_t lanes[2];          /* outputs, as bits, that the first and the last 8 inputs have */
    uint16_t mask;              /* outputs, as bits, that are there */
    char *y;                    /* the first output */
    int64_t y_bytes;            /* from output to output */
};

/* `n`: outputs, 1 to HRF_GROUP_OUTPUTS; `stride`: pixels between their windows, 1 or 2. */
void hrf_group_tile_avx512(int64_t n, int64_t stride, const struct hrf_group_tile *tile,
                           const struct hrf_epilogue *epilogue);
/* n pixels, numbers of `type` `stride` apart, into their place in each plane; zeros fill the last.
 */
void hrf_group_fill_avx512(enum hrf_dtype type, const void *x, int64_t stride, int64_t n,
                           int64_t n_channels, float *to, int64_t plane_words);

#endif
