/* scoring_model.c - models of the C interface: an ONNX file, made ready for patches to be scored,
 * or for arrays of the shape that it is given. */
#include "base/args.h"
#include "calibrate/fit/fit.h"
#include "engine/onnx/onnx.h"
#include "engine/passes/lower.h"
#include "engine/planning/request.h"
#include "engine/run/calibrator.h"
#include "engine/run/nchw.h"
#include "engine/run/network.h"
#include "library/library_private.h"
#include "library/patch_input.h"
#include "schema/record/input_entry.h"
#include "schema/settings/precision.h"

#include <math.h>
#include <string.h>

enum { MAX_SIDE = 8192, MAX_BATCH = 32 };

enum scoring_output { PROBABILITIES, SOFTMAX, SIGMOID, NONE, EMBEDDING };
static const char *const output_words[] = { "probabilities", "softmax",   "sigmoid",
                                            "none",          "embedding", NULL };

/* How patches are scored: what a workflow's `model` says. */
struct scoring {
    char **classes;
    int64_t n_classes;
    enum scoring_output output;
    struct hrf_model_input input;
    struct hrf_preparation asked;
    double mean[3], std[3];
    float *pixels, *scores; /* of a batch; of the last call */
    int64_t n_scores;       /* of a patch */
};

struct hires_flow_model {
    char *path;
    struct scoring scoring;
    struct hrf_graph *graph;    /* as read */
    struct hrf_graph *inferred; /* with its shapes and types for `shape`; NULL: not made ready */
    struct hrf_network *network;
    struct hrf_shape shape; /* of a batch */
    int64_t n_images;  /* of the last raw call: a batch, or more or fewer if the file fixes one */
    bool gives_scores; /* the network's output; else the file's own */
    enum hrf_precision precision;
    char *device;
    int32_t n_threads;
    int64_t memory_limit_bytes;
    struct hrf_calibration *calibration; /* int8; NULL: none yet, or the model brings its own */
    struct hrf_calibrated calibrated;
    struct hrf_strbuf notes;
    float **outputs; /* the outputs of the last run, in ONNX's layout */
    bool has_run;
};

static bool needs_calibration(const struct hires_flow_model *model)
{
    return hrf_precision_row(model->precision)->needs_scales &&
           !hrf_lower_brings_scales(model->graph);
}

static void forget_outputs(struct hires_flow_model *model)
{
    for (int32_t i = 0; model->outputs != NULL && i < model->graph->n_outputs; i++) {
        hrf_free(model->outputs[i]);
        model->outputs[i] = NULL;
    }
    model->has_run = false;
}

static void forget_network(struct hires_flow_model *model)
{
    hrf_network_destroy(model->network);
    hrf_graph_destroy(model->inferred);
    model->network = NULL;
    model->inferred = NULL;
    forget_outputs(model);
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
    for (int64_t i = 0; model->scoring.classes != NULL && i < model->scoring.n_classes; i++)
        hrf_free(model->scoring.classes[i]);
    hrf_free(model->scoring.classes);
    hrf_free(model->scoring.pixels);
    hrf_free(model->scoring.scores);
    hrf_free(model->path);
    hrf_free(model->outputs);
    hrf_free(model->device);
    hrf_free(model);
}

/* *index: which of `words` the option's word is. */
static enum hrf_status find_word(const char *option, const char *word, const char *const words[],
                                 int *index, struct hrf_error *err)
{
    char list[128];
    *index = hrf_word_index(word, words);
    if (*index >= 0)
        return HRF_OK;
    hrf_words_list(words, list, sizeof list);
    return hrf_error_set(err, HRF_E_USER, "%s '%s' is none of %s", option, word, list);
}

static void set_calibration(struct hires_flow_model *model, struct hrf_calibration *calibration)
{
    hrf_calibrated_release(&model->calibrated);
    hrf_calibration_destroy(model->calibration);
    model->calibrated = (struct hrf_calibrated){ .ranges = NULL };
    model->calibration = calibration;
    hrf_calibrated_init(calibration, &model->calibrated);
}

/* Copies the members that the caller's struct has, which may be shorter than this library's. */
static struct hires_flow_model_options options_of(const struct hires_flow_model_options *given)
{
    struct hires_flow_model_options options = { .size = sizeof options };
    if (given != NULL)
        memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
    options.precision = options.precision != NULL ? options.precision
                                                  : hrf_precision_name(HRF_FP32);
    options.device = options.device != NULL ? options.device : "auto";
    options.output = options.output != NULL ? options.output : "probabilities";
    if (options.input_interpolation == NULL)
        options.input_interpolation = hrf_interpolation_names[HRF_INTERPOLATION_AUTO];
    return options;
}

/* ---- how patches are scored ---- */

static enum hrf_status take_classes(struct scoring *s,
                                    const struct hires_flow_model_options *options,
                                    struct hrf_error *err)
{
    enum { MOST = 4096 };
    if (options->n_classes < 0 || options->n_classes > MOST ||
        (options->n_classes > 0) != (options->classes != NULL))
        return hrf_error_set(err, HRF_E_USER, "n_classes is %d; at most %d names can be given",
                             options->n_classes, (int)MOST);
    s->classes = hrf_calloc((size_t)options->n_classes + 1, sizeof *s->classes);
    s->n_classes = options->n_classes;
    for (int64_t i = 0; i < s->n_classes; i++) {
        s->classes[i] = hrf_strdup(options->classes[i]);
        for (int64_t k = 0; k < i; k++)
            if (strcmp(s->classes[i], s->classes[k]) == 0)
                return hrf_error_set(err, HRF_E_USER, "the class '%s' is named twice",
                                     s->classes[i]);
    }
    return HRF_OK;
}

static enum hrf_status take_output(struct scoring *s, const char *output, struct hrf_error *err)
{
    int index;
    HRF_TRY(find_word("output", output, output_words, &index, err));
    s->output = (enum scoring_output)index;
    if (s->output == EMBEDDING && s->n_classes > 0)
        return hrf_error_set(err, HRF_E_USER, "the numbers of an embedding are no classes");
    return HRF_OK;
}

/* Takes mean and deviation from the options, else from the file, else the defaults of a workflow.
 * */
static enum hrf_status take_colours(struct scoring *s,
                                    const struct hires_flow_model_options *options,
                                    struct hrf_error *err)
{
    const double mean[] = { HRF_IMAGENET_MEAN }, std[] = { HRF_IMAGENET_STD };
    bool is_given = false;
    for (int c = 0; c < 3; c++)
        is_given = is_given || options->input_std[c] != 0.0 || options->input_mean[c] != 0.0;
    for (int c = 0; c < 3; c++) {
        s->mean[c] = is_given ? options->input_mean[c]
                              : (s->input.is_known ? s->input.mean : mean)[c];
        s->std[c] = is_given ? options->input_std[c] : (s->input.is_known ? s->input.std : std)[c];
        if (!(fabs(s->mean[c]) <= 10) || !(s->std[c] >= 1e-6 && s->std[c] <= 1000))
            return hrf_error_set(err, HRF_E_USER,
                                 "input_mean is %g and input_std %g for channel %d: both are given "
                                 "or neither, the mean -10 to 10, the deviation 1e-06 to 1000",
                                 s->mean[c], s->std[c], c);
    }
    return HRF_OK;
}

static enum hrf_status take_scoring(struct hires_flow_model *model,
                                    const struct hires_flow_model_options *options,
                                    struct hrf_error *err)
{
    struct scoring *s = &model->scoring;
    HRF_AUTO_FREE char *entry = NULL;
    int interpolation;
    HRF_TRY(take_classes(s, options, err));
    HRF_TRY(take_output(s, options->output, err));
    HRF_TRY(hrf_onnx_read_entry(model->path, HRF_MODEL_INPUT_KEY, &entry, err));
    if (entry != NULL)
        HRF_TRY(hrf_model_input_parse(entry, strlen(entry), model->path, &s->input, err));
    HRF_TRY(take_colours(s, options, err));
    HRF_TRY(find_word("input_interpolation", options->input_interpolation, hrf_interpolation_names,
                      &interpolation, err));
    s->asked = (struct hrf_preparation){ options->input_size, options->input_resize,
                                         (enum hrf_interpolation)interpolation };
    if (s->asked.size < 0 || s->asked.size > MAX_SIDE || s->asked.resize < 0 ||
        s->asked.resize > MAX_SIDE)
        return hrf_error_set(err, HRF_E_USER,
                             "input_size (%lld) and input_resize (%lld) are 0 to %d px",
                             (long long)s->asked.size, (long long)s->asked.resize, (int)MAX_SIDE);
    return HRF_OK;
}

/* ---- opening ---- */

static enum hrf_status open_model(struct hires_flow_model *model, const char *path,
                                  const struct hires_flow_model_options *options,
                                  struct hrf_error *err)
{
    static const char *const devices[] = { "auto", "cpu", "cuda", "ref", NULL };
    struct hrf_calibration *calibration = NULL;
    int index;
    model->notes = (struct hrf_strbuf)HRF_STRBUF_INIT;
    model->path = hrf_strdup(path);
    model->device = hrf_strdup(options->device);
    HRF_TRY(find_word("device", options->device, devices, &index, err));
    HRF_TRY(find_word("precision", options->precision, hrf_precision_names, &index, err));
    model->precision = (enum hrf_precision)index;
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
    HRF_TRY(take_scoring(model, options, err));
    model->outputs = hrf_calloc((size_t)model->graph->n_outputs, sizeof *model->outputs);
    if (options->calibration == NULL)
        return HRF_OK;
    if (!needs_calibration(model))
        return hrf_error_set(err, HRF_E_USER, "calibration '%s' cannot be used: %s",
                             options->calibration,
                             model->precision == HRF_INT8 ? "the model has its own scales"
                                                          : "the precision is not int8");
    HRF_TRY(hrf_calibration_read(options->calibration, &calibration, err));
    set_calibration(model, calibration);
    return HRF_OK;
}

struct hires_flow_model *hires_flow_model_open(const char *path,
                                               const struct hires_flow_model_options *given)
{
    struct hrf_error err = { .status = HRF_OK };
    const struct hires_flow_model_options options = options_of(given);
    struct hires_flow_model *model = hrf_calloc(1, sizeof *model);
    const enum hrf_status status = open_model(model, path, &options, &err);
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

/* What is run: arrays of a shape as they are, or images whose scores are wanted. */
struct wanted {
    struct hrf_shape shape;
    bool gives_scores;
};

static enum hrf_status finish_scores(struct scoring *s, struct hrf_graph *graph,
                                     struct hrf_error *err)
{
    s->n_scores = s->n_classes;
    return s->output == EMBEDDING
               ? hrf_engine_check_embedding(graph, &s->n_scores, err)
               : hrf_engine_finish_scores(
                     graph, s->n_classes,
                     s->output == PROBABILITIES ? NULL : output_words[s->output], err);
}

/* Makes a network of `model` for what is wanted; *inferred is the graph that it is made of. */
static enum hrf_status make_network(struct hires_flow_model *model, enum hrf_precision precision,
                                    bool observes, const struct wanted *wanted,
                                    struct hrf_graph **inferred, struct hrf_network **out,
                                    struct hrf_error *err)
{
    const struct hrf_shape *shape = &wanted->shape;
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
    HRF_TRY(wanted->gives_scores
                ? hrf_engine_set_image_input(*inferred, shape->dims[0], shape->dims[2], err)
                : hrf_graph_set_input_shape(*inferred, 0, shape, err));
    HRF_TRY(hrf_graph_infer_shapes(*inferred, err));
    if (wanted->gives_scores)
        HRF_TRY(finish_scores(&model->scoring, *inferred, err));
    return hrf_network_create(*inferred, &config, out, err);
}

/* The arrays that a calibration observes, each of the same shape. */
struct sample {
    int64_t n;
    const float *(*get)(void *context, int64_t i); /* valid until the next */
    void *context;
};

static enum hrf_status scoring_model_observe(struct hrf_network *network,
                                             const struct sample *sample,
                                             const struct hrf_shape *shape, struct hrf_error *err)
{
    for (int64_t i = 0; i < sample->n; i++) {
        struct hrf_nchw_source source = { sample->get(sample->context, i), *shape };
        HRF_TRY(hrf_network_run(network, hrf_nchw_read, &source, err));
    }
    return HRF_OK;
}

static enum hrf_status calibrate(struct hires_flow_model *model, const struct sample *sample,
                                 const struct wanted *wanted, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_observations) seen = { .items = NULL };
    struct hrf_calibrator calibrator = { .observations = &seen };
    struct hrf_calibration *calibration = NULL;
    HRF_AUTO(hrf_graph) inferred = NULL;
    HRF_AUTO(hrf_network) network = NULL;
    HRF_AUTO(hrf_smoothing) smoothing = NULL;
    const struct hrf_session_config observing = { .device = "cpu",
                                                  .precision = HRF_FP32,
                                                  .every_tensor = true };
    HRF_TRY(make_network(model, HRF_FP32, true, wanted, &inferred, &network, err));
    hrf_calibrator_watch(hrf_network_session(network), &calibrator);
    enum hrf_status status = scoring_model_observe(network, sample, &wanted->shape, err);
    if (status == HRF_OK)
        status = hrf_smoothing_create(inferred, &observing, &smoothing, err);
    if (status == HRF_OK && smoothing != NULL) {
        calibrator.smoothing = smoothing;
        calibrator.tries_smoothing = true;
        status = scoring_model_observe(network, sample, &wanted->shape, err);
    }
    if (status == HRF_OK)
        status = hrf_fit_all(&seen, HRF_FIT_MSE, &calibration, err);
    HRF_TRY(status);
    hrf_fit_keep_noisy(calibration, HRF_FIT_MIN_SQNR_DB);
    forget_network(model);
    set_calibration(model, calibration);
    return HRF_OK;
}

struct array {
    const float *input;
    int64_t n_batch; /* elements of an array */
};

static const float *get_array(void *context, int64_t i)
{
    const struct array *array = context;
    return array->input + i * array->n_batch;
}

/* Calibrates on an array of n batches. */
static enum hrf_status calibrate_on(struct hires_flow_model *model, const float *input, int64_t n,
                                    const struct wanted *wanted, struct hrf_error *err)
{
    struct array array = { input, hrf_shape_count(&wanted->shape) };
    const struct sample sample = { n, get_array, &array };
    return calibrate(model, &sample, wanted, err);
}

static enum hrf_status check_calibrates(const struct hires_flow_model *model, struct hrf_error *err)
{
    return needs_calibration(model)
               ? HRF_OK
               : hrf_error_set(err, HRF_E_USER,
                               "only int8 is calibrated, and no model that has its own scales");
}

int hires_flow_model_calibrate_raw(struct hires_flow_model *model, const float *input,
                                   const struct hires_flow_shape *given)
{
    struct hrf_error err = { .status = HRF_OK };
    struct wanted wanted = { .gives_scores = false };
    enum hrf_status status = shape_of(given, &wanted.shape, &err);
    if (status == HRF_OK)
        status = check_calibrates(model, &err);
    const int64_t n = wanted.shape.dims[0];
    if (status == HRF_OK) {
        wanted.shape.dims[0] = hrf_graph_images(model->graph, &wanted.shape);
        if (n % wanted.shape.dims[0] != 0)
            status = hrf_error_set(&err, HRF_E_USER,
                                   "'%s' takes batches of %lld: calibrate on a multiple of it, not "
                                   "%lld",
                                   model->path, (long long)wanted.shape.dims[0], (long long)n);
    }
    if (status == HRF_OK)
        status = calibrate_on(model, input, n / wanted.shape.dims[0], &wanted, &err);
    return hrf_library_end(status, &err);
}

static enum hrf_status make_ready(struct hires_flow_model *model, const float *input,
                                  const struct wanted *wanted, struct hrf_error *err)
{
    if (model->network != NULL && model->gives_scores == wanted->gives_scores &&
        hrf_shape_equal(&wanted->shape, &model->shape))
        return HRF_OK;
    forget_network(model);
    hrf_strbuf_clear(&model->notes);
    if (needs_calibration(model) && model->calibration == NULL) {
        HRF_TRY(calibrate_on(model, input, 1, wanted, err));
        hrf_strbuf_addf(&model->notes,
                        "calibrated on the first array (%lld in its first dimension): give a "
                        "calibration for results that do not depend on it\n",
                        (long long)wanted->shape.dims[0]);
    }
    enum hrf_status status = make_network(model, model->precision, false, wanted, &model->inferred,
                                          &model->network, err);
    if (status != HRF_OK) {
        forget_network(model);
        return status;
    }
    model->shape = wanted->shape;
    model->gives_scores = wanted->gives_scores;
    hrf_strbuf_addf(&model->notes, "%s", hrf_network_notes(model->network));
    return HRF_OK;
}

/* Computes `input`; the outputs are those of the network. */
static enum hrf_status run_network(struct hires_flow_model *model, const float *input,
                                   const struct wanted *wanted, struct hrf_error *err)
{
    struct hrf_nchw_source source = { input, wanted->shape };
    HRF_TRY(make_ready(model, input, wanted, err));
    model->has_run = false;
    return hrf_network_run(model->network, hrf_nchw_read, &source, err);
}

/* ---- patches ---- */

static enum hrf_status check_patches(const struct hires_flow_model *model, int64_t n, int64_t size,
                                     struct hrf_error *err)
{
    const int rank = model->graph->values[model->graph->inputs[0]].shape.rank;
    if (rank != 4)
        return hrf_error_set(err, HRF_E_USER,
                             "the input of '%s' has %d dimensions: it takes no patches; run it raw",
                             model->path, rank);
    if (n < 1 || size < 1 || size > MAX_SIDE)
        return hrf_error_set(err, HRF_E_USER,
                             "%lld patches of %lld px are given; a call takes one or more, of 1 to "
                             "%d px",
                             (long long)n, (long long)size, (int)MAX_SIDE);
    if (model->scoring.n_classes == 0 && model->scoring.output != EMBEDDING)
        return hrf_error_set(err, HRF_E_USER,
                             "the classes of '%s' are not named: its options need `classes`, one "
                             "for each number of its output, or output 'embedding'",
                             model->path);
    return HRF_OK;
}

/* Patches on their way into the network, in batches. */
struct patches {
    struct hires_flow_model *model;
    const uint8_t *rgb;
    int64_t n, size;
    struct hrf_patch_input *input;
    bool is_fixed;        /* by the file: batches of no other size can be run */
    struct wanted wanted; /* of a batch; the model's `pixels` has room for one */
};

static void patches_release(struct patches *p)
{
    hrf_patch_input_destroy(p->input);
}

static enum hrf_status patches_init(struct patches *p, struct hires_flow_model *model,
                                    const uint8_t *rgb, int64_t n, int64_t size,
                                    struct hrf_error *err)
{
    struct scoring *s = &model->scoring;
    struct hrf_preparation preparation;
    *p = (struct patches){ .model = model, .rgb = rgb, .n = n, .size = size };
    HRF_TRY(check_patches(model, n, size, err));
    HRF_TRY(hrf_model_input_prepare(&s->input, model->path, &s->asked, size, &preparation, err));
    hrf_patch_input_create(size, &preparation, s->mean, s->std, &p->input);
    const int64_t side = hrf_patch_input_side(p->input), most = n < MAX_BATCH ? n : MAX_BATCH;
    p->wanted = (struct wanted){ { .rank = 4, .dims = { most, 3, side, side } }, true };
    p->is_fixed = hrf_graph_fixed_batch(model->graph, &p->wanted.shape) > 0;
    const int64_t batch = hrf_graph_images(model->graph, &p->wanted.shape);
    p->wanted.shape.dims[0] = batch;
    hrf_free(s->pixels);
    s->pixels = hrf_try_alloc_array((size_t)(batch * 3 * side), (size_t)side * sizeof(float));
    HRF_CHECK_MEMORY(s->pixels != NULL, err, "no memory for %lld images of %lld px",
                     (long long)batch, (long long)side);
    return HRF_OK;
}

/* The batch from patch `first` on; the last patch stands in for those that a fixed batch lacks. */
static const float *fill_batch(const struct patches *p, int64_t first)
{
    const struct hrf_shape *shape = &p->wanted.shape;
    float *pixels = p->model->scoring.pixels;
    for (int64_t i = 0; i < shape->dims[0]; i++) {
        const int64_t patch = first + i < p->n ? first + i : p->n - 1;
        hrf_patch_input_fill(p->input, p->rgb + patch * p->size * p->size * 3,
                             pixels + i * 3 * shape->dims[2] * shape->dims[3]);
    }
    return pixels;
}

static enum hrf_status scoring_model_score(struct patches *p, struct hrf_error *err)
{
    struct hires_flow_model *model = p->model;
    struct scoring *s = &model->scoring;
    int64_t *batch = &p->wanted.shape.dims[0];
    hrf_free(s->scores);
    s->scores = NULL;
    for (int64_t first = 0; first < p->n; first += *batch) {
        const int64_t left = p->n - first;
        if (left < *batch && !p->is_fixed)
            *batch = left;
        const int64_t n_done = left < *batch ? left : *batch;
        HRF_TRY(run_network(model, fill_batch(p, first), &p->wanted, err));
        if (s->scores == NULL)
            s->scores = hrf_try_alloc_array((size_t)p->n, (size_t)s->n_scores * sizeof(float));
        HRF_CHECK_MEMORY(s->scores != NULL, err, "no memory for the scores of %lld patches",
                         (long long)p->n);
        memcpy(s->scores + first * s->n_scores, hrf_network_output(model->network, 0),
               (size_t)(n_done * s->n_scores) * sizeof(float));
    }
    return HRF_OK;
}

const float *hires_flow_model_score(struct hires_flow_model *model, const uint8_t *rgb, int64_t n,
                                    int64_t size, int64_t *n_scores)
{
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_RELEASE(patches) patches = { .n = 0 };
    enum hrf_status status = patches_init(&patches, model, rgb, n, size, &err);
    if (status == HRF_OK)
        status = scoring_model_score(&patches, &err);
    if (hrf_library_end(status, &err) != HIRES_FLOW_OK)
        return NULL;
    if (n_scores != NULL)
        *n_scores = model->scoring.n_scores;
    return model->scoring.scores;
}

const char *hires_flow_model_class(const struct hires_flow_model *model, int64_t i)
{
    return i >= 0 && i < model->scoring.n_classes ? model->scoring.classes[i] : NULL;
}

static const float *get_batch(void *context, int64_t i)
{
    const struct patches *p = context;
    return fill_batch(p, i * p->wanted.shape.dims[0]);
}

/* Calibrates on batches that hold every patch once. */
static enum hrf_status calibrate_patches(struct patches *p, struct hrf_error *err)
{
    int64_t *batch = &p->wanted.shape.dims[0];
    if (p->is_fixed && p->n % *batch != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' takes batches of %lld: calibrate on a multiple of it, not %lld "
                             "patches",
                             p->model->path, (long long)*batch, (long long)p->n);
    while (p->n % *batch != 0)
        --*batch;
    const struct sample sample = { p->n / *batch, get_batch, p };
    return calibrate(p->model, &sample, &p->wanted, err);
}

int hires_flow_model_calibrate(struct hires_flow_model *model, const uint8_t *rgb, int64_t n,
                               int64_t size)
{
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_RELEASE(patches) patches = { .n = 0 };
    enum hrf_status status = patches_init(&patches, model, rgb, n, size, &err);
    if (status == HRF_OK)
        status = check_calibrates(model, &err);
    if (status == HRF_OK)
        status = calibrate_patches(&patches, &err);
    return hrf_library_end(status, &err);
}

/* ---- arrays as they are ---- */

/* Finds the shape of an output of the last call, which may have been of several batches. */
static enum hrf_status output_shape(const struct hires_flow_model *model, int32_t i,
                                    struct hrf_shape *out, struct hrf_error *err)
{
    const long long batch = model->shape.dims[0];
    *out = hrf_network_output_shape(model->network, i);
    if (model->n_images == batch)
        return HRF_OK;
    if (out->rank < 1 || out->dims[0] != batch)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' takes %lld images at a time, and its output '%s' does not have "
                             "them as its first dimension: give it %lld",
                             model->path, batch, hires_flow_model_output_name(model, i), batch);
    out->dims[0] = model->n_images;
    return HRF_OK;
}

/* Takes the outputs of images [first, first + n) of the last call. */
static enum hrf_status take_outputs(struct hires_flow_model *model, int64_t first, int64_t n,
                                    struct hrf_error *err)
{
    for (int32_t i = 0; i < model->graph->n_outputs; i++) {
        struct hrf_shape part = hrf_network_output_shape(model->network, i), all;
        HRF_TRY(output_shape(model, i, &all, err));
        if (model->outputs[i] == NULL)
            model->outputs[i] = hrf_try_alloc_array((size_t)hrf_shape_count(&all), sizeof(float));
        HRF_CHECK_MEMORY(model->outputs[i] != NULL, err, "no memory for the outputs");
        const int64_t place = first * (hrf_shape_count(&part) / model->shape.dims[0]);
        if (model->n_images != model->shape.dims[0])
            part.dims[0] = n;
        hrf_nchw_from_output(hrf_network_output(model->network, i), &part,
                             model->outputs[i] + place);
    }
    return HRF_OK;
}

static enum hrf_status run_raw(struct hires_flow_model *model, const float *input,
                               const struct hires_flow_shape *given, struct hrf_error *err)
{
    struct wanted wanted = { .gives_scores = false };
    HRF_TRY(shape_of(given, &wanted.shape, err));
    const int64_t n = wanted.shape.dims[0], per_image = hrf_shape_count(&wanted.shape) / n;
    const int64_t batch = hrf_graph_images(model->graph, &wanted.shape);
    HRF_AUTO_FREE float *filled = NULL;
    wanted.shape.dims[0] = batch;
    if (n != model->n_images)
        forget_outputs(model);
    model->n_images = n;
    for (int64_t first = 0; first < n; first += batch) {
        const float *images = input + first * per_image;
        const int64_t left = n - first < batch ? n - first : batch;
        if (left < batch) { /* the last image stands in for those that the batch lacks */
            filled = hrf_alloc_array((size_t)(batch * per_image), sizeof *filled);
            for (int64_t i = 0; i < batch; i++)
                memcpy(filled + i * per_image, images + (i < left ? i : left - 1) * per_image,
                       (size_t)per_image * sizeof *filled);
            images = filled;
        }
        HRF_TRY(run_network(model, images, &wanted, err));
        HRF_TRY(take_outputs(model, first, left, err));
    }
    model->has_run = true;
    return HRF_OK;
}

int hires_flow_model_run_raw(struct hires_flow_model *model, const float *input,
                             const struct hires_flow_shape *shape)
{
    struct hrf_error err = { .status = HRF_OK };
    const enum hrf_status status = run_raw(model, input, shape, &err);
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
    struct hrf_shape out;
    if (output_shape(model, i, &out, NULL) != HRF_OK)
        return NULL;
    *shape = (struct hires_flow_shape){ .rank = out.rank };
    memcpy(shape->dims, out.dims, (size_t)out.rank * sizeof out.dims[0]);
    return model->outputs[i];
}

const char *hires_flow_model_notes(const struct hires_flow_model *model)
{
    return model->notes.length > 0 ? model->notes.text : "";
}
