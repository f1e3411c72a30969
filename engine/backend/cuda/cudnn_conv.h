/* cudnn_conv.h - a convolution with all that follows it, as one cuDNN operation graph.
 *
 * Floating precisions: y = act(conv([act](x * pre_scale + pre_shift)], w) + bias + residual), with
 * float between and zeros around the image that the convolution sees.
 * INT8: y = saturate(round(act(conv(x, w) * scale[k] + bias[k] + residual * residual_scale))),
 * with x, w, y and the residual signed 8-bit and the sum in 32-bit integers: scale and bias are
 * in units of y's step. With row scales y is float: act(conv(x, w) * scale[k] * row_scale[pixel] +
 * bias[k] + residual), in this order. Tensors dense NHWC, weights K, R, S, C (NHWC of N = K).
 * With a second output, that is act(y * post_scale[k] + post_shift[k]), of INT8 in steps: y is then
 * rounded by additions of the graph's own, so that the second output is of what is stored, whether
 * or not an engine rounds between two operations.
 * The gradient to x or to w, from that to y, is another result of the same convolution: floating
 * precisions, and nothing fused.
 */
#ifndef HRF_ENGINE_BACKEND_CUDA_CUDNN_CONV_H
#define HRF_ENGINE_BACKEND_CUDA_CUDNN_CONV_H

#include "engine/backend/cuda/cudnn_graph.h"

/* Names of the tensors in memory. */
enum hrf_cudnn_conv_tensor {
    HRF_CUDNN_X = 1,
    HRF_CUDNN_W,
    HRF_CUDNN_Y,
    HRF_CUDNN_SCALE,          /* [K] float; INT8 only */
    HRF_CUDNN_BIAS,           /* [K] float */
    HRF_CUDNN_RESIDUAL,       /* of y's shape */
    HRF_CUDNN_RESIDUAL_SCALE, /* [1] float; INT8 only */
    HRF_CUDNN_PRE_SCALE,      /* [C] float; floating precisions only */
    HRF_CUDNN_PRE_SHIFT,
    HRF_CUDNN_ROW_SCALE,  /* [pixels of y] float */
    HRF_CUDNN_SECOND,     /* of y's shape and type */
    HRF_CUDNN_POST_SCALE, /* [K] float, of the second output */
    HRF_CUDNN_POST_SHIFT,
    HRF_CUDNN_ROUNDER, /* [1] float: HRF_CUDNN_ROUNDER_VALUE; INT8 with a second output only */
    HRF_CUDNN_N_TENSORS = HRF_CUDNN_ROUNDER,
};

/* Floats from here to its double are whole numbers: adding it rounds, half to even. */
#define HRF_CUDNN_ROUNDER_VALUE 0x1.8p23f

struct hrf_cudnn_activation {
    enum hrf_activation kind;
    double low, high, slope; /* CLIP; LEAKY_RELU */
};

struct hrf_cudnn_conv {
    enum hrf_cudnn_result gives;
    enum hrf_dtype type;     /* of what it is computed from, x and w: F32, F16, B16, S8 */
    enum hrf_dtype out_type; /* of the result, y; S8 only with S8 */
    enum hrf_dtype residual_type;
    int64_t x[4], w[4], y[4]; /* N, C, H, W; w is K, C / group, R, S */
    struct hrf_cudnn_window window;
    bool has_bias, has_residual, has_prologue;
    bool has_row_scales; /* INT8 of windows of one pixel, each pixel of x with a scale of its own */
    struct hrf_cudnn_activation activation, before; /* before: the prologue's */
    bool has_second;
    struct hrf_cudnn_activation after; /* of the second output */
    bool allow_tf32;                   /* F32 only: the tensor cores' 10-bit mantissa */
};

/* The dims of what it computes. */
static inline const int64_t *hrf_cudnn_conv_result(const struct hrf_cudnn_conv *conv)
{
    return conv->gives == HRF_CUDNN_GIVES_X   ? conv->x
           : conv->gives == HRF_CUDNN_GIVES_W ? conv->w
                                              : conv->y;
}
/* Builds the graph (`handle`: hrf_cudnn_graph_finish()); release it in any case. */
HRF_CHECKED enum hrf_status hrf_cudnn_conv_build(const struct hrf_cudnn_conv *conv,
                                                 cudnnHandle_t handle, struct hrf_cudnn_graph *out,
                                                 struct hrf_error *err);
/* Drops the engines whose result would not be the same each time, that compute in less than was
 * asked for, or that want more workspace than `most_workspace` bytes where others do with less;
 * keeps the order. */
void hrf_cudnn_conv_filter(const struct hrf_cudnn_conv *conv, int64_t most_workspace,
                           struct hrf_cudnn_engines *engines);

#endif
