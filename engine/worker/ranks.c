/* ranks.c - connects the ranks of a job and agrees on how they share it (ranks.h). */
#include "engine/worker/ranks.h"

#include "base/clock.h"
#include "base/crash.h"
#include "base/host.h"
#include "base/log.h"
#include "base/module.h"
#include "base/own_process.h"
#include "engine/comm/mpi/mpi.h"
#include "module_builds.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* STUCK_MS: for a rank that was given a batch; a first batch of a large network on few cores takes
 * minutes. */
enum { STUCK_MS = 600000 };
enum { ORDER_TAG = 1, FAREWELL_TAG = 2, NO_MORE = -1 };

struct hrf_ranks {
    const struct hrf_mpi_module *mpi; /* NULL: one rank */
    struct hrf_comm *comm;
    struct hrf_comm *group,
        *orders; /* NULL: the group has one rank. orders: the comm of the feed's readers */
    struct hrf_comm *leaders; /* NULL: this rank leads no group, or there is only one group */
    bool orders_ended;        /* of this task */
    struct hrf_work_queue *work_queue;
    struct hrf_rank_record record;
    char *directory;
    bool has_ended;
};

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
    r->n_cpus = hrf_process_cpu_count(); /* as it was bound near its GPU, if it was */
    hrf_process_cpu_list(r->cpus, sizeof r->cpus);
    r->cpu_ms = (int64_t)(hrf_clock_process_seconds() * 1e3) +
                1; /* 0 would mean that it is not known */
    r->peak_bytes = hrf_process_peak_memory();
    snprintf(r->reason, sizeof r->reason, "%.*s", (int)sizeof r->reason - 1, reason);
    write_record(ranks);
    hrf_crash_point("engine.rank.ended");
}

static void on_abort(void *context, const char *why)
{
    hrf_ranks_tell_end(context, HRF_RANK_FAILED, HRF_EXIT_TRY_AGAIN, why);
}

void hrf_ranks_abort(struct hrf_ranks *ranks, const char *reason)
{
    if (ranks->comm != NULL)
        ranks->comm->ops->abort(ranks->comm, reason);
}

/* Checks that Slurm and MPI agree on this rank, and that the job has what it was promised. */
static enum hrf_status check_layout(const struct hrf_ranks *ranks, struct hrf_error *err)
{
    const struct hrf_rank_record *r = &ranks->record;
    const char *rank = getenv("SLURM_PROCID"), *local = getenv("SLURM_LOCALID");
    const char *node = getenv("SLURM_NODEID"), *cpus = getenv("SLURM_CPUS_PER_TASK");
    const bool is_step = getenv("SLURM_STEP_NUM_TASKS") != NULL;
    if (is_step && rank != NULL && strtoll(rank, NULL, 10) != r->rank)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "Slurm numbers this rank %s, MPI numbers it %lld: they do not mean "
                             "the same ranks (srun --mpi=list, hires-flow doctor)",
                             rank, (long long)r->rank);
    if (cpus != NULL && strtoll(cpus, NULL, 10) > r->n_cpus)
        hrf_log_warning("engine",
                        "rank %lld may use %lld processors, not the %s it was given: another rank "
                        "may use the same ones",
                        (long long)r->rank, (long long)r->n_cpus, cpus);
    hrf_log_info("engine",
                 "rank %lld of %lld on %s (node %s, place %s): %lld processors (%s), GPU %s",
                 (long long)r->rank, (long long)r->n_ranks, r->host, node != NULL ? node : "?",
                 local != NULL ? local : "?", (long long)r->n_cpus, r->cpus,
                 getenv("CUDA_VISIBLE_DEVICES") != NULL ? getenv("CUDA_VISIBLE_DEVICES") : "none");
    return HRF_OK;
}

/* The number that this rank's starter gave it: PMIx's, Open MPI's or Slurm's. */
static int64_t rank_by_environment(void)
{
    static const char *const names[] = { "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (getenv(names[i]) != NULL)
            return strtoll(getenv(names[i]), NULL, 10);
    return 0;
}

/* Without MPI no other try can help: the rank's record tells the launcher so. */
static enum hrf_status load_mpi(struct hrf_ranks *ranks, int64_t n_ranks, struct hrf_error *err)
{
    const void *operations;
    struct hrf_error why = { .status = HRF_OK };
    const enum hrf_status status = hrf_module_load("mpi", HRF_BUILD_MPI, &operations, &why);
    if (status == HRF_OK) {
        ranks->mpi = operations;
        return HRF_OK;
    }
    struct hrf_rank_record record = ranks->record;
    record.rank = rank_by_environment();
    record.n_ranks = n_ranks;
    record.state = HRF_RANK_FAILED;
    record.exit_code = 1;
    record.end_ms = hrf_clock_wall_ms();
    snprintf(record.reason, sizeof record.reason,
             "%lld ranks need MPI (ask for one rank, or see hires-flow doctor): %.*s",
             (long long)n_ranks, (int)(sizeof record.reason - 96), why.text);
    if (record.rank >= 0 && record.rank < n_ranks &&
        hrf_rank_write(ranks->directory, &record, &why) != HRF_OK)
        hrf_log_warning("engine", "%s", why.text);
    return hrf_error_set(err, status, "%s", record.reason);
}

static enum hrf_status ranks_join(struct hrf_ranks *ranks, int64_t n_ranks, struct hrf_error *err)
{
    char identity[200];
    const struct hrf_mpi_config config = { .deadline_ms = hrf_rank_deadline_ms(),
                                           .n_ranks = (int32_t)n_ranks,
                                           .abort_code = HRF_EXIT_TRY_AGAIN,
                                           .on_abort = on_abort,
                                           .context = ranks };
    HRF_TRY(load_mpi(ranks, n_ranks, err));
    hrf_crash_point("engine.rank.begin");
    HRF_TRY(ranks->mpi->create(&config, &ranks->comm, err));
    hrf_crash_point("engine.rank.joined");
    ranks->record.rank = ranks->comm->rank;
    ranks->record.n_ranks = ranks->comm->n_ranks;
    snprintf(identity, sizeof identity, "rank %d %s", ranks->comm->rank, ranks->record.host);
    hrf_log_set_identity(identity);
    write_record(ranks);
    return check_layout(ranks, err);
}

static enum hrf_status ranks_fill(struct hrf_ranks *ranks, const char *directory, int64_t n_ranks,
                                  struct hrf_error *err)
{
    ranks->directory = hrf_strdup(directory);
    ranks->record = (struct hrf_rank_record){ .n_ranks = 1,
                                              .pid = getpid(),
                                              .n_cpus = hrf_process_cpu_count(),
                                              .begin_ms = hrf_clock_wall_ms(),
                                              .state = HRF_RANK_RUNNING };
    hrf_process_cpu_list(ranks->record.cpus, sizeof ranks->record.cpus);
    hrf_process_host_name(ranks->record.host, sizeof ranks->record.host);
    return n_ranks > 1 ? ranks_join(ranks, n_ranks, err) : HRF_OK;
}

enum hrf_status hrf_ranks_create(const char *directory, int64_t n_ranks, struct hrf_ranks **out,
                                 struct hrf_error *err)
{
    struct hrf_ranks *ranks = hrf_calloc(1, sizeof *ranks);
    enum hrf_status status = ranks_fill(ranks, directory, n_ranks, err);
    if (status != HRF_OK) {
        if (ranks->comm != NULL) /* the others wait for it */
            ranks->comm->ops->abort(ranks->comm, err != NULL ? err->text : "a rank failed");
        hrf_ranks_destroy(ranks);
        return status;
    }
    *out = ranks;
    return HRF_OK;
}

/* ---- groups ---- */

static enum hrf_status make_groups(struct hrf_ranks *ranks, int32_t n_group, struct hrf_error *err)
{
    struct hrf_comm *all = ranks->comm;
    const bool leads = all->rank % n_group == 0;
    if (n_group == 1) {
        ranks->leaders = all;
        return HRF_OK;
    }
    HRF_TRY(ranks->mpi->group(all, all->rank / n_group, &ranks->group, err));
    HRF_TRY(ranks->mpi->group(all, all->rank / n_group, &ranks->orders, err));
    if (all->n_ranks == n_group)
        return HRF_OK;
    hrf_log_info("engine", "rank %d of group %d of %d", ranks->group->rank, all->rank / n_group,
                 all->n_ranks / n_group);
    return ranks->mpi->group(all, leads ? 0 : -1, &ranks->leaders, err);
}

enum hrf_status hrf_ranks_form(struct hrf_ranks *ranks, int32_t n_group, struct hrf_error *err)
{
    return ranks->comm != NULL ? make_groups(ranks, n_group, err) : HRF_OK;
}

enum hrf_status hrf_ranks_open_queue(struct hrf_ranks *ranks, struct hrf_error *err)
{
    const struct hrf_work_queue_config config = {
        .comm = ranks->leaders,
        .waiting = ranks->mpi != NULL ? ranks->mpi->waiting : NULL,
        .stuck_ms = hrf_clock_setting_ms("HRF_RANK_STUCK_MS", 1, STUCK_MS)
    };
    return hrf_ranks_leads(ranks) ? hrf_work_queue_create(&config, &ranks->work_queue, err)
                                  : HRF_OK;
}

struct hrf_comm *hrf_ranks_all(const struct hrf_ranks *ranks)
{
    return ranks->comm;
}

struct hrf_comm *hrf_ranks_group(const struct hrf_ranks *ranks)
{
    return ranks->group;
}

bool hrf_ranks_leads(const struct hrf_ranks *ranks)
{
    return ranks->group == NULL || ranks->group->rank == 0;
}

/* Sends a leader's number to its group, or receives it. */
static enum hrf_status pass_on(struct hrf_comm *comm, int64_t tag, int64_t *word,
                               struct hrf_error *err)
{
    if (comm->rank != 0)
        return comm->ops->receive(comm, 0, tag, word, sizeof *word, err);
    for (int32_t r = 1; r < comm->n_ranks; r++)
        HRF_TRY(comm->ops->send(comm, r, tag, word, sizeof *word, err));
    return HRF_OK;
}

int64_t hrf_ranks_next(void *context)
{
    struct hrf_ranks *ranks = context;
    struct hrf_error err;
    if (ranks->orders_ended)
        return NO_MORE;
    int64_t batch = ranks->work_queue != NULL ? hrf_work_queue_next(ranks->work_queue) : NO_MORE;
    if (ranks->group == NULL)
        return batch;
    if (pass_on(ranks->orders, ORDER_TAG, &batch, &err) != HRF_OK) {
        hrf_ranks_abort(ranks, err.text);
        batch = NO_MORE;
    }
    ranks->orders_ended = batch < 0;
    return batch;
}

enum hrf_status hrf_ranks_end_task(struct hrf_ranks *ranks, struct hrf_error *err)
{
    int64_t batch = NO_MORE;
    while (ranks->group != NULL && !ranks->orders_ended) {
        HRF_TRY(pass_on(ranks->orders, ORDER_TAG, &batch, err));
        ranks->orders_ended = batch < 0;
    }
    ranks->orders_ended = false;
    return HRF_OK;
}

/* Ranks finalize MPI together, and that wait has no limit. So a group stays until its leader may
 * leave, and shows its progress meanwhile. */
static void bid_farewell(struct hrf_ranks *ranks)
{
    struct hrf_error err;
    int64_t word = 0;
    if (ranks->orders != NULL && pass_on(ranks->orders, FAREWELL_TAG, &word, &err) != HRF_OK)
        hrf_ranks_abort(ranks, err.text);
}

void hrf_ranks_destroy(struct hrf_ranks *ranks)
{
    if (ranks == NULL)
        return;
    hrf_work_queue_destroy(ranks->work_queue);
    bid_farewell(ranks);
    if (ranks->comm != NULL)
        ranks->mpi->destroy(ranks->comm);
    hrf_free(ranks->directory);
    hrf_free(ranks);
}

struct hrf_work_queue *hrf_ranks_work_queue(struct hrf_ranks *ranks)
{
    return ranks->work_queue;
}

bool hrf_ranks_is_root(const struct hrf_ranks *ranks)
{
    return ranks->comm == NULL || ranks->comm->rank == 0;
}

bool hrf_ranks_is_first_on_node(const struct hrf_ranks *ranks)
{
    const char *local_rank = getenv("SLURM_LOCALID");
    if (ranks->comm == NULL)
        return true;
    if (local_rank == NULL)
        local_rank = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    return local_rank != NULL ? strtoll(local_rank, NULL, 10) == 0 : ranks->comm->rank == 0;
}

void hrf_ranks_count_batch(struct hrf_ranks *ranks)
{
    ranks->record.n_batches++;
}
