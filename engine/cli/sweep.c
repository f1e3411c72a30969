/* sweep.c - `hires-engine sweep`: memory and throughput over ranks, ways to share, and precisions:
 * simulated, and measured where this machine can. */
#include "base/array.h"
#include "base/csv.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/own_process.h"
#include "base/path.h"
#include "engine/cli/cli.h"
#include "engine/planning/known_machine.h"
#include "engine/planning/request.h"
#include "engine/run/bench.h"
#include "engine/run/planner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum family {
    FAMILY_SPATIAL,
    FAMILY_DATA,
    FAMILY_LAYERS,
    FAMILY_PIPELINE,
    FAMILY_BIDIRECTIONAL,
    FAMILY_SPATIAL_BIDIRECTIONAL,
    N_FAMILIES
};
static const char *const family_names[] = {
    "spatial", "data", "layers", "pipeline", "bidirectional", "spatial + bidirectional"
};
_Static_assert(sizeof family_names / sizeof family_names[0] == N_FAMILIES,
               "a name for every family");

struct sweep_row {
    enum family family;
    enum hrf_rate precision;
    int32_t n_ranks;
    bool is_measured; /* else simulated */
    char layout[128];
    double seconds; /* of a batch */
    int64_t peak_bytes;
};

struct sweep {
    const char *model;
    int64_t size, batch;
    struct hrf_known known;
    struct sweep_row *rows;
    size_t n_rows, capacity;
};

struct request {
    const char *model, *precisions, *cluster, *cache, *out;
    int64_t size, batch, classes, ranks, runs;
    bool measure;
};

/* The layout of n ranks in a family, for batches of `batch` (an even number); false: there is none.
 */
static bool make_layout(enum family family, int32_t n, int64_t batch, struct hrf_layout_plan *out)
{
    const int32_t microbatches = (int32_t)(batch < 1024 ? batch : 1024);
    struct hrf_layout_plan l = hrf_layout_single();
    switch (family) {
    case FAMILY_SPATIAL:
        l.rows = n;
        break;
    case FAMILY_DATA:
        l.data = n;
        break;
    case FAMILY_BIDIRECTIONAL:
    case FAMILY_PIPELINE:
        l.microbatches = microbatches;
        l.stages = n;
        break;
    case FAMILY_LAYERS:
        l.stages = n;
        break;
    default: /* two stages with half of the ranks each */
        l.rows = n / 2;
        l.stages = 2;
        l.microbatches = microbatches;
    }
    l.bidirectional = family >= FAMILY_BIDIRECTIONAL;
    *out = l;
    const bool is_one = family == FAMILY_SPATIAL && n == 1;
    const int32_t least = family == FAMILY_SPATIAL_BIDIRECTIONAL ? 4 : 2;
    return is_one || (n >= least && l.data <= batch);
}

static void add_row(struct sweep *sweep, const struct sweep_row *row)
{
    HRF_RESERVE(sweep->rows, sweep->capacity, sweep->n_rows + 1);
    sweep->rows[sweep->n_rows++] = *row;
    fprintf(stderr, "%s, %s: %.2f images/s, %.3f GiB for each rank, %s\n", row->layout,
            hrf_rate_name(row->precision), (double)sweep->batch / row->seconds,
            (double)row->peak_bytes / 0x1p30, row->is_measured ? "measured" : "simulated");
}

static enum hrf_status simulate(struct sweep *sweep, struct hrf_planner *planner,
                                const struct hrf_layout_plan *layout, struct sweep_row *row,
                                struct hrf_error *err)
{
    HRF_AUTO(hrf_prediction) prediction = NULL;
    struct hrf_error why = { .status = HRF_OK };
    const enum hrf_status status = hrf_planner_predict(planner, layout, &prediction, &why);
    if (status == HRF_E_USER) { /* this layout is impossible; the next one may be possible */
        fprintf(stderr, "%s: %s\n", row->layout, why.text);
        return HRF_OK;
    }
    if (status != HRF_OK) {
        if (err != NULL)
            *err = why;
        return status;
    }
    row->is_measured = false;
    row->seconds = prediction->seconds;
    row->peak_bytes = hrf_prediction_peak_bytes(prediction);
    add_row(sweep, row);
    return HRF_OK;
}

static enum hrf_status measure(struct sweep *sweep, const struct hrf_graph *graph,
                               const struct hrf_layout_plan *layout, int64_t n_runs,
                               struct sweep_row *row, struct hrf_error *err)
{
    const struct hrf_cutting cutting = { &sweep->known.costs, &sweep->known.machine };
    const struct hrf_network_config config = {
        .session = { .device = "cpu",
                     .precision = hrf_rate_precision(row->precision),
                     .n_threads = hrf_layout_ranks(layout), /* one each */
                     .cutting = &cutting },
        .layout = layout,
    };
    HRF_AUTO_RELEASE(hrf_bench) bench = { .n_ranks = 1 };
    HRF_AUTO(hrf_graph) copy = NULL;
    HRF_TRY(hrf_graph_copy(graph, &copy, err));
    HRF_TRY(hrf_bench_run(copy, &config, n_runs, false, &bench, err));
    row->is_measured = true;
    row->seconds = bench.median;
    row->peak_bytes = hrf_session_memory_total(&bench.memory);
    add_row(sweep, row);
    return HRF_OK;
}

static enum hrf_status sweep_precision(struct sweep *sweep, const struct request *r,
                                       const struct hrf_graph *graph, enum hrf_rate precision,
                                       struct hrf_error *err)
{
    char note[512];
    const struct hrf_planner_config planning = { .graph = graph,
                                                 .precision = hrf_rate_precision(precision),
                                                 .costs = &sweep->known.costs,
                                                 .machine = &sweep->known.machine,
                                                 .prepared_as = hrf_planner_backend(
                                                     &sweep->known.machine, note) };
    HRF_AUTO(hrf_planner) planner = NULL;
    fputs(note, stderr);
    HRF_TRY(hrf_planner_create(&planning, &planner, err));
    for (int f = 0; f < N_FAMILIES; f++)
        for (int32_t n = 1; n <= r->ranks; n *= 2) {
            struct sweep_row row = { .family = (enum family)f,
                                     .precision = precision,
                                     .n_ranks = n };
            struct hrf_layout_plan layout;
            if (!make_layout(row.family, n, r->batch, &layout))
                continue;
            hrf_layout_text(&layout, row.layout);
            HRF_TRY(simulate(sweep, planner, &layout, &row, err));
            if (r->measure && n <= hrf_process_cpu_count())
                HRF_TRY(measure(sweep, graph, &layout, r->runs, &row, err));
        }
    return HRF_OK;
}

static enum hrf_status find_rate(const char *word, size_t n, enum hrf_rate *out,
                                 struct hrf_error *err)
{
    for (int r = 0; r < HRF_N_RATES; r++)
        if (strlen(hrf_rate_name((enum hrf_rate)r)) == n &&
            strncmp(hrf_rate_name((enum hrf_rate)r), word, n) == 0) {
            *out = (enum hrf_rate)r;
            return HRF_OK;
        }
    return hrf_error_set(err, HRF_E_USER,
                         "--precisions '%s' is not a list of fp32, fp16, bf16 and int8", word);
}

/* The time of one rank in the same precision; for measured rows the measured time, if there is one.
 */
static double single_seconds(const struct sweep *sweep, const struct sweep_row *of)
{
    double seconds = 0;
    for (size_t i = 0; i < sweep->n_rows; i++) {
        const struct sweep_row *row = &sweep->rows[i];
        if (row->n_ranks == 1 && row->precision == of->precision &&
            (seconds == 0 || row->is_measured == of->is_measured))
            seconds = row->seconds;
    }
    return seconds;
}

static enum hrf_status write_csv(const struct sweep *sweep, const char *directory,
                                 struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) out = HRF_STRBUF_INIT;
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "sweep.csv");
    HRF_TRY(hrf_path_make_directories(directory, err));
    hrf_strbuf_adds(&out, "family,precision,ranks,layout,origin,seconds_per_batch,"
                          "images_per_second,speedup,efficiency,peak_memory_bytes,size,batch,"
                          "model,machine,costs\n");
    for (size_t i = 0; i < sweep->n_rows; i++) {
        const struct sweep_row *r = &sweep->rows[i];
        const double speedup = single_seconds(sweep, r) / r->seconds;
        const char *const texts[] = { sweep->model, sweep->known.machine.name,
                                      sweep->known.cost_source };
        hrf_strbuf_addf(&out, "%s,%s,%d,\"%s\",%s,%.6g,%.6g,%.4f,%.4f,%lld,%lld,%lld",
                        family_names[r->family], hrf_rate_name(r->precision), r->n_ranks, r->layout,
                        r->is_measured ? "measured" : "simulated", r->seconds,
                        (double)sweep->batch / r->seconds, speedup, speedup / r->n_ranks,
                        (long long)r->peak_bytes, (long long)sweep->size, (long long)sweep->batch);
        for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
            hrf_strbuf_addc(&out, ',');
            hrf_csv_add_cell(&out, texts[t]);
        }
        hrf_strbuf_addc(&out, '\n');
    }
    return hrf_file_write_atomic(path, out.text, out.length, err);
}

static enum hrf_status sweep_all(struct sweep *sweep, struct request *r, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    const struct hrf_known_request known = { .cluster = r->cluster,
                                             .cache = r->cache,
                                             .device = "cpu",
                                             .n_threads = 1,
                                             .n_ranks = (int32_t)r->ranks };
    const char *at = r->precisions;
    HRF_TRY(hrf_known_find(&known, &sweep->known, err));
    HRF_TRY(hrf_engine_load_image_model(r->model, r->classes, &r->size, &r->batch, &graph, err));
    sweep->size = r->size;
    sweep->batch = r->batch;
    for (bool more = true; more;) {
        const size_t n = strcspn(at, ",");
        enum hrf_rate precision = HRF_RATE_FP32;
        HRF_TRY(find_rate(at, n, &precision, err));
        HRF_TRY(sweep_precision(sweep, r, graph, precision, err));
        more = at[n] == ',';
        at += n + more;
    }
    HRF_TRY(write_csv(sweep, r->out, err));
    printf("%s/sweep.csv: %zu rows\n", r->out, sweep->n_rows);
    return HRF_OK;
}

static enum hrf_status check(const struct request *r, struct hrf_error *err)
{
    if (r->model == NULL || r->out == NULL)
        return hrf_error_set(err, HRF_E_USER, "--model and --out are required");
    if (r->measure && r->cluster != NULL)
        return hrf_error_set(
            err, HRF_E_USER,
            "--measure runs on this machine and cannot be combined with --cluster");
    if (r->batch % 2 != 0)
        return hrf_error_set(
            err, HRF_E_USER,
            "--batch %lld must be even: each direction of a bidirectional pipeline gets half",
            (long long)r->batch);
    return HRF_OK;
}

int hrf_engine_sweep(const struct hrf_command *command, int argc, char **argv)
{
    struct request r = {
        .precisions = "fp32,bf16,int8", .batch = 16, .classes = 1000, .ranks = 8, .runs = 3
    };
    const struct hrf_option options[] = {
        { "model", "ARCH|FILE", "built-in architecture or ONNX file", HRF_OPTION(&r.model) },
        { "size", "PX", "image size (default: the file's, or 256)",
          HRF_OPTION_NUMBER(&r.size, 0, HRF_COUNT_LIMIT) },
        { "batch", "N", "images in a batch, an even number, each one a micro-batch",
          HRF_OPTION_NUMBER(&r.batch, 2, HRF_COUNT_LIMIT) },
        { "precisions", "LIST", "precisions to compare", HRF_OPTION(&r.precisions) },
        { "ranks", "N", "largest number of ranks; 1, 2, 4 ... are compared",
          HRF_OPTION_NUMBER(&r.ranks, 1, HRF_MAX_RANKS) },
        { "cluster", "FILE", "a machine file (default: this machine)", HRF_OPTION(&r.cluster) },
        { "measure", NULL, "also run the layouts for which this machine has enough processors",
          HRF_OPTION(&r.measure) },
        { "runs", "N", "timed runs of each measured layout",
          HRF_OPTION_NUMBER(&r.runs, 1, HRF_COUNT_LIMIT) },
        { "out", "DIR", "folder for sweep.csv", HRF_OPTION(&r.out) },
        { "classes", "N", "outputs of a built-in architecture",
          HRF_OPTION_NUMBER(&r.classes, 1, HRF_COUNT_LIMIT) },
        { "cache", "DIR", "folder of measured costs and machines", HRF_OPTION(&r.cache) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_ENGINE_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    struct sweep sweep = { .model = r.model };
    enum hrf_status status = check(&r, &err);
    if (status == HRF_OK)
        status = sweep_all(&sweep, &r, &err);
    hrf_known_release(&sweep.known);
    hrf_free(sweep.rows);
    return status == HRF_OK ? 0 : hrf_engine_fail(command->name, &err);
}
