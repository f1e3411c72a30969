/* The shared store of calibrations: whole or not at all, one maker a key, no byte unseen. */
#include "schema/store/calibrations.h"

#include "base/clock.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "schema/store/owner.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char key[] = "00000000000000000000000000000000000000000000000000000000000000aa";

struct folder {
    char path[64];
    struct hrf_calibrations *store;
};

static int open_folder(void **state)
{
    static struct folder f;
    snprintf(f.path, sizeof f.path, "/tmp/hrf-calibrations-XXXXXX");
    assert_non_null(mkdtemp(f.path));
    assert_int_equal(hrf_calibrations_open(f.path, &f.store, NULL), HRF_OK);
    *state = &f;
    return 0;
}

static int close_folder(void **state)
{
    struct folder *f = *state;
    hrf_calibrations_destroy(f->store);
    return hrf_path_remove_tree(f->path, NULL) != HRF_OK;
}

/* Texts are borrowed: not for hrf_calibration_destroy(). */
static struct hrf_calibration example(struct hrf_calibration_tensor tensors[2])
{
    static char a[] = "input", b[] = "relu", mse[] = "mse", hex[] = "ab", engine[] = "0.1.0",
                created[] = "2026-01-31T23:59:59Z";
    tensors[0] = (struct hrf_calibration_tensor){ .name = a,
                                                  .low = -2.5f,
                                                  .high = 2.5f,
                                                  .method = mse,
                                                  .sqnr_db = 40,
                                                  .is_observed = true,
                                                  .observed_low = -3,
                                                  .observed_high = 2.75f };
    tensors[1] = (struct hrf_calibration_tensor){ .name = b,
                                                  .low = 0,
                                                  .high = 6.25f,
                                                  .method = mse,
                                                  .sqnr_db = 38.5,
                                                  .is_observed = true,
                                                  .observed_low = 0,
                                                  .observed_high = 6.25f };
    return (struct hrf_calibration){ .key = key,
                                     .method = mse,
                                     .graph = hex,
                                     .sample = hex,
                                     .engine = engine,
                                     .created = created,
                                     .n_samples = 64,
                                     .seconds = 1.5,
                                     .tensors = tensors,
                                     .n_tensors = 2 };
}

static void put_example(struct hrf_calibrations *store)
{
    struct hrf_calibration_tensor tensors[2];
    const struct hrf_calibration c = example(tensors);
    assert_int_equal(hrf_calibrations_put(store, &c, NULL), HRF_OK);
}

static void what_is_kept_comes_back_and_the_first_stays(void **state)
{
    struct folder *f = *state;
    HRF_AUTO(hrf_calibration) none = NULL;
    HRF_AUTO(hrf_calibration) back = NULL;
    assert_int_equal(hrf_calibrations_get(f->store, key, &none, NULL), HRF_OK);
    assert_null(none);
    put_example(f->store);
    struct hrf_calibration_tensor tensors[2];
    struct hrf_calibration other = example(tensors);
    tensors[1].high = 7;
    assert_int_equal(hrf_calibrations_put(f->store, &other, NULL), HRF_OK);
    assert_int_equal(hrf_calibrations_get(f->store, key, &back, NULL), HRF_OK);
    assert_int_equal(back->n_tensors, 2);
    assert_true(back->tensors[1].high == 6.25f && back->tensors[1].sqnr_db == 38.5);
}

static void one_process_makes_a_key(void **state)
{
    struct folder *f = *state;
    bool mine = false;
    assert_int_equal(hrf_calibrations_claim(f->store, key, &mine, NULL, NULL), HRF_OK);
    assert_true(mine);
    const pid_t other = fork();
    if (other == 0) { /* the parent lives: it is not the child's */
        struct hrf_calibrations *store = NULL;
        char who[192], want[192];
        const struct hrf_owner me = hrf_owner_self();
        snprintf(want, sizeof want, "process %lld on %s", (long long)getppid(), me.host);
        bool ok = hrf_calibrations_open(f->path, &store, NULL) == HRF_OK &&
                  hrf_calibrations_claim(store, key, &mine, who, NULL) == HRF_OK && !mine &&
                  strcmp(who, want) == 0;
        hrf_calibrations_destroy(store);
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
    assert_int_equal(hrf_calibrations_claim(f->store, key, &mine, NULL, NULL), HRF_OK);
    assert_true(mine); /* again: a sign of life */
    assert_int_equal(hrf_calibrations_give_up(f->store, key, NULL), HRF_OK);
}

static void the_claim_of_a_dead_process_is_taken_over(void **state)
{
    struct folder *f = *state;
    const pid_t other = fork();
    if (other == 0) {
        struct hrf_calibrations *store = NULL;
        bool mine = false;
        const bool ok = hrf_calibrations_open(f->path, &store, NULL) == HRF_OK &&
                        hrf_calibrations_claim(store, key, &mine, NULL, NULL) == HRF_OK && mine;
        _exit(ok ? 0 : 1); /* without giving it up */
    }
    int status = -1;
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
    bool mine = false;
    assert_int_equal(hrf_calibrations_claim(f->store, key, &mine, NULL, NULL), HRF_OK);
    assert_true(mine);
}

/* Every byte of the record in turn: found out, or the record says the same. */
static void no_flipped_byte_of_a_record_is_used(void **state)
{
    struct folder *f = *state;
    put_example(f->store);
    HRF_AUTO_FREE char *file = hrf_path_join(f->path, "calibrations.db");
    HRF_AUTO_FREE char *record = NULL;
    struct hrf_calibration_tensor tensors[2];
    const struct hrf_calibration c = example(tensors);
    assert_int_equal(hrf_calibration_encode(&c, &record, NULL), HRF_OK);
    const size_t n = strlen(record);
    sqlite3 *db = NULL;
    sqlite3_stmt *s = NULL;
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA synchronous=OFF", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "UPDATE calibration SET record=?", -1, &s, NULL),
                     SQLITE_OK);
    for (size_t i = 0; i < n; i++) {
        struct hrf_calibration *back = NULL;
        struct hrf_error err = { .status = HRF_OK };
        record[i] ^= 1;
        sqlite3_bind_text(s, 1, record, (int)n, SQLITE_STATIC);
        assert_int_equal(sqlite3_step(s), SQLITE_DONE);
        sqlite3_reset(s);
        record[i] ^= 1;
        if (hrf_calibrations_get(f->store, key, &back, &err) == HRF_OK)
            fail_msg("byte %zu ('%c') changed and was not seen", i, record[i]);
        assert_int_equal(err.status, HRF_E_USER);
        assert_non_null(strstr(err.text, "calibration 000000000000 in "));
        assert_null(back);
    }
    sqlite3_finalize(s);
    sqlite3_close(db);
}

/* Each record is whole and has the right checksum: who can write the store can write that too. */
static void ranges_that_no_fit_makes_are_not_used(void **state)
{
    struct folder *f = *state;
    static const struct {
        float low, high, observed_low, observed_high;
        bool is_observed;
        const char *why; /* NULL: used */
    } cases[] = {
        { 0, 6.25f, 0, 6.25f, true, NULL },
        { 0, 6.25f, 0, 25600, true, NULL }, /* a bin of the histogram: percentile may */
        { -2, 2, -1, 2, true, NULL },
        { 0, 0, 0, 6.25f, true, "nothing but zeros" },
        { 0, 3e38f, 0, 3e38f, true, "larger than 1e18" },
        { -3e38f, 3e38f, -1, 1, true, "larger than 1e18" },
        { 0, 1e-30f, 0, 1e-30f, true, "smaller than 1e-18" },
        { 0, NAN, 0, 1, true, "high" },
        { 0, 62.5f, 0, 6.25f, true, "larger than what was observed" },
        { -8, 8, -1, 1, true, "larger than what was observed" },
        { 0, 1e-3f, 0, 6.25f, true, "leaves out most of what was observed" },
        { 0, 2, -2, 2, true, "leaves out most of what was observed" },
        { 0, 1, NAN, 1, true, "'observed_low'" },
        { 0, 1, 2, 1, true, "what was observed of tensor 'relu'" },
        { 0, 6.25f, 0, 0, false, "does not tell what was observed" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hrf_calibration_tensor tensors[2];
        struct hrf_calibration c = example(tensors);
        HRF_AUTO(hrf_calibration) back = NULL;
        struct hrf_error err = { .status = HRF_OK };
        bool found;
        tensors[1].low = cases[i].low;
        tensors[1].high = cases[i].high;
        tensors[1].observed_low = cases[i].observed_low;
        tensors[1].observed_high = cases[i].observed_high;
        tensors[1].is_observed = cases[i].is_observed;
        assert_int_equal(hrf_calibrations_put(f->store, &c, NULL), HRF_OK);
        const enum hrf_status status = hrf_calibrations_get(f->store, key, &back, &err);
        assert_int_equal(status, cases[i].why == NULL ? HRF_OK : HRF_E_USER);
        assert_true((back != NULL) == (cases[i].why == NULL));
        if (cases[i].why != NULL && strstr(err.text, cases[i].why) == NULL)
            fail_msg("case %zu: %s", i, err.text);
        assert_int_equal(hrf_calibrations_drop(f->store, key, &found, NULL), HRF_OK);
    }
}

/* It is known to be none: such a tensor stays in float32, and its range is no scale. */
static void a_tensor_that_is_kept_needs_no_range(void **state)
{
    struct folder *f = *state;
    static char name[] = "relu", reason[] = "it held nothing but zeros";
    struct hrf_calibration_tensor tensors[2];
    struct hrf_calibration_keep keep = { .name = name, .reason = reason };
    struct hrf_calibration c = example(tensors);
    HRF_AUTO(hrf_calibration) back = NULL;
    tensors[1].high = tensors[1].observed_high = 0;
    c.keep = &keep;
    c.n_keep = 1;
    assert_int_equal(hrf_calibrations_put(f->store, &c, NULL), HRF_OK);
    assert_int_equal(hrf_calibrations_get(f->store, key, &back, NULL), HRF_OK);
    assert_int_equal(back->n_keep, 1);
}

static void a_mean_beyond_what_was_observed_is_not_used(void **state)
{
    struct folder *f = *state;
    static float means[] = { 1, -3, 6.5f };
    struct hrf_calibration_tensor tensors[2];
    struct hrf_calibration c = example(tensors);
    HRF_AUTO(hrf_calibration) back = NULL;
    struct hrf_error err = { .status = HRF_OK };
    tensors[1].means = means;
    tensors[1].n_means = 3;
    assert_int_equal(hrf_calibrations_put(f->store, &c, NULL), HRF_OK);
    assert_int_equal(hrf_calibrations_get(f->store, key, &back, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "has the mean 6.5"));
}

static void a_store_that_others_can_write_is_not_opened(void **state)
{
    struct folder *f = *state;
    struct hrf_calibrations *store = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(chmod(f->path, 0777), 0);
    assert_int_equal(hrf_calibrations_open(f->path, &store, &err), HRF_E_USER);
    assert_null(store);
    assert_non_null(strstr(err.text, "can be written by others"));
}

static void write_file(const char *directory, const char *bytes)
{
    HRF_AUTO_FREE char *file = hrf_path_join(directory, "calibrations.db");
    assert_int_equal(hrf_file_write_atomic(file, bytes, strlen(bytes), NULL), HRF_OK);
}

/* Puts what is there away; the new store keeps and finds, and finds nothing of the old one. */
static void expect_put_aside(struct folder *f, const char *bytes)
{
    HRF_AUTO(hrf_calibrations) store = NULL;
    HRF_AUTO(hrf_calibration) back = NULL;
    struct hrf_error err = { .text = "" };
    if (hrf_calibrations_open(f->path, &store, &err) != HRF_OK)
        fail_msg("%s", err.text);
    const char *aside = hrf_calibrations_put_aside(store);
    assert_non_null(aside);
    assert_non_null(strstr(aside, "/calibrations.db.damaged-"));
    HRF_AUTO_FREE char *kept = NULL;
    size_t n = 0;
    assert_int_equal(hrf_file_read(aside, 1 << 20, &kept, &n, NULL), HRF_OK);
    if (bytes != NULL)
        assert_string_equal(kept, bytes);
    put_example(store);
    assert_int_equal(hrf_calibrations_get(store, key, &back, NULL), HRF_OK);
    assert_non_null(back);
    hrf_calibrations_destroy(store);
    store = NULL;
    assert_int_equal(hrf_calibrations_open(f->path, &store, NULL), HRF_OK);
    assert_null(hrf_calibrations_put_aside(store)); /* once */
}

static void a_damaged_file_is_put_aside_and_begun_anew(void **state)
{
    struct folder *f = *state;
    hrf_calibrations_destroy(f->store);
    f->store = NULL;
    write_file(f->path, "this is no database, and never was one; it is a text of some length");
    expect_put_aside(f, "this is no database, and never was one; it is a text of some length");
    hrf_clock_sleep_ms(2); /* names end in milliseconds */
    HRF_AUTO_FREE char *file = hrf_path_join(f->path, "calibrations.db");
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "DROP TABLE claim; CREATE TABLE claim(other)", NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    expect_put_aside(f, NULL);
}

static void a_page_that_was_overwritten_is_found(void **state)
{
    struct folder *f = *state;
    put_example(f->store);
    hrf_calibrations_destroy(f->store);
    f->store = NULL;
    HRF_AUTO_FREE char *file = hrf_path_join(f->path, "calibrations.db");
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n = 0;
    assert_int_equal(hrf_file_read(file, 1 << 20, &bytes, &n, NULL), HRF_OK);
    assert_true(n > 8192);
    memset(bytes + 4096, 0x5a, 4096);
    assert_int_equal(hrf_file_write_atomic(file, bytes, n, NULL), HRF_OK);
    expect_put_aside(f, NULL);
}

static void a_file_of_another_version_is_left_where_it_is(void **state)
{
    struct folder *f = *state;
    struct hrf_calibrations *store = NULL;
    struct hrf_error err = { .text = "" };
    HRF_AUTO_FREE char *file = hrf_path_join(f->path, "calibrations.db");
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version=7", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(hrf_calibrations_open(f->path, &store, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "is a calibration store of version 7"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_kept_comes_back_and_the_first_stays, open_folder,
                                        close_folder),
        cmocka_unit_test_setup_teardown(one_process_makes_a_key, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(the_claim_of_a_dead_process_is_taken_over, open_folder,
                                        close_folder),
        cmocka_unit_test_setup_teardown(no_flipped_byte_of_a_record_is_used, open_folder,
                                        close_folder),
        cmocka_unit_test_setup_teardown(ranges_that_no_fit_makes_are_not_used, open_folder,
                                        close_folder),
        cmocka_unit_test_setup_teardown(a_tensor_that_is_kept_needs_no_range, open_folder,
                                        close_folder),
        cmocka_unit_test_setup_teardown(a_mean_beyond_what_was_observed_is_not_used, open_folder,
                                        close_folder),
        cmocka_unit_test_setup_teardown(a_store_that_others_can_write_is_not_opened, open_folder,
                                        close_folder),
        cmocka_unit_test_setup_teardown(a_damaged_file_is_put_aside_and_begun_anew, open_folder,
                                        close_folder),
        cmocka_unit_test_setup_teardown(a_page_that_was_overwritten_is_found, open_folder,
                                        close_folder),
        cmocka_unit_test_setup_teardown(a_file_of_another_version_is_left_where_it_is, open_folder,
                                        close_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
