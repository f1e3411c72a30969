/* ingest_private.h - the cohort while it is being made, and one function per dataset layout. */
#ifndef HRF_ORCHESTRATOR_INGEST_INGEST_PRIVATE_H
#define HRF_ORCHESTRATOR_INGEST_INGEST_PRIVATE_H

#include "orchestrator/ingest/ingest.h"

/* The result of stat() for a slide's file. */
struct ingest_file {
    uint64_t device, inode;
    bool is_regular; /* it exists and is a regular file */
};

struct ingest {
    const struct hrf_workflow_dataset *dataset;
    const struct hrf_workflow_model *model; /* whose classes labels may name; NULL: no labels */
    const char *section;                    /* the workflow's section that names the dataset */
    struct hrf_slide_rows rows;
    size_t capacity;
    struct ingest_file *files;   /* [rows.n_items], heap; NULL until they were looked at */
    struct hrf_strbuf *warnings; /* may be NULL */
};

/* Adds the file at `path` without checking that it exists; its name is the stem. *row (may be NULL)
 * is valid until the next call. */
HRF_CHECKED enum hrf_status ingest_add(struct ingest *ingest, const char *path,
                                       struct hrf_slide_row **row, struct hrf_error *err);
void ingest_warn(struct ingest *ingest, const char *format, ...) HRF_PRINTF(2, 3);
/* Parses "tumor", "1", "positive" and so on; *known is false for any other word. */
enum hrf_truth ingest_truth(const char *word, bool *known);
/* The same, but a word that is one of the model's classes means that class. */
enum hrf_truth ingest_label(const struct ingest *ingest, const char *word, bool *known);

HRF_CHECKED enum hrf_status ingest_files(struct ingest *ingest, struct hrf_error *err);
HRF_CHECKED enum hrf_status ingest_csv(struct ingest *ingest, struct hrf_error *err);
HRF_CHECKED enum hrf_status ingest_camelyon16(struct ingest *ingest, struct hrf_error *err);

/* names.c: unique names in place of stems; rows that `exclude` names become EXCLUDED; names that do
 * not fit into those of files are told. */
HRF_CHECKED enum hrf_status ingest_name(struct ingest *ingest, struct hrf_error *err);
HRF_CHECKED enum hrf_status ingest_exclude(struct ingest *ingest, struct hrf_error *err);
HRF_CHECKED enum hrf_status ingest_tell_names(struct ingest *ingest, struct hrf_error *err);

/* same.c: leaves the first of rows that are one slide, by their paths, then (of those that are
 * PENDING, once they were looked at) by file and by content. HRF_E_USER: they have two labels. */
HRF_CHECKED enum hrf_status ingest_merge_paths(struct ingest *ingest, struct hrf_error *err);
HRF_CHECKED enum hrf_status ingest_merge_files(struct ingest *ingest, struct hrf_error *err);
/* Excludes the cohort's rows that are slides of the sample, by path, file or content. */
HRF_CHECKED enum hrf_status ingest_leave_out(struct ingest *cohort, const struct ingest *sample,
                                             struct hrf_error *err);

#endif
