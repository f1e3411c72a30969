/* Functions of one number with AVX-512, and with AVX2 alone, against the C library in double: over
 * many floats of all sizes, at the ends, and the same bits wherever a number stands. */
#include "tests/unit/unit.h"

#include "base/processor.h"
#include "engine/backend/cpu/avx512/epilogue_avx512.h"
#include "engine/backend/cpu/instructions.h"
#include "engine/backend/cpu/plain/functions.h"
#include "engine/backend/cpu/product.h"
#include "engine/backend/formulas.h"
#include "engine/ir/op.h"

#include <math.h>
#include <string.h>

enum { N_NUMBERS = 1 << 16, STEP_BITS = 65521 };

static double gate(double x) /* a NaN stays one */
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

static double exact(enum hrf_op op, const struct hrf_attributes *a, double x)
{
    switch (op) {
    case HRF_OP_EXP:
        return exp(x);
    case HRF_OP_ERF:
        return erf(x);
    case HRF_OP_TANH:
        return tanh(x);
    case HRF_OP_SIGMOID:
        return 1 / (1 + exp(-x));
    case HRF_OP_SWISH:
        return x / (1 + exp(-(double)a->alpha * x));
    case HRF_OP_GELU:
        return x > 0 ? x - x * erfc(x / sqrt(2)) / 2 : x * erfc(-x / sqrt(2)) / 2;
    case HRF_OP_GELU_TANH:
        return x * 0.5 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case HRF_OP_HARD_SIGMOID:
        return gate((double)a->alpha * x + (double)a->beta);
    default:
        return x * gate(x / 6 + 0.5);
    }
}

/* Bounds of base/elementary.h: relative, in units of 2^-24, and absolute (subnormal numbers
 * are rounded to multiples of 2^-149). */
static const struct bound {
    enum hrf_op op;
    double relative, absolute;
} bounds[] = {
    { HRF_OP_EXP, 3, 1e-44 },       { HRF_OP_ERF, 12, 1e-44 },
    { HRF_OP_TANH, 6, 1e-44 },      { HRF_OP_SIGMOID, 8, 2e-38 },
    { HRF_OP_SWISH, 8, 2e-36 },     { HRF_OP_GELU, 16, 3e-9 },
    { HRF_OP_GELU_TANH, 16, 1e-7 }, { HRF_OP_HARD_SIGMOID, 3, 1e-7 },
    { HRF_OP_HARD_SWISH, 3, 1e-7 },
};

static struct hrf_attributes attributes_of(enum hrf_op op)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.alpha = op == HRF_OP_HARD_SIGMOID ? 0.2f : 1.0f;
    a.beta = 0.5f;
    return a;
}

static void skip_without_avx512(void)
{
    if (hrf_cpu_has_avx512())
        return;
    print_message("this processor has no AVX-512: these functions are not used\n");
    skip();
}

/* Every 65521st float: all exponents and signs. */
static float number(uint32_t i)
{
    const uint32_t bits = i * STEP_BITS;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void check_bound(const struct bound *b, float x, float y)
{
    const struct hrf_attributes a = attributes_of(b->op);
    const double truth = exact(b->op, &a, (double)x);
    if (isnan(truth) || isnan(y)) {
        if (!isnan(truth) || !isnan(y))
            fail_msg("%s(%g): %g, not %g", hrf_op_name(b->op), (double)x, (double)y, truth);
        return;
    }
    const double largest = 0x1.fffffep127;
    if (isinf(y) && fabs(truth) >= largest && (y > 0) == (truth > 0))
        return;
    if (!(fabs((double)y - truth) <= b->relative * 0x1p-24 * fabs(truth) + b->absolute))
        fail_msg("%s(%.9g): %.9g, not %.9g", hrf_op_name(b->op), (double)x, (double)y, truth);
}

static void functions_keep_within_their_bounds(void **state)
{
    (void)state;
    skip_without_avx512();
    static float x[2 * N_NUMBERS], y[2 * N_NUMBERS];
    for (uint32_t i = 0; i < N_NUMBERS; i++) {
        x[i] = number(i);
        x[N_NUMBERS + i] = ((float)i - N_NUMBERS / 2) * (24.0f / N_NUMBERS);
    }
    for (size_t k = 0; k < sizeof bounds / sizeof bounds[0]; k++) {
        const struct hrf_attributes a = attributes_of(bounds[k].op);
        assert_true(hrf_functions_have_avx512(bounds[k].op));
        hrf_functions_run_avx512(bounds[k].op, &a, HRF_F32, x, HRF_F32, y, 2 * N_NUMBERS);
        for (uint32_t i = 0; i < 2 * N_NUMBERS; i++)
            check_bound(&bounds[k], x[i], y[i]);
    }
}

/* Those of an epilogue whose sums become bfloat16 need few digits: 2^-13. */
static void functions_of_sums_for_bfloat16_keep_within_their_bounds(void **state)
{
    (void)state;
    static const struct {
        enum hrf_activation activation;
        struct bound bound;
    } cases[] = {
        { HRF_ACT_SIGMOID, { HRF_OP_SIGMOID, 0x1p11, 2e-38 } },
        { HRF_ACT_SWISH, { HRF_OP_SWISH, 0x1p11, 2e-36 } },
        { HRF_ACT_GELU_TANH, { HRF_OP_GELU_TANH, 0x1p11, 1e-7 } },
        { HRF_ACT_GELU, { HRF_OP_GELU, 0x1p11, 3e-9 } },
    };
    enum { N = 16 };
    skip_without_avx512();
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const struct hrf_epilogue e = { .type = HRF_B16, .activation = cases[k].activation };
        for (uint32_t i = 0; i < 2 * N_NUMBERS; i += N) {
            float x[N], y[N];
            for (uint32_t j = 0; j < N; j++)
                x[j] = i < N_NUMBERS ? number(i + j)
                                     : ((float)(i + j) - 1.5f * N_NUMBERS) * (24.0f / N_NUMBERS);
            memcpy(y, x, sizeof y);
            hrf_activate_sums_avx512(y, 1, &e);
            for (int j = 0; j < N; j++)
                if (isfinite(x[j]) || isnan(x[j]))
                    check_bound(&cases[k].bound, x[j], y[j]);
        }
    }
}

static void infinities_and_nan_are_those_of_the_formula(void **state)
{
    (void)state;
    skip_without_avx512();
    const float ends[] = {
        INFINITY, -INFINITY, NAN, 0.0f, -0.0f, 0x1.fffffep127f, -0x1.fffffep127f
    };
    enum { N = sizeof ends / sizeof ends[0] };
    float y[N];
    for (size_t k = 0; k < sizeof bounds / sizeof bounds[0]; k++) {
        const struct hrf_attributes a = attributes_of(bounds[k].op);
        if (bounds[k].op == HRF_OP_GELU || bounds[k].op == HRF_OP_GELU_TANH)
            continue; /* 0 times infinity in some orders of the same formula */
        hrf_functions_run_avx512(bounds[k].op, &a, HRF_F32, ends, HRF_F32, y, N);
        for (int i = 0; i < N; i++)
            check_bound(&bounds[k], ends[i], y[i]);
    }
}

static void a_number_gives_the_same_bits_wherever_it_stands(void **state)
{
    (void)state;
    skip_without_avx512();
    enum { N = 53 };
    float x[N], all[N], one;
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - 20) * 0.37f;
    for (size_t k = 0; k < sizeof bounds / sizeof bounds[0]; k++) {
        const struct hrf_attributes a = attributes_of(bounds[k].op);
        hrf_functions_run_avx512(bounds[k].op, &a, HRF_F32, x, HRF_F32, all, N);
        for (int i = 0; i < N; i++) {
            hrf_functions_run_avx512(bounds[k].op, &a, HRF_F32, x + i, HRF_F32, &one, 1);
            assert_memory_equal(&one, all + i, sizeof one);
        }
    }
}

/* The same with AVX2; no HARD_SIGMOID and HARD_SWISH, which are plain loops. */
static void functions_with_avx2_keep_them_too(void **state)
{
    (void)state;
    const float ends[] = { INFINITY, -INFINITY, NAN, 0.0f, -0.0f };
    static float x[2 * N_NUMBERS + 5], y[2 * N_NUMBERS + 5];
    if (!hrf_processor_has_avx2())
        skip();
    for (uint32_t i = 0; i < N_NUMBERS; i++) {
        x[i] = number(i);
        x[N_NUMBERS + i] = ((float)i - N_NUMBERS / 2) * (24.0f / N_NUMBERS);
    }
    memcpy(x + 2 * N_NUMBERS, ends, sizeof ends);
    for (size_t k = 0; bounds[k].op != HRF_OP_HARD_SIGMOID; k++) {
        const bool is_gelu = bounds[k].op == HRF_OP_GELU || bounds[k].op == HRF_OP_GELU_TANH ||
                             bounds[k].op == HRF_OP_SWISH;
        const int n = 2 * N_NUMBERS + (is_gelu ? 0 : 5);
        const struct hrf_attributes a = attributes_of(bounds[k].op);
        float one;
        assert_true(hrf_functions_have_avx2(bounds[k].op));
        hrf_functions_run_avx2(bounds[k].op, &a, HRF_F32, x, HRF_F32, y, n);
        for (int i = 0; i < n; i++)
            check_bound(&bounds[k], x[i], y[i]);
        for (int i = 0; i < n; i += 997) {
            hrf_functions_run_avx2(bounds[k].op, &a, HRF_F32, x + i, HRF_F32, &one, 1);
            if (!isnan(one))
                assert_memory_equal(&one, y + i, sizeof one);
        }
    }
    assert_false(hrf_functions_have_avx2(HRF_OP_HARD_SWISH));
}

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

#define EXACT_DERIVATIVE(OP, FORMULA)                                                              \
    static double exact_derivative_of_##OP(double x)                                               \
    {                                                                                              \
        const double alpha = 1, beta = 0.5, low = 0, high = 6;                                     \
        (void)alpha, (void)beta, (void)low, (void)high, (void)x;                                   \
        return FORMULA;                                                                            \
    }
HRF_DERIVATIVES(EXACT_DERIVATIVE)
static double (*const exact_derivatives[])(double x) = {
#define ENTRY(OP, FORMULA) [HRF_OP_##OP - HRF_OP_RELU] = exact_derivative_of_##OP,
    HRF_DERIVATIVES(ENTRY)
#undef ENTRY
};

static void check_derivatives(void (*derive)(enum hrf_op op, const struct hrf_attributes *a,
                                             const float *x, const float *dy, float *to, int64_t n),
                              bool (*derives)(enum hrf_op op))
{
    static float x[N_NUMBERS + 1], dy[N_NUMBERS + 1], y[N_NUMBERS + 1];
    int n_seen = 0;
    for (uint32_t i = 0; i < N_NUMBERS + 1; i++) {
        x[i] = ((float)i - N_NUMBERS / 2) * (24.0f / N_NUMBERS);
        dy[i] = i % 2 == 0 ? 1 : -2;
    }
    for (int op = HRF_OP_RELU; op <= HRF_OP_CLIP; op++) {
        const struct hrf_attributes a = attributes_of((enum hrf_op)op);
        if (!derives((enum hrf_op)op))
            continue;
        n_seen++;
        derive((enum hrf_op)op, &a, x, dy, y, N_NUMBERS + 1);
        for (uint32_t i = 0; i < N_NUMBERS + 1; i++) {
            const double truth = (double)dy[i] * exact_derivatives[op - HRF_OP_RELU]((double)x[i]);
            if (!(fabs((double)y[i] - truth) <= 16 * 0x1p-24 * (fabs(truth) + 2)))
                fail_msg("%s'(%.9g): %.9g, not %.9g", hrf_op_name((enum hrf_op)op), (double)x[i],
                         (double)y[i], truth);
        }
    }
    assert_int_equal(n_seen, 8);
}

static void derivatives_are_those_of_the_formulas(void **state)
{
    (void)state;
    if (hrf_cpu_has_avx512())
        check_derivatives(hrf_functions_derive_avx512, hrf_functions_derives_avx512);
    if (hrf_processor_has_avx2())
        check_derivatives(hrf_functions_derive_avx2, hrf_functions_derives_avx2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_keep_within_their_bounds),
        cmocka_unit_test(functions_of_sums_for_bfloat16_keep_within_their_bounds),
        cmocka_unit_test(infinities_and_nan_are_those_of_the_formula),
        cmocka_unit_test(a_number_gives_the_same_bits_wherever_it_stands),
        cmocka_unit_test(functions_with_avx2_keep_them_too),
        cmocka_unit_test(derivatives_are_those_of_the_formulas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
