/* bands_predict.c - predicts time and memory of bands before anything is built (bands.h). */
#include "engine/plan/bands.h"

#include "engine/plan/plan.h"

/* Bytes that are copied, each read and written once: own rows that are not yet in place, and kept
 * rows. */
static double copied_bytes(const struct hrf_plan *plan)
{
    double n_bytes = 0;
    for (int32_t i = 0; i < plan->n_transfers; i++)
        n_bytes += 2 * (double)hrf_area_bytes(&plan->transfers[i].from);
    return n_bytes;
}

/* Time and memory of one graph. `memory` is shared by graphs that run one after the other, so it is
 * a maximum. `map` belongs to a band's graph; NULL: the tail. */
static enum hrf_status find_needs(const struct hrf_graph *graph, const struct hrf_rank_map *map,
                                  const struct hrf_cost_table *costs,
                                  struct hrf_bands_memory *memory, double *seconds,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_plan) plan = NULL;
    HRF_TRY(hrf_plan_create(graph, map, &plan, err));
    if (plan->arena_bytes > memory->activation_bytes)
        memory->activation_bytes = plan->arena_bytes;
    *seconds = plan->n_transfers > 0 ? copied_bytes(plan) / costs->rates.bytes : 0;
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        struct hrf_cost cost;
        if (hrf_op_communicates(graph->nodes[n].op))
            continue;
        HRF_TRY(hrf_cost_of(costs, graph, &graph->nodes[n], &cost, err));
        *seconds += cost.seconds;
        memory->weight_bytes += cost.weight_bytes;
        if (cost.workspace_bytes > memory->workspace_bytes)
            memory->workspace_bytes = cost.workspace_bytes;
    }
    return HRF_OK;
}

/* Predicts each kind of bands once and multiplies its time by the number of its bands. */
static enum hrf_status add_kinds(const struct hrf_partition *p, const struct hrf_halves *halves,
                                 const struct hrf_cost_table *costs,
                                 struct hrf_bands_memory *memory, double *seconds,
                                 struct hrf_error *err)
{
    HRF_AUTO_FREE int32_t *kind_of = hrf_calloc(2 * (size_t)p->n_ranks, sizeof *kind_of);
    HRF_CHECK_MEMORY(kind_of != NULL, err, "no memory to plan bands");
    int32_t *first_of = kind_of + p->n_ranks;
    hrf_bands_find_kinds(p, kind_of, first_of, &memory->n_kinds);
    for (int32_t k = 0; k < memory->n_kinds; k++) {
        HRF_AUTO(hrf_graph) graph = NULL;
        HRF_AUTO(hrf_rank_map) map = NULL;
        double one;
        HRF_TRY(hrf_bands_graph(p, halves, first_of[k], &graph, &map, err));
        HRF_TRY(find_needs(graph, map, costs, memory, &one, err));
        for (int32_t band = 0; band < p->n_ranks; band++)
            *seconds += kind_of[band] == k ? one : 0;
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
    struct hrf_bands_memory m = { 0 }, tail = { 0 };
    double in_head = 0, in_tail = 0;
    HRF_TRY(hrf_bands_partition(halves->head, plan->n_bands, plan->keeps, &p, err));
    HRF_TRY(add_kinds(p, halves, to->costs, &m, &in_head, err));
    HRF_TRY(find_needs(halves->tail, NULL, to->costs, &tail, &in_tail, err));
    m.activation_bytes += tail.activation_bytes + p->line_cache_bytes;
    m.weight_bytes += tail.weight_bytes;
    m.workspace_bytes += tail.workspace_bytes;
    *to->out = (struct hrf_bands_prediction){ *plan, m, in_head + in_tail };
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
                                  const struct hrf_bands_options *options,
                                  struct hrf_bands_prediction *out, struct hrf_error *err)
{
    struct hrf_bands_prediction found = { .seconds = 0 };
    struct prediction to = { graph, options->costs, &found };
    HRF_TRY(hrf_bands_fit(graph, options, measure, &to, err));
    *out = found;
    return HRF_OK;
}
