/* request.c - checks and loads what the options of several subcommands name (request.h). */
#include "engine/planning/request.h"

#include "base/message.h"

#include "base/args.h"
#include "base/clock.h"
#include "base/path.h"
#include "engine/backend/backend.h"
#include "engine/ir/fixed_input.h"
#include "engine/ir/op.h"
#include "engine/model/model.h"
#include "engine/onnx/onnx.h"
#include "engine/planning/find_layout.h"
#include "schema/settings/layout.h"
#include "schema/settings/precision.h"

#include <stdio.h>
#include <string.h>

static enum hrf_status check_word(const char *option, const char *word, const char *const words[],
                                  struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) offer = HRF_STRBUF_INIT;
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], word) == 0)
            return HRF_OK;
        hrf_strbuf_addf(&offer, i == 0 ? "%s" : ", %s", words[i]);
    }
    const char *near = hrf_nearest_word(word, words);
    return hrf_error_set(err, HRF_E_USER, "--%s '%s' is not known%s%s%s; there are: %s", option,
                         word, near != NULL ? ", did you mean '" : "", near != NULL ? near : "",
                         near != NULL ? "'?" : "", offer.text);
}

enum hrf_status hrf_engine_check_request(const char *device, const char *layout,
                                         struct hrf_error *err)
{
    static const char *const devices[] = { "auto", "cpu", "cuda", "ref", NULL };
    struct hrf_layout_plan unused;
    HRF_TRY(check_word("device", device, devices, err));
    if (hrf_layout_is_auto(layout))
        return HRF_OK;
    return hrf_layout_parse(layout, &unused, err);
}

enum hrf_status hrf_engine_check_device(const char *device, struct hrf_device_identity *out,
                                        struct hrf_error *err)
{
    const struct hrf_backend_ops *ops = NULL;
    HRF_TRY(hrf_backend_choose(device, &ops, NULL, err));
    return ops->identify(out, err);
}

enum hrf_status hrf_engine_load_model(const char *name, int64_t n_classes, int64_t size,
                                      struct hrf_graph **out, struct hrf_error *err)
{
    const char *const *names = hrf_model_names();
    if (hrf_path_exists(name) || !hrf_model_is_built_in(name)) {
        const char *near = hrf_path_exists(name) ? NULL : hrf_nearest_word(name, names);
        enum hrf_status status = hrf_onnx_read(name, out, err);
        if (status != HRF_OK && near != NULL)
            return hrf_error_set(err, HRF_E_USER,
                                 "'%s' is neither a file nor a built-in model; did you mean "
                                 "'%s'?",
                                 name, near);
        return status;
    }
    return hrf_model_make(name, n_classes, size, 1, out, err);
}

/* A bag of `size` tokens, [1 or more][tokens][channels]. */
static enum hrf_status set_tokens_input(struct hrf_graph *graph, int64_t batch, int64_t size,
                                        struct hrf_error *err)
{
    const struct hrf_value *input = &graph->values[graph->inputs[0]];
    struct hrf_shape shape = input->shape;
    char text[128];
    hrf_shape_text(&shape, text);
    if (shape.dims[2] <= 0 || (shape.dims[1] <= 0 && size <= 0))
        return hrf_error_set(err, HRF_E_USER,
                             "the model's input '%s' is %s: its channels must be known, and the "
                             "number of tokens given as the size",
                             input->name, text);
    if (shape.dims[1] > 0 && size > 0 && shape.dims[1] != size)
        return hrf_error_set(err, HRF_E_USER,
                             "the model's input '%s' is %s; it cannot take %lld tokens",
                             input->name, text, (long long)size);
    shape.dims[0] = shape.dims[0] > 0 ? shape.dims[0] : batch > 0 ? batch : 1;
    shape.dims[1] = shape.dims[1] > 0 ? shape.dims[1] : size;
    return hrf_graph_set_input_shape(graph, 0, &shape, err);
}

/* `is_run`: the images are patches of a run. */
static enum hrf_status refuse_size(const struct hrf_value *input, int64_t size, bool is_run,
                                   const char *why, struct hrf_error *err)
{
    const int64_t rows = input->shape.dims[2], columns = input->shape.dims[3];
    HRF_AUTO_FREE char *remedy = NULL;
    char text[128];
    hrf_shape_text(&input->shape, text);
    if (rows == columns && is_run)
        remedy = hrf_message_format(
            ": use {model.input.size=%lld}, to which patches are then resized (or their middle is "
            "cut, after resizing them to {model.input.resize})",
            (long long)rows);
    else if (rows == columns)
        remedy = hrf_format(": give %lld as the size", (long long)rows);
    return hrf_error_set(err, HRF_E_USER,
                         "the model's input '%s' is %s; it cannot take images of %lldx%lld px%s "
                         "(%s)",
                         input->name, text, (long long)size, (long long)size,
                         remedy != NULL ? remedy : "", why);
}

static enum hrf_status set_image_input(struct hrf_graph *graph, int64_t batch, int64_t size,
                                       bool is_run, struct hrf_error *err)
{
    if (graph->n_inputs != 1)
        return hrf_error_set(err, HRF_E_USER,
                             "the model has %d inputs; one image input is supported",
                             graph->n_inputs);
    const struct hrf_value *input = &graph->values[graph->inputs[0]];
    struct hrf_shape shape = input->shape;
    struct hrf_error why = { .status = HRF_OK };
    char text[128];
    hrf_shape_text(&shape, text);
    if (shape.rank == 3)
        return set_tokens_input(graph, batch, size, err);
    if (shape.rank != 4 || (shape.dims[1] >= 0 && shape.dims[1] != 3))
        return hrf_error_set(err, HRF_E_USER,
                             "the model's input '%s' is %s; it must be an RGB image batch Nx3xHxW",
                             input->name, text);
    for (int axis = 2; axis < 4; axis++) {
        if (size > 0)
            shape.dims[axis] = size;
        if (shape.dims[axis] <= 0)
            return hrf_error_set(err, HRF_E_USER,
                                 "the model's input '%s' is %s: give the image size", input->name,
                                 text);
    }
    shape.dims[0] = batch > 0 ? batch : 1;
    shape.dims[1] = 3;
    if (hrf_fixed_input_check_size(graph, &shape, &why) != HRF_OK)
        return refuse_size(input, size, is_run, why.text, err);
    shape.dims[0] = hrf_graph_images(graph, &shape);
    return hrf_graph_set_input_shape(graph, 0, &shape, err);
}

enum hrf_status hrf_engine_set_image_input(struct hrf_graph *graph, int64_t batch, int64_t size,
                                           struct hrf_error *err)
{
    return set_image_input(graph, batch, size, true, err);
}

enum hrf_status hrf_engine_load_image_model(const char *name, int64_t n_classes, int64_t *size,
                                            int64_t *batch, struct hrf_graph **out,
                                            struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_TRY(
        hrf_engine_load_model(name, n_classes, *size > 0 ? *size : HRF_ENGINE_SIZE, &graph, err));
    const struct hrf_shape *input = graph->n_inputs == 1 ? &graph->values[graph->inputs[0]].shape
                                                         : NULL;
    int64_t side = *size;
    if (side == 0 && input != NULL && (input->rank == 3 ? input->dims[1] : input->dims[2]) <= 0)
        side = HRF_ENGINE_SIZE;
    HRF_TRY(set_image_input(graph, *batch, side, false, err));
    *size = input->rank == 3 ? input->dims[1] : input->dims[2];
    *batch = input->dims[0];
    HRF_MOVE(*out, graph);
    return HRF_OK;
}

void hrf_engine_set_bounds(struct hrf_graph *graph, int64_t memory_bytes, double operations)
{
    if (memory_bytes > 0)
        graph->bounds.memory_bytes = memory_bytes;
    if (operations > 0)
        graph->bounds.operations = operations;
}

bool hrf_engine_ends_in_probabilities(const struct hrf_graph *graph)
{
    for (int32_t at = graph->outputs[0]; at >= 0 && graph->values[at].producer >= 0;) {
        const struct hrf_node *node = &graph->nodes[graph->values[at].producer];
        if (node->op == HRF_OP_SOFTMAX || node->op == HRF_OP_SIGMOID)
            return true;
        if (hrf_op_info(node->op)->op_class != HRF_CLASS_VIEW && node->op != HRF_OP_TRANSPOSE &&
            node->op != HRF_OP_SLICE && node->op != HRF_OP_RESIZE)
            return false;
        at = node->inputs[0];
    }
    return false;
}

enum hrf_status hrf_engine_check_output(const struct hrf_graph *graph, const char *wanted,
                                        struct hrf_error *err)
{
    if (graph->n_outputs != 1)
        return hrf_error_set(err, HRF_E_USER,
                             "the model has %d outputs ('%s', '%s' ...) where one is scored: "
                             "export it with the %s alone",
                             graph->n_outputs, graph->values[graph->outputs[0]].name,
                             graph->values[graph->outputs[1]].name, wanted);
    const struct hrf_value *output = &graph->values[graph->outputs[0]];
    if (output->dtype != HRF_F32)
        return hrf_error_set(err, HRF_E_USER,
                             "the model's output '%s' is %s where float32 is scored: end the model "
                             "in a DequantizeLinear or export it without the last QuantizeLinear",
                             output->name, hrf_dtype_name(output->dtype));
    return HRF_OK;
}

enum { MAX_FEATURES = 1 << 16 }; /* what a scores record holds for a patch */

enum hrf_status hrf_engine_check_embedding(const struct hrf_graph *graph, int64_t *width,
                                           struct hrf_error *err)
{
    HRF_TRY(hrf_engine_check_output(graph, "embedding", err));
    const struct hrf_value *output = &graph->values[graph->outputs[0]];
    const struct hrf_shape *shape = &output->shape;
    const int64_t batch = graph->values[graph->inputs[0]].shape.dims[0];
    bool is_vector = shape->rank >= 2 && shape->dims[0] == batch && shape->dims[1] > 0 &&
                     shape->dims[1] <= MAX_FEATURES;
    for (int32_t i = 2; i < shape->rank; i++)
        is_vector &= shape->dims[i] == 1;
    char text[128];
    hrf_shape_text(shape, text);
    if (!is_vector)
        return hrf_error_set(err, HRF_E_USER,
                             "the model's output '%s' is %s for a batch of %lld where an embedding "
                             "is one vector of at most %d numbers for each image: export the model "
                             "with its class token or pooled features as output",
                             output->name, text, (long long)batch, MAX_FEATURES);
    *width = shape->dims[1];
    return HRF_OK;
}

enum { MAX_CLASSES = 1000 }; /* more classes would be a map or a feature */

/* Finds the operator that is to be appended; *is_needed false: none. */
static enum hrf_status choose_activation(const struct hrf_graph *graph, int64_t n_classes,
                                         const char *wanted, enum hrf_op *op, bool *is_needed,
                                         struct hrf_error *err)
{
    const int32_t output = graph->outputs[0];
    const bool has_one = hrf_engine_ends_in_probabilities(graph);
    const bool is_sigmoid = wanted != NULL ? strcmp(wanted, "sigmoid") == 0 : n_classes == 1;
    *op = is_sigmoid ? HRF_OP_SIGMOID : HRF_OP_SOFTMAX;
    *is_needed = wanted == NULL ? !has_one : strcmp(wanted, "none") != 0;
    if (wanted != NULL && has_one && *is_needed)
        return hrf_error_set(
            err, HRF_E_USER,
            "the model's output '%s' has passed a Softmax or Sigmoid already, and "
            "{model.output} '%s' would add another; use 'probabilities', or export "
            "the raw outputs",
            graph->values[output].name, wanted);
    return HRF_OK;
}

static enum hrf_status append_activation(struct hrf_graph *graph, enum hrf_op op,
                                         struct hrf_error *err)
{
    const int32_t output = graph->outputs[0];
    const struct hrf_shape shape = graph->values[output].shape;
    int32_t added;
    HRF_TRY(hrf_graph_add_value(graph, "probabilities", HRF_F32, &shape, NULL, &added, err));
    struct hrf_attributes attributes = hrf_attributes_default();
    attributes.axis = 1;
    HRF_TRY(
        hrf_graph_add_node(graph, op, "hires-flow head", &output, 1, &added, 1, &attributes, err));
    HRF_AUTO_FREE int32_t *inputs = hrf_alloc_array((size_t)graph->n_inputs, sizeof *inputs);
    memcpy(inputs, graph->inputs, (size_t)graph->n_inputs * sizeof *inputs);
    return hrf_graph_set_io(graph, inputs, graph->n_inputs, &added, 1, err);
}

enum hrf_status hrf_engine_append_activation(struct hrf_graph *graph, const char *word,
                                             struct hrf_error *err)
{
    const bool is_softmax = strcmp(word, "softmax") == 0;
    if (!is_softmax && strcmp(word, "sigmoid") != 0)
        return hrf_error_set(err, HRF_E_USER, "a network is made with softmax or sigmoid, not '%s'",
                             word);
    return append_activation(graph, is_softmax ? HRF_OP_SOFTMAX : HRF_OP_SIGMOID, err);
}

/* The largest output is the same with and without Softmax, so that only a single class needs an
 * activation. */
static enum hrf_status finish_segmentation(struct hrf_graph *graph, int64_t n_classes,
                                           struct hrf_error *err)
{
    const int32_t output = graph->outputs[0];
    const struct hrf_shape *shape = &graph->values[output].shape;
    const struct hrf_shape *input = &graph->values[graph->inputs[0]].shape;
    char text[128];
    hrf_shape_text(shape, text);
    if (shape->rank != 4 || shape->dims[0] != input->dims[0] || shape->dims[1] != n_classes)
        return hrf_error_set(err, HRF_E_USER,
                             "the model's output '%s' is %s for a batch of %lld; segmentation into "
                             "%lld classes ({model.classes}) needs %lldx%lldxHxW",
                             graph->values[output].name, text, (long long)input->dims[0],
                             (long long)n_classes, (long long)input->dims[0], (long long)n_classes);
    const int64_t side = shape->dims[2];
    if (side != shape->dims[3] || side < 1 || input->dims[2] % side != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "the model's output '%s' is %s for patches of %lldx%lld px; a label "
                             "map is as large as the patch, or a half, a third ... of it: export "
                             "the model with padded convolutions",
                             graph->values[output].name, text, (long long)input->dims[2],
                             (long long)input->dims[3]);
    if (n_classes == 1 && !hrf_engine_ends_in_probabilities(graph))
        return append_activation(graph, HRF_OP_SIGMOID, err);
    return HRF_OK;
}

enum hrf_status hrf_engine_finish_scores(struct hrf_graph *graph, int64_t n_classes,
                                         const char *activation, struct hrf_error *err)
{
    enum hrf_op op;
    bool is_needed;
    HRF_TRY(hrf_engine_check_output(graph, "probabilities or logits", err));
    if (activation != NULL && strcmp(activation, "segmentation") == 0)
        return finish_segmentation(graph, n_classes, err);
    const int32_t output = graph->outputs[0];
    struct hrf_shape shape = graph->values[output].shape;
    int64_t batch = graph->values[graph->inputs[0]].shape.dims[0];
    char text[128];
    hrf_shape_text(&shape, text);
    if (shape.rank < 1 || shape.dims[0] != batch || hrf_shape_count(&shape) != batch * n_classes) {
        const bool is_row = shape.rank > 0 && shape.dims[0] == batch && batch > 0;
        const int64_t n_there = is_row ? hrf_shape_count(&shape) / batch : 0;
        hrf_error_set(err, HRF_E_USER,
                      "the model's output '%s' is %s for a batch of %lld; there are %lld "
                      "classes ({model.classes})",
                      graph->values[output].name, text, (long long)batch, (long long)n_classes);
        if (n_there > 0 && n_there <= MAX_CLASSES && err != NULL)
            snprintf(err->text + strlen(err->text), sizeof err->text - strlen(err->text),
                     ": name %lld, one for each number of the output%s", (long long)n_there,
                     n_there == 1 ? ", e.g. [tumor]" : "");
        return HRF_E_USER;
    }
    HRF_TRY(choose_activation(graph, n_classes, activation, &op, &is_needed, err));
    return is_needed ? append_activation(graph, op, err) : HRF_OK;
}

enum hrf_status hrf_engine_sign_calibration(struct hrf_calibration *calibration,
                                            const struct hrf_graph *graph, struct hrf_error *err)
{
    char hash[65], created[24];
    HRF_TRY(hrf_graph_hash(graph, hash, err));
    hrf_clock_iso8601(hrf_clock_wall_ms(), created);
    const struct {
        char **member;
        const char *text;
    } texts[] = { { &calibration->key, hash },
                  { &calibration->graph, hash },
                  { &calibration->sample, "the input of eval" },
                  { &calibration->engine, HRF_VERSION },
                  { &calibration->created, created } };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (*texts[i].member == NULL)
            *texts[i].member = hrf_strdup(texts[i].text);
    return HRF_OK;
}
