/* check_gradients.c - the gradients of steps of training on the device and on the cpu. */
#include "base/random.h"
#include "engine/check/check_rows.h"
#include "engine/train/step.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* `limit` is on the distance of all gradients from the CPU's in float32, over their length: a ReLU
 * whose input is within rounding of its corner changes few numbers of many. */
static const struct gradients {
    const char *model;
    int64_t size, batch;
    enum hrf_precision precision;
    double limit;
} rows[] = {
    { "resnet18", 32, 2, HRF_FP32, 1e-4 },  { "resnet18", 32, 2, HRF_TF32, 0.05 },
    { "resnet18", 32, 2, HRF_BF16, 0.2 },   { "unet:3,8", 32, 1, HRF_FP32, 1e-4 },
    { "resnet50", 224, 4, HRF_FP32, 1e-3 }, { "resnet50", 224, 4, HRF_BF16, 0.3 },
};
enum { N_GRADIENTS = sizeof rows / sizeof rows[0], N_QUICK = 4 };

static void fill(struct hrf_train_step *step, const struct hrf_shape *images)
{
    struct hrf_random random = hrf_random_init(1);
    const struct hrf_shape *y = hrf_train_step_target_shape(step);
    float *targets = hrf_train_step_targets(step);
    for (int64_t i = 0; i < hrf_shape_count(images); i++)
        hrf_train_step_images(step)[i] = (float)(hrf_random_unit(&random) * 4 - 2);
    for (int64_t i = 0; i < hrf_shape_count(y); i++) /* channels lie innermost */
        targets[i] = i % y->dims[1] == i / y->dims[1] % y->dims[1] ? 1.0f : 0.0f;
}

/* The gradients of one step, one after the other; heap. */
static float *copy_gradients(struct hrf_train_step *step, int64_t n)
{
    float *all = hrf_try_alloc_array((size_t)n + 1, sizeof *all), *at = all;
    for (int32_t i = 0; all != NULL && i < hrf_train_step_n_weights(step); i++) {
        const int64_t count = hrf_shape_count(&hrf_train_step_weights(step)[i].shape);
        memcpy(at, hrf_train_step_gradient(step, i), (size_t)count * sizeof *at);
        at += count;
    }
    return all;
}

/* n_runs times, after each of which all weights are written again; all runs have the same bits. */
static enum hrf_status run_steps(const struct hrf_graph *graph, const char *device,
                                 enum hrf_precision precision, int n_runs, float **out, int64_t *n,
                                 struct hrf_error *err)
{
    const struct hrf_train_step_config config = { .device = device,
                                                  .precision = precision,
                                                  .loss = HRF_LOSS_CROSS_ENTROPY };
    HRF_AUTO(hrf_train_step) step = NULL;
    HRF_AUTO_FREE float *first = NULL;
    double loss;
    HRF_TRY(hrf_train_step_create(graph, &config, &step, err));
    *n = 0;
    for (int32_t i = 0; i < hrf_train_step_n_weights(step); i++)
        *n += hrf_shape_count(&hrf_train_step_weights(step)[i].shape);
    for (int run = 0; run < n_runs; run++) {
        fill(step, &graph->values[graph->inputs[0]].shape);
        HRF_TRY(hrf_train_step_run(step, &loss, err));
        hrf_train_step_set_changed(step);
        HRF_AUTO_FREE float *now = copy_gradients(step, *n);
        HRF_CHECK_MEMORY(now != NULL, err, "no memory for the gradients");
        if (run > 0 && memcmp(first, now, (size_t)*n * sizeof *now) != 0)
            return hrf_error_set(err, HRF_E_EXTERNAL, "run %d of the same step gives other bits",
                                 run + 1);
        if (run == 0)
            HRF_MOVE(first, now);
    }
    HRF_MOVE(*out, first);
    return HRF_OK;
}

static double distance_of(const float *a, const float *b, int64_t n)
{
    double length = 0, distance = 0;
    for (int64_t i = 0; i < n; i++) {
        const double apart = (double)a[i] - (double)b[i];
        length += (double)b[i] * (double)b[i];
        distance += apart * apart;
    }
    return isfinite(distance) ? sqrt(distance / length) : INFINITY;
}

static enum hrf_status check_gradients_compare(const struct gradients *row, const char *device,
                                               double *distance, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO_FREE float *truth = NULL, *ours = NULL;
    int64_t n = 0;
    HRF_TRY(hrf_check_graph(NULL, row->model, row->size, row->batch, &graph, err));
    for (int32_t v = 0; v < graph->n_values; v++) /* no file says which constants are weights */
        graph->values[v].is_initializer = graph->values[v].data != NULL &&
                                          graph->values[v].dtype == HRF_F32;
    HRF_TRY(run_steps(graph, "cpu", HRF_FP32, 1, &truth, &n, err));
    HRF_TRY(run_steps(graph, device, row->precision, 3, &ours, &n, err));
    *distance = distance_of(ours, truth, n);
    return HRF_OK;
}

static void name_gradients(int row, char *name, size_t size)
{
    snprintf(name, size, "%s-%s-%lld", rows[row].model, hrf_precision_name(rows[row].precision),
             (long long)rows[row].size);
}

static void run_gradients(const struct hrf_check *check, int which, struct hrf_check_row *out)
{
    struct gradients row = rows[which];
    struct hrf_error why = { .text = "" };
    double distance = INFINITY;
    if (check->small && row.size > 32) {
        row.model = "resnet18";
        row.size = 32;
        row.batch = 1;
    }
    const bool ran = check_gradients_compare(&row, check->device, &distance, &why) == HRF_OK;
    out->good = ran && distance <= row.limit;
    snprintf(out->text, sizeof out->text,
             "%-20s %4lld px %-5s gradients %.1e of their length away (at most %g)%s%s", row.model,
             (long long)row.size, hrf_precision_name(row.precision), distance, row.limit,
             ran ? "" : ": ", why.text);
    out->json = hrf_check_difference_json(
        &(struct hrf_check_network){ row.model, row.precision, row.size, row.batch }, distance,
        row.limit, why.text);
}

const struct hrf_check_part hrf_check_gradients = { "gradients", N_GRADIENTS, N_QUICK,
                                                    name_gradients, run_gradients };
