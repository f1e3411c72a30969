/* The queue cache: drivers of one user share answers, and one driver asks at a time. */
#include "base/alloc.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/host.h"
#include "base/path.h"
#include "orchestrator/executor/slurm/queue_cache.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[64];
static struct hrf_queue_cache *one, *other;

static struct hrf_queue_cache *open_cache(const char *shared, const char *own, const char *site)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_queue_cache *cache = hrf_queue_cache_open(shared, own, site, &err);
    assert_non_null(cache);
    assert_int_equal(err.status, HRF_OK);
    return cache;
}

static int open_both(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/hrf-test-XXXXXX");
    assert_non_null(mkdtemp(directory));
    one = open_cache(directory, "/proc/nowhere", "site");
    other = open_cache(directory, "/proc/nowhere", "site");
    return one != NULL && other != NULL ? 0 : -1;
}

static int close_both(void **state)
{
    (void)state;
    hrf_queue_cache_close(one);
    hrf_queue_cache_close(other);
    return hrf_path_remove_tree(directory, NULL) == HRF_OK ? 0 : -1;
}

static void put(struct hrf_queue_cache *cache, int64_t asked_ms, bool succeeded, const char *text)
{
    char copy[64];
    snprintf(copy, sizeof copy, "%s", text);
    const struct hrf_queue_answer answer = { .asked_ms = asked_ms,
                                             .took_ms = 7,
                                             .succeeded = succeeded,
                                             .text = copy,
                                             .n_bytes = strlen(copy) };
    assert_true(hrf_queue_cache_lock(cache, asked_ms, 1000));
    hrf_queue_cache_put(cache, &answer);
}

static void one_driver_reads_the_answer_of_another(void **state)
{
    (void)state;
    struct hrf_queue_answer answer;
    assert_false(hrf_queue_cache_read(other, 0, &answer));
    put(one, 500, true, "1_0|RUNNING|None|n1|hf-a-1\n2|PENDING|Priority||x\n");
    assert_true(hrf_queue_cache_read(other, 499, &answer));
    assert_true(answer.succeeded && answer.asked_ms == 500 && answer.took_ms == 7);
    assert_string_equal(answer.text, "1_0|RUNNING|None|n1|hf-a-1\n2|PENDING|Priority||x\n");
    assert_true(answer.n_bytes == strlen(answer.text));
    hrf_free(answer.text);
    assert_false(hrf_queue_cache_read(other, 500, &answer)); /* known already */
    put(other, 900, false, "Unable to contact slurm controller");
    assert_true(hrf_queue_cache_read(one, 500, &answer));
    assert_false(answer.succeeded);
    assert_string_equal(answer.text, "Unable to contact slurm controller");
    hrf_free(answer.text);
}

static void no_jobs_at_all_is_an_answer(void **state)
{
    (void)state;
    struct hrf_queue_answer answer;
    put(one, 500, true, "");
    assert_true(hrf_queue_cache_read(other, 0, &answer));
    assert_true(answer.succeeded && answer.n_bytes == 0);
    hrf_free(answer.text);
}

static void one_driver_asks_at_a_time_and_a_hanging_one_loses_the_lock(void **state)
{
    (void)state;
    assert_true(hrf_queue_cache_lock(one, 1000, 500));
    assert_false(hrf_queue_cache_lock(other, 1010, 500));
    assert_false(hrf_queue_cache_lock(other, 1509, 500));
    assert_true(hrf_queue_cache_lock(other, 1510, 500));
    hrf_queue_cache_unlock(one); /* it had lost the lock */
    assert_false(hrf_queue_cache_lock(one, 1520, 500));
    hrf_queue_cache_unlock(other);
    assert_true(hrf_queue_cache_lock(other, 1600, 500));
    assert_false(hrf_queue_cache_lock(one, 1600, 500));
}

/* Writes `text` into the file beside the cache that has this suffix. */
static void write_beside(const char *suffix, const char *text)
{
    HRF_AUTO_FREE char *path = hrf_format("%s%s", hrf_queue_cache_path(one), suffix);
    assert_int_equal(hrf_file_write_atomic(path, text, strlen(text), NULL), HRF_OK);
}

static void a_lock_belongs_to_a_live_process(void **state)
{
    (void)state;
    char boot[40], host[128], space[64] = "", text[400];
    hrf_process_boot_id(boot);
    hrf_process_host_name(host, sizeof host);
    assert_true(readlink("/proc/self/ns/pid", space, sizeof space - 1) > 0);
    /* A dead process of this machine, and a process from before its last boot. */
    snprintf(text, sizeof text, "hires-flow turn 1 %s %s %s 999999 7 1\n", host, boot, space);
    write_beside(".turn", text);
    assert_true(hrf_queue_cache_lock(one, 1000, 500));
    hrf_queue_cache_unlock(one);
    snprintf(text, sizeof text, "hires-flow turn 1 %s before %s 1 7 1\n", host, space);
    write_beside(".turn", text);
    assert_true(hrf_queue_cache_lock(one, 1000, 500));
    hrf_queue_cache_unlock(one);
    /* A process of another machine, and an unreadable holder: each is waited for once. */
    static const char *const others[] = { "hires-flow turn 1 far away pid:[1] 1 7 1\n",
                                          "hires-flow turn 1 far away pid:[1] 1 7 2\n", "", "?" };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const int64_t now = 2000 + 400 * (int64_t)i;
        write_beside(".turn", others[i]);
        assert_false(hrf_queue_cache_lock(one, now, 500));
        assert_false(hrf_queue_cache_lock(one, now + 399, 500));
    }
    assert_true(hrf_queue_cache_lock(one, 3700, 500));
    assert_false(hrf_queue_cache_lock(other, 3700, 500));
}

static void another_machines_answer_is_read_once_and_has_no_time(void **state)
{
    (void)state;
    struct hrf_queue_answer answer;
    write_beside("", "hires-flow squeue 2 far 900 7 1 4\nold\n");
    struct hrf_queue_cache *late = open_cache(directory, "/proc/nowhere", "site");
    assert_false(hrf_queue_cache_read(late, 0, &answer)); /* it is older than this cache */
    for (int i = 0; i < 2; i++) {
        char text[80];
        snprintf(text, sizeof text, "hires-flow squeue 2 far %d 7 1 4\nnew\n", 100 + i);
        write_beside("", text);
        assert_true(hrf_queue_cache_read(late, 1 << 30, &answer));
        assert_true(answer.is_from_other_host && answer.succeeded && answer.asked_ms == 0 &&
                    answer.took_ms == 7);
        assert_string_equal(answer.text, "new\n");
        hrf_free(answer.text);
        assert_false(hrf_queue_cache_read(late, 0, &answer));
    }
    put(one, 900, true, "mine\n"); /* then an answer of this machine again */
    assert_true(hrf_queue_cache_read(late, 899, &answer));
    assert_true(!answer.is_from_other_host && answer.asked_ms == 900);
    hrf_free(answer.text);
    hrf_queue_cache_close(late);
}

static void a_driver_that_lost_the_lock_publishes_nothing(void **state)
{
    (void)state;
    struct hrf_queue_answer answer = { .asked_ms = 1000, .succeeded = true, .text = directory },
                            read;
    assert_true(hrf_queue_cache_lock(one, 1000, 500));
    assert_false(hrf_queue_cache_lock(other, 1100, 500));
    assert_true(hrf_queue_cache_lock(other, 1600, 500));
    hrf_queue_cache_put(one, &answer);
    assert_false(hrf_queue_cache_read(other, 0, &read));
    assert_false(
        hrf_queue_cache_lock(one, 1700, 500)); /* and it does not remove the lock of the other */
    hrf_queue_cache_put(other, &answer);
    assert_true(hrf_queue_cache_read(one, 0, &read));
    hrf_free(read.text);
}

static void a_damaged_cache_gives_no_answer(void **state)
{
    (void)state;
    static const char *const heads[] = { "",
                                         "hires-flow squeue 2 ",
                                         "hires-flow squeue 2  1 1 1 0\n",
                                         "hires-flow squeue 2 far\n",
                                         "hires-flow squeue 2 far 1 1 1 5\nfour",
                                         "hires-flow squeue 1 x 900 7 1 0\n",
                                         "\n\n\n" };
    struct hrf_queue_answer answer;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        write_beside("", heads[i]);
        assert_false(hrf_queue_cache_read(one, 0, &answer));
    }
    put(other, 900, true, "1|RUNNING|None|n1|a\n");
    HRF_AUTO_FREE char *text = NULL;
    size_t n;
    assert_int_equal(hrf_file_read(hrf_queue_cache_path(one), 1 << 20, &text, &n, NULL), HRF_OK);
    for (size_t k = 0; k < n; k++) { /* truncated at every length */
        HRF_AUTO_FREE char *cut = hrf_strndup(text, k);
        write_beside("", cut);
        assert_false(hrf_queue_cache_read(one, 0, &answer));
    }
    write_beside("", text);
    assert_true(hrf_queue_cache_read(one, 0, &answer));
    hrf_free(answer.text);
}

static void each_controller_has_its_own_cache(void **state)
{
    (void)state;
    struct hrf_queue_cache *far = open_cache(directory, "/proc/nowhere", "another");
    struct hrf_queue_answer answer;
    put(one, 500, true, "x\n");
    assert_false(hrf_queue_cache_read(far, 0, &answer));
    assert_true(hrf_queue_cache_lock(one, 600, 1000));
    assert_true(hrf_queue_cache_lock(far, 600, 1000));
    hrf_queue_cache_close(far);
}

static void without_a_shared_directory_this_machine_has_its_own_cache(void **state)
{
    (void)state;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_FREE char *own = hrf_path_join(directory, "own");
    struct hrf_queue_cache *cache = hrf_queue_cache_open("/proc/nowhere", own, "site", &err);
    assert_non_null(strstr(err.text, "/proc/nowhere"));
    assert_non_null(strstr(hrf_queue_cache_path(cache), own));
    put(cache, 500, true, "x\n");
    hrf_queue_cache_close(cache);
    /* What others can write is not believed. */
    assert_int_equal(chmod(own, 0777), 0);
    assert_null(hrf_queue_cache_open("/proc/nowhere", own, "site", &err));
}

static void without_a_folder_each_asks_for_itself(void **state)
{
    (void)state;
    struct hrf_queue_answer answer;
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_queue_cache *cache = hrf_queue_cache_open("/proc/nowhere", "/proc/none", "s", &err);
    assert_null(cache);
    assert_non_null(strstr(err.text, "/proc/nowhere"));
    assert_true(hrf_queue_cache_lock(cache, 1, 1000));
    assert_true(hrf_queue_cache_lock(cache, 2, 1000));
    assert_false(hrf_queue_cache_read(cache, 0, &answer));
    hrf_queue_cache_close(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_driver_reads_the_answer_of_another, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(no_jobs_at_all_is_an_answer, open_both, close_both),
        cmocka_unit_test_setup_teardown(one_driver_asks_at_a_time_and_a_hanging_one_loses_the_lock,
                                        open_both, close_both),
        cmocka_unit_test_setup_teardown(a_lock_belongs_to_a_live_process, open_both, close_both),
        cmocka_unit_test_setup_teardown(another_machines_answer_is_read_once_and_has_no_time,
                                        open_both, close_both),
        cmocka_unit_test_setup_teardown(a_driver_that_lost_the_lock_publishes_nothing, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_damaged_cache_gives_no_answer, open_both, close_both),
        cmocka_unit_test_setup_teardown(each_controller_has_its_own_cache, open_both, close_both),
        cmocka_unit_test_setup_teardown(without_a_shared_directory_this_machine_has_its_own_cache,
                                        open_both, close_both),
        cmocka_unit_test(without_a_folder_each_asks_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
