/* model.c - `hires-engine model make|inspect|check`. */
#include "engine/model/model.h"
#include "base/args.h"
#include "base/json.h"
#include "engine/cli/cli.h"
#include "engine/encoder/encoder.h"
#include "engine/onnx/onnx.h"
#include "engine/passes/lower.h"
#include "engine/passes/passes.h"
#include "engine/planning/request.h"
#include "engine/run/rank.h"
#include "engine/tile_worker/tile_worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char details[] =
    "  model make NAME --output FILE   write a built-in architecture as ONNX; some take\n"
    "                                  parameters, e.g. amoebanet-d:L,F unet:LEVELS,WIDTH\n"
    "  model make ENCODER --weights model.safetensors --output FILE\n"
    "                                  write an encoder (uni, uni2-h, virchow2, gigapath,\n"
    "                                  h-optimus-0, lunit-vits8, vit, resnet, convnext ...) with\n"
    "                                  weights in timm's names\n"
    "  model inspect FILE|NAME         print layers, shapes, operations and memory\n"
    "  model check FILE                check whether a run could score images with it\n"
    "  model hash FILE                 print the SHA-256 that identifies the model in a run (of "
    "its\n"
    "                                  file and of weights in other files), and 'own scales' if "
    "it\n"
    "                                  brings INT8 scales\n"
    "  model input FILE                print what the model's metadata say of its images (size,\n"
    "                                  resize, interpolation, mean, std), which runs use";

struct request {
    const char *output, *layout, *activation, *weights, *pool;
    int64_t classes, size, batch, seed, memory, max_memory, heads;
    double max_operations;
    struct hrf_option_list keep;
    int64_t tissue_class;
    bool json, shapes, external, tissue;
};

/* An encoder with weights that the user has; what its images have to be goes with it. */
static enum hrf_status make_encoder(const char *name, const struct request *request,
                                    struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    struct hrf_encoder_options options = { .size = request->size, .n_heads = request->heads };
    struct hrf_encoder_input input;
    if (request->pool != NULL)
        options.pool = hrf_encoder_pool_find(request->pool);
    if (options.pool == HRF_N_POOLS)
        return hrf_error_set(err, HRF_E_USER,
                             "--pool '%s' is unknown; use cls, cls+mean, mean, stage3 or logits",
                             request->pool);
    HRF_TRY(hrf_encoder_make(name, request->weights, &options, &graph, &input, err));
    HRF_AUTO_FREE char *text = hrf_encoder_input_text(&input);
    HRF_CHECK_MEMORY(text != NULL, err, "no memory for the model's metadata");
    const struct hrf_onnx_entry entry = { HRF_ENCODER_INPUT_KEY, text };
    return hrf_onnx_write_with(graph, &entry, 1, request->external, request->output, err);
}

static enum hrf_status make(const char *name, const struct request *request, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    if (request->output == NULL)
        return hrf_error_set(err, HRF_E_USER, "model make needs --output FILE");
    if (request->weights != NULL)
        return make_encoder(name, request, err);
    if (request->pool != NULL || request->heads != 0)
        return hrf_error_set(err, HRF_E_USER, "--pool and --heads need --weights");
    if (hrf_encoder_is_known(name))
        return hrf_error_set(err, HRF_E_USER,
                             "%s is an encoder: give its weights, --weights model.safetensors",
                             name);
    HRF_TRY(hrf_model_make(name, request->classes, request->size, (uint64_t)request->seed, &graph,
                           err));
    return hrf_onnx_write(graph, request->output, err);
}

/* What names the model in content keys. */
static enum hrf_status print_hash(const char *file, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    char sha256[HRF_HASH_HEX];
    HRF_TRY(hrf_onnx_read_named(file, sha256, &graph, err));
    printf("%s\n", sha256);
    if (hrf_lower_brings_scales(graph))
        printf("own scales\n");
    return HRF_OK;
}

/* What the model's metadata say of its images, as JSON; nothing if they do not. */
static enum hrf_status print_input(const char *file, struct hrf_error *err)
{
    HRF_AUTO_FREE char *value = NULL;
    HRF_TRY(hrf_onnx_read_entry(file, HRF_ENCODER_INPUT_KEY, &value, err));
    if (value != NULL)
        printf("%s\n", value);
    return HRF_OK;
}

/* The memory of the plan, in addition to the facts of the graph. */
static enum hrf_status plan_memory(const struct hrf_graph *graph, struct hrf_session_memory *out,
                                   struct hrf_error *err)
{
    HRF_AUTO(hrf_session) session = NULL;
    /* Nothing is allocated, so that images can be planned that do not fit on this machine. */
    const struct hrf_session_config config = { .device = "cpu",
                                               .precision = "fp32",
                                               .is_lent = true };
    HRF_TRY(hrf_session_create(graph, &config, &session, err));
    *out = hrf_session_memory(session);
    return HRF_OK;
}

static enum hrf_status print_json(const struct hrf_graph *graph,
                                  const struct hrf_session_memory *memory, struct hrf_error *err)
{
    char *text = NULL;
    size_t n_bytes = 0;
    FILE *stream = open_memstream(&text, &n_bytes);
    HRF_CHECK_MEMORY(stream != NULL, err, "no memory to describe the model");
    enum hrf_status status = hrf_model_inspect_print(graph, true, stream, err);
    fclose(stream);
    HRF_AUTO_JSON value = NULL;
    if (status == HRF_OK)
        status = hrf_json_parse(text, n_bytes, "model", &value, err);
    free(text); /* ci-allow: open_memstream's own */
    HRF_TRY(status);
    json_object_set_new(value, "memory",
                        json_pack("{sIsIsI}", "activation_bytes",
                                  (json_int_t)memory->activation_bytes, "weight_bytes",
                                  (json_int_t)memory->weight_bytes, "workspace_bytes",
                                  (json_int_t)memory->workspace_bytes));
    HRF_AUTO_FREE char *out = hrf_json_text(value);
    HRF_CHECK_MEMORY(out != NULL, err, "no memory to describe the model");
    printf("%s\n", out);
    return HRF_OK;
}

static enum hrf_status inspect(const char *name, const struct request *request,
                               struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    struct hrf_session_memory memory;
    HRF_TRY(hrf_engine_load_model(name, request->classes, request->size, &graph, err));
    HRF_TRY(hrf_engine_set_image_input(graph, request->batch, request->size, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    HRF_TRY(plan_memory(graph, &memory, err));
    if (request->json)
        return print_json(graph, &memory, err);
    HRF_TRY(hrf_model_inspect_print(graph, false, stdout, err));
    printf("memory needed: %.1f MiB activations, %.1f MiB weights, %.1f MiB workspace\n",
           (double)memory.activation_bytes / 0x1p20, (double)memory.weight_bytes / 0x1p20,
           (double)memory.workspace_bytes / 0x1p20);
    return HRF_OK;
}

/* INT8 names nodes and tensors as they run: fused. */
static enum hrf_status check_keep(const struct hrf_graph *graph, const struct hrf_option_list *keep,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) fused = NULL;
    if (keep->n_items == 0)
        return HRF_OK;
    HRF_TRY(hrf_graph_copy(graph, &fused, err));
    HRF_TRY(hrf_passes_run(fused, err));
    return hrf_lower_check_keep(fused, keep->items, (int32_t)keep->n_items, err);
}

/* Checks that the ranks of the layout can share the network. `graph` has the batch of one group. */
static enum hrf_status check_layout(const struct hrf_graph *graph, const struct request *request,
                                    struct hrf_error *err)
{
    const struct hrf_session_config config = { .device = "cpu", .precision = "fp32" };
    struct hrf_layout_plan layout;
    HRF_AUTO(hrf_graph) whole = NULL;
    HRF_AUTO(hrf_work) work = NULL;
    if (request->layout == NULL || strcmp(request->layout, "auto") == 0)
        return HRF_OK;
    HRF_TRY(hrf_layout_parse(request->layout, &layout, err));
    if (hrf_layout_ranks(&layout) == 1)
        return HRF_OK;
    HRF_TRY(hrf_graph_copy(graph, &whole, err));
    struct hrf_shape shape = whole->values[whole->inputs[0]].shape;
    shape.dims[0] *= layout.data;
    HRF_TRY(hrf_graph_set_input_shape(whole, 0, &shape, err));
    return hrf_work_create(whole, &config, &layout, &work, err);
}

/* Checks what an infer job would refuse, before there are jobs. */
static enum hrf_status check(const char *file, const struct request *request, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_session) session = NULL;
    const struct hrf_session_config config = {
        .device = "cpu", .precision = "fp32", .is_lent = true, .memory_limit_bytes = request->memory
    };
    HRF_TRY(hrf_onnx_read(file, &graph, err));
    hrf_engine_set_bounds(graph, request->max_memory, request->max_operations);
    HRF_TRY(hrf_engine_set_image_input(graph, request->batch, request->size, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    int64_t width = request->classes;
    const char *activation = request->activation;
    if (activation != NULL && strcmp(activation, "auto") == 0)
        activation = NULL;
    HRF_TRY(width == 0 ? hrf_engine_check_embedding(graph, &width, err)
                       : hrf_engine_finish_scores(graph, width, activation, err));
    HRF_TRY(check_keep(graph, &request->keep, err));
    HRF_TRY(check_layout(graph, request, err));
    if (!request->shapes)
        HRF_TRY(hrf_session_create(graph, &config, &session, err));
    const bool is_map = activation != NULL && strcmp(activation, "segmentation") == 0;
    printf("%lld images of %lldx%lld px give %lld %s each\n", (long long)request->batch,
           (long long)request->size, (long long)request->size, (long long)width,
           is_map                  ? "classes of pixels"
           : request->classes == 0 ? "numbers of an embedding"
                                   : "probabilities");
    return HRF_OK;
}

/* The same for a network that finds tissue. */
static enum hrf_status check_tissue(const char *file, const struct request *request,
                                    struct hrf_error *err)
{
    char *name = hrf_strdup(file);
    HRF_CHECK_MEMORY(name != NULL, err, "no memory for a path");
    const struct hrf_job_tissue settings = { .model_file = name,
                                             .size = request->size,
                                             .class = request->tissue_class };
    int64_t side = 0;
    const enum hrf_status status = hrf_tile_worker_check_model(&settings, &side, err);
    hrf_free(name);
    HRF_TRY(status);
    printf("images of %lldx%lld px give tissue\n", (long long)side, (long long)side);
    return HRF_OK;
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    struct request request = { .classes = 2, .batch = 1, .seed = 1, .tissue_class = -1 };
    const struct hrf_option options[] = {
        { "output", "FILE", "make: the ONNX file to write", HRF_OPTION_TEXT, &request.output },
        { "weights", "FILE",
          "make: the weights of an encoder, a safetensors file with timm's names", HRF_OPTION_TEXT,
          &request.weights },
        { "pool", "WORD",
          "make, with weights: the output. cls: class token, cls+mean: and the mean of the "
          "patches' "
          "tokens, mean, stage3 (ResNet), logits (default: what users of the encoder take)",
          HRF_OPTION_TEXT, &request.pool },
        { "external", NULL,
          "make, with weights: write them into a second file, FILE.data (always above 2 GiB)",
          HRF_OPTION_FLAG, &request.external },
        { "heads", "N", "make, with weights: attention heads (default: the encoder's own)",
          HRF_OPTION_INT, &request.heads },
        { "classes", "N",
          "make, check: outputs of the head (default 2); check with 0: an embedding, of any width",
          HRF_OPTION_INT, &request.classes },
        { "activation", "WORD",
          "check: softmax or sigmoid is added to raw outputs, none: nothing, auto: what the model "
          "lacks to give probabilities (default); segmentation: the outputs are of pixels",
          HRF_OPTION_TEXT, &request.activation },
        { "size", "PX", "image size", HRF_OPTION_INT, &request.size },
        { "batch", "N", "inspect, check: images in a batch (default 1)", HRF_OPTION_INT,
          &request.batch },
        { "seed", "N", "make: seed of the random weights (default 1)", HRF_OPTION_INT,
          &request.seed },
        { "memory", "BYTES", "check: memory limit (default: no limit)", HRF_OPTION_INT,
          &request.memory },
        { "max-memory", "BYTES",
          "check: largest allowed tensor for one image, and limit of all constants together "
          "(default 256 GiB)",
          HRF_OPTION_INT, &request.max_memory },
        { "max-operations", "N",
          "check: largest allowed number of operations for one image (default 1e16)",
          HRF_OPTION_REAL, &request.max_operations },
        { "shapes", NULL, "check: check only shapes, do not set up the network", HRF_OPTION_FLAG,
          &request.shapes },
        { "tissue", NULL, "check: whether the network can find tissue (tiler.tissue.method onnx)",
          HRF_OPTION_FLAG, &request.tissue },
        { "class", "N", "check --tissue: the output that is tissue, from 0 (default: the last)",
          HRF_OPTION_INT, &request.tissue_class },
        { "layout", "L",
          "check: layout of the ranks that share the network, e.g. spatial=2,stages=2",
          HRF_OPTION_TEXT, &request.layout },
        { "keep", "NAME",
          "check: a node or tensor that stays in float32 with int8; may be repeated",
          HRF_OPTION_LIST, &request.keep },
        { "json", NULL, "inspect: print JSON", HRF_OPTION_FLAG, &request.json },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_ENGINE_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    enum hrf_status status;
    const bool is_check = strcmp(args.operands[0], "check") == 0;
    if (request.classes < !is_check || request.size < 0 || request.heads < 0 || request.batch < 1)
        status = hrf_error_set(&err, HRF_E_USER,
                               "--classes and --batch must be at least 1; --size is in pixels");
    else if (strcmp(args.operands[0], "make") == 0)
        status = make(args.operands[1], &request, &err);
    else if (strcmp(args.operands[0], "inspect") == 0)
        status = inspect(args.operands[1], &request, &err);
    else if (strcmp(args.operands[0], "hash") == 0)
        status = print_hash(args.operands[1], &err);
    else if (strcmp(args.operands[0], "input") == 0)
        status = print_input(args.operands[1], &err);
    else if (is_check && request.tissue)
        status = check_tissue(args.operands[1], &request, &err);
    else if (is_check)
        status = check(args.operands[1], &request, &err);
    else
        status = hrf_error_set(&err, HRF_E_USER,
                               "'%s' is unknown; use model make, inspect, check, hash or input",
                               args.operands[0]);
    return status == HRF_OK ? 0 : hrf_engine_fail(command->name, &err);
}

const struct hrf_command hrf_engine_model = {
    .name = "model",
    .operands = "make|inspect|check|hash|input NAME|FILE",
    .summary = "write a built-in architecture as ONNX, or inspect a model",
    .details = details,
    .min_operands = 2,
    .max_operands = 2,
    .run = run,
};
