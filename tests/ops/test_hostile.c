/* Models of one node with attributes that no exporter writes: for every operator, every integer
 * attribute (and every number of its list) is set to 0, -1, 1, and numbers around 2^20, 2^31, 2^62
 * and the ends of int64_t. Each is refused, or runs on the reference and on the processor within
 * small bounds. That nothing crashes, overflows or goes on for hours is what is tested; it is meant
 * for a build with sanitizers. */

#include "engine/ir/op.h"
#include "engine/run/session.h"
#include "tests/ops/build.h"
#include "tests/unit/unit.h"

#include <math.h>

static const struct hrf_bounds small = { .memory_bytes = 16 << 20, .operations = 1e7 };

static const int64_t numbers[] = { 0,
                                   -1,
                                   1,
                                   2,
                                   5,
                                   (1 << 20) - 1,
                                   (1 << 20) + 1,
                                   INT32_MAX,
                                   (int64_t)INT32_MAX + 1,
                                   500000000,
                                   1000000000,
                                   (int64_t)1 << 62,
                                   INT64_MAX,
                                   INT64_MIN,
                                   INT64_MIN + 1 };
enum { N_NUMBERS = sizeof numbers / sizeof numbers[0] };

struct tally {
    int refused, ran;
};

/* The other inputs that an operator needs, so that only its attributes are wrong. */
static int32_t add_other_inputs(struct build *b, enum hrf_op op, int32_t *inputs)
{
    const int64_t shape[] = { 1, -1 }, indices[] = { 0, 1 };
    switch (op) {
    case HRF_OP_CONV:
        inputs[1] = build_constant(b, SHAPE(8, 4, 3, 3), -1, 1);
        return 2;
    case HRF_OP_CONV_TRANSPOSE:
        inputs[1] = build_constant(b, SHAPE(4, 8, 3, 3), -1, 1);
        return 2;
    case HRF_OP_GEMM:
    case HRF_OP_MATMUL:
        inputs[1] = build_constant(b, SHAPE(6, 5), -1, 1);
        return 2;
    case HRF_OP_BATCH_NORM:
        for (int i = 1; i < 5; i++)
            inputs[i] = build_constant(b, SHAPE(4), 0.5, 1);
        return 5;
    case HRF_OP_RESHAPE:
        inputs[1] = build_integers(b, 2, shape);
        return 2;
    case HRF_OP_GATHER:
        inputs[1] = build_integers(b, 2, indices);
        return 2;
    case HRF_OP_PERFORMER:
        inputs[1] = inputs[2] = inputs[0];
        inputs[3] = build_constant(b, SHAPE(3, 4), -1, 1);
        return 4;
    case HRF_OP_EXPAND:
    case HRF_OP_TILE:
        inputs[1] = build_integers(b, 4, (const int64_t[]){ 2, 1, 1, 1 });
        return 2;
    case HRF_OP_LAYER_NORM:
    case HRF_OP_RMS_NORM:
        inputs[1] = build_constant(b, SHAPE(4, 5, 6), -1, 1);
        return 2;
    case HRF_OP_GROUP_NORM:
        inputs[1] = inputs[2] = build_constant(b, SHAPE(4), -1, 1);
        return 3;
    case HRF_OP_QUANTIZE:
    case HRF_OP_DEQUANTIZE:
        inputs[1] = build_constant(b, SHAPE(4), 0.1, 0.2);
        return 2;
    default:
        for (int32_t i = 1; i < hrf_op_info(op)->min_inputs; i++)
            inputs[i] = inputs[0];
        return hrf_op_info(op)->min_inputs;
    }
}

static struct hrf_graph *one_node(enum hrf_op op, const struct hrf_attributes *attributes)
{
    struct build b = build_start(1);
    const bool is_matrix = op == HRF_OP_GEMM;
    int32_t inputs[8] = { build_input(&b, is_matrix ? SHAPE(2, 6) : SHAPE(2, 4, 5, 6)) };
    const int32_t n = add_other_inputs(&b, op, inputs);
    const int32_t y = build_node(&b, op, inputs, n, attributes);
    assert_int_equal(hrf_graph_set_io(b.graph, inputs, 1, &y, 1, NULL), HRF_OK);
    b.graph->bounds = small;
    return b.graph;
}

static bool run_on(const struct hrf_graph *graph, const char *device)
{
    HRF_AUTO(hrf_session) session = NULL;
    struct hrf_error err = { .status = HRF_OK };
    const struct hrf_session_config config = { .device = device,
                                               .precision = HRF_FP32,
                                               .n_threads = 1 };
    if (hrf_session_create(graph, &config, &session, &err) != HRF_OK) {
        assert_int_not_equal(err.status, HRF_E_BUG);
        assert_true(err.text[0] != '\0');
        return false;
    }
    float *in = hrf_session_input(session, 0);
    for (int64_t i = 0; i < hrf_shape_count(hrf_session_input_shape(session, 0)); i++)
        in[i] = (float)((i * 7 + 3) % 17 - 8) / 4;
    assert_int_equal(hrf_session_run(session, &err), HRF_OK);
    return true;
}

static void attempt(enum hrf_op op, const struct hrf_attributes *attributes, struct tally *tally)
{
    static const char *const devices[] = { "ref", "cpu" };
    HRF_AUTO(hrf_graph) graph = one_node(op, attributes);
    char hash[65];
    assert_int_equal(hrf_graph_hash(graph, hash, NULL), HRF_OK);
    for (int i = 0; i < 2; i++)
        *(run_on(graph, devices[i]) ? &tally->ran : &tally->refused) += 1;
}

/* What is right for an image of 4 channels, as far as one operator's needs do not exclude
 * another's. */
static struct hrf_attributes sane(enum hrf_op op)
{
    struct hrf_attributes a = hrf_attributes_default();
    for (int i = 0; i < 2; i++) {
        a.window.kernel[i] = 3;
        a.window.pad_begin[i] = a.window.pad_end[i] = 1;
        a.slice.starts[i] = 0;
        a.slice.ends[i] = 3;
        a.slice.steps[i] = 1;
        a.resize.sizes[i] = i == 0 ? 2 : 4;
        a.resize.sizes[2 + i] = 7;
    }
    a.lrn.size = 3;
    a.block.size = a.performer.heads = a.n_pixels = 1;
    a.axis = 1;
    a.to = HRF_DTYPE_NONE;
    if (HRF_OP_HAS(op, slice.starts) || HRF_OP_HAS(op, pad.sizes)) {
        a.n_axes = 2;
        a.axes[1] = 1;
    } else if (hrf_op_is_reduction(op)) {
        a.n_axes = 2;
        a.axes[0] = 2;
        a.axes[1] = 3;
    } else if (op == HRF_OP_UNSQUEEZE) {
        a.n_axes = 1;
    } else if (op == HRF_OP_TRANSPOSE) {
        a.n_axes = 4;
        for (int i = 0; i < 4; i++)
            a.axes[i] = 3 - i;
    }
    return a;
}

static bool is_of_integers(const struct hrf_attribute *row)
{
    return row->type == HRF_ATTRIBUTE_INT || row->type == HRF_ATTRIBUTE_INTS ||
           row->type == HRF_ATTRIBUTE_PAIR || row->type == HRF_ATTRIBUTE_PADS ||
           row->type == HRF_ATTRIBUTE_LIST;
}

/* One number of the attribute wrong, then all of them. */
static void try_attribute(enum hrf_op op, const struct hrf_attribute *row, struct tally *tally)
{
    const struct hrf_attributes right = sane(op);
    const int32_t n = hrf_attribute_count(&right, row);
    for (int k = 0; k < N_NUMBERS; k++)
        for (int32_t i = 0; i <= n; i++) {
            struct hrf_attributes a = right;
            for (int32_t at = 0; at < n; at++)
                if (at == i || i == n)
                    ((int64_t *)hrf_attribute_at(&a, row))[at] = numbers[k];
            attempt(op, &a, tally);
        }
}

/* The pads that would make room for the window. */
static void try_padded_windows(enum hrf_op op, struct tally *tally)
{
    for (int k = 0; k < N_NUMBERS; k++)
        for (int is_dilated = 0; is_dilated < 2; is_dilated++) {
            struct hrf_attributes a = sane(op);
            int64_t *window = is_dilated ? a.window.dilation : a.window.kernel;
            for (int i = 0; i < 2; i++)
                window[i] = a.window.pad_begin[i] = a.window.pad_end[i] = numbers[k];
            attempt(op, &a, tally);
            a.window.auto_pad = HRF_PAD_SAME_UPPER;
            attempt(op, &a, tally);
        }
}

static void try_scales(struct tally *tally)
{
    static const float scales[] = { 0,     -1,  1e-30f,   0.001f, 3,        1e9f,
                                    3e38f, NAN, INFINITY, 1e6f,   -INFINITY };
    for (size_t k = 0; k < sizeof scales / sizeof scales[0]; k++)
        for (int i = 0; i < 4; i++)
            for (int mode = 0; mode < 3; mode++) {
                struct hrf_attributes a = sane(HRF_OP_RESIZE);
                for (int at = 0; at < 4; at++)
                    a.resize.scales[at] = at == i ? scales[k] : 1;
                a.resize.mode = (enum hrf_resize_mode)mode;
                attempt(HRF_OP_RESIZE, &a, tally);
            }
}

static void no_attribute_crashes_or_goes_beyond_the_bounds(void **state)
{
    (void)state;
    struct tally tally = { 0 };
    for (int op = 0; op < HRF_N_OPS; op++) {
        const struct hrf_op_info *info = hrf_op_info((enum hrf_op)op);
        for (int32_t i = 0; i < info->n_attributes; i++)
            if (is_of_integers(&info->attributes[i]))
                try_attribute((enum hrf_op)op, &info->attributes[i], &tally);
        if (HRF_OP_HAS((enum hrf_op)op, window.stride))
            try_padded_windows((enum hrf_op)op, &tally);
    }
    try_scales(&tally);
    print_message("%d models ran, %d were refused\n", tally.ran, tally.refused);
    assert_true(tally.ran > 500 && tally.refused > 500);
}

/* Every operator that a back end computes runs as it is meant to, within the same bounds: what is
 * refused above is refused for its attributes. */
static void sane_attributes_run(void **state)
{
    (void)state;
    for (int op = 0; op < HRF_N_OPS; op++) {
        struct tally tally = { 0 };
        const struct hrf_attributes a = sane((enum hrf_op)op);
        attempt((enum hrf_op)op, &a, &tally);
        if (HRF_OP_HAS((enum hrf_op)op, window.stride) || op == HRF_OP_RESIZE || op == HRF_OP_PAD ||
            op == HRF_OP_SLICE || op == HRF_OP_LRN || op == HRF_OP_TRANSPOSE ||
            op == HRF_OP_PERFORMER || op == HRF_OP_LAYER_NORM || op == HRF_OP_GROUP_NORM ||
            op == HRF_OP_ATTENTION || op == HRF_OP_SWIGLU || op == HRF_OP_TILE)
            assert_int_equal(tally.ran, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sane_attributes_run),
        cmocka_unit_test(no_attribute_crashes_or_goes_beyond_the_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
