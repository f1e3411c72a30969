/* window.cu - pools, images of other sizes, and convolutions that cuDNN has no engine for.
 * Grid-stride loops, one output an iteration. Products are written fmaf() where one rounding is
 * meant: nvcc would join others as it likes, so the build tells it not to (-fmad=false). */
#include "engine/backend/cuda/convolve.cuh"

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
    if (kind == HRF_K_POOL_MAX)
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

/* The largest of what is in the window, 16 bytes of channels a thread: a number at a time takes
 * longer over a stem's 3 x 3 maximum than its convolution does. NaN is larger than anything. */
DEVICE void take_most(float v, float *most)
{
    *most = v > *most || v != v ? v : *most;
}

DEVICE void give_most(float v, int8_t *to)
{
    *to = (int8_t)v;
}
template <typename T> DEVICE void give_most(float v, T *to)
{
    narrowed(v, to);
}

template <typename T>
KERNEL max_packs(pack<T> *y, const pack<T> *x, float least, hrf_k_window w, int64_t n)
{
    FOR_EACH(i, n)
    {
        const pixel p = pixel_of(i, w.out_rows, w.out_columns, w.channels);
        float most[pack<T>::N];
        for (int k = 0; k < pack<T>::N; k++)
            most[k] = least;
        for (int64_t r = 0; r < w.kernel[0]; r++)
            for (int64_t s = 0; s < w.kernel[1]; s++) {
                const int64_t row = p.row * w.stride[0] - w.pad_begin[0] + r * w.dilation[0];
                const int64_t column = p.column * w.stride[1] - w.pad_begin[1] + s * w.dilation[1];
                if (!inside(w, row, column))
                    continue;
                const int64_t line = p.n * w.in_rows + row;
                const pack<T> v = x[(line * w.in_columns + column) * w.channels + p.channel];
                for (int k = 0; k < pack<T>::N; k++)
                    take_most(widened(v.at[k]), &most[k]);
            }
        pack<T> v;
        for (int k = 0; k < pack<T>::N; k++)
            give_most(most[k], &v.at[k]);
        y[i] = v;
    }
}

/* `w`'s channels become packs of them. */
template <typename T>
static cudaError_t launch_max_packs(const hrf_k_array &y, const hrf_k_array &x, hrf_k_window w,
                                    float least, cudaStream_t stream)
{
    w.channels /= pack<T>::N;
    const int64_t n = w.n * w.out_rows * w.out_columns * w.channels;
    return LAUNCH(max_packs<T>, n, stream, static_cast<pack<T> *>(y.data),
                  static_cast<const pack<T> *>(x.data), least, w, n);
}

static cudaError_t pool_max_packs(const hrf_k_array &y, const hrf_k_array &x, const hrf_k_window &w,
                                  cudaStream_t stream)
{
    switch (x.type) {
    case HRF_K_F16:
        return launch_max_packs<__half>(y, x, w, -INFINITY, stream);
    case HRF_K_B16:
        return launch_max_packs<__nv_bfloat16>(y, x, w, -INFINITY, stream);
    case HRF_K_S8:
        return launch_max_packs<int8_t>(y, x, w, -128, stream);
    default:
        return launch_max_packs<float>(y, x, w, -INFINITY, stream);
    }
}

cudaError_t hrf_k_pool_window(enum hrf_k_pool kind, struct hrf_k_array y, struct hrf_k_array x,
                              const struct hrf_k_window *window, cudaStream_t stream)
{
    const int64_t n = window->n * window->out_rows * window->out_columns * window->channels;
    if (n == 0)
        return cudaSuccess;
    if (kind == HRF_K_POOL_MAX && same_form(y, x) && has_packs(y, x, window->channels))
        return pool_max_packs(y, x, *window, stream);
    return LAUNCH(pool_window, n, stream, kind, y, x, *window, n);
}

/* ---- over all pixels ---- */

/* An image has few channels and many pixels, so parts of it are summed side by side and then
 * joined, in order: as many pixels a part as there are parts, so that neither takes long. Sums of
 * 8-bit integers are exact in double. */
static int64_t pixels_of_part(int64_t pixels)
{
    const int64_t root = (int64_t)ceil(sqrt((double)pixels));
    return root < 64 ? 64 : root;
}

static int64_t parts_of(int64_t pixels)
{
    const int64_t part = pixels_of_part(pixels);
    return pixels < 1 ? 1 : (pixels + part - 1) / part;
}

size_t hrf_k_pool_workspace(int64_t n, int64_t pixels, int64_t channels)
{
    return (size_t)(n * parts_of(pixels) * channels) * sizeof(double);
}

struct pool_shape {
    int64_t pixels, channels, part, parts; /* of one image; pixels of a part */
};

static pool_shape pool_shape_of(int64_t pixels, int64_t channels)
{
    const pool_shape shape = { pixels, channels, pixels_of_part(pixels), parts_of(pixels) };
    return shape;
}

DEVICE double joined(hrf_k_pool kind, double a, double b)
{
    if (kind == HRF_K_POOL_AVERAGE)
        return a + b;
    return b > a || b != b ? b : a;
}

KERNEL pool_parts(hrf_k_pool kind, double *parts, hrf_k_array x, pool_shape s, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t c = i % s.channels, part = i / s.channels % s.parts;
        const int64_t image = i / s.channels / s.parts;
        const int64_t first = part * s.part;
        const int64_t end = first + s.part < s.pixels ? first + s.part : s.pixels;
        double sum = kind == HRF_K_POOL_AVERAGE ? 0 : -(double)INFINITY;
        for (int64_t p = first; p < end; p++) {
            const int64_t at = (image * s.pixels + p) * s.channels + c;
            sum = joined(kind, sum,
                         is_integer(x) ? (double)(load_integer(x, at) - x.zero_point)
                                       : (double)load(x, at));
        }
        parts[i] = sum;
    }
}

DEVICE double join_parts(hrf_k_pool kind, const double *parts, const pool_shape &s, int64_t i)
{
    const int64_t first = i / s.channels * s.parts * s.channels + i % s.channels;
    double sum = parts[first];
    for (int64_t part = 1; part < s.parts; part++)
        sum = joined(kind, sum, parts[first + part * s.channels]);
    return sum;
}

KERNEL pool_global(hrf_k_pool kind, hrf_k_array y, hrf_k_array x, const double *parts, pool_shape s,
                   int64_t n)
{
    FOR_EACH(i, n)
    {
        const double sum = join_parts(kind, parts, s, i);
        pooled p = { sum, (float)sum, 0, s.pixels };
        if (is_integer(x)) {
            p.integers = kind == HRF_K_POOL_AVERAGE ? (int64_t)sum : 0;
            p.most = (float)sum * x.scale;
        }
        give(p, kind, y, x, i);
    }
}

KERNEL pool_sum(void *y, hrf_k_array x, const double *parts, pool_shape s, int64_t n)
{
    FOR_EACH(i, n)
    {
        const double sum = join_parts(HRF_K_POOL_AVERAGE, parts, s, i);
        if (is_integer(x))
            static_cast<int32_t *>(y)[i] = (int32_t)sum;
        else
            static_cast<double *>(y)[i] = sum;
    }
}

cudaError_t hrf_k_pool_global(enum hrf_k_pool kind, struct hrf_k_array y, struct hrf_k_array x,
                              int64_t n, int64_t pixels, int64_t channels, void *workspace,
                              cudaStream_t stream)
{
    const pool_shape shape = pool_shape_of(pixels, channels);
    const int64_t all = n * channels, n_parts = all * shape.parts;
    double *parts = static_cast<double *>(workspace);
    if (all == 0)
        return cudaSuccess;
    const cudaError_t status = LAUNCH(pool_parts, n_parts, stream, kind, parts, x, shape, n_parts);
    if (status != cudaSuccess)
        return status;
    return LAUNCH(pool_global, all, stream, kind, y, x, parts, shape, all);
}

cudaError_t hrf_k_pool_sum(void *y, struct hrf_k_array x, int64_t n, int64_t pixels,
                           int64_t channels, void *workspace, cudaStream_t stream)
{
    const pool_shape shape = pool_shape_of(pixels, channels);
    const int64_t all = n * channels, n_parts = all * shape.parts;
    double *parts = static_cast<double *>(workspace);
    if (all == 0)
        return cudaSuccess;
    const cudaError_t status = LAUNCH(pool_parts, n_parts, stream, HRF_K_POOL_AVERAGE, parts, x,
                                      shape, n_parts);
    if (status != cudaSuccess)
        return status;
    return LAUNCH(pool_sum, all, stream, y, x, parts, shape, all);
}

/* The division, when ranks have added their sums. */
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

/* ---- images of other sizes ---- */

KERNEL resize_image(hrf_k_array y, hrf_k_array x, hrf_k_resize r, int64_t n)
{
    FOR_EACH(i, n)
    {
        const pixel p = pixel_of(i, r.out_rows, r.out_columns, r.channels);
        const hrf_k_tap &row = r.rows[p.row], &column = r.columns[p.column];
        float sum = 0;
        for (int32_t a = 0; a < r.n_taps; a++)
            for (int32_t b = 0; b < r.n_taps; b++) {
                const int64_t line = p.n * r.in_rows + row.index[a];
                const int64_t at = (line * r.in_columns + column.index[b]) * r.channels + p.channel;
                sum += (float)(row.weight[a] * column.weight[b]) * load(x, at);
            }
        store(y, i, sum);
    }
}

cudaError_t hrf_k_resize_image(struct hrf_k_array y, struct hrf_k_array x,
                               const struct hrf_k_resize *resize, cudaStream_t stream)
{
    const int64_t n = resize->n * resize->out_rows * resize->out_columns * resize->channels;
    return n == 0 ? cudaSuccess : LAUNCH(resize_image, n, stream, y, x, *resize, n);
}

/* ---- convolution ---- */

DEVICE void add_product(convolved &s, const hrf_k_array &x, int64_t at, const void *w,
                        int64_t weight)
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

DEVICE convolved convolve_one(const hrf_k_array &x, const void *w, const hrf_k_convolution &c,
                              const pixel &p)
{
    const hrf_k_window &win = c.window;
    const int64_t per_group = win.channels / c.group;
    const int64_t first = p.channel / (c.out_channels / c.group) * per_group;
    convolved s = { 0, 0 };
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

DEVICE float finish_sum(const convolved &s, const hrf_k_array &x, const hrf_k_array &residual,
                        const hrf_k_convolution &c, int64_t channel, int64_t at)
{
    const float bias = c.bias != nullptr ? c.bias[channel] : 0.0f;
    const float scale = c.scale != nullptr ? c.scale[channel] : 1.0f;
    float v = scale_sum(s, is_integer(x), bias, scale);
    if (c.row_scale != nullptr)
        v = (float)s.integers * scale * c.row_scale[at / c.out_channels] + bias;
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
            store(y, i, formula_behind(c.formula, v));
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
