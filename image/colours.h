/* colours.h - the colours that figures are drawn with: on heat maps, in GeoJSON and in the viewer.
 *
 * The viewer's page gets its tables from here (run.json), so that a score has one colour
 * everywhere.
 */
#ifndef HRF_IMAGE_COLOURS_H
#define HRF_IMAGE_COLOURS_H

#include <stdbool.h>
#include <stddef.h>

struct hrf_rgb {
    unsigned char r, g, b;
};

/* Viridis, t in 0..1: perceptually uniform, readable without colour vision. Polynomial fit of
 * matplotlib's table, off by less than 2 of 255 on average. */
struct hrf_rgb hrf_colour_map(double t);
/* Blue at 0, white at 0.5, red at 1: ColorBrewer's RdBu, told apart without colour vision, too. */
struct hrf_rgb hrf_colour_diverging(double t);
/* The positive class is red; the others have seven colours in turn. */
struct hrf_rgb hrf_colour_of_class(size_t class, size_t positive);

#endif
