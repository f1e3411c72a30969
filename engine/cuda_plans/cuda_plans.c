/* cuda_plans.c - the program hires-cuda-plans: cuDNN's plans of the measured networks, made without
 * a GPU for one that is described, so that the first start on it builds nothing (plan_set.h). */
#include "base/args.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/own_process.h"
#include "engine/backend/cuda/cudnn_choose.h"
#include "engine/backend/cuda/graph_convs.h"
#include "engine/backend/cuda/plan_set.h"
#include "engine/check/check_rows.h"
#include "engine/plan/bands.h"
#include "engine/plan/halves.h"
#include "engine/run/made_ranges.h"
#include "engine/run/rank.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 64, TEXT_ROOM = 512 };

struct wanted {
    const char *device, *out, *files;
    struct hrf_option_list networks;
    int64_t n_threads, n_bands;
    bool read_back, list;
};

/* The device, and all convolutions that were asked for so far, each once. */
struct making {
    const struct wanted *wanted;
    char *properties_json;
    int64_t memory_bytes;
    struct hrf_cudnn_device *properties; /* of the main thread */
    struct hrf_cudnn_conv *convs;
    int32_t *n_plans; /* of each; 0: cuDNN has no engine for it */
    int32_t n, n_made;
    size_t convs_room, plans_room;
    atomic_int next;
    pthread_mutex_t mutex; /* of `failure` and of what is printed */
    struct hrf_error failure;
};

/* ---- networks ---- */

/* "MODEL:PRECISION:SIZE:BATCH", from the right: a model's name may have colons. */
static enum hrf_status parse_network(const char *text, char model[128],
                                     struct hrf_check_network *out, struct hrf_error *err)
{
    char *at[3], *end;
    snprintf(model, 128, "%s", text);
    for (int i = 2; i >= 0; i--) {
        at[i] = strrchr(model, ':');
        if (at[i] == NULL)
            return hrf_error_set(err, HRF_E_USER,
                                 "'%s' is no network: MODEL:PRECISION:SIZE:BATCH is, e.g. "
                                 "resnet101:int8:256:64",
                                 text);
        *at[i]++ = '\0';
    }
    *out = (struct hrf_check_network){ .model = model, .precision = hrf_precision_find(at[0]) };
    if (out->precision == HRF_N_PRECISIONS)
        return hrf_error_set(err, HRF_E_USER, "'%s': '%s' is no precision", text, at[0]);
    out->size = strtoll(at[1], &end, 10);
    const bool has_size = end != at[1] && *end == '\0' && out->size > 0;
    out->batch = strtoll(at[2], &end, 10);
    if (!has_size || end == at[2] || *end != '\0' || out->batch < 1)
        return hrf_error_set(err, HRF_E_USER, "'%s': its size or its batch is no number from 1 on",
                             text);
    return HRF_OK;
}

static int32_t cuda_plans_find(const struct making *m, const struct hrf_cudnn_conv *conv)
{
    char text[TEXT_ROOM], other[TEXT_ROOM];
    hrf_cudnn_conv_text(conv, text, sizeof text);
    for (int32_t i = 0; i < m->n; i++) {
        hrf_cudnn_conv_text(&m->convs[i], other, sizeof other);
        if (strcmp(text, other) == 0)
            return i;
    }
    return -1;
}

static bool has_plan(void *context, const struct hrf_cudnn_conv *conv)
{
    const struct making *m = context;
    const int32_t i = cuda_plans_find(m, conv);
    return i >= 0 && m->n_plans[i] > 0;
}

static void cuda_plans_add(struct making *m, const struct hrf_cudnn_conv *conv)
{
    if (cuda_plans_find(m, conv) >= 0)
        return;
    const size_t n = (size_t)m->n + 1;
    HRF_RESERVE(m->convs, m->convs_room, n);
    HRF_RESERVE(m->n_plans, m->plans_room, n);
    m->n_plans[m->n] = 0;
    m->convs[m->n++] = *conv;
}

/* A network as the GPU computes it: fused, in its precision. Release it in any case. */
struct network {
    struct hrf_graph *graph;
    struct hrf_made_ranges made;
    struct hrf_session_config config;
};

static void cuda_plans_release(struct network *n)
{
    hrf_made_ranges_release(&n->made);
    hrf_graph_destroy(n->graph);
}

static enum hrf_status cuda_plans_load(const char *networks,
                                       const struct hrf_check_network *network, struct network *out,
                                       struct hrf_error *err)
{
    *out = (struct network){ .graph = NULL };
    HRF_TRY(
        hrf_check_graph(networks, network->model, network->size, network->batch, &out->graph, err));
    HRF_TRY(hrf_made_ranges_init(out->graph, &out->made, err));
    out->config = (struct hrf_session_config){ .device = "cuda",
                                               .precision = network->precision,
                                               .ranges = out->made.ranges,
                                               .n_ranges = out->made.n_ranges };
    return HRF_OK;
}

static enum hrf_status cuda_plans_prepare(const struct hrf_graph *graph,
                                          const struct hrf_session_config *config,
                                          struct hrf_graph **out, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) notes = HRF_STRBUF_INIT;
    double operations;
    return hrf_session_prepare(graph, config, out, &operations, &notes, err);
}

/* ---- building ---- */

static void cuda_plans_fail(struct making *m, const struct hrf_error *err)
{
    pthread_mutex_lock(&m->mutex);
    if (m->failure.status == HRF_OK)
        m->failure = *err;
    pthread_mutex_unlock(&m->mutex);
}

static void *build_some(void *context)
{
    struct making *m = context;
    HRF_AUTO(hrf_cudnn_device) properties = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_cudnn_device_parse(m->properties_json, &properties, &err) != HRF_OK)
        cuda_plans_fail(m, &err);
    for (int i = atomic_fetch_add(&m->next, 1); i < m->n && m->failure.status == HRF_OK;
         i = atomic_fetch_add(&m->next, 1))
        if (hrf_plan_set_add(m->wanted->out, properties, hrf_cudnn_most_workspace(m->memory_bytes),
                             &m->convs[i], &m->n_plans[i], &err) != HRF_OK)
            cuda_plans_fail(m, &err);
    return NULL;
}

/* What was added since the last time. */
static enum hrf_status build_new(struct making *m, struct hrf_error *err)
{
    pthread_t threads[MAX_THREADS];
    bool runs[MAX_THREADS] = { false };
    const int n = m->wanted->n_threads < MAX_THREADS ? (int)m->wanted->n_threads : MAX_THREADS;
    atomic_store(&m->next, m->n_made);
    for (int i = 0; i < n; i++)
        runs[i] = pthread_create(&threads[i], NULL, build_some, m) == 0;
    (void)build_some(m); /* what no thread took */
    for (int i = 0; i < n; i++)
        if (runs[i])
            (void)pthread_join(threads[i], NULL);
    m->n_made = m->n;
    if (m->failure.status != HRF_OK && err != NULL)
        *err = m->failure;
    return m->failure.status;
}

/* All convolutions of a graph that is prepared. */
static enum hrf_status make_graph(struct making *m, const struct hrf_graph *graph,
                                  enum hrf_precision precision, struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_cudnn_conv *convs = hrf_alloc_array((size_t)graph->n_nodes + 1,
                                                                 sizeof *convs);
    const struct hrf_conv_target target = { m->memory_bytes,
                                            hrf_precision_row(precision)->needs_tf32, has_plan, m };
    for (int in_strips = 0; in_strips < 2; in_strips++) {
        int32_t n = 0;
        HRF_TRY(hrf_cuda_graph_convs(&target, graph, in_strips != 0, convs, &n, err));
        for (int32_t i = 0; i < n; i++)
            cuda_plans_add(m, &convs[i]);
        HRF_TRY(build_new(m, err));
    }
    return HRF_OK;
}

/* What each rank of a layout computes. */
static enum hrf_status make_ranks(struct making *m, const struct network *network,
                                  const char *layout, struct hrf_error *err)
{
    HRF_AUTO(hrf_work) work = NULL;
    struct hrf_layout_plan plan;
    HRF_TRY(hrf_layout_parse(layout, &plan, err));
    HRF_TRY(hrf_work_create(network->graph, &network->config, &plan, &work, err));
    for (int32_t rank = 0; rank < work->partition->n_ranks; rank++) {
        HRF_AUTO(hrf_graph) graph = NULL;
        struct hrf_rank_map *map = NULL;
        enum hrf_status status = hrf_partition_graph(work->partition, rank, &graph, &map, err);
        if (status == HRF_OK)
            status = make_graph(m, graph, network->config.precision, err);
        hrf_rank_map_destroy(map);
        HRF_TRY(status);
    }
    return HRF_OK;
}

static enum hrf_status make_whole(struct making *m, const struct network *network,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) prepared = NULL;
    HRF_TRY(cuda_plans_prepare(network->graph, &network->config, &prepared, err));
    return make_graph(m, prepared, network->config.precision, err);
}

/* Each kind of band, which has a session of its own (banded.c). */
static enum hrf_status make_kinds(struct making *m, const struct hrf_partition *partition,
                                  const struct hrf_halves *halves, enum hrf_precision precision,
                                  struct hrf_error *err)
{
    const size_t n = (size_t)partition->n_ranks;
    int32_t n_kinds = 0;
    HRF_AUTO_FREE int32_t *kind_of = hrf_calloc(2 * n + 1, sizeof *kind_of);
    hrf_bands_find_kinds(partition, kind_of, kind_of + n, &n_kinds);
    for (int32_t k = 0; k < n_kinds; k++) {
        HRF_AUTO(hrf_graph) graph = NULL;
        struct hrf_rank_map *map = NULL;
        enum hrf_status status = hrf_bands_graph(partition, halves, (kind_of + n)[k], &graph, &map,
                                                 err);
        if (status == HRF_OK)
            status = make_graph(m, graph, precision, err);
        hrf_rank_map_destroy(map);
        HRF_TRY(status);
    }
    return make_graph(m, halves->tail, precision, err);
}

static enum hrf_status make_bands(struct making *m, const struct network *network, int32_t n_bands,
                                  struct hrf_error *err)
{
    const struct hrf_bands_options options = { .n_bands = n_bands };
    enum hrf_precision precision = network->config.precision;
    HRF_AUTO(hrf_graph) prepared = NULL;
    HRF_AUTO(hrf_partition) partition = NULL;
    HRF_AUTO_RELEASE(hrf_halves) halves = { .head = NULL };
    struct hrf_bands_plan plan;
    HRF_TRY(cuda_plans_prepare(network->graph, &network->config, &prepared, err));
    HRF_TRY(hrf_bands_choose(prepared, &options, &plan, err));
    HRF_TRY(hrf_halves_create(prepared, plan.cut, true, &halves, err));
    enum hrf_status status = hrf_bands_partition(halves.head, plan.n_bands, plan.keeps, &partition,
                                                 err);
    if (status == HRF_OK)
        status = make_kinds(m, partition, &halves, precision, err);
    hrf_partition_destroy(partition);
    partition = NULL;
    return status;
}

/* "bands=3": the number; 0: another layout. */
static int32_t bands_of(const char *layout)
{
    return layout != NULL && strncmp(layout, "bands=", 6) == 0
               ? (int32_t)strtol(layout + 6, NULL, 10)
               : 0;
}

/* `layout` NULL: by one rank. */
static enum hrf_status make_network(struct making *m, const struct hrf_check_network *asked,
                                    const char *layout, struct hrf_error *err)
{
    const double start = hrf_clock_seconds();
    const int32_t before = m->n;
    struct network network;
    enum hrf_status status = cuda_plans_load(m->wanted->files, asked, &network, err);
    if (status == HRF_OK)
        status = bands_of(layout) > 0 ? make_bands(m, &network, bands_of(layout), err)
                 : layout != NULL     ? make_ranks(m, &network, layout, err)
                                      : make_whole(m, &network, err);
    cuda_plans_release(&network);
    HRF_TRY(status);
    fprintf(stderr, "%s %s %lld px, batch %lld%s%s: %d more convolutions, %.1f s\n", asked->model,
            hrf_precision_name(asked->precision), (long long)asked->size, (long long)asked->batch,
            layout != NULL ? ", " : "", layout != NULL ? layout : "", m->n - before,
            hrf_clock_seconds() - start);
    return HRF_OK;
}

static enum hrf_status make_roundings(struct making *m, struct hrf_error *err)
{
    const int32_t before = m->n;
    for (int i = 0; i < hrf_check_n_roundings(); i++) {
        struct hrf_range ranges[HRF_CHECK_MAX_RANGES];
        HRF_AUTO(hrf_graph) graph = NULL;
        HRF_AUTO(hrf_graph) prepared = NULL;
        struct hrf_session_config config = { .device = "cuda",
                                             .precision = HRF_INT8,
                                             .ranges = ranges };
        HRF_TRY(hrf_check_rounding_graph(i, &graph, ranges, &config.n_ranges, err));
        HRF_TRY(cuda_plans_prepare(graph, &config, &prepared, err));
        HRF_TRY(make_graph(m, prepared, HRF_INT8, err));
    }
    fprintf(stderr, "the part 'rounding': %d more convolutions\n", m->n - before);
    return HRF_OK;
}

/* ---- reading back ---- */

/* Gives cuDNN every plan of the set as a start does, but runs none. */
static enum hrf_status read_back(struct making *m, struct hrf_error *err)
{
    HRF_AUTO(hrf_plan_set) set = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) lines = HRF_STRBUF_INIT;
    enum hrf_status status = hrf_plan_set_open(m->wanted->out, m->properties, &set, &lines, err);
    if (status == HRF_OK && set == NULL)
        status = hrf_error_set(err, HRF_E_USER, "no set fits: %s", lines.text);
    const double start = hrf_clock_seconds();
    int n_plans = 0;
    for (int32_t i = 0; i < m->n && status == HRF_OK; i++) {
        struct hrf_cudnn_conv conv = m->convs[i];
        struct hrf_candidates candidates = { .n = 0 };
        if (!hrf_plan_set_get(set, NULL, m->properties, &conv, &candidates, &lines))
            status = hrf_error_set(err, HRF_E_EXTERNAL, "a plan is not taken back: %s", lines.text);
        n_plans += candidates.n;
        hrf_candidates_release(&candidates);
    }
    if (status == HRF_OK)
        fprintf(stderr, "%d plans of %d convolutions read back in %.2f s\n", n_plans, (int)m->n,
                hrf_clock_seconds() - start);
    return status;
}

/* ---- the program ---- */

static enum hrf_status load_device(struct making *m, struct hrf_error *err)
{
    size_t n_bytes;
    HRF_AUTO_JSON properties = NULL;
    HRF_TRY(hrf_file_read(m->wanted->device, 1 << 16, &m->properties_json, &n_bytes, err));
    HRF_TRY(hrf_json_parse(m->properties_json, n_bytes, m->wanted->device, &properties, err));
    HRF_TRY(
        hrf_json_get_int(properties, "totalGlobalMem", m->wanted->device, &m->memory_bytes, err));
    return hrf_cudnn_device_parse(m->properties_json, &m->properties, err);
}

/* How tools/gpu-ranks divides its two networks; also by one rank. */
static const struct {
    const char *model, *layout;
} ranks_rows[] = { { "resnet18", NULL },
                   { "resnet18", "spatial=2" },
                   { "resnet18", "spatial=3" },
                   { "resnet18", "spatial=2x2" },
                   { "resnet18", "spatial=2,halos=overlap" },
                   { "resnet18", "spatial=2,stages=2,microbatches=2" },
                   { "unet:3,8", NULL },
                   { "unet:3,8", "spatial=2" },
                   { "unet:3,8", "stages=2,microbatches=2" } };
enum { N_RANKS_ROWS = sizeof ranks_rows / sizeof ranks_rows[0] };

typedef enum hrf_status network_work(struct making *m, const struct hrf_check_network *network,
                                     const char *layout, struct hrf_error *err);

/* What tools/gpu-check runs on a GPU by itself, the networks that are measured first. */
static enum hrf_status for_each_row(struct making *m, network_work *work, struct hrf_error *err)
{
    struct hrf_check_network network = { .model = NULL };
    const char *layout = NULL;
    char bands[32];
    for (int i = 0; hrf_check_speed_network(i, &network); i++)
        if (hrf_check_has_network(m->wanted->files, network.model))
            HRF_TRY(work(m, &network, NULL, err));
    for (int i = 0; hrf_check_agreement_network(i, &network); i++)
        HRF_TRY(work(m, &network, NULL, err));
    for (int i = 0; hrf_check_layout(i, &network, &layout); i++) {
        HRF_TRY(work(m, &network, NULL, err)); /* what the ranks are compared with */
        snprintf(bands, sizeof bands, "bands=%d", (int)HRF_CHECK_BANDS);
        HRF_TRY(work(m, &network, layout != NULL ? layout : bands, err));
    }
    for (int i = 0; i < N_RANKS_ROWS; i++) {
        network = (struct hrf_check_network){ ranks_rows[i].model, HRF_INT8, 32, 2 };
        HRF_TRY(work(m, &network, ranks_rows[i].layout, err));
    }
    return HRF_OK;
}

static enum hrf_status for_each_network(struct making *m, network_work *work, struct hrf_error *err)
{
    char model[128], bands[32];
    for (size_t i = 0; i < m->wanted->networks.n_items; i++) {
        struct hrf_check_network network = { .model = NULL };
        HRF_TRY(parse_network(m->wanted->networks.items[i], model, &network, err));
        HRF_TRY(work(m, &network, NULL, err));
        snprintf(bands, sizeof bands, "bands=%d", (int)m->wanted->n_bands);
        if (m->wanted->n_bands > 0)
            HRF_TRY(work(m, &network, bands, err));
    }
    return m->wanted->networks.n_items > 0 ? HRF_OK : for_each_row(m, work, err);
}

static enum hrf_status print_network(struct making *m, const struct hrf_check_network *n,
                                     const char *layout, struct hrf_error *err)
{
    (void)m, (void)err;
    printf("%s:%s:%lld:%lld%s%s\n", n->model, hrf_precision_name(n->precision), (long long)n->size,
           (long long)n->batch, layout != NULL ? " " : "", layout != NULL ? layout : "");
    return HRF_OK;
}

static enum hrf_status make_all(struct making *m, struct hrf_error *err)
{
    if (m->wanted->list)
        return for_each_network(m, print_network, err);
    HRF_TRY(load_device(m, err));
    HRF_TRY(hrf_plan_set_begin(m->wanted->out, m->properties_json, err));
    HRF_TRY(for_each_network(m, make_network, err));
    if (m->wanted->networks.n_items == 0)
        HRF_TRY(make_roundings(m, err));
    return m->wanted->read_back ? read_back(m, err) : HRF_OK;
}

static int cuda_plans_run(const struct hrf_command *command, int argc, char **argv)
{
    struct wanted wanted = { .device = NULL };
    const struct hrf_option options[] = {
        { "device", "FILE", "the GPU: cuDNN's JSON form of its properties",
          HRF_OPTION(&wanted.device) },
        { "out", "DIR", "the set's folder; what is in it already is kept",
          HRF_OPTION(&wanted.out) },
        { "network", "NET",
          "MODEL:PRECISION:SIZE:BATCH; may be repeated (default: what tools/gpu-check runs, with "
          "its "
          "layouts and rounding rows)",
          HRF_OPTION(&wanted.networks) },
        { "bands", "N", "the networks of --network in N bands of rows, too",
          HRF_OPTION_NUMBER(&wanted.n_bands, 0, HRF_COUNT_LIMIT) },
        { "threads", "N", "plans that are built at a time (default: the processors)",
          HRF_OPTION_NUMBER(&wanted.n_threads, 0, 4096) },
        { "read-back", NULL, "then give every plan back to cuDNN, as a start does",
          HRF_OPTION(&wanted.read_back) },
        { "files", "DIR",
          "networks that are not built in, as DIR/NAME.onnx; without it they are left out",
          HRF_OPTION(&wanted.files) },
        { "list", NULL, "only print the networks", HRF_OPTION(&wanted.list) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse("hires-cuda-plans", command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    if (wanted.n_threads == 0)
        wanted.n_threads = hrf_process_cpu_count();
    struct making m = { .wanted = &wanted, .mutex = PTHREAD_MUTEX_INITIALIZER };
    struct hrf_error err = { .status = HRF_OK };
    enum hrf_status status = HRF_OK;
    if (!wanted.list && (wanted.device == NULL || wanted.out == NULL))
        status = hrf_error_set(&err, HRF_E_USER, "--device and --out are needed; see --help");
    if (status == HRF_OK)
        status = make_all(&m, &err);
    hrf_cudnn_device_destroy(m.properties);
    hrf_free(m.properties_json);
    hrf_free(m.convs);
    hrf_free(m.n_plans);
    if (status != HRF_OK)
        fprintf(stderr, "hires-cuda-plans: %s\n", err.text);
    return status == HRF_OK ? 0 : status == HRF_E_USER ? 2 : 1;
}

static const struct hrf_command make = {
    .name = "make",
    .operands = "",
    .summary = "build cuDNN's plans for a GPU that is not here",
    .run = cuda_plans_run,
};

int main(int argc, char **argv)
{
    static const struct hrf_command *const commands[] = { &make, NULL };
    return hrf_args_main("hires-cuda-plans", "plans of cuDNN without a GPU", commands, argc, argv);
}
