/* sample_list.h - the pictures that a network is trained on: found, checked and read. */
#ifndef HRF_TRAINING_SAMPLES_SAMPLE_LIST_H
#define HRF_TRAINING_SAMPLES_SAMPLE_LIST_H

#include "base/hash.h"
#include "training/cohort/training_set.h"
#include "training/recipe/train_recipe.h"
#include "training/samples/left_out.h"

struct hrf_sample {
    char *path, *patient;
    char *name; /* path as the data name it: below the folder, or as in the table */
    char *mask; /* path; NULL: none */
    char mask_sha256[HRF_HASH_HEX];
    char sha256[HRF_HASH_HEX]; /* of its bytes, or of what it was made of; "": not known yet */
};
enum { HRF_NO_CLASS = 255 };
struct hrf_sample_list {
    struct hrf_training_set set;
    struct hrf_sample *items; /* [set.n_items] */
    int64_t side;             /* px; all pictures are squares of it */
    /* Of slides that are bags: the paths of their patches, the pictures, those of slide i from
     * first_patch[i] to first_patch[i + 1]; heap. NULL: the items are the pictures. */
    char **patches;
    int64_t *first_patch;
    bool has_masks;
    unsigned char classes[256]; /* that values of masks stand for; HRF_NO_CLASS: for none */
    size_t n_wrong;             /* mistakes that hrf_sample_list_find() met, and told */
};
/* Finds the pictures, or slides (hrf_train_recipe_is_of_slides()), of which those without a
 * label or a file are left out. What is wrong (missing, with an unknown label, there twice) is
 * added to `findings`; HRF_E_USER: slides are, which are better not read before that is mended. */
HRF_CHECKED enum hrf_status hrf_sample_list_find(const struct hrf_train_recipe *recipe,
                                                 struct hrf_sample_list **out,
                                                 struct hrf_left_outs *left_out,
                                                 struct hrf_findings *findings,
                                                 struct hrf_error *err);
/* Looks at the header of each picture (not of bags'), hashes its bytes unless its hash is known,
 * and divides the list. HRF_E_USER: `findings` has all that is wrong, what was found before
 * counted: what is no picture or has another size, a class without pictures, a patient in two
 * parts. */
HRF_CHECKED enum hrf_status hrf_sample_list_check(struct hrf_sample_list *list,
                                                  const struct hrf_train_recipe *recipe,
                                                  struct hrf_findings *findings,
                                                  struct hrf_error *err);
/* By its ending, pictures as well. */
bool hrf_sample_is_slide(const char *name);
/* Drops the samples that are not kept. */
void hrf_sample_list_keep(struct hrf_sample_list *list, const bool *is_kept);
void hrf_sample_list_destroy(struct hrf_sample_list *list);
HRF_DEFINE_AUTO(hrf_sample_list)

/* Reads picture i into rgb[side][side][3]. Any thread. */
HRF_CHECKED enum hrf_status hrf_sample_list_pixels(const struct hrf_sample_list *list, int64_t i,
                                                   unsigned char *rgb, struct hrf_error *err);
/* Reads its mask into classes[side][side]; `rgb` has room for a picture. Any thread. */
HRF_CHECKED enum hrf_status hrf_sample_list_mask(const struct hrf_sample_list *list, int64_t i,
                                                 unsigned char *rgb, unsigned char *classes,
                                                 struct hrf_error *err);

#endif
