/* embedding_task.h - compares the embeddings of a slide in each precision with those in the first:
 * cosines (drift.h) and neighbours (neighbours.h).
 *
 * All precisions are read in step, a block at a time, so that each is read once.
 */
#ifndef HRF_AGGREGATE_STUDY_EMBEDDING_TASK_H
#define HRF_AGGREGATE_STUDY_EMBEDDING_TASK_H

#include "aggregate/study/cohort.h"

struct hrf_store;

/* Adds the slide to the precisions in which it has_features; nothing if the first is not among
 * them. */
HRF_CHECKED enum hrf_status hrf_embedding_task_add(struct hrf_store *store,
                                                   struct hrf_cohort *cohort,
                                                   const struct hrf_cohort_slide *slide,
                                                   struct hrf_error *err);

#endif
