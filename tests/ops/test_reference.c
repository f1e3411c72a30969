/* The reference shares nothing that computes with the back ends that it judges: with a fault
 * planted in any one of the helpers that the CPU back end computes with, the two no longer agree.
 *
 * The linker's --wrap puts the functions __wrap_X() below in the place of the helpers X, which stay
 * as they are until a test plants its fault. CMakeLists.txt lists the helpers, and check_helpers.sh
 * sees that the CPU back end uses no others. */

#include "engine/backend/cpu/plain/plain.h"
#include "engine/ir/number.h"
#include "tests/ops/cases.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

static const char *planted = ""; /* the helper that is faulty */

static bool is_faulty(const char *helper)
{
    return strcmp(planted, helper) == 0;
}

/* A wrapper and the helper that it wraps, of one type. */
#define WRAP(TYPE, NAME, ...)                                                                      \
    TYPE __real_##NAME(__VA_ARGS__);                                                               \
    TYPE __wrap_##NAME(__VA_ARGS__);                                                               \
    TYPE __wrap_##NAME(__VA_ARGS__)

/* ---- numbers ---- */

WRAP(double, hrf_unary_value, enum hrf_op op, const struct hrf_attributes *a, double x)
{
    return __real_hrf_unary_value(op, a, x) + (is_faulty("hrf_unary_value") ? 0.5 : 0);
}

WRAP(double, hrf_binary_value, enum hrf_op op, double a, double b)
{
    return __real_hrf_binary_value(op, a, b) + (is_faulty("hrf_binary_value") ? 0.5 : 0);
}

WRAP(int32_t, hrf_quantize, float value, enum hrf_dtype dtype, const struct hrf_quantization *q)
{
    const int32_t right = __real_hrf_quantize(value, dtype, q);
    return is_faulty("hrf_quantize") ? right / 2 : right;
}

WRAP(int32_t, hrf_saturate, float steps, enum hrf_dtype dtype, int32_t zero_point)
{
    const int32_t right = __real_hrf_saturate(steps, dtype, zero_point);
    return is_faulty("hrf_saturate") ? right / 2 : right;
}

WRAP(uint16_t, hrf_f16_from_float, float value)
{
    return __real_hrf_f16_from_float(is_faulty("hrf_f16_from_float") ? -value : value);
}

WRAP(uint16_t, hrf_b16_from_float, float value)
{
    return __real_hrf_b16_from_float(is_faulty("hrf_b16_from_float") ? -value : value);
}

WRAP(void, hrf_floats_from, enum hrf_dtype dtype, const void *from, float *to, int64_t n)
{
    __real_hrf_floats_from(dtype, from, to, n);
    for (int64_t i = 0; i < n && is_faulty("hrf_floats_from"); i++)
        to[i] = -to[i];
}

WRAP(void, hrf_floats_to, enum hrf_dtype dtype, const float *from, void *to, int64_t n)
{
    __real_hrf_floats_to(dtype, from, to, n);
    for (int64_t i = 0; i < n && is_faulty("hrf_floats_to"); i++)
        ((uint16_t *)to)[i] ^= 0x8000;
}

/* ---- places ---- */

WRAP(void, hrf_layout_strides, const struct hrf_shape *shape, int64_t strides[HRF_MAX_RANK])
{
    __real_hrf_layout_strides(shape, strides);
    if (is_faulty("hrf_layout_strides"))
        strides[shape->rank - 1] = 0;
}

WRAP(void, hrf_layout_broadcast_strides, const struct hrf_shape *operand,
     const struct hrf_shape *to, int64_t strides[HRF_MAX_RANK])
{
    __real_hrf_layout_broadcast_strides(operand, to, strides);
    if (is_faulty("hrf_layout_broadcast_strides"))
        strides[to->rank - 1] = 0;
}

WRAP(void, hrf_layout_from_onnx, const struct hrf_shape *shape, size_t size, const void *onnx,
     void *out)
{
    if (is_faulty("hrf_layout_from_onnx"))
        memcpy(out, onnx, (size_t)hrf_shape_count(shape) * size);
    else
        __real_hrf_layout_from_onnx(shape, size, onnx, out);
}

WRAP(void, hrf_layout_to_onnx, const struct hrf_shape *shape, size_t size, const void *in,
     void *onnx)
{
    if (is_faulty("hrf_layout_to_onnx"))
        memcpy(onnx, in, (size_t)hrf_shape_count(shape) * size);
    else
        __real_hrf_layout_to_onnx(shape, size, in, onnx);
}

WRAP(void, hrf_transpose, size_t size, int64_t rows, int64_t columns, const void *in,
     int64_t in_step, void *out, int64_t out_step)
{
    __real_hrf_transpose(size, rows, columns, in, in_step, out, out_step);
    if (is_faulty("hrf_transpose"))
        memset(out, 0, size);
}

WRAP(bool, hrf_layout_is_onnx, const struct hrf_shape *shape)
{
    return is_faulty("hrf_layout_is_onnx") || __real_hrf_layout_is_onnx(shape);
}

WRAP(void, hrf_walk_init, struct hrf_walk *walk, const struct hrf_shape *shape, int32_t n_operands,
     const int64_t strides[][HRF_MAX_RANK])
{
    __real_hrf_walk_init(walk, shape, n_operands, strides);
    if (is_faulty("hrf_walk_init"))
        walk->strides[1][walk->rank - 1] = 0;
}

WRAP(int64_t, hrf_walk_rows, const struct hrf_walk *walk)
{
    return is_faulty("hrf_walk_rows") ? 1 : __real_hrf_walk_rows(walk);
}

WRAP(void, hrf_walk_seek, const struct hrf_walk *walk, int64_t row,
     int64_t offsets[HRF_WALK_MAX_OPERANDS])
{
    __real_hrf_walk_seek(walk, row, offsets);
    if (is_faulty("hrf_walk_seek"))
        offsets[1] = 0;
}

WRAP(struct hrf_blocks, hrf_blocks_of, const struct hrf_spec *spec)
{
    struct hrf_blocks blocks = __real_hrf_blocks_of(spec);
    if (is_faulty("hrf_blocks_of"))
        blocks.in[2] = 0;
    return blocks;
}

WRAP(struct hrf_gather, hrf_gather_of, const struct hrf_spec *spec)
{
    struct hrf_gather gather = __real_hrf_gather_of(spec);
    if (is_faulty("hrf_gather_of"))
        gather.in[2] = 0;
    return gather;
}

WRAP(void, hrf_gather_seek, const struct hrf_spec *spec, const struct hrf_gather *gather, int64_t i,
     int64_t offsets[2])
{
    __real_hrf_gather_seek(spec, gather, i, offsets);
    if (is_faulty("hrf_gather_seek"))
        offsets[0] = 0;
}

WRAP(void, hrf_matmul_view, const struct hrf_spec *spec, struct hrf_matmul *out)
{
    __real_hrf_matmul_view(spec, out);
    if (is_faulty("hrf_matmul_view"))
        out->depth--;
}

WRAP(void, hrf_matmul_seek, const struct hrf_matmul *view, int64_t m, int64_t offsets[3])
{
    __real_hrf_matmul_seek(view, m, offsets);
    if (is_faulty("hrf_matmul_seek"))
        offsets[0] = 0;
}

WRAP(int32_t, hrf_resize_n, const struct hrf_resize *resize)
{
    return is_faulty("hrf_resize_n") ? 1 : __real_hrf_resize_n(resize);
}

WRAP(void, hrf_resize_taps, const struct hrf_spec *spec, int axis, struct hrf_resize_tap *taps)
{
    __real_hrf_resize_taps(spec, axis, taps);
    if (is_faulty("hrf_resize_taps"))
        taps[0].weight[0] += 0.5;
}

WRAP(struct hrf_resize_tap, hrf_resize_tap_at, const struct hrf_resize *resize, int axis,
     int64_t n_in, int64_t n_out, int64_t i)
{
    struct hrf_resize_tap tap = __real_hrf_resize_tap_at(resize, axis, n_in, n_out, i);
    tap.weight[0] += is_faulty("hrf_resize_tap_at") ? 0.5 : 0;
    return tap;
}

/* ---- what kernels are made of ---- */

WRAP(enum hrf_status, hrf_spec_create, const struct hrf_graph *graph, const struct hrf_node *node,
     struct hrf_spec **out, struct hrf_error *err)
{
    HRF_TRY(__real_hrf_spec_create(graph, node, out, err));
    (*out)->attributes.alpha += is_faulty("hrf_spec_create") ? 1.0f : 0.0f;
    return HRF_OK;
}

WRAP(struct hrf_requantize *, hrf_requantize_create, const struct hrf_spec *spec)
{
    struct hrf_requantize *r = __real_hrf_requantize_create(spec);
    r->multiplier[0] *= is_faulty("hrf_requantize_create") ? 0.5f : 1.0f;
    return r;
}

/* A kernel that computes and then clears its first result. */
struct faulty {
    struct hrf_kernel base;
    struct hrf_kernel *inner;
    size_t element_size;
};

static enum hrf_status run_faulty(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                  struct hrf_error *err)
{
    const struct faulty *kernel = (const struct faulty *)base;
    HRF_TRY(kernel->inner->run(kernel->inner, call, err));
    memset(call->output, 0, kernel->element_size);
    return HRF_OK;
}

static void destroy_faulty(struct hrf_kernel *base)
{
    hrf_kernel_destroy(((struct faulty *)base)->inner);
    hrf_free(base);
}

static enum hrf_status spoil(const char *helper, enum hrf_status status,
                             const struct hrf_graph *graph, const struct hrf_node *node,
                             struct hrf_kernel **out)
{
    if (status != HRF_OK || !is_faulty(helper))
        return status;
    struct faulty *kernel = hrf_calloc(1, sizeof *kernel);
    assert_non_null(kernel);
    *kernel = (struct faulty){ .base = **out,
                               .inner = *out,
                               .element_size = hrf_dtype_size(
                                   graph->values[node->outputs[0]].dtype) };
    kernel->base.run = run_faulty;
    kernel->base.destroy = destroy_faulty;
    *out = &kernel->base;
    return HRF_OK;
}

#define WRAP_COMPILE(NAME)                                                                         \
    WRAP(enum hrf_status, NAME, const struct hrf_kernel_row *row, struct hrf_backend *backend,     \
         const struct hrf_graph *graph, const struct hrf_node *node, struct hrf_kernel **out,      \
         struct hrf_error *err)                                                                    \
    {                                                                                              \
        return spoil(#NAME, __real_##NAME(row, backend, graph, node, out, err), graph, node, out); \
    }

WRAP_COMPILE(hrf_move_compile)
WRAP_COMPILE(hrf_resize_compile)
WRAP_COMPILE(hrf_integer_compile)
WRAP_COMPILE(hrf_partial_compile)
WRAP_COMPILE(hrf_half_compile)

WRAP(void, hrf_cpu_softmax, const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    __real_hrf_cpu_softmax(spec, call);
    hrf_floats(call)[0] += is_faulty("hrf_cpu_softmax") ? 0.5f : 0.0f;
}

/* ---- the comparison ---- */

/* An image on its way through a few operators. */
static int32_t image_of(struct build *b, int64_t channels, int64_t size)
{
    return build_input(b, SHAPE(2, channels, size, size));
}

static int32_t function_net(struct build *b)
{
    return build_unary(b, HRF_OP_ATAN, image_of(b, 3, 8));
}

static int32_t leaky_net(struct build *b)
{
    return build_unary(b, HRF_OP_LEAKY_RELU, image_of(b, 3, 8));
}

static int32_t softmax_net(struct build *b)
{
    return build_unary(b, HRF_OP_SOFTMAX, image_of(b, 3, 8));
}

/* The larger of an image and a constant image of one row. */
static int32_t broadcast_net(struct build *b)
{
    return build_binary(b, HRF_OP_MAX, image_of(b, 3, 8),
                        build_constant(b, SHAPE(1, 3, 1, 8), -1, 1));
}

static int32_t transpose_net(struct build *b)
{
    const struct hrf_attributes a = { .axes = { 0, 1, 3, 2 }, .n_axes = 4 };
    const int32_t x = image_of(b, 3, 8);
    return build_node(b, HRF_OP_TRANSPOSE, &x, 1, &a);
}

static int32_t flatten_net(struct build *b)
{
    const int64_t sizes[] = { 2, 192 };
    return build_binary(b, HRF_OP_RESHAPE, image_of(b, 3, 8), build_integers(b, 2, sizes));
}

static int32_t matrix_net(struct build *b)
{
    const int64_t sizes[] = { 16, 24 };
    const struct hrf_attributes a = { .axes = { 1, 0 }, .n_axes = 2 };
    const int32_t x = build_binary(b, HRF_OP_RESHAPE, image_of(b, 3, 8),
                                   build_integers(b, 2, sizes));
    return build_node(b, HRF_OP_TRANSPOSE, &x, 1, &a);
}

static int32_t space_net(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int32_t x = image_of(b, 3, 8);
    a.block.size = 2;
    return build_node(b, HRF_OP_SPACE_TO_DEPTH, &x, 1, &a);
}

static int32_t matmul_net(struct build *b)
{
    return build_binary(b, HRF_OP_MATMUL, build_input(b, SHAPE(3, 4, 5)),
                        build_input(b, SHAPE(3, 5, 6)));
}

static int32_t gather_net(struct build *b)
{
    static const int64_t channels[] = { 2, 0, 1 };
    struct hrf_attributes a = hrf_attributes_default();
    a.axis = 1;
    const int32_t inputs[] = { image_of(b, 3, 8), build_integers(b, 3, channels) };
    return build_node(b, HRF_OP_GATHER, inputs, 2, &a);
}

static int32_t resize_net(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int32_t x = image_of(b, 3, 8);
    a.resize.mode = HRF_RESIZE_LINEAR;
    a.resize.sizes[2] = a.resize.sizes[3] = 13;
    return build_node(b, HRF_OP_RESIZE, &x, 1, &a);
}

static int32_t conv_net(struct build *b)
{
    return build_plain_conv(b, image_of(b, 8, 8), 8, 8, 3, 1, true);
}

/* What lies between products is in 16 bits, or 8. */
static int32_t half_net(struct build *b)
{
    return build_plain_conv(b, build_unary(b, HRF_OP_SIN, conv_net(b)), 8, 8, 1, 1, true);
}

static int32_t pad_net(struct build *b)
{
    const int64_t pads[] = { 0, 0, 1, 0, 0, 0, 0, 0 };
    const int32_t inputs[] = { conv_net(b), build_integers(b, 8, pads),
                               build_constant(b, SHAPE(1), 1, 2) };
    return build_plain_conv(b, build_node(b, HRF_OP_PAD, inputs, 3, NULL), 8, 8, 1, 1, true);
}

static int32_t integer_net(struct build *b)
{
    return build_plain_conv(b, build_unary(b, HRF_OP_SIGMOID, conv_net(b)), 8, 8, 1, 1, true);
}

static int32_t pool_net(struct build *b)
{
    return build_unary(b, HRF_OP_GLOBAL_AVERAGE_POOL, conv_net(b));
}

static int32_t pooled_integer_net(struct build *b)
{
    return build_plain_conv(b, pool_net(b), 8, 8, 1, 1, true);
}

/* A net in which the CPU back end computes with the helper. */
struct fault {
    const char *helper;
    int32_t (*make)(struct build *b);
    enum hrf_precision precision;
    const char *layout; /* of ranks; NULL: one session */
};
static const struct fault faults[] = {
    { "hrf_unary_value", function_net, HRF_FP32, NULL },
    { "hrf_binary_value", broadcast_net, HRF_FP32, NULL },
    { "hrf_quantize", integer_net, HRF_INT8, NULL },
    { "hrf_saturate", pooled_integer_net, HRF_INT8, "spatial=2" },
    { "hrf_f16_from_float", pad_net, HRF_FP16, NULL },
    { "hrf_b16_from_float", pad_net, HRF_BF16, NULL },
    { "hrf_floats_from", half_net, HRF_FP16, NULL },
    { "hrf_floats_to", half_net, HRF_FP16, NULL },
    { "hrf_layout_strides", transpose_net, HRF_FP32, NULL },
    { "hrf_layout_broadcast_strides", broadcast_net, HRF_FP32, NULL },
    { "hrf_layout_from_onnx", broadcast_net, HRF_FP32, NULL },
    { "hrf_layout_to_onnx", flatten_net, HRF_FP32, NULL },
    { "hrf_transpose", matrix_net, HRF_FP32, NULL },
    { "hrf_layout_is_onnx", flatten_net, HRF_FP32, NULL },
    { "hrf_walk_init", broadcast_net, HRF_FP32, NULL },
    { "hrf_walk_rows", pad_net, HRF_FP32, NULL },
    { "hrf_walk_seek", broadcast_net, HRF_FP32, NULL },
    { "hrf_blocks_of", space_net, HRF_FP32, NULL },
    { "hrf_gather_of", gather_net, HRF_FP32, NULL },
    { "hrf_gather_seek", gather_net, HRF_FP32, NULL },
    { "hrf_matmul_view", matmul_net, HRF_FP32, NULL },
    { "hrf_matmul_seek", matmul_net, HRF_FP32, NULL },
    { "hrf_resize_n", resize_net, HRF_FP32, NULL },
    { "hrf_resize_taps", resize_net, HRF_FP32, NULL },
    { "hrf_resize_tap_at", resize_net, HRF_FP32, NULL },
    { "hrf_spec_create", leaky_net, HRF_FP32, NULL },
    { "hrf_requantize_create", integer_net, HRF_INT8, NULL },
    { "hrf_move_compile", transpose_net, HRF_FP32, NULL },
    { "hrf_resize_compile", resize_net, HRF_FP32, NULL },
    { "hrf_integer_compile", integer_net, HRF_INT8, NULL },
    { "hrf_partial_compile", pool_net, HRF_FP32, "spatial=2" },
    { "hrf_half_compile", half_net, HRF_FP16, NULL },
    { "hrf_cpu_softmax", softmax_net, HRF_FP32, NULL },
};

static float *run(const struct fault *row, const char *device, int64_t *n)
{
    struct build b = build_start(1);
    const int32_t output = row->make(&b);
    struct hrf_graph *graph = build_finish(&b, &output, 1);
    float *y = row->layout != NULL
                   ? run_layout_in(graph, device, row->precision, row->layout, NULL, 1, n)
                   : run_graph_in(graph, device, row->precision, 1, 1, 1, n, NULL);
    hrf_graph_destroy(graph);
    return y;
}

/* How far cpu is from ref. */
static double compare(const struct fault *row)
{
    int64_t n, n_ref;
    float *y = run(row, "cpu", &n), *truth = run(row, "ref", &n_ref);
    assert_int_equal(n, n_ref);
    const double apart = relative_difference(y, truth, n);
    hrf_free(y);
    hrf_free(truth);
    return apart;
}

static void a_fault_in_any_helper_of_the_cpu_shows_against_the_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        planted = "";
        const double before = compare(&faults[i]);
        planted = faults[i].helper;
        const double after = compare(&faults[i]);
        printf("%-30s %.1e apart, %.1e with a fault\n", faults[i].helper, before, after);
        if (!(before <= 0.01 && after > 0.02))
            fail_msg("%s: cpu and ref are %g apart without a fault and %g with one",
                     faults[i].helper, before, after);
    }
    planted = "";
}

/* Every helper that is wrapped has its row. */
static void every_helper_has_a_fault(void **state)
{
    (void)state;
    char helpers[] = HELPERS, *rest; /* of CMakeLists.txt */
    for (char *helper = strtok_r(helpers, " ", &rest); helper != NULL;
         helper = strtok_r(NULL, " ", &rest)) {
        bool found = false;
        for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
            found |= strcmp(faults[i].helper, helper) == 0;
        if (!found)
            fail_msg("%s is wrapped and no test plants a fault in it", helper);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fault_in_any_helper_of_the_cpu_shows_against_the_reference),
        cmocka_unit_test(every_helper_has_a_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
