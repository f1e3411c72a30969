#include "base/csv.h"

#include "base/path.h"

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
        s += strcspn(s, ",\r\n");
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

static enum hrf_status take_row(struct parser *p, char **in, struct hrf_error *err)
{
    struct hrf_csv *csv = p->csv;
    HRF_TRY(hrf_array_reserve((void **)&csv->rows, &p->rows_capacity, csv->n_rows + 1,
                              sizeof csv->rows[0], err));
    struct hrf_csv_row row = { .line = p->line };
    size_t first = p->n_fields;
    for (bool more = true; more;) {
        char *field;
        int start = p->line;
        if (!take_field(p, in, &field))
            return hrf_error_set(err, HRF_E_USER, "%s:%d: a quote is opened and never closed",
                                 p->where, start);
        HRF_TRY(hrf_array_reserve((void **)&csv->fields, &p->fields_capacity, p->n_fields + 1,
                                  sizeof csv->fields[0], err));
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
    if (csv == NULL || (csv->text = hrf_strndup(text, n_bytes)) == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for %s", where);
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
    size_t first = 0;
    for (size_t i = 0; i < csv->n_rows; i++) {
        csv->rows[i].fields = csv->fields + first;
        first += csv->rows[i].n_fields;
    }
    *out = csv;
    csv = NULL;
    return HRF_OK;
}

enum hrf_status hrf_csv_read(const char *path, struct hrf_csv **out, struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = NULL;
    size_t n_bytes = 0;
    HRF_TRY(hrf_file_read(path, CSV_FILE_LIMIT, &text, &n_bytes, err));
    return hrf_csv_parse(text, n_bytes, path, out, err);
}
