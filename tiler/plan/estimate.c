/* estimate.c - see estimate.h. */
#include "tiler/plan/estimate.h"

#include "image/png_write.h"
#include "tiler/coords/coords.h"
#include "tiler/grid/grid.h"
#include "tiler/plan/overview.h"
#include "tiler/slide/slide.h"
#include "tiler/tissue/tissue.h"
#include "tiler/tissue/tissue_network.h"

#include <math.h>

enum { MAX_OVERVIEW = 1 << 20, MAX_READ = 1 << 25 }; /* px */

struct look {
    struct hrf_slide *slide;
    const struct hrf_workflow_tiler *params;
    double mpp_x, mpp_y;
    struct hrf_grid grid;
    struct hrf_overview overview;
    unsigned char *mask;
    bool is_frame;
};

static const char *method_of(const struct look *look)
{
    const enum hrf_tissue_method method = look->params->tissue.method;
    return hrf_tissue_method_name(method == HRF_TISSUE_ONNX ? HRF_TISSUE_OTSU : method);
}

static enum hrf_status lay_grid(struct look *look, struct hrf_error *err)
{
    const struct hrf_slide_info *info = hrf_slide_info(look->slide);
    const struct hrf_tile_region r = hrf_tiler_region(look->params);
    HRF_TRY(hrf_grid_make(info->width, info->height, look->mpp_x, look->mpp_y, r.size, r.mpp,
                          r.stride, &look->grid, err));
    return look->is_frame ? HRF_OK
                          : hrf_grid_cover_edge(&look->grid, look->params->patch.edge, err);
}

static enum hrf_status read_overview(struct look *look, struct hrf_error *err)
{
    const struct hrf_slide_info *info = hrf_slide_info(look->slide);
    const double area = (double)info->width * (double)info->height;
    double reduction;
    HRF_TRY(hrf_tissue_reduction(method_of(look), info->width, info->height,
                                 sqrt(look->mpp_x * look->mpp_y), &reduction, err));
    reduction = fmax(reduction, sqrt(area / MAX_OVERVIEW));
    const int32_t level = hrf_overview_level(info, llround((double)info->width / reduction),
                                             llround((double)info->height / reduction));
    const int64_t n_px = info->level[level].width * info->level[level].height;
    if (n_px > MAX_READ)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "the level for an overview has %lld megapixels: it is not looked at",
                             (long long)(n_px / 1000000));
    HRF_TRY(hrf_overview_read(look->slide, reduction, &look->overview, err));
    look->mask = hrf_try_alloc((size_t)(look->overview.width * look->overview.height));
    HRF_CHECK_MEMORY(look->mask != NULL, err, "no memory for a tissue mask");
    return HRF_OK;
}

static enum hrf_status count_kept(struct look *look, double min_tissue, int64_t *n,
                                  struct hrf_error *err)
{
    struct hrf_mask_sums sums;
    HRF_TRY(
        hrf_mask_sums_make(look->mask, look->overview.width, look->overview.height, &sums, err));
    *n = 0;
    for (int32_t i = 0; i < look->grid.columns; i++)
        for (int32_t j = 0; j < look->grid.rows; j++)
            *n += hrf_grid_keeps(&look->grid, &sums, hrf_grid_x(&look->grid, i),
                                 hrf_grid_y(&look->grid, j), min_tissue);
    hrf_mask_sums_release(&sums);
    return HRF_OK;
}

static enum hrf_status detect(struct look *look, bool relaxed, double min_tissue, int64_t *n,
                              struct hrf_error *err)
{
    const struct hrf_slide_info *info = hrf_slide_info(look->slide);
    const double scale_x = (double)info->width / (double)look->overview.width;
    const double scale_y = (double)info->height / (double)look->overview.height;
    const struct hrf_tissue_image image = { .rgb = look->overview.rgb,
                                            .width = look->overview.width,
                                            .height = look->overview.height,
                                            .mpp_x = look->mpp_x * scale_x,
                                            .mpp_y = look->mpp_y * scale_y,
                                            .level0_mpp = (look->mpp_x + look->mpp_y) / 2 };
    struct hrf_tissue_result result;
    HRF_TRY(hrf_tissue_detect(&image, method_of(look), relaxed, look->mask, &result, err));
    if (look->is_frame) {
        *n = result.fraction > 0;
        return HRF_OK;
    }
    return count_kept(look, min_tissue, n, err);
}

/* If there is too little tissue, looks for it again with a relaxed threshold, as hrf_tile_slide()
 * does. */
static enum hrf_status count_tissue(struct look *look, int64_t *n, struct hrf_error *err)
{
    int64_t relaxed;
    const double min_tissue = look->params->tissue.min_tissue;
    HRF_TRY(read_overview(look, err));
    HRF_TRY(detect(look, false, min_tissue, n, err));
    if (*n >= (look->is_frame ? 1 : look->params->tissue.min_patches))
        return HRF_OK;
    HRF_TRY(detect(look, true, min_tissue / 2, &relaxed, err));
    *n = relaxed > *n ? relaxed : *n;
    return HRF_OK;
}

static enum hrf_status count_outlined(struct look *look, const char *path, int64_t *n,
                                      struct hrf_error *err)
{
    HRF_TRY(read_overview(look, err));
    HRF_AUTO_FREE char *others = NULL; /* the tiling will say what it passes over */
    HRF_TRY(hrf_coords_draw_tissue(path, look->grid.width, look->grid.height,
                                   &look->params->tissue.classes, look->mask, look->overview.width,
                                   look->overview.height, &others, err));
    if (look->is_frame) {
        *n = 1;
        return HRF_OK;
    }
    return count_kept(look, look->params->tissue.min_tissue, n, err);
}

static enum hrf_status count(struct look *look, const char *slide_path, int64_t *n,
                             struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = NULL;
    HRF_AUTO(hrf_coords) coords = NULL;
    if (look->params->coords == NULL)
        return count_tissue(look, n, err);
    HRF_TRY(hrf_coords_find(look->params->coords, slide_path, &path, err));
    if (hrf_coords_is_geojson(path))
        return count_outlined(look, path, n, err);
    HRF_TRY(
        hrf_coords_read(path, hrf_slide_info(look->slide), look->mpp_x, look->mpp_y, &coords, err));
    *n = (int64_t)coords->n_patches;
    return HRF_OK;
}

/* A tile plan holds pictures of about the overview's size. */
static enum hrf_status measure_picture(const struct look *look, double *per_pixel,
                                       struct hrf_error *err)
{
    const int64_t w = look->overview.width, h = look->overview.height;
    HRF_AUTO_RELEASE(hrf_bytes) picture = { NULL, 0 }, mask = { NULL, 0 };
    enum hrf_status status = hrf_png_write(look->overview.rgb, w, h, 3, HRF_PNG_PHOTO,
                                           &picture.data, &picture.n_bytes, err);
    if (status == HRF_OK)
        status = hrf_png_write(look->mask, w, h, 1, HRF_PNG_FLAT, &mask.data, &mask.n_bytes, err);
    *per_pixel = (double)(picture.n_bytes + mask.n_bytes) / (double)(w * h);
    return status;
}

enum hrf_status hrf_tile_estimate_slide(const char *path, const struct hrf_workflow_tiler *params,
                                        double csv_mpp, double workflow_mpp,
                                        struct hrf_tile_estimate *out, struct hrf_error *err)
{
    HRF_AUTO(hrf_slide) slide = NULL;
    enum hrf_mpp_source source;
    struct hrf_tile_estimate found = { .n_patches = 0 };
    HRF_TRY(hrf_slide_open(path, &slide, err));
    struct look look = { .slide = slide,
                         .params = params,
                         .is_frame = params->mode == HRF_TILER_SLIDE };
    HRF_TRY(
        hrf_slide_resolution(slide, csv_mpp, workflow_mpp, &look.mpp_x, &look.mpp_y, &source, err));
    enum hrf_status status = lay_grid(&look, err);
    if (status == HRF_OK)
        status = count(&look, path, &found.n_patches, err);
    if (status == HRF_OK && look.overview.rgb != NULL)
        status = measure_picture(&look, &found.picture_bytes, err);
    hrf_overview_release(&look.overview);
    hrf_free(look.mask);
    HRF_TRY(status);
    found.n_cells = look.is_frame ? 1 : (int64_t)look.grid.columns * look.grid.rows;
    *out = found;
    return HRF_OK;
}
