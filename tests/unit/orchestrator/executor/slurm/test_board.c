/* Drivers of a user and one board: what one was told the others read, and one asks at a time. */
#include "base/alloc.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/host.h"
#include "base/path.h"
#include "orchestrator/executor/slurm/board.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[64];
static struct hrf_slurm_board *one, *other;

static struct hrf_slurm_board *open_board(const char *shared, const char *own, const char *site)
{
    struct hrf_slurm_board *board = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_slurm_board_open(shared, own, site, &board, &err), HRF_OK);
    assert_int_equal(err.status, HRF_OK);
    return board;
}

static int open_both(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/hrf-test-XXXXXX");
    assert_non_null(mkdtemp(directory));
    one = open_board(directory, "/proc/nowhere", "site");
    other = open_board(directory, "/proc/nowhere", "site");
    return one != NULL && other != NULL ? 0 : -1;
}

static int close_both(void **state)
{
    (void)state;
    hrf_slurm_board_close(one);
    hrf_slurm_board_close(other);
    return hrf_path_remove_tree(directory, NULL) == HRF_OK ? 0 : -1;
}

static void put(struct hrf_slurm_board *board, int64_t asked_ms, bool well, const char *text)
{
    char copy[64];
    snprintf(copy, sizeof copy, "%s", text);
    const struct hrf_slurm_news news = {
        .asked_ms = asked_ms, .took_ms = 7, .well = well, .text = copy, .n_bytes = strlen(copy)
    };
    assert_true(hrf_slurm_board_take_turn(board, asked_ms, 1000));
    hrf_slurm_board_put(board, &news);
}

static void what_one_driver_was_told_another_reads(void **state)
{
    (void)state;
    struct hrf_slurm_news news;
    assert_false(hrf_slurm_board_read(other, 0, &news));
    put(one, 500, true, "1_0|RUNNING|None|n1|hf-a-1\n2|PENDING|Priority||x\n");
    assert_true(hrf_slurm_board_read(other, 499, &news));
    assert_true(news.well && news.asked_ms == 500 && news.took_ms == 7);
    assert_string_equal(news.text, "1_0|RUNNING|None|n1|hf-a-1\n2|PENDING|Priority||x\n");
    assert_true(news.n_bytes == strlen(news.text));
    hrf_free(news.text);
    assert_false(hrf_slurm_board_read(other, 500, &news)); /* known already */
    put(other, 900, false, "Unable to contact slurm controller");
    assert_true(hrf_slurm_board_read(one, 500, &news));
    assert_false(news.well);
    assert_string_equal(news.text, "Unable to contact slurm controller");
    hrf_free(news.text);
}

static void no_jobs_at_all_is_an_answer(void **state)
{
    (void)state;
    struct hrf_slurm_news news;
    put(one, 500, true, "");
    assert_true(hrf_slurm_board_read(other, 0, &news));
    assert_true(news.well && news.n_bytes == 0);
    hrf_free(news.text);
}

static void one_asks_at_a_time_and_one_that_hangs_is_not_waited_for(void **state)
{
    (void)state;
    assert_true(hrf_slurm_board_take_turn(one, 1000, 500));
    assert_false(hrf_slurm_board_take_turn(other, 1010, 500));
    assert_false(hrf_slurm_board_take_turn(other, 1509, 500));
    assert_true(hrf_slurm_board_take_turn(other, 1510, 500));
    hrf_slurm_board_give_back(one); /* which it had lost */
    assert_false(hrf_slurm_board_take_turn(one, 1520, 500));
    hrf_slurm_board_give_back(other);
    assert_true(hrf_slurm_board_take_turn(other, 1600, 500));
    assert_false(hrf_slurm_board_take_turn(one, 1600, 500));
}

/* What stands in a file beside the board while `text` is written there by hand. */
static void write_beside(const char *suffix, const char *text)
{
    HRF_AUTO_FREE char *path = hrf_format("%s%s", hrf_slurm_board_path(one), suffix);
    assert_int_equal(hrf_file_write_atomic(path, text, strlen(text), NULL), HRF_OK);
}

static void a_turn_is_a_process_that_lives(void **state)
{
    (void)state;
    char boot[40], host[128], space[64] = "", text[400];
    hrf_process_boot_id(boot);
    hrf_process_host_name(host, sizeof host);
    assert_true(readlink("/proc/self/ns/pid", space, sizeof space - 1) > 0);
    /* Of this machine, and dead; of this machine before it was started again. */
    snprintf(text, sizeof text, "hires-flow turn 1 %s %s %s 999999 7 1\n", host, boot, space);
    write_beside(".turn", text);
    assert_true(hrf_slurm_board_take_turn(one, 1000, 500));
    hrf_slurm_board_give_back(one);
    snprintf(text, sizeof text, "hires-flow turn 1 %s before %s 1 7 1\n", host, space);
    write_beside(".turn", text);
    assert_true(hrf_slurm_board_take_turn(one, 1000, 500));
    hrf_slurm_board_give_back(one);
    /* Of another machine, and of nobody knows what: waited for, and for one turn only. */
    static const char *const others[] = { "hires-flow turn 1 far away pid:[1] 1 7 1\n",
                                          "hires-flow turn 1 far away pid:[1] 1 7 2\n", "", "?" };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const int64_t now = 2000 + 400 * (int64_t)i;
        write_beside(".turn", others[i]);
        assert_false(hrf_slurm_board_take_turn(one, now, 500));
        assert_false(hrf_slurm_board_take_turn(one, now + 399, 500));
    }
    assert_true(hrf_slurm_board_take_turn(one, 3700, 500));
    assert_false(hrf_slurm_board_take_turn(other, 3700, 500));
}

static void another_machines_answer_is_read_once_and_has_no_time(void **state)
{
    (void)state;
    struct hrf_slurm_news news;
    write_beside("", "hires-flow squeue 2 far 900 7 1 4\nold\n");
    struct hrf_slurm_board *late = open_board(directory, "/proc/nowhere", "site");
    assert_false(hrf_slurm_board_read(late, 0, &news)); /* it stood there before */
    for (int i = 0; i < 2; i++) {
        char text[80];
        snprintf(text, sizeof text, "hires-flow squeue 2 far %d 7 1 4\nnew\n", 100 + i);
        write_beside("", text);
        assert_true(hrf_slurm_board_read(late, 1 << 30, &news));
        assert_true(news.is_foreign && news.well && news.asked_ms == 0 && news.took_ms == 7);
        assert_string_equal(news.text, "new\n");
        hrf_free(news.text);
        assert_false(hrf_slurm_board_read(late, 0, &news));
    }
    put(one, 900, true, "mine\n"); /* and then one of this machine again */
    assert_true(hrf_slurm_board_read(late, 899, &news));
    assert_true(!news.is_foreign && news.asked_ms == 900);
    hrf_free(news.text);
    hrf_slurm_board_close(late);
}

static void a_turn_that_was_taken_over_puts_up_nothing(void **state)
{
    (void)state;
    struct hrf_slurm_news news = { .asked_ms = 1000, .well = true, .text = directory }, read;
    assert_true(hrf_slurm_board_take_turn(one, 1000, 500));
    assert_false(hrf_slurm_board_take_turn(other, 1100, 500));
    assert_true(hrf_slurm_board_take_turn(other, 1600, 500));
    hrf_slurm_board_put(one, &news);
    assert_false(hrf_slurm_board_read(other, 0, &read));
    assert_false(hrf_slurm_board_take_turn(one, 1700, 500)); /* and does not end the other's */
    hrf_slurm_board_put(other, &news);
    assert_true(hrf_slurm_board_read(one, 0, &read));
    hrf_free(read.text);
}

static void a_board_that_is_damaged_says_nothing(void **state)
{
    (void)state;
    static const char *const heads[] = { "",
                                         "hires-flow squeue 2 ",
                                         "hires-flow squeue 2  1 1 1 0\n",
                                         "hires-flow squeue 2 far\n",
                                         "hires-flow squeue 2 far 1 1 1 5\nfour",
                                         "hires-flow squeue 1 x 900 7 1 0\n",
                                         "\n\n\n" };
    struct hrf_slurm_news news;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        write_beside("", heads[i]);
        assert_false(hrf_slurm_board_read(one, 0, &news));
    }
    put(other, 900, true, "1|RUNNING|None|n1|a\n");
    HRF_AUTO_FREE char *text = NULL;
    size_t n;
    assert_int_equal(hrf_file_read(hrf_slurm_board_path(one), 1 << 20, &text, &n, NULL), HRF_OK);
    for (size_t k = 0; k < n; k++) { /* cut short anywhere */
        HRF_AUTO_FREE char *cut = hrf_strndup(text, k);
        write_beside("", cut);
        assert_false(hrf_slurm_board_read(one, 0, &news));
    }
    write_beside("", text);
    assert_true(hrf_slurm_board_read(one, 0, &news));
    hrf_free(news.text);
}

static void controllers_have_boards_of_their_own(void **state)
{
    (void)state;
    struct hrf_slurm_board *far = open_board(directory, "/proc/nowhere", "another");
    struct hrf_slurm_news news;
    put(one, 500, true, "x\n");
    assert_false(hrf_slurm_board_read(far, 0, &news));
    assert_true(hrf_slurm_board_take_turn(one, 600, 1000));
    assert_true(hrf_slurm_board_take_turn(far, 600, 1000));
    hrf_slurm_board_close(far);
}

static void where_the_cache_cannot_be_written_this_machine_has_a_board(void **state)
{
    (void)state;
    struct hrf_slurm_board *board = NULL;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_FREE char *own = hrf_path_join(directory, "own");
    assert_int_equal(hrf_slurm_board_open("/proc/nowhere", own, "site", &board, &err), HRF_OK);
    assert_non_null(strstr(err.text, "/proc/nowhere"));
    assert_non_null(strstr(hrf_slurm_board_path(board), own));
    put(board, 500, true, "x\n");
    hrf_slurm_board_close(board);
    /* What others can write is not believed. */
    assert_int_equal(chmod(own, 0777), 0);
    assert_int_equal(hrf_slurm_board_open("/proc/nowhere", own, "site", &board, &err), HRF_OK);
    assert_null(board);
}

static void without_a_folder_each_asks_for_itself(void **state)
{
    (void)state;
    struct hrf_slurm_board *board = one;
    struct hrf_slurm_news news;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_slurm_board_open("/proc/nowhere", "/proc/none", "s", &board, &err),
                     HRF_OK);
    assert_null(board);
    assert_non_null(strstr(err.text, "/proc/nowhere"));
    assert_true(hrf_slurm_board_take_turn(board, 1, 1000));
    assert_true(hrf_slurm_board_take_turn(board, 2, 1000));
    assert_false(hrf_slurm_board_read(board, 0, &news));
    hrf_slurm_board_close(board);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_one_driver_was_told_another_reads, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(no_jobs_at_all_is_an_answer, open_both, close_both),
        cmocka_unit_test_setup_teardown(one_asks_at_a_time_and_one_that_hangs_is_not_waited_for,
                                        open_both, close_both),
        cmocka_unit_test_setup_teardown(a_turn_is_a_process_that_lives, open_both, close_both),
        cmocka_unit_test_setup_teardown(another_machines_answer_is_read_once_and_has_no_time,
                                        open_both, close_both),
        cmocka_unit_test_setup_teardown(a_turn_that_was_taken_over_puts_up_nothing, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_board_that_is_damaged_says_nothing, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(controllers_have_boards_of_their_own, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(where_the_cache_cannot_be_written_this_machine_has_a_board,
                                        open_both, close_both),
        cmocka_unit_test(without_a_folder_each_asks_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
