/* column_sums.c - see column_sums.h; compiled once for each instruction set, whose name is
 * HRF_INSTRUCTION_SET. The loops over columns are written for the compiler to vectorise; what
 * shuffles lanes is written by intrinsics.
 *
 * The six bytes of two pixels are three pairs. `columns` has the sums of the first bytes of all
 * pairs, then those of the second bytes.
 */
#include "tiler/slide/column_sums.h"

#include <string.h>
#ifdef __SSSE3__
#include <immintrin.h>
#endif

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the first byte of a pair is taken as its low one"
#endif

static inline uint16_t pair_at(const unsigned char *bytes)
{
    uint16_t pair;
    memcpy(&pair, bytes, sizeof pair);
    return pair;
}

static int64_t half_size(int64_t n_pixels)
{
    return 3 * ((n_pixels + 1) / 2);
}

/* Eight rows at once load and store the sums once. Pairs are added without taking them apart: what
 * they sum up to is the sum of the first bytes and 256 times that of the second. `kept` is
 * all ones, or 0 if the sums so far do not count. */
static void add_eight(const unsigned char *restrict row, int64_t stride, int64_t n_pairs,
                      uint16_t kept, uint16_t *restrict first, uint16_t *restrict second)
{
    for (int64_t i = 0; i < n_pairs; i++) {
        uint16_t both = 0, high = 0;
        for (int k = 0; k < 8; k++) {
            const uint16_t pair = pair_at(row + k * stride + 2 * i);
            both = (uint16_t)(both + pair);
            high = (uint16_t)(high + (pair >> 8));
        }
        first[i] = (uint16_t)((first[i] & kept) + both - (high << 8));
        second[i] = (uint16_t)((second[i] & kept) + high);
    }
}

static void add_row(const unsigned char *restrict row, int64_t n_pairs, uint16_t kept,
                    uint16_t *restrict first, uint16_t *restrict second)
{
    for (int64_t i = 0; i < n_pairs; i++) {
        const uint16_t pair = pair_at(row + 2 * i);
        first[i] = (uint16_t)((first[i] & kept) + (pair & 255));
        second[i] = (uint16_t)((second[i] & kept) + (pair >> 8));
    }
}

static void column_sums_add(const unsigned char *rows, int64_t stride, int64_t n_rows,
                            int64_t n_pixels, bool is_first, uint16_t *columns)
{
    const int64_t n_pairs = 3 * n_pixels / 2;
    uint16_t *second = columns + half_size(n_pixels);
    uint16_t kept = is_first ? 0 : UINT16_MAX;
    if (n_pixels % 2 != 0) {
        columns[n_pairs] &= kept;
        for (int64_t k = 0; k < n_rows; k++)
            columns[n_pairs] = (uint16_t)(columns[n_pairs] + rows[k * stride + 2 * n_pairs]);
    }
    for (; n_rows >= 8; n_rows -= 8, rows += 8 * stride, kept = UINT16_MAX)
        add_eight(rows, stride, n_pairs, kept, columns, second);
    for (; n_rows > 0; n_rows--, rows += stride, kept = UINT16_MAX)
        add_row(rows, n_pairs, kept, columns, second);
}

/* Adds a pixel: the even ones begin with the first byte of a pair, the odd ones with the second. */
static void add_pixel(const uint16_t *first, const uint16_t *second, int64_t x, int32_t sums[3])
{
    const int64_t pair = 3 * (x / 2);
    sums[0] += x % 2 == 0 ? first[pair] : second[pair + 1];
    sums[1] += x % 2 == 0 ? second[pair] : first[pair + 2];
    sums[2] += x % 2 == 0 ? first[pair + 1] : second[pair + 2];
}

enum { GROUP = 8 }; /* pixels whose R, G or B sum up to 16 bits */

#ifdef __SSSE3__

/* Returns R, G, B and 0 in 32 bits. The low six lanes of `first` are sums of R, B, G, R, B, G,
 * those of `second` of G, R, B, G, R, B; the other two do not matter. */
static inline __m128i rgb_of(__m128i first, __m128i second)
{
    const __m128i to_rbg = _mm_setr_epi8(2, 3, 4, 5, 0, 1, 8, 9, 10, 11, 6, 7, -1, -1, -1, -1);
    const __m128i to_rgb = _mm_setr_epi8(0, 1, -1, -1, 4, 5, -1, -1, 2, 3, -1, -1, -1, -1, -1, -1);
    const __m128i halves = _mm_add_epi16(first, _mm_shuffle_epi8(second, to_rbg));
    return _mm_shuffle_epi8(_mm_add_epi16(halves, _mm_srli_si128(halves, 6)), to_rgb);
}

/* Returns the sums of a group's pairs i and i + 6 in lane i. */
static inline __m128i halves_of(const uint16_t *sums)
{
    return _mm_add_epi16(_mm_loadu_si128((const void *)sums),
                         _mm_loadu_si128((const void *)(sums + 6)));
}

/* Adds a group of pixels, the first of which is even. */
static inline void add_group(const uint16_t *first, const uint16_t *second, int32_t sums[4])
{
    const __m128i rgb = rgb_of(halves_of(first), halves_of(second));
    _mm_storeu_si128((void *)sums, _mm_add_epi32(_mm_loadu_si128((const void *)sums), rgb));
}

#else

static inline uint64_t four_at(const uint16_t *sums)
{
    uint64_t four;
    memcpy(&four, sums, sizeof four);
    return four;
}

/* The sums of four triples, in the lowest three of four lanes of 16 bits. */
static inline uint64_t add_triples(const uint16_t *sums)
{
    const uint64_t words[3] = { four_at(sums), four_at(sums + 4), four_at(sums + 8) };
    return words[0] + (words[0] >> 48 | words[1] << 16) + (words[1] >> 32 | words[2] << 32) +
           (words[2] >> 16);
}

static inline int32_t lane(uint64_t lanes, int i)
{
    return (int32_t)(lanes >> 16 * i & 0xffff);
}

/* Adds a group of pixels, the first of which is even; four sums of 16 bits at a time. */
static void add_group(const uint16_t *first, const uint16_t *second, int32_t sums[4])
{
    const uint64_t one = add_triples(first), two = add_triples(second);
    sums[0] += lane(one, 0) + lane(two, 1);
    sums[1] += lane(two, 0) + lane(one, 2);
    sums[2] += lane(one, 1) + lane(two, 2);
}

#endif

/* Adds the pixels [x, end), which need not begin with an even one or be whole groups. */
static void add_pixels(const uint16_t *first, const uint16_t *second, int64_t x, int64_t end,
                       int32_t sums[4])
{
    if (x % 2 != 0 && x < end)
        add_pixel(first, second, x++, sums);
    for (; end - x >= GROUP; x += GROUP)
        add_group(first + 3 * (x / 2), second + 3 * (x / 2), sums);
    for (; x < end; x++)
        add_pixel(first, second, x, sums);
}

static void fold(const uint16_t *columns, int64_t n_pixels, const int32_t *begin, int64_t n,
                 bool is_first, int32_t *cells)
{
    const uint16_t *second = columns + half_size(n_pixels);
    for (int64_t i = 0; i < n; i++) {
        const int32_t x = begin[i], end = begin[i + 1];
        int32_t sums[4] = { 0 }; /* of R, G and B */
        if (end - x == GROUP && x % 2 == 0)
            add_group(columns + 3 * (x >> 1), second + 3 * (x >> 1), sums);
        else
            add_pixels(columns, second, x, end, sums);
        for (int c = 0; c < 3 && !is_first; c++)
            sums[c] += cells[3 * i + c];
        memcpy(cells + 3 * i, sums, 3 * sizeof cells[0]);
    }
}

#ifdef __AVX2__

static inline void column_sums_put(__m128i rgb, bool is_first, int32_t cell[3])
{
    const __m128i blue = _mm_srli_si128(rgb, 8);
    if (!is_first)
        rgb = _mm_add_epi32(rgb, _mm_loadl_epi64((const void *)cell));
    _mm_storel_epi64((void *)cell, rgb);
    cell[2] = _mm_cvtsi128_si32(blue) + (is_first ? 0 : cell[2]);
}

/* Adds two groups, whose 24 pairs have these sums, to their cells or to the one that holds both. */
static inline void add_two_groups(const __m128i first[3], const __m128i second[3], bool is_one_cell,
                                  bool is_first, int32_t *cells)
{
    const __m128i one = rgb_of(_mm_add_epi16(first[0], _mm_alignr_epi8(first[1], first[0], 12)),
                               _mm_add_epi16(second[0], _mm_alignr_epi8(second[1], second[0], 12)));
    const __m128i other = rgb_of(
        _mm_add_epi16(_mm_alignr_epi8(first[2], first[1], 8), _mm_srli_si128(first[2], 4)),
        _mm_add_epi16(_mm_alignr_epi8(second[2], second[1], 8), _mm_srli_si128(second[2], 4)));
    column_sums_put(is_one_cell ? _mm_add_epi32(one, other) : one, is_first, cells);
    if (!is_one_cell)
        column_sums_put(other, is_first, cells + 3);
}

/* Does what add_eight() and fold() do, without storing the sums of the columns between them. The
 * mean of eight pairs, rounded up three times, is at most 1.5 above low / 8 + 32 high, where low
 * and high are the sums of the first and the second bytes. Without low / 8, rounded down, it is
 * less than 3 above 32 high, so that high is exact. */
static void add_blocks(const unsigned char *rows, int64_t stride, int64_t n_pixels, int64_t width,
                       bool is_first, int32_t *cells)
{
    const int64_t step = 3 * (2 * GROUP / width); /* sums of two groups */
    for (int64_t i = 0; i < n_pixels / HRF_COLUMN_SUMS_BLOCK; i++, cells += 2 * step) {
        __m128i first[6], second[6];
        for (int v = 0; v < 3; v++) {
            const unsigned char *row = rows + 3 * i * HRF_COLUMN_SUMS_BLOCK + 32 * v;
            __m256i pairs[8], low = _mm256_setzero_si256();
            for (int k = 0; k < 8; k++) {
                pairs[k] = _mm256_loadu_si256((const void *)(row + k * stride));
                low = _mm256_add_epi16(low, _mm256_and_si256(pairs[k], _mm256_set1_epi16(255)));
            }
            for (int n = 4; n > 0; n /= 2)
                for (int k = 0; k < n; k++)
                    pairs[k] = _mm256_avg_epu16(pairs[2 * k], pairs[2 * k + 1]);
            const __m256i high = _mm256_srli_epi16(
                _mm256_sub_epi16(pairs[0], _mm256_srli_epi16(low, 3)), 5);
            first[2 * v] = _mm256_castsi256_si128(low);
            first[2 * v + 1] = _mm256_extracti128_si256(low, 1);
            second[2 * v] = _mm256_castsi256_si128(high);
            second[2 * v + 1] = _mm256_extracti128_si256(high, 1);
        }
        add_two_groups(first, second, width > GROUP, is_first, cells);
        add_two_groups(first + 3, second + 3, width > GROUP, is_first, cells + step);
    }
}

#else

#define add_blocks NULL

#endif

#define JOIN(set)   hrf_column_sums_##set
#define EXPAND(set) JOIN(set)
const struct hrf_column_sums EXPAND(HRF_INSTRUCTION_SET) = { column_sums_add, fold, add_blocks };
