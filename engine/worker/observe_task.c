/* observe_task.c - what every tensor holds on the patches of a task, in float32: for INT8's ranges.
 */
#include "base/crash.h"
#include "calibrate/observe/observations.h"
#include "engine/run/calibrator.h"
#include "engine/worker/worker.h"

static enum hrf_status observe_patches(struct hrf_worker *job, const struct hrf_job_task *task,
                                       struct hrf_task_source *source,
                                       struct hrf_calibrator *calibrator,
                                       struct hrf_layer_images *images, struct hrf_error *err)
{
    struct hrf_network *network = job->networks[task->network].network;
    for (int64_t done = 0; done < task->n_patches;) {
        struct hrf_feed_batch batch;
        HRF_TRY(hrf_feed_next(source->feed, &batch, err));
        struct hrf_batch_source pixels = {
            .pixels = batch.pixels[0], .n = batch.n, .size = job->size, .fed = source->fed
        };
        calibrator->n_images = batch.n; /* the unused part of a short last batch is ignored */
        HRF_TRY(hrf_network_run(network, hrf_worker_read_batch, &pixels, err));
        if (done == 0 && calibrator->smoothing != NULL) {
            calibrator->tries_smoothing = true;
            HRF_TRY(hrf_network_run(network, hrf_worker_read_batch, &pixels, err));
            calibrator->tries_smoothing = false;
        }
        if (task->measures_layers)
            HRF_TRY(hrf_worker_keep_images(job, network, batch.pixels[0], batch.n, images,
                                           calibrator->observations, err));
        hrf_crash_point("engine.observe.batch");
        done += batch.n;
        hrf_task_progress_write(job->directory, task->id, done, task->n_patches);
        if (hrf_worker_is_stopping())
            return hrf_error_set(err, HRF_E_AGAIN, "asked to stop by a signal");
    }
    return HRF_OK;
}

static enum hrf_status observe_slide(struct hrf_worker *job, const struct hrf_job_task *task,
                                     struct hrf_task_source *source,
                                     struct hrf_calibrator *calibrator, struct hrf_error *err)
{
    calibrator->n_images = 1;
    return hrf_worker_run_slide(job, task, (int)task->network, source, err);
}

static enum hrf_status measure_layers(struct hrf_worker *job, const struct hrf_layer_images *images,
                                      struct hrf_observations *seen, struct hrf_error *err)
{
    HRF_TRY(hrf_worker_measure_layers(job, NULL, images, seen, err));
    return seen->n_timed > 0
               ? HRF_OK
               : hrf_error_set(err, HRF_E_USER,
                               "calibrate.budget: layers are measured on processors, and this job "
                               "has another device; set engine.device to cpu, or leave the budget "
                               "out");
}

enum hrf_status hrf_worker_observe(struct hrf_worker *job, const struct hrf_job_task *task,
                                   struct hrf_bytes *record, struct hrf_error *err)
{
    const struct hrf_task_group group = { .tasks = { task },
                                          .networks = { (int)task->network },
                                          .n = 1 };
    HRF_AUTO_RELEASE(hrf_task_source) source = { .plan = NULL };
    HRF_AUTO_RELEASE(hrf_observations) seen = { .items = NULL };
    struct hrf_calibrator calibrator = { .observations = &seen };
    struct hrf_layer_images images = { .pixels = NULL };
    HRF_AUTO_FREE char *text = NULL;
    enum hrf_status status = hrf_worker_open_source(job, &group, &source, err);
    if (status == HRF_OK && !hrf_workflow_is_slides(job->spec->settings))
        status = hrf_worker_start_feed(job, &group, &source, err);
    if (status == HRF_OK) {
        struct hrf_session *session = hrf_network_session(job->networks[task->network].network);
        calibrator.smoothing = job->smoothing;
        calibrator.batch = hrf_session_input_shape(session, 0)->dims[0];
        hrf_calibrator_watch(session, &calibrator);
        status = source.feed != NULL
                     ? observe_patches(job, task, &source, &calibrator, &images, err)
                     : observe_slide(job, task, &source, &calibrator, err);
        hrf_session_observe(session, NULL, NULL);
    }
    if (status == HRF_OK && images.n > 0)
        status = measure_layers(job, &images, &seen, err);
    if (status == HRF_OK) {
        text = hrf_observations_encode(&seen);
        status = hrf_text_record_encode(HRF_OBSERVATIONS_KIND, &task->identity, text, record, err);
    }
    hrf_free(images.pixels);
    return status;
}
