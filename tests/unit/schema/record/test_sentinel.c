/* Sentinels come back, are refused when damaged, and the last one fits on a full disk. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/path.h"
#include "base/process.h"
#include "schema/record/sentinel.h"
#include "tests/unit/directory.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct hrf_sentinel example(void)
{
    return (struct hrf_sentinel){ .run_id = "0123456789abcdef0123456789abcdef",
                                  .job_id = "tile-0001",
                                  .attempt = 2,
                                  .scheduler_job = 1000017,
                                  .host = "node7",
                                  .boot = "5a0c",
                                  .pid = 4711,
                                  .start_time = 123456789012345,
                                  .start_ms = 1700000000000,
                                  .end_ms = 1700000000001,
                                  .n_beats = 3,
                                  .beat_ms = 1700000000002,
                                  .period_ms = 30000,
                                  .idle_ms = 61000,
                                  .n_stopped = 2,
                                  .was_out_of_memory = true,
                                  .exited = true,
                                  .exit_code = 75,
                                  .signal = 0,
                                  .was_asked = true,
                                  .peak_memory_bytes = 1LL << 35,
                                  .tasks = { 1, 2, 3, 4 },
                                  .reason = "a \"reason\"\nof two lines" };
}

static void assert_same(const struct hrf_sentinel *a, const struct hrf_sentinel *b)
{
    assert_string_equal(a->run_id, b->run_id);
    assert_string_equal(a->job_id, b->job_id);
    assert_string_equal(a->host, b->host);
    assert_string_equal(a->boot, b->boot);
    assert_string_equal(a->reason, b->reason);
    assert_true(a->attempt == b->attempt && a->scheduler_job == b->scheduler_job);
    assert_true(a->pid == b->pid && a->start_time == b->start_time && a->start_ms == b->start_ms &&
                a->end_ms == b->end_ms && a->n_beats == b->n_beats && a->beat_ms == b->beat_ms &&
                a->period_ms == b->period_ms && a->idle_ms == b->idle_ms &&
                a->n_stopped == b->n_stopped && a->was_out_of_memory == b->was_out_of_memory);
    assert_true(a->exited == b->exited && a->exit_code == b->exit_code && a->signal == b->signal &&
                a->was_asked == b->was_asked && a->was_revoked == b->was_revoked &&
                a->peak_memory_bytes == b->peak_memory_bytes);
    assert_memory_equal(&a->tasks, &b->tasks, sizeof a->tasks);
}

/* Of a launcher that did not note it: the hash is over what stands there. */
static void a_sentinel_that_lacks_a_field_is_refused_by_name(void **state)
{
    (void)state;
    const struct hrf_sentinel sentinel = example();
    struct hrf_sentinel back;
    struct hrf_error err = { .text = "" };
    HRF_AUTO_FREE char *text = NULL, *body = NULL, *line = NULL;
    HRF_AUTO_JSON object = NULL;
    char sha256[HRF_HASH_HEX], path[128];
    size_t n;
    snprintf(path, sizeof path, "%s/start.json", directory);
    assert_int_equal(hrf_sentinel_write(directory, "start", &sentinel, NULL), HRF_OK);
    assert_int_equal(hrf_file_read(path, 1 << 16, &text, &n, NULL), HRF_OK);
    assert_int_equal(hrf_json_parse(text, n, path, &object, NULL), HRF_OK);
    assert_int_equal(json_object_del(object, "scheduler_job"), 0);
    assert_int_equal(json_object_del(object, "sha256"), 0);
    body = hrf_json_text(object);
    assert_int_equal(hrf_hash_buffer(body, strlen(body), sha256, NULL), HRF_OK);
    hrf_json_put_text(object, "sha256", sha256);
    line = hrf_json_text(object);
    assert_int_equal(hrf_file_write_atomic(path, line, strlen(line), NULL), HRF_OK);
    assert_int_equal(hrf_sentinel_read(directory, "start", &back, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "'scheduler_job'"));
}

static void sentinels_come_back_as_they_were(void **state)
{
    (void)state;
    static const char *const names[] = { "start", "beat", "done" };
    struct hrf_sentinel sentinel = example(), back;
    struct hrf_error err;
    assert_int_equal(hrf_sentinel_reserve(directory, NULL), HRF_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(hrf_sentinel_read(directory, names[i], &back, &err), HRF_E_AGAIN);
        sentinel.n_beats = i;
        assert_int_equal(hrf_sentinel_write(directory, names[i], &sentinel, NULL), HRF_OK);
        assert_int_equal(hrf_sentinel_read(directory, names[i], &back, NULL), HRF_OK);
        assert_same(&sentinel, &back);
    }
}

/* Whatever is longest: a reason of control characters, each six bytes in JSON. */
static void the_longest_sentinel_fits_into_its_reserve(void **state)
{
    (void)state;
    struct hrf_sentinel sentinel = example(), back;
    char reserved[128];
    memset(sentinel.reason, 1, sizeof sentinel.reason - 1);
    memset(sentinel.host, '\\', sizeof sentinel.host - 1);
    snprintf(reserved, sizeof reserved, "%s/done.json.reserved", directory);
    assert_int_equal(hrf_sentinel_reserve(directory, NULL), HRF_OK);
    assert_int_equal(hrf_path_size(reserved), 4096);
    assert_int_equal(hrf_sentinel_write(directory, "done", &sentinel, NULL), HRF_OK);
    assert_false(hrf_path_exists(reserved));
    assert_int_equal(hrf_sentinel_read(directory, "done", &back, NULL), HRF_OK);
    assert_same(&sentinel, &back);

    memset(sentinel.reason, 0xc3, sizeof sentinel.reason - 1); /* not UTF-8: three bytes for one */
    assert_int_equal(hrf_sentinel_write(directory, "done", &sentinel, NULL), HRF_OK);
    assert_int_equal(hrf_sentinel_read(directory, "done", &back, NULL), HRF_OK);
    assert_int_equal(strlen(back.reason), sizeof back.reason - 1);
}

static enum hrf_status read_changed(size_t at, char c, char *text, struct hrf_error *err)
{
    char path[128];
    struct hrf_sentinel back;
    snprintf(path, sizeof path, "%s/start.json", directory);
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, &c, 1, (off_t)at), 1);
    enum hrf_status status = hrf_sentinel_read(directory, "start", &back, err);
    assert_int_equal(pwrite(fd, &text[at], 1, (off_t)at), 1);
    close(fd);
    return status;
}

static void a_sentinel_with_any_byte_changed_is_refused(void **state)
{
    (void)state;
    struct hrf_sentinel sentinel = example();
    char path[128], *text = NULL;
    size_t n = 0;
    struct hrf_error err;
    snprintf(path, sizeof path, "%s/start.json", directory);
    assert_int_equal(hrf_sentinel_write(directory, "start", &sentinel, NULL), HRF_OK);
    assert_int_equal(hrf_file_read(path, 1 << 16, &text, &n, NULL), HRF_OK);
    for (size_t i = 0; i < n - 1; i++)
        assert_int_equal(read_changed(i, (char)(text[i] ^ 1), text, &err), HRF_E_USER);
    hrf_free(text);
}

static void a_sentinel_of_another_version_or_cut_is_refused_by_a_sentence(void **state)
{
    (void)state;
    char path[128];
    struct hrf_sentinel back;
    struct hrf_error err;
    snprintf(path, sizeof path, "%s/beat.json", directory);
    assert_int_equal(hrf_file_write_atomic(path, "{\"version\":9}", 13, NULL), HRF_OK);
    assert_int_equal(hrf_sentinel_read(directory, "beat", &back, &err), HRF_E_USER);
    assert_non_null(
        strstr(err.text, "a sentinel of version 9, and this hires-flow reads version 1"));
    assert_int_equal(hrf_file_write_atomic(path, "{\"vers", 6, NULL), HRF_OK);
    assert_int_equal(hrf_sentinel_read(directory, "beat", &back, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "not valid JSON"));
}

/* A full file system of 64 KiB: the beat cannot be written, done can. */
static void done_is_written_on_a_full_disk(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip_for_want_of("root's rights");
    const char *const mount[] = { "mount",    "-t",      "tmpfs", "-o", "size=64k,nr_inodes=64",
                                  "hrf-test", directory, NULL };
    const char *const unmount[] = { "umount", directory, NULL };
    struct hrf_process_result result;
    assert_int_equal(hrf_process_run(mount, NULL, NULL, 10000, 0, NULL, NULL, &result, NULL),
                     HRF_OK);
    if (result.exit_code != 0)
        skip_for_want_of("the right to mount");
    struct hrf_sentinel sentinel = example(), back;
    struct hrf_error err = { .status = HRF_OK };
    enum hrf_status reserve = hrf_sentinel_reserve(directory, NULL);
    char path[128], block[4096] = { 1 };
    snprintf(path, sizeof path, "%s/filler", directory);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    while (write(fd, block, sizeof block) > 0) {
    }
    close(fd);
    enum hrf_status beat = hrf_sentinel_write(directory, "beat", &sentinel, &err);
    enum hrf_status done = hrf_sentinel_write(directory, "done", &sentinel, NULL);
    enum hrf_status read = hrf_sentinel_read(directory, "done", &back, NULL);
    enum hrf_status again = hrf_sentinel_reserve(directory, NULL);
    assert_int_equal(hrf_process_run(unmount, NULL, NULL, 10000, 0, NULL, NULL, &result, NULL),
                     HRF_OK);
    assert_int_equal(result.exit_code, 0);
    assert_int_equal(reserve, HRF_OK);
    assert_int_equal(beat, HRF_E_NOSPACE);
    assert_int_equal(done, HRF_OK);
    assert_int_equal(read, HRF_OK);
    assert_same(&sentinel, &back);
    assert_int_equal(again, HRF_E_NOSPACE);
}

/* Two beats of 30 s. */
static void a_job_is_silent_after_two_missed_beats(void **state)
{
    (void)state;
    static const struct {
        struct hrf_sentinel beat;
        int64_t age_ms, silence_ms;
        const char *text;
    } cases[] = {
        { { .period_ms = 30000 }, 59999, 0, "" },
        { { .period_ms = 30000 }, 60000, 60000, "no beat has come for 60 s: it is stopped, or" },
        { { .period_ms = 30000, .idle_ms = 30000 }, 29999, 0, "" },
        { { .period_ms = 30000, .idle_ms = 60000, .n_stopped = 1 },
          1000,
          61000,
          "its worker has done nothing for 61 s: it is stopped" },
        { { .period_ms = 30000, .idle_ms = 60000 },
          1000,
          61000,
          "its worker has done nothing for 61 s: it waits" },
        { { .period_ms = 30000, .idle_ms = 60000 }, 61000, 121000, "no beat has come for 61 s" },
        { { .period_ms = 0, .idle_ms = 0 }, 1000000, 0, "" }, /* by an older launcher */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[160];
        assert_int_equal(hrf_sentinel_silence(&cases[i].beat, cases[i].age_ms, text, sizeof text),
                         cases[i].silence_ms);
        assert_memory_equal(text, cases[i].text, strlen(cases[i].text));
        assert_int_equal(text[0] == '\0', cases[i].silence_ms == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentinels_come_back_as_they_were),
        cmocka_unit_test(a_sentinel_that_lacks_a_field_is_refused_by_name),
        cmocka_unit_test(the_longest_sentinel_fits_into_its_reserve),
        cmocka_unit_test(a_sentinel_with_any_byte_changed_is_refused),
        cmocka_unit_test(a_sentinel_of_another_version_or_cut_is_refused_by_a_sentence),
        cmocka_unit_test(done_is_written_on_a_full_disk),
        cmocka_unit_test(a_job_is_silent_after_two_missed_beats),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
