/* tile_job.c - the worker of a tile job: tiles every task of a spec and commits each result. */
#include "tiler/plan/tile_job.h"

#include "base/clock.h"
#include "base/crash.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"
#include "tiler/plan/tile.h"
#include "tiler/slide/content.h"

static enum hrf_status do_task(const struct hrf_job_spec *spec, const struct hrf_job_task *task,
                               const struct hrf_tissue_network *network, const char *directory,
                               struct hrf_error *err)
{
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    HRF_AUTO_RELEASE(hrf_bytes) record = { NULL, 0 };
    HRF_AUTO_RELEASE(hrf_task_status) outcome = { .outcome = HRF_TASK_DONE };
    struct hrf_error cause = { .status = HRF_OK };
    double start = hrf_clock_seconds();
    hrf_task_progress_write(directory, task->id, 0, 1);
    hrf_crash_point("tile.task.begin");
    enum hrf_status status = hrf_tile_slide(task->slide_path, &spec->settings->tiler,
                                            task->mpp_override, task->mpp_fallback, network, &plan,
                                            &cause);
    if (status == HRF_OK)
        status = hrf_slide_content_check(task->slide_path, task->identity.slide, &cause);
    if (status == HRF_OK) {
        plan->identity = task->identity;
        status = hrf_tile_plan_encode(plan, &record, &cause);
    }
    if (status != HRF_OK) {
        HRF_AUTO_FREE char *name = hrf_text_escaped(task->slide_name);
        hrf_log_error("tiler", "%s: %s", name, cause.text);
        hrf_task_status_fail(&outcome, spec, task, &cause);
    } else if (plan->n_patches == 0) {
        outcome.outcome = HRF_TASK_NO_TISSUE;
    }
    outcome.seconds = hrf_clock_seconds() - start;
    hrf_crash_point("tile.task.before_commit");
    status = hrf_task_commit(directory, task, record.data, record.n_bytes, &outcome, err);
    hrf_crash_point("tile.task.after_commit");
    return status;
}

enum hrf_status hrf_tile_job_do(const struct hrf_job_spec *spec, const char *spec_path,
                                const struct hrf_tissue_network *network, struct hrf_error *err)
{
    HRF_AUTO_FREE char *directory = hrf_path_directory(spec_path);
    for (size_t i = 0; i < spec->n_tasks; i++)
        HRF_TRY(do_task(spec, &spec->tasks[i], network, directory, err));
    return HRF_OK;
}

enum hrf_status hrf_tile_job_read(const char *spec_path, struct hrf_job_spec **out,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_job_spec) spec = NULL;
    HRF_TRY(hrf_job_spec_read(spec_path, &spec, err));
    if (spec->kind != HRF_JOB_TILE)
        return hrf_error_set(err, HRF_E_USER, "'%s' is not the spec of a tile job", spec_path);
    HRF_MOVE(*out, spec);
    return HRF_OK;
}

static enum hrf_status do_job(const char *spec_path, struct hrf_error *err)
{
    HRF_AUTO(hrf_job_spec) spec = NULL;
    HRF_TRY(hrf_tile_job_read(spec_path, &spec, err));
    return hrf_tile_job_do(spec, spec_path, NULL, err);
}

int hrf_tile_job_main(const char *spec_path)
{
    struct hrf_error err = { .status = HRF_OK };
    const enum hrf_status status = hrf_tile_job_end(do_job(spec_path, &err));
    return hrf_job_worker_end("hires-flow", "tile-job", spec_path, status, &err);
}
