/* coords.h - tilings that other programs made: coordinates of patches, or outlines of tissue.
 *
 * The HDF5 files of CLAM, TRIDENT, AtlasPatch, WSInfer and STAMP are read, with features or
 * without, WSInfer's tables of patches (csv), and GeoJSON outlines as QuPath exports them. The form
 * follows from the file's content: `coords` with two columns (or five: AtlasPatch), and the
 * attributes
 *
 *   patch_size_level0          TRIDENT, AtlasPatch: the side in level-0 px
 *   patch_size, patch_level    CLAM, WSInfer: the side in px of that level of the slide
 *   unit "um", tile_size_um    STAMP: places and side in um
 *   none                       CLAM's features: the side is what the workflow asks for
 *
 * Coordinates are level-0 px of the upper left corner in all forms but STAMP. Files are not
 * trusted: every number is checked.
 */
#ifndef HRF_TILER_COORDS_COORDS_H
#define HRF_TILER_COORDS_COORDS_H

#include "base/alloc.h"
#include "base/error.h"
#include "schema/record/tile_plan.h"
#include "schema/settings/settings.h"
#include "tiler/outline/outline_areas.h"
#include "tiler/slide/slide.h"

struct hrf_coords {
    const char *form;          /* "trident", "clam", "wsinfer", "atlaspatch", "stamp", "csv" */
    struct hrf_patch *patches; /* as in the file's rows; level-0 px */
    int64_t n_patches;
    int64_t side0; /* of a patch in level-0 px; 0: the file does not say */
};
void hrf_coords_destroy(struct hrf_coords *coords);
HRF_DEFINE_AUTO(hrf_coords)

/* Finds the file of a slide (heap): `file_or_folder` itself if it is a file, otherwise NAME.h5,
 * NAME_patches.h5, NAME.csv or NAME.geojson in that folder or in its folder `patches`, where NAME
 * is the slide's file name without its extension. HRF_E_USER: there is none. */
HRF_CHECKED enum hrf_status hrf_coords_find(const char *file_or_folder, const char *slide_path,
                                            char **out, struct hrf_error *err);
bool hrf_coords_is_geojson(const char *path);

/* Reads the patches of a file; mpp_x and mpp_y are um/px of the slide's level 0. HRF_E_USER: the
 * file has no known form or is truncated, it belongs to another slide (it states another size), or
 * a patch is not on the slide. */
HRF_CHECKED enum hrf_status hrf_coords_read(const char *path, const struct hrf_slide_info *slide,
                                            double mpp_x, double mpp_y, struct hrf_coords **out,
                                            struct hrf_error *err);

/* Adds the polygons of a GeoJSON file (level-0 px) to `areas`, each with its holes an area of that
 * value. Lines and points are left out.
 *
 * If QuPath wrote the file, only annotations are drawn, not its other objects (detections, cells,
 * tiles, cores). With `classes`, only annotations of one of these classes are drawn ("Tumor:
 * Positive", or "Tumor" for all classes that begin with it); without, all but those of a class that
 * QuPath ignores (its name ends in *). *passed_over (heap, or NULL) names and counts what was not
 * drawn: "2 Ignore*, 7 cell". HRF_E_USER: the file is not GeoJSON. */
HRF_CHECKED enum hrf_status
hrf_coords_read_areas(const char *path, const struct hrf_text_list *classes, unsigned char value,
                      struct hrf_outline_areas *areas, char **passed_over, struct hrf_error *err);
/* Paints these areas onto a grid (hrf_outline_areas_paint()). HRF_E_USER: none of them covers the
 * slide. */
HRF_CHECKED enum hrf_status hrf_coords_paint_areas(const char *path,
                                                   const struct hrf_outline_areas *areas,
                                                   int64_t slide_width, int64_t slide_height,
                                                   const struct hrf_raster_grid *grid,
                                                   unsigned char *pixels, struct hrf_error *err);
/* Draws these polygons into a mask of the whole slide, mask[height][width]: 255 where a pixel's
 * centre is inside by the even-odd rule of its polygon, else 0. HRF_E_USER: the file is not
 * GeoJSON, has nothing to draw (the text says what it has), or nothing on the slide. */
HRF_CHECKED enum hrf_status
hrf_coords_draw_tissue(const char *path, int64_t slide_width, int64_t slide_height,
                       const struct hrf_text_list *classes, unsigned char *mask, int64_t width,
                       int64_t height, char **passed_over, struct hrf_error *err);

#endif
