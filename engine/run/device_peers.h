/* device_peers.h - exchanges and reductions of ranks whose tensors lie on devices.
 *
 * A part of a tensor is packed on the device, carried, and unpacked there. Ranks of one node whose
 * devices reach each other's memory take parts straight out of it (within a process by pointers,
 * between processes by CUDA IPC); between others parts go through host memory that the device
 * reaches by itself and the ranks' comm: a device's pointer never gets to MPI. Either way the comm
 * carries the word that a part is there. NCCL needs no words while it runs. Both ends of a message
 * know beforehand which way it takes.
 *
 * Order: a rank's queue waits for a part at its place in the queue; its thread waits only until the
 * sender's thread has queued it. A part lies in a slot until its receiver has taken it; a sender
 * that is ahead takes a slot more, so that no order of sends and receives can deadlock.
 */
#ifndef HRF_ENGINE_RUN_DEVICE_PEERS_H
#define HRF_ENGINE_RUN_DEVICE_PEERS_H

#include "engine/backend/backend.h"
#include "engine/plan/machine.h"
#include "engine/run/peers.h"

enum hrf_carrier {
    HRF_CARRIER_AUTO, /* the quickest there is between two ranks */
    HRF_CARRIER_HOST, /* through host memory and the comm */
    HRF_CARRIER_IPC,  /* device memory that both see; else an error */
    HRF_CARRIER_NCCL  /* NCCL; else an error */
};

struct hrf_device_peers; /* opaque; used by its rank's thread */

/* For peers that have their plan. Every rank of the comm, at the same place among its messages; one
 * network at a time. With no comm (bands) nothing is sent, and what a rank has is cut to what it
 * needs. HRF_E_UNSUPPORTED with the pair and the reason when `carrier` cannot carry a message.
 * `links` (NULL: not known) are lent for the call and serve AUTO: rank 0's say on all ranks which
 * carrier takes a message of which size. All else is borrowed for life. */
HRF_CHECKED enum hrf_status
hrf_device_peers_create(struct hrf_peers *peers, const struct hrf_device_ops *ops,
                        struct hrf_backend *backend, enum hrf_carrier carrier,
                        const struct hrf_machine *links, struct hrf_device_peers **out,
                        struct hrf_error *err);
/* The end, in three steps; NULL is fine. leave() waits until nothing is under way, where nothing
 * has failed; then recordings go. abandon() ends what is still under way because something has:
 * before it, nothing that waits for the device may be called. */
void hrf_device_peers_leave(struct hrf_device_peers *device);
void hrf_device_peers_abandon(struct hrf_device_peers *device);
/* Where nothing failed all ranks come here, because nobody's memory may go while another has it
 * open; waits for them. NULL is fine. */
void hrf_device_peers_destroy(struct hrf_device_peers *device);
HRF_DEFINE_AUTO(hrf_device_peers)
/* The rank is built: from now on its end is one that the others wait for. */
void hrf_device_peers_ready(struct hrf_device_peers *device);
/* Of the device, for messages. */
int64_t hrf_device_peers_bytes(const struct hrf_device_peers *device);
/* How a message of so many bytes to or from a rank of the partition goes: "ipc", "nccl", or the
 * comm's name. */
const char *hrf_device_peers_carrier(const struct hrf_device_peers *device, int32_t rank,
                                     int64_t n_bytes);
/* Of all this rank's messages ("ipc", "ipc+mpi"); static. NULL: it has none. */
const char *hrf_device_peers_carriers(const struct hrf_device_peers *device);
/* Why NCCL, which would have been the quickest, does not carry anything; "": it does, or would not
 * be. Lives as the object. */
const char *hrf_device_peers_notes(const struct hrf_device_peers *device);

/* As hrf_peers_run(), in memory of the device. Queued; the thread waits for what goes through the
 * host. Kernels that are queued between a BEGIN and its END run meanwhile. */
HRF_CHECKED enum hrf_status hrf_device_peers_run(struct hrf_device_peers *device, int32_t step,
                                                 struct hrf_error *err);

/* For a mark of the device's, as hrf_device_ops.wait; ends with the reason when another rank has
 * failed for whom the device waits. */
HRF_CHECKED enum hrf_status hrf_device_peers_wait(struct hrf_device_peers *device, int32_t slot,
                                                  struct hrf_error *err);
/* Whether exchanges can be recorded: the host has no part in them. */
bool hrf_device_peers_may_record(const struct hrf_device_peers *device);
/* Before the first and after the last of what is recorded, and after each replay: what it carries
 * is counted then. */
HRF_CHECKED enum hrf_status hrf_device_peers_record(struct hrf_device_peers *device, bool begins,
                                                    struct hrf_error *err);
void hrf_device_peers_replayed(struct hrf_device_peers *device);

#endif
