/* What is put into a run store comes back, one transaction at a time, beside readers. */
#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "schema/store/embeddings.h"
#include "tests/unit/schema/store/store_fixture.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char odd_name[] = "a \"b\" 'c'\n\xF0\x9F\x94\xAC\xFF;--";

static void facts_and_slides_come_back_whatever_their_names(void **state)
{
    (void)state;
    char label[] = "Tumor,Micro", why[] = "cannot\nopen", hash[] = "h";
    struct hrf_slide_row rows[2] = {
        { .id = 2, .name = odd_name, .path = odd_name, .truth = HRF_TRUTH_UNKNOWN },
        { .id = 1,
          .name = label,
          .path = label,
          .n_bytes = 1LL << 40,
          .mtime_ns = 1700000000123456789,
          .truth = HRF_TRUTH_POSITIVE,
          .label_text = label,
          .annotation = odd_name,
          .mpp_csv = 0.1 + 0.2,
          .state = HRF_SLIDE_FAILED,
          .reason = why,
          .tile_plan_hash = hash },
    };
    HRF_AUTO(hrf_store) store = fixture_open(HRF_STORE_WRITE);
    HRF_AUTO_FREE char *value = NULL, *none = NULL;
    HRF_AUTO_RELEASE(hrf_slide_rows) back = { .items = NULL };
    assert_int_equal(hrf_store_set_fact(store, "name", "old", NULL), HRF_OK);
    assert_int_equal(hrf_store_set_fact(store, "name", odd_name, NULL), HRF_OK);
    assert_int_equal(hrf_store_get_fact(store, "name", &value, NULL), HRF_OK);
    assert_int_equal(hrf_store_get_fact(store, "none", &none, NULL), HRF_OK);
    assert_string_equal(value, odd_name);
    assert_null(none);
    for (int i = 0; i < 2; i++)
        assert_int_equal(hrf_store_put_slide(store, &rows[i], NULL), HRF_OK);
    assert_int_equal(hrf_store_get_slides(store, &back, NULL), HRF_OK);
    assert_int_equal(back.n_items, 2);
    const struct hrf_slide_row *one = &back.items[0], *two = &back.items[1];
    assert_true(one->id == 1 && one->n_bytes == 1LL << 40 && one->mtime_ns == rows[1].mtime_ns &&
                one->truth == HRF_TRUTH_POSITIVE && one->mpp_csv == 0.1 + 0.2 &&
                one->state == HRF_SLIDE_FAILED);
    assert_string_equal(one->reason, why);
    assert_string_equal(one->annotation, odd_name);
    assert_string_equal(one->tile_plan_hash, hash);
    assert_string_equal(two->name, odd_name);
    assert_true(two->truth == HRF_TRUTH_UNKNOWN && two->label_text == NULL && two->reason == NULL &&
                two->annotation == NULL && two->tile_plan_hash == NULL);
}

static void a_slide_changes_its_state_and_tiling_and_leaves_a_smaller_cohort(void **state)
{
    (void)state;
    HRF_AUTO(hrf_store) store = fixture_open(HRF_STORE_WRITE);
    HRF_AUTO_RELEASE(hrf_slide_rows) back = { .items = NULL };
    for (int i = 1; i <= 3; i++) {
        struct hrf_slide_row row = { .id = i, .name = odd_name, .path = odd_name };
        assert_int_equal(hrf_store_put_slide(store, &row, NULL), HRF_OK);
    }
    assert_int_equal(hrf_store_set_slide_state(store, 2, HRF_SLIDE_NO_TISSUE, "white", NULL),
                     HRF_OK);
    assert_int_equal(hrf_store_set_slide_tiling(store, 2, "abc", NULL), HRF_OK);
    fixture_tile_plan(store, 3, 2, 'c');
    assert_int_equal(hrf_store_trim_slides(store, 2, NULL), HRF_OK);
    assert_int_equal(hrf_store_get_slides(store, &back, NULL), HRF_OK);
    assert_int_equal(back.n_items, 2);
    assert_int_equal(back.items[1].state, HRF_SLIDE_NO_TISSUE);
    assert_string_equal(back.items[1].reason, "white");
    assert_string_equal(back.items[1].tile_plan_hash, "abc");
    struct hrf_tile_plan *plan = NULL;
    assert_int_equal(hrf_store_get_tile_plan(store, 3, &plan, NULL), HRF_E_AGAIN);
}

static void scores_and_phases_come_back_in_order(void **state)
{
    (void)state;
    static const struct hrf_slide_score scores[] = { { 2, "fp32", 0.75, true, 9 },
                                                     { 1, "fp32", (double)NAN, false, 0 },
                                                     { 1, "bf16", 0.1, false, 4 } };
    static const char *const names[] = { "report", "infer", "ingest", "tile" };
    HRF_AUTO(hrf_store) store = fixture_open(HRF_STORE_WRITE);
    HRF_AUTO_FREE struct hrf_slide_score *back = NULL, *all = NULL;
    HRF_AUTO_FREE struct hrf_phase_row *phases = NULL;
    size_t n = 0;
    for (int i = 0; i < 3; i++)
        assert_int_equal(hrf_store_put_slide_score(store, &scores[i], NULL), HRF_OK);
    assert_int_equal(hrf_store_get_slide_scores(store, "fp32", &back, &n, NULL), HRF_OK);
    assert_int_equal(n, 2);
    assert_true(back[0].slide_id == 1 && isnan(back[0].score) && back[1].slide_id == 2 &&
                back[1].score == 0.75 && back[1].positive && back[1].n_patches == 9);
    assert_int_equal(hrf_store_clear_slide_scores(store, "fp32", NULL), HRF_OK);
    assert_int_equal(hrf_store_get_slide_scores(store, NULL, &all, &n, NULL), HRF_OK);
    assert_int_equal(n, 1);
    assert_string_equal(all[0].precision, "bf16");
    for (int i = 0; i < 4; i++) {
        struct hrf_phase_row row = { .seconds = i, .n_tasks = 3, .n_cached = 2, .cached = i == 1 };
        snprintf(row.name, sizeof row.name, "%s", names[i]);
        assert_int_equal(hrf_store_put_phase(store, &row, NULL), HRF_OK);
    }
    assert_int_equal(hrf_store_get_phases(store, &phases, &n, NULL), HRF_OK);
    assert_int_equal(n, 4);
    assert_string_equal(phases[0].name, "ingest");
    assert_string_equal(phases[2].name, "infer");
    assert_string_equal(phases[3].name, "report");
    assert_true(phases[2].seconds == 1 && phases[2].cached && phases[2].n_cached == 2 &&
                !phases[3].cached);
}

static void put_shard(struct hrf_store *store, const struct hrf_task_row *task, int64_t id)
{
    char text[] = "x";
    float p[8];
    for (int i = 0; i < 8; i++)
        p[i] = (float)task->first_patch + (float)i;
    char precision[8];
    snprintf(precision, sizeof precision, "%s", task->precision);
    struct hrf_scores scores = { .precision = precision,
                                 .device = text,
                                 .host = text,
                                 .first_patch = task->first_patch,
                                 .n_patches = task->n_patches,
                                 .n_classes = 2,
                                 .probabilities = p,
                                 .timing = { .compute = 1.5, .total = 2 },
                                 .peak_memory_bytes = task->first_patch };
    snprintf(scores.identity.task, sizeof scores.identity.task, "%s", task->key);
    struct hrf_bytes bytes = { NULL, 0 };
    bool is_new = false;
    assert_int_equal(hrf_scores_encode(&scores, &bytes, NULL), HRF_OK);
    assert_int_equal(
        hrf_store_finish_task(store, id, task->key, bytes.data, bytes.n_bytes, &is_new, NULL),
        HRF_OK);
    assert_true(is_new);
    hrf_bytes_release(&bytes);
}

static void shards_are_joined_and_a_missing_one_is_told(void **state)
{
    (void)state;
    struct hrf_task_row tasks[3] = { fixture_task(HRF_TASK_INFER, 1, "fp32", 4, 3, 'b'),
                                     fixture_task(HRF_TASK_INFER, 1, "fp32", 0, 4, 'a'),
                                     fixture_task(HRF_TASK_INFER, 1, "bf16", 0, 7, 'c') };
    HRF_AUTO(hrf_store) store = fixture_open(HRF_STORE_WRITE);
    HRF_AUTO(hrf_scores) scores = NULL;
    HRF_AUTO(hrf_tile_plan) plan = NULL;
    HRF_AUTO_RELEASE(hrf_task_rows) rows = { NULL, 0 };
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_store_get_scores(store, 1, "fp32", &scores, &err), HRF_E_AGAIN);
    assert_string_equal(err.text, "slide 1: it has no scores in fp32");
    fixture_tile_plan(store, 1, 7, 't');
    assert_int_equal(hrf_store_plan_tasks(store, 1, HRF_TASK_INFER, tasks, 3, NULL), HRF_OK);
    assert_int_equal(hrf_store_get_tasks(store, &rows, NULL), HRF_OK);
    assert_int_equal(rows.n_items, 4); /* tile, bf16, fp32 0.., fp32 4.. */
    put_shard(store, &tasks[0], rows.items[3].id);
    assert_int_equal(hrf_store_get_scores(store, 1, "fp32", &scores, &err), HRF_E_AGAIN);
    assert_string_equal(err.text, "slide 1: not all of it is scored yet in fp32");
    put_shard(store, &tasks[1], rows.items[2].id);
    assert_int_equal(hrf_store_get_scores(store, 1, "fp32", &scores, &err), HRF_OK);
    assert_true(scores->first_patch == 0 && scores->n_patches == 7 && scores->n_classes == 2);
    assert_true(scores->timing.compute == 3 && scores->timing.total == 4 &&
                scores->peak_memory_bytes == 4);
    for (int i = 0; i < 14; i++)
        assert_true(scores->probabilities[i] == (float)(i < 8 ? i : 4 + i - 8));
    assert_int_equal(hrf_store_get_tile_plan(store, 1, &plan, NULL), HRF_OK);
    assert_int_equal(plan->n_patches, 7);
}

/* The record of a task whose embeddings are a file, and the file. */
static void put_embeddings(struct hrf_store *store, const struct hrf_task_row *task, int64_t id)
{
    char text[] = "x", precision[] = "fp32";
    float rows[8];
    HRF_AUTO_FREE char *path = NULL;
    for (int i = 0; i < 8; i++)
        rows[i] = 10 * (float)task->first_patch + (float)i;
    const size_t n_bytes = (size_t)task->n_patches * 2 * sizeof *rows;
    struct hrf_scores scores = { .precision = precision,
                                 .device = text,
                                 .host = text,
                                 .first_patch = task->first_patch,
                                 .n_patches = task->n_patches,
                                 .n_classes = 2,
                                 .embeddings = { .is_set = true } };
    snprintf(scores.identity.task, sizeof scores.identity.task, "%s", task->key);
    assert_int_equal(hrf_hash_buffer(rows, n_bytes, scores.embeddings.sha256, NULL), HRF_OK);
    assert_int_equal(hrf_store_embeddings_path(store, task->key, &path, NULL), HRF_OK);
    assert_int_equal(hrf_path_make_directories(fixture_file("embeddings"), NULL), HRF_OK);
    assert_int_equal(hrf_file_write_atomic(path, rows, n_bytes, NULL), HRF_OK);
    struct hrf_bytes bytes = { NULL, 0 };
    bool is_new = false;
    assert_int_equal(hrf_scores_encode(&scores, &bytes, NULL), HRF_OK);
    assert_int_equal(
        hrf_store_finish_task(store, id, task->key, bytes.data, bytes.n_bytes, &is_new, NULL),
        HRF_OK);
    hrf_bytes_release(&bytes);
}

/* All rows of the slide, or the error. */
static enum hrf_status read_embeddings(struct hrf_store *store, float out[14],
                                       struct hrf_error *err)
{
    HRF_AUTO(hrf_embeddings) e = NULL;
    const float *rows = NULL;
    HRF_TRY(hrf_store_open_embeddings(store, 1, "fp32", &e, err));
    assert_true(e->n == 7 && e->width == 2 && e->n_shards == 2);
    for (int64_t n = 1, at = 0; n > 0; at += n) {
        HRF_TRY(hrf_embeddings_next(e, &rows, &n, err));
        assert_true(at + n <= 7);
        memcpy(out + 2 * at, rows, (size_t)n * 2 * sizeof *rows);
    }
    return HRF_OK;
}

static void embeddings_come_from_the_files_that_records_name(void **state)
{
    (void)state;
    const struct hrf_task_row tasks[2] = { fixture_task(HRF_TASK_INFER, 1, "fp32", 0, 4, 'a'),
                                           fixture_task(HRF_TASK_INFER, 1, "fp32", 4, 3, 'b') };
    HRF_AUTO(hrf_store) store = fixture_open(HRF_STORE_WRITE);
    HRF_AUTO(hrf_scores) scores = NULL;
    HRF_AUTO(hrf_scores) facts = NULL;
    HRF_AUTO_RELEASE(hrf_task_rows) rows = { NULL, 0 };
    HRF_AUTO_FREE char *path = NULL;
    struct hrf_error err = { .status = HRF_OK };
    float got[14];
    fixture_tile_plan(store, 1, 7, 't');
    assert_int_equal(hrf_store_plan_tasks(store, 1, HRF_TASK_INFER, tasks, 2, NULL), HRF_OK);
    assert_int_equal(hrf_store_get_tasks(store, &rows, NULL), HRF_OK);
    put_embeddings(store, &tasks[0], rows.items[1].id);
    assert_int_equal(read_embeddings(store, got, &err), HRF_E_AGAIN);
    put_embeddings(store, &tasks[1], rows.items[2].id);
    assert_int_equal(read_embeddings(store, got, &err), HRF_OK);
    for (int i = 0; i < 14; i++)
        assert_true(got[i] == (float)(i < 8 ? i : 40 + i - 8));
    assert_int_equal(hrf_store_get_score_facts(store, 1, "fp32", &facts, NULL), HRF_OK);
    assert_true(facts->n_patches == 7 && facts->n_classes == 2 && facts->probabilities == NULL);
    assert_int_equal(hrf_store_get_scores(store, 1, "fp32", &scores, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "its patches have embeddings in fp32, not scores"));

    /* Harmed, cut, gone: told by name; planned again, the task is done again. */
    static const char harm[32] = "other bytes, as many of them...";
    assert_int_equal(hrf_store_embeddings_path(store, tasks[0].key, &path, NULL), HRF_OK);
    assert_int_equal(hrf_file_write_atomic(path, harm, sizeof harm, NULL), HRF_OK);
    assert_int_equal(read_embeddings(store, got, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "has other bytes than its record names; 'hires-flow run'"));
    assert_false(hrf_path_exists(path));
    assert_int_equal(hrf_file_write_atomic(path, harm, 31, NULL), HRF_OK);
    assert_int_equal(read_embeddings(store, got, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "has 31 bytes, its record says 32; 'hires-flow run'"));
    assert_int_equal(read_embeddings(store, got, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "is missing; 'hires-flow run' computes it again"));
    assert_int_equal(hrf_store_plan_tasks(store, 1, HRF_TASK_INFER, tasks, 2, NULL), HRF_OK);
    HRF_AUTO_FREE char *dropped = hrf_store_take_dropped(store);
    assert_non_null(dropped);
    assert_non_null(strstr(dropped, "is missing"));
    assert_int_equal(read_embeddings(store, got, &err), HRF_E_AGAIN);
}

static void a_key_that_is_no_name_is_refused(void **state)
{
    (void)state;
    HRF_AUTO(hrf_store) store = fixture_open(HRF_STORE_WRITE);
    char *path = NULL;
    assert_int_equal(hrf_store_embeddings_path(store, "../x", &path, NULL), HRF_E_USER);
    assert_int_equal(hrf_store_embeddings_path(store, "", &path, NULL), HRF_E_USER);
}

static void a_rolled_back_transaction_leaves_nothing(void **state)
{
    (void)state;
    HRF_AUTO(hrf_store) store = fixture_open(HRF_STORE_WRITE);
    HRF_AUTO_FREE char *value = NULL;
    assert_int_equal(hrf_store_begin(store, NULL), HRF_OK);
    assert_int_equal(hrf_store_set_fact(store, "a", "1", NULL), HRF_OK);
    hrf_store_rollback(store);
    assert_int_equal(hrf_store_get_fact(store, "a", &value, NULL), HRF_OK);
    assert_null(value);
}

/* The reader sees one state from begin to commit, whatever is written meanwhile, and the writer
 * does not wait for it. */
static void a_reader_sees_one_moment_and_stops_nobody(void **state)
{
    (void)state;
    HRF_AUTO(hrf_store) writer = fixture_open(HRF_STORE_WRITE);
    assert_int_equal(hrf_store_set_fact(writer, "a", "1", NULL), HRF_OK);
    HRF_AUTO(hrf_store) reader = fixture_open(HRF_STORE_READ);
    HRF_AUTO_FREE char *before = NULL, *during = NULL, *after = NULL;
    assert_int_equal(hrf_store_begin(reader, NULL), HRF_OK);
    assert_int_equal(hrf_store_get_fact(reader, "a", &before, NULL), HRF_OK);
    assert_int_equal(hrf_store_begin(writer, NULL), HRF_OK);
    assert_int_equal(hrf_store_set_fact(writer, "a", "2", NULL), HRF_OK);
    assert_int_equal(hrf_store_get_fact(reader, "a", &during, NULL), HRF_OK);
    assert_int_equal(hrf_store_commit(writer, NULL), HRF_OK);
    assert_string_equal(before, "1");
    assert_string_equal(during, "1");
    hrf_free(during);
    assert_int_equal(hrf_store_get_fact(reader, "a", &during, NULL), HRF_OK);
    assert_string_equal(during, "1");
    assert_int_equal(hrf_store_commit(reader, NULL), HRF_OK);
    assert_int_equal(hrf_store_get_fact(reader, "a", &after, NULL), HRF_OK);
    assert_string_equal(after, "2");
    assert_int_equal(hrf_store_set_fact(reader, "a", "3", NULL), HRF_E_EXTERNAL);
}

static void write_forever(void)
{
    struct hrf_store *store = fixture_open(HRF_STORE_WRITE);
    for (int i = 0; i < 300; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        if (hrf_store_begin(store, NULL) != HRF_OK ||
            hrf_store_set_fact(store, "left", text, NULL) != HRF_OK ||
            hrf_store_set_fact(store, "right", text, NULL) != HRF_OK ||
            hrf_store_commit(store, NULL) != HRF_OK)
            _exit(1);
    }
    hrf_store_close(store);
    FILE *mark = fopen(fixture_file("done"), "w");
    if (mark != NULL)
        fclose(mark);
}

static void a_writing_process_is_read_from_without_a_torn_tick(void **state)
{
    (void)state;
    hrf_store_close(fixture_open(HRF_STORE_WRITE));
    pid_t pid = fork();
    if (pid == 0) {
        write_forever();
        _exit(0);
    }
    int n_seen = 0;
    while (!hrf_path_exists(fixture_file("done"))) {
        HRF_AUTO(hrf_store) reader = fixture_open(HRF_STORE_READ);
        HRF_AUTO_FREE char *left = NULL, *right = NULL;
        assert_int_equal(hrf_store_begin(reader, NULL), HRF_OK);
        assert_int_equal(hrf_store_get_fact(reader, "left", &left, NULL), HRF_OK);
        assert_int_equal(hrf_store_get_fact(reader, "right", &right, NULL), HRF_OK);
        assert_true((left == NULL) == (right == NULL));
        if (left != NULL)
            assert_string_equal(left, right);
        n_seen += left != NULL;
    }
    fixture_kill(pid);
    assert_true(n_seen > 0);
}

static void running_out_of_memory_while_reading_is_told(void **state)
{
    (void)state;
    HRF_AUTO(hrf_store) store = fixture_open(HRF_STORE_WRITE);
    struct hrf_slide_row row = { .id = 1, .name = odd_name, .path = odd_name, .reason = odd_name };
    assert_int_equal(hrf_store_put_slide(store, &row, NULL), HRF_OK);
    fixture_tile_plan(store, 1, 3, 'a');
    enum hrf_status status = HRF_E_NOMEM;
    for (int64_t n = 1; status != HRF_OK; n++) {
        struct hrf_slide_rows rows = { .items = NULL };
        struct hrf_task_rows tasks = { NULL, 0 };
        struct hrf_tile_plan *plan = NULL;
        hrf_alloc_fail_after(n);
        status = hrf_store_get_slides(store, &rows, NULL);
        if (status == HRF_OK)
            status = hrf_store_get_tasks(store, &tasks, NULL);
        if (status == HRF_OK)
            status = hrf_store_get_tile_plan(store, 1, &plan, NULL);
        assert_true(status == HRF_OK || status == HRF_E_NOMEM);
        hrf_slide_rows_release(&rows);
        hrf_task_rows_release(&tasks);
        hrf_tile_plan_destroy(plan);
    }
    hrf_alloc_fail_after(0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_make, fixture_remove)
    const struct CMUnitTest tests[] = {
        TEST(facts_and_slides_come_back_whatever_their_names),
        TEST(a_slide_changes_its_state_and_tiling_and_leaves_a_smaller_cohort),
        TEST(scores_and_phases_come_back_in_order),
        TEST(shards_are_joined_and_a_missing_one_is_told),
        TEST(embeddings_come_from_the_files_that_records_name),
        TEST(a_key_that_is_no_name_is_refused),
        TEST(a_rolled_back_transaction_leaves_nothing),
        TEST(a_reader_sees_one_moment_and_stops_nobody),
        TEST(a_writing_process_is_read_from_without_a_torn_tick),
        TEST(running_out_of_memory_while_reading_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
