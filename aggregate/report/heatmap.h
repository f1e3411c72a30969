/* heatmap.h - the probability map of a slide over its thumbnail.
 *
 * Each patch tints its place on the thumbnail, which is gray there, so that colours mean scores.
 * Probabilities go from blue over white to red, and the tint grows with the distance from 0.5: what
 * the model is sure of is seen, on either side, and the tissue where it is not. Numbers of a
 * regression go by viridis from 0 to 1.
 * A slide that was scored as one image shows its class activation map instead: the evidence for the
 * predicted class, relative to the place with the most evidence.
 * The tissue mask is outlined in gray, lesions of an annotation in black, their cut-outs too.
 */
#ifndef HRF_AGGREGATE_REPORT_HEATMAP_H
#define HRF_AGGREGATE_REPORT_HEATMAP_H

#include "aggregate/camelyon16/asap.h"
#include "aggregate/report/image.h"
#include "base/error.h"
#include "schema/record/scores.h"
#include "schema/record/tile_plan.h"

#include <stddef.h>

/* How a number becomes a colour: by its distance from 0.5, or from 0. */
enum hrf_heat_scale { HRF_HEAT_CENTRED, HRF_HEAT_RISING };

/* scores of exactly the plan's patches; positive: index of the class to show. outlines may be
 * NULL. A class activation map is RISING whatever `scale` says. HRF_E_USER: the plan's pictures are
 * missing, damaged or of unlike sizes. */
HRF_CHECKED enum hrf_status hrf_heatmap_draw(const struct hrf_tile_plan *plan,
                                             const struct hrf_scores *scores, size_t positive,
                                             enum hrf_heat_scale scale,
                                             const struct hrf_outlines *outlines,
                                             struct hrf_image *out, struct hrf_error *err);
/* With a colour bar from 0 to 1 below it, marked at the threshold (none: NaN). */
HRF_CHECKED enum hrf_status hrf_heatmap_write(const struct hrf_image *map,
                                              enum hrf_heat_scale scale, double threshold,
                                              const char *path, struct hrf_error *err);

#endif
