/* columns.h - reads the values of a store's rows and checks each of them.
 *
 * A store is a file, and any program may have changed it. This is the only place that takes values
 * out of SQLite (a lint test enforces that). Every reader states the type and range that it
 * expects, so the rest of the program sees only valid enums, ids and counts.
 *
 * The first unexpected value sets the row's status to a failure (HRF_E_USER; the text names table,
 * column and value). That value and all later ones read as 0, false, "" or NULL. A caller can
 * therefore read a whole row without checks and test the status once at the end.
 */
#ifndef HRF_SCHEMA_STORE_COLUMNS_H
#define HRF_SCHEMA_STORE_COLUMNS_H

#include "base/hash.h"
#include "schema/store/owner.h"
#include "schema/store/store_private.h"

/* Largest id or count. A larger number of rows, patches or tries is not plausible, and the sum of
 * this many such values still fits into int64_t. */
#define HRF_STORE_MAX_COUNT INT32_MAX
/* Wall clock in ms: until the end of the year 9999, the last that ISO 8601 writes in four digits.
 */
#define HRF_STORE_MAX_MS INT64_C(253402300799999)

struct hrf_columns {
    const struct hrf_store *store;
    const char *table; /* for messages */
    sqlite3_stmt *statement;
    enum hrf_status status;
    struct hrf_error *err;
};

/* Reads a value from low to high. */
int64_t hrf_column_int(struct hrf_columns *row, int i, int64_t low, int64_t high);
/* Read a value from 0, or from 1 for an id, to HRF_STORE_MAX_COUNT. */
int64_t hrf_column_count(struct hrf_columns *row, int i);
int64_t hrf_column_id(struct hrf_columns *row, int i);
/* Reads a time of the wall clock in ms. */
int64_t hrf_column_ms(struct hrf_columns *row, int i);
/* Reads one of `n` enumerators from 0 on. */
int hrf_column_enum(struct hrf_columns *row, int i, int n);
bool hrf_column_bool(struct hrf_columns *row, int i);
/* Reads any finite number; NULL is NaN. */
double hrf_column_score(struct hrf_columns *row, int i);
/* Reads a number >= 0. */
double hrf_column_real(struct hrf_columns *row, int i);
/* Reads a text (heap); NULL stays NULL, or is refused if `is_needed`. */
char *hrf_column_text(struct hrf_columns *row, int i, bool is_needed);
/* Reads a text that fits into `size` bytes with its NUL; NULL is "". */
void hrf_column_copy(struct hrf_columns *row, int i, char *out, size_t size);
/* Returns the bytes of a blob, valid until the statement is stepped or reset; NULL for NULL. */
const void *hrf_column_blob(struct hrf_columns *row, int i, size_t *n_bytes);
/* Feeds all values of the row into a hash, unchecked. */
void hrf_columns_hash(const struct hrf_columns *row, struct hrf_hash *hash);
/* Reads a process from six columns: host, boot, pid_space, pid, start_time, beat_ms. */
void hrf_owner_read(struct hrf_columns *row, struct hrf_owner *out);
/* Binds the same six values to the parameters from `first` on. */
void hrf_owner_bind(sqlite3_stmt *statement, int first, const struct hrf_owner *owner);
/* Marks the row as failed because of column i. `what` completes the message: "is no list of ids".
 */
void hrf_column_refuse(struct hrf_columns *row, int i, const char *what);

#endif
