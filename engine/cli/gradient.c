/* gradient.c - `hires-engine gradient`: a loss over one batch and its gradients to all weights, the
 * tool for checking what training computes. */
#include "base/directory.h"
#include "engine/backend/compute.h"
#include "engine/cli/cli.h"
#include "engine/input/npy.h"
#include "engine/onnx/onnx.h"
#include "engine/planning/find_layout.h"
#include "engine/planning/request.h"
#include "engine/run/joined.h"
#include "engine/run/nchw.h"
#include "engine/train/step.h"

#include <stdio.h>
#include <string.h>

struct request {
    const char *model, *input, *target, *output, *device, *layout, *comm;
    enum hrf_loss loss;
    int precision;   /* of precision_words */
    bool uses_batch; /* BatchNormalization by the statistics of the batch */
    int64_t threads;
    double memory_gib;
};

/* Of activations and their gradients. */
static const char *const precision_words[] = { "fp32", "tf32", "bf16", NULL };

static enum hrf_status read_network(const struct request *request, struct hrf_graph **out,
                                    struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_TRY(hrf_onnx_read(request->model, &graph, err));
    if (graph->n_inputs != 1)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "the network has %d inputs; training supports one",
                             (int)graph->n_inputs);
    HRF_MOVE(*out, graph);
    return HRF_OK;
}

/* Probabilities of the classes along axis 1 of y out of numbers of classes. */
static enum hrf_status spread_classes(const struct request *request, const struct hrf_shape *y,
                                      const float *classes, float *out, struct hrf_error *err)
{
    const int64_t n_classes = y->dims[1];
    int64_t area = 1;
    for (int32_t i = 2; i < y->rank; i++)
        area *= y->dims[i];
    memset(out, 0, (size_t)hrf_shape_count(y) * sizeof *out);
    for (int64_t i = 0; i < y->dims[0] * area; i++) {
        const int64_t c = classes[i] >= 0 && classes[i] < (float)n_classes ? (int64_t)classes[i]
                                                                           : -1;
        if (c < 0 || (float)c != classes[i])
            return hrf_error_set(
                err, HRF_E_USER, "%s: number %lld is %g, which is none of the classes 0 to %lld",
                request->target, (long long)i, (double)classes[i], (long long)n_classes - 1);
        out[(i / area * n_classes + c) * area + i % area] = 1;
    }
    return HRF_OK;
}

/* The target in the output's shape. */
static enum hrf_status read_target(const struct request *request, const struct hrf_shape *y,
                                   float **out, struct hrf_error *err)
{
    struct hrf_shape shape, without_classes = *y;
    HRF_AUTO_FREE float *target = NULL;
    char wanted[128], given[128];
    HRF_TRY(hrf_npy_read(request->target, &shape, &target, err));
    if (hrf_shape_equal(&shape, y)) {
        *out = target;
        target = NULL;
        return HRF_OK;
    }
    for (int32_t i = 2; i < y->rank; i++)
        without_classes.dims[i - 1] = y->dims[i];
    without_classes.rank = y->rank - 1;
    hrf_shape_text(y, wanted);
    hrf_shape_text(&shape, given);
    if (request->loss != HRF_LOSS_CROSS_ENTROPY || y->rank < 2 ||
        !hrf_shape_equal(&shape, &without_classes))
        return hrf_error_set(err, HRF_E_USER, "%s is %s, and the output of %s is %s",
                             request->target, given, request->model, wanted);
    HRF_AUTO_FREE float *spread = hrf_try_alloc_array((size_t)hrf_shape_count(y), sizeof *spread);
    HRF_CHECK_MEMORY(spread != NULL, err, "no memory for a target of %s", wanted);
    HRF_TRY(spread_classes(request, y, target, spread, err));
    *out = spread;
    spread = NULL;
    return HRF_OK;
}

/* A file's name of a weight's: names of ONNX may hold any character. */
static char *file_name(const char *directory, const char *weight)
{
    HRF_AUTO_RELEASE(hrf_strbuf) name = HRF_STRBUF_INIT;
    hrf_strbuf_addf(&name, "%s/", directory);
    for (const char *c = weight; *c != '\0'; c++)
        if (*c == '/' || *c == '%' || (unsigned char)*c < ' ' || (c == weight && *c == '.'))
            hrf_strbuf_addf(&name, "%%%02X", (unsigned)(unsigned char)*c);
        else
            hrf_strbuf_addc(&name, *c);
    hrf_strbuf_adds(&name, ".npy");
    return hrf_strbuf_detach(&name);
}

static enum hrf_status write_loss(const struct request *request, double loss, int32_t n_weights,
                                  struct hrf_error *err)
{
    const struct hrf_shape scalar = { .rank = 0 };
    const float number = (float)loss;
    HRF_AUTO_FREE char *path = hrf_format("%s/loss.npy", request->output);
    HRF_TRY(hrf_npy_write(path, HRF_F32, &scalar, &number, err));
    printf("loss %.9g, gradients to %d weights in %s\n", loss, (int)n_weights, request->output);
    return HRF_OK;
}

static enum hrf_status write_step(const struct request *request, struct hrf_train_step *step,
                                  double loss, struct hrf_error *err)
{
    const int32_t n = hrf_train_step_n_weights(step);
    HRF_TRY(hrf_path_make_directories(request->output, err));
    for (int32_t i = 0; i < n; i++) {
        const struct hrf_trained_tensor *w = &hrf_train_step_weights(step)[i];
        HRF_AUTO_FREE char *path = file_name(request->output, w->name);
        HRF_TRY(hrf_npy_write(path, HRF_F32, &w->shape, hrf_train_step_gradient(step, i), err));
    }
    return write_loss(request, loss, n, err);
}

/* As a step of training: over the ranks of the layout, or on one in tiles if the memory limit asks
 * for them. */
static enum hrf_status compute(const void *context, const struct hrf_joined *joined,
                               struct hrf_error *err)
{
    const struct request *request = context;
    struct hrf_layout_plan layout;
    const struct hrf_train_step_config config = {
        .device = request->device,
        .precision = hrf_precision_find(precision_words[request->precision]),
        .loss = request->loss,
        .uses_batch = request->uses_batch,
        .n_threads = (int32_t)request->threads,
        .memory_limit_bytes = (int64_t)(request->memory_gib * 0x1p30),
        .layout = &layout,
        .comm = joined->comm,
    };
    HRF_AUTO(hrf_graph) network = NULL;
    HRF_AUTO(hrf_train_step) step = NULL;
    HRF_AUTO_FREE float *images = NULL, *target = NULL;
    struct hrf_shape input;
    double loss;
    HRF_TRY(hrf_npy_read(request->input, &input, &images, err));
    if (hrf_shape_count(&input) == 0)
        return hrf_error_set(err, HRF_E_USER, "%s holds no elements", request->input);
    HRF_TRY(hrf_layout_parse(request->layout, &layout, err));
    HRF_TRY(read_network(request, &network, err));
    HRF_TRY(hrf_graph_set_input_shape(network, 0, &input, err));
    HRF_TRY(hrf_train_step_create(network, &config, &step, err));
    const struct hrf_shape y = *hrf_train_step_target_shape(step);
    HRF_TRY(read_target(request, &y, &target, err));
    hrf_layout_from_onnx(&input, sizeof *images, images, hrf_train_step_images(step));
    hrf_free(images);
    images = NULL;
    hrf_layout_from_onnx(&y, sizeof *target, target, hrf_train_step_targets(step));
    if (hrf_train_step_text(step)[0] != '\0' && hrf_joined_is_first(joined))
        fprintf(stderr, "%s\n", hrf_train_step_text(step));
    HRF_TRY(hrf_train_step_run(step, &loss, err));
    return hrf_joined_is_first(joined) ? write_step(request, step, loss, err) : HRF_OK;
}

int hrf_engine_gradient(const struct hrf_command *command, int argc, char **argv)
{
    static const char *const norms[] = { "frozen", "train", NULL };
    struct request request = { .device = "cpu" };
    int norm = 0;
    const struct hrf_option options[] = {
        { "input", "X.npy", "float32 array, N x C x H x W", HRF_OPTION(&request.input) },
        { "target", "Y.npy", "what the output is compared with", HRF_OPTION(&request.target) },
        { "loss", "L", "", HRF_OPTION_WORDS(&request.loss, hrf_loss_names) },
        { "output", "DIR", "folder for the loss and the gradients", HRF_OPTION(&request.output) },
        { "batch-norm", "B",
          "BatchNormalization by the statistics of the file (frozen) or of the batch",
          HRF_OPTION_WORDS(&norm, norms) },
        { "device", "NAME", "cpu, cuda, or ref (plain C in double precision)",
          HRF_OPTION(&request.device) },
        { "precision", "P", "", HRF_OPTION_WORDS(&request.precision, precision_words) },
        { "layout", "L", "how the ranks share the work: spatial=4, stages=2, data=2 ...",
          HRF_OPTION(&request.layout) },
        { "comm", "C", HRF_COMM_HELP, HRF_OPTION(&request.comm) },
        { "memory", "GIB", "memory limit",
          HRF_OPTION_NUMBER(&request.memory_gib, 0, HRF_UNBOUNDED) },
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
    request.uses_batch = norm == 1;
    if (request.input == NULL || request.target == NULL || request.output == NULL)
        status = hrf_error_set(&err, HRF_E_USER, "--input, --target and --output are required");
    else if (hrf_layout_is_auto(request.layout))
        status = hrf_error_set(&err, HRF_E_USER,
                               "--layout auto is for 'eval': gradients take a layout by name");
    if (status == HRF_OK)
        status = hrf_engine_check_request(request.device, request.layout, &err);
    if (status == HRF_OK)
        status = hrf_joined_run(request.comm, request.layout, compute, &request, &err);
    return status == HRF_OK ? 0 : hrf_engine_fail(command->name, &err);
}
