/* tasks.c - tasks, attempts and events of a run in the store. */
#include "schema/store/tasks.h"

#include "base/clock.h"
#include "base/strbuf.h"
#include "schema/record/job.h"
#include "schema/store/columns.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *hrf_task_kind_name(enum hrf_task_kind kind)
{
    static const char *const names[] = { "tile", "infer", "calibrate", "head", "train" };
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

void hrf_attempt_row_release(struct hrf_attempt_row *row)
{
    hrf_free(row->job_id);
    hrf_free(row->directory);
    hrf_free(row->task_ids);
    hrf_free(row->reason);
    *row = (struct hrf_attempt_row){ .id = 0 };
}

bool hrf_attempt_has_task(const struct hrf_attempt_row *row, int64_t task_id)
{
    for (size_t i = 0; i < row->n_task_ids; i++)
        if (row->task_ids[i] == task_id)
            return true;
    return false;
}

void hrf_attempt_rows_release(struct hrf_attempt_rows *rows)
{
    for (size_t i = 0; i < rows->n_items; i++)
        hrf_attempt_row_release(&rows->items[i]);
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

/* One statement for three cases. The same place and key keeps its state, unless a result has
 * appeared or disappeared. Another key begins anew. ?8: there is a result. */
static const char plan_sql[] =
    "INSERT INTO task(kind, key, slide_id, precision, first_patch, n_patches, state, cached) "
    "VALUES(?1, ?2, ?3, ?4, ?5, ?6, "
    " CASE WHEN ?8 THEN 2 ELSE 0 END, ?8) "
    "ON CONFLICT(kind, slide_id, precision, first_patch) DO UPDATE SET "
    " state=CASE WHEN excluded.state=2 THEN 2 WHEN key=excluded.key AND state<>2 "
    "THEN state ELSE 0 END, "
    " n_attempts=CASE WHEN key=excluded.key THEN n_attempts ELSE 0 END, "
    " reason=CASE WHEN key=excluded.key AND excluded.state<>2 THEN reason ELSE NULL END, "
    " cached=CASE WHEN ?7 AND key=excluded.key THEN cached ELSE excluded.cached END, "
    "n_patches=excluded.n_patches, key=excluded.key";

static enum hrf_status plan_one(struct hrf_store *store, const struct hrf_task_row *row,
                                struct hrf_error *err)
{
    sqlite3_stmt *s;
    bool has_result;
    HRF_TRY(hrf_store_find_result(store, row, &has_result, err));
    HRF_TRY(hrf_store_prepare(store, plan_sql, &s, err));
    sqlite3_bind_int(s, 1, row->kind);
    hrf_bind_text(s, 2, row->key);
    sqlite3_bind_int64(s, 3, row->slide_id);
    hrf_bind_text(s, 4, row->precision);
    sqlite3_bind_int64(s, 5, row->first_patch);
    sqlite3_bind_int64(s, 6, row->n_patches);
    sqlite3_bind_int(s, 7, row->cached);
    sqlite3_bind_int(s, 8, has_result);
    return hrf_store_finish(store, s, err);
}

/* Deletes the tasks of (slide, kind) whose keys are not among the given ones. */
static enum hrf_status drop_others(struct hrf_store *store, int64_t slide_id,
                                   enum hrf_task_kind kind, const struct hrf_task_row *rows,
                                   size_t n_rows, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) sql = HRF_STRBUF_INIT;
    hrf_strbuf_addf(&sql, "DELETE FROM task WHERE slide_id=%lld AND kind=%d AND key NOT IN (",
                    (long long)slide_id, (int)kind);
    for (size_t i = 0; i < n_rows; i++)
        hrf_strbuf_addf(&sql, "%s'%s'", i > 0 ? "," : "", rows[i].key); /* hex: no quoting */
    hrf_strbuf_adds(&sql, ")");
    return hrf_store_exec(store, sql.text, err);
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

static void read_task(struct hrf_columns *row, void *item)
{
    struct hrf_task_row *task = item;
    const enum hrf_task_kind kind = (enum hrf_task_kind)hrf_column_enum(row, 1, HRF_N_TASK_KINDS);
    *task = (struct hrf_task_row){
        .id = hrf_column_id(row, 0),
        .kind = kind,
        .slide_id = kind == HRF_TASK_TRAIN ? hrf_column_int(row, 3, 0, 0) : hrf_column_id(row, 3),
        .first_patch = hrf_column_count(row, 5),
        .n_patches = hrf_column_count(row, 6),
        .state = (enum hrf_task_state)hrf_column_enum(row, 7, HRF_N_TASK_STATES),
        .n_attempts = hrf_column_count(row, 8),
        .cached = hrf_column_bool(row, 9),
        .reason = hrf_column_text(row, 10, false),
        .time_level = hrf_column_int(row, 11, 0, HRF_TASK_MAX_LEVEL),
        .memory_level = hrf_column_int(row, 12, 0, HRF_TASK_MAX_LEVEL),
    };
    hrf_column_copy(row, 2, task->key, sizeof task->key);
    hrf_column_copy(row, 4, task->precision, sizeof task->precision);
}

size_t hrf_task_rows_of(const struct hrf_task_rows *rows, enum hrf_task_kind kind, int64_t slide_id,
                        size_t *first)
{
    size_t low = 0, high = rows->n_items;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct hrf_task_row *row = &rows->items[middle];
        if (row->kind != kind ? row->kind < kind : row->slide_id < slide_id)
            low = middle + 1;
        else
            high = middle;
    }
    *first = low;
    while (high < rows->n_items && rows->items[high].kind == kind &&
           rows->items[high].slide_id == slide_id)
        high++;
    return high - low;
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
    const enum hrf_status status = hrf_store_read_rows(store, s, "task", sizeof rows.items[0],
                                                       read_task, (void **)&rows.items,
                                                       &rows.n_items, err);
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

enum hrf_status hrf_store_put_attempt(struct hrf_store *store, struct hrf_attempt_row *row,
                                      struct hrf_error *err)
{
    sqlite3_stmt *s;
    HRF_AUTO_RELEASE(hrf_strbuf) ids = HRF_STRBUF_INIT;
    for (size_t i = 0; i < row->n_task_ids; i++)
        hrf_strbuf_addf(&ids, "%s%lld", i > 0 ? " " : "", (long long)row->task_ids[i]);
    HRF_TRY(hrf_store_prepare(
        store, "INSERT OR REPLACE INTO attempt VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        &s, err));
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
    hrf_bind_text(s, 11, ids.text);
    hrf_bind_text(s, 12, row->reason);
    sqlite3_bind_int64(s, 13, row->submission);
    sqlite3_bind_int64(s, 14, row->array_index);
    hrf_bind_text(s, 15, row->usage.host);
    const int64_t usage[] = {
        row->usage.started_ms, row->usage.finished_ms, row->usage.cpu_ms,
        row->usage.peak_bytes, row->usage.wait_ms,     row->usage.compute_ms
    };
    for (int i = 0; i < (int)(sizeof usage / sizeof usage[0]); i++)
        sqlite3_bind_int64(s, 16 + i, usage[i]);
    HRF_TRY(hrf_store_finish(store, s, err));
    if (row->id == 0)
        row->id = sqlite3_last_insert_rowid(store->db);
    return HRF_OK;
}

/* "12 13 14" */
static void read_ids(struct hrf_columns *row, int i, struct hrf_attempt_row *attempt)
{
    HRF_AUTO_FREE char *text = hrf_column_text(row, i, true);
    size_t n = text != NULL && *text != '\0';
    for (const char *at = text; at != NULL && *at != '\0'; at++)
        n += *at == ' ';
    attempt->task_ids = text != NULL ? hrf_alloc_array(n, sizeof attempt->task_ids[0]) : NULL;
    for (const char *at = text; row->status == HRF_OK && attempt->n_task_ids < n;) {
        char *end;
        errno = 0;
        const long long id = strtoll(at, &end, 10);
        if (errno != 0 || end == at || !isdigit((unsigned char)*at) || id < 1 ||
            id > HRF_STORE_MAX_COUNT || (*end != ' ' && *end != '\0'))
            hrf_column_refuse(row, i, "is no list of task ids");
        else
            attempt->task_ids[attempt->n_task_ids++] = id;
        at = end + (*end == ' ');
    }
}

/* The name of an attempt's folder in the run directory: it is created, read and fenced under that
 * name. */
static void read_directory(struct hrf_columns *row, int i, struct hrf_attempt_row *attempt)
{
    attempt->directory = hrf_column_text(row, i, true);
    if (attempt->directory != NULL &&
        (strncmp(attempt->directory, "jobs/", 5) != 0 ||
         strchr(attempt->directory + 5, '/') != NULL || attempt->directory[5] == '.' ||
         attempt->directory[5] == '\0'))
        hrf_column_refuse(row, i, "is no folder below jobs/");
}

static void read_attempt(struct hrf_columns *row, void *item)
{
    struct hrf_attempt_row *attempt = item;
    *attempt = (struct hrf_attempt_row){
        .id = hrf_column_id(row, 0),
        .job_id = hrf_column_text(row, 1, true),
        .attempt = hrf_column_id(row, 2),
        .kind = (enum hrf_task_kind)hrf_column_enum(row, 4, HRF_N_TASK_KINDS),
        .state = (enum hrf_attempt_state)hrf_column_enum(row, 5, HRF_N_ATTEMPT_STATES),
        .pid = hrf_column_int(row, 6, 0, UINT32_MAX), /* a Slurm job ID may be that large */
        .start_time = (uint64_t)hrf_column_int(row, 7, INT64_MIN, INT64_MAX),
        .submitted_ms = hrf_column_ms(row, 8),
        .ended_ms = hrf_column_ms(row, 9),
        .reason = hrf_column_text(row, 11, false),
        .submission = hrf_column_count(row, 12),
        .array_index = hrf_column_count(row, 13),
        .usage = { .started_ms = hrf_column_ms(row, 15),
                   .finished_ms = hrf_column_ms(row, 16),
                   .cpu_ms = hrf_column_ms(row, 17),
                   .peak_bytes = hrf_column_int(row, 18, 0, INT64_C(1) << 60),
                   .wait_ms = hrf_column_ms(row, 19),
                   .compute_ms = hrf_column_ms(row, 20) },
    };
    hrf_column_copy(row, 14, attempt->usage.host, sizeof attempt->usage.host);
    read_directory(row, 3, attempt);
    read_ids(row, 10, attempt);
    if (attempt->job_id != NULL && !hrf_job_id_is_good(attempt->job_id))
        hrf_column_refuse(row, 1, "is no name of a job");
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
    const enum hrf_status status = hrf_store_read_rows(store, s, "attempt", sizeof rows.items[0],
                                                       read_attempt, (void **)&rows.items,
                                                       &rows.n_items, err);
    if (status != HRF_OK)
        hrf_attempt_rows_release(&rows);
    else
        *out = rows;
    return status;
}

enum hrf_status hrf_store_last_job(struct hrf_store *store, int64_t *out, struct hrf_error *err)
{
    HRF_TRY(hrf_store_number(store,
                             "SELECT coalesce(max(CAST(substr(job_id, instr(job_id, '-') + 1) "
                             "AS INTEGER)), 0) FROM attempt",
                             out, err));
    return *out >= 0 && *out <= HRF_STORE_MAX_COUNT
               ? HRF_OK
               : hrf_error_set(
                     err, HRF_E_USER,
                     "'%s' is damaged: it has a job of the number %lld; " HRF_STORE_WAY_OUT,
                     store->path, (long long)*out);
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

static void read_event(struct hrf_columns *row, void *item)
{
    struct hrf_event_row *event = item;
    *event = (struct hrf_event_row){ .at_ms = hrf_column_ms(row, 0),
                                     .subject = hrf_column_text(row, 1, true),
                                     .text = hrf_column_text(row, 2, true) };
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
    const enum hrf_status status = hrf_store_read_rows(store, s, "event", sizeof rows.items[0],
                                                       read_event, (void **)&rows.items,
                                                       &rows.n_items, err);
    if (status != HRF_OK)
        hrf_event_rows_release(&rows);
    else
        *out = rows;
    return status;
}
