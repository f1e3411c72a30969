/* session_device.c - a session whose kernels run on a device: its memory, and batches in and out.
 *
 * The first run queues kernel by kernel (libraries load what they need then), the second is
 * recorded as one graph, and from then on that is replayed. While somebody observes nothing is
 * recorded.
 */
#include "engine/run/session_private.h"

#include <string.h>

static size_t bytes_of(const struct hrf_session *session, int32_t value)
{
    const struct hrf_value *v = &session->graph->values[value];
    return (size_t)hrf_shape_count(&v->shape) * hrf_dtype_size(v->dtype);
}

static enum hrf_status allocate_host(struct hrf_session *session, size_t n_bytes, void *place,
                                     struct hrf_error *err)
{
    void *memory = NULL;
    HRF_TRY(session->device.ops->allocate_host(session->backend, n_bytes, &memory, err));
    memset(memory, 0, n_bytes);
    memcpy(place, &memory, sizeof memory);
    return HRF_OK;
}

static enum hrf_status allocate_ends(struct hrf_session *session, struct hrf_error *err)
{
    const struct hrf_graph *graph = session->graph;
    struct hrf_session_device *d = &session->device;
    d->inputs = hrf_calloc((size_t)graph->n_inputs + 1, sizeof d->inputs[0]);
    if (d->inputs == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the inputs of a device");
    for (int32_t i = 0; i < graph->n_inputs && !session->has_pixels; i++)
        HRF_TRY(allocate_host(session, bytes_of(session, graph->inputs[i]), &d->inputs[i], err));
    for (int slot = 0; slot < HRF_SESSION_SLOTS; slot++) {
        d->outputs[slot] = hrf_calloc((size_t)graph->n_outputs + 1, sizeof d->outputs[slot][0]);
        if (d->outputs[slot] == NULL)
            return hrf_error_set(err, HRF_E_NOMEM, "no memory for the outputs of a device");
        for (int32_t i = 0; i < graph->n_outputs; i++)
            HRF_TRY(allocate_host(session, bytes_of(session, graph->outputs[i]),
                                  &d->outputs[slot][i], err));
        if (session->has_pixels)
            HRF_TRY(allocate_host(session, bytes_of(session, graph->inputs[0]) / sizeof(float),
                                  &d->pixels[slot], err));
    }
    return HRF_OK;
}

enum hrf_status hrf_session_device_allocate(struct hrf_session *session, struct hrf_error *err)
{
    const struct hrf_device_ops *ops = session->device.ops;
    void *arena = NULL;
    if (session->is_lent)
        return allocate_ends(session, err);
    HRF_TRY(ops->allocate(session->backend, (size_t)session->plan->arena_bytes, &arena, err));
    session->arena = arena;
    HRF_TRY(ops->allocate(session->backend, (size_t)session->memory.workspace_bytes,
                          &session->workspace, err));
    return allocate_ends(session, err);
}

void hrf_session_device_release(struct hrf_session *session)
{
    struct hrf_session_device *d = &session->device;
    d->ops->record_destroy(session->backend, d->recording);
    for (int32_t i = 0; d->inputs != NULL && i < session->graph->n_inputs; i++)
        d->ops->release_host(session->backend, d->inputs[i]);
    hrf_free(d->inputs);
    for (int slot = 0; slot < HRF_SESSION_SLOTS; slot++) {
        for (int32_t i = 0; d->outputs[slot] != NULL && i < session->graph->n_outputs; i++)
            d->ops->release_host(session->backend, d->outputs[slot][i]);
        hrf_free(d->outputs[slot]);
        d->ops->release_host(session->backend, d->pixels[slot]);
    }
    d->ops->release_host(session->backend, d->shown);
    d->ops->release_host(session->backend, d->staged[0]);
    d->ops->release_host(session->backend, d->staged[1]);
    if (session->is_lent)
        return;
    d->ops->release(session->backend, session->arena);
    d->ops->release(session->backend, session->workspace);
}

static enum hrf_status queue_inputs(struct hrf_session *session, int32_t slot,
                                    struct hrf_error *err)
{
    const struct hrf_graph *graph = session->graph;
    struct hrf_session_device *d = &session->device;
    if (session->has_pixels)
        return d->ops->upload_pixels(
            session->backend, slot, hrf_session_buffer(session, graph->inputs[0]), d->pixels[slot],
            hrf_shape_count(hrf_session_input_shape(session, 0)) / 3, &session->pixel_form, err);
    for (int32_t i = 0; i < graph->n_inputs; i++)
        HRF_TRY(d->ops->upload(session->backend, hrf_session_buffer(session, graph->inputs[i]),
                               d->inputs[i], bytes_of(session, graph->inputs[i]), err));
    return HRF_OK;
}

static enum hrf_status record(struct hrf_session *session, struct hrf_error *err)
{
    struct hrf_session_device *d = &session->device;
    HRF_TRY(d->ops->record_begin(session->backend, err));
    enum hrf_status status = hrf_session_run_steps(session, err);
    if (status != HRF_OK) { /* the queue must leave the recording in any case */
        (void)d->ops->record_end(session->backend, &d->recording, NULL);
        return status;
    }
    return d->ops->record_end(session->backend, &d->recording, err);
}

static enum hrf_status queue_kernels(struct hrf_session *session, struct hrf_error *err)
{
    struct hrf_session_device *d = &session->device;
    const bool is_first = d->n_runs++ == 0;
    const bool talks = session->peers != NULL && session->peers->comm != NULL;
    if (is_first || session->observe != NULL || talks)
        return hrf_session_run_steps(session, err);
    if (d->recording == NULL)
        HRF_TRY(record(session, err));
    return d->ops->replay(session->backend, d->recording, err);
}

enum hrf_status hrf_session_device_start(struct hrf_session *session, struct hrf_error *err)
{
    const struct hrf_graph *graph = session->graph;
    struct hrf_session_device *d = &session->device;
    const int32_t slot = (int32_t)(session->n_started % HRF_SESSION_SLOTS);
    HRF_TRY(queue_inputs(session, slot, err));
    HRF_TRY(queue_kernels(session, err));
    for (int32_t i = 0; i < graph->n_outputs; i++)
        HRF_TRY(d->ops->download(session->backend, d->outputs[slot][i],
                                 hrf_session_buffer(session, graph->outputs[i]),
                                 bytes_of(session, graph->outputs[i]), err));
    return d->ops->mark(session->backend, slot, err);
}

enum hrf_status hrf_session_device_finish(struct hrf_session *session, struct hrf_error *err)
{
    return session->device.ops->wait(session->backend,
                                     (int32_t)(session->n_finished % HRF_SESSION_SLOTS), err);
}

enum hrf_status hrf_session_device_wait(struct hrf_session *session, struct hrf_error *err)
{
    /* Marks name places in one queue: a batch's own comes later, and takes this one's. */
    HRF_TRY(session->device.ops->mark(session->backend, 0, err));
    return session->device.ops->wait(session->backend, 0, err);
}

static enum hrf_status grow(struct hrf_session *session, void **memory, size_t *n_bytes,
                            size_t needed, struct hrf_error *err)
{
    if (needed <= *n_bytes)
        return HRF_OK;
    HRF_TRY(hrf_session_device_wait(session, err)); /* a copy may still use it */
    session->device.ops->release_host(session->backend, *memory);
    *memory = NULL;
    *n_bytes = 0;
    HRF_TRY(session->device.ops->allocate_host(session->backend, needed, memory, err));
    *n_bytes = needed;
    return HRF_OK;
}

/* What a rank without others takes: of what it has, the part that it needs. */
static enum hrf_status crop(struct hrf_session *session, const struct hrf_exchange *x,
                            const struct hrf_kernel_call *call, struct hrf_error *err)
{
    const struct hrf_box *from = &x->local[session->peers->rank];
    const struct hrf_box *to = &x->need[session->peers->rank];
    const struct hrf_box kept = hrf_box_intersect(from, to);
    const size_t pixel = (size_t)x->channels * x->element_bytes;
    const size_t from_row = (size_t)(from->hi[1] - from->lo[1]) * pixel;
    const size_t to_row = (size_t)(to->hi[1] - to->lo[1]) * pixel;
    for (int64_t image = 0; image < x->n_images && !hrf_box_is_empty(&kept); image++) {
        const int64_t in = image * (from->hi[0] - from->lo[0]) + kept.lo[0] - from->lo[0];
        const int64_t out = image * (to->hi[0] - to->lo[0]) + kept.lo[0] - to->lo[0];
        const char *source = (const char *)call->inputs[0] + (size_t)in * from_row +
                             (size_t)(kept.lo[1] - from->lo[1]) * pixel;
        char *target = (char *)call->output + (size_t)out * to_row +
                       (size_t)(kept.lo[1] - to->lo[1]) * pixel;
        if (target != source) /* else it was made in its place */
            HRF_TRY(session->device.ops->copy_rows(
                session->backend, target, to_row, source, from_row,
                (size_t)(kept.hi[1] - kept.lo[1]) * pixel, (size_t)(kept.hi[0] - kept.lo[0]), err));
    }
    return HRF_OK;
}

enum hrf_status hrf_session_device_communicate(struct hrf_session *session, int32_t step,
                                               struct hrf_error *err)
{
    struct hrf_session_device *d = &session->device;
    const struct hrf_node *node = &session->graph->nodes[session->plan->steps[step].node];
    const struct hrf_kernel_call *call = &session->calls[step];
    const bool has_input = node->n_inputs > 0 && call->inputs[0] != NULL;
    const size_t in = has_input ? bytes_of(session, node->inputs[0]) : 0;
    const size_t out = bytes_of(session, node->outputs[0]);
    if (session->peers->comm == NULL) {
        const struct hrf_exchange *x =
            &session->peers->partition->exchanges[node->attributes.index];
        return has_input && hrf_exchange_takes(x, session->peers->rank)
                   ? crop(session, x, call, err)
                   : HRF_OK;
    }
    HRF_TRY(grow(session, &d->staged[0], &d->staged_bytes[0], in, err));
    HRF_TRY(grow(session, &d->staged[1], &d->staged_bytes[1], out, err));
    if (in > 0)
        HRF_TRY(d->ops->download(session->backend, d->staged[0], call->inputs[0], in, err));
    HRF_TRY(hrf_session_device_wait(session, err));
    const void *from = has_input ? d->staged[0] : NULL;
    if (node->op == HRF_OP_EXCHANGE)
        HRF_TRY(
            hrf_peers_exchange(session->peers, node->attributes.index, from, d->staged[1], err));
    else
        HRF_TRY(hrf_peers_reduce(session->peers, node->attributes.index, from, d->staged[1], err));
    if (node->op == HRF_OP_EXCHANGE &&
        !hrf_exchange_takes(&session->peers->partition->exchanges[node->attributes.index],
                            session->peers->rank))
        return HRF_OK; /* the output holds already what it should */
    return out > 0 ? d->ops->upload(session->backend, call->output, d->staged[1], out, err)
                   : HRF_OK;
}

enum hrf_status hrf_session_device_show(struct hrf_session *session, int32_t value,
                                        const float **out, struct hrf_error *err)
{
    struct hrf_session_device *d = &session->device;
    const size_t n_bytes = bytes_of(session, value);
    void *shown = d->shown;
    enum hrf_status status = grow(session, &shown, &d->shown_bytes, n_bytes, err);
    d->shown = shown;
    HRF_TRY(status);
    HRF_TRY(d->ops->download(session->backend, d->shown, hrf_session_buffer(session, value),
                             n_bytes, err));
    HRF_TRY(hrf_session_device_wait(session, err));
    *out = d->shown;
    return HRF_OK;
}
