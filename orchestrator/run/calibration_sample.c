/* calibration_sample.c - the patches that INT8 is calibrated on, and the tasks that observe them
 * (calibrate_private.h).
 *
 * The sample is drawn when every slide is tiled, by seed, from the patches of tissue alone; no
 * label is looked at.
 */
#include "orchestrator/run/calibrate_private.h"

#include "base/crash.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/log.h"
#include "base/path.h"

#include <string.h>

static const char version[] = "hires-flow calibrate 10";

void run_sample_release(struct run_sample *sample)
{
    for (size_t i = 0; i < sample->n_parts; i++)
        hrf_tile_plan_destroy(sample->parts[i].plan);
    hrf_free(sample->parts);
}

static bool is_for_training(const struct hrf_slide_row *slide)
{
    return strncmp(slide->name, "test_", 5) != 0;
}

bool run_samples_training_part(const struct hrf_workflow *workflow,
                               const struct hrf_slide_rows *slides)
{
    if (slides->n_sample > 0 || workflow->dataset.layout != HRF_LAYOUT_CAMELYON16 ||
        workflow->dataset.split != HRF_SPLIT_ALL)
        return false;
    for (size_t i = 0; i < slides->n_items; i++)
        if (is_for_training(&slides->items[i]) && slides->items[i].state != HRF_SLIDE_EXCLUDED)
            return true;
    return false;
}

/* The sample is drawn from the slides of calibrate.slides; without them from the cohort's for
 * training, if it has both parts; else from the whole cohort. */
static bool may_sample(const struct run *run, const struct hrf_task_row *tile, bool of_training)
{
    if (run->slides.n_sample > 0)
        return tile->slide_id > (int64_t)run->slides.n_items;
    const struct hrf_slide_row *slide = hrf_slide_rows_find(&run->slides, tile->slide_id);
    return !of_training || (slide != NULL && is_for_training(slide));
}

bool run_sample_is_tiled(const struct run *run)
{
    const bool of_training = run_samples_training_part(run->workflow, &run->slides);
    const int64_t n_open = run_count_open(run, HRF_TASK_TILE);
    if (n_open == 0 || (run->slides.n_sample == 0 && !of_training))
        return n_open == 0;
    for (size_t i = 0; i < run->tasks.n_items; i++) {
        const struct hrf_task_row *t = &run->tasks.items[i];
        if (t->kind == HRF_TASK_TILE && may_sample(run, t, of_training) &&
            t->state != HRF_TASK_FINISHED && t->state != HRF_TASK_BROKEN)
            return false;
    }
    return true;
}

static enum hrf_status load_plan(struct run *run, struct run_sample_part *part,
                                 struct hrf_error *err)
{
    HRF_TRY(hrf_store_get_tile_plan(run->store, part->slide_id, &part->plan, err));
    hrf_tile_plan_drop_white(part->plan);
    return HRF_OK;
}

/* Counts each slide's patches. Their plans are not kept: those of 100,000 slides take gigabytes. */
static enum hrf_status count_parts(struct run *run, struct run_sample *sample, int64_t *total,
                                   struct hrf_error *err)
{
    sample->parts = hrf_calloc(run->tasks.n_items + 1, sizeof *sample->parts);
    HRF_CHECK_MEMORY(sample->parts != NULL, err, "no memory for the calibration sample");
    const bool of_training = run_samples_training_part(run->workflow, &run->slides);
    *total = 0;
    for (size_t i = 0; i < run->tasks.n_items; i++) {
        const struct hrf_task_row *t = &run->tasks.items[i];
        if (t->kind != HRF_TASK_TILE || t->state != HRF_TASK_FINISHED ||
            !may_sample(run, t, of_training))
            continue;
        struct run_sample_part *part = &sample->parts[sample->n_parts++];
        part->slide_id = t->slide_id;
        HRF_TRY(load_plan(run, part, err));
        part->n_patches = part->plan->n_patches;
        *total += part->n_patches;
        hrf_tile_plan_destroy(part->plan);
        part->plan = NULL;
    }
    return HRF_OK;
}

/* Selection sampling: each subset of `want` patches is equally likely. Source: Knuth, TAOCP
 * 2, 3.4.2, algorithm S. */
static enum hrf_status draw(struct run *run, struct run_sample *sample, int64_t total, int64_t want,
                            int64_t seed, struct hrf_error *err)
{
    struct hrf_random random = hrf_random_init((uint64_t)seed);
    int64_t left = total, need = want < total ? want : total;
    size_t kept_parts = 0;
    sample->n_patches = need;
    for (size_t i = 0; i < sample->n_parts; i++) {
        struct run_sample_part *part = &sample->parts[i];
        int64_t kept = 0;
        for (int64_t k = 0; k < part->n_patches; k++, left--) {
            if (hrf_random_below(&random, left) >= need)
                continue;
            if (part->plan == NULL)
                HRF_TRY(load_plan(run, part, err));
            part->plan->patches[kept++] = part->plan->patches[k];
            need--;
        }
        if (kept == 0)
            continue;
        const struct run_sample_part chosen = *part;
        part->plan = NULL; /* it moves forward, perhaps to where it is */
        chosen.plan->n_patches = kept;
        sample->parts[kept_parts++] = chosen;
    }
    sample->n_parts = kept_parts;
    return HRF_OK;
}

static enum hrf_status identify(struct run_sample *sample, struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    for (size_t i = 0; i < sample->n_parts; i++) {
        HRF_TRY(hrf_tile_plan_seal(sample->parts[i].plan, err));
        hrf_hash_text(hash, sample->parts[i].plan->quickhash);
        hrf_hash_text(hash, sample->parts[i].plan->hash);
    }
    hrf_hash_hex(hash, sample->identity);
    return HRF_OK;
}

/* Ranges that were fitted to slides know something of them: figures on the same slides may be too
 * good. */
static void warn_of_leak(const struct run *run, const struct run_sample *sample)
{
    size_t n = 0;
    if (run->slides.n_sample > 0 || run_samples_training_part(run->workflow, &run->slides))
        return;
    for (size_t i = 0; i < sample->n_parts; i++) {
        const struct hrf_slide_row *slide = hrf_slide_rows_find(&run->slides,
                                                                sample->parts[i].slide_id);
        n += slide != NULL && (slide->truth != HRF_TRUTH_UNKNOWN || slide->label_text != NULL);
    }
    if (n > 0)
        hrf_log_warning("calibrate",
                        "INT8 is calibrated on patches of %zu of the labelled slides that it is "
                        "judged on, so its figures may be too good: name others with "
                        "calibrate.slides",
                        n);
}

enum hrf_status run_sample_make(struct run *run, struct run_sample *sample, struct hrf_error *err)
{
    int64_t total = 0;
    HRF_TRY(count_parts(run, sample, &total, err));
    HRF_TRY(draw(run, sample, total, run->workflow->calibrate.samples,
                 run->workflow->calibrate.seed, err));
    warn_of_leak(run, sample);
    return identify(sample, err);
}

enum hrf_status run_sample_hash_settings(const struct run *run, struct hrf_hash *hash)
{
    hrf_hash_text(hash, version);
    hrf_hash_text(hash, run->model_sha256);
    for (int i = 0; i < 3; i++) {
        hrf_hash_double(hash, run->workflow->model.input.mean[i]);
        hrf_hash_double(hash, run->workflow->model.input.std[i]);
    }
    const struct hrf_preparation preparation = hrf_workflow_preparation(run->workflow);
    hrf_dag_hash_preparation(hash, &preparation);
    return HRF_OK;
}

/* Layers are measured on part i of n: on a few, evenly spread. */
static bool measures_part(const struct run *run, size_t i, size_t n)
{
    enum { MEASURED_PARTS = 4 };
    return hrf_workflow_has_budget(run->workflow) &&
           (n <= MEASURED_PARTS || i * MEASURED_PARTS % n < MEASURED_PARTS);
}

bool run_measures_layers(const struct run *run, const struct hrf_task_row *task)
{
    size_t i = 0, n = 0;
    for (size_t k = 0; k < run->tasks.n_items; k++)
        if (run->tasks.items[k].kind == HRF_TASK_CALIBRATE) {
            i += run->tasks.items[k].slide_id < task->slide_id; /* parts are in slides' order */
            n++;
        }
    return measures_part(run, i, n);
}

enum hrf_status run_sample_part_key(const struct run *run, const struct run_sample *sample,
                                    size_t i, char out[HRF_HASH_HEX], struct hrf_error *err)
{
    const struct run_sample_part *part = &sample->parts[i];
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    HRF_TRY(run_sample_hash_settings(run, hash));
    hrf_hash_text(hash, part->plan->quickhash);
    hrf_hash_text(hash, part->plan->hash);
    if (measures_part(run, i, sample->n_parts)) {
        const struct hrf_workflow_calibrate *how = &run->workflow->calibrate;
        hrf_hash_text(hash, run_layer_loss(run->workflow));
        hrf_hash_text(hash, hrf_fit_kind_name(run_fit_kind(run->workflow)));
        hrf_hash_double(hash, how->min_sqnr);
    }
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

/* ---- tasks ---- */

static enum hrf_status export_part(struct run *run, const struct run_sample_part *part,
                                   const char *key, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = run_plan_path(run, key);
    struct hrf_bytes bytes;
    HRF_CHECK_MEMORY(path != NULL, err, "no memory for a path");
    HRF_TRY(hrf_slide_expect(run_find_slide(run, part->slide_id), HRF_TASK_CALIBRATE, key,
                             &part->plan->identity, err));
    if (run_has_plan(path, &part->plan->identity))
        return HRF_OK;
    HRF_TRY(hrf_tile_plan_encode(part->plan, &bytes, err));
    HRF_AUTO_FREE char *directory = hrf_path_directory(path);
    enum hrf_status status = hrf_path_make_directories(directory, err);
    if (status == HRF_OK)
        status = hrf_file_write_atomic(path, bytes.data, bytes.n_bytes, err);
    hrf_bytes_release(&bytes);
    return status;
}

enum hrf_status run_sample_plan(struct run *run, const struct run_sample *sample,
                                struct hrf_error *err)
{
    HRF_TRY(hrf_store_begin(run->store, err));
    const size_t n = run->slides.n_items + run->slides.n_sample;
    for (size_t i = 0, k = 0; i < n; i++) { /* both in the slides' order */
        const int64_t id = run->slides.items[i].id;
        if (k < sample->n_parts && sample->parts[k].slide_id == id)
            k++;
        else
            HRF_TRY(hrf_store_plan_tasks(run->store, id, HRF_TASK_CALIBRATE, NULL, 0, err));
    }
    for (size_t i = 0; i < sample->n_parts; i++) {
        struct hrf_task_row row = { .kind = HRF_TASK_CALIBRATE,
                                    .slide_id = sample->parts[i].slide_id,
                                    .n_patches = sample->parts[i].plan->n_patches };
        HRF_TRY(run_sample_part_key(run, sample, i, row.key, err));
        HRF_TRY(export_part(run, &sample->parts[i], row.key, err));
        HRF_TRY(hrf_store_plan_tasks(run->store, row.slide_id, HRF_TASK_CALIBRATE, &row, 1, err));
    }
    hrf_crash_point("run.calibrate.before_plan");
    HRF_TRY(hrf_store_commit(run->store, err));
    run->calibration_planned = true;
    run_warn_dropped(run);
    return run_reload_tasks(run, err);
}
