/* winograd.h - 3x3 convolution by Winograd's F(4x4, 3x3): 36 products where 144 were; and of
 * stride 2: 81.
 *
 * A tile of 4x4 outputs comes from 6x6 inputs: transform them, multiply by the transformed
 * weights channel by channel (36 matrix products over tiles x channels), transform back. The
 * interpolation points are 0, +-1/sqrt(2), +-sqrt(2) and infinity: their matrices have entries
 * near 1, so the error stays a few times that of a plain sum (Barabasz et al., "Error analysis
 * and improving the accuracy of Winograd convolution", ACM TOMS 2020; the tests measure it).
 * Formulas: Lavin and Gray, "Fast algorithms for convolutional neural networks", CVPR 2016.
 *
 * Stride 2: of the 9 pixels of an axis under 4 outputs the 5 even ones meet taps 0 and 2, the 4 odd
 * ones tap 1. The even ones are F(4, 2) with the points +-1/2, +-3/2 and infinity (the least error
 * of those tried, and all entries are exact), the odd ones F(4, 1) with the first four of them.
 * Both leave sums at the same points, so an axis' two phases, and an image's four, add up before
 * the transform back: a point is one product over the channels of all phases that reach it. 4
 * phases reach each of the 16 points that are finite in both axes, 2 the 8 that are in one, 1 the
 * last: 81 products where 144 were, 25 points to transform back. Tiles of 2x2 outputs are the same
 * with 0, 1 and infinity: 25 products where 36 were, with a third of the weights and next to no
 * error.
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
/* Point p comes from m + p * pitch. outputs[16]: where each output's `channels` numbers go, NULL
 * for those outside the image. */
void hrf_winograd_output_avx512(const float *m, int64_t pitch, int64_t channels, bool is_far,
                                char *const outputs[HRF_WINOGRAD_OUTPUTS],
                                const struct hrf_epilogue *epilogue);

/* Of stride 2, a tile of `out` x `out` outputs has (out + 1)^2 points. */
enum {
    HRF_STRIDED_OUT = 4,     /* `out`: this */
    HRF_STRIDED_FEW = 2,     /* or this */
    HRF_STRIDED_IN = 9,      /* rows, columns of pixels under a tile, at most: 2 out + 1 */
    HRF_STRIDED_PIXELS = 81, /* in all, and products for each channel pair */
    HRF_STRIDED_PHASES = 4,
};

/* The phases that reach a point: [first, end) of (even row, odd column), (even, even), (odd, even),
 * (odd, odd). In this order those of every point stand together. */
struct hrf_winograd_phases {
    int64_t first, end;
};
struct hrf_winograd_phases hrf_strided_phases(int64_t out, int64_t point);

/* u[(2 out + 1)^2]: point by point, of each the phases that reach it. */
void hrf_strided_weights(const float kernel[9], int64_t out, double *u);
/* pixels[(2 out + 1)^2], as above; those `ahead` bytes after them are asked for meanwhile. Phase f
 * of a point goes to v + point * pitch + f * channels. */
void hrf_strided_input_avx512(enum hrf_dtype dtype, int64_t out, const char *const *pixels,
                              int64_t channels, int64_t ahead, float *v, int64_t pitch,
                              bool is_far);
void hrf_strided_output_avx512(int64_t out, const float *m, int64_t pitch, int64_t channels,
                               bool is_far, char *const *outputs,
                               const struct hrf_epilogue *epilogue);

#endif
