/* pool_avx512.h - the inner loops of pooling where there is AVX-512: the bits of those in pool.c.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_AVX512_POOL_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_AVX512_POOL_AVX512_H

#include "engine/ir/graph.h"

#include <stdbool.h>
#include <stdint.h>

/* What of a window lies inside the image: pixels of `channels` numbers (F32, F16 or B16). */
struct hrf_max_window {
    enum hrf_dtype type;
    const void *x;
    int64_t rows, columns, channels;
    int64_t row_step, column_step; /* numbers from one to the next */
    const char *ahead;             /* runs that will be read soon: only hints */
    int64_t n_ahead, ahead_step, ahead_bytes;
};

/* y[channels], of `type`: the largest of each, -INFINITY where there is none. */
void hrf_max_window_avx512(const struct hrf_max_window *window, enum hrf_dtype type, void *y);
/* y[channels], of `type`: the sum of each in float32, times a scale. */
void hrf_average_window_avx512(const struct hrf_max_window *window, float scale,
                               enum hrf_dtype type, void *y);
/* Adds lines of n numbers (F32, F16 or B16), `stride` numbers apart, to n sums, line by line. */
void hrf_add_lines_avx512(enum hrf_dtype type, const void *x, int64_t stride, int64_t n_lines,
                          int64_t n, double *sums);

#endif
