/* csv.c - reads and writes CSV, and defuses cells that a spreadsheet would take for formulas
 * (csv.h). */
#include "base/csv.h"

#include "base/array.h"
#include "base/file.h"
#include "base/text.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define CSV_FILE_LIMIT ((size_t)1 << 30)

struct parser {
    struct hrf_csv *csv;
    size_t n_fields, fields_capacity, rows_capacity;
    const char *where;
    int line;
};

void hrf_csv_destroy(struct hrf_csv *csv)
{
    if (csv == NULL)
        return;
    hrf_free(csv->text);
    hrf_free(csv->fields);
    hrf_free(csv->rows);
    hrf_free(csv);
}

/* Unescapes the field that starts at *in, in place; *in is left on its separator, which is
 * replaced by a NUL later. Returns false on an unclosed quote. */
static bool take_field(struct parser *p, char **in, char **field)
{
    char *s = *in, *out = s;
    *field = s;
    if (*s != '"') {
        while (*s != '\0' && *s != ',' && *s != '\r' && *s != '\n')
            s++; /* strcspn, checked by AddressSanitizer, measures all the text that is left */
        *in = s;
        return true;
    }
    for (s++;; s++) {
        if (*s == '\0')
            return false;
        if (*s == '"' && s[1] != '"')
            break;
        if (*s == '"')
            s++;
        if (*s == '\n')
            p->line++;
        *out++ = *s;
    }
    s++;
    while (*s != ',' && *s != '\r' && *s != '\n' && *s != '\0') /* junk after the quote: kept */
        *out++ = *s++;
    if (out < s)
        *out = '\0';
    *in = s;
    return true;
}

/* ---- marked cells ---- */

static const char formula[] = "=+-@'";

static bool needs_mark(const char *text)
{
    bool is_plain = true;
    char shown[HRF_TEXT_ESCAPED_SIZE];
    if (text[0] != '\0' && strchr(formula, text[0]) != NULL)
        return true;
    while (*text != '\0' && is_plain)
        text += hrf_text_escape_first(text, shown, &is_plain);
    return !is_plain;
}

static void add_character(struct hrf_strbuf *out, const char *shown)
{
    for (; *shown != '\0'; shown++) {
        if (*shown == '"')
            hrf_strbuf_addc(out, '"');
        hrf_strbuf_addc(out, *shown);
    }
}

void hrf_csv_add_cell(struct hrf_strbuf *out, const char *text)
{
    const bool is_marked = needs_mark(text), is_quoted = strpbrk(text, ",;\"") != NULL;
    hrf_strbuf_adds(out, is_quoted ? "\"" : "");
    hrf_strbuf_adds(out, is_marked ? "'" : "");
    while (*text != '\0') {
        char shown[HRF_TEXT_ESCAPED_SIZE];
        bool is_plain;
        if (is_marked && *text == '\\')
            hrf_strbuf_addc(out, '\\');
        text += hrf_text_escape_first(text, shown, &is_plain);
        add_character(out, shown);
    }
    hrf_strbuf_adds(out, is_quoted ? "\"" : "");
}

/* The character that the escape at `s` ("\\...") stands for, and its length; 0: it is none. */
static size_t read_escape(const char *s, char out[4], size_t *n_out)
{
    unsigned value = 0;
    *n_out = 1;
    out[0] = s[1] == 'n' ? '\n' : s[1] == 't' ? '\t' : '\\';
    if (s[1] == 'n' || s[1] == 't' || s[1] == '\\')
        return 2;
    const int digits = s[1] == 'x' ? 2 : s[1] == 'u' ? 4 : 0;
    for (int i = 0; i < digits; i++) {
        if (!isxdigit((unsigned char)s[2 + i]))
            return 0;
        const int c = tolower((unsigned char)s[2 + i]);
        value = value * 16 + (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    if (digits == 4 && value >= 0x800) { /* marks of direction are three bytes */
        out[0] = (char)(0xe0 | value >> 12);
        out[1] = (char)(0x80 | (value >> 6 & 63));
        out[2] = (char)(0x80 | (value & 63));
        *n_out = 3;
        return 6;
    }
    out[0] = (char)value;
    return digits == 2 && value != 0 ? 4 : 0;
}

/* Takes the mark off in place; what this program would not have marked stays. */
static void unmark(char *field)
{
    bool is_ours = field[0] == '\'' && field[1] != '\0' && strchr(formula, field[1]) != NULL;
    char bytes[4];
    size_t n, length;
    for (const char *s = field; field[0] == '\'' && (s = strchr(s, '\\')) != NULL; s += length) {
        length = read_escape(s, bytes, &n);
        if (length == 0)
            return;
        is_ours = true;
    }
    if (!is_ours)
        return;
    char *out = field;
    for (const char *s = field + 1; *s != '\0';) {
        length = *s == '\\' ? read_escape(s, bytes, &n) : 0;
        if (length == 0)
            *out++ = *s++;
        for (size_t i = 0; length > 0 && i < n; i++)
            *out++ = bytes[i];
        s += length;
    }
    *out = '\0';
}

/* ---- rows ---- */

static enum hrf_status take_row(struct parser *p, char **in, struct hrf_error *err)
{
    struct hrf_csv *csv = p->csv;
    HRF_RESERVE(csv->rows, p->rows_capacity, csv->n_rows + 1);
    struct hrf_csv_row row = { .line = p->line };
    size_t first = p->n_fields;
    for (bool more = true; more;) {
        char *field;
        int start = p->line;
        if (!take_field(p, in, &field))
            return hrf_error_set(err, HRF_E_USER, "%s:%d: a quote is opened and never closed",
                                 p->where, start);
        HRF_RESERVE(csv->fields, p->fields_capacity, p->n_fields + 1);
        csv->fields[p->n_fields++] = field;
        more = **in == ',';
        if (**in == '\r' && (*in)[1] == '\n')
            *(*in)++ = '\0';
        if (**in == '\n' || **in == '\r')
            p->line++;
        if (**in != '\0')
            *(*in)++ = '\0';
    }
    row.n_fields = p->n_fields - first;
    csv->rows[csv->n_rows++] = row; /* `fields` is set at the end: the array may still move */
    return HRF_OK;
}

enum hrf_status hrf_csv_parse(const char *text, size_t n_bytes, const char *where,
                              struct hrf_csv **out, struct hrf_error *err)
{
    if (memchr(text, '\0', n_bytes) != NULL)
        return hrf_error_set(err, HRF_E_USER, "%s: holds a NUL byte, so it is not a CSV text",
                             where);
    HRF_AUTO(hrf_csv) csv = hrf_calloc(1, sizeof *csv);
    csv->text = hrf_strndup(text, n_bytes);
    struct parser p = { .csv = csv, .where = where, .line = 1 };
    char *in = csv->text;
    if (strncmp(in, "\xef\xbb\xbf", 3) == 0)
        in += 3;
    while (*in != '\0') {
        if (*in == '\n' || *in == '\r') {
            p.line += *in == '\n';
            in++;
            continue;
        }
        HRF_TRY(take_row(&p, &in, err));
    }
    for (size_t i = 0; i < p.n_fields; i++)
        unmark(csv->fields[i]);
    size_t first = 0;
    for (size_t i = 0; i < csv->n_rows; i++) {
        csv->rows[i].fields = csv->fields + first;
        first += csv->rows[i].n_fields;
    }
    HRF_MOVE(*out, csv);
    return HRF_OK;
}

enum hrf_status hrf_csv_read(const char *path, struct hrf_csv **out, struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = NULL;
    size_t n_bytes = 0;
    HRF_TRY(hrf_file_read(path, CSV_FILE_LIMIT, &text, &n_bytes, err));
    return hrf_csv_parse(text, n_bytes, path, out, err);
}

int hrf_csv_column(const struct hrf_csv_row *titles, const char *title)
{
    for (size_t i = 0; i < titles->n_fields; i++)
        if (strcmp(titles->fields[i], title) == 0)
            return (int)i;
    return -1;
}

const char *hrf_csv_cell(const struct hrf_csv_row *row, int column)
{
    return column >= 0 && (size_t)column < row->n_fields ? row->fields[column] : "";
}
