/* Every convolution of every built-in network, in every precision, on the devices whose properties
 * stand beside this file: which of cuDNN's engines would run it. No GPU takes part: cuDNN plans for
 * a device that it is told of. Prints the table; one without an engine fails, but for the few kinds
 * that are known to have none and that an own kernel runs.
 *
 * Asking cuDNN takes 50 ms of a core and more: what it said stands in engines.txt, for the version
 * in its first line. A part of that is asked again each time ("all": all of it); a convolution or a
 * version that is not in there is asked for. HRF_REFRESH_GOLDEN=1 writes it anew.
 */
#include "tests/unit/unit.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/strbuf.h"
#include "engine/backend/cuda/conv_strips.h"
#include "engine/backend/cuda/cudnn_candidates.h"
#include "engine/backend/cuda/cudnn_choose.h"
#include "engine/model/model.h"
#include "engine/plan/plan.h"
#include "engine/run/made_ranges.h"
#include "engine/run/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KNOWN = 4000, MOST_ENGINES = 128, BATCH = 64, N_DEVICES = 3, SHORT_HASH = 16 };
enum { NOT_ASKED = -2, NONE = -1, WIDENED = 1000 }; /* WIDENED is added to an engine's number */

struct device {
    const char *file, *name;
    int64_t memory_bytes;
    struct hrf_cudnn_device *cudnn;
};
static struct device devices[N_DEVICES] = { { "a100.json", "sm_80", 85000000000, NULL },
                                            { "h200.json", "sm_90", 150000000000, NULL },
                                            { "b200.json", "sm_100", 191000000000, NULL } };

/* What was answered, by the convolution's text. */
static struct answer {
    char hash[SHORT_HASH + 1];
    int engines[N_DEVICES];
} known[MOST_KNOWN];
static int n_known, n_asked, n_new;
static bool walks_all, is_met[MOST_KNOWN][N_DEVICES];

/* ---- what stands beside this file ---- */

static void path_of(const char *file, char path[4096])
{
    const char *source = getenv("HRF_SOURCE_DIR");
    snprintf(path, 4096, "%s/%s/%s", source != NULL ? source : ".",
             strstr(file, ".json") != NULL ? "engine/cuda_plans" : "tests/unit/engine/backend/cuda",
             file);
}

static void read_answers(void)
{
    char path[4096];
    size_t version = 0;
    path_of("engines.txt", path);
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "cuDNN %zu", &version) != 1 || version != cudnnGetVersion())
        printf("engines.txt is not of cuDNN %zu: everything is asked for\n", cudnnGetVersion());
    while (file != NULL && version == cudnnGetVersion() && n_known < MOST_KNOWN) {
        struct answer *a = &known[n_known];
        if (fscanf(file, "%16s %d %d %d", a->hash, &a->engines[0], &a->engines[1],
                   &a->engines[2]) != 1 + N_DEVICES)
            break;
        n_known++;
    }
    if (file != NULL)
        (void)fclose(file);
}

static int by_hash(const void *a, const void *b)
{
    return strcmp(((const struct answer *)a)->hash, ((const struct answer *)b)->hash);
}

static void write_answers(void)
{
    char path[4096];
    if (getenv("HRF_REFRESH_GOLDEN") == NULL)
        return;
    path_of("engines.txt", path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    qsort(known, (size_t)n_known, sizeof known[0], by_hash);
    fprintf(file, "cuDNN %zu\n", cudnnGetVersion());
    for (int i = 0; i < n_known; i++)
        fprintf(file, "%s %d %d %d\n", known[i].hash, known[i].engines[0], known[i].engines[1],
                known[i].engines[2]);
    assert_int_equal(fclose(file), 0);
}

static int read_devices(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_DEVICES; i++) {
        char *json = NULL, path[4096];
        size_t n_bytes;
        struct hrf_error err = { .text = "" };
        path_of(devices[i].file, path);
        if (hrf_file_read(path, 1 << 16, &json, &n_bytes, &err) != HRF_OK ||
            hrf_cudnn_device_parse(json, &devices[i].cudnn, &err) != HRF_OK) {
            fprintf(stderr, "%s\n", err.text);
            return -1;
        }
        hrf_free(json);
    }
    read_answers();
    return 0;
}

static int forget_devices(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_DEVICES; i++)
        hrf_cudnn_device_destroy(devices[i].cudnn);
    return 0;
}

/* ---- engines ---- */

static int ask(const struct device *device, const struct hrf_cudnn_conv *conv)
{
    struct hrf_cudnn_conv wide = *conv;
    struct hrf_cudnn_graph graph;
    struct hrf_cudnn_engines engines;
    struct hrf_error err = { .text = "" };
    if (hrf_cudnn_conv_choose(&wide, NULL, device->cudnn,
                              hrf_cudnn_most_workspace(device->memory_bytes), &graph, &engines,
                              &err) != HRF_OK)
        fail_msg("%s", err.text);
    const bool is_widened = wide.x[1] != conv->x[1] || wide.y[1] != conv->y[1];
    const int engine = engines.n_items > 0 ? (int)engines.items[0].index : NONE;
    hrf_cudnn_engines_release(&engines);
    hrf_cudnn_graph_release(&graph);
    n_asked++;
    return is_widened && engine != NONE ? engine + WIDENED : engine;
}

static struct answer *find(const char *text)
{
    char hash[HRF_HASH_HEX];
    assert_int_equal(hrf_hash_buffer(text, strlen(text), hash, NULL), HRF_OK);
    for (int i = 0; i < n_known; i++)
        if (memcmp(known[i].hash, hash, SHORT_HASH) == 0)
            return &known[i];
    assert_true(n_known < MOST_KNOWN);
    struct answer *fresh = &known[n_known++];
    *fresh = (struct answer){ .engines = { NOT_ASKED, NOT_ASKED, NOT_ASKED } };
    memcpy(fresh->hash, hash, SHORT_HASH);
    n_new++;
    return fresh;
}

/* One convolution of 64 of what is known, always the same, on one device. */
static bool is_asked_again(const struct answer *answer, int device)
{
    const long part = strtol((char[]){ answer->hash[0], answer->hash[1], 0 }, NULL, 16);
    return walks_all || part == device || part == device + 64 || part == device + 128;
}

static int engine_of(int device, const struct hrf_cudnn_conv *conv, const char *text)
{
    struct answer *answer = find(text);
    bool *is_checked = &is_met[answer - known][device];
    int *engine = &answer->engines[device];
    if (*engine == NOT_ASKED)
        *engine = ask(&devices[device], conv);
    else if (!*is_checked && is_asked_again(answer, device))
        assert_int_equal(ask(&devices[device], conv), *engine);
    *is_checked = true;
    return *engine;
}

/* As the back end describes it: where engines know no prologue, a strip of its image. */
static bool describe(const struct device *device, const struct hrf_graph *graph,
                     const struct hrf_node *node, enum hrf_precision precision,
                     struct hrf_cudnn_conv *conv)
{
    const bool allow_tf32 = precision == HRF_TF32;
    struct hrf_error err = { .text = "" };
    bool is_one = hrf_cudnn_conv_describe(graph, node, allow_tf32, conv);
    if (is_one && conv->has_prologue && !hrf_cudnn_conv_takes_prologue(conv))
        assert_int_equal(hrf_cuda_strips_describe(graph, node,
                                                  hrf_cuda_strip_bytes(device->memory_bytes),
                                                  allow_tf32, conv, &is_one, &err),
                         HRF_OK);
    return is_one;
}

/* Convolutions in groups have no 8-bit engine. */
static bool may_have_none(const struct hrf_cudnn_conv *conv)
{
    return conv->type == HRF_S8 && conv->w[1] != conv->x[1];
}

static void check_on(const struct hrf_graph *graph, const char *name, enum hrf_precision precision,
                     int d)
{
    const struct device *device = &devices[d];
    int count[MOST_ENGINES] = { 0 }, n = 0, n_widened = 0, n_own = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_cudnn_conv conv;
        char text[1024];
        if (!describe(device, graph, &graph->nodes[i], precision, &conv))
            continue;
        hrf_cudnn_conv_text(&conv, text, sizeof text);
        const int engine = engine_of(d, &conv, text);
        n++;
        n_widened += engine >= WIDENED;
        n_own += engine == NONE;
        if (engine == NONE && !may_have_none(&conv))
            fail_msg("%s, %s, %s: no engine for node '%s': %s", name, hrf_precision_name(precision),
                     device->name, graph->nodes[i].name, text);
        assert_true(engine % WIDENED < MOST_ENGINES);
        if (engine != NONE)
            count[engine % WIDENED]++;
    }
    printf("%-20s %-5s %-6s %4d convolutions:", name, hrf_precision_name(precision), device->name,
           n);
    for (int e = 0; e < MOST_ENGINES; e++)
        if (count[e] > 0)
            printf(" %d by engine %d,", count[e], e);
    printf(" %d by an own kernel, %d with channels widened\n", n_own, n_widened);
}

static struct hrf_graph *prepare(const struct hrf_graph *graph, const struct hrf_made_ranges *made,
                                 enum hrf_precision precision)
{
    const struct hrf_session_config config = {
        .device = "cuda", .precision = precision, .ranges = made->ranges, .n_ranges = made->n_ranges
    };
    struct hrf_graph *prepared = NULL;
    struct hrf_strbuf notes = HRF_STRBUF_INIT;
    struct hrf_error err = { .text = "" };
    double operations;
    if (hrf_session_prepare(graph, &config, &prepared, &operations, &notes, &err) != HRF_OK)
        fail_msg("%s", err.text);
    hrf_strbuf_release(&notes);
    return prepared;
}

static struct hrf_graph *make(const char *name, int64_t size, int64_t batch)
{
    struct hrf_graph *graph = NULL;
    struct hrf_error err = { .text = "" };
    if (hrf_model_make(name, 2, size, 1, &graph, &err) != HRF_OK)
        fail_msg("%s", err.text);
    struct hrf_shape shape = graph->values[graph->inputs[0]].shape;
    shape.dims[0] = batch;
    assert_int_equal(hrf_graph_set_input_shape(graph, 0, &shape, &err), HRF_OK);
    return graph;
}

/* bf16's graph is fp16's with other types: what "all" does not count on. */
static void take_bf16(struct hrf_graph *graph)
{
    for (int32_t i = 0; i < graph->n_values; i++)
        if (graph->values[i].dtype == HRF_F16)
            graph->values[i].dtype = HRF_B16;
}

static void check(const char *name)
{
    static const enum hrf_precision precisions[] = { HRF_FP32, HRF_TF32, HRF_FP16, HRF_BF16,
                                                     HRF_INT8 };
    struct hrf_made_ranges made = { .fused = NULL };
    struct hrf_graph *graph = make(name, 0, BATCH), *prepared = NULL;
    assert_int_equal(hrf_made_ranges_init(graph, &made, NULL), HRF_OK);
    for (size_t i = 0; i < sizeof precisions / sizeof precisions[0]; i++) {
        const bool is_as_before = i == 1 || (i == 3 && !walks_all); /* tf32 runs fp32's */
        if (!is_as_before) {
            hrf_graph_destroy(prepared);
            prepared = prepare(graph, &made, precisions[i]);
        }
        if (i == 3)
            take_bf16(prepared);
        for (int d = 0; d < N_DEVICES; d++)
            check_on(prepared, name, precisions[i], d);
        write_answers();
    }
    hrf_graph_destroy(prepared);
    hrf_made_ranges_release(&made);
    hrf_graph_destroy(graph);
}

static bool is_left_out(const char *name)
{
    /* amoebanet-d by another name; and products alone, 1.2 GB of them: their plans are built. */
    static const char *const never[] = { "amoebanet-d-18-416", "vit" };
    /* They consist of the convolutions of resnet18, resnet50 and resnet-v2-101-hires. */
    static const char *const deeper[] = { "resnet34", "resnet101", "resnet152",
                                          "resnet-v2-110-hires" };
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        if (strcmp(name, never[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof deeper / sizeof deeper[0]; i++)
        if (strcmp(name, deeper[i]) == 0)
            return !walks_all;
    return false;
}

static void every_convolution_has_an_engine(void **state)
{
    const char *const *names = hrf_model_names();
    (void)state;
    for (size_t i = 0; names[i] != NULL; i++)
        if (!is_left_out(names[i]))
            check(names[i]);
    int n_met = 0;
    for (int i = 0; i < n_known; i++)
        for (int d = 0; d < N_DEVICES; d++)
            n_met += is_met[i][d];
    printf(
        "%d convolutions, %d met on their devices, %d not seen before, cuDNN was asked %d times\n",
        n_known, n_met, n_new, n_asked);
}

/* ---- attention ---- */

/* Of a ViT-L/16's shape; the first engine, which must give the same bits each time. */
static int64_t attention_engine(const struct device *device, enum hrf_dtype type)
{
    enum { TOKENS = 197, HEADS = 16, DEPTH = 64, ROW = 3 * HEADS * DEPTH };
    const int64_t dims[4] = { BATCH, HEADS, TOKENS, DEPTH };
    const int64_t rows[4] = { TOKENS * ROW, DEPTH, ROW, 1 }; /* q, k and v in one product's rows */
    const int64_t dense[4] = { TOKENS * HEADS * DEPTH, DEPTH, HEADS * DEPTH, 1 };
    struct hrf_cudnn_graph g = { .graph = NULL };
    struct hrf_cudnn_engines engines = { .n_items = 0 };
    struct hrf_error err = { .text = "" };
    cudnnBackendDescriptor_t view[3];
    for (int i = 0; i < 3; i++)
        view[i] = hrf_cudnn_view(&g, i + 1, type, dims, rows);
    cudnnBackendDescriptor_t y = hrf_cudnn_view(&g, 5, type, dims, dense);
    hrf_cudnn_attend(&g, view[0], view[1], view[2], hrf_cudnn_number(&g, 4), y);
    if (hrf_cudnn_graph_finish(&g, NULL, &err) != HRF_OK ||
        hrf_cudnn_engines_add(&g, device->cudnn, HRF_CUDNN_MODE_A, &engines, &err) != HRF_OK)
        fail_msg("%s: %s", device->name, err.text);
    const int64_t engine = engines.n_items > 0 && engines.items[0].deterministic
                               ? engines.items[0].index
                               : NONE;
    hrf_cudnn_engines_release(&engines);
    hrf_cudnn_graph_release(&g);
    return engine;
}

static void attention_in_16_bits_has_an_engine(void **state)
{
    static const int64_t expected[N_DEVICES] = { 8, 9, 10 };
    (void)state;
    for (int d = 0; d < N_DEVICES; d++) {
        assert_int_equal(attention_engine(&devices[d], HRF_B16), expected[d]);
        assert_int_equal(attention_engine(&devices[d], HRF_F16), expected[d]);
    }
}

/* ---- memory ---- */

static bool is_another(const struct hrf_cudnn_engines *engines, int32_t i, int32_t n_before)
{
    for (int32_t k = 0; k < n_before; k++)
        if (engines->items[k].index == engines->items[i].index)
            return false;
    return true;
}

/* The most that one of the engines that would be timed asks for (cudnn_candidates.h); -1: there is
 * none. */
static int64_t workspace_of(const struct device *device, const struct hrf_cudnn_conv *conv)
{
    enum { FIRST = HRF_MOST_CANDIDATES - 1 };
    struct hrf_cudnn_conv wide = *conv;
    struct hrf_cudnn_graph graph;
    struct hrf_cudnn_engines engines;
    struct hrf_error err = { .text = "" };
    int64_t most = -1;
    if (hrf_cudnn_conv_choose(&wide, NULL, device->cudnn,
                              hrf_cudnn_most_workspace(device->memory_bytes), &graph, &engines,
                              &err) != HRF_OK)
        fail_msg("%s", err.text);
    for (int32_t i = 0, n = 0; i < engines.n_items && n < HRF_MOST_CANDIDATES; i++) {
        if (i >= FIRST && !is_another(&engines, i, FIRST))
            continue;
        n++;
        if (engines.items[i].workspace_bytes > most)
            most = engines.items[i].workspace_bytes;
    }
    hrf_cudnn_engines_release(&engines);
    hrf_cudnn_graph_release(&graph);
    return most;
}

/* Of a node: its engine's, and the strip that it computes at a time where none computes it as a
 * whole. */
static int64_t workspace_of_node(const struct device *device, const struct hrf_graph *graph,
                                 const struct hrf_node *node, const struct hrf_cudnn_conv *whole)
{
    const int64_t strip_bytes = hrf_cuda_strip_bytes(device->memory_bytes);
    struct hrf_cudnn_conv strip;
    bool is_one = false;
    if (!whole->has_prologue || hrf_cudnn_conv_takes_prologue(whole)) {
        const int64_t bytes = workspace_of(device, whole);
        if (bytes >= 0)
            return bytes;
    }
    assert_true(hrf_cuda_strips_help(whole, strip_bytes));
    assert_int_equal(hrf_cuda_strips_describe(graph, node, strip_bytes, whole->allow_tf32, &strip,
                                              &is_one, NULL),
                     HRF_OK);
    const int64_t bytes = workspace_of(device, &strip);
    assert_true(is_one && bytes >= 0);
    return bytes + strip.x[0] * strip.x[1] * strip.x[2] * strip.x[3] * (int64_t)sizeof(float);
}

/* Each kind of convolution once. */
static int64_t most_workspace(const struct device *device, const struct hrf_graph *graph,
                              bool allow_tf32)
{
    static char seen[1 << 16];
    int64_t most = 0;
    size_t used = 0;
    seen[0] = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_cudnn_conv conv;
        char text[1024];
        if (!hrf_cudnn_conv_describe(graph, &graph->nodes[i], allow_tf32, &conv))
            continue;
        hrf_cudnn_conv_text(&conv, text, sizeof text);
        if (strstr(seen, text) != NULL)
            continue;
        used += (size_t)snprintf(seen + used, sizeof seen - used, "%s\n", text);
        assert_true(used < sizeof seen);
        const int64_t bytes = workspace_of_node(device, graph, &graph->nodes[i], &conv);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void keeps_to_gb(int64_t size, int64_t batch, enum hrf_precision precision, double most_gb)
{
    struct hrf_made_ranges made = { .fused = NULL };
    struct hrf_graph *graph = make("resnet-v2-101-hires", size, batch);
    struct hrf_plan *plan = NULL;
    assert_int_equal(hrf_made_ranges_init(graph, &made, NULL), HRF_OK);
    struct hrf_graph *prepared = prepare(graph, &made, precision);
    assert_int_equal(hrf_plan_create(prepared, NULL, &plan, NULL), HRF_OK);
    const double arena = (double)plan->arena_bytes * 1e-9;
    const double workspace = (double)most_workspace(&devices[1], prepared, false) * 1e-9;
    const double pixels = 2.0 * 3e-9 * (double)(batch * size * size); /* two batches land */
    printf("resnet-v2-101-hires, %d px, batch %d, %s on %s: activations %.2f GB, workspace %.2f, "
           "pixels %.2f\n",
           (int)size, (int)batch, hrf_precision_name(precision), devices[1].name, arena, workspace,
           pixels);
    assert_true(arena + workspace + pixels < most_gb);
    hrf_plan_destroy(plan);
    hrf_graph_destroy(prepared);
    hrf_made_ranges_release(&made);
    hrf_graph_destroy(graph);
}

static void the_high_resolution_network_keeps_to_its_memory(void **state)
{
    (void)state;
    keeps_to_gb(8192, 1, HRF_FP32, 35);
    keeps_to_gb(8192, 1, HRF_BF16, 18);
    keeps_to_gb(256, 64, HRF_INT8, 1);
}

/* ---- gradients of convolutions ---- */

/* A convolution of ResNet-50 or a depth-wise one, on images of 224 px, batch 32. */
struct kind {
    int64_t channels, out_channels, size, window, stride, group;
};

static struct hrf_cudnn_conv gradient_of(const struct kind *k, enum hrf_cudnn_result gives,
                                         enum hrf_precision precision)
{
    const int64_t pad = k->window / 2, out = (k->size + 2 * pad - k->window) / k->stride + 1;
    struct hrf_cudnn_conv c = { .gives = gives,
                                .type = precision == HRF_BF16   ? HRF_B16
                                        : precision == HRF_FP16 ? HRF_F16
                                                                : HRF_F32,
                                .x = { 32, k->channels, k->size, k->size },
                                .w = { k->out_channels, k->channels / k->group, k->window,
                                       k->window },
                                .y = { 32, k->out_channels, out, out },
                                .allow_tf32 = precision == HRF_TF32 };
    c.out_type = gives == HRF_CUDNN_GIVES_W ? HRF_F32 : c.type;
    for (int i = 0; i < 2; i++) {
        c.window.stride[i] = k->stride;
        c.window.dilation[i] = 1;
        c.window.pad_begin[i] = c.window.pad_end[i] = pad;
    }
    return c;
}

/* Of 16 bits, engines give float32 of whole groups of channels alone: an own kernel does these. */
static bool has_own_kernel(const struct kind *k, const struct hrf_cudnn_conv *c)
{
    return c->gives == HRF_CUDNN_GIVES_W && c->type != HRF_F32 &&
           (k->channels % 8 != 0 || k->group > 1);
}

static void gradients_of_convolutions_have_engines(void **state)
{
    static const struct kind kinds[] = { { 3, 64, 224, 7, 2, 1 },   { 64, 64, 56, 3, 1, 1 },
                                         { 128, 128, 56, 3, 2, 1 }, { 256, 64, 56, 1, 1, 1 },
                                         { 256, 512, 56, 1, 2, 1 }, { 96, 96, 56, 3, 1, 96 } };
    static const enum hrf_precision precisions[] = { HRF_FP32, HRF_TF32, HRF_FP16, HRF_BF16 };
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        for (int p = 0; p < 4; p++)
            for (int to_w = 0; to_w < 2; to_w++) {
                const struct hrf_cudnn_conv c = gradient_of(
                    &kinds[i], to_w ? HRF_CUDNN_GIVES_W : HRF_CUDNN_GIVES_X, precisions[p]);
                const int engine = ask(&devices[1], &c);
                printf("%d x %d of %d channels, to %s, %s: engine %d\n", (int)kinds[i].window,
                       (int)kinds[i].window, (int)kinds[i].channels, to_w ? "w" : "x",
                       hrf_precision_name(precisions[p]), engine);
                assert_int_equal(engine == NONE, has_own_kernel(&kinds[i], &c));
            }
}

int main(int argc, char **argv)
{
    walks_all = argc > 1 && strcmp(argv[1], "all") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_high_resolution_network_keeps_to_its_memory),
        cmocka_unit_test(attention_in_16_bits_has_an_engine),
        cmocka_unit_test(gradients_of_convolutions_have_engines),
        cmocka_unit_test(every_convolution_has_an_engine),
    };
    return cmocka_run_group_tests(tests, read_devices, forget_devices);
}
