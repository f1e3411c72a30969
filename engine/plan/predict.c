/* predict.c - turns plans into programs with costs and simulates them (predict.h). */
#include "engine/plan/predict.h"

#include "engine/plan/plan.h"
#include "engine/plan/schedule.h"

enum { LABEL_FEED = -1, LABEL_OUTPUT = -2, OUTPUT_TAG = 32765 };

/* A rank of the partition: the program of one micro-batch, and its memory. */
struct partition_rank {
    struct hrf_sim_program
        program;       /* peers are ranks of the partition; tags are exchanges and reductions */
    int32_t n_forward; /* steps of it before the backward pass */
    struct hrf_predicted_rank facts;
    double computing[HRF_COST_N_ORIGINS];
};

struct writer {
    const struct hrf_cost_table *costs;
    const struct hrf_machine *machine;
    struct partition_rank *rank;
};

/* ---- a micro-batch on a rank of the partition ---- */

static void add_copy(struct writer *w, int32_t label, double n_bytes)
{
    const struct hrf_sim_step step = { .kind = HRF_SIM_COPY,
                                       .label = label,
                                       .seconds = w->machine->copy_rate > 0
                                                      ? n_bytes / w->machine->copy_rate
                                                      : 0 };
    if (n_bytes > 0)
        hrf_sim_add(&w->rank->program, &step);
}

/* Adds the steps of an exchange or a reduction from the plan. Additions count as free. */
static void add_transfers(struct writer *w, const struct hrf_plan *plan, const struct hrf_step *s)
{
    for (int32_t i = s->first_transfer; i < s->first_transfer + s->n_transfers; i++) {
        const struct hrf_transfer *t = &plan->transfers[i];
        const bool copies = t->kind == HRF_TRANSFER_PACK || t->kind == HRF_TRANSFER_UNPACK ||
                            t->kind == HRF_TRANSFER_COPY;
        if (copies)
            add_copy(w, s->node, (double)hrf_area_bytes(&t->from));
        else
            hrf_transfers_simulate(t, s->node, &w->rank->program);
    }
}

static enum hrf_status cost_of_part(const struct writer *w, const struct hrf_graph *graph,
                                    const struct hrf_step *s, struct hrf_cost *cost,
                                    struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) part = NULL;
    const struct hrf_node *node = &graph->nodes[s->node];
    if (s->part == HRF_PART_WHOLE)
        return hrf_cost_of(w->costs, graph, node, cost, err);
    HRF_TRY(hrf_part_graph(graph, node, &s->box, 1, &part, err));
    HRF_TRY(hrf_cost_of(w->costs, part, &part->nodes[0], cost, err));
    cost->seconds *= (double)hrf_part_runs(graph, node, s->part);
    return HRF_OK;
}

static enum hrf_status add_kernel(struct writer *w, const struct hrf_graph *graph,
                                  const struct hrf_plan *plan, int32_t i, struct hrf_error *err)
{
    const struct hrf_step *s = &plan->steps[i];
    const struct hrf_node *node = &graph->nodes[s->node];
    struct hrf_predicted_rank *facts = &w->rank->facts;
    struct hrf_cost cost;
    HRF_TRY(cost_of_part(w, graph, s, &cost, err));
    const struct hrf_sim_step step = { .kind = HRF_SIM_COMPUTE,
                                       .label = s->node,
                                       .seconds = cost.seconds };
    if (!hrf_plan_is_as_before(plan, graph, i))
        facts->weight_bytes += cost.weight_bytes;
    if (cost.workspace_bytes > facts->workspace_bytes)
        facts->workspace_bytes = cost.workspace_bytes;
    w->rank->computing[cost.origin] += cost.seconds;
    hrf_sim_add(&w->rank->program, &step);
    int64_t copied;
    (void)hrf_part_copies(graph, node, s->part, &s->box, &copied);
    add_copy(w, s->node, (double)copied);
    return HRF_OK;
}

/* Finds the first and last node of the whole graph of which the rank computes a part. */
static void find_nodes(const struct hrf_partition *p, int32_t rank, struct hrf_predicted_rank *out)
{
    out->first_node = out->last_node = -1;
    for (int32_t n = 0; n < p->graph->n_nodes; n++) {
        if (hrf_box_is_empty(hrf_partition_box(p, p->graph->nodes[n].outputs[0], rank)))
            continue;
        out->first_node = out->first_node < 0 ? n : out->first_node;
        out->last_node = n;
    }
}

static enum hrf_status write_rank(const struct hrf_partition *partition, int32_t index,
                                  const struct hrf_cost_table *costs,
                                  const struct hrf_machine *machine, struct partition_rank *rank,
                                  struct hrf_error *err)
{
    struct writer w = { costs, machine, rank };
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_rank_map) map = NULL;
    HRF_AUTO(hrf_plan) plan = NULL;
    HRF_TRY(hrf_partition_graph(partition, index, &graph, &map, err));
    HRF_TRY(hrf_plan_create(graph, map, &plan, err));
    for (int32_t i = 0; i < graph->n_inputs; i++)
        add_copy(&w, LABEL_FEED, (double)hrf_value_bytes(&graph->values[graph->inputs[i]]));
    const int32_t backward = hrf_plan_first_backward(plan);
    for (int32_t i = 0; i < plan->n_steps; i++) {
        if (i == backward)
            rank->n_forward = rank->program.n_steps;
        if (hrf_op_communicates(graph->nodes[plan->steps[i].node].op))
            add_transfers(&w, plan, &plan->steps[i]);
        else
            HRF_TRY(add_kernel(&w, graph, plan, i, err));
    }
    if (backward == plan->n_steps)
        rank->n_forward = rank->program.n_steps;
    HRF_AUTO_FREE struct hrf_pipeline_slot *slots = hrf_calloc(
        2 * (size_t)partition->layout.microbatches, sizeof *slots);
    int32_t n_arenas[2]; /* a stage holds as many in a mirrored pipeline */
    (void)hrf_schedule_rank(partition, index, slots, n_arenas);
    rank->facts.activation_bytes = n_arenas[0] * plan->arena_bytes + plan->copy_bytes +
                                   plan->message_bytes;
    rank->facts.stage = index / hrf_layout_stage_ranks(&partition->layout);
    if (partition->graph->n_inputs > 0)
        rank->facts.input = *hrf_partition_box(partition, partition->graph->inputs[0], index);
    find_nodes(partition, index, &rank->facts);
    return HRF_OK;
}

/* ---- a batch on a rank ---- */

struct maker {
    const struct hrf_partition *partition;
    struct hrf_prediction *prediction;
    struct partition_rank *partition_ranks; /* [ranks of a group] */
    struct hrf_sim_program *programs;       /* [ranks] */
    struct hrf_batch_split shares;
    bool is_one_process;
};

/* Adds one micro-batch of the partition's rank, or a pass of it, to the program of `rank`. */
static void add_microbatch(const struct maker *m, int32_t rank, int32_t partition_rank,
                           const struct hrf_pipeline_slot *slot)
{
    const bool is_mirrored = slot->is_mirrored;
    const struct partition_rank *part = &m->partition_ranks[partition_rank];
    const struct hrf_sim_program *from = &part->program;
    const int32_t base = rank / m->partition->n_ranks * m->partition->n_ranks;
    const int32_t begin = slot->part == HRF_SLOT_BACKWARD ? part->n_forward : 0;
    const int32_t end = slot->part == HRF_SLOT_FORWARD ? part->n_forward : from->n_steps;
    for (int32_t i = begin; i < end; i++) {
        struct hrf_sim_step step = from->steps[i];
        step.peer = base +
                    (is_mirrored ? hrf_layout_mirror(&m->partition->layout, step.peer) : step.peer);
        step.tag = 2 * step.tag + is_mirrored;
        hrf_sim_add(&m->programs[rank], &step);
    }
}

static void add_batch(const struct maker *m, int32_t rank)
{
    const struct hrf_partition *p = m->partition;
    HRF_AUTO_RELEASE(hrf_batch_plan) plan = { .n_steps = 0 };
    hrf_batch_plan_make(p, &m->shares, rank, m->is_one_process, &plan);
    for (int32_t i = 0; i < plan.n_steps; i++) {
        const struct hrf_batch_step *s = &plan.steps[i];
        const bool is_mirrored = s->slot.is_mirrored;
        const int32_t in_group = rank % p->n_ranks;
        const bool sends = s->kind == HRF_BATCH_SEND || s->kind == HRF_BATCH_GIVE;
        const struct hrf_sim_step output = { .kind = sends ? HRF_SIM_SEND : HRF_SIM_RECEIVE,
                                             .label = LABEL_OUTPUT,
                                             .peer = s->peer,
                                             .tag = OUTPUT_TAG + is_mirrored,
                                             .n_bytes = s->n_bytes };
        if (s->kind == HRF_BATCH_RUN)
            add_microbatch(m, rank,
                           is_mirrored ? hrf_layout_mirror(&p->layout, in_group) : in_group,
                           &s->slot);
        else if (s->kind != HRF_BATCH_KEEP && s->kind != HRF_BATCH_STORE)
            hrf_sim_add(&m->programs[rank], &output);
    }
}

static void sum_up(const struct maker *m, int32_t rank)
{
    const struct hrf_partition *p = m->partition;
    const int32_t in_group = rank % p->n_ranks;
    const struct partition_rank *part = &m->partition_ranks[in_group];
    struct hrf_predicted_rank *out = &m->prediction->ranks[rank];
    const int32_t slots = p->layout.microbatches;
    *out = part->facts;
    for (int o = 0; o < HRF_COST_N_ORIGINS; o++)
        m->prediction->computing[o] += part->computing[o] * slots;
    if (!p->layout.bidirectional)
        return;
    const struct hrf_predicted_rank *other =
        &m->partition_ranks[hrf_layout_mirror(&p->layout, in_group)].facts;
    out->activation_bytes += other->activation_bytes;
    out->weight_bytes += other->weight_bytes;
    out->workspace_bytes += other->workspace_bytes;
}

static void make_ranks(const struct maker *m)
{
    for (int32_t r = 0; r < m->prediction->n_ranks; r++) {
        add_batch(m, r);
        sum_up(m, r);
    }
}

static bool has_message(const struct hrf_partition *p, int32_t e)
{
    for (int32_t to = 0; to < p->n_ranks; to++)
        for (int32_t from = 0; from < p->n_ranks; from++) {
            const struct hrf_box part = hrf_exchange_sent(&p->exchanges[e], from, to);
            if (!hrf_box_is_empty(&part))
                return true;
        }
    return false;
}

static bool has_interior(const struct hrf_partition *p, int32_t n)
{
    struct hrf_box interior;
    for (int32_t r = 0; r < p->n_ranks; r++)
        if (hrf_partition_interior(p, n, r, &interior))
            return true;
    return false;
}

static struct hrf_predicted_halos count_halos(const struct hrf_partition *p)
{
    struct hrf_predicted_halos halos = { .n_exchanges = 0 };
    for (int32_t e = 0; e < p->n_exchanges; e++)
        halos.n_exchanges += has_message(p, e);
    for (int32_t n = 0; n < p->graph->n_nodes; n++) {
        halos.n_overlapped += p->is_overlapped[n] && has_interior(p, n);
        halos.n_fused += p->is_recomputed[p->graph->nodes[n].outputs[0]];
    }
    return halos;
}

static enum hrf_status check_machine(const struct hrf_machine *machine, int32_t n_ranks,
                                     struct hrf_error *err)
{
    const int64_t most = (int64_t)machine->n_nodes * machine->ranks_per_node;
    if (machine->n_nodes > 0 && n_ranks > most)
        return hrf_error_set(
            err, HRF_E_USER,
            "%d ranks on machine '%s', which has room for %lld (%d nodes of %d): use fewer",
            n_ranks, machine->name, (long long)most, machine->n_nodes, machine->ranks_per_node);
    return HRF_OK;
}

static enum hrf_status predict(struct maker *m, const struct hrf_cost_table *costs,
                               const struct hrf_machine *machine, struct hrf_error *err)
{
    for (int32_t i = 0; i < m->partition->n_ranks; i++)
        HRF_TRY(write_rank(m->partition, i, costs, machine, &m->partition_ranks[i], err));
    make_ranks(m);
    HRF_TRY(hrf_simulate(m->programs, m->prediction->n_ranks, machine, &m->prediction->simulation,
                         err));
    m->prediction->seconds = m->prediction->simulation->seconds;
    m->prediction->halos = count_halos(m->partition);
    return HRF_OK;
}

enum hrf_status hrf_predict(const struct hrf_partition *partition, int64_t n_images,
                            const struct hrf_cost_table *costs, const struct hrf_machine *machine,
                            struct hrf_prediction **out, struct hrf_error *err)
{
    const struct hrf_layout_plan *l = &partition->layout;
    const int32_t n_ranks = hrf_layout_ranks(l);
    HRF_AUTO(hrf_prediction) prediction = hrf_calloc(1, sizeof *prediction);
    HRF_AUTO_FREE struct partition_rank *partition_ranks = hrf_calloc((size_t)partition->n_ranks,
                                                                      sizeof *partition_ranks);
    HRF_AUTO_FREE struct hrf_sim_program *programs = hrf_calloc((size_t)n_ranks, sizeof *programs);
    prediction->ranks = hrf_calloc((size_t)n_ranks, sizeof *prediction->ranks);
    HRF_TRY(check_machine(machine, n_ranks, err));
    prediction->layout = *l;
    prediction->n_ranks = n_ranks;
    prediction->n_images = n_images;
    struct maker m = { .partition = partition,
                       .prediction = prediction,
                       .partition_ranks = partition_ranks,
                       .programs = programs,
                       .is_one_process = machine->is_one_process };
    HRF_TRY(hrf_layout_share(l, n_images, &m.shares, err));
    const enum hrf_status status = predict(&m, costs, machine, err);
    for (int32_t i = 0; i < partition->n_ranks; i++)
        hrf_free(partition_ranks[i].program.steps);
    for (int32_t r = 0; r < n_ranks; r++)
        hrf_free(programs[r].steps);
    if (status != HRF_OK)
        return status;
    HRF_MOVE(*out, prediction);
    return HRF_OK;
}

void hrf_prediction_destroy(struct hrf_prediction *prediction)
{
    if (prediction == NULL)
        return;
    hrf_simulation_destroy(prediction->simulation);
    hrf_free(prediction->ranks);
    hrf_free(prediction);
}

int64_t hrf_prediction_peak_bytes(const struct hrf_prediction *prediction)
{
    int64_t most = 0;
    for (int32_t r = 0; r < prediction->n_ranks; r++) {
        const struct hrf_predicted_rank *p = &prediction->ranks[r];
        const int64_t sum = p->activation_bytes + p->weight_bytes + p->workspace_bytes;
        most = sum > most ? sum : most;
    }
    return most;
}
