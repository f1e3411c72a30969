/* depthwise.cu - convolutions of each channel by itself, for which cuDNN 9.19 has no engine in 8
 * bits, and none in 16 bits with a bias.
 *
 * A thread has 16 bytes of channels of some neighbouring pixels of a row: it reads a weight once
 * for all of them, and x in units of 16 bytes, which neighbouring threads take from one line of the
 * cache. All numbers of a thread are in registers, 32 sums among them. A sum is made in the order
 * of hrf_k_convolve(), so both give the same bits. Products are written fmaf() where one rounding
 * is meant (-fmad=false). */
#include "engine/backend/cuda/convolve.cuh"

enum { SUMS = 32 }; /* of a thread */

DEVICE void add_product(float &sum, float x, float w, int32_t)
{
    sum = fmaf(x, w, sum);
}
DEVICE void add_product(float &sum, __half x, __half w, int32_t)
{
    sum = fmaf(__half2float(x), __half2float(w), sum);
}
DEVICE void add_product(float &sum, __nv_bfloat16 x, __nv_bfloat16 w, int32_t)
{
    sum = fmaf(__bfloat162float(x), __bfloat162float(w), sum);
}
DEVICE void add_product(int32_t &sum, int8_t x, int8_t w, int32_t zero_point)
{
    sum += (x - zero_point) * w;
}

DEVICE convolved of_sum(float sum)
{
    const convolved s = { sum, 0 };
    return s;
}
DEVICE convolved of_sum(int32_t sum)
{
    const convolved s = { 0, sum };
    return s;
}

/* What a residual adds is in units of y's step where it is an integer. */
DEVICE float residual_of(int8_t v, const hrf_k_array &residual)
{
    return (float)(v - residual.zero_point);
}
template <typename T> DEVICE float residual_of(T v, const hrf_k_array &)
{
    return widened(v);
}

DEVICE void finish(float v, const hrf_k_array &y, const hrf_k_convolution &, int8_t *to)
{
    *to = (int8_t)saturate(v, y.zero_point, -128, 127);
}
template <typename T>
DEVICE void finish(float v, const hrf_k_array &, const hrf_k_convolution &c, T *to)
{
    narrowed(formula_behind(c.formula, v), to);
}

struct place {
    int64_t n, row, column, channels; /* column: the first; channels: the first, in packs */
};

/* Thread i's: packs of channels innermost, then columns. */
template <int COLUMNS> DEVICE place place_of(int64_t i, const hrf_k_window &w, int64_t packs)
{
    const int64_t across = (w.out_columns + COLUMNS - 1) / COLUMNS;
    place p;
    p.channels = i % packs;
    p.column = i / packs % across * COLUMNS;
    p.row = i / packs / across % w.out_rows;
    p.n = i / packs / across / w.out_rows;
    return p;
}

/* SUM: float, or int32_t of 8-bit integers. */
template <typename T, typename SUM>
KERNEL depthwise(pack<T> *y, const pack<T> *x, const pack<T> *w, const pack<T> *residual,
                 hrf_k_array y_form, int32_t x_zero_point, hrf_k_array residual_form,
                 hrf_k_convolution c, int64_t packs, int64_t n)
{
    enum { N = pack<T>::N, COLUMNS = SUMS / N };
    FOR_EACH(i, n)
    {
        const hrf_k_window &win = c.window;
        const place p = place_of<COLUMNS>(i, win, packs);
        SUM sum[COLUMNS][N];
        UNROLL(COLUMNS)
        for (int k = 0; k < COLUMNS; k++)
            UNROLL(N)
        for (int j = 0; j < N; j++)
            sum[k][j] = 0;
        const int32_t stride = (int32_t)win.stride[1], step = (int32_t)packs;
        const int32_t in_columns = (int32_t)win.in_columns, taps = (int32_t)win.kernel[1];
        const int32_t left = (int32_t)(p.column * win.stride[1] - win.pad_begin[1]);
        for (int32_t r = 0; r < (int32_t)win.kernel[0]; r++) {
            const int64_t row = p.row * win.stride[0] - win.pad_begin[0] + r * win.dilation[0];
            if (row < 0 || row >= win.in_rows)
                continue;
            const pack<T> *line = x + (p.n * win.in_rows + row) * win.in_columns * packs +
                                  p.channels;
            const pack<T> *weights = w + r * win.kernel[1] * packs + p.channels;
            for (int32_t q = 0; q < taps; q++) {
                const pack<T> weight = weights[q * step];
                const int32_t first = left + q * (int32_t)win.dilation[1];
                UNROLL(COLUMNS)
                for (int k = 0; k < COLUMNS; k++) {
                    const int32_t column = first + k * stride;
                    if (column < 0 || column >= in_columns)
                        continue;
                    const pack<T> v = line[column * step];
                    UNROLL(N)
                    for (int j = 0; j < N; j++)
                        add_product(sum[k][j], v.at[j], weight.at[j], x_zero_point);
                }
            }
        }
        const int64_t at = ((p.n * win.out_rows + p.row) * win.out_columns + p.column) * packs +
                           p.channels;
        const int64_t here = win.out_columns - p.column; /* pixels of the row from here on */
        pack<T> v[COLUMNS];
        UNROLL(N)
        for (int j = 0; j < N; j++) {
            const int64_t channel = p.channels * N + j;
            const float bias = c.bias != nullptr ? c.bias[channel] : 0.0f;
            const float scale = sizeof(T) == 1 ? c.scale[channel] : 1.0f;
            UNROLL(COLUMNS)
            for (int k = 0; k < COLUMNS; k++) {
                float f = scale_sum(of_sum(sum[k][j]), sizeof(T) == 1, bias, scale);
                if (residual != nullptr && k < here)
                    f = fmaf(residual_of(residual[at + k * packs].at[j], residual_form),
                             c.residual_scale, f);
                finish(activate(f, c.epilogue), y_form, c, &v[k].at[j]);
            }
        }
        UNROLL(COLUMNS)
        for (int k = 0; k < COLUMNS; k++)
            if (k < here)
                y[at + k * packs] = v[k];
    }
}

template <typename T, typename SUM>
static cudaError_t launch(const hrf_k_array &y, const hrf_k_array &x, const void *w,
                          const hrf_k_array &residual, const hrf_k_convolution &c,
                          cudaStream_t stream)
{
    const int64_t columns = SUMS / pack<T>::N, packs = c.window.channels / pack<T>::N;
    const int64_t n = c.window.n * c.window.out_rows *
                      ((c.window.out_columns + columns - 1) / columns) * packs;
    typedef const pack<T> *in;
    return n == 0 ? cudaSuccess
                  : LAUNCH((depthwise<T, SUM>), n, stream, static_cast<pack<T> *>(y.data),
                           static_cast<in>(x.data), static_cast<in>(w),
                           static_cast<in>(residual.data), y, x.zero_point, residual, c, packs, n);
}

bool hrf_k_depthwise_fits(struct hrf_k_array y, struct hrf_k_array x, struct hrf_k_array residual,
                          const struct hrf_k_convolution *c)
{
    return c->is_transposed == 0 && c->row_scale == nullptr && c->group == c->window.channels &&
           c->out_channels == c->group && has_packs(y, x, c->group) &&
           c->window.in_columns * c->group < INT32_MAX && /* a line's offsets */
           (residual.data == nullptr || has_packs(residual, x, c->group));
}

cudaError_t hrf_k_depthwise(struct hrf_k_array y, struct hrf_k_array x, const void *w,
                            struct hrf_k_array residual,
                            const struct hrf_k_convolution *convolution, cudaStream_t stream)
{
    switch (x.type) {
    case HRF_K_F16:
        return launch<__half, float>(y, x, w, residual, *convolution, stream);
    case HRF_K_B16:
        return launch<__nv_bfloat16, float>(y, x, w, residual, *convolution, stream);
    case HRF_K_S8:
        return launch<int8_t, int32_t>(y, x, w, residual, *convolution, stream);
    default:
        return launch<float, float>(y, x, w, residual, *convolution, stream);
    }
}
