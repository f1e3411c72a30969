/* Convolutions as products over pixels, as implicit products over windows and in groups: random
 * windows, strides, dilations, pads and pixel strides in every type against the reference, and the
 * same bits from any number of threads. */

#include "engine/backend/cpu/cpu.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/ref/ref.h"
#include "engine/ir/number.h"
#include "tests/unit/engine/backend/cpu/layer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_INPUTS = HRF_CONV_SHIFTS + 1 };
enum { N_RANDOM = 120, N_WINDOWS = 28, N_PAIRS = 60, N_GROUPS = 36, N_FEW = 30 }; /* layers */

enum way { BY_PRODUCT, BY_WINDOWS, BY_GROUPS };

/* Of floats, and of pairs of bfloat16. */
static const struct hrf_kernel_row *const rows[][2] = {
    [BY_PRODUCT] = { &hrf_cpu_product, &hrf_cpu_product_of_pairs },
    [BY_WINDOWS] = { &hrf_cpu_windows, &hrf_cpu_windows_of_pairs },
    [BY_GROUPS] = { &hrf_cpu_groups, &hrf_cpu_groups_of_pairs },
};

static bool fits(const struct hrf_kernel_row *row, const struct hrf_graph *graph)
{
    return hrf_kernel_misfit(&hrf_cpu_kernels, row, graph, &graph->nodes[0]) == NULL;
}

struct layer {
    int64_t n, channels, size[2], out_channels;
    int64_t group; /* 0: 1 */
    struct hrf_window window;
    enum hrf_activation activation;
    enum hrf_dtype in, out;
    bool has_residual, has_prologue;
    enum way way;
    int64_t x_gap, y_gap; /* floats between pixels, where they are float32 */
    uint64_t seed;
};

static int64_t one_of(struct hrf_random *random, const int64_t *numbers, size_t n)
{
    return numbers[hrf_random_below(random, (int64_t)n)];
}

static int64_t between(struct hrf_random *random, int64_t low, int64_t high)
{
    return low + hrf_random_below(random, high - low + 1);
}

static struct layer random_layer(uint64_t seed)
{
    static const int64_t channels[] = { 1, 3, 16, 21, 64, 130, 256, 400 };
    static const int64_t out_channels[] = { 1, 16, 31, 32, 64, 77, 200 };
    static const enum hrf_dtype types[] = { HRF_F32, HRF_F16, HRF_B16 };
    struct hrf_random random = hrf_random_init(seed);
    struct layer l = { .seed = seed };
    l.window = hrf_attributes_default().window;
    l.n = between(&random, 1, 3);
    l.channels = one_of(&random, channels, sizeof channels / sizeof channels[0]);
    l.out_channels = one_of(&random, out_channels, sizeof out_channels / sizeof out_channels[0]);
    for (int i = 0; i < 2; i++) {
        struct hrf_window *w = &l.window;
        w->kernel[i] = between(&random, 1, 5);
        w->stride[i] = between(&random, 1, 3);
        w->dilation[i] = between(&random, 1, 3);
        const int64_t span = (w->kernel[i] - 1) * w->dilation[i] + 1;
        w->pad_begin[i] = between(&random, 0, span - 1);
        w->pad_end[i] = between(&random, 0, span - 1);
        l.size[i] = between(&random, 1, 12);
        if (l.size[i] + w->pad_begin[i] + w->pad_end[i] < span)
            l.size[i] = span;
    }
    const struct hrf_window *w = &l.window;
    l.way = BY_PRODUCT;
    for (int i = 0; i < 2; i++)
        if (w->kernel[i] != 1 || w->pad_begin[i] != 0 || w->pad_end[i] != 0)
            l.way = BY_WINDOWS;
    l.activation = (enum hrf_activation)hrf_random_below(&random, 4);
    l.in = types[hrf_random_below(&random, 3)];
    l.out = types[hrf_random_below(&random, 3)];
    l.has_residual = hrf_random_below(&random, 2) == 0;
    l.has_prologue = hrf_random_below(&random, 3) == 0;
    l.x_gap = l.in == HRF_F32 ? 16 * between(&random, 0, 2) : 0;
    l.y_gap = l.out == HRF_F32 ? 16 * between(&random, 0, 2) : 0;
    return l;
}

/* ---- a graph of one node ---- */

/* `gap` floats between the pixels of an image: 0: it is dense. */
static int32_t add_image(struct hrf_graph *graph, const char *name, enum hrf_dtype dtype,
                         struct hrf_shape shape, int64_t gap)
{
    const int32_t index = add_value(graph, name, dtype, shape, NULL);
    graph->values[index].pixel_stride = gap > 0 ? shape.dims[1] + gap : 0;
    return index;
}

static float *random_floats(enum hrf_dtype dtype, int64_t n, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    float *x = hrf_alloc_array((size_t)n, sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = hrf_round_to(dtype, (float)(hrf_random_unit(&random) * 2 - 1));
    return x;
}

/* Of numbers that `dtype` holds. */
static int32_t add_floats(struct hrf_graph *graph, const char *name, enum hrf_dtype dtype,
                          struct hrf_shape shape, uint64_t seed)
{
    HRF_AUTO_FREE float *x = random_floats(dtype, hrf_shape_count(&shape), seed);
    return add_value(graph, name, HRF_F32, shape, x);
}

/* `plain`: float32 and no prologue, as the reference takes it. */
static struct hrf_graph *make(const struct layer *l, bool plain)
{
    const enum hrf_dtype in = plain ? HRF_F32 : l->in, out = plain ? HRF_F32 : l->out;
    const int64_t *k = l->window.kernel, x_gap = plain ? 0 : l->x_gap, y_gap = plain ? 0 : l->y_gap;
    const struct hrf_shape y = SHAPE(l->n, l->out_channels,
                                     hrf_window_output(&l->window, 0, l->size[0]),
                                     hrf_window_output(&l->window, 1, l->size[1]));
    struct hrf_graph *graph = NULL;
    struct hrf_attributes a = hrf_attributes_default();
    int32_t inputs[N_INPUTS];
    for (int i = 0; i < N_INPUTS; i++)
        inputs[i] = -1;
    a.window = l->window;
    a.group = l->group > 0 ? l->group : 1;
    a.activation = l->activation;
    a.activation_min = -0.3f;
    a.activation_max = 0.9f;
    a.alpha = 0.1f;
    must(hrf_graph_create("layer", &graph, &err));
    inputs[HRF_CONV_X] = add_image(graph, "x", in, SHAPE(l->n, l->channels, l->size[0], l->size[1]),
                                   x_gap);
    inputs[HRF_CONV_WEIGHTS] = add_floats(
        graph, "w", l->in, SHAPE(l->out_channels, l->channels / a.group, k[0], k[1]), l->seed + 1);
    inputs[HRF_CONV_BIAS] = add_floats(graph, "b", HRF_F32, SHAPE(l->out_channels), l->seed + 2);
    if (l->has_residual)
        inputs[HRF_CONV_RESIDUAL] = add_image(graph, "r", out, y, y_gap);
    if (l->has_prologue && !plain) {
        inputs[HRF_CONV_FACTORS] = add_floats(graph, "f", HRF_F32, SHAPE(l->channels), l->seed + 3);
        inputs[HRF_CONV_SHIFTS] = add_floats(graph, "s", HRF_F32, SHAPE(l->channels), l->seed + 4);
        a.prologue.activation = HRF_ACT_RELU;
    }
    const int32_t output = add_image(graph, "y", out, y, y_gap);
    must(hrf_graph_add_node(graph, HRF_OP_CONV, "layer", inputs,
                            plain ? HRF_CONV_N_INPUTS : N_INPUTS, &output, 1, &a, &err));
    return graph;
}

/* ---- running it ---- */

static int64_t count_pixels(const struct hrf_value *value)
{
    return hrf_shape_count(&value->shape) / value->shape.dims[1];
}

/* Dense floats as the value lies in memory, with NaN between its pixels; x NULL: all of it. */
static void *as_it_lies(const struct hrf_value *value, const float *x)
{
    const int64_t channels = value->shape.dims[1];
    const size_t step = (size_t)hrf_value_pixel_stride(value) * hrf_dtype_size(value->dtype);
    const size_t n_bytes = (size_t)hrf_value_bytes(value);
    char *y = hrf_alloc_aligned(n_bytes, HRF_BUFFER_ALIGNMENT);
    assert_non_null(y);
    memset(y, 0xff, n_bytes);
    for (int64_t i = 0; x != NULL && i < count_pixels(value); i++)
        hrf_floats_to(value->dtype, x + i * channels, y + (size_t)i * step, channels);
    return y;
}

/* Its pixels moved together. */
static void make_dense(const struct hrf_value *value, char *y)
{
    const size_t size = hrf_dtype_size(value->dtype);
    const size_t pixel = (size_t)value->shape.dims[1] * size;
    const size_t step = (size_t)hrf_value_pixel_stride(value) * size;
    for (int64_t i = 0; i < count_pixels(value); i++)
        memmove(y + (size_t)i * pixel, y + (size_t)i * step, pixel);
}

/* On x and residual r, given as dense floats; heap, dense. What is not written stays NaN. */
static void *run_kernel(struct hrf_kernel *kernel, const struct hrf_graph *graph, const float *x,
                        const float *r, bool in_place)
{
    const struct hrf_node *node = &graph->nodes[0];
    const struct hrf_value *in = &graph->values[node->inputs[HRF_CONV_X]];
    const struct hrf_value *out = &graph->values[node->outputs[0]];
    const bool has_residual = node->inputs[HRF_CONV_RESIDUAL] >= 0;
    HRF_AUTO_FREE void *image = as_it_lies(in, x);
    HRF_AUTO_FREE void *residual = as_it_lies(out, r);
    void *y = as_it_lies(out, has_residual && in_place ? r : NULL);
    HRF_AUTO_FREE void *workspace = hrf_alloc_aligned(kernel->workspace_bytes + 1,
                                                      HRF_BUFFER_ALIGNMENT);
    assert_non_null(workspace);
    memset(workspace, 0xff, kernel->workspace_bytes);
    const void *inputs[N_INPUTS] = { [HRF_CONV_X] = image };
    if (has_residual)
        inputs[HRF_CONV_RESIDUAL] = in_place ? y : residual;
    const struct hrf_kernel_call call = { .inputs = inputs, .output = y, .workspace = workspace };
    must(kernel->run(kernel, &call, &err));
    make_dense(out, y);
    return y;
}

/* Products of bfloat16 by the processor's own instructions: what comes out of the prologue is
 * rounded for them. */
static bool multiplies_pairs(const struct layer *l)
{
    const int64_t each = l->channels / (l->group > 0 ? l->group : 1);
    const bool fits = each % 2 == 0 || (l->way != BY_PRODUCT && l->group <= 1);
    return fits && l->in == HRF_B16 && hrf_cpu_has_avx512_bf16();
}

static void *compute(const struct layer *l, const float *x, const float *r, int32_t n_threads)
{
    const struct hrf_backend_config config = { .n_threads = n_threads };
    HRF_AUTO(hrf_graph) graph = make(l, false);
    struct hrf_backend *backend = NULL;
    struct hrf_kernel *kernel = NULL;
    must(hrf_backend_cpu.create(&config, &backend, &err));
    hrf_backend_cpu.enter(backend);
    const struct hrf_kernel_row *row = rows[l->way][multiplies_pairs(l)];
    must(row->compile(row, backend, graph, &graph->nodes[0], &kernel, &err));
    void *y = run_kernel(kernel, graph, x, r, n_threads % 2 == 0);
    hrf_kernel_destroy(kernel);
    hrf_backend_cpu.destroy(backend);
    return y;
}

/* x is taken through the prologue first, in place. */
static float *compute_truth(const struct layer *l, float *x, const float *r)
{
    const struct hrf_backend_config config = { .n_threads = 1 };
    HRF_AUTO(hrf_graph) graph = make(l, true);
    HRF_AUTO_FREE float *factors = random_floats(HRF_F32, l->channels, l->seed + 3);
    HRF_AUTO_FREE float *shifts = random_floats(HRF_F32, l->channels, l->seed + 4);
    struct hrf_backend *backend = NULL;
    struct hrf_kernel *kernel = NULL;
    const int64_t n_x = l->n * l->channels * l->size[0] * l->size[1];
    for (int64_t i = 0; l->has_prologue && i < n_x; i++)
        x[i] = hrf_round_to(
            multiplies_pairs(l) ? HRF_B16 : HRF_F32,
            fmaxf(fmaf(x[i], factors[i % l->channels], shifts[i % l->channels]), 0));
    must(hrf_backend_ref.create(&config, &backend, &err));
    must(hrf_backend_compile(&hrf_backend_ref, backend, graph, &graph->nodes[0], &kernel, &err));
    float *y = run_kernel(kernel, graph, x, r, false);
    hrf_kernel_destroy(kernel);
    hrf_backend_ref.destroy(backend);
    return y;
}

static int64_t count_outputs(const struct layer *l)
{
    return l->n * l->out_channels * hrf_window_output(&l->window, 0, l->size[0]) *
           hrf_window_output(&l->window, 1, l->size[1]);
}

static void check(const struct layer *l)
{
    static const double steps[] = { [HRF_F32] = 0, [HRF_F16] = 0x1p-11, [HRF_B16] = 0x1p-8 };
    const int64_t n = count_outputs(l);
    HRF_AUTO_FREE float *x = random_floats(l->in, l->n * l->channels * l->size[0] * l->size[1],
                                           l->seed + 5);
    HRF_AUTO_FREE float *r = random_floats(l->out, n, l->seed + 6);
    HRF_AUTO_FREE float *y = hrf_alloc_array((size_t)n, sizeof *y);
    HRF_AUTO_FREE void *alone = compute(l, x, r, 1);
    HRF_AUTO_FREE void *shared = compute(l, x, r, 2 + (int32_t)(l->seed % 2));
    HRF_AUTO_FREE float *truth = compute_truth(l, x, r);
    assert_non_null(y);
    assert_memory_equal(alone, shared, (size_t)n * hrf_dtype_size(l->out));
    hrf_floats_from(l->out, alone, y, n);
    /* Terms are 1 at most: sums grow as the root of their number, and so do their roundings. */
    const double terms = (double)(l->channels * l->window.kernel[0] * l->window.kernel[1]);
    for (int64_t i = 0; i < n; i++) {
        const double limit = 0x1p-24 * (16 + terms) + 1.01 * steps[l->out] * fabs((double)truth[i]);
        if (!(fabs((double)(y[i] - truth[i])) <= limit))
            fail_msg("seed %llu, output %lld of %lld: %g, not %g (%g at most)",
                     (unsigned long long)l->seed, (long long)i, (long long)n, (double)y[i],
                     (double)truth[i], limit);
    }
}

static void random_windows_give_what_the_reference_gives(void **state)
{
    (void)state;
    if (!hrf_cpu_has_avx512()) {
        print_message("this processor has no AVX-512: these kernels are not used\n");
        skip();
    }
    for (uint64_t seed = 0; seed < N_RANDOM; seed++) {
        const struct layer l = random_layer(seed * 16);
        check(&l);
    }
}

static struct layer square(int64_t n, int64_t channels, int64_t size, int64_t out, int64_t kernel,
                           int64_t stride)
{
    struct layer l = { .n = n, .channels = channels, .size = { size, size }, .out_channels = out };
    l.window = hrf_attributes_default().window;
    l.in = l.out = HRF_F32;
    for (int i = 0; i < 2; i++) {
        l.window.kernel[i] = kernel;
        l.window.stride[i] = stride;
        l.window.pad_begin[i] = l.window.pad_end[i] = kernel / 2;
    }
    return l;
}

static void skip_without_bfloat16(void)
{
    if (hrf_cpu_has_avx512_bf16())
        return;
    print_message("this processor has no AVX-512 BF16: pairs are not multiplied\n");
    skip();
}

/* Small weights, by rows of tiles, and large ones, by panels; both as images have them and (2048
 * channels: pixels of 4 KiB; strides, prologues) gathered. */
static void pairs_of_bfloat16_give_what_the_reference_gives(void **state)
{
    (void)state;
    static const int64_t channels[] = { 2, 16, 46, 256, 1030, 2048 };
    static const int64_t out_channels[] = { 31, 32, 40, 256, 1000 };
    static const enum hrf_dtype types[] = { HRF_B16, HRF_B16, HRF_F32, HRF_F16 };
    skip_without_bfloat16();
    for (uint64_t seed = 0; seed < N_PAIRS; seed++) {
        struct hrf_random random = hrf_random_init(seed + 3000);
        struct layer l = square(between(&random, 1, 3), one_of(&random, channels, 6),
                                between(&random, 1, 9), one_of(&random, out_channels, 5), 1,
                                between(&random, 1, 2));
        l.activation = (enum hrf_activation)hrf_random_below(&random, 4);
        l.in = HRF_B16;
        l.out = types[hrf_random_below(&random, 4)];
        l.has_residual = hrf_random_below(&random, 2) == 0;
        l.has_prologue = hrf_random_below(&random, 4) == 0;
        l.seed = seed * 16;
        check(&l);
    }
}

/* One pixel of them, beside a channel that is 0; what the weights are is all one. */
static void pairs_keep_nan_and_infinity_and_take_subnormals_for_zero(void **state)
{
    (void)state;
    static const float numbers[] = { NAN, INFINITY, 0x1p-130f, 0 };
    enum { N = sizeof numbers / sizeof numbers[0], OUT = 32 };
    skip_without_bfloat16();
    struct layer l = square(N, 2, 1, OUT, 1, 1);
    float x[2 * N] = { 0 }, y[N * OUT];
    for (int i = 0; i < N; i++)
        x[2 * i] = numbers[i];
    l.in = l.out = HRF_B16;
    HRF_AUTO_FREE void *bits = compute(&l, x, NULL, 1);
    hrf_floats_from(HRF_B16, bits, y, (int64_t)N * OUT);
    for (int c = 0; c < OUT; c++) {
        assert_true(isnan(y[c]));
        assert_true(isinf(y[OUT + c]));
        assert_true(isfinite(y[2 * OUT + c]) && y[2 * OUT + c] == y[3 * OUT + c]);
    }
}

/* As they are chosen to have one: rows of the product stand where the image has them, whether the
 * threads share out the pixels or the columns. */
static void wide_pixels_with_a_gap_are_products_as_they_stand(void **state)
{
    (void)state;
    if (!hrf_cpu_has_avx512())
        skip();
    for (uint64_t seed = 0; seed < 16; seed++) {
        struct hrf_random random = hrf_random_init(seed);
        struct layer l = square(between(&random, 1, 2), seed % 2 == 0 ? 1024 : 40,
                                between(&random, 1, 9), seed % 3 == 0 ? 40 : 1024, 1,
                                between(&random, 1, 2));
        l.has_residual = seed % 4 < 2;
        l.x_gap = l.channels == 1024 ? 16 : 0;
        l.y_gap = l.out_channels == 1024 ? 16 : 0;
        l.seed = seed * 16;
        check(&l);
    }
}

/* Small weights, for which each thread takes small blocks of tiles, and large ones, for which all
 * threads work on a few blocks. */
static void large_windows_give_what_the_reference_gives(void **state)
{
    (void)state;
    static const int64_t channels[] = { 16, 48, 256, 320 }, out_channels[] = { 16, 64, 112, 240 };
    if (!hrf_cpu_has_avx512())
        skip();
    for (uint64_t seed = 0; seed < N_WINDOWS; seed++) {
        struct hrf_random random = hrf_random_init(seed + 1000);
        struct layer l = random_layer(seed * 16);
        l.way = BY_WINDOWS;
        l.x_gap = l.y_gap = 0;
        l.channels = one_of(&random, channels, sizeof channels / sizeof channels[0]);
        l.out_channels = one_of(&random, out_channels,
                                sizeof out_channels / sizeof out_channels[0]);
        l.window = hrf_attributes_default().window;
        for (int i = 0; i < 2; i++) {
            l.window.kernel[i] = 3;
            l.window.pad_begin[i] = between(&random, 0, 2);
            l.window.pad_end[i] = between(&random, 0, 2);
            l.size[i] = between(&random, 3, 14);
        }
        check(&l);
    }
}

/* One thread does them one after the other, two do both at a time. */
static void lines_of_many_channels_go_in_blocks(void **state)
{
    (void)state;
    if (!hrf_cpu_has_avx512())
        skip();
    struct layer l = square(1, 1024, 28, 32, 3, 1);
    l.way = BY_WINDOWS;
    check(&l);
}

/* The threads share columns, not pixels, where weights are many. */
static void a_window_over_a_whole_image_is_a_product_of_one_row(void **state)
{
    (void)state;
    if (!hrf_cpu_has_avx512())
        skip();
    struct layer l = square(1, 60, 7, 700, 7, 1);
    l.way = BY_WINDOWS;
    memset(l.window.pad_begin, 0, sizeof l.window.pad_begin);
    memset(l.window.pad_end, 0, sizeof l.window.pad_end);
    for (int i = 0; i < 2; i++) {
        l.out = i == 0 ? HRF_F32 : HRF_F16;
        l.has_residual = i == 1;
        check(&l);
    }
}

/* A layer in groups, as wide as several tiles of a row, and how many channels a group has. */
static struct layer layer_in_groups(uint64_t seed, const int64_t *sizes, size_t n_sizes)
{
    struct hrf_random random = hrf_random_init(seed + 5000);
    struct layer l = random_layer(seed * 16);
    const int64_t size = one_of(&random, sizes, n_sizes);
    l.group = between(&random, 2, 7);
    l.channels = l.out_channels = size * l.group;
    l.has_prologue = false;
    for (int i = 0; i < 2; i++) {
        struct hrf_window *w = &l.window;
        w->kernel[i] = i == 1 ? 3 : w->kernel[i];
        w->dilation[i] = 1;
        w->stride[i] = i == 1 ? between(&random, 1, 2) : w->stride[i];
        w->pad_begin[i] = between(&random, 0, w->kernel[i] - 1);
        w->pad_end[i] = between(&random, 0, w->kernel[i] - 1);
        l.size[i] = between(&random, 5, i == 1 ? 40 : 12);
    }
    return l;
}

static bool groups_fit(const struct layer *l)
{
    HRF_AUTO(hrf_graph) graph = make(l, false);
    return fits(&hrf_cpu_groups, graph);
}

static void groups_give_what_the_reference_gives(void **state)
{
    (void)state;
    static const int64_t few[] = { 2, 4, 8, 16 }, many[] = { 24, 72 };
    if (!hrf_cpu_has_avx512())
        skip();
    for (uint64_t seed = 0; seed < N_GROUPS; seed++) {
        const bool has_many = seed % 4 == 3;
        struct layer l = layer_in_groups(seed, has_many ? many : few, has_many ? 2 : 4);
        l.way = has_many ? BY_WINDOWS : BY_GROUPS;
        assert_true(groups_fit(&l) || has_many || l.in == HRF_B16); /* AMX: oneDNN */
        check(&l);
    }
}

/* Products without groups: with the halves of the image side by side, or one register of outputs
 * after the other; several planes of the input. */
static void few_channels_give_what_the_reference_gives(void **state)
{
    (void)state;
    if (!hrf_cpu_has_avx512())
        skip();
    for (uint64_t seed = 0; seed < N_FEW; seed++) {
        struct hrf_random random = hrf_random_init(seed + 7000);
        static const int64_t one[] = { 1 };
        struct layer l = layer_in_groups(seed + 100, one, 1);
        l.group = 0;
        l.channels = between(&random, 1, 40);
        l.out_channels = between(&random, 1, seed % 3 == 0 ? 40 : 8);
        l.size[1] = between(&random, 1, 61);
        l.window.pad_begin[1] = l.window.pad_end[1] = 1;
        l.way = BY_GROUPS;
        check(&l);
    }
}

/* Groups share the registers of their sums, and so do the halves of an image. */
static void infinity_stays_where_it_is_read(void **state)
{
    (void)state;
    if (!hrf_cpu_has_avx512())
        skip();
    for (int64_t size = 2; size <= 16; size *= 2) {
        struct layer l = square(1, 32, 3, 32, 3, 1);
        float x[9 * 32] = { 0 };
        l.group = 32 / size;
        l.way = BY_GROUPS;
        for (int64_t group = 0; group < l.group; group++) {
            x[4 * 32 + size * group] = INFINITY;
            HRF_AUTO_FREE float *y = compute(&l, x, NULL, 1);
            for (int64_t i = 0; i < 9 * 32; i++)
                assert_int_equal(isfinite(y[i]) != 0, i % 32 / size != group);
            x[4 * 32 + size * group] = 0;
        }
    }
    struct layer l = square(1, 3, 9, 5, 3, 1);
    float x[81 * 3] = { 0 };
    l.way = BY_GROUPS;
    x[4 * 9 * 3] = INFINITY; /* the first pixel of the row in the middle */
    HRF_AUTO_FREE float *y = compute(&l, x, NULL, 1);
    for (int i = 0; i < 81 * 5; i++)
        assert_int_equal(isfinite(y[i]) != 0, i / 5 % 9 > 1 || abs(i / 5 / 9 - 4) > 1);
}

static void each_window_has_one_kernel_for_its_size(void **state)
{
    (void)state;
    static const struct {
        enum hrf_dtype type;
        int64_t n, channels, size, out, kernel, stride;
        bool is_product;
    } cases[] = {
        { HRF_F32, 8, 128, 64, 128, 3, 2, false },  { HRF_F32, 8, 3, 256, 64, 7, 2, false },
        { HRF_F32, 2, 3, 224, 768, 16, 16, false }, { HRF_F16, 4, 32, 64, 64, 3, 1, false },
        { HRF_F32, 8, 128, 64, 128, 1, 2, true },   { HRF_F16, 4, 32, 64, 64, 1, 1, true },
    };
    if (!hrf_cpu_has_avx512())
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct layer l = square(cases[i].n, cases[i].channels, cases[i].size, cases[i].out,
                                cases[i].kernel, cases[i].stride);
        l.in = l.out = cases[i].type;
        HRF_AUTO(hrf_graph) graph = make(&l, false);
        assert_int_equal(fits(&hrf_cpu_product, graph), cases[i].is_product);
        assert_true(cases[i].is_product || fits(&hrf_cpu_windows, graph));
    }
}

static void single_pixels_of_bfloat16_are_taken_as_pairs(void **state)
{
    (void)state;
    static const struct {
        int64_t channels, out, kernel, stride;
        bool fits;
    } cases[] = {
        { 64, 256, 1, 1, true },  { 512, 1024, 1, 2, true }, { 256, 1000, 1, 1, true },
        { 48, 48, 1, 1, true },   { 24, 144, 1, 1, true },   { 37, 64, 1, 1, false },
        { 64, 128, 3, 2, false },
    };
    skip_without_bfloat16();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct layer l = square(8, cases[i].channels, 16, cases[i].out, cases[i].kernel,
                                cases[i].stride);
        l.in = l.out = HRF_B16;
        HRF_AUTO(hrf_graph) graph = make(&l, false);
        const bool has_amx = hrf_cpu_native_speed(graph, &graph->nodes[0]) >= HRF_CPU_AMX_SPEED;
        const bool is_taken = cases[i].fits && !has_amx; /* whose products are oneDNN's */
        if (fits(&hrf_cpu_product_of_pairs, graph) != is_taken)
            fail_msg("case %zu: %s", i, is_taken ? "left to others" : "taken");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_windows_give_what_the_reference_gives),
        cmocka_unit_test(pairs_of_bfloat16_give_what_the_reference_gives),
        cmocka_unit_test(pairs_keep_nan_and_infinity_and_take_subnormals_for_zero),
        cmocka_unit_test(wide_pixels_with_a_gap_are_products_as_they_stand),
        cmocka_unit_test(large_windows_give_what_the_reference_gives),
        cmocka_unit_test(lines_of_many_channels_go_in_blocks),
        cmocka_unit_test(a_window_over_a_whole_image_is_a_product_of_one_row),
        cmocka_unit_test(groups_give_what_the_reference_gives),
        cmocka_unit_test(few_channels_give_what_the_reference_gives),
        cmocka_unit_test(infinity_stays_where_it_is_read),
        cmocka_unit_test(each_window_has_one_kernel_for_its_size),
        cmocka_unit_test(single_pixels_of_bfloat16_are_taken_as_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
