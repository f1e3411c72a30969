/* Pictures by value: blending, lines, shrinking, PNG there and back, the heatmap's pixels. */
#include "aggregate/report/heatmap.h"
#include "aggregate/report/image.h"

#include "base/file.h"
#include "tests/unit/unit.h"

#include <math.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct hrf_image make(int32_t width, int32_t height, int32_t channels)
{
    struct hrf_image image = { 0 };
    assert_int_equal(hrf_image_create(width, height, channels, &image, NULL), HRF_OK);
    return image;
}

static const unsigned char *at(const struct hrf_image *image, int32_t x, int32_t y)
{
    return image->pixels + ((size_t)y * (size_t)image->width + (size_t)x) * (size_t)image->channels;
}

static void blending_mixes_inside_the_box_and_clips(void **state)
{
    (void)state;
    struct hrf_image image = make(4, 3, 3);
    hrf_image_blend(&image, -5, 1, 2, 99, (struct hrf_rgb){ 55, 155, 0 }, 0.5);
    assert_int_equal(at(&image, 0, 0)[0], 255);
    assert_int_equal(at(&image, 0, 1)[0], 155);
    assert_int_equal(at(&image, 1, 2)[1], 205);
    assert_int_equal(at(&image, 1, 2)[2], 128); /* 127.5 rounds away from zero */
    assert_int_equal(at(&image, 2, 1)[0], 255);
    hrf_image_release(&image);
}

static void lines_reach_their_ends_and_survive_the_outside(void **state)
{
    (void)state;
    struct hrf_image image = make(8, 8, 3);
    const struct hrf_rgb black = { 0, 0, 0 };
    hrf_image_line(&image, 1.0, 1.0, 6.0, 6.0, 1, black);
    for (int32_t i = 0; i < 8; i++)
        assert_int_equal(at(&image, i, i)[0], i >= 1 && i <= 6 ? 0 : 255);
    assert_int_equal(at(&image, 2, 1)[0], 255);
    hrf_image_line(&image, -1e30, 0.0, 1e30, 5.0, 2, black); /* too far to matter */
    hrf_image_line(&image, -100.0, 7.0, 100.0, 7.0, 1, black);
    assert_int_equal(at(&image, 0, 7)[0], 0);
    assert_int_equal(at(&image, 7, 7)[0], 0);
    hrf_image_line(&image, 5.0, -9e8 + 0.5, 5.0, 9e8 + 0.5, 1,
                   black); /* only what is on the picture is drawn */
    for (int32_t y = 0; y < 8; y++)
        assert_int_equal(at(&image, 5, y)[0], 0);
    hrf_image_line(&image, 8.5, -9e8, 9.0, 9e8, 1, black); /* beside it */
    assert_int_equal(at(&image, 7, 0)[0], 255);
    hrf_image_release(&image);
}

static void shrinking_takes_the_mean_and_never_grows(void **state)
{
    (void)state;
    struct hrf_image image = make(4, 2, 1), small = { 0 };
    const unsigned char values[] = { 0, 10, 200, 100, 20, 30, 100, 0 };
    memcpy(image.pixels, values, sizeof values);
    assert_int_equal(hrf_image_downsample(&image, 2, &small, NULL), HRF_OK);
    assert_int_equal(small.width, 2);
    assert_int_equal(small.height, 1);
    assert_int_equal(small.pixels[0], 15);
    assert_int_equal(small.pixels[1], 100);
    hrf_image_release(&small);
    assert_int_equal(hrf_image_downsample(&image, 100, &small, NULL), HRF_OK);
    assert_memory_equal(small.pixels, values, sizeof values);
    hrf_image_release(&small);
    hrf_image_release(&image);
}

static void png_there_and_back_is_the_same_and_damage_is_an_error(void **state)
{
    (void)state;
    struct hrf_image image = make(5, 7, 3), back = { 0 };
    for (size_t i = 0; i < 5 * 7 * 3; i++)
        image.pixels[i] = (unsigned char)(i * 37);
    struct hrf_bytes png = { 0 };
    assert_int_equal(hrf_image_encode(&image, HRF_PNG_PHOTO, &png, NULL), HRF_OK);
    assert_int_equal(hrf_image_decode(&png, 3, &back, NULL), HRF_OK);
    assert_memory_equal(back.pixels, image.pixels, 5 * 7 * 3);
    hrf_image_release(&back);
    struct hrf_error err = { .status = HRF_OK };
    png.data[png.n_bytes / 2] ^= 0x55;
    assert_int_equal(hrf_image_decode(&png, 3, &back, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "PNG picture"));
    assert_null(back.pixels);
    png.data[0] = 'x';
    assert_int_equal(hrf_image_decode(&png, 3, &back, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "not a PNG picture"));
    hrf_free(png.data);
    hrf_image_release(&image);
}

static void too_large_a_picture_is_refused(void **state)
{
    (void)state;
    struct hrf_image image = { 0 };
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_image_create(8193, 2, 3, &image, &err), HRF_E_USER);
    assert_string_equal(err.text, "a picture of 8193 x 2 px; 1 to 8192 a side are possible");
}

/* matplotlib's viridis at 0, 0.25, 0.5, 0.75 and 1. */
static void the_colour_map_is_viridis(void **state)
{
    (void)state;
    static const int table[][3] = {
        { 68, 1, 84 }, { 59, 82, 139 }, { 33, 145, 140 }, { 94, 201, 98 }, { 253, 231, 37 }
    };
    for (int i = 0; i < 5; i++) {
        struct hrf_rgb c = hrf_colour_map(i / 4.0);
        assert_true(abs(c.r - table[i][0]) <= 6 && abs(c.g - table[i][1]) <= 6 &&
                    abs(c.b - table[i][2]) <= 6);
    }
}

/* Three patches of 2 x 2 thumbnail px on a yellow slide: sure on either side, and not sure. */
static void a_heatmap_tints_each_patch_where_it_lies(void **state)
{
    (void)state;
    struct hrf_image white = make(8, 8, 3), mask = make(8, 8, 1), map = { 0 };
    memset(mask.pixels, 0, 64);
    for (size_t i = 2; i < (size_t)8 * 8 * 3; i += 3)
        white.pixels[i] = 0;
    struct hrf_patch patches[] = { { 0, 0 }, { 200, 400 }, { 500, 0 } };
    float p[] = { 1.0f, 0.0f, 0.0f, 1.0f, 0.5f, 0.5f };
    struct hrf_tile_plan plan = { .patches = patches,
                                  .n_patches = 3,
                                  .patch_width0 = 200,
                                  .patch_height0 = 200,
                                  .stride_x0 = 200.0,
                                  .stride_y0 = 200.0,
                                  .thumbnail_downsample = 100.0 };
    assert_int_equal(hrf_image_encode(&white, HRF_PNG_PHOTO, &plan.thumbnail_png, NULL), HRF_OK);
    assert_int_equal(hrf_image_encode(&mask, HRF_PNG_FLAT, &plan.mask_png, NULL), HRF_OK);
    const struct hrf_scores scores = { .n_patches = 3, .n_classes = 2, .probabilities = p };
    assert_int_equal(hrf_heatmap_draw(&plan, &scores, 1, HRF_HEAT_CENTRED, NULL, &map, NULL),
                     HRF_OK);
    const unsigned char *yes = at(&map, 2, 4), *no = at(&map, 1, 1), *glass = at(&map, 4, 7);
    const unsigned char *unsure = at(&map, 6, 1);
    assert_true(yes[0] > yes[1] + 80 && yes[0] > yes[2] + 80); /* red */
    assert_memory_equal(yes, at(&map, 3, 5), 3);               /* all of its four pixels */
    assert_true(no[2] > no[0] + 60);                           /* blue */
    assert_true(unsure[0] == unsure[1] && unsure[1] == unsure[2] && unsure[0] > 220); /* tissue */
    assert_true(glass[0] == 255 && glass[1] == 255 && glass[2] == 0); /* as it was */
    hrf_image_release(&map);
    assert_int_equal(hrf_heatmap_draw(&plan, &scores, 1, HRF_HEAT_RISING, NULL, &map, NULL),
                     HRF_OK);
    yes = at(&map, 2, 4), no = at(&map, 1, 1);
    assert_true(yes[0] > 230 && yes[2] < 130);           /* yellow */
    assert_true(no[0] > 190 && abs(no[0] - no[2]) < 40); /* faint */
    const int surest = yes[2], faintest = no[1];
    hrf_image_release(&map);
    p[2] = p[3] = (float)NAN; /* no number, no colour */
    assert_int_equal(hrf_heatmap_draw(&plan, &scores, 1, HRF_HEAT_CENTRED, NULL, &map, NULL),
                     HRF_OK);
    yes = at(&map, 2, 4);
    assert_true(yes[0] == yes[1] && yes[1] == yes[2]);
    const double tissue = yes[0]; /* what is sure hides it by three quarters, what is not, hardly */
    assert_in_range(100 * (tissue - surest) / (tissue - hrf_colour_map(1).b), 75, 80);
    assert_in_range(100 * (tissue - faintest) / (tissue - hrf_colour_map(0).g), 8, 12);
    hrf_image_release(&map);
    struct hrf_error err = { .status = HRF_OK };
    const struct hrf_scores fewer = { .n_patches = 1, .n_classes = 2, .probabilities = p };
    assert_int_equal(hrf_heatmap_draw(&plan, &fewer, 1, HRF_HEAT_CENTRED, NULL, &map, &err),
                     HRF_E_USER);
    assert_string_equal(err.text, "1 scores of 2 classes for 3 patches");
    hrf_free(plan.mask_png.data);
    struct hrf_image other = make(8, 7, 1);
    assert_int_equal(hrf_image_encode(&other, HRF_PNG_FLAT, &plan.mask_png, NULL), HRF_OK);
    assert_int_equal(hrf_heatmap_draw(&plan, &scores, 1, HRF_HEAT_CENTRED, NULL, &map, &err),
                     HRF_E_USER);
    assert_string_equal(err.text, "the tissue mask has 8 x 7 px, the thumbnail 8 x 8");
    assert_null(map.pixels);
    hrf_free(plan.thumbnail_png.data);
    hrf_free(plan.mask_png.data);
    hrf_image_release(&white);
    hrf_image_release(&mask);
    hrf_image_release(&other);
}

/* A frame that begins left of the slide: a map of 2 x 2 places of which one speaks. */
static void a_class_map_tints_the_places_that_speak(void **state)
{
    (void)state;
    struct hrf_image white = make(8, 8, 3), map = { 0 };
    struct hrf_patch frame = { -200, 0 };
    float p[] = { 0.25f, 0.75f }, values[] = { -3, 0, -1, 8 };
    struct hrf_tile_plan plan = { .patches = &frame,
                                  .n_patches = 1,
                                  .patch_width0 = 800,
                                  .patch_height0 = 800,
                                  .stride_x0 = 800,
                                  .stride_y0 = 800,
                                  .thumbnail_downsample = 100 };
    assert_int_equal(hrf_image_encode(&white, HRF_PNG_PHOTO, &plan.thumbnail_png, NULL), HRF_OK);
    const struct hrf_scores scores = {
        .n_patches = 1, .n_classes = 2, .probabilities = p, .class_map = { 1, 2, 2, values }
    };
    assert_int_equal(hrf_heatmap_draw(&plan, &scores, 1, HRF_HEAT_CENTRED, NULL, &map, NULL),
                     HRF_OK);
    const unsigned char *loud = at(&map, 5, 7), *mute = at(&map, 0, 0), *out = at(&map, 7, 7);
    assert_true(loud[2] < 110 && loud[0] > 230); /* yellow, strong: the frame's lower right */
    assert_true(mute[0] > 225 && mute[0] < 255); /* faint */
    assert_true(out[0] == 255 && out[2] == 255); /* right of the frame */
    hrf_image_release(&map);
    hrf_free(plan.thumbnail_png.data);
    hrf_image_release(&white);
}

static void a_narrow_heatmap_still_gets_its_colour_bar(void **state)
{
    (void)state;
    char path[] = "/tmp/hrf-heatmap-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct hrf_image map = make(10, 10, 3);
    assert_int_equal(hrf_heatmap_write(&map, HRF_HEAT_CENTRED, 0.5, path, NULL), HRF_OK);
    size_t n = 0;
    char *text = NULL;
    assert_int_equal(hrf_file_read(path, 1 << 20, &text, &n, NULL), HRF_OK);
    struct hrf_bytes png = { (unsigned char *)text, n };
    struct hrf_image back = { 0 };
    assert_int_equal(hrf_image_decode(&png, 3, &back, NULL), HRF_OK);
    assert_int_equal(back.height, 50);
    hrf_image_release(&back);
    hrf_image_release(&map);
    hrf_free(text);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blending_mixes_inside_the_box_and_clips),
        cmocka_unit_test(lines_reach_their_ends_and_survive_the_outside),
        cmocka_unit_test(shrinking_takes_the_mean_and_never_grows),
        cmocka_unit_test(png_there_and_back_is_the_same_and_damage_is_an_error),
        cmocka_unit_test(too_large_a_picture_is_refused),
        cmocka_unit_test(the_colour_map_is_viridis),
        cmocka_unit_test(a_heatmap_tints_each_patch_where_it_lies),
        cmocka_unit_test(a_class_map_tints_the_places_that_speak),
        cmocka_unit_test(a_narrow_heatmap_still_gets_its_colour_bar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
