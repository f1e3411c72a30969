/* depthwise_weight_gradient.h - inner loops of the gradient to depth-wise weights: lines of blocks
 * of HRF_DEPTHWISE_LANES channels as floats, as hrf_depthwise_widen_NAME() makes them. One thread;
 * knows nothing of tensors. */
#ifndef HRF_ENGINE_BACKEND_CPU_GRADIENT_DEPTHWISE_WEIGHT_GRADIENT_H
#define HRF_ENGINE_BACKEND_CPU_GRADIENT_DEPTHWISE_WEIGHT_GRADIENT_H

#include "engine/backend/cpu/conv/depthwise.h"

/* A row of outputs and the row of the image that one row of their windows sees. */
struct hrf_depthwise_weight_line {
    const float *x, *dy; /* [pixels][LANES], [n][LANES] */
    int64_t window_columns, n;
    int64_t dilation, stride; /* pixels */
};

/* For each instruction set NAME: adds to sums[window_columns][LANES], for each column of the
 * window, dy times the pixels that it was multiplied by, in the order of the outputs. */
#define HRF_DEPTHWISE_WEIGHT_DECLARE(name)                                                         \
    void hrf_depthwise_weight_line_##name(const struct hrf_depthwise_weight_line *line,            \
                                          float *sums);
HRF_DEPTHWISE_WEIGHT_DECLARE(plain)
HRF_DEPTHWISE_WEIGHT_DECLARE(avx2)
HRF_DEPTHWISE_WEIGHT_DECLARE(avx512)

#endif
