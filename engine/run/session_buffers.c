/* session_buffers.c - where a session's tensors are: addresses of values for the kernels, inputs
 * that the caller fills or lends, outputs. */
#include "engine/run/session_private.h"

#include <assert.h>
#include <string.h>

void *hrf_session_buffer(const struct hrf_session *session, int32_t value)
{
    const struct hrf_value *v = &session->graph->values[value];
    if (v->data != NULL)
        return v->data;
    if (session->fed != NULL && value == session->graph->inputs[0])
        return (void *)(uintptr_t)session->fed;
    return session->arena + hrf_plan_offset(session->plan, value);
}

enum hrf_status hrf_session_allocate_calls(struct hrf_session *session, struct hrf_error *err)
{
    const struct hrf_plan *plan = session->plan;
    size_t total = 0, most = 0;
    for (int32_t i = 0; i < plan->n_steps; i++) {
        const size_t n = (size_t)session->graph->nodes[plan->steps[i].node].n_inputs;
        total += n;
        most = n > most ? n : most;
    }
    session->inputs = hrf_calloc(total + 1, sizeof(const void *));
    session->part_inputs = hrf_calloc(most + 1, sizeof(const void *));
    session->calls = hrf_calloc((size_t)plan->n_steps + 1, sizeof session->calls[0]);
    HRF_CHECK_MEMORY(session->inputs != NULL && session->part_inputs != NULL &&
                         session->calls != NULL,
                     err, "no memory to bind %d steps", plan->n_steps);
    return HRF_OK;
}

/* Parts of nodes compute theirs for each image. */
void hrf_session_bind_calls(struct hrf_session *session)
{
    const struct hrf_graph *graph = session->graph;
    const void **at = session->inputs;
    if (session->peers != NULL)
        session->peers->memory[HRF_MEMORY_ARENA] = (char *)session->arena;
    for (int32_t i = 0; i < session->plan->n_steps; i++) {
        const struct hrf_node *node = &graph->nodes[session->plan->steps[i].node];
        session->calls[i] = (struct hrf_kernel_call){ .inputs = at,
                                                      .output = hrf_session_buffer(
                                                          session, node->outputs[0]),
                                                      .workspace = session->workspace };
        for (int32_t k = 0; k < node->n_inputs; k++, at++)
            if (node->inputs[k] >= 0 && graph->values[node->inputs[k]].data == NULL)
                *at = hrf_session_buffer(session, node->inputs[k]);
    }
}

enum hrf_status hrf_session_allocate(struct hrf_session *session, int64_t n_bytes, void **out,
                                     struct hrf_error *err)
{
    if (session->device.ops != NULL)
        return session->device.ops->allocate(session->backend, (size_t)n_bytes, out, err);
    *out = hrf_alloc_aligned((size_t)n_bytes + 1, HRF_BUFFER_ALIGNMENT);
    return *out != NULL ? HRF_OK
                        : hrf_error_set(err, HRF_E_NOMEM, "no memory for %.2f GiB of activations",
                                        (double)n_bytes / 0x1p30);
}

void hrf_session_free(struct hrf_session *session, void *memory)
{
    if (memory != NULL && session->device.ops != NULL)
        session->device.ops->release(session->backend, memory);
    else
        hrf_free(memory);
}

/* A value that shares its buffer, as what is computed in place
 * does, is made of the copy in the arena, and so is what ranks send. */
bool hrf_session_may_borrow(const struct hrf_session *session)
{
    const struct hrf_plan *plan = session->plan;
    if (session->device.ops != NULL || session->peers != NULL || session->graph->n_inputs == 0)
        return false;
    const int32_t input = session->graph->inputs[0];
    for (int32_t v = 0; v < plan->n_values; v++)
        if (v != input && plan->buffer_of[v] == plan->buffer_of[input])
            return false;
    for (int32_t i = 0; i < session->graph->n_outputs; i++)
        if (session->graph->outputs[i] == input)
            return false;
    return true;
}

enum hrf_status hrf_session_take_host(struct hrf_session *session, size_t n_bytes, void **out,
                                      struct hrf_error *err)
{
    struct hrf_session_device *d = &session->device;
    assert(d->ops != NULL);
    for (int32_t i = 0; i < d->n_blocks; i++)
        if (!d->blocks[i].is_taken && d->blocks[i].n_bytes == n_bytes) {
            d->blocks[i].is_taken = true;
            *out = d->blocks[i].memory;
            return HRF_OK;
        }
    struct hrf_host_block *blocks = hrf_realloc_array(d->blocks, (size_t)d->n_blocks + 1,
                                                      sizeof *blocks);
    HRF_CHECK_MEMORY(blocks != NULL, err, "no memory for the inputs of a device");
    d->blocks = blocks;
    void *memory = NULL;
    HRF_TRY(d->ops->allocate_host(session->backend, n_bytes, &memory, err));
    blocks[d->n_blocks++] = (struct hrf_host_block){ memory, n_bytes, true };
    *out = memory;
    return HRF_OK;
}

void hrf_session_give_host(struct hrf_session *session, void *memory)
{
    struct hrf_session_device *d = &session->device;
    for (int32_t i = 0; i < d->n_blocks; i++)
        if (d->blocks[i].memory == memory)
            d->blocks[i].is_taken = false;
}

void hrf_session_feed(struct hrf_session *session, const void *batch)
{
    const int32_t input = session->graph->inputs[0];
    const struct hrf_value *x = &session->graph->values[input];
    assert((uintptr_t)batch % HRF_BUFFER_ALIGNMENT == 0);
    if (session->has_pixels) {
        const int64_t slot = session->n_started % HRF_SESSION_SLOTS;
        uint8_t *copy = session->device.pixels[slot];
        if (!session->borrows_pixels)
            memcpy(copy, batch, (size_t)hrf_shape_count(&x->shape));
        session->device.fed[slot] = session->borrows_pixels ? batch : copy;
        session->device.tiles[slot] = NULL;
    } else if (session->device.ops != NULL) {
        memcpy(session->device.inputs[0], batch, (size_t)hrf_value_bytes(x));
    } else if (session->may_borrow) {
        session->fed = batch;
        hrf_session_bind_calls(session);
    } else {
        memcpy(hrf_session_buffer(session, input), batch, (size_t)hrf_value_bytes(x));
    }
}

void hrf_session_feed_tiles(struct hrf_session *session, const struct hrf_tile_batch *batch)
{
    assert(session->borrows_pixels);
    session->device.tiles[session->n_started % HRF_SESSION_SLOTS] = batch;
}

enum hrf_status hrf_session_open_decoder(struct hrf_session *session, const char **name,
                                         struct hrf_error *err)
{
    const struct hrf_device_ops *ops = session->device.ops;
    if (ops == NULL || ops->decoding == NULL || !session->borrows_pixels)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "the network does not take pixels as bytes on a GPU");
    return ops->decoding->open(session->backend, name, err);
}

void hrf_session_give_back(struct hrf_session *session)
{
    if (session->fed == NULL)
        return;
    session->fed = NULL;
    hrf_session_bind_calls(session);
}

void hrf_session_lend(struct hrf_session *session, void *arena, void *workspace)
{
    session->arena = arena;
    session->workspace = workspace;
    hrf_session_bind_calls(session);
}

int32_t hrf_session_depth(const struct hrf_session *session)
{
    return session->has_pixels ? HRF_SESSION_SLOTS : 1;
}

struct hrf_feed_form hrf_session_feed_form(const struct hrf_session *session)
{
    const struct hrf_value *x = &session->graph->values[session->graph->inputs[0]];
    return (struct hrf_feed_form){ .raw = session->has_pixels,
                                   .type = x->dtype,
                                   .quantization = x->quantization };
}

float *hrf_session_input(struct hrf_session *session, int32_t i)
{
    assert(session->fed == NULL || i > 0);
    if (session->device.ops != NULL)
        return session->device.inputs[i];
    return hrf_session_buffer(session, session->graph->inputs[i]);
}

const float *hrf_session_output(const struct hrf_session *session, int32_t i)
{
    if (session->device.ops != NULL) /* times of the last finished batch */
        return session->device.outputs[(session->n_finished + 1) % HRF_SESSION_SLOTS][i];
    return hrf_session_buffer(session, session->graph->outputs[i]);
}

const struct hrf_shape *hrf_session_input_shape(const struct hrf_session *session, int32_t i)
{
    return &session->graph->values[session->graph->inputs[i]].shape;
}

const struct hrf_shape *hrf_session_output_shape(const struct hrf_session *session, int32_t i)
{
    return &session->graph->values[session->graph->outputs[i]].shape;
}
