/* preview.c - plans all tasks as a run would, and compares them with the store's. */
#include "orchestrator/run/preview.h"
#include "base/array.h"
#include "orchestrator/launch/launch.h"

#include "base/path.h"
#include "orchestrator/ingest/ingest.h"
#include "orchestrator/run/batches.h"
#include "orchestrator/run/heads.h"
#include "orchestrator/run/int8_calibration.h"
#include "orchestrator/run/prepare.h"

#include <stdio.h>
#include <string.h>

const char *hrf_preview_reason_name(enum hrf_preview_reason reason)
{
    static const char *const names[] = { "cached", "new", "changed", "open", "unknown" };
    return names[reason];
}

void hrf_preview_release(struct hrf_preview *preview)
{
    hrf_slide_rows_release(&preview->slides);
    hrf_strbuf_release(&preview->warnings);
    hrf_free(preview->tasks);
    *preview = (struct hrf_preview){ .warnings = HRF_STRBUF_INIT };
}

struct scene {
    const struct hrf_workflow *workflow;
    struct hrf_store *store; /* NULL: the directory holds no run */
    struct hrf_task_rows known;
    struct hrf_preview *preview;
    size_t capacity;
    char model_sha256[HRF_HASH_HEX], tissue_sha256[HRF_HASH_HEX];
    bool brings_scales;
    bool is_inferred;          /* every tile and infer task is cached */
    char scales[HRF_HASH_HEX]; /* key of the run's calibration; "": not known before the run */
};

static enum hrf_preview_reason judge_task(const struct scene *scene, const struct hrf_task_row *row)
{
    const struct hrf_record_identity expected = hrf_slide_expect(
        &scene->preview->slides.items[row->slide_id - 1], row->kind, row->key);
    struct hrf_bytes record;
    if (scene->store == NULL)
        return HRF_PREVIEW_NEW;
    if (hrf_store_get_record(scene->store, row->kind, &expected, &record, NULL) == HRF_OK) {
        hrf_bytes_release(&record);
        return HRF_PREVIEW_CACHED;
    }
    enum hrf_preview_reason reason = HRF_PREVIEW_NEW;
    size_t first;
    const size_t n = hrf_task_rows_of(&scene->known, row->kind, row->slide_id, &first);
    for (size_t i = first; i < first + n; i++) {
        const struct hrf_task_row *old = &scene->known.items[i];
        if (strcmp(old->precision, row->precision) != 0)
            continue;
        if (strcmp(old->key, row->key) == 0)
            return HRF_PREVIEW_OPEN;
        reason = HRF_PREVIEW_CHANGED;
    }
    return reason;
}

static void add_task(struct scene *scene, const struct hrf_task_row *row,
                     enum hrf_preview_reason reason)
{
    struct hrf_preview *p = scene->preview;
    HRF_RESERVE(p->tasks, scene->capacity, p->n_tasks + 1);
    p->tasks[p->n_tasks++] = (struct hrf_preview_task){ .row = *row, .reason = reason };
}

/* Reads the tile plan that is stored under the tile task's key; NULL: the slide has not been tiled
 * with these settings. */
static enum hrf_status find_plan(const struct scene *scene, const struct hrf_preview_task *tile,
                                 struct hrf_tile_plan **out, struct hrf_error *err)
{
    const struct hrf_record_identity expected = hrf_slide_expect(
        &scene->preview->slides.items[tile->row.slide_id - 1], HRF_TASK_TILE, tile->row.key);
    if (tile->reason != HRF_PREVIEW_CACHED)
        return HRF_OK;
    return hrf_store_find_tile_plan(scene->store, &expected, out, err);
}

static enum hrf_status add_infer(struct scene *scene, const struct hrf_preview_task *tile,
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    HRF_AUTO_FREE struct hrf_task_row *rows = NULL;
    const struct hrf_slide_row *slide = &scene->preview->slides.items[tile->row.slide_id - 1];
    size_t n = 0;
    HRF_TRY(find_plan(scene, tile, &plan, err));
    if (plan != NULL && plan->n_patches > 0)
        HRF_TRY(run_infer_tasks(scene->workflow, scene->model_sha256,
                                scene->scales[0] != '\0' ? scene->scales : NULL, slide, plan, &rows,
                                &n, err));
    for (size_t i = 0; i < n; i++)
        add_task(scene, &rows[i], judge_task(scene, &rows[i]));
    for (size_t p = 0; p < hrf_workflow_n_variants(scene->workflow); p++) {
        const bool is_int8 = hrf_workflow_variant(scene->workflow, p) == HRF_INT8;
        if (plan != NULL && (plan->n_patches == 0 || !is_int8 || scene->scales[0] != '\0'))
            continue;
        struct hrf_task_row row = { .kind = HRF_TASK_INFER,
                                    .slide_id = slide->id,
                                    .n_patches = plan != NULL ? plan->n_patches : -1 };
        snprintf(row.precision, sizeof row.precision, "%s",
                 hrf_workflow_variant_name(scene->workflow, p));
        add_task(scene, &row, HRF_PREVIEW_UNKNOWN);
    }
    return HRF_OK;
}

/* True if the task, which is open, failed for good in the run that is there. */
static bool has_failed(const struct scene *scene, const struct hrf_task_row *row)
{
    size_t first;
    const size_t n = hrf_task_rows_of(&scene->known, row->kind, row->slide_id, &first);
    for (size_t i = first; i < first + n; i++)
        if (strcmp(scene->known.items[i].key, row->key) == 0)
            return scene->known.items[i].state == HRF_TASK_BROKEN;
    return false;
}

/* True if all inference is done or has failed: what follows it is in the store with its keys. A
 * slide whose tiling has failed has no inference. */
static bool is_all_inferred(const struct scene *scene)
{
    const struct hrf_preview *p = scene->preview;
    for (size_t i = 0; i < p->n_tasks; i++) {
        const struct hrf_preview_task *t = &p->tasks[i];
        if (t->reason == HRF_PREVIEW_CACHED)
            continue;
        if (t->reason == HRF_PREVIEW_UNKNOWN) {
            const struct hrf_task_row *tile = NULL;
            size_t first;
            if (t->row.n_patches < 0 &&
                hrf_task_rows_of(&scene->known, HRF_TASK_TILE, t->row.slide_id, &first) > 0)
                tile = &scene->known.items[first];
            if (tile == NULL || tile->state != HRF_TASK_BROKEN)
                return false;
        } else if (!has_failed(scene, &t->row)) {
            return false;
        }
    }
    return true;
}

/* Judges a task whose key follows from embeddings by what the store has. */
static enum hrf_preview_reason judge_later(const struct scene *scene, struct hrf_task_row *row)
{
    if (!scene->is_inferred)
        return HRF_PREVIEW_UNKNOWN;
    size_t first;
    const size_t n = hrf_task_rows_of(&scene->known, row->kind, row->slide_id, &first);
    for (size_t i = first; i < first + n; i++) {
        const struct hrf_task_row *old = &scene->known.items[i];
        if (strcmp(old->precision, row->precision) != 0 || old->first_patch != row->first_patch)
            continue;
        snprintf(row->key, sizeof row->key, "%s", old->key);
        return old->state == HRF_TASK_FINISHED ? HRF_PREVIEW_CACHED : HRF_PREVIEW_OPEN;
    }
    return HRF_PREVIEW_UNKNOWN;
}

static void add_later(struct scene *scene, enum hrf_task_kind kind, int64_t slide_id,
                      size_t precision, int64_t first_patch)
{
    struct hrf_task_row row = { .kind = kind, .slide_id = slide_id, .first_patch = first_patch };
    snprintf(row.precision, sizeof row.precision, "%s",
             hrf_workflow_variant_name(scene->workflow, precision));
    const enum hrf_preview_reason reason = judge_later(scene, &row);
    add_task(scene, &row, reason);
}

static void add_trainings(struct scene *scene)
{
    const struct hrf_workflow *w = scene->workflow;
    const size_t n_precisions = run_training_precisions(w);
    for (size_t p = 0; p < n_precisions; p++)
        for (int64_t i = 0; i < run_n_trainings(w); i++)
            add_later(scene, HRF_TASK_TRAIN, 0, p, i);
}

/* Adds head tasks. A head from a file scores every slide. Which slides a trained head tests is
 * known after its training: then the store has the tasks. */
static void add_heads(struct scene *scene, size_t n_tiles)
{
    const struct hrf_workflow *w = scene->workflow;
    struct hrf_preview *p = scene->preview;
    for (size_t i = 0; i < n_tiles; i++) {
        const int64_t slide_id = p->tasks[i].row.slide_id;
        size_t first;
        if (p->slides.items[slide_id - 1].calibrates)
            continue;
        if (w->slide_head.file != NULL) {
            for (size_t k = 0; k < hrf_workflow_n_variants(w); k++)
                add_later(scene, HRF_TASK_HEAD, slide_id, k, 0);
            continue;
        }
        if (w->slide_head.train == HRF_TRAIN_NONE || !scene->is_inferred)
            continue;
        const size_t n = hrf_task_rows_of(&scene->known, HRF_TASK_HEAD, slide_id, &first);
        for (size_t k = first; k < first + n; k++)
            add_task(scene, &scene->known.items[k],
                     scene->known.items[k].state == HRF_TASK_FINISHED ? HRF_PREVIEW_CACHED
                                                                      : HRF_PREVIEW_OPEN);
    }
}

/* Finds the run's last calibration, unless the model brings its own scales. The keys of INT8 tasks
 * contain its key as long as the sample stays the same. */
static void find_scales(struct scene *scene)
{
    if (scene->brings_scales) {
        snprintf(scene->scales, sizeof scene->scales, "%s", RUN_OWN_SCALES);
        return;
    }
    HRF_AUTO(hrf_calibration) calibration = NULL;
    if (run_read_calibration(scene->store, &calibration, NULL) != HRF_OK || calibration == NULL)
        return;
    snprintf(scene->scales, sizeof scene->scales, "%s", calibration->key);
}

static enum hrf_status open_store(struct scene *scene, const char *directory, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "run.db");
    scene->preview->has_run = hrf_path_exists(path);
    if (!scene->preview->has_run)
        return HRF_OK;
    HRF_TRY(hrf_store_open(path, HRF_STORE_READ, &scene->store, err));
    return hrf_store_get_tasks(scene->store, &scene->known, err);
}

static void count_jobs(const struct scene *scene)
{
    struct hrf_preview *p = scene->preview;
    HRF_AUTO_FREE struct hrf_task_row *rows = hrf_calloc(p->n_tasks + 1, sizeof *rows);
    for (size_t i = 0; i < p->n_tasks; i++) {
        const bool is_known = p->tasks[i].reason != HRF_PREVIEW_CACHED &&
                              p->tasks[i].reason != HRF_PREVIEW_UNKNOWN;
        rows[i] = p->tasks[i].row;
        rows[i].state = is_known ? HRF_TASK_PENDING : HRF_TASK_FINISHED;
    }
    for (int kind = 0; kind < HRF_N_TASK_KINDS; kind++)
        p->n_jobs[kind] = run_batches_count_jobs(scene->workflow, rows, p->n_tasks,
                                                 (enum hrf_task_kind)kind);
}

static enum hrf_status fill_preview(struct scene *scene, const char *directory,
                                    struct hrf_error *err)
{
    struct hrf_preview *p = scene->preview;
    HRF_TRY(open_store(scene, directory, err));
    HRF_AUTO_RELEASE(hrf_slide_rows) known = { .items = NULL };
    if (scene->store != NULL)
        HRF_TRY(hrf_store_get_slides(scene->store, &known, err));
    HRF_TRY(hrf_ingest(scene->workflow, &known, &p->slides, &p->warnings, err));
    HRF_TRY(hrf_launch_model_hash(scene->workflow->model.file, scene->model_sha256, err));
    HRF_TRY(run_tissue_hash(scene->workflow, scene->tissue_sha256, err));
    HRF_TRY(run_find_own_scales(scene->workflow, &scene->brings_scales, err));
    p->brings_scales = scene->brings_scales;
    if (scene->store != NULL)
        find_scales(scene);
    for (size_t i = 0; i < p->slides.n_items + p->slides.n_sample; i++) {
        const struct hrf_slide_row *slide = &p->slides.items[i];
        struct hrf_task_row row = { .kind = HRF_TASK_TILE, .slide_id = slide->id };
        if (slide->state != HRF_SLIDE_PENDING)
            continue;
        HRF_TRY(run_tile_key(scene->workflow, scene->tissue_sha256, slide, row.key, err));
        add_task(scene, &row, judge_task(scene, &row));
    }
    const size_t n_tiles = p->n_tasks;
    for (size_t i = 0; i < n_tiles; i++) {
        const struct hrf_preview_task tile = p->tasks[i]; /* adding moves the array */
        if (!p->slides.items[tile.row.slide_id - 1].calibrates)
            HRF_TRY(add_infer(scene, &tile, err));
    }
    scene->is_inferred = is_all_inferred(scene);
    add_trainings(scene);
    add_heads(scene, n_tiles);
    count_jobs(scene);
    return HRF_OK;
}

enum hrf_status hrf_preview_make(const struct hrf_workflow *workflow, const char *directory,
                                 struct hrf_preview *out, struct hrf_error *err)
{
    *out = (struct hrf_preview){ .warnings = HRF_STRBUF_INIT };
    struct scene scene = { .workflow = workflow, .preview = out };
    enum hrf_status status = fill_preview(&scene, directory, err);
    hrf_task_rows_release(&scene.known);
    hrf_store_close(scene.store);
    if (status != HRF_OK)
        hrf_preview_release(out);
    return status;
}
