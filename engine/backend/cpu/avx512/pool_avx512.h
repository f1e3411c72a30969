/* pool_avx512.h - the inner loops of pooling with AVX-512; they give the same bits as those in
 * pool.c.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_AVX512_POOL_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_AVX512_POOL_AVX512_H

#include "engine/ir/graph.h"

#include <stdbool.h>
#include <stdint.h>

/* The part of a window inside the image: pixels of `channels` elements (F32, F16 or B16). */
struct hrf_max_window {
    enum hrf_dtype type;
    const void *x;
    int64_t rows, columns, channels;
    int64_t row_step, column_step; /* elements from one to the next */
    const char *ahead;             /* runs that will be read soon, to be prefetched */
    int64_t n_ahead, ahead_step, ahead_bytes;
};

/* Sets y[channels], of `type`, to the maximum of each channel; -INFINITY if the window is empty. */
void hrf_max_window_avx512(const struct hrf_max_window *window, enum hrf_dtype type, void *y);
/* Sets y[channels], of `type`, to the sum of each channel in float32, times a scale. */
void hrf_average_window_avx512(const struct hrf_max_window *window, float scale,
                               enum hrf_dtype type, void *y);
/* Adds lines of n elements (F32, F16 or B16), `stride` elements apart, to n sums, line by line. */
void hrf_add_lines_avx512(enum hrf_dtype type, const void *x, int64_t stride, int64_t n_lines,
                          int64_t n, double *sums);

#endif
