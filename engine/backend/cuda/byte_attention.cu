/* byte_attention.cu - hrf_k_attend_bytes() (attention.h). A weight is rounded once its query's
 * largest score and sum of exponentials are known, so a block walks over the keys three times: for
 * the one, for the other, and for the weights and their products with the values.
 *
 * Products are summed as floats of a few integers, which are exact below 2^24, and these sums as
 * integers.
 */
#include "engine/backend/cuda/attention_tile.cuh"

/* Channels of exact sums: 256 products of numbers from -255 to 255. */
enum { EXACT_CHANNELS = 256, N_BYTES = 256 };
static_assert(EXACT_CHANNELS * 255 * 255 < 1 << 24, "sums of products are exact as floats");
static_assert((int)KEYS <= (int)EXACT_CHANNELS, "so are those over a tile of keys");
static_assert((int)N_BYTES == (int)BLOCK_THREADS, "a thread copies one exponential");

/* A thread's sums over more than one tile. */
struct integer_sums {
    int32_t scores[ROWS][KEYS_EACH], values[ROWS][CHANNELS_EACH];
};

/* What the threads of a block share of its queries. */
struct byte_rows {
    uint32_t exponentials[N_BYTES];
    uint32_t largest[QUERIES]; /* score, counted from the lowest byte */
    uint32_t total[QUERIES];   /* of the exponentials */
};

DEVICE float round_to(const hrf_byte_steps &s, float t)
{
    return rintf(fminf(fmaxf(t * s.factor, s.low), s.high));
}

/* Rounds the scores that a thread has summed; counted from the lowest byte. */
DEVICE void round_scores(const hrf_attention_steps &steps, integer_sums *own)
{
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < KEYS_EACH; j++)
            own->scores[r][j] = (int32_t)round_to(steps.scores, (float)own->scores[r][j]) +
                                steps.scores.zero;
}

/* The rounded scores of a tile's queries and the keys from `key` on. */
DEVICE void score_keys(const hrf_k_attention &f, const hrf_attention_steps &steps, const tile &t,
                       int64_t key, float *queries, float *keys, sums *exact, integer_sums *own)
{
    FOR_THREADS(thread)
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < KEYS_EACH; j++)
            own[OWN(thread)].scores[r][j] = 0;
    for (int64_t c = 0; c < f.depth; c += EXACT_CHANNELS) {
        const int64_t end = c + EXACT_CHANNELS < f.depth ? c + EXACT_CHANNELS : f.depth;
        multiply_keys(f, t, key, c, end, queries, keys, exact);
        FOR_THREADS(thread)
        for (int r = 0; r < ROWS; r++)
            for (int j = 0; j < KEYS_EACH; j++)
                own[OWN(thread)].scores[r][j] += (int32_t)exact[OWN(thread)].scores[r][j];
    }
    FOR_THREADS(thread)
    round_scores(steps, &own[OWN(thread)]);
}

DEVICE bool has_key(const hrf_k_attention &f, int64_t first_key, int thread, int j)
{
    return first_key + thread % ACROSS + ACROSS * j < f.n_keys;
}

DEVICE void find_largest(const hrf_k_attention &f, int64_t key, int thread, const integer_sums &own,
                         byte_rows *rows)
{
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < KEYS_EACH; j++)
            if (has_key(f, key, thread, j))
                block_raise(&rows->largest[thread / ACROSS * ROWS + r], (uint32_t)own.scores[r][j]);
}

DEVICE uint32_t exponential(const byte_rows &rows, int query, int32_t score)
{
    return rows.exponentials[(int32_t)rows.largest[query] - score];
}

DEVICE void add_exponentials(const hrf_k_attention &f, int64_t key, int thread,
                             const integer_sums &own, byte_rows *rows)
{
    for (int r = 0; r < ROWS; r++) {
        const int query = thread / ACROSS * ROWS + r;
        for (int j = 0; j < KEYS_EACH; j++)
            if (has_key(f, key, thread, j))
                block_add(&rows->total[query], exponential(*rows, query, own.scores[r][j]));
    }
}

/* In steps from the zero point; 0 for what is no key. */
DEVICE void put_weights(const hrf_k_attention &f, const hrf_attention_steps &steps, int64_t key,
                        int thread, const integer_sums &own, const byte_rows &rows, float *weights)
{
    for (int r = 0; r < ROWS; r++) {
        const int query = thread / ACROSS * ROWS + r;
        hrf_byte_steps to = steps.weights;
        to.factor = (float)(1 / ((double)rows.total[query] * steps.weight_scale));
        for (int j = 0; j < KEYS_EACH; j++)
            weights[query * SCORE_LINE + thread % ACROSS + ACROSS * j] =
                has_key(f, key, thread, j)
                    ? round_to(to, (float)exponential(rows, query, own.scores[r][j]))
                    : 0.0f;
    }
}

DEVICE void add_exact_values(const float *weights, const float *values, int thread, sums *exact,
                             integer_sums *own)
{
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < CHANNELS_EACH; j++)
            exact->values[r][j] = 0;
    add_values(weights, values, thread, exact);
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < CHANNELS_EACH; j++)
            own->values[r][j] += (int32_t)exact->values[r][j];
}

DEVICE void store_bytes(const hrf_k_attention &f, const hrf_attention_steps &steps, const tile &t,
                        int thread, const integer_sums &own)
{
    const int64_t y = begin_of(f.y, t.image, t.head);
    const int64_t channel = t.first_channel + thread % ACROSS * CHANNELS_EACH;
    for (int r = 0; r < ROWS; r++) {
        const int64_t query = t.first_query + thread / ACROSS * ROWS + r;
        for (int j = 0; j < CHANNELS_EACH; j++)
            if (query < f.n_queries && channel + j < f.channels)
                static_cast<uint8_t *>(
                    f.y.array.data)[y + query * f.y.token + (channel + j) * f.y.channel] =
                    (uint8_t)((int32_t)round_to(steps.output, (float)own.values[r][j]) +
                              steps.output.zero);
    }
}

/* By n blocks, one for a part of the channels of a tile of queries. */
BLOCK_KERNEL attend_bytes(hrf_k_attention f, const hrf_attention_steps *from, int64_t n_tiles,
                          int64_t n_parts, int64_t n)
{
    SHARED float queries[QUERIES * LINE];
    SHARED float others[KEYS * LINE]; /* keys, then values */
    SHARED float weights[QUERIES * SCORE_LINE];
    SHARED byte_rows rows;
    sums exact[THREADS_HERE];
    integer_sums own[THREADS_HERE];
    const hrf_attention_steps &steps = *from;
    FOR_THREADS(thread)
    rows.exponentials[thread] = steps.exponentials[thread];
    FOR_EACH_BLOCK(i, n)
    {
        const tile t = tile_of(f, i, n_tiles, n_parts);
        const int64_t v = begin_of(f.v, t.image, t.head);
        BARRIER();
        FOR_THREADS(thread)
        {
            if (thread < QUERIES)
                rows.largest[thread] = rows.total[thread] = 0;
            for (int r = 0; r < ROWS; r++)
                for (int j = 0; j < CHANNELS_EACH; j++)
                    own[OWN(thread)].values[r][j] = 0;
        }
        for (int64_t key = 0; key < f.n_keys; key += KEYS) {
            score_keys(f, steps, t, key, queries, others, exact, own);
            FOR_THREADS(thread)
            find_largest(f, key, thread, own[OWN(thread)], &rows);
        }
        for (int64_t key = 0; key < f.n_keys; key += KEYS) {
            score_keys(f, steps, t, key, queries, others, exact, own);
            FOR_THREADS(thread)
            add_exponentials(f, key, thread, own[OWN(thread)], &rows);
        }
        for (int64_t key = 0; key < f.n_keys; key += KEYS) {
            score_keys(f, steps, t, key, queries, others, exact, own);
            FOR_THREADS(thread)
            put_weights(f, steps, key, thread, own[OWN(thread)], rows, weights);
            BARRIER();
            FOR_THREADS(thread)
            load_tile(others, KEYS, f.v, v, key, f.n_keys, t.first_channel, f.channels, thread);
            BARRIER();
            FOR_THREADS(thread)
            add_exact_values(weights, others, thread, &exact[OWN(thread)], &own[OWN(thread)]);
        }
        FOR_THREADS(thread)
        store_bytes(f, steps, t, thread, own[OWN(thread)]);
    }
}

cudaError_t hrf_k_attend_bytes(const struct hrf_k_attention *attention,
                               const struct hrf_attention_steps *steps, cudaStream_t stream)
{
    struct hrf_k_attention f = *attention;
    f.q.array.scale = f.k.array.scale = f.v.array.scale = 1; /* loaded as integers */
    const int64_t n_tiles = (f.n_queries + QUERIES - 1) / QUERIES;
    const int64_t n_parts = (f.channels + CHANNELS - 1) / CHANNELS;
    const int64_t n = f.images * f.heads * n_tiles * n_parts;
    return n == 0 ? cudaSuccess
                  : LAUNCH_BLOCKS(attend_bytes, n, stream, f, steps, n_tiles, n_parts, n);
}
