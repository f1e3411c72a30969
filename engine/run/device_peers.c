/* device_peers.c - runs the transfers of a plan between devices, and records them
 * (device_peers.h). */
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
    return hrf_shared_is_same_node(d->shared, peer) ? HRF_PLACE_NODE : HRF_PLACE_NETWORK;
}

enum hrf_device_way hrf_device_way_of(const struct hrf_device_peers *d, int32_t peer,
                                      int64_t n_bytes)
{
    const bool is_reached = hrf_shared_reaches(d->shared, peer);
    if (d->transport == HRF_TRANSPORT_NCCL && d->uses_nccl)
        return WAY_NCCL;
    if (d->links != NULL) {
        const char *const names[] = { [WAY_HOST] = d->peers->comm->ops->name,
                                      [WAY_SHARED] = is_reached ? "ipc" : NULL,
                                      [WAY_NCCL] = d->uses_nccl ? "nccl" : NULL };
        const int way = hrf_machine_transport(d->links, place_of(d, peer), (double)n_bytes, names,
                                              3);
        if (way >= 0)
            return (enum hrf_device_way)way;
    }
    return is_reached ? WAY_SHARED : WAY_HOST;
}

static enum hrf_device_way way_of_part(const struct hrf_device_peers *d,
                                       const struct hrf_device_part *part)
{
    return hrf_device_way_of(d, part->peer, hrf_area_bytes(&part->area));
}

/* ---- words ---- */

int64_t hrf_device_word_tag(const struct hrf_peers *peers)
{
    return peers->is_mirrored ? HRF_TAG_TAKEN_MIRRORED : HRF_TAG_TAKEN;
}

enum hrf_status hrf_device_send_message(const struct hrf_peers *peers, int32_t to, const void *word,
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

enum hrf_status hrf_device_copy(const struct hrf_device_ops *ops, struct hrf_backend *backend,
                                char *to_at, const struct hrf_area *to, const char *from_at,
                                const struct hrf_area *from, struct hrf_error *err)
{
    struct hrf_device_box box = { .to = to_at,
                                  .from = from_at,
                                  .n_images = to->n_images,
                                  .n_rows = to->n_rows,
                                  .row_bytes = to->row_bytes,
                                  .to_image = to->image_stride,
                                  .to_row = to->row_stride,
                                  .from_image = from->image_stride,
                                  .from_row = from->row_stride };
    if (to->row_stride == to->row_bytes && from->row_stride == from->row_bytes) { /* one run */
        box.row_bytes *= box.n_rows;
        box.n_rows = 1;
        box.to_row = box.from_row = box.row_bytes;
    }
    return ops->copy_box(backend, &box, err);
}

/* ---- through the host ---- */

static enum hrf_status wait(struct hrf_device_peers *d, struct hrf_error *err)
{
    HRF_TRY(d->ops->mark(d->backend, 0, err));
    d->host_is_read = false;
    return hrf_device_peers_wait(d, 0, err);
}

static bool is_staged(const struct hrf_device_peers *d, const struct hrf_device_part *part)
{
    return way_of_part(d, part) == WAY_HOST;
}

/* All parts are copied at the same time, and the thread waits once. */
static enum hrf_status send_staged(struct hrf_device_peers *d, int32_t n, struct hrf_error *err)
{
    size_t at = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct hrf_device_part *part = &d->sent[i];
        const struct hrf_area packed = hrf_area_packed(&part->area);
        char *from = part->at;
        if (!is_staged(d, part))
            continue;
        if (!hrf_area_is_packed(&part->area)) {
            from = d->out.device + at;
            HRF_TRY(hrf_device_copy(d->ops, d->backend, from, &packed, part->at, &part->area, err));
        }
        HRF_TRY(d->ops->download(d->backend, d->out.host + at, from,
                                 (size_t)hrf_area_bytes(&packed), err));
        at += hrf_part_room(hrf_area_bytes(&packed));
    }
    if (at > 0)
        HRF_TRY(wait(d, err));
    at = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct hrf_device_part *part = &d->sent[i];
        const int64_t n_bytes = hrf_area_bytes(&part->area);
        if (!is_staged(d, part))
            continue;
        HRF_TRY(hrf_peers_send(d->peers, part->peer, part->tag, d->out.host + at, (size_t)n_bytes,
                               err));
        at += hrf_part_room(n_bytes);
    }
    return HRF_OK;
}

static enum hrf_status receive_staged(struct hrf_device_peers *d,
                                      const struct hrf_device_part *part, size_t at,
                                      struct hrf_error *err)
{
    const size_t n_bytes = (size_t)hrf_area_bytes(&part->area);
    const bool is_direct = hrf_area_is_packed(&part->area);
    const struct hrf_area packed = hrf_area_packed(&part->area);
    char *to = is_direct ? part->at : d->in.device + at;
    HRF_TRY(hrf_peers_receive(d->peers, part->peer, part->tag, d->in.host + at, n_bytes, err));
    d->host_is_read = true;
    HRF_TRY(d->ops->upload(d->backend, to, d->in.host + at, n_bytes, err));
    return is_direct ? HRF_OK
                     : hrf_device_copy(d->ops, d->backend, part->at, &part->area, to, &packed, err);
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
        const struct hrf_device_part *part = &d->received[i];
        if (!is_staged(d, part)) {
            HRF_TRY(hrf_shared_receive(d->shared, part, err));
            continue;
        }
        if (at == 0 && d->host_is_read)
            HRF_TRY(wait(d, err));
        HRF_TRY(receive_staged(d, part, at, err));
        at += hrf_part_room(hrf_area_bytes(&part->area));
    }
    return HRF_OK;
}

/* Removes the parts that NCCL carries from the list. */
static int32_t split_off(const struct hrf_device_peers *d, struct hrf_device_part *parts,
                         int32_t *n, struct hrf_device_part *nccl)
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

/* One NCCL group; its messages are counted by their bytes. */
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
        hrf_comm_count_sent(d->peers->comm, (size_t)hrf_area_bytes(&d->nccl_sent[i].area),
                            seconds / n_sent);
    return HRF_OK;
}

/* ---- exchanges ---- */

/* The parts of a step, by their addresses in its tensors. */
static int32_t find_parts(const struct hrf_device_peers *d, const struct hrf_step *step,
                          enum hrf_transfer_kind kind, struct hrf_device_part *out)
{
    const struct hrf_plan *plan = d->peers->plan;
    int32_t n = 0;
    for (int32_t i = step->first_transfer; i < step->first_transfer + step->n_transfers; i++) {
        const struct hrf_transfer *t = &plan->transfers[i];
        const struct hrf_area *area = hrf_transfer_area(plan, i);
        if (t->kind == kind)
            out[n++] = (struct hrf_device_part){ t->peer, t->tag, hrf_peers_at(d->peers, area),
                                                 *area };
    }
    return n;
}

/* Receives what the step's exchange brings. */
static const struct hrf_step *end_of(const struct hrf_plan *plan, int32_t i)
{
    const struct hrf_step *end = &plan->steps[i];
    while (end->kind == HRF_STEP_BEGIN || end->node != plan->steps[i].node)
        end++;
    return end;
}

/* Copies the rows that this rank has itself, and rows of the line cache. */
static enum hrf_status copy_own(struct hrf_device_peers *d, const struct hrf_step *step,
                                struct hrf_error *err)
{
    for (int32_t i = step->first_transfer; i < step->first_transfer + step->n_transfers; i++) {
        const struct hrf_transfer *t = &d->peers->plan->transfers[i];
        if (t->kind == HRF_TRANSFER_COPY)
            HRF_TRY(hrf_device_copy(d->ops, d->backend, hrf_peers_at(d->peers, &t->to), &t->to,
                                    hrf_peers_at(d->peers, &t->from), &t->from, err));
    }
    return HRF_OK;
}

static bool has_copies(const struct hrf_plan *plan, const struct hrf_step *step)
{
    for (int32_t i = step->first_transfer; i < step->first_transfer + step->n_transfers; i++)
        if (plan->transfers[i].kind == HRF_TRANSFER_COPY)
            return true;
    return false;
}

/* Starts the messages on the second queue. The kernels that follow may overwrite what is sent,
 * unless it is sent from its final place. */
static enum hrf_status send_overlapped(struct hrf_device_peers *d, int32_t n_sent, bool is_in_place,
                                       struct hrf_error *err)
{
    d->ops->peers->select_queue(d->backend, HRF_QUEUE_PEERS);
    enum hrf_status status = d->ops->peers->follow(d->backend, err);
    if (status == HRF_OK)
        status = send_all(d, n_sent, err);
    d->ops->peers->select_queue(d->backend, HRF_QUEUE_KERNELS);
    return status == HRF_OK && n_sent > 0 && !is_in_place ? d->ops->peers->follow(d->backend, err)
                                                          : status;
}

/* `is_overlapped`: kernels queued before end() run at the same time as the messages. */
static enum hrf_status begin(struct hrf_device_peers *d, int32_t i, bool is_overlapped,
                             struct hrf_error *err)
{
    const struct hrf_plan *plan = d->peers->plan;
    const struct hrf_step *step = &plan->steps[i];
    const bool is_in_place = !has_copies(plan, step);
    int32_t n_sent = find_parts(d, step, HRF_TRANSFER_SEND, d->sent);
    int32_t n_received = find_parts(d, end_of(plan, i), HRF_TRANSFER_RECEIVE, d->received);
    const int32_t n_nccl_sent = split_off(d, d->sent, &n_sent, d->nccl_sent);
    const int32_t n_nccl_received = split_off(d, d->received, &n_received, d->nccl_received);
    HRF_TRY(is_overlapped ? send_overlapped(d, n_sent, is_in_place, err)
                          : send_all(d, n_sent, err));
    /* end() makes later kernels wait for what was received and for what was sent before it. If
     * nothing was received, the sent tensor must still be free for them. */
    const bool packs_all = is_overlapped ? !is_in_place : n_nccl_received == 0;
    HRF_TRY(exchange_by_nccl(d, n_nccl_sent, n_nccl_received, packs_all, err));
    return copy_own(d, step, err);
}

static enum hrf_status end(struct hrf_device_peers *d, int32_t i, bool is_overlapped,
                           struct hrf_error *err)
{
    int32_t n_received = find_parts(d, &d->peers->plan->steps[i], HRF_TRANSFER_RECEIVE,
                                    d->received);
    const int32_t n_nccl = split_off(d, d->received, &n_received, d->nccl_received);
    d->ops->peers->select_queue(d->backend, is_overlapped ? HRF_QUEUE_PEERS : HRF_QUEUE_KERNELS);
    const enum hrf_status status = receive_all(d, n_received, err);
    d->ops->peers->select_queue(d->backend, HRF_QUEUE_KERNELS);
    HRF_TRY(status);
    return is_overlapped || n_nccl > 0 ? d->ops->peers->follow(d->backend, err) : HRF_OK;
}

/* NCCL's reduction adds in an order of its own and only over all ranks of a communicator. Here the
 * parts are gathered and added in the order of ranks, so that all ranks get the same sums. */
static enum hrf_status reduce(struct hrf_device_peers *d, const struct hrf_step *step,
                              struct hrf_error *err)
{
    const struct hrf_plan *plan = d->peers->plan;
    const struct hrf_transfer *transfers = plan->transfers + step->first_transfer;
    const struct hrf_reduce *r = &d->peers->partition->reduces[transfers->tag / 2];
    struct hrf_device_join join = { r->dtype, r->is_max, 0, r->count };
    int32_t n_sent = find_parts(d, step, HRF_TRANSFER_SEND, d->sent), n_received = 0;
    const int32_t n_nccl_sent = split_off(d, d->sent, &n_sent, d->nccl_sent);
    char *out = NULL;
    HRF_TRY(send_all(d, n_sent, err));
    for (int32_t i = 0; i < step->n_transfers; i++) {
        const struct hrf_transfer *t = &transfers[i];
        char *place = d->gathered + join.n_parts * hrf_area_bytes(&t->to);
        if (t->kind == HRF_TRANSFER_RECEIVE)
            d->received[n_received++] = (struct hrf_device_part){ t->peer, t->tag, place, t->to };
        if (t->kind != HRF_TRANSFER_REDUCE)
            continue;
        if (t->peer == d->peers->rank)
            HRF_TRY(hrf_device_copy(d->ops, d->backend, place, &t->to,
                                    hrf_peers_at(d->peers, &t->from), &t->from, err));
        out = hrf_peers_at(d->peers, &t->to);
        join.n_parts++;
    }
    const int32_t n_nccl = split_off(d, d->received, &n_received, d->nccl_received);
    HRF_TRY(exchange_by_nccl(d, n_nccl_sent, n_nccl, n_nccl == 0, err));
    HRF_TRY(receive_all(d, n_received, err));
    if (n_nccl > 0)
        HRF_TRY(d->ops->peers->follow(d->backend, err));
    return join.n_parts > 0 ? d->ops->peers->join(d->backend, &join, out, d->gathered, err)
                            : HRF_OK;
}

static enum hrf_status run(struct hrf_device_peers *d, int32_t i, struct hrf_error *err)
{
    const struct hrf_plan *plan = d->peers->plan;
    const struct hrf_step *step = &plan->steps[i];
    const bool is_overlapped = step->kind != HRF_STEP_KERNEL;
    const bool reduces = step->n_transfers > 0 &&
                         hrf_transfer_is_reduction(&plan->transfers[step->first_transfer]);
    if (d->peers->comm != NULL)
        d->peers->comm->use = reduces ? HRF_COMM_REDUCE : HRF_COMM_EXCHANGE;
    if (reduces)
        return reduce(d, step, err);
    if (step->kind != HRF_STEP_END)
        HRF_TRY(begin(d, i, is_overlapped, err));
    return step->kind != HRF_STEP_BEGIN ? end(d, i, is_overlapped, err) : HRF_OK;
}

static enum hrf_status note(struct hrf_device_peers *d, enum hrf_status status)
{
    d->has_failed |= status != HRF_OK;
    return status;
}

enum hrf_status hrf_device_peers_run(struct hrf_device_peers *d, int32_t step,
                                     struct hrf_error *err)
{
    return note(d, run(d, step, err));
}

enum hrf_status hrf_device_peers_wait(struct hrf_device_peers *d, int32_t slot,
                                      struct hrf_error *err)
{
    const struct hrf_device_waiter waiter = {
        .peers = d->peers,
        .ops = d->ops,
        .backend = d->backend,
        .advice = "what one of them was to write into the memory of another (--comm ipc) has not "
                  "come; use --comm mpi",
        .is_void_after_abort = true,
    };
    if (d->nccl != NULL)
        return note(d, hrf_device_nccl_wait(d->nccl, slot, err));
    return note(d, d->uses_push ? hrf_device_wait(&waiter, slot, err)
                                : d->ops->wait(d->backend, slot, err));
}

/* ---- recording ---- */

bool hrf_device_peers_may_record(const struct hrf_device_peers *d)
{
    return d->peers->comm == NULL || d->only_nccl || d->only_push;
}

enum hrf_status hrf_device_peers_record(struct hrf_device_peers *d, bool begins,
                                        struct hrf_error *err)
{
    struct hrf_comm *comm = d->peers->comm;
    if (comm == NULL)
        return HRF_OK;
    if (begins) { /* Messages still under way must not overlap with what is replayed. */
        memcpy(d->counted, comm->counts, sizeof d->counted);
        return d->ops->peers->follow(d->backend, err);
    }
    for (int use = 0; use < HRF_N_COMM_USES; use++) {
        const struct hrf_comm_count *now = &comm->counts[use], *then = &d->counted[use];
        d->recorded[use] = (struct hrf_comm_count){ now->messages - then->messages,
                                                    now->bytes - then->bytes, 0, 0 };
        comm->n_messages -= d->recorded[use].messages;
        comm->sent_bytes -= d->recorded[use].bytes;
    }
    memcpy(comm->counts, d->counted, sizeof d->counted);
    /* NCCL may have ended with messages beside kernels: the recording covers them, too. Else an END
     * was last, or the second queue was not recorded at all. */
    return d->nccl != NULL ? d->ops->peers->follow(d->backend, err) : HRF_OK;
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
