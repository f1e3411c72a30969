/* session.h - a network made ready on one device: passes, plan, kernels, buffers; then run.
 *
 * A session is used by one thread at a time; kernels use `n_threads` threads inside. Shapes are
 * fixed at creation; a smaller last batch is run by padding (its extra outputs are dropped).
 */
#ifndef HRF_ENGINE_RUN_SESSION_H
#define HRF_ENGINE_RUN_SESSION_H

#include "base/alloc.h"
#include "base/error.h"
#include "engine/backend/device.h"
#include "engine/ir/graph.h"
#include "engine/passes/lower.h"
#include "engine/run/device_peers.h"

#include <stdint.h>

struct hrf_session; /* opaque */
struct hrf_cutting;

struct hrf_session_config {
    const char *device;             /* "auto", "cpu", "ref" or "cuda" */
    const char *precision;          /* "fp32", "tf32", "fp16", "bf16" or "int8" */
    const struct hrf_range *ranges; /* int8: what each value holds; borrowed during creation */
    int32_t n_ranges;
    const char *const *keep; /* what stays in float32, see lower.h; may be NULL */
    const char *const *keep_reasons;
    int32_t n_keep;
    const struct hrf_cutting
        *cutting;               /* stages' (rank.h), lent during creation; NULL: rough costs */
    int32_t n_threads;          /* 0 = all that the process may use */
    int64_t memory_limit_bytes; /* 0 = none; over it: HRF_E_NOMEM naming both numbers */
    /* Every place where a value can go low is a tensor, for those who look at them
     * (hrf_session_observe), and dense: convolutions take in nothing that stands before them. */
    bool every_tensor;
    bool is_lent; /* it has no arena and workspace of its own: hrf_session_lend() */
    /* Input 0 is fed as RGB bytes (hrf_session_pixels), which become floats by this form on the
     * device; NULL: as floats. Borrowed during creation. */
    const struct hrf_pixel_form *pixels;
    /* Input 0 may be fed in the type that the network computes in (hrf_session_input_type), where
     * kernels work in host memory. Of hrf_session_create() alone. */
    bool narrow_input;
    enum hrf_carrier carrier; /* of messages between devices */
    /* With HRF_CARRIER_AUTO: what carriers take between GPUs, lent during creation; rank 0's
     * counts. NULL: not known. */
    const struct hrf_machine *gpu_links;
};

struct hrf_session_memory {
    int64_t activation_bytes; /* peak of the plan's arena */
    int64_t weight_bytes;     /* as the kernels hold them */
    int64_t workspace_bytes;  /* scratch shared by all kernels */
};
static inline int64_t hrf_session_memory_total(const struct hrf_session_memory *m)
{
    return m->activation_bytes + m->weight_bytes + m->workspace_bytes;
}

/* `graph` with its input shapes set (hrf_graph_set_input_shape); it is copied. */
HRF_CHECKED enum hrf_status hrf_session_create(const struct hrf_graph *graph,
                                               const struct hrf_session_config *config,
                                               struct hrf_session **out, struct hrf_error *err);
void hrf_session_destroy(struct hrf_session *session);
HRF_DEFINE_AUTO(hrf_session)

/* The two halves of hrf_session_create(), for what stands between them: cutting the network.
 * *out: the graph as it will be computed, fused and in the precision asked for. `notes` is added
 * to; `operations` (2 x multiply-adds) is set. */
HRF_CHECKED enum hrf_status hrf_session_prepare(const struct hrf_graph *graph,
                                                const struct hrf_session_config *config,
                                                struct hrf_graph **out, double *operations,
                                                struct hrf_strbuf *notes, struct hrf_error *err);
/* Takes over *prepared, on success only: such a graph, or a rank's part of one. `peers` (borrowed
 * for life; NULL: none) runs its EXCHANGE and ALL_REDUCE nodes. */
HRF_CHECKED enum hrf_status hrf_session_create_prepared(struct hrf_graph **prepared,
                                                        const struct hrf_session_config *config,
                                                        struct hrf_peers *peers,
                                                        struct hrf_session **out,
                                                        struct hrf_error *err);

/* Memory of the session's device (the host's, where it has none), aligned to HRF_BUFFER_ALIGNMENT.
 * hrf_session_free() it before that session goes. */
HRF_CHECKED enum hrf_status hrf_session_allocate(struct hrf_session *session, int64_t n_bytes,
                                                 void **out, struct hrf_error *err);
void hrf_session_free(struct hrf_session *session, void *memory);
/* Memory for a session that was created to be lent it: activation_bytes and workspace_bytes of
 * hrf_session_memory(), aligned to HRF_BUFFER_ALIGNMENT. Other sessions may use it between runs;
 * inputs are filled after, and outputs read before. */
void hrf_session_lend(struct hrf_session *session, void *arena, void *workspace);

/* Graph input i's buffer, dense float32 in N, H, W, C order for rank 4 (ONNX order otherwise).
 * Fill it before every run, which uses it up. It belongs to the session and keeps its address. */
float *hrf_session_input(struct hrf_session *session, int32_t i);
/* Input 0's type: F32, or with config.narrow_input F16, B16, S8 or U8 (by *quantization). Then
 * hrf_session_narrow_input() is its buffer, and hrf_session_input() is not for it. */
enum hrf_dtype hrf_session_input_type(const struct hrf_session *session,
                                      struct hrf_quantization *quantization);
void *hrf_session_narrow_input(struct hrf_session *session);
/* [N][rows][columns][3], for the next start or run; only with config.pixels. A place of its own for
 * each batch that may be under way. */
uint8_t *hrf_session_pixels(struct hrf_session *session);
bool hrf_session_takes_pixels(const struct hrf_session *session);
/* Runs the plan once, synchronously. */
HRF_CHECKED enum hrf_status hrf_session_run(struct hrf_session *session, struct hrf_error *err);
/* The same in two halves, so that a device is fed while it computes: start() queues one batch,
 * finish() waits for the oldest that was started and makes its outputs the session's. At most
 * hrf_session_depth() may be under way; with 1 start() is the run. */
HRF_CHECKED enum hrf_status hrf_session_start(struct hrf_session *session, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_session_finish(struct hrf_session *session, struct hrf_error *err);
int32_t hrf_session_depth(const struct hrf_session *session);
/* Graph output i, dense float32; N, H, W, C order for rank 4. Valid until the next run or finish.
 */
const float *hrf_session_output(const struct hrf_session *session, int32_t i);
int32_t hrf_session_n_outputs(const struct hrf_session *session);
const struct hrf_shape *hrf_session_input_shape(const struct hrf_session *session, int32_t i);
const struct hrf_shape *hrf_session_output_shape(const struct hrf_session *session, int32_t i);
struct hrf_session_memory hrf_session_memory(const struct hrf_session *session);
/* Lines on the nodes that stay in float32 in a lower precision, and why; "" when none does. */
const char *hrf_session_notes(const struct hrf_session *session);
/* Shown to `observe` in every run from now on: each graph input, and each value as it is made, in
 * memory order, as floats; values of 8 and 16 bits only where they lie in host memory. NULL ends
 * it. */
typedef enum hrf_status hrf_session_observer(void *context, const char *value,
                                             const struct hrf_shape *shape, const float *data,
                                             struct hrf_error *err);
void hrf_session_observe(struct hrf_session *session, hrf_session_observer *observe, void *context);
/* The device in words ("NVIDIA H200, compute capability 9.0 ..."); "cpu", "ref" for those. */
const char *hrf_session_device(const struct hrf_session *session);
/* Its name as in config.device: what "auto" came to. */
const char *hrf_session_device_name(const struct hrf_session *session);
/* The device that a session runs on, and its own clock over all batches that were finished. */
struct hrf_device_use {
    const char *address; /* on its node; lives as the session; NULL: it is the host */
    bool is_first;       /* of the node's processes on it */
    struct hrf_device_times times;
};
struct hrf_device_use hrf_session_device_use(const struct hrf_session *session);
/* Another session of the same rank. */
void hrf_device_use_add(struct hrf_device_use *sum, const struct hrf_session *session);
/* Of messages between devices ("ipc", "nccl+mpi"); static. NULL: there are none. */
const char *hrf_session_carriers(const struct hrf_session *session);
/* Operations (2 x multiply-adds) of one run. */
double hrf_session_operations(const struct hrf_session *session);

#endif
