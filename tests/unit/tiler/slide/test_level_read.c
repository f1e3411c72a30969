/* Pixels taken from the file's JPEG tiles, against OpenSlide's, bit for bit. */
#include "base/random.h"
#include "tests/unit/real_data.h"
#include "tests/unit/tiler/pyramid.h"
#include "tests/unit/unit.h"
#include "tiler/slide/level_read.h"
#include "tiler/slide/openslide_library.h"
#include "tiler/slide/slide_private.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>
#include <unistd.h>

enum { SIDE = 200 };

static struct hrf_slide *open_path(const char *path)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_slide *slide = NULL;
    if (hrf_slide_open(path, &slide, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return slide;
}

static struct hrf_slide *make_slide(const struct pyramid *p, const char *name)
{
    char path[128];
    pyramid_path(test_folder, name, path);
    pyramid_write(p, path);
    return open_path(path);
}

/* A region by OpenSlide alone, laid on white. */
static void read_openslide(openslide_t *os, const struct hrf_level_region *region,
                           unsigned char *rgb)
{
    static uint32_t argb[SIDE * SIDE];
    const int64_t step = llround(hrf_openslide()->level_downsample(os, region->grid.level));
    hrf_openslide()->read_region(os, argb, region->x * step, region->y * step, region->grid.level,
                                 region->width, region->height);
    assert_null(hrf_openslide()->error(os));
    for (int64_t i = 0; i < region->width * region->height; i++)
        for (int c = 0; c < 3; c++)
            rgb[3 * i + c] = (unsigned char)((argb[i] >> (16 - 8 * c) & 255) + 255 -
                                             (argb[i] >> 24));
}

/* Every row once and in order. */
struct visited {
    unsigned char *rgb;
    int64_t width, n_rows;
};

static void take_rows(void *context, int64_t row, int64_t n, const unsigned char *rgb,
                      int64_t stride)
{
    struct visited *v = context;
    assert_int_equal(row, v->n_rows);
    for (int64_t k = 0; k < n; k++)
        memcpy(v->rgb + (row + k) * v->width * 3, rgb + k * stride, (size_t)v->width * 3);
    v->n_rows += n;
}

static void check_visit(struct hrf_slide *slide, const struct hrf_level_region *region,
                        const unsigned char *expected)
{
    static unsigned char rgb[SIDE * SIDE * 3];
    struct visited v = { .rgb = rgb, .width = region->width };
    int64_t decode_ns = 0;
    assert_int_equal(hrf_level_visit(slide, region, take_rows, &v, &decode_ns, NULL, NULL), HRF_OK);
    assert_int_equal(v.n_rows, region->height);
    assert_memory_equal(rgb, expected, (size_t)(region->width * region->height * 3));
}

/* Regions all over a level and beyond its edges. */
static void compare_level(struct hrf_slide *slide, openslide_t *os, int32_t level)
{
    static unsigned char ours[SIDE * SIDE * 3], theirs[SIDE * SIDE * 3];
    struct hrf_random random = hrf_random_init(7);
    const int64_t width = slide->info.level[level].width, height = slide->info.level[level].height;
    for (int i = 0; i < 60; i++) {
        const struct hrf_level_region region = {
            .grid = { level, 1 },
            .x = hrf_random_below(&random, width + SIDE) - SIDE,
            .y = hrf_random_below(&random, height + SIDE) - SIDE,
            .width = 1 + hrf_random_below(&random, SIDE),
            .height = 1 + hrf_random_below(&random, SIDE)
        };
        struct hrf_error err = { .status = HRF_OK };
        if (hrf_level_read(slide, &region, ours, NULL, &err) != HRF_OK)
            fail_msg("%s", err.text);
        read_openslide(os, &region, theirs);
        if (memcmp(ours, theirs, (size_t)(region.width * region.height * 3)) != 0)
            fail_msg("level %d, %lld x %lld px at %lld, %lld differ", level,
                     (long long)region.width, (long long)region.height, (long long)region.x,
                     (long long)region.y);
        check_visit(slide, &region, theirs);
    }
}

/* Every level that OpenSlide reads at whole pixels; returns how many were raw. */
static int compare_slide(struct hrf_slide *slide, const char *path)
{
    openslide_t *os = hrf_openslide()->open(path);
    int n = 0;
    for (int32_t i = 0; i < slide->info.n_levels; i++) {
        const double downsample = slide->info.level[i].downsample;
        n += slide->table.level[i].offsets != NULL;
        if (downsample != round(downsample))
            continue;
        assert_true(hrf_level_has_tiles(slide, i, 1));
        compare_level(slide, os, i);
    }
    hrf_openslide()->close(os);
    return n;
}

static void real_slides_have_openslide_s_pixels(void **state)
{
    (void)state;
    static const char *const names[] = { "slides/cmu-1-small-region.svs",
                                         "slides/tcga-cr-7395-01a-01-ts1.svs" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[REAL_DATA_PATH];
        real_data(names[i], path);
        HRF_AUTO(hrf_slide) slide = open_path(path);
        print_message("%s: %d levels raw\n", names[i], compare_slide(slide, path));
    }
}

/* Colours that differ from pixel to pixel, so that chroma is smoothed across blocks. */
static void stripes(const void *context, int level, uint32_t x, uint32_t y, unsigned char rgba[4])
{
    (void)context;
    for (int c = 0; c < 3; c++)
        rgba[c] = (unsigned char)(128 +
                                  100 * sin(((int)x * (1 + c) + (int)y * (3 - c)) * 0.3 + level) +
                                  pyramid_noise(level, x, y, c) / 12);
}

/* A TIFF of one level, with the chroma of each tile at 1/h x 1/v, or RGB inside the JPEG. */
static void write_jpeg_tiff(const char *path, int h, int v, bool is_rgb)
{
    enum { TILE = 112, WIDTH = 500, HEIGHT = 300 };
    static unsigned char pixels[TILE * TILE * 3];
    TIFF *tiff = TIFFOpen(path, "w8");
    assert_non_null(tiff);
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, WIDTH);
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, HEIGHT);
    TIFFSetField(tiff, TIFFTAG_TILEWIDTH, TILE);
    TIFFSetField(tiff, TIFFTAG_TILELENGTH, TILE);
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
    TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 3);
    TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
    TIFFSetField(tiff, TIFFTAG_COMPRESSION, COMPRESSION_JPEG);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, is_rgb ? PHOTOMETRIC_RGB : PHOTOMETRIC_YCBCR);
    TIFFSetField(tiff, TIFFTAG_JPEGQUALITY, 85);
    if (!is_rgb) {
        TIFFSetField(tiff, TIFFTAG_YCBCRSUBSAMPLING, h, v);
        TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    }
    for (uint32_t y = 0; y < HEIGHT; y += TILE)
        for (uint32_t x = 0; x < WIDTH; x += TILE) {
            for (uint32_t i = 0; i < TILE * TILE; i++) {
                unsigned char rgba[4];
                stripes(NULL, 0, x + i % TILE, y + i / TILE, rgba);
                memcpy(pixels + 3 * i, rgba, 3);
            }
            assert_true(TIFFWriteTile(tiff, pixels, x, y, 0, 0) > 0);
        }
    TIFFClose(tiff);
}

static void every_chroma_subsampling_and_rgb_have_openslide_s_pixels(void **state)
{
    (void)state;
    static const struct {
        int h, v;
        bool is_rgb;
    } cases[] = { { 1, 1, false }, { 2, 1, false }, { 2, 2, false }, { 1, 1, true } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[128];
        pyramid_path(test_folder, "chroma.tif", path);
        write_jpeg_tiff(path, cases[i].h, cases[i].v, cases[i].is_rgb);
        HRF_AUTO(hrf_slide) slide = open_path(path);
        assert_int_equal(compare_slide(slide, path), 1);
    }
}

static void tiles_that_are_not_jpeg_are_openslide_s_too(void **state)
{
    (void)state;
    struct pyramid p = { .tile = 64, .pixel = stripes };
    char path[128];
    pyramid_halve(&p, 640, 384, 96);
    pyramid_path(test_folder, "deflate.tif", path);
    HRF_AUTO(hrf_slide) deflate = make_slide(&p, "deflate.tif");
    assert_int_equal(compare_slide(deflate, path), 0);
    p.jpeg = true;
    pyramid_path(test_folder, "pyramid.tif", path);
    HRF_AUTO(hrf_slide) jpeg = make_slide(&p, "pyramid.tif");
    assert_int_equal(compare_slide(jpeg, path), p.n_levels);
}

/* The mean difference of `out` from the means of r x r pixels of the level. */
static double mean_difference(struct hrf_slide *slide, int32_t r, int64_t x, int64_t y,
                              int64_t side)
{
    static unsigned char whole[SIDE * SIDE * 3], reduced[SIDE * SIDE * 3];
    const struct hrf_level_region all = {
        .grid = { 0, 1 }, .x = x * r, .y = y * r, .width = side * r, .height = side * r
    };
    const struct hrf_level_region part = {
        .grid = { 0, r }, .x = x, .y = y, .width = side, .height = side
    };
    double sum = 0;
    assert_int_equal(hrf_level_read(slide, &all, whole, NULL, NULL), HRF_OK);
    assert_int_equal(hrf_level_read(slide, &part, reduced, NULL, NULL), HRF_OK);
    for (int64_t i = 0; i < side * side * 3; i++) {
        double mean = 0;
        for (int64_t k = 0; k < r * r; k++)
            mean += whole[((i / 3 / side * r + k / r) * side * r + i / 3 % side * r + k % r) * 3 +
                          i % 3];
        sum += fabs(reduced[i] - mean / (double)(r * r));
    }
    return sum / (double)(side * side * 3);
}

static void smooth(const void *context, int level, uint32_t x, uint32_t y, unsigned char rgba[4])
{
    (void)context, (void)level;
    for (int c = 0; c < 3; c++)
        rgba[c] = (unsigned char)(128 + 100 * sin(((int)x * (1 + c) + (int)y * (3 - c)) * 0.02));
}

static void half_and_quarter_are_near_the_means_and_in_their_place(void **state)
{
    (void)state;
    struct pyramid p = {
        .tile = 64, .pixel = smooth, .jpeg = true, .n_levels = 1, .level = { { 600, 500 } }
    };
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "reduced.tif");
    for (int32_t r = 2; r <= 4; r *= 2) {
        assert_true(hrf_level_has_tiles(slide, 0, r));
        assert_true(mean_difference(slide, r, 37, 11, 50) < 1.5);
    }
    assert_false(hrf_level_has_tiles(slide, 0, 8));
}

struct readers {
    struct hrf_slide *slide;
    bool differs;
};

static void *read_rows_of_regions(void *context)
{
    struct readers *readers = context;
    static _Thread_local unsigned char rgb[SIDE * SIDE * 3];
    for (int64_t y = 0; y + 100 <= 512; y += 50)
        for (int64_t x = 0; x + 100 <= 512; x += 50) {
            const struct hrf_level_region region = {
                .grid = { 0, 1 }, .x = x, .y = y, .width = 100, .height = 100
            };
            if (hrf_level_read(readers->slide, &region, rgb, NULL, NULL) != HRF_OK)
                readers->differs = true;
            hrf_level_done(readers->slide, &region);
        }
    return NULL;
}

static void expect_regions(struct hrf_slide *slide, int times)
{
    for (int64_t y = 0; y + 100 <= 512; y += 50)
        for (int64_t x = 0; x + 100 <= 512; x += 50) {
            const struct hrf_level_region region = {
                .grid = { 0, 1 }, .x = x, .y = y, .width = 100, .height = 100
            };
            for (int i = 0; i < times; i++)
                assert_int_equal(hrf_level_expect(slide, &region, NULL), HRF_OK);
        }
}

/* Regions that overlap by half, read by three threads: 64 tiles of 64 px, decoded once each, and no
 * more of them kept than two rows and what is being read. */
static void a_tile_is_decoded_once_and_kept_no_longer_than_needed(void **state)
{
    (void)state;
    struct pyramid p = {
        .tile = 64, .pixel = smooth, .jpeg = true, .n_levels = 1, .level = { { 512, 512 } }
    };
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "once.tif");
    pthread_t threads[3];
    struct readers readers[3] = { { slide, false }, { slide, false }, { slide, false } };
    expect_regions(slide, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_rows_of_regions, &readers[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_false(readers[i].differs);
    }
    hrf_level_expect_none(slide);
    const struct hrf_tile_counts counts = hrf_tile_cache_counts(slide->cache);
    assert_int_equal(counts.loads, 64);
    HRF_AUTO(hrf_slide) alone = make_slide(&p, "once.tif");
    expect_regions(alone, 1);
    struct readers one = { alone, false };
    read_rows_of_regions(&one);
    assert_int_equal(hrf_tile_cache_counts(alone->cache).loads, 64);
    assert_true(hrf_tile_cache_counts(alone->cache).peak_bytes <= 3 * 8 * 64 * 64 * 3);
}

static enum hrf_status fill_with_reduction(void *context, struct hrf_tile_grid grid, int64_t column,
                                           int64_t row, unsigned char *rgb, struct hrf_error *err)
{
    (void)context, (void)column, (void)row, (void)err;
    *rgb = (unsigned char)grid.reduction;
    return HRF_OK;
}

/* Where patches of a level are announced at one reduction, tiles of the same level at another are
 * neither taken for those nor let go as if nobody wanted them. */
static void a_reduction_of_a_level_has_tiles_of_its_own(void **state)
{
    (void)state;
    HRF_AUTO(hrf_tile_cache) cache = NULL;
    hrf_tile_cache_create(1 << 20, &cache);
    const struct hrf_tile_range first = { 0, 1, 0, 1 };
    assert_int_equal(
        hrf_tile_cache_expect(cache, (struct hrf_tile_grid){ 0, 0 }, 2, 1, first, NULL), HRF_OK);
    for (int32_t i = 0; i < 6; i++) {
        const struct hrf_tile_grid grid = { 0, i % 3 };
        struct hrf_tile *tile = NULL;
        const unsigned char *rgb = NULL;
        assert_int_equal(
            hrf_tile_cache_get(cache, grid, 1, 0, 1, fill_with_reduction, NULL, &tile, &rgb, NULL),
            HRF_OK);
        assert_int_equal(*rgb, grid.reduction);
        hrf_tile_cache_put(cache, tile);
    }
    assert_int_equal(hrf_tile_cache_counts(cache).hits, 2);  /* of the other two reductions */
    assert_int_equal(hrf_tile_cache_counts(cache).loads, 4); /* (0, 1) was not announced */
}

/* Bytes of a tile that are no JPEG: the read fails and names the tile's place, as before. */
static void a_damaged_tile_fails_by_name_and_place(void **state)
{
    (void)state;
    struct pyramid p = {
        .tile = 64, .pixel = smooth, .jpeg = true, .n_levels = 1, .level = { { 256, 256 } }
    };
    char path[128];
    pyramid_path(test_folder, "bad.tif", path);
    pyramid_write(&p, path);
    TIFF *tiff = TIFFOpen(path, "r");
    const uint64_t offset = TIFFGetStrileOffset(tiff, TIFFComputeTile(tiff, 128, 64, 0, 0));
    TIFFClose(tiff);
    HRF_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    static const unsigned char zeros[64];
    assert_int_equal(pwrite(fd, zeros, sizeof zeros, (off_t)offset), sizeof zeros);
    HRF_AUTO(hrf_slide) slide = open_path(path);
    unsigned char rgb[3];
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_slide_read(slide, 0, 10, 10, 1, 1, rgb, NULL, NULL), HRF_OK);
    assert_int_equal(hrf_slide_read(slide, 0, 130, 100, 1, 1, rgb, NULL, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "bad.tif' is damaged: reading fails at x 128, y 64, level 0"));
}

int main(void)
{
    TIFFSetWarningHandler(NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_slides_have_openslide_s_pixels),
        cmocka_unit_test(every_chroma_subsampling_and_rgb_have_openslide_s_pixels),
        cmocka_unit_test(tiles_that_are_not_jpeg_are_openslide_s_too),
        cmocka_unit_test(half_and_quarter_are_near_the_means_and_in_their_place),
        cmocka_unit_test(a_tile_is_decoded_once_and_kept_no_longer_than_needed),
        cmocka_unit_test(a_reduction_of_a_level_has_tiles_of_its_own),
        cmocka_unit_test(a_damaged_tile_fails_by_name_and_place),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
