/* check_speed.c - images per second, memory and energy of common networks. */
#include "base/clock.h"
#include "base/sort.h"
#include "base/strbuf.h"
#include "engine/check/check_outputs.h"
#include "engine/meters/gpu_meter.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Of three parts, each in one piece: `speed` has the most common networks, `networks` those of
 * other families (files, make_gpu_networks.py, where they are not built in), `speed-more` other
 * precisions. `small`: in its place where the program is tried. */
static const struct speed {
    const char *model;
    enum hrf_precision precision;
    int64_t size, batch;
    int runs;
    const char *small;
} speeds[] = {
    { "resnet-v2-101-hires", HRF_INT8, 256, 64, 40, NULL },
    { "resnet101", HRF_INT8, 256, 64, 40, NULL },
    { "vit", HRF_INT8, 224, 64, 40, "vit:2,64" },
    { "resnet101", HRF_BF16, 256, 64, 40, NULL },
    { "vit", HRF_BF16, 224, 64, 40, "vit:2,64" },
    { "swin-t", HRF_INT8, 224, 64, 40, NULL },
    { "swin-t", HRF_BF16, 224, 64, 40, NULL },
    { "convnext-t", HRF_INT8, 224, 64, 40, NULL },
    { "convnext-t", HRF_BF16, 224, 64, 40, NULL },
    { "efficientnet-b0", HRF_INT8, 224, 64, 40, NULL },
    { "efficientnet-b0", HRF_BF16, 224, 64, 40, NULL },
    { "hct", HRF_INT8, 1024, 4, 20, NULL },
    { "hct", HRF_BF16, 1024, 4, 20, NULL },
    { "unet", HRF_INT8, 512, 16, 20, "unet:3,8" },
    { "unet", HRF_BF16, 512, 16, 20, "unet:3,8" },
    { "resnet-v2-101-hires", HRF_BF16, 256, 64, 40, NULL },
    { "resnet-v2-101-hires", HRF_TF32, 256, 64, 40, NULL },
    { "resnet101", HRF_TF32, 256, 64, 40, NULL },
    { "vit", HRF_TF32, 224, 64, 40, "vit:2,64" },
    { "resnet-v2-101-hires", HRF_FP32, 256, 64, 10, NULL },
    { "resnet-v2-101-hires", HRF_FP32, 8192, 1, 1, NULL },
    { "resnet-v2-101-hires", HRF_FP16, 256, 64, 40, NULL },
    { "resnet101", HRF_FP32, 256, 64, 10, NULL },
};
enum { N_SPEEDS = sizeof speeds / sizeof speeds[0], N_FIRST = 5, N_NETWORKS = 10 };

/* As in a run: the device takes pixels from where readers put them while it computes the batch
 * before. */
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
    bool is_compared;
    struct hrf_likeness likeness; /* if so */
    int32_t n_own;                /* convolutions that cuDNN has no engine for, by own kernels */
    char notes[1024];             /* what the session says of its making */
};

/* Batches in turn, as many as are in flight, in memory of the device's as readers fill it; the
 * session keeps it. */
enum { N_FED = 2 };
static enum hrf_status take_batches(struct hrf_session *session, const struct speed *row,
                                    void *batches[N_FED], struct hrf_error *err)
{
    const size_t n_bytes = (size_t)(row->batch * row->size * row->size * 3);
    for (int i = 0; i < N_FED; i++) {
        HRF_TRY(hrf_session_take_host(session, n_bytes, &batches[i], err));
        hrf_check_pixels(row->batch, row->size, batches[i]);
    }
    return HRF_OK;
}

static enum hrf_status time_batches(struct hrf_session *session, const struct speed *row,
                                    struct hrf_gpu_meter *meter, struct measured *out,
                                    struct hrf_error *err)
{
    const int n_warm = row->runs > 1 ? 3 : 1, n = n_warm + row->runs;
    HRF_AUTO_FREE double *seconds = hrf_alloc_array((size_t)row->runs, sizeof *seconds);
    struct hrf_device_times before = { 0, 0 };
    double since = 0;
    void *batches[N_FED];
    HRF_TRY(take_batches(session, row, batches, err));
    for (int i = 0; i <= n; i++) {
        if (i < n) {
            hrf_session_feed(session, batches[i % N_FED]);
            HRF_TRY(hrf_session_start(session, err));
        }
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

static void check_speed_compare(const struct hrf_expected *expected, enum hrf_precision precision,
                                const struct hrf_session *session, struct measured *out)
{
    out->is_compared = expected->outputs != NULL;
    if (out->is_compared)
        out->likeness = hrf_expected_compare(expected, precision, hrf_session_output(session, 0),
                                             hrf_shape_count(hrf_session_output_shape(session, 0)) /
                                                 expected->n_images);
}

static enum hrf_status measure_session(const struct speed *row, const struct hrf_graph *graph,
                                       const struct hrf_session_config *config,
                                       const struct hrf_expected *expected,
                                       struct hrf_gpu_meter *meter, struct measured *out,
                                       struct hrf_error *err)
{
    HRF_AUTO(hrf_session) session = NULL;
    HRF_AUTO(hrf_session) again = NULL;
    double start = hrf_clock_seconds();
    HRF_TRY(hrf_session_create(graph, config, &session, err));
    out->build = hrf_clock_seconds() - start;
    out->memory = hrf_session_memory(session);
    out->operations = hrf_session_operations(session);
    HRF_TRY(time_batches(session, row, meter, out, err));
    check_speed_compare(expected, row->precision, session, out);
    out->n_own = hrf_session_count_kernels(session, "own");
    snprintf(out->notes, sizeof out->notes, "%s", hrf_session_notes(session));
    hrf_session_destroy(session);
    session = NULL;
    start = hrf_clock_seconds();
    HRF_TRY(hrf_session_create(graph, config, &again, err));
    out->again = hrf_clock_seconds() - start;
    return HRF_OK;
}

static enum hrf_status check_speed_measure(const struct hrf_check *check, const struct speed *row,
                                           struct measured *out, struct hrf_error *err)
{
    const struct hrf_check_network network = { row->model, row->precision, row->size, row->batch };
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_gpu_meter) meter = NULL;
    struct hrf_expected expected;
    if (hrf_gpu_meter_create(check->address, NULL, &meter, NULL) != HRF_OK)
        meter = NULL; /* two figures less */
    HRF_TRY(hrf_check_graph(check->networks, row->model, row->size, row->batch, &graph, err));
    enum hrf_status status = hrf_expected_init(graph, &network, check->outputs, check->small,
                                               &expected, err);
    const struct hrf_session_config config = { .device = check->device,
                                               .precision = row->precision,
                                               .ranges = expected.made.ranges,
                                               .n_ranges = expected.made.n_ranges,
                                               .pixels = &hrf_check_pixel_form,
                                               .borrows_pixels = true };
    if (status == HRF_OK)
        status = measure_session(row, graph, &config, &expected, meter, out, err);
    hrf_expected_release(&expected);
    return status;
}

static json_t *row_json(const struct speed *row, const struct measured *m, double speed,
                        const char *error)
{
    const double tops = speed > 0 ? m->operations / m->median * 1e-12 : NAN;
    json_t *object = json_object();
    hrf_json_put_text(object, "model", row->model);
    hrf_json_put_int(object, "size", row->size);
    hrf_json_put_int(object, "batch", row->batch);
    hrf_json_put_text(object, "precision", hrf_precision_name(row->precision));
    hrf_json_put_number(object, "images_per_second", speed);
    hrf_json_put_number(object, "tops", tops);
    hrf_json_put_number(object, "copy_seconds", m->per_batch.copy);
    hrf_json_put_number(object, "kernel_seconds", m->per_batch.kernels);
    hrf_json_put_int(object, "peak_memory_bytes", hrf_session_memory_total(&m->memory));
    hrf_json_put_int(object, "weight_bytes", m->memory.weight_bytes);
    hrf_json_put_int(object, "process_bytes", m->process_bytes);
    hrf_json_put_number(object, "joules_per_image", m->joules / (double)row->batch);
    hrf_json_put_number(object, "build_seconds", m->build);
    hrf_json_put_number(object, "build_again_seconds", m->again);
    hrf_json_put_bool(object, "compared", m->is_compared);
    hrf_json_put_number(object, "difference", m->is_compared ? m->likeness.difference : NAN);
    hrf_json_put_number(object, "cosine", m->is_compared ? m->likeness.cosine : NAN);
    hrf_json_put_text(object, "compared_with",
                      m->is_compared && m->likeness.by_emulation ? "emulation" : "cpu");
    hrf_json_put_int(object, "own_kernels", m->n_own);
    hrf_json_put_text(object, "notes", m->notes);
    hrf_json_put_text(object, "error", error);
    return object;
}

static void put_summary(const struct speed *row, const struct measured *m, double speed,
                        struct hrf_check_row *out)
{
    const double weights = (double)m->memory.weight_bytes / 0x1p30;
    const double all = (double)hrf_session_memory_total(&m->memory) / 0x1p30;
    char context[48] = "", energy[48] = "", likeness[128] = "outputs not compared", apart[32] = "";
    char own[48] = "";
    const char *left_out = strstr(m->notes, "left out") != NULL ? "; engines were left out" : "";
    if (m->n_own > 0)
        snprintf(own, sizeof own, "; %d by own kernels", (int)m->n_own);
    if (m->process_bytes > 0)
        snprintf(context, sizeof context, ", %.2f with its context",
                 (double)m->process_bytes / 0x1p30);
    if (!isnan(m->joules))
        snprintf(energy, sizeof energy, "; %.3f J an image", m->joules / (double)row->batch);
    if (m->is_compared && !isnan(m->likeness.cosine))
        snprintf(apart, sizeof apart, ", cosine %.4f", m->likeness.cosine);
    if (m->is_compared)
        snprintf(likeness, sizeof likeness, "outputs %s %s, %.1e of the largest off%s",
                 out->good ? "as" : "NOT", m->likeness.by_emulation ? "emulated" : "the CPU's",
                 m->likeness.difference, apart);
    snprintf(
        out->text, sizeof out->text,
        "%-20s %4lld px %-5s batch %lld: %.1f images/s, %.1f TOPS; %s; a batch copies %.2f ms, "
        "computes %.2f ms; %.2f GiB beside %.2f of weights%s%s; ready in %.1f s, again in "
        "%.1f s%s%s",
        row->model, (long long)row->size, hrf_precision_name(row->precision), (long long)row->batch,
        speed, m->operations / m->median * 1e-12, likeness, m->per_batch.copy * 1e3,
        m->per_batch.kernels * 1e3, all - weights, weights, context, energy, m->build, m->again,
        own, left_out);
}

/* ---- the parts ---- */

static void name_speed_at(const struct speed *s, char *name, size_t size)
{
    snprintf(name, size, "%s-%s-%lldx%lld", s->model, hrf_precision_name(s->precision),
             (long long)s->size, (long long)s->batch);
}

static void run_speed_at(const struct hrf_check *check, const struct speed *asked,
                         struct hrf_check_row *out)
{
    struct speed row = *asked;
    struct hrf_error why = { .text = "" };
    struct measured m = { .median = NAN, .joules = NAN };
    if (!hrf_check_has_network(check->networks, row.model) ||
        (check->small && row.size == 224 && row.small == NULL)) {
        out->left_out = true;
        out->json = json_object();
        snprintf(out->text, sizeof out->text, "%s: its file is not here, or has one size",
                 row.model);
        return;
    }
    if (check->small) {
        row.size = 32, row.batch = 2, row.runs = 1;
        row.model = row.small != NULL ? row.small : row.model;
    }
    const bool ran = check_speed_measure(check, &row, &m, &why) == HRF_OK;
    const double speed = ran ? (double)row.batch / m.median : NAN;
    out->good = ran && (!m.is_compared || hrf_likeness_is_good(&m.likeness, row.precision));
    if (ran)
        put_summary(&row, &m, speed, out);
    else
        snprintf(out->text, sizeof out->text, "%-20s %4lld px %-5s batch %lld: %s", row.model,
                 (long long)row.size, hrf_precision_name(row.precision), (long long)row.batch,
                 why.text);
    out->json = row_json(&row, &m, speed, why.text);
}

bool hrf_check_speed_network(int i, struct hrf_check_network *out)
{
    if (i >= (int)N_SPEEDS)
        return false;
    const struct speed *row = &speeds[i];
    *out = (struct hrf_check_network){ row->model, row->precision, row->size, row->batch };
    return true;
}

static bool is_first_of_its_network(int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(speeds[k].model, speeds[i].model) == 0 && speeds[k].size == speeds[i].size &&
            speeds[k].batch == speeds[i].batch)
            return false;
    return true;
}

static enum hrf_status make_by_cpu(const struct hrf_check *check,
                                   const struct hrf_check_network *network, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    struct hrf_expected expected;
    HRF_TRY(hrf_check_graph(check->networks, network->model, network->size, network->batch, &graph,
                            err));
    enum hrf_status status = hrf_expected_init(graph, network, check->outputs, false, &expected,
                                               err);
    if (status == HRF_OK && expected.outputs != NULL) { /* it is there */
        hrf_expected_release(&expected);
        return HRF_OK;
    }
    hrf_expected_release(&expected);
    status = hrf_expected_init(graph, network, NULL, true, &expected, err);
    if (status == HRF_OK)
        status = hrf_expected_write(&expected, network, check->outputs, err);
    hrf_expected_release(&expected);
    return status;
}

enum hrf_status hrf_check_make_outputs(const struct hrf_check *check, struct hrf_error *err)
{
    enum { LARGEST = 1024 };
    const bool by_cpu = strcmp(check->device, "cpu") == 0;
    struct hrf_check_network network;
    for (int i = 0; hrf_check_speed_network(i, &network); i++) {
        if (network.size > LARGEST || !hrf_check_has_network(check->networks, network.model))
            continue;
        if (by_cpu && is_first_of_its_network(i))
            HRF_TRY(make_by_cpu(check, &network, err));
        if (!by_cpu && hrf_expected_wants_emulation(&network))
            HRF_TRY(hrf_expected_emulate(check, &network, err));
    }
    return HRF_OK;
}

/* The rows of one part stand together, from `first` on. */
#define PART(NAME, WORD, FIRST, N)                                                                 \
    static void name_##NAME(int row, char *name, size_t size)                                      \
    {                                                                                              \
        name_speed_at(&speeds[(FIRST) + row], name, size);                                         \
    }                                                                                              \
    static void run_##NAME(const struct hrf_check *check, int row, struct hrf_check_row *out)      \
    {                                                                                              \
        run_speed_at(check, &speeds[(FIRST) + row], out);                                          \
    }                                                                                              \
    const struct hrf_check_part hrf_check_##NAME = { WORD, N, 0, name_##NAME, run_##NAME };
PART(speed, "speed", 0, N_FIRST)
PART(networks, "networks", N_FIRST, N_NETWORKS)
PART(speed_more, "speed-more", N_FIRST + N_NETWORKS, N_SPEEDS - N_FIRST - N_NETWORKS)
