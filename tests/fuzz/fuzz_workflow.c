/* fuzz_workflow.c - workflow files of any bytes are read or refused with a finding; what is read
 * is written so that it reads back the same. */
#include "schema/workflow/workflow.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Beside the golden files, so that the model that the corpus names is there. */
static const char where[] = "tests/golden/workflow/fuzz.yaml";

static void give_up(const char *why, const char *text)
{
    fprintf(stderr, "%s:\n%s\n", why, text);
    abort(); /* ci-allow: how a fuzz entry says no */
}

static void read_back(const struct hrf_workflow *workflow)
{
    HRF_AUTO(hrf_workflow) again = NULL;
    struct hrf_findings findings = HRF_FINDINGS_INIT;
    struct hrf_strbuf text = HRF_STRBUF_INIT, differences = HRF_STRBUF_INIT;
    struct hrf_error err;
    hrf_workflow_write(workflow, &text);
    if (hrf_workflow_parse(text.text, text.length, where, NULL, 0, &again, &findings, &err) !=
        HRF_OK)
        give_up(findings.text.text, text.text);
    hrf_workflow_differences(again, workflow, &differences);
    if (differences.length > 0)
        give_up(differences.text, text.text);
    hrf_findings_release(&findings);
    hrf_strbuf_release(&text);
    hrf_strbuf_release(&differences);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    HRF_AUTO(hrf_workflow) workflow = NULL;
    struct hrf_findings findings = HRF_FINDINGS_INIT;
    struct hrf_error err;
    enum hrf_status status = hrf_workflow_parse((const char *)data, size, where, NULL, 0, &workflow,
                                                &findings, &err);
    if (status == HRF_OK)
        read_back(workflow);
    else if (status == HRF_E_USER && findings.n_items == 0)
        give_up("refused without a finding", err.text);
    hrf_findings_release(&findings);
    return 0;
}
