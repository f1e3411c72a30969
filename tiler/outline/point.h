/* point.h - a point of a slide, and the bound on coordinates that files may state. */
#ifndef HRF_TILER_OUTLINE_POINT_H
#define HRF_TILER_OUTLINE_POINT_H

#include <stdbool.h>

struct hrf_point {
    double x, y; /* level-0 px */
};

/* The bound in level-0 px, in each direction: a thousand times the largest slide. A number beyond
 * it is damage; whole numbers within it fit an int32_t, and products of two are exact. */
#define HRF_PLACE_FARTHEST 1e9

/* True if a coordinate is within the bound; false also for NaN and infinities. */
static inline bool hrf_is_place(double px)
{
    return px >= -HRF_PLACE_FARTHEST && px <= HRF_PLACE_FARTHEST;
}

#endif
