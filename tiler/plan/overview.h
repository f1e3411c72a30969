/* overview.h - the whole slide as one small RGB image. */
#ifndef HRF_TILER_PLAN_OVERVIEW_H
#define HRF_TILER_PLAN_OVERVIEW_H

#include "schema/record/tile_plan.h"
#include "tiler/slide/slide.h"

struct hrf_overview {
    unsigned char *rgb; /* [height][width][3], heap */
    int64_t width, height;
};

/* About `mpp` um/px, by area averaging from the best level, read in strips. */
HRF_CHECKED enum hrf_status hrf_overview_read(struct hrf_slide *slide, double mpp_x, double mpp_y,
                                              double mpp, struct hrf_overview *out,
                                              struct hrf_error *err);
void hrf_overview_release(struct hrf_overview *overview);
/* Area average of an image with n_channels to width x height. */
HRF_CHECKED enum hrf_status hrf_overview_shrink(const unsigned char *in, int64_t in_width,
                                             int64_t in_height, int n_channels, int64_t width,
                                             int64_t height, unsigned char *out,
                                             struct hrf_error *err);
/* PNG with 1 (gray) or 3 (RGB) channels; heap bytes. */
HRF_CHECKED enum hrf_status hrf_overview_png(const unsigned char *pixels, int64_t width,
                                             int64_t height, int n_channels, struct hrf_bytes *out,
                                             struct hrf_error *err);

#endif
