/* device_peers_private.h - the ways to carry a part of a tensor between devices: shared device
 * memory, NCCL, and host memory. */
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
/* Bytes; alignment of every part in packed memory. */
enum { HRF_PART_ALIGNMENT = 256 };
static inline size_t hrf_part_room(int64_t n_bytes)
{
    return hrf_round_up((size_t)n_bytes, HRF_PART_ALIGNMENT);
}

/* device_push.c: parts are written into the receiver's memory, and flags tell the streams so. */
struct hrf_push; /* opaque */
struct hrf_push_config {
    struct hrf_peers *peers;
    const struct hrf_device_ops *ops;
    struct hrf_backend *backend;
    bool is_interprocess; /* the ranks are processes */
    /* [n_ranks] with which ranks; both ends of a pair say the same. The devices' addresses. Both
     * are borrowed for the call. */
    const bool *is_pushed;
    const char *const *addresses;
};
/* Collective over the pairs. */
HRF_CHECKED enum hrf_status hrf_push_create(const struct hrf_push_config *config,
                                            struct hrf_push **out, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_push_send(struct hrf_push *push, const struct hrf_device_part *part,
                                          struct hrf_error *err);
HRF_CHECKED enum hrf_status
hrf_push_receive(struct hrf_push *push, const struct hrf_device_part *part, struct hrf_error *err);
/* Lets go on what waits in this rank's queues for others, until they are empty. The group must have
 * been aborted: what is computed and sent from now on is void. */
void hrf_push_release(struct hrf_push *push);
/* The others' memory is closed by all before anybody destroys its own. NULL is fine. */
void hrf_push_close(struct hrf_push *push);
void hrf_push_destroy(struct hrf_push *push);
int64_t hrf_push_bytes(const struct hrf_push *push);

/* device_shared.c: device memory that ranks of one node share. */
struct hrf_shared; /* opaque */
struct hrf_shared_config {
    struct hrf_peers *peers;
    const struct hrf_device_ops *ops;
    struct hrf_backend *backend;
    bool is_wanted, is_required; /* wanted: share memory where possible; required: a pair that
                                  * cannot share is an error */
    bool may_push;               /* the same on all ranks: messages may wait for their receivers */
};
/* Collective. Both ends of a pair find the same answer. */
HRF_CHECKED enum hrf_status hrf_shared_create(const struct hrf_shared_config *config,
                                              struct hrf_shared **out, struct hrf_error *err);
/* `together`: all ranks call it, so that it may wait for them. */
void hrf_shared_destroy(struct hrf_shared *shared, bool together);
bool hrf_shared_reaches(const struct hrf_shared *shared, int32_t rank);
bool hrf_shared_is_same_node(const struct hrf_shared *shared, int32_t rank); /* on the same node */
int64_t hrf_shared_bytes(const struct hrf_shared *shared);
/* True if messages to and from that rank need nothing of the host. Both ends find the same. */
bool hrf_shared_pushes(const struct hrf_shared *shared, int32_t rank);
/* Lets go on what waits for other ranks, after the group was aborted. NULL is fine. */
void hrf_shared_let_go(struct hrf_shared *shared);
/* Why this rank pushes to nobody; "": it might. */
const char *hrf_shared_why_no_push(const struct hrf_shared *shared);
/* Queues the packing and notifies the receiver. */
HRF_CHECKED enum hrf_status hrf_shared_send(struct hrf_shared *shared,
                                            const struct hrf_device_part *part,
                                            struct hrf_error *err);
/* Waits for the sender's notification and queues the unpacking. */
HRF_CHECKED enum hrf_status hrf_shared_receive(struct hrf_shared *shared,
                                               const struct hrf_device_part *part,
                                               struct hrf_error *err);

/* device_nccl.c: NCCL between ranks that each have a GPU of their own. */
struct hrf_device_nccl; /* opaque */
struct hrf_device_nccl_config {
    struct hrf_peers *peers;
    const struct hrf_device_ops *ops;
    struct hrf_backend *backend;
    /* [n_ranks] the ranks that this rank will communicate with by NCCL, whose connections are made
     * at once. Borrowed for the call. */
    const bool *sends_to, *receives_from;
    size_t out_bytes,
        in_bytes; /* of all parts of the largest group, each rounded up to 256 bytes */
};
/* The messages of one exchange. */
struct hrf_device_nccl_group {
    const struct hrf_device_part *sent, *received;
    int32_t n_sent, n_received;
    bool packs_all; /* pack everything: the tensor may be overwritten before the exchange ends */
};
/* Collective over the partition. If NCCL cannot be used, *out stays NULL and `why` is the same text
 * on all ranks. */
HRF_CHECKED enum hrf_status hrf_device_nccl_create(const struct hrf_device_nccl_config *config,
                                                   struct hrf_device_nccl **out, char *why,
                                                   size_t why_size, struct hrf_error *err);
void hrf_device_nccl_destroy(struct hrf_device_nccl *nccl);
HRF_DEFINE_AUTO(hrf_device_nccl)
int64_t hrf_device_nccl_bytes(const struct hrf_device_nccl *nccl);
/* Queues the group on a second stream, after the kernels queued so far. The stream of kernels must
 * call follow() before it uses received data or overwrites sent data. */
HRF_CHECKED enum hrf_status hrf_device_nccl_exchange(struct hrf_device_nccl *nccl,
                                                     const struct hrf_device_nccl_group *group,
                                                     struct hrf_error *err);
/* Waits for a mark; fails with the reason if NCCL or another rank has failed. */
HRF_CHECKED enum hrf_status hrf_device_nccl_wait(struct hrf_device_nccl *nccl, int32_t slot,
                                                 struct hrf_error *err);
/* Ends everything that is queued. NCCL waits here for graphs that recorded it, so destroy those
 * first. */
void hrf_device_nccl_abort(struct hrf_device_nccl *nccl);

/* device_wait.c: waits for a mark; fails if another rank has failed or nobody gets on. */
struct hrf_device_waiter {
    const struct hrf_peers *peers;
    const struct hrf_device_ops *ops;
    struct hrf_backend *backend;
    enum hrf_status (*check)(void *context,
                             struct hrf_error *err); /* NULL: nothing more to check */
    void *context;
    const char *advice;       /* after "all ranks of its group wait: " */
    bool is_void_after_abort; /* what is done after the group was aborted is not to be believed */
};
HRF_CHECKED enum hrf_status hrf_device_wait(const struct hrf_device_waiter *waiter, int32_t slot,
                                            struct hrf_error *err);

/* Control messages between the ranks of one partition; they arrive in order. */
HRF_CHECKED enum hrf_status hrf_device_send_message(const struct hrf_peers *peers, int32_t to,
                                                    const void *message, size_t n_bytes,
                                                    struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_device_receive_message(const struct hrf_peers *peers, int32_t from,
                                                       void *message, size_t n_bytes,
                                                       struct hrf_error *err);
int64_t hrf_device_control_tag(const struct hrf_peers *peers);

/* Buffers for packed parts that go through the host: one on the device and one in pinned host
 * memory. */
struct hrf_staging {
    char *device, *host;
    size_t n_bytes;
};

/* What carries a message; both ends choose the same. */
enum hrf_device_path { PATH_HOST, PATH_SHARED, PATH_NCCL };

struct hrf_device_peers {
    struct hrf_peers *peers;
    const struct hrf_device_ops *ops;
    struct hrf_backend *backend;
    enum hrf_transport transport;
    struct hrf_shared *shared;
    struct hrf_device_nccl *nccl; /* NULL: there is none */
    struct hrf_machine *links;    /* NULL: not known */
    bool uses_nccl, only_nccl;    /* for some messages; for all of them */
    bool uses_push, only_push;    /* likewise */
    const char *transports;       /* of this rank's messages; NULL: it has none */
    char notes[600];
    struct hrf_staging out, in;
    bool host_is_read; /* copies from in.host may be in flight */
    char *gathered;    /* all ranks' parts of a reduction */
    size_t gathered_bytes;
    /* [n_ranks] messages of the current step; those by NCCL separately */
    struct hrf_device_part *sent, *received, *nccl_sent, *nccl_received;
    bool is_ready, has_failed, is_settled;
    /* Message counts of one replay, and the counts before the recording began. */
    struct hrf_comm_count recorded[HRF_N_COMM_USES], counted[HRF_N_COMM_USES];
};

HRF_CHECKED enum hrf_status hrf_device_copy(const struct hrf_device_ops *ops,
                                            struct hrf_backend *backend, char *to_at,
                                            const struct hrf_area *to, const char *from_at,
                                            const struct hrf_area *from, struct hrf_error *err);

#endif
