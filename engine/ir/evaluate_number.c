/* evaluate_number.c - functions of constants: arithmetic, comparisons, generators, sums.
 *
 * Integers are computed in int64_t and wrap around on overflow, as the ONNX operators do, without
 * undefined behaviour; floats in double, rounded once.
 */
#include "engine/ir/evaluate_private.h"

#include "engine/ir/op.h"

#include <math.h>

static bool is_elementwise(enum hrf_op op)
{
    switch (op) {
    case HRF_OP_NEG:
    case HRF_OP_ABS:
    case HRF_OP_FLOOR:
    case HRF_OP_CEIL:
    case HRF_OP_ROUND:
    case HRF_OP_SIGN:
    case HRF_OP_SQRT:
    case HRF_OP_EXP:
    case HRF_OP_LOG:
    case HRF_OP_RECIPROCAL:
    case HRF_OP_SIN:
    case HRF_OP_COS:
    case HRF_OP_TANH:
    case HRF_OP_SIGMOID:
    case HRF_OP_RELU:
    case HRF_OP_SOFTPLUS:
    case HRF_OP_ERF:
    case HRF_OP_GELU:
    case HRF_OP_GELU_TANH:
    case HRF_OP_SWISH:
    case HRF_OP_HARD_SIGMOID:
    case HRF_OP_HARD_SWISH:
    case HRF_OP_LEAKY_RELU:
    case HRF_OP_CLIP:
    case HRF_OP_CAST:
    case HRF_OP_NOT:
        return true;
    default:
        return false;
    }
}

static bool is_pairwise(enum hrf_op op)
{
    return (hrf_op_is_binary(op) && op != HRF_OP_PRELU) || (op >= HRF_OP_EQUAL && op <= HRF_OP_MOD);
}

static bool is_sum(enum hrf_op op)
{
    return op == HRF_OP_REDUCE_SUM || op == HRF_OP_REDUCE_PROD || op == HRF_OP_REDUCE_MAX ||
           op == HRF_OP_REDUCE_MIN || op == HRF_OP_REDUCE_MEAN;
}

bool hrf_evaluate_is_number(enum hrf_op op)
{
    return is_elementwise(op) || is_pairwise(op) || is_sum(op) ||
           (hrf_op_is_foldable_only(op) && op != HRF_OP_CONSTANT && op != HRF_OP_SCATTER_ND &&
            op != HRF_OP_GATHER_ND);
}

static double real_of(const struct hrf_attributes *a, enum hrf_op op, double x)
{
    static double (*const of_libm[])(double) = {
        [HRF_OP_ABS] = fabs,  [HRF_OP_FLOOR] = floor, [HRF_OP_CEIL] = ceil, [HRF_OP_ROUND] = rint,
        [HRF_OP_SQRT] = sqrt, [HRF_OP_EXP] = exp,     [HRF_OP_LOG] = log,   [HRF_OP_SIN] = sin,
        [HRF_OP_COS] = cos,   [HRF_OP_TANH] = tanh,   [HRF_OP_ERF] = erf,
    };
    const double alpha = (double)a->alpha, beta = (double)a->beta;
    if ((size_t)op < sizeof of_libm / sizeof of_libm[0] && of_libm[op] != NULL)
        return of_libm[op](x);
    switch (op) {
    case HRF_OP_NEG:
        return -x;
    case HRF_OP_SIGN:
        return (double)(x > 0) - (double)(x < 0);
    case HRF_OP_RECIPROCAL:
        return 1 / x;
    case HRF_OP_SIGMOID:
        return 1 / (1 + exp(-x));
    case HRF_OP_RELU:
        return x > 0 ? x : 0;
    case HRF_OP_SOFTPLUS:
        return fmax(x, 0) + log1p(exp(-fabs(x)));
    case HRF_OP_GELU:
        return 0.5 * x * (1 + erf(x * 0.70710678118654752));
    case HRF_OP_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
    case HRF_OP_SWISH:
        return x / (1 + exp(-alpha * x));
    case HRF_OP_HARD_SIGMOID:
        return fmin(fmax(alpha * x + beta, 0), 1);
    case HRF_OP_HARD_SWISH:
        return x * fmin(fmax(x / 6 + 0.5, 0), 1);
    case HRF_OP_LEAKY_RELU:
        return x >= 0 ? x : alpha * x;
    case HRF_OP_CLIP:
        x = x < (double)a->activation_min ? (double)a->activation_min : x;
        return x > (double)a->activation_max ? (double)a->activation_max : x;
    default: /* CAST */
        return x;
    }
}

static int64_t integer_of(const struct hrf_attributes *a, enum hrf_op op, int64_t x)
{
    switch (op) {
    case HRF_OP_NEG:
        return (int64_t)(0 - (uint64_t)x);
    case HRF_OP_ABS:
        return x < 0 ? (int64_t)(0 - (uint64_t)x) : x;
    case HRF_OP_RELU:
        return x > 0 ? x : 0;
    case HRF_OP_SIGN:
        return (x > 0) - (x < 0);
    case HRF_OP_NOT:
        return x == 0;
    case HRF_OP_CLIP: /* bounds beyond the floats' integers are no bounds */
        if ((double)a->activation_min > -0x1p62 && x < (int64_t)a->activation_min)
            x = (int64_t)a->activation_min;
        if ((double)a->activation_max < 0x1p62 && x > (int64_t)a->activation_max)
            x = (int64_t)a->activation_max;
        return x;
    default: /* CAST; FLOOR and the like of integers */
        return x;
    }
}

static void elementwise(const struct hrf_inference *in, int64_t count, void *out)
{
    const struct hrf_value *x = hrf_infer_input(in, 0);
    const enum hrf_op op = in->node->op;
    for (int64_t i = 0; i < count; i++)
        if (hrf_evaluate_is_integer(x->dtype))
            hrf_evaluate_put_integer(
                in->dtype, out, i,
                integer_of(&in->node->attributes, op, hrf_evaluate_integer(x, i)));
        else
            hrf_evaluate_put_real(in->dtype, out, i,
                                  real_of(&in->node->attributes, op, hrf_infer_number(x, i)));
}

static int64_t power(int64_t base, int64_t exponent)
{
    uint64_t y = 1, x = (uint64_t)base;
    for (; exponent > 0; exponent >>= 1, x *= x)
        y *= (exponent & 1) != 0 ? x : 1;
    return (int64_t)y;
}

/* Python's: the sign is the divisor's. */
static int64_t modulo(int64_t a, int64_t b, bool truncated)
{
    if (b == -1)
        return 0;
    const int64_t rest = a % b;
    return !truncated && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static bool compares(enum hrf_op op, double a, double b, bool *is_true)
{
    switch (op) {
    case HRF_OP_EQUAL:
        *is_true = a == b;
        return true;
    case HRF_OP_LESS:
        *is_true = a < b;
        return true;
    case HRF_OP_LESS_OR_EQUAL:
        *is_true = a <= b;
        return true;
    case HRF_OP_GREATER:
        *is_true = a > b;
        return true;
    case HRF_OP_GREATER_OR_EQUAL:
        *is_true = a >= b;
        return true;
    case HRF_OP_AND:
        *is_true = a != 0 && b != 0;
        return true;
    case HRF_OP_OR:
        *is_true = a != 0 || b != 0;
        return true;
    case HRF_OP_XOR:
        *is_true = (a != 0) != (b != 0);
        return true;
    default:
        return false;
    }
}

static enum hrf_status integer_pair(struct hrf_inference *in, int64_t a, int64_t b, int64_t *y)
{
    switch (in->node->op) {
    case HRF_OP_ADD:
        *y = (int64_t)((uint64_t)a + (uint64_t)b);
        return HRF_OK;
    case HRF_OP_SUB:
        *y = (int64_t)((uint64_t)a - (uint64_t)b);
        return HRF_OK;
    case HRF_OP_MUL:
        *y = (int64_t)((uint64_t)a * (uint64_t)b);
        return HRF_OK;
    case HRF_OP_POW:
        *y = b < 0 ? (a == 1 ? 1 : a == -1 ? (b % 2 != 0 ? -1 : 1) : 0) : power(a, b);
        return HRF_OK;
    case HRF_OP_MAX:
        *y = a > b ? a : b;
        return HRF_OK;
    case HRF_OP_MIN:
        *y = a < b ? a : b;
        return HRF_OK;
    case HRF_OP_EQUAL: /* not by way of double, which does not hold every integer */
        *y = a == b;
        return HRF_OK;
    default:
        break;
    }
    if (b == 0)
        return hrf_infer_fail(in, "division by zero");
    if (in->node->op == HRF_OP_MOD)
        *y = modulo(a, b, in->node->attributes.truncated);
    else
        *y = b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
    return HRF_OK;
}

static double real_pair(const struct hrf_node *node, double a, double b)
{
    switch (node->op) {
    case HRF_OP_ADD:
        return a + b;
    case HRF_OP_SUB:
        return a - b;
    case HRF_OP_MUL:
        return a * b;
    case HRF_OP_DIV:
        return a / b;
    case HRF_OP_POW:
        return pow(a, b);
    case HRF_OP_MAX:
        return a > b || isnan(a) ? a : b;
    case HRF_OP_MIN:
        return a < b || isnan(a) ? a : b;
    default: { /* MOD */
        const double rest = fmod(a, b);
        return !node->attributes.truncated && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
    }
}

static enum hrf_status pairwise(struct hrf_inference *in, int64_t count, void *out)
{
    const struct hrf_value *a = hrf_infer_input(in, 0), *b = hrf_infer_input(in, 1);
    const bool are_integers = hrf_evaluate_is_integer(a->dtype) &&
                              hrf_evaluate_is_integer(b->dtype);
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = hrf_evaluate_broadcast(&a->shape, &in->shape, i);
        const int64_t bt = hrf_evaluate_broadcast(&b->shape, &in->shape, i);
        bool is_true;
        int64_t y = 0;
        if (are_integers && in->node->op != HRF_OP_EQUAL &&
            compares(in->node->op, hrf_infer_number(a, at), hrf_infer_number(b, bt), &is_true)) {
            hrf_evaluate_put_integer(in->dtype, out, i, is_true);
        } else if (are_integers) {
            HRF_TRY(integer_pair(in, hrf_evaluate_integer(a, at), hrf_evaluate_integer(b, bt), &y));
            hrf_evaluate_put_integer(in->dtype, out, i, y);
        } else if (compares(in->node->op, hrf_infer_number(a, at), hrf_infer_number(b, bt),
                            &is_true)) {
            hrf_evaluate_put_integer(in->dtype, out, i, is_true);
        } else {
            hrf_evaluate_put_real(
                in->dtype, out, i,
                real_pair(in->node, hrf_infer_number(a, at), hrf_infer_number(b, bt)));
        }
    }
    return HRF_OK;
}

/* Of shapes and index lists: the result has few elements, each a walk over the input. */
static enum hrf_status sums(struct hrf_inference *in, int64_t count, void *out)
{
    const struct hrf_value *x = hrf_infer_input(in, 0);
    const struct hrf_attributes *a = &in->node->attributes;
    const int64_t n = hrf_shape_count(&x->shape);
    const enum hrf_op op = in->node->op;
    const bool is_integer = hrf_evaluate_is_integer(x->dtype);
    if (n == 0 || count == 0 || (is_integer && op == HRF_OP_REDUCE_MEAN))
        return hrf_infer_refuse(in, "a sum of these is not supported");
    HRF_AUTO_FREE double *sum = hrf_alloc_array((size_t)count, sizeof *sum);
    HRF_AUTO_FREE int64_t *whole = hrf_alloc_array((size_t)count, sizeof *whole);
    HRF_CHECK_MEMORY(sum != NULL && whole != NULL, in->err, "out of memory for node '%s'",
                     in->node->name);
    for (int64_t o = 0; o < count; o++) {
        sum[o] = op == HRF_OP_REDUCE_PROD  ? 1
                 : op == HRF_OP_REDUCE_MAX ? -INFINITY
                 : op == HRF_OP_REDUCE_MIN ? INFINITY
                                           : 0;
        whole[o] = op == HRF_OP_REDUCE_PROD  ? 1
                   : op == HRF_OP_REDUCE_MAX ? INT64_MIN
                   : op == HRF_OP_REDUCE_MIN ? INT64_MAX
                                             : 0;
    }
    struct hrf_shape kept = x->shape; /* the output's, with 1 where an axis is reduced */
    for (int32_t i = 0; i < a->n_axes; i++)
        kept.dims[a->axes[i]] = 1;
    for (int64_t i = 0; i < n; i++) {
        const int64_t o = hrf_evaluate_broadcast(&kept, &x->shape, i);
        const double real = hrf_infer_number(x, i);
        const int64_t integer = is_integer ? hrf_evaluate_integer(x, i) : 0;
        switch (op) {
        case HRF_OP_REDUCE_PROD:
            sum[o] *= real;
            whole[o] = (int64_t)((uint64_t)whole[o] * (uint64_t)integer);
            break;
        case HRF_OP_REDUCE_MAX:
            sum[o] = real > sum[o] || isnan(real) ? real : sum[o];
            whole[o] = integer > whole[o] ? integer : whole[o];
            break;
        case HRF_OP_REDUCE_MIN:
            sum[o] = real < sum[o] || isnan(real) ? real : sum[o];
            whole[o] = integer < whole[o] ? integer : whole[o];
            break;
        default:
            sum[o] += real;
            whole[o] = (int64_t)((uint64_t)whole[o] + (uint64_t)integer);
        }
    }
    for (int64_t o = 0; o < count; o++)
        if (is_integer)
            hrf_evaluate_put_integer(in->dtype, out, o, whole[o]);
        else
            hrf_evaluate_put_real(in->dtype, out, o,
                                  op == HRF_OP_REDUCE_MEAN ? sum[o] * (double)count / (double)n
                                                           : sum[o]);
    return HRF_OK;
}

/* A number of an input as it is: to copy without rounding. */
static void copy_number(const struct hrf_inference *in, const struct hrf_value *x, int64_t from,
                        void *out, int64_t to)
{
    if (hrf_evaluate_is_integer(x->dtype))
        hrf_evaluate_put_integer(in->dtype, out, to, hrf_evaluate_integer(x, from));
    else
        hrf_evaluate_put_real(in->dtype, out, to, hrf_infer_number(x, from));
}

static void lower_or_upper(const struct hrf_inference *in, int64_t count, void *out)
{
    const struct hrf_value *x = hrf_infer_input(in, 0), *k = hrf_infer_input(in, 1);
    /* In double: k may be any integer. */
    const double diagonal = k != NULL ? hrf_infer_number(k, 0) : 0;
    const int64_t rows = in->shape.dims[in->shape.rank - 2];
    const int64_t columns = in->shape.dims[in->shape.rank - 1];
    for (int64_t i = 0; i < count; i++) {
        const double over = (double)(i % columns) - (double)(i / columns % rows) - diagonal;
        if (in->node->attributes.upper ? over >= 0 : over <= 0)
            copy_number(in, x, i, out, i);
        else
            hrf_evaluate_put_integer(in->dtype, out, i, 0);
    }
}

static void cumulative(const struct hrf_inference *in, int64_t count, void *out)
{
    const struct hrf_value *x = hrf_infer_input(in, 0);
    const struct hrf_attributes *a = &in->node->attributes;
    int64_t axis = hrf_evaluate_integer(hrf_infer_input(in, 1), 0), inner = 1;
    axis += axis < 0 ? in->shape.rank : 0;
    for (int32_t i = (int32_t)axis + 1; i < in->shape.rank; i++)
        inner *= in->shape.dims[i];
    const int64_t n = in->shape.dims[axis];
    const bool is_integer = hrf_evaluate_is_integer(x->dtype);
    for (int64_t line = 0; count > 0 && line < count / n; line++) {
        const int64_t first = line / inner * inner * n + line % inner;
        uint64_t whole = 0;
        double sum = 0;
        for (int64_t k = 0; k < n; k++) {
            const int64_t at = first + (a->reverse ? n - 1 - k : k) * inner;
            const uint64_t before = whole;
            const double sum_before = sum;
            whole += is_integer ? (uint64_t)hrf_evaluate_integer(x, at) : 0;
            sum += hrf_infer_number(x, at);
            if (is_integer)
                hrf_evaluate_put_integer(in->dtype, out, at,
                                         (int64_t)(a->exclusive ? before : whole));
            else
                hrf_evaluate_put_real(in->dtype, out, at, a->exclusive ? sum_before : sum);
        }
    }
}

static void range(const struct hrf_inference *in, int64_t count, void *out)
{
    const struct hrf_value *start = hrf_infer_input(in, 0), *step = hrf_infer_input(in, 2);
    for (int64_t i = 0; i < count; i++)
        if (hrf_evaluate_is_integer(in->dtype))
            hrf_evaluate_put_integer(
                in->dtype, out, i,
                (int64_t)((uint64_t)hrf_evaluate_integer(start, 0) +
                          (uint64_t)i * (uint64_t)hrf_evaluate_integer(step, 0)));
        else
            hrf_evaluate_put_real(in->dtype, out, i,
                                  hrf_infer_number(start, 0) +
                                      (double)i * hrf_infer_number(step, 0));
}

static void shape_of(const struct hrf_inference *in, int64_t count, void *out)
{
    const struct hrf_attributes *a = &in->node->attributes;
    const struct hrf_shape *x = &hrf_infer_input(in, 0)->shape;
    int64_t begin = a->n_axes == 1 ? a->starts[0] : 0;
    begin = begin < 0 ? begin + x->rank : begin;
    begin = begin < 0 ? 0 : begin;
    for (int64_t i = 0; i < count; i++)
        hrf_evaluate_put_integer(in->dtype, out, i, x->dims[begin + i]);
}

static void non_zero(const struct hrf_inference *in, void *out)
{
    const struct hrf_value *x = hrf_infer_input(in, 0);
    const int64_t n = in->shape.dims[1];
    for (int64_t i = 0, found = 0; found < n; i++) {
        int64_t at[HRF_MAX_RANK];
        if (hrf_infer_number(x, i) == 0)
            continue;
        hrf_evaluate_unravel(&x->shape, i, at);
        for (int32_t axis = 0; axis < x->shape.rank; axis++)
            hrf_evaluate_put_integer(HRF_S64, out, axis * n + found, at[axis]);
        found++;
    }
}

enum hrf_status hrf_evaluate_numbers(struct hrf_inference *in, int64_t count, void *out)
{
    const struct hrf_attributes *a = &in->node->attributes;
    const enum hrf_op op = in->node->op;
    if (is_elementwise(op))
        elementwise(in, count, out);
    else if (is_pairwise(op))
        return pairwise(in, count, out);
    else if (is_sum(op))
        return sums(in, count, out);
    else if (op == HRF_OP_TRILU)
        lower_or_upper(in, count, out);
    else if (op == HRF_OP_CUM_SUM)
        cumulative(in, count, out);
    else if (op == HRF_OP_RANGE)
        range(in, count, out);
    else if (op == HRF_OP_NON_ZERO)
        non_zero(in, out);
    else if (op == HRF_OP_SHAPE)
        shape_of(in, count, out);
    else if (op == HRF_OP_SIZE)
        hrf_evaluate_put_integer(in->dtype, out, 0,
                                 hrf_shape_count(&hrf_infer_input(in, 0)->shape));
    for (int64_t i = 0; i < count && op == HRF_OP_CONSTANT_OF_SHAPE; i++)
        if (in->dtype == HRF_F32)
            hrf_evaluate_put_real(in->dtype, out, i, (double)a->value);
        else
            hrf_evaluate_put_integer(in->dtype, out, i, a->fill);
    for (int64_t i = 0; i < count && op == HRF_OP_EYE_LIKE; i++) {
        /* a->fill: the diagonal; in double, because it may be any integer */
        const double over = (double)(i % in->shape.dims[1]) - (double)(i / in->shape.dims[1]);
        hrf_evaluate_put_integer(in->dtype, out, i, over == (double)a->fill);
    }
    return HRF_OK;
}
