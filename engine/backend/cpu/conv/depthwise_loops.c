/* depthwise_loops.c - see depthwise.h; compiled once for each instruction set, whose name is
 * HRF_INSTRUCTION_SET. The compiler must not contract multiplications and additions, so that 8-bit
 * results are the same with every instruction set. */
#include "engine/backend/cpu/conv/depthwise.h"

#include "base/inline.h"
#include "engine/backend/cpu/conv/depthwise_lanes.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/ir/number.h"

#ifdef __AVX512F__
#include "engine/backend/cpu/avx512/epilogue_avx512.h"
#endif

#include <math.h>
#include <string.h>

#define JOIN(what, set)     hrf_depthwise_##what##_##set
#define EXPAND(what, set)   JOIN(what, set)
#define HRF_DEPTHWISE(what) EXPAND(what, HRF_INSTRUCTION_SET)

/* ---- input ---- */

/* Inlined for each type. */
HRF_ALWAYS_INLINE void widen_block(const enum hrf_dtype type, int32_t zero_point, const char *x,
                                   int64_t n, float *to)
{
#ifdef __AVX512F__
    const __mmask16 mask = hrf_first_lanes_avx512(n);
    if (type != HRF_S8 && type != HRF_U8) {
        _mm512_store_ps(to, hrf_load_avx512(type, x, mask));
        return;
    }
    const __m128i bytes = _mm_maskz_loadu_epi8(mask, x);
    const __m512i wide = type == HRF_S8 ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
    const __m512i zero = _mm512_set1_epi32(zero_point);
    _mm512_store_ps(to, _mm512_maskz_cvtepi32_ps(mask, _mm512_sub_epi32(wide, zero)));
#else
    if (n < LANES)
        memset(to, 0, LANES * sizeof *to);
    if (type == HRF_S8)
        for (int64_t c = 0; c < n; c++)
            to[c] = (float)(((const int8_t *)x)[c] - zero_point);
    else if (type == HRF_U8)
        for (int64_t c = 0; c < n; c++)
            to[c] = (float)(((const uint8_t *)x)[c] - zero_point);
    else if (type == HRF_F32 && n == LANES)
        memcpy(to, x, LANES * sizeof *to); /* of a constant size: a few moves in place of a call */
    else
        hrf_floats_from(type, x, to, n);
#endif
}

/* Meanwhile the pixel `ahead` bytes further is prefetched, one cache line at a time. */
HRF_ALWAYS_INLINE void widen_as(const enum hrf_dtype type,
                                const struct hrf_depthwise_pixels *pixels, const char *x, int64_t n,
                                int64_t n_channels, float *to, int64_t block_step)
{
    const int64_t size = type == HRF_F32 ? 4 : type == HRF_F16 || type == HRF_B16 ? 2 : 1;
    const int64_t step = pixels->stride * size, ahead = pixels->ahead;
    const int64_t whole = n_channels / LANES, rest = n_channels - whole * LANES;
    const int32_t zero = pixels->zero_point;
    for (int64_t i = 0; i < n; i++, x += step, to += LANES) {
        const char *from = x;
        float *line = to;
        for (int64_t at = 0; at < n_channels * size; at += 64)
            __builtin_prefetch(x + ahead + at);
        for (int64_t b = 0; b < whole; b++, from += LANES * size, line += block_step)
            widen_block(type, zero, from, LANES, line);
        if (rest > 0)
            widen_block(type, zero, from, rest, line);
    }
}

#define WIDEN(type)                                                                                \
    case type:                                                                                     \
        widen_as(type, pixels, x, n, n_channels, to, block_step);                                  \
        break;

void HRF_DEPTHWISE(widen)(const struct hrf_depthwise_pixels *pixels, const void *x, int64_t n,
                          int64_t n_channels, float *to, int64_t block_step)
{
    switch (pixels->type) {
        WIDEN(HRF_F32)
        WIDEN(HRF_F16)
        WIDEN(HRF_B16)
        WIDEN(HRF_S8)
        WIDEN(HRF_U8)
    default:
        break;
    }
}

/* ---- sums ---- */

enum { MOST_OUTPUTS = 12 }; /* of a tile, whose sums are kept in registers */

/* True if a line's outputs are finished while their sums are in registers: floats with no more than
 * bias and bounds. */
static bool is_direct(const struct hrf_depthwise_finish *f)
{
#ifdef __AVX512F__
    return f->requantize == NULL && f->residual == NULL &&
           f->epilogue->activation <= HRF_ACT_CLIP &&
           (f->type == HRF_F32 || (f->type == HRF_B16 && f->has_bf16));
#else
    (void)f;
    return false;
#endif
}

#ifdef __AVX512F__
HRF_ALWAYS_INLINE void finish_directly(const struct hrf_depthwise_finish *f, int64_t first,
                                       const int n, const lanes *sum)
{
    const struct hrf_epilogue *e = f->epilogue;
    const bool clips = e->activation == HRF_ACT_CLIP, is_float = f->type == HRF_F32;
    const __m512 low = _mm512_set1_ps(clips                           ? e->low
                                      : e->activation == HRF_ACT_RELU ? 0
                                                                      : -INFINITY);
    const __m512 high = _mm512_set1_ps(clips ? e->high : INFINITY), bias = _mm512_loadu_ps(f->bias);
    const __mmask16 mask = hrf_first_lanes_avx512(f->n_channels);
    const int64_t step = f->stride * (is_float ? 4 : 2);
    char *y = (char *)f->y + first * step;
#pragma GCC unroll 12
    for (int i = 0; i < n; i++, y += step) {
        const __m512 x = _mm512_min_ps(high, _mm512_max_ps(low, _mm512_add_ps(sum[i], bias)));
        if (is_float)
            _mm512_mask_storeu_ps(y, mask, x);
        else
            _mm256_mask_storeu_epi16(y, mask, hrf_narrow_b16_avx512(x));
        __builtin_prefetch(y + f->ahead, 1);
    }
}
#endif

/* Inlined for each number of outputs and stride, so that the sums stay in registers. `direct`: NULL
 * if the sums are stored. */
HRF_ALWAYS_INLINE void tile(const struct hrf_depthwise_line *line, int64_t first, const int n,
                            const int64_t stride, const struct hrf_depthwise_finish *direct,
                            float *sums)
{
    for (int part = 0; part < LANES; part += WIDTH) {
        lanes sum[MOST_OUTPUTS];
#pragma GCC unroll 12
        for (int i = 0; i < n; i++)
            sum[i] = ZERO;
        const float *w = line->weights + part;
        for (int64_t r = 0; r < line->window_rows; r++) {
            if (line->rows[r] == NULL) {
                w += line->window_columns * LANES;
                continue;
            }
            const float *x = line->rows[r] + first * stride * LANES + part;
            for (int64_t c = 0; c < line->window_columns; c++) {
                const lanes weight = LOAD(w);
#pragma GCC unroll 12
                for (int i = 0; i < n; i++)
                    sum[i] = MULTIPLY(weight, LOAD(x + i * stride * LANES), sum[i]);
                w += LANES;
                x += line->dilation * LANES;
            }
        }
#ifdef __AVX512F__
        if (direct != NULL) {
            finish_directly(direct, first, n, sum);
            continue;
        }
#endif
#pragma GCC unroll 12
        for (int i = 0; i < n; i++)
            STORE(sums + (first + i) * LANES + part, sum[i]);
    }
    (void)direct;
}

#define TILE(n)                                                                                    \
    case n:                                                                                        \
        tile(line, first, n, stride, direct, sums);                                                \
        break;

HRF_ALWAYS_INLINE void tiles(const struct hrf_depthwise_line *line, const int64_t stride,
                             const struct hrf_depthwise_finish *direct, float *sums)
{
    const int64_t n_tiles = (line->n + MOST_OUTPUTS - 1) / MOST_OUTPUTS;
    for (int64_t i = 0; i < n_tiles; i++) {
        const int64_t first = line->n * i / n_tiles;
        switch (line->n * (i + 1) / n_tiles - first) {
            TILE(1)
            TILE(2)
            TILE(3)
            TILE(4)
            TILE(5)
            TILE(6)
            TILE(7)
            TILE(8)
            TILE(9)
            TILE(10)
            TILE(11)
            TILE(12)
        default:
            break;
        }
    }
}

static void sum_line(const struct hrf_depthwise_line *line,
                     const struct hrf_depthwise_finish *direct, float *sums)
{
    if (line->stride == 1)
        tiles(line, 1, direct, sums);
    else if (line->stride == 2)
        tiles(line, 2, direct, sums);
    else
        tiles(line, line->stride, direct, sums);
}

/* ---- output in floats ---- */

#ifdef __AVX512F__
HRF_ALWAYS_INLINE void store(enum hrf_dtype type, bool narrows, char *y, __mmask16 mask, __m512 x)
{
    if (narrows)
        _mm256_mask_storeu_epi16(y, mask, hrf_narrow_b16_avx512(x));
    else
        hrf_store_avx512(type, y, mask, x);
}

/* Inlined for each type. */
HRF_ALWAYS_INLINE void finish_as(const enum hrf_dtype type, const bool adds, const bool waits,
                                 const struct hrf_depthwise_finish *f, float *sums)
{
    const struct hrf_epilogue *e = f->epilogue;
    const bool narrows = type == HRF_B16 && f->has_bf16;
    const __mmask16 mask = hrf_first_lanes_avx512(f->n_channels);
    const __m512 bias = _mm512_loadu_ps(f->bias);
    const int64_t step = f->stride * (type == HRF_F32 ? 4 : 2), n = f->n, ahead = f->ahead;
    char *y = f->y;
    const char *residual = f->residual;
    for (int64_t i = 0; i < n; i++) {
        __m512 x = _mm512_add_ps(_mm512_load_ps(sums + i * LANES), bias);
        if (adds)
            x = _mm512_add_ps(x, hrf_load_avx512(type, residual + i * step, mask));
        if (waits)
            _mm512_store_ps(sums + i * LANES, x);
        else
            store(type, narrows, y + i * step, mask, hrf_activate_avx512(x, e));
        __builtin_prefetch(y + ahead + i * step, 1);
    }
    if (!waits)
        return;
    hrf_activate_sums_avx512(sums, n, e);
    for (int64_t i = 0; i < n; i++)
        store(type, narrows, y + i * step, mask, _mm512_load_ps(sums + i * LANES));
}

static void finish_floats(const struct hrf_depthwise_finish *f, float *sums)
{
    const bool waits = hrf_has_function(f->epilogue);
    if (f->type == HRF_B16)
        finish_as(HRF_B16, f->residual != NULL, waits, f, sums);
    else if (f->type == HRF_F16)
        finish_as(HRF_F16, f->residual != NULL, waits, f, sums);
    else if (f->residual != NULL)
        finish_as(HRF_F32, true, waits, f, sums);
    else if (waits)
        finish_as(HRF_F32, false, true, f, sums);
    else
        finish_as(HRF_F32, false, false, f, sums);
}
#else
static void *at(const void *pixels, enum hrf_dtype type, int64_t i)
{
    return (char *)(uintptr_t)pixels + i * (int64_t)hrf_dtype_size(type);
}

static void finish_floats(const struct hrf_depthwise_finish *f, float *sums)
{
    const struct hrf_epilogue *e = f->epilogue;
    const struct hrf_attributes activation = { .activation = e->activation,
                                               .activation_min = e->low,
                                               .activation_max = e->high,
                                               .alpha = e->slope,
                                               .beta = e->offset };
    for (int64_t i = 0; i < f->n; i++) {
        float residual[LANES] = { 0 }, *to = sums + i * LANES;
        for (int c = 0; c < LANES; c++)
            to[c] += f->bias[c];
        if (f->residual == NULL)
            continue;
        hrf_floats_from(f->residual_type, at(f->residual, f->residual_type, i * f->stride),
                        residual, f->n_channels);
        for (int c = 0; c < LANES; c++)
            to[c] += residual[c];
    }
    hrf_cpu_activate(&activation, sums, f->n * LANES);
    const bool is_whole = f->type == HRF_F32 && f->n_channels == LANES;
    for (int64_t i = 0; i < f->n && is_whole; i++)
        memcpy((float *)f->y + i * f->stride, sums + i * LANES, LANES * sizeof *sums);
    for (int64_t i = 0; i < f->n && !is_whole; i++)
        hrf_floats_to(f->type, sums + i * LANES, at(f->y, f->type, i * f->stride), f->n_channels);
}
#endif

/* ---- output in 8 bits: the steps of struct hrf_requantize ---- */

#ifdef __AVX512F__
struct bounds {
    __m512 low, high;
};

/* The bounds of the output's type combined with those of RELU or CLIP. */
static struct bounds bounds_of(const struct hrf_depthwise_finish *f)
{
    const struct hrf_requantize *r = f->requantize;
    const bool is_float = f->type == HRF_F32;
    const int32_t least = f->type == HRF_S8 ? -128 : 0;
    const float lowest = is_float ? -INFINITY : (float)(least - f->zero_point);
    const float highest = is_float ? INFINITY : (float)(least + 255 - f->zero_point);
    float low = lowest, high = highest;
    if (r->activation == HRF_ACT_RELU)
        low = low < 0 ? 0 : low;
    if (r->activation == HRF_ACT_CLIP) {
        low = r->low < lowest ? lowest : r->low > highest ? highest : r->low;
        high = r->high < lowest ? lowest : r->high > highest ? highest : r->high;
    }
    return (struct bounds){ _mm512_set1_ps(low), _mm512_set1_ps(high) };
}

/* Inlined for each combination of the constants. */
HRF_ALWAYS_INLINE void finish_steps_as(const bool to_bytes, const bool adds, const bool is_leaky,
                                       const struct hrf_depthwise_finish *f, float *sums)
{
    const struct hrf_requantize *r = f->requantize;
    const struct bounds bounds = bounds_of(f);
    const __mmask16 mask = hrf_first_lanes_avx512(f->n_channels);
    const __m512 bias = _mm512_loadu_ps(f->bias), multiplier = _mm512_loadu_ps(f->multiplier);
    const __m512 slope = _mm512_set1_ps(r->slope), scale = _mm512_set1_ps(r->residual_scale);
    const __m512i zero = _mm512_set1_epi32(f->zero_point);
    const int64_t n = f->n, step = f->stride * (to_bytes ? 1 : 4), stride = f->stride;
    const char *residual = f->residual;
    char *y = f->y;
    for (int64_t i = 0; i < n; i++) {
        __m512 t = _mm512_mul_ps(_mm512_add_ps(_mm512_load_ps(sums + i * LANES), bias), multiplier);
        if (adds) {
            _Alignas(64) float steps[LANES];
            if (f->residual_type == HRF_S8)
                widen_block(HRF_S8, r->residual_zero_point, residual + i * stride, f->n_channels,
                            steps);
            else
                widen_block(HRF_U8, r->residual_zero_point, residual + i * stride, f->n_channels,
                            steps);
            const __m512 value = _mm512_load_ps(steps);
            t = r->residual_scale == 1.0f ? _mm512_add_ps(t, value)
                                          : _mm512_fmadd_ps(value, scale, t);
        }
        if (is_leaky)
            t = _mm512_mask_mul_ps(t, _mm512_cmp_ps_mask(t, _mm512_setzero_ps(), _CMP_NGE_UQ), t,
                                   slope);
        /* A NaN, which only absurd scales produce, becomes 0 as in struct hrf_requantize. */
        const __mmask16 is_number = _mm512_cmp_ps_mask(t, t, _CMP_ORD_Q);
        t = _mm512_min_ps(_mm512_max_ps(t, bounds.low), bounds.high);
        if (to_bytes) {
            const __m512i q = _mm512_add_epi32(_mm512_maskz_cvtps_epi32(is_number, t), zero);
            _mm_mask_storeu_epi8(y + i * step, mask, _mm512_cvtepi32_epi8(q));
        } else {
            _mm512_mask_storeu_ps(y + i * step, mask, t);
        }
    }
}

static void finish_steps(const struct hrf_depthwise_finish *f, float *sums)
{
    const bool is_leaky = f->requantize->activation == HRF_ACT_LEAKY_RELU;
    const bool adds = f->residual != NULL;
    if (f->type == HRF_F32)
        finish_steps_as(false, adds, is_leaky, f, sums);
    else if (adds)
        finish_steps_as(true, true, is_leaky, f, sums);
    else if (is_leaky)
        finish_steps_as(true, false, true, f, sums);
    else
        finish_steps_as(true, false, false, f, sums);
}
#else
static void widen_residual(const struct hrf_depthwise_finish *f, int64_t i, float *steps)
{
    const char *residual = at(f->residual, f->residual_type, i * f->stride);
    if (f->residual_type == HRF_S8)
        widen_block(HRF_S8, f->requantize->residual_zero_point, residual, f->n_channels, steps);
    else
        widen_block(HRF_U8, f->requantize->residual_zero_point, residual, f->n_channels, steps);
}

static void add_steps(const struct hrf_requantize *r, const float *steps, float *t)
{
    if (r->residual_scale == 1.0f)
        for (int c = 0; c < LANES; c++)
            t[c] += steps[c];
    else
        for (int c = 0; c < LANES; c++)
            t[c] = fmaf(steps[c], r->residual_scale, t[c]);
}

static void activate_steps(const struct hrf_requantize *r, float *t)
{
    switch (r->activation) {
    case HRF_ACT_RELU:
        for (int c = 0; c < LANES; c++)
            t[c] = t[c] > 0 ? t[c] : 0;
        break;
    case HRF_ACT_CLIP:
        for (int c = 0; c < LANES; c++)
            t[c] = t[c] < r->low ? r->low : t[c] > r->high ? r->high : t[c];
        break;
    case HRF_ACT_LEAKY_RELU:
        for (int c = 0; c < LANES; c++)
            t[c] = t[c] >= 0 ? t[c] : t[c] * r->slope;
        break;
    default:
        break;
    }
}

/* Rounds half to even and saturates. Values are clipped first, so that adding and subtracting 1.5 *
 * 2^23 rounds them. */
static void narrow(const struct hrf_depthwise_finish *f, const float *t, uint8_t *y)
{
    const float magic = 12582912.0f;
    const int32_t least = f->type == HRF_S8 ? -128 : 0;
    const float low = (float)(least - f->zero_point), high = (float)(least + 255 - f->zero_point);
    uint8_t all[LANES];
    for (int c = 0; c < LANES; c++) {
        float steps = t[c] == t[c] ? t[c] : 0.0f;
        steps = steps < low ? low : steps;
        steps = steps > high ? high : steps;
        all[c] = (uint8_t)(((int32_t)((steps + magic) - magic) + f->zero_point) & 0xff);
    }
    memcpy(y, all, (size_t)f->n_channels);
}

static void finish_steps(const struct hrf_depthwise_finish *f, float *sums)
{
    for (int64_t i = 0; i < f->n; i++) {
        float *t = sums + i * LANES, steps[LANES];
        for (int c = 0; c < LANES; c++) {
            t[c] += f->bias[c];
            t[c] *= f->multiplier[c];
        }
        if (f->residual != NULL) {
            widen_residual(f, i, steps);
            add_steps(f->requantize, steps, t);
        }
        activate_steps(f->requantize, t);
        if (f->type == HRF_F32)
            memcpy(at(f->y, f->type, i * f->stride), t, (size_t)f->n_channels * sizeof *t);
        else
            narrow(f, t, at(f->y, f->type, i * f->stride));
    }
}
#endif

void HRF_DEPTHWISE(line)(const struct hrf_depthwise_line *line,
                         const struct hrf_depthwise_finish *finish, float *sums)
{
    const bool direct = is_direct(finish);
    sum_line(line, direct ? finish : NULL, sums);
    if (direct)
        return;
    if (finish->requantize != NULL)
        finish_steps(finish, sums);
    else
        finish_floats(finish, sums);
}
