/* lesion_mask.h - lesions as CAMELYON16's evaluation counts them, from outlines or from a mask.
 *
 * The official script works on level 5 of the mask (32 level-0 px a pixel) and takes 0.243 um/px
 * for every slide. Regions grow by 37.5 um, so that those within 75 um of each other are one
 * lesion; holes are filled; what is connected, corners included, is one lesion. A lesion whose
 * longer axis is below 275 um (200 um and the growth) is an isolated tumour cell cluster (ITC).
 * Pure.
 */
#ifndef HRF_AGGREGATE_CAMELYON16_LESION_MASK_H
#define HRF_AGGREGATE_CAMELYON16_LESION_MASK_H

#include "aggregate/camelyon16/asap.h"
#include "aggregate/camelyon16/components.h"

enum {
    HRF_MASK_LEVEL = 5,
    HRF_MASK_STEP = 1 << HRF_MASK_LEVEL /* level-0 px per pixel, each way */
};
#define HRF_MASK_MPP 0.243 /* um/px of level 0, of every slide by the official script */

/* A part of level 5 of a mask: pixels outside are not tumour. */
struct hrf_lesion_mask {
    int64_t x0, y0; /* position of its first pixel, in px of level 5 */
    int32_t width, height;
    unsigned char *pixels; /* [height][width]; 1 = tumour, 0 = not */
};
void hrf_lesion_mask_destroy(struct hrf_lesion_mask *mask);
HRF_DEFINE_AUTO(hrf_lesion_mask)

/* Draws outlines: a pixel is tumour if its centre is in a lesion outline and in no cut-out, by
 * hrf_outlines_in_lesion(). slide_width and slide_height are in level-0 px, 0 if not known. Areas
 * outside the slide are clipped; *n_outside (may be NULL) counts their vertices there. It takes the
 * time of hrf_outline_raster. HRF_E_USER: the outlines span more than any real slide. */
HRF_CHECKED enum hrf_status hrf_lesion_mask_draw(const struct hrf_outlines *outlines,
                                                 int64_t slide_width, int64_t slide_height,
                                                 struct hrf_lesion_mask **out, int64_t *n_outside,
                                                 struct hrf_error *err);
/* Crops a whole level-5 mask, pixels[height][width], to its used part. Any value but 0 is tumour.
 */
HRF_CHECKED enum hrf_status hrf_lesion_mask_crop(const unsigned char *pixels, int64_t width,
                                                 int64_t height, struct hrf_lesion_mask **out,
                                                 struct hrf_error *err);

struct hrf_lesions {
    int64_t x0, y0;                    /* position of the map's first pixel, in px of level 5 */
    struct hrf_components *components; /* one for each lesion, grown and filled */
    bool *is_itc;                      /* [components->n_items] */
    size_t n_itc;
};
HRF_CHECKED enum hrf_status hrf_lesions_find(const struct hrf_lesion_mask *mask,
                                             struct hrf_lesions **out, struct hrf_error *err);
void hrf_lesions_destroy(struct hrf_lesions *lesions);
HRF_DEFINE_AUTO(hrf_lesions)

/* Returns the number of the lesion at a point in level-0 px, from 1, or 0 if there is none.
 * Coordinates are divided by 32 and truncated towards zero, as the script does. */
int32_t hrf_lesions_at(const struct hrf_lesions *lesions, int64_t x, int64_t y);

#endif
