/* Files, processes, hashes, random numbers and crash points. */
#include "base/cache.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/own_process.h"
#include "base/path.h"
#include "base/process.h"
#include "base/random.h"
#include "tests/unit/directory.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void paths_are_taken_apart_at_the_last_slash_and_dot(void **state)
{
    (void)state;
    static const char *const cases[][4] = {
        { "a/b.TIF", "a", "b", "tif" },
        { "/x", "/", "x", "" },
        { ".hidden", ".", ".hidden", "" },
        { "a.b/c.tar.gz", "a.b", "c.tar", "gz" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *parts[3] = { hrf_path_directory(cases[i][0]), hrf_path_stem(cases[i][0]),
                           hrf_path_extension(cases[i][0]) };
        for (int k = 0; k < 3; k++) {
            assert_string_equal(parts[k], cases[i][k + 1]);
            hrf_free(parts[k]);
        }
    }
}

static void paths_are_tidied_but_not_past_links(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "/a/../b", "/b" },
        { "/a//b/./c/", "/a/b/c" },
        { "/..", "/" },
        { "/../../x", "/x" },
        { "/a/b/../../c", "/c" },
        { "/", "/" },
        { "/a/*/../b", "/a/*/../b" },
        { "/a/.../b..c", "/a/.../b..c" },
        { "a/../b", "a/../b" },
        { "/a/[x]/../../b", "/a/[x]/../../b" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s", cases[i][0]);
        hrf_path_tidy(path);
        assert_string_equal(path, cases[i][1]);
    }
    char link[128], beyond[256], wanted[256];
    snprintf(link, sizeof link, "%s/link", directory);
    snprintf(beyond, sizeof beyond, "%s/./x/../link/../y", directory);
    snprintf(wanted, sizeof wanted, "%s/link/../y", directory);
    assert_int_equal(symlink("/usr/bin", link), 0);
    hrf_path_tidy(beyond);
    assert_string_equal(beyond, wanted);
}

static void an_atomic_write_leaves_the_old_file_when_it_fails(void **state)
{
    (void)state;
    char path[128], *text = NULL;
    size_t n = 0;
    struct hrf_error err = { .status = HRF_OK };
    snprintf(path, sizeof path, "%s/deep/er/file", directory);
    assert_int_equal(hrf_file_write_atomic(path, "x", 1, &err), HRF_E_EXTERNAL);
    char *parent = hrf_path_directory(path);
    assert_int_equal(hrf_path_make_directories(parent, NULL), HRF_OK);
    assert_int_equal(hrf_file_write_atomic(path, "old", 3, NULL), HRF_OK);
    assert_int_equal(hrf_file_commit("/nonexistent/x", path, &err), HRF_E_EXTERNAL);
    assert_int_equal(hrf_file_read(path, 10, &text, &n, NULL), HRF_OK);
    assert_string_equal(text, "old");
    hrf_free(text);
    assert_int_equal(hrf_file_read(path, 2, &text, &n, &err), HRF_E_USER);
    hrf_free(parent);
}

static void a_process_is_fed_collected_and_judged(void **state)
{
    (void)state;
    struct hrf_strbuf out = HRF_STRBUF_INIT, error = HRF_STRBUF_INIT;
    struct hrf_process_result result;
    const char *const argv[] = { "sh", "-c", "cat; echo oops >&2; exit 3", NULL };
    assert_int_equal(hrf_process_run(argv, NULL, "hello", 10000, 1000, &out, &error, &result, NULL),
                     HRF_OK);
    assert_true(result.exited);
    assert_int_equal(result.exit_code, 3);
    assert_string_equal(out.text, "hello");
    assert_string_equal(error.text, "oops\n");
    hrf_strbuf_release(&out);
    hrf_strbuf_release(&error);
}

static void a_deadline_ends_the_children_of_the_child_too(void **state)
{
    (void)state;
    struct hrf_strbuf out = HRF_STRBUF_INIT;
    struct hrf_process_result result;
    const char *const argv[] = { "sh", "-c", "sleep 100 & echo $!; wait", NULL };
    for (int64_t ms = 300; out.length == 0; ms *= 2) { /* until it comes to its word in time */
        hrf_strbuf_release(&out);
        assert_int_equal(hrf_process_run(argv, NULL, NULL, ms, 1000, &out, NULL, &result, NULL),
                         HRF_OK);
        assert_true(result.timed_out);
    }
    pid_t grandchild = (pid_t)strtol(out.text, NULL, 10);
    assert_true(grandchild > 0);
    while (hrf_process_start_time(grandchild) != 0)
        hrf_clock_sleep_ms(10);
    hrf_strbuf_release(&out);
}

static void a_setting_is_taken_only_if_it_is_a_number_in_range(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t least, expected;
    } cases[] = { { "250", 1, 250 }, { "0", 0, 0 },  { "0", 1, 70 },  { "-3", 0, 70 },
                  { "", 0, 70 },     { "x", 0, 70 }, { "5 s", 0, 70 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setenv("HRF_TEST_MS", cases[i].text, 1);
        assert_int_equal(hrf_clock_setting_ms("HRF_TEST_MS", cases[i].least, 70),
                         cases[i].expected);
    }
    unsetenv("HRF_TEST_MS");
    assert_int_equal(hrf_clock_setting_ms("HRF_TEST_MS", 0, 70), 70);
}

static void a_program_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    struct hrf_process_result result;
    struct hrf_error err = { .status = HRF_OK };
    const char *const argv[] = { "/nonexistent/program", NULL };
    pid_t pid = 0;
    assert_int_equal(hrf_process_run(argv, NULL, NULL, 1000, 10, NULL, NULL, &result, &err),
                     HRF_E_EXTERNAL);
    assert_string_equal(err.text, "cannot start /nonexistent/program: No such file or directory");
    assert_int_equal(hrf_process_start(argv, NULL, true, &pid, &err), HRF_E_EXTERNAL);
}

static void a_detached_process_has_an_identity_until_it_ends(void **state)
{
    (void)state;
    char log[128];
    pid_t pid = 0;
    snprintf(log, sizeof log, "%s/log", directory);
    const char *const argv[] = { "sh", "-c", "echo started; sleep 100", NULL };
    assert_int_equal(hrf_process_start(argv, log, true, &pid, NULL), HRF_OK);
    uint64_t start = hrf_process_start_time(pid);
    assert_true(start != 0);
    kill(-pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(hrf_process_start_time(pid), 0);
}

static void hashes_know_where_a_field_ends(void **state)
{
    (void)state;
    char a[HRF_HASH_HEX], b[HRF_HASH_HEX];
    assert_int_equal(hrf_hash_buffer("abc", 3, a, NULL), HRF_OK);
    assert_string_equal(a, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    static const char *const pairs[2][2] = { { "ab", "c" }, { "a", "bc" } };
    for (int i = 0; i < 2; i++) {
        struct hrf_hash *hash = NULL;
        assert_int_equal(hrf_hash_create(&hash, NULL), HRF_OK);
        hrf_hash_text(hash, pairs[i][0]);
        hrf_hash_text(hash, pairs[i][1]);
        hrf_hash_hex(hash, i == 0 ? a : b);
        hrf_hash_destroy(hash);
    }
    assert_string_not_equal(a, b);
}

static void random_numbers_are_the_same_everywhere(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(1234567);
    assert_true(hrf_random_u64(&random) == 6457827717110365317u); /* splitmix64's own check value */
    assert_true(hrf_random_u64(&random) == 3203168211198807973u);
    int seen[5 + 1] = { 0 };
    for (int i = 0; i < 1000; i++)
        seen[hrf_random_below(&random, 5)]++;
    for (int i = 0; i < 5; i++)
        assert_in_range(seen[i], 150, 250);
    assert_int_equal(seen[5], 0);
}

static void a_crash_point_kills_at_the_pass_asked_for(void **state)
{
    (void)state;
    char list[128], *text = NULL;
    size_t n = 0;
    snprintf(list, sizeof list, "%s/list", directory);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("HRF_CRASH_AT", "here:2", 1);
        setenv("HRF_CRASH_LIST", list, 1);
        for (int i = 0; i < 5; i++) {
            hrf_crash_point("elsewhere");
            hrf_crash_point("here");
        }
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(hrf_file_read(list, 1000, &text, &n, NULL), HRF_OK);
    assert_string_equal(text, "elsewhere\nhere\nelsewhere\nhere\n");
    hrf_free(text);
}

static void what_does_not_tell_its_size_is_read_to_its_end(void **state)
{
    (void)state;
    char *text = NULL;
    size_t n = 0;
    struct hrf_error err;
    assert_int_equal(hrf_file_read("/proc/self/status", 1 << 20, &text, &n, &err), HRF_OK);
    assert_true(n > 0 && strlen(text) == n);
    hrf_free(text);
    assert_int_equal(hrf_file_read("/proc/self/status", 100, &text, &n, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "limit of 100"));
}

static void shared_file_systems_are_known_by_their_numbers(void **state)
{
    (void)state;
    static const unsigned long shared[] = { 0x6969, 0x0BD00BD0, 0xFE534D42 }; /* NFS Lustre SMB2 */
    static const unsigned long own[] = { 0xEF53, 0x58465342, 0x01021994, 0x1234 };
    bool is_shared;
    for (size_t i = 0; i < 3; i++) {
        hrf_file_system_name(shared[i], &is_shared);
        assert_true(is_shared);
    }
    for (size_t i = 0; i < 4; i++) {
        hrf_file_system_name(own[i], &is_shared);
        assert_false(is_shared);
    }
    assert_string_equal(hrf_file_system_name(0x6969, &is_shared), "NFS");
    assert_string_equal(hrf_file_system_name(0x1234, &is_shared), "another");
    assert_string_equal(hrf_file_system_of("/proc/nowhere", &is_shared), "another");
    assert_false(is_shared);
    hrf_file_system_refresh("/proc/nowhere"); /* nothing to see: nothing happens */
    hrf_file_system_refresh("/tmp");
}

static void the_processors_of_a_process_are_told_as_ranges(void **state)
{
    (void)state;
    char list[256], tiny[6];
    hrf_process_cpu_list(list, sizeof list);
    int n = 0;
    for (const char *at = list; *at != '\0'; at += *at == ',') {
        char *end;
        const long first = strtol(at, &end, 10);
        const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        assert_true(first >= 0 && last >= first && (*end == ',' || *end == '\0'));
        n += (int)(last - first) + 1;
        at = end;
    }
    assert_int_equal(n, hrf_process_cpu_count());
    hrf_process_cpu_list(tiny, sizeof tiny);
    assert_true(strlen(tiny) < sizeof tiny);
}

static void what_is_no_list_of_processors_is_refused(void **state)
{
    (void)state;
    static const char *const lists[] = { "", "a", "1-", "3-1", "0,x", "-1", "0;1", "999999" };
    struct hrf_error err;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        assert_int_equal(hrf_process_set_cpus(lists[i], &err), HRF_E_USER);
    assert_string_equal(err.text, "'999999' is no list of processors such as 0-3,8");
}

static void without_a_home_the_cache_is_the_users_own(void **state)
{
    (void)state;
    static const char *const homes[] = { NULL, "", "relative" };
    char own[64];
    snprintf(own, sizeof own, "/tmp/hires-flow-%lu", (unsigned long)geteuid());
    HRF_AUTO_FREE char *before = hrf_strdup(getenv("HOME"));
    unsetenv("XDG_CACHE_HOME");
    for (size_t i = 0; i < sizeof homes / sizeof homes[0]; i++) {
        if (homes[i] != NULL)
            setenv("HOME", homes[i], 1);
        else
            unsetenv("HOME");
        HRF_AUTO_FREE char *cache = hrf_cache_directory(NULL);
        assert_string_equal(cache, own);
    }
    setenv("HOME", "/home/x", 1);
    HRF_AUTO_FREE char *cache = hrf_cache_directory(NULL);
    assert_string_equal(cache, "/home/x/.cache/hires-flow");
    if (before != NULL)
        setenv("HOME", before, 1);
}

static void a_pipe_is_written_and_not_replaced(void **state)
{
    (void)state;
    char back[8] = "", *temporary = NULL;
    struct hrf_error err;
    struct stat st;
    HRF_AUTO_FREE char *name = hrf_path_join(directory, "pipe");
    assert_int_equal(mkfifo(name, 0600), 0);
    HRF_AUTO_CLOSE int fd = open(name, O_RDWR | O_CLOEXEC);
    assert_int_equal(hrf_file_write_atomic(name, "abc", 3, &err), HRF_OK);
    assert_int_equal(read(fd, back, sizeof back), 3);
    assert_string_equal(back, "abc");
    assert_int_equal(hrf_file_temporary(name, &temporary, &fd, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "is a device or a pipe"));
    assert_int_equal(stat(name, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
}

/* What is refused, and in which words; `name` is made by the caller. */
static void refuse(const char *name, const char *word)
{
    char *text = NULL, wanted[64], hash[HRF_HASH_HEX];
    size_t n = 0;
    int fd = -1;
    struct hrf_error err = { .status = HRF_OK };
    snprintf(wanted, sizeof wanted, "is a %s; a regular file is needed", word);
    assert_int_equal(hrf_file_open(name, &fd, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, wanted));
    assert_int_equal(fd, -1);
    assert_int_equal(hrf_file_check(name, NULL), HRF_E_USER);
    assert_int_equal(hrf_file_read(name, 100, &text, &n, NULL), HRF_E_USER);
    assert_int_equal(hrf_hash_file(name, hash, NULL), HRF_E_USER);
}

static void fifos_sockets_and_devices_are_no_input_files(void **state)
{
    (void)state;
    HRF_AUTO_FREE char *name = hrf_path_join(directory, "in"),
                       *link = hrf_path_join(directory, "ln");
    assert_int_equal(mkfifo(name, 0600), 0);
    assert_int_equal(symlink(name, link), 0);
    refuse(name, "FIFO (pipe)"); /* nobody writes into it: it is not waited for */
    refuse(link, "FIFO (pipe)");
    assert_int_equal(unlink(name), 0);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof address.sun_path, "%s", name);
    HRF_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    refuse(name, "socket");
    refuse("/dev/zero", "device");
    assert_int_equal(unlink(name), 0);
    assert_int_equal(unlink(link), 0);
}

static void temporary_files_are_new_and_never_the_same(void **state)
{
    (void)state;
    char *names[2] = { NULL, NULL };
    int fds[2] = { -1, -1 };
    struct stat st;
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "out");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(hrf_file_temporary(path, &names[i], &fds[i], NULL), HRF_OK);
        assert_int_equal(strncmp(names[i], path, strlen(path)), 0);
        const char *tail = names[i] + strlen(path);
        assert_int_equal(strncmp(tail, ".tmp.", 5), 0);
        assert_int_equal(strspn(tail + 5, "0123456789abcdef"), 12);
        assert_int_equal(strlen(tail), 17);
        assert_int_equal(fstat(fds[i], &st), 0); /* it is there already: nobody can put a link */
        assert_int_equal(st.st_size, 0);
    }
    assert_string_not_equal(names[0], names[1]);
    /* Two processes of equal number, in two containers: a number says nothing here. */
    char own[24];
    snprintf(own, sizeof own, ".tmp.%ld", (long)getpid());
    assert_null(strstr(names[0], own));
    for (int i = 0; i < 2; i++) {
        close(fds[i]);
        assert_int_equal(unlink(names[i]), 0);
        hrf_free(names[i]);
    }
}

/* A parent that starts `sleep` in the way that `how` says, tells its number, and is killed. */
static void start_and_wait(int how, int tell)
{
    char script[64];
    snprintf(script, sizeof script, "echo $$ >&%d; exec sleep 1000", tell);
    const char *const argv[] = { "sh", "-c", script, NULL };
    struct hrf_process_result result;
    pid_t pid;
    const enum hrf_status status = how == 0 ? hrf_process_run(argv, NULL, NULL, 1000000, 0, NULL,
                                                              NULL, &result, NULL)
                                            : hrf_process_start(argv, NULL, false, &pid, NULL);
    for (;;)
        pause();
    _exit(status == HRF_OK ? 0 : 1);
}

static void a_child_does_not_outlive_a_parent_that_is_killed(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        int tell[2];
        char text[16] = "";
        assert_int_equal(pipe(tell), 0);
        const pid_t parent = fork();
        if (parent == 0)
            start_and_wait(how, tell[1]);
        close(tell[1]);
        assert_true(read(tell[0], text, sizeof text - 1) > 0);
        const pid_t child = (pid_t)strtol(text, NULL, 10);
        assert_true(child > 0 && hrf_process_start_time(child) != 0);
        assert_int_equal(kill(parent, SIGKILL), 0);
        assert_int_equal(waitpid(parent, NULL, 0), parent);
        /* The pipe's end is held by the child alone: it is read to its end when the child is gone,
         * and never if it lives on. */
        struct pollfd end = { .fd = tell[0], .events = POLLIN };
        assert_int_equal(poll(&end, 1, 60000), 1);
        assert_int_equal(read(tell[0], text, sizeof text), 0);
        close(tell[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_processors_of_a_process_are_told_as_ranges),
        cmocka_unit_test(what_is_no_list_of_processors_is_refused),
        cmocka_unit_test(shared_file_systems_are_known_by_their_numbers),
        cmocka_unit_test(paths_are_taken_apart_at_the_last_slash_and_dot),
        cmocka_unit_test(paths_are_tidied_but_not_past_links),
        cmocka_unit_test(an_atomic_write_leaves_the_old_file_when_it_fails),
        cmocka_unit_test(a_process_is_fed_collected_and_judged),
        cmocka_unit_test(a_deadline_ends_the_children_of_the_child_too),
        cmocka_unit_test(a_setting_is_taken_only_if_it_is_a_number_in_range),
        cmocka_unit_test(a_program_that_is_not_there_is_an_error),
        cmocka_unit_test(a_detached_process_has_an_identity_until_it_ends),
        cmocka_unit_test(hashes_know_where_a_field_ends),
        cmocka_unit_test(random_numbers_are_the_same_everywhere),
        cmocka_unit_test(a_crash_point_kills_at_the_pass_asked_for),
        cmocka_unit_test(what_does_not_tell_its_size_is_read_to_its_end),
        cmocka_unit_test(without_a_home_the_cache_is_the_users_own),
        cmocka_unit_test(a_pipe_is_written_and_not_replaced),
        cmocka_unit_test(fifos_sockets_and_devices_are_no_input_files),
        cmocka_unit_test(temporary_files_are_new_and_never_the_same),
        cmocka_unit_test(a_child_does_not_outlive_a_parent_that_is_killed),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
