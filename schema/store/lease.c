/* lease.c - the lease that lets one process write the store. The process is identified by host,
 * boot, PID namespace, PID and start time. */
#include "base/clock.h"
#include "schema/store/columns.h"
#include "schema/store/owner.h"
#include "schema/store/tasks.h"

#include <assert.h>
#include <string.h>

/* Clocks of machines differ. Therefore an owner whose last beat is old (owner.h) is watched for
 * WATCH_MS: it is dead only if it does not beat meanwhile. Owners beat every few seconds. */
enum { WATCH_MS = 15000, LOOK_MS = 250 };

static enum hrf_status read_owner(struct hrf_store *store, struct hrf_owner *owner, bool *there,
                                  struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    HRF_TRY(hrf_store_prepare(
        store, "SELECT host, boot, pid_space, pid, start_time, beat_ms FROM lease", &s, err));
    HRF_TRY(hrf_store_step(store, s, there, err));
    if (!*there)
        return HRF_OK;
    struct hrf_columns row = { store, "lease", s, HRF_OK, err };
    hrf_owner_read(&row, owner);
    return row.status;
}

static enum hrf_status write_owner(struct hrf_store *store, const struct hrf_owner *me,
                                   struct hrf_error *err)
{
    sqlite3_stmt *s;
    HRF_TRY(hrf_store_prepare(store,
                              "INSERT OR REPLACE INTO lease(id, host, boot, pid_space, pid, "
                              "start_time, beat_ms) VALUES(1,?,?,?,?,?,?)",
                              &s, err));
    hrf_owner_bind(s, 1, me);
    return hrf_store_finish(store, s, err);
}

/* True if the silent owner did not beat while it was watched. */
static enum hrf_status stays_silent(struct hrf_store *store, const struct hrf_owner *owner,
                                    bool *silent, struct hrf_error *err)
{
    int64_t until = hrf_clock_ns() +
                    hrf_clock_setting_ms("HRF_LEASE_WATCH_MS", 0, WATCH_MS) * 1000000;
    while (hrf_clock_ns() < until) {
        struct hrf_owner now;
        bool there;
        hrf_clock_sleep_ms(LOOK_MS);
        HRF_TRY(read_owner(store, &now, &there, err));
        if (there && (now.beat_ms != owner->beat_ms || !hrf_owner_is_same(&now, owner))) {
            *silent = false;
            return HRF_OK;
        }
    }
    *silent = true;
    return HRF_OK;
}

static enum hrf_status refuse(const struct hrf_store *store, const struct hrf_owner *owner,
                              struct hrf_error *err)
{
    char when[24];
    hrf_clock_iso8601(owner->beat_ms, when);
    return hrf_error_set(err, HRF_E_AGAIN,
                         "'%s': this run is being driven by process %lld on %s (last sign of life "
                         "%s); watch it with 'hires-flow status DIR --watch' or stop it with "
                         "'hires-flow cancel DIR'",
                         store->path, (long long)owner->pid, owner->host, when);
}

/* Call it within a transaction. `judged`: the owner that was found dead; it may have been replaced
 * since. */
static enum hrf_status take(struct hrf_store *store, const struct hrf_owner *judged, bool was_there,
                            const struct hrf_owner *me, struct hrf_error *err)
{
    struct hrf_owner now;
    bool there;
    HRF_TRY(read_owner(store, &now, &there, err));
    if (there && !hrf_owner_is_same(&now, me) &&
        !(was_there && hrf_owner_is_same(&now, judged) && now.beat_ms == judged->beat_ms))
        return refuse(store, &now, err);
    return write_owner(store, me, err);
}

/* True if the owner is gone. If it ended without releasing the lease, the store is checked. */
static enum hrf_status judge(struct hrf_store *store, const struct hrf_owner *owner,
                             const struct hrf_owner *me, struct hrf_error *err)
{
    enum hrf_owner_life life = hrf_owner_life(owner, me);
    bool silent = life == HRF_OWNER_DEAD;
    if (life == HRF_OWNER_SILENT)
        HRF_TRY(stays_silent(store, owner, &silent, err));
    if (!silent)
        return refuse(store, owner, err);
    return hrf_store_quick_check(store, err);
}

enum hrf_status hrf_store_take_lease(struct hrf_store *store, struct hrf_error *err)
{
    struct hrf_owner owner, me = hrf_owner_self();
    bool there;
    HRF_TRY(read_owner(store, &owner, &there, err));
    if (there && !hrf_owner_is_same(&owner, &me))
        HRF_TRY(judge(store, &owner, &me, err));
    HRF_TRY(hrf_store_begin(store, err));
    enum hrf_status status = take(store, &owner, there, &me, err);
    if (status == HRF_OK)
        status = hrf_store_check_seal(store, err);
    if (status == HRF_OK)
        status = hrf_store_break_seal(store, err);
    if (status != HRF_OK) {
        hrf_store_rollback(store);
        return status;
    }
    HRF_TRY(hrf_store_commit(store, err));
    store->has_lease = true;
    return HRF_OK;
}

enum hrf_status hrf_store_check_lease(struct hrf_store *store, struct hrf_error *err)
{
    struct hrf_owner owner, me = hrf_owner_self();
    bool there;
    assert(store->in_transaction);
    HRF_TRY(read_owner(store, &owner, &there, err));
    if (there && hrf_owner_is_same(&owner, &me))
        return HRF_OK;
    return hrf_error_set(err, HRF_E_AGAIN,
                         "'%s': another process drives this run by now%s%s; this one stops",
                         store->path, there ? ", on " : "", there ? owner.host : "");
}

enum hrf_status hrf_store_beat_lease(struct hrf_store *store, struct hrf_error *err)
{
    struct hrf_owner me = hrf_owner_self();
    const bool begins = !store->in_transaction; /* between check and write nobody takes it over */
    if (begins)
        HRF_TRY(hrf_store_begin(store, err));
    enum hrf_status status = hrf_store_check_lease(store, err);
    if (status == HRF_OK)
        status = write_owner(store, &me, err);
    if (begins && status == HRF_OK)
        return hrf_store_commit(store, err);
    if (begins)
        hrf_store_rollback(store);
    return status;
}

static enum hrf_status delete_owner(struct hrf_store *store, struct hrf_error *err)
{
    struct hrf_owner me = hrf_owner_self();
    sqlite3_stmt *s;
    HRF_TRY(hrf_store_prepare(
        store, "DELETE FROM lease WHERE pid=? AND start_time=? AND host=? AND boot=?", &s, err));
    sqlite3_bind_int64(s, 1, me.pid);
    sqlite3_bind_int64(s, 2, (int64_t)me.start_time);
    hrf_bind_text(s, 3, me.host);
    hrf_bind_text(s, 4, me.boot);
    return hrf_store_finish(store, s, err);
}

enum hrf_status hrf_store_release_lease(struct hrf_store *store, struct hrf_error *err)
{
    if (!store->has_lease)
        return HRF_OK;
    if (store->in_transaction) /* of a driver that gives up */
        hrf_store_rollback(store);
    store->has_lease = false;
    HRF_TRY(hrf_store_begin(store, err));
    enum hrf_status status = delete_owner(store, err);
    if (status == HRF_OK && sqlite3_changes(store->db) == 1) /* else it is another's by now */
        status = hrf_store_set_seal(store, err);
    if (status == HRF_OK)
        return hrf_store_commit(store, err);
    hrf_store_rollback(store);
    return status;
}

enum hrf_status hrf_store_lease_owner(struct hrf_store *store, int64_t *pid, struct hrf_error *err)
{
    struct hrf_owner owner, me = hrf_owner_self();
    bool there;
    HRF_TRY(read_owner(store, &owner, &there, err));
    bool here = there && strcmp(owner.host, me.host) == 0 &&
                strcmp(owner.pid_space, me.pid_space) == 0;
    *pid = here && hrf_owner_life(&owner, &me) == HRF_OWNER_LIVING ? owner.pid : 0;
    return HRF_OK;
}
