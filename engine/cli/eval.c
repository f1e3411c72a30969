/* eval.c - `hires-engine eval`: one network over one array, the tool for checking us. */
#include "base/min_max.h"
#include "engine/backend/compute.h"
#include "engine/cli/cli.h"
#include "engine/input/npy.h"
#include "engine/onnx/onnx.h"
#include "engine/planning/find_layout.h"
#include "engine/planning/known_machine.h"
#include "engine/planning/request.h"
#include "engine/run/agree.h"
#include "engine/run/calibrator.h"
#include "engine/run/class_map.h"
#include "engine/run/joined.h"
#include "engine/run/nchw.h"
#include "engine/run/network.h"
#include "engine/run/noise.h"
#include "engine/run/output_loss.h"
#include "engine/run/sensitivity.h"

#include <stdio.h>
#include <string.h>

struct request {
    const char *model, *input, *output, *output_name, *class_map, *device, *layout, *comm, *scales,
        *save;
    enum hrf_fit_method method;
    enum hrf_precision precision;
    double min_sqnr; /* dB */
    double budget;   /* 1 - cosine; < 0: none */
    struct hrf_option_list keep;
    int64_t batch, threads, bands;
    double memory_gib;
    bool sqnr, fixed_scales;
};

/* Runs the array in pieces of one batch, in one precision. */
struct run {
    const struct request *request;
    const struct hrf_graph *graph;
    struct hrf_graph *spent; /* `graph` if one network is all that is made of it; else NULL */
    enum hrf_precision precision;
    const struct hrf_calibrated *calibrated; /* NULL: not needed */
    struct hrf_calibrator
        *calibrator; /* NULL without an observer, which needs one rank and no bands */
    const struct hrf_joined *joined; /* NULL: not with other processes */
    struct hrf_network *network;
    struct hrf_graph *inferred; /* `graph` with its shapes and types for `piece` */
    struct hrf_shape piece;     /* what it is made for */
    struct hrf_machine gpu_links;
};

static struct hrf_session_config session_config(const struct run *run)
{
    const struct request *request = run->request;
    struct hrf_session_config config = {
        .device = request->device,
        .precision = run->precision,
        .n_threads = (int32_t)request->threads,
        .every_tensor = run->calibrator != NULL || request->sqnr,
        .fixed_scales = request->fixed_scales,
    };
    if (run->calibrated != NULL) {
        config.ranges = run->calibrated->ranges;
        config.n_ranges = run->calibrated->n_ranges;
        config.keep = run->calibrated->keep;
        config.keep_reasons = run->calibrated->keep_reasons;
        config.keep_precisions = run->calibrated->keep_precisions;
        config.n_keep = run->calibrated->n_keep;
    }
    return config;
}

static void close_network(struct run *run)
{
    hrf_network_destroy(run->network);
    hrf_graph_destroy(run->inferred);
    run->network = NULL;
    run->inferred = NULL;
}

static enum hrf_status open_network(struct run *run, const struct hrf_shape *shape,
                                    struct hrf_error *err)
{
    const struct request *request = run->request;
    HRF_AUTO_RELEASE(hrf_found_layout) layout = { .is_chosen = false };
    struct hrf_network_config config = { .session = session_config(run) };
    close_network(run);
    run->piece = *shape;
    HRF_TRY(hrf_graph_copy(run->graph, &run->inferred, err));
    HRF_TRY(hrf_graph_set_input_shape(run->inferred, 0, shape, err));
    HRF_TRY(hrf_graph_infer_shapes(run->inferred, err));
    if (request->class_map != NULL)
        HRF_TRY(hrf_class_map_add_gradient(&run->inferred, err));
    /* An 8-bit output is written by scales that are constants. */
    if (run->spent != NULL && run->inferred->values[run->inferred->outputs[0]].dtype == HRF_F32) {
        hrf_graph_drop_constants(run->spent); /* `inferred` has them */
        config.session.spent = run->inferred;
    }
    enum hrf_status status = HRF_OK;
    if (run->calibrator == NULL) {
        config.n_bands = (int32_t)request->bands;
        config.session.memory_limit_bytes = (int64_t)(request->memory_gib * 0x1p30);
        config.layout = &layout.plan;
        config.comm = run->joined != NULL ? run->joined->comm : NULL;
        if (run->joined != NULL)
            config.session.transport = run->joined->transport;
        if (hrf_known_gpu_links(&run->gpu_links))
            config.session.gpu_links = &run->gpu_links;
        status = hrf_layout_find(request->layout, run->inferred, &config.session, config.comm,
                                 &layout, err);
    }
    if (status == HRF_OK)
        status = hrf_network_create(run->inferred, &config, &run->network, err);
    HRF_TRY(status);
    if (run->calibrator != NULL)
        hrf_calibrator_watch(hrf_network_session(run->network), run->calibrator);
    return HRF_OK;
}

/* Images [first, ...) as one batch of the network. Where there are fewer, the last one repeats. */
static struct hrf_nchw_source source_of(const struct run *run, const float *images,
                                        const struct hrf_shape *all, int64_t first)
{
    struct hrf_nchw_source source = { images, run->piece };
    if (all->rank > 0) {
        source.data += first * (hrf_shape_count(all) / all->dims[0]);
        source.shape.dims[0] = hrf_min(run->piece.dims[0], all->dims[0] - first);
    }
    return source;
}

/* Runs images [first, first + n) and stores their outputs; *results grows on the first call. */
static enum hrf_status run_piece(struct run *run, const float *images, const struct hrf_shape *all,
                                 int64_t first, float **results, struct hrf_shape *result_shape,
                                 struct hrf_error *err)
{
    const struct hrf_shape in = run->piece;
    struct hrf_shape out = hrf_network_output_shape(run->network, 0);
    struct hrf_nchw_source source = source_of(run, images, all, first);
    if (run->calibrator != NULL && in.rank > 0) {
        run->calibrator->batch = in.dims[0];
        run->calibrator->n_images = source.shape.dims[0];
    }
    HRF_TRY(hrf_network_run(run->network, hrf_nchw_read, &source, err));
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
    }
    if (!whole)
        out.dims[0] = source.shape.dims[0];
    if (hrf_network_output(run->network, 0) != NULL) /* the first rank's */
        hrf_nchw_from_output(hrf_network_output(run->network, 0), &out,
                             *results + (whole ? 0 : first * per_result));
    return HRF_OK;
}

/* The images of a piece: as many as are asked for, or as the model's file fixes. */
static int64_t batch_of(const struct request *request, const struct hrf_graph *graph,
                        const struct hrf_shape *all)
{
    const int64_t n = all->rank > 0 ? all->dims[0] : 1;
    struct hrf_shape piece = *all;
    piece.dims[0] = request->batch > 0 && request->batch < n ? request->batch : n;
    return hrf_graph_images(graph, &piece);
}

static enum hrf_status run_pieces(struct run *run, const float *images,
                                  const struct hrf_shape *shape, float **results,
                                  struct hrf_shape *result_shape, struct hrf_error *err)
{
    const int64_t n_images = shape->rank > 0 ? shape->dims[0] : 1;
    const int64_t batch = batch_of(run->request, run->graph, shape);
    for (int64_t first = 0; first < n_images; first += batch) {
        struct hrf_shape piece = *shape;
        if (piece.rank > 0)
            piece.dims[0] = n_images - first < batch ? n_images - first : batch;
        piece.dims[0] = hrf_graph_images(run->graph, &piece);
        if (run->network == NULL || !hrf_shape_equal(&piece, &run->piece))
            HRF_TRY(open_network(run, &piece, err));
        HRF_TRY(run_piece(run, images, shape, first, results, result_shape, err));
    }
    return HRF_OK;
}

static void add_kept(const struct request *request, struct hrf_calibration *calibration)
{
    for (size_t i = 0; i < request->keep.n_items; i++)
        hrf_calibration_keep(calibration, request->keep.items[i], "asked for");
}

/* On images of the last piece's shape, the first ones. */
static enum hrf_status try_smoothing(struct run *run, const float *images,
                                     const struct hrf_shape *all, struct hrf_error *err)
{
    const struct hrf_session_config config = session_config(run);
    struct hrf_nchw_source source = source_of(run, images, all, 0);
    HRF_AUTO(hrf_smoothing) smoothing = NULL;
    HRF_TRY(hrf_smoothing_create(run->inferred, &config, &smoothing, err));
    if (smoothing == NULL)
        return HRF_OK;
    run->calibrator->smoothing = smoothing;
    run->calibrator->tries_smoothing = true;
    run->calibrator->n_images = all->rank > 0 ? source.shape.dims[0] : 0;
    const enum hrf_status status = hrf_network_run(run->network, hrf_nchw_read, &source, err);
    run->calibrator->smoothing = NULL;
    run->calibrator->tries_smoothing = false;
    return status;
}

static enum hrf_status tell_budget(const struct request *request,
                                   const struct hrf_observations *seen,
                                   struct hrf_calibration *calibration, struct hrf_error *err)
{
    HRF_TRY(hrf_fit_budget(seen, 1 - request->budget, calibration, err));
    HRF_AUTO_FREE char *words = hrf_fit_budget_text(calibration);
    fprintf(stderr, "%s\n", words);
    return HRF_OK;
}

/* Loss and time of every layer, on the first images. */
static enum hrf_status try_layers(const struct run *run, const float *images,
                                  const struct hrf_shape *all, struct hrf_observations *seen,
                                  enum hrf_fit_method kind, struct hrf_error *err)
{
    const struct hrf_session_config config = { .device = run->request->device,
                                               .n_threads = (int32_t)run->request->threads };
    HRF_AUTO(hrf_calibration) fitted = NULL;
    HRF_AUTO(hrf_graph) few = NULL;
    HRF_AUTO_RELEASE(hrf_calibrated) calibrated = { .ranges = NULL };
    struct hrf_shape shape = run->piece;
    if (shape.rank < 1)
        return HRF_OK;
    if (shape.dims[0] > HRF_SENSITIVITY_WHOLE_IMAGES)
        shape.dims[0] = HRF_SENSITIVITY_WHOLE_IMAGES;
    shape.dims[0] = hrf_graph_images(run->graph, &shape);
    HRF_AUTO_FREE float *some = hrf_try_alloc_array((size_t)hrf_shape_count(&shape), sizeof *some);
    HRF_CHECK_MEMORY(some != NULL, err, "no memory for images");
    struct hrf_nchw_source source = source_of(run, images, all, 0);
    const struct hrf_box whole = { { 0, 0 },
                                   { shape.rank > 2 ? shape.dims[shape.rank - 2] : 1,
                                     shape.rank > 3 ? shape.dims[3] : 1 } };
    HRF_TRY(hrf_nchw_read(&source, 0, 0, shape.dims[0], &whole, some, err));
    const int64_t n_images = shape.dims[0];
    if (shape.dims[0] > HRF_SENSITIVITY_IMAGES)
        shape.dims[0] = HRF_SENSITIVITY_IMAGES;
    shape.dims[0] = hrf_graph_images(run->graph, &shape);
    HRF_TRY(hrf_graph_copy(run->graph, &few, err));
    HRF_TRY(hrf_graph_set_input_shape(few, 0, &shape, err));
    HRF_TRY(hrf_graph_infer_shapes(few, err));
    HRF_TRY(hrf_fit_all(seen, kind, &fitted, err));
    hrf_fit_keep_noisy(fitted, run->request->min_sqnr);
    hrf_calibrated_init(fitted, &calibrated);
    return hrf_sensitivity_measure(few, &config, &calibrated, some, n_images, seen, err);
}

/* The ranges from the given file, or from a float32 run of the input itself, whose outputs go to
 * *exact. */
static enum hrf_status calibrate(const struct request *request, const struct hrf_graph *graph,
                                 const float *images, const struct hrf_shape *shape,
                                 struct hrf_calibration **out, float **exact, struct hrf_error *err)
{
    const enum hrf_fit_method kind = request->method;
    HRF_AUTO_RELEASE(hrf_observations) seen = { .items = NULL };
    struct hrf_calibrator calibrator = { .observations = &seen };
    struct run run = {
        .request = request, .graph = graph, .precision = HRF_FP32, .calibrator = &calibrator
    };
    struct hrf_shape unused;
    if (request->scales != NULL) {
        HRF_TRY(hrf_calibration_read(request->scales, out, err));
        add_kept(request, *out);
        return HRF_OK;
    }
    enum hrf_status status = run_pieces(&run, images, shape, exact, &unused, err);
    if (status == HRF_OK)
        status = try_smoothing(&run, images, shape, err);
    if (status == HRF_OK && request->budget >= 0)
        status = try_layers(&run, images, shape, &seen, kind, err);
    if (status == HRF_OK)
        status = hrf_fit_all(&seen, kind, out, err);
    if (status == HRF_OK) {
        hrf_fit_keep_noisy(*out, request->min_sqnr);
        add_kept(request, *out);
    }
    if (status == HRF_OK && request->budget >= 0)
        status = tell_budget(request, &seen, *out, err);
    close_network(&run);
    HRF_AUTO_FREE char *warnings = hrf_fit_warnings(&seen);
    HRF_TRY(status);
    fputs(warnings != NULL ? warnings : "", stderr);
    HRF_TRY(hrf_engine_sign_calibration(*out, graph, err));
    return request->save != NULL ? hrf_calibration_write(*out, request->save, err) : HRF_OK;
}

/* The first rank's for all: by another engine, another rank would find other ranges. */
static enum hrf_status calibrate_together(const struct request *request,
                                          const struct hrf_joined *joined,
                                          const struct hrf_graph *graph, const float *images,
                                          const struct hrf_shape *shape,
                                          struct hrf_calibration **out, float **exact,
                                          struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = NULL;
    uint64_t n_bytes = 0;
    if (hrf_joined_is_first(joined))
        HRF_TRY(calibrate(request, graph, images, shape, out, exact, err));
    if (joined->comm == NULL)
        return HRF_OK;
    if (hrf_joined_is_first(joined)) {
        HRF_TRY(hrf_calibration_encode(*out, &text, err));
        n_bytes = strlen(text) + 1;
    }
    HRF_TRY(hrf_broadcast(joined->comm, &n_bytes, sizeof n_bytes, err));
    if (text == NULL)
        text = hrf_try_alloc((size_t)n_bytes);
    HRF_CHECK_MEMORY(text != NULL, err, "no memory for a calibration");
    HRF_TRY(hrf_broadcast(joined->comm, text, (size_t)n_bytes, err));
    return hrf_joined_is_first(joined)
               ? HRF_OK
               : hrf_calibration_decode(text, (size_t)n_bytes - 1, "the first rank's calibration",
                                        out, err);
}

static void print_noise(const struct hrf_noise *noise, const char *precision)
{
    printf("%-40s %s against fp32, dB\n", "tensor", precision);
    for (int32_t i = 0; i < noise->n_items; i++)
        if (noise->items[i].is_compared)
            printf("%-40s %.1f\n", noise->items[i].name, noise->items[i].sqnr_db);
}

/* Runs the first piece again in float32 and compares all tensors with those of run's precision. */
static enum hrf_status compare_layers(struct run *run, const float *images,
                                      const struct hrf_shape *all, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_noise) noise = { .items = NULL };
    struct run full = { .request = run->request, .graph = run->graph, .precision = HRF_FP32 };
    struct hrf_nchw_source source = source_of(run, images, all, 0);
    struct hrf_session *low = hrf_network_session(run->network);
    if (low == NULL || strcmp(hrf_network_device_name(run->network), "cuda") == 0)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "--sqnr works only on one rank, on cpu or ref, without bands");
    enum hrf_status status = open_network(&full, &run->piece, err);
    if (status == HRF_OK) {
        hrf_noise_record(hrf_network_session(full.network), &noise);
        status = hrf_network_run(full.network, hrf_nchw_read, &source, err);
    }
    if (status == HRF_OK) {
        hrf_noise_compare(low, &noise);
        status = hrf_network_run(run->network, hrf_nchw_read, &source, err);
        hrf_session_observe(low, NULL, NULL);
    }
    if (status == HRF_OK)
        print_noise(&noise, hrf_precision_name(run->precision));
    close_network(&full);
    return status;
}

/* What 8 bits lose of the output. The images have calibrated them, so that on others it is rather
 * more. */
static void tell_loss(const float *exact, const float *got, const struct hrf_shape *out,
                      const struct hrf_shape *in)
{
    struct hrf_observed_loss lost = { .n_images = 0 };
    const int64_t n = hrf_shape_count(out);
    const bool by_image = out->rank > 0 && in->rank > 0 && out->dims[0] == in->dims[0];
    const int64_t n_images = by_image ? out->dims[0] : 1;
    for (int64_t i = 0; i < n_images; i++)
        hrf_output_loss_add(&lost, exact + n / n_images * i, got + n / n_images * i, n / n_images,
                            0);
    const double sqnr_db = hrf_observed_loss_sqnr_db(&lost);
    const bool is_large = hrf_loss_is_large(sqnr_db, 0, 0);
    fprintf(stderr,
            "%sthe output in int8 has %.1f dB of signal to noise and a mean cosine of %.5f with "
            "fp32's, on the images that calibrated it",
            is_large ? "warning: " : "", sqnr_db, lost.cosine / (double)lost.n_images);
    if (is_large)
        fprintf(stderr,
                "; that is much (below %.0f dB): --budget 0.005 takes out of int8 the layers that "
                "lose most, --sqnr shows what each tensor loses; or use bf16 or fp16",
                HRF_LOSS_MIN_SQNR_DB);
    fputc('\n', stderr);
}

static void tell_notes(const struct hrf_network *network)
{
    char bands[HRF_BANDED_TEXT] = "";
    fputs(hrf_network_notes(network), stderr);
    if (hrf_network_banded(network) == NULL)
        return;
    hrf_banded_text(hrf_network_banded(network), 0, bands);
    fprintf(stderr, "%s\n", bands);
}

/* Selects the one output to write: the named one, or the only one. */
static enum hrf_status choose_output(const struct request *request, struct hrf_graph *graph,
                                     struct hrf_error *err)
{
    const char *wanted = request->output_name;
    HRF_AUTO_RELEASE(hrf_strbuf) names = HRF_STRBUF_INIT;
    if (wanted == NULL && graph->n_outputs == 1)
        return HRF_OK;
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        const char *name = graph->values[graph->outputs[i]].name;
        if (wanted != NULL && strcmp(name, wanted) == 0) {
            graph->outputs[0] = graph->outputs[i];
            graph->n_outputs = 1;
            return HRF_OK;
        }
        hrf_strbuf_addf(&names, "%s'%s'", i > 0 ? ", " : "", name);
    }
    if (wanted != NULL)
        return hrf_error_set(err, HRF_E_USER, "%s has no output '%s'; it has %s", request->model,
                             wanted, names.text);
    return hrf_error_set(
        err, HRF_E_USER,
        "%s has %d outputs, of which one is written: choose it with --output-name, one of %s",
        request->model, (int)graph->n_outputs, names.text);
}

/* Writes the output in the model's own type. */
static enum hrf_status write_results(const struct run *run, const struct hrf_shape *shape,
                                     const float *results, struct hrf_error *err)
{
    const enum hrf_dtype type = run->inferred->values[run->inferred->outputs[0]].dtype;
    HRF_AUTO_FREE void *typed = hrf_try_alloc_array((size_t)hrf_shape_count(shape),
                                                    hrf_dtype_size(type));
    HRF_CHECK_MEMORY(typed != NULL, err, "no memory for the outputs");
    hrf_graph_output_from_float(run->inferred, 0, shape, results, typed);
    return hrf_npy_write(run->request->output, type, shape, typed, err);
}

/* The map of the image that was run. */
static enum hrf_status write_map(const struct run *run, struct hrf_error *err)
{
    const struct hrf_shape shape = hrf_network_output_shape(run->network, 1);
    return hrf_npy_write(run->request->class_map, HRF_F32, &shape,
                         hrf_network_output(run->network, 1), err);
}

static enum hrf_status eval(const void *context, const struct hrf_joined *joined,
                            struct hrf_error *err)
{
    const struct request *request = context;
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_calibration) calibration = NULL;
    HRF_AUTO_RELEASE(hrf_calibrated) calibrated = { .ranges = NULL };
    struct hrf_shape shape, result_shape = { .rank = 0 };
    HRF_AUTO_FREE float *images = NULL, *results = NULL, *exact = NULL;
    HRF_TRY(hrf_onnx_read(request->model, &graph, err));
    HRF_TRY(choose_output(request, graph, err));
    HRF_TRY(hrf_npy_read(request->input, &shape, &images, err));
    if ((request->scales != NULL || request->save != NULL || request->keep.n_items > 0) &&
        hrf_lower_brings_scales(graph))
        return hrf_error_set(err, HRF_E_USER,
                             "%s is already quantised and has its own scales: --scales, "
                             "--save-scales and --keep cannot be used with it",
                             request->model);
    if (graph->n_inputs != 1)
        return hrf_error_set(err, HRF_E_USER, "%s has %d inputs; eval supports one", request->model,
                             graph->n_inputs);
    if (hrf_shape_count(&shape) == 0)
        return hrf_error_set(err, HRF_E_USER, "%s holds no elements", request->input);
    struct run run = {
        .request = request, .graph = graph, .precision = request->precision, .joined = joined
    };
    if (hrf_precision_row(request->precision)->needs_scales && !hrf_lower_brings_scales(graph)) {
        HRF_TRY(
            calibrate_together(request, joined, graph, images, &shape, &calibration, &exact, err));
        hrf_calibrated_init(calibration, &calibrated);
        run.calibrated = &calibrated;
    }
    /* Bands are tried where memory is limited and one network does not fit. */
    if (request->memory_gib == 0 && !request->sqnr && request->class_map == NULL &&
        batch_of(request, graph, &shape) >= shape.dims[0])
        run.spent = graph;
    enum hrf_status status = run_pieces(&run, images, &shape, &results, &result_shape, err);
    if (status == HRF_OK)
        tell_notes(run.network);
    if (status == HRF_OK && exact != NULL && hrf_joined_is_first(joined))
        tell_loss(exact, results, &result_shape, &shape);
    if (status == HRF_OK && request->sqnr)
        status = compare_layers(&run, images, &shape, err);
    if (status == HRF_OK && hrf_joined_is_first(joined))
        status = write_results(&run, &result_shape, results, err);
    if (status == HRF_OK && request->class_map != NULL && hrf_joined_is_first(joined))
        status = write_map(&run, err);
    close_network(&run);
    return status;
}

int hrf_engine_eval(const struct hrf_command *command, int argc, char **argv)
{
    struct request request = { .device = "auto",
                               .precision = HRF_FP32,
                               .method = HRF_FIT_MSE,
                               .min_sqnr = HRF_FIT_MIN_SQNR_DB,
                               .budget = -1 };
    const struct hrf_option options[] = {
        { "input", "X.npy", "float32 array, N x C x H x W", HRF_OPTION(&request.input) },
        { "output", "Y.npy", "file for the outputs", HRF_OPTION(&request.output) },
        { "output-name", "NAME", "the output to write, for a model that has several",
          HRF_OPTION(&request.output_name) },
        { "class-map", "M.npy",
          "file for the map of the class with the largest output, by gradients (Grad-CAM): one "
          "image, fp32, cpu or ref",
          HRF_OPTION(&request.class_map) },
        { "device", "NAME", "auto, cpu, cuda or ref (plain C in double precision)",
          HRF_OPTION(&request.device) },
        { "precision", "P", "", HRF_OPTION_WORDS(&request.precision, hrf_precision_names) },
        { "layout", "L",
          "how the ranks share the work: spatial=4, stages=2,microbatches=4, auto ...",
          HRF_OPTION(&request.layout) },
        { "comm", "C", HRF_COMM_HELP, HRF_OPTION(&request.comm) },
        { "bands", "N", "process the image in N row tiles (bands)",
          HRF_OPTION_NUMBER(&request.bands, 0, HRF_COUNT_LIMIT) },
        { "memory", "GIB", "memory limit; above it, images are processed in bands",
          HRF_OPTION_NUMBER(&request.memory_gib, 0, HRF_UNBOUNDED) },
        { "scales", "FILE", "int8: a calibration (default: calibrate on the input)",
          HRF_OPTION(&request.scales) },
        { "save-scales", "FILE", "int8: save the calibration made on the input",
          HRF_OPTION(&request.save) },
        { "method", "M", "how INT8 ranges are chosen; auto: by layer",
          HRF_OPTION_WORDS(&request.method, hrf_words_fit) },
        { "min-sqnr", "DB",
          "int8: tensors with a lower signal-to-noise ratio in 8 bits stay in float32",
          HRF_OPTION_NUMBER(&request.min_sqnr, -200, 200) },
        { "sqnr", NULL, "print each tensor's signal-to-noise ratio against fp32",
          HRF_OPTION(&request.sqnr) },
        { "budget", "LOSS",
          "int8: layers leave it, those first that save least time for most loss, until the "
          "loss of the output (1 - cosine, estimated layer by layer) is at most this",
          HRF_OPTION_NUMBER(&request.budget, 0, 2) },
        { "fixed-scales", NULL,
          "int8: one fixed scale for each tensor, without smoothing, in products of tokens, too",
          HRF_OPTION(&request.fixed_scales) },
        { "keep", "NAME", "int8: a node or tensor that stays in float32",
          HRF_OPTION(&request.keep) },
        { "batch", "N", "images in a batch (default: all)",
          HRF_OPTION_NUMBER(&request.batch, 0, HRF_COUNT_LIMIT) },
        { "threads", "N", "threads (default: every core)",
          HRF_OPTION_NUMBER(&request.threads, 0, 4096) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_ENGINE_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    enum hrf_status status = HRF_OK;
    request.model = args.operands[0];
    if (request.input == NULL || request.output == NULL)
        status = hrf_error_set(&err, HRF_E_USER, "--input and --output are required");
    else if ((request.scales != NULL || request.save != NULL || request.keep.n_items > 0) &&
             request.precision != HRF_INT8)
        status = hrf_error_set(&err, HRF_E_USER,
                               "--scales, --save-scales and --keep need int8; the precision is %s",
                               hrf_precision_name(request.precision));
    else if (request.sqnr && request.precision == HRF_FP32)
        status = hrf_error_set(&err, HRF_E_USER,
                               "--sqnr compares a lower precision with fp32: give --precision");
    else if (request.class_map != NULL &&
             (request.precision != HRF_FP32 || strcmp(request.device, "cuda") == 0))
        status = hrf_error_set(&err, HRF_E_USER, "--class-map needs fp32 on cpu or ref");
    if (status == HRF_OK)
        status = hrf_engine_check_request(request.device, request.layout, &err);
    if (status == HRF_OK)
        status = hrf_joined_run(request.comm, request.layout, eval, &request, &err);
    return status == HRF_OK ? 0 : hrf_engine_fail(command->name, &err);
}
