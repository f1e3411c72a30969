/* connection.c - opening, migrating and closing the store; transactions; small helpers. */
#include "base/path.h"
#include "base/strbuf.h"
#include "schema/store/store_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { APPLICATION_ID = 0x48524631 /* "HRF1" */, SCHEMA_VERSION = 1, BUSY_TIMEOUT_MS = 10000 };

static const char schema[] =
    "CREATE TABLE fact(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;"
    "CREATE TABLE slide(id INTEGER PRIMARY KEY, name TEXT, path TEXT, n_bytes INTEGER,"
    " mtime_ns INTEGER, truth INTEGER, label_text TEXT, annotation TEXT, mpp_csv REAL,"
    " state INTEGER, reason TEXT, tile_plan_hash TEXT);"
    "CREATE TABLE task(id INTEGER PRIMARY KEY, kind INTEGER, key TEXT, slide_id INTEGER,"
    " precision TEXT, first_patch INTEGER, n_patches INTEGER, state INTEGER,"
    " n_attempts INTEGER DEFAULT 0, cached INTEGER DEFAULT 0, reason TEXT,"
    " UNIQUE(kind, slide_id, precision, first_patch));"
    "CREATE TABLE record(key TEXT PRIMARY KEY, bytes BLOB);"
    "CREATE TABLE attempt(id INTEGER PRIMARY KEY, job_id TEXT, attempt INTEGER, directory TEXT,"
    " kind INTEGER, state INTEGER, pid INTEGER, start_time INTEGER, submitted_ms INTEGER,"
    " ended_ms INTEGER, task_ids TEXT, reason TEXT);"
    "CREATE TABLE event(id INTEGER PRIMARY KEY, at_ms INTEGER, subject TEXT, text TEXT);"
    "CREATE INDEX event_subject ON event(subject);"
    "CREATE TABLE slide_score(slide_id INTEGER, precision TEXT, score REAL, positive INTEGER,"
    " n_patches INTEGER, PRIMARY KEY(precision, slide_id)) WITHOUT ROWID;"
    "CREATE TABLE phase(name TEXT PRIMARY KEY, place INTEGER, seconds REAL, cached INTEGER,"
    " n_tasks INTEGER, n_cached INTEGER);"
    "CREATE TABLE lease(id INTEGER PRIMARY KEY CHECK(id = 1), host TEXT, boot TEXT, pid INTEGER,"
    " start_time INTEGER, beat_ms INTEGER);";

enum hrf_status hrf_store_fail(struct hrf_store *store, int code, const char *what,
                               struct hrf_error *err)
{
    int native = store->db != NULL ? sqlite3_system_errno(store->db) : 0;
    const char *text = store->db != NULL ? sqlite3_errmsg(store->db) : sqlite3_errstr(code);
    enum hrf_status status = HRF_E_EXTERNAL;
    if (code == SQLITE_FULL || (code == SQLITE_IOERR && (native == ENOSPC || native == EDQUOT)))
        return hrf_error_set_foreign(err, HRF_E_NOSPACE, "sqlite", code,
                                     "'%s': the disk is full (%s); free some space and run again, "
                                     "nothing is lost",
                                     store->path, what);
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        status = HRF_E_AGAIN;
    else if (code == SQLITE_NOMEM)
        status = HRF_E_NOMEM;
    else if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
        return hrf_error_set_foreign(err, HRF_E_USER, "sqlite", code,
                                     "'%s' is damaged or not a run store (%s); move it away to "
                                     "start afresh",
                                     store->path, text);
    return hrf_error_set_foreign(err, status, "sqlite", code, "'%s': %s: %s", store->path, what,
                                 text);
}

enum hrf_status hrf_store_exec(struct hrf_store *store, const char *sql, struct hrf_error *err)
{
    int code = sqlite3_exec(store->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? HRF_OK : hrf_store_fail(store, code & 0xff, sql, err);
}

enum hrf_status hrf_store_prepare(struct hrf_store *store, const char *sql, sqlite3_stmt **out,
                                  struct hrf_error *err)
{
    int code = sqlite3_prepare_v2(store->db, sql, -1, out, NULL);
    return code == SQLITE_OK ? HRF_OK : hrf_store_fail(store, code & 0xff, sql, err);
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

enum hrf_status hrf_store_finish(struct hrf_store *store, sqlite3_stmt *statement,
                                 struct hrf_error *err)
{
    bool has_row;
    enum hrf_status status = hrf_store_step(store, statement, &has_row, err);
    sqlite3_finalize(statement);
    return status;
}

void hrf_bind_text(sqlite3_stmt *statement, int i, const char *text)
{
    if (text == NULL)
        sqlite3_bind_null(statement, i);
    else
        sqlite3_bind_text(statement, i, text, -1, SQLITE_TRANSIENT);
}

char *hrf_column_text(sqlite3_stmt *statement, int i)
{
    const unsigned char *text = sqlite3_column_text(statement, i);
    return text != NULL
               ? hrf_strndup((const char *)text, (size_t)sqlite3_column_bytes(statement, i))
               : NULL;
}

static enum hrf_status get_pragma(struct hrf_store *store, const char *sql, int64_t *out,
                                  struct hrf_error *err)
{
    HRF_AUTO_STATEMENT statement = NULL;
    bool has_row;
    HRF_TRY(hrf_store_prepare(store, sql, &statement, err));
    HRF_TRY(hrf_store_step(store, statement, &has_row, err));
    *out = has_row ? sqlite3_column_int64(statement, 0) : 0;
    return HRF_OK;
}

/* Write-ahead logging needs shared memory, which network file systems do not give. Magic
 * numbers: statfs(2). */
static bool is_network(const char *path)
{
    static const unsigned long types[] = { 0x6969 /* NFS */,      0x0BD00BD0 /* Lustre */,
                                           0x47504653 /* GPFS */, 0x19830326 /* BeeGFS */,
                                           0xFF534D42 /* CIFS */, 0xFE534D42 /* SMB2 */ };
    HRF_AUTO_FREE char *directory = hrf_path_directory(path);
    struct statfs fs;
    if (directory == NULL || statfs(directory, &fs) != 0)
        return false;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if ((unsigned long)fs.f_type == types[i])
            return true;
    return false;
}

static enum hrf_status migrate(struct hrf_store *store, struct hrf_error *err)
{
    char sql[96];
    HRF_TRY(hrf_store_exec(
        store, is_network(store->path) ? "PRAGMA journal_mode=TRUNCATE" : "PRAGMA journal_mode=WAL",
        err));
    HRF_TRY(hrf_store_exec(store, "PRAGMA synchronous=FULL", err));
    int64_t version, tables;
    HRF_TRY(get_pragma(store, "PRAGMA user_version", &version, err));
    HRF_TRY(get_pragma(store, "SELECT count(*) FROM sqlite_master", &tables, err));
    if (version == SCHEMA_VERSION || tables > 0)
        return HRF_OK;
    HRF_TRY(hrf_store_begin(store, err));
    HRF_TRY(hrf_store_exec(store, schema, err));
    snprintf(sql, sizeof sql, "PRAGMA application_id=%d; PRAGMA user_version=%d", APPLICATION_ID,
             SCHEMA_VERSION);
    HRF_TRY(hrf_store_exec(store, sql, err));
    return hrf_store_commit(store, err);
}

static enum hrf_status check_identity(struct hrf_store *store, struct hrf_error *err)
{
    int64_t application, version;
    HRF_TRY(get_pragma(store, "PRAGMA application_id", &application, err));
    HRF_TRY(get_pragma(store, "PRAGMA user_version", &version, err));
    if (application != APPLICATION_ID)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' is an SQLite file of another program, not a run store",
                             store->path);
    if (version > SCHEMA_VERSION)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' was written by a newer hires-flow (version %lld, this one "
                             "knows %d)",
                             store->path, (long long)version, SCHEMA_VERSION);
    return HRF_OK;
}

/* A reader beside a writer needs the -shm file; in a read-only directory it cannot have one, so
 * it reads the file as it stands. */
static int open_database(const char *path, enum hrf_store_mode mode, sqlite3 **db)
{
    if (mode == HRF_STORE_WRITE)
        return sqlite3_open_v2(path, db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    HRF_AUTO_FREE char *directory = hrf_path_directory(path);
    if (directory != NULL && access(directory, W_OK) == 0)
        return sqlite3_open_v2(path, db, SQLITE_OPEN_READWRITE, NULL); /* it only reads */
    struct hrf_strbuf uri = HRF_STRBUF_INIT;
    hrf_strbuf_adds(&uri, "file:");
    for (const char *s = path; *s != '\0'; s++)
        hrf_strbuf_addf(&uri, *s == '?' || *s == '#' || *s == '%' ? "%%%02x" : "%c",
                        (unsigned char)*s);
    hrf_strbuf_adds(&uri, "?immutable=1");
    int code = sqlite3_open_v2(uri.text, db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    hrf_strbuf_release(&uri);
    return code;
}

enum hrf_status hrf_store_open(const char *path, enum hrf_store_mode mode, struct hrf_store **out,
                               struct hrf_error *err)
{
    if (mode == HRF_STORE_READ && !hrf_path_exists(path))
        return hrf_error_set(err, HRF_E_USER, "'%s' does not exist: no run stands there", path);
    HRF_AUTO(hrf_store) store = hrf_calloc(1, sizeof *store);
    if (store == NULL || (store->path = hrf_strdup(path)) == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to open '%s'", path);
    int code = open_database(path, mode, &store->db);
    if (code != SQLITE_OK)
        return hrf_store_fail(store, code & 0xff, "opening it", err);
    sqlite3_busy_timeout(store->db, BUSY_TIMEOUT_MS);
    if (mode == HRF_STORE_WRITE)
        HRF_TRY(migrate(store, err));
    HRF_TRY(check_identity(store, err));
    *out = store;
    store = NULL;
    return HRF_OK;
}

void hrf_store_close(struct hrf_store *store)
{
    if (store == NULL)
        return;
    if (store->in_transaction)
        hrf_store_rollback(store);
    sqlite3_close(store->db);
    hrf_free(store->path);
    hrf_free(store);
}

enum hrf_status hrf_store_begin(struct hrf_store *store, struct hrf_error *err)
{
    HRF_TRY(hrf_store_exec(store, "BEGIN IMMEDIATE", err));
    store->in_transaction = true;
    return HRF_OK;
}

enum hrf_status hrf_store_commit(struct hrf_store *store, struct hrf_error *err)
{
    enum hrf_status status = hrf_store_exec(store, "COMMIT", err);
    if (status != HRF_OK)
        hrf_store_rollback(store);
    store->in_transaction = false;
    return status;
}

void hrf_store_rollback(struct hrf_store *store)
{
    sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL); /* fails when there is none: fine */
    store->in_transaction = false;
}
