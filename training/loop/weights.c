/* weights.c - see weights.h. */
#include "training/loop/weights.h"

#include <string.h>

static bool is_weight(const struct hrf_value *value)
{
    return value->data != NULL && value->dtype == HRF_F32;
}

int64_t hrf_weights_count(const struct hrf_graph *graph)
{
    int64_t n = 0;
    for (int32_t v = 0; v < graph->n_values; v++)
        if (is_weight(&graph->values[v]))
            n += hrf_shape_count(&graph->values[v].shape);
    return n;
}

enum hrf_status hrf_weights_get(const struct hrf_graph *graph, const struct hrf_graph *source,
                                float *out, struct hrf_error *err)
{
    for (int32_t v = 0; v < graph->n_values; v++) {
        const struct hrf_value *value = &graph->values[v];
        if (!is_weight(value))
            continue;
        const int32_t found = hrf_graph_find_value(source, value->name);
        if (found < 0 || source->values[found].data == NULL ||
            !hrf_shape_equal(&source->values[found].shape, &value->shape))
            return hrf_error_set(err, HRF_E_BUG, "the trained network lacks the weights '%s'",
                                 value->name);
        const int64_t n = hrf_shape_count(&value->shape);
        memcpy(out, source->values[found].data, (size_t)n * sizeof *out);
        out += n;
    }
    return HRF_OK;
}

enum hrf_status hrf_weights_set(const struct hrf_graph *graph, const float *numbers,
                                struct hrf_graph **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) copy = NULL;
    HRF_TRY(hrf_graph_copy(graph, &copy, err));
    for (int32_t v = 0; v < copy->n_values; v++) {
        struct hrf_value *value = &copy->values[v];
        if (!is_weight(value))
            continue;
        const int64_t n = hrf_shape_count(&value->shape);
        float *data = hrf_try_alloc_array((size_t)n + 1, sizeof *data);
        HRF_CHECK_MEMORY(data != NULL, err, "no memory for the weights '%s'", value->name);
        memcpy(data, numbers, (size_t)n * sizeof *data);
        hrf_value_set_data(value, data);
        numbers += n;
    }
    HRF_MOVE(*out, copy);
    return HRF_OK;
}
