/* session_run.c - runs a session: inputs, every step in order, outputs; shows values to an
 * observer. Allocates nothing, except for an observer of narrow values. */
#include "engine/ir/number.h"
#include "engine/run/session_private.h"

#include <assert.h>
#include <math.h>

/* Converts an 8- or 16-bit value in host memory to the float that it stands for. */
static enum hrf_status show_narrow(struct hrf_session *session, const struct hrf_value *v,
                                   const void *data, struct hrf_error *err)
{
    const int64_t n = hrf_shape_count(&v->shape);
    HRF_AUTO_FREE float *wide = hrf_alloc_array((size_t)n, sizeof *wide);
    HRF_CHECK_MEMORY(wide != NULL, err, "no memory to show '%s'", v->name);
    if (v->dtype == HRF_F16 || v->dtype == HRF_B16)
        hrf_floats_from(v->dtype, data, wide, n);
    for (int64_t i = 0; i < n && (v->dtype == HRF_S8 || v->dtype == HRF_U8); i++) {
        const int32_t q = v->dtype == HRF_S8 ? ((const int8_t *)data)[i]
                                             : ((const uint8_t *)data)[i];
        wide[i] = (float)(q - v->quantization.zero_point) * v->quantization.scale;
    }
    return session->observe(session->observer, v->name, &v->shape, wide, err);
}

static bool is_narrow(const struct hrf_value *v)
{
    return v->dtype == HRF_F16 || v->dtype == HRF_B16 ||
           ((v->dtype == HRF_S8 || v->dtype == HRF_U8) && v->quantization.scale > 0);
}

static enum hrf_status show(struct hrf_session *session, int32_t value, struct hrf_error *err)
{
    const struct hrf_value *v = &session->graph->values[value];
    if (session->observe != NULL && v->data == NULL && is_narrow(v) && session->device.ops == NULL)
        return show_narrow(session, v, hrf_session_buffer(session, value), err);
    if (session->observe == NULL || v->data != NULL || v->dtype != HRF_F32)
        return HRF_OK;
    const float *data = hrf_session_buffer(session, value);
    if (session->device.ops != NULL)
        HRF_TRY(hrf_session_device_show(session, value, &data, err));
    return session->observe(session->observer, v->name, &v->shape, data, err);
}

static inline bool has_every_tensor(const struct hrf_graph *graph)
{
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (hrf_node_has_prologue(&graph->nodes[i]))
            return false;
    for (int32_t v = 0; v < graph->n_values; v++)
        if (graph->values[v].pixel_stride > 0)
            return false;
    return true;
}

void hrf_session_observe(struct hrf_session *session, hrf_session_observer *observe, void *context)
{
    assert(observe == NULL || has_every_tensor(session->graph)); /* config.every_tensor */
    session->observe = observe;
    session->observer = context;
}

static enum hrf_status run_fused(struct hrf_session *session, int32_t i, struct hrf_error *err)
{
    struct hrf_kernel *kernel = session->kernels[i];
    if (session->peers != NULL)
        HRF_TRY(hrf_peers_progress(session->peers, err));
    return kernel->run_fused(kernel, &session->calls[i], session->kernels[i + 1],
                             &session->calls[i + 1], err);
}

static enum hrf_status run_step(struct hrf_session *session, int32_t i, struct hrf_error *err)
{
    const struct hrf_step *step = &session->plan->steps[i];
    struct hrf_kernel *kernel = session->kernels[i];
    const bool communicates = hrf_op_communicates(session->graph->nodes[step->node].op);
    if (session->peers != NULL)
        HRF_TRY(hrf_peers_progress(session->peers, err));
    if (communicates)
        return session->device.peers != NULL ? hrf_device_peers_run(session->device.peers, i, err)
                                             : hrf_peers_run(session->peers, i, err);
    return step->part == HRF_PART_WHOLE ? kernel->run(kernel, &session->calls[i], err)
                                        : hrf_session_run_part(session, i, err);
}

/* True if no later step computes another part of the same node. */
static bool is_done_after(const struct hrf_plan *plan, int32_t i)
{
    return plan->steps[i].kind == HRF_STEP_END ||
           (plan->steps[i].kind == HRF_STEP_KERNEL && plan->steps[i].part != HRF_PART_INTERIOR &&
            (i + 1 == plan->n_steps || plan->steps[i + 1].node != plan->steps[i].node));
}

/* An observer sees every value, also those that a fused pair would not store. */
static bool is_fused(const struct hrf_session *session, int32_t i)
{
    return i >= 0 && session->plan->steps[i].is_fused && session->observe == NULL;
}

enum hrf_status hrf_session_run_steps(struct hrf_session *session, struct hrf_error *err)
{
    for (int32_t i = 0; i < session->graph->n_inputs; i++)
        HRF_TRY(show(session, session->graph->inputs[i], err));
    for (int32_t i = 0; i < session->plan->n_steps; i++) {
        if (is_fused(session, i))
            HRF_TRY(run_fused(session, i, err));
        else if (!is_fused(session, i - 1))
            HRF_TRY(run_step(session, i, err));
        const struct hrf_node *node = &session->graph->nodes[session->plan->steps[i].node];
        if (is_done_after(session->plan, i))
            HRF_TRY(show(session, node->outputs[0], err));
    }
    return HRF_OK;
}

static bool has_second_output(const struct hrf_session *session, int32_t i)
{
    return is_fused(session, i) &&
           hrf_graph_is_second(session->graph,
                               &session->graph->nodes[session->plan->steps[i + 1].node]);
}

enum hrf_status hrf_session_time_step(struct hrf_session *session, int32_t step,
                                      struct hrf_error *err)
{
    /* A pass with two outputs is one step; the steps of another pair are timed apart. */
    if (has_second_output(session, step))
        HRF_TRY(run_fused(session, step, err));
    else if (!has_second_output(session, step - 1))
        HRF_TRY(run_step(session, step, err));
    return session->device.ops != NULL ? hrf_session_device_wait(session, err) : HRF_OK;
}

enum hrf_status hrf_session_start(struct hrf_session *session, struct hrf_error *err)
{
    assert(session->n_started - session->n_finished < hrf_session_depth(session));
    if (session->ops->enter != NULL)
        session->ops->enter(session->backend);
    if (session->device.ops != NULL) {
        HRF_TRY(hrf_session_device_start(session, err));
    } else {
        HRF_TRY(hrf_session_run_steps(session, err));
    }
    session->n_started++;
    return HRF_OK;
}

enum hrf_status hrf_session_finish(struct hrf_session *session, struct hrf_error *err)
{
    assert(session->n_finished < session->n_started);
    if (session->device.ops != NULL)
        HRF_TRY(hrf_session_device_finish(session, err));
    hrf_session_give_back(session);
    session->n_finished++;
    return session->device.ops != NULL ? hrf_session_device_check(session, err) : HRF_OK;
}

void hrf_session_drop(struct hrf_session *session)
{
    int64_t before = -1; /* a device that failed finishes nothing */
    while (session->n_finished < session->n_started && session->n_finished != before) {
        before = session->n_finished;
        const enum hrf_status ignored = hrf_session_finish(session, NULL);
        (void)ignored;
    }
    session->n_finished = session->n_started; /* of a device that failed nothing is in flight */
}

enum hrf_status hrf_session_run(struct hrf_session *session, struct hrf_error *err)
{
    HRF_TRY(hrf_session_start(session, err));
    return hrf_session_finish(session, err);
}
