/* amx_tile.h - products of matrices of bfloat16 by AMX's tiles, and the packing for them. Sums are
 * float32, in the order of the depth, so that they depend neither on threads nor on how rows and
 * columns are cut. Subnormal numbers count as zero.
 *
 * One thread each. Knows nothing of tensors. Only to be called where hrf_cpu_has_amx() says so.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_AMX_TILE_H
#define HRF_ENGINE_BACKEND_CPU_AMX_TILE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HRF_AMX_TILE = 16,  /* rows, and columns, of a tile of sums */
    HRF_AMX_DEPTH = 32, /* bfloat16 of the depth that one instruction multiplies */
    HRF_AMX_BLOCK = 32, /* rows, and columns, of hrf_amx_multiply(): two tiles by two */
    /* bfloat16 of 16 columns and one step of the depth: [depth / 2][16 columns][2]. */
    HRF_AMX_STEP = HRF_AMX_DEPTH * HRF_AMX_TILE,
};

/* Before the first and after the last hrf_amx_multiply() of a thread. */
void hrf_amx_begin(void);
void hrf_amx_end(void);

/* c = (c +) the sum over the segments, and the depth of each, of a's rows times b's columns. There
 * are whole tiles: 16 or 32 rows, 16 or 32 columns. */
struct hrf_amx_block {
    const uint16_t *a; /* rows a_stride apart, in each of which the depth is contiguous */
    const uint16_t *b; /* two panels of 16 columns, [depth / 2][16][2] each */
    float *c;
    int64_t a_stride, b_panel; /* elements from one row or panel to the next */
    int64_t a_segment, b_segment, n_segments;
    int64_t n_steps; /* of HRF_AMX_DEPTH, of each segment */
    int64_t c_stride;
    int row_tiles, column_tiles; /* 1 or 2 */
    bool accumulates;
};
void hrf_amx_multiply(const struct hrf_amx_block *block);

/* A matrix [n][channels] as the addresses of its rows; NULL is a row of zeros. `n` is even. Of
 * float32 (rounded to nearest) or bfloat16. */
struct hrf_amx_rows {
    const void *const *rows;
    bool of_floats;
};
/* Channels [first, first + count) of n rows, count <= 16, as [n / 2][16][2]: depth is the rows. */
void hrf_amx_pack_pairs(const struct hrf_amx_rows *rows, int64_t n, int64_t first, int64_t count,
                        uint16_t *to);
/* The same as 16 rows of n numbers each, `stride` apart; n is a multiple of HRF_AMX_DEPTH. */
void hrf_amx_pack_transposed(const struct hrf_amx_rows *rows, int64_t n, int64_t first,
                             int64_t count, uint16_t *to, int64_t stride);
/* Rows [first, first + count) as columns, count <= 16, as [depth / 2][16][2], zeros up to the next
 * multiple of HRF_AMX_DEPTH. */
void hrf_amx_pack_columns(const struct hrf_amx_rows *rows, int64_t depth, int64_t first,
                          int64_t count, uint16_t *to);

/* Where rows of `n` numbers are best placed: a stride that does not put all of them in the same
 * sets of the first-level cache. */
int64_t hrf_amx_stride(int64_t n);

#endif
