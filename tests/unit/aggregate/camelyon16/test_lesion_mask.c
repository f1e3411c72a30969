/* Components, outlines drawn at level 5, lesions and ITC; real polygons against scikit-image. */
#include "aggregate/camelyon16/lesion_mask.h"

#include "base/json.h"
#include "base/path.h"
#include "base/random.h"
#include "tests/unit/real_data.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hrf_components *components(const char *picture, int32_t width, int32_t height,
                                         bool diagonal)
{
    unsigned char pixels[256];
    struct hrf_components *c = NULL;
    for (int32_t i = 0; i < width * height; i++)
        pixels[i] = picture[i] == '#';
    assert_int_equal(hrf_components_find(pixels, width, height, 1, diagonal, &c, NULL), HRF_OK);
    return c;
}

static void components_are_numbered_by_their_first_pixel(void **state)
{
    (void)state;
    const char picture[] = "#..#.#"
                           "#.#..#"
                           "#.####"
                           ".#....";
    struct hrf_components *c = components(picture, 6, 4, true);
    assert_int_equal(c->n_items, 1); /* all touch, some at corners only */
    hrf_components_destroy(c);
    c = components(picture, 6, 4, false);
    assert_int_equal(c->n_items, 4);
    assert_int_equal(hrf_components_at(c, 0, 0), 1);
    assert_int_equal(hrf_components_at(c, 0, 3), 2);
    assert_int_equal(hrf_components_at(c, 2, 4), 3); /* begins at (0, 5) */
    assert_int_equal(hrf_components_at(c, 3, 1), 4);
    assert_int_equal(hrf_components_at(c, 3, 0), 0);
    assert_int_equal(hrf_components_at(c, 9, 9), 0);
    const struct hrf_component *third = &c->items[2];
    assert_int_equal(third->area, 7);
    assert_int_equal(third->column_begin, 2);
    assert_int_equal(third->row_end, 3);
    hrf_components_destroy(c);
}

/* regionprops: an ellipse's axes; a row of n pixels has 4 sqrt((n^2 - 1) / 12). */
static void axes_are_those_of_the_second_moments(void **state)
{
    (void)state;
    struct hrf_components *c = components("#######", 7, 1, true);
    assert_true(fabs(c->items[0].major_axis - 8.0) < 1e-12);
    assert_true(c->items[0].eccentricity == 1.0);
    assert_true(c->items[0].column == 3.0);
    hrf_components_destroy(c);
}

static struct hrf_outline outline(struct hrf_point *points, size_t n, enum hrf_outline_role role)
{
    struct hrf_outline o = {
        .role = role, .points = points, .n_points = n, .low = points[0], .high = points[0]
    };
    for (size_t i = 0; i < n; i++) {
        o.low = (struct hrf_point){ fmin(o.low.x, points[i].x), fmin(o.low.y, points[i].y) };
        o.high = (struct hrf_point){ fmax(o.high.x, points[i].x), fmax(o.high.y, points[i].y) };
    }
    return o;
}

static struct hrf_lesion_mask *draw(const struct hrf_outlines *all, int64_t width, int64_t height,
                                    int64_t *n_outside)
{
    struct hrf_lesion_mask *mask = NULL;
    struct hrf_error err;
    if (hrf_lesion_mask_draw(all, width, height, &mask, n_outside, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return mask;
}

static bool is_set(const struct hrf_lesion_mask *mask, int64_t x, int64_t y)
{
    x -= mask->x0;
    y -= mask->y0;
    return x >= 0 && y >= 0 && x < mask->width && y < mask->height &&
           mask->pixels[y * mask->width + x];
}

/* Crossing edges, holes, cut-outs, vertices on pixel centres and beyond the slide. */
static void a_drawn_pixel_is_one_whose_centre_is_in_a_lesion(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(5);
    for (int round = 0; round < 30; round++) {
        struct hrf_point points[4][9];
        struct hrf_outline items[4];
        for (int i = 0; i < 4; i++) {
            for (int k = 0; k < 9; k++) {
                points[i][k] = (struct hrf_point){ hrf_random_unit(&random) * 2000 - 300,
                                                   hrf_random_unit(&random) * 2000 - 300 };
                if (k % 3 == 0) /* exactly on a centre or an edge of pixels */
                    points[i][k].x = floor(points[i][k].x / 16.0) * 16.0,
                    points[i][k].y = floor(points[i][k].y / 16.0) * 16.0;
            }
            items[i] = outline(points[i], 9, i == 3 ? HRF_OUTLINE_CUTOUT : HRF_OUTLINE_LESION);
        }
        const struct hrf_outlines all = { .items = items, .n_items = 4 };
        int64_t n_outside = 0;
        struct hrf_lesion_mask *mask = draw(&all, 1500, 1400, &n_outside);
        assert_true(n_outside > 0);
        for (int64_t y = 0; y < 60; y++)
            for (int64_t x = 0; x < 60; x++) {
                const bool is_on_slide = x < 47 && y < 44; /* ceil(1500 / 32), ceil(1400 / 32) */
                const bool wanted = is_on_slide &&
                                    hrf_outlines_in_lesion(&all, 32.0 * (double)x + 16,
                                                           32.0 * (double)y + 16);
                assert_int_equal(is_set(mask, x, y), wanted);
            }
        hrf_lesion_mask_destroy(mask);
    }
}

static void outlines_larger_than_a_slide_are_refused(void **state)
{
    (void)state;
    struct hrf_point points[] = { { 0, 0 }, { 1e9, 0 }, { 0, 1e9 } };
    struct hrf_outline one = outline(points, 3, HRF_OUTLINE_LESION);
    const struct hrf_outlines all = { .items = &one, .n_items = 1 };
    struct hrf_lesion_mask *mask = NULL;
    struct hrf_error err;
    assert_int_equal(hrf_lesion_mask_draw(&all, 0, 0, &mask, NULL, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "more than any slide"));
    mask = draw(&all, 320, 320, NULL); /* a slide's size cuts it */
    assert_true(is_set(mask, 9, 9) && !is_set(mask, 10, 9));
    hrf_lesion_mask_destroy(mask);
}

/* A million vertices in a zigzag over a whole slide. */
static void a_million_vertices_are_drawn(void **state)
{
    (void)state;
    const size_t n = 1000000;
    struct hrf_point *points = hrf_alloc_array(n, sizeof *points);
    assert_non_null(points);
    for (size_t i = 0; i < n; i++)
        points[i] = (struct hrf_point){ 100000.0 * cos(6.283185307 * (double)i / (double)n) +
                                            110000.0,
                                        100000.0 * sin(6.283185307 * (double)i / (double)n) +
                                            110000.0 + (i % 2 == 0 ? 40.0 : 0.0) };
    struct hrf_outline one = outline(points, n, HRF_OUTLINE_LESION);
    const struct hrf_outlines all = { .items = &one, .n_items = 1 };
    struct hrf_lesion_mask *mask = draw(&all, 0, 0, NULL);
    struct hrf_lesions *lesions = NULL;
    assert_int_equal(hrf_lesions_find(mask, &lesions, NULL), HRF_OK);
    assert_int_equal(lesions->components->n_items, 1);
    const double radius = 100000.0 / 32 + 4.8;
    assert_true(fabs((double)lesions->components->items[0].area / (3.14159265 * radius * radius) -
                     1) < 1e-3);
    hrf_lesions_destroy(lesions);
    hrf_lesion_mask_destroy(mask);
    hrf_free(points);
}

static struct hrf_lesions *find(const unsigned char *pixels, int64_t width, int64_t height)
{
    struct hrf_lesion_mask *mask = NULL;
    struct hrf_lesions *lesions = NULL;
    assert_int_equal(hrf_lesion_mask_crop(pixels, width, height, &mask, NULL), HRF_OK);
    assert_int_equal(hrf_lesions_find(mask, &lesions, NULL), HRF_OK);
    hrf_lesion_mask_destroy(mask);
    return lesions;
}

/* Two pixels grow by 4.8225 px each and touch, corners included, up to a distance of 9 in a row. */
static void near_regions_are_one_lesion(void **state)
{
    (void)state;
    for (int gap = 1; gap < 16; gap++) {
        unsigned char pixels[40 * 40] = { 0 };
        pixels[20 * 40 + 10] = pixels[20 * 40 + 10 + gap] = 255;
        struct hrf_lesions *lesions = find(pixels, 40, 40);
        assert_int_equal(lesions->components->n_items, gap <= 9 ? 1 : 2);
        assert_true(lesions->components->items[0].area >= 69); /* pixels with d * d <= 20 */
        assert_int_equal(hrf_lesions_at(lesions, 10 * 32 + 31, 20 * 32), 1);
        assert_int_equal(hrf_lesions_at(lesions, 10 * 32, (20 - 5) * 32 + 31), 0);
        assert_int_equal(hrf_lesions_at(lesions, 10 * 32, (20 - 4) * 32), 1);
        assert_int_equal(lesions->n_itc, lesions->components->n_items);
        hrf_lesions_destroy(lesions);
    }
}

static void holes_are_filled_but_not_those_at_the_edge(void **state)
{
    (void)state;
    enum { SIDE = 80 };
    static unsigned char ring[SIDE * SIDE], bay[SIDE * SIDE];
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            const double d = hypot(x - 40, y - 40), e = hypot(x, y - 40);
            ring[y * SIDE + x] = d > 20 && d < 25;
            bay[y * SIDE + x] = e > 20 && e < 25;
        }
    struct hrf_lesions *lesions = find(ring, SIDE, SIDE);
    assert_int_equal(hrf_lesions_at(lesions, 40 * 32, 40 * 32), 1);
    assert_int_equal(lesions->n_itc, 0);
    hrf_lesions_destroy(lesions);
    lesions = find(bay, SIDE, SIDE);
    assert_int_equal(hrf_lesions_at(lesions, 2 * 32, 40 * 32), 0);
    hrf_lesions_destroy(lesions);
}

static void no_tumour_is_no_lesion(void **state)
{
    (void)state;
    static const unsigned char nothing[100];
    struct hrf_lesions *lesions = find(nothing, 10, 10);
    assert_int_equal(lesions->components->n_items, 0);
    assert_int_equal(hrf_lesions_at(lesions, 0, 0), 0);
    hrf_lesions_destroy(lesions);
}

/* ---- real outlines ---- */

static size_t read_polygons(const json_t *list, enum hrf_outline_role role, struct hrf_outline *out)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *vertices = json_object_get(json_array_get(list, i), "vertices");
        const size_t n = json_array_size(vertices);
        struct hrf_point *points = hrf_alloc_array(n, sizeof *points);
        assert_non_null(points);
        for (size_t k = 0; k < n; k++) {
            const json_t *at = json_array_get(vertices, k);
            points[k] = (struct hrf_point){ json_number_value(json_array_get(at, 0)),
                                            json_number_value(json_array_get(at, 1)) };
        }
        out[i] = outline(points, n, role);
    }
    return json_array_size(list);
}

static void real_lesions_are_those_of_scikit_image(void **state)
{
    (void)state;
    /* tools/reference/froc_goldens.py --polygons: sum of areas, lesions, ITC, axes of the first. */
    static const struct {
        const char *file;
        int64_t area;
        size_t n_lesions, n_itc;
        double major_axis[2];
    } cases[] = { { "Tumor_001.json", 14565, 2, 0, { 175.913347, 128.504751 } },
                  { "Tumor_015.json", 17286, 3, 0, { 148.148629, 46.495295 } },
                  { "Tumor_026.json", 839091, 11, 1, { 361.805008, 982.254094 } },
                  { "Tumor_064.json", 161358, 8, 3, { 228.202833, 31.800364 } } };
    char folder[REAL_DATA_PATH];
    real_data("camelyon16-polygons", folder);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        HRF_AUTO_FREE char *path = hrf_path_join(folder, cases[i].file);
        HRF_AUTO_JSON json = NULL;
        struct hrf_outline items[64];
        assert_int_equal(hrf_json_read_file(path, &json, NULL), HRF_OK);
        size_t n = read_polygons(json_object_get(json, "positive"), HRF_OUTLINE_LESION, items);
        n += read_polygons(json_object_get(json, "negative"), HRF_OUTLINE_CUTOUT, items + n);
        const struct hrf_outlines all = { .items = items, .n_items = n };
        struct hrf_lesion_mask *mask = draw(&all, 0, 0, NULL);
        struct hrf_lesions *lesions = NULL;
        assert_int_equal(hrf_lesions_find(mask, &lesions, NULL), HRF_OK);
        int64_t area = 0;
        for (size_t k = 0; k < lesions->components->n_items; k++)
            area += lesions->components->items[k].area;
        print_message("%s: %zu lesions, %zu ITC, %lld px\n", cases[i].file,
                      lesions->components->n_items, lesions->n_itc, (long long)area);
        assert_int_equal(lesions->components->n_items, cases[i].n_lesions);
        assert_int_equal(lesions->n_itc, cases[i].n_itc);
        assert_int_equal(area, cases[i].area);
        for (int k = 0; k < 2; k++)
            assert_true(fabs(lesions->components->items[k].major_axis - cases[i].major_axis[k]) <
                        1e-6);
        hrf_lesions_destroy(lesions);
        hrf_lesion_mask_destroy(mask);
        for (size_t k = 0; k < n; k++)
            hrf_free(items[k].points);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(components_are_numbered_by_their_first_pixel),
        cmocka_unit_test(axes_are_those_of_the_second_moments),
        cmocka_unit_test(a_drawn_pixel_is_one_whose_centre_is_in_a_lesion),
        cmocka_unit_test(outlines_larger_than_a_slide_are_refused),
        cmocka_unit_test(a_million_vertices_are_drawn),
        cmocka_unit_test(near_regions_are_one_lesion),
        cmocka_unit_test(holes_are_filled_but_not_those_at_the_edge),
        cmocka_unit_test(no_tumour_is_no_lesion),
        cmocka_unit_test(real_lesions_are_those_of_scikit_image),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
