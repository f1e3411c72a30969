/* image.h - a small RGB picture in memory: PNG in and out, blending, lines, digits, shrinking.
 *
 * Coordinates are pixels, x to the right, y down; drawing outside the picture is clipped. The
 * same picture is always the same PNG bytes (with one version of libpng and zlib).
 */
#ifndef HRF_AGGREGATE_REPORT_IMAGE_H
#define HRF_AGGREGATE_REPORT_IMAGE_H

#include "base/alloc.h"
#include "base/error.h"
#include "base/png_write.h"
#include "schema/record/tile_plan.h"

#include <stdint.h>

struct hrf_image {
    int32_t width, height;
    int32_t channels;      /* 3 (RGB) or 1 (gray) */
    unsigned char *pixels; /* [height][width][channels], heap */
};

struct hrf_rgb {
    unsigned char r, g, b;
};

void hrf_image_release(struct hrf_image *image);
/* Filled with white. At most 8192 px a side. */
HRF_CHECKED enum hrf_status hrf_image_create(int32_t width, int32_t height, int32_t channels,
                                             struct hrf_image *out, struct hrf_error *err);
/* `channels`: what the pixels are converted to. HRF_E_USER: damaged, or too large. */
HRF_CHECKED enum hrf_status hrf_image_decode(const struct hrf_bytes *png, int32_t channels,
                                             struct hrf_image *out, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_image_encode(const struct hrf_image *image, enum hrf_png_kind kind,
                                             struct hrf_bytes *out, struct hrf_error *err);

/* alpha 0..1: how much of the colour; pixels with x0 <= x < x1, y0 <= y < y1. RGB only. */
void hrf_image_blend(struct hrf_image *image, int32_t x0, int32_t y0, int32_t x1, int32_t y1,
                     struct hrf_rgb colour, double alpha);
/* Takes the colour out of the same pixels: they become their brightness. RGB only. */
void hrf_image_fade(struct hrf_image *image, int32_t x0, int32_t y0, int32_t x1, int32_t y1);
/* `thickness` px wide, ends included. RGB only. */
void hrf_image_line(struct hrf_image *image, double x0, double y0, double x1, double y1,
                    int32_t thickness, struct hrf_rgb colour);
/* Digits, '.' and '-' of 5 x 7 px with their top-left at (x, y), 6 px apart. RGB only. */
void hrf_image_digits(struct hrf_image *image, int32_t x, int32_t y, const char *text,
                      struct hrf_rgb colour);
/* The mean over each new pixel's area; never larger than it was. */
HRF_CHECKED enum hrf_status hrf_image_shrink(const struct hrf_image *image, int32_t longest_side,
                                             struct hrf_image *out, struct hrf_error *err);

/* Viridis, t in 0..1: perceptually uniform, readable without colour vision. Polynomial fit of
 * matplotlib's table, off by less than 2 of 255 on average. */
struct hrf_rgb hrf_colour_map(double t);
/* Blue at 0, white at 0.5, red at 1: ColorBrewer's RdBu, told apart without colour vision, too. */
struct hrf_rgb hrf_colour_diverging(double t);

#endif
