/* eval.c - `hires-engine eval`: one network over one array, the tool for checking us. */
#include "base/path.h"
#include "engine/cli/cli.h"
#include "engine/input/npy.h"
#include "engine/onnx/onnx.h"
#include "engine/run/session.h"

#include <stdio.h>
#include <string.h>

struct request {
    const char *model, *input, *output, *device, *precision, *layout, *scales;
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

static enum hrf_status open_session(const struct request *request, const struct hrf_graph *graph,
                                    const struct hrf_shape *shape, struct hrf_session **out,
                                    struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) copy = NULL;
    HRF_TRY(hrf_graph_copy(graph, &copy, err));
    HRF_TRY(hrf_graph_set_input_shape(copy, 0, shape, err));
    struct hrf_session_config config = {
        .device = strcmp(request->device, "auto") == 0 ? "cpu" : request->device,
        .precision = request->precision,
        .n_threads = (int32_t)request->threads,
    };
    return hrf_session_create(copy, &config, out, err);
}

/* Runs images [first, first + n) and stores their outputs; *results grows on the first call. */
static enum hrf_status run_piece(struct hrf_session *session, const float *images,
                                 const struct hrf_shape *all, int64_t first, float **results,
                                 struct hrf_shape *result_shape, struct hrf_error *err)
{
    const struct hrf_shape *in = hrf_session_input_shape(session, 0);
    const struct hrf_shape *out = hrf_session_output_shape(session, 0);
    int64_t per_image = hrf_shape_count(in) / (in->rank > 0 ? in->dims[0] : 1);
    to_session(images + first * per_image, in, hrf_session_input(session, 0));
    HRF_TRY(hrf_session_run(session, err));
    bool whole = in->rank == 0 || in->dims[0] == all->dims[0];
    if (!whole && (out->rank == 0 || out->dims[0] != in->dims[0]))
        return hrf_error_set(err, HRF_E_USER,
                             "the model's output does not have the batch as its first dimension: "
                             "run it with --batch %lld",
                             (long long)all->dims[0]);
    int64_t per_result = hrf_shape_count(out) / (whole ? 1 : out->dims[0]);
    if (*results == NULL) {
        *result_shape = *out;
        if (!whole)
            result_shape->dims[0] = all->dims[0];
        *results = hrf_alloc_array((size_t)hrf_shape_count(result_shape), sizeof **results);
        if (*results == NULL)
            return hrf_error_set(err, HRF_E_NOMEM, "no memory for the outputs");
    }
    from_session(hrf_session_output(session, 0), out, *results + (whole ? 0 : first * per_result));
    return HRF_OK;
}

static enum hrf_status eval(const struct request *request, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    struct hrf_shape shape, result_shape = { .rank = 0 };
    HRF_AUTO_FREE float *images = NULL, *results = NULL;
    HRF_TRY(hrf_onnx_read(request->model, &graph, err));
    HRF_TRY(hrf_npy_read(request->input, &shape, &images, err));
    if (graph->n_inputs != 1)
        return hrf_error_set(err, HRF_E_USER, "%s has %d inputs; eval feeds one", request->model,
                             graph->n_inputs);
    int64_t n_images = shape.rank > 0 ? shape.dims[0] : 1;
    int64_t batch = request->batch > 0 && request->batch < n_images ? request->batch : n_images;
    if (hrf_shape_count(&shape) == 0)
        return hrf_error_set(err, HRF_E_USER, "%s holds no elements", request->input);
    HRF_AUTO(hrf_session) session = NULL;
    for (int64_t first = 0; first < n_images; first += batch) {
        struct hrf_shape piece = shape;
        if (piece.rank > 0)
            piece.dims[0] = n_images - first < batch ? n_images - first : batch;
        if (session == NULL || piece.dims[0] != hrf_session_input_shape(session, 0)->dims[0]) {
            hrf_session_destroy(session);
            session = NULL;
            HRF_TRY(open_session(request, graph, &piece, &session, err));
        }
        HRF_TRY(run_piece(session, images, &shape, first, &results, &result_shape, err));
    }
    return hrf_npy_write(request->output, &result_shape, results, err);
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    struct request request = { .device = "auto", .precision = "fp32" };
    const struct hrf_option options[] = {
        { "input", "X.npy", "float32 array, N x C x H x W", HRF_OPTION_TEXT, &request.input },
        { "output", "Y.npy", "where the outputs go", HRF_OPTION_TEXT, &request.output },
        { "device", "NAME", "auto, cpu or ref (plain C in double)", HRF_OPTION_TEXT,
          &request.device },
        { "precision", "P", "fp32", HRF_OPTION_TEXT, &request.precision },
        { "layout", "L", "how the ranks share the work, e.g. spatial=4", HRF_OPTION_TEXT,
          &request.layout },
        { "scales", "FILE", "INT8 scales", HRF_OPTION_TEXT, &request.scales },
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
    else if (request.scales != NULL)
        status = hrf_error_set(&err, HRF_E_UNSUPPORTED,
                               "--scales belongs to int8, which is not in this build");
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
