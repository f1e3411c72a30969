/* float_product.h - the product of matrices of floats on any processor: y = a w + bias + y.
 *
 * It uses AVX-512 (product.h) if the processor has it, else tiles of 6 rows by 16 columns for AVX2.
 * Both sum an output as product.h says, in chains of HRF_PRODUCT_CHAIN fused multiply-adds. The
 * bits of an output depend on the depth alone, not on the instruction set, the number of threads,
 * or how rows and columns are cut.
 *
 * `w` is packed in panels of up to 64 columns, or of 16 for AVX2, each [depth][width]. The last one
 * is padded with zeros to a multiple of 16.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_FLOAT_PRODUCT_H
#define HRF_ENGINE_BACKEND_CPU_FLOAT_PRODUCT_H

#include "engine/backend/cpu/product.h"

int64_t hrf_float_product_count_panels(int64_t columns);
/* The first column of a panel. For `panel` equal to the number of panels: the end of the last
 * one. */
int64_t hrf_float_product_panel_begin(int64_t columns, int64_t panel);
/* Packs panels [first_panel, end_panel) into `packed` of hrf_product_packed_count() floats. Element
 * [k][c] is w[k * depth_stride + c * column_stride]. */
void hrf_float_product_pack(const float *w, int64_t depth_stride, int64_t column_stride,
                            int64_t depth, int64_t columns, int64_t first_panel, int64_t end_panel,
                            float *packed);

struct hrf_float_product {
    const float *a;
    int64_t a_stride; /* floats from one row to the next; a row is contiguous */
    const float *packed;
    float *y;
    int64_t y_stride;
    int64_t n_rows, depth, columns;
    int64_t first_panel, end_panel;
    const float *bias; /* [columns]; NULL: none */
    bool accumulate;   /* y is added last */
};
/* Computes the product in the calling thread. */
void hrf_float_product(const struct hrf_float_product *product);

/* For each instruction set NAME of plain/float_product_loops.c, with panels of this many
 * columns: */
enum { HRF_NARROW_PANEL = 16 };
void hrf_float_product_avx2(const struct hrf_float_product *product);
void hrf_float_product_plain(const struct hrf_float_product *product);

#endif
