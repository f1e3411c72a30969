/* worker.c - the slide and patches of a task, and what ranks decide together (worker.h). */
#include "engine/worker/worker.h"

#include "base/file.h"
#include "base/log.h"
#include "base/own_process.h"
#include "engine/input/plan_readers.h"
#include "engine/run/agree.h"
#include "engine/worker/slide_source.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

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
    for (int i = 0; i < HRF_JOB_MAX_NETWORKS; i++) {
        hrf_network_destroy(job->networks[i].network);
        hrf_found_layout_release(&job->networks[i].layout);
        hrf_calibration_destroy(job->networks[i].calibration);
    }
    hrf_smoothing_destroy(job->smoothing);
    hrf_ranks_destroy(job->ranks);
    hrf_graph_destroy(job->graph);
    hrf_tile_plan_destroy(job->plan);
    hrf_job_spec_destroy(job->spec);
    hrf_free(job->directory);
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

enum hrf_status hrf_worker_read_plan(struct hrf_worker *job, const struct hrf_job_task *task,
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

enum hrf_status hrf_worker_settle(struct hrf_worker *job, enum hrf_status status,
                                  struct hrf_error *err)
{
    struct hrf_comm *group = job->ranks != NULL ? hrf_ranks_group(job->ranks) : NULL;
    struct hrf_vote vote = { .status = status, .stops = hrf_worker_is_stopping() };
    if (status != HRF_OK)
        snprintf(vote.text, sizeof vote.text, "%.*s", (int)sizeof vote.text - 1, err->text);
    hrf_meters_tick(&job->meters);
    for (size_t i = 0; i < job->spec->n_networks; i++) {
        if (job->networks[i].network != NULL) {
            const struct hrf_session_memory memory = hrf_network_memory(job->networks[i].network);
            vote.most[i] = hrf_session_memory_total(&memory);
        }
        vote.spent[i] = hrf_meters_take(&job->meters, (int)i);
    }
    if (group != NULL)
        HRF_TRY(hrf_agree(group, &vote, err));
    for (size_t i = 0; i < job->spec->n_networks; i++) {
        if (job->networks[i].network != NULL)
            job->networks[i].peak_bytes = vote.most[i];
        hrf_resource_use_add(&job->networks[i].spent, &vote.spent[i]);
    }
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
    const int64_t left = s->n - first, there = left < 0 ? 0 : left < n ? left : n;
    struct hrf_array_source source = { s->pixels,
                                       { 4, { s->n, 3, s->fed.hi[0] - s->fed.lo[0], s->size } } };
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

int64_t hrf_worker_image_size(const struct hrf_worker *job, const struct hrf_tile_plan *plan)
{
    const int64_t size = job->spec->settings->model.input.size;
    return size > 0 ? size : plan->patch_size;
}

/* Checks that the slide is still the file that the patches were planned on. */
static enum hrf_status check_slide(const struct hrf_job_task *task,
                                   const struct hrf_task_source *source, struct hrf_error *err)
{
    const struct hrf_slide_info *slide = hrf_slide_info(source->slide);
    const struct hrf_tile_plan *plan = source->plan;
    if (slide->width == plan->width && slide->height == plan->height)
        return hrf_slide_content_check(task->slide_path, task->identity.slide, err);
    return hrf_error_set(err, HRF_E_USER,
                         "'%s' is not the file that was tiled (%lld x %lld px then, %lld x %lld "
                         "now); run again, and it is tiled again",
                         task->slide_path, (long long)plan->width, (long long)plan->height,
                         (long long)slide->width, (long long)slide->height);
}

static enum hrf_status open_slide(struct hrf_worker *job, const struct hrf_task_group *group,
                                  struct hrf_task_source *source, struct hrf_error *err)
{
    HRF_TRY(hrf_worker_read_plan(job, group->tasks[0], &source->plan, err));
    const int64_t size = hrf_worker_image_size(job, source->plan);
    for (int k = 0; k < group->n; k++)
        HRF_TRY(hrf_worker_make_network(job, group->networks[k], size,
                                        hrf_worker_batch(job, source->plan), err));
    HRF_TRY(hrf_slide_open(group->tasks[0]->slide_path, &source->slide, err));
    hrf_plan_set_bad_tiles(source->slide, source->plan);
    HRF_TRY(check_slide(group->tasks[0], source, err));
    source->n_threads = job->spec->n_threads > 0 ? (int32_t)job->spec->n_threads
                                                 : hrf_process_cpu_count();
    return HRF_OK;
}

static struct hrf_feed_form form_of(const struct hrf_worker *job, int network)
{
    const struct hrf_session *session = hrf_network_session(job->networks[network].network);
    return session != NULL ? hrf_session_feed_form(session)
                           : (struct hrf_feed_form){ .type = HRF_F32 };
}

/* Each form once, and the rows that any of the networks needs. */
static void choose_forms(const struct hrf_worker *job, const struct hrf_task_group *group,
                         struct hrf_task_source *source, struct hrf_feed_config *config)
{
    for (int k = 0; k < group->n; k++) {
        const int network = group->networks[k];
        if (!hrf_network_is_fed(job->networks[network].network))
            continue;
        const struct hrf_feed_form form = form_of(job, network);
        const struct hrf_box fed = hrf_network_fed(job->networks[network].network,
                                                   hrf_worker_image_size(job, source->plan));
        const bool is_jittered = job->spec->networks[network].stain_jitter > 0;
        int f = 0;
        while (f < config->n_forms && (config->is_jittered[f] != is_jittered ||
                                       !hrf_feed_form_is_same(&config->forms[f], &form)))
            f++;
        config->forms[f] = form;
        config->is_jittered[f] = is_jittered;
        if (is_jittered)
            hrf_stain_jitter_draw(&config->jitter, job->spec->networks[network].stain_jitter,
                                  job->spec->networks[network].jitter_seed,
                                  group->tasks[k]->slide_name);
        config->n_forms += f == config->n_forms;
        source->form[k] = f;
        if (config->n_forms == 1 && f == 0 && source->fed.hi[0] == 0)
            source->fed = fed;
        for (int side = 0; side < 2; side++) {
            source->fed.lo[side] = fed.lo[side] < source->fed.lo[side] ? fed.lo[side]
                                                                       : source->fed.lo[side];
            source->fed.hi[side] = fed.hi[side] > source->fed.hi[side] ? fed.hi[side]
                                                                       : source->fed.hi[side];
        }
    }
    config->first_row = source->fed.lo[0];
    config->n_rows = source->fed.hi[0] - source->fed.lo[0];
}

static enum hrf_status take_host(void *session, size_t n_bytes, void **out, struct hrf_error *err)
{
    return hrf_session_take_host(session, n_bytes, out, err);
}

static void give_host(void *session, void *memory)
{
    hrf_session_give_host(session, memory);
}

/* Readers write bytes for a device where it takes them from. It may still be taking those of the
 * batch before, which was started and is not finished. */
static void choose_memory(const struct hrf_worker *job, const struct hrf_task_group *group,
                          struct hrf_feed_config *config)
{
    for (int k = 0; k < group->n && config->memory.take == NULL; k++) {
        struct hrf_session *session = hrf_network_session(
            job->networks[group->networks[k]].network);
        if (session == NULL || !hrf_session_feed_form(session).raw)
            continue;
        config->memory = (struct hrf_feed_memory){ take_host, give_host, session };
        config->n_held = hrf_session_depth(session);
    }
}

static struct hrf_feed_config feed_config(const struct hrf_worker *job,
                                          const struct hrf_task_group *group,
                                          struct hrf_task_source *source)
{
    const struct hrf_workflow *settings = job->spec->settings;
    struct hrf_feed_config config = { .slide = source->slide,
                                      .plan = source->plan,
                                      .first_patch = group->tasks[0]->first_patch,
                                      .n_patches = group->tasks[0]->n_patches,
                                      .batch = job->batch,
                                      .preparation = hrf_workflow_preparation(settings),
                                      .n_readers = source->n_threads,
                                      .reads_ahead = job->spec->n_ranks <= 1,
                                      .next = job->ranks != NULL ? hrf_ranks_next : NULL,
                                      .context = job->ranks };
    choose_forms(job, group, source, &config);
    choose_memory(job, group, &config);
    memcpy(config.mean, settings->model.input.mean, sizeof config.mean);
    memcpy(config.std, settings->model.input.std, sizeof config.std);
    config.gives_tiles = source->gives_tiles;
    return config;
}

enum hrf_status hrf_worker_start_feed(const struct hrf_worker *job,
                                      const struct hrf_task_group *group,
                                      struct hrf_task_source *source, struct hrf_error *err)
{
    const struct hrf_feed_config config = feed_config(job, group, source);
    return hrf_feed_create(&config, &source->feed, err);
}

/* Why the group's device cannot decode the slide's tiles; a text of "": it can, and *name is what
 * does. */
static enum hrf_status why_not_decoded(struct hrf_worker *job, const struct hrf_task_group *group,
                                       struct hrf_task_source *source, const char **name,
                                       struct hrf_error *why, struct hrf_error *err)
{
    const char *reason = NULL;
    why->text[0] = '\0';
    for (int k = 0; k < group->n; k++) {
        struct hrf_session *session = hrf_network_session(
            job->networks[group->networks[k]].network);
        struct hrf_error no = { .text = "the image is computed in bands or by several ranks" };
        const enum hrf_status status = session != NULL
                                           ? hrf_session_open_decoder(session, name, &no)
                                           : HRF_E_UNSUPPORTED;
        if (status != HRF_OK && status != HRF_E_UNSUPPORTED)
            return hrf_error_set(err, status, "%s", no.text);
        if (status != HRF_OK) {
            *why = no;
            return HRF_OK;
        }
    }
    const struct hrf_feed_config config = feed_config(job, group, source);
    HRF_TRY(hrf_feed_no_tiles(&config, &reason, err));
    snprintf(why->text, sizeof why->text, "%s", reason != NULL ? reason : "");
    return HRF_OK;
}

/* Ranks that share a slide's patches must not differ: where it may be one or the other, it is the
 * CPU. */
static enum hrf_status choose_decoder(struct hrf_worker *job, const struct hrf_task_group *group,
                                      struct hrf_task_source *source, struct hrf_error *err)
{
    const enum hrf_decode decode = job->spec->settings->engine.decode;
    const bool is_asked = decode != HRF_DECODE_CPU, is_auto = decode == HRF_DECODE_AUTO;
    const char *name = "cpu";
    struct hrf_error why = { .text = "" };
    if (is_auto && job->spec->n_ranks > 1)
        snprintf(why.text, sizeof why.text, "the job has several ranks, which must not differ");
    else if (is_asked && hrf_workflow_is_slides(job->spec->settings))
        snprintf(why.text, sizeof why.text, "the slide is one image");
    else if (is_asked)
        HRF_TRY(why_not_decoded(job, group, source, &name, &why, err));
    if (why.text[0] != '\0' && !is_auto)
        return hrf_error_set(
            err, HRF_E_USER,
            "the tiles of '%s' cannot be decoded by the GPU, as {engine.decode=gpu} "
            "wants: %s; use {engine.decode=cpu} or auto",
            source->plan->slide_path, why.text);
    if (why.text[0] != '\0')
        hrf_log_info("engine", "the tiles of '%s' are decoded by the CPU: %s",
                     source->plan->slide_path, why.text);
    source->gives_tiles = is_asked && why.text[0] == '\0';
    snprintf(source->decoder, sizeof source->decoder, "%s", source->gives_tiles ? name : "cpu");
    return HRF_OK;
}

enum hrf_status hrf_worker_open_source(struct hrf_worker *job, const struct hrf_task_group *group,
                                       struct hrf_task_source *source, struct hrf_error *err)
{
    HRF_TRY(open_slide(job, group, source, err));
    return choose_decoder(job, group, source, err);
}

/* A rank that cannot read its part says so before the others wait for it. */
static enum hrf_status run_image(struct hrf_worker *job, struct hrf_network *network,
                                 struct hrf_slide_source *image, struct hrf_error *err)
{
    if (job->ranks != NULL && hrf_ranks_group(job->ranks) != NULL) {
        const enum hrf_status status = hrf_network_fill(network, hrf_slide_source_read, image, err);
        HRF_TRY(hrf_worker_settle(job, status, err));
    }
    return hrf_network_run(network, hrf_slide_source_read, image, err);
}

enum hrf_status hrf_worker_run_slide(struct hrf_worker *job, const struct hrf_job_task *task, int i,
                                     struct hrf_task_source *source, struct hrf_error *err)
{
    const struct hrf_workflow *settings = job->spec->settings;
    if (task->n_patches != 1)
        return hrf_error_set(err, HRF_E_USER,
                             "task %s asks for %lld patches where a slide is one image", task->id,
                             (long long)task->n_patches);
    struct hrf_network *network = job->networks[i].network;
    const int32_t n_ranks = hrf_network_n_ranks(network);
    struct hrf_rows_config rows = { .slide = source->slide,
                                    .plan = source->plan,
                                    .patch = task->first_patch,
                                    .n_readers = (source->n_threads + n_ranks - 1) / n_ranks };
    struct hrf_slide_source image;
    memcpy(rows.mean, settings->model.input.mean, sizeof rows.mean);
    memcpy(rows.std, settings->model.input.std, sizeof rows.std);
    hrf_slide_source_init(&image, &rows);
    const enum hrf_status status = run_image(job, network, &image, err);
    source->times = image.times;
    hrf_slide_source_release(&image);
    return status;
}
