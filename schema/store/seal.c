/* seal.c - a checksum of the small tables, from one driver's end to the next one's beginning.
 *
 * SQLite notices a damaged page only if its structure suffers: a bit that changes in a name, a
 * label or a state is believed. So a driver that ends in order leaves a hash of every row, and
 * whoever opens the store compares. While a driver lives, and after one that died, there is no
 * seal. Records are left out: they have checksums of their own, and a task whose record is damaged
 * or missing is done again.
 */
#include "base/hash.h"
#include "schema/store/columns.h"

#include <string.h>

/* In the order of the tables themselves, so that a damaged index hides no row. */
static const char *const rows[] = {
    "SELECT * FROM fact ORDER BY key",
    "SELECT * FROM slide ORDER BY id",
    "SELECT * FROM task ORDER BY id",
    "SELECT * FROM attempt ORDER BY id",
    "SELECT * FROM slide_score ORDER BY precision, slide_id",
    "SELECT * FROM phase ORDER BY rowid",
};
/* Of tables that are found by an index: whether the index has every row. */
static const char *const checks[] = { "PRAGMA integrity_check(task)",
                                      "PRAGMA integrity_check(phase)" };
enum { N_ROWS = sizeof rows / sizeof rows[0], N_CHECKS = sizeof checks / sizeof checks[0] };

static enum hrf_status hash_rows(struct hrf_store *store, const char *sql, struct hrf_hash *hash,
                                 struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    bool has_row;
    int64_t n = 0;
    HRF_TRY(hrf_store_prepare(store, sql, &s, err));
    for (;; n++) {
        HRF_TRY(hrf_store_step(store, s, &has_row, err));
        if (!has_row)
            break;
        const struct hrf_columns row = { store, "any", s, HRF_OK, err };
        hrf_columns_hash(&row, hash);
    }
    hrf_hash_int(hash, n);
    return HRF_OK;
}

static enum hrf_status hash_tables(struct hrf_store *store, char out[HRF_HASH_HEX],
                                   struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    for (int i = 0; i < N_ROWS; i++)
        HRF_TRY(hash_rows(store, rows[i], hash, err));
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

static enum hrf_status check_indexes(struct hrf_store *store, struct hrf_error *err)
{
    for (int i = 0; i < N_CHECKS; i++)
        HRF_TRY(hrf_store_check_structure(store, checks[i], err));
    return HRF_OK;
}

/* *is_there false: there is none. */
static enum hrf_status read_seal(struct hrf_store *store, bool *is_there, char out[HRF_HASH_HEX],
                                 struct hrf_error *err)
{
    HRF_AUTO_STATEMENT s = NULL;
    HRF_TRY(hrf_store_prepare(store, "SELECT sha256 FROM seal WHERE id=1", &s, err));
    HRF_TRY(hrf_store_step(store, s, is_there, err));
    struct hrf_columns row = { store, "seal", s, HRF_OK, err };
    if (*is_there)
        hrf_column_copy(&row, 0, out, HRF_HASH_HEX);
    return row.status;
}

enum hrf_status hrf_store_check_seal(struct hrf_store *store, struct hrf_error *err)
{
    char stated[HRF_HASH_HEX], found[HRF_HASH_HEX];
    bool is_there;
    HRF_TRY(read_seal(store, &is_there, stated, err));
    if (!is_there)
        return HRF_OK;
    HRF_TRY(check_indexes(store, err));
    HRF_TRY(hash_tables(store, found, err));
    if (strcmp(stated, found) == 0)
        return HRF_OK;
    return hrf_error_set(err, HRF_E_USER,
                         "'%s' is damaged: its tables are not what the last 'run' or 'report' "
                         "left; " HRF_STORE_WAY_OUT,
                         store->path);
}

enum hrf_status hrf_store_break_seal(struct hrf_store *store, struct hrf_error *err)
{
    return hrf_store_exec(store, "DELETE FROM seal", err);
}

enum hrf_status hrf_store_set_seal(struct hrf_store *store, struct hrf_error *err)
{
    char sha256[HRF_HASH_HEX];
    sqlite3_stmt *s;
    HRF_TRY(hash_tables(store, sha256, err));
    HRF_TRY(
        hrf_store_prepare(store, "INSERT OR REPLACE INTO seal(id, sha256) VALUES(1, ?)", &s, err));
    hrf_bind_text(s, 1, sha256);
    return hrf_store_finish(store, s, err);
}
