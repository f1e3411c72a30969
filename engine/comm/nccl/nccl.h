/* nccl.h - messages between GPUs by NVIDIA's NCCL: the interface of the module hrf_nccl.so.
 *
 * hrf_module_load("nccl", ...) loads it, so that programs start on machines without NCCL. A group
 * of ranks, each a thread or a process with a GPU of its own, makes one communicator. All sends and
 * receives between begin() and end() form one group, in which their order does not matter. end()
 * queues the group on a stream; it runs there once all ranks that take part have reached it, so all
 * ranks must queue their groups in the same order. One thread uses a communicator. create() and
 * destroy() use the calling thread's current GPU. Queues are cudaStream_t. Groups may be recorded
 * in CUDA graphs.
 */
#ifndef HRF_ENGINE_COMM_NCCL_NCCL_H
#define HRF_ENGINE_COMM_NCCL_NCCL_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct hrf_nccl; /* opaque */

/* Identifies a communicator that is about to be made. One rank makes the id and sends it to the
 * others. */
struct hrf_nccl_id {
    unsigned char bytes[128];
};

struct hrf_nccl_module {
    /* The versions of the headers that this was built with and of the library that was loaded:
     * 10000 * major + 100 * minor + patch. HRF_E_UNSUPPORTED, with both and advice, if they do not
     * fit. */
    enum hrf_status (*versions)(int *header, int *library, struct hrf_error *err);
    enum hrf_status (*make_id)(struct hrf_nccl_id *out, struct hrf_error *err);
    /* Collective: waits for all ranks of the group without a time limit, so the caller needs a
     * watchdog. */
    enum hrf_status (*create)(const struct hrf_nccl_id *id, int32_t rank, int32_t n_ranks,
                              struct hrf_nccl **out, struct hrf_error *err);
    /* Call it once everything that was queued is done or aborted. NULL is fine. */
    void (*destroy)(struct hrf_nccl *nccl);
    enum hrf_status (*begin)(struct hrf_nccl *nccl, struct hrf_error *err);
    enum hrf_status (*send)(struct hrf_nccl *nccl, int32_t to, const void *bytes, size_t n_bytes,
                            void *queue, struct hrf_error *err);
    enum hrf_status (*receive)(struct hrf_nccl *nccl, int32_t from, void *bytes, size_t n_bytes,
                               void *queue, struct hrf_error *err);
    /* Does not wait for other ranks once every pair that communicates has done so before. */
    enum hrf_status (*end)(struct hrf_nccl *nccl, struct hrf_error *err);
    /* Returns an error that has occurred asynchronously. Never waits. */
    enum hrf_status (*check)(struct hrf_nccl *nccl, struct hrf_error *err);
    /* Ends everything that is queued, finished or not. Only destroy() may follow. */
    void (*abort)(struct hrf_nccl *nccl);
};

#endif
