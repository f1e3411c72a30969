/* product_steps_avx512.h - the steps of depth of a tile of the product, unrolled by the
 * preprocessor for each kind of words.
 *
 * Per step of depth: two loads of weights and 14 broadcasts feed 28 multiply-adds, which keep both
 * multiply-add units busy as long as nothing else takes their issue slots and every load hits the
 * first-level cache (measured: 98 % of their peak at a depth of 1024, 84 % at 64). Additions to
 * pointers take such slots, so there are few: five fixed pointers and three offsets that advance
 * reach all 14 rows, eight steps at a time. The steps are written in assembler, since a compiler
 * turns these addresses back into pointers that do not fit into its registers (measured: 6 to
 * 11 %). Each step asks for the weights that lie `ahead` bytes further: the hardware does not, as a
 * panel comes round for every tile anew.
 *
 * One instruction is all that differs between floats and pairs of bfloat16.
 *
 * Crossed floats go three steps of depth at a time, two crossed and one as it is: of 12 rows by 32
 * columns 48 multiply-adds and 48 additions, which begin together where each have their own units
 * (measured: 96 % of these units' peak at a depth of 1024, 1.4 times that of multiply-adds alone;
 * 88 % at 64). Row by row, since whole steps of additions would fill the queues before the units.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_PRODUCT_STEPS_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_PRODUCT_STEPS_AVX512_H

#include "engine/backend/cpu/crossed.h"
#include "engine/backend/cpu/product.h"
#include "engine/backend/cpu/rows_avx512.h"

enum {
    LINE = 64,         /* bytes of a line of the caches */
    UNROLL_FLOATS = 8, /* steps of depth */
    UNROLL_PAIRS = 8,
    UNROLL_CROSSED = HRF_CROSSED_STEPS,
    WORD = sizeof(float),          /* bytes of a float, or of two bfloat16 */
    STEP_BYTES = HRF_PANEL * WORD, /* of weights */
};

#define MULTIPLY_BY(instruction, i, pointer, offset)                                               \
    __asm__ volatile("vbroadcastss %c7(%5,%6), %2\n\t" instruction " %3, %2, %0\n\t" instruction   \
                     " %4, %2, %1"                                                                 \
                     : "+v"(x##i), "+v"(y##i), "=&v"(v)                                            \
                     : "v"(w0), "v"(w1), "r"(pointer), "r"(offset), "i"(at)                        \
                     : "memory");
#define MULTIPLY_FLOATS(i, pointer, offset) MULTIPLY_BY("vfmadd231ps", i, pointer, offset)
#define MULTIPLY_PAIRS(i, pointer, offset)  MULTIPLY_BY("vdpbf16ps", i, pointer, offset)
/* Three steps: w0 to w3 are the weights of the two that are crossed, w4 and w5 of the third. */
#define CROSS_BY(combine, accumulate, i, pointer, offset)                                          \
    __asm__ volatile(                                                                              \
        combine                                                                                    \
        " %c12(%10,%11)%{1to16%}, %6, %2\n\t" combine " %c13(%10,%11)%{1to16%}, %4, %3\n\t"        \
        "vfmadd231ps %c14(%10,%11)%{1to16%}, %8, %0\n\t" accumulate " %2, %3, %0\n\t" combine      \
        " %c12(%10,%11)%{1to16%}, %7, %2\n\t" combine " %c13(%10,%11)%{1to16%}, %5, %3\n\t"        \
        "vfmadd231ps %c14(%10,%11)%{1to16%}, %9, %1\n\t" accumulate " %2, %3, %1"                  \
        : "+v"(x##i), "+v"(y##i), "=&v"(factor0), "=&v"(factor1)                                   \
        : "v"(w0), "v"(w1), "v"(w2), "v"(w3), "v"(w4), "v"(w5), "r"(pointer), "r"(offset),         \
          "i"(at), "i"(at + WORD), "i"(at + 2 * WORD)                                              \
        : "memory");
#define CROSS_PLUS(i, pointer, offset)  CROSS_BY("vaddps", "vfmadd231ps", i, pointer, offset)
#define CROSS_MINUS(i, pointer, offset) CROSS_BY("vsubps", "vfnmadd231ps", i, pointer, offset)
#define WEIGHTS(step, line)             _mm512_load_ps(w + (step)*STEP_BYTES + (line)*LINE)
/* One step of depth, `step` beyond where the pointers are. */
#define STEP(KIND, n, step)                                                                        \
    {                                                                                              \
        enum { at = (step)*WORD };                                                                 \
        const __m512 w0 = WEIGHTS(step, 0), w1 = WEIGHTS(step, 1);                                 \
        __m512 v;                                                                                  \
        ROWS_##n(MULTIPLY_##KIND)                                                                  \
    }
#define ASK_WEIGHTS(step)                                                                          \
    __asm__ volatile("prefetcht0 %c2(%0,%1)\n\tprefetcht0 %c3(%0,%1)" ::"r"(w), "r"(ahead),        \
                     "i"((step)*STEP_BYTES), "i"((step)*STEP_BYTES + LINE));
#define STEP_AHEAD(KIND, n, step)                                                                  \
    ASK_WEIGHTS(step)                                                                              \
    STEP(KIND, n, step)
/* Three steps from `step` on, the first two crossed. */
#define CROSS_AHEAD(SIGN, n, step)                                                                 \
    ASK_WEIGHTS(step)                                                                              \
    ASK_WEIGHTS((step) + 1)                                                                        \
    ASK_WEIGHTS((step) + 2)                                                                        \
    {                                                                                              \
        enum { at = (step)*WORD };                                                                 \
        const __m512 w0 = WEIGHTS(step, 0), w1 = WEIGHTS(step, 1), w2 = WEIGHTS(step, 2);          \
        const __m512 w3 = WEIGHTS(step, 3), w4 = WEIGHTS(step, 4), w5 = WEIGHTS(step, 5);          \
        __m512 factor0, factor1;                                                                   \
        ROWS_##n(CROSS_##SIGN)                                                                     \
    }
#define ASK(place) __asm__ volatile("prefetcht0 " place ::"r"(far), "r"(far_step));
#define ASK_ONE                                                                                    \
    ASK("(%0)")                                                                                    \
    far += far_step;
/* clang-format off */
#define ALL_STEPS_FLOATS(n)                                                                        \
    ASK("(%0)") STEP_AHEAD(FLOATS, n, 0) STEP_AHEAD(FLOATS, n, 1)                                  \
    ASK("64(%0)") STEP_AHEAD(FLOATS, n, 2) STEP_AHEAD(FLOATS, n, 3)                                \
    ASK("(%0,%1)") STEP_AHEAD(FLOATS, n, 4) STEP_AHEAD(FLOATS, n, 5)                               \
    ASK("64(%0,%1)") STEP_AHEAD(FLOATS, n, 6) STEP_AHEAD(FLOATS, n, 7)                             \
    far += 2 * far_step;
#define ALL_STEPS_PAIRS(n)                                                                         \
    ASK_ONE STEP_AHEAD(PAIRS, n, 0) ASK_ONE STEP_AHEAD(PAIRS, n, 1)                                \
    ASK_ONE STEP_AHEAD(PAIRS, n, 2) ASK_ONE STEP_AHEAD(PAIRS, n, 3)                                \
    ASK_ONE STEP_AHEAD(PAIRS, n, 4) ASK_ONE STEP_AHEAD(PAIRS, n, 5)                                \
    ASK_ONE STEP_AHEAD(PAIRS, n, 6) ASK_ONE STEP_AHEAD(PAIRS, n, 7)
#define ALL_STEPS_CROSSED(n)                                                                       \
    ASK("(%0)") ASK("64(%0)") CROSS_AHEAD(PLUS, n, 0)                                              \
    ASK("(%0,%1)") ASK("64(%0,%1)") CROSS_AHEAD(MINUS, n, 3)                                       \
    far += 2 * far_step;                                                                           \
    CROSS_AHEAD(PLUS, n, 6)                                                                        \
    ASK("(%0)") ASK("64(%0)") CROSS_AHEAD(MINUS, n, 9)                                             \
    ASK("(%0,%1)") ASK("64(%0,%1)") CROSS_AHEAD(PLUS, n, 12)                                       \
    far += 2 * far_step;                                                                           \
    STEP_AHEAD(FLOATS, n, 15)
/* clang-format on */
#define REST_FLOATS(n)  STEP(FLOATS, n, 0)
#define REST_PAIRS(n)   STEP(PAIRS, n, 0)
#define REST_CROSSED(n) STEP(FLOATS, n, 0)
#define ADVANCE(steps)                                                                             \
    w += (steps)*STEP_BYTES;                                                                       \
    ADVANCE_ROWS((steps)*WORD)

#endif
