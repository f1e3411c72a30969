/* backend.h - the back ends: found by name, asked what they support, and made to compile nodes.
 *
 * A back end compiles a node once for its shapes into a kernel (kernel.h, with the memory layout).
 * One with a device of its own has a device.h table too. compile() is the only call that allocates;
 * compile() and a kernel's run() block until done, but for a back end with a device, whose run()
 * only queues. A back end and its kernels are used by one thread at a time; inside, they use
 * `n_threads`.
 */
#ifndef HRF_ENGINE_BACKEND_BACKEND_H
#define HRF_ENGINE_BACKEND_BACKEND_H

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "engine/backend/device.h"
#include "engine/backend/kernel.h"
#include "engine/ir/graph.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_backend_config {
    int32_t n_threads; /* >= 1 */
    int32_t place;     /* of several devices: this one (modulo their number); -1: as the starter of
                          the ranks says */
    bool allow_tf32;   /* float32 products by tensor cores, with 10 bits of mantissa */
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
    /* It has kernels for LAYER_NORM, ATTENTION and SWIGLU; false: what exporters write for them
     * stays several operators. */
    bool fuses_transformers;
    /* INT8: what passes between products of rows, norms and attention is B16 rather than float32,
     * which saves half of the memory's traffic. */
    bool narrows_tokens;
    /* INT8: it has kernels for LOOKUP and for ATTENTION of 8-bit values. */
    bool looks_up;
    /* Whether create() would find its device, and what that is. */
    enum hrf_status (*identify)(struct hrf_device_identity *out, struct hrf_error *err);
    enum hrf_status (*create)(const struct hrf_backend_config *config, struct hrf_backend **out,
                              struct hrf_error *err);
    void (*destroy)(struct hrf_backend *backend);
    /* Asked before planning, shapes known. False sets err: the node, what is not supported and
     * what would be. A true is a promise that compile() fails for lack of memory only. */
    bool (*supports_op)(const struct hrf_graph *graph, const struct hrf_node *node,
                        struct hrf_error *err);
    enum hrf_status (*compile)(struct hrf_backend *backend, const struct hrf_graph *graph,
                               const struct hrf_node *node, struct hrf_kernel **out,
                               struct hrf_error *err);
    /* Called once before a graph's nodes are compiled, for what is better done for all of them.
     * `ranks` NULL: alone; else all ranks call it at the same place, each with its own graph.
     * Optional: NULL = nothing to do. */
    enum hrf_status (*prepare)(struct hrf_backend *backend, const struct hrf_graph *graph,
                               const struct hrf_backend_ranks *ranks, struct hrf_error *err);
    /* Whether compile() takes this CONV or GEMM with this activation, of those that
     * hrf_pass_fuse_epilogue() fuses, and gains by it. Optional: NULL = never. */
    bool (*takes_activation)(const struct hrf_graph *graph, const struct hrf_node *node,
                             enum hrf_activation activation);
    /* Whether compile() takes this CONV (float, rank 4, without one so far) with a prologue, and
     * gains by it. Optional: NULL = never. */
    bool (*takes_prologue)(const struct hrf_graph *graph, const struct hrf_node *conv);
    /* Whether compile() tries to compute this CONV and `norm`, a BATCH_NORM of its output, in one
     * pass that writes both. Optional: NULL = never. */
    bool (*takes_second)(const struct hrf_graph *graph, const struct hrf_node *conv,
                         const struct hrf_node *norm);
    /* Whether compile() takes the node's input k (-1: its output), an image, at a pixel stride
     * (hrf_value.pixel_stride) of any number of whole cache lines. A CONV's residual then has its
     * output's pixel stride; unless there is one, what lies between the output's pixels is left as
     * it is. Optional: NULL = never. */
    bool (*accepts_pixel_stride)(const struct hrf_graph *graph, const struct hrf_node *node,
                                 int32_t k);
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
/* Whether NVIDIA's driver is installed (libcuda.so.1). */
bool hrf_backend_has_driver(void);

static inline void hrf_kernel_destroy(struct hrf_kernel *kernel)
{
    if (kernel != NULL)
        kernel->destroy(kernel);
}
HRF_DEFINE_AUTO(hrf_kernel)

/* ---- what a node asks for ---- */

/* What every back end refuses in the same words: types that the operator has no kernel for, ranks
 * likewise, weights that are not constant. */
HRF_CHECKED enum hrf_status hrf_node_check_common(const struct hrf_graph *graph,
                                                  const struct hrf_node *node,
                                                  struct hrf_error *err);
/* A node is computed in what its run-time values hold. */
enum hrf_node_form {
    HRF_FORM_FLOAT,   /* float32 in, float32 out: the back end's own kernels */
    HRF_FORM_HALF,    /* float16 or bfloat16 somewhere */
    HRF_FORM_INTEGER, /* S8 or U8 somewhere */
};
enum hrf_node_form hrf_node_form(const struct hrf_graph *graph, const struct hrf_node *node);
/* POOL_SUM and POOL_FINISH: the halves of a GLOBAL_AVERAGE_POOL that ranks share. */
static inline bool hrf_is_partial(enum hrf_op op)
{
    return op == HRF_OP_POOL_SUM || op == HRF_OP_POOL_FINISH;
}

#endif
