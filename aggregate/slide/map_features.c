/* map_features.c - regions of a heat map above a threshold, and what they measure. */
#include "aggregate/slide/map_features.h"

#include "aggregate/camelyon16/components.h"

#include <math.h>
#include <stdlib.h>

const char *const hrf_map_feature_names[HRF_MAP_FEATURES] = {
    "ratio_cancer_tissue50",
    "ratio_cancer_tissue60",
    "ratio_cancer_tissue70",
    "ratio_cancer_tissue80",
    "ratio_cancer_tissue90",
    "ratio_sum_tissue50",
    "ratio_sum_tissue60",
    "ratio_sum_tissue70",
    "ratio_sum_tissue80",
    "ratio_sum_tissue90",
    "largest_area",
    "eccentricity_largest",
    "extend_largest",
    "area_bbox_largest",
    "major_axis_length_largest",
    "maxprob_largest",
    "minprob_largest",
    "aveprob_largest",
    "aspect_ratio_bbox_largest",
    "solidity_largest",
    "second_largest_area",
    "eccentricity_second_largest",
    "extend_second_largest",
    "area_bbox_second_largest",
    "major_axis_length_second_largest",
    "maxprob_second_largest",
    "minprob_second_largest",
    "aveprob_second_largest",
    "aspect_ratio_bbox_second_largest",
    "solidity_second_largest",
};

/* ---- the convex hull, as skimage.morphology.convex_hull_image ---- */

/* Twice a coordinate of a pixel, so that the middles of its edges are whole numbers. */
struct corner {
    int64_t x, y;
};

static int by_x_then_y(const void *a, const void *b)
{
    const struct corner *p = a, *q = b;
    if (p->x != q->x)
        return p->x < q->x ? -1 : 1;
    return (p->y > q->y) - (p->y < q->y);
}

static int64_t turn(struct corner a, struct corner b, struct corner c)
{
    return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
}

/* Andrew's monotone chain; hull: room for 2 * n. Returns the number of its corners, in order. */
static size_t make_hull(struct corner *points, size_t n, struct corner *hull)
{
    size_t k = 0;
    qsort(points, n, sizeof *points, by_x_then_y);
    for (size_t i = 0; i < n; i++) {
        while (k >= 2 && turn(hull[k - 2], hull[k - 1], points[i]) <= 0)
            k--;
        hull[k++] = points[i];
    }
    const size_t lower = k + 1;
    for (size_t i = n - 1; i-- > 0;) {
        while (k >= lower && turn(hull[k - 2], hull[k - 1], points[i]) <= 0)
            k--;
        hull[k++] = points[i];
    }
    return k - 1;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    const int64_t q = a / b;
    return q * b == a || (a < 0) == (b < 0) ? q : q - 1;
}

/* Pixels of one row inside the hull or on its edge; y: twice the row. */
static int64_t count_row(const struct corner *hull, size_t n, int64_t y)
{
    int64_t first = INT64_MAX, last = INT64_MIN; /* columns */
    for (size_t i = 0; i < n; i++) {
        struct corner a = hull[i], b = hull[(i + 1) % n];
        if (a.y > b.y) {
            const struct corner c = a;
            a = b;
            b = c;
        }
        if (y < a.y || y > b.y)
            continue;
        /* x = a.x + (y - a.y) (b.x - a.x) / (b.y - a.y), twice the column: rounded both ways. */
        const int64_t height = b.y - a.y;
        const int64_t top = height > 0 ? a.x * height + (y - a.y) * (b.x - a.x) : a.x;
        const int64_t bottom = 2 * (height > 0 ? height : 1);
        const int64_t high = floor_div(top, bottom), low = -floor_div(-top, bottom);
        first = low < first ? low : first;
        last = high > last ? high : last;
        if (height == 0) {
            const int64_t other = floor_div(b.x, 2);
            last = other > last ? other : last;
            first = -floor_div(-b.x, 2) < first ? -floor_div(-b.x, 2) : first;
        }
    }
    return last >= first ? last - first + 1 : 0;
}

/* The pixels of a region's hull, made of the middles of the edges of its pixels. */
static int64_t hull_area(const struct hrf_components *c, int32_t label)
{
    size_t n = 0;
    for (size_t i = 0; i < c->runs.n; i++)
        n += c->runs.items[i].label == label ? 6 : 0;
    HRF_AUTO_FREE struct corner *points = hrf_alloc_array(n, sizeof *points);
    HRF_AUTO_FREE struct corner *hull = hrf_alloc_array(2 * n, sizeof *hull);
    n = 0;
    for (size_t i = 0; i < c->runs.n; i++) {
        const struct hrf_pixel_run *run = &c->runs.items[i];
        const int64_t y = 2 * (int64_t)run->row, x0 = 2 * (int64_t)run->begin;
        const int64_t x1 = 2 * ((int64_t)run->end - 1);
        if (run->label != label)
            continue;
        const struct corner around[] = { { x0 - 1, y }, { x0, y - 1 }, { x0, y + 1 },
                                         { x1 + 1, y }, { x1, y - 1 }, { x1, y + 1 } };
        for (size_t k = 0; k < 6; k++)
            points[n++] = around[k];
    }
    const size_t n_hull = make_hull(points, n, hull);
    const struct hrf_component *region = &c->items[label - 1];
    int64_t area = 0;
    for (int64_t row = region->row_begin; row < region->row_end; row++)
        area += count_row(hull, n_hull, 2 * row);
    return area;
}

/* ---- features ---- */

/* The sums in order of rows, in double, as NumPy's differ in the last digits only. */
static size_t count_above(const double *map, size_t n, double threshold, double *excess)
{
    size_t above = 0;
    *excess = 0.0;
    for (size_t i = 0; i < n; i++)
        if (map[i] > threshold) {
            above++;
            *excess += map[i] - threshold;
        }
    return above;
}

static void region_features(const double *map, int32_t width, const struct hrf_components *c,
                            int32_t label, double out[10])
{
    const struct hrf_component *region = &c->items[label - 1];
    const int64_t height = region->row_end - region->row_begin;
    const int64_t breadth = region->column_end - region->column_begin;
    double largest = -INFINITY, smallest = INFINITY, sum = 0.0;
    for (size_t i = 0; i < c->runs.n; i++)
        for (int32_t x = c->runs.items[i].begin;
             c->runs.items[i].label == label && x < c->runs.items[i].end; x++) {
            const double p = map[(size_t)c->runs.items[i].row * (size_t)width + (size_t)x];
            largest = fmax(largest, p);
            smallest = fmin(smallest, p);
            sum += p;
        }
    const double area = (double)region->area;
    out[0] = area;
    out[1] = region->eccentricity;
    out[2] = area / (double)(height * breadth);
    out[3] = (double)(height * breadth);
    out[4] = region->major_axis;
    out[5] = largest;
    out[6] = smallest;
    out[7] = sum / area;
    out[8] = (double)height / (double)breadth;
    out[9] = area / (double)hull_area(c, label);
}

/* The largest region that is smaller than `below`; of equal ones the first. 0: none. */
static int32_t largest_region(const struct hrf_components *c, int64_t below)
{
    int32_t best = 0;
    for (size_t i = 0; i < c->n_items; i++)
        if (c->items[i].area < below && (best == 0 || c->items[i].area > c->items[best - 1].area))
            best = (int32_t)i + 1;
    return best;
}

enum hrf_status hrf_map_features_compute(const double *map, int32_t width, int32_t height,
                                         double threshold, double out[HRF_MAP_FEATURES],
                                         struct hrf_error *err)
{
    static const double thresholds[] = { 0.5, 0.6, 0.7, 0.8, 0.9 };
    const size_t n = (size_t)width * (size_t)height;
    size_t tissue = 0;
    double features[HRF_MAP_FEATURES] = { 0.0 };
    HRF_AUTO(hrf_components) regions = NULL;
    HRF_AUTO_FREE unsigned char *above = hrf_try_calloc(n + 1, 1);
    HRF_CHECK_MEMORY(above != NULL, err, "no memory for a heat map of %zu patches", n);
    for (size_t i = 0; i < n; i++) {
        tissue += isnan(map[i]) ? 0 : 1;
        above[i] = map[i] > threshold;
    }
    if (tissue == 0)
        return hrf_error_set(err, HRF_E_USER, "a heat map without tissue has no features");
    for (size_t i = 0; i < 5; i++) {
        double excess;
        features[i] = (double)count_above(map, n, thresholds[i], &excess) / (double)tissue;
        features[5 + i] = excess / (double)tissue;
    }
    HRF_TRY(hrf_components_find(above, width, height, 1, true, &regions, err));
    const int32_t first = largest_region(regions, INT64_MAX);
    const int32_t second = first > 0 ? largest_region(regions, regions->items[first - 1].area) : 0;
    if (first > 0)
        region_features(map, width, regions, first, features + 10);
    if (second > 0)
        region_features(map, width, regions, second, features + 20);
    for (size_t i = 0; i < HRF_MAP_FEATURES; i++)
        out[i] = features[i];
    return HRF_OK;
}

enum hrf_status hrf_map_features_of_patches(const struct hrf_tile_plan *plan,
                                            const float *probabilities, size_t step,
                                            double threshold, double out[HRF_MAP_FEATURES],
                                            struct hrf_error *err)
{
    int64_t x0 = INT64_MAX, y0 = INT64_MAX, x1 = INT64_MIN, y1 = INT64_MIN;
    if (!(plan->stride_x0 >= 1.0) || !(plan->stride_y0 >= 1.0) || plan->n_patches < 1)
        return hrf_error_set(err, HRF_E_USER, "a tile plan without a grid has no heat map");
    for (int64_t i = 0; i < plan->n_patches; i++) {
        const struct hrf_grid_cell at = hrf_tile_plan_cell(plan, &plan->patches[i]);
        const int64_t x = at.column, y = at.row;
        x0 = x < x0 ? x : x0;
        x1 = x > x1 ? x : x1;
        y0 = y < y0 ? y : y0;
        y1 = y > y1 ? y : y1;
    }
    const int64_t width = x1 - x0 + 1, height = y1 - y0 + 1;
    if (width > 1 << 16 || height > 1 << 16 || width * height > 1 << 28)
        return hrf_error_set(err, HRF_E_USER, "a grid of %lld x %lld patches", (long long)width,
                             (long long)height);
    HRF_AUTO_FREE double *map = hrf_try_alloc_array((size_t)(width * height), sizeof *map);
    HRF_CHECK_MEMORY(map != NULL, err, "no memory for a heat map of %lld x %lld patches",
                     (long long)width, (long long)height);
    for (int64_t i = 0; i < width * height; i++)
        map[i] = NAN;
    for (int64_t i = 0; i < plan->n_patches; i++) {
        const struct hrf_grid_cell at = hrf_tile_plan_cell(plan, &plan->patches[i]);
        map[(at.row - y0) * width + at.column - x0] = (double)probabilities[(size_t)i * step];
    }
    return hrf_map_features_compute(map, (int32_t)width, (int32_t)height, threshold, out, err);
}
