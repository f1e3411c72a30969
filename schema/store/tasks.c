#include "schema/store/tasks.h"

#include "base/clock.h"
#include "base/strbuf.h"
#include "schema/store/store_private.h"

#include <string.h>

const char *hrf_task_kind_name(enum hrf_task_kind kind)
{
    static const char *const names[] = { "tile", "infer", "calibrate" };
    return names[kind];
}

const char *hrf_task_state_name(enum hrf_task_state state)
{
    static const char *const names[] = { "pending", "running", "done", "failed" };
    return names[state];
}

void hrf_task_rows_release(struct hrf_task_rows *rows)
{
    for (size_t i = 0; i < rows->n_items; i++)
        hrf_free(rows->items[i].reason);
    hrf_free(rows->items);
    *rows = (struct hrf_task_rows){ NULL, 0 };
}

void hrf_attempt_rows_release(struct hrf_attempt_rows *rows)
{
    for (size_t i = 0; i < rows->n_items; i++) {
        hrf_free(rows->items[i].job_id);
        hrf_free(rows->items[i].directory);
        hrf_free(rows->items[i].task_ids);
        hrf_free(rows->items[i].reason);
    }
    hrf_free(rows->items);
    *rows = (struct hrf_attempt_rows){ NULL, 0 };
}

void hrf_event_rows_release(struct hrf_event_rows *rows)
{
    for (size_t i = 0; i < rows->n_items; i++) {
        hrf_free(rows->items[i].subject);
        hrf_free(rows->items[i].text);
    }
    hrf_free(rows->items);
    *rows = (struct hrf_event_rows){ NULL, 0 };
}

/* One statement does the three cases: same place and same key keeps its state unless a result
 * is known; another key starts anew. */
static const char plan_sql[] =
    "INSERT INTO task(kind, key, slide_id, precision, first_patch, n_patches, state, cached) "
    "VALUES(?1, ?2, ?3, ?4, ?5, ?6, "
    " CASE WHEN EXISTS(SELECT 1 FROM record WHERE key=?2) THEN 2 ELSE 0 END, "
    " EXISTS(SELECT 1 FROM record WHERE key=?2)) "
    "ON CONFLICT(kind, slide_id, precision, first_patch) DO UPDATE SET "
    " state=CASE WHEN excluded.state=2 THEN 2 WHEN key=excluded.key THEN state ELSE 0 END, "
    " n_attempts=CASE WHEN key=excluded.key THEN n_attempts ELSE 0 END, "
    " reason=CASE WHEN key=excluded.key AND excluded.state<>2 THEN reason ELSE NULL END, "
    " cached=CASE WHEN ?7 AND key=excluded.key THEN cached ELSE excluded.cached END, "
    "n_patches=excluded.n_patches, key=excluded.key";

static enum hrf_status plan_one(struct hrf_store *store, const struct hrf_task_row *row,
                                struct hrf_error *err)
{
    sqlite3_stmt *s;
    HRF_TRY(hrf_store_prepare(store, plan_sql, &s, err));
    sqlite3_bind_int(s, 1, row->kind);
    hrf_bind_text(s, 2, row->key);
    sqlite3_bind_int64(s, 3, row->slide_id);
    hrf_bind_text(s, 4, row->precision);
    sqlite3_bind_int64(s, 5, row->first_patch);
    sqlite3_bind_int64(s, 6, row->n_patches);
    sqlite3_bind_int(s, 7, row->cached);
    return hrf_store_finish(store, s, err);
}

/* Tasks of (slide, kind) whose key is not among the given ones. */
static enum hrf_status drop_others(struct hrf_store *store, int64_t slide_id,
                                   enum hrf_task_kind kind, const struct hrf_task_row *rows,
                                   size_t n_rows, struct hrf_error *err)
{
    struct hrf_strbuf sql = HRF_STRBUF_INIT;
    hrf_strbuf_addf(&sql, "DELETE FROM task WHERE slide_id=%lld AND kind=%d AND key NOT IN (",
                    (long long)slide_id, (int)kind);
    for (size_t i = 0; i < n_rows; i++)
        hrf_strbuf_addf(&sql, "%s'%s'", i > 0 ? "," : "", rows[i].key); /* hex: no quoting */
    hrf_strbuf_adds(&sql, ")");
    enum hrf_status status = hrf_strbuf_status(&sql, err);
    if (status == HRF_OK)
        status = hrf_store_exec(store, sql.text, err);
    hrf_strbuf_release(&sql);
    return status;
}

enum hrf_status hrf_store_plan_tasks(struct hrf_store *store, int64_t slide_id,
                                     enum hrf_task_kind kind, const struct hrf_task_row *rows,
                                     size_t n_rows, struct hrf_error *err)
{
    HRF_TRY(drop_others(store, slide_id, kind, rows, n_rows, err));
    for (size_t i = 0; i < n_rows; i++)
        HRF_TRY(plan_one(store, &rows[i], err));
    return HRF_OK;
}

static enum hrf_status read_task(sqlite3_stmt *s, void *item, struct hrf_error *err)
{
    bool failed = false;
    struct hrf_task_row *row = item;
    *row = (struct hrf_task_row){ .id = sqlite3_column_int64(s, 0),
                                  .kind = (enum hrf_task_kind)sqlite3_column_int(s, 1),
                                  .slide_id = sqlite3_column_int64(s, 3),
                                  .first_patch = sqlite3_column_int64(s, 5),
                                  .n_patches = sqlite3_column_int64(s, 6),
                                  .state = (enum hrf_task_state)sqlite3_column_int(s, 7),
                                  .n_attempts = sqlite3_column_int64(s, 8),
                                  .cached = sqlite3_column_int(s, 9) != 0,
                                  .reason = hrf_column_text(s, 10, &failed),
                                  .time_level = sqlite3_column_int64(s, 11),
                                  .memory_level = sqlite3_column_int64(s, 12) };
    hrf_column_copy(s, 2, row->key, sizeof row->key);
    hrf_column_copy(s, 4, row->precision, sizeof row->precision);
    return failed ? hrf_error_set(err, HRF_E_NOMEM, "no memory for the tasks") : HRF_OK;
}

enum hrf_status hrf_store_get_tasks(struct hrf_store *store, struct hrf_task_rows *out,
                                    struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    struct hrf_task_rows rows = { NULL, 0 };
    HRF_TRY(hrf_store_prepare(
        store,
        "SELECT id, kind, key, slide_id, precision, first_patch, n_patches,"
        " state, n_attempts, cached, reason, time_level, memory_level FROM task ORDER BY kind, "
        "slide_id, precision, first_patch",
        &s, err));
    const enum hrf_status status = hrf_store_read_rows(store, s, sizeof rows.items[0], read_task,
                                                       (void **)&rows.items, &rows.n_items, err);
    if (status != HRF_OK)
        hrf_task_rows_release(&rows);
    else
        *out = rows;
    return status;
}

enum hrf_status hrf_store_set_task(struct hrf_store *store, int64_t task_id,
                                   enum hrf_task_state state, int64_t n_attempts,
                                   const char *reason, struct hrf_error *err)
{
    sqlite3_stmt *s;
    HRF_TRY(hrf_store_prepare(
        store, "UPDATE task SET state=?, n_attempts=?, reason=?, cached=0 WHERE id=?", &s, err));
    sqlite3_bind_int(s, 1, state);
    sqlite3_bind_int64(s, 2, n_attempts);
    hrf_bind_text(s, 3, reason);
    sqlite3_bind_int64(s, 4, task_id);
    return hrf_store_finish(store, s, err);
}

enum hrf_status hrf_store_set_task_levels(struct hrf_store *store, int64_t task_id,
                                          int64_t time_level, int64_t memory_level,
                                          struct hrf_error *err)
{
    sqlite3_stmt *s;
    HRF_TRY(hrf_store_prepare(store, "UPDATE task SET time_level=?, memory_level=? WHERE id=?", &s,
                              err));
    sqlite3_bind_int64(s, 1, time_level);
    sqlite3_bind_int64(s, 2, memory_level);
    sqlite3_bind_int64(s, 3, task_id);
    return hrf_store_finish(store, s, err);
}

enum hrf_status hrf_store_finish_task(struct hrf_store *store, int64_t task_id, const char *key,
                                      const void *record, size_t n_bytes, bool *is_new,
                                      struct hrf_error *err)
{
    sqlite3_stmt *s;
    HRF_TRY(hrf_store_prepare(store, "INSERT OR IGNORE INTO record VALUES(?,?)", &s, err));
    hrf_bind_text(s, 1, key);
    sqlite3_bind_blob64(s, 2, record, n_bytes, SQLITE_STATIC);
    HRF_TRY(hrf_store_finish(store, s, err));
    *is_new = sqlite3_changes(store->db) > 0;
    HRF_TRY(hrf_store_prepare(store, "UPDATE task SET state=2, reason=NULL WHERE id=?", &s, err));
    sqlite3_bind_int64(s, 1, task_id);
    return hrf_store_finish(store, s, err);
}

enum hrf_status hrf_store_get_record(struct hrf_store *store, const char *key,
                                     struct hrf_bytes *out, struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    bool has_row;
    HRF_TRY(hrf_store_prepare(store, "SELECT bytes FROM record WHERE key=?", &s, err));
    hrf_bind_text(s, 1, key);
    HRF_TRY(hrf_store_step(store, s, &has_row, err));
    if (!has_row)
        return hrf_error_set(err, HRF_E_USER, "the store has no result for the key %.12s...", key);
    size_t n = (size_t)sqlite3_column_bytes(s, 0);
    out->data = hrf_alloc(n);
    if (out->data == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a record of %zu bytes", n);
    if (n > 0)
        memcpy(out->data, sqlite3_column_blob(s, 0), n);
    out->n_bytes = n;
    return HRF_OK;
}

enum hrf_status hrf_store_put_attempt(struct hrf_store *store, struct hrf_attempt_row *row,
                                      struct hrf_error *err)
{
    sqlite3_stmt *s;
    HRF_TRY(hrf_store_prepare(
        store, "INSERT OR REPLACE INTO attempt VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)", &s, err));
    if (row->id > 0)
        sqlite3_bind_int64(s, 1, row->id);
    hrf_bind_text(s, 2, row->job_id);
    sqlite3_bind_int64(s, 3, row->attempt);
    hrf_bind_text(s, 4, row->directory);
    sqlite3_bind_int(s, 5, row->kind);
    sqlite3_bind_int(s, 6, row->state);
    sqlite3_bind_int64(s, 7, row->pid);
    sqlite3_bind_int64(s, 8, (int64_t)row->start_time);
    sqlite3_bind_int64(s, 9, row->submitted_ms);
    sqlite3_bind_int64(s, 10, row->ended_ms);
    hrf_bind_text(s, 11, row->task_ids);
    hrf_bind_text(s, 12, row->reason);
    sqlite3_bind_int64(s, 13, row->submission);
    sqlite3_bind_int64(s, 14, row->place);
    HRF_TRY(hrf_store_finish(store, s, err));
    if (row->id == 0)
        row->id = sqlite3_last_insert_rowid(store->db);
    return HRF_OK;
}

static enum hrf_status read_attempt(sqlite3_stmt *s, void *item, struct hrf_error *err)
{
    bool failed = false;
    struct hrf_attempt_row *row = item;
    *row = (struct hrf_attempt_row){
        .id = sqlite3_column_int64(s, 0),
        .job_id = hrf_column_text(s, 1, &failed),
        .attempt = sqlite3_column_int64(s, 2),
        .directory = hrf_column_text(s, 3, &failed),
        .kind = (enum hrf_task_kind)sqlite3_column_int(s, 4),
        .state = (enum hrf_attempt_state)sqlite3_column_int(s, 5),
        .pid = sqlite3_column_int64(s, 6),
        .start_time = (uint64_t)sqlite3_column_int64(s, 7),
        .submitted_ms = sqlite3_column_int64(s, 8),
        .ended_ms = sqlite3_column_int64(s, 9),
        .task_ids = hrf_column_text(s, 10, &failed),
        .reason = hrf_column_text(s, 11, &failed),
        .submission = sqlite3_column_int64(s, 12),
        .place = sqlite3_column_int64(s, 13),
    };
    return failed ? hrf_error_set(err, HRF_E_NOMEM, "no memory for the attempts") : HRF_OK;
}

enum hrf_status hrf_store_get_attempts(struct hrf_store *store, bool only_open,
                                       struct hrf_attempt_rows *out, struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    struct hrf_attempt_rows rows = { NULL, 0 };
    HRF_TRY(hrf_store_prepare(store,
                              only_open ? "SELECT * FROM attempt WHERE state<>2 ORDER BY id"
                                        : "SELECT * FROM attempt ORDER BY id",
                              &s, err));
    const enum hrf_status status = hrf_store_read_rows(store, s, sizeof rows.items[0], read_attempt,
                                                       (void **)&rows.items, &rows.n_items, err);
    if (status != HRF_OK)
        hrf_attempt_rows_release(&rows);
    else
        *out = rows;
    return status;
}

enum hrf_status hrf_store_last_job(struct hrf_store *store, int64_t *out, struct hrf_error *err)
{
    return hrf_store_number(store,
                            "SELECT coalesce(max(CAST(substr(job_id, instr(job_id, '-') + 1) "
                            "AS INTEGER)), 0) FROM attempt",
                            out, err);
}

enum hrf_status hrf_store_add_event(struct hrf_store *store, const char *subject, const char *text,
                                    struct hrf_error *err)
{
    sqlite3_stmt *s;
    HRF_TRY(
        hrf_store_prepare(store, "INSERT INTO event(at_ms, subject, text) VALUES(?,?,?)", &s, err));
    sqlite3_bind_int64(s, 1, hrf_clock_wall_ms());
    hrf_bind_text(s, 2, subject);
    hrf_bind_text(s, 3, text);
    return hrf_store_finish(store, s, err);
}

static enum hrf_status read_event(sqlite3_stmt *s, void *item, struct hrf_error *err)
{
    bool failed = false;
    struct hrf_event_row *row = item;
    *row = (struct hrf_event_row){ .at_ms = sqlite3_column_int64(s, 0),
                                   .subject = hrf_column_text(s, 1, &failed),
                                   .text = hrf_column_text(s, 2, &failed) };
    return failed ? hrf_error_set(err, HRF_E_NOMEM, "no memory for the events") : HRF_OK;
}

enum hrf_status hrf_store_get_events(struct hrf_store *store, const char *subject,
                                     struct hrf_event_rows *out, struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    struct hrf_event_rows rows = { NULL, 0 };
    HRF_TRY(hrf_store_prepare(store,
                              "SELECT at_ms, subject, text FROM event WHERE subject=?1 OR ?1 IS "
                              "NULL ORDER BY id",
                              &s, err));
    hrf_bind_text(s, 1, subject);
    const enum hrf_status status = hrf_store_read_rows(store, s, sizeof rows.items[0], read_event,
                                                       (void **)&rows.items, &rows.n_items, err);
    if (status != HRF_OK)
        hrf_event_rows_release(&rows);
    else
        *out = rows;
    return status;
}
