/* output_loss.h - what rounding costs the output of a network: an image's embedding its direction,
 * or its most likely class its lead. Pure. */
#ifndef HRF_ENGINE_RUN_OUTPUT_LOSS_H
#define HRF_ENGINE_RUN_OUTPUT_LOSS_H

#include "calibrate/observe/observations.h"

/* The loss of an image whose n output values are `exact` in float32: 1 - cosine (0 to 2), or the
 * square of the change of the margin between the two classes that `exact` holds most likely. NaN in
 * `got` is the largest loss there is. */
double hrf_output_loss(enum hrf_layer_loss loss, const float *exact, const float *got, int64_t n);
/* The margin of the most likely of n classes: the logarithm of the ratio of its probability to that
 * of the second class, or for n = 1 to that of the opposite. NaN if a probability is. */
double hrf_output_margin(const float *probabilities, int64_t n);

/* Adds what one image loses. Of the output's n numbers each n_classes give one label: that of the
 * largest, or, of one probability, whether it is at least 0.5. n_classes 0: there are no labels.
 * An output that is not a number has lost all. */
void hrf_output_loss_add(struct hrf_observed_loss *sum, const float *exact, const float *got,
                         int64_t n, int64_t n_classes);

#endif
