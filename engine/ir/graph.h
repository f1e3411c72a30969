/* graph.h - the network as data: values, nodes and constants. Building one computes nothing.
 *
 * Shapes are logical and follow ONNX: rank-4 values are N, C, H, W whatever the memory layout of a
 * back end is. Nodes are in topological order: a node's inputs are graph inputs, constants or
 * outputs of earlier nodes. Values and nodes are named by index, so that a pass can rewrite a graph
 * without pointers going stale. Not thread-safe while being changed.
 */
#ifndef HRF_ENGINE_IR_GRAPH_H
#define HRF_ENGINE_IR_GRAPH_H

#include "base/alloc.h"
#include "base/error.h"
#include "engine/ir/attributes.h"
#include "engine/ir/shape.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Functions of one number, once: the enum of operators, the operator table and the ONNX reader are
 * made of these lines. A line is ROW(operator, ONNX's name, its list of attributes in op.c, the
 * opset that it came with if after 13, the activation that it can be fused as). A new function
 * needs, besides its line here, its formula for the CPU and CUDA (engine/backend/formulas.h) and
 * its formula for the reference (engine/backend/ref/ref_pointwise.c). */
/* clang-format off */
#define HRF_UNARY_OPS(ROW)                                                                         \
    ROW(RELU, "Relu", NO_LIST, 0, RELU)                                                            \
    ROW(LEAKY_RELU, "LeakyRelu", LIST(leaky_relu), 0, LEAKY_RELU)                                  \
    ROW(SIGMOID, "Sigmoid", NO_LIST, 0, SIGMOID)                                                   \
    ROW(TANH, "Tanh", NO_LIST, 0, NONE)                                                            \
    ROW(EXP, "Exp", NO_LIST, 0, NONE)                                                              \
    ROW(LOG, "Log", NO_LIST, 0, NONE)                                                              \
    ROW(SQRT, "Sqrt", NO_LIST, 0, NONE)                                                            \
    ROW(NEG, "Neg", NO_LIST, 0, NONE)                                                              \
    ROW(ABS, "Abs", NO_LIST, 0, NONE)                                                              \
    ROW(RECIPROCAL, "Reciprocal", NO_LIST, 0, NONE)                                                \
    ROW(FLOOR, "Floor", NO_LIST, 0, NONE)                                                          \
    ROW(CEIL, "Ceil", NO_LIST, 0, NONE)                                                            \
    ROW(ERF, "Erf", NO_LIST, 0, NONE)                                                              \
    ROW(ELU, "Elu", LIST(elu), 0, NONE)                                                            \
    ROW(SELU, "Selu", LIST(selu), 0, NONE)                                                         \
    ROW(HARD_SIGMOID, "HardSigmoid", LIST(hard_sigmoid), 0, HARD_SIGMOID)                          \
    ROW(HARD_SWISH, "HardSwish", NO_LIST, 0, HARD_SWISH)                                           \
    ROW(SOFTPLUS, "Softplus", NO_LIST, 0, NONE)                                                    \
    ROW(SOFTSIGN, "Softsign", NO_LIST, 0, NONE)                                                    \
    ROW(CELU, "Celu", LIST(elu), 0, NONE)                                                          \
    ROW(THRESHOLDED_RELU, "ThresholdedRelu", LIST(elu), 0, NONE)                                   \
    ROW(SIN, "Sin", NO_LIST, 0, NONE)                                                              \
    ROW(COS, "Cos", NO_LIST, 0, NONE)                                                              \
    ROW(ATAN, "Atan", NO_LIST, 0, NONE)                                                            \
    ROW(TAN, "Tan", NO_LIST, 0, NONE)                                                              \
    ROW(SINH, "Sinh", NO_LIST, 0, NONE)                                                            \
    ROW(COSH, "Cosh", NO_LIST, 0, NONE)                                                            \
    ROW(ASIN, "Asin", NO_LIST, 0, NONE)                                                            \
    ROW(ACOS, "Acos", NO_LIST, 0, NONE)                                                            \
    ROW(ASINH, "Asinh", NO_LIST, 0, NONE)                                                          \
    ROW(ACOSH, "Acosh", NO_LIST, 0, NONE)                                                          \
    ROW(ATANH, "Atanh", NO_LIST, 0, NONE)                                                          \
    ROW(SHRINK, "Shrink", LIST(shrink), 0, NONE)                                                   \
    ROW(GELU, "Gelu", NO_LIST, 20, GELU)                                                           \
    ROW(GELU_TANH, "GeluTanh", NO_LIST, 20, GELU_TANH) /* ONNX Gelu with approximate = "tanh" */   \
    ROW(SWISH, "Swish", LIST(elu), 24, SWISH)                                                      \
    ROW(MISH, "Mish", NO_LIST, 18, NONE)                                                           \
    ROW(ROUND, "Round", NO_LIST, 0, NONE) /* half to even */                                       \
    ROW(SIGN, "Sign", NO_LIST, 0, NONE)
/* clang-format on */

/* Operators of the graph. ONNX's names where they are ONNX's; the table in op.c holds name,
 * input counts and which attributes are used, tied to this enum by a static assert. */
enum hrf_op {
    HRF_OP_CONV,
    HRF_OP_CONV_TRANSPOSE, /* output row y gets input rows i with y = s*i - p + d*k, 0 <= k < K */
    HRF_OP_GEMM,
    /* A product with 8-bit weights that rounds each token (row, pixel) of x to 8 bits by a scale of
     * its own. Made by lowering. */
    HRF_OP_TOKEN_PRODUCT,
    HRF_OP_MATMUL,
    HRF_OP_BATCH_NORM,
#define HRF_OP_NAME(OP, ...) HRF_OP_##OP,
    HRF_UNARY_OPS(HRF_OP_NAME)
#undef HRF_OP_NAME
        HRF_OP_CLIP,
    /* Inputs are x of 8 bits and a constant table of 256 elements of y's type: y is the element at
     * index x, taken as a byte. Made by passes. */
    HRF_OP_LOOKUP,
    HRF_OP_SOFTMAX,
    HRF_OP_LOG_SOFTMAX,
    HRF_OP_ADD, /* ADD to PRELU: with broadcasting */
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
    HRF_OP_GATHER, /* by constant indices */
    HRF_OP_SLICE,  /* the importer reads Split as several of these */
    HRF_OP_EXPAND, /* numpy's broadcast to a shape */
    HRF_OP_TILE,
    HRF_OP_DEPTH_TO_SPACE, /* output row y comes from input row y / size */
    HRF_OP_RESIZE,         /* rows and columns only; the importer reads Upsample as this */
    HRF_OP_SPACE_TO_DEPTH, /* output row y comes from input rows y * size .. (y + 1) * size - 1 */
    HRF_OP_REDUCE_MEAN,    /* REDUCE_MEAN to REDUCE_LOG_SUM_EXP: over any axes */
    HRF_OP_REDUCE_SUM,
    HRF_OP_REDUCE_MAX,
    HRF_OP_REDUCE_MIN,
    HRF_OP_REDUCE_PROD,
    HRF_OP_REDUCE_L1,
    HRF_OP_REDUCE_L2,
    HRF_OP_REDUCE_SUM_SQUARE,
    HRF_OP_REDUCE_LOG_SUM,
    HRF_OP_REDUCE_LOG_SUM_EXP,
    /* x, scale, bias (the last two may be missing), over the axes from `axis` on:
     *   y = (x - mean) / sqrt(variance + epsilon) * scale + bias */
    HRF_OP_LAYER_NORM,
    HRF_OP_RMS_NORM, /* x, scale: y = x / sqrt(mean of x^2 + epsilon) * scale, over the same axes */
    /* x, scale, bias: as LAYER_NORM over the channels of a group and all pixels; scale and bias
     * belong to the channels. `group` 0: each channel is a group (InstanceNormalization). */
    HRF_OP_GROUP_NORM,
    /* softmax(scale * q k' + mask) v over the last two axes, tokens and a head's channels. See
     * HRF_ATTENTION_Q. */
    HRF_OP_ATTENTION,
    /* The same for heads that lie in the channels of tokens; made by passes. See
     * HRF_ATTENTION_Q. */
    HRF_OP_TOKEN_ATTENTION,
    /* The same of 8-bit queries, keys and values, without a mask: scores and their softmax are
     * rounded to 8 bits as the model says (attention.scores, .weights). Made by lowering. */
    HRF_OP_BYTE_ATTENTION,
    HRF_OP_SWIGLU, /* y = x / (1 + exp(-x)) of the first half of the last axis, times the second */
    HRF_OP_WHERE,  /* condition (constant), x, y */
    /* x [N][D], scores [N][C] -> [C][D]: for each column of the scores the row of x at which it is
     * greatest, the first of equal ones. A NaN is greater than any number, as in PyTorch. */
    HRF_OP_SELECT_MAX,
    /* Exists only while a model is read: the indices of the greatest elements along `axis`, all in
     * descending order if `size` is 0, else the first ones. Nodes that select rows by them become
     * SELECT_MAX; other uses are not supported. */
    HRF_OP_TOP_K,
    /* 1 for the `greatest` greatest numbers of each row (the last axis), the first of equal ones, 0
     * for the others. A NaN is greater than any number. Only in graphs of training. */
    HRF_OP_TOP_K_MASK,
    HRF_OP_PERFORMER, /* linear attention; hrf_pass_split_attention() splits it into these three: */
    HRF_OP_PERFORMER_MAX,   /* k, projection -> [N][heads]: maximum over all pixels */
    HRF_OP_PERFORMER_STATE, /* k, v, projection, maximum or none -> F64 [N][heads][(d + 1) * m]: sum
                             * over all pixels, bit-identical in every order */
    HRF_OP_PERFORMER_APPLY, /* q, that sum, projection -> [N][C][H][W]: each pixel
                             * of q by itself */
    HRF_OP_CONSTANT,        /* folded away by the importer's first pass */
    HRF_OP_SHAPE,           /* folded away once shapes are known */
    HRF_OP_CAST,
    /* EQUAL to NON_ZERO: arithmetic on shapes and constants; always folded away, as the two
     * here. */
    HRF_OP_CONSTANT_OF_SHAPE,
    HRF_OP_EQUAL, /* EQUAL to MOD: with broadcasting */
    HRF_OP_LESS,
    HRF_OP_LESS_OR_EQUAL,
    HRF_OP_GREATER,
    HRF_OP_GREATER_OR_EQUAL,
    HRF_OP_AND,
    HRF_OP_OR,
    HRF_OP_XOR,
    HRF_OP_MOD,
    HRF_OP_NOT,
    HRF_OP_SIZE,
    HRF_OP_RANGE,
    HRF_OP_TRILU,
    HRF_OP_CUM_SUM,
    HRF_OP_SCATTER_ND,
    HRF_OP_GATHER_ND,
    HRF_OP_EYE_LIKE,
    HRF_OP_NON_ZERO,
    /* Conversion between float32 and 8 bits. With one input (inserted by hrf_pass_lower()) the
     * quantization field of the 8-bit value gives scale and zero point. With constant scale and
     * zero point inputs the node comes from the model; shape inference copies them to that field if
     * each is one number. */
    HRF_OP_QUANTIZE,
    HRF_OP_DEQUANTIZE,
    /* Only in the graph of one rank, inserted by engine/plan/partition_graph.c: */
    HRF_OP_EXCHANGE, /* moves rows and columns between ranks */
    /* Sum or maximum over the ranks. In a graph that is not divided yet: the sum over the groups of
     * data=, of which each computes with its own images. */
    HRF_OP_ALL_REDUCE,
    HRF_OP_POOL_SUM, /* sum over this rank's pixels for GLOBAL_AVERAGE_POOL: F32, or exact in S32 */
    HRF_OP_POOL_FINISH,    /* divides that sum by `size` pixels */
    HRF_OP_ATTENTION_PART, /* TOKEN_ATTENTION over some of the keys; see HRF_ATTENTION_SEEN */
    /* Only in the graph of gradients, made by engine/passes/gradient. dy is the gradient of the
     * loss to the output of an operator: */
    HRF_OP_FUNCTION_GRADIENT, /* x, dy: dy times the derivative of the unary operator `function` */
    HRF_OP_CONV_WEIGHT_GRADIENT, /* x, dy of a CONV: gradient to its weights */
    HRF_OP_MAX_POOL_GRADIENT,    /* x, dy: each dy goes to the first greatest x of its window */
    /* dy, indices of a GATHER: for each index of the `length` of `axis`, the sum of its dy. */
    HRF_OP_GATHER_GRADIENT,
    /* Q, K, V, dy of an ATTENTION without a mask, all with equally many columns: the gradients to
     * the rows of Q, the keys and the rows of V, one after the other along the axis before the
     * last. The weights are computed again, a few queries at a time. */
    HRF_OP_ATTENTION_GRADIENT,
    HRF_N_OPS
};
const char *hrf_op_name(enum hrf_op op);
/* Each is a class of the operator table, or two of them (op.h). */
bool hrf_op_communicates(enum hrf_op op); /* ranks exchange messages for it; it has no kernel */
bool hrf_op_is_unary(enum hrf_op op);
bool hrf_op_is_binary(enum hrf_op op);
/* The operator only copies elements, so an 8-bit result keeps the scale of its input. */
bool hrf_op_is_move(enum hrf_op op);
/* The operator's value is known when the model is loaded, or the model is refused. */
bool hrf_op_is_foldable_only(enum hrf_op op);
bool hrf_op_is_reduction(enum hrf_op op);
bool hrf_op_is_attention(enum hrf_op op); /* ATTENTION, TOKEN_ATTENTION, BYTE_ATTENTION */

/* A CLIP without a bound has -FLT_MAX or FLT_MAX as that bound. */
#define HRF_NO_VALUE (-1) /* a missing optional input */

struct hrf_node {
    enum hrf_op op;
    char *name;      /* as in the model file, or generated ("Conv_12"); never NULL */
    int32_t *inputs; /* value indices or HRF_NO_VALUE */
    int32_t n_inputs;
    int32_t *outputs;
    int32_t n_outputs;
    int32_t before; /* hrf_graph_place_nodes() moves the node in front of that one; -1: not moved */
    int32_t owner;  /* which of the ranks of tensor= alone computes it (plan/tensor_parallel.h); -1:
                       all */
    /* In a graph of gradients (passes/gradient): 1 + the number that the node had in the network,
     * or, if it is_backward, the node of the network whose gradients it computes; 0: a pass added
     * it. */
    int32_t origin;
    bool is_backward;
    struct hrf_attributes attributes;
};

/* Inputs of the operators with weights; every input from the bias on is optional:
 *   CONV            x, weights [M][C/group][kh][kw], bias [M], residual (shape of y)
 *   CONV_TRANSPOSE  x, weights [C][M/group][kh][kw], bias [M]
 *   GEMM            a, b, bias, residual. Passes make some whose `a` has more than 2 axes, but not
 *                   4, all but the last of which are rows, as those of y are.
 *   TOKEN_PRODUCT   x, weights [M][C], bias [M], residual, scales [M], factors [C]. x is F32, F16
 * or B16, of any rank: its innermost numbers (hrf_shape_innermost()), C of them, are a token. Each
 * token is multiplied by the factors, if they are there, and then rounded
 * (engine/backend/cpu/transformer/byte_product.h has the arithmetic). If x is S8 or U8, the weights
 * are S8 (those of CONV_TRANSPOSE in the order of CONV) and the fifth input holds their scales [M].
 * If x is F32 and the fifth input is there, each weight is an integer from -128 to 127 times its
 * scale: the model was quantised elsewhere. Until a graph is lowered to S8 such weights may be
 * those integers, in the order of F32 weights. A CONV with a prologue has its factors and shifts,
 * [C] each, as inputs six and seven. */
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
/* Input k of the node; HRF_NO_VALUE if it is missing. */
static inline int32_t hrf_node_input(const struct hrf_node *node, int32_t k)
{
    return k < node->n_inputs ? node->inputs[k] : HRF_NO_VALUE;
}
static inline bool hrf_node_has_input(const struct hrf_node *node, int32_t k)
{
    return hrf_node_input(node, k) >= 0;
}
/* The residual that a product adds to its sums; HRF_NO_VALUE if there is none, and for other
 * operators. */
static inline int32_t hrf_node_residual(const struct hrf_node *node)
{
    const bool may_add = node->op == HRF_OP_CONV || node->op == HRF_OP_GEMM ||
                         node->op == HRF_OP_TOKEN_PRODUCT;
    return may_add ? hrf_node_input(node, HRF_CONV_RESIDUAL) : HRF_NO_VALUE;
}
/* QUANTIZE's and DEQUANTIZE's inputs; the last two may be missing. */
enum { HRF_QUANTIZE_X, HRF_QUANTIZE_SCALE, HRF_QUANTIZE_ZERO_POINT };

/* ATTENTION: q [..][T][d], k [..][S][d] (with transpose_k [..][d][S]), v [..][S][e], mask (may be
 * missing) that broadcasts to [..][T][S] and is added to the scores; all of rank 3 or 4, y
 * [..][T][e]. Of rank 4, k and v may have fewer heads (axis 1) than q: each then serves as many of
 * q's. */
/* TOKEN_ATTENTION: q [N][T][..], k and v [N][S][..], whose heads lie in the channels. Head h of
 * input i is the `head_size` channels from first[i] + h * stride[i] on. y is [N][T][heads *
 * head_size]. A mask broadcasts to [N][heads][T][S]. */
enum { HRF_ATTENTION_Q, HRF_ATTENTION_K, HRF_ATTENTION_V, HRF_ATTENTION_MASK };
/* ATTENTION_PART: q, k, v as TOKEN_ATTENTION, no mask, and what the queries have seen of earlier
 * keys (may be missing). That state is F32, [N][T][heads * (head_size + HRF_ATTENTION_STATE)]: for
 * each head the sum of exp(score - largest) v, the largest score and the sum of exp(score -
 * largest). The output is the state with these keys added, or, of the shape of TOKEN_ATTENTION's,
 * the result. */
enum { HRF_ATTENTION_SEEN = HRF_ATTENTION_MASK + 1, HRF_ATTENTION_STATE = 2 };
/* Attention over more keys than HRF_ATTENTION_LONG adds them in blocks of HRF_ATTENTION_KEYS. Parts
 * that begin at multiples of such a block have the bits of the whole. */
enum { HRF_ATTENTION_LONG = 4096, HRF_ATTENTION_KEYS = 512 };
static inline bool hrf_attention_gives_state(const struct hrf_attributes *a,
                                             const struct hrf_shape *y)
{
    return y->dims[2] == a->attention.heads * (a->attention.head_size + HRF_ATTENTION_STATE);
}

/* PERFORMER: linear attention. The tokens are the pixels of images of C channels; the heads are
 * consecutive in the channels: y = phi(q) . (sum over tokens of phi(k) v') / (phi(q) . sum of
 * phi(k)) With d = C / heads and m random features, which are the rows P of `projection` [m][d],
 * the features of a token u of one head are: ReLU kernel:    phi(u) = max(0, P u / d^(1/4)) +
 * epsilon softmax kernel: phi(u) = exp(P u / d^(1/4) - |u|^2 / (2 sqrt d) - M) + epsilon, where M
 * is the largest P u / d^(1/4): for q of each token, for k over all tokens of an image and head.
 * Source: Choromanski et al., "Rethinking attention with Performers" (2020). */
enum { HRF_PERFORMER_Q, HRF_PERFORMER_K, HRF_PERFORMER_V, HRF_PERFORMER_PROJECTION };
enum { HRF_STATE_K, HRF_STATE_V, HRF_STATE_PROJECTION, HRF_STATE_MAX };
/* PERFORMER_STATE rounds its terms to multiples of this, so that sums up to 2^27 are exact. */
#define HRF_PERFORMER_GRID         0x1p-26
#define HRF_PERFORMER_MAX_HEAD     512  /* d */
#define HRF_PERFORMER_MAX_FEATURES 4096 /* m */

/* The meaning of the integers of an S8 or U8 value: real = (q - zero_point) * scale. */
struct hrf_quantization {
    float scale; /* > 0; 0: the value is not quantised */
    int32_t zero_point;
};

struct hrf_value {
    char *name;
    enum hrf_dtype dtype;
    /* For an F32 constant in a graph that is lowered to S8: if it has a scale, its elements are
     * 8-bit integers minus a zero point, times that scale. */
    struct hrf_quantization quantization;
    struct hrf_shape shape; /* rank -1: not known yet; a dim of -1: not known (batch) */
    /* Pixel stride of a computed rank-4 value: elements in memory from the first channel of one
     * pixel to that of the next; 0: the number of channels (plan/pixel_stride.h). */
    int64_t pixel_stride;
    /* Rank 3, [N][T][C]: every `grain` tokens are a window, which ranks do not divide and to which
     * a TOKEN_ATTENTION that computes the value is limited; 0: no windows. Only in a graph that is
     * to be divided over ranks (plan/windows.h). */
    int64_t grain;
    void *data; /* constants: dense, in shape order, on the heap, never changed; else NULL */
    struct hrf_shared_data *share; /* reference count of `data`; NULL: not shared */
    bool is_borrowed;              /* data belongs to another graph, which lives longer */
    bool is_initializer;           /* a tensor of the model's file: weights, or a buffer */
    /* A constant whose data may change between runs (hrf_graph_close_inputs()): kernels made with
     * them are then made again (hrf_session_refresh()). */
    bool is_variable;
    /* An output of the graph: those of parts of a batch add up to that of the batch. The others are
     * joined along their first axis. */
    bool is_batch_sum;
    bool is_of_batch; /* An output of the graph: it is that of the batch on every part of it. */
    /* Index of the node that computes it; -1 for inputs and constants. A value with data and a
     * producer was computed by shape inference; hrf_graph_compact() turns it into a constant. */
    int32_t producer;
};

/* Bytes in memory of a value whose shape is known. */
int64_t hrf_value_bytes(const struct hrf_value *value);
static inline int64_t hrf_value_pixel_stride(const struct hrf_value *value)
{
    return value->pixel_stride > 0 ? value->pixel_stride : value->shape.dims[1];
}

/* Limits on what a model may ask for, on any device. Shape inference refuses a model above them
 * before it allocates or computes anything. They hold for one image; a batch of N images may take N
 * times as much. */
struct hrf_bounds {
    int64_t
        memory_bytes;  /* of one tensor; also of all constants together, computed ones included */
    double operations; /* of all nodes (hrf_node_work) */
};
/* A layer of 64 channels over the largest image (32,767 px a side) is just below this limit. */
#define HRF_DEFAULT_MAX_MEMORY ((int64_t)256 << 30)
/* For comparison: ResNet-101 over such an image takes 3.3e14 operations. */
#define HRF_DEFAULT_MAX_OPERATIONS 1e16
/* Rows or columns of what a window or RESIZE reads and gives, and what a window's numbers are
 * below: no slide is larger, and vendor kernels compute with them in 32 bits. */
#define HRF_MAX_SIDE ((int64_t)1 << 20)

struct hrf_graph {
    char *name;
    struct hrf_bounds bounds; /* the defaults, until set */
    /* The images of the batch of which this graph computes a micro-batch; 0: its inputs' batch is
     * the whole. */
    int64_t n_images;
    struct hrf_value *values;
    int32_t n_values;
    struct hrf_node *nodes;
    int32_t n_nodes;
    int32_t *inputs; /* value indices, without the constants */
    int32_t n_inputs;
    int32_t *outputs;
    int32_t n_outputs;
    /* The shape of the only input in the model's file (a dim of -1: open). Rank 0: no file, or
     * several inputs (fixed_input.h). */
    struct hrf_shape file_shape;
    size_t values_capacity, nodes_capacity; /* private */
};
/* Input k as a value; NULL if it is missing. */
static inline const struct hrf_value *hrf_node_value(const struct hrf_graph *graph,
                                                     const struct hrf_node *node, int32_t k)
{
    return hrf_node_has_input(node, k) ? &graph->values[node->inputs[k]] : NULL;
}
/* True if input k is there and is a constant. */
static inline bool hrf_node_has_constant(const struct hrf_graph *graph, const struct hrf_node *node,
                                         int32_t k)
{
    return hrf_node_has_input(node, k) && graph->values[node->inputs[k]].data != NULL;
}

/* last[v]: the last node that reads value v; -1: none does. */
void hrf_graph_find_last_readers(const struct hrf_graph *graph, int32_t *last);
/* True for a value that is neither missing nor constant. */
static inline bool hrf_graph_is_variable(const struct hrf_graph *graph, int32_t value)
{
    return value >= 0 && graph->values[value].data == NULL;
}

/* The BATCH_NORM that is marked as a possible second output of this node: it is the next node and
 * reads its output. A back end may then compute both in one pass (fused_pair.h). NULL: none. */
static inline const struct hrf_node *hrf_graph_second_of(const struct hrf_graph *graph,
                                                         const struct hrf_node *node)
{
    const int32_t made = node->outputs[0], next = made >= 0 ? graph->values[made].producer + 1 : 0;
    if (next < 1 || next >= graph->n_nodes)
        return NULL;
    const struct hrf_node *second = &graph->nodes[next];
    return second->op == HRF_OP_BATCH_NORM && second->attributes.is_second &&
                   second->inputs[0] == made
               ? second
               : NULL;
}
/* True if the node is the second output of the node before it. */
static inline bool hrf_graph_is_second(const struct hrf_graph *graph, const struct hrf_node *node)
{
    if (node->op != HRF_OP_BATCH_NORM || !node->attributes.is_second)
        return false;
    const int32_t producer = graph->values[node->inputs[0]].producer;
    return producer >= 0 && hrf_graph_second_of(graph, &graph->nodes[producer]) == node;
}

/* True if the attention's keys are added in blocks: a part, or a TOKEN_ATTENTION without a mask
 * over many keys. */
static inline bool hrf_attention_is_long(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const bool has_mask = node->n_inputs > HRF_ATTENTION_MASK &&
                          node->inputs[HRF_ATTENTION_MASK] >= 0;
    return node->op == HRF_OP_ATTENTION_PART ||
           (node->op == HRF_OP_TOKEN_ATTENTION && !has_mask && !node->attributes.attention.causal &&
            graph->values[node->outputs[0]].grain == 0 &&
            graph->values[node->inputs[HRF_ATTENTION_K]].shape.dims[1] > HRF_ATTENTION_LONG);
}

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
/* Adds a node that belongs before node `at`. It is appended, so that no index changes; a later
 * hrf_graph_place_nodes() moves all such nodes to their places in one linear walk. Several nodes
 * before the same node keep their order. */
HRF_CHECKED enum hrf_status hrf_graph_insert_node(struct hrf_graph *graph, int32_t at,
                                                  enum hrf_op op, const char *name,
                                                  const int32_t *inputs, int32_t n_inputs,
                                                  const int32_t *outputs, int32_t n_outputs,
                                                  const struct hrf_attributes *attributes,
                                                  struct hrf_error *err);
void hrf_graph_place_nodes(struct hrf_graph *graph);
HRF_CHECKED enum hrf_status hrf_graph_set_io(struct hrf_graph *graph, const int32_t *inputs,
                                             int32_t n_inputs, const int32_t *outputs,
                                             int32_t n_outputs, struct hrf_error *err);
struct hrf_attributes hrf_attributes_default(void); /* strides 1, group 1, alpha 1, ... */
/* The attributes of a SLICE that takes [begin, end) of one axis. */
struct hrf_attributes hrf_attributes_slice(int64_t axis, int64_t begin, int64_t end);
int32_t hrf_graph_find_value(const struct hrf_graph *graph, const char *name); /* -1: not found */
int32_t hrf_graph_count_uses(const struct hrf_graph *graph,
                             int32_t value); /* graph outputs included */
void hrf_graph_count_all_uses(const struct hrf_graph *graph, int32_t *n_uses); /* [n_values] */
/* Adds a constant. The graph takes ownership of `data` (heap, dense) on success only. */
HRF_CHECKED enum hrf_status hrf_graph_take_value(struct hrf_graph *graph, const char *name,
                                                 enum hrf_dtype dtype,
                                                 const struct hrf_shape *shape, void **data,
                                                 int32_t *index, struct hrf_error *err);
/* Adds a constant whose `data` belongs to another graph, which must outlive this one, so that many
 * ranks use one set of weights. A copy of this graph copies the data. */
HRF_CHECKED enum hrf_status hrf_graph_borrow_value(struct hrf_graph *graph, const char *name,
                                                   enum hrf_dtype dtype,
                                                   const struct hrf_shape *shape, void *data,
                                                   int32_t *index, struct hrf_error *err);
/* Adds a copy of another graph's value. The data of a constant is shared by reference count: the
 * last graph that is destroyed frees it. Any thread may share from a graph that is not being
 * changed. */
HRF_CHECKED enum hrf_status hrf_graph_share_value(struct hrf_graph *graph,
                                                  const struct hrf_value *value, const char *name,
                                                  int32_t *index, struct hrf_error *err);
/* For code that makes a computed value a constant: other graphs can then share its data. If memory
 * is short they copy it. */
void hrf_value_own_data(struct hrf_value *value);
/* For code that removes values: frees the data unless another graph shares it. */
void hrf_value_release_data(struct hrf_value *value);
/* Gives a constant other data (heap, dense, of the shape that the value has or then gets), which it
 * owns from then on. Graphs that share the old data keep them. */
void hrf_value_set_data(struct hrf_value *value, void *data);
/* Makes constants inputs of the graph, appended in this order, so that no pass computes with their
 * numbers, which are released. Their values keep their indices and names. */
HRF_CHECKED enum hrf_status hrf_graph_open_constants(struct hrf_graph *graph, const int32_t *values,
                                                     int32_t n, struct hrf_error *err);
/* Makes the last `n` inputs variable constants of `data[i]` (dense, in ONNX order), which outlive
 * the graph. */
void hrf_graph_close_inputs(struct hrf_graph *graph, float *const *data, int32_t n);
/* Frees the data of all constants, once every kernel has its own packed copy. The values stay
 * marked as constants. */
void hrf_graph_drop_constants(struct hrf_graph *graph);
/* The same for one value; does nothing if it is no constant. */
void hrf_graph_drop_constant(struct hrf_graph *graph, int32_t index);
/* Removes nodes whose outputs nobody uses, and values that no node, input or output names. Values
 * that shape inference computed become constants and their nodes are removed. Constant inputs that
 * shape inference has read into the attributes (SLICE's starts, PAD's pads ...) are removed, too.
 * Indices change; the order of nodes stays. Call it before compiling, on a copy if shapes are to be
 * inferred again for other input shapes. */
HRF_CHECKED enum hrf_status hrf_graph_compact(struct hrf_graph *graph, struct hrf_error *err);
/* The same, but every node keeps its inputs, so that it may also be called before shapes are
 * inferred. */
HRF_CHECKED enum hrf_status hrf_graph_remove_unused(struct hrf_graph *graph, struct hrf_error *err);
/* Checks that every index is in range, the nodes are in topological order, each value has one
 * producer and each node as many inputs as its operator allows. */
HRF_CHECKED enum hrf_status hrf_graph_check(const struct hrf_graph *graph, struct hrf_error *err);

/* Computes every shape and type from those of the inputs, which must be fully known. It also
 * evaluates nodes that compute shapes (Shape, Gather, Concat ... of small integer constants), which
 * torchvision's exports contain; their values get `data` and keep their nodes, so that shapes can
 * be inferred again for other inputs. An error names the node and the shapes that do not fit; the
 * shapes of later nodes are then undefined. */
HRF_CHECKED enum hrf_status hrf_graph_infer_shapes(struct hrf_graph *graph, struct hrf_error *err);
/* Converts graph output `output` from the float32 that hrf_pass_float_outputs() computes (`x`, of
 * `shape`, in ONNX order) to the type that the model declares (values[..].dtype). `out` has room
 * for as many elements. Shapes and types of `graph` have been inferred. */
void hrf_graph_output_from_float(const struct hrf_graph *graph, int32_t output,
                                 const struct hrf_shape *shape, const float *x, void *out);
/* Sets the shape of graph input `input` (0 = the first). The rank must be the model's. Dims that
 * the model leaves open may have any size from 1, and so may the batch, rows and columns that its
 * file fixes if nothing in the network needs those (fixed_input.h); all others must agree with the
 * model. Infer shapes again afterwards. */
HRF_CHECKED enum hrf_status hrf_graph_set_input_shape(struct hrf_graph *graph, int32_t input,
                                                      const struct hrf_shape *shape,
                                                      struct hrf_error *err);

/* The batch of the model's file if the network can be run with no other (fixed_input.h); 0: any. Of
 * `shape`, an input's, only the rows and columns count, where the file leaves those open. */
int64_t hrf_graph_fixed_batch(const struct hrf_graph *graph, const struct hrf_shape *shape);
/* That batch, or the number of images that `shape` has. */
int64_t hrf_graph_images(const struct hrf_graph *graph, const struct hrf_shape *shape);

/* Number of output rows or columns of a window over an input of `size`. Source: ONNX Conv, MaxPool,
 * AveragePool; ceil_mode as in PyTorch (a window that starts beyond the input does not count). */
int64_t hrf_window_output(const struct hrf_window *window, int axis, int64_t size);
/* Operations (2 x multiply-adds) of one node with its present shapes; 0 for operators without
 * products. */
double hrf_node_operations(const struct hrf_graph *graph, const struct hrf_node *node);
/* The larger of a node's operations and the elements that it reads and writes: an estimate of its
 * time for struct hrf_bounds. */
double hrf_node_work(const struct hrf_graph *graph, const struct hrf_node *node);
/* SHA-256 over structure, attributes and constants. Names, the order of values and the dims of the
 * inputs do not count. Hash the graph as it was read, because passes and shape inference change
 * attributes. */
HRF_CHECKED enum hrf_status hrf_graph_hash(const struct hrf_graph *graph, char out[65],
                                           struct hrf_error *err);

#endif
