/* prepare.c - ingests the slides of a workflow and plans their tasks in the store. */
#include "base/crash.h"
#include "base/log.h"
#include "orchestrator/dag/dag.h"
#include "orchestrator/ingest/ingest.h"
#include "orchestrator/launch/launch.h"
#include "orchestrator/run/run_private.h"
#include "tiler/coords/coords.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hrf_record_identity run_expect(const struct run *run, const struct hrf_task_row *task)
{
    struct hrf_record_identity identity = { .task = "" };
    if (task->kind == HRF_TASK_TRAIN) { /* a training belongs to no slide */
        snprintf(identity.task, sizeof identity.task, "%s", task->key);
        return identity;
    }
    identity = hrf_slide_expect(hrf_slide_rows_find(&run->slides, task->slide_id), task->kind,
                                task->key);
    if (task->kind == HRF_TASK_TILE) /* the record is expected to bring the plan */
        identity.plan[0] = '\0';
    return identity;
}

static void warn_dropped(struct run *run)
{
    HRF_AUTO_FREE char *text = hrf_store_take_dropped(run->setup.store);
    char *left = NULL;
    for (char *line = text != NULL ? strtok_r(text, "\n", &left) : NULL; line != NULL;
         line = strtok_r(NULL, "\n", &left))
        hrf_log_warning("run", "%s", line);
}

enum hrf_status run_commit_plan(struct run *run, struct hrf_error *err)
{
    HRF_TRY(hrf_store_commit(run->setup.store, err));
    warn_dropped(run);
    return run_tasks_reload(&run->tasks, &run->setup, &run->slides, err);
}

double run_fallback_mpp(const struct hrf_workflow *w, const struct hrf_slide_row *slide)
{
    return slide->calibrates ? w->calibrate.slides.mpp : w->dataset.mpp;
}

/* Computes the hash of the file with the foreign patches of a slide; "" if there is none or it
 * cannot be read, which fails the slide's tile task with a reason. */
static enum hrf_status hash_coords(const struct hrf_workflow *w, const struct hrf_slide_row *slide,
                                   char out[HRF_HASH_HEX], struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = NULL;
    struct hrf_error why = { .status = HRF_OK };
    out[0] = '\0';
    if (w->tiler.coords == NULL)
        return HRF_OK;
    enum hrf_status status = hrf_coords_find(w->tiler.coords, slide->path, &path, &why);
    if (status == HRF_OK)
        status = hrf_hash_file(path, out, &why);
    if (status == HRF_E_NOMEM)
        return hrf_error_set(err, status, "%s", why.text);
    if (status != HRF_OK)
        out[0] = '\0';
    return HRF_OK;
}

enum hrf_status run_tissue_hash(const struct hrf_workflow *w, char out[HRF_HASH_HEX],
                                struct hrf_error *err)
{
    out[0] = '\0';
    if (w->tiler.tissue.method != HRF_TISSUE_ONNX)
        return HRF_OK;
    return hrf_launch_model_hash(w->tiler.tissue.model, out, err);
}

enum hrf_status run_tile_key(const struct hrf_workflow *w, const char *tissue_sha256,
                             const struct hrf_slide_row *slide, char out[HRF_HASH_HEX],
                             struct hrf_error *err)
{
    char coords[HRF_HASH_HEX];
    HRF_TRY(hash_coords(w, slide, coords, err));
    const struct hrf_tile_inputs inputs = {
        .slide = slide->content,
        .csv_mpp = slide->mpp_csv,
        .workflow_mpp = run_fallback_mpp(w, slide),
        .tissue_sha256 = tissue_sha256[0] != '\0' ? tissue_sha256 : NULL,
        .coords_sha256 = w->tiler.coords != NULL ? coords : NULL
    };
    return hrf_dag_tile_key(w, &inputs, out, err);
}

static enum hrf_status plan_slide(struct run *run, struct hrf_slide_row *slide,
                                  struct hrf_error *err)
{
    HRF_TRY(hrf_store_put_slide(run->setup.store, slide, err));
    if (slide->calibrates) /* it may have been a slide of the cohort in an earlier run */
        HRF_TRY(hrf_store_plan_tasks(run->setup.store, slide->id, HRF_TASK_INFER, NULL, 0, err));
    if (slide->state == HRF_SLIDE_PENDING) {
        struct hrf_task_row row = { .kind = HRF_TASK_TILE, .slide_id = slide->id };
        HRF_TRY(run_tile_key(run->setup.workflow, run->setup.tissue_sha256, slide, row.key, err));
        return hrf_store_plan_tasks(run->setup.store, slide->id, HRF_TASK_TILE, &row, 1, err);
    }
    HRF_TRY(hrf_store_plan_tasks(run->setup.store, slide->id, HRF_TASK_TILE, NULL, 0, err));
    return hrf_store_plan_tasks(run->setup.store, slide->id, HRF_TASK_INFER, NULL, 0, err);
}

enum hrf_status run_revive(struct run *run, struct hrf_error *err)
{
    int64_t n_broken = 0, n_tried = 0;
    for (size_t i = 0; i < run->tasks.rows.n_items; i++) {
        const struct hrf_task_row *task = &run->tasks.rows.items[i];
        const bool is_broken = task->state == HRF_TASK_BROKEN;
        if (task->state == HRF_TASK_FINISHED || (!is_broken && task->n_attempts == 0))
            continue;
        n_broken += is_broken;
        n_tried += !is_broken;
        HRF_TRY(hrf_store_set_task(run->setup.store, task->id,
                                   is_broken ? HRF_TASK_PENDING : task->state, 0, NULL, err));
    }
    if (n_broken + n_tried > 0)
        hrf_log_info("run",
                     "%lld tasks that failed when this was last run are tried again, and %lld that "
                     "had used up tries go on: each begins with all of its %lld tries",
                     (long long)n_broken, (long long)n_tried,
                     (long long)run->setup.workflow->executor.retries + 1);
    return run_tasks_reload(&run->tasks, &run->setup, &run->slides, err);
}

enum hrf_status run_plan_all_infer(struct run *run, struct hrf_error *err)
{
    HRF_TRY(hrf_store_begin(run->setup.store, err));
    for (size_t i = 0; i < run->tasks.rows.n_items; i++) {
        const struct hrf_task_row *task = &run->tasks.rows.items[i];
        if (task->kind == HRF_TASK_TILE && task->state == HRF_TASK_FINISHED)
            HRF_TRY(run_plan_infer(run, task->slide_id, err));
    }
    hrf_crash_point("run.plan_infer.before_commit");
    HRF_TRY(run_commit_plan(run, err));
    return run_plan_all_heads(run, err);
}

enum hrf_status run_ingest(struct run *run, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) warnings = HRF_STRBUF_INIT;
    HRF_AUTO_RELEASE(hrf_slide_rows) known = { .items = NULL };
    HRF_TRY(hrf_store_get_slides(run->setup.store, &known, err));
    enum hrf_status status = hrf_ingest(run->setup.workflow, &known, &run->slides, &warnings, err);
    for (char *line = warnings.text; status == HRF_OK && *line != '\0';) {
        size_t n = strcspn(line, "\n");
        hrf_log_warning("ingest", "%.*s", (int)n, line);
        line += n + (line[n] == '\n');
    }
    HRF_TRY(status);
    HRF_TRY(hrf_store_begin(run->setup.store, err));
    const size_t n = run->slides.n_items + run->slides.n_sample;
    HRF_TRY(hrf_store_trim_slides(run->setup.store, (int64_t)n, err));
    for (size_t i = 0; i < n; i++)
        HRF_TRY(plan_slide(run, &run->slides.items[i], err));
    HRF_TRY(run_tasks_reload(&run->tasks, &run->setup, &run->slides, err));
    HRF_TRY(run_revive(run, err));
    for (size_t i = 0; i < n && !run_wants_calibration(run); i++)
        HRF_TRY(hrf_store_plan_tasks(run->setup.store, run->slides.items[i].id, HRF_TASK_CALIBRATE,
                                     NULL, 0, err));
    hrf_crash_point("run.plan.before_commit");
    HRF_TRY(hrf_store_commit(run->setup.store, err));
    hrf_crash_point("run.plan.after_commit");
    warn_dropped(run);
    /* If the calibration is known already, this also plans the INT8 tasks. */
    HRF_TRY(run_calibrate(run, err));
    if (run->calibration.fitted == NULL && run->calibration.failure == NULL)
        HRF_TRY(run_plan_all_infer(run, err));
    if (!hrf_slide_head_is_given(&run->setup.workflow->slide_head) ||
        run->setup.workflow->slide_head.train == HRF_TRAIN_NONE) { /* an earlier run had some */
        HRF_TRY(hrf_store_begin(run->setup.store, err));
        HRF_TRY(hrf_store_plan_tasks(run->setup.store, 0, HRF_TASK_TRAIN, NULL, 0, err));
        HRF_TRY(run_commit_plan(run, err));
    }
    run->tasks.are_planned = true;
    return HRF_OK;
}

enum hrf_status run_infer_tasks(const struct hrf_workflow *w, const char *model_sha256,
                                const char *scales, const struct hrf_slide_row *slide,
                                const struct hrf_tile_plan *plan, struct hrf_task_row **out,
                                size_t *n, struct hrf_error *err)
{
    int64_t n_shards = hrf_dag_shard_count(plan->n_patches, w->executor.patches_per_job);
    size_t n_rows = (size_t)n_shards * hrf_workflow_n_variants(w), at = 0;
    HRF_AUTO_FREE struct hrf_task_row *rows = hrf_calloc(n_rows, sizeof *rows);
    struct hrf_infer_inputs inputs = { .slide = slide->content,
                                       .tiling = plan->hash,
                                       .model_sha256 = model_sha256 };
    for (size_t p = 0; p < hrf_workflow_n_variants(w); p++) {
        const bool is_int8 = hrf_workflow_variant(w, p) == HRF_INT8;
        inputs.variant = p;
        inputs.scales = is_int8 ? scales : NULL;
        for (int64_t i = 0; i < n_shards && (!is_int8 || scales != NULL); i++, at++) {
            struct hrf_task_row *row = &rows[at];
            *row = (struct hrf_task_row){ .kind = HRF_TASK_INFER, .slide_id = slide->id };
            snprintf(row->precision, sizeof row->precision, "%s", hrf_workflow_variant_name(w, p));
            hrf_dag_shard(plan->n_patches, n_shards, i, &row->first_patch, &row->n_patches);
            inputs.first_patch = row->first_patch;
            inputs.n_patches = row->n_patches;
            HRF_TRY(hrf_dag_infer_key(w, &inputs, row->key, err));
        }
    }
    *out = rows;
    *n = at;
    rows = NULL;
    return HRF_OK;
}

enum hrf_status run_plan_infer(struct run *run, int64_t slide_id, struct hrf_error *err)
{
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    struct hrf_slide_row *slide = &run->slides.items[slide_id - 1]; /* ids count from 1 */
    HRF_TRY(hrf_store_get_tile_plan(run->setup.store, slide_id, &plan, err));
    HRF_TRY(hrf_store_set_slide_tiling(run->setup.store, slide_id, plan->hash, err));
    hrf_free(slide->tile_plan_hash);
    slide->tile_plan_hash = hrf_strdup(plan->hash);
    if (slide->calibrates)
        return HRF_OK;
    if (plan->n_patches == 0) {
        const char *why = plan->warning != NULL ? plan->warning : "no patch holds enough tissue";
        slide->state = HRF_SLIDE_NO_TISSUE;
        HRF_TRY(
            hrf_store_set_slide_state(run->setup.store, slide_id, HRF_SLIDE_NO_TISSUE, why, err));
        return hrf_store_plan_tasks(run->setup.store, slide_id, HRF_TASK_INFER, NULL, 0, err);
    }
    HRF_AUTO_FREE struct hrf_task_row *rows = NULL;
    size_t n = 0;
    const char *scales = run->setup.brings_scales           ? RUN_OWN_SCALES
                         : run->calibration.fitted != NULL  ? run->calibration.fitted->key
                         : run->calibration.failure != NULL ? "failed"
                                                            : NULL;
    HRF_TRY(run_infer_tasks(run->setup.workflow, run->setup.model_sha256, scales, slide, plan,
                            &rows, &n, err));
    for (size_t i = 0; i < n; i++)
        rows[i].cached = run->tasks.are_planned;
    return hrf_store_plan_tasks(run->setup.store, slide_id, HRF_TASK_INFER, rows, n, err);
}
