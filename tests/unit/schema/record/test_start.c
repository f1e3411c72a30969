/* Places of starts: each goes to one side, and what a driver took back never works unfenced. */
#include "base/alloc.h"
#include "base/path.h"
#include "schema/record/sentinel.h"
#include "schema/record/start.h"
#include "tests/unit/directory.h"
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool take(const char *attempt, int k)
{
    bool is_ours = false;
    assert_int_equal(hrf_start_take(attempt, k, &is_ours, NULL), HRF_OK);
    return is_ours;
}

static bool is_fenced(const char *attempt, int k)
{
    HRF_AUTO_FREE char *place = hrf_start_directory(attempt, k);
    assert_non_null(place);
    return hrf_fence_is_set(place);
}

static void places_are_taken_once_and_in_turn(void **state)
{
    (void)state;
    assert_int_equal(hrf_start_count(directory, 0), 0);
    for (int k = 0; k < 3; k++) {
        assert_true(take(directory, k));
        assert_false(take(directory, k));
        assert_int_equal(hrf_start_count(directory, 0), k + 1);
        assert_int_equal(hrf_start_count(directory, k), k + 1);
    }
    assert_true(hrf_path_exists(file("claim")) && hrf_path_is_directory(file("r2")));
    for (int k = 3; k < HRF_MAX_STARTS; k++)
        assert_true(take(directory, k));
    assert_int_equal(hrf_start_count(directory, 0), HRF_MAX_STARTS);
}

static void a_place_that_cannot_be_taken_is_an_error(void **state)
{
    (void)state;
    bool is_ours = true;
    struct hrf_error err;
    assert_int_equal(hrf_start_take(file("nowhere"), 0, &is_ours, &err), HRF_E_EXTERNAL);
    assert_non_null(strstr(err.text, "/nowhere/claim': No such file or directory"));
    assert_int_equal(hrf_start_take(file("nowhere"), 1, &is_ours, &err), HRF_E_EXTERNAL);
    assert_int_equal(hrf_start_revoke(file("nowhere"), &err), HRF_E_EXTERNAL);
    assert_true(is_ours);
}

static void all_starts_are_revoked_and_those_to_come(void **state)
{
    (void)state;
    assert_int_equal(hrf_start_revoke(directory, NULL), HRF_OK); /* before any */
    assert_true(is_fenced(directory, 0) && !hrf_path_exists(file("claim")));
    for (int k = 0; k < 3; k++)
        assert_true(take(directory, k));
    assert_false(is_fenced(directory, 2));
    assert_int_equal(hrf_start_revoke(directory, NULL), HRF_OK);
    assert_true(is_fenced(directory, 0) && is_fenced(directory, 1) && is_fenced(directory, 2));
    assert_false(hrf_path_exists(file("r3")));
}

/* ---- a driver and a launcher at the same moment ---- */

enum { ROUNDS = 300 };

struct round {
    char attempt[128];
    pthread_barrier_t *both;
    int place;     /* the launcher's */
    bool gives_up; /* it saw the fence before its own place */
};

static void *launcher(void *argument)
{
    struct round *r = argument;
    bool is_ours = false;
    pthread_barrier_wait(r->both);
    while (hrf_start_take(r->attempt, r->place, &is_ours, NULL) == HRF_OK && !is_ours)
        r->place++;
    r->gives_up = is_fenced(r->attempt, r->place > 0 ? r->place - 1 : 0);
    return NULL;
}

static void what_is_taken_back_never_works_unfenced(void **state)
{
    (void)state;
    pthread_barrier_t both;
    int n_taken = 0, n_late = 0;
    assert_int_equal(pthread_barrier_init(&both, NULL, 2), 0);
    for (int i = 0; i < ROUNDS; i++) {
        struct round r = { .both = &both };
        pthread_t thread;
        snprintf(r.attempt, sizeof r.attempt, "%s/a%d", directory, i);
        assert_int_equal(mkdir(r.attempt, 0777), 0);
        assert_int_equal(pthread_create(&thread, NULL, launcher, &r), 0);
        pthread_barrier_wait(&both);
        const bool is_ours = take(r.attempt, 0);
        if (is_ours)
            assert_int_equal(hrf_start_revoke(r.attempt, NULL), HRF_OK);
        pthread_join(thread, NULL);
        assert_int_equal(r.place, is_ours); /* the other has the next one */
        assert_true(is_ours ? r.gives_up || is_fenced(r.attempt, r.place)
                            : !r.gives_up && !is_fenced(r.attempt, r.place));
        n_taken += is_ours;
        n_late += is_ours && !r.gives_up;
    }
    pthread_barrier_destroy(&both);
    printf("of %d: %d taken back, %d of which began before the fence\n", ROUNDS, n_taken, n_late);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)
    const struct CMUnitTest tests[] = {
        TEST(places_are_taken_once_and_in_turn),
        TEST(a_place_that_cannot_be_taken_is_an_error),
        TEST(all_starts_are_revoked_and_those_to_come),
        TEST(what_is_taken_back_never_works_unfenced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
