/* tune_devices.h - what messages between GPUs cost, measured as the engine carries them.
 *
 * Every pair of ranks of a comm exchanges messages of each size both ways at once, as halos go,
 * many in a row; others wait meanwhile. A figure is the median time of one exchange, packing and
 * all, from the first kernel of one to that of the next. Pairs are warm: connected, with slots
 * made.
 */
#ifndef HRF_ENGINE_RUN_TUNE_DEVICES_H
#define HRF_ENGINE_RUN_TUNE_DEVICES_H

#include "engine/plan/machine.h"
#include "engine/run/device_peers.h"

/* What one carrier takes between two ranks; link.n_points 0: another carried it. */
struct hrf_tuned_pair {
    int32_t a, b;
    bool is_one_gpu; /* both ranks' */
    struct hrf_link link;
};

/* On every rank of `comm` with the same arguments. `pairs` gets [n_ranks * (n_ranks - 1) / 2] on
 * rank 0. HRF_E_UNSUPPORTED, on all ranks, when the carrier can carry nothing between them. */
HRF_CHECKED enum hrf_status hrf_tune_devices(struct hrf_comm *comm, enum hrf_carrier carrier,
                                             int64_t largest_bytes, struct hrf_tuned_pair *pairs,
                                             struct hrf_error *err);
static inline int32_t hrf_tuned_pairs(int32_t n_ranks)
{
    return n_ranks * (n_ranks - 1) / 2;
}

#endif
