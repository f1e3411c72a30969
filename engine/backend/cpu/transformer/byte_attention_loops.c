/* byte_attention_loops.c - the form of byte_attention.h, for one instruction set, whose name is
 * HRF_INSTRUCTION_SET. */
#include "engine/backend/cpu/transformer/byte_attention.h"

#include <string.h>

#if defined(__AVX512VNNI__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#define PASTE(name, set)  name##_##set
#define EXPAND(name, set) PASTE(name, set)

enum {
    COLUMNS = 16, /* of a block of the right matrix */
    ROWS = 4,
    FEW_QUERIES = 2, /* queries whose sums and weights fill 12 AVX2 registers */
};

/* The keys, and channels of a head, rounded up to whole blocks of columns. */
static int64_t keys_of(const struct hrf_attention *k)
{
    return hrf_whole_lines(k->keys);
}

static int64_t channels_of(const struct hrf_attention *k)
{
    return hrf_whole_lines(k->view.of[HRF_HEAD_V].columns);
}

static void byte_attention_loops_measure(const struct hrf_attention *k,
                                         int64_t bytes[HRF_ATTENTION_BUFFERS])
{
    const int64_t keys = keys_of(k), channels = channels_of(k);
    bytes[HRF_PACKED_KEYS] = bytes[HRF_PACKED_VALUES] = keys * channels;
    bytes[HRF_KEY_TERMS] = bytes[HRF_OF_KEYS] = keys * 4; /* exponentials of a query */
    bytes[HRF_VALUE_TERMS] = channels * 4;
    bytes[HRF_QUERIES] = k->block * channels;
    bytes[HRF_WEIGHTS] = k->block * keys;
    bytes[HRF_SCORES] = k->block * k->score_row * 4;
}

static const uint8_t *row_of(const struct hrf_attention_tile *t, int which, int64_t i)
{
    return (const uint8_t *)hrf_spec_data(t->of->spec, t->call, which) + t->begin[which] +
           i * t->of->view.of[which].row;
}

/* Packs the keys as columns of the right matrix. A key's term is what the zero point of the queries
 * contributes to its sums. */
static void pack_keys(struct hrf_attention_tile *t)
{
    const struct hrf_byte_attention *a = t->of->constants;
    const int64_t depth = t->of->view.of[HRF_HEAD_K].columns, channels = channels_of(t->of);
    int32_t *terms = t->buffer[HRF_KEY_TERMS];
    memset(t->buffer[HRF_PACKED_KEYS], 0, (size_t)(keys_of(t->of) * channels));
    for (int64_t i = 0; i < t->n_keys; i++) {
        const uint8_t *x = row_of(t, HRF_HEAD_K, i);
        int8_t *to = (int8_t *)t->buffer[HRF_PACKED_KEYS] + i / COLUMNS * COLUMNS * channels +
                     i % COLUMNS * ROWS;
        int32_t sum = 0;
        for (int64_t c = 0; c < depth; c++) {
            const int8_t byte = (int8_t)(x[c] ^ a->k.flip);
            to[c / ROWS * COLUMNS * ROWS + c % ROWS] = byte;
            sum += byte;
        }
        terms[i] = a->q.zero * ((int32_t)depth * a->k.zero - sum);
    }
}

static void pack_values(struct hrf_attention_tile *t)
{
    const struct hrf_byte_attention *a = t->of->constants;
    const int64_t depth = t->of->view.of[HRF_HEAD_V].columns, keys = keys_of(t->of);
    int32_t *terms = t->buffer[HRF_VALUE_TERMS];
    memset(t->buffer[HRF_PACKED_VALUES], 0, (size_t)(keys * channels_of(t->of)));
    memset(terms, 0, (size_t)depth * sizeof *terms);
    for (int64_t i = 0; i < t->n_keys; i++) {
        const uint8_t *x = row_of(t, HRF_HEAD_V, i);
        for (int64_t c0 = 0; c0 < depth; c0 += COLUMNS) {
            const int64_t n = depth - c0 < COLUMNS ? depth - c0 : COLUMNS;
            int8_t *to = (int8_t *)t->buffer[HRF_PACKED_VALUES] + c0 * keys +
                         i / ROWS * COLUMNS * ROWS + i % ROWS;
            for (int64_t c = 0; c < n; c++) {
                const int8_t byte = (int8_t)(x[c0 + c] ^ a->v.flip);
                to[c * ROWS] = byte;
                terms[c0 + c] += byte;
            }
        }
    }
    for (int64_t c = 0; c < depth; c++)
        terms[c] = a->steps.weights.zero * ((int32_t)t->n_keys * a->v.zero - terms[c]);
}

static void byte_attention_loops_pack(struct hrf_attention_tile *t)
{
    pack_keys(t);
    pack_values(t);
    memset(t->buffer[HRF_QUERIES], 0, (size_t)(t->of->block * channels_of(t->of)));
    memset(t->buffer[HRF_WEIGHTS], 0, (size_t)(t->of->block * keys_of(t->of)));
}

static void byte_attention_loops_load(struct hrf_attention_tile *t)
{
    const uint8_t flip = ((const struct hrf_byte_attention *)t->of->constants)->q.flip;
    for (int64_t i = 0; i < t->n; i++) {
        const uint8_t *x = row_of(t, HRF_HEAD_Q, t->first + i);
        uint8_t *to = (uint8_t *)t->buffer[HRF_QUERIES] + i * channels_of(t->of);
        for (int64_t c = 0; c < t->of->view.of[HRF_HEAD_Q].columns; c++)
            to[c] = x[c] ^ flip;
    }
}

/* sums = left [HRF_BYTE_QUERIES][depth] times right, for n_columns; both are padded with zeros. */
#ifdef __AVX512VNNI__
static inline void product_block(const uint8_t *left, int64_t left_row, const int8_t *right,
                                 int64_t depth, int n, int32_t *sums, int64_t sums_row)
{
    __m512i y[HRF_BYTE_QUERIES][2];
    const int8_t *second = n > 1 ? right + COLUMNS * depth : right;
    for (int i = 0; i < HRF_BYTE_QUERIES; i++)
        y[i][0] = y[i][1] = _mm512_setzero_si512();
    for (int64_t k = 0; k < depth; k += ROWS) {
        const __m512i b0 = _mm512_loadu_si512(right + k * COLUMNS);
        const __m512i b1 = _mm512_loadu_si512(second + k * COLUMNS);
        for (int i = 0; i < HRF_BYTE_QUERIES; i++) {
            int32_t four;
            memcpy(&four, left + i * left_row + k, sizeof four);
            const __m512i x = _mm512_set1_epi32(four);
            y[i][0] = _mm512_dpbusd_epi32(y[i][0], x, b0);
            y[i][1] = _mm512_dpbusd_epi32(y[i][1], x, b1);
        }
    }
    for (int i = 0; i < HRF_BYTE_QUERIES; i++) {
        _mm512_storeu_si512(sums + i * sums_row, y[i][0]);
        if (n > 1)
            _mm512_storeu_si512(sums + i * sums_row + COLUMNS, y[i][1]);
    }
}
#elif defined(__AVX2__)
/* Computes one block of columns for a few queries. Bytes are widened to 16 bits, so that pairs of
 * products are added exactly. A register of sums has two for each of 4 columns. */
static inline void product_of_few(const uint8_t *left, int64_t left_row, const int8_t *right,
                                  int64_t depth, int32_t *sums, int64_t sums_row)
{
    __m256i y[FEW_QUERIES][4], w[4];
    for (int i = 0; i < FEW_QUERIES; i++)
        for (int c = 0; c < 4; c++)
            y[i][c] = _mm256_setzero_si256();
    for (int64_t k = 0; k < depth; k += ROWS) {
        const __m128i *const four_rows = (const __m128i *)(const void *)(right + k * COLUMNS);
        for (int c = 0; c < 4; c++)
            w[c] = _mm256_cvtepi8_epi16(_mm_loadu_si128(four_rows + c));
        for (int i = 0; i < FEW_QUERIES; i++) {
            int32_t four;
            memcpy(&four, left + i * left_row + k, sizeof four);
            const __m256i x = _mm256_cvtepu8_epi16(_mm_set1_epi32(four));
            for (int c = 0; c < 4; c++)
                y[i][c] = _mm256_add_epi32(y[i][c], _mm256_madd_epi16(x, w[c]));
        }
    }
    for (int i = 0; i < FEW_QUERIES; i++)
        for (int c = 0; c < 4; c += 2) {
            const __m256i both = _mm256_hadd_epi32(y[i][c], y[i][c + 1]);
            _mm256_storeu_si256((__m256i *)(void *)(sums + i * sums_row + c * 4),
                                _mm256_permute4x64_epi64(both, 0xd8));
        }
}

static inline void product_block(const uint8_t *left, int64_t left_row, const int8_t *right,
                                 int64_t depth, int n, int32_t *sums, int64_t sums_row)
{
    for (int c = 0; c < n; c++)
        for (int i = 0; i < HRF_BYTE_QUERIES; i += FEW_QUERIES)
            product_of_few(left + i * left_row, left_row, right + c * COLUMNS * depth, depth,
                           sums + i * sums_row + c * COLUMNS, sums_row);
}
#else
static inline void product_block(const uint8_t *left, int64_t left_row, const int8_t *right,
                                 int64_t depth, int n, int32_t *sums, int64_t sums_row)
{
    for (int i = 0; i < HRF_BYTE_QUERIES; i++)
        for (int c = 0; c < n * COLUMNS; c++) {
            const int8_t *b = right + c / COLUMNS * COLUMNS * depth + c % COLUMNS * ROWS;
            int32_t sum = 0;
            for (int64_t k = 0; k < depth; k++)
                sum += left[i * left_row + k] * b[k / ROWS * COLUMNS * ROWS + k % ROWS];
            sums[i * sums_row + c] = sum;
        }
}
#endif

static void byte_attention_loops_multiply(const uint8_t *left, int64_t left_row,
                                          const int8_t *right, int64_t depth, int64_t n_columns,
                                          int32_t *sums, int64_t sums_row)
{
    for (int64_t c = 0; c < n_columns; c += 2 * COLUMNS)
        product_block(left, left_row, right + c * depth, depth, c + COLUMNS < n_columns ? 2 : 1,
                      sums + c, sums_row);
}

static void byte_attention_loops_score(struct hrf_attention_tile *t)
{
    const int64_t channels = channels_of(t->of);
    byte_attention_loops_multiply(t->buffer[HRF_QUERIES], channels, t->buffer[HRF_PACKED_KEYS],
                                  channels, keys_of(t->of), t->buffer[HRF_SCORES],
                                  t->of->score_row);
}

static inline int32_t round_to(const struct hrf_byte_steps *s, float t)
{
    const float magic = 0x1.8p23f; /* adding and subtracting it rounds half to even */
    t = t < s->low ? s->low : t;
    t = t > s->high ? s->high : t;
    return (int32_t)((t + magic) - magic) + s->zero;
}

static inline int32_t sum_row(const uint8_t *x, int64_t n)
{
    int32_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

/* Rounds a row of scores, and its softmax to weights. */
static void weigh_row(const struct hrf_attention_tile *t, int64_t query, int32_t *scores,
                      uint8_t *weights)
{
    const struct hrf_byte_attention *a = t->of->constants;
    const int64_t depth = t->of->view.of[HRF_HEAD_Q].columns;
    const int32_t *terms = t->buffer[HRF_KEY_TERMS];
    const uint8_t *q = (const uint8_t *)t->buffer[HRF_QUERIES] + query * channels_of(t->of);
    const int32_t term = -a->k.zero * sum_row(q, depth);
    uint32_t *exponentials = t->buffer[HRF_OF_KEYS], sum = 0;
    int32_t largest = 0;
    for (int64_t i = 0; i < t->n_keys; i++) {
        scores[i] = round_to(&a->steps.scores,
                             (float)(scores[i] + terms[i] + term) * a->steps.scores.factor);
        largest = scores[i] > largest ? scores[i] : largest;
    }
    for (int64_t i = 0; i < t->n_keys; i++) {
        exponentials[i] = a->steps.exponentials[largest - scores[i]];
        sum += exponentials[i];
    }
    const float factor = (float)(1 / ((double)sum * a->steps.weight_scale));
    for (int64_t i = 0; i < t->n_keys; i++)
        weights[i] = (uint8_t)round_to(&a->steps.weights, (float)(int32_t)exponentials[i] * factor);
}

static void byte_attention_loops_weigh(struct hrf_attention_tile *t, struct hrf_score_row *rows,
                                       int64_t n_rows)
{
    for (int64_t i = 0; i < n_rows; i++) {
        const int64_t query = rows + i - t->rows;
        weigh_row(t, query, rows[i].scores,
                  (uint8_t *)t->buffer[HRF_WEIGHTS] + query * keys_of(t->of));
    }
}

static void byte_attention_loops_sum(struct hrf_attention_tile *t, enum hrf_dtype type, void *y,
                                     int64_t y_row)
{
    const struct hrf_byte_attention *a = t->of->constants;
    const int64_t keys = keys_of(t->of);
    const int32_t *terms = t->buffer[HRF_VALUE_TERMS], *sums = t->buffer[HRF_SCORES];
    const uint8_t *weights = t->buffer[HRF_WEIGHTS];
    uint8_t *to = y;
    (void)type; /* 8 bits */
    byte_attention_loops_multiply(weights, keys, t->buffer[HRF_PACKED_VALUES], keys,
                                  channels_of(t->of), t->buffer[HRF_SCORES], t->of->score_row);
    for (int64_t i = 0; i < t->n; i++, weights += keys, sums += t->of->score_row, to += y_row) {
        const int32_t term = -a->v.zero * sum_row(weights, t->n_keys);
        for (int64_t c = 0; c < t->of->view.of[HRF_HEAD_V].columns; c++)
            to[c] = (uint8_t)round_to(&a->steps.output,
                                      (float)(sums[c] + terms[c] + term) * a->steps.output.factor);
    }
}

const struct hrf_attention_form EXPAND(hrf_byte_attention, HRF_INSTRUCTION_SET) = {
    .min_queries = HRF_BYTE_QUERIES,
    .max_queries = HRF_BYTE_QUERIES,
    .step = HRF_BYTE_QUERIES,
    .prepare = hrf_byte_attention_prepare,
    .measure = byte_attention_loops_measure,
    .pack = byte_attention_loops_pack,
    .load = byte_attention_loops_load,
    .score = byte_attention_loops_score,
    .weigh = byte_attention_loops_weigh,
    .sum = byte_attention_loops_sum,
};
