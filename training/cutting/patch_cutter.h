/* patch_cutter.h - patches of slides, cut once into pictures: with labels by outlines, or as bags.
 *
 * A slide is tiled as a run tiles it. The share of a patch that lies in an outline decides its
 * label; of the patches of each class of a slide a bounded number is drawn. For a segmentation a
 * patch has a mask in place of a label, and is of a class if any part of it is. The pictures, masks
 * and their table (path,label,patient or path,mask,patient) stay in out/patches, and are cut again
 * only if a slide, an annotation or a setting has changed.
 */
#ifndef HRF_TRAINING_CUTTING_PATCH_CUTTER_H
#define HRF_TRAINING_CUTTING_PATCH_CUTTER_H

#include "training/samples/sample_list.h"

/* Cuts the patches of recipe->slides, and sets recipe->csv to their table. Those of a slide that
 * are there stay if slide, outlines, settings and `version`, the program's, are the same. Slides
 * that cannot be read are left out, as by a run. HRF_E_USER: `findings` has all annotations that
 * cannot be used. */
HRF_CHECKED enum hrf_status hrf_patch_cutter_run(struct hrf_train_recipe *recipe,
                                                 const char *version,
                                                 struct hrf_left_outs *left_out,
                                                 struct hrf_findings *findings,
                                                 struct hrf_error *err);
/* Cuts all patches of every slide of the list, which become its bags. Slides that cannot be read or
 * have no tissue are left out, as by a run. */
HRF_CHECKED enum hrf_status hrf_patch_cutter_bags(const struct hrf_train_recipe *recipe,
                                                  const char *version, struct hrf_sample_list *list,
                                                  struct hrf_left_outs *left_out,
                                                  struct hrf_findings *findings,
                                                  struct hrf_error *err);
/* The table of patches that have been cut; heap. */
char *hrf_patch_cutter_table(const struct hrf_train_recipe *recipe);

#endif
