#include "tiler/plan/overview.h"

#include <math.h>
#include <png.h>
#include <string.h>

/* Strips of at most this many level pixels are read at once. */
enum { STRIP_PIXELS = 1 << 23 };
/* An overview is never larger than this a side: 2^14 px of RGB are 800 MB squared otherwise. */
enum { MAX_SIDE = 8192 };

void hrf_overview_release(struct hrf_overview *overview)
{
    hrf_free(overview->rgb);
    overview->rgb = NULL;
}

static int64_t input_begin(int64_t i, int64_t n_in, int64_t n_out)
{
    return i * n_in / n_out;
}

static int64_t input_end(int64_t i, int64_t n_in, int64_t n_out)
{
    int64_t begin = input_begin(i, n_in, n_out), end = (i + 1) * n_in / n_out;
    return end > begin ? end : begin + 1;
}

/* Adds one input row to the sums of an output row; counts are per output column. */
static void add_row(const unsigned char *in, int64_t n_in, int64_t n_out, int n_channels,
                    uint32_t *sums)
{
    for (int64_t i = 0; i < n_out; i++) {
        int64_t end = input_end(i, n_in, n_out);
        for (int64_t k = input_begin(i, n_in, n_out); k < end; k++)
            for (int c = 0; c < n_channels; c++)
                sums[i * n_channels + c] += in[k * n_channels + c];
    }
}

static void finish_row(const uint32_t *sums, int64_t n_in, int64_t n_out, int n_channels,
                       int64_t n_rows, unsigned char *out)
{
    for (int64_t i = 0; i < n_out; i++) {
        uint32_t n = (uint32_t)((input_end(i, n_in, n_out) - input_begin(i, n_in, n_out)) * n_rows);
        for (int c = 0; c < n_channels; c++)
            out[i * n_channels + c] = (unsigned char)((sums[i * n_channels + c] + n / 2) / n);
    }
}

enum hrf_status hrf_overview_shrink(const unsigned char *in, int64_t in_width, int64_t in_height,
                                 int n_channels, int64_t width, int64_t height, unsigned char *out,
                                 struct hrf_error *err)
{
    HRF_AUTO_FREE uint32_t *sums = hrf_alloc_array((size_t)(width * n_channels), sizeof *sums);
    if (sums == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to shrink an image");
    for (int64_t y = 0; y < height; y++) {
        int64_t begin = input_begin(y, in_height, height), end = input_end(y, in_height, height);
        memset(sums, 0, (size_t)(width * n_channels) * sizeof *sums);
        for (int64_t r = begin; r < end; r++)
            add_row(in + r * in_width * n_channels, in_width, width, n_channels, sums);
        finish_row(sums, in_width, width, n_channels, end - begin, out + y * width * n_channels);
    }
    return HRF_OK;
}

/* Fills output rows [first, last) from one strip of the level. */
static enum hrf_status read_strip(struct hrf_slide *slide, int32_t level, int64_t level_width,
                                  int64_t level_height, int64_t first, int64_t last,
                                  struct hrf_overview *out, unsigned char *strip,
                                  struct hrf_error *err)
{
    const struct hrf_slide_info *info = hrf_slide_info(slide);
    int64_t begin = input_begin(first, level_height, out->height);
    int64_t end = input_end(last - 1, level_height, out->height);
    int64_t y0 = llround((double)begin * info->level[level].downsample);
    HRF_AUTO_FREE uint32_t *sums = hrf_alloc_array((size_t)(out->width * 3), sizeof *sums);
    if (sums == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for an overview");
    HRF_TRY(hrf_slide_read(slide, level, 0, y0, level_width, end - begin, strip, err));
    for (int64_t y = first; y < last; y++) {
        int64_t from = input_begin(y, level_height, out->height);
        int64_t to = input_end(y, level_height, out->height);
        memset(sums, 0, (size_t)(out->width * 3) * sizeof *sums);
        for (int64_t r = from; r < to; r++)
            add_row(strip + (r - begin) * level_width * 3, level_width, out->width, 3, sums);
        finish_row(sums, level_width, out->width, 3, to - from, out->rgb + y * out->width * 3);
    }
    return HRF_OK;
}

static enum hrf_status read_strips(struct hrf_slide *slide, int32_t level, struct hrf_overview *out,
                                   struct hrf_error *err)
{
    const struct hrf_slide_info *info = hrf_slide_info(slide);
    int64_t width = info->level[level].width, height = info->level[level].height;
    int64_t per_row = (height + out->height - 1) / out->height + 1; /* level rows per row */
    int64_t rows = STRIP_PIXELS / (width * per_row);
    rows = rows < 1 ? 1 : rows > out->height ? out->height : rows;
    HRF_AUTO_FREE unsigned char *strip = hrf_alloc_array((size_t)(width * (per_row * rows + 1)), 3);
    if (strip == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for strips of %lld px", (long long)width);
    for (int64_t first = 0; first < out->height; first += rows) {
        int64_t last = first + rows < out->height ? first + rows : out->height;
        HRF_TRY(read_strip(slide, level, width, height, first, last, out, strip, err));
    }
    return HRF_OK;
}

static int64_t overview_side(int64_t pixels, double reduce)
{
    int64_t n = llround((double)pixels / reduce);
    return n < 1 ? 1 : n > MAX_SIDE ? MAX_SIDE : n > pixels ? pixels : n;
}

enum hrf_status hrf_overview_read(struct hrf_slide *slide, double mpp_x, double mpp_y, double mpp,
                                  struct hrf_overview *out, struct hrf_error *err)
{
    const struct hrf_slide_info *info = hrf_slide_info(slide);
    double reduce_x = fmax(mpp / mpp_x, 1), reduce_y = fmax(mpp / mpp_y, 1);
    struct hrf_overview overview = { .width = overview_side(info->width, reduce_x),
                                     .height = overview_side(info->height, reduce_y) };
    int32_t level = 0;
    for (int32_t i = 1; i < info->n_levels; i++)
        if (info->level[i].width >= overview.width && info->level[i].height >= overview.height &&
            info->level[i].downsample > info->level[level].downsample)
            level = i;
    overview.rgb = hrf_alloc_array((size_t)(overview.width * overview.height), 3);
    if (overview.rgb == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for an overview of %lld x %lld px",
                             (long long)overview.width, (long long)overview.height);
    enum hrf_status status = read_strips(slide, level, &overview, err);
    if (status != HRF_OK) {
        hrf_overview_release(&overview);
        return status;
    }
    *out = overview;
    return HRF_OK;
}

enum hrf_status hrf_overview_png(const unsigned char *pixels, int64_t width, int64_t height,
                                 int n_channels, struct hrf_bytes *out, struct hrf_error *err)
{
    png_image image = { .version = PNG_IMAGE_VERSION,
                        .width = (png_uint_32)width,
                        .height = (png_uint_32)height,
                        .format = n_channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY };
    png_alloc_size_t n = PNG_IMAGE_PNG_SIZE_MAX(image);
    unsigned char *bytes = hrf_alloc(n);
    if (bytes == NULL || png_image_write_to_memory(&image, bytes, &n, 0, pixels, 0, NULL) == 0) {
        hrf_free(bytes);
        return hrf_error_set(err, HRF_E_NOMEM, "cannot make a PNG of %lld x %lld px: %s",
                             (long long)width, (long long)height, image.message);
    }
    *out = (struct hrf_bytes){ .data = bytes, .n_bytes = n };
    return HRF_OK;
}
