/* run_pair.h - compares two runs as one cohort: the precisions of run A, then those of run B, each
 * compared with A's first precision.
 *
 * Slides are matched by name and content, patches by slide and position (level-0 px). Slides and
 * patches without a match are named and are in no figure. For runs with embeddings, the cosines and
 * the neighbours of the patches are compared. The slide scores of both runs are computed with A's
 * rule and threshold from all patches of each run. The stores are only read.
 */
#ifndef HRF_AGGREGATE_STUDY_RUN_PAIR_H
#define HRF_AGGREGATE_STUDY_RUN_PAIR_H

#include "aggregate/study/cohort.h"

/* One of the two runs; borrowed. Its precisions get the names "A:fp32" or "B:fp32". */
struct hrf_run_pair_side {
    struct hrf_store *store;
    const struct hrf_aggregate_params *params;
};

struct hrf_run_pair_note {
    char *slide, *text;
};

struct hrf_run_pair {
    struct hrf_cohort *cohort; /* the slides that both have */
    int64_t n_patches, n_only[2];
    struct hrf_run_pair_note *notes; /* slides or patches without a match, and truths that differ */
    size_t n_notes;
};
void hrf_run_pair_destroy(struct hrf_run_pair *pair);
HRF_DEFINE_AUTO(hrf_run_pair)

/* HRF_E_USER: the runs cannot be compared, because they have different classes, one has embeddings
 * and the other scores, their embeddings have different lengths, or they have no slide in common.
 */
HRF_CHECKED enum hrf_status hrf_run_pair_load(const struct hrf_run_pair_side runs[2],
                                              struct hrf_run_pair **out, struct hrf_error *err);

#endif
