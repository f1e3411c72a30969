/* test_arena.c - offsets of buffers, and the check of them, against plain loops over all pairs. */
#include "engine/plan/arena.h"
#include "engine/plan/overlaps.h"

#include "base/random.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

enum { MOST = 60, LARGE = 100000 };

static bool overlap(const struct hrf_buffer *a, const struct hrf_buffer *b)
{
    return hrf_buffers_are_held_together(a, b) && a->offset < b->offset + b->n_bytes &&
           b->offset < a->offset + a->n_bytes;
}

static int compare_sizes(const void *a, const void *b)
{
    const struct hrf_buffer *u = *(const struct hrf_buffer *const *)a;
    const struct hrf_buffer *v = *(const struct hrf_buffer *const *)b;
    if (u->n_bytes != v->n_bytes)
        return u->n_bytes > v->n_bytes ? -1 : 1;
    return u < v ? -1 : 1;
}

/* The definition: the largest first, each at the lowest multiple of the alignment that is free. */
static void place_plainly(struct hrf_buffer *buffers, int32_t n)
{
    struct hrf_buffer *order[MOST];
    for (int32_t i = 0; i < n; i++)
        order[i] = &buffers[i];
    qsort(order, (size_t)n, sizeof order[0], compare_sizes);
    for (int32_t i = 0; i < n; i++) {
        order[i]->offset = 0;
        for (int32_t k = 0; k < i;) {
            const bool moves = overlap(order[i], order[k]);
            order[i]->offset += moves ? HRF_PLAN_ALIGNMENT : 0;
            k = moves ? 0 : k + 1;
        }
    }
}

static int32_t random_buffers(struct hrf_random *random, struct hrf_buffer *buffers)
{
    const int32_t n = 1 + (int32_t)hrf_random_below(random, MOST);
    const int64_t n_steps = 1 + hrf_random_below(random, 50);
    const int64_t longest = 1 + hrf_random_below(random, n_steps);
    const int64_t n_sizes = 1 + hrf_random_below(random, 12);
    for (int32_t i = 0; i < n; i++) {
        const int32_t first = (int32_t)hrf_random_below(random, n_steps) - 1;
        buffers[i] = (struct hrf_buffer){
            .n_bytes = HRF_PLAN_ALIGNMENT * hrf_random_below(random, n_sizes + 1), /* or none */
            .first = first,
            .last = first + (int32_t)hrf_random_below(random, longest)
        };
    }
    return n;
}

static void every_buffer_is_in_the_lowest_gap(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(1);
    for (int round = 0; round < 500; round++) {
        struct hrf_buffer fast[MOST], plain[MOST];
        int64_t arena = -1, end = 0;
        const int32_t n = random_buffers(&random, fast);
        for (int32_t i = 0; i < n; i++)
            plain[i] = fast[i];
        arena = hrf_buffers_place(fast, n);
        place_plainly(plain, n);
        for (int32_t i = 0; i < n; i++) {
            assert_int_equal(fast[i].offset, plain[i].offset);
            end = plain[i].offset + plain[i].n_bytes > end ? plain[i].offset + plain[i].n_bytes
                                                           : end;
        }
        assert_int_equal(arena, end);
    }
}

static void a_check_finds_the_overlaps_that_there_are(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(2);
    int n_bad = 0;
    for (int round = 0; round < 1000; round++) {
        struct hrf_buffer buffers[MOST];
        struct hrf_plan plan = { .buffers = buffers,
                                 .n_buffers = random_buffers(&random, buffers) };
        struct hrf_error err;
        bool bad = false;
        plan.arena_bytes = hrf_buffers_place(buffers, plan.n_buffers);
        assert_int_equal(hrf_plan_check_overlaps(&plan, &err), HRF_OK);
        struct hrf_buffer *moved = &buffers[hrf_random_below(&random, plan.n_buffers)];
        const int64_t room = (plan.arena_bytes - moved->n_bytes) / HRF_PLAN_ALIGNMENT;
        moved->offset = HRF_PLAN_ALIGNMENT * hrf_random_below(&random, room + 1);
        for (int32_t i = 0; i < plan.n_buffers; i++)
            bad |= &buffers[i] != moved && overlap(&buffers[i], moved);
        assert_int_equal(hrf_plan_check_overlaps(&plan, &err), bad ? HRF_E_BUG : HRF_OK);
        n_bad += bad;
    }
    assert_in_range(n_bad, 200, 800);
}

/* Where every pair is looked at this takes minutes: in turns, as a chain of layers, and all held
 * together. */
static void a_hundred_thousand_buffers_are_placed_and_checked(void **state)
{
    (void)state;
    struct hrf_buffer *buffers = hrf_calloc(LARGE, sizeof *buffers);
    assert_non_null(buffers);
    for (int together = 0; together < 2; together++) {
        struct hrf_plan plan = { .buffers = buffers, .n_buffers = LARGE };
        struct hrf_error err;
        for (int32_t i = 0; i < LARGE; i++)
            buffers[i] = (struct hrf_buffer){ .n_bytes = HRF_PLAN_ALIGNMENT,
                                              .first = i,
                                              .last = together ? LARGE : i + 1 };
        plan.arena_bytes = hrf_buffers_place(buffers, LARGE);
        assert_int_equal(plan.arena_bytes, (together ? LARGE : 2) * HRF_PLAN_ALIGNMENT);
        assert_int_equal(hrf_plan_check_overlaps(&plan, &err), HRF_OK);
        buffers[LARGE / 2].offset = buffers[LARGE / 2 - 1].offset;
        assert_int_equal(hrf_plan_check_overlaps(&plan, &err), HRF_E_BUG);
    }
    hrf_free(buffers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_buffer_is_in_the_lowest_gap),
        cmocka_unit_test(a_check_finds_the_overlaps_that_there_are),
        cmocka_unit_test(a_hundred_thousand_buffers_are_placed_and_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
