/* rows_avx512.h - up to 14 rows of a product, unrolled by the preprocessor.
 *
 * ROW(i, pointer, offset): row i lies at pointer + offset bytes; 14 pointers do not fit into the
 * general registers, so every third row has one and those after it stand a `pitch` or two further.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_ROWS_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_ROWS_AVX512_H

/* Two registers of sums each, and two for the weights. */
enum { HRF_MAX_ROWS = 14 };

#define ROWS_1(ROW)  ROW(0, p0, 0)
#define ROWS_2(ROW)  ROWS_1(ROW) ROW(1, p0, pitch)
#define ROWS_3(ROW)  ROWS_2(ROW) ROW(2, p0, 2 * pitch)
#define ROWS_4(ROW)  ROWS_3(ROW) ROW(3, p1, 0)
#define ROWS_5(ROW)  ROWS_4(ROW) ROW(4, p1, pitch)
#define ROWS_6(ROW)  ROWS_5(ROW) ROW(5, p1, 2 * pitch)
#define ROWS_7(ROW)  ROWS_6(ROW) ROW(6, p2, 0)
#define ROWS_8(ROW)  ROWS_7(ROW) ROW(7, p2, pitch)
#define ROWS_9(ROW)  ROWS_8(ROW) ROW(8, p2, 2 * pitch)
#define ROWS_10(ROW) ROWS_9(ROW) ROW(9, p3, 0)
#define ROWS_11(ROW) ROWS_10(ROW) ROW(10, p3, pitch)
#define ROWS_12(ROW) ROWS_11(ROW) ROW(11, p3, 2 * pitch)
#define ROWS_13(ROW) ROWS_12(ROW) ROW(12, p4, 0)
#define ROWS_14(ROW) ROWS_13(ROW) ROW(13, p4, pitch)

#endif
