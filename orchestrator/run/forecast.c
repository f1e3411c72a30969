/* forecast.c - see forecast.h. Slides are looked at in children, side by side.
 *
 * Rates come from the run's own jobs where it has some; otherwise the network's is predicted by the
 * engine and the others are the defaults below, which were measured on this project's machine: they
 * give the order of magnitude, and what is printed says where each comes from.
 */
#include "orchestrator/run/forecast.h"

#include "base/clock.h"
#include "base/guard.h"
#include "base/own_process.h"
#include "orchestrator/run/run_private.h"
#include "tiler/grid/grid.h"
#include "tiler/plan/estimate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CHILDREN_PER_CORE = 4, MAX_CHILDREN = 64 }; /* headers wait for disks most of the time */

void hrf_forecast_release(struct hrf_forecast *f)
{
    hrf_survey_release(&f->survey);
    hrf_free(f->rows.items); /* the preview owns what they hold */
    *f = (struct hrf_forecast){ .n_untiled = 0 };
}

int64_t hrf_forecast_cells(const struct hrf_workflow *w, const struct hrf_slide_finding *finding)
{
    struct hrf_grid grid;
    if (finding->kind != HRF_SLIDE_IS_READY)
        return 0;
    if (w->tiler.mode == HRF_TILER_SLIDE)
        return 1;
    if (hrf_grid_make(finding->width, finding->height, finding->mpp_x, finding->mpp_y,
                      w->tiler.patch.size, w->tiler.patch.mpp, w->tiler.patch.stride, &grid,
                      NULL) != HRF_OK ||
        hrf_grid_cover_edge(&grid, w->tiler.patch.edge, NULL) != HRF_OK)
        return 0;
    return (int64_t)grid.columns * grid.rows;
}

double hrf_forecast_patches(const struct hrf_workflow *w, const struct hrf_forecast *f)
{
    return (double)f->known_patches + f->patches * (double)hrf_workflow_n_variants(w);
}

/* Returns the number of images that the network computes for n patches of a slide. */
static int64_t whole_batches(const struct hrf_workflow *w, int64_t n)
{
    const bool is_whole = w->engine.device == HRF_DEVICE_CUDA; /* hrf_worker_batch() */
    const int64_t batch = w->tiler.mode == HRF_TILER_SLIDE ? 1
                          : is_whole                       ? w->engine.batch
                                                           : hrf_job_batch(w->engine.batch, n);
    return (n + batch - 1) / batch * batch;
}

/* ---- headers ---- */

/* Chooses the slides to open: those that a run would tile, evenly thinned out. */
static void choose_slides(const struct hrf_preview *p, struct hrf_forecast *f)
{
    for (size_t i = 0; i < p->n_tasks; i++)
        f->n_untiled += p->tasks[i].row.kind == HRF_TASK_TILE &&
                        p->tasks[i].reason != HRF_PREVIEW_CACHED;
    f->n_opened = f->n_untiled < HRF_FORECAST_HEADERS ? f->n_untiled : HRF_FORECAST_HEADERS;
    f->rows.items = hrf_calloc((size_t)f->n_opened + 1, sizeof *f->rows.items);
    int64_t n = 0;
    for (size_t i = 0; i < p->n_tasks; i++) {
        const struct hrf_preview_task *t = &p->tasks[i];
        if (t->row.kind != HRF_TASK_TILE || t->reason == HRF_PREVIEW_CACHED)
            continue;
        /* The k-th that is opened is the one at k / n_opened of the way. */
        if ((int64_t)f->rows.n_items * f->n_untiled <= n * f->n_opened &&
            (int64_t)f->rows.n_items < f->n_opened)
            f->rows.items[f->rows.n_items++] = p->slides.items[t->row.slide_id - 1];
        n++;
    }
    f->n_opened = (int64_t)f->rows.n_items;
}

static enum hrf_status open_headers(const struct hrf_workflow *w, struct hrf_forecast *f,
                                    struct hrf_error *err)
{
    const int32_t wanted = hrf_process_cpu_count() * CHILDREN_PER_CORE;
    HRF_TRY(hrf_survey_make(&f->rows, w->dataset.mpp, wanted < MAX_CHILDREN ? wanted : MAX_CHILDREN,
                            &f->survey, err));
    int64_t n_cells = 0;
    for (size_t i = 0; i < f->survey.n_items; i++) {
        n_cells += hrf_forecast_cells(w, &f->survey.items[i]);
        f->n_ready += f->survey.items[i].kind == HRF_SLIDE_IS_READY;
    }
    const double scale = f->n_opened > 0 ? (double)f->n_untiled / (double)f->n_opened : 1;
    f->n_cells = llround((double)n_cells * scale);
    f->patches = f->images = (double)f->n_cells;
    f->spread = NAN;
    return HRF_OK;
}

/* ---- looks ---- */

struct look {
    size_t slide; /* index into rows and survey */
    bool is_known;
    struct hrf_tile_estimate estimate;
};
struct looks {
    const struct hrf_workflow *workflow;
    const struct hrf_workflow_tiler *params;
    const struct hrf_forecast *forecast;
    struct look items[HRF_FORECAST_LOOKS];
    int n;
};

/* Looks at one slide. One that cannot be used is known to give no patches; one whose look would
 * take long stays unknown. */
static void look_at(const struct looks *looks, struct look *look)
{
    const struct hrf_slide_row *row = &looks->forecast->rows.items[look->slide];
    struct hrf_error err = { .status = HRF_OK };
    const enum hrf_status status = hrf_tile_estimate_slide(row->path, looks->params, row->mpp_csv,
                                                           looks->workflow->dataset.mpp,
                                                           &look->estimate, &err);
    look->is_known = status == HRF_OK || status == HRF_E_USER;
    if (status != HRF_OK)
        look->estimate = (struct hrf_tile_estimate){ .n_patches = 0 };
}

/* Runs in a child process; the answer is the look. */
static enum hrf_status look_aside(void *context, const void *question, struct hrf_strbuf *answer,
                                  struct hrf_error *err)
{
    struct looks *looks = context;
    struct look *look = &looks->items[*(const size_t *)question];
    (void)err;
    look_at(looks, look);
    hrf_strbuf_add(answer, look, sizeof *look);
    return HRF_OK;
}

static const char *path_of(void *context, size_t i)
{
    const struct looks *looks = context;
    return looks->forecast->rows.items[looks->items[i].slide].path;
}

static void take_look(void *context, size_t i, enum hrf_status status,
                      const struct hrf_strbuf *answer, const struct hrf_error *err)
{
    struct looks *looks = context;
    (void)err;
    if (status == HRF_OK)
        memcpy(&looks->items[i], answer->text, sizeof looks->items[i]);
    else
        looks->items[i].is_known = status == HRF_E_USER; /* it ends the process that reads it */
}

/* Estimates the patches. The part of the grid that is tissue is the ratio of both sums over the
 * slides that were looked at; its standard error is that of a ratio estimate, with the correction
 * for a finite number of slides (Cochran, Sampling Techniques, chapter 6). */
static void estimate_patches(const struct looks *looks, struct hrf_forecast *f)
{
    double cells = 0, patches = 0, squares = 0, picture = 0, images = 0;
    int64_t n_pictures = 0;
    for (int i = 0; i < looks->n; i++)
        if (looks->items[i].is_known) {
            cells += (double)hrf_forecast_cells(looks->workflow,
                                                &f->survey.items[looks->items[i].slide]);
            patches += (double)looks->items[i].estimate.n_patches;
            images += (double)whole_batches(looks->workflow, looks->items[i].estimate.n_patches);
            picture += looks->items[i].estimate.picture_bytes;
            n_pictures += looks->items[i].estimate.picture_bytes > 0;
            f->n_looked++;
        }
    f->picture_bytes = n_pictures > 0 ? picture / (double)n_pictures : 0;
    if (!(cells > 0))
        return;
    const double share = patches / cells, n = (double)f->n_looked;
    const double n_all = (double)f->n_ready * (double)f->n_untiled / (double)f->n_opened;
    for (int i = 0; i < looks->n; i++)
        if (looks->items[i].is_known) {
            const double all = (double)hrf_forecast_cells(looks->workflow,
                                                          &f->survey.items[looks->items[i].slide]);
            squares += pow((double)looks->items[i].estimate.n_patches - share * all, 2);
        }
    f->patches = share * (double)f->n_cells;
    f->images = patches > 0 ? f->patches * images / patches : 0;
    f->spread = n >= n_all ? 0
                : n > 1    ? 2 * n_all * sqrt(squares / (n - 1) / n * (1 - n / n_all))
                           : NAN;
}

static enum hrf_status look_at_sample(const struct hrf_workflow *w, struct hrf_forecast *f,
                                      struct hrf_error *err)
{
    struct looks looks = { .workflow = w, .params = &w->tiler, .forecast = f };
    const int64_t wanted = f->n_ready < HRF_FORECAST_LOOKS ? f->n_ready : HRF_FORECAST_LOOKS;
    int64_t n = 0;
    for (size_t i = 0; i < f->survey.n_items; i++) {
        if (f->survey.items[i].kind != HRF_SLIDE_IS_READY)
            continue;
        if ((int64_t)looks.n * f->n_ready <= n * wanted && looks.n < wanted)
            looks.items[looks.n++].slide = i;
        n++;
    }
    const double start = hrf_clock_seconds();
    const struct hrf_guard_batch batch = { .n_items = (size_t)looks.n,
                                           .n_children = hrf_process_cpu_count(),
                                           .work = look_aside,
                                           .path = path_of,
                                           .take = take_look,
                                           .context = &looks };
    HRF_TRY(hrf_guard_ask_all(&batch, err));
    f->look_seconds = hrf_clock_seconds() - start;
    estimate_patches(&looks, f);
    return HRF_OK;
}

/* Time of a tiling as a multiple of a look at the slide, which reads less and draws nothing. */
static const double tiling_per_look = 2;
/* Patches of 256 px that a core reads in a second where the level has the resolution asked for:
 * JPEG tiles, decoded once (tests/bench/bench_feed.c). */
static const double read_per_core = 1500;
/* Seconds to start a job's processes; bytes of weights that are packed for the kernels in a second
 * (ResNet-50, 94 MB: 0.6 s); seconds of aggregation and pictures for each slide. */
static const double job_start_s = 0.5, weights_per_s = 150e6, slide_report_s = 0.01;
/* Time of observing a patch in float32 with its histograms as a multiple of scoring it. */
static const double observing = 2;

const char *hrf_forecast_room_name(enum hrf_forecast_room room)
{
    static const char *const names[] = { "tiling",   "scores",     "tables",
                                         "heatmaps", "embeddings", "report" };
    return names[room];
}

int64_t hrf_forecast_bytes(const struct hrf_forecast *f)
{
    int64_t sum = 0;
    for (int i = 0; i < HRF_N_ROOMS; i++)
        sum += f->n_bytes[i];
    return sum;
}

double hrf_forecast_seconds(const struct hrf_forecast *f, bool *is_whole)
{
    const struct hrf_forecast_time *phases[] = { &f->tile, &f->calibrate, &f->infer, &f->train,
                                                 &f->report };
    double sum = 0;
    *is_whole = true;
    for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++)
        if (isnan(phases[i]->seconds))
            *is_whole = false;
        else
            sum += phases[i]->seconds;
    return sum;
}

/* ---- what the run's own jobs took ---- */

struct measured {
    double seconds;             /* on the clock, during which at least one of them ran */
    int64_t n_tasks, n_patches; /* tasks and patches that they did */
};

static int compare_ids(const void *a, const void *b)
{
    const int64_t x = (*(const struct hrf_task_row *const *)a)->id;
    const int64_t y = (*(const struct hrf_task_row *const *)b)->id;
    return x < y ? -1 : x > y;
}

/* Returns the `*n` tasks that are done, in the order of their ids, however large. Heap. */
static const struct hrf_task_row **index_done(const struct hrf_task_rows *tasks, size_t *n)
{
    const struct hrf_task_row **done = hrf_alloc_array(tasks->n_items + 1, sizeof *done);
    *n = 0;
    for (size_t i = 0; i < tasks->n_items; i++)
        if (tasks->items[i].state == HRF_TASK_FINISHED)
            done[(*n)++] = &tasks->items[i];
    qsort(done, *n, sizeof *done, compare_ids);
    return done;
}

static const struct hrf_task_row *find_done(const struct hrf_task_row **done, size_t n, int64_t id)
{
    const struct hrf_task_row row = { .id = id }, *wanted = &row;
    const struct hrf_task_row **found = bsearch(&wanted, done, n, sizeof *done, compare_ids);
    return found != NULL ? *found : NULL;
}

static enum hrf_status forecast_measure(struct hrf_store *store, const struct hrf_task_rows *tasks,
                                        enum hrf_task_kind kind, struct measured *out,
                                        struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_attempt_rows) attempts = { NULL, 0 };
    HRF_TRY(hrf_store_get_attempts(store, false, &attempts, err));
    HRF_AUTO_FREE struct run_span *spans = hrf_alloc_array(attempts.n_items + 1, sizeof *spans);
    size_t n = 0;
    size_t n_done_tasks;
    HRF_AUTO_FREE const struct hrf_task_row **done = index_done(tasks, &n_done_tasks);
    for (size_t i = 0; i < attempts.n_items; i++) {
        const struct hrf_attempt_row *a = &attempts.items[i];
        const bool tells = a->usage.started_ms > 0 && a->usage.finished_ms > a->usage.started_ms;
        if (a->kind != kind || a->state != HRF_ATTEMPT_ENDED)
            continue;
        int64_t n_done = 0;
        for (size_t k = 0; k < a->n_task_ids; k++) {
            const struct hrf_task_row *task = find_done(done, n_done_tasks, a->task_ids[k]);
            n_done += task != NULL;
            out->n_patches += task != NULL ? task->n_patches : 0;
        }
        out->n_tasks += n_done;
        if (n_done > 0) /* the time that it stood in a queue says nothing of the next run's */
            spans[n++] = tells ? (struct run_span){ a->usage.started_ms, a->usage.finished_ms }
                               : (struct run_span){ a->submitted_ms, a->ended_ms };
    }
    out->seconds = run_union_seconds(spans, n);
    return HRF_OK;
}

static enum hrf_status measure_all(const char *directory, const struct hrf_preview *preview,
                                   struct measured out[HRF_N_TASK_KINDS], struct hrf_error *err)
{
    HRF_AUTO(hrf_store) store = NULL;
    HRF_AUTO_RELEASE(hrf_task_rows) tasks = { NULL, 0 };
    if (!preview->has_run)
        return HRF_OK;
    HRF_TRY(hrf_store_open_run(directory, &store, err));
    HRF_TRY(hrf_store_get_tasks(store, &tasks, err));
    for (int kind = 0; kind < HRF_N_TASK_KINDS; kind++)
        HRF_TRY(forecast_measure(store, &tasks, (enum hrf_task_kind)kind, &out[kind], err));
    return HRF_OK;
}

/* ---- time ---- */

/* Returns how many machines compute at the same time: the jobs of a local run share one. */
static double n_machines(const struct hrf_workflow *w, double n_jobs)
{
    if (w->executor.type != HRF_EXECUTOR_SLURM)
        return 1;
    return fmax(1, fmin((double)w->executor.max_jobs, ceil(n_jobs)));
}

static void time_tiling(const struct hrf_workflow *w, const struct measured *own,
                        struct hrf_forecast *f)
{
    struct hrf_forecast_time *t = &f->tile;
    if (f->n_untiled == 0) {
        snprintf(t->from, sizeof t->from, "nothing is left to tile");
    } else if (own->seconds > 0 && own->n_tasks > 0) {
        t->seconds = own->seconds / (double)own->n_tasks * (double)f->n_untiled;
        snprintf(t->from, sizeof t->from, "the %lld slides that this run has tiled",
                 (long long)own->n_tasks);
    } else if (f->n_looked > 0) {
        t->seconds = tiling_per_look * f->look_seconds / (double)f->n_looked *
                     (double)f->n_untiled / n_machines(w, (double)f->n_untiled);
        snprintf(t->from, sizeof t->from, "%g times a look at each of %lld slides just now",
                 tiling_per_look, (long long)f->n_looked);
    } else {
        t->seconds = NAN;
        snprintf(t->from, sizeof t->from, "no slide could be looked at");
    }
}

static double start_seconds(const struct hrf_forecast_rates *rates)
{
    return job_start_s + (double)rates->weight_bytes / weights_per_s;
}

/* Returns the seconds in which a machine reads n patches and computes `images` in all precisions;
 * NaN: not known. */
static double work_seconds(const struct hrf_workflow *w, const struct hrf_forecast_rates *rates,
                           double n, double images)
{
    const double side = (double)(w->tiler.mode == HRF_TILER_SLIDE ? w->tiler.slide.size
                                                                  : w->tiler.patch.size);
    const double cores = w->executor.type == HRF_EXECUTOR_SLURM
                             ? fmax(1, (double)w->executor.slurm.cpus_per_rank)
                             : hrf_process_cpu_count();
    const double read = n * side * side / (256.0 * 256.0) / (read_per_core * cores);
    double compute = 0;
    for (size_t p = 0; p < hrf_workflow_n_variants(w); p++) {
        const double rate = rates->patches_per_second[hrf_workflow_is_jitter(w, p) ? 0 : p];
        compute += rate > 0 ? images / rate : NAN;
    }
    /* A GPU computes while the CPU reads; on a CPU both share the cores. */
    return w->engine.device == HRF_DEVICE_CUDA ? fmax(read, compute) : read + compute;
}

static void time_inference(const struct hrf_workflow *w, const struct measured *own,
                           const struct hrf_forecast_rates *rates, struct hrf_forecast *f)
{
    struct hrf_forecast_time *t = &f->infer;
    const double n_variants = (double)hrf_workflow_n_variants(w);
    const double n = hrf_forecast_patches(w, f), each = n / n_variants;
    const double images = f->images + (double)f->known_images / n_variants;
    const double n_jobs = ceil(each / (double)w->executor.patches_per_job);
    const double at_once = n_machines(w, n_jobs);
    if (!(n > 0)) {
        snprintf(t->from, sizeof t->from, "no patches are left");
        return;
    }
    if (own->seconds > 0 && own->n_patches > 0) {
        const double rate = (double)own->n_patches / own->seconds;
        t->seconds = n / rate;
        snprintf(t->from, sizeof t->from,
                 "the %lld patches that this run has scored, %.3g a second",
                 (long long)own->n_patches, rate);
        return;
    }
    t->seconds = work_seconds(w, rates, each, images) / at_once +
                 start_seconds(rates) * ceil(n_jobs / (double)w->executor.max_jobs);
    const int length = snprintf(
        t->from, sizeof t->from,
        "the network's rate (%s), reading at %g patches of 256 px a second and core, %.1f s to "
        "start (defaults)",
        rates->from[0] != '\0' ? rates->from : "not known", read_per_core, start_seconds(rates));
    if (images > 1.05 * each && length > 0 && (size_t)length < sizeof t->from)
        snprintf(t->from + length, sizeof t->from - (size_t)length,
                 "; whole batches are %.0f patches (engine.batch)", images);
}

static void time_others(const struct hrf_workflow *w, const struct hrf_preview *preview,
                        const struct measured own[HRF_N_TASK_KINDS],
                        const struct hrf_forecast_rates *rates, struct hrf_forecast *f)
{
    const struct measured *train = &own[HRF_TASK_TRAIN];
    const double rate = rates->patches_per_second[0];
    if (f->n_calibrating > 0) {
        f->calibrate.seconds = rate > 0 ? (double)f->n_calibrating * observing / rate +
                                              start_seconds(rates)
                                        : NAN;
        snprintf(f->calibrate.from, sizeof f->calibrate.from,
                 "%g times the scoring of its %lld patches, if no run has this calibration yet",
                 observing, (long long)f->n_calibrating);
    }
    if (f->n_trainings > 0) {
        const bool is_known = train->seconds > 0 && train->n_tasks > 0;
        f->train.seconds = is_known
                               ? train->seconds / (double)train->n_tasks * (double)f->n_trainings
                               : NAN;
        snprintf(f->train.from, sizeof f->train.from,
                 is_known ? "the heads that this run has trained"
                          : "known once this run has trained one");
    }
    f->report.seconds = slide_report_s * (double)preview->slides.n_items *
                        (double)hrf_workflow_n_variants(w);
    snprintf(f->report.from, sizeof f->report.from, "%g s a slide and precision (default)",
             slide_report_s);
}

static enum hrf_status predict_time(const struct hrf_workflow *w, const char *directory,
                                    const struct hrf_preview *preview,
                                    const struct hrf_forecast_rates *rates, struct hrf_forecast *f,
                                    struct hrf_error *err)
{
    struct measured own[HRF_N_TASK_KINDS] = { { .seconds = 0 } };
    HRF_TRY(measure_all(directory, preview, own, err));
    time_tiling(w, &own[HRF_TASK_TILE], f);
    time_inference(w, &own[HRF_TASK_INFER], rates, f);
    time_others(w, preview, own, rates, f);
    return HRF_OK;
}

/* ---- disk ---- */

/* Returns the number of pixels of a slide's thumbnail, mask or heat map: at most 1024 px a side. */
static double picture_pixels(const struct hrf_slide_finding *s)
{
    const double w = (double)s->width, h = (double)s->height;
    const double shrink = fmin(1, 1024 / fmax(1, fmax(w, h)));
    return w * h * shrink * shrink;
}

/* Returns the mean over the slides that can be scored; the largest number if none was opened. */
static double mean_picture(const struct hrf_forecast *f)
{
    double sum = 0;
    for (size_t i = 0; i < f->survey.n_items; i++)
        if (f->survey.items[i].kind == HRF_SLIDE_IS_READY)
            sum += picture_pixels(&f->survey.items[i]);
    return f->n_ready > 0 ? sum / (double)f->n_ready : 1024.0 * 1024.0;
}

static double slides_to_score(const struct hrf_preview *preview, const struct hrf_forecast *f)
{
    const double opened = f->n_opened > 0 ? (double)f->n_ready / (double)f->n_opened : 0;
    double n = opened * (double)f->n_untiled;
    int64_t last = 0;
    for (size_t i = 0; i < preview->n_tasks; i++) {
        const struct hrf_preview_task *t = &preview->tasks[i];
        if (t->row.kind == HRF_TASK_INFER && t->row.n_patches > 0 &&
            t->reason != HRF_PREVIEW_CACHED && t->row.slide_id != last) {
            last = t->row.slide_id;
            n++;
        }
    }
    return n;
}

static void predict_bytes(const struct hrf_workflow *w, const struct hrf_preview *preview,
                          const struct hrf_forecast_rates *rates, struct hrf_forecast *f)
{
    /* Bytes that runs of the demo's cohort and of real slides have left. A tile plan is kept in
     * jobs/, in plans/ and in run.db, a record of scores in jobs/ and in run.db. */
    const double plan_copies = 3, record_copies = 2, per_record = 1024, patch_in_plan = 8;
    const double plan_pixel = f->picture_bytes > 0 ? f->picture_bytes : 1.2;
    const double heatmap_pixel = 0.72 * plan_pixel, page_pixel = 0.1 * plan_pixel;
    const double csv_patch = 62, geojson_patch = 70, job_files = 16384;
    const bool embeds = w->model.output == HRF_OUTPUT_EMBEDDING;
    const double patches = hrf_forecast_patches(w, f), n_slides = slides_to_score(preview, f);
    const double n_records = n_slides * (double)hrf_workflow_n_variants(w),
                 picture = mean_picture(f);
    const double width = embeds ? (double)rates->embedding_width : (double)w->model.classes.n_items;
    const double untiled = f->n_opened > 0
                               ? (double)f->n_untiled * (double)f->n_ready / (double)f->n_opened
                               : 0;
    const double n_jobs = ceil(patches / (double)hrf_workflow_n_variants(w) /
                               (double)w->executor.patches_per_job);
    double bytes[HRF_N_ROOMS] = { 0 };
    bytes[HRF_ROOM_TILING] = plan_copies *
                             (untiled * picture * plan_pixel + f->patches * patch_in_plan);
    bytes[HRF_ROOM_SCORES] = record_copies * (n_records * per_record +
                                              patches * width * (double)sizeof(float)) +
                             (n_jobs + (double)f->n_untiled) * job_files;
    if (embeds)
        bytes[HRF_ROOM_EMBEDDINGS] = patches *
                                     (width * (w->features.type == HRF_FEATURES_FP16 ? 2.0 : 4.0) +
                                      2 * (double)sizeof(int64_t));
    else
        bytes[HRF_ROOM_TABLES] = patches * ((w->report.csv ? csv_patch : 0) +
                                            (w->report.geojson ? geojson_patch : 0));
    if (w->report.heatmaps && !embeds)
        bytes[HRF_ROOM_PICTURES] = n_records * picture * heatmap_pixel;
    bytes[HRF_ROOM_REPORT] = w->report.html ? n_records * picture * page_pixel + 1e5 : 1e5;
    for (int i = 0; i < HRF_N_ROOMS; i++)
        f->n_bytes[i] = llround(bytes[i]);
}

/* ---- all of it ---- */

static void count_known(const struct hrf_workflow *w, const struct hrf_preview *p,
                        struct hrf_forecast *f)
{
    bool is_calibrated = true;
    for (size_t i = 0; i < p->n_tasks; i++) {
        const struct hrf_preview_task *t = &p->tasks[i];
        const bool is_open = t->reason != HRF_PREVIEW_CACHED;
        if (t->row.kind == HRF_TASK_INFER && is_open && t->row.n_patches > 0) {
            f->known_patches += t->row.n_patches;
            f->known_images += whole_batches(w, t->row.n_patches);
        }
        is_calibrated &= !(t->row.kind == HRF_TASK_INFER && t->reason == HRF_PREVIEW_UNKNOWN &&
                           strcmp(t->row.precision, "int8") == 0);
        f->n_trainings += t->row.kind == HRF_TASK_TRAIN && is_open;
    }
    f->n_calibrating = is_calibrated || p->brings_scales ? 0 : w->calibrate.samples;
}

enum hrf_status hrf_forecast_make(const struct hrf_workflow *w, const char *directory,
                                  const struct hrf_preview *preview,
                                  const struct hrf_forecast_rates *rates, struct hrf_forecast *out,
                                  struct hrf_error *err)
{
    static const struct hrf_forecast_rates none = { .from = "" };
    const struct hrf_forecast_rates *known = rates != NULL ? rates : &none;
    HRF_AUTO_RELEASE(hrf_forecast) f = { .n_untiled = 0 };
    choose_slides(preview, &f);
    count_known(w, preview, &f);
    HRF_TRY(open_headers(w, &f, err));
    HRF_TRY(look_at_sample(w, &f, err));
    HRF_TRY(predict_time(w, directory, preview, known, &f, err));
    predict_bytes(w, preview, known, &f);
    *out = f;
    f = (struct hrf_forecast){ .n_untiled = 0 };
    return HRF_OK;
}
