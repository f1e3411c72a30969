/* synth.h - synthetic slides: tissue that looks like H&E, with lesions and their annotations.
 *
 * Everything follows from the seed: the same parameters give the same bytes. Slides are
 * pyramidal tiled-JPEG BigTIFF at 0.25 um/px, as CAMELYON16's are; a cohort lies in that data
 * set's layout (testing/images, testing/reference.csv, testing/lesion_annotations). What was drawn
 * stands in drawn.csv beside it: one line for each lesion and look-alike.
 */
#ifndef HRF_TILER_SYNTH_SYNTH_H
#define HRF_TILER_SYNTH_SYNTH_H

#include "base/error.h"

#include <stdint.h>

struct hrf_synth_params {
    int n_slides; /* >= 4: the last but one is almost empty, the last is cut short on purpose */
    uint64_t seed;
    int64_t size; /* side in px; the slides vary by a sixth around it */
    /* 0: every lesion is plain tumour, and nothing else resembles it. Above: benign look-alikes
     * stand in all slides, and the cells of lesions and look-alikes are drawn from two
     * distributions that overlap the more, the larger it is (synth_cohort.c). */
    double difficulty;
};

typedef void hrf_synth_progress(int done, int total);

HRF_CHECKED enum hrf_status hrf_synth_cohort(const char *directory,
                                             const struct hrf_synth_params *params,
                                             hrf_synth_progress *progress, struct hrf_error *err);

/* Writes an RGB image of `mpp` um/px as such a pyramid. The image's pixels are overwritten (it is
 * halved in place). */
HRF_CHECKED enum hrf_status hrf_synth_write_pyramid(const char *path, unsigned char *rgb,
                                                    int64_t width, int64_t height, double mpp,
                                                    struct hrf_error *err);

#endif
