/* Resized images against Pillow's bytes (tools/reference/image_resize_goldens.py). */
#include "engine/input/image_resize.h"

#include "base/csv.h"
#include "base/hash.h"
#include "engine/input/byte_sums.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

/* The pixels of line `line` of the goldens. */
static unsigned char *make_image(int64_t side, size_t line)
{
    const size_t n = (size_t)(3 * side * side);
    unsigned char *rgb = hrf_alloc(n);
    uint32_t state = (uint32_t)line + 1;
    assert_non_null(rgb);
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223;
        rgb[i] = (unsigned char)(state >> 24);
        if (line % 2 != 0)
            rgb[i] = rgb[i] > 127 ? 255 : 0;
    }
    return rgb;
}

/* Where rows go, and how many there were. */
struct made {
    unsigned char *rgb;
    int64_t row_bytes, n_rows;
};

static void take(void *context, int64_t row, int64_t n, const unsigned char *rgb, int64_t stride)
{
    struct made *made = context;
    assert_int_equal(row, made->n_rows);
    for (int64_t k = 0; k < n; k++)
        memcpy(made->rgb + (row + k) * made->row_bytes, rgb + k * stride, (size_t)made->row_bytes);
    made->n_rows += n;
}

/* Output rows [first, first + n) of an image, from only the rows that they need. */
static void make_rows(struct hrf_image_resizer *resizer, const unsigned char *image, int64_t side,
                      int64_t first, int64_t n, struct made *made)
{
    int64_t from, n_from;
    hrf_image_resizer_needs(resizer, first, n, &from, &n_from);
    assert_true(from >= 0 && from + n_from <= side);
    hrf_image_resizer_begin(resizer, first, n, take, made);
    for (int64_t i = from; i < from + n_from; i++)
        hrf_image_resizer_put(resizer, image + 3 * side * i);
    assert_int_equal(made->n_rows, n);
}

static void images_have_the_bytes_of_pillow(void **state)
{
    (void)state;
    HRF_AUTO(hrf_csv) csv = NULL;
    assert_int_equal(hrf_csv_read("tests/golden/image_resize.csv", &csv, NULL), HRF_OK);
    assert_true(csv->n_rows >= 40);
    for (size_t i = 0; i < csv->n_rows; i++) {
        char *const *cells = csv->rows[i].fields;
        char hex[HRF_HASH_HEX];
        const int64_t side = strtoll(cells[0], NULL, 10);
        const struct hrf_preparation how = { .resize = strtoll(cells[1], NULL, 10),
                                             .size = strtoll(cells[2], NULL, 10),
                                             .interpolation = hrf_interpolation_find(cells[3]) };
        HRF_AUTO(hrf_image_resizer) resizer = NULL;
        HRF_AUTO_FREE unsigned char *image = make_image(side, i);
        const size_t n = (size_t)(3 * how.size * how.size);
        HRF_AUTO_FREE unsigned char *whole = hrf_alloc(n), *part = hrf_alloc(n);
        struct made made = { whole, 3 * how.size, 0 };
        assert_true(how.interpolation < HRF_N_INTERPOLATIONS);
        hrf_image_resizer_create(side, &how, &resizer);
        make_rows(resizer, image, side, 0, how.size, &made);
        assert_int_equal(hrf_hash_buffer(whole, n, hex, NULL), HRF_OK);
        if (strcmp(hex, cells[4]) != 0)
            fail_msg("%s px to %s, the middle %s, %s: other bytes than Pillow's", cells[0],
                     cells[1], cells[2], cells[3]);
        /* Some of the rows, as a rank of a spatial split reads them. */
        const int64_t first = how.size / 3, rows = how.size - first - how.size / 5;
        struct made some = { part, 3 * how.size, 0 };
        make_rows(resizer, image, side, first, rows, &some);
        assert_memory_equal(part, whole + first * 3 * how.size, (size_t)(rows * 3 * how.size));
    }
}

static void plain_sums_are_those_of_the_vectors(void **state)
{
    (void)state;
    enum { ROWS = 12, WIDTH = 96 };
    HRF_AUTO_FREE unsigned char *rows = make_image(ROWS * WIDTH, 2);
    struct hrf_byte_weights weights[ROWS / 2];
    unsigned char plain[WIDTH], wide[WIDTH];
    for (int i = 0; i < ROWS; i++) { /* within what a filter of Pillow gives */
        const int32_t whole = ((int32_t)rows[5000 + i] - 90) * 12345 + rows[6000 + i];
        const int32_t low = whole & ((1 << HRF_BYTE_SUMS_LOW) - 1);
        weights[i / 2].low[i % 2] = (int16_t)low;
        weights[i / 2].high[i % 2] = (int16_t)((whole - low) / (1 << HRF_BYTE_SUMS_LOW));
    }
    hrf_byte_sums_plain(rows, WIDTH, weights, ROWS / 2, WIDTH, plain);
    hrf_byte_sums_choose()(rows, WIDTH, weights, ROWS / 2, WIDTH, wide);
    assert_memory_equal(plain, wide, WIDTH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_have_the_bytes_of_pillow),
        cmocka_unit_test(plain_sums_are_those_of_the_vectors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
