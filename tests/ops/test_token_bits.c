/* INT8 of transformers: each token has a scale of its own, outlier channels are smoothed, and the
 * embedding keeps its direction where one scale for each tensor loses it. */
#include "base/directory.h"
#include "base/path.h"
#include "engine/onnx/onnx.h"
#include "engine/passes/lower.h"
#include "engine/run/calibrator.h"
#include "engine/run/output_loss.h"
#include "engine/run/sensitivity.h"
#include "tests/emulated-cuda/in_place.h"
#include "tests/ops/build.h"
#include "tests/unit/must.h"
#include "tests/unit/tiler/synthetic_patches.h"

#include <math.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one product ---- */

/* x times a matrix with a bias and, maybe, a residual. */
static struct hrf_graph *make_product(uint64_t seed, const int64_t dims[3], int64_t columns,
                                      bool adds)
{
    struct build b = build_start(seed);
    const int32_t x = build_input(&b, SHAPE(dims[0], dims[1], dims[2]));
    int32_t y = build_binary(&b, HRF_OP_MATMUL, x,
                             build_constant(&b, SHAPE(dims[2], columns), -0.3, 0.3));
    y = build_binary(&b, HRF_OP_ADD, y, build_constant(&b, SHAPE(columns), -1, 1));
    if (adds)
        y = build_binary(&b, HRF_OP_ADD, y, build_input(&b, SHAPE(dims[0], dims[1], columns)));
    return build_finish(&b, &y, 1);
}

/* A norm of the pixels of x; its scale and bias are in [-most, most). */
static int32_t norm_pixels(struct build *b, int32_t x, int64_t channels, double most)
{
    struct hrf_attributes norm = hrf_attributes_default();
    norm.of_each_pixel = true;
    norm.axis = 1;
    norm.epsilon = 1e-5f;
    const int32_t parameters[] = { x, build_constant(b, SHAPE(channels), -most, most),
                                   build_constant(b, SHAPE(channels), -most, most) };
    return build_node(b, HRF_OP_LAYER_NORM, parameters, 3, &norm);
}

/* A convolution of windows of one pixel, maybe with a residual. The norm behind which it stands
 * adds nothing to x, so that its input is exact. */
static struct hrf_graph *make_pixel_product(uint64_t seed, const int64_t dims[3], int64_t columns,
                                            bool adds)
{
    struct build b = build_start(seed);
    const int64_t side = 1 + dims[1] % 7;
    const int32_t image = build_input(&b, SHAPE(dims[0], dims[2], side, 1 + dims[1] / 7));
    const int32_t x = build_binary(&b, HRF_OP_ADD, image, norm_pixels(&b, image, dims[2], 0));
    int32_t y = build_plain_conv(&b, x, dims[2], columns, 1, 1, true);
    if (adds)
        y = build_binary(&b, HRF_OP_ADD, y,
                         build_input(&b, SHAPE(dims[0], columns, side, 1 + dims[1] / 7)));
    return build_finish(&b, &y, 1);
}

static void any_shape_has_the_bits_of_the_reference(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(11);
    for (uint64_t seed = 0; seed < 80; seed += is_emulated() ? 5 : 1) {
        if (is_emulated()) /* products of some cases are too large for any engine of cuDNN's */
            assert_int_equal(setenv("HRF_EMULATED_ELEMENTS", seed % 2 == 1 ? "1" : "1000000", 1),
                             0);
        const int64_t dims[3] = { 1 + (int64_t)hrf_random_below(&random, 3),
                                  1 + (int64_t)hrf_random_below(&random, 70),
                                  1 + (int64_t)hrf_random_below(&random, 150) };
        const int64_t columns = 1 + (int64_t)hrf_random_below(&random, 200);
        struct hrf_graph *graph = seed < 40
                                      ? make_product(seed, dims, columns, seed % 2 == 1)
                                      : make_pixel_product(seed, dims, columns, seed % 2 == 1);
        int64_t n, n_ref;
        float *truth = run_graph_in(graph, "ref", HRF_INT8, 1, seed, 1, &n_ref, NULL);
        for (int32_t threads = 1; threads <= 3; threads++) {
            float *ours = run_graph_in(graph, tested_device(), HRF_INT8, threads, seed, 2, &n,
                                       NULL);
            assert_int_equal(n, n_ref);
            assert_memory_equal(ours, truth, (size_t)n * sizeof *ours);
            hrf_free(ours);
        }
        hrf_free(truth);
        hrf_graph_destroy(graph);
    }
}

/* A position embedding that is computed of constants comes out of a product that no one rounds. */
static void a_product_of_a_constant_stays_in_float32(void **state)
{
    (void)state;
    struct build b = build_start(4);
    const int32_t x = build_input(&b, SHAPE(1, 6, 3, 3));
    const int32_t of_constant = build_plain_conv(&b, build_constant(&b, SHAPE(1, 8, 3, 3), -1, 1),
                                                 8, 6, 1, 1, true);
    int32_t y = build_binary(&b, HRF_OP_ADD, norm_pixels(&b, x, 6, 1), of_constant);
    y = build_plain_conv(&b, y, 6, 10, 1, 1, true);
    struct hrf_graph *graph = build_finish(&b, &y, 1);
    int64_t n;
    float *exact = run_graph_in(graph, "ref", HRF_FP32, 1, 7, 1, &n, NULL);
    float *low = run_graph_in(graph, tested_device(), HRF_INT8, 2, 7, 1, &n, NULL);
    assert_true(relative_difference(low, exact, n) < 0.03);
    hrf_free(exact);
    hrf_free(low);
    hrf_graph_destroy(graph);
}

/* The node that gives the value, once more. */
static int32_t again(struct build *b, int32_t value)
{
    const struct hrf_node *node = &b->graph->nodes[b->graph->values[value].producer];
    const struct hrf_attributes attributes = node->attributes;
    int32_t inputs[4];
    assert_true(node->n_inputs <= 4);
    memcpy(inputs, node->inputs, (size_t)node->n_inputs * sizeof inputs[0]);
    return build_node(b, node->op, inputs, node->n_inputs, &attributes);
}

/* x + product(GELU(product(norm(x)))), of odd seeds SWIGLU in its place; another product reads what
 * the norm or SWIGLU gives, too, if `shows_rows`. */
static struct hrf_graph *make_block(uint64_t seed, bool shows_rows)
{
    const bool is_gated = seed % 2 == 1;
    enum { CHANNELS = 24, HIDDEN = 50 };
    struct build b = build_start(seed);
    struct hrf_attributes norm = hrf_attributes_default();
    const int32_t x = build_input(&b, SHAPE(4, 9, CHANNELS));
    norm.axis = 2;
    norm.epsilon = 1e-5f;
    const int32_t parameters[] = { x, build_constant(&b, SHAPE(CHANNELS), 0.5, 2),
                                   build_constant(&b, SHAPE(CHANNELS), -1, 1) };
    const int32_t normed = build_node(&b, HRF_OP_LAYER_NORM, parameters, 3, &norm);
    int32_t y = build_binary(&b, HRF_OP_MATMUL, normed,
                             build_constant(&b, SHAPE(CHANNELS, HIDDEN), -1, 1));
    int32_t twin = shows_rows && !is_gated ? again(&b, y) : y;
    const int64_t inner = is_gated ? HIDDEN / 2 : HIDDEN;
    y = build_unary(&b, is_gated ? HRF_OP_SWIGLU : HRF_OP_GELU, y);
    y = build_binary(&b, HRF_OP_MATMUL, y, build_constant(&b, SHAPE(inner, CHANNELS), -1, 1));
    twin = shows_rows && is_gated ? again(&b, y) : twin;
    const int32_t outputs[] = { build_binary(&b, HRF_OP_ADD, x, y), twin };
    return build_finish(&b, outputs, shows_rows ? 2 : 1);
}

/* The same, always with GELU, for the pixels of an image. `planted`: a few channels behind the norm
 * are 256 times as large, and the weights that meet them as much smaller. */
static struct hrf_graph *make_pixel_block(uint64_t seed, bool planted, bool shows_norm)
{
    enum { CHANNELS = 24, HIDDEN = 50 };
    struct build b = build_start(seed);
    const int32_t x = build_input(&b, SHAPE(4, CHANNELS, 9, 5));
    const int32_t normed = norm_pixels(&b, x, CHANNELS, 1);
    int32_t y = build_plain_conv(&b, normed, CHANNELS, HIDDEN, 1, 1, true);
    for (int32_t v = 0; v < b.graph->n_values && planted; v++) {
        const struct hrf_value *value = &b.graph->values[v];
        const bool is_first = value->shape.rank == 4 && value->shape.dims[1] == CHANNELS;
        const bool is_norms = value->shape.rank == 1 && value->shape.dims[0] == CHANNELS;
        for (int64_t i = 0;
             value->data != NULL && (is_first || is_norms) && i < hrf_shape_count(&value->shape);
             i++)
            ((float *)value->data)[i] *= i % CHANNELS % 7 != 3 ? 1.0f : is_norms ? 256 : 0x1p-8f;
    }
    const int32_t twin = shows_norm ? again(&b, y) : y;
    y = build_unary(&b, HRF_OP_GELU, y);
    y = build_plain_conv(&b, y, HIDDEN, CHANNELS, 1, 1, true);
    const int32_t outputs[] = { build_binary(&b, HRF_OP_ADD, x, y), twin };
    return build_finish(&b, outputs, shows_norm ? 2 : 1);
}

/* Which are fused with their product where nothing else reads them. */
static void rows_that_are_not_stored_change_no_bit(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        struct hrf_graph *graphs[2];
        float *y[2];
        int64_t n[2];
        for (int k = 0; k < 2; k++) {
            graphs[k] = i < 2 ? make_block(i, k == 1) : make_pixel_block(i, i == 2, k == 1);
            y[k] = run_graph_in(graphs[k], tested_device(), HRF_INT8, 1 + (int32_t)i % 2, 7, 2,
                                &n[k], NULL);
        }
        assert_true(n[0] < n[1]);
        assert_memory_equal(y[0], y[1], (size_t)n[0] * sizeof *y[0]);
        for (int k = 0; k < 2; k++) {
            hrf_free(y[k]);
            hrf_graph_destroy(graphs[k]);
        }
    }
}

static void every_layout_has_the_bytes_of_one_device(void **state)
{
    (void)state;
    static const char *const layouts[] = {
        "data=2",    "stages=2",    "stages=3,microbatches=2", "data=2,stages=2",
        "spatial=2", "spatial=2x2", "data=2,spatial=3"
    };
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0] + 4; i++) {
        struct hrf_graph *graph = i < 4 ? make_block(i, false)
                                        : make_pixel_block(i, i % 2 == 0, false);
        int64_t n, n_all;
        float *one = run_graph_in(graph, tested_device(), HRF_INT8, 1, 7, 1, &n, NULL);
        float *all = run_layout_in(graph, tested_device(), HRF_INT8, layouts[i < 4 ? i : i - 4],
                                   NULL, 7, &n_all);
        assert_int_equal(n, n_all);
        assert_memory_equal(one, all, (size_t)n * sizeof *one);
        hrf_free(one);
        hrf_free(all);
        hrf_graph_destroy(graph);
    }
}

enum { ROWS = 5, DEPTH = 21, COLUMNS = 18 };

/* Channel k of the input is 2^(k % 9) times as large as channel 0, with weights as much smaller. */
static float scale_of(int64_t k)
{
    return ldexpf(1, (int)(k % 9));
}

static struct hrf_session *product_session(const char *device, float strength,
                                           struct hrf_graph **graph)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_session *session = NULL;
    float peaks[DEPTH], means[DEPTH] = { 0 };
    struct hrf_graph *g = make_product(5, (const int64_t[]){ 1, ROWS, DEPTH }, COLUMNS, false);
    for (int32_t v = 0; v < g->n_values; v++)
        if (g->values[v].data != NULL && g->values[v].shape.rank == 2)
            for (int64_t i = 0; i < DEPTH * COLUMNS; i++)
                ((float *)g->values[v].data)[i] /= scale_of(i / COLUMNS);
    for (int64_t k = 0; k < DEPTH; k++)
        peaks[k] = scale_of(k);
    const struct hrf_range range = { .value = g->values[g->inputs[0]].name,
                                     .low = -1,
                                     .high = 1,
                                     .means = means,
                                     .n_means = DEPTH,
                                     .peaks = peaks,
                                     .strength = strength };
    const struct hrf_session_config config = {
        .device = device, .precision = HRF_INT8, .ranges = &range, .n_ranges = 1, .n_threads = 1
    };
    must(hrf_session_create(g, &config, &session, &err), &err);
    *graph = g;
    return session;
}

static void fill_rows(float *x)
{
    struct hrf_random random = hrf_random_init(3);
    for (int64_t i = 0; i < ROWS * DEPTH; i++)
        x[i] = (float)(hrf_random_unit(&random) * 2 - 1) * scale_of(i % DEPTH);
}

static float *exact_product(const struct hrf_graph *graph, const float *x)
{
    const float *w = NULL, *bias = NULL;
    float *y = hrf_calloc((size_t)(ROWS * COLUMNS), sizeof *y);
    for (int32_t v = 0; v < graph->n_values; v++)
        if (graph->values[v].data != NULL)
            *(graph->values[v].shape.rank == 2 ? &w : &bias) = graph->values[v].data;
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) {
        double sum = (double)bias[i % COLUMNS];
        for (int64_t k = 0; k < DEPTH; k++)
            sum += (double)x[i / COLUMNS * DEPTH + k] * (double)w[k * COLUMNS + i % COLUMNS];
        y[i] = (float)sum;
    }
    return y;
}

static double error_with(const char *device, float strength, float *out)
{
    struct hrf_graph *graph;
    struct hrf_session *session = product_session(device, strength, &graph);
    float x[ROWS * DEPTH];
    double error = 0, signal = 0;
    fill_rows(x);
    float *truth = exact_product(graph, x);
    memcpy(hrf_session_input(session, 0), x, sizeof x);
    assert_int_equal(hrf_session_run(session, NULL), HRF_OK);
    memcpy(out, hrf_session_output(session, 0), ROWS * COLUMNS * sizeof *out);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        error += pow((double)out[i] - (double)truth[i], 2);
        signal += pow((double)truth[i], 2);
    }
    hrf_free(truth);
    hrf_session_destroy(session);
    hrf_graph_destroy(graph);
    return sqrt(error / signal);
}

static void smoothing_evens_out_channels_of_different_sizes(void **state)
{
    (void)state;
    float ours[ROWS * COLUMNS], ref[ROWS * COLUMNS];
    const double without = error_with(tested_device(), 0, ours);
    const double with = error_with(tested_device(), 0.5f, ours);
    (void)error_with("ref", 0.5f, ref);
    printf("relative error %.4f without smoothing, %.4f with it\n", without, with);
    assert_true(with < 0.01 && without > 3 * with);
    assert_memory_equal(ours, ref, sizeof ours);
}

static void a_row_of_zeros_gives_the_bias_and_a_broken_one_nan(void **state)
{
    (void)state;
    const char *const devices[] = { tested_device(), "ref" };
    for (int d = 0; d < 2; d++) {
        struct hrf_graph *graph;
        struct hrf_session *session = product_session(devices[d], 0.5f, &graph);
        float *x = hrf_session_input(session, 0), rows[ROWS * DEPTH];
        fill_rows(rows);
        memset(rows, 0, DEPTH * sizeof *rows);
        float *truth = exact_product(graph, rows);
        rows[DEPTH + 20] = NAN;
        rows[2 * DEPTH + 7] = -INFINITY;
        memcpy(x, rows, sizeof rows);
        assert_int_equal(hrf_session_run(session, NULL), HRF_OK);
        const float *y = hrf_session_output(session, 0);
        for (int c = 0; c < COLUMNS; c++) {
            assert_true(fabsf(y[c] - truth[c]) < 1e-6f);
            assert_true(isnan(y[COLUMNS + c]) && isnan(y[2 * COLUMNS + c]));
            assert_true(fabsf(y[3 * COLUMNS + c] - truth[3 * COLUMNS + c]) < 0.05f);
        }
        hrf_free(truth);
        hrf_session_destroy(session);
        hrf_graph_destroy(graph);
    }
}

/* ---- a trained transformer with planted outliers (tools/reference/train_small_vit.py) ---- */

enum { SIDE = 64, PATCH = 256, N_PATCHES = 24, CROPS = 8, N = N_PATCHES * CROPS, WIDTH = 64 };
enum { PIXELS = 3 * SIDE * SIDE, BATCH = 48 };

static void read_patch(const char *path, uint8_t rgb[PATCH * PATCH * 3])
{
    png_image image = { .version = PNG_IMAGE_VERSION };
    assert_true(png_image_begin_read_from_file(&image, path));
    image.format = PNG_FORMAT_RGB;
    assert_true(image.width == PATCH && image.height == PATCH);
    if (!png_image_finish_read(&image, NULL, rgb, 0, NULL))
        fail_msg("%s cannot be read", path);
}

/* CROPS squares of one patch, each H, W, C. */
static void cut_patch(const uint8_t *rgb, float *out)
{
    for (int k = 0; k < CROPS; k++)
        for (int i = 0; i < PIXELS; i++) {
            const int y = i / (3 * SIDE) + k / 4 * 2 * SIDE, x = i / 3 % SIDE + k % 4 * SIDE;
            const float v = (float)rgb[(y * PATCH + x) * 3 + i % 3] / 255;
            out[k * PIXELS + i] = (v - 0.5f) / 0.25f;
        }
}

/* Crops of as many patches of each class: real ones, or made-up ones where those are not there. */
static void make_crops(float *out)
{
    static const char *const classes[] = { "normal", "tumor" };
    const char *shared = getenv("HRF_SHARED_DATA");
    for (int c = 0; c < 2; c++) {
        struct hrf_text_list names = { .items = NULL };
        HRF_AUTO_FREE uint8_t *rgb = synthetic_patches(N_PATCHES / 2, PATCH, c == 1);
        HRF_AUTO_FREE char *folder = hrf_format(
            "%s/camelyon16-patches/%s", shared != NULL ? shared : "../shared/data", classes[c]);
        const bool is_real = hrf_path_list_directory(folder, &names, NULL) == HRF_OK;
        assert_true(!is_real || names.n_items > N_PATCHES / 2);
        if (!is_real)
            printf("skipped: real patches, for '%s' is not there; made-up ones instead\n", folder);
        for (int k = 0; k < N_PATCHES / 2; k++) {
            uint8_t *patch = rgb + (size_t)k * PATCH * PATCH * 3;
            HRF_AUTO_FREE char *path = is_real ? hrf_path_join(folder, names.items[k]) : NULL;
            if (is_real)
                read_patch(path, patch);
            cut_patch(patch, out + (2 * k + c) * CROPS * PIXELS);
        }
        hrf_text_list_release(&names);
    }
}

static struct hrf_session *vit_session(const struct hrf_graph *graph, enum hrf_precision precision,
                                       bool fixed_scales, const struct hrf_calibrated *calibrated,
                                       bool is_observed)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_session *session = NULL;
    const bool is_low = precision == HRF_INT8;
    struct hrf_session_config config = { .device = is_low ? tested_device() : "cpu",
                                         .precision = precision,
                                         .n_threads = 2,
                                         .fixed_scales = fixed_scales,
                                         .every_tensor = is_observed };
    if (calibrated != NULL) {
        config.ranges = calibrated->ranges;
        config.n_ranges = calibrated->n_ranges;
        config.keep = calibrated->keep;
        config.keep_reasons = calibrated->keep_reasons;
        config.keep_precisions = calibrated->keep_precisions;
        config.n_keep = calibrated->n_keep;
    }
    must(hrf_session_create(graph, &config, &session, &err), &err);
    return session;
}

/* Of the crops; the first batch has as many of each class. */
static int n_crops(void)
{
    return is_emulated() ? BATCH : N;
}

/* Embedding and logits of every crop. */
static void run_crops(struct hrf_session *session, const float *crops, float *embeddings,
                      float *logits)
{
    for (int first = 0; first < n_crops(); first += BATCH) {
        memcpy(hrf_session_input(session, 0), crops + first * PIXELS,
               BATCH * PIXELS * sizeof *crops);
        assert_int_equal(hrf_session_run(session, NULL), HRF_OK);
        memcpy(embeddings + first * WIDTH, hrf_session_output(session, 0),
               BATCH * WIDTH * sizeof *embeddings);
        memcpy(logits + first * 2, hrf_session_output(session, 1), BATCH * 2 * sizeof *logits);
    }
}

/* Observes two batches of images, and tries smoothing on the first; ends the float32 session. */
static void calibrate(const struct hrf_graph *graph, struct hrf_session *session,
                      const float *batches[2], struct hrf_calibration **out)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_observations seen = { .items = NULL };
    struct hrf_calibrator calibrator = { .observations = &seen };
    const struct hrf_session_config config = { .device = "cpu",
                                               .precision = HRF_FP32,
                                               .every_tensor = true };
    const size_t n = (size_t)hrf_shape_count(hrf_session_input_shape(session, 0));
    struct hrf_smoothing *smoothing = NULL;
    must(hrf_smoothing_create(graph, &config, &smoothing, &err), &err);
    assert_non_null(smoothing);
    calibrator.smoothing = smoothing;
    hrf_calibrator_watch(session, &calibrator);
    for (int run = 0; run < 3; run++) {
        calibrator.tries_smoothing = run == 2;
        memcpy(hrf_session_input(session, 0), batches[run % 2], n * sizeof(float));
        assert_int_equal(hrf_session_run(session, NULL), HRF_OK);
    }
    must(hrf_fit_all(&seen, HRF_FIT_MSE, out, &err), &err);
    hrf_observations_release(&seen);
    hrf_smoothing_destroy(smoothing);
    hrf_session_destroy(session);
}

/* On every second crop. */
static void calibrate_vit(const struct hrf_graph *graph, const float *crops,
                          struct hrf_calibration **out)
{
    HRF_AUTO_FREE float *half = hrf_alloc_array((size_t)2 * BATCH * PIXELS, sizeof *half);
    assert_non_null(half);
    for (int i = 0; i < 2 * BATCH; i++)
        memcpy(half + i * PIXELS, crops + 2 * i * PIXELS, PIXELS * sizeof *crops);
    calibrate(graph, vit_session(graph, HRF_FP32, false, NULL, true),
              (const float *[]){ half, half + BATCH * PIXELS }, out);
}

static double mean_cosine(const float *a, const float *b)
{
    double sum = 0;
    for (int i = 0; i < n_crops(); i++) {
        double ab = 0, aa = 0, bb = 0;
        for (int k = i * WIDTH; k < (i + 1) * WIDTH; k++) {
            ab += (double)a[k] * (double)b[k];
            aa += (double)a[k] * (double)a[k];
            bb += (double)b[k] * (double)b[k];
        }
        sum += ab / sqrt(aa * bb) / n_crops();
    }
    return sum;
}

static double agreement(const float *a, const float *b)
{
    int n = 0;
    for (int i = 0; i < n_crops(); i++)
        n += (a[2 * i] > a[2 * i + 1]) == (b[2 * i] > b[2 * i + 1]);
    return (double)n / n_crops();
}

static void outliers_cost_the_embedding_nothing(void **state)
{
    (void)state;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_calibration) calibration = NULL;
    struct hrf_calibrated calibrated;
    HRF_AUTO_FREE float *crops = hrf_alloc_array((size_t)N * PIXELS, sizeof *crops);
    enum { RUNS = 3 };
    float *embeddings[RUNS], *logits[RUNS];
    make_crops(crops);
    must(hrf_onnx_read("tests/golden/bits/small_vit.onnx", &graph, &err), &err);
    must(hrf_graph_set_input_shape(graph, 0, &SHAPE(BATCH, 3, SIDE, SIDE), &err), &err);
    must(hrf_graph_infer_shapes(graph, &err), &err);
    calibrate_vit(graph, crops, &calibration);
    hrf_fit_keep_noisy(calibration, HRF_FIT_MIN_SQNR_DB);
    hrf_calibrated_init(calibration, &calibrated);
    for (int k = 0; k < RUNS; k++) { /* float32, INT8, INT8 with fixed scales */
        struct hrf_session *session = vit_session(graph, k == 0 ? HRF_FP32 : HRF_INT8, k == 2,
                                                  k == 0 ? NULL : &calibrated, false);
        embeddings[k] = hrf_alloc_array((size_t)N * WIDTH, sizeof(float));
        logits[k] = hrf_alloc_array((size_t)N * 2, sizeof(float));
        run_crops(session, crops, embeddings[k], logits[k]);
        hrf_session_destroy(session);
    }
    const double ours = mean_cosine(embeddings[1], embeddings[0]);
    const double fixed = mean_cosine(embeddings[2], embeddings[0]);
    printf("cosine with float32: %.5f, with fixed scales %.5f; same class: %.4f, %.4f\n", ours,
           fixed, agreement(logits[1], logits[0]), agreement(logits[2], logits[0]));
    assert_true(ours >= 0.999);
    assert_true(fixed < 0.9);
    assert_true(agreement(logits[1], logits[0]) >= 0.99);
    for (int k = 0; k < RUNS; k++) {
        hrf_free(embeddings[k]);
        hrf_free(logits[k]);
    }
    hrf_calibrated_release(&calibrated);
}

/* ---- pixels ---- */

/* Relative difference of INT8, of the calibration or with fixed scales, from float32. */
static double loss_of(const struct hrf_graph *graph, const struct hrf_calibrated *calibrated,
                      bool fixed)
{
    struct hrf_session *sessions[2] = { vit_session(graph, HRF_FP32, false, NULL, false),
                                        vit_session(graph, HRF_INT8, fixed, calibrated, false) };
    struct hrf_random random = hrf_random_init(7);
    const int64_t n = hrf_shape_count(hrf_session_input_shape(sessions[0], 0));
    double error = 0, signal = 0;
    for (int64_t i = 0; i < n; i++)
        ((float *)hrf_session_input(sessions[0], 0))[i] = (float)hrf_random_unit(&random);
    memcpy(hrf_session_input(sessions[1], 0), hrf_session_input(sessions[0], 0),
           (size_t)n * sizeof(float));
    for (int k = 0; k < 2; k++)
        assert_int_equal(hrf_session_run(sessions[k], NULL), HRF_OK);
    for (int64_t i = 0; i < n; i++) {
        const double exact = (double)((const float *)hrf_session_output(sessions[0], 0))[i];
        error += pow((double)((const float *)hrf_session_output(sessions[1], 0))[i] - exact, 2);
        signal += pow(exact, 2);
    }
    for (int k = 0; k < 2; k++)
        hrf_session_destroy(sessions[k]);
    return sqrt(error / signal);
}

static void large_channels_of_pixels_cost_the_others_little(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) graph = make_pixel_block(3, true, false);
    HRF_AUTO(hrf_calibration) calibration = NULL;
    struct hrf_calibrated calibrated;
    struct hrf_session *session = vit_session(graph, HRF_FP32, false, NULL, true);
    const int64_t n = hrf_shape_count(hrf_session_input_shape(session, 0));
    HRF_AUTO_FREE float *images = hrf_alloc_array((size_t)n, sizeof *images);
    struct hrf_random random = hrf_random_init(8);
    for (int64_t i = 0; i < n; i++)
        images[i] = (float)hrf_random_unit(&random);
    calibrate(graph, session, (const float *[]){ images, images }, &calibration);
    hrf_calibrated_init(calibration, &calibrated);
    const double ours = loss_of(graph, &calibrated, false);
    const double fixed = loss_of(graph, &calibrated, true);
    hrf_calibrated_release(&calibrated);
    printf("relative error %.4f, with fixed scales %.4f\n", ours, fixed);
    assert_true(ours < 0.02 && fixed > 5 * ours);
}

/* Margins are logarithms of ratios of probabilities; a loss is how far an output moved. */
static void the_loss_of_an_output_is_its_turn_or_its_margins_move(void **state)
{
    (void)state;
    const float x[] = { 3, 4 }, y[] = { 4, 3 }, three[] = { 0.5f, 0.125f, 0.25f };
    const float moved[] = { 0.25f, 0.5f, 0.25f }, one = 0.75f, broken[] = { NAN, 1, 0 };
    assert_true(fabs(hrf_output_loss(HRF_LOSS_COSINE, x, y, 2) - (1 - 24.0 / 25)) < 1e-12);
    assert_true(hrf_output_loss(HRF_LOSS_COSINE, three, broken, 3) == 2);
    assert_true(fabs(hrf_output_margin(three, 3) - log(2)) < 1e-12);
    assert_true(fabs(hrf_output_margin(&one, 1) - log(3)) < 1e-12);
    assert_true(isnan(hrf_output_margin(broken, 3)));
    /* The two classes that led, whichever lead now: from log 2 to 0. */
    assert_true(fabs(hrf_output_loss(HRF_LOSS_MARGIN, three, moved, 3) - pow(log(2), 2)) < 1e-12);
    assert_true(hrf_output_loss(HRF_LOSS_MARGIN, three, broken, 3) > 1e4);
}

/* Every layer left INT8: for float32, which gives what float32 gives, or for bfloat16, which loses
 * a little and does not lose the direction. */
static void what_leaves_int8_computes_in_what_it_is_given(struct hrf_calibration *calibration,
                                                          const float *crops)
{
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO_FREE float *embeddings = hrf_alloc_array((size_t)3 * N * WIDTH, sizeof *embeddings);
    HRF_AUTO_FREE float *logits = hrf_alloc_array((size_t)N * 2, sizeof *logits);
    assert_non_null(embeddings);
    must(hrf_onnx_read("tests/golden/bits/small_vit.onnx", &graph, &err), &err);
    must(hrf_graph_set_input_shape(graph, 0, &SHAPE(BATCH, 3, SIDE, SIDE), &err), &err);
    must(hrf_graph_infer_shapes(graph, &err), &err);
    for (int k = 0; k < 3; k++) { /* float32, INT8 with all in float32, in bfloat16 */
        struct hrf_calibrated calibrated;
        hrf_calibrated_init(calibration, &calibrated);
        for (int32_t i = 0; i < calibrated.n_keep; i++)
            calibrated.keep_precisions[i] = k == 2 ? HRF_BF16 : HRF_FP32;
        struct hrf_session *session = vit_session(graph, k == 0 ? HRF_FP32 : HRF_INT8, false,
                                                  k == 0 ? NULL : &calibrated, false);
        run_crops(session, crops, embeddings + k * N * WIDTH, logits);
        hrf_session_destroy(session);
        hrf_calibrated_release(&calibrated);
    }
    const double full = mean_cosine(embeddings + N * WIDTH, embeddings);
    const double narrow = mean_cosine(embeddings + 2 * N * WIDTH, embeddings);
    printf("all layers out of INT8: 1 - cosine %.1e in float32, %.1e in bfloat16\n", 1 - full,
           1 - narrow);
    assert_true(1 - full < 1e-6 && 1 - narrow > 1e-7 && 1 - narrow < 1e-3);
}

/* With a budget of nothing all that loses anything leaves INT8; with a large one, at most what is
 * not faster. */
static void a_budget_takes_layers_out_of_int8(void **state)
{
    (void)state;
    if (is_emulated()) /* before anything is allocated: layers are measured on processors */
        skip();
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_calibration) calibration = NULL;
    struct hrf_observations seen = { .items = NULL };
    struct hrf_calibrated calibrated;
    const struct hrf_session_config config = { .device = "cpu", .n_threads = 1 };
    HRF_AUTO_FREE float *crops = hrf_alloc_array((size_t)N * PIXELS, sizeof *crops);
    make_crops(crops);
    must(hrf_onnx_read("tests/golden/bits/small_vit.onnx", &graph, &err), &err);
    must(hrf_graph_set_input_shape(graph, 0, &SHAPE(BATCH, 3, SIDE, SIDE), &err), &err);
    must(hrf_graph_infer_shapes(graph, &err), &err);
    calibrate_vit(graph, crops, &calibration);
    hrf_calibrated_init(calibration, &calibrated);
    must(hrf_graph_set_input_shape(graph, 0, &SHAPE(HRF_SENSITIVITY_IMAGES, 3, SIDE, SIDE), &err),
         &err);
    must(hrf_graph_infer_shapes(graph, &err), &err);
    must(hrf_sensitivity_measure(graph, &config, &calibrated, crops, 2 * HRF_SENSITIVITY_IMAGES,
                                 &seen, &err),
         &err);
    assert_true(seen.n_layers >= 16 && seen.n_timed == 1); /* 4 in each of 4 blocks */
    double sum = 0;
    int n_losing = 0;
    for (int32_t i = 0; i < seen.n_layers; i++) {
        const struct hrf_observed_layer *layer = &seen.layers[i];
        assert_int_equal(layer->n_images, HRF_SENSITIVITY_IMAGES);
        for (int k = 0; k < HRF_OBSERVE_TIMES; k++)
            assert_true(layer->seconds[k] > 0 && seen.seconds[k] > layer->seconds[k]);
        sum += layer->loss / HRF_SENSITIVITY_IMAGES;
        n_losing += layer->loss > 0;
    }
    printf("%d layers, losses %.1e in all\n", seen.n_layers, sum);
    assert_int_equal(seen.n_whole, 2 * HRF_SENSITIVITY_IMAGES);
    printf("together %.1e\n", seen.whole_loss / (double)seen.n_whole);
    assert_true(seen.whole_loss > 0);
    assert_true(n_losing >= 16 && sum > 1e-7 && sum < 1e-3);
    const size_t before = calibration->n_keep;
    must(hrf_fit_budget(&seen, 0, calibration, &err), &err);
    for (size_t i = before; i < calibration->n_keep; i++)
        assert_non_null(strstr(calibration->keep[i].reason, "INT8 is not faster here"));
    must(hrf_fit_budget(&seen, 1, calibration, &err), &err);
    assert_true(calibration->n_keep - before >= (size_t)n_losing);
    HRF_AUTO_FREE char *words = hrf_fit_budget_text(calibration);
    assert_non_null(strstr(words, "the layers in INT8 take about 0.00e+00"));
    hrf_observations_release(&seen);
    hrf_calibrated_release(&calibrated);
    what_leaves_int8_computes_in_what_it_is_given(calibration, crops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_shape_has_the_bits_of_the_reference),
        cmocka_unit_test(large_channels_of_pixels_cost_the_others_little),
        cmocka_unit_test(a_product_of_a_constant_stays_in_float32),
        cmocka_unit_test(rows_that_are_not_stored_change_no_bit),
        cmocka_unit_test(every_layout_has_the_bytes_of_one_device),
        cmocka_unit_test(smoothing_evens_out_channels_of_different_sizes),
        cmocka_unit_test(a_row_of_zeros_gives_the_bias_and_a_broken_one_nan),
        cmocka_unit_test(outliers_cost_the_embedding_nothing),
        cmocka_unit_test(the_loss_of_an_output_is_its_turn_or_its_margins_move),
        cmocka_unit_test(a_budget_takes_layers_out_of_int8),
    };
    return cmocka_run_group_tests(tests, put_device_in_place, tidy_up_device);
}
