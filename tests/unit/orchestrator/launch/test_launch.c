/* The launcher around real processes: shell scripts in the place of hires-engine. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/host.h"
#include "base/path.h"
#include "orchestrator/launch/launch.h"
#include "schema/record/job.h"
#include "schema/record/rank_record.h"
#include "schema/record/sentinel.h"
#include "schema/record/start.h"
#include "tests/unit/directory.h"
#include "tests/unit/settings.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char *text_of(const char *name)
{
    char *text = NULL;
    size_t n = 0;
    assert_int_equal(hrf_file_read(file(name), 1 << 20, &text, &n, NULL), HRF_OK);
    return text;
}

/* spec.json of two tasks, and a worker: a script that is called as `worker infer SPEC`. */
static void prepare(const char *script)
{
    static char run_id[] = "r", job[] = "infer-0001", text[] = "x", id[2][8] = { "t0000", "t0001" };
    struct hrf_job_network network = { .precision = HRF_FP32 };
    struct hrf_job_task tasks[2];
    for (int i = 0; i < 2; i++)
        tasks[i] = (struct hrf_job_task){ .id = id[i],
                                          .identity = { .task = "x" },
                                          .slide_name = text,
                                          .slide_path = text,
                                          .tile_plan = text };
    struct hrf_job_spec spec = { .run_id = run_id,
                                 .job_id = job,
                                 .attempt = 2,
                                 .kind = HRF_JOB_INFER,
                                 .model_sha256 = text,
                                 .networks = &network,
                                 .n_networks = 1,
                                 .tasks = tasks,
                                 .n_tasks = 2 };
    HRF_AUTO_FREE char *body = hrf_format("#!/bin/sh\ncd '%s'\n%s\n", directory, script);
    HRF_AUTO(hrf_workflow) settings = default_settings();
    set_text(&settings->model.file, file("model"));
    assert_int_equal(hrf_file_write_atomic(file("model"), "x", 1, NULL), HRF_OK);
    assert_int_equal(hrf_job_spec_write(&spec, settings, file("spec.json"), NULL), HRF_OK);
    assert_int_equal(hrf_file_write_atomic(file("worker"), body, strlen(body), NULL), HRF_OK);
    assert_int_equal(chmod(file("worker"), 0755), 0);
}

static pid_t start(const char *spec, const char *beat_ms)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    setsid();
    setenv("HRF_ENGINE", file("worker"), 1);
    if (beat_ms != NULL)
        setenv("HRF_BEAT_MS", beat_ms, 1);
    int null_fd = open("/dev/null", O_WRONLY);
    dup2(null_fd, 2);
    _exit(hrf_launch(spec));
}

static int exit_code_of(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int launch(void)
{
    return exit_code_of(start(file("spec.json"), NULL));
}

static void wait_for(const char *name)
{
    while (!hrf_path_exists(file(name)))
        hrf_clock_sleep_ms(5);
}

static pid_t pid_in(const char *name)
{
    HRF_AUTO_FREE char *text = NULL;
    do {
        hrf_free(text);
        wait_for(name);
        text = text_of(name);
    } while (strchr(text, '\n') == NULL);
    return (pid_t)strtol(text, NULL, 10);
}

static void wait_for_death(pid_t pid)
{
    while (hrf_process_start_time(pid) != 0)
        hrf_clock_sleep_ms(5);
}

/* All that a launcher which died has left, whatever it had come to: they are this process's
 * children then, by PR_SET_CHILD_SUBREAPER. */
static void wait_for_orphans(void)
{
    while (waitpid(-1, NULL, 0) > 0)
        ;
    assert_int_equal(errno, ECHILD);
}

static struct hrf_sentinel done(void)
{
    struct hrf_sentinel sentinel = { .attempt = 0 };
    assert_int_equal(hrf_sentinel_read(directory, "done", &sentinel, NULL), HRF_OK);
    assert_string_equal(sentinel.run_id, "r");
    assert_string_equal(sentinel.job_id, "infer-0001");
    assert_int_equal(sentinel.attempt, 2);
    return sentinel;
}

#define STATUS(outcome)                                                                            \
    "'{\"version\":1,\"outcome\":\"" outcome "\",\"failure\":{\"lacks\":null,\"lacks_errno\":0,"   \
    "\"host\":\"\",\"error\":{\"status\":\"user\",\"text\":\"no\"}},"                              \
    "\"record_sha256\":\"\",\"record_bytes\":0,\"seconds\":1,\"task_key\":\"\"}'"

static void a_worker_that_ends_well_is_told_with_its_tasks(void **state)
{
    (void)state;
    struct hrf_sentinel begin, end;
    prepare("echo \"$1 $2\"; echo oops >&2; echo " STATUS("failed") " > t0001.json; exit 0");
    assert_int_equal(launch(), 0);
    assert_int_equal(hrf_sentinel_read(directory, "start", &begin, NULL), HRF_OK);
    end = done();
    assert_true(end.exited && end.exit_code == 0 && end.signal == 0);
    assert_false(end.was_asked || end.was_revoked);
    assert_int_equal(end.tasks.n_failed, 1);
    assert_int_equal(end.tasks.n_missing, 1);
    assert_int_equal(end.tasks.n_done, 0);
    assert_true(end.peak_memory_bytes > 100000);
    assert_true(end.start_ms == begin.start_ms && end.end_ms >= end.start_ms);
    assert_true(begin.end_ms == 0 && begin.pid == end.pid && begin.start_time == end.start_time);
    HRF_AUTO_FREE char *log = text_of("log"),
                       *expected = hrf_format("infer %s\noops\n", file("spec.json"));
    assert_string_equal(log, expected);
}

static void a_worker_that_asks_for_another_try_is_told(void **state)
{
    (void)state;
    prepare("exit 75");
    assert_int_equal(launch(), 75);
    assert_int_equal(done().exit_code, 75);
}

static void a_worker_that_is_killed_is_told_with_the_signal(void **state)
{
    (void)state;
    prepare("kill -KILL $$");
    assert_int_equal(launch(), 128 + SIGKILL);
    struct hrf_sentinel end = done();
    assert_false(end.exited);
    assert_int_equal(end.signal, SIGKILL);
    assert_string_equal(end.reason, "the worker was ended by signal 9 (by hand, or by a program "
                                    "that watches over memory)");
}

static void signals_are_passed_on_to_the_worker(void **state)
{
    (void)state;
    prepare("trap 'echo u > usr1' USR1; trap 'exit 75' TERM; echo > ready\n"
            "while :; do sleep 0.01; done");
    pid_t pid = start(file("spec.json"), NULL);
    wait_for("ready");
    kill(pid, SIGUSR1);
    wait_for("usr1");
    kill(pid, SIGTERM);
    assert_int_equal(exit_code_of(pid), 75);
    assert_true(done().was_asked && done().exited);
}

static void a_signal_that_comes_before_the_worker_is_not_lost(void **state)
{
    (void)state;
    prepare("exec sleep 1000");
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL); /* inherited, so that it waits from the first moment */
    pid_t pid = start(file("spec.json"), NULL);
    kill(pid, SIGTERM);
    sigprocmask(SIG_UNBLOCK, &term, NULL);
    assert_int_equal(exit_code_of(pid), 128 + SIGTERM);
    assert_string_equal(done().reason,
                        "the worker was ended by signal 15 after it was asked to end");
}

static void a_revoked_attempt_ends_its_worker(void **state)
{
    (void)state;
    prepare("echo > ready; exec sleep 1000");
    pid_t pid = start(file("spec.json"), NULL);
    wait_for("ready");
    assert_int_equal(hrf_fence_set(directory, NULL), HRF_OK);
    assert_int_equal(exit_code_of(pid), 128 + SIGTERM);
    struct hrf_sentinel end = done();
    assert_true(end.was_revoked);
    assert_string_equal(end.reason,
                        "the worker was ended by signal 15 after this attempt was revoked");
}

static void the_worker_dies_with_its_launcher(void **state)
{
    (void)state;
    prepare("echo $$ > pid; exec sleep 1000");
    pid_t pid = start(file("spec.json"), NULL);
    pid_t worker = pid_in("pid");
    kill(pid, SIGKILL);
    assert_int_equal(exit_code_of(pid), 1000 + SIGKILL);
    wait_for_death(worker);
    assert_false(hrf_path_exists(file("done.json")));
}

static void what_a_worker_leaves_behind_ends_with_it(void **state)
{
    (void)state;
    prepare("sleep 1000 & echo $! > pid; exit 0");
    assert_int_equal(launch(), 0);
    wait_for_death(pid_in("pid"));
}

static void beats_are_written_while_the_worker_runs(void **state)
{
    (void)state;
    struct hrf_sentinel beat = { .n_beats = 0 };
    prepare("trap 'exit 0' TERM; echo > ready; while :; do sleep 0.01; done");
    pid_t pid = start(file("spec.json"), "10");
    wait_for("ready"); /* without its trap it would die of the signal */
    while (beat.n_beats < 3) {
        enum hrf_status status = hrf_sentinel_read(directory, "beat", &beat, NULL);
        assert_true(status == HRF_OK || status == HRF_E_AGAIN);
        hrf_clock_sleep_ms(5);
    }
    assert_int_equal(beat.attempt, 2);
    kill(pid, SIGTERM);
    assert_int_equal(exit_code_of(pid), 0);
    assert_true(done().n_beats >= 3);
}

static void a_worker_that_does_nothing_is_told_with_the_beats(void **state)
{
    (void)state;
    static const char *const scripts[] = { "kill -STOP $$", "exec sleep 1000" };
    for (size_t i = 0; i < 2; i++) {
        HRF_AUTO_FREE char *place = hrf_start_directory(directory, (int)i);
        prepare(scripts[i]);
        pid_t pid = start(file("spec.json"), "50");
        struct hrf_sentinel beat = { .n_beats = 0 };
        /* One that has not come to its word yet does nothing, too, and is not stopped. */
        while (hrf_sentinel_read(place, "beat", &beat, NULL) != HRF_OK || beat.idle_ms < 300 ||
               beat.n_stopped < 1 - (int64_t)i)
            hrf_clock_sleep_ms(5);
        assert_int_equal(beat.n_stopped, 1 - (int64_t)i);
        assert_int_equal(beat.period_ms, 50);
        kill(pid, SIGKILL);
        exit_code_of(pid);
    }
}

/* Of its processes, or by its own word where they cannot be seen. */
static void a_worker_that_works_is_not_idle(void **state)
{
    (void)state;
    static const char *const scripts[] = {
        "while :; do :; done",
        "n=0; while :; do n=$((n + 1)); echo $n 100000 > \"$(dirname \"$2\")\"/t0000.progress; "
        "sleep 0.01; done"
    };
    for (size_t i = 0; i < 2; i++) {
        HRF_AUTO_FREE char *place = hrf_start_directory(directory, (int)i);
        prepare(scripts[i]);
        pid_t pid = start(file("spec.json"), "100");
        struct hrf_sentinel beat = { .n_beats = 0 };
        int64_t n_busy = 0, n_seen = 0;
        while (n_busy < 5) {
            hrf_clock_sleep_ms(5);
            if (hrf_sentinel_read(place, "beat", &beat, NULL) == HRF_OK && beat.n_beats > n_seen) {
                n_seen = beat.n_beats;
                n_busy += beat.idle_ms == 0;
            }
        }
        kill(pid, SIGKILL);
        exit_code_of(pid);
    }
}

static void a_worker_that_cannot_be_started_is_told_with_the_reason(void **state)
{
    (void)state;
    prepare("exit 0");
    assert_int_equal(unlink(file("worker")), 0);
    assert_int_equal(launch(), 127);
    struct hrf_sentinel end = done();
    HRF_AUTO_FREE char *expected = hrf_format("cannot start %s: No such file or directory",
                                              file("worker"));
    assert_string_equal(end.reason, expected);
    assert_true(end.exited && end.exit_code == 127);
    assert_int_equal(end.tasks.n_missing, 2);
}

/* Before a worker is started that would fail: with what the machine lacks. */
static void a_job_whose_model_is_not_on_its_machine_starts_no_worker(void **state)
{
    (void)state;
    struct hrf_failure failure;
    prepare("touch started");
    assert_int_equal(unlink(file("model")), 0);
    assert_int_equal(launch(), 127);
    assert_false(hrf_path_exists(file("started")));
    assert_int_equal(hrf_failure_read(directory, &failure, NULL), HRF_OK);
    assert_string_equal(failure.lacks, file("model"));
    assert_int_equal(failure.lacks_errno, ENOENT);
    assert_int_equal(failure.error.id, HRF_ERROR_FILE_MISSING);
    hrf_failure_release(&failure);
}

static bool is_file(const char *name)
{
    return hrf_path_exists(file(name));
}

/* The scheduler starts the same attempt again; the first start may still live somewhere. */
static void a_second_start_does_the_rest_in_a_folder_of_its_own(void **state)
{
    (void)state;
    prepare("cd \"$(dirname \"$2\")\"; [ -e ../t0000.json ] || { echo " STATUS(
        "failed") " > t0000.json; echo part > t0001.part; }; exit 75");
    assert_int_equal(launch(), 75);
    assert_true(is_file("claim") && is_file("t0000.json") && !is_file("revoked"));
    assert_int_equal(launch(), 75);
    assert_true(is_file("revoked")); /* the first start, should it live on */
    assert_true(is_file("r1/spec.json") && is_file("r1/done.json") && is_file("r1/start.json"));
    HRF_AUTO(hrf_job_spec) rest = NULL;
    assert_int_equal(hrf_job_spec_read(file("r1/spec.json"), &rest, NULL), HRF_OK);
    assert_int_equal(rest->n_tasks, 1);
    assert_string_equal(rest->tasks[0].id, "t0001");
    HRF_AUTO_FREE char *part = hrf_strdup(file("t0001.part"));
    assert_string_equal(rest->tasks[0].partial, part);
    assert_int_equal(launch(), 75);
    assert_true(is_file("r1/revoked") && is_file("r2/done.json") && !is_file("r2/revoked"));
}

static void a_start_of_what_was_given_up_does_nothing(void **state)
{
    (void)state;
    prepare("echo >> ran; exit 0");
    assert_int_equal(hrf_fence_set(directory, NULL), HRF_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(launch(), 75);
    assert_true(is_file("r3/revoked"));
    assert_false(is_file("done.json") || is_file("r1/done.json") || is_file("ran"));
}

static void take_first_place(void)
{
    bool is_ours = false;
    assert_int_equal(hrf_start_take(directory, 0, &is_ours, NULL), HRF_OK);
    assert_true(is_ours);
}

static void a_start_of_what_the_driver_took_back_does_nothing(void **state)
{
    (void)state;
    prepare("echo >> ran; exit 0");
    take_first_place();
    assert_int_equal(hrf_start_revoke(directory, NULL), HRF_OK);
    assert_int_equal(launch(), 75);
    assert_int_equal(launch(), 75);
    assert_false(is_file("done.json") || is_file("r1/done.json") || is_file("ran"));
}

static void a_start_between_the_drivers_place_and_its_fence_is_ended(void **state)
{
    (void)state;
    prepare("echo > ready; exec sleep 1000");
    take_first_place();
    pid_t pid = start(file("spec.json"), NULL);
    wait_for("ready");
    assert_int_equal(hrf_start_revoke(directory, NULL), HRF_OK);
    assert_int_equal(exit_code_of(pid), 128 + SIGTERM);
    struct hrf_sentinel end;
    assert_int_equal(hrf_sentinel_read(file("r1"), "done", &end, NULL), HRF_OK);
    assert_true(end.was_revoked);
}

static void words_of_the_spec_stand_before_the_worker(void **state)
{
    (void)state;
    prepare("echo \"$0 $1\"; exit 0");
    HRF_AUTO(hrf_job_spec) spec = NULL;
    assert_int_equal(hrf_job_spec_read(file("spec.json"), &spec, NULL), HRF_OK);
    hrf_free(spec->wrap);
    spec->wrap = hrf_calloc(2, sizeof *spec->wrap);
    spec->wrap[0] = hrf_strdup("env");
    spec->wrap[1] = hrf_strdup("A=it's one word");
    spec->n_wrap = 2;
    assert_int_equal(hrf_job_spec_write(spec, spec->settings, file("spec.json"), NULL), HRF_OK);
    assert_int_equal(launch(), 0);
    assert_true(is_file("done.json"));
}

static void prepare_ranks(const char *script, int64_t n)
{
    HRF_AUTO(hrf_job_spec) spec = NULL;
    prepare(script);
    assert_int_equal(hrf_job_spec_read(file("spec.json"), &spec, NULL), HRF_OK);
    spec->n_ranks = n;
    assert_int_equal(hrf_job_spec_write(spec, spec->settings, file("spec.json"), NULL), HRF_OK);
}

static void the_rank_that_failed_first_is_blamed(void **state)
{
    (void)state;
    prepare_ranks("exit 143", 3);
    for (int64_t i = 0; i < 3; i++) {
        struct hrf_rank_record r = { .rank = i, .n_ranks = 3, .host = "n7" };
        r.state = i == 0 ? HRF_RANK_RUNNING : HRF_RANK_FAILED;
        r.end_ms = 1000 - i; /* rank 2 was first */
        r.exit_code = (int)(5 + i);
        snprintf(r.reason, sizeof r.reason, "no memory");
        assert_int_equal(hrf_rank_write(directory, &r, NULL), HRF_OK);
    }
    assert_int_equal(launch(), 7);
    assert_true(done().exited && done().exit_code == 7);
    assert_string_equal(done().reason, "rank 2 of 3 on n7 failed: no memory");
}

static void a_rank_that_was_killed_may_go_again(void **state)
{
    (void)state;
    prepare_ranks("exit 137", 2);
    const struct hrf_rank_record done_well = { .rank = 0, .state = HRF_RANK_STOPPED, .host = "n1" };
    const struct hrf_rank_record killed = { .rank = 1, .state = HRF_RANK_RUNNING, .host = "n2" };
    assert_int_equal(hrf_rank_write(directory, &done_well, NULL), HRF_OK);
    assert_int_equal(hrf_rank_write(directory, &killed, NULL), HRF_OK);
    launch();
    assert_false(done().exited);
    assert_string_equal(done().reason, "rank 1 of 2 on n2 was killed");
    assert_int_equal(done().signal, SIGKILL);
}

/* mpirun and srun add 128 to the signal of the rank that ended first. */
static void the_signal_of_a_rank_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *script;
        int64_t signal;
    } cases[] = { { "exit 139", SIGSEGV }, { "exit 134", SIGABRT }, { "exit 1", 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        prepare_ranks(cases[i].script, 2);
        launch();
        struct hrf_sentinel end;
        HRF_AUTO_FREE char *place = hrf_start_directory(directory, (int)i);
        assert_int_equal(hrf_sentinel_read(place, "done", &end, NULL), HRF_OK);
        assert_string_equal(end.reason, "only 0 of 2 ranks began");
        assert_int_equal(end.signal, cases[i].signal);
    }
}

/* ---- a worker whose work is over and that does not end ---- */

/* The first beat that finds the work over gives it a second. */
static pid_t start_with_deadline(void)
{
    setenv("HRF_RANK_DEADLINE_MS", "500", 1);
    pid_t pid = start(file("spec.json"), "100");
    unsetenv("HRF_RANK_DEADLINE_MS");
    return pid;
}

static void tell_rank(int64_t rank, enum hrf_rank_state rank_state, int64_t pid)
{
    struct hrf_rank_record r = { .rank = rank, .n_ranks = 2, .state = rank_state, .pid = pid };
    hrf_process_host_name(r.host, sizeof r.host);
    r.exit_code = rank_state == HRF_RANK_FAILED ? 7 : 0;
    snprintf(r.reason, sizeof r.reason, "no memory");
    assert_int_equal(hrf_rank_write(directory, &r, NULL), HRF_OK);
}

static void a_worker_that_has_done_all_and_does_not_end_is_ended(void **state)
{
    (void)state;
    prepare("trap 'exit 1' TERM\necho " STATUS("failed") " > t0001.json; cp t0001.json t0000.json; "
                                                         "while :; do sleep 0.01; done");
    assert_int_equal(exit_code_of(start_with_deadline()), 128 + SIGTERM);
    struct hrf_sentinel end = done();
    assert_true(!end.exited && end.signal == SIGTERM && end.was_asked && !end.was_revoked);
    assert_string_equal(end.reason, "the work was over, and the worker did not end within 1 s");
}

static void a_second_start_that_has_done_the_rest_is_ended_too(void **state)
{
    (void)state;
    prepare("cd \"$(dirname \"$2\")\"; [ -e ../t0000.json ] || { echo " STATUS(
        "failed") " > t0000.json; exit 75; }; echo " STATUS("failed") " > t0001.json; exec sleep "
                                                                      "1000");
    assert_int_equal(launch(), 75);
    assert_int_equal(exit_code_of(start_with_deadline()), 128 + SIGTERM);
    struct hrf_sentinel end;
    assert_int_equal(hrf_sentinel_read(file("r1"), "done", &end, NULL), HRF_OK);
    assert_string_equal(end.reason, "the work was over, and the worker did not end within 1 s");
}

/* The one was stopped, the other has ended and nobody has asked how. */
static void the_rank_that_does_not_end_is_named(void **state)
{
    (void)state;
    char host[64], expected[256];
    hrf_process_host_name(host, sizeof host);
    prepare_ranks("true & echo $! > ended; sh -c 'echo $$ > pid; kill -STOP $$' & exec sleep 1000",
                  2);
    pid_t pid = start_with_deadline(), late = pid_in("pid");
    wait_for_death(pid_in("ended"));
    tell_rank(0, HRF_RANK_DONE, pid_in("ended"));
    tell_rank(1, HRF_RANK_STOPPED, late);
    assert_int_equal(exit_code_of(pid), 128 + SIGTERM);
    wait_for_death(late);
    assert_false(done().exited); /* it may go again */
    snprintf(expected, sizeof expected,
             "the work was over, and rank 1 of 2 on %s did not end within 1 s", host);
    assert_string_equal(done().reason, expected);
}

static void a_rank_that_failed_ends_all(void **state)
{
    (void)state;
    char host[64], expected[256];
    hrf_process_host_name(host, sizeof host);
    prepare_ranks("exec sleep 1000", 2);
    tell_rank(0, HRF_RANK_FAILED, 1);
    tell_rank(1, HRF_RANK_RUNNING, 1);
    assert_int_equal(exit_code_of(start_with_deadline()), 7);
    snprintf(expected, sizeof expected, "rank 0 of 2 on %s failed: no memory", host);
    assert_string_equal(done().reason, expected);
}

/* The deadline is a millisecond, and 15 beats of 100 ms are two looks at it. */
static void while_one_rank_works_none_is_late(void **state)
{
    (void)state;
    struct hrf_sentinel beat = { .n_beats = 0 };
    prepare_ranks("while [ ! -e go ]; do sleep 0.01; done; exit 0", 2);
    tell_rank(0, HRF_RANK_DONE, 1);
    tell_rank(1, HRF_RANK_RUNNING, 1);
    setenv("HRF_RANK_DEADLINE_MS", "1", 1);
    pid_t pid = start(file("spec.json"), "100");
    unsetenv("HRF_RANK_DEADLINE_MS");
    while (beat.n_beats < 15) {
        (void)!hrf_sentinel_read(directory, "beat", &beat, NULL);
        hrf_clock_sleep_ms(5);
    }
    assert_int_equal(hrf_file_write_atomic(file("go"), "", 0, NULL), HRF_OK);
    assert_int_equal(exit_code_of(pid), 0);
    assert_false(done().was_asked);
}

static void a_spec_that_cannot_be_read_starts_nothing(void **state)
{
    (void)state;
    assert_int_equal(exit_code_of(start(file("none.json"), NULL)), 75); /* try again */
    assert_false(hrf_path_exists(file("start.json")));
}

/* Learns the crash points of a clean launch, then dies at each: the worker is gone, what stands
 * is whole, and done.json stands only when the last point was reached. */
static void dying_at_any_point_leaves_whole_files_and_no_worker(void **state)
{
    (void)state;
    /* Its number is there whole or not at all, and it waits for a beat: a launcher that is late
     * would find it over and pass no point of a beat. */
    static const char script[] = "echo $$ > new; mv new pid\n"
                                 "while [ ! -e beat.json ]; do sleep 0.01; done; exit 0";
    setenv("HRF_CRASH_LIST", file("points"), 1);
    prepare(script);
    pid_t pid = start(file("spec.json"), "10");
    unsetenv("HRF_CRASH_LIST");
    assert_int_equal(exit_code_of(pid), 0);
    HRF_AUTO_FREE char *points = text_of("points");
    int n_points = 0;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    for (char *at = points, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        *end = '\0';
        assert_int_equal(remove_directory(NULL), 0);
        assert_int_equal(mkdir(directory, 0700), 0);
        prepare(script);
        setenv("HRF_CRASH_AT", at, 1);
        pid = start(file("spec.json"), "10");
        unsetenv("HRF_CRASH_AT");
        int code = exit_code_of(pid);
        assert_int_equal(code, 1000 + SIGKILL);
        wait_for_orphans();
        struct hrf_sentinel sentinel;
        static const char *const names[] = { "start", "beat", "done" };
        for (int i = 0; i < 3; i++) {
            enum hrf_status status = hrf_sentinel_read(directory, names[i], &sentinel, NULL);
            assert_true(status == HRF_OK || status == HRF_E_AGAIN);
        }
        assert_int_equal(hrf_path_exists(file("done.json")), strcmp(at, "launch.done.after") == 0);
        n_points++;
    }
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
    assert_true(n_points >= 9);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)
    const struct CMUnitTest tests[] = {
        TEST(a_worker_that_ends_well_is_told_with_its_tasks),
        TEST(a_second_start_does_the_rest_in_a_folder_of_its_own),
        TEST(a_start_of_what_was_given_up_does_nothing),
        TEST(a_start_of_what_the_driver_took_back_does_nothing),
        TEST(a_start_between_the_drivers_place_and_its_fence_is_ended),
        TEST(words_of_the_spec_stand_before_the_worker),
        TEST(the_rank_that_failed_first_is_blamed),
        TEST(a_rank_that_was_killed_may_go_again),
        TEST(the_signal_of_a_rank_is_told),
        TEST(a_worker_that_has_done_all_and_does_not_end_is_ended),
        TEST(a_second_start_that_has_done_the_rest_is_ended_too),
        TEST(the_rank_that_does_not_end_is_named),
        TEST(a_rank_that_failed_ends_all),
        TEST(while_one_rank_works_none_is_late),
        TEST(a_worker_that_asks_for_another_try_is_told),
        TEST(a_worker_that_is_killed_is_told_with_the_signal),
        TEST(signals_are_passed_on_to_the_worker),
        TEST(a_signal_that_comes_before_the_worker_is_not_lost),
        TEST(a_revoked_attempt_ends_its_worker),
        TEST(the_worker_dies_with_its_launcher),
        TEST(what_a_worker_leaves_behind_ends_with_it),
        TEST(beats_are_written_while_the_worker_runs),
        TEST(a_worker_that_does_nothing_is_told_with_the_beats),
        TEST(a_worker_that_works_is_not_idle),
        TEST(a_worker_that_cannot_be_started_is_told_with_the_reason),
        TEST(a_job_whose_model_is_not_on_its_machine_starts_no_worker),
        TEST(a_spec_that_cannot_be_read_starts_nothing),
        TEST(dying_at_any_point_leaves_whole_files_and_no_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
