/* The share of nearest neighbours that are kept, against a search through all pairs. */
#include "aggregate/study/neighbours.h"
#include "base/random.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>

enum { N = 600, WIDTH = 24 };

static double cosine(const float *a, const float *b)
{
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < WIDTH; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

enum { STEP = 2, SAMPLE = (N + STEP - 1) / STEP };

/* Of all pairs of the sample. */
static void fill(const float *rows, double cosines[SAMPLE][SAMPLE])
{
    for (int i = 0; i < SAMPLE; i++)
        for (int k = 0; k < SAMPLE; k++)
            cosines[i][k] = cosine(rows + i * STEP * WIDTH, rows + k * STEP * WIDTH);
}

/* Whether fewer than 10 of the sample are nearer to patch i than patch k is. */
static bool is_near(double cosines[SAMPLE][SAMPLE], int i, int k)
{
    int n = 0;
    for (int j = 0; j < SAMPLE; j++)
        n += j != i && j != k && cosines[i][j] > cosines[i][k];
    return n < HRF_NEIGHBOURS;
}

static void shares_are_those_of_all_pairs(void **state)
{
    (void)state;
    static float a[N * WIDTH], b[N * WIDTH];
    static double before[SAMPLE][SAMPLE], after[SAMPLE][SAMPLE];
    struct hrf_random random = hrf_random_init(1);
    struct hrf_neighbours s = { .n_all = 0 };
    for (int i = 0; i < N * WIDTH; i++) {
        a[i] = (float)hrf_random_normal(&random);
        b[i] = a[i] + 0.3f * (float)hrf_random_normal(&random);
    }
    assert_int_equal(hrf_neighbours_begin(&s, N, WIDTH, NULL), HRF_OK);
    for (int i = 0; i < N; i += 100) /* in pieces, as they are read */
        hrf_neighbours_add(&s, a + i * WIDTH, b + i * WIDTH, 100);
    hrf_neighbours_end(&s);
    int64_t n_kept = 0;
    fill(a, before);
    fill(b, after);
    for (int i = 0; i < SAMPLE; i++)
        for (int k = 0; k < SAMPLE; k++)
            n_kept += k != i && is_near(before, i, k) && is_near(after, i, k);
    assert_int_equal(s.n_patches, SAMPLE);
    assert_true(llabs(s.n_kept - n_kept) <= 2); /* cosines in float */
    assert_true(hrf_neighbours_kept(&s) > 0.2 && hrf_neighbours_kept(&s) < 0.9);
    hrf_neighbours_release(&s);
}

static void the_same_embeddings_keep_all_and_small_slides_say_nothing(void **state)
{
    (void)state;
    float rows[40 * WIDTH];
    struct hrf_random random = hrf_random_init(2);
    struct hrf_neighbours s = { .n_all = 0 };
    for (int i = 0; i < 40 * WIDTH; i++)
        rows[i] = (float)hrf_random_normal(&random);
    assert_int_equal(hrf_neighbours_begin(&s, HRF_NEIGHBOURS, WIDTH, NULL), HRF_OK);
    hrf_neighbours_add(&s, rows, rows, HRF_NEIGHBOURS);
    hrf_neighbours_end(&s);
    assert_true(isnan(hrf_neighbours_kept(&s)));
    assert_int_equal(hrf_neighbours_begin(&s, 40, WIDTH, NULL), HRF_OK);
    hrf_neighbours_add(&s, rows, rows, 40);
    hrf_neighbours_end(&s);
    assert_true(hrf_neighbours_kept(&s) == 1);
    assert_int_equal(s.n_patches, 40);
    hrf_neighbours_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_those_of_all_pairs),
        cmocka_unit_test(the_same_embeddings_keep_all_and_small_slides_say_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
