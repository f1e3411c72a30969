/* How exact the CPU's convolutions are beside plain sums, on data that are hard to sum: channels,
 * pixels and weights of very different sizes, one sign, sparse ones. The kernels are those that the
 * back end chooses. The bounds are those of product.h. */

#include "engine/backend/cpu/cpu.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/ir/number.h"
#include "tests/unit/engine/backend/cpu/layer.h"

#include <math.h>
#include <string.h>

enum { N_SEEDS = 2, N_STEPS = 150, OUT = 32 };
#define UNIT 0x1p-24 /* half the distance of 1 from the next float */

struct layer {
    int64_t channels, size, kernel, stride, pad;
    const char *implementation; /* what its kernel's name contains where there is AVX-512 */
};

static const struct layer layers[] = {
    { 256, 4, 1, 1, 0, "product" },         { 16, 8, 3, 1, 1, "implicit_product" },
    { 64, 9, 3, 1, 1, "implicit_product" }, { 64, 9, 3, 2, 1, "implicit_product" },
    { 3, 24, 7, 2, 3, "implicit_product" },
};
enum { N_LAYERS = sizeof layers / sizeof layers[0] };

/* x: [size][size][channels], w: [OUT][channels][kernel][kernel]. */
struct data {
    float *x, *w;
    int64_t n_x, n_w;
};

static int64_t side_of(const struct layer *l)
{
    return (l->size + 2 * l->pad - l->kernel) / l->stride + 1;
}

static int64_t count_outputs(const struct layer *l)
{
    return side_of(l) * side_of(l) * OUT;
}

static float *floats(int64_t n)
{
    float *x = hrf_alloc_aligned((size_t)n * sizeof *x, HRF_BUFFER_ALIGNMENT);
    assert_non_null(x);
    return x;
}

static void release(struct data *d)
{
    hrf_free(d->x);
    hrf_free(d->w);
}

/* ---- data ---- */

enum pixels {
    NORMAL,
    RECTIFIED,
    ONE_SIGN,
    ALIKE,
    SPARSE,
    UNEVEN_PIXELS,
    UNEVEN,
    CHANNELS,
    N_PIXELS
};
enum weights { ANY, POSITIVE, SINGLE_TAPS, SUM_OF_ZERO, FEW_CHANNELS, UNEVEN_WEIGHTS, N_WEIGHTS };

static float pixel_of(enum pixels kind, double normal, double rare, double size)
{
    switch (kind) {
    case RECTIFIED:
        return (float)fmax(normal, 0);
    case ONE_SIGN:
        return (float)(fabs(normal) + 1);
    case ALIKE:
        return (float)(1 + normal / 100);
    case SPARSE:
        return rare < 0.03 ? (float)normal : 0;
    case UNEVEN_PIXELS:
    case UNEVEN:
    case CHANNELS:
        return (float)(normal * size);
    case NORMAL:
    case N_PIXELS:
        break;
    }
    return (float)normal;
}

static double any_size(struct hrf_random *random)
{
    return pow(10, 6 * hrf_random_unit(random));
}

static void fill_pixels(const struct layer *l, enum pixels kind, struct hrf_random *random,
                        struct data *d)
{
    HRF_AUTO_FREE float *sizes = floats(l->channels);
    for (int64_t c = 0; c < l->channels; c++)
        sizes[c] = (float)any_size(random);
    double size = 1;
    for (int64_t i = 0; i < d->n_x; i++) {
        const int64_t c = i % l->channels;
        if (kind == UNEVEN || (kind == UNEVEN_PIXELS && c == 0))
            size = any_size(random);
        d->x[i] = pixel_of(kind, hrf_random_normal(random), hrf_random_unit(random),
                           kind == CHANNELS ? (double)sizes[c] : size);
    }
    const int64_t area = l->kernel * l->kernel;
    for (int64_t i = 0; kind == CHANNELS && i < d->n_w; i++)
        d->w[i] /= sizes[i / area % l->channels];
}

/* One kernel of one channel. */
static void fill_taps(enum weights kind, int64_t area, struct hrf_random *random, float *w)
{
    const int64_t kept = hrf_random_below(random, area);
    const bool is_zero = kind == FEW_CHANNELS && hrf_random_unit(random) > 0.05;
    double mean = 0;
    for (int64_t i = 0; i < area; i++) {
        double number = hrf_random_normal(random) / 20;
        if (kind == POSITIVE)
            number = fabs(number);
        if (kind == UNEVEN_WEIGHTS)
            number *= any_size(random);
        if (is_zero || (kind == SINGLE_TAPS && i != kept))
            number = 0;
        w[i] = (float)number;
        mean += number / (double)area;
    }
    for (int64_t i = 0; kind == SUM_OF_ZERO && i < area; i++)
        w[i] -= (float)mean;
}

static void round_all(enum hrf_dtype type, struct data *d)
{
    for (int64_t i = 0; i < d->n_x; i++)
        d->x[i] = hrf_round_to(type, d->x[i]);
    for (int64_t i = 0; i < d->n_w; i++)
        d->w[i] = hrf_round_to(type, d->w[i]);
}

static struct data make_data(const struct layer *l, enum pixels pixels, enum weights weights,
                             uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    const int64_t area = l->kernel * l->kernel;
    struct data d = { .n_x = l->size * l->size * l->channels, .n_w = OUT * l->channels * area };
    d.x = floats(d.n_x);
    d.w = floats(d.n_w);
    for (int64_t i = 0; i < d.n_w; i += area)
        fill_taps(weights, area, &random, d.w + i);
    fill_pixels(l, pixels, &random, &d);
    return d;
}

/* ---- the back end ---- */

static struct hrf_graph *make_graph(const struct layer *l, enum hrf_dtype type, const float *w)
{
    struct hrf_graph *graph = NULL;
    struct hrf_attributes a = hrf_attributes_default();
    int32_t inputs[HRF_CONV_WEIGHTS + 1];
    for (int i = 0; i < 2; i++) {
        a.window.kernel[i] = l->kernel;
        a.window.stride[i] = l->stride;
        a.window.pad_begin[i] = a.window.pad_end[i] = l->pad;
    }
    must(hrf_graph_create("layer", &graph, &err));
    inputs[HRF_CONV_X] = add_value(graph, "x", type, SHAPE(1, l->channels, l->size, l->size), NULL);
    inputs[HRF_CONV_WEIGHTS] = add_value(graph, "w", HRF_F32,
                                         SHAPE(OUT, l->channels, l->kernel, l->kernel), w);
    const int32_t y = add_value(graph, "y", type, SHAPE(1, OUT, side_of(l), side_of(l)), NULL);
    must(hrf_graph_add_node(graph, HRF_OP_CONV, "layer", inputs, HRF_CONV_WEIGHTS + 1, &y, 1, &a,
                            &err));
    return graph;
}

/* Where the processor multiplies bfloat16, oneDNN has the sooner kernel of most layers. */
static bool by_onednn(const struct hrf_graph *graph, const struct hrf_kernel *kernel)
{
    return hrf_cpu_native_speed(graph, &graph->nodes[0]) > 1 &&
           strstr(kernel->implementation, "bf16") != NULL;
}

/* [side][side][OUT], as floats. */
static float *compute(const struct layer *l, enum hrf_dtype type, const struct data *d)
{
    const struct hrf_backend_config config = { .n_threads = 1 };
    const int64_t n = count_outputs(l);
    HRF_AUTO(hrf_graph) graph = make_graph(l, type, d->w);
    HRF_AUTO_FREE float *x = floats(d->n_x), *out = floats(n);
    struct hrf_backend *backend = NULL;
    struct hrf_kernel *kernel = NULL;
    float *y = floats(n);
    must(hrf_backend_cpu.create(&config, &backend, &err));
    hrf_backend_cpu.enter(backend);
    must(hrf_backend_compile(&hrf_backend_cpu, backend, graph, &graph->nodes[0], &kernel, &err));
    if (hrf_cpu_has_avx512() && strstr(kernel->implementation, l->implementation) == NULL &&
        !by_onednn(graph, kernel))
        fail_msg("computed by %s, not %s", kernel->implementation, l->implementation);
    HRF_AUTO_FREE void *workspace = hrf_alloc_aligned(kernel->workspace_bytes + 1,
                                                      HRF_BUFFER_ALIGNMENT);
    assert_non_null(workspace);
    hrf_floats_to(type, d->x, x, d->n_x);
    const void *inputs[] = { [HRF_CONV_X] = x, [HRF_CONV_WEIGHTS] = d->w };
    const struct hrf_kernel_call call = { .inputs = inputs, .output = out, .workspace = workspace };
    must(kernel->run(kernel, &call, &err));
    hrf_floats_from(type, out, y, n);
    hrf_kernel_destroy(kernel);
    hrf_backend_cpu.destroy(backend);
    return y;
}

/* ---- plain sums ---- */

struct sum {
    double exact, magnitudes; /* magnitudes: the sum of the products' */
    float plain;              /* rounded after each product */
};

static struct sum sum_at(const struct layer *l, const struct data *d, int64_t at)
{
    const int64_t area = l->kernel * l->kernel, side = side_of(l);
    const int64_t top = at / OUT / side * l->stride - l->pad;
    const int64_t left = at / OUT % side * l->stride - l->pad;
    struct sum sum = { 0 };
    for (int64_t c = 0; c < l->channels; c++) {
        const float *taps = d->w + (at % OUT * l->channels + c) * area;
        for (int64_t i = 0; i < area; i++) {
            const int64_t y = top + i / l->kernel, u = left + i % l->kernel;
            const bool inside = y >= 0 && y < l->size && u >= 0 && u < l->size;
            const float pixel = inside ? d->x[(y * l->size + u) * l->channels + c] : 0;
            const double product = (double)pixel * (double)taps[i];
            sum.exact += product;
            sum.plain = (float)((double)sum.plain + product);
            sum.magnitudes += fabs(product);
        }
    }
    return sum;
}

static double gamma_of(double n)
{
    return n * UNIT / (1 - n * UNIT);
}

/* The largest error of all outputs in that of plain sums, but at least in one rounding of the
 * largest sum of magnitudes (else data that plain sums happen to sum exactly have no ratio); in 16
 * bits both are rounded to those. Of each float32 output the bound that is proven is checked as
 * well. */
static double error_ratio(const struct layer *l, enum hrf_dtype type, const struct data *d)
{
    const double terms = (double)(l->channels * l->kernel * l->kernel);
    HRF_AUTO_FREE float *y = compute(l, type, d);
    double own = 0, plain = 0, largest = 0;
    for (int64_t i = 0; i < count_outputs(l); i++) {
        const struct sum sum = sum_at(l, d, i);
        const double error = fabs((double)y[i] - sum.exact);
        own = fmax(own, error);
        plain = fmax(plain, fabs((double)hrf_round_to(type, sum.plain) - sum.exact));
        largest = fmax(largest, sum.magnitudes);
        if (type == HRF_F32 && !(error <= gamma_of(terms) * sum.magnitudes))
            fail_msg("%lld channels, %lldx%lld: off by %g, at most %g", (long long)l->channels,
                     (long long)l->kernel, (long long)l->kernel, error,
                     gamma_of(terms) * sum.magnitudes);
    }
    return own > 0 ? own / fmax(plain, UNIT * largest) : 0;
}

static void errors_are_at_most_four_times_those_of_plain_sums(void **state)
{
    (void)state;
    static const enum hrf_dtype types[] = { HRF_F32, HRF_F16, HRF_B16 };
    double worst[N_LAYERS] = { 0 };
    for (int64_t i = 0; i < (int64_t)N_LAYERS * N_PIXELS * N_WEIGHTS * N_SEEDS * 3; i++) {
        const int64_t layer = i % N_LAYERS, kinds = i / N_LAYERS;
        const enum pixels pixels = (enum pixels)(kinds % N_PIXELS);
        const enum weights weights = (enum weights)(kinds / N_PIXELS % N_WEIGHTS);
        const int type = (int)(kinds / N_PIXELS / N_WEIGHTS % 3);
        if (type == 1 && (pixels >= UNEVEN_PIXELS || weights == UNEVEN_WEIGHTS))
            continue; /* beyond what 16 bits hold */
        struct data d = make_data(&layers[layer], pixels, weights, (uint64_t)kinds);
        round_all(types[type], &d);
        const double ratio = error_ratio(&layers[layer], types[type], &d);
        worst[layer] = fmax(worst[layer], ratio);
        if (!(ratio <= 4))
            fail_msg("layer %d, pixels %d, weights %d, type %d: %.2f times", (int)layer, pixels,
                     weights, type, ratio);
        release(&d);
    }
    for (int i = 0; i < N_LAYERS; i++)
        print_message("layer %d: %.2f times at most\n", i, worst[i]);
}

/* The root of the mean square of the errors, in that of the outputs: of random data, chains of k
 * sums give about 0.3 u sqrt(k). Single chains of these layers would give from 7 to 15 u. */
static void errors_do_not_grow_with_the_number_of_terms(void **state)
{
    (void)state;
    static const struct layer long_sums[] = {
        { 2304, 5, 1, 1, 0, "product" }, { 64, 9, 3, 2, 1, "product" },
        { 200, 9, 3, 1, 1, "product" },  { 256, 9, 3, 2, 1, "product" },
        { 48, 9, 5, 1, 2, "product" },
    };
    if (!hrf_cpu_has_avx512())
        skip(); /* oneDNN computes these layers */
    for (size_t i = 0; i < sizeof long_sums / sizeof long_sums[0]; i++) {
        const struct layer *l = &long_sums[i];
        const double terms = (double)(l->channels * l->kernel * l->kernel);
        struct data d = make_data(l, NORMAL, ANY, i);
        HRF_AUTO_FREE float *y = compute(l, HRF_F32, &d);
        double errors = 0, sums = 0;
        for (int64_t at = 0; at < count_outputs(l); at++) {
            const double exact = sum_at(l, &d, at).exact;
            errors += ((double)y[at] - exact) * ((double)y[at] - exact);
            sums += exact * exact;
        }
        print_message("%g terms: %.2f u\n", terms, sqrt(errors / sums) / UNIT);
        assert_true(sqrt(errors / sums) <= 0.45 * sqrt(128 + terms / 128) * UNIT);
        release(&d);
    }
}

/* Changes a number at a time, keeps what makes the error larger. */
static void no_search_finds_data_beyond_the_bound(void **state)
{
    (void)state;
    const struct layer *l = &layers[1]; /* whose image is mostly padded border */
    static const enum hrf_dtype types[] = { HRF_F32, HRF_B16, HRF_F16 };
    for (uint64_t seed = 0; seed < 9; seed++) {
        const enum hrf_dtype type = types[seed / 3];
        const double most = type == HRF_F16 ? 100 : 1e6;
        struct hrf_random random = hrf_random_init(seed);
        struct data d = make_data(l, seed % 2 == 0 || type == HRF_F16 ? SPARSE : UNEVEN,
                                  seed / 2 % 2 == 0 ? SINGLE_TAPS : FEW_CHANNELS, seed);
        round_all(type, &d);
        double worst = error_ratio(l, type, &d);
        for (int step = 0; step < N_STEPS; step++) {
            const bool is_pixel = hrf_random_below(&random, 2) == 0;
            float *const number = is_pixel ? d.x + hrf_random_below(&random, d.n_x)
                                           : d.w + hrf_random_below(&random, d.n_w);
            const float before = *number;
            *number = hrf_random_below(&random, 4) == 0
                          ? 0
                          : hrf_round_to(type, (float)(hrf_random_normal(&random) *
                                                       fmin(any_size(&random), most)));
            const double ratio = error_ratio(l, type, &d);
            if (ratio < worst)
                *number = before;
            else
                worst = ratio;
        }
        print_message("seed %llu: %.2f times\n", (unsigned long long)seed, worst);
        assert_true(worst <= 4);
        release(&d);
    }
}

/* ---- zeros, and pixels outside a window ---- */

static void weights_of_zero_and_windows_of_zeros_give_zero(void **state)
{
    (void)state;
    for (int i = 0; i < N_LAYERS; i++) {
        const struct layer *l = &layers[i];
        struct data d = make_data(l, UNEVEN, UNEVEN_WEIGHTS, 1);
        memset(d.w, 0, (size_t)d.n_w / 2 * sizeof *d.w); /* of the first half of the outputs */
        memset(d.x, 0, (size_t)d.n_x / 2 * sizeof *d.x); /* the upper half of the image */
        HRF_AUTO_FREE float *y = compute(l, HRF_F32, &d);
        for (int64_t at = 0; at < count_outputs(l); at++) {
            const int64_t end = at / OUT / side_of(l) * l->stride - l->pad + l->kernel;
            if (at % OUT < OUT / 2 || end <= l->size / 2)
                assert_true(y[at] == 0);
        }
        release(&d);
    }
}

/* However large it is, or not a number at all. */
static void a_pixel_changes_only_the_outputs_whose_windows_it_lies_in(void **state)
{
    (void)state;
    static const float numbers[] = { 1e30f, NAN, INFINITY };
    for (int i = 0; i < N_LAYERS * 3; i++) {
        const struct layer *l = &layers[i / 3];
        const int64_t middle = l->size / 2 + i % 3 % 2;
        struct data d = make_data(l, NORMAL, ANY, 1);
        HRF_AUTO_FREE float *before = compute(l, HRF_F32, &d);
        for (int64_t c = 0; c < l->channels; c++)
            d.x[(middle * l->size + middle) * l->channels + c] = numbers[i % 3];
        HRF_AUTO_FREE float *after = compute(l, HRF_F32, &d);
        for (int64_t at = 0; at < count_outputs(l); at++) {
            const int64_t y = at / OUT / side_of(l) * l->stride - l->pad;
            const int64_t u = at / OUT % side_of(l) * l->stride - l->pad;
            const bool sees = middle >= y && middle < y + l->kernel && middle >= u &&
                              middle < u + l->kernel;
            if (!sees && memcmp(&before[at], &after[at], sizeof *after) != 0)
                fail_msg("layer %d, output %lld: %g became %g", i / 3, (long long)at,
                         (double)before[at], (double)after[at]);
        }
        release(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_at_most_four_times_those_of_plain_sums),
        cmocka_unit_test(errors_do_not_grow_with_the_number_of_terms),
        cmocka_unit_test(no_search_finds_data_beyond_the_bound),
        cmocka_unit_test(weights_of_zero_and_windows_of_zeros_give_zero),
        cmocka_unit_test(a_pixel_changes_only_the_outputs_whose_windows_it_lies_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
