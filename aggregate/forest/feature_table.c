/* feature_table.c - reads and writes tables of features. */
#include "aggregate/forest/feature_table.h"

#include "aggregate/camelyon16/exclusions.h"
#include "base/array.h"
#include "base/csv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void hrf_feature_table_destroy(struct hrf_feature_table *table)
{
    if (table == NULL)
        return;
    for (size_t i = 0; i < table->n_rows; i++)
        hrf_free(table->rows[i].slide);
    hrf_free(table->rows);
    hrf_free(table);
}

struct columns {
    size_t slide, truth, features[HRF_MAP_FEATURES];
};

/* SIZE_MAX: there is none. */
static size_t find_title(const struct hrf_csv_row *titles, const char *a, const char *b)
{
    for (size_t i = 0; i < titles->n_fields; i++)
        if (strcasecmp(titles->fields[i], a) == 0 ||
            (b != NULL && strcasecmp(titles->fields[i], b) == 0))
            return i;
    return SIZE_MAX;
}

static enum hrf_status find_columns(const struct hrf_csv *csv, const char *where,
                                    struct columns *out, struct hrf_error *err)
{
    if (csv->n_rows == 0)
        return hrf_error_set(err, HRF_E_USER, "%s: no line of titles", where);
    const struct hrf_csv_row *titles = &csv->rows[0];
    out->slide = find_title(titles, "name", "slide");
    out->truth = find_title(titles, "tumor", "truth");
    if (out->slide == SIZE_MAX)
        return hrf_error_set(err, HRF_E_USER, "%s:1: no column 'name' or 'slide'", where);
    for (size_t i = 0; i < HRF_MAP_FEATURES; i++) {
        out->features[i] = find_title(titles, hrf_map_feature_names[i], NULL);
        if (out->features[i] == SIZE_MAX)
            return hrf_error_set(err, HRF_E_USER, "%s:1: no column '%s'", where,
                                 hrf_map_feature_names[i]);
    }
    return HRF_OK;
}

static const char *cell(const struct hrf_csv_row *row, size_t column)
{
    return column < row->n_fields ? row->fields[column] : "";
}

static enum hrf_status take_row(const struct hrf_csv_row *row, const struct columns *columns,
                                const char *where, struct hrf_feature_row *out,
                                struct hrf_error *err)
{
    char name[HRF_CAMELYON16_NAME];
    const char *truth = cell(row, columns->truth);
    char *end = NULL;
    out->truth = truth[0] == '\0'          ? -1
                 : strcmp(truth, "1") == 0 ? 1
                 : strcmp(truth, "0") == 0 ? 0
                                           : -2;
    if (out->truth == -2)
        return hrf_error_set(err, HRF_E_USER, "%s:%d: the truth '%.40s' is neither 1 nor 0", where,
                             row->line, truth);
    for (size_t i = 0; i < HRF_MAP_FEATURES; i++) {
        const char *text = cell(row, columns->features[i]);
        out->values[i] = strtod(text, &end);
        if (end == text || *end != '\0' || !isfinite(out->values[i]))
            return hrf_error_set(err, HRF_E_USER, "%s:%d: %s is '%.40s', not a number", where,
                                 row->line, hrf_map_feature_names[i], text);
    }
    hrf_camelyon16_name(cell(row, columns->slide), name);
    if (name[0] == '\0')
        return hrf_error_set(err, HRF_E_USER, "%s:%d: no slide's name", where, row->line);
    out->slide = hrf_strdup(name);
    return HRF_OK;
}

/* Tables are of hundreds of slides. */
static enum hrf_status check_new(const struct hrf_feature_table *table, const char *slide,
                                 const char *where, int line, struct hrf_error *err)
{
    for (size_t i = 0; i < table->n_rows; i++)
        if (strcmp(table->rows[i].slide, slide) == 0)
            return hrf_error_set(err, HRF_E_USER, "%s:%d: %s is there a second time", where, line,
                                 slide);
    return HRF_OK;
}

static enum hrf_status take_rows(const struct hrf_csv *csv, const char *where,
                                 struct hrf_feature_table **table, struct hrf_error *err)
{
    struct columns columns = { .slide = SIZE_MAX };
    HRF_TRY(find_columns(csv, where, &columns, err));
    if (*table == NULL)
        *table = hrf_calloc(1, sizeof **table);
    struct hrf_feature_table *t = *table;
    for (size_t i = 1; i < csv->n_rows; i++) {
        struct hrf_feature_row row = { .slide = NULL };
        HRF_RESERVE(t->rows, t->capacity, t->n_rows + 1);
        HRF_TRY(take_row(&csv->rows[i], &columns, where, &row, err));
        const enum hrf_status status = check_new(t, row.slide, where, csv->rows[i].line, err);
        if (status != HRF_OK) {
            hrf_free(row.slide);
            return status;
        }
        t->rows[t->n_rows++] = row;
    }
    return HRF_OK;
}

enum hrf_status hrf_feature_table_parse(const char *text, size_t n_bytes, const char *where,
                                        struct hrf_feature_table **table, struct hrf_error *err)
{
    HRF_AUTO(hrf_csv) csv = NULL;
    HRF_TRY(hrf_csv_parse(text, n_bytes, where, &csv, err));
    return take_rows(csv, where, table, err);
}

enum hrf_status hrf_feature_table_read(const char *path, struct hrf_feature_table **table,
                                       struct hrf_error *err)
{
    HRF_AUTO(hrf_csv) csv = NULL;
    HRF_TRY(hrf_csv_read(path, &csv, err));
    return take_rows(csv, path, table, err);
}

void hrf_feature_table_add_titles(struct hrf_strbuf *out)
{
    hrf_strbuf_adds(out, "slide,truth");
    for (size_t i = 0; i < HRF_MAP_FEATURES; i++)
        hrf_strbuf_addf(out, ",%s", hrf_map_feature_names[i]);
    hrf_strbuf_addc(out, '\n');
}

void hrf_feature_table_add_row(struct hrf_strbuf *out, const char *slide, int truth,
                               const double values[HRF_MAP_FEATURES])
{
    hrf_csv_add_cell(out, slide);
    hrf_strbuf_addf(out, truth >= 0 ? ",%d" : ",", truth);
    for (size_t i = 0; i < HRF_MAP_FEATURES; i++)
        hrf_strbuf_addf(out, ",%.17g", values[i]);
    hrf_strbuf_addc(out, '\n');
}
