/* provenance.h - the inputs and programs behind a run's results, as names and texts for the report,
 * report.json and the paragraph for a paper (aggregate/report/methods.h). */
#ifndef HRF_ORCHESTRATOR_RUN_PROVENANCE_H
#define HRF_ORCHESTRATOR_RUN_PROVENANCE_H

#include "aggregate/study/cohort.h"
#include "schema/workflow/workflow.h"

enum { HRF_PROVENANCE_MAX = 24 };
struct hrf_provenance {
    struct hrf_named_text items[HRF_PROVENANCE_MAX]; /* their texts are in `texts` */
    char *texts[HRF_PROVENANCE_MAX];                 /* heap */
    size_t n_items;
};

/* Fills the provenance; model_sha256 is the hash of the model that scored the patches. */
HRF_CHECKED enum hrf_status hrf_provenance_fill(const struct hrf_workflow *workflow,
                                                struct hrf_store *store, const char *model_sha256,
                                                struct hrf_provenance *out, struct hrf_error *err);
void hrf_provenance_release(struct hrf_provenance *provenance);

#endif
