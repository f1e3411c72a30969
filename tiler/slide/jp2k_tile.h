/* jp2k_tile.h - decodes a JPEG 2000 tile of a TIFF to RGB with OpenJPEG. */
#ifndef HRF_TILER_SLIDE_JP2K_TILE_H
#define HRF_TILER_SLIDE_JP2K_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_jp2k_form {
    int64_t width, height; /* the tile's, px */
    int32_t reduction;     /* 0, 1: full resolution. 2, 4, 8: that much less, without decoding the
                              finer wavelet bands; has to divide width and height */
    bool is_ycc; /* three channels are YCbCr unless the codestream says RGB; one channel is gray */
};

enum { HRF_JP2K_MAX_REDUCTION = 8 };

/* Decodes into rgb[height / reduction][width / reduction][3]. The image may be smaller than the
 * tile, as in a last strip; the rest of rgb is then left as it is. Returns false, with the reason
 * in `reason`, unless the data is sound JPEG 2000 of at most that size with one or three channels
 * of 1 to 16 bits. */
bool hrf_jp2k_tile_decode(const struct hrf_jp2k_form *form, const void *data, size_t n_bytes,
                          unsigned char *rgb, char reason[256]);

#endif
