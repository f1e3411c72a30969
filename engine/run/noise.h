/* noise.h - the error of a lower precision for each tensor: signal-to-quantisation-noise ratio
 * (SQNR) against float32.
 *
 * First the tensors of a float32 session are recorded; then a session of the same network in
 * another precision runs on the same input, and its tensors are compared. One thread; host memory.
 */
#ifndef HRF_ENGINE_RUN_NOISE_H
#define HRF_ENGINE_RUN_NOISE_H

#include "engine/run/session.h"

struct hrf_noise_tensor {
    char *name;
    float *truth; /* [n] */
    int64_t n;
    bool is_compared; /* the other session has a tensor of that name */
    double sqnr_db;   /* 10 log10(sum of truth^2 / sum of (truth - other)^2); +inf: no noise */
};
struct hrf_noise {
    struct hrf_noise_tensor *items; /* in the order of the network */
    int32_t n_items;
    size_t capacity; /* private */
};
void hrf_noise_release(struct hrf_noise *noise);

/* Records, or compares, the next runs of `session`. `noise` is borrowed until
 * hrf_session_observe(session, NULL, NULL). Recording needs memory for all activations. */
void hrf_noise_record(struct hrf_session *session, struct hrf_noise *noise);
void hrf_noise_compare(struct hrf_session *session, struct hrf_noise *noise);

#endif
