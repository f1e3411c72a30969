/* session_parts.c - a step that makes a part of a node's output (plan/parts.h): image by image, and
 * edges at the sides through copies. In host memory: a device computes nodes as a whole. */
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

/* Between `box` of a value, which begins at `place`, and a dense copy of it. */
static void copy_rows(const struct hrf_value *v, const struct hrf_box *box, char *place,
                      char *dense, bool is_out)
{
    const struct hrf_box row = { { 0, box->lo[1] }, { 1, box->hi[1] } };
    const size_t n = (size_t)hrf_part_bytes(v, &row);
    for (int64_t y = box->lo[0]; y < box->hi[0]; y++) {
        memcpy(is_out ? place : dense, is_out ? dense : place, n);
        place += hrf_part_row_bytes(v);
        dense += n;
    }
}

/* The next part of the copies' memory. */
static char *take(char **free_bytes, const struct hrf_value *v, const struct hrf_box *box)
{
    char *taken = *free_bytes;
    const int64_t n = hrf_part_bytes(v, box);
    *free_bytes += (n + HRF_PLAN_ALIGNMENT - 1) / HRF_PLAN_ALIGNMENT * HRF_PLAN_ALIGNMENT;
    return taken;
}

static void bind_inputs(struct hrf_session *session, const struct hrf_step *step, int64_t image,
                        char **free_bytes)
{
    const struct hrf_graph *graph = session->graph;
    const struct hrf_node *node = &graph->nodes[step->node];
    for (int32_t k = 0; k < node->n_inputs; k++) {
        session->part_inputs[k] = NULL;
        if (node->inputs[k] < 0 || graph->values[node->inputs[k]].data != NULL)
            continue;
        const struct hrf_value *v = &graph->values[node->inputs[k]];
        const struct hrf_box need = hrf_part_needs(graph, node, k, step->part);
        char *place = place_of(session, node->inputs[k], image, &need);
        session->part_inputs[k] = place;
        if (hrf_part_is_copied(step->part)) {
            char *copy = take(free_bytes, v, &need);
            copy_rows(v, &need, place, copy, false);
            session->part_inputs[k] = copy;
        }
    }
}

enum hrf_status hrf_session_run_part(struct hrf_session *session, int32_t i, struct hrf_error *err)
{
    const struct hrf_step *step = &session->plan->steps[i];
    const struct hrf_graph *graph = session->graph;
    const struct hrf_node *node = &graph->nodes[step->node];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const struct hrf_box box = hrf_part_box(graph, node, step->part);
    const bool is_copied = hrf_part_is_copied(step->part);
    for (int64_t image = 0; image < hrf_part_runs(graph, node, step->part); image++) {
        char *free_bytes = session->copies;
        char *place = place_of(session, node->outputs[0], image, &box);
        bind_inputs(session, step, image, &free_bytes);
        const struct hrf_kernel_call call = { .inputs = session->part_inputs,
                                              .output = is_copied ? take(&free_bytes, y, &box)
                                                                  : place,
                                              .workspace = session->workspace };
        HRF_TRY(session->kernels[i]->run(session->kernels[i], &call, err));
        if (is_copied)
            copy_rows(y, &box, place, call.output, true);
    }
    return HRF_OK;
}
