/* eval.c - `hires-engine eval`: one network over one array, the tool for checking us. */
#include "base/path.h"
#include "engine/cli/cli.h"
#include "engine/input/npy.h"
#include "engine/onnx/onnx.h"
#include "engine/run/calibrator.h"
#include "engine/run/parallel.h"

#include <stdio.h>
#include <string.h>

struct request {
    const char *model, *input, *output, *device, *precision, *layout, *scales, *save, *method;
    double min_sqnr; /* dB */
    struct hrf_option_list keep;
    int64_t batch, threads;
};

/* Rank-4 arrays are N, C, H, W in files and N, H, W, C in sessions; others are the same. */
static void to_session(const float *nchw, const struct hrf_shape *shape, float *nhwc)
{
    if (shape->rank != 4) {
        memcpy(nhwc, nchw, (size_t)hrf_shape_count(shape) * sizeof *nhwc);
        return;
    }
    int64_t channels = shape->dims[1], area = shape->dims[2] * shape->dims[3];
    for (int64_t n = 0; n < shape->dims[0]; n++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t i = 0; i < area; i++)
                nhwc[(n * area + i) * channels + c] = nchw[(n * channels + c) * area + i];
}

static void from_session(const float *nhwc, const struct hrf_shape *shape, float *nchw)
{
    if (shape->rank != 4) {
        memcpy(nchw, nhwc, (size_t)hrf_shape_count(shape) * sizeof *nchw);
        return;
    }
    int64_t channels = shape->dims[1], area = shape->dims[2] * shape->dims[3];
    for (int64_t n = 0; n < shape->dims[0]; n++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t i = 0; i < area; i++)
                nchw[(n * channels + c) * area + i] = nhwc[(n * area + i) * channels + c];
}

/* The array in pieces of a batch, through sessions of one precision, or through ranks. */
struct run {
    const struct request *request;
    const struct hrf_graph *graph;
    const char *precision;
    const struct hrf_calibrated *calibrated; /* NULL: not needed */
    struct hrf_calibrator *calibrator;       /* NULL: nobody watches */
    const char *layout;                      /* NULL: one rank */
    struct hrf_session *session;             /* of one rank */
    struct hrf_parallel *parallel;           /* or of several */
    struct hrf_array_source source;          /* what they read: `images` in memory order */
    float *images;
};

enum { WATCHDOG_MS = 120000 }; /* a single kernel of the largest images takes less */

static void close_session(struct run *run)
{
    hrf_session_destroy(run->session);
    hrf_parallel_destroy(run->parallel);
    hrf_free(run->images);
    run->session = NULL;
    run->parallel = NULL;
    run->images = NULL;
}

static enum hrf_status open_ranks(struct run *run, const struct hrf_graph *graph,
                                  const struct hrf_session_config *config,
                                  const struct hrf_shape *shape, struct hrf_error *err)
{
    struct hrf_layout_plan layout;
    HRF_TRY(hrf_layout_parse(run->layout, &layout, err));
    run->images = hrf_alloc_array((size_t)hrf_shape_count(shape), sizeof *run->images);
    if (run->images == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the images");
    run->source = (struct hrf_array_source){ run->images, *shape };
    return hrf_parallel_create(graph, config, &layout, WATCHDOG_MS, &run->parallel, err);
}

static enum hrf_status open_session(struct run *run, const struct hrf_shape *shape,
                                    struct hrf_error *err)
{
    const struct request *request = run->request;
    close_session(run);
    HRF_AUTO(hrf_graph) copy = NULL;
    HRF_TRY(hrf_graph_copy(run->graph, &copy, err));
    HRF_TRY(hrf_graph_set_input_shape(copy, 0, shape, err));
    struct hrf_session_config config = {
        .device = request->device,
        .precision = run->precision,
        .n_threads = (int32_t)request->threads,
    };
    if (run->calibrated != NULL) {
        config.ranges = run->calibrated->ranges;
        config.n_ranges = run->calibrated->n_ranges;
        config.keep = run->calibrated->keep;
        config.keep_reasons = run->calibrated->keep_reasons;
        config.n_keep = run->calibrated->n_keep;
    }
    if (run->layout != NULL)
        return open_ranks(run, copy, &config, shape, err);
    HRF_TRY(hrf_session_create(copy, &config, &run->session, err));
    if (run->calibrator != NULL)
        hrf_calibrator_watch(run->session, run->calibrator);
    return HRF_OK;
}

static struct hrf_shape input_shape(const struct run *run)
{
    return run->session != NULL ? *hrf_session_input_shape(run->session, 0) : run->source.shape;
}

static struct hrf_shape output_shape(const struct run *run)
{
    return run->session != NULL ? *hrf_session_output_shape(run->session, 0)
                                : hrf_work_output_shape(hrf_parallel_work(run->parallel), 0);
}

/* `images`: one piece, as in the file; *output: its results in memory order. */
static enum hrf_status compute(struct run *run, const float *images, const float **output,
                               struct hrf_error *err)
{
    const struct hrf_shape in = input_shape(run);
    to_session(images, &in,
               run->session != NULL ? hrf_session_input(run->session, 0) : run->images);
    if (run->session != NULL) {
        HRF_TRY(hrf_session_run(run->session, err));
        *output = hrf_session_output(run->session, 0);
    } else {
        HRF_TRY(hrf_parallel_run(run->parallel, hrf_read_array, &run->source, err));
        *output = hrf_parallel_output(run->parallel, 0);
    }
    return HRF_OK;
}

/* Runs images [first, first + n) and stores their outputs; *results grows on the first call. */
static enum hrf_status run_piece(struct run *run, const float *images, const struct hrf_shape *all,
                                 int64_t first, float **results, struct hrf_shape *result_shape,
                                 struct hrf_error *err)
{
    const struct hrf_shape in = input_shape(run), out = output_shape(run);
    const float *output;
    int64_t per_image = hrf_shape_count(&in) / (in.rank > 0 ? in.dims[0] : 1);
    HRF_TRY(compute(run, images + first * per_image, &output, err));
    bool whole = in.rank == 0 || in.dims[0] == all->dims[0];
    if (!whole && (out.rank == 0 || out.dims[0] != in.dims[0]))
        return hrf_error_set(err, HRF_E_USER,
                             "the model's output does not have the batch as its first dimension: "
                             "run it with --batch %lld",
                             (long long)all->dims[0]);
    int64_t per_result = hrf_shape_count(&out) / (whole ? 1 : out.dims[0]);
    if (*results == NULL) {
        *result_shape = out;
        if (!whole)
            result_shape->dims[0] = all->dims[0];
        *results = hrf_alloc_array((size_t)hrf_shape_count(result_shape), sizeof **results);
        if (*results == NULL)
            return hrf_error_set(err, HRF_E_NOMEM, "no memory for the outputs");
    }
    from_session(output, &out, *results + (whole ? 0 : first * per_result));
    return HRF_OK;
}

static enum hrf_status run_pieces(struct run *run, const float *images,
                                  const struct hrf_shape *shape, float **results,
                                  struct hrf_shape *result_shape, struct hrf_error *err)
{
    const int64_t n_images = shape->rank > 0 ? shape->dims[0] : 1, asked = run->request->batch;
    const int64_t batch = asked > 0 && asked < n_images ? asked : n_images;
    for (int64_t first = 0; first < n_images; first += batch) {
        struct hrf_shape piece = *shape;
        if (piece.rank > 0)
            piece.dims[0] = n_images - first < batch ? n_images - first : batch;
        const bool is_open = run->session != NULL || run->parallel != NULL;
        if (!is_open || piece.dims[0] != input_shape(run).dims[0])
            HRF_TRY(open_session(run, &piece, err));
        HRF_TRY(run_piece(run, images, shape, first, results, result_shape, err));
    }
    return HRF_OK;
}

static enum hrf_status add_kept(const struct request *request, struct hrf_calibration *calibration,
                                struct hrf_error *err)
{
    for (size_t i = 0; i < request->keep.n_items; i++)
        HRF_TRY(hrf_calibration_keep(calibration, request->keep.items[i], "asked for", err));
    return HRF_OK;
}

/* Ranges from the file that was given, or from the input itself run in float32. */
static enum hrf_status calibrate(const struct request *request, const struct hrf_graph *graph,
                                 const float *images, const struct hrf_shape *shape,
                                 struct hrf_calibration **out, struct hrf_error *err)
{
    const enum hrf_fit_kind kind = hrf_fit_kind_find(request->method);
    struct hrf_observations seen = { .items = NULL };
    struct hrf_calibrator calibrator = { .observations = &seen };
    struct run run = {
        .request = request, .graph = graph, .precision = "fp32", .calibrator = &calibrator
    };
    struct hrf_shape unused;
    HRF_AUTO_FREE float *results = NULL;
    if (request->scales != NULL) {
        HRF_TRY(hrf_calibration_read(request->scales, out, err));
        return add_kept(request, *out, err);
    }
    if (kind == HRF_N_FIT_KINDS)
        return hrf_error_set(err, HRF_E_USER,
                             "--method '%s' is not known; use minmax, percentile, entropy, mse or "
                             "best",
                             request->method);
    enum hrf_status status = run_pieces(&run, images, shape, &results, &unused, err);
    if (status == HRF_OK)
        status = hrf_fit_all(&seen, kind, out, err);
    close_session(&run);
    HRF_AUTO_FREE char *warnings = hrf_fit_warnings(&seen);
    hrf_observations_release(&seen);
    HRF_TRY(status);
    fputs(warnings != NULL ? warnings : "", stderr);
    HRF_TRY(hrf_fit_keep_noisy(*out, request->min_sqnr, err));
    HRF_TRY(add_kept(request, *out, err));
    return request->save != NULL ? hrf_engine_save_calibration(*out, graph, request->save, err)
                                 : HRF_OK;
}

static enum hrf_status eval(const struct request *request, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_calibration) calibration = NULL;
    struct hrf_calibrated calibrated = { .ranges = NULL };
    struct hrf_shape shape, result_shape = { .rank = 0 };
    HRF_AUTO_FREE float *images = NULL, *results = NULL;
    HRF_TRY(hrf_onnx_read(request->model, &graph, err));
    HRF_TRY(hrf_npy_read(request->input, &shape, &images, err));
    if ((request->scales != NULL || request->save != NULL || request->keep.n_items > 0) &&
        hrf_lower_brings_scales(graph))
        return hrf_error_set(err, HRF_E_USER,
                             "%s was quantised already and brings its own scales: --scales, "
                             "--save-scales and --keep do not go with it",
                             request->model);
    if (graph->n_inputs != 1)
        return hrf_error_set(err, HRF_E_USER, "%s has %d inputs; eval feeds one", request->model,
                             graph->n_inputs);
    if (hrf_shape_count(&shape) == 0)
        return hrf_error_set(err, HRF_E_USER, "%s holds no elements", request->input);
    struct run run = { .request = request,
                       .graph = graph,
                       .precision = request->precision,
                       .layout = request->layout };
    if (strcmp(request->precision, "int8") == 0 && !hrf_lower_brings_scales(graph)) {
        HRF_TRY(calibrate(request, graph, images, &shape, &calibration, err));
        HRF_TRY(hrf_calibrated_init(calibration, &calibrated, err));
        run.calibrated = &calibrated;
    }
    enum hrf_status status = run_pieces(&run, images, &shape, &results, &result_shape, err);
    if (status == HRF_OK)
        fputs(run.session != NULL ? hrf_session_notes(run.session)
                                  : hrf_parallel_work(run.parallel)->notes.text,
              stderr);
    close_session(&run);
    hrf_calibrated_release(&calibrated);
    HRF_TRY(status);
    return hrf_npy_write(request->output, &result_shape, results, err);
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    struct request request = {
        .device = "auto", .precision = "fp32", .method = "mse", .min_sqnr = HRF_FIT_MIN_SQNR_DB
    };
    const struct hrf_option options[] = {
        { "input", "X.npy", "float32 array, N x C x H x W", HRF_OPTION_TEXT, &request.input },
        { "output", "Y.npy", "where the outputs go", HRF_OPTION_TEXT, &request.output },
        { "device", "NAME", "auto, cpu, cuda or ref (plain C in double)", HRF_OPTION_TEXT,
          &request.device },
        { "precision", "P", "fp32, tf32, fp16, bf16 or int8", HRF_OPTION_TEXT, &request.precision },
        { "layout", "L", "how the ranks share the work, e.g. spatial=4", HRF_OPTION_TEXT,
          &request.layout },
        { "scales", "FILE", "int8: a calibration (default: calibrate on the input)",
          HRF_OPTION_TEXT, &request.scales },
        { "save-scales", "FILE", "int8: keep the calibration made on the input", HRF_OPTION_TEXT,
          &request.save },
        { "method", "M", "int8: minmax, percentile, entropy, mse (default) or best",
          HRF_OPTION_TEXT, &request.method },
        { "min-sqnr", "DB",
          "int8: tensors that 8 bits hold with less signal to noise stay in float32 (default 15)",
          HRF_OPTION_REAL, &request.min_sqnr },
        { "keep", "NAME", "int8: a node or tensor that stays in float32", HRF_OPTION_LIST,
          &request.keep },
        { "batch", "N", "images per run (default: all at once)", HRF_OPTION_INT, &request.batch },
        { "threads", "N", "threads (default: every core)", HRF_OPTION_INT, &request.threads },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_ENGINE_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    enum hrf_status status = HRF_OK;
    request.model = args.operands[0];
    if (request.input == NULL || request.output == NULL)
        status = hrf_error_set(&err, HRF_E_USER, "--input and --output are needed");
    else if ((request.scales != NULL || request.save != NULL || request.keep.n_items > 0) &&
             strcmp(request.precision, "int8") != 0)
        status = hrf_error_set(&err, HRF_E_USER,
                               "--scales, --save-scales and --keep belong to int8; the "
                               "precision is %s",
                               request.precision);
    else if (request.batch < 0 || request.threads < 0 || request.threads > 4096)
        status = hrf_error_set(&err, HRF_E_USER, "--batch and --threads cannot be negative");
    if (status == HRF_OK)
        status = hrf_engine_check_request(request.device, request.precision, request.layout, &err);
    if (status == HRF_OK)
        status = eval(&request, &err);
    return status == HRF_OK ? 0 : hrf_engine_fail(command->name, &err);
}

const struct hrf_command hrf_engine_eval = {
    .name = "eval",
    .operands = "MODEL.onnx",
    .summary = "run a model on a NumPy array and write its outputs",
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
