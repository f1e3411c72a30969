/* tissue_texture.h - draws the pixels of a synthetic slide. */
#ifndef HRF_TILER_SYNTH_TISSUE_TEXTURE_H
#define HRF_TILER_SYNTH_TISSUE_TEXTURE_H

#include "base/error.h"

#include <stdint.h>

/* An ellipse with a wavy rim, px. */
struct hrf_blob {
    double x, y, rx, ry, phase;
    double atypia; /* of lesions and look-alikes: 0 = cells of lymphoid tissue, 1 = plain tumour */
};

enum { HRF_SYNTH_MAX_BLOBS = 8 };
struct hrf_synth_slide {
    int64_t width, height;
    uint64_t seed;
    struct hrf_blob tissue[HRF_SYNTH_MAX_BLOBS], lesions[HRF_SYNTH_MAX_BLOBS];
    struct hrf_blob lookalikes[HRF_SYNTH_MAX_BLOBS]; /* benign, with cells that resemble tumour */
    int n_tissue, n_lesions, n_lookalikes;
    double faint; /* 0 = full stain, towards 1 = paler */
};

/* Returns how deep (x, y) lies inside the blob: > 0 inside, 0 on the rim. */
double hrf_blob_depth(const struct hrf_blob *blob, double x, double y);
/* rgb[height][width][3]. */
void hrf_synth_draw(const struct hrf_synth_slide *slide, unsigned char *rgb);

#endif
