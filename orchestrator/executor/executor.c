/* executor.c - the table of executors (executor.h). */
#include "orchestrator/executor/executor.h"

typedef enum hrf_status create(const struct hrf_workflow_executor *settings, const char *run_id,
                               struct hrf_executor **out, struct hrf_error *err);

static create *const table[] = { [HRF_EXECUTOR_LOCAL] = hrf_executor_local_create,
                                 [HRF_EXECUTOR_SLURM] = hrf_executor_slurm_create };

enum hrf_status hrf_executor_create(const struct hrf_workflow_executor *settings,
                                    const char *run_id, struct hrf_executor **out,
                                    struct hrf_error *err)
{
    return table[settings->type](settings, run_id, out, err);
}
