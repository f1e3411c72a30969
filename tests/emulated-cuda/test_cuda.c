/* The CUDA back end on the emulated GPU: every operator against ref, three runs of each: queued,
 * recorded, replayed. What a real GPU adds is speed and its own rounding; order of work, memory,
 * packing of weights, graphs handed to cuDNN and own kernels are these. */
#include "tests/unit/unit.h"

#include "engine/ir/op.h"
#include "engine/model/model.h"
#include "engine/run/made_ranges.h"
#include "engine/run/session.h"
#include "engine/run/session_private.h"
#include "tests/emulated-cuda/in_place.h"
#include "tests/ops/cases.h"
#include "tests/ops/nets.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sums are in float here and in double there: up to a few thousand terms. */
static double tolerance_of(const struct op_case *row)
{
    return row->tolerance > 2e-5 ? row->tolerance : 2e-5;
}

/* The emulation is slow; the same generator makes the cases, so fewer of them do. */
#ifdef __SANITIZE_ADDRESS__ /* five times slower still */
enum { MOST_CASES = 2, MOST_LOW_CASES = 1 };
#else
enum { MOST_CASES = 6, MOST_LOW_CASES = 2 };
#endif

/* The back end says that it has no kernel for one of the nodes: the only reason for which a case
 * may be left out. */
static bool is_refused(const struct hrf_graph *graph, enum hrf_precision precision)
{
    HRF_AUTO(hrf_session) session = NULL;
    struct hrf_error err = { .text = "" };
    const struct hrf_session_config config = { .device = "cuda",
                                               .precision = precision,
                                               .n_threads = 1 };
    return hrf_session_create(graph, &config, &session, &err) != HRF_OK &&
           strstr(err.text, ": run it with --device cpu") != NULL;
}

static void every_operator_agrees_with_the_reference(void **state)
{
    (void)state;
    for (int i = 0; i < n_op_cases; i++) {
        double worst = 0;
        int n_run = 0;
        for (int k = 0; k < op_cases[i].n_cases && n_run < MOST_CASES; k++) {
            const uint64_t seed = (uint64_t)(1000 * i + k);
            struct build b = build_start(seed);
            const int32_t output = op_cases[i].make(&b);
            struct hrf_graph *graph = build_finish(&b, &output, 1);
            int64_t n, n_ref;
            if (is_refused(graph, HRF_FP32)) {
                hrf_graph_destroy(graph);
                continue;
            }
            n_run++;
            float *truth = run_graph(graph, "ref", 1, seed, 1, &n_ref);
            float *ours = run_graph(graph, "cuda", 1, seed, 3, &n);
            assert_int_equal(n, n_ref);
            const double difference = relative_difference(ours, truth, n);
            if (!(difference <= tolerance_of(&op_cases[i])))
                fail_msg("%s, seed %llu: %g of the largest output, at most %g is right",
                         op_cases[i].name, (unsigned long long)seed, difference,
                         tolerance_of(&op_cases[i]));
            worst = difference > worst ? difference : worst;
            hrf_free(truth);
            hrf_free(ours);
            hrf_graph_destroy(graph);
        }
        printf("%-20s %d cases, worst %.1e\n", op_cases[i].name, n_run, worst);
        if (n_run == 0)
            fail_msg("%s: no case has a CUDA kernel", op_cases[i].name);
    }
}

/* The kernel of the last node of each case, by a library that is otherwise: results are right. */
static void check_gradient_kernels(enum hrf_op op, const char *library, const char *kernel)
{
    int n_run = 0, n_there = 0;
    char *before = hrf_strdup(getenv("XDG_CACHE_HOME")), own[4200];
    snprintf(own, sizeof own, "%s/of-%s", before, library); /* another has kept its plans */
    assert_int_equal(setenv("XDG_CACHE_HOME", own, 1), 0);
    assert_int_equal(setenv("HRF_EMULATED_CUDNN", library, 1), 0);
    for (int i = 0; i < n_op_cases; i++)
        for (int k = 0; op_cases[i].op == op && k < MOST_CASES; k++, n_run++) {
            const uint64_t seed = (uint64_t)(1000 * i + k);
            struct build b = build_start(seed);
            const int32_t output = op_cases[i].make(&b);
            struct hrf_graph *graph = build_finish(&b, &output, 1);
            const struct hrf_session_config config = { .device = "cuda", .precision = HRF_FP32 };
            struct hrf_session *session = NULL;
            struct hrf_error err = { .text = "" };
            int64_t n, n_ref;
            float *truth = run_graph(graph, "ref", 1, seed, 1, &n_ref);
            float *ours = run_graph(graph, "cuda", 1, seed, 3, &n);
            const double difference = relative_difference(ours, truth, n);
            if (!(difference <= tolerance_of(&op_cases[i])))
                fail_msg("%s, seed %llu, %s: %g of the largest output", op_cases[i].name,
                         (unsigned long long)seed, library, difference);
            assert_int_equal(hrf_session_create(graph, &config, &session, &err), HRF_OK);
            n_there += strcmp(session->kernels[session->n_kernels - 1]->implementation, kernel) ==
                       0;
            hrf_session_destroy(session);
            hrf_free(truth);
            hrf_free(ours);
            hrf_graph_destroy(graph);
        }
    unsetenv("HRF_EMULATED_CUDNN");
    assert_int_equal(setenv("XDG_CACHE_HOME", before, 1), 0);
    hrf_free(before);
    printf("%s, '%s': %d of %d by '%s'\n", hrf_op_name(op), library, n_there, n_run, kernel);
    assert_true(n_there > n_run / 2);
}

static void gradients_of_convolutions_are_cudnn_s_or_our_own(void **state)
{
    (void)state;
    check_gradient_kernels(HRF_OP_CONV_WEIGHT_GRADIENT, "", "cudnn engine 8");
    check_gradient_kernels(HRF_OP_CONV_WEIGHT_GRADIENT, "refuses-gradients", "cuda");
    check_gradient_kernels(HRF_OP_CONV_TRANSPOSE, "refuses-gradients", "own");
}

static void a_wrong_gradient_s_engine_is_left_out(void **state)
{
    struct build b = build_start(4);
    struct hrf_attributes a = hrf_attributes_default();
    struct hrf_error err = { .text = "" };
    struct hrf_session *session = NULL;
    char *before = hrf_strdup(getenv("XDG_CACHE_HOME")), fresh[4200];
    (void)state;
    snprintf(fresh, sizeof fresh, "%s/skewed", before);
    for (int i = 0; i < 2; i++) {
        a.window.kernel[i] = 3;
        a.window.pad_begin[i] = a.window.pad_end[i] = 1;
    }
    const int32_t inputs[] = { build_input(&b, SHAPE(2, 4, 9, 9)),
                               build_input(&b, SHAPE(2, 6, 9, 9)) };
    const int32_t output = build_node(&b, HRF_OP_CONV_WEIGHT_GRADIENT, inputs, 2, &a);
    struct hrf_graph *graph = build_finish(&b, &output, 1);
    const struct hrf_session_config config = { .device = "cuda", .precision = HRF_TF32 };
    assert_int_equal(setenv("XDG_CACHE_HOME", fresh, 1), 0);
    assert_int_equal(setenv("HRF_EMULATED_CUDNN", "skews-gradient=7", 1), 0);
    assert_int_equal(hrf_session_create(graph, &config, &session, &err), HRF_OK);
    assert_non_null(strstr(hrf_session_notes(session), "engine 7 for a convolution is left out"));
    assert_string_equal(session->kernels[0]->implementation, "cudnn engine 8");
    unsetenv("HRF_EMULATED_CUDNN");
    assert_int_equal(setenv("XDG_CACHE_HOME", before, 1), 0);
    hrf_session_destroy(session);
    hrf_graph_destroy(graph);
    hrf_free(before);
}

/* x times y: both made by the run, or y the model's. */
static void check_product(struct hrf_shape x, struct hrf_shape y, bool is_constant,
                          enum hrf_precision precision, double limit)
{
    struct build b = build_start(3);
    struct hrf_error err = { .text = "" };
    b.between_products = precision == HRF_FP16 || precision == HRF_BF16; /* fp16, bf16 */
    const int32_t one = build_input(&b, x);
    const int32_t other = is_constant ? build_constant(&b, y, -1, 1) : build_input(&b, y);
    const int32_t inputs[] = { one, other };
    const int32_t output = build_node(&b, HRF_OP_MATMUL, inputs, 2, NULL);
    struct hrf_graph *graph = build_finish(&b, &output, 1);
    const struct hrf_session_config config = { .device = "cuda", .precision = precision };
    struct hrf_session *session = NULL;
    int64_t n, n_ref;
    float *truth = run_graph(graph, "ref", 1, 3, 1, &n_ref);
    float *ours = run_graph_in(graph, "cuda", precision, 1, 3, 3, &n, NULL);
    assert_int_equal(n, n_ref);
    const double difference = relative_difference(ours, truth, n);
    assert_true(difference <= limit);
    assert_int_equal(hrf_session_create(graph, &config, &session, &err), HRF_OK);
    bool is_there = false;
    for (int32_t i = 0; i < session->n_kernels; i++)
        is_there |= session->kernels[i] != NULL &&
                    strcmp(session->kernels[i]->implementation, "cublasLt") == 0;
    assert_int_equal(is_there, !is_constant); /* by constants: a convolution of one pixel */
    hrf_session_destroy(session);
    hrf_free(truth);
    hrf_free(ours);
    hrf_graph_destroy(graph);
}

static void products_of_values_go_to_cublas_however_they_lie(void **state)
{
    (void)state;
    check_product(SHAPE(7, 5), SHAPE(5, 9), false, HRF_FP32, 2e-5);
    check_product(SHAPE(2, 3, 7, 5), SHAPE(2, 3, 5, 9), false, HRF_FP32, 2e-5);
    check_product(SHAPE(2, 3, 7, 5), SHAPE(5, 9), true, HRF_FP32, 2e-5);
    check_product(SHAPE(3, 7, 5), SHAPE(1, 5, 9), false, HRF_TF32, 2e-5);
    check_product(SHAPE(3, 7, 5), SHAPE(5, 9), true, HRF_FP16, 0.003);
    check_product(SHAPE(2, 3, 7, 5), SHAPE(2, 3, 5, 9), false, HRF_BF16, 0.02);
}

/* Two heads of 16 channels in the rows of one product, over more tokens than one tile of the own
 * kernel has. */
static void check_attention(enum hrf_precision precision, const char *library, bool by_cudnn,
                            double limit)
{
    struct build b = build_start(3);
    struct hrf_error err = { .text = "" };
    struct hrf_attributes a = hrf_attributes_default();
    const struct hrf_attributes plain = a;
    const int32_t tokens[] = { build_input(&b, SHAPE(2, 70, 24)),
                               build_constant(&b, SHAPE(24, 96), -1, 1), HRF_NO_VALUE };
    const int32_t x = build_node(&b, HRF_OP_GEMM, tokens, 3, &plain);
    a.attention.heads = 2;
    a.attention.head_size = 16;
    a.attention.scale = 0.25f;
    for (int i = 0; i < 3; i++) {
        a.attention.first[i] = 32 * i;
        a.attention.stride[i] = 16;
    }
    const int32_t y[] = { build_node(&b, HRF_OP_TOKEN_ATTENTION, (const int32_t[]){ x, x, x }, 3,
                                     &a),
                          build_constant(&b, SHAPE(32, 7), -1, 1), HRF_NO_VALUE };
    const int32_t output = build_node(&b, HRF_OP_GEMM, y, 3, &plain);
    struct hrf_graph *graph = build_finish(&b, &output, 1);
    struct hrf_made_ranges made = { .fused = NULL };
    assert_int_equal(hrf_made_ranges_init(graph, &made, &err), HRF_OK);
    const struct hrf_session_config config = {
        .device = "cuda", .precision = precision, .ranges = made.ranges, .n_ranges = made.n_ranges
    };
    struct hrf_session *session = NULL;
    int64_t n, n_ref;
    float *truth = run_graph(graph, "ref", 1, 3, 1, &n_ref);
    assert_int_equal(setenv("HRF_EMULATED_CUDNN", library, 1), 0);
    float *ours = run_graph_in(graph, "cuda", precision, 1, 3, 3, &n, NULL);
    assert_int_equal(n, n_ref);
    assert_true(relative_difference(ours, truth, n) <= limit);
    assert_int_equal(hrf_session_create(graph, &config, &session, &err), HRF_OK);
    unsetenv("HRF_EMULATED_CUDNN");
    bool is_there = false;
    for (int32_t i = 0; i < session->n_kernels; i++)
        is_there |= session->kernels[i] != NULL &&
                    strcmp(session->kernels[i]->implementation, "cudnn attention") == 0;
    assert_int_equal(is_there, by_cudnn);
    assert_int_equal(strstr(hrf_session_notes(session), "attention runs by an own kernel") != NULL,
                     *library != '\0');
    hrf_session_destroy(session);
    hrf_made_ranges_release(&made);
    hrf_free(truth);
    hrf_free(ours);
    hrf_graph_destroy(graph);
}

static void attention_in_16_bits_goes_to_cudnn_if_it_is_right(void **state)
{
    (void)state;
    check_attention(HRF_BF16, "", true, 0.02);
    check_attention(HRF_FP16, "", true, 0.003);
    check_attention(HRF_FP32, "", false, 1e-5);
    check_attention(HRF_INT8, "", true, 0.03); /* between products that round their rows */
    check_attention(HRF_FP16, "truncates", false, 0.003);
}

/* 16 bytes of channels at a time where they come in whole ones; the window reaches over the border
 * and skips pixels. */
static void maxima_are_the_same_bits_as_the_reference_s(void **state)
{
    static const int64_t channels[] = { 16, 20, 21 };
    (void)state;
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
        struct build b = build_start(11 + i);
        struct hrf_attributes a = hrf_attributes_default();
        const int32_t x = build_input(&b, SHAPE(2, channels[i], 13, 10));
        for (int k = 0; k < 2; k++) {
            a.window.kernel[k] = 3;
            a.window.stride[k] = 2;
            a.window.pad_begin[k] = a.window.pad_end[k] = 1;
        }
        const int32_t output = build_node(&b, HRF_OP_MAX_POOL, &x, 1, &a);
        struct hrf_graph *graph = build_finish(&b, &output, 1);
        int64_t n, n_ref;
        float *truth = run_graph(graph, "ref", 1, 3, 1, &n_ref);
        float *ours = run_graph(graph, "cuda", 1, 3, 3, &n);
        assert_int_equal(n, n_ref);
        assert_memory_equal(ours, truth, (size_t)n * sizeof *ours);
        hrf_free(truth);
        hrf_free(ours);
        hrf_graph_destroy(graph);
    }
}

/* A quotient by a number near zero is as far off as one likes; rounding decides which of a window's
 * numbers is the greatest and gets the gradient. */
static void check_precision(enum hrf_precision precision, double limit)
{
    for (int i = 0; i < n_op_cases; i++) {
        double sum = 0;
        if (op_cases[i].op == HRF_OP_DIV || op_cases[i].op == HRF_OP_MATMUL ||
            op_cases[i].op == HRF_OP_MAX_POOL_GRADIENT)
            continue;
        for (int k = 0; k < MOST_LOW_CASES; k++) {
            const uint64_t seed = (uint64_t)(1000 * i + k);
            struct build b = build_start(seed);
            b.between_products = true;
            const int32_t output = op_cases[i].make(&b);
            struct hrf_graph *graph = build_finish(&b, &output, 1);
            int64_t n, n_full;
            if (is_refused(graph, HRF_FP32)) {
                hrf_graph_destroy(graph);
                continue;
            }
            float *full = run_graph(graph, "ref", 1, seed, 1, &n_full);
            float *ours = run_graph_in(graph, "cuda", precision, 1, seed, 3, &n, NULL);
            sum += relative_difference(ours, full, n_full);
            hrf_free(full);
            hrf_free(ours);
            hrf_graph_destroy(graph);
        }
        printf("%-5s %-20s on average %.1e from float32\n", hrf_precision_name(precision),
               op_cases[i].name, sum / MOST_LOW_CASES);
        if (sum / MOST_LOW_CASES > limit)
            fail_msg("%s in %s: %g of the largest output from float32 on average, at most %g is "
                     "right",
                     op_cases[i].name, hrf_precision_name(precision), sum / MOST_LOW_CASES, limit);
    }
}

static void int8_is_near_float32(void **state)
{
    (void)state;
    check_precision(HRF_INT8, 0.08);
}

static void bf16_is_near_float32(void **state)
{
    (void)state;
    check_precision(HRF_BF16, 0.02);
}

static void fp16_is_near_float32(void **state)
{
    (void)state;
    check_precision(HRF_FP16, 0.003);
}

/* ---- starting ---- */

/* What a session for "cuda" says on that machine. */
static void start_on(const char *machine, enum hrf_status status, const char *words)
{
    struct build b = build_start(1);
    const int32_t x = build_input(&b, SHAPE(1, 16, 40, 40));
    const int32_t output = build_plain_conv(&b, x, 16, 64, 3, 1, true);
    struct hrf_graph *graph = build_finish(&b, &output, 1);
    const struct hrf_session_config config = { .device = "cuda", .precision = HRF_FP32 };
    struct hrf_session *session = NULL;
    struct hrf_error err = { .text = "" };
    assert_int_equal(setenv("HRF_EMULATED_CUDA", machine, 1), 0);
    const enum hrf_status given = hrf_session_create(graph, &config, &session, &err);
    unsetenv("HRF_EMULATED_CUDA");
    if (given != status || strstr(err.text, words) == NULL)
        fail_msg("%s: status %s, '%s'", machine, hrf_status_row(given)->name, err.text);
    assert_null(session);
    hrf_graph_destroy(graph);
}

static void a_machine_without_a_working_gpu_is_told_in_a_sentence(void **state)
{
    (void)state;
    start_on("no-driver", HRF_E_UNSUPPORTED, "no NVIDIA driver is installed");
    start_on("stub-driver", HRF_E_UNSUPPORTED, "is the toolkit's stub, not a driver");
    start_on("old-driver", HRF_E_UNSUPPORTED,
             "the NVIDIA driver is too old: it serves CUDA up to 12.2 and this build needs 13.0");
    start_on("no-device", HRF_E_UNSUPPORTED, "no NVIDIA GPU is visible");
    start_on("old-device", HRF_E_UNSUPPORTED, "has compute capability 7.0; this build needs 8.0");
    start_on("no-driver", HRF_E_UNSUPPORTED, "use device cpu instead");
}

static void memory_that_runs_out_is_told_with_the_numbers(void **state)
{
    (void)state;
    start_on("memory=300000", HRF_E_NOMEM, "are needed; use a smaller batch");
}

/* ---- whole networks ---- */

static struct hrf_graph *make_network(const char *name, int64_t size, int64_t batch)
{
    struct hrf_graph *graph = NULL;
    struct hrf_error err = { .text = "" };
    if (hrf_model_make(name, 3, size, 1, &graph, &err) != HRF_OK)
        fail_msg("%s", err.text);
    struct hrf_shape shape = graph->values[graph->inputs[0]].shape;
    shape.dims[0] = batch;
    assert_int_equal(hrf_graph_set_input_shape(graph, 0, &shape, &err), HRF_OK);
    assert_int_equal(hrf_graph_infer_shapes(graph, &err), HRF_OK);
    return graph;
}

static void networks_agree_with_the_reference(void **state)
{
    static const struct {
        const char *name;
        enum hrf_precision precision;
        int64_t size;
        double limit;
    } rows[] = {
        { "resnet:2,16", HRF_FP32, 32, 1e-5 }, { "resnet:2,16", HRF_TF32, 32, 1e-5 },
        { "resnet:2,16", HRF_BF16, 32, 0.05 }, { "resnet:2,16", HRF_INT8, 32, 0.1 },
        { "unet:3,8", HRF_FP32, 32, 1e-5 },    { "unet:3,8", HRF_INT8, 32, 0.2 },
        { "googlenet", HRF_FP32, 32, 1e-5 },   { "amoebanet-d:3,16", HRF_FP32, 64, 1e-5 }
    };
    (void)state;
    struct hrf_graph *graph = NULL;
    float *truth = NULL;
    int64_t n, n_ref = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (i == 0 || strcmp(rows[i].name, rows[i - 1].name) != 0) { /* once for all precisions */
            hrf_free(truth);
            hrf_graph_destroy(graph);
            graph = make_network(rows[i].name, rows[i].size, 2);
            truth = run_graph(graph, "ref", 2, 7, 1, &n_ref);
        }
        float *ours = run_graph_in(graph, "cuda", rows[i].precision, 1, 7, 3, &n, NULL);
        const double difference = relative_difference(ours, truth, n);
        printf("%-16s %-5s %.1e of the largest output\n", rows[i].name,
               hrf_precision_name(rows[i].precision), difference);
        assert_int_equal(n, n_ref);
        assert_true(difference <= rows[i].limit);
        hrf_free(ours);
    }
    hrf_free(truth);
    hrf_graph_destroy(graph);
}

/* Attention, its norms and gates as operators of their own; tokens shared by ranks. */
static void transformers_agree_with_the_reference(void **state)
{
    static const struct {
        enum hrf_precision precision;
        const char *layout;
        double limit;
    } rows[] = { { HRF_FP32, NULL, 1e-5 },
                 { HRF_BF16, NULL, 0.05 },
                 { HRF_FP16, NULL, 0.01 },
                 { HRF_FP32, "spatial=2", 1e-5 },
                 { HRF_INT8, NULL, 0.3 } };
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        const size_t i = seed % (sizeof rows / sizeof rows[0]);
        struct hrf_graph *graph = make_sequence_net(seed);
        int64_t n, n_ref;
        float *truth = run_graph(graph, "ref", 2, seed, 1, &n_ref);
        float *ours = rows[i].layout != NULL
                          ? run_layout_in(graph, "cuda", rows[i].precision, rows[i].layout, NULL,
                                          seed, &n)
                          : run_graph_in(graph, "cuda", rows[i].precision, 1, seed, 3, &n, NULL);
        const double difference = relative_difference(ours, truth, n);
        printf("transformer %d   %-5s %s %.1e of the largest output\n", (int)seed,
               hrf_precision_name(rows[i].precision), rows[i].layout != NULL ? rows[i].layout : "",
               difference);
        assert_int_equal(n, n_ref);
        assert_true(difference <= rows[i].limit);
        hrf_free(truth);
        hrf_free(ours);
        hrf_graph_destroy(graph);
    }
}

/* As much of a network as pixels meet: the first convolution with its window, another, classes. */
static struct hrf_graph *make_pixel_network(int64_t size, int64_t n_classes)
{
    struct build b = build_start(9);
    int32_t x = build_input(&b, SHAPE(1, 3, size, size));
    x = build_unary(&b, HRF_OP_RELU, build_plain_conv(&b, x, 3, 16, 7, 2, true));
    x = build_unary(&b, HRF_OP_RELU, build_plain_conv(&b, x, 16, 16, 3, 2, true));
    x = build_plain_conv(&b, x, 16, n_classes, 1, 1, true);
    x = build_unary(&b, HRF_OP_GLOBAL_AVERAGE_POOL, x);
    return build_finish(&b, &x, 1);
}

/* The bits of the floats that the form says, in the type that the network computes in. `borrows`:
 * the device takes the bytes from where they are fed, late. */
static void check_pixels(enum hrf_precision precision, enum hrf_dtype type, bool borrows)
{
    const struct hrf_pixel_form form = { { 0.017f, 0.018f, 0.019f }, { -2.1f, -2.0f, -1.8f } };
    enum { SIZE = 32, N = SIZE * SIZE * 3, BATCHES = 5, CLASSES = 3 };
    struct hrf_graph *graph = make_pixel_network(SIZE, CLASSES);
    struct hrf_made_ranges made = { .fused = NULL };
    struct hrf_session_config config = { .device = "cuda", .precision = precision };
    struct hrf_session *floats = NULL, *pixels = NULL;
    struct hrf_error err = { .text = "" };
    float expected[BATCHES][CLASSES];
    assert_int_equal(hrf_made_ranges_init(graph, &made, &err), HRF_OK);
    config.ranges = made.ranges;
    config.n_ranges = made.n_ranges;
    assert_int_equal(hrf_session_create(graph, &config, &floats, &err), HRF_OK);
    config.pixels = &form;
    config.borrows_pixels = borrows;
    assert_int_equal(hrf_session_create(graph, &config, &pixels, &err), HRF_OK);
    void *lent[2] = { NULL };
    for (int i = 0; i < 2; i++)
        assert_int_equal(hrf_session_take_host(pixels, N, &lent[i], &err), HRF_OK);
    assert_int_equal(hrf_session_depth(pixels), 2);
    assert_int_equal(pixels->graph->values[pixels->graph->inputs[0]].dtype, type);
    for (int k = 0; k < BATCHES; k++) {
        for (int i = 0; i < N; i++)
            hrf_session_input(floats, 0)[i] = fmaf((float)((i * 7 + k * 31) % 256),
                                                   form.scale[i % 3], form.shift[i % 3]);
        assert_int_equal(hrf_session_run(floats, &err), HRF_OK);
        memcpy(expected[k], hrf_session_output(floats, 0), sizeof expected[k]);
    }
    /* Two batches under way, each in a place of its own. */
    for (int k = 0; k <= BATCHES; k++) {
        _Alignas(64) uint8_t own[N];
        uint8_t *batch = borrows ? lent[k % 2] : own;
        memset(batch, 0, N);
        for (int i = 0; i < N && k < BATCHES && !borrows; i++)
            batch[i] = (uint8_t)((i * 7 + k * 31) % 256);
        if (k < BATCHES)
            hrf_session_feed(pixels, batch);
        memset(batch, 0, N); /* it was copied */
        if (k < BATCHES)
            assert_int_equal(hrf_session_start(pixels, &err), HRF_OK);
        for (int i = 0; i < N && k < BATCHES && borrows; i++) /* it is read where it is */
            batch[i] = (uint8_t)((i * 7 + k * 31) % 256);
        if (k == 0)
            continue;
        assert_int_equal(hrf_session_finish(pixels, &err), HRF_OK);
        assert_memory_equal(hrf_session_output(pixels, 0), expected[k - 1], sizeof expected[0]);
    }
    void *again = NULL;
    hrf_session_give_host(pixels, lent[1]);
    assert_int_equal(hrf_session_take_host(pixels, N, &again, &err), HRF_OK);
    assert_ptr_equal(again, lent[1]);
    if (!borrows)
        hrf_session_feed(pixels, again);
    assert_int_equal(hrf_session_start(pixels, &err), HRF_OK);
    hrf_session_drop(pixels);
    assert_int_equal(pixels->n_finished, pixels->n_started);
    hrf_session_destroy(floats);
    hrf_made_ranges_release(&made);
    hrf_session_destroy(pixels);
    hrf_graph_destroy(graph);
}

static void pixels_become_the_input_that_the_form_says(void **state)
{
    (void)state;
    check_pixels(HRF_FP32, HRF_F32, false);
    check_pixels(HRF_BF16, HRF_B16, true);
    check_pixels(HRF_INT8, HRF_S8, true);
}

static void nothing_is_allocated_once_a_session_is_made(void **state)
{
    static const enum hrf_precision precisions[] = { HRF_FP32, HRF_BF16, HRF_INT8 };
    const struct hrf_pixel_form form = { { 0.017f, 0.018f, 0.019f }, { -2.1f, -2.0f, -1.8f } };
    struct hrf_graph *graph = make_network("unet:3,8", 32, 2);
    struct hrf_made_ranges made = { .fused = NULL };
    struct hrf_error err = { .text = "" };
    (void)state;
    assert_int_equal(hrf_made_ranges_init(graph, &made, &err), HRF_OK);
    for (int i = 0; i < 6; i++) {
        const struct hrf_session_config config = { .device = "cuda",
                                                   .precision = precisions[i % 3],
                                                   .pixels = i < 3 ? &form : NULL,
                                                   .ranges = made.ranges,
                                                   .n_ranges = made.n_ranges };
        struct hrf_session *session = NULL;
        if (hrf_session_create(graph, &config, &session, &err) != HRF_OK)
            fail_msg("%s", err.text);
        assert_int_equal(setenv("HRF_EMULATED_CUDA", "full", 1), 0);
        for (int k = 0; k < 3; k++) /* queued, recorded, replayed */
            if (hrf_session_run(session, &err) != HRF_OK)
                fail_msg("%s, run %d: %s", hrf_precision_name(config.precision), k, err.text);
        unsetenv("HRF_EMULATED_CUDA");
        hrf_session_destroy(session);
    }
    hrf_made_ranges_release(&made);
    hrf_graph_destroy(graph);
}

/* ---- bands ---- */

static void bands_on_a_gpu_give_the_bytes_of_the_whole_in_int8(void **state)
{
    static const char *const names[] = { "resnet:2,16", "unet:3,8" };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct hrf_graph *graph = make_network(names[i], 32, 1);
        int64_t n, n_banded;
        float *whole = run_graph_in(graph, "cuda", HRF_INT8, 1, 7, 1, &n, NULL);
        for (int keeps = 0; keeps < 2; keeps++) {
            float *banded = run_bands_in(graph, "cuda", HRF_INT8, 3,
                                         keeps ? HRF_BANDS_KEEP : HRF_BANDS_RECOMPUTE, 7,
                                         &n_banded);
            assert_non_null(banded);
            assert_int_equal(n_banded, n);
            assert_memory_equal(banded, whole, (size_t)n * sizeof *whole);
            hrf_free(banded);
        }
        hrf_free(whole);
        hrf_graph_destroy(graph);
    }
}

/* ---- tuned plans on disk ---- */

static struct hrf_session *open_small(struct hrf_graph **graph)
{
    struct build b = build_start(5);
    const int32_t x = build_input(&b, SHAPE(1, 16, 9, 9));
    const int32_t output = build_plain_conv(&b, x, 16, 24, 3, 1, true);
    const struct hrf_session_config config = { .device = "cuda", .precision = HRF_FP32 };
    struct hrf_session *session = NULL;
    struct hrf_error err = { .text = "" };
    *graph = build_finish(&b, &output, 1);
    if (hrf_session_create(*graph, &config, &session, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return session;
}

static void expect_notes(const char *words, const char *absent)
{
    struct hrf_graph *graph;
    struct hrf_session *session = open_small(&graph);
    struct hrf_error err = { .text = "" };
    if ((words != NULL && strstr(hrf_session_notes(session), words) == NULL) ||
        (absent != NULL && strstr(hrf_session_notes(session), absent) != NULL))
        fail_msg("notes: '%s'", hrf_session_notes(session));
    assert_int_equal(hrf_session_run(session, &err), HRF_OK);
    hrf_session_destroy(session);
    hrf_graph_destroy(graph);
}

static void write_plan(const char *directory, const char *name, const char *text)
{
    char path[8192];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

static void a_tuned_plan_is_read_again_and_a_damaged_one_made_anew(void **state)
{
    char directory[4300], fresh[4200];
    (void)state;
    snprintf(fresh, sizeof fresh, "%s/fresh", getenv("XDG_CACHE_HOME"));
    snprintf(directory, sizeof directory, "%s/hires-flow/cuda-plans", fresh);
    char *before = hrf_strdup(getenv("XDG_CACHE_HOME"));
    assert_int_equal(setenv("XDG_CACHE_HOME", fresh, 1), 0);
    expect_notes("1 convolutions tuned", NULL);
    expect_notes(NULL, "tuned");
    DIR *entries = opendir(directory);
    assert_non_null(entries);
    char name[512] = "";
    for (const struct dirent *e = readdir(entries); e != NULL; e = readdir(entries))
        if (e->d_name[0] != '.')
            snprintf(name, sizeof name, "%s", e->d_name);
    closedir(entries);
    assert_string_not_equal(name, "");
    write_plan(directory, name, "{ this is no JSON");
    expect_notes("a tuned plan is made anew", NULL);
    expect_notes(NULL, "tuned");
    write_plan(directory, name, "{\"key\": \"of another version\"}");
    expect_notes("a tuned plan is made anew", NULL);
    expect_notes(NULL, "anew");
    assert_int_equal(setenv("XDG_CACHE_HOME", before, 1), 0);
    hrf_free(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_without_a_working_gpu_is_told_in_a_sentence),
        cmocka_unit_test(memory_that_runs_out_is_told_with_the_numbers),
        cmocka_unit_test(a_tuned_plan_is_read_again_and_a_damaged_one_made_anew),
        cmocka_unit_test(pixels_become_the_input_that_the_form_says),
        cmocka_unit_test(nothing_is_allocated_once_a_session_is_made),
        cmocka_unit_test(maxima_are_the_same_bits_as_the_reference_s),
        cmocka_unit_test(networks_agree_with_the_reference),
        cmocka_unit_test(transformers_agree_with_the_reference),
        cmocka_unit_test(bands_on_a_gpu_give_the_bytes_of_the_whole_in_int8),
        cmocka_unit_test(every_operator_agrees_with_the_reference),
        cmocka_unit_test(gradients_of_convolutions_are_cudnn_s_or_our_own),
        cmocka_unit_test(a_wrong_gradient_s_engine_is_left_out),
        cmocka_unit_test(attention_in_16_bits_goes_to_cudnn_if_it_is_right),
        cmocka_unit_test(products_of_values_go_to_cublas_however_they_lie),
        cmocka_unit_test(int8_is_near_float32),
        cmocka_unit_test(bf16_is_near_float32),
        cmocka_unit_test(fp16_is_near_float32),
    };
    return cmocka_run_group_tests(tests, put_it_in_place, tidy_up);
}
