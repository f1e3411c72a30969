/* folds.h - items in a drawn order for cross-validation, those of a group (a patient) together.
 * Pure.
 */
#ifndef HRF_BASE_FOLDS_H
#define HRF_BASE_FOLDS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_fold_group {
    int64_t label; /* the highest of its items */
    uint64_t draw;
    size_t first, n; /* its items: [first, first + n) */
};
/* The groups by label and, of one label, in a drawn order: dealing them out in turn gives each fold
 * its share of each label. groups[n]: the items' group, equal ones next to each other; `is_kept`
 * NULL: all. What is drawn for a group does not depend on which others are kept. *out is heap. */
HRF_CHECKED enum hrf_status hrf_fold_groups_draw(const char *const *groups, const int64_t *labels,
                                                 const bool *is_kept, size_t n, uint64_t seed,
                                                 struct hrf_fold_group **out, size_t *n_out,
                                                 struct hrf_error *err);

#endif
