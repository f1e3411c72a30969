/* Feeds that give compressed tiles: images cut out of them by plain loops are those of a feed that
 * decodes; what is damaged or of another form is told. */
#include "tests/unit/unit.h"

#include "base/random.h"
#include "engine/input/feed.h"
#include "tests/unit/tiler/pyramid.h"
#include "tiler/slide/jpeg_stream.h"
#include "tiler/slide/slide_private.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 700, TILE = 64, PATCH = 96, N_PATCHES = 60, BATCH = 8 };

static struct hrf_patch patches[N_PATCHES];
static struct hrf_tile_plan plan = { .slide_path = (char *)(uintptr_t) "a slide",
                                     .mpp_x = 0.5,
                                     .mpp_y = 0.5,
                                     .patch_size = PATCH,
                                     .patch_mpp = 0.5,
                                     .n_patches = N_PATCHES,
                                     .patches = patches };

static void smooth_pixel(const void *context, int level, uint32_t x, uint32_t y,
                         unsigned char rgba[4])
{
    (void)context;
    (void)level;
    rgba[0] = (unsigned char)(x / 3);
    rgba[1] = (unsigned char)(y / 3 + pyramid_noise(0, x, y, 1) / 8);
    rgba[2] = (unsigned char)((x + y) / 6);
}

static bool is_left_out(const void *context, int level, uint32_t column, uint32_t row)
{
    (void)context;
    return level == 0 && column == 4 && row == 3;
}

static void write_slide(const char *name, bool is_jpeg, bool is_rgb)
{
    const struct pyramid p = { .n_levels = 1,
                               .level = { { SIDE, SIDE } },
                               .tile = TILE,
                               .jpeg = is_jpeg,
                               .rgb = is_rgb,
                               .is_sparse = is_left_out,
                               .pixel = smooth_pixel };
    char path[128];
    pyramid_path(test_folder, name, path);
    pyramid_write(&p, path);
}

/* Patches over every edge of the image, the tile that is left out, and one that is a whole tile's
 * neighbours. */
static int make_slides(void **state)
{
    struct hrf_random random = hrf_random_init(3);
    make_test_folder(state);
    for (int i = 0; i < N_PATCHES; i++)
        patches[i] = (struct hrf_patch){
            .x = (int32_t)hrf_random_below(&random, SIDE + PATCH) - PATCH,
            .y = (int32_t)hrf_random_below(&random, SIDE + PATCH) - PATCH
        };
    patches[7] = (struct hrf_patch){ .x = 4 * TILE, .y = 3 * TILE };
    patches[8] = (struct hrf_patch){ .x = 0, .y = 0 };
    write_slide("jpeg.tif", true, false);
    write_slide("rgb.tif", true, true);
    write_slide("deflate.tif", false, false);
    return 0;
}

static struct hrf_slide *open_slide(const char *name)
{
    char path[128];
    struct hrf_slide *slide = NULL;
    pyramid_path(test_folder, name, path);
    assert_int_equal(hrf_slide_open(path, &slide, NULL), HRF_OK);
    return slide;
}

static struct hrf_feed_config config_of(struct hrf_slide *slide, bool gives_tiles)
{
    return (struct hrf_feed_config){ .slide = slide,
                                     .plan = &plan,
                                     .n_patches = N_PATCHES,
                                     .batch = BATCH,
                                     .std = { 1, 1, 1 },
                                     .forms = { { .raw = true } },
                                     .n_forms = 1,
                                     .n_readers = 3,
                                     .reads_ahead = true,
                                     .gives_tiles = gives_tiles };
}

/* What a device makes of a batch. */
static void decode(const struct hrf_tile_batch *b, unsigned char *out)
{
    const struct hrf_jpeg_form form = { .is_ycc = !b->is_rgb,
                                        .width = b->tile_width,
                                        .height = b->tile_height };
    const size_t n = (size_t)(b->tile_width * b->tile_height * 3);
    unsigned char *tiles = hrf_alloc_array((size_t)b->n_tiles + 1, n);
    memset(out, 255, (size_t)(b->n_images * b->side * b->n_rows * 3));
    for (int32_t i = 0; i < b->n_tiles; i++) {
        const unsigned char *frame = b->streams[i];
        while (frame[0] != 0xff || frame[1] != 0xc0)
            frame++;
        for (int c = 0; c < 3; c++) /* so that no decoder takes them for R, G and B */
            assert_int_equal(frame[10 + 3 * c], c + 1);
        assert_true(
            hrf_jpeg_tile_decode(&form, b->streams[i], b->lengths[i], 1, tiles + (size_t)i * n));
        for (int32_t k = 0; k < i; k++)
            assert_memory_not_equal(b->positions[i], b->positions[k], sizeof b->positions[i]);
    }
    for (int32_t i = 0; i < b->n_cuts; i++) {
        const struct hrf_tile_cut *cut = &b->cuts[i];
        for (int32_t row = 0; row < cut->height; row++)
            memcpy(out + ((cut->image * b->n_rows + cut->y + row) * b->side + cut->x) * 3,
                   tiles + (size_t)cut->tile * n +
                       ((cut->tile_y + row) * b->tile_width + cut->tile_x) * 3,
                   (size_t)cut->width * 3);
    }
    hrf_free(tiles);
}

static void check_cut(const char *name, bool is_rgb)
{
    static unsigned char images[BATCH * PATCH * PATCH * 3];
    HRF_AUTO(hrf_slide) slide = open_slide(name);
    HRF_AUTO(hrf_slide) other = open_slide(name);
    HRF_AUTO(hrf_feed) pixels = NULL;
    HRF_AUTO(hrf_feed) tiles = NULL;
    const struct hrf_feed_config by_cpu = config_of(slide, false),
                                 by_device = config_of(other, true);
    const char *why = "";
    assert_int_equal(hrf_feed_no_tiles(&by_device, &why, NULL), HRF_OK);
    assert_null(why);
    assert_int_equal(hrf_feed_create(&by_cpu, &pixels, NULL), HRF_OK);
    assert_int_equal(hrf_feed_create(&by_device, &tiles, NULL), HRF_OK);
    int64_t n_read = 0;
    for (struct hrf_feed_batch a, b;;) {
        assert_int_equal(hrf_feed_next(pixels, &a, NULL), HRF_OK);
        assert_int_equal(hrf_feed_next(tiles, &b, NULL), HRF_OK);
        assert_int_equal(a.n, b.n);
        assert_null(a.tiles);
        if (a.n == 0)
            break;
        assert_int_equal(b.tiles->n_images, b.n);
        assert_true(b.tiles->is_rgb == is_rgb);
        assert_memory_equal(a.patches, b.patches, (size_t)a.n * sizeof *a.patches);
        decode(b.tiles, images);
        assert_memory_equal(images, a.pixels[0], (size_t)a.n * PATCH * PATCH * 3);
        assert_memory_equal(b.tiles->witness, a.pixels[0], PATCH * PATCH * 3);
        n_read += b.n;
    }
    assert_int_equal(n_read, N_PATCHES);
    assert_int_equal(hrf_feed_times(tiles).n_patches, N_PATCHES);
}

static void cut_tiles_are_the_patches(void **state)
{
    (void)state;
    check_cut("jpeg.tif", false);
    check_cut("rgb.tif", true);
}

static void a_slide_that_gives_no_tiles_says_why(void **state)
{
    (void)state;
    const char *why = NULL;
    HRF_AUTO(hrf_slide) deflate = open_slide("deflate.tif");
    HRF_AUTO(hrf_slide) slide = open_slide("jpeg.tif");
    struct hrf_feed_config config = config_of(deflate, true);
    assert_int_equal(hrf_feed_no_tiles(&config, &why, NULL), HRF_OK);
    assert_string_equal(why, "its tiles are not JPEG tiles that can be taken from the file");
    config = config_of(slide, true);
    config.forms[0].raw = false;
    assert_int_equal(hrf_feed_no_tiles(&config, &why, NULL), HRF_OK);
    assert_string_equal(why, "not every network takes pixels as bytes");
    config = config_of(slide, true);
    plan.patch_mpp = 0.75;
    assert_int_equal(hrf_feed_no_tiles(&config, &why, NULL), HRF_OK);
    plan.patch_mpp = 0.5;
    assert_string_equal(why, "its patches are resampled from another resolution");
}

/* The first failure of a feed with these tiles. */
static void fail_of(const char *name, bool gives_tiles, struct hrf_error *err)
{
    HRF_AUTO(hrf_slide) slide = open_slide(name);
    HRF_AUTO(hrf_feed) feed = NULL;
    struct hrf_feed_config config = config_of(slide, gives_tiles);
    config.n_readers = 1; /* which comes upon it first */
    struct hrf_feed_batch batch = { .n = 1 };
    assert_int_equal(hrf_feed_create(&config, &feed, err), HRF_OK);
    while (batch.n > 0)
        if (hrf_feed_next(feed, &batch, err) != HRF_OK)
            return;
    fail_msg("nothing failed");
}

/* By its name and bytes, as where the CPU decodes. */
static void a_damaged_tile_fails_as_in_a_feed_that_decodes(void **state)
{
    (void)state;
    static const unsigned char zeros[40];
    char path[128];
    struct hrf_error by_cpu = { .text = "" }, by_device = { .text = "" };
    write_slide("damaged.tif", true, false);
    HRF_AUTO(hrf_slide) slide = open_slide("damaged.tif");
    const struct hrf_level_table *table = &slide->table.level[0];
    const uint64_t at = table->offsets[5 * table->columns + 5];
    pyramid_path(test_folder, "damaged.tif", path);
    HRF_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, zeros, sizeof zeros, (off_t)at), sizeof zeros);
    fail_of("damaged.tif", false, &by_cpu);
    fail_of("damaged.tif", true, &by_device);
    assert_non_null(strstr(by_cpu.text, "tile 5, 5"));
    assert_string_equal(by_cpu.text, by_device.text);
}

static void only_plain_jpegs_become_streams(void **state)
{
    (void)state;
    HRF_AUTO(hrf_slide) slide = open_slide("jpeg.tif");
    const struct hrf_level_table *table = &slide->table.level[0];
    const size_t n = table->lengths[0], most = hrf_jpeg_stream_max(&table->form, n + 64);
    unsigned char *data = hrf_alloc(n + 64), *out = hrf_alloc(most), *whole = hrf_alloc(most);
    assert_int_equal(pread(slide->table.fd, data, n, (off_t)table->offsets[0]), (ssize_t)n);
    const size_t length = hrf_jpeg_stream_make(&table->form, data, n, whole);
    assert_true(length > 0);
    assert_memory_equal(whole + length - 2, "\xff\xd9", 2);
    for (size_t cut = 0; cut < n; cut++) /* what is behind the end marker is not needed */
        assert_int_equal(hrf_jpeg_stream_make(&table->form, data, cut, out), 0);
    memset(data + n, 0, 64);
    assert_int_equal(hrf_jpeg_stream_make(&table->form, data, n + 64, out), length);
    assert_memory_equal(out, whole, length);
    size_t frame = 0;
    while (data[frame] != 0xff || data[frame + 1] != 0xc0)
        frame++;
    static const struct {
        size_t at;
        unsigned char value;
    } faults[] = { { 1, 0xc2 }, { 1, 0xc1 }, { 4, 12 }, { 6, TILE / 2 }, { 9, 4 } };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        const unsigned char before = data[frame + faults[i].at];
        data[frame + faults[i].at] = faults[i].value;
        assert_int_equal(hrf_jpeg_stream_make(&table->form, data, n, out), 0);
        data[frame + faults[i].at] = before;
    }
    memcpy(data + n - 8, "\xff\xe0\x00\x02", 4); /* a marker within the scan */
    assert_int_equal(hrf_jpeg_stream_make(&table->form, data, n, out), 0);
    hrf_free(data);
    hrf_free(out);
    hrf_free(whole);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_tiles_are_the_patches),
        cmocka_unit_test(a_slide_that_gives_no_tiles_says_why),
        cmocka_unit_test(a_damaged_tile_fails_as_in_a_feed_that_decodes),
        cmocka_unit_test(only_plain_jpegs_become_streams),
    };
    return cmocka_run_group_tests(tests, make_slides, remove_test_folder);
}
