/* kernels.cu - the kernels of kernels.h: grid-stride loops, one output an iteration. Products are
 * written fmaf() where one rounding is meant: nvcc would join others as it likes, so the build
 * tells it not to (-fmad=false). */
#include "engine/backend/cuda/kernels.h"

#include "engine/backend/cuda/launch.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <float.h>
#include <math.h>

/* ---- elements ---- */

DEVICE float load(const hrf_k_array &a, int64_t i)
{
    switch (a.type) {
    case HRF_K_F16:
        return __half2float(static_cast<const __half *>(a.data)[i]);
    case HRF_K_B16:
        return __bfloat162float(static_cast<const __nv_bfloat16 *>(a.data)[i]);
    case HRF_K_S8:
        return (float)(static_cast<const int8_t *>(a.data)[i] - a.zero_point) * a.scale;
    case HRF_K_U8:
        return (float)(static_cast<const uint8_t *>(a.data)[i] - a.zero_point) * a.scale;
    case HRF_K_S32:
        return (float)(static_cast<const int32_t *>(a.data)[i] - a.zero_point) * a.scale;
    default:
        return static_cast<const float *>(a.data)[i];
    }
}

/* Round half to even, saturate: q is in steps of the array, NaN becomes the zero point. */
DEVICE int32_t saturate(float q, int32_t zero_point, int32_t low, int32_t high)
{
    const float r = rintf(q) + (float)zero_point;
    if (!(r > (float)low))
        return r == r ? low : zero_point;
    return r < (float)high ? (int32_t)r : high;
}

DEVICE void store_steps(const hrf_k_array &a, int64_t i, float q)
{
    if (a.type == HRF_K_S8)
        static_cast<int8_t *>(a.data)[i] = (int8_t)saturate(q, a.zero_point, -128, 127);
    else
        static_cast<uint8_t *>(a.data)[i] = (uint8_t)saturate(q, a.zero_point, 0, 255);
}

DEVICE void store(const hrf_k_array &a, int64_t i, float v)
{
    switch (a.type) {
    case HRF_K_F16:
        static_cast<__half *>(a.data)[i] = __float2half_rn(v);
        break;
    case HRF_K_B16:
        static_cast<__nv_bfloat16 *>(a.data)[i] = __float2bfloat16_rn(v);
        break;
    case HRF_K_S8:
    case HRF_K_U8:
        store_steps(a, i, v / a.scale);
        break;
    case HRF_K_S32:
        static_cast<int32_t *>(a.data)[i] = (int32_t)rintf(v / a.scale) + a.zero_point;
        break;
    default:
        static_cast<float *>(a.data)[i] = v;
    }
}

DEVICE bool is_integer(const hrf_k_array &a)
{
    return a.type == HRF_K_S8 || a.type == HRF_K_U8;
}

DEVICE int32_t load_integer(const hrf_k_array &a, int64_t i)
{
    return a.type == HRF_K_S8 ? static_cast<const int8_t *>(a.data)[i]
                              : static_cast<const uint8_t *>(a.data)[i];
}

DEVICE float activate(float v, const hrf_k_epilogue &e)
{
    switch (e.activation) {
    case HRF_K_RELU: /* NaN stays NaN, as on the other devices */
        return v < 0 ? 0.0f : v;
    case HRF_K_CLIP:
        return v < e.low ? e.low : v > e.high ? e.high : v;
    case HRF_K_LEAKY_RELU:
        return v < 0 ? v * e.slope : v;
    default:
        return v;
    }
}

/* ---- pointwise ---- */

struct offsets {
    int64_t y, a, b;
};

DEVICE offsets seek(const hrf_k_walk &walk, int64_t i)
{
    offsets o = { 0, 0, 0 };
    for (int32_t axis = walk.rank - 1; axis >= 0; axis--) {
        int64_t at = i;
        if (axis > 0) { /* the outermost axis takes what is left: divisions are dear */
            at = i % walk.dims[axis];
            i /= walk.dims[axis];
        }
        o.y += at * walk.y[axis];
        o.a += at * walk.a[axis];
        o.b += at * walk.b[axis];
    }
    return o;
}

static int64_t count_of(const hrf_k_walk &walk)
{
    int64_t n = 1;
    for (int32_t axis = 0; axis < walk.rank; axis++)
        n *= walk.dims[axis];
    return n;
}

DEVICE float apply(hrf_k_function function, float a, float b)
{
    switch (function) {
    case HRF_K_ADD:
        return a + b;
    case HRF_K_SUB:
        return a - b;
    case HRF_K_MUL:
        return a * b;
    case HRF_K_DIV:
        return a / b;
    case HRF_K_SIGMOID:
        return 1.0f / (1.0f + expf(-a));
    case HRF_K_TANH:
        return tanhf(a);
    default:
        return a;
    }
}

KERNEL pointwise(hrf_k_function function, hrf_k_array y, hrf_k_array a, hrf_k_array b,
                 hrf_k_walk walk, hrf_k_epilogue epilogue, int64_t n)
{
    FOR_EACH(i, n)
    {
        const offsets o = seek(walk, i);
        const float v = apply(function, load(a, o.a), b.data != nullptr ? load(b, o.b) : 0.0f);
        store(y, o.y, activate(v, epilogue));
    }
}

/* Copies that change nothing keep every bit. */
template <typename T> KERNEL copy(T *y, const T *a, hrf_k_walk walk, int64_t n)
{
    FOR_EACH(i, n)
    {
        const offsets o = seek(walk, i);
        y[o.y] = a[o.a];
    }
}

static bool same_form(const hrf_k_array &a, const hrf_k_array &b)
{
    return a.type == b.type && a.scale == b.scale && a.zero_point == b.zero_point;
}

static cudaError_t launch_copy(const hrf_k_array &y, const hrf_k_array &a, const hrf_k_walk &walk,
                               int64_t n, cudaStream_t stream)
{
    switch (y.type) {
    case HRF_K_S8:
    case HRF_K_U8:
        return LAUNCH(copy<uint8_t>, n, stream, static_cast<uint8_t *>(y.data),
                      static_cast<const uint8_t *>(a.data), walk, n);
    case HRF_K_F16:
    case HRF_K_B16:
        return LAUNCH(copy<uint16_t>, n, stream, static_cast<uint16_t *>(y.data),
                      static_cast<const uint16_t *>(a.data), walk, n);
    default:
        return LAUNCH(copy<uint32_t>, n, stream, static_cast<uint32_t *>(y.data),
                      static_cast<const uint32_t *>(a.data), walk, n);
    }
}

cudaError_t hrf_k_pointwise(enum hrf_k_function function, struct hrf_k_array y,
                            struct hrf_k_array a, struct hrf_k_array b,
                            const struct hrf_k_walk *walk, const struct hrf_k_epilogue *epilogue,
                            cudaStream_t stream)
{
    const int64_t n = count_of(*walk);
    if (n == 0)
        return cudaSuccess;
    if (function == HRF_K_COPY && epilogue->activation == HRF_K_NONE && same_form(y, a))
        return launch_copy(y, a, *walk, n, stream);
    return LAUNCH(pointwise, n, stream, function, y, a, b, *walk, *epilogue, n);
}

KERNEL fill(hrf_k_array y, int64_t n, float value)
{
    FOR_EACH(i, n)
    store(y, i, value);
}

cudaError_t hrf_k_fill(struct hrf_k_array y, int64_t n, float value, cudaStream_t stream)
{
    return n == 0 ? cudaSuccess : LAUNCH(fill, n, stream, y, n, value);
}

KERNEL affine(hrf_k_array y, hrf_k_array x, const float *scale, const float *shift,
              int64_t channels, int64_t inner, hrf_k_epilogue epilogue, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t c = i / inner % channels;
        store(y, i, activate(fmaf(load(x, i), scale[c], shift[c]), epilogue));
    }
}

cudaError_t hrf_k_affine(struct hrf_k_array y, struct hrf_k_array x, const float *scale,
                         const float *shift, int64_t outer, int64_t channels, int64_t inner,
                         const struct hrf_k_epilogue *epilogue, cudaStream_t stream)
{
    const int64_t n = outer * channels * inner;
    if (n == 0)
        return cudaSuccess;
    return LAUNCH(affine, n, stream, y, x, scale, shift, channels, inner, *epilogue, n);
}

struct pixel_form {
    float scale[3], shift[3];
};

KERNEL normalise(float *y, const uint8_t *x, pixel_form form, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t c = i % 3;
        y[i] = fmaf((float)x[i], form.scale[c], form.shift[c]);
    }
}

cudaError_t hrf_k_normalise(float *y, const uint8_t *x, int64_t pixels, const float scale[3],
                            const float shift[3], cudaStream_t stream)
{
    const pixel_form form = { { scale[0], scale[1], scale[2] }, { shift[0], shift[1], shift[2] } };
    const int64_t n = 3 * pixels;
    return n == 0 ? cudaSuccess : LAUNCH(normalise, n, stream, y, x, form, n);
}

KERNEL widen(hrf_k_array y, hrf_k_array x, int64_t channels, int64_t wide, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t c = i % wide;
        store(y, i, c < channels ? load(x, i / wide * channels + c) : 0.0f);
    }
}

cudaError_t hrf_k_widen(struct hrf_k_array y, struct hrf_k_array x, int64_t pixels,
                        int64_t channels, int64_t wide, cudaStream_t stream)
{
    const int64_t n = pixels * wide;
    return n == 0 ? cudaSuccess : LAUNCH(widen, n, stream, y, x, channels, wide, n);
}

/* ---- windows ---- */

struct pixel {
    int64_t n, row, column, channel;
};

DEVICE pixel pixel_of(int64_t i, int64_t rows, int64_t columns, int64_t channels)
{
    pixel p;
    p.channel = i % channels;
    p.column = i / channels % columns;
    p.row = i / channels / columns % rows;
    p.n = i / channels / columns / rows;
    return p;
}

DEVICE bool inside(const hrf_k_window &w, int64_t row, int64_t column)
{
    return row >= 0 && row < w.in_rows && column >= 0 && column < w.in_columns;
}

/* Padded ones count for an average that includes pads; what ceil_mode adds beyond does not. */
DEVICE bool counts(const hrf_k_window &w, int64_t row, int64_t column)
{
    return inside(w, row, column) ||
           (w.count_include_pad != 0 && row >= -w.pad_begin[0] && column >= -w.pad_begin[1] &&
            row < w.in_rows + w.pad_end[0] && column < w.in_columns + w.pad_end[1]);
}

struct pooled {
    double sum; /* so that how an image is cut does not show */
    float most;
    int64_t integers, count; /* integers: their exact sum, zero points taken off */
};

DEVICE void take(pooled &p, const hrf_k_array &x, int64_t at)
{
    if (is_integer(x))
        p.integers += load_integer(x, at) - x.zero_point;
    const float v = load(x, at);
    p.sum += (double)v;
    p.most = v > p.most || v != v ? v : p.most;
}

DEVICE void give(const pooled &p, hrf_k_pool kind, const hrf_k_array &y, const hrf_k_array &x,
                 int64_t at)
{
    if (kind == HRF_K_MAX)
        store(y, at, p.most);
    else if (p.count == 0)
        store(y, at, 0.0f);
    else if (is_integer(x) && is_integer(y))
        store_steps(y, at, (float)p.integers * (x.scale / y.scale) / (float)p.count);
    else if (is_integer(x))
        store(y, at, (float)p.integers * x.scale / (float)p.count);
    else
        store(y, at, (float)(p.sum / (double)p.count));
}

KERNEL pool_window(hrf_k_pool kind, hrf_k_array y, hrf_k_array x, hrf_k_window w, int64_t n)
{
    FOR_EACH(i, n)
    {
        const pixel p = pixel_of(i, w.out_rows, w.out_columns, w.channels);
        pooled sum = { 0, -INFINITY, 0, 0 };
        for (int64_t r = 0; r < w.kernel[0]; r++)
            for (int64_t s = 0; s < w.kernel[1]; s++) {
                const int64_t row = p.row * w.stride[0] - w.pad_begin[0] + r * w.dilation[0];
                const int64_t column = p.column * w.stride[1] - w.pad_begin[1] + s * w.dilation[1];
                sum.count += counts(w, row, column);
                if (inside(w, row, column))
                    take(sum, x,
                         ((p.n * w.in_rows + row) * w.in_columns + column) * w.channels +
                             p.channel);
            }
        give(sum, kind, y, x, i);
    }
}

cudaError_t hrf_k_pool_window(enum hrf_k_pool kind, struct hrf_k_array y, struct hrf_k_array x,
                              const struct hrf_k_window *window, cudaStream_t stream)
{
    const int64_t n = window->n * window->out_rows * window->out_columns * window->channels;
    return n == 0 ? cudaSuccess : LAUNCH(pool_window, n, stream, kind, y, x, *window, n);
}

KERNEL pool_global(hrf_k_pool kind, hrf_k_array y, hrf_k_array x, int64_t pixels, int64_t channels,
                   int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t first = i / channels * pixels * channels + i % channels;
        pooled sum = { 0, -INFINITY, 0, pixels };
        for (int64_t p = 0; p < pixels; p++)
            take(sum, x, first + p * channels);
        give(sum, kind, y, x, i);
    }
}

cudaError_t hrf_k_pool_global(enum hrf_k_pool kind, struct hrf_k_array y, struct hrf_k_array x,
                              int64_t n, int64_t pixels, int64_t channels, cudaStream_t stream)
{
    const int64_t all = n * channels;
    if (all == 0)
        return cudaSuccess;
    return LAUNCH(pool_global, all, stream, kind, y, x, pixels, channels, all);
}

/* Sums alone, and what becomes of them when ranks have added theirs. */
KERNEL pool_sum(void *y, hrf_k_array x, int64_t pixels, int64_t channels, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t first = i / channels * pixels * channels + i % channels;
        pooled sum = { 0, -INFINITY, 0, pixels };
        for (int64_t p = 0; p < pixels; p++)
            take(sum, x, first + p * channels);
        if (is_integer(x))
            static_cast<int32_t *>(y)[i] = (int32_t)sum.integers;
        else
            static_cast<double *>(y)[i] = sum.sum;
    }
}

cudaError_t hrf_k_pool_sum(void *y, struct hrf_k_array x, int64_t n, int64_t pixels,
                           int64_t channels, cudaStream_t stream)
{
    const int64_t all = n * channels;
    return all == 0 ? cudaSuccess : LAUNCH(pool_sum, all, stream, y, x, pixels, channels, all);
}

KERNEL pool_finish(hrf_k_array y, const void *sums, int32_t are_integers, float x_scale,
                   int64_t pixels, int64_t n)
{
    FOR_EACH(i, n)
    {
        if (are_integers != 0)
            store_steps(y, i,
                        (float)static_cast<const int32_t *>(sums)[i] * (x_scale / y.scale) /
                            (float)pixels);
        else
            store(y, i, (float)(static_cast<const double *>(sums)[i] / (double)pixels));
    }
}

cudaError_t hrf_k_pool_finish(struct hrf_k_array y, const void *sums, int32_t are_integers,
                              float x_scale, int64_t pixels, int64_t n, cudaStream_t stream)
{
    return n == 0 ? cudaSuccess
                  : LAUNCH(pool_finish, n, stream, y, sums, are_integers, x_scale, pixels, n);
}

KERNEL quantize(hrf_k_array y, hrf_k_array x, const float *scales, const void *zeros,
                int64_t length, int64_t inner, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t place = i / inner % length;
        hrf_k_array here = y;
        here.scale = scales[place];
        here.zero_point = 0;
        if (zeros != nullptr) {
            hrf_k_array points = y;
            points.data = const_cast<void *>(zeros);
            here.zero_point = load_integer(points, place);
        }
        store(here, i, load(x, i));
    }
}

cudaError_t hrf_k_quantize(struct hrf_k_array y, struct hrf_k_array x, const float *scales,
                           const void *zeros, int64_t outer, int64_t length, int64_t inner,
                           cudaStream_t stream)
{
    const int64_t n = outer * length * inner;
    return n == 0 ? cudaSuccess
                  : LAUNCH(quantize, n, stream, y, x, scales, zeros, length, inner, n);
}

/* ---- softmax ---- */

KERNEL softmax(hrf_k_array y, hrf_k_array x, int64_t length, int64_t inner, int32_t logarithm,
               int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t first = i / inner * length * inner + i % inner;
        float most = -INFINITY, sum = 0;
        for (int64_t k = 0; k < length; k++) {
            const float v = load(x, first + k * inner);
            most = v > most || v != v ? v : most;
        }
        for (int64_t k = 0; k < length; k++)
            sum += expf(load(x, first + k * inner) - most);
        for (int64_t k = 0; k < length; k++) {
            const float v = load(x, first + k * inner) - most;
            store(y, first + k * inner, logarithm != 0 ? v - logf(sum) : expf(v) / sum);
        }
    }
}

cudaError_t hrf_k_softmax(struct hrf_k_array y, struct hrf_k_array x, int64_t outer, int64_t length,
                          int64_t inner, int32_t logarithm, cudaStream_t stream)
{
    const int64_t n = outer * inner;
    if (n == 0)
        return cudaSuccess;
    return LAUNCH(softmax, n, stream, y, x, length, inner, logarithm, n);
}

/* ---- normalisation over channels, means ---- */

KERNEL lrn(hrf_k_array y, hrf_k_array x, int64_t channels, hrf_k_lrn_form form, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t c = i % channels, first = i - c;
        const int64_t low = c - (form.size - 1) / 2, high = c + form.size / 2;
        float sum = 0;
        for (int64_t k = low < 0 ? 0 : low; k <= high && k < channels; k++)
            sum = fmaf(load(x, first + k), load(x, first + k), sum);
        store(y, i,
              load(x, i) / powf(form.bias + form.alpha / (float)form.size * sum, form.beta));
    }
}

cudaError_t hrf_k_lrn(struct hrf_k_array y, struct hrf_k_array x, int64_t pixels, int64_t channels,
                      const struct hrf_k_lrn_form *form, cudaStream_t stream)
{
    const int64_t n = pixels * channels;
    return n == 0 ? cudaSuccess : LAUNCH(lrn, n, stream, y, x, channels, *form, n);
}

KERNEL reduce_mean(hrf_k_array y, hrf_k_array x, hrf_k_walk kept, hrf_k_walk reduced, int64_t terms,
                   int64_t n)
{
    FOR_EACH(i, n)
    {
        const offsets o = seek(kept, i);
        float sum = 0;
        for (int64_t k = 0; k < terms; k++)
            sum += load(x, o.a + seek(reduced, k).a);
        store(y, o.y, sum / (float)terms);
    }
}

cudaError_t hrf_k_reduce_mean(struct hrf_k_array y, struct hrf_k_array x,
                              const struct hrf_k_walk *kept, const struct hrf_k_walk *reduced,
                              cudaStream_t stream)
{
    const int64_t n = count_of(*kept), terms = count_of(*reduced);
    if (n == 0)
        return cudaSuccess;
    return LAUNCH(reduce_mean, n, stream, y, x, *kept, *reduced, terms, n);
}

/* ---- matrix product ---- */

KERNEL product(hrf_k_array y, hrf_k_array a, hrf_k_array b, hrf_k_array c, const void *residual,
               hrf_k_product_form f, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t column = i % f.columns, row = i / f.columns % f.rows;
        const offsets o = seek(f.batch, i / f.columns / f.rows);
        float sum = 0;
        for (int64_t k = 0; k < f.depth; k++)
            sum = fmaf(load(a, o.a + row * f.a_row + k * f.a_depth),
                       load(b, o.b + k * f.b_depth + column * f.b_column), sum);
        float v = f.alpha * sum;
        if (c.data != nullptr)
            v = fmaf(f.beta, load(c, row * f.c_row + column * f.c_column), v);
        if (residual != nullptr) {
            hrf_k_array r = y;
            r.data = const_cast<void *>(residual);
            v += load(r, i);
        }
        store(y, i, activate(v, f.epilogue));
    }
}

cudaError_t hrf_k_product(struct hrf_k_array y, struct hrf_k_array a, struct hrf_k_array b,
                          struct hrf_k_array c, const void *residual,
                          const struct hrf_k_product_form *form, cudaStream_t stream)
{
    const int64_t n = count_of(form->batch) * form->rows * form->columns;
    return n == 0 ? cudaSuccess : LAUNCH(product, n, stream, y, a, b, c, residual, *form, n);
}

/* ---- convolution ---- */

struct sums {
    float floats;
    int32_t integers;
};

DEVICE void add_product(sums &s, const hrf_k_array &x, int64_t at, const void *w, int64_t weight)
{
    if (is_integer(x)) {
        s.integers += (load_integer(x, at) - x.zero_point) * static_cast<const int8_t *>(w)[weight];
        return;
    }
    const hrf_k_array weights = { const_cast<void *>(w), x.type, 1.0f, 0 };
    s.floats = fmaf(load(x, at), load(weights, weight), s.floats);
}

/* The input row or column that position k of the window sees for output `at`; -1: none. */
DEVICE int64_t seen_at(const hrf_k_convolution &c, int axis, int64_t at, int64_t k, int64_t size)
{
    const hrf_k_window &w = c.window;
    int64_t i = at * w.stride[axis] - w.pad_begin[axis] + k * w.dilation[axis];
    if (c.is_transposed != 0) {
        i = at + w.pad_begin[axis] - k * w.dilation[axis];
        if (i < 0 || i % w.stride[axis] != 0)
            return -1;
        i /= w.stride[axis];
    }
    return i < size ? i : -1;
}

DEVICE sums convolve_one(const hrf_k_array &x, const void *w, const hrf_k_convolution &c,
                         const pixel &p)
{
    const hrf_k_window &win = c.window;
    const int64_t per_group = win.channels / c.group;
    const int64_t first = p.channel / (c.out_channels / c.group) * per_group;
    sums s = { 0, 0 };
    for (int64_t r = 0; r < win.kernel[0]; r++)
        for (int64_t q = 0; q < win.kernel[1]; q++) {
            const int64_t row = seen_at(c, 0, p.row, r, win.in_rows);
            const int64_t column = seen_at(c, 1, p.column, q, win.in_columns);
            if (row < 0 || column < 0)
                continue;
            const int64_t at = ((p.n * win.in_rows + row) * win.in_columns + column) *
                                   win.channels +
                               first;
            const int64_t weight = ((p.channel * win.kernel[0] + r) * win.kernel[1] + q) *
                                   per_group;
            for (int64_t k = 0; k < per_group; k++)
                add_product(s, x, at + k, w, weight + k);
        }
    return s;
}

/* What follows the sum, in the order that backend.h writes down (struct hrf_requantize). */
DEVICE float finish_sum(const sums &s, const hrf_k_array &x, const hrf_k_array &residual,
                        const hrf_k_convolution &c, int64_t channel, int64_t at)
{
    const float bias = c.bias != nullptr ? c.bias[channel] : 0.0f;
    float v = is_integer(x) ? ((float)s.integers + bias) * c.scale[channel] : s.floats + bias;
    if (residual.data != nullptr && is_integer(residual))
        v = fmaf((float)(load_integer(residual, at) - residual.zero_point), c.residual_scale, v);
    else if (residual.data != nullptr)
        v = fmaf(load(residual, at), c.residual_scale, v);
    return activate(v, c.epilogue);
}

KERNEL convolve(hrf_k_array y, hrf_k_array x, const void *w, hrf_k_array residual,
                hrf_k_convolution c, int64_t n)
{
    FOR_EACH(i, n)
    {
        const pixel p = pixel_of(i, c.window.out_rows, c.window.out_columns, c.out_channels);
        const float v = finish_sum(convolve_one(x, w, c, p), x, residual, c, p.channel, i);
        if (is_integer(y))
            store_steps(y, i, v);
        else
            store(y, i, v);
    }
}

cudaError_t hrf_k_convolve(struct hrf_k_array y, struct hrf_k_array x, const void *w,
                           struct hrf_k_array residual, const struct hrf_k_convolution *convolution,
                           cudaStream_t stream)
{
    const struct hrf_k_window *win = &convolution->window;
    const int64_t n = win->n * win->out_rows * win->out_columns * convolution->out_channels;
    if (n == 0)
        return cudaSuccess;
    return LAUNCH(convolve, n, stream, y, x, w, residual, *convolution, n);
}
