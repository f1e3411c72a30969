/* NumPy files: what is written reads back; what is not ours is refused by name. */
#include "engine/input/npy.h"

#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void what_is_written_reads_back(void **state)
{
    (void)state;
    static const float values[6] = { 1.5f, -2, 3, 4, 5, 6e-30f };
    static const struct hrf_shape shapes[] = {
        { .rank = 2, .dims = { 2, 3 } },
        { .rank = 1, .dims = { 6 } },
        { .rank = 4, .dims = { 1, 1, 3, 2 } },
        { .rank = 0 },
    };
    char path[] = "/tmp/hrf-npy-XXXXXX";
    close(mkstemp(path));
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct hrf_shape shape;
        float *read = NULL;
        assert_int_equal(hrf_npy_write(path, HRF_F32, &shapes[i], values, NULL), HRF_OK);
        assert_int_equal(hrf_npy_read(path, &shape, &read, NULL), HRF_OK);
        assert_true(hrf_shape_equal(&shape, &shapes[i]));
        assert_memory_equal(read, values, (size_t)hrf_shape_count(&shape) * sizeof *read);
        hrf_free(read);
    }
    unlink(path);
}

/* A version-1 file with this header text and n bytes of zeros. */
static size_t make_file(const char *header, size_t n_data, char out[512])
{
    size_t n = strlen(header);
    memset(out, 0, 512);
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)n;
    memcpy(out + 10, header, n);
    return 10 + n + n_data;
}

static void what_is_not_ours_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t n_data;
        const char *text;
    } cases[] = {
        { "{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}", 8,
          "x: elements of type '<i8' are not read; save it as float32 (array.astype('<f4'))" },
        { "{'descr': '<f4', 'fortran_order': True, 'shape': (1,)}", 4,
          "x: it is in Fortran order; save it with numpy.ascontiguousarray" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 4,
          "x: 4 bytes of data where its shape needs 8" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", 4,
          "x: not a NumPy array file: a dimension is not a number" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (100000,100000,)}", 4,
          "x: not a NumPy array file: it has more than 2^32 elements" },
        { "{'descr': '<f4', 'shape': (2,)}", 8,
          "x: not a NumPy array file: the header lacks 'descr', 'fortran_order' or 'shape'" },
        { "{'descr': '<f4'", 8, "x: not a NumPy array file: the header is not a dictionary" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char bytes[512];
        struct hrf_shape shape;
        float *values = NULL;
        struct hrf_error err = { .status = HRF_OK };
        size_t n = make_file(cases[i].header, cases[i].n_data, bytes);
        assert_int_equal(hrf_npy_parse(bytes, n, "x", &shape, &values, &err), HRF_E_USER);
        assert_string_equal(err.text, cases[i].text);
        assert_null(values);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(what_is_not_ours_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
