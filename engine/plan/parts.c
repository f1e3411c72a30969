/* parts.c - boxes, copies and graphs of the parts of a node (parts.h). */
#include "engine/plan/parts.h"

enum { COPY_ALIGNMENT = 64 }; /* bytes, as for every buffer that a kernel sees */

bool hrf_part_has_sides(const struct hrf_box *whole, const struct hrf_box *interior)
{
    return !hrf_box_is_empty(interior) &&
           (interior->lo[1] > whole->lo[1] || interior->hi[1] < whole->hi[1]);
}

struct hrf_box hrf_part_box(const struct hrf_box *whole, const struct hrf_box *interior,
                            enum hrf_part part)
{
    struct hrf_box box = *whole;
    if (part == HRF_PART_INTERIOR || hrf_part_is_copied(part)) {
        box.lo[0] = interior->lo[0];
        box.hi[0] = interior->hi[0];
    }
    if (part == HRF_PART_FIRST)
        box.hi[0] = interior->lo[0];
    if (part == HRF_PART_LAST)
        box.lo[0] = interior->hi[0];
    if (part == HRF_PART_LEFT)
        box.hi[1] = interior->lo[1];
    if (part == HRF_PART_RIGHT)
        box.lo[1] = interior->hi[1];
    return box;
}

int64_t hrf_part_runs(const struct hrf_graph *graph, const struct hrf_node *node,
                      enum hrf_part part)
{
    return part == HRF_PART_WHOLE ? 1 : graph->values[node->outputs[0]].shape.dims[0];
}

int64_t hrf_part_row_bytes(const struct hrf_value *value)
{
    return value->shape.dims[3] * value->shape.dims[1] * (int64_t)hrf_dtype_size(value->dtype);
}

int64_t hrf_part_image_bytes(const struct hrf_value *value)
{
    return value->shape.dims[2] * hrf_part_row_bytes(value);
}

int64_t hrf_part_bytes(const struct hrf_value *value, const struct hrf_box *box)
{
    return (box->hi[0] - box->lo[0]) * (box->hi[1] - box->lo[1]) * value->shape.dims[1] *
           (int64_t)hrf_dtype_size(value->dtype);
}

int64_t hrf_part_copies(const struct hrf_graph *graph, const struct hrf_node *node,
                        enum hrf_part part, const struct hrf_box *box, int64_t *copied)
{
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    int64_t moved = 0, sum = 0;
    for (int32_t k = -1; hrf_part_is_copied(part) && k < node->n_inputs; k++) {
        if (k >= 0 && (node->inputs[k] < 0 || graph->values[node->inputs[k]].data != NULL))
            continue;
        const struct hrf_value *v = k < 0 ? y : &graph->values[node->inputs[k]];
        const struct hrf_box of = k < 0 ? *box : hrf_region_needed(graph, node, k, box);
        const int64_t n_bytes = hrf_part_bytes(v, &of);
        moved += n_bytes;
        sum += (n_bytes + COPY_ALIGNMENT - 1) / COPY_ALIGNMENT * COPY_ALIGNMENT;
    }
    if (copied != NULL)
        *copied = moved * hrf_part_runs(graph, node, part);
    return sum;
}

static enum hrf_status add_box(const struct hrf_graph *from, int32_t value,
                               const struct hrf_box *box, int64_t n_images, struct hrf_graph *to,
                               int32_t *index, struct hrf_error *err)
{
    const struct hrf_value *v = &from->values[value];
    struct hrf_shape shape = hrf_box_shape(&v->shape, box);
    if (shape.rank == 4)
        shape.dims[0] = n_images;
    HRF_TRY(hrf_graph_add_value(to, v->name, v->dtype, &shape, NULL, index, err));
    to->values[*index].quantization = v->quantization;
    return HRF_OK;
}

static enum hrf_status add_input(const struct hrf_graph *from, const struct hrf_node *node,
                                 int32_t k, const struct hrf_box *box, int64_t n_images,
                                 struct hrf_graph *to, int32_t *index, struct hrf_error *err)
{
    *index = HRF_NO_VALUE;
    if (node->inputs[k] < 0)
        return HRF_OK;
    const struct hrf_value *v = &from->values[node->inputs[k]];
    if (v->data == NULL) {
        const struct hrf_box need = hrf_region_needed(from, node, k, box);
        return add_box(from, node->inputs[k], &need, n_images, to, index, err);
    }
    HRF_TRY(hrf_graph_borrow_value(to, v->name, v->dtype, &v->shape, v->data, index, err));
    to->values[*index].quantization = v->quantization;
    return HRF_OK;
}

enum hrf_status hrf_part_graph(const struct hrf_graph *graph, const struct hrf_node *node,
                               const struct hrf_box *box, int64_t n_images, struct hrf_graph **out,
                               struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) alone = NULL;
    HRF_AUTO_FREE int32_t *inputs = hrf_calloc((size_t)node->n_inputs + 1, sizeof *inputs);
    const struct hrf_attributes attributes = hrf_region_attributes(graph, node, box);
    int32_t output;
    HRF_TRY(hrf_graph_create(node->name, &alone, err));
    for (int32_t k = 0; k < node->n_inputs; k++)
        HRF_TRY(add_input(graph, node, k, box, n_images, alone, &inputs[k], err));
    HRF_TRY(add_box(graph, node->outputs[0], box, n_images, alone, &output, err));
    HRF_TRY(hrf_graph_add_node(alone, node->op, node->name, inputs, node->n_inputs, &output, 1,
                               &attributes, err));
    HRF_MOVE(*out, alone);
    return HRF_OK;
}

static bool is_as_large(const struct hrf_box *a, const struct hrf_box *b)
{
    return a->hi[0] - a->lo[0] == b->hi[0] - b->lo[0] && a->hi[1] - a->lo[1] == b->hi[1] - b->lo[1];
}

bool hrf_part_are_alike(const struct hrf_graph *graph, const struct hrf_node *node,
                        const struct hrf_box *a, const struct hrf_box *b)
{
    if (hrf_box_is_empty(a) || hrf_box_is_empty(b) || !is_as_large(a, b))
        return false;
    const struct hrf_box x = hrf_region_needed(graph, node, 0, a);
    const struct hrf_box y = hrf_region_needed(graph, node, 0, b);
    const struct hrf_attributes u = hrf_region_attributes(graph, node, a);
    const struct hrf_attributes v = hrf_region_attributes(graph, node, b);
    bool is_same = is_as_large(&x, &y);
    for (int i = 0; i < 2; i++)
        is_same &= u.window.pad_begin[i] == v.window.pad_begin[i] &&
                   u.window.pad_end[i] == v.window.pad_end[i] && u.block.skip[i] == v.block.skip[i];
    return is_same;
}
