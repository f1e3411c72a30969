/* store_private.h - the connection, and the short forms that the files of this folder use. */
#ifndef HRF_SCHEMA_STORE_STORE_PRIVATE_H
#define HRF_SCHEMA_STORE_STORE_PRIVATE_H

#include "schema/store/store.h"

#include <sqlite3.h>

struct hrf_store {
    sqlite3 *db;
    char *path;
    bool in_transaction;
};

/* SQLITE_FULL and an I/O error for lack of space become HRF_E_NOSPACE, BUSY HRF_E_AGAIN. */
enum hrf_status hrf_store_fail(struct hrf_store *store, int code, const char *what,
                               struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_store_exec(struct hrf_store *store, const char *sql,
                                           struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_store_prepare(struct hrf_store *store, const char *sql,
                                              sqlite3_stmt **out, struct hrf_error *err);
/* Runs a statement that gives no rows, and finalises it. */
HRF_CHECKED enum hrf_status hrf_store_finish(struct hrf_store *store, sqlite3_stmt *statement,
                                             struct hrf_error *err);
/* SQLITE_ROW or SQLITE_DONE, else the error; the caller finalises. */
HRF_CHECKED enum hrf_status hrf_store_step(struct hrf_store *store, sqlite3_stmt *statement,
                                           bool *has_row, struct hrf_error *err);
void hrf_bind_text(sqlite3_stmt *statement, int i, const char *text); /* NULL binds NULL */
char *hrf_column_text(sqlite3_stmt *statement, int i);                /* heap; NULL for NULL */

static inline void hrf_statement_cleanup(sqlite3_stmt **statement)
{
    sqlite3_finalize(*statement);
}
#define HRF_AUTO_STATEMENT __attribute__((cleanup(hrf_statement_cleanup))) sqlite3_stmt *

#endif
