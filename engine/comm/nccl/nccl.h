/* nccl.h - messages between GPUs by NVIDIA's NCCL: what the module hrf_nccl.so offers.
 *
 * Loaded by hrf_module_load("nccl", ...), so that programs start where there is no NCCL. A group of
 * ranks, each a thread or a process with a GPU of its own, makes one communicator. What is sent and
 * received between begin() and end() goes at once, in any order, and is queued: it happens at its
 * place in the queue that end() names, when all ranks that take part have got there, so ranks must
 * come to their groups in the same order. One thread uses a communicator; create() and destroy()
 * take the calling thread's current GPU. Queues are cudaStream_t. May be recorded (CUDA graphs).
 */
#ifndef HRF_ENGINE_COMM_NCCL_NCCL_H
#define HRF_ENGINE_COMM_NCCL_NCCL_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct hrf_nccl; /* opaque */

/* Names one group that is about to meet; made by one rank of it, told to the others. */
struct hrf_nccl_id {
    unsigned char bytes[128];
};

struct hrf_nccl_module {
    /* Of the headers that this was built with and of the library that was found: 10000 * major +
     * 100 * minor + patch. HRF_E_UNSUPPORTED, with both and the way out, when they do not go
     * together. */
    enum hrf_status (*versions)(int *header, int *library, struct hrf_error *err);
    enum hrf_status (*make_id)(struct hrf_nccl_id *out, struct hrf_error *err);
    /* Waits for all ranks of the group, without end: the caller watches. */
    enum hrf_status (*create)(const struct hrf_nccl_id *id, int32_t rank, int32_t n_ranks,
                              struct hrf_nccl **out, struct hrf_error *err);
    /* After all that was queued is done, or was ended by force. NULL is fine. */
    void (*destroy)(struct hrf_nccl *nccl);
    enum hrf_status (*begin)(struct hrf_nccl *nccl, struct hrf_error *err);
    enum hrf_status (*send)(struct hrf_nccl *nccl, int32_t to, const void *bytes, size_t n_bytes,
                            void *queue, struct hrf_error *err);
    enum hrf_status (*receive)(struct hrf_nccl *nccl, int32_t from, void *bytes, size_t n_bytes,
                               void *queue, struct hrf_error *err);
    /* Waits for nobody once every pair that talks has talked once. */
    enum hrf_status (*end)(struct hrf_nccl *nccl, struct hrf_error *err);
    /* What has failed behind the caller's back since. Never waits. */
    enum hrf_status (*check)(struct hrf_nccl *nccl, struct hrf_error *err);
    /* Ends what is queued, done or not; only destroy() may follow. */
    void (*abort)(struct hrf_nccl *nccl);
};

#endif
