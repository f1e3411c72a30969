/* device_nccl.c - parts of tensors carried by NCCL, between GPUs of one node or of several.
 *
 * All messages of a rank in one exchange form one group, queued on a second stream next to the
 * kernels. A group completes when the other ranks have reached theirs. All ranks reach exchanges in
 * the same order (that of the network, micro-batch by micro-batch), so there is no deadlock. Two
 * mirrored pipelines have no such order and are refused.
 *
 * Before NCCL connects the ranks they exchange what they have, so that whatever NCCL would refuse,
 * or wait for without a limit, becomes an error text that is the same on all ranks.
 */
#include "engine/run/device_peers_private.h"

#include "base/clock.h"
#include "base/host.h"
#include "base/module.h"
#include "engine/comm/nccl/nccl.h"
#include "module_builds.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct staging {
    char *memory;
    size_t n_bytes;
};

struct hrf_device_nccl {
    struct hrf_device_nccl_config config;
    const struct hrf_nccl_module *module;
    struct hrf_nccl *nccl;
    struct staging out, in;
};

/* ---- who they are ---- */

struct greeting {
    char host[64], address[32];
    struct hrf_nccl_id id; /* rank 0's */
    int version;           /* NCCL's version; 0: this rank cannot use it */
    char why[300];
};

static enum hrf_status greet(struct hrf_device_nccl *n, struct greeting *own, struct hrf_error *err)
{
    const struct hrf_device_nccl_config *c = &n->config;
    const void *operations = NULL;
    int header;
    hrf_process_host_name(own->host, sizeof own->host);
    snprintf(own->address, sizeof own->address, "%s", c->ops->address(c->backend));
    if (c->peers->partition->layout.bidirectional)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "two mirrored pipelines (bidirectional) send to each other while "
                             "NCCL's messages wait for their receivers");
    HRF_TRY(hrf_module_load("nccl", HRF_BUILD_NCCL, &operations, err));
    n->module = operations;
    HRF_TRY(n->module->versions(&header, &own->version, err));
    return c->peers->rank == 0 ? n->module->make_id(&own->id, err) : HRF_OK;
}

/* Finds the same answer on all ranks: "" if NCCL can be used, else the reason why not. */
static void judge(const struct greeting *all, int32_t n_ranks, char *why, size_t size)
{
    *why = '\0';
    for (int32_t b = 0; b < n_ranks && *why == '\0'; b++) {
        if (all[b].version == 0)
            snprintf(why, size, "rank %d on %s: %s", b, all[b].host, all[b].why);
        else if (all[b].version != all[0].version)
            snprintf(why, size, "rank 0 on %s has NCCL %d, rank %d on %s has %d", all[0].host,
                     all[0].version, b, all[b].host, all[b].version);
        for (int32_t a = 0; a < b && *why == '\0'; a++)
            if (strcmp(all[a].host, all[b].host) == 0 &&
                strcmp(all[a].address, all[b].address) == 0)
                snprintf(why, size,
                         "ranks %d and %d share the GPU %s of %s, which NCCL refuses: it takes one "
                         "rank a GPU",
                         a, b, all[a].address, all[a].host);
    }
}

static enum hrf_status meet(struct hrf_device_nccl *n, struct greeting *all, struct hrf_error *err)
{
    const struct hrf_device_nccl_config *c = &n->config;
    const int32_t me = c->peers->rank, n_ranks = c->peers->partition->n_ranks;
    struct hrf_error why = { .text = "" };
    if (greet(n, &all[me], &why) != HRF_OK) {
        all[me].version = 0;
        snprintf(all[me].why, sizeof all[me].why, "%.*s", (int)sizeof all[me].why - 1, why.text);
    }
    for (int32_t q = 0; q < n_ranks; q++)
        if (q != me)
            HRF_TRY(hrf_device_send_message(c->peers, q, &all[me], sizeof all[me], err));
    for (int32_t q = 0; q < n_ranks; q++)
        if (q != me)
            HRF_TRY(hrf_device_receive_message(c->peers, q, &all[q], sizeof all[q], err));
    return HRF_OK;
}

/* ---- a watchdog for NCCL calls, which have no time limit of their own ---- */

struct patience {
    struct hrf_comm *comm;
    pthread_t thread;
    atomic_bool is_over;
    bool is_watched;
};

static void *watch(void *context)
{
    struct patience *p = context;
    const int64_t deadline = hrf_clock_ns() + p->comm->deadline_ms * 1000000;
    while (!atomic_load(&p->is_over)) {
        if (hrf_clock_ns() > deadline) {
            char why[200];
            snprintf(why, sizeof why,
                     "NCCL did not bring the ranks together within %lld s (NCCL_DEBUG=INFO says "
                     "what it waits for)",
                     (long long)p->comm->deadline_ms / 1000);
            p->comm->ops->abort(p->comm,
                                why); /* with ranks that are processes this does not return */
            return NULL;
        }
        atomic_fetch_add(&p->comm->steps, 1);
        hrf_clock_sleep_ms(5);
    }
    return NULL;
}

static void patience_begin(struct patience *p, struct hrf_comm *comm)
{
    *p = (struct patience){ .comm = comm };
    p->is_watched = pthread_create(&p->thread, NULL, watch, p) == 0;
}

static void patience_end(struct patience *p)
{
    atomic_store(&p->is_over, true);
    if (p->is_watched)
        pthread_join(p->thread, NULL);
}

/* ---- groups ---- */

/* True if the part is sent from or received into the tensor itself, false if through a packed
 * copy. */
static bool is_direct(const struct hrf_device_part *part, bool packs_all)
{
    return !packs_all && hrf_area_is_packed(&part->area);
}

static enum hrf_status pack(struct hrf_device_nccl *n, const struct hrf_device_nccl_group *g,
                            bool *has_packed, struct hrf_error *err)
{
    const struct hrf_device_nccl_config *c = &n->config;
    size_t at = 0;
    *has_packed = false;
    for (int32_t i = 0; i < g->n_sent; i++) {
        const struct hrf_device_part *part = &g->sent[i];
        if (is_direct(part, g->packs_all))
            continue;
        const struct hrf_area packed = hrf_area_packed(&part->area);
        HRF_TRY(hrf_device_copy(c->ops, c->backend, n->out.memory + at, &packed, part->at,
                                &part->area, err));
        at += hrf_part_room(hrf_area_bytes(&packed));
        *has_packed = true;
    }
    return HRF_OK;
}

static enum hrf_status transfer(struct hrf_device_nccl *n, const struct hrf_device_nccl_group *g,
                                struct hrf_error *err)
{
    const struct hrf_nccl_module *m = n->module;
    void *queue = n->config.ops->peers->queue(n->config.backend);
    size_t out = 0, in = 0;
    for (int32_t i = 0; i < g->n_sent; i++) {
        const struct hrf_device_part *part = &g->sent[i];
        const bool direct = is_direct(part, g->packs_all);
        const int64_t n_bytes = hrf_area_bytes(&part->area);
        HRF_TRY(m->send(n->nccl, part->peer, direct ? part->at : n->out.memory + out,
                        (size_t)n_bytes, queue, err));
        out += direct ? 0 : hrf_part_room(n_bytes);
    }
    for (int32_t i = 0; i < g->n_received; i++) {
        const struct hrf_device_part *part = &g->received[i];
        const bool direct = is_direct(part, false);
        const int64_t n_bytes = hrf_area_bytes(&part->area);
        HRF_TRY(m->receive(n->nccl, part->peer, direct ? part->at : n->in.memory + in,
                           (size_t)n_bytes, queue, err));
        in += direct ? 0 : hrf_part_room(n_bytes);
    }
    return HRF_OK;
}

static enum hrf_status unpack(struct hrf_device_nccl *n, const struct hrf_device_nccl_group *g,
                              struct hrf_error *err)
{
    const struct hrf_device_nccl_config *c = &n->config;
    size_t at = 0;
    for (int32_t i = 0; i < g->n_received; i++) {
        const struct hrf_device_part *part = &g->received[i];
        if (is_direct(part, false))
            continue;
        const struct hrf_area packed = hrf_area_packed(&part->area);
        HRF_TRY(hrf_device_copy(c->ops, c->backend, part->at, &part->area, n->in.memory + at,
                                &packed, err));
        at += hrf_part_room(hrf_area_bytes(&packed));
    }
    return HRF_OK;
}

/* A group that was started must be ended even after an error. */
static enum hrf_status play(struct hrf_device_nccl *n, const struct hrf_device_nccl_group *g,
                            struct hrf_error *err)
{
    HRF_TRY(n->module->begin(n->nccl, err));
    const enum hrf_status status = transfer(n, g, err);
    const enum hrf_status ended = n->module->end(n->nccl, status == HRF_OK ? err : NULL);
    HRF_TRY(status);
    return ended;
}

static enum hrf_status exchange(struct hrf_device_nccl *n, const struct hrf_device_nccl_group *g,
                                struct hrf_error *err)
{
    const struct hrf_device_nccl_config *c = &n->config;
    bool has_packed = false;
    c->ops->peers->select_queue(c->backend, HRF_QUEUE_PEERS);
    HRF_TRY(c->ops->peers->follow(c->backend, err));
    HRF_TRY(pack(n, g, &has_packed, err));
    if (has_packed && g->packs_all) { /* The tensor may be overwritten once it is packed. */
        c->ops->peers->select_queue(c->backend, HRF_QUEUE_KERNELS);
        HRF_TRY(c->ops->peers->follow(c->backend, err));
        c->ops->peers->select_queue(c->backend, HRF_QUEUE_PEERS);
    }
    HRF_TRY(play(n, g, err));
    return unpack(n, g, err);
}

enum hrf_status hrf_device_nccl_exchange(struct hrf_device_nccl *n,
                                         const struct hrf_device_nccl_group *group,
                                         struct hrf_error *err)
{
    const enum hrf_status status = exchange(n, group, err);
    n->config.ops->peers->select_queue(n->config.backend, HRF_QUEUE_KERNELS);
    return status;
}

void hrf_device_nccl_abort(struct hrf_device_nccl *n)
{
    n->module->abort(n->nccl);
}

/* ---- making one ---- */

/* NCCL connects a pair at its first message. That is done here, so that it disturbs no measurement.
 */
static enum hrf_status warm_up(struct hrf_device_nccl *n, struct hrf_error *err)
{
    const struct hrf_device_nccl_config *c = &n->config;
    const int32_t n_ranks = c->peers->partition->n_ranks;
    const size_t half_bytes = (size_t)n_ranks * HRF_PART_ALIGNMENT;
    void *memory = NULL, *queue;
    HRF_TRY(c->ops->allocate(c->backend, 2 * half_bytes, &memory, err));
    c->ops->peers->select_queue(c->backend, HRF_QUEUE_PEERS);
    queue = c->ops->peers->queue(c->backend);
    enum hrf_status status = n->module->begin(n->nccl, err);
    for (int32_t q = 0; q < n_ranks; q++) {
        char *out = (char *)memory + (size_t)q * HRF_PART_ALIGNMENT, *in = out + half_bytes;
        if (status == HRF_OK && c->sends_to[q])
            status = n->module->send(n->nccl, q, out, HRF_PART_ALIGNMENT, queue, err);
        if (status == HRF_OK && c->receives_from[q])
            status = n->module->receive(n->nccl, q, in, HRF_PART_ALIGNMENT, queue, err);
    }
    const enum hrf_status ended = n->module->end(n->nccl, status == HRF_OK ? err : NULL);
    status = status == HRF_OK ? ended : status;
    if (status == HRF_OK)
        status = c->ops->mark(c->backend, 0, err);
    c->ops->peers->select_queue(c->backend, HRF_QUEUE_KERNELS);
    if (status == HRF_OK)
        status = hrf_device_nccl_wait(n, 0, err);
    if (status != HRF_OK) /* The communicator cannot be released before its queued work is done. */
        n->module->abort(n->nccl);
    c->ops->release(c->backend, memory);
    return status;
}

static enum hrf_status allocate(struct hrf_device_nccl *n, struct staging *s, size_t n_bytes,
                                struct hrf_error *err)
{
    void *memory = NULL;
    if (n_bytes > 0)
        HRF_TRY(n->config.ops->allocate(n->config.backend, n_bytes, &memory, err));
    *s = (struct staging){ memory, n_bytes };
    return HRF_OK;
}

static enum hrf_status join(struct hrf_device_nccl *n, const struct hrf_nccl_id *id,
                            struct hrf_error *err)
{
    const struct hrf_device_nccl_config *c = &n->config;
    const struct hrf_peers *peers = c->peers;
    struct patience patience;
    patience_begin(&patience, peers->comm);
    const enum hrf_status status = n->module->create(id, peers->rank, peers->partition->n_ranks,
                                                     &n->nccl, err);
    patience_end(&patience);
    HRF_TRY(status);
    patience_begin(&patience,
                   peers->comm); /* Ending the group that connects new pairs also blocks. */
    const enum hrf_status warmed = warm_up(n, err);
    patience_end(&patience);
    HRF_TRY(warmed);
    HRF_TRY(allocate(n, &n->out, c->out_bytes, err));
    return allocate(n, &n->in, c->in_bytes, err);
}

enum hrf_status hrf_device_nccl_create(const struct hrf_device_nccl_config *config,
                                       struct hrf_device_nccl **out, char *why, size_t why_size,
                                       struct hrf_error *err)
{
    HRF_AUTO(hrf_device_nccl) n = hrf_calloc(1, sizeof *n);
    HRF_AUTO_FREE struct greeting *all = hrf_calloc((size_t)config->peers->partition->n_ranks,
                                                    sizeof *all);
    n->config = *config;
    HRF_TRY(meet(n, all, err));
    judge(all, config->peers->partition->n_ranks, why, why_size);
    if (*why != '\0')
        return HRF_OK;
    HRF_TRY(join(n, &all[0].id, err));
    n->config.sends_to = n->config.receives_from = NULL; /* borrowed for this call */
    HRF_MOVE(*out, n);
    return HRF_OK;
}

void hrf_device_nccl_destroy(struct hrf_device_nccl *n)
{
    if (n == NULL)
        return;
    if (n->module != NULL)
        n->module->destroy(n->nccl);
    n->config.ops->release(n->config.backend, n->out.memory);
    n->config.ops->release(n->config.backend, n->in.memory);
    hrf_free(n);
}

int64_t hrf_device_nccl_bytes(const struct hrf_device_nccl *n)
{
    return n != NULL ? (int64_t)(n->out.n_bytes + n->in.n_bytes) : 0;
}

/* ---- waiting ---- */

static enum hrf_status check(void *context, struct hrf_error *err)
{
    struct hrf_device_nccl *n = context;
    return n->module->check(n->nccl, err);
}

enum hrf_status hrf_device_nccl_wait(struct hrf_device_nccl *n, int32_t slot, struct hrf_error *err)
{
    const struct hrf_device_waiter waiter = {
        .peers = n->config.peers,
        .ops = n->config.ops,
        .backend = n->config.backend,
        .check = check,
        .context = n,
        .advice = "NCCL stands still (NCCL_DEBUG=INFO), or use --comm ipc or mpi",
    };
    return hrf_device_wait(&waiter, slot, err);
}
