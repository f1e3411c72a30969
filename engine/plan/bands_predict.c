/* bands_predict.c - what bands will take, before anything is built (bands.h). */
#include "engine/plan/bands.h"

#include "engine/plan/kept.h"
#include "engine/plan/plan.h"

#include <string.h>

/* What a graph takes; of many, what they take one after the other in the same memory. */
struct needs {
    double seconds;
    int64_t activation_bytes, weight_bytes, workspace_bytes;
};

/* Read and written: what the band has and does not stand where it is needed, and kept rows. */
static double copied_bytes(const struct hrf_plan *plan)
{
    double n_bytes = 0;
    for (int32_t i = 0; i < plan->n_transfers; i++)
        n_bytes += 2 * (double)hrf_area_bytes(&plan->transfers[i].from);
    return n_bytes;
}

/* `map`: of a band's graph; NULL: of the tail. */
static enum hrf_status find_needs(const struct hrf_graph *graph, const struct hrf_rank_map *map,
                                  const struct hrf_cost_table *costs, struct needs *out,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_plan) plan = NULL;
    HRF_TRY(hrf_plan_create(graph, map, &plan, err));
    *out = (struct needs){ .activation_bytes = plan->arena_bytes };
    if (plan->n_transfers > 0)
        out->seconds += copied_bytes(plan) / costs->rates.bytes;
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const struct hrf_node *node = &graph->nodes[n];
        struct hrf_cost cost;
        if (hrf_op_communicates(node->op))
            continue;
        HRF_TRY(hrf_cost_of(costs, graph, node, &cost, err));
        out->seconds += cost.seconds;
        out->weight_bytes += cost.weight_bytes;
        if (cost.workspace_bytes > out->workspace_bytes)
            out->workspace_bytes = cost.workspace_bytes;
    }
    return HRF_OK;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Every kind of bands once; each of its bands takes as long. */
static enum hrf_status add_kinds(const struct hrf_partition *p, const struct hrf_halves *halves,
                                 const struct hrf_cost_table *costs, struct needs *sum,
                                 int32_t *n_kinds, struct hrf_error *err)
{
    HRF_AUTO_FREE bool *is_done = hrf_calloc((size_t)p->n_ranks + 1, sizeof *is_done);
    if (is_done == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to plan bands");
    *n_kinds = 0;
    for (int32_t band = 0; band < p->n_ranks; band++) {
        HRF_AUTO(hrf_graph) graph = NULL;
        HRF_AUTO(hrf_rank_map) map = NULL;
        struct needs one;
        if (is_done[band])
            continue;
        HRF_TRY(hrf_bands_graph(p, halves, band, &graph, &map, err));
        HRF_TRY(find_needs(graph, map, costs, &one, err));
        for (int32_t other = band; other < p->n_ranks; other++)
            if (!is_done[other] && hrf_bands_are_alike(p, band, other)) {
                is_done[other] = true;
                sum->seconds += one.seconds;
            }
        sum->activation_bytes = larger(sum->activation_bytes, one.activation_bytes);
        sum->workspace_bytes = larger(sum->workspace_bytes, one.workspace_bytes);
        sum->weight_bytes += one.weight_bytes;
        ++*n_kinds;
    }
    return HRF_OK;
}

struct prediction {
    const struct hrf_graph *graph;
    const struct hrf_cost_table *costs;
    struct hrf_bands_prediction *out;
};

static enum hrf_status predict(const struct prediction *to, const struct hrf_halves *halves,
                               const struct hrf_bands_plan *plan, struct hrf_error *err)
{
    HRF_AUTO(hrf_partition) p = NULL;
    struct needs head = { .seconds = 0 }, tail;
    int32_t n_kinds = 0;
    HRF_TRY(hrf_bands_partition(halves->head, plan->n_bands, plan->keeps, &p, err));
    HRF_TRY(add_kinds(p, halves, to->costs, &head, &n_kinds, err));
    HRF_TRY(find_needs(halves->tail, NULL, to->costs, &tail, err));
    const struct hrf_bands_memory memory = {
        .activation_bytes = head.activation_bytes + tail.activation_bytes + p->kept_bytes,
        .weight_bytes = head.weight_bytes + tail.weight_bytes,
        .workspace_bytes = head.workspace_bytes + tail.workspace_bytes,
        .n_kinds = n_kinds,
    };
    *to->out = (struct hrf_bands_prediction){ *plan, memory, head.seconds + tail.seconds };
    return HRF_OK;
}

static enum hrf_status measure(void *context, const struct hrf_bands_plan *plan,
                               struct hrf_bands_memory *out, struct hrf_error *err)
{
    const struct prediction *to = context;
    struct hrf_halves halves = { .head = NULL };
    enum hrf_status status = hrf_halves_create(to->graph, plan->cut, false, &halves, err);
    if (status == HRF_OK)
        status = predict(to, &halves, plan, err);
    hrf_halves_release(&halves);
    *out = to->out->memory;
    return status;
}

enum hrf_status hrf_bands_predict(const struct hrf_graph *graph,
                                  const struct hrf_bands_wishes *wishes,
                                  struct hrf_bands_prediction *out, struct hrf_error *err)
{
    struct hrf_bands_prediction found = { .seconds = 0 };
    struct prediction to = { graph, wishes->costs, &found };
    HRF_TRY(hrf_bands_fit(graph, wishes, measure, &to, err));
    *out = found;
    return HRF_OK;
}
