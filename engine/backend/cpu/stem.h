/* stem.h - a network's first convolution, of few channels and stride 2, by Winograd's F(3x3, 4x4).
 *
 * A window of stride 2 sees even and odd rows and columns with different taps: with the four
 * phases of a pixel's 2x2 neighbours side by side, c channels become 4c channels of an image half
 * as large, and up to 8x8 taps become up to 4x4, of stride 1. Each tile of 3x3 outputs comes from
 * 6x6 such pixels and takes 36 products per channel, where a 7x7 window takes 9 * 49 / 4. The
 * points, and with them the input's transform, are those of F(4x4, 3x3): see winograd.h.
 *
 * Where a phase has three taps, its weights at infinity are zero, and these products are left out.
 * One thread each; bits depend on where in a tile an output lies, not on how tiles are cut into
 * runs. Knows nothing of tensors. The last four only where hrf_cpu_has_avx512() says so.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_STEM_H
#define HRF_ENGINE_BACKEND_CPU_STEM_H

#include "engine/backend/cpu/product.h"

enum {
    HRF_STEM_OUT = 3,      /* rows, columns of a tile */
    HRF_STEM_IN = 6,       /* of the half-sized pixels under it */
    HRF_STEM_ROWS = 12,    /* of the image under it */
    HRF_STEM_KERNEL = 8,   /* rows, columns of a window, at most */
    HRF_STEM_CHANNELS = 4, /* of the image, at most: four phases fill a register */
    HRF_STEM_LANES = 16,   /* of a register */
    HRF_STEM_PANEL = 32,   /* output channels at a time: 16 or 32 */
    HRF_STEM_TILES = 24,   /* side by side, at a time, at most; */
    HRF_STEM_SIDE = 4,     /* of them are multiplied at once */
};

struct hrf_stem {
    int64_t channels;
    int64_t n_far[2]; /* phases of rows, of columns that have a fourth tap */
};

/* Floats of the scratch: what lies under the tiles transformed along columns only, later a panel's
 * sums transformed back along them; and what lies under them transformed both ways. */
enum {
    HRF_STEM_HALF_FLOATS = HRF_STEM_TILES * HRF_STEM_OUT * HRF_STEM_IN * HRF_STEM_PANEL,
    HRF_STEM_WHOLE_FLOATS = HRF_STEM_TILES * HRF_STEM_IN * HRF_STEM_IN * HRF_STEM_LANES,
};

struct hrf_stem hrf_stem_of(int64_t channels, int64_t kernel_rows, int64_t kernel_columns);
/* Floats of the packed weights of n_outputs channels. */
int64_t hrf_stem_packed_count(const struct hrf_stem *stem, int64_t n_outputs);
/* w: [n_outputs][channels][rows][columns] of one panel. */
void hrf_stem_pack(const struct hrf_stem *stem, const float *w, int64_t rows, int64_t columns,
                   int64_t n_outputs, float *packed);

/* What lies under a run of tiles side by side. */
struct hrf_stem_input {
    const char *rows[HRF_STEM_ROWS]; /* each from its first column; zeros outside the image */
    enum hrf_dtype type;             /* F32, F16 or B16 */
    int64_t n_columns;               /* of the image */
    int64_t first;                   /* column under the first tile, maybe outside the image */
};

/* Transforms what lies under n <= HRF_STEM_TILES tiles. */
void hrf_stem_input_avx512(const struct hrf_stem *stem, const struct hrf_stem_input *in, int64_t n,
                           float *half, float *whole);
/* The products of one panel of n_outputs, transformed back along columns. */
void hrf_stem_multiply_avx512(const struct hrf_stem *stem, const float *whole, const float *packed,
                              int64_t n, int64_t n_outputs, float *half);
/* The rest of the way back: rows[HRF_STEM_OUT] are where the panel of the first tile's first column
 * goes, NULL for rows outside; there are n_columns of them. The epilogue's bias is the panel's. */
void hrf_stem_output_avx512(const float *half, int64_t n_columns, int64_t n_outputs,
                            int64_t pixel_bytes, char *const rows[HRF_STEM_OUT],
                            const struct hrf_epilogue *epilogue);

/* Where the outputs go when RELU and a max pool follow, of 3x3 windows of stride 2 the first of
 * which begins at row and column -1. Each window takes what comes below and to the right when it
 * is there. */
struct hrf_stem_pool {
    const float *bias;
    bool is_odd;    /* the tiles' first row of outputs */
    int64_t n_rows; /* of the three, inside the image */
    /* Of the pool, from the first on that has some of them, each from its first column; NULL: not
     * wanted. */
    float *rows[HRF_STEM_OUT];
    bool goes_on;       /* rows[0] has its share of the outputs above */
    int64_t n_columns;  /* of outputs, from the first tile's on */
    int64_t first_tile; /* of its row */
    int64_t n_pooled;   /* columns of the pool */
    int64_t pitch;      /* floats from one to the next */
    float *open;        /* [HRF_STEM_OUT][pitch]: from one run of a row's tiles to the next */
};

void hrf_stem_pool_avx512(const float *half, int64_t n, int64_t n_outputs,
                          const struct hrf_stem_pool *pool);

#endif
