/* pair_drift.h - the embeddings of one slide in two runs against each other, for the patches that
 * both have: cosines and neighbours (drift.h, neighbours.h). Both are read a block at a time.
 */
#ifndef HRF_AGGREGATE_STUDY_PAIR_DRIFT_H
#define HRF_AGGREGATE_STUDY_PAIR_DRIFT_H

#include "aggregate/study/cohort.h"

/* Where one run has them. rows[n]: the numbers of the shared patches in the slide's tile plan. */
struct hrf_pair_drift_side {
    struct hrf_store *store;
    int64_t slide_id;
    const char *precision;
    const int64_t *rows;
};

/* Adds them to the drift and the neighbours of `p`, sides[0] being the reference; of the reference
 * itself nothing is read. HRF_E_AGAIN: one of
 * the runs does not have all of them. HRF_E_UNSUPPORTED: the runs have the patches in another
 * order. HRF_E_USER: embeddings of other lengths. */
HRF_CHECKED enum hrf_status hrf_pair_drift_add(const struct hrf_pair_drift_side sides[2], int64_t n,
                                               struct hrf_cohort_precision *p,
                                               struct hrf_error *err);

#endif
