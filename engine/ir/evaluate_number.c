/* evaluate_number.c - functions of constants: arithmetic, comparisons, generators, sums.
 *
 * Integers are computed in int64_t and wrap around on overflow, as the ONNX operators do, without
 * undefined behaviour; floats in double, rounded once.
 */
#include "engine/ir/evaluate_private.h"

#include "engine/ir/op.h"

#include <math.h>

#define WRAP(number) ((int64_t)(number)) /* of an uint64_t */

/* ---- of one number ------------------------------------------------------------------------- */

static double clip(double x, double low, double high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* Clips an integer. Bounds beyond the integers that floats represent exactly are ignored. */
static int64_t clip_integer(int64_t x, double low, double high)
{
    if (low > -0x1p62 && x < (int64_t)low)
        x = (int64_t)low;
    return high < 0x1p62 && x > (int64_t)high ? (int64_t)high : x;
}

/* clang-format off */
/* F(operator, formula in double, formula in int64_t). */
#define FORMULAS(F)                                                                                \
    F(NEG, -x, WRAP(0 - (uint64_t)x))                                                              \
    F(ABS, fabs(x), x < 0 ? WRAP(0 - (uint64_t)x) : x)                                             \
    F(SIGN, (double)(x > 0) - (double)(x < 0), (x > 0) - (x < 0))                                  \
    F(RELU, x <= 0 ? 0 : x, x > 0 ? x : 0)                                                         \
    F(CLIP, clip(x, (double)a->activation_min, (double)a->activation_max),                         \
      clip_integer(x, (double)a->activation_min, (double)a->activation_max))                       \
    F(FLOOR, floor(x), x)                                                                          \
    F(CEIL, ceil(x), x)                                                                            \
    F(ROUND, rint(x), x)                                                                           \
    F(CAST, x, x)                                                                                  \
    F(NOT, x == 0, x == 0)
/* F(operator, formula in double): not of integers. */
#define REAL_FORMULAS(F)                                                                           \
    F(SQRT, sqrt(x))                                                                               \
    F(EXP, exp(x))                                                                                 \
    F(LOG, log(x))                                                                                 \
    F(RECIPROCAL, 1 / x)                                                                           \
    F(SIN, sin(x))                                                                                 \
    F(COS, cos(x))                                                                                 \
    F(TANH, tanh(x))                                                                               \
    F(ERF, erf(x))                                                                                 \
    F(SIGMOID, 1 / (1 + exp(-x)))                                                                  \
    F(SOFTPLUS, fmax(x, 0) + log1p(exp(-fabs(x))))                                                 \
    F(GELU, 0.5 * x * (1 + erf(x * 0.70710678118654752)))                                          \
    F(GELU_TANH, 0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x))))           \
    F(SWISH, x / (1 + exp(-(double)a->alpha * x)))                                                 \
    F(HARD_SIGMOID, fmin(fmax((double)a->alpha * x + (double)a->beta, 0), 1))                      \
    F(HARD_SWISH, x * fmin(fmax(x / 6 + 0.5, 0), 1))                                               \
    F(LEAKY_RELU, x >= 0 ? x : (double)a->alpha * x)
/* clang-format on */

#define REAL(OP, FORMULA)                                                                          \
    static double real_##OP(const struct hrf_attributes *a, double x)                              \
    {                                                                                              \
        (void)a;                                                                                   \
        return FORMULA;                                                                            \
    }
#define BOTH(OP, FORMULA, INTEGER)                                                                 \
    REAL(OP, FORMULA)                                                                              \
    static int64_t integer_##OP(const struct hrf_attributes *a, int64_t x)                         \
    {                                                                                              \
        (void)a;                                                                                   \
        return INTEGER;                                                                            \
    }
FORMULAS(BOTH)
REAL_FORMULAS(REAL)
#undef REAL
#undef BOTH

static const struct {
    double (*real)(const struct hrf_attributes *a, double x);
    int64_t (*integer)(const struct hrf_attributes *a, int64_t x); /* NULL: not of integers */
} of_one[HRF_N_OPS] = {
#define BOTH(OP, ...) [HRF_OP_##OP] = { real_##OP, integer_##OP },
#define REAL(OP, ...) [HRF_OP_##OP] = { real_##OP, NULL },
    FORMULAS(BOTH) REAL_FORMULAS(REAL)
#undef REAL
#undef BOTH
};

static enum hrf_status elementwise(struct hrf_inference *in, int64_t count, void *out)
{
    const struct hrf_value *x = hrf_infer_input(in, 0);
    const struct hrf_attributes *a = &in->node->attributes;
    const enum hrf_op op = in->node->op;
    const bool is_integer = hrf_evaluate_is_integer(x->dtype);
    if (is_integer && of_one[op].integer == NULL)
        return hrf_infer_fail(in, "it is not defined for %s", hrf_dtype_name(x->dtype));
    for (int64_t i = 0; i < count; i++)
        if (is_integer)
            hrf_evaluate_put_integer(in->dtype, out, i,
                                     of_one[op].integer(a, hrf_evaluate_integer(x, i)));
        else
            hrf_evaluate_put_real(in->dtype, out, i, of_one[op].real(a, hrf_infer_number(x, i)));
    return HRF_OK;
}

/* ---- of two -------------------------------------------------------------------------------- */

static int64_t power(int64_t base, int64_t exponent)
{
    uint64_t y = 1, x = (uint64_t)base;
    if (exponent < 0)
        return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
    for (; exponent > 0; exponent >>= 1, x *= x)
        y *= (exponent & 1) != 0 ? x : 1;
    return (int64_t)y;
}

/* Python's: the sign is the divisor's. */
static int64_t modulo(int64_t x, int64_t y, bool truncated)
{
    if (y == -1)
        return 0;
    const int64_t rest = x % y;
    return !truncated && rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

static double real_modulo(double x, double y, bool truncated)
{
    const double rest = fmod(x, y);
    return !truncated && rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

/* clang-format off */
/* F(operator, formula in double, formula in int64_t). */
#define PAIRS(F)                                                                                   \
    F(ADD, x + y, WRAP((uint64_t)x + (uint64_t)y))                                                 \
    F(SUB, x - y, WRAP((uint64_t)x - (uint64_t)y))                                                 \
    F(MUL, x * y, WRAP((uint64_t)x * (uint64_t)y))                                                 \
    F(DIV, x / y, y == -1 ? WRAP(0 - (uint64_t)x) : x / y)                                         \
    F(POW, pow(x, y), power(x, y))                                                                 \
    F(MAX, x > y || isnan(x) ? x : y, x > y ? x : y)                                               \
    F(MIN, x < y || isnan(x) ? x : y, x < y ? x : y)                                               \
    F(MOD, real_modulo(x, y, a->truncated), modulo(x, y, a->truncated))                            \
    F(EQUAL, x == y, x == y)                                                                       \
    F(LESS, x < y, x < y)                                                                          \
    F(LESS_OR_EQUAL, x <= y, x <= y)                                                               \
    F(GREATER, x > y, x > y)                                                                       \
    F(GREATER_OR_EQUAL, x >= y, x >= y)                                                            \
    F(AND, x != 0 && y != 0, x != 0 && y != 0)                                                     \
    F(OR, x != 0 || y != 0, x != 0 || y != 0)                                                      \
    F(XOR, (x != 0) != (y != 0), (x != 0) != (y != 0))
/* clang-format on */

#define PAIR(OP, FORMULA, INTEGER)                                                                 \
    static double real_##OP(const struct hrf_attributes *a, double x, double y)                    \
    {                                                                                              \
        (void)a;                                                                                   \
        return FORMULA;                                                                            \
    }                                                                                              \
    static int64_t integer_##OP(const struct hrf_attributes *a, int64_t x, int64_t y)              \
    {                                                                                              \
        (void)a;                                                                                   \
        return INTEGER;                                                                            \
    }
PAIRS(PAIR)
#undef PAIR

static const struct {
    double (*real)(const struct hrf_attributes *a, double x, double y);
    int64_t (*integer)(const struct hrf_attributes *a, int64_t x, int64_t y);
} of_two[HRF_N_OPS] = {
#define PAIR(OP, ...) [HRF_OP_##OP] = { real_##OP, integer_##OP },
    PAIRS(PAIR)
#undef PAIR
};

static enum hrf_status pairwise(struct hrf_inference *in, int64_t count, void *out)
{
    const struct hrf_value *x = hrf_infer_input(in, 0), *y = hrf_infer_input(in, 1);
    const struct hrf_attributes *a = &in->node->attributes;
    const enum hrf_op op = in->node->op;
    const bool divides = op == HRF_OP_DIV || op == HRF_OP_MOD;
    const bool are_integers = hrf_evaluate_is_integer(x->dtype) &&
                              hrf_evaluate_is_integer(y->dtype);
    for (int64_t i = 0; i < count; i++) {
        const int64_t xt = hrf_evaluate_broadcast(&x->shape, &in->shape, i);
        const int64_t yt = hrf_evaluate_broadcast(&y->shape, &in->shape, i);
        if (are_integers && divides && hrf_evaluate_integer(y, yt) == 0)
            return hrf_infer_fail(in, "division by zero");
        if (are_integers)
            hrf_evaluate_put_integer(
                in->dtype, out, i,
                of_two[op].integer(a, hrf_evaluate_integer(x, xt), hrf_evaluate_integer(y, yt)));
        else
            hrf_evaluate_put_real(
                in->dtype, out, i,
                of_two[op].real(a, hrf_infer_number(x, xt), hrf_infer_number(y, yt)));
    }
    return HRF_OK;
}

/* ---- of many ------------------------------------------------------------------------------- */

/* clang-format off */
/* F(operator, the sum of no number in double and in int64_t, the sum with one more in both). */
#define SUMS(F)                                                                                    \
    F(REDUCE_SUM, 0, 0, sum + x, WRAP((uint64_t)sum + (uint64_t)x))                                \
    F(REDUCE_MEAN, 0, 0, sum + x, 0)                                                               \
    F(REDUCE_PROD, 1, 1, sum * x, WRAP((uint64_t)sum * (uint64_t)x))                               \
    F(REDUCE_MAX, -INFINITY, INT64_MIN, x > sum || isnan(x) ? x : sum, x > sum ? x : sum)          \
    F(REDUCE_MIN, INFINITY, INT64_MAX, x < sum || isnan(x) ? x : sum, x < sum ? x : sum)
/* clang-format on */

#define SUM(OP, NONE, NO_INTEGER, FORMULA, INTEGER)                                                \
    static double real_##OP(double sum, double x)                                                  \
    {                                                                                              \
        return FORMULA;                                                                            \
    }                                                                                              \
    static int64_t integer_##OP(int64_t sum, int64_t x)                                            \
    {                                                                                              \
        (void)sum, (void)x;                                                                        \
        return INTEGER;                                                                            \
    }
SUMS(SUM)
#undef SUM

static const struct {
    double none;
    int64_t no_integer;
    double (*real)(double sum, double x);
    int64_t (*integer)(int64_t sum, int64_t x);
} of_many[HRF_N_OPS] = {
#define SUM(OP, NONE, NO_INTEGER, ...)                                                             \
    [HRF_OP_##OP] = { NONE, NO_INTEGER, real_##OP, integer_##OP },
    SUMS(SUM)
#undef SUM
};

/* Sums of shapes and index lists: the result has few elements, each computed by a walk over the
 * input. */
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
    for (int64_t o = 0; o < count; o++) {
        sum[o] = of_many[op].none;
        whole[o] = of_many[op].no_integer;
    }
    struct hrf_shape kept = x->shape; /* the output's, with 1 where an axis is reduced */
    for (int32_t i = 0; i < a->n_axes; i++)
        kept.dims[a->axes[i]] = 1;
    for (int64_t i = 0; i < n; i++) {
        const int64_t o = hrf_evaluate_broadcast(&kept, &x->shape, i);
        if (is_integer)
            whole[o] = of_many[op].integer(whole[o], hrf_evaluate_integer(x, i));
        else
            sum[o] = of_many[op].real(sum[o], hrf_infer_number(x, i));
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

/* ---- others -------------------------------------------------------------------------------- */

/* Copies an element of an input without rounding. */
static void copy_number(const struct hrf_inference *in, const struct hrf_value *x, int64_t from,
                        void *out, int64_t to)
{
    if (hrf_evaluate_is_integer(x->dtype))
        hrf_evaluate_put_integer(in->dtype, out, to, hrf_evaluate_integer(x, from));
    else
        hrf_evaluate_put_real(in->dtype, out, to, hrf_infer_number(x, from));
}

static enum hrf_status lower_or_upper(struct hrf_inference *in, int64_t count, void *out)
{
    const struct hrf_value *x = hrf_infer_input(in, 0), *k = hrf_infer_input(in, 1);
    /* double, because k may be any integer. */
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
    return HRF_OK;
}

static enum hrf_status cumulative(struct hrf_inference *in, int64_t count, void *out)
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
            const int64_t at = first + (a->cum_sum.reverse ? n - 1 - k : k) * inner;
            const uint64_t before = whole;
            const double sum_before = sum;
            whole += is_integer ? (uint64_t)hrf_evaluate_integer(x, at) : 0;
            sum += hrf_infer_number(x, at);
            if (is_integer)
                hrf_evaluate_put_integer(in->dtype, out, at,
                                         (int64_t)(a->cum_sum.exclusive ? before : whole));
            else
                hrf_evaluate_put_real(in->dtype, out, at, a->cum_sum.exclusive ? sum_before : sum);
        }
    }
    return HRF_OK;
}

static enum hrf_status range(struct hrf_inference *in, int64_t count, void *out)
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
    return HRF_OK;
}

static enum hrf_status shape_of(struct hrf_inference *in, int64_t count, void *out)
{
    const struct hrf_attributes *a = &in->node->attributes;
    const struct hrf_shape *x = &hrf_infer_input(in, 0)->shape;
    int64_t begin = a->range.start;
    begin = begin < 0 ? begin + x->rank : begin;
    begin = begin < 0 ? 0 : begin;
    for (int64_t i = 0; i < count; i++)
        hrf_evaluate_put_integer(in->dtype, out, i, x->dims[begin + i]);
    return HRF_OK;
}

static enum hrf_status non_zero(struct hrf_inference *in, int64_t count, void *out)
{
    (void)count;
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
    return HRF_OK;
}

static enum hrf_status size(struct hrf_inference *in, int64_t count, void *out)
{
    (void)count;
    hrf_evaluate_put_integer(in->dtype, out, 0, hrf_shape_count(&hrf_infer_input(in, 0)->shape));
    return HRF_OK;
}

static enum hrf_status fill(struct hrf_inference *in, int64_t count, void *out)
{
    const struct hrf_attributes *a = &in->node->attributes;
    for (int64_t i = 0; i < count; i++)
        if (in->dtype == HRF_F32)
            hrf_evaluate_put_real(in->dtype, out, i, (double)a->fill.real);
        else
            hrf_evaluate_put_integer(in->dtype, out, i, a->fill.integer);
    return HRF_OK;
}

static enum hrf_status eye(struct hrf_inference *in, int64_t count, void *out)
{
    /* double, because the diagonal may be any integer. */
    const double diagonal = (double)in->node->attributes.fill.integer;
    for (int64_t i = 0; i < count; i++) {
        const double over = (double)(i % in->shape.dims[1]) - (double)(i / in->shape.dims[1]);
        hrf_evaluate_put_integer(in->dtype, out, i, over == diagonal);
    }
    return HRF_OK;
}

hrf_evaluate_rule *hrf_evaluate_number_rule(enum hrf_op op)
{
    static hrf_evaluate_rule *const rules[HRF_N_OPS] = {
        [HRF_OP_TRILU] = lower_or_upper,   [HRF_OP_CUM_SUM] = cumulative, [HRF_OP_RANGE] = range,
        [HRF_OP_NON_ZERO] = non_zero,      [HRF_OP_SHAPE] = shape_of,     [HRF_OP_SIZE] = size,
        [HRF_OP_CONSTANT_OF_SHAPE] = fill, [HRF_OP_EYE_LIKE] = eye,
    };
    return of_one[op].real != NULL    ? elementwise
           : of_two[op].real != NULL  ? pairwise
           : of_many[op].real != NULL ? sums
                                      : rules[op];
}
