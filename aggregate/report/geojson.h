/* geojson.h - the parts of GeoJSON features as QuPath (0.4 and later) reads them.
 *
 * QuPath takes "id" (a UUID), "geometry", and of "properties" "objectType" (tile, annotation),
 * "name", "classification", "measurements" and "isLocked" (qupath.lib.io.QuPathTypeAdapters). A
 * classification has both a name and a color of three numbers: with one of them alone the whole
 * file is refused (GsonTools.PathClassTypeAdapter); a colon in the name makes a derived class.
 * Rings are closed and have four points at least, or JTS refuses them (ROITypeAdapters). Texts are
 * those of Python's json.dump.
 */
#ifndef HRF_AGGREGATE_REPORT_GEOJSON_H
#define HRF_AGGREGATE_REPORT_GEOJSON_H

#include "aggregate/camelyon16/asap.h"
#include "aggregate/plot/out.h"
#include "aggregate/segmentation/mask.h"
#include "aggregate/study/cohort.h"
#include "base/hash.h"

/* Ends the hash and writes it as a version-4, variant-1 UUID. */
HRF_CHECKED enum hrf_status hrf_geojson_id(struct hrf_hash *hash, char id[37],
                                           struct hrf_error *err);
/* Writes "classification": {...} with the name and colour of a class: red for the positive class,
 * blue for the other of two, otherwise a colour of its own. */
void hrf_geojson_class(struct hrf_out *out, const struct hrf_cohort *cohort, size_t class);

/* Writes the outlines of a slide's lesions: annotations named "lesion 1", ..., the highest
 * confidence first, each a region of patches that touch (corners included) at or above the rule's
 * threshold, with its confidence (the highest probability), mean probability, number of patches and
 * area; and those of an annotation (NULL: none) as the classes "annotated lesion" and "annotated
 * exclusion". */
HRF_CHECKED enum hrf_status hrf_report_lesion_outlines(const struct hrf_cohort *cohort,
                                                       const char *slide_name,
                                                       const struct hrf_tile_plan *plan,
                                                       const struct hrf_scores *scores,
                                                       const struct hrf_outlines *annotated,
                                                       const char *path, struct hrf_error *err);

/* Writes the regions of a slide's mask, gzipped: an annotation for each class that occurs, a
 * MultiPolygon with the class's area (score->label_pixels). They are traced on the finest level of
 * the mask that has at most 2^24 pixels, along the edges of pixels. */
HRF_CHECKED enum hrf_status hrf_report_mask_outlines(const struct hrf_cohort *cohort,
                                                     const char *slide_name,
                                                     const struct hrf_mask *mask,
                                                     const struct hrf_cohort_score *score,
                                                     const char *path, struct hrf_error *err);

#endif
