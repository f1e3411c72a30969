/* train_steps MODEL.onnx X.npy T.npy DIR LOSS OPTIMIZER RATE STEPS frozen|train [THREADS [LAYOUT]]
 * Trains on batches that follow each other in X and T (targets in the output's shape), and leaves
 * DIR/loss.npy and DIR/seconds.npy (processor time), one number a step, and DIR/WEIGHT.npy: for
 * comparing with another framework. */
#include "base/clock.h"
#include "engine/backend/compute.h"
#include "engine/input/npy.h"
#include "engine/onnx/onnx.h"
#include "engine/train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(enum hrf_status status, const struct hrf_error *err)
{
    if (status == HRF_OK)
        return;
    fprintf(stderr, "train_steps: %s\n", err->text);
    exit(1); /* ci-allow: a program */
}

static int index_of(const char *const *names, const char *name)
{
    for (int i = 0; names[i] != NULL; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    fprintf(stderr, "train_steps: %s?\n", name);
    exit(2); /* ci-allow: a program */
}

static struct hrf_graph *read_model(const char *path, const struct hrf_shape *batch)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_graph *graph = NULL;
    must(hrf_onnx_read(path, &graph, &err), &err);
    must(hrf_graph_set_input_shape(graph, 0, batch, &err), &err);
    return graph;
}

static void write_weights(const struct hrf_trainer *trainer, const char *folder)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_graph *graph = NULL;
    must(hrf_trainer_network(trainer, &graph, &err), &err);
    for (int32_t v = 0; v < graph->n_values; v++) {
        const struct hrf_value *value = &graph->values[v];
        char path[1024];
        if (!value->is_initializer || value->dtype != HRF_F32)
            continue;
        snprintf(path, sizeof path, "%s/%s.npy", folder, value->name);
        must(hrf_npy_write(path, HRF_F32, &value->shape, value->data, &err), &err);
    }
    hrf_graph_destroy(graph);
}

static void write_steps(const char *folder, const char *name, const float *numbers, int64_t n)
{
    struct hrf_error err = { .status = HRF_OK };
    const struct hrf_shape shape = { 1, { n } };
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.npy", folder, name);
    must(hrf_npy_write(path, HRF_F32, &shape, numbers, &err), &err);
}

int main(int argc, char **argv)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_shape x, t;
    float *images = NULL, *targets = NULL;
    if (argc < 10)
        return 2;
    must(hrf_npy_read(argv[2], &x, &images, &err), &err);
    must(hrf_npy_read(argv[3], &t, &targets, &err), &err);
    const double rate = strtod(argv[7], NULL);
    const int64_t n_steps = strtoll(argv[8], NULL, 10);
    x.dims[0] /= n_steps;
    t.dims[0] /= n_steps;
    struct hrf_layout_plan layout;
    must(hrf_layout_parse(argc > 11 ? argv[11] : NULL, &layout, &err), &err);
    const struct hrf_trainer_config config = {
        .step = { .device = "cpu",
                  .loss = (enum hrf_loss)index_of(hrf_loss_names, argv[5]),
                  .uses_batch = strcmp(argv[9], "train") == 0,
                  .n_threads = argc > 10 ? (int32_t)strtol(argv[10], NULL, 10) : 0,
                  .layout = &layout },
        .optimizer = hrf_optimizer_default(
            (enum hrf_optimizer_kind)index_of(hrf_optimizer_names, argv[6])),
    };
    struct hrf_graph *model = read_model(argv[1], &x);
    struct hrf_trainer *trainer = NULL;
    must(hrf_trainer_create(model, &config, &trainer, &err), &err);
    float *losses = hrf_alloc_array((size_t)n_steps, sizeof *losses);
    float *seconds = hrf_alloc_array((size_t)n_steps, sizeof *seconds);
    for (int64_t i = 0; i < n_steps; i++) {
        double loss = 0;
        const double start = hrf_clock_process_seconds();
        hrf_layout_from_onnx(&x, sizeof *images, images + i * hrf_shape_count(&x),
                             hrf_train_step_images(hrf_trainer_next(trainer)));
        hrf_layout_from_onnx(&t, sizeof *targets, targets + i * hrf_shape_count(&t),
                             hrf_train_step_targets(hrf_trainer_next(trainer)));
        must(hrf_trainer_step(trainer, rate, &loss, &err), &err);
        losses[i] = (float)loss;
        seconds[i] = (float)(hrf_clock_process_seconds() - start);
    }
    write_steps(argv[4], "loss", losses, n_steps);
    write_steps(argv[4], "seconds", seconds, n_steps);
    write_weights(trainer, argv[4]);
    hrf_trainer_destroy(trainer);
    hrf_graph_destroy(model);
    hrf_free(images);
    hrf_free(targets);
    hrf_free(losses);
    hrf_free(seconds);
    return 0;
}
