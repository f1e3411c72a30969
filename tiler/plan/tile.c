/* tile.c - makes the tile plan of one slide: resolution, overview, tissue, patches. */
#include "tiler/plan/tile.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/message.h"
#include "image/downsample.h"
#include "image/png_write.h"
#include "tiler/coords/coords.h"
#include "tiler/grid/grid.h"
#include "tiler/plan/drop.h"
#include "tiler/plan/foreign.h"
#include "tiler/plan/level_survey.h"
#include "tiler/plan/network_tissue.h"
#include "tiler/plan/overview.h"
#include "tiler/plan/verify.h"
#include "tiler/tissue/tissue.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { THUMBNAIL_SIDE = 1024 };
/* The overview for the method `otsu` may use a level whose size differs by up to this factor. */
static const double overview_slack = 1.3;
/* um/px: the overview of a network of finer images is not finer than it needs to be for pictures
 * and for the search for pen, folds and bubbles. */
static const double overview_mpp = 8;
/* Pixels that are finer by less than this are taken as they are (as in patch_reader.h). */
static const double finest_slack = 0.98;

struct tiling {
    struct hrf_slide *slide;
    const struct hrf_workflow_tiler *params;
    const struct hrf_tissue_network *network; /* NULL: the method needs none */
    struct hrf_overview overview;
    float *probability; /* [height][width] of the overview: the network's; NULL: it was not asked */
    unsigned char *mask;
    bool is_frame; /* in mode slide: the only patch, which is the whole frame */
    struct hrf_grid grid;
    struct hrf_tile_plan *plan;
};

static void copy_text(const char *text, char **out)
{
    *out = hrf_strdup(text);
}

static enum hrf_status cover_edge(struct tiling *t, struct hrf_error *err)
{
    const enum hrf_edge edge = t->params->patch.edge;
    if (t->is_frame) { /* there is one frame, or none */
        t->grid.columns = t->grid.rows = 1;
        return HRF_OK;
    }
    if (edge != HRF_EDGE_DROP)
        copy_text(hrf_edge_name(edge), &t->plan->edge);
    return hrf_grid_cover_edge(&t->grid, edge, err);
}

static enum hrf_status tile_describe(struct tiling *t, const char *path, double csv_mpp,
                                     double workflow_mpp, struct hrf_error *err)
{
    struct hrf_tile_plan *plan = t->plan;
    const struct hrf_slide_info *info = hrf_slide_info(t->slide);
    enum hrf_mpp_source source;
    HRF_TRY(hrf_slide_resolution(t->slide, csv_mpp, workflow_mpp, &plan->mpp_x, &plan->mpp_y,
                                 &source, err));
    copy_text(path, &plan->slide_path);
    copy_text(info->vendor, &plan->vendor);
    copy_text(hrf_mpp_source_name(source), &plan->mpp_source);
    copy_text(hrf_tissue_method_name(t->params->tissue.method), &plan->tissue_method);
    plan->width = info->width;
    plan->height = info->height;
    plan->n_levels = info->n_levels;
    const struct hrf_tile_region region = hrf_tiler_region(t->params);
    plan->patch_size = region.size;
    plan->patch_mpp = region.mpp;
    plan->patch_stride = region.stride;
    HRF_TRY(hrf_grid_make(info->width, info->height, plan->mpp_x, plan->mpp_y, plan->patch_size,
                          plan->patch_mpp, plan->patch_stride, &t->grid, err));
    HRF_TRY(cover_edge(t, err));
    plan->patch_width0 = t->grid.patch_width;
    plan->patch_height0 = t->grid.patch_height;
    plan->stride_x0 = t->grid.stride_x;
    plan->stride_y0 = t->grid.stride_y;
    plan->grid_columns = t->grid.columns;
    plan->grid_rows = t->grid.rows;
    HRF_AUTO(hrf_patch_reader) reader = NULL;
    HRF_TRY(hrf_patch_reader_create(t->slide, plan->mpp_x, plan->mpp_y, plan->patch_size,
                                    plan->patch_mpp, &reader, err));
    plan->read_level = hrf_patch_reader_level(reader);
    plan->read_downsample = info->level[plan->read_level].downsample;
    return HRF_OK;
}

static enum hrf_status keep_patches(struct tiling *t, double min_tissue, struct hrf_error *err)
{
    struct hrf_tile_plan *plan = t->plan;
    struct hrf_mask_sums sums;
    size_t capacity = 0;
    hrf_free(plan->patches);
    plan->patches = NULL;
    plan->n_patches = 0;
    HRF_TRY(hrf_mask_sums_make(t->mask, t->overview.width, t->overview.height, &sums, err));
    for (int32_t i = 0; i < t->grid.columns; i++) {
        int64_t x = hrf_grid_x(&t->grid, i);
        for (int32_t j = 0; j < t->grid.rows; j++) {
            int64_t y = hrf_grid_y(&t->grid, j);
            if (!hrf_grid_keeps(&t->grid, &sums, x, y, min_tissue))
                continue;
            HRF_RESERVE(plan->patches, capacity, (size_t)plan->n_patches + 1);
            plan->patches[plan->n_patches++] = (struct hrf_patch){ .x = (int32_t)x,
                                                                   .y = (int32_t)y };
        }
    }
    hrf_mask_sums_release(&sums);
    return HRF_OK;
}

struct box {
    int64_t x0, x1, y0, y1; /* px of the overview, [x0, x1) */
};

/* The bounding box of the mask's tissue; empty (x0 >= x1) without tissue. */
static struct box mask_box(const struct tiling *t)
{
    int64_t width = t->overview.width, height = t->overview.height;
    struct box box = { .x0 = width, .y0 = height };
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            if (t->mask[y * width + x] != 0) {
                box.x0 = x < box.x0 ? x : box.x0;
                box.x1 = x + 1 > box.x1 ? x + 1 : box.x1;
                box.y0 = y < box.y0 ? y : box.y0;
                box.y1 = y + 1;
            }
    return box;
}

/* Where a frame of length `frame` begins on a side of length `side`, in level-0 px. If the side
 * fits, it is centred in the frame; else the frame is centred on the tissue [begin, end) as far as
 * the slide's edges allow. */
static int64_t place_frame(int64_t side, int64_t frame, double begin, double end)
{
    if (side <= frame)
        return -((frame - side) / 2);
    int64_t at = llround((begin + end - (double)frame) / 2);
    at = at > 0 ? at : 0;
    return at < side - frame ? at : side - frame;
}

/* The fraction of the mask's tissue that lies inside the frame. */
static double tissue_in_frame(const struct tiling *t, const struct hrf_patch *at, double scale_x,
                              double scale_y)
{
    int64_t inside = 0, all = 0;
    for (int64_t y = 0; y < t->overview.height; y++)
        for (int64_t x = 0; x < t->overview.width; x++) {
            double u = ((double)x + 0.5) * scale_x - at->x, v = ((double)y + 0.5) * scale_y - at->y;
            bool is_tissue = t->mask[y * t->overview.width + x] != 0;
            all += is_tissue;
            inside += is_tissue && u >= 0 && u < (double)t->plan->patch_width0 && v >= 0 &&
                      v < (double)t->plan->patch_height0;
        }
    return (double)inside / (double)all;
}

/* The frame in which the whole slide is scored as one patch. A warning names the tissue that does
 * not fit. */
static void keep_frame(struct tiling *t)
{
    struct hrf_tile_plan *plan = t->plan;
    const struct box box = mask_box(t);
    double scale_x = (double)plan->width / (double)t->overview.width;
    double scale_y = (double)plan->height / (double)t->overview.height;
    hrf_free(plan->patches);
    plan->patches = NULL;
    plan->n_patches = 0;
    if (box.x0 >= box.x1)
        return;
    plan->patches = hrf_alloc(sizeof plan->patches[0]);
    struct hrf_patch at = {
        .x = (int32_t)place_frame(plan->width, plan->patch_width0, (double)box.x0 * scale_x,
                                  (double)box.x1 * scale_x),
        .y = (int32_t)place_frame(plan->height, plan->patch_height0, (double)box.y0 * scale_y,
                                  (double)box.y1 * scale_y)
    };
    plan->patches[0] = at;
    plan->n_patches = 1;
    double inside = tissue_in_frame(t, &at, scale_x, scale_y);
    if (inside >= 1)
        return;
    hrf_free(plan->warning);
    plan->warning = hrf_message_format(
        "the frame of %lld px at %g um/px holds %.1f %% of the tissue; take a "
        "larger {tiler.slide.size} or a coarser {tiler.slide.mpp}",
        (long long)plan->patch_size, plan->patch_mpp, 100 * inside);
}

static struct hrf_tissue_image overview_image(const struct tiling *t)
{
    const struct hrf_tile_plan *plan = t->plan;
    return (struct hrf_tissue_image){
        .rgb = t->overview.rgb,
        .width = t->overview.width,
        .height = t->overview.height,
        .mpp_x = plan->mpp_x * (double)plan->width / (double)t->overview.width,
        .mpp_y = plan->mpp_y * (double)plan->height / (double)t->overview.height,
        .level0_mpp = (plan->mpp_x + plan->mpp_y) / 2,
    };
}

/* Makes the mask: tissue is where the network's probability reaches the threshold. */
static void apply_threshold(struct tiling *t, bool relaxed, struct hrf_tissue_result *out)
{
    const int64_t n = t->overview.width * t->overview.height;
    const double threshold = t->params->tissue.threshold / (relaxed ? 2 : 1);
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        const bool is_tissue = (double)t->probability[i] >= threshold;
        t->mask[i] = is_tissue ? 255 : 0;
        count += is_tissue;
    }
    *out = (struct hrf_tissue_result){ threshold, (double)count / (double)n };
}

static enum hrf_status find_tissue(struct tiling *t, bool relaxed, struct hrf_error *err)
{
    struct hrf_tile_plan *plan = t->plan;
    const struct hrf_tissue_image image = overview_image(t);
    struct hrf_tissue_result result;
    if (t->probability != NULL)
        apply_threshold(t, relaxed, &result);
    else
        HRF_TRY(hrf_tissue_detect(&image, plan->tissue_method, relaxed, t->mask, &result, err));
    plan->tissue_fraction = result.fraction;
    plan->tissue_threshold = result.threshold;
    if (t->is_frame) {
        keep_frame(t);
        return HRF_OK;
    }
    return keep_patches(
        t, relaxed ? t->params->tissue.min_tissue / 2 : t->params->tissue.min_tissue, err);
}

static void tile_warn(struct tiling *t, int64_t strict)
{
    struct hrf_tile_plan *plan = t->plan;
    int64_t minimum = t->params->tissue.min_patches;
    if (t->grid.columns == 0 || t->grid.rows == 0)
        plan->warning = hrf_message_format(
            "the slide is %lld x %lld px, smaller than one patch of "
            "%lld x %lld px ({tiler.patch.edge=pad} scores it all the same)",
            (long long)plan->width, (long long)plan->height, (long long)plan->patch_width0,
            (long long)plan->patch_height0);
    else if (plan->n_patches > strict)
        plan->warning = hrf_format("faint: only %lld patches of tissue (minimum %lld), %lld with "
                                   "the relaxed threshold, which is used",
                                   (long long)strict, (long long)minimum,
                                   (long long)plan->n_patches);
    else if (plan->n_patches > 0)
        plan->warning = hrf_format("only %lld patches of tissue (minimum %lld)",
                                   (long long)plan->n_patches, (long long)minimum);
    else
        return;
}

static enum hrf_status make_pictures(struct tiling *t, struct hrf_error *err)
{
    int64_t w = t->overview.width, h = t->overview.height, longest = w > h ? w : h;
    int64_t width = w, height = h;
    if (longest > THUMBNAIL_SIDE) {
        width = w * THUMBNAIL_SIDE / longest;
        height = h * THUMBNAIL_SIDE / longest;
        width = width > 0 ? width : 1;
        height = height > 0 ? height : 1;
    }
    HRF_AUTO_FREE unsigned char *rgb = hrf_try_alloc_array((size_t)(width * height), 3);
    HRF_AUTO_FREE unsigned char *gray = hrf_try_alloc((size_t)(width * height));
    HRF_CHECK_MEMORY(rgb != NULL && gray != NULL, err, "no memory for a thumbnail");
    HRF_TRY(hrf_downsample(t->overview.rgb, w, h, 3, width, height, rgb, err));
    HRF_TRY(hrf_downsample(t->mask, w, h, 1, width, height, gray, err));
    for (int64_t i = 0; i < width * height; i++)
        gray[i] = gray[i] >= 128 ? 255 : 0;
    t->plan->thumbnail_downsample = (double)t->plan->width / (double)width;
    struct hrf_bytes *thumbnail = &t->plan->thumbnail_png, *mask = &t->plan->mask_png;
    HRF_TRY(hrf_png_write(rgb, width, height, 3, HRF_PNG_PHOTO, &thumbnail->data,
                          &thumbnail->n_bytes, err));
    return hrf_png_write(gray, width, height, 1, HRF_PNG_FLAT, &mask->data, &mask->n_bytes, err);
}

/* Fills the overview and t->probability. `mpp`: of the slide. */
static enum hrf_status ask_network(struct tiling *t, double mpp, struct hrf_error *err)
{
    const double wanted = t->params->tissue.mpp;
    if (t->network == NULL || t->params->coords != NULL)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "the tissue method 'onnx' needs a network and no {tiler.coords}");
    if (wanted < mpp * finest_slack)
        return hrf_error_set(err, HRF_E_USER,
                             "{tiler.tissue.mpp} %g is finer than the slide's %g um/px: take a "
                             "network for coarser images",
                             wanted, mpp);
    return hrf_network_tissue_find(t->slide, fmax(1, wanted / mpp), overview_mpp / mpp, t->network,
                                   &t->overview, &t->probability, err);
}

static enum hrf_status read_overview(struct tiling *t, struct hrf_error *err)
{
    const struct hrf_tile_plan *plan = t->plan;
    double mpp = sqrt(plan->mpp_x * plan->mpp_y), reduction;
    const bool by_network = t->params->tissue.method == HRF_TISSUE_ONNX;
    if (by_network) {
        HRF_TRY(ask_network(t, mpp, err));
    } else {
        HRF_TRY(hrf_tissue_reduction(plan->tissue_method, plan->width, plan->height, mpp,
                                     &reduction, err));
        if (t->params->tissue.method == HRF_TISSUE_OTSU)
            reduction = hrf_overview_snap(hrf_slide_info(t->slide), reduction, overview_slack);
        HRF_TRY(hrf_overview_read(t->slide, reduction, &t->overview, err));
    }
    t->mask = hrf_try_alloc((size_t)(t->overview.width * t->overview.height));
    return t->mask != NULL ? HRF_OK
                           : hrf_error_set(err, HRF_E_NOMEM, "no memory for a tissue mask");
}

/* If the method finds too little tissue, it is run again with a relaxed threshold. What that finds
 * is used with a warning, so that no faint slide is dropped silently. */
static enum hrf_status choose_patches(struct tiling *t, struct hrf_error *err)
{
    HRF_TRY(find_tissue(t, false, err));
    int64_t strict = t->plan->n_patches;
    if (t->is_frame) /* there is one frame, or none */
        return strict > 0 ? HRF_OK : find_tissue(t, true, err);
    if (strict >= t->params->tissue.min_patches)
        return HRF_OK;
    HRF_TRY(find_tissue(t, true, err));
    if (t->plan->n_patches <=
        strict) /* the relaxed threshold found no more: the first result stays */
        HRF_TRY(find_tissue(t, false, err));
    tile_warn(t, strict);
    return HRF_OK;
}

/* The tissue of the mask, as a fraction of the slide. */
static double mask_fraction(const struct tiling *t)
{
    const int64_t n = t->overview.width * t->overview.height;
    int64_t inside = 0;
    for (int64_t i = 0; i < n; i++)
        inside += t->mask[i] != 0;
    return (double)inside / (double)n;
}

static enum hrf_status choose_outlined(struct tiling *t, const char *path, struct hrf_error *err)
{
    struct hrf_tile_plan *plan = t->plan;
    HRF_AUTO_FREE char *others = NULL;
    HRF_TRY(hrf_coords_draw_tissue(path, plan->width, plan->height, &t->params->tissue.classes,
                                   t->mask, t->overview.width, t->overview.height, &others, err));
    hrf_free(plan->tissue_method);
    plan->tissue_method = NULL;
    copy_text("outlines of geojson", &plan->tissue_method);
    if (t->is_frame)
        keep_frame(t);
    else
        HRF_TRY(keep_patches(t, t->params->tissue.min_tissue, err));
    if (!t->is_frame && plan->n_patches < t->params->tissue.min_patches)
        tile_warn(t, plan->n_patches);
    if (others == NULL)
        return HRF_OK;
    HRF_AUTO_FREE char *text = hrf_format("outlines that are not taken as tissue: %s", others);
    hrf_plan_warn(plan, text);
    return HRF_OK;
}

/* Takes the patches, or the tissue, that another program chose (tiler.coords). */
static enum hrf_status take_patches(struct tiling *t, const char *slide_path, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = NULL;
    HRF_TRY(hrf_coords_find(t->params->coords, slide_path, &path, err));
    if (hrf_coords_is_geojson(path))
        HRF_TRY(choose_outlined(t, path, err));
    else
        HRF_TRY(hrf_foreign_patches(path, hrf_slide_info(t->slide), t->plan, t->mask,
                                    t->overview.width, t->overview.height, err));
    t->plan->tissue_fraction = mask_fraction(t);
    return HRF_OK;
}

/* Warns if the resolution is a guess or is doubtful. */
static void warn_of_resolution(const struct tiling *t)
{
    const struct hrf_tile_plan *plan = t->plan;
    const double finest = plan->mpp_x < plan->mpp_y ? plan->mpp_x : plan->mpp_y;
    char text[160];
    if (strcmp(plan->mpp_source, hrf_mpp_source_name(HRF_MPP_OBJECTIVE)) == 0) {
        HRF_AUTO_FREE char *guessed = hrf_message_format(
            "%g um/px is guessed from the objective's power, which may be wrong by a factor of 2; "
            "{dataset.mpp} or a csv can say it",
            plan->mpp_x);
        hrf_plan_warn(t->plan, guessed);
    }
    if (plan->patch_mpp >= finest * finest_slack)
        return;
    snprintf(text, sizeof text,
             "patches of %g um/px are finer than the slide (%g um/px): pixels are made up",
             plan->patch_mpp, finest);
    hrf_plan_warn(t->plan, text);
}

static enum hrf_status tile(struct tiling *t, const char *path, double csv_mpp, double workflow_mpp,
                            struct hrf_error *err)
{
    HRF_TRY(tile_describe(t, path, csv_mpp, workflow_mpp, err));
    HRF_TRY(read_overview(t, err));
    HRF_TRY(t->params->coords != NULL ? take_patches(t, path, err) : choose_patches(t, err));
    warn_of_resolution(t);
    if (!t->overview.met_white) /* else the levels differ there */
        HRF_TRY(hrf_slide_check_levels(t->slide, t->plan, &t->overview, t->mask, err));
    const struct hrf_tissue_image image = overview_image(t);
    if (!t->is_frame)
        HRF_TRY(hrf_plan_drop(t->slide, &t->params->quality, &image, t->mask, t->plan, err));
    if (t->params->on_bad_tile == HRF_BAD_TILE_IS_WHITE)
        HRF_TRY(hrf_verify_patches(t->slide, t->overview.met_white, t->plan, err));
    HRF_TRY(make_pictures(t, err));
    return hrf_tile_plan_seal(t->plan, err);
}

enum hrf_status hrf_tile_slide(const char *path, const struct hrf_workflow_tiler *params,
                               double csv_mpp, double workflow_mpp,
                               const struct hrf_tissue_network *network, struct hrf_tile_plan **out,
                               struct hrf_error *err)
{
    const bool is_frame = params->mode == HRF_TILER_SLIDE;
    double start = hrf_clock_seconds();
    HRF_AUTO(hrf_slide) slide = NULL;
    HRF_AUTO(hrf_tile_plan) plan = hrf_calloc(1, sizeof *plan);
    HRF_TRY(hrf_slide_open(path, &slide, err));
    if (params->on_bad_tile == HRF_BAD_TILE_IS_WHITE)
        hrf_slide_set_bad_tiles(slide, HRF_BAD_TILES_ARE_WHITE);
    struct tiling t = {
        .slide = slide, .params = params, .network = network, .is_frame = is_frame, .plan = plan
    };
    enum hrf_status status = tile(&t, path, csv_mpp, workflow_mpp, err);
    hrf_overview_release(&t.overview);
    hrf_free(t.mask);
    hrf_free(t.probability);
    HRF_TRY(status);
    plan->seconds = hrf_clock_seconds() - start;
    HRF_MOVE(*out, plan);
    return HRF_OK;
}
