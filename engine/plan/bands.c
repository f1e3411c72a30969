#include "engine/plan/bands.h"

#include "engine/ir/resize.h"
#include "engine/plan/plan.h"

#include <float.h>
#include <string.h>

enum { MOST_BANDS = 256 };

enum hrf_status hrf_bands_partition(const struct hrf_graph *head, int32_t n_bands,
                                    struct hrf_partition **out, struct hrf_error *err)
{
    struct hrf_layout_plan layout = hrf_layout_single();
    HRF_AUTO(hrf_partition) p = NULL;
    HRF_AUTO_FREE bool *recompute = hrf_calloc((size_t)head->n_values + 1, sizeof *recompute);
    if (recompute == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to plan bands");
    layout.rows = n_bands;
    for (int32_t v = 0; v < head->n_values; v++)
        recompute[v] = true;
    const struct hrf_partition_wishes wishes = { .recompute = recompute, .keep_outputs = true };
    HRF_TRY(hrf_partition_create(head, &layout, &wishes, &p, err));
    for (int32_t n = 0; n < head->n_nodes; n++)
        if (!p->is_split[head->nodes[n].outputs[0]])
            return hrf_error_set(err, HRF_E_UNSUPPORTED,
                                 "node '%s' cannot be computed in %d bands of rows",
                                 head->nodes[n].name, n_bands);
    *out = p;
    p = NULL;
    return HRF_OK;
}

/* Adds the sum over an output's part, which becomes the output. */
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
    if (name == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a band's graph");
    HRF_TRY(hrf_graph_add_value(graph, name, type, &shape, NULL, &sum, err));
    graph->values[sum].quantization = quantization;
    HRF_TRY(hrf_graph_add_node(graph, HRF_OP_POOL_SUM, name, output, 1, &sum, 1, &attributes, err));
    *output = sum;
    return HRF_OK;
}

enum hrf_status hrf_bands_graph(const struct hrf_partition *partition,
                                const struct hrf_halves *halves, int32_t band,
                                struct hrf_graph **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_TRY(hrf_partition_graph(partition, band, &graph, err));
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
    graph = NULL;
    return HRF_OK;
}

/* The rows of a RESIZE come from the same places of what each of the bands has. */
static bool resizes_alike(const struct hrf_graph *graph, const struct hrf_node *node,
                          const struct hrf_box *a, const struct hrf_box *b)
{
    const struct hrf_attributes x = hrf_region_attributes(graph, node, a);
    const struct hrf_attributes y = hrf_region_attributes(graph, node, b);
    for (int64_t i = 0; node->op == HRF_OP_RESIZE && i < a->hi[0] - a->lo[0]; i++) {
        const struct hrf_resize_tap u = hrf_resize_tap_at(&x.resize, 0, 0, 0, i);
        const struct hrf_resize_tap v = hrf_resize_tap_at(&y.resize, 0, 0, 0, i);
        for (int32_t t = 0; t < hrf_resize_n(&x.resize); t++)
            if (u.index[t] != v.index[t] || u.weight[t] != v.weight[t])
                return false;
    }
    return true;
}

bool hrf_bands_are_alike(const struct hrf_partition *p, int32_t a, int32_t b)
{
    for (int32_t v = 0; v < p->graph->n_values; v++) {
        const struct hrf_box *u = hrf_partition_box(p, v, a), *w = hrf_partition_box(p, v, b);
        const int32_t n = p->graph->values[v].producer;
        if (u->hi[0] - u->lo[0] != w->hi[0] - w->lo[0])
            return false;
        if (n < 0 || hrf_box_is_empty(u))
            continue;
        const struct hrf_attributes x = hrf_region_attributes(p->graph, &p->graph->nodes[n], u);
        const struct hrf_attributes y = hrf_region_attributes(p->graph, &p->graph->nodes[n], w);
        if (x.window.pad_begin[0] != y.window.pad_begin[0] ||
            x.window.pad_end[0] != y.window.pad_end[0] || x.pads[2] != y.pads[2] ||
            x.pads[6] != y.pads[6] || !resizes_alike(p->graph, &p->graph->nodes[n], u, w))
            return false;
    }
    for (int32_t e = 0; e < p->n_exchanges; e++) { /* a crop of what the band has */
        const struct hrf_exchange *x = &p->exchanges[e];
        if (x->need[a].lo[0] - x->local[a].lo[0] != x->need[b].lo[0] - x->local[b].lo[0] ||
            x->need[a].hi[0] - x->need[a].lo[0] != x->need[b].hi[0] - x->need[b].lo[0])
            return false;
    }
    return true;
}

/* ---- choosing ---- */

static double operations_of(const struct hrf_graph *graph, int32_t first, int32_t end)
{
    double sum = 0;
    for (int32_t n = first; n < end; n++)
        sum += hrf_node_operations(graph, &graph->nodes[n]);
    return sum;
}

/* Operations of all bands: each node's in proportion to the rows that are computed of it. */
static double banded_operations(const struct hrf_graph *graph, const struct hrf_partition *p,
                                int32_t cut)
{
    double sum = 0;
    for (int32_t n = 0; n < cut; n++) {
        const struct hrf_node *node = &p->graph->nodes[n];
        int64_t rows = 0;
        for (int32_t band = 0; band < p->n_ranks; band++) {
            const struct hrf_box *box = hrf_partition_box(p, node->outputs[0], band);
            rows += hrf_box_is_empty(box) ? 0 : box->hi[0] - box->lo[0];
        }
        sum += hrf_node_operations(graph, &graph->nodes[n]) * (double)rows /
               (double)p->graph->values[node->outputs[0]].shape.dims[2];
    }
    return sum;
}

static enum hrf_status arena_of(const struct hrf_graph *graph, int64_t *bytes,
                                struct hrf_error *err)
{
    HRF_AUTO(hrf_plan) plan = NULL;
    HRF_TRY(hrf_plan_create(graph, &plan, err));
    *bytes = plan->arena_bytes;
    return HRF_OK;
}

/* The largest band stands in the middle: both its sides overlap. */
static enum hrf_status try_bands(const struct hrf_graph *graph, const struct hrf_halves *halves,
                                 int32_t cut, int32_t n_bands, struct hrf_bands_plan *out,
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_partition) p = NULL;
    HRF_AUTO(hrf_graph) band = NULL;
    int64_t tail, largest;
    HRF_TRY(hrf_bands_partition(halves->head, n_bands, &p, err));
    HRF_TRY(hrf_bands_graph(p, halves, n_bands / 2, &band, err));
    HRF_TRY(arena_of(halves->tail, &tail, err));
    HRF_TRY(arena_of(band, &largest, err));
    const double all = operations_of(graph, 0, graph->n_nodes);
    const double with = banded_operations(graph, p, cut) +
                        operations_of(graph, cut, graph->n_nodes);
    *out = (struct hrf_bands_plan){ .cut = cut,
                                    .n_bands = n_bands,
                                    .activation_bytes = tail + largest,
                                    .recomputed = all > 0 ? with / all : 1 };
    return HRF_OK;
}

struct search {
    const struct hrf_graph *graph;
    int64_t limit;
    int32_t n_bands; /* 0: any */
    struct hrf_bands_plan best, least;
    bool has_best, has_least;
};

static void consider(struct search *s, const struct hrf_bands_plan *plan)
{
    if (!s->has_least || plan->activation_bytes < s->least.activation_bytes)
        s->least = *plan;
    s->has_least = true;
    const bool fits = s->limit <= 0 || plan->activation_bytes <= s->limit;
    /* Without a limit the number of bands was asked for: then for what they save. */
    const bool is_smaller = plan->activation_bytes < s->best.activation_bytes;
    const bool better = !s->has_best ||
                        (s->limit <= 0
                             ? is_smaller
                             : plan->recomputed < s->best.recomputed ||
                                   (plan->recomputed <= s->best.recomputed && is_smaller));
    if (fits && better) {
        s->best = *plan;
        s->has_best = true;
    }
}

/* Fewest bands first: more of them recompute more, so the first that fits is this cut's best. */
static enum hrf_status search_cut(struct search *s, int32_t cut, struct hrf_error *err)
{
    struct hrf_halves halves = { .head = NULL };
    struct hrf_error why;
    if (hrf_halves_create(s->graph, cut, true, &halves, &why) != HRF_OK)
        return why.status == HRF_E_NOMEM ? hrf_error_set(err, HRF_E_NOMEM, "%s", why.text) : HRF_OK;
    const int32_t first = s->n_bands > 0 ? s->n_bands : 2;
    const int32_t last = s->n_bands > 0 ? s->n_bands : MOST_BANDS;
    enum hrf_status status = HRF_OK;
    for (int32_t n = first; n <= last && status == HRF_OK; n += n < 8 ? 1 : n / 4) {
        struct hrf_bands_plan plan;
        status = try_bands(s->graph, &halves, cut, n, &plan, err);
        if (status != HRF_OK)
            break;
        consider(s, &plan);
        if (s->limit <= 0 || plan.activation_bytes <= s->limit ||
            (s->limit > 0 && s->has_best && plan.recomputed >= s->best.recomputed))
            break;
    }
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

/* One value crosses: a cut through a block would carry its branches too. */
static bool is_worth_trying(const struct hrf_graph *graph, const int32_t *last_readers, int32_t cut)
{
    int32_t n = 0;
    for (int32_t v = 0; v < graph->n_values; v++) {
        const int32_t producer = graph->values[v].producer;
        n += producer >= 0 && producer < cut && last_readers[v] >= cut;
    }
    return n == 1;
}

enum hrf_status hrf_bands_choose(const struct hrf_graph *graph, int64_t limit_bytes,
                                 int32_t n_bands, struct hrf_bands_plan *out, struct hrf_error *err)
{
    struct search s = { .graph = graph, .limit = limit_bytes, .n_bands = n_bands };
    HRF_AUTO_FREE int32_t *last_readers = find_last_readers(graph);
    if (last_readers == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to plan bands");
    for (int32_t cut = 1; cut < graph->n_nodes; cut++) {
        if (!hrf_region_can_split(graph, &graph->nodes[cut - 1]))
            break;
        if (is_worth_trying(graph, last_readers, cut))
            HRF_TRY(search_cut(&s, cut, err));
    }
    if (s.has_best) {
        *out = s.best;
        return HRF_OK;
    }
    if (s.has_least)
        return hrf_error_set(err, HRF_E_NOMEM,
                             "%.2f GiB of activations are allowed, and even %d bands need %.2f GiB",
                             (double)limit_bytes / 0x1p30, s.least.n_bands,
                             (double)s.least.activation_bytes / 0x1p30);
    return hrf_error_set(err, HRF_E_UNSUPPORTED,
                         "the network's first nodes cannot be run in bands of rows");
}
