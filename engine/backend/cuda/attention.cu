/* attention.cu - see attention.h. A block of threads takes a tile of queries of one head and up to
 * CHANNELS channels of the result. It walks over the keys a tile at a time, through shared memory,
 * and keeps for each query the largest score so far, the sum of the exponentials and the sums of
 * the values, all divided by the exponential of that score. Source: Milakov and Gimelshein, "Online
 * normalizer calculation for softmax" (2018); Dao et al., "FlashAttention" (2022).
 */
#include "engine/backend/cuda/attention_tile.cuh"

DEVICE void put_scores(const hrf_k_attention &f, int thread, const sums *s, float *scores)
{
    const int first = thread / ACROSS * ROWS, across = thread % ACROSS;
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < KEYS_EACH; j++)
            scores[(first + r) * SCORE_LINE + across + ACROSS * j] = s->scores[r][j] * f.scale;
}

/* A key that the query does not see, or that is none, gets minus infinity. */
DEVICE void mask_scores(const hrf_k_attention &f, const tile &t, int64_t first_key, int thread,
                        float *scores)
{
    const bool has_mask = f.mask.array.data != nullptr;
    const int64_t mask = has_mask ? begin_of(f.mask, t.image % f.mask_images, t.head) : 0;
    if (!has_mask && f.causal == 0 && first_key + KEYS <= f.n_keys)
        return;
    UNROLL(1)
    for (int i = thread; i < QUERIES * KEYS; i += BLOCK_THREADS) {
        const int64_t query = t.first_query + i / KEYS, key = first_key + i % KEYS;
        float *score = scores + i / KEYS * SCORE_LINE + i % KEYS;
        if (key >= f.n_keys || (f.causal != 0 && key > query))
            *score = -INFINITY;
        else if (has_mask && query < f.n_queries)
            *score += load(f.mask.array, mask + query * f.mask.token + key * f.mask.channel);
    }
}

/* The largest scores with those of this tile; what was summed before is divided anew. */
DEVICE void find_most(const float *scores, int thread, sums *s)
{
    const int first = thread / ACROSS * ROWS;
    for (int r = 0; r < ROWS; r++) {
        float most = s->most[r];
        for (int k = 0; k < KEYS; k += pack<float>::N) {
            const pack<float> row = pack_at(scores, (first + r) * SCORE_LINE + k);
            for (int i = 0; i < pack<float>::N; i++)
                most = fmaxf(most, row.at[i]);
        }
        const float factor = s->most[r] == -INFINITY ? 0.0f : expf(s->most[r] - most);
        s->most[r] = most;
        s->total[r] *= factor;
        for (int j = 0; j < CHANNELS_EACH; j++)
            s->values[r][j] *= factor;
    }
}

DEVICE void put_exponentials(int thread, const sums *s, float *scores)
{
    const int first = thread / ACROSS * ROWS, across = thread % ACROSS;
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < KEYS_EACH; j++) {
            float *score = scores + (first + r) * SCORE_LINE + across + ACROSS * j;
            *score = s->most[r] == -INFINITY ? 0.0f : expf(*score - s->most[r]);
        }
}

/* Where the state of a query begins. */
DEVICE int64_t state_of(const hrf_k_attention &f, const tile &t, int64_t query)
{
    return ((t.image * f.n_queries + query) * f.heads + t.head) * (f.channels + 2);
}

/* Of a tile's lines, what the queries have seen of earlier keys; nothing without such a state. */
DEVICE void begin_sums(const hrf_k_attention &f, const tile &t, int thread, sums *s)
{
    const int64_t channel = t.first_channel + thread % ACROSS * CHANNELS_EACH;
    for (int r = 0; r < ROWS; r++) {
        const int64_t query = t.first_query + thread / ACROSS * ROWS + r;
        const bool has_seen = f.seen != nullptr && query < f.n_queries;
        const float *seen = has_seen ? f.seen + state_of(f, t, query) : nullptr;
        s->most[r] = has_seen ? seen[f.channels] : -INFINITY;
        s->total[r] = has_seen ? seen[f.channels + 1] : 0.0f;
        for (int j = 0; j < CHANNELS_EACH; j++)
            s->values[r][j] = has_seen && channel + j < f.channels ? seen[channel + j] : 0.0f;
    }
}

/* Into a tile of shared memory; 0 for a query that saw no key. With the last channels of a state
 * goes what belongs to all of them: it may lie where `seen` does, which is read until then. */
DEVICE void put_sums(const hrf_k_attention &f, const tile &t, int thread, const sums *s, float *to)
{
    const int first = thread / ACROSS * ROWS, across = thread % ACROSS;
    for (int r = 0; r < ROWS; r++) {
        const int64_t query = t.first_query + first + r;
        const float divisor = f.gives_state != 0 || s->most[r] == -INFINITY ? 1.0f : s->total[r];
        for (int j = 0; j < CHANNELS_EACH; j++)
            to[(first + r) * LINE + across * CHANNELS_EACH + j] = s->values[r][j] / divisor;
        if (f.gives_state == 0 || across != 0 || t.first_channel + CHANNELS < f.channels ||
            query >= f.n_queries)
            continue;
        float *end = static_cast<float *>(f.y.array.data) + state_of(f, t, query) + f.channels;
        end[0] = s->most[r];
        end[1] = s->total[r];
    }
}

DEVICE void store_tile(const hrf_k_attention &f, const tile &t, int thread, const float *from)
{
    const int64_t y = begin_of(f.y, t.image, t.head);
    UNROLL(1)
    for (int i = thread; i < QUERIES * CHANNELS; i += BLOCK_THREADS) {
        const int64_t query = t.first_query + i / CHANNELS, c = t.first_channel + i % CHANNELS;
        if (query < f.n_queries && c < f.channels)
            store(f.y.array,
                  f.gives_state != 0 ? state_of(f, t, query) + c
                                     : y + query * f.y.token + c * f.y.channel,
                  from[i / CHANNELS * LINE + i % CHANNELS]);
    }
}

DEVICE int64_t keys_seen(const hrf_k_attention &f, const tile &t)
{
    const int64_t behind = t.first_query + QUERIES;
    return f.causal != 0 && behind < f.n_keys ? behind : f.n_keys;
}

/* By `n` blocks, each of which takes `parts_each` parts of the channels in turn. */
BLOCK_KERNEL attend(hrf_k_attention f, int64_t n_tiles, int64_t n_parts, int64_t parts_each,
                    int64_t n)
{
    SHARED float queries[QUERIES * LINE];
    SHARED float others[KEYS * LINE]; /* keys, then values */
    SHARED float scores[QUERIES * SCORE_LINE];
    sums own[THREADS_HERE];
    FOR_EACH_BLOCK(block, n)
    for (int64_t i = block * parts_each; i < (block + 1) * parts_each; i++) {
        const tile t = tile_of(f, i, n_tiles, n_parts);
        const int64_t n_keys = keys_seen(f, t);
        const int64_t v = begin_of(f.v, t.image, t.head);
        FOR_THREADS(thread)
        begin_sums(f, t, thread, &own[OWN(thread)]);
        for (int64_t key = 0; key < n_keys; key += KEYS) {
            multiply_keys(f, t, key, 0, f.depth, queries, others, own);
            FOR_THREADS(thread)
            put_scores(f, thread, &own[OWN(thread)], scores);
            BARRIER();
            FOR_THREADS(thread)
            {
                load_tile(others, KEYS, f.v, v, key, f.n_keys, t.first_channel, f.channels, thread);
                mask_scores(f, t, key, thread, scores);
            }
            BARRIER();
            FOR_THREADS(thread)
            find_most(scores, thread, &own[OWN(thread)]);
            BARRIER();
            FOR_THREADS(thread)
            put_exponentials(thread, &own[OWN(thread)], scores);
            BARRIER();
            FOR_THREADS(thread)
            add_values(scores, others, thread, &own[OWN(thread)]);
        }
        BARRIER();
        FOR_THREADS(thread)
        put_sums(f, t, thread, &own[OWN(thread)], queries);
        BARRIER();
        FOR_THREADS(thread)
        store_tile(f, t, thread, queries);
        BARRIER();
    }
}

cudaError_t hrf_k_attend(const struct hrf_k_attention *attention, cudaStream_t stream)
{
    const struct hrf_k_attention &f = *attention;
    const int64_t n_tiles = (f.n_queries + QUERIES - 1) / QUERIES;
    const int64_t n_parts = (f.channels + CHANNELS - 1) / CHANNELS;
    const int64_t parts_each = f.gives_state != 0 ? n_parts : 1;
    const int64_t n = f.images * f.heads * n_tiles * n_parts / parts_each;
    return n == 0 ? cudaSuccess
                  : LAUNCH_BLOCKS(attend, n, stream, f, n_tiles, n_parts, parts_each, n);
}
