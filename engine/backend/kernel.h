/* kernel.h - one node compiled for its shapes, and one run of it.
 *
 * Memory layout, the same for every back end: a tensor of rank 4 lies in memory as N, H, W, C
 * although its shape is written N, C, H, W; any other rank lies in the order of its shape. Both are
 * dense, except images with a pixel stride (hrf_value.pixel_stride): the number of elements from
 * one pixel's channels to the next pixel's; those beyond the channels have no meaning. Only nodes
 * whose row says so (HRF_STRIDED in kernel_rows.h) see such images. Weights of a
 * convolution are a constant in ONNX order; a back end packs them as it likes.
 *
 * Ownership: the caller owns every buffer that a call names and lends it for the call; a kernel
 * owns its packed constants.
 */
#ifndef HRF_ENGINE_BACKEND_KERNEL_H
#define HRF_ENGINE_BACKEND_KERNEL_H

#include "base/error.h"
#include "base/min_max.h"
#include "engine/ir/fused_pair.h"
#include "engine/ir/graph.h"

#include <stdbool.h>
#include <stddef.h>

#define HRF_BUFFER_ALIGNMENT 64 /* bytes: one cache line, one AVX-512 register */
/* Where a buffer behind one of n_bytes may begin. */
static inline size_t hrf_buffer_aligned(size_t n_bytes)
{
    return hrf_round_up(n_bytes, HRF_BUFFER_ALIGNMENT);
}

/* The pointers of one run. Constants and absent inputs are NULL: the kernel has its own copy.
 * The output is disjoint from every input, except that it may be exactly the buffer of the
 * residual of a CONV or GEMM, or of an input of the output's shape of a pointwise operator
 * (activations, BATCH_NORM, ADD, SUB, MUL, DIV), or of the input of a RESHAPE or the like
 * that is of_pixels (graph.h). An input of a CONCAT of channels may be exactly its place in the
 * output, and have the output's pixel stride. */
struct hrf_kernel_call {
    const void *const *inputs; /* [n_inputs of the node], each of its value's type */
    void *output;
    void *workspace; /* at least workspace_bytes, aligned to HRF_BUFFER_ALIGNMENT */
};

/* One node made ready for its shapes. Back ends put this first in a struct of their own. */
struct hrf_kernel {
    enum hrf_status (*run)(struct hrf_kernel *kernel, const struct hrf_kernel_call *call,
                           struct hrf_error *err);
    void (*destroy)(struct hrf_kernel *kernel);
    /* Both NULL, or: whether this kernel can run fused with `next`, whose only input, or residual,
     * is this one's output; and the run of both. The results are those of one after the other.
     * Both calls have the same workspace. */
    bool (*can_fuse)(const struct hrf_kernel *kernel, const struct hrf_kernel *next,
                     const struct hrf_fused_pair *pair);
    enum hrf_status (*run_fused)(struct hrf_kernel *kernel, const struct hrf_kernel_call *call,
                                 struct hrf_kernel *next, const struct hrf_kernel_call *next_call,
                                 struct hrf_error *err);
    /* NULL: it is compiled again once variable constants of its node have changed. Or: takes their
     * present numbers, in the same memory, so that recorded runs read them. */
    enum hrf_status (*refresh)(struct hrf_kernel *kernel, const struct hrf_graph *graph,
                               const struct hrf_node *node, struct hrf_error *err);
    const struct hrf_kernel_row *row; /* that it was compiled by; hrf_kernel_compile() sets it */
    /* "brgconv:avx512_core"; lives as the kernel. NULL from a row's compile(): the row's name. */
    const char *implementation;
    size_t workspace_bytes; /* scratch that any other kernel may use before and after */
    size_t weight_bytes;    /* packed constants held by the kernel */
};

#endif
