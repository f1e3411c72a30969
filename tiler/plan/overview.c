/* overview.c - reads a whole slide as one small image, from the coarsest level that suffices. */
#include "tiler/plan/overview.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Strips of at most this many level pixels are read at once. */
enum { STRIP_PIXELS = 1 << 23 };
/* The longest side of an overview; a square one takes 200 MB. */
enum { MAX_SIDE = 8192 };

void hrf_overview_release(struct hrf_overview *overview)
{
    hrf_free(overview->rgb);
    overview->rgb = NULL;
}

/* Output pixel i is the mean of input pixels [begin[i], begin[i + 1]), which are at least one. */
static enum hrf_status make_borders(int64_t n_in, int64_t n_out, int64_t **out,
                                    struct hrf_error *err)
{
    int64_t *begin = hrf_alloc_array((size_t)n_out + 1, sizeof *begin);
    HRF_CHECK_MEMORY(begin != NULL, err, "no memory to shrink an image");
    for (int64_t i = 0; i <= n_out; i++)
        begin[i] = i * n_in / n_out;
    *out = begin;
    return HRF_OK;
}

/* An image that is reduced row by row. Neither side of the result may be longer than the image's.
 */
struct shrinker {
    int64_t in_width, width;
    int n_channels;
    int64_t *columns, *rows; /* borders */
    uint32_t *sums;          /* [width][n_channels] sums of the current row */
};

static void shrinker_release(struct shrinker *s)
{
    hrf_free(s->columns);
    hrf_free(s->rows);
    hrf_free(s->sums);
}

static enum hrf_status shrinker_init(struct shrinker *s, int64_t in_width, int64_t in_height,
                                     int n_channels, int64_t width, int64_t height,
                                     struct hrf_error *err)
{
    assert(width >= 1 && width <= in_width && height >= 1 && height <= in_height);
    s->in_width = in_width;
    s->width = width;
    s->n_channels = n_channels;
    HRF_TRY(make_borders(in_width, width, &s->columns, err));
    HRF_TRY(make_borders(in_height, height, &s->rows, err));
    s->sums = hrf_alloc_array((size_t)(width * n_channels), sizeof s->sums[0]);
    return s->sums != NULL ? HRF_OK
                           : hrf_error_set(err, HRF_E_NOMEM, "no memory to shrink an image");
}

static void add_row(struct shrinker *s, const unsigned char *p)
{
    int n = s->n_channels;
    for (int64_t i = 0; i < s->width; i++)
        for (int64_t k = s->columns[i]; k < s->columns[i + 1]; k++, p += n)
            for (int c = 0; c < n; c++)
                s->sums[i * n + c] += p[c];
}

/* The same for three channels: without it, most of the time of tiling would be spent here. */
static void add_rgb_row(struct shrinker *s, const unsigned char *p)
{
    for (int64_t i = 0; i < s->width; i++) {
        uint32_t r = 0, g = 0, b = 0;
        for (int64_t k = s->columns[i]; k < s->columns[i + 1]; k++, p += 3) {
            r += p[0];
            g += p[1];
            b += p[2];
        }
        s->sums[3 * i] += r;
        s->sums[3 * i + 1] += g;
        s->sums[3 * i + 2] += b;
    }
}

/* Computes output row y; `in` points to input row rows[y]. */
static void shrink_row(struct shrinker *s, int64_t y, const unsigned char *in, unsigned char *out)
{
    int64_t n_rows = s->rows[y + 1] - s->rows[y];
    int n = s->n_channels;
    if (n_rows == 1 && s->width == s->in_width) {
        memcpy(out, in, (size_t)(s->width * n));
        return;
    }
    memset(s->sums, 0, (size_t)(s->width * n) * sizeof s->sums[0]);
    for (int64_t r = 0; r < n_rows; r++, in += s->in_width * n) {
        if (n == 3)
            add_rgb_row(s, in);
        else
            add_row(s, in);
    }
    for (int64_t i = 0; i < s->width; i++) {
        uint32_t count = (uint32_t)((s->columns[i + 1] - s->columns[i]) * n_rows);
        for (int c = 0; c < n; c++)
            out[i * n + c] = (unsigned char)((s->sums[i * n + c] + count / 2) / count);
    }
}

enum hrf_status hrf_overview_shrink(const unsigned char *in, int64_t in_width, int64_t in_height,
                                    int n_channels, int64_t width, int64_t height,
                                    unsigned char *out, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(shrinker) s = { .in_width = 0 };
    HRF_TRY(shrinker_init(&s, in_width, in_height, n_channels, width, height, err));
    for (int64_t y = 0; y < height; y++)
        shrink_row(&s, y, in + s.rows[y] * in_width * n_channels, out + y * width * n_channels);
    return HRF_OK;
}

/* Reads the level in strips that hold whole output rows. */
static enum hrf_status read_strips(struct hrf_slide *slide, int32_t level, struct hrf_overview *out,
                                   struct hrf_error *err)
{
    const struct hrf_slide_info *info = hrf_slide_info(slide);
    int64_t width = info->level[level].width, height = info->level[level].height;
    int64_t per_row = (height + out->height - 1) / out->height; /* level rows of an output row */
    int64_t n = STRIP_PIXELS / (width * per_row);
    n = n < 1 ? 1 : n > out->height ? out->height : n;
    HRF_AUTO_RELEASE(shrinker) s = { .in_width = 0 };
    HRF_TRY(shrinker_init(&s, width, height, 3, out->width, out->height, err));
    HRF_AUTO_FREE unsigned char *strip = hrf_alloc_array((size_t)(width * per_row * n), 3);
    HRF_CHECK_MEMORY(strip != NULL, err, "no memory for strips of %lld x %lld px", (long long)width,
                     (long long)(per_row * n));
    for (int64_t first = 0; first < out->height; first += n) {
        int64_t last = first + n < out->height ? first + n : out->height;
        int64_t begin = s.rows[first];
        int64_t y0 = llround((double)begin * info->level[level].downsample);
        HRF_TRY(hrf_slide_read(slide, level, 0, y0, width, s.rows[last] - begin, strip, err));
        for (int64_t y = first; y < last; y++)
            shrink_row(&s, y, strip + (s.rows[y] - begin) * width * 3,
                       out->rgb + y * out->width * 3);
    }
    return HRF_OK;
}

static int64_t overview_side(int64_t pixels, double reduction)
{
    int64_t n = llround((double)pixels / reduction);
    return n < 1 ? 1 : n > MAX_SIDE ? MAX_SIDE : n > pixels ? pixels : n;
}

/* The coarsest level with at least that many pixels, else level 0. */
int32_t hrf_overview_level(const struct hrf_slide_info *info, int64_t width, int64_t height)
{
    int32_t level = 0;
    for (int32_t i = 1; i < info->n_levels; i++)
        if (info->level[i].width >= width && info->level[i].height >= height &&
            info->level[i].downsample > info->level[level].downsample)
            level = i;
    return level;
}

double hrf_overview_snap(const struct hrf_slide_info *info, double reduction, double slack)
{
    double best = reduction, distance = slack;
    for (int32_t i = 0; i < info->n_levels; i++) {
        double ratio = info->level[i].downsample / reduction;
        ratio = ratio > 1 ? ratio : 1 / ratio;
        if (ratio > distance)
            continue;
        distance = ratio;
        best = info->level[i].downsample;
    }
    return best;
}

enum hrf_status hrf_overview_read_level(struct hrf_slide *slide, int32_t level, int64_t width,
                                        int64_t height, struct hrf_overview *out,
                                        struct hrf_error *err)
{
    struct hrf_overview overview = { .width = width, .height = height };
    overview.rgb = hrf_alloc_array((size_t)(width * height), 3);
    HRF_CHECK_MEMORY(overview.rgb != NULL, err, "no memory for an overview of %lld x %lld px",
                     (long long)width, (long long)height);
    enum hrf_status status = read_strips(slide, level, &overview, err);
    if (status != HRF_OK) {
        hrf_overview_release(&overview);
        return status;
    }
    *out = overview;
    return HRF_OK;
}

enum hrf_status hrf_overview_read(struct hrf_slide *slide, double reduction,
                                  struct hrf_overview *out, struct hrf_error *err)
{
    const struct hrf_slide_info *info = hrf_slide_info(slide);
    int64_t width = overview_side(info->width, reduction);
    int64_t height = overview_side(info->height, reduction);
    for (int32_t i = 0; i < info->n_levels;
         i++) /* the exact size of the level, without the rounding above */
        if (info->level[i].downsample == reduction) {
            width = overview_side(info->level[i].width, 1);
            height = overview_side(info->level[i].height, 1);
        }
    return hrf_overview_read_level(slide, hrf_overview_level(info, width, height), width, height,
                                   out, err);
}
