/* preview.h - determines what a run would do, task by task, without doing or writing anything. */
#ifndef HRF_ORCHESTRATOR_RUN_PREVIEW_H
#define HRF_ORCHESTRATOR_RUN_PREVIEW_H

#include "base/strbuf.h"
#include "schema/store/tasks.h"
#include "schema/workflow/workflow.h"

enum hrf_preview_reason {
    HRF_PREVIEW_CACHED,  /* its result is in the store */
    HRF_PREVIEW_NEW,     /* the store has never held it */
    HRF_PREVIEW_CHANGED, /* its inputs have changed since the store's version was planned */
    HRF_PREVIEW_OPEN,    /* planned in the store, but not done yet or failed */
    /* Inference of a slide that is not tiled yet, or in INT8 before its ranges are known; slide
     * heads before all slides have embeddings. */
    HRF_PREVIEW_UNKNOWN
};
/* The reason's name: "cached", "new", ... */
const char *hrf_preview_reason_name(enum hrf_preview_reason reason);

struct hrf_preview_task {
    struct hrf_task_row row; /* kind, key, slide_id, precision, patches; n_patches -1: unknown */
    enum hrf_preview_reason reason;
};
struct hrf_preview {
    struct hrf_slide_rows slides;
    struct hrf_preview_task *tasks; /* tile tasks first, then infer, train, head; a train task is of
                                     * no slide: slide_id 0 */
    size_t n_tasks;
    struct hrf_strbuf warnings;       /* from ingest, one per line */
    int64_t n_jobs[HRF_N_TASK_KINDS]; /* jobs that the known tasks would become */
    bool has_run;                     /* the directory holds a run */
    bool brings_scales;               /* the model's file has INT8 ranges of its own */
};
void hrf_preview_release(struct hrf_preview *preview);

HRF_CHECKED enum hrf_status hrf_preview_make(const struct hrf_workflow *workflow,
                                             const char *directory, struct hrf_preview *out,
                                             struct hrf_error *err);

#endif
