/* device_push.c - writes parts of tensors directly into another rank's device memory.
 *
 * Every message of the plan has a slot in the receiver's memory and two flags, 32-bit words that
 * are 0 or 1: `free` with the sender, `ready` with the receiver. The sender's stream waits for
 * `free`, takes it (sets it to 0), packs the part into the slot and sets the receiver's `ready`;
 * the receiver's stream takes `ready`, unpacks, and sets the sender's `free`. A flag is set by one
 * rank and taken by the other, each only after the other's turn, so it needs no count of batches
 * and a recording is the same for all of them. The host takes no part.
 *
 * Order: the parts of a run leave in the order of its steps, and a step sends before it waits. A
 * wait therefore ends after work that comes earlier in (run, step), so that ranks cannot wait for
 * each other in a circle. Mirrored pipelines have no such order; they do not use this.
 *
 * A rank whose neighbour has failed sets its own flags until its streams have run out
 * (hrf_push_release()); what they then compute and send is void. The group was aborted before, and
 * who waits for a batch asks the comm before it believes the batch.
 */
#include "engine/run/device_peers_private.h"

#include "base/clock.h"

/* An end of a message: this rank's flag, the other's, and the slot. */
struct lane {
    char *own, *other, *slot;
};

struct hrf_push {
    struct hrf_push_config config;
    int32_t n_ranks;
    char *memory; /* the flags, then the slots of what is received */
    int64_t n_bytes;
    int32_t n_flags;
    struct lane *sent, *received; /* [tags][ranks] */
    void **theirs;                /* [ranks] memory of the others; NULL: not opened */
};

/* A rank's end of a message, as it tells the other rank. */
struct endpoint {
    int32_t tag;
    bool is_received; /* it receives the message; else it sends it */
    int32_t flag;     /* the index of its flag */
    uint64_t slot;    /* of a message that it receives: the offset of the slot in its memory */
};

static bool is_message(const struct hrf_transfer *t)
{
    return t->kind == HRF_TRANSFER_SEND || t->kind == HRF_TRANSFER_RECEIVE;
}

static bool is_pushed(const struct hrf_push *p, const struct hrf_transfer *t)
{
    return is_message(t) && p->config.is_pushed[t->peer];
}

static struct lane *lane_of(struct hrf_push *p, bool is_received, int32_t tag, int32_t peer)
{
    return &(is_received ? p->received : p->sent)[tag * p->n_ranks + peer];
}

static size_t flag_room(int32_t n_flags)
{
    return hrf_part_room((int64_t)n_flags * (int64_t)sizeof(uint32_t));
}

/* Allocates the flags, those of received messages before those of sent ones, followed by the slots.
 * Flags of received messages begin as 0, those of sent ones as 1. */
static enum hrf_status allocate(struct hrf_push *p, struct hrf_error *err)
{
    const struct hrf_push_config *c = &p->config;
    const struct hrf_plan *plan = c->peers->plan;
    int32_t n_received = 0;
    void *memory = NULL;
    size_t at = 0;
    for (int32_t i = 0; i < plan->n_transfers; i++) {
        const struct hrf_transfer *t = &plan->transfers[i];
        p->n_flags += is_pushed(p, t);
        n_received += is_pushed(p, t) && t->kind == HRF_TRANSFER_RECEIVE;
        if (is_pushed(p, t) && t->kind == HRF_TRANSFER_RECEIVE)
            at += hrf_part_room(hrf_area_bytes(&t->to));
    }
    p->n_bytes = (int64_t)(flag_room(p->n_flags) + at);
    HRF_TRY(c->ops->allocate(c->backend, (size_t)p->n_bytes, &memory, err));
    p->memory = memory;
    HRF_TRY(c->ops->peers->flags_write(c->backend, p->memory, n_received, 0, err));
    HRF_TRY(c->ops->peers->flags_write(c->backend,
                                       p->memory + (size_t)n_received * sizeof(uint32_t),
                                       p->n_flags - n_received, 1, err));
    int32_t flags[2] = { n_received, 0 };
    at = flag_room(p->n_flags);
    for (int32_t i = 0; i < plan->n_transfers; i++) {
        const struct hrf_transfer *t = &plan->transfers[i];
        const bool is_received = t->kind == HRF_TRANSFER_RECEIVE;
        if (!is_pushed(p, t))
            continue;
        struct lane *lane = lane_of(p, is_received, t->tag, t->peer);
        if (lane->own != NULL)
            return hrf_error_set(err, HRF_E_BUG, "two messages of tag %d with rank %d", t->tag,
                                 t->peer);
        lane->own = p->memory + (size_t)flags[is_received]++ * sizeof(uint32_t);
        lane->slot = is_received ? p->memory + at : NULL;
        at += is_received ? hrf_part_room(hrf_area_bytes(&t->to)) : 0;
    }
    return HRF_OK;
}

/* Lists this rank's ends of its messages with another rank, which has as many ends of them. On the
 * heap. */
static struct endpoint *list_endpoints(struct hrf_push *p, int32_t peer, int32_t *n)
{
    const struct hrf_plan *plan = p->config.peers->plan;
    struct endpoint *endpoints = hrf_calloc((size_t)plan->n_transfers + 1, sizeof *endpoints);
    *n = 0;
    for (int32_t i = 0; i < plan->n_transfers; i++) {
        const struct hrf_transfer *t = &plan->transfers[i];
        if (!is_message(t) || t->peer != peer)
            continue;
        const bool is_received = t->kind == HRF_TRANSFER_RECEIVE;
        const struct lane *lane = lane_of(p, is_received, t->tag, peer);
        struct endpoint *end = &endpoints[(*n)++];
        end->tag = t->tag;
        end->is_received = is_received;
        end->flag = (int32_t)((size_t)(lane->own - p->memory) / sizeof(uint32_t));
        end->slot = is_received ? (uint64_t)(lane->slot - p->memory) : 0;
    }
    return endpoints;
}

static enum hrf_status tell(struct hrf_push *p, int32_t peer, struct hrf_error *err)
{
    const struct hrf_push_config *c = &p->config;
    struct hrf_device_handle handle;
    int32_t n = 0;
    HRF_AUTO_FREE struct endpoint *endpoints = list_endpoints(p, peer, &n);
    HRF_TRY(c->ops->peers->share(c->backend, p->memory, c->is_interprocess, &handle, err));
    HRF_TRY(hrf_device_send_message(c->peers, peer, &handle, sizeof handle, err));
    return hrf_device_send_message(c->peers, peer, endpoints, (size_t)n * sizeof *endpoints, err);
}

static enum hrf_status hear(struct hrf_push *p, int32_t peer, struct hrf_error *err)
{
    const struct hrf_push_config *c = &p->config;
    struct hrf_device_handle handle;
    int32_t n = 0;
    HRF_AUTO_FREE struct endpoint *endpoints = list_endpoints(p, peer, &n);
    HRF_TRY(hrf_device_receive_message(c->peers, peer, &handle, sizeof handle, err));
    HRF_TRY(
        hrf_device_receive_message(c->peers, peer, endpoints, (size_t)n * sizeof *endpoints, err));
    HRF_TRY(c->ops->peers->open(c->backend, &handle, c->addresses[peer], c->is_interprocess,
                                &p->theirs[peer], err));
    for (int32_t i = 0; i < n; i++) {
        const struct endpoint *end = &endpoints[i];
        const bool is_ours = end->tag >= 0 && end->tag < c->peers->plan->n_tags;
        struct lane *lane = is_ours ? lane_of(p, !end->is_received, end->tag, peer) : NULL;
        if (lane == NULL || lane->own == NULL || lane->other != NULL)
            return hrf_error_set(err, HRF_E_BUG, "rank %d has a message of tag %d, this one not",
                                 peer, end->tag);
        lane->other = (char *)p->theirs[peer] + (size_t)end->flag * sizeof(uint32_t);
        if (end->is_received)
            lane->slot = (char *)p->theirs[peer] + end->slot;
    }
    return HRF_OK;
}

static enum hrf_status build(struct hrf_push *p, struct hrf_error *err)
{
    const size_t n_lanes = (size_t)p->config.peers->plan->n_tags * (size_t)p->n_ranks;
    p->sent = hrf_calloc(2 * n_lanes + 1, sizeof *p->sent);
    p->theirs = hrf_calloc((size_t)p->n_ranks, sizeof *p->theirs);
    p->received = p->sent + n_lanes;
    HRF_TRY(allocate(p, err));
    for (int32_t q = 0; q < p->n_ranks; q++)
        if (p->config.is_pushed[q])
            HRF_TRY(tell(p, q, err));
    for (int32_t q = 0; q < p->n_ranks; q++)
        if (p->config.is_pushed[q])
            HRF_TRY(hear(p, q, err));
    return HRF_OK;
}

enum hrf_status hrf_push_create(const struct hrf_push_config *config, struct hrf_push **out,
                                struct hrf_error *err)
{
    struct hrf_push *p = hrf_calloc(1, sizeof *p);
    p->config = *config;
    p->n_ranks = config->peers->partition->n_ranks;
    const enum hrf_status status = build(p, err);
    p->config.is_pushed = NULL; /* borrowed for this call, as the addresses are */
    p->config.addresses = NULL;
    if (status != HRF_OK) {
        hrf_push_close(p);
        hrf_push_destroy(p);
        return status;
    }
    *out = p;
    return HRF_OK;
}

enum hrf_status hrf_push_send(struct hrf_push *p, const struct hrf_device_part *part,
                              struct hrf_error *err)
{
    const struct hrf_push_config *c = &p->config;
    const struct lane *lane = lane_of(p, false, part->tag, part->peer);
    const struct hrf_area packed = hrf_area_packed(&part->area);
    const double start = hrf_clock_seconds();
    HRF_TRY(c->ops->peers->flag_take(c->backend, lane->own, err));
    HRF_TRY(hrf_device_copy(c->ops, c->backend, lane->slot, &packed, part->at, &part->area, err));
    HRF_TRY(c->ops->peers->flag_set(c->backend, lane->other, err));
    hrf_comm_count_sent(c->peers->comm, (size_t)hrf_area_bytes(&part->area),
                        hrf_clock_seconds() - start);
    return HRF_OK;
}

enum hrf_status hrf_push_receive(struct hrf_push *p, const struct hrf_device_part *part,
                                 struct hrf_error *err)
{
    const struct hrf_push_config *c = &p->config;
    const struct lane *lane = lane_of(p, true, part->tag, part->peer);
    const struct hrf_area packed = hrf_area_packed(&part->area);
    HRF_TRY(c->ops->peers->flag_take(c->backend, lane->own, err));
    HRF_TRY(hrf_device_copy(c->ops, c->backend, part->at, &part->area, lane->slot, &packed, err));
    return c->ops->peers->flag_set(c->backend, lane->other, err);
}

void hrf_push_release(struct hrf_push *p)
{
    const struct hrf_push_config *c = &p->config;
    const int64_t end = hrf_clock_ns() + c->peers->comm->deadline_ms * 1000000;
    bool is_done = false;
    if (c->ops->peers->follow(c->backend, NULL) != HRF_OK ||
        c->ops->mark(c->backend, 0, NULL) != HRF_OK)
        return;
    while (c->ops->is_done(c->backend, 0, &is_done, NULL) == HRF_OK && !is_done &&
           hrf_clock_ns() < end) {
        if (c->ops->peers->flags_write(c->backend, p->memory, p->n_flags, 1, NULL) != HRF_OK)
            return; /* the device itself has failed, so nothing waits any more */
        hrf_clock_sleep_ms(1);
    }
}

void hrf_push_close(struct hrf_push *p)
{
    for (int32_t q = 0; p != NULL && p->theirs != NULL && q < p->n_ranks; q++) {
        p->config.ops->peers->close(p->config.backend, p->theirs[q], p->config.is_interprocess);
        p->theirs[q] = NULL;
    }
}

void hrf_push_destroy(struct hrf_push *p)
{
    if (p == NULL)
        return;
    p->config.ops->release(p->config.backend, p->memory);
    hrf_free(p->sent);
    hrf_free(p->theirs);
    hrf_free(p);
}

int64_t hrf_push_bytes(const struct hrf_push *p)
{
    return p != NULL ? p->n_bytes : 0;
}
