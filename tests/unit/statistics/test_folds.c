/* The order in which groups are dealt out to folds. */
#include "statistics/folds.h"

#include "base/alloc.h"
#include "tests/unit/unit.h"

#include <stdio.h>

enum { N = 200 }; /* items: four of every patient, of which the last has another label */

struct cohort {
    char names[N][16];
    const char *patients[N];
    int64_t labels[N];
};

static void fill(struct cohort *c)
{
    for (int i = 0; i < N; i++) {
        snprintf(c->names[i], sizeof c->names[i], "p%d", i / 4);
        c->patients[i] = c->names[i];
        c->labels[i] = i % 4 == 3 ? i / 4 % 3 : 0;
    }
}

/* Whoever repeats a training with the seed of an earlier release has its folds. */
static void groups_come_by_their_highest_label_and_in_drawn_order_within_it(void **state)
{
    (void)state;
    struct cohort c;
    fill(&c);
    HRF_AUTO_FREE struct hrf_fold_group *groups = NULL;
    size_t n = 0;
    hrf_fold_groups_draw(c.patients, c.labels, NULL, N, 3, &groups, &n);
    assert_int_equal(n, N / 4);
    int n_descents = 0; /* of the patients' numbers: they are not in the order of the file */
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(groups[i].n, 4);
        assert_int_equal(groups[i].label, groups[i].first / 4 % 3);
        if (i == 0)
            continue;
        assert_true(groups[i - 1].label <= groups[i].label);
        if (groups[i - 1].label == groups[i].label)
            assert_true(groups[i - 1].draw < groups[i].draw);
        n_descents += groups[i - 1].first > groups[i].first;
    }
    assert_in_range(n_descents, 10, 40);
}

static void what_is_drawn_for_a_group_does_not_depend_on_the_others(void **state)
{
    (void)state;
    struct cohort c;
    bool is_kept[N];
    fill(&c);
    for (int i = 0; i < N; i++)
        is_kept[i] = i / 4 % 5 != 2 && i % 4 != 3; /* whole patients, and single items */
    HRF_AUTO_FREE struct hrf_fold_group *all = NULL, *kept = NULL;
    size_t n_all = 0, n_kept = 0;
    hrf_fold_groups_draw(c.patients, c.labels, NULL, N, 3, &all, &n_all);
    hrf_fold_groups_draw(c.patients, c.labels, is_kept, N, 3, &kept, &n_kept);
    assert_int_equal(n_kept, N / 4 / 5 * 4);
    for (size_t i = 0; i < n_kept; i++) {
        assert_int_equal(kept[i].n, 3);
        assert_int_equal(kept[i].label, 0); /* the items that have another one are left out */
        size_t k = 0;
        while (k < n_all && all[k].first != kept[i].first)
            k++;
        assert_true(k < n_all && all[k].draw == kept[i].draw);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_come_by_their_highest_label_and_in_drawn_order_within_it),
        cmocka_unit_test(what_is_drawn_for_a_group_does_not_depend_on_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
