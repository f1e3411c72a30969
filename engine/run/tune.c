/* tune.c - measures the cost of messages between two ranks in host memory (tune.h). */
#include "engine/run/tune.h"

#include "base/clock.h"
#include "base/sort.h"
#include "engine/comm/loop.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Many rounds for small messages, so that the median is steady, and few for messages that take
 * long. */
enum { MAX_ROUNDS = 200, MIN_ROUNDS = 9, SMALLEST = 64, TAG_PING = 1, TAG_FIRST, TAG_SECOND };
static const double round_bytes = 64e6; /* bytes of all rounds of one size together, roughly */

static int64_t rounds_of(int64_t n_bytes)
{
    const double fitting = round_bytes / (double)n_bytes;
    return fitting > MAX_ROUNDS ? MAX_ROUNDS : fitting < MIN_ROUNDS ? MIN_ROUNDS : (int64_t)fitting;
}

struct figures {
    double send[MAX_ROUNDS], transit[MAX_ROUNDS], receive[MAX_ROUNDS];
};

/* Rank 0: a message to rank 1 and its answer; then two messages from rank 1, of which the second is
 * received first, so that the first has already arrived when it is received. */
static enum hrf_status play_first(struct hrf_comm *comm, char *bytes, size_t n, struct figures *f,
                                  int64_t round, struct hrf_error *err)
{
    const double start = hrf_clock_seconds(), busy = hrf_clock_thread_seconds();
    HRF_TRY(comm->ops->send(comm, 1, TAG_PING, bytes, n, err));
    f->send[round] = hrf_clock_thread_seconds() - busy;
    HRF_TRY(comm->ops->receive(comm, 1, TAG_PING, bytes, n, err));
    f->transit[round] = (hrf_clock_seconds() - start) / 2;
    HRF_TRY(comm->ops->receive(comm, 1, TAG_SECOND, bytes, n, err));
    const double before = hrf_clock_thread_seconds();
    HRF_TRY(comm->ops->receive(comm, 1, TAG_FIRST, bytes, n, err));
    f->receive[round] = hrf_clock_thread_seconds() - before;
    return HRF_OK;
}

static enum hrf_status play_second(struct hrf_comm *comm, char *bytes, size_t n,
                                   struct hrf_error *err)
{
    HRF_TRY(comm->ops->receive(comm, 0, TAG_PING, bytes, n, err));
    HRF_TRY(comm->ops->send(comm, 0, TAG_PING, bytes, n, err));
    HRF_TRY(comm->ops->send(comm, 0, TAG_FIRST, bytes, n, err));
    return comm->ops->send(comm, 0, TAG_SECOND, bytes, n, err);
}

static enum hrf_status tune_size(struct hrf_comm *comm, char *bytes, int64_t n_bytes,
                                 struct figures *f, struct hrf_link_point *point,
                                 struct hrf_error *err)
{
    const int64_t n_rounds = rounds_of(n_bytes);
    for (int64_t round = -2; round < n_rounds; round++) { /* two warm up */
        const int64_t slot = round < 0 ? 0 : round;
        if (comm->rank == 0)
            HRF_TRY(play_first(comm, bytes, (size_t)n_bytes, f, slot, err));
        else
            HRF_TRY(play_second(comm, bytes, (size_t)n_bytes, err));
    }
    if (comm->rank != 0)
        return HRF_OK;
    *point = (struct hrf_link_point){ .bytes = (double)n_bytes,
                                      .send = hrf_median(f->send, (size_t)n_rounds),
                                      .receive = hrf_median(f->receive, (size_t)n_rounds) };
    qsort(f->transit, (size_t)n_rounds, sizeof f->transit[0], hrf_compare_doubles);
    /* The tenth percentile: the time that a message takes while nothing else uses the machine. */
    const double rest = f->transit[n_rounds / 10] - point->send - point->receive;
    point->transit = rest > 0 ? rest : 0;
    return HRF_OK;
}

enum hrf_status hrf_tune_link(struct hrf_comm *comm, enum hrf_placement placement,
                              int64_t largest_bytes, struct hrf_link *link, struct hrf_error *err)
{
    struct hrf_link tuned = { .placement = placement };
    HRF_AUTO_FREE char *bytes = hrf_try_calloc((size_t)largest_bytes, 1);
    HRF_AUTO_FREE struct figures *figures = hrf_calloc(1, sizeof *figures);
    HRF_CHECK_MEMORY(bytes != NULL, err, "no memory for messages of %lld bytes",
                     (long long)largest_bytes);
    snprintf(tuned.comm, sizeof tuned.comm, "%s", comm->ops->name);
    for (int64_t n = SMALLEST; n <= largest_bytes && tuned.n_points < HRF_LINK_MAX_POINTS; n *= 4) {
        HRF_TRY(tune_size(comm, bytes, n, figures, &tuned.points[tuned.n_points], err));
        tuned.n_points++;
    }
    if (comm->rank == 0)
        *link = tuned;
    return HRF_OK;
}

/* ---- two threads ---- */

struct partner {
    struct hrf_comm *comm;
    int64_t largest_bytes;
    enum hrf_status status;
    struct hrf_error err;
};

static void *partner_main(void *context)
{
    struct partner *p = context;
    p->status = hrf_tune_link(p->comm, HRF_PLACEMENT_PROCESS, p->largest_bytes, NULL, &p->err);
    if (p->status != HRF_OK)
        p->comm->ops->abort(p->comm, p->err.text);
    return NULL;
}

enum hrf_status hrf_tune_loop(int64_t largest_bytes, struct hrf_link *link, struct hrf_error *err)
{
    enum { DEADLINE_MS = 60000 };
    HRF_AUTO(hrf_loop) loop = NULL;
    pthread_t thread;
    hrf_loop_create(2, DEADLINE_MS, &loop);
    struct partner partner = { .comm = hrf_loop_comm(loop, 1), .largest_bytes = largest_bytes };
    const int native = pthread_create(&thread, NULL, partner_main, &partner);
    if (native != 0)
        return hrf_error_set_errno(err, native, "cannot start a thread");
    struct hrf_comm *comm = hrf_loop_comm(loop, 0);
    struct hrf_error why = { .status = HRF_OK };
    const enum hrf_status status = hrf_tune_link(comm, HRF_PLACEMENT_PROCESS, largest_bytes, link,
                                                 &why);
    if (status != HRF_OK)
        comm->ops->abort(comm, why.text);
    pthread_join(thread, NULL);
    if (status != HRF_OK && err != NULL)
        *err = why;
    return status;
}

double hrf_tune_copy_rate(void)
{
    enum { N_BYTES = 64 << 20, ROUNDS = 7 };
    HRF_AUTO_FREE char *from = hrf_try_alloc(N_BYTES);
    HRF_AUTO_FREE char *to = hrf_try_alloc(N_BYTES);
    double seconds[ROUNDS];
    if (from == NULL || to == NULL)
        return 0;
    memset(from, 1, N_BYTES);
    memset(to, 2, N_BYTES);
    for (int i = 0; i < ROUNDS; i++) {
        const double start = hrf_clock_thread_seconds();
        memcpy(i % 2 == 0 ? to : from, i % 2 == 0 ? from : to, N_BYTES);
        seconds[i] = hrf_clock_thread_seconds() - start;
    }
    return N_BYTES / hrf_median(seconds, (size_t)ROUNDS);
}
