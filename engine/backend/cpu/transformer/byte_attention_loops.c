/* byte_attention_loops.c - one head of byte_attention.h, for one instruction set. */
#include "engine/backend/cpu/transformer/byte_attention.h"

#include <math.h>
#include <string.h>

#ifdef __AVX512VNNI__
#include <immintrin.h>
#endif

#define PASTE(name, set)  name##_##set
#define EXPAND(name, set) PASTE(name, set)

enum { COLUMNS = 16, ROWS = 4 }; /* that stand together on the right side */

static int64_t up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* The parts of the workspace. */
struct buffers {
    int8_t *k, *v;                         /* right sides */
    int32_t *k_terms, *v_terms;            /* what each of their columns adds to a sum */
    uint8_t *q, *weights;                  /* left sides, HRF_BYTE_QUERIES rows */
    int32_t *sums;                         /* [HRF_BYTE_QUERIES][columns] */
    uint32_t *exponentials;                /* of one query */
    int64_t q_row, weights_row, n_columns; /* bytes; sums of a row */
};

static struct buffers lay_out(const struct hrf_byte_attention *a)
{
    const int64_t keys = up(a->n_keys, COLUMNS), depth = up(a->depth, COLUMNS);
    const int64_t wide = keys > depth ? keys : depth;
    char *at = a->workspace;
    struct buffers b = { .q_row = depth, .weights_row = keys, .n_columns = wide };
    b.k_terms = (int32_t *)(void *)at, at += keys * 4;
    b.v_terms = (int32_t *)(void *)at, at += depth * 4;
    b.sums = (int32_t *)(void *)at, at += HRF_BYTE_QUERIES * wide * 4;
    b.exponentials = (uint32_t *)(void *)at, at += keys * 4;
    b.k = (int8_t *)at, at += keys * depth;
    b.v = (int8_t *)at, at += keys * depth;
    b.q = (uint8_t *)at, at += HRF_BYTE_QUERIES * depth;
    b.weights = (uint8_t *)at;
    return b;
}

/* Row i of the matrix, depth bytes of it that exist, as a column of a right side. */
static void pack_keys(const struct hrf_byte_attention *a, const struct buffers *b)
{
    const int64_t keys = up(a->n_keys, COLUMNS), depth = up(a->depth, COLUMNS);
    memset(b->k, 0, (size_t)(keys * depth));
    for (int64_t i = 0; i < a->n_keys; i++) {
        const uint8_t *x = a->k.data + i * a->k.row;
        int8_t *to = b->k + i / COLUMNS * COLUMNS * depth + i % COLUMNS * ROWS;
        int32_t sum = 0;
        for (int64_t c = 0; c < a->depth; c++) {
            const int8_t byte = (int8_t)(x[c] ^ a->k.flip);
            to[c / ROWS * COLUMNS * ROWS + c % ROWS] = byte;
            sum += byte;
        }
        b->k_terms[i] = a->q.zero * ((int32_t)a->depth * a->k.zero - sum);
    }
}

static void pack_values(const struct hrf_byte_attention *a, const struct buffers *b)
{
    const int64_t keys = up(a->n_keys, COLUMNS), depth = up(a->depth, COLUMNS);
    memset(b->v, 0, (size_t)(keys * depth));
    for (int64_t c = 0; c < a->depth; c++)
        b->v_terms[c] = 0;
    for (int64_t i = 0; i < a->n_keys; i++) {
        const uint8_t *x = a->v.data + i * a->v.row;
        for (int64_t c0 = 0; c0 < a->depth; c0 += COLUMNS) {
            const int64_t n = a->depth - c0 < COLUMNS ? a->depth - c0 : COLUMNS;
            int8_t *to = b->v + c0 * keys + i / ROWS * COLUMNS * ROWS + i % ROWS;
            for (int64_t c = 0; c < n; c++) {
                const int8_t byte = (int8_t)(x[c0 + c] ^ a->v.flip);
                to[c * ROWS] = byte;
                b->v_terms[c0 + c] += byte;
            }
        }
    }
    for (int64_t c = 0; c < a->depth; c++)
        b->v_terms[c] = a->weights_zero * ((int32_t)a->n_keys * a->v.zero - b->v_terms[c]);
}

/* sums = left [HRF_BYTE_QUERIES][depth] times right, for n_columns, both filled up with zeros. */
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

static void multiply(const uint8_t *left, int64_t left_row, const int8_t *right, int64_t depth,
                     int64_t n_columns, int32_t *sums, int64_t sums_row)
{
    for (int64_t c = 0; c < n_columns; c += 2 * COLUMNS)
        product_block(left, left_row, right + c * depth, depth, c + COLUMNS < n_columns ? 2 : 1,
                      sums + c, sums_row);
}

static inline int32_t round_to(const struct hrf_byte_steps *s, float t)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding and taking it off rounds half to even */
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

/* Rounds a row of scores, and the softmax of it as weights. */
static void weigh(const struct hrf_byte_attention *a, const struct buffers *b, int32_t *scores,
                  int32_t term, uint8_t *weights)
{
    int32_t most = 0;
    for (int64_t i = 0; i < a->n_keys; i++) {
        const float t = (float)(scores[i] + b->k_terms[i] + term) * a->scores.factor;
        scores[i] = round_to(&a->scores, t);
        most = scores[i] > most ? scores[i] : most;
    }
    uint32_t sum = 0;
    for (int64_t i = 0; i < a->n_keys; i++) {
        b->exponentials[i] = a->exponentials[most - scores[i]];
        sum += b->exponentials[i];
    }
    const float factor = (float)(1 / ((double)sum * a->weight_scale));
    for (int64_t i = 0; i < a->n_keys; i++)
        weights[i] = (uint8_t)round_to(&a->weights, (float)(int32_t)b->exponentials[i] * factor);
}

static void finish(const struct hrf_byte_attention *a, const struct buffers *b, const int32_t *sums,
                   int32_t term, uint8_t *y)
{
    for (int64_t c = 0; c < a->depth; c++) {
        const float t = (float)(sums[c] + b->v_terms[c] + term) * a->output.factor;
        y[c] = (uint8_t)round_to(&a->output, t);
    }
}

static void load_queries(const struct hrf_byte_attention *a, const struct buffers *b, int64_t first,
                         int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *x = a->q.data + (first + i) * a->q.row;
        for (int64_t c = 0; c < a->depth; c++)
            b->q[i * b->q_row + c] = x[c] ^ a->q.flip;
    }
}

void EXPAND(hrf_byte_attention, HRF_INSTRUCTION_SET)(const struct hrf_byte_attention *a)
{
    const struct buffers b = lay_out(a);
    const int64_t keys = up(a->n_keys, COLUMNS), depth = up(a->depth, COLUMNS);
    pack_keys(a, &b);
    pack_values(a, &b);
    memset(b.q, 0, (size_t)(HRF_BYTE_QUERIES * b.q_row));
    memset(b.weights, 0, (size_t)(HRF_BYTE_QUERIES * b.weights_row));
    for (int64_t first = 0; first < a->n_queries; first += HRF_BYTE_QUERIES) {
        const int64_t rest = a->n_queries - first;
        const int64_t n = rest < HRF_BYTE_QUERIES ? rest : HRF_BYTE_QUERIES;
        load_queries(a, &b, first, n);
        multiply(b.q, b.q_row, b.k, depth, keys, b.sums, b.n_columns);
        for (int64_t i = 0; i < n; i++)
            weigh(a, &b, b.sums + i * b.n_columns,
                  -a->k.zero * sum_row(b.q + i * b.q_row, a->depth), b.weights + i * b.weights_row);
        multiply(b.weights, b.weights_row, b.v, keys, depth, b.sums, b.n_columns);
        for (int64_t i = 0; i < n; i++)
            finish(a, &b, b.sums + i * b.n_columns,
                   -a->v.zero * sum_row(b.weights + i * b.weights_row, a->n_keys),
                   a->y + (first + i) * a->y_row);
    }
}
