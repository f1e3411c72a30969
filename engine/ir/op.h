/* op.h - the operator table: names, numbers of inputs and outputs, and the attributes in use.
 *
 * The table is immutable, so any thread may read it. It knows nothing of back ends; ask a back end
 * what it supports.
 */
#ifndef HRF_ENGINE_IR_OP_H
#define HRF_ENGINE_IR_OP_H

#include "engine/ir/graph.h"

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
    float alpha, beta; /* what ONNX takes for these of a function of one number (op_table.h) */
};

const struct hrf_op_info *hrf_op_info(enum hrf_op op);
/* The operator with that ONNX name; HRF_N_OPS if there is none. */
enum hrf_op hrf_op_find(const char *name);

/* Reads the inputs of node `node` that stand for attributes into its attributes; an error if one of
 * them is not a constant. The inputs stay until hrf_graph_compact() removes them. */
HRF_CHECKED enum hrf_status hrf_node_read_attribute_inputs(struct hrf_graph *graph, int32_t node,
                                                           struct hrf_error *err);

#endif
