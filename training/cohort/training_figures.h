/* training_figures.h - what a training has come to, of slides or of pictures: the figures that its
 * result.json has, and the lines of its history.csv. */
#ifndef HRF_TRAINING_COHORT_TRAINING_FIGURES_H
#define HRF_TRAINING_COHORT_TRAINING_FIGURES_H

#include "statistics/figure.h"
#include "training/cohort/scored.h"
#include "training/cohort/training_set.h"

struct hrf_training_figures {
    int64_t n_training, n_validation, n_testing; /* slides or pictures */
    int64_t n_epochs, best_epoch;
    struct hrf_scored_figures testing;
};
/* Its counts, in result.json. */
extern const struct hrf_figure_row hrf_training_of_slides_rows[], hrf_training_of_pictures_rows[];
/* A line of history.csv. NaN: there was no validation, or it has no figure. */
struct hrf_training_epoch {
    double training_loss, validation_loss, learning_rate;
    double validation_figure; /* the first of hrf_scored_rows */
};
extern const struct hrf_figure_row hrf_epoch_of_slides_rows[];
extern const struct hrf_figure_row *const hrf_epoch_of_pictures_rows[HRF_N_LABEL_KINDS];

/* By the scores that are kept. */
struct hrf_training_figures hrf_training_figures_find(const struct hrf_training_set *set,
                                                      const enum hrf_training_part *parts,
                                                      const struct hrf_text_list *classes,
                                                      const float *scores, int64_t n_epochs,
                                                      int64_t best_epoch);
/* Returns fold, seed, counts and figures as an object. */
json_t *hrf_training_figures_json(const struct hrf_figure_row *rows, enum hrf_label_kind kind,
                                  int64_t fold, int64_t seed,
                                  const struct hrf_training_figures *figures);
/* True, with its figures, if the folder has the result.json of the training of this key. */
bool hrf_training_figures_read(const char *folder, const char *key,
                               const struct hrf_figure_row *rows, enum hrf_label_kind kind,
                               struct hrf_training_figures *out);
/* Prints an epoch, from 1, without the end of the line; `figure` is the short name of its own. */
void hrf_training_epoch_print(int64_t fold, int64_t seed, int64_t epoch,
                              const struct hrf_training_epoch *record, const char *figure);

#endif
