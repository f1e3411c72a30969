/* Convolutions with a prologue: the same networks on the CPU, which takes BatchNormalization and
 * activation into the convolutions behind them, and on ref, which does not. */
#include "tests/unit/unit.h"

#include "engine/backend/cpu/cpu.h"
#include "engine/passes/passes.h"
#include "engine/run/session.h"
#include "tests/ops/nets.h"

#include <string.h>

struct kind {
    const char *implementation; /* what its kernel's name begins with, where there is AVX-512 */
    struct conv_kind conv;
};

static const struct kind kinds[] = {
    { "product", { 2, 24, 9, 7, 33, 1, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 0, 0 } } },
    { "product", { 1, 256, 9, 7, 40, 1, { 1, 1 }, { 2, 2 }, { 1, 1 }, { 0, 0 }, { 0, 0 } } },
    { "implicit_product",
      { 1, 64, 11, 8, 128, 1, { 3, 3 }, { 1, 2 }, { 1, 1 }, { 1, 1 }, { 1, 0 } } },
    { "implicit_product",
      { 2, 32, 13, 11, 48, 1, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 } } },
    { "implicit_product",
      { 1, 64, 21, 18, 64, 1, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 2, 0 }, { 0, 1 } } },
    /* A shift beside the pads would show: shifts are not 0, pads must be. */
    { "implicit_product",
      { 2, 20, 13, 11, 24, 1, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 }, { 1, 1 } } },
    { "implicit_product", { 1, 5, 9, 9, 7, 1, { 5, 3 }, { 1, 1 }, { 1, 2 }, { 2, 2 }, { 2, 2 } } },
    { "strips", { 3, 12, 10, 8, 24, 4, { 3, 3 }, { 1, 2 }, { 1, 1 }, { 1, 0 }, { 0, 1 } } },
    { "strips", { 2, 33, 8, 9, 33, 33, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 } } },
    /* Images of more than a strip: rows that strips do not divide, a window beyond both ends. */
    { "strips", { 2, 64, 101, 90, 2, 2, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 }, { 1, 1 } } },
    { "strips", { 1, 48, 109, 101, 2, 2, { 5, 1 }, { 1, 1 }, { 3, 1 }, { 7, 0 }, { 9, 0 } } },
    /* Images of less than one, which do not divide the batch. */
    { "strips", { 7, 48, 45, 43, 2, 2, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 } } },
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static struct hrf_graph *make(const struct conv_kind *k, int act, bool has_norm, bool has_sum)
{
    struct build b = build_start((uint64_t)(act + 10 * has_norm + 20 * has_sum));
    const int32_t x = build_input(&b, SHAPE(k->n, k->channels, k->rows, k->columns));
    return finish_prologue_net(&b, x, k, act, has_norm, has_sum);
}

/* One convolution remains, of the kernel that it is meant to try. */
static void check_fused(const struct hrf_graph *graph, const struct kind *kind)
{
    HRF_AUTO(hrf_graph) fused = NULL;
    struct hrf_backend *backend = NULL;
    struct hrf_kernel *kernel = NULL;
    const struct hrf_backend_config config = { .n_threads = 1 };
    assert_int_equal(hrf_graph_copy(graph, &fused, NULL), HRF_OK);
    assert_int_equal(hrf_passes_run(fused, NULL), HRF_OK);
    assert_int_equal(hrf_pass_fuse_prologue(fused, hrf_backend_cpu.kernels, NULL), HRF_OK);
    assert_int_equal(fused->n_nodes, 1);
    assert_true(hrf_node_has_prologue(&fused->nodes[0]));
    assert_int_equal(hrf_backend_cpu.create(&config, &backend, NULL), HRF_OK);
    hrf_backend_cpu.enter(backend);
    assert_true(hrf_backend_supports(&hrf_backend_cpu, fused, &fused->nodes[0], NULL));
    assert_int_equal(
        hrf_backend_compile(&hrf_backend_cpu, backend, fused, &fused->nodes[0], &kernel, NULL),
        HRF_OK);
    const char *wanted = kind->implementation;
    if (strncmp(kernel->implementation, wanted, strlen(wanted)) != 0 &&
        strncmp(kernel->implementation, "strips", 6) != 0)
        fail_msg("computed by %s, not %s", kernel->implementation, wanted);
    hrf_kernel_destroy(kernel);
    hrf_backend_cpu.destroy(backend);
}

static void check(const struct hrf_graph *graph, enum hrf_precision precision, int32_t n_threads,
                  double limit, int kind, int act)
{
    int64_t n, n_truth;
    float *truth = run_graph(graph, "ref", 1, 3, 1, &n_truth);
    float *y = run_graph_in(graph, "cpu", precision, n_threads, 3, 2, &n, NULL);
    assert_int_equal(n, n_truth);
    const double difference = relative_difference(y, truth, n);
    if (!(difference <= limit))
        fail_msg("kind %d, activation %d, %s, %d threads: %g of the largest output apart", kind,
                 act, hrf_precision_name(precision), n_threads, difference);
    hrf_free(truth);
    hrf_free(y);
}

static void every_kind_of_convolution_computes_what_stood_before_it(void **state)
{
    (void)state;
    for (int kind = 0; kind < N_KINDS; kind++)
        for (int act = 0; act < 4; act++) {
            const bool has_norm = act == 3 || kind % 2 == 0;
            HRF_AUTO(hrf_graph)
            graph = make(&kinds[kind].conv, act, has_norm, (kind + act) % 2 == 0);
            check_fused(graph, &kinds[kind]);
            check(graph, HRF_FP32, 1 + act % 2, 1e-5, kind, act);
        }
}

static void in_16_bits_the_result_is_as_near_as_16_bits_are(void **state)
{
    (void)state;
    for (int kind = 0; kind < N_KINDS; kind++) {
        HRF_AUTO(hrf_graph) graph = make(&kinds[kind].conv, kind % 3, true, kind % 2 == 0);
        check(graph, HRF_FP16, 2, 2e-3, kind, kind % 3);
        check(graph, HRF_BF16, 1, 2e-2, kind, kind % 3);
    }
}

static void eight_bits_keep_their_own_kernels(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) graph = make(&kinds[2].conv, 0, true, false);
    HRF_AUTO(hrf_graph) fused = NULL;
    assert_int_equal(hrf_graph_copy(graph, &fused, NULL), HRF_OK);
    assert_int_equal(hrf_passes_run(fused, NULL), HRF_OK);
    assert_int_equal(hrf_pass_fuse_prologue(fused, hrf_backend_cpu.kernels, NULL), HRF_OK);
    assert_true(hrf_node_has_prologue(&fused->nodes[0]));
    fused->values[fused->inputs[0]].dtype = HRF_U8;
    struct hrf_error err = { .status = HRF_OK };
    assert_false(hrf_backend_supports(&hrf_backend_cpu, fused, &fused->nodes[0], &err));
    assert_non_null(strstr(err.text, "a prologue in 8-bit integers is not computed"));
}

static int64_t activation_bytes(const struct hrf_graph *graph, bool every_tensor)
{
    const struct hrf_session_config config = {
        .device = "cpu", .precision = HRF_FP32, .n_threads = 1, .every_tensor = every_tensor
    };
    HRF_AUTO(hrf_session) session = NULL;
    assert_int_equal(hrf_session_create(graph, &config, &session, NULL), HRF_OK);
    return hrf_session_memory(session).activation_bytes;
}

/* A pre-activation bottleneck of 64 and 16 channels: the stream, and beside it the norm's result
 * with the first 16 channels, or those and the next 16. */
static void a_norm_is_no_tensor_beside_the_residual_stream(void **state)
{
    (void)state;
    const int64_t plane = INT64_C(32) * 32 * sizeof(float);
    struct build b = build_start(1);
    const int32_t image = build_input(&b, SHAPE(1, 1, 32, 32));
    const int32_t x = build_plain_conv(&b, image, 1, 64, 3, 1, true);
    int32_t y = build_unary(&b, HRF_OP_RELU, build_batch_norm(&b, x, 64));
    y = build_unary(&b, HRF_OP_RELU, build_plain_conv(&b, y, 64, 16, 3, 1, true));
    y = build_unary(&b, HRF_OP_RELU, build_plain_conv(&b, y, 16, 16, 3, 1, true));
    y = build_binary(&b, HRF_OP_ADD, build_plain_conv(&b, y, 16, 64, 1, 1, true), x);
    y = build_unary(&b, HRF_OP_GLOBAL_AVERAGE_POOL, y);
    HRF_AUTO(hrf_graph) graph = build_finish(&b, &y, 1);
    assert_int_equal(activation_bytes(graph, true), (64 + 64 + 16) * plane);
    assert_int_equal(activation_bytes(graph, false), (64 + 16 + 16) * plane);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_convolution_computes_what_stood_before_it),
        cmocka_unit_test(in_16_bits_the_result_is_as_near_as_16_bits_are),
        cmocka_unit_test(a_norm_is_no_tensor_beside_the_residual_stream),
        cmocka_unit_test(eight_bits_keep_their_own_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
