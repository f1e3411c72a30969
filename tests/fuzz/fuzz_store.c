/* fuzz_store.c - whatever values stand in a run store, they are read as what they should be or
 * refused.
 *
 * An input is lines of "TABLE COLUMN TYPE VALUE": every row of the table gets that value, where
 * TYPE is i (an integer), r (a real), t (a text: the rest of the line), b (its bytes as a blob) or
 * n (NULL). Then all is read that commands read, in one transaction that is rolled back.
 */
#include "base/directory.h"
#include "base/path.h"
#include "schema/store/embeddings.h"
#include "schema/store/store_private.h"
#include "schema/store/tasks.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) != HRF_OK)                                                                      \
            __builtin_trap();                                                                      \
    } while (0)

static struct hrf_store *store;
static char directory[] = "/tmp/hrf-fuzz-store-XXXXXX";

static void put_result(const struct hrf_slide_row *slide, struct hrf_task_row *task)
{
    struct hrf_task_rows rows = { NULL, 0 };
    struct hrf_bytes record = { NULL, 0 };
    bool is_new;
    memset(task->key, 'a' + (int)task->kind, sizeof task->key - 1);
    MUST(hrf_store_plan_tasks(store, slide->id, task->kind, task, 1, NULL));
    const struct hrf_record_identity identity = hrf_slide_expect(slide, task->kind, task->key);
    if (task->kind == HRF_TASK_INFER) {
        float probabilities[2] = { 0.25f, 0.75f };
        char precision[] = "fp32", device[] = "cpu", host[] = "node";
        const struct hrf_scores scores = { .identity = identity,
                                           .precision = precision,
                                           .device = device,
                                           .host = host,
                                           .n_patches = 1,
                                           .n_classes = 2,
                                           .probabilities = probabilities };
        MUST(hrf_scores_encode(&scores, &record, NULL));
    } else {
        MUST(hrf_text_record_encode(HRF_TILE_PLAN_KIND, &identity, "no plan", &record, NULL));
    }
    MUST(hrf_store_get_tasks(store, &rows, NULL));
    MUST(hrf_store_finish_task(store, rows.items[rows.n_items - 1].id, task->key, record.data,
                               record.n_bytes, &is_new, NULL));
    hrf_task_rows_release(&rows);
    hrf_bytes_release(&record);
}

static void remove_store(void)
{
    hrf_store_close(store);
    if (hrf_path_remove_tree(directory, NULL) != HRF_OK)
        fprintf(stderr, "'%s' is left behind\n", directory);
}

/* One row, at least, in every table. */
static void make_store(void)
{
    char name[] = "slide", path[] = "/data/slide.tif", hash[] = "0123abcd";
    char job[] = "infer-0001", folder[] = "jobs/infer-0001.a1", reason[] = "killed";
    int64_t ids[] = { 1, 2 };
    struct hrf_slide_row slide = {
        .id = 1, .name = name, .path = path, .n_bytes = 9, .tile_plan_hash = hash, .reason = reason
    };
    struct hrf_task_row tile = { .kind = HRF_TASK_TILE, .slide_id = 1 };
    struct hrf_task_row infer = {
        .kind = HRF_TASK_INFER, .slide_id = 1, .precision = "fp32", .n_patches = 1
    };
    struct hrf_attempt_row attempt = { .job_id = job,
                                       .attempt = 1,
                                       .directory = folder,
                                       .kind = HRF_TASK_INFER,
                                       .task_ids = ids,
                                       .n_task_ids = 2,
                                       .reason = reason };
    const struct hrf_slide_score score = { .slide_id = 1, .precision = "fp32", .score = 0.5 };
    const struct hrf_phase_row phase = { .name = "infer", .seconds = 1 };
    if (mkdtemp(directory) == NULL)
        __builtin_trap();
    HRF_AUTO_FREE char *file = hrf_path_join(directory, "run.db");
    MUST(hrf_store_open(file, HRF_STORE_WRITE, &store, NULL));
    atexit(remove_store);
    MUST(hrf_store_take_lease(store, NULL));
    store->has_lease = false; /* hostile values of the lease are read, not obeyed */
    MUST(hrf_store_set_fact(store, "run_id", "0123456789abcdef0123456789abcdef", NULL));
    MUST(hrf_store_put_slide(store, &slide, NULL));
    put_result(&slide, &tile);
    put_result(&slide, &infer);
    MUST(hrf_store_put_attempt(store, &attempt, NULL));
    MUST(hrf_store_add_event(store, "slide", "something happened", NULL));
    MUST(hrf_store_put_slide_score(store, &score, NULL));
    MUST(hrf_store_put_phase(store, &phase, NULL));
}

/* ---- values ---- */

static bool is_name(const char *text)
{
    return *text != '\0' && strspn(text, "abcdefghijklmnopqrstuvwxyz_") == strlen(text);
}

static void set_value(const char *table, const char *column, char type, const char *value, size_t n)
{
    char sql[128], number[32];
    sqlite3_stmt *s = NULL;
    snprintf(sql, sizeof sql, "UPDATE OR IGNORE %s SET %s=?", table, column);
    snprintf(number, sizeof number, "%.*s", n < 31 ? (int)n : 31, value);
    if (sqlite3_prepare_v2(store->db, sql, -1, &s, NULL) != SQLITE_OK)
        return;
    if (type == 'i')
        sqlite3_bind_int64(s, 1, strtoll(number, NULL, 10));
    else if (type == 'r')
        sqlite3_bind_double(s, 1, strtod(number, NULL));
    else if (type == 't')
        sqlite3_bind_text(s, 1, value, (int)n, SQLITE_TRANSIENT);
    else if (type == 'b')
        sqlite3_bind_blob(s, 1, value, (int)n, SQLITE_TRANSIENT);
    sqlite3_step(s); /* what breaks a constraint is not set */
    sqlite3_finalize(s);
}

static void set_line(const char *line, size_t n)
{
    char words[3][24];
    size_t at = 0;
    for (int i = 0; i < 3; i++) {
        const char *end = memchr(line + at, ' ', n - at);
        const size_t length = end != NULL ? (size_t)(end - (line + at)) : n - at;
        if (length >= sizeof words[i] || memchr(line + at, '\0', length) != NULL)
            return;
        memcpy(words[i], line + at, length);
        words[i][length] = '\0';
        at += length < n - at ? length + 1 : length;
    }
    if (is_name(words[0]) && is_name(words[1]))
        set_value(words[0], words[1], words[2][0], line + at, n - at);
}

/* ---- readers ---- */

static void need(bool good)
{
    if (!good)
        __builtin_trap(); /* a finding: a value got through */
}

static void read_lists(void)
{
    struct hrf_slide_rows slides = { .items = NULL };
    struct hrf_task_rows tasks = { NULL, 0 };
    struct hrf_attempt_rows attempts = { NULL, 0 };
    struct hrf_event_rows events = { NULL, 0 };
    if (hrf_store_get_slides(store, &slides, NULL) == HRF_OK)
        for (size_t i = 0; i < slides.n_items + slides.n_sample; i++)
            need(slides.items[i].id > 0 && strlen(slides.items[i].name) < 1 << 30 &&
                 hrf_slide_state_text(slides.items[i].state)[0] != '\0');
    if (hrf_store_get_tasks(store, &tasks, NULL) == HRF_OK)
        for (size_t i = 0; i < tasks.n_items; i++)
            need(hrf_task_kind_name(tasks.items[i].kind)[0] != '\0' &&
                 hrf_task_state_name(tasks.items[i].state)[0] != '\0' &&
                 tasks.items[i].first_patch + tasks.items[i].n_patches >= 0);
    for (int open = 0; open < 2; open++) {
        if (hrf_store_get_attempts(store, open == 1, &attempts, NULL) == HRF_OK)
            for (size_t i = 0; i < attempts.n_items; i++)
                need(!hrf_attempt_has_task(&attempts.items[i], 0) &&
                     strstr(attempts.items[i].directory, "..") == NULL);
        hrf_attempt_rows_release(&attempts);
    }
    if (hrf_store_get_events(store, NULL, &events, NULL) == HRF_OK)
        for (size_t i = 0; i < events.n_items; i++)
            need(events.items[i].at_ms >= 0 && events.items[i].subject != NULL);
    hrf_slide_rows_release(&slides);
    hrf_task_rows_release(&tasks);
    hrf_event_rows_release(&events);
}

static void read_embeddings(void)
{
    HRF_AUTO(hrf_embeddings) e = NULL;
    const float *rows = NULL;
    int64_t n = 1;
    if (hrf_store_open_embeddings(store, 1, "fp32", &e, NULL) != HRF_OK)
        return;
    need(e->n == 1 && e->width == 2);
    while (n > 0 && hrf_embeddings_next(e, &rows, &n, NULL) == HRF_OK)
        need(n <= 1);
}

static void read_rest(void)
{
    struct hrf_tile_plan *plan = NULL;
    struct hrf_scores *scores = NULL;
    HRF_AUTO_FREE struct hrf_slide_score *slide_scores = NULL;
    HRF_AUTO_FREE struct hrf_phase_row *phases = NULL;
    HRF_AUTO_FREE char *run_id = NULL, *dropped = NULL;
    struct hrf_task_row task = { .kind = HRF_TASK_INFER, .slide_id = 1, .precision = "fp32" };
    size_t n = 0;
    int64_t number;
    need(hrf_store_get_tile_plan(store, 1, &plan, NULL) != HRF_OK); /* it is none */
    if (hrf_store_get_scores(store, 1, "fp32", &scores, NULL) == HRF_OK)
        need(scores->n_patches == 1 && scores->n_classes == 2);
    hrf_scores_destroy(scores);
    read_embeddings();
    if (hrf_store_get_slide_scores(store, NULL, &slide_scores, &n, NULL) == HRF_OK)
        need(n == 0 || slide_scores[0].slide_id > 0);
    if (hrf_store_get_phases(store, &phases, &n, NULL) == HRF_OK)
        need(n == 0 || phases[0].n_tasks >= 0);
    if (hrf_store_get_fact(store, "run_id", &run_id, NULL) == HRF_OK)
        need(run_id == NULL || strlen(run_id) < 1 << 30);
    if (hrf_store_lease_owner(store, &number, NULL) == HRF_OK)
        need(number >= 0);
    if (hrf_store_last_job(store, &number, NULL) == HRF_OK)
        need(number >= 0 && number <= INT32_MAX);
    memset(task.key, 'b', sizeof task.key - 1);
    if (hrf_store_plan_tasks(store, 1, HRF_TASK_INFER, &task, 1, NULL) == HRF_OK)
        dropped = hrf_store_take_dropped(store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (store == NULL)
        make_store();
    MUST(hrf_store_begin(store, NULL));
    for (size_t at = 0; at < size;) {
        const char *line = (const char *)data + at;
        const char *end = memchr(line, '\n', size - at);
        const size_t n = end != NULL ? (size_t)(end - line) : size - at;
        set_line(line, n);
        at += n + 1;
    }
    read_lists();
    read_rest();
    hrf_store_rollback(store);
    return 0;
}
