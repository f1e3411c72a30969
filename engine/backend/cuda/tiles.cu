/* tiles.cu - images cut out of decoded tiles of a slide, and what of the tiles was written. */
#include "engine/backend/cuda/elements.cuh"

/* A warp for each row of a cut; `rows`: of the highest one. */
KERNEL cut_rows(uint8_t *images, const uint8_t *tiles, const hrf_tile_cut *cuts, hrf_k_tiles t,
                int64_t rows, int64_t n)
{
    FOR_EACH_WARP(i, n)
    {
        const hrf_tile_cut cut = cuts[i / rows];
        const int64_t row = i % rows;
        if (row >= cut.height)
            continue;
        const int64_t plane = (int64_t)t.tile_height * t.tile_width;
        const int64_t pixel = (cut.tile_y + row) * t.tile_width + cut.tile_x;
        const uint8_t *from = tiles + cut.tile * plane * 3 + (t.is_planar ? pixel : pixel * 3);
        uint8_t *to = images + (((int64_t)cut.image * t.n_rows + cut.y + row) * t.side + cut.x) * 3;
        for (int64_t k = LANE; k < (int64_t)cut.width * 3; k += LANES)
            to[k] = t.is_planar ? from[k % 3 * plane + k / 3] : from[k];
    }
}

cudaError_t hrf_k_cut_tiles(uint8_t *images, const uint8_t *tiles, const struct hrf_tile_cut *cuts,
                            int64_t n_cuts, const struct hrf_k_tiles *t, cudaStream_t stream)
{
    const int64_t rows = t->tile_height < t->n_rows ? t->tile_height : t->n_rows;
    const int64_t n = n_cuts * rows;
    return n == 0 ? cudaSuccess
                  : LAUNCH_WARPS(cut_rows, n, stream, images, tiles, cuts, *t, rows, n);
}

/* A warp for each strip: floats count that far exactly. */
KERNEL count_bytes(int32_t *counts, const uint8_t *tiles, hrf_k_tiles t, int64_t strips,
                   uint8_t value, int64_t n)
{
    FOR_EACH_WARP(i, n)
    {
        const int64_t first = i % strips * HRF_K_STRIP_ROWS;
        const int64_t left = t.tile_height - first;
        const int64_t rows = left < HRF_K_STRIP_ROWS ? left : HRF_K_STRIP_ROWS;
        const uint8_t *from = tiles +
                              (i / strips * t.tile_height + first) * (int64_t)t.tile_width * 3;
        float n_value = 0, n_zero = 0;
        for (int64_t k = LANE; k < rows * t.tile_width * 3; k += LANES) {
            n_value += from[k] == value ? 1.0f : 0.0f;
            n_zero += from[k] == 0 ? 1.0f : 0.0f;
        }
        n_value = warp_sum(n_value);
        n_zero = warp_sum(n_zero);
        if (LANE == 0) {
            counts[2 * i] = (int32_t)n_value;
            counts[2 * i + 1] = (int32_t)n_zero;
        }
    }
}

cudaError_t hrf_k_count_bytes(int32_t *counts, const uint8_t *tiles, int64_t n_tiles,
                              const struct hrf_k_tiles *t, uint8_t value, cudaStream_t stream)
{
    const int64_t strips = hrf_k_tile_strips(t), n = n_tiles * strips;
    return n == 0 ? cudaSuccess
                  : LAUNCH_WARPS(count_bytes, n, stream, counts, tiles, *t, strips, value, n);
}
