/* device_peers.h - exchanges and reductions of ranks whose tensors lie on devices.
 *
 * A part of a tensor is packed on the device, carried, and unpacked there. Ranks of one node whose
 * devices reach each other's memory take parts straight out of it (within a process by pointers,
 * between processes by CUDA IPC); between others parts go through host memory that the device
 * reaches by itself and the ranks' comm: a device's pointer never gets to MPI. Either way the comm
 * carries the word that a part is there, and both ends know beforehand which way it takes.
 *
 * Order: a rank's queue waits for a part at its place in the queue; its thread waits only until the
 * sender's thread has queued it. A part lies in a slot until its receiver has taken it; a sender
 * that is ahead takes a slot more, so that no order of sends and receives can deadlock.
 */
#ifndef HRF_ENGINE_RUN_DEVICE_PEERS_H
#define HRF_ENGINE_RUN_DEVICE_PEERS_H

#include "engine/backend/backend.h"
#include "engine/run/peers.h"

enum hrf_carrier {
    HRF_CARRIER_AUTO, /* the quickest there is between two ranks */
    HRF_CARRIER_HOST, /* through host memory and the comm */
    HRF_CARRIER_IPC   /* device memory that both see; else an error */
};

struct hrf_device_peers; /* opaque; used by its rank's thread */

/* Every rank of the comm, at the same place among its messages; one network at a time. With no comm
 * (bands) nothing is sent, and what a rank has is cut to what it needs. HRF_E_UNSUPPORTED with the
 * pair and the reason when `carrier` cannot carry a message. All is borrowed for life. */
HRF_CHECKED enum hrf_status
hrf_device_peers_create(struct hrf_peers *peers, const struct hrf_device_ops *ops,
                        struct hrf_backend *backend, enum hrf_carrier carrier,
                        struct hrf_device_peers **out, struct hrf_error *err);
/* Where nothing failed all ranks come here, because nobody's memory may go while another has it
 * open; waits for them. NULL is fine. */
void hrf_device_peers_destroy(struct hrf_device_peers *device);
HRF_DEFINE_AUTO(hrf_device_peers)
/* The rank is built: from now on its end is one that the others wait for. */
void hrf_device_peers_ready(struct hrf_device_peers *device);
/* Of the device, for messages. */
int64_t hrf_device_peers_bytes(const struct hrf_device_peers *device);
/* How messages to and from a rank of the partition go: "ipc", or the comm's name. */
const char *hrf_device_peers_carrier(const struct hrf_device_peers *device, int32_t rank);

/* As those of peers.h, with pointers of the device. Queued; the thread waits for what goes through
 * the host. */
HRF_CHECKED enum hrf_status hrf_device_peers_begin(struct hrf_device_peers *device,
                                                   int32_t exchange, const void *in, void *out,
                                                   struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_device_peers_end(struct hrf_device_peers *device, int32_t exchange,
                                                 void *out, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_device_peers_reduce(struct hrf_device_peers *device, int32_t reduce,
                                                    const void *in, void *out,
                                                    struct hrf_error *err);

#endif
