/* product_tile_avx512.h - a tile of the matrix product in registers, unrolled by the preprocessor:
 * 1 to 9 rows by 1 to 4 registers of 16 columns.
 *
 * A step of the depth loads one register of weights per 16 columns, broadcasts one word of each row
 * and multiplies all of them. 6 rows by 4 registers do 24 multiply-adds with 10 loads, 9 by 3 do 27
 * with 12: multiply-adds are the limit, also where a core loads little more than one such register
 * a cycle (14 rows by 2 would need 16 loads for 28). Steps are written in assembler, as a compiler
 * turns the rows' addresses into more pointers than there are registers.
 *
 * One instruction is all that differs between floats, pairs of bfloat16 or of 16-bit integers, and
 * fours of bytes.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_AVX512_PRODUCT_TILE_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_AVX512_PRODUCT_TILE_AVX512_H

#include "base/inline.h"
#include "engine/backend/cpu/product.h"

#include <immintrin.h>

enum {
    LINE = 64,            /* bytes of a line of the caches, and of a register */
    WORD = sizeof(float), /* bytes of a float, or of two bfloat16 */
    LANES = LINE / WORD,
    MOST_ROWS = 9,
    MOST_REGISTERS = 4, /* of columns */
    UNROLL = 4,         /* of the depth */
};

/* A row's products of one step: its word, `at` bytes (a constant) beyond p + offset, in all lanes,
 * by each register of weights. In assembler, as a compiler turns the rows' addresses into more
 * pointers than there are registers; in one statement, as it needs one register more for two. */
#ifdef HRF_EMULATE_AVX512
#define ADD_ROW_1(instruction, x0, w0, p, offset, at)                                              \
    (v = (__m512)hrf_emulated_broadcast((p) + (offset) + (at)),                                    \
     x0 = hrf_emulated_multiply(instruction, x0, v, w0))
#define ADD_ROW_2(instruction, x0, x1, w0, w1, p, offset, at)                                      \
    (ADD_ROW_1(instruction, x0, w0, p, offset, at),                                                \
     x1 = hrf_emulated_multiply(instruction, x1, v, w1))
#define ADD_ROW_3(instruction, x0, x1, x2, w0, w1, w2, p, offset, at)                              \
    (ADD_ROW_2(instruction, x0, x1, w0, w1, p, offset, at),                                        \
     x2 = hrf_emulated_multiply(instruction, x2, v, w2))
#define ADD_ROW_4(instruction, x0, x1, x2, x3, w0, w1, w2, w3, p, offset, at)                      \
    (ADD_ROW_3(instruction, x0, x1, x2, w0, w1, w2, p, offset, at),                                \
     x3 = hrf_emulated_multiply(instruction, x3, v, w3))
#else
#define ADD_ROW_1(instruction, x0, w0, p, offset, at)                                              \
    __asm__ volatile("vbroadcastss %c5(%3,%4), %1\n\t" instruction " %2, %1, %0"                   \
                     : "+v"(x0), "=&v"(v)                                                          \
                     : "v"(w0), "r"(p), "r"(offset), "i"(at)                                       \
                     : "memory")
#define ADD_ROW_2(instruction, x0, x1, w0, w1, p, offset, at)                                      \
    __asm__ volatile("vbroadcastss %c7(%5,%6), %2\n\t" instruction " %3, %2, %0\n\t" instruction   \
                     " %4, %2, %1"                                                                 \
                     : "+v"(x0), "+v"(x1), "=&v"(v)                                                \
                     : "v"(w0), "v"(w1), "r"(p), "r"(offset), "i"(at)                              \
                     : "memory")
#define ADD_ROW_3(instruction, x0, x1, x2, w0, w1, w2, p, offset, at)                              \
    __asm__ volatile("vbroadcastss %c9(%7,%8), %3\n\t" instruction " %4, %3, %0\n\t" instruction   \
                     " %5, %3, %1\n\t" instruction " %6, %3, %2"                                   \
                     : "+v"(x0), "+v"(x1), "+v"(x2), "=&v"(v)                                      \
                     : "v"(w0), "v"(w1), "v"(w2), "r"(p), "r"(offset), "i"(at)                     \
                     : "memory")
#define ADD_ROW_4(instruction, x0, x1, x2, x3, w0, w1, w2, w3, p, offset, at)                      \
    __asm__ volatile("vbroadcastss %c11(%9,%10), %4\n\t" instruction " %5, %4, %0\n\t" instruction \
                     " %6, %4, %1\n\t" instruction " %7, %4, %2\n\t" instruction " %8, %4, %3"     \
                     : "+v"(x0), "+v"(x1), "+v"(x2), "+v"(x3), "=&v"(v)                            \
                     : "v"(w0), "v"(w1), "v"(w2), "v"(w3), "r"(p), "r"(offset), "i"(at)            \
                     : "memory")
#endif
#define ADD_ROW(instruction)                                                                       \
    switch (registers) {                                                                           \
    case 1:                                                                                        \
        ADD_ROW_1(instruction, x[0], w[0], p, offset, at);                                         \
        break;                                                                                     \
    case 2:                                                                                        \
        ADD_ROW_2(instruction, x[0], x[1], w[0], w[1], p, offset, at);                             \
        break;                                                                                     \
    case 3:                                                                                        \
        ADD_ROW_3(instruction, x[0], x[1], x[2], w[0], w[1], w[2], p, offset, at);                 \
        break;                                                                                     \
    default:                                                                                       \
        ADD_ROW_4(instruction, x[0], x[1], x[2], x[3], w[0], w[1], w[2], w[3], p, offset, at);     \
        break;                                                                                     \
    }

HRF_ALWAYS_INLINE void hrf_tile_add_floats(const int registers, __m512 *x, const char *p,
                                           int64_t offset, const int at, const __m512 *w)
{
    __m512 v;
    ADD_ROW("vfmadd231ps")
}

HRF_ALWAYS_INLINE void hrf_tile_add_pairs(const int registers, __m512 *x, const char *p,
                                          int64_t offset, const int at, const __m512 *w)
{
    __m512 v;
    ADD_ROW("vdpbf16ps")
}

/* Memory that comes into the second level meanwhile: a line for each step. */
HRF_ALWAYS_INLINE void hrf_tile_prefetch(const char *memory, const int line)
{
#ifdef HRF_EMULATE_AVX512
    (void)memory;
    (void)line;
#else
    __asm__ volatile("prefetcht1 %c1(%0)" ::"r"(memory), "i"(line * LINE));
#endif
}

#define ROWS_1(ROW) ROW(0)
#define ROWS_2(ROW) ROWS_1(ROW) ROW(1)
#define ROWS_3(ROW) ROWS_2(ROW) ROW(2)
#define ROWS_4(ROW) ROWS_3(ROW) ROW(3)
#define ROWS_5(ROW) ROWS_4(ROW) ROW(4)
#define ROWS_6(ROW) ROWS_5(ROW) ROW(5)
#define ROWS_7(ROW) ROWS_6(ROW) ROW(6)
#define ROWS_8(ROW) ROWS_7(ROW) ROW(7)
#define ROWS_9(ROW) ROWS_8(ROW) ROW(8)

/* The sums of row i: x##i##0 to x##i##3, as many as there are registers of columns. */
#define ONE_1(DO, i) DO(i, 0)
#define ONE_2(DO, i) ONE_1(DO, i) DO(i, 1)
#define ONE_3(DO, i) ONE_2(DO, i) DO(i, 2)
#define ONE_4(DO, i) ONE_3(DO, i) DO(i, 3)

/* DO(row, register) of a tile's sums. */
#define TILE_1(registers, DO) ONE_##registers(DO, 0)
#define TILE_2(registers, DO) TILE_1(registers, DO) ONE_##registers(DO, 1)
#define TILE_3(registers, DO) TILE_2(registers, DO) ONE_##registers(DO, 2)
#define TILE_4(registers, DO) TILE_3(registers, DO) ONE_##registers(DO, 3)
#define TILE_5(registers, DO) TILE_4(registers, DO) ONE_##registers(DO, 4)
#define TILE_6(registers, DO) TILE_5(registers, DO) ONE_##registers(DO, 5)

#define MULTIPLY_1(instruction, i) ADD_ROW_1(instruction, x##i##0, w0, p##i, offset, at);
#define MULTIPLY_2(instruction, i)                                                                 \
    ADD_ROW_2(instruction, x##i##0, x##i##1, w0, w1, p##i, offset, at);
#define MULTIPLY_3(instruction, i)                                                                 \
    ADD_ROW_3(instruction, x##i##0, x##i##1, x##i##2, w0, w1, w2, p##i, offset, at);
#define MULTIPLY_4(instruction, i)                                                                 \
    ADD_ROW_4(instruction, x##i##0, x##i##1, x##i##2, x##i##3, w0, w1, w2, w3, p##i, offset, at);

/* Unsigned of the rows by signed of the weights, to sums of 32 bits. */
#define MULTIPLY_BYTES_1(i) MULTIPLY_1("vpdpbusd", i)
#define MULTIPLY_BYTES_2(i) MULTIPLY_2("vpdpbusd", i)
#define MULTIPLY_BYTES_3(i) MULTIPLY_3("vpdpbusd", i)
#define MULTIPLY_BYTES_4(i) MULTIPLY_4("vpdpbusd", i)

/* Pairs of signed 16-bit integers, to sums of 32 bits. */
#define MULTIPLY_WORDS_1(i) MULTIPLY_1("vpdpwssd", i)
#define MULTIPLY_WORDS_2(i) MULTIPLY_2("vpdpwssd", i)
#define MULTIPLY_WORDS_3(i) MULTIPLY_3("vpdpwssd", i)
#define MULTIPLY_WORDS_4(i) MULTIPLY_4("vpdpwssd", i)

#define WEIGHTS(registers, step, c)                                                                \
    const __m512 w##c = _mm512_load_ps(w + ((step) * (registers) + (c)) * LINE);
#define WEIGHTS_1(registers, step) WEIGHTS(registers, step, 0)
#define WEIGHTS_2(registers, step) WEIGHTS_1(registers, step) WEIGHTS(registers, step, 1)
#define WEIGHTS_3(registers, step) WEIGHTS_2(registers, step) WEIGHTS(registers, step, 2)
#define WEIGHTS_4(registers, step) WEIGHTS_3(registers, step) WEIGHTS(registers, step, 3)

/* One step of the depth, `step` beyond where the pointers are. */
#define STEP(KIND, n, registers, step)                                                             \
    {                                                                                              \
        enum { at = (step)*WORD };                                                                 \
        WEIGHTS_##registers(registers, step) __m512 v;                                             \
        ROWS_##n(MULTIPLY_##KIND##_##registers)                                                    \
    }

/* Memory that comes into the second level meanwhile, a line a step. */
#define ASK(line) __asm__ volatile("prefetcht1 %c1(%0)" ::"r"(far), "i"((line)*LINE));

#define STEPS(KIND, n, registers)                                                                  \
    ASK(0)                                                                                         \
    STEP(KIND, n, registers, 0)                                                                    \
    ASK(1)                                                                                         \
    STEP(KIND, n, registers, 1)                                                                    \
    ASK(2)                                                                                         \
    STEP(KIND, n, registers, 2)                                                                    \
    ASK(3)                                                                                         \
    STEP(KIND, n, registers, 3)

#endif
