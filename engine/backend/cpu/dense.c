/* dense.c - matrix products through oneDNN's BLAS, LRN, softmax, means. */
#include "engine/backend/cpu/cpu_private.h"

#include <math.h>
#include <string.h>

/* Where row i, counted over all axes but the last, begins in an operand of these strides. */
static int64_t row_offset(const struct hrf_shape *shape, const int64_t *strides, int64_t i)
{
    int64_t at = 0;
    for (int32_t axis = shape->rank - 2; axis >= 0; axis--) {
        at += i % shape->dims[axis] * strides[axis];
        i /= shape->dims[axis];
    }
    return at;
}

/* The second operand up to which a product is computed here: oneDNN makes its kernels at the first
 * call, which takes 40 ms, and the heads of classifiers of up to 2,048 features are this small. */
enum { SMALL_COLUMNS = 16, SMALL_PRODUCT = 1 << 12 };

/* y += alpha * A * B, each sum in double. Whether this is used depends on the weights' shape alone:
 * a row has the same bits in batches of any size. */
static void small_product(const struct hrf_attributes *t, const float *a, const float *b,
                          int64_t rows, int64_t columns, int64_t depth, float *y)
{
    enum { MANY_ROWS = 256 };
    const int64_t a_row = t->gemm.transpose_a ? 1 : depth, a_step = t->gemm.transpose_a ? rows : 1;
    const int64_t b_column = t->gemm.transpose_b ? depth : 1,
                  b_step = t->gemm.transpose_b ? 1 : columns;
#pragma omp parallel for schedule(static) if (rows >= MANY_ROWS)
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            double sum = 0;
            for (int64_t k = 0; k < depth; k++)
                sum += (double)a[i * a_row + k * a_step] * (double)b[k * b_step + j * b_column];
            y[i * columns + j] = (float)((double)t->gemm.alpha * sum + (double)y[i * columns + j]);
        }
}

enum hrf_status hrf_cpu_gemm(const struct hrf_spec *spec, const struct hrf_kernel_call *call,
                             struct hrf_error *err)
{
    const struct hrf_attributes *t = &spec->attributes;
    const float *a = hrf_spec_data(spec, call, 0), *b = hrf_spec_data(spec, call, 1);
    const float *c = hrf_spec_data(spec, call, 2), *residual = hrf_spec_data(spec, call, 3);
    const struct hrf_shape *shape = &spec->output.shape, *a_shape = &spec->inputs[0].shape;
    int64_t columns = hrf_shape_last(shape), rows = hrf_shape_count(shape) / columns;
    int64_t depth = t->gemm.transpose_a ? a_shape->dims[0] : hrf_shape_last(a_shape);
    int64_t cs[HRF_MAX_RANK] = { 0 };
    float *y = call->output;
    if (c != NULL)
        hrf_layout_broadcast_strides(&spec->inputs[2].shape, shape, cs);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t first = row_offset(shape, cs, i), step = cs[shape->rank - 1];
        for (int64_t j = 0; j < columns; j++)
            y[i * columns + j] = (residual != NULL ? residual[i * columns + j] : 0) +
                                 (c != NULL ? t->gemm.beta * c[first + j * step] : 0);
    }
    dnnl_status_t status = dnnl_success;
    if (columns <= SMALL_COLUMNS && depth * columns <= SMALL_PRODUCT)
        small_product(t, a, b, rows, columns, depth, y);
    else
        status = dnnl_sgemm(t->gemm.transpose_a ? 'T' : 'N', t->gemm.transpose_b ? 'T' : 'N', rows,
                            columns, depth, t->gemm.alpha, a, t->gemm.transpose_a ? rows : depth, b,
                            t->gemm.transpose_b ? depth : columns, 1.0f, y, columns);
    if (status != dnnl_success)
        return hrf_dnnl_error(err, status, spec->name, "matrix product");
    hrf_cpu_activate(t, y, rows * columns);
    return HRF_OK;
}

/* Each matrix is copied to where its rows are dense, unless they are. */
static bool is_dense(const int64_t strides[2], int64_t rows, int64_t columns)
{
    return (strides[1] == 1 || columns == 1) && (strides[0] == columns || rows == 1);
}

static void copy_matrix(const float *from, const int64_t strides[2], int64_t rows, int64_t columns,
                        float *to)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            to[i * columns + j] = from[i * strides[0] + j * strides[1]];
}

size_t hrf_cpu_matmul_workspace(const struct hrf_spec *spec)
{
    struct hrf_matmul v;
    hrf_matmul_view(spec, &v);
    return (size_t)(v.rows * v.depth + v.depth * v.columns + v.rows * v.columns) * sizeof(float);
}

enum hrf_status hrf_cpu_matmul(const struct hrf_spec *spec, const struct hrf_kernel_call *call,
                               struct hrf_error *err)
{
    struct hrf_matmul v;
    hrf_matmul_view(spec, &v);
    float *own_a = call->workspace, *own_b = own_a + v.rows * v.depth;
    float *own_y = own_b + v.depth * v.columns;
    const bool dense_y = is_dense(v.y, v.rows, v.columns);
    for (int64_t m = 0; m < v.n; m++) {
        int64_t at[3];
        hrf_matmul_seek(&v, m, at);
        const float *a = (const float *)hrf_spec_data(spec, call, 0) + at[0];
        const float *b = (const float *)hrf_spec_data(spec, call, 1) + at[1];
        float *y = hrf_floats(call) + at[2];
        if (!is_dense(v.a, v.rows, v.depth)) {
            copy_matrix(a, v.a, v.rows, v.depth, own_a);
            a = own_a;
        }
        if (!is_dense(v.b, v.depth, v.columns)) {
            copy_matrix(b, v.b, v.depth, v.columns, own_b);
            b = own_b;
        }
        dnnl_status_t status = dnnl_sgemm('N', 'N', v.rows, v.columns, v.depth, 1.0f, a, v.depth, b,
                                          v.columns, 0.0f, dense_y ? y : own_y, v.columns);
        if (status != dnnl_success)
            return hrf_dnnl_error(err, status, spec->name, "matrix product");
        for (int64_t i = 0; i < v.rows * v.columns && !dense_y; i++)
            y[i / v.columns * v.y[0] + i % v.columns * v.y[1]] = own_y[i];
    }
    return HRF_OK;
}

enum hrf_status hrf_cpu_lrn(const struct hrf_spec *spec, const struct hrf_kernel_call *call,
                            struct hrf_error *err)
{
    (void)err;
    const struct hrf_attributes *a = &spec->attributes;
    const float *x = hrf_spec_data(spec, call, 0);
    int64_t channels = spec->output.shape.dims[1];
    int64_t pixels = hrf_shape_count(&spec->output.shape) / channels;
    float factor = a->lrn.alpha / (float)a->lrn.size;
#pragma omp parallel for schedule(static)
    for (int64_t p = 0; p < pixels; p++) {
        const float *in = x + p * channels;
        for (int64_t c = 0; c < channels; c++) {
            int64_t low = c - (a->lrn.size - 1) / 2, high = c + a->lrn.size / 2;
            float sum = 0;
            for (int64_t k = low < 0 ? 0 : low; k <= high && k < channels; k++)
                sum += in[k] * in[k];
            hrf_floats(call)[p * channels + c] = in[c] /
                                                 powf(a->lrn.bias + factor * sum, a->lrn.beta);
        }
    }
    return HRF_OK;
}

/* In double and in ref's order: heads are small, and their bits then agree with ref's, so that
 * whole networks in INT8 can be held to equality. */
enum hrf_status hrf_cpu_softmax(const struct hrf_spec *spec, const struct hrf_kernel_call *call,
                                struct hrf_error *err)
{
    (void)err;
    const float *x = hrf_spec_data(spec, call, 0);
    const struct hrf_shape *shape = &spec->output.shape;
    int64_t strides[HRF_MAX_RANK];
    hrf_layout_strides(shape, strides);
    int64_t axis = spec->attributes.axis, n = shape->dims[axis], stride = strides[axis];
    int64_t lines = hrf_shape_count(shape) / n;
#pragma omp parallel for schedule(static)
    for (int64_t line = 0; line < lines; line++) {
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
    return HRF_OK;
}

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

static void join(enum hrf_op op, double *sum, double x)
{
    if (op == HRF_OP_REDUCE_MAX)
        *sum = x > *sum || x != x ? x : *sum; /* a NaN stays */
    else if (op == HRF_OP_REDUCE_MIN)
        *sum = x < *sum || x != x ? x : *sum;
    else if (op == HRF_OP_REDUCE_PROD)
        *sum *= x;
    else
        *sum += x;
}

static double start_of(enum hrf_op op)
{
    return op == HRF_OP_REDUCE_MAX    ? -INFINITY
           : op == HRF_OP_REDUCE_MIN  ? INFINITY
           : op == HRF_OP_REDUCE_PROD ? 1
                                      : 0;
}

static void reduce_walk(const struct hrf_walk *walk, const float *x, enum hrf_op op,
                        const double *high, double *sums)
{
    const int32_t last = walk->rank - 1;
    for (int64_t row = 0; row < hrf_walk_rows(walk); row++) {
        int64_t at[HRF_WALK_MAX_OPERANDS];
        hrf_walk_seek(walk, row, at);
        for (int64_t i = 0; i < walk->dims[last]; i++) {
            const int64_t to = at[1] + i * walk->strides[1][last];
            const double v = (double)x[at[0] + i * walk->strides[0][last]];
            join(op, &sums[to], term_of(op, v, high != NULL ? high[to] : 0));
        }
    }
}

/* Over any axes: rare and small (a head's global pooling), so one thread and one walk. */
enum hrf_status hrf_cpu_reduction(const struct hrf_spec *spec, const struct hrf_kernel_call *call,
                                  struct hrf_error *err)
{
    (void)err;
    const float *x = hrf_spec_data(spec, call, 0);
    const struct hrf_shape *in = &spec->inputs[0].shape;
    int64_t strides[2][HRF_MAX_RANK], own[HRF_MAX_RANK],
        n_out = hrf_shape_count(&spec->output.shape);
    bool is_reduced[HRF_MAX_RANK] = { false };
    for (int32_t i = 0; i < spec->attributes.n_axes; i++)
        is_reduced[spec->attributes.axes[i]] = true;
    hrf_layout_strides(in, strides[0]);
    hrf_layout_strides(&spec->output.shape, own);
    for (int32_t i = 0, o = 0; i < in->rank; i++) {
        strides[1][i] = is_reduced[i] ? 0 : own[o];
        o += !is_reduced[i] || spec->attributes.keep_dims;
    }
    struct hrf_walk walk;
    hrf_walk_init(&walk, in, 2, (const int64_t(*)[HRF_MAX_RANK])strides);
    double *sums = call->workspace, *high = sums + n_out;
    const bool shifts = spec->op == HRF_OP_REDUCE_LOG_SUM_EXP;
    for (int64_t i = 0; i < n_out; i++) {
        sums[i] = start_of(spec->op);
        high[i] = -INFINITY;
    }
    if (shifts)
        reduce_walk(&walk, x, HRF_OP_REDUCE_MAX, NULL, high);
    reduce_walk(&walk, x, spec->op, shifts ? high : NULL, sums);
    const double scale = (double)n_out / (double)hrf_shape_count(in);
    for (int64_t i = 0; i < n_out; i++)
        hrf_floats(call)[i] = (float)(spec->op == HRF_OP_REDUCE_MEAN      ? sums[i] * scale
                                      : spec->op == HRF_OP_REDUCE_L2      ? sqrt(sums[i])
                                      : spec->op == HRF_OP_REDUCE_LOG_SUM ? log(sums[i])
                                      : shifts && isinf(high[i])          ? high[i]
                                      : shifts                            ? log(sums[i]) + high[i]
                                                                          : sums[i]);
    return HRF_OK;
}
