/* depthwise.h - inner loops of depth-wise convolution: lines of blocks of 16 channels as floats.
 *
 * Products are in float32, whatever type the inputs are stored in. Sums of 8-bit inputs are exact:
 * at most HRF_DEPTHWISE_MAX_8BIT products of 8 bits stay below 2^24. The order in which a window is
 * summed is that of its rows and columns, each product by one fused multiply-add, so an output is
 * off by at most n u / (1 - n u) times the sum of its products' magnitudes, with n the area plus
 * one for a bias and one for a residual, u = 2^-24.
 *
 * One thread; knows nothing of tensors.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_CONV_DEPTHWISE_H
#define HRF_ENGINE_BACKEND_CPU_CONV_DEPTHWISE_H

#include "engine/backend/compute.h"
#include "engine/backend/cpu/product.h"

enum {
    HRF_DEPTHWISE_LANES = 16,     /* channels of a block */
    HRF_DEPTHWISE_MAX_8BIT = 512, /* products in a window of 8-bit numbers */
};

/* The windows of a line's outputs. */
struct hrf_depthwise_line {
    const float *const
        *rows;            /* [window_rows]: rows of the first output's window; NULL: all zeros */
    const float *weights; /* [window_rows][window_columns][LANES] */
    int64_t window_rows, window_columns;
    int64_t dilation, stride; /* pixels */
    int64_t n;                /* outputs */
};

/* Pixels of an image: floats of 32 or 16 bits, or 8-bit integers. */
struct hrf_depthwise_pixels {
    enum hrf_dtype type;
    int32_t zero_point; /* of 8 bits */
    int64_t stride;     /* elements from one pixel to the next */
    int64_t ahead;      /* bytes from a pixel to one that will be read soon; it need not exist */
};

/* How the sums of n outputs of a block become outputs. */
struct hrf_depthwise_finish {
    int64_t n, n_channels; /* n_channels: of the block, at most LANES */
    void *y;
    const void *residual; /* NULL: none */
    int64_t stride;       /* elements from one pixel to the next, of both */
    int64_t ahead;        /* bytes from an output to one that will be written soon; as above */
    enum hrf_dtype type, residual_type;
    const float *bias; /* [LANES] */
    /* For float outputs. */
    const struct hrf_epilogue *epilogue;
    bool has_bf16; /* the processor has an instruction that rounds to bfloat16 */
    /* For 8-bit outputs (NULL otherwise), with the block's multipliers [LANES] and the output's
     * zero point. */
    const struct hrf_requantize *requantize;
    const float *multiplier;
    int32_t zero_point;
};

/* For each instruction set NAME: hrf_depthwise_widen_NAME() writes n pixels as floats, block by
 * block: to[b * block_step + i * LANES]. Lanes beyond the channels become zeros.
 * hrf_depthwise_line_NAME() computes the outputs of a line: the sums, then bias, residual,
 * activation and rounding. It may use sums[n][LANES] as scratch. */
#define HRF_DEPTHWISE_DECLARE(name)                                                                \
    void hrf_depthwise_widen_##name(const struct hrf_depthwise_pixels *pixels, const void *x,      \
                                    int64_t n, int64_t n_channels, float *to, int64_t block_step); \
    void hrf_depthwise_line_##name(const struct hrf_depthwise_line *line,                          \
                                   const struct hrf_depthwise_finish *finish, float *sums);
HRF_DEPTHWISE_DECLARE(plain)
HRF_DEPTHWISE_DECLARE(avx2)
HRF_DEPTHWISE_DECLARE(avx512)

#endif
