/* The processes of a session: counted, and ended with all that they started. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/process.h"
#include "base/process_session.h"
#include "tests/unit/unit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* A shell that leads a session, with two processes in groups of their own and its `words`. */
static pid_t start(const char *words)
{
    HRF_AUTO_FREE char *script = hrf_format("set -m; sleep 1000 & sleep 1000 & %s", words);
    const char *const argv[] = { "sh", "-c", script, NULL };
    pid_t pid = 0;
    assert_int_equal(hrf_process_start(argv, "/dev/null", true, &pid, NULL), HRF_OK);
    return pid;
}

static struct hrf_process_session look(pid_t session, pid_t without)
{
    struct hrf_process_session out;
    hrf_process_session_look(session, without, &out);
    return out;
}

static void processes_of_a_session_are_counted_whatever_their_group(void **state)
{
    (void)state;
    const pid_t pid = start("wait");
    while (look(pid, 0).n_processes < 3)
        hrf_clock_sleep_ms(5);
    assert_int_equal(look(pid, pid).n_processes, 2);
    assert_int_equal(look(pid, 0).n_stopped, 0);
    kill(pid, SIGSTOP);
    while (look(pid, 0).n_stopped == 0)
        hrf_clock_sleep_ms(5);
    assert_int_equal(look(pid, 0).n_stopped, 1);
    assert_int_equal(look(pid, pid).n_stopped, 0);
    hrf_process_session_kill(pid);
    while (look(pid, 0).n_processes > 0) /* one that gets no processor dies later */
        hrf_clock_sleep_ms(5);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void one_that_works_uses_processor_time(void **state)
{
    (void)state;
    const pid_t pid = start("while :; do :; done");
    while (look(pid, 0).cpu_ticks < 5)
        hrf_clock_sleep_ms(5);
    kill(pid, SIGSTOP);
    while (look(pid, 0).n_stopped == 0)
        hrf_clock_sleep_ms(5);
    const int64_t before = look(pid, 0).cpu_ticks;
    hrf_clock_sleep_ms(50);
    assert_int_equal(look(pid, 0).cpu_ticks, before);
    hrf_process_session_kill(pid);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_of_a_session_are_counted_whatever_their_group),
        cmocka_unit_test(one_that_works_uses_processor_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
