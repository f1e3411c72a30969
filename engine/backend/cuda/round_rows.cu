/* round_rows.cu - rows of floats to 8 bits, each by a scale of its own; of float32 with the bits of
 * the CPU (cpu/transformer/byte_product.h has the formula). A warp takes a row, which it reads
 * twice: the second time from the caches. */
#include "engine/backend/cuda/elements.cuh"

/* N numbers that are read, or written, at once. */
template <typename T, int N> struct alignas(sizeof(T) * N) some {
    T at[N];
};

template <typename T, int N>
DEVICE some<float, N> read_some(const T *x, const float *factors, int64_t k)
{
    const some<T, N> raw = *reinterpret_cast<const some<T, N> *>(x + k);
    some<float, N> numbers;
    for (int i = 0; i < N; i++) {
        numbers.at[i] = widened(raw.at[i]);
        if (factors != nullptr)
            numbers.at[i] *= factors[k + i];
    }
    return numbers;
}

template <typename T, int N>
KERNEL round_rows(int8_t *q, float *scales, const T *x, const float *factors, int64_t depth,
                  int64_t wide, int64_t n)
{
    FOR_EACH_WARP(row, n)
    {
        float most = 0;
        for (int64_t k = LANE * N; k < depth; k += LANES * N) {
            const some<float, N> numbers = read_some<T, N>(x + row * depth, factors, k);
            for (int i = 0; i < N; i++)
                most = larger_or_nan(most, fabsf(numbers.at[i]));
        }
        most = warp_most(most);
        const bool is_whole = most >= 0x1p-100f && most < INFINITY;
        const float inverse = is_whole ? 127.0f / most : 0.0f;
        for (int64_t k = LANE * N; k < wide; k += LANES * N) {
            some<int8_t, N> rounded = {};
            if (k < depth && is_whole) {
                const some<float, N> numbers = read_some<T, N>(x + row * depth, factors, k);
                for (int i = 0; i < N; i++)
                    rounded.at[i] = (int8_t)rintf(numbers.at[i] * inverse);
            }
            *reinterpret_cast<some<int8_t, N> *>(q + row * wide + k) = rounded;
        }
        if (LANE == 0)
            scales[row] = is_whole ? most / 127.0f : most < 0x1p-100f ? 0.0f : NAN;
    }
}

template <typename T, int N>
static cudaError_t round_by(int8_t *q, float *scales, const void *x, const float *factors,
                            int64_t n_rows, int64_t depth, int64_t wide, cudaStream_t stream)
{
    const uintptr_t addresses = reinterpret_cast<uintptr_t>(q) | reinterpret_cast<uintptr_t>(x);
    const T *rows = static_cast<const T *>(x);
    if (depth % N == 0 && wide % N == 0 && addresses % 16 == 0)
        return LAUNCH_WARPS((round_rows<T, N>), n_rows, stream, q, scales, rows, factors, depth,
                            wide, n_rows);
    return LAUNCH_WARPS((round_rows<T, 1>), n_rows, stream, q, scales, rows, factors, depth, wide,
                        n_rows);
}

/* The bits of the two passes: what the first would store is rounded to its type here, too. */
KERNEL swiglu_rows(int8_t *q, float *scales, hrf_k_array x, hrf_k_swiglu_rows_form f, int64_t n)
{
    FOR_EACH_WARP(row, n)
    {
        const int64_t gate = row * 2 * f.depth, other = gate + f.depth;
        round_row(q + row * f.wide, scales + row, f.depth, f.wide, [&](int64_t k) {
            const float v = rounded_to(f.between, swiglu(load(x, gate + k), load(x, other + k)));
            return f.factors != nullptr ? v * f.factors[k] : v;
        });
    }
}

cudaError_t hrf_k_swiglu_rows(int8_t *q, float *scales, struct hrf_k_array x,
                              const struct hrf_k_swiglu_rows_form *form, int64_t n_rows,
                              cudaStream_t stream)
{
    return n_rows == 0 ? cudaSuccess
                       : LAUNCH_WARPS(swiglu_rows, n_rows, stream, q, scales, x, *form, n_rows);
}

cudaError_t hrf_k_round_rows(int8_t *q, float *scales, struct hrf_k_array x, const float *factors,
                             int64_t n_rows, int64_t depth, int64_t wide, cudaStream_t stream)
{
    if (n_rows == 0)
        return cudaSuccess;
    if (x.type == HRF_K_B16)
        return round_by<__nv_bfloat16, 8>(q, scales, x.data, factors, n_rows, depth, wide, stream);
    if (x.type == HRF_K_F16)
        return round_by<__half, 8>(q, scales, x.data, factors, n_rows, depth, wide, stream);
    return round_by<float, 4>(q, scales, x.data, factors, n_rows, depth, wide, stream);
}
