/* training_page.h - the page of a recipe's trainings: figures, losses by epoch, curves and
 * confusion, or numbers against their truths, and the worst mistakes as pictures. It is made of the
 * files that the trainings left. */
#ifndef HRF_TRAINING_PAGE_TRAINING_PAGE_H
#define HRF_TRAINING_PAGE_TRAINING_PAGE_H

#include "training/cohort/folds_and_seeds.h"
#include "training/samples/sample_list.h"

/* Writes out/report/index.html. `title` is the recipe's name, `summary` that of
 * hrf_trainings_summarise(). */
HRF_CHECKED enum hrf_status hrf_training_page_write(const struct hrf_trainings *trainings,
                                                    const struct hrf_sample_list *list,
                                                    const char *title, const json_t *summary,
                                                    struct hrf_error *err);

#endif
