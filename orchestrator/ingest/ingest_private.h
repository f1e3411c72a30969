/* ingest_private.h - the growing cohort, and one function per layout. */
#ifndef HRF_ORCHESTRATOR_INGEST_INGEST_PRIVATE_H
#define HRF_ORCHESTRATOR_INGEST_INGEST_PRIVATE_H

#include "orchestrator/ingest/ingest.h"

struct ingest {
    const struct hrf_workflow_dataset *dataset;
    const char *section; /* of the workflow, that names it */
    struct hrf_slide_rows rows;
    size_t capacity;
    struct hrf_strbuf *warnings; /* may be NULL */
};

/* Adds the file at `path`, its name the stem made unique. *row (may be NULL) is valid until the
 * next call. A file that is not there becomes a FAILED row. */
HRF_CHECKED enum hrf_status ingest_add(struct ingest *ingest, const char *path,
                                       struct hrf_slide_row **row, struct hrf_error *err);
void ingest_warn(struct ingest *ingest, const char *format, ...) HRF_PRINTF(2, 3);
/* "tumor", "1", "positive" ...; *known false when it is none of the words. */
enum hrf_truth ingest_truth(const char *word, bool *known);

HRF_CHECKED enum hrf_status ingest_files(struct ingest *ingest, struct hrf_error *err);
HRF_CHECKED enum hrf_status ingest_csv(struct ingest *ingest, struct hrf_error *err);
HRF_CHECKED enum hrf_status ingest_camelyon16(struct ingest *ingest, struct hrf_error *err);

/* Names in a folder, sorted by bytes, without those that begin with a dot. */
struct name_list {
    char **items;
    size_t n_items;
};
HRF_CHECKED enum hrf_status ingest_list(const char *directory, struct name_list *out,
                                        struct hrf_error *err);
void ingest_list_release(struct name_list *list);

#endif
