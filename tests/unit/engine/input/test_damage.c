/* What damage to one level of a pyramid leads to: a table of every level and every kind of damage.
 *
 * Each row damages a copy of a sound slide, tiles it and reads its patches as an infer task does.
 * Either a sentence says what is wrong, or the patches are those of the sound slide: the same
 * places, and pixels that are the same or, as a mean of every 64 um square, off by at most the
 * stated bound. HRF_DAMAGE_TABLE=1 prints all rows, not only bad ones.
 */
#include "base/file.h"
#include "engine/input/feed.h"
#include "engine/input/plan_readers.h"
#include "tests/unit/tiler/pyramid.h"
#include "tests/unit/unit.h"
#include "tiler/plan/tile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIDE = 2048, /* px at 0.5 um: 16 x 16 tiles of 64 um */
    TILE = 128,
    PATCH = 128,
    SQUARE = 128, /* px of the squares that the bound is for */
    BOUND = 48    /* of 255: the check's tolerance of 32, and what sound levels differ by */
};
/* Every row, or every third where the sanitizers make each one slow. */
#ifdef __SANITIZE_ADDRESS__
enum { STEP = 3 };
#else
enum { STEP = 1 };
#endif
static const double mpp = 0.5;

/* Stained tissue, a disc of 0.5 mm across on noisy glass. Its texture is coarser than a pixel of
 * the coarsest level, so that a pixel of any level is its value in the middle. */
static void slide_pixel(const void *context, int level, uint32_t x, uint32_t y,
                        unsigned char rgba[4])
{
    const struct pyramid *p = context;
    const double scale = (double)SIDE / p->level[level].width;
    const double u = (x + 0.5) * scale, v = (y + 0.5) * scale;
    const double wave = sin(u / 60) * sin(v / 75) + sin((u + 2 * v) / 200);
    const double dx = u - 0.5 * SIDE, dy = v - 0.5 * SIDE;
    const bool is_tissue = dx * dx + dy * dy < 500.0 * 500.0;
    const int noise = pyramid_noise(level, x, y, 0) % 5 - 2;
    rgba[0] = (unsigned char)((is_tissue ? 185 + 12 * wave : 242) + noise);
    rgba[1] = (unsigned char)((is_tissue ? 110 + 16 * wave : 241) + noise);
    rgba[2] = (unsigned char)((is_tissue ? 165 + 10 * wave : 243) + noise);
}

/* ---- a TIFF's bytes ---- */

struct file {
    unsigned char *bytes;
    size_t n_bytes;
};

/* An array of a directory: where its numbers stand, and of how many bytes each. */
struct array {
    size_t at, width;
    uint32_t n;
};

struct directory {
    struct array tile_width, tile_height, offsets, counts;
    uint32_t columns;
};

static uint32_t get(const struct file *f, size_t at, size_t width)
{
    uint32_t value = 0;
    for (size_t i = 0; i < width; i++)
        value |= (uint32_t)f->bytes[at + i] << 8 * i;
    return value;
}

static void put(struct file *f, size_t at, size_t width, uint32_t value)
{
    for (size_t i = 0; i < width; i++)
        f->bytes[at + i] = (unsigned char)(value >> 8 * i);
}

/* Directory number `level` of a classic little-endian TIFF. */
static struct directory find_directory(const struct file *f, int level)
{
    enum { IMAGE_WIDTH = 256, TILE_WIDTH = 322, TILE_HEIGHT, TILE_OFFSETS, TILE_COUNTS, SHORT = 3 };
    struct directory d = { .columns = 0 };
    size_t at = get(f, 4, 4);
    for (; level > 0; level--)
        at = get(f, at + 2 + get(f, at, 2) * 12, 4);
    const uint32_t n = get(f, at, 2);
    for (size_t entry = at + 2; entry < at + 2 + n * 12; entry += 12) {
        const uint32_t tag = get(f, entry, 2);
        struct array array = { .width = get(f, entry + 2, 2) == SHORT ? 2 : 4,
                               .n = get(f, entry + 4, 4) };
        array.at = array.n * array.width <= 4 ? entry + 8 : get(f, entry + 8, 4);
        if (tag == IMAGE_WIDTH)
            d.columns = (get(f, array.at, array.width) + TILE - 1) / TILE;
        else if (tag >= TILE_WIDTH && tag <= TILE_COUNTS)
            (&d.tile_width)[tag - TILE_WIDTH] = array;
    }
    return d;
}

static uint32_t element(const struct file *f, const struct array *array, uint32_t i)
{
    return get(f, array->at + i * array->width, array->width);
}

static void set_element(struct file *f, const struct array *array, uint32_t i, uint32_t value)
{
    put(f, array->at + i * array->width, array->width, value);
}

/* ---- kinds of damage, to one tile; `n` is what the table gives with it ---- */

typedef void apply_damage(struct file *f, const struct directory *d, uint32_t tile, int n);

static void cut(struct file *f, const struct directory *d, uint32_t tile, int n)
{
    f->n_bytes = element(f, &d->offsets, tile) + (uint32_t)n;
}

/* The byte at n eighths of the data. */
static void flip_data(struct file *f, const struct directory *d, uint32_t tile, int n)
{
    f->bytes[element(f, &d->offsets, tile) + element(f, &d->counts, tile) * (uint32_t)n / 8] ^=
        0xff;
}

static void flip_bit(struct file *f, const struct directory *d, uint32_t tile, int n)
{
    f->bytes[element(f, &d->offsets, tile) + element(f, &d->counts, tile) * (uint32_t)n / 8] ^= 8;
}

/* Byte n of the number in the table. */
static void flip_offset(struct file *f, const struct directory *d, uint32_t tile, int n)
{
    f->bytes[d->offsets.at + tile * d->offsets.width + (uint32_t)n] ^= 8;
}

static void flip_count(struct file *f, const struct directory *d, uint32_t tile, int n)
{
    f->bytes[d->counts.at + tile * d->counts.width + (uint32_t)n] ^= 8;
}

static void no_count(struct file *f, const struct directory *d, uint32_t tile, int n)
{
    (void)n;
    set_element(f, &d->counts, tile, 0);
}

static void no_offset(struct file *f, const struct directory *d, uint32_t tile, int n)
{
    (void)n;
    set_element(f, &d->offsets, tile, 0);
}

static void lose(struct file *f, const struct directory *d, uint32_t tile, int n)
{
    no_count(f, d, tile, n);
    no_offset(f, d, tile, n);
}

/* A JPEG that ends as it begins. */
static void empty_jpeg(struct file *f, const struct directory *d, uint32_t tile, int n)
{
    (void)n;
    memcpy(f->bytes + element(f, &d->offsets, tile), "\xff\xd8\xff\xd9", 4);
    set_element(f, &d->counts, tile, 4);
}

static void halve_count(struct file *f, const struct directory *d, uint32_t tile, int n)
{
    (void)n;
    set_element(f, &d->counts, tile, element(f, &d->counts, tile) / 2);
}

/* As after a copy with holes: from n eighths on. */
static void zero_data(struct file *f, const struct directory *d, uint32_t tile, int n)
{
    const uint32_t count = element(f, &d->counts, tile), from = count * (uint32_t)n / 8;
    memset(f->bytes + element(f, &d->offsets, tile) + from, 0, count - from);
}

/* The tile in the corner, which is glass. */
static void wrong_tile(struct file *f, const struct directory *d, uint32_t tile, int n)
{
    (void)n;
    set_element(f, &d->offsets, tile, element(f, &d->offsets, 0));
    set_element(f, &d->counts, tile, element(f, &d->counts, 0));
}

static void tile_size(struct file *f, const struct directory *d, uint32_t tile, int n)
{
    (void)tile;
    set_element(f, &d->tile_width, 0, (uint32_t)n);
    set_element(f, &d->tile_height, 0, (uint32_t)n);
}

static void tile_width(struct file *f, const struct directory *d, uint32_t tile, int n)
{
    (void)tile;
    set_element(f, &d->tile_width, 0, (uint32_t)n);
}

static const struct {
    const char *name;
    apply_damage *apply;
    int n;
    bool whole_level; /* of every tile, not of one in the tissue */
} damages[] = {
    { "cut before the tile", cut, 0, false },
    { "cut in the tile", cut, 40, false },
    { "flipped byte at 0/8 of the data", flip_data, 0, false },
    { "flipped byte at 1/8 of the data", flip_data, 1, false },
    { "flipped byte at 3/8 of the data", flip_data, 3, false },
    { "flipped byte at 5/8 of the data", flip_data, 5, false },
    { "flipped byte at 7/8 of the data", flip_data, 7, false },
    { "flipped bit at 1/8 of the data", flip_bit, 1, false },
    { "flipped bit at 4/8 of the data", flip_bit, 4, false },
    { "flipped byte 0 of the offset", flip_offset, 0, false },
    { "flipped byte 1 of the offset", flip_offset, 1, false },
    { "flipped byte 2 of the offset", flip_offset, 2, false },
    { "flipped byte 3 of the offset", flip_offset, 3, false },
    { "flipped byte 0 of the count", flip_count, 0, false },
    { "flipped byte 1 of the count", flip_count, 1, false },
    { "count 0 of a tile", no_count, 0, false },
    { "count 0 of every tile", no_count, 0, true },
    { "offset 0 of a tile", no_offset, 0, false },
    { "offset 0 of every tile", no_offset, 0, true },
    { "lost tile", lose, 0, false },
    { "every tile lost", lose, 0, true },
    { "empty JPEG of a tile", empty_jpeg, 0, false },
    { "empty JPEG of every tile", empty_jpeg, 0, true },
    { "half a tile", halve_count, 0, false },
    { "half of every tile", halve_count, 0, true },
    { "zeros for a tile", zero_data, 0, false },
    { "zeros for the end of a tile", zero_data, 4, false },
    { "zeros for the end of every tile", zero_data, 4, true },
    { "another tile in its place", wrong_tile, 0, false },
    { "one tile for all", wrong_tile, 0, true },
    { "tiles twice as large", tile_size, 2 * TILE, false },
    { "tiles half as large", tile_size, TILE / 2, false },
    { "tiles half as wide", tile_width, TILE / 2, false },
    { "tiles 16 px wider", tile_width, TILE + 16, false },
};

/* ---- what the product makes of it ---- */

struct patches {
    char hash[HRF_HASH_HEX];
    int64_t n;
    unsigned char *pixels; /* [n][PATCH][PATCH][3]; heap */
};

static enum hrf_status read_all(struct hrf_slide *slide, const struct hrf_tile_plan *plan,
                                struct patches *out, struct hrf_error *err)
{
    const size_t bytes = (size_t)PATCH * PATCH * 3;
    const struct hrf_feed_config config = { .slide = slide,
                                            .plan = plan,
                                            .n_patches = plan->n_patches,
                                            .batch = 4,
                                            .forms = { { .raw = true } },
                                            .std = { 1, 1, 1 },
                                            .n_readers = 2,
                                            .n_ahead = 2 };
    HRF_AUTO(hrf_feed) feed = NULL;
    struct hrf_feed_batch batch;
    memcpy(out->hash, plan->hash, sizeof out->hash);
    out->n = plan->n_patches;
    out->pixels = hrf_alloc_array((size_t)out->n + 1, bytes);
    assert_non_null(out->pixels);
    HRF_TRY(hrf_feed_create(&config, &feed, err));
    do {
        HRF_TRY(hrf_feed_next(feed, &batch, err));
        for (int64_t i = 0; i < batch.n; i++)
            memcpy(out->pixels + (size_t)batch.patches[i] * bytes,
                   (const uint8_t *)batch.pixels[0] + (size_t)i * bytes, bytes);
    } while (batch.n > 0);
    return HRF_OK;
}

/* Tiles the slide and reads its patches, as a run does. */
static enum hrf_status use(const char *path, struct patches *out, struct hrf_error *err)
{
    const struct hrf_workflow_tiler params = {
        .patch = { .size = PATCH, .stride = PATCH, .mpp = mpp },
        .tissue = { .min_tissue = 0.5, .min_patches = 4 }
    };
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    HRF_AUTO(hrf_slide) slide = NULL;
    HRF_TRY(hrf_tile_slide(path, &params, mpp, 0, NULL, &plan, err));
    HRF_TRY(hrf_slide_open(path, &slide, err));
    return read_all(slide, plan, out, err);
}

/* The largest difference of a square's mean in one channel. */
static double worst_square(const struct patches *a, const struct patches *b)
{
    double worst = 0;
    for (int64_t patch = 0; patch < a->n; patch++)
        for (int y0 = 0; y0 < PATCH; y0 += SQUARE)
            for (int x0 = 0; x0 < PATCH; x0 += SQUARE)
                for (int c = 0; c < 3; c++) {
                    int64_t sum = 0;
                    for (int y = y0; y < y0 + SQUARE; y++)
                        for (int x = x0; x < x0 + SQUARE; x++) {
                            const int64_t at = ((patch * PATCH + y) * PATCH + x) * 3 + c;
                            sum += a->pixels[at] - b->pixels[at];
                        }
                    worst = fmax(worst, fabs((double)sum) / (SQUARE * SQUARE));
                }
    return worst;
}

/* In words; *is_good: a sentence names the damage, or it does no harm. */
static void judge(const char *path, const struct patches *sound, char out[1200], bool *is_good)
{
    struct patches found = { .n = 0 };
    struct hrf_error err = { .status = HRF_OK };
    const enum hrf_status status = use(path, &found, &err);
    if (status != HRF_OK) {
        *is_good = status == HRF_E_USER && strstr(err.text, test_folder) != NULL;
        snprintf(out, 1200, "%s: %s", *is_good ? "told" : "WRONGLY TOLD", err.text);
    } else if (strcmp(found.hash, sound->hash) != 0) {
        *is_good = false;
        snprintf(out, 1200, "OTHER PATCHES: %lld of %lld", (long long)found.n, (long long)sound->n);
    } else {
        const double worst = worst_square(&found, sound);
        *is_good = worst <= BOUND;
        snprintf(out, 1200, "%s: %.1f of 255", *is_good ? "harmless" : "OTHER PIXELS", worst);
    }
    hrf_free(found.pixels);
}

static void write_file(const struct file *f, const char *path)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(f->bytes, 1, f->n_bytes, out), f->n_bytes);
    assert_int_equal(fclose(out), 0);
}

static void damage_level(const struct file *sound_file, const struct patches *sound, int level,
                         int *n_bad)
{
    const struct directory d = find_directory(sound_file, level);
    const uint32_t rows = d.offsets.n / d.columns;
    const uint32_t in_tissue = rows / 2 * d.columns + d.columns / 2;
    char path[128], words[1200];
    pyramid_path(test_folder, "damaged.tif", path);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i += STEP) {
        struct file f = { hrf_alloc(sound_file->n_bytes), sound_file->n_bytes };
        bool is_good;
        assert_non_null(f.bytes);
        memcpy(f.bytes, sound_file->bytes, f.n_bytes);
        if (damages[i].whole_level)
            for (uint32_t tile = 0; tile < d.offsets.n; tile++)
                damages[i].apply(&f, &d, tile, damages[i].n);
        else
            damages[i].apply(&f, &d, in_tissue, damages[i].n);
        write_file(&f, path);
        judge(path, sound, words, &is_good);
        if (!is_good || getenv("HRF_DAMAGE_TABLE") != NULL)
            print_message("level %d, %s: %s\n", level, damages[i].name, words);
        *n_bad += !is_good;
        hrf_free(f.bytes);
    }
}

static void damage_pyramid(struct pyramid *p)
{
    char path[128], *bytes = NULL;
    size_t n_bytes = 0;
    struct patches sound = { .n = 0 };
    struct hrf_error err = { .status = HRF_OK };
    int n_bad = 0;
    p->tile = TILE;
    p->jpeg = true;
    p->pixel = slide_pixel;
    p->context = p;
    pyramid_path(test_folder, "sound.tif", path);
    pyramid_write(p, path);
    if (use(path, &sound, &err) != HRF_OK)
        fail_msg("%s", err.text);
    assert_true(sound.n > 30);
    assert_int_equal(hrf_file_read(path, SIZE_MAX, &bytes, &n_bytes, NULL), HRF_OK);
    const struct file file = { (unsigned char *)bytes, n_bytes };
    for (int level = 0; level < p->n_levels; level++)
        damage_level(&file, &sound, level, &n_bad);
    hrf_free(bytes);
    hrf_free(sound.pixels);
    assert_int_equal(n_bad, 0);
}

/* The overview is a level that has coarser ones. */
static void damage_to_a_whole_pyramid_is_told_or_harmless(void **state)
{
    (void)state;
    struct pyramid p = { .n_levels = 0 };
    pyramid_halve(&p, SIDE, SIDE, 256);
    damage_pyramid(&p);
}

/* The overview is the coarsest level. */
static void damage_to_levels_above_the_overview_is_told_or_harmless(void **state)
{
    (void)state;
    struct pyramid p = { .n_levels = 0 };
    pyramid_halve(&p, SIDE, SIDE, 1024);
    damage_pyramid(&p);
}

/* ---- on_bad_tile: white ---- */

static enum hrf_status tile_white(const char *path, enum hrf_on_bad_tile choice,
                                  struct hrf_tile_plan **plan, struct hrf_error *err)
{
    const struct hrf_workflow_tiler params = {
        .on_bad_tile = choice,
        .patch = { .size = PATCH, .stride = PATCH / 2, .mpp = mpp },
        .tissue = { .min_tissue = 0.5, .min_patches = 4 }
    };
    return hrf_tile_slide(path, &params, mpp, 0, NULL, plan, err);
}

/* With several readers, as a task does it. */
static enum hrf_status read_white(const char *path, const struct hrf_tile_plan *plan,
                                  struct patches *out, struct hrf_error *err)
{
    HRF_AUTO(hrf_slide) slide = NULL;
    HRF_TRY(hrf_slide_open(path, &slide, err));
    hrf_plan_set_bad_tiles(slide, plan);
    return read_all(slide, plan, out, err);
}

/* The patch's pixels in the square tile at (x, y) are white, all others the sound ones. */
static void assert_white_in_tile(const struct hrf_patch *at, const unsigned char *found,
                                 const unsigned char *sound, int x0, int y0)
{
    for (int y = 0; y < PATCH; y++)
        for (int x = 0; x < PATCH; x++) {
            const int u = at->x + x - x0, v = at->y + y - y0;
            const bool inside = u >= 0 && u < TILE && v >= 0 && v < TILE;
            const unsigned char *p = found + 3 * (y * PATCH + x), *q = sound + 3 * (y * PATCH + x);
            for (int c = 0; c < 3; c++)
                assert_int_equal(p[c], inside ? 255 : q[c]);
        }
}

/* `tile`: the column and row of the tile of level 0 that does not decode. */
static void assert_listed_and_white(const char *sound_path, const char *bad_path, int tile)
{
    HRF_AUTO(hrf_tile_plan) sound = NULL;
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    struct patches before = { .n = 0 }, after = { .n = 0 };
    struct hrf_error err = { .status = HRF_OK };
    int64_t n_met = 0;
    char words[64];
    assert_int_equal(tile_white(sound_path, HRF_BAD_TILE_IS_WHITE, &sound, &err), HRF_OK);
    assert_int_equal(sound->n_white, 0);
    assert_null(sound->warning);
    if (tile_white(bad_path, HRF_BAD_TILE_IS_WHITE, &plan, &err) != HRF_OK)
        fail_msg("%s", err.text);
    assert_int_equal(plan->n_patches, sound->n_patches);
    snprintf(words, sizeof words, "level 0, tile %d, %d (bytes ", tile, tile);
    assert_non_null(strstr(plan->warning, words));
    assert_int_equal(read_white(sound_path, sound, &before, &err), HRF_OK);
    if (read_white(bad_path, plan, &after, &err) != HRF_OK)
        fail_msg("%s", err.text);
    for (int64_t i = 0; i < plan->n_patches; i++) {
        const struct hrf_patch *p = &plan->patches[i];
        const bool meets = abs(p->x - tile * TILE) < TILE && abs(p->y - tile * TILE) < TILE;
        const size_t bytes = (size_t)PATCH * PATCH * 3;
        assert_int_equal(hrf_tile_plan_is_white(plan, i), meets);
        n_met += meets;
        if (meets)
            assert_white_in_tile(p, after.pixels + (size_t)i * bytes,
                                 before.pixels + (size_t)i * bytes, tile * TILE, tile * TILE);
        else
            assert_memory_equal(after.pixels + (size_t)i * bytes, before.pixels + (size_t)i * bytes,
                                bytes);
    }
    assert_int_equal(n_met, 9);
    assert_int_equal(plan->n_white, n_met);
    hrf_free(after.pixels);
    hrf_free(before.pixels);
    /* Never silently: a plan that does not list a patch refuses its white. */
    after.pixels = NULL;
    plan->n_white--;
    assert_int_equal(read_white(bad_path, plan, &after, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "meets a tile that does not decode, and did when the slide"));
    hrf_free(after.pixels);
    after.pixels = NULL;
    plan->n_white = 0;
    assert_int_equal(read_white(bad_path, plan, &after, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "is damaged: reading fails at x "));
    assert_non_null(strstr(err.text, words));
    hrf_free(after.pixels);
}

static void a_bad_tile_is_white_and_listed_where_that_is_asked_for(void **state)
{
    (void)state;
    for (int jpeg = 0; jpeg < 2; jpeg++) {
        struct pyramid p = { .n_levels = 0 };
        char sound[128], bad[128], *bytes = NULL;
        size_t n_bytes = 0;
        pyramid_halve(&p, SIDE, SIDE, 256);
        p.tile = TILE;
        p.jpeg = jpeg != 0;
        p.pixel = slide_pixel;
        p.context = &p;
        pyramid_path(test_folder, "sound.tif", sound);
        pyramid_path(test_folder, "bad.tif", bad);
        pyramid_write(&p, sound);
        assert_int_equal(hrf_file_read(sound, SIZE_MAX, &bytes, &n_bytes, NULL), HRF_OK);
        struct file f = { (unsigned char *)bytes, n_bytes };
        const struct directory d = find_directory(&f, 0);
        zero_data(&f, &d, 7 * d.columns + 7, 0);
        write_file(&f, bad);
        assert_listed_and_white(sound, bad, 7);
        hrf_free(bytes);
    }
}

static void a_slide_of_bad_tiles_fails_where_they_may_be_white(void **state)
{
    (void)state;
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    struct pyramid p = { .n_levels = 0 };
    char path[128], *bytes = NULL;
    size_t n_bytes = 0;
    struct hrf_error err = { .status = HRF_OK };
    pyramid_halve(&p, SIDE, SIDE, 256);
    p.tile = TILE;
    p.jpeg = true;
    p.pixel = slide_pixel;
    p.context = &p;
    pyramid_path(test_folder, "all-bad.tif", path);
    pyramid_write(&p, path);
    assert_int_equal(hrf_file_read(path, SIZE_MAX, &bytes, &n_bytes, NULL), HRF_OK);
    struct file f = { (unsigned char *)bytes, n_bytes };
    const struct directory d = find_directory(&f, 0);
    for (uint32_t tile = 0; tile < d.offsets.n; tile++)
        zero_data(&f, &d, tile, 0);
    write_file(&f, path);
    assert_int_equal(tile_white(path, HRF_BAD_TILE_IS_WHITE, &plan, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "the slide is damaged: "));
    assert_non_null(strstr(err.text, "copy it again"));
    hrf_free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damage_to_a_whole_pyramid_is_told_or_harmless),
        cmocka_unit_test(damage_to_levels_above_the_overview_is_told_or_harmless),
        cmocka_unit_test(a_bad_tile_is_white_and_listed_where_that_is_asked_for),
        cmocka_unit_test(a_slide_of_bad_tiles_fails_where_they_may_be_white),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
