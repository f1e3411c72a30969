/* rank.c - one rank's share of a network: its sessions, micro-batches and outputs (rank.h). */
#include "engine/run/rank.h"

#include "base/clock.h"
#include "engine/passes/passes.h"
#include "engine/plan/halos.h"
#include "engine/plan/ring.h"
#include "engine/plan/schedule.h"
#include "engine/plan/tensor_parallel.h"
#include "engine/plan/windows.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- what is the same on all ranks ---- */

void hrf_work_destroy(struct hrf_work *work)
{
    if (work == NULL)
        return;
    hrf_partition_destroy(work->partition);
    hrf_graph_destroy(work->graph);
    hrf_strbuf_release(&work->notes);
    hrf_free(work);
}

static enum hrf_status set_microbatch(const struct hrf_batch_split *shares, struct hrf_graph *graph,
                                      struct hrf_error *err)
{
    if (graph->n_images > 0 || shares->per_microbatch == shares->n_images)
        return HRF_OK; /* it is for a micro-batch already */
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        struct hrf_shape shape = graph->values[graph->inputs[i]].shape;
        if (shape.rank == 0 || shape.dims[0] != shares->n_images)
            continue;
        shape.dims[0] = shares->per_microbatch;
        HRF_TRY(hrf_graph_set_input_shape(graph, i, &shape, err));
    }
    return HRF_OK;
}

enum hrf_status hrf_work_prepare(const struct hrf_layout_plan *layout,
                                 const struct hrf_batch_split *shares,
                                 const struct hrf_graph *graph,
                                 const struct hrf_session_config *config, struct hrf_graph **out,
                                 double *operations, struct hrf_strbuf *notes,
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) copy = NULL;
    HRF_AUTO(hrf_graph) prepared = NULL;
    HRF_TRY(hrf_graph_copy(graph, &copy, err));
    HRF_TRY(set_microbatch(shares, copy, err));
    HRF_TRY(hrf_session_prepare(copy, config, &prepared, operations, notes, err));
    hrf_session_close_variables(config, prepared);
    if (hrf_layout_image_parts(layout) > 1) {
        HRF_TRY(hrf_pass_join_windows(prepared, err));
        HRF_TRY(hrf_pass_pool_tokens(prepared, err));
        hrf_windows_join(prepared, hrf_layout_image_parts(layout));
    }
    if (layout->tensor > 1)
        return hrf_tensor_split(prepared, layout->tensor, out, err);
    HRF_MOVE(*out, prepared);
    return HRF_OK;
}

/* The cost of moving values between stages, from the slope of the link's table at large messages. A
 * stage of several ranks computes and moves its parts in parallel. */
static void set_link_costs(const struct hrf_machine *machine, const struct hrf_layout_plan *layout,
                           struct hrf_stage_costs *costs)
{
    enum { LARGE = 1 << 20 };
    const int32_t n = hrf_layout_stage_ranks(layout);
    const enum hrf_placement placement = hrf_machine_placement(machine, 0, n);
    const struct hrf_link *link = hrf_machine_link(machine, placement, LARGE);
    if (link == NULL)
        return;
    const struct hrf_link_point small = hrf_link_at(link, 0), large = hrf_link_at(link, LARGE);
    const double busy = (large.send + large.receive - small.send - small.receive) / 2;
    costs->seconds_per_message = (small.send + small.receive) / 2 * n;
    costs->seconds_per_byte = busy > 0 ? busy / LARGE : 0;
    costs->transit_seconds_per_byte = fmax(large.transit - small.transit, 0) / LARGE;
}

/* If one rank computes each stage there is nothing to choose. Without measured costs a choice
 * cannot be justified. */
static enum hrf_status choose_halos(const struct hrf_cutting *cutting, struct hrf_partition **p,
                                    struct hrf_error *err)
{
    if (cutting == NULL && (*p)->layout.halos == HRF_HALOS_AUTO)
        return HRF_OK;
    return hrf_halos_choose(cutting != NULL ? cutting->costs : NULL,
                            cutting != NULL ? cutting->machine : NULL, p, err);
}

static enum hrf_status cut(const struct hrf_graph *prepared, const struct hrf_layout_plan *layout,
                           const struct hrf_cutting *cutting, struct hrf_partition **out,
                           struct hrf_error *err)
{
    if (cutting == NULL || layout->stages == 1)
        return hrf_partition_create(prepared, layout, NULL, out, err);
    HRF_AUTO_FREE double *seconds = hrf_calloc((size_t)prepared->n_nodes + 1, sizeof *seconds);
    struct hrf_stage_costs costs = { .seconds = seconds };
    for (int32_t n = 0; n < prepared->n_nodes; n++) {
        struct hrf_cost cost;
        HRF_TRY(hrf_cost_of(cutting->costs, prepared, &prepared->nodes[n], &cost, err));
        seconds[n] = cost.seconds / (prepared->nodes[n].owner >= 0 ? layout->tensor : 1);
    }
    set_link_costs(cutting->machine, layout, &costs);
    const struct hrf_partition_options options = { .costs = &costs };
    return hrf_partition_create(prepared, layout, &options, out, err);
}

enum hrf_status hrf_work_partition(const struct hrf_graph *prepared,
                                   const struct hrf_layout_plan *layout,
                                   const struct hrf_cutting *cutting, struct hrf_partition **out,
                                   struct hrf_error *err)
{
    HRF_AUTO(hrf_partition) p = NULL;
    struct hrf_layout_plan chosen = *layout;
    HRF_TRY(hrf_ring_choose(prepared, cutting != NULL ? cutting->costs : NULL,
                            cutting != NULL ? cutting->machine : NULL, &chosen, err));
    HRF_TRY(cut(prepared, &chosen, cutting, &p, err));
    HRF_TRY(choose_halos(cutting, &p, err));
    HRF_MOVE(*out, p);
    return HRF_OK;
}

static enum hrf_status check_outputs(const struct hrf_work *work, struct hrf_error *err)
{
    const struct hrf_graph *graph = work->graph;
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        const struct hrf_value *v = &graph->values[graph->outputs[i]];
        if (v->data != NULL || v->dtype != HRF_F32)
            return hrf_error_set(
                err, HRF_E_UNSUPPORTED,
                "output '%s' is %s: export the model with a float32 output that is computed from "
                "its input",
                v->name, v->data != NULL ? "the same for every input" : hrf_dtype_name(v->dtype));
        if (work->shares.per_microbatch != work->shares.n_images && !v->is_batch_sum &&
            !v->is_of_batch &&
            (v->shape.rank == 0 || v->shape.dims[0] != work->shares.per_microbatch))
            return hrf_error_set(err, HRF_E_USER,
                                 "output '%s' does not have the batch as its first dimension, so "
                                 "data= and microbatches= cannot share it: use spatial=, tensor= "
                                 "or stages= alone",
                                 v->name);
    }
    return HRF_OK;
}

/* The heads and channels of tensor= have no gradients. */
enum hrf_status hrf_work_check(const struct hrf_graph *graph, const struct hrf_layout_plan *layout,
                               struct hrf_error *err)
{
    bool has_backward = false;
    for (int32_t n = 0; n < graph->n_nodes; n++)
        has_backward |= graph->nodes[n].is_backward;
    if (!has_backward || layout->tensor == 1)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_UNSUPPORTED,
                         "gradients are not computed with tensor=: use data=, spatial=, stages=, "
                         "microbatches= and bidirectional");
}

/* Small parts leave most of a device idle. Overlapping can only be weighed if the cost of messages
 * between these devices is known. */
static enum hrf_status leave_devices_plain(const struct hrf_session_config *config,
                                           struct hrf_layout_plan *layout, struct hrf_error *err)
{
    const struct hrf_backend_ops *ops = NULL;
    HRF_TRY(hrf_backend_choose(config->device, &ops, NULL, err));
    const bool is_known = config->cutting != NULL && config->cutting->machine->has_gpus;
    if (ops->device != NULL && !is_known && layout->halos == HRF_HALOS_AUTO)
        layout->halos = HRF_HALOS_PLAIN;
    return HRF_OK;
}

enum hrf_status hrf_work_create(const struct hrf_graph *graph,
                                const struct hrf_session_config *config,
                                const struct hrf_layout_plan *layout, struct hrf_work **out,
                                struct hrf_error *err)
{
    HRF_AUTO(hrf_work) work = hrf_calloc(1, sizeof *work);
    work->notes = (struct hrf_strbuf)HRF_STRBUF_INIT;
    work->layout = *layout;
    const struct hrf_shape *in = &graph->values[graph->inputs[0]].shape;
    const int64_t n_here = in->rank > 0 ? in->dims[0] : 1;
    HRF_TRY(hrf_work_check(graph, layout, err));
    HRF_TRY(hrf_layout_share(layout, graph->n_images > 0 ? graph->n_images : n_here, &work->shares,
                             err));
    assert(graph->n_images == 0 || n_here == work->shares.per_microbatch);
    HRF_TRY(hrf_work_prepare(layout, &work->shares, graph, config, &work->graph, &work->operations,
                             &work->notes, err));
    work->operations *= (double)work->shares.n_images / (double)work->shares.per_microbatch;
    HRF_TRY(check_outputs(work, err));
    HRF_TRY(leave_devices_plain(config, &work->layout, err));
    HRF_TRY(hrf_work_partition(work->graph, &work->layout, config->cutting, &work->partition, err));
    HRF_TRY(hrf_transfers_prove(work->partition, err));
    HRF_MOVE(*out, work);
    return HRF_OK;
}

struct hrf_shape hrf_work_output_shape(const struct hrf_work *work, int32_t i)
{
    const struct hrf_value *v = &work->graph->values[work->graph->outputs[i]];
    struct hrf_shape shape = v->shape;
    if (work->shares.per_microbatch != work->shares.n_images && !v->is_batch_sum && !v->is_of_batch)
        shape.dims[0] = work->shares.n_images;
    return shape;
}

void hrf_work_destroy_outputs(const struct hrf_work *work, float **outputs)
{
    for (int32_t i = 0; outputs != NULL && i < work->graph->n_outputs; i++)
        hrf_free(outputs[i]);
    hrf_free(outputs);
}

float **hrf_work_create_outputs(const struct hrf_work *work)
{
    const int32_t n = work->graph->n_outputs;
    float **outputs = hrf_calloc((size_t)n, sizeof *outputs);
    for (int32_t i = 0; i < n; i++) {
        const struct hrf_shape shape = hrf_work_output_shape(work, i);
        outputs[i] = hrf_try_alloc_array((size_t)hrf_shape_count(&shape), sizeof(float));
        if (outputs[i] == NULL) {
            hrf_work_destroy_outputs(work, outputs);
            return NULL;
        }
    }
    return outputs;
}

/* ---- one rank ---- */

/* This rank's part of a pipeline; a bidirectional layout has two of them. */
struct part {
    struct hrf_peers peers;
    struct hrf_session *session;
    int32_t inputs[8]; /* the network's inputs that this part reads */
    int32_t n_inputs;
    int32_t *outputs; /* [outputs of the network]: the session's; -1: it does not have it */
};

struct hrf_rank {
    const struct hrf_work *work;
    struct hrf_comm *comm;
    int32_t group;
    struct part parts[2];
    int32_t n_parts;
    struct hrf_batch_plan plan;
    bool is_filled;              /* the inputs of the first step are already filled in */
    float *summand;              /* an output of another rank that is to be added */
    char *stored;                /* [plan.stored_bytes] */
    struct hrf_rank_facts facts; /* but for `memory` */
};

void hrf_rank_destroy(struct hrf_rank *rank)
{
    if (rank == NULL)
        return;
    for (int32_t i = 0; i < rank->n_parts; i++) {
        hrf_session_destroy(rank->parts[i].session);
        hrf_peers_release(&rank->parts[i].peers);
        hrf_free(rank->parts[i].outputs);
    }
    hrf_free(rank->summand);
    hrf_free(rank->stored);
    hrf_batch_plan_release(&rank->plan);
    hrf_free(rank);
}

const char *hrf_rank_notes(const struct hrf_rank *rank)
{
    return hrf_session_notes(rank->parts[0].session);
}

struct hrf_device_use hrf_rank_device_use(const struct hrf_rank *rank)
{
    struct hrf_device_use use = { .address = NULL };
    for (int32_t i = 0; i < rank->n_parts; i++)
        hrf_device_use_add(&use, rank->parts[i].session);
    return use;
}

static struct hrf_session_memory memory_of(const struct hrf_rank *rank)
{
    struct hrf_session_memory sum = { 0 };
    for (int32_t i = 0; i < rank->n_parts; i++) {
        const struct hrf_session_memory m = hrf_session_memory(rank->parts[i].session);
        sum.activation_bytes += m.activation_bytes + rank->parts[i].peers.plan->message_bytes;
        sum.weight_bytes += m.weight_bytes;
        sum.workspace_bytes += m.workspace_bytes;
    }
    return sum;
}

const char *hrf_rank_transports(const struct hrf_rank *rank)
{
    const char *between_devices = hrf_session_transports(rank->parts[0].session);
    return between_devices != NULL ? between_devices : rank->comm->ops->name;
}

struct hrf_rank_facts hrf_rank_facts(const struct hrf_rank *rank)
{
    struct hrf_rank_facts facts = rank->facts;
    facts.memory = memory_of(rank);
    return facts;
}

static void list_outputs(const struct hrf_rank *rank, struct part *part)
{
    const struct hrf_partition *p = rank->work->partition;
    int32_t n = 0;
    part->outputs = hrf_alloc_array((size_t)p->graph->n_outputs + 1, sizeof *part->outputs);
    for (int32_t i = 0; i < p->graph->n_outputs; i++)
        part->outputs[i] = hrf_partition_output_rank(p, i) == part->peers.rank ? n++ : -1;
}

static enum hrf_status create_part(struct hrf_rank *rank, const struct hrf_session_config *config,
                                   struct hrf_error *err)
{
    const struct hrf_work *work = rank->work;
    const int32_t in_group = rank->comm->rank % work->partition->n_ranks;
    const bool is_mirrored = rank->n_parts == 1;
    const int32_t partition_rank = is_mirrored ? hrf_layout_mirror(&work->layout, in_group)
                                               : in_group;
    struct part *part = &rank->parts[rank->n_parts++];
    HRF_AUTO(hrf_graph) graph = NULL;
    for (int32_t i = 0; i < work->graph->n_inputs; i++) {
        if (hrf_box_is_empty(
                hrf_partition_box(work->partition, work->graph->inputs[i], partition_rank)))
            continue;
        if (part->n_inputs == (int32_t)(sizeof part->inputs / sizeof part->inputs[0]))
            return hrf_error_set(
                err, HRF_E_UNSUPPORTED,
                "the model has %d inputs, and ranks share models of at most %d: use "
                "one rank",
                work->graph->n_inputs, part->n_inputs);
        part->inputs[part->n_inputs++] = i;
    }
    HRF_TRY(hrf_peers_init(&part->peers, work->partition, rank->comm, partition_rank,
                           rank->comm->rank - in_group, is_mirrored, err));
    HRF_TRY(hrf_partition_graph(work->partition, partition_rank, &graph, &part->peers.map, err));
    part->peers.map->group = rank->group;
    list_outputs(rank, part);
    struct hrf_session_config own = *config;
    own.n_arenas = rank->plan.n_arenas[is_mirrored];
    return hrf_session_create_prepared(&graph, &own, &part->peers, &part->session, err);
}

static enum hrf_status make_room_for_sums(struct hrf_rank *rank, struct hrf_error *err)
{
    const struct hrf_batch_plan *plan = &rank->plan;
    int64_t most = 0;
    for (int32_t i = 0; i < plan->n_steps; i++)
        if (plan->steps[i].kind == HRF_BATCH_RECEIVE && plan->steps[i].adds)
            most = plan->steps[i].n_bytes > most ? plan->steps[i].n_bytes : most;
    rank->summand = hrf_try_alloc((size_t)most + 1);
    rank->stored = hrf_try_alloc((size_t)plan->stored_bytes + 1);
    HRF_CHECK_MEMORY(rank->summand != NULL && rank->stored != NULL, err,
                     "no memory for sums of outputs");
    return HRF_OK;
}

static enum hrf_status build(struct hrf_rank *rank, const struct hrf_session_config *config,
                             struct hrf_error *err)
{
    const struct hrf_layout_plan *l = &rank->work->layout;
    rank->group = rank->comm->rank / rank->work->partition->n_ranks;
    hrf_batch_plan_make(rank->work->partition, &rank->work->shares, rank->comm->rank,
                        rank->comm->is_one_process, &rank->plan);
    HRF_TRY(make_room_for_sums(rank, err));
    HRF_TRY(create_part(rank, config, err));
    return l->bidirectional ? create_part(rank, config, err) : HRF_OK;
}

enum hrf_status hrf_rank_create(const struct hrf_work *work,
                                const struct hrf_session_config *config, struct hrf_comm *comm,
                                struct hrf_rank **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_rank) rank = hrf_calloc(1, sizeof *rank);
    rank->work = work;
    rank->comm = comm;
    HRF_TRY(build(rank, config, err));
    HRF_MOVE(*out, rank);
    return HRF_OK;
}

enum hrf_status hrf_rank_refresh(struct hrf_rank *rank, struct hrf_error *err)
{
    for (int32_t i = 0; i < rank->n_parts; i++)
        HRF_TRY(hrf_session_refresh(rank->parts[i].session, err));
    return HRF_OK;
}

/* ---- running ---- */

static enum hrf_status fill_inputs(struct hrf_rank *rank, const struct part *part,
                                   int32_t microbatch, hrf_source *source, void *context,
                                   struct hrf_error *err)
{
    int64_t first;
    const int64_t n = hrf_batch_split_images(&rank->work->shares, rank->group, microbatch, &first);
    for (int32_t i = 0; i < part->n_inputs; i++) {
        const struct hrf_graph *graph = rank->work->graph;
        const struct hrf_shape *shape = hrf_session_input_shape(part->session, i);
        const struct hrf_box *box = hrf_partition_box(
            rank->work->partition, graph->inputs[part->inputs[i]], part->peers.rank);
        const size_t per_image = (size_t)hrf_shape_count(shape) * sizeof(float) /
                                 (size_t)rank->work->shares.per_microbatch;
        float *to = hrf_session_input(part->session, i);
        if (n > 0)
            HRF_TRY(source(context, part->inputs[i], first, n, box, to, err));
        memset((char *)to + (size_t)n * per_image, 0,
               (size_t)(rank->work->shares.per_microbatch - n) * per_image);
    }
    return HRF_OK;
}

bool hrf_rank_is_fed(const struct hrf_rank *rank)
{
    bool is_fed = false;
    for (int32_t i = 0; i < rank->n_parts; i++)
        is_fed |= rank->parts[i].n_inputs > 0;
    return is_fed;
}

struct hrf_box hrf_rank_fed(const struct hrf_rank *rank, int32_t input)
{
    struct hrf_box fed = { .lo = { 0 } };
    const struct hrf_work *work = rank->work;
    for (int32_t i = 0; i < rank->n_parts; i++) {
        const struct hrf_box *part = hrf_partition_box(work->partition, work->graph->inputs[input],
                                                       rank->parts[i].peers.rank);
        fed = hrf_box_hull(&fed, part);
    }
    return fed;
}

enum hrf_status hrf_rank_fill(struct hrf_rank *rank, hrf_source *source, void *context,
                              struct hrf_error *err)
{
    const struct hrf_pipeline_slot *slot = &rank->plan.steps[0].slot;
    hrf_session_use_arena(rank->parts[slot->is_mirrored].session, slot->arena);
    const enum hrf_status status = fill_inputs(rank, &rank->parts[slot->is_mirrored],
                                               slot->microbatch, source, context, err);
    rank->is_filled = status == HRF_OK;
    return status;
}

static enum hrf_status run_slot(struct hrf_rank *rank, struct part *part,
                                const struct hrf_pipeline_slot *slot, hrf_source *source,
                                void *context, struct hrf_error *err)
{
    hrf_session_use_arena(part->session, slot->arena);
    if (slot->part != HRF_SLOT_BACKWARD && !rank->is_filled)
        HRF_TRY(fill_inputs(rank, part, slot->microbatch, source, context, err));
    rank->is_filled = false;
    return slot->part == HRF_SLOT_WHOLE
               ? hrf_session_run(part->session, err)
               : hrf_session_run_pass(part->session, slot->part == HRF_SLOT_BACKWARD, err);
}

/* Takes a part of an output, or adds it to what is there. */
static void take_part(const struct hrf_batch_step *s, const float *from, float *output)
{
    char *to = (char *)output + s->offset;
    const size_t n = (size_t)s->n_bytes;
    if (!s->adds && (const char *)from != to)
        memcpy(to, from, n);
    for (size_t i = 0; i < n / sizeof *from && s->adds; i++)
        output[i] += from[i];
}

/* Two mirrored pipelines may finish outputs in another order than their owner takes them. */
static int output_tag(const struct hrf_batch_step *s)
{
    return s->slot.is_mirrored ? HRF_TAG_OUTPUT_MIRRORED : HRF_TAG_OUTPUT;
}

static enum hrf_status run_step(struct hrf_rank *rank, const struct hrf_batch_step *s,
                                hrf_source *source, void *context, float *const *outputs,
                                struct hrf_error *err)
{
    struct hrf_comm *comm = rank->comm;
    struct part *part = &rank->parts[s->slot.is_mirrored];
    const size_t n = (size_t)s->n_bytes;
    const float *own = NULL;
    if (s->kind == HRF_BATCH_RUN)
        return run_slot(rank, part, &s->slot, source, context, err);
    comm->use = HRF_COMM_OUTPUT;
    if (s->kind == HRF_BATCH_KEEP || s->kind == HRF_BATCH_STORE || s->kind == HRF_BATCH_SEND)
        own = s->kind == HRF_BATCH_KEEP && s->stored_at >= 0
                  ? (const float *)(const void *)(rank->stored + s->stored_at)
                  : hrf_session_output(part->session, part->outputs[s->output]);
    switch (s->kind) {
    case HRF_BATCH_RUN:
        break;
    case HRF_BATCH_KEEP:
        take_part(s, own, outputs[s->output]);
        break;
    case HRF_BATCH_STORE:
        memcpy(rank->stored + s->stored_at, own, n);
        break;
    case HRF_BATCH_SEND:
        return comm->ops->send(comm, s->peer, output_tag(s), own, n, err);
    case HRF_BATCH_RECEIVE: {
        float *to = s->adds ? rank->summand
                            : (float *)(void *)((char *)outputs[s->output] + s->offset);
        HRF_TRY(comm->ops->receive(comm, s->peer, output_tag(s), to, n, err));
        take_part(s, to, outputs[s->output]);
        break;
    }
    case HRF_BATCH_GIVE:
        return comm->ops->send(comm, s->peer, output_tag(s),
                               (const char *)outputs[s->output] + s->offset, n, err);
    case HRF_BATCH_TAKE:
        return comm->ops->receive(comm, s->peer, output_tag(s),
                                  (char *)outputs[s->output] + s->offset, n, err);
    }
    return HRF_OK;
}

static enum hrf_status run(struct hrf_rank *rank, hrf_source *source, void *context,
                           float *const *outputs, struct hrf_error *err)
{
    enum hrf_status status = HRF_OK;
    for (int32_t i = 0; i < rank->plan.n_steps && status == HRF_OK; i++)
        status = run_step(rank, &rank->plan.steps[i], source, context, outputs, err);
    rank->is_filled = false;
    return status;
}

/* The comm also carries other messages: `before` is its count at the start of the run. */
static void count_run(struct hrf_rank *rank, const struct hrf_comm *before, double busy,
                      double processor)
{
    struct hrf_rank_facts *facts = &rank->facts;
    const struct hrf_comm *now = rank->comm;
    facts->n_messages += now->n_messages - before->n_messages;
    facts->sent_bytes += now->sent_bytes - before->sent_bytes;
    facts->waited += now->waited - before->waited;
    facts->busy += busy;
    facts->processor += processor;
    for (int use = 0; use < HRF_N_COMM_USES; use++) {
        const struct hrf_comm_count run = hrf_comm_count_since(&now->counts[use],
                                                               &before->counts[use]);
        hrf_comm_count_add(&facts->counts[use], &run);
    }
}

enum hrf_status hrf_rank_run(struct hrf_rank *rank, hrf_source *source, void *context,
                             float *const *outputs, struct hrf_error *err)
{
    struct hrf_error why = { .status = HRF_OK };
    struct hrf_comm before = { .n_messages = rank->comm->n_messages,
                               .sent_bytes = rank->comm->sent_bytes,
                               .waited = rank->comm->waited };
    memcpy(before.counts, rank->comm->counts, sizeof before.counts);
    const double start = hrf_clock_seconds(), processor = hrf_clock_thread_seconds();
    const enum hrf_status status = run(rank, source, context, outputs, &why);
    count_run(rank, &before, hrf_clock_seconds() - start, hrf_clock_thread_seconds() - processor);
    if (status != HRF_OK) {
        rank->comm->ops->abort(rank->comm, why.text);
        if (err != NULL)
            *err = why;
    }
    return status;
}
