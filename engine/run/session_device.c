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
    return (size_t)hrf_value_bytes(&session->graph->values[value]);
}

static enum hrf_status allocate_host(struct hrf_session *session, size_t n_bytes, void *pointer,
                                     struct hrf_error *err)
{
    void *memory = NULL;
    HRF_TRY(session->device.ops->allocate_host(session->backend, n_bytes, &memory, err));
    memset(memory, 0, n_bytes);
    memcpy(pointer, &memory, sizeof memory);
    return HRF_OK;
}

static enum hrf_status allocate_ends(struct hrf_session *session, struct hrf_error *err)
{
    const struct hrf_graph *graph = session->graph;
    struct hrf_session_device *d = &session->device;
    if (session->has_pixels)
        HRF_TRY(d->ops->reserve_pixels(
            session->backend, hrf_shape_count(hrf_session_input_shape(session, 0)) / 3, err));
    d->inputs = hrf_calloc((size_t)graph->n_inputs + 1, sizeof d->inputs[0]);
    for (int32_t i = 0; i < graph->n_inputs && !session->has_pixels; i++)
        HRF_TRY(allocate_host(session, bytes_of(session, graph->inputs[i]), &d->inputs[i], err));
    for (int slot = 0; slot < HRF_SESSION_SLOTS; slot++) {
        d->outputs[slot] = hrf_calloc((size_t)graph->n_outputs + 1, sizeof d->outputs[slot][0]);
        for (int32_t i = 0; i < graph->n_outputs; i++)
            HRF_TRY(allocate_host(session, bytes_of(session, graph->outputs[i]),
                                  &d->outputs[slot][i], err));
        if (session->has_pixels && !session->borrows_pixels)
            HRF_TRY(allocate_host(session,
                                  (size_t)hrf_shape_count(hrf_session_input_shape(session, 0)),
                                  &d->pixels[slot], err));
        d->fed[slot] = d->pixels[slot];
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
    if (session->plan->copy_bytes > 0) {
        void *copies = NULL;
        HRF_TRY(ops->allocate(session->backend, (size_t)session->plan->copy_bytes, &copies, err));
        session->copies = copies;
    }
    return allocate_ends(session, err);
}

void hrf_session_device_stop(struct hrf_session *session)
{
    struct hrf_session_device *d = &session->device;
    hrf_device_peers_leave(d->peers);
    d->ops->recording->destroy(session->backend, d->recording);
    d->recording = NULL;
    hrf_device_peers_abandon(d->peers);
}

void hrf_session_device_forget(struct hrf_session *session)
{
    struct hrf_session_device *d = &session->device;
    d->ops->recording->destroy(session->backend, d->recording);
    d->recording = NULL;
}

void hrf_session_device_release(struct hrf_session *session)
{
    struct hrf_session_device *d = &session->device;
    hrf_device_peers_destroy(d->peers);
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
    for (int32_t i = 0; i < d->n_blocks; i++)
        d->ops->release_host(session->backend, d->blocks[i].memory);
    hrf_free(d->blocks);
    if (session->is_lent)
        return;
    d->ops->release(session->backend, session->arena);
    d->ops->release(session->backend, session->workspace);
    d->ops->release(session->backend, session->copies);
}

static enum hrf_status queue_pixels(struct hrf_session *session, int32_t slot,
                                    struct hrf_error *err)
{
    const struct hrf_session_device *d = &session->device;
    const int32_t input = session->graph->inputs[0];
    const struct hrf_value *x = &session->graph->values[input];
    void *to = hrf_session_buffer(session, input);
    const int64_t n = hrf_shape_count(&x->shape) / 3;
    if (d->tiles[slot] != NULL)
        return d->ops->decoding->decode(session->backend, slot, to, x, d->tiles[slot], n,
                                        &session->pixel_form, err);
    return d->ops->upload_pixels(session->backend, slot, to, x, d->fed[slot], n,
                                 &session->pixel_form, err);
}

static enum hrf_status queue_inputs(struct hrf_session *session, int32_t slot,
                                    struct hrf_error *err)
{
    const struct hrf_graph *graph = session->graph;
    struct hrf_session_device *d = &session->device;
    if (session->has_pixels)
        return queue_pixels(session, slot, err);
    for (int32_t i = 0; i < graph->n_inputs; i++)
        HRF_TRY(d->ops->upload(session->backend, hrf_session_buffer(session, graph->inputs[i]),
                               d->inputs[i], bytes_of(session, graph->inputs[i]), err));
    return HRF_OK;
}

static enum hrf_status record(struct hrf_session *session, struct hrf_error *err)
{
    struct hrf_session_device *d = &session->device;
    if (d->peers != NULL)
        HRF_TRY(hrf_device_peers_record(d->peers, true, err));
    HRF_TRY(d->ops->recording->begin(session->backend, err));
    enum hrf_status status = hrf_session_run_steps(session, err);
    if (status == HRF_OK && d->peers != NULL)
        status = hrf_device_peers_record(d->peers, false, err);
    if (status != HRF_OK) { /* the queue must leave the recording state even after an error */
        (void)d->ops->recording->end(session->backend, &d->recording, NULL);
        return status;
    }
    return d->ops->recording->end(session->backend, &d->recording, err);
}

static enum hrf_status queue_kernels(struct hrf_session *session, struct hrf_error *err)
{
    struct hrf_session_device *d = &session->device;
    const bool is_first = d->n_runs++ == 0;
    const bool may_record = d->peers == NULL || hrf_device_peers_may_record(d->peers);
    if (is_first || session->observe != NULL || !may_record)
        return hrf_session_run_steps(session, err);
    if (d->recording == NULL)
        HRF_TRY(record(session, err));
    if (d->peers != NULL)
        hrf_device_peers_replayed(d->peers);
    return d->ops->recording->replay(session->backend, d->recording, err);
}

enum hrf_status hrf_session_device_start(struct hrf_session *session, struct hrf_error *err)
{
    const struct hrf_graph *graph = session->graph;
    struct hrf_session_device *d = &session->device;
    const int32_t slot = (int32_t)(session->n_started % HRF_SESSION_SLOTS);
    HRF_TRY(queue_inputs(session, slot, err));
    HRF_TRY(d->ops->begin(session->backend, slot, err));
    HRF_TRY(queue_kernels(session, err));
    for (int32_t i = 0; i < graph->n_outputs; i++)
        HRF_TRY(d->ops->download(session->backend, d->outputs[slot][i],
                                 hrf_session_buffer(session, graph->outputs[i]),
                                 bytes_of(session, graph->outputs[i]), err));
    return d->ops->mark(session->backend, slot, err);
}

static enum hrf_status wait_for(struct hrf_session *session, int32_t slot, struct hrf_error *err)
{
    const struct hrf_session_device *d = &session->device;
    return d->peers != NULL ? hrf_device_peers_wait(d->peers, slot, err)
                            : d->ops->wait(session->backend, slot, err);
}

enum hrf_status hrf_session_device_finish(struct hrf_session *session, struct hrf_error *err)
{
    struct hrf_session_device *d = &session->device;
    const int32_t slot = (int32_t)(session->n_finished % HRF_SESSION_SLOTS);
    struct hrf_device_times times;
    HRF_TRY(wait_for(session, slot, err));
    HRF_TRY(d->ops->times(session->backend, slot, &times, err));
    d->times.copy += times.copy;
    d->times.kernels += times.kernels;
    return HRF_OK;
}

enum hrf_status hrf_session_device_check(struct hrf_session *session, struct hrf_error *err)
{
    const struct hrf_session_device *d = &session->device;
    const int32_t slot = (int32_t)((session->n_finished - 1) % HRF_SESSION_SLOTS);
    return d->tiles[slot] != NULL
               ? d->ops->decoding->check(session->backend, slot, d->tiles[slot], err)
               : HRF_OK;
}

enum hrf_status hrf_session_device_wait(struct hrf_session *session, struct hrf_error *err)
{
    /* A mark names a place in one queue. The batch's own mark is set later and replaces this one.
     */
    HRF_TRY(session->device.ops->mark(session->backend, 0, err));
    return wait_for(session, 0, err);
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

const char *hrf_session_transports(const struct hrf_session *session)
{
    const struct hrf_device_peers *peers = session->device.peers;
    return peers != NULL ? hrf_device_peers_transports(peers) : NULL;
}
