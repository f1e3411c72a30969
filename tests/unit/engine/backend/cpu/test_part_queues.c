/* Parts shared out among threads: each is taken once, a thread's own first. */
#include "tests/unit/unit.h"

#include "base/alloc.h"
#include "engine/backend/cpu/part_queues.h"

#include <omp.h>

enum { MOST_THREADS = 5, MOST_PARTS = 40 };

static void every_part_is_taken_once(void **state)
{
    (void)state;
    struct hrf_part_queue of[MOST_THREADS];
    for (int64_t n_threads = 1; n_threads <= MOST_THREADS; n_threads++)
        for (int64_t n = 0; n <= MOST_PARTS; n++) {
            int times[MOST_PARTS] = { 0 };
            const struct hrf_part_queues parts = hrf_part_queues_begin(of, n_threads, n);
#pragma omp parallel num_threads(4) /* sometimes more than stretches, sometimes fewer */
            for (int64_t i; (i = hrf_part_queues_take(&parts)) >= 0;) {
#pragma omp atomic
                times[i]++;
            }
            for (int64_t i = 0; i < n; i++)
                assert_int_equal(times[i], 1);
        }
}

static void a_thread_takes_its_own_parts_in_order_before_the_others(void **state)
{
    (void)state;
    struct hrf_part_queue of[3];
    const struct hrf_part_queues parts = hrf_part_queues_begin(of, 3, 7); /* 0 1, 2 3, 4 5 6 */
    int64_t firsts[3] = { -1, -1, -1 };
#pragma omp parallel for num_threads(3) schedule(static, 1)
    for (int64_t thread = 0; thread < 3; thread++)
        firsts[thread] = hrf_part_queues_take(&parts);
    assert_int_equal(firsts[0], 0);
    assert_int_equal(firsts[1], 2);
    assert_int_equal(firsts[2], 4);
    static const int64_t left[] = { 1, 3, 5, 6, -1, -1 };
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
        assert_int_equal(hrf_part_queues_take(&parts), left[i]);
}

/* Counts in each thread's scratch: what a part finds there is what the thread's last one left. */
struct counted {
    int times[MOST_PARTS], wrong;
};

static void count_part(const void *context, int64_t part, int64_t before, void *scratch)
{
    struct counted *counted = (struct counted *)(uintptr_t)context;
    int64_t *last = scratch;
    const bool is_wrong = (uintptr_t)scratch % HRF_BUFFER_ALIGNMENT != 0 ||
                          (before >= 0 && *last != before);
    *last = part;
#pragma omp atomic
    counted->times[part]++;
#pragma omp atomic
    counted->wrong += is_wrong;
}

static void parts_run_once_with_the_scratch_of_their_thread(void **state)
{
    (void)state;
    for (int64_t n_threads = 1; n_threads <= MOST_THREADS; n_threads++) {
        struct counted counted = { .wrong = 0 };
        void *workspace = hrf_alloc_aligned(hrf_parts_workspace(n_threads, sizeof(int64_t)),
                                            HRF_BUFFER_ALIGNMENT);
        omp_set_num_threads((int)n_threads);
        hrf_parts_run(workspace, n_threads, MOST_PARTS, sizeof(int64_t), count_part, &counted);
        hrf_free(workspace);
        assert_int_equal(counted.wrong, 0);
        for (int64_t i = 0; i < MOST_PARTS; i++)
            assert_int_equal(counted.times[i], 1);
    }
}

static void threads_that_idle_for_more_than_an_eighth_are_uneven(void **state)
{
    (void)state;
    assert_true(hrf_part_queues_are_even(16, 16));
    assert_true(hrf_part_queues_are_even(9, 2));    /* 4 and 5 */
    assert_false(hrf_part_queues_are_even(7, 2));   /* 3 and 4 */
    assert_false(hrf_part_queues_are_even(17, 16)); /* one thread has two, 15 wait for it */
    assert_false(hrf_part_queues_are_even(1, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_is_taken_once),
        cmocka_unit_test(a_thread_takes_its_own_parts_in_order_before_the_others),
        cmocka_unit_test(parts_run_once_with_the_scratch_of_their_thread),
        cmocka_unit_test(threads_that_idle_for_more_than_an_eighth_are_uneven),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
