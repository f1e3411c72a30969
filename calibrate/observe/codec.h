/* codec.h - encodes observations as the JSON record that a calibrate job writes. Lossless. */
#ifndef HRF_CALIBRATE_OBSERVE_CODEC_H
#define HRF_CALIBRATE_OBSERVE_CODEC_H

#include "calibrate/observe/observations.h"

/* Heap text. */
HRF_CHECKED enum hrf_status hrf_observations_encode(const struct hrf_observations *observations,
                                                    char **out, struct hrf_error *err);
/* `where` names the text in messages. HRF_E_USER: the text is not such a record. */
HRF_CHECKED enum hrf_status hrf_observations_decode(const char *text, size_t n_bytes,
                                                    const char *where, struct hrf_observations *out,
                                                    struct hrf_error *err);

#endif
