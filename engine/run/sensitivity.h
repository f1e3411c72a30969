/* sensitivity.h - what each layer costs and gains in INT8, measured without labels: how far the
 * output moves when the products that read one tensor alone compute in 8 bits, and how long they
 * take in 8 bits, in float32 and in bfloat16, on one thread of this machine.
 *
 * A layer here is all products with constant weights that read one tensor, by whose name
 * calibrations keep them in float32. Blocks; uses the threads of the configuration.
 */
#ifndef HRF_ENGINE_RUN_SENSITIVITY_H
#define HRF_ENGINE_RUN_SENSITIVITY_H

#include "calibrate/fit/budget.h"
#include "calibrate/observe/observations.h"
#include "engine/run/calibrator.h"
#include "engine/run/session.h"

/* Images on which each layer, and all of them together, are measured, at most. */
enum { HRF_SENSITIVITY_IMAGES = 4, HRF_SENSITIVITY_WHOLE_IMAGES = 64 };

/* `graph` has its input shapes set, for at most HRF_SENSITIVITY_IMAGES images; `images`
 * holds n_images, N, H, W, C: that many or more. Layers are measured on the first of them.
 * `config`: device and threads. `calibrated`: ranges of the sample so far. Adds to the layers of
 * `observations`, whose `loss` says which loss it is. Not for back ends with a device of their own:
 * nothing is measured there. */
HRF_CHECKED enum hrf_status hrf_sensitivity_measure(const struct hrf_graph *graph,
                                                    const struct hrf_session_config *config,
                                                    const struct hrf_calibrated *calibrated,
                                                    const float *images, int64_t n_images,
                                                    struct hrf_observations *observations,
                                                    struct hrf_error *err);

#endif
