/* The file of a task's embeddings: rows in any order, those of a part, numbers that are not finite.
 */
#include "base/file.h"
#include "engine/worker/embedding_rows.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 70, WIDTH = 50 };
static char folder[] = "/tmp/hrf-rows-XXXXXX";

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

static void place(const char *name, char path[64])
{
    snprintf(path, 64, "%s/%s", folder, name);
}

static void put(struct hrf_embedding_rows *rows, int64_t row)
{
    float values[WIDTH];
    for (int i = 0; i < WIDTH; i++)
        values[i] = (float)(row * WIDTH + i);
    hrf_embedding_rows_put(rows, row, values);
}

/* Every second row comes from a part; a sum that does not fit is not believed. */
static void a_part_is_taken_over_and_the_rest_is_written(void **state)
{
    (void)state;
    char part_path[64], path[64], sha256[HRF_HASH_HEX], found[HRF_HASH_HEX];
    HRF_AUTO(hrf_embedding_rows) part = NULL;
    HRF_AUTO(hrf_embedding_rows) rows = NULL;
    struct hrf_embedding_flaw flaw;
    place("part", part_path);
    place("rows", path);
    assert_int_equal(hrf_embedding_rows_create(part_path, N, WIDTH, &part, NULL), HRF_OK);
    for (int64_t i = N - 1; i >= 0; i -= 2)
        put(part, i);
    assert_int_equal(hrf_embedding_rows_sync(part, NULL), HRF_OK);
    assert_int_equal(hrf_embedding_rows_create(path, N, WIDTH, &rows, NULL), HRF_OK);
    HRF_AUTO_CLOSE int fd = open(part_path, O_RDONLY | O_CLOEXEC);
    for (int64_t i = 0; i < N; i++) {
        const uint64_t sum = hrf_embedding_rows_sums(part)[i];
        assert_true((sum != 0) == (i % 2 == 1));
        assert_false(hrf_embedding_rows_take(rows, fd, i, sum + 1));
        if (sum == 0)
            put(rows, i);
        else
            assert_true(hrf_embedding_rows_take(rows, fd, i, sum));
    }
    assert_int_equal(hrf_embedding_rows_finish(rows, &flaw, sha256, NULL), HRF_OK);
    assert_int_equal(flaw.row, -1);
    assert_int_equal(hrf_hash_file(path, found, NULL), HRF_OK);
    assert_string_equal(sha256, found);
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n = 0;
    assert_int_equal(hrf_file_read(path, 1 << 20, &bytes, &n, NULL), HRF_OK);
    assert_int_equal(n, N * WIDTH * sizeof(float));
    for (int i = 0; i < N * WIDTH; i++) {
        float value;
        memcpy(&value, bytes + (size_t)i * sizeof value, sizeof value);
        assert_true(value == (float)i);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(part_path), 0);
}

static void what_is_not_finite_is_found_and_the_file_removed(void **state)
{
    (void)state;
    char path[64], sha256[HRF_HASH_HEX];
    static const float values[3] = { 1, NAN, 2 };
    struct hrf_embedding_rows *rows = NULL;
    struct hrf_embedding_flaw flaw;
    place("bad", path);
    assert_int_equal(hrf_embedding_rows_create(path, 2, 3, &rows, NULL), HRF_OK);
    hrf_embedding_rows_put(rows, 0, values);
    assert_int_equal(hrf_embedding_rows_finish(rows, &flaw, sha256, NULL), HRF_E_BUG);
    hrf_embedding_rows_put(rows, 1, values);
    assert_int_equal(hrf_embedding_rows_finish(rows, &flaw, sha256, NULL), HRF_OK);
    assert_true(flaw.row == 0 && flaw.column == 1 && isnan(flaw.value));
    hrf_embedding_rows_destroy(rows);
    assert_int_equal(access(path, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_is_taken_over_and_the_rest_is_written),
        cmocka_unit_test(what_is_not_finite_is_found_and_the_file_removed),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
