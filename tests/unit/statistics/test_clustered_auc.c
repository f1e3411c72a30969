/* The clustered AUC against tools/reference/clustered_auc.py, which counts pairs, and against
 * DeLong's test where every item is a cluster. */
#include "statistics/clustered_auc.h"

#include "statistics/delong.h"
#include "tests/unit/unit.h"

#include <math.h>

enum { N = 60 };

struct fixture {
    bool is_positive[N];
    uint32_t clusters[N];
    float first[N], second[N];
};

/* As item() of the reference. */
static struct fixture make_items(void)
{
    struct fixture f;
    for (int i = 0; i < N; i++) {
        const int c = i % 7;
        f.clusters[i] = (uint32_t)c;
        f.is_positive[i] = c != 6 && i * 7 % 10 < 4;
        f.first[i] = (float)(i * 37 % 41 + 12 * f.is_positive[i] + c) / 60;
        f.second[i] = (float)(i * 29 % 43 + 9 * f.is_positive[i] + 2 * c) / 60;
    }
    return f;
}

static void clusters_give_what_counting_pairs_gives(void **state)
{
    (void)state;
    const struct fixture f = make_items();
    const struct hrf_clustered_items items = { f.is_positive, f.clusters, N, 9 }; /* two empty */
    struct hrf_clustered_auc a;
    assert_int_equal(hrf_clustered_auc(&items, f.first, f.second, &a, NULL), HRF_OK);
    assert_true(fabs(a.auc - 0.5757020757020757) < 1e-14);
    assert_true(fabs(a.variance - 0.0016059750287821001) < 1e-14);
    assert_true(fabs(a.difference - 0.04700854700854701) < 1e-14);
    assert_true(fabs(a.difference_variance - 0.006510399517458205) < 1e-14);
    assert_true(hrf_clustered_auc(&items, f.first, NULL, &a, NULL) == HRF_OK && a.difference == 0);
}

static void items_alone_in_their_cluster_give_delong(void **state)
{
    (void)state;
    struct fixture f = make_items();
    struct hrf_paired pairs[N];
    for (int i = 0; i < N; i++) {
        f.clusters[i] = (uint32_t)i;
        pairs[i] = (struct hrf_paired){ (double)f.first[i], (double)f.second[i], f.is_positive[i] };
    }
    const struct hrf_clustered_items items = { f.is_positive, f.clusters, N, N };
    struct hrf_clustered_auc a;
    struct hrf_delong d;
    assert_int_equal(hrf_clustered_auc(&items, f.first, f.second, &a, NULL), HRF_OK);
    assert_int_equal(hrf_delong_test(pairs, N, &d, NULL), HRF_OK);
    assert_true(fabs(a.auc - d.auc_a) < 1e-14 && fabs(a.difference - d.difference) < 1e-14);
    assert_true(fabs(a.difference_variance - d.variance) < 1e-14);
}

static void what_cannot_be_computed_has_a_reason(void **state)
{
    (void)state;
    struct fixture f = make_items();
    const struct hrf_clustered_items items = { f.is_positive, f.clusters, N, 7 }, none = { 0 };
    struct hrf_clustered_auc a;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_clustered_auc(&none, NULL, NULL, &a, &err), HRF_E_USER);
    assert_string_equal(err.text, "no patch with a truth was scored");
    f.first[7] = NAN;
    assert_int_equal(hrf_clustered_auc(&items, f.first, NULL, &a, &err), HRF_E_USER);
    assert_string_equal(err.text, "the score of labelled patch 8 is not a number");
    for (int i = 0; i < N; i++)
        f.is_positive[i] = f.clusters[i] == 3;
    assert_int_equal(hrf_clustered_auc(&items, f.second, NULL, &a, &err), HRF_E_USER);
    assert_string_equal(err.text, "the AUC of patches needs two slides with patches of each class; "
                                  "there are 1 with lesion and 6 with tissue outside lesions");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clusters_give_what_counting_pairs_gives),
        cmocka_unit_test(items_alone_in_their_cluster_give_delong),
        cmocka_unit_test(what_cannot_be_computed_has_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
