/* pool.c - pooling over NHWC: the innermost loop runs over channels, dense. */
#include "engine/backend/cpu/avx512/pool_avx512.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/ir/number.h"

#include <math.h>
#include <omp.h>
#include <string.h>

/* Finds the window positions [*first, *last) that lie inside [0, size), for an output at `at`. A
 * division takes as long as a window, so it is only used at the ends of the image. */
static void clip_window(const struct hrf_window *w, int axis, int64_t at, int64_t size,
                        int64_t *first, int64_t *last)
{
    const int64_t begin = at * w->stride[axis] - w->pad_begin[axis], d = w->dilation[axis];
    const int64_t n = w->kernel[axis];
    *first = begin < 0 ? (-begin + d - 1) / d : 0;
    *last = n;
    if (begin + (n - 1) * d >= size)
        *last = begin < size ? (size - begin + d - 1) / d : 0;
}

static const char *pixel(const struct hrf_operand *in, const char *x, int64_t n, int64_t y,
                         int64_t u)
{
    const int64_t *dims = in->shape.dims;
    return x + ((n * dims[2] + y) * dims[3] + u) * in->pixel_stride *
                   (int64_t)hrf_dtype_size(in->dtype);
}

/* The part of a window that lies inside the image, and what to prefetch into the L2 cache: the rows
 * that the second window below it adds (those of the first one: 5 % slower). */
static struct hrf_max_window window_at(const struct hrf_spec *spec, const char *x, int64_t n,
                                       int64_t oy, int64_t ox)
{
    const struct hrf_shape *in = &spec->inputs[0].shape;
    const struct hrf_window *w = &spec->attributes.window;
    const int64_t stride = spec->inputs[0].pixel_stride, top = oy * w->stride[0] - w->pad_begin[0];
    int64_t y0, y1, x0, x1;
    clip_window(w, 0, oy, in->dims[2], &y0, &y1);
    clip_window(w, 1, ox, in->dims[3], &x0, &x1);
    const int64_t size = (int64_t)hrf_dtype_size(spec->inputs[0].dtype);
    struct hrf_max_window window = { .type = spec->inputs[0].dtype,
                                     .rows = y1 - y0,
                                     .columns = x1 - x0,
                                     .channels = in->dims[1],
                                     .row_step = w->dilation[0] * in->dims[3] * stride,
                                     .column_step = w->dilation[1] * stride };
    if (y1 <= y0 || x1 <= x0) {
        window.rows = 0;
        return window;
    }
    const int64_t left = ox * w->stride[1] - w->pad_begin[1] + x0 * w->dilation[1];
    const int64_t below = top + (y1 - 1) * w->dilation[0] + 1 + w->stride[0];
    const int64_t rows_below = in->dims[2] - below;
    window.x = pixel(&spec->inputs[0], x, n, top + y0 * w->dilation[0], left);
    window.ahead = rows_below > 0 ? pixel(&spec->inputs[0], x, n, below, left) : NULL;
    window.n_ahead = rows_below < w->stride[0] ? rows_below : w->stride[0];
    window.ahead_step = in->dims[3] * stride * size;
    window.ahead_bytes = ((w->stride[1] - 1) * stride + in->dims[1]) * size;
    return window;
}

static void plain_max(const struct hrf_max_window *w, enum hrf_dtype type, void *y)
{
    float *out = y;
    (void)type;
    for (int64_t c = 0; c < w->channels; c++)
        out[c] = -INFINITY;
    for (int64_t i = 0; i < w->rows; i++)
        for (int64_t j = 0; j < w->columns; j++) {
            const float *p = (const float *)w->x + i * w->row_step + j * w->column_step;
            for (int64_t c = 0; c < w->channels; c++)
                out[c] = p[c] > out[c] || p[c] != p[c] ? p[c] : out[c]; /* a NaN stays */
        }
}

static void plain_add(enum hrf_dtype type, const void *lines, int64_t stride, int64_t n_lines,
                      int64_t n, double *sums)
{
    (void)type;
    for (int64_t i = 0; i < n_lines; i++) {
        const float *x = (const float *)lines + i * stride;
        for (int64_t c = 0; c < n; c++)
            sums[c] += (double)x[c];
    }
}

/* The functions of the instruction set: AVX-512 or plain. */
typedef void max_function(const struct hrf_max_window *window, enum hrf_dtype type, void *out);
typedef void add_function(enum hrf_dtype type, const void *x, int64_t stride, int64_t n_lines,
                          int64_t n, double *sums);

static max_function *best_max(void)
{
#ifdef HRF_BUILD_AVX512
    if (hrf_cpu_has_avx512())
        return hrf_max_window_avx512;
#endif
    return plain_max;
}

static add_function *best_add(void)
{
#ifdef HRF_BUILD_AVX512
    if (hrf_cpu_has_avx512())
        return hrf_add_lines_avx512;
#endif
    return plain_add;
}

/* The number of window positions inside the padded image; those that ceil_mode adds beyond do not
 * count. */
static int64_t padded_count(const struct hrf_window *w, int axis, int64_t at, int64_t size)
{
    int64_t n = 0;
    for (int64_t k = 0; k < w->kernel[axis]; k++)
        n += at * w->stride[axis] - w->pad_begin[axis] + k * w->dilation[axis] <
             size + w->pad_end[axis];
    return n;
}

static void plain_average(const struct hrf_max_window *w, float scale, float *out)
{
    memset(out, 0, (size_t)w->channels * sizeof *out);
    for (int64_t i = 0; i < w->rows; i++)
        for (int64_t j = 0; j < w->columns; j++) {
            const float *p = (const float *)w->x + i * w->row_step + j * w->column_step;
            for (int64_t c = 0; c < w->channels; c++)
                out[c] += p[c];
        }
    for (int64_t c = 0; c < w->channels; c++)
        out[c] *= scale;
}

static void average_at(const struct hrf_spec *spec, const char *x, int64_t n, int64_t oy,
                       int64_t ox, char *out)
{
    const struct hrf_shape *in = &spec->inputs[0].shape;
    const struct hrf_window *w = &spec->attributes.window;
    const struct hrf_max_window window = window_at(spec, x, n, oy, ox);
    int64_t count = window.rows * window.columns;
    if (w->count_include_pad)
        count = padded_count(w, 0, oy, in->dims[2]) * padded_count(w, 1, ox, in->dims[3]);
    const float scale = count > 0 ? 1.0f / (float)count : 0.0f;
#ifdef HRF_BUILD_AVX512
    if (hrf_cpu_has_avx512()) {
        hrf_average_window_avx512(&window, scale, spec->output.dtype, out);
        return;
    }
#endif
    plain_average(&window, scale, (float *)(void *)out);
}

void hrf_cpu_max_pool(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct hrf_shape *out = &spec->output.shape;
    const int64_t size = (int64_t)hrf_dtype_size(spec->output.dtype);
    const char *x = hrf_spec_data(spec, call, 0);
    const int64_t rows = out->dims[0] * out->dims[2], stride = spec->output.pixel_stride;
    max_function *const max_of = best_max();
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        const int64_t n = r / out->dims[2], oy = r % out->dims[2];
        for (int64_t ox = 0; ox < out->dims[3]; ox++) {
            const struct hrf_max_window window = window_at(spec, x, n, oy, ox);
            max_of(&window, spec->output.dtype,
                   (char *)call->output + (r * out->dims[3] + ox) * stride * size);
        }
    }
}

void hrf_cpu_average_pool(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct hrf_shape *out = &spec->output.shape;
    const int64_t size = (int64_t)hrf_dtype_size(spec->output.dtype);
    const char *x = hrf_spec_data(spec, call, 0);
    const int64_t rows = out->dims[0] * out->dims[2], stride = spec->output.pixel_stride;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++)
        for (int64_t ox = 0; ox < out->dims[3]; ox++)
            average_at(spec, x, r / out->dims[2], r % out->dims[2], ox,
                       (char *)call->output + (r * out->dims[3] + ox) * stride * size);
}

/* At most CHANNEL_BLOCK channels of a pixel are averaged at a time: a run of 2 KiB of each pixel,
 * with sums that stay in the L1 cache. With at most NARROW channels several pixels are added at
 * once. */
enum { CHANNEL_BLOCK = 512, NARROW = 8 };

static void average_image(const struct hrf_operand *in, const char *image, int64_t first, int64_t n,
                          add_function *add, enum hrf_dtype out_type, char *out)
{
    const int64_t area = in->shape.dims[2] * in->shape.dims[3];
    const int64_t size = (int64_t)hrf_dtype_size(in->dtype);
    double sums[CHANNEL_BLOCK] = { 0 };
    float line[CHANNEL_BLOCK];
    /* One pixel of few channels would not fill a vector. */
    const bool is_narrow = n <= NARROW && in->pixel_stride == n;
    const int64_t group = is_narrow ? CHANNEL_BLOCK / n : 1;
    const int64_t whole = area / group, rest = (area - whole * group) * n;
    const char *const after = image + whole * group * in->pixel_stride * size;
    add(in->dtype, image + first * size, group * in->pixel_stride, whole, group * n, sums);
    add(in->dtype, after + first * size, 0, rest > 0, rest, sums);
    for (int64_t c = 0; c < n; c++) {
        for (int64_t k = 1; k < group; k++)
            sums[c] += sums[k * n + c];
        line[c] = (float)(sums[c] / (double)area);
    }
    hrf_floats_to(out_type, line, out + first * (int64_t)hrf_dtype_size(out_type), n);
}

static void max_image(const struct hrf_operand *in, const float *image, int64_t first, int64_t n,
                      max_function *max_of, float *out)
{
    const struct hrf_max_window window = { .type = HRF_F32,
                                           .x = image + first,
                                           .rows = 1,
                                           .columns = in->shape.dims[2] * in->shape.dims[3],
                                           .channels = n,
                                           .column_step = in->pixel_stride };
    max_of(&window, HRF_F32, out + first);
}

/* The channels of one piece of work: fewer than CHANNEL_BLOCK if threads would be without channels.
 * Results do not depend on it. */
static int64_t channels_at_once(int64_t n_images, int64_t channels)
{
    enum { LEAST = 32 };
    const int64_t fair = hrf_ceil_div(n_images * channels, omp_get_max_threads());
    const int64_t even = hrf_ceil_div(fair, LEAST) * LEAST;
    return even < CHANNEL_BLOCK ? even : CHANNEL_BLOCK;
}

void hrf_cpu_global_pool(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct hrf_operand *in = &spec->inputs[0];
    const int64_t *dims = in->shape.dims, channels = dims[1],
                  image = dims[2] * dims[3] * in->pixel_stride;
    const char *x = hrf_spec_data(spec, call, 0);
    const int64_t block = channels_at_once(dims[0], channels);
    const int64_t blocks = hrf_ceil_div(channels, block);
    const int64_t x_size = (int64_t)hrf_dtype_size(in->dtype);
    const int64_t y_size = (int64_t)hrf_dtype_size(spec->output.dtype);
    max_function *const max_of = best_max();
    add_function *const add = best_add();
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < dims[0] * blocks; i++) {
        const int64_t first = i % blocks * block, at = i / blocks;
        const int64_t n = hrf_min(channels - first, block);
        const char *from = x + at * image * x_size;
        char *out = (char *)call->output + at * channels * y_size;
        if (spec->op == HRF_OP_GLOBAL_MAX_POOL)
            max_image(in, (const float *)(const void *)from, first, n, max_of,
                      (float *)(void *)out);
        else
            average_image(in, from, first, n, add, spec->output.dtype, out);
    }
}
