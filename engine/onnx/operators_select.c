/* operators_select.c - TopK and ArgMax, as far as rows are chosen by them: slide heads such as
 * DSMIL take of each class the patch of the greatest score, which exporters write as sort (TopK),
 * first index (Gather) and rows (Gather). Indices at run time are not computed otherwise.
 */
#include "engine/onnx/convert_private.h"

#include <onnx.pb-c.h>

enum hrf_status hrf_onnx_convert_top_k(struct hrf_onnx_conversion *c)
{
    int64_t largest = 1, sorted = 1;
    c->a.axis = -1;
    c->a.greatest = 0;
    c->a.keep_dims = true;
    HRF_TRY(hrf_onnx_get_int(c, "axis", &c->a.axis));
    HRF_TRY(hrf_onnx_get_int(c, "largest", &largest));
    HRF_TRY(hrf_onnx_get_int(c, "sorted", &sorted));
    if (largest != 1 || sorted != 1)
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED,
                               "only the greatest in falling order are computed (largest and "
                               "sorted are 1): negate the scores in the model, and export again");
    HRF_TRY(hrf_onnx_refuse_output(c, 0));
    return hrf_onnx_has_output(c, 1) ? hrf_onnx_put_output(c, 1, HRF_OP_TOP_K, c->inputs, 1, &c->a)
                                     : HRF_OK;
}

enum hrf_status hrf_onnx_convert_arg_max(struct hrf_onnx_conversion *c)
{
    int64_t last = 0;
    c->a.axis = 0;
    c->a.greatest = 1;
    c->a.keep_dims = true;
    HRF_TRY(hrf_onnx_get_int(c, "axis", &c->a.axis));
    HRF_TRY(hrf_onnx_get_bool(c, "keepdims", &c->a.keep_dims));
    HRF_TRY(hrf_onnx_get_int(c, "select_last_index", &last));
    if (last != 0)
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED,
                               "of equal elements only the first is chosen (select_last_index 0)");
    return hrf_onnx_put_output(c, 0, HRF_OP_TOP_K, c->inputs, 1, &c->a);
}

/* The node that computes a value, NULL for inputs and constants. */
static const struct hrf_node *producer_of(const struct hrf_onnx_conversion *c, int32_t value)
{
    const struct hrf_graph *graph = c->reader->graph;
    return value < 0 || graph->values[value].producer < 0
               ? NULL
               : &graph->nodes[graph->values[value].producer];
}

/* The TopK or ArgMax whose list of greatest elements of columns the value is: one of a rank, or
 * made so. */
static const struct hrf_node *list_of_greatest(const struct hrf_onnx_conversion *c, int32_t value)
{
    const struct hrf_node *node = producer_of(c, value);
    bool is_flat = false;
    if (node != NULL && node->op == HRF_OP_RESHAPE) {
        const struct hrf_value *to = &c->reader->graph->values[node->inputs[1]];
        is_flat = to->data != NULL && hrf_shape_count(&to->shape) == 1;
        node = is_flat ? producer_of(c, node->inputs[0]) : NULL;
    }
    const bool fits = node != NULL && node->op == HRF_OP_TOP_K && node->attributes.greatest == 1 &&
                      node->attributes.axis == 0 && (is_flat || !node->attributes.keep_dims);
    return fits ? node : NULL;
}

/* True if `node` sorts along the Gather's axis, and the Gather takes the first index alone. */
static bool takes_first(const struct hrf_onnx_conversion *c, const struct hrf_node *node,
                        const struct hrf_value *indices)
{
    return node != NULL && node->op == HRF_OP_TOP_K && node->attributes.greatest == 0 &&
           node->attributes.axis == c->a.axis && indices->data != NULL &&
           indices->dtype == HRF_S64 && hrf_shape_count(&indices->shape) == 1 &&
           *(const int64_t *)indices->data == 0;
}

void hrf_onnx_choose_rows(struct hrf_onnx_conversion *c)
{
    const struct hrf_value *indices = hrf_onnx_input(c, 1);
    if (indices == NULL)
        return;
    const struct hrf_node *sorted = producer_of(c, c->inputs[0]);
    const struct hrf_node *greatest = c->a.axis == 0 ? list_of_greatest(c, c->inputs[1]) : NULL;
    if (takes_first(c, sorted, indices)) {
        c->op = HRF_OP_TOP_K;
        c->a.greatest = 1;
        c->a.keep_dims = indices->shape.rank > 0;
        c->inputs[0] = sorted->inputs[0];
        c->n_inputs = 1;
    } else if (greatest != NULL) {
        c->op = HRF_OP_SELECT_MAX;
        c->inputs[1] = greatest->inputs[0];
        c->reader->has_unused = true;
    }
}
