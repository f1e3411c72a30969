/* binary_loops.c - see binary.h; compiled once for each instruction set, whose name is
 * HRF_INSTRUCTION_SET. */
#include "engine/backend/cpu/plain/binary.h"

#include "base/inline.h"

#ifdef __AVX512F__
#include "engine/backend/cpu/avx512/vector_avx512.h"
#endif

#define JOIN(what, set)   hrf_binary_##what##_##set
#define EXPAND(what, set) JOIN(what, set)
#define HRF_BINARY(what)  EXPAND(what, HRF_INSTRUCTION_SET)

#ifdef __AVX512F__
HRF_ALWAYS_INLINE __m512 take(enum hrf_dtype type, const char *x, int64_t i, int64_t step,
                              __mmask16 mask)
{
    const int64_t size = type == HRF_F32 ? 4 : 2;
    if (step == 1)
        return hrf_load_avx512(type, x + i * size, mask);
    return _mm512_broadcastss_ps(_mm512_castps512_ps128(hrf_load_avx512(type, x, 1)));
}

/* Inlined for each operator and the usual types. */
HRF_ALWAYS_INLINE void run_as(enum hrf_op op, enum hrf_dtype a_type, enum hrf_dtype b_type,
                              enum hrf_dtype y_type, const struct hrf_binary_run *r, const char *a,
                              const char *b, char *y)
{
    for (int64_t i = 0; i < r->n; i += 16) {
        const __mmask16 mask = hrf_first_lanes_avx512(r->n - i);
        const __m512 u = take(a_type, a, i, r->a_step, mask),
                     v = take(b_type, b, i, r->b_step, mask);
        const __m512 x = op == HRF_OP_ADD   ? _mm512_add_ps(u, v)
                         : op == HRF_OP_SUB ? _mm512_sub_ps(u, v)
                         : op == HRF_OP_MUL ? _mm512_mul_ps(u, v)
                                            : _mm512_div_ps(u, v);
        hrf_store_avx512(y_type, y + i * (y_type == HRF_F32 ? 4 : 2), mask, x);
    }
}

HRF_ALWAYS_INLINE void run_op(enum hrf_op op, const struct hrf_binary_run *r, const char *a,
                              const char *b, char *y)
{
    const bool is_same = r->a_type == r->b_type && r->a_type == r->y_type;
    if (is_same && r->a_type == HRF_F32)
        run_as(op, HRF_F32, HRF_F32, HRF_F32, r, a, b, y);
    else if (is_same && r->a_type == HRF_B16)
        run_as(op, HRF_B16, HRF_B16, HRF_B16, r, a, b, y);
    else
        run_as(op, r->a_type, r->b_type, r->y_type, r, a, b, y);
}
#else
/* Inlined for each operator and the usual steps. */
HRF_ALWAYS_INLINE void run_as(enum hrf_op op, int64_t n, const float *a, int64_t a_step,
                              const float *b, int64_t b_step, float *y)
{
    for (int64_t i = 0; i < n; i++) {
        const float u = a[i * a_step], v = b[i * b_step];
        y[i] = op == HRF_OP_ADD   ? u + v
               : op == HRF_OP_SUB ? u - v
               : op == HRF_OP_MUL ? u * v
                                  : u / v;
    }
}

HRF_ALWAYS_INLINE void run_op(enum hrf_op op, const struct hrf_binary_run *r, const void *a,
                              const void *b, void *y)
{
    if (r->a_step == 1 && r->b_step == 1)
        run_as(op, r->n, a, 1, b, 1, y);
    else if (r->a_step == 1)
        run_as(op, r->n, a, 1, b, 0, y);
    else
        run_as(op, r->n, a, 0, b, r->b_step, y);
}
#endif

void HRF_BINARY(run)(const struct hrf_binary_run *run, const void *a, const void *b, void *y)
{
    switch (run->op) {
    case HRF_OP_ADD:
        run_op(HRF_OP_ADD, run, a, b, y);
        break;
    case HRF_OP_SUB:
        run_op(HRF_OP_SUB, run, a, b, y);
        break;
    case HRF_OP_MUL:
        run_op(HRF_OP_MUL, run, a, b, y);
        break;
    default:
        run_op(HRF_OP_DIV, run, a, b, y);
        break;
    }
}
