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
 */
#ifndef HRF_ENGINE_BACKEND_CPU_PRODUCT_STEPS_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_PRODUCT_STEPS_AVX512_H

#include "engine/backend/cpu/product.h"
#include "engine/backend/cpu/rows_avx512.h"

enum {
    LINE = 64,         /* bytes of a line of the caches */
    UNROLL_FLOATS = 8, /* steps of depth */
    UNROLL_PAIRS = 8,
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
#define WEIGHTS(step, line)                 _mm512_load_ps(w + (step)*STEP_BYTES + (line)*LINE)
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
/* clang-format on */
#define REST_FLOATS(n) STEP(FLOATS, n, 0)
#define REST_PAIRS(n)  STEP(PAIRS, n, 0)
#define ADVANCE(steps)                                                                             \
    w += (steps)*STEP_BYTES;                                                                       \
    ADVANCE_ROWS((steps)*WORD)

#endif
