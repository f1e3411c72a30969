/* Slides into tile plans: real ones and made ones, and the worker of a tile job. */
#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "image/downsample.h"
#include "tests/unit/real_data.h"
#include "tests/unit/settings.h"
#include "tests/unit/tiler/pyramid.h"
#include "tests/unit/unit.h"
#include "tiler/plan/estimate.h"
#include "tiler/plan/overview.h"
#include "tiler/plan/patch_pixels.h"
#include "tiler/plan/tile.h"
#include "tiler/plan/tile_job.h"

#include <math.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct hrf_workflow_tiler parameters(int64_t size, double mpp)
{
    return (struct hrf_workflow_tiler){ .patch = { .size = size, .stride = size, .mpp = mpp },
                                        .slide = { .size = size, .mpp = mpp },
                                        .tissue = { .min_tissue = 0.5, .min_patches = 4 } };
}

static struct hrf_tile_plan *tile(const char *path, const struct hrf_workflow_tiler *params,
                                  double csv)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_tile_plan *plan = NULL;
    if (hrf_tile_slide(path, params, csv, 0, NULL, &plan, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return plan;
}

/* The picture's size; its bytes must be a PNG of that many channels. */
static void png_size(const struct hrf_bytes *bytes, uint32_t format, uint32_t *width,
                     uint32_t *height)
{
    png_image png = { .version = PNG_IMAGE_VERSION };
    assert_true(png_image_begin_read_from_memory(&png, bytes->data, bytes->n_bytes));
    assert_int_equal(png.format, format);
    *width = png.width;
    *height = png.height;
    png_image_free(&png);
}

static void a_real_slide_gives_its_tissue_as_patches(void **state)
{
    (void)state;
    char path[REAL_DATA_PATH];
    uint32_t w, h, mw, mh;
    real_data("slides/cmu-1-small-region.svs", path);
    struct hrf_workflow_tiler params = parameters(256, 0.5);
    struct hrf_tile_estimate estimate;
    HRF_AUTO(hrf_tile_plan) plan = tile(path, &params, 0);
    assert_int_equal(hrf_tile_estimate_slide(path, &params, 0, 0, &estimate, NULL), HRF_OK);
    assert_int_equal(estimate.n_cells, plan->grid_columns * plan->grid_rows);
    assert_true(llabs(estimate.n_patches - plan->n_patches) <= plan->n_patches / 10);
    print_message("cmu: %d of %d x %d patches, tissue %.3f, S > %g\n", (int)plan->n_patches,
                  plan->grid_columns, plan->grid_rows, plan->tissue_fraction,
                  plan->tissue_threshold);
    assert_string_equal(plan->vendor, "aperio");
    assert_string_equal(plan->mpp_source, "file");
    assert_string_equal(plan->slide_path, path);
    assert_int_equal(plan->width, 2220);
    assert_int_equal(plan->height, 2967);
    assert_int_equal(plan->patch_width0, 257); /* 256 * 0.5 / 0.499 */
    assert_int_equal(plan->grid_columns, 8);
    assert_int_equal(plan->grid_rows, 11);
    assert_int_equal(plan->read_level, 0);
    assert_true(plan->tissue_fraction > 0.33 && plan->tissue_fraction < 0.45);
    assert_true(plan->n_patches >= 24 && plan->n_patches <= 40);
    assert_null(plan->warning);
    for (int64_t i = 1; i < plan->n_patches; i++) { /* x outer, y fastest */
        const struct hrf_patch *a = &plan->patches[i - 1], *b = &plan->patches[i];
        assert_true(a->x < b->x || (a->x == b->x && a->y < b->y));
        assert_true(b->x + 257 <= 2220 && b->y + 257 <= 2967);
    }
    png_size(&plan->thumbnail_png, PNG_FORMAT_RGB, &w, &h);
    png_size(&plan->mask_png, PNG_FORMAT_GRAY, &mw, &mh);
    assert_true(h == 1024 && w == mw && h == mh);
    assert_true(fabs(plan->thumbnail_downsample - 2220.0 / w) < 1e-9);
    assert_int_equal(strlen(plan->hash), 64);
}

static void a_slide_without_a_resolution_is_refused_unless_it_is_given(void **state)
{
    (void)state;
    char path[REAL_DATA_PATH];
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_tile_plan *none = NULL;
    struct hrf_workflow_tiler params = parameters(256, 0.5);
    real_data("slides/tcga-cr-7395-01a-01-ts1.svs", path);
    assert_int_equal(hrf_tile_slide(path, &params, 0, 0, NULL, &none, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "does not say its resolution"));
    HRF_AUTO(hrf_tile_plan) plan = tile(path, &params, 0.25);
    print_message("tcga: %d of %d x %d patches, tissue %.3f, S > %g, level %d\n",
                  (int)plan->n_patches, plan->grid_columns, plan->grid_rows, plan->tissue_fraction,
                  plan->tissue_threshold, plan->read_level);
    assert_string_equal(plan->mpp_source, "csv");
    assert_int_equal(plan->read_level, 1);
    assert_true(fabs(plan->read_downsample - 2.0005055500659967) < 1e-12);
    assert_int_equal(plan->patch_width0, 512);
    assert_true(plan->tissue_fraction > 0.55 && plan->tissue_fraction < 0.7);
}

static void what_cannot_be_tiled_says_why(void **state)
{
    (void)state;
    static const struct {
        const char *name, *word;
        enum hrf_status status;
    } cases[] = { { "broken.svs", "is not a whole-slide image", HRF_E_USER },
                  { "unopenable.tiff", "Unsupported TIFF compression", HRF_E_USER },
                  { "unreadable.svs", "is damaged: reading fails at x 0, y 0", HRF_E_USER },
                  { "no-such.svs", "does not exist", HRF_E_USER } };
    struct hrf_workflow_tiler params = parameters(8, 0.5);
    char slides[REAL_DATA_PATH], path[REAL_DATA_PATH + 64];
    real_data("slides", slides);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hrf_error err = { .status = HRF_OK };
        struct hrf_tile_plan *plan = NULL;
        snprintf(path, sizeof path, "%s/%s", slides, cases[i].name);
        assert_int_equal(hrf_tile_slide(path, &params, 0.5, 0, NULL, &plan, &err), cases[i].status);
        if (strstr(err.text, cases[i].word) == NULL)
            fail_msg("'%s' does not hold '%s'", err.text, cases[i].word);
    }
}

/* A made slide: tissue inside a rectangle given in level-0 px, glass elsewhere. */
struct scene {
    const struct pyramid *pyramid;
    double left, top, right, bottom;
    unsigned char tissue[3], glass[3];
};

static void scene_pixel(const void *context, int level, uint32_t x, uint32_t y,
                        unsigned char rgba[4])
{
    const struct scene *scene = context;
    double d = scene->pyramid->level[0].width / (double)scene->pyramid->level[level].width;
    double u = (x + 0.5) * d, v = (y + 0.5) * d;
    bool inside = u >= scene->left && u < scene->right && v >= scene->top && v < scene->bottom;
    int noise = pyramid_noise(level, x, y, 0) % 5 - 2;
    for (int c = 0; c < 3; c++)
        rgba[c] = (unsigned char)((inside ? scene->tissue[c] : scene->glass[c]) + noise);
}

/* 0.5 um/px by its tags, levels that halve. */
static struct pyramid scene_pyramid(struct scene *scene, uint32_t width, uint32_t height)
{
    struct pyramid p = { .tile = 256,
                         .big = true,
                         .jpeg = true,
                         .x_resolution = 20000,
                         .y_resolution = 20000,
                         .resolution_unit = 3, /* centimetre */
                         .pixel = scene_pixel,
                         .context = scene };
    pyramid_halve(&p, width, height, 300);
    return p;
}

static void the_hash_names_the_tiling_and_not_the_file(void **state)
{
    (void)state;
    struct scene scene = { NULL, 200, 300, 1900, 2000, { 205, 130, 185 }, { 243, 242, 244 } };
    struct pyramid p = scene_pyramid(&scene, 2048, 2304);
    char path[128], link_path[128];
    scene.pyramid = &p;
    pyramid_path(test_folder, "named.tif", path);
    pyramid_write(&p, path);
    pyramid_path(test_folder, "other name.tif", link_path);
    HRF_AUTO_FREE char *target = NULL;
    assert_int_equal(hrf_path_absolute(path, &target, NULL), HRF_OK);
    assert_int_equal(symlink(target, link_path), 0);
    struct hrf_workflow_tiler params = parameters(256, 0.5);
    HRF_AUTO(hrf_tile_plan) a = tile(path, &params, 0);
    HRF_AUTO(hrf_tile_plan) b = tile(link_path, &params, 0);
    params.patch.stride = 128;
    HRF_AUTO(hrf_tile_plan) c = tile(path, &params, 0);
    assert_string_equal(a->hash, b->hash);
    assert_string_not_equal(a->hash, c->hash);
    assert_true(c->n_patches > 3 * a->n_patches);
}

static void patches_are_those_with_tissue_under_them(void **state)
{
    (void)state;
    struct scene scene = { NULL, 512, 256, 1536, 1024, { 205, 130, 185 }, { 243, 242, 244 } };
    struct pyramid p = scene_pyramid(&scene, 2048, 1536);
    char path[128];
    scene.pyramid = &p;
    pyramid_path(test_folder, "scene.tif", path);
    pyramid_write(&p, path);
    struct hrf_workflow_tiler params = parameters(128, 1.0); /* 256 level-0 px */
    HRF_AUTO(hrf_tile_plan) plan = tile(path, &params, 0);
    assert_string_equal(plan->mpp_source, "tiff-tags");
    assert_int_equal(plan->grid_columns, 8);
    assert_int_equal(plan->grid_rows, 6);
    assert_int_equal(plan->read_level, 1);
    assert_int_equal(plan->n_patches, 4 * 3);
    struct hrf_tile_estimate estimate;
    assert_int_equal(hrf_tile_estimate_slide(path, &params, 0, 0, &estimate, NULL), HRF_OK);
    assert_true(estimate.n_patches == 12 && estimate.n_cells == 48 && estimate.picture_bytes > 0);
    params.mode = HRF_TILER_SLIDE;
    assert_int_equal(hrf_tile_estimate_slide(path, &params, 0, 0, &estimate, NULL), HRF_OK);
    assert_true(estimate.n_patches == 1 && estimate.n_cells == 1);
    for (int64_t i = 0; i < 12; i++) {
        assert_int_equal(plan->patches[i].x, 512 + i / 3 * 256);
        assert_int_equal(plan->patches[i].y, 256 + i % 3 * 256);
    }
    assert_true(fabs(plan->tissue_fraction - 0.25) < 0.01);
    assert_null(plan->warning);
}

static void a_slide_as_one_image_gets_a_frame_around_its_tissue(void **state)
{
    (void)state;
    struct scene scene = { NULL, 1024, 512, 1536, 1024, { 205, 130, 185 }, { 243, 242, 244 } };
    struct pyramid p = scene_pyramid(&scene, 2048, 1152);
    char path[128];
    scene.pyramid = &p;
    pyramid_path(test_folder, "frame.tif", path);
    pyramid_write(&p, path);
    struct hrf_workflow_tiler params = parameters(640, 1.0); /* 1280 level-0 px at 0.5 um/px */
    params.mode = HRF_TILER_SLIDE;
    params.tissue.min_patches = 16; /* does not count */
    HRF_AUTO(hrf_tile_plan) plan = tile(path, &params, 0);
    assert_int_equal(plan->n_patches, 1);
    assert_int_equal(plan->patch_width0, 1280);
    /* Across: centred on the tissue, 1280 - 640. Down: the slide in the frame's middle, with
     * (1280 - 1152) / 2 rows of white above. The overview's pixels are 8 um wide. */
    assert_true(abs(plan->patches[0].x - 640) <= 16);
    assert_int_equal(plan->patches[0].y, -64);
    assert_null(plan->warning);
    assert_int_equal(plan->grid_columns * plan->grid_rows, 1);
    /* Half of the tissue's width and height: a quarter of it fits. */
    params.slide.size = 128;
    HRF_AUTO(hrf_tile_plan) small = tile(path, &params, 0);
    assert_int_equal(small->n_patches, 1);
    assert_true(abs(small->patches[0].x - (1280 - 128)) <= 16);
    assert_true(abs(small->patches[0].y - (768 - 128)) <= 16);
    assert_non_null(strstr(small->warning, "the frame of 128 px at 1 um/px holds 2"));
    assert_string_not_equal(small->hash, plan->hash);
}

static void a_slide_without_tissue_has_no_patches_and_is_no_error(void **state)
{
    (void)state;
    struct scene scene = { NULL, 0, 0, 0, 0, { 0, 0, 0 }, { 243, 242, 244 } };
    struct pyramid p = scene_pyramid(&scene, 1024, 1024);
    char path[128];
    scene.pyramid = &p;
    pyramid_path(test_folder, "empty.tif", path);
    pyramid_write(&p, path);
    struct hrf_workflow_tiler params = parameters(128, 0.5);
    HRF_AUTO(hrf_tile_plan) plan = tile(path, &params, 0);
    assert_int_equal(plan->n_patches, 0);
    assert_true(plan->tissue_fraction == 0);
    assert_null(plan->warning);
    assert_true(plan->mask_png.n_bytes > 0);
    params.mode = HRF_TILER_SLIDE;
    HRF_AUTO(hrf_tile_plan) framed = tile(path, &params, 0);
    assert_int_equal(framed->n_patches, 0);
}

static void a_faint_slide_is_kept_with_a_warning(void **state)
{
    (void)state;
    struct scene scene = { NULL, 256, 256, 768, 768, { 238, 225, 234 }, { 243, 242, 244 } };
    struct pyramid p = scene_pyramid(&scene, 1024, 1024);
    char path[128];
    scene.pyramid = &p;
    pyramid_path(test_folder, "faint.tif", path);
    pyramid_write(&p, path);
    struct hrf_workflow_tiler params = parameters(128, 0.5);
    HRF_AUTO(hrf_tile_plan) plan = tile(path, &params, 0);
    assert_int_equal(plan->n_patches, 16);
    assert_string_equal(plan->warning, "faint: only 0 patches of tissue (minimum 4), 16 with the "
                                       "relaxed threshold, which is used");
    /* Enough of it for what was asked, and nothing to warn of. */
    params.tissue.min_patches = 0;
    HRF_AUTO(hrf_tile_plan) strict = tile(path, &params, 0);
    assert_int_equal(strict->n_patches, 0);
    assert_null(strict->warning);
}

static void a_slide_with_little_tissue_says_so(void **state)
{
    (void)state;
    struct scene scene = { NULL, 256, 256, 640, 384, { 205, 130, 185 }, { 243, 242, 244 } };
    struct pyramid p = scene_pyramid(&scene, 1024, 1024);
    char path[128];
    scene.pyramid = &p;
    pyramid_path(test_folder, "little.tif", path);
    pyramid_write(&p, path);
    struct hrf_workflow_tiler params = parameters(128, 0.5);
    HRF_AUTO(hrf_tile_plan) plan = tile(path, &params, 0);
    assert_int_equal(plan->n_patches, 3);
    assert_string_equal(plan->warning, "only 3 patches of tissue (minimum 4)");
}

static void a_slide_smaller_than_a_patch_says_so(void **state)
{
    (void)state;
    struct scene scene = { NULL, 0, 0, 300, 300, { 205, 130, 185 }, { 243, 242, 244 } };
    struct pyramid p = scene_pyramid(&scene, 300, 200);
    char path[128];
    scene.pyramid = &p;
    pyramid_path(test_folder, "small.tif", path);
    pyramid_write(&p, path);
    struct hrf_workflow_tiler params = parameters(256, 0.5);
    HRF_AUTO(hrf_tile_plan) plan = tile(path, &params, 0);
    assert_int_equal(plan->n_patches, 0);
    assert_string_equal(plan->warning,
                        "the slide is 300 x 200 px, smaller than one patch of 256 x 256 px "
                        "(tiler.patch.edge: pad scores it all the same)");
}

/* Tissue up to the corner of a slide that whole patches do not fill. */
static void the_strip_at_the_edge_is_dropped_padded_or_shifted(void **state)
{
    (void)state;
    static const struct {
        enum hrf_edge edge;
        int64_t n;
        int32_t last_x, last_y;
    } cases[] = { { HRF_EDGE_DROP, 21, 768, 256 },
                  { HRF_EDGE_PAD, 32, 896, 384 },
                  { HRF_EDGE_SHIFT, 32, 872, 372 } };
    struct scene scene = { NULL, 0, 0, 1000, 500, { 205, 130, 185 }, { 243, 242, 244 } };
    struct pyramid p = scene_pyramid(&scene, 1000, 500);
    char path[128];
    scene.pyramid = &p;
    pyramid_path(test_folder, "strip.tif", path);
    pyramid_write(&p, path);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hrf_workflow_tiler params = parameters(128, 0.5);
        params.patch.edge = cases[i].edge;
        HRF_AUTO(hrf_tile_plan) plan = tile(path, &params, 0);
        assert_int_equal(plan->n_patches, cases[i].n);
        const struct hrf_patch *last = &plan->patches[plan->n_patches - 1];
        assert_int_equal(last->x, cases[i].last_x);
        assert_int_equal(last->y, cases[i].last_y);
        for (int64_t k = 0, cell = 0; k < plan->n_patches; k++, cell++) { /* one to a cell */
            const struct hrf_grid_cell at = hrf_tile_plan_cell(plan, &plan->patches[k]);
            assert_int_equal(at.column, cell / plan->grid_rows);
            assert_int_equal(at.row, cell % plan->grid_rows);
        }
        assert_true(plan->edge == NULL ? i == 0
                                       : strcmp(plan->edge, hrf_edge_name(cases[i].edge)) == 0);
    }
}

static bool outside_scene(const void *context, int level, uint32_t column, uint32_t row)
{
    (void)context;
    uint32_t d = 1u << level, x = column * 256 * d, y = row * 256 * d;
    return !(x < 1536 && x + 256 * d > 512 && y < 1024 && y + 256 * d > 256);
}

/* Slides of scanners leave the background out; what is left must be the same plan. */
static void left_out_tiles_are_glass(void **state)
{
    (void)state;
    struct scene scene = { NULL, 512, 256, 1536, 1024, { 205, 130, 185 }, { 243, 242, 244 } };
    struct pyramid p = scene_pyramid(&scene, 2048, 1536);
    char path[128];
    scene.pyramid = &p;
    p.is_sparse = outside_scene;
    pyramid_path(test_folder, "sparse.tif", path);
    pyramid_write(&p, path);
    struct hrf_workflow_tiler params = parameters(128, 1.0);
    HRF_AUTO(hrf_tile_plan) plan = tile(path, &params, 0);
    assert_int_equal(plan->n_patches, 12);
    assert_int_equal(plan->patches[0].x, 512);
    assert_int_equal(plan->patches[11].x, 512 + 3 * 256);
    assert_int_equal(plan->patches[11].y, 256 + 2 * 256);
}

static void an_overview_is_the_mean_of_the_pixels_it_covers(void **state)
{
    (void)state;
    static const unsigned char in[5 * 4] = { 0, 10, 20, 30, 40, 2, 12, 22, 32, 42,
                                             4, 14, 24, 34, 44, 6, 16, 26, 36, 46 };
    unsigned char out[4];
    assert_int_equal(hrf_downsample(in, 5, 4, 1, 2, 2, out, NULL), HRF_OK);
    assert_int_equal(out[0], (0 + 10 + 2 + 12) / 4);
    assert_int_equal(out[1], (20 + 30 + 40 + 22 + 32 + 42) / 6);
    assert_int_equal(out[2], (4 + 14 + 6 + 16) / 4);
    assert_int_equal(out[3], (24 + 34 + 44 + 26 + 36 + 46) / 6);
    struct hrf_slide_info info = { .n_levels = 3 };
    info.level[0].downsample = 1, info.level[1].downsample = 4, info.level[2].downsample = 16.01;
    assert_true(hrf_overview_snap(&info, 14, 1.3) == 16.01);
    assert_true(hrf_overview_snap(&info, 9, 1.3) == 9);
    assert_true(hrf_overview_snap(&info, 4.9, 1.3) == 4);
}

static void waves(const void *context, int level, uint32_t x, uint32_t y, unsigned char rgba[4])
{
    (void)context, (void)level;
    rgba[0] = rgba[1] = rgba[2] = (unsigned char)(7 * x + 13 * y + x * y / 64);
}

/* Without a pyramid the overview is made from level 0 in strips: the same as by hand. */
static void a_slide_without_levels_is_read_in_strips(void **state)
{
    (void)state;
    struct pyramid p = { .n_levels = 1, .level = { { 3000, 2900 } }, .tile = 256, .pixel = waves };
    char path[128];
    pyramid_path(test_folder, "flat.tif", path);
    pyramid_write(&p, path);
    HRF_AUTO(hrf_slide) slide = NULL;
    struct hrf_overview overview;
    assert_int_equal(hrf_slide_open(path, &slide, NULL), HRF_OK);
    assert_int_equal(hrf_overview_read(slide, 10, &overview, NULL), HRF_OK);
    assert_int_equal(overview.width, 300);
    assert_int_equal(overview.height, 290);
    for (int64_t i = 0; i < 300 * 290; i += 7) {
        int64_t sum = 0;
        for (int64_t k = 0; k < 100; k++) {
            unsigned char rgba[4];
            waves(NULL, 0, (uint32_t)(i % 300 * 10 + k % 10), (uint32_t)(i / 300 * 10 + k / 10),
                  rgba);
            sum += rgba[1];
        }
        assert_int_equal(overview.rgb[3 * i + 1], (sum + 50) / 100);
    }
    hrf_overview_release(&overview);
}

/* Noise, with one pixel of level 0 changed. */
struct spot {
    uint32_t x, y;
};

static void spot_pixel(const void *context, int level, uint32_t x, uint32_t y,
                       unsigned char rgba[4])
{
    const struct spot *spot = context;
    const bool is_hit = level == 0 && x == spot->x && y == spot->y;
    for (int c = 0; c < 3; c++)
        rgba[c] = (unsigned char)(pyramid_noise(level, x, y, c) ^ is_hit);
    rgba[3] = 255;
}

/* The scales of INT8 go by it: a pyramid that differs in a pixel of level 0 alone is another, if
 * the pixel is one of a patch. */
static void the_pixels_of_patches_are_hashed_each(void **state)
{
    (void)state;
    static const struct spot spots[] = {
        { 0, 0 }, { 100, 100 }, { 419, 399 }, { 420, 399 }, { 1000, 90 }
    };
    static const bool is_inside[] = { false, true, true, false, false };
    char path[128], first[HRF_HASH_HEX], hash[HRF_HASH_HEX];
    struct hrf_patch patches[] = { { 100, 100 } };
    pyramid_path(test_folder, "spot.tif", path);
    struct hrf_tile_plan plan = { .slide_path = path,
                                  .width = 1100,
                                  .height = 600,
                                  .patch_width0 = 320,
                                  .patch_height0 = 300,
                                  .n_patches = 1,
                                  .patches = patches };
    for (size_t i = 0; i < sizeof spots / sizeof spots[0]; i++) {
        struct pyramid p = { .pixel = spot_pixel, .context = &spots[i] };
        pyramid_halve(&p, 1100, 600, 300);
        pyramid_write(&p, path);
        assert_int_equal(hrf_tile_plan_hash_pixels(&plan, i == 0 ? first : hash, NULL), HRF_OK);
        if (i > 0 && (strcmp(first, hash) != 0) != is_inside[i])
            fail_msg("the pixel at %u, %u is%s hashed", spots[i].x, spots[i].y,
                     is_inside[i] ? " not" : "");
    }
}

static void running_out_of_memory_is_a_status(void **state)
{
    (void)state;
    struct scene scene = { NULL, 0, 0, 512, 512, { 205, 130, 185 }, { 243, 242, 244 } };
    struct pyramid p = scene_pyramid(&scene, 512, 512);
    char path[128];
    scene.pyramid = &p;
    pyramid_path(test_folder, "memory.tif", path);
    pyramid_write(&p, path);
    struct hrf_workflow_tiler params = parameters(128, 0.5);
    enum hrf_status status = HRF_E_NOMEM;
    for (int n = 1; status != HRF_OK; n++) {
        struct hrf_tile_plan *plan = NULL;
        hrf_alloc_fail_after(n);
        status = hrf_tile_slide(path, &params, 0, 0, NULL, &plan, NULL);
        hrf_alloc_fail_after(0);
        assert_true(status == HRF_E_NOMEM || (status == HRF_OK && plan != NULL));
        assert_true(n < 400);
        hrf_tile_plan_destroy(plan);
    }
}

/* Writes a spec of three tasks: a good slide, an empty one and a missing one. */
static void write_spec(const char *directory, enum hrf_job_kind kind)
{
    char path[128], slides[3][128];
    static const char *const names[3] = { "job-good.tif", "job-empty.tif", "job-missing.tif" };
    struct scene scene = { NULL, 0, 0, 512, 512, { 205, 130, 185 }, { 243, 242, 244 } };
    struct pyramid p = scene_pyramid(&scene, 1024, 1024);
    scene.pyramid = &p;
    for (int i = 0; i < 3; i++)
        pyramid_path(test_folder, names[i], slides[i]);
    pyramid_write(&p, slides[0]);
    scene.right = scene.bottom = 0;
    pyramid_write(&p, slides[1]);
    char ids[3][4] = { "t1", "t2", "t3" }, run_id[] = "0123456789abcdef0123456789abcdef";
    char job_id[] = "tile-1";
    struct hrf_job_task tasks[3];
    for (int i = 0; i < 3; i++)
        tasks[i] = (struct hrf_job_task){ .id = ids[i],
                                          .identity = { .task = "00" },
                                          .slide_name = slides[i],
                                          .slide_path = slides[i] };
    struct hrf_job_spec spec = {
        .run_id = run_id, .job_id = job_id, .attempt = 1, .kind = kind, .tasks = tasks, .n_tasks = 3
    };
    char empty[] = "";
    HRF_AUTO(hrf_workflow) settings = default_settings();
    const struct hrf_workflow_tiler wanted = parameters(128, 0.5);
    settings->tiler.patch.size = wanted.patch.size;
    settings->tiler.patch.stride = wanted.patch.stride;
    settings->tiler.patch.mpp = wanted.patch.mpp;
    settings->tiler.tissue.min_patches = wanted.tissue.min_patches;
    set_text(&settings->model.file, "/m");
    spec.model_sha256 = empty;
    struct hrf_job_network network = { .precision = HRF_FP32 };
    spec.networks = &network;
    spec.n_networks = 1;
    for (int i = 0; i < 3 && kind == HRF_JOB_INFER; i++)
        tasks[i].tile_plan = empty;
    struct hrf_error err = { .status = HRF_OK };
    pyramid_path(directory, "spec.json", path);
    if (hrf_path_make_directories(directory, &err) != HRF_OK ||
        hrf_job_spec_write(&spec, settings, path, &err) != HRF_OK)
        fail_msg("%s", err.text);
}

static void a_job_gives_every_task_its_own_end(void **state)
{
    (void)state;
    char directory[128], path[128];
    pyramid_path(test_folder, "job", directory);
    write_spec(directory, HRF_JOB_TILE);
    pyramid_path(directory, "spec.json", path);
    assert_int_equal(hrf_tile_job_main(path), 0);
    static const enum hrf_task_outcome want[3] = { HRF_TASK_DONE, HRF_TASK_NO_TISSUE,
                                                   HRF_TASK_FAILED };
    static const char *const ids[3] = { "t1", "t2", "t3" };
    static const int64_t n_patches[3] = { 16, 0, -1 };
    for (int i = 0; i < 3; i++) {
        struct hrf_task_status status = { .outcome = HRF_TASK_DONE };
        struct hrf_error err = { .status = HRF_OK };
        char *record = NULL;
        size_t n_bytes = 0;
        if (hrf_task_collect(directory, ids[i], &status, &record, &n_bytes, &err) != HRF_OK)
            fail_msg("%s", err.text);
        assert_int_equal(status.outcome, want[i]);
        assert_false(hrf_status_row(status.failure.error.status)->may_end_otherwise);
        if (n_patches[i] >= 0) {
            HRF_AUTO(hrf_tile_plan) plan = NULL;
            assert_int_equal(hrf_tile_plan_decode(record, n_bytes, NULL, "record", &plan, &err),
                             HRF_OK);
            assert_int_equal(plan->n_patches, n_patches[i]);
        } else {
            assert_null(record);
            assert_non_null(strstr(status.failure.error.text, "job-missing.tif' does not exist"));
        }
        hrf_free(record);
        hrf_task_status_release(&status);
    }
}

static void a_job_that_was_revoked_commits_nothing(void **state)
{
    (void)state;
    char directory[128], path[128];
    pyramid_path(test_folder, "revoked-job", directory);
    write_spec(directory, HRF_JOB_TILE);
    pyramid_path(directory, "revoked", path);
    assert_int_equal(hrf_file_write_atomic(path, "", 0, NULL), HRF_OK);
    pyramid_path(directory, "spec.json", path);
    assert_int_equal(hrf_tile_job_main(path), 75);
    pyramid_path(directory, "t1.json", path);
    assert_false(hrf_path_exists(path));
}

static void a_spec_that_cannot_be_used_ends_with_1(void **state)
{
    (void)state;
    char directory[128], path[128];
    pyramid_path(test_folder, "infer-job", directory);
    write_spec(directory, HRF_JOB_INFER);
    pyramid_path(directory, "spec.json", path);
    assert_int_equal(hrf_tile_job_main(path), 1);
    assert_int_equal(hrf_file_write_atomic(path, "{}", 2, NULL), HRF_OK);
    assert_int_equal(hrf_tile_job_main(path), 75); /* damaged: a new one is to be written */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_real_slide_gives_its_tissue_as_patches),
        cmocka_unit_test(the_hash_names_the_tiling_and_not_the_file),
        cmocka_unit_test(a_slide_without_a_resolution_is_refused_unless_it_is_given),
        cmocka_unit_test(what_cannot_be_tiled_says_why),
        cmocka_unit_test(patches_are_those_with_tissue_under_them),
        cmocka_unit_test(a_slide_as_one_image_gets_a_frame_around_its_tissue),
        cmocka_unit_test(a_slide_without_tissue_has_no_patches_and_is_no_error),
        cmocka_unit_test(a_faint_slide_is_kept_with_a_warning),
        cmocka_unit_test(a_slide_with_little_tissue_says_so),
        cmocka_unit_test(a_slide_smaller_than_a_patch_says_so),
        cmocka_unit_test(the_strip_at_the_edge_is_dropped_padded_or_shifted),
        cmocka_unit_test(left_out_tiles_are_glass),
        cmocka_unit_test(an_overview_is_the_mean_of_the_pixels_it_covers),
        cmocka_unit_test(a_slide_without_levels_is_read_in_strips),
        cmocka_unit_test(the_pixels_of_patches_are_hashed_each),
        cmocka_unit_test(running_out_of_memory_is_a_status),
        cmocka_unit_test(a_job_gives_every_task_its_own_end),
        cmocka_unit_test(a_job_that_was_revoked_commits_nothing),
        cmocka_unit_test(a_spec_that_cannot_be_used_ends_with_1),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
