/* device_peers.c - creates and destroys the communication of a rank between devices, runs the
 * transfers of a plan and records them (device_peers.h). */
#include "engine/run/device_peers.h"

#include "base/clock.h"
#include "engine/run/device_peers_private.h"

#include <stdio.h>
#include <string.h>

static enum hrf_placement placement_of(const struct hrf_device_peers *d, int32_t peer)
{
    if (d->peers->comm->is_one_process)
        return HRF_PLACEMENT_PROCESS;
    return hrf_shared_is_same_node(d->shared, peer) ? HRF_PLACEMENT_NODE : HRF_PLACEMENT_NETWORK;
}

static enum hrf_device_path message_path(const struct hrf_device_peers *d, int32_t peer,
                                         int64_t n_bytes)
{
    const bool is_reached = hrf_shared_reaches(d->shared, peer);
    if (d->transport == HRF_TRANSPORT_NCCL && d->uses_nccl)
        return PATH_NCCL;
    if (d->links != NULL) {
        const char *const names[] = { [PATH_HOST] = d->peers->comm->ops->name,
                                      [PATH_SHARED] = is_reached ? "ipc" : NULL,
                                      [PATH_NCCL] = d->uses_nccl ? "nccl" : NULL };
        const int path = hrf_machine_transport(d->links, placement_of(d, peer), (double)n_bytes,
                                               names, 3);
        if (path >= 0)
            return (enum hrf_device_path)path;
    }
    return is_reached ? PATH_SHARED : PATH_HOST;
}

static enum hrf_device_path part_path(const struct hrf_device_peers *d,
                                      const struct hrf_device_part *part)
{
    return message_path(d, part->peer, hrf_area_bytes(&part->area));
}

/* ---- control messages ---- */

int64_t hrf_device_control_tag(const struct hrf_peers *peers)
{
    return peers->is_mirrored ? HRF_TAG_TAKEN_MIRRORED : HRF_TAG_TAKEN;
}

enum hrf_status hrf_device_send_message(const struct hrf_peers *peers, int32_t to,
                                        const void *message, size_t n_bytes, struct hrf_error *err)
{
    return peers->comm->ops->send(peers->comm, hrf_peers_comm_rank(peers, to),
                                  hrf_device_control_tag(peers), message, n_bytes, err);
}

enum hrf_status hrf_device_receive_message(const struct hrf_peers *peers, int32_t from,
                                           void *message, size_t n_bytes, struct hrf_error *err)
{
    return peers->comm->ops->receive(peers->comm, hrf_peers_comm_rank(peers, from),
                                     hrf_device_control_tag(peers), message, n_bytes, err);
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
    if (to->row_stride == to->row_bytes &&
        from->row_stride == from->row_bytes) { /* the rows are contiguous on both sides */
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
    return part_path(d, part) == PATH_HOST;
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
        if (part_path(d, &parts[i]) == PATH_NCCL)
            nccl[n_nccl++] = parts[i];
        else
            parts[n_kept++] = parts[i];
    *n = n_kept;
    return n_nccl;
}

/* Exchanges the parts in one NCCL group and counts its messages by their bytes. */
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

/* Finds the parts of a step and their addresses in its tensors. */
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
        char *slot = d->gathered + join.n_parts * hrf_area_bytes(&t->to);
        if (t->kind == HRF_TRANSFER_RECEIVE)
            d->received[n_received++] = (struct hrf_device_part){ t->peer, t->tag, slot, t->to };
        if (t->kind != HRF_TRANSFER_REDUCE)
            continue;
        if (t->peer == d->peers->rank)
            HRF_TRY(hrf_device_copy(d->ops, d->backend, slot, &t->to,
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
    if (begins) { /* Messages still in flight must not overlap with what is replayed. */
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
    /* NCCL's last messages may run at the same time as kernels, and the recording must include
     * them. Otherwise the last step was an END, or the second queue was not recorded at all. */
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

/* Bytes that transfer i sends or receives; 0: it is neither. */
static int64_t message_bytes(const struct hrf_plan *plan, int32_t i, bool is_out)
{
    const struct hrf_transfer *t = &plan->transfers[i];
    const bool is_it = t->kind == (is_out ? HRF_TRANSFER_SEND : HRF_TRANSFER_RECEIVE);
    return is_it ? hrf_area_bytes(is_out ? &t->from : &t->to) : 0;
}

/* The memory that the parts of the largest step by this transport take. */
static size_t room_for(const struct hrf_device_peers *d, enum hrf_device_path path, bool is_out)
{
    const struct hrf_plan *plan = d->peers->plan;
    size_t most = 0;
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const struct hrf_step *step = &plan->steps[s];
        size_t sum = 0;
        for (int32_t i = step->first_transfer; i < step->first_transfer + step->n_transfers; i++) {
            const int64_t n = message_bytes(plan, i, is_out);
            if (n > 0 && message_path(d, plan->transfers[i].peer, n) == path)
                sum += hrf_part_room(n);
        }
        most = sum > most ? sum : most;
    }
    return most;
}

static enum hrf_status make_staging(struct hrf_device_peers *d, struct hrf_staging *s, bool is_out,
                                    struct hrf_error *err)
{
    void *host = NULL, *device = NULL;
    s->n_bytes = room_for(d, PATH_HOST, is_out);
    if (s->n_bytes == 0)
        return HRF_OK;
    HRF_TRY(d->ops->allocate(d->backend, s->n_bytes, &device, err));
    s->device = device;
    HRF_TRY(d->ops->allocate_host(d->backend, s->n_bytes, &host, err));
    s->host = host;
    return HRF_OK;
}

static enum hrf_status make_gathered(struct hrf_device_peers *d, struct hrf_error *err)
{
    const struct hrf_partition *p = d->peers->partition;
    void *memory = NULL;
    for (int32_t i = 0; i < p->n_reduces; i++) {
        const struct hrf_reduce *r = &p->reduces[i];
        const size_t n = (size_t)r->n * (size_t)r->count * hrf_dtype_size(r->dtype);
        d->gathered_bytes = n > d->gathered_bytes ? n : d->gathered_bytes;
    }
    if (d->gathered_bytes > 0)
        HRF_TRY(d->ops->allocate(d->backend, d->gathered_bytes, &memory, err));
    d->gathered = memory;
    return HRF_OK;
}

/* Finds the ranks that this one communicates with by NCCL, and the memory for the parts of its
 * largest exchange. */
static void measure_nccl(struct hrf_device_peers *d, bool *sends_to, bool *receives_from,
                         struct hrf_device_nccl_config *config)
{
    const struct hrf_plan *plan = d->peers->plan;
    d->only_nccl = true;
    for (int32_t i = 0; i < 2 * plan->n_transfers; i++) {
        const bool is_out = i % 2 == 0;
        const int64_t n = message_bytes(plan, i / 2, is_out);
        const int32_t q = plan->transfers[i / 2].peer;
        const bool is_nccl = n > 0 && message_path(d, q, n) == PATH_NCCL;
        d->only_nccl &= is_nccl || n == 0;
        *(is_out ? &sends_to[q] : &receives_from[q]) |= is_nccl;
    }
    config->out_bytes = room_for(d, PATH_NCCL, true);
    config->in_bytes = room_for(d, PATH_NCCL, false);
}

static bool wants_nccl(const struct hrf_device_peers *d)
{
    bool wants = d->transport == HRF_TRANSPORT_NCCL;
    for (int32_t i = 0; d->links != NULL && i < d->links->n_links; i++)
        wants |= strcmp(d->links->links[i].comm, "nccl") == 0;
    return wants && d->peers->partition->n_ranks > 1;
}

static enum hrf_status make_shared(struct hrf_device_peers *d, struct hrf_error *err)
{
    const struct hrf_shared_config config = {
        .peers = d->peers,
        .ops = d->ops,
        .backend = d->backend,
        .is_wanted = d->transport == HRF_TRANSPORT_AUTO || d->transport == HRF_TRANSPORT_IPC,
        .is_required = d->transport == HRF_TRANSPORT_IPC,
        /* Two mirrored pipelines would wait for each other in a cycle, and a failed NCCL is aborted
         * differently. */
        .may_push = !wants_nccl(d) && !d->peers->partition->layout.bidirectional
    };
    HRF_TRY(hrf_shared_create(&config, &d->shared, err));
    const char *why = hrf_shared_why_no_push(d->shared);
    if (*why != '\0')
        snprintf(d->notes, sizeof d->notes,
                 "batches of ranks that exchange rows are queued kernel by kernel, not as one CUDA "
                 "graph: %s\n",
                 why);
    return HRF_OK;
}

/* True if every message of this rank is pushed, also if there is none. */
static bool is_all_pushed(const struct hrf_device_peers *d, bool *is_any)
{
    const struct hrf_plan *plan = d->peers->plan;
    bool is_all = true;
    for (int32_t i = 0; i < 2 * plan->n_transfers; i++) {
        const int64_t n = message_bytes(plan, i / 2, i % 2 == 0);
        const int32_t q = plan->transfers[i / 2].peer;
        const bool is_pushed = n > 0 && message_path(d, q, n) == PATH_SHARED &&
                               hrf_shared_pushes(d->shared, q);
        is_all &= is_pushed || n == 0;
        *is_any |= is_pushed;
    }
    return is_all;
}

static enum hrf_status make_nccl(struct hrf_device_peers *d, struct hrf_error *err)
{
    const size_t n = (size_t)d->peers->partition->n_ranks;
    char why[512] = "";
    HRF_AUTO_FREE bool *sends_to = hrf_calloc(2 * n, sizeof *sends_to);
    struct hrf_device_nccl_config config = { .peers = d->peers,
                                             .ops = d->ops,
                                             .backend = d->backend,
                                             .sends_to = sends_to,
                                             .receives_from = sends_to + n };
    d->uses_nccl = wants_nccl(d);
    if (!d->uses_nccl)
        return HRF_OK;
    measure_nccl(d, sends_to, sends_to + n, &config);
    HRF_TRY(hrf_device_nccl_create(&config, &d->nccl, why, sizeof why, err));
    d->uses_nccl = d->nccl != NULL;
    d->only_nccl &= d->uses_nccl;
    if (d->uses_nccl)
        return HRF_OK;
    if (d->transport == HRF_TRANSPORT_NCCL)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "--comm nccl cannot carry the messages of these ranks: %s; use --comm "
                             "ipc (ranks of one node), mpi, or auto",
                             why);
    snprintf(d->notes, sizeof d->notes,
             "NCCL was measured as the quickest for some messages and carries none: %s\n", why);
    return HRF_OK;
}

/* Sends rank 0's links between GPUs to every rank. */
static enum hrf_status share_links(struct hrf_device_peers *d, const struct hrf_machine *links,
                                   struct hrf_error *err)
{
    const struct hrf_peers *peers = d->peers;
    if (d->transport != HRF_TRANSPORT_AUTO || peers->partition->n_ranks == 1)
        return HRF_OK;
    HRF_AUTO_FREE struct hrf_machine *common = hrf_calloc(1, sizeof *common);
    for (int32_t i = 0; links != NULL && i < links->n_links; i++)
        if (links->links[i].is_gpus)
            common->links[common->n_links++] = links->links[i];
    for (int32_t q = 1; q < peers->partition->n_ranks && peers->rank == 0; q++)
        HRF_TRY(hrf_device_send_message(peers, q, common, sizeof *common, err));
    if (peers->rank != 0)
        HRF_TRY(hrf_device_receive_message(peers, 0, common, sizeof *common, err));
    if (common->n_links == 0)
        return HRF_OK;
    HRF_MOVE(d->links, common);
    return HRF_OK;
}

static const char *name_transports(const struct hrf_device_peers *d)
{
    enum { HOST = 1 << PATH_HOST, SHARED = 1 << PATH_SHARED, NCCL = 1 << PATH_NCCL };
    static const char *const names[][2] = { [HOST] = { "mpi", "loop" },
                                            [SHARED] = { "ipc", "ipc" },
                                            [SHARED | HOST] = { "ipc+mpi", "ipc+loop" },
                                            [NCCL] = { "nccl", "nccl" },
                                            [NCCL | HOST] = { "nccl+mpi", "nccl+loop" },
                                            [NCCL | SHARED] = { "ipc+nccl", "ipc+nccl" },
                                            [NCCL | SHARED |
                                                HOST] = { "ipc+nccl+mpi", "ipc+nccl+loop" } };
    const struct hrf_plan *plan = d->peers->plan;
    unsigned used = 0;
    for (int32_t i = 0; i < 2 * plan->n_transfers; i++) {
        const int64_t n = message_bytes(plan, i / 2, i % 2 == 0);
        if (n > 0)
            used |= 1U << message_path(d, plan->transfers[i / 2].peer, n);
    }
    return names[used][d->peers->comm->is_one_process];
}

static enum hrf_status build(struct hrf_device_peers *d, const struct hrf_machine *links,
                             struct hrf_error *err)
{
    const size_t n = (size_t)d->peers->partition->n_ranks;
    d->sent = hrf_calloc(4 * n, sizeof *d->sent);
    d->received = d->sent + n;
    d->nccl_sent = d->received + n;
    d->nccl_received = d->nccl_sent + n;
    if (d->peers->comm != NULL) {
        HRF_TRY(share_links(d, links, err));
        HRF_TRY(make_shared(d, err));
        HRF_TRY(make_nccl(d, err));
        d->only_push = is_all_pushed(d, &d->uses_push);
        d->transports = name_transports(d);
    }
    HRF_TRY(make_staging(d, &d->out, true, err));
    HRF_TRY(make_staging(d, &d->in, false, err));
    return make_gathered(d, err);
}

enum hrf_status hrf_device_peers_create(struct hrf_peers *peers, const struct hrf_device_ops *ops,
                                        struct hrf_backend *backend, enum hrf_transport transport,
                                        const struct hrf_machine *links,
                                        struct hrf_device_peers **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_device_peers) d = hrf_calloc(1, sizeof *d);
    d->peers = peers;
    d->ops = ops;
    d->backend = backend;
    d->transport = transport;
    HRF_TRY(build(d, links, err));
    HRF_MOVE(*out, d);
    return HRF_OK;
}

void hrf_device_peers_ready(struct hrf_device_peers *d)
{
    d->is_ready = true;
}

/* Waits until both queues are empty; false: they were aborted. */
static bool settle(struct hrf_device_peers *d)
{
    if (d->ops->peers->follow(d->backend, NULL) != HRF_OK ||
        d->ops->mark(d->backend, 0, NULL) != HRF_OK)
        return false;
    return hrf_device_peers_wait(d, 0, NULL) == HRF_OK;
}

void hrf_device_peers_leave(struct hrf_device_peers *d)
{
    if (d == NULL || !d->is_ready || d->shared == NULL)
        return;
    if (!d->has_failed)
        d->is_settled = settle(d);
    if (d->is_settled || !d->uses_push)
        return;
    /* Ranks that wait for this one must not use what it sends from now on. */
    d->peers->comm->ops->abort(d->peers->comm, "a rank ended before its GPU was done");
    hrf_shared_let_go(d->shared);
}

void hrf_device_peers_abandon(struct hrf_device_peers *d)
{
    if (d != NULL && d->nccl != NULL && !d->is_settled)
        hrf_device_nccl_abort(d->nccl);
}

void hrf_device_peers_destroy(struct hrf_device_peers *d)
{
    if (d == NULL)
        return;
    hrf_device_peers_abandon(d);
    hrf_shared_destroy(d->shared, d->is_settled);
    hrf_device_nccl_destroy(d->nccl);
    struct hrf_staging *const both[] = { &d->out, &d->in };
    for (int i = 0; i < 2; i++) {
        d->ops->release(d->backend, both[i]->device);
        d->ops->release_host(d->backend, both[i]->host);
    }
    d->ops->release(d->backend, d->gathered);
    hrf_free(d->links);
    hrf_free(d->sent);
    hrf_free(d);
}

int64_t hrf_device_peers_bytes(const struct hrf_device_peers *d)
{
    return hrf_shared_bytes(d->shared) + hrf_device_nccl_bytes(d->nccl) +
           (int64_t)(d->out.n_bytes + d->in.n_bytes + d->gathered_bytes);
}

const char *hrf_device_peers_transport(const struct hrf_device_peers *d, int32_t rank,
                                       int64_t n_bytes)
{
    static const char *const names[] = { [PATH_SHARED] = "ipc", [PATH_NCCL] = "nccl" };
    const enum hrf_device_path path = message_path(d, rank, n_bytes);
    return path == PATH_HOST ? d->peers->comm->ops->name : names[path];
}

const char *hrf_device_peers_transports(const struct hrf_device_peers *d)
{
    return d->transports;
}

const char *hrf_device_peers_notes(const struct hrf_device_peers *d)
{
    return d->notes;
}
