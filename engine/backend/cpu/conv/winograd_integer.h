/* winograd_integer.h - 3x3 convolution of 8-bit integers by Winograd's F(4x4, 3x3), exactly.
 *
 * The interpolation points 0, +-1, +-2 and infinity make every step one of whole numbers: the
 * transformed inputs and weights fit into 16 bits, the products are summed in 32 bits that wrap
 * around, and what comes out is the true sum times 24, 12 or 6 for its row and its column. Dividing
 * by 9 is multiplying by its inverse modulo 2^32, dividing by the rest is a shift: the true sum
 * comes out wherever it lies within +-2^25, which the weights tell beforehand. A 16-bit product
 * instruction does half as many products as an 8-bit one, but a quarter of them is left.
 *
 * One thread each. Only to be called where hrf_cpu_has_avx512_vnni() says so. Knows nothing of
 * tensors.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_CONV_WINOGRAD_INTEGER_H
#define HRF_ENGINE_BACKEND_CPU_CONV_WINOGRAD_INTEGER_H

#include "engine/backend/compute.h"

enum {
    HRF_INTEGER_OUT = 4,                                  /* rows, columns of a tile */
    HRF_INTEGER_IN = 6,                                   /* of the input under it */
    HRF_INTEGER_POINTS = HRF_INTEGER_IN * HRF_INTEGER_IN, /* products per channel pair */
    HRF_INTEGER_OUTPUTS = HRF_INTEGER_OUT * HRF_INTEGER_OUT,
    HRF_INTEGER_PANEL = 32,    /* output channels at a time: two registers of 16 sums */
    HRF_INTEGER_TILES = 14,    /* tiles at a time: 28 registers of sums */
    HRF_INTEGER_CHANNELS = 16, /* input channels come in multiples of this */
    /* Numbers between one point's weights and the next's: they would all fall into one set. */
    HRF_INTEGER_SLACK = 32
};
/* Numbers from one point (or place of the 3x3) of a panel's weights to the next. */
static inline int64_t hrf_integer_weights_stride(int64_t channels)
{
    return channels * HRF_INTEGER_PANEL + HRF_INTEGER_SLACK;
}

/* Sums beyond this do not come out right. */
#define HRF_INTEGER_SUM_LIMIT ((int64_t)1 << 25)

/* How sums become 8-bit results: struct hrf_requantize, with 0 the residual's zero point. The
 * arrays are as long as whole panels. */
struct hrf_integer_epilogue {
    const float *bias, *multiplier;
    bool accumulate;         /* y holds the residual ... */
    bool residual_is_signed; /* ... of this type */
    float residual_scale;
    bool is_leaky;
    float slope;
    float low, high; /* activation and saturation in one: in y's steps, before the zero point */
    int32_t zero_point;
    bool is_signed; /* y is S8, else U8 */
    /* Saturation alone does the rest: no zero point, no residual, no activation but RELU to U8,
     * and no float too large for 32 bits on the way. */
    bool is_plain;
};

/* From a panel's 8-bit weights, [9][channels / 2][HRF_INTEGER_PANEL][2], to the 16-bit
 * [36][channels / 2][HRF_INTEGER_PANEL][2] that are multiplied; both with the slack. */
void hrf_integer_winograd_weights(const int8_t *w, int64_t channels, int16_t *u);

/* pixels[36]: `channels` bytes each, NULL outside the image. Point p goes to v + p * stride. */
void hrf_integer_winograd_input(const uint8_t *const pixels[HRF_INTEGER_POINTS], int64_t channels,
                                bool is_signed, int32_t zero_point, int16_t *v, int64_t stride);

/* sums[36][HRF_INTEGER_TILES][HRF_INTEGER_PANEL] of n <= HRF_INTEGER_TILES tiles whose point p,
 * tile t stands at v + p * point_stride + t * tile_stride (shorts). */
void hrf_integer_winograd_multiply(const int16_t *v, int64_t point_stride, int64_t tile_stride,
                                   int64_t n, const int16_t *u, int64_t channels, int32_t *sums);

/* One tile of them. outputs[16]: where each output's panel of n_columns bytes goes, NULL for
 * those outside the image. `first` is the panel's first column, for the epilogue's arrays. */
void hrf_integer_winograd_output(const int32_t *sums, int64_t n_columns, int64_t first,
                                 uint8_t *const outputs[HRF_INTEGER_OUTPUTS],
                                 const struct hrf_integer_epilogue *epilogue);

#endif
