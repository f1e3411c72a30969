/* run_job.c - all tasks of an infer or calibrate job, one after the other.
 *
 * For every task: tile plan and slide in, class probabilities of its patches out (or what every
 * tensor held, in float32), committed as one record the moment they are complete. A slide that
 * cannot be read fails its own task only.
 */
#include "base/clock.h"
#include "base/crash.h"
#include "base/host.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"
#include "engine/planning/request.h"
#include "engine/worker/worker.h"

/* Errors of the job rather than of a task: the whole job stops and may be tried again. */
static bool ends_the_job(enum hrf_status status)
{
    return status == HRF_E_AGAIN || status == HRF_E_NOSPACE || status == HRF_E_BUG;
}

static enum hrf_status do_task(struct hrf_worker *job, const struct hrf_job_task *task,
                               struct hrf_error *err)
{
    struct hrf_bytes record = { NULL, 0 };
    struct hrf_task_status outcome = { .outcome = HRF_TASK_DONE };
    struct hrf_error cause = { .status = HRF_OK };
    double start = hrf_clock_seconds();
    hrf_crash_point("engine.task.begin");
    enum hrf_status status = job->spec->kind == HRF_JOB_CALIBRATE
                                 ? hrf_worker_observe(job, task, &record, &cause)
                                 : hrf_worker_score(job, task, &record, &cause);
    if (ends_the_job(status)) {
        if (err != NULL)
            *err = cause;
        return status;
    }
    if (job->ranks != NULL && !hrf_ranks_is_root(job->ranks)) {
        if (status != HRF_OK) /* rank 0 was told, or fails for the same reason */
            hrf_log_warning("engine", "task %s: %s", task->id, cause.text);
        return HRF_OK;
    }
    if (status != HRF_OK) {
        HRF_AUTO_FREE char *name = hrf_text_printable(task->slide_name);
        hrf_log_error("engine", "%s: %s", name != NULL ? name : task->id, cause.text);
        outcome.outcome = HRF_TASK_FAILED;
        outcome.retryable = status != HRF_E_USER && status != HRF_E_UNSUPPORTED;
        outcome.reason = hrf_strdup(cause.text);
    }
    outcome.seconds = hrf_clock_seconds() - start;
    hrf_crash_point("engine.task.before_commit");
    status = hrf_task_commit(job->directory, task, record.data, record.n_bytes, &outcome, err);
    hrf_crash_point("engine.task.after_commit");
    hrf_bytes_release(&record);
    hrf_task_status_release(&outcome);
    return status;
}

enum hrf_status hrf_worker_run_job(struct hrf_worker *job, const char *spec_path,
                                   enum hrf_job_kind kind, struct hrf_error *err)
{
    job->directory = hrf_path_directory(spec_path);
    HRF_CHECK_MEMORY(job->directory != NULL, err, "no memory for a path");
    hrf_process_host_name(job->host, sizeof job->host);
    HRF_TRY(hrf_job_spec_read(spec_path, &job->spec, err));
    if (job->spec->kind != kind)
        return hrf_error_set(err, HRF_E_USER, "'%s' is the spec of a job of kind '%s', not '%s'",
                             spec_path, hrf_job_kind_name(job->spec->kind),
                             hrf_job_kind_name(kind));
    const struct hrf_job_engine *engine = &job->spec->engine;
    if (kind == HRF_JOB_INFER)
        HRF_TRY(hrf_ranks_create(job->directory, engine->n_ranks, &job->ranks, err));
    HRF_TRY(hrf_engine_check_request(engine->device, engine->precision, NULL, err));
    HRF_TRY(hrf_engine_check_device(engine->device, &job->identity, err));
    double start = hrf_clock_seconds();
    HRF_TRY(hrf_worker_load_model(job, err));
    if (kind == HRF_JOB_INFER)
        HRF_TRY(hrf_worker_form_groups(job, err));
    job->build_seconds = hrf_clock_seconds() - start;
    for (size_t i = 0; i < job->spec->n_tasks; i++) {
        HRF_TRY(hrf_worker_settle(job, HRF_OK, err));
        HRF_TRY(do_task(job, &job->spec->tasks[i], err));
    }
    return HRF_OK;
}

int hrf_worker_end_rank(struct hrf_worker *job, enum hrf_status status, int code,
                        const struct hrf_error *err)
{
    if (job->ranks == NULL || status == HRF_OK) {
        if (job->ranks != NULL)
            hrf_ranks_tell_end(job->ranks, HRF_RANK_DONE, 0, "");
        return code;
    }
    if (status == HRF_E_AGAIN && hrf_worker_is_stopping()) {
        hrf_ranks_tell_end(job->ranks, HRF_RANK_STOPPED, code, "");
        return hrf_ranks_is_root(job->ranks) ? code : 0;
    }
    hrf_ranks_tell_end(job->ranks, HRF_RANK_FAILED, code, err->text);
    hrf_ranks_abort(job->ranks, err->text);
    return code;
}
