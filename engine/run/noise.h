/* noise.h - what a lower precision costs, layer by layer: signal to noise against float32.
 *
 * A float32 session shows what every tensor holds, then one of the same network in another
 * precision, on the same input, is held against it. One thread; host memory.
 */
#ifndef HRF_ENGINE_RUN_NOISE_H
#define HRF_ENGINE_RUN_NOISE_H

#include "engine/run/session.h"

struct hrf_noise_tensor {
    char *name;
    float *truth; /* [n] */
    int64_t n;
    bool is_compared; /* the lower precision has a tensor of that name */
    double sqnr_db;   /* 10 log10(sum of truth^2 / sum of (truth - other)^2); +inf: no noise */
};
struct hrf_noise {
    struct hrf_noise_tensor *items; /* in the order of the network */
    int32_t n_items;
    size_t capacity; /* private */
};
void hrf_noise_release(struct hrf_noise *noise);

/* The next runs of `session` are recorded, or compared; `noise` is borrowed until
 * hrf_session_observe(session, NULL, NULL). A run that is recorded takes the memory of all
 * activations. */
void hrf_noise_record(struct hrf_session *session, struct hrf_noise *noise);
void hrf_noise_compare(struct hrf_session *session, struct hrf_noise *noise);

#endif
