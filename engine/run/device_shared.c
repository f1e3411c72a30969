/* device_shared.c - reads parts of tensors directly from another rank's device memory, or has them
 * written there (device_push.c) where two ranks' streams may wait for each other.
 *
 * The sender packs a part into a slot of its own memory, sets the `ready` signal of the slot and
 * notifies the receiver. The receiver's stream waits for the signal and unpacks from the slot; then
 * the receiver sets its own `taken` signal and notifies the sender. The sender may then use the
 * slot again; its stream waits for `taken`. At first each tag and receiver has one slot, all in one
 * block of memory; another slot is allocated whenever none is free.
 *
 * Notifications have their own tag for each network and direction on a comm. The order is: each
 * rank's block, the answer of each pair, what is pushed where, which slots were taken, and at the
 * end that a rank has closed everything that it had opened.
 */
#include "engine/run/device_peers_private.h"

#include "base/host.h"

#include <stdio.h>
#include <string.h>

enum { CLOSED = -1, MAX_SLOTS = 1024 };

/* A block of this rank's memory that other ranks may map. */
struct block {
    void *memory;
    size_t n_bytes;
    struct hrf_device_handle handle;
};

struct slot { /* a place for one part in the sender's memory */
    int32_t block;
    size_t offset;
    void *ready;
    struct hrf_device_handle ready_handle;
    void *taken; /* a signal of the receiver; NULL: not received yet */
    bool is_full;
};

struct seen { /* a slot as its receiver knows it */
    char *at;
    void *ready; /* the sender's signal, mapped here */
    void *taken;
    struct hrf_device_handle taken_handle;
};

/* All messages of one tag between this rank and another, in one direction. */
struct lane {
    struct slot *slots;
    struct seen *seen;
    int32_t n_slots, n_seen;
};

struct neighbour {
    bool is_reached, is_same_node;
    bool is_pushed;  /* its messages need no notifications */
    bool has_closed; /* it has unmapped everything, perhaps long before this rank does */
    char address[32];
    void **blocks; /* [n_blocks] mapped; NULL: not yet */
    int32_t n_blocks;
};

struct hrf_shared {
    struct hrf_shared_config config;
    int32_t n_ranks, me;
    bool is_interprocess, is_ending;
    struct block *blocks;
    int32_t n_blocks;
    int64_t n_bytes;
    struct lane *lanes;           /* [tags][ranks] */
    struct neighbour *neighbours; /* [ranks] */
    struct hrf_push *push;        /* NULL: this rank pushes to nobody */
    char why_no_push[300];
};

/* ---- notifications ---- */

struct greeting {
    char host[64], address[32];
    struct hrf_device_handle block;
    bool has_block, may_push;
    char why[160]; /* why this rank pushes to nobody; "" if it may */
};

struct verdict {
    bool is_reached, may_push;
    char why[400];
};

struct full_notice {
    int32_t slot, block;
    uint64_t offset;
    struct hrf_device_handle memory, ready;
};

struct taken_notice {
    int32_t tag, slot; /* message of tag CLOSED: the peer sends no more and has nothing mapped */
    struct hrf_device_handle taken;
};

/* ---- slots of a sender ---- */

static struct lane *lane_of(struct hrf_shared *s, int32_t tag, int32_t peer)
{
    return &s->lanes[tag * s->n_ranks + peer];
}

static enum hrf_status add_block(struct hrf_shared *s, size_t n_bytes, struct hrf_error *err)
{
    const struct hrf_shared_config *c = &s->config;
    struct block *blocks = hrf_realloc_array(s->blocks, (size_t)s->n_blocks + 1, sizeof *blocks);
    s->blocks = blocks;
    struct block *b = &blocks[s->n_blocks];
    *b = (struct block){ .n_bytes = n_bytes };
    HRF_TRY(c->ops->allocate(c->backend, n_bytes, &b->memory, err));
    s->n_blocks++;
    s->n_bytes += (int64_t)n_bytes;
    return c->ops->peers->share(c->backend, b->memory, s->is_interprocess, &b->handle, err);
}

static enum hrf_status add_slot(struct hrf_shared *s, struct lane *lane, int32_t block,
                                size_t offset, struct hrf_error *err)
{
    const struct hrf_shared_config *c = &s->config;
    struct slot *slots = hrf_realloc_array(lane->slots, (size_t)lane->n_slots + 1, sizeof *slots);
    lane->slots = slots;
    slots[lane->n_slots] = (struct slot){ .block = block, .offset = offset };
    HRF_TRY(c->ops->peers->signal_create(c->backend, s->is_interprocess,
                                         &slots[lane->n_slots].ready,
                                         &slots[lane->n_slots].ready_handle, err));
    lane->n_slots++;
    return HRF_OK;
}

/* The bytes of the part that a notification announces. */
static int64_t announced_bytes(const struct hrf_shared *s, const struct hrf_transfer *t)
{
    const bool is_it = t->kind == HRF_TRANSFER_SEND && s->neighbours[t->peer].is_reached &&
                       !s->neighbours[t->peer].is_pushed;
    return is_it ? hrf_area_bytes(&t->from) : 0;
}

/* One slot for each lane that this rank sends on with notifications, in one block. */
static enum hrf_status add_first_slots(struct hrf_shared *s, struct hrf_error *err)
{
    const struct hrf_plan *plan = s->config.peers->plan;
    size_t at = 0, all = 0;
    for (int32_t i = 0; i < plan->n_transfers; i++)
        all += hrf_part_room(announced_bytes(s, &plan->transfers[i]));
    if (all == 0)
        return HRF_OK;
    HRF_TRY(add_block(s, all, err));
    for (int32_t i = 0; i < plan->n_transfers; i++) {
        const struct hrf_transfer *t = &plan->transfers[i];
        if (announced_bytes(s, t) == 0)
            continue;
        HRF_TRY(add_slot(s, lane_of(s, t->tag, t->peer), s->n_blocks - 1, at, err));
        at += hrf_part_room(hrf_area_bytes(&t->from));
    }
    return HRF_OK;
}

static enum hrf_status hear_taken(struct hrf_shared *s, int32_t peer, struct hrf_error *err)
{
    const struct hrf_shared_config *c = &s->config;
    struct taken_notice notice;
    HRF_TRY(hrf_device_receive_message(s->config.peers, peer, &notice, sizeof notice, err));
    if (notice.tag == CLOSED) {
        s->neighbours[peer].has_closed = true;
        return HRF_OK;
    }
    if (notice.tag < 0 || notice.tag >= c->peers->plan->n_tags || notice.slot < 0 ||
        notice.slot >= lane_of(s, notice.tag, peer)->n_slots)
        return hrf_error_set(err, HRF_E_BUG, "rank %d took slot %d of tag %d, which there is not",
                             peer, notice.slot, notice.tag);
    struct slot *slot = &lane_of(s, notice.tag, peer)->slots[notice.slot];
    if (slot->taken == NULL && !s->is_ending)
        HRF_TRY(c->ops->peers->signal_open(c->backend, &notice.taken, s->is_interprocess,
                                           &slot->taken, err));
    slot->is_full = false;
    return HRF_OK;
}

/* The state of each rank of this partition so far. */
static enum hrf_status receive_notices(struct hrf_shared *s, struct hrf_error *err)
{
    const struct hrf_peers *peers = s->config.peers;
    int32_t from;
    while ((from = peers->comm->ops->waiting(peers->comm, hrf_device_control_tag(peers))) >= 0) {
        int32_t peer = 0;
        while (peer < s->n_ranks && hrf_peers_comm_rank(peers, peer) != from)
            peer++;
        if (peer == s->n_ranks)
            return hrf_error_set(err, HRF_E_BUG, "rank %d, of another group, took a part", from);
        HRF_TRY(hear_taken(s, peer, err));
    }
    return HRF_OK;
}

static int32_t find_empty(const struct lane *lane)
{
    for (int32_t i = 0; i < lane->n_slots; i++)
        if (!lane->slots[i].is_full)
            return i;
    return -1;
}

static enum hrf_status take_slot(struct hrf_shared *s, struct lane *lane, int64_t n_bytes,
                                 int32_t *out, struct hrf_error *err)
{
    int32_t i = find_empty(lane);
    if (i < 0) {
        HRF_TRY(receive_notices(s, err));
        i = find_empty(lane);
    }
    if (i < 0 && lane->n_slots == MAX_SLOTS)
        return hrf_error_set(err, HRF_E_BUG, "%d parts of one kind that nobody takes", MAX_SLOTS);
    if (i < 0) {
        HRF_TRY(add_block(s, hrf_part_room(n_bytes), err));
        HRF_TRY(add_slot(s, lane, s->n_blocks - 1, 0, err));
        i = lane->n_slots - 1;
    }
    *out = i;
    return HRF_OK;
}

enum hrf_status hrf_shared_send(struct hrf_shared *s, const struct hrf_device_part *part,
                                struct hrf_error *err)
{
    const struct hrf_shared_config *c = &s->config;
    struct lane *lane = lane_of(s, part->tag, part->peer);
    const int64_t n_bytes = hrf_area_bytes(&part->area);
    int32_t i = 0;
    if (s->neighbours[part->peer].is_pushed)
        return hrf_push_send(s->push, part, err);
    HRF_TRY(take_slot(s, lane, n_bytes, &i, err));
    struct slot *slot = &lane->slots[i];
    const struct block *block = &s->blocks[slot->block];
    const struct hrf_area packed = hrf_area_packed(&part->area);
    if (slot->taken != NULL)
        HRF_TRY(c->ops->peers->signal_wait(c->backend, slot->taken, err));
    HRF_TRY(hrf_device_copy(c->ops, c->backend, (char *)block->memory + slot->offset, &packed,
                            part->at, &part->area, err));
    HRF_TRY(c->ops->peers->signal_set(c->backend, slot->ready, err));
    slot->is_full = true;
    const struct full_notice notice = { .slot = i,
                                        .block = slot->block,
                                        .offset = slot->offset,
                                        .memory = block->handle,
                                        .ready = slot->ready_handle };
    HRF_TRY(hrf_peers_send(s->config.peers, part->peer, part->tag, &notice, sizeof notice, err));
    struct hrf_comm *comm = c->peers->comm;
    const int64_t beyond = n_bytes - (int64_t)sizeof notice;
    comm->sent_bytes += beyond; /* only data is counted, not notifications */
    comm->counts[comm->use].bytes += beyond;
    return HRF_OK;
}

/* ---- slots of a receiver ---- */

static enum hrf_status open_block(struct hrf_shared *s, int32_t peer, int32_t block,
                                  const struct hrf_device_handle *handle, void **out,
                                  struct hrf_error *err)
{
    const struct hrf_shared_config *c = &s->config;
    struct neighbour *n = &s->neighbours[peer];
    if (block >= n->n_blocks) {
        n->blocks = hrf_realloc_array(n->blocks, (size_t)block + 1, sizeof *n->blocks);
        for (; n->n_blocks <= block; n->n_blocks++)
            n->blocks[n->n_blocks] = NULL;
    }
    if (n->blocks[block] == NULL)
        HRF_TRY(c->ops->peers->open(c->backend, handle, n->address, s->is_interprocess,
                                    &n->blocks[block], err));
    *out = n->blocks[block];
    return HRF_OK;
}

/* The slot that a notification names; it is mapped at its first use. */
static enum hrf_status see(struct hrf_shared *s, const struct hrf_device_part *part,
                           const struct full_notice *notice, struct seen **out,
                           struct hrf_error *err)
{
    const struct hrf_shared_config *c = &s->config;
    struct lane *lane = lane_of(s, part->tag, part->peer);
    void *block = NULL;
    if (notice->slot < 0 || notice->slot > lane->n_seen || notice->slot >= MAX_SLOTS ||
        notice->block < 0)
        return hrf_error_set(err, HRF_E_BUG, "rank %d filled slot %d after %d of them", part->peer,
                             notice->slot, lane->n_seen);
    if (notice->slot == lane->n_seen) {
        struct seen *seen = hrf_realloc_array(lane->seen, (size_t)lane->n_seen + 1, sizeof *seen);
        lane->seen = seen;
        struct seen *fresh = &seen[lane->n_seen++];
        *fresh = (struct seen){ .at = NULL };
        HRF_TRY(open_block(s, part->peer, notice->block, &notice->memory, &block, err));
        HRF_TRY(c->ops->peers->signal_open(c->backend, &notice->ready, s->is_interprocess,
                                           &fresh->ready, err));
        HRF_TRY(c->ops->peers->signal_create(c->backend, s->is_interprocess, &fresh->taken,
                                             &fresh->taken_handle, err));
        fresh->at = (char *)block + notice->offset;
    }
    *out = &lane->seen[notice->slot];
    return HRF_OK;
}

enum hrf_status hrf_shared_receive(struct hrf_shared *s, const struct hrf_device_part *part,
                                   struct hrf_error *err)
{
    const struct hrf_shared_config *c = &s->config;
    struct full_notice notice;
    struct seen *seen = NULL;
    if (s->neighbours[part->peer].is_pushed)
        return hrf_push_receive(s->push, part, err);
    HRF_TRY(hrf_peers_receive(s->config.peers, part->peer, part->tag, &notice, sizeof notice, err));
    HRF_TRY(see(s, part, &notice, &seen, err));
    const struct hrf_area packed = hrf_area_packed(&part->area);
    HRF_TRY(c->ops->peers->signal_wait(c->backend, seen->ready, err));
    HRF_TRY(hrf_device_copy(c->ops, c->backend, part->at, &part->area, seen->at, &packed, err));
    HRF_TRY(c->ops->peers->signal_set(c->backend, seen->taken, err));
    const struct taken_notice taken = { part->tag, notice.slot, seen->taken_handle };
    return hrf_device_send_message(s->config.peers, part->peer, &taken, sizeof taken, err);
}

/* ---- who reaches whom ---- */

static void keep_reason(char *to, size_t size, const struct hrf_error *why)
{
    snprintf(to, size, "%.*s", (int)size - 1, why->text);
}

static void greet(struct hrf_shared *s, struct greeting *greeting)
{
    const struct hrf_shared_config *c = &s->config;
    struct hrf_error why = { .text = "" };
    *greeting = (struct greeting){ .has_block = false };
    hrf_process_host_name(greeting->host, sizeof greeting->host);
    snprintf(greeting->address, sizeof greeting->address, "%s", c->ops->address(c->backend));
    if (!c->is_wanted)
        return;
    /* Flags for the trial: one of this rank, and one that each other rank sets. */
    const int64_t n_flags = 1 + s->n_ranks;
    greeting->has_block = add_block(s, hrf_part_room(n_flags * (int64_t)sizeof(uint32_t)), &why) ==
                          HRF_OK;
    if (!greeting->has_block) {
        keep_reason(greeting->why, sizeof greeting->why, &why);
        return;
    }
    greeting->block = s->blocks[0].handle;
    if (!c->may_push)
        return;
    greeting->may_push = c->ops->peers->try_flags(c->backend, s->blocks[0].memory, &why) == HRF_OK;
    if (!greeting->may_push)
        keep_reason(s->why_no_push, sizeof s->why_no_push, &why);
}

/* Streams of one process that share a GPU may be served in one line: one that waits for a flag
 * would then block the one that is to set it. */
static bool may_push(struct hrf_shared *s, const struct greeting *own, const struct greeting *other,
                     void *block)
{
    const struct hrf_shared_config *c = &s->config;
    struct hrf_error why = { .text = "" };
    if (block == NULL || !own->may_push || !other->may_push ||
        (!s->is_interprocess && strcmp(own->address, other->address) == 0))
        return false;
    uint32_t *flag = (uint32_t *)block + 1 + s->me;
    const bool is_set = c->ops->peers->flags_write(c->backend, flag, 1, 1, &why) == HRF_OK;
    if (!is_set)
        keep_reason(s->why_no_push, sizeof s->why_no_push, &why);
    return is_set;
}

static struct verdict judge(struct hrf_shared *s, int32_t peer, const struct greeting *own,
                            const struct greeting *other)
{
    struct verdict v = { .is_reached = false };
    struct hrf_error why = { .text = "" };
    void *block = NULL;
    if (!s->config.is_wanted)
        return v;
    if (strcmp(own->host, other->host) != 0)
        snprintf(v.why, sizeof v.why, "they stand on two nodes, %s and %s", own->host, other->host);
    else if (!own->has_block || !other->has_block)
        snprintf(v.why, sizeof v.why, "%s", own->has_block ? other->why : own->why);
    else if (open_block(s, peer, 0, &other->block, &block, &why) != HRF_OK)
        keep_reason(v.why, sizeof v.why, &why);
    v.is_reached = block != NULL;
    v.may_push = may_push(s, own, other, block);
    return v;
}

static bool is_needed(struct hrf_shared *s, int32_t peer)
{
    const struct hrf_plan *plan = s->config.peers->plan;
    for (int32_t i = 0; i < plan->n_transfers; i++)
        if (plan->transfers[i].kind == HRF_TRANSFER_SEND && plan->transfers[i].peer == peer)
            return true;
    return false;
}

static enum hrf_status hear_verdict(struct hrf_shared *s, int32_t peer, const struct verdict *own,
                                    struct hrf_error *err)
{
    struct verdict other;
    HRF_TRY(hrf_device_receive_message(s->config.peers, peer, &other, sizeof other, err));
    s->neighbours[peer].is_reached = own->is_reached && other.is_reached;
    s->neighbours[peer].is_pushed = own->may_push && other.may_push;
    if (s->neighbours[peer].is_reached || !s->config.is_required || !is_needed(s, peer))
        return HRF_OK;
    return hrf_error_set(err, HRF_E_UNSUPPORTED,
                         "--comm ipc cannot carry messages of rank %d to rank %d: %s; use --comm "
                         "mpi, or auto",
                         s->me, peer, own->is_reached ? other.why : own->why);
}

/* Sends each rank's block to all others, then whether mapping it worked. All sends come before the
 * first wait. */
static enum hrf_status meet(struct hrf_shared *s, struct hrf_error *err)
{
    struct greeting own, other;
    HRF_AUTO_FREE struct verdict *verdicts = hrf_calloc((size_t)s->n_ranks, sizeof *verdicts);
    greet(s, &own);
    for (int32_t q = 0; q < s->n_ranks; q++)
        if (q != s->me)
            HRF_TRY(hrf_device_send_message(s->config.peers, q, &own, sizeof own, err));
    for (int32_t q = 0; q < s->n_ranks; q++) {
        if (q == s->me)
            continue;
        HRF_TRY(hrf_device_receive_message(s->config.peers, q, &other, sizeof other, err));
        memcpy(s->neighbours[q].address, other.address, sizeof other.address);
        s->neighbours[q].is_same_node = strcmp(own.host, other.host) == 0;
        verdicts[q] = judge(s, q, &own, &other);
    }
    for (int32_t q = 0; q < s->n_ranks; q++)
        if (q != s->me)
            HRF_TRY(
                hrf_device_send_message(s->config.peers, q, &verdicts[q], sizeof verdicts[q], err));
    for (int32_t q = 0; q < s->n_ranks; q++)
        if (q != s->me)
            HRF_TRY(hear_verdict(s, q, &verdicts[q], err));
    return HRF_OK;
}

static enum hrf_status make_push(struct hrf_shared *s, struct hrf_error *err)
{
    const struct hrf_shared_config *c = &s->config;
    const size_t n = (size_t)s->n_ranks;
    HRF_AUTO_FREE bool *is_pushed = hrf_calloc(n, sizeof *is_pushed);
    HRF_AUTO_FREE const char **addresses = hrf_calloc(n, sizeof *addresses);
    bool is_any = false;
    for (int32_t q = 0; q < s->n_ranks; q++) {
        is_pushed[q] = s->neighbours[q].is_pushed;
        addresses[q] = s->neighbours[q].address;
        is_any |= is_pushed[q];
    }
    const struct hrf_push_config config = { .peers = c->peers,
                                            .ops = c->ops,
                                            .backend = c->backend,
                                            .is_interprocess = s->is_interprocess,
                                            .is_pushed = is_pushed,
                                            .addresses = addresses };
    return is_any ? hrf_push_create(&config, &s->push, err) : HRF_OK;
}

static enum hrf_status build(struct hrf_shared *s, struct hrf_error *err)
{
    s->lanes = hrf_calloc((size_t)s->config.peers->plan->n_tags * (size_t)s->n_ranks + 1,
                          sizeof *s->lanes);
    s->neighbours = hrf_calloc((size_t)s->n_ranks, sizeof *s->neighbours);
    if (s->n_ranks > 1) {
        HRF_TRY(meet(s, err));
        HRF_TRY(make_push(s, err));
    }
    return add_first_slots(s, err);
}

enum hrf_status hrf_shared_create(const struct hrf_shared_config *config, struct hrf_shared **out,
                                  struct hrf_error *err)
{
    struct hrf_shared *s = hrf_calloc(1, sizeof *s);
    s->config = *config;
    s->n_ranks = config->peers->partition->n_ranks;
    s->me = config->peers->rank;
    s->is_interprocess = !config->peers->comm->is_one_process;
    const enum hrf_status status = build(s, err);
    if (status != HRF_OK) {
        hrf_shared_destroy(s, false);
        return status;
    }
    *out = s;
    return HRF_OK;
}

/* ---- the end ---- */

/* Unmaps the memory of other ranks. */
static void close_all(struct hrf_shared *s)
{
    const struct hrf_shared_config *c = &s->config;
    s->is_ending = true;
    hrf_push_close(s->push);
    for (int32_t q = 0; s->neighbours != NULL && q < s->n_ranks; q++)
        for (int32_t i = 0; i < s->neighbours[q].n_blocks; i++)
            c->ops->peers->close(c->backend, s->neighbours[q].blocks[i], s->is_interprocess);
    for (int32_t i = 0;
         s->lanes != NULL && s->is_interprocess && i < c->peers->plan->n_tags * s->n_ranks; i++) {
        for (int32_t k = 0; k < s->lanes[i].n_seen; k++)
            c->ops->peers->signal_destroy(c->backend, s->lanes[i].seen[k].ready);
        for (int32_t k = 0; k < s->lanes[i].n_slots; k++)
            c->ops->peers->signal_destroy(c->backend, s->lanes[i].slots[k].taken);
    }
}

/* Releases this rank's own blocks and signals. */
static void release_own(struct hrf_shared *s)
{
    const struct hrf_shared_config *c = &s->config;
    for (int32_t i = 0; s->lanes != NULL && i < c->peers->plan->n_tags * s->n_ranks; i++) {
        struct lane *lane = &s->lanes[i];
        for (int32_t k = 0; k < lane->n_slots; k++)
            c->ops->peers->signal_destroy(c->backend, lane->slots[k].ready);
        for (int32_t k = 0; k < lane->n_seen; k++)
            c->ops->peers->signal_destroy(c->backend, lane->seen[k].taken);
        hrf_free(lane->slots);
        hrf_free(lane->seen);
        *lane = (struct lane){ .n_slots = 0 };
    }
    hrf_push_destroy(s->push);
    for (int32_t i = 0; i < s->n_blocks; i++)
        c->ops->release(c->backend, s->blocks[i].memory);
    s->n_blocks = 0;
    s->n_bytes = 0;
}

/* Receives every notification up to the last one of each connected rank. */
static void disconnect_all(struct hrf_shared *s)
{
    const struct taken_notice last = { .tag = CLOSED };
    for (int32_t q = 0; q < s->n_ranks; q++)
        if (s->neighbours[q].is_reached &&
            hrf_device_send_message(s->config.peers, q, &last, sizeof last, NULL) != HRF_OK)
            return;
    for (int32_t q = 0; q < s->n_ranks; q++)
        while (s->neighbours[q].is_reached && !s->neighbours[q].has_closed)
            if (hear_taken(s, q, NULL) != HRF_OK)
                return; /* the ranks were stopped */
}

void hrf_shared_destroy(struct hrf_shared *s, bool together)
{
    if (s == NULL)
        return;
    close_all(s);
    if (together)
        disconnect_all(s);
    release_own(s);
    for (int32_t q = 0; s->neighbours != NULL && q < s->n_ranks; q++)
        hrf_free(s->neighbours[q].blocks);
    hrf_free(s->blocks);
    hrf_free(s->lanes);
    hrf_free(s->neighbours);
    hrf_free(s);
}

bool hrf_shared_reaches(const struct hrf_shared *s, int32_t rank)
{
    return s != NULL && s->neighbours[rank].is_reached;
}

bool hrf_shared_is_same_node(const struct hrf_shared *s, int32_t rank)
{
    return s->neighbours[rank].is_same_node;
}

int64_t hrf_shared_bytes(const struct hrf_shared *s)
{
    return s != NULL ? s->n_bytes + hrf_push_bytes(s->push) : 0;
}

bool hrf_shared_pushes(const struct hrf_shared *s, int32_t rank)
{
    return s->neighbours[rank].is_pushed;
}

void hrf_shared_let_go(struct hrf_shared *s)
{
    if (s != NULL && s->push != NULL)
        hrf_push_release(s->push);
}

const char *hrf_shared_why_no_push(const struct hrf_shared *s)
{
    return s->why_no_push;
}
