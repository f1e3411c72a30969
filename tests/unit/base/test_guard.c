/* test_guard.c - what foreign files end is a child, or is said. */
#include "base/guard.h"

#include "base/process.h"
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Answers with the question, and its place in the sum of all that this child was asked. */
static enum hrf_status work(void *context, const void *question, struct hrf_strbuf *answer,
                            struct hrf_error *err)
{
    int *n_asked = context;
    const char *text = question;
    if (strcmp(text, "abort") == 0)
        raise(SIGABRT);
    if (strcmp(text, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(text, "circle") == 0) {
        HRF_GUARD_LIMIT("a\nslide.tif", 1);
        for (volatile unsigned i = 0;; i++)
            continue;
    }
    if (strcmp(text, "refuse") == 0)
        return hrf_error_set(err, HRF_E_UNSUPPORTED, "level %d is missing", 7);
    hrf_strbuf_addf(answer, "%d %s", ++*n_asked, text);
    return HRF_OK;
}

static enum hrf_status ask(struct hrf_guard *guard, const char *text, struct hrf_strbuf *answer,
                           struct hrf_error *err)
{
    hrf_strbuf_clear(answer);
    return hrf_guard_ask(guard, "a\nslide.tif", text, strlen(text) + 1, answer, err);
}

static void a_file_that_ends_its_reader_is_named_and_the_next_one_is_read(void **state)
{
    HRF_AUTO(hrf_guard) guard = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) answer = HRF_STRBUF_INIT;
    struct hrf_error err = { .status = HRF_OK };
    int n_asked = 0;
    (void)state;
    assert_int_equal(hrf_guard_create(work, &n_asked, &guard, &err), HRF_OK);
    assert_int_equal(ask(guard, "one", &answer, &err), HRF_OK);
    assert_int_equal(ask(guard, "two", &answer, &err), HRF_OK);
    assert_string_equal(answer.text, "2 two"); /* one child reads many files */
    assert_int_equal(ask(guard, "refuse", &answer, &err), HRF_E_UNSUPPORTED);
    assert_string_equal(err.text, "level 7 is missing");
    assert_int_equal(ask(guard, "abort", &answer, &err), HRF_E_USER);
    assert_string_equal(err.text, "'a\\nslide.tif' ends the process that reads it by an abort"
                                  " (6): it is damaged, or made to do that; copy or make it again");
    assert_int_equal(ask(guard, "three", &answer, &err), HRF_OK);
    assert_string_equal(answer.text, "1 three"); /* a new child */
    assert_int_equal(ask(guard, "circle", &answer, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "by work without an end"));
    assert_int_equal(ask(guard, "kill", &answer, &err), HRF_E_NOMEM);
    assert_int_equal(n_asked, 0);
}

static void long_answers_arrive_whole(void **state)
{
    enum { LONG = 5 * 1000 * 1000 };
    HRF_AUTO(hrf_guard) guard = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) answer = HRF_STRBUF_INIT;
    HRF_AUTO_FREE char *text = hrf_alloc(LONG + 1);
    struct hrf_error err = { .status = HRF_OK };
    int n_asked = 0;
    (void)state;
    for (int i = 0; i < LONG; i++)
        text[i] = (char)('a' + i % 23);
    text[LONG] = '\0';
    assert_int_equal(hrf_guard_create(work, &n_asked, &guard, &err), HRF_OK);
    assert_int_equal(ask(guard, text, &answer, &err), HRF_OK);
    assert_int_equal(answer.length, LONG + 2);
    assert_string_equal(answer.text + 2, text);
}

struct many {
    int n_taken[300], n_dead, n_wrong;
};

static enum hrf_status square(void *context, const void *question, struct hrf_strbuf *answer,
                              struct hrf_error *err)
{
    const size_t i = *(const size_t *)question;
    (void)context, (void)err;
    if (i % 7 == 3)
        raise(SIGABRT);
    hrf_strbuf_addf(answer, "%zu", i * i);
    return HRF_OK;
}

static const char *path_of(void *context, size_t i)
{
    (void)context;
    return i == 10 ? "the tenth" : "another";
}

static void take(void *context, size_t i, enum hrf_status status, const struct hrf_strbuf *answer,
                 const struct hrf_error *err)
{
    struct many *many = context;
    many->n_taken[i]++;
    many->n_dead += status == HRF_E_USER;
    many->n_wrong += status == HRF_OK ? strtoull(answer->text, NULL, 10) != i * i
                                      : (i == 10) != (strstr(err->text, "the tenth") != NULL);
}

static void of_many_files_each_is_answered_once_and_the_deadly_ones_are_told(void **state)
{
    struct many many = { .n_dead = 0 };
    struct hrf_error err = { .status = HRF_OK };
    const struct hrf_guard_batch batch = { .n_items = 300,
                                           .n_children = 4,
                                           .work = square,
                                           .path = path_of,
                                           .take = take,
                                           .context = &many };
    (void)state;
    assert_int_equal(hrf_guard_ask_all(&batch, &err), HRF_OK);
    for (int i = 0; i < 300; i++)
        assert_int_equal(many.n_taken[i], 1);
    assert_int_equal(many.n_dead, 43);
    assert_int_equal(many.n_wrong, 0);
    const struct hrf_guard_batch none = { .n_items = 0, .n_children = 4 };
    assert_int_equal(hrf_guard_ask_all(&none, &err), HRF_OK);
}

/* What a process says on stderr, and how it ends, that dies while `path` is noted. */
static struct hrf_process_result die(const char *path, bool ends, char *said, size_t size)
{
    int pair[2], status = 0;
    assert_int_equal(pipe(pair), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(pair[1], STDERR_FILENO);
        hrf_guard_begin("program", "command", ends);
        hrf_guard_note("before");
        if (path != NULL) {
            HRF_GUARD_NOTE("inside");
        }
        hrf_guard_note(path);
        raise(SIGABRT);
    }
    close(pair[1]);
    const ssize_t n = read(pair[0], said, size - 1);
    size_t length = n > 0 ? (size_t)n : 0;
    for (ssize_t more = n; more > 0 && length<size - 1; length += more> 0 ? (size_t)more : 0)
        more = read(pair[0], said + length, size - 1 - length);
    said[length] = '\0';
    close(pair[0]);
    waitpid(pid, &status, 0);
    return hrf_process_decode(status);
}

static void a_process_says_which_file_it_dies_of(void **state)
{
    char said[512];
    (void)state;
    struct hrf_process_result end = die("x\x1b[2J.h5", true, said, sizeof said);
    assert_true(end.exited && end.exit_code == 1);
    assert_string_equal(said, "program command: 'x?[2J.h5' ends the program that reads it by an "
                              "abort: it is damaged, or made to do that; copy or make it again\n");
    end = die("x.h5", false, said, sizeof said); /* a worker */
    assert_true(!end.exited && end.signal == SIGABRT && strstr(said, "'x.h5'") != NULL);
    end = die(NULL, true, said, sizeof said); /* no file is parsed: a fault of ours */
    assert_true(!end.exited && end.signal == SIGABRT && said[0] == '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_ends_its_reader_is_named_and_the_next_one_is_read),
        cmocka_unit_test(long_answers_arrive_whole),
        cmocka_unit_test(of_many_files_each_is_answered_once_and_the_deadly_ones_are_told),
        cmocka_unit_test(a_process_says_which_file_it_dies_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
