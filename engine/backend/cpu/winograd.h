/* winograd.h - 3x3 convolution by Winograd's F(4x4, 3x3): 36 products where 144 were.
 *
 * A tile of 4x4 outputs comes from 6x6 inputs: transform them, multiply by the transformed
 * weights channel by channel (36 matrix products over tiles x channels), transform back. The
 * interpolation points are 0, +-1/sqrt(2), +-sqrt(2) and infinity: their matrices have entries
 * near 1, so the error stays a few times that of a plain sum (Barabasz et al., "Error analysis
 * and improving the accuracy of Winograd convolution", ACM TOMS 2020; the tests measure it).
 * Formulas: Lavin and Gray, "Fast algorithms for convolutional neural networks", CVPR 2016.
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

#endif
