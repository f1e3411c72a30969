/* jpeg_stream.h - a JPEG tile of a TIFF as a JPEG of its own, for decoders other than libjpeg's.
 *
 * The stream has the TIFF's tables before the tile's own and nothing that only describes (APPn and
 * comments), and its channels are numbered 1, 2 and 3, so that every decoder takes them for Y, Cb
 * and Cr; where the TIFF says R, G and B it must be told not to convert them. Only the plainest
 * form passes, which every decoder gives alike: baseline, three channels of 8 bits (of one size, if
 * they are R, G and B), in one scan that ends with its end marker. What does not pass may be
 * damaged, which libjpeg tells.
 */
#ifndef HRF_TILER_SLIDE_JPEG_STREAM_H
#define HRF_TILER_SLIDE_JPEG_STREAM_H

#include "tiler/slide/jpeg_tile.h"

/* True if tiles of this form may pass: with tables that are sound or none. */
bool hrf_jpeg_form_is_plain(const struct hrf_jpeg_form *form);
/* The most bytes that a tile of n_bytes can become. */
size_t hrf_jpeg_stream_most(const struct hrf_jpeg_form *form, size_t n_bytes);
/* Writes the tile as a stream to `out`, which has room for hrf_jpeg_stream_most() bytes, and
 * returns its length; 0: it does not pass. */
size_t hrf_jpeg_stream_make(const struct hrf_jpeg_form *form, const void *data, size_t n_bytes,
                            unsigned char *out);

#endif
