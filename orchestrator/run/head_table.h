/* head_table.h - slide_head.split and slide_head.table: which slides train and test heads, and
 * their patients. */
#ifndef HRF_ORCHESTRATOR_RUN_HEAD_TABLE_H
#define HRF_ORCHESTRATOR_RUN_HEAD_TABLE_H

#include "base/csv.h"
#include "schema/workflow/workflow.h"

/* The table; without slide_head.table, csv is NULL and all columns are -1. */
struct run_head_table {
    struct hrf_csv *csv;       /* owned */
    int slide, patient, split; /* columns; -1: there is none */
};
HRF_CHECKED enum hrf_status run_head_table_read(const struct hrf_workflow *w,
                                                struct run_head_table *out, struct hrf_error *err);
void run_head_table_release(struct run_head_table *table);
/* Finds the table's line of a slide; NULL if there is none. HRF_E_USER: there are two, or none
 * although every slide needs one. */
HRF_CHECKED enum hrf_status run_head_table_find(const struct hrf_workflow *w,
                                                const struct run_head_table *table,
                                                const char *slide, const struct hrf_csv_row **out,
                                                struct hrf_error *err);
int run_head_table_column(const struct hrf_csv *csv, const char *name);     /* -1: there is none */
const char *run_head_table_cell(const struct hrf_csv_row *row, int column); /* "": there is none */
/* Returns "training", "testing" or the table's word; "" if folds decide. */
const char *run_head_table_part(const struct hrf_workflow *w, const struct run_head_table *table,
                                const char *slide, const struct hrf_csv_row *line);

#endif
