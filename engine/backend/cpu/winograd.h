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
 * Of one axis, the two outputs of a tile are
 *     (x0 - x2) g0 + (x1 + x2) (g0 + g1 + g2) / 2 + (x2 - x1) (g0 - g1 + g2) / 2
 *     (x1 + x2) (g0 + g1 + g2) / 2 - (x2 - x1) (g0 - g1 + g2) / 2 + (x3 - x1) g2
 * The first reads x0 to x2 alone and the second x1 to x3, the pixels of their own windows. In
 * magnitudes the first takes g0 times at most 2 D + D + D, g1 and g2 times at most D + D; the
 * second is its mirror image. So the factor is at most 4 for an axis and 16 for both. A number
 * passes one rounding in each axis of the input's transform, one as its transformed weight is
 * stored, r in the sums over the channels and two in each axis of the output's transform, r + 7 in
 * all; r is the smaller of C and 135 + C / 128 (product.h). So the error is at most
 * 16 g(r + 7) N.
 *
 * For comparison: one chain of the 9 C plain products is off by at most g(9 C) times the sum of the
 * products' magnitudes, which is at most g(9 C) N. The bound here is 2.6 times g(9 C) N for 16
 * channels, the fewest there are, 1.9 times for 128, 1.0 times for 256 and 0.5 times for 512.
 *
 * The bound holds whatever the data are. How channels differ in size (1 to 1e6, say) plays no part:
 * nothing is added across channels before it is multiplied, and N adds the channels' own products.
 * Signs play none. Weights of zero, windows of zeros and channels of zeros give exactly zero, and
 * no pixel outside a window changes the output by a bit.
 *
 * The bound is in terms of N, not of the error that plain sums happen to have on the same data.
 * Against that measured error nothing is promised: where the large pixels of a window meet only
 * small weights of their channel, or only padding, plain sums follow the products and Winograd
 * follows the pixels. A search for the worst data finds a ratio of about 1,000 at padded borders (a
 * large pixel in the image's corner, whose largest tap only meets padding) and of 4.6 to 6.1 inside
 * the image. In relation to N these errors stay below 1e-6. (For matrix products it is proven that
 * no method with fewer multiplications has a bound by the products themselves: Miller,
 * "Computational complexity and numerical stability", SIAM J. Comput. 4, 1975.)
 *
 * In FP16 and BF16 all of it holds of the float32 sums, which are rounded once more when stored.
 *
 * Larger tiles are not used. F(4x4, 3x3) needs fewer products, 36 where 144 were, but its outputs
 * read pixels outside their windows, so no such bound holds.
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
