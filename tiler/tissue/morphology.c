/* morphology.c - median and majority filters, dilation, closing and connected regions. */
#include "tiler/tissue/morphology.h"

#include "base/alloc.h"

#include <string.h>

static int64_t clamp(int64_t i, int64_t n)
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
    HRF_AUTO_FREE unsigned char *copy = hrf_alloc(n);
    HRF_AUTO_FREE unsigned char *sorted = hrf_alloc_array(row, 3);
    HRF_CHECK_MEMORY(copy != NULL && sorted != NULL, err, "no memory to filter %lld x %lld px",
                     (long long)width, (long long)height);
    memcpy(copy, plane, n);
    unsigned char *low = sorted, *middle = sorted + row, *high = sorted + 2 * row;
    for (int64_t y = 0; y < height; y++) {
        unsigned char *out = plane + y * width;
        sort_columns(copy + clamp(y - 1, height) * width, copy + y * width,
                     copy + clamp(y + 1, height) * width, width, low, middle, high);
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
        count += row[clamp(x, n)] != 0;
    for (int64_t x = 0; x < n; x++) {
        count += row[clamp(x + radius, n)] != 0;
        counts[x] = (unsigned char)count;
        count -= row[clamp(x - radius, n)] != 0;
    }
}

enum hrf_status hrf_mask_majority(unsigned char *mask, int64_t width, int64_t height, int size,
                                  struct hrf_error *err)
{
    HRF_AUTO_FREE unsigned char *counts = hrf_alloc((size_t)(width * height));
    HRF_AUTO_FREE int32_t *sums = hrf_calloc((size_t)width, sizeof *sums);
    HRF_CHECK_MEMORY(counts != NULL && sums != NULL, err, "no memory to filter %lld x %lld px",
                     (long long)width, (long long)height);
    int radius = size / 2, half = size * size / 2;
    for (int64_t y = 0; y < height; y++)
        count_row(mask + y * width, width, radius, counts + y * width);
    for (int64_t y = -radius; y < radius; y++)
        for (int64_t x = 0; x < width; x++)
            sums[x] += counts[clamp(y, height) * width + x];
    for (int64_t y = 0; y < height; y++) {
        const unsigned char *in = counts + clamp(y + radius, height) * width;
        const unsigned char *gone = counts + clamp(y - radius, height) * width;
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
    HRF_AUTO_FREE unsigned char *copy = hrf_alloc((size_t)(width * height));
    HRF_AUTO_FREE int32_t *since = hrf_alloc_array((size_t)width, 2 * sizeof *since);
    HRF_CHECK_MEMORY(copy != NULL && since != NULL, err,
                     "no memory to spread a mask of %lld x %lld px", (long long)width,
                     (long long)height);
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

/* Regions are found by rows: each row is a list of runs, and runs that touch one of the row above
 * are joined (union-find; a root is the first run of its region in reading order). */
struct run {
    int32_t begin, end; /* [begin, end), indices of pixels */
    int32_t parent;     /* index of a run in the same region; its own index: root */
};

struct runs {
    struct run *items;
    size_t n, capacity;
};

static int32_t root_of(struct run *runs, int32_t i)
{
    while (runs[i].parent != i) {
        runs[i].parent = runs[runs[i].parent].parent;
        i = runs[i].parent;
    }
    return i;
}

static void join(struct run *runs, int32_t a, int32_t b)
{
    a = root_of(runs, a);
    b = root_of(runs, b);
    runs[a > b ? a : b].parent = a > b ? b : a;
}

static enum hrf_status add_row_runs(struct runs *runs, const unsigned char *row, int64_t width,
                                    int64_t base, unsigned char value, struct hrf_error *err)
{
    for (int64_t x = 0; x < width; x++) {
        if (row[x] != value)
            continue;
        int64_t begin = x;
        while (x < width && row[x] == value)
            x++;
        HRF_TRY(hrf_array_reserve((void **)&runs->items, &runs->capacity, runs->n + 1,
                                  sizeof runs->items[0], err));
        runs->items[runs->n] = (struct run){ .begin = (int32_t)(base + begin),
                                             .end = (int32_t)(base + x),
                                             .parent = (int32_t)runs->n };
        runs->n++;
    }
    return HRF_OK;
}

/* Joins the runs [above, middle) of one row with those of the next, [middle, end), that they touch.
 * `reach` 1: touching at a corner counts. */
static void join_rows(struct run *items, size_t above, size_t middle, size_t end, int64_t width,
                      int reach)
{
    for (size_t below = middle; below < end; below++) {
        int64_t begin = items[below].begin - width - reach, last = items[below].end - width + reach;
        while (above < middle && items[above].end <= begin)
            above++;
        for (size_t i = above; i < middle && items[i].begin < last; i++)
            join(items, (int32_t)i, (int32_t)below);
    }
}

static enum hrf_status find_runs(const unsigned char *mask, int64_t width, int64_t height,
                                 unsigned char value, bool diagonal, struct runs *runs,
                                 struct hrf_error *err)
{
    size_t above = 0, middle = 0;
    for (int64_t y = 0; y < height; y++) {
        HRF_TRY(add_row_runs(runs, mask + y * width, width, y * width, value, err));
        join_rows(runs->items, above, middle, runs->n, width, diagonal ? 1 : 0);
        above = middle;
        middle = runs->n;
    }
    return HRF_OK;
}

/* Numbers the roots in reading order and labels every pixel with its region's number. */
static enum hrf_status number_runs(struct runs *runs, int64_t width, int64_t height,
                                   struct hrf_regions *out, struct hrf_error *err)
{
    size_t capacity = 0;
    for (size_t i = 0; i < runs->n; i++) {
        const struct run *run = &runs->items[i];
        int32_t root = root_of(runs->items, (int32_t)i);
        if (root == (int32_t)i) {
            HRF_TRY(hrf_array_reserve((void **)&out->region, &capacity, (size_t)out->n_regions + 1,
                                      sizeof out->region[0], err));
            out->region[out->n_regions] = (struct hrf_region){ .first = run->begin };
            out->n_regions++;
        }
        int32_t label = root == (int32_t)i ? out->n_regions : out->label[runs->items[root].begin];
        struct hrf_region *region = &out->region[label - 1];
        int64_t y = run->begin / width;
        region->area += run->end - run->begin;
        region->touches_border |= y == 0 || y == height - 1 || run->begin == y * width ||
                                  run->end == (y + 1) * width;
        for (int32_t k = run->begin; k < run->end; k++)
            out->label[k] = label;
    }
    return HRF_OK;
}

enum hrf_status hrf_regions_find(const unsigned char *mask, int64_t width, int64_t height,
                                 unsigned char value, bool diagonal, struct hrf_regions *out,
                                 struct hrf_error *err)
{
    int64_t n = width * height;
    if (n > INT32_MAX)
        return hrf_error_set(err, HRF_E_UNSUPPORTED, "a mask of %lld x %lld px is too large",
                             (long long)width, (long long)height);
    HRF_AUTO_RELEASE(hrf_regions) regions = { .n_regions = 0 };
    struct runs runs = { NULL, 0, 0 };
    regions.label = hrf_calloc((size_t)n, sizeof regions.label[0]);
    enum hrf_status status = regions.label != NULL
                                 ? find_runs(mask, width, height, value, diagonal, &runs, err)
                                 : hrf_error_set(err, HRF_E_NOMEM, "no memory to label %lld px",
                                                 (long long)n);
    if (status == HRF_OK)
        status = number_runs(&runs, width, height, &regions, err);
    hrf_free(runs.items);
    HRF_TRY(status);
    *out = regions;
    regions = (struct hrf_regions){ .n_regions = 0 };
    return HRF_OK;
}
