/* Models that were quantised elsewhere (tests/golden/qdq, made by
 * tools/reference/make_qdq_goldens.py): their own scales, in every precision, on both devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/backend/compute.h"
#include "engine/input/npy.h"
#include "engine/onnx/onnx.h"
#include "engine/passes/lower.h"
#include "engine/passes/passes.h"
#include "engine/run/session.h"
#include "tests/ops/build.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = { "asymmetric", "trained", "shifted" };
enum { N_NAMES = sizeof names / sizeof names[0] };

static struct hrf_graph *load(const char *name, struct hrf_shape *shape, float **x, float **want)
{
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_graph *graph = NULL;
    struct hrf_shape result;
    HRF_AUTO_FREE char *model = hrf_format("tests/golden/qdq/%s.onnx", name);
    HRF_AUTO_FREE char *in = hrf_format("tests/golden/qdq/%s.x.npy", name);
    HRF_AUTO_FREE char *out = hrf_format("tests/golden/qdq/%s.y.npy", name);
    if (hrf_onnx_read(model, &graph, &err) != HRF_OK ||
        hrf_npy_read(in, shape, x, &err) != HRF_OK ||
        hrf_npy_read(out, &result, want, &err) != HRF_OK ||
        hrf_graph_set_input_shape(graph, 0, shape, &err) != HRF_OK)
        fail_msg("%s: %s", name, err.text);
    return graph;
}

/* The results in ONNX order (heap); *notes (may be NULL) gets the session's. */
static float *run(const struct hrf_graph *graph, const struct hrf_shape *shape, const float *x,
                  const char *device, const char *precision, int64_t *n, char **notes)
{
    const struct hrf_session_config config = { .device = device,
                                               .precision = precision,
                                               .n_threads = 2 };
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_session *session = NULL;
    if (hrf_session_create(graph, &config, &session, &err) != HRF_OK)
        fail_msg("%s in %s: %s", device, precision, err.text);
    hrf_layout_from_onnx(shape, sizeof *x, x, hrf_session_input(session, 0));
    assert_int_equal(hrf_session_run(session, NULL), HRF_OK);
    const struct hrf_shape *result = hrf_session_output_shape(session, 0);
    *n = hrf_shape_count(result);
    float *y = hrf_alloc_array((size_t)*n, sizeof *y);
    assert_non_null(y);
    hrf_layout_to_onnx(result, sizeof *y, hrf_session_output(session, 0), y);
    if (notes != NULL)
        *notes = hrf_strdup(hrf_session_notes(session));
    hrf_session_destroy(session);
    return y;
}

/* Everything computes what ONNX says, node by node; a step of rounding that falls the other way
 * somewhere may be seen as one step of the result. */
static void check(const char *name, const char *device, const char *precision, double limit)
{
    struct hrf_shape shape;
    HRF_AUTO_FREE float *x = NULL, *want = NULL;
    HRF_AUTO(hrf_graph) graph = load(name, &shape, &x, &want);
    int64_t n;
    HRF_AUTO_FREE float *got = run(graph, &shape, x, device, precision, &n, NULL);
    const double apart = relative_difference(got, want, n);
    printf("%-10s %-4s %-5s %.1e of the largest result apart\n", name, device, precision, apart);
    assert_true(apart <= limit);
}

static void every_precision_computes_what_the_onnx_operators_say(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAMES; i++) {
        check(names[i], "ref", "fp32", 1e-6);
        check(names[i], "cpu", "fp32", 1e-6);
        check(names[i], "ref", "int8", 1e-6);
        check(names[i], "cpu", "int8", 1e-6);
        check(names[i], "cpu", "bf16", 0.05);
        check(names[i], "cpu", "fp16", 0.05);
    }
}

static void int8_has_the_bits_of_the_integer_reference(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAMES; i++) {
        struct hrf_shape shape;
        HRF_AUTO_FREE float *x = NULL, *want = NULL;
        HRF_AUTO(hrf_graph) graph = load(names[i], &shape, &x, &want);
        int64_t n, n_ref;
        HRF_AUTO_FREE char *notes = NULL;
        HRF_AUTO_FREE float *got = run(graph, &shape, x, "cpu", "int8", &n, &notes);
        HRF_AUTO_FREE float *truth = run(graph, &shape, x, "ref", "int8", &n_ref, NULL);
        assert_int_equal(n, n_ref);
        assert_memory_equal(got, truth, (size_t)n * sizeof *got);
        /* One node's weights, stored with zero point 60, need more than 8 bits; those with zero
         * point 128 do not. */
        assert_string_equal(notes, strcmp(names[i], "shifted") != 0
                                       ? "" /* nothing stays in float32 */
                                       : "node 'conv_23_node' (Conv) stays in float32: the model "
                                         "gives its weights no scales that 8 bits can use\n");
    }
}

static struct hrf_graph *lowered(const char *name, const struct hrf_lowering *how)
{
    struct hrf_shape shape;
    HRF_AUTO_FREE float *x = NULL, *want = NULL;
    HRF_AUTO(hrf_graph) graph = load(name, &shape, &x, &want);
    struct hrf_graph *out = NULL;
    assert_int_equal(hrf_graph_infer_shapes(graph, NULL), HRF_OK);
    assert_int_equal(hrf_passes_run(graph, NULL), HRF_OK);
    assert_true(hrf_lower_brings_scales(graph));
    assert_int_equal(hrf_pass_lower(graph, how, &out, NULL, NULL), HRF_OK);
    return out;
}

static int count(const struct hrf_graph *graph, enum hrf_op op)
{
    int n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        n += graph->nodes[i].op == op;
    return n;
}

/* In the first two models all that is left of the pairs are the ones at the ends; weights are the
 * file's integers. */
static void pairs_are_taken_into_the_operators_beside_them(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        HRF_AUTO(hrf_graph) graph = lowered(names[i], &(struct hrf_lowering){ .type = HRF_S8 });
        assert_int_equal(count(graph, HRF_OP_QUANTIZE), 1);
        assert_int_equal(count(graph, HRF_OP_DEQUANTIZE), i == 0 ? 1 : 0);
        for (int32_t k = 0; k < graph->n_nodes; k++) {
            const struct hrf_node *node = &graph->nodes[k];
            if (node->op != HRF_OP_CONV && node->op != HRF_OP_GEMM)
                continue;
            const enum hrf_dtype type = graph->values[node->inputs[HRF_CONV_X]].dtype;
            assert_true(type == (i == 0 ? HRF_U8 : HRF_S8));
            assert_int_equal(graph->values[node->inputs[HRF_CONV_WEIGHTS]].dtype, HRF_S8);
        }
    }
}

/* In "asymmetric" the third convolution's weights are stored with one scale, 0.0017. */
static void weights_keep_the_scales_of_the_file(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) graph = lowered("asymmetric", &(struct hrf_lowering){ .type = HRF_S8 });
    int seen = 0;
    for (int32_t k = 0; k < graph->n_nodes; k++) {
        const struct hrf_node *node = &graph->nodes[k];
        if (node->op != HRF_OP_CONV || graph->values[node->outputs[0]].shape.dims[1] != 24)
            continue;
        const float *scales = graph->values[node->inputs[HRF_CONV_SCALES]].data;
        for (int64_t m = 0; m < 24; m++)
            assert_true(scales[m] == 1.7e-3f);
        seen++;
    }
    assert_int_equal(seen, 1);
}

static void a_node_may_still_be_kept_in_float32(void **state)
{
    (void)state;
    struct hrf_shape shape;
    HRF_AUTO_FREE float *x = NULL, *want = NULL;
    HRF_AUTO(hrf_graph) graph = load("asymmetric", &shape, &x, &want);
    const char *keep[1] = { NULL };
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op == HRF_OP_GEMM)
            keep[0] = graph->nodes[i].name;
    HRF_AUTO(hrf_graph)
    low = lowered("asymmetric",
                  &(struct hrf_lowering){ .type = HRF_S8, .keep = keep, .n_keep = 1 });
    for (int32_t i = 0; i < low->n_nodes; i++)
        if (low->nodes[i].op == HRF_OP_GEMM)
            assert_int_equal(low->values[low->nodes[i].inputs[0]].dtype, HRF_F32);
    assert_int_equal(count(low, HRF_OP_DEQUANTIZE), 2);
    assert_int_equal(count(low, HRF_OP_QUANTIZE), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_precision_computes_what_the_onnx_operators_say),
        cmocka_unit_test(int8_has_the_bits_of_the_integer_reference),
        cmocka_unit_test(pairs_are_taken_into_the_operators_beside_them),
        cmocka_unit_test(weights_keep_the_scales_of_the_file),
        cmocka_unit_test(a_node_may_still_be_kept_in_float32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
