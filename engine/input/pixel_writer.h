/* pixel_writer.h - pixels as read to the numbers that networks are fed, in each network's form. */
#ifndef HRF_ENGINE_INPUT_PIXEL_WRITER_H
#define HRF_ENGINE_INPUT_PIXEL_WRITER_H

#include "engine/input/normalise.h"
#include "engine/ir/feed_form.h"

struct hrf_pixel_writer {
    struct hrf_normaliser normaliser;
    struct hrf_feed_form form;
    /* Of a narrow type: what the network would convert the floats to. */
    uint8_t bytes[3][256]; /* S8, U8 */
    uint16_t halves[3][256];
};

/* mean and std are of RGB scaled to 0..1. */
void hrf_pixel_writer_init(struct hrf_pixel_writer *writer, const struct hrf_feed_form *form,
                           const double mean[3], const double std[3]);
/* Writes n_rows rows of n numbers each, from the first channel of a pixel on, one after the other.
 * `stride` bytes lie between the beginnings of two rows of `rgb`. Another thread may read them only
 * after hrf_pixel_writer_end() in this thread. */
void hrf_pixel_writer_put(const struct hrf_pixel_writer *writer, const unsigned char *rgb,
                          int64_t stride, int64_t n_rows, int64_t n, void *out);
void hrf_pixel_writer_end(const struct hrf_pixel_writer *writer);

#endif
