#include "tiler/tissue/tissue.h"

#include "base/alloc.h"
#include "tiler/tissue/morphology.h"

#include <math.h>
#include <string.h>

/* Below this saturation glass, noise and JPEG artefacts lie (S of 8-bit white +-4 is 4/255);
 * pale eosin lies at 25 to 40. Faint slides are taken down to the relaxed floor. */
enum { SATURATION_FLOOR = 18, SATURATION_FLOOR_RELAXED = 10, SATURATION_CEILING = 90 };
/* The two classes of Otsu must differ by this much of S, else there is one class: glass. */
static const double min_contrast = 14;
enum { BLACK = 45 }; /* darker than any stained nucleus on an overview: ink, edges, dust */

struct preset {
    const char *name;
    int median;        /* window; 0 = none */
    int threshold;     /* on S; 0 = Otsu */
    int close;         /* px of the overview; 0 = none */
    double min_object; /* um2 */
    double max_hole;   /* um2 */
    double reference;  /* clam: the two above in units of (reference level-0 px)^2; 0 = um2 */
    bool is_ncrf, is_otsu;
};

static const struct preset presets[] = {
    { "otsu", 3, 0, 3, 100.0 * 100, 150.0 * 150, 0, false, true },
    { "wsinfer", 7, 7, 6, 200.0 * 200, 190.0 * 190, 0, false, false },
    { "clam", 7, 8, 4, 100, 16, 512, false, false },
    { "ncrf", 0, 0, 0, 0, 0, 0, true, false },
};

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

static unsigned char saturation(const unsigned char *p)
{
    int high = p[0] > p[1] ? p[0] : p[1], low = p[0] < p[1] ? p[0] : p[1];
    high = p[2] > high ? p[2] : high;
    low = p[2] < low ? p[2] : low;
    return high == 0 ? 0 : (unsigned char)((255 * (high - low) + high / 2) / high);
}

/* Marker ink. Haematoxylin and eosin keep green the weakest channel and red at least near blue;
 * green ink has green on top, blue ink has red at the bottom by far, red ink is pure red. */
static bool is_ink(const unsigned char *p)
{
    int r = p[0], g = p[1], b = p[2];
    bool green = g > r + 12 && g > b - 6;
    bool blue = b > r + 45 && g > r - 4;
    bool red = r > g + 110 && r > b + 85 && g < 110;
    return green || blue || red;
}

static bool is_black(const unsigned char *p)
{
    return p[0] < BLACK && p[1] < BLACK && p[2] < BLACK;
}

static int otsu_threshold(const struct hrf_tissue_image *image, const unsigned char *plane,
                          bool relaxed)
{
    int64_t histogram[256] = { 0 };
    for (int64_t i = 0; i < image->width * image->height; i++) {
        const unsigned char *p = image->rgb + 3 * i;
        if (!is_ink(p) && !is_black(p))
            histogram[plane[i]]++;
    }
    double contrast;
    int threshold = hrf_otsu(histogram, &contrast);
    int floor = relaxed ? SATURATION_FLOOR_RELAXED : SATURATION_FLOOR;
    if (relaxed || threshold < floor)
        threshold = floor;
    if (!relaxed && contrast < min_contrast) /* one class: what is over the ceiling, if any */
        threshold = SATURATION_CEILING;
    return threshold < SATURATION_CEILING ? threshold : SATURATION_CEILING;
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

static enum hrf_status clean(const struct preset *preset, const struct hrf_tissue_image *image,
                             unsigned char *mask, struct hrf_error *err)
{
    double pixel = image->mpp_x * image->mpp_y; /* um2 */
    double unit = preset->reference > 0 ? pow(preset->reference * image->level0_mpp, 2) / pixel
                                        : 1.0 / pixel;
    if (preset->close > 0)
        HRF_TRY(hrf_mask_close(mask, image->width, image->height, preset->close, err));
    if (preset->min_object > 0)
        HRF_TRY(hrf_mask_drop_small(mask, image->width, image->height, 255,
                                    preset->min_object * unit, err));
    if (preset->max_hole > 0)
        HRF_TRY(hrf_mask_drop_small(mask, image->width, image->height, 0, preset->max_hole * unit,
                                    err));
    return HRF_OK;
}

static const struct preset *find_preset(const char *method)
{
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++)
        if (strcmp(presets[i].name, method) == 0)
            return &presets[i];
    return NULL;
}

static void threshold_mask(const struct preset *preset, const struct hrf_tissue_image *image,
                           const unsigned char *plane, int threshold, unsigned char *mask)
{
    for (int64_t i = 0; i < image->width * image->height; i++) {
        const unsigned char *p = image->rgb + 3 * i;
        bool guarded = preset->is_otsu && (is_ink(p) || is_black(p));
        mask[i] = plane[i] > threshold && !guarded ? 255 : 0;
    }
}

enum hrf_status hrf_tissue_detect(const struct hrf_tissue_image *image, const char *method,
                                  bool relaxed, unsigned char *mask,
                                  struct hrf_tissue_result *result, struct hrf_error *err)
{
    const struct preset *preset = find_preset(method);
    if (preset == NULL)
        return hrf_error_set(err, HRF_E_USER,
                             "unknown tissue method '%s'; there are otsu, wsinfer, clam and ncrf",
                             method);
    int64_t n = image->width * image->height;
    HRF_AUTO_FREE unsigned char *plane = hrf_alloc((size_t)n);
    if (plane == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for an overview of %lld px",
                             (long long)n);
    for (int64_t i = 0; i < n; i++)
        plane[i] = saturation(image->rgb + 3 * i);
    if (preset->median > 0)
        HRF_TRY(hrf_median_filter(plane, image->width, image->height, preset->median, err));
    if (preset->is_ncrf) {
        ncrf_mask(image, plane, relaxed, mask, &result->threshold);
    } else {
        int threshold = preset->is_otsu ? otsu_threshold(image, plane, relaxed)
                                        : preset->threshold / (relaxed ? 2 : 1);
        threshold_mask(preset, image, plane, threshold, mask);
        result->threshold = threshold;
    }
    HRF_TRY(clean(preset, image, mask, err));
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += mask[i] != 0;
    result->fraction = n > 0 ? (double)count / (double)n : 0;
    return HRF_OK;
}
