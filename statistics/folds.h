/* folds.h - draws the order of items for cross-validation, with the items of a group (a patient)
 * kept together. Pure.
 */
#ifndef HRF_STATISTICS_FOLDS_H
#define HRF_STATISTICS_FOLDS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_fold_group {
    int64_t label; /* the highest of its items */
    uint64_t draw;
    size_t first, n; /* its items: [first, first + n) */
};
/* Sorts the groups by label and draws the order within a label, so that dealing them out in turn
 * gives each fold its share of each label. groups[n] is the group of each item, with equal groups
 * next to each other; `is_kept` NULL keeps all items. The number drawn for a group does not depend
 * on which others are kept. *out is heap. */
void hrf_fold_groups_draw(const char *const *groups, const int64_t *labels, const bool *is_kept,
                          size_t n, uint64_t seed, struct hrf_fold_group **out, size_t *n_out);

#endif
