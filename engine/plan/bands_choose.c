/* bands_choose.c - searches the cut, the number of bands, and whether rows are kept or computed
 * again (bands.h). */
#include "engine/plan/bands.h"

#include "engine/plan/plan.h"
#include "engine/plan/stages.h"

#include <string.h>

enum { MOST_BANDS = 256 };

/* Where nothing is known of the machine: as hrf_stages_rough_seconds(). */
static const double rough_bytes_per_second = 10e9, rough_kernel_seconds = 5e-6;

struct search {
    const struct hrf_graph *graph;
    const struct hrf_bands_options *options;
    const double *seconds; /* [nodes] of the whole image */
    double per_byte, per_kernel;
    bool keeps;
    struct hrf_bands_plan best, least;
    bool has_best, has_least;
};

static double operations_of(const struct hrf_graph *graph, int32_t first, int32_t end)
{
    double sum = 0;
    for (int32_t n = first; n < end; n++)
        sum += hrf_node_operations(graph, &graph->nodes[n]);
    return sum;
}

/* The rows of the node that all bands compute, divided by the rows that it has. */
static double share_computed(const struct hrf_partition *p, int32_t n)
{
    const int32_t value = p->graph->nodes[n].outputs[0];
    int64_t rows = 0;
    for (int32_t band = 0; band < p->n_ranks; band++) {
        const struct hrf_box *box = hrf_partition_box(p, value, band);
        rows += hrf_box_is_empty(box) ? 0 : box->hi[0] - box->lo[0];
    }
    return (double)rows / (double)p->graph->values[value].shape.dims[2];
}

/* Adds up the time: each node in proportion to its rows, plus one reading of its weights and one
 * kernel call for each band, plus one write and one read of kept rows. */
static void add_up(const struct search *s, const struct hrf_partition *p, int32_t cut,
                   struct hrf_bands_plan *plan)
{
    double with = 0;
    plan->seconds = 0;
    for (int32_t n = 0; n < cut; n++) {
        const double share = share_computed(p, n);
        const double more = (double)(p->n_ranks - 1);
        with += share * hrf_node_operations(s->graph, &s->graph->nodes[n]);
        plan->seconds += share * s->seconds[n] +
                         more * (s->per_kernel + s->per_byte * (double)hrf_cost_constant_bytes(
                                                                   s->graph, &s->graph->nodes[n]));
    }
    for (int32_t n = cut; n < s->graph->n_nodes; n++)
        plan->seconds += s->seconds[n];
    plan->seconds += 4 * (double)p->n_ranks * (double)p->line_cache_bytes * s->per_byte;
    const double all = operations_of(s->graph, 0, s->graph->n_nodes);
    with += operations_of(s->graph, cut, s->graph->n_nodes);
    plan->recomputed = all > 0 ? with / all : 1;
}

static enum hrf_status arena_of(const struct hrf_graph *graph, const struct hrf_rank_map *map,
                                int64_t *bytes, struct hrf_error *err)
{
    HRF_AUTO(hrf_plan) plan = NULL;
    HRF_TRY(hrf_plan_create(graph, map, &plan, err));
    *bytes = plan->arena_bytes;
    return HRF_OK;
}

/* The largest band is one in the middle, which has two neighbours; if rows are kept, it may be the
 * last band, which also computes all rows that earlier bands could not. */
static enum hrf_status find_largest(const struct hrf_partition *p, const struct hrf_halves *halves,
                                    int64_t *bytes, struct hrf_error *err)
{
    const int32_t n = p->n_ranks, bands[] = { n / 2, n - 1, 0 };
    *bytes = 0;
    for (int i = 0; i < (p->fronts != NULL ? 3 : 1); i++) {
        HRF_AUTO(hrf_graph) band = NULL;
        HRF_AUTO(hrf_rank_map) map = NULL;
        int64_t one;
        HRF_TRY(hrf_bands_graph(p, halves, bands[i], &band, &map, err));
        HRF_TRY(arena_of(band, map, &one, err));
        *bytes = one > *bytes ? one : *bytes;
    }
    return HRF_OK;
}

static enum hrf_status try_bands(const struct search *s, const struct hrf_halves *halves,
                                 int32_t cut, int32_t n_bands, struct hrf_bands_plan *out,
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_partition) p = NULL;
    int64_t tail, largest;
    HRF_TRY(hrf_bands_partition(halves->head, n_bands, s->keeps, &p, err));
    HRF_TRY(find_largest(p, halves, &largest, err));
    HRF_TRY(arena_of(halves->tail, NULL, &tail, err));
    struct hrf_bands_plan plan = { .cut = cut,
                                   .n_bands = n_bands,
                                   .keeps = s->keeps,
                                   .line_cache_bytes = p->line_cache_bytes,
                                   .activation_bytes = tail + largest + p->line_cache_bytes };
    add_up(s, p, cut, &plan);
    *out = plan;
    return HRF_OK;
}

static bool fits(const struct search *s, const struct hrf_bands_plan *plan)
{
    return s->options->limit_bytes <= 0 || plan->activation_bytes <= s->options->limit_bytes;
}

static bool is_better(const struct hrf_bands_plan *a, const struct hrf_bands_plan *b)
{
    return a->seconds < b->seconds ||
           (a->seconds <= b->seconds && a->activation_bytes < b->activation_bytes);
}

static void consider(struct search *s, const struct hrf_bands_plan *plan)
{
    const bool is_smaller = plan->activation_bytes < s->best.activation_bytes;
    if (!s->has_least || plan->activation_bytes < s->least.activation_bytes)
        s->least = *plan;
    s->has_least = true;
    /* Without a limit the number of bands is given, so choose by memory. */
    const bool better = !s->has_best ||
                        (s->options->limit_bytes <= 0 ? is_smaller : is_better(plan, &s->best));
    if (fits(s, plan) && better) {
        s->best = *plan;
        s->has_best = true;
    }
}

/* Tries few bands first: more bands take longer, so the first number that fits is the best for this
 * cut. */
static enum hrf_status search_bands(struct search *s, const struct hrf_halves *halves, int32_t cut,
                                    struct hrf_error *err)
{
    const int32_t asked = s->options->n_bands;
    const int32_t first = asked > 0 ? asked : 2, last = asked > 0 ? asked : MOST_BANDS;
    int32_t before = 0;
    for (int32_t n = first; n <= last; n += n < 8 ? 1 : n / 4) {
        struct hrf_bands_plan plan;
        int32_t n_bands = n;
        if (s->keeps && asked == 0)
            HRF_TRY(hrf_bands_make_alike(halves->head, &n_bands, err));
        if (n_bands == before)
            continue;
        before = n_bands;
        HRF_TRY(try_bands(s, halves, cut, n_bands, &plan, err));
        consider(s, &plan);
        if (fits(s, &plan) || (s->has_best && plan.seconds >= s->best.seconds))
            break;
    }
    return HRF_OK;
}

static enum hrf_status search_cut(struct search *s, int32_t cut, struct hrf_error *err)
{
    struct hrf_halves halves = { .head = NULL };
    struct hrf_error why;
    if (hrf_halves_create(s->graph, cut, true, &halves, &why) != HRF_OK)
        return why.status == HRF_E_NOMEM ? hrf_error_set(err, HRF_E_NOMEM, "%s", why.text) : HRF_OK;
    const enum hrf_status status = search_bands(s, &halves, cut, err);
    hrf_halves_release(&halves);
    return status == HRF_E_UNSUPPORTED ? HRF_OK : status;
}

/* last[v]: the last node that reads value v; -1: none does. */
static int32_t *find_last_readers(const struct hrf_graph *graph)
{
    int32_t *last = hrf_alloc_array((size_t)graph->n_values + 1, sizeof *last);
    for (int32_t v = 0; v < graph->n_values && last != NULL; v++)
        last[v] = -1;
    for (int32_t n = 0; n < graph->n_nodes && last != NULL; n++)
        for (int32_t k = 0; k < graph->nodes[n].n_inputs; k++)
            if (graph->nodes[n].inputs[k] >= 0)
                last[graph->nodes[n].inputs[k]] = n;
    return last;
}

/* True if a single value crosses the cut; a cut within a block would also carry its branches. */
static bool is_worth_trying(const struct hrf_graph *graph, const int32_t *last_readers, int32_t cut)
{
    int32_t n = 0;
    for (int32_t v = 0; v < graph->n_values; v++) {
        const int32_t producer = graph->values[v].producer;
        n += producer >= 0 && producer < cut && last_readers[v] >= cut;
    }
    return n == 1;
}

static enum hrf_status search_all(struct search *s, struct hrf_error *err)
{
    HRF_AUTO_FREE int32_t *last_readers = find_last_readers(s->graph);
    HRF_CHECK_MEMORY(last_readers != NULL, err, "no memory to plan bands");
    for (int32_t cut = 1; cut < s->graph->n_nodes; cut++) {
        if (!hrf_region_can_split(s->graph, &s->graph->nodes[cut - 1]))
            break;
        if (is_worth_trying(s->graph, last_readers, cut))
            HRF_TRY(search_cut(s, cut, err));
    }
    return HRF_OK;
}

static enum hrf_status find_seconds(const struct hrf_graph *graph,
                                    const struct hrf_cost_table *costs, double *seconds,
                                    struct hrf_error *err)
{
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        struct hrf_cost cost = { .seconds = hrf_stages_rough_seconds(graph, &graph->nodes[n]) };
        if (costs != NULL)
            HRF_TRY(hrf_cost_of(costs, graph, &graph->nodes[n], &cost, err));
        seconds[n] = cost.seconds;
    }
    return HRF_OK;
}

static enum hrf_status refuse(const struct search *found, const struct hrf_bands_options *options,
                              struct hrf_error *err)
{
    const struct hrf_bands_plan *least = NULL;
    for (int i = 0; i < 2; i++)
        if (found[i].has_least &&
            (least == NULL || found[i].least.activation_bytes < least->activation_bytes))
            least = &found[i].least;
    if (least == NULL)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "the network's first nodes cannot be run in bands of rows");
    return hrf_error_set(err, HRF_E_NOMEM,
                         "%.2f GiB of activations are allowed, and even %d bands need %.2f GiB",
                         (double)options->limit_bytes / 0x1p30, least->n_bands,
                         (double)least->activation_bytes / 0x1p30);
}

enum hrf_status hrf_bands_choose(const struct hrf_graph *graph,
                                 const struct hrf_bands_options *options,
                                 struct hrf_bands_plan *out, struct hrf_error *err)
{
    const struct hrf_cost_rates *rates = options->costs != NULL ? &options->costs->rates : NULL;
    const double bytes = rates != NULL && rates->bytes > 0 ? rates->bytes : rough_bytes_per_second;
    HRF_AUTO_FREE double *seconds = hrf_calloc((size_t)graph->n_nodes + 1, sizeof *seconds);
    struct search found[2] = { { .graph = graph, .options = options, .seconds = seconds } };
    const struct search *best = NULL;
    HRF_CHECK_MEMORY(seconds != NULL, err, "no memory to plan bands");
    HRF_TRY(find_seconds(graph, options->costs, seconds, err));
    found[0].per_byte = 1 / bytes;
    found[0].per_kernel = rates != NULL ? rates->overhead : rough_kernel_seconds;
    found[1] = found[0];
    for (int i = 0; i < 2; i++) {
        found[i].keeps = i == 0;
        if (options->rows == (found[i].keeps ? HRF_BANDS_RECOMPUTE : HRF_BANDS_KEEP))
            continue;
        HRF_TRY(search_all(&found[i], err));
        if (found[i].has_best && (best == NULL || is_better(&found[i].best, &best->best)))
            best = &found[i];
    }
    if (best == NULL)
        return refuse(found, options, err);
    *out = best->best;
    return HRF_OK;
}

/* Packed weights and workspace are known only after a choice was measured. */
enum hrf_status hrf_bands_fit(const struct hrf_graph *graph,
                              const struct hrf_bands_options *options, hrf_bands_measure *measure,
                              void *context, struct hrf_error *err)
{
    enum { TRIES = 6 };
    const int64_t limit = options->limit_bytes;
    struct hrf_bands_options less = *options;
    struct hrf_bands_memory m = { 0 };
    struct hrf_bands_plan plan;
    int64_t needed = 0;
    for (int i = 0; i < TRIES; i++) {
        HRF_TRY(hrf_bands_choose(graph, &less, &plan, err));
        HRF_TRY(measure(context, &plan, &m, err));
        needed = hrf_bands_memory_total(&m);
        if (limit <= 0 || needed <= limit)
            return HRF_OK;
        less.limit_bytes = plan.activation_bytes - (needed - limit);
        if (options->n_bands > 0 || less.limit_bytes <= 0)
            break;
    }
    return hrf_error_set(err, HRF_E_NOMEM,
                         "the model in %d bands needs %.2f GiB (activations %.2f, weights %.2f: a "
                         "copy for each of %d shapes of bands; workspace %.2f) and engine.memory "
                         "allows %.2f GiB; use a smaller batch or image, or a lower precision",
                         plan.n_bands, (double)needed / 0x1p30, (double)m.activation_bytes / 0x1p30,
                         (double)m.weight_bytes / 0x1p30, m.n_kinds,
                         (double)m.workspace_bytes / 0x1p30, (double)limit / 0x1p30);
}
