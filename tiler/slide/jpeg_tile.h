/* jpeg_tile.h - one JPEG tile of a TIFF to RGB, by libjpeg-turbo.
 *
 * The pixels are those that OpenSlide gives for the same tile: the accurate integer DCT, smooth
 * chroma upsampling, and the colour space that the TIFF names, whatever the JPEG's own markers say.
 */
#ifndef HRF_TILER_SLIDE_JPEG_TILE_H
#define HRF_TILER_SLIDE_JPEG_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_jpeg_form {
    const void *tables; /* JPEGTables of the TIFF; NULL: the tiles have their own */
    size_t n_tables;
    bool is_ycc;           /* else RGB */
    int64_t width, height; /* of a whole tile, px */
};

enum { HRF_JPEG_MAX_REDUCTION = 4 };

/* Decodes a tile to rgb[height / reduction][width / reduction][3]. The inverse DCT makes the
 * reduction of 1, 2 or 4, which must divide width and height. False: the data is not a sound JPEG
 * of three channels and that size; a warning of libjpeg counts as unsound. */
bool hrf_jpeg_tile_decode(const struct hrf_jpeg_form *form, const void *data, size_t n_bytes,
                          int32_t reduction, unsigned char *rgb);

#endif
