#include "engine/cli/ranks.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/module.h"
#include "base/process.h"
#include "engine/comm/mpi/mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* DEADLINE_MS: for a rank that shows no progress although another waits for it. STUCK_MS: for a
 * rank that was given a batch; a first batch of a large network on few cores takes minutes. */
enum { DEADLINE_MS = 120000, STUCK_MS = 600000, EXIT_TRY_AGAIN = 75 };

struct hrf_ranks {
    const struct hrf_mpi_module *mpi; /* NULL: one rank */
    struct hrf_comm *comm;
    struct hrf_share *share;
    struct hrf_rank_record record;
    char *directory;
    bool has_ended;
};

static int64_t milliseconds(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    const int64_t value = text != NULL ? strtoll(text, NULL, 10) : 0;
    return value > 0 ? value : otherwise;
}

static void write_record(struct hrf_ranks *ranks)
{
    struct hrf_error err;
    if (ranks->comm != NULL && hrf_rank_write(ranks->directory, &ranks->record, &err) != HRF_OK)
        hrf_log_warning("engine", "%s", err.text); /* the others and the launcher go on without */
}

void hrf_ranks_tell_end(struct hrf_ranks *ranks, enum hrf_rank_state state, int exit_code,
                        const char *reason)
{
    struct hrf_rank_record *r = &ranks->record;
    if (ranks->has_ended)
        return;
    ranks->has_ended = true;
    r->state = state;
    r->exit_code = exit_code;
    r->end_ms = hrf_clock_wall_ms();
    snprintf(r->reason, sizeof r->reason, "%.*s", (int)sizeof r->reason - 1, reason);
    write_record(ranks);
}

static void on_abort(void *context, const char *why)
{
    hrf_ranks_tell_end(context, HRF_RANK_FAILED, EXIT_TRY_AGAIN, why);
}

void hrf_ranks_abort(struct hrf_ranks *ranks, const char *reason)
{
    if (ranks->comm != NULL)
        ranks->comm->ops->abort(ranks->comm, reason);
}

/* What Slurm says of this rank must be what MPI says; what it was promised must be there. */
static enum hrf_status check_layout(const struct hrf_ranks *ranks, struct hrf_error *err)
{
    const struct hrf_rank_record *r = &ranks->record;
    const char *rank = getenv("SLURM_PROCID"), *local = getenv("SLURM_LOCALID");
    const char *node = getenv("SLURM_NODEID"), *cpus = getenv("SLURM_CPUS_PER_TASK");
    const bool is_step = getenv("SLURM_STEP_NUM_TASKS") != NULL;
    if (is_step && rank != NULL && strtoll(rank, NULL, 10) != r->rank)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "Slurm calls this rank %s, MPI calls it %lld: they do not speak of "
                             "the same ranks (srun --mpi=list, hires-flow doctor)",
                             rank, (long long)r->rank);
    if (cpus != NULL && strtoll(cpus, NULL, 10) > r->n_cpus)
        hrf_log_warning("engine",
                        "rank %lld may use %lld processors, not the %s it was given: "
                        "another rank may stand on them",
                        (long long)r->rank, (long long)r->n_cpus, cpus);
    hrf_log_info("engine", "rank %lld of %lld on %s (node %s, place %s): %lld processors, GPU %s",
                 (long long)r->rank, (long long)r->n_ranks, r->host, node != NULL ? node : "?",
                 local != NULL ? local : "?", (long long)r->n_cpus,
                 getenv("CUDA_VISIBLE_DEVICES") != NULL ? getenv("CUDA_VISIBLE_DEVICES") : "none");
    return HRF_OK;
}

static enum hrf_status join(struct hrf_ranks *ranks, int64_t n_ranks, struct hrf_error *err)
{
    const void *operations;
    char identity[200];
    const struct hrf_mpi_config config = { .deadline_ms = milliseconds("HRF_RANK_DEADLINE_MS",
                                                                       DEADLINE_MS),
                                           .n_ranks = (int32_t)n_ranks,
                                           .abort_code = EXIT_TRY_AGAIN,
                                           .on_abort = on_abort,
                                           .context = ranks };
    HRF_TRY(hrf_module_load("mpi", HRF_VERSION, &operations, err));
    ranks->mpi = operations;
    HRF_TRY(ranks->mpi->create(&config, &ranks->comm, err));
    ranks->record.rank = ranks->comm->rank;
    ranks->record.n_ranks = ranks->comm->n_ranks;
    snprintf(identity, sizeof identity, "rank %d %s", ranks->comm->rank, ranks->record.host);
    hrf_log_set_identity(identity);
    write_record(ranks);
    return check_layout(ranks, err);
}

static enum hrf_status fill(struct hrf_ranks *ranks, const char *directory, int64_t n_ranks,
                            struct hrf_error *err)
{
    ranks->directory = hrf_strdup(directory);
    if (ranks->directory == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    ranks->record = (struct hrf_rank_record){ .n_ranks = 1,
                                              .pid = getpid(),
                                              .n_cpus = hrf_process_cpu_count(),
                                              .begin_ms = hrf_clock_wall_ms(),
                                              .state = HRF_RANK_RUNNING };
    hrf_process_host_name(ranks->record.host, sizeof ranks->record.host);
    if (n_ranks > 1)
        HRF_TRY(join(ranks, n_ranks, err));
    const struct hrf_share_config config = {
        .comm = ranks->comm,
        .waiting = ranks->mpi != NULL ? ranks->mpi->waiting : NULL,
        .stuck_ms = milliseconds("HRF_RANK_STUCK_MS", STUCK_MS)
    };
    return hrf_share_create(&config, &ranks->share, err);
}

enum hrf_status hrf_ranks_create(const char *directory, int64_t n_ranks, struct hrf_ranks **out,
                                 struct hrf_error *err)
{
    struct hrf_ranks *ranks = hrf_calloc(1, sizeof *ranks);
    if (ranks == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the ranks of a job");
    enum hrf_status status = fill(ranks, directory, n_ranks, err);
    if (status != HRF_OK) {
        if (ranks->comm != NULL) /* the others wait for it */
            ranks->comm->ops->abort(ranks->comm, err != NULL ? err->text : "a rank failed");
        hrf_ranks_destroy(ranks);
        return status;
    }
    *out = ranks;
    return HRF_OK;
}

void hrf_ranks_destroy(struct hrf_ranks *ranks)
{
    if (ranks == NULL)
        return;
    hrf_share_destroy(ranks->share);
    if (ranks->comm != NULL)
        ranks->mpi->destroy(ranks->comm);
    hrf_free(ranks->directory);
    hrf_free(ranks);
}

struct hrf_share *hrf_ranks_share(struct hrf_ranks *ranks)
{
    return ranks->share;
}

bool hrf_ranks_is_root(const struct hrf_ranks *ranks)
{
    return hrf_share_is_root(ranks->share);
}

void hrf_ranks_count_batch(struct hrf_ranks *ranks)
{
    ranks->record.n_batches++;
}
