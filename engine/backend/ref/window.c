/* window.c - what slides over rows and columns: convolution, pooling, LRN. */
#include "engine/backend/ref/ref_private.h"

#include <math.h>

static double activate(enum hrf_activation activation, double low, double high, double slope,
                       double x)
{
    switch (activation) {
    case HRF_ACT_RELU:
        return x > 0 ? x : 0;
    case HRF_ACT_CLIP:
        x = x < low ? low : x;
        return x > high ? high : x;
    case HRF_ACT_LEAKY_RELU:
        return x >= 0 ? x : slope * x;
    case HRF_ACT_NONE:
        break;
    }
    return x;
}

double hrf_ref_activate(const struct hrf_attributes *a, double x)
{
    return activate(a->activation, (double)a->activation_min, (double)a->activation_max,
                    (double)a->alpha, x);
}

/* Channel c of the image as the convolution sees it. */
static double seen(const struct hrf_spec *spec, double x, int64_t c)
{
    if (!hrf_spec_has(spec, HRF_CONV_FACTORS))
        return x;
    const struct hrf_prologue *p = &spec->attributes.prologue;
    const float *factors = spec->inputs[HRF_CONV_FACTORS].constant;
    const float *shifts = spec->inputs[HRF_CONV_SHIFTS].constant;
    return activate(p->activation, (double)p->low, (double)p->high, (double)p->slope,
                    x * (double)factors[c] + (double)shifts[c]);
}

/* Sum over the window and the group's channels for output (n, m, oy, ox). */
static double conv_at(const struct hrf_spec *spec, const float *x, const float *w, int64_t n,
                      int64_t m, int64_t oy, int64_t ox)
{
    const struct hrf_shape *in = &spec->inputs[HRF_CONV_X].shape;
    const struct hrf_shape *kernel = &spec->inputs[HRF_CONV_WEIGHTS].shape;
    const struct hrf_window *window = &spec->attributes.window;
    int64_t per_group = kernel->dims[1], kh = kernel->dims[2], kw = kernel->dims[3];
    int64_t first = m / (kernel->dims[0] / spec->attributes.group) * per_group;
    double sum = 0;
    for (int64_t ky = 0; ky < kh; ky++) {
        int64_t y = oy * window->stride[0] - window->pad_begin[0] + ky * window->dilation[0];
        for (int64_t kx = 0; kx < kw; kx++) {
            int64_t c = ox * window->stride[1] - window->pad_begin[1] + kx * window->dilation[1];
            if (y < 0 || y >= in->dims[2] || c < 0 || c >= in->dims[3])
                continue;
            const float *pixel = x + ((n * in->dims[2] + y) * in->dims[3] + c) * in->dims[1] +
                                 first;
            for (int64_t k = 0; k < per_group; k++)
                sum += seen(spec, (double)pixel[k], first + k) *
                       (double)w[((m * per_group + k) * kh + ky) * kw + kx];
        }
    }
    return sum;
}

void hrf_ref_conv(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const float *x = hrf_spec_data(spec, call, HRF_CONV_X);
    const float *w = hrf_spec_data(spec, call, HRF_CONV_WEIGHTS);
    const float *bias = hrf_spec_data(spec, call, HRF_CONV_BIAS);
    const float *residual = hrf_spec_data(spec, call, HRF_CONV_RESIDUAL);
    const struct hrf_shape *out = &spec->output.shape;
    int64_t i = 0;
    for (int64_t n = 0; n < out->dims[0]; n++)
        for (int64_t oy = 0; oy < out->dims[2]; oy++)
            for (int64_t ox = 0; ox < out->dims[3]; ox++)
                for (int64_t m = 0; m < out->dims[1]; m++, i++) {
                    double sum = conv_at(spec, x, w, n, m, oy, ox);
                    sum += bias != NULL ? (double)bias[m] : 0;
                    sum += residual != NULL ? (double)residual[i] : 0;
                    hrf_floats(call)[i] = (float)hrf_ref_activate(&spec->attributes, sum);
                }
}

/* The input row or column that kernel position k of output `at` sees; -1: none. */
static int64_t seen_from(const struct hrf_window *w, int axis, int64_t at, int64_t k, int64_t size)
{
    const int64_t spread = at + w->pad_begin[axis] - k * w->dilation[axis];
    const int64_t i = spread / w->stride[axis];
    return spread >= 0 && spread % w->stride[axis] == 0 && i < size ? i : -1;
}

static double spread_at(const struct hrf_spec *spec, const float *x, const float *w, int64_t n,
                        int64_t m, int64_t oy, int64_t ox)
{
    const struct hrf_shape *in = &spec->inputs[HRF_CONV_X].shape;
    const struct hrf_shape *kernel = &spec->inputs[HRF_CONV_WEIGHTS].shape;
    const struct hrf_window *window = &spec->attributes.window;
    const int64_t per_group = kernel->dims[1], kh = kernel->dims[2], kw = kernel->dims[3];
    const int64_t n_in = in->dims[1] / spec->attributes.group, first = m / per_group * n_in;
    double sum = 0;
    for (int64_t ky = 0; ky < kh; ky++) {
        const int64_t y = seen_from(window, 0, oy, ky, in->dims[2]);
        for (int64_t kx = 0; kx < kw && y >= 0; kx++) {
            const int64_t u = seen_from(window, 1, ox, kx, in->dims[3]);
            if (u < 0)
                continue;
            const float *pixel = x + ((n * in->dims[2] + y) * in->dims[3] + u) * in->dims[1];
            for (int64_t c = first; c < first + n_in; c++)
                sum += (double)pixel[c] *
                       (double)w[((c * per_group + m % per_group) * kh + ky) * kw + kx];
        }
    }
    return sum;
}

void hrf_ref_conv_transpose(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const float *x = hrf_spec_data(spec, call, HRF_CONV_X);
    const float *w = hrf_spec_data(spec, call, HRF_CONV_WEIGHTS);
    const float *bias = hrf_spec_data(spec, call, HRF_CONV_BIAS);
    const struct hrf_shape *out = &spec->output.shape;
    int64_t i = 0;
    for (int64_t n = 0; n < out->dims[0]; n++)
        for (int64_t oy = 0; oy < out->dims[2]; oy++)
            for (int64_t ox = 0; ox < out->dims[3]; ox++)
                for (int64_t m = 0; m < out->dims[1]; m++, i++) {
                    const double sum = spread_at(spec, x, w, n, m, oy, ox) +
                                       (bias != NULL ? (double)bias[m] : 0);
                    hrf_floats(call)[i] = (float)hrf_ref_activate(&spec->attributes, sum);
                }
}

/* The part of a window that may count: [begin, end) of the padded axis, by ONNX and PyTorch. */
static double pool_at(const struct hrf_spec *spec, const float *x, int64_t n, int64_t c, int64_t oy,
                      int64_t ox)
{
    const struct hrf_shape *in = &spec->inputs[0].shape;
    const struct hrf_window *w = &spec->attributes.window;
    bool is_max = spec->op == HRF_OP_MAX_POOL;
    double best = -INFINITY, sum = 0;
    int64_t count = 0;
    for (int64_t ky = 0; ky < w->kernel[0]; ky++) {
        int64_t y = oy * w->stride[0] - w->pad_begin[0] + ky * w->dilation[0];
        for (int64_t kx = 0; kx < w->kernel[1]; kx++) {
            int64_t u = ox * w->stride[1] - w->pad_begin[1] + kx * w->dilation[1];
            bool inside = y >= 0 && y < in->dims[2] && u >= 0 && u < in->dims[3];
            bool padded = y < in->dims[2] + w->pad_end[0] && u < in->dims[3] + w->pad_end[1];
            count += inside || (padded && w->count_include_pad);
            if (!inside)
                continue;
            double v = (double)x[((n * in->dims[2] + y) * in->dims[3] + u) * in->dims[1] + c];
            best = v > best || isnan(v) ? v : best;
            sum += v;
        }
    }
    return is_max ? best : count > 0 ? sum / (double)count : 0;
}

void hrf_ref_pool(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct hrf_shape *out = &spec->output.shape;
    const float *x = hrf_spec_data(spec, call, 0);
    int64_t i = 0;
    for (int64_t n = 0; n < out->dims[0]; n++)
        for (int64_t oy = 0; oy < out->dims[2]; oy++)
            for (int64_t ox = 0; ox < out->dims[3]; ox++)
                for (int64_t c = 0; c < out->dims[1]; c++, i++)
                    hrf_floats(call)[i] = (float)pool_at(spec, x, n, c, oy, ox);
}

void hrf_ref_global_pool(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct hrf_shape *in = &spec->inputs[0].shape;
    const float *x = hrf_spec_data(spec, call, 0);
    int64_t channels = in->dims[1], area = in->dims[2] * in->dims[3];
    for (int64_t n = 0; n < in->dims[0]; n++) {
        for (int64_t c = 0; c < channels; c++) {
            double sum = 0, best = -INFINITY;
            for (int64_t i = 0; i < area; i++) {
                double v = (double)x[(n * area + i) * channels + c];
                sum += v;
                best = v > best ? v : best;
            }
            hrf_floats(call)[n * channels + c] = (float)(spec->op == HRF_OP_GLOBAL_MAX_POOL
                                                             ? best
                                                             : sum / (double)area);
        }
    }
}

/* y = x / (k + alpha / size * sum of squares over `size` channels around)^beta. Source: ONNX. */
void hrf_ref_lrn(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct hrf_attributes *a = &spec->attributes;
    const float *x = hrf_spec_data(spec, call, 0);
    int64_t channels = spec->output.shape.dims[1];
    int64_t pixels = hrf_shape_count(&spec->output.shape) / channels;
    for (int64_t p = 0; p < pixels; p++) {
        for (int64_t c = 0; c < channels; c++) {
            int64_t low = c - (a->size - 1) / 2, high = c + a->size / 2;
            double sum = 0;
            for (int64_t k = low < 0 ? 0 : low; k <= high && k < channels; k++)
                sum += (double)x[p * channels + k] * (double)x[p * channels + k];
            double base = (double)a->bias + (double)a->alpha / (double)a->size * sum;
            hrf_floats(call)[p * channels + c] = (float)((double)x[p * channels + c] /
                                                         pow(base, (double)a->beta));
        }
    }
}
