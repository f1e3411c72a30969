/* transfers.c - the copies and messages of an exchange or a reduction, written once (transfers.h).
 */
#include "engine/plan/transfers.h"

#include "base/array.h"
#include "engine/plan/line_cache.h"
#include "engine/plan/plan.h"
#include "engine/plan/schedule.h"
#include "engine/plan/simulate.h"

#include <assert.h>

struct hrf_area hrf_area_packed(const struct hrf_area *of)
{
    return (struct hrf_area){ .memory = HRF_MEMORY_MESSAGE,
                              .n_images = of->n_images,
                              .n_rows = of->n_rows,
                              .row_bytes = of->row_bytes,
                              .image_stride = of->n_rows * of->row_bytes,
                              .row_stride = of->row_bytes };
}

void hrf_transfers_append(struct hrf_plan *plan, const struct hrf_transfer *t)
{
    const bool is_message = t->kind == HRF_TRANSFER_SEND || t->kind == HRF_TRANSFER_RECEIVE;
    const int64_t n_bytes = hrf_area_bytes(t->kind == HRF_TRANSFER_SEND ? &t->from : &t->to);
    assert(t->tag >= 0 && n_bytes >= 0);
    assert(is_message || hrf_area_bytes(&t->from) == hrf_area_bytes(&t->to) ||
           t->kind == HRF_TRANSFER_EXPECT);
    HRF_RESERVE(plan->transfers, plan->transfers_capacity, (size_t)plan->n_transfers + 1);
    plan->transfers[plan->n_transfers++] = *t;
    if (is_message && n_bytes > plan->message_bytes)
        plan->message_bytes = n_bytes;
    plan->n_tags = t->tag >= plan->n_tags ? t->tag + 1 : plan->n_tags;
}

const struct hrf_area *hrf_transfer_area(const struct hrf_plan *plan, int32_t i)
{
    const struct hrf_transfer *t = &plan->transfers[i];
    if (t->kind == HRF_TRANSFER_SEND)
        return t->from.memory == HRF_MEMORY_MESSAGE ? &plan->transfers[i - 1].from : &t->from;
    return t->to.memory == HRF_MEMORY_MESSAGE ? &plan->transfers[i + 1].to : &t->to;
}

/* ---- exchanges ---- */

/* The memory that holds a box of the exchanged value. */
struct holding {
    enum hrf_memory memory;
    int64_t offset;
    struct hrf_box box;
    bool is_of_all; /* it holds all channels of the value, of which the exchange may move some */
};

struct writer {
    struct hrf_plan *plan;
    const struct hrf_partition *p;
    const struct hrf_exchange *x;
    int32_t me, tag;
    struct holding in, out;
    bool is_in_place; /* the rank's own part already lies where it is needed */
};

static struct hrf_area area_of(const struct hrf_exchange *x, const struct holding *held,
                               const struct hrf_box *part)
{
    const bool is_cut = held->is_of_all && x->channels != x->all_channels;
    const int64_t pixel = (is_cut ? x->all_channels : x->channels) * (int64_t)x->element_bytes;
    const int64_t row = (held->box.hi[1] - held->box.lo[1]) * pixel;
    assert(hrf_box_contains(&held->box, part));
    assert(!is_cut || hrf_box_is_empty(part) || held->box.hi[1] - held->box.lo[1] == 1);
    return (struct hrf_area){ .memory = held->memory,
                              .offset = held->offset + (part->lo[0] - held->box.lo[0]) * row +
                                        (part->lo[1] - held->box.lo[1]) * pixel +
                                        (is_cut ? x->first_channel * (int64_t)x->element_bytes : 0),
                              .n_images = x->n_images,
                              .n_rows = part->hi[0] - part->lo[0],
                              .row_bytes = (part->hi[1] - part->lo[1]) * x->channels *
                                           (int64_t)x->element_bytes,
                              .image_stride = (held->box.hi[0] - held->box.lo[0]) * row,
                              .row_stride = row };
}

/* Adds the transfers of a part that is sent from its tensor or received into it. If its rows are
 * not contiguous, it is packed or unpacked. */
static void add_message(const struct writer *w, enum hrf_transfer_kind kind, int32_t peer,
                        const struct hrf_box *part)
{
    const bool sends = kind == HRF_TRANSFER_SEND;
    const struct hrf_area tensor = area_of(w->x, sends ? &w->in : &w->out, part);
    const bool is_direct = tensor.n_images == 1 && hrf_area_is_packed(&tensor);
    const struct hrf_area packed = is_direct ? tensor : hrf_area_packed(&tensor);
    struct hrf_transfer t = { kind, peer, w->tag, false, packed, packed };
    if (hrf_box_is_empty(part) || (kind == HRF_TRANSFER_EXPECT && !is_direct))
        return;
    if (sends && !is_direct) {
        t.kind = HRF_TRANSFER_PACK;
        t.from = tensor;
        hrf_transfers_append(w->plan, &t);
    }
    t.kind = kind;
    t.from = packed;
    hrf_transfers_append(w->plan, &t);
    t.kind = HRF_TRANSFER_UNPACK;
    t.to = tensor;
    if (!(kind != HRF_TRANSFER_RECEIVE || is_direct))
        hrf_transfers_append(w->plan, &t);
}

/* Adds all that other ranks send to this one. */
static void add_received(const struct writer *w, enum hrf_transfer_kind kind)
{
    for (int32_t q = 0; q < w->p->n_ranks && hrf_exchange_takes(w->x, w->me); q++) {
        const struct hrf_box part = hrf_exchange_sent(w->x, q, w->me);
        add_message(w, kind, q, &part);
    }
}

static void add_copy(const struct writer *w, const struct holding *to, const struct holding *from,
                     const struct hrf_box *part)
{
    if (hrf_box_is_empty(part))
        return;
    const struct hrf_transfer copy = {
        HRF_TRANSFER_COPY, w->me, w->tag, false, area_of(w->x, from, part), area_of(w->x, to, part)
    };
    hrf_transfers_append(w->plan, &copy);
}

/* For bands: the rows of the line cache come before the new rows, and the rows that later bands
 * need stay in it. Rows move towards the beginning of the cache, in steps of the distance they
 * move, so that no copy overlaps itself. */
static void add_kept(const struct writer *w, int32_t row)
{
    const struct hrf_line_cache_moves m = hrf_line_cache_moves(w->p, row, w->me);
    struct holding cached[2];
    for (int i = 0; i < 2; i++) {
        cached[i] = (struct holding){ HRF_MEMORY_LINE_CACHE, w->p->cached[w->x->cache_entry].offset,
                                      hrf_box_whole(&w->p->graph->values[w->x->value].shape),
                                      false };
        cached[i].box.lo[0] = m.first_row[i];
        cached[i].box.hi[0] = m.first_row[i] + m.room;
    }
    const int64_t step = m.first_row[1] - m.first_row[0];
    add_copy(w, &w->out, &cached[0], &m.loaded);
    for (int64_t y = m.stays.lo[0]; step > 0 && y < m.stays.hi[0]; y += step) {
        struct hrf_box part = m.stays;
        part.lo[0] = y;
        part.hi[0] = y + step < m.stays.hi[0] ? y + step : m.stays.hi[0];
        add_copy(w, &cached[1], &cached[0], &part);
    }
    add_copy(w, &cached[1], &w->in, &m.added);
}

/* Adds the parts that the rank sends, and the copy of its own part. */
static void begin_exchange(const struct writer *w, int32_t row)
{
    const struct hrf_box own = hrf_box_intersect(&w->in.box, &w->out.box);
    add_received(w, HRF_TRANSFER_EXPECT);
    for (int32_t i = 1; i < w->p->n_ranks; i++) { /* not all send to the same rank first */
        const int32_t q = (w->me + i) % w->p->n_ranks;
        const struct hrf_box part = hrf_exchange_sent(w->x, w->me, q);
        add_message(w, HRF_TRANSFER_SEND, q, &part);
    }
    if (w->x->cache_entry >= 0)
        add_kept(w, row);
    if (hrf_exchange_takes(w->x, w->me) && !w->is_in_place)
        add_copy(w, &w->out, &w->in, &own);
}

/* ---- reductions ---- */

static struct hrf_area run_of(enum hrf_memory memory, int64_t offset, int64_t n)
{
    return (struct hrf_area){ memory, offset, 1, 1, n, n, n };
}

/* Number i of those that a sum is over; from the first rank of this rank's own group. */
static int32_t summand_of(const struct hrf_rank_map *map, const struct hrf_reduce *r, int32_t i)
{
    return r->is_over_groups ? map->rank + (i - map->group) * map->partition->n_ranks
                             : r->first + i;
}

static void add_reduction(struct hrf_plan *plan, const struct hrf_reduce *r, int32_t tag,
                          const struct hrf_area *in, const struct hrf_area *out)
{
    const struct hrf_area message = run_of(HRF_MEMORY_MESSAGE, 0, out->row_bytes);
    const int32_t me = plan->map->rank;
    bool is_first = true;
    for (int32_t i = 0; i < r->n && in != NULL; i++) {
        const int32_t q = summand_of(plan->map, r, i);
        const struct hrf_transfer send = { HRF_TRANSFER_SEND, q, tag, false, *in, *in };
        if (q != me && (r->owner == HRF_ALL_RANKS || r->owner == q))
            hrf_transfers_append(plan, &send);
    }
    for (int32_t i = 0; i < r->n && (r->owner == HRF_ALL_RANKS || r->owner == me); i++) {
        const int32_t q = summand_of(plan->map, r, i);
        const struct hrf_transfer receive = {
            HRF_TRANSFER_RECEIVE, q, tag, false, message, message
        };
        if (!r->is_over_groups && !r->gives[q])
            continue;
        if (q != me)
            hrf_transfers_append(plan, &receive);
        const struct hrf_transfer add = { HRF_TRANSFER_REDUCE,     q,   tag, is_first,
                                          q != me ? message : *in, *out };
        hrf_transfers_append(plan, &add);
        is_first = false;
    }
}

/* ---- steps ---- */

static void add_step(struct hrf_plan *plan, const struct hrf_graph *graph, int32_t step)
{
    const struct hrf_rank_map *map = plan->map;
    const struct hrf_partition *p = map->partition;
    const int32_t n = plan->steps[step].node, row = hrf_rank_map_node(map, n)->row;
    const struct hrf_node *node = &graph->nodes[n];
    const int64_t in = node->n_inputs > 0 ? hrf_plan_offset(plan, node->inputs[0]) : 0;
    const int64_t out = hrf_plan_offset(plan, node->outputs[0]);
    if (node->op == HRF_OP_ALL_REDUCE) {
        const struct hrf_reduce *r = &p->reduces[row];
        const int64_t n_bytes = r->count * (int64_t)hrf_dtype_size(r->dtype);
        const struct hrf_area own = run_of(HRF_MEMORY_ARENA, in, n_bytes);
        const struct hrf_area sum = run_of(HRF_MEMORY_ARENA, out, n_bytes);
        add_reduction(plan, r, 2 * row + 1, node->n_inputs > 0 ? &own : NULL, &sum);
        return;
    }
    const struct hrf_exchange *x = &p->exchanges[row];
    const struct writer w = { .plan = plan,
                              .p = p,
                              .x = x,
                              .me = map->rank,
                              .tag = 2 * row,
                              .in = { HRF_MEMORY_ARENA, in, x->local[map->rank], true },
                              .out = { HRF_MEMORY_ARENA, out, x->need[map->rank], false },
                              .is_in_place = hrf_plan_is_in_place(plan, graph, n) };
    if (plan->steps[step].kind != HRF_STEP_END)
        begin_exchange(&w, row);
    if (plan->steps[step].kind != HRF_STEP_BEGIN)
        add_received(&w, HRF_TRANSFER_RECEIVE);
}

void hrf_transfers_add(struct hrf_plan *plan, const struct hrf_graph *graph, int32_t step)
{
    struct hrf_step *s = &plan->steps[step];
    s->first_transfer = plan->n_transfers;
    if (plan->map != NULL && hrf_op_communicates(graph->nodes[s->node].op))
        add_step(plan, graph, step);
    s->n_transfers = plan->n_transfers - s->first_transfer;
}

void hrf_transfers_simulate(const struct hrf_transfer *t, int32_t label,
                            struct hrf_sim_program *out)
{
    const bool sends = t->kind == HRF_TRANSFER_SEND;
    const struct hrf_sim_step step = { .kind = sends ? HRF_SIM_SEND : HRF_SIM_RECEIVE,
                                       .label = label,
                                       .peer = t->peer,
                                       .tag = t->tag,
                                       .n_bytes = hrf_area_bytes(sends ? &t->from : &t->to) };
    if (sends || t->kind == HRF_TRANSFER_RECEIVE)
        hrf_sim_add(out, &step);
}

/* The messages of some steps of a rank of the partition `p`, in the group that begins at rank
 * `base`; is_mirrored: in the mirrored pipeline. */
static void add_messages(const struct hrf_partition *p, const struct hrf_plan *plan, int32_t from,
                         int32_t to, int32_t base, bool is_mirrored, struct hrf_sim_program *out)
{
    for (int32_t i = from; i < to; i++)
        for (int32_t k = 0; k < plan->steps[i].n_transfers; k++) {
            struct hrf_transfer t = plan->transfers[plan->steps[i].first_transfer + k];
            t.peer = base + (is_mirrored ? hrf_layout_mirror(&p->layout, t.peer) : t.peer);
            t.tag = 2 * t.tag + is_mirrored;
            hrf_transfers_simulate(&t, 0, out);
        }
}

/* The messages of a rank for a batch, in the order of its slots. */
static void add_slots(const struct hrf_partition *p, struct hrf_plan *const *plans, int32_t rank,
                      struct hrf_sim_program *out)
{
    const int32_t in_group = rank % p->n_ranks, base = rank - in_group;
    int32_t n_arenas[2];
    HRF_AUTO_FREE struct hrf_pipeline_slot *slots = hrf_calloc(2 * (size_t)p->layout.microbatches,
                                                               sizeof *slots);
    const int32_t n = hrf_schedule_rank(p, in_group, slots, n_arenas);
    for (int32_t i = 0; i < n; i++) {
        const bool is_mirrored = slots[i].is_mirrored;
        const struct hrf_plan *plan =
            plans[base + (is_mirrored ? hrf_layout_mirror(&p->layout, in_group) : in_group)];
        const int32_t backward = hrf_plan_first_backward(plan);
        add_messages(p, plan, slots[i].part == HRF_SLOT_BACKWARD ? backward : 0,
                     slots[i].part == HRF_SLOT_FORWARD ? backward : plan->n_steps, base,
                     is_mirrored, out);
    }
}

/* Simulates a machine on which messages cost nothing: only their partners and their order count. */
static enum hrf_status play(const struct hrf_sim_program *programs, int32_t n_ranks,
                            struct hrf_error *err)
{
    struct hrf_machine machine = {
        .is_one_process = true, .ranks_per_node = n_ranks, .ports_per_node = 1, .n_links = 1
    };
    HRF_AUTO(hrf_simulation) simulation = NULL;
    machine.links[0] = hrf_link_simple("check", HRF_PLACEMENT_PROCESS, 0, 1);
    return hrf_simulate(programs, n_ranks, &machine, &simulation, err);
}

static void release_programs(struct hrf_sim_program *programs, int32_t n_ranks)
{
    for (int32_t r = 0; r < n_ranks; r++)
        hrf_free(programs[r].steps);
}

enum hrf_status hrf_transfers_check(const struct hrf_plan *const *plans, int32_t n_ranks,
                                    struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_sim_program *programs = hrf_calloc((size_t)n_ranks, sizeof *programs);
    for (int32_t r = 0; r < n_ranks; r++)
        add_messages(NULL, plans[r], 0, plans[r]->n_steps, 0, false, &programs[r]);
    const enum hrf_status status = play(programs, n_ranks, err);
    release_programs(programs, n_ranks);
    return status;
}

/* The ranks of one group, or of all if they send each other sums. */
static int32_t count_ranks(const struct hrf_partition *p)
{
    for (int32_t i = 0; i < p->n_reduces; i++)
        if (p->reduces[i].is_over_groups)
            return p->layout.data * p->n_ranks;
    return p->n_ranks;
}

/* True for a training step in which micro-batches overtake each other: forward and backward passes
 * are in turn. Else each goes as the first one. */
static bool is_in_turn(const struct hrf_partition *p)
{
    return p->layout.stages > 1 && p->layout.microbatches > 1 && hrf_batch_is_shared(p->graph);
}

static enum hrf_status make_plans(const struct hrf_partition *p, int32_t n_ranks,
                                  struct hrf_plan **plans, struct hrf_rank_map **maps,
                                  struct hrf_error *err)
{
    for (int32_t r = 0; r < n_ranks; r++) {
        HRF_AUTO(hrf_graph) graph = NULL;
        HRF_TRY(hrf_partition_graph(p, r % p->n_ranks, &graph, &maps[r], err));
        maps[r]->group = r / p->n_ranks;
        HRF_TRY(hrf_plan_create(graph, maps[r], &plans[r], err));
        HRF_TRY(hrf_plan_check(plans[r], graph, err));
    }
    HRF_AUTO_FREE struct hrf_sim_program *programs = hrf_calloc((size_t)n_ranks, sizeof *programs);
    for (int32_t r = 0; r < n_ranks; r++)
        if (is_in_turn(p))
            add_slots(p, plans, r, &programs[r]);
        else
            add_messages(p, plans[r], 0, plans[r]->n_steps, r / p->n_ranks * p->n_ranks, false,
                         &programs[r]);
    const enum hrf_status status = play(programs, n_ranks, err);
    release_programs(programs, n_ranks);
    return status;
}

enum hrf_status hrf_transfers_prove(const struct hrf_partition *p, struct hrf_error *err)
{
    const int32_t n_ranks = count_ranks(p);
    HRF_AUTO_FREE struct hrf_plan **plans = hrf_calloc((size_t)n_ranks, sizeof *plans);
    HRF_AUTO_FREE struct hrf_rank_map **maps = hrf_calloc((size_t)n_ranks, sizeof *maps);
    const enum hrf_status status = make_plans(p, n_ranks, plans, maps, err);
    for (int32_t r = 0; r < n_ranks; r++) {
        hrf_plan_destroy(plans[r]);
        hrf_rank_map_destroy(maps[r]);
    }
    return status;
}
