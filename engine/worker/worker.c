/* worker.c - the job's model made ready, and the slide and patches of a task. */
#include "engine/worker/worker.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/own_process.h"
#include "engine/backend/backend.h"
#include "engine/input/normalise.h"
#include "engine/input/plan_readers.h"
#include "engine/onnx/onnx.h"
#include "engine/planning/known_machine.h"
#include "engine/planning/request.h"
#include "engine/run/agree.h"
#include "engine/run/calibrator.h"
#include "engine/run/class_map.h"
#include "engine/worker/slide_source.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { BATCHES_AHEAD = 4 }; /* slots of the ring: two readers never wait for the same batch */

static volatile sig_atomic_t stop_requested;

bool hrf_worker_is_stopping(void)
{
    return stop_requested != 0;
}

void hrf_worker_stop(int signal_number)
{
    (void)signal_number;
    stop_requested = 1;
}

void hrf_worker_release(struct hrf_worker *job)
{
    hrf_meters_release(&job->meters);
    hrf_network_destroy(job->network);
    hrf_smoothing_destroy(job->smoothing);
    hrf_found_layout_release(&job->layout);
    hrf_ranks_destroy(job->ranks);
    hrf_graph_destroy(job->graph);
    hrf_calibration_destroy(job->calibration);
    hrf_tile_plan_destroy(job->plan);
    hrf_job_spec_destroy(job->spec);
    hrf_free(job->directory);
}

enum hrf_status hrf_worker_load_model(struct hrf_worker *job, struct hrf_error *err)
{
    const struct hrf_job_engine *engine = &job->spec->engine;
    char sha256[HRF_HASH_HEX] = "";
    HRF_AUTO(hrf_graph) graph = NULL;
    const enum hrf_status status = hrf_onnx_read_named(engine->model_file, sha256, &graph, err);
    /* First: a model that has changed may be one that cannot be read. */
    if (sha256[0] != '\0' && strcmp(sha256, engine->model_sha256) != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has changed since the run planned with it (SHA-256 %.12s..., "
                             "expected %.12s...); run again",
                             engine->model_file, sha256, engine->model_sha256);
    HRF_TRY(status);
    if (engine->scales != NULL && job->calibration == NULL)
        HRF_TRY(hrf_calibration_read(engine->scales, &job->calibration, err));
    job->graph = graph;
    graph = NULL;
    return HRF_OK;
}

/* A network for which no such map can be made is scored without one; the log says why. */
static enum hrf_status add_class_map(struct hrf_graph *graph, struct hrf_error *err)
{
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_status status = hrf_class_map_add(graph, &why);
    if (status == HRF_E_UNSUPPORTED) {
        hrf_log_warning("engine", "%s; slides get a score but no heatmap", why.text);
        return HRF_OK;
    }
    if (status != HRF_OK && err != NULL)
        *err = why;
    return status;
}

/* The graph as it is to be run on images of `size`. */
static enum hrf_status make_graph(struct hrf_worker *job, int64_t size, struct hrf_graph **out,
                                  struct hrf_error *err)
{
    const struct hrf_job_engine *engine = &job->spec->engine;
    HRF_AUTO(hrf_graph) graph = NULL;
    if (job->graph == NULL)
        HRF_TRY(hrf_worker_load_model(job, err));
    HRF_TRY(hrf_graph_copy(job->graph, &graph, err));
    hrf_engine_set_bounds(graph, engine->max_memory_bytes, engine->max_operations);
    HRF_TRY(hrf_engine_set_image_input(graph, engine->class_map ? 1 : engine->batch, size, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    job->n_values = engine->n_classes;
    HRF_TRY(engine->embedding
                ? hrf_engine_check_embedding(graph, &job->n_values, err)
                : hrf_engine_finish_scores(graph, engine->n_classes, engine->activation, err));
    if (engine->class_map)
        HRF_TRY(add_class_map(graph, err));
    HRF_MOVE(*out, graph);
    return HRF_OK;
}

/* A device gets patches as bytes and normalises them itself, which is a quarter of the traffic. In
 * host memory the readers convert to the type that the network computes in. Observers need floats,
 * ranks read their own parts, and a slide that is one image is read into the input directly. */
static enum hrf_status choose_input(const struct hrf_worker *job,
                                    const struct hrf_layout_plan *layout,
                                    const struct hrf_pixel_form *form,
                                    struct hrf_session_config *session, struct hrf_error *err)
{
    const struct hrf_backend_ops *ops = NULL;
    HRF_TRY(hrf_backend_choose(session->device, &ops, NULL, err));
    if (job->spec->kind != HRF_JOB_INFER || job->spec->engine.class_map ||
        hrf_layout_ranks(layout) != 1)
        return HRF_OK;
    session->pixels = ops->device != NULL ? form : NULL;
    session->narrow_input = ops->device == NULL;
    return HRF_OK;
}

struct hrf_session *hrf_worker_narrow_session(const struct hrf_worker *job)
{
    struct hrf_session *session = hrf_network_session(job->network);
    struct hrf_quantization unused;
    return session != NULL && hrf_session_input_type(session, &unused) != HRF_F32 ? session : NULL;
}

/* The session that is fed bytes; NULL: floats are fed. */
struct hrf_session *hrf_worker_pixel_session(const struct hrf_worker *job)
{
    struct hrf_session *session = hrf_network_session(job->network);
    return session != NULL && hrf_session_takes_pixels(session) ? session : NULL;
}

/* A calibration observes every tensor of one session. Ranks that share the patches each run the
 * whole network. */
static bool is_alone(const struct hrf_worker *job)
{
    return job->spec->kind == HRF_JOB_CALIBRATE ||
           (job->ranks != NULL && hrf_ranks_all(job->ranks) != NULL);
}

static enum hrf_status create_network(struct hrf_worker *job, const struct hrf_graph *graph,
                                      const struct hrf_calibrated *calibrated,
                                      struct hrf_error *err)
{
    const struct hrf_job_engine *engine = &job->spec->engine;
    const bool is_observed = job->spec->kind == HRF_JOB_CALIBRATE;
    const struct hrf_pixel_form form = hrf_normalise_form(engine->mean, engine->std);
    struct hrf_found_layout layout = { .is_chosen = false };
    struct hrf_network_config config = { .session = { .device = engine->device,
                                                      .precision = engine->precision,
                                                      .n_threads = (int32_t)engine->n_threads,
                                                      .memory_limit_bytes = engine->memory_bytes,
                                                      .ranges = calibrated->ranges,
                                                      .n_ranges = calibrated->n_ranges,
                                                      .keep = calibrated->keep,
                                                      .keep_reasons = calibrated->keep_reasons,
                                                      .n_keep = calibrated->n_keep,
                                                      .every_tensor = is_observed },
                                         .layout = &layout.plan };
    enum hrf_status status = HRF_OK;
    struct hrf_machine gpu_links = { .n_links = 0 };
    if (hrf_known_gpu_links(NULL, &gpu_links))
        config.session.gpu_links = &gpu_links;
    if (job->ranks != NULL && hrf_ranks_group(job->ranks) != NULL) {
        config.layout = &job->layout.plan;
        config.comm = hrf_ranks_group(job->ranks);
        config.session.cutting = job->cutting;
    } else {
        status = hrf_layout_find(is_alone(job) ? NULL : engine->layout, graph, &config.session,
                                 NULL, &layout, err);
    }
    if (status == HRF_OK)
        status = choose_input(job, config.layout, &form, &config.session, err);
    if (status == HRF_OK)
        status = hrf_network_create(graph, &config, &job->network, err);
    hrf_found_layout_release(&layout);
    HRF_TRY(status);
    hrf_smoothing_destroy(job->smoothing);
    job->smoothing = NULL;
    if (is_observed)
        HRF_TRY(hrf_smoothing_create(graph, &config.session, &job->smoothing, err));
    if (is_observed && hrf_network_session(job->network) == NULL)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "tensors cannot be observed if an image is processed in bands; "
                             "calibrate with a higher engine.memory or a smaller tiler.slide.size");
    return HRF_OK;
}

/* Logs what this rank computes on, with the version of the GPU's driver. */
static void attach_meters(struct hrf_worker *job)
{
    char words[512], serves[sizeof job->identity.driver];
    hrf_meters_attach(&job->meters, job->network, hrf_ranks_is_first_on_node(job->ranks));
    const char *driver = hrf_meters_driver(&job->meters);
    memcpy(serves, job->identity.driver, sizeof serves);
    if (driver[0] != '\0' && strncmp(serves, "CUDA", 4) == 0) /* not for the second network */
        snprintf(job->identity.driver, sizeof job->identity.driver, "%.32s (%.24s)", driver,
                 serves);
    hrf_device_identity_words(&job->identity, words, sizeof words);
    hrf_log_info("engine", "%s: %s", hrf_network_device_name(job->network), words);
}

static enum hrf_status make_network(struct hrf_worker *job, int64_t size, struct hrf_error *err)
{
    if (job->network != NULL && job->size == size)
        return HRF_OK;
    double start = hrf_clock_seconds();
    HRF_AUTO(hrf_graph) graph = NULL;
    struct hrf_calibrated calibrated = { .ranges = NULL };
    hrf_meters_release(&job->meters);
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
    if (job->ranks != NULL)
        attach_meters(job);
    hrf_graph_destroy(
        job->graph); /* in float32; computed again if the size of the images changes */
    job->graph = NULL;
    hrf_graph_destroy(graph);
    graph = NULL;
    hrf_memory_trim();
    job->size = size;
    job->build_seconds += hrf_clock_seconds() - start;
    return HRF_OK;
}

/* Decodes a tile plan record. A plan that is damaged or another's may be right at the next try: the
 * orchestrator writes it anew then. The sample of a calibrate task is a plan of the task's own;
 * infer tasks share their slide's. */
static enum hrf_status decode_tile_plan(const struct hrf_worker *job,
                                        const struct hrf_job_task *task, struct hrf_tile_plan **out,
                                        struct hrf_error *err)
{
    struct hrf_record_identity expected = task->identity;
    if (job->spec->kind == HRF_JOB_INFER)
        expected.task[0] = '\0';
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n_bytes = 0;
    HRF_TRY(hrf_file_read(task->tile_plan, (size_t)1 << 30, &bytes, &n_bytes, err));
    if (hrf_tile_plan_decode(bytes, n_bytes, &expected, task->tile_plan, out, err) != HRF_OK)
        return hrf_error_wrap(err, HRF_E_EXTERNAL, "tile plan");
    return HRF_OK;
}

/* True if `task` answers the same tile plan as `last`: it is decoded once for all shards. */
static bool has_same_plan(const struct hrf_job_task *task, const struct hrf_job_task *last,
                          enum hrf_job_kind kind)
{
    return last != NULL && strcmp(task->tile_plan, last->tile_plan) == 0 &&
           strcmp(task->identity.slide, last->identity.slide) == 0 &&
           strcmp(task->identity.plan, last->identity.plan) == 0 &&
           (kind == HRF_JOB_INFER || task == last);
}

/* *out belongs to the worker and is valid until the next call. */
static enum hrf_status read_tile_plan(struct hrf_worker *job, const struct hrf_job_task *task,
                                      const struct hrf_tile_plan **out, struct hrf_error *err)
{
    if (!has_same_plan(task, job->plan_of, job->spec->kind)) {
        hrf_tile_plan_destroy(job->plan);
        job->plan = NULL;
        job->plan_of = NULL;
        HRF_TRY(decode_tile_plan(job, task, &job->plan, err));
        job->plan_of = task;
    }
    const struct hrf_tile_plan *plan = job->plan;
    if (task->first_patch < 0 || task->n_patches < 0 ||
        task->first_patch > plan->n_patches - task->n_patches)
        return hrf_error_set(
            err, HRF_E_USER, "task %s asks for patches %lld..%lld of a tile plan that has %lld",
            task->id, (long long)task->first_patch,
            (long long)(task->first_patch + task->n_patches), (long long)plan->n_patches);
    *out = plan;
    return HRF_OK;
}

/* ---- groups of ranks ---- */

/* The number of ranks of a group, from the layout that was requested or found. */
static enum hrf_status group_size(const struct hrf_worker *job, int32_t *n, struct hrf_error *err)
{
    const struct hrf_layout_plan *plan = &job->layout.plan;
    const int32_t all = hrf_ranks_all(job->ranks)->n_ranks;
    char text[96];
    hrf_layout_text(plan, text);
    *n = hrf_layout_group_ranks(plan);
    if (job->spec->engine.class_map && *n != all)
        return hrf_error_set(err, HRF_E_USER,
                             "a slide is one image, and layout '%s' splits it over %d ranks, but "
                             "the job has %d: use a layout of %d, e.g. engine.parallel.spatial=%d",
                             text, *n, all, all, all);
    if (plan->data > 1 ? hrf_layout_ranks(plan) != all : all % *n != 0)
        return hrf_error_set(
            err, HRF_E_USER,
            "layout '%s' needs %d ranks, or without data= any multiple of %d, but the job has %d",
            text, hrf_layout_ranks(plan), *n, all);
    return HRF_OK;
}

enum hrf_status hrf_worker_form_groups(struct hrf_worker *job, struct hrf_error *err)
{
    const struct hrf_job_engine *engine = &job->spec->engine;
    struct hrf_comm *all = hrf_ranks_all(job->ranks);
    const struct hrf_tile_plan *plan = NULL;
    HRF_AUTO(hrf_graph) graph = NULL;
    struct hrf_session_config config = { .device = engine->device,
                                         .precision = engine->precision,
                                         .n_threads = (int32_t)engine->n_threads,
                                         .memory_limit_bytes = engine->memory_bytes };
    int32_t n_group;
    if (all == NULL || job->spec->n_tasks == 0)
        return hrf_ranks_form(job->ranks, 1, err);
    HRF_TRY(read_tile_plan(job, &job->spec->tasks[0], &plan,
                           err)); /* the images of all tasks have the same size */
    HRF_TRY(make_graph(job, plan->patch_size, &graph, err));
    HRF_TRY(hrf_layout_find(engine->layout, graph, &config, all, &job->layout, err));
    HRF_TRY(group_size(job, &n_group, err));
    job->layout.plan.data = 1; /* several groups take patches from the work queue */
    job->cutting = config.cutting;
    return hrf_ranks_form(job->ranks, n_group, err);
}

enum hrf_status hrf_worker_settle(struct hrf_worker *job, enum hrf_status status,
                                  struct hrf_error *err)
{
    struct hrf_comm *group = job->ranks != NULL ? hrf_ranks_group(job->ranks) : NULL;
    struct hrf_vote vote = { .status = status, .stops = hrf_worker_is_stopping() };
    if (status != HRF_OK)
        snprintf(vote.text, sizeof vote.text, "%.*s", (int)sizeof vote.text - 1, err->text);
    if (job->network != NULL) {
        const struct hrf_session_memory memory = hrf_network_memory(job->network);
        vote.most = hrf_session_memory_total(&memory);
    }
    hrf_meters_tick(&job->meters);
    vote.spent = hrf_meters_take(&job->meters);
    if (group != NULL)
        HRF_TRY(hrf_agree(group, &vote, err));
    job->peak_bytes = vote.most;
    hrf_resource_use_add(&job->spent, &vote.spent);
    if (vote.status != HRF_OK)
        return status == HRF_OK ? hrf_error_set(err, vote.status, "%s", vote.text) : status;
    if (vote.stops) {
        hrf_worker_stop(0);
        return hrf_error_set(err, HRF_E_AGAIN, "asked to stop by a signal");
    }
    return HRF_OK;
}

enum hrf_status hrf_worker_read_batch(void *context, int32_t input, int64_t first, int64_t n,
                                      const struct hrf_box *box, float *out, struct hrf_error *err)
{
    const struct hrf_batch_source *s = context;
    const int64_t left = s->batch.n - first, there = left < 0 ? 0 : left < n ? left : n;
    struct hrf_array_source source = {
        s->batch.pixels, { 4, { s->batch.n, 3, s->fed.hi[0] - s->fed.lo[0], s->size } }
    };
    struct hrf_box part = *box;
    part.lo[0] -= s->fed.lo[0]; /* the feed has read no other rows */
    part.hi[0] -= s->fed.lo[0];
    const int64_t image = (box->hi[0] - box->lo[0]) * (box->hi[1] - box->lo[1]) * 3;
    if (there > 0)
        HRF_TRY(hrf_read_array(&source, input, first, there, &part, out, err));
    memset(out + there * image, 0, (size_t)((n - there) * image) * sizeof *out);
    return HRF_OK;
}

void hrf_task_source_release(struct hrf_task_source *source)
{
    hrf_feed_destroy(source->feed);
    hrf_slide_close(source->slide);
}

/* Checks that the slide is still the file that the patches were planned on. */
static enum hrf_status check_slide(const struct hrf_job_task *task,
                                   const struct hrf_task_source *source, struct hrf_error *err)
{
    const struct hrf_slide_info *slide = hrf_slide_info(source->slide);
    const struct hrf_tile_plan *plan = source->plan;
    if (slide->width == plan->width && slide->height == plan->height &&
        strcmp(slide->quickhash, plan->quickhash) == 0)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_USER,
                         "'%s' is not the file that was tiled (%lld x %lld px then, %lld x %lld "
                         "now); run again, and it is tiled again",
                         task->slide_path, (long long)plan->width, (long long)plan->height,
                         (long long)slide->width, (long long)slide->height);
}

enum hrf_status hrf_worker_open_source(struct hrf_worker *job, const struct hrf_job_task *task,
                                       struct hrf_task_source *source, struct hrf_error *err)
{
    const struct hrf_job_engine *engine = &job->spec->engine;
    HRF_TRY(read_tile_plan(job, task, &source->plan, err));
    HRF_TRY(make_network(job, source->plan->patch_size, err));
    HRF_TRY(hrf_slide_open(task->slide_path, &source->slide, err));
    hrf_plan_set_bad_tiles(source->slide, source->plan);
    HRF_TRY(check_slide(task, source, err));
    source->n_threads = engine->n_threads > 0 ? (int32_t)engine->n_threads
                                              : hrf_process_cpu_count();
    return HRF_OK;
}

enum hrf_status hrf_worker_start_feed(const struct hrf_worker *job, const struct hrf_job_task *task,
                                      struct hrf_task_source *source, struct hrf_error *err)
{
    const struct hrf_job_engine *engine = &job->spec->engine;
    struct hrf_feed_config config = { .slide = source->slide,
                                      .plan = source->plan,
                                      .first_patch = task->first_patch,
                                      .n_patches = task->n_patches,
                                      .batch = engine->batch,
                                      .raw = hrf_worker_pixel_session(job) != NULL,
                                      .n_readers = source->n_threads,
                                      .n_ahead = BATCHES_AHEAD,
                                      .next = job->ranks != NULL ? hrf_ranks_next : NULL,
                                      .context = job->ranks };
    const struct hrf_box fed = hrf_network_fed(job->network, source->plan->patch_size);
    config.first_row = fed.lo[0];
    config.n_rows = fed.hi[0] - fed.lo[0];
    struct hrf_session *narrow = hrf_worker_narrow_session(job);
    if (narrow != NULL)
        config.type = hrf_session_input_type(narrow, &config.quantization);
    memcpy(config.mean, engine->mean, sizeof config.mean);
    memcpy(config.std, engine->std, sizeof config.std);
    return hrf_feed_create(&config, &source->feed, err);
}

/* A rank that cannot read its part says so before the others wait for it. */
static enum hrf_status run_image(struct hrf_worker *job, struct hrf_slide_source *image,
                                 struct hrf_error *err)
{
    if (job->ranks != NULL && hrf_ranks_group(job->ranks) != NULL) {
        const enum hrf_status status = hrf_network_fill(job->network, hrf_slide_source_read, image,
                                                        err);
        HRF_TRY(hrf_worker_settle(job, status, err));
    }
    return hrf_network_run(job->network, hrf_slide_source_read, image, err);
}

/* The slide as one image, through the network. */
enum hrf_status hrf_worker_run_slide(struct hrf_worker *job, const struct hrf_job_task *task,
                                     struct hrf_task_source *source, struct hrf_error *err)
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
    struct hrf_slide_source image;
    memcpy(rows.mean, engine->mean, sizeof rows.mean);
    memcpy(rows.std, engine->std, sizeof rows.std);
    hrf_slide_source_init(&image, &rows);
    const enum hrf_status status = run_image(job, &image, err);
    source->times = image.times;
    hrf_slide_source_release(&image);
    return status;
}
