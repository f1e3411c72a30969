/* check.c - `hires-engine check`: whether a device computes what the cpu does, and how fast. */
#include "base/json.h"
#include "base/random.h"
#include "engine/backend/backend.h"
#include "engine/cli/cli.h"
#include "engine/model/model.h"
#include "engine/run/bench.h"
#include "engine/run/calibrator.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct request {
    const char *device;
    bool quick, json;
};

/* One network on the device and on the cpu. `limit` is on |difference| / the largest output: INT8
 * and the 16-bit floats are that far from float32 on any device. */
struct agreement {
    const char *model;
    int64_t size, batch;
    const char *precision;
    double limit;
};
static const struct agreement agreements[] = {
    { "resnet18", 32, 2, "fp32", 1e-4 },   { "resnet18", 32, 2, "tf32", 0.02 },
    { "resnet18", 32, 2, "bf16", 0.05 },   { "resnet18", 32, 2, "fp16", 0.01 },
    { "resnet18", 32, 2, "int8", 0.15 },   { "unet:3,8", 32, 1, "fp32", 1e-4 },
    { "unet:3,8", 32, 1, "int8", 0.2 },    { "resnet50", 224, 4, "fp32", 1e-4 },
    { "resnet50", 224, 4, "bf16", 0.05 },  { "resnet50", 224, 4, "int8", 0.2 },
    { "googlenet", 224, 2, "fp32", 1e-4 }, { "inception-v3", 299, 1, "fp32", 1e-4 },
    { "unet", 256, 1, "tf32", 0.02 },      { "resnet-v2-101-hires", 256, 1, "tf32", 0.05 },
};
enum { N_AGREEMENTS = sizeof agreements / sizeof agreements[0], N_QUICK = 7 };

static const struct {
    const char *model, *precision;
} speeds[] = {
    { "resnet-v2-101-hires", "fp32" }, { "resnet-v2-101-hires", "tf32" },
    { "resnet-v2-101-hires", "bf16" }, { "resnet-v2-101-hires", "int8" },
    { "resnet101", "fp32" },           { "resnet101", "tf32" },
    { "resnet101", "bf16" },           { "resnet101", "int8" },
};
enum { N_SPEEDS = sizeof speeds / sizeof speeds[0], SPEED_SIZE = 256, SPEED_BATCH = 64 };

static enum hrf_status make_graph(const char *model, int64_t size, int64_t batch,
                                  struct hrf_graph **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_TRY(hrf_engine_load_model(model, 10, size, &graph, err));
    HRF_TRY(hrf_engine_set_image_input(graph, batch, size, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    *out = graph;
    graph = NULL;
    return HRF_OK;
}

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
    last = hrf_alloc(n_bytes);
    if (last == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the outputs");
    for (int run = 0; run < n_runs; run++) {
        struct hrf_random random = hrf_random_init(1);
        const int64_t n_in = hrf_shape_count(hrf_session_input_shape(session, 0));
        for (int64_t i = 0; i < n_in; i++)
            hrf_session_input(session, 0)[i] = (float)(hrf_random_unit(&random) * 4 - 2);
        HRF_TRY(hrf_session_run(session, err));
        if (run > 0 && memcmp(last, hrf_session_output(session, 0), n_bytes) != 0)
            return hrf_error_set(err, HRF_E_EXTERNAL, "run %d of the same images has other bits",
                                 run + 1);
        memcpy(last, hrf_session_output(session, 0), n_bytes);
    }
    *out = last;
    last = NULL;
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

static enum hrf_status compare(const struct agreement *row, const char *device, double *difference,
                               struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_calibration) calibration = NULL;
    HRF_AUTO_FREE float *truth = NULL, *ours = NULL;
    struct hrf_observations seen = { .items = NULL };
    struct hrf_calibrated calibrated = { .ranges = NULL };
    struct hrf_session_config config = { .device = "cpu", .precision = "fp32" };
    int64_t n = 0;
    HRF_TRY(make_graph(row->model, row->size, row->batch, &graph, err));
    enum hrf_status status = run_session(graph, &config, &seen, 1, &truth, &n, err);
    if (status == HRF_OK && strcmp(row->precision, "int8") == 0) {
        status = hrf_fit_all(&seen, HRF_FIT_KIND_MINMAX, &calibration, err);
        if (status == HRF_OK)
            status = hrf_calibrated_init(calibration, &calibrated, err);
    }
    hrf_observations_release(&seen);
    config = (struct hrf_session_config){ .device = device,
                                          .precision = row->precision,
                                          .ranges = calibrated.ranges,
                                          .n_ranges = calibrated.n_ranges };
    if (status == HRF_OK)
        status = run_session(graph, &config, NULL, 3, &ours, &n, err);
    hrf_calibrated_release(&calibrated);
    HRF_TRY(status);
    *difference = difference_of(ours, truth, n);
    return HRF_OK;
}

static bool check_agreements(const struct request *r, json_t *rows)
{
    bool good = true;
    for (int i = 0; i < (r->quick ? (int)N_QUICK : (int)N_AGREEMENTS); i++) {
        const struct agreement *row = &agreements[i];
        struct hrf_error why = { .text = "" };
        double difference = INFINITY;
        const bool ran = compare(row, r->device, &difference, &why) == HRF_OK;
        const bool is_good = ran && difference <= row->limit;
        good &= is_good;
        json_array_append_new(rows, json_pack("{sssIsIsssosfsbss}", "model", row->model, "size",
                                              (json_int_t)row->size, "batch",
                                              (json_int_t)row->batch, "precision", row->precision,
                                              "difference", hrf_json_number(difference), "limit",
                                              row->limit, "good", (int)is_good, "error", why.text));
        if (!r->json)
            printf("%s  %-20s %4lld px %-5s %.1e of the largest output (at most %.0e)%s%s\n",
                   is_good ? "ok  " : "BAD ", row->model, (long long)row->size, row->precision,
                   difference, row->limit, ran ? "" : ": ", why.text);
        fflush(stdout);
    }
    return good;
}

static bool measure_speeds(const struct request *r, json_t *rows)
{
    bool good = true;
    for (int i = 0; i < (int)N_SPEEDS && !r->quick; i++) {
        HRF_AUTO(hrf_graph) graph = NULL;
        struct hrf_error why = { .text = "" };
        struct hrf_bench b = { .n_runs = 0 };
        const struct hrf_network_config config = {
            .session = { .device = r->device, .precision = speeds[i].precision }
        };
        enum { RUNS = 20 };
        enum hrf_status status = make_graph(speeds[i].model, SPEED_SIZE, SPEED_BATCH, &graph, &why);
        if (status == HRF_OK)
            status = hrf_bench_run(graph, &config, RUNS, false, &b, &why);
        good &= status == HRF_OK;
        const double speed = status == HRF_OK ? SPEED_BATCH / b.median : NAN;
        const int64_t memory = hrf_session_memory_total(&b.memory);
        json_array_append_new(
            rows, json_pack("{sssisissso so sI so ss}", "model", speeds[i].model, "size",
                            (int)SPEED_SIZE, "batch", (int)SPEED_BATCH, "precision",
                            speeds[i].precision, "images_per_second", hrf_json_number(speed),
                            "tops", hrf_json_number(b.operations / b.median * 1e-12),
                            "peak_memory_bytes", (json_int_t)memory, "build_seconds",
                            hrf_json_number(b.build_seconds), "error", why.text));
        if (!r->json)
            printf("      %-20s %4d px %-5s batch %d: %.0f images/s, %.1f TOPS, %.2f GiB, ready in "
                   "%.1f s%s\n",
                   speeds[i].model, (int)SPEED_SIZE, speeds[i].precision, (int)SPEED_BATCH, speed,
                   b.operations / b.median * 1e-12, (double)memory / 0x1p30, b.build_seconds,
                   why.text);
        fflush(stdout);
        hrf_bench_release(&b);
    }
    return good;
}

static enum hrf_status check(const struct request *r, bool *good, struct hrf_error *err)
{
    const struct hrf_backend_ops *ops = NULL;
    char words[512] = "";
    HRF_TRY(hrf_backend_open(r->device, &ops, err));
    if (ops->probe != NULL)
        HRF_TRY(ops->probe(words, sizeof words, err));
    HRF_AUTO_JSON agree = json_array();
    HRF_AUTO_JSON fast = json_array();
    if (!r->json)
        printf("%s: %s\n", r->device, words[0] != '\0' ? words : ops->name);
    *good = check_agreements(r, agree);
    *good &= measure_speeds(r, fast);
    if (!r->json)
        return HRF_OK;
    HRF_AUTO_JSON all = json_pack("{sisssssbsOsO}", "version", 1, "device", r->device,
                                  "device_in_words", words, "good", (int)*good, "agreement", agree,
                                  "speed", fast);
    HRF_AUTO_FREE char *text = all != NULL ? hrf_json_text(all) : NULL;
    if (text == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the result");
    printf("%s\n", text);
    return HRF_OK;
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    struct request r = { .device = "cuda" };
    const struct hrf_option options[] = {
        { "device", "D", "which to check (default cuda)", HRF_OPTION_TEXT, &r.device },
        { "quick", NULL, "small networks, no speed", HRF_OPTION_FLAG, &r.quick },
        { "json", NULL, "print JSON", HRF_OPTION_FLAG, &r.json },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_ENGINE_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    bool good = false;
    if (check(&r, &good, &err) != HRF_OK)
        return hrf_engine_fail(command->name, &err);
    return good ? 0 : 1;
}

const struct hrf_command hrf_engine_check = {
    .name = "check",
    .operands = "",
    .summary = "compare a device with the cpu, and measure it",
    .run = run,
};
