/* check_ranks.c - whether jobs of several ranks can be started: MPI, and what starts ranks. */
#include "orchestrator/cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* True if PATH has the program. */
static bool is_in_path(const char *name)
{
    const char *at = getenv("PATH");
    while (at != NULL) {
        HRF_AUTO_FREE char *file = hrf_format("%.*s/%s", (int)strcspn(at, ":"), at, name);
        if (access(file, X_OK) == 0)
            return true;
        at = strchr(at, ':');
        at = at != NULL ? at + 1 : NULL;
    }
    return false;
}

enum hrf_status hrf_cli_check_ranks(const struct hrf_workflow *w, struct hrf_error *err)
{
    const struct hrf_workflow_executor *e = &w->executor;
    const bool is_slurm = e->type == HRF_EXECUTOR_SLURM;
    const int64_t n = is_slurm ? e->slurm.nodes * e->slurm.ranks_per_node : e->local.ranks;
    const char *key = is_slurm ? "executor.slurm (nodes, ranks_per_node)" : "executor.local.ranks";
    if (n <= 1 || (is_slurm && e->slurm.container.n_items > 0)) /* the image has its own engine */
        return HRF_OK;
    HRF_AUTO_FREE struct hrf_engine_version *engine = hrf_calloc(1, sizeof *engine);
    HRF_TRY(hrf_cli_ask_version(engine, err));
    const struct hrf_error *why = &engine->parts[HRF_PART_MPI].error;
    /* A login node may lack the library that the nodes load as a module; the engine is the same. */
    if (why->status != HRF_OK && (!is_slurm || why->id == HRF_ERROR_MODULE_MISSING)) {
        if (err != NULL)
            *err = *why;
        return hrf_error_wrap(err, HRF_E_EXTERNAL,
                              "%s asks for %lld ranks a job, which need MPI (openmpi-bin, and "
                              "libopenmpi-dev to build it); or ask for one rank",
                              key, (long long)n);
    }
    if (!is_slurm && e->local.launcher.n_items == 0 && !is_in_path("mpirun"))
        return hrf_error_set(
            err, HRF_E_EXTERNAL,
            "%s asks for %lld ranks a job, and there is no mpirun in PATH: install "
            "openmpi-bin, name what starts ranks ({executor.local.launcher}), or ask "
            "for one rank",
            key, (long long)n);
    return HRF_OK;
}
