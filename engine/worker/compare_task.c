/* compare_task.c - what INT8 loses in the network's output on patches that did not calibrate: both
 * networks side by side on the patches of a calibrate task, and, where it is much and there is no
 * budget yet, the loss and time of every layer, of which a budget is estimated. */
#include "calibrate/observe/observations.h"
#include "engine/run/output_loss.h"
#include "engine/worker/worker.h"

#include <string.h>

enum { FULL, LOW }; /* of the job's networks */

struct comparison {
    struct hrf_worker *job;
    const struct hrf_job_task *task;
    struct hrf_observations seen;
    struct hrf_layer_images images; /* to measure layers on */
    float *exact;                   /* float32's output for a batch; heap */
};

static int64_t output_count(const struct hrf_network *network)
{
    const struct hrf_shape shape = hrf_network_output_shape(network, 0);
    return hrf_shape_count(&shape);
}

/* Keeps float32's output of the images that both networks are run on. */
static void keep_exact(struct comparison *c)
{
    const struct hrf_network *full = c->job->networks[FULL].network;
    const size_t n_values = (size_t)output_count(full);
    if (c->exact == NULL)
        c->exact = hrf_alloc_array(n_values, sizeof *c->exact);
    memcpy(c->exact, hrf_network_output(full, 0), n_values * sizeof *c->exact);
}

/* What the other network has made of the first n images, each of n_values. */
static void add_loss(struct comparison *c, int64_t n, int64_t n_values)
{
    const struct hrf_network *low = c->job->networks[LOW].network;
    for (int64_t i = 0; i < n; i++)
        hrf_output_loss_add(&c->seen.lost, c->exact + i * n_values,
                            hrf_network_output(low, 0) + i * n_values, n_values,
                            hrf_workflow_n_scores(c->job->spec->settings));
}

static enum hrf_status compare_batch(struct comparison *c, const struct hrf_feed_batch *batch,
                                     const struct hrf_task_source *source, struct hrf_error *err)
{
    struct hrf_worker *job = c->job;
    struct hrf_network *full = job->networks[FULL].network, *low = job->networks[LOW].network;
    struct hrf_batch_source pixels = {
        .pixels = batch->pixels[0], .n = batch->n, .size = job->size, .fed = source->fed
    };
    HRF_TRY(hrf_network_run(full, hrf_worker_read_batch, &pixels, err));
    keep_exact(c);
    HRF_TRY(hrf_network_run(low, hrf_worker_read_batch, &pixels, err));
    add_loss(c, batch->n, output_count(low) / job->batch);
    return c->task->measures_layers ? hrf_worker_keep_images(job, full, batch->pixels[0], batch->n,
                                                             &c->images, &c->seen, err)
                                    : HRF_OK;
}

/* True if engine.memory, which is for all networks together, holds both. */
static bool both_fit(const struct hrf_worker *job)
{
    const int64_t limit = job->spec->settings->engine.memory_bytes;
    int64_t n_bytes = 0;
    for (int i = FULL; i <= LOW; i++) {
        const struct hrf_session_memory memory = hrf_network_memory(job->networks[i].network);
        n_bytes += hrf_session_memory_total(&memory);
    }
    return limit == 0 || n_bytes <= limit;
}

/* A slide that is one image. Its layers are not measured: each would take as long as the slide. */
static enum hrf_status compare_slide(struct comparison *c, struct hrf_task_source *source,
                                     struct hrf_error *err)
{
    HRF_TRY(hrf_worker_run_slide(c->job, c->task, FULL, source, err));
    keep_exact(c);
    HRF_TRY(hrf_worker_run_slide(c->job, c->task, LOW, source, err));
    add_loss(c, 1, output_count(c->job->networks[LOW].network));
    return HRF_OK;
}

static enum hrf_status compare_task_compare(struct comparison *c, struct hrf_task_source *source,
                                            struct hrf_error *err)
{
    struct hrf_worker *job = c->job;
    const struct hrf_job_task *task = c->task;
    const struct hrf_task_group group = { .tasks = { task }, .networks = { LOW }, .n = 1 };
    HRF_TRY(hrf_worker_open_source(job, &group, source, err));
    HRF_TRY(hrf_worker_make_network(job, FULL, job->size, job->batch, err));
    if (!both_fit(job))
        return HRF_OK; /* and nothing was compared */
    if (hrf_workflow_is_slides(job->spec->settings))
        return compare_slide(c, source, err);
    HRF_TRY(hrf_worker_start_feed(job, &group, source, err));
    for (int64_t done = 0; done < task->n_patches;) {
        struct hrf_feed_batch batch;
        HRF_TRY(hrf_feed_next(source->feed, &batch, err));
        HRF_TRY(compare_batch(c, &batch, source, err));
        done += batch.n;
        hrf_task_progress_write(job->directory, task->id, done, task->n_patches);
        if (hrf_worker_is_stopping())
            return hrf_error_set(err, HRF_E_AGAIN, "asked to stop by a signal");
    }
    const struct hrf_observed_loss *lost = &c->seen.lost;
    if (!task->measures_layers ||
        !hrf_loss_is_large(hrf_observed_loss_sqnr_db(lost), lost->n_labels, lost->n_changed))
        return HRF_OK;
    return hrf_worker_measure_layers(job, job->networks[LOW].calibration, &c->images, &c->seen,
                                     err);
}

enum hrf_status hrf_worker_compare(struct hrf_worker *job, const struct hrf_job_task *task,
                                   struct hrf_bytes *record, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_task_source) source = { .plan = NULL };
    struct comparison c = { .job = job, .task = task };
    HRF_AUTO_FREE char *text = NULL;
    enum hrf_status status = compare_task_compare(&c, &source, err);
    if (status == HRF_OK) {
        text = hrf_observations_encode(&c.seen);
        status = hrf_text_record_encode(HRF_OBSERVATIONS_KIND, &task->identity, text, record, err);
    }
    hrf_free(c.exact);
    hrf_free(c.images.pixels);
    hrf_observations_release(&c.seen);
    return status;
}
