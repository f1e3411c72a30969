/* image.h - a small RGB picture in memory: PNG in and out, blending, lines, digits, downsampling.
 *
 * Coordinates are pixels, x to the right, y down; drawing outside the picture is clipped. The
 * same picture is always the same PNG bytes (with one version of libpng and zlib).
 */
#ifndef HRF_AGGREGATE_REPORT_IMAGE_H
#define HRF_AGGREGATE_REPORT_IMAGE_H

#include "base/alloc.h"
#include "base/error.h"
#include "image/colours.h"
#include "image/png_write.h"
#include "schema/record/tile_plan.h"

#include <stdint.h>

struct hrf_image {
    int32_t width, height;
    int32_t channels;      /* 3 (RGB) or 1 (gray) */
    unsigned char *pixels; /* [height][width][channels], heap */
};

void hrf_image_release(struct hrf_image *image);
/* Creates a white image of at most 8192 px a side. */
HRF_CHECKED enum hrf_status hrf_image_create(int32_t width, int32_t height, int32_t channels,
                                             struct hrf_image *out, struct hrf_error *err);
/* Decodes a PNG and converts it to `channels` channels. HRF_E_USER: it is damaged or too large. */
HRF_CHECKED enum hrf_status hrf_image_decode(const struct hrf_bytes *png, int32_t channels,
                                             struct hrf_image *out, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_image_encode(const struct hrf_image *image, enum hrf_png_kind kind,
                                             struct hrf_bytes *out, struct hrf_error *err);

/* Blends the colour into the pixels with x0 <= x < x1, y0 <= y < y1; an alpha of 0 changes nothing,
 * 1 replaces them. RGB only. */
void hrf_image_blend(struct hrf_image *image, int32_t x0, int32_t y0, int32_t x1, int32_t y1,
                     struct hrf_rgb colour, double alpha);
/* Converts the pixels of such a rectangle to gray of their brightness. RGB only. */
void hrf_image_fade(struct hrf_image *image, int32_t x0, int32_t y0, int32_t x1, int32_t y1);
/* Draws a line of `thickness` px, ends included. RGB only. */
void hrf_image_line(struct hrf_image *image, double x0, double y0, double x1, double y1,
                    int32_t thickness, struct hrf_rgb colour);
/* Draws digits, '.' and '-' of 5 x 7 px, 6 px apart, from the top-left (x, y). RGB only. */
void hrf_image_digits(struct hrf_image *image, int32_t x, int32_t y, const char *text,
                      struct hrf_rgb colour);
/* Downsamples the image to at most `longest_side`; each pixel is the mean over its area. A smaller
 * image is not enlarged. */
HRF_CHECKED enum hrf_status hrf_image_downsample(const struct hrf_image *image,
                                                 int32_t longest_side, struct hrf_image *out,
                                                 struct hrf_error *err);

#endif
