/* transfers.c - the copies and messages of an exchange or a reduction, written once (transfers.h).
 */
#include "engine/plan/line_cache.h"
#include "engine/plan/plan.h"

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

enum hrf_status hrf_transfers_append(struct hrf_plan *plan, const struct hrf_transfer *t,
                                     struct hrf_error *err)
{
    const bool is_message = t->kind == HRF_TRANSFER_SEND || t->kind == HRF_TRANSFER_RECEIVE;
    const int64_t n_bytes = hrf_area_bytes(t->kind == HRF_TRANSFER_SEND ? &t->from : &t->to);
    assert(t->tag >= 0 && n_bytes >= 0);
    assert(is_message || hrf_area_bytes(&t->from) == hrf_area_bytes(&t->to) ||
           t->kind == HRF_TRANSFER_EXPECT);
    HRF_TRY(hrf_array_reserve((void **)&plan->transfers, &plan->transfers_capacity,
                              (size_t)plan->n_transfers + 1, sizeof *t, err));
    plan->transfers[plan->n_transfers++] = *t;
    if (is_message && n_bytes > plan->message_bytes)
        plan->message_bytes = n_bytes;
    plan->n_tags = t->tag >= plan->n_tags ? t->tag + 1 : plan->n_tags;
    return HRF_OK;
}

const struct hrf_area *hrf_transfer_area(const struct hrf_plan *plan, int32_t i)
{
    const struct hrf_transfer *t = &plan->transfers[i];
    if (t->kind == HRF_TRANSFER_SEND)
        return t->from.memory == HRF_MEMORY_MESSAGE ? &plan->transfers[i - 1].from : &t->from;
    return t->to.memory == HRF_MEMORY_MESSAGE ? &plan->transfers[i + 1].to : &t->to;
}

/* ---- exchanges ---- */

/* The place of a box of the exchanged value. */
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
static enum hrf_status add_message(const struct writer *w, enum hrf_transfer_kind kind,
                                   int32_t peer, const struct hrf_box *part, struct hrf_error *err)
{
    const bool sends = kind == HRF_TRANSFER_SEND;
    const struct hrf_area tensor = area_of(w->x, sends ? &w->in : &w->out, part);
    const bool is_direct = tensor.n_images == 1 && hrf_area_is_packed(&tensor);
    const struct hrf_area packed = is_direct ? tensor : hrf_area_packed(&tensor);
    struct hrf_transfer t = { kind, peer, w->tag, false, packed, packed };
    if (hrf_box_is_empty(part) || (kind == HRF_TRANSFER_EXPECT && !is_direct))
        return HRF_OK;
    if (sends && !is_direct) {
        t.kind = HRF_TRANSFER_PACK;
        t.from = tensor;
        HRF_TRY(hrf_transfers_append(w->plan, &t, err));
    }
    t.kind = kind;
    t.from = packed;
    HRF_TRY(hrf_transfers_append(w->plan, &t, err));
    t.kind = HRF_TRANSFER_UNPACK;
    t.to = tensor;
    return kind != HRF_TRANSFER_RECEIVE || is_direct ? HRF_OK
                                                     : hrf_transfers_append(w->plan, &t, err);
}

/* Adds all that other ranks send to this one. */
static enum hrf_status add_received(const struct writer *w, enum hrf_transfer_kind kind,
                                    struct hrf_error *err)
{
    for (int32_t q = 0; q < w->p->n_ranks && hrf_exchange_takes(w->x, w->me); q++) {
        const struct hrf_box part = hrf_exchange_sent(w->x, q, w->me);
        HRF_TRY(add_message(w, kind, q, &part, err));
    }
    return HRF_OK;
}

static enum hrf_status add_copy(const struct writer *w, const struct holding *to,
                                const struct holding *from, const struct hrf_box *part,
                                struct hrf_error *err)
{
    if (hrf_box_is_empty(part))
        return HRF_OK;
    const struct hrf_transfer copy = {
        HRF_TRANSFER_COPY, w->me, w->tag, false, area_of(w->x, from, part), area_of(w->x, to, part)
    };
    return hrf_transfers_append(w->plan, &copy, err);
}

/* For bands: the rows of the line cache come before the new rows, and the rows that later bands
 * need stay in it. Rows move towards the beginning of the cache, in steps of the distance they
 * move, so that no copy overlaps itself. */
static enum hrf_status add_kept(const struct writer *w, int32_t row, struct hrf_error *err)
{
    const struct hrf_line_cache_moves m = hrf_line_cache_moves(w->p, row, w->me);
    struct holding places[2];
    for (int i = 0; i < 2; i++) {
        places[i] = (struct holding){ HRF_MEMORY_LINE_CACHE, w->p->cached[w->x->cache_entry].offset,
                                      hrf_box_whole(&w->p->graph->values[w->x->value].shape),
                                      false };
        places[i].box.lo[0] = m.place_lo[i];
        places[i].box.hi[0] = m.place_lo[i] + m.room;
    }
    const int64_t step = m.place_lo[1] - m.place_lo[0];
    HRF_TRY(add_copy(w, &w->out, &places[0], &m.loaded, err));
    for (int64_t y = m.stays.lo[0]; step > 0 && y < m.stays.hi[0]; y += step) {
        struct hrf_box part = m.stays;
        part.lo[0] = y;
        part.hi[0] = y + step < m.stays.hi[0] ? y + step : m.stays.hi[0];
        HRF_TRY(add_copy(w, &places[1], &places[0], &part, err));
    }
    return add_copy(w, &places[1], &w->in, &m.added, err);
}

/* Adds the parts that the rank sends, and the copy of its own part. */
static enum hrf_status begin_exchange(const struct writer *w, int32_t row, struct hrf_error *err)
{
    const struct hrf_box own = hrf_box_intersect(&w->in.box, &w->out.box);
    HRF_TRY(add_received(w, HRF_TRANSFER_EXPECT, err));
    for (int32_t i = 1; i < w->p->n_ranks; i++) { /* not all send to the same rank first */
        const int32_t q = (w->me + i) % w->p->n_ranks;
        const struct hrf_box part = hrf_exchange_sent(w->x, w->me, q);
        HRF_TRY(add_message(w, HRF_TRANSFER_SEND, q, &part, err));
    }
    if (w->x->cache_entry >= 0)
        HRF_TRY(add_kept(w, row, err));
    return hrf_exchange_takes(w->x, w->me) && !w->is_in_place
               ? add_copy(w, &w->out, &w->in, &own, err)
               : HRF_OK;
}

/* ---- reductions ---- */

static struct hrf_area run_of(enum hrf_memory memory, int64_t offset, int64_t n)
{
    return (struct hrf_area){ memory, offset, 1, 1, n, n, n };
}

static enum hrf_status add_reduction(struct hrf_plan *plan, const struct hrf_reduce *r, int32_t tag,
                                     int32_t me, const struct hrf_area *in,
                                     const struct hrf_area *out, struct hrf_error *err)
{
    const struct hrf_area message = run_of(HRF_MEMORY_MESSAGE, 0, out->row_bytes);
    bool is_first = true;
    for (int32_t q = r->first; q < r->first + r->n && in != NULL; q++) {
        const struct hrf_transfer send = { HRF_TRANSFER_SEND, q, tag, false, *in, *in };
        if (q != me)
            HRF_TRY(hrf_transfers_append(plan, &send, err));
    }
    for (int32_t q = r->first; q < r->first + r->n; q++) {
        const struct hrf_transfer receive = {
            HRF_TRANSFER_RECEIVE, q, tag, false, message, message
        };
        if (!r->gives[q])
            continue;
        if (q != me)
            HRF_TRY(hrf_transfers_append(plan, &receive, err));
        const struct hrf_transfer add = { HRF_TRANSFER_REDUCE,     q,   tag, is_first,
                                          q != me ? message : *in, *out };
        HRF_TRY(hrf_transfers_append(plan, &add, err));
        is_first = false;
    }
    return HRF_OK;
}

/* ---- steps ---- */

static enum hrf_status add(struct hrf_plan *plan, const struct hrf_graph *graph, int32_t step,
                           struct hrf_error *err)
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
        return add_reduction(plan, r, 2 * row + 1, map->rank, node->n_inputs > 0 ? &own : NULL,
                             &sum, err);
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
        HRF_TRY(begin_exchange(&w, row, err));
    return plan->steps[step].kind != HRF_STEP_BEGIN ? add_received(&w, HRF_TRANSFER_RECEIVE, err)
                                                    : HRF_OK;
}

enum hrf_status hrf_transfers_add(struct hrf_plan *plan, const struct hrf_graph *graph,
                                  int32_t step, struct hrf_error *err)
{
    struct hrf_step *s = &plan->steps[step];
    s->first_transfer = plan->n_transfers;
    if (plan->map != NULL && hrf_op_communicates(graph->nodes[s->node].op))
        HRF_TRY(add(plan, graph, step, err));
    s->n_transfers = plan->n_transfers - s->first_transfer;
    return HRF_OK;
}
