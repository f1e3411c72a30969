/* Lesions of a grid of patches, by value. */
#include "aggregate/slide/find_lesions.h"

#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

/* 8 x 5 patches of 100 level-0 px at 0.5 um/px; digits are tenths. */
static const char *const map[] = {
    "09000080", /*  */
    "00800000", /* touches the 9 at a corner */
    "00000007", /*  */
    "60000000", /*  */
    "00000555",
};
enum { COLUMNS = 8, ROWS = 5 };

static struct hrf_patch patches[COLUMNS * ROWS];
static float probabilities[COLUMNS * ROWS * 2]; /* the second class is the positive one */

static struct hrf_tile_plan make_plan(void)
{
    struct hrf_tile_plan plan = { .stride_x0 = 100.0,
                                  .stride_y0 = 100.0,
                                  .patch_width0 = 100,
                                  .patch_height0 = 100,
                                  .mpp_x = 0.5,
                                  .mpp_y = 0.5,
                                  .patches = patches,
                                  .n_patches = COLUMNS * ROWS };
    for (int x = 0; x < COLUMNS; x++)
        for (int y = 0; y < ROWS; y++) {
            const int i = x * ROWS + y;
            patches[i] = (struct hrf_patch){ .x = 100 * x, .y = 100 * y };
            probabilities[2 * i + 1] = (float)(map[y][x] - '0') / 10.0F;
        }
    return plan;
}

static size_t find(const struct hrf_lesion_rule *rule, struct hrf_detection *found)
{
    const struct hrf_tile_plan plan = make_plan();
    struct hrf_detection *items = NULL;
    size_t n = 0;
    assert_int_equal(hrf_lesions_of_patches(&plan, probabilities + 1, 2, rule, &items, &n, NULL),
                     HRF_OK);
    assert_true(n <= COLUMNS * ROWS);
    memcpy(found, items, n * sizeof *found);
    hrf_free(items);
    return n;
}

static void is_at(const struct hrf_detection *d, double confidence, int64_t column, int64_t row)
{
    assert_true(fabs(d->confidence - confidence) < 1e-6);
    assert_int_equal(d->x, 100 * column + 50);
    assert_int_equal(d->y, 100 * row + 50);
}

static void a_component_stands_at_its_highest_patch(void **state)
{
    (void)state;
    struct hrf_detection found[COLUMNS * ROWS];
    const struct hrf_lesion_rule rule = { .method = HRF_LESIONS_COMPONENTS, .threshold = 0.5 };
    assert_int_equal(find(&rule, found), 5);
    is_at(&found[0], 0.9, 1, 0); /* with the 0.8 beside it */
    is_at(&found[1], 0.8, 6, 0);
    is_at(&found[2], 0.7, 7, 2);
    is_at(&found[3], 0.6, 0, 3);
    is_at(&found[4], 0.5, 5, 4); /* of equal ones the first */
    const struct hrf_lesion_rule high = { .method = HRF_LESIONS_COMPONENTS, .threshold = 0.85 };
    assert_int_equal(find(&high, found), 1);
    const struct hrf_lesion_rule none = { .method = HRF_LESIONS_COMPONENTS, .threshold = 0.95 };
    assert_int_equal(find(&none, found), 0);
}

static void suppression_keeps_the_highest_within_a_square(void **state)
{
    (void)state;
    struct hrf_detection found[COLUMNS * ROWS];
    /* 101 um are two patches and a bit: both 0.8 fall to nothing, or to the 0.9; 0.7 is two below.
     */
    const struct hrf_lesion_rule rule = { .method = HRF_LESIONS_NMS,
                                          .threshold = 0.5,
                                          .radius = 101 };
    const size_t n = find(&rule, found);
    assert_int_equal(n, 4);
    is_at(&found[0], 0.9, 1, 0);
    is_at(&found[1], 0.8, 6, 0);
    is_at(&found[2], 0.6, 0, 3);
    is_at(&found[3], 0.5, 5, 4);
    const struct hrf_lesion_rule every = { .method = HRF_LESIONS_NMS,
                                           .threshold = 0.5,
                                           .radius = 0 };
    assert_int_equal(find(&every, found), 8);
}

static void a_plan_without_a_grid_is_refused(void **state)
{
    (void)state;
    struct hrf_tile_plan plan = make_plan();
    const struct hrf_lesion_rule rule = { .method = HRF_LESIONS_COMPONENTS, .threshold = 0.5 };
    struct hrf_detection *items = NULL;
    size_t n = 0;
    plan.stride_x0 = 0.0;
    assert_int_equal(hrf_lesions_of_patches(&plan, probabilities + 1, 2, &rule, &items, &n, NULL),
                     HRF_E_USER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_component_stands_at_its_highest_patch),
        cmocka_unit_test(suppression_keeps_the_highest_within_a_square),
        cmocka_unit_test(a_plan_without_a_grid_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
