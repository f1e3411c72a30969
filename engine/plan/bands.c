/* bands.c - row tiles of a large image (bands.h): where they end, and the partition and graphs
 * that compute them. */
#include "engine/plan/bands.h"

#include "engine/plan/line_cache.h"

#include <stdio.h>

/* ---- where bands end ---- */

static int64_t greatest_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* For every `down` rows of its input the operator's output has `up` rows. */
static void find_steps(const struct hrf_graph *graph, const struct hrf_node *node, int64_t *down,
                       int64_t *up)
{
    const struct hrf_attributes *a = &node->attributes;
    *down = *up = 1;
    if (node->op == HRF_OP_CONV || node->op == HRF_OP_MAX_POOL || node->op == HRF_OP_AVERAGE_POOL)
        *down = a->window.stride[0];
    else if (node->op == HRF_OP_CONV_TRANSPOSE)
        *up = a->window.stride[0];
    else if (node->op == HRF_OP_SPACE_TO_DEPTH)
        *down = a->size;
    else if (node->op == HRF_OP_DEPTH_TO_SPACE)
        *up = a->size;
    for (int32_t i = 0; i < a->n_axes && node->op == HRF_OP_SLICE; i++)
        *down = a->axes[i] == 2 ? a->steps[i] : *down;
    if (node->op == HRF_OP_RESIZE) {
        *down = graph->values[node->inputs[0]].shape.dims[2];
        *up = graph->values[node->outputs[0]].shape.dims[2];
    }
}

/* The smallest number of image rows that corresponds to whole rows of every value. Bands whose
 * height is a multiple of it are of one kind. 1 if there is none smaller than the image. */
static enum hrf_status find_period(const struct hrf_graph *head, int64_t n_rows, int64_t *period,
                                   struct hrf_error *err)
{
    /* One row of value v covers down[v] / up[v] rows of the image. */
    HRF_AUTO_FREE int64_t *down = hrf_alloc_array(2 * (size_t)head->n_values + 1, sizeof *down);
    HRF_CHECK_MEMORY(down != NULL, err, "no memory to plan bands");
    int64_t *up = down + head->n_values;
    for (int32_t v = 0; v < head->n_values; v++)
        down[v] = up[v] = 1;
    *period = 1;
    for (int32_t n = 0; n < head->n_nodes; n++) {
        const struct hrf_node *node = &head->nodes[n];
        const int32_t from = node->inputs[0], to = node->outputs[0];
        int64_t by[2];
        find_steps(head, node, &by[0], &by[1]);
        down[to] = down[from] * by[0];
        up[to] = up[from] * by[1];
        const int64_t common = greatest_divisor(down[to], up[to]);
        down[to] /= common;
        up[to] /= common;
        *period *= down[to] / greatest_divisor(*period, down[to]);
        if (*period < 1 || *period > n_rows) {
            *period = 1;
            return HRF_OK;
        }
    }
    return HRF_OK;
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

enum hrf_status hrf_bands_make_alike(const struct hrf_graph *head, int32_t *n_bands,
                                     struct hrf_error *err)
{
    const int64_t n_rows = head->values[head->inputs[0]].shape.dims[2];
    int64_t period;
    HRF_TRY(find_period(head, n_rows, &period, err));
    const int64_t n_periods = (n_rows + period - 1) / period;
    const int64_t each = (n_periods + *n_bands - 1) / *n_bands;
    if (n_periods >= *n_bands)
        *n_bands = (int32_t)((n_periods + each - 1) / each);
    return HRF_OK;
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
    HRF_CHECK_MEMORY(recompute != NULL && ends != NULL, err, "no memory to plan bands");
    if (image->rank != 4)
        return hrf_error_set(err, HRF_E_UNSUPPORTED, "bands of an input that is no image");
    HRF_TRY(find_period(head, image->dims[2], &period, err));
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
                                 "node '%s' cannot be computed in %d bands of rows",
                                 head->nodes[n].name, n_bands);
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
    HRF_CHECK_MEMORY(name != NULL, err, "no memory for a band's graph");
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

static bool are_brought_alike(const struct hrf_partition *p, int32_t a, int32_t b)
{
    for (int32_t e = 0; e < p->n_exchanges; e++) { /* a crop of what the band has */
        const struct hrf_exchange *x = &p->exchanges[e];
        const struct hrf_box *u = &x->need[a], *v = &x->need[b];
        if (hrf_box_is_empty(u) || hrf_box_is_empty(v)) {
            if (hrf_box_is_empty(u) != hrf_box_is_empty(v))
                return false;
            continue;
        }
        if (u->hi[0] - u->lo[0] != v->hi[0] - v->lo[0] ||
            x->local[a].hi[0] - x->local[a].lo[0] != x->local[b].hi[0] - x->local[b].lo[0] ||
            u->lo[0] - x->local[a].lo[0] != v->lo[0] - x->local[b].lo[0])
            return false;
    }
    return true;
}

static bool are_alike(const struct hrf_partition *p, int32_t a, int32_t b)
{
    for (int32_t v = 0; v < p->graph->n_values; v++) {
        const struct hrf_box *u = hrf_partition_box(p, v, a), *w = hrf_partition_box(p, v, b);
        const int32_t n = p->graph->values[v].producer;
        if (u->hi[0] - u->lo[0] != w->hi[0] - w->lo[0])
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
