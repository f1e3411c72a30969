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

/* Commits a task's record, or why there is none. Only rank 0 does. */
static enum hrf_status commit(const struct hrf_worker *job, const struct hrf_job_task *task,
                              struct hrf_task_result *result, double seconds, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_task_status) outcome = { .outcome = HRF_TASK_DONE, .seconds = seconds };
    if (job->ranks != NULL && !hrf_ranks_is_root(job->ranks)) {
        if (result->status != HRF_OK) /* rank 0 was told, or fails for the same reason */
            hrf_log_warning("engine", "task %s: %s", task->id, result->err.text);
        return HRF_OK;
    }
    if (result->status == HRF_OK) /* it may have been replaced while it was read */
        result->status = hrf_slide_content_check(task->slide_path, task->identity.slide,
                                                 &result->err);
    if (result->status != HRF_OK) {
        HRF_AUTO_FREE char *name = hrf_text_escaped(task->slide_name);
        hrf_log_error("engine", "%s: %s", name, result->err.text);
        hrf_task_status_fail(&outcome, job->spec, task, &result->err);
    }
    hrf_crash_point("engine.task.before_commit");
    const enum hrf_status status = hrf_task_commit(
        job->directory, task, result->status == HRF_OK ? result->record.data : NULL,
        result->record.n_bytes, &outcome, err);
    hrf_crash_point("engine.task.after_commit");
    return status;
}

static enum hrf_status calibrate(struct hrf_worker *job, const struct hrf_job_task *task,
                                 struct hrf_task_result *result, struct hrf_error *err)
{
    result->status = task->network == 0
                         ? hrf_worker_observe(job, task, &result->record, &result->err)
                         : hrf_worker_compare(job, task, &result->record, &result->err);
    return hrf_status_row(result->status)->ends_job ? hrf_error_pass(err, &result->err) : HRF_OK;
}

static enum hrf_status do_group(struct hrf_worker *job, const struct hrf_task_group *group,
                                struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_task_result *results = hrf_calloc((size_t)group->n, sizeof *results);
    const double start = hrf_clock_seconds();
    hrf_crash_point("engine.task.begin");
    enum hrf_status status = job->spec->kind == HRF_JOB_CALIBRATE
                                 ? calibrate(job, group->tasks[0], &results[0], err)
                                 : hrf_worker_score(job, group, results, err);
    const double seconds = (hrf_clock_seconds() - start) / group->n;
    for (int k = 0; k < group->n; k++) {
        if (status == HRF_OK)
            status = commit(job, group->tasks[k], &results[k], seconds, err);
        hrf_bytes_release(&results[k].record);
    }
    return status;
}

/* The tasks from *at on that score the same patches, as far as their networks are of this pass;
 * moves *at behind all of them. */
static struct hrf_task_group next_group(const struct hrf_worker *job, int32_t pass, size_t *at)
{
    const struct hrf_job_spec *spec = job->spec;
    const struct hrf_job_task *first = &spec->tasks[*at];
    struct hrf_task_group group = { .n = 0 };
    size_t n = 0;
    for (; *at < spec->n_tasks && n < spec->n_networks; (*at)++, n++) {
        const struct hrf_job_task *task = &spec->tasks[*at];
        if (n > 0 && !hrf_job_tasks_share_patches(first, task))
            break;
        if (job->networks[task->network].pass != pass)
            continue;
        group.networks[group.n] = (int)task->network;
        group.tasks[group.n++] = task;
    }
    return group;
}

static enum hrf_status run_pass(struct hrf_worker *job, int32_t pass, struct hrf_error *err)
{
    hrf_worker_begin_pass(job, pass);
    for (size_t at = 0; at < job->spec->n_tasks;) {
        const struct hrf_task_group group = next_group(job, pass, &at);
        if (group.n == 0)
            continue;
        HRF_TRY(hrf_worker_settle(job, HRF_OK, err));
        HRF_TRY(do_group(job, &group, err));
    }
    return HRF_OK;
}

enum hrf_status hrf_worker_run_job(struct hrf_worker *job, const char *spec_path,
                                   enum hrf_job_kind kind, struct hrf_error *err)
{
    job->directory = hrf_path_directory(spec_path);
    hrf_process_host_name(job->host, sizeof job->host);
    HRF_TRY(hrf_job_spec_read(spec_path, &job->spec, err));
    if (job->spec->kind != kind)
        return hrf_error_set(err, HRF_E_USER, "'%s' is the spec of a job of kind '%s', not '%s'",
                             spec_path, hrf_job_kind_name(job->spec->kind),
                             hrf_job_kind_name(kind));
    const struct hrf_workflow *settings = job->spec->settings;
    job->n_passes = 1;
    if (kind == HRF_JOB_INFER)
        HRF_TRY(hrf_ranks_create(job->directory, job->spec->n_ranks, &job->ranks, err));
    HRF_TRY(hrf_engine_check_device(hrf_device_name(settings->engine.device), &job->identity, err));
    const double start = hrf_clock_seconds();
    HRF_TRY(hrf_worker_load_model(job, err));
    if (kind == HRF_JOB_INFER)
        HRF_TRY(hrf_worker_prepare(job, err));
    double built = 0; /* by prepare(), and told already */
    for (size_t i = 0; i < job->spec->n_networks; i++)
        built += job->networks[i].build_seconds;
    job->networks[0].build_seconds += hrf_clock_seconds() - start - built;
    for (int32_t pass = 0; pass < job->n_passes; pass++)
        HRF_TRY(run_pass(job, pass, err));
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
