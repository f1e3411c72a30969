/* Models that were quantised elsewhere (tests/golden/qdq, made by
 * tools/reference/make_qdq_goldens.py): their own scales, in every precision, on both devices. */

#include "engine/backend/compute.h"
#include "engine/input/npy.h"
#include "engine/onnx/onnx.h"
#include "engine/passes/lower.h"
#include "engine/passes/passes.h"
#include "engine/run/session.h"
#include "tests/ops/build.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

static const char *const names[] = {
    "asymmetric", "trained", "shifted", "tokens", "block", "last"
};
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
                  const char *device, enum hrf_precision precision, int64_t *n, char **notes)
{
    const struct hrf_session_config config = { .device = device,
                                               .precision = precision,
                                               .n_threads = 2 };
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_session *session = NULL;
    if (hrf_session_create(graph, &config, &session, &err) != HRF_OK)
        fail_msg("%s in %s: %s", device, hrf_precision_name(precision), err.text);
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
static void check(const char *name, const char *device, enum hrf_precision precision, double limit)
{
    struct hrf_shape shape;
    HRF_AUTO_FREE float *x = NULL, *want = NULL;
    HRF_AUTO(hrf_graph) graph = load(name, &shape, &x, &want);
    int64_t n;
    HRF_AUTO_FREE float *got = run(graph, &shape, x, device, precision, &n, NULL);
    const double apart = relative_difference(got, want, n);
    printf("%-10s %-4s %-5s %.1e of the largest result apart\n", name, device,
           hrf_precision_name(precision), apart);
    assert_true(apart <= limit);
}

static void every_precision_computes_what_the_onnx_operators_say(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAMES; i++) {
        check(names[i], "ref", HRF_FP32, 1e-6);
        check(names[i], "cpu", HRF_FP32, 1e-6);
        /* Without tables for GELU in pieces, one of its halves falls to the other step. */
        check(names[i], "ref", HRF_INT8, strcmp(names[i], "block") == 0 ? 7e-3 : 1e-6);
        check(names[i], "cpu", HRF_INT8, 1e-6);
        check(names[i], "cpu", HRF_BF16, 0.05);
        check(names[i], "cpu", HRF_FP16, 0.05);
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
        HRF_AUTO_FREE float *got = run(graph, &shape, x, "cpu", HRF_INT8, &n, &notes);
        HRF_AUTO_FREE float *truth = run(graph, &shape, x, "ref", HRF_INT8, &n_ref, NULL);
        assert_int_equal(n, n_ref);
        if (strcmp(names[i], "block") != 0) /* see above */
            assert_memory_equal(got, truth, (size_t)n * sizeof *got);
        /* One node's weights, stored with zero point 60, need more than 8 bits; those with zero
         * point 128 do not. */
        if (strcmp(names[i], "block") == 0 || strcmp(names[i], "last") == 0) {
            assert_non_null(strstr(notes, "(LayerNormalization) stays in float32"));
            continue;
        }
        assert_string_equal(notes, strcmp(names[i], "shifted") != 0
                                       ? "" /* nothing stays in float32 */
                                       : "node 'conv_23_node' (Conv) stays in float32: the model "
                                         "gives its weights no scales that 8 bits can use\n");
    }
}

/* Fused and lowered by way of the file's integers, or by way of float32. */
static struct hrf_graph *lowered_by(const struct hrf_graph *graph, const struct hrf_lowering *how,
                                    bool by_float)
{
    struct hrf_graph *out = NULL;
    HRF_AUTO(hrf_graph) fused = NULL;
    assert_int_equal(hrf_graph_copy(graph, &fused, NULL), HRF_OK);
    assert_int_equal(hrf_graph_infer_shapes(fused, NULL), HRF_OK);
    if (!by_float)
        assert_int_equal(hrf_pass_take_integer_weights(fused, NULL), HRF_OK);
    assert_int_equal(hrf_passes_run(fused, NULL), HRF_OK);
    assert_int_equal(hrf_pass_fuse_product(fused, NULL), HRF_OK);
    assert_int_equal(hrf_pass_lower(fused, how, &out, NULL, NULL), HRF_OK);
    return out;
}

/* Both ways give the same graph. */
static struct hrf_graph *lowered_from(const struct hrf_graph *graph, const struct hrf_lowering *how)
{
    struct hrf_graph *out[2] = { NULL, NULL };
    char hash[2][65];
    for (int by_float = 0; by_float < 2; by_float++) {
        out[by_float] = lowered_by(graph, how, by_float);
        assert_int_equal(hrf_graph_hash(out[by_float], hash[by_float], NULL), HRF_OK);
    }
    assert_string_equal(hash[0], hash[1]);
    hrf_graph_destroy(out[1]);
    return out[0];
}

static struct hrf_graph *lowered(const char *name, const struct hrf_lowering *how)
{
    struct hrf_shape shape;
    HRF_AUTO_FREE float *x = NULL, *want = NULL;
    HRF_AUTO(hrf_graph) graph = load(name, &shape, &x, &want);
    assert_true(hrf_lower_brings_scales(graph));
    return lowered_from(graph, how);
}

/* In the first two models all that is left of the pairs are the ones at the ends; weights are the
 * file's integers. */
static void pairs_are_taken_into_the_operators_beside_them(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        HRF_AUTO(hrf_graph) graph = lowered(names[i], &(struct hrf_lowering){ .type = HRF_S8 });
        assert_int_equal(build_count(graph, HRF_OP_QUANTIZE), 1);
        assert_int_equal(build_count(graph, HRF_OP_DEQUANTIZE), i == 0 ? 1 : 0);
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

/* Scales of a file's products of tokens, in order: MatMuls become GEMMs of its integers, and `keep`
 * leaves one in float32. */
static void products_of_tokens_take_the_scales_of_the_file(void **state)
{
    (void)state;
    static const int64_t columns[] = { 24, 16, 5 };
    struct hrf_shape shape;
    HRF_AUTO_FREE float *x = NULL, *want = NULL;
    HRF_AUTO(hrf_graph) graph = load("tokens", &shape, &x, &want);
    const char *keep[1] = { NULL };
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op == HRF_OP_MATMUL)
            keep[0] = graph->nodes[i].name; /* the last */
    for (int n_keep = 0; n_keep < 2; n_keep++) {
        const struct hrf_lowering how = { .type = HRF_S8, .keep = keep, .n_keep = n_keep };
        HRF_AUTO(hrf_graph) low = lowered_by(graph, &how, false);
        int seen = 0;
        assert_int_equal(build_count(low, HRF_OP_MATMUL), 0);
        for (int32_t k = 0; k < low->n_nodes; k++) {
            const struct hrf_node *node = &low->nodes[k];
            if (node->op != HRF_OP_GEMM)
                continue;
            assert_int_equal(hrf_shape_last(&low->values[node->outputs[0]].shape), columns[seen]);
            const bool is_kept = n_keep > 0 && seen == 2;
            assert_int_equal(low->values[node->inputs[HRF_CONV_X]].dtype,
                             is_kept ? HRF_F32 : HRF_U8);
            assert_int_equal(low->values[node->inputs[HRF_CONV_WEIGHTS]].dtype,
                             is_kept ? HRF_F32 : HRF_S8);
            const float *scales = is_kept ? NULL : low->values[node->inputs[HRF_CONV_SCALES]].data;
            for (int64_t m = 0; m < columns[seen] && !is_kept; m++)
                assert_true(seen == 1 ? scales[m] == 3e-3f : scales[m] != 3e-3f);
            seen++;
        }
        assert_int_equal(seen, 3);
        assert_int_equal(build_count(low, HRF_OP_QUANTIZE), 1 + n_keep);
        assert_int_equal(build_count(low, HRF_OP_DEQUANTIZE), 1 + n_keep);
    }
}

/* The graph that a session computes in 8 bits. */
static struct hrf_graph *prepared(const char *name, const char *device, struct hrf_strbuf *notes)
{
    const struct hrf_session_config config = { .device = device,
                                               .precision = HRF_INT8,
                                               .n_threads = 2 };
    struct hrf_error err = { .status = HRF_OK };
    struct hrf_shape shape;
    struct hrf_graph *out = NULL;
    double operations;
    HRF_AUTO_FREE float *x = NULL, *want = NULL;
    HRF_AUTO(hrf_graph) graph = load(name, &shape, &x, &want);
    if (hrf_session_prepare(graph, &config, &out, &operations, notes, &err) != HRF_OK)
        fail_msg("%s: %s", name, err.text);
    return out;
}

static int count_float_inputs(const struct hrf_graph *graph, enum hrf_op op)
{
    int n = 0;
    for (int32_t k = 0; k < graph->n_nodes; k++)
        n += graph->nodes[k].op == op && graph->values[graph->nodes[k].inputs[0]].dtype == HRF_F32;
    return n;
}

/* Of a transformer's block, where ONNX Runtime rounds between all operators, only the norms are
 * computed in float32: sums with constants, GELU in pieces, attention and its moves stay in 8 bits.
 * The pairs left are those of the input, the output and the two norms. */
static void a_block_stays_in_8_bits(void **state)
{
    (void)state;
    HRF_AUTO_RELEASE(hrf_strbuf) notes = HRF_STRBUF_INIT;
    HRF_AUTO(hrf_graph) graph = prepared("block", "cpu", &notes);
    assert_int_equal(build_count(graph, HRF_OP_BYTE_ATTENTION), 1);
    assert_int_equal(build_count(graph, HRF_OP_GEMM), 4);
    assert_int_equal(build_count(graph, HRF_OP_ADD), 7);
    assert_int_equal(build_count(graph, HRF_OP_LOOKUP),
                     3); /* GELU; queries and keys times a number */
    assert_int_equal(build_count(graph, HRF_OP_QUANTIZE), 3);
    assert_int_equal(build_count(graph, HRF_OP_DEQUANTIZE), 3);
    assert_int_equal(build_count(graph, HRF_OP_LAYER_NORM), 2);
    assert_int_equal(graph->n_nodes, 1 + 4 + 7 + 3 + 3 + 3 + 2);
    assert_int_equal(count_float_inputs(graph, HRF_OP_GEMM) +
                         count_float_inputs(graph, HRF_OP_ADD) +
                         count_float_inputs(graph, HRF_OP_BYTE_ATTENTION),
                     0);
}

/* Channels last: MatMuls are 1x1 convolutions of images, without a TRANSPOSE left. */
static void channels_last_are_images(void **state)
{
    (void)state;
    HRF_AUTO_RELEASE(hrf_strbuf) notes = HRF_STRBUF_INIT;
    HRF_AUTO(hrf_graph) graph = prepared("last", "cpu", &notes);
    assert_int_equal(build_count(graph, HRF_OP_TRANSPOSE), 0);
    assert_int_equal(build_count(graph, HRF_OP_MATMUL), 0);
    assert_int_equal(build_count(graph, HRF_OP_CONV), 4);
    assert_int_equal(count_float_inputs(graph, HRF_OP_CONV), 0);
    assert_int_equal(build_count(graph, HRF_OP_LOOKUP), 1);
    /* Around the norm and the graph, and where a move's result gets another scale. */
    assert_int_equal(build_count(graph, HRF_OP_QUANTIZE), 3);
    assert_int_equal(build_count(graph, HRF_OP_DEQUANTIZE), 3);
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
    assert_int_equal(build_count(low, HRF_OP_DEQUANTIZE), 2);
    assert_int_equal(build_count(low, HRF_OP_QUANTIZE), 2);
}

/* Through 8 bits and back. */
static int32_t pair(struct build *b, int32_t x)
{
    const struct hrf_attributes plain = hrf_attributes_default();
    const float scale = 0.1f;
    const int8_t zero = 0;
    const struct hrf_shape one = { .rank = 0 };
    int32_t inputs[3] = { x };
    assert_int_equal(
        hrf_graph_add_value(b->graph, "scale", HRF_F32, &one, &scale, &inputs[1], NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_value(b->graph, "zero", HRF_S8, &one, &zero, &inputs[2], NULL),
                     HRF_OK);
    inputs[0] = build_node(b, HRF_OP_QUANTIZE, inputs, 3, &plain);
    return build_node(b, HRF_OP_DEQUANTIZE, inputs, 3, &plain);
}

/* A few operators between two pairs are a table; a model may have any number of them. */
static void functions_of_an_8_bit_value_are_tables_unless_they_are_long(void **state)
{
    (void)state;
    const int32_t lengths[] = { 10, 400000 };
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        const int32_t n = lengths[l];
        struct build b = build_start(1);
        int32_t x = pair(&b, build_input(&b, SHAPE(2, 3)));
        for (int32_t i = 0; i < n; i++)
            x = build_unary(&b, HRF_OP_NEG, x);
        x = pair(&b, x);
        HRF_AUTO(hrf_graph) graph = build_finish(&b, &x, 1);
        assert_int_equal(hrf_pass_make_lookups(graph, NULL), HRF_OK);
        assert_int_equal(build_count(graph, HRF_OP_LOOKUP), n == 10);
        assert_int_equal(build_count(graph, HRF_OP_NEG), n == 10 ? 0 : n);
    }
}

/* Weights of 8 bits, with a scale and a zero point for each output or for all, [count of scales].
 */
static int32_t quantised_weights(struct build *b, struct hrf_shape shape, int64_t axis)
{
    const int64_t n_scales = build_pick(b, 0, 1) != 0 ? shape.dims[axis] : 1;
    const struct hrf_shape row = { .rank = n_scales > 1, .dims = { n_scales } };
    const bool is_unsigned = build_pick(b, 0, 1) != 0;
    const enum hrf_dtype type = is_unsigned ? HRF_U8 : HRF_S8;
    struct hrf_attributes a = hrf_attributes_default();
    uint8_t integers[1024], zeros[64];
    float scales[64];
    int32_t inputs[3];
    assert_true(hrf_shape_count(&shape) <= 1024 && n_scales <= 64);
    for (int64_t i = 0; i < hrf_shape_count(&shape); i++)
        integers[i] = (uint8_t)build_pick(b, 1, 255);
    for (int64_t i = 0; i < n_scales; i++) {
        zeros[i] = is_unsigned ? 128 : 0;
        scales[i] = (float)build_pick(b, 1, 1000) * 1e-5f;
    }
    HRF_AUTO_FREE char *name = hrf_format("integers_%d", (int)b->n_made++);
    assert_int_equal(hrf_graph_add_value(b->graph, name, type, &shape, integers, &inputs[0], NULL),
                     HRF_OK);
    assert_int_equal(
        hrf_graph_add_value(b->graph, "scales", HRF_F32, &row, scales, &inputs[1], NULL), HRF_OK);
    assert_int_equal(hrf_graph_add_value(b->graph, "zeros", type, &row, zeros, &inputs[2], NULL),
                     HRF_OK);
    a.axis = axis;
    return build_node(b, HRF_OP_DEQUANTIZE, inputs, 3, &a);
}

/* x -> product -> activation -> product, only the weights of which are quantised. */
static struct hrf_graph *with_quantised_weights(uint64_t seed)
{
    struct build b = build_start(seed);
    const bool is_gemm = build_pick(&b, 0, 1) != 0;
    const int64_t group = is_gemm ? 1 : build_pick(&b, 1, 2);
    int32_t x = build_input(&b, is_gemm ? SHAPE(5, 8) : SHAPE(1, 8, 6, 7));
    for (int64_t i = 0; i < 2; i++) {
        struct hrf_attributes a = hrf_attributes_default();
        int32_t inputs[3] = { x };
        a.group = group;
        a.gemm.transpose_b = is_gemm && build_pick(&b, 0, 1) != 0;
        a.gemm.alpha = is_gemm && build_pick(&b, 0, 1) != 0 ? 0.75f : 1;
        if (is_gemm)
            inputs[1] = quantised_weights(
                &b, a.gemm.transpose_b ? SHAPE(8 - 2 * i, 8) : SHAPE(8, 8 - 2 * i),
                a.gemm.transpose_b ? 0 : 1);
        else
            inputs[1] = quantised_weights(&b, SHAPE(8 - 2 * i, 8 / group, 3 - 2 * i, 3 - 2 * i), 0);
        inputs[2] = build_constant(&b, SHAPE(8 - 2 * i), -1, 1);
        const bool adds = is_gemm && build_pick(&b, 0, 1) != 0;
        x = build_node(&b, is_gemm ? HRF_OP_GEMM : HRF_OP_CONV, inputs, adds ? 2 : 3, &a);
        x = adds ? build_binary(&b, HRF_OP_ADD, x, inputs[2]) : x;
        x = i == 0 ? build_unary(&b, HRF_OP_SIGMOID, x) : x;
    }
    return build_finish(&b, &x, 1);
}

/* With ranges of a calibration: smoothing and the correction of the bias see the same weights. */
static void weights_alone_are_lowered_as_from_float32(void **state)
{
    (void)state;
    static const float means[] = { 1, -2, 0.5f, 3, -1, 2, 0.25f, -3 };
    static const float peaks[] = { 4, 1, 40, 2, 9, 3, 0.5f, 100 };
    for (uint64_t seed = 0; seed < 40; seed++) {
        HRF_AUTO(hrf_graph) graph = with_quantised_weights(seed);
        struct hrf_range ranges[64];
        int32_t n = 0;
        for (int32_t v = 0; v < graph->n_values; v++)
            if (graph->values[v].data == NULL)
                ranges[n++] = (struct hrf_range){ .value = graph->values[v].name,
                                                  .low = -4,
                                                  .high = 4,
                                                  .means = means,
                                                  .n_means = 8,
                                                  .peaks = peaks,
                                                  .strength = 0.5f };
        const struct hrf_lowering how = {
            .type = HRF_S8, .ranges = ranges, .n_ranges = n, .rounds_rows = seed % 2 == 0
        };
        HRF_AUTO(hrf_graph) low = lowered_from(graph, &how);
        for (int32_t k = 0; k < low->n_nodes; k++)
            if (low->nodes[k].op == HRF_OP_CONV || low->nodes[k].op == HRF_OP_GEMM)
                assert_int_equal(low->values[low->nodes[k].inputs[HRF_CONV_WEIGHTS]].dtype, HRF_S8);
    }
}

/* What only products read as weights is not computed in float32 when shapes are inferred, and is
 * nothing but its integers in what INT8 runs: in "shifted" one node's do not fit into 8 bits. */
static void integers_stay_integers(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAMES; i++) {
        struct hrf_shape shape;
        HRF_AUTO_FREE float *x = NULL, *want = NULL;
        HRF_AUTO(hrf_graph) graph = load(names[i], &shape, &x, &want);
        int n_products = 0, n_floats = 0;
        assert_int_equal(hrf_graph_infer_shapes(graph, NULL), HRF_OK);
        for (int32_t k = 0; k < graph->n_nodes; k++) {
            const struct hrf_node *node = &graph->nodes[k];
            if (node->op != HRF_OP_CONV && node->op != HRF_OP_GEMM && node->op != HRF_OP_MATMUL)
                continue;
            n_products++;
            n_floats += graph->values[node->inputs[HRF_CONV_WEIGHTS]].data != NULL;
        }
        assert_true(n_products > 2);
        assert_int_equal(n_floats, strcmp(names[i], "shifted") == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_precision_computes_what_the_onnx_operators_say),
        cmocka_unit_test(int8_has_the_bits_of_the_integer_reference),
        cmocka_unit_test(pairs_are_taken_into_the_operators_beside_them),
        cmocka_unit_test(weights_keep_the_scales_of_the_file),
        cmocka_unit_test(products_of_tokens_take_the_scales_of_the_file),
        cmocka_unit_test(a_block_stays_in_8_bits),
        cmocka_unit_test(channels_last_are_images),
        cmocka_unit_test(a_node_may_still_be_kept_in_float32),
        cmocka_unit_test(functions_of_an_8_bit_value_are_tables_unless_they_are_long),
        cmocka_unit_test(weights_alone_are_lowered_as_from_float32),
        cmocka_unit_test(integers_stay_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
