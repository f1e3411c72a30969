/* slides.h - the slides of a training: labels, patients, feature files and how they are split. */
#ifndef HRF_HEADS_TRAIN_SLIDES_H
#define HRF_HEADS_TRAIN_SLIDES_H

#include "base/hash.h"
#include "heads/bags/bag.h"
#include "heads/train/recipe.h"

enum hrf_head_part { HRF_PART_TRAINING, HRF_PART_VALIDATION, HRF_PART_TESTING };
extern const char *const hrf_head_parts[]; /* "training" ... */

struct hrf_head_slide {
    char *name, *patient, *path; /* patient: its own name if the labels have no such column */
    int64_t label;
    enum hrf_head_part part;   /* by the column split */
    int64_t fold;              /* by folds: the fold that tests it */
    int line;                  /* of the labels */
    char sha256[HRF_HASH_HEX]; /* of the file; before it is read: as the labels say, or "" */
};
struct hrf_head_slides {
    struct hrf_head_slide *items;
    size_t n_items;
    int64_t width;               /* numbers of an embedding */
    char origin[HRF_BAG_ORIGIN]; /* what made the embeddings; "": the files do not say */
    size_t n_unlabelled, n_without_file, n_empty;
    char *first_without_file; /* a slide of them */
};
void hrf_head_slides_destroy(struct hrf_head_slides *slides);
HRF_DEFINE_AUTO(hrf_head_slides)

/* Reads the labels and looks into every feature file. Slides without a label, a file or a patch are
 * counted and left out. HRF_E_USER: a slide twice, a label that the classes lack, a file that is
 * damaged, of another width, of another slide or made by something else, or that has other bytes
 * than the labels say (column sha256); a patient in training and testing; too few patients for the
 * folds. */
HRF_CHECKED enum hrf_status hrf_head_slides_read(const struct hrf_recipe *recipe,
                                                 struct hrf_head_slides **out,
                                                 struct hrf_error *err);

/* The part of every slide in fold `fold` (0 with the column split): parts[n_items]. HRF_E_USER: the
 * training slides are of one class only. */
HRF_CHECKED enum hrf_status hrf_head_slides_split(const struct hrf_head_slides *slides,
                                                  const struct hrf_recipe *recipe, int64_t fold,
                                                  enum hrf_head_part *parts, struct hrf_error *err);

#endif
