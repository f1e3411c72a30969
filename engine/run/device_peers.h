/* device_peers.h - exchanges and reductions of ranks whose tensors lie on devices.
 *
 * A part of a tensor is packed on the device, carried, and unpacked on the other device. Ranks of
 * one node whose devices can access each other's memory write parts directly into it (by pointers
 * within a process, by CUDA IPC between processes; device_push.c) or, where their streams must not
 * wait for each other, read them from it (device_shared.c). Between other ranks, parts go through
 * pinned host memory and the comm; MPI never sees a device pointer. In the latter two cases the
 * comm carries a notification that the part is ready. Both ends of a message know in advance which
 * path it takes.
 *
 * Order: the stream of a rank waits for a part at the right position of the stream; the thread of
 * the rank waits at most until the sender's thread has queued the part. A part stays in a slot
 * until the receiver has read it. A sender that is ahead and needs the host allocates another slot,
 * so that no order of sends and receives can deadlock; device_push.c and NCCL rely on the order of
 * the steps.
 */
#ifndef HRF_ENGINE_RUN_DEVICE_PEERS_H
#define HRF_ENGINE_RUN_DEVICE_PEERS_H

#include "engine/backend/backend.h"
#include "engine/plan/machine.h"
#include "engine/run/peers.h"

enum hrf_transport {
    HRF_TRANSPORT_AUTO, /* the fastest that is possible between two ranks */
    HRF_TRANSPORT_HOST, /* through host memory and the comm */
    HRF_TRANSPORT_IPC,  /* device memory that both can access; else an error */
    HRF_TRANSPORT_NCCL  /* NCCL; else an error */
};

struct hrf_device_peers; /* opaque; used by its rank's thread */

/* Collective over the comm, for peers that have their plan; one network at a time. Without a comm
 * (bands) nothing is sent; exchanges only copy. HRF_E_UNSUPPORTED with the pair and the reason if
 * `transport` cannot carry a message. `links` (NULL: not known) are borrowed for the call; with
 * AUTO those of rank 0 decide on all ranks which transport takes messages of which size. All else
 * is borrowed for life. */
HRF_CHECKED enum hrf_status
hrf_device_peers_create(struct hrf_peers *peers, const struct hrf_device_ops *ops,
                        struct hrf_backend *backend, enum hrf_transport transport,
                        const struct hrf_machine *links, struct hrf_device_peers **out,
                        struct hrf_error *err);
/* Shutdown has three steps: leave(), abandon(), destroy(). leave() waits for all messages in
 * flight, if nothing has failed; after it, recordings are destroyed. abandon() aborts messages that
 * are still in flight after a failure; before it, nothing that waits for the device may be called.
 * NULL is fine. */
void hrf_device_peers_leave(struct hrf_device_peers *device);
void hrf_device_peers_abandon(struct hrf_device_peers *device);
/* Collective unless something failed: waits for all ranks, because memory may not be freed while
 * another rank has it open. NULL is fine. */
void hrf_device_peers_destroy(struct hrf_device_peers *device);
HRF_DEFINE_AUTO(hrf_device_peers)
/* Call it when the rank is completely built: from now on the others wait for its shutdown. */
void hrf_device_peers_ready(struct hrf_device_peers *device);
/* Device memory used for messages. */
int64_t hrf_device_peers_bytes(const struct hrf_device_peers *device);
/* The transport of a message of that size to or from a rank of the partition: "ipc", "nccl", or the
 * name of the comm. */
const char *hrf_device_peers_transport(const struct hrf_device_peers *device, int32_t rank,
                                       int64_t n_bytes);
/* The transports of all messages of this rank ("ipc", "ipc+mpi"); static. NULL: it has no
 * messages. */
const char *hrf_device_peers_transports(const struct hrf_device_peers *device);
/* The reason why NCCL is not used although it would be the fastest; otherwise "". Valid as long as
 * the object. */
const char *hrf_device_peers_notes(const struct hrf_device_peers *device);

/* Like hrf_peers_run(), in device memory. Work is queued; the thread waits only for messages
 * through the host. Kernels queued between a BEGIN and its END run at the same time as the
 * exchange. */
HRF_CHECKED enum hrf_status hrf_device_peers_run(struct hrf_device_peers *device, int32_t step,
                                                 struct hrf_error *err);

/* Waits for a mark like hrf_device_ops.wait; fails with the reason if a rank that the device waits
 * for has failed. */
HRF_CHECKED enum hrf_status hrf_device_peers_wait(struct hrf_device_peers *device, int32_t slot,
                                                  struct hrf_error *err);
/* True if exchanges can be recorded, because the host takes no part in them. */
bool hrf_device_peers_may_record(const struct hrf_device_peers *device);
/* record(): call it before the first and after the last recorded step. replayed(): call it after
 * each replay, to count its messages. */
HRF_CHECKED enum hrf_status hrf_device_peers_record(struct hrf_device_peers *device, bool begins,
                                                    struct hrf_error *err);
void hrf_device_peers_replayed(struct hrf_device_peers *device);

#endif
