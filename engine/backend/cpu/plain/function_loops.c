/* function_loops.c - see functions.h; compiled once for each instruction set, whose name is
 * HRF_INSTRUCTION_SET. Written so that compilers turn the loops into vectors: without branches and
 * calls, comparisons as choices that keep a NaN. */
#include "engine/backend/cpu/plain/functions.h"

#include <math.h>
#include <string.h>

#define JOIN(what, set)     hrf_functions_##what##_##set
#define EXPAND(what, set)   JOIN(what, set)
#define HRF_FUNCTIONS(what) EXPAND(what, HRF_INSTRUCTION_SET)

#define ALWAYS static inline __attribute__((always_inline))

/* p * x + c */
ALWAYS float step(float p, float x, float c)
{
    return __builtin_fmaf(p, x, c);
}

/* 2^f for f in [-1/2, 1/2]. */
ALWAYS float exp2_part(float f)
{
    float p = step(0x1.41d32cp-13f, f, 0x1.5f456ap-10f);
    p = step(p, f, 0x1.3b2dbcp-7f);
    p = step(p, f, 0x1.c6aed4p-5f);
    p = step(p, f, 0x1.ebfbdap-3f);
    p = step(p, f, 0x1.62e430p-1f);
    return step(p, f, 1.0f);
}

ALWAYS float power_of_two(int32_t n) /* -126 <= n <= 127 */
{
    const int32_t bits = (n + 127) * (1 << 23);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* p * 2^n for whole n from -250 to 250, in two steps: the result may be subnormal or infinite. */
ALWAYS float scale(float p, float n)
{
    const int32_t all = (int32_t)(n == n ? n : 0.0f), half = all / 2;
    return p * power_of_two(half) * power_of_two(all - half);
}

/* To a whole number, half to even, for |x| < 2^22. */
ALWAYS float round_to_whole(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23 */
    return (x + magic) - magic;
}

ALWAYS float exponential(float x)
{
    x = x < -110.0f ? -110.0f : x;
    x = x > 110.0f ? 110.0f : x;
    const float n = round_to_whole(x * 0x1.715476p+0f);
    float f = step(x, 0x1.715476p+0f, -n);
    f = step(x, 0x1.4ae0bep-26f, f);
    return scale(exp2_part(f), n);
}

ALWAYS float logistic(float x)
{
    const float bounded = x < -87.0f ? -87.0f : x;
    const float y = 1.0f / (1.0f + exponential(-bounded));
    return x < -87.0f ? 0.0f : y;
}

ALWAYS float hyperbolic(float x)
{
    const float a = fabsf(x) > 10.0f ? 10.0f : fabsf(x), s = x * x;
    float p = step(0.00212274f, s, -0.00815628f);
    p = step(p, s, 0.02169261f);
    p = step(p, s, -0.05394538f);
    p = step(p, s, 0.13333196f);
    p = step(p, s, -0.33333331f);
    const float small = step(x * s, p, x);
    const float large = step(-2.0f, 1.0f / (exponential(a + a) + 1.0f), 1.0f);
    return a > 0.6f ? copysignf(large, x) : small;
}

/* erfc(a / sqrt(2)) / 2 for a in [0, 7]. */
ALWAYS float normal_tail(float a)
{
    float p = step(-1.1515573383746869e-08f, a, 3.9991203948375187e-07f);
    p = step(p, a, -5.857895303051919e-06f);
    p = step(p, a, 4.536058258963749e-05f);
    p = step(p, a, -0.00016688946925569326f);
    p = step(p, a, -0.00024924176977947354f);
    p = step(p, a, 0.007276715245097876f);
    p = step(p, a, -0.05268782377243042f);
    p = step(p, a, -0.45912861824035645f);
    p = step(p, a, -1.1511174440383911f);
    p = step(p, a, -0.9999997019767761f);
    const float n = round_to_whole(p);
    return scale(exp2_part(p - n), n);
}

ALWAYS float error_function(float x)
{
    const float a = fabsf(x), s = x * x;
    float p = step(7.88911953e-05f, s, -8.02084128e-04f);
    p = step(p, s, 5.18953534e-03f);
    p = step(p, s, -2.68544446e-02f);
    p = step(p, s, 1.12836002e-01f);
    p = step(p, s, -3.76126271e-01f);
    p = step(p, s, 1.12837917e+00f);
    const float far = a * 1.41421356237309505f;
    const float large = step(-2.0f, normal_tail(far > 7.0f ? 7.0f : far), 1.0f);
    return a > 1.0f ? copysignf(large, x) : x * p;
}

/* max(x, 0) - |x| tail(|x|), without cancellation for negative x. */
ALWAYS float gelu(float x)
{
    const float a = fabsf(x), tail = normal_tail(a > 7.0f ? 7.0f : a);
    const float above = x < 0.0f ? 0.0f : x;
    const float inner = step(a >= 7.0f ? 0.0f : -tail, a, above);
    return x >= 7.0f ? x : inner;
}

ALWAYS float gelu_by_tanh(float x)
{
    const float slope = 2 * 0.79788456080286536f;
    return x * logistic(x * step(x * x, slope * 0.044715f, slope));
}

#define RUN(OP, VALUE)                                                                             \
    case HRF_OP_##OP:                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = VALUE;                                                                          \
        return true;

bool HRF_FUNCTIONS(run)(enum hrf_op op, float alpha, const float *x, float *y, int64_t n)
{
    switch (op) {
        RUN(EXP, exponential(x[i]))
        RUN(ERF, error_function(x[i]))
        RUN(TANH, hyperbolic(x[i]))
        RUN(SIGMOID, logistic(x[i]))
        RUN(SWISH, x[i] * logistic(alpha * x[i]))
        RUN(GELU, gelu(x[i]))
        RUN(GELU_TANH, gelu_by_tanh(x[i]))
    default:
        return false;
    }
}
