/* patch_columns.h - what the tables of a slide's patches have beside their places: probabilities,
 * or the attention of a slide head, or nothing. */
#ifndef HRF_AGGREGATE_REPORT_PATCH_COLUMNS_H
#define HRF_AGGREGATE_REPORT_PATCH_COLUMNS_H

#include "aggregate/study/cohort.h"

struct hrf_patch_columns {
    const struct hrf_cohort *cohort;
    const struct hrf_scores *scores;
    const struct hrf_head_scores *head; /* NULL: none */
    size_t n;
};
/* HRF_E_USER: they are not of the plan's patches. */
HRF_CHECKED enum hrf_status
hrf_patch_columns_init(const struct hrf_cohort *cohort, const struct hrf_tile_plan *plan,
                       const struct hrf_scores *scores, const struct hrf_head_scores *head,
                       struct hrf_patch_columns *out, struct hrf_error *err);
/* "prob_tumor"; "attention", or of a head with one attention for each class "attention_tumor".
 * Heap; NULL: no memory. */
char *hrf_patch_column_name(const struct hrf_patch_columns *columns, size_t k);
double hrf_patch_column_value(const struct hrf_patch_columns *columns, int64_t patch, size_t k);

#endif
