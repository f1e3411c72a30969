/* local.c - runs jobs as processes of this machine: `hires-flow launch SPEC`, each in its own
 * session. */
#include "base/alloc.h"
#include "base/host.h"
#include "base/own_process.h"
#include "base/process.h"
#include "base/process_session.h"
#include "orchestrator/executor/executor.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct local {
    struct hrf_executor base;
    const struct hrf_workflow_executor *settings; /* borrowed */
};

static bool has_many_ranks(const struct local *local, const char *kind)
{
    return local->settings->local.ranks > 1 &&
           (strcmp(kind, "infer") == 0 || strcmp(kind, "network") == 0);
}

static void local_destroy(struct hrf_executor *executor)
{
    hrf_free(executor);
}

static int64_t local_limit(struct hrf_executor *executor)
{
    (void)executor;
    return 1;
}

static int64_t local_threads(const struct hrf_executor *executor, const char *kind,
                             int64_t max_jobs)
{
    const struct local *local = (const struct local *)executor;
    const int64_t places = local->settings->max_jobs;
    const int64_t jobs = max_jobs < places ? max_jobs : places;
    const int64_t n = has_many_ranks(local, kind) ? jobs * local->settings->local.ranks : jobs;
    const int64_t share = hrf_process_cpu_count() / n;
    return share > 0 ? share : 1;
}

static int64_t local_ranks(const struct hrf_executor *executor, const char *kind)
{
    const struct local *local = (const struct local *)executor;
    return has_many_ranks(local, kind) ? local->settings->local.ranks : 1;
}

/* Jobs share the machine, so ranks are not bound to cores and may outnumber them. After SIGTERM,
 * ranks get 8 s to save what they have before mpirun kills them. */
static const char *const mpirun[] = {
    "mpirun", "--bind-to", "none", "--oversubscribe", "--mca", "odls_base_sigkill_timeout", "8"
};

static void local_wrap(struct hrf_executor *executor, const char *kind, struct hrf_text_list *out)
{
    const struct local *local = (const struct local *)executor;
    const struct hrf_text_list *launcher = &local->settings->local.launcher;
    char number[24];
    if (!has_many_ranks(local, kind))
        return;
    for (size_t i = 0; i < launcher->n_items; i++)
        hrf_text_list_add(out, launcher->items[i]);
    for (size_t i = 0; launcher->n_items == 0 && i < sizeof mpirun / sizeof mpirun[0]; i++)
        hrf_text_list_add(out, mpirun[i]);
    if (launcher->n_items == 0 && geteuid() == 0) /* Open MPI refuses root without this option */
        hrf_text_list_add(out, "--allow-run-as-root");
    snprintf(number, sizeof number, "%lld", (long long)local->settings->local.ranks);
    hrf_text_list_add(out, "-n");
    hrf_text_list_add(out, number);
}

static enum hrf_status local_submit(struct hrf_executor *executor,
                                    const struct hrf_submission *submission,
                                    struct hrf_job_handle *handles,
                                    enum hrf_submit_outcome *outcome, struct hrf_error *err)
{
    HRF_AUTO_FREE char *self = NULL;
    (void)executor;
    HRF_TRY(hrf_process_self(&self, err));
    for (size_t i = 0; i < submission->n_jobs; i++) {
        const char *const argv[] = { self, "launch", submission->spec_paths[i], NULL };
        pid_t pid;
        HRF_TRY(hrf_process_start(argv, "/dev/null", true, &pid, err));
        handles[i].id = pid;
        handles[i].start_time = hrf_process_start_time(pid);
    }
    *outcome = HRF_SUBMIT_TAKEN;
    return HRF_OK;
}

static void local_poll(struct hrf_executor *executor, bool *is_new)
{
    (void)executor;
    *is_new = true;
}

static bool is_there(const struct hrf_job_handle *handle)
{
    if (handle->id <= 0 || handle->id > INT32_MAX) /* not a process ID */
        return false;
    waitpid((pid_t)handle->id, NULL, WNOHANG); /* reaps it if it is our child */
    uint64_t now = hrf_process_start_time((pid_t)handle->id);
    return now != 0 && now == handle->start_time;
}

static void local_look(struct hrf_executor *executor, const struct hrf_job_handle *handle,
                       struct hrf_job_view *out)
{
    (void)executor;
    *out = (struct hrf_job_view){ .observed = is_there(handle) ? HRF_JOB_RUNNING : HRF_JOB_GONE,
                                  .id = handle->id };
}

static void local_cancel(struct hrf_executor *executor, const struct hrf_job_handle *handles,
                         size_t n, bool hard)
{
    (void)executor;
    for (size_t i = 0; i < n; i++) {
        const pid_t launcher = (pid_t)handles[i].id;
        if (!is_there(&handles[i]))
            continue;
        if (hard) /* also the worker and mpirun's ranks: a stopped process acts on SIGKILL only */
            hrf_process_session_kill(launcher);
        else
            kill(launcher, SIGTERM);
    }
}

static const struct hrf_executor_ops ops = {
    .name = "local",
    .destroy = local_destroy,
    .limit = local_limit,
    .wrap = local_wrap,
    .threads = local_threads,
    .ranks = local_ranks,
    .submit = local_submit,
    .poll = local_poll,
    .look = local_look,
    .cancel = local_cancel,
};

enum hrf_status hrf_executor_local_create(const struct hrf_workflow_executor *settings,
                                          const char *run_id, struct hrf_executor **out,
                                          struct hrf_error *err)
{
    (void)err;
    (void)run_id;
    struct local *local = hrf_calloc(1, sizeof *local);
    local->base = (struct hrf_executor){ .ops = &ops, .tick_ms = 25 };
    local->settings = settings;
    *out = &local->base;
    return HRF_OK;
}
