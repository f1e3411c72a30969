/* forecast.c - see forecast.h. The looks at slides run side by side; a lock guards which is next,
 * and each result belongs to the thread that took it. */
#include "orchestrator/run/forecast.h"

#include "base/clock.h"
#include "base/own_process.h"
#include "orchestrator/run/run_private.h"
#include "tiler/grid/grid.h"
#include "tiler/plan/estimate.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

enum { THREADS_PER_CORE = 4, MOST_THREADS = 64 }; /* headers wait for disks most of the time */

void hrf_forecast_release(struct hrf_forecast *f)
{
    hrf_survey_release(&f->survey);
    hrf_free(f->rows.items); /* what they hold is the preview's */
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
        hrf_grid_cover_edge(&grid, (enum hrf_grid_edge)w->tiler.patch.edge, NULL) != HRF_OK)
        return 0;
    return (int64_t)grid.columns * grid.rows;
}

double hrf_forecast_patches(const struct hrf_workflow *w, const struct hrf_forecast *f)
{
    return (double)f->known_patches + f->patches * (double)hrf_workflow_n_variants(w);
}

/* Images that the network computes for n patches of a slide. */
static int64_t whole_batches(const struct hrf_workflow *w, int64_t n)
{
    const bool is_whole = w->engine.device == HRF_DEVICE_CUDA; /* hrf_worker_batch() */
    const int64_t batch = w->tiler.mode == HRF_TILER_SLIDE ? 1
                          : is_whole                       ? w->engine.batch
                                                           : hrf_job_batch(w->engine.batch, n);
    return (n + batch - 1) / batch * batch;
}

/* ---- headers ---- */

/* The slides that a run would tile, evenly thinned out to as many as are opened. */
static enum hrf_status choose_slides(const struct hrf_preview *p, struct hrf_forecast *f,
                                     struct hrf_error *err)
{
    for (size_t i = 0; i < p->n_tasks; i++)
        f->n_untiled += p->tasks[i].row.kind == HRF_TASK_TILE &&
                        p->tasks[i].reason != HRF_PREVIEW_CACHED;
    f->n_opened = f->n_untiled < HRF_FORECAST_HEADERS ? f->n_untiled : HRF_FORECAST_HEADERS;
    f->rows.items = hrf_calloc((size_t)f->n_opened + 1, sizeof *f->rows.items);
    HRF_CHECK_MEMORY(f->rows.items != NULL, err, "no memory for %lld slides",
                     (long long)f->n_opened);
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
    return HRF_OK;
}

static enum hrf_status open_headers(const struct hrf_workflow *w, struct hrf_forecast *f,
                                    struct hrf_error *err)
{
    const int32_t wanted = hrf_process_cpu_count() * THREADS_PER_CORE;
    HRF_TRY(hrf_survey_make(&f->rows, w->dataset.mpp, wanted < MOST_THREADS ? wanted : MOST_THREADS,
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
    size_t slide; /* place in rows and survey */
    bool is_known;
    struct hrf_tile_estimate estimate;
};
struct looks {
    const struct hrf_workflow *workflow;
    const struct hrf_job_tiler *params;
    const struct hrf_forecast *forecast;
    struct look items[HRF_FORECAST_LOOKS];
    int n, next;
    pthread_mutex_t lock;
};

/* A slide that cannot be used gives no patches, which is known, too. One that would take long to
 * look at is not known. */
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

static void *look_at_some(void *context)
{
    struct looks *looks = context;
    for (;;) {
        pthread_mutex_lock(&looks->lock);
        const int i = looks->next;
        looks->next += i < looks->n;
        pthread_mutex_unlock(&looks->lock);
        if (i >= looks->n)
            return NULL;
        look_at(looks, &looks->items[i]);
    }
}

/* The caller is one of the threads; those that cannot be started are missed by nobody. */
static void look_side_by_side(struct looks *looks)
{
    pthread_t threads[HRF_FORECAST_LOOKS];
    int n = 0;
    const int wanted = hrf_process_cpu_count() < looks->n ? hrf_process_cpu_count() : looks->n;
    pthread_mutex_init(&looks->lock, NULL);
    while (n + 1 < wanted && pthread_create(&threads[n], NULL, look_at_some, looks) == 0)
        n++;
    look_at_some(looks);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&looks->lock);
}

/* The part of the grid that is tissue is the ratio of both sums over the slides that were looked
 * at. Its standard error is that of a ratio estimate, with the correction for a finite number of
 * slides (Cochran, Sampling Techniques, chapter 6). */
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
    HRF_AUTO(hrf_job_spec) spec = hrf_calloc(1, sizeof *spec); /* owns the texts of the settings */
    HRF_CHECK_MEMORY(spec != NULL, err, "no memory for the settings of tiling");
    HRF_TRY(run_fill_tiler(w, &spec->tiler, err));
    struct looks looks = { .workflow = w, .params = &spec->tiler, .forecast = f };
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
    look_side_by_side(&looks);
    f->look_seconds = hrf_clock_seconds() - start;
    estimate_patches(&looks, f);
    return HRF_OK;
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
    struct hrf_forecast f = { .n_untiled = 0 };
    enum hrf_status status = choose_slides(preview, &f, err);
    count_known(w, preview, &f);
    if (status == HRF_OK)
        status = open_headers(w, &f, err);
    if (status == HRF_OK)
        status = look_at_sample(w, &f, err);
    if (status == HRF_OK)
        status = run_forecast_time(w, directory, preview, rates != NULL ? rates : &none, &f, err);
    if (status == HRF_OK)
        run_forecast_bytes(w, preview, rates != NULL ? rates : &none, &f);
    if (status != HRF_OK) {
        hrf_forecast_release(&f);
        return status;
    }
    *out = f;
    return HRF_OK;
}
