/* immintrin.h - what the kernels use of AVX-512 as plain C, for processors without it.
 *
 * A build with HRF_EMULATE_AVX512 finds this file before the compiler's, so that the kernels of
 * engine/backend/cpu/avx512 are tested on every machine, to the bit: a lane is computed as Intel's
 * Software Developer's Manual says. Exceptions and other roundings than to nearest are left out,
 * and the approximations (rcp14) are exact. Types are the compiler's, whose vectors are computed in
 * halves.
 */
#ifndef HRF_TESTS_EMULATED_AVX512_IMMINTRIN_H
#define HRF_TESTS_EMULATED_AVX512_IMMINTRIN_H

#pragma GCC system_header /* the compiler's intrinsics have the same names */
/* The command line says that there is AVX-512, and the compiler's header would believe it. */
#pragma push_macro("__AVX512F__")
#pragma push_macro("__AVX512VNNI__")
#undef __AVX512F__
#undef __AVX512VNNI__
#include_next <immintrin.h>
#pragma pop_macro("__AVX512F__")
#pragma pop_macro("__AVX512VNNI__")

#include <math.h>
#include <stdint.h>
#include <string.h>

#define EMULATED static inline __attribute__((unused))

/* Lanes of each type; a vector is read and written through one of them. */
typedef int8_t hrf_emulated_i8 __attribute__((vector_size(64)));
typedef uint8_t hrf_emulated_u8 __attribute__((vector_size(64)));
typedef int16_t hrf_emulated_i16 __attribute__((vector_size(64)));
typedef uint16_t hrf_emulated_u16 __attribute__((vector_size(64)));
typedef int32_t hrf_emulated_i32 __attribute__((vector_size(64)));
typedef uint32_t hrf_emulated_u32 __attribute__((vector_size(64)));
typedef int64_t hrf_emulated_i64 __attribute__((vector_size(64)));
typedef float hrf_emulated_f32 __attribute__((vector_size(64)));
typedef double hrf_emulated_f64 __attribute__((vector_size(64)));
typedef int8_t hrf_emulated_half_i8 __attribute__((vector_size(32)));
typedef uint8_t hrf_emulated_half_u8 __attribute__((vector_size(32)));
typedef int16_t hrf_emulated_half_i16 __attribute__((vector_size(32)));
typedef uint16_t hrf_emulated_half_u16 __attribute__((vector_size(32)));
typedef int32_t hrf_emulated_half_i32 __attribute__((vector_size(32)));
typedef float hrf_emulated_half_f32 __attribute__((vector_size(32)));
typedef int8_t hrf_emulated_quarter_i8 __attribute__((vector_size(16)));
typedef uint8_t hrf_emulated_quarter_u8 __attribute__((vector_size(16)));
typedef int16_t hrf_emulated_quarter_i16 __attribute__((vector_size(16)));
typedef float hrf_emulated_quarter_f32 __attribute__((vector_size(16)));

/* Of every lane i: the expression. */
#define EMULATED_LANES(type, n, expression)                                                        \
    type r;                                                                                        \
    for (int i = 0; i < (n); i++)                                                                  \
        r[i] = (expression);
#define EMULATED_BIT(mask) (((mask) >> i & 1) != 0)
/* A function of one and of two registers. */
#define EMULATED_UNARY(name, result, from, argument, type, lane, n, expression)                    \
    EMULATED result hrf_emulated_##name(argument from)                                             \
    {                                                                                              \
        const lane a = (lane)from;                                                                 \
        EMULATED_LANES(type, n, expression)                                                        \
        return (result)r;                                                                          \
    }
#define EMULATED_BINARY(name, vector, type, n, expression)                                         \
    EMULATED vector hrf_emulated_##name(vector x, vector y)                                        \
    {                                                                                              \
        const type a = (type)x, b = (type)y;                                                       \
        EMULATED_LANES(type, n, expression)                                                        \
        return (vector)r;                                                                          \
    }

/* ---- memory ---- */

#define EMULATED_MEMORY(suffix, vector)                                                            \
    EMULATED vector hrf_emulated_loadu_##suffix(const void *p)                                     \
    {                                                                                              \
        vector r;                                                                                  \
        memcpy(&r, p, sizeof r);                                                                   \
        return r;                                                                                  \
    }                                                                                              \
    EMULATED vector hrf_emulated_load_##suffix(const void *p)                                      \
    {                                                                                              \
        if ((uintptr_t)p % sizeof(vector) != 0)                                                    \
            __builtin_trap();                                                                      \
        return hrf_emulated_loadu_##suffix(p);                                                     \
    }                                                                                              \
    EMULATED void hrf_emulated_storeu_##suffix(void *p, vector x)                                  \
    {                                                                                              \
        memcpy(p, &x, sizeof x);                                                                   \
    }                                                                                              \
    EMULATED void hrf_emulated_store_##suffix(void *p, vector x)                                   \
    {                                                                                              \
        if ((uintptr_t)p % sizeof(vector) != 0)                                                    \
            __builtin_trap();                                                                      \
        memcpy(p, &x, sizeof x);                                                                   \
    }
EMULATED_MEMORY(ps, __m512)
EMULATED_MEMORY(pd, __m512d)
EMULATED_MEMORY(si512, __m512i)
#define _mm512_loadu_ps     hrf_emulated_loadu_ps
#define _mm512_load_ps      hrf_emulated_load_ps
#define _mm512_storeu_ps    hrf_emulated_storeu_ps
#define _mm512_store_ps     hrf_emulated_store_ps
#define _mm512_stream_ps    hrf_emulated_store_ps
#define _mm512_loadu_pd     hrf_emulated_loadu_pd
#define _mm512_loadu_si512  hrf_emulated_loadu_si512
#define _mm512_load_si512   hrf_emulated_load_si512
#define _mm512_storeu_si512 hrf_emulated_storeu_si512
#define _mm512_store_si512  hrf_emulated_store_si512

/* Lanes that the mask leaves out are neither read nor written. */
#define EMULATED_MASKED(name, vector, mask_type, element)                                          \
    EMULATED vector hrf_emulated_mask_loadu_##name(vector x, mask_type mask, const void *p)        \
    {                                                                                              \
        element lanes[sizeof(vector) / sizeof(element)];                                           \
        memcpy(lanes, &x, sizeof x);                                                               \
        for (int i = 0; i < (int)(sizeof lanes / sizeof *lanes); i++)                              \
            if (EMULATED_BIT(mask))                                                                \
                memcpy(lanes + i, (const char *)p + i * (int)sizeof *lanes, sizeof *lanes);        \
        memcpy(&x, lanes, sizeof x);                                                               \
        return x;                                                                                  \
    }                                                                                              \
    EMULATED vector hrf_emulated_maskz_loadu_##name(mask_type mask, const void *p)                 \
    {                                                                                              \
        return hrf_emulated_mask_loadu_##name((vector){ 0 }, mask, p);                             \
    }                                                                                              \
    EMULATED void hrf_emulated_mask_storeu_##name(void *p, mask_type mask, vector x)               \
    {                                                                                              \
        element lanes[sizeof(vector) / sizeof(element)];                                           \
        memcpy(lanes, &x, sizeof x);                                                               \
        for (int i = 0; i < (int)(sizeof lanes / sizeof *lanes); i++)                              \
            if (EMULATED_BIT(mask))                                                                \
                memcpy((char *)p + i * (int)sizeof *lanes, lanes + i, sizeof *lanes);              \
    }
EMULATED_MASKED(ps, __m512, __mmask16, uint32_t)
EMULATED_MASKED(pd, __m512d, __mmask8, uint64_t)
EMULATED_MASKED(i8, __m512i, __mmask64, uint8_t)
EMULATED_MASKED(i16, __m512i, __mmask32, uint16_t)
EMULATED_MASKED(half_ps, __m256, __mmask8, uint32_t)
EMULATED_MASKED(half_i8, __m256i, __mmask32, uint8_t)
EMULATED_MASKED(half_i16, __m256i, __mmask16, uint16_t)
EMULATED_MASKED(quarter_i8, __m128i, __mmask16, uint8_t)
EMULATED_MASKED(quarter_i16, __m128i, __mmask8, uint16_t)
#define _mm512_mask_loadu_ps     hrf_emulated_mask_loadu_ps
#define _mm512_maskz_loadu_ps    hrf_emulated_maskz_loadu_ps
#define _mm512_mask_storeu_ps    hrf_emulated_mask_storeu_ps
#define _mm512_maskz_loadu_pd    hrf_emulated_maskz_loadu_pd
#define _mm512_mask_storeu_pd    hrf_emulated_mask_storeu_pd
#define _mm512_maskz_loadu_epi8  hrf_emulated_maskz_loadu_i8
#define _mm512_mask_storeu_epi8  hrf_emulated_mask_storeu_i8
#define _mm512_maskz_loadu_epi16 hrf_emulated_maskz_loadu_i16
#define _mm512_mask_storeu_epi16 hrf_emulated_mask_storeu_i16
#define _mm256_mask_storeu_ps    hrf_emulated_mask_storeu_half_ps
#define _mm256_maskz_loadu_epi8  hrf_emulated_maskz_loadu_half_i8
#define _mm256_mask_storeu_epi8  hrf_emulated_mask_storeu_half_i8
#define _mm256_maskz_loadu_epi16 hrf_emulated_maskz_loadu_half_i16
#define _mm256_mask_storeu_epi16 hrf_emulated_mask_storeu_half_i16
#define _mm_maskz_loadu_epi8     hrf_emulated_maskz_loadu_quarter_i8
#define _mm_mask_storeu_epi8     hrf_emulated_mask_storeu_quarter_i8
#define _mm_mask_storeu_epi16    hrf_emulated_mask_storeu_quarter_i16

/* ---- constants and forms ---- */

EMULATED __m512 hrf_emulated_set1_ps(float x)
{
    EMULATED_LANES(hrf_emulated_f32, 16, x)
    return (__m512)r;
}
EMULATED __m512i hrf_emulated_set1_i32(int32_t x)
{
    EMULATED_LANES(hrf_emulated_i32, 16, x)
    return (__m512i)r;
}
EMULATED __m512i hrf_emulated_set1_i16(int16_t x)
{
    EMULATED_LANES(hrf_emulated_i16, 32, x)
    return (__m512i)r;
}
EMULATED __m512i hrf_emulated_set1_i8(int8_t x)
{
    EMULATED_LANES(hrf_emulated_i8, 64, x)
    return (__m512i)r;
}
EMULATED __m512 hrf_emulated_first_quarter(__m128 x)
{
    __m512 r = { 0 };
    memcpy(&r, &x, sizeof x);
    return r;
}
EMULATED __m512 hrf_emulated_first_half(__m256 x)
{
    __m512 r = { 0 };
    memcpy(&r, &x, sizeof x);
    return r;
}
EMULATED __m512i hrf_emulated_first_half_i(__m256i x)
{
    __m512i r = { 0 };
    memcpy(&r, &x, sizeof x);
    return r;
}
EMULATED __m256 hrf_emulated_half(__m512 x, int which)
{
    __m256 r;
    memcpy(&r, (const char *)&x + (which & 1) * 32, sizeof r);
    return r;
}
EMULATED __m256i hrf_emulated_half_i(__m512i x, int which)
{
    __m256i r;
    memcpy(&r, (const char *)&x + (which & 1) * 32, sizeof r);
    return r;
}
EMULATED __m512 hrf_emulated_insert_half(__m512 x, __m256 y, int which)
{
    memcpy((char *)&x + (which & 1) * 32, &y, sizeof y);
    return x;
}
EMULATED __m512i hrf_emulated_insert_half_i(__m512i x, __m256i y, int which)
{
    memcpy((char *)&x + (which & 1) * 32, &y, sizeof y);
    return x;
}
#define _mm512_set1_ps(x)        hrf_emulated_set1_ps(x)
#define _mm512_set1_epi32(x)     hrf_emulated_set1_i32(x)
#define _mm512_set1_epi16(x)     hrf_emulated_set1_i16((int16_t)(x))
#define _mm512_set1_epi8(x)      hrf_emulated_set1_i8((int8_t)(x))
#define _mm512_broadcastss_ps(x) hrf_emulated_set1_ps((x)[0])
#define _mm512_setzero_ps()      ((__m512){ 0 })
#define _mm512_setzero_si512()   ((__m512i){ 0 })
#define _mm512_setr_epi32(...)   ((__m512i)(hrf_emulated_i32){ __VA_ARGS__ })
#define _mm512_setr_epi64(...)   ((__m512i)(hrf_emulated_i64){ __VA_ARGS__ })
#define _mm512_set_epi32(p, o, n, m, l, k, j, h, g, f, e, d, c, b, a, z)                           \
    ((__m512i)(hrf_emulated_i32){ z, a, b, c, d, e, f, g, h, j, k, l, m, n, o, p })
#define _mm512_castps_si512(x)    ((__m512i)(x))
#define _mm512_castsi512_ps(x)    ((__m512)(x))
#define _mm512_castps128_ps512(x) hrf_emulated_first_quarter(x)
#define _mm512_castps256_ps512(x) hrf_emulated_first_half(x)
#define _mm512_castsi256_si512(x) hrf_emulated_first_half_i(x)
#define _mm512_castps512_ps256(x) hrf_emulated_half(x, 0)
#define _mm512_castps512_ps128(x) _mm256_castps256_ps128(hrf_emulated_half(x, 0))
#define _mm512_castsi512_si256(x) hrf_emulated_half_i(x, 0)
#define _mm512_extractf32x8_ps    hrf_emulated_half
#define _mm512_extracti64x4_epi64 hrf_emulated_half_i
#define _mm512_insertf32x8        hrf_emulated_insert_half
#define _mm512_inserti64x4        hrf_emulated_insert_half_i

/* ---- floats ---- */

EMULATED_BINARY(add_ps, __m512, hrf_emulated_f32, 16, a[i] + b[i])
EMULATED_BINARY(sub_ps, __m512, hrf_emulated_f32, 16, a[i] - b[i])
EMULATED_BINARY(mul_ps, __m512, hrf_emulated_f32, 16, a[i] * b[i])
EMULATED_BINARY(div_ps, __m512, hrf_emulated_f32, 16, a[i] / b[i])
/* The second where the two are equal or one is no number. */
EMULATED_BINARY(min_ps, __m512, hrf_emulated_f32, 16, a[i] < b[i] ? a[i] : b[i])
EMULATED_BINARY(max_ps, __m512, hrf_emulated_f32, 16, a[i] > b[i] ? a[i] : b[i])
EMULATED_BINARY(add_pd, __m512d, hrf_emulated_f64, 8, a[i] + b[i])
EMULATED_BINARY(scalef_ps, __m512, hrf_emulated_f32, 16,
                isfinite(a[i]) && isfinite(b[i]) ? ldexpf(a[i], b[i] > 1e4f    ? 10000
                                                                : b[i] < -1e4f ? -10000
                                                                               : (int)floorf(b[i]))
                                                 : a[i] * exp2f(b[i]))
#define _mm512_add_ps    hrf_emulated_add_ps
#define _mm512_sub_ps    hrf_emulated_sub_ps
#define _mm512_mul_ps    hrf_emulated_mul_ps
#define _mm512_div_ps    hrf_emulated_div_ps
#define _mm512_min_ps    hrf_emulated_min_ps
#define _mm512_max_ps    hrf_emulated_max_ps
#define _mm512_add_pd    hrf_emulated_add_pd
#define _mm512_scalef_ps hrf_emulated_scalef_ps
#define EMULATED_FUSED(name, vector, type, n, fma, x, z)                                           \
    EMULATED vector hrf_emulated_##name(vector p, vector q, vector s)                              \
    {                                                                                              \
        const type a = (type)p, b = (type)q, c = (type)s;                                          \
        EMULATED_LANES(type, n, fma(x, b[i], z))                                                   \
        return (vector)r;                                                                          \
    }
EMULATED_FUSED(fmadd_ps, __m512, hrf_emulated_f32, 16, fmaf, a[i], c[i])
EMULATED_FUSED(fmsub_ps, __m512, hrf_emulated_f32, 16, fmaf, a[i], -c[i])
EMULATED_FUSED(fnmadd_ps, __m512, hrf_emulated_f32, 16, fmaf, -a[i], c[i])
EMULATED_FUSED(fmadd_pd, __m512d, hrf_emulated_f64, 8, fma, a[i], c[i])
#define _mm512_fmadd_ps  hrf_emulated_fmadd_ps
#define _mm512_fmsub_ps  hrf_emulated_fmsub_ps
#define _mm512_fnmadd_ps hrf_emulated_fnmadd_ps
#define _mm512_fmadd_pd  hrf_emulated_fmadd_pd
EMULATED_UNARY(abs_ps, __m512, x, __m512, hrf_emulated_f32, hrf_emulated_f32, 16, fabsf(a[i]))
EMULATED_UNARY(rcp14_ps, __m512, x, __m512, hrf_emulated_f32, hrf_emulated_f32, 16, 1 / a[i])
EMULATED_UNARY(round_ps, __m512, x, __m512, hrf_emulated_f32, hrf_emulated_f32, 16, rintf(a[i]))
EMULATED_UNARY(floor_ps, __m512, x, __m512, hrf_emulated_f32, hrf_emulated_f32, 16, floorf(a[i]))
EMULATED_UNARY(ceil_ps, __m512, x, __m512, hrf_emulated_f32, hrf_emulated_f32, 16, ceilf(a[i]))
EMULATED_UNARY(trunc_ps, __m512, x, __m512, hrf_emulated_f32, hrf_emulated_f32, 16, truncf(a[i]))
EMULATED __m512 hrf_emulated_roundscale_ps(__m512 x, int how)
{
    switch (how & 7) { /* whole numbers: the upper four bits are zero */
    case 0:
        return hrf_emulated_round_ps(x);
    case 1:
        return hrf_emulated_floor_ps(x);
    case 2:
        return hrf_emulated_ceil_ps(x);
    case 3:
        return hrf_emulated_trunc_ps(x);
    default:
        return hrf_emulated_round_ps(x);
    }
}
#define _mm512_abs_ps        hrf_emulated_abs_ps
#define _mm512_rcp14_ps      hrf_emulated_rcp14_ps
#define _mm512_roundscale_ps hrf_emulated_roundscale_ps

/* As the compiler's reductions: halves onto each other. */
EMULATED float hrf_emulated_reduce_add_ps(__m512 x)
{
    float a[16];
    memcpy(a, &x, sizeof a);
    for (int n = 8; n >= 1; n /= 2)
        for (int i = 0; i < n; i++)
            a[i] = a[i + n] + a[i];
    return a[0];
}
EMULATED float hrf_emulated_reduce_max_ps(__m512 x)
{
    float a[16];
    memcpy(a, &x, sizeof a);
    for (int n = 8; n >= 1; n /= 2)
        for (int i = 0; i < n; i++)
            a[i] = a[i + n] > a[i] ? a[i + n] : a[i];
    return a[0];
}
EMULATED int32_t hrf_emulated_reduce_max_i32(__m512i x)
{
    int32_t a[16];
    memcpy(a, &x, sizeof a);
    for (int i = 1; i < 16; i++)
        a[0] = a[i] > a[0] ? a[i] : a[0];
    return a[0];
}
#define _mm512_reduce_add_ps    hrf_emulated_reduce_add_ps
#define _mm512_reduce_max_ps    hrf_emulated_reduce_max_ps
#define _mm512_reduce_max_epi32 hrf_emulated_reduce_max_i32

/* Comparisons by the names of their codes. */
EMULATED __mmask16 hrf_emulated_cmp_ps(__m512 x, __m512 y, int code)
{
    __mmask16 mask = 0;
    for (int i = 0; i < 16; i++) {
        const float a = ((hrf_emulated_f32)x)[i], b = ((hrf_emulated_f32)y)[i];
        const int unordered = isunordered(a, b), lt = isless(a, b),
                  eq = !unordered && !isless(a, b) && !isgreater(a, b);
        int is = 0;
        switch (code & 15) { /* 16 more say the same of quiet numbers */
        case _CMP_EQ_OQ:
            is = eq;
            break;
        case _CMP_LT_OS:
            is = lt;
            break;
        case _CMP_LE_OS:
            is = lt || eq;
            break;
        case _CMP_UNORD_Q:
            is = unordered;
            break;
        case _CMP_NEQ_UQ:
            is = !eq;
            break;
        case _CMP_NLT_US:
            is = !lt;
            break;
        case _CMP_NLE_US:
            is = !(lt || eq);
            break;
        case _CMP_ORD_Q:
            is = !unordered;
            break;
        case _CMP_EQ_UQ:
            is = eq || unordered;
            break;
        case _CMP_NGE_US:
            is = unordered || lt;
            break;
        case _CMP_NGT_US:
            is = unordered || lt || eq;
            break;
        case _CMP_FALSE_OQ:
            is = 0;
            break;
        case _CMP_NEQ_OQ:
            is = !eq && !unordered;
            break;
        case _CMP_GE_OS:
            is = !unordered && !lt;
            break;
        case _CMP_GT_OS:
            is = !unordered && !lt && !eq;
            break;
        default:
            is = 1;
            break;
        }
        mask = (__mmask16)(mask | is << i);
    }
    return mask;
}
#undef _mm512_cmp_ps_mask
#undef _mm512_mask_cmp_ps_mask
#define _mm512_cmp_ps_mask                     hrf_emulated_cmp_ps
#define _mm512_mask_cmp_ps_mask(m, x, y, code) ((__mmask16)((m)&hrf_emulated_cmp_ps(x, y, code)))

/* ---- integers ---- */

#define EMULATED_CLAMP(x, low, high) ((x) < (low) ? (low) : (x) > (high) ? (high) : (x))
EMULATED_BINARY(add_i32, __m512i, hrf_emulated_u32, 16, a[i] + b[i])
EMULATED_BINARY(sub_i32, __m512i, hrf_emulated_u32, 16, a[i] - b[i])
EMULATED_BINARY(mullo_i32, __m512i, hrf_emulated_u32, 16, a[i] * b[i])
EMULATED_BINARY(max_i32, __m512i, hrf_emulated_i32, 16, a[i] > b[i] ? a[i] : b[i])
EMULATED_BINARY(min_i32, __m512i, hrf_emulated_i32, 16, a[i] < b[i] ? a[i] : b[i])
EMULATED_BINARY(add_i16, __m512i, hrf_emulated_u16, 32, (uint16_t)(a[i] + b[i]))
EMULATED_BINARY(sub_i16, __m512i, hrf_emulated_u16, 32, (uint16_t)(a[i] - b[i]))
EMULATED_BINARY(mullo_i16, __m512i, hrf_emulated_u16, 32, (uint16_t)((uint32_t)a[i] * b[i]))
EMULATED_BINARY(adds_i16, __m512i, hrf_emulated_i16, 32,
                (int16_t)EMULATED_CLAMP(a[i] + b[i], INT16_MIN, INT16_MAX))
EMULATED_BINARY(max_u8, __m512i, hrf_emulated_u8, 64, a[i] > b[i] ? a[i] : b[i])
EMULATED_BINARY(min_u8, __m512i, hrf_emulated_u8, 64, a[i] < b[i] ? a[i] : b[i])
EMULATED_BINARY(and_si512, __m512i, hrf_emulated_u32, 16, a[i] & b[i])
EMULATED_BINARY(or_si512, __m512i, hrf_emulated_u32, 16, a[i] | b[i])
EMULATED_BINARY(xor_si512, __m512i, hrf_emulated_u32, 16, a[i] ^ b[i])
#define _mm512_add_epi32    hrf_emulated_add_i32
#define _mm512_sub_epi32    hrf_emulated_sub_i32
#define _mm512_mullo_epi32  hrf_emulated_mullo_i32
#define _mm512_max_epi32    hrf_emulated_max_i32
#define _mm512_min_epi32    hrf_emulated_min_i32
#define _mm512_add_epi16    hrf_emulated_add_i16
#define _mm512_sub_epi16    hrf_emulated_sub_i16
#define _mm512_mullo_epi16  hrf_emulated_mullo_i16
#define _mm512_adds_epi16   hrf_emulated_adds_i16
#define _mm512_max_epu8     hrf_emulated_max_u8
#define _mm512_min_epu8     hrf_emulated_min_u8
#define _mm512_and_si512    hrf_emulated_and_si512
#define _mm512_or_si512     hrf_emulated_or_si512
#define _mm512_xor_si512    hrf_emulated_xor_si512
#define _mm512_and_ps(x, y) ((__m512)hrf_emulated_and_si512((__m512i)(x), (__m512i)(y)))
#define _mm512_or_ps(x, y)  ((__m512)hrf_emulated_or_si512((__m512i)(x), (__m512i)(y)))
#define _mm512_xor_ps(x, y) ((__m512)hrf_emulated_xor_si512((__m512i)(x), (__m512i)(y)))
EMULATED __m512i hrf_emulated_slli_i32(__m512i x, unsigned n)
{
    EMULATED_LANES(hrf_emulated_u32, 16, n > 31 ? 0 : ((hrf_emulated_u32)x)[i] << n)
    return (__m512i)r;
}
EMULATED __m512i hrf_emulated_srli_i32(__m512i x, unsigned n)
{
    EMULATED_LANES(hrf_emulated_u32, 16, n > 31 ? 0 : ((hrf_emulated_u32)x)[i] >> n)
    return (__m512i)r;
}
EMULATED __m512i hrf_emulated_srai_i32(__m512i x, unsigned n)
{
    EMULATED_LANES(hrf_emulated_i32, 16, ((hrf_emulated_i32)x)[i] >> (n > 31 ? 31 : n))
    return (__m512i)r;
}
EMULATED __m512i hrf_emulated_slli_i16(__m512i x, unsigned n)
{
    EMULATED_LANES(hrf_emulated_u16, 32,
                   n > 15 ? 0 : (uint16_t)((uint32_t)((hrf_emulated_u16)x)[i] << n))
    return (__m512i)r;
}
#define _mm512_slli_epi32      hrf_emulated_slli_i32
#define _mm512_srli_epi32      hrf_emulated_srli_i32
#define _mm512_srai_epi32      hrf_emulated_srai_i32
#define _mm512_slli_epi16      hrf_emulated_slli_i16
#define _mm512_srl_epi32(x, n) hrf_emulated_srli_i32(x, (unsigned)_mm_cvtsi128_si32(n))
EMULATED __mmask64 hrf_emulated_movepi8_mask(__m512i x)
{
    __mmask64 mask = 0;
    for (int i = 0; i < 64; i++)
        mask |= (__mmask64)(((hrf_emulated_i8)x)[i] < 0) << i;
    return mask;
}
#define _mm512_movepi8_mask hrf_emulated_movepi8_mask

/* Four products of bytes, or two of words, onto each sum of 32 bits; it wraps. */
EMULATED __m512i hrf_emulated_dpbusd(__m512i sum, __m512i x, __m512i y)
{
    const hrf_emulated_u8 a = (hrf_emulated_u8)x;
    const hrf_emulated_i8 b = (hrf_emulated_i8)y;
    hrf_emulated_u32 r = (hrf_emulated_u32)sum;
    for (int i = 0; i < 16; i++)
        for (int j = 4 * i; j < 4 * i + 4; j++)
            r[i] += (uint32_t)(a[j] * b[j]);
    return (__m512i)r;
}
EMULATED __m512i hrf_emulated_dpwssd(__m512i sum, __m512i x, __m512i y)
{
    const hrf_emulated_i16 a = (hrf_emulated_i16)x, b = (hrf_emulated_i16)y;
    hrf_emulated_u32 r = (hrf_emulated_u32)sum;
    for (int i = 0; i < 16; i++)
        r[i] += (uint32_t)(a[2 * i] * b[2 * i]) + (uint32_t)(a[2 * i + 1] * b[2 * i + 1]);
    return (__m512i)r;
}
#define _mm512_dpbusd_epi32 hrf_emulated_dpbusd
#define _mm512_dpwssd_epi32 hrf_emulated_dpwssd

/* ---- bfloat16: numbers below 2^-126 count as zero, before and after ---- */

EMULATED float hrf_emulated_flush(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}
EMULATED float hrf_emulated_b16(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return hrf_emulated_flush(x);
}
EMULATED __m512 hrf_emulated_dpbf16(__m512 sum, __m512 x, __m512 y)
{
    const hrf_emulated_u16 a = (hrf_emulated_u16)x, b = (hrf_emulated_u16)y;
    hrf_emulated_f32 r = (hrf_emulated_f32)sum;
    for (int i = 0; i < 16; i++)
        for (int j = 2 * i + 1; j >= 2 * i; j--)
            r[i] = hrf_emulated_flush(
                fmaf(hrf_emulated_b16(a[j]), hrf_emulated_b16(b[j]), hrf_emulated_flush(r[i])));
    return (__m512)r;
}
EMULATED __m256i hrf_emulated_to_b16(__m512 x)
{
    hrf_emulated_half_u16 r;
    for (int i = 0; i < 16; i++) {
        const float a = hrf_emulated_flush(((hrf_emulated_f32)x)[i]);
        uint32_t bits;
        memcpy(&bits, &a, sizeof bits);
        r[i] = (uint16_t)(isnan(a) ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    return (__m256i)r;
}

/* ---- what the kernels write in assembler ---- */

EMULATED __m512i hrf_emulated_broadcast(const void *p)
{
    int32_t word;
    memcpy(&word, p, sizeof word);
    return hrf_emulated_set1_i32(word);
}
EMULATED __m512 hrf_emulated_multiply(const char *instruction, __m512 sum, __m512 x, __m512 y)
{
    if (strcmp(instruction, "vfmadd231ps") == 0)
        return hrf_emulated_fmadd_ps(x, y, sum);
    if (strcmp(instruction, "vdpbf16ps") == 0)
        return hrf_emulated_dpbf16(sum, x, y);
    if (strcmp(instruction, "vpdpbusd") == 0)
        return (__m512)hrf_emulated_dpbusd((__m512i)sum, (__m512i)x, (__m512i)y);
    if (strcmp(instruction, "vpdpwssd") == 0)
        return (__m512)hrf_emulated_dpwssd((__m512i)sum, (__m512i)x, (__m512i)y);
    __builtin_trap();
}

/* ---- conversions ---- */

EMULATED int32_t hrf_emulated_to_i32(float x)
{
    return x >= -0x1p31f && x < 0x1p31f ? (int32_t)rintf(x) : INT32_MIN;
}
EMULATED_UNARY(cvtps_i32, __m512i, x, __m512, hrf_emulated_i32, hrf_emulated_f32, 16,
               hrf_emulated_to_i32(a[i]))
EMULATED_UNARY(cvti32_ps, __m512, x, __m512i, hrf_emulated_f32, hrf_emulated_i32, 16, (float)a[i])
EMULATED_UNARY(cvtu8_i32, __m512i, x, __m128i, hrf_emulated_i32, hrf_emulated_quarter_u8, 16, a[i])
EMULATED_UNARY(cvti8_i32, __m512i, x, __m128i, hrf_emulated_i32, hrf_emulated_quarter_i8, 16, a[i])
EMULATED_UNARY(cvtu8_i16, __m512i, x, __m256i, hrf_emulated_i16, hrf_emulated_half_u8, 32, a[i])
EMULATED_UNARY(cvti8_i16, __m512i, x, __m256i, hrf_emulated_i16, hrf_emulated_half_i8, 32, a[i])
EMULATED_UNARY(cvtu16_i32, __m512i, x, __m256i, hrf_emulated_i32, hrf_emulated_half_u16, 16, a[i])
EMULATED_UNARY(cvti16_i32, __m512i, x, __m256i, hrf_emulated_i32, hrf_emulated_half_i16, 16, a[i])
EMULATED_UNARY(cvti32_i8, __m128i, x, __m512i, hrf_emulated_quarter_i8, hrf_emulated_i32, 16,
               (int8_t)a[i])
EMULATED_UNARY(cvti32_i16, __m256i, x, __m512i, hrf_emulated_half_i16, hrf_emulated_i32, 16,
               (int16_t)a[i])
EMULATED_UNARY(cvti32_pd, __m512d, x, __m256i, hrf_emulated_f64, hrf_emulated_half_i32, 8, a[i])
EMULATED_UNARY(cvtps_pd, __m512d, x, __m256, hrf_emulated_f64, hrf_emulated_half_f32, 8, a[i])
EMULATED_UNARY(cvtpd_ps, __m256, x, __m512d, hrf_emulated_half_f32, hrf_emulated_f64, 8,
               (float)a[i])
EMULATED __m512 hrf_emulated_cvtph_ps(__m256i x)
{
    return hrf_emulated_insert_half(
        hrf_emulated_first_half(_mm256_cvtph_ps(_mm256_castsi256_si128(x))),
        _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1)), 1);
}
EMULATED __m256i hrf_emulated_cvtps_ph(__m512 x)
{
    return _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm256_cvtps_ph(hrf_emulated_half(x, 0), _MM_FROUND_TO_NEAREST_INT)),
        _mm256_cvtps_ph(hrf_emulated_half(x, 1), _MM_FROUND_TO_NEAREST_INT), 1);
}
#define _mm512_cvtps_epi32    hrf_emulated_cvtps_i32
#define _mm512_cvtepi32_ps    hrf_emulated_cvti32_ps
#define _mm512_cvtepu8_epi32  hrf_emulated_cvtu8_i32
#define _mm512_cvtepi8_epi32  hrf_emulated_cvti8_i32
#define _mm512_cvtepu8_epi16  hrf_emulated_cvtu8_i16
#define _mm512_cvtepi8_epi16  hrf_emulated_cvti8_i16
#define _mm512_cvtepu16_epi32 hrf_emulated_cvtu16_i32
#define _mm512_cvtepi16_epi32 hrf_emulated_cvti16_i32
#define _mm512_cvtepi32_epi8  hrf_emulated_cvti32_i8
#define _mm512_cvtepi32_epi16 hrf_emulated_cvti32_i16
#define _mm512_cvtepi32_pd    hrf_emulated_cvti32_pd
#define _mm512_cvtps_pd       hrf_emulated_cvtps_pd
#define _mm512_cvtpd_ps       hrf_emulated_cvtpd_ps
#define _mm512_cvtph_ps       hrf_emulated_cvtph_ps
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph(x, how) hrf_emulated_cvtps_ph(x)

/* ---- moves: those of lanes of 128 bits count within each of the four ---- */

#define EMULATED_PACK(name, from, type, to, n, low, high)                                          \
    EMULATED __m512i hrf_emulated_##name(__m512i x, __m512i y)                                     \
    {                                                                                              \
        const from a = (from)x, b = (from)y;                                                       \
        type r;                                                                                    \
        for (int quarter = 0; quarter < 4; quarter++)                                              \
            for (int i = 0; i < (n); i++) {                                                        \
                r[quarter * 2 * (n) + i] = (to)EMULATED_CLAMP(a[quarter * (n) + i], low, high);    \
                r[quarter * 2 * (n) + (n) + i] = (to)EMULATED_CLAMP(b[quarter * (n) + i], low,     \
                                                                    high);                         \
            }                                                                                      \
        return (__m512i)r;                                                                         \
    }
EMULATED_PACK(packs_i32, hrf_emulated_i32, hrf_emulated_i16, int16_t, 4, INT16_MIN, INT16_MAX)
EMULATED_PACK(packs_i16, hrf_emulated_i16, hrf_emulated_i8, int8_t, 8, INT8_MIN, INT8_MAX)
EMULATED_PACK(packus_i16, hrf_emulated_i16, hrf_emulated_u8, uint8_t, 8, 0, UINT8_MAX)
#define _mm512_packs_epi32  hrf_emulated_packs_i32
#define _mm512_packs_epi16  hrf_emulated_packs_i16
#define _mm512_packus_epi16 hrf_emulated_packus_i16
#define EMULATED_UNPACK(name, vector, type, n, half)                                               \
    EMULATED vector hrf_emulated_##name(vector x, vector y)                                        \
    {                                                                                              \
        const type a = (type)x, b = (type)y;                                                       \
        type r;                                                                                    \
        for (int quarter = 0; quarter < 4; quarter++)                                              \
            for (int i = 0; i < (n) / 2; i++) {                                                    \
                r[quarter * (n) + 2 * i] = a[quarter * (n) + (half) * (n) / 2 + i];                \
                r[quarter * (n) + 2 * i + 1] = b[quarter * (n) + (half) * (n) / 2 + i];            \
            }                                                                                      \
        return (vector)r;                                                                          \
    }
EMULATED_UNPACK(unpacklo_i8, __m512i, hrf_emulated_i8, 16, 0)
EMULATED_UNPACK(unpackhi_i8, __m512i, hrf_emulated_i8, 16, 1)
EMULATED_UNPACK(unpacklo_i16, __m512i, hrf_emulated_i16, 8, 0)
EMULATED_UNPACK(unpackhi_i16, __m512i, hrf_emulated_i16, 8, 1)
EMULATED_UNPACK(unpacklo_ps, __m512, hrf_emulated_f32, 4, 0)
EMULATED_UNPACK(unpackhi_ps, __m512, hrf_emulated_f32, 4, 1)
#define _mm512_unpacklo_epi8  hrf_emulated_unpacklo_i8
#define _mm512_unpackhi_epi8  hrf_emulated_unpackhi_i8
#define _mm512_unpacklo_epi16 hrf_emulated_unpacklo_i16
#define _mm512_unpackhi_epi16 hrf_emulated_unpackhi_i16
#define _mm512_unpacklo_ps    hrf_emulated_unpacklo_ps
#define _mm512_unpackhi_ps    hrf_emulated_unpackhi_ps
#define EMULATED_PERMUTE(name, vector, type, index_type, n)                                        \
    EMULATED vector hrf_emulated_permute_##name(__m512i which, vector x)                           \
    {                                                                                              \
        const index_type at = (index_type)which;                                                   \
        const type a = (type)x;                                                                    \
        EMULATED_LANES(type, n, a[at[i] & ((n)-1)])                                                \
        return (vector)r;                                                                          \
    }
EMULATED_PERMUTE(ps, __m512, hrf_emulated_f32, hrf_emulated_i32, 16)
EMULATED_PERMUTE(i32, __m512i, hrf_emulated_i32, hrf_emulated_i32, 16)
EMULATED_PERMUTE(i64, __m512i, hrf_emulated_i64, hrf_emulated_i64, 8)
#define _mm512_permutexvar_ps    hrf_emulated_permute_ps
#define _mm512_permutexvar_epi32 hrf_emulated_permute_i32
#define _mm512_permutexvar_epi64 hrf_emulated_permute_i64
#define EMULATED_PERMUTE_2(name, vector, type, index_type, n)                                      \
    EMULATED vector hrf_emulated_permute_2_##name(vector x, __m512i which, vector y)               \
    {                                                                                              \
        const index_type at = (index_type)which;                                                   \
        const type a = (type)x, b = (type)y;                                                       \
        EMULATED_LANES(type, n, at[i] & (n) ? b[at[i] & ((n)-1)] : a[at[i] & ((n)-1)])             \
        return (vector)r;                                                                          \
    }
EMULATED_PERMUTE_2(ps, __m512, hrf_emulated_f32, hrf_emulated_i32, 16)
EMULATED_PERMUTE_2(i8, __m512i, hrf_emulated_u8, hrf_emulated_u8, 64)
#define _mm512_permutex2var_ps   hrf_emulated_permute_2_ps
#define _mm512_permutex2var_epi8 hrf_emulated_permute_2_i8
EMULATED __m512 hrf_emulated_shuffle_quarters(__m512 x, __m512 y, int how)
{
    const hrf_emulated_f32 a = (hrf_emulated_f32)x, b = (hrf_emulated_f32)y;
    EMULATED_LANES(hrf_emulated_f32, 16,
                   i < 8 ? a[(how >> i / 4 * 2 & 3) * 4 + i % 4]
                         : b[(how >> i / 4 * 2 & 3) * 4 + i % 4])
    return (__m512)r;
}
EMULATED __m512 hrf_emulated_shuffle_ps(__m512 x, __m512 y, int how)
{
    const hrf_emulated_f32 a = (hrf_emulated_f32)x, b = (hrf_emulated_f32)y;
    EMULATED_LANES(hrf_emulated_f32, 16,
                   i % 4 < 2 ? a[i / 4 * 4 + (how >> i % 4 * 2 & 3)]
                             : b[i / 4 * 4 + (how >> i % 4 * 2 & 3)])
    return (__m512)r;
}
#undef _mm512_shuffle_f32x4
#undef _mm512_shuffle_ps
#define _mm512_shuffle_f32x4 hrf_emulated_shuffle_quarters
#define _mm512_shuffle_ps    hrf_emulated_shuffle_ps

/* ---- the same under a mask ---- */

#define EMULATED_CHOOSE(name, vector, type, mask_type, n)                                          \
    EMULATED vector hrf_emulated_choose_##name(mask_type mask, vector x, vector y)                 \
    {                                                                                              \
        const type a = (type)x, b = (type)y;                                                       \
        EMULATED_LANES(type, n, EMULATED_BIT(mask) ? b[i] : a[i])                                  \
        return (vector)r;                                                                          \
    }
EMULATED_CHOOSE(ps, __m512, hrf_emulated_f32, __mmask16, 16)
EMULATED_CHOOSE(i32, __m512i, hrf_emulated_i32, __mmask16, 16)
EMULATED_CHOOSE(i16, __m512i, hrf_emulated_i16, __mmask32, 32)
EMULATED_CHOOSE(i8, __m512i, hrf_emulated_i8, __mmask64, 64)
EMULATED_CHOOSE(half_i16, __m256i, hrf_emulated_half_i16, __mmask16, 16)
#define _mm512_mask_blend_epi16(m, x, y) hrf_emulated_choose_i16(m, x, y)
#define _mm512_mask_mov_ps(x, m, y)      hrf_emulated_choose_ps(m, x, y)
#define _mm512_maskz_mov_ps(m, y)        hrf_emulated_choose_ps(m, _mm512_setzero_ps(), y)
#define _mm512_mask_mov_epi32(x, m, y)   hrf_emulated_choose_i32(m, x, y)
#define _mm512_mask_mov_epi8(x, m, y)    hrf_emulated_choose_i8(m, x, y)
#define _mm256_mask_mov_epi16(x, m, y)   hrf_emulated_choose_half_i16(m, x, y)
#define _mm512_mask_max_ps(s, m, x, y)   hrf_emulated_choose_ps(m, s, hrf_emulated_max_ps(x, y))
#define _mm512_mask_mul_ps(s, m, x, y)   hrf_emulated_choose_ps(m, s, hrf_emulated_mul_ps(x, y))
#define _mm512_mask_or_ps(s, m, x, y)    hrf_emulated_choose_ps(m, s, _mm512_or_ps(x, y))
#define _mm512_maskz_sub_ps(m, x, y)     _mm512_maskz_mov_ps(m, hrf_emulated_sub_ps(x, y))
#define _mm512_maskz_rcp14_ps(m, x)      _mm512_maskz_mov_ps(m, hrf_emulated_rcp14_ps(x))
#define _mm512_maskz_cvtepi32_ps(m, x)   _mm512_maskz_mov_ps(m, hrf_emulated_cvti32_ps(x))
#define _mm512_maskz_cvtps_epi32(m, x)                                                             \
    hrf_emulated_choose_i32(m, _mm512_setzero_si512(), hrf_emulated_cvtps_i32(x))
#define _mm512_mask3_fnmadd_ps(x, y, s, m)                                                         \
    hrf_emulated_choose_ps(m, s, hrf_emulated_fnmadd_ps(x, y, s))

#endif
