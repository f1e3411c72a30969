/* support.c - in which types a node is computed, and what every back end refuses. */
#include "engine/backend/backend.h"
#include "engine/ir/op.h"

#include <inttypes.h>

static bool is_run_time_type(enum hrf_op op, enum hrf_dtype dtype)
{
    if (op == HRF_OP_PERFORMER_STATE || op == HRF_OP_PERFORMER_APPLY)
        return dtype == HRF_F32 || dtype == HRF_F64;
    return hrf_dtype_is_float(dtype) || hrf_dtype_is_byte(dtype);
}

/* Prologues are for computing in floats: in 8 bits their result is what has a scale. */
static enum hrf_status check_prologue(const struct hrf_graph *graph, const struct hrf_node *node,
                                      struct hrf_error *err)
{
    if (!hrf_node_has_prologue(node))
        return HRF_OK;
    for (int32_t k = HRF_CONV_FACTORS; k <= HRF_CONV_SHIFTS; k++) {
        const struct hrf_value *value = &graph->values[node->inputs[k]];
        if (value->dtype != HRF_F32)
            return hrf_error_set(err, HRF_E_UNSUPPORTED,
                                 "node '%s' (%s): its prologue is not in float32", node->name,
                                 hrf_op_name(node->op));
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
                err, HRF_E_UNSUPPORTED,
                "node '%s' (%s): its input %" PRId32 " is %s, which is not computed: export the "
                "model with float32 there",
                node->name, hrf_op_name(node->op), i, hrf_dtype_name(value->dtype));
        if (value->shape.rank < 0)
            return hrf_error_set(err, HRF_E_BUG, "node '%s': the shape of '%s' is not known",
                                 node->name, value->name);
    }
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    if (!is_run_time_type(node->op, y->dtype))
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "node '%s' (%s): its output is %s, which is not computed: export the "
                             "model with float32 there",
                             node->name, hrf_op_name(node->op), hrf_dtype_name(y->dtype));
    return HRF_OK;
}

static enum hrf_status check_constants(const struct hrf_graph *graph, const struct hrf_node *node,
                                       struct hrf_error *err)
{
    for (int32_t i = 0; i < node->n_inputs; i++) {
        const enum hrf_input_role role = hrf_op_role(node->op, i);
        if (node->inputs[i] == HRF_NO_VALUE ||
            (role != HRF_INPUT_WEIGHTS && role != HRF_INPUT_INDEX))
            continue;
        const struct hrf_value *value = &graph->values[node->inputs[i]];
        if (value->data == NULL)
            return hrf_error_set(err, HRF_E_UNSUPPORTED,
                                 "node '%s' (%s): its input %" PRId32 " is computed from the "
                                 "image: export the model with a constant there",
                                 node->name, hrf_op_name(node->op), i);
        if (node->op == HRF_OP_GATHER && value->dtype != HRF_S64 && value->dtype != HRF_S32)
            return hrf_error_set(
                err, HRF_E_UNSUPPORTED,
                "node '%s' (Gather): its indices are %s: export the model with int64", node->name,
                hrf_dtype_name(value->dtype));
    }
    return HRF_OK;
}

/* What every back end refuses in the same words: types that the operator has no kernel for, ranks
 * likewise, weights that are not constant. */
static enum hrf_status node_check_common(const struct hrf_graph *graph, const struct hrf_node *node,
                                         struct hrf_error *err)
{
    if (hrf_op_is_foldable_only(node->op))
        return hrf_error_set(
            err, HRF_E_UNSUPPORTED,
            "node '%s' (%s): its value depends on the image: export the model with "
            "fixed shapes, or without it (docs/models.md)",
            node->name, hrf_op_name(node->op));
    if (node->n_outputs > 1)
        for (int32_t i = 1; i < node->n_outputs; i++)
            if (node->outputs[i] != HRF_NO_VALUE &&
                hrf_graph_count_uses(graph, node->outputs[i]) > 0)
                return hrf_error_set(err, HRF_E_UNSUPPORTED,
                                     "node '%s' (%s): its output %" PRId32
                                     " is used, and only the first is computed: export the model "
                                     "without it",
                                     node->name, hrf_op_name(node->op), i);
    HRF_TRY(check_types(graph, node, err));
    HRF_TRY(check_constants(graph, node, err));
    HRF_TRY(check_prologue(graph, node, err));
    const struct hrf_shape *x = &graph->values[node->inputs[0]].shape;
    if (hrf_op_info(node->op)->rank == 4 && x->rank != 4)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "node '%s' (%s): its input has rank %" PRId32
                             ", and images have rank 4 (N, C, H, W): export the model without it",
                             node->name, hrf_op_name(node->op), x->rank);
    return HRF_OK;
}

bool hrf_backend_supports(const struct hrf_backend_ops *ops, const struct hrf_graph *graph,
                          const struct hrf_node *node, struct hrf_error *err)
{
    /* Partial sums have types of their own. */
    return (hrf_is_partial(node->op) || node_check_common(graph, node, err) == HRF_OK) &&
           hrf_kernel_find(ops->kernels, graph, node, err) != NULL;
}
