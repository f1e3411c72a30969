#include "engine/run/device_peers.h"

#include "base/clock.h"
#include "engine/ir/number.h"
#include "engine/run/device_peers_private.h"

#include <stdio.h>
#include <string.h>

static enum hrf_placement place_of(const struct hrf_device_peers *d, int32_t peer)
{
    if (d->peers->comm->is_one_process)
        return HRF_PLACE_PROCESS;
    return hrf_shared_is_beside(d->shared, peer) ? HRF_PLACE_NODE : HRF_PLACE_NETWORK;
}

enum hrf_device_way hrf_device_way_of(const struct hrf_device_peers *d, int32_t peer,
                                      int64_t n_bytes)
{
    const bool is_reached = hrf_shared_reaches(d->shared, peer);
    if (d->carrier == HRF_CARRIER_NCCL && d->uses_nccl)
        return WAY_NCCL;
    if (d->links != NULL) {
        const char *const names[] = { [WAY_HOST] = d->peers->comm->ops->name,
                                      [WAY_SHARED] = is_reached ? "ipc" : NULL,
                                      [WAY_NCCL] = d->uses_nccl ? "nccl" : NULL };
        const int way = hrf_machine_carrier(d->links, place_of(d, peer), (double)n_bytes, names, 3);
        if (way >= 0)
            return (enum hrf_device_way)way;
    }
    return is_reached ? WAY_SHARED : WAY_HOST;
}

static enum hrf_device_way way_of_part(const struct hrf_device_peers *d,
                                       const struct hrf_part *part)
{
    return hrf_device_way_of(d, part->peer, (int64_t)hrf_area_bytes(&part->area));
}

/* ---- words ---- */

int64_t hrf_device_word_tag(const struct hrf_peers *peers)
{
    return peers->is_mirrored ? HRF_TAG_TAKEN_MIRRORED : HRF_TAG_TAKEN;
}

enum hrf_status hrf_device_send_word(const struct hrf_peers *peers, int32_t to, const void *word,
                                     size_t n_bytes, struct hrf_error *err)
{
    return peers->comm->ops->send(peers->comm, hrf_peers_comm_rank(peers, to),
                                  hrf_device_word_tag(peers), word, n_bytes, err);
}

enum hrf_status hrf_device_receive_word(const struct hrf_peers *peers, int32_t from, void *word,
                                        size_t n_bytes, struct hrf_error *err)
{
    return peers->comm->ops->receive(peers->comm, hrf_peers_comm_rank(peers, from),
                                     hrf_device_word_tag(peers), word, n_bytes, err);
}

/* ---- areas ---- */

struct hrf_area hrf_area_packed(const struct hrf_area *of, void *at)
{
    return (struct hrf_area){ .at = at,
                              .n_images = of->n_images,
                              .n_rows = of->n_rows,
                              .row_bytes = of->row_bytes,
                              .image = of->n_rows * of->row_bytes,
                              .row = of->row_bytes };
}

bool hrf_area_is_packed(const struct hrf_area *a)
{
    return (a->n_rows == 1 || a->row == a->row_bytes) &&
           (a->n_images == 1 || a->image == a->n_rows * a->row_bytes);
}

enum hrf_status hrf_device_copy(const struct hrf_device_ops *ops, struct hrf_backend *backend,
                                const struct hrf_area *to, const struct hrf_area *from,
                                struct hrf_error *err)
{
    struct hrf_device_box box = { .to = to->at,
                                  .from = from->at,
                                  .n_images = to->n_images,
                                  .n_rows = to->n_rows,
                                  .row_bytes = to->row_bytes,
                                  .to_image = to->image,
                                  .to_row = to->row,
                                  .from_image = from->image,
                                  .from_row = from->row };
    if (to->at == from->at)
        return HRF_OK;                                              /* it lies where it should */
    if (to->row == to->row_bytes && from->row == from->row_bytes) { /* rows in one run */
        box.row_bytes *= box.n_rows;
        box.n_rows = 1;
        box.to_row = box.from_row = box.row_bytes;
    }
    return ops->copy_box(backend, &box, err);
}

/* Part `part` of a tensor that holds box `held` of the exchanged value. */
static struct hrf_area area_of(const struct hrf_exchange *x, const struct hrf_box *held,
                               const void *pixels, const struct hrf_box *part)
{
    const int64_t pixel = x->channels * (int64_t)x->element_bytes;
    const int64_t row = (held->hi[1] - held->lo[1]) * pixel;
    struct hrf_area area = { .n_images = x->n_images,
                             .n_rows = part->hi[0] - part->lo[0],
                             .row_bytes = (part->hi[1] - part->lo[1]) * pixel,
                             .image = (held->hi[0] - held->lo[0]) * row,
                             .row = row };
    area.at = (char *)(uintptr_t)pixels + (part->lo[0] - held->lo[0]) * row +
              (part->lo[1] - held->lo[1]) * pixel;
    return area;
}

static struct hrf_area run_of(void *at, size_t n_bytes)
{
    const int64_t n = (int64_t)n_bytes;
    return (struct hrf_area){ at, 1, 1, n, n, n };
}

static size_t room_of(const struct hrf_part *part)
{
    return (hrf_area_bytes(&part->area) + HRF_PART_ALIGNMENT - 1) / HRF_PART_ALIGNMENT *
           HRF_PART_ALIGNMENT;
}

/* ---- through the host ---- */

static enum hrf_status wait(struct hrf_device_peers *d, struct hrf_error *err)
{
    HRF_TRY(d->ops->mark(d->backend, 0, err));
    d->host_is_read = false;
    return d->ops->wait(d->backend, 0, err);
}

static bool is_staged(const struct hrf_device_peers *d, const struct hrf_part *part)
{
    return way_of_part(d, part) == WAY_HOST;
}

/* All parts cross over while the thread waits once. */
static enum hrf_status send_staged(struct hrf_device_peers *d, int32_t n, struct hrf_error *err)
{
    size_t at = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct hrf_part *part = &d->sent[i];
        if (!is_staged(d, part))
            continue;
        struct hrf_area packed = part->area;
        if (!hrf_area_is_packed(&part->area)) {
            packed = hrf_area_packed(&part->area, d->out.device + at);
            HRF_TRY(hrf_device_copy(d->ops, d->backend, &packed, &part->area, err));
        }
        HRF_TRY(d->ops->download(d->backend, d->out.host + at, packed.at, hrf_area_bytes(&packed),
                                 err));
        at += room_of(part);
    }
    if (at > 0)
        HRF_TRY(wait(d, err));
    at = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct hrf_part *part = &d->sent[i];
        if (!is_staged(d, part))
            continue;
        HRF_TRY(d->peers->comm->ops->send(d->peers->comm, hrf_peers_comm_rank(d->peers, part->peer),
                                          part->tag, d->out.host + at, hrf_area_bytes(&part->area),
                                          err));
        at += room_of(part);
    }
    return HRF_OK;
}

static enum hrf_status receive_staged(struct hrf_device_peers *d, const struct hrf_part *part,
                                      size_t at, struct hrf_error *err)
{
    const size_t n_bytes = hrf_area_bytes(&part->area);
    const bool is_direct = hrf_area_is_packed(&part->area);
    const struct hrf_area packed = hrf_area_packed(&part->area, d->in.device + at);
    HRF_TRY(d->peers->comm->ops->receive(d->peers->comm, hrf_peers_comm_rank(d->peers, part->peer),
                                         part->tag, d->in.host + at, n_bytes, err));
    d->host_is_read = true;
    HRF_TRY(d->ops->upload(d->backend, is_direct ? part->area.at : packed.at, d->in.host + at,
                           n_bytes, err));
    return is_direct ? HRF_OK : hrf_device_copy(d->ops, d->backend, &part->area, &packed, err);
}

/* ---- all of an exchange's parts ---- */

static enum hrf_status send_all(struct hrf_device_peers *d, int32_t n, struct hrf_error *err)
{
    for (int32_t i = 0; i < n; i++)
        if (!is_staged(d, &d->sent[i]))
            HRF_TRY(hrf_shared_send(d->shared, &d->sent[i], err));
    return send_staged(d, n, err);
}

static enum hrf_status receive_all(struct hrf_device_peers *d, int32_t n, struct hrf_error *err)
{
    size_t at = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct hrf_part *part = &d->received[i];
        if (!is_staged(d, part)) {
            HRF_TRY(hrf_shared_receive(d->shared, part, err));
            continue;
        }
        if (at == 0 && d->host_is_read)
            HRF_TRY(wait(d, err));
        HRF_TRY(receive_staged(d, part, at, err));
        at += room_of(part);
    }
    return HRF_OK;
}

/* As many rows at a time as they move by: queued copies may not run over what they read. */
static enum hrf_status move_down(struct hrf_device_peers *d, const struct hrf_exchange *x,
                                 const struct hrf_box *places, char *at, const struct hrf_box *rows,
                                 struct hrf_error *err)
{
    const int64_t step = places[1].lo[0] - places[0].lo[0];
    for (int64_t y = rows->lo[0]; step > 0 && y < rows->hi[0]; y += step) {
        struct hrf_box part = *rows;
        part.lo[0] = y;
        part.hi[0] = y + step < rows->hi[0] ? y + step : rows->hi[0];
        const struct hrf_area from = area_of(x, &places[0], at, &part);
        const struct hrf_area to = area_of(x, &places[1], at, &part);
        HRF_TRY(hrf_device_copy(d->ops, d->backend, &to, &from, err));
    }
    return HRF_OK;
}

/* As peers.c's. */
static enum hrf_status move_kept(struct hrf_device_peers *d, int32_t e, const void *in, void *out,
                                 struct hrf_error *err)
{
    const struct hrf_partition *p = d->peers->partition;
    const struct hrf_exchange *x = &p->exchanges[e];
    const struct hrf_kept_moves m = hrf_kept_moves(p, e, d->peers->rank);
    char *at = (char *)d->peers->kept + p->kept[x->kept].offset;
    struct hrf_box places[2];
    for (int i = 0; i < 2; i++) {
        places[i] = hrf_box_whole(&p->graph->values[x->value].shape);
        places[i].lo[0] = m.place_lo[i];
        places[i].hi[0] = m.place_lo[i] + m.room;
    }
    if (!hrf_box_is_empty(&m.loaded)) {
        const struct hrf_area from = area_of(x, &places[0], at, &m.loaded);
        const struct hrf_area to = area_of(x, &x->need[d->peers->rank], out, &m.loaded);
        HRF_TRY(hrf_device_copy(d->ops, d->backend, &to, &from, err));
    }
    if (!hrf_box_is_empty(&m.stays))
        HRF_TRY(move_down(d, x, places, at, &m.stays, err));
    if (hrf_box_is_empty(&m.added))
        return HRF_OK;
    const struct hrf_area from = area_of(x, &x->local[d->peers->rank], in, &m.added);
    const struct hrf_area to = area_of(x, &places[1], at, &m.added);
    return hrf_device_copy(d->ops, d->backend, &to, &from, err);
}

/* Takes NCCL's out of the parts. */
static int32_t split_off(const struct hrf_device_peers *d, struct hrf_part *parts, int32_t *n,
                         struct hrf_part *nccl)
{
    int32_t n_nccl = 0, n_kept = 0;
    for (int32_t i = 0; i < *n; i++)
        if (way_of_part(d, &parts[i]) == WAY_NCCL)
            nccl[n_nccl++] = parts[i];
        else
            parts[n_kept++] = parts[i];
    *n = n_kept;
    return n_nccl;
}

/* One group, counted as what it carries. */
static enum hrf_status exchange_by_nccl(struct hrf_device_peers *d, int32_t n_sent,
                                        int32_t n_received, bool packs_all, struct hrf_error *err)
{
    const struct hrf_device_nccl_group group = { d->nccl_sent, d->nccl_received, n_sent, n_received,
                                                 packs_all };
    const double start = hrf_clock_seconds();
    if (n_sent + n_received == 0)
        return HRF_OK;
    HRF_TRY(hrf_device_nccl_exchange(d->nccl, &group, err));
    const double seconds = hrf_clock_seconds() - start;
    for (int32_t i = 0; i < n_sent; i++)
        hrf_comm_count_sent(d->peers->comm, hrf_area_bytes(&d->nccl_sent[i].area),
                            seconds / n_sent);
    return HRF_OK;
}

/* ---- exchanges ---- */

static int32_t find_sent(struct hrf_device_peers *d, int32_t e, const void *in)
{
    const struct hrf_partition *p = d->peers->partition;
    const struct hrf_exchange *x = &p->exchanges[e];
    const int32_t me = d->peers->rank, n = p->n_ranks;
    const int64_t tag = hrf_peers_tag(d->peers, false, e);
    int32_t n_sent = 0;
    for (int32_t i = 1; i < n; i++) { /* not all to the same rank first */
        const int32_t q = (me + i) % n;
        const struct hrf_box part = hrf_exchange_sent(x, me, q);
        if (!hrf_box_is_empty(&part))
            d->sent[n_sent++] = (struct hrf_part){ q, e, tag,
                                                   area_of(x, &x->local[me], in, &part) };
    }
    return n_sent;
}

static int32_t find_received(struct hrf_device_peers *d, int32_t e, void *out)
{
    const struct hrf_partition *p = d->peers->partition;
    const struct hrf_exchange *x = &p->exchanges[e];
    const int32_t me = d->peers->rank;
    const int64_t tag = hrf_peers_tag(d->peers, false, e);
    int32_t n_received = 0;
    for (int32_t q = 0; q < p->n_ranks && hrf_exchange_takes(x, me); q++) {
        const struct hrf_box part = hrf_exchange_sent(x, q, me);
        if (!hrf_box_is_empty(&part))
            d->received[n_received++] = (struct hrf_part){ q, e, tag,
                                                           area_of(x, &x->need[me], out, &part) };
    }
    return n_received;
}

/* What the rank has and keeps; false: nothing. */
static bool find_kept(const struct hrf_device_peers *d, int32_t e, const void *in, void *out,
                      struct hrf_area *from, struct hrf_area *to)
{
    const struct hrf_exchange *x = &d->peers->partition->exchanges[e];
    const int32_t me = d->peers->rank;
    const struct hrf_box kept = hrf_box_intersect(&x->local[me], &x->need[me]);
    if (!hrf_exchange_takes(x, me) || hrf_box_is_empty(&kept))
        return false;
    *from = area_of(x, &x->local[me], in, &kept);
    *to = area_of(x, &x->need[me], out, &kept);
    return true;
}

/* Beside the kernels that come next, which may write over what is sent unless it lies in place. */
static enum hrf_status send_beside(struct hrf_device_peers *d, int32_t n_sent, bool is_in_place,
                                   struct hrf_error *err)
{
    d->ops->turn(d->backend, HRF_QUEUE_PEERS);
    enum hrf_status status = d->ops->follow(d->backend, err);
    if (status == HRF_OK)
        status = send_all(d, n_sent, err);
    d->ops->turn(d->backend, HRF_QUEUE_KERNELS);
    return status == HRF_OK && n_sent > 0 && !is_in_place ? d->ops->follow(d->backend, err)
                                                          : status;
}

static enum hrf_status begin(struct hrf_device_peers *d, int32_t e, const void *in, void *out,
                             bool is_beside, struct hrf_error *err)
{
    struct hrf_area from = { .at = NULL }, to = { .at = NULL };
    const bool keeps = find_kept(d, e, in, out, &from, &to);
    const bool is_in_place = keeps && from.at == to.at;
    int32_t n_sent = find_sent(d, e, in), n_received = find_received(d, e, out);
    const int32_t n_nccl_sent = split_off(d, d->sent, &n_sent, d->nccl_sent);
    const int32_t n_nccl_received = split_off(d, d->received, &n_received, d->nccl_received);
    HRF_TRY(is_beside ? send_beside(d, n_sent, is_in_place, err) : send_all(d, n_sent, err));
    /* end() lets kernels follow what was received, and what was sent before it: where nothing is,
     * the tensor has to be free without. */
    const bool packs_all = is_beside ? !is_in_place : n_nccl_received == 0;
    HRF_TRY(exchange_by_nccl(d, n_nccl_sent, n_nccl_received, packs_all, err));
    if (d->peers->partition->exchanges[e].kept >= 0)
        HRF_TRY(move_kept(d, e, in, out, err));
    return keeps ? hrf_device_copy(d->ops, d->backend, &to, &from, err) : HRF_OK;
}

static enum hrf_status end(struct hrf_device_peers *d, int32_t e, void *out, bool is_beside,
                           struct hrf_error *err)
{
    int32_t n_received = find_received(d, e, out);
    const int32_t n_nccl = split_off(d, d->received, &n_received, d->nccl_received);
    d->ops->turn(d->backend, is_beside ? HRF_QUEUE_PEERS : HRF_QUEUE_KERNELS);
    const enum hrf_status status = receive_all(d, n_received, err);
    d->ops->turn(d->backend, HRF_QUEUE_KERNELS);
    HRF_TRY(status);
    return is_beside || n_nccl > 0 ? d->ops->follow(d->backend, err) : HRF_OK;
}

/* NCCL's own reduction would add in an order of its own, and only over all ranks of a group: parts
 * are gathered and joined in the order of the ranks, so that sums are the same on all of them. */
static enum hrf_status reduce(struct hrf_device_peers *d, int32_t index, const void *in, void *out,
                              struct hrf_error *err)
{
    const struct hrf_partition *p = d->peers->partition;
    const struct hrf_reduce *r = &p->reduces[index];
    const size_t n_bytes = (size_t)r->count * hrf_dtype_size(r->dtype);
    const int64_t tag = hrf_peers_tag(d->peers, true, index);
    const int32_t row = p->n_exchanges + index, me = d->peers->rank;
    struct hrf_device_join join = { r->dtype, r->is_max, 0, r->count };
    int32_t n_sent = 0, n_received = 0;
    const struct hrf_area own = run_of((void *)(uintptr_t)in, n_bytes);
    for (int32_t q = r->first; q < r->first + r->n && in != NULL; q++)
        if (q != me)
            d->sent[n_sent++] = (struct hrf_part){ q, row, tag, own };
    const int32_t n_nccl_sent = split_off(d, d->sent, &n_sent, d->nccl_sent);
    HRF_TRY(send_all(d, n_sent, err));
    for (int32_t q = r->first; q < r->first + r->n; q++) {
        const struct hrf_area place = run_of(d->gathered + (size_t)join.n_parts * n_bytes, n_bytes);
        if (!r->gives[q])
            continue;
        if (q == me)
            HRF_TRY(hrf_device_copy(d->ops, d->backend, &place, &own, err));
        else
            d->received[n_received++] = (struct hrf_part){ q, row, tag, place };
        join.n_parts++;
    }
    const int32_t n_nccl = split_off(d, d->received, &n_received, d->nccl_received);
    HRF_TRY(exchange_by_nccl(d, n_nccl_sent, n_nccl, n_nccl == 0, err));
    HRF_TRY(receive_all(d, n_received, err));
    if (n_nccl > 0)
        HRF_TRY(d->ops->follow(d->backend, err));
    return join.n_parts > 0 ? d->ops->join(d->backend, &join, out, d->gathered, err) : HRF_OK;
}

static void set_use(struct hrf_device_peers *d, enum hrf_comm_use use)
{
    if (d->peers->comm != NULL)
        d->peers->comm->use = use;
}

static enum hrf_status note(struct hrf_device_peers *d, enum hrf_status status)
{
    d->has_failed |= status != HRF_OK;
    return status;
}

enum hrf_status hrf_device_peers_begin(struct hrf_device_peers *d, int32_t e, const void *in,
                                       void *out, bool is_beside, struct hrf_error *err)
{
    set_use(d, HRF_COMM_EXCHANGE);
    return note(d, begin(d, e, in, out, is_beside, err));
}

enum hrf_status hrf_device_peers_end(struct hrf_device_peers *d, int32_t e, void *out,
                                     bool is_beside, struct hrf_error *err)
{
    set_use(d, HRF_COMM_EXCHANGE);
    return note(d, end(d, e, out, is_beside, err));
}

enum hrf_status hrf_device_peers_reduce(struct hrf_device_peers *d, int32_t index, const void *in,
                                        void *out, struct hrf_error *err)
{
    set_use(d, HRF_COMM_REDUCE);
    return note(d, reduce(d, index, in, out, err));
}

enum hrf_status hrf_device_peers_wait(struct hrf_device_peers *d, int32_t slot,
                                      struct hrf_error *err)
{
    return note(d, d->nccl != NULL ? hrf_device_nccl_wait(d->nccl, slot, err)
                                   : d->ops->wait(d->backend, slot, err));
}

/* ---- recording ---- */

bool hrf_device_peers_may_record(const struct hrf_device_peers *d)
{
    return d->peers->comm == NULL || d->only_nccl;
}

enum hrf_status hrf_device_peers_record(struct hrf_device_peers *d, bool begins,
                                        struct hrf_error *err)
{
    struct hrf_comm *comm = d->peers->comm;
    if (comm == NULL)
        return HRF_OK;
    if (begins) { /* what is under way beside does not meet what will be replayed */
        memcpy(d->counted, comm->counts, sizeof d->counted);
        return d->ops->follow(d->backend, err);
    }
    for (int use = 0; use < HRF_N_COMM_USES; use++) {
        const struct hrf_comm_count *now = &comm->counts[use], *then = &d->counted[use];
        d->recorded[use] = (struct hrf_comm_count){ now->messages - then->messages,
                                                    now->bytes - then->bytes, 0, 0 };
        comm->n_messages -= d->recorded[use].messages;
        comm->sent_bytes -= d->recorded[use].bytes;
    }
    memcpy(comm->counts, d->counted, sizeof d->counted);
    return d->ops->follow(d->backend, err); /* what was sent last belongs to it, too */
}

void hrf_device_peers_replayed(struct hrf_device_peers *d)
{
    struct hrf_comm *comm = d->peers->comm;
    for (int use = 0; comm != NULL && use < HRF_N_COMM_USES; use++) {
        hrf_comm_count_add(&comm->counts[use], &d->recorded[use]);
        comm->n_messages += d->recorded[use].messages;
        comm->sent_bytes += d->recorded[use].bytes;
    }
}
