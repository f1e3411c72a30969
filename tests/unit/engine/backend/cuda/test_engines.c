/* Every convolution of every built-in network, in every precision, on the two devices whose
 * properties stand beside this file: which of cuDNN's engines would run it. No GPU takes part:
 * cuDNN plans for a device that it is told of. Prints the table; one without an engine fails, but
 * for the few kinds that are known to have none and that an own kernel runs. */
#include "tests/unit/unit.h"

#include "base/hash.h"
#include "base/path.h"
#include "engine/backend/cuda/conv_strips.h"
#include "engine/backend/cuda/cudnn_choose.h"
#include "engine/model/model.h"
#include "engine/run/made_ranges.h"
#include "engine/run/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t MEMORY = 80000000000; /* both have as much or more */
enum { MOST_KNOWN = 4000, MOST_ENGINES = 128, BATCH = 64 };

/* What was answered before, by the convolution's text. */
struct answer {
    char hash[HRF_HASH_HEX];
    int64_t engine; /* -1: none */
    bool is_widened;
};
struct device {
    const char *file, *name;
    struct hrf_cudnn_device *cudnn;
    struct answer *known;
    int n_known;
};
static struct device devices[] = { { "a100.json", "sm_80", NULL, NULL, 0 },
                                   { "h200.json", "sm_90", NULL, NULL, 0 } };

static int read_devices(void **state)
{
    (void)state;
    const char *source = getenv("HRF_SOURCE_DIR");
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        char *json = NULL, path[4096];
        size_t n_bytes;
        struct hrf_error err = { .text = "" };
        snprintf(path, sizeof path, "%s/tests/unit/engine/backend/cuda/%s",
                 source != NULL ? source : ".", devices[i].file);
        if (hrf_file_read(path, 1 << 16, &json, &n_bytes, &err) != HRF_OK ||
            hrf_cudnn_device_parse(json, &devices[i].cudnn, &err) != HRF_OK) {
            fprintf(stderr, "%s\n", err.text);
            return -1;
        }
        hrf_free(json);
        devices[i].known = hrf_calloc(MOST_KNOWN, sizeof *devices[i].known);
        if (devices[i].known == NULL)
            return -1;
    }
    return 0;
}

static int forget_devices(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        hrf_cudnn_device_destroy(devices[i].cudnn);
        hrf_free(devices[i].known);
    }
    return 0;
}

static const struct answer *ask(struct device *device, const struct hrf_cudnn_conv *conv)
{
    char text[1024];
    struct answer *answer = &device->known[device->n_known];
    struct hrf_cudnn_conv wide = *conv;
    struct hrf_cudnn_graph graph;
    struct hrf_cudnn_engines engines;
    struct hrf_error err = { .text = "" };
    assert_true(device->n_known < MOST_KNOWN);
    hrf_cudnn_conv_text(conv, text, sizeof text);
    assert_int_equal(hrf_hash_buffer(text, strlen(text), answer->hash, &err), HRF_OK);
    for (int i = 0; i < device->n_known; i++)
        if (strcmp(device->known[i].hash, answer->hash) == 0)
            return &device->known[i];
    if (hrf_cudnn_conv_choose(&wide, device->cudnn, &graph, &engines, &err) != HRF_OK)
        fail_msg("%s: %s", text, err.text);
    answer->engine = engines.n_items > 0 ? engines.items[0].index : -1;
    answer->is_widened = wide.x[1] != conv->x[1] || wide.y[1] != conv->y[1];
    hrf_cudnn_engines_release(&engines);
    hrf_cudnn_graph_release(&graph);
    device->n_known++;
    return answer;
}

/* As the back end describes it: where engines know no prologue, a strip of its image. */
static bool describe(const struct hrf_graph *graph, const struct hrf_node *node, bool allow_tf32,
                     struct hrf_cudnn_conv *conv)
{
    struct hrf_error err = { .text = "" };
    bool is_one = hrf_cudnn_conv_describe(graph, node, allow_tf32, conv);
    if (is_one && conv->has_prologue && !hrf_cudnn_conv_takes_prologue(conv))
        assert_int_equal(hrf_cuda_strips_describe(graph, node, hrf_cuda_strip_bytes(MEMORY),
                                                  allow_tf32, conv, &is_one, &err),
                         HRF_OK);
    return is_one;
}

/* Convolutions in groups have no 8-bit engine. */
static bool may_have_none(const struct hrf_cudnn_conv *conv)
{
    return conv->type == HRF_S8 && conv->w[1] != conv->x[1];
}

static void check_network(const struct hrf_graph *graph, const char *name, const char *precision,
                          struct device *device)
{
    int count[MOST_ENGINES] = { 0 }, n = 0, n_widened = 0, n_own = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_cudnn_conv conv;
        char text[1024];
        if (!describe(graph, &graph->nodes[i], strcmp(precision, "tf32") == 0, &conv))
            continue;
        const struct answer *answer = ask(device, &conv);
        n++;
        n_widened += answer->is_widened;
        n_own += answer->engine < 0;
        hrf_cudnn_conv_text(&conv, text, sizeof text);
        if (answer->engine < 0 && !may_have_none(&conv))
            fail_msg("%s, %s, %s: no engine for node '%s': %s", name, precision, device->name,
                     graph->nodes[i].name, text);
        if (answer->engine >= 0) {
            assert_true(answer->engine < MOST_ENGINES);
            count[answer->engine]++;
        }
    }
    printf("%-20s %-5s %s %4d convolutions:", name, precision, device->name, n);
    for (int e = 0; e < MOST_ENGINES; e++)
        if (count[e] > 0)
            printf(" %d by engine %d,", count[e], e);
    printf(" %d by an own kernel, %d with channels widened\n", n_own, n_widened);
}

static void check(const char *name, const char *precision)
{
    struct hrf_graph *graph = NULL, *prepared = NULL;
    struct hrf_made_ranges made = { .fused = NULL };
    struct hrf_strbuf notes = HRF_STRBUF_INIT;
    struct hrf_error err = { .text = "" };
    double operations;
    if (hrf_model_make(name, 2, 0, 1, &graph, &err) != HRF_OK)
        fail_msg("%s", err.text);
    struct hrf_shape shape = graph->values[graph->inputs[0]].shape;
    shape.dims[0] = BATCH;
    assert_int_equal(hrf_graph_set_input_shape(graph, 0, &shape, &err), HRF_OK);
    assert_int_equal(hrf_made_ranges_init(graph, &made, &err), HRF_OK);
    const struct hrf_session_config config = {
        .device = "cuda", .precision = precision, .ranges = made.ranges, .n_ranges = made.n_ranges
    };
    if (hrf_session_prepare(graph, &config, &prepared, &operations, &notes, &err) != HRF_OK)
        fail_msg("%s: %s", name, err.text);
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        check_network(prepared, name, precision, &devices[i]);
    hrf_strbuf_release(&notes);
    hrf_made_ranges_release(&made);
    hrf_graph_destroy(prepared);
    hrf_graph_destroy(graph);
}

static bool walks_all;

static void every_convolution_has_an_engine(void **state)
{
    static const char *const precisions[] = { "fp32", "tf32", "fp16", "bf16", "int8" };
    static const char *const few[] = { "resnet50", "resnet-v2-101-hires", "unet", NULL };
    const char *const *names = walks_all ? hrf_model_names() : few;
    (void)state;
    for (size_t i = 0; names[i] != NULL; i++)
        for (size_t k = 0; k < sizeof precisions / sizeof precisions[0]; k++)
            check(names[i], precisions[k]);
}

/* "all": every network, which takes minutes; else one of each family. */
int main(int argc, char **argv)
{
    walks_all = argc > 1 && strcmp(argv[1], "all") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_convolution_has_an_engine),
    };
    return cmocka_run_group_tests(tests, read_devices, forget_devices);
}
