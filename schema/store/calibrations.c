#include "schema/store/calibrations.h"

#include "base/path.h"
#include "base/private_directory.h"
#include "schema/store/owner.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

enum { PATIENCE_MS = 60000 }; /* writers take milliseconds */

struct hrf_calibrations {
    sqlite3 *db;
    char *path;
};

static enum hrf_status fail(const struct hrf_calibrations *store, const char *what,
                            struct hrf_error *err)
{
    const int code = sqlite3_errcode(store->db);
    const enum hrf_status status = code == SQLITE_FULL    ? HRF_E_NOSPACE
                                   : code == SQLITE_BUSY  ? HRF_E_AGAIN
                                   : code == SQLITE_NOMEM ? HRF_E_NOMEM
                                                          : HRF_E_EXTERNAL;
    return hrf_error_set_foreign(err, status, "sqlite", code, "'%s': %s: %s", store->path, what,
                                 sqlite3_errmsg(store->db));
}

void hrf_calibrations_destroy(struct hrf_calibrations *store)
{
    if (store == NULL)
        return;
    sqlite3_close(store->db);
    hrf_free(store->path);
    hrf_free(store);
}

enum hrf_status hrf_calibrations_open(const char *directory, struct hrf_calibrations **out,
                                      struct hrf_error *err)
{
    static const char schema[] = "CREATE TABLE IF NOT EXISTS calibration(key TEXT PRIMARY KEY,"
                                 " created TEXT, record TEXT NOT NULL);"
                                 "CREATE TABLE IF NOT EXISTS claim(key TEXT PRIMARY KEY, host TEXT,"
                                 " boot TEXT, pid_space TEXT, pid INTEGER, start_time INTEGER,"
                                 " beat_ms INTEGER)";
    HRF_AUTO(hrf_calibrations) store = hrf_calloc(1, sizeof *store);
    if (store == NULL || (store->path = hrf_path_join(directory, "calibrations.db")) == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the calibration store");
    HRF_TRY(hrf_private_directory_open(directory, err));
    if (sqlite3_open(store->path, &store->db) != SQLITE_OK)
        return fail(store, "opening the calibration store", err);
    sqlite3_busy_timeout(store->db, PATIENCE_MS);
    if (sqlite3_exec(store->db, "PRAGMA synchronous=FULL", NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(store->db, schema, NULL, NULL, NULL) != SQLITE_OK)
        return fail(store, "opening the calibration store", err);
    *out = store;
    store = NULL;
    return HRF_OK;
}

static enum hrf_status prepare(const struct hrf_calibrations *store, const char *sql,
                               const char *key, sqlite3_stmt **out, struct hrf_error *err)
{
    if (sqlite3_prepare_v2(store->db, sql, -1, out, NULL) != SQLITE_OK ||
        (key != NULL && sqlite3_bind_text(*out, 1, key, -1, SQLITE_TRANSIENT) != SQLITE_OK))
        return fail(store, "preparing", err);
    return HRF_OK;
}

static enum hrf_status check_record(const struct hrf_calibration *c, const char *key,
                                    const char *where, struct hrf_error *err)
{
    if (strcmp(c->key, key) != 0)
        return hrf_error_set(err, HRF_E_USER, "%s is that of another key; drop it", where);
    for (size_t i = 0; i < c->n_tensors; i++)
        if (!c->tensors[i].is_observed)
            return hrf_error_set(err, HRF_E_USER,
                                 "%s does not tell what was observed of tensor '%s' (an earlier "
                                 "version made it), so its ranges cannot be checked; drop it",
                                 where, c->tensors[i].name);
    return HRF_OK;
}

enum hrf_status hrf_calibrations_get(struct hrf_calibrations *store, const char *key,
                                     struct hrf_calibration **out, struct hrf_error *err)
{
    sqlite3_stmt *s = NULL;
    HRF_AUTO_FREE char *where = hrf_format("calibration %.12s in '%s'", key, store->path);
    *out = NULL;
    if (where == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a calibration");
    enum hrf_status status = prepare(store, "SELECT record FROM calibration WHERE key=?", key, &s,
                                     err);
    if (status == HRF_OK) {
        const int step = sqlite3_step(s);
        if (step == SQLITE_ROW)
            status = hrf_calibration_decode((const char *)sqlite3_column_text(s, 0),
                                            (size_t)sqlite3_column_bytes(s, 0), where, out, err);
        else if (step != SQLITE_DONE)
            status = fail(store, "reading a calibration", err);
    }
    sqlite3_finalize(s);
    if (status == HRF_OK && *out != NULL)
        status = check_record(*out, key, where, err);
    if (status != HRF_OK) {
        hrf_calibration_destroy(*out);
        *out = NULL;
    }
    return status;
}

enum hrf_status hrf_calibrations_put(struct hrf_calibrations *store,
                                     const struct hrf_calibration *calibration,
                                     struct hrf_error *err)
{
    sqlite3_stmt *s = NULL;
    HRF_AUTO_FREE char *record = NULL;
    HRF_TRY(hrf_calibration_encode(calibration, &record, err));
    enum hrf_status status = prepare(
        store, "INSERT OR IGNORE INTO calibration(key, created, record) VALUES(?, ?, ?)",
        calibration->key, &s, err);
    if (status == HRF_OK) {
        sqlite3_bind_text(s, 2, calibration->created, -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(s, 3, record, -1, SQLITE_TRANSIENT);
        if (sqlite3_step(s) != SQLITE_DONE)
            status = fail(store, "keeping a calibration", err);
    }
    sqlite3_finalize(s);
    return status;
}

/* ---- claims ---- */

static void copy_column(sqlite3_stmt *s, int i, char *out, size_t size)
{
    const char *text = (const char *)sqlite3_column_text(s, i);
    snprintf(out, size, "%s", text != NULL ? text : "");
}

static enum hrf_status read_claim(const struct hrf_calibrations *store, const char *key,
                                  struct hrf_owner *owner, bool *there, struct hrf_error *err)
{
    sqlite3_stmt *s = NULL;
    enum hrf_status status = prepare(
        store, "SELECT host, boot, pid_space, pid, start_time, beat_ms FROM claim WHERE key=?", key,
        &s, err);
    *there = false;
    if (status == HRF_OK) {
        const int step = sqlite3_step(s);
        *there = step == SQLITE_ROW;
        if (step != SQLITE_ROW && step != SQLITE_DONE)
            status = fail(store, "reading who makes a calibration", err);
    }
    if (*there) {
        *owner = (struct hrf_owner){ .pid = sqlite3_column_int64(s, 3),
                                     .start_time = (uint64_t)sqlite3_column_int64(s, 4),
                                     .beat_ms = sqlite3_column_int64(s, 5) };
        copy_column(s, 0, owner->host, sizeof owner->host);
        copy_column(s, 1, owner->boot, sizeof owner->boot);
        copy_column(s, 2, owner->pid_space, sizeof owner->pid_space);
    }
    sqlite3_finalize(s);
    return status;
}

static enum hrf_status write_claim(const struct hrf_calibrations *store, const char *key,
                                   const struct hrf_owner *me, struct hrf_error *err)
{
    sqlite3_stmt *s = NULL;
    enum hrf_status status = prepare(store,
                                     "INSERT OR REPLACE INTO claim(key, host, boot, pid_space, "
                                     "pid, start_time, beat_ms) VALUES(?, ?, ?, ?, ?, ?, ?)",
                                     key, &s, err);
    if (status == HRF_OK) {
        sqlite3_bind_text(s, 2, me->host, -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(s, 3, me->boot, -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(s, 4, me->pid_space, -1, SQLITE_TRANSIENT);
        sqlite3_bind_int64(s, 5, me->pid);
        sqlite3_bind_int64(s, 6, (int64_t)me->start_time);
        sqlite3_bind_int64(s, 7, me->beat_ms);
        if (sqlite3_step(s) != SQLITE_DONE)
            status = fail(store, "noting who makes a calibration", err);
    }
    sqlite3_finalize(s);
    return status;
}

static enum hrf_status claim(const struct hrf_calibrations *store, const char *key, bool *mine,
                             char who[192], struct hrf_error *err)
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

enum hrf_status hrf_calibrations_claim(struct hrf_calibrations *store, const char *key, bool *mine,
                                       char who[192], struct hrf_error *err)
{
    if (sqlite3_exec(store->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        return fail(store, "claiming a calibration", err);
    enum hrf_status status = claim(store, key, mine, who, err);
    if (status == HRF_OK && sqlite3_exec(store->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        status = fail(store, "claiming a calibration", err);
    if (status != HRF_OK)
        sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

enum hrf_status hrf_calibrations_give_up(struct hrf_calibrations *store, const char *key,
                                         struct hrf_error *err)
{
    sqlite3_stmt *s = NULL;
    const struct hrf_owner me = hrf_owner_self();
    enum hrf_status status = prepare(
        store, "DELETE FROM claim WHERE key=? AND pid=? AND start_time=? AND host=? AND boot=?",
        key, &s, err);
    if (status == HRF_OK) {
        sqlite3_bind_int64(s, 2, me.pid);
        sqlite3_bind_int64(s, 3, (int64_t)me.start_time);
        sqlite3_bind_text(s, 4, me.host, -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(s, 5, me.boot, -1, SQLITE_TRANSIENT);
        if (sqlite3_step(s) != SQLITE_DONE)
            status = fail(store, "giving up a calibration", err);
    }
    sqlite3_finalize(s);
    return status;
}

enum hrf_status hrf_calibrations_drop(struct hrf_calibrations *store, const char *key, bool *found,
                                      struct hrf_error *err)
{
    sqlite3_stmt *s = NULL;
    enum hrf_status status = prepare(store, "DELETE FROM calibration WHERE key=?", key, &s, err);
    if (status == HRF_OK && sqlite3_step(s) != SQLITE_DONE)
        status = fail(store, "dropping a calibration", err);
    sqlite3_finalize(s);
    *found = status == HRF_OK && sqlite3_changes(store->db) > 0;
    return status;
}

enum hrf_status hrf_calibrations_keys(struct hrf_calibrations *store, char ***out, size_t *n,
                                      struct hrf_error *err)
{
    sqlite3_stmt *s = NULL;
    char **keys = NULL;
    int step = SQLITE_DONE;
    *n = 0;
    enum hrf_status status = prepare(store, "SELECT key FROM calibration ORDER BY created, key",
                                     NULL, &s, err);
    while (status == HRF_OK && (step = sqlite3_step(s)) == SQLITE_ROW) {
        char **grown = hrf_realloc_array(keys, *n + 1, sizeof *keys);
        if (grown != NULL)
            keys = grown;
        if (grown == NULL ||
            (keys[*n] = hrf_strdup((const char *)sqlite3_column_text(s, 0))) == NULL)
            status = hrf_error_set(err, HRF_E_NOMEM, "no memory for the calibrations' keys");
        else
            ++*n;
    }
    if (status == HRF_OK && step != SQLITE_DONE)
        status = fail(store, "listing the calibrations", err);
    sqlite3_finalize(s);
    for (size_t i = 0; i < *n && status != HRF_OK; i++)
        hrf_free(keys[i]);
    if (status != HRF_OK)
        hrf_free(keys);
    else
        *out = keys;
    return status;
}
