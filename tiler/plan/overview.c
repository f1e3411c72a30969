/* overview.c - reads a whole slide as one small image, from the coarsest level that suffices. */
#include "tiler/plan/overview.h"

#include "image/downsample.h"

#include <math.h>
#include <string.h>

/* Strips of at most this many level pixels are read at once. */
enum { STRIP_PIXELS = 1 << 23 };

void hrf_overview_release(struct hrf_overview *overview)
{
    hrf_free(overview->rgb);
    overview->rgb = NULL;
}

/* Reads the level in strips that hold whole rows of the overview. */
static enum hrf_status read_strips(struct hrf_slide *slide, int32_t level, int64_t out_width,
                                   int64_t out_height, hrf_overview_row *row, void *context,
                                   bool *met_white, struct hrf_error *err)
{
    const struct hrf_slide_info *info = hrf_slide_info(slide);
    int64_t width = info->level[level].width, height = info->level[level].height;
    int64_t per_row = (height + out_height - 1) / out_height; /* level rows of an output row */
    int64_t n = STRIP_PIXELS / (width * per_row);
    n = n < 1 ? 1 : n > out_height ? out_height : n;
    HRF_AUTO_RELEASE(hrf_downsampler) s = { .in_width = 0 };
    HRF_TRY(hrf_downsampler_init(&s, width, height, 3, out_width, out_height, err));
    HRF_AUTO_FREE unsigned char *strip = hrf_try_alloc_array((size_t)(width * per_row * n), 3);
    HRF_AUTO_FREE unsigned char *rgb = hrf_try_alloc_array((size_t)out_width, 3);
    HRF_CHECK_MEMORY(strip != NULL && rgb != NULL, err, "no memory for strips of %lld x %lld px",
                     (long long)width, (long long)(per_row * n));
    for (int64_t first = 0; first < out_height; first += n) {
        int64_t last = first + n < out_height ? first + n : out_height;
        int64_t begin = s.rows[first];
        int64_t y0 = llround((double)begin * info->level[level].downsample);
        HRF_TRY(hrf_slide_read(slide, level, 0, y0, width, s.rows[last] - begin, strip, met_white,
                               err));
        for (int64_t y = first; y < last; y++) {
            hrf_downsampler_row(&s, y, strip + (s.rows[y] - begin) * width * 3, rgb);
            HRF_TRY(row(context, y, rgb, err));
        }
    }
    return HRF_OK;
}

static enum hrf_status keep_row(void *context, int64_t y, const unsigned char *rgb,
                                struct hrf_error *err)
{
    const struct hrf_overview *out = context;
    (void)err;
    memcpy(out->rgb + y * out->width * 3, rgb, (size_t)(out->width * 3));
    return HRF_OK;
}

static int64_t overview_side(int64_t pixels, double reduction)
{
    int64_t n = llround((double)pixels / reduction);
    return n < 1 ? 1 : n > HRF_OVERVIEW_MAX ? HRF_OVERVIEW_MAX : n > pixels ? pixels : n;
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
    overview.rgb = hrf_try_alloc_array((size_t)(width * height), 3);
    HRF_CHECK_MEMORY(overview.rgb != NULL, err, "no memory for an overview of %lld x %lld px",
                     (long long)width, (long long)height);
    enum hrf_status status = read_strips(slide, level, width, height, keep_row, &overview,
                                         &overview.met_white, err);
    if (status != HRF_OK) {
        hrf_overview_release(&overview);
        return status;
    }
    *out = overview;
    return HRF_OK;
}

enum hrf_status hrf_overview_each_row(struct hrf_slide *slide, int64_t width, int64_t height,
                                      hrf_overview_row *row, void *context, bool *met_white,
                                      struct hrf_error *err)
{
    const int32_t level = hrf_overview_level(hrf_slide_info(slide), width, height);
    return read_strips(slide, level, width, height, row, context, met_white, err);
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
