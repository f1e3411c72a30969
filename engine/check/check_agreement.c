/* check_agreement.c - networks on the device and on the cpu, in every precision. */
#include "base/random.h"
#include "engine/check/check_rows.h"
#include "engine/run/calibrator.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One network on the device and on the cpu. `limit` is on |difference| / the largest output: INT8
 * and the 16-bit floats are that far from float32 on any device. */
struct agreement {
    const char *model;
    int64_t size, batch;
    enum hrf_precision precision;
    double limit;
};
static const struct agreement agreements[] = {
    { "resnet18", 32, 2, HRF_FP32, 1e-4 },   { "resnet18", 32, 2, HRF_TF32, 0.02 },
    { "resnet18", 32, 2, HRF_BF16, 0.05 },   { "resnet18", 32, 2, HRF_FP16, 0.01 },
    { "resnet18", 32, 2, HRF_INT8, 0.15 },   { "unet:3,8", 32, 1, HRF_FP32, 1e-4 },
    { "unet:3,8", 32, 1, HRF_INT8, 0.2 },    { "resnet50", 224, 4, HRF_FP32, 1e-4 },
    { "resnet50", 224, 4, HRF_BF16, 0.05 },  { "resnet50", 224, 4, HRF_INT8, 0.2 },
    { "googlenet", 224, 2, HRF_FP32, 1e-4 }, { "inception-v3", 299, 1, HRF_FP32, 1e-4 },
    { "unet", 256, 1, HRF_TF32, 0.02 },      { "resnet-v2-101-hires", 256, 1, HRF_TF32, 0.05 },
};
enum { N_AGREEMENTS = sizeof agreements / sizeof agreements[0], N_QUICK = 7 };

/* Seeded images through a session, n_runs times; *out: the last run's output, heap. All runs must
 * have the same bits. */
static enum hrf_status run_session(const struct hrf_graph *graph,
                                   const struct hrf_session_config *config,
                                   struct hrf_observations *seen, int n_runs, float **out,
                                   int64_t *n, struct hrf_error *err)
{
    HRF_AUTO(hrf_session) session = NULL;
    struct hrf_calibrator calibrator = { .observations = seen };
    HRF_AUTO_FREE float *last = NULL;
    struct hrf_session_config own = *config;
    own.every_tensor = seen != NULL;
    HRF_TRY(hrf_session_create(graph, &own, &session, err));
    if (seen != NULL)
        hrf_calibrator_watch(session, &calibrator);
    *n = hrf_shape_count(hrf_session_output_shape(session, 0));
    const size_t n_bytes = (size_t)*n * sizeof *last;
    last = hrf_try_alloc(n_bytes);
    HRF_CHECK_MEMORY(last != NULL, err, "no memory for the outputs");
    for (int run = 0; run < n_runs; run++) {
        struct hrf_random random = hrf_random_init(1);
        const int64_t n_in = hrf_shape_count(hrf_session_input_shape(session, 0));
        for (int64_t i = 0; i < n_in; i++)
            hrf_session_input(session, 0)[i] = (float)(hrf_random_unit(&random) * 4 - 2);
        HRF_TRY(hrf_session_run(session, err));
        if (run > 0 && memcmp(last, hrf_session_output(session, 0), n_bytes) != 0)
            return hrf_error_set(err, HRF_E_EXTERNAL,
                                 "run %d of the same images gives different bits", run + 1);
        memcpy(last, hrf_session_output(session, 0), n_bytes);
    }
    HRF_MOVE(*out, last);
    return HRF_OK;
}

static double difference_of(const float *a, const float *b, int64_t n)
{
    double largest = 0, difference = 0;
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)b[i]));
        difference = isfinite(a[i]) ? fmax(difference, fabs((double)a[i] - (double)b[i]))
                                    : INFINITY;
    }
    return largest > 0 ? difference / largest : difference;
}

static enum hrf_status check_agreement_compare(const struct agreement *row, const char *device,
                                               double *difference, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_calibration) calibration = NULL;
    HRF_AUTO_FREE float *truth = NULL, *ours = NULL;
    HRF_AUTO_RELEASE(hrf_observations) seen = { .items = NULL };
    HRF_AUTO_RELEASE(hrf_calibrated) calibrated = { .ranges = NULL };
    struct hrf_session_config config = { .device = "cpu", .precision = HRF_FP32 };
    int64_t n = 0;
    HRF_TRY(hrf_check_graph(NULL, row->model, row->size, row->batch, &graph, err));
    enum hrf_status status = run_session(graph, &config, &seen, 1, &truth, &n, err);
    if (status == HRF_OK && row->precision == HRF_INT8) {
        status = hrf_fit_all(&seen, HRF_FIT_MINMAX, &calibration, err);
        if (status == HRF_OK)
            hrf_calibrated_init(calibration, &calibrated);
    }
    config = (struct hrf_session_config){ .device = device,
                                          .precision = row->precision,
                                          .ranges = calibrated.ranges,
                                          .n_ranges = calibrated.n_ranges };
    if (status == HRF_OK)
        status = run_session(graph, &config, NULL, 3, &ours, &n, err);
    HRF_TRY(status);
    *difference = difference_of(ours, truth, n);
    return HRF_OK;
}

static void name_agreement(int row, char *name, size_t size)
{
    const struct agreement *a = &agreements[row];
    snprintf(name, size, "%s-%s-%lld", a->model, hrf_precision_name(a->precision),
             (long long)a->size);
}

static void run_agreement(const struct hrf_check *check, int which, struct hrf_check_row *out)
{
    struct agreement row = agreements[which];
    struct hrf_error why = { .text = "" };
    double difference = INFINITY;
    if (check->small && row.size > 32) { /* Inception needs 75 */
        row.size = (row.size + 3) / 4;
        row.batch = 1;
    }
    const bool ran = check_agreement_compare(&row, check->device, &difference, &why) == HRF_OK;
    out->good = ran && difference <= row.limit;
    snprintf(out->text, sizeof out->text,
             "%-20s %4lld px %-5s %.1e of the largest output (at most %g)%s%s", row.model,
             (long long)row.size, hrf_precision_name(row.precision), difference, row.limit,
             ran ? "" : ": ", why.text);
    out->json = hrf_check_difference_json(
        &(struct hrf_check_network){ row.model, row.precision, row.size, row.batch }, difference,
        row.limit, why.text);
}

bool hrf_check_agreement_network(int i, struct hrf_check_network *out)
{
    if (i >= (int)N_AGREEMENTS)
        return false;
    const struct agreement *row = &agreements[i];
    *out = (struct hrf_check_network){ row->model, row->precision, row->size, row->batch };
    return true;
}

const struct hrf_check_part hrf_check_agreement = { "agreement", N_AGREEMENTS, N_QUICK,
                                                    name_agreement, run_agreement };
