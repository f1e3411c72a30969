/* stages.c - cuts a graph into stages by dynamic programming (stages.h). */
#include "engine/plan/stages.h"

#include <math.h>
#include <string.h>

static double value_bytes(const struct hrf_graph *graph, int32_t value)
{
    return (double)hrf_shape_count(&graph->values[value].shape) *
           (double)hrf_dtype_size(graph->values[value].dtype);
}

double hrf_stages_rough_seconds(const struct hrf_graph *graph, const struct hrf_node *node)
{
    /* The rates of a core of 150 GFLOPS and 10 GB/s. */
    double bytes = value_bytes(graph, node->outputs[0]);
    for (int32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] >= 0)
            bytes += value_bytes(graph, node->inputs[i]);
    return hrf_node_operations(graph, node) / 150e9 + bytes / 10e9;
}

/* ---- facts of the graph that do not depend on the cut ---- */

struct facts {
    const struct hrf_graph *graph;
    const struct hrf_stage_costs *costs;
    int32_t *last_use; /* [values] the last node that reads the value; -1: none */
    double *alive;     /* [nodes + 1] bytes of the values that are live while the node runs */
    double *constants; /* [nodes] bytes, each constant with the last node that reads it */
    int32_t *counted;  /* [values] scratch: the end of the stage for which it is counted as taken */
};

static double transfer(const struct facts *f, int32_t value)
{
    return f->costs->seconds_per_message +
           f->costs->seconds_per_byte * value_bytes(f->graph, value);
}

static void find_memory(struct facts *f)
{
    const struct hrf_graph *graph = f->graph;
    for (int32_t v = 0; v < graph->n_values; v++) {
        if ((f->last_use[v] < 0 && graph->values[v].producer < 0) ||
            graph->values[v].producer >= graph->n_nodes)
            continue;
        if (!hrf_graph_is_variable(graph, v)) {
            f->constants[f->last_use[v]] += value_bytes(graph, v);
            continue;
        }
        const int32_t begin = graph->values[v].producer > 0 ? graph->values[v].producer : 0;
        const int32_t end = f->last_use[v] > begin ? f->last_use[v] : begin;
        f->alive[begin] += value_bytes(graph, v); /* what begins and ends; summed up below */
        f->alive[end + 1] -= value_bytes(graph, v);
    }
    for (int32_t n = 1; n < graph->n_nodes; n++)
        f->alive[n] += f->alive[n - 1];
}

/* The cost of a stage with a fixed end, while its begin moves back. */
struct stage {
    int32_t begin, end;
    double seconds, taken, given, transit, constants, alive;
};

/* Adds node begin - 1 to the stage. */
static void grow(const struct facts *f, struct stage *s)
{
    const struct hrf_graph *graph = f->graph;
    const int32_t n = --s->begin;
    const struct hrf_node *node = &graph->nodes[n];
    s->seconds += f->costs->seconds[n];
    s->constants += f->constants[n];
    s->alive = fmax(s->alive, f->alive[n]);
    for (int32_t k = 0; k < node->n_outputs; k++) {
        const int32_t v = node->outputs[k];
        if (v < 0)
            continue;
        if (f->last_use[v] >= s->end) {
            s->given += transfer(f, v);
            s->transit += f->costs->transit_seconds_per_byte * value_bytes(f->graph, v);
        }
        s->taken -= f->counted[v] == s->end ? transfer(f, v)
                                            : 0; /* the stage now makes the value itself */
    }
    for (int32_t k = 0; k < node->n_inputs; k++) {
        const int32_t v = node->inputs[k];
        if (!hrf_graph_is_variable(graph, v) || graph->values[v].producer < 0 ||
            f->counted[v] == s->end)
            continue;
        f->counted[v] = s->end;
        s->taken += transfer(f, v);
    }
}

static bool fits(const struct facts *f, const struct stage *s)
{
    return f->costs->memory_bytes <= 0 || s->constants + s->alive <= (double)f->costs->memory_bytes;
}

static double seconds_of(const struct stage *s)
{
    return fmax(s->seconds + s->taken + s->given, s->transit);
}

static void make_facts(const struct hrf_graph *graph, const struct hrf_stage_costs *costs,
                       struct facts *f)
{
    const size_t n_nodes = (size_t)graph->n_nodes + 1, n_values = (size_t)graph->n_values + 1;
    *f = (struct facts){ .graph = graph,
                         .costs = costs,
                         .last_use = hrf_calloc(n_values, sizeof *f->last_use),
                         .alive = hrf_calloc(n_nodes, sizeof *f->alive),
                         .constants = hrf_calloc(n_nodes, sizeof *f->constants),
                         .counted = hrf_calloc(n_values, sizeof *f->counted) };
    hrf_graph_find_last_readers(f->graph, f->last_use);
    find_memory(f);
}

static void release_facts(struct facts *f)
{
    hrf_free(f->last_use);
    hrf_free(f->alive);
    hrf_free(f->constants);
    hrf_free(f->counted);
}

/* ---- the cut ---- */

struct table {
    double *best;  /* [stage][end]: the slowest of stage + 1 stages over the first `end` nodes */
    int32_t *from; /* [stage][end]: where its last stage begins */
    size_t width;
};

/* The cost of the slowest stage if the nodes' seconds are shared equally: the best cut has no
 * slower stage. INFINITY if those stages need too much memory or no seconds are known. */
static double bound_of(const struct facts *f, const double *before, int32_t n_stages)
{
    const int32_t n = f->graph->n_nodes;
    double slowest = 0;
    for (int32_t s = n_stages - 1, end = n; s >= 0; s--) {
        struct stage stage = { .begin = end, .end = end };
        while (stage.begin > s &&
               (stage.begin == end || s == 0 || before[stage.begin] > before[n] * s / n_stages))
            grow(f, &stage);
        slowest = fits(f, &stage) ? fmax(slowest, seconds_of(&stage)) : INFINITY;
        end = stage.begin;
    }
    memset(f->counted, 0, (size_t)f->graph->n_values * sizeof *f->counted);
    return slowest > 0 ? slowest * (1 + 1e-9)
                       : INFINITY; /* sums in another order are rounded differently */
}

/* The stages that can be the last one over the first `end` nodes if none takes longer than `bound`:
 * the stages up to it hold those nodes, and the stages after it all others. */
struct range {
    int32_t first, last;
};

static struct range possible_stages(const double *before, int32_t n, int32_t end, int32_t n_stages,
                                    double bound)
{
    const double from = ceil(before[end] / bound) - 1;
    const double to = n_stages - 1 - ceil((before[n] - before[end]) / bound);
    return (struct range){ from > 0 ? (int32_t)from : 0, to >= 0 ? (int32_t)to : -1 };
}

/* The first `stage->end` nodes with `stage` as the last of s + 1 stages, for every possible s. */
static void relax(struct table *t, const struct stage *stage, struct range possible)
{
    const double own = seconds_of(stage);
    const int32_t first = stage->begin == 0 ? 0 : possible.first == 0 ? 1 : possible.first;
    const int32_t last = stage->begin == 0 ? 0 : possible.last;
    for (int32_t s = first; s <= last; s++) {
        const size_t cell = (size_t)s * t->width + (size_t)stage->end;
        const double slowest_before =
            s == 0 ? 0 : t->best[(size_t)(s - 1) * t->width + (size_t)stage->begin];
        const double slowest = fmax(slowest_before, own);
        if (slowest < t->best[cell]) {
            t->best[cell] = slowest;
            t->from[cell] = stage->begin;
        }
    }
}

/* `before`: [nodes + 1] the seconds of all nodes before. Cuts that are left out are slower than
 * `bound`, so the best cut is still found. Of 50,000 equal nodes only a few ends per stage are
 * examined, not the square of their number. */
static void fill_table(const struct facts *f, const double *before, int32_t n_stages,
                       struct table *t)
{
    const int32_t n = f->graph->n_nodes;
    const double bound = bound_of(f, before, n_stages);
    for (size_t i = 0; i < (size_t)n_stages * t->width; i++)
        t->best[i] = INFINITY;
    /* The cost of one stage depends only on the end of the graph. */
    for (int32_t end = n_stages == 1 ? n : 1; end <= n; end++) {
        struct stage last = { .begin = end, .end = end };
        const struct range possible = possible_stages(before, n, end, n_stages, bound);
        if (possible.first > possible.last)
            continue;
        while (last.begin > 0) {
            grow(f, &last);
            if (!fits(f, &last) || last.seconds > bound)
                break; /* a longer one fits no better, and is no faster */
            relax(t, &last, possible);
        }
    }
}

static enum hrf_status refuse_memory(const struct facts *f, int32_t n_stages, struct hrf_error *err)
{
    double least = 0; /* the memory that a stage with only the largest node needs */
    for (int32_t n = 0; n < f->graph->n_nodes; n++)
        least = fmax(least, f->constants[n] + f->alive[n]);
    return hrf_error_set(err, HRF_E_USER,
                         "no cut into %d stages keeps each below %.2f GiB; its largest node alone "
                         "needs %.2f GiB, so take more stages, a smaller micro-batch or spatial=",
                         n_stages, (double)f->costs->memory_bytes / 0x1p30, least / 0x1p30);
}

static enum hrf_status cut(const struct facts *f, int32_t n_stages, int32_t *stage_of,
                           struct hrf_error *err)
{
    const int32_t n = f->graph->n_nodes;
    const size_t width = (size_t)n + 1, cells = width * (size_t)n_stages;
    HRF_AUTO_FREE double *best = hrf_alloc_array(cells, sizeof *best);
    HRF_AUTO_FREE int32_t *from = hrf_calloc(cells, sizeof *from);
    HRF_AUTO_FREE double *before = hrf_calloc(width, sizeof *before);
    struct table table = { best, from, width };
    for (int32_t i = 0; i < n; i++)
        before[i + 1] = before[i] + f->costs->seconds[i];
    fill_table(f, before, n_stages, &table);
    if (isinf(best[(size_t)(n_stages - 1) * width + (size_t)n]))
        return refuse_memory(f, n_stages, err);
    for (int32_t s = n_stages - 1, end = n; s >= 0; s--) {
        const int32_t begin = from[(size_t)s * width + (size_t)end];
        for (int32_t i = begin; i < end; i++)
            stage_of[i] = s;
        end = begin;
    }
    return HRF_OK;
}

/* ---- the backward pass ---- */

/* owner_of[n]: the node of the network to whose stage node n belongs: the node itself, or the one
 * whose gradients it computes, or what a pass has fused that one into. A node that a pass has added
 * to the backward pass belongs to the node after it. *n_forward: the nodes before the backward
 * pass. */
static void find_owners(const struct hrf_graph *graph, int32_t *owner_of, int32_t *n_forward)
{
    int32_t most = 0, owner = 0;
    for (int32_t n = 0; n < graph->n_nodes; n++)
        most = graph->nodes[n].origin > most ? graph->nodes[n].origin : most;
    HRF_AUTO_FREE int32_t *by_origin = hrf_calloc((size_t)most + 1, sizeof *by_origin);
    for (*n_forward = 0; *n_forward < graph->n_nodes; ++*n_forward) {
        const struct hrf_node *node = &graph->nodes[*n_forward];
        if (node->is_backward)
            break;
        owner_of[*n_forward] = *n_forward;
        if (node->origin > 0)
            by_origin[node->origin] = *n_forward;
    }
    for (int32_t i = 1; i <= most; i++)
        by_origin[i] = by_origin[i] > by_origin[i - 1] ? by_origin[i] : by_origin[i - 1];
    for (int32_t n = graph->n_nodes - 1; n >= *n_forward; n--) {
        if (graph->nodes[n].origin > 0)
            owner = by_origin[graph->nodes[n].origin];
        owner_of[n] = owner;
    }
}

enum hrf_status hrf_stages_cut(const struct hrf_graph *graph, const struct hrf_stage_costs *costs,
                               int32_t n_stages, int32_t *stage_of, struct hrf_error *err)
{
    struct facts f;
    struct hrf_graph network = *graph; /* its backward pass comes last, and is left out */
    struct hrf_stage_costs both = *costs;
    const size_t n_nodes = (size_t)graph->n_nodes + 1;
    HRF_AUTO_FREE int32_t *owner_of = hrf_alloc_array(n_nodes, sizeof *owner_of);
    HRF_AUTO_FREE double *seconds = hrf_calloc(n_nodes, sizeof *seconds);
    find_owners(graph, owner_of, &network.n_nodes);
    if (n_stages > network.n_nodes)
        return hrf_error_set(err, HRF_E_USER,
                             "%d stages for a network of %d nodes; at most stages=%d would work",
                             n_stages, network.n_nodes, network.n_nodes);
    for (int32_t n = 0; n < graph->n_nodes; n++)
        seconds[owner_of[n]] += costs->seconds[n];
    both.seconds = seconds;
    make_facts(&network, &both, &f);
    const enum hrf_status status = cut(&f, n_stages, stage_of, err);
    for (int32_t n = network.n_nodes; n < graph->n_nodes && status == HRF_OK; n++)
        stage_of[n] = stage_of[owner_of[n]];
    release_facts(&f);
    return status;
}
