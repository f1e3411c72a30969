/* training_files.h - the tables that a training leaves, history.csv and predictions.csv, and the
 * files that go when it is done. */
#ifndef HRF_TRAINING_COHORT_TRAINING_FILES_H
#define HRF_TRAINING_COHORT_TRAINING_FILES_H

#include "schema/settings/settings.h"
#include "statistics/figure.h"
#include "training/cohort/scored.h"
#include "training/cohort/training_set.h"

/* Removes what writers that were killed have left in the folder: NAME.tmp.<12 hex digits>
 * (base/file.h). */
void hrf_training_remove_leftovers(const char *folder);
/* The same, checkpoint.bin and progress.json. */
void hrf_training_remove_checkpoint(const char *folder);

/* A line for each of n_epochs records, `size` bytes apart, with the columns of `rows`; written as
 * each epoch ends, for those who look on. HRF_E_AGAIN: hrf_training_check_attempt(). */
HRF_CHECKED enum hrf_status hrf_history_write(const char *folder, const char *attempt,
                                              const struct hrf_figure_row *rows,
                                              const void *records, size_t size, int64_t n_epochs,
                                              struct hrf_error *err);
/* A line for each item that does not train: NOUN,patient,part,truth,score_CLASS... The scores of
 * item i are scores[i][hrf_label_n_scores()]; NaN is left empty. hrf_scored_read() reads it. */
HRF_CHECKED enum hrf_status hrf_predictions_write(const char *folder, const char *noun,
                                                  const struct hrf_training_set *set,
                                                  const enum hrf_training_part *parts,
                                                  const struct hrf_text_list *classes,
                                                  const float *scores, struct hrf_error *err);
/* The mean over a part of -log of the score of the items' classes; of several labels the binary
 * cross entropy, of numbers the squared error in their units, of pixels the mean of theirs. NaN:
 * the part is empty. */
double hrf_predictions_loss(const struct hrf_training_set *set, const enum hrf_training_part *parts,
                            enum hrf_training_part part, size_t n_classes, const float *scores);
/* The figures of a part. */
struct hrf_scored_figures hrf_predictions_figures(const struct hrf_training_set *set,
                                                  const enum hrf_training_part *parts,
                                                  enum hrf_training_part part,
                                                  const struct hrf_text_list *classes,
                                                  const float *scores);
/* hrf_scored_put_each() of a part. */
void hrf_predictions_put_each(json_t *object, const struct hrf_training_set *set,
                              const enum hrf_training_part *parts, enum hrf_training_part part,
                              const struct hrf_text_list *classes, const float *scores);
int64_t hrf_predictions_count(const struct hrf_training_set *set,
                              const enum hrf_training_part *parts, enum hrf_training_part part);

#endif
