/* Messages between ranks that are threads: none lost, none mixed up, and nobody waits for ever. */
#include "tests/unit/unit.h"

#include "base/random.h"
#include "engine/comm/loop.h"

#include <pthread.h>
#include <string.h>

enum { RANKS = 5, ROUNDS = 300, TAGS = 3, DEADLINE_MS = 60000 };

struct worker {
    struct hrf_comm *comm;
    int n_wrong;
    enum hrf_status status;
    struct hrf_error err;
};

/* The message of that name, of a length that follows from it. */
static size_t make(int32_t from, int32_t to, int64_t tag, int round, unsigned char bytes[256])
{
    struct hrf_random random = hrf_random_init((uint64_t)(from * 31 + to) * 1009 + (uint64_t)tag +
                                               (uint64_t)round * 7919);
    const size_t n = (size_t)hrf_random_below(&random, 256);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)hrf_random_below(&random, 256);
    return n;
}

/* Everybody sends to everybody, all tags, from the first to the last or back, and takes them in the
 * opposite order. */
static enum hrf_status talk(struct worker *w)
{
    struct hrf_comm *c = w->comm;
    unsigned char sent[256], got[256];
    for (int round = 0; round < ROUNDS; round++) {
        for (int32_t to = 0; to < RANKS; to++)
            for (int64_t i = 0; i < TAGS && to != c->rank; i++) {
                const int64_t tag = round % 2 == 0 ? i : TAGS - 1 - i;
                const size_t n = make(c->rank, to, tag, round, sent);
                HRF_TRY(c->ops->send(c, to, tag, sent, n, &w->err));
            }
        for (int64_t i = 0; i < TAGS; i++)
            for (int32_t from = RANKS - 1; from >= 0; from--) {
                const int64_t tag = round % 2 == 0 ? TAGS - 1 - i : i;
                if (from == c->rank)
                    continue;
                const size_t n = make(from, c->rank, tag, round, sent);
                HRF_TRY(c->ops->receive(c, from, tag, got, n, &w->err));
                w->n_wrong += memcmp(sent, got, n) != 0;
            }
    }
    return HRF_OK;
}

static void *run_talk(void *context)
{
    struct worker *w = context;
    w->status = talk(w);
    return NULL;
}

static void *run_wait(void *context)
{
    struct worker *w = context;
    unsigned char byte;
    w->status = w->comm->ops->receive(w->comm, 0, 1, &byte, 1, &w->err);
    return NULL;
}

static void start(struct hrf_loop *loop, struct worker workers[RANKS], pthread_t threads[RANKS],
                  int first, void *(*run)(void *))
{
    for (int i = first; i < RANKS; i++) {
        workers[i] = (struct worker){ .comm = hrf_loop_comm(loop, i) };
        assert_int_equal(pthread_create(&threads[i], NULL, run, &workers[i]), 0);
    }
}

static void every_message_arrives_as_it_was_sent(void **state)
{
    (void)state;
    struct hrf_loop *loop = NULL;
    struct worker workers[RANKS];
    pthread_t threads[RANKS];
    hrf_loop_create(RANKS, DEADLINE_MS, &loop);
    start(loop, workers, threads, 0, run_talk);
    for (int i = 0; i < RANKS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].status, HRF_OK);
        assert_int_equal(workers[i].n_wrong, 0);
        assert_int_equal(workers[i].comm->n_messages, (RANKS - 1) * TAGS * ROUNDS);
    }
    hrf_loop_destroy(loop);
}

static void an_abort_reaches_all_that_wait_and_all_that_come(void **state)
{
    (void)state;
    struct hrf_loop *loop = NULL;
    struct worker workers[RANKS];
    pthread_t threads[RANKS];
    struct hrf_error err = { .status = HRF_OK };
    hrf_loop_create(RANKS, DEADLINE_MS, &loop);
    struct hrf_comm *first = hrf_loop_comm(loop, 0);
    start(loop, workers, threads, 1, run_wait);
    first->ops->abort(first, "the disk is on fire");
    for (int i = 1; i < RANKS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].status, HRF_E_AGAIN);
        assert_non_null(strstr(workers[i].err.text, "rank 0: the disk is on fire"));
    }
    assert_int_equal(first->ops->send(first, 1, 1, "x", 1, &err), HRF_E_AGAIN);
    hrf_loop_destroy(loop);
}

static void a_rank_that_stands_still_is_named(void **state)
{
    (void)state;
    struct hrf_loop *loop = NULL;
    struct hrf_error err = { .status = HRF_OK };
    unsigned char byte;
    hrf_loop_create(2, 80, &loop);
    struct hrf_comm *second = hrf_loop_comm(loop, 1);
    assert_int_equal(second->ops->receive(second, 0, 7, &byte, 1, &err), HRF_E_AGAIN);
    assert_non_null(strstr(err.text, "rank 0 has made no progress"));
    hrf_loop_destroy(loop);
}

static void a_message_of_another_size_is_a_bug_of_ours(void **state)
{
    (void)state;
    struct hrf_loop *loop = NULL;
    struct hrf_error err = { .status = HRF_OK };
    unsigned char bytes[8];
    hrf_loop_create(2, DEADLINE_MS, &loop);
    struct hrf_comm *first = hrf_loop_comm(loop, 0), *second = hrf_loop_comm(loop, 1);
    assert_int_equal(first->ops->send(first, 1, 7, "four", 4, &err), HRF_OK);
    assert_int_equal(second->ops->receive(second, 0, 7, bytes, 8, &err), HRF_E_BUG);
    assert_non_null(strstr(err.text, "4 bytes"));
    hrf_loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_arrives_as_it_was_sent),
        cmocka_unit_test(an_abort_reaches_all_that_wait_and_all_that_come),
        cmocka_unit_test(a_rank_that_stands_still_is_named),
        cmocka_unit_test(a_message_of_another_size_is_a_bug_of_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
