/* elements.cuh - what kernels share: elements of arrays as floats, activations, walks. */
#ifndef HRF_ENGINE_BACKEND_CUDA_ELEMENTS_CUH
#define HRF_ENGINE_BACKEND_CUDA_ELEMENTS_CUH

#include "engine/backend/cuda/kernels.h"

#include "engine/backend/cuda/kernel_launch.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <float.h>
#include <math.h>

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

DEVICE float clip(float v, float low, float high)
{
    return v < low ? low : v > high ? high : v;
}

/* ---- walks ---- */

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

static inline int64_t count_of(const hrf_k_walk &walk)
{
    int64_t n = 1;
    for (int32_t axis = 0; axis < walk.rank; axis++)
        n *= walk.dims[axis];
    return n;
}

/* ---- forms ---- */

static inline bool same_form(const hrf_k_array &a, const hrf_k_array &b)
{
    return a.type == b.type && a.scale == b.scale && a.zero_point == b.zero_point;
}

static inline int64_t size_of(const hrf_k_array &a)
{
    switch (a.type) {
    case HRF_K_S8:
    case HRF_K_U8:
        return 1;
    case HRF_K_F16:
    case HRF_K_B16:
        return 2;
    default:
        return 4;
    }
}

/* ---- packs: 16 bytes a thread, where channels lie innermost and come in whole ones ---- */

template <typename T> struct alignas(16) pack {
    enum { N = 16 / sizeof(T) };
    T at[N];
};

DEVICE float widened(int8_t v)
{
    return (float)v;
}
DEVICE float widened(float v)
{
    return v;
}
DEVICE float widened(__half v)
{
    return __half2float(v);
}
DEVICE float widened(__nv_bfloat16 v)
{
    return __bfloat162float(v);
}
DEVICE void narrowed(float v, float *to)
{
    *to = v;
}
DEVICE void narrowed(float v, __half *to)
{
    *to = __float2half_rn(v);
}
DEVICE void narrowed(float v, __nv_bfloat16 *to)
{
    *to = __float2bfloat16_rn(v);
}

/* ---- rounding ---- */

/* x / (1 + exp(-x)) times the other. */
DEVICE float swiglu(float x, float other)
{
    return x / (1 + expf(-x)) * other;
}

/* As stored in that type and read again. */
DEVICE float rounded_to(hrf_k_type type, float v)
{
    switch (type) {
    case HRF_K_B16:
        return __bfloat162float(__float2bfloat16_rn(v));
    case HRF_K_F16:
        return __half2float(__float2half_rn(v));
    default:
        return v;
    }
}

/* A warp rounds the row at(0), at(1), ... as hrf_k_round_rows() does; `at` is asked twice for each
 * number. */
template <typename NUMBERS>
DEVICE void round_row(int8_t *q, float *scale, int64_t depth, int64_t wide, const NUMBERS &at)
{
    float most = 0;
    for (int64_t k = LANE; k < depth; k += LANES)
        most = larger_or_nan(most, fabsf(at(k)));
    most = warp_most(most);
    const bool is_whole = most >= 0x1p-100f && most < INFINITY;
    const float inverse = is_whole ? 127.0f / most : 0.0f;
    for (int64_t k = LANE; k < wide; k += LANES)
        q[k] = (int8_t)(k < depth && is_whole ? rintf(at(k) * inverse) : 0.0f);
    if (LANE == 0)
        *scale = is_whole ? most / 127.0f : most < 0x1p-100f ? 0.0f : NAN;
}

static inline bool has_packs(const hrf_k_array &y, const hrf_k_array &x, int64_t channels)
{
    const uintptr_t addresses = reinterpret_cast<uintptr_t>(y.data) |
                                reinterpret_cast<uintptr_t>(x.data);
    return y.type == x.type && addresses % 16 == 0 && channels * size_of(x) % 16 == 0 &&
           x.type != HRF_K_U8 && x.type != HRF_K_S32;
}

#endif
