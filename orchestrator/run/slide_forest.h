/* slide_forest.h - slide_head.forest: scores slides by random forests over the features of their
 * heat maps (aggregate/forest). The forests are trained on other slides of the run.
 *
 * The forests are trained on the heat maps of the first precision and score those of every
 * precision. A slide is scored by the forest that was not trained on it or on another slide of its
 * patient: the one of its fold, or the only one. The score of a slide without a truth is the mean
 * over all forests. The same patch scores give the same forests. Training is fast enough to be
 * repeated with every aggregation.
 */
#ifndef HRF_ORCHESTRATOR_RUN_SLIDE_FOREST_H
#define HRF_ORCHESTRATOR_RUN_SLIDE_FOREST_H

#include "schema/store/store.h"
#include "schema/workflow/workflow.h"

struct run_forest_scores {
    double *scores; /* [n_slides][variants of the workflow]; NaN: the slide has none. Heap */
    char *failure;  /* why there is no forest; heap. NULL: there is one */
};
void run_forest_scores_release(struct run_forest_scores *scores);

/* Trains the forests, scores the slides and writes DIR/results/forest/: features.csv and a file for
 * each forest. `slides` have the states of after inference. Faults of the slides and their table
 * are in out->failure; an error status is a fault of the machine. */
HRF_CHECKED enum hrf_status run_forest_score(const struct hrf_workflow *w, struct hrf_store *store,
                                             const char *directory,
                                             const struct hrf_slide_rows *slides,
                                             struct run_forest_scores *out, struct hrf_error *err);

#endif
