/* head_table.c - see head_table.h. */
#include "orchestrator/run/head_table.h"

#include <string.h>

int run_head_table_column(const struct hrf_csv *csv, const char *name)
{
    for (size_t i = 0; csv->n_rows > 0 && i < csv->rows[0].n_fields; i++)
        if (strcmp(csv->rows[0].fields[i], name) == 0)
            return (int)i;
    return -1;
}

const char *run_head_table_cell(const struct hrf_csv_row *row, int column)
{
    return row != NULL && column >= 0 && (size_t)column < row->n_fields ? row->fields[column] : "";
}

enum hrf_status run_head_table_read(const struct hrf_workflow *w, struct run_head_table *out,
                                    struct hrf_error *err)
{
    const char *path = w->slide_head.table;
    *out = (struct run_head_table){ .slide = -1, .patient = -1, .split = -1 };
    if (path == NULL)
        return HRF_OK;
    HRF_TRY(hrf_csv_read(path, &out->csv, err));
    out->slide = run_head_table_column(out->csv, "slide");
    out->patient = run_head_table_column(out->csv, "patient");
    out->split = run_head_table_column(out->csv, "split");
    if (out->slide < 0 || (out->split < 0 && w->slide_head.split == HRF_HEADS_BY_TABLE))
        return hrf_error_set(err, HRF_E_USER, "'%s' has no column '%s'", path,
                             out->slide < 0 ? "slide" : "split");
    return HRF_OK;
}

enum hrf_status run_head_table_find(const struct hrf_workflow *w,
                                    const struct run_head_table *table, const char *slide,
                                    const struct hrf_csv_row **out, struct hrf_error *err)
{
    *out = NULL;
    for (size_t i = 1; table->csv != NULL && i < table->csv->n_rows; i++) {
        const struct hrf_csv_row *row = &table->csv->rows[i];
        if (strcmp(run_head_table_cell(row, table->slide), slide) != 0)
            continue;
        if (*out != NULL)
            return hrf_error_set(err, HRF_E_USER, "%s:%d: slide '%s' is already in line %d",
                                 w->slide_head.table, row->line, slide, (*out)->line);
        *out = row;
    }
    if (*out == NULL && w->slide_head.split == HRF_HEADS_BY_TABLE)
        return hrf_error_set(
            err, HRF_E_USER,
            "'%s' has no line for slide '%s': it must say whether the slide trains "
            "or tests a head",
            w->slide_head.table, slide);
    return HRF_OK;
}

const char *run_head_table_part(const struct hrf_workflow *w, const struct run_head_table *table,
                                const char *slide, const struct hrf_csv_row *line)
{
    switch (w->slide_head.split) {
    case HRF_HEADS_BY_FOLDS:
        return "";
    case HRF_HEADS_BY_DATASET:
        return strncmp(slide, "test_", 5) == 0 ? "testing" : "training";
    case HRF_HEADS_BY_TABLE:
        break;
    }
    return run_head_table_cell(line, table->split);
}

void run_head_table_release(struct run_head_table *table)
{
    hrf_csv_destroy(table->csv);
}
