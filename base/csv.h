/* csv.h - RFC 4180, and cells that stay text in a spreadsheet. Reading takes quotes, doubled
 * quotes, newlines in quotes, CRLF, a UTF-8 mark. */
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

/* Adds `text` as one cell that no spreadsheet takes for a formula and no terminal obeys. A text
 * that begins with = + - @ ' or holds control characters, marks of direction or bytes that are not
 * UTF-8 is marked by an apostrophe before it, and in it those characters are written as in
 * base/text.h and a backslash as two. Then the cell is quoted where RFC 4180 asks for it, or a ; is
 * in it. hrf_csv_parse() takes the marks off again: every text comes back as it was. Not for
 * numbers. */
void hrf_csv_add_cell(struct hrf_strbuf *out, const char *text);

#endif
