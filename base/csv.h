/* csv.h - csv files by RFC 4180, with cells that a spreadsheet does not execute. The parser accepts
 * quotes, doubled quotes, newlines in quotes, CRLF and a byte order mark of UTF-8. */
#ifndef HRF_BASE_CSV_H
#define HRF_BASE_CSV_H

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"

#include <stddef.h>

struct hrf_csv_row {
    char **fields; /* NUL-terminated, owned by the table */
    size_t n_fields;
    int line; /* of its first field, from 1 */
};

struct hrf_csv {
    char *text; /* private */
    char **fields;
    struct hrf_csv_row *rows;
    size_t n_rows; /* empty lines are not rows */
};

/* `where` names the document in messages. A NUL byte or an unclosed quote is HRF_E_USER. */
HRF_CHECKED enum hrf_status hrf_csv_parse(const char *text, size_t n_bytes, const char *where,
                                          struct hrf_csv **out, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_csv_read(const char *path, struct hrf_csv **out,
                                         struct hrf_error *err);
void hrf_csv_destroy(struct hrf_csv *csv);
HRF_DEFINE_AUTO(hrf_csv)

/* The column of that title, -1 if there is none, and a row's cell in a column; "" if there is none.
 */
int hrf_csv_column(const struct hrf_csv_row *titles, const char *title);
const char *hrf_csv_cell(const struct hrf_csv_row *row, int column);

/* Appends `text` as one cell that no spreadsheet executes as a formula and no terminal obeys. If
 * the text begins with = + - @ ' or holds control characters, direction marks or bytes that are not
 * UTF-8, an apostrophe is put before it, those characters are escaped as in base/text.h, and a
 * backslash is doubled. The cell is quoted if RFC 4180 requires it or if it contains a semicolon.
 * hrf_csv_parse() reverses all of this. Do not use it for numbers. */
void hrf_csv_add_cell(struct hrf_strbuf *out, const char *text);

#endif
