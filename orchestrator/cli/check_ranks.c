/* check_ranks.c - whether jobs of several ranks can be started: MPI, and what starts ranks. */
#include "base/process.h"
#include "base/text.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/launch/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* True if PATH has the program. */
static bool is_in_path(const char *name)
{
    const char *at = getenv("PATH");
    while (at != NULL) {
        HRF_AUTO_FREE char *file = hrf_format("%.*s/%s", (int)strcspn(at, ":"), at, name);
        if (file != NULL && access(file, X_OK) == 0)
            return true;
        at = strchr(at, ':');
        at = at != NULL ? at + 1 : NULL;
    }
    return false;
}

/* Why the engine has no MPI here: heap; NULL: it has, or does not tell. */
static enum hrf_status ask_engine(char **why, struct hrf_error *err)
{
    static const char lack[] = "\nmpi: missing: ";
    enum { PATIENCE_MS = 30000, MOST_BYTES = 1 << 16 };
    HRF_AUTO_FREE char *program = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) out = HRF_STRBUF_INIT;
    struct hrf_process_result result;
    HRF_TRY(hrf_launch_find_engine(&program, err));
    const char *const argv[] = { program, "version", NULL };
    HRF_TRY(hrf_process_run(argv, NULL, NULL, PATIENCE_MS, MOST_BYTES, &out, NULL, &result, err));
    const char *line = out.text != NULL ? strstr(out.text, lack) : NULL;
    if (line == NULL)
        return HRF_OK;
    line += sizeof lack - 1;
    *why = hrf_format("%.*s", (int)strcspn(line, "\n"), line);
    HRF_CHECK_MEMORY(*why != NULL, err, "no memory for a message");
    return HRF_OK;
}

enum hrf_status hrf_cli_check_ranks(const struct hrf_workflow *w, struct hrf_error *err)
{
    const struct hrf_workflow_executor *e = &w->executor;
    const bool is_slurm = e->type == HRF_EXECUTOR_SLURM;
    const int64_t n = is_slurm ? e->slurm.nodes * e->slurm.ranks_per_node : e->local.ranks;
    const char *key = is_slurm ? "executor.slurm (nodes, ranks_per_node)" : "executor.local.ranks";
    HRF_AUTO_FREE char *why = NULL;
    if (n <= 1 || (is_slurm && e->slurm.container.n_items > 0)) /* the image has its own engine */
        return HRF_OK;
    HRF_TRY(ask_engine(&why, err));
    /* A login node may lack the library that the nodes load as a module; the engine is the same. */
    const bool is_built_without = why != NULL && strstr(why, "does not exist") != NULL;
    if (why != NULL && is_built_without)
        return hrf_error_set(
            err, HRF_E_EXTERNAL,
            "%s asks for %lld ranks a job, and hires-engine was built without MPI: "
            "build it where libopenmpi-dev is installed, or ask for one rank (%s)",
            key, (long long)n, why);
    if (why != NULL && !is_slurm)
        return hrf_error_set(err, HRF_E_EXTERNAL,
                             "%s asks for %lld ranks a job, and MPI is not there: install "
                             "openmpi-bin, or ask for one rank (%s)",
                             key, (long long)n, why);
    if (!is_slurm && e->local.launcher.n_items == 0 && !is_in_path("mpirun"))
        return hrf_error_set(
            err, HRF_E_EXTERNAL,
            "%s asks for %lld ranks a job, and there is no mpirun in PATH: install "
            "openmpi-bin, name what starts ranks (executor.local.launcher), or ask "
            "for one rank",
            key, (long long)n);
    return HRF_OK;
}
