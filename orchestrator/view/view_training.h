/* view_training.h - the state of a recipe's trainings for the viewer's page, from the files that
 * they write as epochs end. */
#ifndef HRF_ORCHESTRATOR_VIEW_VIEW_TRAINING_H
#define HRF_ORCHESTRATOR_VIEW_VIEW_TRAINING_H

#include "base/error.h"
#include "base/strbuf.h"

#include <stdbool.h>

/* {"name", "has_report", "trainings": [{"name", "fold", "seed", "state": "done" or "under way",
 * "changed_ms": of its last sign of life, since 1970, "columns": those of history.csv, "epochs":
 * [[a number or null]]}]}, by fold and seed. */
HRF_CHECKED enum hrf_status hrf_view_training(const char *directory, struct hrf_strbuf *out,
                                              struct hrf_error *err);
/* The page that `train` leaves when all is done. HRF_E_AGAIN: it is not there yet. *bytes: heap. */
HRF_CHECKED enum hrf_status hrf_view_training_report(const char *directory, unsigned char **bytes,
                                                     size_t *n_bytes, struct hrf_error *err);

#endif
