/* Depth-wise convolutions of random shapes against the reference, in floats of 32 and 16 bits and,
 * bit for bit, in 8-bit integers; and the functions that epilogues compute, there and in products.
 */

#include "engine/backend/cpu/cpu.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/ref/ref.h"
#include "engine/ir/number.h"
#include "tests/unit/engine/backend/cpu/integer_layer.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_CASES = 120, N_INPUTS = HRF_CONV_SCALES + 1 };

struct layer {
    int64_t n, channels, out_channels, group, rows, columns, kernel[2], stride[2], dilation[2];
    int64_t pad_begin[2], pad_end[2];
    enum hrf_dtype x, residual, y; /* residual: NONE for none */
    int32_t x_zero, residual_zero, y_zero;
    double weight_scale; /* of 8 bits */
    enum hrf_activation activation;
};

static int64_t pick(struct hrf_random *r, int64_t low, int64_t high)
{
    return low + (int64_t)hrf_random_below(r, (uint32_t)(high - low + 1));
}

static void pick_window(struct hrf_random *r, struct layer *l)
{
    const int64_t size[2] = { l->rows, l->columns };
    for (int i = 0; i < 2; i++) {
        l->kernel[i] = pick(r, 1, 7);
        l->stride[i] = pick(r, 1, 3);
        l->dilation[i] = pick(r, 1, 2);
        l->pad_begin[i] = pick(r, 0, l->kernel[i] - 1);
        l->pad_end[i] = pick(r, 0, l->kernel[i] - 1);
        while ((l->kernel[i] - 1) * l->dilation[i] + 1 > size[i] + l->pad_begin[i] + l->pad_end[i])
            l->kernel[i]--, l->pad_begin[i] = l->pad_end[i] = 0;
    }
}

static struct layer pick_layer(struct hrf_random *r)
{
    struct layer l = { .n = pick(r, 1, 3), .channels = pick(r, 2, 70) };
    l.out_channels = l.group = l.channels;
    l.rows = pick(r, 1, 20);
    l.columns = pick(r, 1, 60);
    pick_window(r, &l);
    return l;
}

static struct hrf_attributes attributes_of(const struct layer *l)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.group = l->group;
    for (int i = 0; i < 2; i++) {
        a.window.kernel[i] = l->kernel[i];
        a.window.stride[i] = l->stride[i];
        a.window.dilation[i] = l->dilation[i];
        a.window.pad_begin[i] = l->pad_begin[i];
        a.window.pad_end[i] = l->pad_end[i];
    }
    a.activation = l->activation;
    a.activation_min = -0.3f;
    a.activation_max = 0.9f;
    a.alpha = 0.25f;
    a.beta = 0.4f;
    return a;
}

static bool is_integer(enum hrf_dtype type)
{
    return type == HRF_S8 || type == HRF_U8;
}

static int64_t outputs_along(const struct layer *l, int i, int64_t size)
{
    return (size + l->pad_begin[i] + l->pad_end[i] - (l->kernel[i] - 1) * l->dilation[i] - 1) /
               l->stride[i] +
           1;
}

static int32_t add_weights(struct hrf_graph *graph, const struct layer *l,
                           struct hrf_random *random)
{
    const struct hrf_shape shape = SHAPE(l->out_channels, l->channels / l->group, l->kernel[0],
                                         l->kernel[1]);
    const int64_t n = hrf_shape_count(&shape);
    HRF_AUTO_FREE int8_t *bytes = hrf_alloc_array((size_t)n, 1);
    HRF_AUTO_FREE float *floats = hrf_alloc_array((size_t)n, sizeof *floats);
    assert_true(bytes != NULL && floats != NULL);
    for (int64_t i = 0; i < n; i++) {
        bytes[i] = (int8_t)pick(random, -127, 127);
        floats[i] = (float)bytes[i] / 128; /* BF16 holds it */
    }
    return is_integer(l->x) ? add_quantized(graph, "w", HRF_S8, shape, bytes, 0, 0)
                            : add_quantized(graph, "w", HRF_F32, shape, floats, 0, 0);
}

static struct hrf_graph *make(const struct layer *l, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    struct hrf_graph *graph = NULL;
    const struct hrf_attributes a = attributes_of(l);
    const struct hrf_shape y = SHAPE(l->n, l->out_channels, outputs_along(l, 0, l->rows),
                                     outputs_along(l, 1, l->columns));
    int32_t inputs[N_INPUTS] = { 0, 0, 0, -1, -1 };
    must(hrf_graph_create("layer", &graph, &err));
    inputs[HRF_CONV_X] = add_quantized(
        graph, "x", l->x, SHAPE(l->n, l->channels, l->rows, l->columns), NULL, 0.02f, l->x_zero);
    inputs[HRF_CONV_WEIGHTS] = add_weights(graph, l, &random);
    inputs[HRF_CONV_BIAS] = add_floats(graph, "b", l->out_channels, -1, 1, &random);
    if (l->residual != HRF_DTYPE_NONE)
        inputs[HRF_CONV_RESIDUAL] = add_quantized(graph, "r", l->residual, y, NULL, 0.013f,
                                                  l->residual_zero);
    if (is_integer(l->x))
        inputs[HRF_CONV_SCALES] = add_floats(graph, "s", l->out_channels, l->weight_scale,
                                             2 * l->weight_scale, &random);
    const int32_t output = add_quantized(graph, "y", l->y, y, NULL, 0.017f, l->y_zero);
    must(hrf_graph_add_node(graph, HRF_OP_CONV, "layer", inputs, is_integer(l->x) ? 5 : 4, &output,
                            1, &a, &err));
    return graph;
}

/* Numbers of a value, of its type; heap. */
static void *numbers(const struct hrf_value *value, uint64_t seed)
{
    const int64_t n = hrf_shape_count(&value->shape);
    struct hrf_random random = hrf_random_init(seed);
    HRF_AUTO_FREE float *floats = hrf_alloc_array((size_t)n, sizeof *floats);
    uint8_t *x = hrf_alloc_aligned((size_t)n * sizeof(float), HRF_BUFFER_ALIGNMENT);
    assert_true(x != NULL && floats != NULL);
    for (int64_t i = 0; i < n; i++) {
        floats[i] = (float)(hrf_random_unit(&random) * 4 - 2);
        if (is_integer(value->dtype))
            x[i] = (uint8_t)hrf_random_below(&random, 256);
    }
    if (!is_integer(value->dtype))
        hrf_floats_to(value->dtype, floats, x, n);
    return x;
}

/* The results; heap. */
static void *compute(const struct hrf_backend_ops *ops, const struct hrf_graph *graph,
                     int32_t n_threads, const char *implementation)
{
    const struct hrf_backend_config config = { .n_threads = n_threads };
    const struct hrf_node *node = &graph->nodes[0];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    struct hrf_backend *backend = NULL;
    struct hrf_kernel *kernel = NULL;
    HRF_AUTO_FREE void *x = numbers(&graph->values[node->inputs[HRF_CONV_X]], 1);
    const int32_t residual = node->inputs[HRF_CONV_RESIDUAL];
    HRF_AUTO_FREE void *r = numbers(residual >= 0 ? &graph->values[residual] : y, 2);
    must(ops->create(&config, &backend, &err));
    if (ops->enter != NULL)
        ops->enter(backend);
    must(hrf_backend_compile(ops, backend, graph, node, &kernel, &err));
    if (implementation != NULL && strstr(kernel->implementation, implementation) == NULL)
        fail_msg("computed by %s, not %s", kernel->implementation, implementation);
    HRF_AUTO_FREE void *workspace = hrf_alloc_aligned(kernel->workspace_bytes + 1,
                                                      HRF_BUFFER_ALIGNMENT);
    const size_t n_bytes = (size_t)hrf_shape_count(&y->shape) * hrf_dtype_size(y->dtype);
    void *out = hrf_alloc_aligned(n_bytes, HRF_BUFFER_ALIGNMENT);
    assert_true(workspace != NULL && out != NULL);
    memset(out, 0xff, n_bytes); /* NaNs */
    const void *inputs[N_INPUTS] = { [HRF_CONV_X] = x };
    if (residual >= 0)
        inputs[HRF_CONV_RESIDUAL] = r;
    const struct hrf_kernel_call call = { .inputs = inputs, .output = out, .workspace = workspace };
    must(kernel->run(kernel, &call, &err));
    hrf_kernel_destroy(kernel);
    ops->destroy(backend);
    return out;
}

static void describe(const struct layer *l, char text[256])
{
    snprintf(text, 256,
             "%lldx%lldx%lldx%lld, window %lldx%lld, stride %lld,%lld, %s to %s, "
             "activation %d",
             (long long)l->n, (long long)l->channels, (long long)l->rows, (long long)l->columns,
             (long long)l->kernel[0], (long long)l->kernel[1], (long long)l->stride[0],
             (long long)l->stride[1], hrf_dtype_name(l->x), hrf_dtype_name(l->y),
             (int)l->activation);
}

static void check_floats(const struct layer *l, uint64_t seed, const char *implementation)
{
    HRF_AUTO(hrf_graph) graph = make(l, seed);
    char text[256];
    const struct hrf_value *y = &graph->values[graph->nodes[0].outputs[0]];
    const int64_t n = hrf_shape_count(&y->shape);
    HRF_AUTO_FREE void *got = compute(&hrf_backend_cpu, graph, 1, implementation);
    HRF_AUTO_FREE void *again = compute(&hrf_backend_cpu, graph, 2, implementation);
    HRF_AUTO_FREE void *want = compute(&hrf_backend_ref, graph, 1, NULL);
    HRF_AUTO_FREE float *a = hrf_alloc_array((size_t)n, sizeof *a);
    HRF_AUTO_FREE float *b = hrf_alloc_array((size_t)n, sizeof *b);
    assert_true(a != NULL && b != NULL);
    hrf_floats_from(l->y, got, a, n);
    hrf_floats_from(l->y, want, b, n);
    const double limit = l->y == HRF_B16 ? 0x1p-7 : l->y == HRF_F16 ? 0x1p-10 : 1e-6;
    describe(l, text);
    if (memcmp(got, again, (size_t)n * hrf_dtype_size(l->y)) != 0)
        fail_msg("%s: other bits with two threads", text);
    for (int64_t i = 0; i < n; i++) {
        /* A step of the result, where a sum lies between two, and the rounding of sums that may
         * have cancelled. */
        const double most = limit * fabs((double)b[i]) * 1.01 + 1e-5;
        if (!(fabs((double)a[i] - (double)b[i]) <= most))
            fail_msg("%s: number %lld is %g, not %g", text, (long long)i, (double)a[i],
                     (double)b[i]);
    }
}

static void floats_agree_with_the_reference(void **state)
{
    (void)state;
    static const enum hrf_dtype types[] = { HRF_F32, HRF_F16, HRF_B16 };
    struct hrf_random r = hrf_random_init(3);
    for (int i = 0; i < N_CASES; i++) {
        struct layer l = pick_layer(&r);
        l.x = types[pick(&r, 0, 2)];
        l.y = pick(&r, 0, 1) == 0 ? HRF_F32 : l.x;
        l.residual = pick(&r, 0, 1) == 0 ? l.y : HRF_DTYPE_NONE;
        l.activation = (enum hrf_activation)pick(&r, 0, HRF_ACT_GELU_TANH);
        check_floats(&l, (uint64_t)i, "depthwise");
    }
}

/* No pass fuses a function into a kernel that would round the sums first. */
static bool takes_activation(const struct layer *l)
{
    HRF_AUTO(hrf_graph) graph = make(l, 1);
    return hrf_kernels_take_activation(hrf_backend_cpu.kernels, graph, &graph->nodes[0],
                                       l->activation);
}

/* Windows of one pixel and of several, whose sums are those of a matrix product. */
static void products_compute_functions(void **state)
{
    (void)state;
    struct hrf_random r = hrf_random_init(4);
    for (int activation = 0; activation <= HRF_ACT_GELU_TANH; activation++)
        for (int64_t kernel = 1; kernel <= 3; kernel += 2)
            for (int type = 0; type < 2; type++) {
                struct layer l = { .n = 2,
                                   .channels = 3 + pick(&r, 0, 20),
                                   .group = 1,
                                   .rows = 6,
                                   .columns = 7,
                                   .kernel = { kernel, kernel },
                                   .stride = { 1, 1 },
                                   .dilation = { 1, 1 } };
                l.out_channels = pick(&r, 1, 90);
                l.x = l.y = type == 0 ? HRF_F32 : HRF_B16;
                l.residual = pick(&r, 0, 1) == 0 ? l.y : HRF_DTYPE_NONE;
                l.activation = (enum hrf_activation)activation;
                if (type == 0 && hrf_cpu_has_avx512())
                    assert_true(takes_activation(&l));
                if (takes_activation(&l))
                    check_floats(&l, 1, NULL);
            }
}

/* Channels of whole and part registers of 64, 32 and 16 bytes, or few with a wide image. */
static void pick_bytes(struct hrf_random *r, struct layer *l)
{
    l->x = pick(r, 0, 1) == 0 ? HRF_S8 : HRF_U8;
    l->y = pick(r, 0, 4) == 0 ? HRF_F32 : pick(r, 0, 1) == 0 ? HRF_S8 : HRF_U8;
    l->x_zero = l->x == HRF_S8 ? (int32_t)pick(r, -128, 127) : (int32_t)pick(r, 0, 255);
    l->y_zero = l->y == HRF_U8 ? (int32_t)pick(r, 0, 255) : (int32_t)pick(r, -128, 127);
    l->weight_scale = 0.001;
    if (pick(r, 0, 3) == 0)
        l->out_channels = l->group = l->channels = pick(r, 71, 210);
}

static void check_bytes(const struct layer *l, uint64_t seed, const char *implementation)
{
    char text[256];
    HRF_AUTO(hrf_graph) graph = make(l, seed);
    const struct hrf_value *y = &graph->values[graph->nodes[0].outputs[0]];
    const size_t n_bytes = (size_t)hrf_shape_count(&y->shape) * hrf_dtype_size(l->y);
    HRF_AUTO_FREE void *got = compute(&hrf_backend_cpu, graph, 1 + seed % 2, implementation);
    HRF_AUTO_FREE void *want = compute(&hrf_backend_ref, graph, 1, NULL);
    describe(l, text);
    if (memcmp(got, want, n_bytes) != 0)
        fail_msg("%s: other bits than the reference's", text);
}

static void integers_equal_the_reference(void **state)
{
    (void)state;
    struct hrf_random r = hrf_random_init(5);
    for (int i = 0; i < N_CASES; i++) {
        struct layer l = pick_layer(&r);
        pick_bytes(&r, &l);
        l.residual = pick(&r, 0, 2) == 0 ? HRF_DTYPE_NONE : pick(&r, 0, 1) == 0 ? HRF_S8 : HRF_U8;
        l.residual_zero = l.residual == HRF_U8 ? (int32_t)pick(&r, 0, 255) : 0;
        l.activation = (enum hrf_activation)pick(&r, 0, HRF_ACT_LEAKY_RELU);
        check_bytes(&l, (uint64_t)i, "depthwise");
    }
}

/* What interleaved rows of bytes take, where the processor multiplies them; results beyond 32 bits
 * they leave to the others. */
static void interleaved_bytes_equal_the_reference(void **state)
{
    (void)state;
    struct hrf_random r = hrf_random_init(6);
    const bool has_vnni = hrf_cpu_has_avx512_vnni();
    for (int i = 0; i < N_CASES; i++) {
        struct layer l = pick_layer(&r);
        const bool is_wild = pick(&r, 0, 9) == 0;
        pick_bytes(&r, &l);
        l.activation = (enum hrf_activation)pick(&r, 0, HRF_ACT_CLIP);
        l.weight_scale *= is_wild ? 1e9 : 1;
        check_bytes(&l, (uint64_t)i, has_vnni && !is_wild ? "avx512_vnni" : "depthwise");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_agree_with_the_reference),
        cmocka_unit_test(products_compute_functions),
        cmocka_unit_test(integers_equal_the_reference),
        cmocka_unit_test(interleaved_bytes_equal_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
