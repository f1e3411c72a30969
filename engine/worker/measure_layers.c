/* measure_layers.c - loss and time of every layer in INT8, on a few patches of a calibrate task,
 * for calibrate.budget. */
#include "base/log.h"
#include "engine/run/calibrator.h"
#include "engine/run/output_loss.h"
#include "engine/run/sensitivity.h"
#include "engine/worker/worker.h"

#include <math.h>
#include <string.h>

enum hrf_status hrf_worker_keep_images(struct hrf_worker *job, const struct hrf_network *network,
                                       const float *pixels, int64_t n,
                                       struct hrf_layer_images *images,
                                       struct hrf_observations *seen, struct hrf_error *err)
{
    const size_t n_values = (size_t)(job->size * job->size * 3);
    if (images->pixels == NULL)
        images->pixels = hrf_try_alloc_array(HRF_SENSITIVITY_WHOLE_IMAGES * n_values,
                                             sizeof(float));
    HRF_CHECK_MEMORY(images->pixels != NULL, err, "no memory to measure layers");
    for (int64_t i = 0; i < n && images->n < HRF_SENSITIVITY_WHOLE_IMAGES; i++)
        memcpy(images->pixels + (size_t)images->n++ * n_values, pixels + (size_t)i * n_values,
               n_values * sizeof(float));
    const float *scores = hrf_network_output(network, 0);
    seen->loss = hrf_workflow_compares_margins(job->spec->settings) ? HRF_LOSS_MARGIN
                                                                    : HRF_LOSS_COSINE;
    for (int64_t i = 0; i < n && seen->loss == HRF_LOSS_MARGIN; i++) {
        const double margin = hrf_output_margin(scores + i * job->n_values, job->n_values);
        if (isfinite(margin)) /* fitting names the tensor that broke */
            hrf_observations_margin(seen, margin);
    }
    return HRF_OK;
}

static enum hrf_status measure_layers_measure(struct hrf_worker *job,
                                              const struct hrf_layer_images *images,
                                              const struct hrf_calibrated *calibrated,
                                              struct hrf_observations *seen, struct hrf_error *err)
{
    const struct hrf_session_config config = { .device = hrf_device_name(
                                                   job->spec->settings->engine.device),
                                               .n_threads = (int32_t)job->spec->n_threads };
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_TRY(hrf_worker_make_graph(job, job->size, job->batch, &graph, err));
    struct hrf_shape shape = graph->values[graph->inputs[0]].shape;
    shape.dims[0] = images->n < HRF_SENSITIVITY_IMAGES ? images->n : HRF_SENSITIVITY_IMAGES;
    shape.dims[0] = hrf_graph_images(graph, &shape);
    if (shape.dims[0] > images->n)
        return hrf_error_set(err, HRF_E_USER,
                             "the layers' losses are measured on %lld images, and the model's file "
                             "fixes its batch to %lld: export it with an open batch",
                             (long long)images->n, (long long)shape.dims[0]);
    HRF_TRY(hrf_graph_set_input_shape(graph, 0, &shape, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    return hrf_sensitivity_measure(graph, &config, calibrated, images->pixels, images->n, seen,
                                   err);
}

static enum hrf_status fit(const struct hrf_workflow *settings, struct hrf_observations *seen,
                           struct hrf_calibration **out, struct hrf_error *err)
{
    HRF_TRY(hrf_fit_all(seen, settings->calibrate.method, out, err));
    hrf_fit_keep_noisy(*out, settings->calibrate.min_sqnr);
    return HRF_OK;
}

enum hrf_status hrf_worker_measure_layers(struct hrf_worker *job,
                                          const struct hrf_calibration *calibration,
                                          const struct hrf_layer_images *images,
                                          struct hrf_observations *seen, struct hrf_error *err)
{
    HRF_AUTO(hrf_calibration) fitted = NULL;
    HRF_AUTO_RELEASE(hrf_calibrated) calibrated = { .ranges = NULL };
    if (calibration == NULL)
        HRF_TRY(fit(job->spec->settings, seen, &fitted, err));
    hrf_calibrated_init(calibration != NULL ? calibration : fitted, &calibrated);
    const enum hrf_status status = measure_layers_measure(job, images, &calibrated, seen, err);
    HRF_TRY(status);
    hrf_log_info("engine", "measured %d layers on %d patches", (int)seen->n_layers, (int)images->n);
    return HRF_OK;
}
