/* infer.c - `hires-engine infer SPEC.json` and `observe SPEC.json`: the workers of infer and
 * calibrate jobs.
 *
 * For every task of the job: tile plan and slide in, class probabilities of its patches out (or
 * what every tensor held, in float32), committed as one record the moment they are complete. A
 * slide that cannot be read fails its own task only. SIGTERM and SIGUSR1 end the job after the
 * present batch with exit code 75.
 */
#include "base/clock.h"
#include "base/crash.h"
#include "base/energy.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/path.h"
#include "base/process.h"
#include "calibrate/observe/codec.h"
#include "engine/backend/backend.h"
#include "engine/cli/cli.h"
#include "engine/cli/image.h"
#include "engine/cli/layout.h"
#include "engine/cli/ranks.h"
#include "engine/input/feed.h"
#include "engine/onnx/onnx.h"
#include "engine/run/calibrator.h"
#include "engine/run/class_map.h"
#include "schema/record/job.h"
#include "schema/record/scores.h"
#include "schema/record/sentinel.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_TRY_AGAIN = 75 }; /* EX_TEMPFAIL of sysexits.h */
enum { BATCHES_AHEAD = 4 };   /* in the ring: two readers never wait for one batch */
enum { PART_MS = 60000 };     /* how much work is lost at most when a job is killed */

static volatile sig_atomic_t stop_requested;

static bool is_stopping(void)
{
    return stop_requested != 0;
}

static void request_stop(int signal_number)
{
    (void)signal_number;
    stop_requested = 1;
}

struct job {
    struct hrf_job_spec *spec;
    char *directory;
    struct hrf_graph *graph;
    struct hrf_calibration *calibration; /* int8 only */
    struct hrf_network *network; /* made for the first task, used by all of one patch size */
    int64_t size;
    double build_seconds;
    struct hrf_energy_meter energy; /* of the present task */
    char host[128];
    struct hrf_ranks *ranks; /* infer only */
};

static void job_release(struct job *job)
{
    hrf_ranks_destroy(job->ranks);
    hrf_network_destroy(job->network);
    hrf_graph_destroy(job->graph);
    hrf_calibration_destroy(job->calibration);
    hrf_job_spec_destroy(job->spec);
    hrf_free(job->directory);
}

static enum hrf_status load_model(struct job *job, struct hrf_error *err)
{
    const struct hrf_job_engine *engine = &job->spec->engine;
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n_bytes = 0;
    char sha256[HRF_HASH_HEX];
    HRF_TRY(hrf_file_read(engine->model_file, (size_t)2 << 30, &bytes, &n_bytes, err));
    HRF_TRY(hrf_hash_buffer(bytes, n_bytes, sha256, err));
    if (strcmp(sha256, engine->model_sha256) != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has changed since the run planned with it (SHA-256 %.12s..., "
                             "expected %.12s...); run again",
                             engine->model_file, sha256, engine->model_sha256);
    if (engine->scales != NULL)
        HRF_TRY(hrf_calibration_read(engine->scales, &job->calibration, err));
    return hrf_onnx_parse(bytes, n_bytes, engine->model_file, &job->graph, err);
}

/* A network that has no such map is scored without one; the log says why. */
static enum hrf_status add_class_map(struct hrf_graph *graph, struct hrf_error *err)
{
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_status status = hrf_class_map_add(graph, &why);
    if (status == HRF_E_UNSUPPORTED) {
        hrf_log_warning("engine", "%s; slides get a score and no heatmap", why.text);
        return HRF_OK;
    }
    if (status != HRF_OK && err != NULL)
        *err = why;
    return status;
}

/* The graph as it is to be run on images of `size`. */
static enum hrf_status make_graph(const struct job *job, int64_t size, struct hrf_graph **out,
                                  struct hrf_error *err)
{
    const struct hrf_job_engine *engine = &job->spec->engine;
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_TRY(hrf_graph_copy(job->graph, &graph, err));
    HRF_TRY(hrf_engine_set_image_input(graph, engine->class_map ? 1 : engine->batch, size, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    HRF_TRY(hrf_engine_finish_with_probabilities(graph, engine->n_classes, err));
    if (engine->class_map)
        HRF_TRY(add_class_map(graph, err));
    *out = graph;
    graph = NULL;
    return HRF_OK;
}

static struct hrf_pixel_form pixel_form(const struct hrf_job_engine *engine)
{
    struct hrf_pixel_form form;
    for (int c = 0; c < 3; c++) {
        form.scale[c] = (float)(1 / (255 * engine->std[c]));
        form.shift[c] = (float)(-engine->mean[c] / engine->std[c]);
    }
    return form;
}

/* A device gets patches as bytes and normalises them itself: a quarter of the traffic. An observer
 * looks at floats, ranks are fed their parts, a slide that is one image is read into the input. */
static enum hrf_status choose_pixels(const struct job *job, const struct hrf_layout_plan *layout,
                                     const struct hrf_pixel_form *form,
                                     struct hrf_session_config *session, struct hrf_error *err)
{
    const struct hrf_backend_ops *ops = NULL;
    HRF_TRY(hrf_backend_choose(session->device, &ops, NULL, err));
    if (ops->device != NULL && job->spec->kind == HRF_JOB_INFER && !job->spec->engine.class_map &&
        hrf_layout_ranks(layout) == 1)
        session->pixels = form;
    return HRF_OK;
}

/* The session that is fed bytes; NULL: the network is fed floats. */
static struct hrf_session *pixel_session(const struct job *job)
{
    struct hrf_session *session = hrf_network_session(job->network);
    return session != NULL && hrf_session_takes_pixels(session) ? session : NULL;
}

/* A calibration looks at every tensor of one session; scoring may be shared out. */
static enum hrf_status create_network(struct job *job, const struct hrf_graph *graph,
                                      const struct hrf_calibrated *calibrated,
                                      struct hrf_error *err)
{
    const struct hrf_job_engine *engine = &job->spec->engine;
    const bool is_observed = job->spec->kind == HRF_JOB_CALIBRATE;
    const struct hrf_pixel_form form = pixel_form(engine);
    struct hrf_found_layout layout = { .is_chosen = false };
    struct hrf_network_config config = { .session = { .device = engine->device,
                                                      .precision = engine->precision,
                                                      .n_threads = (int32_t)engine->n_threads,
                                                      .memory_limit_bytes = engine->memory_bytes,
                                                      .ranges = calibrated->ranges,
                                                      .n_ranges = calibrated->n_ranges,
                                                      .keep = calibrated->keep,
                                                      .keep_reasons = calibrated->keep_reasons,
                                                      .n_keep = calibrated->n_keep },
                                         .layout = &layout.plan };
    enum hrf_status status = hrf_layout_find(is_observed ? NULL : engine->layout, graph,
                                             &config.session, &layout, err);
    if (status == HRF_OK)
        status = choose_pixels(job, &layout.plan, &form, &config.session, err);
    if (status == HRF_OK)
        status = hrf_network_create(graph, &config, &job->network, err);
    hrf_found_layout_release(&layout);
    HRF_TRY(status);
    if (is_observed && hrf_network_session(job->network) == NULL)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "a calibration cannot look into an image in bands; calibrate with a "
                             "higher engine.memory or a smaller tiler.slide.size");
    return HRF_OK;
}

static enum hrf_status make_network(struct job *job, int64_t size, struct hrf_error *err)
{
    if (job->network != NULL && job->size == size)
        return HRF_OK;
    double start = hrf_clock_seconds();
    HRF_AUTO(hrf_graph) graph = NULL;
    struct hrf_calibrated calibrated = { .ranges = NULL };
    hrf_network_destroy(job->network);
    job->network = NULL;
    HRF_TRY(make_graph(job, size, &graph, err));
    if (job->calibration != NULL)
        HRF_TRY(hrf_calibrated_init(job->calibration, &calibrated, err));
    enum hrf_status status = create_network(job, graph, &calibrated, err);
    hrf_calibrated_release(&calibrated);
    HRF_TRY(status);
    if (hrf_network_notes(job->network)[0] != '\0')
        hrf_log_info("engine", "%s", hrf_network_notes(job->network));
    job->size = size;
    job->build_seconds += hrf_clock_seconds() - start;
    return HRF_OK;
}

static enum hrf_status read_tile_plan(const struct hrf_job_task *task, struct hrf_tile_plan **out,
                                      struct hrf_error *err)
{
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n_bytes = 0;
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    HRF_TRY(hrf_file_read(task->tile_plan, (size_t)1 << 30, &bytes, &n_bytes, err));
    HRF_TRY(hrf_tile_plan_decode(bytes, n_bytes, task->tile_plan, &plan, err));
    if (task->first_patch < 0 || task->n_patches < 0 ||
        task->first_patch > plan->n_patches - task->n_patches)
        return hrf_error_set(
            err, HRF_E_USER, "task %s asks for patches %lld..%lld of a tile plan that has %lld",
            task->id, (long long)task->first_patch,
            (long long)(task->first_patch + task->n_patches), (long long)plan->n_patches);
    *out = plan;
    plan = NULL;
    return HRF_OK;
}

static enum hrf_status new_scores(const struct job *job, const struct hrf_job_task *task,
                                  const struct hrf_tile_plan *plan, struct hrf_scores **out,
                                  struct hrf_error *err)
{
    const struct hrf_job_engine *engine = &job->spec->engine;
    HRF_AUTO(hrf_scores) scores = hrf_calloc(1, sizeof *scores);
    if (scores == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the scores");
    scores->task_key = hrf_strdup(task->key);
    scores->tile_plan = hrf_strdup(plan->hash);
    scores->precision = hrf_strdup(engine->precision);
    scores->device = hrf_strdup(hrf_network_device_name(job->network));
    scores->host = hrf_strdup(job->host);
    scores->first_patch = task->first_patch;
    scores->n_patches = task->n_patches;
    scores->n_classes = (int32_t)engine->n_classes;
    scores->probabilities = hrf_calloc((size_t)(task->n_patches * engine->n_classes),
                                       sizeof scores->probabilities[0]);
    if (scores->task_key == NULL || scores->tile_plan == NULL || scores->precision == NULL ||
        scores->device == NULL || scores->host == NULL || scores->probabilities == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the scores of %lld patches",
                             (long long)task->n_patches);
    *out = scores;
    scores = NULL;
    return HRF_OK;
}

/* A batch of square patches as a source (hrf_source); the rest of a short one is zeros, whose
 * outputs are dropped. */
struct batch_source {
    struct hrf_feed_batch batch;
    int64_t size; /* px */
};

static enum hrf_status read_batch(void *context, int32_t input, int64_t first, int64_t n,
                                  const struct hrf_box *box, float *out, struct hrf_error *err)
{
    const struct batch_source *s = context;
    const int64_t left = s->batch.n - first, there = left < 0 ? 0 : left < n ? left : n;
    struct hrf_array_source source = { s->batch.pixels,
                                       { 4, { s->batch.n, 3, s->size, s->size } } };
    const int64_t image = (box->hi[0] - box->lo[0]) * (box->hi[1] - box->lo[1]) * 3;
    if (there > 0)
        HRF_TRY(hrf_read_array(&source, input, first, there, box, out, err));
    memset(out + there * image, 0, (size_t)((n - there) * image) * sizeof *out);
    return HRF_OK;
}

/* A task of which rank 0 gathers the results. */
struct gathering {
    const struct job *job;
    const struct hrf_job_task *task;
    struct hrf_scores *scores;
    int64_t n_done; /* patches */
    double shown, kept;
};

/* What is done so far, for the next attempt should this one be cut short. A given-up attempt keeps
 * nothing: the next one goes on from what was there. */
static void keep_part(struct gathering *g)
{
    struct hrf_bytes record = { NULL, 0 };
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_FREE char *path = hrf_task_part_path(g->job->directory, g->task->id);
    g->kept = hrf_clock_seconds();
    if (path == NULL || g->n_done == 0 || hrf_fence_is_set(g->job->directory))
        return;
    hrf_crash_point("engine.part.before");
    if (hrf_scores_encode(g->scores, &record, &err) != HRF_OK ||
        hrf_file_write_atomic(path, record.data, record.n_bytes, &err) != HRF_OK)
        hrf_log_warning("engine", "what is done so far is not kept: %s", err.text);
    hrf_crash_point("engine.part.after");
    hrf_bytes_release(&record);
}

static double part_seconds(void)
{
    const char *text = getenv("HRF_PART_MS");
    return (text != NULL ? strtod(text, NULL) : PART_MS) / 1000;
}

static void take_result(void *context, const struct hrf_share_result *result)
{
    struct gathering *g = context;
    const size_t n_values = (size_t)g->scores->n_classes;
    for (int64_t i = 0; i < result->n; i++)
        memcpy(g->scores->probabilities + (size_t)result->patches[i] * n_values,
               result->values + (size_t)i * n_values, n_values * sizeof *result->values);
    g->scores->timing.compute += result->seconds;
    g->n_done += result->n;
    const double now = hrf_clock_seconds();
    if (now - g->shown >= 0.5) {
        hrf_task_progress_write(g->job->directory, g->task->id, g->n_done, g->task->n_patches);
        g->shown = now;
    }
    if (now - g->kept >= part_seconds())
        keep_part(g);
}

static void fill_pixels(struct hrf_session *session, const struct hrf_feed_batch *batch)
{
    const struct hrf_shape *shape = hrf_session_input_shape(session, 0);
    const size_t all = (size_t)hrf_shape_count(shape), image = all / (size_t)shape->dims[0];
    uint8_t *pixels = hrf_session_pixels(session);
    memcpy(pixels, batch->bytes, (size_t)batch->n * image);
    memset(pixels + (size_t)batch->n * image, 0, all - (size_t)batch->n * image);
}

/* The oldest batch that is under way comes out and is handed in. */
static enum hrf_status finish_batch(struct job *job, struct hrf_session *session,
                                    const struct hrf_feed_batch *batch, double *since,
                                    struct hrf_error *err)
{
    HRF_TRY(hrf_session_finish(session, err));
    const double now = hrf_clock_seconds();
    const struct hrf_share_result result = { .batch = batch->number,
                                             .n = batch->n,
                                             .patches = batch->patches,
                                             .values = hrf_session_output(session, 0),
                                             .seconds = now - *since };
    *since = now; /* the one after has waited till here */
    HRF_TRY(hrf_share_give(hrf_ranks_share(job->ranks), &result, err));
    hrf_ranks_count_batch(job->ranks);
    hrf_crash_point("engine.batch");
    return HRF_OK;
}

/* The same on a device: one batch crosses over while the one before is computed. */
static enum hrf_status score_pixels(struct job *job, struct hrf_session *session,
                                    struct hrf_feed *feed, struct hrf_error *err)
{
    struct hrf_feed_batch oldest = { .n = 0 }; /* under way; n 0: none is */
    double ticked = 0, since = 0;
    for (;;) {
        struct hrf_feed_batch batch;
        HRF_TRY(hrf_feed_next(feed, &batch, err));
        if (stop_requested)
            return hrf_error_set(err, HRF_E_AGAIN, "asked to stop by a signal");
        if (batch.n == 0)
            return oldest.n > 0 ? finish_batch(job, session, &oldest, &since, err) : HRF_OK;
        fill_pixels(session, &batch);
        const double start = hrf_clock_seconds();
        since = oldest.n > 0 ? since : start;
        HRF_TRY(hrf_session_start(session, err));
        if (oldest.n > 0)
            HRF_TRY(finish_batch(job, session, &oldest, &since, err));
        oldest = batch;
        if (start - ticked >= 0.5) {
            hrf_energy_tick(&job->energy);
            ticked = start;
        }
    }
}

/* Scores the batches that this rank gets. */
static enum hrf_status score_patches(struct job *job, struct hrf_feed *feed, struct hrf_error *err)
{
    double ticked = 0;
    if (pixel_session(job) != NULL)
        return score_pixels(job, pixel_session(job), feed, err);
    for (;;) {
        struct batch_source source = { .size = job->size };
        struct hrf_feed_batch *batch = &source.batch;
        HRF_TRY(hrf_feed_next(feed, batch, err));
        if (stop_requested)
            return hrf_error_set(err, HRF_E_AGAIN, "asked to stop by a signal");
        if (batch->n == 0)
            return HRF_OK;
        const double start = hrf_clock_seconds();
        HRF_TRY(hrf_network_run(job->network, read_batch, &source, err));
        const struct hrf_share_result result = { .batch = batch->number,
                                                 .n = batch->n,
                                                 .patches = batch->patches,
                                                 .values = hrf_network_output(job->network, 0),
                                                 .seconds = hrf_clock_seconds() - start };
        HRF_TRY(hrf_share_give(hrf_ranks_share(job->ranks), &result, err));
        hrf_ranks_count_batch(job->ranks);
        hrf_crash_point("engine.batch");
        if (start - ticked >= 0.5) {
            hrf_energy_tick(&job->energy);
            ticked = start;
        }
    }
}

/* A task's slide and patches, open and being read ahead; a slide that is one image is read
 * straight into the network's input instead and has no feed. */
struct source {
    struct hrf_tile_plan *plan;
    struct hrf_slide *slide;
    struct hrf_feed *feed;
    struct hrf_feed_times times; /* without a feed */
    int32_t n_threads;
};

static void source_release(struct source *source)
{
    hrf_feed_destroy(source->feed);
    hrf_slide_close(source->slide);
    hrf_tile_plan_destroy(source->plan);
}

static enum hrf_status open_source(struct job *job, const struct hrf_job_task *task,
                                   struct source *source, struct hrf_error *err)
{
    const struct hrf_job_engine *engine = &job->spec->engine;
    HRF_TRY(read_tile_plan(task, &source->plan, err));
    HRF_TRY(make_network(job, source->plan->patch_size, err));
    HRF_TRY(hrf_slide_open(task->slide_path, &source->slide, err));
    source->n_threads = engine->n_threads > 0 ? (int32_t)engine->n_threads
                                              : hrf_process_cpu_count();
    return HRF_OK;
}

/* share NULL: all batches are this process's. */
static enum hrf_status start_feed(const struct job *job, const struct hrf_job_task *task,
                                  struct hrf_share *share, struct source *source,
                                  struct hrf_error *err)
{
    const struct hrf_job_engine *engine = &job->spec->engine;
    struct hrf_feed_config config = { .slide = source->slide,
                                      .plan = source->plan,
                                      .first_patch = task->first_patch,
                                      .n_patches = task->n_patches,
                                      .batch = engine->batch,
                                      .raw = pixel_session(job) != NULL,
                                      .n_readers = source->n_threads,
                                      .n_ahead = BATCHES_AHEAD,
                                      .next = share != NULL ? hrf_share_next : NULL,
                                      .context = share };
    memcpy(config.mean, engine->mean, sizeof config.mean);
    memcpy(config.std, engine->std, sizeof config.std);
    return hrf_feed_create(&config, &source->feed, err);
}

/* The slide as one image, through the network. */
static enum hrf_status run_slide(struct job *job, const struct hrf_job_task *task,
                                 struct source *source, struct hrf_error *err)
{
    const struct hrf_job_engine *engine = &job->spec->engine;
    if (task->n_patches != 1)
        return hrf_error_set(err, HRF_E_USER,
                             "task %s asks for %lld patches where a slide is one image", task->id,
                             (long long)task->n_patches);
    const int32_t n_ranks = hrf_network_n_ranks(job->network);
    struct hrf_rows_config rows = { .slide = source->slide,
                                    .plan = source->plan,
                                    .patch = task->first_patch,
                                    .n_readers = (source->n_threads + n_ranks - 1) / n_ranks };
    struct hrf_image image;
    memcpy(rows.mean, engine->mean, sizeof rows.mean);
    memcpy(rows.std, engine->std, sizeof rows.std);
    hrf_image_init(&image, &rows);
    const enum hrf_status status = hrf_network_run(job->network, hrf_image_read, &image, err);
    source->times = image.times;
    hrf_image_release(&image);
    return status;
}

/* Each rank waits for its own part of the slide only. */
static enum hrf_status score_slide(struct job *job, const struct hrf_job_task *task,
                                   struct source *source, struct hrf_scores *scores,
                                   struct hrf_error *err)
{
    double start = hrf_clock_seconds();
    HRF_TRY(run_slide(job, task, source, err));
    const double all = hrf_clock_seconds() - start;
    scores->timing.compute = all - source->times.wait / hrf_network_n_ranks(job->network);
    memcpy(scores->probabilities, hrf_network_output(job->network, 0),
           (size_t)scores->n_classes * sizeof scores->probabilities[0]);
    hrf_crash_point("engine.batch");
    return hrf_image_keep_class_map(job->network, scores, err);
}

static void note_timing(struct job *job, const struct source *source, double start,
                        struct hrf_scores *scores)
{
    struct hrf_feed_times times = source->feed != NULL ? hrf_feed_times(source->feed)
                                                       : source->times;
    struct hrf_session_memory memory = hrf_network_memory(job->network);
    /* Added to what an earlier attempt left. */
    scores->timing.decode += times.decode;
    scores->timing.prepare += times.prepare;
    scores->timing.wait += times.wait;
    scores->timing.build += job->build_seconds; /* counted once, on the task that needed it */
    job->build_seconds = 0;
    scores->timing.total += hrf_clock_seconds() - start;
    scores->peak_memory_bytes = memory.activation_bytes + memory.weight_bytes +
                                memory.workspace_bytes;
    scores->peak_process_bytes = hrf_process_peak_memory();
    hrf_energy_tick(&job->energy);
    scores->energy_joules += job->energy.joules;
    scores->n_threads = scores->n_readers = source->n_threads;
}

/* Takes over what an earlier attempt left; *done [n_batches] is heap. A part that does not belong
 * to this task or cannot be read is not used: its patches are scored again. */
static enum hrf_status take_part(const struct source *source, int64_t batch, int64_t n_batches,
                                 struct gathering *g, bool **done, struct hrf_error *err)
{
    const struct hrf_job_task *task = g->task;
    const int64_t n_classes = g->scores->n_classes;
    HRF_AUTO_FREE char *bytes = NULL;
    HRF_AUTO(hrf_scores) part = NULL;
    size_t n_bytes = 0;
    struct hrf_error why = { .status = HRF_OK };
    if (task->partial == NULL || !hrf_path_exists(task->partial))
        return HRF_OK;
    if (hrf_file_read(task->partial, (size_t)1 << 32, &bytes, &n_bytes, &why) != HRF_OK ||
        hrf_scores_decode(bytes, n_bytes, task->partial, &part, &why) != HRF_OK ||
        strcmp(part->task_key, task->key) != 0 || part->n_patches != task->n_patches ||
        part->n_classes != n_classes) {
        hrf_log_warning("engine", "what an earlier attempt left is not used: %s",
                        why.text[0] != '\0' ? why.text : "it is of another task");
        return HRF_OK;
    }
    HRF_AUTO_FREE int64_t *order = hrf_alloc_array((size_t)task->n_patches + 1, sizeof *order);
    bool *found = hrf_calloc((size_t)n_batches + 1, sizeof *found);
    *done = found;
    if (order == NULL || found == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for %lld batches", (long long)n_batches);
    HRF_TRY(hrf_feed_order(source->plan, task->first_patch, task->n_patches, order, err));
    for (int64_t b = 0; b < n_batches; b++) {
        const int64_t end = (b + 1) * batch < task->n_patches ? (b + 1) * batch : task->n_patches;
        found[b] = true;
        for (int64_t k = b * batch; k < end; k++)
            found[b] &= !isnan(part->probabilities[order[k] * n_classes]);
        for (int64_t k = b * batch; k < end && found[b]; k++, g->n_done++)
            memcpy(g->scores->probabilities + order[k] * n_classes,
                   part->probabilities + order[k] * n_classes,
                   (size_t)n_classes * sizeof *part->probabilities);
    }
    g->scores->timing = part->timing;
    g->scores->energy_joules = part->energy_joules;
    hrf_log_info("engine", "%lld of %lld patches were scored by an earlier attempt",
                 (long long)g->n_done, (long long)task->n_patches);
    return HRF_OK;
}

/* Rank 0 waits for the others' batches too; with a signal it keeps what there is. */
static enum hrf_status gather(struct job *job, struct source *source, struct gathering *g,
                              struct hrf_error *err)
{
    struct hrf_share *share = hrf_ranks_share(job->ranks);
    const int64_t batch = job->spec->engine.batch;
    const int64_t n_batches = (g->task->n_patches + batch - 1) / batch;
    HRF_AUTO_FREE bool *done = NULL;
    if (g->scores != NULL)
        HRF_TRY(take_part(source, batch, n_batches, g, &done, err));
    const struct hrf_share_task task = { .n_batches = n_batches,
                                         .batch = batch,
                                         .n_values = job->spec->engine.n_classes,
                                         .done = done,
                                         .sink = take_result,
                                         .context = g };
    HRF_TRY(hrf_share_begin(share, &task, err));
    enum hrf_status status = start_feed(job, g->task, share, source, err);
    if (status == HRF_OK)
        status = score_patches(job, source->feed, err);
    if (status == HRF_OK)
        return hrf_share_end(share, is_stopping, err);
    if (status != HRF_E_AGAIN && err != NULL)
        hrf_share_fail(share, status, err->text);
    return status;
}

static enum hrf_status score_shared(struct job *job, const struct hrf_job_task *task,
                                    struct source *source, struct hrf_scores *scores,
                                    struct hrf_error *err)
{
    struct hrf_share *share = hrf_ranks_share(job->ranks);
    struct gathering g = {
        .job = job, .task = task, .scores = scores, .kept = hrf_clock_seconds()
    };
    for (int64_t i = 0; scores != NULL && i < task->n_patches * scores->n_classes; i++)
        scores->probabilities[i] = NAN;
    const enum hrf_status status = gather(job, source, &g, err);
    if (status != HRF_E_AGAIN || scores == NULL)
        return status;
    static const struct hrf_share_task nothing = { .n_batches = 0 };
    struct hrf_error ignored;
    hrf_share_stop(share);
    hrf_share_gather(share);
    if (hrf_share_begin(share, &nothing, &ignored) == HRF_OK) /* what still comes is too late */
        keep_part(&g);
    return status;
}

/* `record` stays empty on every rank but 0. */
static enum hrf_status score_task(struct job *job, const struct hrf_job_task *task,
                                  struct hrf_bytes *record, struct hrf_error *err)
{
    const bool is_root = hrf_ranks_is_root(job->ranks), is_image = job->spec->engine.class_map;
    double start = hrf_clock_seconds();
    struct source source = { .plan = NULL };
    hrf_energy_start(&job->energy, NULL);
    HRF_AUTO(hrf_scores) scores = NULL;
    if (!is_root && is_image) /* one image: nothing to share */
        return HRF_OK;
    enum hrf_status status = open_source(job, task, &source, err);
    if (status == HRF_OK && is_root)
        status = new_scores(job, task, source.plan, &scores, err);
    if (status == HRF_OK)
        status = is_image ? score_slide(job, task, &source, scores, err)
                          : score_shared(job, task, &source, scores, err);
    if (status == HRF_OK && is_root)
        note_timing(job, &source, start, scores);
    source_release(&source);
    HRF_TRY(status);
    return is_root ? hrf_scores_encode(scores, record, err) : HRF_OK;
}

static enum hrf_status observe_patches(struct job *job, const struct hrf_job_task *task,
                                       struct hrf_feed *feed, struct hrf_calibrator *calibrator,
                                       struct hrf_error *err)
{
    for (int64_t done = 0; done < task->n_patches;) {
        struct batch_source source = { .size = job->size };
        HRF_TRY(hrf_feed_next(feed, &source.batch, err));
        calibrator->n_images = source.batch.n; /* the rest of a short batch is not looked at */
        HRF_TRY(hrf_network_run(job->network, read_batch, &source, err));
        hrf_crash_point("engine.observe.batch");
        done += source.batch.n;
        hrf_task_progress_write(job->directory, task->id, done, task->n_patches);
        if (stop_requested)
            return hrf_error_set(err, HRF_E_AGAIN, "asked to stop by a signal");
    }
    return HRF_OK;
}

static enum hrf_status observe_slide(struct job *job, const struct hrf_job_task *task,
                                     struct source *source, struct hrf_calibrator *calibrator,
                                     struct hrf_error *err)
{
    calibrator->n_images = 1;
    return run_slide(job, task, source, err);
}

static enum hrf_status observe_task(struct job *job, const struct hrf_job_task *task,
                                    struct hrf_bytes *record, struct hrf_error *err)
{
    struct source source = { .plan = NULL };
    struct hrf_observations seen = { .items = NULL };
    struct hrf_calibrator calibrator = { .observations = &seen };
    char *text = NULL;
    enum hrf_status status = open_source(job, task, &source, err);
    if (status == HRF_OK && !job->spec->engine.class_map)
        status = start_feed(job, task, NULL, &source, err);
    if (status == HRF_OK) {
        struct hrf_session *session = hrf_network_session(job->network);
        calibrator.batch = hrf_session_input_shape(session, 0)->dims[0];
        hrf_calibrator_watch(session, &calibrator);
        status = source.feed != NULL ? observe_patches(job, task, source.feed, &calibrator, err)
                                     : observe_slide(job, task, &source, &calibrator, err);
        hrf_session_observe(session, NULL, NULL);
    }
    if (status == HRF_OK)
        status = hrf_observations_encode(&seen, &text, err);
    if (status == HRF_OK)
        *record = (struct hrf_bytes){ (unsigned char *)text, strlen(text) };
    hrf_observations_release(&seen);
    source_release(&source);
    return status;
}

/* Faults of the job rather than of the task: the whole job stops and may be tried again. */
static bool ends_the_job(enum hrf_status status)
{
    return status == HRF_E_AGAIN || status == HRF_E_NOSPACE || status == HRF_E_BUG;
}

static enum hrf_status do_task(struct job *job, const struct hrf_job_task *task,
                               struct hrf_error *err)
{
    struct hrf_bytes record = { NULL, 0 };
    struct hrf_task_status outcome = { .outcome = HRF_TASK_DONE };
    struct hrf_error cause = { .status = HRF_OK };
    double start = hrf_clock_seconds();
    hrf_crash_point("engine.task.begin");
    enum hrf_status status = job->spec->kind == HRF_JOB_CALIBRATE
                                 ? observe_task(job, task, &record, &cause)
                                 : score_task(job, task, &record, &cause);
    if (ends_the_job(status)) {
        if (err != NULL)
            *err = cause;
        return status;
    }
    if (job->ranks != NULL && !hrf_ranks_is_root(job->ranks)) {
        if (status != HRF_OK) /* rank 0 was told, or fails by the same */
            hrf_log_warning("engine", "task %s: %s", task->id, cause.text);
        return HRF_OK;
    }
    if (status != HRF_OK) {
        HRF_AUTO_FREE char *name = hrf_text_printable(task->slide_name);
        hrf_log_error("engine", "%s: %s", name != NULL ? name : task->id, cause.text);
        outcome.outcome = HRF_TASK_FAILED;
        outcome.retryable = status != HRF_E_USER && status != HRF_E_UNSUPPORTED;
        outcome.reason = hrf_strdup(cause.text);
    }
    outcome.seconds = hrf_clock_seconds() - start;
    hrf_crash_point("engine.task.before_commit");
    status = hrf_task_commit(job->directory, task->id, record.data, record.n_bytes, &outcome, err);
    hrf_crash_point("engine.task.after_commit");
    hrf_bytes_release(&record);
    hrf_task_status_release(&outcome);
    return status;
}

static enum hrf_status do_job(struct job *job, const char *spec_path, enum hrf_job_kind kind,
                              struct hrf_error *err)
{
    job->directory = hrf_path_directory(spec_path);
    if (job->directory == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    hrf_process_host_name(job->host, sizeof job->host);
    HRF_TRY(hrf_job_spec_read(spec_path, &job->spec, err));
    if (job->spec->kind != kind)
        return hrf_error_set(err, HRF_E_USER, "'%s' is the spec of a job of kind '%s', not '%s'",
                             spec_path, hrf_job_kind_name(job->spec->kind),
                             hrf_job_kind_name(kind));
    const struct hrf_job_engine *engine = &job->spec->engine;
    if (kind == HRF_JOB_INFER)
        HRF_TRY(hrf_ranks_create(job->directory, engine->n_ranks, &job->ranks, err));
    HRF_TRY(hrf_engine_check_request(engine->device, engine->precision, NULL, err));
    HRF_TRY(hrf_engine_check_device(engine->device, err));
    double start = hrf_clock_seconds();
    HRF_TRY(load_model(job, err));
    job->build_seconds = hrf_clock_seconds() - start;
    for (size_t i = 0; i < job->spec->n_tasks; i++) {
        if (stop_requested)
            return hrf_error_set(err, HRF_E_AGAIN, "asked to stop by a signal");
        HRF_TRY(do_task(job, &job->spec->tasks[i], err));
    }
    return HRF_OK;
}

/* Into this rank's record; a rank that cannot go on ends all. Returns the exit code: of ranks that
 * were asked to stop only rank 0 says so, when it has kept what there is; the starter of the ranks
 * would end it for another's exit code. */
static int end_rank(struct job *job, enum hrf_status status, int code, const struct hrf_error *err)
{
    if (job->ranks == NULL || status == HRF_OK) {
        if (job->ranks != NULL)
            hrf_ranks_tell_end(job->ranks, HRF_RANK_DONE, 0, "");
        return code;
    }
    if (status == HRF_E_AGAIN && stop_requested) {
        hrf_ranks_tell_end(job->ranks, HRF_RANK_STOPPED, code, "");
        return hrf_ranks_is_root(job->ranks) ? code : 0;
    }
    hrf_ranks_tell_end(job->ranks, HRF_RANK_FAILED, code, err->text);
    hrf_ranks_abort(job->ranks, err->text);
    return code;
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    const struct hrf_option options[] = { { NULL } };
    struct hrf_args args = hrf_args_parse(HRF_ENGINE_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct sigaction action = { .sa_handler = request_stop };
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    struct job job = { .spec = NULL };
    struct hrf_error err = { .status = HRF_OK };
    const enum hrf_status status = do_job(
        &job, args.operands[0], command == &hrf_engine_observe ? HRF_JOB_CALIBRATE : HRF_JOB_INFER,
        &err);
    int code = status == HRF_OK ? 0 : hrf_engine_fail(command->name, &err);
    if (status == HRF_E_AGAIN || status == HRF_E_NOSPACE || status == HRF_E_NOMEM)
        code = EXIT_TRY_AGAIN;
    code = end_rank(&job, status, code, &err);
    job_release(&job);
    return code;
}

const struct hrf_command hrf_engine_infer = {
    .name = "infer",
    .operands = "SPEC.json",
    .summary = "score the patches of a job (started by hires-flow)",
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};

const struct hrf_command hrf_engine_observe = {
    .name = "observe",
    .operands = "SPEC.json",
    .summary = "note what tensors hold on the patches of a job (started by hires-flow)",
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
