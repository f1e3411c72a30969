/* group_tile_avx512.h - the inner loops of a convolution with few channels in each product: some
 * outputs of a row, 16 lanes of each, in registers.
 *
 * Windows are 3 columns wide. A word of an input is broadcast once and multiplied for all outputs
 * of the row whose windows it lies in: a matrix product of 16 columns would broadcast it for each
 * of them, and loads are its limit. Words are those of product.h: a float, or a pair of consecutive
 * bfloat16. If fewer than 16 lanes read the same input, the lanes of a register are divided: a
 * permutation gives the first lanes a word of the first such input, the next lanes a word of the
 * second one.
 *
 * Products of a plane of the input are added one after the other, in the order of the weights, and
 * the sums of planes likewise; then follow bias, residual and activation. With floats, the error of
 * an output is at most n u / (1 - n u) times the sum of its products' magnitudes, with n the number
 * of products of a plane plus one for each plane, one for a bias and one for a residual, u = 2^-24;
 * for pairs see product.h.
 *
 * One thread; knows nothing of tensors. Only to be called where hrf_cpu_has_avx512(), or of pairs
 * hrf_cpu_has_avx512_bf16(), says so.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_AVX512_GROUP_TILE_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_AVX512_GROUP_TILE_AVX512_H

#include "engine/backend/cpu/product.h"

enum {
    HRF_GROUP_LANES = 16,   /* elements of a pixel of an input plane; lanes of an output register */
    HRF_GROUP_COLUMNS = 3,  /* of a window */
    HRF_GROUP_OUTPUTS = 14, /* the most outputs of a row in one call */
};

/* The bytes of a plane's pixel. */
static inline int64_t hrf_group_pixel_bytes(enum hrf_word_type word_type)
{
    return HRF_GROUP_LANES * (word_type == HRF_WORD_B16_PAIR ? 2 : 4);
}

/* Input planes are [line][pixel][HRF_GROUP_LANES] elements, ordered by the lanes that read them. */
struct hrf_group_tile {
    const char *x; /* of the first output: its window's first pixel, first_row, first plane */
    int64_t line_bytes, plane_bytes; /* from one line, and from one plane, to the next */
    int64_t first_row, end_row; /* rows of the window that lie in the image; the others are zeros */
    int64_t n_words;            /* words of a window's pixel that each lane multiplies */
    int64_t lanes_each;         /* lanes that read the same input: 2, 4, 8 or 16 */
    const float *weights;  /* words: [plane][rows of the window][its words for a lane][3][16] */
    int64_t plane_weights; /* words from one plane to the next */
    int64_t row_weights;   /* words from one row to the next */
    const float *bias;     /* [16] */
    uint16_t mask;         /* the lanes that have outputs, as bits */
    bool is_halved;        /* the last 8 lanes are stored elsewhere: */
    int64_t half_bytes;    /* at this distance from the first 8 */
    char *y;               /* the first output */
    int64_t y_bytes;       /* from one output to the next */
};

/* `n`: outputs, 1 to HRF_GROUP_OUTPUTS; `stride`: pixels between their windows, 1 or 2. */
void hrf_group_tile_avx512(enum hrf_word_type word_type, int64_t n, int64_t stride,
                           const struct hrf_group_tile *tile, const struct hrf_epilogue *epilogue);
/* Pixels of an image, and the numbers of zero pixels before and after them. */
struct hrf_group_line {
    const char *x;
    int64_t stride; /* elements from one pixel to the next */
    int64_t n_before, n, n_after;
    int64_t n_channels;
};

/* Fills a line of each plane with the tile's words, in the first `lanes` (8 or 16) elements from
 * `to` on; the last plane is padded with zeros. For pairs `type` is B16. */
void hrf_group_fill_avx512(enum hrf_word_type word_type, enum hrf_dtype type, int64_t lanes,
                           const struct hrf_group_line *line, char *to, int64_t plane_bytes);

#endif
