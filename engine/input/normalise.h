/* normalise.h - a pixel's byte as the number that a network is fed: (byte / 255 - mean) / std of
 * its channel, mean and std being of RGB scaled to 0..1.
 *
 * Host memory gets it from a table, rounded once. A device computes it as byte * scale + shift,
 * which is off by a rounding or two.
 */
#ifndef HRF_ENGINE_INPUT_NORMALISE_H
#define HRF_ENGINE_INPUT_NORMALISE_H

#include "engine/backend/device.h"

void hrf_normalise_table(const double mean[3], const double std[3], float table[3][256]);
struct hrf_pixel_form hrf_normalise_form(const double mean[3], const double std[3]);

#endif
