/* tune_devices.h - measures the cost of messages between GPUs, as the engine sends them.
 *
 * One pair of ranks after the other exchanges messages of each size in both directions at once,
 * like halos, many in a row; the other ranks wait. A figure is the median time of one exchange,
 * including packing, from the first kernel of an exchange to that of the next. Connections and
 * slots are made before the measurement.
 */
#ifndef HRF_ENGINE_RUN_TUNE_DEVICES_H
#define HRF_ENGINE_RUN_TUNE_DEVICES_H

#include "engine/plan/machine.h"
#include "engine/run/device_peers.h"

/* The link of one transport between two ranks; link.n_points is 0 if another transport was used. */
struct hrf_tuned_pair {
    int32_t a, b;
    bool is_one_gpu; /* both ranks use the same GPU */
    struct hrf_link link;
};

/* Collective over `comm`, with the same arguments on all ranks. On rank 0 `pairs` gets n_ranks *
 * (n_ranks - 1) / 2 entries. HRF_E_UNSUPPORTED on all ranks if the transport cannot be used between
 * any of them. */
HRF_CHECKED enum hrf_status hrf_tune_devices(struct hrf_comm *comm, enum hrf_transport transport,
                                             int64_t largest_bytes, struct hrf_tuned_pair *pairs,
                                             struct hrf_error *err);
static inline int32_t hrf_tuned_pairs(int32_t n_ranks)
{
    return n_ranks * (n_ranks - 1) / 2;
}

#endif
