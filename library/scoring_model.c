/* scoring_model.c - models of the C interface: an ONNX file, made ready for the shape it is given.
 */
#include "base/precision.h"
#include "calibrate/fit/fit.h"
#include "engine/onnx/onnx.h"
#include "engine/passes/lower.h"
#include "engine/run/calibrator.h"
#include "engine/run/nchw.h"
#include "engine/run/network.h"
#include "library/library_private.h"

#include <string.h>

struct hires_flow_model {
    struct hrf_graph *graph;    /* as read */
    struct hrf_graph *inferred; /* with its shapes and types for `shape`; NULL: not made ready */
    struct hrf_network *network;
    struct hrf_shape shape;
    char *precision, *device;
    int32_t n_threads;
    int64_t memory_limit_bytes;
    struct hrf_calibration *calibration; /* int8; NULL: none yet, or the model brings its own */
    struct hrf_calibrated calibrated;
    struct hrf_strbuf notes;
    float **outputs; /* of the last run, in ONNX's layout */
    bool has_run;
};

static bool needs_calibration(const struct hires_flow_model *model)
{
    return strcmp(model->precision, "int8") == 0 && !hrf_lower_brings_scales(model->graph);
}

static void forget_network(struct hires_flow_model *model)
{
    hrf_network_destroy(model->network);
    hrf_graph_destroy(model->inferred);
    model->network = NULL;
    model->inferred = NULL;
    for (int32_t i = 0; model->outputs != NULL && i < model->graph->n_outputs; i++) {
        hrf_free(model->outputs[i]);
        model->outputs[i] = NULL;
    }
    model->has_run = false;
}

void hires_flow_model_close(struct hires_flow_model *model)
{
    if (model == NULL)
        return;
    forget_network(model);
    hrf_calibrated_release(&model->calibrated);
    hrf_calibration_destroy(model->calibration);
    hrf_graph_destroy(model->graph);
    hrf_strbuf_release(&model->notes);
    hrf_free(model->outputs);
    hrf_free(model->precision);
    hrf_free(model->device);
    hrf_free(model);
}

static enum hrf_status check_words(const struct hires_flow_model *model, struct hrf_error *err)
{
    static const char *const devices[] = { "auto", "cpu", "cuda", "ref", NULL };
    bool is_device = false, is_precision = false;
    for (size_t i = 0; devices[i] != NULL; i++)
        is_device = is_device || strcmp(devices[i], model->device) == 0;
    for (size_t i = 0; hrf_precision_names[i] != NULL; i++)
        is_precision = is_precision || strcmp(hrf_precision_names[i], model->precision) == 0;
    if (!is_device)
        return hrf_error_set(err, HRF_E_USER, "device '%s' is none of auto, cpu, cuda, ref",
                             model->device);
    if (!is_precision)
        return hrf_error_set(err, HRF_E_USER,
                             "precision '%s' is none of fp32, tf32, fp16, bf16, int8",
                             model->precision);
    return HRF_OK;
}

static enum hrf_status set_calibration(struct hires_flow_model *model,
                                       struct hrf_calibration *calibration, struct hrf_error *err)
{
    hrf_calibrated_release(&model->calibrated);
    hrf_calibration_destroy(model->calibration);
    model->calibrated = (struct hrf_calibrated){ .ranges = NULL };
    model->calibration = calibration;
    return hrf_calibrated_init(calibration, &model->calibrated, err);
}

/* The members that the caller's struct, which may be of an earlier version, has. */
static struct hires_flow_model_options options_of(const struct hires_flow_model_options *given)
{
    struct hires_flow_model_options options = { .size = sizeof options };
    if (given != NULL)
        memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
    options.precision = options.precision != NULL ? options.precision : "fp32";
    options.device = options.device != NULL ? options.device : "auto";
    return options;
}

static enum hrf_status open_model(struct hires_flow_model *model, const char *path,
                                  const struct hires_flow_model_options *options,
                                  struct hrf_error *err)
{
    struct hrf_calibration *calibration = NULL;
    model->notes = (struct hrf_strbuf)HRF_STRBUF_INIT;
    model->precision = hrf_strdup(options->precision);
    model->device = hrf_strdup(options->device);
    HRF_CHECK_MEMORY(model->precision != NULL && model->device != NULL, err,
                     "no memory for the model");
    HRF_TRY(check_words(model, err));
    if (options->threads < 0 || options->threads > 4096 || options->memory_limit_bytes < 0)
        return hrf_error_set(err, HRF_E_USER,
                             "threads (%d) and memory_limit_bytes (%lld) must not be negative, "
                             "threads at most 4096",
                             options->threads, (long long)options->memory_limit_bytes);
    model->n_threads = options->threads;
    model->memory_limit_bytes = options->memory_limit_bytes;
    HRF_TRY(hrf_onnx_read(path, &model->graph, err));
    if (model->graph->n_inputs != 1)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has %d inputs; this interface runs models of one", path,
                             (int)model->graph->n_inputs);
    model->outputs = hrf_calloc((size_t)model->graph->n_outputs, sizeof *model->outputs);
    HRF_CHECK_MEMORY(model->outputs != NULL, err, "no memory for the model");
    if (options->calibration == NULL)
        return HRF_OK;
    if (!needs_calibration(model))
        return hrf_error_set(err, HRF_E_USER, "calibration '%s' cannot be used: %s",
                             options->calibration,
                             strcmp(model->precision, "int8") == 0 ? "the model has its own scales"
                                                                   : "the precision is not int8");
    HRF_TRY(hrf_calibration_read(options->calibration, &calibration, err));
    return set_calibration(model, calibration, err);
}

struct hires_flow_model *hires_flow_model_open(const char *path,
                                               const struct hires_flow_model_options *given)
{
    struct hrf_error err = { .status = HRF_OK };
    const struct hires_flow_model_options options = options_of(given);
    struct hires_flow_model *model = hrf_calloc(1, sizeof *model);
    enum hrf_status status = model != NULL ? open_model(model, path, &options, &err)
                                           : hrf_error_set(&err, HRF_E_NOMEM, "no memory");
    if (hrf_library_end(status, &err) == HIRES_FLOW_OK)
        return model;
    hires_flow_model_close(model);
    return NULL;
}

static enum hrf_status shape_of(const struct hires_flow_shape *given, struct hrf_shape *out,
                                struct hrf_error *err)
{
    if (given->rank < 1 || given->rank > HRF_MAX_RANK)
        return hrf_error_set(err, HRF_E_USER, "an array of rank %d is given; 1 to %d can be run",
                             given->rank, HRF_MAX_RANK);
    *out = (struct hrf_shape){ .rank = given->rank };
    memcpy(out->dims, given->dims, (size_t)given->rank * sizeof out->dims[0]);
    for (int i = 0; i < given->rank; i++)
        if (given->dims[i] < 1)
            return hrf_error_set(err, HRF_E_USER, "dimension %d of the array is %lld", i,
                                 (long long)given->dims[i]);
    if (hrf_shape_count(out) < 0)
        return hrf_error_set(err, HRF_E_USER, "the array has too many elements");
    return HRF_OK;
}

/* A network of `model` for `shape`; *inferred is the graph that it is made of. */
static enum hrf_status make_network(struct hires_flow_model *model, const char *precision,
                                    bool observes, const struct hrf_shape *shape,
                                    struct hrf_graph **inferred, struct hrf_network **out,
                                    struct hrf_error *err)
{
    struct hrf_network_config config = { .session = { .device = observes ? "cpu" : model->device,
                                                      .precision = precision,
                                                      .n_threads = model->n_threads,
                                                      .every_tensor = observes } };
    if (!observes) {
        config.session.memory_limit_bytes = model->memory_limit_bytes;
        config.session.ranges = model->calibrated.ranges;
        config.session.n_ranges = model->calibrated.n_ranges;
        config.session.keep = model->calibrated.keep;
        config.session.keep_reasons = model->calibrated.keep_reasons;
        config.session.n_keep = model->calibrated.n_keep;
    }
    HRF_TRY(hrf_graph_copy(model->graph, inferred, err));
    HRF_TRY(hrf_graph_set_input_shape(*inferred, 0, shape, err));
    HRF_TRY(hrf_graph_infer_shapes(*inferred, err));
    return hrf_network_create(*inferred, &config, out, err);
}

static enum hrf_status calibrate(struct hires_flow_model *model, const float *input,
                                 const struct hrf_shape *shape, struct hrf_error *err)
{
    struct hrf_observations seen = { .items = NULL };
    struct hrf_calibrator calibrator = { .observations = &seen };
    struct hrf_nchw_source source = { input, *shape };
    struct hrf_calibration *calibration = NULL;
    HRF_AUTO(hrf_graph) inferred = NULL;
    HRF_AUTO(hrf_network) network = NULL;
    HRF_AUTO(hrf_smoothing) smoothing = NULL;
    const struct hrf_session_config observing = { .device = "cpu",
                                                  .precision = "fp32",
                                                  .every_tensor = true };
    HRF_TRY(make_network(model, "fp32", true, shape, &inferred, &network, err));
    hrf_calibrator_watch(hrf_network_session(network), &calibrator);
    enum hrf_status status = hrf_network_run(network, hrf_nchw_read, &source, err);
    if (status == HRF_OK)
        status = hrf_smoothing_create(inferred, &observing, &smoothing, err);
    if (status == HRF_OK && smoothing != NULL) {
        calibrator.smoothing = smoothing;
        calibrator.tries_smoothing = true;
        status = hrf_network_run(network, hrf_nchw_read, &source, err);
    }
    if (status == HRF_OK)
        status = hrf_fit_all(&seen, HRF_FIT_KIND_MSE, &calibration, err);
    hrf_observations_release(&seen);
    HRF_TRY(status);
    status = hrf_fit_keep_noisy(calibration, HRF_FIT_MIN_SQNR_DB, err);
    if (status != HRF_OK) {
        hrf_calibration_destroy(calibration);
        return status;
    }
    forget_network(model);
    return set_calibration(model, calibration, err);
}

int hires_flow_model_calibrate(struct hires_flow_model *model, const float *input,
                               const struct hires_flow_shape *given)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_shape shape;
    enum hrf_status status = shape_of(given, &shape, &err);
    if (status == HRF_OK && !needs_calibration(model))
        status = hrf_error_set(&err, HRF_E_USER,
                               "only int8 is calibrated, and no model that has its own scales");
    if (status == HRF_OK)
        status = calibrate(model, input, &shape, &err);
    return hrf_library_end(status, &err);
}

static enum hrf_status make_ready(struct hires_flow_model *model, const float *input,
                                  const struct hrf_shape *shape, struct hrf_error *err)
{
    if (model->network != NULL && hrf_shape_equal(shape, &model->shape))
        return HRF_OK;
    forget_network(model);
    hrf_strbuf_clear(&model->notes);
    if (needs_calibration(model) && model->calibration == NULL) {
        HRF_TRY(calibrate(model, input, shape, err));
        hrf_strbuf_addf(&model->notes,
                        "calibrated on the first array (%lld in its first dimension): give a "
                        "calibration for results that do not depend on it\n",
                        (long long)shape->dims[0]);
    }
    enum hrf_status status = make_network(model, model->precision, false, shape, &model->inferred,
                                          &model->network, err);
    if (status != HRF_OK) {
        forget_network(model);
        return status;
    }
    model->shape = *shape;
    hrf_strbuf_addf(&model->notes, "%s", hrf_network_notes(model->network));
    return hrf_strbuf_status(&model->notes, err);
}

static enum hrf_status run_model(struct hires_flow_model *model, const float *input,
                                 const struct hires_flow_shape *given, struct hrf_error *err)
{
    struct hrf_shape shape;
    HRF_TRY(shape_of(given, &shape, err));
    HRF_TRY(make_ready(model, input, &shape, err));
    struct hrf_nchw_source source = { input, shape };
    model->has_run = false;
    HRF_TRY(hrf_network_run(model->network, hrf_nchw_read, &source, err));
    for (int32_t i = 0; i < model->graph->n_outputs; i++) {
        const struct hrf_shape out = hrf_network_output_shape(model->network, i);
        if (model->outputs[i] == NULL)
            model->outputs[i] = hrf_alloc_array((size_t)hrf_shape_count(&out), sizeof(float));
        HRF_CHECK_MEMORY(model->outputs[i] != NULL, err, "no memory for the outputs");
        hrf_nchw_from_output(hrf_network_output(model->network, i), &out, model->outputs[i]);
    }
    model->has_run = true;
    return HRF_OK;
}

int hires_flow_model_run(struct hires_flow_model *model, const float *input,
                         const struct hires_flow_shape *shape)
{
    struct hrf_error err = { .status = HRF_OK };
    const enum hrf_status status = run_model(model, input, shape, &err);
    return hrf_library_end(status, &err);
}

int hires_flow_model_n_outputs(const struct hires_flow_model *model)
{
    return model->graph->n_outputs;
}

const char *hires_flow_model_output_name(const struct hires_flow_model *model, int i)
{
    if (i < 0 || i >= model->graph->n_outputs)
        return NULL;
    return model->graph->values[model->graph->outputs[i]].name;
}

const float *hires_flow_model_output(const struct hires_flow_model *model, int i,
                                     struct hires_flow_shape *shape)
{
    if (!model->has_run || i < 0 || i >= model->graph->n_outputs)
        return NULL;
    const struct hrf_shape out = hrf_network_output_shape(model->network, i);
    *shape = (struct hires_flow_shape){ .rank = out.rank };
    memcpy(shape->dims, out.dims, (size_t)out.rank * sizeof out.dims[0]);
    return model->outputs[i];
}

const char *hires_flow_model_notes(const struct hires_flow_model *model)
{
    return model->notes.length > 0 ? model->notes.text : "";
}
