/* slide_images.h - slides as one image each, read once into pictures.
 *
 * A slide becomes the image that a run with `tiler.mode: slide` of the same size and resolution
 * scores, pixel by pixel: the tiler places its frame, and the same reader fills it. The pictures
 * stay in out/images, and are made again only if the slide or these settings have changed.
 */
#ifndef HRF_TRAINING_CUTTING_SLIDE_IMAGES_H
#define HRF_TRAINING_CUTTING_SLIDE_IMAGES_H

#include "training/samples/sample_list.h"

/* Makes the picture of every slide of the list, whose paths become those of the pictures. Slides
 * that cannot be read or have no tissue are left out, as a run does. `version` is the program's. */
HRF_CHECKED enum hrf_status hrf_slide_images_make(const struct hrf_train_recipe *recipe,
                                                  const char *version, struct hrf_sample_list *list,
                                                  struct hrf_left_outs *left_out,
                                                  struct hrf_findings *findings,
                                                  struct hrf_error *err);

#endif
