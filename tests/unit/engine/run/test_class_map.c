/* The class map: its mean and the bias are the logit; networks that have none are named. By the
 * gradient it is the same map after a mean, and what the gradient says elsewhere. */
#include "engine/run/class_map.h"

#include "base/random.h"
#include "engine/run/session.h"
#include "tests/unit/unit.h"

#include <math.h>

enum { CHANNELS = 3, FEATURES = 5, CLASSES = 4, ROWS = 9, COLUMNS = 7 };

static struct hrf_random numbers = { 7 };

static int32_t value(struct hrf_graph *graph, const char *name, struct hrf_shape shape, bool data)
{
    float noise[FEATURES * CHANNELS * 9];
    for (size_t i = 0; i < sizeof noise / sizeof noise[0]; i++)
        noise[i] = (float)(hrf_random_unit(&numbers) * 2 - 1);
    int32_t index = -1;
    assert_int_equal(
        hrf_graph_add_value(graph, name, HRF_F32, &shape, data ? noise : NULL, &index, NULL),
        HRF_OK);
    return index;
}

static const struct hrf_shape unknown = { .rank = -1 };

static int32_t node(struct hrf_graph *graph, enum hrf_op op, const int32_t *inputs, int32_t n,
                    const struct hrf_attributes *attributes)
{
    int32_t y = value(graph, hrf_op_name(op), unknown, false);
    assert_int_equal(
        hrf_graph_add_node(graph, op, hrf_op_name(op), inputs, n, &y, 1, attributes, NULL), HRF_OK);
    return y;
}

/* Conv 3x3, ReLU, `pool`, Flatten, Gemm (no probabilities, so that the output is the logit). */
static struct hrf_graph *network(enum hrf_op pool, bool transpose_b, float alpha, float bias[])
{
    struct hrf_graph *graph = NULL;
    assert_int_equal(hrf_graph_create("net", &graph, NULL), HRF_OK);
    struct hrf_attributes plain = hrf_attributes_default(), conv = plain, gemm = plain;
    struct hrf_attributes flatten = plain;
    conv.window.pad_begin[0] = conv.window.pad_end[0] = 1;
    gemm.gemm.transpose_b = transpose_b;
    gemm.gemm.alpha = alpha;
    flatten.axis = 1;
    int32_t x = value(graph, "x", (struct hrf_shape){ 4, { 1, CHANNELS, ROWS, COLUMNS } }, false);
    int32_t w = value(graph, "w", (struct hrf_shape){ 4, { FEATURES, CHANNELS, 3, 3 } }, true);
    struct hrf_shape head = { 2, { CLASSES, FEATURES } }, turned = { 2, { FEATURES, CLASSES } };
    int32_t v = value(graph, "v", transpose_b ? head : turned, true), b = -1;
    const struct hrf_shape bias_shape = { 1, { CLASSES } };
    assert_int_equal(hrf_graph_add_value(graph, "b", HRF_F32, &bias_shape, bias, &b, NULL), HRF_OK);
    int32_t at = node(graph, HRF_OP_CONV, (const int32_t[]){ x, w }, 2, &conv);
    at = node(graph, HRF_OP_RELU, &at, 1, &plain);
    at = node(graph, pool, &at, 1, &plain);
    at = node(graph, HRF_OP_FLATTEN, &at, 1, &flatten);
    at = node(graph, HRF_OP_GEMM, (const int32_t[]){ at, v, b }, 3, &gemm);
    assert_int_equal(hrf_graph_set_io(graph, &x, 1, &at, 1, NULL), HRF_OK);
    assert_int_equal(hrf_graph_infer_shapes(graph, NULL), HRF_OK);
    return graph;
}

static void check_mean(bool transpose_b, float alpha)
{
    float bias[CLASSES] = { 0.5f, -1, 2, 0 };
    HRF_AUTO(hrf_graph) graph = network(HRF_OP_GLOBAL_AVERAGE_POOL, transpose_b, alpha, bias);
    HRF_AUTO(hrf_session) session = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_class_map_add(graph, &err), HRF_OK);
    struct hrf_session_config config = { .device = "ref", .precision = HRF_FP32, .n_threads = 1 };
    assert_int_equal(hrf_session_create(graph, &config, &session, &err), HRF_OK);
    for (int i = 0; i < CHANNELS * ROWS * COLUMNS; i++)
        hrf_session_input(session, 0)[i] = (float)hrf_random_normal(&numbers);
    assert_int_equal(hrf_session_run(session, &err), HRF_OK);
    const struct hrf_shape wanted = { 4, { 1, CLASSES, ROWS, COLUMNS - 2 } };
    assert_true(hrf_shape_equal(hrf_session_output_shape(session, 1), &wanted));
    const float *logits = hrf_session_output(session, 0), *map = hrf_session_output(session, 1);
    for (int c = 0; c < CLASSES; c++) {
        double sum = 0;
        for (int i = 0; i < ROWS * (COLUMNS - 2); i++)
            sum += (double)map[i * CLASSES + c];
        double mean = sum / (ROWS * (COLUMNS - 2));
        assert_true(fabs(mean + (double)bias[c] - (double)logits[c]) < 1e-5);
        assert_true(fabs(mean) > 1e-3); /* or the check would hold for nothing */
    }
}

static void the_mean_of_the_map_and_the_bias_are_the_logit(void **state)
{
    (void)state;
    check_mean(true, 1);
    check_mean(false, 0.5f);
}

static void a_network_without_a_mean_has_no_map_and_stays_as_it_was(void **state)
{
    (void)state;
    float bias[CLASSES] = { 0 };
    HRF_AUTO(hrf_graph) graph = network(HRF_OP_GLOBAL_MAX_POOL, true, 1, bias);
    struct hrf_error err = { .status = HRF_OK };
    int32_t n_nodes = graph->n_nodes, n_values = graph->n_values;
    assert_int_equal(hrf_class_map_add(graph, &err), HRF_E_UNSUPPORTED);
    assert_string_equal(err.text,
                        "no class activation map: it needs a network that ends in global average "
                        "pooling and one linear layer, and 'GlobalMaxPool' (GlobalMaxPool) is not "
                        "global average pooling");
    assert_int_equal(graph->n_nodes, n_nodes);
    assert_int_equal(graph->n_values, n_values);
    assert_int_equal(graph->n_outputs, 1);
}

/* ---- by the gradient ---- */

/* Output 1, for drawn numbers that it leaves in `image`; the caller destroys the session. */
static struct hrf_session *run(const struct hrf_graph *graph, const char *device, float *image)
{
    struct hrf_session_config config = { .device = device, .precision = HRF_FP32, .n_threads = 1 };
    struct hrf_session *session = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_session_create(graph, &config, &session, &err) != HRF_OK)
        fail_msg("%s", err.text);
    for (int i = 0; i < CHANNELS * ROWS * COLUMNS; i++)
        hrf_session_input(session, 0)[i] = image[i];
    assert_int_equal(hrf_session_run(session, NULL), HRF_OK);
    return session;
}

static void after_a_mean_it_is_the_positive_part_of_the_map_by_weights(void **state)
{
    (void)state;
    enum { N = ROWS * (COLUMNS - 2) };
    float bias[CLASSES] = { 0.5f, -1, 2, 0 }, image[CHANNELS * ROWS * COLUMNS];
    for (size_t i = 0; i < sizeof image / sizeof image[0]; i++)
        image[i] = (float)hrf_random_normal(&numbers);
    struct hrf_graph *by_weights = network(HRF_OP_GLOBAL_AVERAGE_POOL, true, 1, bias);
    struct hrf_graph *by_gradient = NULL;
    assert_int_equal(hrf_graph_copy(by_weights, &by_gradient, NULL), HRF_OK);
    assert_int_equal(hrf_class_map_add(by_weights, NULL), HRF_OK);
    assert_int_equal(hrf_class_map_add_gradient(&by_gradient, NULL), HRF_OK);
    for (int d = 0; d < 2; d++) {
        const char *device = d == 0 ? "cpu" : "ref";
        struct hrf_session *a = run(by_weights, device, image),
                           *b = run(by_gradient, device, image);
        const float *logits = hrf_session_output(a, 0), *wanted = hrf_session_output(a, 1);
        const float *got = hrf_session_output(b, 1);
        const struct hrf_shape shape = { 4, { 1, 1, ROWS, COLUMNS - 2 } };
        int called = 0;
        double largest = 0;
        assert_true(hrf_shape_equal(hrf_session_output_shape(b, 1), &shape));
        for (int c = 1; c < CLASSES; c++)
            called = logits[c] > logits[called] ? c : called;
        for (int i = 0; i < N; i++)
            largest = fmax(largest, (double)wanted[i * CLASSES + called]);
        assert_true(largest > 0);
        for (int i = 0; i < N; i++)
            assert_true(fabs((double)got[i] * N - fmax(0, (double)wanted[i * CLASSES + called])) <=
                        1e-5 * largest);
        hrf_session_destroy(a);
        hrf_session_destroy(b);
    }
    hrf_graph_destroy(by_weights);
    hrf_graph_destroy(by_gradient);
}

/* Conv 3x3, ReLU, Flatten, Gemm: the gradient to the features is the weights of the class. */
static void without_a_mean_features_weigh_by_the_mean_gradient(void **state)
{
    (void)state;
    enum { H = ROWS, W = COLUMNS - 2, N = H * W };
    float image[CHANNELS * ROWS * COLUMNS], dense[CLASSES * FEATURES * N];
    struct hrf_graph *graph = NULL, *features = NULL;
    assert_int_equal(hrf_graph_create("net", &graph, NULL), HRF_OK);
    struct hrf_attributes conv = hrf_attributes_default(), gemm = conv, flatten = conv;
    conv.window.pad_begin[0] = conv.window.pad_end[0] = 1;
    gemm.gemm.transpose_b = true;
    flatten.axis = 1;
    for (size_t i = 0; i < sizeof image / sizeof image[0]; i++)
        image[i] = (float)hrf_random_normal(&numbers);
    for (int i = 0; i < CLASSES * FEATURES * N; i++)
        dense[i] = (float)hrf_random_normal(&numbers);
    int32_t x = value(graph, "x", (struct hrf_shape){ 4, { 1, CHANNELS, ROWS, COLUMNS } }, false);
    int32_t w = value(graph, "w", (struct hrf_shape){ 4, { FEATURES, CHANNELS, 3, 3 } }, true), v;
    const struct hrf_shape of_dense = { 2, { CLASSES, FEATURES * N } };
    assert_int_equal(hrf_graph_add_value(graph, "v", HRF_F32, &of_dense, dense, &v, NULL), HRF_OK);
    int32_t at = node(graph, HRF_OP_CONV, (const int32_t[]){ x, w }, 2, &conv);
    const int32_t relu = node(graph, HRF_OP_RELU, &at, 1, &conv);
    at = node(graph, HRF_OP_FLATTEN, &relu, 1, &flatten);
    at = node(graph, HRF_OP_GEMM, (const int32_t[]){ at, v }, 2, &gemm);
    assert_int_equal(hrf_graph_set_io(graph, &x, 1, &at, 1, NULL), HRF_OK);
    assert_int_equal(hrf_graph_infer_shapes(graph, NULL), HRF_OK);
    assert_int_equal(hrf_graph_copy(graph, &features, NULL), HRF_OK);
    assert_int_equal(hrf_graph_set_io(features, &x, 1, &relu, 1, NULL), HRF_OK);
    assert_int_equal(hrf_class_map_add_gradient(&graph, NULL), HRF_OK);
    struct hrf_session *a = run(features, "ref", image), *b = run(graph, "cpu", image);
    const float *f = hrf_session_output(a, 0), *logits = hrf_session_output(b, 0);
    int called = 0;
    double wanted[N] = { 0 }, largest = 0;
    for (int c = 1; c < CLASSES; c++)
        called = logits[c] > logits[called] ? c : called;
    for (int c = 0; c < FEATURES; c++) {
        double mean = 0;
        for (int i = 0; i < N; i++)
            mean += (double)dense[(called * FEATURES + c) * N + i] / N;
        for (int i = 0; i < N; i++)
            wanted[i] += mean * (double)f[i * FEATURES + c];
    }
    for (int i = 0; i < N; i++)
        largest = fmax(largest, wanted[i]);
    assert_true(largest > 0);
    for (int i = 0; i < N; i++)
        assert_true(fabs((double)hrf_session_output(b, 1)[i] - fmax(0, wanted[i])) <=
                    1e-5 * largest);
    hrf_session_destroy(a);
    hrf_session_destroy(b);
    hrf_graph_destroy(graph);
    hrf_graph_destroy(features);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mean_of_the_map_and_the_bias_are_the_logit),
        cmocka_unit_test(a_network_without_a_mean_has_no_map_and_stays_as_it_was),
        cmocka_unit_test(after_a_mean_it_is_the_positive_part_of_the_map_by_weights),
        cmocka_unit_test(without_a_mean_features_weigh_by_the_mean_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
