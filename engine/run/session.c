/* session.c - makes a network ready on one device (passes, precision, kernels, buffers) and runs it
 * (session.h). */
#include "engine/run/session.h"

#include "base/own_process.h"
#include "engine/backend/backend.h"
#include "engine/ir/number.h"
#include "engine/passes/passes.h"
#include "engine/plan/pixel_stride.h"
#include "engine/plan/plan.h"
#include "engine/run/session_private.h"
#include "schema/settings/precision.h"

#include <assert.h>
#include <stdio.h>
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

static void allocate_calls(struct hrf_session *session)
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
}

/* Sets the addresses of every call's tensors. Steps that compute a part find theirs for each
 * image. */
static void bind_calls(struct hrf_session *session)
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

/* Input 0 cannot be read where the caller has it if another value shares its buffer (it is then
 * overwritten in the arena) or if ranks send parts of it from there. */
static bool may_borrow_input(const struct hrf_session *session)
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
        bind_calls(session);
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

static void give_input_back(struct hrf_session *session)
{
    if (session->fed == NULL)
        return;
    session->fed = NULL;
    bind_calls(session);
}

void hrf_session_lend(struct hrf_session *session, void *arena, void *workspace)
{
    session->arena = arena;
    session->workspace = workspace;
    bind_calls(session);
}

void hrf_kept_memory_release(struct hrf_kept_memory *kept)
{
    hrf_free(kept->arena);
    hrf_free(kept->workspace);
    *kept = (struct hrf_kept_memory){ .arena = NULL };
}

static enum hrf_status grow(void **memory, int64_t *n_bytes, int64_t needed, struct hrf_error *err)
{
    if (*memory != NULL && needed <= *n_bytes)
        return HRF_OK;
    hrf_free(*memory);
    *memory = hrf_alloc_aligned((size_t)needed + 1, HRF_BUFFER_ALIGNMENT);
    *n_bytes = *memory != NULL ? needed : 0;
    HRF_CHECK_MEMORY(*memory != NULL, err, "no memory for %.2f GiB of activations",
                     (double)needed / 0x1p30);
    return HRF_OK;
}

enum hrf_status hrf_session_lend_kept(struct hrf_session *session, struct hrf_kept_memory *kept,
                                      struct hrf_error *err)
{
    const struct hrf_session_memory *m = &session->memory;
    HRF_TRY(grow(&kept->arena, &kept->arena_bytes, m->activation_bytes, err));
    HRF_TRY(grow(&kept->workspace, &kept->workspace_bytes, m->workspace_bytes, err));
    hrf_session_lend(session, kept->arena, kept->workspace);
    return HRF_OK;
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
    if (session->device.ops != NULL) /* the outputs of the last finished batch */
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

static char *address_of(const struct hrf_session *session, int32_t value, int64_t image,
                        const struct hrf_box *box)
{
    const struct hrf_value *v = &session->graph->values[value];
    const int64_t pixel_bytes = v->shape.dims[1] * (int64_t)hrf_dtype_size(v->dtype);
    return (char *)hrf_session_buffer(session, value) + image * hrf_part_image_bytes(v) +
           box->lo[0] * hrf_part_row_bytes(v) + box->lo[1] * pixel_bytes;
}

/* Describes the copy between `box` of a value, which starts at `image_rows`, and a dense buffer. */
static enum hrf_status copy_rows(struct hrf_session *session, const struct hrf_value *v,
                                 const struct hrf_box *box, char *image_rows, char *dense,
                                 bool is_out, struct hrf_error *err)
{
    const struct hrf_box row = { { 0, box->lo[1] }, { 1, box->hi[1] } };
    const int64_t n = hrf_part_bytes(v, &row), stride = hrf_part_row_bytes(v);
    const struct hrf_device_box rows = { .to = is_out ? image_rows : dense,
                                         .from = is_out ? dense : image_rows,
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
        char *image_rows = address_of(session, node->inputs[k], image, &need);
        session->part_inputs[k] = image_rows;
        if (hrf_part_is_copied(step->part)) {
            char *copy = take(free_bytes, v, &need);
            HRF_TRY(copy_rows(session, v, &need, image_rows, copy, false, err));
            session->part_inputs[k] = copy;
        }
    }
    return HRF_OK;
}

static bool is_even(const struct hrf_graph *graph, int32_t value)
{
    return value < 0 || graph->values[value].data != NULL ||
           hrf_part_row_bytes(&graph->values[value]) % HRF_PLAN_OFFSET_ALIGNMENT == 0;
}

static void keep_even_parts(const struct hrf_graph *graph, struct hrf_rank_map *map)
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

static enum hrf_status run_part(struct hrf_session *session, int32_t i, struct hrf_error *err)
{
    const struct hrf_step *step = &session->plan->steps[i];
    const struct hrf_graph *graph = session->graph;
    const struct hrf_node *node = &graph->nodes[step->node];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const bool is_copied = hrf_part_is_copied(step->part);
    for (int64_t image = 0; image < hrf_part_runs(graph, node, step->part); image++) {
        char *free_bytes = session->copies;
        char *image_rows = address_of(session, node->outputs[0], image, &step->box);
        HRF_TRY(bind_inputs(session, step, image, &free_bytes, err));
        const struct hrf_kernel_call call = { .inputs = session->part_inputs,
                                              .output = is_copied ? take(&free_bytes, y, &step->box)
                                                                  : image_rows,
                                              .workspace = session->workspace };
        HRF_TRY(session->kernels[i]->run(session->kernels[i], &call, err));
        if (is_copied)
            HRF_TRY(copy_rows(session, y, &step->box, image_rows, call.output, true, err));
    }
    return HRF_OK;
}

/* Converts an 8- or 16-bit value in host memory to the float that it stands for. */
static enum hrf_status show_narrow(struct hrf_session *session, const struct hrf_value *v,
                                   const void *data, struct hrf_error *err)
{
    const int64_t n = hrf_shape_count(&v->shape);
    HRF_AUTO_FREE float *wide = hrf_try_alloc_array((size_t)n, sizeof *wide);
    HRF_CHECK_MEMORY(wide != NULL, err, "no memory to show '%s'", v->name);
    if (hrf_dtype_is_half(v->dtype))
        hrf_floats_from(v->dtype, data, wide, n);
    for (int64_t i = 0; i < n && hrf_dtype_is_byte(v->dtype); i++) {
        const int32_t q = v->dtype == HRF_S8 ? ((const int8_t *)data)[i]
                                             : ((const uint8_t *)data)[i];
        wide[i] = (float)(q - v->quantization.zero_point) * v->quantization.scale;
    }
    return session->observe(session->observer, v->name, &v->shape, wide, err);
}

static bool is_narrow(const struct hrf_value *v)
{
    return hrf_dtype_is_half(v->dtype) ||
           (hrf_dtype_is_byte(v->dtype) && v->quantization.scale > 0);
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
                                        : run_part(session, i, err);
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

static enum hrf_status run_steps(struct hrf_session *session, int32_t from, int32_t to,
                                 struct hrf_error *err)
{
    for (int32_t i = from; i < to; i++) {
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

enum hrf_status hrf_session_run_steps(struct hrf_session *session, struct hrf_error *err)
{
    for (int32_t i = 0; i < session->graph->n_inputs; i++)
        HRF_TRY(show(session, session->graph->inputs[i], err));
    return run_steps(session, 0, session->plan->n_steps, err);
}

void hrf_session_use_arena(struct hrf_session *session, int32_t arena)
{
    assert(arena >= 0 && arena < session->n_arenas);
    if (session->n_arenas == 1)
        return;
    session->arena = session->arenas +
                     (size_t)arena *
                         hrf_round_up((size_t)session->plan->arena_bytes, HRF_BUFFER_ALIGNMENT);
    bind_calls(session);
}

enum hrf_status hrf_session_run_pass(struct hrf_session *session, bool is_backward,
                                     struct hrf_error *err)
{
    const int32_t backward = hrf_plan_first_backward(session->plan);
    assert(session->device.ops == NULL && session->observe == NULL);
    if (session->ops->enter != NULL)
        session->ops->enter(session->backend);
    return run_steps(session, is_backward ? backward : 0,
                     is_backward ? session->plan->n_steps : backward, err);
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
    give_input_back(session);
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

static enum hrf_status check_supported(const struct hrf_session *session, struct hrf_error *err)
{
    const struct hrf_graph *graph = session->graph;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_error why = { .status = HRF_OK };
        if (hrf_op_communicates(graph->nodes[i].op) ||
            hrf_backend_supports(session->ops, graph, &graph->nodes[i], &why))
            continue;
        if (err != NULL)
            *err = why;
        return why.status;
    }
    return HRF_OK;
}

static enum hrf_status check_inputs(const struct hrf_graph *graph, struct hrf_error *err)
{
    for (int32_t i = 0; i < graph->n_inputs; i++)
        if (graph->values[graph->inputs[i]].dtype != HRF_F32)
            return hrf_error_set(err, HRF_E_UNSUPPORTED,
                                 "input '%s' is %s, and what is fed is float32: export the model "
                                 "with a float32 input",
                                 graph->values[graph->inputs[i]].name,
                                 hrf_dtype_name(graph->values[graph->inputs[i]].dtype));
    return HRF_OK;
}

static enum hrf_status compile_part(struct hrf_session *session, const struct hrf_step *step,
                                    struct hrf_kernel **out, struct hrf_error *err)
{
    const struct hrf_node *node = &session->graph->nodes[step->node];
    HRF_AUTO(hrf_graph) part = NULL;
    if (step->part == HRF_PART_WHOLE)
        return hrf_backend_compile(session->ops, session->backend, session->graph, node, out, err);
    HRF_TRY(hrf_part_graph(session->graph, node, &step->box, 1, &part, err));
    return hrf_backend_compile(session->ops, session->backend, part, &part->nodes[0], out, err);
}

/* Checks the memory of the session that is known so far against the limit. */
static enum hrf_status check_limit(const struct hrf_session *session,
                                   const struct hrf_session_config *config, struct hrf_error *err)
{
    const struct hrf_session_memory *m = &session->memory;
    const int64_t limit = config->memory_limit_bytes, kept = config->memory_kept_bytes;
    const int64_t needed = hrf_session_memory_total(m) + kept;
    char beside[32] = "";
    if (limit <= 0 || needed <= limit)
        return HRF_OK;
    if (kept > 0)
        snprintf(beside, sizeof beside, ", kept %.3g", (double)kept / 0x1p30);
    return hrf_error_set(err, HRF_E_NOMEM,
                         "the model needs at least %.3g GiB (activations %.3g, weights %.3g, "
                         "workspace %.3g%s) and {engine.memory} allows %.3g GiB; use a smaller "
                         "batch",
                         (double)needed / 0x1p30, (double)m->activation_bytes / 0x1p30,
                         (double)m->weight_bytes / 0x1p30, (double)m->workspace_bytes / 0x1p30,
                         beside, (double)limit / 0x1p30);
}

/* last[value]: the last step whose node reads it. */
static int32_t *find_last_steps(const struct hrf_plan *plan, const struct hrf_graph *graph)
{
    int32_t *last = hrf_calloc((size_t)graph->n_values + 1, sizeof *last);
    for (int32_t i = 0; i < plan->n_steps; i++) {
        const struct hrf_node *node = &graph->nodes[plan->steps[i].node];
        for (int32_t k = 0; k < node->n_inputs; k++)
            if (node->inputs[k] >= 0)
                last[node->inputs[k]] = i;
    }
    return last;
}

static bool has_variables(const struct hrf_graph *graph, const struct hrf_node *node)
{
    for (int32_t k = 0; k < node->n_inputs; k++)
        if (node->inputs[k] >= 0 && graph->values[node->inputs[k]].is_variable)
            return true;
    return false;
}

/* kept[value]: constants of nodes whose kernels will be made again. */
static bool *find_kept(const struct hrf_graph *graph)
{
    bool *kept = hrf_calloc((size_t)graph->n_values + 1, sizeof *kept);
    for (int32_t i = 0; i < graph->n_nodes; i++)
        for (int32_t k = 0; k < graph->nodes[i].n_inputs; k++)
            if (graph->nodes[i].inputs[k] >= 0 && has_variables(graph, &graph->nodes[i]))
                kept[graph->nodes[i].inputs[k]] = true;
    return kept;
}

/* On the host a kernel has its own packed weights, so the graph's are freed before the next ones
 * are packed: memory does not hold both copies of all weights. */
static void drop_read_constants(struct hrf_session *session, const int32_t *last, const bool *kept,
                                int32_t step)
{
    const struct hrf_node *node = &session->graph->nodes[session->plan->steps[step].node];
    for (int32_t k = 0; k < node->n_inputs && session->device.ops == NULL; k++)
        if (node->inputs[k] >= 0 && last[node->inputs[k]] == step && !kept[node->inputs[k]])
            hrf_graph_drop_constant(session->graph, node->inputs[k]);
}

/* The limit is checked after each kernel, because a malicious model may use one set of weights in
 * every node. */
static enum hrf_status compile_kernels(struct hrf_session *session, const bool *kept,
                                       const struct hrf_session_config *config,
                                       struct hrf_error *err)
{
    const struct hrf_plan *plan = session->plan;
    session->kernels = hrf_calloc((size_t)plan->n_steps + 1, sizeof(struct hrf_kernel *));
    HRF_AUTO_FREE int32_t *last = find_last_steps(plan, session->graph);
    for (; session->n_kernels < plan->n_steps; session->n_kernels++) {
        const int32_t i = session->n_kernels;
        struct hrf_kernel *kernel = NULL;
        HRF_TRY(check_limit(session, config, err));
        if (hrf_op_communicates(session->graph->nodes[plan->steps[i].node].op))
            continue;
        if (hrf_plan_is_as_before(plan, session->graph, i)) {
            session->kernels[i] = session->kernels[i - 1];
            continue;
        }
        HRF_TRY(compile_part(session, &plan->steps[i], &kernel, err));
        session->kernels[i] = kernel;
        session->memory.weight_bytes += (int64_t)kernel->weight_bytes;
        if ((int64_t)kernel->workspace_bytes > session->memory.workspace_bytes)
            session->memory.workspace_bytes = (int64_t)kernel->workspace_bytes;
        drop_read_constants(session, last, kept, i);
    }
    return HRF_OK;
}

enum hrf_status hrf_session_refresh(struct hrf_session *session, struct hrf_error *err)
{
    const struct hrf_plan *plan = session->plan;
    bool is_compiled = false;
    if (session->ops->enter != NULL)
        session->ops->enter(session->backend);
    for (int32_t i = 0; i < plan->n_steps; i++) {
        const struct hrf_node *node = &session->graph->nodes[plan->steps[i].node];
        struct hrf_kernel *kernel = NULL;
        if (hrf_op_communicates(node->op) || !has_variables(session->graph, node))
            continue;
        const bool is_shared = hrf_plan_is_as_before(plan, session->graph, i);
        if (is_shared) {
            session->kernels[i] = session->kernels[i - 1];
            continue;
        }
        if (plan->steps[i].part == HRF_PART_WHOLE && session->kernels[i]->refresh != NULL) {
            HRF_TRY(session->kernels[i]->refresh(session->kernels[i], session->graph, node, err));
            continue;
        }
        HRF_TRY(compile_part(session, &plan->steps[i], &kernel, err));
        hrf_kernel_destroy(session->kernels[i]);
        session->kernels[i] = kernel;
        is_compiled = true;
    }
    if (is_compiled && session->device.ops != NULL)
        hrf_session_device_forget(session);
    return HRF_OK;
}

static bool can_fuse(void *context, int32_t first, const struct hrf_fused_pair *pair)
{
    const struct hrf_session *session = context;
    const struct hrf_kernel *kernel = session->kernels[first];
    return kernel->can_fuse != NULL && kernel->can_fuse(kernel, session->kernels[first + 1], pair);
}

static enum hrf_status allocate(struct hrf_session *session,
                                const struct hrf_session_config *config, struct hrf_error *err)
{
    if (session->device.peers != NULL)
        session->memory.activation_bytes += hrf_device_peers_bytes(session->device.peers);
    if (session->has_pixels) /* two batches of pixels are in flight as bytes */
        session->memory.activation_bytes += HRF_SESSION_SLOTS *
                                            hrf_shape_count(hrf_session_input_shape(session, 0));
    HRF_TRY(check_limit(session, config, err));
    allocate_calls(session);
    size_t arena = (size_t)session->n_arenas *
                   hrf_round_up((size_t)session->plan->arena_bytes, HRF_BUFFER_ALIGNMENT);
    size_t workspace = (size_t)session->memory.workspace_bytes;
    if (session->device.ops != NULL)
        HRF_TRY(hrf_session_device_allocate(session, err));
    if (session->is_lent)
        return HRF_OK;
    if (session->device.ops != NULL) {
        bind_calls(session);
        return HRF_OK;
    }
    session->arenas = hrf_alloc_aligned(arena, HRF_BUFFER_ALIGNMENT);
    session->arena = session->arenas;
    session->workspace = hrf_alloc_aligned(workspace, HRF_BUFFER_ALIGNMENT);
    session->copies = hrf_alloc_aligned((size_t)session->plan->copy_bytes + 1,
                                        HRF_BUFFER_ALIGNMENT);
    HRF_CHECK_MEMORY(
        session->arena != NULL && session->workspace != NULL && session->copies != NULL, err,
        "no memory for %.2f GiB of activations", (double)(arena + workspace) / 0x1p30);
    for (int32_t i = session->may_borrow; i < session->graph->n_inputs; i++)
        memset(hrf_session_input(session, i), 0,
               (size_t)hrf_value_bytes(&session->graph->values[session->graph->inputs[i]]));
    bind_calls(session);
    return HRF_OK;
}

static enum hrf_dtype precision_type(enum hrf_precision precision)
{
    static const enum hrf_dtype types[HRF_N_PRECISIONS] = { [HRF_FP32] = HRF_F32,
                                                            [HRF_TF32] = HRF_F32,
                                                            [HRF_FP16] = HRF_F16,
                                                            [HRF_BF16] = HRF_B16,
                                                            [HRF_INT8] = HRF_S8 };
    return types[precision];
}

/* The fused graph, lowered to the requested precision. */
static enum hrf_status lower(struct hrf_graph **graph, const struct hrf_session_config *config,
                             const struct hrf_backend_ops *ops, struct hrf_strbuf *notes,
                             struct hrf_error *err)
{
    const struct hrf_lowering how = { .type = precision_type(config->precision),
                                      .n_variables = config->n_variables,
                                      .spent = *graph,
                                      .ranges = config->ranges,
                                      .n_ranges = config->n_ranges,
                                      .keep = config->keep,
                                      .keep_reasons = config->keep_reasons,
                                      .keep_precisions = config->keep_precisions,
                                      .n_keep = config->n_keep,
                                      .signed_only = ops->signed_only,
                                      .rounds_rows = !config->fixed_scales };
    HRF_AUTO(hrf_graph) lowered = NULL;
    if (how.type == HRF_F32)
        return HRF_OK;
    const bool brings_scales = hrf_lower_brings_scales(*graph);
    if (how.type == HRF_S8 && brings_scales && config->n_ranges > 0)
        hrf_strbuf_addf(notes,
                        "the model brings its own INT8 scales: the calibration is not used\n");
    if (how.type == HRF_S8 && config->n_ranges == 0 && !brings_scales)
        return hrf_error_set(err, HRF_E_USER,
                             "int8 needs the ranges of a calibration: run hires-flow calibrate, or "
                             "use a model that brings its own scales");
    HRF_TRY(hrf_pass_lower(*graph, &how, &lowered, notes, err));
    hrf_graph_destroy(*graph);
    HRF_MOVE(*graph, lowered);
    return HRF_OK;
}

static enum hrf_status prepare_outputs(struct hrf_session *session, struct hrf_error *err)
{
    for (int32_t i = 0; i < session->graph->n_outputs; i++)
        if (session->graph->values[session->graph->outputs[i]].data != NULL)
            return hrf_error_set(err, HRF_E_UNSUPPORTED,
                                 "output '%s' is the same for every input: export the model with "
                                 "an output that is computed from its input",
                                 session->graph->values[session->graph->outputs[i]].name);
    return HRF_OK;
}

/* Chooses the device of a valid configuration. */
static enum hrf_status check_config(const struct hrf_session_config *config,
                                    const struct hrf_backend_ops **ops, struct hrf_strbuf *notes,
                                    struct hrf_error *err)
{
    HRF_TRY(hrf_backend_choose(config->device, ops, notes, err));
    if (hrf_precision_row(config->precision)->needs_tf32 && !(*ops)->has_tf32)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "tf32 is a precision of NVIDIA GPUs, and the device is %s: use fp32, "
                             "or device cuda",
                             (*ops)->name);
    return HRF_OK;
}

/* spent: its constants are dropped once they have been copied; NULL: none. */
static enum hrf_status prepare(const struct hrf_graph *graph,
                               const struct hrf_session_config *config, struct hrf_graph *spent,
                               struct hrf_graph **out, double *operations, struct hrf_strbuf *notes,
                               struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) prepared = NULL;
    const struct hrf_backend_ops *ops = NULL;
    HRF_TRY(check_config(config, &ops, notes, err));
    HRF_TRY(hrf_graph_copy(graph, &prepared, err));
    if (spent != NULL)
        hrf_graph_drop_constants(spent); /* what a pass replaces is then freed */
    HRF_TRY(hrf_graph_infer_shapes(prepared, err));
    HRF_TRY(check_inputs(prepared, err));
    *operations = 0;
    for (int32_t i = 0; i < prepared->n_nodes; i++)
        *operations += hrf_node_operations(prepared, &prepared->nodes[i]);
    HRF_TRY(hrf_pass_float_outputs(prepared, err));
    if (precision_type(config->precision) == HRF_S8)
        HRF_TRY(hrf_pass_take_integer_weights(prepared, err));
    HRF_TRY(hrf_passes_run(prepared, err));
    /* Functions of bytes as tables, and attention of bytes. */
    const bool is_int8 = precision_type(config->precision) == HRF_S8;
    const bool looks_up = is_int8 &&
                          hrf_kernels_have(ops->kernels, HRF_OP_BYTE_ATTENTION, HRF_FORM_INTEGER);
    if (is_int8) {
        if (looks_up)
            HRF_TRY(hrf_pass_make_lookups(prepared, err));
        HRF_TRY(hrf_pass_drop_pairs(prepared, err));
    }
    HRF_TRY(hrf_pass_fuse_transformer(prepared, err));
    HRF_TRY(hrf_pass_batch_first(prepared, err));
    HRF_TRY(hrf_pass_attention_of_tokens(prepared, err));
    if (looks_up)
        HRF_TRY(hrf_pass_fuse_own_attention(prepared, err));
    HRF_TRY(hrf_pass_channels_first(prepared, err));
    HRF_TRY(hrf_pass_fuse_channels(prepared, err));
    HRF_TRY(hrf_pass_fuse_product(prepared, err));
    HRF_TRY(hrf_pass_join_moves(prepared, err));
    HRF_TRY(lower(&prepared, config, ops, notes, err));
    if (!config->every_tensor) {
        HRF_TRY(hrf_pass_fuse_epilogue(prepared, ops->kernels, err));
        HRF_TRY(hrf_pass_fuse_product_residual(prepared, err));
        if (is_int8 && ops->token_type != HRF_DTYPE_NONE)
            hrf_pass_narrow_tokens(prepared, ops->token_type);
        if (!is_int8)
            HRF_TRY(hrf_pass_fuse_prologue(prepared, ops->kernels, err));
        hrf_pass_mark_second_outputs(prepared, ops->kernels);
        HRF_TRY(hrf_pixel_stride_set(prepared, ops->kernels, err));
    }
    for (int32_t i = 0; i < graph->n_outputs; i++) { /* a pass may have put others in their place */
        const struct hrf_value *from = &graph->values[graph->outputs[i]];
        prepared->values[prepared->outputs[i]].is_batch_sum = from->is_batch_sum;
        prepared->values[prepared->outputs[i]].is_of_batch = from->is_of_batch;
    }
    HRF_MOVE(*out, prepared);
    return HRF_OK;
}

enum hrf_status hrf_session_prepare(const struct hrf_graph *graph,
                                    const struct hrf_session_config *config, struct hrf_graph **out,
                                    double *operations, struct hrf_strbuf *notes,
                                    struct hrf_error *err)
{
    return prepare(graph, config, NULL, out, operations, notes, err);
}

void hrf_session_close_variables(const struct hrf_session_config *config,
                                 struct hrf_graph *prepared)
{
    if (hrf_dtype_is_half(precision_type(config->precision)))
        hrf_graph_close_inputs(prepared, config->rounded, config->n_variables);
    hrf_graph_close_inputs(prepared, config->variables, config->n_variables);
}

static enum hrf_status check_pixels(const struct hrf_session *session, struct hrf_error *err)
{
    if (!session->has_pixels)
        return HRF_OK;
    if (session->device.ops == NULL)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "device %s takes images as floats: give it no pixels of 8 bits",
                             session->ops->name);
    const struct hrf_value *x = &session->graph->values[session->graph->inputs[0]];
    if (session->graph->n_inputs != 1 || x->shape.rank != 4 || x->shape.dims[1] != 3)
        return hrf_error_set(err, HRF_E_USER,
                             "the model has %d inputs, the first of %d dimensions, and pixels are "
                             "fed as one image of 3 channels: give it floats",
                             session->graph->n_inputs, (int)x->shape.rank);
    return HRF_OK;
}

/* Creates the back end and agrees with the other ranks on what must be equal, before each rank
 * spends time on its own work. */
static enum hrf_status start(struct hrf_session *session, const struct hrf_session_config *config,
                             struct hrf_error *err)
{
    struct hrf_comm *comm = session->peers != NULL ? session->peers->comm : NULL;
    const struct hrf_backend_config backend = {
        .n_threads = config->n_threads > 0 ? config->n_threads : hrf_process_cpu_count(),
        .device_index = comm != NULL && comm->is_one_process ? comm->rank : -1,
        .allow_tf32 = hrf_precision_row(config->precision)->needs_tf32,
    };
    const bool is_nccl = config->transport == HRF_TRANSPORT_NCCL;
    if (comm != NULL && (is_nccl || config->transport == HRF_TRANSPORT_IPC) &&
        session->device.ops == NULL)
        return hrf_error_set(
            err, HRF_E_USER,
            "--comm %s carries what lies on GPUs, and the device is %s: use --comm mpi",
            is_nccl ? "nccl" : "ipc", session->ops->name);
    HRF_TRY(session->ops->create(&backend, &session->backend, err));
    if (session->ops->enter != NULL)
        session->ops->enter(session->backend);
    if (session->device.ops != NULL && session->peers != NULL)
        HRF_TRY(hrf_device_peers_create(session->peers, session->device.ops, session->backend,
                                        config->transport, config->gpu_links,
                                        &session->device.peers, err));
    if (session->ops->prepare == NULL)
        return HRF_OK;
    struct hrf_backend_ranks ranks = { .n_ranks = 1 };
    if (comm != NULL)
        ranks = hrf_peers_ranks(comm);
    return session->ops->prepare(session->backend, session->graph,
                                 ranks.n_ranks > 1 ? &ranks : NULL, err);
}

static enum hrf_status build(struct hrf_session *session, const struct hrf_session_config *config,
                             struct hrf_error *err)
{
    HRF_TRY(prepare_outputs(session, err));
    HRF_TRY(check_pixels(session, err));
    HRF_TRY(check_supported(session, err));
    struct hrf_rank_map *map = session->peers != NULL ? session->peers->map : NULL;
    if (session->device.ops != NULL && map != NULL)
        keep_even_parts(session->graph, map);
    HRF_TRY(hrf_plan_create(session->graph, map, &session->plan, err));
    session->n_arenas = config->n_arenas > 1 ? config->n_arenas : 1;
    session->memory.activation_bytes = session->n_arenas * session->plan->arena_bytes +
                                       session->plan->copy_bytes;
    if (session->peers != NULL)
        hrf_peers_bind(session->peers, session->plan);
    HRF_TRY(start(session, config, err));
    HRF_AUTO_FREE bool *kept = find_kept(session->graph);
    HRF_TRY(compile_kernels(session, kept, config, err));
    hrf_plan_fuse(session->plan, session->graph, can_fuse, session);
    HRF_TRY(hrf_plan_check(session->plan, session->graph, err));
    session->may_borrow = may_borrow_input(session);
    for (int32_t v = 0; v < session->graph->n_values; v++)
        if (!kept[v])
            hrf_graph_drop_constant(session->graph, v);
    if (session->device.ops != NULL)
        hrf_strbuf_adds(&session->notes, session->device.ops->notes(session->backend));
    if (session->device.peers != NULL)
        hrf_strbuf_adds(&session->notes, hrf_device_peers_notes(session->device.peers));
    HRF_TRY(allocate(session, config, err));
    if (session->device.peers != NULL)
        hrf_device_peers_ready(session->device.peers);
    return HRF_OK;
}

enum hrf_status hrf_session_create_prepared(struct hrf_graph **prepared,
                                            const struct hrf_session_config *config,
                                            struct hrf_peers *peers, struct hrf_session **out,
                                            struct hrf_error *err)
{
    HRF_AUTO(hrf_session) session = hrf_calloc(1, sizeof *session);
    session->notes = (struct hrf_strbuf)HRF_STRBUF_INIT;
    HRF_TRY(check_config(config, &session->ops, NULL, err));
    session->device.ops = session->ops->device;
    session->has_pixels = config->pixels != NULL;
    session->borrows_pixels = session->has_pixels && config->borrows_pixels;
    if (config->pixels != NULL)
        session->pixel_form = *config->pixels;
    session->peers = peers;
    session->is_lent = config->is_lent;
    session->graph = *prepared;
    const enum hrf_status status = build(session, config, err);
    if (status != HRF_OK)
        session->graph = NULL; /* the graph still belongs to the caller */
    HRF_TRY(status);
    *prepared = NULL;
    HRF_MOVE(*out, session);
    return HRF_OK;
}

enum hrf_status hrf_session_create(const struct hrf_graph *graph,
                                   const struct hrf_session_config *config,
                                   struct hrf_session **out, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) notes = HRF_STRBUF_INIT;
    HRF_AUTO(hrf_graph) prepared = NULL;
    double operations;
    const struct hrf_backend_ops *ops = NULL;
    HRF_TRY(prepare(graph, config, config->spent, &prepared, &operations, &notes, err));
    HRF_TRY(check_config(config, &ops, NULL, err));
    if (config->pixels != NULL || (config->narrow_input && ops->device == NULL))
        HRF_TRY(hrf_pass_narrow_input(prepared, err));
    hrf_session_close_variables(config, prepared);
    HRF_TRY(hrf_session_create_prepared(&prepared, config, NULL, out, err));
    (*out)->operations = operations;
    hrf_strbuf_adds(&notes, (*out)->notes.text); /* notes of the device come last */
    hrf_strbuf_release(&(*out)->notes);
    (*out)->notes = notes;
    notes = (struct hrf_strbuf)HRF_STRBUF_INIT;
    return HRF_OK;
}

void hrf_session_destroy(struct hrf_session *session)
{
    if (session == NULL)
        return;
    if (session->device.ops != NULL && session->backend != NULL)
        hrf_session_device_stop(session);
    for (int32_t i = 0; i < session->n_kernels; i++) /* NULL on a rank that communicates */
        if (i == 0 || session->kernels[i] != session->kernels[i - 1])
            hrf_kernel_destroy(session->kernels[i]);
    hrf_free(session->kernels);
    if (session->device.ops != NULL && session->backend != NULL) {
        hrf_session_device_release(session);
    } else if (!session->is_lent) {
        hrf_free(session->arenas);
        hrf_free(session->workspace);
        hrf_free(session->copies);
    }
    if (session->backend != NULL)
        session->ops->destroy(session->backend);
    hrf_free(session->inputs);
    hrf_free(session->part_inputs);
    hrf_free(session->calls);
    hrf_plan_destroy(session->plan);
    hrf_graph_destroy(session->graph);
    hrf_strbuf_release(&session->notes);
    hrf_free(session);
}

const char *hrf_session_notes(const struct hrf_session *session)
{
    return session->notes.text;
}

int32_t hrf_session_wrong_engines(const struct hrf_session *session)
{
    return session->device.ops != NULL ? session->device.ops->n_wrong_engines(session->backend) : 0;
}

int32_t hrf_session_count_kernels(const struct hrf_session *session, const char *implementation)
{
    int32_t n = 0;
    for (int32_t i = 0; i < session->n_kernels; i++)
        n += session->kernels[i] != NULL && session->kernels[i]->implementation != NULL &&
             strncmp(session->kernels[i]->implementation, implementation, strlen(implementation)) ==
                 0;
    return n;
}

const char *hrf_session_device(const struct hrf_session *session)
{
    return session->device.ops != NULL ? session->device.ops->describe(session->backend)
                                       : session->ops->name;
}

struct hrf_session_memory hrf_session_memory(const struct hrf_session *session)
{
    return session->memory;
}

struct hrf_device_use hrf_session_device_use(const struct hrf_session *session)
{
    const struct hrf_device_ops *ops = session->ops->device;
    struct hrf_device_use use = { .times = session->device.times };
    if (ops != NULL) {
        use.address = ops->address(session->backend);
        use.is_first = ops->is_first(session->backend);
    }
    return use;
}

void hrf_device_use_add(struct hrf_device_use *sum, const struct hrf_session *session)
{
    const struct hrf_device_times times = sum->times;
    *sum = hrf_session_device_use(session);
    sum->times.copy += times.copy;
    sum->times.kernels += times.kernels;
}

double hrf_session_operations(const struct hrf_session *session)
{
    return session->operations;
}
