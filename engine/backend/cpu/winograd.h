/* winograd.h - 3x3 convolution of stride 1 by Winograd's F(2x2, 3x3): 16 products where 36 were.
 *
 * A tile of 2x2 outputs comes from 4x4 inputs: transform them, multiply by the transformed weights
 * channel by channel (16 matrix products over tiles x channels), transform back. The interpolation
 * points are 0, 1, -1 and infinity. Formulas: Lavin and Gray, "Fast algorithms for convolutional
 * neural networks", CVPR 2016.
 *
 * ERROR. Let u = 2^-24, g(n) = n u / (1 - n u), and C be the number of channels. For one output,
 * let D_c be the largest magnitude of channel c in its window of 3x3 pixels, W_c the sum of the
 * magnitudes of the nine weights, and N the sum over c of D_c W_c.
 *
 * Plain sums, one of the 9 C products after the other, are off by at most g(9 C) times the sum of
 * the products' magnitudes. That is at most g(9 C) N, and is g(9 C) N where the pixels of a channel
 * are of one size within a window.
 *
 * Of one axis, the two outputs of a tile are
 *     (x0 - x2) g0 + (x1 + x2) (g0 + g1 + g2) / 2 + (x2 - x1) (g0 - g1 + g2) / 2
 *     (x1 + x2) (g0 + g1 + g2) / 2 - (x2 - x1) (g0 - g1 + g2) / 2 + (x3 - x1) g2
 * The first reads x0 to x2 alone and the second x1 to x3, the pixels of their own windows. In
 * magnitudes the first takes g0 times at most 2 D + D + D, g1 and g2 times at most D + D; the
 * second is its mirror image. So the factor is at most 4 for an axis and 16 for both. A number
 * passes one rounding in each axis of the input's transform, one as its transformed weight is
 * stored, C in the fused multiply-adds and two in each axis of the output's transform, C + 7 in
 * all. So the error is at most 16 g(C + 7) N, about (1.8 + 12.5 / C) times the bound g(9 C) N of
 * plain sums: 2.6 times for 16 channels, the fewest there are, and less for more. How channels
 * differ in size plays no part: nothing is added across channels before it is multiplied, and N
 * adds the channels' own products. Weights of zero, windows of zeros and channels of zeros add
 * exactly zero, and no pixel outside a window changes the output by a bit.
 *
 * What this does not promise: where the large pixels of a window meet small weights of their
 * channel only, plain sums are better than g(9 C) N, and this is not. (Of matrix products it is
 * proven that no method with fewer multiplications has a bound by the products themselves: Miller,
 * "Computational complexity and numerical stability", SIAM J. Comput. 4, 1975.)
 *
 * In FP16 and BF16 all of it holds of the float32 sums, which are rounded once more when stored.
 *
 * Larger tiles are not used. They need fewer products (F(4x4, 3x3): 36 where 144 were), but their
 * outputs read pixels outside their windows, and with single taps or sparse pixels the best points
 * known (0, +-1/sqrt(2), +-sqrt(2), infinity) gave up to 18 times the error of plain sums on data
 * of tests/unit/engine/backend/cpu/test_conv_error.c's kinds; here it stays below 3.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_WINOGRAD_H
#define HRF_ENGINE_BACKEND_CPU_WINOGRAD_H

#include "engine/backend/cpu/prologue.h"

enum {
    HRF_WINOGRAD_OUT = 2,                                    /* rows, columns of a tile */
    HRF_WINOGRAD_IN = 4,                                     /* of the input under it */
    HRF_WINOGRAD_POINTS = HRF_WINOGRAD_IN * HRF_WINOGRAD_IN, /* products per channel pair */
    HRF_WINOGRAD_OUTPUTS = HRF_WINOGRAD_OUT * HRF_WINOGRAD_OUT,
};

/* The transformed weights of one kernel [3][3]: computed in double, each rounded once. */
void hrf_winograd_weights(const float kernel[9], float u[HRF_WINOGRAD_POINTS]);

/* pixels[16]: `channels` numbers of `dtype` (F32, F16, B16) each (a multiple of 16), zeros outside
 * the image. Point p of the result goes to v + p * pitch; `is_far`: that lies beyond the
 * second-level cache. With a prologue (else NULL) the pixels go through it first, and those outside
 * the image are NULL. */
void hrf_winograd_input_avx512(enum hrf_dtype dtype, const char *const pixels[HRF_WINOGRAD_POINTS],
                               int64_t channels, const struct hrf_cpu_prologue *prologue, float *v,
                               int64_t pitch, bool is_far);
/* m[16]: point p comes from m[p] + at. outputs[4]: where each output's `channels` numbers go, NULL
 * for those outside the image. */
void hrf_winograd_output_avx512(const float *const m[HRF_WINOGRAD_POINTS], int64_t at,
                                int64_t channels, bool is_far,
                                char *const outputs[HRF_WINOGRAD_OUTPUTS],
                                const struct hrf_epilogue *epilogue);

#endif
