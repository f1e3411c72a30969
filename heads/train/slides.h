/* slides.h - the slides of a training: labels, patients, feature files and their split. */
#ifndef HRF_HEADS_TRAIN_SLIDES_H
#define HRF_HEADS_TRAIN_SLIDES_H

#include "base/hash.h"
#include "heads/bags/bag.h"
#include "heads/train/recipe.h"
#include "training/cohort/training_set.h"

struct hrf_head_slide {
    char *name, *patient, *path; /* patient: its own name if the labels have no such column */
    int64_t label, n_patches;
    enum hrf_training_part part; /* if the split is a column */
    int64_t fold;                /* the fold that tests it, if the split is by folds */
    int line;                    /* of the csv of labels */
    char sha256[HRF_HASH_HEX];   /* of the file; before it is read, the labels' or "" */
};
struct hrf_head_slides {
    struct hrf_head_slide *items;
    size_t n_items;
    int64_t width;               /* numbers of an embedding */
    char origin[HRF_BAG_ORIGIN]; /* what made the embeddings; "": the files do not say */
    size_t n_unlabelled, n_without_file, n_empty;
    bool is_read_once;        /* hrf_head_slides_check_numbers() succeeded */
    char *first_without_file; /* the name of the first slide without a file */
};
void hrf_head_slides_destroy(struct hrf_head_slides *slides);
HRF_DEFINE_AUTO(hrf_head_slides)

/* Reads the labels and looks into every feature file. Slides without a label, a file or a patch are
 * counted and left out. HRF_E_USER: a slide occurs twice; a label is none of the classes; a file is
 * damaged, of another width, of another slide, of another origin, or has other bytes than the
 * labels say (column sha256); a patient is in training and testing; there are too few patients for
 * the folds. */
HRF_CHECKED enum hrf_status hrf_head_slides_read(const struct hrf_recipe *recipe,
                                                 struct hrf_head_slides **out,
                                                 struct hrf_error *err);

/* Reads every feature file once. HRF_E_USER: some files cannot be read or hold a number that is not
 * finite; all of them are counted, and the first are named. */
HRF_CHECKED enum hrf_status hrf_head_slides_check_numbers(struct hrf_head_slides *slides,
                                                          const struct hrf_recipe *recipe,
                                                          struct hrf_error *err);

/* The slides as items whose texts they own. */
void hrf_head_set_init(struct hrf_training_set *set, const struct hrf_head_slides *slides,
                       const struct hrf_recipe *recipe);
/* Writes the part of every slide in fold `fold` (0 if the split is a column) to parts[n_items].
 * HRF_E_USER: the training slides are of one class only. */
HRF_CHECKED enum hrf_status hrf_head_slides_split(const struct hrf_head_slides *slides,
                                                  const struct hrf_recipe *recipe, int64_t fold,
                                                  enum hrf_training_part *parts,
                                                  struct hrf_error *err);

#endif
