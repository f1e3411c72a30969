/* support.c - in which types a node is computed, and what every back end refuses. */
#include "engine/backend/backend.h"

#include <inttypes.h>

/* Operators whose window slides over rows and columns of N, C, H, W. */
static bool needs_rank_4(enum hrf_op op)
{
    switch (op) {
    case HRF_OP_CONV:
    case HRF_OP_CONV_TRANSPOSE:
    case HRF_OP_RESIZE:
    case HRF_OP_MAX_POOL:
    case HRF_OP_AVERAGE_POOL:
    case HRF_OP_GLOBAL_AVERAGE_POOL:
    case HRF_OP_GLOBAL_MAX_POOL:
    case HRF_OP_LRN:
        return true;
    default:
        return false;
    }
}

static bool is_run_time_type(enum hrf_op op, enum hrf_dtype dtype)
{
    if (op == HRF_OP_PERFORMER_STATE || op == HRF_OP_PERFORMER_APPLY)
        return dtype == HRF_F32 || dtype == HRF_F64;
    return dtype == HRF_F32 || dtype == HRF_F16 || dtype == HRF_B16 || dtype == HRF_S8 ||
           dtype == HRF_U8;
}

enum hrf_node_form hrf_node_form(const struct hrf_graph *graph, const struct hrf_node *node)
{
    bool half = false, integer = false;
    for (int32_t i = -1; i < node->n_inputs; i++) {
        const int32_t index = i < 0 ? node->outputs[0] : node->inputs[i];
        if (index < 0 || graph->values[index].data != NULL)
            continue;
        const enum hrf_dtype dtype = graph->values[index].dtype;
        half |= dtype == HRF_F16 || dtype == HRF_B16;
        integer |= dtype == HRF_S8 || dtype == HRF_U8;
    }
    return integer ? HRF_FORM_INTEGER : half ? HRF_FORM_HALF : HRF_FORM_FLOAT;
}

/* Prologues are for computing in floats: in 8 bits their result is what has a scale. */
static enum hrf_status check_prologue(const struct hrf_graph *graph, const struct hrf_node *node,
                                      struct hrf_error *err)
{
    if (!hrf_node_has_prologue(node))
        return HRF_OK;
    for (int32_t k = HRF_CONV_FACTORS; k <= HRF_CONV_SHIFTS; k++) {
        const struct hrf_value *value = &graph->values[node->inputs[k]];
        if (value->data == NULL || value->dtype != HRF_F32)
            return hrf_error_set(err, HRF_E_UNSUPPORTED,
                                 "node '%s' (%s): its prologue is not of constants in float32",
                                 node->name, hrf_op_name(node->op));
    }
    if (hrf_node_form(graph, node) == HRF_FORM_INTEGER)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "node '%s' (%s): a prologue in 8-bit integers is not computed",
                             node->name, hrf_op_name(node->op));
    return HRF_OK;
}

static enum hrf_status check_types(const struct hrf_graph *graph, const struct hrf_node *node,
                                   struct hrf_error *err)
{
    for (int32_t i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i] == HRF_NO_VALUE)
            continue;
        const struct hrf_value *value = &graph->values[node->inputs[i]];
        if (!is_run_time_type(node->op, value->dtype) && value->data == NULL)
            return hrf_error_set(
                err, HRF_E_UNSUPPORTED, "node '%s' (%s): input '%s' is %s, which is not computed",
                node->name, hrf_op_name(node->op), value->name, hrf_dtype_name(value->dtype));
        if (value->shape.rank < 0)
            return hrf_error_set(err, HRF_E_BUG, "node '%s': the shape of '%s' is not known",
                                 node->name, value->name);
    }
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    if (!is_run_time_type(node->op, y->dtype))
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "node '%s' (%s): its output is %s, which is not computed", node->name,
                             hrf_op_name(node->op), hrf_dtype_name(y->dtype));
    return HRF_OK;
}

static enum hrf_status check_constants(const struct hrf_graph *graph, const struct hrf_node *node,
                                       struct hrf_error *err)
{
    int32_t first = -1, last = -1; /* inputs that must be constants */
    if (node->op == HRF_OP_CONV || node->op == HRF_OP_CONV_TRANSPOSE)
        first = HRF_CONV_WEIGHTS, last = HRF_CONV_BIAS;
    else if (node->op == HRF_OP_BATCH_NORM)
        first = 1, last = 4;
    else if (node->op == HRF_OP_GROUP_NORM)
        first = 1, last = 2;
    else if (node->op == HRF_OP_WHERE)
        first = last = 0;
    else if (node->op == HRF_OP_GATHER || node->op == HRF_OP_PERFORMER_MAX)
        first = last = 1;
    else if (node->op == HRF_OP_PERFORMER_STATE || node->op == HRF_OP_PERFORMER_APPLY)
        first = last = HRF_STATE_PROJECTION;
    for (int32_t i = first; i >= 0 && i <= last && i < node->n_inputs; i++) {
        if (node->inputs[i] == HRF_NO_VALUE)
            continue;
        const struct hrf_value *value = &graph->values[node->inputs[i]];
        if (value->data == NULL)
            return hrf_error_set(err, HRF_E_UNSUPPORTED,
                                 "node '%s' (%s): input '%s' is computed at run time; it must be "
                                 "a constant of the model",
                                 node->name, hrf_op_name(node->op), value->name);
        if (node->op == HRF_OP_GATHER && value->dtype != HRF_S64 && value->dtype != HRF_S32)
            return hrf_error_set(err, HRF_E_UNSUPPORTED, "node '%s' (Gather): indices are %s",
                                 node->name, hrf_dtype_name(value->dtype));
    }
    return HRF_OK;
}

enum hrf_status hrf_node_check_common(const struct hrf_graph *graph, const struct hrf_node *node,
                                      struct hrf_error *err)
{
    if (hrf_op_is_foldable_only(node->op))
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "node '%s' (%s): its value is not constant for these input shapes",
                             node->name, hrf_op_name(node->op));
    if (node->n_outputs > 1)
        for (int32_t i = 1; i < node->n_outputs; i++)
            if (node->outputs[i] != HRF_NO_VALUE &&
                hrf_graph_count_uses(graph, node->outputs[i]) > 0)
                return hrf_error_set(err, HRF_E_UNSUPPORTED,
                                     "node '%s' (%s): its output %" PRId32
                                     " is used; only the first is computed",
                                     node->name, hrf_op_name(node->op), i);
    HRF_TRY(check_types(graph, node, err));
    HRF_TRY(check_constants(graph, node, err));
    HRF_TRY(check_prologue(graph, node, err));
    const struct hrf_shape *x = &graph->values[node->inputs[0]].shape;
    if (needs_rank_4(node->op) && x->rank != 4)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "node '%s' (%s): its input has rank %" PRId32
                             "; only images (rank 4: N, C, H, W) are computed",
                             node->name, hrf_op_name(node->op), x->rank);
    return HRF_OK;
}
