/* ink.h - marker ink and black on an overview: what is not tissue however saturated it is. */
#ifndef HRF_TILER_TISSUE_INK_H
#define HRF_TILER_TISSUE_INK_H

#include "base/error.h"
#include "tiler/tissue/tissue.h"

/* ink[height][width]: 255 where there is ink or black, 0 elsewhere. Ink is found where its colour
 * is one that no stain has, over at least 0.02 mm2 (blood has the red, in smaller spots), and
 * followed from there for 0.2 mm into its fainter edge. */
HRF_CHECKED enum hrf_status hrf_ink_find(const struct hrf_tissue_image *image, unsigned char *ink,
                                         struct hrf_error *err);

#endif
