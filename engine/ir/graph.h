/* graph.h - the network as data: values, nodes and constants. Building one computes nothing.
 *
 * Shapes are logical and follow ONNX: rank-4 values are N, C, H, W whatever the memory layout
 * of a back end is. Nodes stand in topological order: a node's inputs are graph inputs,
 * constants or outputs of earlier nodes. Values and nodes are named by index, so that a pass
 * can rewrite a graph without pointers going stale. Not thread-safe while being changed.
 */
#ifndef HRF_ENGINE_IR_GRAPH_H
#define HRF_ENGINE_IR_GRAPH_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HRF_MAX_RANK    6
#define HRF_MAX_SPATIAL 2

enum hrf_dtype {
    HRF_DTYPE_NONE,
    HRF_F32,
    HRF_F64,
    HRF_F16,
    HRF_B16, /* bfloat16 */
    HRF_S8,
    HRF_U8,
    HRF_S32,
    HRF_S64,
    HRF_BOOL
};
size_t hrf_dtype_size(enum hrf_dtype dtype);
const char *hrf_dtype_name(enum hrf_dtype dtype);

struct hrf_shape {
    int32_t rank;
    int64_t dims[HRF_MAX_RANK];
};
/* Elements; 1 for rank 0. -1 when a dim or the rank is not known, or the product is beyond
 * HRF_MAX_ELEMENTS. */
int64_t hrf_shape_count(const struct hrf_shape *shape);
/* Bound on elements of one value: with 8-byte elements still far from overflowing int64_t. */
#define HRF_MAX_ELEMENTS ((int64_t)1 << 48)
bool hrf_shape_equal(const struct hrf_shape *a, const struct hrf_shape *b);
/* "1x3x256x256"; out holds at least 128 bytes. */
void hrf_shape_text(const struct hrf_shape *shape, char out[128]);

/* Operators of the graph. ONNX's names where they are ONNX's; the table in op.c holds name,
 * input counts and which attributes are used, tied to this enum by a static assert. */
enum hrf_op {
    HRF_OP_CONV,
    HRF_OP_CONV_TRANSPOSE, /* output row y gets input rows i with y = s*i - p + d*k, 0 <= k < K */
    HRF_OP_GEMM,
    HRF_OP_MATMUL,
    HRF_OP_BATCH_NORM,
    HRF_OP_RELU, /* to SOFTSIGN: functions of one number */
    HRF_OP_LEAKY_RELU,
    HRF_OP_SIGMOID,
    HRF_OP_TANH,
    HRF_OP_CLIP,
    HRF_OP_EXP,
    HRF_OP_LOG,
    HRF_OP_SQRT,
    HRF_OP_NEG,
    HRF_OP_ABS,
    HRF_OP_RECIPROCAL,
    HRF_OP_FLOOR,
    HRF_OP_CEIL,
    HRF_OP_ERF,
    HRF_OP_ELU,
    HRF_OP_SELU,
    HRF_OP_HARD_SIGMOID,
    HRF_OP_HARD_SWISH,
    HRF_OP_SOFTPLUS,
    HRF_OP_SOFTSIGN,
    HRF_OP_SOFTMAX,
    HRF_OP_LOG_SOFTMAX,
    HRF_OP_ADD, /* to PRELU: of two, broadcast */
    HRF_OP_SUB,
    HRF_OP_MUL,
    HRF_OP_DIV,
    HRF_OP_POW,
    HRF_OP_MAX,
    HRF_OP_MIN,
    HRF_OP_PRELU, /* x, slope */
    HRF_OP_MAX_POOL,
    HRF_OP_AVERAGE_POOL,
    HRF_OP_GLOBAL_AVERAGE_POOL,
    HRF_OP_GLOBAL_MAX_POOL,
    HRF_OP_LRN,
    HRF_OP_CONCAT,
    HRF_OP_FLATTEN,
    HRF_OP_RESHAPE,
    HRF_OP_TRANSPOSE,
    HRF_OP_SQUEEZE,
    HRF_OP_UNSQUEEZE,
    HRF_OP_IDENTITY, /* Dropout becomes this */
    HRF_OP_PAD,
    HRF_OP_GATHER, /* of channels by a constant index, as torchvision's Inception exports it */
    HRF_OP_SLICE,
    HRF_OP_DEPTH_TO_SPACE, /* output row y comes from input row y / size */
    HRF_OP_RESIZE,         /* of rows and columns; Upsample is this */
    HRF_OP_SPACE_TO_DEPTH, /* and from rows y * size .. (y + 1) * size - 1 */
    HRF_OP_REDUCE_MEAN,    /* to REDUCE_LOG_SUM_EXP: over any axes */
    HRF_OP_REDUCE_SUM,
    HRF_OP_REDUCE_MAX,
    HRF_OP_REDUCE_MIN,
    HRF_OP_REDUCE_PROD,
    HRF_OP_REDUCE_L1,
    HRF_OP_REDUCE_L2,
    HRF_OP_REDUCE_SUM_SQUARE,
    HRF_OP_REDUCE_LOG_SUM,
    HRF_OP_REDUCE_LOG_SUM_EXP,
    HRF_OP_PERFORMER, /* linear attention; hrf_pass_split_attention() makes these three of it: */
    HRF_OP_PERFORMER_MAX,   /* k, projection -> [N][heads]: a maximum over all pixels */
    HRF_OP_PERFORMER_STATE, /* k, v, projection, MAX's or none -> F64 [N][heads][(d + 1) * m]: a
                             * sum over all pixels, the same bits in whatever order it is added */
    HRF_OP_PERFORMER_APPLY, /* q, STATE's, projection -> [N][C][H][W]: pixel by pixel of q */
    HRF_OP_CONSTANT,        /* folded away by the importer's first pass */
    HRF_OP_SHAPE,           /* likewise, once shapes are known */
    HRF_OP_CAST,
    HRF_OP_CONSTANT_OF_SHAPE, /* of integers, in shape arithmetic only: always folded */
    /* Between float32 and 8 bits. With one input, as hrf_pass_lower() puts them in, the 8-bit
     * value's quantisation says how; with scale and zero point as constants it is the model's own,
     * and shape inference sets that quantisation where they are one number each. */
    HRF_OP_QUANTIZE,
    HRF_OP_DEQUANTIZE,
    /* In the graphs of single ranks; put in by hrf_partition(). */
    HRF_OP_EXCHANGE,    /* rows and columns from the ranks that have them to those that need them */
    HRF_OP_ALL_REDUCE,  /* sum or maximum over ranks */
    HRF_OP_POOL_SUM,    /* GLOBAL_AVERAGE_POOL's sum over the rows at hand: F32, or S32 exactly */
    HRF_OP_POOL_FINISH, /* and its division by `size` pixels */
    HRF_N_OPS
};
const char *hrf_op_name(enum hrf_op op);
/* Ranks exchange messages there: no kernel computes it. */
static inline bool hrf_op_communicates(enum hrf_op op)
{
    return op == HRF_OP_EXCHANGE || op == HRF_OP_ALL_REDUCE;
}
static inline bool hrf_op_is_unary(enum hrf_op op)
{
    return op >= HRF_OP_RELU && op <= HRF_OP_SOFTSIGN;
}
static inline bool hrf_op_is_binary(enum hrf_op op)
{
    return op >= HRF_OP_ADD && op <= HRF_OP_PRELU;
}
/* Copies elements and changes none: an 8-bit result keeps its input's scale. */
bool hrf_op_is_move(enum hrf_op op);
static inline bool hrf_op_is_reduction(enum hrf_op op)
{
    return op >= HRF_OP_REDUCE_MEAN && op <= HRF_OP_REDUCE_LOG_SUM_EXP;
}

enum hrf_activation { HRF_ACT_NONE, HRF_ACT_RELU, HRF_ACT_CLIP, HRF_ACT_LEAKY_RELU };

/* How a window's pads follow from the input's size. Source: ONNX Conv, attribute auto_pad. */
enum hrf_auto_pad { HRF_PAD_EXPLICIT, HRF_PAD_SAME_UPPER, HRF_PAD_SAME_LOWER, HRF_PAD_VALID };

/* A window that slides over rows and columns: convolution and pooling. Pads are in px and may
 * differ on all four sides. */
struct hrf_window {
    /* A kernel of 0 in CONV is "as the weights say"; shape inference sets it. */
    int64_t kernel[HRF_MAX_SPATIAL], stride[HRF_MAX_SPATIAL], dilation[HRF_MAX_SPATIAL];
    int64_t pad_begin[HRF_MAX_SPATIAL], pad_end[HRF_MAX_SPATIAL]; /* [0] rows, [1] columns */
    enum hrf_auto_pad auto_pad; /* not EXPLICIT: shape inference sets the pads from it */
    bool ceil_mode;             /* pooling */
    bool count_include_pad;     /* average pooling */
};

/* RESIZE: where output pixel x comes from in the input, and which pixels around it count how much.
 * Source: ONNX Resize; the words are its. */
enum hrf_resize_mode { HRF_RESIZE_NEAREST, HRF_RESIZE_LINEAR, HRF_RESIZE_CUBIC };
enum hrf_resize_coordinates {
    HRF_RESIZE_HALF_PIXEL,
    HRF_RESIZE_PYTORCH_HALF_PIXEL,
    HRF_RESIZE_ALIGN_CORNERS,
    HRF_RESIZE_ASYMMETRIC
};
enum hrf_resize_rounding {
    HRF_RESIZE_PREFER_FLOOR,
    HRF_RESIZE_PREFER_CEIL,
    HRF_RESIZE_FLOOR,
    HRF_RESIZE_CEIL
};
/* One axis of a RESIZE of which only a part is computed. */
struct hrf_resize_part {
    int64_t n_in, n_out;         /* of the whole; n_in 0: this is the whole */
    int64_t first_in, first_out; /* where the part's input and output begin in it */
};
struct hrf_resize {
    enum hrf_resize_mode mode;
    enum hrf_resize_coordinates coordinates;
    enum hrf_resize_rounding rounding; /* NEAREST */
    float cubic_a;
    bool exclude_outside;           /* CUBIC */
    float scales[4];                /* of N, C, H, W; the first 0: the sizes say */
    int64_t sizes[4];               /* 0 for N and C: as they are */
    struct hrf_resize_part part[2]; /* rows, columns */
};

/* What a CONV does to every number of its image as it reads it, before its window:
 *   x' = act(x * factor[c] + shift[c])
 * of channel c. What the pads add around the image stays zero. */
struct hrf_prologue {
    enum hrf_activation activation;
    float low, high; /* CLIP */
    float slope;     /* LEAKY_RELU */
};

/* Rows [lo[0], hi[0]) and columns [lo[1], hi[1]) of an image; a value that is no image (its rank is
 * not 4) is one pixel of as many channels as it has elements. */
struct hrf_box {
    int64_t lo[2], hi[2];
};

/* All attributes of all operators; a node uses those that its operator's table entry names. */
struct hrf_attributes {
    struct hrf_resize resize;
    struct hrf_window window;
    int64_t group;    /* PERFORMER: heads */
    bool exponential; /* PERFORMER: the softmax kernel, not the generalised ReLU */
    /* CONV_TRANSPOSE: further rows and columns at the end; and the rows and columns wanted, from
     * which inference sets the pads (0: the pads say). */
    int64_t output_padding[HRF_MAX_SPATIAL], output_size[HRF_MAX_SPATIAL];
    /* Fused into CONV and GEMM by the passes: y = act(conv(x) + bias + residual). */
    enum hrf_activation activation;
    float activation_min, activation_max; /* CLIP */
    struct hrf_prologue prologue;         /* CONV with HRF_CONV_FACTORS */
    float alpha, beta; /* GEMM's factors; LEAKY_RELU's slope (alpha); LRN's alpha, beta;
                        * ELU's and SELU's alpha, SELU's gamma (beta); HARD_SIGMOID's both */
    float epsilon;     /* BATCH_NORM; PERFORMER: added to every feature */
    float bias;        /* LRN's k */
    /* LRN's window; POOL_FINISH's pixels; DEPTH_TO_SPACE's and SPACE_TO_DEPTH's block */
    int64_t size;
    /* DEPTH_TO_SPACE's window.pad_begin: rows and columns left out at the beginning (0 outside of
     * partitions). */
    bool column_row_depth; /* DEPTH_TO_SPACE: a block lies inside a channel, not around them */
    bool transpose_a, transpose_b; /* GEMM */
    int64_t axis; /* CONCAT, SOFTMAX, FLATTEN, GATHER; never negative after shape inference */
    /* TRANSPOSE's permutation, the axes of SQUEEZE, UNSQUEEZE, REDUCE_..., SLICE, PAD. After
     * shape inference none is negative, and TRANSPOSE, REDUCE_MEAN and PAD name every axis. */
    int64_t axes[HRF_MAX_RANK];
    int32_t n_axes;
    /* SLICE, along axes[i]; SHAPE: starts[0], ends[0] when n_axes is 1. Slice inference clamps:
     * element j of axis i is starts[i] + j * steps[i]. */
    int64_t starts[HRF_MAX_RANK], ends[HRF_MAX_RANK], steps[HRF_MAX_RANK];
    int64_t pads[2 * HRF_MAX_RANK]; /* PAD: n_axes begins, then n_axes ends; never negative */
    float value;                    /* PAD's constant */
    bool keep_dims;                 /* REDUCE_... */
    bool allow_zero;                /* RESHAPE */
    enum hrf_dtype to;              /* CAST; the type that CONSTANT_OF_SHAPE gives */
    int64_t fill;                   /* CONSTANT_OF_SHAPE's value */
    /* SOFTMAX, LOG_SOFTMAX of opset < 13 work on all axes from `axis` on. Inference refuses
     * the cases in which that differs from working on `axis` alone. */
    bool legacy_axis;
};

/* CLIP without a bound has -FLT_MAX or FLT_MAX there. */
#define HRF_NO_VALUE (-1) /* an optional input that is not there */

struct hrf_node {
    enum hrf_op op;
    char *name;      /* as in the model file; never NULL, may be made up ("Conv_12") */
    int32_t *inputs; /* value indices or HRF_NO_VALUE */
    int32_t n_inputs;
    int32_t *outputs;
    int32_t n_outputs;
    int32_t before; /* the node that hrf_graph_place_nodes() puts it in front of; -1: it stays */
    struct hrf_attributes attributes;
};

/* CONV's inputs: x, weights [M][C/group][kh][kw], bias [M] or none, residual (shape of y) or
 * none. CONV_TRANSPOSE's: x, weights [C][M/group][kh][kw], bias or none. GEMM's: a, b, bias or
 * none, residual or none. Where x is S8 or U8 the weights are S8 (CONV_TRANSPOSE's in CONV's order)
 * and a fifth input gives their scales [M]; where x is F32 that input, if there, says that the
 * weights are whole multiples of it, from -128 to 127: a model that was quantised elsewhere. CONV's
 * sixth and seventh are the factors and shifts [C] of its prologue, where it has one. */
enum { HRF_CONV_X, HRF_CONV_WEIGHTS, HRF_CONV_BIAS, HRF_CONV_RESIDUAL, HRF_CONV_N_INPUTS };
enum {
    HRF_CONV_SCALES = HRF_CONV_N_INPUTS,
    HRF_CONV_FACTORS,
    HRF_CONV_SHIFTS,
    HRF_CONV_MAX_INPUTS
};
static inline bool hrf_node_has_prologue(const struct hrf_node *node)
{
    return node->op == HRF_OP_CONV && node->n_inputs > HRF_CONV_SHIFTS &&
           node->inputs[HRF_CONV_FACTORS] >= 0;
}
/* QUANTIZE's and DEQUANTIZE's inputs; the last two may be missing. */
enum { HRF_QUANTIZE_X, HRF_QUANTIZE_SCALE, HRF_QUANTIZE_ZERO_POINT };

/* PERFORMER: attention of tokens, the pixels of images of C channels, heads side by side in them:
 *   y = phi(q) . (sum over tokens of phi(k) v') / (phi(q) . sum of phi(k))
 * with d = C / heads and m random features, the rows of `projection` [m][d], of a token u of one
 * head:  ReLU kernel:    phi(u) = max(0, P u / d^(1/4)) + epsilon
 *        softmax kernel: phi(u) = exp(P u / d^(1/4) - |u|^2 / (2 sqrt d) - M) + epsilon, M the
 *                        largest of P u / d^(1/4): of q each token's own, of k over all tokens of
 *                        an image and head.
 * Source: Choromanski et al., "Rethinking attention with Performers" (2020). */
enum { HRF_PERFORMER_Q, HRF_PERFORMER_K, HRF_PERFORMER_V, HRF_PERFORMER_PROJECTION };
enum { HRF_STATE_K, HRF_STATE_V, HRF_STATE_PROJECTION, HRF_STATE_MAX };
/* STATE's sums are of multiples of this: added exactly up to 2^27. */
#define HRF_PERFORMER_GRID         0x1p-26
#define HRF_PERFORMER_MAX_HEAD     512  /* d */
#define HRF_PERFORMER_MAX_FEATURES 4096 /* m */

/* What the integers of an S8 or U8 value stand for: real = (q - zero_point) * scale. */
struct hrf_quantization {
    float scale; /* > 0; 0: the value is not quantised */
    int32_t zero_point;
};

struct hrf_value {
    char *name;
    enum hrf_dtype dtype;
    struct hrf_quantization quantization;
    struct hrf_shape shape; /* rank -1: not known yet; a dim of -1: not known (batch) */
    /* Of a rank-4 value that is computed: elements from one pixel's channels to the next pixel's,
     * as it lies in memory; 0: as many as it has channels (plan/pitch.h). */
    int64_t pitch;
    void *data; /* constants: dense, in shape order; NULL otherwise; heap; never changed */
    struct hrf_shared_data *share; /* counts the copies of the graph that share data; NULL: none */
    bool is_borrowed;              /* data belongs to another graph, which lives longer */
    /* Node index; -1 for inputs and constants. A value with both data and a producer is one
     * that shape inference has computed; hrf_graph_compact() makes it a plain constant. */
    int32_t producer;
};

/* In memory, of a value whose shape is known. */
int64_t hrf_value_bytes(const struct hrf_value *value);
static inline int64_t hrf_value_pitch(const struct hrf_value *value)
{
    return value->pitch > 0 ? value->pitch : value->shape.dims[1];
}

/* What a model may ask for, whatever it is run on: shape inference refuses what is beyond before
 * anything of it is allocated or computed. For one image: of a batch of N images N times as much.
 */
struct hrf_bounds {
    int64_t
        memory_bytes;  /* of one tensor; and of all constants, what is computed of them included */
    double operations; /* of all nodes (hrf_node_work) */
};
/* A layer of 64 channels over the largest slide image, 32,767 px a side, is just below it. */
#define HRF_DEFAULT_MAX_MEMORY ((int64_t)256 << 30)
/* ResNet-101 over such an image takes 3.3e14. */
#define HRF_DEFAULT_MAX_OPERATIONS 1e16
/* Rows or columns of what a window or RESIZE reads and gives, and what a window's numbers are
 * below: no slide is larger, and vendor kernels compute with them in 32 bits. */
#define HRF_MAX_SIDE ((int64_t)1 << 20)

struct hrf_graph {
    char *name;
    struct hrf_bounds bounds; /* the defaults, until set */
    struct hrf_value *values;
    int32_t n_values;
    struct hrf_node *nodes;
    int32_t n_nodes;
    int32_t *inputs; /* value indices, without the constants */
    int32_t n_inputs;
    int32_t *outputs;
    int32_t n_outputs;
    size_t values_capacity, nodes_capacity; /* private */
};

HRF_CHECKED enum hrf_status hrf_graph_create(const char *name, struct hrf_graph **out,
                                             struct hrf_error *err);
void hrf_graph_destroy(struct hrf_graph *graph);
HRF_DEFINE_AUTO(hrf_graph)
HRF_CHECKED enum hrf_status hrf_graph_copy(const struct hrf_graph *graph, struct hrf_graph **out,
                                           struct hrf_error *err);

/* Adds a value; `data` (may be NULL) is copied. *index is its number. */
HRF_CHECKED enum hrf_status hrf_graph_add_value(struct hrf_graph *graph, const char *name,
                                                enum hrf_dtype dtype, const struct hrf_shape *shape,
                                                const void *data, int32_t *index,
                                                struct hrf_error *err);
/* Adds a node at the end; its outputs' producer becomes it. */
HRF_CHECKED enum hrf_status
hrf_graph_add_node(struct hrf_graph *graph, enum hrf_op op, const char *name, const int32_t *inputs,
                   int32_t n_inputs, const int32_t *outputs, int32_t n_outputs,
                   const struct hrf_attributes *attributes, struct hrf_error *err);
/* The same for a node that belongs before node `at`. It stands at the end, and no node changes its
 * index, until hrf_graph_place_nodes() puts all such nodes into their places: in one walk, whatever
 * their number. Several before one node keep their order. */
HRF_CHECKED enum hrf_status hrf_graph_insert_node(struct hrf_graph *graph, int32_t at,
                                                  enum hrf_op op, const char *name,
                                                  const int32_t *inputs, int32_t n_inputs,
                                                  const int32_t *outputs, int32_t n_outputs,
                                                  const struct hrf_attributes *attributes,
                                                  struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_graph_place_nodes(struct hrf_graph *graph, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_graph_set_io(struct hrf_graph *graph, const int32_t *inputs,
                                             int32_t n_inputs, const int32_t *outputs,
                                             int32_t n_outputs, struct hrf_error *err);
struct hrf_attributes hrf_attributes_default(void); /* strides 1, group 1, alpha 1, ... */
int32_t hrf_graph_find_value(const struct hrf_graph *graph, const char *name); /* -1: none */
int32_t hrf_graph_count_uses(const struct hrf_graph *graph, int32_t value);    /* outputs count */
/* Adds a constant whose `data` (heap, dense) the graph takes over, on success only. */
HRF_CHECKED enum hrf_status hrf_graph_take_value(struct hrf_graph *graph, const char *name,
                                                 enum hrf_dtype dtype,
                                                 const struct hrf_shape *shape, void **data,
                                                 int32_t *index, struct hrf_error *err);
/* Adds a constant whose `data` stays another graph's, which must outlive this one: so that many
 * ranks hold one set of weights. Copies of the graph have data of their own. */
HRF_CHECKED enum hrf_status hrf_graph_borrow_value(struct hrf_graph *graph, const char *name,
                                                   enum hrf_dtype dtype,
                                                   const struct hrf_shape *shape, void *data,
                                                   int32_t *index, struct hrf_error *err);
/* A value as `value` of another graph is. A constant's data is shared with it: whichever graph goes
 * last frees it. Any thread may do so with a graph that is not being changed. */
HRF_CHECKED enum hrf_status hrf_graph_share_value(struct hrf_graph *graph,
                                                  const struct hrf_value *value, const char *name,
                                                  int32_t *index, struct hrf_error *err);
/* For those who remove values: frees the data unless others have it too. */
void hrf_value_release_data(struct hrf_value *value);
/* When every kernel has its own form of them: what constants hold is gone, that they are constants
 * stays known. */
void hrf_graph_drop_constants(struct hrf_graph *graph);
/* Drops nodes whose outputs nobody uses, and values that no node, input or output names.
 * Values that shape inference computed become constants and their nodes go; constant inputs
 * that are really attributes (SLICE's starts, PAD's pads ...) have been read into the
 * attributes and go too. Renumbers; node order stays. Call it before compiling, on a copy if
 * the graph is to be inferred again for other input shapes. */
HRF_CHECKED enum hrf_status hrf_graph_compact(struct hrf_graph *graph, struct hrf_error *err);
/* Every index in range, topological order, one producer each, operator's input counts. */
HRF_CHECKED enum hrf_status hrf_graph_check(const struct hrf_graph *graph, struct hrf_error *err);

/* Sets every shape and type from the inputs' (which must be fully known). Evaluates the
 * shape-computing nodes (Shape, Gather, Concat ... of small integer constants) on the way, as
 * torchvision's exports need; their values get `data` and keep their nodes, so that the graph
 * can be inferred again for other input shapes. Names the node and the shapes when they do not
 * fit; shapes of later nodes are then undefined. */
HRF_CHECKED enum hrf_status hrf_graph_infer_shapes(struct hrf_graph *graph, struct hrf_error *err);
/* Graph output `output` in the type that the model gives it (values[..].dtype), from float32 as
 * hrf_pass_float_outputs() has it computed: `x`, of `shape`, ONNX order. `out`: as many elements.
 * Shapes and types of `graph` have been inferred. */
void hrf_graph_output_from_float(const struct hrf_graph *graph, int32_t output,
                                 const struct hrf_shape *shape, const float *x, void *out);
/* Sets the shape of graph input `input` (0 = the first), rank as the model says. Dims that the
 * model leaves open and the batch, rows and columns may take any size from 1; others must
 * agree with the model. Infer again afterwards. */
HRF_CHECKED enum hrf_status hrf_graph_set_input_shape(struct hrf_graph *graph, int32_t input,
                                                      const struct hrf_shape *shape,
                                                      struct hrf_error *err);

/* Rows or columns that a window gives for an input of `size`. Source: ONNX Conv, MaxPool,
 * AveragePool; ceil_mode as PyTorch (a window starting beyond the input does not count). */
int64_t hrf_window_output(const struct hrf_window *window, int axis, int64_t size);
/* Multiply-adds x 2 of one node with its present shapes (convolution, GEMM, else 0). */
double hrf_node_operations(const struct hrf_graph *graph, const struct hrf_node *node);
/* Numbers that one node reads and writes or multiply-adds x 2, whichever is more: what its time is
 * proportional to, for bounds. */
double hrf_node_work(const struct hrf_graph *graph, const struct hrf_node *node);
/* SHA-256 over structure, attributes and constants; names, order of values and the inputs' dims
 * do not count. Hash the graph as it was read: passes and inference change attributes. */
HRF_CHECKED enum hrf_status hrf_graph_hash(const struct hrf_graph *graph, char out[65],
                                           struct hrf_error *err);

#endif
