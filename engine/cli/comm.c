#include "engine/cli/comm.h"

#include "base/module.h"
#include "engine/plan/layout.h"

#include <string.h>

enum { DEADLINE_MS = 600000 }; /* of a kernel on the largest images */

static enum hrf_status join(int32_t n_ranks, struct hrf_joined *joined, struct hrf_error *err)
{
    const void *operations;
    const struct hrf_mpi_config config = { .deadline_ms = DEADLINE_MS,
                                           .n_ranks = n_ranks,
                                           .abort_code = 1 };
    HRF_TRY(hrf_module_load("mpi", HRF_VERSION, &operations, err));
    joined->mpi = operations;
    return joined->mpi->create(&config, &joined->comm, err);
}

static enum hrf_status open_comm(const char *name, const char *layout, struct hrf_joined *joined,
                                 struct hrf_error *err)
{
    struct hrf_layout_plan plan;
    *joined = (struct hrf_joined){ .mpi = NULL };
    if (name == NULL || strcmp(name, "loop") == 0)
        return HRF_OK;
    if (strcmp(name, "mpi") != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "--comm '%s' is not known; loop (threads of this process) and mpi "
                             "(started by mpirun or srun --mpi=pmix) are",
                             name);
    if (layout == NULL)
        return hrf_error_set(err, HRF_E_USER,
                             "--comm mpi needs a --layout that says what each rank does, e.g. "
                             "spatial=4, or auto");
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
    if (status != HRF_OK && joined.comm != NULL)
        joined.comm->ops->abort(joined.comm, why.text);
    if (status != HRF_OK)
        *err = why;
    if (joined.mpi != NULL)
        joined.mpi->destroy(joined.comm);
    return status;
}
