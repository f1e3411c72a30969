/* The own 8-bit 3x3 convolution against the integer reference, byte for byte: every type, zero
 * point, residual and activation, sizes that fill no tile, numbers as large as there are. */

#include "engine/backend/cpu/cpu.h"
#include "engine/backend/cpu/cpu_private.h"
#include "tests/unit/engine/backend/cpu/integer_layer.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

struct layer {
    int64_t n, channels, rows, columns, out_channels;
    int64_t pad[4]; /* top, left, bottom, right */
    enum hrf_dtype x, y;
    int32_t x_zero, y_zero;
    enum hrf_dtype residual; /* NONE: none */
    enum hrf_activation activation;
    int32_t largest; /* weight; all are that large when it is 127 */
};

static int32_t add_weights(struct hrf_graph *graph, const struct layer *l,
                           struct hrf_random *random)
{
    const int64_t n = l->out_channels * l->channels * 9;
    HRF_AUTO_FREE int8_t *w = hrf_alloc_array((size_t)n, 1);
    assert_non_null(w);
    for (int64_t i = 0; i < n; i++) {
        const int32_t any = (int32_t)hrf_random_below(random, (uint64_t)(2 * l->largest + 1));
        w[i] = (int8_t)(l->largest == 127 ? 127 : any - l->largest);
    }
    return add_quantized(graph, "w", HRF_S8, SHAPE(l->out_channels, l->channels, 3, 3), w, 0, 0);
}

static struct hrf_graph *make(const struct layer *l, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    struct hrf_graph *graph = NULL;
    struct hrf_attributes a = hrf_attributes_default();
    const struct hrf_shape y = SHAPE(l->n, l->out_channels, l->rows + l->pad[0] + l->pad[2] - 2,
                                     l->columns + l->pad[1] + l->pad[3] - 2);
    must(hrf_graph_create("layer", &graph, &err));
    int32_t inputs[HRF_CONV_SCALES + 1];
    inputs[HRF_CONV_X] = add_quantized(
        graph, "x", l->x, SHAPE(l->n, l->channels, l->rows, l->columns), NULL, 0.02f, l->x_zero);
    inputs[HRF_CONV_WEIGHTS] = add_weights(graph, l, &random);
    inputs[HRF_CONV_BIAS] = add_floats(graph, "b", l->out_channels, -1, 1, &random);
    inputs[HRF_CONV_RESIDUAL] = HRF_NO_VALUE;
    if (l->residual != HRF_DTYPE_NONE)
        inputs[HRF_CONV_RESIDUAL] = add_quantized(graph, "r", l->residual, y, NULL, 0.013f, 0);
    /* So that results fill the range, and some of them overshoot it. */
    const double typical = 2.0 / ((double)l->largest * (double)l->channels);
    inputs[HRF_CONV_SCALES] = add_floats(graph, "s", l->out_channels, typical / 2, typical,
                                         &random);
    a.window.kernel[0] = a.window.kernel[1] = 3;
    for (int i = 0; i < 2; i++) {
        a.window.pad_begin[i] = l->pad[i];
        a.window.pad_end[i] = l->pad[2 + i];
    }
    a.activation = l->activation;
    a.activation_min = -0.3f;
    a.activation_max = 0.9f;
    a.alpha = 0.1f;
    const int32_t output = add_quantized(graph, "y", l->y, y, NULL, 0.017f, l->y_zero);
    must(hrf_graph_add_node(graph, HRF_OP_CONV, "conv", inputs, HRF_CONV_SCALES + 1, &output, 1, &a,
                            &err));
    return graph;
}

static uint8_t *random_bytes(const struct hrf_value *value, uint64_t seed, bool all_largest)
{
    const int64_t n = hrf_shape_count(&value->shape);
    struct hrf_random random = hrf_random_init(seed);
    uint8_t *x = hrf_alloc_aligned((size_t)n, HRF_BUFFER_ALIGNMENT);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (uint8_t)(all_largest ? (value->dtype == HRF_S8 ? 0x80 : 0xff)
                                     : hrf_random_below(&random, 256));
    return x;
}

/* The results; heap. With `in_place` the residual lies where they go. */
static uint8_t *run_kernel(const struct hrf_graph *graph, struct hrf_kernel *kernel, bool in_place,
                           bool all_largest, int64_t *n)
{
    const struct hrf_node *node = &graph->nodes[0];
    HRF_AUTO_FREE uint8_t *x = random_bytes(&graph->values[node->inputs[HRF_CONV_X]], 1,
                                            all_largest);
    const bool has_residual = node->inputs[HRF_CONV_RESIDUAL] >= 0;
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    HRF_AUTO_FREE uint8_t *residual = random_bytes(
        has_residual ? &graph->values[node->inputs[HRF_CONV_RESIDUAL]] : y, 2, false);
    HRF_AUTO_FREE void *workspace = hrf_alloc_aligned(kernel->workspace_bytes + 1,
                                                      HRF_BUFFER_ALIGNMENT);
    *n = hrf_shape_count(&y->shape);
    uint8_t *out = hrf_alloc_aligned((size_t)*n, HRF_BUFFER_ALIGNMENT);
    assert_true(out != NULL && workspace != NULL);
    memcpy(out, residual, (size_t)*n);
    const void *inputs[HRF_CONV_SCALES + 1] = { NULL };
    inputs[HRF_CONV_X] = x;
    if (has_residual)
        inputs[HRF_CONV_RESIDUAL] = in_place ? out : residual;
    const struct hrf_kernel_call call = { .inputs = inputs, .output = out, .workspace = workspace };
    must(kernel->run(kernel, &call, &err));
    return out;
}

static void check(const struct layer *l, int32_t n_threads, bool in_place)
{
    const struct hrf_backend_config config = { .n_threads = n_threads };
    HRF_AUTO(hrf_graph) graph = make(l, (uint64_t)(l->channels * 131 + l->out_channels));
    const struct hrf_node *node = &graph->nodes[0];
    struct hrf_backend *backend = NULL;
    struct hrf_kernel *own = NULL, *truth = NULL;
    int64_t n;
    must(hrf_backend_cpu.create(&config, &backend, &err));
    hrf_backend_cpu.enter(backend);
    must(hrf_cpu_integer_winograd.compile(&hrf_cpu_integer_winograd, backend, graph, node, &own,
                                          &err));
    must(hrf_integer_compile(NULL, NULL, graph, node, &truth, &err));
    HRF_AUTO_FREE uint8_t *got = run_kernel(graph, own, in_place, l->largest == 127, &n);
    HRF_AUTO_FREE uint8_t *want = run_kernel(graph, truth, false, l->largest == 127, &n);
    int64_t n_wrong = 0;
    for (int64_t i = 0; i < n; i++)
        n_wrong += got[i] != want[i];
    if (n_wrong > 0)
        fail_msg("%lld of %lld bytes differ: %lldx%lldx%lldx%lld to %lld channels",
                 (long long)n_wrong, (long long)n, (long long)l->n, (long long)l->channels,
                 (long long)l->rows, (long long)l->columns, (long long)l->out_channels);
    hrf_kernel_destroy(own);
    hrf_kernel_destroy(truth);
    hrf_backend_cpu.destroy(backend);
}

static const struct layer layers[] = {
    { 1, 16, 4, 4, 16, { 1, 1, 1, 1 }, HRF_U8, HRF_U8, 0, 0, HRF_DTYPE_NONE, HRF_ACT_RELU, 60 },
    { 2, 32, 9, 13, 64, { 1, 1, 1, 1 }, HRF_U8, HRF_U8, 0, 0, HRF_DTYPE_NONE, HRF_ACT_RELU, 40 },
    { 3, 48, 5, 30, 33, { 0, 0, 0, 0 }, HRF_S8, HRF_S8, 0, 0, HRF_DTYPE_NONE, HRF_ACT_NONE, 90 },
    { 1, 80, 21, 6, 96, { 2, 0, 1, 1 }, HRF_S8, HRF_U8, 0, 0, HRF_U8, HRF_ACT_RELU, 30 },
    { 2, 64, 17, 17, 64, { 1, 1, 1, 1 }, HRF_U8, HRF_S8, 0, 0, HRF_S8, HRF_ACT_NONE, 50 },
    { 1, 16, 12, 12, 7, { 1, 1, 1, 1 }, HRF_U8, HRF_U8, 131, 77, HRF_DTYPE_NONE, HRF_ACT_CLIP, 70 },
    { 1, 32, 8, 8, 40, { 1, 1, 1, 1 }, HRF_S8, HRF_S8, -128, 5, HRF_U8, HRF_ACT_LEAKY_RELU, 70 },
    { 1, 112, 6, 6, 32, { 1, 1, 1, 1 }, HRF_U8, HRF_S8, 0, 0, HRF_DTYPE_NONE, HRF_ACT_NONE, 127 },
    { 1, 112, 6, 6, 32, { 1, 1, 1, 1 }, HRF_S8, HRF_S8, 127, 0, HRF_DTYPE_NONE, HRF_ACT_NONE, 127 },
    /* More tiles than are transformed at a time. */
    { 1, 256, 60, 60, 32, { 1, 1, 1, 1 }, HRF_U8, HRF_U8, 0, 0, HRF_DTYPE_NONE, HRF_ACT_RELU, 20 },
};

static bool has_vnni(void)
{
    const bool has = hrf_cpu_has_avx512_vnni() && !hrf_cpu_has_amx();
    if (!has)
        print_message("this processor has no AVX-512 VNNI (or better): oneDNN or loops run here\n");
    return has;
}

static void results_are_those_of_the_integer_reference(void **state)
{
    (void)state;
    if (!has_vnni())
        skip();
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        check(&layers[i], 1, false);
        check(&layers[i], 2, true);
        if (i < 4)
            check(&layers[i], 3, false); /* panels do not divide evenly */
    }
}

/* With 128 channels and every weight at its end, a sum may lie beyond what comes out right. */
static void weights_that_are_too_large_together_are_left_to_others(void **state)
{
    (void)state;
    if (!has_vnni())
        skip();
    struct layer l = {
        8, 128, 32, 32, 128, { 1, 1, 1, 1 }, HRF_U8, HRF_U8, 0, 0, HRF_DTYPE_NONE, HRF_ACT_RELU, 100
    };
    HRF_AUTO(hrf_graph) usual = make(&l, 1);
    assert_null(hrf_cpu_integer_winograd.misfit(usual, &usual->nodes[0]));
    l.largest = 127;
    HRF_AUTO(hrf_graph) large = make(&l, 1);
    assert_non_null(hrf_cpu_integer_winograd.misfit(large, &large->nodes[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_the_integer_reference),
        cmocka_unit_test(weights_that_are_too_large_together_are_left_to_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
