/* winograd.h - 3x3 convolution by Winograd's F(4x4, 3x3): 36 products where 144 were; and of
 * stride 2, in tiles of 2x2: 25 where 36 were.
 *
 * A tile of 4x4 outputs comes from 6x6 inputs: transform them, multiply by the transformed
 * weights channel by channel (36 matrix products over tiles x channels), transform back. The
 * interpolation points are 0, +-1/sqrt(2), +-sqrt(2) and infinity: their matrices have entries
 * near 1, so the error stays a few times that of a plain sum (Barabasz et al., "Error analysis
 * and improving the accuracy of Winograd convolution", ACM TOMS 2020; the tests measure it).
 * Formulas: Lavin and Gray, "Fast algorithms for convolutional neural networks", CVPR 2016.
 *
 * Stride 2: of the 5 pixels of an axis under 2 outputs the 3 even ones meet taps 0 and 2, the 2 odd
 * ones tap 1. The even ones are F(2, 2) with the points 0, 1 and infinity, the odd ones F(2, 1)
 * with the first two of them. Both leave sums at the same points, so an axis' two phases, and an
 * image's four, add up before the transform back: a point is one product over the channels of all
 * phases that reach it. 4 phases reach each of the 4 points that are finite in both axes, 2 the 4
 * that are in one, 1 the last: 25 products, 9 points to transform back, and next to no error.
 * Tiles of 4x4 outputs would take 81 products where 144 were, a fifth less, but nine times the
 * weights instead of three: they won 1 ms of 7 where weights are few.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_WINOGRAD_H
#define HRF_ENGINE_BACKEND_CPU_WINOGRAD_H

#include "engine/backend/cpu/prologue.h"

enum {
    HRF_WINOGRAD_OUT = 4,                                    /* rows, columns of a tile */
    HRF_WINOGRAD_IN = 6,                                     /* of the input under it */
    HRF_WINOGRAD_POINTS = HRF_WINOGRAD_IN * HRF_WINOGRAD_IN, /* products per channel pair */
    HRF_WINOGRAD_OUTPUTS = HRF_WINOGRAD_OUT * HRF_WINOGRAD_OUT,
};

/* u[6][6] of one kernel of n_taps x n_taps, 6 at most, in double. */
void hrf_winograd_weights(const float *kernel, int n_taps, double u[HRF_WINOGRAD_POINTS]);

/* pixels[36]: `channels` numbers of `dtype` (F32, F16, B16) each (a multiple of 16), zeros outside
 * the image. Point p of the
 * result goes to v + p * pitch; `is_far`: that lies beyond the second-level cache. */
void hrf_winograd_input_avx512(enum hrf_dtype dtype, const char *const pixels[HRF_WINOGRAD_POINTS],
                               int64_t channels, float *v, int64_t pitch, bool is_far);
/* The same of pixels that go through a prologue first; those outside the image are NULL. */
void hrf_winograd_prologue_avx512(enum hrf_dtype dtype,
                                  const char *const pixels[HRF_WINOGRAD_POINTS], int64_t channels,
                                  const struct hrf_cpu_prologue *prologue, float *v, int64_t pitch,
                                  bool is_far);
/* m[36]: point p comes from m[p] + at. outputs[16]: where each output's `channels` numbers go, NULL
 * for those outside the image. */
void hrf_winograd_output_avx512(const float *const *m, int64_t at, int64_t channels, bool is_far,
                                char *const outputs[HRF_WINOGRAD_OUTPUTS],
                                const struct hrf_epilogue *epilogue);

/* Of stride 2. */
enum {
    HRF_STRIDED_OUT = 2,       /* rows, columns of a tile */
    HRF_STRIDED_IN = 5,        /* of pixels under it */
    HRF_STRIDED_POINTS = 9,    /* (HRF_STRIDED_OUT + 1)^2 */
    HRF_STRIDED_PRODUCTS = 25, /* for each channel pair */
    HRF_STRIDED_PHASES = 4,
};

/* The phases that reach a point: [first, end) of (even row, odd column), (even, even), (odd, even),
 * (odd, odd). In this order those of every point stand together. */
struct hrf_winograd_phases {
    int64_t first, end;
};
struct hrf_winograd_phases hrf_strided_phases(int64_t point);

/* Point by point, of each the phases that reach it. */
void hrf_strided_weights(const float kernel[9], double u[HRF_STRIDED_PRODUCTS]);
/* pixels[25], as above; those `ahead` bytes after them are asked for meanwhile. Phase f of a point
 * goes to v + point * pitch + f * channels. */
void hrf_strided_input_avx512(enum hrf_dtype dtype, const char *const *pixels, int64_t channels,
                              int64_t ahead, float *v, int64_t pitch, bool is_far);
void hrf_strided_output_avx512(const float *const *m, int64_t at, int64_t channels, bool is_far,
                               char *const *outputs, const struct hrf_epilogue *epilogue);

#endif
