/* The product of matrices by floats and by crossed floats: random shapes against sums in double,
 * the same bits however rows and columns are cut, errors beside those of plain sums, and numbers at
 * the ends of what floats hold. */
#include "tests/unit/unit.h"

#include "base/alloc.h"
#include "base/random.h"
#include "engine/backend/cpu/product.h"

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

/* Rows [first, first + n) of the product, by all columns, `pitch` from one to the next. */
static void multiply_rows(const struct matrices *m, enum hrf_words words, int64_t first, int64_t n,
                          float *y, int64_t pitch)
{
    const struct hrf_epilogue epilogue = { .bias = m->bias, .type = HRF_F32 };
    const struct hrf_ahead nothing = { 0 };
    const size_t n_packed = hrf_product_packed_count(words, m->depth, m->columns);
    HRF_AUTO_FREE float *packed = hrf_alloc_aligned(n_packed * sizeof(float), 64);
    const int64_t a_pitch = m->depth + HRF_CROSSED_ENDS;
    HRF_AUTO_FREE float *a = floats(n * a_pitch);
    assert_non_null(packed);
    hrf_product_pack(words, m->w, m->columns, 1, m->depth, m->columns, packed);
    for (int64_t i = 0; i < n; i++)
        memcpy(a + i * a_pitch, m->a + (first + i) * m->depth, (size_t)m->depth * sizeof *a);
    if (words == HRF_CROSSED)
        hrf_product_cross_rows_avx512(a, a_pitch, m->depth, n, a, a_pitch);
    hrf_product_avx512(words, a, a_pitch, packed, m->depth, y, pitch, n, m->columns, &epilogue,
                       &nothing);
}

static float *multiply(const struct matrices *m, enum hrf_words words)
{
    float *y = floats(m->rows * m->columns);
    multiply_rows(m, words, 0, m->rows, y, m->columns);
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

static void skip_without_avx512(void)
{
    if (hrf_cpu_has_avx512())
        return;
    print_message("this processor has no AVX-512: these kernels are not used\n");
    skip();
}

static void check_shape(const struct matrices *m, enum hrf_words words)
{
    HRF_AUTO_FREE float *y = multiply(m, words);
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
    const int64_t pitch = m->columns + GAP;
    HRF_AUTO_FREE float *alone = floats(pitch);
    for (int64_t i = 0; i < m->rows; i++) {
        multiply_rows(m, words, i, 1, alone, pitch);
        assert_memory_equal(alone, y + i * m->columns, (size_t)m->columns * sizeof *y);
    }
}

static void random_shapes_give_sums_and_the_same_bits_row_by_row(void **state)
{
    (void)state;
    skip_without_avx512();
    for (uint64_t seed = 0; seed < N_SHAPES; seed++) {
        struct hrf_random random = hrf_random_init(seed);
        const int64_t rows = 1 + hrf_random_below(&random, 40);
        const int64_t depth = 1 + hrf_random_below(&random, seed % 2 == 0 ? 40 : 400);
        struct matrices m = make(rows, depth, 1 + hrf_random_below(&random, 100), &random);
        check_shape(&m, HRF_FLOATS);
        check_shape(&m, HRF_CROSSED);
        release(&m);
    }
}

/* One after the other, as by a plain loop. */
static double plain_error(const struct matrices *m, int64_t i, int64_t j, double exact)
{
    float sum = 0;
    for (int64_t k = 0; k < m->depth; k++)
        sum = fmaf(m->a[i * m->depth + k], m->w[k * m->columns + j], sum);
    return (double)sum + (double)m->bias[j] - exact;
}

/* The root of crossed products' mean square error in that of plain sums, which is taken for each
 * column: their numbers may be of any size. */
static double error_ratio(const struct matrices *m)
{
    HRF_AUTO_FREE float *y = multiply(m, HRF_CROSSED);
    double sum = 0;
    for (int64_t j = 0; j < m->columns; j++) {
        double own = 0, plain = 0;
        for (int64_t i = 0; i < m->rows; i++) {
            const double exact = exact_at(m, i, j).sum, error = plain_error(m, i, j, exact);
            const double own_error = (double)y[i * m->columns + j] - exact;
            own += own_error * own_error;
            plain += error * error;
        }
        sum += own / plain;
    }
    return sqrt(sum / (double)m->columns);
}

/* What images are like between layers: half of the numbers 0, all positive, some channels much
 * larger than others. */
static void errors_of_crossed_sums_are_about_those_of_plain_ones(void **state)
{
    (void)state;
    skip_without_avx512();
    static const char *const kinds[] = { "of mean 0", "after RELU", "of mean 3", "uneven channels",
                                         "large rows, small columns" };
    for (int kind = 0; kind < 5; kind++)
        for (int64_t depth = 64; depth <= 2048; depth *= 2) {
            struct hrf_random random = hrf_random_init((uint64_t)depth);
            struct matrices m = make(64, depth, 32, &random);
            for (int64_t i = 0; i < m.rows * depth; i++) {
                const float channel = (float)(i % depth % 7 - 3);
                m.a[i] = kind == 0   ? m.a[i]
                         : kind == 1 ? fmaxf(m.a[i], 0)
                         : kind == 2 ? m.a[i] + 3
                         : kind == 3 ? fmaxf(m.a[i], 0) * expf(channel)
                                     : m.a[i] * 0x1p40f;
            }
            for (int64_t i = 0; i < depth * m.columns; i++)
                m.w[i] *= kind == 4 ? ldexpf(1, (int)(i % m.columns) - 60) : 0.03f;
            memset(m.bias, 0, (size_t)m.columns * sizeof *m.bias);
            const double ratio = error_ratio(&m);
            print_message("%s, depth %lld: %.2f times\n", kinds[kind], (long long)depth, ratio);
            assert_true(ratio < 3.5);
            release(&m);
        }
}

/* Each number of a row at the ends of what floats hold: scaled, neither they nor their squares
 * leave it. The scale itself does not reach subnormal rows, whose sums are exact to 2^-140. */
static void the_largest_and_the_smallest_numbers_are_summed(void **state)
{
    (void)state;
    static const float sizes[] = { 0x1p120f, 0x1p-120f, 0x1p-140f, 0x1p63f, 0x1p-64f, 0 };
    enum { N = sizeof sizes / sizeof sizes[0], DEPTH = 67, COLUMNS = 40 };
    skip_without_avx512();
    struct hrf_random random = hrf_random_init(1);
    struct matrices m = make(N, DEPTH, COLUMNS, &random);
    memset(m.bias, 0, COLUMNS * sizeof *m.bias);
    for (int64_t i = 0; i < N * DEPTH; i++)
        m.a[i] *= sizes[i / DEPTH];
    HRF_AUTO_FREE float *y = multiply(&m, HRF_CROSSED);
    for (int64_t i = 0; i < N * COLUMNS; i++) {
        const struct exact e = exact_at(&m, i / COLUMNS, i % COLUMNS);
        const double limit = sizes[i / COLUMNS] > 0 ? 0x1p-20 * e.norm + 0x1p-140 : 0;
        if (!(fabs((double)y[i] - e.sum) <= limit))
            fail_msg("size %a: %a, not %a", (double)sizes[i / COLUMNS], (double)y[i], e.sum);
    }
    release(&m);
}

/* Not as a NaN, which RELU would turn into a quiet 0. */
static void what_is_not_finite_gives_infinity_in_its_row_or_column(void **state)
{
    (void)state;
    enum { ROWS = 3, DEPTH = 50, COLUMNS = 40 };
    skip_without_avx512();
    for (int kind = 0; kind < 3; kind++) {
        const float number = kind == 0 ? INFINITY : kind == 1 ? -INFINITY : NAN;
        struct hrf_random random = hrf_random_init(2);
        struct matrices m = make(ROWS, DEPTH, COLUMNS, &random);
        HRF_AUTO_FREE float *finite = multiply(&m, HRF_CROSSED);
        m.a[DEPTH + 21] = number;
        m.w[7 * COLUMNS + 33] = number;
        HRF_AUTO_FREE float *y = multiply(&m, HRF_CROSSED);
        for (int64_t i = 0; i < ROWS * COLUMNS; i++)
            if (i / COLUMNS == 1 || i % COLUMNS == 33)
                assert_true(isinf(y[i]) && y[i] > 0);
            else
                assert_true(y[i] == finite[i]);
        release(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_shapes_give_sums_and_the_same_bits_row_by_row),
        cmocka_unit_test(errors_of_crossed_sums_are_about_those_of_plain_ones),
        cmocka_unit_test(the_largest_and_the_smallest_numbers_are_summed),
        cmocka_unit_test(what_is_not_finite_gives_infinity_in_its_row_or_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
