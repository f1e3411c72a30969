/* model.c - `hires-engine model make|inspect|check`. */
#include "engine/model/model.h"
#include "base/args.h"
#include "base/json.h"
#include "engine/cli/cli.h"
#include "engine/encoder/encoder.h"
#include "engine/onnx/onnx.h"
#include "engine/passes/lower.h"
#include "engine/passes/passes.h"
#include "engine/planning/find_layout.h"
#include "engine/planning/request.h"
#include "engine/run/rank.h"
#include "engine/tile_worker/tile_worker.h"
#include "schema/record/input_entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An encoder with weights that the user has; what its images have to be goes with it. */
static enum hrf_status make_encoder(const char *name, const struct hrf_model_request *request,
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
    HRF_AUTO_FREE char *text = hrf_encoder_input_text(&input, 0);
    const struct hrf_onnx_entry entry = { HRF_MODEL_INPUT_KEY, text };
    return hrf_onnx_write_with(graph, &entry, 1, request->external, request->output, err);
}

static enum hrf_status make(const char *name, const struct hrf_model_request *request,
                            struct hrf_error *err)
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
    if (request->activation != NULL)
        HRF_TRY(hrf_engine_append_activation(graph, request->activation, err));
    return hrf_onnx_write(graph, request->output, err);
}

/* Prints the hash that names the model in content keys. */
static enum hrf_status print_hash(const char *file, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    struct hrf_model_identity identity;
    HRF_TRY(hrf_onnx_read_named(file, identity.sha256, &graph, err));
    identity.brings_scales = hrf_lower_brings_scales(graph);
    HRF_AUTO_JSON answer = hrf_model_identity_json(&identity);
    hrf_json_print(answer);
    return HRF_OK;
}

/* Prints as JSON what the model's metadata say of its images; nothing if they do not. */
static enum hrf_status print_input(const char *file, struct hrf_error *err)
{
    HRF_AUTO_FREE char *value = NULL;
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_TRY(hrf_onnx_read_entry(file, HRF_MODEL_INPUT_KEY, &value, err));
    if (value != NULL) {
        printf("%s\n", value);
        return HRF_OK;
    }
    HRF_TRY(hrf_onnx_read(file, &graph, err));
    const struct hrf_shape *shape = &graph->file_shape;
    if (shape->rank != 4 || shape->dims[2] <= 0 || shape->dims[2] != shape->dims[3])
        return HRF_OK;
    HRF_AUTO_JSON answer = json_object();
    hrf_json_put_int(answer, "fixed_size", shape->dims[2]);
    hrf_json_print(answer);
    return HRF_OK;
}

/* The memory of the plan, in addition to the facts of the graph. */
static enum hrf_status plan_memory(const struct hrf_graph *graph, struct hrf_session_memory *out,
                                   struct hrf_error *err)
{
    HRF_AUTO(hrf_session) session = NULL;
    /* Nothing is allocated, so that images can be planned that do not fit on this machine. */
    const struct hrf_session_config config = { .device = "cpu",
                                               .precision = HRF_FP32,
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
    json_t *object = json_object();
    hrf_json_put_int(object, "activation_bytes", memory->activation_bytes);
    hrf_json_put_int(object, "weight_bytes", memory->weight_bytes);
    hrf_json_put_int(object, "workspace_bytes", memory->workspace_bytes);
    hrf_json_put(value, "memory", object);
    hrf_json_print(value);
    return HRF_OK;
}

static enum hrf_status inspect(const char *name, const struct hrf_model_request *request,
                               struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    struct hrf_session_memory memory;
    int64_t size = request->size, batch = request->batch;
    HRF_TRY(hrf_engine_load_image_model(name, request->classes, &size, &batch, &graph, err));
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
static enum hrf_status check_layout(const struct hrf_graph *graph,
                                    const struct hrf_model_request *request, struct hrf_error *err)
{
    const struct hrf_session_config config = { .device = "cpu", .precision = HRF_FP32 };
    struct hrf_layout_plan layout;
    HRF_AUTO(hrf_work) work = NULL;
    if (request->layout == NULL || hrf_layout_is_auto(request->layout))
        return HRF_OK;
    HRF_TRY(hrf_layout_parse(request->layout, &layout, err));
    layout.data = 1; /* every group has batches of its own */
    if (hrf_layout_ranks(&layout) == 1)
        return HRF_OK;
    return hrf_work_create(graph, &config, &layout, &work, err);
}

/* Checks what an infer job would refuse, before there are jobs. */
static enum hrf_status check(const char *file, const struct hrf_model_request *request,
                             struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_session) session = NULL;
    const struct hrf_session_config config = { .device = "cpu",
                                               .precision = HRF_FP32,
                                               .is_lent = true,
                                               .memory_limit_bytes = request->memory };
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
    printf("%lld images of %lldx%lld px give %lld %s each\n",
           (long long)graph->values[graph->inputs[0]].shape.dims[0], (long long)request->size,
           (long long)request->size, (long long)width,
           is_map                  ? "classes of pixels"
           : request->classes == 0 ? "numbers of an embedding"
                                   : "probabilities");
    return HRF_OK;
}

/* The same for a network that finds tissue. */
static enum hrf_status check_tissue(const char *file, const struct hrf_model_request *request,
                                    struct hrf_error *err)
{
    char *name = hrf_strdup(file);
    const struct hrf_workflow_tissue settings = { .model = name,
                                                  .size = request->size,
                                                  .class = request->class };
    int64_t side = 0;
    const enum hrf_status status = hrf_tile_worker_check_model(&settings, &side, err);
    hrf_free(name);
    HRF_TRY(status);
    printf("images of %lldx%lld px give tissue\n", (long long)side, (long long)side);
    return HRF_OK;
}

int hrf_engine_model(const struct hrf_command *command, int argc, char **argv)
{
    struct hrf_model_request request = hrf_model_request_initial;
    struct hrf_args args = hrf_args_parse_request(HRF_ENGINE_PROGRAM, command, hrf_model_options,
                                                  &request, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    enum hrf_status status;
    const bool is_check = strcmp(args.operands[0], "check") == 0;
    if (request.classes == 0 && !is_check)
        status = hrf_error_set(&err, HRF_E_USER, "--classes 0, an embedding, is for 'check' only");
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
