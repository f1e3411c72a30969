/* Probes of embeddings: the linear model has scikit-learn's weights, the neighbours are the
 * nearest. */
#include "base/alloc.h"
#include "tests/unit/unit.h"
#include "training/probe/knn.h"
#include "training/probe/linear_fit.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum { N = 24, WIDTH = 3, MOST_CLASSES = 3 };

struct data {
    float numbers[N][WIDTH], truths_of[N][MOST_CLASSES];
    const float *rows[N], *truths[N];
};

static void make_rows(struct data *d)
{
    memset(d, 0, sizeof *d);
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < WIDTH; k++)
            d->numbers[i][k] = (float)(sin(i * 1.3 + k * 2.1) + (k == 2 ? 5 : 0));
        d->rows[i] = d->numbers[i];
        d->truths[i] = d->truths_of[i];
    }
}

static struct hrf_linear_problem problem_of(const struct data *d, enum hrf_label_kind kind,
                                            size_t n_classes, double cost)
{
    return (struct hrf_linear_problem){ .kind = kind,
                                        .rows = d->rows,
                                        .truths = d->truths,
                                        .n = N,
                                        .width = WIDTH,
                                        .n_classes = n_classes,
                                        .cost = cost };
}

static void fit(const struct hrf_linear_problem *problem, double *weights)
{
    int64_t n_steps = 0;
    assert_int_equal(hrf_linear_fit(problem, weights, &n_steps, NULL), HRF_OK);
    assert_in_range(n_steps, 1, HRF_LINEAR_MOST_STEPS - 1);
}

/* All expected weights are those of scikit-learn 1.9.1 with a tolerance of 1e-12. */
static void a_model_of_three_classes_is_scikit_learns(void **state)
{
    (void)state;
    static const double wanted[3][WIDTH] = { { -0.207872201, -0.06449687, 0.272994167 },
                                             { 0.469071707, -0.29427834, -0.171941918 },
                                             { -0.261199505, 0.35877521, -0.101052249 } };
    static const double first[3] = { 0.2130822, 0.31211484, 0.47480296 };
    struct data d;
    double weights[3 * (WIDTH + 1)];
    float scores[3];
    make_rows(&d);
    for (int i = 0; i < N; i++)
        d.truths_of[i][(i * i + i / 3) % 3] = 1;
    const struct hrf_linear_problem problem = problem_of(&d, HRF_LABEL_CLASS, 3, 0.7);
    fit(&problem, weights);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < WIDTH; i++)
            assert_float_equal(weights[k * (WIDTH + 1) + i], wanted[k][i], 1e-5);
    hrf_linear_score(problem.kind, weights, d.rows[0], WIDTH, 3, scores);
    for (int k = 0; k < 3; k++)
        assert_float_equal(scores[k], first[k], 1e-5);
    double again[3 * (WIDTH + 1)];
    omp_set_num_threads(3);
    fit(&problem, again);
    assert_memory_equal(weights, again, sizeof again); /* on any number of threads */
}

static void two_balanced_classes_have_the_penalty_of_one_vector(void **state)
{
    (void)state;
    static const double wanted[] = { 2.154976067, -0.097622811, -2.056407294, 9.647019102 };
    struct data d;
    double weights[2 * (WIDTH + 1)];
    make_rows(&d);
    for (int i = 0; i < N; i++)
        d.truths_of[i][i % 5 < 2] = 1; /* 10 of 24 */
    struct hrf_linear_problem problem = problem_of(&d, HRF_LABEL_CLASS, 2, 2);
    static const double balanced[] = { 0, 12.0 / 14, 0, 12.0 / 10 };
    problem.class_weights = balanced;
    fit(&problem, weights);
    for (int i = 0; i <= WIDTH; i++)
        assert_float_equal((weights[WIDTH + 1 + i] - weights[i]), wanted[i], 1e-4);
}

static void labels_have_models_of_their_own_and_numbers_ridge_regression(void **state)
{
    (void)state;
    static const double of_labels[] = { 1.211080475, -0.051132309, -1.159452694, 5.28275438,
                                        0.010263263, 0.008786366,  -0.01913479,  -0.597488959 };
    static const double of_number[] = { 2.654500301, -0.681625285, -1.966253188, 9.630165302 };
    struct data d;
    double weights[2 * (WIDTH + 1)];
    make_rows(&d);
    for (int i = 0; i < N; i++) {
        d.truths_of[i][0] = i % 5 < 2 ? 1 : 0;
        d.truths_of[i][1] = i % 3 == 0 ? 1 : 0;
    }
    const struct hrf_linear_problem labels = problem_of(&d, HRF_LABEL_SEVERAL, 2, 0.5);
    fit(&labels, weights);
    for (int i = 0; i < 2 * (WIDTH + 1); i++)
        assert_float_equal(weights[i], of_labels[i], 1e-4);
    for (int i = 0; i < N; i++)
        d.truths_of[i][0] = (float)(cos(i * 0.7) * 10 + 3 * (double)d.numbers[i][0]);
    const struct hrf_linear_problem number = problem_of(&d, HRF_LABEL_NUMBERS, 1, 4);
    fit(&number, weights);
    for (int i = 0; i <= WIDTH; i++)
        assert_float_equal(weights[i], of_number[i], 1e-4);
}

static void the_nearest_by_cosine_vote(void **state)
{
    (void)state;
    /* 40 directions around a circle, of any length; the class is the half, the number the angle. */
    enum { ROWS = 40, ASKED = 8 };
    float numbers[ROWS][2], truths_of[ROWS][2], asked_of[ASKED][2], scores_of[ASKED][2];
    const float *rows[ROWS], *truths[ROWS], *asked[ASKED];
    float *scores[ASKED];
    for (int i = 0; i < ROWS; i++) {
        const double angle = 2 * 3.14159265358979 * (i * 7 % ROWS) / ROWS;
        numbers[i][0] = (float)((1 + i % 3) * cos(angle));
        numbers[i][1] = (float)((1 + i % 3) * sin(angle));
        truths_of[i][0] = (float)(i * 7 % ROWS);
        truths_of[i][1] = i * 7 % ROWS < ROWS / 2;
        rows[i] = numbers[i];
        truths[i] = truths_of[i];
    }
    for (int a = 0; a < ASKED; a++) { /* a little off direction 4 a + 2 */
        const double angle = 2 * 3.14159265358979 * (4 * a + 2.1) / ROWS;
        asked_of[a][0] = (float)(9 * cos(angle));
        asked_of[a][1] = (float)(9 * sin(angle));
        asked[a] = asked_of[a];
        scores[a] = scores_of[a];
    }
    hrf_knn_score(rows, truths, ROWS, 2, 2, 3, asked, ASKED, scores);
    for (int a = 0; a < ASKED; a++) { /* 4 a + 1, + 2, + 3 */
        assert_float_equal(scores_of[a][0], (float)(4 * a + 2), 1e-6);
        assert_float_equal(scores_of[a][1], (4 * a + 2 < ROWS / 2 ? 1 : 0), 1e-6);
    }
    hrf_knn_score(rows, truths, ROWS, 2, 2, ROWS, asked, ASKED, scores);
    assert_float_equal(scores_of[0][1], 0.5, 1e-6); /* all of them */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_of_three_classes_is_scikit_learns),
        cmocka_unit_test(two_balanced_classes_have_the_penalty_of_one_vector),
        cmocka_unit_test(labels_have_models_of_their_own_and_numbers_ridge_regression),
        cmocka_unit_test(the_nearest_by_cosine_vote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
