/* device.h - a device that works behind its caller's back: its memory, its queues, and what several
 * back ends share of them.
 *
 * Optional: a back end whose kernels work in host memory has no such table
 * (hrf_backend_ops.device).
 */
#ifndef HRF_ENGINE_BACKEND_DEVICE_H
#define HRF_ENGINE_BACKEND_DEVICE_H

#include "base/error.h"
#include "engine/ir/graph.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_backend; /* each back end's own */

/* Pixels as they were read, made into the float32 input of a network: y = x * scale[c] + shift[c]
 * for channel c of RGB. */
struct hrf_pixel_form {
    float scale[3], shift[3];
};

/* n_images x n_rows runs of row_bytes each; distances in bytes. */
struct hrf_device_box {
    void *to;
    const void *from;
    int64_t n_images, n_rows, row_bytes;
    int64_t to_image, to_row, from_image, from_row;
};

/* Parts of `count` numbers each, one after the other, to be joined in this order. Sums: F64, S32;
 * maxima: any type. */
struct hrf_device_join {
    enum hrf_dtype dtype;
    bool is_max;
    int32_t n_parts;
    int64_t count;
};

/* Lets another back end of this node use memory or a signal of this one: a pointer within a
 * process, what CUDA IPC has between processes. */
struct hrf_device_handle {
    unsigned char bytes[64];
};

/* The queue of kernels, and one beside it for what ranks exchange meanwhile. */
enum hrf_device_queue { HRF_QUEUE_KERNELS, HRF_QUEUE_PEERS };

/* Seconds: pixels crossing over (0: there were none), and all kernels with the outputs' way back.
 */
struct hrf_device_times {
    double copy, kernels;
};

/* The memory and the queue of a device that works behind its caller's back. All calls but wait()
 * and the allocations return once the work is queued; it is done in the order in which it was
 * queued, kernels included, and what failed is told by wait(). */
struct hrf_device_ops {
    enum hrf_status (*allocate)(struct hrf_backend *backend, size_t n_bytes, void **out,
                                struct hrf_error *err);
    void (*release)(struct hrf_backend *backend, void *memory);
    /* Host memory that the device reaches by itself: what upload() and download() take. */
    enum hrf_status (*allocate_host)(struct hrf_backend *backend, size_t n_bytes, void **out,
                                     struct hrf_error *err);
    void (*release_host)(struct hrf_backend *backend, void *memory);
    /* The host side stays as it is, or is not read, until wait(). */
    enum hrf_status (*upload)(struct hrf_backend *backend, void *to, const void *from,
                              size_t n_bytes, struct hrf_error *err);
    enum hrf_status (*download)(struct hrf_backend *backend, void *to, const void *from,
                                size_t n_bytes, struct hrf_error *err);
    /* Room where n_pixels RGB pixels land, in both slots: nothing is allocated once batches run. */
    enum hrf_status (*reserve_pixels)(struct hrf_backend *backend, int64_t n_pixels,
                                      struct hrf_error *err);
    /* n_pixels RGB pixels, no more than were reserved, to floats at `to`; crosses over as bytes, on
     * a queue of its own beside the kernels that were queued before. `slot` (0 or 1) names the
     * device's landing place: that of an earlier call is taken again when that call's pixels are
     * done with. */
    enum hrf_status (*upload_pixels)(struct hrf_backend *backend, int32_t slot, float *to,
                                     const uint8_t *from, int64_t n_pixels,
                                     const struct hrf_pixel_form *form, struct hrf_error *err);
    /* Where a batch's kernels begin in the queue; mark() of the same slot is where it ends. */
    enum hrf_status (*begin)(struct hrf_backend *backend, int32_t slot, struct hrf_error *err);
    /* A place in the queue, and waiting until it is reached; 0 or 1. */
    enum hrf_status (*mark)(struct hrf_backend *backend, int32_t slot, struct hrf_error *err);
    enum hrf_status (*wait)(struct hrf_backend *backend, int32_t slot, struct hrf_error *err);
    /* Whether wait() would return at once. */
    enum hrf_status (*is_done)(struct hrf_backend *backend, int32_t slot, bool *out,
                               struct hrf_error *err);
    /* Of the batch that was waited for last in that slot, by the device's clock. */
    enum hrf_status (*times)(struct hrf_backend *backend, int32_t slot,
                             struct hrf_device_times *out, struct hrf_error *err);
    /* What is queued between the two (kernels alone) is not done but kept; replay() queues it, with
     * the same buffers, as often as one likes. */
    enum hrf_status (*record_begin)(struct hrf_backend *backend, struct hrf_error *err);
    enum hrf_status (*record_end)(struct hrf_backend *backend, void **recording,
                                  struct hrf_error *err);
    enum hrf_status (*replay)(struct hrf_backend *backend, void *recording, struct hrf_error *err);
    void (*record_destroy)(struct hrf_backend *backend, void *recording);
    /* Lines for the log on what compile() did since the last call ("12 convolutions tuned in 8 s
     * ...");
     * "" when nothing is worth a line. Lives until the next call. */
    const char *(*notes)(struct hrf_backend *backend);
    /* "NVIDIA H200, compute capability 9.0, driver 13.0, cuDNN 9.19"; lives as the back end. */
    const char *(*describe)(const struct hrf_backend *backend);
    /* Queued; may be recorded. `from` may be memory of another device that open() gave. */
    enum hrf_status (*copy_box)(struct hrf_backend *backend, const struct hrf_device_box *box,
                                struct hrf_error *err);
    enum hrf_status (*join)(struct hrf_backend *backend, const struct hrf_device_join *join,
                            void *out, const void *parts, struct hrf_error *err);
    /* What names the device on its node ("0000:3b:00.0"); lives as the back end. */
    const char *(*address)(const struct hrf_backend *backend);
    /* Whether no process with a lower number on this node takes the same device. */
    bool (*is_first)(const struct hrf_backend *backend);
    /* The queue that is turned to, for a library that puts work into it (cudaStream_t). */
    void *(*queue)(struct hrf_backend *backend);
    /* Copies, joins, marks and signals go to that queue from now on (at first: that of the
     * kernels). What is in two queues has no order but that of follow(). */
    void (*select_queue)(struct hrf_backend *backend, enum hrf_device_queue queue);
    /* What is queued from now on in the queue that is turned to comes after all that the other one
     * has so far. May be recorded. */
    enum hrf_status (*follow)(struct hrf_backend *backend, struct hrf_error *err);
    /* Memory of allocate(), whole, for others. `is_far`: for another process. */
    enum hrf_status (*share)(struct hrf_backend *backend, void *memory, bool is_far,
                             struct hrf_device_handle *out, struct hrf_error *err);
    /* Memory that the device at `address` shared. HRF_E_UNSUPPORTED with the reason when this one
     * cannot reach it. Ended by close() before its owner releases it. */
    enum hrf_status (*open)(struct hrf_backend *backend, const struct hrf_device_handle *handle,
                            const char *address, bool is_far, void **out, struct hrf_error *err);
    void (*close)(struct hrf_backend *backend, void *memory, bool is_far);
    /* A signal is set at its place in its owner's queue; wait_signal() lets this queue wait until
     * the last signal_set() that was called before it has come about. */
    enum hrf_status (*signal_create)(struct hrf_backend *backend, bool is_far, void **out,
                                     struct hrf_device_handle *handle, struct hrf_error *err);
    enum hrf_status (*signal_open)(struct hrf_backend *backend,
                                   const struct hrf_device_handle *handle, bool is_far, void **out,
                                   struct hrf_error *err);
    /* Of create(), or of open() between processes. */
    void (*signal_destroy)(struct hrf_backend *backend, void *signal);
    enum hrf_status (*signal_set)(struct hrf_backend *backend, void *signal, struct hrf_error *err);
    enum hrf_status (*signal_wait)(struct hrf_backend *backend, void *signal,
                                   struct hrf_error *err);
};

/* What a device is; "" what it has not or does not tell. */
struct hrf_device_identity {
    char model[128];      /* "NVIDIA H200", "AMD EPYC 9654 96-Core Processor" */
    char path[64];        /* what its kernels are made for: "compute capability 9.0", "AVX-512" */
    char driver[64];      /* what it serves: "CUDA 13.0" */
    char libraries[128];  /* "cuDNN 9.19.0, CUDA runtime 13.0", "oneDNN 2.6.3" */
    char address[32];     /* on the PCI bus: "0000:3b:00.0" */
    int64_t memory_bytes; /* of its own; 0: the host's */
};

/* "NVIDIA H200, compute capability 9.0, 139.8 GiB, driver for CUDA 13.0, cuDNN 9.19.0, ...". */
void hrf_device_identity_words(const struct hrf_device_identity *identity, char *words,
                               size_t size);
/* This machine's processor, for the back ends that run on it. */
void hrf_device_identity_host(struct hrf_device_identity *out);

#endif
