/* What ranks decide together, by threads: the first failure is everybody's, counts add up. */
#include "engine/comm/loop.h"
#include "engine/run/agree.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <pthread.h>

enum { RANKS = 4, TAG = 1 };

struct worker {
    struct hrf_comm *comm;
    struct hrf_vote vote;
    struct hrf_comm_count sum[HRF_N_COMM_USES], again[HRF_N_COMM_USES];
    int32_t gathered[RANKS];
    enum hrf_status status;
    pthread_t thread;
};

static enum hrf_status count(struct worker *w, struct hrf_error *err)
{
    struct hrf_comm_count seen[HRF_N_COMM_USES] = { { 0 } };
    const int32_t next = (w->comm->rank + 1) % RANKS, before = (w->comm->rank + RANKS - 1) % RANKS;
    char bytes[100] = "";
    w->comm->use = HRF_COMM_EXCHANGE;
    HRF_TRY(w->comm->ops->send(w->comm, next, TAG, bytes, sizeof bytes, err));
    HRF_TRY(w->comm->ops->receive(w->comm, before, TAG, bytes, sizeof bytes, err));
    HRF_TRY(hrf_count_all(w->comm, seen, w->sum, err));
    return hrf_count_all(w->comm, seen, w->again, err);
}

static void *work(void *context)
{
    struct worker *w = context;
    struct hrf_error err;
    const int32_t mine = 10 * w->comm->rank;
    w->status = hrf_agree(w->comm, &w->vote, &err);
    if (w->status == HRF_OK)
        w->status = hrf_gather(w->comm, &mine, sizeof mine, w->gathered, &err);
    if (w->status == HRF_OK)
        w->status = count(w, &err);
    return NULL;
}

static void play(struct worker workers[RANKS])
{
    struct hrf_loop *loop = NULL;
    hrf_loop_create(RANKS, 60000, &loop);
    for (int32_t i = 0; i < RANKS; i++) {
        workers[i].comm = hrf_loop_comm(loop, i);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int32_t i = 0; i < RANKS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].status, HRF_OK);
    }
    hrf_loop_destroy(loop);
}

static void the_first_failure_is_told_to_all(void **state)
{
    (void)state;
    struct worker workers[RANKS] = { { .comm = NULL } };
    workers[1].vote.most[0] = 7;
    workers[2].vote = (struct hrf_vote){ .status = HRF_E_USER,
                                         .most = { 5 },
                                         .text = "no such slide" };
    workers[3].vote = (struct hrf_vote){ .status = HRF_E_NOMEM,
                                         .stops = true,
                                         .text = "no memory" };
    play(workers);
    for (int32_t i = 0; i < RANKS; i++) {
        assert_int_equal(workers[i].vote.status, HRF_E_USER);
        assert_string_equal(workers[i].vote.text, "no such slide");
        assert_int_equal(workers[i].vote.most[0], 7);
        assert_true(workers[i].vote.stops);
    }
}

static void what_all_used_is_summed_and_unknown_if_one_does_not_know(void **state)
{
    (void)state;
    struct worker workers[RANKS] = { { .comm = NULL } };
    for (int32_t i = 0; i < RANKS; i++)
        workers[i].vote.spent[0] = (struct hrf_resource_use){ .processor_joules = i == 2
                                                                                      ? (double)NAN
                                                                                      : 1,
                                                              .gpu_joules = 0.5 * i,
                                                              .copy = 1,
                                                              .kernels = i,
                                                              .device_bytes = i == 1 ? 900 : 100 };
    play(workers);
    for (int32_t i = 0; i < RANKS; i++) {
        const struct hrf_resource_use *sum = &workers[i].vote.spent[0];
        assert_true(isnan(sum->processor_joules));
        assert_true(sum->gpu_joules == 0.25 * RANKS * (RANKS - 1) && sum->copy == RANKS);
        assert_true(sum->kernels == 0.5 * RANKS * (RANKS - 1));
        assert_int_equal(sum->device_bytes, 900);
    }
}

static void what_all_sent_adds_up_on_the_first_once(void **state)
{
    (void)state;
    struct worker workers[RANKS] = { { .comm = NULL } };
    play(workers);
    for (int32_t i = 0; i < RANKS; i++) {
        assert_int_equal(workers[i].vote.status, HRF_OK);
        assert_int_equal(workers[0].gathered[i], 10 * i);
        assert_int_equal(workers[i].sum[HRF_COMM_EXCHANGE].messages, i == 0 ? RANKS : 0);
        assert_int_equal(workers[i].again[HRF_COMM_EXCHANGE].messages, 0);
    }
    assert_int_equal(workers[0].sum[HRF_COMM_EXCHANGE].bytes, RANKS * 100);
    /* Votes, one word to each, what was gathered; of the others' counting the second time. */
    assert_int_equal(workers[0].sum[HRF_COMM_CONTROL].messages, 3 * (RANKS - 1));
    assert_int_equal(workers[0].again[HRF_COMM_CONTROL].messages, RANKS - 1);
    assert_true(workers[0].sum[HRF_COMM_EXCHANGE].receiving >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_failure_is_told_to_all),
        cmocka_unit_test(what_all_used_is_summed_and_unknown_if_one_does_not_know),
        cmocka_unit_test(what_all_sent_adds_up_on_the_first_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
