/* map_features.h - the 30 features of a heat map that CAMELYON16's winners gave to a random forest.
 *
 * As DIDSR's published code computes them with scikit-image (Wang et al. 2016 describe 28 of them):
 * at 0.5, 0.6, 0.7, 0.8 and 0.9 the part of the tissue above the threshold, and the sum of what
 * exceeds it over the tissue; then of the two largest regions above one threshold (8-connected)
 * area, eccentricity, extent, area of the bounding box, major axis, largest, smallest and mean
 * probability, height over width of the box, solidity. A region that is not there is all zeros.
 * Lengths are in patches. DIDSR leaves out regions at the edge of the map; there is none here: the
 * grid ends with the tissue. Pure.
 */
#ifndef HRF_AGGREGATE_SLIDE_MAP_FEATURES_H
#define HRF_AGGREGATE_SLIDE_MAP_FEATURES_H

#include "base/error.h"
#include "schema/record/tile_plan.h"

#include <stddef.h>
#include <stdint.h>

enum { HRF_MAP_FEATURES = 30 };
/* The titles of DIDSR's tables. */
extern const char *const hrf_map_feature_names[HRF_MAP_FEATURES];

/* map[height][width]: probabilities; NaN where there is no tissue. HRF_E_USER: no tissue at all. */
HRF_CHECKED enum hrf_status hrf_map_features_compute(const double *map, int32_t width,
                                                     int32_t height, double threshold,
                                                     double out[HRF_MAP_FEATURES],
                                                     struct hrf_error *err);
/* Computes the features from a slide's patches: probabilities[n_patches * step]. HRF_E_USER: the
 * plan has no grid or no patches. */
HRF_CHECKED enum hrf_status hrf_map_features_of_patches(const struct hrf_tile_plan *plan,
                                                        const float *probabilities, size_t step,
                                                        double threshold,
                                                        double out[HRF_MAP_FEATURES],
                                                        struct hrf_error *err);

#endif
