/* Masks against a plain merge, pixel by pixel over all patches; label maps as records hold them. */
#include "aggregate/segmentation/mask.h"
#include "base/random.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

enum { SIDE = 16, MOST = 40, CLASSES = 3 };

struct fixture {
    struct hrf_tile_plan plan;
    struct hrf_patch patches[MOST];
    unsigned char labels[MOST][SIDE * SIDE];
    struct hrf_label_maps maps;
};

/* Patches of 64 px at 0.5 um/px, whose maps have a fourth of the resolution, on a slide of
 * mpp_x x mpp_y; anywhere, also over the edges. */
static void fill(struct fixture *f, int64_t n, double mpp_x, double mpp_y, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    f->plan = (struct hrf_tile_plan){ .width = 900,
                                      .height = 700,
                                      .mpp_x = mpp_x,
                                      .mpp_y = mpp_y,
                                      .patch_size = 64,
                                      .patch_mpp = 0.5,
                                      .n_patches = n,
                                      .patches = f->patches };
    memset(&f->maps, 0, sizeof f->maps);
    assert_int_equal(hrf_label_maps_init(&f->maps, SIDE, n, NULL), HRF_OK);
    for (int64_t i = 0; i < n; i++) {
        f->patches[i].x = (int32_t)hrf_random_below(&random, 900);
        f->patches[i].y = (int32_t)hrf_random_below(&random, 700);
        for (int k = 0; k < SIDE * SIDE; k++)
            f->labels[i][k] = (unsigned char)hrf_random_below(&random, CLASSES + 1);
        assert_int_equal(hrf_label_maps_put(&f->maps, i, f->labels[i], NULL), HRF_OK);
    }
}

/* The label of one pixel of the whole mask. */
static unsigned char plain(const struct fixture *f, const struct hrf_mask *mask, int64_t x,
                           int64_t y)
{
    double best = INFINITY;
    unsigned char label = 0;
    for (int64_t i = 0; i < f->plan.n_patches; i++) {
        const double u = (double)x - floor(f->patches[i].x / mask->down_x + 0.5);
        const double v = (double)y - floor(f->patches[i].y / mask->down_y + 0.5);
        const double d = fmax(fabs(u + 0.5 - SIDE / 2.0), fabs(v + 0.5 - SIDE / 2.0));
        if (u < 0 || v < 0 || u >= SIDE || v >= SIDE || d >= best)
            continue;
        best = d;
        label = f->labels[i][(int)v * SIDE + (int)u];
    }
    return label;
}

static void check_mask(const struct fixture *f)
{
    HRF_AUTO(hrf_mask) mask = NULL;
    int64_t counts[CLASSES + 1], want[CLASSES + 1] = { 0 };
    assert_int_equal(hrf_mask_create(&f->plan, &f->maps, CLASSES, &mask, NULL), HRF_OK);
    assert_true(fabs(mask->mpp - 2.0) < 1e-12);
    for (int32_t level = 0; level < mask->n_levels; level++) {
        const struct hrf_mask_size size = hrf_mask_level_size(mask, level);
        const int64_t step = (int64_t)1 << level, n = 7; /* rows that are asked for at once */
        HRF_AUTO_FREE unsigned char *rows = hrf_alloc((size_t)(n * size.width));
        for (int64_t y = 0; y < size.height; y++) {
            const int64_t left = size.height - y;
            if (y % n == 0)
                assert_int_equal(hrf_mask_rows(mask, level, y, left < n ? left : n, rows, NULL),
                                 HRF_OK);
            for (int64_t x = 0; x < size.width; x++) {
                const unsigned char label = plain(f, mask, x * step + step / 2,
                                                  y * step + step / 2);
                assert_int_equal(rows[y % n * size.width + x], label);
                want[label] += level == 0;
            }
        }
    }
    assert_int_equal(hrf_mask_count(mask, counts, NULL), HRF_OK);
    assert_memory_equal(counts, want, sizeof counts);
}

static void a_pixel_is_of_the_patch_whose_centre_is_nearest(void **state)
{
    (void)state;
    static struct fixture f;
    const double mpps[][2] = { { 0.25, 0.25 }, { 0.2431, 0.2437 }, { 0.5, 0.25 }, { 2.0, 2.0 } };
    for (size_t i = 0; i < sizeof mpps / sizeof mpps[0]; i++) {
        fill(&f, MOST, mpps[i][0], mpps[i][1], i + 1);
        check_mask(&f);
        hrf_label_maps_release(&f.maps);
    }
    fill(&f, 0, 0.25, 0.25, 1);
    check_mask(&f);
    hrf_label_maps_release(&f.maps);
}

static void maps_of_other_patches_are_refused(void **state)
{
    (void)state;
    static struct fixture f;
    struct hrf_mask *mask = NULL;
    struct hrf_error err = { .status = HRF_OK };
    unsigned char labels[SIDE * SIDE];
    fill(&f, 3, 0.25, 0.25, 1);
    f.plan.n_patches = 4;
    assert_int_equal(hrf_mask_create(&f.plan, &f.maps, CLASSES, &mask, &err), HRF_E_USER);
    assert_string_equal(err.text, "3 label maps of 16 px for 4 patches of 64 px");
    assert_int_equal(hrf_label_maps_get(&f.maps, 1, CLASSES - 1, labels, &err), HRF_E_USER);
    assert_string_equal(err.text, "the label map of patch 1 has the label 3 of 2 classes");
    f.maps.items[2].data[5] ^= 1;
    assert_int_equal(hrf_label_maps_get(&f.maps, 2, CLASSES, labels, &err), HRF_E_USER);
    assert_string_equal(err.text, "the label map of patch 2 is damaged");
    hrf_bytes_release(&f.maps.items[0]);
    assert_int_equal(hrf_label_maps_get(&f.maps, 0, CLASSES, labels, &err), HRF_E_USER);
    assert_string_equal(err.text, "patch 0 has no label map");
    hrf_label_maps_release(&f.maps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pixel_is_of_the_patch_whose_centre_is_nearest),
        cmocka_unit_test(maps_of_other_patches_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
