/* heatmap.h - the probability map of a slide over its thumbnail.
 *
 * Each patch tints its area of the thumbnail, which is gray there, so that every colour means a
 * score. Probabilities go from blue over white to red, and the tint grows with the distance from
 * 0.5: confident scores are visible in either direction, and the tissue is visible elsewhere.
 * Numbers of a regression have the colours of viridis from 0 to 1. A slide that was scored as one
 * image shows its class activation map instead: the evidence for the predicted class, relative to
 * the largest. The tissue mask is outlined in gray, the lesions of an annotation and their cut-outs
 * in black.
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
/* Writes the map with a colour bar from 0 to 1 below it, on which the threshold is marked (NaN:
 * none). */
HRF_CHECKED enum hrf_status hrf_heatmap_write(const struct hrf_image *map,
                                              enum hrf_heat_scale scale, double threshold,
                                              const char *path, struct hrf_error *err);

#endif
