/* rows_avx512.h - up to 14 rows of a product, unrolled by the preprocessor.
 *
 * ROW(i, pointer, offset): row i lies at pointer + offset bytes; 14 pointers do not fit into the
 * general registers, so every third row has one, and offset1 and offset2 lead to the two after it
 * (offset0 to itself).
 */
#ifndef HRF_ENGINE_BACKEND_CPU_AVX512_ROWS_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_AVX512_ROWS_AVX512_H

#include <stdint.h>

/* Declares them, of rows `stride` bytes apart. Tiles of few rows leave some unused. */
#define DECLARE_ROWS                                                                               \
    const char *p0, *p1, *p2, *p3, *p4;                                                            \
    int64_t offset0, offset1, offset2;
#define PLACE_ROWS(first, stride)                                                                  \
    p0 = (first), p1 = p0 + 3 * (stride), p2 = p1 + 3 * (stride), p3 = p2 + 3 * (stride);          \
    p4 = p3 + 3 * (stride), offset0 = 0, offset1 = (stride), offset2 = 2 * (stride);               \
    (void)p1, (void)p2, (void)p3, (void)p4, (void)offset0, (void)offset1, (void)offset2;
#define ADVANCE_ROWS(n_bytes)                                                                      \
    offset0 += (n_bytes);                                                                          \
    offset1 += (n_bytes);                                                                          \
    offset2 += (n_bytes);

#define ROWS_1(ROW)  ROW(0, p0, offset0)
#define ROWS_2(ROW)  ROWS_1(ROW) ROW(1, p0, offset1)
#define ROWS_3(ROW)  ROWS_2(ROW) ROW(2, p0, offset2)
#define ROWS_4(ROW)  ROWS_3(ROW) ROW(3, p1, offset0)
#define ROWS_5(ROW)  ROWS_4(ROW) ROW(4, p1, offset1)
#define ROWS_6(ROW)  ROWS_5(ROW) ROW(5, p1, offset2)
#define ROWS_7(ROW)  ROWS_6(ROW) ROW(6, p2, offset0)
#define ROWS_8(ROW)  ROWS_7(ROW) ROW(7, p2, offset1)
#define ROWS_9(ROW)  ROWS_8(ROW) ROW(8, p2, offset2)
#define ROWS_10(ROW) ROWS_9(ROW) ROW(9, p3, offset0)
#define ROWS_11(ROW) ROWS_10(ROW) ROW(10, p3, offset1)
#define ROWS_12(ROW) ROWS_11(ROW) ROW(11, p3, offset2)
#define ROWS_13(ROW) ROWS_12(ROW) ROW(12, p4, offset0)
#define ROWS_14(ROW) ROWS_13(ROW) ROW(13, p4, offset1)

#endif
