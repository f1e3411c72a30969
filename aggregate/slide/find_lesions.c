/* find_lesions.c - patches at or above the threshold, highest first, to one detection a lesion. */
#include "aggregate/slide/find_lesions.h"

#include <math.h>
#include <stdlib.h>

/* A patch at or above the threshold. */
struct peak {
    double p;
    int64_t index, column, row; /* in the plan; on its grid */
};

static int by_height(const void *a, const void *b)
{
    const struct peak *x = a, *y = b;
    if (x->p != y->p)
        return x->p > y->p ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static size_t find_peaks(const struct hrf_tile_plan *plan, const float *probabilities, size_t step,
                         double threshold, struct peak *peaks)
{
    size_t n = 0;
    for (int64_t i = 0; i < plan->n_patches; i++) {
        const double p = (double)probabilities[(size_t)i * step];
        const struct hrf_grid_cell at = hrf_tile_plan_cell(plan, &plan->patches[i]);
        if (p >= threshold)
            peaks[n++] = (struct peak){ .p = p, .index = i, .column = at.column, .row = at.row };
    }
    qsort(peaks, n, sizeof *peaks, by_height);
    return n;
}

static struct hrf_detection detection_at(const struct hrf_tile_plan *plan, const struct peak *peak)
{
    const struct hrf_patch *patch = &plan->patches[peak->index];
    int64_t x = patch->x + plan->patch_width0 / 2, y = patch->y + plan->patch_height0 / 2;
    if (plan->edge != NULL) { /* patches may reach beyond the slide */
        x = x < plan->width ? x : plan->width - 1;
        y = y < plan->height ? y : plan->height - 1;
    }
    return (struct hrf_detection){ .confidence = peak->p, .x = x, .y = y };
}

/* The rectangle of the grid that holds all peaks. */
struct extent {
    int64_t column, row, columns, rows;
};

static struct extent extent_of(const struct peak *peaks, size_t n)
{
    struct extent e = { peaks[0].column, peaks[0].row, peaks[0].column, peaks[0].row };
    for (size_t i = 1; i < n; i++) {
        e.column = peaks[i].column < e.column ? peaks[i].column : e.column;
        e.row = peaks[i].row < e.row ? peaks[i].row : e.row;
        e.columns = peaks[i].column > e.columns ? peaks[i].column : e.columns;
        e.rows = peaks[i].row > e.rows ? peaks[i].row : e.rows;
    }
    e.columns -= e.column - 1;
    e.rows -= e.row - 1;
    return e;
}

/* The first, that is the highest, peak of every component. */
static enum hrf_status of_components(const struct hrf_tile_plan *plan, const struct peak *peaks,
                                     size_t n, struct hrf_detection *out, size_t *n_out,
                                     struct hrf_error *err)
{
    const struct extent e = extent_of(peaks, n);
    if (e.columns > 1 << 16 || e.rows > 1 << 16 || e.columns * e.rows > 1 << 28)
        return hrf_error_set(err, HRF_E_USER, "a grid of %lld x %lld patches", (long long)e.columns,
                             (long long)e.rows);
    HRF_AUTO_FREE unsigned char *pixels = hrf_try_calloc((size_t)(e.columns * e.rows), 1);
    HRF_AUTO(hrf_components) components = NULL;
    HRF_CHECK_MEMORY(pixels != NULL, err, "no memory for a grid of %lld x %lld patches",
                     (long long)e.columns, (long long)e.rows);
    for (size_t i = 0; i < n; i++)
        pixels[(peaks[i].row - e.row) * e.columns + peaks[i].column - e.column] = 1;
    HRF_TRY(hrf_components_find(pixels, (int32_t)e.columns, (int32_t)e.rows, 1, true, &components,
                                err));
    HRF_AUTO_FREE bool *seen = hrf_calloc(components->n_items + 1, sizeof *seen);
    for (size_t i = 0; i < n; i++) {
        const int32_t label = hrf_components_at(components, (int32_t)(peaks[i].row - e.row),
                                                (int32_t)(peaks[i].column - e.column));
        if (!seen[label])
            out[(*n_out)++] = detection_at(plan, &peaks[i]);
        seen[label] = true;
    }
    return HRF_OK;
}

static void by_suppression(const struct hrf_tile_plan *plan, const struct peak *peaks, size_t n,
                           double radius, struct hrf_detection *out, size_t *n_out)
{
    for (size_t i = 0; i < n; i++) {
        const struct hrf_detection d = detection_at(plan, &peaks[i]);
        bool is_near = false;
        for (size_t k = 0; k < *n_out && !is_near; k++)
            is_near = fabs((double)(d.x - out[k].x)) * plan->mpp_x < radius &&
                      fabs((double)(d.y - out[k].y)) * plan->mpp_y < radius;
        if (!is_near)
            out[(*n_out)++] = d;
    }
}

enum hrf_status hrf_lesions_of_patches(const struct hrf_tile_plan *plan, const float *probabilities,
                                       size_t step, const struct hrf_lesion_rule *rule,
                                       struct hrf_detection **out, size_t *n_out,
                                       struct hrf_error *err)
{
    if (!(plan->stride_x0 >= 1.0) || !(plan->stride_y0 >= 1.0))
        return hrf_error_set(err, HRF_E_USER, "the tile plan has a patch distance of %g x %g px",
                             plan->stride_x0, plan->stride_y0);
    HRF_AUTO_FREE struct peak *peaks = hrf_alloc_array((size_t)plan->n_patches + 1, sizeof *peaks);
    const size_t n = find_peaks(plan, probabilities, step, rule->threshold, peaks);
    HRF_AUTO_FREE struct hrf_detection *found = hrf_alloc_array(n + 1, sizeof *found);
    size_t n_found = 0;
    if (n > 0 && rule->method == HRF_LESIONS_COMPONENTS)
        HRF_TRY(of_components(plan, peaks, n, found, &n_found, err));
    else if (rule->method == HRF_LESIONS_NMS)
        by_suppression(plan, peaks, n, rule->radius, found, &n_found);
    *out = found;
    *n_out = n_found;
    found = NULL;
    return HRF_OK;
}
