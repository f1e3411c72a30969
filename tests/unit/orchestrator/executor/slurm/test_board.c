/* Two drivers of a user and one board: what one was told the other reads, and one asks at a time.
 */
#include "base/alloc.h"
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

static int open_both(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/hrf-test-XXXXXX");
    struct hrf_error err = { .status = HRF_OK };
    return mkdtemp(directory) != NULL && hrf_slurm_board_open(directory, &one, &err) == HRF_OK &&
                   hrf_slurm_board_open(directory, &other, &err) == HRF_OK && err.status == HRF_OK
               ? 0
               : -1;
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
    const struct hrf_slurm_news news = { .asked_ms = 1510, .well = true, .text = directory };
    hrf_slurm_board_put(other, &news); /* without the lock nothing is written */
    struct hrf_slurm_news read;
    assert_false(hrf_slurm_board_read(one, 0, &read));
    hrf_slurm_board_give_back(one);
    assert_true(hrf_slurm_board_take_turn(other, 1600, 500));
    assert_false(hrf_slurm_board_take_turn(one, 1600, 500));
}

static void a_board_that_is_damaged_or_of_another_boot_says_nothing(void **state)
{
    (void)state;
    static const char *const heads[] = { "", "hires-flow squeue 1 ",
                                         "hires-flow squeue 1 another-boot 900 7 1 0\n",
                                         "hires-flow squeue 2 x 900 7 1 0\n", "\n\n\n" };
    struct hrf_slurm_news news;
    const char *path = hrf_slurm_board_path(one);
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        assert_int_equal(hrf_file_write_atomic(path, heads[i], strlen(heads[i]), NULL), HRF_OK);
        assert_false(hrf_slurm_board_read(one, 0, &news));
    }
    put(other, 900, true, "1|RUNNING|None|n1|a\n");
    HRF_AUTO_FREE char *text = NULL;
    size_t n;
    assert_int_equal(hrf_file_read(path, 1 << 20, &text, &n, NULL), HRF_OK);
    for (size_t k = 0; k < n; k++) { /* cut short anywhere */
        assert_int_equal(hrf_file_write_atomic(path, text, k, NULL), HRF_OK);
        assert_false(hrf_slurm_board_read(one, 0, &news));
    }
    assert_int_equal(hrf_file_write_atomic(path, text, n, NULL), HRF_OK);
    assert_true(hrf_slurm_board_read(one, 0, &news));
    hrf_free(news.text);
}

static void without_a_folder_each_asks_for_itself(void **state)
{
    (void)state;
    struct hrf_slurm_board *board = NULL;
    struct hrf_slurm_news news;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_slurm_board_open("/proc/nowhere", &board, &err), HRF_OK);
    assert_int_not_equal(err.status, HRF_OK);
    assert_non_null(strstr(err.text, "/proc/nowhere"));
    assert_true(hrf_slurm_board_take_turn(board, 1, 1000));
    assert_true(hrf_slurm_board_take_turn(board, 2, 1000));
    assert_false(hrf_slurm_board_read(board, 0, &news));
    hrf_slurm_board_close(board);
    hrf_slurm_board_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_one_driver_was_told_another_reads, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(no_jobs_at_all_is_an_answer, open_both, close_both),
        cmocka_unit_test_setup_teardown(one_asks_at_a_time_and_one_that_hangs_is_not_waited_for,
                                        open_both, close_both),
        cmocka_unit_test_setup_teardown(a_board_that_is_damaged_or_of_another_boot_says_nothing,
                                        open_both, close_both),
        cmocka_unit_test(without_a_folder_each_asks_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
