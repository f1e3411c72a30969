/* calibration_sample.c - the patches that INT8 is calibrated on, and the tasks that observe them
 * (calibration_sample.h).
 *
 * The sample is drawn when every slide is tiled, by seed, from the patches of tissue alone; no
 * label is looked at.
 */
#include "orchestrator/run/calibration_sample.h"

#include "base/crash.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/path.h"
#include "tiler/plan/patch_pixels.h"

#include <string.h>

static const char version[] = "hires-flow calibrate 11";

void run_sample_release(struct run_sample *sample)
{
    for (size_t i = 0; i < sample->n_parts; i++)
        hrf_tile_plan_destroy(sample->parts[i].plan);
    for (size_t i = 0; i < sample->n_held_out; i++)
        hrf_tile_plan_destroy(sample->held_out[i].plan);
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
    const bool of_training = run_samples_training_part(run->setup.workflow, &run->slides);
    const int64_t n_open = run_tasks_count_open(&run->tasks, HRF_TASK_TILE);
    if (n_open == 0 || (run->slides.n_sample == 0 && !of_training))
        return n_open == 0;
    for (size_t i = 0; i < run->tasks.rows.n_items; i++) {
        const struct hrf_task_row *t = &run->tasks.rows.items[i];
        if (t->kind == HRF_TASK_TILE && may_sample(run, t, of_training) &&
            t->state != HRF_TASK_FINISHED && t->state != HRF_TASK_BROKEN)
            return false;
    }
    return true;
}

static enum hrf_status load_plan(struct run *run, struct run_sample_part *part,
                                 struct hrf_error *err)
{
    HRF_TRY(hrf_store_get_tile_plan(run->setup.store, part->slide_id, &part->plan, err));
    hrf_tile_plan_drop_white(part->plan);
    return HRF_OK;
}

/* Counts each slide's patches. Their plans are not kept: those of 100,000 slides take gigabytes. */
static enum hrf_status count_parts(struct run *run, struct run_sample *sample, int64_t *total,
                                   struct hrf_error *err)
{
    sample->parts = hrf_calloc(run->tasks.rows.n_items + 1, sizeof *sample->parts);
    const bool of_training = run_samples_training_part(run->setup.workflow, &run->slides);
    *total = 0;
    for (size_t i = 0; i < run->tasks.rows.n_items; i++) {
        const struct hrf_task_row *t = &run->tasks.rows.items[i];
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

/* If the sample would take the whole cohort, one patch of so many is left out, to compare INT8 on.
 */
enum { HELD_OUT_SHARE = 8 };

/* Selection sampling: each subset of `want` patches is equally likely. Source: Knuth, TAOCP
 * 2, 3.4.2, algorithm S. */
static enum hrf_status draw(struct run *run, struct run_sample *sample, int64_t total, int64_t want,
                            int64_t seed, struct hrf_error *err)
{
    struct hrf_random random = hrf_random_init((uint64_t)seed);
    const int64_t max = total - total / HELD_OUT_SHARE;
    int64_t left = total, need = want < max ? want : max;
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
        if (part->plan != NULL)
            part->plan->n_patches = kept;
    }
    return HRF_OK;
}

/* True if part i of n is one of `max` that are evenly spread. */
static bool is_spread(int64_t i, int64_t n, int64_t max)
{
    return n <= max || i * max % n < max;
}

/* Reduces the slide's patches to at most `max` that are not in the sample. Both are in the plan's
 * order. */
static void leave_others(struct hrf_tile_plan *plan, const struct hrf_tile_plan *sampled,
                         int64_t max)
{
    const int64_t n_others = plan->n_patches - sampled->n_patches;
    int64_t n = 0, at = 0, other = 0;
    for (int64_t k = 0; k < plan->n_patches; k++) {
        const struct hrf_patch p = plan->patches[k];
        if (at < sampled->n_patches && sampled->patches[at].x == p.x &&
            sampled->patches[at].y == p.y)
            at++;
        else if (is_spread(other++, n_others, max))
            plan->patches[n++] = p;
    }
    plan->n_patches = n;
}

/* True if patches of the slide may be held out. They are taken from slides of the sample, so that
 * few slides are opened; a slide that is one image has no other patches, and is taken whole. */
static bool may_hold_out(const struct run *run, const struct run_sample_part *part)
{
    return run->setup.workflow->tiler.mode == HRF_TILER_SLIDE
               ? part->plan == NULL && part->n_patches > 0
               : part->plan != NULL && part->n_patches > part->plan->n_patches;
}

static enum hrf_status hold_out(struct run *run, struct run_sample *sample, struct hrf_error *err)
{
    int64_t n = 0, i = 0;
    for (size_t k = 0; k < sample->n_parts; k++)
        n += may_hold_out(run, &sample->parts[k]);
    const int64_t n_parts = n < RUN_HELD_OUT_PARTS ? n : RUN_HELD_OUT_PARTS;
    for (size_t k = 0; k < sample->n_parts; k++) {
        const struct run_sample_part *part = &sample->parts[k];
        if (!may_hold_out(run, part) || !is_spread(i++, n, n_parts))
            continue;
        struct run_sample_part *held = &sample->held_out[sample->n_held_out++];
        *held = (struct run_sample_part){ .slide_id = part->slide_id };
        HRF_TRY(load_plan(run, held, err));
        if (part->plan != NULL)
            leave_others(held->plan, part->plan, RUN_HELD_OUT_PATCHES / n_parts);
        HRF_TRY(hrf_tile_plan_seal(held->plan, err));
    }
    return HRF_OK;
}

/* Slides of which nothing was drawn are no parts of it. */
static void drop_others(struct run_sample *sample)
{
    size_t n = 0;
    for (size_t i = 0; i < sample->n_parts; i++)
        if (sample->parts[i].plan != NULL)
            sample->parts[n++] = sample->parts[i];
    sample->n_parts = n;
}

/* ---- what the sample shows ---- */

struct look {
    const struct run *run;
    struct run_sample *sample;
    size_t *unseen; /* the parts that are looked at */
    size_t n_unseen;
    struct hrf_error why; /* error of the last part that failed */
};

static struct run_sample_part *unseen_part(const struct look *look, size_t i)
{
    return &look->sample->parts[look->unseen[i]];
}

static const char *path_of(void *context, size_t i)
{
    return unseen_part(context, i)->plan->slide_path;
}

/* Runs in a child process. */
static enum hrf_status look_aside(void *context, const void *question, struct hrf_strbuf *answer,
                                  struct hrf_error *err)
{
    char pixels[HRF_HASH_HEX];
    HRF_TRY(hrf_tile_plan_hash_pixels(unseen_part(context, *(const size_t *)question)->plan, pixels,
                                      err));
    hrf_strbuf_add(answer, pixels, sizeof pixels);
    return HRF_OK;
}

static void take_look(void *context, size_t i, enum hrf_status status,
                      const struct hrf_strbuf *answer, const struct hrf_error *err)
{
    struct look *look = context;
    if (status == HRF_OK)
        memcpy(unseen_part(look, i)->pixels, answer->text, HRF_HASH_HEX);
    else
        look->why = *err;
}

/* Computes the name under which a part was seen before: its slide, the sizes and times of that
 * slide's files, and its patches. */
static enum hrf_status name_part(const struct run *run, const struct run_sample_part *part,
                                 char out[HRF_HASH_HEX], struct hrf_error *err)
{
    const struct hrf_slide_row *slide = hrf_slide_rows_find(&run->slides, part->slide_id);
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_hash_text(hash, slide->content);
    hrf_hash_text(hash, slide->seen);
    hrf_hash_text(hash, part->plan->hash);
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

/* Takes over the hashes that an earlier look has found; the other parts are `unseen`. known: lines
 * "NAME PIXELS". */
static enum hrf_status recall_pixels(struct look *look, const char *known, struct hrf_error *err)
{
    for (size_t i = 0; i < look->sample->n_parts; i++) {
        struct run_sample_part *part = &look->sample->parts[i];
        char name[HRF_HASH_HEX];
        HRF_TRY(hrf_tile_plan_seal(part->plan, err));
        HRF_TRY(name_part(look->run, part, name, err));
        const char *line = known != NULL ? strstr(known, name) : NULL;
        if (line != NULL && strlen(line) >= 2 * HRF_HASH_HEX)
            memcpy(part->pixels, line + HRF_HASH_HEX, HRF_HASH_HEX - 1);
        else
            look->unseen[look->n_unseen++] = i;
    }
    return HRF_OK;
}

static enum hrf_status note_pixels(struct run *run, const struct run_sample *sample,
                                   struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    for (size_t i = 0; i < sample->n_parts; i++) {
        char name[HRF_HASH_HEX];
        HRF_TRY(name_part(run, &sample->parts[i], name, err));
        hrf_strbuf_addf(&text, "%s %s\n", name, sample->parts[i].pixels);
    }
    return hrf_store_set_fact(run->setup.store, "sample_pixels", text.text, err);
}

/* Hashes what the patches show, by which INT8's scales are stored. The blocks that identify a slide
 * may miss a change of a few tiles; and a slide that is written again without a change keeps its
 * scales. */
static enum hrf_status look_at_pixels(struct run *run, struct run_sample *sample,
                                      struct hrf_error *err)
{
    enum { CHILDREN = 4 }; /* each has a slide open, with a cache of its tiles */
    HRF_AUTO_FREE char *known = NULL;
    HRF_AUTO_FREE size_t *unseen = hrf_alloc_array(sample->n_parts + 1, sizeof *unseen);
    struct look look = { .run = run, .sample = sample, .unseen = unseen };
    HRF_TRY(hrf_store_get_fact(run->setup.store, "sample_pixels", &known, err));
    HRF_TRY(recall_pixels(&look, known, err));
    const struct hrf_guard_batch batch = { .n_items = look.n_unseen,
                                           .n_children = CHILDREN,
                                           .work = look_aside,
                                           .path = path_of,
                                           .take = take_look,
                                           .context = &look };
    HRF_TRY(hrf_guard_ask_all(&batch, err));
    if (look.why.status != HRF_OK)
        return hrf_error_set(err, look.why.status, "%s", look.why.text);
    return look.n_unseen > 0 ? note_pixels(run, sample, err) : HRF_OK;
}

static enum hrf_status calibration_sample_identify(struct run_sample *sample, struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    for (size_t i = 0; i < sample->n_parts; i++) {
        hrf_hash_text(hash, sample->parts[i].plan->hash);
        hrf_hash_text(hash, sample->parts[i].pixels);
    }
    hrf_hash_hex(hash, sample->identity);
    return HRF_OK;
}

/* Warns if INT8 is judged on slides that its ranges were fitted to: such figures may be too good.
 */
static void warn_of_leak(const struct run *run, const struct run_sample *sample)
{
    size_t n = 0;
    if (run->calibration.is_planned || run->slides.n_sample > 0 ||
        run_samples_training_part(run->setup.workflow, &run->slides))
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
    HRF_TRY(draw(run, sample, total, run->setup.workflow->calibrate.samples,
                 run->setup.workflow->calibrate.seed, err));
    HRF_TRY(hold_out(run, sample, err));
    drop_others(sample);
    warn_of_leak(run, sample);
    HRF_TRY(look_at_pixels(run, sample, err));
    return calibration_sample_identify(sample, err);
}

void run_sample_hash_settings(const struct run *run, unsigned phases, struct hrf_hash *hash)
{
    hrf_hash_text(hash, version);
    hrf_hash_text(hash, run->setup.model_sha256);
    hrf_settings_hash(run->setup.workflow, phases, hash);
}

/* True if layers are measured on part i of n: on a few, evenly spread. */
static bool measures_part(const struct run *run, size_t i, size_t n)
{
    enum { MEASURED_PARTS = 4 };
    return hrf_workflow_has_budget(run->setup.workflow) &&
           is_spread((int64_t)i, (int64_t)n, MEASURED_PARTS);
}

bool run_compares_int8(const struct hrf_task_row *task)
{
    return task->kind == HRF_TASK_CALIBRATE && task->precision[0] != '\0';
}

bool run_measures_layers(const struct run *run, const struct hrf_task_row *task)
{
    size_t i = 0, n = 0;
    if (run_compares_int8(task))
        return !hrf_workflow_has_budget(run->setup.workflow);
    for (size_t k = 0; k < run->tasks.rows.n_items; k++)
        if (run->tasks.rows.items[k].kind == HRF_TASK_CALIBRATE &&
            !run_compares_int8(&run->tasks.rows.items[k])) {
            i += run->tasks.rows.items[k].slide_id <
                 task->slide_id; /* parts are in slides' order */
            n++;
        }
    return measures_part(run, i, n);
}

enum hrf_status run_sample_part_key(const struct run *run, const struct run_sample *sample,
                                    size_t i, char out[HRF_HASH_HEX], struct hrf_error *err)
{
    const struct run_sample_part *part = &sample->parts[i];
    const struct hrf_slide_row *slide = hrf_slide_rows_find(&run->slides, part->slide_id);
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    const bool is_measured = measures_part(run, i, sample->n_parts);
    run_sample_hash_settings(run, HRF_FOR_STATISTICS | (is_measured ? HRF_FOR_LAYERS : 0), hash);
    hrf_hash_text(hash, slide->content); /* as its record has it */
    hrf_hash_text(hash, part->plan->hash);
    hrf_hash_text(hash, part->pixels);
    if (is_measured) /* the key has which loss is measured, not how much of it is allowed */
        hrf_hash_int(hash, hrf_workflow_compares_margins(run->setup.workflow));
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

/* ---- tasks ---- */

static enum hrf_status export_part(struct run *run, const struct run_sample_part *part,
                                   const char *key, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = run_plan_path(&run->setup, key);
    HRF_AUTO_RELEASE(hrf_bytes) bytes = { NULL, 0 };
    part->plan->identity = hrf_slide_expect(hrf_slide_rows_find(&run->slides, part->slide_id),
                                            HRF_TASK_CALIBRATE, key);
    if (run_has_plan(path, &part->plan->identity))
        return HRF_OK;
    HRF_TRY(hrf_tile_plan_encode(part->plan, &bytes, err));
    HRF_AUTO_FREE char *directory = hrf_path_directory(path);
    HRF_TRY(hrf_path_make_directories(directory, err));
    return hrf_file_write_atomic(path, bytes.data, bytes.n_bytes, err);
}

static enum hrf_status plan_part(struct run *run, const struct run_sample_part *part,
                                 struct hrf_task_row *row, struct hrf_error *err)
{
    row->kind = HRF_TASK_CALIBRATE;
    row->slide_id = part->slide_id;
    row->n_patches = part->plan->n_patches;
    return export_part(run, part, row->key, err);
}

enum hrf_status run_held_out_key(const struct run *run, const struct run_sample_part *part,
                                 const char *calibration_key, char out[HRF_HASH_HEX],
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    run_sample_hash_settings(run, HRF_FOR_STATISTICS | HRF_FOR_LAYERS, hash);
    hrf_hash_text(hash, hrf_slide_rows_find(&run->slides, part->slide_id)->content);
    hrf_hash_text(hash, part->plan->hash);
    hrf_hash_text(hash, calibration_key);
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

enum hrf_status run_held_out_plan(struct run *run, const struct run_sample *sample,
                                  const char *calibration_key, struct hrf_error *err)
{
    HRF_TRY(hrf_store_begin(run->setup.store, err));
    for (size_t h = 0; h < sample->n_held_out; h++) {
        const struct run_sample_part *held = &sample->held_out[h];
        struct hrf_task_row rows[2] = { { .precision = "int8" }, { .n_patches = 0 } };
        size_t n = 1;
        HRF_TRY(run_held_out_key(run, held, calibration_key, rows[0].key, err));
        HRF_TRY(plan_part(run, held, &rows[0], err));
        for (size_t i = 0; i < sample->n_parts; i++) { /* the slide's task that observes stays */
            if (sample->parts[i].slide_id != held->slide_id)
                continue;
            HRF_TRY(run_sample_part_key(run, sample, i, rows[n].key, err));
            HRF_TRY(plan_part(run, &sample->parts[i], &rows[n++], err));
        }
        HRF_TRY(hrf_store_plan_tasks(run->setup.store, held->slide_id, HRF_TASK_CALIBRATE, rows, n,
                                     err));
    }
    return run_commit_plan(run, err);
}

enum hrf_status run_sample_plan(struct run *run, const struct run_sample *sample,
                                struct hrf_error *err)
{
    HRF_TRY(hrf_store_begin(run->setup.store, err));
    const size_t n = run->slides.n_items + run->slides.n_sample;
    for (size_t i = 0, k = 0; i < n; i++) { /* both in the slides' order */
        const int64_t id = run->slides.items[i].id;
        if (k < sample->n_parts && sample->parts[k].slide_id == id)
            k++;
        else
            HRF_TRY(hrf_store_plan_tasks(run->setup.store, id, HRF_TASK_CALIBRATE, NULL, 0, err));
    }
    for (size_t i = 0; i < sample->n_parts; i++) {
        struct hrf_task_row row = { .n_patches = 0 };
        HRF_TRY(run_sample_part_key(run, sample, i, row.key, err));
        HRF_TRY(plan_part(run, &sample->parts[i], &row, err));
        HRF_TRY(
            hrf_store_plan_tasks(run->setup.store, row.slide_id, HRF_TASK_CALIBRATE, &row, 1, err));
    }
    hrf_crash_point("run.calibrate.before_plan");
    run->calibration.is_planned = true;
    return run_commit_plan(run, err);
}
