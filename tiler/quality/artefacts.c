/* artefacts.c - folds and air bubbles on an overview (quality.h). */
#include "base/alloc.h"
#include "tiler/quality/quality.h"
#include "tiler/tissue/morphology.h"

#include <math.h>
#include <string.h>

static const double fold_density = 1.7, fold_area = 5000, bubble_area = 40000, line_gap = 24;
enum { LINE_DARK = 35, LINE_GRAY = 30, BLACK = 45, LIGHT_DEFAULT = 245, MIN_GLASS = 100 };

/* Returns the smallest value with at least half of the histogram at or below it. */
static int median_of(const int64_t histogram[256])
{
    int64_t all = 0, sum = 0;
    for (int i = 0; i < 256; i++)
        all += histogram[i];
    for (int i = 0; i < 256; i++) {
        sum += histogram[i];
        if (2 * sum >= all && all > 0)
            return i;
    }
    return LIGHT_DEFAULT;
}

/* Computes the channels' medians over the pixels in tissue, or over those outside it. */
static int64_t medians(const struct hrf_tissue_image *image, const unsigned char *tissue,
                       bool inside, int out[3])
{
    int64_t histogram[3][256] = { { 0 } }, n = 0;
    for (int64_t i = 0; i < image->width * image->height; i++) {
        if ((tissue != NULL && tissue[i] != 0) != inside)
            continue;
        n++;
        for (int c = 0; c < 3; c++)
            histogram[c][image->rgb[3 * i + c]]++;
    }
    for (int c = 0; c < 3; c++)
        out[c] = median_of(histogram[c]);
    return n;
}

static double density(int value, int glass)
{
    return fmax(0, log10((glass + 1.0) / (value + 1.0)));
}

static enum hrf_status drop_small(const struct hrf_tissue_image *image, double least_um2,
                                  unsigned char *mask, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_regions) regions = { .n_regions = 0 };
    HRF_TRY(hrf_regions_find(mask, image->width, image->height, 255, true, &regions, err));
    const double pixel = image->mpp_x * image->mpp_y;
    for (int64_t i = 0; i < image->width * image->height; i++)
        if (mask[i] != 0 && (double)regions.region[regions.label[i] - 1].area * pixel < least_um2)
            mask[i] = 0;
    return HRF_OK;
}

enum hrf_status hrf_fold_find(const struct hrf_tissue_image *image, const unsigned char *tissue,
                              unsigned char *mask, struct hrf_error *err)
{
    int glass[3], stained[3], limit[3];
    if (medians(image, tissue, false, glass) < MIN_GLASS)
        glass[0] = glass[1] = glass[2] = LIGHT_DEFAULT;
    memset(mask, 0, (size_t)(image->width * image->height));
    if (medians(image, tissue, true, stained) == 0)
        return HRF_OK;
    for (int c = 0; c < 3; c++) /* the value of that density */
        limit[c] = (int)((glass[c] + 1.0) * pow(10, -fold_density * density(stained[c], glass[c])) -
                         1);
    for (int64_t i = 0; i < image->width * image->height; i++) {
        const unsigned char *p = image->rgb + 3 * i;
        if (tissue[i] != 0 && p[0] <= limit[0] && p[1] <= limit[1] && p[2] <= limit[2])
            mask[i] = 255;
    }
    return drop_small(image, fold_area, mask, err);
}

/* Marks what the line around a bubble looks like: gray, darker than glass and lighter than dirt. */
static void find_lines(const struct hrf_tissue_image *image, unsigned char *mask)
{
    int glass[3];
    int64_t histogram[256] = { 0 };
    for (int64_t i = 0; i < image->width * image->height; i++)
        histogram[image->rgb[3 * i + 1]]++;
    int64_t rest = image->width * image->height / 10; /* glass is among the lightest tenth */
    for (glass[1] = 255; glass[1] > 0 && rest > 0; glass[1]--)
        rest -= histogram[glass[1]];
    for (int64_t i = 0; i < image->width * image->height; i++) {
        const unsigned char *p = image->rgb + 3 * i;
        int high = p[0] > p[1] ? p[0] : p[1], low = p[0] < p[1] ? p[0] : p[1];
        high = p[2] > high ? p[2] : high;
        low = p[2] < low ? p[2] : low;
        mask[i] = high <= glass[1] - LINE_DARK && high >= BLACK && high - low <= LINE_GRAY ? 255
                                                                                           : 0;
    }
}

struct box {
    int64_t x0, x1, y0, y1;
};

static bool is_round(const struct box *b, int64_t area)
{
    const double w = (double)(b->x1 - b->x0), h = (double)(b->y1 - b->y0);
    const double fill = (double)area / (w * h);
    return w <= 1.8 * h && h <= 1.8 * w && fill >= 0.55 && fill <= 0.95;
}

/* Marks the regions that lines surround and that are round: with 1 + their index in `keep`. */
static void judge_regions(const struct hrf_tissue_image *image, const struct hrf_regions *inside,
                          bool *keep)
{
    const int64_t n = image->width * image->height;
    const double pixel = image->mpp_x * image->mpp_y;
    HRF_AUTO_FREE struct box *boxes = hrf_alloc_array((size_t)inside->n_regions + 1, sizeof *boxes);
    for (int32_t i = 0; i < inside->n_regions; i++)
        boxes[i] = (struct box){ INT64_MAX, 0, INT64_MAX, 0 };
    for (int64_t i = 0; i < n; i++) {
        if (inside->label[i] == 0)
            continue;
        struct box *b = &boxes[inside->label[i] - 1];
        const int64_t x = i % image->width, y = i / image->width;
        b->x0 = x < b->x0 ? x : b->x0;
        b->x1 = x + 1 > b->x1 ? x + 1 : b->x1;
        b->y0 = y < b->y0 ? y : b->y0;
        b->y1 = y + 1;
    }
    for (int32_t i = 0; i < inside->n_regions; i++)
        keep[i] = !inside->region[i].touches_border &&
                  (double)inside->region[i].area * pixel >= bubble_area &&
                  is_round(&boxes[i], inside->region[i].area);
}

enum hrf_status hrf_bubble_find(const struct hrf_tissue_image *image, unsigned char *mask,
                                struct hrf_error *err)
{
    const int64_t n = image->width * image->height;
    HRF_AUTO_RELEASE(hrf_regions) inside = { .n_regions = 0 };
    const int gap = (int)fmin(fmax(line_gap / sqrt(image->mpp_x * image->mpp_y), 3), 15);
    find_lines(image, mask);
    HRF_TRY(hrf_mask_close(mask, image->width, image->height, gap, err));
    HRF_TRY(hrf_regions_find(mask, image->width, image->height, 0, false, &inside, err));
    HRF_AUTO_FREE bool *keep = hrf_calloc((size_t)inside.n_regions + 1, sizeof *keep);
    judge_regions(image, &inside, keep);
    for (int64_t i = 0; i < n; i++)
        mask[i] = inside.label[i] > 0 && keep[inside.label[i] - 1] ? 255 : 0;
    return hrf_mask_spread(mask, image->width, image->height, gap, gap, 255, err); /* the line */
}
