/* The slide score rules by value, and max_smoothed against a slow plain reference. */
#include "aggregate/slide/score.h"

#include "base/random.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

enum { MAX_PATCHES = 400 };

struct grid {
    struct hrf_patch patches[MAX_PATCHES];
    float p[MAX_PATCHES];
    struct hrf_tile_plan plan;
};

static void grid_init(struct grid *grid, double stride)
{
    grid->plan = (struct hrf_tile_plan){ .stride_x0 = stride,
                                         .stride_y0 = stride,
                                         .patches = grid->patches };
}

static void grid_add(struct grid *grid, int column, int row, float p)
{
    size_t i = (size_t)grid->plan.n_patches++;
    grid->patches[i] = (struct hrf_patch){ .x = (int32_t)lround(column * grid->plan.stride_x0),
                                           .y = (int32_t)lround(row * grid->plan.stride_y0) };
    grid->p[i] = p;
}

static double score(const struct grid *grid, struct hrf_slide_rule rule)
{
    double value = -1.0;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_slide_score_compute(&grid->plan, grid->p, 1, &rule, &value, &err), HRF_OK);
    return value;
}

static double smoothed(const struct grid *grid)
{
    return score(grid, (struct hrf_slide_rule){ .kind = HRF_SLIDE_RULE_MAX_SMOOTHED });
}

static void near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-12))
        fail_msg("%.17g is not %.17g", a, b);
}

static void simple_rules_by_value(void **state)
{
    (void)state;
    struct grid grid;
    grid_init(&grid, 512.0);
    const float values[] = { 0.25f, 1.0f, 0.0f, 0.5f, 0.75f };
    for (int i = 0; i < 5; i++)
        grid_add(&grid, i, 0, values[i]);
    near(score(&grid, (struct hrf_slide_rule){ .kind = HRF_SLIDE_RULE_MAX }), 1.0);
    near(score(&grid, (struct hrf_slide_rule){ .kind = HRF_SLIDE_RULE_MEAN }), 0.5);
    near(score(&grid, (struct hrf_slide_rule){ .kind = HRF_SLIDE_RULE_TOP_K_MEAN, .top_k = 2 }),
         0.875);
    near(score(&grid, (struct hrf_slide_rule){ .kind = HRF_SLIDE_RULE_TOP_K_MEAN, .top_k = 99 }),
         0.5);
    const double at[][2] = { { 0, 0 }, { 50, 0.5 }, { 90, 0.9 }, { 100, 1 }, { 12.5, 0.125 } };
    for (size_t i = 0; i < 5; i++)
        near(score(&grid, (struct hrf_slide_rule){ .kind = HRF_SLIDE_RULE_PERCENTILE,
                                                   .percentile = at[i][0] }),
             at[i][1]);
}

static void smoothing_damps_a_lone_patch_but_not_a_lesion_at_the_rim(void **state)
{
    (void)state;
    struct grid grid;
    grid_init(&grid, 512.0);
    grid_add(&grid, 10, 10, 1.0f); /* alone */
    for (int i = 0; i < 4; i++)
        grid_add(&grid, 0, i, 0.25f);
    near(smoothed(&grid), 1.0 / 3.0);
    grid_add(&grid, 10, 11, 1.0f); /* a pair */
    near(smoothed(&grid), 2.0 / 3.0);
    grid_add(&grid, 11, 11, 1.0f); /* three in a corner: missing neighbours do not dilute */
    near(smoothed(&grid), 1.0);
}

static void a_slide_of_one_or_two_patches_is_not_damped(void **state)
{
    (void)state;
    struct grid grid;
    grid_init(&grid, 100.0);
    grid_add(&grid, 3, 3, 0.75f);
    near(smoothed(&grid), 0.75);
    grid_add(&grid, 4, 4, 0.25f);
    near(smoothed(&grid), 0.5);
}

static void a_full_block_is_the_mean_of_nine(void **state)
{
    (void)state;
    struct grid grid;
    grid_init(&grid, 64.0);
    for (int column = 0; column < 3; column++)
        for (int row = 0; row < 3; row++)
            grid_add(&grid, column, row, column == 1 && row == 1 ? 1.0f : 0.0f);
    near(smoothed(&grid), 0.25); /* in a corner's block of four, not 1/9 in the middle's */
}

/* max_smoothed straight from its definition on a dense map. */
static double plain_smoothed(const float *map, const unsigned char *present, int columns, int rows,
                             size_t n)
{
    double best = 0.0;
    for (int c = 0; c < columns; c++)
        for (int r = 0; r < rows; r++) {
            if (!present[c * rows + r])
                continue;
            double sum = 0.0;
            size_t count = 0;
            for (int dc = -1; dc <= 1; dc++)
                for (int dr = -1; dr <= 1; dr++) {
                    int x = c + dc, y = r + dr;
                    if (x < 0 || y < 0 || x >= columns || y >= rows || !present[x * rows + y])
                        continue;
                    sum += (double)map[x * rows + y];
                    count++;
                }
            size_t least = n < 3 ? n : 3;
            best = fmax(best, sum / (double)(count > least ? count : least));
        }
    return best;
}

static void smoothing_agrees_with_the_definition_on_random_grids(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(7);
    for (int round = 0; round < 400; round++) {
        int columns = 1 + (int)hrf_random_below(&random, 20);
        int rows = 1 + (int)hrf_random_below(&random, 20);
        double stride = 1.0 + 700.0 * hrf_random_unit(&random); /* rarely a whole number */
        double fill = hrf_random_unit(&random);
        float map[MAX_PATCHES] = { 0 };
        unsigned char present[MAX_PATCHES] = { 0 };
        struct grid grid;
        grid_init(&grid, stride);
        for (int c = 0; c < columns; c++)
            for (int r = 0; r < rows; r++)
                if (hrf_random_unit(&random) < fill) {
                    present[c * rows + r] = 1;
                    map[c * rows + r] = (float)hrf_random_unit(&random);
                    grid_add(&grid, c, r, map[c * rows + r]);
                }
        if (grid.plan.n_patches == 0)
            continue;
        near(smoothed(&grid),
             plain_smoothed(map, present, columns, rows, (size_t)grid.plan.n_patches));
    }
}

static void the_step_picks_one_class_of_many(void **state)
{
    (void)state;
    struct grid grid;
    grid_init(&grid, 10.0);
    grid_add(&grid, 0, 0, 0.0f);
    grid_add(&grid, 0, 1, 0.0f);
    const float both[] = { 0.9f, 0.125f, 0.8f, 0.5f };
    double value = 0.0;
    struct hrf_slide_rule rule = { .kind = HRF_SLIDE_RULE_MAX };
    assert_int_equal(hrf_slide_score_compute(&grid.plan, both + 1, 2, &rule, &value, NULL), HRF_OK);
    near(value, 0.5);
}

static void bad_input_is_named(void **state)
{
    (void)state;
    struct hrf_error err = { .status = HRF_OK };
    double value = -1.0;
    struct grid grid;
    grid_init(&grid, 10.0);
    struct hrf_slide_rule rule = { .kind = HRF_SLIDE_RULE_MAX };
    assert_int_equal(hrf_slide_score_compute(&grid.plan, grid.p, 1, &rule, &value, &err),
                     HRF_E_USER);
    assert_string_equal(err.text, "a slide without patches has no score");
    grid_add(&grid, 0, 0, 0.5f);
    grid_add(&grid, 0, 1, nanf(""));
    assert_int_equal(hrf_slide_score_compute(&grid.plan, grid.p, 1, &rule, &value, &err),
                     HRF_E_USER);
    assert_non_null(strstr(err.text, "patch 1 of 2 has the probability nan"));
    grid.p[1] = 0.5f;
    grid.patches[1] = grid.patches[0];
    rule.kind = HRF_SLIDE_RULE_MAX_SMOOTHED;
    assert_int_equal(hrf_slide_score_compute(&grid.plan, grid.p, 1, &rule, &value, &err),
                     HRF_E_USER);
    assert_non_null(strstr(err.text, "column 0, row 0"));
    rule = (struct hrf_slide_rule){ .kind = HRF_SLIDE_RULE_PERCENTILE, .percentile = 101.0 };
    assert_int_equal(hrf_slide_score_compute(&grid.plan, grid.p, 1, &rule, &value, &err),
                     HRF_E_USER);
    rule = (struct hrf_slide_rule){ .kind = HRF_SLIDE_RULE_TOP_K_MEAN };
    assert_int_equal(hrf_slide_score_compute(&grid.plan, grid.p, 1, &rule, &value, &err),
                     HRF_E_USER);
    assert_true(value < 0.0); /* nothing was written */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simple_rules_by_value),
        cmocka_unit_test(smoothing_damps_a_lone_patch_but_not_a_lesion_at_the_rim),
        cmocka_unit_test(a_slide_of_one_or_two_patches_is_not_damped),
        cmocka_unit_test(a_full_block_is_the_mean_of_nine),
        cmocka_unit_test(smoothing_agrees_with_the_definition_on_random_grids),
        cmocka_unit_test(the_step_picks_one_class_of_many),
        cmocka_unit_test(bad_input_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
