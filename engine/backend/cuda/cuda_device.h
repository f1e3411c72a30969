/* cuda_device.h - one GPU: started or refused in a sentence, its memory, its streams.
 *
 * Everything that may fail says what failed and what to do instead. Used by one thread at a time;
 * hrf_cuda_device_enter() makes the device current for the calling thread.
 */
#ifndef HRF_ENGINE_BACKEND_CUDA_CUDA_DEVICE_H
#define HRF_ENGINE_BACKEND_CUDA_CUDA_DEVICE_H

#include "base/alloc.h"
#include "base/error.h"
#include "base/min_max.h"
#include "engine/backend/cuda/binding.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

enum hrf_status hrf_cuda_error(struct hrf_error *err, cudaError_t status, const char *what);
#define HRF_TRY_CUDA(call, what)                                                                   \
    do {                                                                                           \
        cudaError_t status_ = (call);                                                              \
        if (status_ != cudaSuccess)                                                                \
            return hrf_cuda_error(err, status_, what);                                             \
    } while (0)

struct hrf_cuda_device {
    int index;
    struct hrf_binding binding; /* as its starter has placed this rank */
    char name[256];
    char address[32];     /* on the PCI bus */
    int major, minor;     /* compute capability */
    int driver, runtime;  /* CUDA versions, 1000 * major + 10 * minor */
    int64_t memory_bytes; /* in all */
    cudaStream_t stream;  /* of kernels */
    cudaStream_t copies;  /* of transfers */
    cudaStream_t peers;   /* of what ranks exchange beside kernels */
    cudaStream_t queue;   /* `stream` or `peers`: the queue that the rank has selected */
    /* Events in `stream` and in `peers` that the other stream waits for. */
    cudaEvent_t reached, reached_peers;
    void *staging; /* pinned: what uploads go through */
    /* Flags between ranks: the driver's function, and the stream that writes them past all others;
     * both NULL until they are tried out. */
    void *memory_operations;
    cudaStream_t aside;
};

/* `index`: that one of the visible devices, modulo their number; -1: by this rank's number on its
 * node, the first when it has none.
 * HRF_E_UNSUPPORTED, with the reason and the way out: no driver, a driver that is too old, no
 * device, a device that is too old. */
HRF_CHECKED enum hrf_status hrf_cuda_device_open(int index, struct hrf_cuda_device **out,
                                                 struct hrf_error *err);
void hrf_cuda_device_destroy(struct hrf_cuda_device *device);
HRF_DEFINE_AUTO(hrf_cuda_device)
HRF_CHECKED enum hrf_status hrf_cuda_device_enter(const struct hrf_cuda_device *device,
                                                  struct hrf_error *err);
/* The size of a part of allocated memory behind which another may begin. */
static inline size_t hrf_cuda_aligned(size_t n_bytes)
{
    return hrf_round_up(n_bytes, 256);
}
/* Aligned to 256 bytes. HRF_E_NOMEM names what was asked for and what is free. n_bytes may be 0. */
HRF_CHECKED enum hrf_status hrf_cuda_allocate(const struct hrf_cuda_device *device, size_t n_bytes,
                                              void **out, struct hrf_error *err);
void hrf_cuda_release(void *memory);
/* Copies to the device and back, through pinned memory and `stream`; done when they return. A plain
 * copy from pageable memory may return before it has arrived, and no other stream waits for it. One
 * thread at a time. */
HRF_CHECKED enum hrf_status hrf_cuda_write(const struct hrf_cuda_device *device, const void *from,
                                           size_t n_bytes, void *to, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_cuda_read(const struct hrf_cuda_device *device, const void *from,
                                          size_t n_bytes, void *to, struct hrf_error *err);
/* Allocates, unless *out is memory that took as much before, and writes. */
HRF_CHECKED enum hrf_status hrf_cuda_upload(const struct hrf_cuda_device *device, const void *from,
                                            size_t n_bytes, void **out, struct hrf_error *err);

#endif
