/* op.h - the operator table: names, numbers of inputs and outputs, and the attributes in use.
 *
 * The table is immutable, so any thread may read it. It knows nothing of back ends; ask a back end
 * what it supports.
 */
#ifndef HRF_ENGINE_IR_OP_H
#define HRF_ENGINE_IR_OP_H

#include "engine/ir/graph.h"

/* Which part of its inputs a part of the output (some rows and columns) needs; each kind is a rule
 * of engine/plan/region.c. Only operators with such a rule are computed in parts. */
enum hrf_region {
    HRF_REGION_WHOLE = 1, /* of everything */
    HRF_REGION_POINT,     /* of the same pixels */
    HRF_REGION_CHANNELS,  /* of the same pixels, if `axis` is no axis of pixels */
    HRF_REGION_PIXEL,  /* of the same pixels, if the node works on each by itself (of_each_pixel) */
    HRF_REGION_WINDOW, /* of what a window sees from there */
    HRF_REGION_SPREAD, /* of the pixels whose windows, spread out, reach there */
    HRF_REGION_BLOCK,  /* of blocks of `size` x `size` pixels */
    HRF_REGION_UNBLOCK, /* of the pixels that blocks are made of */
    HRF_REGION_PAD,     /* of the pixels as far from the border as the pads say */
    HRF_REGION_SLICE,   /* of every step-th pixel from somewhere on */
    HRF_REGION_RESIZE,  /* of the pixels around their places in the image of another size */
    HRF_REGION_SUM, /* of everything; parts of the input make partial results that add up to it */
    HRF_REGION_REDUCE,      /* the same in a graph of gradients, if it is over rows and columns */
    HRF_REGION_WINDOW_SUM,  /* the same of parts of input 1, and of what windows see from there */
    HRF_REGION_WINDOW_BACK, /* of the windows that see it, and of what these see */
    HRF_N_REGIONS
};

/* What an operator computes. Code that treats a whole class alike asks for the class. */
enum hrf_op_class {
    HRF_CLASS_UNARY = 1, /* each element by itself */
    HRF_CLASS_BINARY,    /* two elements, with broadcasting */
    HRF_CLASS_PRODUCT,   /* sums of products with weights */
    HRF_CLASS_NORM,      /* of each element, and of statistics of some axes */
    HRF_CLASS_POOL,      /* a mean or maximum over rows and columns */
    HRF_CLASS_REDUCE,    /* over any axes */
    HRF_CLASS_VIEW,      /* the same elements in the same order, in another shape */
    HRF_CLASS_MOVE,      /* copies of elements in another order */
    HRF_CLASS_ATTENTION,
    HRF_CLASS_CONVERT, /* another type of the same number */
    HRF_CLASS_KNOWN,   /* folded away when the model is loaded */
    HRF_CLASS_MESSAGE, /* between ranks */
    HRF_CLASS_OTHER,
    HRF_N_CLASSES
};

/* The same for an output of tokens, [N][T][C], that ranks divide; each kind is a rule of
 * engine/plan/region_tokens.c. */
enum hrf_token_rule {
    HRF_TOKENS_WHOLE = 1, /* of all tokens */
    HRF_TOKENS_EACH,      /* of the same tokens */
    HRF_TOKENS_POINT,     /* of the same tokens, of inputs that broadcast */
    HRF_TOKENS_CHANNELS,  /* of the same tokens, if the operator works on their channels */
    HRF_TOKENS_SCALE,     /* of the same tokens, if they have one scale */
    HRF_TOKENS_PRODUCT,   /* of the same tokens and of all weights */
    HRF_TOKENS_CONCAT,
    HRF_TOKENS_SLICE,
    HRF_TOKENS_GATHER,
    HRF_TOKENS_RESHAPE,   /* an image as tokens or tokens as an image */
    HRF_TOKENS_ATTENTION, /* of the same queries, and of all keys and values or those of windows */
    HRF_N_TOKEN_RULES
};

/* Which rows of its inputs a row of the output needs, in a network that is computed on some rows of
 * a bag, [N][D], at a time; each kind is a rule of engine/run/row_rules.c. */
enum hrf_row_rule {
    HRF_ROWS_WHOLE = 1, /* of all rows */
    HRF_ROWS_POINT,     /* of the same rows, of inputs that broadcast */
    HRF_ROWS_VIEW,      /* of the same rows, if they are an axis of the output, too */
    HRF_ROWS_TRANSPOSE, /* of the same rows, which become another axis */
    HRF_ROWS_REDUCE,    /* of the same rows, or what blocks of them are joined to */
    HRF_ROWS_PRODUCT,   /* of the same rows or columns, or the sum over blocks of them */
    HRF_ROWS_SOFTMAX,   /* of the same rows, or weights of the rows */
    HRF_ROWS_AXIS,      /* of the same rows, if `axis` is another axis */
    HRF_ROWS_LATER,     /* of the same rows, if `axis` comes after them */
    HRF_ROWS_CHANNELS,  /* of the same rows, if they are not axis 1 */
    HRF_ROWS_LAST,      /* of the same rows, if they are not the last axis */
    HRF_ROWS_SLICE,     /* of the same rows, if it cuts other axes */
    HRF_ROWS_CONCAT,    /* of the same rows, if it joins along another axis */
    HRF_ROWS_SELECT,    /* of the rows of the greatest scores */
    HRF_N_ROW_RULES
};

/* How results of several blocks of rows are combined into the result of all rows. */
enum hrf_joining {
    HRF_JOIN_NONE, /* they do not */
    HRF_JOIN_SUM,
    HRF_JOIN_MEAN, /* weighted by the numbers of rows */
    HRF_JOIN_MAX,
    HRF_JOIN_MIN,
    HRF_JOIN_LOG_SUM_EXP,
    HRF_JOIN_SOFTMAX,    /* a sum that is linear in the weights of a softmax over the rows */
    HRF_JOIN_SELECT_MAX, /* SELECT_MAX's rows: those of the block with the greatest score */
    HRF_N_JOININGS
};

/* For which rows and columns an operator computes the same function, other than those that the
 * model's file fixes; each kind is a rule of engine/ir/fixed_input.c. An axis is open if its length
 * follows the rows or columns of the input. */
enum hrf_size_rule {
    HRF_SIZE_FIXED = 1, /* not known: it counts as made for the file's size */
    HRF_SIZE_STAYS,     /* any: every open axis is one of the output, counted from the last */
    HRF_SIZE_WINDOW,    /* any, unless a fixed size explains its windows or pads */
    HRF_SIZE_ANY,       /* any: an axis may move, or vanish in a mean or extreme of what is there */
    HRF_SIZE_VIEW,      /* any, if an open axis is not cut at a number */
    HRF_SIZE_SLICE,     /* any, if all of an open axis is taken, or every step-th of it */
    HRF_SIZE_PRODUCT,   /* any, if the sums are not along an open axis */
    HRF_SIZE_UNMET,     /* it does not occur where shapes depend on the input */
    HRF_N_SIZE_RULES
};

/* How lowering to 16 or 8 bits (engine/passes/lower.h) treats an operator. An operator that follows
 * computes in fewer bits if all of its run-time inputs are in fewer bits. */
enum hrf_precision_rule {
    HRF_PRECISION_FLOAT = 1, /* computes in float32 in every precision */
    HRF_PRECISION_HALF,      /* follows to 16 bits; computes in float32 where its inputs have 8 */
    HRF_PRECISION_SUM,       /* the same; in a step of training its result is in float32 */
    HRF_PRECISION_MATRICES,  /* the same; in a step of training as PRODUCT */
    HRF_PRECISION_FOLLOWS,   /* follows to 16 and to 8 bits; an 8-bit result has its own scale */
    HRF_PRECISION_SELECTS,   /* the same, but its 8-bit result has its input's scale, since it only
                                selects or reorders numbers */
    HRF_PRECISION_PRODUCT,   /* computes in fewer bits if its weights can; its inputs follow it */
    HRF_N_PRECISION_RULES
};

/* How the gradients to an operator's inputs follow from that to its output: the enum below, and
 * the functions of engine/passes/gradient, are made of these lines. ROW(rule, its function). */
/* clang-format off */
#define HRF_GRADIENT_RULES(ROW)                                                                    \
    ROW(FUNCTION, function_of_one)                                                                 \
    ROW(ADD, add)                                                                                  \
    ROW(SUB, sub)                                                                                  \
    ROW(MUL, mul)                                                                                  \
    ROW(DIV, div)                                                                                  \
    ROW(POW, pow)                                                                                  \
    ROW(EXTREME, extreme) /* of MAX and MIN: dy goes to the input that is the output */            \
    ROW(PRELU, prelu)                                                                              \
    ROW(WHERE, where)                                                                              \
    ROW(CONV, conv) /* a CONV_TRANSPOSE by the same weights; CONV_WEIGHT_GRADIENT */               \
    ROW(CONV_TRANSPOSE, conv_transpose)                                                            \
    ROW(GEMM, gemm)                                                                                \
    ROW(MATMUL, matmul)                                                                            \
    ROW(ATTENTION, attention)                                                                      \
    ROW(PERFORMER, performer)                                                                      \
    ROW(BATCH_NORM, batch_norm) /* with constant statistics */                                     \
    ROW(SOFTMAX, softmax)                                                                          \
    ROW(LOG_SOFTMAX, log_softmax)                                                                  \
    ROW(LAYER_NORM, layer_norm)                                                                    \
    ROW(RMS_NORM, rms_norm)                                                                        \
    ROW(GROUP_NORM, group_norm)                                                                    \
    ROW(LRN, lrn)                                                                                  \
    ROW(MAX_POOL, max_pool)                                                                        \
    ROW(AVERAGE_POOL, average_pool) /* a CONV_TRANSPOSE by ones */                                 \
    ROW(GLOBAL_MEAN, global_mean)                                                                  \
    ROW(GLOBAL_MAX, global_max)                                                                    \
    ROW(RESIZE, resize) /* products with the transposed weights of rows and columns */             \
    ROW(VIEW, view)                                                                                \
    ROW(CONCAT, concat)                                                                            \
    ROW(TRANSPOSE, transpose)                                                                      \
    ROW(PAD, pad)                                                                                  \
    ROW(GATHER, gather)                                                                            \
    ROW(SELECT_MAX, select_max) /* none to the scores, which choose */                              \
    ROW(SLICE, slice)                                                                              \
    ROW(EXPAND, expand)                                                                            \
    ROW(TILE, tile)                                                                                \
    ROW(DEPTH_TO_SPACE, depth_to_space)                                                            \
    ROW(SPACE_TO_DEPTH, space_to_depth)                                                            \
    ROW(REDUCE_MEAN, reduce_mean)                                                                  \
    ROW(ALL_REDUCE, all_reduce) /* over groups: its own transpose */                               \
    ROW(REDUCE_SUM, reduce_sum)                                                                    \
    ROW(REDUCE_EXTREME, reduce_extreme) /* of REDUCE_MAX and REDUCE_MIN */                         \
    ROW(REDUCE_PROD, reduce_prod)                                                                  \
    ROW(REDUCE_L1, reduce_l1)                                                                      \
    ROW(REDUCE_L2, reduce_l2)                                                                      \
    ROW(REDUCE_SUM_SQUARE, reduce_sum_square)                                                      \
    ROW(REDUCE_LOG_SUM, reduce_log_sum)                                                            \
    ROW(REDUCE_LOG_SUM_EXP, reduce_log_sum_exp)
/* clang-format on */
enum hrf_gradient_rule {
    HRF_GRADIENT_REFUSED = 1, /* not known: a network is not trained through it */
    HRF_GRADIENT_ZERO,        /* its output does not change with small changes of its inputs */
#define HRF_GRADIENT_NAME(RULE, function) HRF_GRADIENT_##RULE,
    HRF_GRADIENT_RULES(HRF_GRADIENT_NAME)
#undef HRF_GRADIENT_NAME
        HRF_N_GRADIENTS
};

/* What an input is for. */
enum hrf_input_role {
    HRF_INPUT_DATA,      /* what is computed; a constant or from run time */
    HRF_INPUT_PARAMETER, /* numbers that belong to channels or outputs, not to rows and columns */
    HRF_INPUT_WEIGHTS,   /* the same, and a constant: kernels pack it when they are made */
    HRF_INPUT_INDEX,     /* integers or truth values, and a constant likewise */
    HRF_INPUT_KNOWN,     /* shape inference reads it: it is known once shapes are */
    HRF_INPUT_CODED,     /* 8-bit numbers, or their scales and zero points */
    HRF_N_INPUT_ROLES
};

enum hrf_attribute_type {
    HRF_ATTRIBUTE_INT = 1, /* int64_t */
    HRF_ATTRIBUTE_INTS,    /* `n` of them */
    HRF_ATTRIBUTE_PAIR,    /* two of them, for rows and columns */
    HRF_ATTRIBUTE_PADS,    /* four of them, around a window; they count unless auto_pad does */
    HRF_ATTRIBUTE_LIST,    /* `n` of them for each of n_axes */
    HRF_ATTRIBUTE_FLOAT,   /* `n` floats */
    HRF_ATTRIBUTE_FLAG,    /* bool */
    HRF_ATTRIBUTE_WORD,    /* an enum */
    HRF_ATTRIBUTE_TYPE     /* enum hrf_dtype */
};
/* A member of struct hrf_attributes that an operator has. Reading, writing, hashing and testing
 * walk these rows. */
struct hrf_attribute {
    const char *name; /* ONNX's; NULL: not in a file as such, but set by a pass or a converter */
    enum hrf_attribute_type type;
    size_t offset;
    int32_t n;
    const char *const *words; /* of a WORD, or of a FLAG's false and true; NULL after the last */
    double initial;           /* with has_initial: what is meant where it is missing; else */
    bool has_initial;         /* hrf_attributes_default() has it */
    bool is_required;
    bool is_derived;   /* shape inference makes it of the inputs' shapes */
    bool is_of_inputs; /* a member that describes how to read the inputs that carry attributes */
    bool is_always_written; /* though it may be the initial value */
    int32_t input;          /* newer opsets have it as this input; 0: no */
    int32_t since;          /* the opset that it came with, if after 13 */
};

struct hrf_op_info {
    enum hrf_op op;
    const char *name; /* ONNX's */
    enum hrf_op_class op_class;
    enum hrf_region region;
    enum hrf_token_rule tokens;
    int32_t min_inputs; /* none of these may be HRF_NO_VALUE */
    int32_t max_inputs; /* INT32_MAX: any number */
    int32_t max_outputs;
    /* The roles of inputs 0 to n_roles - 1. The others are DATA, and from first_attribute_input on
     * KNOWN. */
    const enum hrf_input_role *roles;
    int32_t n_roles;
    int32_t rank; /* of input 0: 4, an image [N][C][H][W]; 0: any */
    /* Bit k: the output may take the memory of input k, which has the same shape, because no other
     * element of the output is made of an element of the input. A VIEW: if it moves nothing. 0:
     * what the class says; read hrf_op_may_overwrite(). */
    uint32_t in_place;
    enum hrf_precision_rule precision; /* 0: that of the class; read hrf_op_precision() */
    enum hrf_row_rule rows;            /* the same; read hrf_op_rows() */
    enum hrf_size_rule sizes;          /* the same; read hrf_op_sizes() */
    enum hrf_gradient_rule gradient;   /* the same; read hrf_op_gradient() */
    enum hrf_joining joining;          /* where the rule of rows is REDUCE or SELECT */
    uint32_t linear; /* bit k: the output is linear in input k; stated where rules of rows ask */
    enum hrf_activation activation; /* what it becomes when it is fused into another operator */
    const struct hrf_attribute *attributes;
    int32_t n_attributes;
    /* Inputs from this index on carry attributes (newer opsets): they must be constants, and shape
     * inference reads them into the attributes. 0: none. */
    int32_t first_attribute_input;
    int32_t since; /* the opset that it came with, if after 13 */
    bool is_made;  /* by passes and converters: no model brings an operator of that name */
};

const struct hrf_op_info *hrf_op_info(enum hrf_op op);
/* If an operator's row does not state one of these, its class does. */
enum hrf_precision_rule hrf_op_precision(enum hrf_op op);
enum hrf_row_rule hrf_op_rows(enum hrf_op op);
enum hrf_size_rule hrf_op_sizes(enum hrf_op op);
enum hrf_gradient_rule hrf_op_gradient(enum hrf_op op);
bool hrf_op_is_linear(enum hrf_op op, int32_t input);
enum hrf_input_role hrf_op_role(enum hrf_op op, int32_t input);
/* True if the output may take the memory of that input, as far as the operator is concerned. */
bool hrf_op_may_overwrite(enum hrf_op op, int32_t input);
/* The operator with that ONNX name; HRF_N_OPS if there is none. */
enum hrf_op hrf_op_find(const char *name);

/* True if the operator has that member of struct hrf_attributes. */
#define HRF_OP_HAS(op, member) hrf_op_has_attribute(op, offsetof(struct hrf_attributes, member))
bool hrf_op_has_attribute(enum hrf_op op, size_t offset);
/* The attributes that ONNX defines as defaults. */
struct hrf_attributes hrf_attributes_of(enum hrf_op op);
static inline void *hrf_attribute_at(struct hrf_attributes *a, const struct hrf_attribute *row)
{
    return (char *)a + row->offset;
}
static inline const void *hrf_attribute_of(const struct hrf_attributes *a,
                                           const struct hrf_attribute *row)
{
    return (const char *)a + row->offset;
}
/* The number of elements that the attribute has. */
int32_t hrf_attribute_count(const struct hrf_attributes *a, const struct hrf_attribute *row);
size_t hrf_attribute_bytes(const struct hrf_attributes *a, const struct hrf_attribute *row);

/* Reads the inputs of node `node` that carry attributes into its attributes; an error if one of
 * them is not a constant. The inputs stay until hrf_graph_compact() removes them. */
HRF_CHECKED enum hrf_status hrf_node_read_attribute_inputs(struct hrf_graph *graph, int32_t node,
                                                           struct hrf_error *err);

#endif
