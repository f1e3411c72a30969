/* product_tile_avx512.h - a tile of the matrix product in registers: 1 to 9 rows by 1 to 4
 * registers of 16 columns, which are constant arguments of functions that are always inlined.
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

#define UNROLLED _Pragma("GCC unroll 32")

/* What a tile multiplies: floats, pairs of bfloat16, pairs of signed 16-bit integers, or fours of
 * bytes, unsigned of the rows by signed of the weights. Sums of integers have 32 bits. */
enum hrf_tile_word_type { HRF_TILE_FLOATS, HRF_TILE_B16, HRF_TILE_I16, HRF_TILE_BYTES };

/* A row's products of one step: its word, `at` bytes (a constant) beyond p + offset, in all lanes,
 * by each register of weights. In assembler, as a compiler turns the rows' addresses into more
 * pointers than there are registers; in one statement, as it needs one register more for two. */
#ifdef HRF_EMULATE_AVX512
#define ADD_ROW(instruction)                                                                       \
    v = (__m512)hrf_emulated_broadcast(p + offset + at);                                           \
    for (int c = 0; c < registers; c++)                                                            \
        x[c] = hrf_emulated_multiply(instruction, x[c], v, w[c]);
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
#endif

HRF_ALWAYS_INLINE void hrf_tile_add_row(const enum hrf_tile_word_type word_type,
                                        const int registers, __m512 *x, const char *p,
                                        int64_t offset, const int at, const __m512 *w)
{
    __m512 v;
    if (word_type == HRF_TILE_FLOATS) {
        ADD_ROW("vfmadd231ps")
    } else if (word_type == HRF_TILE_B16) {
        ADD_ROW("vdpbf16ps")
    } else if (word_type == HRF_TILE_I16) {
        ADD_ROW("vpdpwssd")
    } else {
        ADD_ROW("vpdpbusd")
    }
}

/* One step of the depth, `at` steps (a constant) beyond where the pointers are. x: the sums, row by
 * row. */
HRF_ALWAYS_INLINE void hrf_tile_add_step(const enum hrf_tile_word_type word_type, const int rows,
                                         const int registers, const char *const p[], int64_t offset,
                                         const char *w, const int at, __m512 *x)
{
    __m512 weights[MOST_REGISTERS];
    UNROLLED for (int c = 0; c < registers; c++)
        weights[c] = _mm512_load_ps(w + (at * registers + c) * LINE);
    UNROLLED for (int i = 0; i < rows; i++)
        hrf_tile_add_row(word_type, registers, x + i * registers, p[i], offset, at * WORD, weights);
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

#endif
