/* dense.c - matrix products, pointwise operators, normalisation, softmax and means. */
#include "engine/backend/ref/ref_private.h"

#include <math.h>
#include <string.h>

void hrf_ref_gemm(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct hrf_attributes *t = &spec->attributes;
    const float *a = hrf_spec_data(spec, call, 0), *b = hrf_spec_data(spec, call, 1);
    const float *c = hrf_spec_data(spec, call, 2), *residual = hrf_spec_data(spec, call, 3);
    int64_t rows = spec->output.shape.dims[0], columns = spec->output.shape.dims[1];
    int64_t depth = spec->inputs[0].shape.dims[t->transpose_a ? 0 : 1];
    int64_t cs[HRF_MAX_RANK] = { 0 };
    if (c != NULL)
        hrf_layout_broadcast_strides(&spec->inputs[2].shape, &spec->output.shape, cs);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            double sum = 0;
            for (int64_t k = 0; k < depth; k++)
                sum += (double)a[t->transpose_a ? k * rows + i : i * depth + k] *
                       (double)b[t->transpose_b ? j * depth + k : k * columns + j];
            sum *= (double)t->alpha;
            sum += c != NULL ? (double)t->beta * (double)c[i * cs[0] + j * cs[1]] : 0;
            sum += residual != NULL ? (double)residual[i * columns + j] : 0;
            /* alpha is GEMM's factor here, so a fused leaky slope is never on a GEMM */
            hrf_floats(call)[i * columns + j] = (float)hrf_ref_activate(t, sum);
        }
    }
}

/* numpy.matmul for ranks 2 to 6 but not 4, whose memory order is an image's. */
void hrf_ref_matmul(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct hrf_shape *sa = &spec->inputs[0].shape, *sb = &spec->inputs[1].shape;
    const struct hrf_shape *so = &spec->output.shape;
    const float *a = hrf_spec_data(spec, call, 0), *b = hrf_spec_data(spec, call, 1);
    int64_t depth = sa->dims[sa->rank - 1];
    int64_t rows = sa->dims[sa->rank - 2], columns = sb->dims[sb->rank - 1];
    int64_t a_strides[HRF_MAX_RANK], b_strides[HRF_MAX_RANK];
    hrf_layout_broadcast_strides(sa, so, a_strides);
    hrf_layout_broadcast_strides(sb, so, b_strides);
    int64_t n = hrf_shape_count(so) / (rows * columns);
    for (int64_t m = 0; m < n; m++) {
        int64_t rest = m, at_a = 0, at_b = 0;
        for (int32_t d = so->rank - 3; d >= 0; d--) {
            at_a += rest % so->dims[d] * a_strides[d];
            at_b += rest % so->dims[d] * b_strides[d];
            rest /= so->dims[d];
        }
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) {
                double sum = 0;
                for (int64_t k = 0; k < depth; k++)
                    sum += (double)a[at_a + i * depth + k] * (double)b[at_b + k * columns + j];
                hrf_floats(call)[(m * rows + i) * columns + j] = (float)sum;
            }
    }
}

static double unary(const struct hrf_spec *spec, double x)
{
    const struct hrf_attributes *a = &spec->attributes;
    switch (spec->op) {
    case HRF_OP_RELU:
        return x > 0 ? x : 0;
    case HRF_OP_LEAKY_RELU:
        return x >= 0 ? x : (double)a->alpha * x;
    case HRF_OP_SIGMOID:
        return 1 / (1 + exp(-x));
    case HRF_OP_TANH:
        return tanh(x);
    case HRF_OP_CLIP:
        x = x < (double)a->activation_min ? (double)a->activation_min : x;
        return x > (double)a->activation_max ? (double)a->activation_max : x;
    default:
        return x;
    }
}

void hrf_ref_unary(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const float *x = hrf_spec_data(spec, call, 0);
    int64_t n = hrf_shape_count(&spec->output.shape);
    for (int64_t i = 0; i < n; i++)
        hrf_floats(call)[i] = (float)unary(spec, (double)x[i]);
}

static double binary(enum hrf_op op, double a, double b)
{
    switch (op) {
    case HRF_OP_SUB:
        return a - b;
    case HRF_OP_MUL:
        return a * b;
    case HRF_OP_DIV:
        return a / b;
    default:
        return a + b;
    }
}

void hrf_ref_binary(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const float *a = hrf_spec_data(spec, call, 0), *b = hrf_spec_data(spec, call, 1);
    int64_t strides[3][HRF_MAX_RANK];
    const struct hrf_shape *shape = &spec->output.shape;
    hrf_layout_strides(shape, strides[0]);
    hrf_layout_broadcast_strides(&spec->inputs[0].shape, shape, strides[1]);
    hrf_layout_broadcast_strides(&spec->inputs[1].shape, shape, strides[2]);
    struct hrf_walk walk;
    hrf_walk_init(&walk, shape, 3, (const int64_t(*)[HRF_MAX_RANK])strides);
    int32_t last = walk.rank - 1;
    for (int64_t row = 0; row < hrf_walk_rows(&walk); row++) {
        int64_t at[HRF_WALK_MAX_OPERANDS];
        hrf_walk_seek(&walk, row, at);
        for (int64_t i = 0; i < walk.dims[last]; i++)
            hrf_floats(call)[at[0] + i * walk.strides[0][last]] = (float)binary(
                spec->op, (double)a[at[1] + i * walk.strides[1][last]],
                (double)b[at[2] + i * walk.strides[2][last]]);
    }
}

void hrf_ref_batch_norm(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const float *x = hrf_spec_data(spec, call, 0), *parameters[4];
    for (int32_t i = 0; i < 4; i++) /* scale, bias, mean, variance */
        parameters[i] = hrf_spec_data(spec, call, i + 1);
    const struct hrf_shape *shape = &spec->output.shape;
    int64_t n = hrf_shape_count(shape), channels = shape->dims[1];
    int64_t inner = 1; /* elements of one channel in a row, by the memory order */
    for (int32_t i = 2; i < shape->rank && shape->rank != 4; i++)
        inner *= shape->dims[i];
    for (int64_t i = 0; i < n; i++) {
        int64_t c = i / inner % channels;
        double y = ((double)x[i] - (double)parameters[2][c]) /
                       sqrt((double)parameters[3][c] + (double)spec->attributes.epsilon) *
                       (double)parameters[0][c] +
                   (double)parameters[1][c];
        hrf_floats(call)[i] = (float)hrf_ref_activate(&spec->attributes, y);
    }
}

/* Along one axis: lines of `n` elements `stride` apart, one for each (outer, inner). */
void hrf_ref_softmax(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const float *x = hrf_spec_data(spec, call, 0);
    const struct hrf_shape *shape = &spec->output.shape;
    int64_t strides[HRF_MAX_RANK];
    hrf_layout_strides(shape, strides);
    int64_t axis = spec->attributes.axis, n = shape->dims[axis], stride = strides[axis];
    int64_t total = hrf_shape_count(shape);
    for (int64_t line = 0; line < total / n; line++) {
        int64_t first = line / stride * stride * n + line % stride;
        double high = -INFINITY, sum = 0;
        for (int64_t i = 0; i < n; i++)
            high = fmax(high, (double)x[first + i * stride]);
        for (int64_t i = 0; i < n; i++)
            sum += exp((double)x[first + i * stride] - high);
        for (int64_t i = 0; i < n; i++) {
            double v = (double)x[first + i * stride] - high;
            hrf_floats(call)[first + i * stride] = (float)(spec->op == HRF_OP_SOFTMAX
                                                               ? exp(v) / sum
                                                               : v - log(sum));
        }
    }
}

void hrf_ref_reduce_mean(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const float *x = hrf_spec_data(spec, call, 0);
    const struct hrf_shape *in = &spec->inputs[0].shape;
    struct hrf_shape kept = *in, reduced = { .rank = in->rank };
    int64_t in_strides[HRF_MAX_RANK], out_strides[HRF_MAX_RANK], own[HRF_MAX_RANK];
    bool is_reduced[HRF_MAX_RANK] = { false };
    for (int32_t i = 0; i < spec->attributes.n_axes; i++)
        is_reduced[spec->attributes.axes[i]] = true;
    hrf_layout_strides(in, in_strides);
    hrf_layout_strides(&spec->output.shape, own);
    for (int32_t i = 0, o = 0; i < in->rank; i++) {
        kept.dims[i] = is_reduced[i] ? 1 : in->dims[i];
        reduced.dims[i] = is_reduced[i] ? in->dims[i] : 1;
        out_strides[i] = is_reduced[i] ? 0 : own[o];
        o += !is_reduced[i] || spec->attributes.keep_dims;
    }
    int64_t n_kept = hrf_shape_count(&kept), n_reduced = hrf_shape_count(&reduced);
    for (int64_t k = 0; k < n_kept; k++) {
        int64_t base = 0, at = 0, rest = k;
        for (int32_t d = in->rank - 1; d >= 0; d--) {
            base += rest % kept.dims[d] * in_strides[d];
            at += rest % kept.dims[d] * out_strides[d];
            rest /= kept.dims[d];
        }
        double sum = 0;
        for (int64_t r = 0; r < n_reduced; r++) {
            int64_t offset = base;
            rest = r;
            for (int32_t d = in->rank - 1; d >= 0; d--) {
                offset += rest % reduced.dims[d] * in_strides[d];
                rest /= reduced.dims[d];
            }
            sum += (double)x[offset];
        }
        hrf_floats(call)[at] = (float)(sum / (double)n_reduced);
    }
}
