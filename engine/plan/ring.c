/* ring.c - simulates both ways to obtain keys and values (ring.h). */
#include "engine/plan/ring.h"

#include "engine/plan/predict.h"

static enum hrf_status predict(const struct hrf_graph *graph, const struct hrf_cost_table *costs,
                               const struct hrf_machine *machine,
                               const struct hrf_layout_plan *layout, double *seconds,
                               struct hrf_error *err)
{
    HRF_AUTO(hrf_partition) partition = NULL;
    HRF_AUTO(hrf_prediction) prediction = NULL;
    const int64_t n_images = graph->values[graph->inputs[0]].shape.dims[0];
    HRF_TRY(hrf_partition_create(graph, layout, NULL, &partition, err));
    HRF_TRY(hrf_predict(partition, n_images * layout->data * layout->microbatches, costs, machine,
                        &prediction, err));
    *seconds = prediction->seconds;
    return HRF_OK;
}

static bool has_rings(const struct hrf_graph *graph)
{
    for (int32_t n = 0; n < graph->n_nodes; n++)
        if (hrf_attention_is_long(graph, &graph->nodes[n]))
            return true;
    return false;
}

enum hrf_status hrf_ring_choose(const struct hrf_graph *graph, const struct hrf_cost_table *costs,
                                const struct hrf_machine *machine, struct hrf_layout_plan *layout,
                                struct hrf_error *err)
{
    double gather, ring;
    if (layout->attention != HRF_ATTENTION_AUTO || hrf_layout_image_parts(layout) == 1 ||
        !has_rings(graph))
        return HRF_OK;
    layout->attention = HRF_ATTENTION_GATHER;
    if (costs == NULL || machine == NULL || machine->has_gpus)
        return HRF_OK;
    struct hrf_layout_plan other = *layout;
    other.attention = HRF_ATTENTION_RING;
    HRF_TRY(predict(graph, costs, machine, layout, &gather, err));
    HRF_TRY(predict(graph, costs, machine, &other, &ring, err));
    if (ring < gather)
        *layout = other;
    return HRF_OK;
}
