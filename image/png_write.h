/* png_write.h - pixels as PNG bytes. The same pixels are always the same bytes (with one version of
 * libpng and zlib). */
#ifndef HRF_IMAGE_PNG_WRITE_H
#define HRF_IMAGE_PNG_WRITE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* The kind of picture, which decides how it is compressed. */
enum hrf_png_kind {
    HRF_PNG_PHOTO, /* pixels that differ a little from those above them */
    HRF_PNG_FLAT   /* masks, and pictures of few colours: bytes that occur again and again */
};

/* pixels: [height][width][n_channels], 1 (gray) or 3 (RGB) channels of a byte. *out is heap. */
HRF_CHECKED enum hrf_status hrf_png_write(const unsigned char *pixels, int64_t width,
                                          int64_t height, int n_channels, enum hrf_png_kind kind,
                                          unsigned char **out, size_t *n_bytes,
                                          struct hrf_error *err);

#endif
