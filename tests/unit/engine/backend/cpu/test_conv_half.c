/* The own convolution kernels on 16-bit floats: bit for bit what the same kernels give on the
 * widened numbers, narrowed; NaNs, infinities, subnormals and overflow among them. */

#include "engine/backend/cpu/cpu.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/ir/number.h"
#include "tests/unit/engine/backend/cpu/layer.h"

#include <math.h>
#include <string.h>

struct layer {
    int64_t n, channels, size, out_channels, kernel, stride;
    enum hrf_activation activation;
    bool has_residual, has_prologue;
    const char *implementation;
};

/* Panels that end early, odd depths, rows that fill no tile; weights that one thread takes through
 * in blocks, and (512 channels) such that threads share. */
static const struct layer layers[] = {
    { 2, 37, 9, 40, 1, 1, HRF_ACT_RELU, true, false, "product" },
    { 1, 64, 12, 96, 1, 2, HRF_ACT_NONE, true, true, "product" },
    { 1, 256, 5, 23, 1, 1, HRF_ACT_LEAKY_RELU, false, true, "product" },
    { 2, 64, 11, 128, 3, 2, HRF_ACT_RELU, true, false, "implicit_product" },
    { 1, 256, 9, 160, 3, 2, HRF_ACT_CLIP, true, true, "implicit_product" },
    { 3, 16, 13, 32, 3, 1, HRF_ACT_RELU, true, false, "implicit_product" },
    { 1, 48, 32, 64, 3, 1, HRF_ACT_CLIP, true, true, "implicit_product" },
    { 4, 256, 10, 256, 3, 1, HRF_ACT_NONE, false, false, "implicit_product" },
};
enum { N_INPUTS = HRF_CONV_SHIFTS + 1, N_LAYERS = sizeof layers / sizeof layers[0] };

static int32_t add_floats(struct hrf_graph *graph, const char *name, struct hrf_shape shape,
                          double most, struct hrf_random *random)
{
    const int64_t n = hrf_shape_count(&shape);
    HRF_AUTO_FREE float *x = hrf_alloc_array((size_t)n, sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((hrf_random_unit(random) * 2 - 1) * most);
    return add_value(graph, name, HRF_F32, shape, x);
}

static struct hrf_graph *make(const struct layer *l, enum hrf_dtype in, enum hrf_dtype out)
{
    struct hrf_random random = hrf_random_init(5);
    struct hrf_graph *graph = NULL;
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t side = (l->size - 1) / l->stride + 1;
    const struct hrf_shape y = SHAPE(l->n, l->out_channels, side, side);
    int32_t inputs[N_INPUTS];
    for (int i = 0; i < N_INPUTS; i++)
        inputs[i] = -1;
    for (int i = 0; i < 2; i++) {
        a.window.kernel[i] = l->kernel;
        a.window.stride[i] = l->stride;
        a.window.pad_begin[i] = a.window.pad_end[i] = l->kernel / 2;
    }
    a.activation = l->activation;
    a.activation_min = -0.3f;
    a.activation_max = 0.9f;
    a.alpha = 0.1f;
    must(hrf_graph_create("layer", &graph, &err));
    inputs[HRF_CONV_X] = add_value(graph, "x", in, SHAPE(l->n, l->channels, l->size, l->size),
                                   NULL);
    inputs[HRF_CONV_WEIGHTS] = add_floats(
        graph, "w", SHAPE(l->out_channels, l->channels, l->kernel, l->kernel), 0.2, &random);
    inputs[HRF_CONV_BIAS] = add_floats(graph, "b", SHAPE(l->out_channels), 1, &random);
    if (l->has_residual)
        inputs[HRF_CONV_RESIDUAL] = add_value(graph, "r", out, y, NULL);
    if (l->has_prologue) {
        inputs[HRF_CONV_FACTORS] = add_floats(graph, "f", SHAPE(l->channels), 2, &random);
        inputs[HRF_CONV_SHIFTS] = add_floats(graph, "s", SHAPE(l->channels), 1, &random);
        a.prologue.activation = HRF_ACT_RELU;
    }
    const int32_t output = add_value(graph, "y", out, y, NULL);
    must(hrf_graph_add_node(graph, HRF_OP_CONV, "layer", inputs, N_INPUTS, &output, 1, &a, &err));
    return graph;
}

/* Numbers that `dtype` holds exactly, some of them at its ends. */
static float *numbers(enum hrf_dtype dtype, int64_t n, uint64_t seed)
{
    static const float special[] = { NAN, INFINITY, -INFINITY, 1e-6f, -6e-8f, 65504.0f, -60000.0f };
    struct hrf_random random = hrf_random_init(seed);
    float *x = hrf_alloc_aligned((size_t)n * sizeof *x, HRF_BUFFER_ALIGNMENT);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++) {
        x[i] = (float)(hrf_random_unit(&random) * 2 - 1);
        if (hrf_random_below(&random, 4096) == 0)
            x[i] = special[hrf_random_below(&random, sizeof special / sizeof special[0])];
        x[i] = hrf_round_to(dtype, x[i]);
    }
    return x;
}

static void *in_type(enum hrf_dtype dtype, const float *x, int64_t n)
{
    void *narrow = hrf_alloc_aligned((size_t)n * hrf_dtype_size(dtype), HRF_BUFFER_ALIGNMENT);
    assert_non_null(narrow);
    hrf_floats_to(dtype, x, narrow, n);
    return narrow;
}

/* The layer on x and r, which are given as floats, in the types of a graph; heap. */
static void *compute(const struct layer *l, enum hrf_dtype in, enum hrf_dtype out, const float *x,
                     const float *r, int32_t n_threads, bool in_place)
{
    const struct hrf_backend_config config = { .n_threads = n_threads };
    HRF_AUTO(hrf_graph) graph = make(l, in, out);
    struct hrf_backend *backend = NULL;
    struct hrf_kernel *kernel = NULL;
    const struct hrf_node *node = &graph->nodes[0];
    const int64_t n_x = hrf_shape_count(&graph->values[node->inputs[HRF_CONV_X]].shape);
    const int64_t n_y = hrf_shape_count(&graph->values[node->outputs[0]].shape);
    HRF_AUTO_FREE void *image = in_type(in, x, n_x);
    HRF_AUTO_FREE void *residual = in_type(out, r, n_y);
    void *y = in_type(out, r, n_y);
    must(hrf_backend_cpu.create(&config, &backend, &err));
    hrf_backend_cpu.enter(backend);
    must(hrf_backend_compile(&hrf_backend_cpu, backend, graph, node, &kernel, &err));
    if (strstr(kernel->implementation, l->implementation) == NULL)
        fail_msg("computed by %s, not %s", kernel->implementation, l->implementation);
    HRF_AUTO_FREE void *workspace = hrf_alloc_aligned(kernel->workspace_bytes + 1,
                                                      HRF_BUFFER_ALIGNMENT);
    assert_non_null(workspace);
    const void *inputs[N_INPUTS] = { [HRF_CONV_X] = image };
    if (l->has_residual)
        inputs[HRF_CONV_RESIDUAL] = in_place ? y : residual;
    const struct hrf_kernel_call call = { .inputs = inputs, .output = y, .workspace = workspace };
    must(kernel->run(kernel, &call, &err));
    hrf_kernel_destroy(kernel);
    hrf_backend_cpu.destroy(backend);
    return y;
}

static void check(const struct layer *l, enum hrf_dtype in, enum hrf_dtype out, int32_t n_threads)
{
    HRF_AUTO(hrf_graph) graph = make(l, in, out);
    const struct hrf_node *node = &graph->nodes[0];
    const int64_t n_x = hrf_shape_count(&graph->values[node->inputs[HRF_CONV_X]].shape);
    const int64_t n_y = hrf_shape_count(&graph->values[node->outputs[0]].shape);
    HRF_AUTO_FREE float *x = numbers(in, n_x, 1);
    HRF_AUTO_FREE float *r = numbers(out, n_y, 2);
    HRF_AUTO_FREE float *wide = compute(l, HRF_F32, HRF_F32, x, r, 1, true);
    HRF_AUTO_FREE void *truth = in_type(out, wide, n_y);
    HRF_AUTO_FREE void *y = compute(l, in, out, x, r, n_threads, n_threads == 1);
    assert_memory_equal(y, truth, (size_t)n_y * hrf_dtype_size(out));
}

static void sixteen_bits_give_what_the_widened_numbers_give(void **state)
{
    (void)state;
    static const enum hrf_dtype types[] = { HRF_F32, HRF_F16, HRF_B16 };
    if (!hrf_cpu_has_avx512())
        skip();
    for (int i = 0; i < N_LAYERS; i++)
        for (int in = 0; in < 3; in++)
            for (int out = 0; out < 3; out++)
                check(&layers[i], types[in], types[out], 1 + (in + out) % 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixteen_bits_give_what_the_widened_numbers_give),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
