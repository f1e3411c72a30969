/* normalise.h - a pixel's byte as the number that a network is fed: (byte / 255 - mean) / std of
 * its channel, mean and std being of RGB scaled to 0..1.
 *
 * Host memory gets it from a table, rounded once. A device computes it as byte * scale + shift,
 * which is off by a rounding or two.
 */
#ifndef HRF_ENGINE_INPUT_NORMALISE_H
#define HRF_ENGINE_INPUT_NORMALISE_H

#include "engine/backend/device.h"

#include <stdbool.h>
#include <stdint.h>

/* The table, and the same as a product and a sum in double that were found to round to it. */
struct hrf_normaliser {
    float table[3][256];
    /* By lane of 48 numbers after which the channels repeat. */
    double scale[48], shift[48];
    bool is_wide; /* the processor computes them faster than it reads the table */
};
void hrf_normaliser_init(struct hrf_normaliser *normaliser, const double mean[3],
                         const double std[3]);
/* out[i] = table[i % 3][rgb[i]], n of them. */
void hrf_normalise(const struct hrf_normaliser *normaliser, const unsigned char *rgb, int64_t n,
                   float *out);
/* The same for one part of many. The numbers may go past the caches: another thread may read them
 * only after hrf_normalise_end() in this thread. */
void hrf_normalise_part(const struct hrf_normaliser *normaliser, const unsigned char *rgb,
                        int64_t n, float *out);
void hrf_normalise_end(const struct hrf_normaliser *normaliser);
/* Makes the first whole groups of 48 numbers and returns how many numbers those are. */
int64_t hrf_normalise_avx512(const struct hrf_normaliser *normaliser, const unsigned char *rgb,
                             int64_t n, float *out);
void hrf_normalise_fence_avx512(void);

void hrf_normalise_table(const double mean[3], const double std[3], float table[3][256]);
struct hrf_pixel_form hrf_normalise_form(const double mean[3], const double std[3]);

#endif
