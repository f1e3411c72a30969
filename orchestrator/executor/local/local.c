/* local.c - jobs as processes of this machine: `hires-flow launch SPEC` in a session of its own. */
#include "base/alloc.h"
#include "base/process.h"
#include "orchestrator/executor/executor.h"

#include <signal.h>
#include <sys/wait.h>

static enum hrf_status submit(const char *spec_path, struct hrf_job_handle *out,
                              struct hrf_error *err)
{
    HRF_AUTO_FREE char *self = NULL;
    pid_t pid;
    HRF_TRY(hrf_process_self(&self, err));
    const char *const argv[] = { self, "launch", spec_path, NULL };
    HRF_TRY(hrf_process_start(argv, "/dev/null", true, &pid, err));
    *out = (struct hrf_job_handle){ .pid = pid, .start_time = hrf_process_start_time(pid) };
    return HRF_OK;
}

static enum hrf_job_sight look(const struct hrf_job_handle *handle)
{
    if (handle->pid <= 0)
        return HRF_JOB_GONE;
    waitpid((pid_t)handle->pid, NULL, WNOHANG); /* reaps it when it is our child */
    uint64_t now = hrf_process_start_time((pid_t)handle->pid);
    return now != 0 && now == handle->start_time ? HRF_JOB_SEEN : HRF_JOB_GONE;
}

static void cancel(const struct hrf_job_handle *handle, int hard)
{
    if (look(handle) == HRF_JOB_SEEN)
        kill(hard ? -(pid_t)handle->pid : (pid_t)handle->pid, hard ? SIGKILL : SIGTERM);
}

const struct hrf_executor_ops hrf_executor_local = {
    .name = "local",
    .submit = submit,
    .look = look,
    .cancel = cancel,
};
