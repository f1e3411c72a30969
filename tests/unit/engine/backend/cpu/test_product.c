/* The products of matrices of floats, for AVX-512 and for AVX2: random shapes against sums in
 * double, the same bits however rows and columns are cut, and the error bound on data that are hard
 * to sum. */
#include "tests/unit/unit.h"

#include "base/alloc.h"
#include "base/random.h"
#include "engine/backend/cpu/float_product.h"
#include "engine/backend/cpu/instructions.h"

#include <math.h>
#include <string.h>

enum { N_SHAPES = 150, GAP = 16 };

struct matrices {
    int64_t rows, depth, columns;
    float *a, *w, *bias; /* [rows][depth], [depth][columns], [columns] */
};

static float *floats(int64_t n)
{
    float *x = hrf_calloc((size_t)n, sizeof *x);
    assert_non_null(x);
    return x;
}

static struct matrices make(int64_t rows, int64_t depth, int64_t columns, struct hrf_random *random)
{
    struct matrices m = {
        rows, depth, columns, floats(rows * depth), floats(depth * columns), floats(columns)
    };
    for (int64_t i = 0; i < rows * depth; i++)
        m.a[i] = (float)hrf_random_normal(random);
    for (int64_t i = 0; i < depth * columns; i++)
        m.w[i] = (float)hrf_random_normal(random);
    for (int64_t i = 0; i < columns; i++)
        m.bias[i] = (float)hrf_random_normal(random);
    return m;
}

static void release(struct matrices *m)
{
    hrf_free(m->a);
    hrf_free(m->w);
    hrf_free(m->bias);
}

/* A product of rows of `a`, whose bias and addend are added at the end. */
typedef void product_function(const struct matrices *m, const float *a, int64_t n_rows, float *y,
                              int64_t stride, bool accumulate);

static void multiply_wide(const struct matrices *m, const float *a, int64_t n_rows, float *y,
                          int64_t stride, bool accumulate)
{
    const struct hrf_epilogue epilogue = { .bias = m->bias,
                                           .type = HRF_F32,
                                           .accumulate = accumulate };
    const struct hrf_ahead nothing = { 0 };
    HRF_AUTO_FREE float *packed = hrf_alloc_aligned(
        hrf_product_packed_count(m->depth, m->columns) * sizeof(float), 64);
    assert_non_null(packed);
    hrf_product_pack(HRF_WORD_F32, m->w, m->columns, 1, m->depth, m->columns, packed);
    hrf_product_avx512(HRF_WORD_F32, a, m->depth, packed, m->depth, y, stride, n_rows, m->columns,
                       0, hrf_product_count_panels(m->columns), &epilogue, &nothing);
}

static void multiply_narrow(const struct matrices *m, const float *a, int64_t n_rows, float *y,
                            int64_t stride, bool accumulate)
{
    HRF_AUTO_FREE float *packed = hrf_alloc_aligned(
        hrf_product_packed_count(m->depth, m->columns) * sizeof(float), 64);
    assert_non_null(packed);
    struct hrf_float_product p = { .a = a,
                                   .a_stride = m->depth,
                                   .packed = packed,
                                   .y = y,
                                   .y_stride = stride,
                                   .n_rows = n_rows,
                                   .depth = m->depth,
                                   .columns = m->columns,
                                   .bias = m->bias,
                                   .accumulate = accumulate };
    for (int64_t c = 0; c < m->columns; c += HRF_NARROW_PANEL, p.end_panel++) {
        const int64_t left = m->columns - c;
        hrf_product_pack(HRF_WORD_F32, m->w + c, m->columns, 1, m->depth,
                         left < HRF_NARROW_PANEL ? left : HRF_NARROW_PANEL, packed + c * m->depth);
    }
    hrf_float_product_avx2(&p);
}

/* The one that is tested. */
static product_function *tested;

/* Rows [first, first + n) of the product, by all columns, `stride` from one to the next. */
static void multiply_rows(const struct matrices *m, int64_t first, int64_t n, float *y,
                          int64_t stride)
{
    tested(m, m->a + first * m->depth, n, y, stride, false);
}

static float *multiply(const struct matrices *m)
{
    float *y = floats(m->rows * m->columns);
    multiply_rows(m, 0, m->rows, y, m->columns);
    return y;
}

/* What output (i, j) is, and the largest it could be with these rows and columns. */
struct exact {
    double sum, norm;
};

static struct exact exact_at(const struct matrices *m, int64_t i, int64_t j)
{
    double sum = m->bias[j], a2 = 0, w2 = 0;
    for (int64_t k = 0; k < m->depth; k++) {
        const double a = m->a[i * m->depth + k], w = m->w[k * m->columns + j];
        sum += a * w;
        a2 += a * a;
        w2 += w * w;
    }
    return (struct exact){ sum, sqrt(a2 * w2) + fabs((double)m->bias[j]) };
}

static void check_shape(const struct matrices *m)
{
    HRF_AUTO_FREE float *y = multiply(m);
    for (int64_t i = 0; i < m->rows * m->columns; i++) {
        const struct exact e = exact_at(m, i / m->columns, i % m->columns);
        /* roundings of sums that grow as the root of their terms */
        const double limit = 0x1p-24 * (8 + sqrt((double)m->depth)) * e.norm;
        if (!(fabs((double)y[i] - e.sum) <= limit))
            fail_msg("%lld x %lld x %lld, output %lld: %g, not %g (%g at most)", (long long)m->rows,
                     (long long)m->depth, (long long)m->columns, (long long)i, (double)y[i], e.sum,
                     limit);
    }
    /* row by row, with a gap between them */
    const int64_t stride = m->columns + GAP;
    HRF_AUTO_FREE float *alone = floats(stride);
    for (int64_t i = 0; i < m->rows; i++) {
        multiply_rows(m, i, 1, alone, stride);
        assert_memory_equal(alone, y + i * m->columns, (size_t)m->columns * sizeof *y);
    }
}

static void random_shapes_give_sums_and_the_same_bits_row_by_row(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < N_SHAPES; seed++) {
        struct hrf_random random = hrf_random_init(seed);
        const int64_t rows = 1 + hrf_random_below(&random, 40);
        const int64_t depth = 1 + hrf_random_below(&random, seed % 2 == 0 ? 40 : 400);
        struct matrices m = make(rows, depth, 1 + hrf_random_below(&random, 100), &random);
        check_shape(&m);
        release(&m);
    }
}

/* ---- data that are hard to sum ---- */

enum kind { ONE_LARGE_CHANNEL, CHANNELS_OF_ANY_SIZE, ONE_SIGN, ALTERNATING_SIGNS, MOSTLY_ZERO };

static void make_hard(struct matrices *m, enum kind kind, float size, struct hrf_random *random)
{
    for (int64_t k = 0; k < m->depth; k++) {
        const float channel = kind == ONE_LARGE_CHANNEL ? k == 0 ? size : 1
                              : kind == CHANNELS_OF_ANY_SIZE
                                  ? powf(size, (float)hrf_random_unit(random))
                                  : 1;
        for (int64_t i = 0; i < m->rows; i++) {
            float *a = &m->a[i * m->depth + k];
            *a *= channel;
            if (kind >= ONE_SIGN)
                *a = fabsf(*a);
            if (kind == MOSTLY_ZERO && hrf_random_below(random, 8) > 0)
                *a = 0;
        }
        for (int64_t j = 0; j < m->columns; j++) {
            float *w = &m->w[k * m->columns + j];
            *w /= channel;
            if (kind == ONE_SIGN || kind == ALTERNATING_SIGNS)
                *w = kind == ALTERNATING_SIGNS && k % 2 == 1 ? -fabsf(*w) : fabsf(*w);
            if (kind == MOSTLY_ZERO && hrf_random_below(random, 8) > 0)
                *w = 0;
        }
    }
    memset(m->bias, 0, (size_t)m->columns * sizeof *m->bias);
}

/* Roundings that a product passes at most (product.h). */
static double count_roundings(int64_t depth)
{
    return fmin((double)depth, HRF_PRODUCT_CHAIN + 7 + (double)depth / HRF_PRODUCT_CHAIN);
}

/* The bound of product.h, output by output: what is a sum of zeros must be zero. */
static void check_bound(const struct matrices *m, enum kind kind, float size)
{
    HRF_AUTO_FREE float *y = multiply(m);
    for (int64_t i = 0; i < m->rows * m->columns; i++) {
        double sum = 0, magnitudes = 0;
        for (int64_t k = 0; k < m->depth; k++) {
            const double product = (double)m->a[i / m->columns * m->depth + k] *
                                   (double)m->w[k * m->columns + i % m->columns];
            sum += product;
            magnitudes += fabs(product);
        }
        const double limit = count_roundings(m->depth) * 0x1.0001p-24 * magnitudes;
        if (!(fabs((double)y[i] - sum) <= limit))
            fail_msg("kind %d, 1 to %g, depth %lld: off by %g, %g at most", kind, (double)size,
                     (long long)m->depth, (double)y[i] - sum, limit);
    }
}

static void errors_stay_within_the_bound_whatever_the_data(void **state)
{
    (void)state;
    for (int kind = ONE_LARGE_CHANNEL; kind <= MOSTLY_ZERO; kind++)
        for (int64_t depth = 16; depth <= 4096; depth *= 4)
            for (float size = 1; size <= 1e6f; size *= 100) {
                struct hrf_random random = hrf_random_init((uint64_t)depth);
                struct matrices m = make(20, depth, 40, &random);
                make_hard(&m, (enum kind)kind, size, &random);
                check_bound(&m, (enum kind)kind, size);
                release(&m);
            }
}

/* One large product, and then as many small ones as there are, each less than half a unit of its
 * last place: a single chain of sums loses all of them. */
static void small_products_after_a_large_one_are_not_lost(void **state)
{
    (void)state;
    for (int64_t depth = 1152; depth <= 4608; depth += 576) {
        struct hrf_random random = hrf_random_init(1);
        struct matrices m = make(15, depth, 40, &random);
        for (int64_t i = 0; i < m.rows * depth; i++)
            m.a[i] = i % depth == 0 ? 1 : 0x0.7p-24f;
        for (int64_t i = 0; i < depth * m.columns; i++)
            m.w[i] = 1;
        memset(m.bias, 0, (size_t)m.columns * sizeof *m.bias);
        check_bound(&m, ONE_SIGN, 1);
        release(&m);
    }
}

/* The root of the mean square of the errors, in that of the sums. Of random terms, k in a chain,
 * each rounding is off by up to u of a partial sum that grows as their root: 0.3 u sqrt(k) in all,
 * and one chain of 1,152 terms gives 10 u. */
static void errors_of_random_sums_do_not_grow_with_the_depth(void **state)
{
    (void)state;
    for (int64_t depth = 64; depth <= 4608; depth = depth < 256 ? 256 : depth * 9 / 4) {
        struct hrf_random random = hrf_random_init((uint64_t)depth);
        struct matrices m = make(40, depth, 64, &random);
        HRF_AUTO_FREE float *y = multiply(&m);
        double errors = 0, sums = 0;
        for (int64_t i = 0; i < m.rows * m.columns; i++) {
            const double sum = exact_at(&m, i / m.columns, i % m.columns).sum;
            errors += ((double)y[i] - sum) * ((double)y[i] - sum);
            sums += sum * sum;
        }
        const double error = sqrt(errors / sums) * 0x1p24;
        print_message("%lld terms: %.2f u\n", (long long)depth, error);
        assert_true(error <= 0.45 * sqrt(count_roundings(depth)));
        release(&m);
    }
}

static void weights_of_zero_give_zero(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(3);
    struct matrices m = make(20, 256, 64, &random);
    memset(m.w, 0, 256 * 64 * sizeof *m.w);
    memset(m.bias, 0, 64 * sizeof *m.bias);
    HRF_AUTO_FREE float *y = multiply(&m);
    for (int i = 0; i < 20 * 64; i++)
        assert_true(y[i] == 0);
    release(&m);
}

/* Also where y is added, and where the device takes the one that the processor has. */
static void every_product_gives_the_same_bits(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < N_SHAPES; seed++) {
        struct hrf_random random = hrf_random_init(seed);
        const int64_t rows = 1 + hrf_random_below(&random, 200);
        const int64_t depth = 1 + hrf_random_below(&random, 400);
        struct matrices m = make(rows, depth, 1 + hrf_random_below(&random, 100), &random);
        const int64_t n = rows * m.columns;
        HRF_AUTO_FREE float *y = floats(n);
        HRF_AUTO_FREE float *narrow = floats(n);
        HRF_AUTO_FREE float *packed = hrf_alloc_aligned(
            hrf_product_packed_count(depth, m.columns) * sizeof(float), 64);
        const bool accumulates = seed % 2 == 0;
        for (int64_t i = 0; i < n; i++)
            y[i] = narrow[i] = (float)hrf_random_normal(&random);
        multiply_narrow(&m, m.a, rows, narrow, m.columns, accumulates);
        const int64_t n_panels = hrf_float_product_count_panels(m.columns);
        hrf_float_product_pack(m.w, m.columns, 1, depth, m.columns, 0, n_panels, packed);
        const struct hrf_float_product p = { .a = m.a,
                                             .a_stride = depth,
                                             .packed = packed,
                                             .y = y,
                                             .y_stride = m.columns,
                                             .n_rows = rows,
                                             .depth = depth,
                                             .columns = m.columns,
                                             .end_panel = n_panels,
                                             .bias = m.bias,
                                             .accumulate = accumulates };
        hrf_float_product(&p);
        assert_memory_equal(y, narrow, (size_t)n * sizeof *y);
        release(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_shapes_give_sums_and_the_same_bits_row_by_row),
        cmocka_unit_test(errors_stay_within_the_bound_whatever_the_data),
        cmocka_unit_test(small_products_after_a_large_one_are_not_lost),
        cmocka_unit_test(errors_of_random_sums_do_not_grow_with_the_depth),
        cmocka_unit_test(weights_of_zero_give_zero),
    };
    const struct CMUnitTest of_all[] = { cmocka_unit_test(every_product_gives_the_same_bits) };
    tested = multiply_narrow;
    int n_failed = cmocka_run_group_tests_name("AVX2", tests, NULL, NULL);
    tested = multiply_wide;
    if (hrf_cpu_has_avx512())
        n_failed += cmocka_run_group_tests_name("AVX-512", tests, NULL, NULL);
    return n_failed + cmocka_run_group_tests(of_all, NULL, NULL);
}
