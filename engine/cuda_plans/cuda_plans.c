/* cuda_plans.c - the program hires-cuda-plans: cuDNN's plans of the measured networks, made without
 * a GPU for one that is described, so that the first start on it builds nothing (plan_set.h). */
#include "base/args.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/own_process.h"
#include "engine/backend/cuda/cudnn_choose.h"
#include "engine/backend/cuda/graph_convs.h"
#include "engine/backend/cuda/plan_set.h"
#include "engine/check/check_rows.h"
#include "engine/run/made_ranges.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 64, MOST_NETWORKS = 256, TEXT_ROOM = 512 };

struct wanted {
    const char *device, *out;
    struct hrf_option_list networks;
    int64_t n_threads;
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
    *out = (struct hrf_check_network){ .model = model, .precision = at[0] };
    out->size = strtoll(at[1], &end, 10);
    const bool has_size = end != at[1] && *end == '\0' && out->size > 0;
    out->batch = strtoll(at[2], &end, 10);
    if (!has_size || end == at[2] || *end != '\0' || out->batch < 1)
        return hrf_error_set(err, HRF_E_USER, "'%s': its size or its batch is no number from 1 on",
                             text);
    return HRF_OK;
}

static int32_t find(const struct making *m, const struct hrf_cudnn_conv *conv)
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
    const int32_t i = find(m, conv);
    return i >= 0 && m->n_plans[i] > 0;
}

static enum hrf_status add(struct making *m, const struct hrf_cudnn_conv *conv,
                           struct hrf_error *err)
{
    if (find(m, conv) >= 0)
        return HRF_OK;
    const size_t n = (size_t)m->n + 1;
    void *convs = m->convs, *n_plans = m->n_plans;
    enum hrf_status status = hrf_array_reserve(&convs, &m->convs_room, n, sizeof *m->convs, err);
    m->convs = convs;
    HRF_TRY(status);
    status = hrf_array_reserve(&n_plans, &m->plans_room, n, sizeof *m->n_plans, err);
    m->n_plans = n_plans;
    HRF_TRY(status);
    m->n_plans[m->n] = 0;
    m->convs[m->n++] = *conv;
    return HRF_OK;
}

/* The network as the GPU computes it: fused, in its precision. */
static enum hrf_status prepare(const struct hrf_check_network *network, struct hrf_graph **out,
                               struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    struct hrf_made_ranges made = { .fused = NULL };
    struct hrf_strbuf notes = HRF_STRBUF_INIT;
    double operations;
    HRF_TRY(hrf_check_graph(network->model, network->size, network->batch, &graph, err));
    HRF_TRY(hrf_made_ranges_init(graph, &made, err));
    const struct hrf_session_config config = { .device = "cuda",
                                               .precision = network->precision,
                                               .ranges = made.ranges,
                                               .n_ranges = made.n_ranges };
    const enum hrf_status status = hrf_session_prepare(graph, &config, out, &operations, &notes,
                                                       err);
    hrf_strbuf_release(&notes);
    hrf_made_ranges_release(&made);
    return status;
}

/* ---- building ---- */

static void fail(struct making *m, const struct hrf_error *err)
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
        fail(m, &err);
    for (int i = atomic_fetch_add(&m->next, 1); i < m->n && m->failure.status == HRF_OK;
         i = atomic_fetch_add(&m->next, 1))
        if (hrf_plan_set_add(m->wanted->out, properties, hrf_cudnn_most_workspace(m->memory_bytes),
                             &m->convs[i], &m->n_plans[i], &err) != HRF_OK)
            fail(m, &err);
    return NULL;
}

/* What was added since the last time. */
static enum hrf_status build_new(struct making *m, struct hrf_error *err)
{
    pthread_t threads[MOST_THREADS];
    bool runs[MOST_THREADS] = { false };
    const int n = m->wanted->n_threads < MOST_THREADS ? (int)m->wanted->n_threads : MOST_THREADS;
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

static enum hrf_status make_network(struct making *m, const struct hrf_check_network *network,
                                    struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    const double start = hrf_clock_seconds();
    const int32_t before = m->n;
    HRF_TRY(prepare(network, &graph, err));
    HRF_AUTO_FREE struct hrf_cudnn_conv *convs = hrf_alloc_array((size_t)graph->n_nodes + 1,
                                                                 sizeof *convs);
    HRF_CHECK_MEMORY(convs != NULL, err, "no memory for %d nodes", (int)graph->n_nodes);
    const struct hrf_conv_target target = { m->memory_bytes,
                                            strcmp(network->precision, "tf32") == 0, has_plan, m };
    for (int in_strips = 0; in_strips < 2; in_strips++) {
        int32_t n = 0;
        HRF_TRY(hrf_cuda_graph_convs(&target, graph, in_strips != 0, convs, &n, err));
        for (int32_t i = 0; i < n; i++)
            HRF_TRY(add(m, &convs[i], err));
        HRF_TRY(build_new(m, err));
    }
    fprintf(stderr, "%s %s %lld px, batch %lld: %d more convolutions, %.1f s\n", network->model,
            network->precision, (long long)network->size, (long long)network->batch, m->n - before,
            hrf_clock_seconds() - start);
    return HRF_OK;
}

/* ---- reading back ---- */

/* As a start would, but for running them: cuDNN takes every plan of the set. */
static enum hrf_status read_back(struct making *m, struct hrf_error *err)
{
    HRF_AUTO(hrf_plan_set) set = NULL;
    struct hrf_strbuf lines = HRF_STRBUF_INIT;
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
    hrf_strbuf_release(&lines);
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

static enum hrf_status for_each_network(struct making *m,
                                        enum hrf_status (*work)(struct making *m,
                                                                const struct hrf_check_network *n,
                                                                struct hrf_error *err),
                                        struct hrf_error *err)
{
    struct hrf_check_network network;
    char model[128];
    for (size_t i = 0; i < m->wanted->networks.n_items; i++) {
        HRF_TRY(parse_network(m->wanted->networks.items[i], model, &network, err));
        HRF_TRY(work(m, &network, err));
    }
    if (m->wanted->networks.n_items > 0)
        return HRF_OK;
    for (int i = 0; hrf_check_speed_network(i, &network); i++)
        HRF_TRY(work(m, &network, err));
    for (int i = 0; hrf_check_agreement_network(i, &network); i++)
        HRF_TRY(work(m, &network, err));
    return HRF_OK;
}

static enum hrf_status print_network(struct making *m, const struct hrf_check_network *n,
                                     struct hrf_error *err)
{
    (void)m, (void)err;
    printf("%s:%s:%lld:%lld\n", n->model, n->precision, (long long)n->size, (long long)n->batch);
    return HRF_OK;
}

static enum hrf_status make_all(struct making *m, struct hrf_error *err)
{
    if (m->wanted->list)
        return for_each_network(m, print_network, err);
    HRF_TRY(load_device(m, err));
    HRF_TRY(hrf_plan_set_begin(m->wanted->out, m->properties_json, err));
    HRF_TRY(for_each_network(m, make_network, err));
    return m->wanted->read_back ? read_back(m, err) : HRF_OK;
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    struct wanted wanted = { .n_threads = hrf_process_cpu_count() };
    const struct hrf_option options[] = {
        { "device", "FILE", "the GPU: cuDNN's JSON form of its properties", HRF_OPTION_TEXT,
          &wanted.device },
        { "out", "DIR", "the set's folder; what is in it already is kept", HRF_OPTION_TEXT,
          &wanted.out },
        { "network", "NET",
          "MODEL:PRECISION:SIZE:BATCH; may be repeated (default: those of gpu-check's parts "
          "'speed' and 'agreement')",
          HRF_OPTION_LIST, &wanted.networks },
        { "threads", "N", "plans that are built at a time (default: the processors)",
          HRF_OPTION_INT, &wanted.n_threads },
        { "read-back", NULL, "then give every plan back to cuDNN, as a start does", HRF_OPTION_FLAG,
          &wanted.read_back },
        { "list", NULL, "only print the networks", HRF_OPTION_FLAG, &wanted.list },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse("hires-cuda-plans", command, options, argc, argv);
    if (args.done)
        return args.exit_code;
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
    .run = run,
};

int main(int argc, char **argv)
{
    static const struct hrf_command *const commands[] = { &make, NULL };
    return hrf_args_main("hires-cuda-plans", "plans of cuDNN without a GPU", commands, argc, argv);
}
