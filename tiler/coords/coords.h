/* coords.h - tilings that other programs made: places of patches, or outlines of tissue.
 *
 * Read are the HDF5 files of CLAM, TRIDENT, AtlasPatch, WSInfer and STAMP, with features or
 * without, WSInfer's tables of patches (csv), and GeoJSON outlines as QuPath exports them. The form
 * is told from what the file holds: `coords` with two columns (or five: AtlasPatch), and the
 * attributes
 *
 *   patch_size_level0          TRIDENT, AtlasPatch: the side in level-0 px
 *   patch_size, patch_level    CLAM, WSInfer: the side in px of that level of the slide
 *   unit "um", tile_size_um    STAMP: places and side in um
 *   none                       CLAM's features: the side is what the workflow asks for
 *
 * Places are level-0 px of the upper left corner in all but STAMP. Files come from elsewhere: every
 * number is checked.
 */
#ifndef HRF_TILER_COORDS_COORDS_H
#define HRF_TILER_COORDS_COORDS_H

#include "base/alloc.h"
#include "base/error.h"
#include "schema/record/tile_plan.h"
#include "tiler/slide/slide.h"

struct hrf_coords {
    const char *form;          /* "trident", "clam", "wsinfer", "atlaspatch", "stamp", "csv" */
    struct hrf_patch *patches; /* as in the file's rows; level-0 px */
    int64_t n_patches;
    int64_t side0; /* of a patch in level-0 px; 0: the file does not say */
};
void hrf_coords_destroy(struct hrf_coords *coords);
HRF_DEFINE_AUTO(hrf_coords)

/* The file of a slide: `place` itself if it is a file, else what the tools call it in that folder
 * or in its folder `patches`: NAME.h5, NAME_patches.h5, NAME.csv, NAME.geojson, where NAME is the
 * slide's file name without its ending. HRF_E_USER: there is none. *out is heap. */
HRF_CHECKED enum hrf_status hrf_coords_find(const char *place, const char *slide_path, char **out,
                                            struct hrf_error *err);
bool hrf_coords_is_geojson(const char *path);

/* mpp: um/px of the slide's level 0. HRF_E_USER: not such a file, cut short, of another slide (the
 * size that the file states is not the slide's), or a patch that is not on the slide. */
HRF_CHECKED enum hrf_status hrf_coords_read(const char *path, const struct hrf_slide_info *slide,
                                            double mpp_x, double mpp_y, struct hrf_coords **out,
                                            struct hrf_error *err);

/* Draws the polygons of a GeoJSON file (level-0 px) into a mask of the whole slide, mask[height]
 * [width]: 255 where a pixel's centre is inside by the even-odd rule of its polygon, holes
 * included; else 0. Lines and points are left out.
 *
 * Of a file that QuPath wrote, annotations are drawn; its other objects (detections, cells, tiles,
 * cores) are passed over. `classes`: of these only those of one of the classes, a name a line
 * ("Tumor: Positive" or, for all that begin with it, "Tumor"); NULL: all but those whose class
 * QuPath calls ignored (its name ends in *). *passed_over (heap, NULL if there is nothing to say)
 * says what was not drawn and how often, "2 Ignore*, 7 cell". HRF_E_USER: not GeoJSON, nothing to
 * draw (with what is there instead), or nothing on the slide. */
HRF_CHECKED enum hrf_status hrf_coords_draw_tissue(const char *path, int64_t slide_width,
                                                   int64_t slide_height, const char *classes,
                                                   unsigned char *mask, int64_t width,
                                                   int64_t height, char **passed_over,
                                                   struct hrf_error *err);

#endif
