/* smoothing.h - how strongly the input of each product of tokens or pixels is to be smoothed
 * (passes/lower.h): measured by the error that 8 bits make in the product's output, on rows of the
 * sample.
 *
 * Strengths are tried after a batch has been observed, with the peaks that the channels have so
 * far. Used by one thread at a time; measures with the process's OpenMP threads.
 */
#ifndef HRF_ENGINE_RUN_SMOOTHING_H
#define HRF_ENGINE_RUN_SMOOTHING_H

#include "calibrate/observe/observations.h"
#include "engine/run/session.h"

struct hrf_smoothing; /* opaque: the products of a network and their weights */

/* `graph` with its input shapes set and `config` as for hrf_session_create(). *out stays NULL if
 * the network has no products of tokens. */
HRF_CHECKED enum hrf_status hrf_smoothing_create(const struct hrf_graph *graph,
                                                 const struct hrf_session_config *config,
                                                 struct hrf_smoothing **out, struct hrf_error *err);
void hrf_smoothing_destroy(struct hrf_smoothing *smoothing);
HRF_DEFINE_AUTO(hrf_smoothing)

/* Adds the relative squared error of every strength to `errors` of the observation of `value`, if
 * products read it: `data` is n_rows rows of `depth` numbers, as many as its channels. Values that
 * were not observed are left alone. */
void hrf_smoothing_try(const struct hrf_smoothing *smoothing, struct hrf_observations *observations,
                       const char *value, const float *data, int64_t n_rows, int64_t depth);

#endif
