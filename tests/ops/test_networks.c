/* Every built-in network in every precision, at the smallest size that it takes: in INT8 the
 * processor's kernels give the bits of the integer reference; the other precisions stay near what
 * float32 gives. And what INT8 is for: a quarter of the memory. */

#include "engine/model/model.h"
#include "engine/passes/lower.h"
#include "engine/passes/passes.h"
#include "engine/plan/plan.h"
#include "tests/ops/build.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hrf_graph *make(const char *name, int64_t size, int64_t batch)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_graph *graph = NULL;
    const struct hrf_shape shape = SHAPE(batch, 3, size, size);
    if (hrf_model_make(name, 10, size, 1, &graph, &err) != HRF_OK ||
        hrf_graph_set_input_shape(graph, 0, &shape, &err) != HRF_OK ||
        hrf_graph_infer_shapes(graph, &err) != HRF_OK)
        fail_msg("%s: %s", name, err.text);
    return graph;
}

/* Names as `model make` has them; narrower ones of a family stand for the family: AlexNet and
 * VGG-19 take nothing below 224 px. Of HCT, 127 px leave attention 4 x 4, 2 x 2 and one token: over
 * a single token it is the identity, whatever its kernel. */
static const struct network {
    const char *name;
    int64_t size;
    bool is_exact;  /* in INT8: nothing that stays in float32 sums in another order */
    bool is_deeper; /* than another that consists of the same layers: computed once, with all
                       instructions */
} networks[] = {
    { "resnet18", 32, true, false },
    { "resnet50", 32, true, false },
    { "resnet101", 32, true, true },
    { "resnet152", 32, true, true },
    { "resnet:1,16", 32, true, false },
    { "resnet-v2-101-hires", 32, true, false },
    { "vgg19:4,64", 224, true, false },
    { "alexnet:8,64", 224, true, false },
    { "googlenet", 32, true, false },
    { "inception-v3", 75, true, false },
    { "amoebanet-d:3,64", 33, true, false },
    { "unet:3,8", 32, true, false },
    { "hct", 127, false, false },
    { "hct-softmax", 127, false, false },
    { "vit:2,128", 64, false, false },
};

static void check(const struct network *network)
{
    static const struct {
        enum hrf_precision precision;
        double limit; /* of the largest result apart from float32 */
    } precisions[] = { { HRF_FP16, 0.005 }, { HRF_BF16, 0.04 }, { HRF_INT8, 0.1 } };
    HRF_AUTO(hrf_graph) graph = make(network->name, network->size, 1);
    int64_t n;
    HRF_AUTO_FREE float *full = run_graph(graph, "cpu", 2, 5, 1, &n);
    for (int i = 0; i < 3; i++) {
        HRF_AUTO_FREE float *got = run_graph_in(graph, "cpu", precisions[i].precision, 2, 5, 1, &n,
                                                NULL);
        const double apart = relative_difference(got, full, n);
        printf("%-20s %-5s %.1e of the largest result apart\n", network->name,
               hrf_precision_name(precisions[i].precision), apart);
        if (!(apart <= precisions[i].limit))
            fail_msg("%s in %s: %g apart", network->name,
                     hrf_precision_name(precisions[i].precision), apart);
        if (i < 2)
            continue;
        HRF_AUTO_FREE float *truth = run_graph_in(graph, "ref", HRF_INT8, 2, 5, 1, &n, NULL);
        if (network->is_exact && memcmp(got, truth, (size_t)n * sizeof *got) != 0)
            fail_msg("%s: INT8 has other bits than the reference, %g apart", network->name,
                     relative_difference(got, truth, n));
        assert_true(relative_difference(got, truth, n) <= precisions[i].limit);
    }
}

/* True if the processor is to do with fewer instructions than it has (CMakeLists.txt). */
static bool is_lesser_processor(void)
{
    return getenv("ONEDNN_MAX_CPU_ISA") != NULL;
}

static void every_network_runs_in_every_precision(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++)
        if (!(networks[i].is_deeper && is_lesser_processor()))
            check(&networks[i]);
}

/* A processor without 16-bit floats widens a few images at a time: here 6 in two groups or more. */
static void every_image_of_a_large_batch_is_computed(void **state)
{
    (void)state;
    static const enum hrf_precision precisions[] = { HRF_FP16, HRF_BF16 };
    static const double limits[] = { 0.005, 0.04 };
    HRF_AUTO(hrf_graph) graph = make("unet:3,8", 128, 6);
    int64_t n;
    HRF_AUTO_FREE float *full = run_graph(graph, "cpu", 2, 5, 1, &n);
    for (int i = 0; i < 2; i++) {
        HRF_AUTO_FREE float *got = run_graph_in(graph, "cpu", precisions[i], 2, 5, 1, &n, NULL);
        for (int64_t image = 0; image < 6; image++)
            assert_true(relative_difference(got + image * n / 6, full + image * n / 6, n / 6) <=
                        limits[i]);
    }
}

/* Bytes of the plan's buffers, and of the constants. */
static void measure(const struct hrf_graph *graph, int64_t *activations, int64_t *weights)
{
    HRF_AUTO(hrf_plan) plan = NULL;
    assert_int_equal(hrf_plan_create(graph, NULL, &plan, NULL), HRF_OK);
    *activations = plan->arena_bytes;
    *weights = 0;
    for (int32_t i = 0; i < graph->n_values; i++)
        if (graph->values[i].data != NULL)
            *weights += hrf_shape_count(&graph->values[i].shape) *
                        (int64_t)hrf_dtype_size(graph->values[i].dtype);
}

static struct hrf_graph *lower_to_int8(const struct hrf_graph *fused)
{
    struct hrf_graph *low = NULL;
    HRF_AUTO_FREE struct hrf_range *ranges = hrf_calloc((size_t)fused->n_values, sizeof *ranges);
    assert_non_null(ranges);
    for (int32_t i = 0; i < fused->n_values; i++)
        ranges[i] = (struct hrf_range){ .value = fused->values[i].name, .low = -4, .high = 4 };
    const struct hrf_lowering how = { .type = HRF_S8,
                                      .ranges = ranges,
                                      .n_ranges = fused->n_values };
    assert_int_equal(hrf_pass_lower(fused, &how, &low, NULL, NULL), HRF_OK);
    return low;
}

/* ResNet-101 at 256 px. PyTorch's peak at batch 64 was 12.48 GB in the paper's system. */
static void int8_takes_a_quarter_of_the_memory(void **state)
{
    (void)state;
    if (is_lesser_processor())
        skip(); /* the plan's bytes do not depend on it */
    static const int64_t batches[] = { 8, 64 };
    const double float_limit = 0.7e9; /* activations at batch 64 */
    for (int i = 0; i < 2; i++) {
        int64_t full, full_weights, low, low_weights;
        HRF_AUTO(hrf_graph) graph = make("resnet101", 256, batches[i]);
        assert_int_equal(hrf_passes_run(graph, NULL), HRF_OK);
        HRF_AUTO(hrf_graph) lowered = lower_to_int8(graph);
        measure(graph, &full, &full_weights);
        measure(lowered, &low, &low_weights);
        printf("resnet101 256 px, batch %d: float32 %.1f + %.1f MB, int8 %.1f + %.1f MB\n",
               (int)batches[i], (double)full * 1e-6, (double)full_weights * 1e-6,
               (double)low * 1e-6, (double)low_weights * 1e-6);
        assert_true((double)full <= float_limit);
        assert_true(full >= 4 * low);
        /* A scale for each output channel, beside its bias, keeps the weights from a full quarter.
         */
        assert_true((double)(full + full_weights) >= 3.95 * (double)(low + low_weights));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(int8_takes_a_quarter_of_the_memory),
        cmocka_unit_test(every_image_of_a_large_batch_is_computed),
        cmocka_unit_test(every_network_runs_in_every_precision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
