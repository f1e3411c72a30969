/* device_peers_make.c - creates and destroys a rank's communication between devices: chooses the
 * way of each message and allocates buffers. */
#include "engine/run/device_peers.h"

#include "engine/ir/number.h"
#include "engine/run/device_peers_private.h"

#include <stdio.h>
#include <string.h>

/* Bytes that transfer i sends or receives; 0: it is neither. */
static int64_t message_bytes(const struct hrf_plan *plan, int32_t i, bool is_out)
{
    const struct hrf_transfer *t = &plan->transfers[i];
    const bool is_it = t->kind == (is_out ? HRF_TRANSFER_SEND : HRF_TRANSFER_RECEIVE);
    return is_it ? hrf_area_bytes(is_out ? &t->from : &t->to) : 0;
}

/* Memory for the parts of the largest step that uses this transport. */
static size_t room_for(const struct hrf_device_peers *d, enum hrf_device_way way, bool is_out)
{
    const struct hrf_plan *plan = d->peers->plan;
    size_t most = 0;
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const struct hrf_step *step = &plan->steps[s];
        size_t sum = 0;
        for (int32_t i = step->first_transfer; i < step->first_transfer + step->n_transfers; i++) {
            const int64_t n = message_bytes(plan, i, is_out);
            if (n > 0 && hrf_device_way_of(d, plan->transfers[i].peer, n) == way)
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
    s->n_bytes = room_for(d, WAY_HOST, is_out);
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

/* For NCCL: the ranks that this one communicates with, and memory for the parts of its largest
 * exchange. */
static void measure_nccl(struct hrf_device_peers *d, bool *sends_to, bool *receives_from,
                         struct hrf_device_nccl_config *config)
{
    const struct hrf_plan *plan = d->peers->plan;
    d->only_nccl = true;
    for (int32_t i = 0; i < 2 * plan->n_transfers; i++) {
        const bool is_out = i % 2 == 0;
        const int64_t n = message_bytes(plan, i / 2, is_out);
        const int32_t q = plan->transfers[i / 2].peer;
        const bool is_nccl = n > 0 && hrf_device_way_of(d, q, n) == WAY_NCCL;
        d->only_nccl &= is_nccl || n == 0;
        *(is_out ? &sends_to[q] : &receives_from[q]) |= is_nccl;
    }
    config->out_bytes = room_for(d, WAY_NCCL, true);
    config->in_bytes = room_for(d, WAY_NCCL, false);
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
        /* Two mirrored pipelines would wait in a circle; a
         * failed NCCL is aborted in another way. */
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

/* True for no message at all. */
static bool is_all_pushed(const struct hrf_device_peers *d, bool *is_any)
{
    const struct hrf_plan *plan = d->peers->plan;
    bool is_all = true;
    for (int32_t i = 0; i < 2 * plan->n_transfers; i++) {
        const int64_t n = message_bytes(plan, i / 2, i % 2 == 0);
        const int32_t q = plan->transfers[i / 2].peer;
        const bool is_pushed = n > 0 && hrf_device_way_of(d, q, n) == WAY_SHARED &&
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
    HRF_CHECK_MEMORY(sends_to != NULL, err, "no memory for messages of %zu ranks", n);
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
    HRF_AUTO_FREE struct hrf_machine *told = hrf_calloc(1, sizeof *told);
    HRF_CHECK_MEMORY(told != NULL, err, "no memory for links between GPUs");
    for (int32_t i = 0; links != NULL && i < links->n_links; i++)
        if (links->links[i].is_gpus)
            told->links[told->n_links++] = links->links[i];
    for (int32_t q = 1; q < peers->partition->n_ranks && peers->rank == 0; q++)
        HRF_TRY(hrf_device_send_message(peers, q, told, sizeof *told, err));
    if (peers->rank != 0)
        HRF_TRY(hrf_device_receive_word(peers, 0, told, sizeof *told, err));
    if (told->n_links == 0)
        return HRF_OK;
    HRF_MOVE(d->links, told);
    return HRF_OK;
}

static const char *name_transports(const struct hrf_device_peers *d)
{
    enum { HOST = 1 << WAY_HOST, SHARED = 1 << WAY_SHARED, NCCL = 1 << WAY_NCCL };
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
            used |= 1U << hrf_device_way_of(d, plan->transfers[i / 2].peer, n);
    }
    return names[used][d->peers->comm->is_one_process];
}

static enum hrf_status build(struct hrf_device_peers *d, const struct hrf_machine *links,
                             struct hrf_error *err)
{
    const size_t n = (size_t)d->peers->partition->n_ranks;
    d->sent = hrf_calloc(4 * n, sizeof *d->sent);
    HRF_CHECK_MEMORY(d->sent != NULL, err, "no memory for messages of %zu ranks", n);
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
    HRF_CHECK_MEMORY(d != NULL, err, "no memory for the messages of a rank");
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
    /* Those who wait for this rank must not believe what it sends from now on. */
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
    static const char *const names[] = { [WAY_SHARED] = "ipc", [WAY_NCCL] = "nccl" };
    const enum hrf_device_way way = hrf_device_way_of(d, rank, n_bytes);
    return way == WAY_HOST ? d->peers->comm->ops->name : names[way];
}

const char *hrf_device_peers_transports(const struct hrf_device_peers *d)
{
    return d->transports;
}

const char *hrf_device_peers_notes(const struct hrf_device_peers *d)
{
    return d->notes;
}
