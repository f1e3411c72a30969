/* pointwise.cu - functions of single numbers, and numbers that only move or change their type.
 * Grid-stride loops, one output an iteration. Products are written fmaf() where one rounding is
 * meant: nvcc would join others as it likes, so the build tells it not to (-fmad=false). */
#include "engine/backend/cuda/elements.cuh"

/* exp() and the others are those of float: C++ chooses them by their argument. */
#define CASE(OP, FORMULA)                                                                          \
    case HRF_K_##OP:                                                                               \
        return FORMULA;

DEVICE float of_two(hrf_k_math math, float a, float b)
{
    switch (math) {
        HRF_BINARY_FORMULAS(CASE)
    default: /* SWIGLU */
        return swiglu(a, b);
    }
}

DEVICE float of_one(const hrf_k_function &f, float x)
{
    const float alpha = f.alpha, beta = f.beta;
    switch (f.math) {
        HRF_FORMULAS(CASE)
    default: /* COPY */
        return x;
    }
}
#undef CASE

KERNEL pointwise(hrf_k_function function, hrf_k_array y, hrf_k_array a, hrf_k_array b,
                 hrf_k_walk walk, hrf_k_epilogue epilogue, int64_t n)
{
    FOR_EACH(i, n)
    {
        const offsets o = seek(walk, i);
        const float v = b.data != nullptr ? of_two(function.math, load(a, o.a), load(b, o.b))
                                          : of_one(function, load(a, o.a));
        store(y, o.y, activate(v, epilogue));
    }
}

KERNEL where(hrf_k_array y, const uint8_t *condition, hrf_k_array a, hrf_k_array b, hrf_k_walk walk,
             hrf_k_walk of_condition, int64_t n)
{
    FOR_EACH(i, n)
    {
        const offsets o = seek(walk, i);
        store(y, o.y, condition[seek(of_condition, i).a] != 0 ? load(a, o.a) : load(b, o.b));
    }
}

cudaError_t hrf_k_where(struct hrf_k_array y, const uint8_t *condition, struct hrf_k_array a,
                        struct hrf_k_array b, const struct hrf_k_walk *walk,
                        const struct hrf_k_walk *of_condition, cudaStream_t stream)
{
    const int64_t n = count_of(*walk);
    return n == 0 ? cudaSuccess
                  : LAUNCH(where, n, stream, y, condition, a, b, *walk, *of_condition, n);
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

struct alignas(16) sixteen {
    uint64_t halves[2];
};

/* Whether the copy is one of units of `size` bytes: runs along the innermost axis, and all that
 * lies between two runs, are whole ones. */
static bool has_units(const hrf_k_array &y, const hrf_k_array &a, const hrf_k_walk &walk,
                      int64_t size)
{
    const int64_t element = size_of(y), last = walk.rank - 1;
    if (reinterpret_cast<uintptr_t>(y.data) % (uintptr_t)size != 0 ||
        reinterpret_cast<uintptr_t>(a.data) % (uintptr_t)size != 0)
        return false;
    if (size == element)
        return true;
    if (walk.rank == 0 || walk.y[last] != 1 || walk.a[last] != 1 ||
        walk.dims[last] * element % size != 0)
        return false;
    for (int64_t i = 0; i < last; i++)
        if (walk.y[i] * element % size != 0 || walk.a[i] * element % size != 0)
            return false;
    return true;
}

template <typename T>
static cudaError_t copy_units(const hrf_k_array &y, const hrf_k_array &a, hrf_k_walk walk,
                              cudaStream_t stream)
{
    const int64_t unit = (int64_t)sizeof(T) / size_of(y); /* elements */
    if (unit > 1) {
        walk.dims[walk.rank - 1] /= unit;
        for (int32_t i = 0; i < walk.rank - 1; i++) {
            walk.y[i] /= unit;
            walk.a[i] /= unit;
        }
    }
    const int64_t n = count_of(walk);
    return LAUNCH(copy<T>, n, stream, static_cast<T *>(y.data), static_cast<const T *>(a.data),
                  walk, n);
}

static cudaError_t launch_copy(const hrf_k_array &y, const hrf_k_array &a, const hrf_k_walk &walk,
                               cudaStream_t stream)
{
    if (has_units(y, a, walk, 16))
        return copy_units<sixteen>(y, a, walk, stream);
    if (has_units(y, a, walk, 4))
        return copy_units<uint32_t>(y, a, walk, stream);
    if (size_of(y) == 2)
        return copy_units<uint16_t>(y, a, walk, stream);
    return copy_units<uint8_t>(y, a, walk, stream);
}

template <typename T>
KERNEL gather_rows(T *y, const T *x, const int32_t *rows, int64_t size, int64_t n)
{
    FOR_EACH(i, n)
    y[i] = x[rows[i / size] * size + i % size];
}

template <typename T>
static cudaError_t gather_units(const hrf_k_array &y, const hrf_k_array &x, const int32_t *rows,
                                int64_t n_rows, int64_t row_bytes, cudaStream_t stream)
{
    const int64_t size = row_bytes / (int64_t)sizeof(T), n = n_rows * size;
    return LAUNCH(gather_rows<T>, n, stream, static_cast<T *>(y.data),
                  static_cast<const T *>(x.data), rows, size, n);
}

cudaError_t hrf_k_gather_rows(struct hrf_k_array y, struct hrf_k_array x, const int32_t *rows,
                              int64_t n_rows, int64_t size, cudaStream_t stream)
{
    const int64_t row_bytes = size * size_of(y);
    const uintptr_t addresses = reinterpret_cast<uintptr_t>(y.data) |
                                reinterpret_cast<uintptr_t>(x.data) | (uintptr_t)row_bytes;
    if (n_rows == 0 || size == 0)
        return cudaSuccess;
    if (addresses % 16 == 0)
        return gather_units<sixteen>(y, x, rows, n_rows, row_bytes, stream);
    if (addresses % 4 == 0)
        return gather_units<uint32_t>(y, x, rows, n_rows, row_bytes, stream);
    return gather_units<uint8_t>(y, x, rows, n_rows, row_bytes, stream);
}

cudaError_t hrf_k_pointwise(const struct hrf_k_function *function, struct hrf_k_array y,
                            struct hrf_k_array a, struct hrf_k_array b,
                            const struct hrf_k_walk *walk, const struct hrf_k_epilogue *epilogue,
                            cudaStream_t stream)
{
    const int64_t n = count_of(*walk);
    if (n == 0)
        return cudaSuccess;
    if (function->math == HRF_K_COPY && epilogue->activation == HRF_K_NONE && same_form(y, a))
        return launch_copy(y, a, *walk, stream);
    return LAUNCH(pointwise, n, stream, *function, y, a, b, *walk, *epilogue, n);
}

cudaError_t hrf_k_copy(struct hrf_k_array y, struct hrf_k_array a, const struct hrf_k_walk *walk,
                       cudaStream_t stream)
{
    const struct hrf_k_function function = { HRF_K_COPY, 0, 0 };
    const struct hrf_k_epilogue nothing = { HRF_K_NONE, 0, 0, 0 };
    return hrf_k_pointwise(&function, y, a, (struct hrf_k_array){ nullptr, HRF_K_F32, 1, 0 }, walk,
                           &nothing, stream);
}

KERNEL depth_to_space(hrf_k_array y, hrf_k_array x, hrf_k_blocks f, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t c = i % f.out_channels, column = i / f.out_channels % f.out_columns;
        const int64_t row = i / f.out_channels / f.out_columns % f.out_rows;
        const int64_t image = i / f.out_channels / f.out_columns / f.out_rows;
        const int64_t r = row + f.skip[0], q = column + f.skip[1], area = f.block * f.block;
        const int64_t in_block = r % f.block * f.block + q % f.block;
        const int64_t channel = f.column_row_depth != 0 ? c * area + in_block
                                                        : in_block * f.out_channels + c;
        const int64_t pixel = (image * f.in_rows + r / f.block) * f.in_columns + q / f.block;
        store(y, i, load(x, pixel * f.out_channels * area + channel));
    }
}

cudaError_t hrf_k_depth_to_space(struct hrf_k_array y, struct hrf_k_array x,
                                 const struct hrf_k_blocks *form, cudaStream_t stream)
{
    const int64_t n = form->n * form->out_rows * form->out_columns * form->out_channels;
    return n == 0 ? cudaSuccess : LAUNCH(depth_to_space, n, stream, y, x, *form, n);
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

KERNEL fill_pattern(hrf_k_array y, uint64_t seed, int32_t most, float step, int64_t n)
{
    FOR_EACH(i, n)
    store(y, i, (float)hrf_k_pattern(seed, i, most) * step);
}

cudaError_t hrf_k_fill_pattern(struct hrf_k_array y, int64_t n, uint64_t seed, int32_t most,
                               float step, cudaStream_t stream)
{
    return n == 0 ? cudaSuccess : LAUNCH(fill_pattern, n, stream, y, seed, most, step, n);
}

KERNEL keep_busy(uint64_t ns)
{
    compute_for(ns);
}

cudaError_t hrf_k_keep_busy(float ms, cudaStream_t stream)
{
    return LAUNCH(keep_busy, 1 << 18 /* threads: no GPU holds more at once */, stream,
                  (uint64_t)(ms * 1e6f));
}

/* ---- a factor and a shift for each channel ---- */

DEVICE float affine_one(float x, float scale, float shift, const hrf_k_epilogue &epilogue)
{
    return activate(fmaf(x, scale, shift), epilogue);
}

/* Of integers, in steps: two roundings, as integer.c has them. */
DEVICE float affine_steps(float q, float scale, float shift, const hrf_k_epilogue &epilogue)
{
    return activate(q * scale + shift, epilogue);
}

KERNEL affine(hrf_k_array y, hrf_k_array x, const float *scale, const float *shift,
              int64_t channels, int64_t inner, hrf_k_epilogue epilogue, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t c = i / inner % channels;
        if (is_integer(x) && is_integer(y))
            store_steps(y, i,
                        affine_steps((float)(load_integer(x, i) - x.zero_point), scale[c], shift[c],
                                     epilogue));
        else
            store(y, i, affine_one(load(x, i), scale[c], shift[c], epilogue));
    }
}

template <typename T>
KERNEL affine_packs(pack<T> *y, const pack<T> *x, const float *scale, const float *shift,
                    int64_t packs, hrf_k_epilogue epilogue, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t c = i % packs * pack<T>::N;
        pack<T> v = x[i];
        for (int k = 0; k < pack<T>::N; k++)
            narrowed(affine_one(widened(v.at[k]), scale[c + k], shift[c + k], epilogue), &v.at[k]);
        y[i] = v;
    }
}

KERNEL affine_integer_packs(hrf_k_array y, const pack<int8_t> *x, int32_t zero_point,
                            const float *scale, const float *shift, int64_t packs,
                            hrf_k_epilogue epilogue, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t c = i % packs * pack<int8_t>::N;
        pack<int8_t> v = x[i];
        for (int k = 0; k < pack<int8_t>::N; k++)
            v.at[k] = (int8_t)saturate(
                affine_steps((float)(v.at[k] - zero_point), scale[c + k], shift[c + k], epilogue),
                y.zero_point, -128, 127);
        static_cast<pack<int8_t> *>(y.data)[i] = v;
    }
}

template <typename T>
static cudaError_t launch_packs(const hrf_k_array &y, const hrf_k_array &x, const float *scale,
                                const float *shift, int64_t channels, int64_t pixels,
                                const hrf_k_epilogue &epilogue, cudaStream_t stream)
{
    const int64_t packs = channels / pack<T>::N, n = pixels * packs;
    return LAUNCH(affine_packs<T>, n, stream, static_cast<pack<T> *>(y.data),
                  static_cast<const pack<T> *>(x.data), scale, shift, packs, epilogue, n);
}

cudaError_t hrf_k_affine(struct hrf_k_array y, struct hrf_k_array x, const float *scale,
                         const float *shift, int64_t outer, int64_t channels, int64_t inner,
                         const struct hrf_k_epilogue *epilogue, cudaStream_t stream)
{
    const int64_t n = outer * channels * inner;
    if (n == 0)
        return cudaSuccess;
    if (inner != 1 || !has_packs(y, x, channels))
        return LAUNCH(affine, n, stream, y, x, scale, shift, channels, inner, *epilogue, n);
    switch (x.type) {
    case HRF_K_F16:
        return launch_packs<__half>(y, x, scale, shift, channels, outer, *epilogue, stream);
    case HRF_K_B16:
        return launch_packs<__nv_bfloat16>(y, x, scale, shift, channels, outer, *epilogue, stream);
    case HRF_K_S8:
        return LAUNCH(affine_integer_packs, n / pack<int8_t>::N, stream, y,
                      static_cast<const pack<int8_t> *>(x.data), x.zero_point, scale, shift,
                      channels / pack<int8_t>::N, *epilogue, n / pack<int8_t>::N);
    default:
        return launch_packs<float>(y, x, scale, shift, channels, outer, *epilogue, stream);
    }
}

/* ---- pixels ---- */

struct pixel_form {
    float scale[3], shift[3];
};

KERNEL normalise(hrf_k_array y, const uint8_t *x, pixel_form form, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t c = i % 3;
        store(y, i, fmaf((float)x[i], form.scale[c], form.shift[c]));
    }
}

cudaError_t hrf_k_normalise(struct hrf_k_array y, const uint8_t *x, int64_t pixels,
                            const float scale[3], const float shift[3], cudaStream_t stream)
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
