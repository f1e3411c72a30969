/* Convolutions, transposed ones and layers of 8 bits as products of integers, bit for bit against
 * the plain loops: random shapes, windows, groups, types, zero points, residuals, activations. */
#include "tests/unit/unit.h"

#include "engine/backend/cpu/cpu.h"
#include "engine/backend/cpu/cpu_private.h"
#include "tests/unit/engine/backend/cpu/integer_layer.h"

#include <string.h>

enum { N_LAYERS = 300 };

struct layer {
    enum hrf_op op;
    int64_t n, channels, out_channels, size[2];
    struct hrf_attributes attributes;
    enum hrf_dtype x, y, residual; /* residual NONE: none */
    bool all_largest;              /* numbers */
};

static struct hrf_random numbers;

static int64_t pick(int64_t low, int64_t high)
{
    return low + (int64_t)hrf_random_below(&numbers, high - low + 1);
}

static enum hrf_dtype pick_byte(void)
{
    return pick(0, 1) != 0 ? HRF_S8 : HRF_U8;
}

static struct layer pick_layer(void)
{
    static const enum hrf_op ops[] = { HRF_OP_CONV, HRF_OP_CONV, HRF_OP_CONV_TRANSPOSE,
                                       HRF_OP_GEMM };
    static const enum hrf_activation activations[] = { HRF_ACT_NONE, HRF_ACT_RELU, HRF_ACT_CLIP,
                                                       HRF_ACT_LEAKY_RELU };
    struct layer l = { .op = ops[pick(0, 3)],
                       .n = pick(1, 3),
                       .attributes = hrf_attributes_default(),
                       .x = pick_byte(),
                       .y = pick(0, 2) != 0 ? pick_byte() : HRF_F32,
                       .residual = pick(0, 1) != 0 ? pick_byte() : HRF_DTYPE_NONE,
                       .all_largest = pick(0, 9) == 0 };
    struct hrf_attributes *a = &l.attributes;
    a->group = l.op == HRF_OP_GEMM || pick(0, 1) != 0 ? 1 : pick(2, 9);
    const int64_t most = a->group > 1 ? 9 : 80; /* channels of a group */
    l.channels = a->group * pick(1, most);
    l.out_channels = a->group * (pick(0, 3) == 0 ? pick(16, 40) : pick(1, most));
    for (int i = 0; i < 2 && l.op != HRF_OP_GEMM; i++) {
        a->window.kernel[i] = pick(1, 4);
        a->window.stride[i] = pick(1, 3);
        a->window.dilation[i] = pick(0, 2) != 0 ? 1 : 2;
        a->window.pad_begin[i] = pick(0, 4);
        a->window.pad_end[i] = pick(0, 4);
        l.size[i] = pick((a->window.kernel[i] - 1) * a->window.dilation[i] + 1, 13);
    }
    if (l.op == HRF_OP_GEMM) {
        a->gemm.transpose_b = true;
        l.n = pick(1, 120);
        l.channels = pick(1, 700);
    }
    a->activation = activations[pick(0, 3)];
    a->activation_min = -0.3f;
    a->activation_max = 0.9f;
    a->alpha = 0.1f;
    return l;
}

/* Outputs along an axis; of a transposed convolution, sometimes more than its windows reach. */
static int64_t count_outputs(const struct layer *l, int axis)
{
    const struct hrf_window *w = &l->attributes.window;
    const int64_t span = (w->kernel[axis] - 1) * w->dilation[axis] + 1;
    const int64_t pads = w->pad_begin[axis] + w->pad_end[axis];
    if (l->op == HRF_OP_CONV)
        return (l->size[axis] + pads - span) / w->stride[axis] + 1;
    const int64_t n = (l->size[axis] - 1) * w->stride[axis] + span - pads + pick(0, 1);
    return n < 1 ? 1 : n;
}

static int32_t add_image(struct hrf_graph *graph, const char *name, enum hrf_dtype type,
                         struct hrf_shape shape, float scale)
{
    const int64_t zero = type == HRF_F32 || pick(0, 2) == 0 ? 0
                         : type == HRF_S8                   ? pick(-128, 127)
                                                            : pick(0, 255);
    return add_quantized(graph, name, type, shape, NULL, type == HRF_F32 ? 0 : scale,
                         (int32_t)zero);
}

static struct hrf_graph *make(const struct layer *l)
{
    const bool is_gemm = l->op == HRF_OP_GEMM;
    const int64_t *kernel = l->attributes.window.kernel;
    const int64_t terms = l->channels / l->attributes.group;
    const int64_t area = is_gemm ? 1 : kernel[0] * kernel[1];
    struct hrf_graph *graph = NULL;
    struct hrf_shape x = SHAPE(l->n, l->channels), y = SHAPE(l->n, l->out_channels);
    struct hrf_shape weights = SHAPE(l->out_channels, terms);
    if (!is_gemm) {
        x = SHAPE(l->n, l->channels, l->size[0], l->size[1]);
        y = SHAPE(l->n, l->out_channels, count_outputs(l, 0), count_outputs(l, 1));
        weights = SHAPE(l->out_channels, terms, kernel[0], kernel[1]);
    }
    HRF_AUTO_FREE int8_t *w = hrf_alloc_array((size_t)(l->out_channels * terms * area), 1);
    for (int64_t i = 0; i < l->out_channels * terms * area; i++)
        w[i] = (int8_t)(l->all_largest ? -128 : pick(-128, 127));
    must(hrf_graph_create("layer", &graph, &err));
    int32_t inputs[HRF_CONV_SCALES + 1];
    inputs[HRF_CONV_X] = add_image(graph, "x", l->x, x, 0.02f);
    inputs[HRF_CONV_WEIGHTS] = add_quantized(graph, "w", HRF_S8, weights, w, 0, 0);
    inputs[HRF_CONV_BIAS] = pick(0, 3) == 0
                                ? HRF_NO_VALUE
                                : add_floats(graph, "b", l->out_channels, -1, 1, &numbers);
    inputs[HRF_CONV_RESIDUAL] = l->residual == HRF_DTYPE_NONE
                                    ? HRF_NO_VALUE
                                    : add_image(graph, "r", l->residual, y,
                                                pick(0, 3) == 0 ? 0.017f : 0.013f);
    /* So that results fill the range, and some of them overshoot it. */
    const double typical = 0.5 / (double)(terms * area);
    inputs[HRF_CONV_SCALES] = add_floats(graph, "s", l->out_channels, typical / 8, typical,
                                         &numbers);
    const int32_t output = add_image(graph, "y", l->y, y, 0.017f);
    must(hrf_graph_add_node(graph, l->op, "layer", inputs, HRF_CONV_SCALES + 1, &output, 1,
                            &l->attributes, &err));
    return graph;
}

static uint8_t *fill(const struct hrf_value *value, const struct layer *l)
{
    const int64_t n = hrf_shape_count(&value->shape);
    uint8_t *x = hrf_alloc_aligned((size_t)n, HRF_BUFFER_ALIGNMENT);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (uint8_t)(l->all_largest ? (value->dtype == HRF_S8 ? 0x80 : 0xff) : pick(0, 255));
    return x;
}

/* The results of a row, or of the plain loops; the residual lies where they go if it can. */
static uint8_t *compute(const struct hrf_kernel_row *row, const struct hrf_graph *graph,
                        int32_t n_threads, const void *x, const void *residual, size_t *n_bytes)
{
    const struct hrf_backend_config config = { .n_threads = n_threads };
    const struct hrf_value *y = &graph->values[graph->nodes[0].outputs[0]];
    struct hrf_backend *backend = NULL;
    struct hrf_kernel *kernel = NULL;
    must(hrf_backend_cpu.create(&config, &backend, &err));
    hrf_backend_cpu.enter(backend);
    if (row != NULL)
        must(row->compile(row, backend, graph, &graph->nodes[0], &kernel, &err));
    else
        must(hrf_integer_compile(NULL, backend, graph, &graph->nodes[0], &kernel, &err));
    *n_bytes = (size_t)hrf_shape_count(&y->shape) * hrf_dtype_size(y->dtype);
    uint8_t *out = hrf_alloc_aligned(*n_bytes, HRF_BUFFER_ALIGNMENT);
    void *workspace = hrf_alloc_aligned(kernel->workspace_bytes + 1, HRF_BUFFER_ALIGNMENT);
    assert_true(out != NULL && workspace != NULL);
    memset(out, 0xff, *n_bytes);
    memset(workspace, 0xff, kernel->workspace_bytes);
    const void *inputs[HRF_CONV_SCALES + 1] = { [HRF_CONV_X] = x, [HRF_CONV_RESIDUAL] = residual };
    if (residual != NULL && y->dtype != HRF_F32) {
        memcpy(out, residual, *n_bytes);
        inputs[HRF_CONV_RESIDUAL] = out;
    }
    const struct hrf_kernel_call call = { .inputs = inputs, .output = out, .workspace = workspace };
    must(kernel->run(kernel, &call, &err));
    hrf_free(workspace);
    hrf_kernel_destroy(kernel);
    hrf_backend_cpu.destroy(backend);
    return out;
}

static void check(uint64_t seed)
{
    numbers = hrf_random_init(seed);
    const struct layer l = pick_layer();
    HRF_AUTO(hrf_graph) graph = make(&l);
    const struct hrf_node *node = &graph->nodes[0];
    const int32_t r = node->inputs[HRF_CONV_RESIDUAL];
    size_t n, n_truth;
    assert_null(hrf_cpu_integer_product.misfit(graph, node));
    HRF_AUTO_FREE uint8_t *x = fill(&graph->values[node->inputs[HRF_CONV_X]], &l);
    HRF_AUTO_FREE uint8_t *residual = r >= 0 ? fill(&graph->values[r], &l) : NULL;
    HRF_AUTO_FREE uint8_t *truth = compute(NULL, graph, 1, x, residual, &n_truth);
    for (int32_t threads = 1; threads <= 3; threads++) {
        HRF_AUTO_FREE uint8_t *got = compute(&hrf_cpu_integer_product, graph, threads, x, residual,
                                             &n);
        assert_int_equal(n, n_truth);
        if (memcmp(got, truth, n) != 0)
            fail_msg("layer %llu: other bits with %d threads", (unsigned long long)seed, threads);
    }
}

static void products_have_the_bits_of_the_plain_loops(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < N_LAYERS; seed++)
        check(seed);
}

/* A constant image, and weights that come at run time, are left to the plain loops. */
static void what_is_not_packed_once_is_left_to_others(void **state)
{
    (void)state;
    numbers = hrf_random_init(1);
    const struct layer l = pick_layer();
    HRF_AUTO(hrf_graph) graph = make(&l);
    struct hrf_value *w = &graph->values[graph->nodes[0].inputs[HRF_CONV_WEIGHTS]];
    void *const data = w->data;
    w->data = NULL;
    assert_non_null(hrf_cpu_integer_product.misfit(graph, &graph->nodes[0]));
    w->data = data;
    assert_null(hrf_cpu_integer_product.misfit(graph, &graph->nodes[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_have_the_bits_of_the_plain_loops),
        cmocka_unit_test(what_is_not_packed_once_is_left_to_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
