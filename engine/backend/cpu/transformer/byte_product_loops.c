/* byte_product_loops.c - rounding before, and scaling after, the sums of byte_product.h, for the
 * products of integer_product.h. Compiled for one instruction set, whose name is
 * HRF_INSTRUCTION_SET, and without contraction, which would round once where byte_product.h rounds
 * twice. */
#include "base/inline.h"
#include "engine/backend/cpu/plain/integer_product.h"
#include "engine/backend/cpu/transformer/byte_product.h"

#include <math.h>
#include <string.h>

#define JOIN(what, set)   hrf_byte_##what##_##set
#define EXPAND(what, set) JOIN(what, set)
#define HRF_BYTE(what)    EXPAND(what, HRF_INSTRUCTION_SET)

enum { PANEL = HRF_INTEGER_PANEL };

HRF_ALWAYS_INLINE float number_at(const float *factors, const float *x, int64_t k)
{
    return factors != NULL ? x[k] * factors[k] : x[k];
}

/* Inlined with and without factors. As integers, the bits of magnitudes are ordered like the
 * magnitudes, with NaNs above all. */
HRF_ALWAYS_INLINE float round_as(const float *factors, const float *x, int64_t depth, int16_t *q)
{
    int32_t most_bits = 0;
    float most;
    for (int64_t k = 0; k < depth; k++) {
        const float v = number_at(factors, x, k);
        int32_t bits;
        memcpy(&bits, &v, sizeof bits);
        bits &= INT32_MAX;
        most_bits = bits > most_bits ? bits : most_bits;
    }
    memcpy(&most, &most_bits, sizeof most);
    const bool is_zero = most < 0x1p-100f, is_broken = !(most < INFINITY);
    if (is_zero || is_broken) {
        memset(q, 0, (size_t)depth * sizeof *q);
        return is_broken ? NAN : 0.0f;
    }
    const float inverse = 127.0f / most;
    for (int64_t k = 0; k < depth; k++)
        q[k] = (int16_t)rintf(number_at(factors, x, k) * inverse);
    return most / 127.0f;
}

float HRF_BYTE(round)(const struct hrf_byte_product *p, const float *x, int16_t *q)
{
    return p->factors != NULL ? round_as(p->factors, x, p->depth, q)
                              : round_as(NULL, x, p->depth, q);
}

void HRF_BYTE(finish)(const struct hrf_byte_product *p, const struct hrf_integer_rows *rows,
                      int64_t column, int64_t n, const int32_t *sums, const float *residual,
                      float *y)
{
    const float *scales = p->scales + column, *bias = p->epilogue.bias + column;
    for (int64_t r = 0; r < rows->n; r++, sums += PANEL, y += p->columns) {
        const float scale = rows->scales[r];
        float t[PANEL], added[PANEL] = { 0 };
        for (int c = 0; c < PANEL; c++) {
            t[c] = (float)sums[c] * scales[c];
            t[c] = t[c] * scale;
            t[c] = t[c] + bias[c];
        }
        if (residual != NULL) {
            memcpy(added, residual + r * p->columns, (size_t)n * sizeof *added);
            for (int c = 0; c < PANEL; c++)
                t[c] += added[c];
        }
        if (n == PANEL)
            memcpy(y, t, sizeof t);
        else
            memcpy(y, t, (size_t)n * sizeof *t);
    }
}
