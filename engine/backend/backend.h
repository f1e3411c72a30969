/* backend.h - what a device can do: operators compiled once for their shapes, then run.
 *
 * Memory layout, the same for every back end: rank 4 lies in memory as N, H, W, C although its
 * shape is written N, C, H, W; any other rank lies in the order of its shape. Both are dense, but
 * for images that have a pitch (hrf_value.pitch): from one pixel's channels to the next one's there
 * are so many elements, those beyond the channels without meaning. Only nodes that the back end
 * said it takes them with (takes_pitch) see such.
 * Weights of a convolution are a constant in ONNX order; a back end packs them as it likes.
 *
 * Ownership: the caller owns every buffer that a call names and lends it for the call; a
 * kernel owns its packed constants. compile() and run() block until done; compile() is the only
 * place that allocates. A back end with a device (hrf_device_ops) only queues in run(). A back end
 * and its kernels are used by one thread at a time; inside, they use `n_threads`.
 */
#ifndef HRF_ENGINE_BACKEND_BACKEND_H
#define HRF_ENGINE_BACKEND_BACKEND_H

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "engine/ir/fused_pair.h"
#include "engine/ir/graph.h"
#include "engine/ir/resize.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HRF_BUFFER_ALIGNMENT 64 /* bytes: one cache line, one AVX-512 register */

struct hrf_backend; /* each back end's own */

struct hrf_backend_config {
    int32_t n_threads; /* >= 1 */
    int32_t place;     /* of several devices: this one (modulo their number); -1: as the starter of
                          the ranks says */
    bool allow_tf32;   /* float32 products by tensor cores, with 10 bits of mantissa */
};

/* The pointers of one run. Constants and absent inputs are NULL: the kernel has its own copy.
 * The output is disjoint from every input, except that it may be exactly the buffer of the
 * residual of a CONV or GEMM, or of an input of the output's shape of a pointwise operator
 * (activations, BATCH_NORM, ADD, SUB, MUL, DIV). */
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
     * is this one's output; and the run of both. The results are those of one after the other, but
     * for what is not kept. Both calls have the same workspace. */
    bool (*can_fuse)(const struct hrf_kernel *kernel, const struct hrf_kernel *next,
                     const struct hrf_fused_pair *pair);
    enum hrf_status (*run_fused)(struct hrf_kernel *kernel, const struct hrf_kernel_call *call,
                                 struct hrf_kernel *next, const struct hrf_kernel_call *next_call,
                                 struct hrf_error *err);
    const char *implementation; /* "brgconv:avx512_core", "winograd:avx512"; lives as the kernel */
    size_t workspace_bytes;     /* scratch that any other kernel may use before and after */
    size_t weight_bytes;        /* packed constants held by the kernel */
};

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
    void (*turn)(struct hrf_backend *backend, enum hrf_device_queue queue);
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

struct hrf_backend_ops {
    const char *name; /* "ref", "cpu", "cuda" */
    /* NULL: kernels work in host memory and are done when run() returns. Otherwise the pointers of
     * a call are the device's and run() queues. */
    const struct hrf_device_ops *device;
    bool signed_only; /* 8-bit values are S8 */
    bool has_tf32;
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
     * Optional: NULL = nothing to do. */
    enum hrf_status (*prepare)(struct hrf_backend *backend, const struct hrf_graph *graph,
                               struct hrf_error *err);
    /* Whether compile() takes this CONV (float, rank 4, without one so far) with a prologue, and
     * gains by it. Optional: NULL = never. */
    bool (*takes_prologue)(const struct hrf_graph *graph, const struct hrf_node *conv);
    /* Whether compile() takes the node's input k (-1: its output), a float32 image, at a pitch
     * (hrf_value.pitch) of any number of whole cache lines, alike the node's on a part of the
     * image; a CONV's residual then has its output's pitch. Optional: NULL = never. */
    bool (*takes_pitch)(const struct hrf_graph *graph, const struct hrf_node *node, int32_t k);
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
/* "NVIDIA H200, compute capability 9.0, 139.8 GiB, driver for CUDA 13.0, cuDNN 9.19.0, ...". */
void hrf_device_identity_words(const struct hrf_device_identity *identity, char *words,
                               size_t size);
/* This machine's processor, for the back ends that run on it. */
void hrf_device_identity_host(struct hrf_device_identity *out);
/* Whether NVIDIA's driver is installed (libcuda.so.1). */
bool hrf_backend_has_driver(void);

static inline void hrf_kernel_destroy(struct hrf_kernel *kernel)
{
    if (kernel != NULL)
        kernel->destroy(kernel);
}
HRF_DEFINE_AUTO(hrf_kernel)

/* ---- layout ---- */

/* Elements between neighbours along each axis of the shape, in the layout above. */
void hrf_layout_strides(const struct hrf_shape *shape, int64_t strides[HRF_MAX_RANK]);
/* Between ONNX order and the layout above; the same bytes unless rank is 4. Elements of
 * 1, 2, 4 or 8 bytes. */
void hrf_layout_from_onnx(const struct hrf_shape *shape, size_t element_size, const void *onnx,
                          void *out);
void hrf_layout_to_onnx(const struct hrf_shape *shape, size_t element_size, const void *in,
                        void *onnx);
/* True when reading the elements in order gives the same numbers in both orders. */
bool hrf_layout_is_onnx(const struct hrf_shape *shape);

/* A walk over a box of up to HRF_MAX_RANK axes in output order, neighbouring axes merged where
 * all operands allow: strides in elements, the innermost axis last. */
#define HRF_WALK_MAX_OPERANDS 3
struct hrf_walk {
    int32_t rank; /* 1 at least */
    int64_t dims[HRF_MAX_RANK];
    int64_t strides[HRF_WALK_MAX_OPERANDS][HRF_MAX_RANK];
    int32_t n_operands;
};
/* `strides[k]` gives operand k's strides per axis of `shape` (0: broadcast). Operand 0
 * must lie in memory as `shape` does: it is walked through in memory order. */
void hrf_walk_init(struct hrf_walk *walk, const struct hrf_shape *shape, int32_t n_operands,
                   const int64_t strides[][HRF_MAX_RANK]);
/* The same strides for a numpy-like broadcast of `operand` to `to`. */
void hrf_layout_broadcast_strides(const struct hrf_shape *operand, const struct hrf_shape *to,
                                  int64_t strides[HRF_MAX_RANK]);
/* Offsets of the operands at row `row` of the walk: a row is one run along the last axis. */
void hrf_walk_seek(const struct hrf_walk *walk, int64_t row,
                   int64_t offsets[HRF_WALK_MAX_OPERANDS]);
int64_t hrf_walk_rows(const struct hrf_walk *walk);

/* ---- operators that only move numbers ---- */

/* hrf_op_is_move() operators: the memory of ref and cpu is host memory laid out the same way, so
 * they share these. Exact. True for a move whose inputs all have the output's type and scale: it
 * moves bytes. */
bool hrf_moves_as_is(const struct hrf_graph *graph, const struct hrf_node *node);
HRF_CHECKED enum hrf_status hrf_move_compile(const struct hrf_graph *graph,
                                             const struct hrf_node *node, struct hrf_kernel **out,
                                             struct hrf_error *err);

/* ---- operators of single numbers ---- */

/* hrf_op_is_unary() and hrf_op_is_binary() operators, in double. */
double hrf_unary_value(enum hrf_op op, const struct hrf_attributes *attributes, double x);
double hrf_binary_value(enum hrf_op op, double a, double b);

/* ---- what a kernel keeps of its node ---- */

struct hrf_operand {
    bool present;
    enum hrf_dtype dtype;
    struct hrf_shape shape;
    int64_t pitch; /* hrf_value_pitch() */
    struct hrf_quantization quantization;
    void *constant; /* heap copy in the layout above (a convolution's weights: ONNX order); NULL
                       when it comes at run time */
};

struct hrf_spec {
    enum hrf_op op;
    char *name;
    struct hrf_attributes attributes;
    int32_t n_inputs;
    struct hrf_operand *inputs;
    struct hrf_operand output;
};
HRF_CHECKED enum hrf_status hrf_spec_create(const struct hrf_graph *graph,
                                            const struct hrf_node *node, struct hrf_spec **out,
                                            struct hrf_error *err);
void hrf_spec_destroy(struct hrf_spec *spec);
HRF_DEFINE_AUTO(hrf_spec)
static inline bool hrf_spec_has(const struct hrf_spec *spec, int32_t input)
{
    return input < spec->n_inputs && spec->inputs[input].present;
}
static inline const void *hrf_spec_data(const struct hrf_spec *spec,
                                        const struct hrf_kernel_call *call, int32_t input)
{
    if (!hrf_spec_has(spec, input))
        return NULL;
    const void *constant = spec->inputs[input].constant;
    return constant != NULL ? constant : call->inputs[input];
}
/* The output as floats, for kernels that compute in float32. */
static inline float *hrf_floats(const struct hrf_kernel_call *call)
{
    return call->output;
}
/* DEPTH_TO_SPACE and SPACE_TO_DEPTH as the copy of one box, of an axis for each of image, row of
 * blocks, row in a block, column of blocks, column in one, channel: strides in elements. The output
 * of DEPTH_TO_SPACE is whole blocks, not a part of them. */
struct hrf_blocks {
    struct hrf_shape box;
    int64_t in[HRF_MAX_RANK], out[HRF_MAX_RANK];
};
struct hrf_blocks hrf_blocks_of(const struct hrf_spec *spec);
/* A MATMUL as n products of [rows][depth] and [depth][columns]. Strides in elements, along rows (of
 * b: depth) and columns (of a: depth). */
struct hrf_matmul {
    int64_t n, rows, columns, depth;
    int64_t a[2], b[2], y[2];
    int32_t n_batch;
    int64_t batch[HRF_MAX_RANK], batch_strides[3][HRF_MAX_RANK]; /* of a, b, y */
};
void hrf_matmul_view(const struct hrf_spec *spec, struct hrf_matmul *out);
/* Where product m begins in a, b and y. */
void hrf_matmul_seek(const struct hrf_matmul *view, int64_t m, int64_t offsets[3]);

/* ---- images of other sizes ---- */

/* RESIZE: see resize.h. */
int32_t hrf_resize_n_taps(const struct hrf_spec *spec);
/* One for each output row (axis 0) or column (1). */
void hrf_resize_taps(const struct hrf_spec *spec, int axis, struct hrf_resize_tap *taps);
/* RESIZE in float32, of host memory. */
HRF_CHECKED enum hrf_status hrf_resize_compile(const struct hrf_graph *graph,
                                               const struct hrf_node *node, struct hrf_kernel **out,
                                               struct hrf_error *err);

/* ---- the rest of a spec ---- */

size_t hrf_spec_constant_bytes(const struct hrf_spec *spec);

/* What every back end refuses in the same words: types that the operator has no kernel for, ranks
 * likewise, weights that are not constant. */
HRF_CHECKED enum hrf_status hrf_node_check_common(const struct hrf_graph *graph,
                                                  const struct hrf_node *node,
                                                  struct hrf_error *err);

/* ---- 8-bit integers and 16-bit floats ---- */

/* A node is computed in what its run-time values hold. */
enum hrf_node_form {
    HRF_FORM_FLOAT,   /* float32 in, float32 out: the back end's own kernels */
    HRF_FORM_HALF,    /* float16 or bfloat16 somewhere */
    HRF_FORM_INTEGER, /* S8 or U8 somewhere */
};
enum hrf_node_form hrf_node_form(const struct hrf_graph *graph, const struct hrf_node *node);

/* What becomes of the exact integer sum of a CONV or GEMM:
 *   t = ((float)sum + bias[c]) * multiplier[c]
 *   t = fma(residual - residual's zero point, residual_scale, t)
 *   t = activation(t), clipped to [low, high]
 *   y = round half to even(t) + y's zero point, saturated; float outputs are t itself.
 * With s the scales: multiplier = s_x * s_w[c] / s_y, bias = b[c] / (s_x * s_w[c]),
 * residual_scale = s_r / s_y; s_y is 1 for float outputs. Each product in float, in this order:
 * the same bits from every implementation (oneDNN's among them; the tests hold it to that). */
struct hrf_requantize {
    int64_t n_channels;
    float *multiplier, *bias;
    float residual_scale;
    int32_t residual_zero_point;
    enum hrf_activation activation;
    float low, high; /* CLIP, in y's steps */
    float slope;     /* LEAKY_RELU */
};
HRF_CHECKED enum hrf_status hrf_requantize_create(const struct hrf_spec *spec,
                                                  struct hrf_requantize **out,
                                                  struct hrf_error *err);
void hrf_requantize_destroy(struct hrf_requantize *requantize);
HRF_DEFINE_AUTO(hrf_requantize)

/* Plain kernels of HRF_FORM_INTEGER, exact by construction: what ref is and what a back end uses
 * where it has nothing faster. Moves (hrf_op_is_move) but CONCAT of different scales are not here.
 */
bool hrf_integer_supports(const struct hrf_graph *graph, const struct hrf_node *node,
                          struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_integer_compile(const struct hrf_graph *graph,
                                                const struct hrf_node *node,
                                                struct hrf_kernel **out, struct hrf_error *err);

/* POOL_SUM and POOL_FINISH, the halves of a GLOBAL_AVERAGE_POOL that ranks share: plain loops over
 * host memory, for any type. */
bool hrf_is_partial(enum hrf_op op);
HRF_CHECKED enum hrf_status hrf_partial_compile(const struct hrf_graph *graph,
                                                const struct hrf_node *node,
                                                struct hrf_kernel **out, struct hrf_error *err);

/* A kernel of HRF_FORM_HALF made of the back end's float32 one: inputs are widened into the
 * workspace, the result is narrowed. CAST is a kernel of its own. */
HRF_CHECKED enum hrf_status hrf_half_compile(const struct hrf_backend_ops *ops,
                                             struct hrf_backend *backend,
                                             const struct hrf_graph *graph,
                                             const struct hrf_node *node, struct hrf_kernel **out,
                                             struct hrf_error *err);

#endif
