/* tile_by_engine.c - see tile_by_engine.h. */
#include "orchestrator/cli/tile_by_engine.h"

#include "base/directory.h"
#include "base/path.h"
#include "orchestrator/launch/launch.h"

#include <errno.h>
#include <stdlib.h>

static char task_id[] = "t0000", one_run[] = "tile", one_job[] = "tile";

static enum hrf_status collect(const char *directory, struct hrf_tile_plan **out,
                               struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_task_status) outcome = { .outcome = HRF_TASK_DONE };
    HRF_AUTO_FREE char *record = NULL;
    size_t n_bytes = 0;
    HRF_TRY(hrf_task_collect(directory, task_id, &outcome, &record, &n_bytes, err));
    enum hrf_status status = HRF_OK;
    if (outcome.outcome == HRF_TASK_FAILED)
        status = hrf_error_pass(err, &outcome.failure.error);
    else
        status = hrf_tile_plan_decode(record, n_bytes, NULL, "the tile plan", out, err);
    return status;
}

static enum hrf_status tile_in(const char *directory, const char *slide,
                               const struct hrf_workflow *settings, struct hrf_tile_plan **out,
                               struct hrf_error *err)
{
    char sha256[HRF_HASH_HEX];
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "spec.json");
    HRF_AUTO_FREE char *full = NULL;
    HRF_TRY(hrf_path_absolute(slide, &full, err));
    HRF_TRY(hrf_launch_model_hash(settings->tiler.tissue.model, sha256, err));
    struct hrf_job_task task = {
        .id = task_id, .slide_name = full, .slide_path = full, .mpp_fallback = settings->dataset.mpp
    };
    struct hrf_job_spec spec = { .run_id = one_run,
                                 .job_id = one_job,
                                 .attempt = 1,
                                 .kind = HRF_JOB_TILE,
                                 .tissue_sha256 = sha256,
                                 .tasks = &task,
                                 .n_tasks = 1 };
    HRF_TRY(hrf_job_spec_write(&spec, settings, path, err));
    HRF_AUTO_RELEASE(hrf_strbuf) said = HRF_STRBUF_INIT;
    const struct hrf_engine_question question = { .command = HRF_ENGINE_WORKERS + HRF_JOB_TILE,
                                                  .operands = { path },
                                                  .patience_ms = 24 * 3600 * 1000 };
    HRF_TRY(hrf_engine_ask(&question, &said, err));
    return collect(directory, out, err);
}

enum hrf_status hrf_cli_tile_by_engine(const char *slide, const struct hrf_workflow *settings,
                                       struct hrf_tile_plan **out, struct hrf_error *err)
{
    const char *base = getenv("TMPDIR");
    HRF_AUTO_FREE char *directory = hrf_format("%s/hires-flow-tile.XXXXXX",
                                               base != NULL && base[0] != '\0' ? base : "/tmp");
    struct hrf_error ignored;
    if (mkdtemp(directory) == NULL)
        return hrf_error_set_errno(err, errno, "cannot make a folder like '%s'", directory);
    const enum hrf_status status = tile_in(directory, slide, settings, out, err);
    (void)!hrf_path_remove_tree(directory, &ignored);
    return status;
}
