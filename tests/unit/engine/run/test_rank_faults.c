/* Ranks that fail, hang or say the wrong thing at every message: each time all ranks end, and the
 * one that is to blame is named. */
#include "tests/unit/unit.h"

#include "engine/comm/loop.h"
#include "engine/run/parallel.h"
#include "tests/ops/build.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Only where a rank hangs a deadline is to come; elsewhere none does, however slow the machine. */
enum { RANKS = 4, HANG_MS = 5000, PATIENCE_MS = 60000, DELAY_MS = 100 };
/* Hangs are waited for together, so that the deadline may be longer than a rank may have to wait
 * for its processor: it would be blamed instead. */
enum { MOST_AT_ONCE = 8 };

enum fault { FAULT_NONE, FAULT_FAILS, FAULT_HANGS, FAULT_SHORT, FAULT_DELAYED };

struct worker {
    const struct hrf_work *work;
    struct hrf_comm *comm;
    struct group *group;
    struct hrf_array_source source;
    float output[64];
    enum hrf_status status;
    struct hrf_error err;
    pthread_t thread;
};

/* Ranks, one of which does something else instead of its `at`-th message. */
static struct group {
    enum fault fault;
    int32_t rank;
    int64_t at;
    int64_t n[RANKS];    /* messages so far, by rank */
    _Atomic int n_ended; /* ranks */
    struct hrf_loop *loop;
    struct worker workers[RANKS];
} groups[MOST_AT_ONCE];

static const struct hrf_comm_ops *real_ops;

static struct group *group_of(const struct hrf_comm *comm)
{
    for (size_t i = 0; i < MOST_AT_ONCE; i++)
        if (groups[i].workers[comm->rank].comm == comm)
            return &groups[i];
    return NULL;
}

static void nap(int64_t ms)
{
    struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* True when the message is dealt with. */
static bool go_wrong(struct hrf_comm *comm, size_t *n_bytes, enum hrf_status *status,
                     struct hrf_error *err)
{
    struct group *g = group_of(comm);
    if (comm->rank != g->rank || g->n[comm->rank]++ != g->at)
        return false;
    if (g->fault == FAULT_FAILS) {
        *status = hrf_error_set(err, HRF_E_EXTERNAL, "the cable was cut");
        return true;
    }
    if (g->fault == FAULT_HANGS)
        while (g->n_ended < RANKS - 1) /* the others give it up, or did not wait for it */
            nap(5);
    if (g->fault == FAULT_DELAYED)
        nap(DELAY_MS);
    if (g->fault == FAULT_SHORT && *n_bytes > 1)
        --*n_bytes;
    return false;
}

static enum hrf_status send(struct hrf_comm *comm, int32_t to, int64_t tag, const void *bytes,
                            size_t n_bytes, struct hrf_error *err)
{
    enum hrf_status status = HRF_OK;
    if (go_wrong(comm, &n_bytes, &status, err))
        return status;
    return real_ops->send(comm, to, tag, bytes, n_bytes, err);
}

static enum hrf_status receive(struct hrf_comm *comm, int32_t from, int64_t tag, void *bytes,
                               size_t n_bytes, struct hrf_error *err)
{
    enum hrf_status status = HRF_OK;
    if (go_wrong(comm, &n_bytes, &status, err))
        return status;
    return real_ops->receive(comm, from, tag, bytes, n_bytes, err);
}

static void stop(struct hrf_comm *comm, const char *why)
{
    real_ops->abort(comm, why);
}

static const struct hrf_comm_ops faulty = {
    .name = "faulty", .send = send, .receive = receive, .abort = stop
};

static void *run(void *context)
{
    struct worker *w = context;
    const struct hrf_session_config config = { .device = "cpu",
                                               .precision = HRF_FP32,
                                               .n_threads = 1 };
    struct hrf_rank *rank = NULL;
    float *outputs[] = { w->output };
    w->status = hrf_rank_create(w->work, &config, w->comm, &rank, &w->err);
    if (w->status == HRF_OK)
        w->status = hrf_rank_run(rank, hrf_read_array, &w->source,
                                 w->comm->rank == 0 ? outputs : NULL, &w->err);
    hrf_rank_destroy(rank);
    w->group->n_ended++;
    return NULL;
}

static struct hrf_graph *small_net(void)
{
    struct build b = build_start(5);
    int32_t y = build_input(&b, SHAPE(2, 3, 16, 12));
    y = build_unary(&b, HRF_OP_RELU, build_plain_conv(&b, y, 3, 8, 3, 1, true));
    y = build_plain_conv(&b, y, 8, 8, 3, 2, true);
    y = build_plain_conv(&b, y, 8, 5, 3, 1, true);
    y = build_unary(&b, HRF_OP_GLOBAL_AVERAGE_POOL, y);
    return build_finish(&b, &y, 1);
}

/* One batch by four ranks, with the group's fault. */
static void start_ranks(struct group *g, const struct hrf_work *work, const float *images)
{
    const int64_t deadline_ms = g->fault == FAULT_HANGS ? HANG_MS : PATIENCE_MS;
    hrf_loop_create(RANKS, deadline_ms, &g->loop);
    memset(g->n, 0, sizeof g->n);
    g->n_ended = 0;
    for (int i = 0; i < RANKS; i++) {
        struct hrf_comm *comm = hrf_loop_comm(g->loop, i);
        real_ops = comm->ops;
        comm->ops = &faulty;
        g->workers[i] = (struct worker){
            .work = work, .comm = comm, .group = g, .source = { images, SHAPE(2, 3, 16, 12) }
        };
    }
    for (int i = 0; i < RANKS; i++)
        assert_int_equal(pthread_create(&g->workers[i].thread, NULL, run, &g->workers[i]), 0);
}

static void join_ranks(struct group *g)
{
    for (int i = 0; i < RANKS; i++)
        pthread_join(g->workers[i].thread, NULL);
    hrf_loop_destroy(g->loop);
}

static void check_end(const struct group *g, const float *right)
{
    const struct worker *workers = g->workers;
    if (g->fault == FAULT_DELAYED) {
        for (int i = 0; i < RANKS; i++)
            if (workers[i].status != HRF_OK)
                fail_msg("rank %d gave up on a rank that was only slow: %s", i,
                         workers[i].err.text);
        assert_memory_equal(workers[0].output, right, 10 * sizeof *right);
        return;
    }
    int n_told = 0;
    char name[32];
    snprintf(name, sizeof name, "rank %d", g->rank);
    for (int i = 0; i < RANKS; i++) {
        const bool knows = workers[i].status != HRF_OK;
        n_told += knows;
        if (knows && g->fault != FAULT_SHORT && i != g->rank &&
            strstr(workers[i].err.text, name) == NULL)
            fail_msg("rank %d failed, and rank %d says '%s'", g->rank, i, workers[i].err.text);
    }
    /* Who had all it needed before is done; one that nobody waits for may take its time. */
    assert_true(n_told > 0 || g->fault == FAULT_HANGS);
    if (workers[0].status == HRF_OK)
        assert_memory_equal(workers[0].output, right, 10 * sizeof *right);
}

/* Waits for the first *n groups. */
static void end_all(int *n, const float *right)
{
    for (int i = 0; i < *n; i++)
        join_ranks(&groups[i]);
    for (int i = 0; i < *n; i++)
        check_end(&groups[i], right);
    *n = 0;
}

static void every_fault_at_every_message_ends_every_rank(void **state)
{
    (void)state;
    struct hrf_graph *graph = small_net();
    const struct hrf_session_config config = { .device = "cpu",
                                               .precision = HRF_FP32,
                                               .n_threads = 1 };
    struct hrf_layout_plan layout;
    struct hrf_work *work = NULL;
    float images[2 * 3 * 16 * 12], right[10];
    struct hrf_random random = hrf_random_init(3);
    for (size_t i = 0; i < sizeof images / sizeof images[0]; i++)
        images[i] = (float)hrf_random_unit(&random);
    assert_int_equal(
        hrf_layout_parse("spatial=2,stages=2,microbatches=2,halos=overlap", &layout, NULL), HRF_OK);
    assert_int_equal(hrf_work_create(graph, &config, &layout, &work, NULL), HRF_OK);
    int64_t n_messages[RANKS];
    for (int rank = 0; rank < RANKS; rank++) {
        struct group *g = &groups[0];
        g->rank = rank;
        g->at = -1;
        start_ranks(g, work, images);
        join_ranks(g);
        for (int i = 0; i < RANKS; i++)
            assert_int_equal(g->workers[i].status, HRF_OK);
        n_messages[rank] = g->n[rank];
        memcpy(right, g->workers[0].output, sizeof right);
    }
    static const enum fault faults[] = { FAULT_FAILS, FAULT_SHORT, FAULT_DELAYED, FAULT_HANGS };
    for (size_t f = 0; f < sizeof faults / sizeof faults[0]; f++) {
        int n = 0;
        for (int rank = 0; rank < RANKS; rank++)
            for (int64_t at = 0; at < n_messages[rank]; at++) {
                if (faults[f] >= FAULT_DELAYED && at % 6 != 0)
                    continue; /* these take their time */
                struct group *g = &groups[n++];
                g->fault = faults[f];
                g->rank = rank;
                g->at = at;
                start_ranks(g, work, images);
                if (n == (faults[f] == FAULT_HANGS ? MOST_AT_ONCE : 1))
                    end_all(&n, right);
            }
        end_all(&n, right);
    }
    hrf_work_destroy(work);
    hrf_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fault_at_every_message_ends_every_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
