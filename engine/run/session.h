/* session.h - a network on one device: passes, plan, kernels and buffers are made once, then it
 * runs many times.
 *
 * A session is used by one thread at a time; its kernels use `n_threads` threads. Shapes are fixed
 * at creation: a smaller last batch is padded and its extra outputs are dropped. Example:
 *   HRF_TRY(hrf_session_create(graph, &config, &session, err));
 *   hrf_session_feed(session, pixels);
 *   HRF_TRY(hrf_session_run(session, err));
 *   const float *scores = hrf_session_output(session, 0);
 */
#ifndef HRF_ENGINE_RUN_SESSION_H
#define HRF_ENGINE_RUN_SESSION_H

#include "base/alloc.h"
#include "base/error.h"
#include "engine/backend/device.h"
#include "engine/ir/feed_form.h"
#include "engine/ir/graph.h"
#include "engine/passes/lower.h"
#include "engine/run/device_peers.h"
#include "schema/settings/precision.h"

#include <stdint.h>

struct hrf_session; /* opaque */
struct hrf_tile_batch;
struct hrf_cutting;

struct hrf_session_config {
    const char *device; /* "auto", "cpu", "ref" or "cuda" */
    enum hrf_precision precision;
    const struct hrf_range *ranges; /* int8: the ranges of values; borrowed during creation */
    int32_t n_ranges;
    const char *const *keep; /* nodes and values that stay in float32 (lower.h); may be NULL */
    const char *const *keep_reasons;
    const enum hrf_precision
        *keep_precisions; /* int8: HRF_BF16 for what computes in it instead (lower.h) */
    int32_t n_keep;
    const struct hrf_cutting
        *cutting; /* costs for stages (rank.h); borrowed during creation; NULL: rough estimates */
    int32_t n_threads;          /* 0: all that the process may use */
    int64_t memory_limit_bytes; /* 0: none; HRF_E_NOMEM with both numbers if it is exceeded */
    int64_t memory_kept_bytes;  /* what is in use beside the session and counts, too */
    /* Every value that can be lowered is stored as a dense tensor, for observers
     * (hrf_session_observe): no prologues are fused. */
    bool every_tensor;
    /* int8: every tensor has the one scale of its range, products of tokens included, as in the
     * plainest form of static quantisation; false: products round each token by a scale of its
     * own, after smoothing (lower.h). */
    bool fixed_scales;
    bool is_lent; /* the caller provides arena and workspace (hrf_session_lend()) */
    /* Input 0 is fed as RGB bytes (hrf_session_feed()), which the device converts by this form to
     * the type that the network computes in (a back end without a device refuses it:
     * HRF_E_UNSUPPORTED); NULL: as floats. Borrowed during creation. */
    const struct hrf_pixel_form *pixels;
    /* With `pixels`: the device reads them directly from the memory in which they are fed, which is
     * memory of hrf_session_take_host() of this session or another one. False: they are copied
     * first. */
    bool borrows_pixels;
    /* Input 0 may be fed in the type that the network computes in (hrf_session_feed_form()), if
     * kernels work in host memory. Only for hrf_session_create(). */
    bool narrow_input;
    /* Only for hrf_session_create(): a graph whose constants are dropped as soon as the session has
     * them, because nothing else is made of it; NULL: none. */
    struct hrf_graph *spent;
    /* The graph's last inputs are weights that are trained: variable constants of these numbers
     * (hrf_session_close_variables()), which outlive it; hrf_session_refresh(). */
    float *const *variables;
    float *const *rounded; /* in 16 bits: the same, rounded to the precision's type */
    int32_t n_variables;
    /* Of a rank's share of a training step, in host memory: how many micro-batches have activations
     * at the same time (hrf_session_use_arena()); 0: one. */
    int32_t n_arenas;
    enum hrf_transport transport; /* of messages between devices */
    /* For HRF_TRANSPORT_AUTO: measured links between GPUs, borrowed during creation; those of rank
     * 0 count. NULL: not known. */
    const struct hrf_machine *gpu_links;
};

struct hrf_session_memory {
    int64_t activation_bytes; /* peak of the plan's arena */
    int64_t weight_bytes;     /* as the kernels pack them */
    int64_t workspace_bytes;  /* scratch shared by all kernels */
};
static inline int64_t hrf_session_memory_total(const struct hrf_session_memory *m)
{
    return m->activation_bytes + m->weight_bytes + m->workspace_bytes;
}

/* The input shapes of `graph` must be set (hrf_graph_set_input_shape()). The graph is copied. */
HRF_CHECKED enum hrf_status hrf_session_create(const struct hrf_graph *graph,
                                               const struct hrf_session_config *config,
                                               struct hrf_session **out, struct hrf_error *err);
void hrf_session_destroy(struct hrf_session *session);
HRF_DEFINE_AUTO(hrf_session)

/* hrf_session_create() in two halves, so that the network can be partitioned between them. *out is
 * the graph as it will be computed: fused and in the precision of the configuration. Appends to
 * `notes` and sets `operations` (2 * multiply-adds). */
HRF_CHECKED enum hrf_status hrf_session_prepare(const struct hrf_graph *graph,
                                                const struct hrf_session_config *config,
                                                struct hrf_graph **out, double *operations,
                                                struct hrf_strbuf *notes, struct hrf_error *err);
/* Of the prepared graph, before it is divided or becomes a session. */
void hrf_session_close_variables(const struct hrf_session_config *config,
                                 struct hrf_graph *prepared);
/* Takes ownership of *prepared, on success only: a graph of hrf_session_prepare(), or a rank's part
 * of one. `peers` (borrowed for life; NULL: none) runs the EXCHANGE and ALL_REDUCE nodes. */
HRF_CHECKED enum hrf_status hrf_session_create_prepared(struct hrf_graph **prepared,
                                                        const struct hrf_session_config *config,
                                                        struct hrf_peers *peers,
                                                        struct hrf_session **out,
                                                        struct hrf_error *err);

/* Gives kernels that were made with variable constants (hrf_graph_close_inputs()) their present
 * numbers, or makes them again, after the data have changed; between two runs. */
HRF_CHECKED enum hrf_status hrf_session_refresh(struct hrf_session *session, struct hrf_error *err);

/* Allocates memory on the session's device (or on the host, if it has none), aligned to
 * HRF_BUFFER_ALIGNMENT. Free it with hrf_session_free() before the session is destroyed. */
HRF_CHECKED enum hrf_status hrf_session_allocate(struct hrf_session *session, int64_t n_bytes,
                                                 void **out, struct hrf_error *err);
void hrf_session_free(struct hrf_session *session, void *memory);
/* Provides the memory of a session with config.is_lent: activation_bytes and workspace_bytes of
 * hrf_session_memory(), aligned to HRF_BUFFER_ALIGNMENT. Other sessions may use the same memory
 * between runs, so fill the inputs and read the outputs while no other session does. */
void hrf_session_lend(struct hrf_session *session, void *arena, void *workspace);
/* Memory that one session after the other computes in, so that not each touches new memory. */
struct hrf_kept_memory {
    void *arena, *workspace;
    int64_t arena_bytes, workspace_bytes;
};
void hrf_kept_memory_release(struct hrf_kept_memory *kept);
/* Lends it to a session on the host, larger if that is needed; the session before is not used any
 * more. HRF_E_NOMEM. */
HRF_CHECKED enum hrf_status hrf_session_lend_kept(struct hrf_session *session,
                                                  struct hrf_kept_memory *kept,
                                                  struct hrf_error *err);

/* Graph input i's buffer, dense float32 in N, H, W, C order for rank 4 (ONNX order otherwise).
 * Fill it before every run, because a run overwrites it. It belongs to the session and keeps its
 * address. Not for input 0 if its form is another than float32. */
float *hrf_session_input(struct hrf_session *session, int32_t i);
/* The form of input 0: bytes with config.pixels, F32, or with config.narrow_input perhaps F16, B16,
 * S8 or U8. */
struct hrf_feed_form hrf_session_feed_form(const struct hrf_session *session);
/* `batch` is input 0 of the next start or run, in its form and whole, also what a short batch does
 * not use; aligned to HRF_BUFFER_ALIGNMENT. Kernels of host memory read it where it is if they can,
 * and so does a device with config.borrows_pixels: it must not change before that run is finished.
 * Else a device has copied it when this returns. */
void hrf_session_feed(struct hrf_session *session, const void *batch);
/* The same for a batch of compressed tiles (engine/ir/tile_batch.h), which the device decodes: with
 * config.borrows_pixels, after hrf_session_open_decoder(), in memory of hrf_session_take_host(). It
 * must not change before that run is finished, whose status is HRF_E_UNSUPPORTED if tiles cannot be
 * decoded. */
void hrf_session_feed_tiles(struct hrf_session *session, const struct hrf_tile_batch *batch);
/* *name: "nvJPEG 13.3.2 (JPEG engines)", lives as the session. HRF_E_UNSUPPORTED: its device does
 * not decode; the text says why. */
HRF_CHECKED enum hrf_status hrf_session_open_decoder(struct hrf_session *session, const char **name,
                                                     struct hrf_error *err);
/* Host memory that the session's device reads and writes directly. What is given back is kept for
 * the next that takes as much, until the session is destroyed, which then has all of it. */
HRF_CHECKED enum hrf_status hrf_session_take_host(struct hrf_session *session, size_t n_bytes,
                                                  void **out, struct hrf_error *err);
void hrf_session_give_host(struct hrf_session *session, void *memory);
/* Runs the plan once, synchronously. */
HRF_CHECKED enum hrf_status hrf_session_run(struct hrf_session *session, struct hrf_error *err);
/* With config.n_arenas: what is filled in, run and read from now on lies in that one. */
void hrf_session_use_arena(struct hrf_session *session, int32_t arena);
/* Runs one pass of the plan, in host memory: a backward pass follows the forward pass that has run
 * in the same arena. */
HRF_CHECKED enum hrf_status hrf_session_run_pass(struct hrf_session *session, bool is_backward,
                                                 struct hrf_error *err);
/* A run in two halves, so that a device can be fed while it computes. start() queues one batch;
 * finish() waits for the oldest batch in flight and makes its outputs available. At most
 * hrf_session_depth() batches may be in flight; if that is 1, start() does the whole run. */
HRF_CHECKED enum hrf_status hrf_session_start(struct hrf_session *session, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_session_finish(struct hrf_session *session, struct hrf_error *err);
int32_t hrf_session_depth(const struct hrf_session *session);
/* Finishes what is in flight; nobody wants the outputs. */
void hrf_session_drop(struct hrf_session *session);
/* Graph output i, dense float32; N, H, W, C order for rank 4. Valid until the next run or
 * finish. */
const float *hrf_session_output(const struct hrf_session *session, int32_t i);
const struct hrf_shape *hrf_session_input_shape(const struct hrf_session *session, int32_t i);
const struct hrf_shape *hrf_session_output_shape(const struct hrf_session *session, int32_t i);
struct hrf_session_memory hrf_session_memory(const struct hrf_session *session);
/* One line, with the reason, for each node that stays in float32 in a lower precision; "" if none
 * does. */
const char *hrf_session_notes(const struct hrf_session *session);
/* How many kernels of the device's library were passed over because their results were wrong. */
int32_t hrf_session_wrong_engines(const struct hrf_session *session);
/* How many of its kernels have an implementation whose name begins so. */
int32_t hrf_session_count_kernels(const struct hrf_session *session, const char *implementation);
/* In every later run, calls `observe` for each graph input and for each value when it is computed,
 * as floats in memory order. Values of 8 and 16 bits are shown only if they are in host memory.
 * NULL ends it. */
typedef enum hrf_status hrf_session_observer(void *context, const char *value,
                                             const struct hrf_shape *shape, const float *data,
                                             struct hrf_error *err);
void hrf_session_observe(struct hrf_session *session, hrf_session_observer *observe, void *context);
/* A description of the device ("NVIDIA H200, compute capability 9.0 ..."), or "cpu" or "ref". */
const char *hrf_session_device(const struct hrf_session *session);
/* The device of a session, and times by the device's clock over all finished batches. */
struct hrf_device_use {
    const char *address; /* on its node; valid as long as the session; NULL: the host */
    bool is_first;       /* this is the first process of the node on that device */
    struct hrf_device_times times;
};
struct hrf_device_use hrf_session_device_use(const struct hrf_session *session);
/* Adds the use by another session of the same rank. */
void hrf_device_use_add(struct hrf_device_use *sum, const struct hrf_session *session);
/* The transports of messages between devices ("ipc", "nccl+mpi"); static. NULL: no such messages.
 */
const char *hrf_session_transports(const struct hrf_session *session);
/* Operations (2 x multiply-adds) of one run. */
double hrf_session_operations(const struct hrf_session *session);

#endif
