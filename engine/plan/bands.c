/* bands.c - row tiles of a large image (bands.h): where they end, the partition and graphs that
 * compute them, the search of the best choice, and its predicted time and memory. */
#include "engine/plan/bands.h"

#include "base/min_max.h"
#include "engine/plan/line_cache.h"
#include "engine/plan/plan.h"
#include "engine/plan/stages.h"

#include <stdio.h>

/* ---- where bands end ---- */

/* The smallest number of image rows that corresponds to whole rows of every value. Bands whose
 * height is a multiple of it are of one kind. 1 if there is none smaller than the image. */
static void find_period(const struct hrf_graph *head, int64_t n_rows, int64_t *period)
{
    /* One row of value v covers down[v] / up[v] rows of the image. */
    HRF_AUTO_FREE int64_t *down = hrf_alloc_array(2 * (size_t)head->n_values + 1, sizeof *down);
    int64_t *up = down + head->n_values;
    for (int32_t v = 0; v < head->n_values; v++)
        down[v] = up[v] = 1;
    *period = 1;
    for (int32_t n = 0; n < head->n_nodes; n++) {
        const struct hrf_node *node = &head->nodes[n];
        const int32_t from = node->inputs[0], to = node->outputs[0];
        int64_t by[2];
        hrf_region_pace(head, node, &by[0], &by[1]);
        down[to] = down[from] * by[0];
        up[to] = up[from] * by[1];
        const int64_t common = hrf_gcd(down[to], up[to]);
        down[to] /= common;
        up[to] /= common;
        *period *= down[to] / hrf_gcd(*period, down[to]);
        if (*period < 1 || *period > n_rows) {
            *period = 1;
            return;
        }
    }
}

/* Sets the image row at which each band ends: equal heights with the rest in the last band or, if
 * that would give fewer bands, heights that are as equal as possible. */
static void set_ends(int64_t n_rows, int64_t period, int32_t n_bands, int64_t *ends)
{
    int64_t n_periods = (n_rows + period - 1) / period;
    if (n_periods < n_bands) {
        period = 1;
        n_periods = n_rows;
    }
    const int64_t each = (n_periods + n_bands - 1) / n_bands;
    const bool is_even = n_periods > 0 && (n_periods + each - 1) / each == n_bands;
    for (int32_t band = 0; band < n_bands; band++) {
        const int64_t end = period *
                            (is_even ? each * (band + 1) : n_periods * (band + 1) / n_bands);
        ends[band] = end < n_rows ? end : n_rows;
    }
}

static void make_bands_alike(const struct hrf_graph *head, int32_t *n_bands)
{
    const int64_t n_rows = head->values[head->inputs[0]].shape.dims[2];
    int64_t period;
    find_period(head, n_rows, &period);
    const int64_t n_periods = (n_rows + period - 1) / period;
    const int64_t each = (n_periods + *n_bands - 1) / *n_bands;
    if (n_periods >= *n_bands)
        *n_bands = (int32_t)((n_periods + each - 1) / each);
}

/* ---- parts ---- */

enum hrf_status hrf_bands_partition(const struct hrf_graph *head, int32_t n_bands, bool keeps,
                                    struct hrf_partition **out, struct hrf_error *err)
{
    struct hrf_layout_plan layout = hrf_layout_single();
    HRF_AUTO(hrf_partition) p = NULL;
    HRF_AUTO_FREE bool *recompute = hrf_calloc((size_t)head->n_values + 1, sizeof *recompute);
    HRF_AUTO_FREE int64_t *ends = hrf_calloc((size_t)n_bands, sizeof *ends);
    const struct hrf_shape *image = &head->values[head->inputs[0]].shape;
    int64_t period = 1;
    if (image->rank != 4)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "the model's input is no image, so it has no bands of rows: give "
                             "{engine.memory} more, or use a smaller batch");
    find_period(head, image->dims[2], &period);
    set_ends(image->dims[2], period, n_bands, ends);
    layout.rows = n_bands;
    for (int32_t v = 0; v < head->n_values; v++)
        recompute[v] = !keeps;
    const struct hrf_partition_options options = { .recompute = recompute,
                                                   .keep_outputs = true,
                                                   .fronts = keeps ? ends : NULL };
    HRF_TRY(hrf_partition_create(head, &layout, &options, &p, err));
    for (int32_t n = 0; n < head->n_nodes; n++)
        if (!p->is_split[head->nodes[n].outputs[0]])
            return hrf_error_set(err, HRF_E_UNSUPPORTED,
                                 "node '%s' (%s) cannot be computed in %d bands of rows; use more "
                                 "memory ({engine.memory})",
                                 head->nodes[n].name, hrf_op_name(head->nodes[n].op), n_bands);
    HRF_MOVE(*out, p);
    return HRF_OK;
}

/* Replaces a part of an output by the sum over its pixels. */
static enum hrf_status add_sum(struct hrf_graph *graph, int32_t *output, struct hrf_error *err)
{
    const struct hrf_value *part = &graph->values[*output];
    const struct hrf_quantization quantization = part->quantization;
    const enum hrf_dtype type = hrf_region_sum_type(part->dtype);
    const struct hrf_shape shape = { .rank = 4,
                                     .dims = { part->shape.dims[0], part->shape.dims[1], 1, 1 } };
    const struct hrf_attributes attributes = hrf_attributes_default();
    HRF_AUTO_FREE char *name = hrf_format("%s.sum", part->name);
    int32_t sum;
    HRF_TRY(hrf_graph_add_value(graph, name, type, &shape, NULL, &sum, err));
    graph->values[sum].quantization = quantization;
    HRF_TRY(hrf_graph_add_node(graph, HRF_OP_POOL_SUM, name, output, 1, &sum, 1, &attributes, err));
    *output = sum;
    return HRF_OK;
}

enum hrf_status hrf_bands_graph(const struct hrf_partition *partition,
                                const struct hrf_halves *halves, int32_t band,
                                struct hrf_graph **out, struct hrf_rank_map **map_out,
                                struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_rank_map) map = NULL;
    HRF_TRY(hrf_partition_graph(partition, band, &graph, &map, err));
    for (int32_t i = 0, at = 0; i < halves->n_crossings; i++) {
        const struct hrf_box *part = hrf_partition_box(partition, halves->crossings[i].in_head,
                                                       band);
        if (hrf_box_is_empty(part))
            continue;
        if (halves->crossings[i].is_summed)
            HRF_TRY(add_sum(graph, &graph->outputs[at], err));
        at++;
    }
    *out = graph;
    *map_out = map;
    graph = NULL;
    map = NULL;
    return HRF_OK;
}

static bool are_as_long(const struct hrf_box *u, const struct hrf_box *v, int axis)
{
    return u->hi[axis] - u->lo[axis] == v->hi[axis] - v->lo[axis];
}

static bool are_brought_alike(const struct hrf_partition *p, int32_t a, int32_t b)
{
    for (int32_t e = 0; e < p->n_exchanges; e++) { /* an exchange is a crop of what the band has */
        const struct hrf_exchange *x = &p->exchanges[e];
        const struct hrf_box *u = &x->need[a], *v = &x->need[b];
        if (hrf_box_is_empty(u) || hrf_box_is_empty(v)) {
            if (hrf_box_is_empty(u) != hrf_box_is_empty(v))
                return false;
            continue;
        }
        for (int axis = 0; axis < 2; axis++)
            if (!are_as_long(u, v, axis) || !are_as_long(&x->local[a], &x->local[b], axis) ||
                u->lo[axis] - x->local[a].lo[axis] != v->lo[axis] - x->local[b].lo[axis])
                return false;
    }
    return true;
}

static bool are_alike(const struct hrf_partition *p, int32_t a, int32_t b)
{
    for (int32_t v = 0; v < p->graph->n_values; v++) {
        const struct hrf_box *u = hrf_partition_box(p, v, a), *w = hrf_partition_box(p, v, b);
        const int32_t n = p->graph->values[v].producer;
        if (!are_as_long(u, w, 0) || !are_as_long(u, w, 1))
            return false;
        if (n < 0 || hrf_box_is_empty(u))
            continue;
        if (!hrf_region_are_alike(p->graph, &p->graph->nodes[n], u, w))
            return false;
    }
    return are_brought_alike(p, a, b) && (p->fronts == NULL || hrf_line_cache_are_alike(p, a, b));
}

void hrf_bands_find_kinds(const struct hrf_partition *p, int32_t *kind_of, int32_t *first_of,
                          int32_t *n_kinds)
{
    *n_kinds = 0;
    for (int32_t band = 0; band < p->n_ranks; band++) {
        int32_t k = 0;
        while (k < *n_kinds && !are_alike(p, first_of[k], band))
            k++;
        if (k == *n_kinds)
            first_of[(*n_kinds)++] = band;
        kind_of[band] = k;
    }
}

void hrf_bands_text(const struct hrf_bands_plan *plan, char out[96])
{
    if (plan->keeps)
        snprintf(out, 96, "in %d bands, %.1f MiB of rows kept", plan->n_bands,
                 (double)plan->line_cache_bytes / 0x1p20);
    else
        snprintf(out, 96, "in %d bands, %.1f %% computed twice", plan->n_bands,
                 100 * (plan->recomputed - 1));
}

enum { MAX_BANDS = 256 };

/* Rates of a machine of which nothing is known, as in hrf_stages_rough_seconds(). */
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
    const int32_t first = asked > 0 ? asked : 2, last = asked > 0 ? asked : MAX_BANDS;
    int32_t before = 0;
    for (int32_t n = first; n <= last; n += n < 8 ? 1 : n / 4) {
        struct hrf_bands_plan plan;
        int32_t n_bands = n;
        if (s->keeps && asked == 0)
            make_bands_alike(halves->head, &n_bands);
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

/* A cut that is not possible is passed over; any other error ends the search. */
static enum hrf_status search_cut(struct search *s, int32_t cut, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_halves) halves = { .head = NULL };
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_status status = hrf_halves_create(s->graph, cut, true, &halves, &why);
    if (status == HRF_OK)
        status = search_bands(s, &halves, cut, &why);
    return status == HRF_OK || status == HRF_E_UNSUPPORTED ? HRF_OK : hrf_error_pass(err, &why);
}

static enum hrf_status search_all(struct search *s, struct hrf_error *err)
{
    HRF_AUTO_FREE int32_t *last_readers = hrf_alloc_array((size_t)s->graph->n_values + 1,
                                                          sizeof *last_readers);
    hrf_graph_find_last_readers(s->graph, last_readers);
    for (int32_t cut = 1; cut < s->graph->n_nodes; cut++) {
        if (!hrf_region_can_split(s->graph, &s->graph->nodes[cut - 1]))
            break;
        if (hrf_halves_is_single(s->graph, last_readers, cut))
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

/* Names the node that the image meets before it could be cut in two. */
static enum hrf_status refuse_network(const struct hrf_graph *graph, struct hrf_error *err)
{
    int32_t n = 0;
    while (n + 1 < graph->n_nodes && hrf_region_can_split(graph, &graph->nodes[n]))
        n++;
    return hrf_error_set(err, HRF_E_UNSUPPORTED,
                         "the network cannot be run in bands of rows: up to node '%s' (%s), which "
                         "needs all of its input, no single tensor passes between two nodes; use "
                         "more memory ({engine.memory}), or a smaller batch or image",
                         graph->nodes[n].name, hrf_op_name(graph->nodes[n].op));
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
        return refuse_network(found->graph, err);
    return hrf_error_set(
        err, HRF_E_NOMEM,
        "%.2f GiB of activations are allowed, and even %d bands need %.2f GiB; "
        "allow more ({engine.memory}), or use a smaller batch or image, or a lower "
        "precision",
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
                         "copy for each of %d shapes of bands; workspace %.2f) and {engine.memory} "
                         "allows %.2f GiB; use a smaller batch or image, or a lower precision",
                         plan.n_bands, (double)needed / 0x1p30, (double)m.activation_bytes / 0x1p30,
                         (double)m.weight_bytes / 0x1p30, m.n_kinds,
                         (double)m.workspace_bytes / 0x1p30, (double)limit / 0x1p30);
}

/* Counts the bytes that are read and written by copies: of own rows that are not yet in place, and
 * of kept rows. */
static double copied_bytes(const struct hrf_plan *plan)
{
    double n_bytes = 0;
    for (int32_t i = 0; i < plan->n_transfers; i++)
        n_bytes += 2 * (double)hrf_area_bytes(&plan->transfers[i].from);
    return n_bytes;
}

/* Finds the time and memory of one graph. Graphs that run one after the other share `memory`, so
 * it is a maximum. `map` belongs to a band's graph; NULL: the graph is the tail. */
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
    HRF_AUTO_RELEASE(hrf_halves) halves = { .head = NULL };
    enum hrf_status status = hrf_halves_create(to->graph, plan->cut, false, &halves, err);
    if (status == HRF_OK)
        status = predict(to, &halves, plan, err);
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
