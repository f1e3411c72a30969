/* pool.c - pooling over NHWC: the innermost loop runs over channels, dense. */
#include "engine/backend/cpu/cpu_private.h"

#include <math.h>
#include <string.h>

/* First and last window position that lies inside [0, size), for an output at `at`. */
static void clip_window(const struct hrf_window *w, int axis, int64_t at, int64_t size,
                        int64_t *first, int64_t *last)
{
    int64_t begin = at * w->stride[axis] - w->pad_begin[axis], d = w->dilation[axis];
    *first = begin < 0 ? (-begin + d - 1) / d : 0;
    int64_t n = begin < size ? (size - begin + d - 1) / d : 0;
    *last = n < w->kernel[axis] ? n : w->kernel[axis];
}

static const float *pixel(const struct hrf_shape *in, const float *x, int64_t n, int64_t y,
                          int64_t u)
{
    return x + ((n * in->dims[2] + y) * in->dims[3] + u) * in->dims[1];
}

static void max_at(const struct hrf_spec *spec, const float *x, int64_t n, int64_t oy, int64_t ox,
                   float *out)
{
    const struct hrf_shape *in = &spec->inputs[0].shape;
    const struct hrf_window *w = &spec->attributes.window;
    int64_t y0, y1, x0, x1, channels = in->dims[1];
    clip_window(w, 0, oy, in->dims[2], &y0, &y1);
    clip_window(w, 1, ox, in->dims[3], &x0, &x1);
    for (int64_t c = 0; c < channels; c++)
        out[c] = -INFINITY;
    for (int64_t ky = y0; ky < y1; ky++) {
        for (int64_t kx = x0; kx < x1; kx++) {
            const float *p = pixel(in, x, n,
                                   oy * w->stride[0] - w->pad_begin[0] + ky * w->dilation[0],
                                   ox * w->stride[1] - w->pad_begin[1] + kx * w->dilation[1]);
            for (int64_t c = 0; c < channels; c++)
                out[c] = p[c] > out[c] ? p[c] : out[c];
        }
    }
}

/* Padding counts where it belongs to the padded image, not where ceil_mode reaches beyond. */
static int64_t padded_count(const struct hrf_window *w, int axis, int64_t at, int64_t size)
{
    int64_t n = 0;
    for (int64_t k = 0; k < w->kernel[axis]; k++)
        n += at * w->stride[axis] - w->pad_begin[axis] + k * w->dilation[axis] <
             size + w->pad_end[axis];
    return n;
}

static void average_at(const struct hrf_spec *spec, const float *x, int64_t n, int64_t oy,
                       int64_t ox, float *out)
{
    const struct hrf_shape *in = &spec->inputs[0].shape;
    const struct hrf_window *w = &spec->attributes.window;
    int64_t y0, y1, x0, x1, channels = in->dims[1];
    clip_window(w, 0, oy, in->dims[2], &y0, &y1);
    clip_window(w, 1, ox, in->dims[3], &x0, &x1);
    memset(out, 0, (size_t)channels * sizeof *out);
    for (int64_t ky = y0; ky < y1; ky++) {
        for (int64_t kx = x0; kx < x1; kx++) {
            const float *p = pixel(in, x, n,
                                   oy * w->stride[0] - w->pad_begin[0] + ky * w->dilation[0],
                                   ox * w->stride[1] - w->pad_begin[1] + kx * w->dilation[1]);
            for (int64_t c = 0; c < channels; c++)
                out[c] += p[c];
        }
    }
    int64_t count = y1 > y0 && x1 > x0 ? (y1 - y0) * (x1 - x0) : 0;
    if (w->count_include_pad)
        count = padded_count(w, 0, oy, in->dims[2]) * padded_count(w, 1, ox, in->dims[3]);
    float scale = count > 0 ? 1.0f / (float)count : 0.0f;
    for (int64_t c = 0; c < channels; c++)
        out[c] *= scale;
}

enum hrf_status hrf_cpu_max_pool(const struct hrf_spec *spec, const struct hrf_kernel_call *call,
                                 struct hrf_error *err)
{
    (void)err;
    const struct hrf_shape *out = &spec->output.shape;
    const float *x = hrf_spec_data(spec, call, 0);
    int64_t rows = out->dims[0] * out->dims[2], row = out->dims[3] * out->dims[1];
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++)
        for (int64_t ox = 0; ox < out->dims[3]; ox++)
            max_at(spec, x, r / out->dims[2], r % out->dims[2], ox,
                   hrf_floats(call) + r * row + ox * out->dims[1]);
    return HRF_OK;
}

enum hrf_status hrf_cpu_average_pool(const struct hrf_spec *spec,
                                     const struct hrf_kernel_call *call, struct hrf_error *err)
{
    (void)err;
    const struct hrf_shape *out = &spec->output.shape;
    const float *x = hrf_spec_data(spec, call, 0);
    int64_t rows = out->dims[0] * out->dims[2], row = out->dims[3] * out->dims[1];
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++)
        for (int64_t ox = 0; ox < out->dims[3]; ox++)
            average_at(spec, x, r / out->dims[2], r % out->dims[2], ox,
                       hrf_floats(call) + r * row + ox * out->dims[1]);
    return HRF_OK;
}

enum { CHANNEL_BLOCK = 64 }; /* sums of one block stay in registers and L1 */

enum hrf_status hrf_cpu_global_pool(const struct hrf_spec *spec, const struct hrf_kernel_call *call,
                                    struct hrf_error *err)
{
    (void)err;
    const struct hrf_shape *in = &spec->inputs[0].shape;
    const float *x = hrf_spec_data(spec, call, 0);
    int64_t channels = in->dims[1], area = in->dims[2] * in->dims[3];
    int64_t blocks = (channels + CHANNEL_BLOCK - 1) / CHANNEL_BLOCK;
    bool is_max = spec->op == HRF_OP_GLOBAL_MAX_POOL;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < in->dims[0] * blocks; i++) {
        int64_t first = i % blocks * CHANNEL_BLOCK, n = channels - first;
        n = n < CHANNEL_BLOCK ? n : CHANNEL_BLOCK;
        const float *p = x + i / blocks * area * channels + first;
        double sum[CHANNEL_BLOCK] = { 0 };
        float best[CHANNEL_BLOCK];
        for (int64_t c = 0; c < n; c++)
            best[c] = -INFINITY;
        for (int64_t k = 0; k < area; k++)
            for (int64_t c = 0; c < n; c++) {
                sum[c] += (double)p[k * channels + c];
                best[c] = p[k * channels + c] > best[c] ? p[k * channels + c] : best[c];
            }
        for (int64_t c = 0; c < n; c++)
            hrf_floats(call)[i / blocks * channels + first + c] = is_max ? best[c]
                                                                         : (float)(sum[c] /
                                                                                   (double)area);
    }
    return HRF_OK;
}
