/* store_private.h - the connection, and the helpers that the files of this folder share. */
#ifndef HRF_SCHEMA_STORE_STORE_PRIVATE_H
#define HRF_SCHEMA_STORE_STORE_PRIVATE_H

#include "base/strbuf.h"
#include "schema/store/store.h"

#include <sqlite3.h>

/* HRF_STORE_BUSY_MS: long enough for another process's commit to a slow disk, short enough to
 * report a process that is stuck. */
enum { HRF_STORE_VERSION = 1, HRF_STORE_MAX_STATEMENTS = 64, HRF_STORE_BUSY_MS = 10000 };

/* What a user can do about a file that cannot be read, for the end of a message. */
#define HRF_STORE_WAY_OUT "move it away to start afresh"

struct hrf_store {
    sqlite3 *db;
    char *path;       /* as the user knows it, for messages */
    const char *what; /* "run store" */
    char *copy;       /* directory of a private copy that is read instead; NULL = none */
    enum hrf_store_mode mode;
    bool in_transaction;
    struct hrf_strbuf dropped; /* hrf_store_take_dropped() */
    bool has_lease;            /* then every transaction begins by checking that it is still ours */
    /* Prepared once: a plan of 100,000 tasks runs one statement 100,000 times. */
    struct {
        const char *sql;
        sqlite3_stmt *statement;
    } cache[HRF_STORE_MAX_STATEMENTS];
    size_t n_cached;
};

/* Opens or makes a file without checking its content. `what` names the file in messages: "run
 * store". */
HRF_CHECKED enum hrf_status hrf_store_connect(const char *path, const char *what,
                                              enum hrf_store_mode mode, struct hrf_store **out,
                                              struct hrf_error *err);
/* SQLITE_FULL and an I/O error for lack of space become HRF_E_NOSPACE, BUSY HRF_E_AGAIN. */
enum hrf_status hrf_store_fail(struct hrf_store *store, int code, const char *what,
                               struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_store_exec(struct hrf_store *store, const char *sql,
                                           struct hrf_error *err);
/* A prepared statement from the cache. `sql` must be a literal. A statement must not be used twice
 * at the same time. */
HRF_CHECKED enum hrf_status hrf_store_prepare(struct hrf_store *store, const char *sql,
                                              sqlite3_stmt **out, struct hrf_error *err);
/* Runs a statement that returns no rows, and returns it to the cache. */
HRF_CHECKED enum hrf_status hrf_store_finish(struct hrf_store *store, sqlite3_stmt *statement,
                                             struct hrf_error *err);
/* *has_row false: there are no more rows. The caller returns the statement to the cache. */
HRF_CHECKED enum hrf_status hrf_store_step(struct hrf_store *store, sqlite3_stmt *statement,
                                           bool *has_row, struct hrf_error *err);
struct hrf_columns; /* columns.h */
/* Calls `take` for every row of the statement, until it fails or a value of the row is invalid. */
HRF_CHECKED enum hrf_status
hrf_store_each_row(struct hrf_store *store, sqlite3_stmt *statement, const char *table,
                   enum hrf_status (*take)(struct hrf_columns *row, void *context), void *context,
                   struct hrf_error *err);
/* Reads every remaining row of `table` by read() into one item each. *items must be NULL and
 * *n_items 0 at the start. On failure, too, the caller releases the *n_items items, the last of
 * which may be incomplete. */
HRF_CHECKED enum hrf_status hrf_store_read_rows(struct hrf_store *store, sqlite3_stmt *statement,
                                                const char *table, size_t item_bytes,
                                                void (*read)(struct hrf_columns *row, void *item),
                                                void **items, size_t *n_items,
                                                struct hrf_error *err);
/* The first number of the first row, 0 when there is none. */
HRF_CHECKED enum hrf_status hrf_store_number(struct hrf_store *store, const char *sql, int64_t *out,
                                             struct hrf_error *err);
void hrf_bind_text(sqlite3_stmt *statement, int i, const char *text); /* NULL binds NULL */

/* The infer tasks of a slide (1) at a precision (2), in the order of patches. Columns: bytes,
 * state, key, first_patch, n_patches. */
#define HRF_STORE_SELECT_SHARDS                                                                    \
    "SELECT bytes, state, task.key, first_patch, n_patches FROM task LEFT JOIN record USING(key) " \
    "WHERE kind=1 AND slide_id=? AND precision=? ORDER BY first_patch"

/* structure.c: refuses a file that is not ours or of another version; makes the tables of a new
 * one in write mode. */
HRF_CHECKED enum hrf_status hrf_store_prepare_tables(struct hrf_store *store,
                                                     struct hrf_error *err);
/* HRF_E_USER with what SQLite found when the file is damaged. */
HRF_CHECKED enum hrf_status hrf_store_quick_check(struct hrf_store *store, struct hrf_error *err);
/* `sql`: a pragma that answers "ok" or what is damaged. */
HRF_CHECKED enum hrf_status hrf_store_check_structure(struct hrf_store *store, const char *sql,
                                                      struct hrf_error *err);
/* seal.c, each within a transaction. HRF_E_USER: there is a seal, and the tables do not fit it. */
HRF_CHECKED enum hrf_status hrf_store_check_seal(struct hrf_store *store, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_store_break_seal(struct hrf_store *store, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_store_set_seal(struct hrf_store *store, struct hrf_error *err);
/* reader.c: opens store->path so that a writer is never in the way, nor in its way. */
HRF_CHECKED enum hrf_status hrf_store_open_reader(struct hrf_store *store, struct hrf_error *err);
/* lease.c: HRF_E_AGAIN when it is another's by now. Within a transaction. */
HRF_CHECKED enum hrf_status hrf_store_check_lease(struct hrf_store *store, struct hrf_error *err);

static inline void hrf_statement_cleanup(sqlite3_stmt **statement)
{
    if (*statement == NULL)
        return;
    sqlite3_reset(*statement);
    sqlite3_clear_bindings(*statement);
}
#define HRF_AUTO_STATEMENT __attribute__((cleanup(hrf_statement_cleanup))) sqlite3_stmt *

#endif
