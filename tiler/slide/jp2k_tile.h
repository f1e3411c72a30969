/* jp2k_tile.h - one JPEG 2000 tile of a TIFF to RGB, by OpenJPEG. */
#ifndef HRF_TILER_SLIDE_JP2K_TILE_H
#define HRF_TILER_SLIDE_JP2K_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_jp2k_form {
    int64_t width, height; /* of the tile, px */
    bool is_ycc;           /* the three channels are YCbCr, else RGB; one channel is gray */
};

/* rgb[height][width][3]. The data may be smaller than the tile (the last strip): the rest is left
 * as it is. False: it is no sound JPEG 2000 of one or three channels of 1 to 16 bits and at most
 * that size, and *reason says why. */
bool hrf_jp2k_tile_decode(const struct hrf_jp2k_form *form, const void *data, size_t n_bytes,
                          unsigned char *rgb, char reason[256]);

#endif
