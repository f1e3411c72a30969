/* check.c - `hires-engine check`: whether a device computes what the cpu does, the same in every
 * layout of ranks, and how fast.
 *
 * Each row is a line as soon as it is there, so that a machine that ends the program leaves what
 * was found till then. A first start tunes every convolution, which takes its time: rows that would
 * begin after the time given are left out by name. */
#include "base/clock.h"
#include "base/gpu_meter.h"
#include "base/json.h"
#include "base/random.h"
#include "base/sort.h"
#include "engine/cli/cli.h"
#include "engine/planning/request.h"
#include "engine/run/banded.h"
#include "engine/run/calibrator.h"
#include "engine/run/made_ranges.h"
#include "engine/run/parallel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check {
    const char *device, *save;
    bool quick, json;
    bool small;      /* the program itself is tried: every row, on small images */
    int64_t seconds; /* 0: as long as it takes */
    double start;
    struct hrf_device_identity identity;
    bool good;
    json_t *all; /* what was found so far */
};

/* True if a row would begin too late. It is skipped, and named at the end. */
static bool leaves_out(const struct check *check, const char *model, const char *what)
{
    const bool is_late = check->seconds > 0 &&
                         hrf_clock_seconds() - check->start >= (double)check->seconds;
    if (is_late && !check->json)
        printf("--    %-20s %s: skipped, the time is up\n", model, what);
    return is_late;
}

/* Adds a row to `rows` of check->all, and saves the file at once. */
static void keep_row(struct check *check, const char *rows, json_t *row, bool good)
{
    struct hrf_error err = { .text = "" };
    check->good &= good;
    json_array_append_new(json_object_get(check->all, rows), row);
    json_object_set_new(check->all, "good", json_boolean(check->good));
    if (check->save != NULL && hrf_json_write_file(check->save, check->all, &err) != HRF_OK)
        fprintf(stderr, "check: %s\n", err.text); /* it is tried again with the next row */
    fflush(stdout);
}

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

/* INT8 by ranks of one process on the one device, or in bands: the same bytes as without. */
static const struct {
    const char *model, *layout; /* NULL: in bands */
} layouts[] = {
    { "resnet18", "spatial=2" }, { "resnet18", "spatial=2x2" }, { "resnet18", "stages=2" },
    { "resnet18", NULL },        { "unet:3,8", "spatial=3" },   { "unet:3,8", NULL },
};
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0], LAYOUT_SIZE = 64, N_BANDS = 3 };

static enum hrf_status make_graph(const char *model, int64_t size, int64_t batch,
                                  struct hrf_graph **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_TRY(hrf_engine_load_model(model, 10, size, &graph, err));
    HRF_TRY(hrf_engine_set_image_input(graph, batch, size, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    HRF_MOVE(*out, graph);
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

static void check_agreements(struct check *check, int first, int end)
{
    for (int i = first; i < end; i++) {
        struct agreement row = agreements[i];
        struct hrf_error why = { .text = "" };
        double difference = INFINITY;
        if (leaves_out(check, row.model, row.precision))
            continue;
        if (check->small && row.size > 32) { /* Inception needs 75 */
            row.size /= 4;
            row.batch = 1;
        }
        const bool ran = compare(&row, check->device, &difference, &why) == HRF_OK;
        const bool good = ran && difference <= row.limit;
        if (!check->json)
            printf("%s  %-20s %4lld px %-5s %.1e of the largest output (at most %.0e)%s%s\n",
                   good ? "ok  " : "BAD ", row.model, (long long)row.size, row.precision,
                   difference, row.limit, ran ? "" : ": ", why.text);
        keep_row(check, "agreement",
                 json_pack("{sssIsIsssosfsbss}", "model", row.model, "size", (json_int_t)row.size,
                           "batch", (json_int_t)row.batch, "precision", row.precision, "difference",
                           hrf_json_number(difference), "limit", row.limit, "good", (int)good,
                           "error", why.text),
                 good);
    }
}

/* ---- layouts ---- */

static enum hrf_status run_ranks(const struct hrf_graph *graph,
                                 const struct hrf_session_config *config, const char *layout,
                                 struct hrf_array_source *source, float *out, size_t n_bytes,
                                 struct hrf_error *err)
{
    enum { WATCHDOG_MS = 120000 };
    HRF_AUTO(hrf_parallel) parallel = NULL;
    struct hrf_layout_plan plan;
    HRF_TRY(hrf_layout_parse(layout, &plan, err));
    HRF_TRY(hrf_parallel_create(graph, config, &plan, WATCHDOG_MS, &parallel, err));
    HRF_TRY(hrf_parallel_run(parallel, hrf_read_array, source, err));
    memcpy(out, hrf_parallel_output(parallel, 0), n_bytes);
    return HRF_OK;
}

static enum hrf_status run_bands(const struct hrf_graph *graph,
                                 const struct hrf_session_config *config,
                                 struct hrf_array_source *source, float *out, size_t n_bytes,
                                 struct hrf_error *err)
{
    const struct hrf_banded_options options = { .n_bands = N_BANDS };
    HRF_AUTO(hrf_banded) banded = NULL;
    HRF_TRY(hrf_banded_create(graph, config, &options, &banded, err));
    HRF_TRY(hrf_banded_run(banded, hrf_read_array, source, err));
    memcpy(out, hrf_banded_output(banded, 0), n_bytes);
    return HRF_OK;
}

static enum hrf_status compare_layout(const struct check *check, const char *model,
                                      const char *layout, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    struct hrf_made_ranges made;
    HRF_TRY(make_graph(model, LAYOUT_SIZE, 1, &graph, err));
    struct hrf_array_source source = { .shape = graph->values[graph->inputs[0]].shape };
    const int64_t n_in = hrf_shape_count(&source.shape);
    const size_t n_bytes = (size_t)hrf_shape_count(&graph->values[graph->outputs[0]].shape) *
                           sizeof(float);
    HRF_AUTO_FREE float *images = hrf_alloc_array((size_t)n_in, sizeof *images);
    HRF_AUTO_FREE float *whole = hrf_alloc(n_bytes), *parts = hrf_alloc(n_bytes);
    HRF_CHECK_MEMORY(images != NULL && whole != NULL && parts != NULL, err,
                     "no memory for the images");
    struct hrf_random random = hrf_random_init(1);
    for (int64_t i = 0; i < n_in; i++)
        images[i] = (float)(hrf_random_unit(&random) * 4 - 2);
    source.data = images;
    HRF_TRY(hrf_made_ranges_init(graph, &made, err));
    const struct hrf_session_config config = { .device = check->device,
                                               .precision = "int8",
                                               .ranges = made.ranges,
                                               .n_ranges = made.n_ranges };
    enum hrf_status status = run_ranks(graph, &config, NULL, &source, whole, n_bytes, err);
    if (status == HRF_OK)
        status = layout != NULL ? run_ranks(graph, &config, layout, &source, parts, n_bytes, err)
                                : run_bands(graph, &config, &source, parts, n_bytes, err);
    hrf_made_ranges_release(&made);
    if (status == HRF_OK && memcmp(whole, parts, n_bytes) != 0)
        return hrf_error_set(err, HRF_E_EXTERNAL, "its bytes differ from one rank's");
    return status;
}

static void check_layouts(struct check *check)
{
    for (int i = 0; i < (int)N_LAYOUTS; i++) {
        const char *layout = layouts[i].layout, *words = layout != NULL ? layout : "bands=3";
        struct hrf_error why = { .text = "" };
        if (leaves_out(check, layouts[i].model, words))
            continue;
        const bool same = compare_layout(check, layouts[i].model, layout, &why) == HRF_OK;
        if (!check->json)
            printf("%s  %-20s %4d px int8  %s: %s\n", same ? "ok  " : "BAD ", layouts[i].model,
                   (int)LAYOUT_SIZE, words, same ? "the same bytes" : why.text);
        keep_row(check, "layouts",
                 json_pack("{sssssssbss}", "model", layouts[i].model, "precision", "int8", "layout",
                           words, "good", (int)same, "error", why.text),
                 same);
    }
}

/* ---- images per second, memory and energy of common networks ---- */

/* The most common networks come first. */
static const struct speed {
    const char *model, *precision;
    int64_t size, batch;
    int runs;
} speeds[] = {
    { "resnet-v2-101-hires", "int8", 256, 64, 40 }, { "resnet101", "int8", 256, 64, 40 },
    { "resnet-v2-101-hires", "bf16", 256, 64, 40 }, { "resnet101", "bf16", 256, 64, 40 },
    { "resnet-v2-101-hires", "tf32", 256, 64, 40 }, { "resnet101", "tf32", 256, 64, 40 },
    { "resnet-v2-101-hires", "fp32", 256, 64, 10 }, { "resnet-v2-101-hires", "fp32", 8192, 1, 1 },
    { "resnet-v2-101-hires", "fp16", 256, 64, 40 }, { "resnet101", "fp32", 256, 64, 10 },
};
enum { N_SPEEDS = sizeof speeds / sizeof speeds[0] };

/* As in a run: pixels are uploaded while the batch before is computed. */
struct measured {
    double build, again; /* seconds of the first start, and of one that finds tuned plans */
    double median;       /* seconds between the ends of two batches */
    struct hrf_device_times per_batch;
    struct hrf_session_memory memory;
    double operations;
    /* From NVIDIA's driver: the memory that the process held, its context included (0: unknown),
     * and joules of a batch (NaN: unknown). */
    int64_t process_bytes;
    double joules;
};

static enum hrf_status time_batches(struct hrf_session *session, const struct speed *row,
                                    struct hrf_gpu_meter *meter, struct measured *out,
                                    struct hrf_error *err)
{
    const int n_warm = row->runs > 1 ? 3 : 1, n = n_warm + row->runs;
    const size_t n_pixels = (size_t)(row->batch * row->size * row->size * 3);
    HRF_AUTO_FREE double *seconds = hrf_alloc_array((size_t)row->runs, sizeof *seconds);
    struct hrf_random random = hrf_random_init(1);
    struct hrf_device_times before = { 0, 0 };
    double since = 0;
    HRF_CHECK_MEMORY(seconds != NULL, err, "no memory for %d times", row->runs);
    for (int i = 0; i <= n; i++) {
        if (i <
            2) { /* fills each of the two slots once; their contents are uploaded again and again */
            uint8_t *pixels = hrf_session_pixels(session);
            for (size_t k = 0; k < n_pixels; k++)
                pixels[k] = (uint8_t)(hrf_random_unit(&random) * 255);
        }
        if (i < n)
            HRF_TRY(hrf_session_start(session, err));
        if (i == 0)
            continue;
        HRF_TRY(hrf_session_finish(session, err));
        const double now = hrf_clock_seconds();
        if (i == n_warm) {
            before = hrf_session_device_use(session).times;
            if (meter != NULL)
                (void)hrf_gpu_meter_joules(meter);
        }
        if (i > n_warm)
            seconds[i - n_warm - 1] = now - since;
        since = now;
    }
    const struct hrf_device_times after = hrf_session_device_use(session).times;
    if (meter != NULL) {
        out->joules = hrf_gpu_meter_joules(meter) / row->runs;
        out->process_bytes = hrf_gpu_meter_process_bytes(meter);
    }
    out->median = hrf_median(seconds, (size_t)row->runs);
    out->per_batch.copy = (after.copy - before.copy) / row->runs;
    out->per_batch.kernels = (after.kernels - before.kernels) / row->runs;
    return HRF_OK;
}

static enum hrf_status measure(const struct check *check, const struct speed *row,
                               struct measured *out, struct hrf_error *err)
{
    static const struct hrf_pixel_form form = { { 0.017f, 0.017f, 0.017f }, { -2, -2, -2 } };
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_session) session = NULL;
    HRF_AUTO(hrf_gpu_meter) meter = NULL;
    struct hrf_made_ranges made;
    if (hrf_gpu_meter_create(check->identity.address, NULL, &meter, NULL) != HRF_OK)
        meter = NULL; /* two figures less */
    HRF_TRY(make_graph(row->model, row->size, row->batch, &graph, err));
    HRF_TRY(hrf_made_ranges_init(graph, &made, err));
    const struct hrf_session_config config = { .device = check->device,
                                               .precision = row->precision,
                                               .ranges = made.ranges,
                                               .n_ranges = made.n_ranges,
                                               .pixels = &form };
    double start = hrf_clock_seconds();
    enum hrf_status status = hrf_session_create(graph, &config, &session, err);
    out->build = hrf_clock_seconds() - start;
    if (status == HRF_OK) {
        out->memory = hrf_session_memory(session);
        out->operations = hrf_session_operations(session);
        status = time_batches(session, row, meter, out, err);
    }
    hrf_session_destroy(session);
    session = NULL;
    start = hrf_clock_seconds();
    if (status == HRF_OK)
        status = hrf_session_create(graph, &config, &session, err);
    out->again = hrf_clock_seconds() - start;
    hrf_made_ranges_release(&made);
    return status;
}

static json_t *row_json(const struct speed *row, const struct measured *m, double speed,
                        const char *error)
{
    const double tops = speed > 0 ? m->operations / m->median * 1e-12 : NAN;
    return json_pack(
        "{ss sI sI ss so so so so sI sI sI so so so ss}", "model", row->model, "size",
        (json_int_t)row->size, "batch", (json_int_t)row->batch, "precision", row->precision,
        "images_per_second", hrf_json_number(speed), "tops", hrf_json_number(tops), "copy_seconds",
        hrf_json_number(m->per_batch.copy), "kernel_seconds", hrf_json_number(m->per_batch.kernels),
        "peak_memory_bytes", (json_int_t)hrf_session_memory_total(&m->memory), "weight_bytes",
        (json_int_t)m->memory.weight_bytes, "process_bytes", (json_int_t)m->process_bytes,
        "joules_per_image", hrf_json_number(m->joules / (double)row->batch), "build_seconds",
        hrf_json_number(m->build), "build_again_seconds", hrf_json_number(m->again), "error",
        error);
}

static void print_row(const struct speed *row, const struct measured *m, double speed)
{
    const double weights = (double)m->memory.weight_bytes / 0x1p30;
    const double all = (double)hrf_session_memory_total(&m->memory) / 0x1p30;
    printf("      %-20s %4lld px %-5s batch %lld: %.1f images/s, %.1f TOPS; a batch copies "
           "%.2f ms, computes %.2f ms; %.2f GiB beside %.2f of weights",
           row->model, (long long)row->size, row->precision, (long long)row->batch, speed,
           m->operations / m->median * 1e-12, m->per_batch.copy * 1e3, m->per_batch.kernels * 1e3,
           all - weights, weights);
    if (m->process_bytes > 0)
        printf(", %.2f with its context", (double)m->process_bytes / 0x1p30);
    if (!isnan(m->joules))
        printf("; %.3f J an image", m->joules / (double)row->batch);
    printf("; ready in %.1f s, again in %.1f s\n", m->build, m->again);
}

static void check_speeds(struct check *check)
{
    for (int i = 0; i < (int)N_SPEEDS; i++) {
        struct speed row = speeds[i];
        struct hrf_error why = { .text = "" };
        struct measured m = { .median = NAN, .joules = NAN };
        if (leaves_out(check, row.model, row.precision))
            continue;
        if (check->small)
            row.size = 32, row.batch = 1, row.runs = 1;
        const bool ran = measure(check, &row, &m, &why) == HRF_OK;
        const double speed = ran ? (double)row.batch / m.median : NAN;
        if (!check->json && ran)
            print_row(&row, &m, speed);
        else if (!check->json)
            printf("BAD   %-20s %4lld px %-5s batch %lld: %s\n", row.model, (long long)row.size,
                   row.precision, (long long)row.batch, why.text);
        keep_row(check, "speed", row_json(&row, &m, speed, why.text), ran);
    }
}

/* ---- all of it ---- */

static enum hrf_status begin(struct check *check, struct hrf_error *err)
{
    const struct hrf_backend_ops *ops = NULL;
    char words[512] = "";
    HRF_TRY(hrf_backend_open(check->device, &ops, err));
    HRF_TRY(ops->identify(&check->identity, err));
    hrf_device_identity_words(&check->identity, words, sizeof words);
    if (!check->json)
        printf("%s: %s\n", check->device, words);
    check->all = json_pack("{si ss ss sb sb s[] s[] s[]}", "version", 1, "device", check->device,
                           "device_in_words", words, "good", 1, "complete", 0, "agreement",
                           "layouts", "speed");
    return check->all != NULL ? HRF_OK
                              : hrf_error_set(err, HRF_E_NOMEM, "no memory for the result");
}

static enum hrf_status end(struct check *check, struct hrf_error *err)
{
    json_object_set_new(check->all, "complete", json_true()); /* rows left out are said by name */
    HRF_AUTO_FREE char *text = hrf_json_text(check->all);
    HRF_CHECK_MEMORY(text != NULL, err, "no memory for the result");
    if (check->json)
        printf("%s\n", text);
    return check->save != NULL ? hrf_json_write_file(check->save, check->all, err) : HRF_OK;
}

static enum hrf_status check_all(struct check *check, struct hrf_error *err)
{
    HRF_TRY(begin(check, err));
    check_agreements(check, 0, N_QUICK);
    check_layouts(check);
    if (!check->quick) {
        check_speeds(check);
        check_agreements(check, N_QUICK, N_AGREEMENTS);
    }
    return end(check, err);
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    struct check check = { .device = "cuda", .start = hrf_clock_seconds(), .good = true };
    const struct hrf_option options[] = {
        { "device", "D", "the device to check (default cuda)", HRF_OPTION_TEXT, &check.device },
        { "quick", NULL, "only small networks, and no speed measurements", HRF_OPTION_FLAG,
          &check.quick },
        { "small", NULL, "run every step on small images, to try this program; measures nothing",
          HRF_OPTION_FLAG, &check.small },
        { "json", NULL, "print JSON", HRF_OPTION_FLAG, &check.json },
        { "save", "FILE", "also write the JSON to FILE, again after every row", HRF_OPTION_TEXT,
          &check.save },
        { "seconds", "N", "start no further step after N seconds (default 0: no limit)",
          HRF_OPTION_INT, &check.seconds },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_ENGINE_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    const enum hrf_status status = check_all(&check, &err);
    json_decref(check.all);
    if (status != HRF_OK)
        return hrf_engine_fail(command->name, &err);
    return check.good ? 0 : 1;
}

const struct hrf_command hrf_engine_check = {
    .name = "check",
    .operands = "",
    .summary = "compare a device with the CPU, and measure its speed",
    .run = run,
};
