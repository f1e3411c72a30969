/* spec.c - writes spec.json, the input of a job: its tasks, the settings they depend on, and the
 * command line that starts its worker. */
#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "orchestrator/run/calibrate_private.h"
#include "schema/record/job.h"

#include <string.h>

char *run_plan_path(const struct run *run, const char *key)
{
    return hrf_format("%s/plans/%s.rec", run->directory, key);
}

char *run_part_path(const struct run *run, const char *key)
{
    return hrf_format("%s/parts/%s.rec", run->directory, key);
}

bool run_has_plan(const char *path, const struct hrf_record_identity *expected)
{
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n = 0;
    return hrf_path_exists(path) &&
           hrf_file_read(path, (size_t)1 << 30, &bytes, &n, NULL) == HRF_OK &&
           hrf_record_check(bytes, n, HRF_TILE_PLAN_KIND, expected, path, NULL) == HRF_OK;
}

/* Writes the tile plan of a slide as a file for the engine. The file's name contains the plan's
 * hash, so it is written once. */
static enum hrf_status export_plan(struct run *run, int64_t slide_id, char **path,
                                   struct hrf_error *err)
{
    size_t first;
    if (hrf_task_rows_of(&run->tasks, HRF_TASK_TILE, slide_id, &first) == 0)
        return hrf_error_set(err, HRF_E_BUG, "slide %lld has no tile task", (long long)slide_id);
    const struct hrf_task_row *tile = &run->tasks.items[first];
    HRF_AUTO_FREE char *full = run_plan_path(run, tile->key);
    HRF_AUTO_FREE char *plans = full != NULL ? hrf_path_directory(full) : NULL;
    HRF_CHECK_MEMORY(plans != NULL, err, "no memory for a path");
    struct hrf_record_identity expected;
    HRF_TRY(run_expect(run, tile, &expected, err));
    if (!run_has_plan(full, &expected)) {
        struct hrf_bytes bytes;
        HRF_TRY(hrf_path_make_directories(plans, err));
        HRF_TRY(hrf_store_get_record(run->store, HRF_TASK_TILE, &expected, &bytes, err));
        enum hrf_status status = hrf_file_write_atomic(full, bytes.data, bytes.n_bytes, err);
        hrf_bytes_release(&bytes);
        HRF_TRY(status);
    }
    HRF_MOVE(*path, full);
    return HRF_OK;
}

static enum hrf_status fill_training(struct run *run, const struct hrf_task_row *row,
                                     struct hrf_job_task *out, struct hrf_error *err)
{
    HRF_TRY(run_fill_training(run, row, &out->training, err));
    out->slide_name = hrf_format("fold %lld seed %lld in %s", (long long)out->training.fold,
                                 (long long)out->training.seed, row->precision);
    out->slide_path = hrf_strdup("");
    HRF_CHECK_MEMORY(out->id != NULL && out->slide_name != NULL && out->slide_path != NULL, err,
                     "no memory for a job spec");
    return HRF_OK;
}

static enum hrf_status fill_task(struct run *run, const struct hrf_task_row *row, size_t index,
                                 struct hrf_job_task *out, struct hrf_error *err)
{
    const struct hrf_slide_row *slide = run_find_slide(run, row->slide_id);
    out->id = hrf_format("t%04zu", index);
    HRF_TRY(run_expect(run, row, &out->identity, err));
    if (row->kind == HRF_TASK_TRAIN)
        return fill_training(run, row, out, err);
    out->slide_name = hrf_strdup(slide->name);
    out->slide_path = hrf_strdup(slide->path);
    out->mpp_override = slide->mpp_csv;
    out->mpp_fallback = run_fallback_mpp(run->workflow, slide);
    out->first_patch = row->first_patch;
    out->n_patches = row->n_patches;
    out->measures_layers = row->kind == HRF_TASK_CALIBRATE && run_measures_layers(run, row);
    HRF_CHECK_MEMORY(out->id != NULL && out->slide_name != NULL && out->slide_path != NULL, err,
                     "no memory for a job spec");
    HRF_AUTO_FREE char *part = run_part_path(run, row->key);
    if (part != NULL && row->kind == HRF_TASK_INFER && hrf_path_exists(part)) {
        HRF_MOVE(out->partial, part);
    }
    if (row->kind == HRF_TASK_HEAD)
        HRF_TRY(run_fill_bag(run, row, &out->bag, err));
    if (row->kind == HRF_TASK_INFER || row->kind == HRF_TASK_HEAD)
        return export_plan(run, row->slide_id, &out->tile_plan, err);
    if (row->kind == HRF_TASK_CALIBRATE && (out->tile_plan = run_plan_path(run, row->key)) == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a job spec");
    return HRF_OK;
}

/* How many jobs of this kind can run at the same time. With one slide the number is known, and its
 * jobs share all cores. With several slides the number of tasks depends on how far tiling has come.
 * The number of threads must not depend on that, because float32 sums may have other bits with
 * other numbers of threads. */
static int64_t most_jobs(const struct run *run, const struct hrf_task_row *task)
{
    int64_t n_slides = 0, n = 0;
    for (size_t i = 0; i < run->slides.n_items && n_slides < 2; i++)
        n_slides += run->slides.items[i].state != HRF_SLIDE_EXCLUDED &&
                    run->slides.items[i].n_bytes > 0;
    if (n_slides != 1)
        return INT64_MAX;
    for (size_t i = 0; i < run->tasks.n_items; i++)
        n += run->tasks.items[i].kind == task->kind &&
             strcmp(run->tasks.items[i].precision, task->precision) == 0;
    const bool is_apart = task->kind == HRF_TASK_INFER && !hrf_run_shares_reading(run->workflow);
    return is_apart ? n * (int64_t)hrf_workflow_n_variants(run->workflow) : n;
}

const char *run_kind_name(const struct run *run, enum hrf_task_kind kind)
{
    const bool by_network = run->workflow->tiler.tissue.method == HRF_TISSUE_ONNX;
    return kind == HRF_TASK_TILE && by_network ? "tissue" : hrf_task_kind_name(kind);
}

static enum hrf_status fill_tissue(const struct run *run, struct hrf_job_tissue *out,
                                   struct hrf_error *err)
{
    const struct hrf_workflow *w = run->workflow;
    if (w->tiler.tissue.method != HRF_TISSUE_ONNX)
        return HRF_OK;
    out->model_file = hrf_strdup(w->tiler.tissue.model);
    out->model_sha256 = hrf_strdup(run->tissue_sha256);
    out->mpp = w->tiler.tissue.mpp;
    out->threshold = w->tiler.tissue.threshold;
    out->size = w->tiler.tissue.size;
    out->class = w->tiler.tissue.class;
    memcpy(out->mean, w->tiler.tissue.mean, sizeof out->mean);
    memcpy(out->std, w->tiler.tissue.std, sizeof out->std);
    HRF_CHECK_MEMORY(out->model_file != NULL && out->model_sha256 != NULL, err,
                     "no memory for a job spec");
    return HRF_OK;
}

/* What the calibrate tasks that measure layers are to know. */
static enum hrf_status fill_layers(const struct hrf_workflow *w, struct hrf_job_engine *e,
                                   struct hrf_error *err)
{
    if (!hrf_workflow_has_budget(w))
        return HRF_OK;
    e->layer_loss = hrf_strdup(run_layer_loss(w));
    e->fit_method = hrf_strdup(hrf_fit_kind_name(run_fit_kind(w)));
    e->fit_min_sqnr = w->calibrate.min_sqnr;
    HRF_CHECK_MEMORY(e->layer_loss != NULL && e->fit_method != NULL, err,
                     "no memory for a job spec");
    return HRF_OK;
}

enum hrf_status run_fill_tiler(const struct hrf_workflow *w, struct hrf_job_tiler *t,
                               struct hrf_error *err)
{
    const struct run_region region = run_region(w);
    t->mode = hrf_strdup(region.mode);
    t->patch_size = region.size;
    t->patch_stride = region.stride;
    t->patch_mpp = region.mpp;
    t->tissue_method = hrf_strdup(hrf_tissue_method_name(w->tiler.tissue.method));
    t->min_tissue = w->tiler.tissue.min_tissue;
    t->min_patches = w->tiler.tissue.min_patches;
    t->on_bad_tile = hrf_strdup(hrf_on_bad_tile_name(w->tiler.on_bad_tile));
    t->quality = (struct hrf_job_quality){ .pen = w->tiler.quality.pen,
                                           .bubble = w->tiler.quality.bubble,
                                           .fold = w->tiler.quality.fold,
                                           .blur = w->tiler.quality.blur };
    t->edge = hrf_strdup(hrf_edge_name(w->tiler.patch.edge));
    t->coords = w->tiler.coords != NULL ? hrf_strdup(w->tiler.coords) : NULL;
    t->outline_classes = run_outline_classes(w);
    const bool is_whole = t->mode != NULL && t->tissue_method != NULL && t->on_bad_tile != NULL &&
                          t->edge != NULL && (w->tiler.coords == NULL || t->coords != NULL) &&
                          (w->tiler.tissue.classes.n_items == 0 || t->outline_classes != NULL);
    return is_whole ? HRF_OK : hrf_error_set(err, HRF_E_NOMEM, "no memory for a job spec");
}

static enum hrf_status fill_settings(struct run *run, const struct run_batch *batch,
                                     struct hrf_job_spec *spec, struct hrf_error *err)
{
    const struct hrf_workflow *w = run->workflow;
    struct hrf_job_tiler *t = &spec->tiler;
    struct hrf_job_engine *e = &spec->engine;
    HRF_TRY(run_fill_tiler(w, t, err));
    HRF_TRY(fill_tissue(run, &t->tissue, err));
    e->model_file = hrf_strdup(w->model.file);
    e->model_sha256 = hrf_strdup(run->model_sha256);
    e->embedding = w->model.output == HRF_OUTPUT_EMBEDDING;
    const char *activation = hrf_model_activation(&w->model);
    e->activation = activation != NULL ? hrf_strdup(activation) : NULL;
    e->n_classes = e->embedding ? 0 : (int64_t)w->model.classes.n_items;
    memcpy(e->mean, w->model.input.mean, sizeof e->mean);
    memcpy(e->std, w->model.input.std, sizeof e->std);
    e->input_size = w->model.input.size;
    e->input_resize = w->model.input.resize;
    if (e->input_size > 0)
        e->interpolation = hrf_strdup(hrf_interpolation_names[w->model.input.interpolation]);
    const enum hrf_task_kind kind = run->tasks.items[batch->tasks[0]].kind;
    if (kind == HRF_TASK_CALIBRATE)
        HRF_TRY(fill_layers(w, e, err));
    e->device = hrf_strdup(hrf_device_name(w->engine.device));
    e->decode = hrf_strdup(hrf_decode_name(w->engine.decode));
    e->batch = w->engine.batch;
    e->class_map = w->tiler.mode == HRF_TILER_SLIDE;
    e->layout = hrf_workflow_layout(w);
    e->memory_bytes = w->engine.memory_bytes;
    e->max_memory_bytes = w->model.max_memory_bytes;
    e->max_operations = w->model.max_operations;
    const struct hrf_executor_ops *ops = run->executor->ops;
    e->n_ranks = ops->ranks != NULL ? ops->ranks(run->executor, run_kind_name(run, kind)) : 1;
    e->n_threads = ops->threads(run->executor, run_kind_name(run, kind),
                                most_jobs(run, &run->tasks.items[batch->tasks[0]]));
    t->tissue.n_threads = e->n_threads;
    if (e->model_file == NULL || e->model_sha256 == NULL || e->device == NULL ||
        e->decode == NULL || e->layout == NULL || (e->input_size > 0 && e->interpolation == NULL))
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a job spec");
    return HRF_OK;
}

static enum hrf_status add_network(const struct run *run, enum hrf_precision precision,
                                   bool is_jitter, struct hrf_job_spec *spec, struct hrf_error *err)
{
    struct hrf_job_network *network = &spec->networks[spec->n_networks++];
    const bool needs_scales = precision == HRF_INT8 && !run->brings_scales;
    network->stain_jitter = is_jitter ? run->workflow->study.stain_jitter : 0;
    network->jitter_seed = is_jitter ? run->workflow->study.seed : 0;
    network->precision = hrf_strdup(hrf_precision_name(precision));
    network->scales = needs_scales ? hrf_strdup(run->calibration_path) : NULL;
    if (network->precision == NULL || (needs_scales && network->scales == NULL))
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a job spec");
    return HRF_OK;
}

/* The networks in the order of the workflow's precisions, so that the first, the reference, goes
 * first wherever they do not fit side by side. A calibration observes float32. */
static enum hrf_status fill_networks(const struct run *run, const struct run_batch *batch,
                                     struct hrf_job_spec *spec, struct hrf_error *err)
{
    const struct hrf_workflow *w = run->workflow;
    spec->networks = hrf_calloc(HRF_JOB_MOST_NETWORKS, sizeof spec->networks[0]);
    HRF_CHECK_MEMORY(spec->networks != NULL, err, "no memory for a job spec");
    if (spec->kind == HRF_JOB_CALIBRATE)
        return add_network(run, HRF_FP32, false, spec, err);
    for (size_t p = 0; p < hrf_workflow_n_variants(w); p++) {
        const char *name = hrf_workflow_variant_name(w, p);
        bool is_there = false;
        for (size_t i = 0; i < batch->n && !is_there; i++)
            is_there = strcmp(run->tasks.items[batch->tasks[i]].precision, name) == 0;
        if (is_there)
            HRF_TRY(add_network(run, hrf_workflow_variant(w, p), hrf_workflow_is_jitter(w, p), spec,
                                err));
    }
    return spec->n_networks > 0 ? HRF_OK : add_network(run, HRF_FP32, false, spec, err);
}

static int64_t network_of(const struct hrf_job_spec *spec, const struct hrf_task_row *row)
{
    for (size_t i = 0; i < spec->n_networks; i++)
        if (strcmp(hrf_job_network_name(&spec->networks[i]), row->precision) == 0)
            return (int64_t)i;
    return 0; /* of a calibrate task */
}

static enum hrf_status fill_wrap(struct run *run, enum hrf_task_kind kind,
                                 struct hrf_job_spec *spec, struct hrf_error *err)
{
    struct hrf_text_list words = { NULL, 0 };
    if (run->executor->ops->wrap == NULL)
        return HRF_OK;
    enum hrf_status status = run->executor->ops->wrap(run->executor, run_kind_name(run, kind),
                                                      &words, err);
    spec->wrap = words.items; /* the spec's to release */
    spec->n_wrap = words.n_items;
    return status;
}

enum hrf_status run_write_spec(struct run *run, const struct run_batch *batch,
                               const struct hrf_attempt_row *attempt, const char *path,
                               struct hrf_error *err)
{
    HRF_AUTO(hrf_job_spec) spec = hrf_calloc(1, sizeof *spec);
    HRF_CHECK_MEMORY(spec != NULL, err, "no memory for a job spec");
    spec->run_id = hrf_strdup(run->run_id);
    spec->job_id = hrf_strdup(attempt->job_id);
    spec->attempt = attempt->attempt;
    static const enum hrf_job_kind kinds[] = { [HRF_TASK_TILE] = HRF_JOB_TILE,
                                               [HRF_TASK_INFER] = HRF_JOB_INFER,
                                               [HRF_TASK_CALIBRATE] = HRF_JOB_CALIBRATE,
                                               [HRF_TASK_HEAD] = HRF_JOB_HEAD,
                                               [HRF_TASK_TRAIN] = HRF_JOB_TRAIN };
    spec->kind = kinds[attempt->kind];
    spec->tasks = hrf_calloc(batch->n, sizeof spec->tasks[0]);
    HRF_CHECK_MEMORY(spec->run_id != NULL && spec->job_id != NULL && spec->tasks != NULL, err,
                     "no memory for a job spec");
    HRF_TRY(fill_settings(run, batch, spec, err));
    if (spec->kind != HRF_JOB_TILE)
        HRF_TRY(fill_networks(run, batch, spec, err));
    HRF_TRY(fill_wrap(run, attempt->kind, spec, err));
    for (size_t i = 0; i < batch->n; i++) {
        spec->n_tasks = i + 1;
        HRF_TRY(fill_task(run, &run->tasks.items[batch->tasks[i]], i, &spec->tasks[i], err));
        spec->tasks[i].network = network_of(spec, &run->tasks.items[batch->tasks[i]]);
    }
    return hrf_job_spec_write(spec, path, err);
}
