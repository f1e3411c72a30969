/* launch.c - one loop around one child process. Signals are blocked and taken by sigtimedwait(), so
 * there are no signal handlers, and nothing is polled more often than twice a second. */
#include "orchestrator/launch/launch.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/file.h"
#include "base/host.h"
#include "base/min_max.h"
#include "base/own_process.h"
#include "base/path.h"
#include "base/process.h"
#include "base/process_session.h"
#include "schema/record/job.h"
#include "schema/record/rank_record.h"
#include "schema/record/sentinel.h"
#include "schema/record/start.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* FENCE_MS: time after which a revoked attempt notices it at the latest. KILL_AFTER_MS: time for a
 * worker that was asked to end to finish and commit its chunk. */
enum { FENCE_MS = 500, KILL_AFTER_MS = 10000 };
/* Exit codes for the process that started the launcher, beside those of workers (error.h); the
 * sentinels have the details. */
enum { EXIT_UNUSABLE = 2, EXIT_NOT_STARTED = 127 };

struct launch {
    struct hrf_job_spec *spec;
    char *directory, *spec_path, *log, *program;
    bool *is_past;     /* [spec->n_tasks]: the task was done by an earlier start */
    size_t n_open;     /* number of the other tasks */
    int64_t end_by_ns; /* time by which the worker must have ended; 0: it still has work */
    bool is_overdue;
    struct {
        int64_t cpu_ticks,
            n_patches;      /* processor time of its processes; patches that it reported as done */
        int64_t since_ns;   /* when one of the two changed last */
    } life;                 /* signs of life of the worker at the last beat */
    int64_t n_memory_kills; /* before the worker was started */
    sigset_t signals;
    struct hrf_sentinel sentinel;
};

static void launch_release(struct launch *l)
{
    hrf_job_spec_destroy(l->spec);
    hrf_free(l->is_past);
    hrf_free(l->directory);
    hrf_free(l->spec_path);
    hrf_free(l->log);
    hrf_free(l->program);
}

static void fill_identity(struct launch *l)
{
    struct hrf_sentinel *s = &l->sentinel;
    snprintf(s->run_id, sizeof s->run_id, "%s", l->spec->run_id);
    snprintf(s->job_id, sizeof s->job_id, "%s", l->spec->job_id);
    s->attempt = l->spec->attempt;
    const char *number = getenv("SLURM_JOB_ID");
    s->scheduler_job = number != NULL ? strtoll(number, NULL, 10) : 0;
    hrf_process_host_name(s->host, sizeof s->host);
    hrf_process_boot_id(s->boot);
    s->pid = getpid();
    s->start_time = hrf_process_start_time(getpid());
    s->start_ms = hrf_clock_wall_ms();
    s->period_ms = hrf_sentinel_period_ms();
    s->exit_code = -1;
}

/* ---- a second start of the same attempt, after the scheduler requeued the job ---- */

static enum hrf_status claim(const char *attempt, int *start, struct hrf_error *err)
{
    for (int k = 0; k < HRF_MAX_STARTS; k++) {
        bool is_ours;
        HRF_TRY(hrf_start_take(attempt, k, &is_ours, err));
        if (is_ours) {
            *start = k;
            return HRF_OK;
        }
    }
    return hrf_error_set(err, HRF_E_EXTERNAL, "'%s' was started %d times", attempt, HRF_MAX_STARTS);
}

static bool has_ended(const char *attempt, int start, const char *task_id)
{
    for (int k = 0; k < start; k++) {
        HRF_AUTO_FREE char *directory = hrf_start_directory(attempt, k);
        HRF_AUTO_FREE char *status = hrf_format("%s/%s.json", directory, task_id);
        if (hrf_path_exists(status))
            return true;
    }
    return false;
}

/* Finds the newest partial result of a task that an earlier start left; without one, task->partial
 * stays as it is. */
static void find_part(const char *attempt, int start, struct hrf_job_task *task)
{
    for (int k = start - 1; k >= 0; k--) {
        HRF_AUTO_FREE char *directory = hrf_start_directory(attempt, k);
        char *part = hrf_task_part_path(directory, task->id);
        if (hrf_path_exists(part)) {
            hrf_free(task->partial);
            task->partial = part;
            return;
        }
        hrf_free(part);
    }
}

/* Writes a spec of the tasks that remain to this start's own directory. The earlier starts are
 * fenced: if one of them still runs unseen, it can commit nothing more. */
static enum hrf_status take_over(struct launch *l, int start, struct hrf_error *err)
{
    HRF_AUTO_FREE char *attempt = l->directory;
    struct hrf_job_spec rest = *l->spec;
    l->directory = NULL;
    HRF_AUTO_FREE struct hrf_job_task *tasks = hrf_calloc(l->spec->n_tasks + 1, sizeof *tasks);
    rest.n_tasks = 0;
    rest.tasks = tasks;
    l->directory = hrf_start_directory(attempt, start);
    for (int k = 0; k < start; k++) {
        HRF_AUTO_FREE char *directory = hrf_start_directory(attempt, k);
        HRF_TRY(hrf_fence_set(directory, err));
    }
    for (size_t i = 0; i < l->spec->n_tasks; i++) {
        find_part(attempt, start, &l->spec->tasks[i]);
        l->is_past[i] = has_ended(attempt, start, l->spec->tasks[i].id);
        if (!l->is_past[i])
            rest.tasks[rest.n_tasks++] = l->spec->tasks[i];
    }
    hrf_free(l->spec_path);
    l->spec_path = hrf_path_join(l->directory, "spec.json");
    HRF_TRY(hrf_job_spec_write(&rest, l->spec->settings, l->spec_path, err));
    l->n_open = rest.n_tasks;
    return HRF_OK;
}

/* HRF_E_AGAIN: this attempt was revoked, or a later start has fenced this one. Then this start's
 * own fence is set as well, so that the next start finds one. */
static enum hrf_status begin_start(struct launch *l, struct hrf_error *err)
{
    int start = 0;
    HRF_TRY(claim(l->directory, &start, err));
    HRF_AUTO_FREE char *before = hrf_start_directory(l->directory, start > 0 ? start - 1 : 0);
    HRF_AUTO_FREE char *own = hrf_start_directory(l->directory, start);
    if (hrf_fence_is_set(before)) {
        HRF_TRY(hrf_fence_set(own, err));
        return hrf_error_set(err, HRF_E_AGAIN, "this attempt was given up before it began");
    }
    return start > 0 ? take_over(l, start, err) : HRF_OK;
}

static enum hrf_status launch_prepare(struct launch *l, const char *spec_path,
                                      struct hrf_error *err)
{
    HRF_TRY(hrf_path_absolute(spec_path, &l->spec_path, err));
    HRF_TRY(hrf_job_spec_read(l->spec_path, &l->spec, err));
    l->n_open = l->spec->n_tasks;
    l->is_past = hrf_calloc(l->spec->n_tasks + 1, sizeof *l->is_past);
    l->directory = hrf_path_directory(l->spec_path);
    HRF_TRY(begin_start(l, err));
    l->log = hrf_path_join(l->directory, "log");
    fill_identity(l);
    return HRF_OK;
}

/* Returns the number of patches that the worker reports as done. Its processes may run on other
 * machines, where their processor time cannot be seen. */
static int64_t count_patches(const struct launch *l)
{
    int64_t sum = 0, done, total;
    for (size_t i = 0; i < l->spec->n_tasks; i++)
        if (hrf_task_progress_read(l->directory, l->spec->tasks[i].id, &done, &total))
            sum += done;
    return sum;
}

/* Finds out whether the worker does anything: a program that is stopped or waits for a hanging disk
 * uses less than a thousandth of a processor (mpirun and helper threads wake up now and then). Not
 * done under a scheduler, which starts ranks on other machines and has a time limit of its own. */
static void look_at_worker(struct launch *l)
{
    struct hrf_process_session worker;
    struct hrf_sentinel *s = &l->sentinel;
    if (s->scheduler_job != 0)
        return;
    hrf_process_session_look(getsid(0), getpid(), &worker);
    const int64_t now = hrf_clock_ns(), n_patches = count_patches(l);
    const int64_t used = worker.cpu_ticks -
                         l->life.cpu_ticks; /* negative: one of its processes has ended */
    const int64_t min = s->period_ms * sysconf(_SC_CLK_TCK) / 1000 / 1000;
    if (l->life.since_ns == 0 || used < 0 || used > min || n_patches != l->life.n_patches)
        l->life.since_ns = now;
    l->life.cpu_ticks = worker.cpu_ticks;
    l->life.n_patches = n_patches;
    s->idle_ms = (now - l->life.since_ns) / 1000000;
    s->n_stopped = worker.n_stopped;
}

static void beat(struct launch *l)
{
    struct hrf_error err;
    look_at_worker(l);
    l->sentinel.n_beats++;
    l->sentinel.beat_ms = hrf_clock_wall_ms();
    hrf_crash_point("launch.beat.before");
    if (hrf_sentinel_write(l->directory, "beat", &l->sentinel, &err) != HRF_OK)
        fprintf(stderr, "launch: %s\n",
                err.text); /* one beat is lost; the next one may be written */
    hrf_crash_point("launch.beat.after");
}

/* Returns the next signal within `wait_ns`; 0: there was none. */
static int next_signal(const sigset_t *signals, int64_t wait_ns)
{
    if (wait_ns < 0)
        wait_ns = 0;
    struct timespec wait = { .tv_sec = wait_ns / 1000000000, .tv_nsec = wait_ns % 1000000000 };
    int number = sigtimedwait(signals, NULL, &wait);
    return number > 0 ? number : 0;
}

/* True if the worker has ended. It stays a zombie until its process group has been killed, so that
 * no other group can get the same number meanwhile. */
static bool worker_has_ended(pid_t worker)
{
    siginfo_t info = { .si_pid = 0 };
    return waitid(P_PID, (id_t)worker, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid == worker;
}

/* ---- a worker whose work is done but that does not end, for example because one of its ranks was
 * stopped at the very end, when no other rank waits for it any more ---- */

/* True if every task of this start has a status. The last is looked at first: most often it ends
 * last. */
static bool all_have_ended(const struct launch *l)
{
    for (size_t i = l->spec->n_tasks; i-- > 0;) {
        HRF_AUTO_FREE char *status = hrf_format("%s/%s.json", l->directory, l->spec->tasks[i].id);
        if (!l->is_past[i] && !hrf_path_exists(status))
            return false;
    }
    return true;
}

static bool is_work_over(const struct launch *l)
{
    const int64_t n_ranks = l->spec->n_ranks;
    return all_have_ended(l) || (n_ranks > 1 && hrf_rank_have_ended(l->directory, n_ranks));
}

/* True if the rank is alive. It was started by this machine's mpirun if it belongs to this session.
 * A rank that has ended may still be a zombie while mpirun ends the others. */
static bool is_rank_there(const struct launch *l, int64_t rank)
{
    struct hrf_rank_record r;
    return hrf_rank_read(l->directory, rank, &r, NULL) == HRF_OK &&
           strcmp(r.host, l->sentinel.host) == 0 && getsid((pid_t)r.pid) == getsid(0) &&
           hrf_process_start_time((pid_t)r.pid) != 0;
}

/* Returns twice the time that ranks wait for each other: all ranks that waited have ended by then.
 */
static int64_t deadline_ns(void)
{
    return 2 * hrf_rank_deadline_ms() * 1000000;
}

static void blame_late(struct launch *l)
{
    const int64_t n_ranks = l->spec->n_ranks;
    struct hrf_sentinel *s = &l->sentinel;
    char who[128] = "the worker";
    for (int64_t i = n_ranks - 1; i >= 0 && n_ranks > 1; i--) {
        if (is_rank_there(l, i))
            snprintf(who, sizeof who, "rank %lld of %lld on %.64s", (long long)i,
                     (long long)n_ranks, s->host);
    }
    snprintf(s->reason, sizeof s->reason, "the work was over, and %s did not end within %lld s",
             who, (long long)(deadline_ns() / 1000000000));
}

/* Returns the signal to end the worker with: SIGTERM, once for each reason; 0: no new reason. */
static int find_reason_to_end(struct launch *l, int64_t now)
{
    if (!l->sentinel.was_revoked && hrf_fence_is_set(l->directory)) {
        l->sentinel.was_revoked = true;
        return SIGTERM;
    }
    if (l->is_overdue || l->end_by_ns == 0 || now < l->end_by_ns)
        return 0;
    l->is_overdue = true;
    blame_late(l);
    return SIGTERM;
}

/* Writes beats, passes signals on, and ends the worker if there is a reason. */
static void watch(struct launch *l, pid_t worker)
{
    const int64_t period = hrf_sentinel_period_ms() * 1000000;
    int64_t next_beat = hrf_clock_ns() + period;
    int64_t next_look = 0, kill_at = INT64_MAX;
    while (!worker_has_ended(worker)) {
        int64_t now = hrf_clock_ns();
        int ask = 0;
        if (now >= next_look) {
            next_look = now + (int64_t)FENCE_MS * 1000000;
            ask = find_reason_to_end(l, now);
        }
        if (now >= kill_at) {
            kill(-worker, SIGKILL);
            kill_at = now + 1000000000; /* a process that waits for I/O may take a while */
        }
        if (now >= next_beat) {
            beat(l);
            next_beat = now + period;
            if (l->end_by_ns == 0 && is_work_over(l))
                l->end_by_ns = now + deadline_ns();
        }
        if (ask == 0)
            ask = next_signal(&l->signals, hrf_min(hrf_min(next_beat, next_look), kill_at) - now);
        if (ask == 0 || ask == SIGCHLD)
            continue;
        kill(-worker, ask);
        l->sentinel.was_asked = true;
        l->sentinel.was_warned |= ask == SIGUSR1;
        if (ask != SIGUSR1) /* after the scheduler's warning the scheduler kills the job itself */
            kill_at = hrf_min(kill_at, hrf_clock_ns() + (int64_t)KILL_AFTER_MS * 1000000);
    }
}

static void count_task(const char *directory, const char *task_id, struct hrf_task_tally *tally)
{
    HRF_AUTO_RELEASE(hrf_task_status) status = { .outcome = HRF_TASK_DONE };
    HRF_AUTO_FREE char *record = NULL;
    size_t n_bytes = 0;
    if (hrf_task_collect(directory, task_id, &status, &record, &n_bytes, NULL) != HRF_OK)
        tally->n_missing++;
    else if (status.outcome == HRF_TASK_FAILED)
        tally->n_failed++;
    else if (status.outcome == HRF_TASK_NO_TISSUE)
        tally->n_no_tissue++;
    else
        tally->n_done++;
}

static int64_t to_ms(struct timeval time)
{
    return (int64_t)time.tv_sec * 1000 + (int64_t)time.tv_usec / 1000;
}

/* Writes done.json. Its space was reserved at the start, so this works on a full disk. */
static enum hrf_status write_done(struct launch *l, struct hrf_error *err)
{
    struct rusage usage;
    for (size_t i = 0; i < l->spec->n_tasks; i++)
        count_task(l->directory, l->spec->tasks[i].id, &l->sentinel.tasks);
    if (getrusage(RUSAGE_CHILDREN, &usage) == 0) {
        const bool are_elsewhere = l->sentinel.scheduler_job != 0 && l->spec->n_wrap > 0;
        l->sentinel.peak_memory_bytes = (int64_t)usage.ru_maxrss * 1024;
        l->sentinel.cpu_ms = to_ms(usage.ru_utime) + to_ms(usage.ru_stime);
        /* The child is srun; the ranks are slurmd's children and report their own usage. */
        if (are_elsewhere)
            hrf_rank_sum_usage(l->directory, l->spec->n_ranks, &l->sentinel.cpu_ms,
                               &l->sentinel.peak_memory_bytes);
    }
    l->sentinel.end_ms = hrf_clock_wall_ms();
    hrf_crash_point("launch.done.before");
    HRF_TRY(hrf_sentinel_write(l->directory, "done", &l->sentinel, err));
    hrf_crash_point("launch.done.after");
    return HRF_OK;
}

/* Returns the exit code of a launcher that fails with that status. */
static int exit_code_of(enum hrf_status status, int otherwise)
{
    const int code = hrf_status_row(status)->worker_exit_code;
    return code == HRF_EXIT_TRY_AGAIN || code == HRF_EXIT_NO_MEMORY ? code : otherwise;
}

/* Writes error.json: why no worker runs, and the file that this machine lacks. */
static void fail_before_work(const struct launch *l, const struct hrf_error *error)
{
    const struct hrf_workflow *settings = l->spec->settings;
    const char *const paths[] = { l->spec->n_wrap == 0 ? l->program : NULL, /* not in a container */
                                  settings->model.file, settings->tiler.tissue.model };
    HRF_AUTO_RELEASE(hrf_failure) failure = { .lacks = NULL };
    hrf_failure_fill(&failure, error, paths, sizeof paths / sizeof paths[0]);
    hrf_failure_write(l->directory, &failure);
}

/* Each job probes its machine before it starts a worker that would fail: at no cost in a queue. */
static enum hrf_status probe(const struct launch *l, struct hrf_error *err)
{
    HRF_AUTO_CLOSE int model = -1;
    HRF_AUTO_CLOSE int tissue = -1;
    if (l->spec->model_sha256 != NULL)
        HRF_TRY(hrf_file_open(l->spec->settings->model.file, &model, err));
    if (l->spec->tissue_sha256 != NULL)
        HRF_TRY(hrf_file_open(l->spec->settings->tiler.tissue.model, &tissue, err));
    return HRF_OK;
}

static enum hrf_status start_worker(struct launch *l, pid_t *worker, struct hrf_error *err)
{
    /* A tile job needs the engine only for a network that finds tissue. */
    const bool is_own = l->spec->kind == HRF_JOB_TILE && l->spec->tissue_sha256 == NULL;
    HRF_TRY(is_own ? hrf_process_self(&l->program, err) : hrf_launch_find_engine(&l->program, err));
    const char *verb = is_own ? "tile-job"
                              : hrf_engine_commands[HRF_ENGINE_WORKERS + l->spec->kind].name;
    HRF_TRY(probe(l, err));
    HRF_AUTO_FREE const char **argv = hrf_calloc(l->spec->n_wrap + 4, sizeof *argv);
    for (size_t i = 0; i < l->spec->n_wrap; i++)
        argv[i] = l->spec->wrap[i];
    argv[l->spec->n_wrap] = l->program;
    argv[l->spec->n_wrap + 1] = verb;
    argv[l->spec->n_wrap + 2] = l->spec_path;
    hrf_launch_wait_quietly();
    hrf_crash_point("launch.worker.before");
    HRF_TRY(hrf_process_start(argv, l->log, false, worker, err));
    hrf_crash_point("launch.worker.after");
    return HRF_OK;
}

/* Returns the signal that ended the ranks, which mpirun and srun report as exit code 128 + signal;
 * 0: no signal. */
static int64_t signal_of_ranks(struct hrf_process_result result)
{
    if (!result.exited)
        return result.signal;
    return result.exit_code > 128 && result.exit_code <= 128 + 64 ? result.exit_code - 128 : 0;
}

/* mpirun and srun report the ranks that they killed themselves; the ranks' records tell which one
 * failed first. */
static void blame_rank(struct launch *l, struct hrf_process_result result)
{
    struct hrf_sentinel *s = &l->sentinel;
    char text[sizeof s->reason];
    int64_t code;
    hrf_rank_find_failed(l->directory, l->spec->n_ranks, text, sizeof text, &code);
    if (text[0] == '\0')
        return;
    snprintf(s->reason, sizeof s->reason, "%s", text);
    s->exited = code != 0; /* 0: it was killed, or did not get as far as to fail */
    s->exit_code = code != 0 ? code : -1;
    s->signal = code != 0 ? 0 : signal_of_ranks(result);
}

/* Returns how many processes the kernel has killed for lack of memory since the machine was
 * started, in any group; -1: unknown. */
static int64_t count_memory_kills(void)
{
    char text[16384];
    HRF_AUTO_CLOSE int fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    text[n > 0 ? n : 0] = '\0';
    const char *line = strstr(text, "\noom_kill ");
    return line != NULL ? strtoll(line + strlen("\noom_kill "), NULL, 10) : -1;
}

static void record_end(struct launch *l, struct hrf_process_result result)
{
    struct hrf_sentinel *s = &l->sentinel;
    s->exited = result.exited;
    s->exit_code = result.exit_code;
    s->signal = result.signal;
    if (!result.exited && !l->is_overdue)
        snprintf(s->reason, sizeof s->reason, "the worker was ended by signal %d%s", result.signal,
                 s->was_revoked             ? " after this attempt was revoked"
                 : s->was_asked             ? " after it was asked to end"
                 : result.signal == SIGKILL ? " (by hand, or by a program that watches over memory)"
                                            : "");
    if (result.exited && result.exit_code == 0)
        return;
    if (result.exited &&
        l->is_overdue) { /* the end was ours; mpirun's exit code only describes it */
        s->exited = false;
        s->exit_code = -1;
        s->signal = SIGTERM;
    }
    if (l->spec->n_ranks > 1)
        blame_rank(l, result);
    /* If the kernel kills another program for lack of memory at the same time, this worker's end is
     * blamed on memory, too. That costs one try. */
    if (!s->exited && s->signal == SIGKILL && !s->was_asked &&
        count_memory_kills() > l->n_memory_kills && l->n_memory_kills >= 0) {
        s->was_out_of_memory = true;
        snprintf(s->reason, sizeof s->reason,
                 "the worker was killed: the system had no memory left");
    }
}

/* Returns the exit code of the launcher. */
static int run_worker(struct launch *l)
{
    struct hrf_sentinel *s = &l->sentinel;
    struct hrf_error err = { .status = HRF_OK };
    pid_t worker;
    l->n_memory_kills = count_memory_kills();
    enum hrf_status status = start_worker(l, &worker, &err);
    if (status != HRF_OK) {
        s->exited = true;
        s->exit_code = exit_code_of(status, EXIT_NOT_STARTED);
        snprintf(s->reason, sizeof s->reason, "%.*s", (int)sizeof s->reason - 1, err.text);
        fail_before_work(l, &err);
        return (int)s->exit_code;
    }
    int wait_status = 0;
    watch(l, worker);
    kill(-worker, SIGKILL); /* processes that the worker leaves behind end with it */
    waitpid(worker, &wait_status, 0);
    record_end(l, hrf_process_decode(wait_status));
    return s->exited ? (int)s->exit_code : 128 + (int)s->signal;
}

static enum hrf_status launch(struct launch *l, int *code, struct hrf_error *err)
{
    hrf_crash_point("launch.reserve.before");
    HRF_TRY(hrf_sentinel_reserve(l->directory, err));
    hrf_crash_point("launch.start.before");
    HRF_TRY(hrf_sentinel_write(l->directory, "start", &l->sentinel, err));
    hrf_crash_point("launch.start.after");
    l->sentinel.exited = true; /* nothing was left to do */
    l->sentinel.exit_code = 0;
    *code = l->n_open > 0 ? run_worker(l) : 0;
    return write_done(l, err);
}

int hrf_launch(const char *spec_path)
{
    HRF_AUTO_RELEASE(launch) l = { .spec = NULL };
    struct hrf_error err = { .status = HRF_OK };
    static const int taken[] = { SIGTERM, SIGINT, SIGUSR1, SIGCHLD };
    sigemptyset(&l.signals);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        sigaddset(&l.signals, taken[i]);
    sigprocmask(SIG_BLOCK, &l.signals, NULL);
    signal(SIGCHLD, SIG_DFL); /* with SIGCHLD ignored, the kernel would reap the worker unnoticed */
    signal(SIGHUP, SIG_IGN);  /* the job must outlive the login session */
    int code = EXIT_UNUSABLE;
    enum hrf_status status = launch_prepare(&l, spec_path, &err);
    if (status == HRF_OK)
        status = launch(&l, &code, &err);
    if (status != HRF_OK) {
        fprintf(stderr, "launch: %s\n", err.text);
        code = exit_code_of(status, EXIT_UNUSABLE);
    }
    return code;
}
