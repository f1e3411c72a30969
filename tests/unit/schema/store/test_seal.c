/* A store that a driver has closed: a bit that changes in it is noticed, or changes nothing. */
#include "base/file.h"
#include "base/hash.h"
#include "base/random.h"
#include "tests/unit/schema/store/store_fixture.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { N_SLIDES = 3, N_FLIPS = 1500 };

static void fill(struct hrf_store *store)
{
    static char names[N_SLIDES][16], paths[N_SLIDES][16], label[] = "Tumor";
    for (int i = 0; i < N_SLIDES; i++) {
        snprintf(names[i], sizeof names[i], "slide%d", i);
        snprintf(paths[i], sizeof paths[i], "/s/%d.tif", i);
        const struct hrf_slide_row row = { .id = i + 1,
                                           .name = names[i],
                                           .path = paths[i],
                                           .n_bytes = 1000,
                                           .truth = i == 0 ? HRF_TRUTH_POSITIVE
                                                           : HRF_TRUTH_NEGATIVE,
                                           .label_text = i == 0 ? label : NULL };
        assert_int_equal(hrf_store_put_slide(store, &row, NULL), HRF_OK);
    }
    for (int i = 0; i < N_SLIDES; i++) {
        const struct hrf_task_row tasks[2] = {
            fixture_task(HRF_TASK_INFER, i + 1, "fp32", 0, 10, (char)('a' + i)),
            fixture_task(HRF_TASK_INFER, i + 1, "int8", 0, 10, (char)('k' + i))
        };
        assert_int_equal(hrf_store_plan_tasks(store, i + 1, HRF_TASK_INFER, tasks, 2, NULL),
                         HRF_OK);
    }
}

/* The file of a store that was filled and closed by a driver. Heap. */
static char *make_store(size_t *n_bytes)
{
    char *bytes = NULL;
    struct hrf_store *store = fixture_open(HRF_STORE_WRITE);
    assert_int_equal(hrf_store_take_lease(store, NULL), HRF_OK);
    assert_int_equal(hrf_store_begin(store, NULL), HRF_OK);
    fill(store);
    assert_int_equal(hrf_store_commit(store, NULL), HRF_OK);
    assert_int_equal(hrf_store_release_lease(store, NULL), HRF_OK);
    hrf_store_close(store);
    assert_int_equal(hrf_file_read(fixture_file("run.db"), 1 << 22, &bytes, n_bytes, NULL), HRF_OK);
    return bytes;
}

static void put_store(const char *bytes, size_t n)
{
    static const char *const rest[] = { "run.db-wal", "run.db-shm" };
    for (int i = 0; i < 2; i++)
        unlink(fixture_file(rest[i]));
    int fd = open(fixture_file("run.db"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
}

/* A hash of what a program sees of slides and tasks. */
static enum hrf_status look(struct hrf_store *store, char out[HRF_HASH_HEX], struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_slide_rows) slides = { .items = NULL };
    HRF_AUTO_RELEASE(hrf_task_rows) tasks = { .items = NULL };
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    HRF_TRY(hrf_store_get_slides(store, &slides, err));
    HRF_TRY(hrf_store_get_tasks(store, &tasks, err));
    for (size_t i = 0; i < slides.n_items; i++) {
        const struct hrf_slide_row *s = &slides.items[i];
        enum hrf_slide_state state;
        HRF_AUTO_FREE char *reason = NULL;
        HRF_TRY(hrf_store_slide_outcome(store, s->id, "int8", &state, &reason, err));
        hrf_hash_int(hash, s->id);
        hrf_hash_text(hash, s->name);
        hrf_hash_text(hash, s->path);
        hrf_hash_int(hash, (int64_t)s->truth);
        hrf_hash_text(hash, s->label_text);
        hrf_hash_int(hash, (int64_t)s->state);
        hrf_hash_int(hash, (int64_t)state);
    }
    for (size_t i = 0; i < tasks.n_items; i++) {
        const struct hrf_task_row *t = &tasks.items[i];
        hrf_hash_int(hash, t->slide_id);
        hrf_hash_text(hash, t->key);
        hrf_hash_text(hash, t->precision);
        hrf_hash_int(hash, t->n_patches);
        hrf_hash_int(hash, (int64_t)t->state);
    }
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

static void a_bit_that_changes_is_noticed_or_changes_nothing(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(1);
    struct hrf_error err = { .status = HRF_OK };
    char whole[HRF_HASH_HEX];
    size_t n;
    int n_noticed = 0;
    HRF_AUTO_FREE char *bytes = make_store(&n);
    struct hrf_store *store = fixture_open(HRF_STORE_READ);
    assert_int_equal(look(store, whole, &err), HRF_OK);
    hrf_store_close(store);
    for (int i = 0; i < N_FLIPS; i++) {
        char seen[HRF_HASH_HEX];
        size_t at = (size_t)hrf_random_below(&random, (int64_t)n);
        while (bytes[at] == 0) /* most of a page is empty */
            at = (at + 1) % n;
        const char bit = (char)(1 << hrf_random_below(&random, 8));
        bytes[at] ^= bit;
        put_store(bytes, n);
        bytes[at] ^= bit;
        store = NULL;
        enum hrf_status status = hrf_store_open(fixture_file("run.db"), HRF_STORE_READ, &store,
                                                &err);
        if (status == HRF_OK)
            status = look(store, seen, &err);
        if (status == HRF_OK && strcmp(seen, whole) != 0)
            fail_msg("bit %d of byte %zu: other slides or tasks, and not a word", bit, at);
        n_noticed += status != HRF_OK;
        hrf_store_close(store);
    }
    printf("%d of %d changes were noticed\n", n_noticed, N_FLIPS);
    assert_true(n_noticed > N_FLIPS / 4);
}

static void who_takes_a_changed_store_over_is_told(void **state)
{
    (void)state;
    struct hrf_error err = { .status = HRF_OK };
    size_t n;
    HRF_AUTO_FREE char *bytes = make_store(&n);
    char *label = NULL;
    for (size_t i = 0; i + 5 < n && label == NULL; i++)
        label = memcmp(bytes + i, "Tumor", 5) == 0 ? bytes + i : NULL;
    assert_non_null(label);
    put_store(bytes, n);
    struct hrf_store *store = fixture_open(HRF_STORE_WRITE);
    assert_int_equal(hrf_store_take_lease(store, &err), HRF_OK);
    hrf_store_close(store); /* and dies: there is no seal from now on */
    label[0] = 'R';
    put_store(bytes, n);
    store = fixture_open(HRF_STORE_WRITE);
    assert_int_equal(hrf_store_take_lease(store, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "run.db' is damaged: its tables are not what the last 'run' "
                                     "or 'report' left; move it away to start afresh"));
    hrf_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_bit_that_changes_is_noticed_or_changes_nothing,
                                        fixture_make, fixture_remove),
        cmocka_unit_test_setup_teardown(who_takes_a_changed_store_over_is_told, fixture_make,
                                        fixture_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
