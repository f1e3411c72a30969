/* score_task.c - a task's patches, or its slide as one image, to class probabilities or embeddings.
 *
 * Ranks share a task's batches; rank 0 gathers the results and keeps them now and then, so that a
 * job that is killed costs a minute of work at most.
 */
#include "base/clock.h"
#include "base/crash.h"
#include "base/file.h"
#include "base/log.h"
#include "base/own_process.h"
#include "base/path.h"
#include "engine/worker/slide_source.h"
#include "engine/worker/worker.h"
#include "schema/record/sentinel.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PART_MS = 60000 }; /* the most work that is lost if a job is killed */

static enum hrf_status new_scores(const struct hrf_worker *job, const struct hrf_job_task *task,
                                  const struct hrf_tile_plan *plan, struct hrf_scores **out,
                                  struct hrf_error *err)
{
    const struct hrf_job_engine *engine = &job->spec->engine;
    HRF_AUTO(hrf_scores) scores = hrf_calloc(1, sizeof *scores);
    HRF_CHECK_MEMORY(scores != NULL, err, "no memory for the scores");
    scores->identity = task->identity;
    memcpy(scores->identity.plan, plan->hash, sizeof scores->identity.plan);
    scores->precision = hrf_strdup(engine->precision);
    scores->device = hrf_strdup(hrf_network_device_name(job->network));
    scores->host = hrf_strdup(job->host);
    memcpy(scores->hardware.model, job->identity.model, sizeof scores->hardware.model);
    memcpy(scores->hardware.path, job->identity.path, sizeof scores->hardware.path);
    memcpy(scores->hardware.driver, job->identity.driver, sizeof scores->hardware.driver);
    memcpy(scores->hardware.libraries, job->identity.libraries, sizeof scores->hardware.libraries);
    snprintf(scores->notes, sizeof scores->notes, "%s", hrf_network_notes(job->network));
    if (hrf_network_transport(job->network) != NULL)
        snprintf(scores->traffic.transport, sizeof scores->traffic.transport, "%s",
                 hrf_network_transport(job->network));
    scores->first_patch = task->first_patch;
    scores->n_patches = task->n_patches;
    scores->n_classes = (int32_t)job->n_values;
    scores->probabilities = hrf_calloc((size_t)(task->n_patches * job->n_values),
                                       sizeof scores->probabilities[0]);
    HRF_CHECK_MEMORY(scores->precision != NULL && scores->device != NULL && scores->host != NULL &&
                         scores->probabilities != NULL,
                     err, "no memory for the scores of %lld patches", (long long)task->n_patches);
    HRF_MOVE(*out, scores);
    return HRF_OK;
}

/* A task whose results rank 0 gathers. */
struct gathering {
    const struct hrf_worker *job;
    const struct hrf_job_task *task;
    struct hrf_scores *scores;
    int64_t n_done;         /* patches */
    int64_t n_saved;        /* of them: in the part that was read at the start or written last */
    double shown, saved_at; /* monotonic seconds */
};

/* Writes what is done so far, for the next attempt. It is written only if it holds more than the
 * last part, because a part counts as progress. A revoked attempt writes nothing: its successor
 * continues with what it found. */
static void keep_part(struct gathering *g)
{
    struct hrf_bytes record = { NULL, 0 };
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_FREE char *path = hrf_task_part_path(g->job->directory, g->task->id);
    g->saved_at = hrf_clock_seconds();
    if (path == NULL || g->n_done == g->n_saved || hrf_fence_is_set(g->job->directory))
        return;
    hrf_crash_point("engine.part.before");
    if (hrf_scores_encode(g->scores, &record, &err) != HRF_OK ||
        hrf_file_write_atomic(path, record.data, record.n_bytes, &err) != HRF_OK)
        hrf_log_warning("engine", "cannot save the scores so far: %s", err.text);
    else
        g->n_saved = g->n_done;
    hrf_crash_point("engine.part.after");
    hrf_bytes_release(&record);
}

static double part_seconds(void)
{
    return (double)hrf_clock_setting_ms("HRF_PART_MS", 0, PART_MS) / 1000;
}

static void add_counts(struct hrf_scores *scores, const struct hrf_comm_count *counts)
{
    struct hrf_traffics part = { .n_items = 0 };
    for (int use = 0; use < HRF_N_COMM_USES; use++) {
        struct hrf_traffic *t = &part.items[part.n_items];
        *t = (struct hrf_traffic){ .messages = counts[use].messages,
                                   .bytes = counts[use].bytes,
                                   .sending = counts[use].sending,
                                   .receiving = counts[use].receiving };
        snprintf(t->operation, sizeof t->operation, "%s",
                 hrf_comm_use_name((enum hrf_comm_use)use));
        part.n_items += t->messages > 0;
    }
    hrf_traffics_add(&scores->traffic, &part);
}

static void add_spent(struct hrf_scores *scores, const struct hrf_resource_use *spent)
{
    scores->energy_joules += spent->processor_joules;
    scores->gpu_energy_joules += spent->gpu_joules;
    scores->timing.copy += spent->copy;
    scores->timing.kernels += spent->kernels;
    if (scores->device_memory_bytes < spent->device_bytes)
        scores->device_memory_bytes = spent->device_bytes;
}

/* The resources that this rank's group has used since the last query, as far as they could be read.
 */
static struct hrf_resource_use take_spent(struct hrf_worker *job)
{
    const struct hrf_resource_use spent = job->spent;
    job->spent = (struct hrf_resource_use){ 0 };
    return spent;
}

static void take_result(void *context, const struct hrf_work_queue_result *result)
{
    struct gathering *g = context;
    const size_t n_values = (size_t)g->scores->n_classes;
    for (int64_t i = 0; i < result->n; i++)
        memcpy(g->scores->probabilities + (size_t)result->patches[i] * n_values,
               result->values + (size_t)i * n_values, n_values * sizeof *result->values);
    g->scores->timing.compute += result->seconds;
    add_spent(g->scores, &result->spent);
    if (result->counts != NULL)
        add_counts(g->scores, result->counts);
    g->n_done += result->n;
    const double now = hrf_clock_seconds();
    if (now - g->shown >= 0.5) {
        hrf_task_progress_write(g->job->directory, g->task->id, g->n_done, g->task->n_patches);
        g->shown = now;
    }
    if (now - g->saved_at >= part_seconds())
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

static void fill_narrow(struct hrf_session *session, const struct hrf_feed_batch *batch)
{
    struct hrf_quantization unused;
    const struct hrf_shape *shape = hrf_session_input_shape(session, 0);
    const size_t all = (size_t)hrf_shape_count(shape) *
                       hrf_dtype_size(hrf_session_input_type(session, &unused));
    const size_t there = all / (size_t)shape->dims[0] * (size_t)batch->n;
    uint8_t *input = hrf_session_narrow_input(session);
    memcpy(input, batch->bytes, there);
    memset(input + there, 0, all - there);
}

/* Finishes the oldest batch that is under way and delivers its results. */
static enum hrf_status finish_batch(struct hrf_worker *job, struct hrf_session *session,
                                    const struct hrf_feed_batch *batch, double *since,
                                    struct hrf_error *err)
{
    HRF_TRY(hrf_session_finish(session, err));
    const double now = hrf_clock_seconds();
    hrf_meters_tick(&job->meters);
    const struct hrf_work_queue_result result = { .batch = batch->number,
                                                  .n = batch->n,
                                                  .patches = batch->patches,
                                                  .values = hrf_session_output(session, 0),
                                                  .seconds = now - *since,
                                                  .spent = hrf_meters_take(&job->meters) };
    *since = now; /* the time of the next batch counts from here */
    HRF_TRY(hrf_work_queue_give(hrf_ranks_work_queue(job->ranks), &result, err));
    hrf_ranks_count_batch(job->ranks);
    hrf_crash_point("engine.batch");
    return HRF_OK;
}

/* The same on a device: a batch is uploaded while the one before it is computed. */
static enum hrf_status score_pixels(struct hrf_worker *job, struct hrf_session *session,
                                    struct hrf_feed *feed, struct hrf_error *err)
{
    struct hrf_feed_batch oldest = { .n = 0 }; /* under way; n 0: none is */
    double since = 0;
    for (;;) {
        struct hrf_feed_batch batch;
        HRF_TRY(hrf_feed_next(feed, &batch, err));
        if (hrf_worker_is_stopping())
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
    }
}

/* The next batch of this rank's group. A rank that reads no pixels skips it. */
static enum hrf_status next_batch(struct hrf_worker *job, const struct hrf_job_task *task,
                                  struct hrf_feed *feed, struct hrf_feed_batch *batch,
                                  struct hrf_error *err)
{
    const int64_t size = job->spec->engine.batch;
    if (feed != NULL)
        return hrf_feed_next(feed, batch, err);
    *batch = (struct hrf_feed_batch){ .number = hrf_ranks_next(job->ranks) };
    const int64_t left = task->n_patches - batch->number * size;
    if (batch->number >= 0)
        batch->n = left < size ? left : size;
    return HRF_OK;
}

static enum hrf_status score_batch(struct hrf_worker *job, struct hrf_batch_source *source,
                                   struct hrf_error *err)
{
    const struct hrf_feed_batch *batch = &source->batch;
    const double start = hrf_clock_seconds();
    struct hrf_session *narrow = hrf_worker_narrow_session(job);
    struct hrf_comm_count counts[HRF_N_COMM_USES] = { { 0 } };
    if (narrow != NULL) {
        fill_narrow(narrow, batch);
        HRF_TRY(hrf_session_run(narrow, err));
    } else {
        HRF_TRY(hrf_network_run(job->network, hrf_worker_read_batch, source, err));
    }
    HRF_TRY(hrf_network_count(job->network, counts, err));
    hrf_ranks_count_batch(job->ranks);
    if (!hrf_ranks_leads(job->ranks))
        return HRF_OK;
    const struct hrf_work_queue_result result = { .batch = batch->number,
                                                  .n = batch->n,
                                                  .patches = batch->patches,
                                                  .values = hrf_network_output(job->network, 0),
                                                  .seconds = hrf_clock_seconds() - start,
                                                  .spent = take_spent(job),
                                                  .counts = counts };
    HRF_TRY(hrf_work_queue_give(hrf_ranks_work_queue(job->ranks), &result, err));
    hrf_crash_point("engine.batch");
    return HRF_OK;
}

/* Scores the batches that this rank's group gets. */
static enum hrf_status score_patches(struct hrf_worker *job, const struct hrf_job_task *task,
                                     struct hrf_feed *feed, struct hrf_error *err)
{
    if (hrf_worker_pixel_session(job) != NULL)
        return score_pixels(job, hrf_worker_pixel_session(job), feed, err);
    for (;;) {
        struct hrf_batch_source source = { .size = job->size,
                                           .fed = hrf_network_fed(job->network, job->size) };
        const enum hrf_status status = next_batch(job, task, feed, &source.batch, err);
        HRF_TRY(hrf_worker_settle(job, status, err));
        if (source.batch.n == 0)
            return HRF_OK;
        HRF_TRY(score_batch(job, &source, err));
    }
}

static int64_t count_constant(const struct hrf_network *network)
{
    const struct hrf_banded *banded = hrf_network_banded(network);
    return banded != NULL ? hrf_banded_facts(banded).n_constant : 0;
}

static void tell_bands(const struct hrf_worker *job, const struct hrf_job_task *task,
                       int64_t n_before)
{
    char text[HRF_BANDED_TEXT];
    if (hrf_network_banded(job->network) == NULL)
        return;
    hrf_banded_text(hrf_network_banded(job->network), n_before, text);
    hrf_log_info("engine", "task %s: %s", task->id, text);
}

/* Each rank waits only for its own part of the slide. */
static enum hrf_status score_slide(struct hrf_worker *job, const struct hrf_job_task *task,
                                   struct hrf_task_source *source, struct hrf_scores *scores,
                                   struct hrf_error *err)
{
    double start = hrf_clock_seconds();
    const int64_t n_constant = count_constant(job->network);
    HRF_TRY(hrf_worker_run_slide(job, task, source, err));
    const double all = hrf_clock_seconds() - start;
    tell_bands(job, task, n_constant);
    struct hrf_comm_count counts[HRF_N_COMM_USES] = { { 0 } };
    HRF_TRY(hrf_network_count(job->network, counts, err));
    HRF_TRY(hrf_worker_settle(job, HRF_OK, err)); /* for the times of the other ranks */
    if (scores == NULL)
        return HRF_OK;
    add_counts(scores, counts);
    scores->timing.compute = all - source->times.wait / hrf_network_n_ranks(job->network);
    memcpy(scores->probabilities, hrf_network_output(job->network, 0),
           (size_t)scores->n_classes * sizeof scores->probabilities[0]);
    hrf_crash_point("engine.batch");
    return hrf_keep_class_map(job->network, scores, err);
}

static void note_timing(struct hrf_worker *job, const struct hrf_task_source *source, double start,
                        struct hrf_scores *scores)
{
    struct hrf_feed_times times = source->feed != NULL ? hrf_feed_times(source->feed)
                                                       : source->times;
    /* added to what an earlier attempt has used */
    scores->timing.decode += times.decode;
    scores->timing.prepare += times.prepare;
    scores->timing.wait += times.wait;
    scores->timing.build += job->build_seconds; /* counted once, for the task that needed it */
    job->build_seconds = 0;
    scores->timing.total += hrf_clock_seconds() - start;
    scores->peak_memory_bytes = job->peak_bytes;
    scores->peak_process_bytes = hrf_process_peak_memory();
    const struct hrf_resource_use groups = take_spent(job), own = hrf_meters_take_all(&job->meters);
    add_spent(scores, &groups);
    add_spent(scores, &own);
    scores->n_threads = scores->n_readers = source->n_threads;
}

/* Takes over what an earlier attempt left; *done [n_batches] is heap. A part that does not belong
 * to this task or cannot be read is not used: its patches are scored again. */
static enum hrf_status take_part(const struct hrf_task_source *source, int64_t batch,
                                 int64_t n_batches, struct gathering *g, bool **done,
                                 struct hrf_error *err)
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
        hrf_scores_decode(bytes, n_bytes, &task->identity, task->partial, &part, &why) != HRF_OK ||
        part->n_patches != task->n_patches || part->n_classes != n_classes) {
        hrf_log_warning("engine", "the scores of an earlier attempt are not used: %s",
                        why.text[0] != '\0' ? why.text : "they are for other patches or classes");
        return HRF_OK;
    }
    HRF_AUTO_FREE int64_t *order = hrf_alloc_array((size_t)task->n_patches + 1, sizeof *order);
    bool *found = hrf_calloc((size_t)n_batches + 1, sizeof *found);
    *done = found;
    HRF_CHECK_MEMORY(order != NULL && found != NULL, err, "no memory for %lld batches",
                     (long long)n_batches);
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
    g->n_saved = g->n_done;
    g->scores->timing = part->timing;
    g->scores->traffic = part->traffic;
    g->scores->energy_joules = part->energy_joules;
    g->scores->gpu_energy_joules = part->gpu_energy_joules;
    g->scores->device_memory_bytes = part->device_memory_bytes;
    hrf_log_info("engine", "%lld of %lld patches were scored by an earlier attempt",
                 (long long)g->n_done, (long long)task->n_patches);
    return HRF_OK;
}

/* Every leader begins the task, also one that cannot take part, because they count tasks together.
 */
static enum hrf_status begin_sharing(struct hrf_worker *job, const struct hrf_task_source *source,
                                     struct gathering *g, bool **done, struct hrf_error *err)
{
    const int64_t batch = job->spec->engine.batch;
    const int64_t n_batches = (g->task->n_patches + batch - 1) / batch;
    if (!hrf_ranks_leads(job->ranks))
        return HRF_OK;
    if (g->scores != NULL)
        HRF_TRY(take_part(source, batch, n_batches, g, done, err));
    const struct hrf_work_queue_task task = { .n_batches = n_batches,
                                              .batch = batch,
                                              .n_values = job->n_values,
                                              .done = *done,
                                              .sink = take_result,
                                              .context = g };
    return hrf_work_queue_begin(hrf_ranks_work_queue(job->ranks), &task, err);
}

/* `status`: how the task began. The ranks of a group start and end together; each drops the batches
 * that it has not run. */
static enum hrf_status run_group(struct hrf_worker *job, const struct hrf_job_task *task,
                                 struct hrf_task_source *source, enum hrf_status status,
                                 struct hrf_error *err)
{
    if (status == HRF_OK && hrf_network_is_fed(job->network))
        status = hrf_worker_start_feed(job, task, source, err);
    status = hrf_worker_settle(job, status, err);
    if (status == HRF_OK)
        status = score_patches(job, task, source->feed, err);
    if (status == HRF_OK)
        return hrf_ranks_end_task(job->ranks, err);
    hrf_feed_destroy(source->feed); /* from here on its readers get no more batches */
    source->feed = NULL;
    struct hrf_error ignored; /* the first error is the one to report */
    const enum hrf_status ended = hrf_ranks_end_task(job->ranks, &ignored);
    return ended == HRF_E_AGAIN ? hrf_error_set(err, ended, "%s", ignored.text) : status;
}

/* Rank 0 waits for the batches of the others, too. After a signal it keeps what it has. */
static enum hrf_status gather(struct hrf_worker *job, struct hrf_task_source *source,
                              struct gathering *g, struct hrf_error *err)
{
    struct hrf_work_queue *work_queue = hrf_ranks_work_queue(job->ranks);
    HRF_AUTO_FREE bool *done = NULL;
    enum hrf_status status = begin_sharing(job, source, g, &done, err);
    status = run_group(job, g->task, source, status, err);
    if (work_queue == NULL)
        return status;
    if (status == HRF_OK)
        return hrf_work_queue_end(work_queue, hrf_worker_is_stopping, err);
    if (status != HRF_E_AGAIN && err != NULL)
        hrf_work_queue_fail(work_queue, status, err->text);
    return status;
}

static enum hrf_status score_shared(struct hrf_worker *job, const struct hrf_job_task *task,
                                    struct hrf_task_source *source, struct hrf_scores *scores,
                                    struct hrf_error *err)
{
    struct hrf_work_queue *work_queue = hrf_ranks_work_queue(job->ranks);
    struct gathering g = {
        .job = job, .task = task, .scores = scores, .saved_at = hrf_clock_seconds()
    };
    for (int64_t i = 0; scores != NULL && i < task->n_patches * scores->n_classes; i++)
        scores->probabilities[i] = NAN;
    const enum hrf_status status = gather(job, source, &g, err);
    if (status != HRF_E_AGAIN || scores == NULL)
        return status;
    static const struct hrf_work_queue_task nothing = { .n_batches = 0 };
    struct hrf_error ignored;
    hrf_work_queue_stop(work_queue);
    hrf_work_queue_gather(work_queue);
    if (hrf_work_queue_begin(work_queue, &nothing, &ignored) ==
        HRF_OK) /* results that arrive from here on are too late */
        keep_part(&g);
    return status;
}

/* If a group cannot open the slide or create the network, the other groups score the task. If it is
 * rank 0's group, the task fails for all. */
static enum hrf_status leave_out(struct hrf_worker *job, enum hrf_status status,
                                 struct hrf_error *err)
{
    struct hrf_work_queue *work_queue = hrf_ranks_work_queue(job->ranks);
    const struct hrf_work_queue_task nothing = { .n_batches = 0,
                                                 .batch = job->spec->engine.batch,
                                                 .n_values = job->n_values };
    struct hrf_error why;
    if (work_queue != NULL && hrf_work_queue_begin(work_queue, &nothing, &why) != HRF_OK)
        return hrf_error_set(err, why.status, "%s", why.text);
    return status;
}

/* Numbers that are no probabilities would spoil every figure of the cohort, and features that are
 * not finite every slide head's output. The slide fails by name instead. */
static enum hrf_status check_scores(const struct hrf_job_task *task, const struct hrf_scores *s,
                                    const struct hrf_job_engine *engine, struct hrf_error *err)
{
    const bool is_embedding = engine->embedding;
    const bool is_number = engine->activation != NULL && strcmp(engine->activation, "none") == 0;
    const bool is_any_number = is_embedding || is_number;
    for (int64_t i = 0; i < s->n_patches * s->n_classes; i++) {
        const double p = (double)s->probabilities[i];
        if (is_any_number ? isfinite(p) : p >= 0.0 && p <= 1.0)
            continue;
        char text[32] = "NaN"; /* printf knows -nan too */
        if (!isnan(p))
            snprintf(text, sizeof text, "%g", p);
        const long long patch = (long long)(task->first_patch + i / s->n_classes);
        const long long at = (long long)(i % s->n_classes);
        if (is_embedding)
            return hrf_error_set(err, HRF_E_USER,
                                 "number %lld of the embedding that the model gives patch %lld is "
                                 "%s in %s; is %s wide enough for this model?",
                                 at, patch, text, s->precision, s->precision);
        if (is_number)
            return hrf_error_set(err, HRF_E_USER,
                                 "output %lld that the model gives patch %lld is %s in %s; is %s "
                                 "wide enough for this model?",
                                 at, patch, text, s->precision, s->precision);
        return hrf_error_set(err, HRF_E_USER,
                             "the model gives patch %lld the probability %s of class %lld in "
                             "%s; does it end in softmax or sigmoid, and is %s precise enough "
                             "for it?",
                             patch, text, at, s->precision, s->precision);
    }
    return HRF_OK;
}

/* `record` stays empty on all ranks except rank 0. */
enum hrf_status hrf_worker_score(struct hrf_worker *job, const struct hrf_job_task *task,
                                 struct hrf_bytes *record, struct hrf_error *err)
{
    const bool is_root = hrf_ranks_is_root(job->ranks), is_image = job->spec->engine.class_map;
    double start = hrf_clock_seconds();
    struct hrf_task_source source = { .plan = NULL };
    HRF_AUTO(hrf_scores) scores = NULL;
    enum hrf_status status = hrf_worker_open_source(job, task, &source, err);
    hrf_meters_begin(&job->meters);
    job->spent = (struct hrf_resource_use){ 0 };
    if (status == HRF_OK && is_root)
        status = new_scores(job, task, source.plan, &scores, err);
    status = hrf_worker_settle(job, status, err);
    if (status != HRF_OK && !is_image)
        status = leave_out(job, status, err);
    else if (status == HRF_OK)
        status = is_image ? score_slide(job, task, &source, scores, err)
                          : score_shared(job, task, &source, scores, err);
    if (status == HRF_OK && is_root)
        note_timing(job, &source, start, scores);
    hrf_task_source_release(&source);
    HRF_TRY(status);
    if (!is_root)
        return HRF_OK;
    HRF_TRY(check_scores(task, scores, &job->spec->engine, err));
    return hrf_scores_encode(scores, record, err);
}
