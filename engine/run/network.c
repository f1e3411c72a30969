/* network.c - chooses between a session, bands, threads and one rank of a comm, and forwards to
 * it (network.h). */
#include "engine/run/network.h"

#include "engine/backend/backend.h"
#include "engine/plan/schedule.h"
#include "engine/run/agree.h"

#include <string.h>

/* Exactly one of the first four members is set. */
struct hrf_network {
    struct hrf_session *session;
    struct hrf_banded *banded;
    struct hrf_parallel *parallel; /* all ranks, in this process */
    struct hrf_rank *rank;         /* one rank, whose comm has the others */
    struct hrf_work *work;         /* of `rank` */
    float **outputs;               /* of `rank`, NULL if it gets none: [graph outputs] */
    int32_t n_inputs, n_outputs;
    const char *device;    /* static: a back end's name */
    struct hrf_comm *comm; /* of `rank` */
    struct hrf_comm_count seen[HRF_N_COMM_USES];
};

void hrf_network_destroy(struct hrf_network *n)
{
    if (n == NULL)
        return;
    hrf_session_destroy(n->session);
    hrf_banded_destroy(n->banded);
    hrf_parallel_destroy(n->parallel);
    hrf_rank_destroy(n->rank);
    hrf_work_destroy_outputs(n->work, n->outputs);
    hrf_work_destroy(n->work);
    hrf_free(n);
}

static enum hrf_status create_rank(struct hrf_network *n, const struct hrf_graph *graph,
                                   const struct hrf_network_config *config, struct hrf_error *err)
{
    const int32_t n_ranks = hrf_layout_ranks(config->layout);
    if (config->comm->n_ranks != n_ranks)
        return hrf_error_set(err, HRF_E_USER,
                             "the layout is for %d ranks and the job was started with %d: start "
                             "as many as the layout has",
                             n_ranks, config->comm->n_ranks);
    HRF_TRY(hrf_work_create(graph, &config->session, config->layout, &n->work, err));
    HRF_TRY(hrf_rank_create(n->work, &config->session, config->comm, &n->rank, err));
    if (config->session.n_variables == 0)         /* else kernels are made with them again */
        hrf_graph_drop_constants(n->work->graph); /* this rank's kernels have theirs */
    hrf_strbuf_adds(&n->work->notes, hrf_rank_notes(n->rank));
    n->comm = config->comm;
    memcpy(n->comm->reported, n->comm->counts, sizeof n->comm->reported);
    if (config->comm->rank != 0 && !hrf_batch_is_shared(graph))
        return HRF_OK;
    n->outputs = hrf_work_create_outputs(n->work);
    HRF_CHECK_MEMORY(n->outputs != NULL, err, "no memory for the outputs");
    return HRF_OK;
}

static enum hrf_status create_alone(struct hrf_network *n, const struct hrf_graph *graph,
                                    const struct hrf_network_config *config, struct hrf_error *err)
{
    const struct hrf_session_config *session = &config->session;
    const struct hrf_banded_options bands = {
        .n_bands = config->n_bands,
        .rows = config->layout != NULL ? config->layout->bands : HRF_BANDS_AUTO,
    };
    struct hrf_error why = { .status = HRF_OK };
    if (config->n_bands > 0)
        return hrf_banded_create(graph, session, &bands, &n->banded, err);
    enum hrf_status status = hrf_session_create(graph, session, &n->session, &why);
    if (status == HRF_E_NOMEM && session->memory_limit_bytes > 0)
        return hrf_banded_create(graph, session, &bands, &n->banded, err);
    if (status != HRF_OK && err != NULL)
        *err = why;
    return status;
}

enum hrf_status hrf_network_create(const struct hrf_graph *graph,
                                   const struct hrf_network_config *config,
                                   struct hrf_network **out, struct hrf_error *err)
{
    enum { WATCHDOG_MS = 600000 };
    HRF_AUTO(hrf_network) n = hrf_calloc(1, sizeof *n);
    n->n_inputs = graph->n_inputs - config->session.n_variables;
    n->n_outputs = graph->n_outputs;
    const struct hrf_backend_ops *backend;
    HRF_TRY(hrf_backend_choose(config->session.device, &backend, NULL, err));
    n->device = backend->name;
    const bool alone = config->layout == NULL || hrf_layout_ranks(config->layout) == 1;
    if (!alone && config->n_bands > 0)
        return hrf_error_set(err, HRF_E_USER,
                             "bands are for one rank, and the layout has %d: leave them out, or "
                             "use more row strips (spatial=) to make each rank's share smaller",
                             hrf_layout_ranks(config->layout));
    if (alone)
        HRF_TRY(create_alone(n, graph, config, err));
    else if (config->comm != NULL)
        HRF_TRY(create_rank(n, graph, config, err));
    else
        HRF_TRY(hrf_parallel_create(graph, &config->session, config->layout,
                                    config->watchdog_ms > 0 ? config->watchdog_ms : WATCHDOG_MS,
                                    &n->parallel, err));
    HRF_MOVE(*out, n);
    return HRF_OK;
}

static enum hrf_status run_session(struct hrf_network *n, hrf_source *source, void *context,
                                   struct hrf_error *err)
{
    for (int32_t i = 0; i < n->n_inputs; i++) {
        const struct hrf_shape *shape = hrf_session_input_shape(n->session, i);
        const struct hrf_box whole = hrf_box_whole(shape);
        HRF_TRY(source(context, i, 0, shape->rank > 0 ? shape->dims[0] : 1, &whole,
                       hrf_session_input(n->session, i), err));
    }
    return hrf_session_run(n->session, err);
}

enum hrf_status hrf_network_fill(struct hrf_network *n, hrf_source *source, void *context,
                                 struct hrf_error *err)
{
    return hrf_rank_fill(n->rank, source, context, err);
}

bool hrf_network_is_fed(const struct hrf_network *n)
{
    return n->rank == NULL || hrf_rank_is_fed(n->rank);
}

struct hrf_box hrf_network_fed(const struct hrf_network *n, int64_t size)
{
    return n->rank != NULL ? hrf_rank_fed(n->rank, 0)
                           : (struct hrf_box){ { 0, 0 }, { size, size } };
}

enum hrf_status hrf_network_run(struct hrf_network *n, hrf_source *source, void *context,
                                struct hrf_error *err)
{
    if (n->session != NULL)
        return run_session(n, source, context, err);
    if (n->banded != NULL)
        return hrf_banded_run(n->banded, source, context, err);
    if (n->parallel != NULL)
        return hrf_parallel_run(n->parallel, source, context, err);
    return hrf_rank_run(n->rank, source, context, n->outputs, err);
}

enum hrf_status hrf_network_refresh(struct hrf_network *n, struct hrf_error *err)
{
    if (n->rank != NULL)
        return hrf_rank_refresh(n->rank, err);
    if (n->session != NULL)
        return hrf_session_refresh(n->session, err);
    if (n->parallel == NULL)
        return hrf_error_set(err, HRF_E_BUG, "weights do not change in bands");
    hrf_parallel_refresh(n->parallel);
    return HRF_OK;
}

static void count_threads(struct hrf_network *n, struct hrf_comm_count *sum)
{
    struct hrf_comm_count now[HRF_N_COMM_USES] = { { 0 } };
    for (int32_t i = 0; i < hrf_network_n_ranks(n); i++) {
        const struct hrf_rank_facts facts = hrf_parallel_facts(n->parallel, i);
        for (int use = 0; use < HRF_N_COMM_USES; use++)
            hrf_comm_count_add(&now[use], &facts.counts[use]);
    }
    for (int use = 0; use < HRF_N_COMM_USES; use++) {
        const struct hrf_comm_count part = hrf_comm_count_since(&now[use], &n->seen[use]);
        hrf_comm_count_add(&sum[use], &part);
        n->seen[use] = now[use];
    }
}

enum hrf_status hrf_network_count(struct hrf_network *n, struct hrf_comm_count *sum,
                                  struct hrf_error *err)
{
    if (n->comm != NULL)
        return hrf_count_all(n->comm, n->comm->reported, sum, err);
    if (n->parallel != NULL)
        count_threads(n, sum);
    return HRF_OK;
}

enum hrf_status hrf_network_facts(const struct hrf_network *n, struct hrf_rank_facts *ranks,
                                  struct hrf_error *err)
{
    if (n->rank != NULL) {
        const struct hrf_rank_facts mine = hrf_rank_facts(n->rank);
        return hrf_gather(n->comm, &mine, sizeof mine, ranks, err);
    }
    for (int32_t i = 0; i < hrf_network_n_ranks(n); i++)
        ranks[i] = hrf_parallel_facts(n->parallel, i);
    return HRF_OK;
}

const char *hrf_network_transport(const struct hrf_network *n)
{
    if (n->parallel != NULL)
        return hrf_parallel_transports(n->parallel);
    return n->rank != NULL   ? hrf_rank_transports(n->rank)
           : n->comm != NULL ? n->comm->ops->name
                             : NULL;
}

int32_t hrf_network_n_outputs(const struct hrf_network *n)
{
    return n->n_outputs;
}

static const struct hrf_work *work_of(const struct hrf_network *n)
{
    return n->parallel != NULL ? hrf_parallel_work(n->parallel) : n->work;
}

struct hrf_shape hrf_network_output_shape(const struct hrf_network *n, int32_t i)
{
    if (n->session != NULL)
        return *hrf_session_output_shape(n->session, i);
    if (n->banded != NULL)
        return *hrf_banded_output_shape(n->banded, i);
    return hrf_work_output_shape(work_of(n), i);
}

const float *hrf_network_output(const struct hrf_network *n, int32_t i)
{
    if (n->session != NULL)
        return hrf_session_output(n->session, i);
    if (n->banded != NULL)
        return hrf_banded_output(n->banded, i);
    if (n->parallel != NULL)
        return hrf_parallel_output(n->parallel, i);
    return n->outputs != NULL ? n->outputs[i] : NULL;
}

struct hrf_session_memory hrf_network_memory(const struct hrf_network *n)
{
    struct hrf_session_memory most = { 0 };
    if (n->session != NULL)
        return hrf_session_memory(n->session);
    if (n->banded != NULL)
        return hrf_banded_facts(n->banded).memory;
    if (n->rank != NULL)
        return hrf_rank_facts(n->rank).memory;
    for (int32_t i = 0; i < hrf_layout_ranks(&work_of(n)->layout); i++) {
        const struct hrf_rank_facts facts = hrf_parallel_facts(n->parallel, i);
        if (hrf_session_memory_total(&facts.memory) > hrf_session_memory_total(&most))
            most = facts.memory;
    }
    return most;
}

double hrf_network_operations(const struct hrf_network *n)
{
    if (n->session != NULL)
        return hrf_session_operations(n->session);
    return n->banded != NULL ? hrf_banded_facts(n->banded).operations : work_of(n)->operations;
}

const char *hrf_network_notes(const struct hrf_network *n)
{
    if (n->session != NULL)
        return hrf_session_notes(n->session);
    return n->banded != NULL ? hrf_banded_facts(n->banded).notes : work_of(n)->notes.text;
}

struct hrf_device_use hrf_network_device_use(const struct hrf_network *n, int32_t i)
{
    if (n->session != NULL)
        return hrf_session_device_use(n->session);
    if (n->banded != NULL)
        return hrf_banded_facts(n->banded).device;
    return n->rank != NULL ? hrf_rank_device_use(n->rank) : hrf_parallel_device_use(n->parallel, i);
}

const char *hrf_network_device_name(const struct hrf_network *n)
{
    return n->device;
}

int32_t hrf_network_n_ranks(const struct hrf_network *n)
{
    return n->parallel != NULL ? hrf_layout_ranks(&work_of(n)->layout) : 1;
}

struct hrf_session *hrf_network_session(struct hrf_network *n)
{
    return n->session;
}

const struct hrf_banded *hrf_network_banded(const struct hrf_network *n)
{
    return n->banded;
}
