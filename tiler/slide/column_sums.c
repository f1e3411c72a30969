/* column_sums.c - see column_sums.h; compiled once for each instruction set, whose name is
 * HRF_INSTRUCTION_SET. The loops are written for the compiler to vectorise.
 *
 * The six bytes of two pixels are three pairs. `columns` has the sums of the first bytes of all
 * pairs, then those of the second bytes.
 */
#include "tiler/slide/column_sums.h"

#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the first byte of a pair is taken as its low one"
#endif

static inline uint16_t pair_at(const unsigned char *bytes)
{
    uint16_t pair;
    memcpy(&pair, bytes, sizeof pair);
    return pair;
}

static inline uint64_t four_at(const uint16_t *sums)
{
    uint64_t four;
    memcpy(&four, sums, sizeof four);
    return four;
}

static int64_t half_size(int64_t n_pixels)
{
    return 3 * ((n_pixels + 1) / 2);
}

/* Eight rows at once load and store the sums once. Pairs are added without taking them apart: what
 * they sum up to is the sum of the first bytes and 256 times that of the second. */
static void add_eight(const unsigned char *restrict row, int64_t stride, int64_t n_pairs,
                      uint16_t *restrict first, uint16_t *restrict second)
{
    for (int64_t i = 0; i < n_pairs; i++) {
        uint16_t both = 0, high = 0;
        for (int k = 0; k < 8; k++) {
            const uint16_t pair = pair_at(row + k * stride + 2 * i);
            both = (uint16_t)(both + pair);
            high = (uint16_t)(high + (pair >> 8));
        }
        first[i] = (uint16_t)(first[i] + both - (high << 8));
        second[i] = (uint16_t)(second[i] + high);
    }
}

static void add_row(const unsigned char *restrict row, int64_t n_pairs, uint16_t *restrict first,
                    uint16_t *restrict second)
{
    for (int64_t i = 0; i < n_pairs; i++) {
        const uint16_t pair = pair_at(row + 2 * i);
        first[i] = (uint16_t)(first[i] + (pair & 255));
        second[i] = (uint16_t)(second[i] + (pair >> 8));
    }
}

static void add(const unsigned char *rows, int64_t stride, int64_t n_rows, int64_t n_pixels,
                uint16_t *columns)
{
    const int64_t n_pairs = 3 * n_pixels / 2;
    uint16_t *second = columns + half_size(n_pixels);
    for (int64_t k = 0; k < n_rows && n_pixels % 2 != 0; k++)
        columns[n_pairs] = (uint16_t)(columns[n_pairs] + rows[k * stride + 2 * n_pairs]);
    for (; n_rows >= 8; n_rows -= 8, rows += 8 * stride)
        add_eight(rows, stride, n_pairs, columns, second);
    for (; n_rows > 0; n_rows--, rows += stride)
        add_row(rows, n_pairs, columns, second);
}

/* Adds a pixel: the even ones begin with the first byte of a pair, the odd ones with the second. */
static void add_pixel(const uint16_t *first, const uint16_t *second, int64_t x, int32_t sums[3])
{
    const int64_t pair = 3 * (x / 2);
    sums[0] += x % 2 == 0 ? first[pair] : second[pair + 1];
    sums[1] += x % 2 == 0 ? second[pair] : first[pair + 2];
    sums[2] += x % 2 == 0 ? first[pair + 1] : second[pair + 2];
}

enum { GROUP = 8, MAX_GROUPS = 2 }; /* pixels; groups whose triples sum up to 16 bits */

/* The sums of four triples, in the lowest three of four lanes of 16 bits. */
static inline uint64_t add_triples(const uint64_t words[3])
{
    return words[0] + (words[0] >> 48 | words[1] << 16) + (words[1] >> 32 | words[2] << 32) +
           (words[2] >> 16);
}

static inline int32_t lane(uint64_t lanes, int i)
{
    return (int32_t)(lanes >> 16 * i & 0xffff);
}

/* Adds n groups of pixels, the first of which is even; four sums of 16 bits at a time. */
static void add_groups(const uint16_t *first, const uint16_t *second, int64_t n, int32_t sums[3])
{
    enum { SIZE = 3 * GROUP / 2, N_WORDS = SIZE / 4 };
    uint64_t words[2][N_WORDS] = { { 0 } };
    for (int64_t k = 0; k < n; k++)
        for (int i = 0; i < N_WORDS; i++) {
            words[0][i] += four_at(first + k * SIZE + 4 * i);
            words[1][i] += four_at(second + k * SIZE + 4 * i);
        }
    const uint64_t one = add_triples(words[0]), two = add_triples(words[1]);
    sums[0] += lane(one, 0) + lane(two, 1);
    sums[1] += lane(two, 0) + lane(one, 2);
    sums[2] += lane(one, 1) + lane(two, 2);
}

static void fold(uint16_t *columns, int64_t n_pixels, const int32_t *begin, int64_t n,
                 int32_t *cells)
{
    const uint16_t *second = columns + half_size(n_pixels);
    for (int64_t i = 0; i < n; i++) {
        int64_t x = begin[i];
        const int64_t end = begin[i + 1];
        if (x % 2 != 0 && x < end)
            add_pixel(columns, second, x++, cells + 3 * i);
        while (end - x >= GROUP) {
            const int64_t left = (end - x) / GROUP, k = left < MAX_GROUPS ? left : MAX_GROUPS;
            add_groups(columns + 3 * x / 2, second + 3 * x / 2, k, cells + 3 * i);
            x += k * GROUP;
        }
        for (; x < end; x++)
            add_pixel(columns, second, x, cells + 3 * i);
    }
    memset(columns, 0, (size_t)half_size(n_pixels) * 2 * sizeof columns[0]);
}

#define JOIN(set)   hrf_column_sums_##set
#define EXPAND(set) JOIN(set)
const struct hrf_column_sums EXPAND(HRF_INSTRUCTION_SET) = { add, fold };
