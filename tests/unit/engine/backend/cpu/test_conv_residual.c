/* 8-bit convolutions and matrix products with a residual, their results float32 or 8 bits: the
 * fast kernels against the integer reference, bit for bit: every type, zero point and activation,
 * windows, strides, groups. */

#include "engine/backend/cpu/cpu.h"
#include "engine/backend/cpu/cpu_private.h"
#include "tests/unit/engine/backend/cpu/integer_layer.h"
#include "tests/unit/unit.h"

#include <string.h>

struct layer {
    int64_t n, channels, size, out_channels; /* size 0: a matrix product */
    int64_t kernel, stride, group;
    enum hrf_dtype x, residual;
    int32_t x_zero, residual_zero;
    float residual_scale;
    enum hrf_activation activation;
};

static int32_t add_bytes(struct hrf_graph *graph, struct hrf_shape shape, struct hrf_random *random)
{
    const int64_t n = hrf_shape_count(&shape);
    HRF_AUTO_FREE int8_t *w = hrf_alloc_array((size_t)n, 1);
    assert_non_null(w);
    for (int64_t i = 0; i < n; i++)
        w[i] = (int8_t)((int32_t)hrf_random_below(random, 255) - 127);
    return add_quantized(graph, "w", HRF_S8, shape, w, 0, 0);
}

static struct hrf_attributes attributes_of(const struct layer *l)
{
    struct hrf_attributes a = hrf_attributes_default();
    if (l->size > 0) {
        a.group = l->group;
        for (int i = 0; i < 2; i++) {
            a.window.kernel[i] = l->kernel;
            a.window.stride[i] = l->stride;
            a.window.pad_begin[i] = a.window.pad_end[i] = l->kernel / 2;
        }
    } else {
        a.gemm.transpose_b = true;
    }
    a.activation = l->activation;
    a.activation_min = -0.3f;
    a.activation_max = 0.9f;
    a.alpha = 0.1f;
    return a;
}

static struct hrf_graph *make(const struct layer *l, enum hrf_dtype type, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    struct hrf_graph *graph = NULL;
    const struct hrf_attributes a = attributes_of(l);
    const bool is_conv = l->size > 0;
    const int64_t terms = l->channels / l->group;
    const int64_t side = is_conv ? (l->size + 2 * (l->kernel / 2) - l->kernel) / l->stride + 1 : 0;
    const struct hrf_shape x = is_conv ? SHAPE(l->n, l->channels, l->size, l->size)
                                       : SHAPE(l->n, l->channels);
    const struct hrf_shape y = is_conv ? SHAPE(l->n, l->out_channels, side, side)
                                       : SHAPE(l->n, l->out_channels);
    const struct hrf_shape w = is_conv ? SHAPE(l->out_channels, terms, l->kernel, l->kernel)
                                       : SHAPE(l->out_channels, terms);
    int32_t inputs[HRF_CONV_SCALES + 1];
    must(hrf_graph_create("layer", &graph, &err));
    inputs[HRF_CONV_X] = add_quantized(graph, "x", l->x, x, NULL, 0.02f, l->x_zero);
    inputs[HRF_CONV_WEIGHTS] = add_bytes(graph, w, &random);
    inputs[HRF_CONV_BIAS] = add_floats(graph, "b", l->out_channels, -1, 1, &random);
    inputs[HRF_CONV_RESIDUAL] = add_quantized(graph, "r", l->residual, y, NULL, l->residual_scale,
                                              l->residual_zero);
    inputs[HRF_CONV_SCALES] = add_floats(graph, "s", l->out_channels, 0.001, 0.002, &random);
    const int32_t output = add_quantized(graph, "y", type, y, NULL, type == HRF_F32 ? 0 : 0.017f,
                                         type == HRF_U8 ? 5 : 0);
    must(hrf_graph_add_node(graph, is_conv ? HRF_OP_CONV : HRF_OP_GEMM, "layer", inputs,
                            HRF_CONV_SCALES + 1, &output, 1, &a, &err));
    return graph;
}

static uint8_t *random_bytes(const struct hrf_value *value, uint64_t seed)
{
    const int64_t n = hrf_shape_count(&value->shape);
    struct hrf_random random = hrf_random_init(seed);
    uint8_t *x = hrf_alloc_aligned((size_t)n, HRF_BUFFER_ALIGNMENT);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (uint8_t)hrf_random_below(&random, 256);
    return x;
}

/* The results; heap. */
static uint8_t *run_kernel(const struct hrf_graph *graph, struct hrf_kernel *kernel,
                           size_t *n_bytes)
{
    const struct hrf_node *node = &graph->nodes[0];
    HRF_AUTO_FREE uint8_t *x = random_bytes(&graph->values[node->inputs[HRF_CONV_X]], 1);
    HRF_AUTO_FREE uint8_t *r = random_bytes(&graph->values[node->inputs[HRF_CONV_RESIDUAL]], 2);
    HRF_AUTO_FREE void *workspace = hrf_alloc_aligned(kernel->workspace_bytes + 1,
                                                      HRF_BUFFER_ALIGNMENT);
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    *n_bytes = (size_t)hrf_shape_count(&y->shape) * hrf_dtype_size(y->dtype);
    uint8_t *out = hrf_alloc_aligned(*n_bytes, HRF_BUFFER_ALIGNMENT);
    assert_true(out != NULL && workspace != NULL);
    memset(out, 0xff, *n_bytes); /* NaNs */
    const void *inputs[HRF_CONV_SCALES + 1] = { [HRF_CONV_X] = x, [HRF_CONV_RESIDUAL] = r };
    const struct hrf_kernel_call call = { .inputs = inputs, .output = out, .workspace = workspace };
    must(kernel->run(kernel, &call, &err));
    return out;
}

static void check(const struct layer *l, enum hrf_dtype type, int32_t n_threads)
{
    const struct hrf_backend_config config = { .n_threads = n_threads };
    HRF_AUTO(hrf_graph) graph = make(l, type, (uint64_t)(l->channels * 131 + l->out_channels));
    struct hrf_backend *backend = NULL;
    struct hrf_kernel *fast = NULL, *truth = NULL;
    size_t n_bytes;
    must(hrf_backend_cpu.create(&config, &backend, &err));
    hrf_backend_cpu.enter(backend);
    must(hrf_backend_compile(&hrf_backend_cpu, backend, graph, &graph->nodes[0], &fast, &err));
    must(hrf_integer_compile(NULL, NULL, graph, &graph->nodes[0], &truth, &err));
    HRF_AUTO_FREE uint8_t *got = run_kernel(graph, fast, &n_bytes);
    HRF_AUTO_FREE uint8_t *want = run_kernel(graph, truth, &n_bytes);
    size_t n_wrong = 0;
    for (size_t i = 0; i < n_bytes; i++)
        n_wrong += got[i] != want[i];
    const bool is_slow = strcmp(fast->implementation, "integer") == 0;
    if (n_wrong > 0 || is_slow)
        fail_msg("%lld channels of %lld pixels to %lld, kernel %lld, group %lld by '%s': %zu of "
                 "%zu bytes differ",
                 (long long)l->channels, (long long)l->size, (long long)l->out_channels,
                 (long long)l->kernel, (long long)l->group, fast->implementation, n_wrong, n_bytes);
    if (strncmp(fast->implementation, "brgconv:avx512_core_amx", 23) == 0)
        fail_msg("'%s' reads beside an array while it is made (conv.c)", fast->implementation);
    hrf_kernel_destroy(fast);
    hrf_kernel_destroy(truth);
    hrf_backend_cpu.destroy(backend);
}

static const struct layer layers[] = {
    { 1, 64, 7, 256, 1, 1, 1, HRF_U8, HRF_U8, 0, 0, 0.013f, HRF_ACT_RELU },
    { 2, 64, 9, 64, 3, 1, 1, HRF_U8, HRF_S8, 0, 0, 0.013f, HRF_ACT_NONE },
    { 1, 32, 9, 48, 3, 2, 1, HRF_S8, HRF_U8, 0, 131, 0.013f, HRF_ACT_CLIP },
    { 2, 17, 6, 5, 1, 1, 1, HRF_S8, HRF_S8, -128, 5, 0.7f, HRF_ACT_LEAKY_RELU },
    { 1, 3, 12, 7, 7, 2, 1, HRF_U8, HRF_U8, 131, 77, 0.013f, HRF_ACT_RELU },
    { 1, 32, 8, 32, 3, 1, 32, HRF_U8, HRF_U8, 0, 0, 0.013f, HRF_ACT_NONE }, /* by channel */
    { 1, 32, 8, 32, 3, 1, 4, HRF_S8, HRF_S8, 0, -3, 0.013f, HRF_ACT_NONE }, /* groups */
    { 1, 15, 8, 21, 3, 1, 3, HRF_U8, HRF_S8, 0, 0, 0.013f, HRF_ACT_RELU },  /* odd ones */
    { 1, 48, 5, 48, 1, 1, 1, HRF_U8, HRF_U8, 0, 0, 1.0f, HRF_ACT_RELU },    /* no factor */
    { 5, 64, 0, 33, 1, 1, 1, HRF_S8, HRF_U8, 0, 9, 0.013f, HRF_ACT_NONE },  /* a matrix */
    { 3, 40, 0, 64, 1, 1, 1, HRF_U8, HRF_S8, 12, 0, 0.013f, HRF_ACT_RELU },
};

static void results_are_those_of_the_integer_reference_by_a_fast_kernel(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        check(&layers[i], HRF_F32, 1);
        check(&layers[i], HRF_F32, 2);
        check(&layers[i], HRF_U8, 2);
        check(&layers[i], HRF_S8, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_the_integer_reference_by_a_fast_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
