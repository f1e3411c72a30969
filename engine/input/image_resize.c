/* image_resize.c - see image_resize.h. The columns of 32 rows are resized at once: the rows are
 * transposed, so that a pixel's channel is a row of 32 bytes, and both directions are the same
 * sums. */
#include "engine/input/image_resize.h"

#include "engine/input/byte_sums.h"
#include "image/cubic.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { BLOCK = HRF_BYTE_SUMS_BLOCK };
static const double pi = 3.14159265358979323846;

/* The weights of the pixels that each output pixel of the crop is made of. */
struct taps {
    int32_t *first, *n_pairs;         /* [size] */
    struct hrf_byte_weights *weights; /* [size][max_pairs] */
    int32_t max_pairs;
};

struct hrf_image_resizer {
    int64_t from, size;
    struct taps taps;                 /* of both directions: images are square */
    int64_t staged_bytes, line_bytes; /* of a row, whole blocks */
    unsigned char *staged;            /* [BLOCK][staged_bytes]: rows that were put in */
    unsigned char *transposed;        /* [staged_bytes + 3][BLOCK] */
    unsigned char *transposed_out;    /* [line_bytes][BLOCK] */
    unsigned char *narrow;            /* [from + 1][line_bytes]: rows of the output's width */
    unsigned char *line;              /* [line_bytes] */
    hrf_make_byte_sums *sums;
    int64_t first, n, from_row, n_rows, n_put;
    hrf_take_rows *take;
    void *context;
};

/* ---- weights, in the order of Pillow's operations ---- */

static double box(double x)
{
    return x > -0.5 && x <= 0.5 ? 1 : 0;
}

static double triangle(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

static double sinc(double x)
{
    x *= pi;
    return x == 0 ? 1 : sin(x) / x;
}

static double lanczos(double x)
{
    return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
}

static const struct {
    double (*weight)(double x);
    double support;
} filters[HRF_N_INTERPOLATIONS] = { [HRF_BOX] = { box, 0.5 },
                                    [HRF_BILINEAR] = { triangle, 1 },
                                    [HRF_BICUBIC] = { hrf_cubic, 2 },
                                    [HRF_LANCZOS] = { lanczos, 3 } };

static void set_weight(struct hrf_byte_weights *pairs, int32_t tap, double weight)
{
    const double one = (double)(1 << HRF_BYTE_SUMS_BITS);
    const int32_t whole = (int32_t)(weight < 0 ? weight * one - 0.5 : weight * one + 0.5);
    const int32_t low = whole & ((1 << HRF_BYTE_SUMS_LOW) - 1);
    pairs[tap / 2].low[tap % 2] = (int16_t)low;
    pairs[tap / 2].high[tap % 2] = (int16_t)((whole - low) / (1 << HRF_BYTE_SUMS_LOW));
}

/* Sets row `i` of the table to a copy of one pixel. */
static void set_copy(struct taps *taps, int64_t i, int64_t pixel)
{
    taps->first[i] = (int32_t)pixel;
    taps->n_pairs[i] = 1;
    set_weight(taps->weights + i * taps->max_pairs, 0, 1);
}

/* Sets row `i` of the table to the weights of output pixel `at` of the resized image. */
static void set_filter(struct taps *taps, int64_t i, int64_t at, int64_t from, double scale,
                       enum hrf_interpolation filter)
{
    const double filter_scale = scale < 1 ? 1 : scale;
    const double support = filters[filter].support * filter_scale, step = 1 / filter_scale;
    const double center = ((double)at + 0.5) * scale;
    int64_t first = (int64_t)(center - support + 0.5), end = (int64_t)(center + support + 0.5);
    first = first < 0 ? 0 : first;
    end = end > from ? from : end;
    double sum = 0;
    for (int64_t x = 0; x < end - first; x++)
        sum += filters[filter].weight(((double)(x + first) - center + 0.5) * step);
    for (int64_t x = 0; x < end - first; x++) {
        const double weight = filters[filter].weight(((double)(x + first) - center + 0.5) * step);
        set_weight(taps->weights + i * taps->max_pairs, (int32_t)x,
                   sum != 0 ? weight / sum : weight);
    }
    taps->first[i] = (int32_t)first;
    taps->n_pairs[i] = (int32_t)((end - first + 1) / 2);
}

/* The begin of the crop: half of the difference, rounded to even. */
static int64_t crop_begin(int64_t resize, int64_t size)
{
    const int64_t half = (resize - size) / 2;
    return half + ((resize - size) % 2 != 0 && half % 2 != 0);
}

static void init_taps(struct taps *taps, int64_t from, const struct hrf_preparation *preparation)
{
    const int64_t size = preparation->size, begin = crop_begin(preparation->resize, size);
    const double scale = (double)from / (double)preparation->resize;
    const bool is_copy = from == preparation->resize || preparation->interpolation == HRF_NEAREST;
    const double support = is_copy ? 0.5
                                   : filters[preparation->interpolation].support * fmax(1, scale);
    taps->max_pairs = (int32_t)ceil(support) + 1;
    taps->first = hrf_calloc((size_t)size, sizeof taps->first[0]);
    taps->n_pairs = hrf_calloc((size_t)size, sizeof taps->n_pairs[0]);
    taps->weights = hrf_calloc((size_t)size, (size_t)taps->max_pairs * sizeof taps->weights[0]);
    double nearest = 0.5 * scale; /* added up, because Pillow steps through the image so */
    for (int64_t at = 0; at < begin + size; at++, nearest += scale) {
        if (at < begin)
            continue;
        if (is_copy)
            set_copy(taps, at - begin, from == preparation->resize ? at : (int64_t)nearest);
        else
            set_filter(taps, at - begin, at, from, scale, preparation->interpolation);
    }
}

/* ---- pixels ---- */

/* Transposes a block of 16 x 16 bytes. */
static void transpose_tile(const unsigned char *from, int64_t from_bytes, unsigned char *to,
                           int64_t to_bytes)
{
#ifdef __SSE2__
    __m128i a[16], b[16];
    for (int i = 0; i < 16; i++)
        a[i] = _mm_loadu_si128((const void *)(from + i * from_bytes));
    for (int step = 0; step < 4; step++) {
        for (int i = 0; i < 8; i++) {
            b[2 * i] = _mm_unpacklo_epi8(a[i], a[i + 8]);
            b[2 * i + 1] = _mm_unpackhi_epi8(a[i], a[i + 8]);
        }
        memcpy(a, b, sizeof a);
    }
    for (int i = 0; i < 16; i++)
        _mm_storeu_si128((void *)(to + i * to_bytes), a[i]);
#else
    for (int64_t i = 0; i < 16; i++)
        for (int64_t k = 0; k < 16; k++)
            to[k * to_bytes + i] = from[i * from_bytes + k];
#endif
}

/* Transposes from[rows][columns] into to[columns][rows]; both sides are whole blocks. */
static void transpose(const unsigned char *from, int64_t rows, int64_t columns, unsigned char *to)
{
    for (int64_t r = 0; r < rows; r += 16)
        for (int64_t c = 0; c < columns; c += 16)
            transpose_tile(from + r * columns + c, columns, to + c * rows + r, rows);
}

/* Resizes the columns of the last n rows that were put in. */
static void narrow_rows(struct hrf_image_resizer *r, int64_t n)
{
    unsigned char *const out = r->narrow + (r->n_put - n) * r->line_bytes;
    transpose(r->staged, BLOCK, r->staged_bytes, r->transposed);
    for (int64_t x = 0; x < r->size; x++)
        for (int64_t c = 0; c < 3; c++)
            r->sums(r->transposed + (3 * (int64_t)r->taps.first[x] + c) * BLOCK,
                    3 * (ptrdiff_t)BLOCK, r->taps.weights + x * r->taps.max_pairs,
                    r->taps.n_pairs[x], BLOCK, r->transposed_out + (3 * x + c) * BLOCK);
    transpose(r->transposed_out, r->line_bytes, BLOCK, r->staged); /* each row has line_bytes now */
    memcpy(out, r->staged, (size_t)(n * r->line_bytes));
}

static void emit_rows(struct hrf_image_resizer *r)
{
    for (int64_t y = r->first; y < r->first + r->n; y++) {
        r->sums(r->narrow + (r->taps.first[y] - r->from_row) * r->line_bytes, r->line_bytes,
                r->taps.weights + y * r->taps.max_pairs, r->taps.n_pairs[y], r->line_bytes,
                r->line);
        r->take(r->context, y - r->first, 1, r->line, r->line_bytes);
    }
}

void hrf_image_resizer_needs(const struct hrf_image_resizer *r, int64_t first, int64_t n,
                             int64_t *from_row, int64_t *n_rows)
{
    const int64_t last = first + n - 1;
    int64_t end = r->taps.first[last] + 2 * (int64_t)r->taps.n_pairs[last];
    end = end > r->from ? r->from : end;
    *from_row = r->taps.first[first];
    *n_rows = end - *from_row;
}

void hrf_image_resizer_begin(struct hrf_image_resizer *r, int64_t first, int64_t n,
                             hrf_take_rows *take, void *context)
{
    assert(first >= 0 && n >= 1 && first + n <= r->size);
    hrf_image_resizer_needs(r, first, n, &r->from_row, &r->n_rows);
    r->first = first;
    r->n = n;
    r->n_put = 0;
    r->take = take;
    r->context = context;
}

void hrf_image_resizer_put(struct hrf_image_resizer *r, const unsigned char *rgb)
{
    assert(r->n_put < r->n_rows);
    memcpy(r->staged + r->n_put % BLOCK * r->staged_bytes, rgb, (size_t)(3 * r->from));
    r->n_put++;
    if (r->n_put % BLOCK == 0 || r->n_put == r->n_rows)
        narrow_rows(r, (r->n_put - 1) % BLOCK + 1);
    if (r->n_put == r->n_rows)
        emit_rows(r);
}

/* ---- creation ---- */

static int64_t whole_blocks(int64_t n)
{
    return (n + BLOCK - 1) / BLOCK * BLOCK;
}

void hrf_image_resizer_destroy(struct hrf_image_resizer *r)
{
    if (r == NULL)
        return;
    hrf_free(r->taps.first);
    hrf_free(r->taps.n_pairs);
    hrf_free(r->taps.weights);
    hrf_free(r->staged);
    hrf_free(r->transposed);
    hrf_free(r->transposed_out);
    hrf_free(r->narrow);
    hrf_free(r->line);
    hrf_free(r);
}

void hrf_image_resizer_create(int64_t from, const struct hrf_preparation *preparation,
                              struct hrf_image_resizer **out)
{
    assert(from >= 1 && preparation->size >= 1 && preparation->size <= preparation->resize);
    assert(preparation->interpolation != HRF_INTERPOLATION_AUTO &&
           preparation->interpolation < HRF_N_INTERPOLATIONS);
    HRF_AUTO(hrf_image_resizer) r = hrf_calloc(1, sizeof *r);
    r->from = from;
    r->size = preparation->size;
    r->staged_bytes = whole_blocks(3 * from);
    r->line_bytes = whole_blocks(3 * r->size);
    r->sums = hrf_byte_sums_choose();
    const int64_t widest = r->staged_bytes > r->line_bytes ? r->staged_bytes : r->line_bytes;
    init_taps(&r->taps, from, preparation);
    r->staged = hrf_calloc((size_t)widest, BLOCK);
    r->transposed = hrf_calloc((size_t)r->staged_bytes + 3, BLOCK);
    r->transposed_out = hrf_calloc((size_t)r->line_bytes, BLOCK);
    r->narrow = hrf_calloc((size_t)from + 1, (size_t)r->line_bytes);
    r->line = hrf_calloc((size_t)r->line_bytes, 1);
    HRF_MOVE(*out, r);
}
