/* slide_forest.h - slide_head.forest: slides scored by random forests over the features of their
 * heat maps (aggregate/forest), which are trained on other slides of the run.
 *
 * The forests are trained on the maps of the first precision and score those of every precision. A
 * slide is scored by the forests that were not trained on it or on another slide of its patient:
 * one of each fold's, or the only one; a slide without a truth by all, whose mean is its score. The
 * same patch scores give the same forests. Fast enough to be done anew with every aggregation.
 */
#ifndef HRF_ORCHESTRATOR_RUN_SLIDE_FOREST_H
#define HRF_ORCHESTRATOR_RUN_SLIDE_FOREST_H

#include "schema/store/store.h"
#include "schema/workflow/workflow.h"

struct run_forest_scores {
    double *scores; /* [n_slides][variants of the workflow]; NaN: the slide has none. Heap */
    char *failure;  /* why there is no forest; heap, NULL: there is */
};
void run_forest_scores_release(struct run_forest_scores *scores);

/* Also writes DIR/results/forest/: features.csv and a file for each forest. `slides` are in the
 * states that they have after inference. Errors other than of the slides and their table (failure)
 * are of the machine. */
HRF_CHECKED enum hrf_status run_forest_score(const struct hrf_workflow *w, struct hrf_store *store,
                                             const char *directory,
                                             const struct hrf_slide_rows *slides,
                                             struct run_forest_scores *out, struct hrf_error *err);

#endif
