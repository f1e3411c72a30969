/* session.c - makes a network ready on one device: passes, precision, kernels and buffers
 * (session.h). */
#include "engine/run/session.h"

#include "base/own_process.h"
#include "base/precision.h"
#include "engine/backend/backend.h"
#include "engine/passes/passes.h"
#include "engine/plan/pixel_stride.h"
#include "engine/plan/plan.h"
#include "engine/run/session_private.h"

#include <assert.h>
#include <string.h>

static enum hrf_status check_supported(const struct hrf_session *session, struct hrf_error *err)
{
    const struct hrf_graph *graph = session->graph;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_error why = { .status = HRF_OK };
        if (hrf_op_communicates(graph->nodes[i].op) ||
            session->ops->supports_op(graph, &graph->nodes[i], &why))
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
            return hrf_error_set(err, HRF_E_UNSUPPORTED, "input '%s' is %s; only float32 is fed",
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
        return session->ops->compile(session->backend, session->graph, node, out, err);
    HRF_TRY(hrf_part_graph(session->graph, node, &step->box, 1, &part, err));
    return session->ops->compile(session->backend, part, &part->nodes[0], out, err);
}

/* The memory of the session, as far as it is known yet. */
static enum hrf_status check_limit(const struct hrf_session *session, int64_t limit,
                                   struct hrf_error *err)
{
    const struct hrf_session_memory *m = &session->memory;
    int64_t needed = hrf_session_memory_total(m);
    if (limit > 0 && needed > limit)
        return hrf_error_set(err, HRF_E_NOMEM,
                             "the model needs at least %.2f GiB (activations %.2f, weights %.2f, "
                             "workspace %.2f) and engine.memory allows %.2f GiB; use a smaller "
                             "batch",
                             (double)needed / 0x1p30, (double)m->activation_bytes / 0x1p30,
                             (double)m->weight_bytes / 0x1p30, (double)m->workspace_bytes / 0x1p30,
                             (double)limit / 0x1p30);
    return HRF_OK;
}

/* last[value]: the last step whose node reads it. */
static int32_t *find_last_steps(const struct hrf_plan *plan, const struct hrf_graph *graph)
{
    int32_t *last = hrf_calloc((size_t)graph->n_values + 1, sizeof *last);
    for (int32_t i = 0; i < plan->n_steps && last != NULL; i++) {
        const struct hrf_node *node = &graph->nodes[plan->steps[i].node];
        for (int32_t k = 0; k < node->n_inputs; k++)
            if (node->inputs[k] >= 0)
                last[node->inputs[k]] = i;
    }
    return last;
}

/* On the host a kernel has its own packed weights, so the graph's are freed before the next ones
 * are packed: memory does not hold both copies of all weights. */
static void drop_read_constants(struct hrf_session *session, const int32_t *last, int32_t step)
{
    const struct hrf_node *node = &session->graph->nodes[session->plan->steps[step].node];
    for (int32_t k = 0; k < node->n_inputs && session->device.ops == NULL; k++)
        if (node->inputs[k] >= 0 && last[node->inputs[k]] == step)
            hrf_graph_drop_constant(session->graph, node->inputs[k]);
}

/* The limit is checked after each kernel, because a malicious model may use one set of weights in
 * every node. */
static enum hrf_status compile_kernels(struct hrf_session *session, int64_t limit,
                                       struct hrf_error *err)
{
    const struct hrf_plan *plan = session->plan;
    session->kernels = hrf_calloc((size_t)plan->n_steps + 1, sizeof(struct hrf_kernel *));
    HRF_AUTO_FREE int32_t *last = find_last_steps(plan, session->graph);
    HRF_CHECK_MEMORY(session->kernels != NULL && last != NULL, err, "no memory for %d kernels",
                     plan->n_steps);
    for (; session->n_kernels < plan->n_steps; session->n_kernels++) {
        const int32_t i = session->n_kernels;
        struct hrf_kernel *kernel = NULL;
        HRF_TRY(check_limit(session, limit, err));
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
        drop_read_constants(session, last, i);
    }
    return HRF_OK;
}

static bool can_fuse(void *context, int32_t first, const struct hrf_fused_pair *pair)
{
    const struct hrf_session *session = context;
    const struct hrf_kernel *kernel = session->kernels[first];
    return kernel->can_fuse != NULL && kernel->can_fuse(kernel, session->kernels[first + 1], pair);
}

static enum hrf_status allocate(struct hrf_session *session, int64_t limit, struct hrf_error *err)
{
    if (session->device.peers != NULL)
        session->memory.activation_bytes += hrf_device_peers_bytes(session->device.peers);
    if (session->has_pixels) /* two batches land as bytes */
        session->memory.activation_bytes += HRF_SESSION_SLOTS *
                                            hrf_shape_count(hrf_session_input_shape(session, 0));
    HRF_TRY(check_limit(session, limit, err));
    HRF_TRY(hrf_session_allocate_calls(session, err));
    size_t arena = (size_t)session->plan->arena_bytes;
    size_t workspace = (size_t)session->memory.workspace_bytes;
    if (session->device.ops != NULL)
        HRF_TRY(hrf_session_device_allocate(session, err));
    if (session->is_lent)
        return HRF_OK;
    if (session->device.ops != NULL) {
        hrf_session_bind_calls(session);
        return HRF_OK;
    }
    session->arena = hrf_alloc_aligned(arena, HRF_BUFFER_ALIGNMENT);
    session->workspace = hrf_alloc_aligned(workspace, HRF_BUFFER_ALIGNMENT);
    session->copies = hrf_alloc_aligned((size_t)session->plan->copy_bytes + 1,
                                        HRF_BUFFER_ALIGNMENT);
    HRF_CHECK_MEMORY(
        session->arena != NULL && session->workspace != NULL && session->copies != NULL, err,
        "no memory for %.2f GiB of activations", (double)(arena + workspace) / 0x1p30);
    for (int32_t i = session->may_borrow; i < session->graph->n_inputs; i++)
        memset(hrf_session_input(session, i), 0,
               (size_t)hrf_value_bytes(&session->graph->values[session->graph->inputs[i]]));
    hrf_session_bind_calls(session);
    return HRF_OK;
}

static enum hrf_dtype precision_type(const char *precision)
{
    static const enum hrf_dtype types[HRF_N_PRECISIONS] = { [HRF_FP32] = HRF_F32,
                                                            [HRF_TF32] = HRF_F32,
                                                            [HRF_FP16] = HRF_F16,
                                                            [HRF_BF16] = HRF_B16,
                                                            [HRF_INT8] = HRF_S8 };
    const enum hrf_precision known = hrf_precision_find(precision);
    assert(known != HRF_N_PRECISIONS); /* check_config() has already refused this */
    return types[known];
}

/* The fused graph, lowered to the requested precision. */
static enum hrf_status lower(struct hrf_graph **graph, const struct hrf_session_config *config,
                             const struct hrf_backend_ops *ops, struct hrf_strbuf *notes,
                             struct hrf_error *err)
{
    const struct hrf_lowering how = { .type = precision_type(config->precision),
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
                             "int8 needs the ranges of a calibration (hires-flow calibrate)");
    HRF_TRY(hrf_pass_lower(*graph, &how, &lowered, notes, err));
    hrf_graph_destroy(*graph);
    HRF_MOVE(*graph, lowered);
    return hrf_strbuf_status(notes, err);
}

static enum hrf_status prepare_outputs(struct hrf_session *session, struct hrf_error *err)
{
    for (int32_t i = 0; i < session->graph->n_outputs; i++)
        if (session->graph->values[session->graph->outputs[i]].data != NULL)
            return hrf_error_set(err, HRF_E_UNSUPPORTED,
                                 "output '%s' is a constant: there is nothing to run",
                                 session->graph->values[session->graph->outputs[i]].name);
    return HRF_OK;
}

/* Chooses the device of a valid configuration. */
static enum hrf_status check_config(const struct hrf_session_config *config,
                                    const struct hrf_backend_ops **ops, struct hrf_strbuf *notes,
                                    struct hrf_error *err)
{
    if (hrf_precision_find(config->precision) == HRF_N_PRECISIONS)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "precision '%s' is not in this build; it has fp32, tf32, fp16, bf16, "
                             "int8",
                             config->precision);
    HRF_TRY(hrf_backend_choose(config->device, ops, notes, err));
    if (strcmp(config->precision, "tf32") == 0 && !(*ops)->has_tf32)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "tf32 is a precision of NVIDIA GPUs; device %s has fp32",
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
    if (precision_type(config->precision) == HRF_S8) {
        if (ops->looks_up)
            HRF_TRY(hrf_pass_make_lookups(prepared, err));
        HRF_TRY(hrf_pass_drop_pairs(prepared, err));
    }
    if (ops->fuses_transformers) {
        HRF_TRY(hrf_pass_fuse_transformer(prepared, err));
        HRF_TRY(hrf_pass_batch_first(prepared, err));
        HRF_TRY(hrf_pass_attention_of_tokens(prepared, err));
        if (precision_type(config->precision) == HRF_S8 && ops->looks_up)
            HRF_TRY(hrf_pass_fuse_own_attention(prepared, err));
        HRF_TRY(hrf_pass_channels_first(prepared, err));
        HRF_TRY(hrf_pass_fuse_channels(prepared, err));
        HRF_TRY(hrf_pass_fuse_product(prepared, err));
        HRF_TRY(hrf_pass_join_moves(prepared, err));
    }
    HRF_TRY(lower(&prepared, config, ops, notes, err));
    if (ops->takes_activation != NULL && !config->every_tensor)
        HRF_TRY(hrf_pass_fuse_epilogue(prepared, ops->takes_activation, err));
    if (ops->fuses_transformers && !config->every_tensor)
        HRF_TRY(hrf_pass_fuse_product_residual(prepared, err));
    if (ops->narrows_tokens && precision_type(config->precision) == HRF_S8 && !config->every_tensor)
        HRF_TRY(hrf_pass_narrow_tokens(prepared, HRF_B16, err));
    if (ops->takes_prologue != NULL && !config->every_tensor &&
        precision_type(config->precision) != HRF_S8)
        HRF_TRY(hrf_pass_fuse_prologue(prepared, ops->takes_prologue, err));
    if (ops->takes_second != NULL && !config->every_tensor)
        HRF_TRY(hrf_pass_mark_second_outputs(prepared, ops->takes_second, err));
    if (ops->accepts_pixel_stride != NULL && !config->every_tensor)
        HRF_TRY(hrf_pixel_stride_set(prepared, ops->accepts_pixel_stride, err));
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

static enum hrf_status check_pixels(const struct hrf_session *session, struct hrf_error *err)
{
    if (!session->has_pixels)
        return HRF_OK;
    if (session->device.ops == NULL)
        return hrf_error_set(err, HRF_E_UNSUPPORTED, "device %s is not fed pixels",
                             session->ops->name);
    const struct hrf_value *x = &session->graph->values[session->graph->inputs[0]];
    if (session->graph->n_inputs != 1 || x->shape.rank != 4 || x->shape.dims[1] != 3)
        return hrf_error_set(err, HRF_E_USER,
                             "input '%s' is not one image of 3 channels: it cannot be fed pixels",
                             x->name);
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
        .place = comm != NULL && comm->is_one_process ? comm->rank : -1,
        .allow_tf32 = strcmp(config->precision, "tf32") == 0,
    };
    const bool is_nccl = config->transport == HRF_TRANSPORT_NCCL;
    if (comm != NULL && (is_nccl || config->transport == HRF_TRANSPORT_IPC) &&
        session->device.ops == NULL)
        return hrf_error_set(err, HRF_E_USER,
                             "--comm %s carries what lies on GPUs; on device %s use --comm mpi",
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
        hrf_session_keep_even_parts(session->graph, map);
    HRF_TRY(hrf_plan_create(session->graph, map, &session->plan, err));
    session->memory.activation_bytes = session->plan->arena_bytes + session->plan->copy_bytes;
    if (session->peers != NULL)
        HRF_TRY(hrf_peers_bind(session->peers, session->plan, err));
    HRF_TRY(start(session, config, err));
    HRF_TRY(compile_kernels(session, config->memory_limit_bytes, err));
    if (session->device.ops == NULL || session->ops->takes_second != NULL)
        hrf_plan_fuse(session->plan, session->graph, can_fuse, session);
    HRF_TRY(hrf_plan_check(session->plan, session->graph, err));
    session->may_borrow = hrf_session_may_borrow(session);
    hrf_graph_drop_constants(session->graph);
    if (session->device.ops != NULL)
        hrf_strbuf_adds(&session->notes, session->device.ops->notes(session->backend));
    if (session->device.peers != NULL)
        hrf_strbuf_adds(&session->notes, hrf_device_peers_notes(session->device.peers));
    HRF_TRY(hrf_strbuf_status(&session->notes, err));
    HRF_TRY(allocate(session, config->memory_limit_bytes, err));
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
    HRF_CHECK_MEMORY(session != NULL, err, "no memory for a session");
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
        session->graph = NULL; /* the caller's still */
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
    HRF_TRY(hrf_session_create_prepared(&prepared, config, NULL, out, err));
    (*out)->operations = operations;
    hrf_strbuf_adds(&notes, (*out)->notes.text); /* what the device said, last */
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
        hrf_free(session->arena);
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
