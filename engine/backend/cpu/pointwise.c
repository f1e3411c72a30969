/* pointwise.c - operators that read each element once: activations, sums, scale and shift. */
#include "engine/backend/cpu/avx512/functions_avx512.h"
#include "engine/backend/cpu/cpu_private.h"

#include <math.h>

/* Elements per piece of work: large enough to hide the scheduling, small enough to balance. */
enum { PIECE = 1 << 14 };

/* A NaN stays one: every comparison with it is false. */
void hrf_cpu_activate(const struct hrf_attributes *attributes, float *x, int64_t n)
{
    float low = attributes->activation_min, high = attributes->activation_max;
    float slope = attributes->alpha;
    switch (attributes->activation) {
    case HRF_ACT_RELU:
        for (int64_t i = 0; i < n; i++)
            x[i] = x[i] <= 0 ? 0 : x[i];
        break;
    case HRF_ACT_CLIP:
        for (int64_t i = 0; i < n; i++)
            x[i] = x[i] < low ? low : x[i] > high ? high : x[i];
        break;
    case HRF_ACT_LEAKY_RELU:
        for (int64_t i = 0; i < n; i++)
            x[i] = x[i] >= 0 ? x[i] : slope * x[i];
        break;
    case HRF_ACT_NONE:
        break;
    }
}

static void unary_piece(const struct hrf_spec *spec, const float *x, float *y, int64_t n)
{
    const struct hrf_attributes *a = &spec->attributes;
    if (hrf_functions_have_avx512(spec->op) && hrf_cpu_has_avx512()) {
        hrf_functions_avx512(spec->op, a, HRF_F32, x, HRF_F32, y, n);
        return;
    }
    switch (spec->op) {
    case HRF_OP_RELU:
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] <= 0 ? 0 : x[i];
        break;
    case HRF_OP_LEAKY_RELU:
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] >= 0 ? x[i] : a->alpha * x[i];
        break;
    case HRF_OP_CLIP:
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] < a->activation_min   ? a->activation_min
                   : x[i] > a->activation_max ? a->activation_max
                                              : x[i];
        break;
    case HRF_OP_TANH:
        for (int64_t i = 0; i < n; i++)
            y[i] = tanhf(x[i]);
        break;
    case HRF_OP_SIGMOID:
        for (int64_t i = 0; i < n; i++)
            y[i] = 1.0f / (1.0f + expf(-x[i]));
        break;
    case HRF_OP_HARD_SIGMOID:
    case HRF_OP_HARD_SWISH:
        for (int64_t i = 0; i < n; i++) {
            const float swish = spec->op == HRF_OP_HARD_SWISH ? x[i] / 6.0f + 0.5f
                                                              : a->alpha * x[i] + a->beta;
            const float gate = swish < 0 ? 0 : swish > 1 ? 1 : swish;
            y[i] = spec->op == HRF_OP_HARD_SWISH ? x[i] * gate : gate;
        }
        break;
    default: /* rare ones, in double */
        for (int64_t i = 0; i < n; i++)
            y[i] = (float)hrf_unary_value(spec->op, a, (double)x[i]);
        break;
    }
}

enum hrf_status hrf_cpu_unary(const struct hrf_spec *spec, const struct hrf_kernel_call *call,
                              struct hrf_error *err)
{
    (void)err;
    const float *x = hrf_spec_data(spec, call, 0);
    int64_t n = hrf_shape_count(&spec->output.shape);
#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < n; first += PIECE)
        unary_piece(spec, x + first, hrf_floats(call) + first,
                    n - first < PIECE ? n - first : PIECE);
    return HRF_OK;
}

static float binary_one(enum hrf_op op, float a, float b)
{
    switch (op) {
    case HRF_OP_ADD:
        return a + b;
    case HRF_OP_SUB:
        return a - b;
    case HRF_OP_MUL:
        return a * b;
    case HRF_OP_DIV:
        return a / b;
    default:
        return (float)hrf_binary_value(op, (double)a, (double)b);
    }
}

static void binary_run(enum hrf_op op, const float *a, int64_t sa, const float *b, int64_t sb,
                       float *y, int64_t sy, int64_t n)
{
    if (op == HRF_OP_ADD && sa == 1 && sb == 1 && sy == 1) {
        for (int64_t i = 0; i < n; i++)
            y[i] = a[i] + b[i];
        return;
    }
    for (int64_t i = 0; i < n; i++)
        y[i * sy] = binary_one(op, a[i * sa], b[i * sb]);
}

enum hrf_status hrf_cpu_binary(const struct hrf_spec *spec, const struct hrf_kernel_call *call,
                               struct hrf_error *err)
{
    (void)err;
    const float *a = hrf_spec_data(spec, call, 0), *b = hrf_spec_data(spec, call, 1);
    const struct hrf_shape *shape = &spec->output.shape;
    int64_t strides[3][HRF_MAX_RANK];
    hrf_layout_strides(shape, strides[0]);
    hrf_layout_broadcast_strides(&spec->inputs[0].shape, shape, strides[1]);
    hrf_layout_broadcast_strides(&spec->inputs[1].shape, shape, strides[2]);
    struct hrf_walk walk;
    hrf_walk_init(&walk, shape, 3, (const int64_t(*)[HRF_MAX_RANK])strides);
    int32_t last = walk.rank - 1;
    int64_t n = walk.dims[last], pieces = (n + PIECE - 1) / PIECE;
    int64_t sy = walk.strides[0][last], sa = walk.strides[1][last], sb = walk.strides[2][last];
    int64_t total = hrf_walk_rows(&walk) * pieces;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < total; i++) {
        int64_t at[HRF_WALK_MAX_OPERANDS], first = i % pieces * PIECE;
        hrf_walk_seek(&walk, i / pieces, at);
        binary_run(spec->op, a + at[1] + first * sa, sa, b + at[2] + first * sb, sb,
                   hrf_floats(call) + at[0] + first * sy, sy,
                   n - first < PIECE ? n - first : PIECE);
    }
    return HRF_OK;
}

/* scale and bias become what multiplies and adds: y = x * s + t. */
void hrf_cpu_prepare_batch_norm(struct hrf_spec *spec)
{
    float *p[4]; /* scale, bias, mean, variance */
    for (int32_t i = 0; i < 4; i++)
        p[i] = spec->inputs[i + 1].constant;
    const double epsilon = (double)spec->attributes.epsilon;
    for (int64_t c = 0; c < spec->output.shape.dims[1]; c++) {
        const double s = (double)p[0][c] / sqrt((double)p[3][c] + epsilon);
        p[1][c] = (float)((double)p[1][c] - (double)p[2][c] * s);
        p[0][c] = (float)s;
    }
}

/* The usual case in one pass: what a pre-activation net does before each convolution. */
static void scale_shift_relu(const float *x, const float *s, const float *t, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i] * s[i] + t[i];
        y[i] = v <= 0 ? 0 : v;
    }
}

/* y = act(x * s + t) with s and t per channel: a line is a pixel's channels, or (other ranks
 * than 4) a channel's elements. */
enum hrf_status hrf_cpu_batch_norm(const struct hrf_spec *spec, const struct hrf_kernel_call *call,
                                   struct hrf_error *err)
{
    (void)err;
    const struct hrf_shape *shape = &spec->output.shape;
    int64_t channels = shape->dims[1], n = hrf_shape_count(shape), inner = 1;
    for (int32_t i = 2; i < shape->rank && shape->rank != 4; i++)
        inner *= shape->dims[i];
    const float *x = hrf_spec_data(spec, call, 0);
    const float *s = hrf_spec_data(spec, call, 1), *t = hrf_spec_data(spec, call, 2);
    float *y = call->output;
    int64_t length = inner > 1 ? inner : channels;
#pragma omp parallel for schedule(static)
    for (int64_t line = 0; line < n / length; line++) {
        int64_t first = line * length;
        float one_s = s[line % channels], one_t = t[line % channels];
        if (inner == 1 && spec->attributes.activation == HRF_ACT_RELU) {
            scale_shift_relu(x + first, s, t, y + first, length);
            continue;
        }
        for (int64_t i = 0; i < length; i++)
            y[first + i] = inner > 1 ? x[first + i] * one_s + one_t : x[first + i] * s[i] + t[i];
        hrf_cpu_activate(&spec->attributes, y + first, length);
    }
    return HRF_OK;
}
