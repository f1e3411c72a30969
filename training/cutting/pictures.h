/* pictures.h - all that a recipe trains on, as pictures: its own, patches of slides, or slides. */
#ifndef HRF_TRAINING_CUTTING_PICTURES_H
#define HRF_TRAINING_CUTTING_PICTURES_H

#include "training/samples/sample_list.h"

/* Finds and checks the pictures of the recipe. Of slides they are made first (patch_cutter.h,
 * slide_images.h), and recipe->csv is set where that gives a table; `are_cut`: patches are there
 * already, as for the jobs of one command. HRF_E_USER: `findings`
 * has all that is wrong. */
HRF_CHECKED enum hrf_status hrf_pictures_find(struct hrf_train_recipe *recipe, const char *version,
                                              bool are_cut, struct hrf_sample_list **out,
                                              struct hrf_left_outs *left_out,
                                              struct hrf_findings *findings, struct hrf_error *err);

#endif
