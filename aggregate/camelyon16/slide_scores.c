/* slide_scores.c - finds the columns and reads the rows. */
#include "aggregate/camelyon16/slide_scores.h"

#include "aggregate/camelyon16/exclusions.h"
#include "base/csv.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void hrf_slide_scores_destroy(struct hrf_slide_scores *scores)
{
    if (scores == NULL)
        return;
    for (size_t i = 0; i < scores->n_items; i++)
        hrf_free(scores->items[i].name);
    hrf_free(scores->items);
    hrf_free(scores);
}

struct columns {
    size_t name, score, precision, state; /* the last two: the number of fields if there is none */
    const char *wanted;                   /* precision; NULL = all */
    bool has_header;
};

static bool take_number(const char *text, double *out)
{
    char *end = NULL;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*out);
}

/* The column with one of these titles; n_fields: none. */
static size_t find_title(const struct hrf_csv_row *row, const char *const *titles)
{
    for (; *titles != NULL; titles++)
        for (size_t i = 0; i < row->n_fields; i++)
            if (strcasecmp(row->fields[i], *titles) == 0)
                return i;
    return row->n_fields;
}

static enum hrf_status find_columns(const struct hrf_csv *csv, const char *where,
                                    const char *column, struct columns *out, struct hrf_error *err)
{
    static const char *const names[] = { "slide", "slide_name", "name", "image", "case", NULL };
    static const char *const scores[] = { "score", "probability", "p", NULL };
    const char *const wanted[] = { column, NULL };
    static const char *const precisions[] = { "precision", NULL };
    static const char *const states[] = { "state", NULL };
    *out = (struct columns){ .name = 0, .score = 1, .precision = SIZE_MAX, .state = SIZE_MAX };
    if (csv->n_rows == 0)
        return hrf_error_set(err, HRF_E_USER, "%s: no slide", where);
    const struct hrf_csv_row *row = &csv->rows[0];
    double ignored;
    if (column == NULL && row->n_fields >= 2 && take_number(row->fields[1], &ignored))
        return HRF_OK;
    out->has_header = true;
    const size_t name = find_title(row, names);
    const size_t score = find_title(row, column != NULL ? wanted : scores);
    if (column != NULL && score == row->n_fields)
        return hrf_error_set(err, HRF_E_USER, "%s:%d: no column '%.100s'", where, row->line,
                             column);
    out->precision = find_title(row, precisions);
    out->state = find_title(row, states);
    out->name = name < row->n_fields ? name : 0;
    out->score = score < row->n_fields ? score : 1;
    return HRF_OK;
}

static enum hrf_status take_row(struct hrf_slide_scores *scores, const struct hrf_csv_row *row,
                                const struct columns *columns, const char *where,
                                struct hrf_error *err)
{
    char name[HRF_CAMELYON16_NAME];
    struct hrf_named_score item = { .line = row->line };
    const char *text = columns->score < row->n_fields ? row->fields[columns->score] : "";
    if (columns->wanted != NULL && columns->precision < row->n_fields &&
        strcmp(row->fields[columns->precision], columns->wanted) != 0)
        return HRF_OK;
    if (text[0] == '\0' && columns->state < row->n_fields)
        return HRF_OK; /* a run's slide without a score */
    if (columns->name >= row->n_fields || row->fields[columns->name][0] == '\0')
        return hrf_error_set(err, HRF_E_USER, "%s:%d: no slide's name", where, row->line);
    if (!take_number(text, &item.score))
        return hrf_error_set(err, HRF_E_USER, "%s:%d: the score '%.40s' of %.100s is not a number",
                             where, row->line, text, row->fields[columns->name]);
    hrf_camelyon16_name(row->fields[columns->name], name);
    item.name = hrf_strdup(name);
    scores->items[scores->n_items++] = item;
    return HRF_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct hrf_named_score *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order != 0 ? order : (x->line > y->line) - (x->line < y->line);
}

static enum hrf_status merge_equal(struct hrf_slide_scores *scores, const char *where,
                                   struct hrf_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < scores->n_items; i++) {
        struct hrf_named_score *item = &scores->items[i],
                               *last = n > 0 ? &scores->items[n - 1] : NULL;
        if (last == NULL || strcmp(last->name, item->name) != 0) {
            const struct hrf_named_score kept = *item;
            item->name = NULL;
            scores->items[n++] = kept;
            continue;
        }
        if (last->score != item->score)
            return hrf_error_set(err, HRF_E_USER,
                                 "%s: %s has the score %g in line %d and %g in "
                                 "line %d",
                                 where, item->name, last->score, last->line, item->score,
                                 item->line);
        hrf_free(item->name);
        item->name = NULL;
    }
    scores->n_items = n;
    return HRF_OK;
}

static enum hrf_status take_rows(const struct hrf_csv *csv, const char *where, const char *column,
                                 const char *precision, struct hrf_slide_scores **out,
                                 struct hrf_error *err)
{
    struct columns columns;
    HRF_TRY(find_columns(csv, where, column, &columns, err));
    columns.wanted = precision;
    if (precision == NULL && csv->n_rows > 1 && columns.precision < csv->rows[1].n_fields)
        columns.wanted = csv->rows[1].fields[columns.precision];
    if (precision != NULL && (!columns.has_header || columns.precision >= csv->rows[0].n_fields))
        return hrf_error_set(err, HRF_E_USER, "%s: no column 'precision'", where);
    HRF_AUTO(hrf_slide_scores) scores = hrf_calloc(1, sizeof *scores);
    scores->items = hrf_calloc(csv->n_rows + 1, sizeof *scores->items);
    for (size_t i = columns.has_header; i < csv->n_rows; i++)
        HRF_TRY(take_row(scores, &csv->rows[i], &columns, where, err));
    qsort(scores->items, scores->n_items, sizeof *scores->items, by_name);
    HRF_TRY(merge_equal(scores, where, err));
    HRF_MOVE(*out, scores);
    return HRF_OK;
}

enum hrf_status hrf_slide_scores_parse(const char *text, size_t n_bytes, const char *where,
                                       const char *column, const char *precision,
                                       struct hrf_slide_scores **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_csv) csv = NULL;
    HRF_TRY(hrf_csv_parse(text, n_bytes, where, &csv, err));
    return take_rows(csv, where, column, precision, out, err);
}

enum hrf_status hrf_slide_scores_read(const char *path, const char *column, const char *precision,
                                      struct hrf_slide_scores **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_csv) csv = NULL;
    HRF_TRY(hrf_csv_read(path, &csv, err));
    return take_rows(csv, path, column, precision, out, err);
}
