/* amx_tile.c - see amx_tile.h. */
#include "engine/backend/cpu/amx_tile.h"
#include "engine/backend/cpu/avx512/vector_avx512.h"

#include <immintrin.h>
#include <string.h>

#define TILES __attribute__((always_inline)) static inline
/* The compiler does not know what tiles read and write. */
#define MEMORY_BARRIER __asm__ volatile("" ::: "memory")

enum { TILE = HRF_AMX_TILE, ROW_BYTES = 64 };

void hrf_amx_begin(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config;
    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = ROW_BYTES;
        config.rows[i] = TILE;
    }
    MEMORY_BARRIER;
    _tile_loadconfig(&config);
}

void hrf_amx_end(void)
{
    _tile_release();
}

/* Tiles 0 to 3 are sums: [row tile][column tile]; 4 and 5 are of a, 6 and 7 of b. */
TILES void multiply(const struct hrf_amx_block *k, const bool two_rows, const bool two_columns)
{
    const size_t a_bytes = (size_t)k->a_stride * 2, c_bytes = (size_t)k->c_stride * 4;
    float *c01 = k->c + TILE, *c10 = k->c + TILE * k->c_stride, *c11 = c10 + TILE;
    MEMORY_BARRIER;
    if (k->accumulates) {
        _tile_loadd(0, k->c, c_bytes);
        if (two_columns)
            _tile_loadd(1, c01, c_bytes);
        if (two_rows)
            _tile_loadd(2, c10, c_bytes);
        if (two_rows && two_columns)
            _tile_loadd(3, c11, c_bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t s = 0; s < k->n_segments; s++) {
        const uint16_t *a = k->a + s * k->a_segment, *b = k->b + s * k->b_segment;
        for (int64_t i = 0; i < k->n_steps; i++, a += HRF_AMX_DEPTH, b += HRF_AMX_STEP) {
            _tile_loadd(6, b, ROW_BYTES);
            _tile_loadd(4, a, a_bytes);
            _tile_dpbf16ps(0, 4, 6);
            if (two_columns) {
                _tile_loadd(7, b + k->b_panel, ROW_BYTES);
                _tile_dpbf16ps(1, 4, 7);
            }
            if (two_rows) {
                _tile_loadd(5, a + TILE * k->a_stride, a_bytes);
                _tile_dpbf16ps(2, 5, 6);
            }
            if (two_rows && two_columns)
                _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, k->c, c_bytes);
    if (two_columns)
        _tile_stored(1, c01, c_bytes);
    if (two_rows)
        _tile_stored(2, c10, c_bytes);
    if (two_rows && two_columns)
        _tile_stored(3, c11, c_bytes);
    MEMORY_BARRIER;
}

void hrf_amx_multiply(const struct hrf_amx_block *k)
{
    if (k->row_tiles == 2 && k->column_tiles == 2)
        multiply(k, true, true);
    else if (k->row_tiles == 2)
        multiply(k, true, false);
    else if (k->column_tiles == 2)
        multiply(k, false, true);
    else
        multiply(k, false, false);
}

/* ---- packing ---- */

/* 16 channels of a row, bfloat16 in the low halves of words. */
TILES __m512i load_row(const void *row, int64_t first, __mmask16 some, const bool of_floats)
{
    if (row == NULL)
        return _mm512_setzero_si512();
    return _mm512_cvtepu16_epi32(
        of_floats ? hrf_to_b16_avx512(_mm512_maskz_loadu_ps(some, (const float *)row + first))
                  : _mm256_maskz_loadu_epi16(some, (const uint16_t *)row + first));
}

/* 16 channels of two rows: words of a number of each. */
TILES __m512i load_pair(const void *const *rows, int64_t first, __mmask16 some,
                        const bool of_floats)
{
    const __m512i high = load_row(rows[1], first, some, of_floats);
    return _mm512_or_si512(load_row(rows[0], first, some, of_floats), _mm512_slli_epi32(high, 16));
}

TILES __mmask16 mask_of(int64_t count)
{
    return (__mmask16)((1u << count) - 1);
}

TILES void pack_pairs(const void *const *rows, int64_t n, int64_t first, __mmask16 some,
                      uint16_t *to, const bool of_floats)
{
    for (int64_t i = 0; i < n; i += 2, to += 2 * TILE)
        _mm512_storeu_si512(to, load_pair(rows + i, first, some, of_floats));
}

void hrf_amx_pack_pairs(const struct hrf_amx_rows *rows, int64_t n, int64_t first, int64_t count,
                        uint16_t *to)
{
    if (rows->of_floats)
        pack_pairs(rows->rows, n, first, mask_of(count), to, true);
    else
        pack_pairs(rows->rows, n, first, mask_of(count), to, false);
}

/* Word c of register r becomes word r of register c. */
TILES void transpose(__m512i r[16])
{
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int j = 0; j < 4; j++) {
        t[j] = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x88);
        t[4 + j] = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xdd);
        t[8 + j] = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x88);
        t[12 + j] = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xdd);
    }
    for (int j = 0; j < 4; j++) {
        r[j] = _mm512_shuffle_i32x4(t[j], t[8 + j], 0x88);
        r[8 + j] = _mm512_shuffle_i32x4(t[j], t[8 + j], 0xdd);
        r[4 + j] = _mm512_shuffle_i32x4(t[4 + j], t[12 + j], 0x88);
        r[12 + j] = _mm512_shuffle_i32x4(t[4 + j], t[12 + j], 0xdd);
    }
}

void hrf_amx_pack_transposed(const struct hrf_amx_rows *rows, int64_t n, int64_t first,
                             int64_t count, uint16_t *to, int64_t stride)
{
    const __mmask16 some = mask_of(count);
    for (int64_t i = 0; i < n; i += HRF_AMX_DEPTH) {
        __m512i r[16];
        for (int k = 0; k < 16; k++)
            r[k] = rows->of_floats ? load_pair(rows->rows + i + 2 * k, first, some, true)
                                   : load_pair(rows->rows + i + 2 * k, first, some, false);
        transpose(r);
        for (int k = 0; k < 16; k++)
            _mm512_storeu_si512(to + k * stride + i, r[k]);
    }
}

/* 32 numbers of a row's depth, zeros beyond its end, as words of two. */
TILES __m512i load_depth(const void *row, int64_t at, int64_t left, bool of_floats)
{
    const __mmask32 some = left >= HRF_AMX_DEPTH ? 0xffffffffu : (1u << left) - 1;
    if (!of_floats)
        return _mm512_maskz_loadu_epi16(some, (const uint16_t *)row + at);
    const float *x = (const float *)row + at;
    const __m256i low = hrf_to_b16_avx512(_mm512_maskz_loadu_ps((__mmask16)some, x));
    const __m256i high = hrf_to_b16_avx512(_mm512_maskz_loadu_ps((__mmask16)(some >> 16), x + 16));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

void hrf_amx_pack_columns(const struct hrf_amx_rows *rows, int64_t depth, int64_t first,
                          int64_t count, uint16_t *to)
{
    for (int64_t at = 0; at < depth; at += HRF_AMX_DEPTH, to += HRF_AMX_STEP) {
        __m512i r[16];
        for (int k = 0; k < 16; k++)
            r[k] = k < count ? load_depth(rows->rows[first + k], at, depth - at, rows->of_floats)
                             : _mm512_setzero_si512();
        transpose(r);
        for (int k = 0; k < 16; k++)
            _mm512_storeu_si512(to + 2 * TILE * k, r[k]);
    }
}

int64_t hrf_amx_stride(int64_t n)
{
    const int64_t lines = (n + HRF_AMX_DEPTH - 1) / HRF_AMX_DEPTH;
    return (lines + (lines % 2 == 0)) * HRF_AMX_DEPTH;
}
