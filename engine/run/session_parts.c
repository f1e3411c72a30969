/* session_parts.c - a step that makes a part of a node's output (plan/parts.h): image by image, and
 * edges at the sides through copies. */
#include "engine/run/session_private.h"

#include <string.h>

static char *place_of(const struct hrf_session *session, int32_t value, int64_t image,
                      const struct hrf_box *box)
{
    const struct hrf_value *v = &session->graph->values[value];
    const int64_t pixel_bytes = v->shape.dims[1] * (int64_t)hrf_dtype_size(v->dtype);
    return (char *)hrf_session_buffer(session, value) + image * hrf_part_image_bytes(v) +
           box->lo[0] * hrf_part_row_bytes(v) + box->lo[1] * pixel_bytes;
}

/* Describes the copy between `box` of a value, which starts at `place`, and a dense buffer. */
static enum hrf_status copy_rows(struct hrf_session *session, const struct hrf_value *v,
                                 const struct hrf_box *box, char *place, char *dense, bool is_out,
                                 struct hrf_error *err)
{
    const struct hrf_box row = { { 0, box->lo[1] }, { 1, box->hi[1] } };
    const int64_t n = hrf_part_bytes(v, &row), stride = hrf_part_row_bytes(v);
    const struct hrf_device_box rows = { .to = is_out ? place : dense,
                                         .from = is_out ? dense : place,
                                         .n_images = 1,
                                         .n_rows = box->hi[0] - box->lo[0],
                                         .row_bytes = n,
                                         .to_row = is_out ? stride : n,
                                         .from_row = is_out ? n : stride };
    if (session->device.ops != NULL)
        return session->device.ops->copy_box(session->backend, &rows, err);
    for (int64_t y = 0; y < rows.n_rows; y++)
        memcpy((char *)rows.to + y * rows.to_row, (const char *)rows.from + y * rows.from_row,
               (size_t)n);
    return HRF_OK;
}

/* Takes the next piece of the memory for copies. */
static char *take(char **free_bytes, const struct hrf_value *v, const struct hrf_box *box)
{
    char *taken = *free_bytes;
    const int64_t n = hrf_part_bytes(v, box);
    *free_bytes += (n + HRF_PLAN_ALIGNMENT - 1) / HRF_PLAN_ALIGNMENT * HRF_PLAN_ALIGNMENT;
    return taken;
}

static enum hrf_status bind_inputs(struct hrf_session *session, const struct hrf_step *step,
                                   int64_t image, char **free_bytes, struct hrf_error *err)
{
    const struct hrf_graph *graph = session->graph;
    const struct hrf_node *node = &graph->nodes[step->node];
    for (int32_t k = 0; k < node->n_inputs; k++) {
        session->part_inputs[k] = NULL;
        if (node->inputs[k] < 0 || graph->values[node->inputs[k]].data != NULL)
            continue;
        const struct hrf_value *v = &graph->values[node->inputs[k]];
        const struct hrf_box need = hrf_region_needed(graph, node, k, &step->box);
        char *place = place_of(session, node->inputs[k], image, &need);
        session->part_inputs[k] = place;
        if (hrf_part_is_copied(step->part)) {
            char *copy = take(free_bytes, v, &need);
            HRF_TRY(copy_rows(session, v, &need, place, copy, false, err));
            session->part_inputs[k] = copy;
        }
    }
    return HRF_OK;
}

static bool is_even(const struct hrf_graph *graph, int32_t value)
{
    return value < 0 || graph->values[value].data != NULL ||
           hrf_part_row_bytes(&graph->values[value]) % HRF_PLAN_PLACE_ALIGNMENT == 0;
}

void hrf_session_keep_even_parts(const struct hrf_graph *graph, struct hrf_rank_map *map)
{
    for (int32_t i = 0; i < map->n_nodes; i++) {
        const struct hrf_node *node = &graph->nodes[i];
        if (node->op == HRF_OP_EXCHANGE)
            continue;
        bool is_kept = is_even(graph, node->outputs[0]);
        for (int32_t k = 0; k < node->n_inputs; k++)
            is_kept &= is_even(graph, node->inputs[k]);
        if (!is_kept)
            map->nodes[i].own = (struct hrf_box){ .lo = { 0 } };
    }
}

enum hrf_status hrf_session_run_part(struct hrf_session *session, int32_t i, struct hrf_error *err)
{
    const struct hrf_step *step = &session->plan->steps[i];
    const struct hrf_graph *graph = session->graph;
    const struct hrf_node *node = &graph->nodes[step->node];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const bool is_copied = hrf_part_is_copied(step->part);
    for (int64_t image = 0; image < hrf_part_runs(graph, node, step->part); image++) {
        char *free_bytes = session->copies;
        char *place = place_of(session, node->outputs[0], image, &step->box);
        HRF_TRY(bind_inputs(session, step, image, &free_bytes, err));
        const struct hrf_kernel_call call = { .inputs = session->part_inputs,
                                              .output = is_copied ? take(&free_bytes, y, &step->box)
                                                                  : place,
                                              .workspace = session->workspace };
        HRF_TRY(session->kernels[i]->run(session->kernels[i], &call, err));
        if (is_copied)
            HRF_TRY(copy_rows(session, y, &step->box, place, call.output, true, err));
    }
    return HRF_OK;
}
