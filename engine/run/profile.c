/* profile.c - times every step of a network, optionally in several copies at once (profile.h). */
#include "engine/run/profile.h"

#include "base/clock.h"
#include "base/random.h"
#include "base/sort.h"
#include "engine/run/made_ranges.h"
#include "engine/run/session_private.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* One copy of the network. */
struct copy {
    struct hrf_session *session;
    const struct hrf_session_config *config;
    pthread_t thread;
    atomic_bool *is_over; /* the figures are those of the first copy */
    struct hrf_error error;
    enum hrf_status status;
};

static void fill_inputs(struct hrf_session *session)
{
    struct hrf_random random = hrf_random_init(1);
    for (int32_t i = 0; i < session->graph->n_inputs; i++) {
        float *x = hrf_session_input(session, i);
        const int64_t n = hrf_shape_count(hrf_session_input_shape(session, i));
        for (int64_t k = 0; k < n; k++)
            x[k] = (float)(hrf_random_u64(&random) >> 40) * 0x1p-22f - 2;
    }
}

static double now(const struct copy *copy)
{
    return copy->config->n_threads == 1 ? hrf_clock_thread_seconds() : hrf_clock_seconds();
}

/* seconds[step] of one run. */
static enum hrf_status time_steps(const struct copy *copy, double *seconds, struct hrf_error *err)
{
    struct hrf_session *session = copy->session;
    if (session->ops->enter != NULL)
        session->ops->enter(session->backend);
    for (int32_t i = 0; i < session->plan->n_steps; i++) {
        const double start = now(copy);
        HRF_TRY(hrf_session_time_step(session, i, err));
        seconds[i] = now(copy) - start;
    }
    return HRF_OK;
}

static void *company_main(void *context)
{
    struct copy *copy = context;
    while (copy->status == HRF_OK && !atomic_load(copy->is_over)) {
        fill_inputs(copy->session);
        copy->status = hrf_session_run(copy->session, &copy->error);
    }
    return NULL;
}

/* medians[step] over n_runs runs. The first run warms up and is not counted. */
static enum hrf_status time_runs(const struct copy *copy, int64_t n_runs, double *medians,
                                 struct hrf_error *err)
{
    const size_t n_steps = (size_t)copy->session->plan->n_steps, n = (size_t)n_runs;
    HRF_AUTO_FREE double *seconds = hrf_alloc_array((n + 1) * n_steps, sizeof *seconds);
    HRF_AUTO_FREE double *sorted = hrf_alloc_array(n, sizeof *sorted);
    for (size_t run = 0; run <= n; run++) {
        fill_inputs(copy->session);
        HRF_TRY(time_steps(copy, seconds + run * n_steps, err));
    }
    for (size_t step = 0; step < n_steps; step++) {
        for (size_t run = 0; run < n; run++)
            sorted[run] = seconds[(run + 1) * n_steps + step];
        medians[step] = hrf_median(sorted, n);
    }
    return HRF_OK;
}

/* The mean over all nodes that have the kind and size of node `n`. */
static double mean_of_kind(const struct hrf_graph *graph, char *const *keys, const double *seconds,
                           int32_t n)
{
    const double work = hrf_cost_work(graph, &graph->nodes[n]);
    double sum = 0;
    int32_t count = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (strcmp(keys[i], keys[n]) == 0 && hrf_cost_work(graph, &graph->nodes[i]) == work) {
            sum += seconds[i];
            count++;
        }
    return sum / count;
}

static void keep_costs(const struct hrf_session *session, char **keys, const double *seconds,
                       struct hrf_cost_table *table)
{
    const struct hrf_graph *graph = session->graph;
    for (int32_t n = 0; n < graph->n_nodes; n++)
        keys[n] = hrf_cost_key(graph, &graph->nodes[n]);
    for (int32_t n = 0; n < graph->n_nodes; n++)
        hrf_cost_add(table, graph, &graph->nodes[n], mean_of_kind(graph, keys, seconds, n),
                     (int64_t)session->kernels[n]->workspace_bytes,
                     (int64_t)session->kernels[n]->weight_bytes);
}

/* On a single rank no node is computed in parts, so step i of the plan is node i. */
static enum hrf_status measure(const struct copy *copy, int64_t n_runs,
                               struct hrf_cost_table *table, struct hrf_error *err)
{
    const struct hrf_session *session = copy->session;
    const size_t n = (size_t)session->graph->n_nodes + 1;
    HRF_AUTO_FREE double *medians = hrf_calloc(n, sizeof *medians);
    HRF_AUTO_FREE double *by_node = hrf_calloc(n, sizeof *by_node);
    HRF_AUTO_FREE char **keys = hrf_calloc(n, sizeof *keys);
    HRF_TRY(time_runs(copy, n_runs, medians, err));
    for (int32_t i = 0; i < session->plan->n_steps; i++)
        by_node[session->plan->steps[i].node] = medians[i];
    keep_costs(session, keys, by_node, table);
    for (size_t i = 0; i < n; i++)
        hrf_free(keys[i]);
    return HRF_OK;
}

/* The first copy runs in this thread, the others in threads of their own until it has finished. */
static enum hrf_status measure_in_company(struct copy *copies, int32_t n, int64_t n_runs,
                                          struct hrf_cost_table *table, struct hrf_error *err)
{
    int32_t started = 1;
    int native = 0;
    for (; started < n && native == 0; started++)
        native = pthread_create(&copies[started].thread, NULL, company_main, &copies[started]);
    started -= native != 0;
    enum hrf_status status = native != 0 ? hrf_error_set_errno(err, native, "cannot start a thread")
                                         : measure(&copies[0], n_runs, table, err);
    atomic_store(copies[0].is_over, true);
    for (int32_t i = 1; i < started; i++)
        pthread_join(copies[i].thread, NULL);
    for (int32_t i = 1; i < started && status == HRF_OK; i++) {
        status = copies[i].status;
        if (status != HRF_OK && err != NULL)
            *err = copies[i].error;
    }
    return status;
}

enum hrf_status hrf_profile_run(const struct hrf_graph *graph,
                                const struct hrf_session_config *config, int64_t n_runs,
                                int32_t n_at_once, struct hrf_cost_table *table,
                                struct hrf_error *err)
{
    struct hrf_session_config full = *config;
    HRF_AUTO_RELEASE(hrf_made_ranges) made = { .fused = NULL };
    HRF_AUTO_FREE struct copy *copies = hrf_calloc((size_t)n_at_once, sizeof *copies);
    atomic_bool is_over = false;
    if (hrf_precision_row(config->precision)->needs_scales && config->n_ranges == 0) {
        HRF_TRY(hrf_made_ranges_init(graph, &made, err));
        full.ranges = made.ranges;
        full.n_ranges = made.n_ranges;
    }
    enum hrf_status status = HRF_OK;
    for (int32_t i = 0; i < n_at_once && status == HRF_OK; i++) {
        copies[i].config = &full;
        copies[i].is_over = &is_over;
        status = hrf_session_create(graph, &full, &copies[i].session, err);
    }
    if (status == HRF_OK)
        status = measure_in_company(copies, n_at_once, n_runs, table, err);
    for (int32_t i = 0; i < n_at_once; i++)
        hrf_session_destroy(copies[i].session);
    return status;
}
