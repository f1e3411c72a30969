/* structure.c - whose file a run store is, its version, its tables, its journal. */
#include "base/clock.h"
#include "base/crash.h"
#include "base/file_system.h"
#include "base/path.h"
#include "schema/store/columns.h"

#include <stdio.h>
#include <string.h>

enum { APPLICATION_ID = 0x48524631 /* "HRF1" */ };

static const char tables[] =
    "CREATE TABLE fact(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;"
    /* `seen`: size and times, which say when `content`, the hash, is to be made again */
    "CREATE TABLE slide(id INTEGER PRIMARY KEY, name TEXT, path TEXT, n_bytes INTEGER,"
    " mtime_ns INTEGER, truth INTEGER, label_text TEXT, annotation TEXT, mpp_csv REAL,"
    " state INTEGER, reason TEXT, tile_plan_hash TEXT, calibrates INTEGER DEFAULT 0, seen TEXT,"
    " content TEXT);"
    "CREATE TABLE task(id INTEGER PRIMARY KEY, kind INTEGER, key TEXT, slide_id INTEGER,"
    " precision TEXT, first_patch INTEGER, n_patches INTEGER, state INTEGER,"
    " n_attempts INTEGER DEFAULT 0, cached INTEGER DEFAULT 0, reason TEXT,"
    " time_level INTEGER DEFAULT 0, memory_level INTEGER DEFAULT 0,"
    " UNIQUE(kind, slide_id, precision, first_patch));"
    "CREATE TABLE record(key TEXT PRIMARY KEY, bytes BLOB);"
    /* from `host` on: what a job said of itself */
    "CREATE TABLE attempt(id INTEGER PRIMARY KEY, job_id TEXT, attempt INTEGER, directory TEXT,"
    " kind INTEGER, state INTEGER, pid INTEGER, start_time INTEGER, submitted_ms INTEGER,"
    " ended_ms INTEGER, task_ids TEXT, reason TEXT, submission INTEGER DEFAULT 0,"
    " place INTEGER DEFAULT 0, host TEXT, started_ms INTEGER DEFAULT 0,"
    " finished_ms INTEGER DEFAULT 0, cpu_ms INTEGER DEFAULT 0, peak_bytes INTEGER DEFAULT 0,"
    " wait_ms INTEGER DEFAULT 0, compute_ms INTEGER DEFAULT 0);"
    "CREATE TABLE event(id INTEGER PRIMARY KEY, at_ms INTEGER, subject TEXT, text TEXT);"
    "CREATE INDEX event_subject ON event(subject);"
    "CREATE TABLE slide_score(slide_id INTEGER, precision TEXT, score REAL, positive INTEGER,"
    " n_patches INTEGER, PRIMARY KEY(precision, slide_id)) WITHOUT ROWID;"
    "CREATE TABLE phase(name TEXT PRIMARY KEY, place INTEGER, seconds REAL, cached INTEGER,"
    " n_tasks INTEGER, n_cached INTEGER);"
    /* `pid_space`: process numbers of another container mean nothing here */
    "CREATE TABLE lease(id INTEGER PRIMARY KEY CHECK(id = 1), host TEXT, boot TEXT, pid INTEGER,"
    " start_time INTEGER, beat_ms INTEGER, pid_space TEXT);"
    "CREATE TABLE seal(id INTEGER PRIMARY KEY CHECK(id = 1), sha256 TEXT);";

/* A write-ahead log needs shared memory, which network file systems do not have. */
static bool is_on_network(const char *path)
{
    HRF_AUTO_FREE char *directory = hrf_path_directory(path);
    bool is_shared = false;
    hrf_file_system_of(directory, &is_shared);
    return is_shared;
}

struct identity {
    int64_t application, version, n_tables;
};

static enum hrf_status read_identity(struct hrf_store *store, struct identity *id,
                                     struct hrf_error *err)
{
    HRF_TRY(hrf_store_number(store, "PRAGMA application_id", &id->application, err));
    HRF_TRY(hrf_store_number(store, "PRAGMA user_version", &id->version, err));
    return hrf_store_number(store, "SELECT count(*) FROM sqlite_master", &id->n_tables, err);
}

/* Reads all at one moment, because another process may be creating the file. */
static enum hrf_status read_identity_at_once(struct hrf_store *store, struct identity *id,
                                             struct hrf_error *err)
{
    HRF_TRY(hrf_store_exec(store, "BEGIN", err));
    enum hrf_status status = read_identity(store, id, err);
    hrf_store_rollback(store);
    return status;
}

static enum hrf_status check_identity(struct hrf_store *store, bool *is_new, struct hrf_error *err)
{
    struct identity id = { .application = 0 };
    HRF_TRY(read_identity_at_once(store, &id, err));
    *is_new = id.application == 0 && id.version == 0 && id.n_tables == 0;
    if (*is_new)
        return store->mode != HRF_STORE_READ
                   ? HRF_OK
                   : hrf_error_set(err, HRF_E_USER, "'%s' is empty: no run was begun there",
                                   store->path);
    if (id.application != APPLICATION_ID)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' is an SQLite file of another program, not a run store; name "
                             "another directory with --out",
                             store->path);
    if (id.version != HRF_STORE_VERSION)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' is a run store of version %lld, and this hires-flow reads and "
                             "writes version %d; use the hires-flow that made it, or another "
                             "directory with --out",
                             store->path, (long long)id.version, HRF_STORE_VERSION);
    return HRF_OK;
}

/* Looks again inside the transaction: two processes may open a new file at the same time. */
static enum hrf_status create_tables(struct hrf_store *store, struct hrf_error *err)
{
    int64_t version;
    HRF_TRY(hrf_store_number(store, "PRAGMA user_version", &version, err));
    if (version == HRF_STORE_VERSION)
        return HRF_OK;
    HRF_TRY(hrf_store_exec(store, tables, err));
    char sql[96];
    snprintf(sql, sizeof sql, "PRAGMA application_id=%d; PRAGMA user_version=%d", APPLICATION_ID,
             HRF_STORE_VERSION);
    return hrf_store_exec(store, sql, err);
}

/* SQLite does not wait if two connections change the journal mode at the same time, so this does.
 */
static enum hrf_status set_journal(struct hrf_store *store, struct hrf_error *err)
{
    const char *sql = is_on_network(store->path) ? "PRAGMA journal_mode=TRUNCATE"
                                                 : "PRAGMA journal_mode=WAL";
    int64_t until = hrf_clock_ns() + (int64_t)HRF_STORE_BUSY_MS * 1000000;
    enum hrf_status status;
    while ((status = hrf_store_exec(store, sql, err)) == HRF_E_AGAIN && hrf_clock_ns() < until)
        hrf_clock_sleep_ms(5);
    HRF_TRY(status);
    return hrf_store_exec(store, "PRAGMA synchronous=FULL", err);
}

enum hrf_status hrf_store_prepare_tables(struct hrf_store *store, struct hrf_error *err)
{
    bool is_new;
    HRF_TRY(check_identity(store, &is_new, err)); /* before another program's file is written to */
    if (store->mode == HRF_STORE_READ)
        return HRF_OK;
    HRF_TRY(set_journal(store, err));
    if (!is_new)
        return HRF_OK;
    hrf_crash_point("store.create.before");
    HRF_TRY(hrf_store_begin(store, err));
    enum hrf_status status = create_tables(store, err);
    if (status == HRF_OK)
        status = hrf_store_commit(store, err);
    if (status != HRF_OK)
        hrf_store_rollback(store);
    hrf_crash_point("store.create.after");
    return status;
}

enum hrf_status hrf_store_check_structure(struct hrf_store *store, const char *sql,
                                          struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    bool has_row;
    HRF_TRY(hrf_store_prepare(store, sql, &s, err));
    HRF_TRY(hrf_store_step(store, s, &has_row, err));
    struct hrf_columns row = { store, "check", s, HRF_OK, err };
    HRF_AUTO_FREE char *found = has_row ? hrf_column_text(&row, 0, true) : NULL;
    HRF_TRY(row.status);
    if (found != NULL && strcmp(found, "ok") == 0)
        return HRF_OK;
    const char *text = found != NULL ? found : "it says nothing of itself";
    const char *line = strchr(text, '\n'); /* the text after "*** in database main ***" */
    line = line != NULL ? line + 1 : text;
    return hrf_error_set_foreign(err, HRF_E_USER, "sqlite", SQLITE_CORRUPT,
                                 "'%s' is damaged (%.*s); " HRF_STORE_WAY_OUT, store->path,
                                 (int)strcspn(line, "\n"), line);
}

enum hrf_status hrf_store_quick_check(struct hrf_store *store, struct hrf_error *err)
{
    return hrf_store_check_structure(store, "PRAGMA quick_check(1)", err);
}
