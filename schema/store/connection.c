/* connection.c - opening and closing the store, transactions, statements, errors. */
#include "base/crash.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "schema/store/columns.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_full(int code, int native)
{
    return code == SQLITE_FULL || (code == SQLITE_IOERR && (native == ENOSPC || native == EDQUOT));
}

/* Whether a file of the store is as large as this process may make it, but for a few pages. */
static bool is_at_limit(const char *path, const char *suffix)
{
    enum { MARGIN = 64 << 10 };
    HRF_AUTO_FREE char *file = hrf_format("%s%s", path, suffix);
    return hrf_path_size(file) >= hrf_file_size_limit() - MARGIN;
}

/* The reason why files cannot be written next to the store; 0: none. SQLite reports most errors of
 * writing and syncing without errno. */
static int find_cause(const struct hrf_store *store, int code, int native)
{
    if (code != SQLITE_IOERR || native != 0)
        return native;
    HRF_AUTO_FREE char *probe = NULL;
    HRF_AUTO_CLOSE int fd = -1;
    struct hrf_error why = { .native = 0 };
    if (hrf_file_temporary(store->path, &probe, &fd, &why) != HRF_OK)
        return why.native;
    unlink(probe);
    return is_at_limit(store->path, "") || is_at_limit(store->path, "-wal") ? EFBIG : 0;
}

static bool is_read_only(int code, int native)
{
    return code == SQLITE_READONLY || code == SQLITE_PERM ||
           (code == SQLITE_CANTOPEN && (native == EROFS || native == EACCES)) ||
           (code == SQLITE_IOERR && native == EROFS);
}

enum hrf_status hrf_store_fail(struct hrf_store *store, int code, const char *what,
                               struct hrf_error *err)
{
    const int native = find_cause(store, code,
                                  store->db != NULL ? sqlite3_system_errno(store->db) : 0);
    const char *text = store->db != NULL ? sqlite3_errmsg(store->db) : sqlite3_errstr(code);
    if (code == SQLITE_IOERR && native == EFBIG)
        return hrf_error_set_foreign(err, HRF_E_NOSPACE, "errno", native,
                                     "'%s': a file of this process may have at most %lld bytes "
                                     "(ulimit -f); raise that limit and run again, what is in the "
                                     "store is kept",
                                     store->path, (long long)hrf_file_size_limit());
    if (is_full(code, native))
        return hrf_error_set_foreign(err, HRF_E_NOSPACE, "sqlite", code,
                                     "'%s': the disk is full; free some space and run again, what "
                                     "is in the store is kept",
                                     store->path);
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
        return hrf_error_set_foreign(err, HRF_E_USER, "sqlite", code,
                                     "'%s' is damaged or not a %s (%s); " HRF_STORE_WAY_OUT,
                                     store->path, store->what, text);
    if (is_read_only(code, native))
        return hrf_error_set_foreign(err, HRF_E_EXTERNAL, "sqlite", code,
                                     "'%s' cannot be written: the file, its directory or the file "
                                     "system is read-only; mend that and run again, what is in "
                                     "the store is kept, or choose another with --out",
                                     store->path);
    enum hrf_status status = code == SQLITE_BUSY || code == SQLITE_LOCKED ? HRF_E_AGAIN
                             : code == SQLITE_NOMEM                       ? HRF_E_NOMEM
                                                                          : HRF_E_EXTERNAL;
    char reason[128] = "";
    const bool has_cause = code == SQLITE_IOERR && native != 0 &&
                           strerror_r(native, reason, sizeof reason) == 0;
    return hrf_error_set_foreign(err, status, "sqlite", code, "'%s': %s: %s%s%s", store->path, what,
                                 text, has_cause ? ": " : "", has_cause ? reason : "");
}

enum hrf_status hrf_store_exec(struct hrf_store *store, const char *sql, struct hrf_error *err)
{
    int code = sqlite3_exec(store->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? HRF_OK : hrf_store_fail(store, code & 0xff, sql, err);
}

enum hrf_status hrf_store_prepare(struct hrf_store *store, const char *sql, sqlite3_stmt **out,
                                  struct hrf_error *err)
{
    for (size_t i = 0; i < store->n_cached; i++) {
        if (store->cache[i].sql ==
            sql) { /* they are string literals, so equal addresses mean equal statements */
            *out = store->cache[i].statement;
            return HRF_OK;
        }
    }
    if (store->n_cached == HRF_STORE_MAX_STATEMENTS)
        return hrf_error_set(err, HRF_E_BUG, "more than %d statements: %s",
                             HRF_STORE_MAX_STATEMENTS, sql);
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v3(store->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL);
    if (code != SQLITE_OK)
        return hrf_store_fail(store, code & 0xff, sql, err);
    store->cache[store->n_cached].sql = sql;
    store->cache[store->n_cached++].statement = statement;
    *out = statement;
    return HRF_OK;
}

enum hrf_status hrf_store_step(struct hrf_store *store, sqlite3_stmt *statement, bool *has_row,
                               struct hrf_error *err)
{
    int code = sqlite3_step(statement);
    *has_row = code == SQLITE_ROW;
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        return HRF_OK;
    return hrf_store_fail(store, code & 0xff, sqlite3_sql(statement), err);
}

enum hrf_status hrf_store_each_row(struct hrf_store *store, sqlite3_stmt *statement,
                                   const char *table,
                                   enum hrf_status (*take)(struct hrf_columns *row, void *context),
                                   void *context, struct hrf_error *err)
{
    struct hrf_columns row = { store, table, statement, HRF_OK, err };
    bool has_row;
    HRF_TRY(hrf_store_step(store, statement, &has_row, err));
    while (has_row) {
        HRF_TRY(take(&row, context));
        HRF_TRY(row.status);
        HRF_TRY(hrf_store_step(store, statement, &has_row, err));
    }
    return HRF_OK;
}

/* The list of items that hrf_store_read_rows() collects. */
struct row_list {
    void **items;
    size_t *n_items, capacity, item_bytes;
    void (*read)(struct hrf_columns *row, void *item);
};

static enum hrf_status append_row(struct hrf_columns *row, void *context)
{
    struct row_list *list = context;
    hrf_array_reserve(list->items, &list->capacity, *list->n_items + 1, list->item_bytes);
    list->read(row, (char *)*list->items + (*list->n_items)++ * list->item_bytes);
    return HRF_OK;
}

enum hrf_status hrf_store_read_rows(struct hrf_store *store, sqlite3_stmt *statement,
                                    const char *table, size_t item_bytes,
                                    void (*read)(struct hrf_columns *row, void *item), void **items,
                                    size_t *n_items, struct hrf_error *err)
{
    struct row_list list = {
        .items = items, .n_items = n_items, .item_bytes = item_bytes, .read = read
    };
    return hrf_store_each_row(store, statement, table, append_row, &list, err);
}

enum hrf_status hrf_store_finish(struct hrf_store *store, sqlite3_stmt *statement,
                                 struct hrf_error *err)
{
    bool has_row;
    enum hrf_status status = hrf_store_step(store, statement, &has_row, err);
    hrf_statement_cleanup(&statement);
    return status;
}

enum hrf_status hrf_store_number(struct hrf_store *store, const char *sql, int64_t *out,
                                 struct hrf_error *err)
{
    HRF_AUTO_STATEMENT statement = NULL;
    bool has_row;
    HRF_TRY(hrf_store_prepare(store, sql, &statement, err));
    HRF_TRY(hrf_store_step(store, statement, &has_row, err));
    struct hrf_columns row = { store, sql, statement, HRF_OK, err };
    *out = has_row ? hrf_column_int(&row, 0, INT64_MIN, INT64_MAX) : 0;
    return row.status;
}

void hrf_bind_text(sqlite3_stmt *statement, int i, const char *text)
{
    if (text == NULL)
        sqlite3_bind_null(statement, i);
    else
        sqlite3_bind_text(statement, i, text, -1, SQLITE_TRANSIENT);
}

/* The file's schema must not run anything: no triggers, no views, no functions. */
static enum hrf_status distrust(struct hrf_store *store, struct hrf_error *err)
{
    static const struct {
        int option, value;
    } settings[] = { { SQLITE_DBCONFIG_DEFENSIVE, 1 },
                     { SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
                     { SQLITE_DBCONFIG_ENABLE_TRIGGER, 0 },
                     { SQLITE_DBCONFIG_ENABLE_VIEW, 0 } };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const int code = sqlite3_db_config(store->db, settings[i].option, settings[i].value, NULL);
        if (code != SQLITE_OK)
            return hrf_store_fail(store, code & 0xff, "opening it", err);
    }
    return hrf_store_exec(store, "PRAGMA cell_size_check=ON", err);
}

static enum hrf_status open_writer(struct hrf_store *store, struct hrf_error *err)
{
    if (hrf_file_system_is_full(store->path))
        return hrf_store_fail(store, SQLITE_FULL, "opening it", err);
    int code = sqlite3_open_v2(store->path, &store->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                               NULL);
    if (code != SQLITE_OK)
        return hrf_store_fail(store, code & 0xff, "opening it", err);
    /* SQLite opens a file that may not be written for reading, without an error. */
    if (sqlite3_db_readonly(store->db, "main") == 1)
        return hrf_store_fail(store, SQLITE_READONLY, "opening it", err);
    return HRF_OK;
}

enum hrf_status hrf_store_connect(const char *path, const char *what, enum hrf_store_mode mode,
                                  struct hrf_store **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_store) store = hrf_calloc(1, sizeof *store);
    store->path = hrf_strdup(path);
    store->what = what;
    store->mode = mode;
    store->dropped = (struct hrf_strbuf)HRF_STRBUF_INIT;
    if (hrf_path_exists(path))
        HRF_TRY(hrf_file_check(path, err)); /* SQLite would wait for a FIFO for ever */
    HRF_TRY(mode == HRF_STORE_WRITE ? open_writer(store, err) : hrf_store_open_reader(store, err));
    sqlite3_busy_timeout(store->db, HRF_STORE_BUSY_MS);
    HRF_TRY(distrust(store, err));
    HRF_MOVE(*out, store);
    return HRF_OK;
}

/* All of one moment: a driver may begin meanwhile. A writer does the same when it takes the lease.
 */
static enum hrf_status check_sealed(struct hrf_store *store, struct hrf_error *err)
{
    HRF_TRY(hrf_store_begin(store, err));
    const enum hrf_status status = hrf_store_check_seal(store, err);
    hrf_store_rollback(store);
    return status;
}

enum hrf_status hrf_store_open(const char *path, enum hrf_store_mode mode, struct hrf_store **out,
                               struct hrf_error *err)
{
    HRF_AUTO(hrf_store) store = NULL;
    if (mode == HRF_STORE_READ && !hrf_path_exists(path))
        return hrf_error_set(err, HRF_E_USER, "'%s' does not exist: no run stands there", path);
    HRF_TRY(hrf_store_connect(path, "run store", mode, &store, err));
    HRF_TRY(hrf_store_prepare_tables(store, err));
    if (mode == HRF_STORE_READ)
        HRF_TRY(check_sealed(store, err));
    HRF_MOVE(*out, store);
    return HRF_OK;
}

enum hrf_status hrf_store_open_run(const char *directory, struct hrf_store **out,
                                   struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "run.db");
    if (!hrf_path_exists(path))
        return hrf_error_set(err, HRF_E_USER, "there is no run in '%s' (it has no run.db)",
                             directory);
    return hrf_store_open(path, HRF_STORE_READ, out, err);
}

void hrf_store_close(struct hrf_store *store)
{
    if (store == NULL)
        return;
    if (store->in_transaction)
        hrf_store_rollback(store);
    for (size_t i = 0; i < store->n_cached; i++)
        sqlite3_finalize(store->cache[i].statement);
    sqlite3_close(store->db);
    if (store->copy != NULL && hrf_path_remove_tree(store->copy, NULL) != HRF_OK)
        (void)0; /* a private copy in the temporary directory needs no durability */
    hrf_strbuf_release(&store->dropped);
    hrf_free(store->copy);
    hrf_free(store->path);
    hrf_free(store);
}

enum hrf_status hrf_store_check_place(struct hrf_store *store, struct hrf_error *err)
{
    int has_moved = 0;
    const int code = sqlite3_file_control(store->db, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved);
    if (code != SQLITE_OK || has_moved == 0)
        return HRF_OK;
    return hrf_error_set_foreign(err, HRF_E_EXTERNAL, "sqlite", SQLITE_READONLY_DBMOVED,
                                 "'%s' is no longer there: it was deleted or moved while the run "
                                 "went on, so that what the run does is lost; begin again, or "
                                 "continue with --out where its directory is now",
                                 store->path);
}

enum hrf_status hrf_store_begin(struct hrf_store *store, struct hrf_error *err)
{
    assert(!store->in_transaction);
    if (store->has_lease)
        HRF_TRY(hrf_store_check_place(store, err));
    HRF_TRY(
        hrf_store_exec(store, store->mode == HRF_STORE_WRITE ? "BEGIN IMMEDIATE" : "BEGIN", err));
    store->in_transaction = true;
    if (!store->has_lease)
        return HRF_OK;
    enum hrf_status status = hrf_store_check_lease(store, err);
    if (status != HRF_OK)
        hrf_store_rollback(store);
    return status;
}

enum hrf_status hrf_store_commit(struct hrf_store *store, struct hrf_error *err)
{
    assert(store->in_transaction);
    hrf_crash_point("store.commit.before");
    enum hrf_status status = hrf_store_exec(store, "COMMIT", err);
    if (status != HRF_OK)
        hrf_store_rollback(store);
    store->in_transaction = false;
    hrf_crash_point("store.commit.after");
    return status;
}

void hrf_store_rollback(struct hrf_store *store)
{
    sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL); /* fails without a transaction */
    store->in_transaction = false;
}
