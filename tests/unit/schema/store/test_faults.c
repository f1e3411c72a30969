/* Files that are not a run store, damaged ones, full disks and places that may not be written. */
#include "base/file.h"
#include "base/hash.h"
#include "base/path.h"
#include "schema/store/store_private.h"
#include "tests/unit/schema/store/store_fixture.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *db(void)
{
    return fixture_file("run.db");
}

static void overwrite(int64_t at, const void *bytes, size_t n)
{
    int fd = open(db(), O_WRONLY | O_CREAT, 0600);
    assert_int_equal(pwrite(fd, bytes, n, at), n);
    close(fd);
}

/* Opening in `mode` fails with a text that holds `expected`, and changes no byte. */
static void assert_refused(enum hrf_store_mode mode, const char *expected)
{
    struct hrf_store *store = NULL;
    struct hrf_error err = { .status = HRF_OK };
    char before[HRF_HASH_HEX], after[HRF_HASH_HEX];
    assert_int_equal(hrf_hash_file(db(), before, NULL), HRF_OK);
    assert_int_equal(hrf_store_open(db(), mode, &store, &err), HRF_E_USER);
    assert_null(store);
    if (strstr(err.text, expected) == NULL)
        fail_msg("'%s' is not in '%s'", expected, err.text);
    assert_int_equal(hrf_hash_file(db(), after, NULL), HRF_OK);
    assert_string_equal(before, after);
}

static void a_missing_or_empty_store_cannot_be_read(void **state)
{
    (void)state;
    struct hrf_store *store = NULL;
    struct hrf_error err;
    assert_int_equal(hrf_store_open(db(), HRF_STORE_READ, &store, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "does not exist: no run stands there"));
    assert_false(hrf_path_exists(db()));
    overwrite(0, "", 0);
    assert_refused(HRF_STORE_READ, "is empty: no run was begun there");
}

/* Offsets: SQLite's file format, §1.3: user_version at 60, application_id at 68. */
static void a_file_of_another_program_is_refused_and_left_alone(void **state)
{
    (void)state;
    hrf_store_close(fixture_open(HRF_STORE_WRITE));
    overwrite(68, "GPKG", 4);
    assert_refused(HRF_STORE_WRITE, "is an SQLite file of another program, not a run store");
    assert_refused(HRF_STORE_READ, "is an SQLite file of another program, not a run store");
    overwrite(0, "this is not a data base at all, it is a text", 44);
    assert_refused(HRF_STORE_WRITE, "is damaged or not a run store");
    assert_refused(HRF_STORE_READ, "is damaged or not a run store");
}

static void a_newer_store_is_refused_by_a_sentence(void **state)
{
    (void)state;
    hrf_store_close(fixture_open(HRF_STORE_WRITE));
    overwrite(60, "\0\0\0\x63", 4);
    assert_refused(HRF_STORE_WRITE, "was written by a newer hires-flow (store version 99, this "
                                    "one knows up to 6)");
    assert_refused(HRF_STORE_READ, "was written by a newer hires-flow");
}

static void an_old_store_is_migrated_with_all_it_holds(void **state)
{
    (void)state;
    const char *source = getenv("HRF_SOURCE_DIR");
    HRF_AUTO_FREE char *golden = hrf_format("%s/tests/golden/store/version1.db",
                                            source != NULL ? source : ".");
    HRF_AUTO_FREE char *bytes = NULL, *run_id = NULL;
    HRF_AUTO_RELEASE(hrf_slide_rows) slides = { .items = NULL };
    int64_t n_records = 0;
    size_t n = 0;
    assert_int_equal(hrf_file_read(golden, 1 << 20, &bytes, &n, NULL), HRF_OK);
    overwrite(0, bytes, n);
    assert_refused(HRF_STORE_READ, "was written by an older hires-flow (store version 1, this one "
                                   "reads 6)");
    HRF_AUTO(hrf_store) store = fixture_open(HRF_STORE_WRITE);
    assert_int_equal(hrf_store_get_fact(store, "run_id", &run_id, NULL), HRF_OK);
    assert_string_equal(run_id, "0123456789abcdef0123456789abcdef");
    assert_int_equal(hrf_store_get_slides(store, &slides, NULL), HRF_OK);
    assert_int_equal(slides.n_items, 1);
    assert_string_equal(slides.items[0].label_text, "Tumor");
    assert_int_equal(hrf_store_number(store,
                                      "SELECT count(*) FROM record WHERE key='key1' AND "
                                      "bytes=x'010203'",
                                      &n_records, NULL),
                     HRF_OK);
    assert_int_equal(n_records, 1);
    HRF_AUTO(hrf_store) reader = fixture_open(HRF_STORE_READ);
    setenv("HRF_LEASE_WATCH_MS", "1", 1); /* its owner of long ago beats no more */
    assert_int_equal(hrf_store_take_lease(store, NULL), HRF_OK);
    unsetenv("HRF_LEASE_WATCH_MS");
}

static void open_many(void)
{
    for (int i = 0; i < 40; i++) {
        struct hrf_store *store = NULL;
        char path[160];
        snprintf(path, sizeof path, "%s.%d", db(), i);
        struct hrf_error err;
        if (hrf_store_open(path, HRF_STORE_WRITE, &store, &err) != HRF_OK) {
            fprintf(stderr, "%s\n", err.text);
            _exit(1);
        }
        hrf_store_close(store);
    }
    _exit(0);
}

static void two_may_make_a_new_store_at_one_time(void **state)
{
    (void)state;
    pid_t pids[2];
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            open_many();
    }
    for (int i = 0; i < 2; i++) {
        int status = -1;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
}

static void die_with_the_lease(void)
{
    struct hrf_store *store = fixture_open(HRF_STORE_WRITE);
    if (hrf_store_take_lease(store, NULL) != HRF_OK)
        _exit(1);
    for (int i = 0; i < 200; i++)
        if (hrf_store_add_event(store, "run", "a text that fills some pages of the file", NULL) !=
            HRF_OK)
            _exit(1);
}

static void a_store_damaged_in_a_crash_is_found_by_the_next_owner(void **state)
{
    (void)state;
    fixture_kill(fixture_spawn(die_with_the_lease));
    hrf_store_close(fixture_open(HRF_STORE_WRITE)); /* takes the log into the file */
    int64_t size = hrf_path_size(db());
    char noise[512];
    memset(noise, 0x5a, sizeof noise);
    for (int64_t page = 4096 * 16; page < size; page += 4096)
        overwrite(page, noise, sizeof noise);
    HRF_AUTO(hrf_store) store = fixture_open(HRF_STORE_WRITE);
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_store_take_lease(store, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "is damaged ("));
    assert_non_null(strstr(err.text, "move it away to start afresh"));
}

static bool mount_small(void)
{
    const char *const argv[] = {
        "mount", "-t", "tmpfs", "-o", "size=1m", "hrf-test", fixture_directory(), NULL
    };
    return geteuid() == 0 && fixture_run(argv);
}

static void unmount(void)
{
    const char *const argv[] = { "umount", fixture_directory(), NULL };
    assert_true(fixture_run(argv));
}

/* Commits facts of 16 KiB until the disk is full; returns how many are in. */
static int fill(struct hrf_store *store, const char *value, struct hrf_error *err)
{
    for (int i = 0;; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        if (hrf_store_begin(store, err) != HRF_OK)
            return i;
        if (hrf_store_set_fact(store, key, value, err) != HRF_OK) {
            hrf_store_rollback(store);
            return i;
        }
        if (hrf_store_commit(store, err) != HRF_OK)
            return i;
    }
}

static void a_full_disk_is_told_and_loses_nothing(void **state)
{
    (void)state;
    if (!mount_small())
        skip();
    char value[16384];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_store *store = fixture_open(HRF_STORE_WRITE);
    int n = fill(store, value, &err), n_whole = 0;
    bool still_works = hrf_store_begin(store, NULL) == HRF_OK;
    hrf_store_rollback(store);
    hrf_store_close(store);
    const char *const remount[] = { "mount", "-o", "remount,size=8m", fixture_directory(), NULL };
    bool grown = fixture_run(remount);
    store = fixture_open(HRF_STORE_WRITE);
    enum hrf_status check = hrf_store_quick_check(store, NULL);
    for (int i = 0; i <= n; i++) {
        char key[16];
        HRF_AUTO_FREE char *found = NULL;
        snprintf(key, sizeof key, "k%d", i);
        if (hrf_store_get_fact(store, key, &found, NULL) == HRF_OK && found != NULL &&
            strcmp(found, value) == 0)
            n_whole++;
    }
    enum hrf_status again = hrf_store_set_fact(store, "after", value, NULL);
    hrf_store_close(store);
    unmount();
    assert_int_equal(err.status, HRF_E_NOSPACE);
    assert_non_null(strstr(err.text, "the disk is full; free some space and run again"));
    assert_true(n > 5 && grown && still_works);
    assert_int_equal(check, HRF_OK);
    assert_int_equal(n_whole, n);
    assert_int_equal(again, HRF_OK);
}

static int read_as_nobody(void)
{
    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 1;
    struct hrf_store *store = NULL;
    struct hrf_error err = { .status = HRF_OK };
    char *value = NULL;
    if (hrf_store_open(db(), HRF_STORE_READ, &store, &err) != HRF_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    if (hrf_store_get_fact(store, "a", &value, &err) != HRF_OK || value == NULL ||
        strcmp(value, "latest") != 0)
        return 3;
    hrf_free(value);
    hrf_store_close(store);
    return 0;
}

static int write_as_nobody(void)
{
    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 1;
    struct hrf_store *store = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_store_open(db(), HRF_STORE_WRITE, &store, &err) != HRF_E_EXTERNAL)
        return 2;
    return strstr(err.text, "cannot be written: the file, its directory or the file system is "
                            "read-only") != NULL
               ? 0
               : 3;
}

static int in_child(int (*work)(void))
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(work());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void write_and_stay(void)
{
    struct hrf_store *store = fixture_open(HRF_STORE_WRITE);
    if (hrf_store_set_fact(store, "a", "latest", NULL) != HRF_OK)
        _exit(1);
}

static void a_read_only_directory_is_read_as_it_stands(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct hrf_store *store = fixture_open(HRF_STORE_WRITE);
    assert_int_equal(hrf_store_set_fact(store, "a", "latest", NULL), HRF_OK);
    hrf_store_close(store);
    assert_int_equal(chmod(db(), 0444), 0);
    assert_int_equal(chmod(fixture_directory(), 0555), 0);
    assert_int_equal(in_child(read_as_nobody), 0);
    assert_int_equal(in_child(write_as_nobody), 0);
    assert_int_equal(chmod(db(), 0666), 0); /* the file may be written, its directory not */
    assert_int_equal(in_child(write_as_nobody), 0);
}

/* The writer was killed: what it committed last stands in its log only. */
static void a_log_left_by_a_crash_is_read_in_a_read_only_directory_too(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    fixture_kill(fixture_spawn(write_and_stay));
    assert_true(hrf_path_size(fixture_file("run.db-wal")) > 0);
    assert_int_equal(unlink(fixture_file("run.db-shm")), 0);
    assert_int_equal(chmod(fixture_directory(), 0555), 0);
    assert_int_equal(in_child(read_as_nobody), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_make, fixture_remove)
    const struct CMUnitTest tests[] = {
        TEST(a_missing_or_empty_store_cannot_be_read),
        TEST(a_file_of_another_program_is_refused_and_left_alone),
        TEST(a_newer_store_is_refused_by_a_sentence),
        TEST(an_old_store_is_migrated_with_all_it_holds),
        TEST(two_may_make_a_new_store_at_one_time),
        TEST(a_store_damaged_in_a_crash_is_found_by_the_next_owner),
        TEST(a_full_disk_is_told_and_loses_nothing),
        TEST(a_read_only_directory_is_read_as_it_stands),
        TEST(a_log_left_by_a_crash_is_read_in_a_read_only_directory_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
