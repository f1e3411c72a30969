/* Shape inference by value. The whole-file cases are in test_onnx.c. */
#include "engine/ir/graph.h"
#include "engine/ir/resize.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct hrf_shape unknown = { .rank = -1 };

static struct hrf_shape shape4(int64_t n, int64_t c, int64_t h, int64_t w)
{
    return (struct hrf_shape){ .rank = 4, .dims = { n, c, h, w } };
}

static int32_t value(struct hrf_graph *g, enum hrf_dtype dtype, struct hrf_shape shape,
                     const void *data)
{
    int32_t index;
    char name[16];
    snprintf(name, sizeof name, "v%d", (int)g->n_values);
    assert_int_equal(hrf_graph_add_value(g, name, dtype, &shape, data, &index, NULL), HRF_OK);
    return index;
}

static int32_t node(struct hrf_graph *g, enum hrf_op op, const int32_t *inputs, int32_t n,
                    const struct hrf_attributes *a)
{
    int32_t y = value(g, HRF_DTYPE_NONE, unknown, NULL);
    assert_int_equal(hrf_graph_add_node(g, op, "n", inputs, n, &y, 1, a, NULL), HRF_OK);
    return y;
}

/* One node over inputs of the given shapes; the text of its result's shape, or the error. */
static void infer(enum hrf_op op, const struct hrf_attributes *a, const struct hrf_shape *inputs,
                  int32_t n, char out[1024])
{
    HRF_AUTO(hrf_graph) g = NULL;
    struct hrf_error err;
    int32_t in[4];
    assert_int_equal(hrf_graph_create("g", &g, NULL), HRF_OK);
    for (int32_t i = 0; i < n; i++)
        in[i] = value(g, HRF_F32, inputs[i], NULL);
    int32_t y = node(g, op, in, n, a);
    assert_int_equal(hrf_graph_set_io(g, in, n, &y, 1, NULL), HRF_OK);
    if (hrf_graph_infer_shapes(g, &err) != HRF_OK)
        snprintf(out, 1024, "%s", err.text);
    else
        hrf_shape_text(&g->values[y].shape, out);
}

static void windows_follow_the_formula(void **state)
{
    (void)state;
    static const struct {
        int64_t size, kernel, stride, dilation, begin, end, floor, ceil;
    } cases[] = {
        { 224, 7, 2, 1, 3, 3, 112, 113 },
        { 112, 3, 2, 1, 1, 1, 56, 57 },
        { 112, 3, 2, 1, 0, 0, 55, 56 },
        { 7, 3, 1, 2, 0, 0, 3, 3 },
        { 5, 2, 2, 1, 0, 0, 2, 3 },
        { 4, 2, 3, 1, 0, 0, 1, 2 },
        /* With ceil_mode the third window would start beyond the input: it does not count. */
        { 3, 1, 2, 1, 1, 0, 2, 2 },
        { 2, 3, 1, 1, 0, 0, 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hrf_window w = { .kernel = { cases[i].kernel },
                                .stride = { cases[i].stride },
                                .dilation = { cases[i].dilation },
                                .pad_begin = { cases[i].begin },
                                .pad_end = { cases[i].end } };
        assert_int_equal(hrf_window_output(&w, 0, cases[i].size), cases[i].floor);
        w.ceil_mode = true;
        assert_int_equal(hrf_window_output(&w, 0, cases[i].size), cases[i].ceil);
    }
}

static void convolutions_check_their_weights(void **state)
{
    (void)state;
    char text[1024];
    struct hrf_attributes a = hrf_attributes_default();
    struct hrf_shape in[3] = { shape4(2, 6, 9, 11),
                               shape4(8, 3, 3, 5),
                               { .rank = 1, .dims = { 8 } } };
    a.group = 2;
    infer(HRF_OP_CONV, &a, in, 3, text);
    assert_string_equal(text, "2x8x7x7");
    a.group = 4;
    infer(HRF_OP_CONV, &a, in, 2, text);
    assert_string_equal(text, "node 'n' (Conv): the weights do not fit 6 channels in 4 groups; "
                              "inputs: 2x6x9x11, 8x3x3x5: the file is no valid ONNX: export "
                              "the model again");
    a.group = 2;
    in[2].dims[0] = 7;
    infer(HRF_OP_CONV, &a, in, 3, text);
    assert_non_null(strstr(text, "the bias does not hold 8 numbers"));
}

static void same_padding_follows_the_size_each_time(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) g = NULL;
    assert_int_equal(hrf_graph_create("g", &g, NULL), HRF_OK);
    struct hrf_attributes a = hrf_attributes_default();
    a.window.stride[0] = a.window.stride[1] = 2;
    a.window.auto_pad = HRF_PAD_SAME_LOWER;
    int32_t in[2] = { value(g, HRF_F32, shape4(1, 1, 6, 7), NULL),
                      value(g, HRF_F32, shape4(1, 1, 3, 3), NULL) };
    int32_t y = node(g, HRF_OP_CONV, in, 2, &a);
    assert_int_equal(hrf_graph_set_io(g, in, 2, &y, 1, NULL), HRF_OK);
    assert_int_equal(hrf_graph_infer_shapes(g, NULL), HRF_OK);
    const struct hrf_window *w = &g->nodes[0].attributes.window;
    assert_int_equal(w->pad_begin[0], 1); /* 6 rows: one pad in all, before them */
    assert_int_equal(w->pad_end[0], 0);
    assert_int_equal(w->pad_begin[1], 1); /* 7 columns: one on each side */
    assert_int_equal(w->pad_end[1], 1);
    struct hrf_shape other = shape4(1, 1, 7, 6);
    assert_int_equal(hrf_graph_set_input_shape(g, 0, &other, NULL), HRF_OK);
    assert_int_equal(hrf_graph_infer_shapes(g, NULL), HRF_OK);
    assert_int_equal(g->nodes[0].attributes.window.pad_end[0], 1);
    assert_int_equal(g->nodes[0].attributes.window.pad_end[1], 0);
}

static void matrices_multiply_as_in_numpy(void **state)
{
    (void)state;
    char text[1024];
    struct hrf_shape in[2] = { { .rank = 4, .dims = { 2, 1, 3, 4 } },
                               { .rank = 3, .dims = { 5, 4, 6 } } };
    infer(HRF_OP_MATMUL, NULL, in, 2, text);
    assert_string_equal(text, "2x5x3x6");
    in[1] = (struct hrf_shape){ .rank = 1, .dims = { 4 } };
    infer(HRF_OP_MATMUL, NULL, in, 2, text);
    assert_string_equal(text, "2x1x3");
    in[0] = (struct hrf_shape){ .rank = 1, .dims = { 4 } };
    infer(HRF_OP_MATMUL, NULL, in, 2, text);
    assert_string_equal(text, "scalar");
    in[0].dims[0] = 5;
    infer(HRF_OP_MATMUL, NULL, in, 2, text);
    assert_non_null(strstr(text, "inner sizes 5 and 4"));
}

static void gemm_takes_transposed_factors_and_a_broadcast_term(void **state)
{
    (void)state;
    char text[1024];
    struct hrf_attributes a = hrf_attributes_default();
    a.gemm.transpose_a = a.gemm.transpose_b = true;
    struct hrf_shape in[3] = { { .rank = 2, .dims = { 4, 3 } },
                               { .rank = 2, .dims = { 5, 4 } },
                               { .rank = 2, .dims = { 3, 1 } } };
    infer(HRF_OP_GEMM, &a, in, 3, text);
    assert_string_equal(text, "3x5");
    in[2] = (struct hrf_shape){ .rank = 3, .dims = { 1, 3, 5 } };
    infer(HRF_OP_GEMM, &a, in, 3, text);
    assert_non_null(strstr(text, "input 2 does not broadcast to 3x5"));
}

static void layout_operators_move_dimensions(void **state)
{
    (void)state;
    char text[1024];
    struct hrf_attributes a = hrf_attributes_default();
    struct hrf_shape in[2] = { shape4(2, 3, 4, 5), shape4(2, 7, 4, 5) };
    a.axis = -3;
    infer(HRF_OP_CONCAT, &a, in, 2, text);
    assert_string_equal(text, "2x10x4x5");
    a.axis = 2;
    infer(HRF_OP_CONCAT, &a, in, 2, text);
    assert_non_null(strstr(text, "input 1 does not fit along axis 2"));
    infer(HRF_OP_FLATTEN, &a, in, 1, text);
    assert_string_equal(text, "6x20");
    a.axis = 4;
    infer(HRF_OP_FLATTEN, &a, in, 1, text);
    assert_string_equal(text, "120x1");
    a.axis = 5;
    infer(HRF_OP_FLATTEN, &a, in, 1, text);
    assert_non_null(strstr(text, "axis 5 is outside the 4 axes"));
    infer(HRF_OP_TRANSPOSE, &a, in, 1, text);
    assert_string_equal(text, "5x4x3x2");
    a.n_axes = 4;
    memcpy(a.axes, (int64_t[]){ 0, 2, 3, 1 }, 4 * sizeof a.axes[0]);
    infer(HRF_OP_TRANSPOSE, &a, in, 1, text);
    assert_string_equal(text, "2x4x5x3");
    a.axes[3] = 0;
    infer(HRF_OP_TRANSPOSE, &a, in, 1, text);
    assert_non_null(strstr(text, "axis 0 is named twice"));
}

static void a_window_inside_its_padding_is_refused(void **state)
{
    (void)state;
    char text[1024];
    struct hrf_attributes a = hrf_attributes_default();
    struct hrf_shape in = shape4(1, 1, 8, 8);
    a.window.kernel[0] = a.window.kernel[1] = 2;
    a.window.pad_begin[1] = 2;
    infer(HRF_OP_MAX_POOL, &a, &in, 1, text);
    assert_non_null(strstr(text, "pads of 2 and 0 columns hide a window of 2"));
    a.window.pad_begin[1] = 1;
    infer(HRF_OP_MAX_POOL, &a, &in, 1, text);
    assert_string_equal(text, "1x1x7x8");
}

static void sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    char text[1024];
    struct hrf_attributes a = hrf_attributes_default();
    struct hrf_shape in[2] = { shape4(1 << 20, 1, 1 << 20, 1), shape4(1, 1 << 20, 1, 1) };
    infer(HRF_OP_ADD, NULL, in, 2, text);
    assert_non_null(strstr(text, "is too large"));
    in[0] = shape4(1, 1, 8, 8);
    a.window.kernel[0] = a.window.kernel[1] = 1;
    a.window.pad_begin[0] = INT64_MAX;
    infer(HRF_OP_MAX_POOL, &a, in, 1, text);
    assert_non_null(strstr(text, "impossible window along the rows"));
}

/* reshape(x, [shape(x)[0], -1]): the batch follows the input each time. */
static void shape_arithmetic_is_done_again_for_every_input(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) g = NULL;
    assert_int_equal(hrf_graph_create("g", &g, NULL), HRF_OK);
    struct hrf_shape one = { .rank = 1, .dims = { 1 } };
    int64_t zero = 0, rest = -1;
    int32_t x = value(g, HRF_F32, shape4(2, 3, 4, 5), NULL);
    int32_t s = node(g, HRF_OP_SHAPE, &x, 1, NULL);
    int32_t n = node(g, HRF_OP_GATHER, (int32_t[]){ s, value(g, HRF_S64, one, &zero) }, 2, NULL);
    int32_t to = node(g, HRF_OP_CONCAT, (int32_t[]){ n, value(g, HRF_S64, one, &rest) }, 2, NULL);
    int32_t y = node(g, HRF_OP_RESHAPE, (int32_t[]){ x, to }, 2, NULL);
    assert_int_equal(hrf_graph_set_io(g, &x, 1, &y, 1, NULL), HRF_OK);
    for (int64_t batch = 1; batch < 4; batch++) {
        struct hrf_shape shape = shape4(batch, 3, 4, 5);
        assert_int_equal(hrf_graph_set_input_shape(g, 0, &shape, NULL), HRF_OK);
        assert_int_equal(hrf_graph_infer_shapes(g, NULL), HRF_OK);
        assert_int_equal(g->values[y].shape.dims[0], batch);
        assert_int_equal(g->values[y].shape.dims[1], 60);
    }
    assert_int_equal(hrf_graph_compact(g, NULL), HRF_OK);
    assert_int_equal(g->n_nodes, 1);
    assert_int_equal(hrf_graph_infer_shapes(g, NULL), HRF_OK);
    assert_int_equal(g->values[g->outputs[0]].shape.dims[0], 3);
}

static void operations_are_two_for_each_multiply_add(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) g = NULL;
    assert_int_equal(hrf_graph_create("g", &g, NULL), HRF_OK);
    int32_t in[2] = { value(g, HRF_F32, shape4(2, 8, 5, 6), NULL),
                      value(g, HRF_F32, shape4(16, 4, 3, 3), NULL) };
    struct hrf_attributes a = hrf_attributes_default();
    a.group = 2;
    int32_t y = node(g, HRF_OP_CONV, in, 2, &a);
    assert_int_equal(hrf_graph_set_io(g, in, 2, &y, 1, NULL), HRF_OK);
    assert_int_equal(hrf_graph_infer_shapes(g, NULL), HRF_OK);
    assert_true(hrf_node_operations(g, &g->nodes[0]) == 2.0 * (2 * 16 * 3 * 4) * (4 * 9));
}

static void steps_beyond_an_axis_take_one_element(void **state)
{
    (void)state;
    static const int64_t steps[] = { INT64_MAX, 6, INT64_MIN, -6 };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        HRF_AUTO(hrf_graph) g = NULL;
        assert_int_equal(hrf_graph_create("g", &g, NULL), HRF_OK);
        struct hrf_attributes a = hrf_attributes_default();
        a.n_axes = 1;
        a.axes[0] = 2;
        a.slice.starts[0] = steps[i] > 0 ? 1 : 4;
        a.slice.ends[0] = steps[i] > 0 ? 5 : INT64_MIN;
        a.slice.steps[0] = steps[i];
        const int32_t x = value(g, HRF_F32, shape4(1, 2, 5, 3), NULL);
        const int32_t y = node(g, HRF_OP_SLICE, &x, 1, &a);
        assert_int_equal(hrf_graph_set_io(g, &x, 1, &y, 1, NULL), HRF_OK);
        for (int round = 0; round < 2; round++) {
            assert_int_equal(hrf_graph_infer_shapes(g, NULL), HRF_OK);
            assert_int_equal(g->values[y].shape.dims[2], 1);
            assert_int_equal(g->nodes[0].attributes.slice.starts[0], steps[i] > 0 ? 1 : 4);
            /* Offsets of elements are products with it: they must not overflow. */
            assert_int_equal(g->nodes[0].attributes.slice.steps[0], steps[i] > 0 ? 5 : -5);
        }
    }
}

/* One node over a 1x3x9x7 image: the text of the result's shape, or the error. */
static void infer_image(enum hrf_op op, const struct hrf_attributes *a, char out[1024])
{
    const struct hrf_shape image = shape4(1, 4, 9, 7);
    infer(op, a, &image, 1, out);
}

static void windows_and_sizes_have_bounds(void **state)
{
    (void)state;
    char text[1024];
    const int64_t large[] = { (int64_t)1 << 20, ((int64_t)1 << 31) - 1,
                              (int64_t)1 << 62, INT64_MAX,
                              INT64_MIN,        -1 };
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        struct hrf_attributes a = hrf_attributes_default();
        a.window.kernel[0] = a.window.kernel[1] = 3;
        a.window.pad_begin[0] = a.window.pad_end[0] = a.window.dilation[0] = large[i];
        infer_image(HRF_OP_MAX_POOL, &a, text);
        assert_non_null(strstr(text, "impossible window along the rows"));
        a = hrf_attributes_default();
        a.window.kernel[0] = a.window.kernel[1] = large[i];
        infer_image(HRF_OP_AVERAGE_POOL, &a, text);
        assert_non_null(strstr(text, "impossible window along the rows"));
        a = hrf_attributes_default();
        a.resize.sizes[2] = a.resize.sizes[3] = large[i] == (int64_t)1 << 20 ? large[i] + 1
                                                                             : large[i];
        infer_image(HRF_OP_RESIZE, &a, text);
        assert_true(strstr(text, "supported") != NULL || strstr(text, "cannot be resized") != NULL);
        a = hrf_attributes_default();
        a.lrn.size = large[i] == (int64_t)1 << 20 ? large[i] + 1 : large[i];
        infer_image(HRF_OP_LRN, &a, text);
        assert_non_null(strstr(text, "needs a size of 1 to 1048576"));
    }
}

/* Of operators that are computed when the model is loaded, those whose result would be float32. */
static void what_must_be_known_may_not_depend_on_the_image(void **state)
{
    (void)state;
    const struct hrf_shape image = shape4(1, 3, 8, 8), matrix = { .rank = 2, .dims = { 8, 8 } };
    const struct hrf_attributes trilu = hrf_attributes_default();
    char text[1024];
    infer(HRF_OP_TRILU, &trilu, &matrix, 1, text);
    assert_non_null(strstr(text, "node 'n' (Trilu): it is computed of constants and shapes only"));
    infer(HRF_OP_CUM_SUM, &trilu, (const struct hrf_shape[]){ image, { .rank = 0 } }, 2, text);
    assert_non_null(
        strstr(text, "node 'n' (CumSum): input 1, an input of the model, must be known"));
}

static void a_clip_with_min_above_max_is_that_of_max(void **state)
{
    (void)state;
    HRF_AUTO(hrf_graph) g = NULL;
    struct hrf_attributes a = hrf_attributes_default();
    char text[1024];
    a.activation_min = 3;
    a.activation_max = 1;
    assert_int_equal(hrf_graph_create("g", &g, NULL), HRF_OK);
    const int32_t x = value(g, HRF_F32, shape4(1, 1, 2, 2), NULL),
                  y = node(g, HRF_OP_CLIP, &x, 1, &a);
    assert_int_equal(hrf_graph_set_io(g, &x, 1, &y, 1, NULL), HRF_OK);
    assert_int_equal(hrf_graph_infer_shapes(g, NULL), HRF_OK);
    assert_true(g->nodes[0].attributes.activation_min == 1);
    a.activation_min = NAN;
    infer_image(HRF_OP_CLIP, &a, text);
    assert_non_null(strstr(text, "they must be numbers"));
}

/* The numbers are PyTorch 2.15's, F.interpolate of 0, 1, 2 ... by a scale, and ONNX Runtime 1.32's
 * for the exported file. ONNX's reference code has 12 for 10 by 1.3, and 0.2775 for 17 by 3.45. */
static void a_resize_by_a_scale_is_that_of_pytorch(void **state)
{
    (void)state;
    static const struct {
        enum hrf_resize_mode mode;
        enum hrf_resize_coordinates coordinates;
        int64_t n_in;
        float scale;
        int64_t n_out, i;
        double result;
    } rows[] = {
        { HRF_RESIZE_LINEAR, HRF_RESIZE_ALIGN_CORNERS, 10, 1.3f, 13, 1, 0.75 },
        { HRF_RESIZE_LINEAR, HRF_RESIZE_ALIGN_CORNERS, 17, 3.45f, 58, 1, 16.0 / 57 },
        { HRF_RESIZE_LINEAR, HRF_RESIZE_ALIGN_CORNERS, 17, 3.45f, 58, 57, 16 },
        { HRF_RESIZE_LINEAR, HRF_RESIZE_HALF_PIXEL, 10, 1.3f, 13, 1, 1.5 / 1.3 - 0.5 },
        { HRF_RESIZE_NEAREST, HRF_RESIZE_ASYMMETRIC, 10, 1.3f, 13, 10, 7 },
        { HRF_RESIZE_NEAREST, HRF_RESIZE_ASYMMETRIC, 33, 1.2f, 39, 12, 10 },
    };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct hrf_attributes a = hrf_attributes_default();
        struct hrf_shape x = shape4(1, 1, rows[k].n_in, 4);
        char text[1024], expected[64];
        double sum = 0;
        a.resize.mode = rows[k].mode;
        a.resize.coordinates = rows[k].coordinates;
        a.resize.rounding = HRF_RESIZE_FLOOR;
        for (int i = 0; i < 4; i++)
            a.resize.scales[i] = i == 2 ? rows[k].scale : 1;
        infer(HRF_OP_RESIZE, &a, &x, 1, text);
        snprintf(expected, sizeof expected, "1x1x%lldx4", (long long)rows[k].n_out);
        assert_string_equal(text, expected);
        const struct hrf_resize_tap tap = hrf_resize_tap_at(&a.resize, 0, rows[k].n_in,
                                                            rows[k].n_out, rows[k].i);
        for (int32_t t = 0; t < hrf_resize_n(&a.resize); t++)
            sum += tap.weight[t] * (double)tap.index[t];
        if (fabs(sum - rows[k].result) > 1e-6)
            fail_msg("row %zu: %.9g, and PyTorch has %.9g", k, sum, rows[k].result);
    }
}

/* x -> RESIZE to 64 x 64 -> RELU, n images. */
static struct hrf_graph *growing(int64_t n)
{
    struct hrf_graph *g = NULL;
    struct hrf_attributes a = hrf_attributes_default();
    a.resize.sizes[2] = a.resize.sizes[3] = 64;
    assert_int_equal(hrf_graph_create("g", &g, NULL), HRF_OK);
    const int32_t x = value(g, HRF_F32, shape4(n, 1, 4, 4), NULL);
    const int32_t large = node(g, HRF_OP_RESIZE, &x, 1, &a);
    const int32_t y = node(g, HRF_OP_RELU, &large, 1, NULL);
    assert_int_equal(hrf_graph_set_io(g, &x, 1, &y, 1, NULL), HRF_OK);
    return g;
}

/* Of one image, whatever the batch; the node that goes beyond is named, and the key. */
static void a_model_has_bounds_in_bytes_and_operations(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 3; n += 2) {
        HRF_AUTO(hrf_graph) g = growing(n);
        struct hrf_error err;
        const double work = (hrf_graph_infer_shapes(g, NULL) == HRF_OK)
                                ? hrf_node_work(g, &g->nodes[0]) + hrf_node_work(g, &g->nodes[1])
                                : 0;
        assert_true(work > 0);
        g->bounds = (struct hrf_bounds){ .memory_bytes = 64 * 64 * 4,
                                         .operations = work / (double)n };
        assert_int_equal(hrf_graph_infer_shapes(g, NULL), HRF_OK);
        g->bounds.memory_bytes--;
        assert_int_equal(hrf_graph_infer_shapes(g, &err), HRF_E_USER);
        assert_non_null(strstr(err.text, "(Resize)"));
        assert_non_null(strstr(err.text, "model.max_memory"));
        g->bounds.memory_bytes++;
        g->bounds.operations -= 1;
        assert_int_equal(hrf_graph_infer_shapes(g, &err), HRF_E_USER);
        assert_non_null(strstr(err.text, "(Relu)"));
        assert_non_null(strstr(err.text, "model.max_operations"));
    }
}

/* A long chain of shape arithmetic over as many numbers as are allowed in one node. */
static void what_is_computed_at_loading_has_a_bound(void **state)
{
    (void)state;
    enum { N = 1 << 16, CHAIN = 1024 };
    HRF_AUTO(hrf_graph) g = NULL;
    HRF_AUTO_FREE int64_t *numbers = hrf_calloc(N, sizeof *numbers);
    struct hrf_error err;
    assert_int_equal(hrf_graph_create("g", &g, NULL), HRF_OK);
    int32_t at[2] = { value(g, HRF_S64, (struct hrf_shape){ .rank = 1, .dims = { N } }, numbers) };
    at[1] = at[0];
    for (int i = 0; i < CHAIN; i++)
        at[0] = node(g, HRF_OP_ADD, at, 2, NULL);
    assert_int_equal(hrf_graph_set_io(g, NULL, 0, at, 1, NULL), HRF_OK);
    assert_int_equal(hrf_graph_infer_shapes(g, &err), HRF_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "computed when the model is loaded"));
}

static int32_t constant(struct hrf_graph *g, int64_t n, const int64_t *numbers)
{
    return value(g, HRF_S64, (struct hrf_shape){ .rank = 1, .dims = { n } }, numbers);
}

/* Networks of a file that fixes 2 x 3 x 8 x 8, and which other inputs they may be given. Reshape
 * and Slice have constant inputs. */
static void a_fixed_input_may_change_where_nothing_needs_it(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        enum hrf_op op;
        int64_t
            numbers[4]; /* the Reshape's shape; a window's side, pads at the begin and the end */
        bool any_batch, any_size;
    } rows[] = {
        { "pointwise", HRF_OP_RELU, { 0 }, true, true },
        { "a mean", HRF_OP_GLOBAL_AVERAGE_POOL, { 0 }, true, true },
        { "a small window", HRF_OP_MAX_POOL, { 3, 1, 1 }, true, true },
        { "a window of uneven pads", HRF_OP_MAX_POOL, { 3, 0, 1 }, true, false },
        { "the window of all", HRF_OP_AVERAGE_POOL, { 8, 0, 0 }, true, false },
        { "an adaptive pooling to 2 x 2", HRF_OP_AVERAGE_POOL, { 4, 0, 0 }, true, false },
        { "average windows of 2 px", HRF_OP_AVERAGE_POOL, { 2, 0, 0 }, true, true },
        { "images to rows", HRF_OP_FLATTEN, { 1 }, true, true },
        { "all to one row", HRF_OP_FLATTEN, { 0 }, false, true },
        { "a Reshape to the batch", HRF_OP_RESHAPE, { 2, 3, -1, 1 }, false, true },
        { "pixels to one axis", HRF_OP_RESHAPE, { 0, 3, -1, 1 }, true, true },
        { "pixels cut at 8", HRF_OP_RESHAPE, { 0, 3, -1, 8 }, true, false },
        { "a Reshape to the size", HRF_OP_RESHAPE, { 0, 3, 8, 8 }, true, false },
        { "a Reshape that mixes images", HRF_OP_RESHAPE, { 1, 3, -1, 1 }, false, false },
        { "rows to the front", HRF_OP_TRANSPOSE, { 2, 0, 1, 3 }, false, true },
        { "softmax over the batch", HRF_OP_SOFTMAX, { 0 }, false, true },
        { "softmax over channels", HRF_OP_SOFTMAX, { 1 }, true, true },
        { "an operator without a rule", HRF_OP_TOP_K, { 1 }, false, false },
    };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        HRF_AUTO(hrf_graph) g = NULL;
        struct hrf_attributes a = hrf_attributes_default();
        const int64_t *n = rows[k].numbers;
        const bool is_window = rows[k].op == HRF_OP_AVERAGE_POOL || rows[k].op == HRF_OP_MAX_POOL;
        assert_int_equal(hrf_graph_create("g", &g, NULL), HRF_OK);
        int32_t in[2] = { value(g, HRF_F32, shape4(2, 3, 8, 8), NULL) };
        for (int i = 0; i < 2 && is_window; i++) {
            a.window.kernel[i] = n[0];
            a.window.stride[i] = rows[k].op == HRF_OP_MAX_POOL ? 2 : n[0];
            a.window.pad_begin[i] = n[1];
            a.window.pad_end[i] = n[2];
        }
        a.axis = n[0];
        a.block.size = 1;
        a.keep_dims = true;
        a.n_axes = rows[k].op == HRF_OP_TRANSPOSE ? 4 : 0;
        memcpy(a.axes, n, 4 * sizeof *n);
        if (rows[k].op == HRF_OP_RESHAPE)
            in[1] = constant(g, 4, n);
        const int32_t y = node(g, rows[k].op, in, rows[k].op == HRF_OP_RESHAPE ? 2 : 1, &a);
        assert_int_equal(hrf_graph_set_io(g, in, 1, &y, 1, NULL), HRF_OK);
        g->file_shape = shape4(2, 3, 8, 8);
        const struct hrf_shape images = shape4(5, 3, 8, 8), size = shape4(2, 3, 16, 16);
        struct hrf_error err = { .status = HRF_OK };
        if ((hrf_graph_set_input_shape(g, 0, &images, &err) == HRF_OK) != rows[k].any_batch)
            fail_msg("%s, batch: %s", rows[k].what, err.text);
        assert_int_equal(hrf_graph_fixed_batch(g, &images), rows[k].any_batch ? 0 : 2);
        assert_int_equal(hrf_graph_images(g, &images), rows[k].any_batch ? 5 : 2);
        err.text[0] = '\0';
        if ((hrf_graph_set_input_shape(g, 0, &size, &err) == HRF_OK) != rows[k].any_size)
            fail_msg("%s, size: %s", rows[k].what, err.text);
        if (!rows[k].any_size)
            assert_non_null(strstr(err.text, "node 'n' ("));
        g->file_shape.dims[0] = g->file_shape.dims[2] = g->file_shape.dims[3] = -1;
        assert_int_equal(hrf_graph_set_input_shape(g, 0, &images, NULL), HRF_OK);
        assert_int_equal(hrf_graph_set_input_shape(g, 0, &size, NULL), HRF_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_follow_the_formula),
        cmocka_unit_test(convolutions_check_their_weights),
        cmocka_unit_test(same_padding_follows_the_size_each_time),
        cmocka_unit_test(matrices_multiply_as_in_numpy),
        cmocka_unit_test(gemm_takes_transposed_factors_and_a_broadcast_term),
        cmocka_unit_test(layout_operators_move_dimensions),
        cmocka_unit_test(a_window_inside_its_padding_is_refused),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(shape_arithmetic_is_done_again_for_every_input),
        cmocka_unit_test(operations_are_two_for_each_multiply_add),
        cmocka_unit_test(steps_beyond_an_axis_take_one_element),
        cmocka_unit_test(windows_and_sizes_have_bounds),
        cmocka_unit_test(a_resize_by_a_scale_is_that_of_pytorch),
        cmocka_unit_test(what_must_be_known_may_not_depend_on_the_image),
        cmocka_unit_test(a_clip_with_min_above_max_is_that_of_max),
        cmocka_unit_test(a_fixed_input_may_change_where_nothing_needs_it),
        cmocka_unit_test(a_model_has_bounds_in_bytes_and_operations),
        cmocka_unit_test(what_is_computed_at_loading_has_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
