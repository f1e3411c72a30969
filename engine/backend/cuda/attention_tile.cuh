/* attention_tile.cuh - what the kernels of attention share: a block's tile of queries, keys and
 * channels in shared memory, and the sums of products over it. */
#ifndef HRF_ENGINE_BACKEND_CUDA_ATTENTION_TILE_CUH
#define HRF_ENGINE_BACKEND_CUDA_ATTENTION_TILE_CUH

#include "engine/backend/cuda/attention.h"

#include "engine/backend/cuda/elements.cuh"

/* A thread has ROWS queries, and of each of them KEYS_EACH scores and CHANNELS_EACH channels:
 * ACROSS threads share a query. Lines of shared memory are so long that the packs of eight threads
 * lie in different banks. */
enum {
    QUERIES = 64,
    KEYS = 32,
    CHANNELS = 64,
    ROWS = 4,
    ACROSS = 16,
    KEYS_EACH = KEYS / ACROSS,
    CHANNELS_EACH = CHANNELS / ACROSS,
    LINE = CHANNELS + 4,
    SCORE_LINE = KEYS + 4,
};
static_assert(QUERIES / ROWS * ACROSS == BLOCK_THREADS, "every thread has its part of a tile");
static_assert((int)CHANNELS_EACH == (int)pack<float>::N, "a thread's channels are one pack");

/* What a thread keeps in registers. */
struct sums {
    float values[ROWS][CHANNELS_EACH], scores[ROWS][KEYS_EACH], most[ROWS], total[ROWS];
};

/* Which part of the work a block does. */
struct tile {
    int64_t image, head, first_query, first_channel;
};

DEVICE tile tile_of(const hrf_k_attention &f, int64_t i, int64_t n_tiles, int64_t n_parts)
{
    tile t;
    t.first_channel = i % n_parts * CHANNELS;
    t.first_query = i / n_parts % n_tiles * QUERIES;
    t.head = i / n_parts / n_tiles % f.heads;
    t.image = i / n_parts / n_tiles / f.heads;
    return t;
}

DEVICE int64_t begin_of(const hrf_k_heads &x, int64_t image, int64_t head)
{
    return image * x.image + head / x.shared * x.head;
}

/* `n_lines` tokens from `token` on and CHANNELS channels from `channel` on; zeros where there are
 * none. */
DEVICE void load_tile(float *to, int n_lines, const hrf_k_heads &x, int64_t begin, int64_t token,
                      int64_t n_tokens, int64_t channel, int64_t n_channels, int thread)
{
    UNROLL(1)
    for (int i = thread; i < n_lines * CHANNELS; i += BLOCK_THREADS) {
        const int line = i / CHANNELS, c = i % CHANNELS;
        const bool is_there = token + line < n_tokens && channel + c < n_channels;
        const int64_t at = begin + (token + line) * x.token + (channel + c) * x.channel;
        to[line * LINE + c] = is_there ? load(x.array, at) : 0.0f;
    }
}

DEVICE const pack<float> &pack_at(const float *tile, int i)
{
    return *reinterpret_cast<const pack<float> *>(tile + i);
}

DEVICE void add_scores(const float *queries, const float *keys, int n_channels, int thread, sums *s)
{
    const int first = thread / ACROSS * ROWS, across = thread % ACROSS;
    UNROLL(1)
    for (int c = 0; c < n_channels; c += pack<float>::N) {
        pack<float> k[KEYS_EACH];
        for (int j = 0; j < KEYS_EACH; j++)
            k[j] = pack_at(keys, (across + ACROSS * j) * LINE + c);
        for (int r = 0; r < ROWS; r++) {
            const pack<float> q = pack_at(queries, (first + r) * LINE + c);
            for (int j = 0; j < KEYS_EACH; j++)
                for (int i = 0; i < pack<float>::N; i++)
                    s->scores[r][j] = fmaf(q.at[i], k[j].at[i], s->scores[r][j]);
        }
    }
}

DEVICE void add_values(const float *scores, const float *values, int thread, sums *s)
{
    const int first = thread / ACROSS * ROWS, across = thread % ACROSS;
    UNROLL(2)
    for (int k = 0; k < KEYS; k++) {
        const pack<float> v = pack_at(values, k * LINE + across * CHANNELS_EACH);
        for (int r = 0; r < ROWS; r++) {
            const float p = scores[(first + r) * SCORE_LINE + k];
            s->total[r] += p;
            for (int j = 0; j < CHANNELS_EACH; j++)
                s->values[r][j] = fmaf(p, v.at[j], s->values[r][j]);
        }
    }
}

/* The products of a tile's queries with the keys from `key` on, of channels [begin, end). */
DEVICE void multiply_keys(const hrf_k_attention &f, const tile &t, int64_t key, int64_t begin,
                          int64_t end, float *queries, float *keys, sums *own)
{
    const int64_t q = begin_of(f.q, t.image, t.head);
    const int64_t k = begin_of(f.k, t.image, t.head);
    FOR_THREADS(thread)
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < KEYS_EACH; j++)
            own[OWN(thread)].scores[r][j] = 0;
    for (int64_t c = begin; c < end; c += CHANNELS) {
        const int n_channels = end - c < CHANNELS ? (int)(end - c) : CHANNELS;
        BARRIER();
        FOR_THREADS(thread)
        {
            if (key == 0 || f.depth > CHANNELS)
                load_tile(queries, QUERIES, f.q, q, t.first_query, f.n_queries, c, f.depth, thread);
            load_tile(keys, KEYS, f.k, k, key, f.n_keys, c, f.depth, thread);
        }
        BARRIER();
        FOR_THREADS(thread)
        add_scores(queries, keys, n_channels, thread, &own[OWN(thread)]);
    }
}

#endif
