/* ink.c - finds marker ink and black areas on an overview. */
#include "tiler/tissue/ink.h"

#include "base/alloc.h"
#include "tiler/tissue/morphology.h"

#include <math.h>
#include <string.h>

static const double min_stroke = 20000; /* um2: a dot of 0.16 mm; pens draw 0.5 mm lines */
static const double edge = 200;         /* um: how far a stroke fades out */

enum { BLACK = 45 }; /* darker than any stained nucleus on an overview: dust, edges, black ink */

static int ink_largest(const unsigned char *p)
{
    int high = p[0] > p[1] ? p[0] : p[1];
    return p[2] > high ? p[2] : high;
}

static int smallest(const unsigned char *p)
{
    int low = p[0] < p[1] ? p[0] : p[1];
    return p[2] < low ? p[2] : low;
}

static bool is_black(const unsigned char *p)
{
    int high = ink_largest(p);
    return high < BLACK || (high < 2 * BLACK && high - smallest(p) < 28);
}

/* Haematoxylin and eosin keep green the weakest channel and red at least near blue. Green ink has
 * green on top, blue ink has red at the bottom by far, red ink is pure red. */
static bool is_ink(const unsigned char *p)
{
    int r = p[0], g = p[1], b = p[2];
    bool green = g > r + 12 && g > b - 6;
    bool blue = b > r + 45 && g > r - 4;
    bool red = r > g + 110 && r > b + 85 && g < 110;
    return green || blue || red;
}

/* Paler versions of the same hues, and grays. They count only next to ink. */
static bool is_faint_ink(const unsigned char *p)
{
    int r = p[0], g = p[1], b = p[2], high = ink_largest(p);
    if (high < 200 && high - smallest(p) < 24)
        return true;
    bool green = g > r + 4 && g > b - 6;
    bool blue = b > r + 8 && g > r - 4;
    bool red = r > g + 12 && 4 * (b - g) < r - g + 8;
    return green || blue || red;
}

/* Removes spots of ink that are smaller than a stroke. */
static enum hrf_status keep_strokes(const struct hrf_tissue_image *image, unsigned char *ink,
                                    struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_regions) regions = { .n_regions = 0 };
    HRF_TRY(hrf_regions_find(ink, image->width, image->height, 255, true, &regions, err));
    double pixel = image->mpp_x * image->mpp_y;
    for (int64_t i = 0; i < image->width * image->height; i++)
        if (ink[i] && (double)regions.region[regions.label[i] - 1].area * pixel < min_stroke)
            ink[i] = 0;
    return HRF_OK;
}

struct growth {
    const struct hrf_tissue_image *image;
    unsigned char *ink;
    int32_t *queue; /* pixels of ink, in order of their distance */
    int64_t n;
};

static void grow_around(struct growth *g, int64_t at)
{
    int64_t width = g->image->width, height = g->image->height;
    int64_t x = at % width, y = at / width;
    for (int64_t v = y > 0 ? y - 1 : 0; v <= y + 1 && v < height; v++) {
        for (int64_t u = x > 0 ? x - 1 : 0; u <= x + 1 && u < width; u++) {
            int64_t i = v * width + u;
            if (g->ink[i] || !is_faint_ink(g->image->rgb + 3 * i))
                continue;
            g->ink[i] = 255;
            g->queue[g->n++] = (int32_t)i;
        }
    }
}

/* Grows ink into faint ink, a ring of one px at a time. */
static enum hrf_status follow_edges(const struct hrf_tissue_image *image, unsigned char *ink,
                                    struct hrf_error *err)
{
    int64_t n = image->width * image->height, done = 0;
    HRF_AUTO_FREE int32_t *queue = hrf_alloc_array((size_t)n, sizeof *queue);
    struct growth growth = { .image = image, .ink = ink, .queue = queue };
    for (int64_t i = 0; i < n; i++)
        if (ink[i])
            queue[growth.n++] = (int32_t)i;
    int steps = (int)fmin(fmax(edge / fmin(image->mpp_x, image->mpp_y), 8), 32);
    for (int step = 0; step < steps; step++)
        for (int64_t end = growth.n; done < end; done++)
            grow_around(&growth, queue[done]);
    /* In the rim, ink shares a pixel with glass or tissue; it counts as ink, too. */
    return hrf_mask_spread(ink, image->width, image->height, 1, 1, 255, err);
}

enum hrf_status hrf_ink_find(const struct hrf_tissue_image *image, unsigned char *ink,
                             struct hrf_error *err)
{
    int64_t n = image->width * image->height;
    bool any = false;
    for (int64_t i = 0; i < n; i++) {
        const unsigned char *p = image->rgb + 3 * i;
        ink[i] = is_ink(p) || is_black(p) ? 255 : 0;
        any |= ink[i] != 0;
    }
    if (any) {
        HRF_TRY(keep_strokes(image, ink, err));
        any = memchr(ink, 255, (size_t)n) != NULL;
    }
    if (any)
        HRF_TRY(follow_edges(image, ink, err));
    for (int64_t i = 0; i < n; i++) /* the small spots of it too */
        if (is_black(image->rgb + 3 * i))
            ink[i] = 255;
    return HRF_OK;
}
