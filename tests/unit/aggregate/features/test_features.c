/* Embeddings as files: what needs no reader of HDF5. tests/cli/flow_embedding.sh reads them by h5py
 * as the tools do that give the forms their names. */
#include "aggregate/features/features.h"
#include "base/file.h"
#include "schema/hdf5/hdf5_reader.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/hrf-features-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static struct hrf_patch places[3] = { { 0, 0 }, { 512, 0 }, { 512, 256 } };
static struct hrf_tile_plan plan = { .n_patches = 3,
                                     .patches = places,
                                     .width = 2048,
                                     .height = 1024,
                                     .mpp_x = 0.25,
                                     .mpp_y = 0.25,
                                     .patch_size = 256,
                                     .patch_stride = 256,
                                     .patch_mpp = 0.5,
                                     .patch_width0 = 512,
                                     .patch_height0 = 512 };

/* Rows that are given one or two at a time. */
struct rows {
    const float *values;
    int64_t at, n;
};

static enum hrf_status next_rows(void *context, const float **values, int64_t *n,
                                 struct hrf_error *err)
{
    struct rows *rows = context;
    (void)err;
    *values = rows->values + 2 * rows->at;
    *n = rows->n - rows->at < 2 ? rows->n - rows->at : 2;
    rows->at += *n;
    return HRF_OK;
}

static enum hrf_status save(enum hrf_features_form form, bool is_half, const float *values,
                            int64_t n, char **bytes, size_t *n_bytes, struct hrf_error *err)
{
    char path[128];
    struct hrf_tile_plan some = plan;
    some.n_patches = n;
    struct rows rows = { values, 0, n };
    const struct hrf_features f = {
        .plan = &some, .slide = "s", .encoder = "tiny", .width = 2, .next = next_rows, .rows = &rows
    };
    snprintf(path, sizeof path, "%s/f%s", folder, hrf_features_suffix(form));
    const enum hrf_status status = hrf_features_write(form, is_half, &f, path, err);
    if (status == HRF_OK) {
        assert_int_equal(hrf_file_read(path, SIZE_MAX, bytes, n_bytes, NULL), HRF_OK);
        assert_int_equal(unlink(path), 0);
    } else {
        assert_int_equal(access(path, F_OK), -1); /* nothing is left of it */
    }
    return status;
}

static void npy_is_numpys_format(void **state)
{
    (void)state;
    static const float values[] = { 1, -2, 0.5f, 65504, 0, 3 };
    static const uint16_t half[] = { 0x3c00, 0xc000, 0x3800, 0x7bff, 0, 0x4200 };
    char *bytes = NULL;
    size_t n = 0;
    assert_int_equal(save(HRF_FEATURES_NPY, false, values, 3, &bytes, &n, NULL), HRF_OK);
    assert_int_equal(n, 128 + sizeof values);
    assert_memory_equal(bytes, "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4'", 25);
    assert_memory_equal(bytes + 128, values, sizeof values);
    hrf_free(bytes);
    assert_int_equal(save(HRF_FEATURES_NPY, true, values, 3, &bytes, &n, NULL), HRF_OK);
    assert_int_equal(n, 128 + sizeof half);
    assert_memory_equal(bytes + 128, half, sizeof half);
    hrf_free(bytes);
}

static void equal_embeddings_are_equal_bytes(void **state)
{
    (void)state;
    static const float values[] = { 1, -2, 0.5f, 65504, 0, 3 };
    for (enum hrf_features_form form = HRF_FEATURES_TRIDENT; form < HRF_FEATURES_NPY; form++)
        for (int64_t rows = 0; rows <= 3; rows += 3) { /* an empty slide has a file too */
            char *a = NULL, *b = NULL;
            size_t n_a = 0, n_b = 0;
            assert_int_equal(save(form, false, values, rows, &a, &n_a, NULL), HRF_OK);
            assert_int_equal(save(form, false, values, rows, &b, &n_b, NULL), HRF_OK);
            assert_true(n_a > 8 && n_a == n_b);
            assert_memory_equal(a, "\x89HDF\r\n\x1a\n", 8);
            assert_memory_equal(a, b, n_a);
            hrf_free(a);
            hrf_free(b);
        }
}

static void what_float16_cannot_hold_is_refused(void **state)
{
    (void)state;
    static const float values[] = { 1, -2, 0.5f, 70000, 0, 3 };
    struct hrf_error err = { .status = HRF_OK };
    char *bytes = NULL;
    size_t n;
    assert_int_equal(save(HRF_FEATURES_STAMP, false, values, 3, &bytes, &n, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "number 1 of the embedding of patch 1 is 70000"));
    assert_int_equal(save(HRF_FEATURES_TRIDENT, true, values, 3, &bytes, &n, &err), HRF_E_USER);
    assert_int_equal(save(HRF_FEATURES_CLAM, true, values, 3, &bytes, &n, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "CLAM reads float32"));
}

/* A file whose numbers are elsewhere is read only where a run keeps its embeddings. */
static void numbers_in_other_files_are_refused(void **state)
{
    (void)state;
    char path[128], sha256[] = "x";
    int64_t rows = 0, columns = 0;
    struct hrf_error err = { .status = HRF_OK };
    const struct hrf_features f = { .plan = &plan, .slide = "s", .encoder = "tiny", .width = 2 };
    static const struct {
        const char *path, *text;
    } cases[] = { { "/etc/passwd", "keeps its numbers in another file, '/etc/passwd'" },
                  { "../../embeddings/"
                    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                    "which is missing; 'hires-flow run' computes it again" } };
    snprintf(path, sizeof path, "%s/bag.h5", folder);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        HRF_AUTO(hrf_hdf5_reader) reader = NULL;
        const struct hrf_features_part part = { cases[i].path, sha256, 24 };
        assert_int_equal(hrf_features_refer(&f, &part, 1, path, NULL), HRF_OK);
        assert_int_equal(hrf_hdf5_reader_open(path, &reader, NULL), HRF_OK);
        assert_int_equal(hrf_hdf5_table_size(reader, "features", &rows, &columns, &err),
                         HRF_E_USER);
        assert_non_null(strstr(err.text, cases[i].text));
        assert_int_equal(hrf_hdf5_table_size(reader, "coords", &rows, &columns, NULL), HRF_OK);
        assert_true(rows == 3 && columns == 2);
    }
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy_is_numpys_format),
        cmocka_unit_test(equal_embeddings_are_equal_bytes),
        cmocka_unit_test(what_float16_cannot_hold_is_refused),
        cmocka_unit_test(numbers_in_other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
