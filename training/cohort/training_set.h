/* training_set.h - which items train, choose the epoch, and test: by a column of the labels,
 * or by folds. A patient's items stay together. Pure.
 */
#ifndef HRF_TRAINING_COHORT_TRAINING_SET_H
#define HRF_TRAINING_COHORT_TRAINING_SET_H

#include "base/error.h"
#include "training/cohort/label_kind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hrf_training_part { HRF_PART_TRAINING, HRF_PART_VALIDATION, HRF_PART_TESTING };
extern const char *const hrf_training_parts[]; /* "training" ... */
/* Finds a part by its word in a table of labels ("train", "training" ...). */
bool hrf_training_part_find(const char *word, enum hrf_training_part *out);

struct hrf_training_item {
    const char *name, *patient;  /* patient: the item's own name if patients are not known */
    int64_t label;               /* its class, or another group that each fold has its share of */
    enum hrf_training_part part; /* if the split is a column */
    int64_t fold;                /* the fold that tests it, if the split is by folds */
    int line;                    /* of the table of labels */
};
struct hrf_training_set {
    enum hrf_label_kind kind;
    float *truths; /* [n_items][n_classes] (label_kind.h); heap; NULL: their classes */
    size_t n_classes;
    const double *units; /* [n_classes] that the loss measures errors of numbers in; NULL: 1 */
    struct hrf_training_item *items; /* heap */
    size_t n_items;
    bool is_by_folds;   /* else by the items' parts */
    int64_t n_folds;    /* if by folds */
    int64_t split_seed; /* of the draws */
    double validation;  /* share of the patients for training that validates, if no item does yet */
    const char *nouns;  /* what items are called: "slides" */
    const char *labels; /* where they come from, for messages */
};

void hrf_training_set_release(struct hrf_training_set *set); /* the arrays */

/* The truth of item i as a number for each class. */
void hrf_training_set_truth(const struct hrf_training_set *set, size_t i, size_t n_classes,
                            float *truth);
/* Groups items of several labels by the rarest that each has; those of none are a group, too. */
void hrf_training_set_group(struct hrf_training_set *set);
/* Deals the patients out to the folds class by class, so that each fold has its share of each.
 * HRF_E_USER: there are fewer patients than folds. */
HRF_CHECKED enum hrf_status hrf_training_set_deal_folds(struct hrf_training_set *set,
                                                        struct hrf_error *err);
/* Calls `find` for items of one patient that are in different parts. */
typedef void hrf_training_conflict(void *context, const struct hrf_training_item *here,
                                   const struct hrf_training_item *before);
void hrf_training_set_find_conflicts(const struct hrf_training_set *set,
                                     hrf_training_conflict *find, void *context);
/* Writes the part of every item in fold `fold` (0 if the split is a column) to parts[n_items].
 * HRF_E_USER: the items for training have all the same truth. */
HRF_CHECKED enum hrf_status hrf_training_set_split(const struct hrf_training_set *set, int64_t fold,
                                                   enum hrf_training_part *parts,
                                                   struct hrf_error *err);

#endif
