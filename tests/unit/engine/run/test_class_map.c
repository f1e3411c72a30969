/* The class map: its mean and the bias are the logit; networks that have none are named. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mean_of_the_map_and_the_bias_are_the_logit),
        cmocka_unit_test(a_network_without_a_mean_has_no_map_and_stays_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
