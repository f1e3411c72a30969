/* Files that are not a run store, damaged ones, full disks and places that may not be written. */
#include "base/hash.h"
#include "base/path.h"
#include "schema/store/store_private.h"
#include "tests/unit/schema/store/store_fixture.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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

static void a_store_of_another_version_is_refused_by_a_sentence(void **state)
{
    (void)state;
    static const char refusal[] = "is a run store of version %d, and this hires-flow reads and "
                                  "writes version 1; use the hires-flow that made it, or another "
                                  "directory with --out";
    static const unsigned char versions[] = { 99, 2, 0 };
    hrf_store_close(fixture_open(HRF_STORE_WRITE));
    for (size_t i = 0; i < sizeof versions; i++) {
        const char bytes[4] = { 0, 0, 0, (char)versions[i] };
        char expected[sizeof refusal + 8];
        snprintf(expected, sizeof expected, refusal, versions[i]);
        overwrite(60, bytes, 4);
        assert_refused(HRF_STORE_WRITE, expected);
        assert_refused(HRF_STORE_READ, expected);
    }
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
        skip_for_want_of("the right to mount");
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

/* A file that may not grow is told by its limit, not as a full disk, and nothing is lost. */
static void a_limit_of_file_sizes_is_named(void **state)
{
    (void)state;
    enum { LIMIT = 400 << 10 };
    static char value[16384], wanted[64];
    struct hrf_error err = { .status = HRF_OK }, plain = { .status = HRF_OK };
    struct rlimit old, low;
    memset(value, 'v', sizeof value - 1);
    snprintf(wanted, sizeof wanted, "at most %d bytes (ulimit -f)", LIMIT);
    struct hrf_store *store = fixture_open(HRF_STORE_WRITE);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    low = old;
    low.rlim_cur = LIMIT;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN); /* as hrf_args_main() */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    const int n = fill(store, value, &err);
    hrf_error_set_errno(&plain, EFBIG, "cannot write 'x'");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, handler);
    hrf_store_close(store);
    store = fixture_open(HRF_STORE_WRITE);
    assert_int_equal(hrf_store_quick_check(store, NULL), HRF_OK);
    assert_int_equal(hrf_store_set_fact(store, "after", value, NULL), HRF_OK);
    hrf_store_close(store);
    assert_true(n > 2);
    assert_int_equal(err.status, HRF_E_NOSPACE);
    if (strstr(err.text, wanted) == NULL)
        fail_msg("%s", err.text);
    assert_int_equal(plain.status, HRF_E_NOSPACE);
    assert_non_null(strstr(plain.text, "File too large (the limit of a file, ulimit -f, is 409600 "
                                       "bytes)"));
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

/* Takes all that is left of the disk, byte by byte at the end. */
static void fill_disk(void)
{
    static const char block[4096];
    const int fd = open(fixture_file("filler"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    size_t n = sizeof block;
    for (int i = 0; i < 1000 && n > 0; i++) /* a disk of 1 MiB */
        n = write(fd, block, n) > 0 ? n : n / 2;
    close(fd);
}

static void hold_and_read(void)
{
    struct hrf_store *store = fixture_open(HRF_STORE_READ);
    char *value = NULL;
    if (hrf_store_get_fact(store, "a", &value, NULL) != HRF_OK)
        _exit(1);
    hrf_free(value);
}

static int read_latest(void)
{
    struct hrf_store *store = NULL;
    struct hrf_error err = { .status = HRF_OK };
    char *value = NULL;
    if (hrf_store_open(db(), HRF_STORE_READ, &store, &err) != HRF_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    const bool is_right = hrf_store_get_fact(store, "a", &value, &err) == HRF_OK && value != NULL &&
                          strcmp(value, "latest") == 0;
    hrf_free(value);
    hrf_store_close(store);
    return is_right ? 0 : 3;
}

static int write_is_refused(void)
{
    struct hrf_store *store = NULL;
    struct hrf_error err = { .status = HRF_OK };
    return hrf_store_open(db(), HRF_STORE_WRITE, &store, &err) == HRF_E_NOSPACE &&
                   strstr(err.text, "the disk is full; free some space") != NULL
               ? 0
               : 2;
}

/* A page of the mapped index that needs a new block ends the process with SIGBUS: here the index of
 * a reader that stays is sparse, as every file of a file system that copies on write is. */
static void a_full_disk_is_read_without_mapping_it(void **state)
{
    (void)state;
    if (!mount_small())
        skip_for_want_of("the right to mount");
    fixture_kill(fixture_spawn(write_and_stay)); /* its log stays */
    const pid_t reader = fixture_spawn(hold_and_read);
    const bool is_sparse = truncate(fixture_file("run.db-shm"), 0) == 0 &&
                           truncate(fixture_file("run.db-shm"), 32768) == 0;
    fill_disk();
    const int beside = in_child(read_latest), writes = in_child(write_is_refused);
    fixture_kill(reader);
    const int alone = in_child(read_latest);
    unlink(fixture_file("run.db-shm"));
    fill_disk();
    const int without = in_child(read_latest);
    unmount();
    assert_true(is_sparse);
    assert_int_equal(beside, 0);
    assert_int_equal(writes, 0);
    assert_int_equal(alone, 0);
    assert_int_equal(without, 0);
}

static void a_read_only_directory_is_read_as_it_stands(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip_for_want_of("root's rights");
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
        skip_for_want_of("root's rights");
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
        TEST(a_store_of_another_version_is_refused_by_a_sentence),
        TEST(two_may_make_a_new_store_at_one_time),
        TEST(a_store_damaged_in_a_crash_is_found_by_the_next_owner),
        TEST(a_full_disk_is_told_and_loses_nothing),
        TEST(a_full_disk_is_read_without_mapping_it),
        TEST(a_limit_of_file_sizes_is_named),
        TEST(a_read_only_directory_is_read_as_it_stands),
        TEST(a_log_left_by_a_crash_is_read_in_a_read_only_directory_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
