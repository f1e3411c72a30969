/* ink.h - finds marker ink and black areas on an overview, which are not tissue although their
 * colour is saturated. */
#ifndef HRF_TILER_TISSUE_INK_H
#define HRF_TILER_TISSUE_INK_H

#include "base/error.h"
#include "tiler/tissue/tissue.h"

/* Sets ink[height][width] to 255 where there is ink or black, to 0 elsewhere. An area is ink if it
 * has a colour that no stain has and at least 0.02 mm2 (blood has the same red, in smaller spots).
 * The fainter edge of the ink, up to 0.2 mm wide, is included. */
HRF_CHECKED enum hrf_status hrf_ink_find(const struct hrf_tissue_image *image, unsigned char *ink,
                                         struct hrf_error *err);

#endif
