/* calibrations.c - stores calibrations in a file that all runs share. */
#include "schema/store/calibrations.h"

#include "base/clock.h"
#include "base/path.h"
#include "base/private_directory.h"
#include "schema/store/columns.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { PATIENCE_MS = 60000 }; /* writers take milliseconds */

struct hrf_calibrations {
    struct hrf_store *store;
    char *aside; /* for hrf_calibrations_put_aside() */
};

void hrf_calibrations_destroy(struct hrf_calibrations *calibrations)
{
    if (calibrations == NULL)
        return;
    hrf_store_close(calibrations->store);
    hrf_free(calibrations->aside);
    hrf_free(calibrations);
}

const char *hrf_calibrations_put_aside(const struct hrf_calibrations *calibrations)
{
    return calibrations->aside;
}

/* ---- opening, and files that are no store ---- */

/* Not by the index of the keys: where it is damaged, a row that is listed would not be found. */
static const char select_record[] = "SELECT record FROM calibration NOT INDEXED WHERE key=?";
static const char select_claim[] =
    "SELECT host, boot, pid_space, pid, start_time, beat_ms FROM claim WHERE key=?";

/* Checks that the file is undamaged, of this version, and has the tables and columns that are used
 * below. */
static enum hrf_status check(struct hrf_store *store, struct hrf_error *err)
{
    static const char schema[] = "CREATE TABLE IF NOT EXISTS calibration(key TEXT PRIMARY KEY,"
                                 " created TEXT, record TEXT NOT NULL);"
                                 "CREATE TABLE IF NOT EXISTS claim(key TEXT PRIMARY KEY, host TEXT,"
                                 " boot TEXT, pid_space TEXT, pid INTEGER, start_time INTEGER,"
                                 " beat_ms INTEGER)";
    int64_t version;
    sqlite3_stmt *s;
    HRF_TRY(hrf_store_number(store, "PRAGMA user_version", &version, err));
    if (version != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' is a calibration store of version %lld, and this hires-flow "
                             "reads and writes version 0; name another 'cache' in the workflow",
                             store->path, (long long)version);
    HRF_TRY(hrf_store_quick_check(store, err));
    HRF_TRY(hrf_store_exec(store, "PRAGMA synchronous=FULL", err));
    HRF_TRY(hrf_store_exec(store, schema, err));
    HRF_TRY(hrf_store_prepare(store, select_record, &s, err));
    return hrf_store_prepare(store, select_claim, &s, err);
}

static enum hrf_status connect(const char *path, struct hrf_store **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_store) store = NULL;
    HRF_TRY(hrf_store_connect(path, "calibration store", HRF_STORE_WRITE, &store, err));
    sqlite3_busy_timeout(store->db, PATIENCE_MS);
    HRF_TRY(check(store, err));
    HRF_MOVE(*out, store);
    return HRF_OK;
}

/* True if the file itself is at fault: no database, a damaged one, or one with other tables. */
static bool is_damage(const struct hrf_error *err)
{
    return err->domain != NULL && strcmp(err->domain, "sqlite") == 0 &&
           (err->native == SQLITE_NOTADB || err->native == SQLITE_CORRUPT ||
            err->native == SQLITE_ERROR);
}

/* Renames the file and the files that belong to it. *out is its new name. */
static enum hrf_status put_aside(const char *path, char **out, struct hrf_error *err)
{
    static const char *const suffixes[] = { "", "-journal", "-wal", "-shm" };
    HRF_AUTO_FREE char *aside = hrf_format("%s.damaged-%lld", path, (long long)hrf_clock_wall_ms());
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        HRF_AUTO_FREE char *from = hrf_format("%s%s", path, suffixes[i]);
        HRF_AUTO_FREE char *to = hrf_format("%s%s", aside, suffixes[i]);
        if (rename(from, to) != 0 && errno != ENOENT)
            return hrf_error_set_errno(err, errno, "cannot put the damaged '%s' aside", from);
    }
    HRF_MOVE(*out, aside);
    return HRF_OK;
}

/* Takes a lock and checks again, because another process may have renamed the file meanwhile. */
static enum hrf_status replace(const char *directory, const char *path,
                               struct hrf_calibrations *calibrations, struct hrf_error *err)
{
    struct hrf_error why = { .status = HRF_OK };
    HRF_AUTO_CLOSE int lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock >= 0 && flock(lock, LOCK_EX) != 0)
        (void)0; /* no locks here: two processes may rename it, and nothing is lost */
    const enum hrf_status status = connect(path, &calibrations->store, &why);
    if (status == HRF_OK)
        return HRF_OK;
    if (!is_damage(&why))
        return hrf_error_set(err, status, "%s", why.text);
    HRF_TRY(put_aside(path, &calibrations->aside, err));
    return connect(path, &calibrations->store, err);
}

enum hrf_status hrf_calibrations_open(const char *directory, struct hrf_calibrations **out,
                                      struct hrf_error *err)
{
    HRF_AUTO(hrf_calibrations) calibrations = hrf_calloc(1, sizeof *calibrations);
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "calibrations.db");
    struct hrf_error why = { .status = HRF_OK };
    HRF_TRY(hrf_private_directory_open(directory, err));
    const enum hrf_status status = connect(path, &calibrations->store, &why);
    if (status != HRF_OK && is_damage(&why))
        HRF_TRY(replace(directory, path, calibrations, err));
    else if (status != HRF_OK) {
        if (err != NULL)
            *err = why;
        return status;
    }
    HRF_MOVE(*out, calibrations);
    return HRF_OK;
}

/* ---- calibrations ---- */

static enum hrf_status check_record(const struct hrf_calibration *c, const char *key,
                                    const char *where, struct hrf_error *err)
{
    if (strcmp(c->key, key) != 0)
        return hrf_error_set(err, HRF_E_USER, "%s is that of another key", where);
    for (size_t i = 0; i < c->n_tensors; i++)
        if (!c->tensors[i].is_observed)
            return hrf_error_set(err, HRF_E_USER,
                                 "%s does not tell what was observed of tensor '%s', so its ranges "
                                 "cannot be checked",
                                 where, c->tensors[i].name);
    return HRF_OK;
}

enum hrf_status hrf_calibrations_get(struct hrf_calibrations *calibrations, const char *key,
                                     struct hrf_calibration **out, struct hrf_error *err)
{
    struct hrf_store *store = calibrations->store;
    HRF_AUTO_STATEMENT s = NULL;
    HRF_AUTO(hrf_calibration) found = NULL;
    HRF_AUTO_FREE char *where = hrf_format("calibration %.12s in '%s'", key, store->path);
    bool has_row;
    *out = NULL;
    HRF_TRY(hrf_store_prepare(store, select_record, &s, err));
    hrf_bind_text(s, 1, key);
    HRF_TRY(hrf_store_step(store, s, &has_row, err));
    if (!has_row)
        return HRF_OK;
    struct hrf_columns row = { store, "calibration", s, HRF_OK, err };
    HRF_AUTO_FREE char *text = hrf_column_text(&row, 0, true);
    if (row.status != HRF_OK)
        return hrf_error_wrap(err, row.status, "%s", where);
    HRF_TRY(hrf_calibration_decode(text, strlen(text), where, &found, err));
    HRF_TRY(check_record(found, key, where, err));
    HRF_MOVE(*out, found);
    return HRF_OK;
}

enum hrf_status hrf_calibrations_put(struct hrf_calibrations *calibrations,
                                     const struct hrf_calibration *calibration,
                                     struct hrf_error *err)
{
    sqlite3_stmt *s;
    HRF_AUTO_FREE char *record = NULL;
    HRF_TRY(hrf_calibration_encode(calibration, &record, err));
    HRF_TRY(hrf_store_prepare(
        calibrations->store,
        "INSERT OR IGNORE INTO calibration(key, created, record) VALUES(?, ?, ?)", &s, err));
    hrf_bind_text(s, 1, calibration->key);
    hrf_bind_text(s, 2, calibration->created);
    hrf_bind_text(s, 3, record);
    return hrf_store_finish(calibrations->store, s, err);
}

/* ---- claims ---- */

/* A claim that cannot be read does not count. */
static enum hrf_status read_claim(struct hrf_store *store, const char *key, struct hrf_owner *owner,
                                  bool *there, struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    HRF_TRY(hrf_store_prepare(store, select_claim, &s, err));
    hrf_bind_text(s, 1, key);
    HRF_TRY(hrf_store_step(store, s, there, err));
    if (!*there)
        return HRF_OK;
    struct hrf_columns row = { store, "claim", s, HRF_OK, NULL };
    hrf_owner_read(&row, owner);
    *there = row.status == HRF_OK;
    return HRF_OK;
}

static enum hrf_status write_claim(struct hrf_store *store, const char *key,
                                   const struct hrf_owner *me, struct hrf_error *err)
{
    sqlite3_stmt *s;
    HRF_TRY(hrf_store_prepare(store,
                              "INSERT OR REPLACE INTO claim(key, host, boot, pid_space, pid, "
                              "start_time, beat_ms) VALUES(?, ?, ?, ?, ?, ?, ?)",
                              &s, err));
    hrf_bind_text(s, 1, key);
    hrf_owner_bind(s, 2, me);
    return hrf_store_finish(store, s, err);
}

static enum hrf_status claim(struct hrf_store *store, const char *key, bool *mine, char who[192],
                             struct hrf_error *err)
{
    struct hrf_owner owner, me = hrf_owner_self();
    bool there;
    HRF_TRY(read_claim(store, key, &owner, &there, err));
    *mine = !there || hrf_owner_is_same(&owner, &me) ||
            hrf_owner_life(&owner, &me) != HRF_OWNER_LIVING;
    if (!*mine && who != NULL)
        snprintf(who, 192, "process %lld on %s", (long long)owner.pid, owner.host);
    return *mine ? write_claim(store, key, &me, err) : HRF_OK;
}

enum hrf_status hrf_calibrations_claim(struct hrf_calibrations *calibrations, const char *key,
                                       bool *mine, char who[192], struct hrf_error *err)
{
    HRF_TRY(hrf_store_begin(calibrations->store, err));
    const enum hrf_status status = claim(calibrations->store, key, mine, who, err);
    if (status == HRF_OK)
        return hrf_store_commit(calibrations->store, err);
    hrf_store_rollback(calibrations->store);
    return status;
}

enum hrf_status hrf_calibrations_give_up(struct hrf_calibrations *calibrations, const char *key,
                                         struct hrf_error *err)
{
    sqlite3_stmt *s;
    const struct hrf_owner me = hrf_owner_self();
    HRF_TRY(hrf_store_prepare(
        calibrations->store,
        "DELETE FROM claim WHERE key=? AND pid=? AND start_time=? AND host=? AND boot=?", &s, err));
    hrf_bind_text(s, 1, key);
    sqlite3_bind_int64(s, 2, me.pid);
    sqlite3_bind_int64(s, 3, (int64_t)me.start_time);
    hrf_bind_text(s, 4, me.host);
    hrf_bind_text(s, 5, me.boot);
    return hrf_store_finish(calibrations->store, s, err);
}

enum hrf_status hrf_calibrations_drop(struct hrf_calibrations *calibrations, const char *key,
                                      bool *found, struct hrf_error *err)
{
    sqlite3_stmt *s;
    HRF_TRY(hrf_store_prepare(calibrations->store,
                              "DELETE FROM calibration NOT INDEXED WHERE key=?", &s, err));
    hrf_bind_text(s, 1, key);
    HRF_TRY(hrf_store_finish(calibrations->store, s, err));
    *found = sqlite3_changes(calibrations->store->db) > 0;
    return HRF_OK;
}

static void read_key(struct hrf_columns *row, void *item)
{
    *(char **)item = hrf_column_text(row, 0, true);
}

enum hrf_status hrf_calibrations_keys(struct hrf_calibrations *calibrations, char ***out, size_t *n,
                                      struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    char **keys = NULL;
    *n = 0;
    HRF_TRY(hrf_store_prepare(calibrations->store,
                              "SELECT key FROM calibration ORDER BY created, key", &s, err));
    const enum hrf_status status = hrf_store_read_rows(
        calibrations->store, s, "calibration", sizeof keys[0], read_key, (void **)&keys, n, err);
    if (status == HRF_OK) {
        *out = keys;
        return HRF_OK;
    }
    for (size_t i = 0; i < *n; i++)
        hrf_free(keys[i]);
    hrf_free(keys);
    return status;
}
