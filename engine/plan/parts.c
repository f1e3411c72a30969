#include "engine/plan/parts.h"

struct hrf_box hrf_part_box(const struct hrf_graph *graph, const struct hrf_node *node,
                            enum hrf_part part)
{
    struct hrf_box box = hrf_box_whole(&graph->values[node->outputs[0]].shape);
    const int64_t *interior = node->attributes.interior;
    if (part == HRF_PART_INTERIOR || part == HRF_PART_LAST)
        box.lo[0] = interior[part == HRF_PART_LAST];
    if (part == HRF_PART_INTERIOR || part == HRF_PART_FIRST)
        box.hi[0] = interior[part == HRF_PART_INTERIOR];
    return box;
}

struct hrf_box hrf_part_needs(const struct hrf_graph *graph, const struct hrf_node *node, int32_t k,
                              enum hrf_part part)
{
    const struct hrf_box rows = hrf_part_box(graph, node, part);
    return part == HRF_PART_WHOLE ? hrf_box_whole(&graph->values[node->inputs[k]].shape)
                                  : hrf_region_needed(graph, node, k, &rows);
}

int64_t hrf_part_offset(const struct hrf_value *value, int64_t row)
{
    return row * value->shape.dims[3] * value->shape.dims[1] *
           (int64_t)hrf_dtype_size(value->dtype);
}

static enum hrf_status add_rows(const struct hrf_graph *from, int32_t value,
                                const struct hrf_box *rows, struct hrf_graph *to, int32_t *index,
                                struct hrf_error *err)
{
    const struct hrf_value *v = &from->values[value];
    const struct hrf_shape shape = hrf_box_shape(&v->shape, rows);
    HRF_TRY(hrf_graph_add_value(to, v->name, v->dtype, &shape, NULL, index, err));
    to->values[*index].quantization = v->quantization;
    return HRF_OK;
}

static enum hrf_status add_input(const struct hrf_graph *from, const struct hrf_node *node,
                                 int32_t k, const struct hrf_box *rows, struct hrf_graph *to,
                                 int32_t *index, struct hrf_error *err)
{
    *index = HRF_NO_VALUE;
    if (node->inputs[k] < 0)
        return HRF_OK;
    const struct hrf_value *v = &from->values[node->inputs[k]];
    if (v->data == NULL) {
        const struct hrf_box need = hrf_region_needed(from, node, k, rows);
        return add_rows(from, node->inputs[k], &need, to, index, err);
    }
    HRF_TRY(hrf_graph_borrow_value(to, v->name, v->dtype, &v->shape, v->data, index, err));
    to->values[*index].quantization = v->quantization;
    return HRF_OK;
}

enum hrf_status hrf_part_graph(const struct hrf_graph *graph, const struct hrf_node *node,
                               const struct hrf_box *rows, struct hrf_graph **out,
                               struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) alone = NULL;
    HRF_AUTO_FREE int32_t *inputs = hrf_calloc((size_t)node->n_inputs + 1, sizeof *inputs);
    struct hrf_attributes attributes = hrf_region_attributes(graph, node, rows);
    int32_t output;
    if (inputs == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a part of '%s'", node->name);
    attributes.interior[0] = attributes.interior[1] = 0;
    HRF_TRY(hrf_graph_create(node->name, &alone, err));
    for (int32_t k = 0; k < node->n_inputs; k++)
        HRF_TRY(add_input(graph, node, k, rows, alone, &inputs[k], err));
    HRF_TRY(add_rows(graph, node->outputs[0], rows, alone, &output, err));
    HRF_TRY(hrf_graph_add_node(alone, node->op, node->name, inputs, node->n_inputs, &output, 1,
                               &attributes, err));
    *out = alone;
    alone = NULL;
    return HRF_OK;
}

bool hrf_part_edges_are_alike(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_box a = hrf_part_box(graph, node, HRF_PART_FIRST);
    const struct hrf_box b = hrf_part_box(graph, node, HRF_PART_LAST);
    if (hrf_box_is_empty(&a) || hrf_box_is_empty(&b))
        return false;
    const struct hrf_box x = hrf_region_needed(graph, node, 0, &a);
    const struct hrf_box y = hrf_region_needed(graph, node, 0, &b);
    const struct hrf_attributes u = hrf_region_attributes(graph, node, &a);
    const struct hrf_attributes v = hrf_region_attributes(graph, node, &b);
    return a.hi[0] - a.lo[0] == b.hi[0] - b.lo[0] && x.hi[0] - x.lo[0] == y.hi[0] - y.lo[0] &&
           u.window.pad_begin[0] == v.window.pad_begin[0] &&
           u.window.pad_end[0] == v.window.pad_end[0];
}
