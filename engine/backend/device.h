/* device.h - devices that work asynchronously, in memory of their own.
 *
 * hrf_device_ops has what a session needs: memory, and batches in a queue. Two further tables have
 * what recorded batches and messages between devices need. A back end whose kernels work in host
 * memory has none of them (hrf_backend_ops.device is NULL).
 */
#ifndef HRF_ENGINE_BACKEND_DEVICE_H
#define HRF_ENGINE_BACKEND_DEVICE_H

#include "base/error.h"
#include "engine/ir/graph.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_backend; /* each back end's own */
struct hrf_tile_batch;

/* How pixels become the input of a network: y = x * scale[c] + shift[c] for channel c of RGB. */
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

/* The sum or the maximum of n_parts arrays of `count` numbers each, which lie one after the other;
 * they are combined in that order. Sums: F64, S32; maxima: any type. */
struct hrf_device_join {
    enum hrf_dtype dtype;
    bool is_max;
    int32_t n_parts;
    int64_t count;
};

/* Lets another back end on this node use memory or a signal of this one: a pointer within a
 * process, a handle of CUDA IPC between processes. */
struct hrf_device_handle {
    unsigned char bytes[64];
};

/* The queue of the kernels, and one for messages between ranks that run at the same time. */
enum hrf_device_queue { HRF_QUEUE_KERNELS, HRF_QUEUE_PEERS };

/* Seconds of a batch: to copy pixels to the device (0: there were none); for all kernels and the
 * copy of the outputs. */
struct hrf_device_times {
    double copy, kernels;
};

/* ---- a recorded batch: what is queued between begin() and end() is stored, not executed ---- */

struct hrf_device_recording_ops {
    enum hrf_status (*begin)(struct hrf_backend *backend, struct hrf_error *err);
    enum hrf_status (*end)(struct hrf_backend *backend, void **recording, struct hrf_error *err);
    /* Queues the recorded work with the same buffers. May be called any number of times. */
    enum hrf_status (*replay)(struct hrf_backend *backend, void *recording, struct hrf_error *err);
    void (*destroy)(struct hrf_backend *backend, void *recording);
};

/* ---- messages between devices: a second queue, memory and signals of other ranks ---- */

struct hrf_device_peer_ops {
    /* The selected queue, for a library that adds work to it (cudaStream_t). */
    void *(*queue)(struct hrf_backend *backend);
    /* Copies, joins, marks and signals go to that queue from now on (at first: that of the
     * kernels). Work in two queues is only ordered by follow(). */
    void (*select_queue)(struct hrf_backend *backend, enum hrf_device_queue queue);
    /* Work that is queued in the selected queue from now on starts after all that the other queue
     * has so far. May be recorded. */
    enum hrf_status (*follow)(struct hrf_backend *backend, struct hrf_error *err);
    enum hrf_status (*join)(struct hrf_backend *backend, const struct hrf_device_join *join,
                            void *out, const void *parts, struct hrf_error *err);
    /* Makes memory of allocate() available to others, as a whole. `is_interprocess`:
     * to other processes. */
    enum hrf_status (*share)(struct hrf_backend *backend, void *memory, bool is_interprocess,
                             struct hrf_device_handle *out, struct hrf_error *err);
    /* Maps memory that the device at `address` shares. HRF_E_UNSUPPORTED: this device cannot reach
     * it; the text says why. It must be closed before its owner releases it. */
    enum hrf_status (*open)(struct hrf_backend *backend, const struct hrf_device_handle *handle,
                            const char *address, bool is_interprocess, void **out,
                            struct hrf_error *err);
    void (*close)(struct hrf_backend *backend, void *memory, bool is_interprocess);
    /* signal_set() sets a signal when its owner's queue gets there. signal_wait() makes this queue
     * wait for the last signal_set() that was called before it. */
    enum hrf_status (*signal_create)(struct hrf_backend *backend, bool is_interprocess, void **out,
                                     struct hrf_device_handle *handle, struct hrf_error *err);
    enum hrf_status (*signal_open)(struct hrf_backend *backend,
                                   const struct hrf_device_handle *handle, bool is_interprocess,
                                   void **out, struct hrf_error *err);
    /* For signals of signal_create(), and of signal_open() between processes. */
    void (*signal_destroy)(struct hrf_backend *backend, void *signal);
    enum hrf_status (*signal_set)(struct hrf_backend *backend, void *signal, struct hrf_error *err);
    enum hrf_status (*signal_wait)(struct hrf_backend *backend, void *signal,
                                   struct hrf_error *err);
    /* Flags are 32-bit words, 0 or 1, in memory of allocate(), of this rank or of one that shares
     * it. try_flags() tries them out in 4 bytes at `memory`, recorded and replayed.
     * HRF_E_UNSUPPORTED: this device has none; the text says why. Call it before the others. */
    enum hrf_status (*try_flags)(struct hrf_backend *backend, void *memory, struct hrf_error *err);
    /* Sets the flag when the selected queue gets there. Whoever then takes the flag sees all that
     * was queued before. May be recorded. */
    enum hrf_status (*flag_set)(struct hrf_backend *backend, void *flag, struct hrf_error *err);
    /* The selected queue waits until the flag is 1 and sets it to 0. May be recorded. */
    enum hrf_status (*flag_take)(struct hrf_backend *backend, void *flag, struct hrf_error *err);
    /* Writes n flags at once, past everything that is queued; done when it returns. */
    enum hrf_status (*flags_write)(struct hrf_backend *backend, void *flags, int32_t n,
                                   uint32_t value, struct hrf_error *err);
};

/* ---- pixels that arrive as compressed tiles ---- */

struct hrf_device_decoding_ops {
    /* The library, without a device: "nvJPEG 13.3.2". HRF_E_UNSUPPORTED: it cannot be loaded. */
    enum hrf_status (*library)(char out[64], struct hrf_error *err);
    /* Before the others; may be called again. *name: "nvJPEG 13.3.2 (JPEG engines)", lives as the
     * back end. HRF_E_UNSUPPORTED: this device cannot decode; the text says why. */
    enum hrf_status (*open)(struct hrf_backend *backend, const char **name, struct hrf_error *err);
    /* As upload_pixels() of the images of the batch, and zeros behind them. The batch lies in
     * memory of allocate_host(), and must not change before wait(). HRF_E_UNSUPPORTED: tiles
     * cannot be decoded, which may also be told by check(). */
    enum hrf_status (*decode)(struct hrf_backend *backend, int32_t slot, void *to,
                              const struct hrf_value *input, const struct hrf_tile_batch *batch,
                              int64_t n_pixels, const struct hrf_pixel_form *form,
                              struct hrf_error *err);
    /* After wait(): whether every tile was written, and the first image is the batch's witness but
     * for rounding. HRF_E_UNSUPPORTED: not so; the text says what. */
    enum hrf_status (*check)(struct hrf_backend *backend, int32_t slot,
                             const struct hrf_tile_batch *batch, struct hrf_error *err);
};

/* A device that works asynchronously: its memory, and batches in its queue. All calls except wait()
 * and the allocations return as soon as the work is queued. Work is done in the order in which it
 * was queued, kernels included; wait() reports its errors. */
struct hrf_device_ops {
    const struct hrf_device_recording_ops *recording;
    const struct hrf_device_peer_ops *peers;
    const struct hrf_device_decoding_ops *decoding;

    /* "NVIDIA H200, compute capability 9.0, driver 13.0, cuDNN 9.19"; lives as the back end. */
    const char *(*describe)(const struct hrf_backend *backend);
    /* The address of the device on its node ("0000:3b:00.0"); lives as the back end. */
    const char *(*address)(const struct hrf_backend *backend);
    /* True if no process with a lower number on this node uses the same device. */
    bool (*is_first)(const struct hrf_backend *backend);
    /* Lines for the log about what compile() did since the last call ("12 convolutions tuned in 8 s
     * ..."); "": nothing. Valid until the next call. */
    const char *(*notes)(struct hrf_backend *backend);
    /* How many kernels of the device's library compile() passed over because their results were
     * wrong. */
    int32_t (*n_wrong_engines)(const struct hrf_backend *backend);

    enum hrf_status (*allocate)(struct hrf_backend *backend, size_t n_bytes, void **out,
                                struct hrf_error *err);
    void (*release)(struct hrf_backend *backend, void *memory);
    /* Host memory that the device can access directly, for upload() and download(). */
    enum hrf_status (*allocate_host)(struct hrf_backend *backend, size_t n_bytes, void **out,
                                     struct hrf_error *err);
    void (*release_host)(struct hrf_backend *backend, void *memory);
    /* Until wait() the caller must not change what is uploaded, nor read what is downloaded. */
    enum hrf_status (*upload)(struct hrf_backend *backend, void *to, const void *from,
                              size_t n_bytes, struct hrf_error *err);
    enum hrf_status (*download)(struct hrf_backend *backend, void *to, const void *from,
                                size_t n_bytes, struct hrf_error *err);
    /* Copies rows, and may be recorded. `from` may be memory of another device (peers->open). */
    enum hrf_status (*copy_box)(struct hrf_backend *backend, const struct hrf_device_box *box,
                                struct hrf_error *err);
    /* Allocates the buffers of both slots of upload_pixels(), so that no batch has to. */
    enum hrf_status (*reserve_pixels)(struct hrf_backend *backend, int64_t n_pixels,
                                      struct hrf_error *err);
    /* Uploads n_pixels RGB pixels, no more than were reserved, as bytes and converts them to the
     * type and scale of `input`, which lies at `to`. The copy runs in a queue of its own, next to
     * kernels that were queued before. `slot` (0 or 1) selects the buffer; it is used again once
     * the pixels of its last call are converted. */
    enum hrf_status (*upload_pixels)(struct hrf_backend *backend, int32_t slot, void *to,
                                     const struct hrf_value *input, const uint8_t *from,
                                     int64_t n_pixels, const struct hrf_pixel_form *form,
                                     struct hrf_error *err);

    /* Marks where the kernels of a batch begin in the queue; mark() of the same slot marks their
     * end. */
    enum hrf_status (*begin)(struct hrf_backend *backend, int32_t slot, struct hrf_error *err);
    /* mark() marks a place in the queue, wait() waits until it is reached. `slot`: 0 or 1. */
    enum hrf_status (*mark)(struct hrf_backend *backend, int32_t slot, struct hrf_error *err);
    enum hrf_status (*wait)(struct hrf_backend *backend, int32_t slot, struct hrf_error *err);
    /* True if wait() would return at once. */
    enum hrf_status (*is_done)(struct hrf_backend *backend, int32_t slot, bool *out,
                               struct hrf_error *err);
    /* Times of the batch that was last waited for in that slot, by the device's clock. */
    enum hrf_status (*times)(struct hrf_backend *backend, int32_t slot,
                             struct hrf_device_times *out, struct hrf_error *err);
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
void hrf_device_identity_text(const struct hrf_device_identity *identity, char *out, size_t size);
/* This machine's processor, for the back ends that run on it. */
void hrf_device_identity_host(struct hrf_device_identity *out);

#endif
