/* doctor.h - findings of `hires-flow doctor`, and the part of them that is Slurm. */
#ifndef HRF_ORCHESTRATOR_CLI_DOCTOR_H
#define HRF_ORCHESTRATOR_CLI_DOCTOR_H

#include "base/json.h"
#include "schema/workflow/workflow.h"

enum hrf_verdict { HRF_GOOD, HRF_WARNING, HRF_BAD };

struct hrf_doctor {
    json_t *findings; /* array of {subject, verdict, found, meaning} */
    bool is_bad;
};

/* `meaning`: what it means for a run; the rest: what was found. */
void hrf_doctor_tell(struct hrf_doctor *doctor, enum hrf_verdict verdict, const char *subject,
                     const char *meaning, const char *format, ...) HRF_PRINTF(5, 6);
/* Asks Slurm's commands, and runs two ranks for a moment when `probe`. Without Slurm here it says
 * so in one line, which is bad only when `is_needed`. */
void hrf_doctor_slurm(struct hrf_doctor *doctor, const struct hrf_workflow_executor *settings,
                      const char *directory, bool is_needed, bool probe);

#endif
