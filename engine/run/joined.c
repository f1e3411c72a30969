/* joined.c - `--comm`: starts a command as a rank under MPI or with threads (joined.h). */
#include "engine/run/joined.h"

#include "base/module.h"
#include "module_builds.h"
#include "schema/settings/layout.h"

#include <stdlib.h>
#include <string.h>

enum { DEADLINE_MS = 600000 }; /* of one kernel on the largest images */

static enum hrf_status join(int32_t n_ranks, struct hrf_joined *joined, struct hrf_error *err)
{
    const void *operations;
    const struct hrf_mpi_config config = { .deadline_ms = DEADLINE_MS,
                                           .n_ranks = n_ranks,
                                           .abort_code = 1 };
    HRF_TRY(hrf_module_load("mpi", HRF_BUILD_MPI, &operations, err));
    joined->mpi = operations;
    return joined->mpi->create(&config, &joined->comm, err);
}

/* True if mpirun or srun --mpi=pmix started this process as one of several. */
static bool has_starter(void)
{
    const char *const numbers[] = { getenv("OMPI_COMM_WORLD_SIZE"),
                                    getenv("SLURM_STEP_NUM_TASKS") };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i] != NULL && strtol(numbers[i], NULL, 10) > 1)
            return true;
    return false;
}

static const struct comm_choice {
    const char *name;
    bool is_processes;
    enum hrf_transport transport;
} choices[] = {
    { "loop", false, HRF_TRANSPORT_AUTO }, { "mpi", true, HRF_TRANSPORT_HOST },
    { "ipc", true, HRF_TRANSPORT_IPC },    { "nccl", true, HRF_TRANSPORT_NCCL },
    { "auto", true, HRF_TRANSPORT_AUTO },
};

static const struct comm_choice *find_choice(const char *name)
{
    if (name == NULL || (strcmp(name, "auto") == 0 && !has_starter()))
        return &choices[0];
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++)
        if (strcmp(choices[i].name, name) == 0)
            return &choices[i];
    return NULL;
}

static enum hrf_status open_comm(const char *name, const char *layout, struct hrf_joined *joined,
                                 struct hrf_error *err)
{
    const struct comm_choice *choice = find_choice(name);
    struct hrf_layout_plan plan;
    *joined = (struct hrf_joined){ .mpi = NULL };
    if (choice == NULL)
        return hrf_error_set(err, HRF_E_USER,
                             "--comm '%s' is not known; loop (threads of this process), mpi "
                             "(processes, started by mpirun or srun --mpi=pmix), ipc (the same, "
                             "with GPUs of one node), nccl (the same, with a GPU each) and auto "
                             "are",
                             name);
    joined->transport = choice->transport;
    if (!choice->is_processes)
        return HRF_OK;
    if (layout == NULL)
        return hrf_error_set(err, HRF_E_USER,
                             "--comm %s needs a --layout that says what each rank does, e.g. "
                             "spatial=4, or auto",
                             name);
    if (strcmp(layout, "auto") == 0)
        return join(0, joined, err);
    HRF_TRY(hrf_layout_parse(layout, &plan, err));
    return join(hrf_layout_ranks(&plan), joined, err);
}

enum hrf_status hrf_joined_run(const char *name, const char *layout, hrf_joined_work *work,
                               const void *context, struct hrf_error *err)
{
    struct hrf_joined joined;
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_status status = open_comm(name, layout, &joined, &why);
    if (status == HRF_OK)
        status = work(context, &joined, &why);
    if (status != HRF_OK && joined.comm != NULL && joined.comm->n_ranks > 1)
        joined.comm->ops->abort(joined.comm, why.text);
    if (status != HRF_OK)
        *err = why;
    if (joined.mpi != NULL)
        joined.mpi->destroy(joined.comm);
    return status;
}
