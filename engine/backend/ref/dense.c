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

void hrf_ref_matmul(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const float *a = hrf_spec_data(spec, call, 0), *b = hrf_spec_data(spec, call, 1);
    struct hrf_matmul v;
    hrf_matmul_view(spec, &v);
    for (int64_t m = 0; m < v.n; m++) {
        int64_t at[3];
        hrf_matmul_seek(&v, m, at);
        for (int64_t i = 0; i < v.rows; i++)
            for (int64_t j = 0; j < v.columns; j++) {
                double sum = 0;
                for (int64_t k = 0; k < v.depth; k++)
                    sum += (double)a[at[0] + i * v.a[0] + k * v.a[1]] *
                           (double)b[at[1] + k * v.b[0] + j * v.b[1]];
                hrf_floats(call)[at[2] + i * v.y[0] + j * v.y[1]] = (float)sum;
            }
    }
}

void hrf_ref_unary(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const float *x = hrf_spec_data(spec, call, 0);
    int64_t n = hrf_shape_count(&spec->output.shape);
    for (int64_t i = 0; i < n; i++)
        hrf_floats(call)[i] = (float)hrf_unary_value(spec->op, &spec->attributes, (double)x[i]);
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
            hrf_floats(call)[at[0] + i * walk.strides[0][last]] = (float)hrf_binary_value(
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

/* What is summed, or compared, of each number. */
static double term_of(enum hrf_op op, double x, double high)
{
    switch (op) {
    case HRF_OP_REDUCE_L1:
        return fabs(x);
    case HRF_OP_REDUCE_L2:
    case HRF_OP_REDUCE_SUM_SQUARE:
        return x * x;
    case HRF_OP_REDUCE_LOG_SUM_EXP:
        return exp(x - high);
    default:
        return x;
    }
}

static double joined(enum hrf_op op, double sum, double x)
{
    switch (op) {
    case HRF_OP_REDUCE_MAX:
        return x > sum ? x : sum;
    case HRF_OP_REDUCE_MIN:
        return x < sum ? x : sum;
    case HRF_OP_REDUCE_PROD:
        return sum * x;
    default:
        return sum + x;
    }
}

static double finished(enum hrf_op op, double sum, double high, int64_t n)
{
    switch (op) {
    case HRF_OP_REDUCE_MEAN:
        return sum / (double)n;
    case HRF_OP_REDUCE_L2:
        return sqrt(sum);
    case HRF_OP_REDUCE_LOG_SUM:
        return log(sum);
    case HRF_OP_REDUCE_LOG_SUM_EXP:
        return log(sum) + high;
    default:
        return sum;
    }
}

/* A walk over the reduced axes from one place. */
struct reduction {
    const float *x;
    struct hrf_shape reduced; /* 1 where an axis is kept */
    int64_t strides[HRF_MAX_RANK], n;
};

static double element(const struct reduction *r, int64_t base, int64_t i)
{
    for (int32_t d = r->reduced.rank - 1; d >= 0; d--) {
        base += i % r->reduced.dims[d] * r->strides[d];
        i /= r->reduced.dims[d];
    }
    return (double)r->x[base];
}

static double reduce(enum hrf_op op, const struct reduction *r, int64_t base)
{
    double high = -INFINITY;
    for (int64_t i = 0; i < r->n && op == HRF_OP_REDUCE_LOG_SUM_EXP; i++)
        high = fmax(high, element(r, base, i));
    double sum = term_of(op, element(r, base, 0), high);
    for (int64_t i = 1; i < r->n; i++)
        sum = joined(op, sum, term_of(op, element(r, base, i), high));
    return finished(op, sum, high, r->n);
}

void hrf_ref_reduction(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct hrf_shape *in = &spec->inputs[0].shape;
    struct reduction r = { .x = hrf_spec_data(spec, call, 0), .reduced = { .rank = in->rank } };
    struct hrf_shape kept = *in;
    int64_t out_strides[HRF_MAX_RANK], own[HRF_MAX_RANK];
    bool is_reduced[HRF_MAX_RANK] = { false };
    for (int32_t i = 0; i < spec->attributes.n_axes; i++)
        is_reduced[spec->attributes.axes[i]] = true;
    hrf_layout_strides(in, r.strides);
    hrf_layout_strides(&spec->output.shape, own);
    for (int32_t i = 0, o = 0; i < in->rank; i++) {
        kept.dims[i] = is_reduced[i] ? 1 : in->dims[i];
        r.reduced.dims[i] = is_reduced[i] ? in->dims[i] : 1;
        out_strides[i] = is_reduced[i] ? 0 : own[o];
        o += !is_reduced[i] || spec->attributes.keep_dims;
    }
    r.n = hrf_shape_count(&r.reduced);
    for (int64_t k = 0; k < hrf_shape_count(&kept); k++) {
        int64_t base = 0, at = 0, rest = k;
        for (int32_t d = in->rank - 1; d >= 0; d--) {
            base += rest % kept.dims[d] * r.strides[d];
            at += rest % kept.dims[d] * out_strides[d];
            rest /= kept.dims[d];
        }
        hrf_floats(call)[at] = (float)reduce(spec->op, &r, base);
    }
}
