/* morphology.c - median and majority filters, dilation, closing and connected regions. */
#include "tiler/tissue/morphology.h"

#include "base/alloc.h"
#include "tiler/outline/pixel_runs.h"

#include <string.h>

static int64_t morphology_clamp(int64_t i, int64_t n)
{
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

static unsigned char min2(unsigned char a, unsigned char b)
{
    return a < b ? a : b;
}

static unsigned char max2(unsigned char a, unsigned char b)
{
    return a > b ? a : b;
}

static unsigned char median_of_3(unsigned char a, unsigned char b, unsigned char c)
{
    return max2(min2(a, b), min2(max2(a, b), c));
}

/* The columns of three rows, sorted: low, middle and high, each of n + 2 with the ends repeated. */
static void sort_columns(const unsigned char *a, const unsigned char *b, const unsigned char *c,
                         int64_t n, unsigned char *low, unsigned char *middle, unsigned char *high)
{
    for (int64_t x = 0; x < n; x++) {
        low[x + 1] = min2(min2(a[x], b[x]), c[x]);
        middle[x + 1] = median_of_3(a[x], b[x], c[x]);
        high[x + 1] = max2(max2(a[x], b[x]), c[x]);
    }
    low[0] = low[1], middle[0] = middle[1], high[0] = high[1];
    low[n + 1] = low[n], middle[n + 1] = middle[n], high[n + 1] = high[n];
}

enum hrf_status hrf_median_3x3(unsigned char *plane, int64_t width, int64_t height,
                               struct hrf_error *err)
{
    size_t n = (size_t)(width * height), row = (size_t)width + 2;
    HRF_AUTO_FREE unsigned char *copy = hrf_try_alloc(n);
    HRF_AUTO_FREE unsigned char *sorted = hrf_try_alloc_array(row, 3);
    HRF_CHECK_MEMORY(copy != NULL && sorted != NULL, err, "no memory to filter %lld x %lld px",
                     (long long)width, (long long)height);
    memcpy(copy, plane, n);
    unsigned char *low = sorted, *middle = sorted + row, *high = sorted + 2 * row;
    for (int64_t y = 0; y < height; y++) {
        unsigned char *out = plane + y * width;
        sort_columns(copy + morphology_clamp(y - 1, height) * width, copy + y * width,
                     copy + morphology_clamp(y + 1, height) * width, width, low, middle, high);
        for (int64_t x = 0; x < width; x++) /* the median of nine, from sorted columns */
            out[x] = median_of_3(max2(max2(low[x], low[x + 1]), low[x + 2]),
                                 median_of_3(middle[x], middle[x + 1], middle[x + 2]),
                                 min2(min2(high[x], high[x + 1]), high[x + 2]));
    }
    return HRF_OK;
}

/* counts[x] = set pixels within `radius` of x on one row, the ends repeated. */
static void count_row(const unsigned char *row, int64_t n, int radius, unsigned char *counts)
{
    int count = 0;
    for (int64_t x = -radius; x < radius; x++)
        count += row[morphology_clamp(x, n)] != 0;
    for (int64_t x = 0; x < n; x++) {
        count += row[morphology_clamp(x + radius, n)] != 0;
        counts[x] = (unsigned char)count;
        count -= row[morphology_clamp(x - radius, n)] != 0;
    }
}

enum hrf_status hrf_mask_majority(unsigned char *mask, int64_t width, int64_t height, int size,
                                  struct hrf_error *err)
{
    HRF_AUTO_FREE unsigned char *counts = hrf_try_alloc((size_t)(width * height));
    HRF_AUTO_FREE int32_t *sums = hrf_calloc((size_t)width, sizeof *sums);
    HRF_CHECK_MEMORY(counts != NULL, err, "no memory to filter %lld x %lld px", (long long)width,
                     (long long)height);
    int radius = size / 2, half = size * size / 2;
    for (int64_t y = 0; y < height; y++)
        count_row(mask + y * width, width, radius, counts + y * width);
    for (int64_t y = -radius; y < radius; y++)
        for (int64_t x = 0; x < width; x++)
            sums[x] += counts[morphology_clamp(y, height) * width + x];
    for (int64_t y = 0; y < height; y++) {
        const unsigned char *in = counts + morphology_clamp(y + radius, height) * width;
        const unsigned char *gone = counts + morphology_clamp(y - radius, height) * width;
        for (int64_t x = 0; x < width; x++) {
            int32_t sum = sums[x] + in[x];
            mask[y * width + x] = sum > half ? 255 : 0;
            sums[x] = sum - gone[x];
        }
    }
    return HRF_OK;
}

/* Sets each pixel that has a pixel of `value` at most `before` to its left or `after` to its right,
 * on one row. */
static void spread_row(const unsigned char *in, unsigned char *out, int64_t n, int before,
                       int after, unsigned char value)
{
    int64_t since = INT32_MAX;
    for (int64_t i = 0; i < n; i++) {
        since = in[i] == value ? 0 : since + 1;
        if (since <= before)
            out[i] = value;
    }
    since = INT32_MAX;
    for (int64_t i = n; i-- > 0;) {
        since = in[i] == value ? 0 : since + 1;
        if (since <= after)
            out[i] = value;
    }
}

/* The same for one row, downwards or upwards: since[x] counts the rows since the last `value`. */
static void spread_step(const unsigned char *in, unsigned char *out, int64_t n, int reach,
                        unsigned char value, int32_t *since)
{
    for (int64_t x = 0; x < n; x++) {
        since[x] = in[x] == value ? 0 : since[x] + 1;
        if (since[x] <= reach)
            out[x] = value;
    }
}

enum hrf_status hrf_mask_spread(unsigned char *mask, int64_t width, int64_t height, int before,
                                int after, unsigned char value, struct hrf_error *err)
{
    HRF_AUTO_FREE unsigned char *copy = hrf_try_alloc((size_t)(width * height));
    HRF_AUTO_FREE int32_t *since = hrf_alloc_array((size_t)width, 2 * sizeof *since);
    HRF_CHECK_MEMORY(copy != NULL, err, "no memory to spread a mask of %lld x %lld px",
                     (long long)width, (long long)height);
    memcpy(copy, mask, (size_t)(width * height));
    for (int64_t y = 0; y < height; y++)
        spread_row(copy + y * width, mask + y * width, width, before, after, value);
    memcpy(copy, mask, (size_t)(width * height));
    for (int64_t x = 0; x < 2 * width; x++)
        since[x] = INT32_MAX / 2;
    for (int64_t y = 0; y < height; y++)
        spread_step(copy + y * width, mask + y * width, width, before, value, since);
    for (int64_t y = height; y-- > 0;)
        spread_step(copy + y * width, mask + y * width, width, after, value, since + width);
    return HRF_OK;
}

enum hrf_status hrf_mask_close(unsigned char *mask, int64_t width, int64_t height, int size,
                               struct hrf_error *err)
{
    int before = size / 2, after = size - 1 - before;
    HRF_TRY(hrf_mask_spread(mask, width, height, before, after, 255, err));
    return hrf_mask_spread(mask, width, height, after, before, 0, err);
}

void hrf_regions_release(struct hrf_regions *regions)
{
    hrf_free(regions->label);
    hrf_free(regions->region);
    *regions = (struct hrf_regions){ .n_regions = 0 };
}

static void measure_region(struct hrf_regions *out, const struct hrf_pixel_run *run, int64_t width,
                           int64_t height)
{
    const int64_t base = run->row * width;
    struct hrf_region *region = &out->region[run->label - 1];
    if (region->area == 0)
        region->first = base + run->begin;
    region->area += run->end - run->begin;
    region->touches_border |= run->row == 0 || run->row == height - 1 || run->begin == 0 ||
                              run->end == width;
    for (int64_t x = run->begin; x < run->end; x++)
        out->label[base + x] = run->label;
}

enum hrf_status hrf_regions_find(const unsigned char *mask, int64_t width, int64_t height,
                                 unsigned char value, bool diagonal, struct hrf_regions *out,
                                 struct hrf_error *err)
{
    int64_t n = width * height;
    if (n > INT32_MAX)
        return hrf_error_set(err, HRF_E_UNSUPPORTED, "a mask of %lld x %lld px is too large",
                             (long long)width, (long long)height);
    HRF_AUTO_RELEASE(hrf_pixel_runs) runs = { .n = 0 };
    HRF_TRY(
        hrf_pixel_runs_find(mask, (int32_t)width, (int32_t)height, value, diagonal, &runs, err));
    HRF_AUTO_RELEASE(hrf_regions) regions = { .n_regions = (int32_t)runs.n_regions };
    regions.label = hrf_try_calloc((size_t)n, sizeof regions.label[0]);
    HRF_CHECK_MEMORY(regions.label != NULL, err, "no memory to label %lld px", (long long)n);
    regions.region = hrf_calloc(runs.n_regions + 1, sizeof regions.region[0]);
    for (size_t i = 0; i < runs.n; i++)
        measure_region(&regions, &runs.items[i], width, height);
    *out = regions;
    regions = (struct hrf_regions){ .n_regions = 0 };
    return HRF_OK;
}
