/* pair_drift.h - compares the embeddings of one slide in two runs, for the patches that both have:
 * cosines and neighbours (drift.h, neighbours.h). Both are read a block at a time.
 */
#ifndef HRF_AGGREGATE_STUDY_PAIR_DRIFT_H
#define HRF_AGGREGATE_STUDY_PAIR_DRIFT_H

#include "aggregate/study/cohort.h"

/* The embeddings in one run. rows[n] are the numbers of the shared patches in the slide's tile
 * plan. */
struct hrf_pair_drift_side {
    struct hrf_store *store;
    int64_t slide_id;
    const char *precision;
    const int64_t *rows;
};

/* Adds the slide to the drift and the neighbours of `p`; sides[0] is the reference. If both sides
 * are the reference, nothing is read. HRF_E_AGAIN: one of the runs does not have all embeddings.
 * HRF_E_UNSUPPORTED: the runs have the patches in different orders. HRF_E_USER: the embeddings have
 * different lengths. */
HRF_CHECKED enum hrf_status hrf_pair_drift_add(const struct hrf_pair_drift_side sides[2], int64_t n,
                                               struct hrf_cohort_precision *p,
                                               struct hrf_error *err);

#endif
