/* doctor.h - the findings of `hires-flow doctor`, and those that concern Slurm. */
#ifndef HRF_ORCHESTRATOR_CLI_DOCTOR_H
#define HRF_ORCHESTRATOR_CLI_DOCTOR_H

#include "base/json.h"
#include "schema/workflow/workflow.h"

enum hrf_verdict { HRF_GOOD, HRF_WARNING, HRF_BAD };

struct hrf_doctor {
    json_t *findings; /* array of {subject, verdict, found, meaning} */
    bool is_bad;
};

/* Adds a finding; `meaning` says what it means for a run, `format` what was found. */
void hrf_doctor_add(struct hrf_doctor *doctor, enum hrf_verdict verdict, const char *subject,
                    const char *meaning, const char *format, ...) HRF_PRINTF(5, 6);
/* Adds findings from Slurm's commands, and with `probe` from a short test job of two ranks. If
 * there is no Slurm, one finding says so, which is bad only if `is_needed`. */
void hrf_doctor_slurm(struct hrf_doctor *doctor, const struct hrf_workflow_executor *settings,
                      const char *directory, bool is_needed, bool probe);

#endif
