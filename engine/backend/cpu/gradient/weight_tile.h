/* weight_tile.h - the inner loop of the gradient to a convolution's weights: one element of the
 * window, HRF_WEIGHT_ROWS channels of the output and HRF_WEIGHT_COLUMNS channels of the input. One
 * thread; knows nothing of tensors. */
#ifndef HRF_ENGINE_BACKEND_CPU_GRADIENT_WEIGHT_TILE_H
#define HRF_ENGINE_BACKEND_CPU_GRADIENT_WEIGHT_TILE_H

#include <stdbool.h>
#include <stdint.h>

enum { HRF_WEIGHT_ROWS = 6, HRF_WEIGHT_COLUMNS = 16 };

/* The sums over the outputs of some images, in their order. */
struct hrf_weight_tile {
    const float *dy; /* [images][rows][columns][HRF_WEIGHT_ROWS] */
    const float *x;  /* the pixel under this element of the first output's window */
    int64_t images, rows, columns;
    int64_t image_step, row_step, column_step; /* floats of x from one output to the next */
    float *sums;                               /* [HRF_WEIGHT_ROWS][HRF_WEIGHT_COLUMNS] */
    int64_t stride;                            /* floats from one row of the sums to the next */
    bool is_first;                             /* else the sums are added to what is there */
};

/* For each instruction set NAME. */
void hrf_weight_tile_plain(const struct hrf_weight_tile *tile);
void hrf_weight_tile_avx2(const struct hrf_weight_tile *tile);

#endif
