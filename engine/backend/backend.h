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
#include "engine/ir/resize.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_backend_config {
    int32_t n_threads; /* >= 1 */
    int32_t place;     /* of several devices: this one (modulo their number); -1: as the starter of
                          the ranks says */
    bool allow_tf32;   /* float32 products by tensor cores, with 10 bits of mantissa */
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
