/* weighted_session.c - a session some of whose constants are trained weights (step_private.h). */
#include "engine/train/step_private.h"

#include "engine/ir/number.h"

#include <string.h>

void hrf_weighted_session_release(struct hrf_weighted_session *weighted)
{
    hrf_session_destroy(weighted->session);
    hrf_free(weighted->weights);
    *weighted = (struct hrf_weighted_session){ .n_gradients = 0 };
}

static int32_t find(const struct hrf_trained_list *trained, const char *name)
{
    for (int32_t i = 0; i < trained->n; i++)
        if (strcmp(trained->items[i].name, name) == 0)
            return i;
    return -1;
}

void hrf_trained_mark(const struct hrf_trained_list *trained, struct hrf_graph *graph)
{
    for (int32_t v = 0; v < graph->n_values; v++)
        graph->values[v].is_initializer = graph->values[v].data != NULL &&
                                          find(trained, graph->values[v].name) >= 0;
}

void hrf_trained_round(const struct hrf_trained_list *trained)
{
    for (int32_t i = 0; i < trained->n && trained->rounded != NULL; i++) {
        const struct hrf_trained_tensor *t = &trained->items[i];
        hrf_round_floats(HRF_B16, t->numbers, trained->rounded[i], hrf_shape_count(&t->shape));
    }
}

int32_t hrf_trained_find(const struct hrf_graph *graph, const struct hrf_trained_list *trained,
                         int32_t *values, float **numbers, float **rounded)
{
    int32_t n = 0;
    for (int32_t v = 0; v < graph->n_values; v++) {
        const struct hrf_value *value = &graph->values[v];
        const int32_t i = value->is_initializer ? find(trained, value->name) : -1;
        if (i < 0)
            continue;
        values[n] = v;
        numbers[n] = trained->items[i].numbers;
        rounded[n++] = trained->rounded != NULL ? trained->rounded[i] : NULL;
    }
    return n;
}

enum hrf_status hrf_weighted_session_create(struct hrf_graph *graph,
                                            const struct hrf_trained_list *trained,
                                            const struct hrf_gradients *gradients,
                                            const struct hrf_train_step_config *config,
                                            bool is_lent, int64_t kept_bytes,
                                            struct hrf_weighted_session *out, struct hrf_error *err)
{
    struct hrf_session_config how = { .device = config->device,
                                      .precision = config->precision,
                                      .n_threads = config->n_threads,
                                      .is_lent = is_lent,
                                      .memory_limit_bytes = config->memory_limit_bytes,
                                      .memory_kept_bytes = kept_bytes };
    const size_t most = (size_t)graph->n_values + 1;
    HRF_AUTO(hrf_graph) prepared = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) notes = HRF_STRBUF_INIT;
    HRF_AUTO_FREE int32_t *values = hrf_alloc_array(most, sizeof *values);
    HRF_AUTO_FREE float **numbers = hrf_alloc_array(2 * most, sizeof *numbers);
    double operations;
    how.variables = numbers;
    how.rounded = numbers + most;
    how.n_variables = hrf_trained_find(graph, trained, values, numbers, numbers + most);
    HRF_TRY(hrf_graph_open_constants(graph, values, how.n_variables, err));
    HRF_TRY(hrf_session_prepare(graph, &how, &prepared, &operations, &notes, err));
    hrf_session_close_variables(&how, prepared);
    *out = (struct hrf_weighted_session){ .n_gradients = gradients != NULL ? gradients->n : 0 };
    out->weights = hrf_alloc_array((size_t)out->n_gradients + 1, sizeof *out->weights);
    for (int32_t i = 0; i < out->n_gradients; i++)
        out->weights[i] = find(trained, gradients->names[i]);
    const enum hrf_status status = hrf_session_create_prepared(&prepared, &how, NULL, &out->session,
                                                               err);
    if (status != HRF_OK)
        hrf_weighted_session_release(out);
    return status;
}
