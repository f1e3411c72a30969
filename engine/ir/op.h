/* op.h - the operator table: names, numbers of inputs and outputs, and the attributes in use.
 *
 * The table is immutable, so any thread may read it. It knows nothing of back ends; ask a back end
 * what it supports.
 */
#ifndef HRF_ENGINE_IR_OP_H
#define HRF_ENGINE_IR_OP_H

#include "engine/ir/graph.h"

/* Which members of struct hrf_attributes an operator reads. */
enum hrf_attribute_use {
    HRF_USE_WINDOW = 1 << 0,
    HRF_USE_GROUP = 1 << 1,
    HRF_USE_ACTIVATION = 1 << 2, /* activation, activation_min, activation_max, alpha */
    HRF_USE_BOUNDS = 1 << 3,     /* activation_min, activation_max */
    HRF_USE_ALPHA = 1 << 4,
    HRF_USE_BETA = 1 << 5,
    HRF_USE_EPSILON = 1 << 6,
    HRF_USE_BIAS = 1 << 7,
    HRF_USE_SIZE = 1 << 8,
    HRF_USE_TRANSPOSE = 1 << 9,
    HRF_USE_AXIS = 1 << 10,
    HRF_USE_AXES = 1 << 11,
    HRF_USE_SLICE = 1 << 12,
    HRF_USE_PADS = 1 << 13, /* pads, value */
    HRF_USE_KEEP_DIMS = 1 << 14,
    HRF_USE_ALLOW_ZERO = 1 << 15,
    HRF_USE_TO = 1 << 16,
    HRF_USE_FILL = 1 << 17,
    HRF_USE_OUTPUT_SIZE = 1 << 18, /* output_padding, output_size */
    HRF_USE_COLUMN_ROW_DEPTH = 1 << 19,
    HRF_USE_RESIZE = 1 << 21,
    HRF_USE_HEADS = 1 << 20 /* group, exponential, epsilon */
};

struct hrf_op_info {
    enum hrf_op op;
    const char *name;   /* ONNX's */
    int32_t min_inputs; /* none of these may be HRF_NO_VALUE */
    int32_t max_inputs; /* INT32_MAX: any number */
    int32_t max_outputs;
    uint32_t uses; /* hrf_attribute_use */
    /* Inputs from this index on stand for attributes (newer opsets): they must be constants, and
     * shape inference reads them into the attributes. 0: none. */
    int32_t first_attribute_input;
};

const struct hrf_op_info *hrf_op_info(enum hrf_op op);
/* The operator with that ONNX name; HRF_N_OPS if there is none. */
enum hrf_op hrf_op_find(const char *name);

/* Reads the inputs of node `node` that stand for attributes into its attributes; an error if one of
 * them is not a constant. The inputs stay until hrf_graph_compact() removes them. */
HRF_CHECKED enum hrf_status hrf_node_read_attribute_inputs(struct hrf_graph *graph, int32_t node,
                                                           struct hrf_error *err);

#endif
