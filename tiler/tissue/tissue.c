/* tissue.c - the tissue detection methods otsu, wsinfer, clam and ncrf; with none, all is tissue.
 */
#include "tiler/tissue/tissue.h"

#include "base/alloc.h"
#include "tiler/tissue/ink.h"
#include "tiler/tissue/morphology.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The method `otsu`, on the saturation S. Glass is the peak of the light pixels; on 8-bit JPEG its
 * noise is within +-10 after the median filter, and pale eosin begins 15 above it. */
enum {
    LIGHT = 170,      /* a pixel of glass has no channel below this */
    GLASS_MAX = 40,   /* and no more saturation than this, however yellow the mounting medium */
    ABOVE_GLASS = 15, /* smallest saturation that counts as tissue */
    ABOVE_MAX = 45,   /* upper limit, so that a slide full of tissue does not lose its paler half */
    ABOVE_EMPTY = 27, /* if Otsu's method finds no two classes */
    ABOVE_RELAXED = 7, /* relaxed threshold for a faint slide */
    CONTRAST = 14      /* if the means of two classes differ by less, there is only one class */
};

enum overview { OVERVIEW_UM, OVERVIEW_LONGEST, OVERVIEW_REDUCTION };

struct preset {
    const char *name;
    enum overview overview;
    double overview_size; /* um/px, px, or level-0 px per px */
    int threshold;        /* on S; 0 = found */
    int median;           /* window of the median filter on S before a given threshold, px */
    int close;            /* px of the overview; 0 = none */
    double close_um;      /* the same in um, but at least `close` px; 0: only `close` */
    double min_object;    /* um2 */
    double max_hole;      /* um2 */
    double reference;     /* the two above in units of (this many level-0 px)^2; 0 = um2 */
    int max_holes;        /* most holes of one object; 0: any number */
    bool diagonal;        /* objects connect at corners; holes at the image border are not filled */
};

static const struct preset presets[] = {
    { "otsu", OVERVIEW_UM, 8, 0, 0, 3, 24, 100.0 * 100, 150.0 * 150, 0, 0, true },
    { "wsinfer", OVERVIEW_LONGEST, 2048, 7, 7, 6, 0, 200.0 * 200, 190.0 * 190, 0, 0, false },
    { "clam", OVERVIEW_REDUCTION, 64, 8, 7, 4, 0, 100, 16, 512, 10, true },
    { "ncrf", OVERVIEW_REDUCTION, 64, 0, 0, 0, 0, 0, 0, 0, 0, true },
    { "none", OVERVIEW_UM, 8, 0, 0, 0, 0, 0, 0, 0, 0, true },
};

static enum hrf_status find_preset(const char *method, const struct preset **out,
                                   struct hrf_error *err)
{
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        if (strcmp(presets[i].name, method) != 0)
            continue;
        *out = &presets[i];
        return HRF_OK;
    }
    return hrf_error_set(err, HRF_E_USER,
                         "unknown tissue method '%s'; there are otsu, wsinfer, clam, ncrf and none",
                         method);
}

enum hrf_status hrf_tissue_reduction(const char *method, int64_t width, int64_t height, double mpp,
                                     double *reduction, struct hrf_error *err)
{
    const struct preset *preset = NULL;
    HRF_TRY(find_preset(method, &preset, err));
    double longest = (double)(width > height ? width : height);
    double wanted = preset->overview_size, min_side = 512;
    if (preset->overview == OVERVIEW_UM) {
        wanted = preset->overview_size / mpp;
        min_side = 1024; /* the report shows the thumbnail at that size */
    } else if (preset->overview == OVERVIEW_LONGEST) {
        wanted = longest / preset->overview_size;
    }
    *reduction = fmax(1, fmin(wanted, longest / min_side));
    return HRF_OK;
}

int hrf_otsu(const int64_t histogram[256], double *contrast)
{
    double total = 0, sum = 0;
    for (int i = 0; i < 256; i++) {
        total += (double)histogram[i];
        sum += (double)histogram[i] * i;
    }
    double below = 0, sum_below = 0, best = 0;
    int threshold = 0;
    if (contrast != NULL)
        *contrast = 0;
    for (int t = 0; t < 255; t++) {
        below += (double)histogram[t];
        sum_below += (double)histogram[t] * t;
        if (below <= 0 || below >= total)
            continue;
        double distance = (sum - sum_below) / (total - below) - sum_below / below;
        double variance = below * (total - below) * distance * distance;
        if (variance <= best)
            continue;
        best = variance;
        threshold = t;
        if (contrast != NULL)
            *contrast = distance;
    }
    return threshold;
}

/* OpenCV's fixed-point form: (max - min) * round(255 * 2^12 / max), rounded. */
static void fill_saturation(const struct hrf_tissue_image *image, unsigned char *plane)
{
    int reciprocal[256] = { 0 };
    for (int v = 1; v < 256; v++)
        reciprocal[v] = (int)lrint((255 << 12) / (double)v);
    for (int64_t i = 0; i < image->width * image->height; i++) {
        const unsigned char *p = image->rgb + 3 * i;
        int high = p[0] > p[1] ? p[0] : p[1], low = p[0] < p[1] ? p[0] : p[1];
        high = p[2] > high ? p[2] : high;
        low = p[2] < low ? p[2] : low;
        plane[i] = (unsigned char)(((high - low) * reciprocal[high] + (1 << 11)) >> 12);
    }
}

/* The saturation at the peak of the light pixels; 0: hardly any pixel is light. */
static int glass_saturation(const struct hrf_tissue_image *image, const unsigned char *plane)
{
    int64_t histogram[GLASS_MAX + 1] = { 0 }, n_light = 0, n = image->width * image->height;
    for (int64_t i = 0; i < n; i++) {
        const unsigned char *p = image->rgb + 3 * i;
        if (p[0] < LIGHT || p[1] < LIGHT || p[2] < LIGHT || plane[i] > GLASS_MAX)
            continue;
        histogram[plane[i]]++;
        n_light++;
    }
    int mode = 0;
    for (int s = 1; s <= GLASS_MAX; s++)
        if (histogram[s] > histogram[mode])
            mode = s;
    return n_light * 100 > n ? mode : 0;
}

static int own_threshold(const struct hrf_tissue_image *image, const unsigned char *plane,
                         const unsigned char *ink, bool relaxed)
{
    int64_t histogram[256] = { 0 };
    double contrast;
    for (int64_t i = 0; i < image->width * image->height; i++)
        if (!ink[i])
            histogram[plane[i]]++;
    int glass = glass_saturation(image, plane), otsu = hrf_otsu(histogram, &contrast);
    if (relaxed)
        return glass + ABOVE_RELAXED;
    if (contrast < CONTRAST)
        return glass + ABOVE_EMPTY;
    int half = (otsu - glass) / 2;
    return glass + (half < ABOVE_GLASS ? ABOVE_GLASS : half > ABOVE_MAX ? ABOVE_MAX : half);
}

static enum hrf_status own_mask(const struct hrf_tissue_image *image, unsigned char *plane,
                                bool relaxed, unsigned char *mask, double *threshold,
                                struct hrf_error *err)
{
    int64_t n = image->width * image->height;
    HRF_AUTO_FREE unsigned char *ink = hrf_try_alloc((size_t)n);
    HRF_CHECK_MEMORY(ink != NULL, err, "no memory for the ink on %lld px", (long long)n);
    HRF_TRY(hrf_ink_find(image, ink, err));
    HRF_TRY(hrf_median_3x3(plane, image->width, image->height, err));
    int t = own_threshold(image, plane, ink, relaxed);
    for (int64_t i = 0; i < n; i++)
        mask[i] = plane[i] > t && !ink[i] ? 255 : 0;
    *threshold = t;
    return HRF_OK;
}

/* Thresholds the median filter's output, computed as a majority vote on the threshold. */
static enum hrf_status fixed_mask(const struct preset *preset, const struct hrf_tissue_image *image,
                                  const unsigned char *plane, int threshold, unsigned char *mask,
                                  struct hrf_error *err)
{
    for (int64_t i = 0; i < image->width * image->height; i++)
        mask[i] = plane[i] > threshold ? 255 : 0;
    return hrf_mask_majority(mask, image->width, image->height, preset->median, err);
}

static void ncrf_mask(const struct hrf_tissue_image *image, const unsigned char *plane,
                      bool relaxed, unsigned char *mask, double *threshold)
{
    int64_t histogram[4][256] = { { 0 } };
    int64_t n = image->width * image->height;
    for (int64_t i = 0; i < n; i++) {
        histogram[3][plane[i]]++;
        for (int c = 0; c < 3; c++)
            histogram[c][image->rgb[3 * i + c]]++;
    }
    int otsu[4];
    for (int c = 0; c < 4; c++)
        otsu[c] = hrf_otsu(histogram[c], NULL);
    int s = relaxed ? otsu[3] / 2 : otsu[3];
    for (int64_t i = 0; i < n; i++) {
        const unsigned char *p = image->rgb + 3 * i;
        bool bright = p[0] > otsu[0] && p[1] > otsu[1] && p[2] > otsu[2];
        bool lit = p[0] > 50 && p[1] > 50 && p[2] > 50;
        mask[i] = plane[i] > s && !bright && lit ? 255 : 0;
    }
    *threshold = s;
}

/* Removes objects of fewer than `min` px. */
static enum hrf_status drop_objects(const struct hrf_tissue_image *image, bool diagonal, double min,
                                    unsigned char *mask, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_regions) objects = { .n_regions = 0 };
    HRF_TRY(hrf_regions_find(mask, image->width, image->height, 255, diagonal, &objects, err));
    for (int64_t i = 0; i < image->width * image->height; i++)
        if (mask[i] && (double)objects.region[objects.label[i] - 1].area < min)
            mask[i] = 0;
    return HRF_OK;
}

struct hole {
    int32_t object; /* that it lies in */
    int32_t index;  /* of its region */
    int64_t area;
};

static int by_object_then_largest(const void *a, const void *b)
{
    const struct hole *p = a, *q = b;
    if (p->object != q->object)
        return p->object < q->object ? -1 : 1;
    if (p->area != q->area)
        return p->area > q->area ? -1 : 1;
    return p->index < q->index ? -1 : p->index > q->index;
}

/* Marks all but the `max_holes` largest holes of an object for filling. */
static enum hrf_status mark_surplus(const unsigned char *mask, const struct hrf_tissue_image *image,
                                    const struct hrf_regions *holes, int max_holes, bool *fill,
                                    struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_regions) objects = { .n_regions = 0 };
    HRF_AUTO_FREE struct hole *list = hrf_alloc_array((size_t)holes->n_regions, sizeof *list);
    HRF_TRY(hrf_regions_find(mask, image->width, image->height, 255, true, &objects, err));
    size_t n = 0;
    for (int32_t i = 0; i < holes->n_regions; i++) {
        const struct hrf_region *hole = &holes->region[i];
        if (!hole->touches_border) /* left of its first pixel lies the object around it */
            list[n++] = (struct hole){ objects.label[hole->first - 1], i, hole->area };
    }
    qsort(list, n, sizeof list[0], by_object_then_largest);
    int rank = 0;
    for (size_t i = 0; i < n; i++) {
        rank = i > 0 && list[i].object == list[i - 1].object ? rank + 1 : 0;
        fill[list[i].index] |= rank >= max_holes;
    }
    return HRF_OK;
}

/* Fills holes of fewer than `min` px, and surplus ones. */
static enum hrf_status fill_holes(const struct hrf_tissue_image *image, const struct preset *preset,
                                  double min, unsigned char *mask, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_regions) holes = { .n_regions = 0 };
    HRF_TRY(hrf_regions_find(mask, image->width, image->height, 0, false, &holes, err));
    HRF_AUTO_FREE bool *fill = hrf_calloc((size_t)holes.n_regions, sizeof *fill);
    for (int32_t i = 0; i < holes.n_regions; i++)
        fill[i] = (double)holes.region[i].area < min &&
                  !(preset->diagonal && holes.region[i].touches_border);
    if (preset->max_holes > 0)
        HRF_TRY(mark_surplus(mask, image, &holes, preset->max_holes, fill, err));
    for (int64_t i = 0; i < image->width * image->height; i++)
        if (holes.label[i] > 0 && fill[holes.label[i] - 1])
            mask[i] = 255;
    return HRF_OK;
}

static enum hrf_status clean(const struct preset *preset, const struct hrf_tissue_image *image,
                             bool relaxed, unsigned char *mask, struct hrf_error *err)
{
    double pixel = image->mpp_x * image->mpp_y; /* um2 */
    double unit = preset->reference > 0 ? pow(preset->reference * image->level0_mpp, 2) : 1;
    double min_object = preset->min_object * unit / pixel / (relaxed ? 16 : 1);
    double in_px = preset->close_um / sqrt(pixel);
    int size = preset->close;
    if (in_px > size)
        size = (int)fmin(in_px, 64);
    if (size > 0)
        HRF_TRY(hrf_mask_close(mask, image->width, image->height, size, err));
    if (preset->min_object > 0)
        HRF_TRY(drop_objects(image, preset->diagonal, min_object, mask, err));
    if (preset->max_hole > 0)
        HRF_TRY(fill_holes(image, preset, preset->max_hole * unit / pixel, mask, err));
    return HRF_OK;
}

enum hrf_status hrf_tissue_detect(const struct hrf_tissue_image *image, const char *method,
                                  bool relaxed, unsigned char *mask,
                                  struct hrf_tissue_result *result, struct hrf_error *err)
{
    const struct preset *preset = NULL;
    struct hrf_tissue_result found = { 0 };
    HRF_TRY(find_preset(method, &preset, err));
    int64_t n = image->width * image->height;
    HRF_AUTO_FREE unsigned char *plane = hrf_try_alloc((size_t)n);
    HRF_CHECK_MEMORY(plane != NULL, err, "no memory for an overview of %lld px", (long long)n);
    fill_saturation(image, plane);
    if (preset->threshold > 0) {
        int t = preset->threshold / (relaxed ? 2 : 1);
        HRF_TRY(fixed_mask(preset, image, plane, t, mask, err));
        found.threshold = t;
    } else if (strcmp(preset->name, "none") == 0) {
        memset(mask, 255, (size_t)n);
    } else if (strcmp(preset->name, "ncrf") == 0) {
        ncrf_mask(image, plane, relaxed, mask, &found.threshold);
    } else {
        HRF_TRY(own_mask(image, plane, relaxed, mask, &found.threshold, err));
    }
    HRF_TRY(clean(preset, image, relaxed, mask, err));
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += mask[i] != 0;
    found.fraction = n > 0 ? (double)count / (double)n : 0;
    *result = found;
    return HRF_OK;
}
