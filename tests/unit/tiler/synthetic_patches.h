/* synthetic_patches.h - patches of made-up tissue, for tests to which real ones are not needed. */
#ifndef HRF_TESTS_UNIT_TILER_SYNTHETIC_PATCHES_H
#define HRF_TESTS_UNIT_TILER_SYNTHETIC_PATCHES_H

#include "base/alloc.h"
#include "tiler/synth/tissue_texture.h"

/* n patches of side x side x RGB, one after another, of tumour or of other tissue; to be freed. */
static inline unsigned char *synthetic_patches(int64_t n, int64_t side, bool tumour)
{
    /* One picture, n patches high, that lies deep inside the tissue. */
    const struct hrf_blob everywhere = { .rx = 1e6, .ry = 1e6, .atypia = 1 };
    const struct hrf_synth_slide slide = { .width = side,
                                           .height = n * side,
                                           .seed = tumour ? 2 : 1,
                                           .tissue = { everywhere },
                                           .lesions = { everywhere },
                                           .n_tissue = 1,
                                           .n_lesions = tumour };
    unsigned char *rgb = hrf_alloc((size_t)(n * side * side * 3));
    hrf_synth_draw(&slide, rgb);
    return rgb;
}

#endif
