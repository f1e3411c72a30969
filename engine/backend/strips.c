#include "engine/backend/strips.h"

#include "base/min_max.h"
#include "engine/ir/window_span.h"

static void choose_size(struct hrf_strips *s, const struct hrf_window *window, int64_t max_elements,
                        int64_t min_rows)
{
    const int64_t per_row = s->columns * s->channels, span = hrf_window_span(window, 0, 1);
    s->by_images = s->rows * per_row <= max_elements;
    s->n_units = s->by_images ? s->n : s->out_rows;
    const int64_t fit = s->by_images ? max_elements / (s->rows * per_row)
                                     : (max_elements / per_row - span) / s->stride + 1;
    const int64_t size = hrf_min(hrf_max(fit, s->by_images ? 1 : min_rows), s->n_units);
    s->size = hrf_ceil_div(s->n_units, hrf_ceil_div(s->n_units, size)); /* as even as can be */
    s->in_rows = hrf_window_span(window, 0, s->size);
}

void hrf_strips_choose(const struct hrf_graph *graph, const struct hrf_node *node,
                       int64_t max_elements, int64_t min_rows, struct hrf_strips *out)
{
    const struct hrf_shape *x = &graph->values[node->inputs[HRF_CONV_X]].shape;
    struct hrf_window window = node->attributes.window;
    window.kernel[0] = graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape.dims[2];
    *out = (struct hrf_strips){ .n = x->dims[0],
                                .channels = x->dims[1],
                                .rows = x->dims[2],
                                .columns = x->dims[3],
                                .out_rows = graph->values[node->outputs[0]].shape.dims[2],
                                .stride = window.stride[0],
                                .pad = window.pad_begin[0] };
    choose_size(out, &window, max_elements, min_rows);
}

int64_t hrf_strips_elements(const struct hrf_strips *s)
{
    return (s->by_images ? s->size * s->rows : s->in_rows) * s->columns * s->channels;
}

static struct hrf_shape strip_of(const struct hrf_strips *s, const struct hrf_shape *whole,
                                 int64_t rows)
{
    struct hrf_shape shape = *whole;
    shape.dims[0] = s->by_images ? s->size : 1;
    shape.dims[2] = s->by_images ? whole->dims[2] : rows;
    return shape;
}

enum hrf_status hrf_strips_graph(const struct hrf_strips *s, const struct hrf_graph *graph,
                                 const struct hrf_node *node, enum hrf_dtype type,
                                 struct hrf_graph **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) strip = NULL;
    int32_t inputs[HRF_CONV_N_INPUTS + 1]; /* and the output */
    HRF_TRY(hrf_graph_create(node->name, &strip, err));
    for (int32_t i = 0; i <= HRF_CONV_N_INPUTS; i++) {
        const bool is_output = i == HRF_CONV_N_INPUTS;
        inputs[i] = is_output            ? node->outputs[0]
                    : i < node->n_inputs ? node->inputs[i]
                                         : HRF_NO_VALUE;
        if (inputs[i] < 0)
            continue;
        const struct hrf_value *v = &graph->values[inputs[i]];
        const struct hrf_shape shape = v->data != NULL   ? v->shape
                                       : i == HRF_CONV_X ? strip_of(s, &v->shape, s->in_rows)
                                                         : strip_of(s, &v->shape, s->size);
        HRF_TRY(hrf_graph_add_value(strip, v->name, i == HRF_CONV_X ? type : v->dtype, &shape,
                                    v->data, &inputs[i], err));
    }
    struct hrf_attributes attributes = node->attributes;
    if (!s->by_images)
        attributes.window.pad_begin[0] = attributes.window.pad_end[0] = 0;
    HRF_TRY(hrf_graph_add_node(strip, HRF_OP_CONV, node->name, inputs, HRF_CONV_N_INPUTS,
                               &inputs[HRF_CONV_N_INPUTS], 1, &attributes, err));
    HRF_MOVE(*out, strip);
    return HRF_OK;
}
