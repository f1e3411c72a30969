/* device_peers_private.h - parts of tensors on devices, and the ways they take. */
#ifndef HRF_ENGINE_RUN_DEVICE_PEERS_PRIVATE_H
#define HRF_ENGINE_RUN_DEVICE_PEERS_PRIVATE_H

#include "engine/run/device_peers.h"

/* n_images x n_rows runs of bytes somewhere; distances in bytes. */
struct hrf_area {
    char *at;
    int64_t n_images, n_rows, row_bytes;
    int64_t image, row;
};
static inline size_t hrf_area_bytes(const struct hrf_area *a)
{
    return (size_t)(a->n_images * a->n_rows * a->row_bytes);
}
/* The same runs one after the other, at `at`. */
struct hrf_area hrf_area_packed(const struct hrf_area *of, void *at);
bool hrf_area_is_packed(const struct hrf_area *area);

/* A message: a part of a tensor of this rank. */
struct hrf_part {
    int32_t peer;     /* in the partition */
    int32_t exchange; /* its row; reductions behind the exchanges */
    int64_t tag;
    struct hrf_area area;
};

/* device_shared.c: memory of this rank that others see, and theirs. */
struct hrf_shared; /* opaque */
struct hrf_shared_config {
    struct hrf_peers *peers;
    const struct hrf_device_ops *ops;
    struct hrf_backend *backend;
    enum hrf_carrier carrier;
    const int64_t *part_bytes; /* [rows of exchanges and reductions][n_ranks] that are sent */
    int32_t n_rows;
};
/* Tells the others and is told; both ends of a pair come to the same. */
HRF_CHECKED enum hrf_status hrf_shared_create(const struct hrf_shared_config *config,
                                              struct hrf_shared **out, struct hrf_error *err);
/* `together`: all ranks come here. */
void hrf_shared_destroy(struct hrf_shared *shared, bool together);
bool hrf_shared_reaches(const struct hrf_shared *shared, int32_t rank);
int64_t hrf_shared_bytes(const struct hrf_shared *shared);
/* Queues the packing and tells the receiver. */
HRF_CHECKED enum hrf_status hrf_shared_send(struct hrf_shared *shared, const struct hrf_part *part,
                                            struct hrf_error *err);
/* Waits for the sender's word and queues the unpacking. */
HRF_CHECKED enum hrf_status hrf_shared_receive(struct hrf_shared *shared,
                                               const struct hrf_part *part, struct hrf_error *err);

HRF_CHECKED enum hrf_status hrf_device_copy(const struct hrf_device_ops *ops,
                                            struct hrf_backend *backend, const struct hrf_area *to,
                                            const struct hrf_area *from, struct hrf_error *err);

#endif
