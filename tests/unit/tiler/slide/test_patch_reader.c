/* The patch reader against a slow reference that follows the definition in patch_reader.h. */
#include "base/hash.h"
#include "base/random.h"
#include "tests/unit/directory.h"
#include "tests/unit/tiler/pyramid.h"
#include "tests/unit/unit.h"
#include "tiler/slide/slide.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <tiffio.h>

static struct hrf_slide *make_slide(const struct pyramid *pyramid, const char *name)
{
    char path[128];
    struct hrf_slide *slide = NULL;
    struct hrf_error err = { .status = HRF_OK };
    pyramid_path(directory, name, path);
    pyramid_write(pyramid, path);
    if (hrf_slide_open(path, &slide, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return slide;
}

static const double slope = 3.5; /* gray values per level-0 px */

/* A smooth picture in level-0 coordinates, the same at every level: it tells where a pixel was
 * taken from to a few hundredths of a pixel. */
static double smooth(double x, double y, int channel)
{
    return slope * (channel == 0 ? x : channel == 1 ? y : (x + y) / 2);
}

struct smooth_context {
    double downsample[PYRAMID_MAX_LEVELS];
};

static void smooth_pixel(const void *context, int level, uint32_t x, uint32_t y,
                         unsigned char rgba[4])
{
    double d = ((const struct smooth_context *)context)->downsample[level];
    for (int c = 0; c < 3; c++) {
        double v = smooth((x + 0.5) * d, (y + 0.5) * d, c);
        rgba[c] = (unsigned char)(v > 255 ? 255 : v + 0.5);
    }
}

/* Pixel of the noise picture's level, white outside. */
static double noise_at(const struct hrf_slide_info *info, int32_t level, int64_t x, int64_t y,
                       int channel)
{
    if (x < 0 || y < 0 || x >= info->level[level].width || y >= info->level[level].height)
        return 255;
    return pyramid_noise(level, (uint32_t)x, (uint32_t)y, channel);
}

/* Sum over one direction, straight from the definition. */
static int64_t weights_of(double begin, double scale, double weights[130], int64_t *first)
{
    int64_t n = 0;
    *first = (int64_t)floor(begin) - 1;
    for (int64_t i = *first; (double)i < begin + scale + 1 && n < 130; i++, n++) {
        if (scale < 1)
            weights[n] = fmax(0, 1 - fabs((double)i + 0.5 - (begin + scale / 2)));
        else
            weights[n] = fmax(0, fmin((double)i + 1, begin + scale) - fmax((double)i, begin)) /
                         scale;
    }
    return n;
}

static double reference(const struct hrf_slide_info *info, int32_t level, double begin_x,
                        double begin_y, double scale_x, double scale_y, int channel)
{
    double wx[130], wy[130], sum = 0;
    int64_t x, y, nx = weights_of(begin_x, scale_x, wx, &x);
    int64_t ny = weights_of(begin_y, scale_y, wy, &y);
    for (int64_t v = 0; v < ny; v++)
        for (int64_t u = 0; u < nx; u++)
            if (wx[u] * wy[v] > 0)
                sum += wx[u] * wy[v] * noise_at(info, level, x + u, y + v, channel);
    return sum;
}

/* Compares some pixels of a patch with the reference. */
static void compare(struct hrf_random *random, struct hrf_slide *slide, double mpp_x, double mpp_y,
                    int64_t size, double mpp)
{
    const struct hrf_slide_info *info = hrf_slide_info(slide);
    HRF_AUTO(hrf_patch_reader) reader = NULL;
    static unsigned char rgb[64 * 64 * 3];
    assert_int_equal(hrf_patch_reader_create(slide, mpp_x, mpp_y, size, mpp, &reader, NULL),
                     HRF_OK);
    int32_t level = hrf_patch_reader_level(reader);
    double d = info->level[level].downsample, scale_x, scale_y;
    hrf_patch_reader_scale(reader, &scale_x, &scale_y);
    if (scale_x == 1 && scale_y == 1)
        return; /* has a test of its own */
    for (int k = 0; k < 2; k++) {
        int64_t x0 = hrf_random_below(random, info->width) - 20;
        int64_t y0 = hrf_random_below(random, info->height) - 20;
        int64_t decode = 0, resample = 0;
        assert_int_equal(hrf_patch_reader_read(reader, x0, y0, rgb, &decode, &resample, NULL),
                         HRF_OK);
        assert_true(decode >= 0 && resample > 0);
        for (int i = 0; i < 40; i++) {
            int64_t j = hrf_random_below(random, size), r = hrf_random_below(random, size);
            int c = (int)hrf_random_below(random, 3);
            double want = reference(info, level, (double)x0 / d + (double)j * scale_x,
                                    (double)y0 / d + (double)r * scale_y, scale_x, scale_y, c);
            double got = rgb[(r * size + j) * 3 + c];
            if (fabs(got - want) > 0.51)
                fail_msg("patch %lld at %lld,%lld scale %g x %g level %d: pixel %lld,%lld is %g, "
                         "not %g",
                         (long long)size, (long long)x0, (long long)y0, scale_x, scale_y, level,
                         (long long)j, (long long)r, got, want);
        }
    }
}

static void any_geometry_gives_the_pixels_of_the_definition(void **state)
{
    (void)state;
    struct pyramid p = { .tile = 32, .big = true };
    pyramid_halve(&p, 512, 320, 40);
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "noise.tif");
    struct hrf_random random = hrf_random_init(11);
    for (int i = 0; i < 300; i++) {
        double mpp_x = 0.2 + 0.3 * hrf_random_unit(&random);
        double mpp_y = i % 3 == 0 ? mpp_x : mpp_x * (0.8 + 0.4 * hrf_random_unit(&random));
        double mpp = mpp_x * exp(-1 + 4 * hrf_random_unit(&random));
        compare(&random, slide, mpp_x, mpp_y, 1 + hrf_random_below(&random, 64), mpp);
    }
}

static void where_nothing_is_resampled_the_bytes_are_the_level_s_own(void **state)
{
    (void)state;
    struct pyramid p = { 0 };
    pyramid_halve(&p, 512, 512, 128);
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "copy.tif");
    static const struct {
        double mpp;
        int32_t level;
        int64_t x0, y0, x, y; /* level-0 origin, level pixel */
    } cases[] = { { 0.25, 0, 37, 101, 37, 101 },  { 0.5, 1, 64, 128, 32, 64 },
                  { 0.5, 1, 65, 127, 33, 64 },    { 1.0, 2, 128, 4, 32, 1 },
                  { 0.2495, 0, 100, 9, 100, 9 },  { 0.503, 1, 20, 30, 10, 15 },
                  { 0.25, 0, 490, 500, 490, 500 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        HRF_AUTO(hrf_patch_reader) reader = NULL;
        static unsigned char rgb[64 * 64 * 3];
        int64_t decode = 0, resample = 0;
        assert_int_equal(
            hrf_patch_reader_create(slide, 0.25, 0.25, 64, cases[i].mpp, &reader, NULL), HRF_OK);
        assert_int_equal(hrf_patch_reader_level(reader), cases[i].level);
        assert_int_equal(
            hrf_patch_reader_read(reader, cases[i].x0, cases[i].y0, rgb, &decode, &resample, NULL),
            HRF_OK);
        assert_true(decode > 0 && resample == 0);
        for (int k = 0; k < 64 * 64 * 3; k++)
            assert_int_equal(rgb[k],
                             (int)noise_at(hrf_slide_info(slide), cases[i].level,
                                           cases[i].x + k / 3 % 64, cases[i].y + k / 192, k % 3));
    }
}

/* Level sizes that do not divide: OpenSlide says 2.0328, and so do we. A difference of gray values
 * is a distance. */
static void a_downsample_that_is_no_whole_number_keeps_its_place(void **state)
{
    (void)state;
    struct pyramid p = {
        .n_levels = 2, .tile = 16, .level = { { 71, 55 }, { 35, 27 } }, .pixel = smooth_pixel
    };
    struct smooth_context context = { { 1, (71.0 / 35 + 55.0 / 27) / 2 } };
    p.context = &context;
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "odd.tif");
    assert_true(fabs(hrf_slide_info(slide)->level[1].downsample - context.downsample[1]) < 1e-9);
    struct hrf_random random = hrf_random_init(5);
    double resampled[2] = { 0, 0 }, copied[2] = { 0, 0 };
    for (int i = 0; i < 2000; i++) {
        double mpp_x = 0.25, mpp_y = 0.25 * (0.9 + 0.2 * hrf_random_unit(&random));
        double mpp = 0.2 * exp(1.4 * hrf_random_unit(&random)), scale_x, scale_y;
        HRF_AUTO(hrf_patch_reader) reader = NULL;
        unsigned char rgb[8 * 8 * 3];
        assert_int_equal(hrf_patch_reader_create(slide, mpp_x, mpp_y, 8, mpp, &reader, NULL),
                         HRF_OK);
        hrf_patch_reader_scale(reader, &scale_x, &scale_y);
        int64_t x0 = 4 + hrf_random_below(&random, 50), y0 = 4 + hrf_random_below(&random, 40);
        assert_int_equal(hrf_patch_reader_read(reader, x0, y0, rgb, NULL, NULL, NULL), HRF_OK);
        int32_t level = hrf_patch_reader_level(reader);
        double *worst = scale_x == 1 && scale_y == 1 ? &copied[level] : &resampled[level];
        for (int k = 0; k < 8 * 8; k++) {
            double x = (double)x0 + (k % 8 + 0.5) * mpp / mpp_x;
            double y = (double)y0 + (k / 8 + 0.5) * mpp / mpp_y;
            for (int c = 0; c < 3 && x < 65 && y < 49; c++)
                *worst = fmax(*worst, fabs(rgb[3 * k + c] - smooth(x, y, c)) / slope);
        }
    }
    /* Resampled: rounding in the picture, in OpenSlide and in the patch, half a gray value to one
     * each. Copied: a level px more, half of it drift, half of it where the copy begins. */
    for (int i = 0; i < 2; i++) {
        print_message("level %d: worst distance %.2f px resampled, %.2f copied\n", i, resampled[i],
                      copied[i]);
        assert_true(resampled[i] > 0 && resampled[i] <= (i == 0 ? 1 : 3) / slope);
        assert_true(copied[i] > 0 && copied[i] <= context.downsample[i] + 3 / slope);
    }
}

static void the_coarsest_level_that_is_fine_enough_is_read(void **state)
{
    (void)state;
    struct pyramid p = { 0 };
    pyramid_halve(&p, 512, 512, 64);
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "levels.tif");
    static const struct {
        double mpp;
        int32_t level;
    } cases[] = { { 0.1, 0 }, { 0.25, 0 }, { 0.48, 0 }, { 0.495, 1 }, { 0.5, 1 },
                  { 0.9, 1 }, { 0.99, 2 }, { 2, 3 },    { 7.9, 3 },   { 32, 3 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        HRF_AUTO(hrf_patch_reader) reader = NULL;
        assert_int_equal(hrf_patch_reader_create(slide, 0.25, 0.25, 8, cases[i].mpp, &reader, NULL),
                         HRF_OK);
        assert_int_equal(hrf_patch_reader_level(reader), cases[i].level);
    }
}

static void what_cannot_be_read_well_is_refused(void **state)
{
    (void)state;
    struct pyramid p = { .n_levels = 1, .level = { { 64, 64 } } };
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "single.tif");
    struct hrf_patch_reader *reader = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_patch_reader_create(slide, 0.25, 0.25, 8, 17, &reader, &err),
                     HRF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "has no level near 17 um/px: its coarsest is 0.25 um/px"));
    assert_int_equal(hrf_patch_reader_create(slide, 0.25, 0.25, 0, 1, &reader, &err), HRF_E_USER);
    assert_int_equal(hrf_patch_reader_create(slide, 0.25, 0, 8, 1, &reader, &err), HRF_E_USER);
    assert_null(reader);
}

/* A large patch from a level 30 times finer is read in strips: the same as the reference. */
static void a_patch_far_from_its_level_is_read_in_strips(void **state)
{
    (void)state;
    struct pyramid p = { .n_levels = 1, .level = { { 2048, 1900 } }, .tile = 256 };
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "flat.tif");
    struct hrf_random random = hrf_random_init(3);
    compare(&random, slide, 0.25, 0.25, 60, 0.25 * 30.3);
}

static bool chequered(const void *context, int level, uint32_t column, uint32_t row)
{
    (void)context, (void)level;
    return (column + row) % 2 == 1;
}

/* Around left-out tiles a region is read in pieces: nothing of a present tile may be lost. */
static void patches_across_sparse_tiles_are_whole(void **state)
{
    (void)state;
    struct pyramid p = { .tile = 32, .is_sparse = chequered };
    pyramid_halve(&p, 512, 512, 128);
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "chequered.tif");
    struct hrf_random random = hrf_random_init(8);
    for (int i = 0; i < 60; i++) {
        HRF_AUTO(hrf_patch_reader) reader = NULL;
        static unsigned char rgb[80 * 80 * 3];
        int32_t level = (int32_t)hrf_random_below(&random, 3);
        int64_t d = (int64_t)1 << level, x = hrf_random_below(&random, 512 / d) - 40;
        int64_t y = hrf_random_below(&random, 512 / d) - 40;
        assert_int_equal(
            hrf_patch_reader_create(slide, 0.25, 0.25, 80, 0.25 * (double)d, &reader, NULL),
            HRF_OK);
        assert_int_equal(hrf_patch_reader_read(reader, x * d, y * d, rgb, NULL, NULL, NULL),
                         HRF_OK);
        for (int k = 0; k < 80 * 80 * 3; k++) {
            int64_t u = x + k / 3 % 80, v = y + k / 240;
            bool gone = u < 0 || v < 0 || (u / 32 + v / 32) % 2 == 1;
            int want = gone ? 255 : (int)noise_at(hrf_slide_info(slide), level, u, v, k % 3);
            assert_int_equal(rgb[k], want);
        }
    }
}

struct worker {
    struct hrf_slide *slide;
    char hex[HRF_HASH_HEX];
};

/* Every part of the rows, read by itself, against the same rows of the whole patch. */
static void compare_rows(struct hrf_slide *slide, double mpp_x, double mpp_y, int64_t size,
                         double mpp)
{
    HRF_AUTO(hrf_patch_reader) reader = NULL;
    static unsigned char whole[600 * 600 * 3], part[600 * 600 * 3];
    static const int64_t cuts[][2] = { { 0, 1 }, { 0, 100 }, { 37, 200 }, { 99, 1 } };
    assert_int_equal(hrf_patch_reader_create(slide, mpp_x, mpp_y, size, mpp, &reader, NULL),
                     HRF_OK);
    assert_int_equal(hrf_patch_reader_read(reader, -61, -40, whole, NULL, NULL, NULL), HRF_OK);
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        int64_t first = cuts[i][0], n = cuts[i][1];
        for (int side = 0; side < 2; side++, first = size - n) {
            memset(part, 7, sizeof part);
            assert_int_equal(
                hrf_patch_reader_read_rows(reader, -61, -40, first, n, part, NULL, NULL, NULL),
                HRF_OK);
            assert_memory_equal(part, whole + 3 * first * size, (size_t)(3 * n * size));
            assert_true(part[3 * n * size] == 7); /* and not a byte more */
        }
    }
}

static void rows_read_apart_are_those_of_the_whole_patch(void **state)
{
    (void)state;
    struct pyramid p = { .tile = 64 };
    pyramid_halve(&p, 1500, 1300, 100);
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "rows.tif");
    compare_rows(slide, 0.25, 0.25, 400, 0.25); /* copied */
    compare_rows(slide, 0.25, 0.26, 400, 0.61); /* reduced from a level of its own */
    compare_rows(slide, 0.25, 0.25, 500, 0.11); /* enlarged */
}

static void *read_many(void *argument)
{
    struct worker *worker = argument;
    HRF_AUTO(hrf_patch_reader) reader = NULL;
    HRF_AUTO(hrf_hash) hash = NULL;
    struct hrf_random random = hrf_random_init(1);
    unsigned char rgb[32 * 32 * 3];
    if (hrf_patch_reader_create(worker->slide, 0.25, 0.26, 32, 0.6, &reader, NULL) != HRF_OK ||
        hrf_hash_create(&hash, NULL) != HRF_OK)
        return NULL;
    for (int i = 0; i < 200; i++) {
        int64_t x = hrf_random_below(&random, 400), y = hrf_random_below(&random, 400);
        if (hrf_patch_reader_read(reader, x, y, rgb, NULL, NULL, NULL) != HRF_OK)
            return NULL;
        hrf_hash_bytes(hash, rgb, sizeof rgb);
    }
    hrf_hash_hex(hash, worker->hex);
    return NULL;
}

static void threads_that_share_a_slide_read_the_same(void **state)
{
    (void)state;
    struct pyramid p = { .tile = 32, .is_sparse = chequered };
    pyramid_halve(&p, 512, 512, 128);
    HRF_AUTO(hrf_slide) slide = make_slide(&p, "shared.tif");
    enum { N = 4 };
    struct worker workers[N] = { 0 }, alone = { .slide = slide };
    pthread_t threads[N];
    for (int i = 0; i < N; i++) {
        workers[i].slide = slide;
        assert_int_equal(pthread_create(&threads[i], NULL, read_many, &workers[i]), 0);
    }
    for (int i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    read_many(&alone);
    assert_int_equal(strlen(alone.hex), 64);
    for (int i = 0; i < N; i++)
        assert_string_equal(workers[i].hex, alone.hex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_geometry_gives_the_pixels_of_the_definition),
        cmocka_unit_test(where_nothing_is_resampled_the_bytes_are_the_level_s_own),
        cmocka_unit_test(a_downsample_that_is_no_whole_number_keeps_its_place),
        cmocka_unit_test(the_coarsest_level_that_is_fine_enough_is_read),
        cmocka_unit_test(what_cannot_be_read_well_is_refused),
        cmocka_unit_test(a_patch_far_from_its_level_is_read_in_strips),
        cmocka_unit_test(patches_across_sparse_tiles_are_whole),
        cmocka_unit_test(rows_read_apart_are_those_of_the_whole_patch),
        cmocka_unit_test(threads_that_share_a_slide_read_the_same),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
