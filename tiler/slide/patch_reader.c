/* patch_reader.c - patches as the model sees them: the best level, resampled.
 *
 * A patch covers [x0, x0 + size * mpp / mpp_x) of level 0. Output pixel j covers the interval
 * [j, j + 1) * scale of the level, from the patch's own origin in it; where scale >= 1 its value
 * is the area average over that interval (separable), where scale < 1 it is bilinear between
 * pixel centres. At scale 1 and a whole-pixel origin both are the pixel itself.
 */
#include "tiler/slide/slide_private.h"

#include "base/clock.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* A level up to 2 % coarser than wanted is taken: 0.499 um/px serves 0.5, 2.0005 serves 2. */
static const double level_slack = 1.02;
/* Scales nearer to 1 than this are 1: 0.25 % over 128 px is a third of a pixel. */
static const double unit_slack = 0.0025;

enum { MAX_TAPS_RATIO = 64 };

/* For each output position: where its input begins and with which weights. */
struct axis {
    int32_t *first;
    float *weights; /* [size][n_taps] */
    int32_t n_taps;
    int64_t extent; /* input pixels */
};

struct hrf_patch_reader {
    struct hrf_slide *slide;
    int32_t level;
    double downsample;
    double scale_x, scale_y; /* level px per output px */
    int64_t size;
    bool is_copy;
    struct axis x, y;
    unsigned char *region; /* [y.extent][x.extent][3] */
    float *rows;           /* [y.extent][size][3], columns resampled */
};

int32_t hrf_patch_reader_level(const struct hrf_patch_reader *reader)
{
    return reader->level;
}

static int32_t best_level(const struct hrf_slide_info *info, double wanted)
{
    int32_t best = 0;
    for (int32_t i = 1; i < info->n_levels; i++)
        if (info->level[i].downsample <= wanted * level_slack &&
            info->level[i].downsample > info->level[best].downsample)
            best = i;
    return best;
}

/* Weight of input pixel `i` (covering [i, i + 1)) for the output that covers [begin, end). */
static double area_weight(double begin, double end, int64_t i)
{
    double low = begin > (double)i ? begin : (double)i;
    double high = end < (double)(i + 1) ? end : (double)(i + 1);
    return high > low ? high - low : 0;
}

static double tap_weight(double begin, double scale, int64_t i)
{
    if (scale >= 1)
        return area_weight(begin, begin + scale, i) / scale;
    double centre = begin + scale / 2 - 0.5; /* in pixel centres */
    double weight = 1 - fabs(centre - (double)i);
    return weight > 0 ? weight : 0;
}

static enum hrf_status make_axis(struct axis *axis, int64_t size, double scale,
                                 struct hrf_error *err)
{
    axis->n_taps = scale >= 1 ? (int32_t)ceil(scale) + 1 : 2;
    axis->first = hrf_alloc_array((size_t)size, sizeof axis->first[0]);
    axis->weights = hrf_calloc((size_t)size * (size_t)axis->n_taps, sizeof axis->weights[0]);
    if (axis->first == NULL || axis->weights == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to resample patches of %lld px",
                             (long long)size);
    axis->extent = (int64_t)ceil((double)size * scale - 1e-6);
    axis->extent = axis->extent > 0 ? axis->extent : 1;
    for (int64_t j = 0; j < size; j++) {
        double begin = (double)j * scale;
        double low = scale >= 1 ? floor(begin) : floor(begin + scale / 2 - 0.5);
        int64_t first = (int64_t)low;
        double sum = 0;
        axis->first[j] = (int32_t)first;
        for (int32_t t = 0; t < axis->n_taps; t++) {
            int64_t i = first + t;
            double weight = tap_weight(begin, scale, i);
            if (i < 0 || i >= axis->extent) /* beyond the patch: the nearest pixel inside */
                weight = scale < 1 ? weight : 0;
            axis->weights[j * axis->n_taps + t] = (float)weight;
            sum += weight;
        }
        for (int32_t t = 0; t < axis->n_taps; t++)
            axis->weights[j * axis->n_taps + t] /= (float)sum;
    }
    return HRF_OK;
}

void hrf_patch_reader_destroy(struct hrf_patch_reader *reader)
{
    if (reader == NULL)
        return;
    hrf_free(reader->x.first);
    hrf_free(reader->x.weights);
    hrf_free(reader->y.first);
    hrf_free(reader->y.weights);
    hrf_free(reader->region);
    hrf_free(reader->rows);
    hrf_free(reader);
}

static double snap(double scale)
{
    return fabs(scale - 1) < unit_slack ? 1.0 : scale;
}

enum hrf_status hrf_patch_reader_create(struct hrf_slide *slide, double mpp_x, double mpp_y,
                                        int64_t size, double mpp, struct hrf_patch_reader **out,
                                        struct hrf_error *err)
{
    HRF_AUTO(hrf_patch_reader) reader = hrf_calloc(1, sizeof *reader);
    if (reader == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a patch reader");
    reader->slide = slide;
    reader->size = size;
    reader->level = best_level(&slide->info, mpp / fmax(mpp_x, mpp_y));
    reader->downsample = slide->info.level[reader->level].downsample;
    reader->scale_x = snap(mpp / (mpp_x * reader->downsample));
    reader->scale_y = snap(mpp / (mpp_y * reader->downsample));
    if (reader->scale_x > MAX_TAPS_RATIO || reader->scale_y > MAX_TAPS_RATIO)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "'%s' has no level near %g um/px: its coarsest is %g um/px, and "
                             "reducing more than %d times is refused",
                             slide->shown, mpp, mpp_x * reader->downsample, MAX_TAPS_RATIO);
    reader->is_copy = reader->scale_x == 1.0 && reader->scale_y == 1.0;
    HRF_TRY(make_axis(&reader->x, size, reader->scale_x, err));
    HRF_TRY(make_axis(&reader->y, size, reader->scale_y, err));
    reader->region = hrf_alloc_array((size_t)(reader->x.extent * reader->y.extent), 3);
    reader->rows = hrf_alloc_array((size_t)(reader->y.extent * size), 3 * sizeof reader->rows[0]);
    if (reader->region == NULL || reader->rows == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for regions of %lld x %lld px",
                             (long long)reader->x.extent, (long long)reader->y.extent);
    *out = reader;
    reader = NULL;
    return HRF_OK;
}

static int64_t clamp_index(int64_t i, int64_t n)
{
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

static void resample_columns(const struct hrf_patch_reader *reader)
{
    const struct axis *x = &reader->x;
    for (int64_t row = 0; row < reader->y.extent; row++) {
        const unsigned char *in = reader->region + row * x->extent * 3;
        float *out = reader->rows + row * reader->size * 3;
        for (int64_t j = 0; j < reader->size; j++) {
            float sum[3] = { 0, 0, 0 };
            for (int32_t t = 0; t < x->n_taps; t++) {
                float weight = x->weights[j * x->n_taps + t];
                if (weight == 0)
                    continue;
                const unsigned char *p = in + 3 * clamp_index(x->first[j] + t, x->extent);
                for (int c = 0; c < 3; c++)
                    sum[c] += weight * (float)p[c];
            }
            memcpy(out + 3 * j, sum, sizeof sum);
        }
    }
}

static void resample_rows(const struct hrf_patch_reader *reader, unsigned char *rgb)
{
    const struct axis *y = &reader->y;
    int64_t width = reader->size * 3;
    for (int64_t j = 0; j < reader->size; j++) {
        for (int64_t i = 0; i < width; i++) {
            float sum = 0.5f;
            for (int32_t t = 0; t < y->n_taps; t++) {
                float weight = y->weights[j * y->n_taps + t];
                if (weight != 0)
                    sum += weight *
                           reader->rows[clamp_index(y->first[j] + t, y->extent) * width + i];
            }
            rgb[j * width + i] = (unsigned char)(sum < 255 ? sum : 255);
        }
    }
}

enum hrf_status hrf_patch_reader_read(struct hrf_patch_reader *reader, int64_t x0, int64_t y0,
                                      unsigned char *rgb, int64_t *decode_ns, int64_t *resample_ns,
                                      struct hrf_error *err)
{
    int64_t start = hrf_clock_ns();
    unsigned char *region = reader->is_copy ? rgb : reader->region;
    HRF_TRY(hrf_slide_read(reader->slide, reader->level, x0, y0, reader->x.extent, reader->y.extent,
                           region, err));
    int64_t decoded = hrf_clock_ns();
    if (!reader->is_copy) {
        resample_columns(reader);
        resample_rows(reader, rgb);
    }
    if (decode_ns != NULL)
        *decode_ns += decoded - start;
    if (resample_ns != NULL)
        *resample_ns += hrf_clock_ns() - decoded;
    return HRF_OK;
}
