/* Batches shared out over ranks that are threads: each scored once, whoever is fast, fails, leaves,
 * hangs or is told to stop. */
#include "base/clock.h"
#include "engine/comm/loop.h"
#include "engine/run/work_queue.h"
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { MAX_RANKS = 4, MAX_BATCHES = 64, BATCH = 3, CLASSES = 2 };

struct cohort {
    struct hrf_loop *loop;
    int32_t n_ranks;
    int64_t n_batches, n_tasks, stuck_ms;
    bool done[MAX_BATCHES];
    bool root_waits; /* rank 0 asks for batches when rank 1 has one */
    /* What a rank does with its k-th batch: milliseconds of work, or: */
    int64_t (*work)(int32_t rank, int64_t k);
    /* results, on rank 0 */
    int64_t taken[MAX_BATCHES], n_wrong;
    int64_t by_rank[MAX_RANKS];
    enum hrf_status ends[MAX_RANKS];
    char text[MAX_RANKS][200];
    atomic_bool stop;
    atomic_bool has_one;      /* rank 1 has a batch */
    atomic_bool has_happened; /* what the test is about, see until_it_has_happened */
    atomic_int n_through;     /* ranks that were told of no more batches */
    atomic_int n_given;       /* results of all ranks */
};
enum { FAIL = -1, LEAVE = -2, HANG = -3, STOP = -4 };

struct member {
    struct cohort *cohort;
    int32_t rank;
    pthread_t thread;
};

static float value_of(int64_t batch, int64_t i)
{
    return (float)(100 * batch + i);
}

static struct hrf_resource_use spent_by(int64_t batch)
{
    return (struct hrf_resource_use){ .gpu_joules = (double)batch,
                                      .copy = 0.5 * (double)batch,
                                      .device_bytes = 1000 + batch };
}

static void sink(void *context, const struct hrf_work_queue_result *r)
{
    struct cohort *c = context;
    c->taken[r->batch]++;
    for (int64_t i = 0; i < r->n; i++)
        c->n_wrong += r->patches[i] != r->batch * BATCH + i;
    for (int64_t i = 0; i < r->n * CLASSES; i++)
        c->n_wrong += r->values[i] != value_of(r->batch, i);
    const struct hrf_resource_use wanted = spent_by(r->batch);
    c->n_wrong += r->n_parts != 1 || r->parts[0].spent.gpu_joules != wanted.gpu_joules ||
                  r->parts[0].spent.copy != wanted.copy ||
                  r->parts[0].spent.device_bytes != wanted.device_bytes;
}

static enum hrf_status give(struct hrf_work_queue *queue, int64_t batch, struct hrf_error *err)
{
    int64_t patches[BATCH];
    float values[BATCH * CLASSES];
    const int64_t n = 1 + batch % BATCH; /* not all are full */
    for (int64_t i = 0; i < n; i++)
        patches[i] = batch * BATCH + i;
    for (int64_t i = 0; i < n * CLASSES; i++)
        values[i] = value_of(batch, i);
    const struct hrf_work_queue_part part = { .seconds = 0.001, .spent = spent_by(batch) };
    const struct hrf_work_queue_result result = {
        .batch = batch, .n = n, .patches = patches, .values = values, .parts = &part, .n_parts = 1
    };
    return hrf_work_queue_give(queue, &result, err);
}

static enum hrf_status do_task(struct member *m, struct hrf_work_queue *queue,
                               struct hrf_error *err)
{
    struct cohort *c = m->cohort;
    int64_t batch;
    while (c->root_waits && m->rank == 0 && !atomic_load(&c->has_one))
        hrf_clock_sleep_ms(1);
    for (int64_t k = 0; (batch = hrf_work_queue_next(queue)) >= 0; k++) {
        const int64_t ms = c->work != NULL ? c->work(m->rank, k) : 0;
        if (ms == FAIL) {
            hrf_work_queue_fail(queue, HRF_E_USER, "the slide cannot be read");
            return hrf_error_set(err, HRF_E_USER, "the slide cannot be read");
        }
        if (ms == LEAVE)
            return hrf_error_set(err, HRF_E_AGAIN, "left");
        if (ms == STOP) {
            atomic_store(&c->stop, true);
            return hrf_error_set(err, HRF_E_AGAIN, "asked to stop");
        }
        if (ms == HANG) { /* until the group is ended */
            char byte;
            return hrf_loop_comm(c->loop, m->rank)
                ->ops->receive(hrf_loop_comm(c->loop, m->rank), m->rank, 99, &byte, 1, err);
        }
        hrf_clock_sleep_ms(ms);
        HRF_TRY(give(queue, batch, err));
        c->by_rank[m->rank]++;
        atomic_fetch_add(&c->n_given, 1);
    }
    atomic_fetch_add(&c->n_through, 1);
    return HRF_OK;
}

static struct cohort *idle_cohort;
static bool idle(void)
{
    return atomic_load(&idle_cohort->stop);
}

static void *rank_main(void *context)
{
    struct member *m = context;
    struct cohort *c = m->cohort;
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_work_queue *queue = NULL;
    const struct hrf_work_queue_config config = { .comm = c->n_ranks > 1
                                                              ? hrf_loop_comm(c->loop, m->rank)
                                                              : NULL,
                                                  .waiting = hrf_loop_waiting,
                                                  .stuck_ms = c->stuck_ms };
    enum hrf_status status = hrf_work_queue_create(&config, &queue, &err);
    for (int64_t t = 0; t < c->n_tasks && status == HRF_OK; t++) {
        const struct hrf_work_queue_task task = { .n_batches = c->n_batches,
                                                  .batch = BATCH,
                                                  .n_values = CLASSES,
                                                  .done = c->done,
                                                  .sink = sink,
                                                  .context = c };
        status = hrf_work_queue_begin(queue, &task, &err);
        if (status == HRF_OK)
            status = do_task(m, queue, &err);
        if (status == HRF_OK)
            status = hrf_work_queue_end(queue, idle, &err);
        c->ends[m->rank] = status;
        snprintf(c->text[m->rank], sizeof c->text[0], "%.199s", err.text);
        if (status == HRF_E_USER) /* the task's fault: on to the next */
            status = HRF_OK;
    }
    if (status == HRF_E_AGAIN && hrf_work_queue_is_root(queue)) {
        hrf_work_queue_stop(queue);
        hrf_work_queue_gather(queue);
    }
    hrf_work_queue_destroy(queue);
    return NULL;
}

static void run(struct cohort *c)
{
    struct member members[MAX_RANKS];
    idle_cohort = c;
    c->stuck_ms = c->stuck_ms > 0 ? c->stuck_ms : 60000;
    c->n_tasks = c->n_tasks > 0 ? c->n_tasks : 1;
    hrf_loop_create(c->n_ranks, 60000, &c->loop);
    for (int32_t r = 0; r < c->n_ranks; r++) {
        members[r] = (struct member){ .cohort = c, .rank = r };
        assert_int_equal(pthread_create(&members[r].thread, NULL, rank_main, &members[r]), 0);
    }
    for (int32_t r = 0; r < c->n_ranks; r++)
        pthread_join(members[r].thread, NULL);
    hrf_loop_destroy(c->loop);
    assert_int_equal(c->n_wrong, 0);
}

static void assert_each(const struct cohort *c, int64_t times)
{
    for (int64_t i = 0; i < c->n_batches; i++)
        assert_int_equal(c->taken[i], c->done[i] ? 0 : times);
}

static void every_batch_is_scored_once_by_any_number_of_ranks(void **state)
{
    (void)state;
    for (int32_t n = 1; n <= MAX_RANKS; n++) {
        struct cohort c = { .n_ranks = n, .n_batches = MAX_BATCHES };
        run(&c);
        assert_each(&c, 1);
        for (int32_t r = 0; r < n; r++)
            assert_int_equal(c.ends[r], HRF_OK);
    }
}

static void tasks_follow_each_other(void **state)
{
    (void)state;
    struct cohort c = { .n_ranks = 3, .n_batches = 5, .n_tasks = 20 };
    run(&c);
    assert_each(&c, 20);
}

static void a_task_without_open_batches_is_over_at_once(void **state)
{
    (void)state;
    struct cohort c = { .n_ranks = 2, .n_batches = 4, .done = { true, true, true, true } };
    run(&c);
    assert_each(&c, 1);
    assert_int_equal(c.by_rank[0] + c.by_rank[1], 0);
}

static void what_an_earlier_attempt_did_is_left_out(void **state)
{
    (void)state;
    struct cohort c = { .n_ranks = 3, .n_batches = 40 };
    for (int64_t i = 0; i < 40; i += 3)
        c.done[i] = true;
    run(&c);
    assert_each(&c, 1);
}

/* What rank `who` does with its batch number `at` is what the test is about. Others wait for it
 * with their third batch: a thread that is late would find that they had done all. */
static int64_t until_it_has_happened(int32_t rank, int64_t k, int32_t who, int64_t at, int64_t what)
{
    if (rank == who && k == at) {
        atomic_store(&idle_cohort->has_happened, true);
        return what;
    }
    while (rank != who && k >= 2 && !atomic_load(&idle_cohort->has_happened))
        hrf_clock_sleep_ms(1);
    return 1;
}

/* It has its first batch while the others do 50. */
static int64_t rank_2_is_slow(int32_t rank, int64_t k)
{
    const int64_t ms = until_it_has_happened(rank, k, 2, 0, 0);
    while (rank == 2 && atomic_load(&idle_cohort->n_given) < 50)
        hrf_clock_sleep_ms(1);
    return ms;
}

static void a_slow_rank_gets_less(void **state)
{
    (void)state;
    struct cohort c = { .n_ranks = 3, .n_batches = 60, .work = rank_2_is_slow };
    run(&c);
    assert_each(&c, 1);
    assert_in_range(c.by_rank[2], 1, 10);
}

static int64_t rank_1_cannot_read(int32_t rank, int64_t k)
{
    return until_it_has_happened(rank, k, 1, 1, FAIL);
}

static void what_one_rank_cannot_read_fails_for_all(void **state)
{
    (void)state;
    struct cohort c = { .n_ranks = 3, .n_batches = 60, .work = rank_1_cannot_read };
    run(&c);
    assert_int_equal(c.ends[0], HRF_E_USER);
    assert_string_equal(c.text[0], "the slide cannot be read");
    for (int64_t i = 0; i < 60; i++)
        assert_true(c.taken[i] <= 1);
}

static void the_task_after_a_failed_one_is_whole(void **state)
{
    (void)state;
    struct cohort c = { .n_ranks = 2, .n_batches = 2, .n_tasks = 3, .work = rank_1_cannot_read };
    run(&c); /* with 2 batches rank 1 seldom gets to its second: most tasks end well */
    for (int64_t i = 0; i < 2; i++)
        assert_true(c.taken[i] <= 3);
}

static int64_t rank_2_leaves(int32_t rank, int64_t k)
{
    return until_it_has_happened(rank, k, 2, 3, LEAVE);
}

static void what_a_rank_left_undone_goes_to_the_others(void **state)
{
    (void)state;
    struct cohort c = { .n_ranks = 3, .n_batches = 50, .work = rank_2_leaves };
    run(&c);
    assert_each(&c, 1);
    assert_int_equal(c.by_rank[2], 3);
    assert_int_equal(c.ends[0], HRF_OK);
}

static int64_t rank_1_leaves_when_rank_0_is_through(int32_t rank, int64_t k)
{
    (void)k;
    if (rank == 1)
        atomic_store(&idle_cohort->has_one, true);
    while (rank == 0 && !atomic_load(&idle_cohort->has_one))
        hrf_clock_sleep_ms(1);
    while (rank == 1 && atomic_load(&idle_cohort->n_through) == 0)
        hrf_clock_sleep_ms(1);
    return rank == 1 ? LEAVE : 0;
}

static void a_batch_that_nobody_asks_for_ends_the_task(void **state)
{
    (void)state;
    struct cohort c = { .n_ranks = 2,
                        .n_batches = 6,
                        .work = rank_1_leaves_when_rank_0_is_through };
    run(&c); /* ends at all */
    assert_int_equal(c.ends[0], HRF_E_AGAIN);
    assert_string_equal(c.text[0], "a rank left before its batch was scored");
    assert_int_equal(c.by_rank[0], 5);
}

/* Rank 0 never has the only batch: it is not to be late with it, which would be told of it. */
static int64_t rank_1_hangs(int32_t rank, int64_t k)
{
    (void)k;
    atomic_store(&idle_cohort->has_one, true);
    return rank == 1 ? HANG : 0;
}

static void a_rank_that_hangs_is_named_and_ends_the_group(void **state)
{
    (void)state;
    struct cohort c = {
        .n_ranks = 2, .n_batches = 1, .work = rank_1_hangs, .root_waits = true, .stuck_ms = 300
    };
    run(&c); /* ends at all: rank 1 is told by the group's end */
    assert_int_equal(c.ends[1], HRF_E_AGAIN);
    assert_non_null(strstr(c.text[1], "rank 1 hangs or has died: it has had a batch for"));
}

static int64_t rank_0_is_told_to_stop(int32_t rank, int64_t k)
{
    return until_it_has_happened(rank, k, 0, 4, STOP);
}

static void a_stop_keeps_what_is_done(void **state)
{
    (void)state;
    struct cohort c = { .n_ranks = 3, .n_batches = 60, .work = rank_0_is_told_to_stop };
    run(&c);
    int64_t n = 0;
    for (int64_t i = 0; i < 60; i++) {
        assert_true(c.taken[i] <= 1);
        n += c.taken[i];
    }
    assert_true(n >= 4 && n < 60);
    assert_int_equal(n, c.by_rank[0] + c.by_rank[1] + c.by_rank[2]); /* what was given was taken */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_batch_is_scored_once_by_any_number_of_ranks),
        cmocka_unit_test(tasks_follow_each_other),
        cmocka_unit_test(a_task_without_open_batches_is_over_at_once),
        cmocka_unit_test(what_an_earlier_attempt_did_is_left_out),
        cmocka_unit_test(a_slow_rank_gets_less),
        cmocka_unit_test(what_one_rank_cannot_read_fails_for_all),
        cmocka_unit_test(the_task_after_a_failed_one_is_whole),
        cmocka_unit_test(what_a_rank_left_undone_goes_to_the_others),
        cmocka_unit_test(a_batch_that_nobody_asks_for_ends_the_task),
        cmocka_unit_test(a_rank_that_hangs_is_named_and_ends_the_group),
        cmocka_unit_test(a_stop_keeps_what_is_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
