/* head_table.h - slide_head.split and slide_head.table: which slides train and test, and of whom
 * they are. */
#ifndef HRF_ORCHESTRATOR_RUN_HEAD_TABLE_H
#define HRF_ORCHESTRATOR_RUN_HEAD_TABLE_H

#include "base/csv.h"
#include "schema/workflow/workflow.h"

/* Without slide_head.table all zeros but for the columns. */
struct run_head_table {
    struct hrf_csv *csv;       /* owned */
    int slide, patient, split; /* columns; -1: there is none */
};
HRF_CHECKED enum hrf_status run_head_table_read(const struct hrf_workflow *w,
                                                struct run_head_table *out, struct hrf_error *err);
void run_head_table_release(struct run_head_table *table);
/* The table's line of a slide; NULL: it has none. HRF_E_USER: it has two, or none where each has to
 * have one. */
HRF_CHECKED enum hrf_status run_head_table_find(const struct hrf_workflow *w,
                                                const struct run_head_table *table,
                                                const char *slide, const struct hrf_csv_row **out,
                                                struct hrf_error *err);
int run_head_table_column(const struct hrf_csv *csv, const char *name);     /* -1: there is none */
const char *run_head_table_cell(const struct hrf_csv_row *row, int column); /* "": there is none */
/* "training", "testing" or what the table says; "" where folds say it. */
const char *run_head_table_part(const struct hrf_workflow *w, const struct run_head_table *table,
                                const char *slide, const struct hrf_csv_row *line);

#endif
