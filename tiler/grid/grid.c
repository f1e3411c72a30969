/* grid.c - the grid of patches on a slide, and summed masks for the tissue under a rectangle. */
#include "tiler/grid/grid.h"

#include "base/alloc.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>

static int64_t count_steps(int64_t extent, int64_t patch, double stride)
{
    if (extent < patch)
        return 0;
    int64_t n = (int64_t)floor((double)(extent - patch) / stride) + 1;
    while (n > 0 && llround((double)(n - 1) * stride) + patch > extent)
        n--; /* rounding may place it up to half a pixel beyond the edge */
    while (llround((double)n * stride) + patch <= extent)
        n++;
    return n;
}

static int64_t at_least_one(double value)
{
    int64_t n = llround(value);
    return n > 0 ? n : 1;
}

enum hrf_status hrf_grid_make(int64_t width, int64_t height, double mpp_x, double mpp_y,
                              int64_t size, double mpp, int64_t stride, struct hrf_grid *out,
                              struct hrf_error *err)
{
    if (size < 1 || stride < 1 || !(mpp > 0) || !(mpp_x > 0) || !(mpp_y > 0))
        return hrf_error_set(err, HRF_E_USER,
                             "patches of %lld px at %g um/px every %lld px on a slide of %g x %g "
                             "um/px: all must be above 0",
                             (long long)size, mpp, (long long)stride, mpp_x, mpp_y);
    const double finest = mpp_x < mpp_y ? mpp_x : mpp_y;
    const double longest = (double)(size > stride ? size : stride) * mpp / finest;
    if (!(longest < INT32_MAX)) /* also infinite, NaN */
        return hrf_error_set(err, HRF_E_USER,
                             "patches of %lld px at %g um/px every %lld px are %g px of the slide "
                             "(%g x %g um/px); 2^31 are the most",
                             (long long)size, mpp, (long long)stride, longest, mpp_x, mpp_y);
    struct hrf_grid grid = { .width = width, .height = height };
    grid.patch_width = at_least_one((double)size * mpp / mpp_x);
    grid.patch_height = at_least_one((double)size * mpp / mpp_y);
    grid.stride_x = (double)stride * mpp / mpp_x;
    grid.stride_y = (double)stride * mpp / mpp_y;
    if (grid.stride_x < 1 || grid.stride_y < 1)
        return hrf_error_set(err, HRF_E_USER,
                             "a stride of %lld px at %g um/px is under one pixel of the slide "
                             "(%g x %g um/px); use a larger stride or a coarser mpp",
                             (long long)stride, mpp, mpp_x, mpp_y);
    int64_t columns = count_steps(width, grid.patch_width, grid.stride_x);
    int64_t rows = count_steps(height, grid.patch_height, grid.stride_y);
    if (columns > 0 && rows > INT32_MAX / columns)
        return hrf_error_set(err, HRF_E_USER,
                             "a grid of %lld x %lld patches is more than 2^31; use a larger "
                             "stride or a coarser mpp",
                             (long long)columns, (long long)rows);
    grid.columns = (int32_t)columns;
    grid.rows = (int32_t)rows;
    *out = grid;
    return HRF_OK;
}

/* True if n steps leave a strip of the extent uncovered that one more patch would cover. */
static bool has_strip(int64_t extent, int64_t patch, double stride, int64_t n, enum hrf_edge edge)
{
    if (extent < patch)
        return edge == HRF_EDGE_PAD;
    const int64_t next = llround((double)n * stride);
    return next < extent && llround((double)(n - 1) * stride) + patch < extent;
}

enum hrf_status hrf_grid_cover_edge(struct hrf_grid *grid, enum hrf_edge edge,
                                    struct hrf_error *err)
{
    if (edge == HRF_EDGE_DROP)
        return HRF_OK;
    const int64_t columns = grid->columns + has_strip(grid->width, grid->patch_width,
                                                      grid->stride_x, grid->columns, edge);
    const int64_t rows = grid->rows + has_strip(grid->height, grid->patch_height, grid->stride_y,
                                                grid->rows, edge);
    if (columns > 0 && rows > INT32_MAX / columns)
        return hrf_error_set(err, HRF_E_USER,
                             "a grid of %lld x %lld patches is more than 2^31; use a larger "
                             "stride or a coarser mpp",
                             (long long)columns, (long long)rows);
    grid->columns = (int32_t)columns;
    grid->rows = (int32_t)rows;
    grid->is_shifted = edge == HRF_EDGE_SHIFT;
    return HRF_OK;
}

static int64_t position_of(const struct hrf_grid *grid, int64_t i, double stride, int64_t patch,
                           int64_t extent)
{
    const int64_t at = llround((double)i * stride);
    return grid->is_shifted && at + patch > extent ? extent - patch : at;
}

int64_t hrf_grid_x(const struct hrf_grid *grid, int32_t column)
{
    return position_of(grid, column, grid->stride_x, grid->patch_width, grid->width);
}

int64_t hrf_grid_y(const struct hrf_grid *grid, int32_t row)
{
    return position_of(grid, row, grid->stride_y, grid->patch_height, grid->height);
}

enum hrf_status hrf_mask_sums_make(const unsigned char *mask, int64_t width, int64_t height,
                                   struct hrf_mask_sums *out, struct hrf_error *err)
{
    assert(width >= 1 && height >= 1);
    int64_t pitch = width + 1;
    int64_t *sums = hrf_try_calloc((size_t)(pitch * (height + 1)), sizeof *sums);
    HRF_CHECK_MEMORY(sums != NULL, err, "no memory for the sums of a mask of %lld x %lld px",
                     (long long)width, (long long)height);
    for (int64_t y = 0; y < height; y++) {
        int64_t row = 0;
        for (int64_t x = 0; x < width; x++) {
            row += mask[y * width + x] != 0;
            sums[(y + 1) * pitch + x + 1] = sums[y * pitch + x + 1] + row;
        }
    }
    *out = (struct hrf_mask_sums){ .width = width, .height = height, .sums = sums };
    return HRF_OK;
}

void hrf_mask_sums_release(struct hrf_mask_sums *sums)
{
    hrf_free(sums->sums);
    sums->sums = NULL;
}

/* The pixel borders nearest to [a, b) of n pixels. If both round to the same border, the range
 * becomes the pixel in which its middle lies. */
static void snap_range(double a, double b, int64_t n, int64_t *low, int64_t *high)
{
    *low = llround(a * (double)n);
    *high = llround(b * (double)n);
    if (*low >= *high) {
        *low = (int64_t)floor((a + b) / 2 * (double)n);
        *high = *low + 1;
    }
    *high = *high > n ? n : *high < 1 ? 1 : *high;
    *low = *low < 0 ? 0 : *low >= *high ? *high - 1 : *low;
}

static int64_t count_tissue(const struct hrf_mask_sums *sums, int64_t left, int64_t right,
                            int64_t top, int64_t bottom)
{
    const int64_t pitch = sums->width + 1;
    return sums->sums[bottom * pitch + right] - sums->sums[top * pitch + right] -
           sums->sums[bottom * pitch + left] + sums->sums[top * pitch + left];
}

double hrf_mask_fraction(const struct hrf_mask_sums *sums, double x0, double x1, double y0,
                         double y1)
{
    int64_t left, right, top, bottom;
    snap_range(x0, x1, sums->width, &left, &right);
    snap_range(y0, y1, sums->height, &top, &bottom);
    return (double)count_tissue(sums, left, right, top, bottom) /
           (double)((right - left) * (bottom - top));
}

/* Returns the fraction of a patch's area that lies on the slide: below 1 only if it is padded. */
static double part_on_slide(const struct hrf_grid *grid, int64_t x, int64_t y)
{
    const double w = fmin((double)(grid->width - x), (double)grid->patch_width);
    const double h = fmin((double)(grid->height - y), (double)grid->patch_height);
    return w / (double)grid->patch_width * (h / (double)grid->patch_height);
}

double hrf_grid_tissue(const struct hrf_grid *grid, const struct hrf_mask_sums *sums, int64_t x,
                       int64_t y)
{
    const double w = (double)grid->width, h = (double)grid->height;
    return part_on_slide(grid, x, y) *
           hrf_mask_fraction(sums, (double)x / w, (double)(x + grid->patch_width) / w,
                             (double)y / h, (double)(y + grid->patch_height) / h);
}

/* Gets the mask's pixels [*low, *high), of n on a side, that the patch at `at` touches. */
static void touched_range(int64_t at, int64_t extent, int64_t side, int64_t n, int64_t *low,
                          int64_t *high)
{
    const int64_t end = at + extent < side ? at + extent : side;
    *low = at * n / side;
    *high = (end * n + side - 1) / side;
}

bool hrf_grid_keeps(const struct hrf_grid *grid, const struct hrf_mask_sums *sums, int64_t x,
                    int64_t y, double min)
{
    int64_t left, right, top, bottom;
    if (min > 0)
        return hrf_grid_tissue(grid, sums, x, y) >= min;
    touched_range(x, grid->patch_width, grid->width, sums->width, &left, &right);
    touched_range(y, grid->patch_height, grid->height, sums->height, &top, &bottom);
    return count_tissue(sums, left, right, top, bottom) > 0;
}
