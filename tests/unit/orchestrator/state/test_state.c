/* Judgement and retries, by value. */
#include "orchestrator/state/state.h"
#include "tests/unit/unit.h"

#include <signal.h>

static void an_end_is_judged_by_both_sources(void **state)
{
    (void)state;
    static const struct {
        struct hrf_end_evidence evidence;
        enum hrf_end end;
    } cases[] = {
        { { .has_sentinel = true, .exited = true }, HRF_END_NO_RESULT },
        { { .has_sentinel = true, .exited = true, .cause = HRF_CAUSE_MEMORY }, HRF_END_MEMORY },
        { { .has_sentinel = true, .exited = true, .was_out_of_memory = true }, HRF_END_MEMORY },
        { { .has_sentinel = true, .signal = SIGKILL, .was_out_of_memory = true }, HRF_END_MEMORY },
        { { .has_sentinel = true, .exited = true, .exit_code = 7 }, HRF_END_ERROR },
        { { .has_sentinel = true, .exited = true, .exit_code = 7, .cause = HRF_CAUSE_FAILED },
          HRF_END_ERROR },
        { { .has_sentinel = true, .exited = true, .exit_code = 5 }, HRF_END_MEMORY },
        { { .has_sentinel = true, .exited = true, .exit_code = 127, .node_lacks = true },
          HRF_END_NODE_LACKS },
        { { .has_sentinel = true, .exited = true, .exit_code = 75 }, HRF_END_TRY_AGAIN },
        { { .has_sentinel = true, .exited = true, .exit_code = 75, .was_asked = true },
          HRF_END_KILLED },
        { { .has_sentinel = true, .exited = true, .exit_code = 75, .was_warned = true },
          HRF_END_TIME_LIMIT },
        { { .has_sentinel = true, .exited = true, .exit_code = 75, .cause = HRF_CAUSE_PREEMPTED },
          HRF_END_PREEMPTED },
        { { .has_sentinel = true, .exited = true, .exit_code = 75, .cause = HRF_CAUSE_CANCELLED },
          HRF_END_CANCELLED },
        { { .has_sentinel = true, .signal = SIGSEGV }, HRF_END_CRASH },
        { { .has_sentinel = true, .signal = SIGABRT }, HRF_END_CRASH },
        { { .has_sentinel = true, .signal = SIGBUS }, HRF_END_CRASH },
        { { .has_sentinel = true }, HRF_END_CRASH }, /* ranks ended, it is not known how */
        { { .has_sentinel = true, .signal = SIGKILL }, HRF_END_KILLED },
        { { .has_sentinel = true, .signal = SIGTERM }, HRF_END_KILLED },
        { { .has_sentinel = true, .cause = HRF_CAUSE_TIME_LIMIT }, HRF_END_TIME_LIMIT },
        { { .has_sentinel = true, .cause = HRF_CAUSE_NODE }, HRF_END_LOST },
        { { .cause = HRF_CAUSE_NONE }, HRF_END_LOST }, /* it says "completed": not believed */
        { { .cause = HRF_CAUSE_FAILED, .has_begun = true }, HRF_END_LOST },
        { { .cause = HRF_CAUSE_FAILED }, HRF_END_NOT_BEGUN },
        { { .cause = HRF_CAUSE_NODE }, HRF_END_LOST },
        { { .cause = HRF_CAUSE_TIME_LIMIT }, HRF_END_TIME_LIMIT },
        { { .cause = HRF_CAUSE_MEMORY }, HRF_END_MEMORY },
        { { .cause = HRF_CAUSE_PREEMPTED }, HRF_END_PREEMPTED },
        { { .cause = HRF_CAUSE_CANCELLED }, HRF_END_CANCELLED },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (hrf_state_judge(&cases[i].evidence) != cases[i].end)
            fail_msg("case %zu: %d, not %d", i, (int)hrf_state_judge(&cases[i].evidence),
                     (int)cases[i].end);
}

static const struct hrf_retry_policy policy = {
    .retries = 2, .base_ms = 100, .max_ms = 1000, .can_grow = true
};

enum { FOR_EVER = 500 };

/* How often a task that always ends like this is tried in all. */
static int64_t tries(enum hrf_end end, bool progress)
{
    struct hrf_random random = hrf_random_init(1);
    struct hrf_end_counts counts = { { 0 } };
    int64_t n_tries = 0;
    for (int64_t n = 1; n < FOR_EVER; n++) {
        struct hrf_retry retry = hrf_state_retry(&policy, end, n_tries, progress, &counts, &random);
        assert_true(retry.delay_ms >= 0 && retry.delay_ms <= 1000);
        if (!retry.again)
            return n;
        n_tries = retry.n_tries;
    }
    return FOR_EVER;
}

static void each_kind_of_end_has_its_own_patience(void **state)
{
    (void)state;
    static const struct {
        enum hrf_end end;
        int64_t tries, tries_with_progress;
    } cases[HRF_N_ENDS] = {
        { HRF_END_NO_RESULT, 3, 3 },
        { HRF_END_FAILED, 3, 3 },
        { HRF_END_CRASH, 3, FOR_EVER }, /* progress: each brings the end nearer */
        { HRF_END_MEMORY, 3, 3 },
        { HRF_END_ERROR, 1, 1 },
        { HRF_END_TRY_AGAIN, 6, FOR_EVER },
        { HRF_END_TIME_LIMIT, 6, FOR_EVER },
        { HRF_END_DAMAGED, 6, FOR_EVER },
        { HRF_END_HUNG, 6, FOR_EVER },
        { HRF_END_KILLED, 21, FOR_EVER },
        { HRF_END_LOST, 11, FOR_EVER },
        { HRF_END_PREEMPTED, 101, FOR_EVER },
        { HRF_END_CANCELLED, 1, 1 },
        { HRF_END_NOT_BEGUN, 6, FOR_EVER },
        { HRF_END_NODE_LACKS, 6, FOR_EVER },
        { HRF_END_WITHDRAWN, FOR_EVER, FOR_EVER }, /* each is a command of the user's */
    };
    for (size_t i = 0; i < HRF_N_ENDS; i++) {
        assert_int_equal(cases[i].end, i);
        assert_int_equal(tries(cases[i].end, false), cases[i].tries);
        assert_int_equal(tries(cases[i].end, true), cases[i].tries_with_progress);
    }
}

static void what_is_not_the_tasks_fault_takes_no_try(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(1);
    struct hrf_end_counts counts = { { 0 } };
    static const enum hrf_end outside[] = { HRF_END_KILLED, HRF_END_LOST, HRF_END_PREEMPTED,
                                            HRF_END_HUNG, HRF_END_DAMAGED };
    for (int round = 0; round < 5; round++) { /* each kind counts for itself */
        for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
            const struct hrf_retry r = hrf_state_retry(&policy, outside[i], 2, false, &counts,
                                                       &random);
            assert_true(r.again);
            assert_int_equal(r.n_tries, 2);
            assert_int_equal(r.n_in_a_row, round + 1);
        }
    }
    assert_false(hrf_state_retry(&policy, HRF_END_HUNG, 0, false, &counts, &random).again);
    struct hrf_retry r = hrf_state_retry(&policy, HRF_END_KILLED, 2, true, &counts, &random);
    assert_true(r.again && r.n_in_a_row == 0); /* progress: they are no longer in a row */
    assert_true(hrf_state_retry(&policy, HRF_END_HUNG, 0, false, &counts, &random).again);
    r = hrf_state_retry(&policy, HRF_END_CRASH, 1, false, &counts, &random);
    assert_true(r.again && r.n_tries == 2);
    assert_false(hrf_state_retry(&policy, HRF_END_CRASH, 2, false, &counts, &random).again);
}

static void more_retries_than_a_limit_widen_it(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(1);
    struct hrf_end_counts counts = { { 0 } };
    const struct hrf_retry_policy patient = { .retries = 8 };
    for (int i = 0; i < 8; i++)
        assert_true(hrf_state_retry(&patient, HRF_END_TRY_AGAIN, 0, false, &counts, &random).again);
    assert_false(hrf_state_retry(&patient, HRF_END_TRY_AGAIN, 0, false, &counts, &random).again);
}

static void more_is_given_of_what_was_wanting(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(1);
    struct hrf_end_counts counts = { { 0 } };
    struct hrf_retry r = hrf_state_retry(&policy, HRF_END_MEMORY, 0, false, &counts, &random);
    assert_true(r.more_memory == 1 && r.more_time == 0);
    r = hrf_state_retry(&policy, HRF_END_TIME_LIMIT, 0, false, &counts, &random);
    assert_true(r.more_memory == 0 && r.more_time == 1);
    r = hrf_state_retry(&policy, HRF_END_TIME_LIMIT, 0, true, &counts,
                        &random); /* the rest is less */
    assert_int_equal(r.more_time, 0);
    const struct hrf_retry_policy fixed = { .retries = 2 }; /* a machine cannot be asked for more */
    r = hrf_state_retry(&fixed, HRF_END_MEMORY, 0, false, &counts, &random);
    assert_true(r.again && r.more_memory == 0);
    assert_int_equal(hrf_state_grow(100, 0, 0), 100);
    assert_int_equal(hrf_state_grow(100, 2, 0), 225);
    assert_int_equal(hrf_state_grow(100, 2, 200), 200);
    assert_int_equal(hrf_state_grow(300, 2, 200), 300); /* what was asked for stays asked for */
    assert_int_equal(hrf_state_grow(1, 3, 0), 4);
    assert_true(hrf_state_grow(INT64_MAX / 2 + 1, 90, 0) > 0); /* no overflow */
}

static void a_machine_that_lost_two_jobs_is_excluded_for_an_hour(void **state)
{
    (void)state;
    struct hrf_node_exclusion exclusion = { .n_items = 0 };
    char out[64];
    hrf_node_exclusion_add_failure(&exclusion, "n3", 1000);
    hrf_node_exclusion_list(&exclusion, 1000, out, sizeof out);
    assert_string_equal(out, "");
    hrf_node_exclusion_add_failure(&exclusion, "n7", 1500);
    hrf_node_exclusion_add_failure(&exclusion, "n3", 2000);
    hrf_node_exclusion_add_failure(&exclusion, "", 2000);
    hrf_node_exclusion_list(&exclusion, 2000, out, sizeof out);
    assert_string_equal(out, "n3");
    hrf_node_exclusion_add_failure(&exclusion, "n7", 2500);
    hrf_node_exclusion_list(&exclusion, 2500, out, sizeof out);
    assert_string_equal(out, "n3,n7");
    hrf_node_exclusion_list(&exclusion, 2000 + HRF_EXCLUSION_MS, out, sizeof out);
    assert_string_equal(out, "n7");
    hrf_node_exclusion_add_failure(&exclusion, "n3",
                                   2000 + HRF_EXCLUSION_MS); /* the old ones are forgotten */
    hrf_node_exclusion_list(&exclusion, 2001 + HRF_EXCLUSION_MS, out, sizeof out);
    assert_string_equal(out, "n7");
    for (int i = 0; i < 3 * HRF_EXCLUSION_MAX_NODES; i++) {
        char node[16] = { 'x', (char)('a' + i / 26), (char)('a' + i % 26), '\0' };
        hrf_node_exclusion_add_failure(&exclusion, node, 5000);
    }
    assert_true(exclusion.n_items <= HRF_EXCLUSION_MAX_NODES);
}

static void the_same_fault_in_a_row_opens_the_breaker(void **state)
{
    (void)state;
    struct hrf_breaker breaker = { .n_in_a_row = 0 };
    bool open = false;
    for (int i = 0; i < HRF_BREAKER_LIMIT; i++)
        open = hrf_breaker_failed(&breaker, "no such module", 100);
    assert_true(open);
    hrf_breaker_succeeded(&breaker);
    assert_false(hrf_breaker_failed(&breaker, "no such module", 100));
    assert_false(hrf_breaker_failed(&breaker, "another", 100));
}

/* A bad node is left out after two failures; more of them in a row mean that this does not help. */
static void one_bad_node_opens_no_breaker_but_two_do(void **state)
{
    (void)state;
    struct hrf_node_breaker one = { .node = "" }, two = { .node = "" }, unknown = { .node = "" };
    for (int i = 1; i <= 6; i++)
        assert_int_equal(hrf_node_breaker_failed(&one, "/data", "n1"), i == 6);
    assert_false(hrf_node_breaker_failed(&two, "/data", "n1"));
    assert_false(hrf_node_breaker_failed(&two, "/data", "n1"));
    assert_true(hrf_node_breaker_failed(&two, "/data", "n2"));
    hrf_breaker_succeeded(&two.failures);
    assert_false(hrf_node_breaker_failed(&two, "/data", "n2"));
    assert_false(hrf_node_breaker_failed(&two, "/models", "n3"));
    for (int i = 1; i <= 3; i++)
        assert_int_equal(hrf_node_breaker_failed(&unknown, "", ""), i == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_is_judged_by_both_sources),
        cmocka_unit_test(each_kind_of_end_has_its_own_patience),
        cmocka_unit_test(what_is_not_the_tasks_fault_takes_no_try),
        cmocka_unit_test(more_retries_than_a_limit_widen_it),
        cmocka_unit_test(more_is_given_of_what_was_wanting),
        cmocka_unit_test(a_machine_that_lost_two_jobs_is_excluded_for_an_hour),
        cmocka_unit_test(the_same_fault_in_a_row_opens_the_breaker),
        cmocka_unit_test(one_bad_node_opens_no_breaker_but_two_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
