/* region_rows.c - which rows a part of a copy of rows needs (region_rows.h). */
#include "engine/plan/region_rows.h"

#include "base/min_max.h"
#include "engine/plan/region.h"

/* The input or the output of the copy. Tokens count as an image of one column. */
struct side {
    int64_t rows, columns, each; /* each: the rows that are copied, in a pixel */
};

static struct side side_of(const struct hrf_shape *s, int64_t size)
{
    if (s->rank == 3)
        return (struct side){ s->dims[1], 1, s->dims[2] / size };
    return (struct side){ s->dims[2], s->dims[3], s->dims[1] / size };
}

static int64_t count_of(const struct side *s)
{
    return s->rows * s->columns * s->each;
}

static const struct hrf_shape *shape_of(const struct hrf_graph *graph, int32_t value)
{
    return &graph->values[value].shape;
}

static bool has_whole_rows(const struct hrf_shape *s, int64_t size)
{
    return (s->rank == 3 && s->dims[2] % size == 0) || (s->rank == 4 && s->dims[1] % size == 0);
}

bool hrf_rows_concern(const struct hrf_graph *graph, const struct hrf_node *node)
{
    if (node->op != HRF_OP_GATHER || !node->attributes.channels_last)
        return false;
    const struct hrf_value *x = &graph->values[node->inputs[0]];
    const struct hrf_value *indices = &graph->values[node->inputs[1]];
    const struct hrf_shape *y = shape_of(graph, node->outputs[0]);
    return x->data == NULL && indices->data != NULL && indices->dtype == HRF_S32 &&
           has_whole_rows(&x->shape, node->attributes.row_size) &&
           has_whole_rows(y, node->attributes.row_size) && x->shape.dims[0] == y->dims[0];
}

bool hrf_rows_can_split(const struct hrf_graph *graph, const struct hrf_node *node)
{
    if (!hrf_rows_concern(graph, node))
        return false;
    const struct side in = side_of(shape_of(graph, node->inputs[0]), node->attributes.row_size);
    const struct side out = side_of(shape_of(graph, node->outputs[0]), node->attributes.row_size);
    const int32_t *indices = graph->values[node->inputs[1]].data;
    const int64_t n_images = shape_of(graph, node->outputs[0])->dims[0];
    const int64_t n = count_of(&out), per_image = count_of(&in);
    if (out.rows <= 1 || hrf_shape_count(shape_of(graph, node->inputs[1])) != n_images * n)
        return false;
    for (int64_t i = 0; i < n_images * n; i++)
        if (indices[i] < i / n * per_image || indices[i] >= (i / n + 1) * per_image ||
            indices[i] - i / n * per_image != indices[i % n])
            return false;
    return true;
}

struct hrf_box hrf_rows_needed(const struct hrf_graph *graph, const struct hrf_node *node,
                               const struct hrf_box *out)
{
    const struct side in = side_of(shape_of(graph, node->inputs[0]), node->attributes.row_size);
    const struct side to = side_of(shape_of(graph, node->outputs[0]), node->attributes.row_size);
    const int32_t *indices = graph->values[node->inputs[1]].data;
    struct hrf_box need = { { in.rows, in.columns }, { 0, 0 } };
    for (int64_t y = out->lo[0]; y < out->hi[0]; y++)
        for (int64_t i = (y * to.columns + out->lo[1]) * to.each;
             i < (y * to.columns + out->hi[1]) * to.each; i++) {
            const int64_t pixel = indices[i] / in.each;
            const int64_t at[2] = { pixel / in.columns, pixel % in.columns };
            for (int axis = 0; axis < 2; axis++) {
                need.lo[axis] = hrf_min(need.lo[axis], at[axis]);
                need.hi[axis] = hrf_max(need.hi[axis], at[axis] + 1);
            }
        }
    return need;
}

void hrf_rows_cut(const struct hrf_graph *graph, const struct hrf_node *node,
                  const struct hrf_box *out, int32_t **indices, int64_t *count)
{
    const struct side in = side_of(shape_of(graph, node->inputs[0]), node->attributes.row_size);
    const struct side to = side_of(shape_of(graph, node->outputs[0]), node->attributes.row_size);
    const struct hrf_box need = hrf_rows_needed(graph, node, out);
    const int32_t *whole = graph->values[node->inputs[1]].data;
    const int64_t columns = need.hi[1] - need.lo[1],
                  n_images = shape_of(graph, node->outputs[0])->dims[0];
    const int64_t per_image = (need.hi[0] - need.lo[0]) * columns;
    const int64_t wide = (out->hi[1] - out->lo[1]) * to.each;
    *count = n_images * (out->hi[0] - out->lo[0]) * wide;
    int32_t *cut = hrf_alloc_array((size_t)*count + 1, sizeof *cut);
    *indices = cut;
    for (int64_t n = 0; n < n_images; n++)
        for (int64_t y = out->lo[0]; y < out->hi[0]; y++)
            for (int64_t i = 0; i < wide; i++) {
                const int64_t from = whole[(y * to.columns + out->lo[1]) * to.each + i];
                const int64_t pixel = from / in.each;
                const int64_t row = pixel / in.columns - need.lo[0];
                const int64_t column = pixel % in.columns - need.lo[1];
                *cut++ = (int32_t)((n * per_image + row * columns + column) * in.each +
                                   from % in.each);
            }
}
