/* loop.c - ranks as threads: a mailbox for each rank, guarded by one mutex of the group
 * (loop.h). */
#include "engine/comm/loop.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct message {
    struct message *next;
    int32_t from;
    int64_t tag;
    size_t n_bytes;
    char bytes[];
};

struct mailbox {
    struct message *first, **last;
    pthread_cond_t arrived;
};

/* The last step count seen of another rank, and when it was first seen. */
struct sight {
    long long steps;
    int64_t since_ns;
};

struct loop_comm {
    struct hrf_comm base;
    struct hrf_loop *loop;
    struct sight *sights; /* [n_ranks] */
};

struct hrf_loop {
    pthread_mutex_t mutex; /* guards everything below */
    bool is_aborted;
    char why[512];
    int32_t n_ranks;
    struct mailbox *boxes;   /* [n_ranks] */
    struct loop_comm *comms; /* [n_ranks] */
    struct sight *sights;    /* [n_ranks][n_ranks] */
};

static enum hrf_status aborted(const struct hrf_loop *loop, struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_AGAIN, "the ranks were stopped: %s", loop->why);
}

static enum hrf_status loop_send(struct hrf_comm *comm, int32_t to, int64_t tag, const void *bytes,
                                 size_t n_bytes, struct hrf_error *err)
{
    struct hrf_loop *loop = ((struct loop_comm *)comm)->loop;
    const double start = hrf_clock_seconds();
    struct message *m = hrf_try_alloc(sizeof *m + n_bytes);
    HRF_CHECK_MEMORY(m != NULL, err, "no memory for a message of %zu bytes", n_bytes);
    m->next = NULL;
    m->from = comm->rank;
    m->tag = tag;
    m->n_bytes = n_bytes;
    memcpy(m->bytes, bytes, n_bytes);
    pthread_mutex_lock(&loop->mutex);
    struct mailbox *box = &loop->boxes[to];
    *box->last = m;
    box->last = &m->next;
    pthread_cond_signal(&box->arrived);
    const enum hrf_status status = loop->is_aborted ? aborted(loop, err) : HRF_OK;
    pthread_mutex_unlock(&loop->mutex);
    hrf_comm_count_sent(comm, n_bytes, hrf_clock_seconds() - start);
    return status;
}

/* Removes the first message of that sender and tag from the mailbox; NULL: none. */
static struct message *loop_take(struct mailbox *box, int32_t from, int64_t tag)
{
    for (struct message **at = &box->first; *at != NULL; at = &(*at)->next) {
        struct message *m = *at;
        if (m->from != from || m->tag != tag)
            continue;
        *at = m->next;
        if (box->last == &m->next)
            box->last = at;
        return m;
    }
    return NULL;
}

int32_t hrf_loop_waiting(struct hrf_comm *comm, int64_t tag)
{
    struct hrf_loop *loop = ((struct loop_comm *)comm)->loop;
    int32_t from = -1;
    pthread_mutex_lock(&loop->mutex);
    for (const struct message *m = loop->boxes[comm->rank].first; m != NULL && from < 0;
         m = m->next)
        if (m->tag == tag)
            from = m->from;
    pthread_mutex_unlock(&loop->mutex);
    return from;
}

static struct timespec after(int64_t ms)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += ms / 1000;
    at.tv_nsec += ms % 1000 * 1000000;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

static enum hrf_status stands_still(const struct hrf_comm *comm, int32_t peer, int64_t silent_ns,
                                    struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_AGAIN,
                         "rank %d has made no progress for %.1f s while rank %d waits for it: it "
                         "hangs or has died",
                         peer, (double)silent_ns * 1e-9, comm->rank);
}

/* Waits, and wakes up from time to time to check the progress of the sender. */
static enum hrf_status wait_for(struct loop_comm *c, int32_t from, int64_t tag,
                                struct message **out, struct hrf_error *err)
{
    struct hrf_loop *loop = c->loop;
    struct mailbox *box = &loop->boxes[c->base.rank];
    struct hrf_comm *sender = &loop->comms[from].base;
    const int64_t nap = c->base.deadline_ms / 8 + 1;
    int64_t silent_ms = 0;
    long long seen = atomic_load(&sender->steps);
    while ((*out = loop_take(box, from, tag)) == NULL) {
        const struct timespec until = after(nap);
        if (loop->is_aborted)
            return aborted(loop, err);
        if (pthread_cond_timedwait(&box->arrived, &loop->mutex, &until) != ETIMEDOUT)
            continue;
        atomic_fetch_add(&c->base.steps, 1);
        const long long now = atomic_load(&sender->steps);
        silent_ms = now == seen ? silent_ms + nap : 0;
        seen = now;
        if (silent_ms >= c->base.deadline_ms)
            return stands_still(&c->base, from, silent_ms * 1000000, err);
    }
    return HRF_OK;
}

static enum hrf_status watch(struct hrf_comm *comm, int32_t peer, int64_t since_ns,
                             struct hrf_error *err)
{
    struct loop_comm *c = (struct loop_comm *)comm;
    struct sight *sight = &c->sights[peer];
    const int64_t now = hrf_clock_ns();
    const long long steps = atomic_load(&c->loop->comms[peer].base.steps);
    atomic_fetch_add(&comm->steps, 1);
    if (steps != sight->steps || sight->since_ns < since_ns)
        *sight = (struct sight){ steps, now };
    pthread_mutex_lock(&c->loop->mutex);
    const enum hrf_status status = c->loop->is_aborted ? aborted(c->loop, err) : HRF_OK;
    pthread_mutex_unlock(&c->loop->mutex);
    return status == HRF_OK && now - sight->since_ns >= comm->deadline_ms * 1000000
               ? stands_still(comm, peer, now - sight->since_ns, err)
               : status;
}

static enum hrf_status loop_receive(struct hrf_comm *comm, int32_t from, int64_t tag, void *bytes,
                                    size_t n_bytes, struct hrf_error *err)
{
    struct loop_comm *c = (struct loop_comm *)comm;
    struct message *m = NULL;
    const double start = hrf_clock_seconds();
    pthread_mutex_lock(&c->loop->mutex);
    enum hrf_status status = wait_for(c, from, tag, &m, err);
    pthread_mutex_unlock(&c->loop->mutex);
    comm->waited += hrf_clock_seconds() - start;
    if (status == HRF_OK && m->n_bytes != n_bytes)
        status = hrf_error_set(err, HRF_E_BUG,
                               "rank %d sent %zu bytes (message %lld) where rank %d expects %zu",
                               from, m->n_bytes, (long long)tag, comm->rank, n_bytes);
    if (status == HRF_OK)
        memcpy(bytes, m->bytes, n_bytes);
    hrf_free(m);
    hrf_comm_count_received(comm, hrf_clock_seconds() - start);
    return status;
}

static void loop_stop(struct hrf_comm *comm, const char *why)
{
    struct hrf_loop *loop = ((struct loop_comm *)comm)->loop;
    pthread_mutex_lock(&loop->mutex);
    if (!loop->is_aborted)
        snprintf(loop->why, sizeof loop->why, "rank %d: %s", comm->rank, why);
    loop->is_aborted = true;
    for (int32_t i = 0; i < loop->n_ranks; i++)
        pthread_cond_broadcast(&loop->boxes[i].arrived);
    pthread_mutex_unlock(&loop->mutex);
}

static const struct hrf_comm_ops ops = {
    .name = "loop",
    .send = loop_send,
    .receive = loop_receive,
    .waiting = hrf_loop_waiting,
    .watch = watch,
    .abort = loop_stop,
};

static void empty(struct mailbox *box)
{
    while (box->first != NULL) {
        struct message *m = box->first;
        box->first = m->next;
        hrf_free(m);
    }
    box->last = &box->first;
}

void hrf_loop_destroy(struct hrf_loop *loop)
{
    if (loop == NULL)
        return;
    for (int32_t i = 0; i < loop->n_ranks; i++) {
        empty(&loop->boxes[i]);
        pthread_cond_destroy(&loop->boxes[i].arrived);
    }
    if (loop->n_ranks > 0)
        pthread_mutex_destroy(&loop->mutex);
    hrf_free(loop->boxes);
    hrf_free(loop->sights);
    hrf_free(loop->comms);
    hrf_free(loop);
}

void hrf_loop_create(int32_t n_ranks, int64_t deadline_ms, struct hrf_loop **out)
{
    HRF_AUTO(hrf_loop) loop = hrf_calloc(1, sizeof *loop);
    pthread_condattr_t monotonic;
    loop->boxes = hrf_calloc((size_t)n_ranks, sizeof *loop->boxes);
    loop->comms = hrf_calloc((size_t)n_ranks, sizeof *loop->comms);
    loop->sights = hrf_calloc((size_t)n_ranks * (size_t)n_ranks, sizeof *loop->sights);
    pthread_mutex_init(&loop->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    for (int32_t i = 0; i < n_ranks; i++) {
        pthread_cond_init(&loop->boxes[i].arrived, &monotonic);
        loop->boxes[i].last = &loop->boxes[i].first;
        loop->comms[i] = (struct loop_comm){ .base = { .ops = &ops,
                                                       .rank = i,
                                                       .n_ranks = n_ranks,
                                                       .is_one_process = true,
                                                       .deadline_ms = deadline_ms },
                                             .loop = loop,
                                             .sights = &loop->sights[(size_t)i * (size_t)n_ranks] };
    }
    loop->n_ranks = n_ranks;
    pthread_condattr_destroy(&monotonic);
    HRF_MOVE(*out, loop);
}

struct hrf_comm *hrf_loop_comm(struct hrf_loop *loop, int32_t rank)
{
    return &loop->comms[rank].base;
}
