/* folds.c - see folds.h. */
#include "statistics/folds.h"

#include "base/alloc.h"
#include "base/random.h"

#include <stdlib.h>
#include <string.h>

static int by_draw(const void *a, const void *b)
{
    const struct hrf_fold_group *x = a, *y = b;
    if (x->label != y->label)
        return x->label < y->label ? -1 : 1;
    return x->draw != y->draw ? (x->draw < y->draw ? -1 : 1) : (x->first < y->first ? -1 : 1);
}

void hrf_fold_groups_draw(const char *const *groups, const int64_t *labels, const bool *is_kept,
                          size_t n, uint64_t seed, struct hrf_fold_group **out, size_t *n_out)
{
    HRF_AUTO_FREE struct hrf_fold_group *items = hrf_calloc(n + 1, sizeof *items);
    struct hrf_random random = hrf_random_init(seed);
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const bool is_new = i == 0 || strcmp(groups[i], groups[i - 1]) != 0;
        const uint64_t draw = is_new ? hrf_random_u64(&random) : 0;
        if (is_kept != NULL && !is_kept[i])
            continue;
        if (is_new)
            items[count++] = (struct hrf_fold_group){ labels[i], draw, i, 0 };
        items[count - 1].n++;
        if (labels[i] > items[count - 1].label)
            items[count - 1].label = labels[i];
    }
    qsort(items, count, sizeof *items, by_draw);
    HRF_MOVE(*out, items);
    *n_out = count;
}
