#include "orchestrator/launch/launch.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/path.h"
#include "base/process.h"
#include "schema/record/job.h"
#include "schema/record/sentinel.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BEAT_MS = 30000, TICK_MS = 20, KILL_AFTER_MS = 10000 };

static volatile sig_atomic_t pending_signal;

static void remember_signal(int signal_number)
{
    pending_signal = signal_number;
}

struct launch {
    struct hrf_job_spec *spec;
    char *directory, *spec_path, *log, *fence, *program;
    struct hrf_sentinel sentinel;
};

static void launch_release(struct launch *l)
{
    hrf_job_spec_destroy(l->spec);
    hrf_free(l->directory);
    hrf_free(l->spec_path);
    hrf_free(l->log);
    hrf_free(l->fence);
    hrf_free(l->program);
}

/* hires-flow itself for tiling; hires-engine beside it (or HRF_ENGINE) for inference. */
static enum hrf_status find_program(struct launch *l, struct hrf_error *err)
{
    HRF_AUTO_FREE char *self = NULL, *directory = NULL;
    const char *engine = getenv("HRF_ENGINE");
    HRF_TRY(hrf_process_self(&self, err));
    if (l->spec->kind == HRF_JOB_TILE)
        l->program = hrf_strdup(self);
    else if (engine != NULL)
        l->program = hrf_strdup(engine);
    else if ((directory = hrf_path_directory(self)) != NULL)
        l->program = hrf_path_join(directory, "hires-engine");
    return l->program != NULL ? HRF_OK : hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
}

static enum hrf_status prepare(struct launch *l, const char *spec_path, struct hrf_error *err)
{
    HRF_TRY(hrf_path_absolute(spec_path, &l->spec_path, err));
    HRF_TRY(hrf_job_spec_read(l->spec_path, &l->spec, err));
    l->directory = hrf_path_directory(l->spec_path);
    if (l->directory == NULL || (l->log = hrf_path_join(l->directory, "log")) == NULL ||
        (l->fence = hrf_path_join(l->directory, "revoked")) == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    struct hrf_sentinel *s = &l->sentinel;
    snprintf(s->run_id, sizeof s->run_id, "%s", l->spec->run_id);
    s->attempt = l->spec->attempt;
    hrf_process_host_name(s->host, sizeof s->host);
    hrf_process_boot_id(s->boot);
    s->pid = getpid();
    s->start_time = hrf_process_start_time(getpid());
    s->start_ms = hrf_clock_wall_ms();
    return find_program(l, err);
}

/* Waits for the worker; passes signals on, beats, and ends it when the attempt was given up. */
static int watch(struct launch *l, pid_t worker)
{
    const char *text = getenv("HRF_BEAT_MS");
    int64_t beat_ns = (text != NULL ? strtoll(text, NULL, 10) : BEAT_MS) * 1000000;
    int64_t next_beat = hrf_clock_ns() + beat_ns, kill_at = INT64_MAX;
    int status = 0;
    while (waitpid(worker, &status, WNOHANG) != worker) {
        int64_t now = hrf_clock_ns();
        bool revoked = kill_at == INT64_MAX && hrf_path_exists(l->fence);
        if (pending_signal != 0 || revoked) {
            kill(worker, pending_signal == SIGUSR1 ? SIGUSR1 : SIGTERM);
            if (pending_signal != SIGUSR1)
                kill_at = now + (int64_t)KILL_AFTER_MS * 1000000;
            pending_signal = 0;
        }
        if (now >= kill_at)
            kill(worker, SIGKILL);
        if (now >= next_beat) {
            struct hrf_error ignored; /* a beat that cannot be written is a beat missed */
            if (hrf_sentinel_write(l->directory, "beat", &l->sentinel, &ignored) != HRF_OK)
                fprintf(stderr, "launch: %s\n", ignored.text);
            next_beat = now + beat_ns;
        }
        hrf_clock_sleep_ms(TICK_MS);
    }
    return status;
}

static enum hrf_status run_worker(struct launch *l, int *code, struct hrf_error *err)
{
    const char *verb = l->spec->kind == HRF_JOB_TILE ? "tile-job" : "infer";
    const char *const argv[] = { l->program, verb, l->spec_path, NULL };
    pid_t worker;
    hrf_crash_point("launch.before_worker");
    HRF_TRY(hrf_process_start(argv, l->log, false, &worker, err));
    hrf_crash_point("launch.after_worker");
    struct hrf_process_result result = hrf_process_decode(watch(l, worker));
    struct rusage usage;
    if (getrusage(RUSAGE_CHILDREN, &usage) == 0)
        l->sentinel.peak_memory_bytes = (int64_t)usage.ru_maxrss * 1024;
    l->sentinel.end_ms = hrf_clock_wall_ms();
    l->sentinel.exited = result.exited;
    l->sentinel.exit_code = result.exit_code;
    l->sentinel.signal = result.signal;
    *code = result.exited ? result.exit_code : 128 + result.signal;
    hrf_crash_point("launch.before_done");
    HRF_TRY(hrf_sentinel_write(l->directory, "done", &l->sentinel, err));
    hrf_crash_point("launch.after_done");
    return HRF_OK;
}

static enum hrf_status launch(struct launch *l, const char *spec_path, int *code,
                              struct hrf_error *err)
{
    HRF_TRY(prepare(l, spec_path, err));
    hrf_crash_point("launch.before_start");
    HRF_TRY(hrf_sentinel_reserve(l->directory, err));
    HRF_TRY(hrf_sentinel_write(l->directory, "start", &l->sentinel, err));
    hrf_crash_point("launch.after_start");
    return run_worker(l, code, err);
}

int hrf_launch(const char *spec_path)
{
    struct sigaction action = { .sa_handler = remember_signal };
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    struct launch l = { .spec = NULL };
    struct hrf_error err = { .status = HRF_OK };
    int code = 1;
    enum hrf_status status = launch(&l, spec_path, &code, &err);
    launch_release(&l);
    if (status != HRF_OK) {
        fprintf(stderr, "launch: %s\n", err.text);
        return 1;
    }
    return code;
}
