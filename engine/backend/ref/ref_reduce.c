/* ref_reduce.c - sums along axes: matrix products of any ranks, softmax, reductions. Source: ONNX.
 */
#include "engine/backend/ref/ref_private.h"

#include <math.h>

/* numpy's matmul: the last two axes are matrices, the others broadcast; a vector has one axis. */
void hrf_ref_matmul(const struct hrf_ref_node *node)
{
    struct hrf_shape a = node->inputs[0].shape, b = node->inputs[1].shape, y = node->output.shape;
    const bool has_rows = a.rank > 1, has_columns = b.rank > 1;
    const int64_t depth = a.dims[a.rank - 1], n = hrf_shape_count(&y);
    const int64_t rows = has_rows ? a.dims[a.rank - 2] : 1;
    const int64_t columns = has_columns ? b.dims[b.rank - 1] : 1;
    a.rank = has_rows ? a.rank - 2 : 0; /* what is left are batches of matrices */
    b.rank = has_columns ? b.rank - 2 : 0;
    y.rank -= has_rows + has_columns;
    for (int64_t i = 0; i < n; i++) {
        int64_t at[HRF_MAX_RANK] = { 0 };
        const int64_t row = i / columns % rows, column = i % columns;
        hrf_ref_position(&y, i / (rows * columns), at);
        const double *left = node->inputs[0].numbers +
                             (hrf_ref_broadcast(&a, &y, at) * rows + row) * depth;
        const double *right = node->inputs[1].numbers +
                              hrf_ref_broadcast(&b, &y, at) * depth * columns + column;
        double sum = 0;
        for (int64_t k = 0; k < depth; k++)
            sum += left[k] * right[k * columns];
        hrf_ref_put(node, i, sum);
    }
}

/* Of x along an axis, `stride` apart: exp(x) / sum of exp(x), each divided by exp(the largest). */
void hrf_ref_softmax(const struct hrf_ref_node *node)
{
    const struct hrf_shape *shape = &node->output.shape;
    const int64_t axis = node->attributes.axis, n = shape->dims[axis];
    int64_t stride = 1;
    for (int32_t i = (int32_t)axis + 1; i < shape->rank; i++)
        stride *= shape->dims[i];
    for (int64_t i = 0; i < hrf_shape_count(shape); i++) {
        const double *line = node->inputs[0].numbers + i / (n * stride) * n * stride + i % stride;
        const double x = node->inputs[0].numbers[i];
        double most = -INFINITY, sum = 0;
        for (int64_t k = 0; k < n; k++)
            most = fmax(most, line[k * stride]);
        for (int64_t k = 0; k < n; k++)
            sum += exp(line[k * stride] - most);
        hrf_ref_put(node, i,
                    node->op == HRF_OP_SOFTMAX ? exp(x - most) / sum : x - most - log(sum));
    }
}

static double start_of(enum hrf_op op)
{
    switch (op) {
    case HRF_OP_REDUCE_MAX:
    case HRF_OP_REDUCE_LOG_SUM_EXP:
        return -INFINITY;
    case HRF_OP_REDUCE_MIN:
        return INFINITY;
    case HRF_OP_REDUCE_PROD:
        return 1;
    default:
        return 0;
    }
}

static double joined(enum hrf_op op, double sum, double x)
{
    switch (op) {
    case HRF_OP_REDUCE_MAX:
        return isnan(x) || x > sum ? x : sum;
    case HRF_OP_REDUCE_MIN:
        return isnan(x) || x < sum ? x : sum;
    case HRF_OP_REDUCE_PROD:
        return sum * x;
    case HRF_OP_REDUCE_L1:
        return sum + fabs(x);
    case HRF_OP_REDUCE_L2:
    case HRF_OP_REDUCE_SUM_SQUARE:
        return sum + x * x;
    case HRF_OP_REDUCE_LOG_SUM_EXP: /* log(exp(sum) + exp(x)), without overflow */
        return sum == x ? x + log(2) : fmax(sum, x) + log1p(exp(-fabs(sum - x)));
    default:
        return sum + x;
    }
}

static double finished(enum hrf_op op, double sum, int64_t n)
{
    switch (op) {
    case HRF_OP_REDUCE_MEAN:
        return sum / (double)n;
    case HRF_OP_REDUCE_L2:
        return sqrt(sum);
    case HRF_OP_REDUCE_LOG_SUM:
        return log(sum);
    default:
        return sum;
    }
}

void hrf_ref_reduction(const struct hrf_ref_node *node)
{
    const struct hrf_shape *in = &node->inputs[0].shape;
    const int64_t n_in = hrf_shape_count(in), n_out = hrf_shape_count(&node->output.shape);
    struct hrf_shape kept = *in; /* the output's, with 1 where an axis is reduced */
    for (int32_t i = 0; i < node->attributes.n_axes; i++)
        kept.dims[node->attributes.axes[i]] = 1;
    for (int64_t o = 0; o < n_out; o++)
        node->scratch[o] = start_of(node->op);
    for (int64_t i = 0; i < n_in; i++) {
        int64_t at[HRF_MAX_RANK];
        hrf_ref_position(in, i, at);
        double *sum = &node->scratch[hrf_ref_broadcast(&kept, in, at)];
        *sum = joined(node->op, *sum, node->inputs[0].numbers[i]);
    }
    for (int64_t o = 0; o < n_out; o++)
        hrf_ref_put(node, o, finished(node->op, node->scratch[o], n_in / n_out));
}
