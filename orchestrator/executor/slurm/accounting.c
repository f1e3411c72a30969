/* accounting.c - how one job ended, asked from the controller, the accounting database and the log
 * of ended jobs. */
#include "orchestrator/executor/slurm/accounting.h"

#include "orchestrator/executor/slurm/command.h"
#include "orchestrator/executor/slurm/script.h"

#include <stdio.h>
#include <string.h>

static void accounting_take(const struct hrf_slurm_end *end, enum hrf_job_observation observed,
                            enum hrf_cause cause, struct hrf_job_view *view)
{
    view->observed = observed;
    view->cause = cause;
    snprintf(view->state, sizeof view->state, "%s", end->state);
    snprintf(view->reason, sizeof view->reason, "%s", end->reason);
    if (strpbrk(end->nodes, ",[(") == NULL)
        snprintf(view->node, sizeof view->node, "%s", end->nodes);
}

static bool ask_controller(const char *id, const char *name, struct hrf_slurm_end *end)
{
    const char *const scontrol[] = { "scontrol", "-o", "show", "job", id, NULL };
    struct hrf_slurm_output out;
    if (!hrf_slurm_ask(scontrol, &out))
        return false;
    const bool found = hrf_slurm_job_parse(out.output.text, end) && strcmp(end->name, name) == 0;
    hrf_slurm_output_release(&out);
    return found;
}

static bool ask_accounting(const char *id, const char *name, struct hrf_slurm_end *end)
{
    const char *const sacct[] = {
        "sacct", "-X", "-n", "-P", "-D", "-j", id, "-S", "now-30days", "-o", HRF_SLURM_SACCT_FORMAT,
        NULL
    };
    struct hrf_slurm_output out;
    if (!hrf_slurm_ask(sacct, &out))
        return false;
    const bool found = hrf_slurm_sacct_parse(out.output.text, name, end);
    hrf_slurm_output_release(&out);
    return found;
}

/* The log of ended jobs (jobcomp/filetxt) lists array elements under their own job IDs only. */
static bool ask_completions(int64_t own_id, const char *name, struct hrf_slurm_end *end)
{
    char id[32];
    struct hrf_slurm_output out;
    snprintf(id, sizeof id, "%lld", (long long)own_id);
    const char *const sacct[] = { "sacct", "-c", "-n", "-P", "-j", id, "-o", HRF_SLURM_SACCT_FORMAT,
                                  NULL };
    if (!hrf_slurm_ask(sacct, &out))
        return false;
    const bool found = hrf_slurm_sacct_parse(out.output.text, name, end);
    hrf_slurm_output_release(&out);
    return found;
}

bool hrf_slurm_accounting_find(const struct hrf_slurm_limits *limits, const char *run_id,
                               const struct hrf_job_handle *handle, struct hrf_job_view *view)
{
    struct hrf_slurm_end end;
    enum hrf_job_observation observed;
    enum hrf_cause cause;
    char id[64], name[96];
    if (handle->id <= 0)
        return false;
    snprintf(id, sizeof id, "%lld_%lld", (long long)handle->id, (long long)handle->array_index);
    hrf_slurm_name(run_id, handle->submission, name);
    if (ask_controller(id, name, &end)) {
        if (!hrf_slurm_state(end.state, &observed, &cause))
            observed = HRF_JOB_RUNNING; /* it exists, and is not known to have ended */
        accounting_take(&end, observed, cause, view);
        return true;
    }
    /* If the controller lost a job, accounting may say for ever that it runs: only ends count. */
    if (((limits->has_accounting && ask_accounting(id, name, &end)) ||
         (limits->has_completions && handle->own_id > 0 &&
          ask_completions(handle->own_id, name, &end))) &&
        hrf_slurm_state(end.state, &observed, &cause) && observed == HRF_JOB_ENDED) {
        accounting_take(&end, observed, cause, view);
        return true;
    }
    return false;
}
