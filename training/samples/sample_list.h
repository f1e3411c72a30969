/* sample_list.h - the pictures that a network is trained on: found, checked and read. */
#ifndef HRF_TRAINING_SAMPLES_SAMPLE_LIST_H
#define HRF_TRAINING_SAMPLES_SAMPLE_LIST_H

#include "base/hash.h"
#include "training/cohort/training_set.h"
#include "training/recipe/train_recipe.h"

struct hrf_sample {
    char *path, *patient;
    char *name; /* path as the data name it: below the folder, or as in the table */
    char sha256[HRF_HASH_HEX];
};
struct hrf_sample_list {
    struct hrf_training_set set;
    struct hrf_sample *items; /* [set.n_items] */
    int64_t side;             /* px; all pictures are squares of it */
};
/* Finds the pictures, looks at the header of each and hashes its bytes. HRF_E_USER: `findings` has
 * all that is wrong: what is missing, is no picture, has another size or an unknown label, a class
 * without pictures, a patient in two parts. */
HRF_CHECKED enum hrf_status hrf_sample_list_read(const struct hrf_train_recipe *recipe,
                                                 struct hrf_sample_list **out,
                                                 struct hrf_findings *findings,
                                                 struct hrf_error *err);
void hrf_sample_list_destroy(struct hrf_sample_list *list);
HRF_DEFINE_AUTO(hrf_sample_list)

/* Reads a picture into rgb[side][side][3]. Any thread. */
HRF_CHECKED enum hrf_status hrf_sample_list_pixels(const struct hrf_sample_list *list, int64_t i,
                                                   unsigned char *rgb, struct hrf_error *err);

#endif
