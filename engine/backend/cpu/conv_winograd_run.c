/* conv_winograd_run.c - how the threads share a Winograd convolution.
 *
 * Of small weights a block of tiles is small, too, so that its scratch stays in the second-level
 * cache beside them: a thread takes a block of its stretch (stretches.h), reads its tiles, runs a
 * product for each point and writes the tiles, with nothing shared but the weights.
 *
 * Large weights come from memory for each block: then there are as few blocks as threads, and a
 * thread that is done with its own helps with the others', tile by tile and point by point. (Halves
 * cut beforehand left a thread waiting for 3 to 8 % of the time where the machine has other work.)
 */
#include "engine/backend/cpu/conv_winograd.h"
#include "engine/backend/cpu/stretches.h"

#include <omp.h>
#include <string.h>

/* ---- tiles ---- */

struct place {
    int64_t image, row, column; /* of the tile's first output */
};

static struct place place_of(const struct hrf_winograd_kernel *k, int64_t tile)
{
    const int64_t per_image = k->tile_rows * k->tile_columns;
    return (struct place){ .image = tile / per_image,
                           .row = tile % per_image / k->tile_columns * HRF_WINOGRAD_OUT,
                           .column = tile % k->tile_columns * HRF_WINOGRAD_OUT };
}

/* Of the next tile, without divisions: those of place_of() take as long as a few transforms. */
static void advance(const struct hrf_winograd_kernel *k, struct place *at)
{
    at->column += HRF_WINOGRAD_OUT;
    if (at->column < k->out_columns)
        return;
    at->column = 0;
    at->row += HRF_WINOGRAD_OUT;
    if (at->row < k->out_rows)
        return;
    at->row = 0;
    at->image++;
}

static int64_t pixel_bytes(const struct hrf_winograd_kernel *k)
{
    return k->channels * (int64_t)hrf_dtype_size(k->type);
}

/* Bytes from x to a tile's first pixel, which may lie outside the image. */
static int64_t offset_of(const struct hrf_winograd_kernel *k, const struct place *at)
{
    const int64_t row = at->image * k->rows + at->row - k->pad[0];
    return (row * k->columns + at->column - k->pad[1]) * pixel_bytes(k);
}

static bool is_far(const struct hrf_winograd_kernel *k)
{
    return k->at_once > 0;
}

static void read_tile(const struct hrf_winograd_kernel *k, const char *x, const struct place *at,
                      float *v)
{
    const char *pixels[HRF_WINOGRAD_POINTS];
    const bool has_prologue = hrf_cpu_prologue_is_there(&k->prologue);
    const char *outside = has_prologue ? NULL : (const char *)k->zeros;
    const int64_t top = at->row - k->pad[0], left = at->column - k->pad[1];
    const int64_t pixel = pixel_bytes(k);
    const char *row = x + offset_of(k, at), **to = pixels;
    for (int64_t i = 0; i < HRF_WINOGRAD_IN; i++, row += k->columns * pixel) {
        const bool row_is_there = top + i >= 0 && top + i < k->rows;
        for (int64_t j = 0; j < HRF_WINOGRAD_IN; j++) {
            const bool inside = row_is_there && left + j >= 0 && left + j < k->columns;
            *to++ = inside ? row + j * pixel : outside;
        }
    }
    hrf_winograd_input_avx512(k->type, pixels, k->channels, has_prologue ? &k->prologue : NULL, v,
                              k->slot, is_far(k));
}

static void write_tile(const struct hrf_winograd_kernel *k, const float *const *m, int64_t m_at,
                       const struct place *at, char *out)
{
    char *outputs[HRF_WINOGRAD_OUTPUTS], **to = outputs;
    const int64_t pixel = k->out_channels * (int64_t)hrf_dtype_size(k->out_type);
    const int64_t row_bytes = k->out_columns * pixel, side = HRF_WINOGRAD_OUT;
    char *row = out + (at->image * k->out_rows + at->row) * row_bytes + at->column * pixel;
    for (int64_t i = 0; i < side; i++, row += row_bytes)
        for (int64_t j = 0; j < side; j++) {
            const bool inside = at->row + i < k->out_rows && at->column + j < k->out_columns;
            *to++ = inside ? row + j * pixel : NULL;
        }
    hrf_winograd_output_avx512(m, m_at, k->out_channels, is_far(k), outputs, &k->epilogue);
}

struct tiles {
    int64_t first, n;
};

static struct tiles block_of(const struct hrf_winograd_kernel *k, int64_t i)
{
    const int64_t first = k->n_tiles * i / k->n_blocks;
    return (struct tiles){ .first = first, .n = k->n_tiles * (i + 1) / k->n_blocks - first };
}

/* v: of the first tile. */
static void read_tiles(const struct hrf_winograd_kernel *k, struct tiles tiles, const char *x,
                       float *v)
{
    struct place at = place_of(k, tiles.first);
    for (int64_t i = 0; i < tiles.n; i++, advance(k, &at))
        read_tile(k, x, &at, v + i * k->v_pitch);
}

/* m: by point, of a block in which `begin` tiles stand before these. */
static void write_tiles(const struct hrf_winograd_kernel *k, struct tiles tiles,
                        const float *const *m, int64_t begin, char *out)
{
    struct place at = place_of(k, tiles.first);
    for (int64_t i = 0; i < tiles.n; i++, advance(k, &at))
        write_tile(k, m, (begin + i) * k->m_pitch, &at, out);
}

/* v: a point's tiles. */
static void multiply(const struct hrf_winograd_kernel *k, int64_t point, const float *v, float *m,
                     int64_t n, const struct hrf_ahead *ahead)
{
    static const struct hrf_epilogue as_is = { .type = HRF_F32, .activation = HRF_ACT_NONE };
    const float *weights = k->weights +
                           (size_t)point * hrf_product_packed_count(k->channels, k->out_channels);
    hrf_product_avx512(HRF_FLOATS, v, k->v_pitch, weights, k->channels, m, k->m_pitch, n,
                       k->out_channels, &as_is, ahead);
}

/* ---- each thread its own blocks ---- */

/* The image rows under a block. */
static struct hrf_ahead rows_under(const struct hrf_winograd_kernel *k, const char *x,
                                   struct tiles block)
{
    const struct place from = place_of(k, block.first), to = place_of(k, block.first + block.n - 1);
    const int64_t row_bytes = k->columns * pixel_bytes(k);
    const int64_t begin = from.image * k->rows + from.row;
    int64_t end = to.image * k->rows + to.row + HRF_WINOGRAD_OUT + 1;
    end = end < k->n * k->rows ? end : k->n * k->rows;
    return (struct hrf_ahead){ .memory = x + begin * row_bytes,
                               .n_bytes = (end - begin) * row_bytes };
}

/* Point p's input lies in slot p + 1, its product goes to slot p. Each product asks for a share of
 * what is read next. */
static void multiply_all(const struct hrf_winograd_kernel *k, int64_t n, float *slots,
                         const float **m, struct hrf_ahead next)
{
    const int64_t n_points = HRF_WINOGRAD_POINTS;
    next.n_bytes /= n_points;
    for (int64_t point = 0; point < n_points; point++, next.memory += next.n_bytes) {
        float *const to = slots + point * k->slot;
        multiply(k, point, to + k->slot, to, n, &next);
        m[point] = to;
    }
}

static int64_t own_floats(const struct hrf_winograd_kernel *k)
{
    return (HRF_WINOGRAD_POINTS + 1) * k->slot;
}

/* A thread knows its next block before it begins one, and asks for its pixels meanwhile. */
static void run_alone(const struct hrf_winograd_kernel *k, const char *x, char *out, float *slots,
                      const struct hrf_stretches *blocks)
{
    const float *m[HRF_WINOGRAD_POINTS];
    for (int64_t i = hrf_stretches_take(blocks), next; i >= 0; i = next) {
        next = hrf_stretches_take(blocks);
        const struct tiles block = block_of(k, i);
        read_tiles(k, block, x, slots + k->slot);
        multiply_all(k, block.n, slots, m, rows_under(k, x, block_of(k, next >= 0 ? next : i)));
        write_tiles(k, block, m, 0, out);
    }
}

static void run_apart(const struct hrf_winograd_kernel *k, const struct hrf_kernel_call *call)
{
    const int64_t n_threads = k->backend->n_threads;
    struct hrf_stretch *const of = call->workspace;
    const struct hrf_stretches blocks = hrf_stretches_begin(of, n_threads, k->n_blocks);
#pragma omp parallel
    run_alone(k, call->inputs[HRF_CONV_X], call->output,
              (float *)(void *)(of + n_threads) + omp_get_thread_num() * own_floats(k), &blocks);
}

/* ---- all threads on a few blocks ---- */

enum { GROUP = 4 }; /* tiles that are taken at a time */
enum work { READ, MULTIPLY, WRITE, N_WORKS };

struct team {
    const char *x;
    char *out;
    float *slots;                /* spare ones, one a thread, then each block's */
    const float **products;      /* [at_once][n_points] */
    int64_t (*n_taken)[N_WORKS]; /* [at_once] */
    int64_t first, n;            /* blocks that are worked on */
};

struct item {
    int64_t block, i; /* block: from team.first; i: its group of tiles, or a point */
};

static size_t shared_floats(const struct hrf_winograd_kernel *k)
{
    return (size_t)((k->backend->n_threads + k->at_once * HRF_WINOGRAD_POINTS) * k->slot);
}

static struct team team_of(const struct hrf_winograd_kernel *k, const struct hrf_kernel_call *call)
{
    float *const slots = call->workspace;
    const float **products = (const float **)(void *)(slots + shared_floats(k));
    return (struct team){
        .x = call->inputs[HRF_CONV_X],
        .out = call->output,
        .slots = slots,
        .products = products,
        .n_taken = (int64_t(*)[N_WORKS])(void *)(products + k->at_once * HRF_WINOGRAD_POINTS),
    };
}

static float *input_slot(const struct hrf_winograd_kernel *k, const struct team *t, int64_t block,
                         int64_t point)
{
    return t->slots + (k->backend->n_threads + block * HRF_WINOGRAD_POINTS + point) * k->slot;
}

/* What nobody has taken yet, of the thread's own block first; false: nothing is left. */
static bool take(const struct hrf_winograd_kernel *k, const struct team *t, enum work work,
                 struct item *out)
{
    for (int64_t i = 0; i < t->n; i++) {
        out->block = (omp_get_thread_num() + i) % t->n;
        const int64_t n = work == MULTIPLY
                              ? HRF_WINOGRAD_POINTS
                              : hrf_ceil_div(block_of(k, t->first + out->block).n, GROUP);
#pragma omp atomic capture
        out->i = t->n_taken[out->block][work]++;
        if (out->i < n)
            return true;
    }
    return false;
}

static struct tiles group_of(const struct hrf_winograd_kernel *k, const struct team *t,
                             struct item item)
{
    const struct tiles block = block_of(k, t->first + item.block);
    return (struct tiles){ .first = block.first + item.i * GROUP,
                           .n = hrf_least(block.n - item.i * GROUP, GROUP) };
}

static void read_together(const struct hrf_winograd_kernel *k, const struct team *t)
{
    for (struct item item; take(k, t, READ, &item);)
        read_tiles(k, group_of(k, t, item), t->x,
                   input_slot(k, t, item.block, 0) + item.i * GROUP * k->v_pitch);
}

/* A thread has a slot to write to, at first a spare one, then that of the input it used last. It
 * knows its next point before it begins one, and asks for its input meanwhile. */
static void multiply_together(const struct hrf_winograd_kernel *k, const struct team *t)
{
    float *to = t->slots + omp_get_thread_num() * k->slot;
    struct item item, next;
    for (bool more = take(k, t, MULTIPLY, &item); more; item = next) {
        struct hrf_ahead ahead = { .weights_are_far = true };
        const int64_t n = block_of(k, t->first + item.block).n;
        more = take(k, t, MULTIPLY, &next);
        if (more) {
            ahead.memory = (const char *)input_slot(k, t, next.block, next.i);
            ahead.n_bytes = n * k->v_pitch * (int64_t)sizeof(float);
        }
        float *const v = input_slot(k, t, item.block, item.i);
        multiply(k, item.i, v, to, n, &ahead);
        t->products[item.block * HRF_WINOGRAD_POINTS + item.i] = to;
        to = v;
    }
}

static void write_together(const struct hrf_winograd_kernel *k, const struct team *t)
{
    for (struct item item; take(k, t, WRITE, &item);)
        write_tiles(k, group_of(k, t, item), t->products + item.block * HRF_WINOGRAD_POINTS,
                    item.i * GROUP, t->out);
}

static void start(const struct hrf_winograd_kernel *k, struct team *t, int64_t first)
{
    t->first = first;
    t->n = hrf_least(k->n_blocks - first, k->at_once);
    memset(t->n_taken, 0, (size_t)t->n * sizeof *t->n_taken);
}

static void run_blocks_together(const struct hrf_winograd_kernel *k, struct team *t)
{
    for (int64_t first = 0; first < k->n_blocks; first += k->at_once) {
#pragma omp single
        start(k, t, first);
        read_together(k, t);
#pragma omp barrier
        multiply_together(k, t);
#pragma omp barrier
        write_together(k, t);
#pragma omp barrier
    }
}

static void run_together(const struct hrf_winograd_kernel *k, const struct hrf_kernel_call *call)
{
    struct team team = team_of(k, call);
#pragma omp parallel
    run_blocks_together(k, &team);
}

/* ---- both ---- */

size_t hrf_winograd_scratch(const struct hrf_winograd_kernel *k)
{
    if (k->at_once == 0)
        return (size_t)k->backend->n_threads *
               (sizeof(struct hrf_stretch) + (size_t)own_floats(k) * sizeof(float));
    return shared_floats(k) * sizeof(float) +
           (size_t)(k->at_once * HRF_WINOGRAD_POINTS) * sizeof(float *) +
           (size_t)k->at_once * N_WORKS * sizeof(int64_t);
}

enum hrf_status hrf_winograd_run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                 struct hrf_error *err)
{
    (void)err;
    const struct hrf_winograd_kernel *k = (const struct hrf_winograd_kernel *)base;
    if (k->has_residual && call->inputs[HRF_CONV_RESIDUAL] != call->output)
        memcpy(call->output, call->inputs[HRF_CONV_RESIDUAL],
               (size_t)(k->n * k->out_rows * k->out_columns * k->out_channels) *
                   hrf_dtype_size(k->out_type));
    if (k->at_once > 0)
        run_together(k, call);
    else
        run_apart(k, call);
    return HRF_OK;
}
