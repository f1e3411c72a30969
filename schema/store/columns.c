/* columns.c - reads and checks the values of SQLite rows. */
#include "schema/store/columns.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The value as text for a message, shortened. */
static void describe(const struct hrf_columns *row, int i, char *out, size_t size)
{
    switch (sqlite3_column_type(row->statement, i)) {
    case SQLITE_INTEGER:
        snprintf(out, size, "%lld", (long long)sqlite3_column_int64(row->statement, i));
        return;
    case SQLITE_FLOAT:
        snprintf(out, size, "%g", sqlite3_column_double(row->statement, i));
        return;
    case SQLITE_TEXT:
        snprintf(out, size, "a text of %d bytes", sqlite3_column_bytes(row->statement, i));
        return;
    case SQLITE_BLOB:
        snprintf(out, size, "a blob of %d bytes", sqlite3_column_bytes(row->statement, i));
        return;
    default:
        snprintf(out, size, "NULL");
        return;
    }
}

void hrf_column_refuse(struct hrf_columns *row, int i, const char *what)
{
    char value[64];
    const char *name = sqlite3_column_name(row->statement, i);
    if (row->status != HRF_OK)
        return;
    describe(row, i, value, sizeof value);
    row->status = hrf_error_set(
        row->err, HRF_E_USER,
        "'%s' is damaged: %s in column '%s' of table '%s' %s; " HRF_STORE_WAY_OUT, row->store->path,
        value, name != NULL ? name : "?", row->table, what);
}

/* True if the row has been valid so far and its column i has that type. */
static bool is_of_type(struct hrf_columns *row, int i, int type, const char *what)
{
    if (row->status == HRF_OK && sqlite3_column_type(row->statement, i) != type)
        hrf_column_refuse(row, i, what);
    return row->status == HRF_OK;
}

int64_t hrf_column_int(struct hrf_columns *row, int i, int64_t low, int64_t high)
{
    char what[80];
    snprintf(what, sizeof what, "is no number from %lld to %lld", (long long)low, (long long)high);
    if (!is_of_type(row, i, SQLITE_INTEGER, what))
        return low > 0 ? low : 0;
    const int64_t value = sqlite3_column_int64(row->statement, i);
    if (value >= low && value <= high)
        return value;
    hrf_column_refuse(row, i, what);
    return low > 0 ? low : 0;
}

int64_t hrf_column_count(struct hrf_columns *row, int i)
{
    return hrf_column_int(row, i, 0, HRF_STORE_MAX_COUNT);
}

int64_t hrf_column_id(struct hrf_columns *row, int i)
{
    return hrf_column_int(row, i, 1, HRF_STORE_MAX_COUNT);
}

int64_t hrf_column_ms(struct hrf_columns *row, int i)
{
    return hrf_column_int(row, i, 0, HRF_STORE_MAX_MS);
}

int hrf_column_enum(struct hrf_columns *row, int i, int n)
{
    return (int)hrf_column_int(row, i, 0, n - 1);
}

bool hrf_column_bool(struct hrf_columns *row, int i)
{
    return hrf_column_int(row, i, 0, 1) != 0;
}

double hrf_column_score(struct hrf_columns *row, int i)
{
    const int type = sqlite3_column_type(row->statement, i);
    if (type == SQLITE_NULL)
        return (double)NAN;
    const double value = sqlite3_column_double(row->statement, i);
    if ((type != SQLITE_FLOAT && type != SQLITE_INTEGER) || !isfinite(value))
        hrf_column_refuse(row, i, "is no finite number");
    return row->status == HRF_OK ? value : 0;
}

double hrf_column_real(struct hrf_columns *row, int i)
{
    const int type = sqlite3_column_type(row->statement, i);
    const double value = sqlite3_column_double(row->statement, i);
    if ((type != SQLITE_FLOAT && type != SQLITE_INTEGER) || !isfinite(value) || value < 0)
        hrf_column_refuse(row, i, "is no number of 0 or more");
    return row->status == HRF_OK ? value : 0;
}

/* The text of column i and its length; NULL if it is NULL or not a text. */
static const char *text_of(struct hrf_columns *row, int i, size_t *n)
{
    if (sqlite3_column_type(row->statement, i) == SQLITE_NULL ||
        !is_of_type(row, i, SQLITE_TEXT, "is no text"))
        return NULL;
    const char *text = (const char *)sqlite3_column_text(row->statement, i);
    *n = (size_t)sqlite3_column_bytes(row->statement, i);
    if (text == NULL) {
        row->status = hrf_error_set(row->err, HRF_E_NOMEM, "'%s': no memory for a text of '%s'",
                                    row->store->path, row->table);
        return NULL;
    }
    if (strlen(text) == *n)
        return text;
    hrf_column_refuse(row, i, "has a NUL in the middle");
    return NULL;
}

char *hrf_column_text(struct hrf_columns *row, int i, bool is_needed)
{
    size_t n = 0;
    const char *text = text_of(row, i, &n);
    if (text == NULL && is_needed)
        hrf_column_refuse(row, i, "is no text");
    if (text == NULL || row->status != HRF_OK)
        return NULL;
    return hrf_strndup(text, n);
}

void hrf_column_copy(struct hrf_columns *row, int i, char *out, size_t size)
{
    size_t n = 0;
    const char *text = text_of(row, i, &n);
    out[0] = '\0';
    if (text == NULL)
        return;
    if (n >= size) {
        hrf_column_refuse(row, i, "is longer than it can be");
        return;
    }
    memcpy(out, text, n + 1);
}

const void *hrf_column_blob(struct hrf_columns *row, int i, size_t *n_bytes)
{
    *n_bytes = 0;
    if (sqlite3_column_type(row->statement, i) == SQLITE_NULL ||
        !is_of_type(row, i, SQLITE_BLOB, "is no blob"))
        return NULL;
    *n_bytes = (size_t)sqlite3_column_bytes(row->statement, i);
    const void *bytes = sqlite3_column_blob(row->statement, i);
    return bytes != NULL ? bytes : ""; /* SQLite returns NULL for zero bytes */
}

void hrf_owner_read(struct hrf_columns *row, struct hrf_owner *out)
{
    hrf_column_copy(row, 0, out->host, sizeof out->host);
    hrf_column_copy(row, 1, out->boot, sizeof out->boot);
    hrf_column_copy(row, 2, out->pid_space, sizeof out->pid_space);
    out->pid = hrf_column_id(row, 3);
    out->start_time = (uint64_t)hrf_column_int(row, 4, INT64_MIN, INT64_MAX);
    out->beat_ms = hrf_column_ms(row, 5);
}

void hrf_owner_bind(sqlite3_stmt *statement, int first, const struct hrf_owner *owner)
{
    hrf_bind_text(statement, first, owner->host);
    hrf_bind_text(statement, first + 1, owner->boot);
    hrf_bind_text(statement, first + 2, owner->pid_space);
    sqlite3_bind_int64(statement, first + 3, owner->pid);
    sqlite3_bind_int64(statement, first + 4, (int64_t)owner->start_time);
    sqlite3_bind_int64(statement, first + 5, owner->beat_ms);
}

void hrf_columns_hash(const struct hrf_columns *row, struct hrf_hash *hash)
{
    const int n = sqlite3_column_count(row->statement);
    for (int i = 0; i < n; i++) {
        const int type = sqlite3_column_type(row->statement, i);
        hrf_hash_int(hash, type);
        if (type == SQLITE_INTEGER) {
            hrf_hash_int(hash, sqlite3_column_int64(row->statement, i));
        } else if (type == SQLITE_FLOAT) {
            hrf_hash_double(hash, sqlite3_column_double(row->statement, i));
        } else if (type != SQLITE_NULL) {
            const void *bytes = sqlite3_column_blob(row->statement, i);
            hrf_hash_field(hash, bytes, (size_t)sqlite3_column_bytes(row->statement, i));
        }
    }
}
