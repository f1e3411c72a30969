/* Opening, information, resolution and reading of slides, real ones and made ones. */
#include "base/file.h"
#include "base/hash.h"
#include "base/path.h"
#include "tests/unit/directory.h"
#include "tests/unit/real_data.h"
#include "tests/unit/tiler/pyramid.h"
#include "tests/unit/unit.h"
#include "tiler/slide/jp2k_tile.h"
#include "tiler/slide/mask_read.h"
#include "tiler/slide/slide_private.h"

#include <math.h>
#include <openjpeg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>
#include <unistd.h>

static struct hrf_slide *open_slide(const char *path)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_slide *slide = NULL;
    if (hrf_slide_open(path, &slide, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return slide;
}

static struct hrf_slide *open_real(const char *name)
{
    char folder[REAL_DATA_PATH], path[REAL_DATA_PATH + 64];
    real_data("slides", folder);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return open_slide(path);
}

static struct hrf_slide *make_slide(const struct pyramid *pyramid, const char *name)
{
    char path[128];
    pyramid_path(directory, name, path);
    pyramid_write(pyramid, path);
    return open_slide(path);
}

/* Opening must fail with this status and a text that holds `word`. */
static void refused(const char *path, enum hrf_status status, const char *word)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_slide *slide = NULL;
    assert_int_equal(hrf_slide_open(path, &slide, &err), status);
    assert_null(slide);
    if (strstr(err.text, word) == NULL)
        fail_msg("'%s' does not hold '%s'", err.text, word);
    if (strstr(err.text, hrf_path_name(path)) == NULL)
        fail_msg("'%s' does not name the file", err.text);
}

static void what_is_not_a_slide_is_refused_each_with_its_own_reason(void **state)
{
    (void)state;
    char path[128], real[REAL_DATA_PATH];
    pyramid_path(directory, "nowhere.svs", path);
    refused(path, HRF_E_USER, "does not exist");
    refused(directory, HRF_E_USER, "is a folder");
    pyramid_path(directory, "empty.tif", path);
    assert_int_equal(hrf_file_write_atomic(path, "", 0, NULL), HRF_OK);
    refused(path, HRF_E_USER, "is empty (0 bytes)");
    pyramid_path(directory, "text.svs", path);
    assert_int_equal(hrf_file_write_atomic(path, "no slide", 8, NULL), HRF_OK);
    refused(path, HRF_E_USER, "knows no format for it");
    refused("/dev/null", HRF_E_USER, "is a device; a regular file is needed");
    real_data("slides/broken.svs", real);
    refused(real, HRF_E_USER, "knows no format for it");
    real_data("slides/unopenable.tiff", real);
    refused(real, HRF_E_USER, "Unsupported TIFF compression: 52479");
}

static void pictures_that_openslide_refuses_are_slides_of_one_level(void **state)
{
    (void)state;
    static const struct {
        const char *name, *vendor;
        int64_t width, height;
    } cases[] = { { "kidney-48-5.tif", "tiff", 1493, 901 },
                  { "wsi-blue-pen.png", "png", 174, 133 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        HRF_AUTO(hrf_slide) slide = open_real(cases[i].name);
        const struct hrf_slide_info *info = hrf_slide_info(slide);
        assert_string_equal(info->vendor, cases[i].vendor);
        assert_int_equal(info->n_levels, 1);
        assert_int_equal(info->width, cases[i].width);
        assert_int_equal(info->height, cases[i].height);
    }
}

static void real_slides_say_what_they_are(void **state)
{
    (void)state;
    HRF_AUTO(hrf_slide) cmu = open_real("cmu-1-small-region.svs");
    const struct hrf_slide_info *info = hrf_slide_info(cmu);
    assert_string_equal(info->vendor, "aperio");
    assert_int_equal(info->width, 2220);
    assert_int_equal(info->height, 2967);
    assert_int_equal(info->n_levels, 1);
    HRF_AUTO(hrf_slide) tcga = open_real("tcga-cr-7395-01a-01-ts1.svs");
    info = hrf_slide_info(tcga);
    assert_int_equal(info->n_levels, 2);
    assert_int_equal(info->level[1].width, 2221);
    assert_int_equal(info->level[1].height, 1783);
    assert_true(fabs(info->level[1].downsample - 2.0005055500659967) < 1e-12);
}

/* SHA-256 of the whole level as RGB, read in odd strips. */
static void hash_level(struct hrf_slide *slide, int64_t strip, char hex[HRF_HASH_HEX])
{
    const struct hrf_slide_info *info = hrf_slide_info(slide);
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_AUTO_FREE unsigned char *rgb = hrf_alloc((size_t)(info->width * strip * 3));
    assert_non_null(rgb);
    assert_int_equal(hrf_hash_create(&hash, NULL), HRF_OK);
    for (int64_t y = 0; y < info->height; y += strip) {
        int64_t n = info->height - y < strip ? info->height - y : strip;
        assert_int_equal(hrf_slide_read(slide, 0, 0, y, info->width, n, rgb, NULL, NULL), HRF_OK);
        hrf_hash_bytes(hash, rgb, (size_t)(info->width * n * 3));
    }
    hrf_hash_hex(hash, hex);
}

static void a_large_read_is_the_same_pixels_as_many_small_ones(void **state)
{
    (void)state;
    struct pyramid p = { .n_levels = 1, .level = { { 555, 742 } }, .tile = 240, .jpeg = true };
    char whole[HRF_HASH_HEX], strips[HRF_HASH_HEX];
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "strips.tif");
    hash_level(slide, 742, whole);
    hash_level(slide, 101, strips);
    assert_string_equal(whole, strips);
}

static void a_slide_damaged_inside_fails_on_reading_and_names_the_first_place(void **state)
{
    (void)state;
    HRF_AUTO(hrf_slide) slide = open_real("unreadable.svs");
    struct hrf_error err = { .status = HRF_OK };
    unsigned char rgb[4 * 4 * 3];
    assert_int_equal(hrf_slide_read(slide, 0, 3, 5, 4, 4, rgb, NULL, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "unreadable.svs' is damaged: reading fails at x 0, y 0, level "
                                     "0, tile 0, 0 (bytes 16 to 278 of the file): "));
    assert_non_null(strstr(err.text, "Bogus marker length"));
    assert_int_equal(hrf_slide_read(slide, 0, 9, 9, 4, 4, rgb, NULL, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "at x 0, y 0"));
}

static bool second_tile(const void *context, int level, uint32_t column, uint32_t row)
{
    (void)context;
    return level == 0 && column == 1 && row == 0;
}

static void sparse_tiles_and_what_is_outside_are_white(void **state)
{
    (void)state;
    struct pyramid p = {
        .n_levels = 1, .level = { { 128, 64 } }, .big = true, .is_sparse = second_tile
    };
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "sparse.tif");
    unsigned char rgb[3 * 4];
    assert_int_equal(hrf_slide_read(slide, 0, 62, 10, 4, 1, rgb, NULL, NULL), HRF_OK);
    for (int c = 0; c < 3; c++) {
        assert_int_equal(rgb[c], pyramid_noise(0, 62, 10, c));
        assert_int_equal(rgb[3 + c], pyramid_noise(0, 63, 10, c));
        assert_int_equal(rgb[6 + c], 255);
        assert_int_equal(rgb[9 + c], 255);
    }
    assert_int_equal(hrf_slide_read(slide, 0, -2, 10, 4, 1, rgb, NULL, NULL), HRF_OK);
    for (int c = 0; c < 3; c++) {
        assert_int_equal(rgb[c], 255);
        assert_int_equal(rgb[3 + c], 255);
        assert_int_equal(rgb[6 + c], pyramid_noise(0, 0, 10, c));
    }
    assert_int_equal(hrf_slide_read(slide, 0, 1000000, -50, 2, 2, rgb, NULL, NULL), HRF_OK);
    for (int i = 0; i < 12; i++)
        assert_int_equal(rgb[i], 255);
}

/* Every pixel 255 but for a tile that is left out. */
static void all_set(const void *context, int level, uint32_t x, uint32_t y, unsigned char rgba[4])
{
    (void)context, (void)level;
    rgba[0] = rgba[1] = rgba[2] = (unsigned char)(x % 4 == 0 && y % 4 == 0 ? 255 : 1);
    rgba[3] = 255;
}

static bool second_tile_of_any_level(const void *context, int level, uint32_t column, uint32_t row)
{
    (void)context, (void)level;
    return column == 1 && row == 0;
}

static void a_mask_has_zeros_where_the_file_has_nothing(void **state)
{
    (void)state;
    struct pyramid p = { .n_levels = 2,
                         .level = { { 256, 192 }, { 128, 96 } },
                         .pixel = all_set,
                         .is_sparse = second_tile_of_any_level };
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "mask.tif");
    for (int32_t step = 2; step <= 4; step *= 2) { /* level 1; every second pixel of level 1 */
        HRF_AUTO_FREE unsigned char *pixels = NULL;
        int64_t width = 0, height = 0;
        assert_int_equal(hrf_slide_read_mask(slide, step, &pixels, &width, &height, NULL), HRF_OK);
        assert_int_equal(width, 256 / step);
        assert_int_equal(height, 192 / step);
        const int64_t half = 64 * 2 / step; /* a tile of level 1 */
        for (int64_t y = 0; y < height; y++)
            for (int64_t x = 0; x < width; x++) {
                const bool is_empty = x >= half && y < half;
                const int64_t at_x = x * step / 2, at_y = y * step / 2;
                const int wanted = at_x % 4 == 0 && at_y % 4 == 0 ? 255 : 1;
                assert_int_equal(pixels[y * width + x], is_empty ? 0 : wanted);
            }
    }
    unsigned char *none = NULL;
    int64_t width = 0, height = 0;
    struct hrf_error err;
    assert_int_equal(hrf_slide_read_mask(slide, 3, &none, &width, &height, &err), HRF_OK);
    hrf_free(none);
}

/* Parts of level 0 and of level 1, also beyond the mask's edges, whose pixels are at centres. */
static void a_part_of_a_mask_is_read_at_the_centres_of_its_pixels(void **state)
{
    (void)state;
    struct pyramid p = { .n_levels = 2,
                         .level = { { 256, 192 }, { 128, 96 } },
                         .pixel = all_set,
                         .is_sparse = second_tile_of_any_level };
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "mask-part.tif");
    static const struct {
        int64_t x0, y0, width0, height0, width, height;
    } parts[] = { { 30, 20, 70, 50, 70, 50 },   { -10, 180, 40, 20, 40, 20 },
                  { 100, 60, 90, 66, 30, 22 },  { 250, 100, 20, 20, 10, 10 },
                  { 3, 5, 64, 64, 40, 40 },     { 300, 0, 8, 8, 8, 8 },
                  { 90, 130, 120, 96, 60, 48 }, { -50, -50, 350, 300, 7, 6 } };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        unsigned char out[70 * 50];
        const double step_x = (double)parts[i].width0 / (double)parts[i].width;
        const double step_y = (double)parts[i].height0 / (double)parts[i].height;
        const int64_t scale = step_x >= 2 && step_y >= 2 ? 2 : 1;
        assert_int_equal(hrf_slide_read_mask_part(slide, parts[i].x0, parts[i].y0, parts[i].width0,
                                                  parts[i].height0, out, parts[i].width,
                                                  parts[i].height, NULL),
                         HRF_OK);
        for (int64_t y = 0; y < parts[i].height; y++)
            for (int64_t x = 0; x < parts[i].width; x++) {
                const double at_x = (double)parts[i].x0 + ((double)x + 0.5) * step_x;
                const double at_y = (double)parts[i].y0 + ((double)y + 0.5) * step_y;
                const int64_t u = (int64_t)floor(at_x / (double)scale),
                              v = (int64_t)floor(at_y / (double)scale);
                const bool is_outside = u < 0 || v < 0 || u >= 256 / scale || v >= 192 / scale;
                const bool is_empty = is_outside || (u >= 64 && u < 128 && v < 64);
                const int wanted = is_empty ? 0 : u % 4 == 0 && v % 4 == 0 ? 255 : 1;
                assert_int_equal(out[y * parts[i].width + x], wanted);
            }
    }
}

/* OpenSlide 3.4 with libtiff 4.5 would give them as blank. */
static void levels_smaller_than_their_tiles_are_never_blank(void **state)
{
    (void)state;
    struct pyramid p = { .tile = 64, .level = { { 256, 256 }, { 128, 128 }, { 64, 32 } } };
    p.n_levels = 3;
    HRF_AUTO(hrf_slide) deflate = make_slide(&p, "small-levels.tif");
    unsigned char rgb[3];
    const struct hrf_slide_info *info = hrf_slide_info(deflate);
    assert_true(info->n_levels == 2 || info->n_levels == 3);
    assert_int_equal(hrf_slide_read(deflate, info->n_levels - 1, 0, 0, 1, 1, rgb, NULL, NULL),
                     HRF_OK);
    assert_int_equal(rgb[0], pyramid_noise(info->n_levels - 1, 0, 0, 0));
    p.jpeg = true;
    HRF_AUTO(hrf_slide) jpeg = make_slide(&p, "small-levels-jpeg.tif");
    assert_int_equal(hrf_slide_info(jpeg)->n_levels, 3);
    assert_int_equal(hrf_slide_read(jpeg, 2, 0, 0, 1, 1, rgb, NULL, NULL), HRF_OK);
    assert_true(rgb[0] != 255 || rgb[1] != 255 || rgb[2] != 255);
    struct pyramid tiny = { .tile = 64, .n_levels = 1, .level = { { 100, 20 } } };
    char path[128];
    pyramid_path(directory, "tiny.tif", path);
    pyramid_write(&tiny, path);
    struct hrf_slide_library library;
    hrf_slide_library(&library);
    if (strncmp(library.version, "3.", 2) == 0) /* version 4 reads it */
        refused(path, HRF_E_UNSUPPORTED, "is 100 x 20 px, smaller than one of its own tiles");
    tiny.jpeg = true;
    tiny.level[0].width = tiny.level[0].height = 1;
    HRF_AUTO(hrf_slide) pixel = make_slide(&tiny, "pixel.tif");
    assert_int_equal(hrf_slide_info(pixel)->width, 1);
}

static void fading(const void *context, int level, uint32_t x, uint32_t y, unsigned char rgba[4])
{
    (void)context, (void)level, (void)y;
    rgba[0] = 200;
    rgba[1] = 100;
    rgba[2] = 0;
    rgba[3] = (unsigned char)(x < 256 ? x : 255);
}

static void transparent_pixels_are_laid_on_white(void **state)
{
    (void)state;
    struct pyramid p = { .n_levels = 1, .level = { { 256, 64 } }, .alpha = true, .pixel = fading };
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "alpha.tif");
    unsigned char rgb[256 * 3];
    assert_int_equal(hrf_slide_read(slide, 0, 0, 7, 256, 1, rgb, NULL, NULL), HRF_OK);
    for (int x = 0; x < 256; x++) {
        double a = x / 255.0;
        assert_true(fabs(rgb[3 * x] - (255 + a * (200 - 255))) <= 1.5);
        assert_true(fabs(rgb[3 * x + 1] - (255 + a * (100 - 255))) <= 1.5);
        assert_true(fabs(rgb[3 * x + 2] - (255 + a * (0 - 255))) <= 1.5);
    }
}

static void a_read_of_no_level_or_no_pixels_is_a_bug_of_the_caller(void **state)
{
    (void)state;
    struct pyramid p = { .n_levels = 1, .level = { { 64, 64 } } };
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "one.tif");
    unsigned char rgb[3];
    assert_int_equal(hrf_slide_read(slide, 1, 0, 0, 1, 1, rgb, NULL, NULL), HRF_E_BUG);
    assert_int_equal(hrf_slide_read(slide, 0, 0, 0, 0, 1, rgb, NULL, NULL), HRF_E_BUG);
}

/* What hrf_slide_resolution must say: a source, or a refusal that holds `word`. */
static void resolves(struct hrf_slide *slide, double csv, double workflow, double want_x,
                     double want_y, enum hrf_mpp_source want)
{
    struct hrf_error err = { .status = HRF_OK };
    double x = 0, y = 0;
    enum hrf_mpp_source source;
    if (hrf_slide_resolution(slide, csv, workflow, &x, &y, &source, &err) != HRF_OK)
        fail_msg("%s", err.text);
    if (fabs(x - want_x) > 1e-4 * want_x || fabs(y - want_y) > 1e-4 * want_y || source != want)
        fail_msg("%g x %g from %s", x, y, hrf_mpp_source_name(source));
}

static void does_not_resolve(struct hrf_slide *slide, double csv, double workflow, const char *word)
{
    struct hrf_error err = { .status = HRF_OK };
    double x = -1, y = -1;
    enum hrf_mpp_source source = HRF_MPP_NONE;
    assert_int_equal(hrf_slide_resolution(slide, csv, workflow, &x, &y, &source, &err), HRF_E_USER);
    assert_true(x == -1 && y == -1);
    if (strstr(err.text, word) == NULL)
        fail_msg("'%s' does not hold '%s'", err.text, word);
}

static void the_resolution_of_real_slides_comes_from_where_they_have_it(void **state)
{
    (void)state;
    HRF_AUTO(hrf_slide) cmu = open_real("cmu-1-small-region.svs");
    resolves(cmu, 0.25, 0.25, 0.499, 0.499, HRF_MPP_FILE);
    HRF_AUTO(hrf_slide) tcga = open_real("tcga-cr-7395-01a-01-ts1.svs");
    does_not_resolve(
        tcga, 0, 0,
        "does not say its resolution: give it in um/px as dataset.mpp, or as the column mpp");
    resolves(tcga, 0.25, 0.5, 0.25, 0.25, HRF_MPP_CSV);
    resolves(tcga, 0, 0.5, 0.5, 0.5, HRF_MPP_WORKFLOW);
    does_not_resolve(tcga, 250, 0.5, "250 um/px (source: csv) cannot be right; 0.05 to 10");
    does_not_resolve(tcga, -1, 0.5, "(source: csv)");
    does_not_resolve(tcga, 0, 0.01, "(source: workflow)");
}

static void sane_tiff_tags_are_believed_and_72_dpi_is_passed_over(void **state)
{
    (void)state;
    struct pyramid p = { .n_levels = 1,
                         .level = { { 64, 64 } },
                         .x_resolution = 20000,
                         .y_resolution = 40000,
                         .resolution_unit = RESUNIT_CENTIMETER };
    HRF_AUTO(hrf_slide) centimetre = make_slide(&p, "cm.tif");
    resolves(centimetre, 1, 2, 0.5, 0.25, HRF_MPP_TIFF_TAGS);
    p.resolution_unit = RESUNIT_INCH;
    p.x_resolution = p.y_resolution = 50800;
    HRF_AUTO(hrf_slide) inch = make_slide(&p, "inch.tif");
    resolves(inch, 1, 2, 0.5, 0.5, HRF_MPP_TIFF_TAGS);
    p.x_resolution = p.y_resolution = 72;
    HRF_AUTO(hrf_slide) screen = make_slide(&p, "dpi.tif");
    resolves(screen, 0, 0.4, 0.4, 0.4, HRF_MPP_WORKFLOW);
    does_not_resolve(screen, 0, 0,
                     "does not say its resolution (its TIFF tags say 352.8 um/px, which cannot");
    p.resolution_unit = RESUNIT_NONE;
    p.x_resolution = p.y_resolution = 20000;
    HRF_AUTO(hrf_slide) unitless = make_slide(&p, "none.tif");
    resolves(unitless, 0.3, 0, 0.3, 0.3, HRF_MPP_CSV);
}

static const char philips[] =
    "<?xml version=\"1.0\"?><DataObject ObjectType=\"DPUfsImport\">"
    "<Attribute Name=\"DICOM_PIXEL_SPACING\" Group=\"0x0028\" PMSVR=\"IDoubleArray\">"
    "&quot;0.000454&quot; &quot;0.000486&quot;</Attribute>"
    "<Attribute Name=\"DICOM_PIXEL_SPACING\" Group=\"0x0028\" PMSVR=\"IDoubleArray\">"
    "\"0.000227\" \"0.000243\"</Attribute>"
    "<Attribute Name=\"DICOM_PIXEL_SPACING\" Group=\"0x0028\">\"0.000908\" \"0.000972\"</Attribute>"
    "</DataObject>";

static void the_philips_xml_gives_rows_before_columns_and_level_0_is_the_finest(void **state)
{
    (void)state;
    struct pyramid p = { .n_levels = 1,
                         .level = { { 64, 64 } },
                         .big = true,
                         .jpeg = true,
                         .x_resolution = 72,
                         .y_resolution = 72,
                         .resolution_unit = RESUNIT_INCH,
                         .description = philips };
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "philips.tif");
    resolves(slide, 1, 2, 0.243, 0.227, HRF_MPP_PHILIPS_XML);
    p.description = "<Attribute Name=\"DICOM_PIXEL_SPACING\">\"0.5\" \"0.5\"</Attribute>";
    HRF_AUTO(hrf_slide) absurd = make_slide(&p, "absurd.tif");
    does_not_resolve(absurd, 0.25, 0, "500 um/px (source: philips-xml) cannot be right");
}

static void ome_xml_gives_the_resolution_with_its_unit(void **state)
{
    (void)state;
    static const struct {
        const char *xml;
        double x, y; /* 0: none */
    } cases[] = {
        { "<OME><Image><Pixels ID=\"0\" PhysicalSizeX=\"0.25\" PhysicalSizeY=\"0.26\"/>", 0.25,
          0.26 },
        { "<Pixels PhysicalSizeX=\"250\" PhysicalSizeXUnit=\"nm\" PhysicalSizeY=\"0.00026\" "
          "PhysicalSizeYUnit=\"mm\">",
          0.25, 0.26 },
        { "<Pixels PhysicalSizeX=\"0.5\" PhysicalSizeXUnit=\"\xc2\xb5m\" PhysicalSizeY=\"0.5\">",
          0.5, 0.5 },
        { "<Pixels PhysicalSizeX=\"1\" PhysicalSizeXUnit=\"pixel\" PhysicalSizeY=\"1\">", 0, 0 },
        { "<Pixels SizeX=\"5\"><Plane PhysicalSizeX=\"1\" PhysicalSizeY=\"1\">", 0, 0 },
        { "<Pixels PhysicalSizeX=\"0\" PhysicalSizeY=\"1\">", 0, 0 },
        { "<Pixels PhysicalSizeX=\"0.5", 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double x = 0, y = 0;
        assert_int_equal(hrf_ome_spacing(cases[i].xml, &x, &y), cases[i].x > 0);
        assert_true(fabs(x - cases[i].x) < 1e-9 && fabs(y - cases[i].y) < 1e-9);
    }
    struct pyramid p = { .n_levels = 1,
                         .level = { { 64, 64 } },
                         .x_resolution = 72,
                         .y_resolution = 72,
                         .resolution_unit = RESUNIT_INCH,
                         .description = cases[0].xml };
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "ome.tif");
    resolves(slide, 1, 2, 0.25, 0.26, HRF_MPP_OME_XML);
}

/* OpenSlide reads AppMag of an Aperio description. */
static void the_power_of_the_objective_is_the_last_guess(void **state)
{
    (void)state;
    struct pyramid p = { .n_levels = 1,
                         .level = { { 64, 64 } },
                         .jpeg = true,
                         .description = "Aperio Image Library|AppMag = 40" };
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "power.svs");
    assert_string_equal(hrf_slide_info(slide)->vendor, "aperio");
    resolves(slide, 0, 0, 0.25, 0.25, HRF_MPP_OBJECTIVE);
    resolves(slide, 0, 0.5, 0.5, 0.5, HRF_MPP_WORKFLOW);
}

static bool not_the_first(const void *context, int level, uint32_t column, uint32_t row)
{
    (void)context, (void)level;
    return column + row > 0;
}

/* As the CAMELYON16 slides are: OpenSlide knows Philips, its XML and its left-out tiles. */
static void a_philips_slide_has_its_spacing_from_openslide_and_left_out_tiles_white(void **state)
{
    (void)state;
#define PHILIPS_LEVEL(spacing)                                                                     \
    "<DataObject ObjectType=\"PixelDataRepresentation\"><Attribute Name=\"DICOM_PIXEL_SPACING\" "  \
    "Group=\"0x0028\" Element=\"0x0030\" PMSVR=\"IDoubleArray\">" spacing                          \
    "</Attribute></DataObject>"
    static const char xml[] =
        "<?xml version=\"1.0\" encoding=\"UTF-8\" ?><DataObject ObjectType=\"DPUfsImport\">"
        "<Attribute Name=\"PIM_DP_SCANNED_IMAGES\" Group=\"0x301D\" Element=\"0x1003\" "
        "PMSVR=\"IDataObjectArray\"><Array><DataObject ObjectType=\"DPScannedImage\">"
        "<Attribute Name=\"PIM_DP_IMAGE_TYPE\" Group=\"0x301D\" Element=\"0x1004\" "
        "PMSVR=\"IString\">WSI</Attribute>"
        "<Attribute Name=\"DICOM_PIXEL_SPACING\" Group=\"0x0028\" Element=\"0x0030\" "
        "PMSVR=\"IDoubleArray\">&quot;0.000227&quot; &quot;0.000243&quot;</Attribute>"
        "<Attribute Name=\"PIIM_PIXEL_DATA_REPRESENTATION_SEQUENCE\" Group=\"0x1001\" "
        "Element=\"0x8B01\" PMSVR=\"IDataObjectArray\"><Array>" PHILIPS_LEVEL(
            "&quot;0.000227&quot; &quot;0.000243&quot;")
            PHILIPS_LEVEL("&quot;0.000454&quot; &quot;0.000486&quot;") "</Array></Attribute>"
                                                                       "</DataObject></Array></"
                                                                       "Attribute></DataObject>";
    struct pyramid p = { .n_levels = 2,
                         .level = { { 256, 256 }, { 128, 128 } },
                         .tile = 128,
                         .big = true,
                         .jpeg = true,
                         .description = xml,
                         .software = "Philips DP v1.0",
                         .is_sparse = not_the_first };
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "philips-vendor.tif");
    unsigned char rgb[256 * 3];
    assert_string_equal(hrf_slide_info(slide)->vendor, "philips");
    resolves(slide, 1, 2, 0.243, 0.227, HRF_MPP_FILE);
    assert_int_equal(hrf_slide_read(slide, 0, 0, 5, 256, 1, rgb, NULL, NULL), HRF_OK);
    assert_true(rgb[0] != 255 || rgb[1] != 255 || rgb[2] != 255);
    for (int i = 128 * 3; i < 256 * 3; i++)
        assert_int_equal(rgb[i], 255);
}

static void damaged_philips_xml_gives_nothing(void **state)
{
    (void)state;
    static const char *const bad[] = { "",
                                       "DICOM_PIXEL_SPACING",
                                       "DICOM_PIXEL_SPACING>",
                                       "DICOM_PIXEL_SPACING>\"0.1\"",
                                       "DICOM_PIXEL_SPACING>\"0.1\" \"\"",
                                       "DICOM_PIXEL_SPACING>\"-1\" \"1\"",
                                       "DICOM_PIXEL_SPACING>\"inf\" \"nan\"",
                                       "DICOM_PIXEL_SPACING>&quot;0.1&quo" };
    double x = 7, y = 7;
    assert_false(hrf_philips_spacing(NULL, &x, &y));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(hrf_philips_spacing(bad[i], &x, &y));
    assert_true(x == 7 && y == 7);
}

/* ---- JPEG 2000 in TIFF ---- */

enum { JP2K_SIDE = 64 };

/* A codestream of three channels of one value each, which is `step` more in the right half; mct: as
 * of RGB. *bytes: heap. */
static void encode_jp2k(const int values[3], int step, bool mct, char **bytes, size_t *n)
{
    char path[128];
    opj_cparameters_t parameters;
    opj_image_cmptparm_t channels[3] = { { .dx = 0 } };
    for (int c = 0; c < 3; c++)
        channels[c] = (opj_image_cmptparm_t){
            .dx = 1, .dy = 1, .w = JP2K_SIDE, .h = JP2K_SIDE, .prec = 8, .bpp = 8
        };
    opj_image_t *image = opj_image_create(3, channels, OPJ_CLRSPC_SRGB);
    assert_non_null(image);
    image->x1 = image->y1 = JP2K_SIDE;
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < JP2K_SIDE * JP2K_SIDE; i++)
            image->comps[c].data[i] = values[c] + (i % JP2K_SIDE >= JP2K_SIDE / 2 ? step : 0);
    opj_set_default_encoder_parameters(&parameters);
    parameters.tcp_mct = mct;
    pyramid_path(directory, "tile.j2k", path);
    opj_codec_t *codec = opj_create_compress(OPJ_CODEC_J2K);
    opj_stream_t *stream = opj_stream_create_default_file_stream(path, OPJ_FALSE);
    assert_true(opj_setup_encoder(codec, &parameters, image) &&
                opj_start_compress(codec, image, stream) && opj_encode(codec, stream) &&
                opj_end_compress(codec, stream));
    opj_stream_destroy(stream);
    opj_destroy_codec(codec);
    opj_image_destroy(image);
    assert_int_equal(hrf_file_read(path, 1 << 20, bytes, n, NULL), HRF_OK);
}

static int accept_codec(TIFF *tiff, int scheme)
{
    (void)tiff, (void)scheme;
    return 1;
}

static void jpeg_2000_in_tiff_has_the_colours_that_its_codestream_has(void **state)
{
    (void)state;
    static const int rgb[3] = { 80, 195, 120 }, ycc[3] = { 152, 110, 77 }; /* the same colour */
    static const struct {
        uint16_t compression;
        bool is_ycc;
    } cases[] = { { 33003, false }, { 33003, true }, { 33004, false }, { 33005, false } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[128];
        HRF_AUTO_FREE char *bytes = NULL;
        size_t n;
        unsigned char pixels[JP2K_SIDE * JP2K_SIDE * 3];
        encode_jp2k(cases[i].is_ycc ? ycc : rgb, 0, !cases[i].is_ycc, &bytes, &n);
        pyramid_path(directory, "jp2k.tif", path);
        TIFFCodec *codec = TIFFRegisterCODEC(cases[i].compression, "raw", accept_codec);
        TIFF *tiff = TIFFOpen(path, "w");
        assert_non_null(tiff);
        TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, JP2K_SIDE);
        TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, JP2K_SIDE);
        TIFFSetField(tiff, TIFFTAG_TILEWIDTH, JP2K_SIDE);
        TIFFSetField(tiff, TIFFTAG_TILELENGTH, JP2K_SIDE);
        TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
        TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 3);
        TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
        TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_RGB);
        TIFFSetField(tiff, TIFFTAG_COMPRESSION, cases[i].compression);
        assert_int_equal(TIFFWriteRawTile(tiff, 0, bytes, (tmsize_t)n), (tmsize_t)n);
        TIFFClose(tiff);
        TIFFUnRegisterCODEC(codec);
        HRF_AUTO(hrf_slide) slide = NULL;
        struct hrf_error err = { .text = "" };
        if (hrf_slide_open(path, &slide, &err) != HRF_OK ||
            hrf_slide_read(slide, 0, 0, 0, JP2K_SIDE, JP2K_SIDE, pixels, NULL, &err) != HRF_OK)
            fail_msg("%u: %s", cases[i].compression, err.text);
        for (int c = 0; c < 3; c++)
            if (abs(pixels[c] - rgb[c]) > 2)
                fail_msg("%u, %s: channel %d is %d, not %d", cases[i].compression,
                         cases[i].is_ycc ? "YCbCr" : "RGB", c, pixels[c], rgb[c]);
    }
}

/* Both halves keep their colours, and nothing is written beyond the smaller tile. */
static void a_jpeg_2000_tile_is_decoded_at_a_coarser_resolution(void **state)
{
    (void)state;
    enum { STEP = 60 };
    static const int rgb[3] = { 80, 190, 120 };
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n;
    encode_jp2k(rgb, STEP, true, &bytes, &n);
    for (int32_t r = 1; r <= HRF_JP2K_MAX_REDUCTION; r *= 2) {
        const int side = JP2K_SIDE / r, edge = side / 4;
        const struct hrf_jp2k_form form = { .width = JP2K_SIDE,
                                            .height = JP2K_SIDE,
                                            .reduction = r };
        unsigned char pixels[JP2K_SIDE * JP2K_SIDE * 3 + 1];
        char reason[256];
        memset(pixels, 7, sizeof pixels);
        if (!hrf_jp2k_tile_decode(&form, bytes, n, pixels, reason))
            fail_msg("reduced by %d: %s", r, reason);
        for (int i = 0; i < side * side; i++)
            for (int c = 0; c < 3 && abs(i % side - side / 2) >= edge; c++)
                if (abs(pixels[3 * i + c] - rgb[c] - (i % side >= side / 2 ? STEP : 0)) > 4)
                    fail_msg("reduced by %d: pixel %d has %d in channel %d", r, i,
                             pixels[3 * i + c], c);
        assert_int_equal(pixels[side * side * 3], 7);
    }
}

int main(void)
{
    TIFFSetWarningHandler(NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_a_slide_is_refused_each_with_its_own_reason),
        cmocka_unit_test(pictures_that_openslide_refuses_are_slides_of_one_level),
        cmocka_unit_test(real_slides_say_what_they_are),
        cmocka_unit_test(a_large_read_is_the_same_pixels_as_many_small_ones),
        cmocka_unit_test(a_slide_damaged_inside_fails_on_reading_and_names_the_first_place),
        cmocka_unit_test(sparse_tiles_and_what_is_outside_are_white),
        cmocka_unit_test(a_mask_has_zeros_where_the_file_has_nothing),
        cmocka_unit_test(a_part_of_a_mask_is_read_at_the_centres_of_its_pixels),
        cmocka_unit_test(levels_smaller_than_their_tiles_are_never_blank),
        cmocka_unit_test(transparent_pixels_are_laid_on_white),
        cmocka_unit_test(a_read_of_no_level_or_no_pixels_is_a_bug_of_the_caller),
        cmocka_unit_test(the_resolution_of_real_slides_comes_from_where_they_have_it),
        cmocka_unit_test(sane_tiff_tags_are_believed_and_72_dpi_is_passed_over),
        cmocka_unit_test(the_philips_xml_gives_rows_before_columns_and_level_0_is_the_finest),
        cmocka_unit_test(ome_xml_gives_the_resolution_with_its_unit),
        cmocka_unit_test(the_power_of_the_objective_is_the_last_guess),
        cmocka_unit_test(a_philips_slide_has_its_spacing_from_openslide_and_left_out_tiles_white),
        cmocka_unit_test(damaged_philips_xml_gives_nothing),
        cmocka_unit_test(jpeg_2000_in_tiff_has_the_colours_that_its_codestream_has),
        cmocka_unit_test(a_jpeg_2000_tile_is_decoded_at_a_coarser_resolution),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
