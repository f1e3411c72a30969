/* session_private.h - the struct behind a session, for the session's own files and for bench and
 * profile, which time single steps. */
#ifndef HRF_ENGINE_RUN_SESSION_PRIVATE_H
#define HRF_ENGINE_RUN_SESSION_PRIVATE_H

#include "engine/backend/backend.h"
#include "engine/plan/plan.h"
#include "engine/run/device_peers.h"
#include "engine/run/session.h"

enum {
    HRF_SESSION_SLOTS = 2
}; /* batches in flight on a device: one is copied while one is computed */

/* Host memory that was handed out, or will be again. */
struct hrf_host_block {
    void *memory;
    size_t n_bytes;
    bool is_taken;
};

/* Additional state of a session on a device (hrf_device_ops). Host memory here is accessible to the
 * device. */
struct hrf_session_device {
    const struct hrf_device_ops *ops;      /* NULL: kernels work in host memory */
    float **inputs;                        /* [n_inputs]; those fed as pixels: NULL */
    float **outputs[HRF_SESSION_SLOTS];    /* [n_outputs] */
    uint8_t *pixels[HRF_SESSION_SLOTS];    /* copies of what is fed; NULL: it is borrowed */
    const uint8_t *fed[HRF_SESSION_SLOTS]; /* what is uploaded: a copy, or borrowed */
    const struct hrf_tile_batch *tiles[HRF_SESSION_SLOTS]; /* in its place; NULL: pixels are fed */
    struct hrf_host_block *blocks; /* [n_blocks] of hrf_session_take_host() */
    int32_t n_blocks;
    void *recording; /* of all kernels; NULL until the second run */
    int64_t n_runs;
    struct hrf_device_times times; /* of all batches so far */
    float *shown;                  /* host copy of a value for the observer */
    size_t shown_bytes;
    struct hrf_device_peers *peers; /* NULL: no communication */
};
struct hrf_session {
    struct hrf_graph *graph; /* after the passes */
    const struct hrf_backend_ops *ops;
    struct hrf_backend *backend;
    struct hrf_peers *peers; /* borrowed; NULL: no communication */
    struct hrf_plan *plan;
    struct hrf_kernel *
        *kernels; /* [steps] NULL where ranks communicate; neighbours may share one */
    int32_t n_kernels;
    struct hrf_kernel_call *calls; /* [steps], with every pointer in place */
    const void **inputs;           /* of all calls */
    const void **part_inputs;      /* inputs of the call of a part, for one image */
    char *copies;                  /* plan->copy_bytes, on the device where there is one */
    unsigned char *arena;          /* in use, of `arenas` */
    unsigned char *arenas; /* [n_arenas], each of the plan's bytes; NULL: lent, or on a device */
    int32_t n_arenas;
    bool is_lent; /* the caller owns arena and workspace */
    void *workspace;
    struct hrf_session_memory memory;
    double operations;
    struct hrf_strbuf notes;
    hrf_session_observer *observe; /* NULL: nobody */
    void *observer;
    struct hrf_session_device device;
    bool has_pixels, borrows_pixels;
    struct hrf_pixel_form pixel_form;
    bool may_borrow;               /* input 0 may be read where the caller has it */
    const void *fed;               /* borrowed as input 0 until the run is finished; NULL: none */
    int64_t n_started, n_finished; /* batches so far */
};

/* The address of a value, on the device if there is one; NULL for constants of a device. Kernels
 * only read what was borrowed. */
void *hrf_session_buffer(const struct hrf_session *session, int32_t value);
/* Runs, or queues, every step once. */
HRF_CHECKED enum hrf_status hrf_session_run_steps(struct hrf_session *session,
                                                  struct hrf_error *err);
/* Runs one step with its buffers and waits for its end, for timing. */
HRF_CHECKED enum hrf_status hrf_session_time_step(struct hrf_session *session, int32_t step,
                                                  struct hrf_error *err);

/* session_device.c */
HRF_CHECKED enum hrf_status hrf_session_device_allocate(struct hrf_session *session,
                                                        struct hrf_error *err);
/* Stops all work on the device, even work that waits for other ranks; after it, the device may be
 * released. */
void hrf_session_device_stop(struct hrf_session *session);
/* Kernels were made anew: the next run is recorded again. Nothing is in flight. */
void hrf_session_device_forget(struct hrf_session *session);
void hrf_session_device_release(struct hrf_session *session);
HRF_CHECKED enum hrf_status hrf_session_device_start(struct hrf_session *session,
                                                     struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_session_device_finish(struct hrf_session *session,
                                                      struct hrf_error *err);
/* Checks that the device decoded the tiles of the batch that was finished last. */
HRF_CHECKED enum hrf_status hrf_session_device_check(struct hrf_session *session,
                                                     struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_session_device_wait(struct hrf_session *session,
                                                    struct hrf_error *err);
/* Copies a float32 value to the host. */
HRF_CHECKED enum hrf_status hrf_session_device_show(struct hrf_session *session, int32_t value,
                                                    const float **out, struct hrf_error *err);

#endif
