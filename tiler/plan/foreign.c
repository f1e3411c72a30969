/* foreign.c - takes over the patches of another program. */
#include "tiler/plan/foreign.h"

#include "tiler/coords/coords.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The size of another program's patches may differ from the plan's by this fraction: programs round
 * it, or take the resolution to be a little different. */
static const double size_slack = 0.01;

static int by_place(const void *a, const void *b)
{
    const struct hrf_patch *p = a, *q = b;
    if (p->x != q->x)
        return p->x < q->x ? -1 : 1;
    return (p->y > q->y) - (p->y < q->y);
}

static enum hrf_status check_side(const char *path, const struct hrf_coords *coords,
                                  const struct hrf_tile_plan *plan, struct hrf_error *err)
{
    const double side = (double)coords->side0, wanted = (double)plan->patch_width0;
    const double mpp = (plan->mpp_x + plan->mpp_y) / 2;
    if (coords->side0 == 0 || fabs(side - wanted) <= fmax(1, size_slack * wanted))
        return HRF_OK;
    return hrf_error_set(err, HRF_E_USER,
                         "'%s' (form %s) has patches of %lld level-0 px, and tiler.patch, %lld px "
                         "at %g um/px, is %lld px of this slide: set {tiler.patch.mpp} to %.4g for "
                         "patches of that size",
                         path, coords->form, (long long)coords->side0, (long long)plan->patch_size,
                         plan->patch_mpp, (long long)plan->patch_width0,
                         side * mpp / (double)plan->patch_size);
}

static bool share_a_cell(const struct hrf_tile_plan *plan, struct hrf_grid_cell *cells)
{
    for (int64_t i = 0; i < plan->n_patches; i++)
        cells[i] = (struct hrf_grid_cell){ llround((double)plan->patches[i].x / plan->stride_x0),
                                           llround((double)plan->patches[i].y / plan->stride_y0) };
    qsort(cells, (size_t)plan->n_patches, sizeof *cells, hrf_compare_grid_cells);
    for (int64_t i = 1; i < plan->n_patches; i++)
        if (hrf_compare_grid_cells(&cells[i - 1], &cells[i]) == 0)
            return true;
    return false;
}

/* Neighbours and heat maps need a grid with one patch to a cell. Patches that lie on no common grid
 * (CLAM begins one at each contour) get a finer one. */
static void choose_grid(struct hrf_tile_plan *plan)
{
    HRF_AUTO_FREE struct hrf_grid_cell *cells = hrf_alloc_array((size_t)plan->n_patches + 1,
                                                                sizeof *cells);
    while (plan->stride_x0 > 1 && share_a_cell(plan, cells)) {
        plan->stride_x0 = fmax(plan->stride_x0 / 2, 1);
        plan->stride_y0 = fmax(plan->stride_y0 / 2, 1);
    }
    plan->grid_columns = (int32_t)((double)plan->width / plan->stride_x0) + 1;
    plan->grid_rows = (int32_t)((double)plan->height / plan->stride_y0) + 1;
}

/* Sorts the patches into the order of plans. A patch that the file has twice is kept once. */
static void sort_patches(struct hrf_tile_plan *plan, const char *path)
{
    int64_t kept = 0;
    const int64_t n = plan->n_patches;
    qsort(plan->patches, (size_t)n, sizeof *plan->patches, by_place);
    for (int64_t i = 0; i < n; i++)
        if (i == 0 || by_place(&plan->patches[i], &plan->patches[i - 1]) != 0)
            plan->patches[kept++] = plan->patches[i];
    plan->n_patches = kept;
    if (kept == n)
        return;
    hrf_free(plan->warning);
    plan->warning = hrf_format("%lld patches stand twice in '%s' and are taken once",
                               (long long)(n - kept), path);
}

static void cover(const struct hrf_tile_plan *plan, unsigned char *mask, int64_t width,
                  int64_t height)
{
    const double scale_x = (double)width / (double)plan->width;
    const double scale_y = (double)height / (double)plan->height;
    memset(mask, 0, (size_t)(width * height));
    for (int64_t i = 0; i < plan->n_patches; i++) {
        const struct hrf_patch *p = &plan->patches[i];
        const double x1 = fmin((double)(p->x + plan->patch_width0) * scale_x, (double)width);
        const double y1 = fmin((double)(p->y + plan->patch_height0) * scale_y, (double)height);
        for (int64_t y = (int64_t)(p->y * scale_y); (double)y < y1; y++)
            for (int64_t x = (int64_t)(p->x * scale_x); (double)x < x1; x++)
                mask[y * width + x] = 255;
    }
}

enum hrf_status hrf_foreign_patches(const char *path, const struct hrf_slide_info *slide,
                                    struct hrf_tile_plan *plan, unsigned char *mask, int64_t width,
                                    int64_t height, struct hrf_error *err)
{
    HRF_AUTO(hrf_coords) coords = NULL;
    HRF_TRY(hrf_coords_read(path, slide, plan->mpp_x, plan->mpp_y, &coords, err));
    HRF_TRY(check_side(path, coords, plan, err));
    hrf_free(plan->tissue_method);
    plan->tissue_method = hrf_format("coords of %s", coords->form);
    hrf_free(plan->patches);
    plan->patches = coords->patches;
    plan->n_patches = coords->n_patches;
    coords->patches = NULL;
    sort_patches(plan, path);
    choose_grid(plan);
    cover(plan, mask, width, height);
    return HRF_OK;
}
