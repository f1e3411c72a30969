/* backend.h - the back ends: found by name, asked what they support, and made to compile nodes.
 *
 * A back end compiles a node once for its shapes into a kernel (kernel.h, with the memory layout).
 * One with a device of its own has a device.h table too. A row's compile() (kernel_rows.h) is the
 * only call that allocates; it and a kernel's run() block until done, but for a back end with a
 * device, whose run() only queues. A back end and its kernels are used by one thread at a time;
 * inside, they use `n_threads`.
 */
#ifndef HRF_ENGINE_BACKEND_BACKEND_H
#define HRF_ENGINE_BACKEND_BACKEND_H

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "engine/backend/device.h"
#include "engine/backend/kernel.h"
#include "engine/backend/kernel_rows.h"
#include "engine/ir/graph.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_backend_config {
    int32_t n_threads;    /* >= 1 */
    int32_t device_index; /* of several devices, modulo their number; -1: as the starter of the
                             ranks says */
    bool allow_tf32;      /* float32 products by tensor cores, with 10 bits of mantissa */
};

/* How the back ends of a network's ranks reach each other while they are made ready. Messages from
 * one rank arrive in order. */
struct hrf_backend_ranks {
    void *context;
    int32_t rank, n_ranks;
    enum hrf_status (*send)(void *context, int32_t to, const void *bytes, size_t n_bytes,
                            struct hrf_error *err);
    enum hrf_status (*receive)(void *context, int32_t from, void *bytes, size_t n_bytes,
                               struct hrf_error *err);
    /* For work that takes longer than ranks wait for one that shows none. Any thread. */
    void (*progress)(void *context);
};

struct hrf_backend_ops {
    const char *name; /* "ref", "cpu", "cuda" */
    /* NULL: kernels work in host memory and are done when run() returns. Otherwise the pointers of
     * a call are the device's and run() queues. */
    const struct hrf_device_ops *device;
    bool signed_only; /* 8-bit values are S8 */
    bool has_tf32;
    /* INT8: the type of what passes between products of rows, norms and attention: B16 saves half
     * of the memory's traffic. NONE: float32. */
    enum hrf_dtype token_type;
    /* Asked before planning, shapes known; passes ask it, too. */
    const struct hrf_kernel_table *kernels;
    /* Whether create() would find its device, and what that is. */
    enum hrf_status (*identify)(struct hrf_device_identity *out, struct hrf_error *err);
    enum hrf_status (*create)(const struct hrf_backend_config *config, struct hrf_backend **out,
                              struct hrf_error *err);
    void (*destroy)(struct hrf_backend *backend);
    /* Called once before a graph's nodes are compiled, for what is better done for all of them.
     * `ranks` NULL: alone; else all ranks call it at the same place, each with its own graph.
     * Optional: NULL = nothing to do. */
    enum hrf_status (*prepare)(struct hrf_backend *backend, const struct hrf_graph *graph,
                               const struct hrf_backend_ranks *ranks, struct hrf_error *err);
    /* Called by the thread that is about to compile or run. Optional: NULL = nothing to do. */
    void (*enter)(struct hrf_backend *backend);
};

/* "ref", "cpu", or "cuda", whose module is loaded here (base/module.h). HRF_E_UNSUPPORTED when
 * there is none of that name, or with the reason why it cannot be loaded. */
HRF_CHECKED enum hrf_status hrf_backend_open(const char *name, const struct hrf_backend_ops **out,
                                             struct hrf_error *err);
/* "auto" too: the GPU where there is a driver and a device that works, else the CPU, with a line of
 * `notes` where there is a driver, on why not. */
HRF_CHECKED enum hrf_status hrf_backend_choose(const char *name, const struct hrf_backend_ops **out,
                                               struct hrf_strbuf *notes, struct hrf_error *err);

static inline void hrf_kernel_destroy(struct hrf_kernel *kernel)
{
    if (kernel != NULL)
        kernel->destroy(kernel);
}
HRF_DEFINE_AUTO(hrf_kernel)

/* ---- what a node asks for ---- */

/* True if the back end computes the node; else err says what is not supported and what would be. */
bool hrf_backend_supports(const struct hrf_backend_ops *ops, const struct hrf_graph *graph,
                          const struct hrf_node *node, struct hrf_error *err);
static inline enum hrf_status hrf_backend_compile(const struct hrf_backend_ops *ops,
                                                  struct hrf_backend *backend,
                                                  const struct hrf_graph *graph,
                                                  const struct hrf_node *node,
                                                  struct hrf_kernel **out, struct hrf_error *err)
{
    return hrf_kernel_compile(ops->kernels, backend, graph, node, out, err);
}
/* POOL_SUM and POOL_FINISH: the halves of a GLOBAL_AVERAGE_POOL that ranks share. */
static inline bool hrf_is_partial(enum hrf_op op)
{
    return op == HRF_OP_POOL_SUM || op == HRF_OP_POOL_FINISH;
}

#endif
