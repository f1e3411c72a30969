/* device_peers_private.h - parts of tensors on devices, and the ways they take. */
#ifndef HRF_ENGINE_RUN_DEVICE_PEERS_PRIVATE_H
#define HRF_ENGINE_RUN_DEVICE_PEERS_PRIVATE_H

#include "engine/run/device_peers.h"

/* A message: a part of a tensor of this rank, on its device. */
struct hrf_device_part {
    int32_t peer; /* in the partition */
    int32_t tag;  /* in the plan */
    char *at;
    struct hrf_area area;
};
/* In packed memory, where every part is aligned. */
enum { HRF_PART_ALIGNMENT = 256 };
static inline size_t hrf_part_room(int64_t n_bytes)
{
    return (size_t)(n_bytes + HRF_PART_ALIGNMENT - 1) / HRF_PART_ALIGNMENT * HRF_PART_ALIGNMENT;
}

/* device_shared.c: memory of this rank that others see, and theirs. */
struct hrf_shared; /* opaque */
struct hrf_shared_config {
    struct hrf_peers *peers;
    const struct hrf_device_ops *ops;
    struct hrf_backend *backend;
    bool is_wanted, is_required; /* else nothing is shared; else a pair that cannot is an error */
};
/* Tells the others and is told; both ends of a pair come to the same. */
HRF_CHECKED enum hrf_status hrf_shared_create(const struct hrf_shared_config *config,
                                              struct hrf_shared **out, struct hrf_error *err);
/* `together`: all ranks come here. */
void hrf_shared_destroy(struct hrf_shared *shared, bool together);
bool hrf_shared_reaches(const struct hrf_shared *shared, int32_t rank);
bool hrf_shared_is_beside(const struct hrf_shared *shared, int32_t rank); /* on the same node */
int64_t hrf_shared_bytes(const struct hrf_shared *shared);
/* Queues the packing and tells the receiver. */
HRF_CHECKED enum hrf_status hrf_shared_send(struct hrf_shared *shared,
                                            const struct hrf_device_part *part,
                                            struct hrf_error *err);
/* Waits for the sender's word and queues the unpacking. */
HRF_CHECKED enum hrf_status hrf_shared_receive(struct hrf_shared *shared,
                                               const struct hrf_device_part *part,
                                               struct hrf_error *err);

/* device_nccl.c: NCCL between ranks that each have a GPU of their own. */
struct hrf_device_nccl; /* opaque */
struct hrf_device_nccl_config {
    struct hrf_peers *peers;
    const struct hrf_device_ops *ops;
    struct hrf_backend *backend;
    /* [n_ranks] with whom this rank will communicate by it: pairs are warmed up. Lent for the call.
     */
    const bool *sends_to, *receives_from;
    size_t out_bytes, in_bytes; /* of the largest group's parts, each in whole 256 bytes */
};
/* Of one exchange. */
struct hrf_device_nccl_group {
    const struct hrf_device_part *sent, *received;
    int32_t n_sent, n_received;
    bool packs_all; /* what is sent is not there any more when the exchange ends */
};
/* Every rank of the partition. Where NCCL cannot be *out stays NULL and `why` says the same to all
 * ranks. */
HRF_CHECKED enum hrf_status hrf_device_nccl_create(const struct hrf_device_nccl_config *config,
                                                   struct hrf_device_nccl **out, char *why,
                                                   size_t why_size, struct hrf_error *err);
void hrf_device_nccl_destroy(struct hrf_device_nccl *nccl);
HRF_DEFINE_AUTO(hrf_device_nccl)
int64_t hrf_device_nccl_bytes(const struct hrf_device_nccl *nccl);
/* Queues all of it beside the kernels, behind those that are queued. The queue of kernels has to
 * follow() before it uses what was received or writes over what was sent. */
HRF_CHECKED enum hrf_status hrf_device_nccl_exchange(struct hrf_device_nccl *nccl,
                                                     const struct hrf_device_nccl_group *group,
                                                     struct hrf_error *err);
/* For a mark: ends with the reason when NCCL or another rank has failed. */
HRF_CHECKED enum hrf_status hrf_device_nccl_wait(struct hrf_device_nccl *nccl, int32_t slot,
                                                 struct hrf_error *err);
/* What is queued ends, done or not. NCCL waits here for recordings of it: they go before. */
void hrf_device_nccl_abort(struct hrf_device_nccl *nccl);

/* Words of one partition's ranks among themselves, in order. */
HRF_CHECKED enum hrf_status hrf_device_send_word(const struct hrf_peers *peers, int32_t to,
                                                 const void *word, size_t n_bytes,
                                                 struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_device_receive_word(const struct hrf_peers *peers, int32_t from,
                                                    void *word, size_t n_bytes,
                                                    struct hrf_error *err);
int64_t hrf_device_word_tag(const struct hrf_peers *peers);

/* Packed parts on their way through the host: on the device and in host memory that it reaches. */
struct hrf_staging {
    char *device, *host;
    size_t n_bytes;
};

/* How a message goes; both its ends come to the same. */
enum hrf_device_way { WAY_HOST, WAY_SHARED, WAY_NCCL };

struct hrf_device_peers {
    struct hrf_peers *peers;
    const struct hrf_device_ops *ops;
    struct hrf_backend *backend;
    enum hrf_carrier carrier;
    struct hrf_shared *shared;
    struct hrf_device_nccl *nccl; /* NULL: there is none */
    struct hrf_machine *links;    /* NULL: not known */
    bool uses_nccl, only_nccl;    /* for what it is chosen for; for every message */
    const char *carriers;         /* of this rank's messages; NULL: it has none */
    char notes[600];
    struct hrf_staging out, in;
    bool host_is_read; /* copies out of in.host may be under way */
    char *gathered;    /* all ranks' parts of a reduction */
    size_t gathered_bytes;
    /* [n_ranks] of the step at hand; those of NCCL apart */
    struct hrf_device_part *sent, *received, *nccl_sent, *nccl_received;
    bool is_ready, has_failed, is_settled;
    /* What the recorded exchanges count each time, and what was counted before. */
    struct hrf_comm_count recorded[HRF_N_COMM_USES], counted[HRF_N_COMM_USES];
};

HRF_CHECKED enum hrf_status hrf_device_copy(const struct hrf_device_ops *ops,
                                            struct hrf_backend *backend, char *to_at,
                                            const struct hrf_area *to, const char *from_at,
                                            const struct hrf_area *from, struct hrf_error *err);

enum hrf_device_way hrf_device_way_of(const struct hrf_device_peers *device, int32_t peer,
                                      int64_t n_bytes);
#endif
