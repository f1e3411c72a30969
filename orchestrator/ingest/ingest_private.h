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
    const struct hrf_slide_rows *known; /* hrf_ingest() */
    struct ingest_file *files;          /* [rows.n_items], heap; NULL until they were looked at */
    struct hrf_strbuf *warnings;        /* may be NULL */
};

/* Adds the file at `path` without checking that it exists; its name is the stem. The row is valid
 * until the next call. */
struct hrf_slide_row *ingest_add(struct ingest *ingest, const char *path);
void ingest_warn(struct ingest *ingest, const char *format, ...) HRF_PRINTF(2, 3);
/* Parses "tumor", "1", "positive" and so on; *known is false for any other word. */
enum hrf_truth ingest_truth(const char *word, bool *known);
/* The same, but a word that is one of the model's classes means that class. */
enum hrf_truth ingest_label(const struct ingest *ingest, const char *word, bool *known);

/* ingest_csv() with the table's mistakes as findings: the first few, and the number of the rest. */
HRF_CHECKED enum hrf_status ingest_csv_read(struct ingest *ingest, struct hrf_findings *findings,
                                            struct hrf_error *err);
HRF_CHECKED enum hrf_status ingest_files(struct ingest *ingest, struct hrf_error *err);
HRF_CHECKED enum hrf_status ingest_csv(struct ingest *ingest, struct hrf_error *err);
HRF_CHECKED enum hrf_status ingest_camelyon16(struct ingest *ingest, struct hrf_error *err);

/* names.c: replaces stems by unique names; makes rows that `exclude` names EXCLUDED; warns of names
 * that are too long for file names. */
void ingest_name(struct ingest *ingest);
void ingest_exclude(struct ingest *ingest);
void ingest_warn_of_long_names(struct ingest *ingest);

/* same.c: keeps the first of several rows that are one slide: by their paths, and, after `files`
 * was filled, PENDING rows by file and by content. HRF_E_USER: they have two labels. */
HRF_CHECKED enum hrf_status ingest_merge_paths(struct ingest *ingest, struct hrf_error *err);
HRF_CHECKED enum hrf_status ingest_merge_files(struct ingest *ingest, struct hrf_error *err);
/* Excludes the cohort's rows that are slides of the sample, by path, file or content. */
HRF_CHECKED enum hrf_status ingest_leave_out(struct ingest *cohort, const struct ingest *sample,
                                             struct hrf_error *err);

#endif
