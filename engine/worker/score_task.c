/* score_task.c - the patches of a group of tasks, or a slide as one image, to class probabilities
 * or embeddings: each patch is read once, and every network of the group runs on it.
 *
 * Ranks share the batches; rank 0 gathers the results (results.h).
 */
#include "base/clock.h"
#include "base/crash.h"
#include "base/log.h"
#include "base/min_max.h"
#include "engine/worker/label_rows.h"
#include "engine/worker/results.h"
#include "engine/worker/slide_source.h"

#include <assert.h>
#include <string.h>

/* A group of tasks as this rank scores it. */
struct scoring {
    struct hrf_worker *job;
    const struct hrf_task_group *group;
    struct hrf_task_source *source;
    struct hrf_results *results; /* rank 0 only */
    /* The results of a batch, by all networks; NULL: they are the only network's outputs. */
    float *values;
};

/* The k-th network of the group, if it is one session; NULL: in bands or on several ranks. */
static struct hrf_session *session_of(const struct scoring *s, int k)
{
    return hrf_network_session(s->job->networks[s->group->networks[k]].network);
}

/* What network i of this rank's group has used since the last query, as far as it could be read. */
static struct hrf_resource_use take_spent(struct hrf_worker *job, int i)
{
    const struct hrf_resource_use spent = job->networks[i].spent;
    job->networks[i].spent = (struct hrf_resource_use){ 0 };
    return spent;
}

/* ---- one network on a batch ---- */

/* Runs the k-th network of the group on a batch. */
static enum hrf_status run_network(const struct scoring *s, int k,
                                   const struct hrf_feed_batch *batch, struct hrf_error *err)
{
    struct hrf_network *network = s->job->networks[s->group->networks[k]].network;
    struct hrf_session *session = hrf_network_session(network);
    const void *data = batch->pixels[s->source->form[k]];
    struct hrf_batch_source source = {
        .pixels = data, .n = batch->n, .size = s->job->size, .fed = s->source->fed
    };
    assert(batch->tiles == NULL); /* for devices, whose batches run side by side */
    if (session == NULL)
        return hrf_network_run(network, hrf_worker_read_batch, &source, err);
    hrf_session_feed(session, data);
    return hrf_session_run(session, err);
}

/* Takes over the k-th network's output of a batch of n. */
static void take_output(const struct scoring *s, int k, int64_t n)
{
    const float *out = hrf_network_output(s->job->networks[s->group->networks[k]].network, 0);
    const int64_t n_values = s->job->n_values,
                  n_classes = hrf_workflow_n_scores(s->job->spec->settings);
    const int64_t n_pixels = s->job->label_side * s->job->label_side;
    if (n_pixels > 0)
        for (int64_t i = 0; i < n; i++)
            hrf_label_row_fill(out + i * n_pixels * n_classes, n_classes, n_pixels,
                               s->values + (k * n + i) * n_values);
    else if (s->values != NULL)
        memcpy(s->values + k * n * n_values, out, (size_t)(n * n_values) * sizeof *out);
}

/* Hands a batch's results on. */
static enum hrf_status give(const struct scoring *s, const struct hrf_feed_batch *batch,
                            const struct hrf_work_queue_part *parts, struct hrf_error *err)
{
    const struct hrf_network *first = s->job->networks[s->group->networks[0]].network;
    const struct hrf_work_queue_result result = { .batch = batch->number,
                                                  .n = batch->n,
                                                  .patches = batch->patches,
                                                  .values = s->values != NULL
                                                                ? s->values
                                                                : hrf_network_output(first, 0),
                                                  .parts = parts,
                                                  .n_parts = s->group->n };
    HRF_TRY(hrf_work_queue_give(hrf_ranks_work_queue(s->job->ranks), &result, err));
    hrf_crash_point("engine.batch");
    return HRF_OK;
}

/* ---- batches on a device: one is uploaded while the one before it is computed ---- */

/* Finishes the oldest batch that is under way in every network and delivers its results. */
static enum hrf_status finish_batch(const struct scoring *s, const struct hrf_feed_batch *batch,
                                    struct hrf_work_queue_part *parts, struct hrf_error *err)
{
    for (int k = 0; k < s->group->n; k++)
        parts[k].spent = hrf_meters_take(&s->job->meters, s->group->networks[k]);
    hrf_ranks_count_batch(s->job->ranks);
    return give(s, batch, parts, err);
}

static void feed(struct hrf_session *session, const struct scoring *s, int k,
                 const struct hrf_feed_batch *batch)
{
    if (batch->tiles != NULL)
        hrf_session_feed_tiles(session, batch->tiles);
    else
        hrf_session_feed(session, batch->pixels[s->source->form[k]]);
}

/* A device that cannot decode a batch fails the slide: in the words in which a reader that decodes
 * names a damaged tile, if there is one. */
static enum hrf_status explain(const struct scoring *s, const struct hrf_feed_batch *batch,
                               enum hrf_status status, struct hrf_error *err)
{
    struct hrf_task_source *source = s->source;
    if (status != HRF_E_UNSUPPORTED || batch->tiles == NULL)
        return status;
    HRF_TRY(hrf_feed_check_tiles(source->slide, source->plan, batch->tiles, err));
    return hrf_error_wrap(err, HRF_E_USER, "'%s'", source->plan->slide_path);
}

/* Starts `next` (n 0: there is none) in the k-th network and finishes `oldest` (n 0: none is under
 * way). */
static enum hrf_status start_and_finish(const struct scoring *s, int k,
                                        const struct hrf_feed_batch *next,
                                        const struct hrf_feed_batch *oldest, struct hrf_error *err)
{
    struct hrf_session *session = session_of(s, k);
    if (next->n > 0) {
        feed(session, s, k, next);
        HRF_TRY(explain(s, next, hrf_session_start(session, err), err));
    }
    if (oldest->n == 0)
        return HRF_OK;
    HRF_TRY(explain(s, oldest, hrf_session_finish(session, err), err));
    take_output(s, k, oldest->n);
    hrf_meters_tick(&s->job->meters);
    return HRF_OK;
}

static enum hrf_status run_side_by_side(const struct scoring *s, struct hrf_error *err)
{
    struct hrf_feed_batch oldest = { .n = 0 };
    double since = hrf_clock_seconds(); /* the time of the next result counts from here */
    for (;;) {
        struct hrf_feed_batch batch;
        struct hrf_work_queue_part parts[HRF_MOST_PARTS] = { { .seconds = 0 } };
        HRF_TRY(hrf_feed_next(s->source->feed, &batch, err));
        if (hrf_worker_is_stopping())
            return hrf_error_set(err, HRF_E_AGAIN, "asked to stop by a signal");
        since = oldest.n > 0 ? since : hrf_clock_seconds();
        for (int k = 0; k < s->group->n; k++) {
            hrf_meters_run(&s->job->meters, s->group->networks[k]);
            HRF_TRY(start_and_finish(s, k, &batch, &oldest, err));
            const double now = hrf_clock_seconds();
            parts[k].seconds = now - since;
            since = now;
        }
        hrf_meters_run(&s->job->meters, -1);
        if (oldest.n > 0)
            HRF_TRY(finish_batch(s, &oldest, parts, err));
        if (batch.n == 0)
            return HRF_OK;
        oldest = batch;
    }
}

/* Batches that are under way after a failure are no later task's, and the feed's memory is read
 * until they are finished. */
static enum hrf_status score_side_by_side(const struct scoring *s, struct hrf_error *err)
{
    const enum hrf_status status = run_side_by_side(s, err);
    for (int k = 0; k < s->group->n && status != HRF_OK; k++)
        hrf_session_drop(session_of(s, k));
    return status;
}

static bool all_take_two_batches(const struct scoring *s)
{
    for (int k = 0; k < s->group->n; k++)
        if (session_of(s, k) == NULL || hrf_session_depth(session_of(s, k)) < 2)
            return false;
    return true;
}

/* ---- batches, one after the other ---- */

/* The next batch of this rank's group. A rank that reads no pixels skips it. */
static enum hrf_status next_batch(const struct scoring *s, struct hrf_feed_batch *batch,
                                  struct hrf_error *err)
{
    const int64_t size = s->job->batch;
    if (s->source->feed != NULL)
        return hrf_feed_next(s->source->feed, batch, err);
    *batch = (struct hrf_feed_batch){ .number = hrf_ranks_next(s->job->ranks) };
    const int64_t left = s->group->tasks[0]->n_patches - batch->number * size;
    if (batch->number >= 0)
        batch->n = left < size ? left : size;
    return HRF_OK;
}

static enum hrf_status score_batch(const struct scoring *s, const struct hrf_feed_batch *batch,
                                   struct hrf_error *err)
{
    struct hrf_worker *job = s->job;
    const bool leads = hrf_ranks_leads(job->ranks);
    struct hrf_work_queue_part parts[HRF_MOST_PARTS] = { { .seconds = 0 } };
    for (int k = 0; k < s->group->n; k++) {
        const int i = s->group->networks[k];
        const double start = hrf_clock_seconds();
        hrf_meters_run(&job->meters, i);
        HRF_TRY(run_network(s, k, batch, err));
        HRF_TRY(hrf_network_count(job->networks[i].network, parts[k].counts, err));
        if (leads)
            take_output(s, k, batch->n);
        parts[k].seconds = hrf_clock_seconds() - start;
        parts[k].spent = take_spent(job, i);
    }
    hrf_meters_run(&job->meters, -1);
    hrf_ranks_count_batch(job->ranks);
    return leads ? give(s, batch, parts, err) : HRF_OK;
}

/* Scores the batches that this rank's group gets. */
static enum hrf_status score_patches(const struct scoring *s, struct hrf_error *err)
{
    if (all_take_two_batches(s))
        return score_side_by_side(s, err);
    for (;;) {
        struct hrf_feed_batch batch;
        const enum hrf_status status = next_batch(s, &batch, err);
        HRF_TRY(hrf_worker_settle(s->job, status, err));
        if (batch.n == 0)
            return HRF_OK;
        HRF_TRY(score_batch(s, &batch, err));
    }
}

/* ---- a slide as one image ---- */

static int64_t count_constant(const struct hrf_network *network)
{
    const struct hrf_banded *banded = hrf_network_banded(network);
    return banded != NULL ? hrf_banded_facts(banded).n_constant : 0;
}

static void tell_bands(const struct hrf_network *network, const struct hrf_job_task *task,
                       int64_t n_before)
{
    char text[HRF_BANDED_TEXT];
    if (hrf_network_banded(network) == NULL)
        return;
    hrf_banded_text(hrf_network_banded(network), n_before, text);
    hrf_log_info("engine", "task %s: %s", task->id, text);
}

/* Each rank waits only for its own part of the slide. */
static enum hrf_status score_slide(const struct scoring *s, struct hrf_error *err)
{
    struct hrf_network *network = s->job->networks[s->group->networks[0]].network;
    const struct hrf_job_task *task = s->group->tasks[0];
    double start = hrf_clock_seconds();
    const int64_t n_constant = count_constant(network);
    HRF_TRY(hrf_worker_run_slide(s->job, task, s->group->networks[0], s->source, err));
    const double all = hrf_clock_seconds() - start;
    tell_bands(network, task, n_constant);
    struct hrf_comm_count counts[HRF_N_COMM_USES] = { { 0 } };
    HRF_TRY(hrf_network_count(network, counts, err));
    HRF_TRY(hrf_worker_settle(s->job, HRF_OK, err)); /* for the times of the other ranks */
    if (s->results == NULL)
        return HRF_OK;
    struct hrf_scores *scores = s->results->scores[0];
    hrf_results_add_counts(scores, counts);
    scores->timing.compute = all - s->source->times.wait / hrf_network_n_ranks(network);
    memcpy(scores->probabilities, hrf_network_output(network, 0),
           (size_t)scores->n_classes * sizeof scores->probabilities[0]);
    hrf_crash_point("engine.batch");
    hrf_keep_class_map(network, scores);
    return HRF_OK;
}

/* ---- a group of tasks, shared by the ranks ---- */

/* What the queue needs to know of tasks: it counts with the most numbers per patch that a batch of
 * this job may give, the same on every rank. */
static struct hrf_work_queue_task queue_task(const struct hrf_worker *job, int64_t n_batches)
{
    return (struct hrf_work_queue_task){
        .n_batches = n_batches,
        .batch = hrf_max(job->spec->settings->engine.batch, job->batch),
        .n_values = job->n_values * (int64_t)job->spec->n_networks
    };
}

/* Every leader begins the tasks, also one that cannot take part, because they count them together.
 */
static enum hrf_status begin_sharing(const struct scoring *s, bool **done, struct hrf_error *err)
{
    const int64_t batch = s->job->batch;
    const int64_t n_batches = (s->group->tasks[0]->n_patches + batch - 1) / batch;
    if (!hrf_ranks_leads(s->job->ranks))
        return HRF_OK;
    if (s->results != NULL)
        hrf_results_begin(s->results, s->source->plan, n_batches, done);
    struct hrf_work_queue_task task = queue_task(s->job, n_batches);
    task.done = *done;
    task.sink = hrf_results_take;
    task.context = s->results;
    return hrf_work_queue_begin(hrf_ranks_work_queue(s->job->ranks), &task, err);
}

static bool is_fed(const struct scoring *s)
{
    bool is_any = false;
    for (int k = 0; k < s->group->n; k++)
        is_any |= hrf_network_is_fed(s->job->networks[s->group->networks[k]].network);
    return is_any;
}

/* `status`: how the tasks began. The ranks of a group start and end together; each drops the
 * batches that it has not run. */
static enum hrf_status run_group(const struct scoring *s, enum hrf_status status,
                                 struct hrf_error *err)
{
    if (status == HRF_OK && is_fed(s))
        status = hrf_worker_start_feed(s->job, s->group, s->source, err);
    status = hrf_worker_settle(s->job, status, err);
    if (status == HRF_OK)
        status = score_patches(s, err);
    if (status == HRF_OK)
        return hrf_ranks_end_task(s->job->ranks, err);
    hrf_feed_destroy(s->source->feed); /* from here on its readers get no more batches */
    s->source->feed = NULL;
    struct hrf_error ignored; /* the first error is the one to report */
    const enum hrf_status ended = hrf_ranks_end_task(s->job->ranks, &ignored);
    return ended == HRF_E_AGAIN ? hrf_error_set(err, ended, "%s", ignored.text) : status;
}

/* Rank 0 waits for the batches of the others, too. After a signal it keeps what it has. */
static enum hrf_status gather(const struct scoring *s, struct hrf_error *err)
{
    struct hrf_work_queue *work_queue = hrf_ranks_work_queue(s->job->ranks);
    HRF_AUTO_FREE bool *done = NULL;
    enum hrf_status status = begin_sharing(s, &done, err);
    status = run_group(s, status, err);
    if (work_queue == NULL)
        return status;
    if (status == HRF_OK)
        return hrf_work_queue_end(work_queue, hrf_worker_is_stopping, err);
    if (status != HRF_E_AGAIN && err != NULL)
        hrf_work_queue_fail(work_queue, status, err->text);
    return status;
}

static enum hrf_status score_shared(struct scoring *s, struct hrf_error *err)
{
    struct hrf_work_queue *work_queue = hrf_ranks_work_queue(s->job->ranks);
    const size_t n = (size_t)(s->job->batch * s->job->n_values) * (size_t)s->group->n;
    const bool is_needed = s->group->n > 1 || s->job->label_side > 0;
    HRF_AUTO_FREE float *values = is_needed ? hrf_try_alloc_array(n, sizeof *values) : NULL;
    HRF_CHECK_MEMORY(!is_needed || values != NULL, err, "no memory for a batch's results");
    s->values = values;
    const enum hrf_status status = gather(s, err);
    s->values = NULL;
    if (status != HRF_E_AGAIN || s->results == NULL)
        return status;
    static const struct hrf_work_queue_task nothing = { .n_batches = 0 };
    struct hrf_error ignored;
    hrf_work_queue_stop(work_queue);
    hrf_work_queue_gather(work_queue);
    if (hrf_work_queue_begin(work_queue, &nothing, &ignored) ==
        HRF_OK) /* results that arrive from here on are too late */
        hrf_results_keep(s->results);
    return status;
}

/* If a group of ranks cannot open the slide or create a network, the others score the tasks. If it
 * is rank 0's, the tasks fail for all. */
static enum hrf_status leave_out(struct hrf_worker *job, enum hrf_status status,
                                 struct hrf_error *err)
{
    struct hrf_work_queue *work_queue = hrf_ranks_work_queue(job->ranks);
    const struct hrf_work_queue_task nothing = queue_task(job, 0);
    struct hrf_error why;
    if (work_queue != NULL && hrf_work_queue_begin(work_queue, &nothing, &why) != HRF_OK)
        return hrf_error_set(err, why.status, "%s", why.text);
    return status;
}

/* `results` stay empty on all ranks except rank 0. */
static enum hrf_status score_task_score(struct scoring *s, struct hrf_results *results,
                                        struct hrf_error *err)
{
    struct hrf_worker *job = s->job;
    const bool is_root = hrf_ranks_is_root(job->ranks),
               is_image = hrf_workflow_is_slides(job->spec->settings);
    enum hrf_status status = hrf_worker_open_source(job, s->group, s->source, err);
    hrf_meters_begin(&job->meters, s->group->networks, s->group->n);
    for (int k = 0; k < s->group->n; k++)
        job->networks[s->group->networks[k]].spent = (struct hrf_resource_use){ 0 };
    if (status == HRF_OK && is_root) {
        status = hrf_results_init(results, job, s->group, s->source, err);
        s->results = results;
    }
    status = hrf_worker_settle(job, status, err);
    if (status != HRF_OK)
        return is_image ? status : leave_out(job, status, err);
    return is_image ? score_slide(s, err) : score_shared(s, err);
}

enum hrf_status hrf_worker_score(struct hrf_worker *job, const struct hrf_task_group *group,
                                 struct hrf_task_result *out, struct hrf_error *err)
{
    const double start = hrf_clock_seconds();
    HRF_AUTO_RELEASE(hrf_task_source) source = { .plan = NULL };
    HRF_AUTO_RELEASE(hrf_results) results = { .job = job };
    struct scoring s = { .job = job, .group = group, .source = &source };
    struct hrf_error why = { .status = HRF_OK };
    const enum hrf_status status = score_task_score(&s, &results, &why);
    if (status == HRF_OK && s.results != NULL)
        hrf_results_note_timing(&results, job, &source, start);
    for (int k = 0; k < group->n; k++) {
        out[k].status = status;
        out[k].err = why;
    }
    if (status == HRF_OK && s.results != NULL)
        hrf_results_finish(&results, out);
    return hrf_status_row(status)->ends_job ? hrf_error_pass(err, &why) : HRF_OK;
}
