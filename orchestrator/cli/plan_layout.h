/* plan_layout.h - the part of `plan` on ranks: what each rank computes, holds and sends, before
 * anything runs. */
#ifndef HRF_ORCHESTRATOR_CLI_PLAN_LAYOUT_H
#define HRF_ORCHESTRATOR_CLI_PLAN_LAYOUT_H

#include "base/json.h"
#include "schema/workflow/workflow.h"

struct hrf_layout_request {
    const char *cluster;  /* machine file; NULL: this machine */
    const char *ranks;    /* the number of ranks: "4", "1..128"; NULL: the workflow's */
    const char *layout;   /* NULL: the workflow's, or, with `ranks`, the best */
    const char *timeline; /* a file to write; NULL: none */
    bool json;
};

/* Appends to `out` what `hires-engine plan` prints for the workflow's network in one precision. */
HRF_CHECKED enum hrf_status hrf_cli_plan_layout(const struct hrf_workflow *workflow,
                                                enum hrf_precision precision,
                                                const struct hrf_layout_request *request,
                                                struct hrf_strbuf *out, struct hrf_error *err);

/* The same as JSON, which the request has to ask for. New reference. */
HRF_CHECKED enum hrf_status hrf_cli_plan_layout_json(const struct hrf_workflow *workflow,
                                                     enum hrf_precision precision,
                                                     const struct hrf_layout_request *request,
                                                     json_t **answer, struct hrf_error *err);

/* Asks for the bytes that a rank holds for the network in the workflow's own layout. */
HRF_CHECKED enum hrf_status hrf_cli_plan_memory(const struct hrf_workflow *w,
                                                enum hrf_precision precision, int64_t *n_bytes,
                                                struct hrf_error *err);

#endif
