/* tissue_model.c - see tissue_model.h. */
#include "engine/tile_worker/tissue_model.h"

#include "engine/input/normalise.h"
#include "engine/onnx/onnx.h"
#include "engine/planning/request.h"
#include "engine/run/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_SIDE = 512, DEFAULT_BATCH = 4 };

struct hrf_tissue_model {
    struct hrf_tissue_output output;
    struct hrf_network *network;
    struct hrf_normaliser normaliser;
    float *pixels; /* [batch][side][side][3], the network's input */
};

void hrf_tissue_model_destroy(struct hrf_tissue_model *model)
{
    if (model == NULL)
        return;
    hrf_network_destroy(model->network);
    hrf_free(model->pixels);
    hrf_free(model);
}

/* ---- the model and its shapes ---- */

static enum hrf_status read_named(const struct hrf_workflow_tissue *settings,
                                  const char *model_sha256, struct hrf_graph **out,
                                  struct hrf_error *err)
{
    char sha256[HRF_HASH_HEX] = "";
    HRF_AUTO(hrf_graph) graph = NULL;
    const enum hrf_status status = hrf_onnx_read_named(settings->model, sha256, &graph, err);
    /* First: a model that has changed may be one that cannot be read. */
    if (model_sha256 != NULL && sha256[0] != '\0' && strcmp(sha256, model_sha256) != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has changed since the run planned with it (SHA-256 %.12s..., "
                             "expected %.12s...); run again",
                             settings->model, sha256, model_sha256);
    HRF_TRY(status);
    HRF_MOVE(*out, graph);
    return HRF_OK;
}

/* The batch and the side: as asked for, else as the model says, else the defaults. */
static enum hrf_status set_input(const struct hrf_workflow_tissue *settings,
                                 struct hrf_graph *graph, struct hrf_tissue_output *output,
                                 struct hrf_error *err)
{
    const struct hrf_value *input = &graph->values[graph->inputs[0]];
    const bool is_image = graph->n_inputs == 1 && input->shape.rank == 4;
    const int64_t batch = is_image ? input->shape.dims[0] : 0;
    const int64_t side = is_image ? input->shape.dims[2] : 0;
    output->batch = batch > 1 ? batch : DEFAULT_BATCH;
    output->side = settings->size > 0 ? settings->size : side > 0 ? side : DEFAULT_SIDE;
    HRF_TRY(hrf_engine_set_image_input(graph, output->batch, output->side, err));
    output->batch = input->shape.dims[0];
    return hrf_graph_infer_shapes(graph, err);
}

static bool read_output_shape(const struct hrf_shape *shape, struct hrf_tissue_output *output)
{
    output->height = output->width = output->n_classes = 1;
    if (shape->rank < 2 || shape->rank > 4 || shape->dims[0] != output->batch)
        return false;
    if (shape->rank != 3)
        output->n_classes = shape->dims[1];
    if (shape->rank != 2) {
        output->height = shape->dims[shape->rank - 2];
        output->width = shape->dims[shape->rank - 1];
    }
    return output->n_classes >= 1 && output->height >= 1 && output->width >= 1;
}

enum hrf_status hrf_tissue_model_read(const struct hrf_workflow_tissue *settings,
                                      const char *model_sha256, struct hrf_graph **out,
                                      struct hrf_tissue_output *output, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    struct hrf_tissue_output o = { .class = settings->class };
    char text[128];
    HRF_TRY(read_named(settings, model_sha256, &graph, err));
    HRF_TRY(set_input(settings, graph, &o, err));
    HRF_TRY(hrf_engine_check_output(graph, "tissue map", err));
    const struct hrf_value *value = &graph->values[graph->outputs[0]];
    hrf_shape_text(&value->shape, text);
    if (!read_output_shape(&value->shape, &o))
        return hrf_error_set(err, HRF_E_USER,
                             "the model's output '%s' is %s for a batch of %lld where tissue is "
                             "told from a map NxCxHxW or NxHxW, or from classes NxC",
                             value->name, text, (long long)o.batch);
    if (o.class >= o.n_classes)
        return hrf_error_set(
            err, HRF_E_USER,
            "{tiler.tissue.class} is %lld, and the model's output '%s' is %s: it has "
            "the classes 0 to %lld",
            (long long)o.class, value->name, text, (long long)o.n_classes - 1);
    if (o.class < 0)
        o.class = o.n_classes - 1;
    o.is_probability = hrf_engine_ends_in_probabilities(graph);
    *output = o;
    HRF_MOVE(*out, graph);
    return HRF_OK;
}

enum hrf_status hrf_tissue_model_create(const struct hrf_workflow_tissue *settings,
                                        const char *model_sha256, int64_t n_threads,
                                        struct hrf_tissue_model **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_tissue_model) model = hrf_calloc(1, sizeof *model);
    HRF_TRY(hrf_tissue_model_read(settings, model_sha256, &graph, &model->output, err));
    const struct hrf_network_config config = {
        .session = { .device = "cpu", .precision = HRF_FP32, .n_threads = (int32_t)n_threads }
    };
    HRF_TRY(hrf_network_create(graph, &config, &model->network, err));
    hrf_normaliser_init(&model->normaliser, settings->mean, settings->std);
    const size_t side = (size_t)model->output.side;
    model->pixels = hrf_try_alloc_array((size_t)model->output.batch * side * side,
                                        3 * sizeof *model->pixels);
    HRF_CHECK_MEMORY(model->pixels != NULL, err, "no memory for %lld images of %lld px",
                     (long long)model->output.batch, (long long)model->output.side);
    HRF_MOVE(*out, model);
    return HRF_OK;
}

/* ---- running it ---- */

/* Of one place of the output, [n_classes]. */
static float probability_of(const struct hrf_tissue_output *o, const float *numbers)
{
    double sum = 0, most = numbers[0];
    if (o->is_probability)
        return numbers[o->class];
    if (o->n_classes == 1)
        return (float)(1 / (1 + exp(-(double)numbers[0])));
    for (int64_t i = 1; i < o->n_classes; i++)
        most = fmax(most, numbers[i]);
    for (int64_t i = 0; i < o->n_classes; i++)
        sum += exp(numbers[i] - most);
    return (float)(exp(numbers[o->class] - most) / sum);
}

/* By how much rounding may take a Softmax out of 0 to 1. */
static const float slack = 1e-5f;

/* Stretches an image's output, [height][width][n_classes], over the image. */
static enum hrf_status stretch(const struct hrf_tissue_output *o, const float *numbers,
                               float *probability, struct hrf_error *err)
{
    for (int64_t y = 0; y < o->side; y++)
        for (int64_t x = 0; x < o->side; x++) {
            const int64_t at = y * o->height / o->side * o->width + x * o->width / o->side;
            const float p = probability_of(o, numbers + at * o->n_classes);
            if (!(p >= -slack && p <= 1 + slack))
                return hrf_error_set(err, HRF_E_USER,
                                     "the network for tissue gives %g where a probability is "
                                     "expected: check {tiler.tissue.model} and its mean and std",
                                     (double)p);
            probability[y * o->side + x] = p;
        }
    return HRF_OK;
}

static enum hrf_status tissue_model_find(void *context, const unsigned char *images, int64_t n,
                                         float *probability, struct hrf_error *err)
{
    struct hrf_tissue_model *model = context;
    const struct hrf_tissue_output *o = &model->output;
    const int64_t area = o->side * o->side;
    struct hrf_array_source source = { model->pixels, { 4, { o->batch, 3, o->side, o->side } } };
    hrf_normalise(&model->normaliser, images, n * area * 3, model->pixels);
    memset(model->pixels + n * area * 3, 0,
           (size_t)((o->batch - n) * area * 3) * sizeof *model->pixels);
    HRF_TRY(hrf_network_run(model->network, hrf_read_array, &source, err));
    const float *numbers = hrf_network_output(model->network, 0);
    for (int64_t i = 0; i < n; i++)
        HRF_TRY(stretch(o, numbers + i * o->height * o->width * o->n_classes,
                        probability + i * area, err));
    return HRF_OK;
}

struct hrf_tissue_network hrf_tissue_model_network(struct hrf_tissue_model *model)
{
    return (struct hrf_tissue_network){ .context = model,
                                        .side = model->output.side,
                                        .batch = model->output.batch,
                                        .find = tissue_model_find };
}
