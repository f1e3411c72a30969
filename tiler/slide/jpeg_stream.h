/* jpeg_stream.h - a JPEG tile of a TIFF as a JPEG of its own, for decoders other than libjpeg's.
 *
 * The stream has the TIFF's tables before the tile's own and no metadata (APPn and comments). Its
 * channels are numbered 1, 2 and 3, so that every decoder takes them for Y, Cb and Cr; if the TIFF
 * says R, G and B, the decoder must be told not to convert them. Only tiles of the plainest form
 * become streams, because all decoders agree on it: baseline, three channels of 8 bits (of one size
 * if they are R, G and B), in one scan that ends with its end marker. Any other tile is decoded by
 * libjpeg, which also says whether it is damaged.
 */
#ifndef HRF_TILER_SLIDE_JPEG_STREAM_H
#define HRF_TILER_SLIDE_JPEG_STREAM_H

#include "tiler/slide/jpeg_tile.h"

/* True if tiles of this form may become streams: their tables are sound, or there are none. */
bool hrf_jpeg_form_is_plain(const struct hrf_jpeg_form *form);
/* Returns the most bytes that the stream of a tile of n_bytes can have. */
size_t hrf_jpeg_stream_max(const struct hrf_jpeg_form *form, size_t n_bytes);
/* Writes the tile as a stream to `out`, which has room for hrf_jpeg_stream_max() bytes, and
 * returns its length, or 0 if the tile cannot become a stream. */
size_t hrf_jpeg_stream_make(const struct hrf_jpeg_form *form, const void *data, size_t n_bytes,
                            unsigned char *out);

#endif
