/* float_product.h - the product of matrices of floats on any processor: y = a w + bias + y.
 *
 * By AVX-512 (product.h) where the processor has it, else by tiles of 6 rows and 16 columns for
 * AVX2. Both sum an output as product.h says, in chains of HRF_PRODUCT_CHAIN products, each by
 * fused multiply-adds: its bits depend on the depth alone, not on the number of threads, nor on how
 * rows and columns are cut, and they are the same of both.
 *
 * `w` is packed in panels of up to 64 columns, or of 16 for AVX2, each [depth][width], the last one
 * filled up with zeros to a multiple of 16.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_FLOAT_PRODUCT_H
#define HRF_ENGINE_BACKEND_CPU_FLOAT_PRODUCT_H

#include "engine/backend/cpu/product.h"

int64_t hrf_float_product_count_panels(int64_t columns);
/* The first column of a panel; of the number of panels: where the last one ends. */
int64_t hrf_float_product_panel_begin(int64_t columns, int64_t panel);
/* Panels [first_panel, end_panel) of hrf_product_packed_count() floats. w[k][c] stands at
 * w[k * depth_stride + c * column_stride]. */
void hrf_float_product_pack(const float *w, int64_t depth_stride, int64_t column_stride,
                            int64_t depth, int64_t columns, int64_t first_panel, int64_t end_panel,
                            float *packed);

struct hrf_float_product {
    const float *a;
    int64_t a_stride; /* floats from one row to the next; those of a row are neighbours */
    const float *packed;
    float *y;
    int64_t y_stride;
    int64_t n_rows, depth, columns;
    int64_t first_panel, end_panel;
    const float *bias; /* [columns]; NULL: none */
    bool accumulate;   /* y is added last */
};
/* One thread. */
void hrf_float_product(const struct hrf_float_product *product);

/* For each instruction set NAME of plain/float_product_loops.c, with panels of this many columns:
 */
enum { HRF_NARROW_PANEL = 16 };
void hrf_float_product_avx2(const struct hrf_float_product *product);
void hrf_float_product_plain(const struct hrf_float_product *product);

#endif
