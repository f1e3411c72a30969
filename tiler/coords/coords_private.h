/* coords_private.h - what the readers of the single forms share. */
#ifndef HRF_TILER_COORDS_COORDS_PRIVATE_H
#define HRF_TILER_COORDS_COORDS_PRIVATE_H

#include "tiler/coords/coords.h"

/* Fills form, patches, n_patches and side0; sizes are checked, places are not yet. */
HRF_CHECKED enum hrf_status coords_read_hdf5(const char *path, const struct hrf_slide_info *slide,
                                             double mpp_x, double mpp_y, struct hrf_coords *out,
                                             struct hrf_error *err);

/* A number of level-0 px as a place, if it is one. */
static inline bool coords_is_place(double value)
{
    return value >= -1e9 && value <= 1e9;
}

#endif
